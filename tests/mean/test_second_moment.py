"""The second moment rides along for nothing: no wider a set, no other mean, exact sums.

Searches compare with a proven inequality, so that a correct bound always passes; seeded.
"""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from sample_manifolds import BOUNDED
from scipy.optimize import minimize
from scipy.stats import chi2

from pipeline.arrays import UNCHECKED, FloatArray
from pipeline.descriptors import describe, domain
from pipeline.geometry import MANIFOLDS, Manifold, Point, chart_of, unvecd, vecd
from pipeline.inference import covariance
from pipeline.mean import (
    AdaptivePlan,
    Ball,
    Domain,
    MeanSetup,
    NoisyMoments,
    admit,
    prepare,
    rounds,
    sums,
)
from pipeline.mean.axes import build_frame
from pipeline.mean.clip import spread
from pipeline.mean.histogram import (
    LineBins,
    clipped_moments,
    line_bins,
    shell_bins,
    survey_posterior,
)
from pipeline.mean.noisy_moments import clip_moments
from pipeline.mean.sensitivity import vector_diameter
from pipeline.mean.sums import (
    FACTOR,
    NORM,
    PER_UNIT,
    PER_WEIGHT,
    PRODUCTS,
    Clipping,
    as_repetition,
    clipped_mean,
    clipped_means,
    second_moment,
    sizes,
    weights,
)
from pipeline.mean.tuning import OVERSHOOT_SD
from pipeline.privacy import GDP
from pipeline.schema import ReleasedEntry, as_json
from tests.sample_means import clip_of, clipped_sum, drawn, exact_sums, forced


def length(vectors: FloatArray) -> FloatArray:
    """Return ‖v‖ of each vector, (..., 1)."""
    return np.sqrt(np.sum(vectors**2, axis=-1, keepdims=True))


def products(vectors: FloatArray) -> FloatArray:
    """Return v·vᵀ of each vector, (..., d, d)."""
    return vectors[..., :, None] * vectors[..., None, :]


def gap(pairs: FloatArray, factor: float) -> FloatArray:
    """Return the squared distance of (v, λ·v·vᵀ) of two vectors, each pulled into the ball.

    Of each pair, joined, (..., 2d).
    """
    v, w = (one * np.minimum(1.0, 0.5 / length(one)) for one in np.split(pairs, 2, axis=-1))
    moved = products(v) - products(w)
    return np.asarray(np.sum((v - w) ** 2, axis=-1) + factor**2 * np.sum(moved**2, axis=(-2, -1)))


def highest(function: Callable[[FloatArray], FloatArray], start: FloatArray) -> FloatArray:
    """Return where an optimiser finds a function of (..., n) as high as anywhere near."""
    step = 1e-8
    steps = step * np.eye(len(start))

    def slope(x: FloatArray) -> FloatArray:
        return (function(x) - function(x + steps)) / step

    return np.asarray(minimize(lambda x: -function(x), start, jac=slope).x)


def farthest(dim: int, factor: float) -> FloatArray:
    """Return two vectors, joined, that an optimiser finds as far apart as any, from five starts."""
    rng = np.random.default_rng(dim)
    starts = [rng.standard_normal(2 * dim) for _ in range(5)]
    ends = [highest(lambda pairs: gap(pairs, factor), start) for start in starts]
    return ends[int(np.argmax(gap(np.array(ends), factor)))]


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_pairs_are_at_most_one_apart(dim: int) -> None:
    """√2 is the largest factor: random and optimised pairs are 1 apart, and more beyond it."""
    rng = np.random.default_rng(dim)
    drawn_pairs = rng.standard_normal((3000, 2 * dim)) * 10.0 ** rng.uniform(-2.0, 2.0, (3000, 1))
    assert gap(drawn_pairs, math.sqrt(2.0)).max() <= 1.0 + 1e-12
    assert gap(farthest(dim, math.sqrt(2.0)), math.sqrt(2.0)) == pytest.approx(1.0, abs=1e-6)
    if dim > 1:
        wide = 1.1 * math.sqrt(2.0)
        expected = (wide / 2.0 + 1.0 / wide) ** 2 / 2.0
        assert gap(farthest(dim, wide), wide) == pytest.approx(expected, abs=1e-6)
        assert expected > 1.004


