"""What the survey says of the records, and what is left of it when the centre has moved.

Post-processing throughout.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.mean.bins import AHEAD, LineBins, ShellBins
from pipeline.mean.smoothing import LINE, SHELLS, Smoothed, estimate, smooth

SURPRISE = 4.0
"""Standard deviations by which two counts of the same records may differ by chance; by hand."""
ROOT = math.sqrt(2.0)


class Surveyed(NamedTuple):
    """What the survey says of the records, seen from the prior's centre.

    Attributes
    ----------
    line : Smoothed, or None without a line
        Shares along it.
    beyond : array
        Smoothed shares in the far shells.
    far : array
        The latter as they were released.
    below, above : array, shape (c,)
        Mean length by which records reach below, and above, each cut of the line; one 0 without.
    """

    line: Smoothed | None
    beyond: FloatArray
    far: FloatArray
    below: FloatArray
    above: FloatArray

    @property
    def shares(self) -> FloatArray | None:
        """The shares along the line."""
        return None if self.line is None else self.line.shares


def read_survey(
    shares: FloatArray, spread: float, bins: tuple[LineBins | None, ShellBins]
) -> Surveyed:
    """Return what the survey says; `spread` is the standard deviation of the noise of a share."""
    along, off = bins
    many = len(shares) - (len(off.edges) + 1 - off.far)
    line = smooth(shares[:many], np.full(many, spread), LINE) if along is not None else None
    far = shares[many:]
    chain = SHELLS._replace(first=SHELLS.rise)
    beyond = np.maximum(estimate(far, np.full(len(far), spread), chain)[0], 0.0)
    return surveyed(line, beyond / max(1.0, float(beyond.sum())), far, bins)


def surveyed(
    line: Smoothed | None,
    beyond: FloatArray,
    far: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
) -> Surveyed:
    """Return these shares, and by how much records reach beyond the cuts of the line."""
    along, off = bins
    if along is None or line is None:
        return Surveyed(line, beyond, far, *(np.zeros(1),) * 2)
    cuts, ends = along.cuts, np.append(off.edges, off.cuts[-1])[off.far :, None]
    low = np.maximum(along.start - AHEAD * ends, cuts[0])
    high = np.minimum(along.start + AHEAD * ends, cuts[-1])
    far_below = beyond @ np.maximum(cuts - low, 0.0)
    far_above = beyond @ np.maximum(high - cuts, 0.0)
    below, above = line.shares @ along.below + far_below, line.shares @ along.above + far_above
    return Surveyed(line, beyond, far, below, above)


def merge(
    shells: FloatArray, far: FloatArray, own: float, survey: float, steady: NDArray[np.bool_]
) -> FloatArray:
    """Return the smoothed shells; the far ones were counted twice, by the survey as well.

    The two counts are weighted by their precision, unless the centre has moved too far since the
    survey, or the later one found records that were not far from the prior's centre.

    Parameters
    ----------
    own, survey : float
        The noise of either over √2.
    steady : array of bool
        Which far shells the survey still tells of.
    """
    noise = np.full(len(shells), own * ROOT)
    merged, late = shells.copy(), shells[-len(far) :]
    new = late - far > SURPRISE * ROOT * math.hypot(own, survey)
    weight = np.where(steady & ~new, own**2 / (own**2 + survey**2), 0.0)
    merged[-len(far) :] = late + weight * (far - late)
    noise[-len(far) :] *= np.sqrt(1.0 - weight)
    return smooth(merged, noise, SHELLS).shares
