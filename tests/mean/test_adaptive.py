"""Privacy of the adaptive mean: what each step releases moves by at most its Δ, whatever the data.

A probe stands in for the noise: it writes down the vectors it is given and returns a script. The
script is the same for both of two neighbours, so every choice is the same, and the vectors can be
compared step by step. A search compares with a proven inequality, so a correct bound always passes.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_manifolds import BOUNDED, MEDIUM
from scipy.spatial.distance import pdist

from covdp.arrays import FloatArray
from covdp.descriptors import describe
from covdp.errors import ConfigError, DomainError, PrivacyError
from covdp.geometry import Manifold, Point
from covdp.mean import (
    AdaptivePlan,
    Ball,
    Domain,
    Labels,
    MeanSetup,
    Shares,
    SinglePlan,
    admit,
    draw_each,
    prepare,
    rounds,
    sensitivity,
    sums,
)
from covdp.mean.clip import SQRT2, choose_radius, shell_counts
from covdp.mean.plan import STEP_NAMES, read_shares
from covdp.mean.rounds import step_costs
from covdp.mean.sums import (
    BLOCK,
    PER_UNIT,
    Clip,
    as_repetition,
    clipped_mean,
    clipped_means,
    sizes,
)
from covdp.mean.tuning import SHARES_OF_FEW, SHARES_OF_MANY, SHARES_WITHOUT_LINE
from covdp.mechanisms import LATTICE, FloatNoise, NoisyVector
from covdp.privacy import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    RaoDP,
    compose,
    convert,
    delta_of,
    gaussian_sigma,
)
from tests.mean.scripts import SCRIPTS, Probe, Script, probe, random_script, setting, steps_of
from tests.sample_means import adaptive, blocks_of, clipped_sum, drawn, forced, reaching
from tests.tools.trace import Watcher


def still(step: int, length: int) -> FloatArray:
    """Nothing seen, nothing moved: the centre stays where the prior has it."""
    return np.zeros(length)


def neighbours(
    base: Point, candidates: Point, manifold: Manifold, facts: Domain
) -> list[MeanSetup]:
    """Return classes that differ in one record only, one class for each candidate."""
    return [
        adaptive(np.concatenate([base, point[None]]), domain=facts, manifold=manifold)
        for point in candidates
    ]


def moves(classes: list[MeanSetup], mu: float, *scripts: Script) -> FloatArray:
    """Return ‖v(x) − v(x')‖/Δ, the largest over all pairs of neighbours and scripts, per step."""
    worst = []
    for vectors, (_, _, delta) in zip(*steps_of(classes, GDP(mu), *scripts), strict=True):
        worst.append(pdist(vectors).max() / delta)
    return np.max(np.reshape(worst, (-1, len(scripts))), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDED)
def test_no_replacement_moves_a_step_by_more_than_its_sensitivity(name: str) -> None:
    """‖v(x) − v(x')‖ ≤ Δ in every step, for all scripts, sizes and budgets tried."""
    manifold, facts, candidates = setting(name)
    reached = np.zeros(len(STEP_NAMES))
    for n, budgets in [(1, (5.0,)), (4, (0.5, 50.0))]:
        base = candidates[np.arange(n - 1) * 5 % len(candidates)]
        classes = neighbours(base, candidates, manifold, facts)
        for mu in budgets:
            found = moves(classes, mu, *SCRIPTS.values())
            assert (found <= 1.0).all()
            reached = np.maximum(reached, found)
    assert (reached >= 0.9).all()


@pytest.mark.parametrize("name", BOUNDED)
def test_scripts_reach_every_kind_of_clip(name: str, watch: Watcher) -> None:
    """The scripts above make the narrowest balls be chosen, the widest, and some between."""
    manifold, facts, candidates = setting(name)
    calls = watch(choose_radius)
    ready = adaptive(candidates[:4], domain=facts, manifold=manifold)
    for mu, script in itertools.product((0.5, 5.0, 50.0), SCRIPTS.values()):
        probe(ready, GDP(mu), script)
    prior, chosen = ready.records.prior, [radius for call in calls for radius in call.result]
    assert min(chosen) == prior.edges[0]
    assert max(chosen) == pytest.approx(prior.far_edges[-1])
    assert any(prior.edges[1] < radius < prior.edges[-2] for radius in chosen)


@pytest.mark.parametrize("name", BOUNDED)
def test_forced_clips_move_by_at_most_the_sensitivity(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is clipped to, 1/50 or 50 wide, on or off the records: ‖v(x) − v(x')‖ ≤ Δ."""
    manifold, facts, candidates = setting(name)
    classes = neighbours(candidates[:1], candidates, manifold, facts)
    for radius in (1e-3, 0.02, 1.0, 50.0):
        forced(monkeypatch, radius)
        found = moves(classes, 1.0, SCRIPTS["noise"])
        assert (found <= 1.0).all()


def across(ready: MeanSetup, far: float, along: float = 1.0) -> Point:
    """Return two records on opposite sides of the prior's centre, on the line and off it."""
    frame = ready.records.frame
    step = far * frame.from_axes[-1]
    if frame.lines:
        step = step + along * frame.to_axes[:, 0]
    centre = ready.records.space.exp(ready.records.space.origin, ready.records.prior.centre)
    return ready.records.space.exp(centre, np.stack([step, -step]))


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("n", [1, 5])
def test_the_sensitivity_is_attained_by_the_clipped_mean(name: str, n: int) -> None:
    """Beyond opposite ends of the first ball two records are Δ apart, up to 1e-5."""
    manifold, facts, candidates = setting(name)
    ready = adaptive(candidates[:1], domain=facts, manifold=manifold)
    base = candidates[:1].repeat(n - 1, axis=0)
    two = across(ready, 1.001 * ready.records.prior.first)
    found = moves(neighbours(base, two, manifold, facts), 1.0, still)
    assert found[0] == pytest.approx(1.0, abs=1e-5) or name == "hyperbolic"
    assert found[0] > 0.9999
    assert found.max() <= 1.0


@pytest.mark.parametrize("name", BOUNDED)
def test_a_sensitivity_too_small_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Δ = 0.9/n in place of 1/n, every step breaks its bound."""
    monkeypatch.setattr(rounds, "step_sensitivity", lambda _, n, dim: 0.9 / n)
    manifold, facts, candidates = setting(name)
    ready = adaptive(candidates[:1], domain=facts, manifold=manifold)
    forced(monkeypatch, 0.2)
    two = np.concatenate([across(ready, 1.0), across(ready, 0.21), candidates])
    found = moves(neighbours(two[:0], two, manifold, facts), 1.0, still)
    assert (found > 1.0).all()


def lattice_vectors(seen: FloatArray, to: Clip) -> list[list[int]]:
    """Return the vector of each record times 2⁴⁰, as it is added up."""
    return [clipped_sum(record[None], to).tolist() for record in seen]


def apart(one: list[int], other: list[int]) -> Fraction:
    """Return the squared distance of two vectors on the lattice, exactly."""
    return Fraction(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)), PER_UNIT**2)


def least_margin(dim: int) -> Fraction:
    """Return √d·2⁻⁴⁰ from below, within 1e-24: what two vectors may be moved apart by rounding."""
    return Fraction(math.isqrt(dim * 10**48), 10**24 * PER_UNIT)


@pytest.mark.parametrize("dim", [2, 15, 66])
def test_vectors_on_the_lattice_differ_by_at_most_the_stated_diameter(dim: int) -> None:
    """Searched at the edge, where rounding goes outwards: beyond 1 by a third of the margin."""
    rng = np.random.default_rng(dim)
    alike = np.tri(dim) + 0.0  # m coordinates alike: all of them may be rounded outwards
    spokes = np.concatenate([alike, rng.standard_normal((60, dim))])
    spokes *= 3.0 * 10.0 ** rng.uniform(0.0, 6.0, (len(spokes), 1))
    to = Clip(np.zeros(dim), radius=1.7, unit=3.4)
    found = lattice_vectors(np.concatenate([spokes, -spokes]), to)
    pairs = itertools.islice(itertools.combinations(found, 2), 0, None, 7)
    worst = max(apart(*pair) for pair in [*zip(found, found[len(spokes) :], strict=False), *pairs])
    stated = 1 + Fraction(10) ** -12 + Fraction(dim, 2**53) + least_margin(dim)
    assert (1 + least_margin(dim) / 3) ** 2 < worst <= stated**2
    for n in (1, 1000, 10**6):
        assert worst <= (n * Fraction(sensitivity.mean_sensitivity(n, dim))) ** 2


@given(st.data())
@settings(max_examples=60)
def test_sums_are_the_same_for_any_order_and_any_chunks(data: st.DataObject) -> None:
    """Permuted, cut anywhere, in blocks of any length: the mean has the same bits."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n, dim = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 6))
    seen = rng.standard_normal((n, dim)) * 10.0 ** rng.uniform(-9.0, 9.0, (n, 1))
    lines = data.draw(st.integers(0, min(1, dim - 1)))
    to = reaching(dim, lines)._replace(centre=rng.standard_normal(dim))

    def mean_of(rows: FloatArray, cuts: list[int]) -> FloatArray:
        parts = [part for part in np.split(rows, sorted(cuts)) if len(part)]
        return clipped_mean([as_repetition(part, sizes(part, to.centre)) for part in parts], n, to)

    expected = mean_of(seen, [])
    cuts = data.draw(st.lists(st.integers(0, n), max_size=8))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "BLOCK", data.draw(st.integers(1, 9)))
        assert np.array_equal(mean_of(seen[rng.permutation(n)], cuts), expected)


def test_sums_do_not_overflow_and_are_rounded_once() -> None:
    """Three blocks of records at the edge, and one beside it: the exact mean, correctly rounded."""
    n = 2 * BLOCK + 1
    seen = np.full((n, 1), 5.0)
    seen[0] = 1.0
    to = Clip(np.zeros(1), radius=3.0, unit=3.0)
    one = Fraction(round(Fraction(1, 3) * PER_UNIT), PER_UNIT)
    found = clipped_mean([as_repetition(seen, sizes(seen, np.zeros(1)))], n, to)
    assert found.tolist() == [float((n - 1 + one) / n)]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000, 10**6, 10**9])
