"""Exact laws of a Riemannian Laplace draw: how far it is from its centre, and in which direction.

On a space that looks the same in every direction (flat, hyperbolic, sphere, complex projective)
the density ∝ exp(−dist(y, c)/σ) is a uniform direction times a radius with density

    f(ρ) ∝ A(ρ)·exp(−ρ/σ),   A(ρ) the area of the geodesic sphere of radius ρ (`SphereArea`):

    flat         ρ^{d−1}                 Gamma(d, σ)
    hyperbolic   sinh^{d−1} ρ            ½·ln(1 + G/B), G ~ Gamma(d), B ~ Gamma((1/σ − (d−1))/2)
    sphere       sin^{d−1} ρ             on [0, π]
    kendall      sin^{d−1} ρ · cos ρ     on [0, π/2]

The last two are log-concave and drawn by transformed density rejection (UNU.RAN, in SciPy), which
is exact; so is the envelope of the affine-invariant sampler below.

Hyperbolic: put z = e^{−2ρ}. Then sinh^{d−1} ρ·e^{−ρ/σ} dρ ∝ z^{b−1} (1 − z)^{d−1} dz with
b = (1/σ − (d−1))/2, so z ~ Beta(b, d), which exists iff σ < 1/(d−1).

Idealised numerics: the laws are exact for real numbers; floats are ignored.

**Affine-invariant SPD(k)** is drawn by rejection in batches (`accept`), exactly: no Markov chain.
In the tangent space at its centre (which homogeneity lets us take to be Id) the density is

    f(S) ∝ e^{−‖S‖/σ}·J(S),   J(S) = Π_{i<j} sinh(x_ij)/x_ij,   x_ij = |λ_i − λ_j|/2,

λ the eigenvalues of S ∈ Sym(k) ≅ R^d, d = k(k+1)/2. Write P = k(k−1)/2 for the number of pairs,
g(x) = ln(sinh x/x), a = √(2(k−1)), w_i = (k + 1 − 2i)/2 and c_k = ‖w‖ = √(k(k² − 1)/12).

**Existence.** For λ_1 ≥ … ≥ λ_k, Σ_{i<j} x_ij = ⟨w, λ⟩ ≤ c_k‖λ‖, and g(x) ≤ x, so J ≤ e^{c_k‖S‖}.
The integral is finite for σ < 1/c_k. Along λ ∥ w the integrand is e^{−ρ(1/σ − c_k)} up to a power
of ρ, and with the width of that ridge the radial integrand at σ = 1/c_k grows like ρ^{(k−1)/2}: it
is infinite for σ ≥ 1/c_k.

**Ball envelope.** (i) g is concave in y = x²: coth x = 1/x + Σ_n 2x/(x² + n²π²) gives
dg/dy = (coth x − 1/x)/(2x) = Σ_n 1/(y + n²π²), which falls. (ii) Σ_{i<j}(λ_i − λ_j)² =
k‖λ‖² − (Σλ_i)² ≤ k‖S‖², so the mean of x_ij² over pairs is at most kρ²/(4P) = (ρ/a)². (iii) By
Jensen, and as g grows, ln J(ρu) = P·mean g(x_ij) ≤ ψ(ρ) := P·g(ρ/a) for every unit vector u. (iv)
The radius density ∝ ρ^{d−1}·e^{−ρ/σ + ψ(ρ)} is strictly log-concave: g″(x) = 1/x² − 1/sinh²x ≤
1/x², so ψ″ ≤ P/ρ², and d − 1 − P = k − 1 > 0. So: radius from that law, direction uniform, accept
with probability exp(ln J(ρu) − ψ(ρ)). It needs σ < a/P.

**Chamber envelope.** In eigenvalues (the density of S integrated over eigenvectors) the law is

    f(λ) ∝ Π_{i<j} 2·sinh(x_ij)·e^{−‖λ‖/σ}
         = e^{⟨w,λ⟩ − ‖λ‖/σ}·Π_{i<j}(1 − e^{−2x_ij}),   λ_1 > … > λ_k,

with Haar eigenvectors. The first factor on all of R^k is a normal law of random variance:
T ~ Gamma((k+1)/2, rate (σ^{−2} − c_k²)/2), λ = T·w + √T·N(0, Id), because
e^{−s‖λ‖} ∝ ∫ t^{−1/2}·e^{−s²t/2}·e^{−‖λ‖²/2t} dt. So: draw it, refuse what is not in descending
order, accept with probability Π(1 − e^{−2x_ij}). It works for every σ < 1/c_k, and better the
closer σ is to the limit.

**Moments.** The same mixture of normal laws gives E ρ^p exactly. Ordered, Π_{i<j} 2·sinh(x_ij) is
Σ_τ sgn(τ)·e^{⟨w_τ,λ⟩} over permutations (Weyl), and de Bruijn's formula integrates each normal law
of variance t over the chamber: up to a constant, t has the density

    h(t) ∝ t^{(k−1)/2}·e^{−(σ^{−2} − c_k²)t/2}·Pf[erf((w_i − w_j)·√t/2)],

the Pfaffian bordered with ones for odd k. With s = 1/σ, derivatives of ∫e^{−sρ} in s are
E ρ = s·E t − 1/s and E ρ² = s²·E t² − 3·E t.

Both envelopes have known mass; the smaller one is used. Acceptance of the ball envelope: 0.98
(k = 5, σ = 0.075), 0.82 (k = 3, σ = 0.375); of the chamber envelope: 0.54 (k = 5, σ = 0.3). Where
the two are equal, near σ = 0.83/c_k, acceptance is lowest: 0.2, 0.06, 0.01, 1.5e-3, 1e-4, 4e-6 for
k = 4 to 9. For k ≥ 10 that middle is out of reach, and `accept` says so.

References: Hajri, Ilea, Said, Bombrun and Berthoumieu, "Riemannian Laplace distribution on the
space of symmetric positive definite matrices" (2016), for the law; the samplers are ours.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from scipy import special

from covdp.arrays import FloatArray
from covdp.errors import ConvergenceError
from covdp.geometry.linalg import unvecd, vecd
from covdp.geometry.manifold import SphereArea


def log_sinhc(x: FloatArray) -> FloatArray:
    """Return g(x) = ln(sinh(x)/x) for x ≥ 0, elementwise, without overflow.

    Parameters
    ----------
    x : array, shape (...)
        Numbers x ≥ 0.
    """
    safe = np.maximum(x, 1e-3)
    large = safe + np.log(-np.expm1(-2.0 * safe) / (2.0 * safe))
    return np.where(x < 1e-3, x * x / 6.0, large)


def ball_bound(k: int, radius: FloatArray) -> FloatArray:
    """Return ψ(ρ) = P·g(ρ/a), the bound of ln J on Sym(k).

    Parameters
    ----------
    k : int
        Number of rows of the matrices.
    radius : array, shape (...)
        Distances ρ from the centre.
    """
    pairs, a = k * (k - 1) / 2, math.sqrt(2.0 * max(k - 1, 1))
    return pairs * log_sinhc(radius / a)


@dataclass(frozen=True)
class SpdEnvelope:
    """ρ^{d−1}·e^{ψ(ρ)}: the ball envelope on Sym(k), d = k(k + 1)/2.

    Attributes
    ----------
    dim : int
        Dimension d of the matrices.
    """

    dim: int
    end: ClassVar[float] = math.inf
    curvature: ClassVar[None] = None

    @property
    def k(self) -> int:
        """Order of the matrices."""
        return (math.isqrt(8 * self.dim + 1) - 1) // 2

    def log_area(self, radius: float) -> float:
        """Return (d − 1)·ln ρ + ψ(ρ).

        Parameters
        ----------
        radius : float
            Distance ρ from the centre.
        """
        return (self.dim - 1) * math.log(radius) + float(ball_bound(self.k, np.asarray(radius)))

    def slope(self, radius: float) -> float:
        """Return its derivative.

        Parameters
        ----------
        radius : float
            Distance ρ from the centre.
        """
        pairs, a = self.k * (self.k - 1) / 2, math.sqrt(2.0 * max(self.k - 1, 1))
        x = radius / a
        langevin = x / 3.0 if x < 1e-3 else 1.0 / math.tanh(x) - 1.0 / x
        return (self.dim - 1) / radius + pairs / a * langevin


@dataclass(frozen=True)
class RadialLaw:
    """The law with density f(ρ) ∝ A(ρ)·exp(−ρ/σ) on [0, end].

    A is the area of geodesic spheres, or an envelope; σ > 0. The space may end before `end`.

    Attributes
    ----------
    area : SphereArea or SpdEnvelope
        Area of the geodesic spheres.
    sigma : float
        Scale σ > 0 of the law.
    end : float
        Largest distance.
    """

    area: SphereArea | SpdEnvelope
    sigma: float
    end: float = math.inf

    @property
    def closed(self) -> float | None:
        """Curvature 0 or −1 of a space whose law has a closed form; others are drawn by rejection.

        That is exact too.
        """
        return self.area.curvature if math.isinf(self.end) else None

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` independent radii, shape (size,).

        Parameters
        ----------
        size : int
            Number of independent draws.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        if self.closed == 0.0:
            return self.sigma * rng.standard_gamma(self.area.dim, size)
        if self.closed == -1.0:
            return _hyperbolic_radius(self.area.dim, self.sigma, size, rng)
        generator, unit = _generator(self)
        with _GENERATOR_LOCK:
            radii: FloatArray = unit * generator.rvs(size, random_state=rng)
        return radii

    def mean(self, power: int = 1) -> float:
        """Return E ρ^p: a moment of σ·Gamma(d) (flat), else of z = e^{−2ρ}, or by quadrature.

        Hyperbolic, −ln z of z ~ Beta(b, d) has the cumulants ψ(b + d) − ψ(b), ψ digamma, and
        ψ′(b) − ψ′(b + d): those of 2ρ.

        Parameters
        ----------
        power : int
            Power p of the distance.
        """
        if self.closed == 0.0:
            return self.sigma**power * math.prod(self.area.dim + step for step in range(power))
        if self.closed == -1.0 and power <= 2:
            d, b = self.area.dim, _hyperbolic_rate(self.area.dim, self.sigma)
            mean = float(special.digamma(b + d) - special.digamma(b)) / 2.0
            spread = float(special.polygamma(1, b) - special.polygamma(1, b + d)) / 4.0
            return mean if power == 1 else mean**2 + spread
        return math.exp(self.log_integral(power) - self.log_integral(0))

    def log_density(self, radius: float) -> float:
        """Return ln f(ρ) up to a constant, 0 < ρ < end.

        Parameters
        ----------
        radius : float
            Distance ρ from the centre.
        """
        return self.area.log_area(radius) - radius / self.sigma

    def slope(self, radius: float) -> float:
        """Return the derivative of ln f, which falls: f is log-concave.

        Parameters
        ----------
        radius : float
            Distance ρ from the centre.
        """
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
        from scipy.optimize import brentq

        return float(brentq(self.slope, low, high, xtol=1e-12 * low, maxiter=500))

    def log_integral(self, power: int = 0) -> float:
        """Return ln ∫ ρ^power f(ρ) dρ, by adaptive quadrature around the peak.

        The upper part stops where ln f is 60 below its peak; as ln f is concave, what is beyond
        is less than e^−59 of the whole.

        Parameters
        ----------
        power : int
            Power of ρ under the integral.
        """
        from scipy.integrate import quad

        peak, end = self.peak(), self.support()
        top, width = self.log_density(peak), peak
        while peak + width < end and self.log_density(peak + width) > top - 60.0:
            width *= 2.0

        def integrand(radius: float) -> float:
            return float(radius**power * math.exp(self.log_density(radius) - top))

        cuts = [0.0, peak, min(peak + width, end * (1.0 - 1e-15))]
        parts = [quad(integrand, a, b, limit=400)[0] for a, b in pairwise(cuts)]
        return top + math.log(sum(parts))


_GENERATOR_LOCK = threading.Lock()
"""A UNU.RAN generator is shared by all draws of its law; two threads would mix their streams."""


@lru_cache(maxsize=256)
def _generator(law: RadialLaw) -> tuple[Any, float]:
    """Set up transformed density rejection once per law, in units near its peak."""
    from scipy.stats.sampling import TransformedDensityRejection  # a third of a second to import

    unit = min(max(law.peak(), law.sigma), law.support())
    end, top = law.support() / unit, law.log_density(law.peak())

    def pdf(x: float) -> float:
        inside = 0.0 < x * unit < law.support()
        return math.exp(law.log_density(x * unit) - top) if inside else 0.0

    def dpdf(x: float) -> float:
        density = pdf(x)
        return density * law.slope(x * unit) * unit if density > 0.0 else 0.0

    scaled = SimpleNamespace(pdf=pdf, dpdf=dpdf)  # of ρ/unit, with maximum 1, as UNU.RAN asks
    return TransformedDensityRejection(scaled, center=min(1.0, end / 2), domain=(0.0, end)), unit


def _hyperbolic_rate(dim: int, sigma: float) -> float:
    return (1.0 / sigma - (dim - 1)) / 2.0


def _hyperbolic_radius(dim: int, sigma: float, size: int, rng: np.random.Generator) -> FloatArray:
    """Return ρ = ½·ln(1 + G/B), with ln B = ln Gamma(b + 1) + ln(U)/b so that B cannot vanish."""
    b = _hyperbolic_rate(dim, sigma)
    log_g = np.log(rng.standard_gamma(dim, size))
    log_b = np.log(rng.standard_gamma(b + 1.0, size)) - rng.standard_exponential(size) / b
    radii: FloatArray = 0.5 * np.logaddexp(0.0, log_g - log_b)
    return radii


def directions(size: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Return `size` independent uniform points of the unit sphere of R^dim, shape (size, dim).

    Parameters
    ----------
    size : int
        Number of independent draws.
    dim : int
        Dimension of the space.
    rng : numpy.random.Generator
        Generator of the draws.
    """
    normal = rng.standard_normal((size, dim))
    unit: FloatArray = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    return unit


