"""How certain the mean of all units of a stream is: what a region reads from a night's document.

The mean is Σ G_i·u_i of the opening and the epochs (``mean/pooling.py``), u_i = m_i + noise of
covariance V_i. With B of what clipping may do to all parts in the same way, squared and spread
evenly (`pooled_clipping`), f_i the share of part i in all units and Σ̂ the covariance of single
ones, the error is of covariance

    B + Σ G_i·V_i·G_iᵀ + (G_i − f_i·Id)·(Σ̂/n_i)·(G_i − f_i·Id)ᵀ

against the mean of all N units, and larger by Σ̂/N, as Σ G_i = Id, against that of the population.
All of it follows from what the nights released. It stands in the document of each night, where
`region` finds it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.inference.covariance import covariance
from pipeline.inference.regions import NOISY, clipping_of, is_offered
from pipeline.mean import Observed, step_costs
from pipeline.mean.observed import pooled_clipping, upper
from pipeline.mean.pooling import pool
from pipeline.stream import Night, Stream, StreamPlan
from pipeline.stream.epochs import observed_parts
from pipeline.stream.estimates import pooled_parts
from pipeline.stream.history import Past, parts_of
from pipeline.stream.plan import OPENED, OPENING


class Error(NamedTuple):
    """Of the mean of all units so far.

    Attributes
    ----------
    seen : tuple of Observed
        What each part says of its own units, the opening first.
    sample : array, shape (d, d)
        Covariance of the error, against the mean of these very units.
    units : array, shape (d, d)
        What comes to it against that of the population.
    """

    seen: tuple[Observed, ...]
    sample: FloatArray
    units: FloatArray


def error_of(
    stream: Stream,
    past: Past,
    bias: Callable[[Sequence[Observed], Sequence[float]], FloatArray],
) -> Error | None:
    """Return how the mean of all units so far errs; None where the nights do not say.

    `bias` is what clipping may do to a mean of parts with some shares, as a covariance.
    """
    pooled = pooled_parts(stream, past)
    seen = tuple(one for one in observed_parts(stream, past) if one is not None)
    wide = [one for one in seen if one.moment is not None]
    if pooled is None or len(seen) < len(pooled[0]) or not wide:
        return None
    parts, spread = pooled
    gains, n = pool(parts, spread).gains, sum(part.n for part in parts)
    single = np.average([covariance(one) for one in wide], axis=0, weights=[one.n for one in wide])
    sample = bias(seen, [float(np.trace(gain)) / len(gain) for gain in gains])
    for gain, one in zip(gains, seen, strict=True):
        rest = gain - one.n / n * np.eye(len(gain))
        sample = sample + gain @ one.noise @ gain.T + rest @ single @ rest.T / one.n
    return Error(seen, sample, single / n)


def certainty(stream: Stream, nights: Sequence[Night]) -> dict[str, Any] | None:
    """Return what a region reads, as JSON values; None before the opening.

    Of covariances the upper triangle stands there, row by row, in coordinates of the manifold, the
    same at every base. A region is offered where the opening alone would have one.
    """
    found = error_of(stream, parts_of(nights), pooled_clipping)
    if found is None:
        return None
    return {
        "manifold": stream.manifold.name,
        "offered": is_offered(found.seen[0]),
        "clipping": max(clipping_of(one) for one in found.seen),
        "sample": upper(found.sample).tolist(),
        "population": upper(found.sample + found.units).tolist(),
    }


def least_opening(plan: StreamPlan, dim: int) -> float:
    """Return the N·μ from which on the mean of an opening has a region: its σ is at most `NOISY`.

    Of images, whose descriptors have a line; `dim` is the dimension of the mean. N·μ·σ is the same
    for all N, but for the rounding that σ makes room for.
    """
    units = math.ceil(plan.opening / plan.mu)
    sigma = step_costs(plan.budget, units, OPENED, dim=dim)[-1].sigma
    return units * plan.mu * sigma / NOISY


def check_opening(plan: StreamPlan, dim: int) -> None:
    """Refuse an opening whose mean would have no region: the stream would be lost.

    By hand, 200 nights of 7 to 40 images at μ = 0.5, six streams each of PneumoniaMNIST's two
    classes and two of `tiles`: on nights 30 to 200 the mean erred 1.1 to 1.8 times as much with an
    opening of 80 as with one of 300, with 20 1.3 to 3.9 times, with 8 1.5 to 8.5 times.

    Raises
    ------
    ConfigError
        With the price, and the way out.
    """
    least = least_opening(plan, dim)
    if plan.opening < least:
        raise ConfigError(
            f"opening = {plan.opening:g} is too small: below N·μ = {math.ceil(least)} the first "
            "mean of a class has no region and no test, nor has any later one, and later nights "
            "are clipped by what it found: in place of 300, an opening of 20 made later means err "
            "1.3 to 3.9 times as much, one of 8 up to 8.5 times. A stream that is open cannot "
            f"change it; leave opening out, which is {OPENING:g}, or set at least "
            f"{math.ceil(least)}"
        )
