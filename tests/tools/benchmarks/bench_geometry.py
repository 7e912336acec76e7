"""Logarithms and affine-invariant means of many small SPD matrices, against pyRiemann."""

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from pyriemann.geometry.base import logm  # type: ignore[import-untyped]
from pyriemann.geometry.mean import mean_riemann  # type: ignore[import-untyped]
from scipy import ndimage

from covdp.arrays import FloatArray
from covdp.descriptors import describe
from covdp.geometry import MANIFOLDS, frechet_mean, sym_log

LOGARITHMS = 100_000
RECORDS = 97_477  # training images of OCTMNIST
MANIFOLD = MANIFOLDS["spd-affine-invariant"](k=5)


def symmetric(matrices: FloatArray) -> FloatArray:
    """Return the symmetric part."""
    return np.asarray((matrices + matrices.swapaxes(-1, -2)) / 2.0)


def descriptors(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Return n descriptors: of smooth random images, each changed by a small congruence."""
    noise = rng.normal(size=(1000, 28, 28))
    smooth = ndimage.gaussian_filter(noise, sigma=(0.0, 2.0, 2.0))
    images = np.clip(128.0 + 300.0 * smooth, 0.0, 255.0).astype(np.uint8)
    x = describe(images)[rng.integers(1000, size=n)]
    change = np.eye(5) + 0.1 * rng.normal(size=(n, 5, 5))
    return symmetric(change @ x @ change.swapaxes(-1, -2))


def spread(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Return n matrices with eigenvalues from 1e-6 to 1e4 in random directions."""
    q = np.linalg.qr(rng.normal(size=(n, 5, 5)))[0]
    values = np.exp(rng.uniform(np.log(1e-6), np.log(1e4), size=(n, 1, 5)))
    return symmetric((q * values) @ q.swapaxes(-1, -2))


def compare(
    name: str, ours: Callable[[], Any], peer: Callable[[], Any], *, rounds: int, target: float
) -> dict[str, Any]:
    """Return a row with the median seconds of both, run in turns after one warm-up of ours."""
    ours()
    seconds: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        for key, run_once in (("ours", ours), ("peer", peer)):
            start = time.perf_counter()
            run_once()
            seconds[key].append(time.perf_counter() - start)
    mine, theirs = (statistics.median(seconds[key]) for key in ("ours", "peer"))
    return {
        "name": name,
        "ours": mine,
        "peer": theirs,
        "unit": "s",
        "ratio": theirs / mine,
        "target": target,
    }


def run() -> list[dict[str, Any]]:
    """Return the rows; ratio = seconds of pyRiemann over seconds of ours, at least the target."""
    rng = np.random.default_rng(0)
    few, many = spread(LOGARITHMS, rng=rng), descriptors(RECORDS, rng=rng)
    wide = spread(RECORDS // 10, rng=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on `wide` pyRiemann stops after 50 steps, unconverged
        return [
            compare(
                f"logarithms of {LOGARITHMS:,} matrices 5×5, pyriemann logm",
                lambda: sym_log(few),
                lambda: logm(few),
                rounds=5,
                target=2.0,
            ),
            compare(
                f"affine-invariant mean of {RECORDS:,} descriptors, pyriemann mean_riemann",
                lambda: frechet_mean(many, MANIFOLD),
                lambda: mean_riemann(many),
                rounds=3,
                target=2.0,
            ),
            compare(
                f"the same of {RECORDS // 10:,} matrices, eigenvalues 1e-6..1e4",
                lambda: frechet_mean(wide, MANIFOLD),
                lambda: mean_riemann(wide),
                rounds=3,
                target=2.0,
            ),
        ]


if __name__ == "__main__":
    for row in run():
        print(row)