Proposal: TypeAlias = Callable[[int], tuple[FloatArray, FloatArray]]
"""count → candidates (count, d) and the logarithms of their acceptance probabilities (count,)."""

CANDIDATES_AT_ONCE = 20_000
"""Most candidates that are looked at together."""
LIMIT = 5_000_000
"""Candidates per accepted draw, on average so far, beyond which the sampler gives up."""

ACCEPTANCE_ROUNDING = 1e-6
"""Largest log acceptance probability that is taken for the rounding of a 0."""


class AcceptedDraws(NamedTuple):
    """Accepted draws, ``(size, d)``, and the accepted share of all candidates.

    Attributes
    ----------
    draws : array, shape (size, d)
        Accepted draws.
    acceptance : float
        Accepted share of all candidates.
    """

    draws: FloatArray
    acceptance: float


def accept(propose: Proposal, size: int, *, rng: np.random.Generator) -> AcceptedDraws:
    """Return the first `size` accepted candidates.

    Candidates are independent, so the first accepted ones are independent draws from the law with
    density ∝ proposal density × acceptance probability, whatever the sizes of the batches.

    Parameters
    ----------
    propose : Proposal
        Function of a count that returns candidates and the logarithms of their acceptance
        probabilities.
    size : int
        Number of independent draws.
    rng : numpy.random.Generator
        Generator of the draws.

    Raises
    ------
    ConvergenceError
        When fewer than one in `LIMIT` candidates is accepted, or an acceptance probability is
        above 1 by more than rounding.
    """
    batches: list[FloatArray] = []
    accepted = tried = 0
    while accepted < size:
        share = max(accepted, 1) / tried if tried else 1.0
        count = min(CANDIDATES_AT_ONCE, math.ceil(1.1 * (size - accepted) / share) + 8)
        candidates, log_probability = propose(count)
        if log_probability.max(initial=-math.inf) > ACCEPTANCE_ROUNDING:
            raise ConvergenceError(
                f"an acceptance probability must be at most 1, found exp({log_probability.max():g})"
                "; the bound under the proposal does not hold for this input"
            )
        chosen = candidates[np.log(1.0 - rng.random(count)) <= log_probability]
        batches.append(chosen)
        accepted, tried = accepted + len(chosen), tried + count
        if tried > LIMIT * (accepted + 1):
            raise ConvergenceError(
                f"rejection gave {accepted} of {size} draws after {tried} candidates; "
                "choose a larger budget or more records"
            )
    return AcceptedDraws(np.concatenate(batches)[:size], accepted / tried)


