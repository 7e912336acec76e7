"""How far to clip: the interval along the line, then the radius, each of least predicted error.

Counting and clipping: what each step maps a record to, a vector of a set of diameter 1.

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

How wide clipped records lie, as the noisy histograms say: a second moment is shrunk towards it.

Records of a bin are taken as uniform in it. Post-processing.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError
from pipeline.mean import tuning
from pipeline.mean.axes import Frame, build_frame
from pipeline.mean.histogram import LineBins, ShellBins, SurveyPosterior, clipped_moments
from pipeline.mean.public_model import Prior
from pipeline.mean.sums import Clipping, Sized
from pipeline.parallel import compiled


class Interval(NamedTuple):
    """What records are clipped to along the line; all 0 without one.

    Attributes
    ----------
    low, high : float
        Its ends.
    weight : float
        α: what a length along the line counts against one off it, in the size of a record.
    """

    low: float
    high: float
    weight: float


class Clip(NamedTuple):
    """What the next mean is clipped to.

    Attributes
    ----------
    low, high, weight : float
        The interval along the line, and α; all 0 without one.
    radius : float
        R: of the ball that (α·x, z) is clipped to, in scaled coordinates.
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
    weight: float
    radius: float
    whole: bool
    gain: float
    error: float
    bias_line: float
    bias_rest: float
    bend: float


def lengths_off(shells: FloatArray, off: ShellBins, frame: Frame, diameter: float) -> FloatArray:
    """Return the mean length, in distance, by which records reach beyond each radius, (c',).

    No two places of the region are farther apart than its diameter.
    """
    near = frame.unit_length * shells[: off.far] @ off.above[: off.far]
    far = shells[off.far :] @ np.minimum(frame.widest * off.above[off.far :], diameter)
    return np.asarray(near + far)


def choose_interval(
    survey: SurveyPosterior,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    *,
    sigma: float,
    radius: float,
) -> Interval:
    """Return the interval of least predicted error, of which α is the best.

    Were records at either end to lie C off the line, the ball would have R² = α²L²/4 + C², and the
    noise of the mean (``clip.py``) would be least, σ·(L + 2C√m), for α² = 2C/(L√m). As few do,
    `LENGTH_DISCOUNT`·L is weighed against the length by which records reach beyond the interval.

    Parameters
    ----------
    survey, bins, frame, sigma
        As in `choose_clip`.
    radius : float
        C, as it is expected before the shells are counted.
    """
    along, _ = bins
    if along is None:
        return Interval(0.0, 0.0, 0.0)
    price = 2.0 * radius * math.sqrt(frame.others)
    below, above = survey.below**2, survey.above**2
    i, j = _least(
        along.cuts, below, above, tuning.LENGTH_DISCOUNT * sigma, price / tuning.LENGTH_DISCOUNT
    )
    low, high = float(along.cuts[i]), float(along.cuts[j])
    return Interval(low, high, math.sqrt(price / frame.others / (high - low)))


@compiled
def _least(
    cuts: FloatArray, below: FloatArray, above: FloatArray, sigma: float, price: float
) -> tuple[int, int]:
    """Return the low and the high cut of least below + above + (σ·(length + price))²."""
    best, low, high = np.inf, 0, 1
    for i in range(len(cuts) - 1):
        if below[i] >= best:  # the higher the cut, the more lies below it
            break
        for j in range(i + 1, len(cuts)):
            square = below[i] + above[j] + (sigma * (cuts[j] - cuts[i] + price)) ** 2
            if square < best:
                best, low, high = square, i, j
    return low, high