@pytest.mark.parametrize("dim", [1, 15, 66])
def test_the_margin_is_what_rounding_may_do(n: int, dim: int) -> None:
    """Δ covers sets of diameter 1 + 2000u + √d·2⁻³⁹ + 2⁻³⁷ and means rounded by u, hardly more."""
    unit = Fraction(2) ** -53
    lattice = 2 * least_margin(dim) + Fraction(8, PER_UNIT)
    least = (1 + 2000 * unit + lattice) / n + 2 * unit
    found = Fraction(sensitivity.mean_sensitivity(n, dim))
    assert least <= found <= least + (2 * Fraction(10) ** -12 + 2 * dim * unit) / n


BUDGETS: list[Budget] = [
    GDP(0.37),
    GDP(3.0),
    ZCDP(0.11),
    RDP(8.0, 0.7),
    ApproxDP(1.0, 1e-6),
    ApproxDP(0.1, 1e-12),
    RaoDP(0.4),
]


def ratio_squared(budget: Budget) -> Fraction:
    """Return the (Δ/σ)² that Gaussian noise may have, in exact arithmetic."""
    match budget:
        case GDP(value) | RaoDP(value):
            return Fraction(value) ** 2
        case ZCDP(value):
            return 2 * Fraction(value)
        case RDP(alpha, epsilon):
            return 2 * Fraction(epsilon) / Fraction(alpha)
    raise AssertionError(budget)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("n", [1, 3, 1000, 10**7])
