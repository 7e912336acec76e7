"""Counting and clipping: what each step maps a record to, a vector of a set of diameter 1.

*Histograms.* A record's indicator of its bin is a corner of a simplex; two corners are √2 apart, so
indicators over √2 form a set of diameter 1. One histogram may have bins of different kinds, as long
as a record falls into one of them.

*Clipped mean.* x is clipped to an interval of length L. With t = α·(x − middle) of what that
leaves, |t| ≤ R, z is clipped to ‖z‖² ≤ R² − t²: then (t, z) lies in a ball of radius R, and two
vectors (t, z)/(2R) are at most 1 apart. On a curved manifold the coordinates are those of
log(p, ·), and nothing more is needed, as each record is clipped by itself. The noise, 2σR/α along
the line and 2σR in each of m directions, has the mean square size 4σ²R²(1/α² + m).

A record's size is ρ² = t² + ‖z‖², and those with ρ > R are clipped: to an ellipsoid, whose tips the
interval cuts off. The ball that holds an interval and a ball of radius C in one, R² = α²L²/4 + C²,
is more than is needed, as few records lie far along the line and far off it as well. With the best
of either known for nothing, means clipped to the ellipsoid err by 4 to 20 % less in the classes of
`tiles`, PneumoniaMNIST, BreastMNIST and AdrenalMNIST3D. Whatever lies off the line, x alone decides
where x is clipped to: clipping along the line moves the mean one way.

*Whole region.* The mean of the records' coordinates moves by at most D/n on a flat manifold, where
D is the region's diameter; log(p, x̄) of the Fréchet mean x̄ by at most D/n on a Hadamard one, as
x̄ moves by no more (``barycentre.py``) and log(p, ·) is a contraction. Over D it is like a
mean of diameter 1. On a flat manifold that is the clipped mean of a ball of radius D around a point
of the region, with D for its unit.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError
from pipeline.mean.bins import AHEAD, LineBins, ShellBins
from pipeline.mean.choice import Clip, Interval
from pipeline.mean.frame import Frame, build_frame
from pipeline.mean.prior import Prior
from pipeline.mean.sums import Clipping, Sized, sizes

ROUNDED = 4e-13
"""Share of a ball's radius by which rounding may carry an interval beyond it, within the margin of
2e-12 (``vector_mean.py``)."""


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


def sizes_within(part: Sized, to: Interval | Clip, frame: Frame) -> FloatArray:
    """Return ρ of each record, (n,): its ‖z‖, and what the interval leaves of x."""
    seen, size = part
    if not frame.lines:
        return size
    place = np.clip(seen[:, 0], to.low, to.high) - (to.low + to.high) / 2.0
    return np.sqrt(size**2 + (to.weight * place) ** 2)


def shell_counts(size: FloatArray, shells: ShellBins) -> NDArray[np.int64]:
    """Return the number of records in each shell, by their size, (n,)."""
    found = np.searchsorted(shells.edges, size)
    return np.bincount(found, minlength=len(shells.edges) + 1)


def mean_units(clip: Clip, frame: Frame) -> NDArray[np.float64]:
    """Return what one unit of the released vector is worth in each coordinate of y, (d,)."""
    units = np.full(len(frame.into), 2.0 * clip.radius)
    if frame.lines:
        units[0] /= clip.weight
    return units


def reaches(clip: Clip, frame: Frame, prior: Prior) -> FloatArray:
    """Return what overshoots are measured by, (3,): off the ball, to the lower end of the line, up.

    All are public or released. Off the line they are known in the axes of the prior, and those of a
    round make lengths longer by the largest singular value between them. None is shorter than the
    unit of the vector: so it is measured with about the noise that the mean has, and its vector is
    shortened by little where an end is near.
    """
    units = mean_units(clip, frame)
    below, above = clip.low - prior.span[0], prior.span[1] - clip.high
    turned = build_frame(prior.line, prior.shape).back @ frame.into
    longer = max(float(np.linalg.norm(turned[frame.lines :, frame.lines :], 2)), 1.0)
    return np.maximum([longer * prior.farthest, below, above], [units[-1], units[0], units[0]])


def clipping(clip: Clip, frame: Frame, centre: FloatArray, prior: Prior) -> Clipping:
    """Return what maps a record to its vector, around `centre` in the axes.

    Raises
    ------
    PrivacyError
        When the interval leaves the ball, or is none: vectors of its ends would be longer than ½.
    """
    end = clip.weight * (clip.high - clip.low) / 2.0
    if not 0.0 <= end <= clip.radius * (1.0 + ROUNDED):  # nor where one of them is no number
        raise PrivacyError(
            f"an interval from {clip.low:g} to {clip.high:g} of weight {clip.weight:g} leaves its "
            f"ball of radius {clip.radius:g}: one record may move the mean by more than is stated; "
            "take a wider ball"
        )
    units = mean_units(clip, frame)
    interval = clip.low, clip.high, clip.weight
    return Clipping(centre, units, frame.lines, *interval, clip.radius, reaches(clip, frame, prior))
