"""Parts of the adaptive mean against oracles: SciPy's optimisers, enumeration, plain formulas.

All random numbers are seeded; inequalities are proven, so that no correct code is rejected.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sample_descriptors import ridge
from scipy.integrate import quad
from scipy.optimize import minimize

from pipeline.arrays import FloatArray
from pipeline.descriptors import DescriptorDomain, describe, domain
from pipeline.errors import PrivacyError
from pipeline.geometry import (
    MANIFOLDS,
    FlatChart,
    Manifold,
    Point,
    frechet_mean,
    sym_log,
    unvecd,
)
from pipeline.geometry.covariances import SPECTRUM_TOLERANCE, fit_spectrum
from pipeline.mean import Ball, Prior, admit, default_prior, feasible_set
from pipeline.mean.axes import Frame, build_frame
from pipeline.mean.clip import (
    Interval,
    choose_clip,
    choose_interval,
    clipping,
    mean_units,
    sizes_within,
    stretch,
)
from pipeline.mean.histogram import (
    LineBins,
    SharePosterior,
    ShellBins,
    SurveyPosterior,
    _reach,
    estimate,
    line_bins,
    posterior,
    shell_bins,
    shell_counts,
    smooth,
    survey_counts,
    survey_posterior,
)
from pipeline.mean.histogram import _moves as moves
from pipeline.mean.noisy_moments import posterior_update
from pipeline.mean.public_model import FeasibleSet
from pipeline.mean.records import CONDITION
from pipeline.mean.records import GRADIENT_TOLERANCE as STEPS_END
from pipeline.mean.sums import PER_UNIT, as_repetition, sizes
from pipeline.mean.tuning import (
    FAR_RATIO,
    LENGTH_DISCOUNT,
    LEVEL_SD,
    LINE_PRIOR,
    LINE_WEIGHT,
    SHELL_PRIOR,
    HmmPrior,
)
from tests.sample_means import clip_of, clipped_sum

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


@pytest.mark.parametrize("name", SPACES)
def test_projections_are_idempotent(name: str) -> None:
    """Projecting twice moves by rounding only."""
    space, area = setting(name)
    once = area.inside(outer(name, 300, 1))
    assert np.isfinite(once).all()
    assert space.dist(area.inside(once), once).max() < 3e-6


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


@pytest.mark.parametrize("name", SPACES)
def test_projections_end_inside(name: str) -> None:
    """Projected points obey the region's definition, within its tolerance on logarithms."""
    _, area = setting(name)
    assert violation(name, outer(name, 300, 3)) > 0.1
    assert violation(name, area.inside(outer(name, 300, 3))) < 2.0 * SPECTRUM_TOLERANCE
    assert violation(name, inner(name, 300, 3, edge=True)) < 1e-9


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


@pytest.mark.parametrize("name", SPACES)
def test_regions_are_as_wide_as_stated(name: str) -> None:
    """No two points are farther apart than the diameter."""
    space, area = setting(name)
    points = np.concatenate([inner(name, 60, 7), inner(name, 100, 8, edge=True)])
    points = np.concatenate([points, area.inside(outer(name, 60, 9))])
    assert space.dist(points[:, None], points).max() <= area.diameter


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
def test_regions_and_lines_hold_every_image(name: str, descriptor: str) -> None:
    """Descriptors of images are in the region to the last bit, and on the line's span."""
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
    prior = default_prior(facts, space)
    assert prior.line is not None
    places = space.log(space.origin, points) @ prior.line
    slack = 1e-6
    assert prior.span[0] - slack <= places.min()
    assert places.max() <= prior.span[1] + slack


@pytest.mark.parametrize("descriptor", ["oct5", "vol7", "grid9", "grid11"])
def test_no_two_points_of_a_region_are_farther_apart_than_its_shape(descriptor: str) -> None:
    """Over the shape factors as far apart as they can be are D apart, others less, and noise least.

    To the last 1e-11. Any other shape of a D like it, a bit wider in one factor and narrower in
    another, is noisier.
    """
    facts = facts_of("spd-log-cholesky", descriptor)
    k, bound = len(facts.variances), np.array(facts.variances)
    region = feasible_set(facts, space_of("spd-log-cholesky", k))
    rng, d = np.random.default_rng(13), k * (k + 1) // 2
    far = region.inside(rng.standard_normal((2, 500, d)) * 10.0 ** rng.uniform(-1, 4, (2, 500, 1)))
    apart = np.linalg.norm((far[0] - far[1]) / region.shape, axis=-1)
    assert apart.max() <= region.diameter
    rows = np.tril_indices(k, -1)[0]
    two = np.empty((2, d))
    two[0, :k], two[1, :k] = 0.5 * np.log(facts.eta), 0.5 * np.log(bound + facts.eta)
    two[:, k:] = np.outer([-1.0, 1.0], np.sqrt(bound[rows] / rows))
    np.testing.assert_allclose(region.inside(two), two, rtol=1e-12)
    over = (two[0] - two[1]) / region.shape
    assert np.linalg.norm(over) == pytest.approx(region.diameter, rel=1e-11)
    assert np.linalg.norm(over) <= region.diameter
    factors = np.concatenate([np.arange(k), k - 1 + rows])
    for one in range(factors.max()):
        other = region.shape * np.where(factors == one, 1.01, 1.0)
        other = other * np.linalg.norm((two[0] - two[1]) / other) / region.diameter
        assert np.sum(other**2) > np.sum(np.square(region.shape))