@pytest.mark.parametrize("shares", [SHARES_OF_MANY, SHARES_OF_FEW, SHARES_WITHOUT_LINE])
def test_the_steps_cost_at_most_the_budget(budget: Budget, n: int, shares: Shares) -> None:
    """The shares compose to ≤ the budget, and each σ is at least what its share asks for."""
    costs = step_costs(budget, n, shares, dim=15)
    assert tuple(cost.name for cost in costs) == STEP_NAMES
    spent = compose(cost.budget for cost in costs)
    for cost in costs:
        assert Fraction(cost.sensitivity) > Fraction(1, n)
        assert cost.sigma >= gaussian_sigma(cost.budget, cost.sensitivity)
        assert Fraction(cost.sensitivity) ** 2 <= ratio_squared(cost.budget) * (
            Fraction(cost.sigma) ** 2
        )
    if isinstance(budget, ApproxDP):
        assert isinstance(spent, GDP)
        assert delta_of(spent, budget.epsilon) <= budget.delta
        assert convert(spent, ApproxDP, delta=budget.delta).epsilon <= budget.epsilon
        return
    assert type(spent) is type(budget)
    assert ratio_squared(spent) <= ratio_squared(budget)
    total = sum((Fraction(c.sensitivity) / Fraction(c.sigma)) ** 2 for c in costs)
    assert total <= ratio_squared(budget)
    assert total >= ratio_squared(budget) * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize("mu", [1e-300, 1e-150, 1e150, 1e300])
