"""The law of the noise of every mechanism, against its exact distribution.

Random tests are seeded; each rejects a true law with probability below 1e-9 (KS at p > 1e-9, means
within 6.2 standard errors), and there are fewer than 300: a false alarm has probability < 1e-6.
"""

import math
from typing import Any

import numpy as np
import pytest
from sample_mechanisms import CASES, SPACES, make, statistic
from scipy import stats

from covdp.errors import PrivacyError
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.noise import hardened_gaussian
from covdp.privacy import PureDP
from tests.tools.addons import addon

ChainSettings = addon("papers.chains:ChainSettings")

P_VALUE = 1e-9
Z = 6.2
SIZE = 4000

FLAT = ("spd-log-euclidean", "spd-log-cholesky")


@pytest.mark.parametrize("space", FLAT)
@pytest.mark.parametrize(
    ("name", "power", "law"),
    [
        ("ewg", 2.0, stats.chi2(6)),
        ("ewl", 1.0, stats.gamma(6)),
        ("rl", 1.0, stats.gamma(6)),
        ("kng", 1.0, stats.gamma(6)),
    ],
)
def test_flat_laws(name: str, space: str, power: float, law: Any) -> None:
    """On flat manifolds (dist/σ)² ~ χ²_d for the Gaussian, dist/σ ~ Gamma(d) for the Laplaces."""
    manifold, mechanism = SPACES[space], make(name, space)
    center = statistic(name, space)
    draws = mechanism.sample(center, size=SIZE, rng=np.random.default_rng(73))
    mean = (
        center
        if name != "kng"
        else manifold.exp(manifold.origin, manifold.log(manifold.origin, center).mean(axis=0))
    )
    scaled = (manifold.dist(mean, draws.points) / mechanism.sigma) ** power
    assert stats.kstest(scaled, law.cdf).pvalue > P_VALUE
    assert draws.diagnostics.acceptance > 0.999


@pytest.mark.addons
@pytest.mark.parametrize("name", ["ewg", "ewl", "generalized-gaussian"])
def test_tangent_coordinates(name: str) -> None:
    """Coordinates of the noise at the footpoint have their exact one-dimensional marginals."""
    manifold, mechanism = SPACES["spd-affine-invariant"], make(name, "spd-affine-invariant")
    draws = mechanism.sample(manifold.origin, size=SIZE, rng=np.random.default_rng(74))
    noise = manifold.log(manifold.origin, draws.points) / mechanism.sigma
    if name == "ewl":  # direction and radius are independent, and the direction is uniform
        radius = np.linalg.norm(noise, axis=1)
        assert stats.kstest(radius, stats.gamma(6).cdf).pvalue > P_VALUE
        squares = (noise[:, -1] / radius) ** 2
        assert stats.kstest(squares, stats.beta(0.5, 2.5).cdf).pvalue > P_VALUE
        assert abs(stats.spearmanr(squares, radius)[0]) < Z / math.sqrt(SIZE)
        return
    law = stats.norm if name == "ewg" else stats.gennorm(4.0)
    for coordinate in noise.T:
        assert stats.kstest(coordinate, law.cdf).pvalue > P_VALUE


@pytest.mark.parametrize("space", [space for space in SPACES if space != "spd-affine-invariant"])
def test_riemannian_laplace_is_radial(space: str) -> None:
    """At every centre dist(output, c) has the same draws, and the tangent at c looks the same."""
    manifold, mechanism = SPACES[space], make("rl", space)
    distances = []
    for seed in (75, 76):
        center = statistic("rl", space, seed)
        draws = mechanism.sample(center, size=SIZE, rng=np.random.default_rng(77))
        points = draws.points
        distances.append(manifold.dist(center, points))
        assert draws.nonprivate_distance == pytest.approx(distances[-1], abs=1e-9)
    assert distances[0] == pytest.approx(distances[1], abs=1e-9)
    tangent = manifold.log(center, points)
    share = (tangent[:, 0] / distances[1]) ** 2
    half = (manifold.dim - 1) / 2
    assert stats.kstest(share, stats.beta(0.5, half).cdf).pvalue > P_VALUE


@pytest.mark.parametrize(("name", "space"), CASES)
def test_expected_error_is_the_mean_error(name: str, space: str) -> None:
    """Where a mechanism states moments of its error, those of draws agree with them."""
    manifold, mechanism = SPACES[space], make(name, space)
    expected = mechanism.expected_error()
    square = mechanism.expected_error(2)
    assert (expected is None) == (square is None)
    if expected is None or square is None:
        assert name not in ("ewl", "ewg", "tangent-gaussian") or not manifold.flat
        return
    center = statistic(name, space)
    points = mechanism.sample(center, size=SIZE, rng=np.random.default_rng(78)).points
    if MECHANISMS[name].statistic == "records":
        tangent = manifold.log(manifold.origin, center).mean(axis=0)
        center = manifold.exp(manifold.origin, tangent)
    if MECHANISMS[name].embedded:
        error = np.linalg.norm((points - center).reshape(SIZE, -1), axis=1)
    else:
        error = manifold.dist(center, points)
    for power, moment in ((1, expected), (2, square)):
        drawn = error**power
        assert abs(drawn.mean() - moment) < Z * drawn.std() / math.sqrt(SIZE)


