"""Sums that are the same to the last bit for any order, any chunks and any number of workers.

Floating-point addition is not associative, that of integers is. So each coordinate of a record's
clipped vector v is rounded to the lattice 2⁻⁴⁰·Z, and the integers v·2⁴⁰ are added: in 64 bits in
blocks of at most 2²⁰ records, the blocks in Python's integers, which have no end. No block
overflows: a coordinate is at most 1 + 1e-9 in size, so 2²⁰ of them sum up to less than 2⁶¹. The
mean is the quotient of two whole numbers, rounded once. What all this does to the sensitivity is
said in ``vector_mean.py``.

Sums of the products v·vᵀ, of the very same lattice vectors, are as exact. A product has twice the
digits of a coordinate, so each coordinate is split, v·2⁴⁰ = 2²⁰·upper + lower, both at most 2²⁰ in
size, and one matrix product in doubles adds the products of the halves: whole numbers of at most
2⁴⁰, so that sums of 2¹² of them stay below 2⁵³ and no order of adding them rounds. These sums are
added in 64 bits in the same blocks, where they stay below 2⁶¹, two of them below 2⁶².

Overshoots, by how far a record lies beyond its clip, are rounded down to the same lattice and added
alike. What they are, and why a record with one has a shorter vector: ``second_moment.py``, next on
the path.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from operator import add
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.threads import compiled

UNIT = 2.0**-53
"""u, the unit roundoff of double precision."""
PER_UNIT = 2**40
"""Points of the lattice in a unit."""
BLOCK = 2**20
"""Most records that are summed in 64 bits."""
HALF = 20
"""Binary digits of the lower half of a coordinate."""
PRODUCTS = 2**12
"""Most records whose products are summed in doubles."""
NORM = 3.0 / 8.0
"""Largest squared norm of a vector, its products and its overshoots together."""


Sized: TypeAlias = tuple[FloatArray, FloatArray]
"""Records in some axes, (m, d), and their ‖z − centre‖, (m,)."""


@compiled
def sizes(seen: FloatArray, centre: FloatArray, lines: int) -> FloatArray:
    """Return ‖z − centre‖ of each record, (n,); infinite where it is not a number."""
    out = np.empty(len(seen))
    rest, middle = seen[:, lines:], centre[lines:]  # loops from 0 on need no check of their start
    for n in range(len(seen)):
        total = 0.0
        for i in range(len(middle)):
            total += (rest[n, i] - middle[i]) ** 2
        out[n] = math.sqrt(total) if total >= 0.0 else np.inf
    return out


@compiled
def clipped_sum(
    seen: FloatArray,
    size: FloatArray,
    centre: FloatArray,
    units: FloatArray,
    lines: int,
    low: float,
    high: float,
    weight: float,
    radius: float,
    reach: FloatArray | None = None,
    halves: FloatArray | None = None,
    beyond: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Return Σ 2⁴⁰·(clip(x) − (low + high)/2, clip(z − centre))/units, (d,), each term rounded.

    No number counts as 0. At most `BLOCK` records. Where `halves`, (n, 2d), are given, the upper
    halves of all terms are written into them, then the lower ones. With `reach` vectors of records
    that overshoot are shortened, see `_shortened`; 2⁴⁰ times the sums of the overshoots are added
    to `beyond`, (1 + 2·lines,), where it is given.
    """
    out = np.zeros(seen.shape[1], np.int64)
    middle, per = 0.5 * (low + high), PER_UNIT / units
    rest, begin, share, total = seen[:, lines:], centre[lines:], per[lines:], out[lines:]
    for n in range(len(seen)):
        place = _clipped(seen[n, 0], low, high) - middle if lines else 0.0
        outside, scale = size[n], 0.0
        if size[n] < np.inf:
            room = math.sqrt(max(radius**2 - (weight * place) ** 2, 0.0))
            outside = size[n] - room
            scale = 1.0 if outside <= 0.0 else room / size[n]
        if reach is not None:
            square = (place / units[0]) ** 2 if lines else 0.0
            if scale > 0.0:
                for i in range(len(total)):
                    square += (scale * (rest[n, i] - begin[i]) / units[lines + i]) ** 2
            short = _shortened(seen[n, 0], outside, square, lines, low, high, reach, beyond)
            place *= short
            scale *= short
        if lines:
            along = np.int64(np.rint(place * per[0]))
            out[0] += along
            _write(halves, n, 0, along)
        for i in range(len(total)):
            term = np.int64(0)
            if size[n] < np.inf:
                term = np.int64(np.rint(scale * (rest[n, i] - begin[i]) * share[i]))
            total[i] += term
            _write(halves, n, lines + i, term)
    return out


@compiled
def _clipped(x: float, low: float, high: float) -> float:
    """Return x in the interval; no number is its middle."""
    if x > high:
        return high
    if x < low:
        return low
    return x if x <= high else 0.5 * (low + high)


