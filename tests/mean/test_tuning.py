"""The script behind the numbers of the adaptive mean: it changes what it says, and only that."""

import importlib
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covdp.arrays import FloatArray
from covdp.mean import (
    AdaptivePlan,
    Ball,
    Domain,
    Records,
    admit,
    draw,
    prepare,
    tuning,
)
from covdp.privacy import GDP
from tests.tools.tuning.factors import published
from tests.tools.tuning.flatness import Effect, Paired, Tried, relative
from tests.tools.tuning.images import ImageClass, images_of, records_of, some
from tests.tools.tuning.numbers import NUMBERS, Number, changed, trying

NO_TRIAL = {
    *("BIAS_OF_CLIPPING", "LEFT_ONE_WAY", "LEFT_SD", "MISSED_SD", "OVERSHOOT_SD"),
    *("FAR_SD", "LARGEST_LOG_SCALE", "MOST_BEYOND", "SCATTER_FLOOR", "STEP_LEFT", "SURE_ODD"),
    *("CLUSTER_SD", "SECOND_NOISE", "USUAL_SIZE"),
}
"""Numbers that no mean of tiles depends on: what clipping and curvature are predicted to do, how
sure of overshoots regions are, the least scatter of records, a scale beyond all that noise asks
for, when many records are far, odd or a cluster, as no tiles are, and how long records of nights
are."""


@cache
def known(case: str) -> Records:
    """Return 200 tiles, as each kind of number needs them."""
    images = some(images_of(ImageClass("tiles", 0), None), 200)
    found = records_of(images, descriptor="oct5")
    if case == "unlisted":
        facts: Any = found.domain
        return Records(found.manifold, replace(facts, typical=(), descriptor="other"), found.parts)
    if case != "ball":
        return found
    around = Ball(found.domain.radius, found.manifold.name)
    return admit(found.stored, domain=around, manifold=found.manifold)


def drawn(base: Records, domain: Domain) -> Iterator[FloatArray]:
    """Yield private means of the same records with another domain, at several n·μ.

    With noise that is always the same.
    """
    fresh = Records(base.manifold, domain, base.parts)
    ready = prepare(fresh, AdaptivePlan(), rng=None)
    for seed, information in enumerate((20.0, 60.0, 200.0, 1000.0, 1000.0)):
        yield draw(ready, GDP(information / 200), noise=Paired(seed))[0].outputs[0]


@cache
def usual(case: str) -> list[FloatArray]:
    """Return private means of the same records with all numbers as they are."""
    return list(drawn(known(case), known(case).domain))


def changes(number: Number, value: float) -> bool:
    """Tell whether a value makes one of the means another: those after it are not drawn."""
    base = known(number.case)
    with trying(number, value, base.domain) as domain:
        both = zip(drawn(base, domain), usual(number.case), strict=True)
        return any(not np.array_equal(*pair) for pair in both)


@pytest.fixture(scope="module", autouse=True)
def nothing_stays_changed() -> Iterator[None]:
    """See in the end that means are, to the last bit, what they were before any trial."""
    before = {case: usual(case) for case in {number.case for number in NUMBERS}}
    yield
    for case, means in before.items():
        assert np.array_equal(list(drawn(known(case), known(case).domain)), means), case


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.title)
def test_a_changed_number_changes_the_mean(number: Number) -> None:
    """No trial is of a name that nothing reads, or that a compiled loop has frozen."""
    base, before = known(number.case), usual(number.case)
    with trying(number, number.value, base.domain) as domain:
        np.testing.assert_allclose(list(drawn(base, domain)), before, rtol=1e-9, atol=1e-9)
    assert any(changes(number, value) for value in (number.trials[0], number.trials[-1]))


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.title)
def test_trials_lie_on_both_sides_and_can_be_put(number: Number) -> None:
    """Every trial makes a constant; but for the counts, some are smaller and some larger."""
    for value in number.trials:
        number.put(value)
    assert min(number.trials) < number.value < max(number.trials)


def test_every_tuned_number_is_tried() -> None:
    """A constant that `tuning` gets is tried too, or named as one that no mean depends on."""
    own = {name for name in vars(tuning) if name.isupper()}
    assert own - NO_TRIAL == {number.constant for number in NUMBERS if not number.of_domain}


@pytest.mark.addons
def test_the_tool_imports_what_there_is() -> None:
    """Its parts are run by hand alone; each finds the names of the pipeline that it uses."""
    assert importlib.import_module("tests.tools.tuning.__main__").arguments


def test_a_change_reaches_the_mean_and_ends() -> None:
    """No module of the mean takes a number by name, which would not see the change."""
    before = tuning.OUTSIDE
    with changed("OUTSIDE", 9.0):
        assert tuning.OUTSIDE == 9.0
    assert before == tuning.OUTSIDE
    for path in Path(tuning.__file__).parent.glob("*.py"):
        assert "covdp.mean.tuning import" not in path.read_text(encoding="utf-8"), path


def test_relative_changes_of_pairs() -> None:
    """Errors a tenth larger are +10 % without any doubt; unpaired noise shows in the error."""
    old = np.random.default_rng(0).gamma(4.0, size=500)
    change, error = relative(1.1 * old, old)
    assert change == pytest.approx(0.1)
    assert error == pytest.approx(0.0, abs=1e-12)
    assert relative(old[::-1], old)[1] == pytest.approx(old.std() * math.sqrt(2 / 500) / 4, rel=0.1)


@pytest.mark.parametrize(
    ("sets", "verdict"),
    [
        ([(-0.10, 0.01), (-0.08, 0.01)], "not best, on all sets: 2 has 9.0 % less"),
        ([(-0.20, 0.01), (0.02, 0.01)], "on average 2 has 9.0 % less"),
        ([(-0.02, 0.004), (-0.02, 0.004)], "on average 2 has 2.0 % less"),
        ([(-0.30, 0.2), (-0.30, 0.2)], "best within noise"),
        ([(0.30, 0.01), (0.30, 0.01)], "best within noise"),
    ],
)
def test_a_verdict_needs_size_sets_and_certainty(
    sets: list[tuple[float, float]], verdict: str
) -> None:
    """Not best is what is 3 % worse than another value on average and worse on every set."""
    named = {f"set {i}": found for i, found in enumerate(sets)}
    spread = math.hypot(*(error for _, error in sets)) / len(sets)
    effect = Effect(2.0, sum(change for change, _ in sets) / len(sets), spread, named)
    assert Tried(NUMBERS[0], (effect,)).verdict == verdict


def test_the_published_error_is_that_of_its_noise() -> None:
    """E‖N(0, σ²I₁₅)‖ with σ = 2r/(n√0.9·μ), by simulation: within 5 standard errors."""
    sizes = np.linalg.norm(np.random.default_rng(1).standard_normal((20_000, 15)), axis=1)
    sigma = 2.0 * 30.0 / (500 * math.sqrt(0.9) * 0.2)
    wanted, spread = sigma * sizes.mean(), sigma * sizes.std() / math.sqrt(20_000)
    assert abs(published(30.0, 500, 0.2, 15) - wanted) < 5.0 * spread