def test_affine_invariance() -> None:
    """The Riemannian Laplace law moves with congruences: A·draw·Aᵀ is a draw at A c Aᵀ."""
    manifold, mechanism = SPACES["spd-affine-invariant"], make("rl", "spd-affine-invariant")
    rng = np.random.default_rng(79)
    a = rng.standard_normal((3, 3)) + 2.0 * np.eye(3)
    center = statistic("rl", "spd-affine-invariant")
    moved = a @ mechanism.sample(center, size=SIZE, rng=rng).points @ a.T
    target = a @ center @ a.T
    direct = mechanism.sample((target + target.T) / 2, size=SIZE, rng=rng).points
    for statistic_of in (
        lambda x: manifold.dist(target, x),
        lambda x: np.linalg.slogdet(x)[1],
        lambda x: x[:, 0, 0],
    ):
        assert stats.ks_2samp(statistic_of(moved), statistic_of(direct)).pvalue > P_VALUE


@pytest.mark.addons
@pytest.mark.parametrize("space", ["spd-log-euclidean", "spd-affine-invariant", "hyperbolic"])
def test_chain_and_exact_sampler_agree(space: str) -> None:
    """A chain of 2,000 steps has the law of the exact sampler, and reports its diagnostics."""
    manifold, center = SPACES[space], statistic("rl", space)
    chain = MECHANISMS["rl"].calibrate(
        PureDP(1.0),
        sensitivity=0.2,
        manifold=manifold,
        chain=ChainSettings(burn_in=2000),
    )
    exact = MECHANISMS["rl"].calibrate(PureDP(1.0), sensitivity=0.2, manifold=manifold)
    rng = np.random.default_rng(80)
    walked = chain.sample(center, size=400, rng=rng)
    drawn = exact.sample(center, size=SIZE, rng=rng)
    errors = manifold.dist(center, walked.points), manifold.dist(center, drawn.points)
    assert stats.ks_2samp(*errors).pvalue > P_VALUE
    assert walked.diagnostics.r_hat < 1.1
    assert walked.diagnostics.effective_size > 400
    assert math.isnan(drawn.diagnostics.r_hat)


@pytest.mark.addons
def test_projected_laplace_is_the_projection() -> None:
    """The projected mechanism is the Euclidean one divided by its norm, draw by draw."""
    center = statistic("rl", "sphere")
    raw = make("euclidean-laplace", "sphere").sample(center, size=9, rng=np.random.default_rng(81))
    unit = make("projected-euclidean-laplace", "sphere").sample(
        center, size=9, rng=np.random.default_rng(81)
    )
    assert unit.points == pytest.approx(
        raw.points / np.linalg.norm(raw.points, axis=1, keepdims=True), abs=1e-14
    )


@pytest.mark.addons
def test_landmark_noise() -> None:
    """Before centring, every landmark moves by Gamma(2)·σ in a uniform direction of the plane."""
    manifold, mechanism = SPACES["kendall"], make("landmark-laplace", "kendall", sensitivity=1e-9)
    center = manifold.origin
    points = mechanism.sample(center, size=SIZE, rng=np.random.default_rng(82)).points
    # to first order scaling removes the part along the centre; what is left is isotropic in C^m
    moves = (points - center) / mechanism.sigma
    variance = (np.abs(moves) ** 2).sum(axis=1)
    expected = 6.0 * (5 - 1 - 0.5)  # E|x|² = 6σ² in each of m − 1 complex and −½ scaled directions
    assert abs(variance.mean() - expected) < Z * variance.std() / math.sqrt(SIZE)


# --- noise of a release ---------------------------------------------------------------------------


def test_hardened_noise_is_gaussian() -> None:
    """OpenDP's vector has independent N(v_i, σ²) coordinates, and never the same bits twice."""
    vector = np.array([0.0, 1e-3, -7.0, 1e4])
    draws = np.stack([hardened_gaussian(vector, 0.37, 1.0).vector for _ in range(300)])
    for coordinate in ((draws - vector) / 0.37).T:
        assert stats.kstest(coordinate, stats.norm.cdf).pvalue > P_VALUE
    assert len(np.unique(draws[:, 0])) == 300


@pytest.mark.parametrize("sigma", [1e-6, 0.37, 1e3])
def test_hardened_noise_certifies_its_cost(sigma: float) -> None:
    """The certified ρ is Δ²/(2σ²), from above, up to 1e-9 of it."""
    for sensitivity in (0.1 * sigma, sigma, 7.0 * sigma):
        rho = hardened_gaussian(np.zeros(15), sigma, sensitivity).rho
        assert rho == pytest.approx(sensitivity**2 / (2.0 * sigma**2), rel=1e-9)


@pytest.mark.parametrize(
    ("vector", "sigma", "sensitivity", "rule"),
    [
        (np.zeros((2, 2)), 1.0, 1.0, "shape"),
        (np.array([math.nan]), 1.0, 1.0, "finite vector"),
        (np.zeros(2), 0.0, 1.0, "sigma"),
        (np.zeros(2), 1e-200, 1.0, "sigma"),
        (np.zeros(2), 1e200, 1.0, "sigma"),
        (np.zeros(2), 1.0, math.inf, "sensitivity"),
    ],
)
def test_hardened_noise_checks_its_input(
    vector: Any, sigma: float, sensitivity: float, rule: str
) -> None:
    """Noise that would not protect is refused, with the rule in one line."""
    with pytest.raises(PrivacyError, match=rule):
        hardened_gaussian(vector, sigma, sensitivity)
