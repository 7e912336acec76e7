"""Noisy moments: what the last mean released of the mean and the spread of records, not shrunk.

They are all that regions, tests and classifiers read. All of this file is post-processing of
released values.

**Correcting.** A clipped mean lacks what was cut off. Overshoots say how much of it lay along some
public directions (``sums.py``): each that noise cannot explain (`tuning.SURE`) is added.

**Shrinking** puts a noisy observation together with what was known before it. The observation u = θ
+ N(0, S) of the offset θ of the mean from the present centre meets the belief θ ~ N(0, P). Where u
is larger than expected, h = u'(P + S)⁻¹u beyond what χ²_d makes likely, P is widened by the cube of
the excess: an observation far beyond its noise is retained as it is, one that drowns in it hardly
moves the centre.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import repeat
from typing import Annotated, Any, TypeAlias

import numpy as np

from covdp.arrays import (
    BASIS,
    COORDINATES,
    COUNT,
    DIVISOR,
    NUMBERS,
    SHARE,
    SIZE,
    SMALLEST,
    TRIANGLE,
    FloatArray,
    Limits,
)
from covdp.errors import ConfigError
from covdp.geometry import Point
from covdp.mean import tuning
from covdp.mean.axes import Frame, Numbers, column, unit_length, vectors_times
from covdp.mean.clip import lengths
from covdp.mean.sums import FACTOR, OVERSHOOT, Clipping, second_moment
from covdp.recall import repeatable

LARGEST_TRACE = 0.25
"""Largest trace of a second moment of vectors, which are no longer than ½."""


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """What the last mean released of the records, nothing shrunk: noised, or a function of what is.

    A record is at u = log(base, record) = (middle + v) @ axes, v its vector; one that is clipped
    has the vector of where it is clipped to. ‖v‖ ≤ ½.

    Attributes
    ----------
    n : int
        Number of records, where labels are public; else the released count that sums were divided
        by, rounded, and all noise here is that of the sums over it.
    base : array, shape (*space.point_shape)
        The private centre that they are seen from.
    axes : array, shape (d, d)
        What one unit of each coordinate of a vector is.
    middle : array, shape (d,)
        Centre of the ball, in the same units; 0 on a flat manifold.
    vector : array, shape (d,)
        Mean of the vectors, noised.
    moment : array, shape (d, d), or None
        Mean of v·vᵀ, noised; None where it was not asked for.
    sigma : float
        Noise of each coordinate of `vector`. That of `moment` is σ/λ on the diagonal, λ just below
        √2 (``sums.py``), and by another √2 less off it.
    lines : {0, 1}
        Number of leading coordinates that are along the contrast axis.
    overshoots, reach : array, shape (e,)
        Mean lengths of what is cut off, in units of the vectors, noised, and what they were
        measured by: what is left; below, above, and beyond what these reach; towards each odd
        picture. e is ``1 + 4·lines + m``.
    odd : array, shape (m·d,)
        The vectors of the odd pictures, one after another.
    clipped, clipped_noise : float
        Share of the records that are clipped, as a noisy count says, and its standard deviation.
    shells : array or None
        Shares of the records in the shells around the base, with noise of √2·σ of their step. None,
        as `belief`, of the nights of an epoch.
    belief : array, shape (d, d), or None
        Covariance of the error of the mean once it is shrunk, as that is predicted.
    n_sd : float
        Standard deviation of the noise of `n`; 0 where labels are public.
    newton : array, shape (d, d), or None
        Newton's step, in coordinates at the base: what the mean of logarithms is multiplied with.
        None where it would be 1, as on a flat manifold.
    """

    n: Annotated[Numbers, COUNT]
    base: Annotated[Point, COORDINATES]
    axes: Annotated[FloatArray, BASIS]
    middle: Annotated[FloatArray, COORDINATES]
    vector: Annotated[FloatArray, NUMBERS]
    moment: Annotated[FloatArray, TRIANGLE] | None
    sigma: Annotated[Numbers, DIVISOR]
    lines: Annotated[int, Limits(0, 1, kind="int")]
    overshoots: Annotated[FloatArray, NUMBERS]
    reach: Annotated[FloatArray, Limits(SMALLEST, sides=NUMBERS.sides)]
    odd: Annotated[FloatArray, NUMBERS]
    clipped: Annotated[Numbers, SHARE]
    clipped_noise: Annotated[Numbers, SIZE]
    shells: Annotated[FloatArray, NUMBERS] | None = None
    belief: Annotated[FloatArray, BASIS] | None = None
    n_sd: Annotated[Numbers, SIZE] = 0.0
    newton: Annotated[FloatArray, TRIANGLE] | None = None

    def each(self) -> "list[NoisyMoments]":
        """Return those of each repetition: these lead all arrays, or one is that of all."""
        many = len(self.vector)

        def rows(value: Any) -> Iterable[Any]:
            if not isinstance(value, np.ndarray):
                return repeat(value, many)
            own = value.tolist() if value.ndim == 1 else value
            return own if len(own) == many else repeat(own[0], many)

        columns = (rows(getattr(self, field.name)) for field in fields(self))
        return [NoisyMoments(*own) for own in zip(*columns, strict=True)]

    @cached_property
    def steps(self) -> FloatArray:
        """What one unit of each coordinate of a vector moves the mean by, (..., d, d)."""
        return self.axes if self.newton is None else self.axes @ self.newton

    @cached_property
    def directions(self) -> FloatArray:
        """Unit vectors of all overshoots but the first, of shape (..., overshoots − 1, d)."""
        odd = self.odd.reshape(*self.odd.shape[:-1], -1, self.vector.shape[-1])
        along = np.zeros((*odd.shape[:-2], 4 * self.lines, odd.shape[-1]))
        along[..., ::2, 0], along[..., 1::2, 0] = -1.0, 1.0
        towards = odd / np.maximum(lengths(odd), 1e-300)[..., None]
        return np.concatenate([along, towards], axis=-2)

    @cached_property
    def overshoot_noise(self) -> FloatArray:
        """Standard deviation of the noise of each overshoot."""
        return np.asarray(self.reach * column(self.sigma) / OVERSHOOT)

    @cached_property
    def sure(self) -> FloatArray:
        """How much of each overshoot but the first is added to the mean: 0 to 1."""
        found = (self.overshoots / self.overshoot_noise)[..., 1:]
        many = found.shape[-1] - 4 * self.lines
        limits = np.array([*tuning.SURE * self.lines, *[tuning.SURE_ODD] * many])
        logistic = 1.0 / (1.0 + np.exp(np.clip(limits**2 - found**2, -60.0, 60.0)))
        return np.where(found > 0.0, logistic, 0.0)

    @cached_property
    def added(self) -> FloatArray:
        """What is added to the mean of the vectors, (..., d)."""
        return vectors_times(self.sure * self.overshoots[..., 1:], self.directions)

    @cached_property
    def offset(self) -> FloatArray:
        """The unshrunk mean, in coordinates at `base`, (..., d)."""
        return vectors_times(self.middle + self.vector + self.added, self.steps)

    @property
    def log_mean(self) -> FloatArray:
        """The mean of log(base, record) of clipped records, (..., d)."""
        return vectors_times(self.middle + self.vector, self.axes)

    @cached_property
    def clipped_offset(self) -> FloatArray:
        """The same of clipped records, to which nothing is added."""
        return vectors_times(self.middle + self.vector, self.steps)

    @cached_property
    def noise(self) -> FloatArray:
        """The covariance of the noise of the vectors' mean, (..., d, d), as `observe`."""
        relative = np.asarray(self.n_sd) / self.n
        vector = self.middle + self.vector + self.added
        return observe(vector, self.steps, self.sigma, relative)[1]

    @cached_property
    def predicted_bias(self) -> tuple[Numbers, Numbers]:
        """What clipping is predicted to do, along the contrast axis and off it, in distance.

        Clipping by count makes a bias in proportion to the noise, or to that which as many records
        outside are worth: balls of streams are older than their noise. What is added has noise of
        its own, and of what is not added so much counts as is beyond its noise. Curvature leaves
        some of the way to the mean.
        """
        worth = np.asarray(self.clipped) / (tuning.OUTSIDE * math.sqrt(self.vector.shape[-1]))
        worth = np.maximum(worth, np.asarray(self.sigma))
        found, noise = self.overshoots, self.overshoot_noise
        least = np.array([tuning.LEFT_SD, *[tuning.MISSED_SD] * (found.shape[-1] - 1)])
        seen = np.where(found > least * noise, found**2 - noise**2, 0.0)
        squares = (self.sure * noise[..., 1:]) ** 2 + (1.0 - self.sure) ** 2 * seen[..., 1:]
        total = (squares[..., None] * self.directions**2).sum(axis=-2)
        total += column((tuning.BIAS_OF_CLIPPING * worth) ** 2)
        off = total[..., self.lines :].sum(axis=-1) + tuning.LEFT_ONE_WAY * seen[..., 0]
        if not self.lines:
            return 0.0 * off, np.sqrt(off * self.unit_length**2 + self.bend**2)
        line = self.length * np.sqrt(total[..., 0])
        return line, np.sqrt(off * self.unit_length**2 + self.bend**2)

    @cached_property
    def bend(self) -> Numbers:
        """What Newton's step may leave of the way to the mean, in distance."""
        if self.newton is None:
            return 0.0
        lost = vectors_times(self.middle + self.vector, self.axes - self.steps)
        return tuning.STEP_LEFT * lengths(lost)

    @cached_property
    def limits(self) -> FloatArray:
        """The largest mean overshoots that bounds allow for, in the shape of `overshoots`.

        No prior is in them: where noise covers rare records, it does so by `OVERSHOOT_SD` of its
        deviations and no more, wherever they are.
        """
        return np.maximum(self.overshoots + tuning.OVERSHOOT_SD * self.overshoot_noise, 0.0)

    @property
    def shortened(self) -> float:
        """By how much vectors are shortened in the mean at most, to leave room for overshoots.

        One of length ½ or less is by the square of its overshoots over their reach, so by less than
        their sum: 1 − t² of it leaves room (``sums.py``). That of a record towards an odd picture
        is 0 from the first.
        """
        return 0.5 * float(np.sum((self.limits / self.reach)[: 1 + 4 * self.lines]))

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """How far clipping moves the mean at most, along the contrast axis and off it: vectors."""
        along, off = pooled_bounds([(1.0, self)])
        return along / float(self.length), off / float(self.unit_length)

    @cached_property
    def moves(self) -> tuple[FloatArray, FloatArray]:
        """How far clipping moves the mean up the contrast axis, down it, and off it: vectors.

        First is what overshoots say, (3,), without what was added; then how much more the noise of
        each may cover, (overshoots, 3). What is left counts as if it pointed one way, and so
        does by how much vectors are shortened.
        """
        found, noise = np.maximum(self.overshoots, 0.0), tuning.OVERSHOOT_SD * self.overshoot_noise
        more, less = self.limits - found, found - np.maximum(self.overshoots - noise, 0.0)
        axis, missing = (
            self.directions[:, : self.lines].sum(axis=1),
            found[1:] - self.sure * found[1:],
        )
        others = self.directions[:, self.lines :]
        levels = np.array([missing @ axis, -missing @ axis, found[0] + lengths(missing @ others)])
        noises = np.zeros((len(found), 3))
        noises[0, 2], noises[1:, 2] = more[0], lengths(others) * np.maximum(more, less)[1:]
        for place, way in enumerate((axis, -axis)):
            noises[1:, place] = np.where(way > 0.0, more[1:], less[1:]) * np.abs(way)
        many, shorter = 1 + 4 * self.lines, 0.5 / self.reach
        levels += (shorter * found)[:many].sum()
        noises[:many] += (shorter * more)[:many, None]
        both = np.array([self.lines, self.lines, 1.0])
        return both * levels, both * noises

    @cached_property
    def length(self) -> Numbers:
        """The distance of one unit along the contrast axis; 1 without one."""
        return lengths(self.axes[..., 0, :]) if self.lines else 1.0

    @cached_property
    def unit_length(self) -> Numbers:
        """The distance of one unit off the contrast axis, as `Frame.unit_length`."""
        return unit_length(self.axes[..., self.lines :, :])

    @property
    def rough(self) -> FloatArray:
        """The variance of each coordinate of a vector, (d,), as its trace says: one of all."""
        least = tuning.SCATTER_FLOOR * LARGEST_TRACE
        return np.maximum(self.even, least / len(self.vector))

    @property
    def even(self) -> FloatArray:
        """The same without a least one, (d,): 0 where all records are equal."""
        d, most = len(self.vector), LARGEST_TRACE
        trace = most if self.moment is None else float(np.trace(noisy_covariance(self)))
        return np.full(d, max(0.0, min(trace, most)) / d)

    @cached_property
    def line(self) -> FloatArray:
        """The projection onto the contrast axis, (d, d); 0 without one."""
        axis = self.axes[: self.lines]
        return np.asarray(axis.T @ axis / max(float(np.sum(axis**2)), 1e-300))

    @property
    def clipping(self) -> FloatArray:
        """The squares of `predicted_bias` as a covariance, (d, d)."""
        along, off = self.predicted_bias
        return self.as_covariance(along / self.length, off / self.unit_length)

    @property
    def predicted(self) -> FloatArray:
        """The covariance of noise and of what clipping is predicted to do, (d, d): for weights."""
        return np.asarray(self.noise + self.clipping)

    def as_covariance(self, along: float, off: float) -> FloatArray:
        """Return the covariance, (d, d), of errors as large as this, in units of the vectors."""
        squares = np.full(len(self.axes), off**2 / (len(self.axes) - self.lines))
        squares[: self.lines] = along**2
        return np.asarray((self.axes.T * squares) @ self.axes)


