"""The laws of a manifold, on every member of MANIFOLDS and every batch shape."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import scipy.linalg

from covdp.arrays import FloatArray
from covdp.errors import ConfigError, DomainError
from covdp.geometry import MANIFOLDS, FlatChart, Manifold, Point, sym_exp
from covdp.mechanisms.base import small
from tests.tools.addons import addon

preshape = addon("papers.kendall:preshape")

SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "spd-log-euclidean": ({"k": 1}, {"k": 5}),
    "spd-log-cholesky": ({"k": 1}, {"k": 5}),
    "spd-affine-invariant": ({"k": 1}, {"k": 5}),
    "hyperbolic": ({"dim": 1}, {"dim": 3}),
    "sphere": ({"dim": 1}, {"dim": 4}),
    "kendall": ({"landmarks": 4}, {"landmarks": 50}),
}
"""Sizes besides the small one of each member that are worth a try."""
ALL = [small(kind) for kind in MANIFOLDS.values()]
ALL += [
    MANIFOLDS[name](**size) for name, sizes in SIZES.items() if name in MANIFOLDS for size in sizes
]
ALL.append(FlatChart(MANIFOLDS["spd-log-euclidean"](k=3)))
HADAMARD = [one for one in ALL if one.hadamard]
POSITIVE = [one for one in ALL if not one.hadamard]
BATCHES = [((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 1), (3,)), ((), (4,)), ((4,), ())]


def describe(manifold: Manifold) -> str:
    """Return a readable test id."""
    return f"{type(manifold).__name__}-{manifold.name}-{manifold.dim}"


def directions(manifold: Manifold, *batch: int, rng: np.random.Generator) -> FloatArray:
    """Return unit coordinate vectors in random directions."""
    u = rng.normal(size=(*batch, manifold.dim))
    return np.asarray(u / np.linalg.norm(u, axis=-1, keepdims=True))


def reach(manifold: Manifold) -> float:
    """Return a radius whose double stays inside the injectivity radius: 1.5 on Hadamard."""
    return min(1.5, 0.49 * manifold.injectivity_radius)


def sample(
    manifold: Manifold, *batch: int, rng: np.random.Generator, radius: float | None = None
) -> Point:
    """Return points at random distances up to `radius` from the origin."""
    radius = reach(manifold) if radius is None else radius
    u = directions(manifold, *batch, rng=rng)
    return manifold.exp(manifold.origin, radius * rng.uniform(size=(*batch, 1)) * u)


every = pytest.mark.parametrize("manifold", ALL, ids=describe)
shapes = pytest.mark.parametrize("batch", BATCHES, ids=str)


def test_every_manifold_is_tested() -> None:
    """The laws run on all of MANIFOLDS, whose keys are the names of the members."""
    assert {manifold.name for manifold in ALL} == set(MANIFOLDS)
    assert all(small(kind).name == name for name, kind in MANIFOLDS.items())


@every
def test_what_makes_one_makes_this_one(manifold: Manifold) -> None:
    """`of_shape` and `of_dimension` give back the manifold whose shape and dimension they get."""
    kind = MANIFOLDS[manifold.name]
    for make, size in (("of_shape", manifold.point_shape), ("of_dimension", manifold.dim)):
        if not isinstance(manifold, FlatChart) and hasattr(kind, make):
            assert getattr(kind, make)(size) == manifold


@every
def test_description_is_consistent(manifold: Manifold) -> None:
    """Dimension, shapes, curvature, radius and flags say the same thing; the origin is a point."""
    low, high = manifold.curvature
    assert low <= high
    assert manifold.hadamard == (high <= 0.0) == math.isinf(manifold.injectivity_radius)
    assert manifold.flat <= (low == high == 0.0)
    assert manifold.origin.shape == manifold.point_shape
    np.testing.assert_allclose(manifold.check(manifold.origin), manifold.origin, atol=1e-15)
    assert manifold.log(manifold.origin, manifold.origin).shape == (manifold.dim,)


@every
@shapes
def test_chart_inverts_and_broadcasts(
    manifold: Manifold, batch: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """exp(b, log(b, p)) = p, ‖log(b, p)‖ = dist(b, p) and log(b, exp(b, u)) = u, broadcast."""
    rng = np.random.default_rng(1)
    base, p = (sample(manifold, *shape, rng=rng) for shape in batch)
    shape = np.broadcast_shapes(*batch)
    u = manifold.log(base, p)
    distance = manifold.dist(base, p)
    assert u.shape == (*shape, manifold.dim)
    assert np.shape(distance) == shape
    np.testing.assert_allclose(np.linalg.norm(u, axis=-1), distance, rtol=1e-11)
    back = manifold.exp(base, u)
    assert back.shape == (*shape, *manifold.point_shape)
    np.testing.assert_allclose(manifold.dist(back, p), 0.0, atol=1e-11)
    np.testing.assert_allclose(manifold.log(base, back), u, atol=1e-11)


@every
@shapes
def test_batches_are_loops(
    manifold: Manifold, batch: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Every element of a broadcast result is the result of its own pair of points."""
    rng = np.random.default_rng(2)
    base, p = (sample(manifold, *shape, rng=rng) for shape in batch)
    shape = np.broadcast_shapes(*batch)
    wide_base = np.broadcast_to(base, (*shape, *manifold.point_shape))
    wide_p = np.broadcast_to(p, (*shape, *manifold.point_shape))
    logs, distances = manifold.log(base, p), np.asarray(manifold.dist(base, p))
    ends = manifold.exp(base, logs)
    for index in product(*map(range, shape)):
        one, other = wide_base[index], wide_p[index]
        np.testing.assert_allclose(logs[index], manifold.log(one, other), atol=1e-14)
        np.testing.assert_allclose(distances[index], manifold.dist(one, other), atol=1e-14)
        np.testing.assert_allclose(ends[index], manifold.exp(one, logs[index]), atol=1e-13)