def choose_clip(
    interval: Interval,
    survey: SurveyPosterior,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    *,
    sigma: float,
    diameter: float,
    curvature: float,
    doubt: float,
) -> Clip:
    """Return the clip of least predicted error: its radius, and what of the interval it leaves.

    The noise of the mean has the mean square size 4σ²R²(m + 1/α²) (``clip.py``). Clipping costs
    at most the mean length by which records reach beyond the interval and the ball, and that much
    is reckoned with: records lie on all sides, so that much of it cancels, but noise hides some of
    the shells. With 0.6 of it means err by a fifth more at n·μ below 50, by 7 % up to 200, and by
    1 % less above. Covering the whole region, of diameter D, costs σD√d and no bias.

    Where sectional curvature is at least −κ, the Hessian of ½·dist(·, x)² lies between 1 and
    h(dist) = √κ·dist·coth(√κ·dist) (Karcher 1977), so that of the mean between 1 and the mean h̄:
    a Newton step of 2/(1 + h̄) leaves at most (h̄ − 1)/(h̄ + 1) of the way to the mean. h̄ is taken
    at `CURVATURE_FRACTION`·κ; no privacy hangs on it.

    Parameters
    ----------
    interval : Interval
        What the records were clipped to along the line when their sizes were counted.
    survey : Surveyed
        Estimated shares along the line.
    shells : array, shape (b',)
        Estimated shares by size, seen from where the next mean is clipped.
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
    radii, low, high = off.cuts, np.zeros(len(off.cuts)), np.zeros(len(off.cuts))
    below = above = low
    if along is not None:
        room = radii / interval.weight  # x is clipped to it as well
        middle = (interval.low + interval.high) / 2.0
        low, high = (
            np.maximum(interval.low, middle - room),
            np.minimum(interval.high, middle + room),
        )
        below = np.interp(low, along.cuts, survey.below)
        above = np.interp(high, along.cuts, survey.above)
    rest, hessian = lengths_off(shells, off, frame, diameter), np.ones(len(radii))
    if curvature > 0.0:
        ends = np.append(off.edges, radii[-1])[:, None]
        square = np.minimum(ends, radii) ** 2 - mean_square(interval, survey.shares, along)
        bent = stretch(
            math.sqrt(tuning.CURVATURE_FRACTION * curvature)
            * frame.unit_length
            * np.sqrt(square.clip(0.0))
        )
        hessian = shells @ bent / max(shells.sum(), 1e-9)
    gain, bend = 2.0 / (1.0 + hessian), (hessian - 1.0) / (hessian + 1.0)
    lines = 1.0 / interval.weight**2 if interval.weight else 0.0
    noise = (2.0 * sigma * radii) ** 2 * (frame.others * gain**2 + lines)
    squares = below**2 + above**2 + rest**2 + (bend * doubt) ** 2 + noise
    k, whole = int(np.argmin(squares)), sigma * diameter * math.sqrt(len(frame.to_axes))
    error = math.sqrt(float(squares[k]))
    return Clip(
        low=float(low[k]),
        high=float(high[k]),
        weight=interval.weight,
        radius=float(radii[k]),
        whole=error > whole,
        gain=float(gain[k]),
        error=min(error, whole),
        bias_line=float(np.hypot(below[k], above[k])),
        bias_rest=float(rest[k]),
        bend=float(bend[k]),
    )


def mean_square(to: Interval | Clip, line: FloatArray | None, along: LineBins | None) -> float:
    """Return the mean square of t = α·(x − middle), x clipped to the interval, by its shares."""
    if along is None or line is None:
        return 0.0
    middle = (to.low + to.high) / 2.0
    _, second, _ = clipped_moments(along.ends - middle, to.low - middle, to.high - middle)
    return to.weight**2 * float(line @ second) / max(float(line.sum()), 1e-12)


def stretch(x: FloatArray) -> FloatArray:
    """Return x·coth(x), 1 at 0."""
    return np.asarray(np.maximum(x, 1e-6) / np.tanh(np.maximum(x, 1e-6)))


ROUNDED = 4e-13
"""Share of a ball's radius by which rounding may carry an interval beyond it, within the margin of
2e-12 (``sensitivity.py``)."""


def sizes_within(part: Sized, to: Interval | Clip, frame: Frame) -> FloatArray:
    """Return ρ of each record, (n,): its ‖z‖, and what the interval leaves of x."""
    seen, size = part
    if not frame.lines:
        return size
    place = np.clip(seen[:, 0], to.low, to.high) - (to.low + to.high) / 2.0
    return np.sqrt(size**2 + (to.weight * place) ** 2)


def mean_units(clip: Clip, frame: Frame) -> NDArray[np.float64]:
    """Return what one unit of the released vector is worth in each coordinate of y, (d,)."""
    units = np.full(len(frame.to_axes), 2.0 * clip.radius)
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
    turned = build_frame(prior.line, prior.shape).from_axes @ frame.to_axes
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
    survey: SurveyPosterior,
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
        rest=max(square - mean_square(clip, survey.shares, along), tuning.RADIAL_FLOOR * square)
        / frame.others,
        clipped=1.0 - float(weights @ inside),
        cut=cut,
        shift=shift,
        added=added,
    )


def _weights(shares: FloatArray) -> FloatArray:
    """Return shares that sum to 1."""
    return shares / max(float(shares.sum()), 1e-12)