def clipped_moments(released: FloatArray, to: Clipping, frame: Frame, **known: Any) -> NoisyMoments:
    """Return what released means of clipped records say, of each repetition.

    Parameters
    ----------
    released : array, shape (r, …)
        Means of vectors and overshoots, and of products if those were asked for, as `pairs`.
    to : Clipping
        By which records were clipped.
    known
        All else of `NoisyMoments`.
    """
    d, many, unit = len(frame.to_axes), to.overshoots, to.unit[:, None]
    reach, paired = to.reach / unit, released.shape[1] > d + many
    return NoisyMoments(
        axes=unit[..., None] * frame.from_axes,
        vector=released[:, :d],
        moment=second_moment(released[:, d + many :]) if paired else None,
        lines=frame.lines,
        overshoots=reach * released[:, d : d + many] / OVERSHOOT,
        reach=reach,
        odd=to.odd.reshape(len(unit), -1) / unit,
        **known,
    )


@repeatable
def observe(
    vector: FloatArray, steps: FloatArray, sigma: Numbers, relative: Numbers
) -> tuple[FloatArray, FloatArray]:
    """Return the mean that a noised mean of vectors says, (..., d), and its covariance.

    A released count that is off by a share of itself makes the way from the base shorter, or
    longer, by that share.

    Parameters
    ----------
    vector, steps, sigma
        As in `NoisyMoments`.
    relative : float, or array of one a repetition
        Standard deviation of a released count that divides the vector, over that count.
    """
    mean = vectors_times(vector, steps)
    square = column(column(np.asarray(sigma))) ** 2
    covariance = steps.swapaxes(-1, -2) @ (square * steps)
    if np.any(relative):
        way = column(np.asarray(relative)) * mean
        covariance = covariance + way[..., :, None] * way[..., None, :]
    return mean, np.asarray(covariance)


