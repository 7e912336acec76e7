"""Windows of a stream against the nights before them: seldom told apart by chance, else often.

All draws are seeded. Of 40 tests that reject 1 of 20 more than 8 do with probability 2e-4.
"""

from itertools import pairwise

import numpy as np
import pytest

from covdp.addons.nights.stream import (
    Night,
    StreamMechanism,
    StreamPlan,
    empty_state,
    release_night,
    split_epochs,
)
from covdp.datasets import open_dataset
from covdp.descriptors import describe, domain
from covdp.geometry import MANIFOLDS
from covdp.inference import WindowTest, holm, window_test
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP

SPACE = MANIFOLDS["spd-log-euclidean"](k=5)
STREAM = StreamMechanism(StreamPlan(GDP(2.0), 365), domain("oct5", height=28, width=28), SPACE)
STREAMS, NIGHTS, UNITS = 40, 18, 30


@pytest.fixture(scope="module")
def records() -> list[np.ndarray]:
    """Return the records of tissue and of cells."""
    parts = [open_dataset("tiles").chunks(label=label) for label in (0, 2)]
    return [np.concatenate([describe(chunk) for chunk in chunks]) for chunks in parts]


def run(batches: list[np.ndarray], rng: np.random.Generator) -> list[Night]:
    """Return the nights that some units give."""
    nights, sums = list[Night](), empty_state(SPACE.dim)
    for units in batches:
        night, sums = release_night(STREAM, nights, sums, units, noise=FloatNoise(rng))
        nights.append(night)
    return nights


def differing(nights: list[Night], last: int) -> WindowTest:
    """Return the test of the last nights."""
    return window_test(STREAM, nights, split_epochs(STREAM, nights), last)


def test_one_population_is_seldom_told_apart_and_two_are(records: list[np.ndarray]) -> None:
    """Drawn each by itself from real tiles: at 5 % at most 8 of 40 streams, in each window.

    Other images in the last two nights are found in each of 5 streams.
    """
    tissue, cells = records
    found: dict[int, list[float]] = {1: [], 7: []}
    for place in range(STREAMS):
        rng = np.random.default_rng([20260322, place])
        nights = run(list(tissue[rng.integers(0, len(tissue), (NIGHTS, UNITS))]), rng)
        for last, p_values in found.items():
            seen = differing(nights, last)
            assert seen.p_value is not None
            assert (seen.n, seen.before) == (UNITS * last, UNITS * (NIGHTS - last + 1 - seen.since))
            p_values.append(seen.p_value)
    for p_values in found.values():
        assert sum(p <= 0.05 for p in p_values) <= 8
        assert min(p_values) < 0.2  # none of 40 with probability 1e-4
    for place in range(5):
        rng = np.random.default_rng(place)
        batches = list(tissue[rng.integers(0, len(tissue), (NIGHTS, UNITS))])
        nights = run([*batches[:-2], *cells[rng.integers(0, len(cells), (2, UNITS))]], rng)
        other = differing(nights, 2)
        assert other.p_value is not None
        assert other.p_value < 0.01


def test_what_cannot_be_tested_says_why(records: list[np.ndarray]) -> None:
    """Before the opening and after it, where clipping was another, and where nobody came."""
    batches = [records[0][:100], records[0][100:200], records[0][200:230], records[0][:0]]
    nights = run(batches, np.random.default_rng(0))
    first = split_epochs(STREAM, nights).segments[0].epoch.first
    assert differing(nights[: first - 2], 1).reason == "its records wait for the next opening"
    assert differing(nights[: first - 1], 1).reason == "no night since it opened"
    assert f"on night {first}" in differing(nights, len(nights)).reason
    assert differing(nights, 1).reason == "nobody came in these nights, or before"


def test_p_values_of_several_tests_together() -> None:
    """Holm's: the least counts as often as there are tests, the next once less, never below it."""
    assert holm([0.04, 0.01, 0.03]) == pytest.approx((0.06, 0.03, 0.06))
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([]) == ()
    rng = np.random.default_rng(0)
    adjusted = np.sort(holm(rng.uniform(size=50).tolist()))
    assert all(low <= high for low, high in pairwise(adjusted))
