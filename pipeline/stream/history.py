"""What a stream remembers of a class: what was released, which is public, and what was not.

All that follows from the former is here as well: its openings and epochs, where the records of the
next nights are clipped, the mean of all records so far, and that of any nights. This is
post-processing: it reads what nights released, and public numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import COORDINATES, COUNT, SIZE, WHOLE, FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold
from pipeline.mean import NoisyMoments
from pipeline.mean.clip import Clip, choose_clip, choose_interval, mean_units, reaches, spread
from pipeline.mean.histogram import SQRT2, SurveyPosterior, merge, read_survey
from pipeline.mean.noisy_moments import Part, clip_moments, pool
from pipeline.mean.release import COUNT_STEPS, COUNT_UNIT, ReleasedCount
from pipeline.mean.rounds import observe
from pipeline.mean.sums import PER_UNIT, pairs
from pipeline.mean.tuning import FIRST_RADIUS
from pipeline.recall import repeatable
from pipeline.stream.factorisation import (
    LIMBS,
    WEIGHT_UNIT,
    Limbs,
    sum_row,
    weighted,
    weighted_sums,
)
from pipeline.stream.plan import AIM, GROWTH, StreamMechanism

SURE_COUNT_SD = 3.0
"""Of how many of its deviations a released count is, at least, to divide the sum of a window.

So counts just above it are too high: by hand by 0.65 of their deviation; and the noise of such
windows was 0.89 of what is stated.
"""
WINDOWS = (1, 7, 30, 90)
"""Nights of the windows that are usual: the last night, a week, a month, a quarter."""


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
    count : int or None
        Released count where labels are secret, of any sign; `observed.n` divides sums.
    """

    offset: Annotated[FloatArray, COORDINATES]
    observed: NoisyMoments
    survey_noise: Annotated[float, SIZE]
    shells_noise: Annotated[float, SIZE]
    count: Annotated[int, WHOLE] | None = None

    @property
    def survey(self) -> NoisyShares:
        """The shares in the bins of the survey."""
        return NoisyShares(np.asarray(self.observed.survey), self.survey_noise)

    @property
    def shells(self) -> NoisyShares:
        """The shares in the shells."""
        return NoisyShares(np.asarray(self.observed.shells), self.shells_noise)


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
    waiting : array, shape (m, d)
        Coordinates of the records that wait for the opening.
    survey, shells, means : array of uint16, shape (t, m, `LIMBS`)
        Counts, and 2⁴⁰ times sums of clipped vectors and overshoots, then 2⁸⁰ times those of their
        products, of each night of the series: since the opening for the survey, since the epoch
        began for the others.
    counts : array of uint16, shape (t, 1, `LIMBS`)
        Where labels are secret, how many records came each night: of all nights until the opening,
        then of those of the epoch.
    """

    waiting: FloatArray
    survey: Limbs
    shells: Limbs
    means: Limbs
    counts: Limbs

    @cached_property
    def vectors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What the last night's noise is added to: weighted survey, shells, and means as pairs.

        Where labels are secret the latter end with the sum of a for each record.
        """
        d, sums = self.waiting.shape[1], weighted_sums(self.means)
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
    nights : tuple of Night
        t of them, the first of which begins the epoch.
    n : int
        Records in the epoch, where that is public; else what sums are divided by, at least 1.
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
        """What their records are mapped to."""
        epoch = self.nights[0].epoch
        assert epoch is not None
        return epoch

    def rows(self, name: str) -> FloatArray:
        """Return ``count``, ``shells``, ``w`` or ``moment`` of each `Night`, (t, ...)."""
        return np.array([getattr(night, name) for night in self.nights], np.float64)

    @property
    def relative(self) -> float:
        """By what share of itself `n` is off."""
        return self.n_sd / max(self.n, 1)


