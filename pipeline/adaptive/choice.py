"""How far to clip: the interval along the line and the radius off it, least predicted error.

Next on the path: ``clipping.py``.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.adaptive.bins import LineBins, ShellBins
from pipeline.adaptive.frame import Frame
from pipeline.arrays import FloatArray
from pipeline.geometry.kernels import compiled

DIRECTIONS = 0.6
"""Share of the clipped lengths that does not cancel: records near the centre lie on all sides."""


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
    error : float
        Predicted root mean square error.
    bias_line, bias_rest : float
        What clipping alone is predicted to do, in distance.
    """

    low: float
    high: float
    radius: float
    whole: bool
    error: float
    bias_line: float
    bias_rest: float


def choose(
    line: FloatArray | None,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    *,
    sigma: float,
    diameter: float,
) -> Clip:
    """Return the clip of least predicted error.

    With x in an interval of length L and z in a ball of radius C, the noise of the mean has the
    root mean square size σ·(L + 2C√m) (`clipping.amplitude`). Clipping costs at most the mean
    length by which records reach beyond the interval and the ball. Covering the whole region, of
    diameter D, costs σD√d and no bias.

    Parameters
    ----------
    line : array, shape (b,), or None
        Estimated shares along the line.
    shells : array, shape (b',)
        Estimated shares of the shells; far records are also taken to lie as far down the line as
        they are off it, since what is far off in a covariance has eigenvalues near η.
    bins : (LineBins or None, ShellBins)
        The bins of both.
    frame : Frame
        The axes.
    sigma : float
        Noise of the mean of vectors from a set of diameter 1.
    diameter : float
        D.
    """
    along, off = bins
    near, far = shells[: off.far], shells[off.far :]
    rest = frame.worth * (DIRECTIONS * near @ off.above[: off.far] + far @ off.above[off.far :])
    cuts = below = above = np.zeros(1)
    if along is not None and line is not None:
        inner = (along.edges[1:] + along.edges[:-1]) / 2.0
        bulk = line[1:-1] @ inner / max(line[1:-1].sum(), 1e-9)
        places = bulk - frame.worth * np.sqrt(off.edges[off.far - 1 :] * _outer(off))
        cuts, above = along.cuts, line @ along.above
        below = line @ along.below + far @ np.maximum(cuts - places[:, None], 0.0)
    price = 2.0 * math.sqrt(frame.others)
    i, j, k, square = _least(cuts, below**2, above**2, off.cuts, rest**2, sigma, sigma * price)
    whole = sigma * diameter * math.sqrt(len(frame.into))
    return Clip(
        low=float(cuts[i]),
        high=float(cuts[j]),
        radius=float(off.cuts[k]),
        whole=square > whole**2,
        error=min(math.sqrt(square), whole),
        bias_line=float(np.hypot(below[i], above[j])),
        bias_rest=float(rest[k]),
    )


def _outer(off: ShellBins) -> FloatArray:
    """Return the outer ends of the far shells."""
    return np.append(off.edges[off.far :], off.cuts[-1])


@compiled
def _least(
    cuts: FloatArray,
    below: FloatArray,
    above: FloatArray,
    radii: FloatArray,
    rest: FloatArray,
    price_line: float,
    price_rest: float,
) -> tuple[int, int, int, float]:
    """Return the low cut, high cut and radius of least below + above + rest + noise²."""
    best, low, high, radius = np.inf, 0, 0, 0
    for i in range(len(cuts)):
        for j in range(min(i + 1, len(cuts) - 1), len(cuts)):
            bias, length = below[i] + above[j], price_line * (cuts[j] - cuts[i])
            if bias + length**2 >= best:
                continue
            for k in range(len(radii)):
                square = bias + rest[k] + (length + price_rest * radii[k]) ** 2
                if square < best:
                    best, low, high, radius = square, i, j, k
    return low, high, radius, best