def test_means_have_axes_of_their_own_in_the_shape() -> None:
    """Two embeddings at opposite ends of every factor are D apart over it; others are less.

    But for ln L_11, which is 0 of all: an axis that is nearly 0 is given to it, and no more.
    """
    facts = facts_of("spd-log-cholesky", "gauss6")
    region = feasible_set(facts, space_of("spd-log-cholesky", 6))
    rng, bound = np.random.default_rng(13), np.array(facts.variances)
    far = region.inside(rng.standard_normal((2, 500, 21)) * 10.0 ** rng.uniform(-1, 4, (2, 500, 1)))
    assert np.linalg.norm((far[0] - far[1]) / region.shape, axis=-1).max() <= region.diameter
    assert (far[..., 0] == 0.0).all()
    rows, columns = np.tril_indices(6, -1)
    two = np.zeros((2, 21))
    two[0, 1:6], two[1, 1:6] = 0.5 * math.log(facts.eta), 0.5 * np.log(bound[1:] + facts.eta)
    rest = np.sqrt(bound[rows] / np.maximum(rows - 1, 1))
    two[:, 6:] = np.where(columns == 0, [[0.0], [1.0]] * np.array(facts.means)[rows - 1], 0.0)
    two[:, 6:] += np.where(columns > 0, [[-1.0], [1.0]] * rest, 0.0)
    np.testing.assert_allclose(region.inside(two), two, rtol=1e-12)
    over = np.linalg.norm((two[0] - two[1]) / region.shape)
    assert over == pytest.approx(region.diameter, rel=1e-5)
    assert over <= region.diameter
    plain = feasible_set(facts_of("spd-log-cholesky"), space_of("spd-log-cholesky"))
    widths = math.sqrt(21.0) * region.cover, math.sqrt(15.0) * plain.cover
    assert widths[0] <= 1.01 * (widths[1] + sum(facts.means))


def test_lines_span_what_the_determinant_can_be() -> None:
    """The line's ends are reached: η·Id, and a diagonal of all the largest variances."""
    facts, space = facts_of("spd-log-euclidean"), space_of("spd-log-euclidean")
    prior = default_prior(facts, space)
    assert prior.line is not None
    ends = [math.log(facts.eta) * np.ones(5), np.log(np.array(facts.variances) + facts.eta)]
    assert prior.span == pytest.approx([prior.line[:5] @ end for end in ends])


def random_prior(seed: int, d: int, *, lines: int) -> Prior:
    """Return a prior with a random line and shape."""
    rng = np.random.default_rng(seed)
    line = rng.standard_normal(d)
    root = rng.standard_normal((d, d))
    return Prior(
        centre=rng.standard_normal(d),
        line=line / np.linalg.norm(line) if lines else None,
        span=(-30.0, 12.0),
        step=1.5,
        shape=root @ root.T + 0.2 * np.eye(d),
        least=0.4,
        doubt=0.7,
        farthest=60.0,
    )


PRIOR = random_prior(0, 6, lines=1)


def frame_of(prior: Prior) -> Frame:
    """Return the axes of a prior."""
    return build_frame(prior.line, prior.shape)


@pytest.mark.parametrize("lines", [0, 1])
def test_frames_turn_and_scale(lines: int) -> None:
    """`into` and `back` are inverse, the line is kept, the scales off it have mean square 1."""
    for seed in range(10):
        prior = random_prior(seed, 6, lines=lines)
        frame = frame_of(prior)
        np.testing.assert_allclose(frame.to_axes @ frame.from_axes, np.eye(6), atol=1e-9)
        assert frame.others == 6 - lines
        scales = np.linalg.svd(frame.from_axes[lines:], compute_uv=False)
        assert np.mean(scales**2) == pytest.approx(1.0)
        # their squares are the variances of records with the expected covariance, up to a factor
        assert frame.narrowest == pytest.approx(scales.min())
        assert frame.widest == pytest.approx(scales.max())
        if prior.line is not None:
            np.testing.assert_allclose(frame.to_axes[:, 0], prior.line, atol=1e-12)
            np.testing.assert_allclose(prior.line @ frame.from_axes[1:].T, 0.0, atol=1e-9)
            np.testing.assert_allclose(frame.from_axes[0], prior.line, atol=1e-12)


@pytest.mark.parametrize("lines", [0, 1])
def test_covariances_of_the_frame(lines: int) -> None:
    """`isotropic`, `belief` and `off_line` are what their formulas say, along the line and off."""
    prior = random_prior(3, 6, lines=lines)
    frame = frame_of(prior)
    rng = np.random.default_rng(4)
    off = np.eye(6)
    if prior.line is not None:
        off -= np.outer(prior.line, prior.line)
        for matrix in (frame.isotropic(2.0, 3.0), frame.prior_cov(2.0, 3.0)):
            assert prior.line @ matrix @ prior.line == pytest.approx(2.0)
            np.testing.assert_allclose(off @ matrix @ prior.line, 0.0, atol=1e-9)
    directions = rng.standard_normal((5, 6)) @ off
    np.testing.assert_allclose(directions @ frame.isotropic(2.0, 3.0), 3.0 * directions, atol=1e-9)
    squared = frame.from_axes[lines:].T @ frame.from_axes[lines:]
    np.testing.assert_allclose(
        off @ frame.prior_cov(2.0, 3.0) @ off, 3.0 * squared @ squared, atol=1e-9
    )
    for matrix in (frame.isotropic(2.0, 3.0), np.diag(np.arange(1.0, 7.0))):
        expected = math.sqrt(np.trace(off @ matrix @ off))
        assert frame.off_line(matrix) == pytest.approx(expected)


