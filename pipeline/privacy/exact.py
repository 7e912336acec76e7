"""Rounding to the private side: exact rationals in, the right neighbouring double out.

Every double is a rational number, and so are the closed forms of this package once squared: σ ≥ Δ/μ
reads σ·μ ≥ Δ, and composition adds ε or μ². Decided in rational arithmetic, such an inequality
holds exactly for the doubles that come out, with no tolerance to argue about.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

from pipeline.errors import PrivacyError


def _near(x: Fraction, power: int) -> float:
    """Return x^(1/power), power 1 or 2, rounded: exact at every v^power, and monotone in x."""
    half = (x.numerator.bit_length() - x.denominator.bit_length()) // 2
    scaled = x / Fraction(4) ** half  # lies in [1/4, 8), so no overflow on the way
    try:
        return math.ldexp(math.sqrt(scaled), half) if power == 2 else float(x)
    except OverflowError:
        raise PrivacyError(
            "a scale or budget must fit a floating point number, found one above 1.8e308; "
            "choose a smaller sensitivity or a larger budget"
        ) from None


def round_up(x: Fraction, power: int = 1) -> float:
    """Return the least double v ≥ 0 with v^power ≥ x, exactly, for x ≥ 0 and power 1 or 2.

    With u < v neighbouring doubles and u^power < x ≤ v^power, `_near` gives u or v.
    """
    value = _near(x, power)
    return value if Fraction(value) ** power >= x else math.nextafter(value, math.inf)


def round_down(x: Fraction, power: int = 1) -> float:
    """Return the greatest double v with v^power ≤ x, exactly, for x ≥ 0 and power 1 or 2."""
    value = round_up(x, power)
    return value if Fraction(value) ** power == x else math.nextafter(value, 0)


def digits_up(value: float, digits: int) -> str:
    """Return `value` in so many digits, rounded up; all of them from 17 on."""
    return _digits(value, digits, ROUND_CEILING)


def digits_down(value: float, digits: int) -> str:
    """Return `value` in so many digits, rounded down; all of them from 17 on."""
    return _digits(value, digits, ROUND_FLOOR)


def _digits(value: float, digits: int, rounding: str) -> str:
    if digits >= 17:
        return repr(value)
    exact = Context(prec=digits, rounding=rounding).create_decimal(repr(value))
    return format(float(exact), f".{digits}g")


def greatest(holds: Callable[[float], bool], guess: float) -> float:
    """Return the greatest double x > 0 with ``holds(x)``, for a condition that fails beyond some x.

    The value returned has itself been tested: rounding inside `holds` cannot push it over.
    """
    low = high = guess
    while not holds(low):
        low, high = low / 2, low
        if low == 0:
            raise PrivacyError(
                "no scale satisfies this budget in floating point; choose a larger budget"
            )
    while high == low or holds(high):
        low, high = high, 2 * high
        if math.isinf(high):
            return low
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def least(holds: Callable[[float], bool], guess: float) -> float:
    """Return the least double x > 0 with ``holds(x)``, for a condition that holds beyond some x."""
    high = guess
    while not holds(high):
        high *= 2
        if math.isinf(high):
            raise PrivacyError("no finite value satisfies this condition; choose a larger delta")
    low = high / 2
    while low > 0 and holds(low):
        low, high = low / 2, low
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