WeighedParts: TypeAlias = Sequence[tuple[float, NoisyMoments]]
"""What a mean of means consists of: the share of each part in it, and what the part released."""


def clipping_bound(parts: WeighedParts) -> float:
    """Return how far clipping moves a mean of means at most, in distance."""
    return math.hypot(*pooled_bounds(parts))


def pooled_bounds(parts: WeighedParts) -> tuple[float, float]:
    """Return how far clipping moves a mean of means at most, in distance.

    That is along the contrast axis and off it. Rare images may be similar in all parts, so what was
    released adds up, and what bounds add for its noise as variances do: that of each overshoot of
    each part, and of its count.
    """
    total, squares = np.zeros(3), np.zeros(3)
    for share, part in parts:
        units = share * np.array([part.length, part.length, part.unit_length])
        levels, noises = part.moves
        levels = units * levels + share * np.array([0.0, 0.0, float(part.bend)])
        total += levels
        squares += ((units * noises) ** 2).sum(axis=0)
        squares += (tuning.OVERSHOOT_SD * part.n_sd / part.n * levels) ** 2
    up, down, off = (total + np.sqrt(squares)).tolist()
    return max(up, down), off


def noisy_covariance(observed: NoisyMoments) -> FloatArray:
    """Return A = M − v·vᵀ + σ²·Id, (..., d, d), in units of the vectors: unbiased, not definite.

    v and M are released with noise, so v·vᵀ is on average too large by σ²·Id.

    Raises
    ------
    ConfigError
        Where no second moment was released.
    """
    if observed.moment is None:
        raise ConfigError(
            'this class was released without a second moment; release with plan="auto"'
        )
    v = observed.vector
    outer = v[..., :, None] * v[..., None, :]
    square = column(column(observed.sigma**2))
    return np.asarray(observed.moment - outer + square * np.eye(v.shape[-1]))


