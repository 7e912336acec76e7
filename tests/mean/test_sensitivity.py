"""Sensitivities where curvature or an embedding matters: proven bounds, searched for violations.

The searches are seeded and compare with an inequality, so a correct bound is never rejected.
"""

import math

import numpy as np
import pytest
from sample_manifolds import SPD

from covdp.errors import PrivacyError
from covdp.geometry import MANIFOLDS, Manifold, frechet_mean, gradient_norm
from covdp.mean import Ball, SinglePlan
from covdp.mean.sensitivity import frechet_sensitivity
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.base import Points
from covdp.mechanisms.exponential import (
    chord,
    convexity,
    gradient_sensitivity,
    laplace_sensitivity,
    largest_radius,
)

CURVED = [
    ("sphere", {"dim": 2}, 0.75),
    ("sphere", {"dim": 3}, 0.4),
    ("kendall", {"landmarks": 4}, 0.38),
]


def neighbours(manifold: Manifold, n: int, radius: float, seed: int) -> tuple[Points, Points]:
    """Return two data sets on the edge of a ball that differ in one record, moved across it."""
    rng = np.random.default_rng(seed)
    tangent = rng.standard_normal((n, manifold.dim))
    tangent *= radius * (1.0 - 1e-12) / np.linalg.norm(tangent, axis=1, keepdims=True)
    other = tangent.copy()
    other[-1] = -tangent[-1]
    return manifold.exp(manifold.origin, tangent), manifold.exp(manifold.origin, other)


@pytest.mark.addons
@pytest.mark.parametrize(("name", "size", "radius"), CURVED)
def test_bounds_on_positive_curvature(name: str, size: dict[str, int], radius: float) -> None:
    """Means move by at most Δ of the Laplace, gradients by at most Δ of kng, for n = 2 .. 6."""
    manifold = MANIFOLDS[name](**size)
    upper = manifold.curvature[1]
    assert radius < largest_radius(manifold)
    for seed in range(40):
        n = 2 + seed % 5
        data, other = neighbours(manifold, n, radius, seed)
        means = [frechet_mean(points, manifold).point for points in (data, other)]
        moved = float(manifold.dist(*means))
        assert moved <= laplace_sensitivity(n, radius, upper)
        at = np.concatenate([data, other])
        gap = np.abs(gradient_norm(data, manifold, at) - gradient_norm(other, manifold, at))
        assert gap.max() <= gradient_sensitivity(n, radius, upper)


def test_zero_curvature_gives_the_flat_bound() -> None:
    """For κ ≤ 0 both sensitivities are 2r/n, and small balls of positive curvature tend to it."""
    for curvature in (-1.0, 0.0, 1e-12):
        assert laplace_sensitivity(10, 0.5, curvature) == pytest.approx(0.1, rel=1e-9)
        assert gradient_sensitivity(10, 0.5, curvature) == pytest.approx(0.1, rel=1e-9)
    assert laplace_sensitivity(10, 0.5, 1.0) > gradient_sensitivity(10, 0.5, 1.0) > 0.1


@pytest.mark.parametrize("radius", [0.0, math.pi / 4, 1.0, math.inf])
def test_balls_too_large_are_refused(radius: float) -> None:
    """From π/4 on the unit sphere on, nothing is convex any more and nothing is proven."""
    with pytest.raises(PrivacyError, match=r"below 0\.785398"):
        convexity(radius, 1.0)


@pytest.mark.addons
def test_largest_radius() -> None:
    """The radius limit is π/4 on the unit sphere, π/8 on planar shapes, none on Hadamard."""
    assert largest_radius(MANIFOLDS["sphere"](dim=2)) == pytest.approx(math.pi / 4)
    assert largest_radius(MANIFOLDS["kendall"](landmarks=5)) == pytest.approx(math.pi / 8)
    assert math.isinf(largest_radius(MANIFOLDS["hyperbolic"](dim=3)))


@pytest.mark.addons
def test_chord() -> None:
    """Points of the sphere at distance s are 2·sin(s/2) apart in space, at most 2."""
    manifold = MANIFOLDS["sphere"](dim=2)
    for distance in (1e-9, 0.3, 2.0, 3.14):
        point = manifold.exp(manifold.origin, np.array([distance, 0.0]))
        apart = float(np.linalg.norm(point - manifold.origin))
        assert chord(distance) == pytest.approx(apart, rel=1e-9, abs=1e-15)
    assert chord(10.0) == 2.0


def embedded_sensitivity(name: str, k: int, n: int, radius: float) -> float:
    """Return Δ of a mean of n matrices of a ball, in Frobenius norm."""
    plan, family = SinglePlan("extrinsic-gaussian"), MECHANISMS["extrinsic-gaussian"]
    return frechet_sensitivity(Ball(radius, name), n, plan, family, MANIFOLDS[name](k=k))


@pytest.mark.addons
@pytest.mark.parametrize("name", SPD)
def test_extrinsic_sensitivity_is_reached_and_the_printed_one_too_small(name: str) -> None:
    """One matrix moved across its ball: the mean moves by nearly Δ, and by more than 2(e^r − 1)/n.

    That is printed for the log-Euclidean mean, and belongs to the arithmetic one: of matrices whose
    logarithms have norm r at most, no two are farther apart than 2(e^r − 1).
    """
    manifold, n, radius = MANIFOLDS[name](k=1), 50, 1.5
    edge = np.full((n, 1), radius)
    other = edge.copy()
    other[-1, 0] = -radius
    means = [manifold.exp(manifold.origin, tangent.mean(axis=0)) for tangent in (edge, other)]
    moved = float(np.linalg.norm(means[0] - means[1]))
    bound = embedded_sensitivity(name, 1, n, radius)
    assert 0.8 * bound < moved <= bound
    assert moved > 2.0 * math.expm1(radius) / n


@pytest.mark.addons
@pytest.mark.parametrize("name", SPD)
def test_extrinsic_bounds_are_not_exceeded(name: str) -> None:
    """Means of random and opposite matrices on the edge of the ball stay within the bound."""
    manifold, n, radius = MANIFOLDS[name](k=3), 5, 1.2
    bound = embedded_sensitivity(name, 3, n, radius)
    rng = np.random.default_rng(120)
    for seed in range(200 if manifold.flat else 4):
        data, other = neighbours(manifold, n, radius, seed)
        if seed % 2:
            lines = np.tile(rng.standard_normal(6), (n, 1))
            lines *= radius / np.linalg.norm(lines[0])
            data = manifold.exp(manifold.origin, lines)
            other = data.copy()
            other[-1] = manifold.exp(manifold.origin, -lines[0])
        means = [frechet_mean(points, manifold).point for points in (data, other)]
        assert np.linalg.norm(means[0] - means[1]) <= bound