def growth(k: int) -> float:
    """Return c_k = √(k(k² − 1)/12): the law exists iff σ < 1/c_k.

    Parameters
    ----------
    k : int
        Number of rows of the matrices.
    """
    return math.sqrt(k * (k * k - 1) / 12.0)


LARGEST_ORDER = 6
"""Largest k whose moments are computed: the series of k = 8 takes seconds."""
SERIES_END = 2.5
"""Largest (k − 1)·√t/2 at which the Pfaffian is summed as a series; above, it loses no digits."""
TERMS = 60
"""Terms of that series: the last are below 1e-25 of the first where it is used."""


@lru_cache(maxsize=256)
def spectral_moment(k: int, sigma: float, power: int = 1) -> float | None:
    """Return E ρ^p of the law on affine-invariant SPD(k) for p = 1 or 2, by quadrature over t.

    None for other p, and for k above `LARGEST_ORDER`.

    Parameters
    ----------
    k : int
        Number of rows of the matrices.
    sigma : float
        Scale σ < 1/c_k of the law.
    power : int
        Power p of the distance.
    """
    from scipy.integrate import quad

    if power not in (1, 2) or k > LARGEST_ORDER:
        return None
    s, pairs = 1.0 / sigma, k * (k - 1) / 2
    rate, order = (s * s - growth(k) ** 2) / 2.0, (k - 1) / 2 + pairs / 2
    # Pf ~ t^{P/2} near 0 and → 1, so that t is between its means under the two Gamma laws
    low, high = (k + 1) / 2 / rate / 50, (order + 1) / rate * 2

    def moment(degree: int) -> float:
        def integrand(t: float) -> float:
            weight = math.pow(t, (k - 1) / 2 + degree) * math.exp(-rate * t)
            return weight * _chamber_share(k, math.sqrt(t) / 2.0)

        cuts = [0.0, low, *np.geomspace(low, high, 5)[1:], high + 60.0 / rate]
        parts = [quad(integrand, a, b, epsrel=1e-11, limit=200)[0] for a, b in pairwise(cuts)]
        return math.fsum(parts)

    mass, first = moment(0), moment(1)
    if power == 1:
        return s * first / mass - sigma
    return s * s * moment(2) / mass - 3.0 * first / mass


