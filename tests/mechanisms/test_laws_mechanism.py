"""Laws that every mechanism obeys, on every manifold and under every definition it claims."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from sample_mechanisms import BUDGETS, CASES, SPACES, make, statistic

from covdp.errors import ConfigError, DomainError, PrivacyError
from covdp.geometry import MANIFOLDS
from covdp.mechanisms import MECHANISMS, refusal
from covdp.privacy import GDP, PureDP, RaoDP

OF_A_MEAN = [(name, space) for name, space in CASES if MECHANISMS[name].statistic == "mean"]
WRAPPED = [(name, space) for name, space in CASES if MECHANISMS[name].wrapped]

# --- the registry ---------------------------------------------------------------------------------


@pytest.mark.addons
def test_registry_is_complete() -> None:
    """The published mechanisms are there, under the names configs use, with a note each."""
    assert set(MECHANISMS) >= {
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


@pytest.mark.addons
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


@pytest.mark.addons
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
    assert "σ" in mechanism.law
    if MECHANISMS[name].embedded:
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


@pytest.mark.parametrize(("name", "space"), OF_A_MEAN)
def test_one_centre_per_draw(name: str, space: str) -> None:
    """A batch of centres gives draw i the law of centre i: with equal noise, the same points."""
    mechanism = make(name, space)
    centers = np.stack([statistic(name, space, seed) for seed in (64, 65)])
    both = mechanism.sample(centers, size=2, rng=np.random.default_rng(66)).points
    for i in (0, 1):
        alone = mechanism.sample(centers[i], size=2, rng=np.random.default_rng(66)).points
        assert both[i] == pytest.approx(alone[i], abs=1e-12)


@pytest.mark.parametrize("name", [name for name, item in MECHANISMS.items() if item.wrapped])
def test_flat_footpoint_does_not_matter(name: str) -> None:
    """On a flat manifold the same noise gives the same output from every footpoint."""
    mechanism, center = make(name, "spd-log-euclidean"), statistic("ewl", "spd-log-euclidean")
    bases = np.stack([statistic("ewl", "spd-log-euclidean", seed) for seed in range(4)])
    plain = mechanism.sample(center, size=4, rng=np.random.default_rng(67)).points
    moved = mechanism.sample(center, base=bases, size=4, rng=np.random.default_rng(67)).points
    assert moved == pytest.approx(plain, abs=1e-11)


@pytest.mark.parametrize("name", [name for name, space in WRAPPED if space == "hyperbolic"])
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
    if MECHANISMS[name].statistic == "mean":
        with pytest.raises(DomainError, match="finite"):
            mechanism.sample(np.full_like(center, np.nan), size=2, rng=rng)
