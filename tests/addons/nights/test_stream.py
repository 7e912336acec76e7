"""A stream of releases: what one unit can move over all nights, and what the nights say."""

import math
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from pydantic import ValidationError

from covdp.addons.nights.experiment import NightsConfig
from covdp.addons.nights.stream import (
    Night,
    PrivateSums,
    StreamMechanism,
    StreamPlan,
    coefficients,
    column_norm,
    covariance_of,
    cumulative_mean,
    draw_night,
    join_streams,
    release_night,
    split_epochs,
    window_between,
    window_mean,
)
from covdp.addons.nights.stream import night as night_module
from covdp.addons.nights.stream import plan as plan_module
from covdp.addons.nights.stream.factorisation import (
    from_limbs,
    integer_weights,
    to_limbs,
    weighted_sums,
    words_to_limbs,
)
from covdp.addons.nights.stream.history import _shells as last_shells
from covdp.addons.nights.stream.history import part_moments, share_outside
from covdp.addons.nights.stream.pool import Part, pool
from covdp.descriptors import domain
from covdp.errors import ConfigError, PrivacyError
from covdp.experiments import EXPERIMENTS, Run, load_experiments, run_experiment
from covdp.geometry import MANIFOLDS, vecd
from covdp.mean.clip import records_outside
from covdp.mechanisms import LATTICE, FloatNoise, NoisyVector
from covdp.privacy import GDP, ZCDP, PureDP
from covdp.results import read_rows, summarise
from tests.addons.nights.replayed import (
    HORIZON,
    MU,
    SPACE,
    Recorded,
    Replayed,
    ends,
    leak,
    nights,
    run,
    stream,
    told,
    units,
    with_unit,
)
from tests.tools.patience import calls


class Twice(Recorded):
    """Noise that is the same every night."""

    def __call__(self, vector: Any, sigma: float, sensitivity: float) -> NoisyVector:
        """Add the same noise to all vectors of one length."""
        drawn = np.random.default_rng([7, len(vector)]).standard_normal(len(vector))
        return self.keep(vector, vector + sigma * drawn, sigma)


# the factorisation


@pytest.mark.parametrize("horizon", [1, 2, 7, 365, 3650])
def test_coefficients_are_those_of_the_inverse_root(horizon: int) -> None:
    """c_k = C(2k, k)/4^k, to the last of 52 binary digits; the norm is theirs, never below."""
    found = coefficients(horizon)
    assert found.shape == (horizon,)
    for k in {0, 1, horizon // 2, horizon - 1} & set(range(horizon)):
        exact = Fraction(math.comb(2 * k, k), 4**k)
        assert abs(Fraction(found[k]) - exact) <= Fraction(1, 2**53) + Fraction(horizon, 2**115)
    square = sum((Fraction(c) ** 2 for c in found), Fraction(0))
    norm = column_norm(horizon)
    assert square <= Fraction(norm) ** 2 <= square * (1 + Fraction(1, 2**50))


def test_sums_of_nights_are_exact() -> None:
    """As of whole numbers by the definition, whatever their size and sign, and of many nights."""
    rng, most = np.random.default_rng(0), 2**127 - 1
    for t, horizon in ((1, 1), (3, 7), (4098, 4098)):
        rows = [[most, -most - 1, 0, -1, int(rng.integers(2**62)) << 60] for _ in range(t)]
        rows[0] = rows[0][::-1]
        found = weighted_sums(np.array([to_limbs(row) for row in rows]))
        used = integer_weights(horizon)[:t][::-1]
        assert found == [
            sum(c * x for c, x in zip(used, column, strict=True))
            for column in zip(*rows, strict=True)
        ]
        assert from_limbs(to_limbs(rows[0])) == rows[0]
        low = np.array([number % 2**64 for number in rows[0]], np.uint64).view(np.int64)
        high = np.array([number >> 64 for number in rows[0]])
        assert from_limbs(words_to_limbs(low, high)) == rows[0]
    with pytest.raises(OverflowError):
        to_limbs([most + 1])


def test_norms_are_those_of_the_design() -> None:
    """Ten years cost 1.918 times the noise of one release on the first night."""
    assert [round(column_norm(h), 3) for h in (365, 3650)] == [1.716, 1.918]


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True])
def test_a_horizon_is_a_night_or_more(horizon: Any) -> None:
    """Anything but a whole number of at least one night is refused."""
    with pytest.raises(ConfigError, match="at least 1"):
        coefficients(horizon)