@dataclass(frozen=True)
class OpeningPart:
    """An opening: night, release, number of records, released count, standard deviation of that."""

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
        One, but where the first was to be made good.
    waiting : int
        Records that wait for the next opening; as far as is known where that is secret.
    waiting_sd : float
        Standard deviation of the noise of `waiting`.
    segments : tuple of EpochNights
    holds : bool
        Whether records are held back.
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
        """Those of all epochs, since records are held back no more."""
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
    """Return the openings and the epochs of a history, in one pass over its nights."""
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
    sigma = stream.noise_of_sum(stream.steps[2].sigma, len(nights)) / COUNT_UNIT
    estimate = released_count(stream, nights, sigma, n)
    n, count = int(estimate.divisor[0]), int(estimate.shown[0])
    return EpochNights(tuple(nights), n, count, float(estimate.sd[0]))


def waiting_count(stream: StreamMechanism, history: Sequence[Night]) -> ReleasedCount:
    """Return how many records of a class came on nights after which it has not opened yet.

    Labels are secret: it is what the counts say.
    """
    (step,) = stream.count_steps
    sigma = stream.noise_of_sum(step.sigma, len(history)) * SQRT2
    return released_count(stream, history, sigma, history[-1].n_so_far)


def released_count(
    stream: StreamMechanism, nights: Sequence[Night], sigma: float, most: int
) -> ReleasedCount:
    """Return what the counts of some nights say, with noise of σ; `most` is public."""
    total = sum_of(stream, np.array([night.count for night in nights], np.float64))
    return ReleasedCount(np.array([float(total)]), np.array([sigma**2]), max(most, 1))


def epoch_due(past: EpochHistory) -> bool:
    """Tell whether an epoch begins tonight: after an opening for good, or when N has grown."""
    if not past.segments:
        return not past.holds
    return past.n >= GROWTH * (past.n - past.segments[-1].n)


@repeatable
@lru_cache(maxsize=32)  # what a night's records are mapped to and what it releases ask for it
def begin_epoch(stream: StreamMechanism, history: tuple[Night, ...]) -> Epoch:
    """Return the epoch that begins tonight: a function of released values and public numbers.

    Its centre is the mean of all records so far, its clip the best for the noise that is expected
    when there are `AIM` times as many records, which come at the rate of so far. A clip of the
    whole region is not considered: at N·μ of an opening it is never the best.

    Raises
    ------
    ConfigError
        Before the opening.
    """
    past = split_epochs(stream, history)
    mean, opened = cumulative_mean(stream, history), past.opened
    if mean is None or opened is None:
        raise ConfigError("an epoch begins after the opening; hold the records back until then")
    shells, around = opened.shells, opened.offset
    if past.segments and past.segments[-1].n:
        shells, around = _shells(stream, past.segments[-1]), past.segments[-1].epoch.centre
    slack = (past.n_sd / past.n) ** 2
    survey, filled, _ = _histograms(stream, past, shells, around, slack)
    more, left = (AIM - 1.0) * mean.n, stream.plan.horizon - len(history)
    nights = max(1, min(left, round(more / mean.n * len(history))))
    sigma, radius = stream.noise_of_sum(stream.steps[2].sigma, nights) / more, _radius(stream, past)
    secret = stream.plan.secret
    count_error = sigma / COUNT_UNIT if secret else 0.0
    interval = choose_interval(
        survey, stream.bins, stream.frame, sigma=sigma, radius=radius, count_error=count_error
    )
    clip = choose_clip(
        interval,
        survey,
        filled,
        stream.bins,
        stream.frame,
        sigma=sigma,
        diameter=stream.feasible_set.diameter,
        cover=math.inf if secret else stream.feasible_set.cover,
        curvature=0.0,
        doubt=0.0,  # what curvature makes of it is nothing here
        count_error=count_error,
    )
    return Epoch(len(history) + 1, mean.offset, clip)


def part_moments(stream: StreamMechanism, past: EpochHistory) -> tuple[NoisyMoments, ...]:
    """Return what each part of the mean of all records so far says of its own; see `pooled_parts`.

    Empty before the opening.
    """
    epochs = (epoch_moments(stream, past, segment) for segment in past.segments if segment.n)
    return *(part.release.observed for part in past.openings), *epochs


