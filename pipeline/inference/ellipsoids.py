"""The ellipsoid that holds an error of known noise and of a bias of which only a bound is known.

The error of a mean is b + x, x ~ N(0, V), in the units of the vectors, in which a vector is its
place v₀ along the line and v₁ off it. Clipping moves the mean by at most the mean length that it
cuts off (`Observed.bounds`): |b₀| ≤ l, of both ends the longer, and ‖b₁‖ ≤ r, whichever way the
records lie that are clipped.

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
the line the region is wider, ω < 1, where l is large; and never so narrow that the noise does not
count in full, and half of the scatter, V₀₀/ω ≥ (V₀₀ + σ²)/2.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.mean import Observed

SHAPES = 24
"""How many ω are tried."""
NODES = 64
"""Of the quadrature over g."""
FARTHEST = 9.0
"""Standard deviations of g beyond which it is taken to be never: once in 10¹⁸."""


class Law(NamedTuple):
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
        """Return how likely it is at most `value`."""
        from scipy.stats import ncx2

        if self.weight == 1.0:
            return float(ncx2.cdf(value, self.dim, self.line + self.rest))
        centre, end = math.sqrt(self.line), math.sqrt(max(value, 0.0) / self.weight)
        low, high = max(-end, centre - FARTHEST), min(end, centre + FARTHEST)
        if low >= high:
            return 0.0
        turned, weights = _nodes()
        half = 0.5 * (high - low)
        g = 0.5 * (low + high) + half * np.sin(turned)
        density = np.exp(-0.5 * (g - centre) ** 2) / math.sqrt(2.0 * math.pi)
        left = np.maximum(value - self.weight * g**2, 0.0)
        inside = ncx2.cdf(left, self.dim - 1, self.rest)
        return float(half * np.sum(weights * density * inside))

    def ppf(self, level: float) -> float:
        """Return its quantile."""
        from scipy.optimize import brentq
        from scipy.stats import ncx2

        most = max(self.weight, 1.0) * float(ncx2.ppf(level, self.dim, self.line + self.rest))
        if self.cdf(most) <= level:  # max(ω, 1)·(g² + h) is never less; equal for ω = 1
            return most
        return float(brentq(lambda value: self.cdf(value) - level, 0.0, most, rtol=1e-12))


@cache
def _nodes() -> tuple[FloatArray, FloatArray]:
    """Return angles between −π/2 and π/2, and weights of the sines there: ends may be roots."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    turned = 0.5 * math.pi * nodes
    return turned, 0.5 * math.pi * weights * np.cos(turned)


def ellipsoid(
    observed: Observed, scatter: FloatArray | None, level: float
) -> tuple[FloatArray, Law]:
    """Return W and the law of uᵀW⁻¹u, u the error of the mean, at worst.

    Parameters
    ----------
    scatter : array, shape (d, d), or None
        Covariance of the mean of a sample, in coordinates at the base, for the population's mean;
        None for that of the very records.
    level : float
        At which a quantile is to be taken.
    """
    d, lines, axes = len(observed.axes), observed.lines, observed.axes
    own = (observed.sigma * observed.steps) ** 2
    whole = np.diag(own)
    if scatter is not None:
        back = np.linalg.inv(axes)
        whole = whole + back.T @ scatter @ back
    along, off = observed.bounds
    first = whole[:lines, :lines]
    slope = np.linalg.solve(first, whole[:lines, lines:]) if lines else whole[:0]
    values, vectors = np.linalg.eigh(whole[lines:, lines:] - whole[lines:, :lines] @ slope)
    least = values if scatter is not None and level >= 0.5 else values[:1]
    raised = np.maximum(values, least[:, np.newaxis])
    bent = np.sum((slope @ vectors)[:, np.newaxis] ** 2 / raised, axis=-1).sum(axis=0)
    rest = (off / np.sqrt(raised[:, 0]) + along * np.sqrt(bent)) ** 2
    line = along**2 / float(first[0, 0]) if lines else 0.0
    most = 2.0 * float(first[0, 0] / (first[0, 0] + own[0])) if lines else 1.0
    weights = np.geomspace(1.0 / (1.0 + line), most, SHAPES if lines else 1)
    squares = axes @ axes.T
    turned = vectors.T @ squares[lines:, lines:] @ vectors
    added = (raised - values) @ np.diag(turned)
    column = whole[:, :lines]
    narrower = np.trace(column.T @ squares @ column) / float(first[0, 0]) if lines else 0.0
    trace = np.sum(whole * squares) + added[:, np.newaxis] - (1.0 - 1.0 / weights) * narrower
    middle = weights * (1.0 + line) + (d - 1 + rest)[:, np.newaxis]
    spread = 2.0 * weights**2 * (1.0 + 2.0 * line) + 2.0 * (d - 1 + 2.0 * rest)[:, np.newaxis]
    i, j = np.unravel_index(np.argmin((middle + 2.0 * np.sqrt(spread)) * trace), trace.shape)
    shape = whole.copy()
    shape[lines:, lines:] += (vectors * (raised[i] - values)) @ vectors.T
    if lines:
        shape -= (1.0 - 1.0 / weights[j]) * column @ column.T / first[0, 0]
    law = Law(d, float(weights[j]), float(line), float(rest[i]))
    return np.asarray(axes.T @ shape @ axes), law
