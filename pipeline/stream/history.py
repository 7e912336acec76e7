"""What a stream remembers of a class: what was released, which is public, and what was not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np

from pipeline.arrays import COORDINATES, COUNT, SIZE, FloatArray
from pipeline.mean import NoisyMoments
from pipeline.mean.clip import Clip
from pipeline.mean.release import COUNT_STEPS, COUNT_UNIT, ReleasedCount
from pipeline.mean.rounds import SQRT2
from pipeline.mean.sums import PER_UNIT, pairs
from pipeline.stream.factorisation import (
    LIMBS,
    WEIGHT_UNIT,
    Limbs,
    sum_row,
    weighted,
    weighted_sums,
)
from pipeline.stream.mechanism import StreamMechanism


class NoisyShares(NamedTuple):
    """Noised shares of records in bins, and the standard deviation of the noise of each."""

    values: FloatArray
    noise: float


@dataclass(frozen=True, eq=False)
class OpeningRelease:
    """What the opening released: one adaptive mean of all records held back.

    Attributes
    ----------
    offset : array, shape (d,)
        The mean, in the chart.
    observed : NoisyMoments
        The mean before it was shrunk, the second moment, what it found in the bins, about the
        origin and about the last centre but one, and the covariance of its error as predicted.
    survey_noise, shells_noise : float
        Standard deviation of the noise of each share in the bins.
    """

    offset: Annotated[FloatArray, COORDINATES]
    observed: NoisyMoments
    survey_noise: Annotated[float, SIZE]
    shells_noise: Annotated[float, SIZE]

    @property
    def belief(self) -> FloatArray:
        """Covariance of the error of the mean, as predicted."""
        assert self.observed.belief is not None
        return self.observed.belief

    @property
    def survey(self) -> NoisyShares:
        """The shares in the bins of the survey."""
        assert self.observed.survey is not None
        return NoisyShares(self.observed.survey, self.survey_noise)

    @property
    def shells(self) -> NoisyShares:
        """The shares in the shells."""
        assert self.observed.shells is not None
        return NoisyShares(self.observed.shells, self.shells_noise)


@dataclass(frozen=True, eq=False)
class Epoch:
    """What records are mapped to from a night on, chosen from what was released before it.

    Attributes
    ----------
    first : int
        Its first night.
    centre : array, shape (d,)
        Where shells are counted from and the ball is, in the chart.
    clip : Clip
        Interval and ball.
    """

    first: Annotated[int, COUNT]
    centre: Annotated[FloatArray, COORDINATES]
    clip: Clip


@dataclass(frozen=True, eq=False)
class Night:
    """What one night released of a class.

    Attributes
    ----------
    night : int
        Its number, from 1.
    units, n_so_far : int
        Records that came this night and up to it (public): of the class, or, where labels are
        secret, of all classes together.
    opened : OpeningRelease or None
        On the night of the opening.
    epoch : Epoch or None
        On the first night of one.
    survey, shells, w, moment : array or None
        Weighted sums of all nights of their series, noised: counts over √2 in the bins, clipped
        vectors, and overshoots and products as in ``mean/sums.py``. None before that.
    rhos : tuple of float
        ρ-zCDP that the source of noise certifies for the steps of the opening; on a later night,
        for each series, for all that a record pays in it; NaN where it does not.
    count : float or None
        Where labels are secret, the weighted sum of how many records of the class came each night,
        noised: of all nights until the opening, then of those of the epoch. None on others.
    """

    night: int
    units: int
    n_so_far: int
    opened: OpeningRelease | None = None
    epoch: Epoch | None = None
    survey: FloatArray | None = None
    shells: FloatArray | None = None
    w: FloatArray | None = None
    moment: FloatArray | None = None
    rhos: tuple[float, ...] = ()
    count: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSums:
    """What must stay where the images are; small, and the same whatever order records come in.

    Attributes
    ----------
    held : array, shape (m, d)
        Coordinates of the records that wait for the opening.
    survey, shells, means : array of uint16, shape (t, m, `LIMBS`)
        Counts, and 2⁴⁰ times sums of clipped vectors and overshoots, then 2⁸⁰ times those of their
        products, of each night of the series: since the opening for the survey, since the epoch
        began for the others.
    counts : array of uint16, shape (t, 1, `LIMBS`)
        Where labels are secret, how many records came each night: of all nights until the opening,
        then of those of the epoch.
    """

    held: FloatArray
    survey: Limbs
    shells: Limbs
    means: Limbs
    counts: Limbs

    @cached_property
    def vectors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What the last night's noise is added to: weighted survey, shells, and means as pairs.

        Where labels are secret the latter end with the sum of a for each record.
        """
        d, sums = self.held.shape[1], weighted_sums(self.means)
        both = pairs(sums[:d], sums[d:], WEIGHT_UNIT)
        for total in weighted_sums(self.counts) if len(self.counts) else ():
            both = np.append(both, total * COUNT_STEPS / (WEIGHT_UNIT * PER_UNIT))
        return weighted(self.survey, SQRT2), weighted(self.shells, SQRT2), both

    @property
    def count(self) -> FloatArray:
        """What the noise of the count before the opening is added to, (1,)."""
        return weighted(self.counts, SQRT2)

    def __repr__(self) -> str:
        """Show no value."""
        return f"Private(nights={len(self.survey)})"


