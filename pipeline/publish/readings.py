"""Terms of a released mean with bands, from what its document says of its noise.

A band is where a term of the mean is that noise was put on, in about 19 of 20 releases. The
error of the mean is Gaussian of covariance V in the manifold's coordinates; on a term's own scale
it is gᵀVg to first order, g the gradient there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from covdp.arrays import FloatArray
from covdp.descriptors import DESCRIPTORS, Term, terms_of
from covdp.errors import DomainError
from covdp.geometry import MANIFOLDS, Manifold, chart_of, from_chart
from covdp.inference import is_usable
from covdp.mean import default_prior
from covdp.mean.axes import Frame
from covdp.mean.noisy_moments import NoisyMoments, WeighedParts
from covdp.mean.public_model import prior_frame
from covdp.schema import ClassEntry, ClassPart, SettingsPart, point_at

BAND_LEVEL = 0.95
"""Confidence of the bands, each for itself."""
WIDE = float(ndtri((1.0 + BAND_LEVEL) / 2.0))
"""Standard deviations on each side of them."""
BIAS, BIAS_OFF, CLIPPED = 2.0, 1.5, 0.49
"""Weights of a predicted bias along the contrast axis, and off it; and the share of clipped
records up to which biases are believed: half are where n·μ is below 50, as many as may be.

By hand, of 32 draws a class of `tiles`, PneumoniaMNIST and BreastMNIST: at n·μ from 80 to 2,000
bands of `oct5` held in 99 to 100 of 100 cases in the log-Euclidean metric, in 91 to 100 in
log-Cholesky; at n·μ of 40 in 97, at 20 in 91 and at 10 in 76."""
ALONG = 2.0
"""Weight of a predicted squared error along the contrast axis.

