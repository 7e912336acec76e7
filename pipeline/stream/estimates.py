"""What the released values say: the mean of all records so far, and that of any nights.

Everything here is post-processing: it reads what nights released, and public numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold
from pipeline.mean.clip import mean_units
from pipeline.mean.noisy_moments import Part, pool
from pipeline.mean.release import COUNT_UNIT
from pipeline.mean.rounds import observe
from pipeline.stream.factorisation import sum_row
from pipeline.stream.history import EpochHistory, EpochNights, Night, split_epochs
from pipeline.stream.mechanism import StreamMechanism

SURE = 3.0
"""Of how many of its deviations a released count is, at least, to divide the sum of a window."""
WINDOWS = (1, 7, 30, 90)
"""Nights of the windows that are usual: the last night, a week, a month, a quarter."""


@dataclass(frozen=True, eq=False)
class CumulativeMean:
    """The mean of n records.

    Attributes
    ----------
    space : Manifold
        The chart that `offset` is in.
    offset : array, shape (d,)
        The mean in the chart.
    covariance : array, shape (d, d)
        Of its error, as predicted: noise, some of the bias of clipping, and what parts of unequal
        weight leave.
    n : int
        Number of records.
    spread : array, shape (d, d)
        Covariance that single records are thought to have.
    """

    space: Manifold
    offset: FloatArray
    covariance: FloatArray
    n: int
    spread: FloatArray

    @property
    def point(self) -> NDArray[np.float64]:
        """The mean, on the manifold."""
        return on_manifold(self.space, self.offset)


@dataclass(frozen=True, eq=False)
class WindowMean:
    """The mean of the records of some nights, nothing shrunk.

    Attributes
    ----------
    space : Manifold
        The chart that `offset` is in.
    first, last : int
        Its nights.
    n : int
        Records that came in them.
    offset : array, shape (d,)
        The mean of their clipped coordinates, with noise.
    covariance : array, shape (d, d)
        Of that noise, exactly where labels are public; what clipping did is not in it.
    rows : tuple of array
        For each epoch, the weight of each night's noise in each entry of w.
    ways : tuple of array, shape (d,)
        Where labels are secret, for each epoch, by how much one record too many in it moves the
        sum.
    n_sd : float
        Standard deviation of the noise of `n`.
    """

    space: Manifold
    first: int
    last: int
    n: int
    offset: FloatArray
    covariance: FloatArray
    rows: tuple[FloatArray, ...]
    ways: tuple[FloatArray, ...] = ()
    n_sd: float = 0.0

    @property
    def point(self) -> NDArray[np.float64]:
        """The mean, on the manifold."""
        return on_manifold(self.space, self.offset)


def on_manifold(space: Manifold, offset: FloatArray) -> NDArray[np.float64]:
    """Return coordinates of a chart as a point of its manifold; matrices are definite."""
    return np.asarray(space.points(offset))  # type: ignore[attr-defined]  # a FlatChart


def cumulative_mean(stream: StreamMechanism, history: Sequence[Night]) -> CumulativeMean | None:
    """Return the mean of all records so far, None before the opening.

    Opening and epochs are parts with errors of their own, put together by precision; see `pool`.
    """
    return _cumulative_mean(stream, split_epochs(stream, history))


def _cumulative_mean(stream: StreamMechanism, past: EpochHistory) -> CumulativeMean | None:
    """Return the same of a history in its parts."""
    pooled = mean_parts(stream, past)
    return None if pooled is None else _pool(stream.space, *pooled, stream)


def mean_parts(stream: StreamMechanism, past: EpochHistory) -> tuple[list[Part], FloatArray] | None:
    """Return the parts of the mean of all records so far, and the covariance of single records.

    Openings come first, then every epoch that has records; None before the opening.
    """
    if past.opened is None:
        return None
    parts = [Part(one.n, one.release.offset, one.release.belief) for one in past.openings]
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
    if not estimates or any(found.space != stream.space for found in estimates):
        raise ConfigError("streams of one geometry are joined, one or more; take others apart")
    parts = [Part(found.n, found.offset, found.covariance) for found in estimates]
    weights = [found.n for found in estimates]
    spread = np.average([found.spread for found in estimates], axis=0, weights=weights)
    return _pool(stream.space, parts, spread, stream)


def window_mean(
    stream: StreamMechanism, history: Sequence[Night], nights: int
) -> WindowMean | None:
    """Return the mean of the records of the last `nights` nights, None where none of them came.

    A window reaches back to the opening at most: what was released there is one mean, which no
    night can be taken out of. ``first`` says where it begins. Where labels are secret it has none
    either if a count of `SURE` of its deviations or fewer is all that was released.
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
        begin, t = segment.epoch.first, len(segment.w)
        start, end = max(first - begin, 0), min(max(last - begin + 1, 0), t)
        row = np.zeros(t)
        if start < end:
            row[:end] = sum_row(start + 1, end, stream.plan.horizon)
        scale = mean_units(segment.epoch.clip, frame)
        many = float(segment.units[start:end].sum())
        if segment.counts is not None:
            many = float(row @ segment.counts)
            variance += float(row @ row) * (stream.steps[2].sigma / COUNT_UNIT) ** 2
        total += (row @ segment.w * scale) @ frame.from_axes + many * _middle(stream, segment)
        covariance += float(row @ row) * _noise(stream, segment)
        n += many
        rows.append(row)
    rows, n_sd = [row / n for row in rows] if n else [], math.sqrt(variance)
    if not n or n < SURE * n_sd:
        return None
    offset, covariance, ways = total / n, covariance / n**2, tuple[FloatArray, ...]()
    if stream.plan.secret:
        ways = tuple(_middle(stream, segment) - offset for segment in segments)
        for row, way in zip(rows, ways, strict=True):
            covariance += float(row @ row) * _count_noise(stream, way, way)
    n = max(round(n), 1)
    return WindowMean(stream.space, first, last, n, offset, covariance, tuple(rows), ways, n_sd)