@every
def test_empty_batches(manifold: Manifold) -> None:
    """No points give no coordinates, no distances, no points."""
    none = np.broadcast_to(manifold.origin, (0, *manifold.point_shape))
    assert manifold.log(manifold.origin, none).shape == (0, manifold.dim)
    assert manifold.dist(none, none).shape == (0,)
    assert manifold.exp(manifold.origin, np.zeros((0, manifold.dim))).shape == none.shape


@every
def test_distance_is_a_metric(manifold: Manifold) -> None:
    """dist(p, p) = 0, dist(p, q) = dist(q, p) > 0 and dist(p, r) ≤ dist(p, q) + dist(q, r)."""
    rng = np.random.default_rng(3)
    p, q, r = (sample(manifold, 50, rng=rng) for _ in range(3))
    np.testing.assert_allclose(manifold.dist(p, p), 0.0, atol=1e-13)
    np.testing.assert_allclose(manifold.dist(p, q), manifold.dist(q, p), rtol=1e-12)
    assert (manifold.dist(p, q) > 0.0).all()
    slack = manifold.dist(p, q) + manifold.dist(q, r) - manifold.dist(p, r)
    assert (slack >= -1e-12).all()


@pytest.mark.parametrize("manifold", HADAMARD, ids=describe)
@pytest.mark.parametrize("radius", [0.1, 1.5, 6.0])
def test_log_contracts_on_hadamard_manifolds(manifold: Manifold, radius: float) -> None:
    """‖log(b, p) − log(b, q)‖ ≤ dist(p, q): the step every sensitivity bound rests on."""
    rng = np.random.default_rng(4)
    b, p, q = (sample(manifold, 200, rng=rng, radius=radius) for _ in range(3))
    chords = np.linalg.norm(manifold.log(b, p) - manifold.log(b, q), axis=-1)
    assert (chords <= manifold.dist(p, q) * (1.0 + 1e-10)).all()
    if manifold.flat:
        np.testing.assert_allclose(chords, manifold.dist(p, q), rtol=1e-9)


@pytest.mark.parametrize("manifold", POSITIVE, ids=describe)
def test_log_expands_under_positive_curvature(manifold: Manifold) -> None:
    """‖log(b, p) − log(b, q)‖ ≥ dist(p, q) inside the injectivity radius (Rauch)."""
    rng = np.random.default_rng(5)
    b, p, q = (sample(manifold, 200, rng=rng) for _ in range(3))
    chords = np.linalg.norm(manifold.log(b, p) - manifold.log(b, q), axis=-1)
    assert (chords >= manifold.dist(p, q) - 1e-12).all()