def test_worth_is_the_root_mean_square_of_a_unit_of_expected_records() -> None:
    """Records z with covariance scale² are, per unit of root mean square, `worth` long."""
    frame = frame_of(random_prior(5, 6, lines=1))
    scales = np.linalg.svd(frame.from_axes[1:], compute_uv=False)
    # records of covariance scale⁴ in distance have covariance scale² in the frame
    expected = math.sqrt(np.sum(scales**4) / np.sum(scales**2))
    assert frame.unit_length == pytest.approx(expected)


def test_shrinking_is_bayes_where_belief_and_observation_agree() -> None:
    """E(θ | u) = P(P + S)⁻¹u with covariance (P⁻¹ + S⁻¹)⁻¹ while u'(P + S)⁻¹u ≤ d."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        roots = rng.standard_normal((2, 5, 5))
        noise, belief = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(5)
        observed = rng.standard_normal(5)
        total = noise + belief
        observed *= math.sqrt(5.0 * rng.random() / (observed @ np.linalg.solve(total, observed)))
        found, covariance = posterior_update(observed, noise, belief)
        np.testing.assert_allclose(found, belief @ np.linalg.solve(total, observed), rtol=1e-7)
        bayes = np.linalg.inv(np.linalg.inv(belief) + np.linalg.inv(noise))
        np.testing.assert_allclose(covariance, bayes, rtol=1e-7, atol=1e-9)


def test_shrinking_widens_a_belief_until_it_agrees() -> None:
    """Beyond that the belief is τP with u'(τP + S)⁻¹u = d, and the answer Bayes' with it."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        roots = rng.standard_normal((2, 5, 5))
        noise, belief = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(5)
        observed = 30.0 * rng.standard_normal(5)
        found, covariance = posterior_update(observed, noise, belief)
        # (τP)⁻¹ = Cov⁻¹ − S⁻¹
        precision = np.linalg.inv(covariance) - np.linalg.inv(noise)
        tau = np.trace(precision @ belief) / 5.0
        np.testing.assert_allclose(precision @ belief, tau * np.eye(5), atol=1e-4 * tau)
        widened = belief / tau
        assert 1.0 / tau >= 1.0
        size = observed @ np.linalg.solve(widened + noise, observed)
        assert size == pytest.approx(5.0, rel=1e-4)
        bayes = widened @ np.linalg.solve(widened + noise, observed)
        np.testing.assert_allclose(found, bayes, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("belief", [1e-8, 0.3, 2.0])
@pytest.mark.parametrize("size", [0.1, 1.0, 3.0, 10.0, 1e3, 1e9])
def test_shrinking_alike_in_all_directions_is_james_stein(belief: float, size: float) -> None:
    """For S = Id and P = p·Id: u·max(p/(1 + p), 1 − d/‖u‖²). Far is kept, drowned is not."""
    observed = size * np.array([0.6, 0.0, 0.8, 0.0])
    found, covariance = posterior_update(observed, np.eye(4), belief * np.eye(4))
    gain = max(belief / (1.0 + belief), 1.0 - 4.0 / size**2)
    np.testing.assert_allclose(found, gain * observed, rtol=1e-5, atol=1e-6 * size)
    np.testing.assert_allclose(covariance, gain * np.eye(4), rtol=1e-5, atol=1e-6)


def test_shrinking_survives_extremes() -> None:
    """Beliefs of rank 1 and observations of 1e30 standard deviations give finite answers."""
    belief = np.zeros((3, 3))
    belief[0, 0] = 1.0
    for size in (1e-30, 1.0, 1e30):
        found, covariance = posterior_update(size * np.ones(3), np.eye(3), belief)
        assert np.isfinite(found).all()
        assert np.isfinite(covariance).all()
        np.testing.assert_allclose(found[1:], 0.0, atol=1e-9 * size)


def enumerated(
    counts: FloatArray, noise: FloatArray, levels: FloatArray, table: FloatArray, first: float
) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and covariance of the shares, by summing over all chains of states."""
    bins, states = len(counts), len(levels)
    start = np.array([1.0 - first, *np.full(states - 2, first / (states - 2)), 0.0])
    total, ones, squares = 0.0, np.zeros(bins), np.zeros((bins, bins))
    own = (LEVEL_SD * levels) ** 2
    for chain in itertools.product(range(states), repeat=bins):
        weight = start[chain[0]]
        for one, two in itertools.pairwise(chain):
            weight *= table[one, two]
        at = np.array(chain)
        spread = own[at] + noise**2
        weight *= np.prod(np.exp(-((counts - levels[at]) ** 2) / (2 * spread)) / np.sqrt(spread))
        gain = own[at] / spread
        share = levels[at] + gain * (counts - levels[at])
        total += weight
        ones += weight * share
        squares += weight * (np.outer(share, share) + np.diag(gain * noise**2))
    mean = ones / total
    return mean, squares / total - np.outer(mean, mean)


@pytest.mark.parametrize("chain", [LINE_PRIOR, SHELL_PRIOR])
def test_the_posterior_is_that_of_enumeration(chain: HmmPrior) -> None:
    """Forward and backward sums give mean and covariance of a sum over all chains of states.

    So they do where only the covariance of each share with their sum is asked for.
    """
    rng = np.random.default_rng(1)
    for _ in range(12):
        rungs, bins = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        table = moves(rungs, chain)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
        levels = np.concatenate([[0.0], np.cumsum(rng.uniform(0.05, 0.4, rungs)), [0.0]])
        noise = rng.uniform(0.02, 0.3, bins)
        counts = rng.choice(levels, bins) + noise * rng.standard_normal(bins)
        known = levels[None], table, chain.first
        (mean,), (covariance,) = posterior(counts[None], noise[None], *known)
        expected = enumerated(counts, noise, levels, table, chain.first)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(covariance, expected[1], rtol=1e-6, atol=1e-10)
        (same,), (sums,) = posterior(counts[None], noise[None], *known, joint=False)
        np.testing.assert_array_equal(same, mean)
        np.testing.assert_allclose(sums, expected[1].sum(axis=1), rtol=1e-6, atol=1e-10)


def test_shares_of_unlike_noise_are_estimated_each_by_its_own() -> None:
    """Together and alone they are the same bits, whatever number of levels each has."""
    rng = np.random.default_rng(6)
    noise = np.repeat([[1e-3], [0.3], [0.05], [0.3]], 9, axis=1)
    counts = rng.dirichlet(np.ones(9), 4) + noise * rng.standard_normal((4, 9))
    together = estimate(counts, noise, LINE_PRIOR)
    for row in range(4):
        alone = estimate(counts[row], noise[row], LINE_PRIOR)
        assert all(
            np.array_equal(every[row], one) for every, one in zip(together, alone, strict=True)
        )


def test_the_first_bin_says_nothing_of_the_others() -> None:
    """Featureless images are no end of a tail; nor does a class lie nearer to them for some."""
    rng, noise = np.random.default_rng(5), np.full(9, 0.01)
    counts = np.append(0.0, [0.0, 0.0, 0.0, 0.1, 0.6, 0.3, 0.0, 0.0])
    counts += 0.01 * rng.standard_normal(9)
    other = counts.copy()
    other[0] = 0.2
    (mean, covariance), changed = (estimate(x, noise, LINE_PRIOR) for x in (counts, other))
    np.testing.assert_array_equal(mean[1:], changed[0][1:])
    np.testing.assert_array_equal(covariance[1:, 1:], changed[1][1:, 1:])
    assert mean[0] < changed[0][0]
    assert not covariance[0, 1:].any()
    sums = estimate(counts, noise, LINE_PRIOR, joint=False)[1]
    np.testing.assert_allclose(sums, covariance.sum(axis=1), rtol=1e-12)


def test_a_tail_that_thins_out_goes_on_and_one_that_ends_at_a_stroke_does_not() -> None:
    """Without noise in the counts, beyond the last bin that is seen; far from all others nothing.

    With `level_decay` of 0 both tails are thought to go on alike, and a bin that lies apart is
    thought to be filled as often as the first one with `p_refill` as large as `p_fill`.
    """
    noise = np.full(12, 0.01)
    thin = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.03, 0.1, 0.4, 0.46, 0.0, 0.0])
    short = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.54, 0.46, 0.0, 0.0])
    goes_on, ends = (estimate(shares, noise, LINE_PRIOR)[0] for shares in (thin, short))
    assert goes_on[4] > 2.0 * ends[7]
    alike = LINE_PRIOR._replace(level_decay=0.0)
    goes_on, ends_too = (estimate(shares, noise, alike)[0] for shares in (thin, short))
    assert goes_on[4] < 2.0 * ends_too[7]
    apart = LINE_PRIOR._replace(p_refill=LINE_PRIOR.p_fill)
    assert estimate(short, noise, apart)[0][1] > 3.0 * ends[1]


@pytest.mark.parametrize("chain", [LINE_PRIOR, SHELL_PRIOR])
@pytest.mark.parametrize("sigma", [1e-14, 1e-9, 1e-4])
def test_shares_are_recovered_at_vanishing_noise(chain: HmmPrior, sigma: float) -> None:
    """With noise σ the shares are what they were within 6σ; seeded, false alarms below 1e-6."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        shares = rng.multinomial(1000, rng.dirichlet(np.full(12, 0.3))) / 1000.0
        counts = shares + sigma * rng.standard_normal(12)
        found = smooth(counts, np.full(12, sigma), chain)[0]
        np.testing.assert_allclose(found, shares, atol=6.0 * sigma)


@pytest.mark.parametrize("chain", [LINE_PRIOR, SHELL_PRIOR])
@pytest.mark.parametrize("sigma", [1e-3, 0.01, 0.02])
def test_shares_are_shares(chain: HmmPrior, sigma: float) -> None:
    """They are ≥ 0, and sum to 0.8 to 1.4 where the noise is small enough to tell; seeded.

    What one is larger by others are smaller by.
    """
    rng = np.random.default_rng(3)
    totals = []
    for _ in range(60):
        shares = rng.dirichlet(np.full(12, 0.3))
        counts = shares + sigma * rng.standard_normal(12)
        found, covariance = smooth(counts, np.full(12, sigma), chain)
        assert (found >= 0.0).all()
        assert np.abs(covariance.sum(axis=1)).max() < 1e-6 * np.diag(covariance).max()
        totals.append(found.sum())
    assert min(totals) > 0.8
    assert max(totals) < 1.4


@pytest.mark.parametrize("chain", [LINE_PRIOR, SHELL_PRIOR])
def test_smoothing_is_nearer_than_the_counts(chain: HmmPrior) -> None:
    """On clustered shares the mean square error is under half of that of the raw counts."""
    rng = np.random.default_rng(4)
    shares = np.array([0.1, 0.5, 0.3, 0.1] + [0.0] * 14)
    raw = shares + 0.1 * rng.standard_normal((400, 18))
    found = np.stack([smooth(row, np.full(18, 0.1), chain)[0] for row in raw])
    assert np.mean((found - shares) ** 2) < 0.5 * np.mean((raw - shares) ** 2)


@pytest.mark.parametrize("chain", [LINE_PRIOR, SHELL_PRIOR])
def test_smoothing_survives_nonsense(chain: HmmPrior) -> None:
    """Counts that no records have give finite shares ≥ 0."""
    for value in (-1e6, -1.0, 0.0, 3.0, 1e6):
        for sigma in (1e-12, 1e-3, 1.0, 1e9):
            for counts in (np.full(9, value), np.append(value, np.zeros(8)), np.full(1, value)):
                found, _ = smooth(counts, np.full(len(counts), sigma), chain)
                assert np.isfinite(found).all()
                assert (found >= 0.0).all()


def test_reach_is_the_mean_excess_of_a_uniform_record() -> None:
    """E max(x − cut, 0) for x uniform in a bin, against quadrature."""
    ends, cuts = np.array([-3.0, -1.0, 0.5, 4.0]), np.array([-9.0, -2.0, 0.0, 0.7, 4.0, 5.0])
    found = _reach(ends, cuts)
    for b, c in itertools.product(range(3), range(6)):
        low, high = ends[b], ends[b + 1]
        points = [cuts[c]] if low < cuts[c] < high else None
        whole = quad(lambda x, cut=cuts[c]: max(x - cut, 0.0), low, high, points=points)[0]
        assert found[b, c] == pytest.approx(whole / (high - low), abs=1e-9)


def bins_of(name: str) -> tuple[Prior, Frame, LineBins | None, ShellBins, float]:
    """Return the prior, frame and bins that a space gets."""
    space, area = setting(name)
    facts = Ball(2.0, "hyperbolic") if name == "hyperbolic" else facts_of(name)
    prior = default_prior(facts, space)
    frame = frame_of(prior)
    start = float(prior.centre @ frame.to_axes[:, 0])
    line = line_bins(prior, start) if frame.lines else None
    return prior, frame, line, shell_bins(prior, frame, area.diameter), start


@pytest.mark.parametrize("name", SPD)
def test_bins_along_the_line(name: str) -> None:
    """Edges rise within the span; cuts cover it; what a bin reaches beyond a cut is not less.

    Inner bins, one step wide, hold uniform records; outer ones have them at the outer end.
    """
    prior, _, line, _, _ = bins_of(name)
    assert line is not None
    low, high = prior.span
    assert (np.diff(line.edges) > 0.0).all()
    assert low < line.edges[0]
    assert line.edges[-1] < high
    assert line.cuts[0] == low
    assert high - prior.step / 4 <= line.cuts[-1] <= high + prior.step / 4
    ends = np.concatenate([[low], line.edges, [high]])
    middles = (ends[1:] + ends[:-1])[:, None] / 2.0
    assert (line.above >= np.maximum(middles - line.cuts, 0.0) - 1e-9).all()
    assert (line.below >= np.maximum(line.cuts - middles, 0.0) - 1e-9).all()
    assert (line.above <= np.maximum(ends[1:, None] - line.cuts, 0.0) + 1e-9).all()
    assert (line.below <= np.maximum(line.cuts - ends[:-1, None], 0.0) + 1e-9).all()
    np.testing.assert_allclose(line.below[0], np.maximum(line.cuts - low, 0.0))
    np.testing.assert_allclose(line.above[-1], np.maximum(high - line.cuts, 0.0))


@pytest.mark.parametrize("name", SPACES)
def test_shells_reach_as_far_as_a_record_can_be(name: str) -> None:
    """The radii rise from `least` to the region's width in the narrowest direction."""
    prior, frame, _, shells, _ = bins_of(name)
    _, area = setting(name)
    assert shells.edges[0] == prior.least == shells.cuts[0]
    np.testing.assert_allclose(shells.edges[1:] / shells.edges[:-1], 1.35)
    assert shells.cuts[-1] >= area.diameter / frame.narrowest
    assert shells.above.shape == (len(shells.edges) + 1, len(shells.cuts))
    np.testing.assert_allclose(shells.above[:, -1], 0.0, atol=1e-9)
    assert 0 < shells.far <= len(shells.edges)
    if shells.far < len(shells.edges):
        ends = np.append(0.0, shells.edges)
        assert ends[shells.far - 1] < FAR_RATIO * prior.least <= ends[shells.far]


@pytest.mark.parametrize("name", SPACES)
def test_counts_put_each_record_where_the_formula_says(name: str) -> None:
    """Survey and shells against a loop over the records in Python."""
    prior, frame, line, shells, start = bins_of(name)
    rng = np.random.default_rng(1)
    seen = rng.standard_normal((400, len(frame.to_axes))) * 10.0 ** rng.uniform(-2.0, 1.5, (400, 1))
    many = 0 if line is None else len(line.edges)
    survey = np.zeros(many + 1 + len(shells.edges) + 1 - shells.far)
    counts = np.zeros(len(shells.edges) + 1)
    for row in seen:
        size = math.sqrt(sum(x * x for x in row[frame.lines :]))
        counts[sum(size > edge for edge in shells.edges)] += 1
        place = 0 if line is None else sum(row[0] > edge for edge in line.edges)
        if sum(size > edge for edge in shells.edges) >= shells.far:
            ahead = abs(row[0] - start) / LINE_WEIGHT if frame.lines else 0.0
            place = many + 1 - shells.far
            place += sum(max(size, ahead) > edge for edge in shells.edges)
        survey[place] += 1
    found = sizes(seen, np.zeros(len(frame.to_axes)), frame.lines)
    assert np.array_equal(shell_counts(found[None], shells.edges), counts[None])
    assert np.array_equal(survey_counts(seen, line, shells), survey)
    assert survey.sum() == counts.sum() == 400.0
    assert (survey[many + 1 :] > 0).any()
    assert prior.least > 0.0


@pytest.mark.parametrize("lines", [0, 1])
def test_sizes_are_the_plain_formula(lines: int) -> None:
    """ρ² = t² + ‖z‖², t = α·(clip(x) − middle); without a line it is ‖z‖."""
    frame, rng = frame_of(random_prior(6, 6, lines=lines)), np.random.default_rng(7)
    seen = 3.0 * rng.standard_normal((200, 6))
    size = sizes(seen, np.zeros(6), lines)
    (found,) = sizes_within(as_repetition(seen, size), Interval(-1.0, 2.0, 0.7), frame)
    place = 0.7 * (np.clip(seen[:, 0], -1.0, 2.0) - 0.5) * lines
    np.testing.assert_allclose(found**2, place**2 + np.sum(seen[:, lines:] ** 2, axis=1))


@pytest.mark.parametrize("lines", [0, 1])
def test_clipped_sums_are_the_plain_formula(lines: int) -> None:
    """Σ 2⁴⁰·(clip(x) − middle, z·min(1, √(R² − t²)/‖z‖))/units, from the centre, each rounded."""
    rng = np.random.default_rng(2)
    for low, high, weight, radius in [
        (-1.0, 0.5, 0.5, 0.7),
        (2.0, 9.0, 0.85, 3.0),
        (-50.0, 50.0, 1.0, 1e3),
        (-1.0, 1.0, 0.7, 0.7),
    ]:
        seen, centre = 2.0 * rng.standard_normal((200, 6)), rng.standard_normal(6)
        rest = seen[:, lines:] - centre[lines:]
        length = np.linalg.norm(rest, axis=1)
        first = np.clip(seen[:, 0], low, high) - (low + high) / 2.0
        room = np.sqrt(np.maximum(radius**2 - lines * (weight * first) ** 2, 0.0))
        expected = rest * np.minimum(1.0, room / length)[:, None]
        if lines:
            expected = np.column_stack([first, expected])
        size = sizes(seen, centre, lines)
        np.testing.assert_allclose(size, length, rtol=1e-12)
        units = rng.uniform(2.0 * max(high - low, radius), 1e4, 6)
        to = centre, units, lines, low, high, weight, radius
        found = clipped_sum(seen, size, *to)
        assert found.dtype == np.int64
        np.testing.assert_allclose(
            found / PER_UNIT * units, expected.sum(axis=0), rtol=1e-6, atol=1e-4
        )
        one = clipped_sum(seen[:1], size[:1], *to)
        assert np.abs(one - expected[0] / units * PER_UNIT).max() <= 0.5 + 1e-3


@pytest.mark.parametrize("lines", [0, 1])
def test_clipped_vectors_form_a_set_of_diameter_one(lines: int) -> None:
    """In the released units one record has norm ≤ ½, so two are at most 1 apart; it is reached.

    At the ends of an interval that touches the ball, too, where nothing is left off the line.
    """
    frame = frame_of(random_prior(6, 6, lines=lines))
    rng = np.random.default_rng(3)
    for share in [*rng.uniform(0.01, 1.0, 20), 1.0, 1.0]:
        low, length, radius = rng.normal(0.0, 5.0), rng.exponential(5.0), rng.exponential(3.0)
        weight = share * radius / (length / 2.0)
        clip = clip_of(low, low + length, radius, weight=weight)
        to = clipping(clip, frame, np.zeros(6), PRIOR)
        seen = rng.standard_normal((300, 6)) * 10.0 ** rng.uniform(-2.0, 6.0, (300, 1))
        size = sizes(seen, np.zeros(6), lines)
        rows = [slice(i, i + 1) for i in range(300)]
        vectors = np.stack([clipped_sum(seen[row], size[row], *to) for row in rows]) / PER_UNIT
        plain = to._replace(reach=np.empty(0))  # no vector is shortened
        longest = np.stack([clipped_sum(seen[row], size[row], *plain) for row in rows]) / PER_UNIT
        norms, wide = (np.linalg.norm(found, axis=1) for found in (vectors, longest))
        assert wide.max() <= 0.5 * (1.0 + 1e-12) + math.sqrt(6.0) / PER_UNIT / 2.0
        assert (norms <= wide + 1e-11).all()
        assert wide.max() > 0.4999


def test_an_interval_that_leaves_its_ball_is_refused() -> None:
    """No vector is longer than ½, whatever a clip that was read from somewhere says."""
    frame = frame_of(random_prior(6, 6, lines=1))
    clipping(clip_of(0.0, 2.0, 1.0, weight=1.0), frame, np.zeros(6), PRIOR)
    for low, high, radius, weight in (
        (0.0, 2.0, 1.0, 1.0 + 1e-9),
        (0.0, 9.0, 1.0, -1.0),
        (9.0, 0.0, 1.0, 1.0),
        (0.0, 2.0, 1.0, math.nan),
        (0.0, 2.0, math.nan, 1.0),
        (-math.inf, math.inf, 1.0, 1.0),
    ):
        with pytest.raises(PrivacyError, match=r"leaves its ball"):
            clipping(clip_of(low, high, radius, weight=weight), frame, np.zeros(6), PRIOR)


def test_the_weight_of_the_line_is_the_best_one() -> None:
    """Were both ends as wide as the middle, the noise would be σ(L + 2C√m), and not be less."""
    frame, rng = frame_of(random_prior(6, 6, lines=1)), np.random.default_rng(6)
    _, _, line, shells, _ = bins_of("spd-log-euclidean")
    assert line is not None
    none = np.zeros(len(shells.edges) + 1 - shells.far)
    for radius in (0.02, 0.5, 7.0):
        shares = rng.dirichlet(np.full(len(line.edges) + 1, 0.2))
        seen = survey_posterior(alone(shares), none, none, (line, shells))
        found = choose_interval(seen, (line, shells), frame, sigma=0.1, radius=radius)
        length = found.high - found.low

        def noise(weight: float, length: float = length, radius: float = radius) -> float:
            ball = math.hypot(weight * length / 2.0, radius)
            units = mean_units(clip_of(0.0, length, ball, weight=weight), frame)
            return float(np.linalg.norm(units))

        least = noise(found.weight)
        assert least == pytest.approx(length + 2.0 * radius * math.sqrt(5.0))
        assert all(noise(weight) >= least * (1.0 - 1e-12) for weight in np.geomspace(0.01, 9.0, 60))
    frame = frame_of(random_prior(6, 6, lines=0))
    assert np.array_equal(mean_units(clip_of(0.0, 0.0, 1.5), frame), np.full(6, 3.0))


def alone(shares: FloatArray) -> SharePosterior:
    """Return shares that are known."""
    return shares, np.zeros((len(shares),) * 2)


def few_cuts(line: LineBins) -> LineBins:
    """Return the bins with every sixth cut: for a loop in Python."""
    few = slice(None, None, 6)
    return replace(line, cuts=line.cuts[few], below=line.below[:, few], above=line.above[:, few])


@pytest.mark.parametrize("sigma", [1e-6, 0.01, 0.3, 20.0])
def test_the_interval_is_the_best_of_all(sigma: float) -> None:
    """Of all pairs of cuts it has the least sum of squared bias and noise."""
    _, frame, line, shells, _ = bins_of("spd-log-cholesky")
    assert line is not None
    line, rng = few_cuts(line), np.random.default_rng(4)
    ends, far = np.append(shells.edges, shells.cuts[-1]), shells.far
    for concentration in (0.05, 0.5, 5.0):
        shares = rng.dirichlet(np.full(len(line.edges) + 1, concentration))
        beyond, every = 0.1 * rng.dirichlet(np.ones(len(shells.edges) + 1 - far)), {}
        for (i, low), (j, high) in itertools.product(enumerate(line.cuts), repeat=2):
            reach = LINE_WEIGHT * ends[far:]
            farthest = np.maximum(line.start - reach, line.cuts[0])
            under = shares @ line.below[:, i] + beyond @ np.maximum(low - farthest, 0.0)
            farthest = np.minimum(line.start + reach, line.cuts[-1])
            over = shares @ line.above[:, j] + beyond @ np.maximum(farthest - high, 0.0)
            noise = sigma * (LENGTH_DISCOUNT * (high - low) + 2.0 * 1.5 * math.sqrt(frame.others))
            if high > low:
                every[low, high] = under**2 + over**2 + noise**2
        seen = survey_posterior(alone(shares), beyond, beyond, (line, shells))
        found = choose_interval(seen, (line, shells), frame, sigma=sigma, radius=1.5)
        assert every[found.low, found.high] == pytest.approx(min(every.values()), rel=1e-12)
    seen = survey_posterior(None, beyond, beyond, (None, shells))
    assert choose_interval(seen, (None, shells), frame, sigma=sigma, radius=1.5) == (0,) * 3


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_no_interval_that_may_be_the_best_is_left_out(share: float) -> None:
    """Its squared error is the least of all, however steeply lengths beyond the cuts fall."""
    _, frame, line, shells, _ = bins_of("spd-log-cholesky")
    assert line is not None
    line, rng = few_cuts(line), np.random.default_rng(5)
    cuts, shares, sigma, radius = line.cuts, np.full(len(line.below), 1 / len(line.below)), 0.1, 1.5
    for _ in range(60):
        below, above = np.cumsum(rng.pareto(0.4, (2, len(cuts))) * (rng.random(len(cuts)) < 0.5), 1)
        seen = SurveyPosterior(shares, None, shares, shares, below, above[::-1])
        low, high = np.meshgrid(cuts, cuts, indexing="ij")
        price = 2.0 * radius * math.sqrt(frame.others)
        noise = sigma * (LENGTH_DISCOUNT * (high - low) + price)
        mean = cuts[0] + above[-1] - below[0]
        way = mean + below[:, None] - above[::-1] - (low + high) / 2.0
        squares = below[:, None] ** 2 + above[::-1] ** 2 + noise**2 + (share * way) ** 2
        best = np.min(squares[high > low])
        found = choose_interval(
            seen, (line, shells), frame, sigma=sigma, radius=radius, count_error=share
        )
        at = np.flatnonzero(cuts == found.low)[0], np.flatnonzero(cuts == found.high)[0]
        assert squares[at] == pytest.approx(best, rel=1e-12)


def options(
    interval: Interval,
    line: FloatArray | None,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: Frame,
    sigma: float,
    diameter: float,
) -> dict[float, float]:
    """Return the predicted squared error of every radius, record shares by record shares.

    What a ball leaves of the interval is cut at a cut of the line, or between two.
    """
    along, off = bins
    found = {}
    for k, radius in enumerate(off.cuts):
        under = over = 0.0
        noise = 2.0 * sigma * radius * math.sqrt(frame.others)
        if along is not None and line is not None:
            middle = (interval.low + interval.high) / 2.0
            low = max(interval.low, middle - radius / interval.weight)
            high = min(interval.high, middle + radius / interval.weight)
            under = sum(
                line[i] * np.interp(low, along.cuts, along.below[i]) for i in range(len(line))
            )
            over = sum(
                line[i] * np.interp(high, along.cuts, along.above[i]) for i in range(len(line))
            )
            noise = math.hypot(noise, 2.0 * sigma * radius / interval.weight)
        near = shells[: off.far] @ off.above[: off.far, k]
        far = shells[off.far :] @ np.minimum(frame.widest * off.above[off.far :, k], diameter)
        rest = frame.unit_length * near + far
        found[radius] = under**2 + over**2 + rest**2 + noise**2
    return found


@pytest.mark.parametrize("name", ["spd-log-cholesky", "hyperbolic"])
@pytest.mark.parametrize("sigma", [1e-6, 0.01, 0.3, 20.0])
def test_the_clip_is_the_best_of_all(name: str, sigma: float) -> None:
    """On flat geometry the radius has the least predicted error, or all the region is covered."""
    own, frame, line, shells, _ = bins_of(name)
    few = slice(None, None, 4)
    shells = ShellBins(shells.edges, shells.cuts[few], shells.above[:, few], shells.far)
    rng = np.random.default_rng(5)
    for concentration in (0.05, 5.0):
        along = None if line is None else rng.dirichlet(np.full(len(line.edges) + 1, concentration))
        off = rng.dirichlet(np.full(len(shells.edges) + 1, concentration))
        none, bins = np.zeros(len(off) - shells.far), (line, shells)
        seen = survey_posterior(None if along is None else alone(along), none, none, bins)
        interval = choose_interval(seen, bins, frame, sigma=sigma, radius=1.0)
        known = {"sigma": sigma, "diameter": 40.0, "cover": 40.0, "curvature": 0.0, "doubt": 1.0}
        clip = choose_clip(interval, seen, off, bins, frame, **known)
        every = options(interval, along, off, bins, frame, sigma, 40.0)
        least, whole = min(every.values()), (sigma * 40.0 * math.sqrt(len(frame.to_axes))) ** 2
        assert clip.error**2 == pytest.approx(min(least, whole), rel=1e-9)
        assert clip.whole == (least > whole)
        assert every[clip.radius] == pytest.approx(least, rel=1e-9)
        assert clip.gain == pytest.approx(1.0)
        assert clip.bend == pytest.approx(0.0, abs=1e-9)
        clipping(clip, frame, np.zeros(len(frame.to_axes)), own)  # in its ball


def test_a_ball_narrower_than_its_interval_cuts_it_short() -> None:
    """Records of small size leave a ball of radius R: the interval is no longer than 2R/α."""
    own, frame, line, shells, _ = bins_of("spd-log-euclidean")
    assert line is not None
    none, near = np.zeros(len(shells.edges) + 1 - shells.far), np.zeros(len(shells.edges) + 1)
    near[0], middle = 1.0, line.start
    along = np.zeros(len(line.edges) + 1)
    along[np.searchsorted(line.edges, middle)] = 1.0
    interval = Interval(middle - 9.0, middle + 9.0, 0.25)
    known = {"sigma": 1e-6, "diameter": 40.0, "cover": 40.0, "curvature": 0.0, "doubt": 1.0}
    seen = survey_posterior(alone(along), none, none, (line, shells))
    clip = choose_clip(interval, seen, near, (line, shells), frame, **known)
    assert clip.radius < 9.0 * 0.25
    half = clip.radius / 0.25
    assert (clip.low, clip.high) == pytest.approx((middle - half, middle + half))
    clipping(clip, frame, np.zeros(len(frame.to_axes)), own)


@pytest.mark.parametrize(
    ("sigma", "scattered", "whole"),
    [
        (1e-6, True, True),
        (1e-3, True, True),
        (1e3, True, False),
        (1e-6, False, False),
        (1e-3, False, False),
        (1e3, False, False),
    ],
)
def test_the_whole_region_is_covered_only_where_clipping_costs_more(
    sigma: float, scattered: bool, whole: bool
) -> None:
    """A narrow region of scattered records is, unless noise drowns it; records at one place not."""
    _, frame, _, shells, _ = bins_of("hyperbolic")
    shares = np.zeros(len(shells.edges) + 1)
    shares[slice(None) if scattered else 0] = 1.0 / (len(shares) if scattered else 1)
    clip = choose_clip(
        Interval(0.0, 0.0, 0.0),
        survey_posterior(None, shares[shells.far :], shares[shells.far :], (None, shells)),
        shares,
        (None, shells),
        frame,
        sigma=sigma,
        diameter=float(shells.edges[-3]) / 2.0,
        cover=float(shells.edges[-3]) / 2.0,
        curvature=0.0,
        doubt=1.0,
    )
    assert clip.whole == whole


def test_curvature_shortens_the_step_and_leaves_a_share_of_the_way() -> None:
    """Gain = 2/(1 + h), bend = (h − 1)/(h + 1) with h the stretch at the records, so sum 1."""
    _, frame, _, shells, _ = bins_of("hyperbolic")
    gains = []
    for curvature in (0.0, 0.5, 1.0, 4.0):
        shares = np.zeros(len(shells.edges) + 1)
        shares[-4] = 1.0
        clip = choose_clip(
            Interval(0.0, 0.0, 0.0),
            survey_posterior(None, shares[shells.far :], shares[shells.far :], (None, shells)),
            shares,
            (None, shells),
            frame,
            sigma=1e-3,
            diameter=4.0,
            cover=4.0,
            curvature=curvature,
            doubt=1.0,
        )
        assert clip.gain + clip.bend == pytest.approx(1.0)
        gains.append(clip.gain)
    assert gains[0] == pytest.approx(1.0)
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] < gains[0]


def test_stretch_is_x_coth_x() -> None:
    """1 at 0, x for large x, and monotone."""
    x = np.array([0.0, 1e-9, 0.5, 1.0, 5.0, 700.0])
    expected = [1.0, 1.0, *(v * math.cosh(v) / math.sinh(v) for v in x[2:])]
    np.testing.assert_allclose(stretch(x), expected, rtol=1e-9)