def noise_edge(observed: NoisyMoments) -> Numbers:
    """Return 2τ, where the spectrum of the noise of A ends.

    The noise is symmetric, of standard deviation s = σ/λ on the diagonal and s/√2 off it: its
    eigenvalues fill a semicircle of radius 2·√d·s/√2 (Wigner).
    """
    return math.sqrt(2.0 * observed.vector.shape[-1]) * observed.sigma / FACTOR


def raw_covariance(observed: NoisyMoments) -> FloatArray:
    """Return the covariance nearest to A, in coordinates at the base, (d, d)."""
    return congruent(_nearest_semidefinite(noisy_covariance(observed)), observed.axes)


def covariance(observed: NoisyMoments, rough: FloatArray | None = None) -> FloatArray:
    """Return the covariance of single records, in coordinates at the base, (d, d).

    With T what its trace says, one variance of all coordinates, and (w, u) the eigenpairs of A − T,
    it is T + Σ sign(w)·√(w² − 4τ²)₊·u·uᵀ, made definite: what noise alone could be is taken for
    noise, and the rest is rid of what noise has added to it. It is that of clipped records. T is
    `rough` where that is given.
    """
    even = np.diag(observed.rough if rough is None else rough)
    values, vectors = np.linalg.eigh(noisy_covariance(observed) - even)
    signal = np.sign(values) * np.sqrt(np.maximum(values**2 - noise_edge(observed) ** 2, 0.0))
    matrix = _nearest_semidefinite(even + (vectors * signal) @ vectors.T)
    return congruent(matrix, observed.axes)


