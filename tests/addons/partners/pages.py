"""Pages of several releases, and their texts."""

import html
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_documents import ACCOUNT, COST, SETTINGS

from covdp.arrays import FloatArray
from covdp.descriptors import domain
from covdp.geometry import MANIFOLDS, vecd
from covdp.mean import AdaptivePlan, Release, mean
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP
from covdp.publish.release import observed_moments
from covdp.schema import ReleasedEntry, as_json
from tests.inference.entries import cells, tissue
from tests.report.browsing import (  # noqa: F401  (fixtures)
    PHONE,
    browser,
    draw_all,
    opened,
    overflow,
    parts,
    show,
)

CLASSES = ("<b>tissue</b>", "cells")
SPACE = MANIFOLDS["spd-log-euclidean"](k=5)


def row_of(name: str, release: Release, *, gain: float = 1.0) -> dict[str, Any]:
    """Return the entry of a class in a document, of images `gain` times as bright."""
    part = observed_moments(release)
    assert part is not None
    values = as_json(ReleasedEntry.model_construct(observed=part))["observed"]
    brighter = 2.0 * np.log(gain) * vecd(np.eye(5))
    values["base"] = (np.array(values["base"]) + brighter).tolist()
    point = (gain**2 * release.point).tolist()
    told = {"manifold": SPACE.name, "point": point, "observed": values}
    told["coordinates"] = (release.coordinates + brighter).tolist()
    return {"label": 0, "name": name, "n": values["n"], **COST, **told}


def release_of(points: FloatArray, seed: int) -> Release:
    """Return a private mean of some descriptors."""
    noise = FloatNoise(np.random.default_rng(seed))
    known = {"domain": domain("oct5", height=28, width=28), "manifold": SPACE}
    return mean(points, GDP(2.0), plan=AdaptivePlan(), noise=noise, **known)


@cache
def releases(name: str) -> tuple[Release, ...]:
    """Return three releases of disjoint images of a class."""
    points = {"tissue": tissue, "cells": cells}[name]()
    order = np.random.default_rng(5).permutation(len(points))
    return tuple(release_of(points[order[300 * place :][:300]], place) for place in range(3))


def write(path: Path, place: int) -> Path:
    """Write the document of a release, one of three hospitals."""
    names = zip(CLASSES, ("tissue", "cells"), strict=True)
    rows = [row_of(title, releases(name)[place]) for title, name in names]
    known = {**SETTINGS, "name": path.stem, "population": path.stem, "dataset": "tiles"}
    known |= {"descriptor": "oct5", "manifold": SPACE.name, "budget": 2.0}
    known |= {"classes": [[0, name, 300] for name in CLASSES]}
    document = {"title": "Ward", "settings": known, "classes": rows, "account": ACCOUNT}
    path.write_text(json.dumps(document | {"statement": [["Unit of privacy", f"of {place}"]]}))
    return path


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write the documents of three hospitals."""
    folder = tmp_path_factory.mktemp("hospitals")
    return [write(folder / f"{name}.json", place) for place, name in enumerate("abc")]


def text_of(page: Path) -> str:
    """Return the text of a page, without its scripts and tags."""
    body = re.sub(r"(?s)<(script|style|svg).*?</\1>", " ", page.read_text(encoding="utf-8"))
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())