@pytest.mark.parametrize("manifold", [one for one in ALL if one.dim > 1], ids=describe)
def test_frames_are_orthonormal_and_curvature_is_bounded(manifold: Manifold) -> None:
    """dist(exp(b, tu), exp(b, tv))² = 2t² − K t⁴/3 + O(t⁵) for orthonormal u, v; K in its bounds.

    A frame that is not orthonormal changes the t² term and sends the estimate of K far away.
    """
    rng = np.random.default_rng(6)
    t = 0.02
    base = sample(manifold, 100, rng=rng)
    frame = np.linalg.qr(rng.normal(size=(100, manifold.dim, 2)))[0]
    ends = [manifold.exp(base, t * frame[..., column]) for column in range(2)]
    squares = np.asarray(manifold.dist(ends[0], ends[1])) ** 2
    estimates = 3.0 * (2.0 * t**2 - squares) / t**4
    low, high = manifold.curvature
    assert estimates.min() >= low - 0.01
    assert estimates.max() <= high + 0.01


@every
@pytest.mark.parametrize("distance", [1e-9, 1e-7, 1e-4])
def test_near_points(manifold: Manifold, distance: float) -> None:
    """A distance of 1e-9 is relatively accurate to 1e-5 (1e-14 of rounding over 1e-9), not 0."""
    rng = np.random.default_rng(7)
    base = sample(manifold, 50, rng=rng)
    u = distance * directions(manifold, 50, rng=rng)
    end = manifold.exp(base, u)
    error = 1e-14 / distance
    np.testing.assert_allclose(manifold.dist(base, end), distance, rtol=error + 1e-9)
    np.testing.assert_allclose(manifold.log(base, end), u, atol=error * distance + 1e-9 * distance)


@every
def test_zero_vector_stays(manifold: Manifold) -> None:
    """exp(p, 0) = p and log(p, p) = 0, without a division by zero."""
    p = sample(manifold, 5, rng=np.random.default_rng(8))
    back = manifold.exp(p, np.zeros(manifold.dim))
    np.testing.assert_allclose(manifold.dist(back, p), 0.0, atol=1e-13)
    np.testing.assert_allclose(manifold.log(p, p), 0.0, atol=1e-13)


def orthogonal(k: int, rng: np.random.Generator) -> FloatArray:
    """Return a random orthogonal matrix."""
    return np.linalg.qr(rng.normal(size=(k, k)))[0]


def congruence(rng: np.random.Generator) -> Callable[[Point], Point]:
    """Return X ↦ A X Aᵀ with a random invertible A."""
    a = rng.normal(size=(5, 5)) + 2.0 * np.eye(5)
    return lambda x: a @ x @ a.T


def similarity(rng: np.random.Generator) -> Callable[[Point], Point]:
    """Return X ↦ 3 Q X Qᵀ with a random orthogonal Q."""
    q = orthogonal(5, rng)
    return lambda x: 3.0 * q @ x @ q.T


def signs(rng: np.random.Generator) -> Callable[[Point], Point]:
    """Return X ↦ S X S with S a diagonal of random signs."""
    s = rng.choice([-1.0, 1.0], size=5)
    return lambda x: s[:, None] * x * s


def lorentz(rng: np.random.Generator) -> Callable[[Point], Point]:
    """Return a random Lorentz transformation of R^{1,3}: the exponential of its Lie algebra."""
    generator = np.zeros((4, 4))
    generator[0, 1:] = generator[1:, 0] = rng.normal(size=3)
    turn = rng.normal(size=(3, 3))
    generator[1:, 1:] = turn - turn.T
    matrix = scipy.linalg.expm(generator)
    return lambda x: x @ matrix.T


def spin(rng: np.random.Generator) -> Callable[[Point], Point]:
    """Return a random rotation of the sphere S⁴."""
    q = orthogonal(5, rng)
    return lambda x: x @ q.T


def phases(rng: np.random.Generator) -> Callable[[Point], Point]:
    """Return a permutation of landmarks with a rotation of each outline by an angle of its own."""
    order = rng.permutation(50)
    return lambda z: z[..., order] * np.exp(2j * math.pi * rng.uniform(size=(*z.shape[:-1], 1)))


def inverse(_: np.random.Generator) -> Callable[[Point], Point]:
    """Return X ↦ X⁻¹."""
    return lambda x: np.linalg.inv(x)