def test_budgets_out_of_all_proportion_are_refused(mu: float) -> None:
    """A σ whose square leaves the range of doubles ends in one line, not in infinite noise."""
    with pytest.raises(PrivacyError, match="usual size"):
        step_costs(GDP(mu), 10, SHARES_OF_MANY, dim=15)


def test_the_budget_of_an_approximate_guarantee_is_not_wasted() -> None:
    """All steps of an (ε, δ) budget together are one Gaussian release of that budget, to 1e-9."""
    costs = step_costs(ApproxDP(1.0, 1e-6), 10, SHARES_OF_MANY, dim=15)
    total = math.fsum((cost.sensitivity / cost.sigma) ** 2 for cost in costs)
    assert math.sqrt(total) * gaussian_sigma(ApproxDP(1.0, 1e-6), 1.0) == pytest.approx(1.0, 1e-9)


@pytest.mark.parametrize("mu", [0.05, 1.0, 7.0])
def test_LATTICE_certifies_the_budget(mu: float) -> None:
    """The ρ that the noise source proves for its own code sum to ≤ μ²/2, with no tolerance."""
    manifold, facts, candidates = setting("spd-log-euclidean")
    ready = adaptive(candidates[:12], domain=facts, manifold=manifold)
    draws = drawn(ready, GDP(mu), LATTICE, size=3)
    assert draws.rhos.shape == (3, len(STEP_NAMES))
    for rhos in draws.rhos:
        total = sum(map(Fraction, rhos.tolist()), Fraction(0))
        assert total <= Fraction(mu) ** 2 / 2
        assert total >= Fraction(mu) ** 2 / 2 * (1 - Fraction(1, 10**9))
    assert len(np.unique(draws.points, axis=0)) == 3


@pytest.mark.addons
def test_pure_budgets_are_refused() -> None:
    """Gaussian noise gives no ε-DP."""
    manifold, facts, candidates = setting("hyperbolic")
    ready = adaptive(candidates, domain=facts, manifold=manifold)
    with pytest.raises(PrivacyError, match="no pure DP"):
        drawn(ready, PureDP(1.0), 0)


@pytest.mark.parametrize(
    "manifold", [space for space in MEDIUM.values() if space.curvature[1] > 0.0]
)
def test_positive_curvature_is_refused(manifold: Manifold) -> None:
    """Where logarithms do not contract, nothing is proven."""
    with pytest.raises(PrivacyError, match="positive curvature"):
        adaptive(manifold.origin[None], domain=Ball(0.3, manifold.name), manifold=manifold)


@pytest.mark.parametrize("name", BOUNDED)
def test_an_empty_class_is_refused(name: str) -> None:
    """There is no mean of nothing."""
    manifold, facts, candidates = setting(name)
    with pytest.raises(DomainError, match="one record or more"):
        adaptive(candidates[:0], domain=facts, manifold=manifold)


@pytest.mark.addons
def test_no_draws_are_refused() -> None:
    """`size` must be at least 1."""
    manifold, facts, candidates = setting("hyperbolic")
    ready = adaptive(candidates, domain=facts, manifold=manifold)
    with pytest.raises(ConfigError, match="size must be at least 1"):
        drawn(ready, GDP(1.0), 0, size=0)


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ((0.0, 0.1, 0.1, 0.1, 0.7), "must be positive"),
        ((0.1, -0.1, 0.2, 0.1, 0.7), "must be positive"),
        ((math.nan, 0.1, 0.1, 0.1, 0.7), "must be positive"),
        ((0.1, 0.1, 0.1, 0.1, 0.5), "must sum to 1"),
        ((0.1, 0.1, 0.1, 0.1, 0.6 + 1e-8), "must sum to 1"),
        ((0.1, 0.1, 0.1, 0.1, math.inf), "must sum to 1"),
    ],
)
def test_shares_that_mean_nothing_are_refused(shares: tuple[float, ...], words: str) -> None:
    """Shares are positive and sum to 1."""
    with pytest.raises(ConfigError, match=words):
        Shares(*shares)


