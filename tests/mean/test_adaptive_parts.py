"""Parts of the adaptive mean against oracles: SciPy's optimisers, enumeration, plain formulas.

All random numbers are seeded; inequalities are proven, so that no correct code is rejected.
"""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sample_descriptors import ridge
from scipy.optimize import isotonic_regression, minimize

from covdp.arrays import FloatArray
from covdp.descriptors import DescriptorDomain, describe, domain
from covdp.geometry import (
    MANIFOLDS,
    FlatChart,
    Manifold,
    Point,
    frechet_mean,
    sym_log,
    unvecd,
)
from covdp.geometry.covariances import SPECTRUM_TOLERANCE, fit_spectrum
from covdp.mean import Ball, admit, default_prior, feasible_set, rounds, tuning
from covdp.mean.axes import Frame, build_frame
from covdp.mean.clip import (
    SQRT2,
    choose_radius,
    lengths,
    likely_counts,
    newton_step,
    one_peak,
    records_outside,
    shell_counts,
)
from covdp.mean.noisy_moments import posterior_update
from covdp.mean.plan import STEP_NAMES
from covdp.mean.public_model import FeasibleSet
from covdp.mean.records import CONDITION
from covdp.mean.records import GRADIENT_TOLERANCE as STEPS_END
from covdp.mean.rounds import default_shares, is_few, step_costs
from covdp.mean.sums import PER_UNIT, Clip, clipped_vectors, sizes, sizes_around
from covdp.mean.tuning import (
    FEW,
    MOST_BEYOND,
    MOST_OUTSIDE,
    OUTSIDE,
    SURPRISE,
)
from covdp.privacy import GDP, ZCDP, ApproxDP, Budget, delta_of
from tests.mean.scripts import Probe, Script
from tests.sample_means import adaptive, clipped_sum, drawn, forced, reaching
from tests.tools.trace import Watcher

SPD = ["spd-log-euclidean", "spd-log-cholesky", "spd-affine-invariant"]
SPACES = [*SPD, "hyperbolic"]


def facts_of(name: str, descriptor: str = "oct5") -> DescriptorDomain:
    """Return the public facts of descriptors of 28×28 images."""
    return domain(descriptor, height=28, width=28, manifold=name, eta=ridge(descriptor, name))


def space_of(name: str, k: int = 5) -> Manifold:
    """Return the manifold that is worked in: the chart of a flat one."""
    full = MANIFOLDS[name](dim=3) if name == "hyperbolic" else MANIFOLDS[name](k=k)
    return FlatChart(full) if full.flat else full


def setting(name: str) -> tuple[Manifold, FeasibleSet]:
    """Return the space and the region."""
    if name == "hyperbolic":
        return space_of(name), feasible_set(Ball(2.0, "hyperbolic"), space_of(name))
    return space_of(name), feasible_set(facts_of(name), space_of(name))


def inner(name: str, count: int, seed: int, *, edge: bool = False) -> Point:
    """Return points of the region, made without its projection; on its edge if `edge`."""
    rng, space = np.random.default_rng(seed), space_of(name)
    if name == "hyperbolic":
        spokes = rng.standard_normal((count, 3))
        length = np.full(count, 2.0) if edge else 2.0 * rng.random(count)
        spokes *= (length / np.linalg.norm(spokes, axis=1))[:, None]
        return space.exp(space.origin, spokes * (1.0 - 1e-12))
    facts = facts_of(name)
    if name == "spd-log-cholesky":
        bound = np.array(facts.variances)
        low, high = 0.5 * np.log(facts.eta), 0.5 * np.log(bound + facts.eta)
        share = rng.integers(0, 2, (count, 5)) if edge else rng.random((count, 5))
        rest = rng.standard_normal((count, 10))
        rows = np.tril_indices(5, -1)[0]
        for row in range(1, 5):
            mine = rows == row
            rest[:, mine] *= math.sqrt(bound[row]) / np.linalg.norm(rest[:, mine], axis=1)[:, None]
        return np.hstack([low + (high - low) * share, 0.9999999 * rest])
    excess = rng.dirichlet(np.full(5, 0.3), count) * facts.trace
    if not edge:
        excess *= 10.0 ** rng.uniform(-10.0, 0.0, (count, 1))
    axes = np.linalg.qr(rng.standard_normal((count, 5, 5)))[0]
    matrices = (axes * (excess + facts.eta)[:, None, :]) @ axes.swapaxes(-1, -2)
    matrices = np.asarray(matrices + matrices.swapaxes(-1, -2)) / 2.0
    if space.flat:
        full = MANIFOLDS[name](k=5)
        return full.log(full.origin, matrices)
    return matrices


