"""The adaptive mean under audit: by its transcript, which tells more than its result.

In: a data set. Out: transcripts, one row for all vectors that one private mean released, in order.
On either data set the law of a step, given the steps before, is normal around the vector that this
data set gives when those steps are replayed: the log-likelihood ratio of a transcript is exact.
Next on the path: ``cases.py``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.adaptive import Noised, Records, Shares, adaptive_mean, prepare, step_costs
from pipeline.arrays import FloatArray
from pipeline.audit.neighbours import Neighbours
from pipeline.descriptors import domain
from pipeline.geometry import Manifold
from pipeline.mechanisms import Diagnostics, Draws, Mechanism
from pipeline.mechanisms.family import Points
from pipeline.privacy import Budget

RECORDS = 4
"""Size n of the data sets; one of the records is replaced."""
DESCRIPTOR, SIDE = "oct5", 28
"""What the records are descriptors of."""


@dataclass(frozen=True)
class Transcripts:
    """The adaptive mean of `RECORDS` descriptors, drawn as its transcripts: a `Mechanism`.

    Attributes
    ----------
    budget, manifold
        As for any mechanism.
    scale : float
        Noise as a multiple of what the guarantee needs; not 1 only where it is broken on purpose.
    """

    budget: Budget
    manifold: Manifold
    scale: float = 1.0
    sensitivity: ClassVar[float] = 1.0 / RECORDS
    law: ClassVar[str] = "mean of vectors from a set of diameter 1, plus N(0, σ²·Id), step by step"

    @property
    def sigma(self) -> float:
        """Noise of the last step."""
        return self.scale * step_costs(self.budget, RECORDS, Shares())[-1].sigma

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` transcripts, (size, length), of the data set `center`."""
        kept: list[FloatArray] = []

        def keep(
            vector: FloatArray, sigma: float, sensitivity: float, rng: np.random.Generator
        ) -> Noised:
            kept.append(vector + self.scale * sigma * rng.standard_normal(len(vector)))
            return Noised(kept[-1], math.nan)

        adaptive_mean(_ready(center, self.manifold), self.budget, size=size, noise=keep, rng=rng)
        return Draws(np.concatenate(kept).reshape(size, -1), Diagnostics())

    def replay(self, records: Records, transcript: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what the steps of a transcript release without noise, and σ of each entry."""
        vectors: list[FloatArray] = []
        sigmas: list[float] = []

        def force(
            vector: FloatArray, sigma: float, sensitivity: float, rng: np.random.Generator
        ) -> Noised:
            start = len(sigmas)
            vectors.append(vector)
            sigmas.extend([sigma] * len(vector))
            return Noised(transcript[start : len(sigmas)], math.nan)

        unused = np.random.default_rng(0)
        adaptive_mean(records, self.budget, noise=force, rng=unused)
        return np.concatenate(vectors), np.array(sigmas)

    def expected_error(self) -> float | None:
        """Return None: not needed here."""
        return None


def data_sets() -> tuple[Points, Points]:
    """Return two data sets that differ in one record, which moves from one end to the other.

    Its logarithm lies on opposite sides of the other records', along Id and off it, and at
    different distances: so it changes its bin in each histogram, and is clipped on opposite sides.
    """
    one, other, rest = ([10.5, 9, 9, 9, 0], [-13.8, -13.8, -13.8, -13.8, 0], [7, 5, 5, 4, 4])
    others = [np.diag(np.exp(rest))] * (RECORDS - 1)
    return np.stack([np.diag(np.exp(one)), *others]), np.stack([np.diag(np.exp(other)), *others])


def _ready(points: Points, manifold: Manifold) -> Records:
    known = domain(DESCRIPTOR, height=SIDE, width=SIDE, manifold=manifold.name)
    return prepare(points, domain=known, manifold=manifold)


def ready(manifold: Manifold) -> tuple[Records, Records]:
    """Return both data sets, prepared."""
    left, right = data_sets()
    return _ready(left, manifold), _ready(right, manifold)


def transcripts(mechanism: Mechanism) -> Neighbours:
    """Score the log-likelihood ratio of a transcript; one record moves from end to end."""
    assert isinstance(mechanism, Transcripts)
    left, right = data_sets()

    sides = ready(mechanism.manifold)

    def log_ratio(row: FloatArray) -> float:
        (a, sigma), (b, _) = (mechanism.replay(records, row) for records in sides)
        return float(np.sum((2.0 * row - a - b) * (a - b) / (2.0 * sigma**2)))

    return Neighbours(left, right, None, lambda y: np.array([log_ratio(row) for row in y]))
