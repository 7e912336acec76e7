"""The inductive mean: sensitivity without convergence, near the Fréchet mean, sure to end.

Random tests are seeded; they compare with proven bounds or fixed figures and raise no false alarm.
"""

import math

import mpmath
import numpy as np
import pytest
from sample_manifolds import MEDIUM, charted

from pipeline.arrays import FloatArray
from pipeline.errors import DomainError, PrivacyError
from pipeline.geometry import (
    MANIFOLDS,
    frechet_mean,
    inductive_mean,
    inductive_mean_of_parts,
    loops,
    unvecd,
    vecd,
)
from pipeline.geometry.affine import factor_logs, walk
from pipeline.geometry.inductive import LOOK_ERROR, STEP_ERROR, one_pass
from pipeline.geometry.linalg import cholesky, polar
from pipeline.mean import Ball, admit, region

AFFINE, HYPERBOLIC = MEDIUM["spd-affine-invariant"], MEDIUM["hyperbolic"]
SPACES = {name: charted(space) for name, space in MEDIUM.items() if space.hadamard}


def hard(rng: np.random.Generator, count: int, k: int = 5, low: float = 1e-6) -> FloatArray:
    """Return SPD matrices with eigenvalues at `low` or 1e5 and any eigenvectors."""
    vectors = np.linalg.qr(rng.standard_normal((count, k, k)))[0]
    values = np.where(rng.random((count, k)) < 0.5, low, 1e5)
    return (vectors * values[:, None]) @ vectors.swapaxes(1, 2)


@pytest.mark.usefixtures("short_walks")
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_one_record_moves_it_by_at_most_its_own_move_over_n(space: str, n: int) -> None:
    """dist(S, S') ≤ dist(x, x')/n, up to the stated rounding; near 1/n where it is flat."""
    manifold, rng = SPACES[space], np.random.default_rng(n)
    for spread in (0.1, 1.0, 4.0):
        points = manifold.exp(manifold.origin, spread * rng.standard_normal((n, manifold.dim)))
        other = points.copy()
        other[rng.integers(n)] = manifold.exp(
            manifold.origin, spread * rng.standard_normal(manifold.dim)
        )
        (a, rounding, _), (b, _, _) = (
            inductive_mean(x, manifold, condition=1e11) for x in (points, other)
        )
        own, moved = manifold.dist(points, other).max() / n, float(manifold.dist(a, b))
        assert moved <= own + 2.0 * rounding
        if manifold.flat:
            assert moved == pytest.approx(own, rel=1e-9)


@pytest.mark.parametrize("space", SPACES)
def test_it_is_near_the_frechet_mean(space: str) -> None:
    """On 500 records of spread 1 it is within 0.01 of the mean; the same when flat."""
    manifold, rng = SPACES[space], np.random.default_rng(1)
    points = manifold.exp(manifold.origin, rng.standard_normal((500, manifold.dim)))
    apart = manifold.dist(
        inductive_mean(points, manifold, condition=1e11).point, frechet_mean(points, manifold).point
    )
    assert apart < (1e-12 if manifold.flat else 0.01)


def test_the_walk_on_factors_is_the_walk_on_matrices() -> None:
    """The compiled steps are x ↦ exp_x(log_x(x_t)/t)."""
    manifold, rng = MANIFOLDS["spd-affine-invariant"](k=4), np.random.default_rng(2)
    points = manifold.exp(manifold.origin, rng.standard_normal((20, manifold.dim)))
    order = rng.integers(0, 20, 60)
    place = points[order[0]]
    for t, index in enumerate(order[1:], start=2):
        place = manifold.exp(place, manifold.log(place, points[index]) / t)
    factor = walk([cholesky(points[order])])
    assert np.array_equal(factor, np.tril(factor))
    assert manifold.dist(factor @ factor.T, place) < 1e-11


