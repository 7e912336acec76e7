"""Memory of a stream on a class: what was released, which is public, and what was not.

All that follows from the former is here as well: its openings and epochs, where the records of the
next nights are clipped, the mean of all records so far, and that of any nights. This is
post-processing: it reads what nights released, and public numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from covdp.addons.nights.stream.factorisation import (
    LIMBS,
    WEIGHT_UNIT,
    Limbs,
    sum_row,
    weighted,
    weighted_sums,
)
from covdp.addons.nights.stream.plan import AIM, GROWTH, StreamMechanism
from covdp.addons.nights.stream.pool import Part, pool
from covdp.arrays import COORDINATES, COUNT, SIZE, SMALLEST, WHOLE, FloatArray, Limits
from covdp.errors import ConfigError
from covdp.geometry import Manifold
from covdp.mean import NoisyMoments
from covdp.mean.clip import SQRT2, choose_radius, clipping, likely_counts, records_outside
from covdp.mean.noisy_moments import clipped_moments
from covdp.mean.release import COUNT_STEPS, COUNT_UNIT, ReleasedCount
from covdp.mean.sums import PER_UNIT, Clipping, pairs
from covdp.recall import repeatable

SURE_COUNT_SD = 3.0
"""Least number of deviations of a released count that divides the sum of a window.

