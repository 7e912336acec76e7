"""How wide clipped records lie, as the noisy histograms say: a second moment is shrunk towards it.

Records of a bin are taken as uniform in it. Post-processing.
"""

from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.mean.bins import LineBins, ShellBins
from pipeline.mean.choice import Clip, lengths
from pipeline.mean.frame import Frame

HIDDEN = 2.0
"""Standard deviations of the noise of a share, below which records in a bin may go unnoticed."""


class Spread(NamedTuple):
    """What the histograms say of the records.

    Attributes
    ----------
    line : float
        Variance along the line, of records clipped to the interval; 0 without a line.
    rest : float
        Mean square of one scaled coordinate off it, of records clipped to the ball.
    clipped : float
        Share of the records that lie beyond the ball.
    unnoticed : float
        How far the mean is moved by clipping records at the far end of the line, when they are so
        few that the noise of the survey hides them: two of its standard deviations.
    lost_below, lost_above, lost_rest : float
        Mean length by which records reach beyond the interval, to either side, and the ball.
    """

    line: float
    rest: float
    clipped: float
    unnoticed: float
    lost_below: float
    lost_above: float
    lost_rest: float


def spread(
    line: FloatArray | None,
    beyond: FloatArray,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    clip: Clip,
    frame: Frame,
    span: tuple[float, float],
    noise: float,
    diameter: float,
) -> Spread:
    """Return how wide records lie, of their estimated shares; see `choose` for what they are of.

    Parameters
    ----------
    span : (float, float)
        Ends of the line.
    noise : float
        Standard deviation of the noise of a share along it.
    diameter : float
        Of the region.
    """
    along, off = bins
    cut = lengths(line, beyond, shells, bins, frame, diameter)
    variance = unnoticed = below = above = 0.0
    if along is not None and line is not None:
        ends = np.concatenate([span[:1], along.edges, span[1:]])
        first, second, _ = _clipped_moments(line, ends, clip.low, clip.high)
        variance = max(second - first**2, 0.0)
        unnoticed = HIDDEN * noise * max(clip.low - span[0], span[1] - clip.high, 0.0)
        below = float(np.interp(clip.low, along.cuts, cut.below))
        above = float(np.interp(clip.high, along.cuts, cut.above))
    ends = np.concatenate([[0.0], off.edges, off.cuts[-1:]])
    _, square, inside = _clipped_moments(shells, ends, 0.0, clip.radius)
    return Spread(
        line=variance,
        rest=square / frame.others,
        clipped=1.0 - inside,
        unnoticed=unnoticed,
        lost_below=below,
        lost_above=above,
        lost_rest=float(np.interp(clip.radius, off.cuts, cut.near + cut.far)),
    )


def _clipped_moments(
    shares: FloatArray, ends: FloatArray, low: float, high: float
) -> tuple[float, float, float]:
    """Return E x, E x² and the share inside, for x clipped to [low, high]; bins end at `ends`."""
    weights = shares / max(float(shares.sum()), 1e-12)
    cut = np.minimum(np.maximum(ends, low), high)
    begin, end = cut[:-1], cut[1:]
    length = np.diff(ends)
    inside = (end - begin) / length
    below = np.minimum(np.maximum((low - ends[:-1]) / length, 0.0), 1.0)
    above = np.minimum(np.maximum((ends[1:] - high) / length, 0.0), 1.0)
    first = inside * (begin + end) / 2.0 + below * low + above * high
    second = inside * (begin**2 + begin * end + end**2) / 3.0 + below * low**2 + above * high**2
    return float(weights @ first), float(weights @ second), float(weights @ inside)
