"""Streams that open too early, and are made good by another opening."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from covdp.addons.nights.certainty import mean_certainty
from covdp.addons.nights.stream import (
    Night,
    StreamMechanism,
    cumulative_mean,
    later_openings,
    split_epochs,
)
from covdp.mechanisms import FloatNoise
from tests.addons.nights import replayed, secret_streams
from tests.addons.nights.recovering import recovering
from tests.addons.nights.secret_streams import MU, leak, placed, release, units


def stream_of(of: StreamMechanism, sizes: Sequence[int], seed: int) -> tuple[list[Night], Any]:
    """Return the nights of one class of so many units each, and the mean of all without noise."""
    batches = [units(of, n, seed, place) for place, n in enumerate(sizes)]
    totals = [2 * n if of.plan.secret else n for n in sizes]
    history = release(of, batches, totals, FloatNoise(np.random.default_rng([1, seed])))
    return list(history), np.concatenate([placed(of, each) for each in batches]).mean(axis=0)


@pytest.mark.parametrize(
    ("opening", "later"),
    [(300.0, ()), (80.0, ()), (79.0, (300.0,)), (10.0, (200.0,)), (1.0, (20.0, 300.0))],
)
def test_when_a_stream_opens_again(opening: float, later: tuple[float, ...]) -> None:
    """At 20 times as many units, at 300 at the latest; not where the first were many by chance."""
    assert later_openings(opening) == later
    plan = recovering(opening).plan
    assert plan.next_opening(0) == opening
    if later:
        assert plan.next_opening(opening / MU) == later[0]
        assert plan.next_opening(80.0 / MU) is None
    assert plan.next_opening(max((opening, *later)) / MU) is None


@pytest.mark.parametrize(
    ("opening", "there", "sizes", "secret"),
    [(10.0, 200.0, (10, 90, 100), False), (40.0, 300.0, (40, 140, 190), True)],
)
def test_a_small_opening_is_made_good(
    opening: float, there: float, sizes: tuple[int, ...], secret: bool
) -> None:
    """With 20 times its units a stream errs at most 1.3 times as much as one that opens there.

    Where labels are secret counts decide, so that some streams open on other nights.
    """
    medians = []
    for first in (opening, there):
        of, errors = recovering(first, secret=secret, horizon=8, mu=1.0), list[float]()
        for seed in range(80):
            history, true = stream_of(of, sizes, seed)
            past = split_epochs(of, history)
            assert (len(past.openings) == 1 + (first == opening)) or secret
            estimate = cumulative_mean(of, history)
            if past.openings and past.openings[-1].n > 0.8 * there:
                assert estimate is not None
                errors.append(float(np.linalg.norm(estimate.offset - true)))
        assert len(errors) > 10
        medians.append(np.median(errors))
    assert medians[0] < 1.3 * medians[1]


def test_until_then_its_mean_stays() -> None:
    """Nights between openings release nothing; parts of the mean are both, then epochs."""
    of = recovering(10.0)
    history, _ = stream_of(of, (1, 2, 3, 4, 5, 6), 0)
    openings = [night.opened is not None for night in history]
    assert openings == [True, False, False, True, False, False]
    assert [night.w is not None for night in history] == [*[False] * 4, True, True]
    first = cumulative_mean(of, history[:1])
    assert first is not None
    for night in (2, 3):
        found = cumulative_mean(of, history[:night])
        assert found is not None
        assert found.offset.tobytes() == first.offset.tobytes()
        assert found.n == 1
    past = split_epochs(of, history)
    assert [(one.night, one.n) for one in past.openings] == [(1, 1), (4, 9)]
    assert [part.n for part in past.segments] == [11]
    assert past.n == 21
    after, before = mean_certainty(of, history), mean_certainty(of, history[:3])
    assert after is not None
    assert [part.first for part in after.parts] == [1, 4, 5]
    assert after.offered
    assert before is None or not before.offered


@pytest.mark.parametrize("night", [0, 1, 4, 5])
def test_a_unit_pays_once_for_a_first_look(night: int) -> None:
    """It is in one opening, or in the nights after both, whatever class it becomes of."""
    one, other = replayed.ends()
    public, sizes = recovering(10.0, horizon=8), (2, 2, 3, 4, 5, 6, 1, 1)
    batches = [units(public, n, 3, place) for place, n in enumerate(sizes)]
    sides = [replayed.with_unit(batches, night, unit) for unit in (one, other)]
    assert replayed.leak(public, *sides) <= MU * (1.0 + 1e-9)
    secret = recovering(10.0, secret=True, horizon=8)
    several = (sizes, (1, 1, 9, 0, 9, 9, 0, 0), (0,) * 8)
    for label in (1, 2):
        left = secret_streams.classes_with(secret, night, 0, one, several)
        right = secret_streams.classes_with(secret, night, label, other, several)
        assert 0.3 * MU < leak(secret, left, right) <= MU * (1.0 + 1e-9)
    assert math.isclose(public.plan.mu, MU)