def epoch_moments(stream: StreamMechanism, past: EpochHistory, last: EpochNights) -> NoisyMoments:
    """Return what one epoch says of its records, of which there are some, nothing shrunk."""
    clip, centre, bins, frame = last.epoch.clip, last.epoch.centre, stream.bins, stream.frame
    shells, rows = _shells(stream, last), np.hstack([last.rows("w"), last.rows("moment")])
    survey, filled, noise = _histograms(stream, past, shells, centre, last.relative**2)
    return clip_moments(
        last.n,
        centre,
        sum_of(stream, rows) / last.n,
        clip,
        frame,
        line_coordinate=stream.spot(centre),
        spread=spread(survey, filled, bins, clip, frame, noise, moved=False),
        sigma=stream.noise_of_sum(stream.steps[2].sigma, len(rows)) / last.n,
        noises=(shells.noise, noise),
        reach=reaches(clip, frame, stream.prior),
        n_sd=last.n_sd,
    )


def _histograms(
    stream: StreamMechanism,
    past: EpochHistory,
    shells: NoisyShares,
    centre: FloatArray,
    slack: float,
) -> tuple[SurveyPosterior, FloatArray, float]:
    """Return what the survey says, the smoothed shells, and the noise of a share of the survey.

    Shells are counted around `centre`; `slack` is the variance of their sum, as in `merge`.
    """
    shares, noise = _survey(stream, past)
    survey = read_survey(shares, noise, stream.bins, (past.n_sd / past.n) ** 2)
    steady, own = stream.steady(centre), shells.noise / SQRT2
    filled = merge(shells.values, survey.far, own, noise / SQRT2, steady, slack)
    return survey, filled, noise


def _survey(stream: StreamMechanism, past: EpochHistory) -> NoisyShares:
    """Return the shares in the bins of the survey: the last opening's and the nights'."""
    assert past.opened is not None
    first, n = past.opened.survey, past.streamed
    if not n:
        return first
    released = np.array([night.survey for night in past.nights], np.float64)
    later = _shares(stream, released, n, stream.steps[0].sigma)
    weight = later.noise**2 / (first.noise**2 + later.noise**2)
    values = weight * first.values + (1.0 - weight) * later.values
    return NoisyShares(values, first.noise * math.sqrt(weight))


def _shells(stream: StreamMechanism, last: EpochNights) -> NoisyShares:
    """Return the shares in the shells of an epoch."""
    return _shares(stream, last.rows("shells"), last.n, stream.steps[1].sigma)


def _radius(stream: StreamMechanism, past: EpochHistory) -> float:
    """Return the radius of the last epoch's clip, of the opening's before there is one."""
    if past.segments:
        return float(past.segments[-1].epoch.clip.radius)
    assert past.opened is not None
    observed, frame = past.opened.observed, stream.frame
    if observed.moment is None:  # the clip was the whole region
        return FIRST_RADIUS * stream.prior.least
    return float((observed.axes @ frame.to_axes)[-1, -1]) / 2.0


def _shares(stream: StreamMechanism, released: FloatArray, n: int, sigma: float) -> NoisyShares:
    """Return the shares of n records that a series of counts over √2 says."""
    noise = stream.noise_of_sum(sigma, len(released)) * SQRT2 / n
    return NoisyShares(sum_of(stream, released) * SQRT2 / n, noise)


@dataclass(frozen=True, eq=False)
class StreamMean:
    """The mean of n records of a stream.

    Attributes
    ----------
    space : Manifold
        The chart that `offset` is in.
    offset : array, shape (d,)
        The mean in the chart.
    covariance : array, shape (d, d)
        Of its error.
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
    first, last : int
        Its nights.
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
    """
    pooled = mean_parts(stream, split_epochs(stream, history))
    return None if pooled is None else _pool(stream, *pooled)


def mean_parts(stream: StreamMechanism, past: EpochHistory) -> tuple[list[Part], FloatArray] | None:
    """Return the parts of the mean of all records so far, and the covariance of single records.

    Openings come first, then every epoch that has records; None before the opening.
    """
    if past.opened is None:
        return None
    parts = [
        Part(part.n, part.release.offset, np.asarray(part.release.observed.belief))
        for part in past.openings
    ]
    parts += [_observed(stream, segment) for segment in past.segments if segment.n]
    clip = past.segments[-1].epoch.clip if past.segments else None
    return parts, stream.spread(clip)