@pytest.mark.usefixtures("short_walks")
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("n", [1, 7, 210])
def test_parts_are_walked_through_as_they_come(space: str, n: int) -> None:
    """However points are cut into parts, the place is that of one walk, to the last bit."""
    manifold, rng = SPACES[space], np.random.default_rng(n)
    points = manifold.exp(manifold.origin, rng.standard_normal((n, manifold.dim)))
    passes = math.ceil(100 / n)
    point, factor = one_pass([np.concatenate([points] * passes)], manifold)
    for cuts in ([], [n // 3], [1, n // 2, n // 2 + 1]):
        parts = [part for part in np.split(points, cuts) if len(part)]
        found = inductive_mean_of_parts(parts, n, manifold, condition=1e11)
        assert np.array_equal(found.point, point)
        assert found.rounding == inductive_mean(points, manifold, condition=1e11).rounding
        assert (found.factor is None) == (factor is None)
        assert found.factor is None or np.array_equal(found.factor, factor)


@pytest.mark.slow
@pytest.mark.parametrize("low", [1e-6, 1e-9])
def test_a_step_errs_by_less_than_stated(low: float) -> None:
    """On matrices with eigenvalues `low` and 1e5, against 60 digits: a tenth of `STEP_ERROR`."""
    rng, worst = np.random.default_rng(3), 0.0
    with mpmath.workdps(60):
        for t in (2, 3, 100):
            for pair in hard(rng, 24, low=low).reshape(-1, 2, 5, 5):
                factors = cholesky(pair)
                found = factors[0].copy()
                assert loops.walk(found, factors, np.array([1]), t)
                worst = max(worst, exact_gap(factors, found, t))
    assert 1e-15 < worst < STEP_ERROR * math.sqrt(1e-6 / low) / 10


@pytest.mark.slow
@pytest.mark.parametrize(("k", "low"), [(5, 1e-6), (5, 1e-9), (11, 1e-9)])
def test_a_look_errs_by_less_than_stated(k: int, low: float) -> None:
    """The vector log(p, S), p as its computed factor, misses the exact one by `LOOK_ERROR`/10."""
    rng, worst = np.random.default_rng(5), 0.0
    with mpmath.workdps(60):
        for pair in hard(rng, 32, k, low).reshape(-1, 2, k, k):
            base, factor = cholesky(pair)
            seen = mpmath.matrix(base.tolist()) ** -1 * mpmath.matrix(factor.tolist())
            values, axes = mpmath.eigsy(seen * seen.T)
            exact = axes * mpmath.diag([mpmath.log(value) for value in values]) * axes.T
            turn = mpmath.matrix(polar(base).tolist())
            exact = np.array((turn * exact * turn.T).tolist(), dtype=float)
            found = unvecd(factor_logs(pair[0], factor))
            worst = max(worst, float(np.linalg.norm(found - exact)))
    assert 1e-15 < worst < LOOK_ERROR / 10


def test_hyperbolic_steps_and_looks_err_by_less_than_stated() -> None:
    """Up to 10 from the origin, against 60 digits: a tenth of `STEP_ERROR` and of `LOOK_ERROR`."""
    space, rng, walked, looked = HYPERBOLIC, np.random.default_rng(7), 0.0, 0.0
    with mpmath.workdps(60):
        for _ in range(40):
            spokes = rng.standard_normal((2, 3))
            spokes *= ([10.0, rng.choice([0.01, 3.0, 10.0])] / np.linalg.norm(spokes, axis=1))[
                :, None
            ]
            p, q = space.exp(space.origin, spokes)
            low, high = on_hyperboloid(p), on_hyperboloid(q)
            apart = hyperbolic_gap(low, high)
            looked = max(looked, abs(float(np.linalg.norm(space.log(p, q))) - float(apart)))
            for t in (2, 3, 100):
                shares = mpmath.sinh(apart * (t - 1) / t), mpmath.sinh(apart / t)
                place = (shares[0] * low + shares[1] * high) / mpmath.sinh(apart)
                found = on_hyperboloid(space.exp(p, space.log(p, q) / t))
                walked = max(walked, float(hyperbolic_gap(found, place)))
    assert 1e-16 < walked < STEP_ERROR / 10
    assert 1e-16 < looked < LOOK_ERROR / 10


def on_hyperboloid(point: FloatArray) -> mpmath.matrix:
    """Return a point, its time-like coordinate exact, as the class reads it."""
    space = mpmath.matrix(point[1:].tolist())
    return mpmath.matrix([mpmath.sqrt(1 + sum(x**2 for x in space)), *space])


def hyperbolic_gap(p: mpmath.matrix, q: mpmath.matrix) -> mpmath.mpf:
    """Return the exact distance of two points: sinh²(dist/2) is a quarter of ⟨p − q, p − q⟩_L."""
    gap = [x**2 for x in p - q]
    return 2 * mpmath.asinh(mpmath.sqrt(max(sum(gap[1:]) - gap[0], 0)) / 2)


@pytest.mark.slow
def test_one_of_many_copies_of_a_hard_matrix_moves_little() -> None:
    """Looked at from anywhere, 100,000 copies move by dist/n with one of them, to within rounding.

    The array of the mean alone, without its factor, would seem to move farther.
    """
    manifold, rng = MANIFOLDS["spd-affine-invariant"](k=5), np.random.default_rng(6)
    a, b, p = hard(rng, 3, low=1e-9)
    copies = np.repeat(a[None], 100_000, axis=0)
    other = copies.copy()
    other[17] = b
    one, two = (inductive_mean(points, manifold, condition=1e14) for points in (copies, other))
    own = float(manifold.dist(a, b)) / len(copies)
    for base in (manifold.origin, p):
        moved = one.seen_from(base, manifold) - two.seen_from(base, manifold)
        assert np.linalg.norm(moved) <= own * (1.0 + 1e-6)
    stored = manifold.log(p, one.point) - manifold.log(p, two.point)
    assert np.linalg.norm(stored) > 1.5 * own


def exact_gap(factors: FloatArray, found: FloatArray, t: int) -> float:
    """Return the distance between found·foundᵀ and the exact place 1/t of the way."""
    c, x, f = (mpmath.matrix(a.tolist()) for a in (*factors, found))
    inverse = c**-1
    values, vectors = mpmath.eigsy(inverse * x * x.T * inverse.T)
    power = mpmath.diag([value ** (-mpmath.mpf(1) / (2 * t)) for value in values])
    seen = power * vectors.T * inverse * f
    logs = [mpmath.log(value) for value in mpmath.eigsy(seen * seen.T, eigvals_only=True)]
    return float(mpmath.sqrt(sum(log**2 for log in logs)))


@pytest.mark.slow
def test_it_always_ends() -> None:
    """Copies, pairs and crowds of the hardest matrices: a mean between them, never an error."""
    manifold, rng = MANIFOLDS["spd-affine-invariant"](k=5), np.random.default_rng(4)
    for n in (1, 2, 3, 10):
        for _ in range(30):
            points = hard(rng, n)
            for records in (points, np.repeat(points[:1], n, axis=0)):
                values = np.linalg.eigvalsh(inductive_mean(records, manifold, condition=1e11).point)
                assert values[-1] < 1.001e5
                assert np.isfinite(values).all()


def test_the_condition_of_a_ball_counts_its_centre() -> None:
    """No matrix within r of a centre exceeds the stated condition number, and some reach it."""
    manifold, rng = MANIFOLDS["spd-affine-invariant"](k=3), np.random.default_rng(9)
    center, radius = np.diag([1e4, 1.0, 1e-2]), 2.0
    stated = region(Ball(radius, manifold.name, center), manifold).condition
    spokes = rng.standard_normal((200, 6))
    spokes[0] = vecd(np.diag([1.0, 0.0, -1.0]))
    spokes *= radius / np.linalg.norm(spokes, axis=-1, keepdims=True)
    found = np.linalg.cond(manifold.exp(center, spokes))
    assert found.max() <= stated * (1.0 + 1e-9)
    assert found[0] == pytest.approx(stated)


def test_refusals() -> None:
    """No record, or a manifold with positive curvature, is one clear line."""
    with pytest.raises(DomainError, match="larger eta"):
        inductive_mean(AFFINE.origin[None], AFFINE, condition=1e16)
    with pytest.raises(DomainError, match="found 0"):
        inductive_mean(np.empty((0, 3, 3)), AFFINE, condition=1.0)
    sphere = MANIFOLDS["sphere"](dim=2)
    with pytest.raises(DomainError, match="Hadamard"):
        inductive_mean(sphere.origin[None], sphere, condition=1.0)


def test_the_stated_rounding_grows_with_steps_and_condition() -> None:
    """It is what the tests above measure: (T + 1)/2 steps, √(condition/1e11) each, and a look."""
    manifold = AFFINE
    points = np.stack([np.eye(3)] * 3)
    steps = 3 * math.ceil(2000 / 3)
    for condition, factor in [(1.0, 1.0), (1e11, 1.0), (1e13, 10.0), (1e15, 100.0)]:
        stated = inductive_mean(points, manifold, condition=condition).rounding
        assert stated == pytest.approx(factor * STEP_ERROR * (steps + 1) / 2 + LOOK_ERROR)


@pytest.mark.parametrize("away", [0.0, 6.0, 25.0])
def test_a_walk_is_refused_where_its_rounding_was_not_measured(away: float) -> None:
    """What counts is how far records may be from the origin, not from the centre of their ball."""
    space = MANIFOLDS["hyperbolic"](dim=2)
    centre = space.exp(space.origin, np.array([away, 0.0]))
    ball = Ball(radius=3.0, manifold=space.name, center=centre)
    records = admit(centre[np.newaxis], domain=ball, manifold=space)
    if away + 3.0 <= space.walk_reach:
        records.check_walk()
        return
    with pytest.raises(PrivacyError, match=f"within {away + 3.0:g} of the origin"):
        records.check_walk()
