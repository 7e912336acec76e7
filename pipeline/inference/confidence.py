"""Confidence regions of the true mean, from released values alone.

**Region.** An ellipsoid around the released mean: {x : uᵀW⁻¹u ≤ q}, u = log(centre, x). The error
is noise, whose covariance S is known exactly, and what clipping does to the mean. That is at most
the mean length that clipping cuts off, which each round releases with its mean (overshoots, see
``mean/sums.py``): `NoisyMoments.bounds` takes it `OVERSHOOT_SD` deviations of its noise larger than
it was released. For the mean of the very records of the release W = S, and q is the quantile of a
noncentral χ²_d: the largest for any bias within the bounds. For the mean of the population that
they were drawn from, each by itself, S + Σ̂/n takes the place of S, Σ̂ the estimated covariance of
single records, and W is of the shape of least radius.

S belongs to the mean before it was shrunk. The released mean is nearer to the truth, by how much
depends on the truth: the covariance that the shrinkage predicts makes regions much too small.

**What rare images cost.** One image in a hundred that is black, or striped, moves the mean by ten
times its noise at n·μ = 500, and no count there tells it from noise. A region holds such
means as often as it says only if it is so wide always, also where all images are similar. No
procedure escapes. Let a region hold the mean with probability 1 − α whatever the records, and m' be
the mean when k of the n records are replaced. μ-GDP lets it hold m', for the records as they are,
with probability Φ(Φ⁻¹(1 − α) − k·μ) at least: in more than half of all releases as long as
k·μ < Φ⁻¹(1 − α). So with α = 0.1 regions mostly reach to where 1.28/(n·μ) of the records may be
moved by others, whatever share of μ is spent on finding them. Overshoots are counted with half of
it, at 0.6 of its length, free.

**Rule.** A region is available where the noise of the mean, in units of its vectors, is small
enough (`NOISY`), which is public, and there is a second moment.

``covdp reproduce ours-regions`` measures the coverage on images, with rare other images among them.

**Ellipsoid of a known noise and of a bias of which only a bound is known.** The error of a
mean is b + x, x ~ N(0, V), in the units of the vectors, in which a vector is its place v₀ along
the contrast axis and v₁ off it. Clipping moves the mean by at most the mean length that it cuts off
(`NoisyMoments.bounds`): |b₀| ≤ l, of both ends the longer, and ‖b₁‖ ≤ r, in whichever direction the
clipped records are.

**Law.** With g = u₀/√V₀₀ and h = uᵀV⁻¹u − g², the region is {u : ω·g² + h ≤ q}, ω = 1 if V alone
shapes it. For u = b + x, g and h are independent, g² ~ χ'²₁(b₀²/V₀₀) and
h ~ χ'²_{d−1}(zᵀN⁻¹z), with k = V₁₀/V₀₀, N = V₁₁ − V₁₀V₀₁/V₀₀ and z = b₁ − b₀·k. A noncentral χ²
grows (stochastically) with its noncentrality. So whatever b is, ω·g² + h exceeds q no more often
than ω·χ'²₁(λ₀) + χ'²_{d−1}(λ₁) does,

    λ₀ = l²/V₀₀,    √λ₁ = r/√(least eigenvalue of N) + l·√(kᵀN⁻¹k),

and q is the quantile of that. For the mean of the very records V = σ²·Id: k = 0, all b₁ of one
length have one law, and q is exact for each of the largest b. No direction is worse than others,
as noise and bias have one shape; were q that of the norm of b + x itself, the worst would depend on
the level.

**Noise that is not there.** For the population V counts how single records scatter, N is uneven,
and λ₁ is that of the direction with the least of it. There noise may be added: if x is Gaussian, y
symmetric and independent of x, C convex and P(x + y ∈ C) ≥ ½, then P(x ∈ C) ≥ P(x + y ∈ C). For
f(y) = Φ⁻¹(P(x + y ∈ C)) is concave (Ehrhard 1983, Borell 2003), so that f(±y) ≤ f(0) ± s for an s,
and Φ(f(0) + s) + Φ(f(0) − s) is at most 2Φ(f(0)) where f(0) ≥ 0, and less than 1 elsewhere. So the
eigenvalues of N are raised to a least value, for levels of ½ and more.

**Shape.** ω and that least value are public functions of V, l and r: any hold, and those are taken
whose radius seems least, q being near the mean of the law and two of its standard deviations. Along
the contrast axis the region is wider, ω < 1, where l is large; and never so narrow that the noise
does not count in full, and half of the scatter, V₀₀/ω ≥ (V₀₀ + σ²)/2.
"""

