"""Streams with secret labels: what a unit moves over all nights and classes, whatever it becomes.

Given what was released before, a night is normal with a known mean and σ: the squares of what a
unit moves, over σ², add up exactly, over all classes together.
"""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from covdp.addons.audit.attacks import ENDS, STAYING
from covdp.addons.nights.stream import (
    StreamMechanism,
    column_norm,
    cumulative_mean,
    empty_state,
    release_night,
    split_epochs,
    window_mean,
)
from covdp.addons.nights.stream.history import waiting_count
from covdp.addons.nights.stream.plan import OPENING_SHARES
from covdp.errors import ConfigError
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP, ZCDP, compose, gaussian_sigma
from tests.addons.nights.replayed import Recorded, Replayed
from tests.addons.nights.secret_streams import (
    CLASSES,
    FLAT,
    HORIZON,
    MU,
    classes_with,
    leak,
    placed,
    release,
    run,
    stream,
    units,
    with_person,
)


def ends(manifold: str = FLAT[0]) -> list[Any]:
    """Return records on opposite sides of most balls, which are wider in log-Cholesky.

    There those of the audit are towards an odd picture, whose vectors are 0.
    """
    away = 10.0 * np.outer([1.0, -1.0], [1.0, 1.0, 1.0, -1.0, -1.0])
    if manifold != FLAT[1]:
        away = np.array(ENDS) - STAYING
    return [np.diag(np.exp(end)) for end in STAYING + away]


@pytest.mark.parametrize(
    ("manifold", "budget"), [(FLAT[0], GDP(MU)), (FLAT[1], ZCDP(MU**2 / 2))], ids=FLAT
)
def test_a_unit_of_any_class_moves_all_classes_by_its_budget(manifold: str, budget: Any) -> None:
    """Whatever class it becomes of, opened or not, in whatever epoch; and nearly that much.

    A unit that stays in its class but becomes another as well.
    """
    of, most, (one, other) = stream(manifold, budget), 0.0, ends(manifold)
    for night in (0, 1, 3, 8, 23):
        for a, b in ((0, 0), (0, 1), (0, 2), (1, 2), (1, 1)):
            sides = classes_with(of, night, a, one), classes_with(of, night, b, other)
            most = max(most, leak(of, *sides))
            assert most <= MU * (1.0 + 1e-9)
    assert most > 0.95 * MU


@pytest.mark.parametrize("manifold", FLAT)
def test_a_person_in_two_classes_moves_all_classes_by_two_budgets(manifold: str) -> None:
    """Whichever of them it is in, and before and after: squares of two records add up, to 2·μ².

    Before openings and after, in whatever epoch. Some move nearly that; with nine tenths of the
    noise, a control, these cost more than √2·μ.
    """
    of, (one, other), most = stream(manifold), ends(manifold), (0.0, None)
    sides = [{0: one, 1: one}, {0: other, 1: other}, {1: other, 2: other}, {2: one}]
    for night in (0, 1, 8):
        for left, right in itertools.combinations(sides, 2):
            (a, totals), (b, same) = with_person(of, night, left), with_person(of, night, right)
            assert totals == same
            found = leak(of, a, b, totals)
            records = max(len(left), len(right))
            assert found <= math.sqrt(records) * MU * (1.0 + 1e-9)
            most = max(most, (found, (a, b, totals)), key=lambda item: item[0])
    assert most[0] > 0.95 * math.sqrt(2.0) * MU
    assert most[1] is not None
    assert leak(of, *most[1], scale=0.9) > 1.04 * math.sqrt(2.0) * MU


@pytest.mark.parametrize("seed", range(3))
def test_random_wards_do_not_leak_more(seed: int) -> None:
    """Whatever comes on which night, and whatever of it becomes what."""
    of, rng = stream(horizon=8, opening=float([80, 160, 400][seed])), np.random.default_rng(seed)
    for _ in range(4):
        sizes = rng.choice([0, 1, 2, 6, 30], (CLASSES, 8), p=[0.3, 0.3, 0.2, 0.15, 0.05])
        sizes[int(rng.integers(CLASSES))] = 0
        night = int(rng.integers(8))
        places = [(int(rng.integers(CLASSES)), ends()[int(rng.integers(2))]) for _ in range(3)]
        sides = [classes_with(of, night, label, unit, sizes) for label, unit in places]
        for left, right in itertools.combinations(sides, 2):
            assert leak(of, left, right) <= MU * (1.0 + 1e-9)


def test_a_unit_that_is_counted_again_is_caught() -> None:
    """Control: units of the opening that come again, as of nights after it."""
    of, (one, other) = stream(), ends()
    left, right = classes_with(of, 0, 0, one), classes_with(of, 0, 1, other)
    for sides, label, unit in ((left, 0, one), (right, 1, other)):
        for night in (8, 9):
            sides[label][night] = np.concatenate([unit[None], sides[label][night]])
    assert leak(of, left, right) > 1.2 * MU