def empty_state(dim: int) -> PrivateSums:
    """Return what a stream starts with."""
    return PrivateSums(np.empty((0, dim)), *[np.empty((0, 0, LIMBS), np.uint16)] * 4)


@dataclass(frozen=True, eq=False)
class EpochNights:
    """The nights of one epoch.

    Attributes
    ----------
    epoch : Epoch
    units : array, shape (t,)
        Records of each night, of all classes where labels are secret.
    shells, w : array, shapes (t, b), (t, d)
        What they released.
    moments : array, shape (t, e + d(d + 1)/2)
        The same of overshoots and products.
    counts : array, shape (t,), or None
        Where labels are secret, the same of how many records came.
    n : int
        Records in the epoch, where that is public; else what the counts say, at least 1.
    n_sd : float
        Standard deviation of the noise of `n`.
    """

    epoch: Epoch
    units: FloatArray
    shells: FloatArray
    w: FloatArray
    moments: FloatArray
    counts: FloatArray | None
    n: int
    n_sd: float = 0.0

    @property
    def relative(self) -> float:
        """By what share of itself `n` is off."""
        return self.n_sd / max(self.n, 1)

    def until(self, stream: StreamMechanism, nights: int) -> "EpochNights":
        """Return its first nights."""
        series = self.units, self.shells, self.w, self.moments
        counts = None if self.counts is None else self.counts[:nights]
        return _epoch_nights(stream, self.epoch, [values[:nights] for values in series], counts)


class OpeningPart(NamedTuple):
    """An opening: its night, what it released, how many records it had, and the noise of that."""

    night: int
    release: OpeningRelease
    n: int
    n_sd: float


@dataclass(frozen=True, eq=False)
class EpochHistory:
    """A history in its parts.

    Attributes
    ----------
    openings : tuple of OpeningPart
        One, but where the first was to be made good.
    waiting : int
        Records that wait for the next opening; as far as is known where that is secret.
    waiting_sd : float
        Standard deviation of the noise of `waiting`.
    survey : array, shape (t, b)
        All nights since records are held back no more.
    segments : tuple of EpochNights
    holds : bool
        Whether records are held back.
    """

    openings: tuple[OpeningPart, ...]
    waiting: int
    waiting_sd: float
    survey: FloatArray
    segments: tuple[EpochNights, ...]
    holds: bool

    @property
    def opened(self) -> OpeningRelease | None:
        """The last opening."""
        return self.openings[-1].release if self.openings else None

    @property
    def streamed(self) -> int:
        """Records of all epochs."""
        return sum(part.n for part in self.segments)

    @property
    def n(self) -> int:
        """Records released so far."""
        return self.streamed + sum(part.n for part in self.openings)

    @property
    def n_sd(self) -> float:
        """Standard deviation of the noise of `n`."""
        openings = (part.n_sd for part in self.openings)
        return math.hypot(0.0, *openings, *(part.n_sd for part in self.segments))