@pytest.mark.addons
@pytest.mark.parametrize(
    ("name", "size", "isometry"),
    [
        ("spd-affine-invariant", 5, congruence),
        ("spd-affine-invariant", 5, inverse),
        ("spd-log-euclidean", 5, similarity),
        ("spd-log-euclidean", 5, inverse),
        ("spd-log-cholesky", 5, signs),
        ("hyperbolic", 3, lorentz),
        ("sphere", 4, spin),
        ("kendall", 50, phases),
    ],
)
def test_isometries_keep_distances(
    name: str, size: int, isometry: Callable[[np.random.Generator], Callable[[Point], Point]]
) -> None:
    """Distances, and inner products of logarithms, do not change under the isometries."""
    manifold = MANIFOLDS[name](size)
    rng = np.random.default_rng(9)
    move = isometry(rng)
    b, p, q = (sample(manifold, 20, rng=rng) for _ in range(3))
    moved_b, moved_p, moved_q = move(b), move(p), move(q)
    np.testing.assert_allclose(manifold.dist(moved_p, moved_q), manifold.dist(p, q), rtol=1e-10)
    before = np.sum(manifold.log(b, p) * manifold.log(b, q), axis=-1)
    after = np.sum(manifold.log(moved_b, moved_p) * manifold.log(moved_b, moved_q), axis=-1)
    np.testing.assert_allclose(after, before, atol=1e-9)


@pytest.mark.parametrize("name", ["spd-affine-invariant", "spd-log-euclidean", "spd-log-cholesky"])
def test_exponentials_of_spd_matrices_are_symmetric_to_the_last_bit(name: str) -> None:
    """exp(b, u) = exp(b, u)ᵀ exactly."""
    manifold = MANIFOLDS[name](k=5)
    rng = np.random.default_rng(10)
    out = manifold.exp(sample(manifold, 40, rng=rng), rng.normal(size=(40, 15)))
    np.testing.assert_array_equal(out, out.swapaxes(-1, -2))


def test_affine_distance_survives_any_scaling_of_the_features() -> None:
    """dist(S X S, S Y S) = dist(X, Y) to 12 digits for S spreading eigenvalues over 1e24."""
    manifold = MANIFOLDS["spd-affine-invariant"](k=5)
    rng = np.random.default_rng(11)
    x, y = sample(manifold, 20, rng=rng), sample(manifold, 20, rng=rng)
    s = np.logspace(-6.0, 6.0, 5)
    wide_x, wide_y = (s[:, None] * one * s for one in (x, y))
    np.testing.assert_allclose(manifold.dist(wide_x, wide_y), manifold.dist(x, y), rtol=1e-12)
    u = manifold.log(wide_x, wide_y)
    np.testing.assert_allclose(np.linalg.norm(u, axis=-1), manifold.dist(x, y), rtol=1e-12)
    np.testing.assert_allclose(
        manifold.dist(manifold.exp(wide_x, u), wide_y), 0.0, atol=1e-4
    )  # the frame B^{1/2} itself is known to 1e-16·√(condition) only


@pytest.mark.parametrize("name", ["spd-affine-invariant", "spd-log-euclidean"])
def test_ill_conditioned_bases(name: str) -> None:
    """Between matrices of condition 1e13 in random directions the chart inverts to 1e-3.

    Such a matrix holds its small eigenvalues to 1e-16 · 1e13 only: exp cannot store more.
    """
    manifold = MANIFOLDS[name](k=5)
    rng = np.random.default_rng(12)
    values = np.logspace(-6.0, 7.0, 5)
    q = np.linalg.qr(rng.normal(size=(2, 10, 5, 5)))[0]
    base, p = (q * values) @ q.swapaxes(-1, -2)
    base, p = (base + base.swapaxes(-1, -2)) / 2.0, (p + p.swapaxes(-1, -2)) / 2.0
    u = manifold.log(base, p)
    np.testing.assert_allclose(np.linalg.norm(u, axis=-1), manifold.dist(base, p), rtol=1e-9)
    np.testing.assert_allclose(manifold.dist(base, p), manifold.dist(p, base), rtol=1e-9)
    assert (manifold.dist(manifold.exp(base, u), p) < 0.2).all()


