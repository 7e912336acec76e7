"""Agreement with independent implementations: pyRiemann, SciPy, 50-digit arithmetic."""

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest
from scipy.spatial import procrustes

from covdp.arrays import FloatArray
from covdp.geometry import MANIFOLDS, frechet_mean, sym_exp, sym_log, vecd
from tests.tools.addons import addon

preshape = addon("papers.kendall:preshape")

AFFINE, EUCLID, CHOLESKY = "spd-affine-invariant", "spd-log-euclidean", "spd-log-cholesky"


def peer(name: str) -> Any:
    """Return a function of pyRiemann's, which brings PyTorch along: imported where it is used."""
    from pyriemann.geometry import (  # type: ignore[import-untyped]
        base,
        distance,
        mean,
        tangentspace,
    )

    homes = (base, distance, mean, tangentspace)
    return next(getattr(home, name) for home in homes if hasattr(home, name))


def covariances(*batch: int, k: int = 5, seed: int = 0) -> FloatArray:
    """Return sample covariances of features whose scales spread over two decades."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(*batch, 4 * k, k)) * np.logspace(1.0, -1.0, k)
    return np.asarray(x.swapaxes(-1, -2) @ x / (4 * k))


@pytest.mark.parametrize("k", [2, 5, 9, 15])
def test_functions_agree_with_pyriemann(k: int) -> None:
    """Logarithm and exponential are pyRiemann's."""
    x = covariances(20, k=k)
    np.testing.assert_allclose(sym_log(x), peer("logm")(x), atol=1e-10)
    s = sym_log(x)
    np.testing.assert_allclose(sym_exp(s), peer("expm")(s), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        (AFFINE, "distance_riemann"),
        (EUCLID, "distance_logeuclid"),
        (CHOLESKY, "distance_logchol"),
    ],
)
def test_distances_agree_with_pyriemann(name: str, theirs: str) -> None:
    """The three distances on SPD(5) are pyRiemann's."""
    x, y = covariances(30, seed=1), covariances(30, seed=2)
    np.testing.assert_allclose(MANIFOLDS[name](k=5).dist(x, y), peer(theirs)(x, y), rtol=1e-10)


def test_affine_chart_agrees_with_its_definition() -> None:
    """log(B, X) = vecd(log(B^{−1/2} X B^{−1/2})) in plain NumPy, and exp is its inverse."""
    manifold = MANIFOLDS[AFFINE](k=5)
    base, x = covariances(10, seed=3), covariances(10, seed=4)
    values, vectors = np.linalg.eigh(base)
    half = (vectors * np.sqrt(values)[:, None]) @ vectors.swapaxes(-1, -2)
    root = np.linalg.inv(half)
    values, vectors = np.linalg.eigh(root @ x @ root)
    expected = (vectors * np.log(values)[:, None]) @ vectors.swapaxes(-1, -2)
    np.testing.assert_allclose(manifold.log(base, x), vecd(expected), atol=1e-9)
    inner = peer("expm")(expected)
    end = manifold.exp(base, vecd(expected))
    np.testing.assert_allclose(end, half @ inner @ half, rtol=1e-9, atol=1e-9)


