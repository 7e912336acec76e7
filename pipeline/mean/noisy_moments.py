"""Noisy moments: what a round released of the mean and the spread of the records, before shrinking.

Those of the last round are all that regions, tests and classifiers read. All of this file is
post-processing of released values.

**Axes of the next round** are as long as the second moment found the records in each direction. The
second moment of a round costs nothing (``sums.py``), so the axes that the next one
clips in may follow it. They are a function of released values.

**Shrinking** puts a noisy observation together with what was known before it. The observation u = θ
+ N(0, S) of the offset θ of the mean from the present centre meets the belief θ ~ N(0, τP), with P
known and τ ≥ 1 found from u itself: the least τ for which u is no larger than expected, u'(τP +
S)⁻¹u ≤ d. So a belief that was too sure is widened until it agrees with the data, as in the
empirical Bayes form of the James-Stein estimator: an observation far beyond its noise is retained
as it is, one that drowns in it hardly moves the centre.

**Pooling** puts means of several parts together by precision: a stream its opening and its epochs,
`pipeline.inference` the releases of several hospitals.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import repeat
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import (
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
from pipeline.errors import ConfigError
from pipeline.geometry import Point
from pipeline.mean import tuning
from pipeline.mean.axes import Frame, Numbers, column, in_shape, scaled, vectors_times
from pipeline.mean.clip import Clip, Spread, mean_units
from pipeline.mean.sums import FACTOR, OVERSHOOT, second_moment
from pipeline.recall import repeatable


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """What a round released of the records, nothing shrunk: noised, or a function of what is.

    A record is at u = log(base, record) = middle + v @ axes, v its vector; one that is clipped
    has the vector of where it is clipped to. ‖v‖ ≤ ½ unless the whole region is covered.

    Attributes
    ----------
    n : int
        Number of records, where labels are public; else the released count that sums were divided
        by, rounded, and all noise here is that of the sums over it.
    base : array, shape (*space.point_shape)
        The private centre that they are seen from.
    middle, axes : array, shapes (d,), (d, d)
        Where the vector 0 is, moved along the contrast axis by what is thought to be clipped above
        less what is below; and what one unit of each of its coordinates is.
    vector : array, shape (d,)
        Mean of the vectors, noised.
    moment : array, shape (d, d), or None
        Mean of v·vᵀ, noised; None where the whole region is covered, or it was not asked for.
    sigma : float
        Noise of each coordinate of `vector`. That of `moment` is σ/λ on the diagonal, λ just below
        √2 (``sums.py``), and by another √2 less off it.
    gain : float
        Newton's step off the contrast axis, 1 on a flat manifold.
    lines : {0, 1}
        Number of leading coordinates that are along the contrast axis.
    bias_line, bias_rest : float
        What clipping, and curvature, are predicted to do to the mean, in distance.
    variance_line, variance_rest : float
        Variance of a coordinate of v along the contrast axis and off it, as the histograms say.
    clipped, cut : float
        Share of the records that are clipped off the contrast axis, and along it, as the histograms
        say.
    clipped_noise, cut_noise : float
        Standard deviation of the noise of a share off the contrast axis, and along it.
    interval : array, shape (2·lines,)
        Where on the contrast axis, from its origin, records are clipped.
    shift : float
        By how much the mean is moved up the contrast axis, in distance.
    added : float
        What moving the mean adds to the variance of single records along the contrast axis.
    bend : float
        What curvature may leave of the way to the mean, in distance.
    overshoots, reach : array, shape (1 + 2·lines,), or None
        Mean length, in units of the vectors, by which records are outside of the ball, below and
        above the interval, noised; and what it was measured by. None with `moment`.
    survey, shells : array, or None
        Shares of the records in the bins of the survey, and in the last round's shells, with noise
        of √2·σ of their step. None, as `belief`, of the nights of an epoch.
    belief : array, shape (d, d), or None
        Covariance of the error of the mean once it is shrunk, as that is predicted.
    n_sd : float
        Standard deviation of the noise of `n`; 0 where labels are public.
    """

    n: Annotated[int, COUNT]
    base: Annotated[NDArray[Any], COORDINATES]
    middle: Annotated[FloatArray, COORDINATES]
    axes: Annotated[FloatArray, BASIS]
    vector: Annotated[FloatArray, NUMBERS]
    moment: Annotated[FloatArray, TRIANGLE] | None
    sigma: Annotated[Numbers, DIVISOR]
    gain: Annotated[Numbers, DIVISOR]
    lines: Annotated[int, Limits(0, 1, kind="int")]
    bias_line: Annotated[Numbers, SIZE]
    bias_rest: Annotated[Numbers, SIZE]
    variance_line: Annotated[Numbers, SIZE]
    variance_rest: Annotated[Numbers, SIZE]
    clipped: Annotated[Numbers, SHARE]
    cut: Annotated[Numbers, SHARE]
    clipped_noise: Annotated[Numbers, SIZE]
    cut_noise: Annotated[Numbers, SIZE]
    interval: Annotated[FloatArray, NUMBERS]
    shift: Annotated[Numbers, Limits(None, None)]
    added: Annotated[Numbers, SIZE]
    bend: Annotated[Numbers, SIZE]
    overshoots: Annotated[FloatArray, NUMBERS] | None
    reach: Annotated[FloatArray, Limits(SMALLEST, sides=(3,))] | None
    survey: Annotated[FloatArray, NUMBERS] | None = None
    shells: Annotated[FloatArray, NUMBERS] | None = None
    belief: Annotated[FloatArray, BASIS] | None = None
    n_sd: Annotated[Numbers, SIZE] = 0.0

    def each(self) -> "list[NoisyMoments]":
        """Return those of each of several repetitions, which lead all arrays."""

        def rows(value: Any) -> Iterable[Any]:
            if not isinstance(value, np.ndarray):
                return repeat(value, len(self.vector))
            return value.tolist() if value.ndim == 1 else value

        columns = (rows(getattr(self, field.name)) for field in fields(self))
        return [NoisyMoments(*own) for own in zip(*columns, strict=True)]

    @cached_property
    def steps(self) -> FloatArray:
        """Newton's step in each coordinate of v, (d,)."""
        return np.where(np.arange(len(self.vector)) < self.lines, 1.0, self.gain)

    @cached_property
    def offset(self) -> FloatArray:
        """The unshrunk mean, in coordinates at `base`, (d,)."""
        return np.asarray(self.middle + (self.steps * self.vector) @ self.axes)

    @cached_property
    def noise(self) -> FloatArray:
        """The covariance of its noise, (d, d): exactly, where labels are public.

        A released count that is off by a share of itself makes the way from `middle` shorter, or
        longer, by that share.
        """
        noise = np.asarray((self.axes.T * (self.sigma * self.steps) ** 2) @ self.axes)
        if not self.n_sd:
            return noise
        way = (self.n_sd / self.n) * (self.offset - self.middle)
        return noise + np.outer(way, way)

    @cached_property
    def limits(self) -> FloatArray:
        """The largest mean overshoots that bounds allow for, (1 + 2·lines,), as `overshoots`.

        No prior is in them: where noise covers rare records, it does so by `OVERSHOOT_SD` of its
        deviations and no more, wherever they are. Infinite where none were released.
        """
        if self.overshoots is None or self.reach is None:
            return np.full(1 + 2 * self.lines, math.inf)
        noise = self.reach * self.sigma / OVERSHOOT
        most = np.maximum(self.overshoots + tuning.OVERSHOOT_SD * noise, 0.0)
        return np.asarray(most * (1.0 + tuning.OVERSHOOT_SD * self.n_sd / self.n))

    @cached_property
    def shortened(self) -> float:
        """By how much vectors are shortened in the mean at most, to leave room for overshoots.

        A vector of length ½ or less is shortened by the square of its overshoots over their reach
        at most, so by less than their sum: 1 − t² of it leaves room (``sums.py``).
        """
        return 0.0 if self.reach is None else 0.5 * float(np.sum(self.limits / self.reach))

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """How far clipping moves the mean of vectors at most, along the contrast axis and off it.

        Records cut above move it down, and those cut below up, and by `shift` it was moved already.
        Off the contrast axis all overshoots count as if they pointed one way, and so does by how
        much vectors are shortened. 0 where nothing is clipped.
        """
        if self.moment is None:
            return 0.0, 0.0
        radial, along = float(self.limits[0]), 0.0
        if self.lines:
            below, above = self.limits[1:].tolist()
            moved = self.shift / self.length
            along = max(above - moved, below + moved) + self.shortened
        return along, radial + self.shortened + self.bend / self.unit_length

    @cached_property
    def length(self) -> float:
        """The distance of one unit along the contrast axis; 1 without one."""
        return float(np.linalg.norm(self.axes[0])) if self.lines else 1.0

    @cached_property
    def unit_length(self) -> float:
        """The distance of one unit off the contrast axis, as `Frame.unit_length`."""
        others = self.axes[self.lines :]
        scales = np.linalg.eigvalsh(others @ others.T)
        return math.sqrt(float(np.sum(scales**2) / np.sum(scales)))

    @property
    def rough(self) -> FloatArray:
        """The variance of each coordinate of a vector, (d,), as the histograms say."""
        rough = np.full(len(self.vector), self.variance_rest)
        rough[: self.lines] = self.variance_line
        return rough

    @cached_property
    def line(self) -> FloatArray:
        """The projection onto the contrast axis, (d, d); 0 without one."""
        axis = self.axes[: self.lines]
        return np.asarray(axis.T @ axis / max(float(np.sum(axis**2)), 1e-300))

    @property
    def predicted(self) -> FloatArray:
        """The covariance of noise and of what clipping is predicted to do, (d, d): for weights."""
        bias = self.as_covariance(self.bias_line / self.length, self.bias_rest / self.unit_length)
        return np.asarray(self.noise + bias)

    def as_covariance(self, along: float, off: float) -> FloatArray:
        """Return the covariance, (d, d), of errors as large as this, in units of the vectors."""
        squares = np.full(len(self.axes), off**2 / (len(self.axes) - self.lines))
        squares[: self.lines] = along**2
        return np.asarray((self.axes.T * squares) @ self.axes)