@lru_cache
def norm(horizon: int) -> Any:
    """Return ‖c‖_H of the binomial series, at 50 digits."""
    with mpmath.workdps(50):
        return mpmath.sqrt(mpmath.fsum(mpmath.binomial(-0.5, k) ** 2 for k in range(horizon)))


@pytest.mark.parametrize("budget", [GDP(0.5), ZCDP(0.125)])
@pytest.mark.parametrize("horizon", [1, 30, 3650])
def test_sigma_of_every_night(budget: Any, horizon: int) -> None:
    """σ = ‖c‖_H/(√share·μ) and not below, nor above by more than roundings ask for."""
    for step, share in zip(stream(horizon, budget).steps, (0.05, 0.95), strict=True):
        exact = norm(horizon) / (mpmath.sqrt(mpmath.mpf(share)) * mpmath.mpf(0.5))
        assert exact < step.sigma < exact * (1 + 5e-6)


@pytest.mark.parametrize("horizon", [1, 3650])
def test_the_margin_is_what_roundings_ask_for(horizon: int) -> None:
    """Δ is ‖c‖_H·Δ₁ and, each night, two roundings of a sum of 2²⁷ vectors on each data set."""
    weight = column_norm(horizon) * (1 + 2e-12 + 2 * SPACE.dim * 2.0**-53)
    weight += column_norm(horizon) * (2 * math.sqrt(SPACE.dim) + 8) * 2.0**-40
    margin = stream(horizon).plan.sensitivity(SPACE.dim) - weight
    asked = math.sqrt(horizon) * 2 * 2 * 2.0**-53 * 2**27
    assert asked * (1 - 1e-6) < margin < asked * (1 + 1e-6)


# what one unit can move

SIZES = (4, 3, 0, 5, 2, 3, *(1,) * 31, 73, 1, 1)
"""Forty nights: the opening on the first, one without units, thirty times N on the last but one."""


@pytest.mark.parametrize("budget", [GDP(MU), ZCDP(MU**2 / 2)])
@pytest.mark.parametrize("night", [0, 1, 3, 20, 39])
def test_a_unit_moves_the_whole_transcript_by_its_budget(night: int, budget: Any) -> None:
    """Exactly computed, the transcript of 40 nights is at most μ-GDP; tight for the first night.

    A unit of the second night is in all nights but the opening's: its μ is nearly the claim.
    """
    of, (one, other) = stream(budget=budget), ends()
    batches = nights(SIZES)
    found = leak(of, with_unit(batches, night, one), with_unit(batches, night, other))
    assert found <= MU
    if night <= 1:
        assert found > 0.93 * MU


def test_each_series_is_tight() -> None:
    """Shells and mean each move by their share: a share left out would be seen."""
    of, (one, other) = stream(), ends()
    batches = nights(SIZES[:39])
    first = Recorded()
    run(of, with_unit(batches, 1, one), first)
    second = Replayed(told=first.gave)
    run(of, with_unit(batches, 1, other), second)
    opening = len(of.opening.shares.all) if of.opening.shares else 0
    for series, share in enumerate((0.05, 0.95)):
        steps = range(opening + series, len(first.asked), 2)
        square = sum(np.sum((first.asked[i] - second.asked[i]) ** 2) for i in steps)
        moved = math.sqrt(square) / of.steps[series].sigma
        assert 0.9 * math.sqrt(share) * MU < moved <= math.sqrt(share) * MU