def split_epochs(stream: StreamMechanism, history: Sequence[Night]) -> EpochHistory:
    """Return the openings and the epochs of a history, in one pass over its nights."""
    return _parts_of(stream, tuple(history))


@lru_cache(maxsize=32)  # of released values only: a night asks for the same history many times
def _parts_of(stream: StreamMechanism, history: tuple[Night, ...]) -> EpochHistory:
    openings, secret, since = list[OpeningPart](), stream.plan.secret, 0
    for place, night in enumerate(history, 1):
        if (opened := night.opened) is not None:
            n = sum(one.units for one in history[since:place])
            known = (opened.observed.n, float(opened.observed.n_sd)) if secret else (n, 0.0)
            openings.append(OpeningPart(place, opened, *known))
            since = place
    later = history[since:]
    starts = [i for i, night in enumerate(later) if night.epoch]
    bounds = pairwise([*starts, len(later)])
    segments = tuple(_segment(stream, later[start:end]) for start, end in bounds)
    released = sum(part.n for part in openings) if openings else None
    holds = not segments and stream.plan.next_opening(released) is not None
    waiting, waiting_sd = sum(night.units for night in later) if holds else 0, 0.0
    if holds and secret and later:
        counted = waiting_count(stream, later)
        waiting, waiting_sd = int(counted.shown[0]), float(counted.sd[0])
    survey = np.array([night.survey for night in later if night.survey is not None])
    return EpochHistory(tuple(openings), waiting, waiting_sd, survey, segments, holds)


def _segment(stream: StreamMechanism, nights: Sequence[Night]) -> EpochNights:
    epoch = nights[0].epoch
    assert epoch is not None
    names = ("units", "shells", "w", "moment", "count")[: 5 if stream.plan.secret else 4]
    series = [np.array([getattr(night, name) for night in nights], np.float64) for name in names]
    return _epoch_nights(stream, epoch, series[:4], series[4] if stream.plan.secret else None)


def _epoch_nights(
    stream: StreamMechanism, epoch: Epoch, series: Sequence[FloatArray], counts: FloatArray | None
) -> EpochNights:
    """Return the nights of an epoch, and how many records they say came."""
    units, shells, w, moments = series
    n, n_sd = int(units.sum()), 0.0
    if counts is not None:
        sigma = stream.noise_of_sum(stream.steps[2].sigma, len(counts)) / COUNT_UNIT
        total = float(sum_row(1, len(counts), stream.plan.horizon) @ counts)
        found = released_count(total, sigma, n)
        n, n_sd = int(found.divisor[0]), float(found.sd[0])
    return EpochNights(epoch, units, shells, w, moments, counts, n, n_sd)


def waiting_count(stream: StreamMechanism, history: Sequence[Night]) -> ReleasedCount:
    """Return how many records of a class came on nights after which it has not opened yet.

    Labels are secret: it is what the counts say.
    """
    (step,) = stream.count_steps
    row = sum_row(1, len(history), stream.plan.horizon)
    sigma = stream.noise_of_sum(step.sigma, len(history)) * SQRT2
    total = float(row @ np.array([night.count for night in history]))
    return released_count(total, sigma, history[-1].n_so_far)


def released_count(total: float, sigma: float, most: int) -> ReleasedCount:
    """Return a count with noise of σ, of which it is public that it is at most `most`."""
    return ReleasedCount(np.array([total]), np.array([sigma**2]), max(most, 1))