def test_affine_chart_agrees_with_pyriemann() -> None:
    """The whitened logarithmic and exponential maps are pyRiemann's."""
    base, x = covariances(seed=5), covariances(10, seed=6)
    manifold = MANIFOLDS[AFFINE](k=5)
    theirs = peer("log_map_riemann")(x, base)
    np.testing.assert_allclose(manifold.log(base, x), vecd(theirs), atol=1e-8)
    end = peer("exp_map_riemann")(theirs, base)
    np.testing.assert_allclose(manifold.exp(base, vecd(theirs)), end, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("grading", [1.0, 1e6])
def test_affine_distance_has_its_digits(grading: float) -> None:
    """Distances agree with 50-digit arithmetic to 1e-9, also for features graded to 1e12."""
    rng = np.random.default_rng(7)
    scale = np.geomspace(math.sqrt(grading), 1.0 / math.sqrt(grading), 4)
    for _ in range(3):
        x, y = (
            scale[:, None] * one * scale for one in covariances(2, k=4, seed=int(rng.integers(99)))
        )
        x, y = (x + x.T) / 2.0, (y + y.T) / 2.0
        with mpmath.workdps(50):
            lower = mpmath.cholesky(mpmath.matrix(x.tolist())) ** -1
            values, _ = mpmath.eigsy(lower * mpmath.matrix(y.tolist()) * lower.T)
            exact = float(mpmath.sqrt(sum(mpmath.log(value) ** 2 for value in values)))
        assert float(MANIFOLDS[AFFINE](k=4).dist(x, y)) == pytest.approx(exact, rel=1e-9)


def test_log_cholesky_chart_is_the_published_one() -> None:
    """Coordinates: log of the diagonal, then what is below it row by row, of the factor L."""
    manifold = MANIFOLDS[CHOLESKY](k=3)
    x = covariances(k=3)
    lower = np.linalg.cholesky(x)
    expected = [*np.log(np.diag(lower)), lower[1, 0], lower[2, 0], lower[2, 1]]
    np.testing.assert_allclose(manifold.log(np.eye(3), x), expected, rtol=1e-12)


@pytest.mark.addons
@pytest.mark.parametrize("distance", [1e-8, 1e-3, 1.0, 10.0])
def test_hyperbolic_distance_has_its_digits(distance: float) -> None:
    """The distance is arccosh(−⟨p, q⟩_L) in 60-digit arithmetic, for the points as stored."""
    manifold = MANIFOLDS["hyperbolic"](dim=3)
    rng = np.random.default_rng(8)
    for _ in range(5):
        u, v = rng.normal(size=(2, 3))
        p = manifold.exp(manifold.origin, 2.0 * u / np.linalg.norm(u))
        q = manifold.exp(p, distance * v / np.linalg.norm(v))
        with mpmath.workdps(60):
            a, b = ([mpmath.mpf(x) for x in point[1:]] for point in (p, q))
            tops = mpmath.sqrt((1 + sum(x * x for x in a)) * (1 + sum(x * x for x in b)))
            exact = float(mpmath.acosh(tops - sum(x * y for x, y in zip(a, b, strict=True))))
        assert float(manifold.dist(p, q)) == pytest.approx(exact, rel=1e-13, abs=1e-15)


@pytest.mark.addons
def test_hyperbolic_chart_is_the_textbook_one() -> None:
    """exp(p, u) = cosh r p + sinh r Bu/r, B the boost e₀ ↦ p applied to the frame e₁, …, e_d."""
    manifold = MANIFOLDS["hyperbolic"](dim=2)
    rng = np.random.default_rng(9)
    u, v = rng.normal(size=(2, 2))
    p = manifold.exp(manifold.origin, u)
    boost = np.empty((3, 3))
    boost[:, 0] = p
    boost[0, 1:] = p[1:]
    boost[1:, 1:] = np.eye(2) + np.outer(p[1:], p[1:]) / (1.0 + p[0])
    radius = np.linalg.norm(v)
    expected = math.cosh(radius) * p + math.sinh(radius) * boost @ [0.0, *v / radius]
    np.testing.assert_allclose(manifold.exp(p, v), expected, rtol=1e-12)


@pytest.mark.addons
def test_sphere_chart_is_the_textbook_one() -> None:
    """The distance is arccos⟨p, q⟩; exp(p, u) = cos r p + sin r Ru/r, R the rotation e₀ ↦ p."""
    manifold = MANIFOLDS["sphere"](dim=2)
    rng = np.random.default_rng(10)
    u, v = rng.normal(size=(2, 2))
    p = manifold.exp(manifold.origin, u / 2.0)
    turn = np.empty((3, 3))
    turn[:, 0] = p
    turn[0, 1:] = -p[1:]
    turn[1:, 1:] = np.eye(2) - np.outer(p[1:], p[1:]) / (1.0 + p[0])
    radius = np.linalg.norm(v)
    expected = math.cos(radius) * p + math.sin(radius) * turn @ [0.0, *v / radius]
    q = manifold.exp(p, v)
    np.testing.assert_allclose(q, expected, atol=1e-14)
    assert float(manifold.dist(p, q)) == pytest.approx(math.acos(p @ q), rel=1e-12)


@pytest.mark.addons
def test_shape_distance_is_the_procrustes_distance() -> None:
    """sin² dist is SciPy's Procrustes disparity, when no reflection would fit better."""
    rng = np.random.default_rng(11)
    manifold = MANIFOLDS["kendall"](landmarks=9)
    for _ in range(5):
        first = rng.normal(size=(9, 2))
        second = first + 0.2 * rng.normal(size=(9, 2))
        disparity = procrustes(first, second)[2]
        distance = float(manifold.dist(preshape(first), preshape(second)))
        assert math.sin(distance) ** 2 == pytest.approx(disparity, rel=1e-9)


@pytest.mark.addons
def test_shape_chart_is_the_horizontal_lift() -> None:
    """Logarithms have the lengths and inner products of θ (w e^{iα} − cos θ z)/sin θ."""
    rng = np.random.default_rng(12)
    manifold = MANIFOLDS["kendall"](landmarks=6)
    z = preshape(rng.normal(size=(6, 2)))
    shapes = preshape(z[:, None].view(np.float64).reshape(6, 2) + 0.1 * rng.normal(size=(4, 6, 2)))
    inner = shapes @ z.conj()
    theta = np.arccos(np.abs(inner))[:, None]
    turned = shapes * (inner.conj() / np.abs(inner))[:, None]
    lifts = theta * (turned - np.cos(theta) * z) / np.sin(theta)
    u = manifold.log(z, shapes)
    np.testing.assert_allclose(u @ u.T, (lifts @ lifts.conj().T).real, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        (EUCLID, "mean_logeuclid"),
        (CHOLESKY, "mean_logchol"),
    ],
)
def test_flat_means_agree_with_pyriemann(name: str, theirs: str) -> None:
    """The closed forms are pyRiemann's, with and without weights."""
    x = covariances(40, seed=13)
    weights = np.random.default_rng(14).uniform(size=40)
    manifold = MANIFOLDS[name](k=5)
    np.testing.assert_allclose(
        frechet_mean(x, manifold).point, peer(theirs)(x), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        frechet_mean(x, manifold, weights=weights).point,
        peer(theirs)(x, sample_weight=weights),
        rtol=1e-9,
        atol=1e-9,
    )


def test_affine_mean_agrees_with_pyriemann() -> None:
    """The affine-invariant mean is pyRiemann's, with and without weights."""
    x = covariances(40, seed=15)
    weights = np.random.default_rng(16).uniform(size=40)
    manifold = MANIFOLDS[AFFINE](k=5)
    for choice in (None, weights):
        theirs = peer("mean_riemann")(x, tol=1e-10, sample_weight=choice)
        ours = frechet_mean(x, manifold, weights=choice).point
        assert float(manifold.dist(ours, theirs)) < 1e-8