def test_each_series_moves_by_its_share_between_classes() -> None:
    """Counts and both series: what a move costs is at most their share, and nearly that.

    Of the mean, whose vectors lie within 3/8 and a² = 1/8, both ends are clipped.
    """
    of, (one, _) = stream(horizon=12), ends()
    sizes = ((6,) + (1,) * 11, (6,) + (1,) * 11, (0,) * 12)
    for night in (0, 1):
        sides = [classes_with(of, night, label, one, sizes) for label in (0, 1)]
        seeds = [Recorded() for _ in range(CLASSES)]
        run(of, sides[0], seeds)
        replayed = [Replayed(told=noise.gave) for noise in seeds]
        run(of, sides[1], replayed)
        squares: dict[float, float] = {}
        for noise, other in zip(seeds[:2], replayed, strict=False):
            for a, b, sigma in zip(noise.asked, other.asked, noise.sigmas, strict=True):
                moved = float(np.sum((a - b) ** 2)) / (sigma * MU) ** 2
                squares[sigma] = squares.get(sigma, 0.0) + moved
        steps = of.count_steps if night == 0 else of.steps
        shares = (0.05,) if night == 0 else (0.05, 0.95)
        for step, share in zip(steps, shares, strict=True):
            # of the first night a unit is counted on that night alone, as both classes open on it
            nights = column_norm(11) if night else 1.0
            least = (nights / column_norm(12)) ** 2
            assert 0.9 * least * share < squares[step.sigma] <= share * (1.0 + 1e-9)


def test_scales_leave_room_for_two_classes() -> None:
    """Shares add up to the budget, before the opening and after; Δ has room for two roundings."""
    for budget in (GDP(0.5), ZCDP(0.125)):
        of = stream(budget=budget)
        assert of.plan.opening_steps(9, 15, OPENING_SHARES)[0].sensitivity > 1.0
        opening = of.plan.opening_budget(15)
        both = compose([of.count_steps[0].budget, opening])
        later = compose(step.budget for step in of.steps)
        for spent in (both, later):
            assert gaussian_sigma(spent, 1.0) == pytest.approx(2.0, rel=1e-9)
            assert gaussian_sigma(spent, 1.0) >= 2.0 * (1.0 - 1e-12)
        drawn = of.plan.opening_steps(9, 15, OPENING_SHARES)
        mus = [step.sensitivity / step.sigma for step in (*of.count_steps, *drawn)]
        assert math.hypot(*mus) <= 0.5
        margin = of.plan.sensitivity(15) - replace(of.plan, secret=False).sensitivity(15)
        asked = math.sqrt(HORIZON) * 4 * 2.0**-53 * 2**27
        assert asked * (1 - 1e-6) < margin < asked * (1 + 1e-6)


def test_public_totals_are_told_where_labels_are_secret() -> None:
    """And nowhere else: what a class has must not take their place."""
    of = stream()
    public = StreamMechanism(replace(of.plan, secret=False), of.domain, of.manifold)
    for one, total in ((of, None), (public, 3)):
        with pytest.raises(ConfigError, match="the number of records of all classes"):
            release_night(one, [], empty_state(15), units(of, 3, 0), noise=Recorded(), total=total)


def test_counts_lie_within_their_deviations() -> None:
    """Of the opening, of epochs, of windows and of those that wait; of half of all units.

    Of 200 streams 0.27 % of about 1,200 counts are expected off by three deviations or more. 1 %
    would be rarer than 10⁻⁴ if they were independent.
    """
    of, off, rng = stream(budget=GDP(5.0), horizon=9), list[float](), np.random.default_rng(5)
    sizes = np.array((8, 8, 10, 12, 16, 0, 24, 700, 12))
    batches = [units(of, n, place) for place, n in enumerate(sizes)]
    for _ in range(200):
        history = release(of, batches, (2 * sizes).tolist(), FloatNoise(rng))
        past = split_epochs(of, history)
        opened = next(night.night for night in history if night.opened)
        off.append((past.openings[0].n - sizes[:opened].sum()) / past.openings[0].n_sd)
        for part in past.segments:
            first = part.epoch.first - 1
            off.append((part.n - sizes[first : first + len(part.nights)].sum()) / part.n_sd)
        for last in (2, 5):
            if (seen := window_mean(of, history, last)) is not None:
                off.append((seen.n - sizes[seen.first - 1 :].sum()) / seen.n_sd)
        if opened > 1:
            waits = waiting_count(of, history[: opened - 1])
            off.append(float((waits.value[0] - sizes[: opened - 1].sum()) / waits.sd[0]))
    assert len(off) > 1000
    assert np.mean(np.abs(off) > 3.0) < 0.01
    assert 0.85 < np.std(off) < 1.1


@pytest.mark.parametrize("sizes", [(0,), (9,), (3, 0, 6)])
def test_no_class_opens_that_is_too_small_whatever_its_count_says(sizes: tuple[int, ...]) -> None:
    """The records of all classes together are public: ten are enough, 1 of 7 counts says ten."""
    of, rng = stream(budget=GDP(1.0), opening=10.0), np.random.default_rng(7)
    batches = [units(of, n, place) for place, n in enumerate(sizes)]
    for _ in range(40):
        nights = release(of, batches, sizes, FloatNoise(rng))
        assert all(night.opened is None for night in nights)


def test_means_err_little_more_than_with_public_labels() -> None:
    """At n·μ of 300 and more, 1.1 times as much at most (12 % are four deviations of the ratio)."""
    sizes, found = (60, 20, 20, 40, 20, 60), {}
    for secret in (True, False):
        of = stream(budget=GDP(5.0), horizon=6, opening=300.0)
        of = StreamMechanism(replace(of.plan, secret=secret), of.domain, of.manifold)
        errors = []
        for repetition in range(60):
            batches = [units(of, n, repetition, place) for place, n in enumerate(sizes)]
            noise = FloatNoise(np.random.default_rng(repetition))
            history = release(of, batches, sizes, noise)
            estimate = cumulative_mean(of, history)
            assert estimate is not None
            true = np.concatenate([placed(of, points) for points in batches]).mean(axis=0)
            errors.append(np.linalg.norm(estimate.offset - true))
        found[secret] = float(np.median(errors))
    assert found[True] < 1.12 * found[False]