def join_streams(stream: StreamMechanism, *estimates: CumulativeMean) -> CumulativeMean:
    """Return the mean of the records of several streams, each with records of its own.

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

    A window reaches back to the opening at most: what was released there is one mean, which no
    night can be taken out of. ``first`` says where it begins. Where labels are secret it has none
    either if a count of `SURE_COUNT_SD` of its deviations or fewer is all that was released.
    """
    return window_between(stream, history, len(history) - nights + 1, len(history))


def window_between(
    stream: StreamMechanism, history: Sequence[Night], first: int, last: int
) -> WindowMean | None:
    """Return the same of the nights from `first` to `last`.

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
    frame, total, n, rows = stream.frame, np.zeros(stream.space.dim), 0.0, list[FloatArray]()
    covariance, variance = np.zeros((stream.space.dim, stream.space.dim)), 0.0
    for segment in segments:
        begin, w = segment.epoch.first, segment.rows("w")
        start, end = max(first - begin, 0), min(max(last - begin + 1, 0), len(w))
        row = np.zeros(len(w))
        if start < end:
            row[:end] = sum_row(start + 1, end, stream.plan.horizon)
        scale = mean_units(segment.epoch.clip, frame)
        many = float(sum(night.units for night in segment.nights[start:end]))
        if stream.plan.secret:
            many = float(row @ segment.rows("count"))
            variance += float(row @ row) * (stream.steps[2].sigma / COUNT_UNIT) ** 2
        total += (row @ w * scale) @ frame.from_axes + many * _middle(stream, segment)
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
    middle = _middle(stream, segment)
    variance = (stream.steps[2].sigma / COUNT_UNIT) ** 2
    return np.asarray(variance * np.outer(middle - first, middle - other))


def sum_of(stream: StreamMechanism, released: FloatArray) -> FloatArray:
    """Return S_t, the noised sum of all nights of a series, of w_1, …, w_t."""
    return np.asarray(sum_row(1, len(released), stream.plan.horizon) @ released)


def _noise(stream: StreamMechanism, segment: EpochNights) -> FloatArray:
    """Return the covariance of the noise of one w of an epoch, in the chart."""
    scale = stream.steps[2].sigma * mean_units(segment.epoch.clip, stream.frame)
    return np.asarray((stream.frame.from_axes.T * scale**2) @ stream.frame.from_axes)


def _middle(stream: StreamMechanism, segment: EpochNights) -> FloatArray:
    """Return where a record is whose vector is 0."""
    epoch, frame = segment.epoch, stream.frame
    middle = np.zeros(stream.space.dim)
    middle[: frame.lines] = (epoch.clip.low + epoch.clip.high) / 2.0 - stream.spot(epoch.centre)
    return np.asarray(epoch.centre + middle @ frame.from_axes)


def _observed(stream: StreamMechanism, segment: EpochNights) -> Part:
    """Return the mean of an epoch's records; some of the predicted bias counts as noise."""
    epoch, n = segment.epoch, segment.n
    mean, covariance = observe(
        sum_of(stream, segment.rows("w")) / n,
        epoch.clip,
        stream.frame,
        line_coordinate=stream.spot(epoch.centre),
        shift=0.0,
        sigma=stream.noise_of_sum(stream.steps[2].sigma, len(segment.nights)) / n,
        relative=segment.relative,
    )
    return Part(n, epoch.centre + mean, covariance)


def _pool(stream: StreamMechanism, parts: Sequence[Part], spread: FloatArray) -> CumulativeMean:
    """Return the mean of the records of all parts, by precision, inside the region; see `pool`."""
    result, n = pool(parts, spread), sum(part.n for part in parts)
    offset = stream.feasible_set.inside(result.mean)
    return CumulativeMean(stream.space, offset, result.of_units, n, spread)