WeighedParts: TypeAlias = Sequence[tuple[float, NoisyMoments]]
"""What a mean of means consists of: the share of each part in it, and what the part released."""


def clipping_bound(parts: WeighedParts) -> float:
    """Return how far clipping moves a mean of means at most, in distance."""
    return math.hypot(*pooled_bounds(parts))


def pooled_clipping(parts: WeighedParts) -> FloatArray:
    """Return the squares of `pooled_bounds` as a covariance, (d, d), even off the contrast axis."""
    first = next((part for _, part in parts if part.moment is not None), parts[0][1])
    along, off = pooled_bounds(parts)
    return first.as_covariance(along / first.length, off / first.unit_length)


def pooled_bounds(parts: WeighedParts) -> tuple[float, float]:
    """Return how far clipping moves a mean of means at most, in distance.

    That is along the contrast axis and off it. Rare images may be similar in all parts, so lengths
    add up, and their noise as variances do. A part that covers the whole region clips nothing.
    """
    clipped = [(share, part) for share, part in parts if part.moment is not None]
    if not clipped:
        return 0.0, 0.0
    first = clipped[0][1]
    lengths, noises = np.zeros((2, 1 + 2 * first.lines))
    moved = bent = short_line = short_off = 0.0
    for share, part in clipped:
        assert part.overshoots is not None
        assert part.reach is not None
        units = share * np.array([part.unit_length, part.length, part.length])[: len(lengths)]
        lengths += units * part.overshoots
        noises += (units * part.reach * part.sigma / OVERSHOOT) ** 2
        shortened = 0.5 * share * float(np.sum(part.limits / part.reach))
        short_line += part.length * shortened
        short_off += part.unit_length * shortened
        moved, bent = moved + share * part.shift, bent + share * part.bend
    limits = np.maximum(lengths + tuning.OVERSHOOT_SD * np.sqrt(noises), 0.0)
    along, off = 0.0, float(limits[0]) + bent + short_off
    if first.lines:
        along = max(float(limits[2]) - moved, float(limits[1]) + moved) + short_line
    return along, off


