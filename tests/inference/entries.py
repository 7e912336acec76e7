"""Released classes of tests."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from covdp import open_dataset
from covdp.arrays import FloatArray
from covdp.descriptors import describe
from covdp.geometry import MANIFOLDS
from covdp.mean import (
    NoisyMoments,
)
from covdp.mean.sums import FACTOR, OVERSHOOT
from covdp.mean.tuning import OVERSHOOT_SD
from covdp.schema import ReleasedEntry, as_json

K, D = 3, 6
FLAT = MANIFOLDS["spd-log-euclidean"](k=K)
REACH = np.array([20.0, 10.0, 30.0, 40.0, 60.0])


def cutting(*limits: float) -> dict[str, FloatArray]:
    """Return overshoots off the ball, below and above that may be as large as this at σ = 0.01.

    There are none farther below and above, beyond any noise, and no odd pictures.
    """
    most = np.array([*limits, 0.0, 0.0])
    return {
        "overshoots": most - OVERSHOOT_SD * REACH * 0.01 / OVERSHOOT,
        "reach": REACH,
        "odd": np.zeros(0),
    }


def observed(**fields: Any) -> NoisyMoments:
    """Return an observation with a line, on SPD(3), in which nothing was clipped."""
    rng = np.random.default_rng(4)
    spread = rng.standard_normal((D, D)) / 20.0
    known: dict[str, Any] = {
        "n": 200,
        "base": rng.standard_normal(D),
        "middle": np.zeros(D),
        "axes": np.diag([4.0, *[2.0] * (D - 1)]) @ np.linalg.qr(rng.standard_normal((D, D)))[0],
        "vector": np.zeros(D),
        "moment": spread @ spread.T,
        "sigma": 0.01,
        "lines": 1,
        "clipped": 0.0,
        "clipped_noise": 0.0,
        **cutting(0.0, 0.0, 0.0),
    }
    return NoisyMoments(**{**known, **fields})


def noised(seen: NoisyMoments, rng: np.random.Generator) -> NoisyMoments:
    """Return it with noise as it is released."""
    assert seen.moment is not None
    d, s = len(seen.vector), seen.sigma / FACTOR
    rough = rng.standard_normal((d, d)) * s / np.sqrt(2.0)
    upper = np.triu(rough, 1) + np.diag(np.sqrt(2.0) * np.diag(rough))
    moved = seen.vector + seen.sigma * rng.standard_normal(d)
    return replace(seen, vector=moved, moment=seen.moment + upper + np.triu(upper, 1).T)


def entry(seen: NoisyMoments) -> dict[str, Any]:
    """Return the entry of a document whose mean was not shrunk at all."""
    shells = np.empty(0) if seen.shells is None else seen.shells
    moments = replace(seen, shells=shells, belief=seen.noise)
    part = ReleasedEntry.model_construct(observed=moments)
    return row_at(seen.base + seen.offset) | as_json(part)


def row_at(coordinates: FloatArray) -> dict[str, Any]:
    """Return what a document says of a mean at some coordinates."""
    point = matrix(coordinates)
    return {
        "point": point.tolist(),
        "coordinates": coordinates.tolist(),
        "manifold": FLAT.name,
    }


def matrix(coordinates: FloatArray) -> FloatArray:
    """Return the matrix of some coordinates."""
    return FLAT.exp(FLAT.origin, coordinates)


@cache
def tissue() -> FloatArray:
    """Return descriptors of real pictures of tissue."""
    return describe(np.concatenate(list(open_dataset("tiles").chunks(label=0))))


@cache
def cells() -> FloatArray:
    """Return descriptors of real pictures of cells."""
    return describe(np.concatenate(list(open_dataset("tiles").chunks(label=2))))
