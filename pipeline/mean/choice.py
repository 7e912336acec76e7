"""How far to clip: the interval along the line, then the radius, each of least predicted error."""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.mean.bins import LineBins, ShellBins, clipped_moments
from pipeline.mean.frame import Frame
from pipeline.mean.survey import Surveyed
from pipeline.threads import compiled

ENDS = 0.6
"""What an interval's length costs, of what it would if its ends were as wide as its middle.

By hand: at 1 `tiles` tissue, which has a thin tail, errs by up to a tenth more, and little less.
"""

TYPICAL = 0.17
"""Curvature that is reckoned with, as a share of the largest: SPD(k) is flat in many planes.

By hand, to be safe: that of the average plane of SPD(5) is 0.17.
"""


class Interval(NamedTuple):
    """What records are clipped to along the line; all 0 without one.

    Attributes
    ----------
    low, high : float
        Its ends.
    weight : float
        α: what a length along the line counts against one off it, in the size of a record.
    """

    low: float
    high: float
    weight: float


class Clip(NamedTuple):
    """What the next mean is clipped to.

    Attributes
    ----------
    low, high, weight : float
        The interval along the line, and α; all 0 without one.
    radius : float
        R: of the ball that (α·x, z) is clipped to, in scaled coordinates.
    whole : bool
        True to cover the whole region instead, without clipping.
    gain : float
        Newton's step: what the mean off the line is multiplied with, 1 on a flat manifold.
    error : float
        Predicted root mean square error.
    bias_line, bias_rest, bend : float
        What clipping is predicted to do to the mean, in distance; and what share of the way to the
        mean curvature may leave.
    """

    low: float
    high: float
    weight: float
    radius: float
    whole: bool
    gain: float
    error: float
    bias_line: float
    bias_rest: float
    bend: float


def lengths_off(shells: FloatArray, off: ShellBins, frame: Frame, diameter: float) -> FloatArray:
    """Return the mean length, in distance, by which records reach beyond each radius, (c',).

    No two places of the region are farther apart than its diameter.
    """
    near = frame.worth * shells[: off.far] @ off.above[: off.far]
    far = shells[off.far :] @ np.minimum(frame.widest * off.above[off.far :], diameter)
    return np.asarray(near + far)


def choose_interval(
    survey: Surveyed,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    *,
    sigma: float,
    radius: float,
) -> Interval:
    """Return the interval of least predicted error, of which α is the best.

    Were records at either end to lie C off the line, the ball would have R² = α²L²/4 + C², and the
    noise of the mean (``clipping.py``) would be least, σ·(L + 2C√m), for α² = 2C/(L√m). As few do,
    `ENDS`·L is weighed against the length by which records reach beyond the interval.

    Parameters
    ----------
    survey, bins, frame, sigma
        As in `choose`.
    radius : float
        C, as it is expected before the shells are counted.
    """
    along, _ = bins
    if along is None:
        return Interval(0.0, 0.0, 0.0)
    price = 2.0 * radius * math.sqrt(frame.others)
    below, above = survey.below**2, survey.above**2
    i, j = _least(along.cuts, below, above, ENDS * sigma, price / ENDS)
    low, high = float(along.cuts[i]), float(along.cuts[j])
    return Interval(low, high, math.sqrt(price / frame.others / (high - low)))


@compiled
def _least(
    cuts: FloatArray, below: FloatArray, above: FloatArray, sigma: float, price: float
) -> tuple[int, int]:
    """Return the low and the high cut of least below + above + (σ·(length + price))²."""
    best, low, high = np.inf, 0, 1
    for i in range(len(cuts) - 1):
        if below[i] >= best:  # the higher the cut, the more lies below it
            break
        for j in range(i + 1, len(cuts)):
            square = below[i] + above[j] + (sigma * (cuts[j] - cuts[i] + price)) ** 2
            if square < best:
                best, low, high = square, i, j
    return low, high