@pytest.mark.addons
def test_hyperbolic_space_is_accurate_far_out() -> None:
    """Radii up to 300 come back from exp, and points on one geodesic are as far as their radii."""
    manifold = MANIFOLDS["hyperbolic"](dim=3)
    rng = np.random.default_rng(13)
    radii = np.array([1e-12, 1e-3, 1.0, 15.0, 40.0, 300.0])
    u = directions(manifold, 6, rng=rng)
    ends = manifold.exp(manifold.origin, radii[:, None] * u)
    np.testing.assert_allclose(manifold.dist(manifold.origin, ends), radii, rtol=1e-14)
    np.testing.assert_allclose(
        manifold.log(manifold.origin, ends), radii[:, None] * u, rtol=1e-12, atol=1e-25
    )
    near = radii[:4]  # beyond 36 a direction with errors of 1e-16 is off by more than 1
    line = manifold.exp(manifold.origin, near[:, None] * u[0])
    np.testing.assert_allclose(
        manifold.dist(line[:, None], line), np.abs(near[:, None] - near), rtol=1e-11, atol=1e-13
    )
    far = manifold.exp(ends[3], 5.0 * u)  # a step from radius 15
    np.testing.assert_allclose(manifold.log(ends[3], far), 5.0 * u, atol=1e-8)


@pytest.mark.addons
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
def test_sphere_is_accurate_near_the_antipode(gap: float) -> None:
    """At distance π − gap the distance and the direction are still right."""
    manifold = MANIFOLDS["sphere"](dim=3)
    rng = np.random.default_rng(14)
    base = sample(manifold, 20, rng=rng, radius=math.pi)
    u = (math.pi - gap) * directions(manifold, 20, rng=rng)
    end = manifold.exp(base, u)
    np.testing.assert_allclose(math.pi - manifold.dist(base, end), gap, rtol=1e-5)
    np.testing.assert_allclose(manifold.log(base, end), u, atol=1e-14 / gap)


@pytest.mark.addons
def test_logs_end_at_the_injectivity_radius() -> None:
    """Antipodes of the sphere and shapes at π/2 raise DomainError; just before them log works."""
    sphere = MANIFOLDS["sphere"](dim=2)
    p = sample(sphere, 10, rng=np.random.default_rng(15))
    with pytest.raises(DomainError, match="antipodal"):
        sphere.log(p, -p)
    kendall = MANIFOLDS["kendall"](landmarks=6)
    base = kendall.origin
    end = kendall.exp(base, math.pi / 2.0 * np.eye(8)[0])
    with pytest.raises(DomainError, match="π/2"):
        kendall.log(base, end)
    near = kendall.exp(base, (math.pi / 2.0 - 1e-6) * np.eye(8)[0])
    assert np.linalg.norm(kendall.log(base, near)) == pytest.approx(math.pi / 2.0 - 1e-6)


@pytest.mark.addons
def test_lower_hemisphere_has_frames() -> None:
    """The antipode of the pole and its neighbours have orthonormal frames like all others."""
    manifold = MANIFOLDS["sphere"](dim=3)
    bases = np.array([[-1.0, 0, 0, 0], [-1.0, 1e-9, 0, 0], [-1e-12, 1.0, 0, 0], [0.0, 0, 1.0, 0]])
    bases /= np.linalg.norm(bases, axis=-1, keepdims=True)
    u = np.eye(3)
    ends = manifold.exp(bases[:, None], u)
    np.testing.assert_allclose(
        manifold.log(bases[:, None], ends), np.broadcast_to(u, (4, 3, 3)), atol=1e-14
    )
    inner = np.sum(ends[:, :, None] * ends[:, None], axis=-1)
    expected = math.cos(1.0) ** 2 + math.sin(1.0) ** 2 * np.eye(3)
    np.testing.assert_allclose(inner, np.broadcast_to(expected, (4, 3, 3)), atol=1e-14)


def test_shapes_do_not_depend_on_the_preshape() -> None:
    """Translation, scale and rotation of the landmarks do not change a shape."""
    rng = np.random.default_rng(16)
    outline = rng.normal(size=(7, 2))
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    moved = preshape(5.0 * outline @ turn.T + 3.0)
    kendall = MANIFOLDS["kendall"](landmarks=7)
    assert float(kendall.dist(preshape(outline), moved)) < 1e-15
    assert abs(moved.sum()) < 1e-15
    np.testing.assert_allclose(preshape(outline), preshape(outline[:, 0] + 1j * outline[:, 1]))


