"""The Fréchet mean: its certificate, its symmetries, its sensitivity, its refusals."""

import math

import numpy as np
import pytest
from sample_manifolds import MEDIUM, one_each

from covdp.arrays import FloatArray
from covdp.errors import ConfigError, ConvergenceError, DomainError
from covdp.geometry import (
    MANIFOLDS,
    Manifold,
    Point,
    frechet_mean,
    frechet_mean_of_parts,
    gradient_norm,
    sym_exp,
    sym_log,
)
from covdp.geometry.frechet import gradient
from covdp.parallel import limited_to

WIDER = {"sphere": MANIFOLDS["sphere"](dim=3)} if "sphere" in MANIFOLDS else {}  # of an add-on
ALL = list(one_each(MEDIUM | WIDER).values())
HADAMARD = [one for one in ALL if one.hadamard]
AFFINE = MANIFOLDS["spd-affine-invariant"](k=5)
every = pytest.mark.parametrize("manifold", ALL, ids=lambda one: one.name)
hadamard = pytest.mark.parametrize("manifold", HADAMARD, ids=lambda one: one.name)


def ball(manifold: Manifold) -> float:
    """Return the radius of a ball whose points have pairwise unique means."""
    return 1.5 if manifold.hadamard else 0.25 * manifold.injectivity_radius


def sample(
    manifold: Manifold, n: int, *, rng: np.random.Generator, radius: float | None = None
) -> Point:
    """Return n points, uniform in direction, within `radius` of the origin."""
    u = rng.normal(size=(n, manifold.dim))
    u *= rng.uniform(size=(n, 1)) / np.linalg.norm(u, axis=-1, keepdims=True)
    return manifold.exp(manifold.origin, (ball(manifold) if radius is None else radius) * u)


def graded(n: int, *, rng: np.random.Generator) -> FloatArray:
    """Return n SPD(5) matrices with eigenvalues over 1e-6..1e4 in random directions."""
    q = np.linalg.qr(rng.normal(size=(n, 5, 5)))[0]
    values = np.exp(rng.uniform(np.log(1e-6), np.log(1e4), size=(n, 1, 5)))
    x = (q * values) @ q.swapaxes(-1, -2)
    return np.asarray((x + x.swapaxes(-1, -2)) / 2.0)


def value(points: Point, manifold: Manifold, at: Point) -> float:
    """Return F(at) = ½ mean dist²."""
    return 0.5 * float(np.mean(np.asarray(manifold.dist(at, points)) ** 2))


@every
def test_certificate_is_true(manifold: Manifold) -> None:
    """The returned norm is that of grad F at the returned point, at most the tolerance."""
    x = sample(manifold, 40, rng=np.random.default_rng(0))
    for tolerance in (1e-3, 1e-9, 1e-12):
        result = frechet_mean(x, manifold=manifold, tolerance=tolerance)
        mean = np.mean(manifold.log(result.point, x), axis=0)
        assert result.gradient_norm <= tolerance
        assert result.gradient_norm == pytest.approx(float(np.linalg.norm(mean)), abs=1e-14)
        assert result.point.shape == manifold.point_shape


@every
def test_mean_is_the_least_point(manifold: Manifold) -> None:
    """F grows in every direction from the mean, and on Hadamard by at least ½ dist²."""
    rng = np.random.default_rng(1)
    x = sample(manifold, 30, rng=rng)
    mean = frechet_mean(x, manifold).point
    for u in rng.normal(size=(20, manifold.dim)):
        step = 0.1 * u / np.linalg.norm(u)
        growth = value(x, manifold, manifold.exp(mean, step)) - value(x, manifold, mean)
        assert growth > (0.5 * 0.1**2 - 1e-9 if manifold.hadamard else 0.0)


@hadamard
def test_gradient_norm_bounds_the_distance_to_the_mean(manifold: Manifold) -> None:
    """The distance of any y to the mean is at most ‖grad F(y)‖: the certificate's theorem."""
    rng = np.random.default_rng(2)
    x = sample(manifold, 25, rng=rng)
    mean = frechet_mean(x, manifold, tolerance=1e-12).point
    y = sample(manifold, 200, rng=rng, radius=3.0)
    distances = manifold.dist(y, mean)
    assert (distances <= gradient_norm(x, manifold, y) * (1.0 + 1e-9) + 1e-11).all()


