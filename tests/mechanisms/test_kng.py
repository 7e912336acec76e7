"""The exact sampler of the K-norm gradient mechanism.

Oracles are quadratures of the density ∝ exp(−‖grad F(y)‖/σ) written here, and importance sampling
from an unrelated proposal. Random tests are seeded; each rejects a true law with probability below
1e-8 (KS at p > 1e-8, means within 6 standard errors), and there are fewer than 30: a false alarm
has probability < 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from covdp.arrays import FloatArray
from covdp.errors import DomainError, PrivacyError
from covdp.geometry import MANIFOLDS, Manifold, frechet_mean, gradient_norm, unvecd
from covdp.mechanisms import MECHANISMS, exponential
from covdp.mechanisms.base import Points
from covdp.mechanisms.exponential import KNormGradient, convexity
from covdp.mechanisms.radial import log_jacobian
from covdp.privacy import PureDP
from tests.tools.addons import addon

ChainSettings = addon("papers.chains:ChainSettings")

P_VALUE = 1e-8
Z = 6.0


def records(manifold: Manifold, n: int, radius: float, seed: int) -> Points:
    """Return n points, uniform in direction at radii r·U^{1/d} around the origin."""
    rng = np.random.default_rng(seed)
    tangent = rng.standard_normal((n, manifold.dim))
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    return manifold.exp(
        manifold.origin, radius * rng.random((n, 1)) ** (1.0 / manifold.dim) * tangent
    )


def mechanism(manifold: Manifold, sigma: float, radius: float = math.inf) -> KNormGradient:
    """Return the mechanism of scale σ."""
    made = MECHANISMS["kng"].calibrate(
        PureDP(1.0), sensitivity=sigma / 2.0, manifold=manifold, radius=radius
    )
    assert isinstance(made, KNormGradient)
    assert made.sigma == pytest.approx(sigma, rel=1e-12)
    return made


def test_spd2_radius_against_quadrature() -> None:
    """On SPD(2) dist(output, x̄) has the law that a quadrature over R³ gives."""
    manifold, sigma = MANIFOLDS["spd-affine-invariant"](k=2), 0.4
    data = records(manifold, 5, 1.5, 100)
    mean = frechet_mean(data, manifold).point
    height, weight = np.polynomial.legendre.leggauss(12)
    angle = np.arange(24) * (2.0 * math.pi / 24)
    flat = np.sqrt(1.0 - height**2)[:, None]
    unit = np.stack(
        [flat * np.cos(angle), flat * np.sin(angle), np.repeat(height[:, None], 24, 1)], axis=-1
    )
    radius = np.linspace(0.0, 12.0, 301)
    tangent = radius[:, None, None, None] * unit
    norm = gradient_norm(data, manifold, manifold.exp(mean, tangent))
    log_j = log_jacobian(np.asarray(np.linalg.eigvalsh(unvecd(tangent))))
    density = radius**2 * (np.exp(log_j - norm / sigma).sum(axis=-1) @ weight)
    cdf = integrate.cumulative_simpson(density, x=radius, initial=0.0)
    draws = mechanism(manifold, sigma).sample(data, size=10_000, rng=np.random.default_rng(101))
    distance = manifold.dist(mean, draws.points)
    assert stats.kstest(distance, lambda x: np.interp(x, radius, cdf / cdf[-1])).pvalue > P_VALUE


@pytest.mark.addons
@pytest.mark.parametrize(
    ("name", "size", "sigma"),
    [("spd-affine-invariant", {"k": 3}, 0.2), ("hyperbolic", {"dim": 2}, 0.4)],
)
def test_moments_against_importance_sampling(name: str, size: dict[str, int], sigma: float) -> None:
    """Mean coordinates and distances agree with weighted draws around another point than x̄."""
    manifold = MANIFOLDS[name](**size)
    data = records(manifold, 6, 1.5, 102)
    rng, count, wide = np.random.default_rng(103), 30_000, 2.0 * sigma
    flat = rng.standard_normal((count, manifold.dim))
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    radius = wide * rng.standard_gamma(manifold.dim, (count, 1))
    points = manifold.exp(manifold.origin, radius * flat)
    if name == "hyperbolic":
        log_j = (np.log(np.sinh(radius) / radius) * (manifold.dim - 1))[:, 0]
    else:
        log_j = log_jacobian(np.asarray(np.linalg.eigvalsh(unvecd(radius * flat))))
    log_weight = log_j + radius[:, 0] / wide - gradient_norm(data, manifold, points) / sigma
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    draws = mechanism(manifold, sigma).sample(data, size=5000, rng=rng).points
    ours = manifold.log(manifold.origin, draws)
    theirs = manifold.log(manifold.origin, points)
    for mine, other in [
        *zip(ours.T, theirs.T, strict=True),
        (np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1)),
        (gradient_norm(data, manifold, draws), gradient_norm(data, manifold, points)),
    ]:
        mean = weight @ other
        spread = math.sqrt(weight**2 @ (other - mean) ** 2)
        assert abs(mine.mean() - mean) < Z * math.hypot(mine.std() / math.sqrt(5000), spread)


@pytest.mark.addons
@pytest.mark.parametrize("sigma", [0.02, 0.2, 5.0])
def test_sphere_against_quadrature(sigma: float) -> None:
    """On S² the output has the density restricted to the ball: distance to p0, and its height."""
    manifold, ball = MANIFOLDS["sphere"](dim=2), 0.7
    data = records(manifold, 6, ball, 104)
    draws = mechanism(manifold, sigma, ball).sample(
        data, size=10_000, rng=np.random.default_rng(105)
    )
    pole = manifold.origin
    angle = np.arange(120) * (2.0 * math.pi / 120)
    unit = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    radius = np.linspace(0.0, ball, 201)
    grid = manifold.exp(pole, radius[:, None, None] * unit)
    density = np.exp(-gradient_norm(data, manifold, grid) / sigma) * np.sin(radius)[:, None]
    cdf = integrate.cumulative_simpson(density.sum(axis=1), x=radius, initial=0.0)
    distance = manifold.dist(pole, draws.points)
    assert distance.max() <= ball
    assert stats.kstest(distance, lambda x: np.interp(x, radius, cdf / cdf[-1])).pvalue > P_VALUE
    oracle = np.einsum("ra,rac->c", density, grid) / density.sum()
    error = np.abs(draws.points.mean(axis=0) - oracle)
    # the trapezoidal error of the quadrature itself is below 1e-4 here
    assert np.all(error < Z * draws.points.std(axis=0) / 100.0 + 1e-4)


@pytest.mark.addons
def test_shapes_against_a_chain() -> None:
    """On planar shapes exact draws and a long chain agree in distance and gradient norm."""
    manifold, ball = MANIFOLDS["kendall"](landmarks=4), 0.3
    data = records(manifold, 5, ball, 106)
    exact = mechanism(manifold, 0.1, ball)
    chain = MECHANISMS["kng"].calibrate(
        PureDP(1.0),
        sensitivity=0.05,
        manifold=manifold,
        radius=ball,
        chain=ChainSettings(burn_in=600, keep=20),
    )
    rng = np.random.default_rng(107)
    drawn, walked = exact.sample(data, size=4000, rng=rng), chain.sample(data, size=800, rng=rng)
    assert manifold.dist(manifold.origin, walked.points).max() <= ball
    pair = drawn.points, walked.points
    distances = [manifold.dist(manifold.origin, points) for points in pair]
    norms = [gradient_norm(data, manifold, points) for points in pair]
    assert stats.ks_2samp(*distances).pvalue > P_VALUE
    assert stats.ks_2samp(*norms).pvalue > P_VALUE
    assert walked.diagnostics.r_hat < 1.1


@pytest.mark.addons
def test_an_inexact_mean_does_not_move_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposing around a point far off the mean costs acceptance, and leaves the law exact."""
    manifold, sigma = MANIFOLDS["hyperbolic"](dim=2), 0.3
    data = records(manifold, 6, 1.0, 108)
    rng, made = np.random.default_rng(109), mechanism(manifold, sigma)
    exact = made.sample(data, size=5000, rng=rng)
    true = frechet_mean(data, manifold)
    off = true._replace(point=manifold.exp(true.point, np.array([0.2, -0.1])))
    monkeypatch.setattr(exponential, "frechet_mean", lambda *_: off)
    shifted = made.sample(data, size=5000, rng=rng)
    assert shifted.diagnostics.acceptance < 0.8 * exact.diagnostics.acceptance
    for axis in (0, 1):
        pair = [manifold.log(true.point, part.points)[:, axis] for part in (exact, shifted)]
        assert stats.ks_2samp(*pair).pvalue > P_VALUE