def exactly(vector: FloatArray, to: Clipping) -> list[Fraction]:
    """Return the pair of one record, as its sums are weighed and added."""
    seen = vector[None]
    first, second = exact_sums([as_repetition(seen, sizes(seen, to.centre, to.lines))], to)
    weighed = zip(second, weights(len(first), to.overshoots), strict=True)
    pair = [Fraction(one, PER_UNIT) for one in first]
    return pair + [Fraction(a * b, PER_UNIT**2 * PER_WEIGHT) for a, b in weighed]


def largest_gap(found: list[list[Fraction]]) -> Fraction:
    """Return the largest squared distance of two vectors, in whole numbers of a common unit."""
    unit = math.lcm(*(part.denominator for vector in found for part in vector))
    units = [[int(part * unit) for part in vector] for vector in found]
    gaps = (
        sum((a - b) ** 2 for a, b in zip(*two, strict=True))
        for two in itertools.combinations(units, 2)
    )
    return Fraction(max(gaps), unit**2)


@pytest.mark.parametrize("dim", [2, 6, 15])
def test_released_pairs_differ_by_at_most_the_stated_diameter(dim: int) -> None:
    """On the lattice, in exact arithmetic, weights as they are: pairs found by the optimiser too.

    It looks with a factor 1 % above √2, so at pairs that a factor too large would set apart.
    """
    rng = np.random.default_rng(dim)
    to = Clipping(np.zeros(dim), np.full(dim, 2.0), 0, 0.0, 0.0, 0.0, 1.0)
    spokes = [*rng.standard_normal((20, dim)), np.ones(dim), -np.ones(dim), np.eye(dim)[0]]
    spokes += np.split(farthest(dim, 1.01 * math.sqrt(2.0)), 2)
    pairs = [exactly(9.0 * spoke / np.linalg.norm(spoke), to) for spoke in spokes]
    assert Fraction(99, 100) < largest_gap(pairs) <= Fraction(vector_diameter(dim)) ** 2
    assert math.isclose(FACTOR, math.sqrt(2.0), rel_tol=1e-8)


def triple_gap(numbers: FloatArray) -> FloatArray:
    """Return the squared distance of two triples that use all of their norm, of 2·(d + 3) numbers.

    Of each pair, joined. The last three of each triple are where it lies outside, over its reach,
    to any power of ten.
    """
    triples = []
    for half in np.split(numbers, 2, axis=-1):
        vector, outside = half[..., :-3], half[..., -3:]
        over = math.sqrt(NORM) * np.abs(outside) / np.maximum(1.0, length(outside))
        most = (np.sqrt(np.maximum(4.0 - 8.0 * length(over) ** 2, 1.0)) - 1.0) / 4.0
        v = vector * np.sqrt(most) / length(vector)
        triples.append(np.concatenate([v, over, math.sqrt(2.0) * vecd(products(v))], axis=-1))
    return np.asarray(np.sum((triples[0] - triples[1]) ** 2, axis=-1))


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_triples_are_at_most_one_apart(dim: int) -> None:
    """Vectors, products and overshoots together: random ones, and what an optimiser finds.

    A norm a twentieth larger would set two records that lie outside on unlike sides farther apart.
    """
    rng = np.random.default_rng(dim)
    drawn_pairs = rng.standard_normal((4000, 2 * (dim + 3)))
    drawn_pairs[:, dim:] *= 10.0 ** rng.uniform(-3.0, 1.0, (4000, 1))
    gaps = triple_gap(drawn_pairs)
    assert gaps.max() <= 1.0 + 1e-12
    starts = drawn_pairs[np.argsort(gaps)[-4:]]
    ends = [highest(triple_gap, start) for start in starts]
    assert 0.99 < triple_gap(np.array(ends)).max() <= 1.0 + 1e-9


def reaching(dim: int, lines: int) -> Clipping:
    """Return a clip that overshoots are measured with."""
    units = np.full(dim, 3.0)
    units[:lines] = 3.0 / 0.7
    return Clipping(np.zeros(dim), units, lines, -1.0, 1.0, 0.7, 1.5, np.array([30.0, 40.0, 20.0]))