def outer(name: str, count: int, seed: int) -> Point:
    """Return points mostly outside of the region, some by far."""
    rng, space = np.random.default_rng(seed), space_of(name)
    wide = {"hyperbolic": 3.0, "spd-affine-invariant": 2.0}.get(name, 10.0)
    spokes = rng.standard_normal((count, space.dim)) * wide
    if name in ("spd-log-euclidean", "spd-log-cholesky"):
        spokes *= 10.0 ** rng.uniform(-1.0, 3.0, (count, 1))
    if name == "spd-affine-invariant":
        spokes[:, :5] += rng.uniform(-20.0, 15.0, (count, 1))
    return space.exp(space.origin, spokes)


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_projections_are_idempotent(name: str) -> None:
    """Projecting twice moves by rounding only."""
    space, area = setting(name)
    once = area.inside(outer(name, 300, 1))
    assert np.isfinite(once).all()
    assert space.dist(area.inside(once), once).max() < 3e-6


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("edge", [False, True])
def test_points_inside_stay_to_the_last_bit(name: str, edge: bool) -> None:
    """The region's points are not touched, on its edge up to the stated tolerance."""
    _, area = setting(name)
    points = inner(name, 300, 2, edge=edge)
    kept = area.inside(points)
    if name == "spd-log-cholesky" and edge:
        np.testing.assert_allclose(kept, points, rtol=0, atol=1e-13)
    else:
        assert np.array_equal(kept, points)


def violation(name: str, points: Point) -> float:
    """Return by what share the points break what defines the region, at worst."""
    space = space_of(name)
    if name == "hyperbolic":
        return float(np.max(space.dist(space.origin, points)) / 2.0 - 1.0)
    facts = facts_of(name)
    if name == "spd-log-cholesky":
        squares = np.exp(np.clip(2.0 * points[:, :5], -30.0, 30.0))
        rows = np.zeros((len(points), 5))
        for index, row in enumerate(np.tril_indices(5, -1)[0]):
            rows[:, row] += points[:, 5 + index] ** 2 / facts.variances[row]
        high = squares / (np.array(facts.variances) + facts.eta)
        return float(np.max([high, rows, facts.eta / squares]) - 1.0)
    logs = np.linalg.eigvalsh(unvecd(points) if space.flat else sym_log(points))
    values = np.exp(np.clip(logs, -30.0, 30.0))
    high = values.sum(axis=1) / facts.largest_eigenvalue
    return float(np.max([high, facts.eta / values.min(axis=1)]) - 1.0)


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_projections_end_inside(name: str) -> None:
    """Projected points obey the region's definition, within its tolerance on logarithms."""
    _, area = setting(name)
    assert violation(name, outer(name, 300, 3)) > 0.1
    assert violation(name, area.inside(outer(name, 300, 3))) < 2.0 * SPECTRUM_TOLERANCE
    assert violation(name, inner(name, 300, 3, edge=True)) < 1e-9


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_projections_are_the_nearest_points(name: str) -> None:
    """From the nearest point q of a convex set, p and any r in it lie at right angles or more.

    ⟨log(q, p), log(q, r)⟩ ≤ 0 for all r in the set characterises the metric projection q on a
    Hadamard manifold. So p is moved no farther from any of them.
    """
    space, area = setting(name)
    points = outer(name, 60, 4)
    nearest = area.inside(points)
    inside = np.concatenate([inner(name, 60, 5), inner(name, 60, 6, edge=True)])
    back, along = space.log(nearest, points), space.log(nearest[:, None], inside)
    angle = np.einsum("nd,nmd->nm", back, along)
    scale = np.linalg.norm(back, axis=-1)[:, None] * np.linalg.norm(along, axis=-1)
    assert (angle <= 3e-6 * (1.0 + scale)).all()
    before, after = space.dist(points[:, None], inside), space.dist(nearest[:, None], inside)
    assert (after <= before + 3e-6).all()


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_regions_are_as_wide_as_stated(name: str) -> None:
    """No two points are farther apart than the diameter."""
    space, area = setting(name)
    points = np.concatenate([inner(name, 60, 7), inner(name, 100, 8, edge=True)])
    points = np.concatenate([points, area.inside(outer(name, 60, 9))])
    assert space.dist(points[:, None], points).max() <= area.diameter


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_regions_are_convex(name: str) -> None:
    """Geodesics between points of the region, and Fréchet means, stay in it."""
    space, _ = setting(name)
    for seed in range(8):
        one, two = inner(name, 30, 10 + seed, edge=True), inner(name, 30, 50 + seed, edge=True)
        for share in (0.1, 0.5, 0.8):
            middle = space.exp(one, share * space.log(one, two))
            assert violation(name, middle) < 1e-5
        points = np.concatenate([one[:5], two[:5]])
        mean = frechet_mean(points, space, tolerance=1e-9).point
        assert violation(name, mean[None]) < 1e-5


@pytest.mark.parametrize("eta", [1e-8, 4e-9])
def test_rounding_of_matrices_is_in_the_region(eta: float) -> None:
    """At small η, doubles put opposite corners farther apart than D and its tolerance; not so here.

    The same of the condition number, with which the rounding of a mean grows.
    """
    space = MANIFOLDS["spd-affine-invariant"](k=5)
    facts = domain("oct5", height=28, width=28, eta=eta, manifold=space.name)
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((2000, 5, 5)))[0]
    first, other = np.full((2, 5), eta)
    first[:2] += facts.trace / 2.0
    other[2:] += facts.trace / 3.0
    area = feasible_set(facts, space)
    corners = [
        area.inside(spread + np.swapaxes(spread, 1, 2))
        for spread in ((axes * (ends / 2.0)) @ axes.swapaxes(1, 2) for ends in (first, other))
    ]
    reached = float(space.dist(*corners).max())
    assert facts.diameter + 2.0 * math.sqrt(5.0) * SPECTRUM_TOLERANCE < reached <= area.diameter
    assert facts.trace / eta < area.condition
    records = admit(corners[0][:3], domain=facts, manifold=space)
    least = STEPS_END * math.sqrt(facts.trace / eta / CONDITION)
    assert records.barycentre.rounding > least


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-log-cholesky"])
def test_results_are_positive_definite(name: str) -> None:
    """The edges of a region end as matrices a manifold takes; those it took before are the same."""
    full = MANIFOLDS[name](k=5)
    points = np.concatenate([inner(name, 300, 5), inner(name, 300, 6, edge=True)])
    matrices = full.exp(full.origin, points)
    found = full.definite(matrices)
    assert full.dist(full.check(found), full.origin).max() < 1e3
    values = np.linalg.eigvalsh(matrices)
    fine = values[:, 0] > 1e-12 * values[:, -1]
    assert np.array_equal(found[fine], matrices[fine])
    assert fine.all() == (name == "spd-log-euclidean")  # one region needs it, the other does not