By hand: there it is 0.01 to 0.24 of the whole on PneumoniaMNIST and BreastMNIST; on tissue of
`tiles`, where dark images are cut off unseen, twice what is predicted in all.
"""
WIDEST_BAND = math.log(10.0)
"""Half of a band, on a term's own scale, from which on the mean says nothing of the term: a factor
of 10 to both sides, or a correlation of −0.98 to 0.98."""
GRADIENT_STEP = 1e-4
"""Step of the differences that stand for a gradient."""


@dataclass(frozen=True, eq=False)
class Mean:
    """A mean that was released, or follows from what was, and what is known of its error.

    Attributes
    ----------
    point : array, shape (*space.point_shape), or None
        Mean in the chart of a flat manifold, else a matrix; None where nothing is released yet.
    covariance : array, shape (d, d), or None
        Covariance of its error, in the manifold's coordinates; None where nothing is known of it.
    base : array, shape (*space.point_shape), or None
        Point at which these coordinates are, of a curved manifold; None at the point itself.
    near : array, shape (*space.point_shape), or None
        A mean with less noise, at which terms have their gradients; None at the point itself. At a
        noisy one they are noise too, and bands are available where they happen to be small.
    """

    point: FloatArray | None
    covariance: FloatArray | None
    base: FloatArray | None = None
    near: FloatArray | None = None


NOTHING_READ = Mean(None, None)
"""Mean that terms are read of if one is not usable."""


class Reading(NamedTuple):
    """One term of a mean: nothing where noise is all there is, no band where it is not known.

    Attributes
    ----------
    term : Term
        Term of the descriptor.
    value : float or None
        Value; None where noise is all there is.
    low : float or None
        Lower end of the band; None where it is not known.
    high : float or None
        Upper end of the band; None where it is not known.
    """

    term: Term
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class ClassReadings:
    """Terms of a class, as a document states them.

    Attributes
    ----------
    name : str
        Name of the class.
    n : int
        Images or persons behind the mean; of a stream all up to this night.
    n_sd : float
        Standard deviation of the noise of `n`; 0 where it is public.
    usable : bool
        True if the mean is usable: see `covdp.inference.verdict`. Of others terms say nothing.
    mean : Mean or None
        Mean; None where this version does not know the descriptor or the manifold.
    readings : tuple of Reading
        Value and band of each term.
    """

    name: str
    n: int
    n_sd: float = 0.0
    usable: bool = False
    mean: Mean | None = None
    readings: tuple[Reading, ...] = ()


class TermReader(NamedTuple):
    """Reader of the means of some settings.

    Attributes
    ----------
    terms : tuple of Term
        Terms that can be stated of the means.
    axes : Frame
        Axes of the noise.
    manifold : Manifold
        Manifold of the means.
    """

    terms: tuple[Term, ...]
    axes: Frame
    manifold: Manifold

    def read(self, row: ClassEntry) -> ClassReadings:
        """Return what a document says of a class.

        Parameters
        ----------
        row : ClassEntry
            Entry of the class.
        """
        usable, mean = is_usable(row), mean_of(row, self.axes, self.manifold)
        terms = read_terms(self.terms, mean if usable else NOTHING_READ, self.manifold)
        return ClassReadings(row.class_name, row.n, row.n_sd, usable, mean, terms)


def reader_of(settings: SettingsPart) -> TermReader | None:
    """Return the reader of means; None where descriptor or manifold is not known here.

    Parameters
    ----------
    settings : SettingsPart
        Settings of the document.
    """
    kind, space = DESCRIPTORS.get(settings.descriptor), MANIFOLDS.get(settings.manifold)
    if kind is None or space is None:
        return None
    manifold = space(k=kind.k)
    return TermReader(terms_of(kind), axes_of(settings, manifold), manifold)


def read_terms(
    terms: Sequence[Term],
    mean: Mean,
    manifold: Manifold,
    *,
    widest: float = WIDEST_BAND,
) -> tuple[Reading, ...]:
    """Return what a mean says in each of some terms, nothing where half a band is `widest`.

    A band reaches `WIDE` standard deviations to each side, and ends where values cannot be.

    Parameters
    ----------
    terms : sequence of Term
        Terms of the descriptor.
    mean : Mean
        Mean of a class, and what is known of its error.
    manifold : Manifold
        Manifold of the mean.
    widest : float
        Half of the widest band that is shown, on a term's own scale.
    """
    nothing = tuple(Reading(term, None, None, None) for term in terms)
    if mean.point is None:
        return nothing
    if mean.covariance is None:
        point = from_chart(manifold, mean.point)
        return tuple(Reading(term, float(term.value(point)), None, None) for term in terms)
    try:
        around, point = _around(mean.point, mean, manifold), from_chart(manifold, mean.point)
        return tuple(_reading(term, point, around, mean.covariance, widest) for term in terms)
    except DomainError:  # noise of any size: positive definite but for rounding, without logarithm
        return nothing


def _around(point: FloatArray, mean: Mean, manifold: Manifold) -> FloatArray:
    """Return the points a step ahead of a mean and behind it along each axis, (2, d, k, k)."""
    place = point if mean.near is None else mean.near
    start, space = place if mean.base is None or manifold.flat else mean.base, chart_of(manifold)
    steps = GRADIENT_STEP * np.eye(manifold.dim)
    near_by = space.exp(start, space.log(start, place) + np.stack([steps, -steps]))
    return np.asarray(from_chart(manifold, near_by))


def _reading(
    term: Term, point: FloatArray, around: FloatArray, covariance: FloatArray, widest: float
) -> Reading:
    """Return one term of a mean, within the term's limits, from its gradient on its own scale."""
    ahead, behind = term.scaled(around)
    gradient = (ahead - behind) / (2.0 * GRADIENT_STEP)
    square = float(gradient @ covariance @ gradient)
    half = WIDE * math.sqrt(max(square, 0.0))  # of hardly any noise rounding may be more
    if not half < widest:
        return Reading(term, None, None, None)
    ends = term.unscaled(float(term.scaled(point)) + half * np.array([-1.0, 0.0, 1.0]))
    low, value, high = np.clip(ends, term.least, term.most)
    return Reading(term, float(value), float(low), float(high))