def region_moments(
    n: int, base: Point, vector: FloatArray, units: FloatArray, sigma: Numbers
) -> NoisyMoments:
    """Return what a noised mean of the whole region says; `units` is what one unit of each is."""
    d = len(vector)
    biases = ("bias_line", "bias_rest", "bend", "shift", "added")
    widths = ("variance_line", "variance_rest", "clipped", "cut", "clipped_noise", "cut_noise")
    nothing: dict[str, Any] = dict.fromkeys((*biases, *widths), 0.0)
    return NoisyMoments(
        n=n,
        base=base,
        middle=np.zeros(d),
        axes=np.diag(units),
        vector=vector,
        moment=None,
        sigma=sigma,
        gain=1.0,
        lines=0,
        interval=np.empty(0),
        **nothing,
        overshoots=None,
        reach=None,
    )


@repeatable
def clip_moments(
    n: Numbers,
    base: Point,
    noised: FloatArray,
    clip: Clip,
    frame: Frame,
    *,
    line_coordinate: Numbers,
    spread: Spread,
    sigma: Numbers,
    noises: tuple[Numbers, Numbers],
    reach: FloatArray,
    n_sd: Numbers = 0.0,
) -> NoisyMoments:
    """Return what a noised mean of vectors, or of triples, says.

    Parameters
    ----------
    line_coordinate : float
        Where the base is on the contrast axis.
    noises : (float, float)
        Standard deviation of a share off the contrast axis, and along it.
    reach : array, shape (3,)
        As in `clip.reaches`.
    n_sd : float
        As in `NoisyMoments`.
    """
    d, lines = frame.to_axes.shape[-1], frame.lines
    units, paired, many = mean_units(clip, frame), noised.shape[-1] > d, 1 + 2 * lines
    lengths = (reach / np.stack([units[..., -1], units[..., 0], units[..., 0]], axis=-1))[
        ..., :many
    ]
    middle = (clip.low + clip.high) / 2.0 + spread.shift - line_coordinate
    vector = noised[..., :d]
    steps = (np.asarray(clip.gain)[..., None] * units * vector)[..., lines:]
    off = vectors_times(steps, frame.from_axes[..., lines:, :])
    bent = clip.bend * np.sqrt(vectors_times(off, off[..., None])[..., 0])
    axis = in_shape(frame.from_axes[..., :lines, :].sum(axis=-2), off.shape)
    return NoisyMoments(
        n=n,
        base=base,
        middle=np.asarray(middle)[..., None] * axis,
        axes=units[..., None] * frame.from_axes,
        vector=vector,
        moment=second_moment(noised[..., d + many :]) if paired else None,
        sigma=sigma,
        gain=clip.gain,
        lines=lines,
        bias_line=clip.bias_line,
        bias_rest=np.hypot(clip.bias_rest, bent),
        variance_line=spread.line / units[..., 0] ** 2,
        variance_rest=spread.rest / units[..., -1] ** 2,
        clipped=spread.clipped,
        cut=spread.cut,
        clipped_noise=noises[0],
        cut_noise=noises[1],
        interval=np.stack([np.asarray(clip.low), np.asarray(clip.high)], axis=-1)[..., : 2 * lines],
        shift=spread.shift,
        added=spread.added,
        bend=bent,
        overshoots=lengths * noised[..., d : d + many] / OVERSHOOT if paired else None,
        reach=lengths if paired else None,
        n_sd=n_sd,
    )


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
            "this class was released without a second moment: n·μ being small, its noise covered "
            "the whole region; release with a larger budget, or more records"
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