import math
import sys
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import Manifold, Point, chart_of, from_chart, to_chart
from covdp.inference.released import (
    Released,
    chart_jacobian,
    is_offered,
    read_released,
)
from covdp.mean import NoisyMoments, Release
from covdp.mean.noisy_moments import (
    WeighedParts,
    clipping_bound,
    congruent,
    covariance,
    pooled_bounds,
)
from covdp.schema import ReleasedEntry

SHAPES_TRIED = 24
"""Number of weights ω that are tried."""
NODES = 64
"""Nodes of the quadrature over g."""
BRACKET_SLACK = 1e-6
"""Relative error of the bracket of a quantile that rounding may have."""
FARTHEST_SD = 9.0
"""Standard deviations of g beyond which it is taken to be never: once in 10¹⁸."""


class ErrorLaw(NamedTuple):
    """The law of ω·χ'²₁(λ₀) + χ'²_{d−1}(λ₁).

    Attributes
    ----------
    dim : int
        d.
    weight : float
        ω, above 0.
    line, rest : float
        λ₀ and λ₁.
    """

    dim: int
    weight: float = 1.0
    line: float = 0.0
    rest: float = 0.0

    def cdf(self, value: float) -> float:
        """Return how likely it is at most `value`.

        Parameters
        ----------
        value : float
            Value of the variable, 0 or more.
        """
        if self.weight == 1.0:
            return float(_cdf(value, self.dim, self.line + self.rest))
        centre, end = math.sqrt(self.line), math.sqrt(max(value, 0.0) / self.weight)
        low, high = max(-end, centre - FARTHEST_SD), min(end, centre + FARTHEST_SD)
        if low >= high:
            return 0.0
        turned, weights = _nodes()
        half = 0.5 * (high - low)
        g = 0.5 * (low + high) + half * np.sin(turned)
        density = np.exp(-0.5 * (g - centre) ** 2) / math.sqrt(2.0 * math.pi)
        left = np.maximum(value - self.weight * g**2, 0.0)
        if low == -high:  # nodes and their weights are symmetric
            half_of_them = _cdf(left[: NODES // 2], self.dim - 1, self.rest)
            inside = np.concatenate([half_of_them, half_of_them[::-1]])
        else:
            inside = _cdf(left, self.dim - 1, self.rest)
        return float(half * np.sum(weights * density * inside))

    def ppf(self, level: float) -> float:
        """Return its quantile.

        It is between min(ω, 1) and max(ω, 1) times that of g² + h. The cube root of a χ² is nearly
        normal (Wilson and Hilferty 1931), so Φ⁻¹ of its level is nearly linear there.

        Parameters
        ----------
        level : float
            Probability, between 0 and 1.
        """
        equal = _ppf(level, self.dim, self.line + self.rest)
        if self.weight == 1.0:
            return equal
        from scipy.optimize import brentq

        @cache
        def beyond(root: float) -> float:
            reached = min(max(self.cdf(root**3), sys.float_info.min), 1.0 - sys.float_info.epsilon)
            return float(special.ndtri(reached) - special.ndtri(level))

        low, high = sorted((equal, self.weight * equal))
        ends = np.cbrt([low * (1.0 - BRACKET_SLACK), high * (1.0 + BRACKET_SLACK)])
        low_end, high_end = map(beyond, ends)
        if low_end >= 0.0 or high_end <= 0.0:  # a level so close to 1 is beyond double precision
            return float(high)
        return float(brentq(beyond, *ends, rtol=1e-12)) ** 3


def _cdf(value: ArrayLike, dim: int, shift: float) -> FloatArray:
    """Return how likely a χ'² with noncentrality `shift` is at most each value."""
    return np.asarray(special.chndtr(value, dim, shift) if shift else special.chdtr(dim, value))


def _ppf(level: float, dim: int, shift: float) -> float:
    """Return the quantile of a χ'² with noncentrality `shift`."""
    central = 2.0 * special.gammaincinv(dim / 2.0, level)
    return float(special.chndtrix(level, dim, shift) if shift else central)


@cache
def _nodes() -> tuple[FloatArray, FloatArray]:
    """Return angles between −π/2 and π/2, and weights of the sines there: ends may be roots."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    turned = 0.5 * math.pi * nodes
    return turned, 0.5 * math.pi * weights * np.cos(turned)


def ellipsoid(
    observed: NoisyMoments, scatter: FloatArray | None, level: float
) -> tuple[FloatArray, ErrorLaw]:
    """Return W and the law of uᵀW⁻¹u, u the error of the mean, at worst.

    Parameters
    ----------
    observed : NoisyMoments
        Released numbers: axes, noise, and the bounds l and r.
    scatter : array, shape (d, d), or None
        Covariance of the mean of a sample, in coordinates at the base, for the population's mean;
        None for that of the very records.
    level : float
        Level at which a quantile is to be taken.
    """
    d, lines, axes = len(observed.axes), observed.lines, observed.axes
    noise, back = observed.sigma**2 * np.eye(d), np.linalg.inv(axes)
    if observed.newton is not None:
        noise = noise @ (turned := observed.steps @ back).T @ turned
    total = noise
    if scatter is not None:
        total = total + back.T @ scatter @ back
    along, off = observed.bounds
    first = total[:lines, :lines]
    chart_jacobian = np.linalg.solve(first, total[:lines, lines:]) if lines else total[:0]
    values, vectors = np.linalg.eigh(total[lines:, lines:] - total[lines:, :lines] @ chart_jacobian)
    values = np.maximum(
        values, noise.diagonal()[lines:].min()
    )  # but for rounding they are as large
    least = values if level >= 0.5 else values[:1]
    raised = np.maximum(values, least[:, np.newaxis])
    bent = np.sum((chart_jacobian @ vectors)[:, np.newaxis] ** 2 / raised, axis=-1).sum(axis=0)
    rest = (off / np.sqrt(raised[:, 0]) + along * np.sqrt(bent)) ** 2
    line = along**2 / float(first[0, 0]) if lines else 0.0
    most = 2.0 * float(first[0, 0] / (first[0, 0] + noise[0, 0])) if lines else 1.0
    weights = np.geomspace(1.0 / (1.0 + line), most, SHAPES_TRIED if lines else 1)
    squares = axes @ axes.T
    turned = vectors.T @ squares[lines:, lines:] @ vectors
    added = (raised - values) @ np.diag(turned)
    column = total[:, :lines]
    narrower = np.trace(column.T @ squares @ column) / float(first[0, 0]) if lines else 0.0
    trace = np.sum(total * squares) + added[:, np.newaxis] - (1.0 - 1.0 / weights) * narrower
    middle = weights * (1.0 + line) + (d - 1 + rest)[:, np.newaxis]
    spread = 2.0 * weights**2 * (1.0 + 2.0 * line) + 2.0 * (d - 1 + 2.0 * rest)[:, np.newaxis]
    i, j = np.unravel_index(np.argmin((middle + 2.0 * np.sqrt(spread)) * trace), trace.shape)
    shape = total.copy()
    shape[lines:, lines:] += (vectors * (raised[i] - values)) @ vectors.T
    if lines:
        shape -= (1.0 - 1.0 / weights[j]) * column @ column.T / first[0, 0]
    law = ErrorLaw(d, float(weights[j]), float(line), float(rest[i]))
    return np.asarray(axes.T @ shape @ axes), law


@dataclass(frozen=True, eq=False)
class ConfidenceRegion:
    """A confidence region for a mean.

    Attributes
    ----------
    manifold : Manifold
        Manifold of the mean.
    offered : bool
        True if the rule for offering a region is met; if it is not, the region may be too small.
    place : array, shape (*space.point_shape)
        The released mean, in the chart of a flat manifold.
    covariance : array, shape (d, d)
        W, in coordinates at the place (``space.log``).
    level : float
        Confidence.
    law : ErrorLaw
        Law of uᵀW⁻¹u at worst, where u is the error of the mean.
    clipping : float
        Largest distance by which clipping may have moved the mean. The region includes it, although
        `radius`, an average over directions, may be smaller.
    noise : array, shape (d, d), or None
        Covariance of noise alone, and of the chance of a sample for a population, at the place;
        None where it is not stated.
    moves : tuple of array, shape (m, d)
        Largest moves of the mean by clipping, as `clipping_moves` has them, at the place.
    """

    manifold: Manifold
    offered: bool
    place: NDArray[np.float64] = field(repr=False)
    covariance: FloatArray = field(repr=False)
    level: float
    law: ErrorLaw = field(repr=False)
    clipping: float
    noise: FloatArray | None = field(default=None, repr=False)
    moves: tuple[FloatArray, ...] = field(default=(), repr=False)

    @property
    def space(self) -> Manifold:
        """Manifold it is in: the chart of a flat one, as matrices may not hold its points."""
        return chart_of(self.manifold)

    @property
    def centre(self) -> NDArray[np.float64]:
        """The released mean as a point of the manifold, as near as doubles hold it."""
        return np.asarray(from_chart(self.manifold, self.place))

    @cached_property
    def quantile(self) -> float:
        """The quantile q of the law at the level."""
        return self.law.ppf(self.level)

    @property
    def radius(self) -> float:
        """Root mean square of the ellipsoid's half-axes: √(q·tr W/d)."""
        return math.sqrt(self.quantile * float(np.trace(self.covariance)) / self.manifold.dim)

    @property
    def noise_radius(self) -> float:
        """Radius of the region of `noise` alone; NaN where that is not stated."""
        if self.noise is None:
            return math.nan
        dim = self.manifold.dim
        return math.sqrt(ErrorLaw(dim).ppf(self.level) * float(np.trace(self.noise)) / dim)

    def contains(self, points: Point) -> NDArray[np.bool_]:
        """Return whether points, (..., *point_shape), are in the region, (...).

        Parameters
        ----------
        points : array, shape (..., *point_shape)
            Points of the manifold, such as `release.point`; no coordinates of its chart.
        """
        return np.asarray(self._lengths(points) <= self.quantile)

    def share_of_way(self, points: Point) -> FloatArray:
        """Return how much of the way to points, (..., *point_shape), is in the region, (...).

        On the way to log(centre, x) = u it ends at t·u with t²·uᵀW⁻¹u = q: t = √(q/uᵀW⁻¹u), which
        is 1 at least where `contains` holds. It is not the radius over the distance, as half-axes
        may be several times as long as their root mean square.

        Parameters
        ----------
        points : array, shape (..., *point_shape)
            Points of the manifold.
        """
        return np.asarray(np.sqrt(self.quantile / self._lengths(points)))

    def reach(self, points: Point) -> FloatArray:
        """Return at which level points, (..., *point_shape), would be on its edge, (...).

        Parameters
        ----------
        points : array, shape (..., *point_shape)
            Points of the manifold.
        """
        return np.asarray(np.vectorize(self.law.cdf, otypes=[float])(self._lengths(points)))

    def _lengths(self, points: Point) -> FloatArray:
        places = self.space.log(self.place, to_chart(self.manifold, points))
        solved = np.linalg.solve(self.covariance, places[..., np.newaxis])[..., 0]
        return np.asarray(np.sum(places * solved, axis=-1))


def clipping_moves(parts: WeighedParts) -> tuple[FloatArray, ...]:
    """Return the largest moves of a mean by clipping, as matrices A: a bias is Σ Aᵀ·v, ‖v‖ ≤ 1.

    So a function of the mean, of gradient g, moves by at most Σ ‖A·g‖. The first is along the
    contrast axis, the second off it.

    Parameters
    ----------
    parts : sequence of (float, NoisyMoments)
        Parts of the mean, with the share of each.

    Returns
    -------
    tuple of array, shape (m, d)
        Rows in the coordinates of the first part.
    """
    along, off = pooled_bounds(parts)
    first = parts[0][1]
    lines, others = first.axes[: first.lines], first.axes[first.lines :]
    return along / first.length * lines, off / first.unit_length * others


def region(
    released: Released,
    level: float = 0.95,
    of: Literal["sample", "population"] = "sample",
) -> ConfidenceRegion:
    """Return where the mean of a released class is, with confidence `level`.

    Parameters
    ----------
    released : Released
        Release that `private_mean` returned first, or an entry of ``classes`` in the document of a
        release or of a night (of a night: the mean of all records of the stream so far).
    level : float
        Confidence, between 0 and 1.
    of : {"sample", "population"}
        Mean of the records of the release; or of the population that each was drawn from.

    Returns
    -------
    ConfidenceRegion
        Region around the released mean.

    Raises
    ------
    ConfigError
        If `level` is not in (0, 1), `of` is unknown, or the release has no adaptive mean.
    """
    check_level(level)
    if of not in ("sample", "population"):
        raise ConfigError(f'a region is of the "sample" or of the "population", found {of!r}')
    entry = read_released(released)
    manifold, space = entry.manifold, entry.space
    if not isinstance(entry, Release | ReleasedEntry):
        shape, law = entry.shape_of(of), ErrorLaw(manifold.dim)
        offered, clipping = entry.offered, entry.clipping
        noise = entry.noise + shape - entry.shape_of("sample")
        moves = clipping_moves(entry.weighed)
    else:
        moments, scatter = entry.noisy_moments, None
        if of == "population" and moments.moment is not None:
            scatter = covariance(moments) / moments.n
        offset = space.log(moments.base, entry.place)
        jacobian = chart_jacobian(space, moments.base, offset, entry.place)
        shape, law = ellipsoid(moments, scatter, level)
        shape = jacobian.T @ shape @ jacobian
        noise = congruent(moments.noise + (0.0 if scatter is None else scatter), jacobian)
        moves = tuple(part @ jacobian for part in clipping_moves([(1.0, moments)]))
        offered, clipping = is_offered(moments), clipping_bound([(1.0, moments)])
    return ConfidenceRegion(
        manifold, offered, entry.place, shape, level, law, clipping, noise, moves
    )


def check_level(level: float) -> None:
    """Raise `ConfigError` unless a confidence is between 0 and 1.

    Parameters
    ----------
    level : float
        Confidence.
    """
    if not 0.0 < level < 1.0:
        raise ConfigError(f"a level must be between 0 and 1, found {level:g}; 0.95 is usual")