@pytest.mark.addons
@pytest.mark.parametrize(
    ("name", "size", "ball"),
    [
        ("spd-affine-invariant", {"k": 2}, math.inf),
        ("spd-affine-invariant", {"k": 4}, math.inf),
        ("hyperbolic", {"dim": 3}, math.inf),
        ("sphere", {"dim": 3}, 0.78),
        ("kendall", {"landmarks": 5}, 0.39),
    ],
)
def test_gradient_dominates_distance(name: str, size: dict[str, int], ball: float) -> None:
    """‖grad F(y)‖ + ‖grad F(x)‖ ≥ h·dist(x, y), with h = h(2r) on a ball: the acceptance bound."""
    manifold, rng = MANIFOLDS[name](**size), np.random.default_rng(110)
    curve = convexity(ball, manifold.curvature[1])
    for seed in range(20):
        data = records(manifold, 4, min(ball, 2.0), seed)
        direction = rng.standard_normal((2, 200, manifold.dim))
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        reach = min(ball, 3.0) * rng.random((2, 200, 1))
        x, y = manifold.exp(manifold.origin, reach * direction)
        slopes = gradient_norm(data, manifold, x) + gradient_norm(data, manifold, y)
        assert np.all(slopes >= curve * manifold.dist(x, y) - 1e-9)


