"""The second moment rides along for nothing: no wider a set, no other mean, exact sums.

Searches compare with a proven inequality, so that a correct bound always passes; seeded.
"""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from sample_manifolds import BOUNDED
from scipy.optimize import minimize
from scipy.stats import chi2

from covdp.arrays import UNCHECKED, FloatArray
from covdp.descriptors import describe, domain
from covdp.geometry import MANIFOLDS, Manifold, Point, chart_of, unvecd, vecd
from covdp.mean import AdaptivePlan, Ball, Domain, MeanSetup, NoisyMoments, admit, prepare, sums
from covdp.mean.sensitivity import vector_diameter
from covdp.mean.sums import (
    FACTOR,
    PER_UNIT,
    PER_WEIGHT,
    PRODUCTS,
    Clip,
    as_repetition,
    clipped_mean,
    clipped_means,
    second_moment,
    sizes,
    weights,
)
from covdp.privacy import GDP
from covdp.schema import ReleasedEntry, as_json
from tests.sample_means import clipped_sum, drawn, exact_sums, reaching


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


def exactly(vector: FloatArray, to: Clip) -> list[Fraction]:
    """Return the pair of one record, as its sums are weighed and added."""
    seen = vector[None]
    first, second = exact_sums([as_repetition(seen, sizes(seen, to.centre))], to)
    weighed = zip(second, weights(len(first), to.as_repetition().overshoots), strict=True)
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
    to = Clip(np.zeros(dim), radius=1.0, unit=2.0)
    spokes = [*rng.standard_normal((20, dim)), np.ones(dim), -np.ones(dim), np.eye(dim)[0]]
    spokes += np.split(farthest(dim, 1.01 * math.sqrt(2.0)), 2)
    pairs = [exactly(9.0 * spoke / np.linalg.norm(spoke), to) for spoke in spokes]
    assert Fraction(99, 100) < largest_gap(pairs) <= Fraction(vector_diameter(dim)) ** 2
    assert math.isclose(FACTOR, math.sqrt(2.0), rel_tol=1e-8)


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
    to = reaching(dim, lines)._replace(centre=rng.standard_normal(dim))
    size = sizes(seen, to.centre)
    rows = [slice(i, i + 1) for i in range(n)]
    vectors = np.array([clipped_sum(seen[row], to).tolist() for row in rows], object)
    products = vectors.T @ vectors
    upper = np.triu_indices(dim, 1)
    expected = [*np.diag(products), *products[upper]]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=6)))
    order = rng.permutation(n)
    parts = [as_repetition(seen[some], size[some]) for some in np.split(order, cuts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "PRODUCTS", data.draw(st.integers(1, 9)))
        first, second = exact_sums(parts, to)
        first_product = to.as_repetition().overshoots
        assert (first, second[first_product:]) == (
            vectors.sum(axis=0).tolist(),
            expected,
        )
        mean = clipped_means(parts, n, to.as_repetition(), paired=True)[0]
    many = dim + to.as_repetition().overshoots
    assert np.array_equal(mean[:many], clipped_mean(parts, n, to))
    weighed = zip(second, weights(dim, to.as_repetition().overshoots), strict=True)
    exact = [float(Fraction(a * b, n * PER_UNIT**2 * PER_WEIGHT)) for a, b in weighed]
    assert mean[dim:].tolist() == exact


def test_products_of_the_largest_vectors_are_not_rounded() -> None:
    """Coordinates of 1 in size, twice what a pair has, with all digits set, in two full blocks."""
    n = 2 * PRODUCTS + 1
    seen = np.random.default_rng(9).uniform(9.0, 9.001, (n, 2))
    to = Clip(np.zeros(2), radius=3.0 * math.sqrt(2.0), unit=3.0)
    size = sizes(seen, np.zeros(2))
    rows = [slice(i, i + 1) for i in range(n)]
    x, y = zip(*(clipped_sum(seen[row], to).tolist() for row in rows), strict=True)
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
    expected = mean if seen.newton is None else mean @ seen.newton
    np.testing.assert_allclose(seen.offset, expected, atol=1e-4)
    spread_of = seen.axes.T @ (seen.moment - np.outer(seen.vector, seen.vector)) @ seen.axes
    np.testing.assert_allclose(spread_of, np.cov(places.T, bias=True), atol=1e-4)
    assert seen.clipped < 0.05
    assert np.linalg.eigvalsh(seen.noise).min() > 0.0
    assert seen.n == 60


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


def test_weights_are_those_of_vecd() -> None:
    """The last numbers of a pair are λ·vecd(v·vᵀ), and are read back as v·vᵀ, to 1e-8."""
    v = np.array([0.1, -0.3, 0.2])
    to = Clip(np.zeros(3), radius=1.0, unit=1.0)
    sized = as_repetition(v[None], sizes(v[None], np.zeros(3)))
    mean = clipped_means([sized], 1, to.as_repetition(), paired=True)[0]
    np.testing.assert_allclose(mean[3:], math.sqrt(2.0) * vecd(np.outer(v, v)), rtol=1e-8)
    np.testing.assert_allclose(second_moment(mean[3:]), np.outer(v, v), rtol=1e-11)
    np.testing.assert_allclose(unvecd(mean[3:]) / FACTOR, np.outer(v, v), rtol=1e-11)
