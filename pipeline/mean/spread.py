"""How wide clipped records lie, as the noisy histograms say: a second moment is shrunk towards it.

Records of a bin are taken as uniform in it. Post-processing.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.mean.bins import LineBins, ShellBins
from pipeline.mean.choice import Clip, lengths
from pipeline.mean.frame import Frame
from pipeline.mean.survey import Surveyed

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
    shift, unsure : float
        By how much the mean is moved up the line, as that of the records is expected to lie above
        that of the clipped ones, given the histograms; and the standard deviation of that.
    lost_below, lost_above, lost_rest : float
        Mean length by which records reach beyond the interval, to either side, and the ball, where
        the mean is not moved by it.
    """

    line: float
    rest: float
    clipped: float
    unnoticed: float
    shift: float
    unsure: float
    lost_below: float
    lost_above: float
    lost_rest: float


def spread(
    survey: Surveyed,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    clip: Clip,
    frame: Frame,
    span: tuple[float, float],
    noise: float,
    diameter: float,
    *,
    moved: bool,
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
    moved : bool
        Whether the mean will be moved by the shift: then that is not lost, and far records, of
        which it is unknown where along the line they lie, alone are.
    """
    along, off = bins
    line = survey.shares
    left = line if line is None or not moved else np.zeros(len(line))
    cut = lengths(left, survey.beyond, shells, bins, frame, diameter)
    variance = unnoticed = below = above = shift = unsure = 0.0
    if along is not None and survey.line is not None:
        ends = np.concatenate([span[:1], along.edges, span[1:]])
        first, second, _ = _clipped(ends, clip.low, clip.high)
        weights = _weights(survey.line.shares)
        variance = max(float(weights @ second) - float(weights @ first) ** 2, 0.0)
        unnoticed = HIDDEN * noise * max(clip.low - span[0], span[1] - clip.high, 0.0)
        below = float(np.interp(clip.low, along.cuts, cut.below))
        above = float(np.interp(clip.high, along.cuts, cut.above))
        places = (ends[:-1] + ends[1:]) / 2.0
        places[0], first[0] = span[0], np.clip(span[0], clip.low, clip.high)  # featureless images
        over = places - first if moved else np.zeros(len(places))
        shift = math.fsum(survey.line.shares * over)
        unsure = math.sqrt(float(survey.line.variances @ over**2))
    ends = np.concatenate([[0.0], off.edges, off.cuts[-1:]])
    _, square, inside = (_weights(shells) @ each for each in _clipped(ends, 0.0, clip.radius))
    return Spread(
        line=variance,
        rest=float(square) / frame.others,
        clipped=1.0 - float(inside),
        unnoticed=unnoticed,
        lost_below=below,
        lost_above=above,
        lost_rest=float(np.interp(clip.radius, off.cuts, cut.near + cut.far)),
        shift=shift,
        unsure=unsure,
    )


def _weights(shares: FloatArray) -> FloatArray:
    """Return shares that sum to 1."""
    return shares / max(float(shares.sum()), 1e-12)


def _clipped(ends: FloatArray, low: float, high: float) -> tuple[FloatArray, ...]:
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
