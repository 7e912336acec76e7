"""How far to clip: the interval along the line and the radius off it, least predicted error."""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry.compiling import compiled
from pipeline.mean.bins import AHEAD, LineBins, ShellBins
from pipeline.mean.frame import Frame

DIRECTIONS = 0.6
"""Share of the clipped lengths that does not cancel: records near the centre lie on all sides.

By hand, to be safe: 0.2 to 0.4 at the radius of 4 records in 5 of a class of `tiles`,
PneumoniaMNIST and BreastMNIST; ``python -m tests.tuning`` tries others.
"""

TYPICAL = 0.17
"""Curvature that is reckoned with, as a share of the largest: SPD(k) is flat in many planes.

By hand, to be safe: that of the average plane of SPD(5) is 0.17.
"""


class Clip(NamedTuple):
    """What the next mean is clipped to.

    Attributes
    ----------
    low, high : float
        The interval along the line; both 0 without one.
    radius : float
        The ball off the line, in scaled coordinates.
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
    radius: float
    whole: bool
    gain: float
    error: float
    bias_line: float
    bias_rest: float
    bend: float


class Lengths(NamedTuple):
    """Mean length, in distance, by which records reach beyond each possible cut.

    Attributes
    ----------
    below, above : array, shape (c,)
        Below and above each end that an interval may have; one 0 without a line.
    near, far : array, shape (c',)
        Beyond each radius that a ball may have, of near and of far records. No two places of the
        region are farther apart than its diameter, so no far record is.
    """

    below: FloatArray
    above: FloatArray
    near: FloatArray
    far: FloatArray


def lengths(
    line: FloatArray | None,
    beyond: FloatArray,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    diameter: float,
) -> Lengths:
    """Return by how much records reach beyond cuts; see `choose`."""
    along, off = bins
    near = frame.worth * shells[: off.far] @ off.above[: off.far]
    far = shells[off.far :] @ np.minimum(frame.widest * off.above[off.far :], diameter)
    if along is None or line is None:
        return Lengths(np.zeros(1), np.zeros(1), near, far)
    cuts, ends = along.cuts, np.append(off.edges, off.cuts[-1])[off.far :, None]
    low = np.maximum(along.start - AHEAD * ends, cuts[0])
    high = np.minimum(along.start + AHEAD * ends, cuts[-1])
    below = line @ along.below + beyond @ np.maximum(cuts - low, 0.0)
    above = line @ along.above + beyond @ np.maximum(high - cuts, 0.0)
    return Lengths(below, above, near, far)


def choose(
    line: FloatArray | None,
    beyond: FloatArray,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    *,
    sigma: float,
    diameter: float,
    curvature: float,
    doubt: float,
) -> Clip:
    """Return the clip of least predicted error.

    With x in an interval of length L and z in a ball of radius C, the noise of the mean has the
    root mean square size σ·(L + 2C√m) (`clipping.amplitude`). Clipping costs at most the mean
    length by which records reach beyond the interval and the ball. Covering the whole region, of
    diameter D, costs σD√d and no bias.

    Where sectional curvature is at least −κ, the Hessian of ½·dist(·, x)² lies between 1 and
    h(dist) = √κ·dist·coth(√κ·dist) (Karcher 1977), so that of the mean between 1 and the mean h̄:
    a Newton step of 2/(1 + h̄) leaves at most (h̄ − 1)/(h̄ + 1) of the way to the mean. h̄ is taken
    at `TYPICAL`·κ; no privacy hangs on it.

    Parameters
    ----------
    line : array, shape (b,), or None
        Estimated shares along the line.
    beyond : array, shape (b' − far,)
        Estimated shares of records far from the prior's centre: how far along the line they may be.
    shells : array, shape (b',)
        Estimated shares off the line, seen from where the next mean is clipped.
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
    below, above, near, far = lengths(line, beyond, shells, bins, frame, diameter)
    rest = DIRECTIONS * near + far
    hessian = np.ones(len(off.cuts))
    if curvature > 0.0:
        ends = np.append(off.edges, off.cuts[-1])[:, None]
        bent = stretch(math.sqrt(TYPICAL * curvature) * frame.worth * np.minimum(ends, off.cuts))
        hessian = shells @ bent / max(shells.sum(), 1e-9)
    gain, bend = 2.0 / (1.0 + hessian), (hessian - 1.0) / (hessian + 1.0)
    cuts = np.zeros(1) if along is None or line is None else along.cuts
    price = 2.0 * math.sqrt(frame.others) * sigma * gain * off.cuts
    i, j, k, square = _least(cuts, below**2, above**2, rest**2 + (bend * doubt) ** 2, sigma, price)
    whole = sigma * diameter * math.sqrt(len(frame.into))
    return Clip(
        low=float(cuts[i]),
        high=float(cuts[j]),
        radius=float(off.cuts[k]),
        whole=square > whole**2,
        gain=float(gain[k]),
        error=min(math.sqrt(square), whole),
        bias_line=float(np.hypot(below[i], above[j])),
        bias_rest=float(rest[k]),
        bend=float(bend[k]),
    )


def stretch(x: FloatArray) -> FloatArray:
    """Return x·coth(x), 1 at 0."""
    return np.asarray(np.maximum(x, 1e-6) / np.tanh(np.maximum(x, 1e-6)))


@compiled
def _least(
    cuts: FloatArray,
    below: FloatArray,
    above: FloatArray,
    rest: FloatArray,
    price_line: float,
    price_rest: FloatArray,
) -> tuple[int, int, int, float]:
    """Return the low cut, high cut and radius of least below + above + rest + noise²."""
    best, low, high, radius = np.inf, 0, 0, 0
    last = len(cuts) - 1
    for i in range(max(last, 1)):  # an interval has a length, unless there is no line
        for j in range(min(i + 1, last), last + 1):
            bias, length = below[i] + above[j], price_line * (cuts[j] - cuts[i])
            if bias + length**2 >= best:
                continue
            for k in range(len(rest)):
                square = bias + rest[k] + (length + price_rest[k]) ** 2
                if square < best:
                    best, low, high, radius = square, i, j, k
    return low, high, radius, best