@pytest.mark.parametrize("lines", [0, 1])
def test_released_triples_differ_by_at_most_the_stated_diameter(lines: int) -> None:
    """On the lattice, in exact arithmetic: near, far, at an end, farther than any reach, no number.

    With a norm of 0.4 in place of 3/8 two of them would be more than 1 apart.
    """
    rng, dim = np.random.default_rng(lines), 4
    to = reaching(dim, lines)
    spokes = rng.standard_normal((60, dim)) * 10.0 ** rng.uniform(-1.0, 3.0, (60, 1))
    spokes[:, 0] *= rng.choice([0.01, 1.0, 40.0], 60)
    records = [*spokes, *-spokes, np.full(dim, np.inf), np.full(dim, np.nan)]
    records += [np.array([500.0, np.nan, 1.0, 1.0]), np.array([-500.0, 500.0, 0.0, 0.0])]
    found = [exactly(record, to) for record in records]
    norms = [sum(one**2 for one in triple) for triple in found]
    assert max(norms) <= NORM * Fraction(vector_diameter(dim)) ** 2
    assert Fraction(9, 10) < largest_gap(found) <= Fraction(vector_diameter(dim)) ** 2


@pytest.mark.parametrize("lines", [0, 1])
def test_overshoots_are_the_mean_lengths_outside_of_the_clip(lines: int) -> None:
    """Of records that do not overshoot the vector is as it was; of others it is the shorter."""
    rng, dim, n = np.random.default_rng(3), 4, 500
    to = reaching(dim, lines)
    seen = rng.standard_normal((n, dim)) * 10.0 ** rng.uniform(-1.0, 0.6, (n, 1))
    size, x = sizes(seen, to.centre, lines), seen[:, 0] * lines
    room = np.sqrt(to.radius**2 - (0.7 * np.clip(x, -1.0, 1.0)) ** 2)
    outside = np.maximum(size - room, 0.0)
    lengths = [outside, np.maximum(-1.0 - x, 0.0), np.maximum(x - 1.0, 0.0)][: 1 + 2 * lines]
    shares = np.array(lengths) / to.reach[: len(lengths), None]
    assert (np.sum(shares**2, axis=0) < 1.0).all()
    mean = clipped_means([as_repetition(seen, size)], n, to.as_repetition(), paired=True)[0]
    expected = math.sqrt(NORM) * shares.mean(axis=1)
    np.testing.assert_allclose(mean[dim : dim + len(lengths)], expected, atol=1e-11)
    plain = to._replace(reach=np.empty(0))
    for row in range(n):
        one = as_repetition(seen[row : row + 1], size[row : row + 1])
        with_it, without = clipped_mean([one], 1, to), clipped_mean([one], 1, plain)
        if not shares[:, row].any():
            assert np.array_equal(with_it, without)
            continue
        beta = float(with_it @ with_it)
        whole = beta + 2.0 * beta**2 + NORM * float(np.sum(shares[:, row] ** 2))
        assert beta <= float(without @ without) + 1e-12
        short = float(np.linalg.norm(with_it) / np.linalg.norm(without))
        np.testing.assert_allclose(with_it, short * without, atol=1e-11)
        assert whole <= NORM + 1e-11
        assert short == pytest.approx(1.0) or whole == pytest.approx(NORM)


@pytest.mark.parametrize("lines", [0, 1])
def test_records_that_are_not_there_add_nothing(lines: int) -> None:
    """Those whose size is no number, wherever they seem to be: exact sums, no false alarms."""
    rng, to = np.random.default_rng(4), reaching(4, lines)
    records = 3.0 * rng.standard_normal((50, 4))
    size, there = sizes(records, to.centre, lines), rng.random(50) < 0.7
    parts = (
        as_repetition(records, np.where(there, size, np.nan)),
        as_repetition(records[there], size[there]),
    )
    every, few = (clipped_means([part], 50, to.as_repetition(), paired=True) for part in parts)
    assert np.array_equal(every[0], few[0])


