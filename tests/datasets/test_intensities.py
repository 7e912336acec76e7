"""Intensities: the stated rule, value by value, and what may not be guessed."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covdp.datasets.pictures import Scaling, Sigmoid, Window, to_uint8
from covdp.errors import ImageError

INTEGERS = st.sampled_from(["u1", "i1", "<u2", ">u2", "<i2", ">i2"])


def shown(
    stored: object, window: Window = None, bits: int | None = None, **more: float | bool
) -> list[int]:
    """Return some values as a list of 0..255."""
    scale = Scaling(window, **more)  # type: ignore[arg-type]
    return to_uint8(np.asarray(stored), scale, bits=bits, where="a.dcm").tolist()


@settings(max_examples=60)
@given(INTEGERS, st.integers(-400, 400), st.integers(1, 900), st.booleans(), st.integers(-3, 3))
def test_every_value_is_its_exact_share_of_the_window(
    kind: str, low: int, width: int, inverted: bool, intercept: int
) -> None:
    """In exact fractions: |y − 255·p| ≤ 1/2, or of the inverse, for slope 1/2 and any type."""
    info = np.iinfo(kind)
    stored = np.linspace(info.min, info.max, 97).astype(kind)
    window = (float(low), float(low + width))
    found = shown(stored, window, slope=0.5, intercept=float(intercept), inverted=inverted)
    for value, got in zip(stored.tolist(), found, strict=True):
        share = (Fraction(value, 2) + intercept - low) / width
        wanted = 255 * min(max(share, Fraction(0)), Fraction(1))
        wanted = 255 - wanted if inverted else wanted
        assert abs(got - wanted) <= Fraction(1, 2) + Fraction(1, 10**9)


def test_halves_go_to_even() -> None:
    """0.5, 1.5, 2.5, … become 0, 2, 2, …, inverted as well."""
    assert shown([0, 1, 2, 3, 4, 5], (0.0, 510.0)) == [0, 0, 1, 2, 2, 2]
    assert shown([1, 3, 5], (0.0, 510.0), inverted=True) == [254, 254, 252]


def test_table_and_arithmetic_agree() -> None:
    """Integers of 16 bits are looked up, of 32 bits computed: the same to the last bit."""
    stored = np.arange(-32768, 32768, dtype=np.int16)
    for window in ((-160.3, 240.9), Sigmoid(40.0, 333.3)):
        found = shown(stored, window, slope=0.37, intercept=-17.1)
        assert found == shown(stored.astype(np.int32), window, slope=0.37, intercept=-17.1)


def test_eight_bits_stay_as_they_are() -> None:
    """Unsigned values of 8 bits, stored in 8 or 16, are kept; inverted, they are 255 less them."""
    stored = np.arange(256, dtype=np.uint8)
    assert shown(stored) == list(range(256))
    assert shown(stored.astype(np.uint16), bits=8) == list(range(256))
    assert shown(stored, inverted=True) == list(range(255, -1, -1))


def test_an_image_by_its_own_percentiles() -> None:
    """Under "image" the 1st and 99th percentile are 0 and 255, whatever the units are."""
    stored = np.arange(101, dtype=np.int16).reshape(1, 101)
    (found,) = shown(stored, "image")
    assert found == shown(stored, (1.0, 99.0))[0]
    assert shown(stored * 7 - 300, "image", slope=0.25)[0] == found
    assert shown(np.where(stored < 100, 0, 9), "image") == [[0] * 100 + [255]]


@pytest.mark.parametrize("kind", ["u1", "i2", "i4", "f4"])
def test_a_constant_image_is_black(kind: str) -> None:
    """Under "image" nothing of a constant image lies above its percentiles."""
    assert shown(np.full(9, 77, kind), "image") == [0] * 9


def test_sigmoid_of_the_standard() -> None:
    """A half at the center, 255/(1 + e⁻²) half a width above, the rest below it."""
    assert shown([40, 90, -10], Sigmoid(40.0, 100.0)) == [128, 225, 30]
    assert shown([-32768, 32767], Sigmoid(0.0, 1e-3)) == [0, 255]


@pytest.mark.parametrize(
    ("stored", "options", "reason"),
    [
        (np.zeros(2, "u2"), {}, r"unsigned values of 16 bits need a window, found none; give wind"),
        (np.zeros(2, "u2"), {}, r'or "image" in the card, or leave'),
        (np.zeros(2, "i1"), {}, "signed values of 8 bits need a window"),
        (np.zeros(2, "u2"), {"bits": 12}, "unsigned values of 12 bits need"),
        (np.zeros(2, "u1"), {"slope": 2.0}, "of 8 bits that the file rescales need"),
        (np.zeros(2, "f4"), {}, "floating values of 32 bits need"),
        (np.array([1.0, np.nan]), {"window": "image"}, "must be finite, found NaN"),
        (np.array([1.0, np.inf]), {"window": (0.0, 1.0)}, "must be finite, found NaN or infinity"),
        (np.zeros(2, "i2"), {"window": "image", "intercept": np.nan}, "must be finite"),
        (np.zeros(2, "u2"), {"window": (0.0, 1.0), "slope": 1e305}, "must be finite"),
        (np.zeros(2, "u2"), {"window": (2.0, 1.0)}, r"low to high, found \(2.0, 1.0\)"),
        (np.zeros(2, "u2"), {"window": (-1e308, 1e308)}, "must have finite ends"),
        (np.zeros(2, "u2"), {"window": Sigmoid(1.0, 0.0)}, "must have finite ends"),
    ],
)
def test_what_may_not_be_guessed_is_one_line(
    stored: np.ndarray, options: dict[str, object], reason: str
) -> None:
    """Each refusal names the file, the rule, what was found and the way out."""
    with pytest.raises(ImageError, match=f"^a.dcm: .*{reason}") as caught:
        shown(stored, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)