def test_a_wrong_horizon_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: noise for a tenth of the nights."""
    (one, other), batches = ends(), nights(SIZES)
    sides = with_unit(batches, 1, one), with_unit(batches, 1, other)
    monkeypatch.setattr(plan_module, "column_norm", lambda horizon: column_norm(horizon // 10))
    assert leak(stream(), *sides) > MU


def test_a_unit_in_two_epochs_is_caught() -> None:
    """Control: a record that comes again after an epoch has begun anew."""
    of, (one, other) = stream(), ends()
    sizes = (4, 1, 120, 1, 1, *(0,) * 20)
    batches = nights(sizes)
    history, _ = run(of, batches, Recorded())
    assert [night.night for night in history if night.epoch] == [2, 4]
    sides = [with_unit(with_unit(batches, 1, unit), 3, unit) for unit in (one, other)]
    assert leak(of, *sides) > 1.2 * MU
    sides = [with_unit(batches, 3, unit) for unit in (one, other)]
    assert leak(of, *sides) <= MU


def replays(of: StreamMechanism) -> bool:
    """Whether other units, with the same vectors told, make the same transcript and points."""
    sizes = (4, 3, 120, 2, 1)
    first = Recorded()
    one, _ = run(of, nights(sizes), first)
    other, _ = run(of, nights(sizes, seed=100), Replayed(told=first.gave))
    points = [cumulative_mean(of, history) for history in (one, other)]
    assert points[0] is not None
    assert points[1] is not None
    same = points[0].offset.tobytes() == points[1].offset.tobytes()
    return same and told(one) == told(other)


def test_all_but_the_noised_vectors_is_made_of_them() -> None:
    """Centres, radii and means are functions of released values: replayed, they are the same."""
    assert replays(stream())


def test_epochs_of_sums_without_noise_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: an epoch whose centre is made of private sums."""
    private, honest = list[PrivateSums](), night_module.add_placed

    def peeking(of: StreamMechanism, history: Any, sums: PrivateSums, placed: Any) -> PrivateSums:
        private.append(honest(of, history, sums, placed))
        return private[-1]

    def begin(of: StreamMechanism, history: Any) -> Any:
        found = honest_epoch(of, history)
        means = private[-1].means
        sums = from_limbs(means[-1][: SPACE.dim]) if len(means) else [0] * SPACE.dim
        return replace(found, centre=found.centre + np.array(sums) / 2.0**40)

    honest_epoch = night_module.begin_epoch
    monkeypatch.setattr(night_module, "add_placed", peeking)
    monkeypatch.setattr(night_module, "begin_epoch", begin)
    assert not replays(stream())


def correlations(noise: Recorded) -> Any:
    """Correlations of the noise of w between nights."""
    of = stream()
    run(of, nights((4, *(1,) * 30)), noise)
    left = [told - asked for told, asked in zip(noise.gave, noise.asked, strict=True)][-40:]
    rows = np.array([np.concatenate(left[i : i + 2]) for i in range(0, 40, 2)])
    rows = rows[:, len(rows[0]) - SPACE.dim :]
    return np.corrcoef(rows)[np.triu_indices(20, 1)]


def test_noise_is_drawn_afresh_every_night() -> None:
    """Fisher's z of 190 correlations of 15 numbers: false alarm below 1e-6; control: used twice."""
    limit = math.tanh(6.0 / math.sqrt(SPACE.dim - 3))
    assert np.abs(correlations(Recorded())).max() < limit
    assert np.abs(correlations(Twice())).min() > limit


def test_the_order_of_units_is_not_in_a_night() -> None:
    """To the last bit, in the opening and in every later night; the private sums are the same."""
    batches = nights((5, 7, 9))
    shuffled = [batch[::-1] for batch in batches]
    (one, kept), (other, same) = (run(stream(), side, Recorded()) for side in (batches, shuffled))
    assert told(one) == told(other)
    for series in ("means", "shells"):
        np.testing.assert_array_equal(getattr(kept, series), getattr(same, series))


def test_hardened_noise_certifies_what_a_unit_pays_for_life() -> None:
    """OpenDP's ρ of both series together is that of the budget, μ²/2, once for all nights."""
    history, _ = run(stream(), nights((4, 2, 3)), LATTICE)
    for night in history:
        assert MU**2 / 2 * (1 - 1e-4) < sum(night.rhos) <= MU**2 / 2 * (1 + 1e-9)
    again, _ = run(stream(), nights((4, 2, 3)), LATTICE)
    assert told(history) != told(again)


# what the nights say


def test_an_epoch_leaves_as_many_outside_as_its_noise_is_worth() -> None:
    """With AIM times the records, or what noisy shells can tell; the opening's, then its own too.

    The first ball is where the opening counted them; the next where the mean of all is.
    """
    of = stream(budget=GDP(4.0), opening=200.0)
    history, _ = run(of, nights((60, 40, 3000, 5)), Recorded(scale=0.0))
    epochs = [night.epoch for night in history if night.epoch]
    assert history[0].opened
    assert [epoch.first for epoch in epochs] == [2, 4]
    for epoch in epochs:
        before = history[: epoch.first - 1]
        n, mean = sum(night.units for night in before), cumulative_mean(of, before)
        sigma = of.noise_of_sum(of.steps[-1].sigma, min(9 * len(before), HORIZON - len(before)))
        (wanted,) = records_outside(sigma, SPACE.dim, np.array([9.0 * n])) / (9.0 * n)
        shells, noise = last_shells(of, split_epochs(of, before))
        found = share_outside(shells, of.prior.edges, epoch.radius)
        assert found == pytest.approx(max(float(wanted), 3.0 * noise))
        assert mean
        centre = mean.offset if len(before) > 1 else history[0].opened.observed.base
        np.testing.assert_array_equal(epoch.centre, centre)