@pytest.mark.parametrize("many", [0, 1, 4, 6, 7])
def test_shares_of_other_steps_are_refused(many: int) -> None:
    """Five are read, one a step; the line names the steps."""
    with pytest.raises(ConfigError, match=f"shares must be 5, for mean 1, .* found {many}"):
        read_shares((1.0 / max(many, 1),) * many)
    assert read_shares((0.2,) * 5) == Shares(0.2, 0.2, 0.2, 0.2, 0.2)
    assert read_shares(None) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDED)
def test_behaviour_does_not_depend_on_the_records(name: str) -> None:
    """Number of steps, lengths, σ and Δ are the same for all records; results are finite."""
    manifold, facts, candidates = setting(name)
    seen = set()
    classes = [candidates[i : i + 1].repeat(6, axis=0) for i in range(len(candidates))]
    classes += [candidates[i : i + 6] for i in range(0, len(candidates) - 6, 3)]
    ready = [adaptive(points, domain=facts, manifold=manifold) for points in classes]
    for mu in (1e-3, 0.1, 1.0, 1e3):
        found = [Probe((random_script(4, 0.1),)) for _ in ready]
        draws = draw_each(ready, GDP(mu), noise=found)
        assert all(len(one.vectors) == len(draws.steps) for one in found)
        assert all(np.isfinite(vector).all() for one in found for vector in one.vectors)
        assert np.isfinite(draws.points).all()
        seen |= {(mu, tuple(one.scales)) for one in found}
    assert len(seen) == 4


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("n", [1, 2, 10])
def test_any_budget_gives_a_record_of_the_region(name: str, n: int) -> None:
    """From no information to almost none withheld, the result exists and lies in the region."""
    manifold, facts, candidates = setting(name)
    ready = adaptive(candidates[:n], domain=facts, manifold=manifold)
    for mu in (1e-9, 1e-4, 0.03, 10.0, 1e8, 1e14):
        draws = drawn(ready, GDP(mu), 5, size=4)
        assert np.isfinite(draws.points).all()
        assert np.isfinite(draws.predicted_error).all()
        again = ready.records.feasible_set.inside(draws.points)
        assert manifold.dist(again, draws.points).max() < 1e-5


@pytest.mark.parametrize("name", BOUNDED)
def test_a_budget_without_end_gives_the_mean(name: str) -> None:
    """With vanishing noise the result is the Fréchet mean of the records, however far apart.

    On curved matrices three steps lead there from near; from far away they end within twice what
    they say, as Newton's step is one for records up to the last edge: a shorter one would be
    predicted better, and end four times farther away.
    """
    manifold, facts, candidates = setting(name)
    points = candidates[:6]
    if name == "spd-affine-invariant":
        draws = drawn(adaptive(points, domain=facts, manifold=manifold), GDP(1e9), 5)
        true = adaptive(points, domain=facts, manifold=manifold).records.barycentre.point
        assert draws.predicted_error is not None
        assert manifold.dist(draws.points, true)[0] < 2.0 * draws.predicted_error[0] < 0.5
        points = describe(np.random.default_rng(1).integers(90, 160, (6, 28, 28)).astype(np.uint8))
    ready = adaptive(points, domain=facts, manifold=manifold)
    draws = drawn(ready, GDP(1e9), 5, size=3)
    assert manifold.dist(draws.points, ready.records.barycentre.point).max() < 1e-3


@pytest.mark.parametrize("name", BOUNDED)
def test_generators_decide_the_draws(name: str) -> None:
    """The same seed gives the same draws to the last bit, another seed others."""
    manifold, facts, candidates = setting(name)
    ready = adaptive(candidates[:6], domain=facts, manifold=manifold)
    one, two, other = (drawn(ready, GDP(1.0), seed, size=2) for seed in (1, 1, 2))
    assert np.array_equal(one.points, two.points)
    assert not np.array_equal(one.points[0], one.points[1])
    assert (manifold.dist(one.points, other.points) > 1e-9).all()
    assert np.isnan(one.rhos).all()


@pytest.mark.parametrize("name", BOUNDED)
def test_the_order_of_the_records_does_not_matter(name: str) -> None:
    """Shuffled records have the same statistics, up to rounding, in every step."""
    manifold, facts, candidates = setting(name)
    order = np.random.default_rng(2).permutation(len(candidates))
    classes = [
        adaptive(points, domain=facts, manifold=manifold)
        for points in (candidates, candidates[order])
    ]
    one, two = (probe(ready, GDP(1.0), *SCRIPTS.values()) for ready in classes)
    for vector, other in zip(one.vectors, two.vectors, strict=True):
        np.testing.assert_allclose(vector, other, atol=1e-9)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324])
