"""Clipping: what each step maps a record to, and the clip of least predicted error.

A step maps a record to a vector of a set of diameter 1. Where it clips follows from noisy
histograms: first an interval on the contrast axis, then a radius.

*Histograms.* A record's indicator of its bin is a corner of a simplex; two corners are √2 apart, so
indicators over √2 form a set of diameter 1. One histogram may have bins of different kinds, as long
as a record falls into one of them.

*Clipped mean.* x is clipped to an interval of length L. With t = α·(x − middle) of what that
leaves, |t| ≤ R, z is clipped to ‖z‖² ≤ R² − t²: then (t, z) is in a ball of radius R, and two
vectors (t, z)/(2R) are at most 1 apart. On a curved manifold the coordinates are those of
log(p, ·), and nothing more is needed, as each record is clipped by itself. The noise, 2σR/α along
the contrast axis and 2σR in each of m directions, has the mean square size 4σ²R²(1/α² + m).

A record's size is ρ² = t² + ‖z‖², and those with ρ > R are clipped: to an ellipsoid, whose tips the
interval cuts off. The ball that holds an interval and a ball of radius C in one, R² = α²L²/4 + C²,
is more than is needed, as few records are outliers both along the contrast axis and off it. With
the best of either known free, means clipped to the ellipsoid have 4 to 20 % less error in the
classes of `tiles`, PneumoniaMNIST, BreastMNIST and AdrenalMNIST3D. Whatever is off the contrast
axis, x alone decides where x is clipped to: clipping along the contrast axis moves the mean one
way.

*Whole region.* The mean of the records' coordinates moves by at most D/n on a flat manifold, where
D is the region's diameter; log(p, x̄) of the Fréchet mean x̄ by at most D/n on a Hadamard one, as
x̄ moves by no more (``records.py``) and log(p, ·) is a contraction. Over D it is like a
mean of diameter 1. On a flat manifold that is the clipped mean of a ball of radius D around a point
of the region, scaled by D; where the region is narrower in some directions than in others,
with a scale for each coordinate (`region_units`).

*Spread.* How clipped records spread follows from the same histograms, with the records of a bin
taken as uniform in it; a second moment is shrunk towards it. It is post-processing.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FLAG, NUMBER, SIZE, FloatArray
from pipeline.errors import PrivacyError
from pipeline.mean import tuning
from pipeline.mean.axes import Frame, Numbers, build_frame, column, in_shape, vectors_times
from pipeline.mean.histogram import LineBins, ShellBins, SurveyPosterior, clipped_moments
from pipeline.mean.public_model import Prior
from pipeline.mean.sums import Clipping, Sized
from pipeline.parallel import compiled
from pipeline.recall import repeatable


class Interval(NamedTuple):
    """What records are clipped to along the contrast axis; all 0 without one.

    Attributes
    ----------
    low, high : float
        Its ends.
    weight : float
        α: what a length along the contrast axis counts against one off it, in the size of a record.
    """

    low: Numbers
    high: Numbers
    weight: Numbers


@dataclass(frozen=True, eq=False)
class Clip:
    """What the next mean is clipped to.

    Attributes
    ----------
    low, high, weight : float
        The interval along the contrast axis, and α; all 0 without one.
    radius : float
        R: of the ball that (α·x, z) is clipped to, in scaled coordinates.
    whole : bool
        True to cover the whole region instead, without clipping.
    gain : float
        Newton's step: what the mean off the contrast axis is multiplied with, 1 on a flat manifold.
    error : float
        Predicted root mean square error.
    bias_line, bias_rest, bend : float
        What clipping is predicted to do to the mean, in distance; and what share of the way to the
        mean curvature may leave.
    """

    low: Annotated[Numbers, NUMBER]
    high: Annotated[Numbers, NUMBER]
    weight: Annotated[Numbers, NUMBER]
    radius: Annotated[Numbers, NUMBER]
    whole: Annotated[Numbers, FLAG]
    gain: Annotated[Numbers, NUMBER]
    error: Annotated[Numbers, NUMBER]
    bias_line: Annotated[Numbers, SIZE]
    bias_rest: Annotated[Numbers, SIZE]
    bend: Annotated[Numbers, SIZE]

    def __iter__(self) -> Iterator[Numbers]:
        """Yield each."""
        return iter(vars(self).values())


def lengths_off(shells: FloatArray, off: ShellBins, frame: Frame, diameter: float) -> FloatArray:
    """Return the mean length, in distance, by which records reach beyond each radius, (..., c').

    No two places of the region are farther apart than its diameter.
    """
    unit, widest = (np.asarray(part)[..., None] for part in (frame.unit_length, frame.widest))
    near = vectors_times(unit * shells[..., : off.far], off.above[: off.far])
    longest = np.minimum(widest[..., None] * off.above[off.far :], diameter)
    return np.asarray(near + vectors_times(shells[..., off.far :], longest))


@repeatable
def choose_interval(
    survey: SurveyPosterior,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    *,
    sigma: Numbers,
    radius: Numbers,
    count_error: Numbers = 0.0,
) -> Interval:
    """Return the interval of least predicted error, of which α is the best.

    Were records at either end to be C off the contrast axis, the ball would have R² = α²L²/4 + C²,
    and the noise of the mean (``clip.py``) would be least, σ·(L + 2C√m), for α² = 2C/(L√m). As few
    do, `LENGTH_DISCOUNT`·L is weighed against the length by which records reach beyond the
    interval.

    Parameters
    ----------
    survey, bins, frame, sigma
        As in `choose_clip`.
    radius : float
        C, as it is expected before the shells are counted.
    count_error : float, or array of one a repetition
        By what share of itself a released count that divides the sum is off: so much of the way
        from the middle of the interval to the mean goes wrong.
    """
    along, _ = bins
    if along is None:
        return Interval(0.0, 0.0, 0.0)
    price = np.asarray(2.0 * radius * math.sqrt(frame.others))
    below, above = survey.below**2, survey.above**2
    price = in_shape(price, np.broadcast_shapes(price.shape, below.shape[:-1]))
    cuts, many = along.cuts, len(along.cuts)
    below, above = (np.ascontiguousarray(part).reshape(-1, many) for part in (below, above))
    flat, scale = price / tuning.LENGTH_DISCOUNT, tuning.LENGTH_DISCOUNT * sigma
    each = (scale, flat, count_error, _line_mean(survey, along))
    # copies, as numba would compile anew for what may not be written
    rows = (np.full(price.shape, array, np.float64).ravel() for array in each)
    ends = _least(np.array(cuts), below, above, *rows)
    low, high = (cuts[end].reshape(price.shape)[()] for end in ends.T)
    return Interval(low, high, np.sqrt(price / frame.others / (high - low)))


@compiled
def _least(
    cuts: FloatArray,
    belows: FloatArray,
    aboves: FloatArray,
    sigmas: FloatArray,
    prices: FloatArray,
    wrong: FloatArray,
    means: FloatArray,
) -> NDArray[np.int64]:
    """Return low and high cut of least predicted squared error, (r, 2).

    That is below + above + (σ·(length + price))², and `wrong` times the way from the middle to the
    clipped mean, squared.
    """
    out = np.zeros((len(prices), 2), np.int64)
    for r in range(len(prices)):
        best, below, above, least = np.inf, belows[r], aboves[r], 1
        out[r, 1] = 1
        for i in range(len(cuts) - 1):
            if below[i] >= best:  # the higher the cut, the more is below it
                break
            # the lower the cut, the more is above it
            while least < len(cuts) - 1 and above[least] >= best:
                least += 1
            for j in range(max(i + 1, least), len(cuts)):
                width = (sigmas[r] * (cuts[j] - cuts[i] + prices[r])) ** 2
                square = below[i] + above[j] + width
                if below[i] + width >= best:  # the longer the interval, the more noise
                    break
                if wrong[r] > 0.0 and square < best:
                    clipped = means[r] + math.sqrt(below[i]) - math.sqrt(above[j])
                    square += (wrong[r] * (clipped - (cuts[i] + cuts[j]) / 2.0)) ** 2
                if square < best:
                    best, out[r, 0], out[r, 1] = square, i, j
    return out


@repeatable
def choose_clip(
    interval: Interval,
    survey: SurveyPosterior,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    *,
    sigma: Numbers,
    diameter: float,
    cover: float,
    curvature: float,
    doubt: Numbers,
    count_error: Numbers = 0.0,
) -> Clip:
    """Return the clip of least predicted error: its radius, and what of the interval it leaves.

    The noise of the mean has the mean square size 4σ²R²(m + 1/α²) (``clip.py``). Clipping costs
    at most the mean length by which records reach beyond the interval and the ball, and that much
    is counted: records are on all sides, so that much of it cancels, but noise covers some of
    the shells. With 0.6 of it errors are a fifth larger at n·μ below 50, by 7 % up to 200, and by
    1 % less above. Covering the whole region costs σ√d times its `FeasibleSet.cover`, and no bias.

    Where sectional curvature is at least −κ, the Hessian of ½·dist(·, x)² is between 1 and
    h(dist) = √κ·dist·coth(√κ·dist) (Karcher 1977), so that of the mean between 1 and the mean h̄:
    a Newton step of 2/(1 + h̄) leaves at most (h̄ − 1)/(h̄ + 1) of the way to the mean. h̄ is taken
    at `CURVATURE_FRACTION`·κ; no privacy hangs on it.

    Parameters
    ----------
    interval : Interval
        What the records were clipped to along the contrast axis when their sizes were counted.
    survey : Surveyed
        Estimated shares along the contrast axis.
    shells : array, shape (b',)
        Estimated shares by size, seen from where the next mean is clipped.
    bins : (LineBins or None, ShellBins)
        What they are shares of.
    frame : Frame
        The axes.
    sigma : float, or array of one a repetition
        Noise of the mean of vectors from a set of diameter 1.
    diameter, cover : float
        D, and what the whole region has in its place; infinite where it must not be covered.
    curvature : float
        κ.
    doubt : float
        How far off the contrast axis the mean is thought to be.
    count_error : float
        As in `choose_interval`.
    """
    along, off = bins
    radii, rest = off.cuts, lengths_off(shells, off, frame, diameter)
    low, high, below, above = _cut_intervals(interval, survey, bins, shells.shape[:-1])
    lines = np.zeros(shells.shape[:-1]) if along is None else 1.0 / np.asarray(interval.weight) ** 2
    hessian = _mean_hessian(interval, survey, shells, bins, frame, curvature)
    gain, bend = 2.0 / (1.0 + hessian), (hessian - 1.0) / (hessian + 1.0)
    noise = (2.0 * column(sigma) * radii) ** 2 * (frame.others * gain**2 + lines[..., None])
    bent_off = (bend * np.asarray(doubt)[..., None]) ** 2
    squares = below**2 + above**2 + rest**2 + bent_off + noise
    if along is not None and np.any(count_error):
        way = column(_line_mean(survey, along)) + below - above - (low + high) / 2.0
        squares = squares + (column(count_error) * way) ** 2
    best = np.argmin(squares, axis=-1)
    places = *np.indices(best.shape, sparse=True), best

    def at(values: FloatArray) -> Numbers:
        result = in_shape(values, squares.shape)[places]
        return result if result.ndim else result.item()

    limit = sigma * cover * math.sqrt(frame.to_axes.shape[-1])
    errors = np.sqrt(squares)
    return Clip(
        low=at(low),
        high=at(high),
        weight=at(np.asarray(interval.weight)[..., None]),
        radius=at(radii),
        whole=at(errors > column(limit)),
        gain=at(gain),
        error=at(np.minimum(errors, column(limit))),
        bias_line=at(np.hypot(below, above)),
        bias_rest=at(rest),
        bend=at(bend),
    )


def _line_mean(survey: SurveyPosterior, along: LineBins) -> FloatArray:
    """Return where the mean of the records is along the contrast axis, by their shares, (...).

    Records of a wide bin are taken to be at its outer end, as in `LineBins.below` and ``above``.
    """
    assert survey.shares is not None
    total = np.maximum(survey.shares.sum(axis=-1), 1e-12)
    return np.asarray(along.cuts[0] + (survey.above[..., 0] - survey.below[..., 0]) / total)


def _cut_intervals(
    interval: Interval,
    survey: SurveyPosterior,
    bins: tuple[LineBins | None, ShellBins],
    repetitions: tuple[int, ...],
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return what a ball of each radius leaves of the interval: its low and high end, (..., c').

    Then the mean lengths by which records reach below and above it. All 0 without a contrast axis.
    """
    along, off = bins
    nothing = np.zeros((*repetitions, len(off.cuts)))
    if along is None:
        return nothing, nothing, nothing, nothing
    start, end, weight = (np.asarray(part)[..., None] for part in interval)
    room, middle = off.cuts / weight, (start + end) / 2.0  # x is clipped to it as well
    low, high = np.maximum(start, middle - room), np.minimum(end, middle + room)
    low, high = (in_shape(part, nothing.shape) for part in (low, high))
    below = _at_cuts(low, along.cuts, survey.below)
    return low, high, below, _at_cuts(high, along.cuts, survey.above)


def _mean_hessian(
    interval: Interval,
    survey: SurveyPosterior,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    curvature: float,
) -> FloatArray:
    """Return h̄ of records clipped to each radius, (..., c'), see `choose_clip`; 1 where flat."""
    along, off = bins
    if curvature <= 0.0:
        return np.ones(len(off.cuts))
    ends = np.append(off.edges, off.cuts[-1])
    along_line = mean_square(interval, survey.shares, along)
    square = np.concatenate([ends, off.cuts]) ** 2 - np.asarray(along_line)[..., None]
    bent = stretch(
        math.sqrt(tuning.CURVATURE_FRACTION * curvature)
        * np.asarray(frame.unit_length)[..., None]
        * np.sqrt(square.clip(0.0))
    )
    at_ends, at_cuts = bent[..., : len(ends), None], bent[..., None, len(ends) :]
    total = vectors_times(shells, np.where(ends[:, None] < off.cuts, at_ends, at_cuts))
    return np.asarray(total / np.maximum(shells.sum(axis=-1, keepdims=True), 1e-9))


def _at_cuts(places: FloatArray, cuts: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return lengths, known at the cuts, (..., c), at places between these, (..., c')."""
    rows, values = places.reshape(-1, places.shape[-1]), lengths.reshape(-1, len(cuts))
    return _interpolated(rows, cuts, values).reshape(places.shape)


@compiled
def _interpolated(places: FloatArray, cuts: FloatArray, lengths: FloatArray) -> FloatArray:
    """Return what is known at the cuts, of each row or of all, at the places of each row."""
    out = np.empty(places.shape)
    for r in range(len(places)):
        own = lengths[r % len(lengths)]
        for i in range(places.shape[1]):
            x = places[r, i]
            j = min(max(np.searchsorted(cuts, x, side="right") - 1, 0), len(cuts) - 2)
            slope = (own[j + 1] - own[j]) / (cuts[j + 1] - cuts[j])
            out[r, i] = slope * (x - cuts[j]) + own[j] if x < cuts[-1] else own[-1]
    return out


def mean_square(to: Interval | Clip, line: FloatArray | None, along: LineBins | None) -> Numbers:
    """Return the mean square of t = α·(x − middle), x clipped to the interval, by its shares."""
    if along is None or line is None:
        return 0.0
    middle = (to.low + to.high) / 2.0
    ends = along.ends - np.asarray(middle)[..., None]
    _, second, _ = clipped_moments(ends, to.low - middle, to.high - middle)
    square = vectors_times(line, second[..., None])[..., 0]
    return to.weight**2 * square / np.maximum(line.sum(axis=-1), 1e-12)


def stretch(x: FloatArray) -> FloatArray:
    """Return x·coth(x), 1 at 0."""
    return np.asarray(np.maximum(x, 1e-6) / np.tanh(np.maximum(x, 1e-6)))


ROUNDED = 4e-13
"""Share of a ball's radius by which rounding may carry an interval beyond it, within the margin of
2e-12 (``sensitivity.py``)."""


def sizes_within(part: Sized, to: Interval | Clip, frame: Frame) -> FloatArray:
    """Return ρ of each record, (r, n): its ‖z‖, and what the interval leaves of x."""
    (records, size), many = part, np.size(to.low)
    if not frame.lines:
        return size
    return _with_line(records, size, *(np.full(many, end) for end in (to.low, to.high, to.weight)))


@compiled
def _with_line(
    records: FloatArray, size: FloatArray, low: FloatArray, high: FloatArray, weight: FloatArray
) -> FloatArray:
    """Return √(size² + (weight·t)²) of each record, t the way from the middle to the clipped x."""
    out = np.empty((len(low), size.shape[1]))
    for r in range(len(low)):
        x, own = records[r % len(records), 0], size[r % len(size)]
        middle = (low[r] + high[r]) / 2.0
        for n in range(len(x)):
            place = min(max(x[n], low[r]), high[r]) - middle
            out[r, n] = math.sqrt(own[n] ** 2 + (weight[r] * place) ** 2)
            if own[n] >= 0.0 and not out[r, n] >= 0.0:
                out[r, n] = np.inf  # of a record whose x is no number
    return out


@lru_cache(maxsize=32)
def prior_frame(prior: Prior) -> Frame:
    """Return the axes that the prior expects."""
    return build_frame(prior.line, prior.shape)


def mean_units(clip: Clip, frame: Frame) -> FloatArray:
    """Return what a length of 1 of the released vector is in each coordinate of y, (..., d)."""
    units = np.empty((*np.shape(clip.radius), frame.to_axes.shape[-1]))
    units[...] = np.asarray(2.0 * clip.radius)[..., None]
    if frame.lines:
        units[..., 0] /= clip.weight
    return units


def reaches(clip: Clip, frame: Frame, prior: Prior) -> FloatArray:
    """Return what overshoots are measured by, (..., 3): off the ball, below the interval, above.

    All are public or released. Off the contrast axis they are known in the axes of the prior, and
    those of a round make lengths longer by the largest singular value between them. None is shorter
    than the scale of the vector: so it is measured with about the noise that the mean has, and its
    vector is shortened by little where an end is near.
    """
    units = mean_units(clip, frame)
    below, above = clip.low - prior.span[0], prior.span[1] - clip.high
    longer = np.maximum(_lengthening(frame, prior), 1.0)
    off = in_shape(longer * prior.farthest, units.shape[:-1])
    lengths = np.stack([off, *(in_shape(end, off.shape) for end in (below, above))], axis=-1)
    least = np.stack([units[..., -1], units[..., 0], units[..., 0]], axis=-1)
    return np.asarray(np.maximum(lengths, least))


@lru_cache(maxsize=4)  # of released values: all nights of a stream have one frame
def _lengthening(frame: Frame, prior: Prior) -> FloatArray:
    """Return how much longer axes make lengths off the contrast axis than the prior's, at most."""
    lines = frame.lines
    between = (prior_frame(prior).from_axes @ frame.to_axes)[..., lines:, lines:]
    return np.asarray(np.sqrt(np.linalg.eigvalsh(between.swapaxes(-1, -2) @ between)[..., -1]))


@repeatable
def clipping(clip: Clip, frame: Frame, centre: FloatArray, prior: Prior) -> Clipping:
    """Return what maps a record to its vector, around `centre`, (..., d), in the axes.

    Raises
    ------
    PrivacyError
        When the interval leaves the ball, or is none: vectors of its ends would be longer than ½.
    """
    end = clip.weight * (clip.high - clip.low) / 2.0
    inside = (end >= 0.0) & (end <= clip.radius * (1.0 + ROUNDED))  # false of what is no number
    if not np.all(inside):
        first = int(np.argmin(inside))
        low, high, weight, radius, *_ = (np.ravel(part)[first] for part in clip)
        raise PrivacyError(
            f"an interval from {low:g} to {high:g} of weight {weight:g} leaves its "
            f"ball of radius {radius:g}: one record may move the mean by more than is stated; "
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
        Variance along the contrast axis, of records clipped to the interval; 0 without a contrast
        axis.
    rest : float
        Mean square of one scaled coordinate off it, of clipped records.
    clipped, cut : float
        Share of the records that are beyond the ball, and beyond the interval.
    shift : float
        By how much the mean is moved up the contrast axis, as that of the records is expected to be
        above that of the clipped ones, given the histograms.
    added : float
        What the shift, which goes with the records, adds to the variance of a record on the
        contrast axis.
    """

    line: Numbers
    rest: Numbers
    clipped: Numbers
    cut: Numbers
    shift: Numbers
    added: Numbers


@repeatable
def spread(
    survey: SurveyPosterior,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    clip: Clip,
    frame: Frame,
    noise: Numbers,
    *,
    moved: bool,
) -> Spread:
    """Return the spread of records, of their estimated shares; see `choose` for what they are of.

    Parameters
    ----------
    noise : float, or array of one a repetition
        Standard deviation of the noise of a share along it.
    moved : bool
        Whether the mean will be moved by the shift.
    """
    along, off = bins
    variance = cut = shift = added = np.zeros(shells.shape[:-1])[()]
    if along is not None and survey.shares is not None and survey.covariance is not None:
        shares, ends = survey.shares, along.ends
        first, second, inside = clipped_moments(ends, clip.low, clip.high)
        weights = _weights(shares)
        variance = np.maximum(_dot(weights, second) - _dot(weights, first) ** 2, 0.0)
        cut = 1.0 - _dot(weights, inside)
        if moved:
            places = (ends[:-1] + ends[1:]) / 2.0
            places[0], first[..., 0] = ends[0], np.clip(ends[0], clip.low, clip.high)  # featureless
            left = places - first
            lengths = (shares * left).reshape(-1, left.shape[-1])
            shift = np.array([math.fsum(row) for row in lengths]).reshape(np.shape(cut))[()]
            # it goes with what was counted in a bin by the posterior covariance over the noise's
            # (Tweedie's formula)
            slope = (survey.covariance @ left[..., None])[..., 0] / column(noise) ** 2
            middle = _dot(weights, first)[..., None]
            along_with = slope**2 + 2.0 * slope * (first - middle)
            added = np.maximum(_dot(weights, along_with) - _dot(weights, slope) ** 2, 0.0)
    weights, ends = _weights(shells), np.concatenate([[0.0], off.edges, off.cuts[-1:]])
    _, second, inside = clipped_moments(ends, 0.0, clip.radius)
    square = _dot(weights, second)
    off_line = square - mean_square(clip, survey.shares, along)
    return Spread(
        line=variance,
        rest=np.maximum(off_line, tuning.RADIAL_FLOOR * square) / frame.others,
        clipped=1.0 - _dot(weights, inside),
        cut=cut,
        shift=shift,
        added=added,
    )


def _dot(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the products of vectors, (...), each pair by itself."""
    return vectors_times(first, second[..., None])[..., 0]


def _weights(shares: FloatArray) -> FloatArray:
    """Return shares that sum to 1."""
    return np.asarray(shares / np.maximum(shares.sum(axis=-1, keepdims=True), 1e-12))
