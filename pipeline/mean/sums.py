"""Sums of clipped records: the same to the last bit for any order, any chunks and any workers.

Records are read in parts, anew in every pass, so that they need not fit in memory.

**Exact sums.** Floating-point addition is not associative, that of integers is. So each coordinate
of a record's clipped vector v is rounded to the lattice 2⁻⁴⁰·Z, and the integers v·2⁴⁰ are added:
in 64 bits in blocks of at most 2²⁰ records, the blocks in Python's integers, which have no end. No
block overflows: a coordinate is at most 1 + 1e-9 in size, so 2²⁰ of them sum up to less than 2⁶¹.
The mean is the quotient of two whole numbers, rounded once. What all this does to the sensitivity
is stated in ``sensitivity.py``.

Sums of the products v·vᵀ, of the very same lattice vectors, are as exact. A product has twice the
digits of a coordinate, so each coordinate is split, v·2⁴⁰ = 2²⁰·upper + lower, of at most 2²⁰ and
2¹⁹ in size, and the products of the halves are added in doubles: whole numbers of at most 2⁴⁰, the
two mixed ones of at most 2³⁹ each, so that sums of 2¹² stay below 2⁵³ and no order rounds. They are
carried into digits (`of_digits`), the last of which holds them for 2⁶⁰ records. Their quotients by
n are taken in pairs of doubles and then rounded: to less than u·(1 + 2⁻⁴⁰) of themselves.

Overshoots, by how far a record is beyond its clip, are rounded down to the same lattice and added
in the same way. What they are, and why a record with one has a shorter vector, comes next.

**The second moment costs nothing**, and overshoots neither: the same Δ, the same noise. Each
record's vector v, ‖v‖ ≤ ½ (``clip.py``), is released as the pair (v, √2·v·vᵀ), symmetric
matrices in the isometric coordinates of `vecd`. **Two pairs are at most 1 apart**, as two vectors
alone may be. For ‖v‖, ‖w‖ ≤ ½ put x = 2v, y = 2w, a = ‖x‖², b = ‖y‖², s = a + b ≤ 2 and
P = ‖x − y‖² ≤ 2s. As v·vᵀ − w·wᵀ = ⅛·((x − y)(x + y)ᵀ + (x + y)(x − y)ᵀ), with
‖x + y‖² = 2s − P and ⟨x − y, x + y⟩ = a − b,

    ‖v − w‖² + 2‖v·vᵀ − w·wᵀ‖² = P/4 + (P·(2s − P) + (a − b)²)/16.

In P that is a parabola, largest at P = s + 2: at most ((s + 2)² + (a − b)²)/16. For a, b ≤ 1 this
grows with either of them, and is 1 at a = b = 1. It is reached by w = −v, where nothing of v·vᵀ
moves. A larger factor λ would make a diameter of (λ/2 + 1/λ)/√2. Related: Kalinin, Upadhyay and
Lampert, "Continual release moment estimation with differential privacy" (2025).

**Overshoots ride along, too.** Clipping moves a mean by what it cuts off, and rare records that are
very unlike the others make most of it. Whatever a record is, it is the sum of four parts, of which
the first is its vector and of the others overshoots h ≥ 0 say how long they are, √(3/8) times a
length over its reach:

    where the ball ends, or 0 of a record cut off towards an odd picture (`COSINE`, `HALF`)
    the way along the contrast axis: below or above, as one of two reaches holds
    the way towards each of some public odd pictures, of records that are cut off towards it
    the length of what is left

Of the vector v as much is left as makes

    β + 2β² + ‖h‖² ≤ 3/8,  β = ‖v‖²:

all of it where nothing is cut off. **Two such triples are at most 1 apart.** With a = 4β, b the
same of the other, P ≤ (√a + √b)², where the parabola still grows, so with p = √(ab) ≤ 1 the pairs
are at most (√a + √b)²/4 + (a − b)²/8 = (a + b)/4 + p/2 + (a² + b²)/8 − p²/4 apart, squared; and as
no overshoot is negative, ‖h − h'‖² ≤ ‖h‖² + ‖h'‖² ≤ 3/4 − (a + b)/4 − (a² + b²)/8. The sum of both
is at most 3/4 + p/2 − p²/4 ≤ 1. With overshoots of √(3/8)·t together 1 − t² of v is left at least,
as y = 1 − t² has y²/4 + y⁴/8 ≤ 3y/8. One whose overshoots are longer than √(3/8) together is
counted with less.

**Numerics.** The numbers that are added are on a lattice. Rounding to it, to the nearest for v and
down for h, moves v by at most δ = √d·2⁻⁴¹, its pair by √3·δ, as the products change by at most
√2·2‖v‖·δ ≤ √2·δ, and h by less than √6·2⁻⁴⁰: two triples by less than √d·2⁻³⁹ + 2⁻³⁷, which is
the margin of `vector_diameter`. Roundings of doubles move a pair √3 times as far as its vector, and
that of β, of absolute size, moves ‖h‖² + β by a few u: `vector_diameter` has room. Products
of lattice vectors are exact, and weighed with λ = √2·(1 − 2⁻³⁰) at most, which only shortens. The
mean of the triples is a quotient of whole numbers, of norm at most √(3/8), rounded once: by less
than 0.62·u in all, where `mean_sensitivity` has u.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.errors import DomainError
from covdp.geometry import Point
from covdp.geometry.linalg import unvecd
from covdp.parallel import compiled

T = TypeVar("T")
U = TypeVar("U")


@runtime_checkable
class Batches(Protocol):
    """Points of one class in chunks; every iteration gives the same ones in the same order."""

    @property
    def n(self) -> int:
        """Number of points in all (public)."""

    def __iter__(self) -> Iterator[Point]:
        """Yield arrays of shape (m, *point_shape)."""


@dataclass(frozen=True, eq=False, repr=False)
class InMemory(Generic[T]):
    """Parts of points in memory: all of them in one part.

    Attributes
    ----------
    n : int
        Number of points.
    whole : object
        Array of all points, or the results of a function of it.
    """

    n: int
    whole: T

    def map(self, of: Callable[[T], U]) -> "InMemory[U]":
        """Return the results of a function of the part, computed now and cached.

        Parameters
        ----------
        of : callable
            Function of a part.

        Returns
        -------
        InMemory
            Results, in memory.
        """
        return InMemory(self.n, of(self.whole))

    def __iter__(self) -> Iterator[T]:
        """Yield the one part."""
        yield self.whole


@dataclass(frozen=True, eq=False, repr=False)
class Reiterable(Generic[T]):
    """Parts of points in chunks, one at a time in memory.

    Attributes
    ----------
    chunks : Batches
        Points.
    of : callable
        Function of a chunk that makes the part.
    """

    chunks: Batches
    of: Callable[[Point], T]
    whole = None

    @property
    def n(self) -> int:
        """Number of points, as announced."""
        return self.chunks.n

    def map(self, of: Callable[[T], U]) -> "Reiterable[U]":
        """Return the results of a function of each part, computed again in every pass.

        Parameters
        ----------
        of : callable
            Function of a part.

        Returns
        -------
        Reiterable
            Results, one part at a time.
        """
        return Reiterable(self.chunks, lambda chunk: of(self.of(chunk)))

    def __iter__(self) -> Iterator[T]:
        """Yield a part of each chunk that is not empty.

        Raises
        ------
        DomainError
            When a pass gives another number of points than was announced: Δ rests on n.
        """
        count = 0
        for chunk in self.chunks:
            count += len(chunk)
            if len(chunk) and count <= self.n:
                yield self.of(chunk)
        if count != self.n:
            raise DomainError(
                f"a pass over the records must give all {self.n} of them, found {count}; "
                "chunks must be the same each time they are iterated over, so no generator will do"
            )


Parts: TypeAlias = InMemory[T] | Reiterable[T]
"""Points in parts: ``n``, ``whole`` (all of them, or None), ``map`` and iteration."""


def parts_of(points: Point | Batches) -> Parts[Point]:
    """Return points in parts: an array is one, chunks are read again in every pass.

    Parameters
    ----------
    points : array, shape (n, *point_shape), or Batches
        Points.

    Returns
    -------
    Parts
        Points, one part or several.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp.mean.sums import parts_of
    >>> [part.shape for part in parts_of(np.zeros((4, 2, 2)))]
    [(4, 2, 2)]
    """
    if isinstance(points, InMemory | Reiterable):
        return points
    if not isinstance(points, np.ndarray) and isinstance(points, Batches):
        return Reiterable(points, np.asarray)
    points = np.asarray(points)
    return InMemory(len(points) if points.ndim else 0, points)


def in_memory_if_few(points: Batches) -> Batches:
    """Return up to `IN_MEMORY` points in memory, read once; more in their chunks, in every pass.

    Parameters
    ----------
    points : Batches
        Points in chunks.

    Returns
    -------
    Batches
        The same points.

    Raises
    ------
    DomainError
        When they are not as many as announced.
    """
    if not 0 < points.n <= IN_MEMORY:
        return points
    return InMemory(points.n, np.concatenate(list(Reiterable(points, np.asarray))))


IN_MEMORY = 2**12
"""Most points that `in_memory_if_few` holds in memory."""
PER_UNIT = 2**40
"""Points of the lattice in 1."""
BLOCK = 2**20
"""Most records that are summed in 64 bits."""
HALF_DIGITS = 20
"""Binary digits of the lower half of a coordinate."""
PRODUCTS = 2**12
"""Most records whose products are summed in doubles."""
NORM = 3.0 / 8.0
"""Largest squared norm of a vector, its products and its overshoots together."""


Sized: TypeAlias = tuple[FloatArray, FloatArray]
"""Records in the axes of each of r repetitions, (r, d, m), and their ‖z − centre‖, (r, m); either
is 1 long where all have the same. The latter is no number where a repetition has fewer records."""


def as_repetition(records: FloatArray, size: FloatArray) -> Sized:
    """Return records in some axes, with their distances, as of one repetition.

    Parameters
    ----------
    records : array, shape (m, d)
        Records z.
    size : array, shape (m,)
        Distances ‖z − centre‖.

    Returns
    -------
    Sized
        Arrays of shape (1, d, m) and (1, m).
    """
    return np.ascontiguousarray(records.T)[None], size[None]


def sizes(records: FloatArray, centre: FloatArray) -> FloatArray:
    """Return ‖y − centre‖ of each record; infinite where it is not a number.

    Parameters
    ----------
    records : array, shape (n, d)
        Records y.
    centre : array, shape (d,)
        Centre of the distances.

    Returns
    -------
    array, shape (n,)
        Distances.
    """
    coordinates = np.ascontiguousarray(records.T)[None]
    norms: FloatArray = sizes_around(coordinates, np.array([centre]))[0]
    return norms


@compiled
def sizes_around(records: FloatArray, centres: FloatArray) -> FloatArray:
    """Return ‖y − centre‖ of each record around the centres of r repetitions.

    It is infinite where it is not a number.

    Parameters
    ----------
    records : array, shape (r, d, n) or (1, d, n)
        Records, as in `Sized`.
    centres : array, shape (r, d)
        Centre of each repetition.

    Returns
    -------
    array, shape (r, n)
        Distances.
    """
    repetitions, many = len(centres), records.shape[2]
    out = np.zeros((repetitions, many))
    for r in range(repetitions):
        own, norms = records[r % len(records)], out[r]
        for i in range(records.shape[1]):
            coordinate, origin = own[i], centres[r, i]
            for n in range(many):
                norms[n] += (coordinate[n] - origin) ** 2
        for n in range(many):
            norms[n] = math.sqrt(norms[n]) if norms[n] >= 0.0 else np.inf
    return out


class Clip(NamedTuple):
    """Map of a record to its vector: y − centre, clipped to a ball, over `unit`.

    Attributes
    ----------
    centre : array, shape (d,)
        Middle of the ball.
    radius, unit : float
        Radius of the ball; length that a vector of length 1 has.
    lines : {0, 1}
        Number of leading coordinates along the contrast axis.
    near, far, farthest : float
        Lengths that overshoots are measured by: along the contrast axis up to `near`, beyond it up
        to `far`, of the rest up to `farthest`. 0 where none are measured.
    odd : array, shape (m, d)
        Public odd pictures, relative to the centre.
    """

    centre: FloatArray
    radius: float
    unit: float
    lines: int = 0
    near: float = 0.0
    far: float = 0.0
    farthest: float = 0.0
    odd: FloatArray = np.zeros((0, 1))

    def as_repetition(self) -> "Clipping":
        """Return the clipping of one repetition, r = 1.

        Returns
        -------
        Clipping
            Arrays that are 1 long.
        """
        return Clipping(
            np.array(self.centre, float)[None],
            np.array([self.radius], float),
            np.array([self.unit], float),
            self.lines,
            np.array([self.near], float),
            np.array([self.far], float),
            np.array([self.farthest], float),
            np.array(self.odd, float)[None],
        )


class Clipping(NamedTuple):
    """Maps of records to vectors, one a repetition: see `Clip`.

    Attributes
    ----------
    centre : array, shape (r, d)
        Middle of each ball.
    radius, unit : array, shape (r,)
        Radius of each ball; length that a vector of length 1 has.
    lines : {0, 1}
        Number of leading coordinates along the contrast axis.
    near, far, farthest : array, shape (r,)
        Lengths that overshoots are measured by; all 0 where none are measured.
    odd : array, shape (r, m, d)
        Public odd pictures, relative to each centre.
    """

    centre: FloatArray
    radius: FloatArray
    unit: FloatArray
    lines: int
    near: FloatArray
    far: FloatArray
    farthest: FloatArray
    odd: FloatArray

    @property
    def overshoots(self) -> int:
        """Number e of overshoots of a record: the rest, and those along public directions."""
        many = 1 + 4 * self.lines + int(self.odd.shape[1])
        return many if np.all(self.farthest) else 0

    @property
    def reach(self) -> FloatArray:
        """Reach of each overshoot, (r, e): rest, below, above, both beyond `near`, each odd."""
        ends = [self.farthest, *[self.near, self.near, self.far, self.far] * self.lines]
        return np.stack([*ends, *np.linalg.norm(self.odd, axis=-1).T], axis=-1)


COSINE, HALF = 0.8, 0.5
"""Least cosine, and share of a way. What is cut off of a record points to an odd picture if the
cosine is larger; and is cut off towards it if it is longer than this share of the way there, or
than `Clipping.near`."""


@compiled
def _write_halves(
    records: FloatArray,
    size: FloatArray,
    start: int,
    many: int,
    to: Clip,
    beyond: NDArray[np.int64],
    out: FloatArray,
) -> None:
    """Write 2⁴⁰·clip(y − centre)/unit of records, rounded, halved.

    The records are `many` from `start` on, of (d, n). The upper halves come first, then the lower
    ones: (2d, many). No number counts as 0. Where overshoots have a place in `beyond`, vectors of
    records that overshoot are shortened, see `_shorten`, and 2⁴⁰ times their sums are added.
    """
    d, centre, radius, per = len(records), to[0], to[1], PER_UNIT / to[2]
    scales = np.empty(many)
    for n in range(many):
        own = size[start + n]
        scales[n] = 1.0 if own <= radius else (radius / own if own > radius else 0.0)
        if own > radius and len(beyond):
            scales[n] *= _shorten(records[:, start + n], own, to, beyond)
    for i in range(d):
        upper, lower = out[i], out[d + i]
        coordinate, origin = records[i, start : start + many], centre[i]
        for n in range(many):
            term = np.rint(scales[n] * (coordinate[n] - origin) * per) if scales[n] > 0.0 else 0.0
            high = np.rint(term * 2.0**-HALF_DIGITS)
            upper[n], lower[n] = high, term - high * 2.0**HALF_DIGITS


@compiled
def alike(
    record: FloatArray, centre: FloatArray, odd: FloatArray, size: float
) -> tuple[int, float, float]:
    """Return the odd picture that a record is like, how far it is that way, and how far that is.

    Parameters
    ----------
    record, centre : array, shape (d,)
        Record, and centre of the ball.
    odd : array, shape (m, d)
        Odd pictures, relative to the centre.
    size : float
        Distance of the record from the centre.

    Returns
    -------
    int
        Row of `odd`; −1 where it is like none.
    float
        Length of the record along it.
    float
        Length of the odd picture.
    """
    which, best, length = -1, 0.0, 0.0
    for k in range(len(odd)):
        long, across = 0.0, 0.0
        for i in range(len(record)):
            long += odd[k, i] ** 2
            across += odd[k, i] * (record[i] - centre[i])
        long = math.sqrt(long)
        if long > 0.0 and across > COSINE * long * size and across > best * long:
            which, best, length = k, across / long, long
    return which, best, length


@compiled
def _shorten(record: FloatArray, size: float, to: Clip, beyond: NDArray[np.int64]) -> float:
    """Return the factor of the vector v of a record outside; add its overshoots.

    ‖v‖ is at most ½, and they are at most √(3/8) together. v keeps its direction, and of β = ‖v‖²
    as much as leaves β + 2β² + ‖h‖² ≤ 3/8.
    """
    centre, radius, _, lines, near, far, farthest, odd = to
    parts, within = np.zeros(len(beyond)), 1.0
    if not size < np.inf:
        parts[0] = 1.0  # no number
    else:
        length = size - radius
        which, across, long = alike(record, centre, odd, size)
        if which >= 0 and length > min(near, HALF * long):
            way, within = min(across, long), 0.0
            parts[1 + 4 * lines + which] = way / long
            left = math.sqrt(max(size**2 - 2.0 * way * across + way**2, 0.0))
        elif lines:
            cut = (record[0] - centre[0]) * (length / size)
            way = min(abs(cut), far)
            side = 2 if cut > 0.0 else 1
            if way <= near:
                parts[side] = way / near
            else:
                parts[side + 2] = way / far
            left = math.sqrt(max(length**2 - cut**2, 0.0) + (abs(cut) - way) ** 2)
        else:
            left = length
        parts[0] = min(left / farthest, 1.0)
    total = 0.0
    for part in parts:
        total += part**2
    share = math.sqrt(NORM) / math.sqrt(max(total, 1.0))
    for place, part in enumerate(parts):
        beyond[place] += np.int64(np.floor(share * part * PER_UNIT))
    left = max(NORM - NORM * min(total, 1.0), 0.0)
    most = 2.0 * left / (1.0 + math.sqrt(1.0 + 8.0 * left))
    return within * min(math.sqrt(4.0 * most), 1.0)


@compiled
def sizes_beside_odd(
    records: FloatArray, size: FloatArray, centres: FloatArray, odd: FloatArray, most: float
) -> FloatArray:
    """Return sizes, at most `most` of records that are about where odd pictures are.

    They need no wider ball, as the way towards each is an overshoot of its own.

    Parameters
    ----------
    records : array, shape (r, d, n) or (1, d, n)
        Records, as in `Sized`.
    size : array, shape (r, n) or (1, n)
        Distances of the records from the centres.
    centres : array, shape (r, d)
        Centre of each repetition.
    odd : array, shape (r, m, d)
        Odd pictures, relative to each centre.
    most : float
        Radius of the last shell.

    Returns
    -------
    array, shape (r, n)
        Distances, as shells count them.
    """
    out = np.empty((len(centres), size.shape[1]))
    for r in range(len(centres)):
        own, norms = records[r % len(records)], size[r % len(size)]
        for n in range(size.shape[1]):
            out[r, n] = norms[n]
            if most < norms[n] < np.inf:
                which, _, long = alike(own[:, n], centres[r], odd[r], norms[n])
                if which >= 0 and norms[n] > most + min(most, HALF * long):
                    out[r, n] = most
    return out


def clipped_vectors(records: FloatArray, to: Clip) -> FloatArray:
    """Return the vectors of records, exact: upper halves and lower ones together.

    Parameters
    ----------
    records : array, shape (n, d)
        Records in the axes.
    to : Clip
        Map of a record to its vector.

    Returns
    -------
    array, shape (n, d)
        Vectors on the lattice, none longer than ½.
    """
    centre, odd = np.array(to.centre, float), np.array(to.odd, float)
    radius, unit, near, far, farthest = map(float, (*to[1:3], *to[4:7]))
    one = Clip(centre, radius, unit, to.lines, near, far, farthest, odd)
    own, size = as_repetition(records, sizes(records, centre))
    beyond = np.zeros(to.as_repetition().overshoots, np.int64)
    halves = np.empty((2 * len(centre), len(records)))
    _write_halves(own[0], size[0], 0, len(records), one, beyond, halves)
    upper, lower = np.split(halves, 2)
    return np.asarray((upper * 2.0**HALF_DIGITS + lower).T / PER_UNIT)


def _compact(to: Clipping) -> Clipping:
    """Return a clipping in arrays of one layout: for anything else numba would compile anew."""
    parts = (to.centre, to.radius, to.unit, to.near, to.far, to.farthest, to.odd)
    centre, radius, unit, near, far, farthest, odd = (np.array(part, float) for part in parts)
    return Clipping(centre, radius, unit, to.lines, near, far, farthest, odd)


@compiled
def _add_each(
    records: FloatArray,
    size: FloatArray,
    start: int,
    stop: int,
    block: int,
    paired: bool,
    sums: NDArray[np.int64],
    digits: NDArray[np.int64],
    to: Clipping,
) -> None:
    """Add Σ v and Σ h of records from `start` to `stop` to `sums`, Σ v·vᵀ to `digits` if paired.

    Of each repetition, the first axis of all arrays but the `Sized` ones.
    """
    d = records.shape[1]
    halves = np.empty((2 * d, min(block, stop - start)))
    centre, radius, unit, lines, near, far, farthest, odd = to
    for r in range(len(centre)):
        own, beyond = (records[r % len(records)], size[r % len(size)]), sums[r, d:]
        ends = near[r], far[r], farthest[r], odd[r]
        one = Clip(centre[r], radius[r], unit[r], lines, *ends)
        for begin in range(start, stop, block):
            many = min(block, stop - begin)
            _write_halves(*own, begin, many, one, beyond, halves)
            _add_exact(halves, many, paired, sums[r], digits[r])


def clipped_totals(
    parts: Iterable[Sized], to: Clipping, *, paired: bool = True
) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Return exact sums over records that come in parts, of each repetition of a clipping.

    Parameters
    ----------
    parts : iterable of Sized
        Records, in parts.
    to : Clipping
        Maps of records to vectors.
    paired : bool
        True if products are summed, too.

    Returns
    -------
    array of int, shape (r, d + e)
        2⁴⁰ times the sums of the vectors, then of the overshoots; Python's integers.
    array, shape (r, 4, d(d + 1)/2)
        Digits of 2⁸⁰ times the sums of v·vᵀ, as `of_digits` puts them together; 0 unless `paired`.
    """
    (many, d), own = to.centre.shape, _compact(to)
    totals = np.zeros((many, d + to.overshoots), object)
    digits = np.zeros((many, 4, d * (d + 1) // 2), np.int64)
    for records, size in parts:
        for start in range(0, size.shape[1], BLOCK):
            stop, sums = min(start + BLOCK, size.shape[1]), np.zeros(totals.shape, np.int64)
            _add_each(records, size, start, stop, PRODUCTS, paired, sums, digits, own)
            totals += sums
    return totals, digits


def of_digits(digits: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return 2⁸⁰ times sums of products as low + 2⁶⁴·high, `low` as 64 binary digits from 0 on.

    They are digits[0] + 2²⁰·digits[1] + 2⁴⁰·digits[2] + 2⁸⁰·digits[3]: the last of any sign, the
    others not negative, of 20, 20 and 40 bits. First the diagonal, then the strict upper triangle,
    by rows.

    Parameters
    ----------
    digits : array of int, shape (4, m)
        Digits of m sums.

    Returns
    -------
    low : array of int, shape (m,)
        Lower 64 binary digits, 0 or more.
    high : array of int, shape (m,)
        Part above them, of any sign.
    """
    first, second, third, last = digits
    return first + (second << 20) + (third << 40), (third >> 24) + (last << 16)


@partial(compiled, exact_sums=True)
def _add_exact(
    halves: FloatArray,
    many: int,
    paired: bool,
    sums: NDArray[np.int64],
    digits: NDArray[np.int64],
) -> None:
    """Add Σ v to `sums` and Σ v·vᵀ to `digits`: whole numbers below 2⁵³, so no order rounds."""
    d, entry = len(halves) // 2, len(halves) // 2
    for i in range(d):
        upper, lower, total = halves[i, :many], halves[d + i, :many], 0.0
        for n in range(many):
            total += upper[n] * 2.0**HALF_DIGITS + lower[n]
        sums[i] += np.int64(total)
        for j in range(i, d if paired else i):
            place = i
            if j > i:
                place, entry = entry, entry + 1
            others, rest = halves[j, :many], halves[d + j, :many]
            high, mixed, low = 0.0, 0.0, 0.0
            for n in range(many):
                high += upper[n] * others[n]
                mixed += upper[n] * rest[n] + lower[n] * others[n]
                low += lower[n] * rest[n]
            first = digits[0, place] + np.int64(low)
            second = digits[1, place] + np.int64(mixed) + (first >> HALF_DIGITS)
            third = digits[2, place] + np.int64(high) + (second >> HALF_DIGITS)
            digits[0, place] = first & ((1 << HALF_DIGITS) - 1)
            digits[1, place] = second & ((1 << HALF_DIGITS) - 1)
            digits[2, place] = third & ((1 << 2 * HALF_DIGITS) - 1)
            digits[3, place] += third >> 2 * HALF_DIGITS


def clipped_mean(parts: Iterable[Sized], n: int, to: Clip) -> FloatArray:
    """Return the mean vector of n records that come in parts; see the top of this file.

    Parameters
    ----------
    parts : iterable of Sized
        Records in the axes, of one repetition.
    n : int
        Number of records.
    to : Clip
        Map of a record to its vector.

    Returns
    -------
    array, shape (d + e,)
        Mean of the vectors, then of the overshoots if any are measured.
    """
    return clipped_means(parts, n, to.as_repetition(), paired=False)[0]


PER_WEIGHT = 2**60
"""Weights are whole multiples of 1 over this."""
OFF_DIAGONAL = 2 * PER_WEIGHT - 2 * PER_WEIGHT // 2**30
"""√2·λ·2⁶⁰: what an entry off the diagonal is weighed with in the pair."""
DIAGONAL = math.isqrt(OFF_DIAGONAL**2 // 2)
"""λ·2⁶⁰, from below."""
FACTOR = DIAGONAL / PER_WEIGHT
"""λ."""
LAMBDA = FACTOR, float(DIAGONAL - int(FACTOR * PER_WEIGHT)) / PER_WEIGHT
"""λ as the sum of two doubles."""


OVERSHOOT = math.sqrt(NORM)
"""Overshoot of a record that is its whole reach outside."""


def weights(dim: int, overshoots: int) -> list[int]:
    """Return the weights of sums of overshoots, then of v·vᵀ, over `PER_WEIGHT`.

    Parameters
    ----------
    dim : int
        Length d of a vector.
    overshoots : int
        Number e of overshoots.

    Returns
    -------
    list of int
        Weights, of length e + d(d + 1)/2.
    """
    products = [DIAGONAL] * dim + [OFF_DIAGONAL] * (dim * (dim - 1) // 2)
    return [PER_UNIT * PER_WEIGHT] * overshoots + products


def clipped_means(
    parts: Iterable[Sized], n: int, to: Clipping, *, paired: bool
) -> list[FloatArray]:
    """Return the means of several repetitions, in one pass over the parts of the records.

    Each is (Σ v, Σ h, and if `paired` λ·Σ v·vᵀ)/n: what `pairs` returns, sooner. Σ v is the same to
    the last bit, `paired` or not; Σ h is `Clipping.overshoots` long.

    Parameters
    ----------
    parts : iterable of Sized
        Records, in parts.
    n : int
        Divisor of the sums.
    to : Clipping
        Maps of records to vectors.
    paired : bool
        True if products are summed, too.

    Returns
    -------
    list of array, shape (m,)
        One of each repetition: d coordinates, e overshoots, and d(d + 1)/2 products if paired.
    """
    totals, digits = clipped_totals(parts, to, paired=paired)
    means = (totals / (n * PER_UNIT)).astype(float)  # of whole numbers: rounded once
    many, d = to.centre.shape
    if not paired:
        return list(means)
    products = np.empty((many, digits.shape[-1]))
    _quotients(digits, d, float(n), products)
    return list(np.concatenate([means, products], axis=1))


@compiled
def _quotients(digits: NDArray[np.int64], d: int, n: float, out: FloatArray) -> None:
    """Write λ·Σ v·vᵀ/n of the digits, of each repetition: in pairs of doubles, then rounded."""
    for r in range(len(digits)):
        for place in range(digits.shape[2]):
            high, low = 2.0**80 * digits[r, 3, place], 0.0
            for digit in range(2, -1, -1):
                high, rest = _two_sum(high, 2.0 ** (20 * digit) * digits[r, digit, place])
                high, low = _two_sum(high, low + rest)
            first, second = LAMBDA if place < d else (OFF_DIAGONAL / PER_WEIGHT, 0.0)
            product, rest = _two_product(high, first)
            rest += high * second + low * first
            product, rest = _two_sum(product, rest)
            quotient = product / n
            back, error = _two_product(quotient, n)
            out[r, place] = (quotient + ((product - back) - error + rest) / n) * 2.0**-80


@compiled
def _two_sum(x: float, y: float) -> tuple[float, float]:
    """Return x + y rounded, and what that lost (Knuth)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


@compiled
def _two_product(x: float, y: float) -> tuple[float, float]:
    """Return x·y rounded, and what that lost (Dekker)."""
    product = x * y
    wide = 134217729.0 * x
    high = wide - (wide - x)
    low = x - high
    wide = 134217729.0 * y
    top = wide - (wide - y)
    bottom = y - top
    return product, ((high * top - product) + high * bottom + low * top) + low * bottom


def pairs(first: Sequence[int], second: Sequence[int], per: int) -> FloatArray:
    """Return (Σ v, Σ h, λ·Σ v·vᵀ)/`per` of exact sums, or weighted sums of them.

    Parameters
    ----------
    first : sequence of int
        Σ v in steps of the lattice, d of them.
    second : sequence of int
        Σ h and Σ v·vᵀ, in steps and squares of steps.
    per : int
        Divisor.

    Returns
    -------
    array, shape (d + e + d(d + 1)/2,)
        Mean of triples.
    """
    dim = len(first)
    weighed = map(int.__mul__, second, weights(dim, len(second) - dim * (dim + 1) // 2))
    mean = [number / (per * PER_UNIT) for number in first]
    means = np.array(mean + [number / per for number in weighed])  # of whole numbers: rounded once
    means[dim:] /= float(PER_UNIT**2 * PER_WEIGHT)  # a power of two
    return means


def second_moment(weighed: FloatArray) -> FloatArray:
    """Return the mean of v·vᵀ of the last d(d + 1)/2 numbers of means of triples.

    Parameters
    ----------
    weighed : array, shape (..., d(d + 1)/2)
        Weighed sums of products over n.

    Returns
    -------
    array, shape (..., d, d)
        Symmetric matrices.
    """
    return unvecd(weighed) / FACTOR
