"""Laws that every mechanism obeys, on every manifold and under every definition it claims.

Random tests are seeded; each rejects a true law with probability below 1e-9 (KS at p > 1e-9, means
within 6.2 standard errors), and there are fewer than 300: a false alarm has probability < 1e-6.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pipeline.errors import ConfigError, DomainError, PrivacyError
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mechanisms import MECHANISMS, ChainSettings, refusal
from pipeline.mechanisms.family import Mechanism, Points
from pipeline.privacy import GDP, RDP, ZCDP, ApproxDP, Budget, PureDP, RaoDP

P_VALUE = 1e-9
Z = 6.2
SIZE = 4000

SPACES: dict[str, Manifold] = {
    "spd-log-euclidean": MANIFOLDS["spd-log-euclidean"](k=3),
    "spd-log-cholesky": MANIFOLDS["spd-log-cholesky"](k=3),
    "spd-affine-invariant": MANIFOLDS["spd-affine-invariant"](k=3),
    "hyperbolic": MANIFOLDS["hyperbolic"](dim=3),
    "sphere": MANIFOLDS["sphere"](dim=2),
    "kendall": MANIFOLDS["kendall"](landmarks=5),
}
BUDGETS: dict[str, tuple[Budget, Budget]] = {
    "pure": (PureDP(0.5), PureDP(2.0)),
    "approx": (ApproxDP(0.5, 1e-6), ApproxDP(2.0, 1e-6)),
    "gdp": (GDP(0.5), GDP(2.0)),
    "rdp": (RDP(3.0, 0.5), RDP(3.0, 2.0)),
    "zcdp": (ZCDP(0.1), ZCDP(2.0)),
    "rao": (RaoDP(0.5), RaoDP(2.0)),
}
CASES = [
    (name, space)
    for name, family in MECHANISMS.items()
    for space in SPACES
    if space in family.manifolds
]
LEAVES = ("extrinsic-gaussian", "euclidean-laplace")  # their output may leave the manifold


def knobs(name: str, space: str) -> dict[str, Any]:
    """Return what a family needs besides budget, sensitivity and manifold."""
    return {"radius": 0.3} if name == "kng" and space in ("sphere", "kendall") else {}


def make(
    name: str, space: str, *, sensitivity: float = 0.05, budget: Budget | None = None
) -> Mechanism:
    """Calibrate the mechanism to `budget`, or to the larger of the first definition it knows."""
    family = MECHANISMS[name]
    chosen = BUDGETS[family.definitions[0]][1] if budget is None else budget
    return family.calibrate(
        chosen, sensitivity=sensitivity, manifold=SPACES[space], **knobs(name, space)
    )


def statistic(name: str, space: str, seed: int = 60) -> Points:
    """Return a point near the origin, or the records that kng takes in its place."""
    rng, manifold = np.random.default_rng(seed), SPACES[space]
    count = 6 if name == "kng" else 1
    tangent = 0.1 * rng.standard_normal((count, manifold.dim)) / math.sqrt(manifold.dim)
    points = manifold.exp(manifold.origin, tangent)
    return points if name == "kng" else points[0]


# --- the registry ---------------------------------------------------------------------------------


def test_registry_is_complete() -> None:
    """The published mechanisms are there, under the names configs use, with a note each."""
    assert set(MECHANISMS) == {
        *("ewl", "ewg", "tangent-gaussian", "rl", "kng", "extrinsic-gaussian"),
        *("euclidean-laplace", "projected-euclidean-laplace", "landmark-laplace"),
        "generalized-gaussian",
    }
    for name, family in MECHANISMS.items():
        assert family.name == name
        assert family.title
        assert family.note
        assert set(family.definitions) <= set(BUDGETS)
        assert set(family.manifolds) <= set(MANIFOLDS)
        assert family.pure == ("pure" in family.definitions)


@pytest.mark.parametrize("name", MECHANISMS)
def test_calibration_agrees_with_refusal(name: str) -> None:
    """Every combination of names is either calibrated, or refused with the line `refusal` gives."""
    for definition, space in itertools.product(BUDGETS, SPACES):
        budget, reason = BUDGETS[definition][1], refusal(name, definition, space)
        if reason is None:
            assert make(name, space, budget=budget).sigma > 0.0
            continue
        assert "\n" not in reason
        assert "use one of" in reason
        with pytest.raises(PrivacyError) as caught:
            make(name, space, budget=budget)
        assert str(caught.value) == reason


def test_unknown_names_are_refused() -> None:
    """An unknown mechanism or sampler gives one line that lists what there is."""
    assert "must be one of ewl" in str(refusal("laplace", "pure", "sphere"))
    assert "has the sampler exact" in str(refusal("ewg", "gdp", "hyperbolic", "chain"))
    assert refusal("rl", "pure", "hyperbolic", "chain") is None


@pytest.mark.parametrize("name", MECHANISMS)
def test_more_budget_less_noise(name: str) -> None:
    """σ falls when the budget grows, and is proportional to the sensitivity."""
    family = MECHANISMS[name]
    space = family.manifolds[0]
    for definition in family.definitions:
        tight, loose = (make(name, space, budget=b).sigma for b in BUDGETS[definition])
        assert loose < tight
        double = make(name, space, budget=BUDGETS[definition][1], sensitivity=0.1).sigma
        assert double == pytest.approx(2.0 * loose, rel=1e-12)


def test_scales_are_those_of_the_papers() -> None:
    """σ = Δ/ε for wrapped and Riemannian Laplace, 2Δ/ε for kng (Δ/ε flat), Δ/μ for Gaussians."""
    ball: dict[str, Any] = {"sensitivity": 0.06, "manifold": SPACES["spd-affine-invariant"]}
    flat: dict[str, Any] = {"sensitivity": 0.06, "manifold": SPACES["spd-log-euclidean"]}
    for name, where, sigma in (
        ("ewl", ball, 0.03),
        ("rl", ball, 0.03),
        ("kng", ball, 0.06),
        ("kng", flat, 0.03),
        ("euclidean-laplace", flat, 0.03),
    ):
        found = MECHANISMS[name].calibrate(PureDP(2.0), **where).sigma
        assert found == pytest.approx(sigma, rel=1e-12)
    assert MECHANISMS["ewg"].calibrate(GDP(2.0), **ball).sigma == pytest.approx(0.03, rel=1e-12)
    landmark = MECHANISMS["landmark-laplace"].calibrate(
        PureDP(2.0), sensitivity=0.06, manifold=SPACES["kendall"]
    )
    assert landmark.sigma == pytest.approx(0.03 * 5, rel=1e-9)
    rao = MECHANISMS["generalized-gaussian"].calibrate(RaoDP(2.0), degree=2.0, **flat)
    assert rao.sigma == pytest.approx(0.03 * math.sqrt(2.0), rel=1e-9)


# --- every draw -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "space"), CASES)
def test_outputs_are_points(name: str, space: str) -> None:
    """Outputs have shape (size, *point_shape), lie on the manifold, and say how they were made."""
    manifold, mechanism = SPACES[space], make(name, space)
    draws = mechanism.sample(statistic(name, space), size=7, rng=np.random.default_rng(61))
    assert draws.points.shape == (7, *manifold.point_shape)
    assert 0.0 < draws.diagnostics.acceptance <= 1.0
    if name in LEAVES:
        assert np.isfinite(draws.points).all()
    else:
        manifold.check(draws.points)


@pytest.mark.parametrize(("name", "space"), CASES)
def test_same_generator_same_draw(name: str, space: str) -> None:
    """A draw is a function of the generator; another seed gives another draw."""
    mechanism, center = make(name, space), statistic(name, space)
    first, again, other = (
        mechanism.sample(center, size=3, rng=np.random.default_rng(seed)).points
        for seed in (62, 62, 63)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("name", "space"), [case for case in CASES if case[0] != "kng"])
def test_one_centre_per_draw(name: str, space: str) -> None:
    """A batch of centres gives draw i the law of centre i: with equal noise, the same points."""
    mechanism = make(name, space)
    centers = np.stack([statistic(name, space, seed) for seed in (64, 65)])
    both = mechanism.sample(centers, size=2, rng=np.random.default_rng(66)).points
    for i in (0, 1):
        alone = mechanism.sample(centers[i], size=2, rng=np.random.default_rng(66)).points
        assert both[i] == pytest.approx(alone[i], abs=1e-12)


@pytest.mark.parametrize("name", ["ewl", "ewg", "tangent-gaussian", "generalized-gaussian"])
def test_flat_footpoint_does_not_matter(name: str) -> None:
    """On a flat manifold the same noise gives the same output from every footpoint."""
    mechanism, center = make(name, "spd-log-euclidean"), statistic("ewl", "spd-log-euclidean")
    bases = np.stack([statistic("ewl", "spd-log-euclidean", seed) for seed in range(4)])
    plain = mechanism.sample(center, size=4, rng=np.random.default_rng(67)).points
    moved = mechanism.sample(center, base=bases, size=4, rng=np.random.default_rng(67)).points
    assert moved == pytest.approx(plain, abs=1e-11)


@pytest.mark.parametrize("name", ["ewl", "ewg"])
def test_noise_sits_in_the_tangent_space_of_the_footpoint(name: str) -> None:
    """log(p0, output) − log(p0, c) is the same noise for every centre, on a curved manifold too."""
    manifold, mechanism = SPACES["hyperbolic"], make(name, "hyperbolic")
    base = statistic("ewl", "hyperbolic", 68)
    noises = []
    for seed in (69, 70):
        center = statistic("ewl", "hyperbolic", seed)
        points = mechanism.sample(center, base=base, size=5, rng=np.random.default_rng(71)).points
        noises.append(manifold.log(base, points) - manifold.log(base, center))
    assert noises[0] == pytest.approx(noises[1], abs=1e-10)


@pytest.mark.parametrize(("name", "space"), CASES)
def test_wrong_shapes_are_refused(name: str, space: str) -> None:
    """A centre of another shape, a NaN or a size below 1 raises one line with the way out."""
    mechanism, center = make(name, space), statistic(name, space)
    rng = np.random.default_rng(72)
    with pytest.raises(DomainError, match="found"):
        mechanism.sample(center[..., :-1], size=2, rng=rng)
    with pytest.raises(ConfigError, match="size must be at least 1"):
        mechanism.sample(center, size=0, rng=rng)
    if name != "kng":
        with pytest.raises(DomainError, match="finite"):
            mechanism.sample(np.full_like(center, np.nan), size=2, rng=rng)


# --- exact laws -----------------------------------------------------------------------------------

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
        points = mechanism.sample(center, size=SIZE, rng=np.random.default_rng(77)).points
        distances.append(manifold.dist(center, points))
    assert distances[0] == pytest.approx(distances[1], abs=1e-9)
    tangent = manifold.log(center, points)
    share = (tangent[:, 0] / distances[1]) ** 2
    half = (manifold.dim - 1) / 2
    assert stats.kstest(share, stats.beta(0.5, half).cdf).pvalue > P_VALUE


@pytest.mark.parametrize(("name", "space"), CASES)
def test_expected_error_is_the_mean_error(name: str, space: str) -> None:
    """Where a mechanism states its expected error, the mean error of draws agrees with it."""
    manifold, mechanism = SPACES[space], make(name, space)
    expected = mechanism.expected_error()
    if expected is None:
        assert name not in ("ewl", "ewg", "tangent-gaussian") or not manifold.flat
        return
    center = statistic(name, space)
    points = mechanism.sample(center, size=SIZE, rng=np.random.default_rng(78)).points
    if name == "kng":
        tangent = manifold.log(manifold.origin, center).mean(axis=0)
        center = manifold.exp(manifold.origin, tangent)
    if name in LEAVES:
        error = np.linalg.norm((points - center).reshape(SIZE, -1), axis=1)
    else:
        error = manifold.dist(center, points)
    assert abs(error.mean() - expected) < Z * error.std() / math.sqrt(SIZE)


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


@pytest.mark.parametrize("space", ["spd-log-euclidean", "spd-affine-invariant", "hyperbolic"])
def test_chain_and_exact_sampler_agree(space: str) -> None:
    """A chain of 2,000 steps has the law of the exact sampler, and reports its diagnostics."""
    manifold, center = SPACES[space], statistic("rl", space)
    chain = MECHANISMS["rl"].calibrate(
        PureDP(1.0),
        sensitivity=0.2,
        manifold=manifold,
        sampler="chain",
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
