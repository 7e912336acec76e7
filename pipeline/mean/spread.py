"""How wide clipped records lie, as the noisy histograms say: a second moment is shrunk towards it.

Records of a bin are taken as uniform in it. Post-processing.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.mean.bins import LineBins, ShellBins, clipped_moments
from pipeline.mean.choice import Clip, mean_square
from pipeline.mean.frame import Frame
from pipeline.mean.survey import Surveyed

LEFT = 0.25
"""Least share of the mean square size of records that is taken to lie off the line; by hand."""


class Spread(NamedTuple):
    """What the histograms say of the records.

    Attributes
    ----------
    line : float
        Variance along the line, of records clipped to the interval; 0 without a line.
    rest : float
        Mean square of one scaled coordinate off it, of clipped records.
    clipped, cut : float
        Share of the records that lie beyond the ball, and beyond the interval.
    shift : float
        By how much the mean is moved up the line, as that of the records is expected to lie above
        that of the clipped ones, given the histograms.
    added : float
        What the shift, which goes with the records, adds to the variance of a record on the line.
    """

    line: float
    rest: float
    clipped: float
    cut: float
    shift: float
    added: float


def spread(
    survey: Surveyed,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    clip: Clip,
    frame: Frame,
    noise: float,
    *,
    moved: bool,
) -> Spread:
    """Return how wide records lie, of their estimated shares; see `choose` for what they are of.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise of a share along it.
    moved : bool
        Whether the mean will be moved by the shift.
    """
    along, off = bins
    variance = cut = shift = added = 0.0
    if along is not None and survey.line is not None:
        shares, ends = survey.line.shares, along.ends
        first, second, inside = clipped_moments(ends, clip.low, clip.high)
        weights = _weights(shares)
        variance = max(float(weights @ second) - float(weights @ first) ** 2, 0.0)
        cut = 1.0 - float(weights @ inside)
        if moved:
            places = (ends[:-1] + ends[1:]) / 2.0
            places[0], first[0] = ends[0], np.clip(ends[0], clip.low, clip.high)  # featureless
            left = places - first
            shift = math.fsum(shares * left)
            # it goes with what was counted in a bin by the posterior covariance over the noise's
            # (Tweedie's formula)
            heard = survey.line.covariance @ left / noise**2
            along_with = heard**2 + 2.0 * heard * (first - weights @ first)
            added = max(float(weights @ along_with) - float(weights @ heard) ** 2, 0.0)
    weights, ends = _weights(shells), np.concatenate([[0.0], off.edges, off.cuts[-1:]])
    _, second, inside = clipped_moments(ends, 0.0, clip.radius)
    square = float(weights @ second)
    return Spread(
        line=variance,
        rest=max(square - mean_square(clip, survey.shares, along), LEFT * square) / frame.others,
        clipped=1.0 - float(weights @ inside),
        cut=cut,
        shift=shift,
        added=added,
    )


def _weights(shares: FloatArray) -> FloatArray:
    """Return shares that sum to 1."""
    return shares / max(float(shares.sum()), 1e-12)
