"""Documents of several sites."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sample_documents import ACCOUNT, SETTINGS

from covdp.arrays import FloatArray
from covdp.descriptors import DESCRIPTORS, domain
from covdp.geometry import MANIFOLDS
from covdp.mean import Release, private_mean
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP
from tests.addons.partners.pages import row_of
from tests.inference.entries import cells, tissue

SPACE = MANIFOLDS["spd-log-euclidean"](k=5)
GAINS = {"north": 1.0, "south": 0.7, "west": 1.3}
CLASSES = ("<b>tissue</b>", "cells")


def released(points: FloatArray, mu: float, seed: int, name: str = "oct5") -> Release:
    kind = DESCRIPTORS[name]
    manifold = kind.manifold or SPACE.name
    known = domain(name, height=28, width=28, manifold=manifold)
    rng, space = FloatNoise(np.random.default_rng(seed)), MANIFOLDS[manifold](k=kind.k)
    return private_mean(points, GDP(mu), domain=known, manifold=space, rng=rng)[0]


@cache
def sites(mu: float = 2.0) -> dict[str, tuple[Release, ...]]:
    """Return three sites of disjoint images of two classes, each with a gain of its own."""
    out = {}
    for place, (name, gain) in enumerate(GAINS.items()):
        parts = (points()[place::3][:300] for points in (tissue, cells))
        out[name] = tuple(
            released(gain**2 * part, mu, 10 * place + c) for c, part in enumerate(parts)
        )
    return out


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write the documents of the three sites."""
    folder, paths = tmp_path_factory.mktemp("sites"), []
    for name, rows in sites().items():
        entries = [row_of(title, row) for title, row in zip(CLASSES, rows, strict=True)]
        known = {**SETTINGS, "name": name, "population": name, "dataset": "tiles"}
        known |= {"descriptor": "oct5", "manifold": SPACE.name, "budget": 2.0}
        known |= {"classes": [[0, title, 300] for title in CLASSES]}
        document = {"title": "Ward", "settings": known, "classes": entries, "account": ACCOUNT}
        paths.append(folder / f"{name}.json")
        paths[-1].write_text(json.dumps(document | {"statement": [["Unit of privacy", "image"]]}))
    return paths