def mean_of(row: ClassEntry, axes: Frame, manifold: Manifold) -> Mean:
    """Return the mean of a class that a release's document states, as far as its error is known.

    Of an adaptive mean the document states the noise of its last round, exactly, and the bias that
    clipping is predicted to have: see `_stated`. Of a night it states both of the mean of all so
    far, before anything was shrunk. Of one draw it states how large the error is predicted to be,
    all directions together: see `_predicted`.

    Parameters
    ----------
    row : ClassEntry
        Entry of the document's ``classes``.
    axes : Frame
        `axes_of` its settings.
    manifold : Manifold
        Manifold of the mean.
    """
    if row.coordinates is None:
        return Mean(None, _predicted(row, axes))
    point = point_at(manifold, row.coordinates)
    if not isinstance(row, ClassPart):
        known = _stated(row.noise, row.weighed) if row.weighed else _predicted(row, axes)
        return Mean(point, known)
    if row.observed is None:
        return Mean(point, _predicted(row, axes))
    stated = _stated(row.observed.noise, [(1.0, row.observed)])
    return Mean(point, stated, row.noisy_moments.base)


def _stated(noise: FloatArray, parts: WeighedParts) -> FloatArray | None:
    """Return the covariance of noise and of the bias of each part, by its share in the mean.

    None where too many records of one are clipped.
    """
    if any(moments.clipped > CLIPPED for _, moments in parts):
        return None
    return np.asarray(noise + sum(share**2 * stated_bias(moments) for share, moments in parts))


def stated_bias(moments: NoisyMoments) -> FloatArray:
    """Return what clipping may do to the mean of a class, as a covariance; see `of_bias`.

    What overshoots say along the contrast axis counts, though noise may be all of it: a tail of
    dark images is cut off below, and noise covers what is known of it.

    Parameters
    ----------
    moments : NoisyMoments
        Released numbers of the class.
    """
    (up, down, _), (line, rest) = moments.moves[0], moments.predicted_bias
    line = math.hypot(line, float(max(up, down) * moments.length) / BIAS)
    return of_bias(line, rest, moments.axes, moments.lines)


def of_bias(line: float, rest: float, axes: FloatArray, lines: int) -> FloatArray:
    """Return the covariance, (d, d), that biases along the contrast axis and off it count for.

    Off the contrast axis only the size is predicted, and it may be in the very direction of a term:
    so all of it counts in each direction, in the shape that `axes`, (d, d), the contrast axis
    first, give noise. Spread evenly over directions, as regions have it, it is too little for one
    term: bands from the covariance of regions are half as wide, and of `cell` in `tiles`, n = 200
    and μ = 1, that of one term held in 39 of 60 draws, all of which have a region, where these held
    in 56.

    Parameters
    ----------
    line : float
        Bias along the contrast axis, in distance.
    rest : float
        Bias off it, in distance.
    axes : array, shape (d, d)
        Coordinates of one unit of each number, one a row.
    lines : int
        Number of leading rows that are along the contrast axis, 0 or 1.
    """
    first, others = axes[:lines], axes[lines:]
    along = first.T @ first / max(float(np.sum(first**2)), 1e-300)
    off = others.T @ others * len(others) / float(np.sum(others**2))
    return np.asarray((BIAS * line) ** 2 * along + (BIAS_OFF * rest) ** 2 * off)


def _predicted(row: ClassEntry, axes: Frame) -> FloatArray | None:
    """Return the covariance of an error of which only the size is known.

    One draw of noise has one law in all directions. Of an adaptive mean `ALONG` of the square is
    given to the contrast axis; the rest, all of it, has the public shape of the noise off the
    contrast axis.
    """
    error, dim = row.predicted_error, len(axes.to_axes)
    if error is None:
        return None
    if len(row.costs) == 1:
        return np.asarray(np.eye(dim) * error**2 / dim)
    line, rest = axes.line, axes.from_axes[axes.lines :]
    shape = rest.T @ rest
    return np.asarray(error**2 * (ALONG * line.T @ line + shape / np.trace(shape)))


def axes_of(settings: SettingsPart, manifold: Manifold) -> Frame:
    """Return the axes that the noise of an adaptive mean has, from public settings.

    Parameters
    ----------
    settings : SettingsPart
        Settings of the document.
    manifold : Manifold
        Manifold of the mean.
    """
    return prior_frame(default_prior(settings.domain, manifold))
