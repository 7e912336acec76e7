"""A release, and local images beside it."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sample_documents import ACCOUNT, COST, SETTINGS

from covdp import open_dataset
from covdp.arrays import ImageArray
from covdp.descriptors import describe, domain
from covdp.geometry import MANIFOLDS
from covdp.mean import AdaptivePlan, mean, person_records
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP
from covdp.publish.release import observed_moments
from covdp.schema import ReleasedEntry, as_json

SIZE, N, LOCAL = 28, 400, 120
NAMES = ("tissue", "cells")
CARD = f'kind = "folder"\npath = "ward"\nchannels = 1\nclasses = {json.dumps(NAMES)}\n'
SPACE = MANIFOLDS["spd-log-euclidean"](k=5)


@cache
def images(label: int) -> ImageArray:
    """Return the tiles of a class, in one order."""
    tiles = np.concatenate(list(open_dataset("tiles").chunks(label=label)))
    return np.random.default_rng(6).permutation(tiles)


@cache
def row(label: int, mu: float, images_per_person: int = 1) -> dict[str, Any]:
    """Return a class of a document: the private mean of its first images."""
    points = describe(images(label)[:N], descriptor="oct5")
    if images_per_person > 1:
        points = person_records(points, np.arange(N) // images_per_person, SPACE)
    limit, noise = domain("oct5", height=SIZE, width=SIZE), FloatNoise(np.random.default_rng(label))
    release = mean(points, GDP(mu), domain=limit, manifold=SPACE, plan=AdaptivePlan(), noise=noise)
    moments = observed_moments(release)
    part = ReleasedEntry.model_construct(observed=moments, coordinates=release.coordinates)
    told = {"name": NAMES[label], "n": len(points), "manifold": SPACE.name, "label": label}
    return {
        **COST,
        **told,
        "point": release.point.tolist(),
        **json.loads(json.dumps(as_json(part))),
    }


def document(path: Path, mu: float = 2.0, *, per_person: int = 1, **settings: Any) -> Path:
    """Write the document of a release of both classes, n·μ of 800 where nothing else is said."""
    rows = [row(label, mu, per_person) for label in range(2)]
    known = {**SETTINGS, "descriptor": "oct5", "manifold": SPACE.name, "budget": mu}
    known |= {"image_height": SIZE, "image_width": SIZE, "name": path.stem, **settings}
    known["classes"] = [[label, name, rows[label]["n"]] for label, name in enumerate(NAMES)]
    values = {"title": "Ward", "settings": known, "classes": rows, "account": ACCOUNT}
    path.write_text(json.dumps(values | {"statement": [["Unit of privacy", "one image"]]}))
    return path


def put(folder: Path, change: Callable[[ImageArray], ImageArray] = lambda tiles: tiles) -> None:
    """Write a card and the local images of both classes, which the release does not hold."""
    (folder / "ward.toml").write_text(CARD)
    for label, name in enumerate(NAMES):
        (folder / "ward" / name).mkdir(parents=True)
        for number, tile in enumerate(change(images(label)[N : N + LOCAL])):
            Image.fromarray(tile).save(folder / "ward" / name / f"{number:03d}.png")


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with a release, and local images of its population."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COVDP_DATA", str(tmp_path))
    document(tmp_path / "partner.json")
    put(tmp_path)
    return tmp_path