def test_without_noise_the_sums_are_those_of_all_nights() -> None:
    """C·C is the matrix of prefix sums: S_t of the vectors released is Σ x_j, for every window."""
    of, batches = stream(), nights(SIZES)
    history, private = run(of, batches, Recorded(scale=0.0))
    epochs = [night.epoch for night in history if night.epoch]
    first = epochs[-1].first
    found = window_between(of, history, first, len(history))
    assert found is not None
    assert found.n == sum(SIZES[first - 1 :])
    sums = np.sum([from_limbs(row) for row in private.means], axis=0).astype(float)
    vector = sums[: SPACE.dim] / 2.0**40 / found.n
    seen = epochs[-1].centre + 2.0 * epochs[-1].radius * vector @ of.frame.from_axes
    np.testing.assert_allclose(found.offset, seen, atol=1e-9)
    whole = part_moments(of, split_epochs(of, history))[-1]
    assert whole.n == found.n
    np.testing.assert_allclose(whole.base + whole.clipped_offset, found.offset, atol=1e-9)
    np.testing.assert_allclose(whole.noise, found.covariance, rtol=1e-9)
    many = len(whole.overshoots)
    expected = sums[SPACE.dim + many :] / 2.0**80 / found.n  # overshoots lie between
    expected[SPACE.dim :] *= math.sqrt(2.0)
    assert whole.moment is not None
    np.testing.assert_allclose(vecd(whole.moment), expected, rtol=1e-6, atol=1e-9)


def jacobian(of: StreamMechanism, history: Sequence[Night], what: Callable[[Any], Any]) -> Any:
    """How a window moves with each number of each w that was released."""
    base, rows = what(history).offset, []
    for place, night in enumerate(history):
        for i in range(0 if night.w is None else len(night.w)):
            moved = list(history)
            moved[place] = replace(night, w=night.w + np.eye(len(night.w))[i])
            rows.append(what(moved).offset - base)
    return np.array(rows).T


def test_covariances_of_windows_are_exact() -> None:
    """A window is linear in what was released: its noise is σ²·J·Jᵀ, across epochs too."""
    of = stream()
    history, _ = run(of, nights((4, 3, 60, 2, 1, 4)), Recorded())
    pairs = [(2, 4), (5, 6), (2, 6), (2, 3)]
    found = [window_between(of, history, *pair) for pair in pairs]
    jacobians = [jacobian(of, history, lambda x, p=p: window_between(of, x, *p)) for p in pairs]
    variance = of.steps[-1].sigma ** 2
    for i, one in enumerate(found):
        assert one is not None
        exact = variance * jacobians[i] @ jacobians[i].T
        np.testing.assert_allclose(one.covariance, exact, rtol=1e-5, atol=1e-6 * exact.max())
        for j, other in enumerate(found):
            assert other is not None
            exact = variance * jacobians[i] @ jacobians[j].T
            together = covariance_of(of, history, one, other)
            np.testing.assert_allclose(together, exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())
    assert found[0] is not None
    assert found[1] is not None
    assert np.abs(covariance_of(of, history, found[0], found[1])).max() > 0


def test_windows_reach_back_to_the_opening() -> None:
    """A longer window begins with the night after it; one without units, or before it, is None."""
    of = stream()
    history, _ = run(of, nights((4, 3, 0, 2)), Recorded())
    last, week, empty = (
        window_between(of, history, *nights) for nights in ((4, 4), (-2, 4), (3, 3))
    )
    assert last is not None
    assert (last.first, last.last, last.n) == (4, 4, 2)
    assert week is not None
    assert (week.first, week.n, empty) == (2, 5, None)
    found = window_mean(of, history, 7)
    assert found is not None
    assert found.offset.tobytes() == week.offset.tobytes()
    assert SPACE.check(found.point).shape == (5, 5)
    assert window_mean(of, history[:1], 1) is None
    with pytest.raises(ConfigError, match="no later"):
        window_between(of, history, 3, 5)