So counts just above it are too high: by hand by 0.65 of their deviation; and the noise of such
windows was 0.89 of what is stated.
"""
SURE_SHELL_SD = 3.0
"""Least share outside of a ball, in deviations of a noisy share in a shell."""
WINDOWS = (1, 7, 30, 90)
"""Nights of the windows that are usual: the last night, a week, a month, a quarter."""


@dataclass(frozen=True, eq=False)
class OpeningRelease:
    """Release of an opening: one adaptive mean of all records held back.

    Attributes
    ----------
    offset : array, shape (d,)
        The mean, in the chart.
    observed : NoisyMoments
        The mean before it was shrunk, the second moment, the shares in the shells, and the
        covariance of its error as predicted.
    shells_noise : float
        Standard deviation of the noise of each share.
    count : int or None
        Released count where labels are secret, of any sign; `observed.n` divides sums.
    """

    offset: Annotated[FloatArray, COORDINATES]
    observed: NoisyMoments
    shells_noise: Annotated[float, SIZE]
    count: Annotated[int, WHOLE] | None = None


@dataclass(frozen=True, eq=False)
class Epoch:
    """Map of records to vectors from a night on, chosen from what was released before it.

    Attributes
    ----------
    first : int
        First night.
    centre : array, shape (d,)
        Centre of the shells and of the ball, in the chart.
    radius : float
        Radius of the ball, in the axes.
    """

    first: Annotated[int, COUNT]
    centre: Annotated[FloatArray, COORDINATES]
    radius: Annotated[float, Limits(SMALLEST)]


@dataclass(frozen=True, eq=False)
class Night:
    """Release of one night of a class.

    Attributes
    ----------
    night : int
        Number, from 1.
    units : int
        Number of records that came this night (public): of the class, or, where labels are secret,
        of all classes together.
    n_so_far : int
        Number of records that came up to this night, likewise.
    opened : OpeningRelease or None
        Opening, on its night.
    epoch : Epoch or None
        Epoch, on its first night.
    shells : array or None
        Weighted sums of counts over √2 in the shells, of all nights of an epoch, noised; None
        before that.
    w : array or None
        Weighted sums of clipped vectors, likewise.
    moment : array or None
        Weighted sums of overshoots and products as in ``mean/sums.py``, likewise.
    rhos : tuple of float
        ρ-zCDP that the source of noise certifies for the steps of the opening; on a later night,
        for each series, for all that a record pays in it; NaN where it does not.
    count : float or None
        Weighted sum of the numbers of records of the class each night, noised, where labels are
        secret: of all nights until the opening, then of those of the epoch. None on others.
    """

    night: int
    units: int
    n_so_far: int
    opened: OpeningRelease | None = None
    epoch: Epoch | None = None
    shells: FloatArray | None = None
    w: FloatArray | None = None
    moment: FloatArray | None = None
    rhos: tuple[float, ...] = ()
    count: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSums:
    """Sums that must stay where the images are; small, and the same for any order of records.

    Attributes
    ----------
    waiting : array, shape (m, d)
        Coordinates of the records that wait for the opening.
    shells : array of uint16, shape (t, m, `LIMBS`)
        Counts of each night since the epoch began.
    means : array of uint16, shape (t, m, `LIMBS`)
        Sums of clipped vectors and overshoots times 2⁴⁰, then of their products times 2⁸⁰, of each
        night since the epoch began.
    counts : array of uint16, shape (t, 1, `LIMBS`)
        Number of records of each night, where labels are secret: of all nights until the opening,
        then of those of the epoch.
    """

    waiting: FloatArray
    shells: Limbs
    means: Limbs
    counts: Limbs

    @cached_property
    def vectors(self) -> tuple[FloatArray, FloatArray]:
        """Un-noised vectors of the last night: weighted shells, and means as pairs.

        Where labels are secret the latter end with the sum of a for each record.
        """
        d, sums = self.waiting.shape[1], weighted_sums(self.means)
        both = pairs(sums[:d], sums[d:], WEIGHT_UNIT)
        for total in weighted_sums(self.counts) if len(self.counts) else ():
            both = np.append(both, total * COUNT_STEPS / (WEIGHT_UNIT * PER_UNIT))
        return weighted(self.shells, SQRT2), both

    @property
    def count(self) -> FloatArray:
        """Un-noised count before the opening, (1,)."""
        return weighted(self.counts, SQRT2)

    def __repr__(self) -> str:
        """Show no value."""
        return f"Private(nights={len(self.means)})"


def empty_state(dim: int) -> PrivateSums:
    """Return the private sums that a stream starts with.

    Parameters
    ----------
    dim : int
        Dimension of the vectors.
    """
    return PrivateSums(np.empty((0, dim)), *[np.empty((0, 0, LIMBS), np.uint16)] * 3)


@dataclass(frozen=True, eq=False)
class EpochNights:
    """The nights of one epoch.

    Attributes
    ----------
    nights : tuple of Night
        Nights, t of them, the first of which begins the epoch.
    n : int
        Number of records in the epoch, where that is public; else the divisor of sums, at least 1.
    count : int
        Released count of the records, of any sign where that is secret.
    n_sd : float
        Standard deviation of the noise of `count`.
    """

    nights: tuple[Night, ...]
    n: int
    count: int
    n_sd: float = 0.0

    @property
    def epoch(self) -> Epoch:
        """Epoch of the nights."""
        epoch = self.nights[0].epoch
        assert epoch is not None
        return epoch

    def rows(self, name: str) -> FloatArray:
        """Return ``count``, ``shells``, ``w`` or ``moment`` of each `Night`, (t, ...).

        Parameters
        ----------
        name : str
            Field of `Night`.
        """
        return np.array(list(map(attrgetter(name), self.nights)), np.float64)

    @property
    def relative(self) -> float:
        """Relative standard deviation of `n`."""
        return self.n_sd / max(self.n, 1)


@dataclass(frozen=True)
class OpeningPart:
    """Opening of a history.

    Attributes
    ----------
    night : int
        Number of its night.
    release : OpeningRelease
        Release of the opening.
    n : int
        Number of records.
    count : int
        Released count.
    n_sd : float
        Standard deviation of the noise of `count`.
    """

    night: int
    release: OpeningRelease
    n: int
    count: int
    n_sd: float


@dataclass(frozen=True, eq=False)
class EpochHistory:
    """A history in its parts.

    Attributes
    ----------
    openings : tuple of OpeningPart
        Openings: one, but where the first was to be made good.
    waiting : int
        Records that wait for the next opening; as far as is known where that is secret.
    waiting_sd : float
        Standard deviation of the noise of `waiting`.
    segments : tuple of EpochNights
        Nights of each epoch.
    holds : bool
        True if records are held back.
    """

    openings: tuple[OpeningPart, ...]
    waiting: int
    waiting_sd: float
    segments: tuple[EpochNights, ...]
    holds: bool

    @property
    def opened(self) -> OpeningRelease | None:
        """The last opening."""
        return self.openings[-1].release if self.openings else None

    @cached_property
    def nights(self) -> tuple[Night, ...]:
        """Nights of all epochs, since records are held back no more."""
        return tuple(night for part in self.segments for night in part.nights)

    @cached_property
    def streamed(self) -> int:
        """Records of all epochs."""
        return sum(part.n for part in self.segments)

    @cached_property
    def n(self) -> int:
        """Records released so far."""
        return self.streamed + sum(part.n for part in self.openings)

    @property
    def count(self) -> int:
        """Released count of the records released so far, unbiased, of any sign."""
        openings = sum(part.count for part in self.openings)
        return openings + sum(part.count for part in self.segments)

    @property
    def n_sd(self) -> float:
        """Standard deviation of the noise of `count`."""
        openings = (part.n_sd for part in self.openings)
        return math.hypot(0.0, *openings, *(part.n_sd for part in self.segments))


def split_epochs(stream: StreamMechanism, history: Sequence[Night]) -> EpochHistory:
    """Return the openings and the epochs of a history, in one pass over its nights.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    """
    return _parts_of(stream, tuple(history))


@lru_cache(maxsize=32)  # of released values only: a night asks for the same history many times
def _parts_of(stream: StreamMechanism, history: tuple[Night, ...]) -> EpochHistory:
    openings, secret, since = list[OpeningPart](), stream.plan.secret, 0
    for place, night in enumerate(history, 1):
        if (opened := night.opened) is not None:
            n = sum(row.units for row in history[since:place])
            part = OpeningPart(place, opened, n, n, 0.0)
            if secret:
                n, n_sd = opened.observed.n, float(opened.observed.n_sd)
                part = OpeningPart(
                    place, opened, n, n if opened.count is None else opened.count, n_sd
                )
            openings.append(part)
            since = place
    later = history[since:]
    starts = [i for i, night in enumerate(later) if night.epoch]
    bounds = pairwise([*starts, len(later)])
    segments = tuple(_segment(stream, later[start:end]) for start, end in bounds)
    released = sum(part.n for part in openings)
    holds = not segments and stream.plan.next_opening(released) is not None
    waiting, waiting_sd = sum(night.units for night in later) if holds else 0, 0.0
    if holds and secret and later:
        counted = waiting_count(stream, later)
        waiting, waiting_sd = int(counted.shown[0]), float(counted.sd[0])
    return EpochHistory(tuple(openings), waiting, waiting_sd, segments, holds)


def _segment(stream: StreamMechanism, nights: Sequence[Night]) -> EpochNights:
    """Return the nights of an epoch, and how many records they say came."""
    n = sum(night.units for night in nights)
    if not stream.plan.secret:
        return EpochNights(tuple(nights), n, n)
    sigma = stream.noise_of_sum(stream.steps[-1].sigma, len(nights)) / COUNT_UNIT
    estimate = released_count(stream, nights, sigma, n)
    n, count = int(estimate.divisor[0]), int(estimate.shown[0])
    return EpochNights(tuple(nights), n, count, float(estimate.sd[0]))


def waiting_count(stream: StreamMechanism, history: Sequence[Night]) -> ReleasedCount:
    """Return the released count of a class that has not opened yet, where labels are secret.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    """
    (step,) = stream.count_steps
    sigma = stream.noise_of_sum(step.sigma, len(history)) * SQRT2
    return released_count(stream, history, sigma, history[-1].n_so_far)


def released_count(
    stream: StreamMechanism, nights: Sequence[Night], sigma: float, most: int
) -> ReleasedCount:
    """Return the count of the records of some nights.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    nights : sequence of Night
        Nights with counts.
    sigma : float
        Standard deviation of its noise.
    most : int
        Public number of records of all classes.
    """
    total = sum_of(stream, np.array([night.count for night in nights], np.float64))
    return ReleasedCount(np.array([float(total)]), np.array([sigma**2]), max(most, 1))


def epoch_due(past: EpochHistory) -> bool:
    """Return True if an epoch begins tonight: after an opening for good, or when N has grown.

    Parameters
    ----------
    past : EpochHistory
        Openings and epochs of the nights so far.
    """
    if not past.segments:
        return not past.holds
    return past.n >= GROWTH * (past.n - past.segments[-1].n)


@repeatable
@lru_cache(maxsize=32)  # what a night's records are mapped to and what it releases ask for it
def begin_epoch(stream: StreamMechanism, history: tuple[Night, ...]) -> Epoch:
    """Return the epoch that begins tonight: a function of released values and public numbers.

    Its radius leaves as many outside as is best for the noise that is expected when there are `AIM`
    times as many records, which come at the rate of so far: see ``mean/clip.py``. Its centre is
    where the opening counted them, later the mean of all records so far, which may have moved.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : tuple of Night
        Nights so far, in order, as they were released.

    Raises
    ------
    ConfigError
        Before the opening.
    """
    past, mean = split_epochs(stream, history), cumulative_mean(stream, history)
    if mean is None or past.opened is None:
        raise ConfigError("an epoch begins after the opening; hold the records back until then")
    more, left = (AIM - 1.0) * mean.n, stream.plan.horizon - len(history)
    nights = max(1, min(left, round(more / mean.n * len(history))))
    sigma = stream.noise_of_sum(stream.steps[-1].sigma, nights)
    (outside,) = records_outside(sigma, stream.space.dim, np.array([more])) / more
    shells, noise = _shells(stream, past)
    wanted = np.maximum(outside, SURE_SHELL_SD * noise)[None]
    (radius,) = choose_radius(likely_counts(shells[None], np.ones(1)), stream.prior.edges, wanted)
    centre, ball = past.opened.observed.base, np.linalg.norm(past.opened.observed.axes)
    before = 0.5 * float(ball / np.linalg.norm(stream.frame.from_axes))
    if past.segments:
        centre, before = mean.offset, past.segments[-1].epoch.radius
    far = shells[-1] > wanted[0]  # beyond the last edge shells do not say how wide
    return Epoch(len(history) + 1, centre, max(float(radius), before * far))


@lru_cache(maxsize=32)  # of released values only: all nights of an epoch have one
def clipping_of(stream: StreamMechanism, epoch: Epoch) -> Clipping:
    """Return the map of the records of an epoch to their vectors, of one repetition.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    epoch : Epoch
        Epoch of the records.
    """
    centre, odd = (stream.in_axes(stream.centre, x) for x in (epoch.centre, stream.odd))
    radius, away = np.array([epoch.radius]), (odd - centre)[None]
    return clipping(radius, centre[None], away, stream.frame.lines, stream.prior)


def part_moments(stream: StreamMechanism, past: EpochHistory) -> tuple[NoisyMoments, ...]:
    """Return the moments of each part of the mean of all records so far; see `mean_parts`.

    Empty before the opening.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    past : EpochHistory
        Openings and epochs of the nights so far.
    """
    epochs = (epoch_moments(stream, past, segment) for segment in past.segments if segment.n)
    return *(part.release.observed for part in past.openings), *epochs


@lru_cache(maxsize=32)  # of released values only: means, regions and tests of a night ask for it
def epoch_moments(stream: StreamMechanism, past: EpochHistory, last: EpochNights) -> NoisyMoments:
    """Return the moments of the records of one epoch, of which there are some, nothing shrunk.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    past : EpochHistory
        Openings and epochs of the nights so far.
    last : EpochNights
        Nights of the epoch.
    """
    shells, noise = _shells(stream, past, last)
    rows, edges = np.hstack([last.rows("w"), last.rows("moment")]), stream.prior.edges
    outside = len(edges) + 1 - np.searchsorted(edges, last.epoch.radius, side="right")
    (moments,) = clipped_moments(
        sum_of(stream, rows)[None] / last.n,
        clipping_of(stream, last.epoch),
        stream.frame,
        n=np.array([last.n]),
        base=last.epoch.centre[None],
        middle=np.zeros((1, stream.space.dim)),
        sigma=np.array([stream.noise_of_sum(stream.steps[-1].sigma, len(rows)) / last.n]),
        clipped=np.array([share_outside(shells, edges, last.epoch.radius)]),
        clipped_noise=np.array([noise * math.sqrt(outside)]),
        n_sd=np.array([last.n_sd]),
    ).each()
    return moments


def _shells(
    stream: StreamMechanism, past: EpochHistory, last: EpochNights | None = None
) -> tuple[FloatArray, float]:
    """Return the shares of records in the shells, and the noise of each, as of an epoch.

    Those of the last opening and of the epochs up to it are put together by precision.
    """
    assert past.opened is not None
    shares, noise = np.asarray(past.opened.observed.shells), past.opened.shells_noise
    for segment in past.segments:
        if segment.n:
            nights = len(segment.nights)
            own = stream.noise_of_sum(stream.steps[0].sigma, nights) * SQRT2 / segment.n
            weight = own**2 / (noise**2 + own**2)
            seen = sum_of(stream, segment.rows("shells")) * SQRT2 / segment.n
            shares = weight * shares + (1.0 - weight) * seen
            noise *= math.sqrt(weight)
        if segment is last:
            break
    return shares, noise


@dataclass(frozen=True, eq=False)
class StreamMean:
    """The mean of n records of a stream.

    Attributes
    ----------
    space : Manifold
        Chart of `offset`.
    offset : array, shape (d,)
        Mean, in the chart.
    covariance : array, shape (d, d)
        Covariance of the error.
    n : int
        Number of records.
    """

    space: Manifold
    offset: FloatArray
    covariance: FloatArray
    n: int

    @property
    def point(self) -> NDArray[np.float64]:
        """The mean, on the manifold; matrices are definite."""
        return np.asarray(self.space.points(self.offset))  # type: ignore[attr-defined]  # FlatChart


@dataclass(frozen=True, eq=False)
class CumulativeMean(StreamMean):
    """The mean of all n records so far.

    Its covariance is as predicted: noise, some of the bias of clipping, and what parts of unequal
    weight leave.

    Attributes
    ----------
    spread : array, shape (d, d)
        Covariance that single records are thought to have.
    """

    spread: FloatArray


@dataclass(frozen=True, eq=False)
class WindowMean(StreamMean):
    """The mean of the clipped coordinates of the n records of some nights, nothing shrunk.

    Its covariance is that of the noise, exactly where labels are public; what clipping did is not
    in it.

    Attributes
    ----------
    first : int
        First night.
    last : int
        Last night.
    rows : tuple of array
        For each epoch, the weight of each night's noise in each entry of w.
    n_sd : float
        Standard deviation of the noise of `n`.
    """

    first: int
    last: int
    rows: tuple[FloatArray, ...]
    n_sd: float


def cumulative_mean(stream: StreamMechanism, history: Sequence[Night]) -> CumulativeMean | None:
    """Return the mean of all records so far, None before the opening.

    Opening and epochs are parts with errors of their own, put together by precision; see `pool`.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    """
    pooled = mean_parts(stream, split_epochs(stream, history))
    return None if pooled is None else _pool(stream, *pooled)


def mean_parts(stream: StreamMechanism, past: EpochHistory) -> tuple[list[Part], FloatArray] | None:
    """Return the parts of the mean of all records so far, and the covariance of single records.

    Openings come first, then every epoch that has records; None before the opening.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    past : EpochHistory
        Openings and epochs of the nights so far.
    """
    if past.opened is None:
        return None
    parts = list[Part]()
    for opening in past.openings:
        seen = opening.release.observed
        error = np.asarray(seen.belief) + seen.clipping
        parts.append(Part(opening.n, opening.release.offset, error))
    for segment in past.segments:
        if segment.n:
            seen = epoch_moments(stream, past, segment)
            parts.append(Part(segment.n, segment.epoch.centre + seen.offset, seen.predicted))
    radius = past.segments[-1].epoch.radius if past.segments else stream.prior.unit
    return parts, stream.spread(radius)


def join_streams(stream: StreamMechanism, *estimates: CumulativeMean) -> CumulativeMean:
    """Return the mean of the records of several streams, each with records of its own.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    *estimates : CumulativeMean
        Mean of all records of each stream.

    Raises
    ------
    ConfigError
        When there is none, or one is of another geometry.
    """
    if not estimates or any(estimate.space != stream.space for estimate in estimates):
        raise ConfigError("streams of one geometry are joined, one or more; take others apart")
    parts = [Part(estimate.n, estimate.offset, estimate.covariance) for estimate in estimates]
    weights = [estimate.n for estimate in estimates]
    spread = np.average([estimate.spread for estimate in estimates], axis=0, weights=weights)
    return _pool(stream, parts, spread)


def window_mean(
    stream: StreamMechanism, history: Sequence[Night], nights: int
) -> WindowMean | None:
    """Return the mean of the records of the last `nights` nights, None where none of them came.

    A window reaches back to the night after the opening at most: what was released there is one
    mean, which no night can be taken out of. ``first`` says where it begins. Where labels are
    secret it has none either if a count of `SURE_COUNT_SD` of its deviations or fewer is all that
    was released.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    nights : int
        Number of the last nights.
    """
    return window_between(stream, history, len(history) - nights + 1, len(history))


def window_between(
    stream: StreamMechanism, history: Sequence[Night], first: int, last: int
) -> WindowMean | None:
    """Return the mean of the records of the nights from `first` to `last`; see `window_mean`.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    first : int
        First night, from 1.
    last : int
        Last night.

    Raises
    ------
    ConfigError
        When they are no nights of the history.
    """
    if not first <= last <= len(history) or last < 1:
        raise ConfigError(
            f"a window ends with one of the {len(history)} nights so far, and begins no later, "
            f"found {first} to {last}"
        )
    segments = split_epochs(stream, history).segments
    if not segments:
        return None
    first = max(first, segments[0].epoch.first)
    total, n, rows = np.zeros(stream.space.dim), 0.0, list[FloatArray]()
    covariance, variance = np.zeros((stream.space.dim, stream.space.dim)), 0.0
    for segment in segments:
        begin, w = segment.epoch.first, segment.rows("w")
        start, end = max(first - begin, 0), min(max(last - begin + 1, 0), len(w))
        row = np.zeros(len(w))
        if start < end:
            row[:end] = sum_row(start + 1, end, stream.plan.horizon)
        many = float(sum(night.units for night in segment.nights[start:end]))
        if stream.plan.secret:
            many = float(row @ segment.rows("count"))
            variance += float(row @ row) * (stream.steps[-1].sigma / COUNT_UNIT) ** 2
        total += row @ w @ _axes(stream, segment) + many * segment.epoch.centre
        covariance += float(row @ row) * _noise(stream, segment)
        n += many
        rows.append(row)
    rows, n_sd = [row / n for row in rows] if n else [], math.sqrt(variance)
    if not n or n < SURE_COUNT_SD * n_sd:
        return None
    offset, covariance = total / n, covariance / n**2
    for row, segment in zip(rows, segments, strict=True):
        covariance += float(row @ row) * _count_noise(stream, segment, offset, offset)
    n = max(round(n), 1)
    return WindowMean(stream.space, offset, covariance, n, first, last, tuple(rows), n_sd)


def covariance_of(
    stream: StreamMechanism, history: Sequence[Night], first: WindowMean, other: WindowMean
) -> FloatArray:
    """Return the covariance of the noise of two windows of a history, (d, d), exactly.

    They share the noise of the nights before them: neighbouring windows are correlated.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    history : sequence of Night
        Nights so far, in order, as they were released.
    first : WindowMean
        One window.
    other : WindowMean
        Other window.
    """
    covariance = np.zeros((stream.space.dim, stream.space.dim))
    segments = split_epochs(stream, history).segments
    for segment, row, column in zip(segments, first.rows, other.rows, strict=False):
        few = min(len(row), len(column))
        noise = _noise(stream, segment) + _count_noise(stream, segment, first.offset, other.offset)
        covariance += float(row[:few] @ column[:few]) * noise
    return covariance


def _count_noise(
    stream: StreamMechanism, segment: EpochNights, first: FloatArray, other: FloatArray
) -> FloatArray:
    """Return what the noise of one night's count adds to the covariance of two means, (d, d).

    One record too many in an epoch moves a mean by the way from it to the middle of the clip.
    """
    if not stream.plan.secret:
        return np.zeros((stream.space.dim, stream.space.dim))
    middle, variance = segment.epoch.centre, (stream.steps[-1].sigma / COUNT_UNIT) ** 2
    return np.asarray(variance * np.outer(middle - first, middle - other))


def sum_of(stream: StreamMechanism, released: FloatArray) -> FloatArray:
    """Return S_t, the noised sum of all nights of a series, of w_1, …, w_t.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    released : array, shape (t, ...)
        Released values w_1, …, w_t.
    """
    return np.asarray(sum_row(1, len(released), stream.plan.horizon) @ released)


def _axes(stream: StreamMechanism, segment: EpochNights) -> FloatArray:
    """Return what one unit of each coordinate of w is, in the chart."""
    return np.asarray(2.0 * segment.epoch.radius * stream.frame.from_axes)


def _noise(stream: StreamMechanism, segment: EpochNights) -> FloatArray:
    """Return the covariance of the noise of one w of an epoch, in the chart."""
    axes = _axes(stream, segment)
    return np.asarray(stream.steps[-1].sigma ** 2 * axes.T @ axes)


def _pool(stream: StreamMechanism, parts: Sequence[Part], spread: FloatArray) -> CumulativeMean:
    """Return the mean of the records of all parts, by precision, inside the region; see `pool`."""
    result, n = pool(parts, spread), sum(part.n for part in parts)
    offset = stream.feasible_set.inside(result.mean)
    return CumulativeMean(stream.space, offset, result.of_units, n, spread)


def share_outside(shells: FloatArray, edges: FloatArray, radius: float) -> float:
    """Return the share of records outside of a ball, as noised shells say.

    Parameters
    ----------
    shells : array, shape (b,)
        Noised shares of the records.
    edges : array, shape (b - 1,)
        Radii between shells.
    radius : float
        Radius of the ball.

    Returns
    -------
    float
        Share, 0 to 1.
    """
    beyond = np.cumsum(shells[::-1])[-2::-1]  # each edge
    return float(np.clip(np.interp(math.log(radius), np.log(edges), beyond), 0.0, 1.0))