def test_what_a_round_releases_says_how_much_clipping_cuts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without noise the mean lengths beyond either end of the line, with it what σ makes of it."""
    paired, _, _, _ = sample("spd-log-euclidean")
    records, prior = paired.records, paired.records.prior
    assert prior.line is not None
    x = records.placed @ prior.line
    low, high = (float(one) for one in np.quantile(x, [0.3, 0.9]))
    clip = clip_of(low, high, 0.3)
    forced(monkeypatch, clip)
    still, loud = (drawn(paired, GDP(mu), 3).moments[0] for mu in (1e7, 1.0))
    assert still.overshoots is not None
    assert loud.overshoots is not None
    assert loud.reach is not None
    expected = np.maximum(low - x, 0.0).mean(), np.maximum(x - high, 0.0).mean()
    np.testing.assert_allclose(still.overshoots[1:] * still.length, expected, rtol=1e-4)
    assert still.overshoots[0] > 0.0
    np.testing.assert_allclose(still.limits, still.overshoots, atol=1e-4)
    reach = np.array([prior.farthest, low - prior.span[0], prior.span[1] - high])
    units = np.array([0.6, loud.length, loud.length])
    np.testing.assert_allclose(loud.reach[1:], np.maximum(reach / units, 1.0)[1:], rtol=1e-9)
    assert reach[0] / units[0] <= loud.reach[0] * (1.0 + 1e-9) < 4.0 * reach[0] / units[0]
    more = loud.limits - np.maximum(loud.overshoots, 0.0)
    assert (more <= OVERSHOOT_SD * loud.sigma / math.sqrt(NORM) * loud.reach * (1.0 + 1e-9)).all()
    away = (loud.overshoots - still.overshoots) / (loud.sigma / math.sqrt(NORM) * loud.reach)
    assert (np.abs(away) < 5.0).all()
    assert np.abs(away).max() > 0.01


@given(st.data())
@settings(max_examples=40)
def test_sums_of_products_are_exact_in_any_order_and_chunks(data: st.DataObject) -> None:
    """Permuted, cut anywhere, in blocks of any length: the sums of the lattice vectors' products.

    Both are whole numbers, so they are compared as they are. The mean of the pairs is their
    quotient, rounded once, and begins with the mean alone.
    """
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n, dim = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 5))
    lines = data.draw(st.integers(0, min(1, dim - 1)))
    seen = rng.standard_normal((n, dim)) * 10.0 ** rng.uniform(-9.0, 9.0, (n, 1))
    seen[rng.integers(n)] = rng.choice([np.nan, np.inf, 0.0])
    to = Clipping(rng.standard_normal(dim), rng.uniform(3.0, 9.0, dim), lines, -1.0, 1.0, 0.7, 1.5)
    size = sizes(seen, to.centre, lines)
    rows = [slice(i, i + 1) for i in range(n)]
    vectors = np.array([clipped_sum(seen[row], size[row], *to).tolist() for row in rows], object)
    products = vectors.T @ vectors
    upper = np.triu_indices(dim, 1)
    expected = [*np.diag(products), *products[upper]]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    order = rng.permutation(n)
    parts = [as_repetition(seen[some], size[some]) for some in np.split(order, cuts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "PRODUCTS", data.draw(st.integers(1, 9)))
        assert exact_sums(parts, to) == (vectors.sum(axis=0).tolist(), expected)
        mean = clipped_means(parts, n, to.as_repetition(), paired=True)[0]
    assert np.array_equal(mean[:dim], clipped_mean(parts, n, to))
    weighed = zip(expected, weights(dim, 0), strict=True)
    exact = [float(Fraction(a * b, n * PER_UNIT**2 * PER_WEIGHT)) for a, b in weighed]
    assert mean[dim:].tolist() == exact


def test_products_of_the_largest_vectors_are_not_rounded() -> None:
    """Coordinates of 1 in size, twice what a pair has, with all digits set, in two full blocks."""
    n = 2 * PRODUCTS + 1
    seen = np.random.default_rng(9).uniform(9.0, 9.001, (n, 2))
    to = Clipping(np.zeros(2), np.full(2, 3.0), 0, 0.0, 0.0, 0.0, 3.0 * math.sqrt(2.0))
    size = sizes(seen, np.zeros(2), 0)
    rows = [slice(i, i + 1) for i in range(n)]
    x, y = zip(*(clipped_sum(seen[row], size[row], *to).tolist() for row in rows), strict=True)
    assert all(0.999 < part / PER_UNIT < 1.001 for part in x + y)
    products = [sum(map(int.__mul__, *two)) for two in ((x, x), (y, y), (x, y))]
    assert exact_sums([as_repetition(seen, size)], to) == ([sum(x), sum(y)], products)


def sample(name: str) -> tuple[MeanSetup, MeanSetup, Manifold, Domain]:
    """Return the same class with its second moment and without, its manifold and domain."""
    rng = np.random.default_rng(5)
    points: Point
    if name == "hyperbolic":
        manifold: Manifold = MANIFOLDS[name](dim=3)
        facts: Domain = Ball(2.0, name)
        points = manifold.exp(manifold.origin, 0.3 * rng.standard_normal((60, 3)))
    else:
        manifold, facts = MANIFOLDS[name](k=5), domain("oct5", height=28, width=28, manifold=name)
        base = rng.normal(120.0, 40.0, (60, 7, 7)).clip(0, 255)
        pictures = np.kron(base, np.ones((4, 4))) + rng.normal(0.0, 4.0, (60, 28, 28))
        points = describe(pictures.clip(0, 255).astype(np.uint8))
    records = admit(points, domain=facts, manifold=manifold)
    both = (prepare(records, AdaptivePlan(moment=moment), rng=None) for moment in (True, False))
    return (*both, manifold, facts)


@pytest.mark.parametrize("name", BOUNDED)
def test_the_mean_is_the_same_with_it_and_without(name: str) -> None:
    """Bit for bit, at any budget: the same noise, the same costs, the same result."""
    paired, alone, _, _ = sample(name)
    for seed, mu in itertools.product(range(2), (0.1, 20.0)):
        one, other = drawn(paired, GDP(mu), seed), drawn(alone, GDP(mu), seed)
        assert np.array_equal(one.outputs, other.outputs)
        assert one.steps == other.steps
        seen, plain = one.moments[0], other.moments[0]
        assert np.array_equal(seen.vector, plain.vector)
        assert plain.moment is None


def test_the_noise_of_the_second_moment_is_what_is_said() -> None:
    """σ/λ on the diagonal, σ/(√2·λ) off it, mean 0; false alarm below 1e-6 for any seed."""
    paired, _, _, _ = sample("spd-log-euclidean")
    # with so much noise all choices are the prior's, the same in every draw
    release = drawn(paired, GDP(1e-6), 3, size=300)
    seen = list(release.moments)
    same = [one for one in seen if one.moment is not None]
    assert len(same) == 300
    found = np.stack([vecd(one.moment) for one in same if one.moment is not None])
    found *= FACTOR / release.sigma
    spread_of_all = float(np.sum(found**2))
    low, high = chi2.ppf([1e-7, 1.0 - 1e-7], found.size)
    assert low < spread_of_all < high
    assert abs(float(found.mean())) * math.sqrt(found.size) < 5.5
    diagonal = float(np.sum(found[:, :15] ** 2))
    low, high = chi2.ppf([1e-7, 1.0 - 1e-7], found[:, :15].size)
    assert low < diagonal < high


@pytest.mark.parametrize("name", BOUNDED)
def test_without_noise_it_says_mean_and_covariance_of_the_records(name: str) -> None:
    """Where nothing is clipped: base, offset and moment give back the records' own, to 1e-4."""
    paired, _, _, _ = sample(name)
    release = drawn(paired, GDP(1e9), 0)
    seen = release.moments[0]
    assert seen.moment is not None
    places = release.space.log(seen.base, paired.records.placed)
    mean = places.mean(axis=0)
    vector = (mean - seen.middle) @ np.linalg.inv(seen.axes)
    expected = seen.middle + (seen.steps * vector) @ seen.axes
    np.testing.assert_allclose(seen.offset, expected, atol=1e-4)
    spread_of = seen.axes.T @ (seen.moment - np.outer(seen.vector, seen.vector)) @ seen.axes
    np.testing.assert_allclose(spread_of, np.cov(places.T, bias=True), atol=1e-4)
    assert seen.clipped < 0.05
    assert np.linalg.eigvalsh(seen.noise).min() > 0.0
    assert seen.n == 60


