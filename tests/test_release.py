"""The heart: sensitivities that are never exceeded, budgets that add up, laws that hold."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from pipeline.descriptors import describe, domain
from pipeline.errors import DomainError, UndefinedError
from pipeline.geometry import MANIFOLDS, FlatChart, frechet_mean, sym_exp, unvecd
from pipeline.plan import Plan
from pipeline.privacy import GDP, PureDP
from pipeline.release import private_mean, release, sensitivity, summarise

SPD = [name for name in MANIFOLDS if name.startswith("spd-")]


@dataclass(frozen=True)
class Ball:
    """A domain of diameter D in any manifold."""

    diameter: float
    radius: float = 1.0
    largest_eigenvalue: float = math.e
    manifold: str = "spd-log-euclidean"


def images(n: int, seed: int) -> np.ndarray:
    """Return gray images from constant to noise."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 256, (n, 1, 1))
    spread = rng.integers(1, 128, (n, 1, 1))
    return np.clip(levels + spread * rng.standard_normal((n, 28, 28)), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("name", SPD)
@pytest.mark.parametrize("embedded", [False, True])
def test_replacing_one_image_moves_the_mean_by_at_most_the_sensitivity(
    name: str, embedded: bool
) -> None:
    """Over replaced records, flat images by textured ones and back, the move is below Δ."""
    manifold = MANIFOLDS[name](k=5)
    limit = domain("oct5", height=28, width=28, manifold=name)
    extremes = np.zeros((3, 28, 28), np.uint8)
    extremes[1, ::2], extremes[2, :, :14] = 255, 255
    records = describe(np.concatenate([images(9, 0), extremes]))
    n = 6
    bound = sensitivity(limit, n, "diameter", embedded=embedded)
    before = frechet_mean(records[:n], manifold).point
    moves = []
    for other in records[n:]:
        after = frechet_mean(np.concatenate([records[: n - 1], other[None]]), manifold).point
        moves.append(np.linalg.norm(after - before) if embedded else manifold.dist(before, after))
    assert max(moves) <= bound
    near = 0.05 if name == "spd-log-cholesky" else 0.2  # near enough to test anything
    assert embedded or max(moves) > near * bound


def test_published_sensitivity_is_two_radii_over_n() -> None:
    """The rule "radius" is 2r/n of the papers and "diameter" is D/n, both rounded up."""
    limit = domain("oct5", height=28, width=28)
    for rule, width in (("radius", 2 * limit.radius), ("diameter", limit.diameter)):
        assert width / 100 <= sensitivity(limit, 100, rule) <= (width / 100) * (1 + 1e-6)


@pytest.mark.parametrize("footpoint", ["origin", "all", "subsample"])
def test_scale_follows_from_the_share_of_the_mean(footpoint: str) -> None:
    """σ = Δ/(√0.9·μ) with a private footpoint and Δ/μ without one, never less."""
    chart = FlatChart(MANIFOLDS["spd-log-euclidean"](k=2))
    points = np.random.default_rng(1).standard_normal((40, 3))
    plan, rng = Plan(footpoint=footpoint), np.random.default_rng(2)
    data = summarise(points, manifold=chart, plan=plan, size=4, rng=rng)
    drawn = release(data, GDP(0.5), domain=Ball(3.0), manifold=chart, plan=plan, size=4, rng=rng)
    share = 1.0 if footpoint == "origin" else 0.9
    exact = sensitivity(Ball(3.0), 40, "diameter") / (math.sqrt(share) * 0.5)
    assert exact <= drawn.sigma * (1 + 1e-15)
    assert drawn.sigma <= exact * (1 + 1e-9)


def test_subsample_footpoint_pays_for_its_few_records() -> None:
    """A footpoint from 5 % of the records is 20 times as noisy as one from all (2 % apart)."""
    chart = FlatChart(MANIFOLDS["spd-log-euclidean"](k=2))
    points, size = np.zeros((400, 3)), 20_000
    spread = {}
    for footpoint in ("all", "subsample"):
        plan, rng = Plan(footpoint=footpoint), np.random.default_rng(3)
        data = summarise(points, manifold=chart, plan=plan, size=size, rng=rng)
        args = {"domain": Ball(1.0), "manifold": chart, "plan": plan, "size": size}
        spread[footpoint] = release(data, GDP(1.0), rng=rng, **args).footpoint.std()
    assert spread["subsample"] / spread["all"] == pytest.approx(20, rel=0.02)


def test_private_mean_has_the_chi_law() -> None:
    """(dist/σ)² of single releases follows χ²_15 (Kolmogorov-Smirnov, false alarm 1e-7)."""
    manifold, limit = MANIFOLDS["spd-log-euclidean"](k=5), domain("oct5", height=28, width=28)
    points, rng = describe(images(400, 4)), np.random.default_rng(5)
    squares = []
    for _ in range(200):
        drawn, nonprivate = private_mean(
            points, GDP(2.0), domain=limit, manifold=manifold, plan="single", rng=rng
        )
        squares.append((manifold.dist(nonprivate.mean, drawn.point) / drawn.sigma) ** 2)
    assert stats.kstest(squares, stats.chi2(15).cdf).pvalue > 1e-7


def test_no_records_and_no_density_are_typed_errors() -> None:
    """An empty class is a `DomainError`; a scale without a density is an `UndefinedError`."""
    manifold = MANIFOLDS["spd-affine-invariant"](k=3)
    rng = np.random.default_rng(6)
    with pytest.raises(DomainError):
        private_mean(np.empty((0, 3, 3)), GDP(1), domain=Ball(3.0), manifold=manifold, rng=rng)
    points = sym_exp(unvecd(rng.standard_normal((5, 6))))
    with pytest.raises(UndefinedError):
        private_mean(
            points, PureDP(0.1), domain=Ball(3.0), manifold=manifold, plan=Plan("rl"), rng=rng
        )
