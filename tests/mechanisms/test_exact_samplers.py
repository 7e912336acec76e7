"""The exact sampler of the Riemannian Laplace law on affine-invariant SPD(k), and existence.

Oracles are quadratures written here, importance sampling, and a second envelope. Random tests are
seeded; each rejects a true law with probability below 1e-8 (KS at p > 1e-8, means within 6 standard
errors), and there are fewer than 50: a false alarm has probability < 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from covdp.arrays import FloatArray
from covdp.errors import ConvergenceError, UndefinedError
from covdp.geometry import MANIFOLDS, unvecd
from covdp.mechanisms import MECHANISMS, radial
from covdp.mechanisms.exponential import largest_sigma
from covdp.mechanisms.radial import accept
from covdp.privacy import GDP, PureDP

P_VALUE = 1e-8
Z = 6.0


def spectrum(draws: FloatArray) -> FloatArray:
    """Eigenvalues, ascending, of tangent coordinates."""
    return np.asarray(np.linalg.eigvalsh(unvecd(draws)))


# --- the bounds under the affine-invariant sampler ----------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_jacobian_stays_below_both_envelopes(k: int) -> None:
    """Both bounds hold: ln J ≤ P·g(ρ/a) and ln J ≤ c_k·ρ, on random and extreme spectra."""
    rng = np.random.default_rng(30)
    equispaced = np.arange(k) - (k - 1) / 2
    shapes = [rng.standard_normal((2000, k)), equispaced + 1e-3 * rng.standard_normal((2000, k))]
    shapes += [np.sign(rng.standard_normal((2000, k)))]
    for unit in shapes:
        norm = np.linalg.norm(unit, axis=1, keepdims=True)
        for radius in (1e-6, 0.1, 1.0, 10.0, 300.0):
            log_j = radial.log_jacobian(radius * unit / norm)
            x = radius / math.sqrt(2 * (k - 1))
            ball = k * (k - 1) / 2 * (x + math.log(-math.expm1(-2 * x) / (2 * x)))
            slack = 1e-12 * (1 + radius)
            assert log_j.max() <= ball + slack
            assert log_j.max() <= radial.growth(k) * radius + slack


def test_equispaced_spectrum_attains_the_growth() -> None:
    """c_k is not improvable: along λ ∥ (k−1, k−3, …), ln J/ρ → c_k, so σ < 1/c_k is sharp."""
    k, radius = 5, 1e5
    line = np.arange(k) - (k - 1) / 2
    log_j = radial.log_jacobian(radius * line / np.linalg.norm(line))
    assert log_j / radius == pytest.approx(radial.growth(k), rel=1e-2)


def test_jacobian_is_that_of_the_exponential_map() -> None:
    """J(S) = |det d exp_Id(S)|, measured by finite differences of the manifold's own log."""
    manifold = MANIFOLDS["spd-affine-invariant"](k=3)
    rng = np.random.default_rng(31)
    tangent = rng.standard_normal(manifold.dim)
    point = manifold.exp(manifold.origin, tangent)
    step = 1e-5 * np.eye(manifold.dim)
    columns = manifold.log(point, manifold.exp(manifold.origin, tangent + step))
    columns = (columns - manifold.log(point, manifold.exp(manifold.origin, tangent - step))) / 2e-5
    oracle = math.log(abs(np.linalg.det(columns)))
    assert radial.log_jacobian(spectrum(tangent[None]))[0] == pytest.approx(oracle, abs=1e-7)


# --- the affine-invariant law --------------------------------------------------------------------


def spd2_radius_cdf(sigma: float) -> tuple[FloatArray, FloatArray]:
    """CDF of the radius on SPD(2): f(ρ) ∝ ρ·e^{−ρ/σ}·∫_0^π sinh(ρ sin θ/√2) dθ."""
    radius = np.linspace(0.0, 60.0 / (1.0 / sigma - math.sqrt(0.5)), 10_001)
    theta, weight = np.polynomial.legendre.leggauss(200)
    sine = np.sin(math.pi * (theta + 1.0) / 2.0) / math.sqrt(2.0)
    exponent = np.outer(radius, sine) - (radius / sigma)[:, None]
    density = radius * ((np.exp(exponent) - np.exp(exponent - 2 * np.outer(radius, sine))) @ weight)
    cdf = integrate.cumulative_simpson(density, x=radius, initial=0.0)
    return radius, cdf / cdf[-1]


@pytest.mark.parametrize("sigma", [0.05, 0.5, 0.9, 1.3])
def test_spd2_radius_against_quadrature(sigma: float) -> None:
    """On SPD(2) the radius has the law of a one-dimensional quadrature, near the limit √2 too."""
    draws = radial.tangent_draws(2, sigma, 20_000, np.random.default_rng(32)).draws
    radius, cdf = spd2_radius_cdf(sigma)
    distance = np.linalg.norm(draws, axis=1)
    assert stats.kstest(distance, lambda x: np.interp(x, radius, cdf)).pvalue > P_VALUE


