"""Records that samples are drawn from, placed once: what experiments release again and again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from covdp import mean
from covdp.experiments.driver import Setting
from covdp.geometry import Point, chart_of
from covdp.mean import AdaptivePlan, Labels, MeanSetup, Plan, Records, Release
from covdp.mechanisms.noise import FloatNoise
from covdp.privacy import Budget


def place(points: Point, setting: Setting) -> Point:
    """Return the points of a class as records, in `chart_of` its manifold."""
    return mean.admit(points, domain=setting.domain, manifold=setting.manifold).placed


@dataclass(frozen=True, eq=False)
class Population:
    """Records that samples are drawn from, which are placed and expressed in their axes once.

    Attributes
    ----------
    records : Records
    own : int
        How many of the first are of the class; the others are rare ones.
    """

    records: Records
    own: int

    def draw(self, n: int, rng: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:
        """Return n rows, drawn with replacement; each is of the rare ones with this probability."""
        rows, rare = rng.integers(self.own, size=n), self.records.n - self.own
        if rare:
            others = np.flatnonzero(rng.random(n) < share)
            rows[others] = self.own + rng.integers(rare, size=len(others))
        return rows

    def prepare(
        self, rows: NDArray[np.int64], plan: Plan, rng: np.random.Generator, *, size: int = 1
    ) -> MeanSetup:
        """Return a sample, ready for draws; adaptive ones have their second moment."""
        if isinstance(plan, AdaptivePlan):
            plan = replace(plan, moment=True)
        return mean.prepare(self.records.sample(rows), plan, size=size, rng=rng)

    def release_each(
        self,
        samples: Sequence[NDArray[np.int64]],
        budget: Budget,
        plan: Plan,
        rng: np.random.Generator,
    ) -> list[Release]:
        """Return one private mean of each of several samples of as many records."""
        noise, prepared = FloatNoise(rng), (self.prepare(rows, plan, rng) for rows in samples)
        if isinstance(plan, AdaptivePlan):
            return mean.draw_each(list(prepared), budget, noise=noise).each
        drawn = (mean.draw(sample, budget, noise=noise)[0] for sample in prepared)
        return [own for release in drawn for own in release.each]


def population(
    placed: Point, setting: Setting, rare: Point | None = None, labels: Labels = mean.PUBLIC_LABELS
) -> Population:
    """Return records that are placed already as a population, rare ones after those of a class."""
    points = placed if rare is None else np.concatenate([placed, rare])
    space = chart_of(setting.manifold)
    records = mean.admit(points, domain=setting.domain, manifold=space, labels=labels)
    return Population(records, len(placed))


SAMPLED_RECORDS = 200_000
"""Records of samples that are held at a time."""


def batches(times: int, n: int) -> Iterator[range]:
    """Yield the repetitions whose samples of n records are held, and released, together."""
    size = max(1, SAMPLED_RECORDS // max(1, n))
    return (range(start, min(start + size, times)) for start in range(0, times, size))
