"""Spread of each record's one payment over all nights: the square root of the prefix sums.

With c_0 = 1 and c_k = c_{k−1}·(2k − 1)/(2k), Σ c_k z^k = (1 − z)^(−1/2), so that the lower
triangular matrix C of entries c_{t−j} has C·C = A, the matrix of prefix sums. Night t releases
w_t = Σ_{j≤t} c_{t−j}·x_j with noise, and S_t = Σ_{j≤t} c_{t−j}·w_j is then the sum of all nights so
far, with noise of covariance σ²‖c‖²_t·Id, ‖c‖²_t = Σ_{k<t} c_k².

**Weights are dyadic.** Those used are whole multiples of 2⁻⁵², the nearest to c_k; each is a double
as it stands. The norm is that of these very weights, exactly, then rounded up to a double: the
guarantee is about what is computed. That C·C is A up to 2⁻⁵² in each product only touches accuracy.

References: Fichtenberger, Henzinger and Upadhyay, "Constant matters: fine-grained error bound on
differentially private continual observation" (2023). Henzinger, Upadhyay and Upadhyay, "Almost
tight error bounds on differentially private continual counting" (2023).
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.parallel import compiled
from covdp.privacy.rounding import round_up
from covdp.recall import repeatable

WEIGHT_UNIT = 2**52
"""Weights are multiples of 1 over this."""
GUARD_BITS = 64
"""Further binary digits of the recurrence, which loses less than one unit of the last a step."""
LIMBS = 8
"""Whole numbers are held as 8 limbs of 16 binary digits, the lowest first, the last signed."""

Limbs = NDArray[np.uint16]
"""Whole numbers below 2¹²⁷ in limbs, (..., `LIMBS`)."""


@lru_cache(maxsize=8)
def integer_weights(horizon: int) -> tuple[int, ...]:
    """Return 2⁵²·c_0, …, 2⁵²·c_{H−1}, rounded to whole numbers.

    Parameters
    ----------
    horizon : int
        Number of nights H.

    Raises
    ------
    ConfigError
        When the horizon is not a whole number of nights, at least 1.
    """
    if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
        raise ConfigError(
            f"a horizon must be a whole number of nights, at least 1, found {horizon!r}; "
            "3650 is ten years"
        )
    weights, c = list[int](), WEIGHT_UNIT << GUARD_BITS
    for k in range(1, int(horizon) + 1):
        weights.append((c + (1 << (GUARD_BITS - 1))) >> GUARD_BITS)
        c = c * (2 * k - 1) // (2 * k)
    return tuple(weights)


def coefficients(horizon: int) -> FloatArray:
    """Return the weights c_0, …, c_{H−1} as they are used, shape (H,); see `integer_weights`.

    Parameters
    ----------
    horizon : int
        Number of nights H.
    """
    return _doubles(horizon).copy()


@lru_cache(maxsize=8)
def _doubles(horizon: int) -> FloatArray:
    return np.array(integer_weights(horizon), dtype=np.float64) / WEIGHT_UNIT


@lru_cache(maxsize=64)
def column_norm(horizon: int) -> float:
    """Return ‖c‖_H of the weights used, rounded up: the move of all H nights with one record.

    Parameters
    ----------
    horizon : int
        Number of nights H.
    """
    return round_up(Fraction(sum(c * c for c in integer_weights(horizon)), WEIGHT_UNIT**2), 2)


def to_limbs(numbers: Sequence[int]) -> Limbs:
    """Return whole numbers in limbs, (m, `LIMBS`).

    Parameters
    ----------
    numbers : sequence of int
        Whole numbers below 2¹²⁷.

    Raises
    ------
    OverflowError
        When one is too large.
    """
    wide = b"".join([number.to_bytes(2 * LIMBS, "little", signed=True) for number in numbers])
    return np.frombuffer(wide, "<u2").reshape(-1, LIMBS)


def words_to_limbs(low: NDArray[np.int64], high: ArrayLike = 0) -> Limbs:
    """Return low + 2⁶⁴·high in limbs, (m, `LIMBS`).

    Parameters
    ----------
    low : array of int64, shape (m,)
        Lowest 64 binary digits, from 0 on.
    high : ArrayLike
        Further digits, (m,) or one for all.
    """
    words = np.empty((len(low), 2), "<i8")
    words[:, 0], words[:, 1] = low, high
    return words.view("<u2")


def from_limbs(digits: Limbs, *, signed: bool = True) -> list[int]:
    """Return the whole numbers of limbs.

    Parameters
    ----------
    digits : array of uint16, shape (m, limbs)
        Limbs of each number, the lowest first.
    signed : bool
        True if the last limb has a sign.
    """
    numbers = digits.view(f"V{2 * digits.shape[1]}")[:, 0].tolist()
    return [int.from_bytes(number, "little", signed=signed) for number in numbers]


@repeatable
def weighted_sums(rows: Limbs) -> list[int]:
    """Return 2⁵²·Σ_j c_{t−j}·x_j of t nights' whole numbers x_1, …, x_t, exactly.

    Of however many nights the horizon has, those are the first t weights. Before, 2¹²⁷ is added to
    each number, by its sign bit, so that none is below 0; after, it is subtracted.

    Parameters
    ----------
    rows : array of uint16, shape (t, m, `LIMBS`)
        Numbers x_1, …, x_t of each night.
    """
    weights, added = _falling_weights(len(rows))
    signs = np.zeros((rows.shape[1], LIMBS), np.uint16)
    signs[:, -1] = 1 << 15
    limbs = rows.reshape(len(rows), -1) ^ signs.ravel()
    totals = _weighted_limbs(limbs, weights)
    return [total - added for total in from_limbs(totals, signed=False)]


@lru_cache(maxsize=8)
def _falling_weights(nights: int) -> tuple[NDArray[np.uint64], int]:
    """Return 2⁵²·c_{t−1}, …, 2⁵²·c_0, and what 2¹²⁷ in each of t nights adds to a weighted sum."""
    enough = 1 << nights.bit_length()  # few tables are made
    weights = integer_weights(enough)[nights - 1 :: -1]
    return np.array(weights, np.uint64), sum(weights) << 127


@compiled
def _weighted_limbs(limbs: Limbs, weights: NDArray[np.uint64]) -> Limbs:
    """Return Σ_j weights_j·x_j of unsigned whole numbers, (m, 2·`LIMBS`), from (t, m·`LIMBS`).

    Weights, up to 2⁵², are halved, so that a sum of products is below 2⁴³·t: 2²⁰ nights fit.
    """
    nights, many = limbs.shape
    lower, upper = np.zeros(many, np.uint64), np.zeros(many, np.uint64)
    for j in range(nights):
        low, high = weights[j] & np.uint64(2**26 - 1), weights[j] >> np.uint64(26)
        for i in range(many):
            lower[i] += low * np.uint64(limbs[j, i])
            upper[i] += high * np.uint64(limbs[j, i])
    out = np.empty((many // LIMBS, 2 * LIMBS), np.uint16)
    for number in range(len(out)):
        carry = np.uint64(0)
        for limb in range(2 * LIMBS):
            i = number * LIMBS + limb
            if limb < LIMBS:
                carry += lower[i]
            if 1 <= limb <= LIMBS:  # 2²⁶ is 2¹⁰ of the next limb
                carry += (upper[i - 1] & np.uint64(63)) << np.uint64(10)
            if 2 <= limb <= LIMBS + 1:
                carry += upper[i - 2] >> np.uint64(6)
            out[number, limb] = carry & np.uint64(2**16 - 1)
            carry >>= np.uint64(16)
    return out


def weighted(rows: Limbs, per: float) -> FloatArray:
    """Return Σ_j c_{t−j}·x_j/`per` of t nights' whole numbers x_j: exact, then rounded twice.

    Parameters
    ----------
    rows : array of uint16, shape (t, m, `LIMBS`)
        Numbers x_1, …, x_t of each night.
    per : float
        Divisor: the numbers are multiples of 1 over it.
    """
    return np.array([total / WEIGHT_UNIT for total in weighted_sums(rows)]) / per


def sum_row(first: int, last: int, horizon: int) -> FloatArray:
    """Return r with S_last − S_{first−1} = r @ (w_1, …, w_last): its noise is σ²‖r‖² each.

    Parameters
    ----------
    first : int
        First night of the sum, from 1.
    last : int
        Last night of the sum.
    horizon : int
        Number of nights H.
    """
    c = _doubles(horizon)
    row = c[:last][::-1].copy()
    row[: first - 1] -= c[: first - 1][::-1]
    return np.asarray(row)
