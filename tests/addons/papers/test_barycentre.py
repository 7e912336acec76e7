"""The barycentre of a release: D/n wherever a neighbour's file sorts to, and never a failure.

Random tests are seeded; they compare with proven bounds or fixed figures and raise no false alarm.
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from sample_manifolds import MEDIUM

from covdp.arrays import FloatArray
from covdp.datasets import open_dataset
from covdp.descriptors import describe, domain
from covdp.errors import DomainError, PrivacyError
from covdp.geometry import MANIFOLDS, Manifold, Point, unvecd, vecd
from covdp.geometry.linalg import cholesky, polar
from covdp.mean import Ball, Records, admit, feasible_set, release_plan
from covdp.mean import records as barycentres
from covdp.mean.records import (
    GRADIENT_ROUNDING,
    GRADIENT_TOLERANCE,
    Barycentre,
    gradient,
    most_steps,
)
from covdp.mean.sensitivity import sensitivity
from covdp.mean.sums import parts_of
from covdp.mechanisms import MECHANISMS
from tests.tools.trace import Watcher

AFFINE, HYPERBOLIC = MEDIUM["spd-affine-invariant"], MEDIUM["hyperbolic"]
CURVED = [AFFINE, HYPERBOLIC]
WIDE = 40.0
"""A diameter that no test's points exceed."""


def mean_of(points: Point, manifold: Manifold, condition: float = 1e11) -> Barycentre:
    """Return the barycentre of points of a region of diameter `WIDE`."""
    return barycentres.barycentre(
        parts_of(points),
        len(points),
        manifold,
        centre=manifold.origin,
        diameter=WIDE,
        condition=condition,
    )


def hard(rng: np.random.Generator, count: int, k: int = 5, low: float = 1e-6) -> FloatArray:
    """Return SPD matrices with eigenvalues at `low` or 1e5 and any eigenvectors."""
    vectors = np.linalg.qr(rng.standard_normal((count, k, k)))[0]
    values = np.where(rng.random((count, k)) < 0.5, low, 1e5)
    return (vectors * values[:, None]) @ vectors.swapaxes(1, 2)


def elsewhere(points: Point, new: Point, at: int, to: int) -> Point:
    """Return the neighbour without record `at`, and with another at the place `to`."""
    return np.insert(np.delete(points, at, axis=0), to, new, axis=0)


# sensitivity


@pytest.mark.parametrize("manifold", CURVED, ids=lambda m: m.name)
@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_one_record_moves_it_by_at_most_its_own_move_over_n(manifold: Manifold, n: int) -> None:
    """dist(x̄, x̄') ≤ dist(x, x')/n and the stated rounding, wherever the new record is put."""
    rng = np.random.default_rng(n)
    for spread in (0.1, 1.0, 2.0):
        points = manifold.exp(manifold.origin, spread * rng.standard_normal((n, manifold.dim)))
        new = manifold.exp(manifold.origin, spread * rng.standard_normal(manifold.dim))
        at, to = (int(place) for place in rng.integers(n, size=2))
        one, two = (mean_of(x, manifold) for x in (points, elsewhere(points, new, at, to)))
        own, moved = manifold.dist(points[at], new) / n, manifold.dist(one.point, two.point)
        assert moved <= own + 2.0 * one.rounding


def stripes(n: int, rng: np.random.Generator) -> FloatArray:
    """Return descriptors of images of stripes, checks and half planes, and their mixtures."""
    rows, columns = np.indices((28, 28))
    kinds = [rows % 2, columns % 2, (rows + columns) % 2, rows < 14, columns < 14, rows == columns]
    chosen, high = rng.integers(len(kinds), size=n), rng.integers(1, 256, size=n)
    return describe(np.array([kinds[i] * a for i, a in zip(chosen, high, strict=True)], np.uint8))


def rank_one(n: int, rng: np.random.Generator) -> FloatArray:
    """Return η·Id and a matrix of rank 1 each, in any direction."""
    v = rng.standard_normal((n, 5))
    v *= 200.0 / np.linalg.norm(v, axis=-1, keepdims=True)
    return v[:, :, None] * v[:, None, :] + 1e-6 * np.eye(5)


def two_kinds(n: int, rng: np.random.Generator) -> FloatArray:
    """Return two matrices as far apart as can be in turns, so that a shift moves each record."""
    ends = np.stack([np.diag([1e4, 1e4, 1e-6, 1e-6, 1e-6]), np.diag([1e-6, 1e-6, 1e4, 1e4, 1e4])])
    return ends[np.arange(n) % 2]