def _chamber_share(k: int, x: float) -> float:
    """Return Pf[erf((j − i)·x)] over 0 ≤ i < j < k, bordered with ones for odd k; x = √t/2."""
    if (k - 1) * x > SERIES_END:
        size = k + k % 2
        entry = [[1.0 if j == k else math.erf((j - i) * x) for j in range(size)] for i in range(k)]
        return float(_pfaffian(tuple(range(size)), entry, 1.0))
    lowest, coefficients = _share_series(k)
    return float(x**lowest * np.polynomial.polynomial.polyval(x * x, coefficients))


@lru_cache(maxsize=LARGEST_ORDER)
def _share_series(k: int) -> tuple[int, FloatArray]:
    """Return the least power of x in the Pfaffian, and its coefficients from there, of x² on.

    In floats its terms, of order x^{k/2}, would cancel to x^{k(k−1)/2}; fractions lose nothing.
    """
    size, half = k + k % 2, k // 2
    lowest = k * (k - 1) // 2  # each erf has one odd power, so the rest are powers of x²
    length = (lowest - half) // 2 + TERMS
    erf = [Fraction((-1) ** n, math.factorial(n) * (2 * n + 1)) for n in range(length)]
    one = np.array([Fraction(1)] + [Fraction(0)] * (length - 1), dtype=object)

    def entry(gap: int) -> Any:
        return np.array([term * gap ** (2 * n + 1) for n, term in enumerate(erf)], dtype=object)

    table = [[one if j == k else entry(j - i) for j in range(size)] for i in range(k)]
    series = _pfaffian(tuple(range(size)), table, one)[(lowest - half) // 2 :]
    scale = (2.0 / math.sqrt(math.pi)) ** half
    return lowest, scale * np.array([float(term) for term in series])


def _pfaffian(left: tuple[int, ...], entry: Any, one: Any) -> Any:
    """Return the Pfaffian of the rows `left`, expanded along the first, of numbers or of series."""
    if not left:
        return one
    total: Any = 0 * one
    for place, other in enumerate(left[1:]):
        rest = _pfaffian(left[1 : place + 1] + left[place + 2 :], entry, one)
        factor = entry[left[0]][other]
        product = np.convolve(factor, rest)[: len(one)] if np.ndim(one) else factor * rest
        total = total + (-1) ** place * product
    return total


def log_jacobian(eigenvalues: FloatArray) -> FloatArray:
    """Return ln J = Σ_{i<j} ln(sinh x_ij/x_ij), x_ij = |λ_i − λ_j|/2, for eigenvalues (..., k).

    Parameters
    ----------
    eigenvalues : array, shape (..., k)
        Eigenvalues λ of tangent vectors.
    """
    rows, columns = np.triu_indices(eigenvalues.shape[-1], 1)
    x = np.abs(eigenvalues[..., rows] - eigenvalues[..., columns]) / 2.0
    total: FloatArray = log_sinhc(x).sum(axis=-1)
    return total


def tangent_draws(k: int, sigma: float, size: int, rng: np.random.Generator) -> AcceptedDraws:
    """Return `size` exact tangent vectors at the centre, coordinates (size, d), for σ < 1/c_k.

    Parameters
    ----------
    k : int
        Number of rows of the matrices.
    sigma : float
        Scale σ < 1/c_k of the law.
    size : int
        Number of independent draws.
    rng : numpy.random.Generator
        Generator of the draws.
    """
    if ball_is_smaller(k, sigma):
        return _ball_draws(k, sigma, size, rng)
    return _chamber_draws(k, sigma, size, rng)


def _ball_draws(k: int, sigma: float, size: int, rng: np.random.Generator) -> AcceptedDraws:
    dim = k * (k + 1) // 2
    law = RadialLaw(SpdEnvelope(dim), sigma)

    def propose(count: int) -> tuple[FloatArray, FloatArray]:
        radius = law.draw(count, rng)
        tangent = radius[:, None] * directions(count, dim, rng)
        log_j = log_jacobian(np.asarray(np.linalg.eigvalsh(unvecd(tangent)), dtype=np.float64))
        return tangent, log_j - ball_bound(k, radius)

    return accept(propose, size, rng=rng)


def _chamber_draws(k: int, sigma: float, size: int, rng: np.random.Generator) -> AcceptedDraws:
    slope = (k + 1 - 2.0 * np.arange(1, k + 1)) / 2.0
    rate = (sigma**-2 - growth(k) ** 2) / 2.0
    rows, columns = np.triu_indices(k, 1)

    def propose(count: int) -> tuple[FloatArray, FloatArray]:
        time = rng.standard_gamma((k + 1) / 2.0, (count, 1)) / rate
        eigenvalues = time * slope + np.sqrt(time) * rng.standard_normal((count, k))
        gap = np.maximum(eigenvalues[:, rows] - eigenvalues[:, columns], 0.0)
        with np.errstate(divide="ignore"):
            return eigenvalues, np.log(-np.expm1(-gap)).sum(axis=-1)

    eigenvalues, acceptance = accept(propose, size, rng=rng)
    return AcceptedDraws(rotate(eigenvalues, rng), acceptance)


def rotate(eigenvalues: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return vecd(Q·diag(λ)·Qᵀ) with independent Haar Q for eigenvalues (n, k), shape (n, d).

    The Q of a QR factorisation of a normal matrix is Haar up to the signs of its columns, which
    cancel here.

    Parameters
    ----------
    eigenvalues : array, shape (n, k)
        Eigenvalues λ of tangent vectors.
    rng : numpy.random.Generator
        Generator of the rotations.
    """
    size, k = eigenvalues.shape
    q = np.linalg.qr(rng.standard_normal((size, k, k))).Q
    coordinates: FloatArray = vecd((q * eigenvalues[:, None, :]) @ q.mT)
    return coordinates


@lru_cache(maxsize=256)
def ball_is_smaller(k: int, sigma: float) -> bool:
    """Return True if the ball envelope has the smaller mass, both measured on Sym(k).

    Ball: |S^{d−1}|·∫ρ^{d−1}·e^{−ρ/σ + ψ(ρ)} dρ. Chamber, with s = 1/σ:
    C·2^k·π^{(k−1)/2}·Γ((k+1)/2)·s·(s² − c_k²)^{−(k+1)/2}, where Mehta's integral gives the constant
    C = (2π)^{(d−k)/2}·k!·Π_j Γ(3/2)/Γ(1 + j/2) of dS = C·Π_{i<j}|λ_i − λ_j| dλ dQ.

    Parameters
    ----------
    k : int
        Number of rows of the matrices.
    sigma : float
        Scale σ < 1/c_k of the law.
    """
    dim, pairs = k * (k + 1) // 2, k * (k - 1) / 2
    if pairs == 0 or sigma * pairs >= math.sqrt(2.0 * (k - 1)):
        return pairs == 0
    ball = RadialLaw(SpdEnvelope(dim), sigma).log_integral()
    ball += math.log(2.0) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
    chamber = (dim - k) / 2 * math.log(2.0 * math.pi) + math.lgamma(k + 1)
    chamber += sum(math.lgamma(1.5) - math.lgamma(1 + j / 2) for j in range(1, k + 1))
    chamber += k * math.log(2.0) + (k - 1) / 2 * math.log(math.pi) + math.lgamma((k + 1) / 2)
    chamber += -math.log(sigma) - (k + 1) / 2 * math.log(sigma**-2 - growth(k) ** 2)
    return ball <= chamber