@pytest.mark.parametrize(("k", "sigma"), [(2, 0.7), (3, 0.5), (4, 0.32)])
def test_the_two_envelopes_give_one_law(k: int, sigma: float) -> None:
    """Ball and chamber sampler share nothing but the target, and agree on every eigenvalue."""
    rng = np.random.default_rng(33)
    ball = spectrum(radial._ball_draws(k, sigma, 5000, rng).draws)
    chamber = spectrum(radial._chamber_draws(k, sigma, 5000, rng).draws)
    for i in range(k):
        assert stats.ks_2samp(ball[:, i], chamber[:, i]).pvalue > P_VALUE
    norms = np.linalg.norm(ball, axis=1), np.linalg.norm(chamber, axis=1)
    assert stats.ks_2samp(*norms).pvalue > P_VALUE


@pytest.mark.parametrize(("k", "sigma"), [(3, 0.2), (5, 0.08), (5, 0.15)])
def test_spd_moments_against_importance_sampling(k: int, sigma: float) -> None:
    """Mean radius, largest eigenvalue and square trace agree with weighted flat Laplace draws."""
    rng = np.random.default_rng(34)
    dim, size = k * (k + 1) // 2, 60_000
    wide = 1.0 / (1.0 / sigma - radial.growth(k) * 0.6)
    flat = rng.standard_normal((size, dim))
    flat *= wide * rng.standard_gamma(dim, (size, 1)) / np.linalg.norm(flat, axis=1, keepdims=True)
    radius = np.linalg.norm(flat, axis=1)
    values = spectrum(flat)
    log_weight = radial.log_jacobian(values) - radius / sigma + radius / wide
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    draws = radial.tangent_draws(k, sigma, 20_000, rng).draws
    own = spectrum(draws)
    for ours, theirs in (
        (np.linalg.norm(draws, axis=1), radius),
        (own[:, -1], values[:, -1]),
        (own.sum(axis=1) ** 2, values.sum(axis=1) ** 2),
    ):
        mean = weight @ theirs
        error = math.hypot(
            ours.std() / math.sqrt(len(ours)), math.sqrt(weight**2 @ (theirs - mean) ** 2)
        )
        assert abs(ours.mean() - mean) < Z * error


@pytest.mark.parametrize(("k", "sigma"), [(3, 0.3), (3, 0.69)])
def test_eigenvectors_are_haar(k: int, sigma: float) -> None:
    """A squared entry of the first eigenvector is Beta(1/2, (k−1)/2) under either envelope."""
    draws = radial.tangent_draws(k, sigma, 10_000, np.random.default_rng(35)).draws
    entry = np.linalg.eigh(unvecd(draws))[1][:, 1, 0] ** 2
    assert stats.kstest(entry, stats.beta(0.5, (k - 1) / 2).cdf).pvalue > P_VALUE


@pytest.mark.parametrize(
    ("k", "sigma", "acceptance"),
    [(5, 0.15, 0.88), (5, 0.075, 0.98), (3, 0.375, 0.82), (10, 0.0375, 0.94), (5, 0.3, 0.54)],
)
def test_acceptance_is_as_stated(k: int, sigma: float, acceptance: float) -> None:
    """Acceptance is as printed in the module, to 0.02 (more than 5 standard errors)."""
    found = radial.tangent_draws(k, sigma, 20_000, np.random.default_rng(36)).acceptance
    assert found == pytest.approx(acceptance, abs=0.02)


def test_the_smaller_envelope_is_used() -> None:
    """The ratio of acceptances equals the ratio of envelope masses: the ball wins iff smaller."""
    rng = np.random.default_rng(37)
    for sigma in (0.4, 0.5, 0.6):
        ball = radial._ball_draws(3, sigma, 4000, rng).acceptance
        chamber = radial._chamber_draws(3, sigma, 4000, rng).acceptance
        assert radial.ball_is_smaller(3, sigma) == (ball > chamber)


# --- existence -----------------------------------------------------------------------------------


@pytest.mark.addons
@pytest.mark.parametrize(
    ("name", "size", "limit"),
    [
        ("spd-affine-invariant", {"k": 2}, math.sqrt(2.0)),
        ("spd-affine-invariant", {"k": 3}, math.sqrt(0.5)),
        ("spd-affine-invariant", {"k": 5}, math.sqrt(0.1)),
        ("hyperbolic", {"dim": 4}, 1.0 / 3.0),
    ],
)
@pytest.mark.parametrize("name_of_family", ["rl", "kng"])
def test_no_law_beyond_the_limit(
    name: str, size: dict[str, int], limit: float, name_of_family: str
) -> None:
    """Above the limit calibration raises, naming σ and the limit; just below it works."""
    manifold = MANIFOLDS[name](**size)
    family = MECHANISMS[name_of_family]
    unit = family.calibrate(PureDP(1e6), sensitivity=1.0, manifold=manifold).sigma * 1e6
    assert largest_sigma(manifold) == pytest.approx(limit, rel=1e-12)
    for budget in (PureDP(0.999 * unit / limit), PureDP(0.5 * unit / limit), GDP(1e-3)):
        with pytest.raises(UndefinedError, match=f"only for σ < {limit:.6g}"):
            family.calibrate(budget, sensitivity=1.0, manifold=manifold)
    fine = family.calibrate(PureDP(1.001 * unit / limit), sensitivity=1.0, manifold=manifold)
    assert fine.sigma < limit