@pytest.mark.parametrize(("k", "acceptance"), [(2, 0.87), (3, 0.74), (5, 0.50)])
def test_acceptance(k: int, acceptance: float) -> None:
    """Acceptance for 40 records within 1.5 of Id at ε = 1 is as designed, to 0.06."""
    manifold = MANIFOLDS["spd-affine-invariant"](k=k)
    data = records(manifold, 40, 1.5, 111)
    made = MECHANISMS["kng"].calibrate(PureDP(1.0), sensitivity=0.075, manifold=manifold)
    draws = made.sample(data, size=2000, rng=np.random.default_rng(112))
    assert draws.diagnostics.acceptance == pytest.approx(acceptance, abs=0.06)


@pytest.mark.addons
def test_the_ball_is_asked_for_and_enforced() -> None:
    """On positive curvature a radius is needed, below the limit, with every record inside."""
    manifold = MANIFOLDS["sphere"](dim=2)
    family = MECHANISMS["kng"]
    for radius in (math.inf, math.pi / 4, 0.0):
        with pytest.raises(PrivacyError, match=r"below 0\.785398"):
            family.calibrate(PureDP(1.0), sensitivity=0.1, manifold=manifold, radius=radius)
    made, rng = mechanism(manifold, 0.1, 0.5), np.random.default_rng(113)
    with pytest.raises(DomainError, match=r"within 0\.5 of the base, found one at"):
        made.sample(records(manifold, 50, 0.7, 114), size=1, rng=rng)
    base = manifold.exp(manifold.origin, np.array([0.3, 0.0]))
    moved = manifold.exp(base, 0.4 * np.array([[1.0, 0.0], [0.0, 1.0]]))
    draws = made.sample(moved, base=base, size=50, rng=rng)
    assert manifold.dist(base, draws.points).max() <= 0.5


def test_density_ratio_of_neighbours() -> None:
    """‖grad F − grad F'‖ ≤ D/n for one replaced record, at every point: what ε rests on."""
    manifold, rng = MANIFOLDS["spd-affine-invariant"](k=3), np.random.default_rng(115)
    data = records(manifold, 5, 2.0, 116)
    other: FloatArray = np.array(data)
    other[-1] = manifold.exp(manifold.origin, -manifold.log(manifold.origin, data[-1]))
    reach = float(manifold.dist(data[-1], other[-1]))
    points = manifold.exp(manifold.origin, 3.0 * rng.standard_normal((500, manifold.dim)) / 2.0)
    gap = np.abs(gradient_norm(data, manifold, points) - gradient_norm(other, manifold, points))
    assert gap.max() <= reach / 5 + 1e-12