@repeatable
def reshape_axes(frame: Frame, observed: NoisyMoments) -> Frame:
    """Return the axes for the records of each repetition that were observed in `frame`.

    In the axes' own coordinates, where the noise of the covariance is the same in all directions,
    records as the axes expect them have the covariance T ∝ scale², of the trace that was observed.
    Of what was observed beyond it, A − T with eigenpairs (w, u), Σ sign(w)·√(w² − 4τ²)₊·u·uᵀ is
    retained, 2τ the edge of the noise. So the less is observed, the less the axes change.
    """
    if observed.moment is None:
        return frame
    lines, edge = frame.lines, column(noise_edge(observed))
    noisy = noisy_covariance(observed)[..., lines:, lines:]
    trace, rest = np.trace(noisy, axis1=-2, axis2=-1), frame.from_axes[..., lines:, :]
    squares = (rest**2).reshape(*rest.shape[:-2], -1).sum(axis=-1)
    usual = rest @ rest.swapaxes(-1, -2) * (trace / squares)[:, None, None]
    values, vectors = np.linalg.eigh(noisy - usual)
    rows = np.flatnonzero((trace > 0.0) & (np.abs(values) > edge).any(axis=-1))
    signal = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    target = usual + (vectors * signal[..., None, :]) @ vectors.swapaxes(-1, -2)
    rest = in_shape(rest, (len(noisy), *rest.shape[-2:]))
    if not len(rows):
        return frame
    root = np.linalg.cholesky(usual[rows])
    inverse = np.linalg.inv(root)
    ratios, axes = np.linalg.eigh(inverse @ target[rows] @ inverse.swapaxes(-1, -2))
    ratios = np.clip(ratios, 1.0 / tuning.VARIANCE_RATIO, tuning.VARIANCE_RATIO)
    turned = rest[rows].swapaxes(-1, -2) @ root @ axes
    squares, directions = np.linalg.eigh((turned * ratios[:, None]) @ turned.swapaxes(-1, -2))
    lengths = np.maximum(squares[:, lines:], 0.0) ** 0.25
    shapes = scaled(frame.basis, lines, lengths, directions[..., lines:])
    return frame.put(rows, shapes, len(noisy))


