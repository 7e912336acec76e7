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
mean of diameter 1. Next on the path: ``shrinkage.py``.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.geometry.compiling import compiled
from pipeline.mean.bins import AHEAD, LineBins, ShellBins
from pipeline.mean.choice import Clip
from pipeline.mean.frame import Frame


def survey_counts(
    seen: FloatArray, start: float, frame: Frame, line: LineBins | None, shells: ShellBins
) -> FloatArray:
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
    return np.bincount(bins, minlength=total).astype(np.float64)


def shell_counts(size: FloatArray, shells: ShellBins) -> FloatArray:
    """Return the number of records in each shell, for their ‖z‖, (n,)."""
    found = np.searchsorted(shells.edges, size)
    return np.bincount(found, minlength=len(shells.edges) + 1).astype(np.float64)


@compiled
def sizes(seen: FloatArray, centre: FloatArray, lines: int) -> FloatArray:
    """Return ‖z − centre‖ of each record, (n,); infinite where it is not a number."""
    out = np.empty(len(seen))
    for n in range(len(seen)):
        total = 0.0
        for i in range(lines, seen.shape[1]):
            total += (seen[n, i] - centre[i]) ** 2
        out[n] = math.sqrt(total) if total >= 0.0 else np.inf
    return out


@compiled
def clipped_sum(
    seen: FloatArray,
    size: FloatArray,
    centre: FloatArray,
    lines: int,
    low: float,
    high: float,
    radius: float,
) -> FloatArray:
    """Return Σ (clip(x) − (low + high)/2, clip(z − centre)), (d,); no number counts as 0."""
    out = np.zeros(seen.shape[1])
    middle = 0.5 * (low + high)
    for n in range(len(seen)):
        if lines and low <= seen[n, 0] <= high:
            out[0] += seen[n, 0] - middle
        elif lines and seen[n, 0] > high:
            out[0] += high - middle
        elif lines and seen[n, 0] < low:
            out[0] += low - middle
        if size[n] < np.inf:
            scale = 1.0 if size[n] <= radius else radius / size[n]
            for i in range(lines, seen.shape[1]):
                out[i] += scale * (seen[n, i] - centre[i])
    return out


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
