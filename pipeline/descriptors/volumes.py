"""The fused kernel of volumes: from voxels to the moments of `vol7`, as `kernels` does for images.

x runs along the width, y along the height, z along the depth. Each derivative is a product of three
filters of one axis each:

    16·Ix = [1, 0, −1] along x, [1, 2, 1] along y and z                     Iy, Iz likewise
    512·Ixx = [1, 0, −2, 0, 1] along x, [1, 4, 6, 4, 1] along y and z       Iyy, Izz likewise

A volume is worked through in strips of whole rows; along z a ring of five padded slices of the
strip goes with it. Values as they are stored, in kernel units; [1, 4, 6, 4, 1] is of I − 128:

    along z   [1, 2, 1] ≤ 1020   [1, 0, −1] ±255   [1, 4, 6, 4, 1] ±2048   [1, 0, −2, 0, 1] ±510
    then y    16·Ix ±2048   16·Iy, 16·Iz ±1020   512·Ixx −32768..32512   512·Iyy, 512·Izz ±8160
    then x    16·Ix, 16·Iy, 16·Iz ±4080   512·Iyy, 512·Izz after the first of two [1, 2, 1] ±32640

so int16 holds all of them. |512·Ixx| up to 130560 does not fit: it is kept as two digits (see
`absolute_digits`), whose products are put together at the end. No helper is shared with `kernels`:
numba's cache notices changes of a function's own file only.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.geometry.compiling import compiled

LANES = 16
"""Voxels whose products are taken at once: products of two make a sum of LANES/2 lanes."""
BLOCK = 4096
"""Voxels whose products are summed before the sum is widened: a lane holds 2·BLOCK/LANES of them,
each within 2043², and int32 holds their sum."""
STRIP = 1100
"""Voxels of a slice of a strip, about: longer ones leave the first-level cache, and shorter ones
filter more rows twice. Strips of 28×28 have all rows, strips of 64×64 a quarter."""
DIGIT = 32
"""A second derivative is DIGIT · (high + 2040) + low."""
ROWS, TILE = 11, 4
"""Rows of products: inside, I, three first derivatives, high digits, low digits; rows at a time."""

IntArray = NDArray[Any]


def turned(axes: tuple[int, int, int]) -> list[int]:
    """Return which feature of a volume, its axes in another order, is each feature as it was.

    x, y, z run along the last axis, the one before and the first.
    """
    found = [2 - axes.index(axis) for axis in (2, 1, 0)]
    return [0, *(1 + axis for axis in found), *(4 + axis for axis in found)]


Triple = tuple[IntArray, IntArray, IntArray]
Slices = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]


@compiled
def mirror(index: int, size: int) -> int:
    """Return the index of the voxel that a mirror with repeated edge shows: d c b a | a b c d."""
    if 0 <= index < size:
        return index
    index %= 2 * size
    return min(index, 2 * size - 1 - index)


@compiled
def load_slice(image: ImageArray, top: int, plane: IntArray) -> None:
    """Copy rows top − 2 … of a slice (h, w) into `plane` (rows, w + 4), mirrored."""
    height, width = image.shape
    far, beyond = mirror(-2, width) + 2, mirror(width + 1, width) + 2
    for row in range(plane.shape[0]):
        y = mirror(top + row - 2, height)
        for x in range(width):
            plane[row, x + 2] = image[y, x]
        plane[row, 0], plane[row, 1] = plane[row, far], plane[row, 2]
        plane[row, width + 2], plane[row, width + 3] = plane[row, width + 1], plane[row, beyond]


@compiled
def mark_voxels(mask: ImageArray, top: int, rows: int, width: int, marks: IntArray) -> None:
    """Set the flat strip `marks` to −1, all bits, at voxels of the mask (h, w), to 0 elsewhere.

    A mask without rows stands for one that is 1 everywhere.
    """
    marks[:] = 0
    for row in range(rows):
        for x in range(width):
            marks[row * (width + 4) + x] = -np.int16(mask[top + row, x]) if len(mask) else -1


@compiled
def filter_depth(slices: Slices, out: IntArray, size: int) -> None:
    """Filter five slices along z: [1, 2, 1], [1, 0, −1], [1, 4, 6, 4, 1], [1, 0, −2, 0, 1]."""
    a, b, c, d, e = slices
    for x in range(size):
        out[0, x] = b[x] + 2 * c[x] + d[x]
        out[1, x] = b[x] - d[x]
        out[2, x] = a[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x] - 2048
        out[3, x] = a[x] - 2 * c[x] + e[x]


@compiled
def smooth(values: IntArray, reach: int, out: IntArray, size: int) -> None:
    """Filter by [1, 2, 1], of which neighbours are `reach` apart."""
    b, c = values[reach:], values[2 * reach :]
    for x in range(size):
        out[x] = values[x] + 2 * b[x] + c[x]


@compiled
def filter_rows(deep: IntArray, step: int, out: IntArray, size: int) -> None:
    """Filter along y what `filter_depth` wrote: what Ix, Iy, Iz, Ixx, Iyy, Izz want of y and z."""
    b, c, d = deep[0, step:], deep[0, 2 * step :], deep[0, 3 * step :]
    for x in range(size):
        out[0, x] = b[x] + 2 * c[x] + d[x]
        out[1, x] = b[x] - d[x]
    smooth(deep[1, step:], step, out[2], size)
    a, b, c = deep[2], deep[2, step:], deep[2, 2 * step :]
    d, e = deep[2, 3 * step :], deep[2, 4 * step :]
    for x in range(size):
        out[3, x] = a[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x]
        out[4, x] = a[x] - 2 * c[x] + e[x]
    a, b, c = deep[3], deep[3, step:], deep[3, 2 * step :]
    d, e = deep[3, 3 * step :], deep[3, 4 * step :]
    for x in range(size):
        out[5, x] = a[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x]


@compiled
def first_features(middle: IntArray, filtered: IntArray, phi: IntArray, size: int) -> None:
    """Write I, 16|Ix|, 16|Iy|, 16|Iz|, centred at mid-range, into rows 1 to 4 of `phi`.

    All are 0 where ``phi[0]``, −1 inside, is.
    """
    f = filtered
    for x in range(size):
        inside = phi[0, x]
        phi[1, x] = (middle[x] - 128) & inside
        ix = np.int16(f[0, x + 1] - f[0, x + 3])
        iy = np.int16(f[1, x + 1] + 2 * f[1, x + 2] + f[1, x + 3])
        iz = np.int16(f[2, x + 1] + 2 * f[2, x + 2] + f[2, x + 3])
        phi[2, x] = ((ix if ix >= 0 else -ix) - 2040) & inside
        phi[3, x] = ((iy if iy >= 0 else -iy) - 2040) & inside
        phi[4, x] = ((iz if iz >= 0 else -iz) - 2040) & inside


@compiled
def absolute_digits(
    values: Triple, weight: int, inside: IntArray, highs: IntArray, lows: IntArray, size: int
) -> None:
    """Write |v|, v = a + weight·b + c, as two digits.

    The digits of v are the sums of the digits of a, b, c by shift and mask, so that all is int16:
    v = 32·high + low, −62 ≤ low ≤ 124. The sign of v is that of high + ⌊low/32⌋ = ⌊v/32⌋, and
    both digits take it. From 0 ≤ 32·high + low ≤ 130560 then follows −3 ≤ high ≤ 4083: high − 2040
    is within ±2043.
    """
    a, b, c = values
    for x in range(size):
        high = np.int16((a[x] >> 5) + weight * (b[x] >> 5) + (c[x] >> 5))
        low = np.int16((a[x] & 31) + weight * (b[x] & 31) + (c[x] & 31))
        sign = np.int16(np.int16(high + (low >> 5)) >> 15)
        highs[x] = (np.int16(np.int16(high ^ sign) - sign) - 2040) & inside[x]
        lows[x] = np.int16(np.int16(low ^ sign) - sign) & inside[x]


def tiles() -> list[list[tuple[int, int]]]:
    """Return all pairs b ≤ a ≥ 1 of rows, those of TILE rows with TILE others together."""
    pairs = [(a, b) for a in range(1, ROWS) for b in range(a + 1)]
    keys = sorted({(a // TILE, b // TILE) for a, b in pairs})
    return [[(a, b) for a, b in pairs if (a // TILE, b // TILE) == key] for key in keys]


def _add_products(typing: Any, rows: Any, start: Any, stop: Any, sums: Any) -> Any:
    """Add Σ rows[a]·rows[b] over start … stop, at most BLOCK apart, to sums[a, b], b ≤ a ≥ 1.

    `rows` is int16 (ROWS, …) within ±2043, start and stop multiples of LANES: a lane then sums to
    at most 2·4096/16 · 2043² = 2,137,010,688 < 2³¹. Written in LLVM's terms: of loops it makes the
    instruction that multiplies pairs and adds them only where no two products share a row. Here
    TILE rows meet TILE others while they are loaded.
    """

    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        one, word, lanes = ir.IntType(32), ir.IntType(64), LANES // 2
        loaded, wide = ir.VectorType(ir.IntType(16), LANES), ir.VectorType(one, LANES)
        sum_of, widened = ir.VectorType(one, lanes), ir.VectorType(word, lanes)
        evens, odds = (sum_of(list(range(first, LANES, 2))) for first in (0, 1))
        name, kind = f"llvm.vector.reduce.add.v{lanes}i64", ir.FunctionType(word, [widened])
        fold = cgutils.get_or_insert_function(builder.module, kind, name)

        def place(argument: int, *indices: Any) -> Any:
            kind = signature.args[argument]
            array = context.make_array(kind)(context, builder, values[argument])
            return cgutils.get_item_pointer(context, builder, kind, array, indices)

        def load(row: int, column: Any) -> Any:
            there = builder.bitcast(place(0, word(row), column), loaded.as_pointer())
            return builder.sext(builder.load(there, align=2), wide)

        for pairs in tiles():
            totals = [cgutils.alloca_once_value(builder, sum_of(None)) for _ in pairs]
            with cgutils.for_range_slice(builder, values[1], values[2], word(LANES)) as (column, _):
                held = {row: load(row, column) for row in sorted({*sum(pairs, ())})}
                for (a, b), total in zip(pairs, totals, strict=True):
                    products = builder.mul(held[a], held[b])
                    two = [builder.shuffle_vector(products, products, at) for at in (evens, odds)]
                    builder.store(builder.add(builder.load(total), builder.add(*two)), total)
            for (a, b), total in zip(pairs, totals, strict=True):
                found = builder.call(fold, [builder.sext(builder.load(total), widened)])
                there = place(3, word(a), word(b))
                builder.store(builder.add(builder.load(there), found), there)
        return context.get_dummy_value()

    return types.void(rows, start, stop, sums), emit


add_products: Any = intrinsic(_add_products)


@compiled
def join_digits(sums: IntArray, moments: IntArray) -> None:
    """Add the moments of features, second derivatives 32·high + low, from those of digits."""
    for a in range(1, 8):
        for b in range(a + 1):
            left, right = DIGIT if a >= 5 else 1, DIGIT if b >= 5 else 1
            total = left * right * sums[a, b]
            if a >= 5:
                total += right * sums[a + 3, b]
            if b >= 5:
                total += left * sums[b + 3, a] + sums[a + 3, b + 3]
            moments[a, b] += total if b else -total  # row 0 holds −1


@compiled
def aligned(count: int, length: int) -> IntArray:
    """Return int16 zeros, (count, length or up to 31 more), rows on lines of the cache."""
    pitch = -(-length // 32) * 32
    flat = np.zeros(count * pitch + 32, np.int16)
    start = (-flat.ctypes.data % 64) // 2
    return flat[start : start + count * pitch].reshape(count, pitch)


@compiled
def vol7_moments(images: ImageArray, masks: ImageArray, moments: IntArray) -> None:
    """Add the exact moments of (1, I, 16|Ix|, |Iy|, |Iz|, 512|Ixx|, |Iyy|, |Izz|), each centred.

    Centred at 128, 2040 and 65280, which changes no covariance: every feature within ±65280.
    """
    n, depth, height, width, _ = images.shape
    voxels = images.reshape(n, depth, height, width)
    step = width + 4
    strips = -(-height // min(height, max(1, STRIP // step)))
    rows = -(-height // strips)
    size, padded = rows * step, (rows + 4) * step
    ring = np.zeros((5, padded + 4), np.uint8)
    deep, filtered = aligned(4, padded + 4), aligned(6, size + 4)
    phi, smoothed = aligned(ROWS, size), aligned(1, size + 4)[0]
    # made once: a view counts its references, which takes as long as some voxels
    mask, down, deeper = phi[0], filtered[4], filtered[5]
    across = (filtered[3], filtered[3, 2:], filtered[3, 4:])
    twice = (smoothed, smoothed[1:], smoothed[2:])
    highs, lows = (phi[5], phi[6], phi[7]), (phi[8], phi[9], phi[10])
    for i in range(n):
        sums = np.zeros((ROWS, ROWS), np.int64)
        for top in range(0, height, rows):
            inside = min(rows, height - top)
            mark_voxels(np.zeros((0, 0), np.uint8), top, inside, width, mask)
            for z in range(-2, depth):
                if z + 2 < depth:
                    plane = ring[(z + 2) % 5, :padded].reshape(rows + 4, step)
                    load_slice(voxels[i, z + 2], top, plane)
                if z < 0:
                    continue
                if len(masks):
                    mark_voxels(masks[i, z], top, inside, width, mask)
                a, b = ring[mirror(z - 2, depth) % 5], ring[mirror(z - 1, depth) % 5]
                d, e = ring[mirror(z + 1, depth) % 5], ring[mirror(z + 2, depth) % 5]
                filter_depth((a, b, ring[z % 5], d, e), deep, padded)
                filter_rows(deep, step, filtered, size + 4)
                first_features(ring[z % 5, 2 * step + 2 :], filtered, phi, size)
                absolute_digits(across, -2, mask, highs[0], lows[0], size)
                smooth(down, 1, smoothed, size + 2)
                absolute_digits(twice, 2, mask, highs[1], lows[1], size)
                smooth(deeper, 1, smoothed, size + 2)
                absolute_digits(twice, 2, mask, highs[2], lows[2], size)
                for start in range(0, phi.shape[1], BLOCK):
                    add_products(phi, start, min(start + BLOCK, phi.shape[1]), sums)
        join_digits(sums, moments[i])