EXCESS = 1e-12
"""By how much, relatively, u may remain larger than expected."""
MOST_STEPS = 100
"""Most steps of Newton's to τ; a few suffice."""


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
    believed = _widening(observed, noise, prior_cov)[..., None, None] * prior_cov
    both = np.concatenate([observed[..., None], believed], axis=-1)
    solved = np.linalg.solve(noise + believed, both)
    covariance = noise @ solved[..., 1:]
    mean = (believed @ solved[..., :1])[..., 0]
    return np.asarray(mean), np.asarray((covariance + covariance.swapaxes(-1, -2)) / 2.0)


def _widening(observed: FloatArray, noise: FloatArray, prior_cov: FloatArray) -> FloatArray:
    """Return the τ ≥ 1 with which u is as large as expected, (...,); `LARGEST_LOG_SCALE` ends it.

    With h(τ) = u'(τP + S)⁻¹u it is where 1/h = 1/d. 1/h rises and is concave, being a harmonic sum
    of linear functions: from τ = 1 Newton's steps rise to it and never beyond.
    """
    d, most = observed.shape[-1], math.exp(tuning.LARGEST_LOG_SCALE)
    scale = np.ones(observed.shape[:-1])
    rows = np.ones(observed.shape[:-1], dtype=bool)
    for _ in range(MOST_STEPS):
        u, wide, prior = observed[rows], scale[rows], in_shape(prior_cov, noise.shape)[rows]
        both = noise[rows] + wide[:, None, None] * prior
        solved = np.asarray(np.linalg.solve(both, u[..., None])[..., 0], float)
        excess = np.sum(u * solved, axis=-1) / d - 1.0
        slope = np.sum(solved * vectors_times(solved, prior), axis=-1) / d
        with np.errstate(divide="ignore", invalid="ignore"):
            step = excess * (1.0 + excess) / slope
        rises = (excess > EXCESS) & (wide < most)
        scale[rows] = np.where(rises, np.fmin(wide + step, most), wide)
        rows[rows] = rises
        if not rises.any():
            break
    return scale


class Part(NamedTuple):
    """Mean of n records, (d,), and the covariance of its error, (d, d)."""

    n: int
    offset: FloatArray
    covariance: FloatArray


class PooledMean(NamedTuple):
    """A mean of parts, (d,), and how certain it is, (d, d).

    Attributes
    ----------
    mean
        The estimate.
    of_law, of_units
        Covariance of its error, as the mean of the law that all records are drawn from, and as the
        mean of these very records.
    gains
        By what each part is multiplied in it, (parts, d, d); they add up to one.
    """

    mean: FloatArray
    of_law: FloatArray
    of_units: FloatArray
    gains: FloatArray


def pool(parts: Sequence[Part], spread: FloatArray) -> PooledMean:
    """Return the mean of all parts, by precision.

    Part i is n_i records of a common law of covariance Σ, `spread`, so their mean is
    m_i = m + N(0, Σ/n_i), observed with an error N(0, V_i): W_i = (V_i + Σ/n_i)⁻¹ weighs what it
    says of m, and (Σ W_i)⁻¹·Σ W_i·u_i is the posterior mean of m. That of all records, Σ f_i·m_i
    with f_i = n_i/N, takes from each part what it says of its own records, f_i·(Σ/n_i)·W_i·(u_i −
    m), where it is precise; these sum to 0, so it is the same number, and only its error is
    another. Weights by 1/V_i alone would miss that the records of the part observed best are not
    all records; f_i alone, that a part may be mostly noise. A wrong Σ costs accuracy, never
    privacy.
    """
    total, d = sum(part.n for part in parts), len(spread)
    weights = [np.linalg.inv(part.covariance + spread / part.n) for part in parts]
    of_law = np.linalg.inv(np.sum(weights, axis=0))
    mean = of_law @ sum(w @ part.offset for w, part in zip(weights, parts, strict=True))
    through, own = np.zeros((d, d)), np.zeros((d, d))
    for weight, part in zip(weights, parts, strict=True):
        share, gain = part.n / total, spread / part.n @ weight
        rest = np.eye(d) - gain
        through += share * rest
        own += share**2 * rest @ spread / part.n
    of_units = through @ of_law @ through.T + (own + own.T) / 2.0
    return PooledMean(np.asarray(mean), of_law, of_units, of_law @ np.stack(weights))