def test_spectra_are_fitted_as_by_an_optimiser() -> None:
    """The fitted log-eigenvalues are those of SciPy's SLSQP, and never farther away."""
    rng, settled = np.random.default_rng(1), 0
    for _ in range(60):
        k = int(rng.integers(1, 7))
        low = float(rng.normal(-3.0, 2.0))
        total = k * math.exp(low) * (1.0 + 10.0 ** rng.uniform(-1.0, 4.0))
        logs = rng.normal(0.0, 4.0, k)
        found = fit_spectrum(logs, low, total)
        assert (found >= low).all()
        assert np.exp(found).sum() <= total * (1.0 + 1e-9)
        oracle = minimize(
            lambda a, w=logs: np.sum((a - w) ** 2),
            np.full(k, math.log(total / k)) - 1e-3,
            jac=lambda a, w=logs: 2.0 * (a - w),
            bounds=[(low, None)] * k,
            constraints={
                "type": "ineq",
                "fun": lambda a, t=total: math.log(t) - math.log(np.exp(a).sum()),
                "jac": lambda a: -np.exp(a) / np.exp(a).sum(),
            },
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        settled += oracle.success
        if oracle.success:
            np.testing.assert_allclose(found, oracle.x, atol=2e-4)
        if np.exp(oracle.x).sum() <= total:
            assert np.sum((found - logs) ** 2) <= oracle.fun + 1e-9
    assert settled > 40


def test_spectra_of_any_size_are_fitted() -> None:
    """Log-eigenvalues of ±1e4 are moved to where they belong; many at once, as one by one."""
    logs = np.array([[1e4, 0.0, -1e4], [-1e4] * 3, [1e4] * 3, [5.0, 4.0, -20.0], [0.1, 0.2, 0.3]])
    found = fit_spectrum(logs, -2.0, 10.0)
    for size in (1e10, 1e15, 1e200):
        assert fit_spectrum(size * logs[2], -2.0, 10.0) == pytest.approx(found[2], abs=1e-12)
    assert found[0] == pytest.approx([math.log(10.0 - 2.0 * math.exp(-2.0)), -2.0, -2.0], abs=1e-3)
    assert np.array_equal(found[1], [-2.0] * 3)
    assert found[2] == pytest.approx([math.log(10.0 / 3.0)] * 3)
    assert found[3, 2] == -2.0
    assert np.array_equal(found[4], logs[4])
    assert np.array_equal(found, np.stack([fit_spectrum(row, -2.0, 10.0) for row in logs]))
    order = [2, 0, 1]
    assert np.array_equal(fit_spectrum(logs[:, order], -2.0, 10.0), found[:, order])


def pictures(count: int, seed: int) -> NDArray[np.uint8]:
    """Return images of every kind: noise, stripes, steps, faint and constant ones."""
    rng = np.random.default_rng(seed)
    at = np.arange(28)
    rows, columns = np.meshgrid(at, at, indexing="ij")
    fixed = [
        np.zeros((28, 28)),
        np.where((rows + columns) % 2, 0, 255),
        np.where(columns % 4 < 2, 0, 255),
        np.where(rows < 14, 0, 255),
        np.where((rows == 5) & (columns == 9), 1, 0),
        9 * columns,
        np.where((columns // 2 + rows // 2) % 2, 0, 255),
    ]
    noise = rng.random((count, 28, 28)) ** rng.uniform(0.1, 9.0, (count, 1, 1))
    noise *= 255.0 * 10.0 ** rng.uniform(-3.0, 0.0, (count, 1, 1))
    binary = 255.0 * (rng.random((count, 28, 28)) < rng.random((count, 1, 1)))
    return np.concatenate([np.stack(fixed), noise, binary]).astype(np.uint8)


@pytest.mark.parametrize("name", SPD)
@pytest.mark.parametrize("descriptor", ["oct5", "grid9", "grid11", "gauss6"])
def test_regions_hold_every_image(name: str, descriptor: str) -> None:
    """Descriptors of images are in the region to the last bit."""
    images = pictures(150, 1)
    if descriptor == "grid11":
        images = np.stack([images, images[::-1], images], axis=-1)
    facts = facts_of(name, descriptor)
    matrices = describe(images, descriptor, facts.eta)
    full = MANIFOLDS[name](k=matrices.shape[-1])
    space = space_of(name, matrices.shape[-1])
    points = full.log(full.origin, matrices) if full.flat else matrices
    kept = feasible_set(facts, space).inside(points)
    np.testing.assert_allclose(kept, points, rtol=0, atol=1e-9)
    if name != "spd-log-cholesky":
        assert np.array_equal(kept, points)


def frame_of(seed: int, d: int, *, lines: int, length: float = 2.0) -> Frame:
    """Return axes of a random contrast axis and random scales."""
    rng = np.random.default_rng(seed)
    line = rng.standard_normal(d)
    root = rng.standard_normal((d, d))
    shape = root @ root.T + 0.2 * np.eye(d)
    return build_frame(line / np.linalg.norm(line) if lines else None, shape, length)


@pytest.mark.parametrize("lines", [0, 1])
def test_frames_turn_and_scale(lines: int) -> None:
    """`to_axes` and `from_axes` are inverse; the axis is kept, a unit of it as long as given."""
    for seed in range(10):
        frame = frame_of(seed, 6, lines=lines)
        np.testing.assert_allclose(frame.to_axes @ frame.from_axes, np.eye(6), atol=1e-9)
        assert frame.lines == lines
        if lines:
            (line,) = frame.line
            np.testing.assert_allclose(frame.to_axes[:, 0], line / 2.0, atol=1e-12)
            np.testing.assert_allclose(line @ frame.from_axes[1:].T, 0.0, atol=1e-9)
            np.testing.assert_allclose(frame.from_axes[0], 2.0 * line, atol=1e-12)


def test_scales_are_those_that_are_given() -> None:
    """Off the axis u = y·A, A symmetric, the given scales where the axis is one of their own."""
    shape = np.diag([9.0, 0.5, 2.0, 3.0])
    frame = build_frame(np.eye(4)[0], shape, 2.0)
    np.testing.assert_allclose(frame.from_axes, np.diag([2.0, 0.5, 2.0, 3.0]), atol=1e-12)
    np.testing.assert_allclose(build_frame(None, shape, 2.0).from_axes, shape, atol=1e-12)


@pytest.mark.parametrize("lines", [0, 1])
def test_covariances_of_the_frame(lines: int) -> None:
    """Variances of y, one along the axis and one off it, are a covariance of u = y @ from_axes."""
    frame = frame_of(3, 6, lines=lines)
    variances = np.array([2.0] * lines + [3.0] * (6 - lines))
    expected = frame.from_axes.T @ np.diag(variances) @ frame.from_axes
    (one,) = frame.covariance(np.array([2.0]), np.array([3.0]))
    np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-12)
    both = frame.covariance(np.array([2.0, 1.0]), np.array([3.0, 1.0]))
    np.testing.assert_allclose(both[0], expected, rtol=1e-12, atol=1e-12)


def test_a_unit_is_the_root_mean_square_of_one_of_expected_records() -> None:
    """Records of covariance A⁴ in distance, seen in scales A, are `unit_length` a unit long."""
    frame = frame_of(5, 6, lines=1)
    scales = np.linalg.svd(frame.from_axes[1:], compute_uv=False)
    # records of covariance scale⁴ in distance have covariance scale² in the frame
    expected = math.sqrt(np.sum(scales**4) / np.sum(scales**2))
    assert frame.unit_length == pytest.approx(expected)


def excess(observed: FloatArray, total: FloatArray) -> float:
    """Return u'(P + S)⁻¹u over what is likely: d and `SURPRISE` deviations of χ² with d degrees."""
    d = len(observed)
    likely = d + SURPRISE * math.sqrt(2.0 * d)
    return float(observed @ np.linalg.solve(total, observed)) / likely


def test_shrinking_is_bayes_where_belief_and_observation_agree() -> None:
    """E(θ | u) = P(P + S)⁻¹u with covariance (P⁻¹ + S⁻¹)⁻¹ while u is as long as is likely."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        roots = rng.standard_normal((2, 5, 5))
        noise, belief = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(5)
        observed = rng.standard_normal(5)
        total = noise + belief
        observed *= math.sqrt(rng.random() / excess(observed, total))
        found, covariance = posterior_update(observed, noise, belief)
        np.testing.assert_allclose(found, belief @ np.linalg.solve(total, observed), rtol=1e-7)
        bayes = np.linalg.inv(np.linalg.inv(belief) + np.linalg.inv(noise))
        np.testing.assert_allclose(covariance, bayes, rtol=1e-7, atol=1e-9)


def test_shrinking_widens_a_belief_that_was_too_sure() -> None:
    """Beyond that P is widened by the cube of the excess, and the answer is Bayes' with it."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        roots = rng.standard_normal((2, 5, 5))
        noise, belief = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(5)
        observed, far = rng.standard_normal(5), 1.0 + 9.0 * rng.random()
        observed *= math.sqrt(far / excess(observed, noise + belief))
        found, covariance = posterior_update(observed, noise, belief)
        wider = far**3 * belief
        bayes = np.linalg.inv(np.linalg.inv(wider) + np.linalg.inv(noise))
        np.testing.assert_allclose(covariance, bayes, rtol=1e-6, atol=1e-8)
        expected = wider @ np.linalg.solve(wider + noise, observed)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("belief", [1e-8, 0.3, 2.0])
@pytest.mark.parametrize("size", [0.1, 1.0, 3.0, 10.0, 1e3, 1e9])
def test_shrinking_keeps_what_is_far_and_drowns_what_is_near(belief: float, size: float) -> None:
    """For S = Id and P = p·Id it is one gain for all directions, of p or of p widened."""
    observed = size * np.array([0.6, 0.0, 0.8, 0.0])
    found, covariance = posterior_update(observed, np.eye(4), belief * np.eye(4))
    wide = max(excess(observed, (1.0 + belief) * np.eye(4)), 1.0) ** 3 * belief
    gain = wide / (1.0 + wide)
    np.testing.assert_allclose(found, gain * observed, rtol=1e-5, atol=1e-6 * size)
    np.testing.assert_allclose(covariance, gain * np.eye(4), rtol=1e-5, atol=1e-6)
    assert size < 1e3 or belief < 1e-6 or gain > 0.999


def test_shrinking_survives_extremes() -> None:
    """Beliefs of rank 1 and observations of 1e30 standard deviations give finite answers."""
    belief = np.zeros((3, 3))
    belief[0, 0] = 1.0
    for size in (1e-30, 1.0, 1e30):
        found, covariance = posterior_update(size * np.ones(3), np.eye(3), belief)
        assert np.isfinite(found).all()
        assert np.isfinite(covariance).all()
        np.testing.assert_allclose(found[1:], 0.0, atol=1e-9 * size)


def counts_around(name: str) -> tuple[FloatArray, FloatArray]:
    """Return sizes of 400 records and the edges that a space has."""
    facts = Ball(2.0, "hyperbolic") if name == "hyperbolic" else facts_of(name)
    edges = default_prior(facts, space_of(name)).edges
    rng = np.random.default_rng(1)
    return edges[-1] * 10.0 ** rng.uniform(-2.0, 0.5, 400), edges


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_counts_put_each_record_where_the_formula_says(name: str) -> None:
    """Against a loop over the records in Python, on edges too, in any order; none is no record."""
    size, edges = counts_around(name)
    size[:2], size[2:4], size[4] = edges[[0, -1]], np.nan, np.inf
    expected = np.zeros(len(edges) + 1)
    for one in size[~np.isnan(size)]:
        expected[sum(one > edge for edge in edges)] += 1
    found = shell_counts(np.stack([size, size[::-1]]), edges)
    np.testing.assert_array_equal(found, np.stack([expected, expected]))
    assert (expected > 0).all()
    assert found.sum() == 2 * 398


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_a_radius_leaves_as_many_outside_as_it_says(name: str) -> None:
    """Without noise within what lies between two edges, and monotone: the more, the narrower."""
    size, edges = counts_around(name)
    shells = shell_counts(size[None], edges).astype(float)
    beyond = np.array([np.sum(size > edge) for edge in edges])
    before = math.inf
    for outside in np.linspace(0.0, 400.0, 801):
        (radius,) = choose_radius(shells, edges, np.array([outside]))
        assert edges[0] <= radius <= edges[-1] * (1.0 + 1e-12)
        assert radius <= before * (1.0 + 1e-12)
        before = radius
        left = np.sum(size > radius)
        place = np.searchsorted(edges, radius * (1.0 - 1e-12))
        slack = beyond[max(place - 1, 0)] - beyond[min(place, len(edges) - 1)]
        if beyond[-1] < outside < beyond[0]:
            assert abs(left - outside) <= slack
    for at, edge in enumerate(edges[:-1]):  # on an edge exactly
        (radius,) = choose_radius(shells, edges, np.array([float(beyond[at])]))
        assert radius == pytest.approx(edge)


def test_radii_of_repetitions_are_those_of_each_alone() -> None:
    """Bit for bit, of counts that noise has made any numbers, of one edge too."""
    _, edges = counts_around(SPD[0])
    rng = np.random.default_rng(3)
    shells = rng.normal(20.0, 30.0, (300, len(edges) + 1))
    outside = rng.uniform(0.0, 200.0, 300)
    together = choose_radius(shells, edges, outside)
    alone = [choose_radius(shells[[r]], edges, outside[[r]])[0] for r in range(300)]
    np.testing.assert_array_equal(together, alone)
    assert len(np.unique(together)) > 100
    assert edges[0] <= together.min() <= together.max() <= edges[-1] * (1.0 + 1e-12)


def test_counts_of_one_peak_are_the_nearest() -> None:
    """Against the best of all peaks, each an isotonic regression on either side; of any noise."""
    rng = np.random.default_rng(4)
    shells = rng.normal(20.0, 30.0, (50, 9)) + 100.0 * (np.arange(9) == rng.integers(0, 9, (50, 1)))
    found = one_peak(shells)
    for own, one in zip(shells, found, strict=True):
        sides = [
            np.append(
                isotonic_regression(own[:peak]).x if peak else own[:0],
                isotonic_regression(own[peak:], increasing=False).x,
            )
            for peak in range(9)
        ]
        nearest = min(sides, key=lambda side: float(np.sum((side - own) ** 2)))
        np.testing.assert_allclose(one, nearest, atol=1e-9)
        assert one.sum() == pytest.approx(own.sum())
    np.testing.assert_allclose(one_peak(found), found, atol=1e-9)
    assert np.isfinite(one_peak(rng.normal(0.0, 1e300, (50, 9)))).all()


@pytest.mark.parametrize(("mu", "cluster"), [(0.2, 0.0), (0.2, 0.5), (5.0, 0.0)])
def test_where_records_are_few_a_radius_is_of_counts_of_one_peak(
    mu: float, cluster: float, watch: Watcher
) -> None:
    """Elsewhere, and where there is a cluster, it is of the released ones."""
    name, asked = SPD[0], watch(likely_counts)
    counts = np.array([0.0, 0.1, 0.9, 0.1, -0.1, 0.08, 0.0, 0.05, *[0.0] * 6, cluster, 0.0, 0.0])

    def told(step: int, length: int) -> FloatArray:
        return counts / SQRT2 if STEP_NAMES[step] == "shells 2" else np.zeros(length)

    ready = adaptive(inner(name, 400, 8), domain=facts_of(name), manifold=space_of(name))
    drawn(ready, GDP(mu), Probe((told,)))
    peaked = one_peak(400.0 * counts[None])[0]
    assert np.abs(peaked - 400.0 * counts).max() > 10.0
    few = mu < 1.0 and not cluster
    np.testing.assert_allclose(
        asked[1].given["shells"][0], peaked if few else 400.0 * counts, atol=1e-9
    )


def test_records_outside_go_with_the_noise_and_never_are_most() -> None:
    """√d·σ of a sum times a number, and at most a share of all."""
    ((few,), (many,)) = (records_outside(noise, 16, np.array([1000])) for noise in (0.5, 1e6))
    assert few == pytest.approx(OUTSIDE * 4.0 * 0.5)
    assert many == pytest.approx(MOST_OUTSIDE * 1000)


def test_sizes_are_the_plain_formula() -> None:
    """‖y − c‖ of each record, infinite where it is no number, of each of several centres."""
    rng = np.random.default_rng(7)
    seen, centres = 3.0 * rng.standard_normal((200, 6)), rng.standard_normal((3, 6))
    seen[5, 2], seen[6, 0] = np.nan, -np.inf
    found = sizes_around(np.ascontiguousarray(seen.T)[None], centres)
    for centre, own in zip(centres, found, strict=True):
        expected = np.linalg.norm(seen - centre, axis=1)
        expected[5] = np.inf
        np.testing.assert_allclose(own, expected, rtol=1e-12)
        np.testing.assert_array_equal(sizes(seen, centre), own)


@pytest.mark.parametrize("radius", [0.02, 0.7, 3.0, 1e3])
def test_clipped_sums_are_the_plain_formula(radius: float) -> None:
    """Σ 2⁴⁰·y·min(1, R/‖y‖)/unit, from the centre, each rounded; nothing is shortened."""
    rng = np.random.default_rng(2)
    seen, centre = 2.0 * rng.standard_normal((200, 6)), rng.standard_normal(6)
    way = seen - centre
    expected = way * np.minimum(1.0, radius / np.linalg.norm(way, axis=1))[:, None]
    to = Clip(centre, radius, 2.0 * radius)
    found = clipped_sum(seen, to)
    assert found.dtype == np.int64
    np.testing.assert_allclose(
        found / PER_UNIT * to.unit, expected.sum(axis=0), rtol=1e-6, atol=1e-4
    )
    one = clipped_sum(seen[:1], to)
    assert np.abs(one - expected[0] / to.unit * PER_UNIT).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("lines", [0, 1])
def test_clipped_vectors_form_a_set_of_diameter_one(lines: int) -> None:
    """In the released units one record has norm ≤ ½, so two are at most 1 apart; it is reached."""
    rng = np.random.default_rng(3)
    for radius in rng.exponential(3.0, 20):
        to = reaching(6, lines, radius)
        seen = rng.standard_normal((300, 6)) * 10.0 ** rng.uniform(-2.0, 6.0, (300, 1))
        vectors = clipped_vectors(seen, to)
        longest = clipped_vectors(seen, to._replace(farthest=0.0))  # no vector is shortened
        norms, wide = (np.linalg.norm(found, axis=1) for found in (vectors, longest))
        assert wide.max() <= 0.5 * (1.0 + 1e-12) + math.sqrt(6.0) / PER_UNIT / 2.0
        assert (norms <= wide + 1e-11).all()
        assert wide.max() > 0.4999


@pytest.mark.addons
@pytest.mark.parametrize("name", ["spd-affine-invariant", "hyperbolic"])
def test_newtons_step_of_one_record_is_that_of_its_distance(name: str) -> None:
    """The inverse Hessian of ½·dist(·, x)², by differences of second order: to 1e-5."""
    space: Any = MANIFOLDS[name].of_dimension(6)
    rng, step = np.random.default_rng(3), 1e-3
    for size in (0.01, 1.0, 4.0):
        u = rng.standard_normal(6)
        u *= size / np.linalg.norm(u)
        place = space.exp(space.origin, u)

        def half(way: FloatArray, place: Point = place) -> FloatArray:
            return 0.5 * space.dist(space.exp(space.origin, way), place) ** 2

        ends = step * np.eye(6)
        ways = np.array([[[a + b, a - b, b - a, -a - b] for b in ends] for a in ends])
        hessian = half(ways) @ [1.0, -1.0, -1.0, 1.0] / (4.0 * step**2)
        found = newton_step(space, np.outer(u, u))
        np.testing.assert_allclose(found @ hessian, np.eye(6), atol=1e-5)


@pytest.mark.addons
@pytest.mark.parametrize("name", ["spd-affine-invariant", "hyperbolic"])
def test_newtons_step_goes_no_farther_than_the_mean_hessian_says(name: str) -> None:
    """It is at most the inverse of the mean of Hessians, and near it where sizes are alike."""
    space: Any = MANIFOLDS[name].of_dimension(6)
    rng = np.random.default_rng(4)
    for scatter in (0.0, 0.3, 1.0):
        ways = rng.standard_normal((200, 6))
        ways *= (1.5 * np.exp(scatter * rng.standard_normal(200)) / lengths(ways))[:, None]
        each = [np.linalg.inv(newton_step(space, np.outer(u, u))) for u in ways]
        exact = np.linalg.inv(np.mean(each, axis=0))
        found = newton_step(space, ways.T @ ways / 200)
        assert np.linalg.eigvalsh(exact - found)[0] >= -1e-12
        if scatter == 0.0:
            np.testing.assert_allclose(found, exact, rtol=0.05, atol=0.05)
    np.testing.assert_allclose(newton_step(space, np.zeros((6, 6))), np.eye(6), atol=1e-9)


def test_a_manifold_that_tells_nothing_is_as_bent_as_it_may_be() -> None:
    """As if its curvature were the least everywhere: steps are no longer than they should be."""
    space: Any = MANIFOLDS["spd-affine-invariant"].of_dimension(6)
    silent: Any = SimpleNamespace(curvature=space.curvature)
    wide = np.random.default_rng(5).standard_normal((6, 6))
    both = [newton_step(one, wide @ wide.T) for one in (space, silent)]
    assert np.linalg.eigvalsh(both[0] - both[1])[0] >= -1e-12
    x = math.sqrt(0.5 * 5.0)
    alone = newton_step(silent, np.diag([5.0, 0.0, 0.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(alone, np.diag([1.0, *[math.tanh(x) / x] * 5]), atol=1e-9)


def beyond(share: float) -> Script:
    """Return a script: all up to the last edge at first, then a share beyond, the rest near."""

    def script(step: int, length: int) -> FloatArray:
        out = np.zeros(length)
        if STEP_NAMES[step] == "shells 1":
            out[-2] = 1.0 / SQRT2
        elif STEP_NAMES[step] == "shells 2":
            out[[0, -1]] = (1.0 - share) / SQRT2, share / SQRT2
        return out

    return script


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_a_ball_around_all_is_that_where_it_has_less_noise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the radius on where both have the same noise: there all that records may be is inside.

    Δ stays, the axes are orthogonal and as long as the ball is wide, along the contrast axis too.
    """
    facts = Ball(2.0, "hyperbolic") if name == "hyperbolic" else facts_of(name)
    space = space_of(name)
    expected = default_prior(facts, space).centre
    near = expected + 0.1 * np.random.default_rng(8).standard_normal((30, len(expected)))
    ready = adaptive(space.exp(space.origin, near), domain=facts, manifold=space)
    records, d = ready.records, ready.records.space.dim
    equal = facts.radius * math.sqrt(d / np.sum(records.frame.from_axes**2))
    for factor, wide in ((0.999, False), (1.001, True), (50.0, True)):
        forced(monkeypatch, factor * equal)
        release = drawn(ready, GDP(2.0), 4, size=40)
        assert [step.sensitivity for step in release.steps] == [release.steps[0].sensitivity] * 5
        for seen in release.moments:
            assert seen.lines == records.frame.lines
            assert len(seen.overshoots) == 1 + 4 * seen.lines + len(records.prior.odd)
            around_all = np.allclose(seen.axes @ seen.axes.T, (2.0 * facts.radius) ** 2 * np.eye(d))
            assert around_all == wide
            if wide:  # nothing is cut off: 6 deviations, 1e-9 for each overshoot of a draw
                assert (np.abs(seen.overshoots) < 6.0 * seen.overshoot_noise).all()
        if wide and records.space.flat:
            sd = 2.0 * facts.radius * release.steps[-1].sigma
            squares = np.sum((release.outputs - records.barycentre.point) ** 2, axis=1) / sd**2
            assert abs(squares.mean() - d) < 6.0 * math.sqrt(2.0 * d / 40.0)


@pytest.mark.parametrize("name", SPD)
def test_a_ball_around_all_is_that_where_many_are_beyond_the_last_edge(name: str) -> None:
    """A share of `MOST_BEYOND` in the second counts, and more than noise; released values alone."""
    ready = adaptive(inner(name, 400, 8), domain=facts_of(name), manifold=space_of(name))
    around_all = 2.0 * facts_of(name).radius
    for share, mu, wide in ((0.9, 5.0, False), (1.1, 5.0, True), (1.1, 0.24, False)):
        probe = Probe((beyond(share * MOST_BEYOND),))
        (seen,) = drawn(ready, GDP(mu), probe).moments
        length = np.linalg.norm(seen.axes[-1])
        assert (length == pytest.approx(around_all)) == wide, (share, mu)


def test_records_in_plain_axes_are_those_of_the_sample() -> None:
    """What was drawn of records has their coordinates, in the one axes and in the other."""
    ready = adaptive(inner(SPD[0], 30, 8), domain=facts_of(SPD[0]), manifold=space_of(SPD[0]))
    rows = np.array([3, 3, 17])
    for records in (ready.records, ready.records.unshaped):
        (seen,), (few,) = records.seen, records.sample(rows).seen
        np.testing.assert_array_equal(few, seen[rows])
    plain, sample = ready.records.unshaped, ready.records.sample(rows).unshaped
    np.testing.assert_array_equal(next(iter(sample.seen)), next(iter(plain.seen))[rows])
    frame = plain.frame
    np.testing.assert_allclose(frame.to_axes @ frame.to_axes.T, np.eye(15), atol=1e-12)
    assert frame.to_axes[:, 0] == pytest.approx(ready.records.prior.line)


@pytest.mark.addons
@pytest.mark.parametrize("name", SPACES)
def test_shares_follow_from_public_numbers_alone(name: str) -> None:
    """Those of a draw are those that `is_few` says of budget and n, of each kind of budget."""
    facts = Ball(2.0, "hyperbolic") if name == "hyperbolic" else facts_of(name)
    ready = adaptive(inner(name, 200, 8), domain=facts, manifold=space_of(name))
    prior, d, found = ready.records.prior, ready.records.space.dim, set()
    least = FEW * math.sqrt(d) / 200
    for mu in (0.5 * least, (1.0 - 1e-6) * least, (1.0 + 1e-6) * least, 2.0 * least):
        budgets: list[Budget] = [GDP(mu), ZCDP(mu**2 / 2.0)]
        budgets.append(ApproxDP(1.0, delta_of(GDP(mu), 1.0)))
        for budget in budgets:
            few = is_few(budget, 200, prior)
            assert few == (name in SPD and mu < least)
            steps = step_costs(budget, 200, default_shares(prior, few=few), dim=d)
            assert drawn(ready, budget, 0).steps == steps
            found.add(few)
    assert len(found) == (2 if name in SPD else 1)


def narrow(step: int, length: int) -> FloatArray:
    """Say that a class is narrow, seen from a second centre a little way from the first."""
    out = np.zeros(length)
    if STEP_NAMES[step].startswith("shells"):
        out[12 if STEP_NAMES[step] == "shells 1" else 8] = 1.0 / SQRT2
    elif STEP_NAMES[step] == "mean 2":
        out[:length] = 0.02
    return out


def with_a_tail(step: int, length: int) -> FloatArray:
    """Say the same, but for 1 % of the records, fewer than may be outside."""
    out = narrow(step, length)
    if STEP_NAMES[step] == "shells 2":
        out[[8, 13]] = 0.99 / SQRT2, 0.01 / SQRT2
    return out


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-log-cholesky"])
def test_the_ball_of_a_class_with_a_thick_tail_stays(name: str) -> None:
    """Where half of the records that may be outside reach as far as the first radius."""
    ready = adaptive(inner(name, 400, 8), domain=facts_of(name), manifold=space_of(name))
    first, half, stays = (
        drawn(ready, GDP(5.0), Probe((script,))).moments[0].base
        for script in (lambda _step, length: np.zeros(length), narrow, with_a_tail)
    )
    np.testing.assert_array_equal(stays, first)
    assert np.linalg.norm(half - first) > 0.05


@pytest.mark.parametrize("name", ["spd-log-euclidean", "spd-log-cholesky"])
def test_the_ball_of_a_class_that_seems_narrow_is_halfway(
    name: str, monkeypatch: pytest.MonkeyPatch, watch: Watcher
) -> None:
    """Between the first centre and the second, with the mean of both radii; so it holds both.

    Where it stays, and where it goes all the way, are what other numbers make of the same release.
    From halfway the belief is as much wider as the way is long.
    """
    ready = adaptive(inner(name, 400, 8), domain=facts_of(name), manifold=space_of(name))
    moments, chosen = [], watch(choose_radius)
    beliefs, last_mean = list[FloatArray](), rounds._last

    def before_the_last(source: Any, *rest: Any) -> Any:
        beliefs.append(source.belief[0])
        return last_mean(source, *rest)

    monkeypatch.setattr(rounds, "_last", before_the_last)
    for number, value in (("NEARER", tuning.NEARER), ("NEARER", 0.0), ("FAR_OFF", 0.0)):
        with monkeypatch.context() as patch:
            patch.setattr(tuning, number, value)
            moments.append(drawn(ready, GDP(5.0), Probe((narrow,))).moments[0])
    half, stays, goes = moments
    way = goes.base - stays.base
    assert np.linalg.norm(way) > 0.1
    np.testing.assert_allclose(half.base, stays.base + way / 2.0, rtol=1e-12)
    unit = float(np.linalg.norm(ready.records.frame.from_axes[0]))
    first, last = float(chosen[0].result[0]), float(np.linalg.norm(goes.axes[0])) / unit / 2.0
    assert last < tuning.NEARER * first
    assert np.linalg.norm(half.axes[0]) / unit == pytest.approx(first + last)
    np.testing.assert_allclose(beliefs[0] - beliefs[2], np.outer(way, way) / 4.0, atol=1e-9)