def covariance_of(
    stream: StreamMechanism, history: Sequence[Night], one: WindowMean, other: WindowMean
) -> FloatArray:
    """Return the covariance of the noise of two windows of a history, (d, d), exactly.

    They share the noise of the nights before them: neighbouring windows are correlated.
    """
    found = np.zeros((stream.space.dim, stream.space.dim))
    for place, (segment, row, column) in enumerate(
        zip(split_epochs(stream, history).segments, one.rows, other.rows, strict=False)
    ):
        few = min(len(row), len(column))
        noise = _noise(stream, segment)
        if stream.plan.secret:
            noise = noise + _count_noise(stream, one.ways[place], other.ways[place])
        found += float(row[:few] @ column[:few]) * noise
    return found


def _count_noise(stream: StreamMechanism, one: FloatArray, other: FloatArray) -> FloatArray:
    """Return what the noise of one night's count adds to the covariance of two sums, (d, d)."""
    return (stream.steps[2].sigma / COUNT_UNIT) ** 2 * np.outer(one, other)


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
    found = np.zeros(stream.space.dim)
    found[: frame.lines] = (epoch.clip.low + epoch.clip.high) / 2.0 - stream.spot(epoch.centre)
    return np.asarray(epoch.centre + found @ frame.from_axes)


def _observed(stream: StreamMechanism, segment: EpochNights) -> Part:
    """Return the mean of an epoch's records; some of the predicted bias counts as noise."""
    epoch = segment.epoch
    vector = sum_of(stream, segment.w) / segment.n
    sigma = stream.noise_of_sum(stream.steps[2].sigma, len(segment.w)) / segment.n
    spot = stream.spot(epoch.centre)
    frame = stream.frame
    found, covariance = observe(
        vector,
        epoch.clip,
        frame,
        line_coordinate=spot,
        shift=0.0,
        sigma=sigma,
        relative=segment.relative,
    )
    return Part(segment.n, epoch.centre + found, covariance)


def _pool(
    space: Manifold, parts: Sequence[Part], spread: FloatArray, stream: StreamMechanism
) -> CumulativeMean:
    """Return the mean of the records of all parts, by precision, inside the region; see `pool`."""
    found, n = pool(parts, spread), sum(part.n for part in parts)
    return CumulativeMean(space, stream.feasible_set.inside(found.mean), found.of_units, n, spread)
