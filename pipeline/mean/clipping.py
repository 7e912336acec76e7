"""Counting and clipping: what each step maps a record to, a vector of a set of diameter 1.

*Histograms.* A record's indicator of its bin is a corner of a simplex; two corners are √2 apart, so
indicators over √2 form a set of diameter 1. One histogram may have bins of different kinds, as long
as a record falls into one of them.

*Clipped mean.* (x, z) is clipped to |x − middle| ≤ L/2 and ‖z‖ ≤ C and mapped to
(α·(x − middle), z)/S with S² = α²L² + 4C²: two such vectors differ by at most
√((αL)² + (2C)²)/S = 1. Clipping is a projection onto a convex set; on a curved manifold the
coordinates are those of log(p, ·), and nothing more is needed, as each record is clipped by itself.
α² = 2C/(L√m) is best: the noise, σS/α along the line and σS in each of m directions, then has the
mean square size σ²S²(1/α² + m) = σ²(L + 2C√m)².

*Whole region.* The mean of the records' coordinates moves by at most D/n on a flat manifold, where
D is the region's diameter; log(p, S) of the inductive mean S by at most D/n on a Hadamard one, as
S moves by no more (``geometry/inductive.py``) and log(p, ·) is a contraction. Over D it is like a
mean of diameter 1. On a flat manifold that is the clipped mean of a ball of radius D around a point
of the region, with D for its unit.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.mean.bins import AHEAD, LineBins, ShellBins
from pipeline.mean.choice import Clip
from pipeline.mean.frame import Frame
from pipeline.mean.sums import sizes


def survey_counts(
    seen: FloatArray, start: float, frame: Frame, line: LineBins | None, shells: ShellBins
) -> NDArray[np.int64]:
    """Return the number of records in each bin of the line, or in each far shell if they are far.

    The shell of a far record tells how far it lies both off the line and along it, by the larger
    of ‖z‖ and |x − start|/`AHEAD`.

    Parameters
    ----------
    seen : array, shape (n, d)
        Records in the axes of the frame, seen from the prior's centre; the line is absolute.
    start : float
        x of the prior's centre.
    """
    edges = np.empty(0) if line is None else line.edges
    spot = np.searchsorted(edges, seen[:, 0]) if frame.lines else np.zeros(len(seen), np.int64)
    size = sizes(seen, np.zeros(seen.shape[1]), frame.lines)
    ahead = np.abs(seen[:, 0] - start) / AHEAD if frame.lines else 0.0
    shell = np.searchsorted(shells.edges, np.maximum(size, ahead))
    off_line = np.searchsorted(shells.edges, size) >= shells.far
    bins = np.where(off_line, len(edges) + 1 + shell - shells.far, spot)
    total = len(edges) + 1 + len(shells.edges) + 1 - shells.far
    return np.bincount(bins, minlength=total)


def shell_counts(size: FloatArray, shells: ShellBins) -> NDArray[np.int64]:
    """Return the number of records in each shell, for their ‖z‖, (n,)."""
    found = np.searchsorted(shells.edges, size)
    return np.bincount(found, minlength=len(shells.edges) + 1)


def amplitude(clip: Clip, frame: Frame) -> tuple[float, float]:
    """Return S and S/α, see the top of this file; S = 2C without a line."""
    if not frame.lines:
        return 2.0 * clip.radius, 0.0
    length = clip.high - clip.low
    square = 2.0 * clip.radius / (length * math.sqrt(frame.others))
    whole = math.sqrt(square * length**2 + 4.0 * clip.radius**2)
    return whole, whole / math.sqrt(square)


def mean_units(clip: Clip, frame: Frame) -> NDArray[np.float64]:
    """Return what one unit of the released vector is worth in each coordinate of y, (d,)."""
    rest, line = amplitude(clip, frame)
    units = np.full(len(frame.into), rest)
    units[: frame.lines] = line
    return units