def test_no_number_in_a_record_counts_as_any_other_record(name: str, value: float) -> None:
    """Coordinates that are no numbers move the counts and the clipped sum by at most Δ, or 1."""
    manifold, facts, candidates = setting(name)
    ready = adaptive(candidates, domain=facts, manifold=manifold)
    edges, lines = ready.records.prior.edges, ready.records.frame.lines
    to = reaching(ready.records.space.dim, lines).as_repetition()

    def statistics(seen: FloatArray) -> tuple[FloatArray, ...]:
        sized = as_repetition(seen, sizes(seen, np.zeros(seen.shape[1])))
        (total,) = clipped_means([sized], 1, to, paired=True)
        (shells,) = shell_counts(sized[1], edges)
        return shells / SQRT2, total

    (seen,) = ready.records.seen
    usual = statistics(seen)
    for places in [[0], [-1], [0, -1], [1, 2], list(range(seen.shape[1]))]:
        broken = seen.copy()
        broken[3, places] = value
        with np.errstate(over="ignore"):
            found = statistics(broken)
        for one, other in zip(usual, found, strict=True):
            assert np.isfinite(other).all()
            assert one.shape == other.shape
            assert np.linalg.norm(one - other) <= 1.0 + 1e-11
        assert found[0].sum() == pytest.approx(usual[0].sum())


class InTurn:
    """Noise of a step and a repetition, the same whether these are drawn together or one by one."""

    rng = None

    def __init__(self, repetitions: int, first: int = 0) -> None:
        """Draw for some repetitions together, or for the one that is the `first`."""
        self.repetitions, self.first, self.calls = repetitions, first, 0

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Add noise; as ρ return which step it was."""
        step, repetition = divmod(self.calls, self.repetitions)
        self.calls += 1
        rng = np.random.default_rng([step, self.first + repetition])
        return NoisyVector(vector + sigma * rng.standard_normal(len(vector)), float(step))


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("mu", [0.03, 0.5, 4.0])
def test_repetitions_are_single_draws_bit_for_bit(name: str, mu: float) -> None:
    """With the same noise several repetitions are what each is alone: exact, no false alarms."""
    manifold, facts, points = setting(name)
    ready = adaptive(points, domain=facts, manifold=manifold)
    together = drawn(ready, GDP(mu), InTurn(5), size=5)
    for repetition in range(5):
        alone = drawn(ready, GDP(mu), InTurn(1, repetition))
        assert np.array_equal(together.outputs[repetition], alone.outputs[0])
        assert np.array_equal(together.rhos[repetition], alone.rhos[0])
        found, expected = together.moments[repetition], alone.moments[0]
        for one, other in zip(vars(found).values(), vars(expected).values(), strict=True):
            assert type(one) is type(other)
            assert one is None or np.array_equal(one, other)


class OneByOne:
    """Noise of a generator that takes one vector at a time."""

    rng = None

    def __init__(self, seed: int) -> None:
        self.noise = FloatNoise(np.random.default_rng(seed))

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Add noise."""
        assert vector.ndim == 1
        return self.noise(vector, sigma, sensitivity)


@pytest.mark.parametrize("mu", [0.03, 0.7, 4.0])
def test_noise_of_a_step_is_that_of_one_repetition_after_the_other(mu: float) -> None:
    """Drawn in one call it has the same bits: no false alarms."""
    manifold, facts, points = setting(BOUNDED[0])
    ready = adaptive(points, domain=facts, manifold=manifold)
    together = drawn(ready, GDP(mu), FloatNoise(np.random.default_rng(5)), size=7)
    one_by_one = drawn(ready, GDP(mu), OneByOne(5), size=7)
    assert len(np.unique(together.outputs, axis=0)) == 7
    assert np.array_equal(together.outputs, one_by_one.outputs)


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("mu", [0.03, 0.5, 4.0])
def test_means_of_several_data_sets_are_those_of_each_alone(name: str, mu: float) -> None:
    """Bit for bit, whichever of them clip: no false alarms."""
    manifold, facts, points = setting(name)
    rng = np.random.default_rng(4)
    samples = [rng.choice(points[: 1 + 7 * number], len(points)) for number in range(4)]
    ready = [adaptive(sample, domain=facts, manifold=manifold) for sample in samples]
    together = draw_each(ready, GDP(mu), noise=[InTurn(1, number) for number in range(4)]).each
    for repetition, own in enumerate(ready):
        alone = drawn(own, GDP(mu), InTurn(1, repetition))
        assert np.array_equal(together[repetition].outputs, alone.outputs)
        assert np.array_equal(together[repetition].rhos, alone.rhos)
        both = (vars(draws.moments[0]).values() for draws in (together[repetition], alone))
        for one, other in zip(*both, strict=True):
            assert one is None or np.array_equal(one, other)


