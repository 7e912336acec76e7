"""Exact one-dimensional laws: how far a Riemannian Laplace draw lies from its centre.

On a space that looks the same in every direction (flat, hyperbolic, sphere, complex projective)
the density ∝ exp(−dist(y, c)/σ) is a uniform direction times a radius with density

    f(ρ) ∝ A(ρ)·exp(−ρ/σ),   A(ρ) the area of the geodesic sphere of radius ρ (`geometry.area`):

    flat         ρ^{d−1}                 Gamma(d, σ)
    hyperbolic   sinh^{d−1} ρ            ½·ln(1 + G/B), G ~ Gamma(d), B ~ Gamma((1/σ − (d−1))/2)
    sphere       sin^{d−1} ρ             on [0, π]
    kendall      sin^{d−1} ρ · cos ρ     on [0, π/2]

The last two are log-concave and drawn by transformed density rejection (UNU.RAN, in SciPy), which
is exact; so is the envelope of the affine-invariant sampler in `spd_laplace`, the next file.

Hyperbolic: put z = e^{−2ρ}. Then sinh^{d−1} ρ·e^{−ρ/σ} dρ ∝ z^{b−1} (1 − z)^{d−1} dz with
b = (1/σ − (d−1))/2, so z ~ Beta(b, d), which exists iff σ < 1/(d−1).

Idealised numerics: the laws are exact for real numbers; floats are ignored.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import integrate, optimize, special

from pipeline.arrays import FloatArray
from pipeline.geometry.area import Area, FlatArea
from pipeline.geometry.hyperbolic import HyperbolicArea


def log_sinhc(x: FloatArray) -> FloatArray:
    """Return g(x) = ln(sinh(x)/x) for x ≥ 0, elementwise, without overflow."""
    safe = np.maximum(x, 1e-3)
    large = safe + np.log(-np.expm1(-2.0 * safe) / (2.0 * safe))
    return np.where(x < 1e-3, x * x / 6.0, large)


def ball_bound(k: int, radius: FloatArray) -> FloatArray:
    """Return ψ(ρ) = P·g(ρ/a), the bound of ln J on Sym(k) of `spd_laplace`."""
    pairs, a = k * (k - 1) / 2, math.sqrt(2.0 * max(k - 1, 1))
    return pairs * log_sinhc(radius / a)


@dataclass(frozen=True)
class SpdEnvelope:
    """ρ^{d−1}·e^{ψ(ρ)}: the envelope of `spd_laplace` on Sym(k), d = k(k + 1)/2."""

    dim: int
    end: ClassVar[float] = math.inf

    @property
    def k(self) -> int:
        """Order of the matrices."""
        return (math.isqrt(8 * self.dim + 1) - 1) // 2

    @property
    def growth(self) -> float:
        """P/a."""
        return self.k * (self.k - 1) / 2 / math.sqrt(2.0 * max(self.k - 1, 1))

    def log_area(self, radius: float) -> float:
        """Return (d − 1)·ln ρ + ψ(ρ)."""
        return (self.dim - 1) * math.log(radius) + float(ball_bound(self.k, np.asarray(radius)))

    def slope(self, radius: float) -> float:
        """Return its derivative."""
        x = radius / math.sqrt(2.0 * max(self.k - 1, 1))
        langevin = x / 3.0 if x < 1e-3 else 1.0 / math.tanh(x) - 1.0 / x
        return (self.dim - 1) / radius + self.growth * langevin


@dataclass(frozen=True)
class RadialLaw:
    """The law with density f(ρ) ∝ A(ρ)·exp(−ρ/σ) on [0, end].

    A is the area of geodesic spheres, or an envelope; σ > 0. The space may end before `end`.
    """

    area: Area
    sigma: float
    end: float = math.inf

    @property
    def dim(self) -> int:
        """Dimension d of the manifold."""
        return self.area.dim

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` independent radii, shape (size,)."""
        closed = CLOSED.get(type(self.area)) if math.isinf(self.end) else None
        if closed is not None:
            return closed.draw(self.dim, self.sigma, size, rng)
        generator, unit = _generator(self)
        with _LOCK:
            radii: FloatArray = unit * generator.rvs(size, random_state=rng)
        return radii

    def mean(self) -> float:
        """Return E ρ: σd (flat), ½(ψ(b + d) − ψ(b)) (hyperbolic, ψ digamma), else a quadrature."""
        closed = CLOSED.get(type(self.area)) if math.isinf(self.end) else None
        if closed is not None:
            return closed.mean(self.dim, self.sigma)
        return math.exp(self.log_integral(1) - self.log_integral(0))

    def log_density(self, radius: float) -> float:
        """Return ln f(ρ) up to a constant, 0 < ρ < end."""
        return self.area.log_area(radius) - radius / self.sigma

    def slope(self, radius: float) -> float:
        """Return the derivative of ln f, which falls: f is log-concave."""
        return self.area.slope(radius) - 1.0 / self.sigma

    def support(self) -> float:
        """Return the largest radius that can be drawn."""
        return min(self.end, self.area.end)

    def peak(self) -> float:
        """Return the radius where f is largest."""
        end = self.support()
        low = 1e-9 * min(self.sigma, end)
        high = self.sigma if math.isinf(end) else end * (1.0 - 1e-12)
        while math.isinf(end) and self.slope(high) > 0.0:
            high *= 2.0
        if self.slope(low) <= 0.0:
            return low
        if self.slope(high) >= 0.0:
            return high
        return float(optimize.brentq(self.slope, low, high, xtol=1e-12 * low, maxiter=500))

    def log_integral(self, power: int = 0) -> float:
        """Return ln ∫ ρ^power f(ρ) dρ, by adaptive quadrature around the peak.

        The upper part stops where ln f is 60 below its peak; as ln f is concave, what lies beyond
        is less than e^−59 of the whole.
        """
        peak, end = self.peak(), self.support()
        top, width = self.log_density(peak), peak
        while peak + width < end and self.log_density(peak + width) > top - 60.0:
            width *= 2.0

        def integrand(radius: float) -> float:
            return float(radius**power * math.exp(self.log_density(radius) - top))

        cuts = [0.0, peak, min(peak + width, end * (1.0 - 1e-15))]
        parts = [integrate.quad(integrand, a, b, limit=400)[0] for a, b in pairwise(cuts)]
        return top + math.log(sum(parts))


