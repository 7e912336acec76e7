"""The fixed public bins: where along the line, how far off it, and what clipping there would cost.

A record falls into one bin of each histogram. ``over`` tables say by how much the records of a bin
reach beyond each possible cut on average. The constants were set by hand: ``python -m
tests.tuning`` tries others on public images.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.mean.frame import Frame
from pipeline.mean.prior import Prior

WIDENING = 1.8
"""Ratio of neighbouring bins along the line, outside of the part where records are expected."""
BELOW, ABOVE = 10, 4
"""Steps of that part, below and above the prior's centre."""
RATIO, FINE = 1.35, 1.1
"""Ratio of neighbouring shells, and of neighbouring radii that are weighed against each other."""
FAR = 14.0
"""Records this many times `Prior.least` off the line are far: the survey counts them apart."""
STEADY = 2.0
"""Far shells this many times as far out as their centre has moved hold about the same records."""
CUTS = 4
"""Places in a step along the line where an interval may end."""
AHEAD = 2.0
"""Length along the line that counts as one off it in the size of far records."""


@dataclass(frozen=True, eq=False)
class LineBins:
    """Bins along the line.

    Attributes
    ----------
    ends : array, shape (b + 1,)
        Where the b bins begin and end.
    cuts : array, shape (c,)
        Ends that an interval may have.
    below, above : array, shape (b, c)
        Mean length by which records of a bin reach below or above each cut.
    start : float
        Place of the prior's centre.
    """

    ends: FloatArray
    cuts: FloatArray
    below: FloatArray
    above: FloatArray
    start: float

    @property
    def edges(self) -> FloatArray:
        """Inner edges of the bins, (b − 1,)."""
        return self.ends[1:-1]


@dataclass(frozen=True, eq=False)
class ShellBins:
    """Bins of distance off the line, in scaled coordinates: [0, edges[0]), …, [edges[-1], ∞).

    Attributes
    ----------
    edges : array, shape (b − 1,)
        Inner edges of the b bins.
    cuts : array, shape (c,)
        Radii that a ball may have.
    above : array, shape (b, c)
        Mean length by which records of a bin reach beyond each radius.
    far : int
        Index of the first bin of far records.
    """

    edges: FloatArray
    cuts: FloatArray
    above: FloatArray
    far: int

    def steady(self, moved: float) -> NDArray[np.bool_]:
        """Tell for each far shell whether it holds about the same when its centre has moved."""
        return np.asarray(self.edges[self.far - 1 :] >= STEADY * moved)


def clipped_moments(ends: FloatArray, low: float, high: float) -> tuple[FloatArray, ...]:
    """Return E x, E x² and the share inside, for x clipped to [low, high], in bins between ends."""
    cut = np.minimum(np.maximum(ends, low), high)
    begin, end = cut[:-1], cut[1:]
    length = np.diff(ends)
    inside = (end - begin) / length
    below = np.minimum(np.maximum((low - ends[:-1]) / length, 0.0), 1.0)
    above = np.minimum(np.maximum((ends[1:] - high) / length, 0.0), 1.0)
    first = inside * (begin + end) / 2.0 + below * low + above * high
    second = inside * (begin**2 + begin * end + end**2) / 3.0 + below * low**2 + above * high**2
    return first, second, inside


def _reach(ends: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return E max(x − cut, 0), (b, c), for x uniform between neighbouring `ends`, (b + 1,)."""
    beyond = np.maximum(ends[:, None] - cuts, 0.0) ** 2 / 2.0
    return np.asarray(np.diff(beyond, axis=0) / np.diff(ends)[:, None])


def line_bins(prior: Prior, span: tuple[float, float], start: float) -> LineBins:
    """Return the bins of the part of the line that the region can reach.

    Parameters
    ----------
    prior : Prior
        With a line.
    span : (float, float)
        Its ends.
    start : float
        Place of the prior's centre on it.

    Notes
    -----
    Within a bin records are taken as uniform; in the wide bins outside of the expected part they
    are taken to be at its outer end, so that no cut is thought to hold them all unless it does.
    """
    step = prior.step
    middle = start + step * np.arange(-BELOW, ABOVE + 1)
    growing = step * np.cumsum(WIDENING ** np.arange(1, 60))
    lower, upper = middle[0] - growing[::-1], middle[-1] + growing
    lower, upper = lower[lower > span[0] + step / 2], upper[upper < span[1] - step / 2]
    middle = middle[(middle > span[0]) & (middle < span[1])]
    edges = np.concatenate([lower, middle, upper])
    ends = np.concatenate([[span[0]], edges, [span[1]]])
    cuts = np.arange(span[0], span[1] + step / CUTS, step / CUTS)
    below, above = _reach(-ends[::-1], -cuts)[::-1], _reach(ends, cuts)
    first, last = len(lower) + 1, len(upper) + 1
    below[:first] = np.maximum(cuts - ends[:first, None], 0.0)
    above[-last:] = np.maximum(ends[-last:, None] - cuts, 0.0)
    return LineBins(ends, cuts, below, above, start)


def shell_bins(prior: Prior, frame: Frame, diameter: float) -> ShellBins:
    """Return geometric shells from `prior.least` to the farthest place a record can have."""
    least, most = prior.least, diameter / frame.narrowest
    count = max(2, math.ceil(math.log(most / least) / math.log(RATIO)))
    ends = np.append(0.0, least * np.power(RATIO, np.arange(count + 1.0)))
    fine = math.ceil(math.log(ends[-1] / least) / math.log(FINE))
    cuts = least * np.power(FINE, np.arange(fine + 1.0))
    far = min(int(np.searchsorted(ends, FAR * least)), count)
    return ShellBins(ends[1:-1], cuts, _reach(ends, cuts), far)
