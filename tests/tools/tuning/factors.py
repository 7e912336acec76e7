"""The README's table: how much smaller the error of the adaptive mean is than the published one's.

Published: the wrapped Gaussian with 2r/n, a tenth of the budget for its footpoint and nine tenths
for the mean. On a flat manifold its expected error is exact; ours is the mean of many draws.
"""

import math
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from covdp.arrays import ImageArray
from covdp.mean import AdaptivePlan, MeanSetup, draw, prepare
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP
from tests.tools.tuning.images import MOST, ImageClass, gray, images_of, records_of, some

BUDGETS = (0.1, 0.2, 0.5, 1.0)
METRICS = {"spd-log-euclidean": 1, "spd-log-cholesky": 1, "spd-affine-invariant": 3}
"""Metrics, and by what the draws are divided in each."""
LEAST = 300.0
"""Least n·μ of the table of all metrics."""
SOME = (1000, 300)
"""How many images of a class of more than `MOST` are measured as well."""


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


def factors_of(
    name: str, members: list[ImageClass], root: Path | None, draws: int
) -> list[Factors]:
    """Measure the error on all images of some classes, as one; colour ones also in gray."""
    return [
        _measure(title, images, descriptor, draws)
        for title, images, descriptor in _described(name, members, root)
    ]


def _described(
    name: str, members: list[ImageClass], root: Path | None
) -> list[tuple[str, ImageArray, str]]:
    """Return images with their name and descriptor, as all are described that are measured."""
    images = np.concatenate([images_of(one, root) for one in members])
    if images.ndim == 3:
        return [(name, images, descriptor) for descriptor in ("oct5", "grid9")]
    return [(name, images, "grid11"), (f"{name}, in gray", gray(images), "oct5")]


def _measure(name: str, images: ImageArray, descriptor: str, draws: int) -> Factors:
    """Measure the error on some images."""
    records = records_of(images, descriptor=descriptor)
    ready = prepare(records, AdaptivePlan(), rng=None)
    found = [_factor(ready, f"{name} {descriptor}", mu, draws) for mu in BUDGETS]
    return Factors(name, descriptor, records.n, *zip(*found, strict=True))


def _factor(ready: MeanSetup, name: str, mu: float, draws: int) -> tuple[float, float]:
    """Return published error over ours, and its relative standard error; with a seed of its own."""
    records = ready.records
    seed = zlib.crc32(f"{name} {records.manifold.name} {records.n} {mu}".encode())
    noise = FloatNoise(np.random.default_rng(seed))
    found = draw(ready, GDP(mu), noise=noise, size=draws)[0]
    ours = records.space.dist(records.frechet.point, found.outputs)
    paper = published(records.domain.radius, records.n, mu, records.space.dim)
    error = float(ours.std(ddof=1) / (math.sqrt(draws) * ours.mean()))
    return paper / float(ours.mean()), error


class FactorCell(NamedTuple):
    """Published error over ours in one metric, and its relative standard error."""

    metric: str
    name: str
    descriptor: str
    n: int
    mu: float
    factor: float
    error: float


def cells_of(
    metric: str, name: str, members: list[ImageClass], root: Path | None, draws: int
) -> list[FactorCell]:
    """Measure where n·μ is `LEAST` or more: all images, and of large classes some of them."""
    out = list[FactorCell]()
    for title, images, descriptor in _described(name, members, root):
        large = len(members) == 1 and len(images) > MOST
        for most in (len(images), *(SOME if large else ())):
            budgets = [mu for mu in BUDGETS if mu * most >= LEAST]
            if not budgets:
                continue
            records = records_of(some(images, most), descriptor=descriptor, manifold=metric)
            ready = prepare(records, AdaptivePlan(), rng=None)
            for mu in budgets:
                found = _factor(ready, f"{title} {descriptor}", mu, draws)
                out.append(FactorCell(metric, title, descriptor, records.n, mu, *found))
    return out


def groups(classes: list[ImageClass]) -> list[tuple[str, list[ImageClass]]]:
    """Return each class, and each set of several classes as a whole, with its name."""
    sets = {one.card: [other for other in classes if other.card == one.card] for one in classes}
    alone = [(one.name, [one]) for members in sets.values() for one in members]
    return alone + [
        (f"{Path(card).stem}, all classes", members)
        for card, members in sets.items()
        if len(members) > 1
    ]


def factors(
    classes: list[ImageClass], root: Path | None, *, draws: int, jobs: int
) -> Iterator[Factors]:
    """Measure class by class, and each set of several classes as a whole."""
    with ProcessPoolExecutor(jobs) as pool:
        found = [pool.submit(factors_of, *group, root, draws) for group in groups(classes)]
        for job in found:
            yield from job.result()


def in_every_metric(
    classes: list[ImageClass], root: Path | None, *, draws: int, jobs: int
) -> Iterator[FactorCell]:
    """Measure the same in every metric; with a third of the draws where the metric is curved."""
    with ProcessPoolExecutor(jobs) as pool:
        found = [
            pool.submit(cells_of, metric, *group, root, max(2, draws // share))
            for metric, share in METRICS.items()
            for group in groups(classes)
        ]
        for job in found:
            yield from job.result()