class _Scaled:
    """The density of ρ/unit with maximum 1, in the form UNU.RAN asks for."""

    def __init__(self, law: RadialLaw, unit: float) -> None:
        self.law, self.unit, self.top = law, unit, law.log_density(law.peak())

    def pdf(self, x: float) -> float:
        radius = x * self.unit
        if not 0.0 < radius < self.law.support():
            return 0.0
        return math.exp(self.law.log_density(radius) - self.top)

    def dpdf(self, x: float) -> float:
        density = self.pdf(x)
        return density * self.law.slope(x * self.unit) * self.unit if density > 0.0 else 0.0


_LOCK = threading.Lock()
"""A UNU.RAN generator is shared by all draws of its law; two threads would mix their streams."""


@lru_cache(maxsize=256)
def _generator(law: RadialLaw) -> tuple[Any, float]:
    """Set up transformed density rejection once per law, in units near its peak."""
    from scipy.stats.sampling import TransformedDensityRejection  # a third of a second to import

    unit = min(max(law.peak(), law.sigma), law.support())
    end = law.support() / unit
    density = _Scaled(law, unit)
    return TransformedDensityRejection(density, center=min(1.0, end / 2), domain=(0.0, end)), unit


def _hyperbolic_rate(dim: int, sigma: float) -> float:
    return (1.0 / sigma - (dim - 1)) / 2.0


def _hyperbolic_radius(dim: int, sigma: float, size: int, rng: np.random.Generator) -> FloatArray:
    """Return ρ = ½·ln(1 + G/B), with ln B = ln Gamma(b + 1) + ln(U)/b so that B cannot vanish."""
    b = _hyperbolic_rate(dim, sigma)
    log_g = np.log(rng.standard_gamma(dim, size))
    log_b = np.log(rng.standard_gamma(b + 1.0, size)) - rng.standard_exponential(size) / b
    radii: FloatArray = 0.5 * np.logaddexp(0.0, log_g - log_b)
    return radii


def _flat_radius(dim: int, sigma: float, size: int, rng: np.random.Generator) -> FloatArray:
    return sigma * rng.standard_gamma(dim, size)


def _flat_mean(dim: int, sigma: float) -> float:
    return sigma * dim


def _hyperbolic_mean(dim: int, sigma: float) -> float:
    b = _hyperbolic_rate(dim, sigma)
    return float(special.digamma(b + dim) - special.digamma(b)) / 2.0


class ClosedForm(NamedTuple):
    """A law that needs no rejection: draws, and the mean."""

    draw: Callable[[int, float, int, np.random.Generator], FloatArray]
    mean: Callable[[int, float], float]


CLOSED: dict[type, ClosedForm] = {
    FlatArea: ClosedForm(_flat_radius, _flat_mean),
    HyperbolicArea: ClosedForm(_hyperbolic_radius, _hyperbolic_mean),
}
"""Areas whose law has a closed form; all others are drawn by rejection, which is exact too."""


def directions(size: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Return `size` independent uniform points of the unit sphere of R^dim, shape (size, dim)."""
    normal = rng.standard_normal((size, dim))
    unit: FloatArray = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    return unit