def choose(
    interval: Interval,
    survey: Surveyed,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    *,
    sigma: float,
    diameter: float,
    curvature: float,
    doubt: float,
) -> Clip:
    """Return the clip of least predicted error: its radius, and what of the interval it leaves.

    The noise of the mean has the mean square size 4σ²R²(m + 1/α²) (``clipping.py``). Clipping costs
    at most the mean length by which records reach beyond the interval and the ball, and that much
    is reckoned with: records lie on all sides, so that much of it cancels, but noise hides some of
    the shells. With 0.6 of it means err by a fifth more at n·μ below 50, by 7 % up to 200, and by
    1 % less above. Covering the whole region, of diameter D, costs σD√d and no bias.

    Where sectional curvature is at least −κ, the Hessian of ½·dist(·, x)² lies between 1 and
    h(dist) = √κ·dist·coth(√κ·dist) (Karcher 1977), so that of the mean between 1 and the mean h̄:
    a Newton step of 2/(1 + h̄) leaves at most (h̄ − 1)/(h̄ + 1) of the way to the mean. h̄ is taken
    at `TYPICAL`·κ; no privacy hangs on it.

    Parameters
    ----------
    interval : Interval
        What the records were clipped to along the line when their sizes were counted.
    survey : Surveyed
        Estimated shares along the line.
    shells : array, shape (b',)
        Estimated shares by size, seen from where the next mean is clipped.
    bins : (LineBins or None, ShellBins)
        What they are shares of.
    frame : Frame
        The axes.
    sigma : float
        Noise of the mean of vectors from a set of diameter 1.
    diameter : float
        D.
    curvature : float
        κ.
    doubt : float
        How far off the line the mean is thought to be.
    """
    along, off = bins
    radii, low, high = off.cuts, np.zeros(len(off.cuts)), np.zeros(len(off.cuts))
    below = above = low
    if along is not None:
        room = radii / interval.weight  # x is clipped to it as well
        middle = (interval.low + interval.high) / 2.0
        low, high = (
            np.maximum(interval.low, middle - room),
            np.minimum(interval.high, middle + room),
        )
        below = np.interp(low, along.cuts, survey.below)
        above = np.interp(high, along.cuts, survey.above)
    rest, hessian = lengths_off(shells, off, frame, diameter), np.ones(len(radii))
    if curvature > 0.0:
        ends = np.append(off.edges, radii[-1])[:, None]
        square = np.minimum(ends, radii) ** 2 - mean_square(interval, survey.shares, along)
        bent = stretch(math.sqrt(TYPICAL * curvature) * frame.worth * np.sqrt(square.clip(0.0)))
        hessian = shells @ bent / max(shells.sum(), 1e-9)
    gain, bend = 2.0 / (1.0 + hessian), (hessian - 1.0) / (hessian + 1.0)
    lines = 1.0 / interval.weight**2 if interval.weight else 0.0
    noise = (2.0 * sigma * radii) ** 2 * (frame.others * gain**2 + lines)
    squares = below**2 + above**2 + rest**2 + (bend * doubt) ** 2 + noise
    k, whole = int(np.argmin(squares)), sigma * diameter * math.sqrt(len(frame.into))
    error = math.sqrt(float(squares[k]))
    return Clip(
        low=float(low[k]),
        high=float(high[k]),
        weight=interval.weight,
        radius=float(radii[k]),
        whole=error > whole,
        gain=float(gain[k]),
        error=min(error, whole),
        bias_line=float(np.hypot(below[k], above[k])),
        bias_rest=float(rest[k]),
        bend=float(bend[k]),
    )


def mean_square(to: Interval | Clip, line: FloatArray | None, along: LineBins | None) -> float:
    """Return the mean square of t = α·(x − middle), x clipped to the interval, by its shares."""
    if along is None or line is None:
        return 0.0
    middle = (to.low + to.high) / 2.0
    _, second, _ = clipped_moments(along.ends - middle, to.low - middle, to.high - middle)
    return to.weight**2 * float(line @ second) / max(float(line.sum()), 1e-12)


def stretch(x: FloatArray) -> FloatArray:
    """Return x·coth(x), 1 at 0."""
    return np.asarray(np.maximum(x, 1e-6) / np.tanh(np.maximum(x, 1e-6)))
