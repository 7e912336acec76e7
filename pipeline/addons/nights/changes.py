"""Do the last nights of a stream differ from those before? From released values alone.

Two windows that share no night share noise, whose covariance is known, C of one and the
other; their means, nothing shrunk, differ under "one population" by a vector of covariance

    V = S_A + S_B − C − Cᵀ + Σ̂/n_A + Σ̂/n_B,

Σ̂ the covariance of single clipped records, from the second moment. What clipping does to a mean is
the same in both, whatever it is, as long as both are clipped as one: so it is nowhere in V, and the
nights before are those of the same epoch, all of them. Two tests are made, as of two releases,
and the smaller p-value counts twice. Several windows and classes together: see `holm`. It
holds for records that come each by itself.

What two releases are tested by is the same (`covdp.addons.partners.tests`): δᵀV⁻¹δ of all
directions, and of some by themselves.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from covdp.addons.nights.stream import Night, StreamMechanism, covariance_of, window_between
from covdp.addons.nights.stream.history import EpochHistory, epoch_moments
from covdp.arrays import FloatArray
from covdp.geometry import Manifold, Point, chart_of
from covdp.geometry.covariances import covariances_of
from covdp.mean.noisy_moments import covariance

ALPHA = 0.05
"""Level of the tests."""


def brightness_direction(manifold: Manifold, place: Point) -> FloatArray | None:
    """Return the coordinate of brightness; None for descriptors without means.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the means.
    place : array, shape (d,)
        Point of the chart, at which the coordinate is taken.
    """
    covariances = covariances_of(manifold)
    space = chart_of(manifold)
    return None if covariances is None else covariances.brightness(space.log(space.origin, place))


def tested_axes(line: FloatArray | None, manifold: Manifold, place: Point) -> list[FloatArray]:
    """Return the directions along which a difference is tested by itself: contrast, brightness.

    Parameters
    ----------
    line : array or None, shape (d,)
        Contrast axis, in the chart.
    manifold : Manifold
        Manifold of the means.
    place : array, shape (d,)
        Point of the chart, at which brightness is taken.
    """
    both = line, brightness_direction(manifold, place)
    return [direction for direction in both if direction is not None]


def direction_tests(
    delta: FloatArray, covariance: FloatArray, directions: Sequence[FloatArray]
) -> tuple[list[float], float]:
    """Return δᵀV⁻¹δ, of δ and along some directions, and the p-value of all tests together.

    Parameters
    ----------
    delta : array, shape (d,)
        Difference δ of two means.
    covariance : array, shape (d, d)
        Covariance V of the difference.
    directions : sequence of array
        Directions that are tested by themselves, (d,) or (m, d).
    """
    statistics, p_values = [], []
    along = [(rows @ delta, rows @ covariance @ rows.T) for rows in map(np.atleast_2d, directions)]
    for part, spread in ((delta, covariance), *along):
        statistics.append(float(part @ np.linalg.solve(spread, part)))
        p_values.append(float(chdtrc(len(part), statistics[-1])))
    return statistics, bonferroni(p_values)


def bonferroni(p_values: Sequence[float]) -> float:
    """Return the p-value of several tests together (Bonferroni); NaN without any.

    Parameters
    ----------
    p_values : sequence of float
        P-value of each test.
    """
    return min(1.0, len(p_values) * min(p_values)) if p_values else math.nan


class WindowTest(NamedTuple):
    """Test of the records of the last nights against those of the nights before them.

    Attributes
    ----------
    nights : int
        Number of the last nights.
    since : int
        First of the nights before them.
    n : int
        Number of records of the last nights.
    before : int
        Number of records of the nights before them.
    n_sd : float
        Standard deviation of the noise of `n`; 0 where it is public.
    before_sd : float
        Standard deviation of the noise of `before`; 0 where it is public.
    p_value : float or None
        Probability that two samples of one population differ so much; None where `reason` says why
        it is not known.
    reason : str
        Reason why there is no p-value, in words.
    """

    nights: int
    since: int
    n: int
    before: int
    n_sd: float
    before_sd: float
    p_value: float | None
    reason: str = ""


def window_test(
    stream: StreamMechanism, nights: Sequence[Night], past: EpochHistory, last: int
) -> WindowTest:
    """Return the test of the `last` nights against those before.

    It is made of released values alone: a p-value is post-processing, and costs no privacy.

    Parameters
    ----------
    stream : StreamMechanism
        Mechanism of the stream.
    nights : sequence of Night
        Nights so far, in order, as they were released.
    past : EpochHistory
        Openings and epochs of `nights`.
    last : int
        Number of the last nights.
    """
    if not past.segments:
        reason = (
            "its records wait for the next opening" if past.holds else "no night since it opened"
        )
        return WindowTest(last, 0, 0, 0, 0.0, 0.0, None, reason)
    segment, end = past.segments[-1], len(nights)
    since, split = segment.epoch.first, end - last
    late = window_between(stream, nights, max(split + 1, since), end)
    early = window_between(stream, nights, since, split) if split >= since else None
    counts = (late.n if late else 0, early.n if early else 0)
    sizes = (*counts, late.n_sd if late else 0.0, early.n_sd if early else 0.0)
    if late is None or early is None:
        reason = "nobody came in these nights, or before"
        if stream.plan.secret:
            reason = "the number of records in these nights, or before, is not well above its noise"
        if split < since:
            reason = (
                f"the limit of clipping changed on night {since}, and no earlier night has "
                "the same limit"
            )
        return WindowTest(last, since, *sizes, None, reason)
    moments = epoch_moments(stream, past, segment)
    both = covariance_of(stream, nights, late, early)
    total = late.covariance + early.covariance - both - both.T
    total = total + covariance(moments) * (1.0 / late.n + 1.0 / early.n)
    delta = late.offset - early.offset
    along = stream.frame.from_axes[0] if stream.frame.lines else None
    directions = tested_axes(along, stream.manifold, stream.centre)
    _, p = direction_tests(delta, total, directions)
    return WindowTest(last, since, *sizes, p)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p-values: the probability of any false finding is at most the level.

    Holm's, which holds however the tests depend on one another.

    Parameters
    ----------
    p_values : sequence of float
        P-value of each test.
    """
    order = np.argsort(p_values)
    grown = np.array(p_values)[order] * (len(order) - np.arange(len(order)))
    result = np.empty(len(order))
    result[order] = np.minimum(np.maximum.accumulate(grown), 1.0)
    return tuple(result.tolist())
