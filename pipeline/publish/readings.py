"""Terms of a released mean with bands, from what its document says of its noise.

**Band.** It holds the term of the mean that noise was put on in about 19 of 20 releases. That noise
is Gaussian of covariance V in the manifold's coordinates; on a term's own scale it is gᵀVg to first
order, g the gradient there.

**Whisker.** It is the band, longer at both ends by the most that clipping may have moved the term:
Σ ‖A·g‖ (`covdp.inference.clipping_moves`). So it holds the term of the records themselves at least
as often as the band says, whatever they are. Where no region is available there is none.
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
from covdp.inference import certainty_refusal, clipping_moves, is_usable
from covdp.mean import default_prior
from covdp.mean.axes import Frame
from covdp.mean.public_model import prior_frame
from covdp.schema import ClassEntry, ClassPart, SettingsPart, point_at

BAND_LEVEL = 0.95
"""Confidence of the bands, each for itself."""
WIDE = float(ndtri((1.0 + BAND_LEVEL) / 2.0))
"""Standard deviations on each side of them."""
ALONG = 2.0
"""Weight of a predicted squared error along the contrast axis.

By hand: there it is 0.01 to 0.24 of the whole on PneumoniaMNIST and BreastMNIST; on tissue of
`tiles`, where dark images are cut off unseen, twice what is predicted in all.
"""
WIDEST_BAND = math.log(10.0)
"""Half of a band, on a term's own scale, from which on the mean says nothing of the term: a factor
of 10 to both sides, or a correlation of −0.98 to 0.98."""
LONGEST_WHISKER = 300.0
"""Half of a whisker, on a term's own scale, that stands for all longer ones: exp overflows."""
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
        Covariance of its noise, in the manifold's coordinates; None where nothing is known of it.
    base : array, shape (*space.point_shape), or None
        Point at which these coordinates are, of a curved manifold; None at the point itself.
    near : array, shape (*space.point_shape), or None
        A mean with less noise, at which terms have their gradients; None at the point itself. At a
        noisy one they are noise too, and bands are available where they happen to be small.
    moves : tuple of array, shape (m, d), or None
        Largest moves by clipping, as `covdp.inference.clipping_moves`; None where not known.
    """

    point: FloatArray | None
    covariance: FloatArray | None
    base: FloatArray | None = None
    near: FloatArray | None = None
    moves: tuple[FloatArray, ...] | None = None


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
    least, most : float or None
        Ends of the whisker; None where it is not known what clipping did.
    """

    term: Term
    value: float | None
    low: float | None
    high: float | None
    least: float | None = None
    most: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of the whisker; infinite without one, as nothing bounds what clipping did."""
        if self.least is None or self.most is None:
            return -math.inf, math.inf
        return self.least, self.most


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
        return tuple(_reading(term, point, around, mean, widest) for term in terms)
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
    term: Term, point: FloatArray, around: FloatArray, mean: Mean, widest: float
) -> Reading:
    """Return one term of a mean, within the term's limits, from its gradient on its own scale."""
    ahead, behind = term.scaled(around)
    gradient = (ahead - behind) / (2.0 * GRADIENT_STEP)
    square = float(gradient @ mean.covariance @ gradient)
    half = WIDE * math.sqrt(max(square, 0.0))  # of hardly any noise rounding may be more
    if not half < widest:
        return Reading(term, None, None, None)
    moved = sum(float(np.linalg.norm(part @ gradient)) for part in mean.moves or ())
    reach = min(half + moved, LONGEST_WHISKER)
    ends = term.unscaled(float(term.scaled(point)) + np.array([-half, 0.0, half, -reach, reach]))
    low, value, high, least, most = np.clip(ends, term.least, term.most).tolist()
    whisker = (None, None) if mean.moves is None else (least, most)
    return Reading(term, value, low, high, *whisker)


def mean_of(row: ClassEntry, axes: Frame, manifold: Manifold) -> Mean:
    """Return the mean of a class that a release's document states, as far as its error is known.

    Of an adaptive mean the document states the noise of its last round, exactly, and bounds on what
    clipping did. Of a night it states both of the mean of all so far, before anything was shrunk.
    Of one draw, which clips nothing, it states how large the error is predicted to be, all
    directions together: see `_predicted`.

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
    if isinstance(row, ClassPart) and row.observed is not None:
        moments = row.noisy_moments
        moves = None if certainty_refusal(row) else clipping_moves([(1.0, moments)])
        return Mean(point, moments.noise, moments.base, moves=moves)
    if not isinstance(row, ClassPart) and row.weighed:
        moves = None if certainty_refusal(row) else clipping_moves(row.weighed)
        return Mean(point, row.noise, moves=moves)
    return Mean(point, _predicted(row, axes), moves=() if len(row.costs) == 1 else None)


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