def test_nothing_is_said_before_the_opening() -> None:
    """Units are held back, uncounted in print, and no night releases anything."""
    of = stream(opening=100.0)
    history, private = run(of, nights((9, 8)), Recorded())
    assert cumulative_mean(of, history) is None
    assert len(private.waiting) == 17
    assert all(night.w is None and night.rhos == () for night in history)
    assert "17" not in repr(private)


def test_the_mean_so_far_is_near_that_of_all_units() -> None:
    """30 nights of 40 at μ = 4: within three times the error that is predicted.

    The squared error over its expectation has at most the spread of χ²_1: above 9 once in 300 runs,
    with this seed not.
    """
    of = stream(365, GDP(4.0), 300.0)
    batches = nights((40,) * 30)
    history, _ = run(of, batches, FloatNoise(np.random.default_rng(5)))
    found = cumulative_mean(of, history)
    assert found is not None
    assert found.n == 1200
    true = SPACE.log(SPACE.origin, np.concatenate(batches)).mean(axis=0)
    error = float(np.linalg.norm(found.offset - true))
    assert error < 3.0 * math.sqrt(np.trace(found.covariance)) < 1.0
    assert SPACE.check(found.point).shape == (5, 5)


def test_streams_are_joined_by_precision() -> None:
    """Nothing is added by a stream that knows nothing; two alike are averaged by their units."""
    of = stream()
    history, _ = run(of, nights((4, 3, 5)), Recorded())
    found = cumulative_mean(of, history)
    assert found is not None
    other = replace(found, offset=of.feasible_set.inside(found.offset + 0.1), n=3 * found.n)
    exact = 1e-12 * np.eye(SPACE.dim)
    sure = [replace(part, covariance=exact) for part in (found, other)]
    together = join_streams(of, *sure)
    assert together.n == 4 * found.n
    np.testing.assert_allclose(together.offset, (found.offset + 3 * other.offset) / 4, atol=1e-6)
    lost = replace(other, covariance=1e12 * np.eye(SPACE.dim))
    np.testing.assert_allclose(join_streams(of, sure[0], lost).offset, found.offset, atol=1e-6)
    np.testing.assert_allclose(join_streams(of, found).offset, found.offset, atol=1e-9)
    with pytest.raises(ConfigError, match="one geometry"):
        join_streams(of)


# what is refused


def test_a_stream_ends_with_its_horizon() -> None:
    """The night after the last is refused, with the way out."""
    of = stream(2)
    history, private = run(of, nights((4, 1)), Recorded())
    with pytest.raises(PrivacyError, match="open a new stream"):
        release_night(of, history, private, units(1, 0), noise=Recorded())


def test_curved_manifolds_and_pure_budgets_are_refused() -> None:
    """What a stream has no proof for is refused, and so is an opening of nothing."""
    curved = MANIFOLDS["spd-affine-invariant"](k=5)
    bound = domain("oct5", height=28, width=28, manifold=curved.name)
    with pytest.raises(PrivacyError, match="spd-log-euclidean or"):
        StreamMechanism(StreamPlan(GDP(1.0), 10), bound, curved)
    with pytest.raises(PrivacyError, match="no pure DP"):
        stream(budget=PureDP(1.0))
    with pytest.raises(ConfigError, match="opening"):
        StreamPlan(GDP(1.0), 10, opening=0.0)


def test_private_sums_of_another_history_are_refused() -> None:
    """A night would be weighted as another: caught before noise is drawn, nothing is told."""
    of, noise = stream(), Recorded()
    history, private = run(of, nights((4, 3, 2)), noise)
    drawn = len(noise.gave)
    with pytest.raises(ConfigError, match="do not belong"):
        release_night(of, history[:2], private, units(1, 0), noise=noise)
    for past in (history, []):  # sums that do not have the night, or are of later ones
        with pytest.raises(ConfigError, match="do not belong"):
            draw_night(of, past, private, 1, noise=noise)
    assert len(noise.gave) == drawn


def test_log_cholesky_streams_too() -> None:
    """The other flat manifold streams with real noise, and its mean is one of its points."""
    space = MANIFOLDS["spd-log-cholesky"](k=5)
    bound = domain("oct5", height=28, width=28, manifold=space.name)
    of = StreamMechanism(StreamPlan(GDP(MU), HORIZON, 3.0), bound, space)
    history, _ = run(of, nights((4, 2, 3)), LATTICE)
    found = cumulative_mean(of, history)
    assert found is not None
    assert space.check(found.point).shape == (5, 5)


