"""The fused kernels: from pixels to the moments of their features, one image at a time.

In: a C-contiguous batch of uint8 images, and their masks. Out: per image the moments

    M = Σ_x (1, φ(x)) (1, φ(x))ᵀ            shape (k + 1, k + 1), the lower triangle below |S|,

over the pixels x of S, with φ in whatever scale and offset suits the arithmetic
(`base.Descriptor.units` states the scale; an offset does not change a covariance). `describe`
turns moments into descriptors.

An image is worked through in strips of whole rows that fit the first-level cache, stored flat with
two mirrored pixels on each side, so that every filter is one long loop which the compiler turns
into vector instructions. No feature image ever reaches main memory. Every image is handled by one
thread in one order that depends on its size alone: the result cannot depend on chunks or threads.

All that they call is in this one file because numba's cache notices changes of a function's own
file only: a helper changed elsewhere would leave stale machine code behind.

**Volumes.** x runs along the width, y along the height, z along the depth. Each derivative is a
product of three filters of one axis each:

    16·Ix = [1, 0, −1] along x, [1, 2, 1] along y and z                     Iy, Iz likewise
    512·Ixx = [1, 0, −2, 0, 1] along x, [1, 4, 6, 4, 1] along y and z       Iyy, Izz likewise

Along z a ring of five padded slices of a strip goes with it. Values as they are stored, in kernel
units; [1, 4, 6, 4, 1] is of I − 128:

    along z   [1, 2, 1] ≤ 1020   [1, 0, −1] ±255   [1, 4, 6, 4, 1] ±2048   [1, 0, −2, 0, 1] ±510
    then y    16·Ix ±2048   16·Iy, 16·Iz ±1020   512·Ixx −32768..32512   512·Iyy, 512·Izz ±8160
    then x    16·Ix, 16·Iy, 16·Iz ±4080

so int16 holds all of them. |512·Ixx| up to 130560 does not fit: it is held as two digits, whose
products are put together at the end.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba.core import cgutils, types
from numba.core.cgutils import ir
from numba.extending import intrinsic
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray
from covdp.parallel import compiled

PIXELS_SUMMED = 128
"""Products that a lane sums before the sum is widened: int32 holds 128 · 4095²."""
SUMMED = 16 * PIXELS_SUMMED
"""Pixels that 16 lanes sum so, and those of a strip of `grid_moments`."""
COLUMNS_AT_ONCE = SUMMED - 4
"""Columns that `grid_moments` has at once: a strip has one row at least."""
STRIP = 4096
"""Pixels of a strip of `oct5`, about: a strip and its features stay near the first-level cache."""
SLICE_STRIP = 1100
"""Voxels of a slice of a strip, about: longer ones leave the first-level cache, and shorter ones
filter more rows twice. Strips of 28×28 have all rows, strips of 64×64 a quarter."""
DIGIT = 32
"""A second derivative of a volume is DIGIT · (high + 2040) + low."""
RING = 512
"""Pixels that `add_steepest` keeps, a power of 2."""
RING_ROW = RING + 8
"""Length of its rows: were it a power of 2, all had one place in the first-level cache."""
PIECE = 384
"""Pixels after which it still has all of them: it is ahead of what it adds by 96."""
ARCTAN = (
    *(-0.6666666666666666, 0.3999999999999104, -0.28571428569333085, 0.22222222030512723),
    *(-0.18181809156247805, 0.15384366381652173, -0.13329022894763895, 0.1171629782560442),
    *(-0.1017089947588052, 0.07846331659117438, -0.03835377423812452),
)
"""p of 2·arctan(t) = 2t + t·t²·p(t²), interpolated at the zeros of Chebyshev's polynomial: to 7e-18
of it for 0 ≤ t ≤ tan(π/8)."""
ROWS = 11
"""Rows of products of `vol7`: inside, I, three first derivatives, high digits, low digits."""

OCT5_CENTRES = (128, 510, 510, 4080, 4080)
"""Mid-range of each feature of `oct5_moments`, which it takes off."""

IntArray = NDArray[Any]
Views = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]


@compiled
def mirror(index: int, size: int) -> int:
    """Return the index of the pixel that a mirror with repeated edge shows: d c b a | a b c d.

    Parameters
    ----------
    index : int
        Index along the side, which may lie outside.
    size : int
        Number of pixels along the side.
    """
    if 0 <= index < size:
        return index
    index %= 2 * size
    return min(index, 2 * size - 1 - index)


@compiled
def strip_of(height: int, width: int, pixels: int) -> tuple[int, int, int]:
    """Return rows of a strip of about `pixels`, its pixels (four of padding a row), and room.

    Room is for so many pixels and the next that make it a multiple of 32. All strips of an image
    have as many rows, as far as can be.

    Parameters
    ----------
    height : int
        Height h of an image, in pixels.
    width : int
        Width w of an image, in pixels.
    pixels : int
        Number of pixels that a strip is to have.
    """
    rows = min(height, max(1, pixels // (width + 4)))
    rows = -(-height // -(-height // rows))
    size = rows * (width + 4)
    return rows, size, -(-size // 32) * 32


@compiled
def five_rows(flat: IntArray, width: int) -> Views:
    """Return views of a flat padded strip, each one row further down: rows y − 2 to y + 2.

    Parameters
    ----------
    flat : array of int
        Padded rows of a strip, one after another.
    width : int
        Width w of an image, in pixels.
    """
    step = width + 4
    return flat, flat[step:], flat[2 * step :], flat[3 * step :], flat[4 * step :]


@compiled
def mirror_sides(plane: IntArray, width: int) -> None:
    """Fill the two columns on each side of `plane`, (rows, width + 4), by mirroring.

    Parameters
    ----------
    plane : array of int
        Padded strip; overwritten.
    width : int
        Width w of an image, in pixels.
    """
    columns = (mirror(-2, width), mirror(-1, width), mirror(width, width), mirror(width + 1, width))
    for row in range(plane.shape[0]):
        plane[row, 0] = plane[row, columns[0] + 2]
        plane[row, 1] = plane[row, columns[1] + 2]
        plane[row, width + 2] = plane[row, columns[2] + 2]
        plane[row, width + 3] = plane[row, columns[3] + 2]


@compiled
def load_gray(image: ImageArray, top: int, plane: IntArray) -> None:
    """Copy rows top − 2 … of a gray image (h, w), mirrored at the border, into `plane`.

    Parameters
    ----------
    image : uint8 array, shape (h, w)
        Gray image.
    top : int
        Index of the first row of the strip in the image.
    plane : array of int
        Padded strip; overwritten.
    """
    height, width = image.shape
    for row in range(plane.shape[0]):
        y = mirror(top + row - 2, height)
        for x in range(width):
            plane[row, x + 2] = image[y, x]
    mirror_sides(plane, width)


@compiled
def load_luminance(image: ImageArray, top: int, plane: IntArray) -> None:
    """Do as `load_gray` for 10⁴·(0.2125 R + 0.7154 G + 0.0721 B) of a colour image (h, w, 3).

    Parameters
    ----------
    image : uint8 array, shape (h, w, 3)
        Colour image.
    top : int
        Index of the first row of the strip in the image.
    plane : array of int
        Padded strip; overwritten.
    """
    height, width, _ = image.shape
    for row in range(plane.shape[0]):
        line, target = image[mirror(top + row - 2, height)].reshape(-1), plane[row, 2:]
        for x in range(width):
            red, green, blue = line[3 * x], line[3 * x + 1], line[3 * x + 2]
            target[x] = np.int32(2125 * np.int32(red) + 7154 * np.int32(green)) + 721 * blue
    mirror_sides(plane, width)


@compiled
def derivatives(
    views: Views, scratch: IntArray, mask: IntArray, centres: IntArray, out: IntArray, size: int
) -> None:
    """Write I, 4|Ix|, 4|Iy|, 32|Ixx|, 32|Iyy| of a strip into the rows of `out`, exactly.

    Less `centres`, and 0 where `mask` is. Ix is (1/4)·[1, 2, 1]ᵀ[1, 0, −1] and Ixx is
    (1/32)·[1, 4, 6, 4, 1]ᵀ[1, 0, −2, 0, 1], Iy and Iyy their transposes; each is applied as a
    column filter, then a row filter. If I is in [0, b], no intermediate value leaves [−32 b, 32 b]:
    int16 holds b = 255, int32 holds b = 2,550,000.

    Parameters
    ----------
    views : Views
        Rows y − 2 to y + 2 of a strip, as of `five_rows`.
    scratch : array of int
        Room for intermediate values.
    mask : array of int
        1 at pixels inside, 0 elsewhere.
    centres : array of int
        Numbers that are taken off the features.
    out : array of int
        Output: the features.
    size : int
        Number of columns of the strip.
    """
    a, b, c, d, e = views
    for x in range(size + 4):
        scratch[0, x] = b[x] + 2 * c[x] + d[x]
        scratch[1, x] = b[x] - d[x]
        scratch[2, x] = a[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x]
        scratch[3, x] = a[x] - 2 * c[x] + e[x]
    s, kind = scratch, out.dtype.type
    of_gray, of_first, of_second = centres[0], centres[1], centres[3]
    for x in range(size):
        out[0, x] = (c[x + 2] - of_gray) * mask[x]
    for x in range(size):
        out[1, x] = (abs(kind(s[0, x + 1] - s[0, x + 3])) - of_first) * mask[x]
    for x in range(size):
        value = kind(s[1, x + 1] + 2 * s[1, x + 2] + s[1, x + 3])
        out[2, x] = (abs(value) - of_first) * mask[x]
    for x in range(size):
        value = kind(s[2, x] - 2 * s[2, x + 2] + s[2, x + 4])
        out[3, x] = (abs(value) - of_second) * mask[x]
    for x in range(size):
        value = kind(s[3, x] + 4 * s[3, x + 1] + 6 * s[3, x + 2] + 4 * s[3, x + 3] + s[3, x + 4])
        out[4, x] = (abs(value) - of_second) * mask[x]


@compiled
def mark_pixels(mask: IntArray, inside: ImageArray, rows: int, width: int) -> None:
    """Set the flat strip `mask` to 1 at pixels of the first `rows` rows, to 0 at padding.

    Where `inside`, (rows, width), has rows, only at pixels where it is 1.

    Parameters
    ----------
    mask : array of int
        Output: the flat strip.
    inside : uint8 array, shape (rows or 0, w)
        Mask of the strip; no rows where all pixels count.
    rows : int
        Number of rows to mark.
    width : int
        Width w of an image, in pixels.
    """
    mask[:] = 0
    for row in range(rows):
        for x in range(width):
            mask[row * (width + 4) + x] = inside[row, x] if len(inside) else 1


INT32, INT64, DOUBLE = ir.IntType(32), ir.IntType(64), ir.DoubleType()
EIGHT, EIGHT_WHOLES = ir.VectorType(DOUBLE, 8), ir.VectorType(INT32, 8)
vectorised: Callable[[Callable[..., Any]], Any] = intrinsic(prefer_literal=True)
"""Makes a function that writes machine code, of the types of its arguments and of its constants.

