"""Wards whose diagnoses are secret, night by night."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_nights import CONFIG, STREAM, Ward

from covdp.addons.nights.ledger import stored_nights
from covdp.arrays import FloatArray
from covdp.mechanisms import NoisyVector
from tests.publish.fixed import draw_by

SECRET = CONFIG.replace('labels = "public"\n', "")
HORIZON, FIVE = STREAM.replace("80.0", "300.0"), STREAM.replace("80.0", "100.0")
"""Streams that open with 15 images of a class, and with five."""
COUNTS = np.array([40.0, 40.0, *[0.0] * 20])
"""Of black images before anything is charged, of the first class on the first night, of others."""


def fixed_noise(monkeypatch: pytest.MonkeyPatch, counts: FloatArray) -> list[tuple[Any, ...]]:
    """Have the lattice give numbers of its own; those of a single number are counts / √2, in turn.

    Return what is asked of it.
    """
    asked: list[tuple[Any, ...]] = []

    def fixed(vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        told = sigma * np.random.default_rng(len(asked)).standard_normal(len(vector))
        if len(vector) == 1:
            told = told + counts[sum(length == 1 for length, *_ in asked)] / np.sqrt(2.0)
        asked.append((len(vector), sigma, sensitivity))
        return NoisyVector(told, 0.01)

    draw_by(monkeypatch, fixed)
    return asked


def move(ward: Ward, path: Path) -> None:
    """Give an image the other label."""
    other = {"well": "ill", "ill": "well"}[path.parent.name]
    shutil.move(path, ward.folder / "ward" / other / path.name)


def told(ward: Ward) -> list[Any]:
    """Return everything of a ward but its images and private sums: names, bytes, claims."""
    found = sorted(path.name for path in ward.folder.rglob("*") if path.suffix == ".sums")
    nights = [night.result for night in stored_nights(ward.ledger, ward.stream)]
    return [len(found), nights]


def nights(ward: Ward, days: Sequence[int], well: int = 12, ill: int = 6) -> dict[str, Any]:
    """Settle nights with so many images of each class, and return the last."""
    document: dict[str, Any] = {}
    for day in days:
        ward.put(well=well, ill=ill)
        document = ward.night(day)
    return document


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    """Return a ward whose stream keeps labels secret."""
    found = Ward(tmp_path / "ward")
    found.write(config=SECRET, stream=HORIZON)
    found.pay()
    return found


CLASSES = 'kind = "folder"\npath = "ward"\nchannels = 1\nclasses = ["well", "ill", "none"]\n'
Vectors = list[tuple[FloatArray, float, FloatArray]]
"""Of every draw the vector before noise, σ of what was drawn, and what came out."""


def recorded(monkeypatch: pytest.MonkeyPatch, told: Vectors, *, scale: float = 1.0) -> Vectors:
    """Have the lattice add noise of `scale`·σ, or give what was `told`, and record it all."""
    found: Vectors = []

    def noisy(vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        drawn = np.random.default_rng([5, len(found)]).standard_normal(len(vector))
        out = told[len(found)][2] if told else vector + scale * sigma * drawn
        found.append((vector, scale * sigma, out))
        return NoisyVector(out, 0.01)

    draw_by(monkeypatch, noisy)
    return found
