"""Where the records of the next nights are clipped, and what those of an epoch say of it."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.mean import NoisyMoments
from pipeline.mean.clip import choose_clip, choose_interval, reaches, spread
from pipeline.mean.histogram import merge, read_survey
from pipeline.mean.noisy_moments import clip_moments
from pipeline.mean.release import COUNT_UNIT
from pipeline.mean.rounds import SQRT2
from pipeline.mean.tuning import FIRST_RADIUS
from pipeline.stream.estimates import _cumulative_mean, sum_of
from pipeline.stream.history import (
    Epoch,
    EpochHistory,
    EpochNights,
    Night,
    NoisyShares,
    split_epochs,
)
from pipeline.stream.mechanism import StreamMechanism
from pipeline.stream.plan import AIM, GROWTH


def epoch_due(past: EpochHistory) -> bool:
    """Tell whether an epoch begins tonight: after an opening for good, or when N has grown."""
    if not past.segments:
        return not past.holds
    return past.n >= GROWTH * (past.n - past.segments[-1].n)


def begin_epoch(stream: StreamMechanism, history: Sequence[Night]) -> Epoch:
    """Return the epoch that begins tonight: a function of released values and public numbers.

    Its centre is the mean of all records so far, its clip the best for the noise that is expected
    when there are `AIM` times as many records, which come at the rate of so far. A clip of the
    whole region is not considered: at N·μ of an opening it is never the best.

    Raises
    ------
    ConfigError
        Before the opening.
    """
    return _begin_epoch(stream, tuple(history))


@lru_cache(maxsize=32)  # a night asks twice: what its units are mapped to, and what it releases
def _begin_epoch(stream: StreamMechanism, history: tuple[Night, ...]) -> Epoch:
    past = split_epochs(stream, history)
    found = _cumulative_mean(stream, past)
    if found is None or past.opened is None:
        raise ConfigError("an epoch begins after the opening; hold the records back until then")
    (shares, spread), (shells, own) = _survey(stream, past), _shells(stream, past)
    slack = (past.n_sd / past.n) ** 2
    survey = read_survey(shares, spread, stream.bins, slack)
    last = past.segments[-1] if past.segments and past.segments[-1].n else None
    around = past.opened.offset if last is None else last.epoch.centre
    more, left = (AIM - 1.0) * found.n, stream.plan.horizon - len(history)
    nights = max(1, min(left, round(more / found.n * len(history))))
    sigma, radius = stream.noise_of_sum(stream.steps[2].sigma, nights) / more, _radius(stream, past)
    secret = stream.plan.secret
    count_error = sigma / COUNT_UNIT if secret else 0.0
    interval = choose_interval(
        survey, stream.bins, stream.frame, sigma=sigma, radius=radius, count_error=count_error
    )
    clip = choose_clip(
        interval,
        survey,
        merge(
            shells, survey.far, own / SQRT2, spread / SQRT2, _stable_shells(stream, around), slack
        ),
        stream.bins,
        stream.frame,
        sigma=sigma,
        diameter=stream.feasible_set.diameter,
        cover=math.inf if secret else stream.feasible_set.cover,
        curvature=0.0,
        doubt=0.0,  # what curvature makes of it is nothing here
        count_error=count_error,
    )
    return Epoch(len(history) + 1, found.offset, clip)


def latest_moments(stream: StreamMechanism, history: Sequence[Night]) -> NoisyMoments | None:
    """Return what the last epoch says of its records, nothing shrunk: mean and second moment.

    Before an epoch has records it is what the opening stated of those held back; None before that.
    """
    past = split_epochs(stream, history)
    if not past.segments or not past.segments[-1].n:
        return past.opened.observed if past.opened else None
    return epoch_moments(stream, past, past.segments[-1])


def part_moments(stream: StreamMechanism, past: EpochHistory) -> tuple[NoisyMoments, ...]:
    """Return what each part of the mean of all records so far says of its own; see `pooled_parts`.

    Empty before the opening.
    """
    epochs = (epoch_moments(stream, past, segment) for segment in past.segments if segment.n)
    return *(part.release.observed for part in past.openings), *epochs


def epoch_moments(stream: StreamMechanism, past: EpochHistory, last: EpochNights) -> NoisyMoments:
    """Return what one epoch says of its records, of which there are some, nothing shrunk."""
    clip = last.epoch.clip
    shares, noise = _survey(stream, past)
    shells, own = _shares(stream, last.shells, last.n, stream.steps[1].sigma)
    slack = (past.n_sd / past.n) ** 2
    survey = read_survey(shares, noise, stream.bins, slack)
    steady = _stable_shells(stream, last.epoch.centre)
    filled = merge(shells, survey.far, own / SQRT2, noise / SQRT2, steady, last.relative**2)
    rows = np.hstack([last.w, last.moments])
    bins, frame = stream.bins, stream.frame
    return clip_moments(
        last.n,
        last.epoch.centre,
        sum_of(stream, rows) / last.n,
        clip,
        frame,
        line_coordinate=stream.spot(last.epoch.centre),
        spread=spread(survey, filled, bins, clip, frame, noise, moved=False),
        sigma=stream.noise_of_sum(stream.steps[2].sigma, len(rows)) / last.n,
        noises=(own, noise),
        reach=reaches(clip, frame, stream.prior),
        n_sd=last.n_sd,
    )


def _survey(stream: StreamMechanism, past: EpochHistory) -> NoisyShares:
    """Return the shares in the bins of the survey: the last opening's and the nights'."""
    assert past.opened is not None
    first, n = past.opened.survey, past.streamed
    if not n:
        return first
    later = _shares(stream, past.survey, n, stream.steps[0].sigma)
    weight = later.noise**2 / (first.noise**2 + later.noise**2)
    values = weight * first.values + (1.0 - weight) * later.values
    return NoisyShares(values, first.noise * math.sqrt(weight))


def _shells(stream: StreamMechanism, past: EpochHistory) -> NoisyShares:
    """Return the shares in the shells of the last epoch, of the opening before there is one."""
    assert past.opened is not None
    if not past.segments or not past.segments[-1].n:
        return past.opened.shells
    last = past.segments[-1]
    return _shares(stream, last.shells, last.n, stream.steps[1].sigma)


def _radius(stream: StreamMechanism, past: EpochHistory) -> float:
    """Return the radius of the last epoch's clip, of the opening's before there is one."""
    if past.segments:
        return float(past.segments[-1].epoch.clip.radius)
    assert past.opened is not None
    observed, frame = past.opened.observed, stream.frame
    if observed.moment is None:  # the clip was the whole region
        return FIRST_RADIUS * stream.prior.least
    return float((observed.axes @ frame.to_axes)[-1, -1]) / 2.0


def _stable_shells(stream: StreamMechanism, centre: FloatArray) -> NDArray[np.bool_]:
    """Tell which outer shells of the survey hold around the centre of later shells."""
    moved = stream.in_axes(centre)[stream.frame.lines :]
    return stream.bins[1].steady(np.linalg.norm(moved))


def _shares(stream: StreamMechanism, released: FloatArray, n: int, sigma: float) -> NoisyShares:
    """Return the shares of n records that a series of counts over √2 says."""
    noise = stream.noise_of_sum(sigma, len(released)) * SQRT2 / n
    return NoisyShares(sum_of(stream, released) * SQRT2 / n, noise)
