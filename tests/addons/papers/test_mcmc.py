"""The published Markov chains: the same law as published, and how far it is from the exact one.

Random tests are seeded; each rejects a true law with probability below 1e-8 (KS at p > 1e-8), and
there are fewer than 30: a false alarm has probability < 1e-6.
"""

import math

import numpy as np
import pytest
from scipy import stats

from covdp.addons.papers import chains
from covdp.addons.papers.chains import ChainSettings, geodesic_chains, laplace_chains
from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import MANIFOLDS, Manifold, unvecd
from covdp.geometry.manifold import area_of
from covdp.geometry.spd import LogEuclidean
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.radial import RadialLaw, log_jacobian, tangent_draws
from covdp.parallel import limited_to
from covdp.privacy import PureDP

P_VALUE = 1e-8


def flat(dim: int) -> Manifold:
    """Return a flat manifold of a dimension k(k + 1)/2."""
    return LogEuclidean.of_dimension(dim)


def full_chain(
    dim: int, steps: int, chains: int, rng: np.random.Generator, *, radius: float | None = None
) -> FloatArray:
    """Run the published chain in all d coordinates, σ = 1.

    It starts one proposal off the centre, or at a `radius` in a uniform direction.
    """
    state = rng.standard_normal((chains, dim))
    if radius is not None:
        state *= radius / np.linalg.norm(state, axis=1, keepdims=True)
    for _ in range(steps):
        proposal = state + rng.standard_normal((chains, dim))
        growth = np.linalg.norm(proposal, axis=1) - np.linalg.norm(state, axis=1)
        move = rng.random(chains) < np.exp(np.minimum(-growth, 0.0))
        state[move] = proposal[move]
    return state


@pytest.mark.parametrize(("dim", "steps"), [(1, 10), (3, 10), (15, 30)])
def test_radius_chain_is_the_published_chain(dim: int, steps: int) -> None:
    """After few steps, far from equilibrium, radius and a coordinate have the full chain's law."""
    rng = np.random.default_rng(40)
    oracle = full_chain(dim, steps, 5000, rng)
    settings = ChainSettings(burn_in=steps, keep=4)
    run = laplace_chains(flat(dim), np.full(5000, 0.3), settings=settings, rng=rng)
    ours = run.tangents / 0.3
    assert stats.ks_2samp(ours[:, -1], oracle[:, -1]).pvalue > P_VALUE
    norms = np.linalg.norm(ours, axis=1), np.linalg.norm(oracle, axis=1)
    assert stats.ks_2samp(*norms).pvalue > P_VALUE
    stationary = stats.kstest(norms[0], stats.gamma(dim).cdf).pvalue
    assert dim == 1 or stationary < P_VALUE  # the test has power: this is not yet equilibrium


@pytest.mark.parametrize(("dim", "start"), [(3, 0.8), (15, 0.05), (15, 2.0)])
def test_a_chain_starts_where_it_is_told_to(dim: int, start: float) -> None:
    """After few steps its law is that of the full chain from that distance, start·√d.

    On a curved manifold a start is refused.
    """
    rng, settings = np.random.default_rng(47), ChainSettings(burn_in=10, keep=4, start=start)
    oracle = full_chain(dim, 10, 5000, rng, radius=start * math.sqrt(dim) / 0.3)
    run = laplace_chains(flat(dim), np.full(5000, 0.3), settings=settings, rng=rng)
    ours = run.tangents / 0.3
    assert stats.ks_2samp(ours[:, -1], oracle[:, -1]).pvalue > P_VALUE
    norms = [np.linalg.norm(x, axis=1).round(9) for x in (ours, oracle)]  # some have not moved
    assert stats.ks_2samp(*norms).pvalue > P_VALUE
    for name in ("hyperbolic", "spd-affine-invariant", "sphere"):
        space = MANIFOLDS[name].of_dimension(3)
        with pytest.raises(ConfigError, match="on flat manifolds only"):
            laplace_chains(space, np.full(4, 0.1), settings=settings, rng=rng)


@pytest.mark.parametrize("dim", [1, 3, 15])
def test_flat_chain_converges(dim: int) -> None:
    """After 10,000 steps the radius is Gamma(d, σ), with R-hat near 1, acceptance as published."""
    run = laplace_chains(
        flat(dim), np.full(400, 2.0), settings=ChainSettings(), rng=np.random.default_rng(41)
    )
    radius = np.linalg.norm(run.tangents, axis=1)
    assert stats.kstest(radius, stats.gamma(dim, scale=2.0).cdf).pvalue > P_VALUE
    diagnostics = chains.diagnose(run)
    assert diagnostics.r_hat < 1.05
    assert diagnostics.effective_size > 4000
    assert 0.5 < diagnostics.acceptance < 0.75


@pytest.mark.parametrize(("k", "sigma"), [(1, 0.5), (2, 0.5), (3, 0.375), (5, 0.15)])
def test_spd_chain_agrees_with_the_exact_sampler(k: int, sigma: float) -> None:
    """Log-eigenvalue chain and exact sampler agree on radius, largest eigenvalue, one entry."""
    rng = np.random.default_rng(42)
    space = MANIFOLDS["spd-affine-invariant"](k=k)
    sigmas = np.full(400, sigma)
    chain = laplace_chains(space, sigmas, settings=ChainSettings(), rng=rng).tangents
    exact = tangent_draws(k, sigma, 10_000, rng).draws
    for statistic in (
        lambda x: np.linalg.norm(x, axis=1),
        lambda x: np.linalg.eigvalsh(unvecd(x))[:, -1],
        lambda x: x[:, 0],
    ):
        assert stats.ks_2samp(statistic(chain), statistic(exact)).pvalue > P_VALUE