Sums of floats have eight lanes, whatever the machine has, and the compiler neither reorders them
nor joins products to them: where both are one operation, of one rounding, `_fma` says so, for which
machines without it call a function. So all bits are the same on all machines.
"""


def _rows(context: Any, b: Any, kind: Any, value: Any) -> Callable[..., Any]:
    """Return (row, column) ↦ its address, of a contiguous matrix that a function is given."""
    array = context.make_array(kind)(context, b, value)
    columns = cgutils.unpack_tuple(b, array.shape)[1]
    return lambda row, at: b.gep(array.data, [b.add(b.mul(INT64(row), columns), at)])


def _vector(b: Any, address: Any, lanes: int) -> Any:
    """Return so many neighbours, from an address on."""
    kind = address.type.pointee
    pointer = b.bitcast(address, ir.VectorType(kind, lanes).as_pointer())
    return b.load(pointer, align=8 if kind == DOUBLE else kind.width // 8)


def _call(b: Any, name: str, *vectors: Any) -> Any:
    kind = ir.FunctionType(EIGHT, [EIGHT] * len(vectors))
    return b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.{name}.v8f64"), vectors)


def _fma(b: Any, left: Any, right: Any, total: Any) -> Any:
    return _call(b, "fma", left, right, total)


def _eight(value: float) -> Any:
    return ir.Constant(EIGHT, [value] * 8)


def _lanes(b: Any, vector: Any, places: range) -> Any:
    mask = ir.Constant(ir.VectorType(INT32, len(places)), [INT32(place) for place in places])
    return b.shuffle_vector(vector, vector, mask)


def _totals(b: Any, kind: Any, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], Any]:
    return {pair: cgutils.alloca_once_value(b, ir.Constant(kind, None)) for pair in pairs}


def _fold(b: Any, totals: dict[tuple[int, int], Any], cells: Callable[..., Any]) -> None:
    """Add the lanes of each total, halves first, to the cell of its name."""
    for (row, column), total in totals.items():
        vector, add = b.load(total), b.fadd
        if vector.type != EIGHT:
            vector, add = b.sext(vector, ir.VectorType(INT64, 16)), b.add
        while (half := vector.type.count // 2) > 0:
            low, high = (_lanes(b, vector, range(k, k + half)) for k in (0, half))
            vector = add(low, high)
        cell = cells(row, INT64(column))
        b.store(add(b.load(cell), b.extract_element(vector, INT32(0))), cell)


@vectorised
def add_products(_: Any, rows: Any, start: Any, size: Any, first: Any, last: Any, sums: Any) -> Any:
    """Add Σ rows[a]·rows[b] to sums[a, b], b ≤ a and first ≤ a < last.

    The sum is over `size` columns, a multiple of 32, from `start` on. Of int16 within ±4095, and up
    to `SUMMED` columns, it is exact: 16 lanes of int32 hold `PIXELS_SUMMED` products each, 128 ·
    4095² = 2,146,435,200 < 2³¹. Of float64 it is in one fixed order.

    Parameters
    ----------
    _ : object
        Typing context of numba.
    rows : object
        Pointer to the features, one a row.
    start : object
        First column to sum.
    size : object
        Number of columns to sum, a multiple of 32.
    first : object
        First row a.
    last : object
        End of the rows a, exclusive.
    sums : object
        Output: sums of products, lower triangle.

    Returns
    -------
    object
        None in compiled code, which writes into `sums`.
    """
    exact = rows.dtype == types.int16
    total, lanes = (ir.VectorType(INT32, 16), 32) if exact else (EIGHT, 8)
    pairs = [(a, c) for a in range(first.literal_value, last.literal_value) for c in range(a + 1)]

    def code(context: Any, b: Any, _: Any, arguments: Any) -> Any:
        places, totals = _rows(context, b, rows, arguments[0]), _totals(b, total, pairs)
        stop = b.add(arguments[1], arguments[2])
        with cgutils.for_range_slice(b, arguments[1], stop, INT64(lanes)) as (at, _):
            vectors = [_vector(b, places(a, at), lanes) for a in range(last.literal_value)]
            if exact:
                vectors = [b.sext(v, ir.VectorType(INT32, 32)) for v in vectors]
            for (left, right), place in totals.items():
                if exact:
                    product = b.mul(vectors[left], vectors[right])
                    even, odd = (_lanes(b, product, range(k, 32, 2)) for k in (0, 1))
                    b.store(b.add(b.load(place), b.add(even, odd)), place)
                else:
                    b.store(_fma(b, vectors[left], vectors[right], b.load(place)), place)
        _fold(b, totals, _rows(context, b, sums, arguments[5]))
        return context.get_dummy_value()

    return types.void(rows, start, size, first, last, sums), code


class Strip(NamedTuple):
    """Facts that the stages of `add_steepest` share: the code they write, and places of rows.

    Attributes
    ----------
    b : object
        Builder of the code.
    level : callable
        Function of a row that returns a pointer to its whole numbers.
    edge : callable
        Function of a row that returns a pointer to its derivatives.
    ring : callable
        Function of a row that returns a pointer to its floats.
    start : object
        First column.
    """

    b: Any
    level: Callable[..., Any]
    edge: Callable[..., Any]
    ring: Callable[..., Any]
    start: Any
    known: int
    """Rows of levels, before |Ix|, |Iy|, |Ixx|, |Iyy|, magnitude and angle."""
    kept: range
    """Rows of whole numbers that the ring has as floats."""

    def place(self, row: int, at: Any) -> Any:
        """Return the place of a pixel of a row in the ring.

        Parameters
        ----------
        row : int
            Index of the row.
        at : object
            Index of the first of the columns.
        """
        column = self.b.and_(at, INT64(RING - 1))
        return self.b.gep(self.ring(0, INT64(0)), [self.b.add(column, INT64(row * RING_ROW))])

    def keep(self, row: int, at: Any, vector: Any) -> None:
        """Put eight pixels of a row into the ring.

        Parameters
        ----------
        row : int
            Index of the row.
        at : object
            Index of the first of the columns.
        vector : object
            Eight floats.
        """
        self.b.store(vector, self.b.bitcast(self.place(row, at), EIGHT.as_pointer()), align=8)

    def row(self, row: int, at: Any) -> Any:
        """Return eight pixels of a row, from the ring if it has them.

        Parameters
        ----------
        row : int
            Index of the row.
        at : object
            Index of the first of the columns.
        """
        if row in self.kept or row >= self.known + 4:
            return _vector(self.b, self.place(row, at), 8)
        return self.whole(row, at)

    def whole(self, row: int, at: Any) -> Any:
        """Return eight whole numbers of a row as floats.

        Parameters
        ----------
        row : int
            Index of the row.
        at : object
            Index of the first of the columns.
        """
        column, known = self.b.add(at, self.start), self.known
        place = self.level(row, column) if row < known else self.edge(row - known, column)
        vector = _vector(self.b, place, 8)
        vector = vector if vector.type == EIGHT_WHOLES else self.b.sext(vector, EIGHT_WHOLES)
        return self.b.sitofp(vector, EIGHT)


def _magnitudes(strip: Strip, at: Any) -> None:
    b, known = strip.b, strip.known
    for row in strip.kept:
        strip.keep(row, at, strip.whole(row, at))
    x, y = strip.row(known, at), strip.row(known + 1, at)
    strip.keep(known + 4, at, _call(b, "sqrt", _fma(b, x, x, b.fmul(y, y))))


def _tangents(strip: Strip, at: Any) -> None:
    b, known = strip.b, strip.known
    x, y = strip.row(known, at), strip.row(known + 1, at)
    less = b.fcmp_ordered("<", x, y)
    low, high = b.select(less, x, y), b.select(less, y, x)
    whole = b.fadd(high, strip.row(known + 4, at))
    whole = b.select(b.fcmp_ordered("<", whole, _eight(1.0)), _eight(1.0), whole)
    strip.keep(known + 5, at, b.fdiv(low, whole))


def _angles(strip: Strip, at: Any) -> None:
    b, known = strip.b, strip.known
    x, y, t = (strip.row(known + k, at) for k in (0, 1, 5))
    square, series = b.fmul(t, t), _eight(ARCTAN[-1])
    for power in ARCTAN[-2::-1]:
        series = _fma(b, series, square, _eight(power))
    angle = _fma(b, b.fmul(t, square), series, b.fadd(t, t))
    steeper = b.fcmp_ordered("<", y, x)
    strip.keep(known + 5, at, b.select(steeper, b.fsub(_eight(np.pi / 2), angle), angle))


def _add_products_of(strip: Strip, at: Any, totals: dict[tuple[int, int], Any]) -> None:
    b = strip.b
    vectors = {row: strip.row(row, at) for row in range(1, strip.known + 6)}
    for (row, column), total in totals.items():
        so_far = b.load(total)
        if column:
            b.store(_fma(b, vectors[column], vectors[row], so_far), total)
        else:
            b.store(b.fadd(vectors[row], so_far), total)


@vectorised
def add_steepest(
    _: Any, levels: Any, count: Any, edges: Any, ring: Any, start: Any, size: Any, sums: Any
) -> Any:
    """Add Σ (1, φ)·(magnitude, angle) to the last two rows of `sums`, but for Σ magnitude².

    In: the first `count` rows of `levels`, of which the first is 1 inside and 0 elsewhere, and the
    rows |Ix|, |Iy|, |Ixx|, |Iyy| of `edges`, 0 outside; 96 more columns are read than are summed,
    `size` from `start` on, a multiple of 32. If `edges` is int32, up to `PIECE` columns of all
    features are then in `ring`, as floats.

    Four stages, each of other pixels of one loop: none waits for another, and what one hands on is
    still in the first-level cache. |Ix|, |Iy| < 2²⁶ are whole numbers: Ix² + Iy² is rounded once,
    and magnitude, its root, once more. With l ≤ h the two of them,

        t = l/(h + magnitude) = tan(½·arctan(l/h)) ≤ tan(π/8)        t = 0 where both are 0

    and the angle is a = 2·arctan(t) or, where |Ix| > |Iy|, π/2 − a. As floats have them, a ≥ 0, so
    that π/2 − a ≤ π/2, and a is within 4 u of at most π/4, u = 2⁻⁵³: each angle is in [0, π/2]
    without being held there. Magnitude and angle are within 4 u of their values.

    Parameters
    ----------
    _ : object
        Typing context of numba.
    levels : object
        Pointer to whole numbers, one feature a row.
    count : object
        Number of rows of `levels`.
    edges : object
        Pointer to |Ix|, |Iy|, |Ixx|, |Iyy|.
    ring : object
        Pointer to room for features as floats.
    start : object
        First column to sum.
    size : object
        Number of columns to sum, a multiple of 32.
    sums : object
        Output: sums of products, of which the last two rows are changed.

    Returns
    -------
    object
        None in compiled code, which writes into `sums`.
    """
    known = count.literal_value
    kept = range(known, known + 2) if edges.dtype == types.int16 else range(1, known + 4)
    pairs = [(known + 4, a) for a in range(known + 4)] + [(known + 5, a) for a in range(known + 6)]

    def code(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        level, edge, columns, cells = (
            _rows(context, b, signature.args[k], arguments[k]) for k in (0, 2, 3, 6)
        )
        strip = Strip(b, level, edge, columns, arguments[4], known, kept)
        totals = _totals(b, EIGHT, pairs)
        add = partial(_add_products_of, totals=totals)
        stages: list[Callable[[Strip, Any], None]] = [_magnitudes, _tangents, _angles, add]

        def step(at: Any, count: int) -> None:
            for stage, ahead in zip(stages, range(count - 1, -1, -1), strict=False):
                for lane in range(0, 32, 8):
                    stage(strip, b.add(at, INT64(32 * ahead + lane)))

        for count in range(1, 4):
            step(INT64(0), count)
        with cgutils.for_range_slice(b, INT64(0), arguments[5], INT64(32)) as (at, _):
            step(at, 4)
        _fold(b, totals, cells)
        return context.get_dummy_value()

    return types.void(levels, count, edges, ring, start, size, sums), code


@compiled
def oct5_moments(images: ImageArray, masks: ImageArray, moments: IntArray) -> None:
    """Add the exact moments of (1, I, 4|Ix|, 4|Iy|, 32|Ixx|, 32|Iyy|), each centred at mid-range.

    Centring keeps every value within ±4080, as `add_products` wants, and changes no covariance.

    Parameters
    ----------
    images : uint8 array, shape (n, h, w)
        Gray images.
    masks : uint8 array, shape (n or 0, h, w)
        Masks of 0 and 1; no rows where all pixels count.
    moments : array of int
        Output: moments of each image, to which sums are added.
    """
    n, height, width, _ = images.shape
    gray = images.reshape(n, height, width)
    step, size, room = strip_of(height, width, STRIP)
    flat = np.zeros((step + 4) * (width + 4) + 4, np.int16)
    plane = flat[: (step + 4) * (width + 4)].reshape(step + 4, width + 4)
    views = five_rows(flat, width)
    scratch = np.empty((4, size + 4), np.int16)
    rows = np.zeros((6, room), np.int16)
    mask, features = rows[0], rows[1:]
    centres = np.array(OCT5_CENTRES).astype(np.int16)
    everywhere, marked = np.zeros((0, 0), np.uint8), 0
    for i in range(n):
        image, sums = gray[i], moments[i]
        for top in range(0, height, step):
            load_gray(image, top, plane)
            if len(masks) or marked != min(step, height - top):
                marked = min(step, height - top)
                inside = masks[i, top : top + step] if len(masks) else everywhere
                mark_pixels(mask, inside, marked, width)
            derivatives(views, scratch, mask, centres, features, size)
            for start in range(0, room, SUMMED):
                add_products(rows, start, min(SUMMED, room - start), 0, 6, sums)


def aligned(rows: int, columns: int, kind: Any) -> NDArray[Any]:
    """Return zeros, the first at a multiple of 64 bytes, with 128 more after the last.

    Parameters
    ----------
    rows : int
        Number of rows.
    columns : int
        Number of columns.
    kind : object
        Type of the numbers.
    """
    size = np.dtype(kind).itemsize
    room = np.zeros((rows * columns + 128) * size + 64, np.uint8)
    first = -room.ctypes.data % 64
    table: NDArray[Any] = room[first : first + rows * columns * size].view(kind)
    return table.reshape(rows, columns)


def grid_moments(images: ImageArray, masks: ImageArray, moments: FloatArray) -> None:
    """Add the moments of (1, x, y, channels, |Ix|, |Iy|, |Ixx|, |Iyy|, magnitude, angle).

    In pixels and integer intensities; of gray images 32|Ixx| and 32|Iyy| less 4080, the middle of
    their range, which changes no covariance. Gray images, (n, h, w, 1), and colour images, (n, h,
    w, 3). Rounded are sums with magnitude and angle, and large ones of derivatives of luminance.

    Wide images are cut: two more columns on each side, masked, leave filters as they are.

    Parameters
    ----------
    images : uint8 array, shape (n, h, w, 1) or (n, h, w, 3)
        Gray or colour images.
    masks : uint8 array, shape (n or 0, h, w)
        Masks of 0 and 1; no rows where all pixels count.
    moments : array, shape (n, m, m)
        Output: moments of each image, to which sums are added.
    """
    n, height, width, channels = images.shape
    if width > COLUMNS_AT_ONCE:
        inside = masks if len(masks) else np.ones(images.shape[:3], np.uint8)
        for left in range(0, width, COLUMNS_AT_ONCE - 4):
            first, last = max(0, left - 2), min(width, left + COLUMNS_AT_ONCE - 2)
            part, mask = np.zeros_like(moments), inside[:, :, first:last].copy()
            mask[:, :, : left - first] = 0
            mask[:, :, left - first + COLUMNS_AT_ONCE - 4 :] = 0
            grid_moments(np.ascontiguousarray(images[:, :, first:last]), mask, part)
            part[:, 1, 1] += first * (2 * part[:, 1, 0] + first * part[:, 0, 0])
            part[:, 1, 0] += first * part[:, 0, 0]
            part[:, 2:, 1] += first * part[:, 2:, 0]
            moments += part
        return
    gray, (step, _, room) = channels == 1, strip_of(height, width, SUMMED)
    kind = np.int16 if gray else np.int32
    levels = aligned(8 if gray else 6, room, np.int16)
    grid_strips(
        images.reshape(n, height, width) if gray else images,
        *(masks, step, aligned(1, room + 4 * (width + 4) + 4, kind)[0]),
        *(aligned(4, room + 32, kind), levels, levels[3:] if gray else aligned(5, room, kind)),
        np.array([0, 0, 0, 4080, 4080] if gray else [0] * 5, kind),
        *(aligned(channels + 9, RING_ROW, np.float64), moments),
    )


@compiled
def grid_strips(
    images: ImageArray,
    masks: ImageArray,
    step: int,
    flat: IntArray,
    scratch: IntArray,
    levels: IntArray,
    features: IntArray,
    centres: IntArray,
    ring: FloatArray,
    moments: FloatArray,
) -> None:
    """Do as `grid_moments`, of images (n, h, w) or (n, h, w, 3), in strips of `step` rows.

    In a strip y begins at 0, and all whole numbers of `levels` (inside, x, y, channels, and of gray
    images `features`) are within ±4080.

    Parameters
    ----------
    images : uint8 array, shape (n, h, w) or (n, h, w, 3)
        Gray or colour images.
    masks : uint8 array, shape (n or 0, h, w)
        Masks of 0 and 1; no rows where all pixels count.
    step : int
        Number of rows of a strip.
    flat : array of int
        Room for the padded rows of a strip.
    scratch : array of int
        Room for intermediate values.
    levels : array of int
        Room for whole numbers, one feature a row.
    features : array of int
        Room for derivatives, one a row.
    centres : array of int
        Numbers that are taken off the features.
    ring : array
        Room for features as floats.
    moments : array, shape (n, m, m)
        Output: moments of each image, to which sums are added.
    """
    height, width = images.shape[1:3]
    plane = flat[: (step + 4) * (width + 4)].reshape(step + 4, width + 4)
    views, mask, edges = five_rows(flat, width), levels[0], features[1:]
    exact, sums = np.zeros((len(levels), len(levels)), np.int64), np.zeros(moments.shape[1:])
    everywhere, marked = np.zeros((0, 0), np.uint8), 0
    ring[0] = 1.0
    for i in range(len(images)):
        image, total = images[i], moments[i]
        for top in range(0, height, step):
            rows = min(step, height - top)
            size = -(-rows * (width + 4) // 32) * 32
            if len(masks) or marked != rows:
                marked = rows
                inside = masks[i, top : top + rows] if len(masks) else everywhere
                mark_pixels(mask, inside, rows, width)
                for t in range(rows * (width + 4)):
                    levels[1, t] = t % (width + 4) * mask[t]
                    levels[2, t] = t // (width + 4) * mask[t]
                levels[1:, rows * (width + 4) :] = 0
            if images.ndim == 3:
                load_gray(image, top, plane)
                derivatives(views, scratch, mask, centres, features, size)
                add_products(levels, 0, size, 0, 6, exact)
                add_products(levels, 0, size, 6, 8, exact)
                add_steepest(levels, 4, edges, ring, 0, size, sums)
            else:
                load_luminance(image, top, plane)
                derivatives(views, scratch, mask, centres, features, size)
                load_channels(image[top : top + rows], levels)
                add_products(levels, 0, size, 0, 6, exact)
                for start in range(0, size, PIECE):
                    piece = min(PIECE, size - start)
                    add_steepest(levels, 6, edges, ring, start, piece, sums)
                    add_products(ring, 0, piece, 6, 8, sums)
                    add_products(ring, 0, piece, 8, 10, sums)
            join_strip(exact, sums, top, total)


@compiled
def load_channels(strip: ImageArray, levels: IntArray) -> None:
    """Copy the channels of a strip (rows, w, 3) into rows 3 to 5, 0 where row 0 is.

    Parameters
    ----------
    strip : uint8 array, shape (rows, w, 3)
        Rows of a colour image.
    levels : array of int
        Output: whole numbers, one feature a row.
    """
    rows, width, _ = strip.shape
    for row in range(rows):
        first, line = row * (width + 4), strip[row].reshape(-1)
        inside, red = levels[0, first:], levels[3, first:]
        green, blue = levels[4, first:], levels[5, first:]
        for x in range(width):
            red[x], green[x] = line[3 * x] * inside[x], line[3 * x + 1] * inside[x]
            blue[x] = line[3 * x + 2] * inside[x]


@compiled
def join_strip(exact: IntArray, sums: FloatArray, top: int, total: FloatArray) -> None:
    """Add the sums of a strip from row `top` on to those of its image, and clear them.

    Magnitude² is |Ix|² + |Iy|²; in the image y is more by `top`.

    Parameters
    ----------
    exact : array of int
        Sums of products of whole numbers; set back to 0.
    sums : array, shape (m, m)
        Sums of the strip; set back to 0.
    top : int
        Index of the first row of the strip in the image.
    total : array, shape (m, m)
        Output: sums of the image.
    """
    across, magnitude = len(sums) - 6, len(sums) - 2
    for a in range(len(exact)):
        for b in range(a + 1):
            sums[a, b] += exact[a, b]
    exact[:] = 0
    sums[magnitude, magnitude] = sums[across, across] + sums[across + 1, across + 1]
    sums[2, 2] += top * (2 * sums[2, 0] + top * sums[0, 0])
    sums[2, 1] += top * sums[1, 0]
    sums[2, 0] += top * sums[0, 0]
    for a in range(3, len(sums)):
        sums[a, 2] += top * sums[a, 0]
    for a in range(len(sums)):
        for b in range(a + 1):
            total[a, b] += sums[a, b]
    sums[:] = 0


@compiled
def filter_depth(ring: ImageArray, z: int, depth: int, out: IntArray) -> None:
    """Filter five slices along z: [1, 2, 1], [1, 0, −1], [1, 4, 6, 4, 1], [1, 0, −2, 0, 1].

    Parameters
    ----------
    ring : uint8 array
        Five slices, in a ring.
    z : int
        Index of the slice in the middle.
    depth : int
        Number of slices.
    out : array of int
        Output: the filtered slices.
    """
    r, c, a, b = ring, z % 5, mirror(z - 2, depth) % 5, mirror(z - 1, depth) % 5
    d, e = mirror(z + 1, depth) % 5, mirror(z + 2, depth) % 5
    for x in range(out.shape[1]):
        out[0, x] = r[b, x] + 2 * r[c, x] + r[d, x]
        out[1, x] = r[b, x] - r[d, x]
        out[2, x] = r[a, x] + 4 * r[b, x] + 6 * r[c, x] + 4 * r[d, x] + r[e, x] - 2048
        out[3, x] = r[a, x] - 2 * r[c, x] + r[e, x]


@compiled
def filter_rows(deep: tuple[Views, Views, Views, Views], out: IntArray) -> None:
    """Filter along y what `filter_depth` wrote: what Ix, Iy, Iz, Ixx, Iyy, Izz want of y and z.

    Parameters
    ----------
    deep : tuple of Views
        Slices as `filter_depth` wrote them, as of `five_rows`.
    out : array of int
        Output: the filtered rows.
    """
    (_, b, c, d, _), (_, p, q, r, _) = deep[0], deep[1]
    for x in range(out.shape[1]):
        out[0, x] = b[x] + 2 * c[x] + d[x]
        out[1, x] = b[x] - d[x]
        out[2, x] = p[x] + 2 * q[x] + r[x]
    (a, b, c, d, e), (p, q, r, s, t) = deep[2], deep[3]
    for x in range(out.shape[1]):
        out[3, x] = a[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x]
        out[4, x] = a[x] - 2 * c[x] + e[x]
        out[5, x] = p[x] + 4 * q[x] + 6 * r[x] + 4 * s[x] + t[x]


@compiled
def first_features(middle: ImageArray, f: IntArray, phi: IntArray, size: int) -> None:
    """Write I, 16|Ix|, 16|Iy|, 16|Iz|, centred at mid-range, into rows 1 to 4 of `phi`.

    All are 0 where ``phi[0]``, 1 inside, is. They are made of what `filter_rows` wrote.

    Parameters
    ----------
    middle : uint8 array
        Slice of the volume.
    f : array of int
        Filtered values, as `filter_rows` wrote them.
    phi : array of int
        Output: features, one a row; row 0 is 1 inside and 0 elsewhere.
    size : int
        Number of columns of the strip.
    """
    for x in range(size):
        inside = phi[0, x]
        phi[1, x] = (middle[x] - 128) * inside
        phi[2, x] = (abs(np.int16(f[0, x + 1] - f[0, x + 3])) - 2040) * inside
        phi[3, x] = (abs(np.int16(f[1, x + 1] + 2 * f[1, x + 2] + f[1, x + 3])) - 2040) * inside
        phi[4, x] = (abs(np.int16(f[2, x + 1] + 2 * f[2, x + 2] + f[2, x + 3])) - 2040) * inside


@compiled
def absolute_digits(high: np.int16, low: np.int16, inside: np.int16) -> tuple[np.int16, np.int16]:
    """Return |v|, v = 32·high + low with 0 ≤ low < 32, as such digits, the first centred.

    Both take the sign of v, that of high: where v < 0, |v| = 32·(−high) + (−low). From |v| ≤ 130560
    follows −4080 ≤ high ≤ 4080, so that all are within ±2040.

    Parameters
    ----------
    high : numpy.int16
        High digit of the number.
    low : numpy.int16
        Low digit of the number.
    inside : numpy.int16
        1 where the pixel counts, else 0.
    """
    sign = np.int16(high >> 15)
    first, second = np.int16(np.int16(high ^ sign) - sign), np.int16(np.int16(low ^ sign) - sign)
    return (first - 2040) * inside, second * inside


@compiled
def second_features(f: IntArray, phi: IntArray, size: int) -> None:
    """Write 512·|Ixx|, |Iyy|, |Izz| as digits, the high ones into rows 5 to 7, as `first_features`.

    The digits of 512·Ixx are made of those of what it is a sum of. Of the others 512·I = 4·inner +
    outer, where int16 holds both and ⌊512·I/4⌋ = inner + ⌊outer/4⌋, which is within ±32640.

    Parameters
    ----------
    f : array of int
        Filtered values, as `filter_rows` wrote them.
    phi : array of int
        Output: features, one a row; row 0 is 1 inside and 0 elsewhere.
    size : int
        Number of columns of the strip.
    """
    for x in range(size):
        high = np.int16((f[3, x] >> 5) - 2 * (f[3, x + 2] >> 5) + (f[3, x + 4] >> 5))
        low = np.int16((f[3, x] & 31) - 2 * (f[3, x + 2] & 31) + (f[3, x + 4] & 31))
        high = np.int16(high + (low >> 5))
        phi[5, x], phi[8, x] = absolute_digits(high, np.int16(low & 31), phi[0, x])
    for a in range(4, 6):
        for x in range(size):
            inner = np.int16(f[a, x + 1] + f[a, x + 2] + f[a, x + 3])
            outer = np.int16(f[a, x] + 2 * f[a, x + 2] + f[a, x + 4])
            high = np.int16(np.int16(inner + (outer >> 2)) >> 3)
            low = np.int16((4 * inner + outer) & 31)
            phi[a + 2, x], phi[a + 5, x] = absolute_digits(high, low, phi[0, x])


@compiled
def join_digits(sums: IntArray, moments: IntArray) -> None:
    """Add sums of products of digits to the moments of features, second derivatives 32·high + low.

    The sums are set back to 0.

    Parameters
    ----------
    sums : array of int
        Sums of products of digits; set back to 0.
    moments : array of int
        Output: moments of one image, to which sums are added.
    """
    for a in range(1, 8):
        for b in range(a + 1):
            left, right = DIGIT if a >= 5 else 1, DIGIT if b >= 5 else 1
            total = left * right * sums[a, b]
            if a >= 5:
                total += right * sums[a + 3, b]
            if b >= 5:
                total += left * sums[b + 3, a] + sums[a + 3, b + 3]
            moments[a, b] += total
    sums[:] = 0


@compiled
def vol7_moments(images: ImageArray, masks: ImageArray, moments: IntArray) -> None:
    """Add the exact moments of (1, I, 16|Ix|, |Iy|, |Iz|, 512|Ixx|, |Iyy|, |Izz|), each centred.

    Centred at 128, 2040 and 65280, which changes no covariance: every feature within ±65280, and
    every digit within ±2040, as `add_products` wants.

    Parameters
    ----------
    images : uint8 array, shape (n, d, h, w)
        Volumes.
    masks : uint8 array, shape (n or 0, d, h, w)
        Masks of 0 and 1; no rows where all voxels count.
    moments : array of int
        Output: moments of each image, to which sums are added.
    """
    n, depth, height, width, _ = images.shape
    volumes = images.reshape(n, depth, height, width)
    step, size, room = strip_of(height, width, SLICE_STRIP)
    planes = np.zeros((5, step + 5, width + 4), np.uint8)
    ring = planes.reshape(5, (step + 5) * (width + 4))
    deep, filtered = np.zeros((4, ring.shape[1]), np.int16), np.zeros((6, size + 4), np.int16)
    under = (
        *(five_rows(deep[0], width), five_rows(deep[1], width)),
        *(five_rows(deep[2], width), five_rows(deep[3], width)),
    )
    phi, sums = np.zeros((ROWS, room), np.int16), np.zeros((ROWS, ROWS), np.int64)
    everywhere = np.zeros((0, 0), np.uint8)
    for i in range(n):
        for top in range(0, height, step):
            mark_pixels(phi[0], everywhere, min(step, height - top), width)
            for z in range(-2, depth):
                if z + 2 < depth:
                    load_gray(volumes[i, z + 2], top, planes[(z + 2) % 5, : step + 4])
                if z < 0:
                    continue
                if len(masks):
                    inside = masks[i, z, top : top + step]
                    mark_pixels(phi[0], inside, len(inside), width)
                filter_depth(ring, z, depth, deep)
                filter_rows(under, filtered)
                first_features(ring[z % 5, 2 * (width + 4) + 2 :], filtered, phi, size)
                second_features(filtered, phi, size)
                for start in range(0, room, SUMMED):
                    piece = min(SUMMED, room - start)
                    add_products(phi, start, piece, 0, 6, sums)
                    add_products(phi, start, piece, 6, 8, sums)
                    add_products(phi, start, piece, 8, 10, sums)
                    add_products(phi, start, piece, 10, ROWS, sums)
        join_digits(sums, moments[i])


@compiled
def covariances(
    moments: NDArray[Any], counts: IntArray, units: FloatArray, eta: float, out: FloatArray
) -> None:
    """Write (|S|·Σφφᵀ − Σφ·Σφᵀ)/|S|² + η·Id, in units of `units`, for the moments of each image.

    Parameters
    ----------
    moments : array, shape (n, k + 1, k + 1)
        Moments of (1, φ) of each image.
    counts : array of int
        Number |S| of pixels of each image.
    units : array, shape (k,)
        Unit of each feature.
    eta : float
        Least eigenvalue η > 0 of every exact descriptor.
    out : array, shape (n, k, k)
        Output: the descriptors.
    """
    for i in range(moments.shape[0]):
        pixels = counts[i]
        for a in range(units.size):
            for b in range(a + 1):
                product = moments[i, a + 1, 0] * moments[i, b + 1, 0]
                numerator = pixels * moments[i, a + 1, b + 1] - product
                value = numerator / (float(pixels) * pixels * units[a] * units[b])
                out[i, a, b] = out[i, b, a] = value + eta if a == b else value