@every
def test_gradient_is_the_slope_of_the_objective(manifold: Manifold) -> None:
    """⟨grad F(y), v⟩ is the derivative of F along exp(y, tv), for a batch of y."""
    rng = np.random.default_rng(3)
    x, y = sample(manifold, 10, rng=rng), sample(manifold, 4, rng=rng)
    slopes = gradient(x, manifold, y)
    v = rng.normal(size=(4, manifold.dim))
    for at, direction, slope in zip(y, v, slopes, strict=True):
        ends = [value(x, manifold, manifold.exp(at, t * direction)) for t in (1e-4, -1e-4)]
        assert (ends[0] - ends[1]) / 2e-4 == pytest.approx(float(slope @ direction), abs=1e-6)


@every
def test_gradients_of_a_batch_are_those_of_its_members(
    manifold: Manifold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gradient_norm(points, M, at) has the batch shape of `at`, and each value stands alone."""
    rng = np.random.default_rng(4)
    x, y = sample(manifold, 30, rng=rng), sample(manifold, 24, rng=rng)
    norms = gradient_norm(x, manifold, y)
    assert norms.shape == (24,)
    assert gradient_norm(x, manifold, y[0]).shape == ()
    assert gradient_norm(x, manifold, y[:0]).shape == (0,)
    grid = gradient_norm(x, manifold, y.reshape(4, 6, *manifold.point_shape))
    np.testing.assert_array_equal(grid, norms.reshape(4, 6))
    alone = [float(gradient_norm(x, manifold, one)) for one in y]
    np.testing.assert_allclose(norms, alone, rtol=1e-13)
    expected = np.linalg.norm(np.mean(manifold.log(y[:, None], x), axis=1), axis=-1)
    np.testing.assert_allclose(norms, expected, rtol=1e-10)
    monkeypatch.setattr("covdp.geometry.manifold.PAIRS_AT_ONCE", 70)
    np.testing.assert_allclose(gradient_norm(x, manifold, y), norms, rtol=1e-13)


@every
def test_mean_of_one_and_of_two(manifold: Manifold) -> None:
    """The mean of one point is that point; of two, the middle of their geodesic."""
    p, q = sample(manifold, 2, rng=np.random.default_rng(5))
    alone = frechet_mean(p[None], manifold).point
    assert float(manifold.dist(alone, p)) < 1e-11
    middle = manifold.exp(p, manifold.log(p, q) / 2.0)
    assert float(manifold.dist(frechet_mean(np.stack([p, q]), manifold).point, middle)) < 1e-9


@every
def test_weights_are_repetitions(manifold: Manifold) -> None:
    """Integer weights give the mean of the repeated points; weight 0 removes; scale is free."""
    rng = np.random.default_rng(6)
    x = sample(manifold, 6, rng=rng)
    counts = np.array([3, 1, 0, 2, 5, 1])
    repeated = frechet_mean(np.repeat(x, counts, axis=0), manifold).point
    for weights in (counts.astype(float), 1e-3 * counts):
        weighted = frechet_mean(x, manifold, weights=weights).point
        assert float(manifold.dist(weighted, repeated)) < 3e-9
    slope = gradient(x, manifold, repeated, weights=counts.astype(float))
    assert float(np.linalg.norm(slope)) < 3e-9


@every
def test_order_does_not_matter(manifold: Manifold) -> None:
    """The mean of a permutation is the mean, within the tolerance."""
    rng = np.random.default_rng(7)
    x = sample(manifold, 20, rng=rng)
    first = frechet_mean(x, manifold).point
    second = frechet_mean(x[rng.permutation(20)], manifold).point
    assert float(manifold.dist(first, second)) < 3e-9


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_affine_mean_is_equivariant(scale: float) -> None:
    """mean(A X Aᵀ) = A mean(X) Aᵀ and mean(X⁻¹) = mean(X)⁻¹, also for features scaled by 1e3."""
    rng = np.random.default_rng(8)
    x = sample(AFFINE, 30, rng=rng)
    a = np.geomspace(scale, 1.0 / scale, 5)[:, None] * (rng.normal(size=(5, 5)) + 2.0 * np.eye(5))
    mean = frechet_mean(x, AFFINE).point
    moved = frechet_mean(a @ x @ a.T, AFFINE).point
    assert float(AFFINE.dist(moved, a @ mean @ a.T)) < 3e-9
    flipped = frechet_mean(np.linalg.inv(x), AFFINE).point
    assert float(AFFINE.dist(flipped, np.linalg.inv(mean))) < 3e-9


def test_commuting_matrices_have_the_geometric_mean() -> None:
    """For diagonal matrices the affine-invariant mean is the exponential of the mean logarithm."""
    logs = np.random.default_rng(9).normal(size=(12, 5))
    x = np.exp(logs)[:, None] * np.eye(5)
    expected = np.diag(np.exp(logs.mean(axis=0)))
    np.testing.assert_allclose(frechet_mean(x, AFFINE).point, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.addons
@pytest.mark.parametrize("name", ["hyperbolic", "sphere"])
def test_vector_means_are_equivariant(name: str) -> None:
    """Turning all points turns the mean."""
    manifold = MANIFOLDS[name](dim=3)
    rng = np.random.default_rng(10)
    x = sample(manifold, 20, rng=rng)
    turn = np.eye(4)
    turn[1:, 1:] = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    mean = frechet_mean(x, manifold).point
    assert float(manifold.dist(frechet_mean(x @ turn.T, manifold).point, turn @ mean)) < 3e-9


@pytest.mark.addons
def test_shape_mean_does_not_depend_on_preshapes() -> None:
    """Rotating each outline by its own angle leaves the mean shape."""
    manifold = MANIFOLDS["kendall"](landmarks=5)
    rng = np.random.default_rng(11)
    x = sample(manifold, 20, rng=rng)
    turned = x * np.exp(2j * math.pi * rng.uniform(size=(20, 1)))
    means = [frechet_mean(one, manifold).point for one in (x, turned)]
    assert float(manifold.dist(*means)) < 3e-9


@hadamard
@pytest.mark.parametrize("n", [2, 5, 40])
def test_replacing_one_record_moves_the_mean_by_at_most_its_share(
    manifold: Manifold, n: int
) -> None:
    """Replace one: dist(x̄, x̄') ≤ dist(x_n, x_n')/n (Sturm), the sensitivity of every release."""
    rng = np.random.default_rng(12)
    for radius in (0.5, 4.0):
        for _ in range(5):
            x = sample(manifold, n + 1, rng=rng, radius=radius)
            before = frechet_mean(x[:n], manifold).point
            after = frechet_mean(x[1:], manifold).point
            bound = float(manifold.dist(x[0], x[n])) / n
            assert float(manifold.dist(before, after)) <= bound + 2e-9


@pytest.mark.parametrize("n", [3, 40, 1000])
def test_graded_matrices_reach_the_certificate(n: int) -> None:
    """Eigenvalues from 1e-6 to 1e4 reach 1e-9 from a start far off, in half the plain steps."""
    x = graded(n, rng=np.random.default_rng(n))
    start = sym_exp(sym_log(x).mean(axis=0))
    assert float(gradient_norm(x, AFFINE, start)) > 0.1
    result = frechet_mean(x, AFFINE)
    assert result.gradient_norm <= 1e-9
    assert result.iterations <= (40 if n < 1000 else 10)


@pytest.mark.parametrize("manifold", ALL[2:4], ids=lambda one: one.name)
def test_points_far_apart_converge(manifold: Manifold) -> None:
    """Points 24 apart, one of them heavy, where plain steps are short, converge in 200 steps."""
    rng = np.random.default_rng(13)
    u = rng.normal(size=(7, manifold.dim))
    x = manifold.exp(manifold.origin, 12.0 * u / np.linalg.norm(u, axis=-1, keepdims=True))
    weights = np.array([10.0, 1, 1, 1, 1, 1, 5])
    assert frechet_mean(x, manifold, weights=weights, max_iterations=200).gradient_norm <= 1e-9


@every
def test_points_in_parts_have_the_same_mean(manifold: Manifold) -> None:
    """Read in parts of any size, the certificate is true and the mean is that of all points."""
    x = sample(manifold, 30, rng=np.random.default_rng(18))
    whole = frechet_mean(x, manifold)
    for cuts in ([], [1, 2, 20]):
        result = frechet_mean_of_parts(np.split(x, cuts), 30, manifold)
        assert result.gradient_norm <= 1e-9
        assert float(manifold.dist(result.point, whole.point)) < 3e-9


def test_threads_do_not_change_the_mean() -> None:
    """Mean and gradients are the same to the last bit for 1, 2 and 5 threads."""
    x = graded(3000, rng=np.random.default_rng(14))
    results = []
    for threads in (1, 2, 5):
        with limited_to(threads):
            results.append((frechet_mean(x, AFFINE), gradient_norm(x[:300], AFFINE, x[:7])))
    for mean, norms in results[1:]:
        np.testing.assert_array_equal(mean.point, results[0][0].point)
        assert mean[1:] == results[0][0][1:]
        np.testing.assert_array_equal(norms, results[0][1])


@every
def test_input_is_left_alone(manifold: Manifold) -> None:
    """The points given are not written to."""
    x = sample(manifold, 10, rng=np.random.default_rng(15))
    copy = x.copy()
    x.setflags(write=False)
    frechet_mean(x, manifold)
    gradient(x, manifold, x[0])
    np.testing.assert_array_equal(x, copy)


def test_too_few_iterations_raise_with_both_numbers() -> None:
    """A budget of two steps raises ConvergenceError naming the steps, the norm and the way out."""
    x = graded(50, rng=np.random.default_rng(16))
    with pytest.raises(ConvergenceError, match=r"reached .* after 2 iterations; allow more"):
        frechet_mean(x, AFFINE, max_iterations=2)


@every
def test_unreachable_tolerance_raises_instead_of_turning(manifold: Manifold) -> None:
    """A tolerance below rounding raises ConvergenceError soon, and says that steps stalled."""
    x = sample(manifold, 30, rng=np.random.default_rng(17))
    with pytest.raises(ConvergenceError, match=r"after \d\d? iterations; .* no longer shrink"):
        frechet_mean(x, manifold, tolerance=1e-18)


@pytest.mark.parametrize("manifold", [one for one in ALL if not one.hadamard], ids=lambda m: m.name)
def test_spread_out_points_have_no_unique_mean(manifold: Manifold) -> None:
    """Points on a great circle or a closed family, beyond the unique radius, raise DomainError."""
    angles = manifold.injectivity_radius * np.linspace(-0.9, 0.9, 8)
    x = manifold.exp(manifold.origin, angles[:, None] * np.eye(manifold.dim)[0])
    with pytest.raises(DomainError, match="unique"):
        frechet_mean(x[3:], manifold)


@pytest.mark.addons
def test_antipodal_points_have_no_mean() -> None:
    """Two antipodal points raise DomainError, not a point of their equator."""
    manifold = MANIFOLDS["sphere"](dim=2)
    p = manifold.origin
    with pytest.raises(DomainError):
        frechet_mean(np.stack([p, -p]), manifold)


@pytest.mark.parametrize(
    "weights",
    [np.ones(3), -np.ones(4), np.zeros(4), np.array([1, 1, 1, np.nan]), np.full(4, np.inf)],
)
def test_meaningless_weights_raise(weights: FloatArray) -> None:
    """A wrong length, a negative, infinite or NaN weight, or no weight raises ConfigError."""
    with pytest.raises(ConfigError, match="weights"):
        frechet_mean(np.broadcast_to(np.eye(5), (4, 5, 5)), AFFINE, weights=weights)


@pytest.mark.parametrize(
    "points", [np.eye(5), np.zeros((0, 5, 5)), np.eye(4)[None], np.ones((1, 5, 5))]
)
def test_meaningless_points_raise(points: FloatArray) -> None:
    """One matrix instead of a stack, an empty stack, a wrong size or no SPD: DomainError."""
    with pytest.raises(DomainError):
        frechet_mean(points, AFFINE)
