"""Exact one-dimensional laws of Riemannian Laplace radii.

Random tests are seeded and compare with an oracle computed here by quadrature. Each rejects a true
law with probability below 1e-8; there are fewer than 50, so a false alarm has probability < 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from covdp.arrays import FloatArray
from covdp.geometry import MANIFOLDS
from covdp.geometry.manifold import SphereArea, area_of
from covdp.mechanisms.radial import RadialLaw, SpdEnvelope, directions


def flat(dim: int) -> SphereArea:
    """Return the area of spheres of R^d."""
    return SphereArea(((0.0, dim - 1),))


def hyperbolic(dim: int) -> SphereArea:
    """Return that of H^d."""
    return area_of(MANIFOLDS["hyperbolic"](dim))


def spherical(dim: int) -> SphereArea:
    """Return that of S^d."""
    return area_of(MANIFOLDS["sphere"](dim))


def shapes(dim: int) -> SphereArea:
    """Return that of planar shapes, of even dimension d."""
    return area_of(MANIFOLDS["kendall"](dim // 2 + 2))


AREAS = [flat, hyperbolic, spherical, shapes, SpdEnvelope]

P_VALUE = 1e-8
SIZE = 20_000

LAWS = [
    RadialLaw(flat(1), 0.3),
    RadialLaw(flat(15), 0.075),
    RadialLaw(flat(6), 0.5, 2.0),
    RadialLaw(hyperbolic(1), 2.0),
    RadialLaw(hyperbolic(2), 0.1),
    RadialLaw(hyperbolic(3), 0.499),
    RadialLaw(hyperbolic(15), 0.07),
    RadialLaw(spherical(1), 5.0),
    RadialLaw(spherical(2), 0.01),
    RadialLaw(spherical(2), 3.0),
    RadialLaw(spherical(5), 0.4, 0.7),
    RadialLaw(shapes(2), 0.3),
    RadialLaw(shapes(96), 0.002),
    RadialLaw(shapes(96), 50.0),
    RadialLaw(SpdEnvelope(1), 0.4),
    RadialLaw(SpdEnvelope(15), 0.075),
    RadialLaw(SpdEnvelope(15), 0.28),
]


def log_area(law: RadialLaw, radius: FloatArray) -> FloatArray:
    """Return ln of the area of the geodesic sphere, written down independently of the code."""
    d = law.area.dim
    k = (math.isqrt(8 * d + 1) - 1) // 2
    x = radius / math.sqrt(2 * max(k - 1, 1))
    with np.errstate(all="ignore"):
        sinhc = np.where(x < 1e-4, x**2 / 6, x + np.log(-np.expm1(-2 * x)) - np.log(2 * x))
        if isinstance(law.area, SpdEnvelope):
            return np.asarray((d - 1) * np.log(radius) + k * (k - 1) / 2 * sinhc)
        areas: dict[float | None, FloatArray] = {
            0.0: (d - 1) * np.log(radius),
            -1.0: (d - 1) * (radius + np.log(-np.expm1(-2 * radius))),
            1.0: (d - 1) * np.log(np.sin(radius)),
            None: (d - 1) * np.log(np.sin(radius)) + np.log(np.cos(radius)),
        }
    return areas[law.area.curvature]


def grid(law: RadialLaw) -> tuple[FloatArray, FloatArray]:
    """Radii and the cumulative distribution there, by the trapezoidal rule on two nested grids."""
    end = min(law.area.end, law.end)
    top = 0.0
    wide = np.geomspace(1e-9, end if math.isfinite(end) else 1e6 * law.sigma, 200_001)
    with np.errstate(invalid="ignore"):
        log_f = np.nan_to_num(log_area(law, wide) - wide / law.sigma, nan=-np.inf)
    top = log_f[1:].max()
    inside = np.flatnonzero(log_f > top - 45.0)
    radius = np.linspace(wide[max(inside[0] - 1, 0)], wide[min(inside[-1] + 1, 200_000)], 400_001)
    density = np.exp(log_area(law, radius) - radius / law.sigma - top)
    cdf = integrate.cumulative_trapezoid(np.nan_to_num(density), radius, initial=0.0)
    return radius, cdf / cdf[-1]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_draws_follow_their_law(law: RadialLaw) -> None:
    """Radii have density ∝ A(ρ)·exp(−ρ/σ): Kolmogorov-Smirnov against quadrature."""
    radius, cdf = grid(law)
    draws = law.draw(SIZE, np.random.default_rng(20))
    assert stats.kstest(draws, lambda x: np.interp(x, radius, cdf)).pvalue > P_VALUE


@pytest.mark.parametrize(
    "law", [law for law in LAWS if not isinstance(law.area, SpdEnvelope)], ids=str
)
def test_mean_is_that_of_the_law(law: RadialLaw) -> None:
    """The closed or integrated mean agrees with an independent quadrature to 1e-5."""
    radius, cdf = grid(law)
    oracle = radius[-1] - integrate.trapezoid(cdf, radius)
    assert law.mean() == pytest.approx(oracle, rel=1e-5)


@pytest.mark.parametrize("kind", AREAS)
@pytest.mark.parametrize("dim", [2, 3, 6, 15])
def test_slope_is_the_derivative(kind: type, dim: int) -> None:
    """The slope handed to the sampler is the derivative of ln A: else rejection is not exact."""
    area = kind(dim * (dim + 1) // 2 if kind is SpdEnvelope else dim)
    for radius in (0.01, 0.3, 0.7, 1.2):
        step = 1e-5 * radius
        slope = (area.log_area(radius + step) - area.log_area(radius - step)) / (2 * step)
        assert area.slope(radius) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("law", [law for law in LAWS if law.area.curvature != -1.0], ids=str)
def test_laws_are_log_concave(law: RadialLaw) -> None:
    """The slope of ln f never rises, as transformed density rejection requires."""
    end = min(law.support(), 40 * law.sigma * law.area.dim)
    slopes = [law.slope(r) for r in np.linspace(1e-6, 1 - 1e-9, 2000) * end]
    assert np.all(np.diff(slopes) <= 1e-9 * np.abs(slopes[1:]))


def test_area_of_complex_projective_space() -> None:
    """Uniform planar shapes lie at distances with density ∝ sin^{2n−1} ρ·cos ρ, n = m − 2."""
    rng = np.random.default_rng(21)
    n = 4
    z = rng.standard_normal((SIZE, n + 1)) + 1j * rng.standard_normal((SIZE, n + 1))
    distance = np.arccos(np.abs(z[:, 0]) / np.linalg.norm(z, axis=1))
    radius, cdf = grid(RadialLaw(shapes(2 * n), 1e12))
    assert stats.kstest(distance, lambda x: np.interp(x, radius, cdf)).pvalue > P_VALUE


def test_hyperbolic_radius_near_its_limit() -> None:
    """Just below σ = 1/(d−1), where radii reach 10,000, e^{−2ρ} still is Beta((1/σ−d+1)/2, d)."""
    rate = 1e-3
    law = RadialLaw(hyperbolic(4), 1.0 / (3.0 + 2.0 * rate))
    draws = law.draw(SIZE, np.random.default_rng(22))

    def cdf(x: FloatArray) -> FloatArray:
        near = special.betainc(rate, 4, np.exp(-2.0 * x))
        far = np.exp(-2.0 * rate * x - math.log(rate) - special.betaln(rate, 4))
        return np.asarray(1.0 - np.where(x < 20.0, near, far))

    assert stats.kstest(draws, cdf).pvalue > P_VALUE


@pytest.mark.parametrize("dim", [1, 2, 15])
def test_directions_are_uniform(dim: int) -> None:
    """A coordinate u of a uniform unit vector has u² ~ Beta(1/2, (d−1)/2) and a fair sign."""
    u = directions(SIZE, dim, np.random.default_rng(23))
    assert np.linalg.norm(u, axis=1) == pytest.approx(1.0, abs=1e-14)
    assert stats.binomtest(int((u[:, 0] > 0).sum()), SIZE).pvalue > P_VALUE
    if dim > 1:
        law = stats.beta(0.5, (dim - 1) / 2)
        assert stats.kstest(u[:, -1] ** 2, law.cdf).pvalue > P_VALUE


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_same_generator_same_draw(law: RadialLaw) -> None:
    """A draw depends on the generator alone, also after other draws of the same law."""
    first = law.draw(5, np.random.default_rng(24))
    law.draw(3, np.random.default_rng(25))
    assert np.array_equal(law.draw(5, np.random.default_rng(24)), first)