def test_a_night_costs_no_more_after_ten_years() -> None:
    """Night 3000 of 200 units, its mean and a window: the dot products alone grow with t.

    In calls a night of the past is worth some three; in memory nothing is t by t.
    """
    early, late = effort_of_a_night(990), effort_of_a_night(2990)
    assert late[0] - early[0] < 2000 * 5
    assert late[1] < 4 * early[1]


def effort_of_a_night(rows: int) -> tuple[int, int]:
    """Return what a night, its mean and a window take after so many: calls, and bytes at once."""
    of = stream(3650)
    history, private = run(of, nights((4, 1)), Recorded())
    later = history[1]
    history += [replace(later, night=3 + i, epoch=None) for i in range(rows)]
    private = PrivateSums(
        private.waiting,
        *(np.repeat(kept, rows + 1, axis=0) for kept in (private.shells, private.means)),
        private.counts,
    )
    points = units(200, 3)

    def night_of_now() -> None:
        night, _ = release_night(of, history, private, points, noise=Recorded())
        cumulative_mean(of, [*history, night])
        window_mean(of, [*history, night], 30)

    night_of_now()  # the weights of all nights are worked out once in a process
    effort = calls(night_of_now)
    tracemalloc.start()
    night_of_now()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return effort, most


# the experiment


def test_the_experiment_shows_every_night_of_every_series(tmp_path: Path) -> None:
    """Held back until the opening, then near one release; anew every night is far worse.

    The same nights in all series; rows before the opening say why they have no error.
    """
    text = EXPERIMENTS["ours-stream"].read_text(encoding="utf-8")
    for old, new in (
        ('name = "ours-stream"', 'name = "short"'),
        ("shown = [1, 7, 30, 100, 200]", "shown = [1, 12, 20]"),
        ("units = [7, 40]", "units = [30, 40]\nopening = 100"),
        ('[[datasets]]\nname = "pneumoniamnist"\n', ""),
        ("opening = 200", "opening = 120"),
        ("nights = [200]", "nights = [20]"),
        ("nights = [30, 100, 200]", "nights = [12, 20]"),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "short.toml").write_text(text, encoding="utf-8")
    (config,) = load_experiments(tmp_path / "short.toml", repetitions=4)
    rows = read_rows(run_experiment(Run(config, None, tmp_path / "out")))
    assert len(rows["night"]) == 8 * 4 * 3
    waiting = rows["status"] == "held back"
    waits = np.isin(rows["series"], ["Stream", "Opening 60", "Opening 200", "Secret labels"])
    np.testing.assert_array_equal(waiting, waits & (rows["night"] == 1))
    sizes = {name: rows["n"][rows["series"] == name].tolist() for name in set(rows["series"])}
    assert len({tuple(found) for found in sizes.values()}) == 1
    table = summarise(rows)
    late = [table["night"] == night for night in (12, 20)]  # four streams of one night say little
    np.testing.assert_array_equal(*(table["series"][of] for of in late))
    found = dict(zip(table["series"][late[0]], sum(table["mean"][of] for of in late), strict=True))
    assert found["Stream"] < 5 * found["One release"]
    assert 8 * found["Stream"] < found["Anew every night"]
    assert found["Stream"] < found["Average of nights"]
    of_stream = (rows["series"] == "Stream") & ~waiting
    streams = (waits | (rows["series"] == "Opening 10")) & ~waiting
    later = rows["night"] > 1  # a first look may say nothing of its error
    np.testing.assert_array_equal(np.isfinite(rows["reach"])[later], streams[later])
    assert (rows["reach"][of_stream] <= 0.99).mean() > 0.5  # of 8, at 99 %: a false alarm in 10⁶


def test_nights_in_no_order_are_refused() -> None:
    """Nights out of order or beyond the horizon, and fewest units above most, are refused."""
    for shown, come in (((7, 1), (7, 40)), ((1, 11), (7, 40)), ((1,), (40, 7))):
        with pytest.raises(ValidationError, match="found"):
            NightsConfig(horizon=10, units=come, shown=shown)


@pytest.mark.parametrize("seed", range(5))
def test_the_mean_of_one_part_is_that_part_to_the_last_bit(seed: int) -> None:
    """Whatever single records are thought to spread by, which changes from night to night."""
    rng = np.random.default_rng(seed)
    noise, *spreads = (x @ x.T + np.eye(15) for x in rng.normal(size=(4, 15, 15)))
    part = Part(40, rng.normal(size=15), noise)
    for spread in spreads:
        np.testing.assert_array_equal(pool([part], spread).mean, part.offset)
