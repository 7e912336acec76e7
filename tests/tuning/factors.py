"""The README's table: how much smaller the error of the adaptive mean is than the published one's.

Published: the wrapped Gaussian with 2r/n, a tenth of the budget for its footpoint and nine tenths
for the mean. On a flat manifold its expected error is exact; ours is the mean of many draws.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.arrays import ImageArray
from pipeline.mean import AdaptivePlan, draw, prepare
from pipeline.mechanisms.noise import FloatNoise
from pipeline.privacy import GDP
from tests.tuning.images import Class, gray, images_of, records_of

BUDGETS = (0.1, 0.2, 0.5, 1.0)


class Factors(NamedTuple):
    """One line of the table.

    Attributes
    ----------
    name, descriptor : str
        Which images, described how.
    n : int
    factors, errors : tuple of float
        Published error over ours at each of `BUDGETS`, and its relative standard error.
    """

    name: str
    descriptor: str
    n: int
    factors: tuple[float, ...]
    errors: tuple[float, ...]


def published(radius: float, n: int, mu: float, d: int) -> float:
    """Return E‖N(0, σ²I)‖ with σ = 2r/(n·√0.9·μ)."""
    chi = math.sqrt(2.0) * math.exp(math.lgamma((d + 1) / 2.0) - math.lgamma(d / 2.0))
    return 2.0 * radius / (n * math.sqrt(0.9) * mu) * chi


def factors_of(name: str, members: list[Class], root: Path | None, draws: int) -> list[Factors]:
    """Measure the error on all images of some classes, as one; colour ones also in gray."""
    images = np.concatenate([images_of(one, root) for one in members])
    if images.ndim == 3:
        return [_measure(name, images, descriptor, draws) for descriptor in ("oct5", "grid9")]
    return [
        _measure(name, images, "grid11", draws),
        _measure(f"{name}, in gray", gray(images), "oct5", draws),
    ]


def _measure(name: str, images: ImageArray, descriptor: str, draws: int) -> Factors:
    """Measure the error on some images."""
    records = records_of(images, descriptor=descriptor)
    ready = prepare(records, AdaptivePlan(), rng=None)
    factors, errors = [], []
    for mu in BUDGETS:
        noise = FloatNoise(np.random.default_rng(0))
        found = draw(ready, GDP(mu), noise=noise, size=draws).release
        ours = records.space.dist(records.frechet.point, found.outputs)
        paper = published(records.domain.radius, records.n, mu, records.space.dim)
        factors.append(paper / float(ours.mean()))
        errors.append(float(ours.std(ddof=1) / (math.sqrt(draws) * ours.mean())))
    return Factors(name, descriptor, records.n, tuple(factors), tuple(errors))


def factors(classes: list[Class], root: Path | None, *, draws: int, jobs: int) -> Iterator[Factors]:
    """Measure class by class, and each set of several classes as a whole."""
    sets = {one.card: [other for other in classes if other.card == one.card] for one in classes}
    with ProcessPoolExecutor(jobs) as pool:
        found = [
            pool.submit(factors_of, one.name, [one], root, draws)
            for members in sets.values()
            for one in members
        ]
        found += [
            pool.submit(factors_of, f"{Path(card).stem}, all classes", members, root, draws)
            for card, members in sets.items()
            if len(members) > 1
        ]
        for job in found:
            yield from job.result()
