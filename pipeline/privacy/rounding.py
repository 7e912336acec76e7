"""Rounding to the private side: exact rationals in, the right neighbouring double out.

Every double is a rational number, and so are the closed forms of this package once squared: σ ≥ Δ/μ
reads σ·μ ≥ Δ, and composition adds ε or μ². Decided in rational arithmetic, such an inequality
holds exactly for the doubles that come out, with no tolerance to argue about.

**The privacy curve of Gaussian noise**, in a form that keeps its digits everywhere. Gaussian noise
of standard deviation σ per coordinate on a statistic of L2 sensitivity Δ is decided by one number,
μ = Δ/σ. Along the worst direction the two laws are N(0, 1) and N(μ, 1), and the least δ of (ε,
δ)-DP is (Balle and Wang 2018, Theorem 8)

    δ(ε) = Φ(−a) − e^ε·Φ(−b),    a = ε/μ − μ/2,    b = ε/μ + μ/2.

As printed it loses every digit: the two terms are nearly equal, and e^ε overflows. Because
b² − a² = 2ε, e^ε·φ(b) = φ(a), so with the Mills ratio R(x) = Φ(−x)/φ(x), which SciPy computes to
the last digits as √(π/2)·erfcx(x/√2),

    δ(ε) = φ(a)·(R(a) − R(b)) = φ(a)·∫_a^b (1 − x·R(x)) dx = Φ(−a) − φ(a)·R(b).

The first form serves a > 0, the last a ≤ 0, and the integral (R' = x·R − 1) short intervals.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

import numpy as np
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri_exp

from covdp.errors import PrivacyError


def _near(x: Fraction, power: int) -> float:
    """Return x^(1/power), power 1 or 2, rounded: exact at every v^power, and monotone in x."""
    half = (x.numerator.bit_length() - x.denominator.bit_length()) // 2
    scaled = x / Fraction(4) ** half  # is in [1/4, 8), so no overflow on the way
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

    Parameters
    ----------
    x : Fraction
        Exact number x ≥ 0.
    power : int
        Power of the result that is compared, 1 or 2.
    """
    value = _near(x, power)
    return value if Fraction(value) ** power >= x else math.nextafter(value, math.inf)


def round_down(x: Fraction, power: int = 1) -> float:
    """Return the greatest double v with v^power ≤ x, exactly, for x ≥ 0 and power 1 or 2.

    Parameters
    ----------
    x : Fraction
        Exact number x ≥ 0.
    power : int
        Power of the result that is compared, 1 or 2.
    """
    value = round_up(x, power)
    return value if Fraction(value) ** power == x else math.nextafter(value, 0)


def digits_up(value: float, digits: int) -> str:
    """Return `value` in so many digits, rounded up; all of them from 17 on.

    Parameters
    ----------
    value : float
        Number to write.
    digits : int
        Number of significant digits.
    """
    return _digits(value, digits, ROUND_CEILING)


def digits_down(value: float, digits: int) -> str:
    """Return `value` in so many digits, rounded down; all of them from 17 on.

    Parameters
    ----------
    value : float
        Number to write.
    digits : int
        Number of significant digits.
    """
    return _digits(value, digits, ROUND_FLOOR)


def _digits(value: float, digits: int, rounding: str) -> str:
    if digits >= 17:
        return repr(value)
    exact = Context(prec=digits, rounding=rounding).create_decimal(repr(value))
    return format(float(exact), f".{digits}g")


def in_powers(text: str) -> str:
    """Return a number as people write it: 10⁻⁵ in place of 1e-05.

    Parameters
    ----------
    text : str
        Number as a computer writes it.

    Examples
    --------
    >>> from covdp.privacy.rounding import in_powers
    >>> in_powers("1e-05"), in_powers("9.05e-06"), in_powers("0.5")
    ('10⁻⁵', '9.05·10⁻⁶', '0.5')
    """
    factor, mark, power = text.partition("e")
    if not mark:
        return text
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{factor}·".removeprefix("1·") + f"10{raised}"