@pytest.mark.parametrize("n", [9, 600, pytest.param(6000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("records", [stripes, rank_one, two_kinds])
def test_a_neighbour_that_sorts_elsewhere_moves_a_release_by_its_sensitivity(
    records: object, n: int
) -> None:
    """The first of n records gone and another behind the last: log(Id, x̄) moves by Δ or less.

    With an inductive mean it was 18·D/n for 6,000 matrices of rank 1.
    """
    made = records(n + 1, np.random.default_rng(5))  # type: ignore[operator]
    space = MANIFOLDS["spd-affine-invariant"](k=5)
    facts = domain("oct5", height=28, width=28, manifold=space.name)
    both = [admit(points, domain=facts, manifold=space) for points in (made[:-1], made[1:])]
    one, two = (one.barycentre.seen_from(space.origin, space) for one in both)
    plan = release_plan("ewg", hardened=True)
    stated = sensitivity(both[0], plan, MECHANISMS["ewg"])  # type: ignore[arg-type]
    assert float(np.linalg.norm(one - two)) <= stated
    apart = float(space.dist(*(admit(x[None], domain=facts, manifold=space).placed[0]
                               for x in (made[0], made[-1]))))  # fmt: skip
    assert float(np.linalg.norm(one - two)) <= apart / n + 2.0 * both[0].barycentre.rounding
    assert stated <= 1.001 * facts.diameter / n + 1e-6


@pytest.mark.parametrize("manifold", CURVED, ids=lambda m: m.name)
def test_neither_order_nor_cuts_change_a_bit(manifold: Manifold) -> None:
    """Records in any order, in one array or in chunks, some of them empty: one mean."""
    rng = np.random.default_rng(8)
    points = manifold.exp(manifold.origin, rng.standard_normal((40, manifold.dim)))
    wanted = mean_of(points, manifold)
    for cuts in ([], [1], [3, 3, 20, 39]):
        mixed = points[rng.permutation(40)]

        class Pieces:
            n = 40

            def __iter__(self):  # type: ignore[no-untyped-def]
                return iter(np.split(mixed, cuts))  # noqa: B023

        found = barycentres.barycentre(
            parts_of(Pieces()), 40, manifold, centre=manifold.origin, diameter=WIDE, condition=1e11
        )
        assert np.array_equal(found.point, wanted.point)
        assert (found.factor is None) == (wanted.factor is None)
        assert found.factor is None or np.array_equal(found.factor, wanted.factor)


def test_the_mean_of_tiles_does_not_know_their_order() -> None:
    """Real images in the order of the file and in another: the same, to the last bit."""
    images = np.concatenate(list(open_dataset("tiles").chunks(label=1)))[:300]
    space = MANIFOLDS["spd-affine-invariant"](k=9)
    facts = domain("grid9", height=28, width=28, manifold=space.name)
    points = describe(images, "grid9")
    one, two = (
        admit(x, domain=facts, manifold=space).barycentre for x in (points, points[::-1].copy())
    )
    assert np.array_equal(one.point, two.point)


# accuracy, and that it ends


@pytest.mark.slow
@pytest.mark.parametrize("low", [1e-6, 1e-9])
def test_the_exact_gradient_at_the_mean_is_within_the_stated_rounding(low: float) -> None:
    """Against 60 digits: ‖grad F‖ at C·Cᵀ, which bounds the distance to the exact mean."""
    manifold, rng = MANIFOLDS["spd-affine-invariant"](k=5), np.random.default_rng(3)
    condition, worst = 1e5 / low, 0.0
    with mpmath.workdps(60):
        for n in (2, 3, 5):
            points = hard(rng, n, low=low)
            factors, found = cholesky(points), mean_of(points, manifold, condition)
            assert found.factor is not None
            exact = exact_pull(found.factor, factors)
            pull, _, _ = gradient(parts_of(factors), n, manifold, found.factor, WIDE)
            worst = max(worst, float(np.linalg.norm(vecd(exact) - pull)))
            assert float(np.linalg.norm(exact)) <= found.rounding
    assert 1e-15 < worst < GRADIENT_ROUNDING * math.sqrt(max(1.0, condition / 1e11)) / 2


def exact_pull(base: FloatArray, factors: FloatArray) -> FloatArray:
    """Return the mean of log(C⁻¹ X C⁻ᵀ), worked out in the digits of mpmath."""
    inverse, total = mpmath.matrix(base.tolist()) ** -1, mpmath.zeros(len(base))
    for factor in factors:
        seen = inverse * mpmath.matrix(factor.tolist())
        values, axes = mpmath.eigsy(seen * seen.T)
        total += axes * mpmath.diag([mpmath.log(value) for value in values]) * axes.T
    return np.array((total / len(factors)).tolist(), dtype=float)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "low"), [(5, 1e-6), (5, 1e-9), (11, 1e-9)])
def test_a_look_errs_by_less_than_stated(k: int, low: float) -> None:
    """The vector log(p, x̄), p as its computed factor, is off by `GRADIENT_ROUNDING`/10."""
    rng, worst = np.random.default_rng(5), 0.0
    with mpmath.workdps(60):
        for pair in hard(rng, 32, k, low).reshape(-1, 2, k, k):
            base, factor = cholesky(pair)
            turn = mpmath.matrix(polar(base).tolist())
            exact = mpmath.matrix(exact_pull(base, factor[None]).tolist())
            exact = np.array((turn * exact * turn.T).tolist(), dtype=float)
            space = MANIFOLDS["spd-affine-invariant"](k=len(factor))
            found = unvecd(space.factor_logs(pair[0], factor))  # type: ignore[attr-defined]
            worst = max(worst, float(np.linalg.norm(found - exact)))
    assert 1e-15 < worst < GRADIENT_ROUNDING / 10


def test_hyperbolic_looks_err_by_less_than_stated() -> None:
    """Up to 10 from the origin, against 60 digits: a tenth of `GRADIENT_ROUNDING`."""
    space, rng, looked = HYPERBOLIC, np.random.default_rng(7), 0.0
    with mpmath.workdps(60):
        for _ in range(40):
            spokes = rng.standard_normal((2, 3))
            spokes *= ([10.0, rng.choice([0.01, 3.0, 10.0])] / np.linalg.norm(spokes, axis=1))[
                :, None
            ]
            p, q = space.exp(space.origin, spokes)
            apart = hyperbolic_gap(on_hyperboloid(p), on_hyperboloid(q))
            looked = max(looked, abs(float(np.linalg.norm(space.log(p, q))) - float(apart)))
    assert 1e-16 < looked < GRADIENT_ROUNDING / 10


def on_hyperboloid(point: FloatArray) -> mpmath.matrix:
    """Return a point, its time-like coordinate exact, as the class reads it."""
    space = mpmath.matrix(point[1:].tolist())
    return mpmath.matrix([mpmath.sqrt(1 + sum(x**2 for x in space)), *space])


def hyperbolic_gap(p: mpmath.matrix, q: mpmath.matrix) -> mpmath.mpf:
    """Return the exact distance of two points: sinh²(dist/2) is a quarter of ⟨p − q, p − q⟩_L."""
    gap = [x**2 for x in p - q]
    return 2 * mpmath.asinh(mpmath.sqrt(max(sum(gap[1:]) - gap[0], 0)) / 2)


def test_it_always_ends_at_its_tolerance(watch: Watcher) -> None:
    """Copies, pairs and crowds of the hardest matrices: at τ before the public number of steps."""
    manifold, rng = MANIFOLDS["spd-affine-invariant"](k=5), np.random.default_rng(4)
    steps = watch(barycentres.gradient)
    for n in (1, 2, 3, 10):
        for _ in range(10):
            points = hard(rng, n)
            for records in (points, np.repeat(points[:1], n, axis=0)):
                steps.clear()
                found = mean_of(records, manifold)
                assert steps[-1].result[1] <= GRADIENT_TOLERANCE
                assert len(steps) < most_steps(WIDE, GRADIENT_TOLERANCE, manifold)
                assert np.isfinite(found.point).all()


def test_the_number_of_steps_is_public_and_enough() -> None:
    """It is ln(D/τ)·(L + 1)/2 for the largest L, so that the worst rate reaches τ from D."""
    for manifold, curvature in [(AFFINE, 0.5), (HYPERBOLIC, 1.0)]:
        for diameter in (0.5, 10.0, 64.0):
            bent = math.sqrt(curvature) * diameter
            largest = math.sqrt(1 + (2 * bent) ** 2) + bent
            steps = most_steps(diameter, GRADIENT_TOLERANCE, manifold) - 1  # one may be taken back
            assert diameter * ((largest - 1) / (largest + 1)) ** steps <= GRADIENT_TOLERANCE


def test_a_whole_step_that_shrinks_too_little_is_taken_back(watch: Watcher) -> None:
    """Where t = 1 overshoots, far out on a curved manifold, the next step starts where it did."""
    manifold, rng = HYPERBOLIC, np.random.default_rng(1)
    spokes = rng.standard_normal((6, manifold.dim))
    spokes *= 9.0 / np.linalg.norm(spokes, axis=-1, keepdims=True)
    points, calls = manifold.exp(manifold.origin, spokes), watch(barycentres.gradient)
    start = points[0]
    found = barycentres.barycentre(
        parts_of(points), 6, manifold, centre=start, diameter=18.0, condition=1e11
    )
    visited = [(call.given["at"], call.result[1]) for call in calls]
    pull, size, bound = barycentres.gradient(parts_of(points), 6, manifold, start, 18.0)
    assert visited[1][1] > size * (bound - 1.0) / (bound + 1.0)
    np.testing.assert_array_equal(visited[1][0], manifold.exp(start, pull))
    np.testing.assert_array_equal(visited[2][0], manifold.exp(start, pull * 2.0 / (1.0 + bound)))
    sizes = [size for _, size in (visited[0], *visited[2:])]
    assert (np.diff(sizes) < 0.0).all()
    logs = manifold.log(found.point, points).mean(axis=0)
    assert float(np.linalg.norm(logs)) <= 2.0 * GRADIENT_TOLERANCE


# what is refused, in public


def test_the_condition_of_a_ball_counts_its_centre() -> None:
    """No matrix within r of a centre exceeds the stated condition number, and some reach it."""
    manifold, rng = MANIFOLDS["spd-affine-invariant"](k=3), np.random.default_rng(9)
    center, radius = np.diag([1e4, 1.0, 1e-2]), 2.0
    stated = feasible_set(Ball(radius, manifold.name, center), manifold).condition
    spokes = rng.standard_normal((200, 6))
    spokes[0] = vecd(np.diag([1.0, 0.0, -1.0]))
    spokes *= radius / np.linalg.norm(spokes, axis=-1, keepdims=True)
    found = np.linalg.cond(manifold.exp(center, spokes))
    assert found.max() <= stated * (1.0 + 1e-9)
    assert found[0] == pytest.approx(stated)


def test_refusals() -> None:
    """Too large a condition number, or a manifold with positive curvature, is one clear line."""
    with pytest.raises(DomainError, match="larger eta"):
        mean_of(AFFINE.origin[None], AFFINE, condition=1e16)
    sphere = MANIFOLDS["sphere"](dim=2)
    with pytest.raises(DomainError, match="Hadamard"):
        mean_of(sphere.origin[None], sphere)


def test_the_stated_rounding_grows_with_the_condition() -> None:
    """It is τ and twice the rounding, √(condition/1e11) of each."""
    for condition, factor in [(1.0, 1.0), (1e11, 1.0), (1e13, 10.0), (1e15, 100.0)]:
        stated = mean_of(np.stack([np.eye(3)] * 3), AFFINE, condition=condition).rounding
        assert stated == pytest.approx(factor * (GRADIENT_TOLERANCE + 2.0 * GRADIENT_ROUNDING))


@pytest.mark.parametrize("away", [0.0, 6.0, 25.0])
def test_a_mean_is_refused_where_its_rounding_was_not_measured(away: float) -> None:
    """What counts is how far records may be from the origin, not from the centre of their ball."""
    space = MANIFOLDS["hyperbolic"](dim=2)
    centre = space.exp(space.origin, np.array([away, 0.0]))
    ball = Ball(radius=3.0, manifold=space.name, center=centre)
    records: Records = admit(centre[np.newaxis], domain=ball, manifold=space)
    if away + 3.0 <= space.log_reach:
        records.check_rounding()
        return
    with pytest.raises(PrivacyError, match=f"within {away + 3.0:g} of the origin"):
        records.check_rounding()


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-log-cholesky"])
def test_a_flat_mean_says_what_rounding_may_do(name: str) -> None:
    """Beside the exact mean of the records it is off by the lattice and what it says, no more."""
    manifold, rng = MEDIUM[name], np.random.default_rng(4)
    points = manifold.exp(manifold.origin, 1.5 * rng.standard_normal((301, manifold.dim)))
    records = admit(points, domain=Ball(6.0, name), manifold=manifold)
    found = records.barycentre
    exact = [sum(map(Fraction, column)) / 301 for column in records.placed.T.tolist()]
    off = [float(Fraction(x) - y) for x, y in zip(found.point.tolist(), exact, strict=True)]
    wide = records.feasible_set.diameter
    lattice = wide * math.sqrt(manifold.dim) * 2.0**-41
    assert 0.0 < float(np.linalg.norm(off)) <= lattice + found.rounding
    assert 0.0 < found.rounding < 1e-15 * wide
    assert records.span == wide + 2.0 * 301 * found.rounding