def test_spd_chain_density() -> None:
    """The compiled density of log-eigenvalues is −‖λ‖/σ + ln J + Σ ln|λ_i − λ_j|."""
    rng = np.random.default_rng(43)
    for scale in (1e-60, 1.0, 100.0):
        eigenvalues = scale * rng.standard_normal(6)
        gaps = np.abs(np.subtract.outer(eigenvalues, eigenvalues))[np.triu_indices(6, 1)]
        oracle = -np.linalg.norm(eigenvalues) / 0.2 + log_jacobian(eigenvalues)
        oracle += np.log(gaps).sum()
        found = chains._spd_log_density(eigenvalues, 0.2)
        assert found == pytest.approx(float(oracle), rel=1e-10)


@pytest.mark.parametrize(
    ("name", "size", "sigma"),
    [
        ("hyperbolic", {"dim": 3}, 0.3),
        ("sphere", {"dim": 2}, 0.5),
        ("kendall", {"landmarks": 5}, 0.2),
    ],
)
def test_geodesic_walk_converges(name: str, size: dict[str, int], sigma: float) -> None:
    """The geodesic random walk reaches the exact radial law of the Riemannian Laplace mechanism."""
    manifold = MANIFOLDS[name](**size)
    rng = np.random.default_rng(44)
    settings = ChainSettings(burn_in=400, keep=20)
    run = laplace_chains(manifold, np.full(1000, sigma), settings=settings, rng=rng)
    exact = RadialLaw(area_of(manifold), sigma).draw(10_000, rng)
    assert stats.ks_2samp(np.linalg.norm(run.tangents, axis=1), exact).pvalue > P_VALUE
    assert run.trace[:, -1] * sigma == pytest.approx(np.linalg.norm(run.tangents, axis=1), abs=1e-7)


def test_walk_stays_in_the_support() -> None:
    """A density that is zero outside a ball keeps every chain inside it."""
    manifold = MANIFOLDS["sphere"](dim=2)
    pole = manifold.origin

    def log_density(points: FloatArray) -> FloatArray:
        return np.where(manifold.dist(pole, points) > 0.3, -math.inf, 0.0)

    run = geodesic_chains(
        log_density,
        pole,
        manifold,
        np.full(500, 0.5),
        settings=ChainSettings(burn_in=100, keep=10),
        rng=np.random.default_rng(45),
    )
    assert run.trace.max() * 0.5 <= 0.3
    area = (1.0 - np.cos(np.linalg.norm(run.tangents, axis=1))) / (1.0 - math.cos(0.3))
    assert stats.kstest(area, stats.uniform.cdf).pvalue > P_VALUE


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-affine-invariant"])
def test_chains_depend_on_their_seed_alone(name: str) -> None:
    """Same generator, same chains, whatever the number of threads; another one, other chains."""
    manifold = MANIFOLDS[name](k=3)
    settings = ChainSettings(burn_in=200)

    def run(seed: int) -> FloatArray:
        sigmas = np.linspace(0.1, 0.3, 37)
        rng = np.random.default_rng(seed)
        return laplace_chains(manifold, sigmas, settings=settings, rng=rng).tangents

    first = run(46)
    assert np.array_equal(first, run(46))
    with limited_to(3):
        assert np.array_equal(first, run(46))
    assert not np.array_equal(first, run(47))


def test_seeds_are_distinct() -> None:
    """No two chains of a call share their random numbers."""
    assert len(np.unique(chains._seeds(100_000, np.random.default_rng(48)))) == 100_000


def test_chains_of_several_scales_run_together() -> None:
    """In one call each chain has its own σ: radius/σ has one law on a flat manifold."""
    sigmas = np.repeat([0.01, 1.0, 100.0], 300)
    run = laplace_chains(flat(3), sigmas, settings=ChainSettings(), rng=np.random.default_rng(49))
    radius = np.linalg.norm(run.tangents, axis=1) / sigmas
    for part in np.split(radius, 3):
        assert stats.kstest(part, stats.gamma(3).cdf).pvalue > P_VALUE


def test_diagnostics_see_a_chain_that_has_not_mixed() -> None:
    """Near the limit of existence (SPD(5), σ = 0.31) split R-hat is far above 1.01."""
    manifold = MANIFOLDS["spd-affine-invariant"](k=5)
    mechanism = MECHANISMS["rl"].calibrate(
        PureDP(1.0), sensitivity=0.31, manifold=manifold, chain=ChainSettings()
    )
    draws = mechanism.sample(manifold.origin, size=20, rng=np.random.default_rng(50))
    assert draws.points.shape == (20, 5, 5)
    assert draws.diagnostics.r_hat > 1.1
    assert 0.0 < draws.diagnostics.acceptance < 1.0


def test_one_chain_has_diagnostics() -> None:
    """A single chain is split in two for R-hat."""
    run = laplace_chains(
        flat(3), np.ones(1), settings=ChainSettings(), rng=np.random.default_rng(51)
    )
    diagnostics = chains.diagnose(run)
    assert 0.9 < diagnostics.r_hat < 1.5
    assert diagnostics.effective_size > 1.0


@pytest.mark.parametrize(("burn_in", "keep"), [(100, 100), (100, 2)])
def test_settings_are_checked(burn_in: int, keep: int) -> None:
    """A chain that cannot keep its trace is refused."""
    with pytest.raises(ConfigError, match="a chain needs"):
        ChainSettings(burn_in, keep)