def greatest(holds: Callable[[float], bool], guess: float) -> float:
    """Return the greatest double x > 0 with ``holds(x)``, for a condition that fails beyond some x.

    The value returned has itself been tested: rounding inside `holds` cannot push it over.

    Parameters
    ----------
    holds : callable
        Monotone condition on a double.
    guess : float
        Double to start from, of about the right size.
    """
    low = high = guess
    while not holds(low):
        low, high = low / 2, low
        if low == 0:
            raise PrivacyError(
                "no scale satisfies this budget in floating point; choose a budget of a usual size"
            )
    while high == low or holds(high):
        low, high = high, 2 * high
        if math.isinf(high):
            return low
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def least(holds: Callable[[float], bool], guess: float) -> float:
    """Return the least double x > 0 with ``holds(x)``, for a condition that holds beyond some x.

    It is the double after the greatest at which the condition fails.

    Parameters
    ----------
    holds : callable
        Monotone condition on a double.
    guess : float
        Double to start from, of about the right size.
    """
    value = math.nextafter(greatest(lambda x: not holds(x), guess), math.inf)
    if not holds(value):
        raise PrivacyError("no finite value satisfies this condition; choose a larger delta")
    return value


GUARD = 1e-11
"""Relative error that no function here exceeds: 20 times the largest one measured against long
arithmetic, over ε from 1e-8 to 1e3 and δ from 1e-300 to almost 1. Callers add it on the private
side."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _mills(x: float) -> float:
    """Return Φ(−x)/φ(x)."""
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def log_delta(epsilon: float, mu: float) -> float:
    """Return ln δ(ε) of Gaussian noise with Δ/σ = μ > 0, to a relative error of `GUARD` in δ.

    It is −∞ where δ is below the least positive double.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε ≥ 0.
    mu : float
        Ratio μ = Δ/σ > 0 of sensitivity to noise.
    """
    centre, half = epsilon / mu, mu / 2
    a, b = centre - half, centre + half
    if a > 40:  # then δ ≤ e^(−800)·R(a)
        return -math.inf
    log_density = -a * a / 2 - math.log(2 * math.pi) / 2
    if mu < 0.5:
        x = centre + half * _NODES
        slope = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
        return log_density + math.log(half * float(_WEIGHTS @ slope))
    if a > 0:
        return log_density + math.log(_mills(a) - _mills(b))
    return math.log1p(-(float(ndtr(a)) + math.exp(log_density) * _mills(b)))


def pure_of_gdp(mu: float) -> float:
    """Return the greatest ε for which ε-DP implies μ-GDP, rounded down: ln(Φ(μ/2)/Φ(−μ/2)).

    The trade-off curve of ε-DP is the pair of chords from (0, 1) over the point with both errors
    1/(1 + e^ε) to (1, 0). The convex curve of μ-GDP has the same ends, so it stays below the chords
    exactly when it does at that point: Φ(−μ/2) ≤ 1/(1 + e^ε). Three times `GUARD` are taken off, so
    that `gdp_of_pure`, which adds one, comes back to at most μ.

    Parameters
    ----------
    mu : float
        Parameter μ > 0 of Gaussian DP.
    """
    if mu < 1:  # no cancellation: Φ(x) − Φ(−x) = erf(x/√2)
        exact = 2 * math.atanh(math.erf(mu / math.sqrt(8)))
    else:
        exact = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return exact * (1 - 3 * GUARD)


def gdp_of_pure(epsilon: float) -> float:
    """Return the least μ for which ε-DP implies μ-GDP, rounded up: the inverse of `pure_of_gdp`.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε > 0.
    """
    if epsilon < 1:
        exact = math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        exact = -2 * float(ndtri_exp(-float(np.logaddexp(0, epsilon))))
    return exact * (1 + GUARD)


def two_digits(value: float) -> str:
    """Return a number rounded up to two digits.

    Parameters
    ----------
    value : float
        Number, above 0.
    """
    step = 10.0 ** (math.floor(math.log10(max(value, 1e-9))) - 1)
    return f"{math.ceil(value / step - 1e-9) * step:,.10g}"
