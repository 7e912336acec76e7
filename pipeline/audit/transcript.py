"""The adaptive mean under audit: by its transcript, which tells more than its result.

In: a data set. Out: transcripts, all vectors that one private mean released, in order.
On either data set the law of a step, given the steps before, is normal around the vector that this
data set gives when those steps are replayed: the log-likelihood ratio of a transcript is exact.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.audit.replay import Replay, Steps, log_ratio
from pipeline.descriptors import domain
from pipeline.geometry import Manifold
from pipeline.mean import AdaptivePlan, Prepared, admit, draw, prepare
from pipeline.mechanisms import Diagnostics, Draws, Mechanism
from pipeline.mechanisms.base import Neighbours, Points
from pipeline.mechanisms.noise import FloatNoise, Noise, Noised
from pipeline.privacy import Budget

RECORDS = 4
"""Size n of the data sets; one of the records is replaced."""
ENDS: tuple[Sequence[float], ...] = (
    [9.1, 7.4, 7.4, 7.0, 1.6],
    [-5.5, -6.3, -6.3, -6.7, 1.6],
    [7, 5, 5, 4, 4],
)
"""Logarithms of eigenvalues: the two ends that what is replaced moves between, and all others.

Beyond most clips, but not far beyond: the vectors of records farther away are shortened, and so
move a mean by less (``mean/sums.py``).
"""
DESCRIPTOR, SIDE = "oct5", 28
"""What the records are descriptors of."""


@dataclass
class Kept:
    """A source of noise that keeps what it gave."""

    source: Noise
    vectors: list[FloatArray] = field(default_factory=list)

    @property
    def rng(self) -> np.random.Generator | None:
        """The generator of the source."""
        return self.source.rng

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> Noised:
        """Add noise and keep the result."""
        found = self.source(vector, sigma, sensitivity)
        self.vectors.append(found.vector)
        return found


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
        self.sigmas.append(sigma)
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
    noise : callable
        The source of noise of a generator.
    """

    budget: Budget
    manifold: Manifold
    noise: Callable[[np.random.Generator], Noise] = FloatNoise
    sensitivity: ClassVar[float] = 1.0 / RECORDS
    law: ClassVar[str] = "mean of vectors from a set of diameter 1, plus N(0, σ²·Id), step by step"

    @property
    def sigma(self) -> float:
        """Noise that the last step of a draw asks for."""
        return last_sigma(self.ready(data_sets()[0]), self.budget)

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` transcripts of the data set `center`: the vectors of each."""
        noise = Kept(self.noise(rng))
        draw(self.ready(center), self.budget, noise=noise, size=size)
        return Draws(rows(noise.vectors, size), Diagnostics())

    def ready(self, points: Points) -> Prepared:
        """Return records, prepared."""
        return prepared(points, self.manifold)

    def replay(self, ready: Prepared, transcript: Sequence[FloatArray]) -> Replayed:
        """Return what the steps of a transcript release without noise, and σ of each."""
        noise = Replayed(transcript)
        draw(ready, self.budget, noise=noise)
        return noise

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


def last_sigma(ready: Prepared, budget: Budget) -> float:
    """Return σ of the last step of a draw, which does not depend on the records."""
    return draw(ready, budget, noise=FloatNoise(np.random.default_rng(0))).release.sigma


def replays(mechanism: Any, left: Any, right: Any) -> Replay:
    """Return what replays transcripts on two inputs, as `mechanism` prepares them."""
    sides = [mechanism.ready(data) for data in (left, right)]

    def replay(transcript: Sequence[FloatArray]) -> Steps:
        one, other = (mechanism.replay(side, transcript) for side in sides)
        sigmas = list(zip(one.sigmas, other.sigmas, strict=True))
        return Steps(transcript, one.vectors, other.vectors, sigmas)

    return replay


def neighbours(mechanism: Any, left: Any, right: Any) -> Neighbours:
    """Return two inputs, scored by the log-likelihood ratio of transcripts."""
    replay = replays(mechanism, left, right)
    return Neighbours(left, right, None, lambda y: np.array([log_ratio(replay(row)) for row in y]))


def transcripts(mechanism: Mechanism) -> Neighbours:
    """Score the log-likelihood ratio of a transcript; one record moves from end to end."""
    assert isinstance(mechanism, Transcripts)
    return neighbours(mechanism, *data_sets())
