"""Documents of several releases."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from sample_documents import ACCOUNT, COST, SETTINGS

from tests.inference.entries import entry, noised, observed

NIGHT = {
    "night": 3,
    "horizon": 40,
    "coefficient_norm": 1.0,
    "axes": [[1.0]],
    "centre": [0.0],
}
"""What the document of a night has besides."""


def document(
    path: Path, seed: int, names: tuple[str, ...] = ("well", "ill"), **settings: Any
) -> Path:
    """Write a document with a class of each name."""
    rng = np.random.default_rng(seed)
    rows = [
        {"label": label, "name": name, "n": 200, **COST, **entry(noised(observed(), rng))}
        for label, name in enumerate(names)
    ]
    known = {**SETTINGS, "name": path.stem, "population": path.stem, **settings}
    document = {"title": "Ward", "settings": known, "classes": rows, "statement": []}
    path.write_text(json.dumps(document | {"account": ACCOUNT}))
    return path