def test_refusal_covers_the_published_unstable_points() -> None:
    """With n = 40, r = 1.5 there is no law on SPD(5) for ε ≤ 0.237, on SPD(3) for ε ≤ 0.106."""
    for k, epsilon in ((5, 0.237), (3, 0.106)):
        manifold = MANIFOLDS["spd-affine-invariant"](k=k)
        with pytest.raises(UndefinedError, match="allows ε > 0"):
            MECHANISMS["rl"].calibrate(PureDP(epsilon), sensitivity=0.075, manifold=manifold)
        MECHANISMS["rl"].calibrate(PureDP(epsilon + 1e-3), sensitivity=0.075, manifold=manifold)


# --- rejection -----------------------------------------------------------------------------------


def test_rejection_notices_a_broken_bound() -> None:
    """An acceptance probability above 1 raises instead of giving draws from another law."""

    def propose(count: int) -> tuple[FloatArray, FloatArray]:
        return np.zeros((count, 1)), np.full(count, 0.1)

    with pytest.raises(ConvergenceError, match="at most 1"):
        accept(propose, 1, rng=np.random.default_rng(38))


def test_rejection_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law out of reach raises with the number of draws and candidates, instead of hanging."""
    monkeypatch.setattr("covdp.mechanisms.radial.LIMIT", 1000)

    def propose(count: int) -> tuple[FloatArray, FloatArray]:
        return np.zeros((count, 1)), np.full(count, -math.inf)

    with pytest.raises(ConvergenceError, match="0 of 3 draws after"):
        accept(propose, 3, rng=np.random.default_rng(39))


def test_distances_survive_where_matrices_do_not() -> None:
    """At σ = 0.313 on SPD(5) draws lie hundreds away: finite points, and their exact distances."""
    manifold = MANIFOLDS["spd-affine-invariant"](k=5)
    mechanism = MECHANISMS["rl"].calibrate(PureDP(1.0), sensitivity=0.313, manifold=manifold)
    draws = mechanism.sample(manifold.origin, size=500, rng=np.random.default_rng(57))
    assert np.isfinite(draws.points).all()
    assert draws.nonprivate_distance is not None
    assert draws.nonprivate_distance.max() > 100.0
    top = np.log(np.linalg.eigvalsh(draws.points)[:, -1])
    assert np.all(top <= draws.nonprivate_distance + 1e-9)


@pytest.mark.parametrize("sigma", [0.05, 0.4, 0.65])
def test_moments_of_spd2_are_those_of_its_density(sigma: float) -> None:
    """E ρ and E ρ² on SPD(2), by a Pfaffian, are those of e^(−ρ/σ)·|sinh((λ₁ − λ₂)/2)| in R²."""
    rho = np.linspace(0.0, 60 * sigma / (1 - sigma / math.sqrt(2)), 4001)[1:, None]
    angle = (np.arange(720) + 0.5) * 2 * math.pi / 720
    gap = np.abs(np.cos(angle) - np.sin(angle)) * rho / 2
    shell = (rho * (np.exp(gap - rho / sigma) - np.exp(-gap - rho / sigma))).sum(axis=1)
    for power in (1, 2):
        direct = (rho[:, 0] ** power * shell).sum() / shell.sum()
        assert radial.spectral_moment(2, sigma, power) == pytest.approx(direct, rel=1e-4)


@pytest.mark.parametrize("k", [3, 4, 5, 6])
@pytest.mark.parametrize("share", [0.05, 0.95])
def test_moments_of_larger_matrices_are_those_of_draws(k: int, share: float) -> None:
    """E ρ and E ρ², small noise and near the limit, agree with those of exact draws."""
    sigma = share / radial.growth(k)
    drawn = radial.tangent_draws(k, sigma, 4000, np.random.default_rng(k)).draws
    radius = np.linalg.norm(drawn, axis=1)
    for power in (1, 2):
        moment, sample = radial.spectral_moment(k, sigma, power), radius**power
        assert moment is not None
        assert abs(sample.mean() - moment) < Z * sample.std() / math.sqrt(len(sample))
    assert radial.spectral_moment(radial.LARGEST_ORDER + 1, sigma) is None


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_the_series_of_the_pfaffian_meets_the_pfaffian(
    k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one way gives place to the other both have the same value, to 1e-6 of it."""
    x = radial.SERIES_END / (k - 1)
    by_series = radial._chamber_share(k, x * (1 - 1e-12))
    monkeypatch.setattr(radial, "SERIES_END", 0.0)
    assert radial._chamber_share(k, x * (1 - 1e-12)) == pytest.approx(by_series, rel=1e-6)
