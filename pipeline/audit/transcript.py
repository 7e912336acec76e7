"""The adaptive mean under audit: by its transcript, which tells more than its result.

In: a data set. Out: transcripts, all vectors that one private mean released, in order.
On either data set the law of a step, given the steps before, is normal around the vector that this
data set gives when those steps are replayed: the log-likelihood ratio of a transcript is exact.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.descriptors import domain
from pipeline.geometry import Manifold
from pipeline.mean import AdaptivePlan, Prepared, Shares, admit, draw, prepare, step_costs
from pipeline.mechanisms import Diagnostics, Draws, Mechanism
from pipeline.mechanisms.family import Neighbours, Points
from pipeline.mechanisms.noise import Noised
from pipeline.privacy import Budget

RECORDS = 4
"""Size n of the data sets; one of the records is replaced."""
ENDS: tuple[Sequence[float], ...] = (
    [10.5, 9, 9, 9, 0],
    [-13.8, -13.8, -13.8, -13.8, 0],
    [7, 5, 5, 4, 4],
)
"""Logarithms of eigenvalues: the two ends that what is replaced moves between, and all others."""
DESCRIPTOR, SIDE = "oct5", 28
"""What the records are descriptors of."""


@dataclass
class Kept:
    """Gaussian noise, `scale` times as wide as asked, that keeps what it gave."""

    rng: np.random.Generator
    scale: float
    vectors: list[FloatArray] = field(default_factory=list)

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add noise and keep the result."""
        self.vectors.append(vector + self.scale * sigma * self.rng.standard_normal(len(vector)))
        return Noised(self.vectors[-1], math.nan)


@dataclass
class Replayed:
    """No noise: a transcript is given back step by step, and what was asked is kept.

    Vectors of a step may differ in length from draw to draw, as the last carries second moments or
    not. That is decided by what was told before, so a replay has the same; unless the mechanism is
    broken: then what both have counts.
    """

    transcript: Sequence[FloatArray]
    rng: None = None
    vectors: list[FloatArray] = field(default_factory=list)
    sigmas: list[float] = field(default_factory=list)

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Return the next part of the transcript."""
        told = self.transcript[len(self.vectors)]
        both = min(len(told), len(vector))
        self.vectors.append(np.append(vector[:both], told[both:]))
        self.sigmas.extend([sigma] * len(told))
        return Noised(np.append(told[:both], vector[both:]), math.nan)


def rows(vectors: Sequence[FloatArray], size: int) -> NDArray[np.object_]:
    """Return the vectors of `size` draws, one after the other, as an array of one tuple a draw."""
    steps = len(vectors) // size
    out = np.empty(size, dtype=object)
    for one in range(size):
        out[one] = tuple(vectors[one * steps : (one + 1) * steps])
    return out


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
        return (
            self.scale * step_costs(self.budget, RECORDS, Shares(), dim=self.manifold.dim)[-1].sigma
        )

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` transcripts of the data set `center`: the vectors of each."""
        noise = Kept(rng, self.scale)
        draw(prepared(center, self.manifold), self.budget, noise=noise, size=size)
        return Draws(rows(noise.vectors, size), Diagnostics())

    def replay(
        self, ready: Prepared, transcript: Sequence[FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return what the steps of a transcript release without noise, and σ of each entry."""
        noise = Replayed(transcript)
        draw(ready, self.budget, noise=noise)
        return np.concatenate(noise.vectors), np.array(noise.sigmas)

    def expected_error(self) -> float | None:
        """Return None: not needed here."""
        return None


def data_sets() -> tuple[Points, Points]:
    """Return two data sets that differ in one record, which moves from one end to the other.

    Its logarithm lies on opposite sides of the other records', along Id and off it, and at
    different distances: so it changes its bin in each histogram, and is clipped on opposite sides.
    """
    one, other, rest = ENDS
    others = [np.diag(np.exp(rest))] * (RECORDS - 1)
    return np.stack([np.diag(np.exp(one)), *others]), np.stack([np.diag(np.exp(other)), *others])


def prepared(points: Points, manifold: Manifold) -> Prepared:
    """Return descriptors, prepared for draws of their adaptive mean."""
    known = domain(DESCRIPTOR, height=SIDE, width=SIDE, manifold=manifold.name)
    records = admit(points, domain=known, manifold=manifold)
    return prepare(records, AdaptivePlan(), rng=None)


def ready(manifold: Manifold) -> tuple[Prepared, Prepared]:
    """Return both data sets, prepared."""
    left, right = data_sets()
    return prepared(left, manifold), prepared(right, manifold)


def transcripts(mechanism: Mechanism) -> Neighbours:
    """Score the log-likelihood ratio of a transcript; one record moves from end to end."""
    assert isinstance(mechanism, Transcripts)
    left, right = data_sets()

    sides = ready(mechanism.manifold)

    def log_ratio(told: Sequence[FloatArray]) -> float:
        (a, sigma), (b, _) = (mechanism.replay(records, told) for records in sides)
        row = np.concatenate(told)
        return float(np.sum((2.0 * row - a - b) * (a - b) / (2.0 * sigma**2)))

    return Neighbours(left, right, None, lambda y: np.array([log_ratio(row) for row in y]))
