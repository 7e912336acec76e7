"""What is computed again of the same arguments is recalled, and of no others."""

from typing import NamedTuple

import numpy as np
import pytest

from covdp.addons.audit.calls import Calls
from covdp.arrays import FloatArray
from covdp.recall import repeatable

COMPUTED: list[str] = []
"""What was computed, in order."""


class Doubled(NamedTuple):
    """Numbers, and twice them."""

    once: FloatArray
    twice: FloatArray


@repeatable
def doubled(numbers: FloatArray, *, by: float = 2.0) -> Doubled:
    """Return numbers and a multiple of them."""
    COMPUTED.append("doubled")
    return Doubled(numbers + 0.0, by * numbers)


@repeatable
def total(numbers: FloatArray) -> float:
    """Return the sum of twice the numbers."""
    COMPUTED.append("total")
    return float(doubled(numbers).twice.sum())


@pytest.fixture(autouse=True)
def nothing_computed() -> None:
    """Begin with nothing computed."""
    COMPUTED.clear()


def test_equal_arguments_are_not_computed_again() -> None:
    """In order, keywords included; what a repeatable function calls is part of it."""
    calls, numbers = Calls(), np.arange(3.0)
    with calls:
        first = doubled(numbers), total(numbers), doubled(numbers, by=3.0)
    assert COMPUTED == ["doubled", "total", "doubled", "doubled"]
    for _ in range(2):
        with calls:
            again = doubled(numbers.copy()), total(numbers.copy()), doubled(numbers, by=3.0)
        assert [one is other for one, other in zip(first, again, strict=True)] == [True] * 3
    assert len(COMPUTED) == 4


def noted() -> tuple[Calls, FloatArray]:
    """Return calls of `doubled` and `total`, in this order, and what both were called with."""
    calls, numbers = Calls(), np.arange(3.0)
    with calls:
        doubled(numbers)
        total(numbers)
    COMPUTED.clear()
    return calls, numbers


@pytest.mark.parametrize(
    "other",
    [
        np.array([0.0, 1.0, np.nextafter(2.0, 3.0)]),
        np.array([-0.0, 1.0, 2.0]),
        np.arange(3),
        np.arange(4.0),
    ],
    ids=["the last bit", "a sign", "a type", "a shape"],
)
def test_other_arguments_are_computed(other: FloatArray) -> None:
    """However little they differ, and calls after them are recalled as before."""
    calls, numbers = noted()
    with calls:
        found = doubled(other)
        assert total(numbers) == 6.0
    assert COMPUTED == ["doubled"]
    assert np.array_equal(found.twice, 2.0 * other)


def test_calls_in_another_order_are_computed() -> None:
    """A function that was not called next is not looked for, and no call is lost by it."""
    calls, numbers = noted()
    with calls:
        assert total(numbers) == 6.0
        assert np.array_equal(doubled(numbers).twice, [0.0, 2.0, 4.0])
        assert total(numbers) == 6.0
        assert total(numbers) == 6.0
    assert COMPUTED == ["total", "doubled", "total", "doubled"]


def test_nobody_writes_into_what_may_be_recalled() -> None:
    """Arrays that were given are read only, inside a block and outside of one."""
    numbers = np.arange(3.0)
    with Calls():
        found = doubled(numbers)
    for given in (found, doubled(numbers)):
        with pytest.raises(ValueError, match="read-only"):
            given.twice[0] = 1.0
    assert COMPUTED == ["doubled", "doubled"]