@compiled
def _write(halves: FloatArray | None, n: int, i: int, term: np.int64) -> None:
    """Write both halves of a term where they are asked for."""
    if halves is not None:
        upper = (term + (1 << (HALF - 1))) >> HALF
        halves[n, i], halves[n, halves.shape[1] // 2 + i] = upper, term - (upper << HALF)


@compiled
def _shortened(
    x: float,
    outside: float,
    square: float,
    lines: int,
    low: float,
    high: float,
    reach: FloatArray,
    beyond: NDArray[np.int64] | None,
) -> float:
    """Return what the vector v of a record is multiplied with; add its overshoots to `beyond`.

    Its overshoots h are √(3/8) times the lengths by which it lies outside of the ball, below and
    above the interval, each over its `reach`, and at most √(3/8) together. v keeps its direction,
    and of its square β = ‖v‖² as much as leaves β + 2β² + ‖h‖² ≤ 3/8: for h = 0 that is ¼.
    """
    radial = min(max(outside, 0.0) / reach[0], 1.0)
    below = min((low - x) / reach[1], 1.0) if lines and x < low else 0.0
    above = min((x - high) / reach[2], 1.0) if lines and x > high else 0.0
    whole = radial**2 + below**2 + above**2
    if whole == 0.0:
        return 1.0
    share = math.sqrt(NORM) / math.sqrt(max(whole, 1.0))
    if beyond is not None:
        beyond[0] += np.int64(np.floor(share * radial * PER_UNIT))
        if lines:
            beyond[1] += np.int64(np.floor(share * below * PER_UNIT))
            beyond[2] += np.int64(np.floor(share * above * PER_UNIT))
    left = max(NORM - NORM * min(whole, 1.0), 0.0)
    most = 2.0 * left / (1.0 + math.sqrt(1.0 + 8.0 * left))
    return 1.0 if square <= most else math.sqrt(most / square)


class Clipping(NamedTuple):
    """What maps a record to its vector: (clip(x) − (low + high)/2, clip(z − centre))/units.

    With t = weight·(clip(x) − (low + high)/2), z is clipped to ‖z − centre‖² ≤ radius² − t².

    Attributes
    ----------
    centre, units : array, shape (d,)
        Middle of the ball; what one unit of the vector is worth in each coordinate.
    lines : {0, 1}
        Number of leading coordinates that are x.
    low, high, weight : float
        Where x is clipped to, and what it counts off the line; any numbers without a line.
    radius : float
        Of the ball that all is clipped to.
    reach : array, shape (3,), or None
        Lengths outside of the ball, below and above the interval, that overshoots are measured by;
        None where none are.
    """

    centre: FloatArray
    units: FloatArray
    lines: int
    low: float
    high: float
    weight: float
    radius: float
    reach: FloatArray | None = None

    @property
    def overshoots(self) -> int:
        """How many overshoots a record has: of the ball, and of both ends of a line."""
        return 0 if self.reach is None else 1 + 2 * self.lines


def clipped_total(parts: Iterable[Sized], to: Clipping) -> list[int]:
    """Return 2⁴⁰ times the sum of the vectors of records that come in parts, d whole numbers."""
    total = [0] * len(to.units)
    for seen, size in parts:
        for start in range(0, len(seen), BLOCK):
            block = slice(start, start + BLOCK)
            found = clipped_sum(seen[block], size[block], *to).tolist()
            total = list(map(add, total, found))
    return total


def clipped_totals(parts: Iterable[Sized], to: Clipping) -> tuple[list[int], list[int]]:
    """Return the same, then 2⁴⁰ times the sums of the overshoots and 2⁸⁰ times that of v·vᵀ.

    The latter, d(d + 1)/2 whole numbers, are the diagonal and the strict upper triangle, by rows.
    """
    d, halves = len(to.units), np.empty((0, 0))
    first, over, second = [0] * d, [0] * to.overshoots, [0] * (d * (d + 1) // 2)
    for seen, size in parts:
        for start in range(0, len(seen), BLOCK):
            block = slice(start, start + BLOCK)
            if len(halves) < min(len(seen), PRODUCTS):  # of a few records there are few
                halves = np.empty((min(len(seen), PRODUCTS), 2 * d))
            total, beyond, products = _block_sums(seen[block], size[block], to, halves)
            first = list(map(add, first, total.tolist()))
            over = list(map(add, over, beyond.tolist()))
            second = list(map(add, second, _whole(products)))
    return first, over + second


def _block_sums(
    seen: FloatArray, size: FloatArray, to: Clipping, halves: FloatArray
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return `clipped_sum` of at most `BLOCK` records, their overshoots, and products of halves."""
    total, products = np.zeros(len(to.units), np.int64), np.zeros((halves.shape[1],) * 2, np.int64)
    beyond = np.zeros(to.overshoots, np.int64)
    for start in range(0, len(seen), PRODUCTS):
        few = slice(start, start + PRODUCTS)
        own = halves[: len(seen[few])]
        total += clipped_sum(seen[few], size[few], *to, own, beyond)
        products += (own.T @ own).astype(np.int64)
    return total, beyond, products


def _whole(products: NDArray[np.int64]) -> list[int]:
    """Return Σ v·vᵀ of the products of halves, (2d, 2d), exactly.

    What is left of the middle when its multiples of 2²⁰ have gone up is below 2²⁰: nothing leaves
    64 bits.
    """
    d = len(products) // 2
    middle = products[:d, d:] + products[d:, :d]
    upper = products[:d, :d] + (middle >> HALF)
    lower = products[d:, d:] + ((middle & ((1 << HALF) - 1)) << HALF)
    places = (block.ravel()[_pairs(d)].tolist() for block in (upper, lower))
    return [(high << 2 * HALF) + low for high, low in zip(*places, strict=True)]


@lru_cache(maxsize=64)
def _pairs(d: int) -> NDArray[np.intp]:
    """Return the places, row by row, of the diagonal, then of the strict upper triangle."""
    (rows, columns), (above, beside) = np.diag_indices(d), np.triu_indices(d, 1)
    return np.append(rows, above) * d + np.append(columns, beside)


def clipped_mean(parts: Iterable[Sized], n: int, to: Clipping) -> FloatArray:
    """Return the mean vector of n records that come in parts, (d,); see the top of this file."""
    total = clipped_total(parts, to)
    return np.array([one / (n * PER_UNIT) for one in total])  # of whole numbers: rounded once