def test_a_whole_region_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all of it is covered there is no clip to take a second moment in."""
    forced(monkeypatch, clip_of(0.0, 1.0, 1.0, whole=True))
    paired, alone, _, _ = sample("hyperbolic")
    release = drawn(paired, GDP(0.1), 0)
    assert np.array_equal(release.outputs, drawn(alone, GDP(0.1), 0).outputs)
    seen, span = release.moments[0], paired.records.span
    assert seen.moment is None
    np.testing.assert_allclose(seen.noise, (seen.sigma * span) ** 2 * np.eye(3))
    np.testing.assert_allclose(seen.offset, seen.vector * span)
    assert not seen.as_covariance(*seen.bounds).any()


@pytest.mark.parametrize("name", BOUNDED)
def test_it_is_read_back_from_json(name: str) -> None:
    """All numbers to the last bit; the base as a point of where it was drawn."""
    paired, _, manifold, _ = sample(name)
    release = drawn(paired, GDP(1.0), 1)
    seen = release.noisy_moments
    part = ReleasedEntry.model_construct(observed=seen)
    values = json.loads(json.dumps(as_json(part)))["observed"]
    again = TypeAdapter(NoisyMoments).validate_python(values, context=UNCHECKED)
    space = chart_of(manifold)
    assert space.check(again.base).shape == space.point_shape
    for field in set(NoisyMoments.__dataclass_fields__) - {"moment"}:
        np.testing.assert_array_equal(getattr(again, field), getattr(seen, field))
    assert again.moment is not None
    assert seen.moment is not None
    np.testing.assert_array_equal(again.moment, seen.moment)


def bins_of(name: str) -> tuple[Any, LineBins | None, Any, Any]:
    """Return the prior, bins and frame of descriptors."""
    paired, _, _, _ = sample(name)
    prior = paired.records.prior
    frame = build_frame(prior.line, prior.shape)
    return prior, line_bins(prior, 0.0), shell_bins(prior, frame, 60.0), frame


def test_widths_are_those_of_records_uniform_in_their_bins() -> None:
    """Against a million records drawn from the bins; false alarm below 1e-6 for any seed."""
    prior, along, off, frame = bins_of("spd-log-euclidean")
    assert along is not None
    rng = np.random.default_rng(8)
    low, high, radius = along.cuts[10], along.cuts[30], float(off.cuts[12])
    ends = np.concatenate([[prior.span[0]], along.edges, [prior.span[1]]])
    shells = np.concatenate([[0.0], off.edges, off.cuts[-1:]])
    line, far = rng.dirichlet(np.ones(len(ends) - 1)), rng.dirichlet(np.ones(len(shells) - 1))
    clip, none = clip_of(float(low), float(high), radius), np.zeros(len(off.edges) + 1 - off.far)
    survey = survey_posterior((line, np.zeros((len(line),) * 2)), none, none, (along, off))
    doubled = 2.0 * far  # which need not sum to 1
    found = spread(survey, doubled, (along, off), clip, frame, 0.01, moved=False)
    many = 10**6
    chosen, other = rng.choice(len(line), many, p=line), rng.choice(len(far), many, p=far)
    x = rng.uniform(ends[chosen], ends[chosen + 1]).clip(low, high)
    size = rng.uniform(shells[other], shells[other + 1])
    assert found.line == pytest.approx(x.var(), abs=6.0 * np.std((x - x.mean()) ** 2) / 1e3)
    along_square = (clip.weight * (x - (low + high) / 2.0)) ** 2
    square = (np.minimum(size, radius) ** 2 - along_square) / frame.others  # ρ² = t² + ‖z‖²
    assert found.rest == pytest.approx(square.mean(), abs=6.0 * square.std() / 1e3)
    assert found.clipped == pytest.approx((size > radius).mean(), abs=6.0 * 0.5 / 1e3)
    beyond = (x == low) | (x == high)
    assert found.cut == pytest.approx(beyond.mean(), abs=6.0 * 0.5 / 1e3)
    wide = replace(clip, weight=1e3)  # along the line alone records would be larger than they are
    found = spread(survey, doubled, (along, off), wide, frame, 0.01, moved=False)
    least = 0.25 * (np.minimum(size, radius) ** 2).mean() / frame.others
    assert found.rest == pytest.approx(least, rel=0.01)


def test_the_mean_is_moved_by_what_is_clipped_above_less_what_is_below() -> None:
    """By lengths times shares, with the deviation of these; far records move it nowhere.

    Records lie in the middle of their bin, but those of the first, featureless, at its end.
    """
    prior, along, off, frame = bins_of("spd-log-euclidean")
    assert along is not None
    low, high = along.start - 6.0, along.start + 3.0
    clip, more = clip_of(low, high, 1.0), np.full(len(off.edges) + 1 - off.far, 0.1)
    line, shells = np.zeros(len(along.edges) + 1), np.zeros(len(off.edges) + 1)
    line[0], line[-1], variances = 0.1, 0.3, np.zeros(len(line))
    inside = int(np.searchsorted(along.edges, along.start))
    variances[0], variances[-1], variances[inside] = 0.02**2, 0.01**2, 0.03**2
    given_sum = np.diag(variances) - np.outer(variances, variances) / variances.sum()
    survey = survey_posterior((line, given_sum), more, more, (along, off))
    found, whole = (
        spread(survey, shells, (along, off), clip, frame, 0.01, moved=moved)
        for moved in (True, False)
    )
    below, above = low - prior.span[0], (along.edges[-1] + prior.span[1]) / 2.0 - high
    assert along.edges[-1] > high
    assert low < along.edges[inside - 1] < along.edges[inside] < high  # not clipped
    assert found.shift == pytest.approx(0.3 * above - 0.1 * below)
    assert whole.shift == 0.0
    known = {"noises": (0.0, 0.0), "reach": np.ones(3), "sigma": 0.1}
    seen = clip_moments(
        9, np.zeros(15), np.zeros(15), clip, frame, line_coordinate=1.0, spread=found, **known
    )
    middle, _ = rounds.observe(
        np.zeros(15), clip, frame, line_coordinate=1.0, shift=found.shift, sigma=0.1
    )
    np.testing.assert_allclose(seen.offset, middle, atol=1e-12)  # regions and mean agree
    assert seen.offset @ frame.to_axes[:, 0] == pytest.approx(
        (low + high) / 2.0 - 1.0 + found.shift
    )
    assert seen.shift == found.shift


def test_what_the_shift_adds_is_the_variance_of_where_records_lie() -> None:
    """Where shares are heard in full, records count at the middle of their bin, and not clipped."""
    _, along, off, frame = bins_of("spd-log-euclidean")
    assert along is not None
    rng, noise = np.random.default_rng(11), 0.01
    shares = rng.dirichlet(np.ones(len(along.edges) + 1))
    none = np.zeros(len(off.edges) + 1 - off.far)
    survey = survey_posterior((shares, noise**2 * np.eye(len(shares))), none, none, (along, off))
    clip, shells = clip_of(along.start - 4.0, along.start + 3.0, 1.0), np.ones(len(off.edges) + 1)
    found = spread(survey, shells, (along, off), clip, frame, noise, moved=True)
    first, _, _ = clipped_moments(along.ends, clip.low, clip.high)
    places = (along.ends[:-1] + along.ends[1:]) / 2.0
    places[0], first[0] = along.ends[0], clip.low
    before, after = (shares @ x**2 - (shares @ x) ** 2 for x in (first, places))
    assert found.added == pytest.approx(after - before)
    known = {"noises": (0.0, 0.0), "reach": np.ones(3), "sigma": 0.1}
    seen = clip_moments(
        9, np.zeros(15), np.zeros(138), clip, frame, line_coordinate=1.0, spread=found, **known
    )
    more = covariance(seen) - covariance(replace(seen, added=0.0))
    np.testing.assert_allclose(
        more, found.added * np.outer(frame.to_axes[:, 0], frame.to_axes[:, 0])
    )


def test_weights_are_those_of_vecd() -> None:
    """The last numbers of a pair are λ·vecd(v·vᵀ), and are read back as v·vᵀ, to 1e-8."""
    v = np.array([0.1, -0.3, 0.2])
    to = Clipping(np.zeros(3), np.ones(3), 0, 0.0, 0.0, 0.0, 1.0)
    mean = clipped_means(
        [as_repetition(v[None], sizes(v[None], np.zeros(3), 0))], 1, to.as_repetition(), paired=True
    )[0]
    np.testing.assert_allclose(mean[3:], math.sqrt(2.0) * vecd(np.outer(v, v)), rtol=1e-8)
    np.testing.assert_allclose(second_moment(mean[3:]), np.outer(v, v), rtol=1e-11)
    np.testing.assert_allclose(unvecd(mean[3:]) / FACTOR, np.outer(v, v), rtol=1e-11)