WRONG: dict[str, list[Point]] = {
    "spd-log-euclidean": [np.ones((2, 2)), np.eye(3), np.array([[1.0, 0.5], [0.4, 1.0]])],
    "spd-log-cholesky": [np.diag([1.0, -1.0]), np.full((2, 2), np.nan), np.zeros(2)],
    "spd-affine-invariant": [np.diag([1.0, 0.0]), np.diag([1.0, np.inf]), np.eye(3)],
    "hyperbolic": [np.ones(3), np.array([-1.0, 0, 0]), np.array([np.nan, 0, 0]), np.ones(2)],
    "sphere": [
        np.ones(3),
        np.zeros(3),
        np.eye(3)[0] * (1 + 1e-6),
        np.array([1j, 0, 0]),
        np.ones(2),
    ],
    "kendall": [np.ones(3), np.array([1.0, 1j, 0]), np.array([1.0, np.nan, 0]), np.ones(2)],
}


@every
def test_the_door_refuses_wrong_shapes_and_numbers(manifold: Manifold) -> None:
    """One number too few, NaN and infinity are no points of any manifold."""
    point = manifold.check(manifold.origin)
    for wrong in (point[..., :-1], point * np.nan, point + np.inf):
        with pytest.raises(DomainError):
            manifold.check(wrong)


@pytest.mark.addons
@pytest.mark.parametrize(
    ("name", "wrong"), [(name, one) for name, several in WRONG.items() for one in several]
)
def test_the_door_refuses_what_is_not_a_point(name: str, wrong: Point) -> None:
    """A wrong shape, NaN or an array off the manifold raises DomainError with one line."""
    size = {"kendall": 3}.get(name, 2)
    with pytest.raises(DomainError) as caught:
        MANIFOLDS[name](size).check(wrong)
    assert "\n" not in str(caught.value)


@every
def test_the_door_lets_points_through(manifold: Manifold) -> None:
    """Points made by exp pass, and rounding-size deviations are removed."""
    p = sample(manifold, 2, 3, rng=np.random.default_rng(17))
    checked = manifold.check(p)
    np.testing.assert_allclose(checked, p, rtol=1e-13, atol=1e-13)
    noisy = manifold.check(p * (1.0 + 1e-12))
    np.testing.assert_allclose(noisy, p, rtol=1e-11, atol=1e-11)


@pytest.mark.addons
@pytest.mark.parametrize("name", ["hyperbolic", "sphere", "kendall"])
def test_the_door_puts_points_on_the_manifold(name: str) -> None:
    """A deviation of 1e-9 from the equation of the manifold is gone behind the door."""
    manifold = MANIFOLDS[name](4)
    p = sample(manifold, 5, rng=np.random.default_rng(18))
    off = p.copy()
    off[..., 0] += 1e-9
    form = np.ones(off.shape[-1])
    form[0] = -1.0 if name == "hyperbolic" else 1.0
    value = np.sum(form * np.abs(manifold.check(off)) ** 2, axis=-1)
    np.testing.assert_allclose(value, -1.0 if name == "hyperbolic" else 1.0, rtol=1e-14)


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", None, True])
@pytest.mark.parametrize("name", MANIFOLDS)
def test_meaningless_sizes_raise(name: str, value: object) -> None:
    """A size that is not a positive integer raises ConfigError."""
    with pytest.raises(ConfigError, match="integer"):
        MANIFOLDS[name](value)


def test_preshape_refuses_degenerate_outlines() -> None:
    """Equal landmarks, NaN or a wrong shape raise DomainError."""
    for bad in (np.ones((5, 2)), np.full((5, 2), np.nan), np.ones((5, 3)), np.ones(5)):
        with pytest.raises(DomainError):
            preshape(bad)


@pytest.mark.addons
def test_chart_needs_a_flat_manifold() -> None:
    """FlatChart of a curved manifold raises, and of a flat one keeps all distances."""
    with pytest.raises(DomainError, match="flat"):
        FlatChart(MANIFOLDS["sphere"](dim=2))
    manifold = MANIFOLDS["spd-log-euclidean"](k=3)
    x = sym_exp(np.diag([1.0, 2.0, 3.0]))
    seen = FlatChart(manifold).dist(np.zeros(6), manifold.log(manifold.origin, x))
    assert float(seen) == pytest.approx(float(manifold.dist(manifold.origin, x)))