def test_means_drawn_together_may_have_noise_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each has its own in every block of repetitions, bit for bit: no false alarms."""
    manifold, facts, points = setting(BOUNDED[0])
    samples = [points, points[::-1], points[::-1] / 2.0]
    ready = [adaptive(sample, domain=facts, manifold=manifold) for sample in samples]
    alone = [drawn(own, GDP(0.5), InTurn(1, number)) for number, own in enumerate(ready)]
    for most in (2**21, 2 * len(points) * ready[0].records.space.dim):
        blocks_of(monkeypatch, most)
        noise = [InTurn(1, number) for number in range(3)]
        together = draw_each(ready, GDP(0.5), noise=noise)
        for number, one in enumerate(alone):
            assert np.array_equal(together.outputs[number], one.outputs[0])


def test_unlike_data_sets_are_not_drawn_together() -> None:
    """Neither of other sizes, nor of single plans: one line."""
    manifold, facts, points = setting(BOUNDED[0])
    ready = [adaptive(part, domain=facts, manifold=manifold) for part in (points, points[1:])]
    single = prepare(ready[0].records, SinglePlan(footpoint="origin"), rng=None)
    for unlike in (ready, [ready[0], single], [single, single]):
        with pytest.raises(ConfigError, match="draw those one by one"):
            draw_each(unlike, GDP(1.0), noise=FloatNoise(np.random.default_rng(0)))


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("labels", [Labels(), Labels(100)], ids=["public", "secret"])
def test_no_noise_is_so_wide_that_a_mean_fails(name: str, labels: Labels) -> None:
    """Whatever is released, up to what doubles hold, a mean comes of it, and it is finite.

    It would be paid, and nothing could be said.
    """
    manifold, facts, candidates = setting(name)
    records = admit(candidates[:5], domain=facts, manifold=manifold, labels=labels)
    prepared = prepare(records, AdaptivePlan(), rng=None)
    rng = np.random.default_rng(0)
    for mu, exponent in itertools.product((1e-90, 1e-6, 0.05, 5.0), (0, 8, 20, 100, 160, 300)):
        for sides in ((-1.0, 1.0), (1.0,), (-1.0,)):
            sizes = 10.0 ** np.where(rng.random(5) < 0.5, exponent, rng.uniform(-3.0, 1.0, 5))

            def script(step: int, length: int, sizes: FloatArray = sizes) -> FloatArray:
                return sizes[step] * rng.choice(sides, length) * rng.random(length)  # noqa: B023

            for many in (1, 3):  # of several the first alone is wide
                scripts = (script, random_script(1, 0.3), random_script(2, 0.3))[:many]
                found = draw_each([prepared], GDP(mu), noise=[Probe(scripts)], size=many)
                assert found.predicted_error is not None
                for values in (found.outputs, found.predicted_error):
                    assert len(values) == many
                    assert np.isfinite(values).all()


@pytest.mark.parametrize("name", BOUNDED)
def test_no_error_is_predicted_beyond_what_the_region_is_wide(name: str) -> None:
    """No mean is farther from any other: with little noise less is predicted, with much just that.

    Whatever is released: a document holds no error that is no number.
    """
    manifold, facts, candidates = setting(name)
    ready = adaptive(candidates[:5], domain=facts, manifold=manifold)
    widest = ready.records.feasible_set.diameter
    for mu, size, most in ((5.0, 0.02, False), (1e-6, 1e6, True), (5.0, 1e300, None)):
        probe = Probe((random_script(1, size),) * 3)
        predicted = draw_each([ready], GDP(mu), noise=[probe], size=3).predicted_error
        assert predicted is not None
        assert (predicted <= widest).all()
        assert most is None or ((predicted == widest) == most).all()