def congruent(covariance: FloatArray, rows: FloatArray) -> FloatArray:
    """Return a covariance of numbers in the coordinates in which one unit of each is a row."""
    return np.asarray(rows.T @ covariance @ rows)


def _nearest_semidefinite(matrix: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


@repeatable
def posterior_update(
    observed: FloatArray, noise: FloatArray, prior_cov: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E(θ | u) and Cov(θ | u).

    Parameters
    ----------
    observed : array, shape (..., d)
        u.
    noise, prior_cov : array, shape (..., d, d)
        S, positive definite, and P.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            mean, covariance = _updated(observed, noise, prior_cov)
            fine = bool(np.isfinite(mean).all() and np.isfinite(covariance).all())
        except np.linalg.LinAlgError:
            fine = False
    if fine:
        return mean, covariance
    if observed.size == observed.shape[-1]:  # doubles hold nothing of a belief beside such noise
        return np.zeros_like(observed), np.broadcast_to(prior_cov, noise.shape)
    known = np.broadcast_to(prior_cov, noise.shape)
    rows = [posterior_update(*row) for row in zip(observed, noise, known, strict=True)]
    return np.stack([mean for mean, _ in rows]), np.stack([covariance for _, covariance in rows])


def _updated(
    observed: FloatArray, noise: FloatArray, prior_cov: FloatArray
) -> tuple[FloatArray, FloatArray]:
    d = observed.shape[-1]
    solved = np.linalg.solve(noise + prior_cov, observed[..., None])[..., 0]
    excess = (observed * solved).sum(axis=-1) / (d + tuning.SURPRISE * math.sqrt(2.0 * d))
    wider = np.minimum(np.maximum(excess, 1.0) ** 3, math.exp(tuning.LARGEST_LOG_SCALE))
    believed = wider[..., None, None] * prior_cov
    both = np.concatenate([observed[..., None], believed], axis=-1)
    solved = np.linalg.solve(noise + believed, both)
    covariance = noise @ solved[..., 1:]
    mean = (believed @ solved[..., :1])[..., 0]
    return np.asarray(mean), np.asarray((covariance + covariance.swapaxes(-1, -2)) / 2.0)
