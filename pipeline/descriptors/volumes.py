"""The fused kernel of volumes: from voxels to the moments of `vol7`, as `kernels` does for images.

x runs along the width, y along the height, z along the depth. Each derivative is a product of three
filters of one axis each:

    16·Ix = [1, 0, −1] along x, [1, 2, 1] along y and z                     Iy, Iz likewise
    512·Ixx = [1, 0, −2, 0, 1] along x, [1, 4, 6, 4, 1] along y and z       Iyy, Izz likewise

A volume is worked through in strips of whole rows; along z a ring of five padded slices of the
strip goes with it. Values as they are stored, in kernel units; [1, 4, 6, 4, 1] is of I − 128:

    along z   [1, 2, 1] ≤ 1020   [1, 0, −1] ±255   [1, 4, 6, 4, 1] ±2048   [1, 0, −2, 0, 1] ±510
    then y    16·Ix ±2048   16·Iy, 16·Iz ±1020   512·Ixx −32768..32512   512·Iyy, 512·Izz ±8160
    then x    16·Ix, 16·Iy, 16·Iz ±4080

so int16 holds all of them. |512·Ixx| up to 130560 does not fit: it is kept as two digits, whose
products are put together at the end. Buffers are whole lines of the cache, at different places of
a page, as reads wait for writes 4096 bytes away, and are filtered whole: fewer voxels than a vector
has take as long as several. What that makes of padding counts as 0 in `phi`. No helper is shared
with `kernels`: numba's cache notices changes of a function's own file only.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.threads import compiled

LANES = 16
"""Voxels whose products are taken at once: products of two make a sum of LANES/2 lanes."""
BLOCK = 4096
"""Voxels whose products int32 holds the sum of in a lane (see `_add_products`)."""
STRIP = 1100
"""Voxels of a slice of a strip, about: longer ones leave the first-level cache, and shorter ones
filter more rows twice. Strips of 28×28 have all rows, strips of 64×64 a quarter."""
DIGIT = 32
"""A second derivative is DIGIT · (high + 2040) + low."""
ROWS, TILE = 11, 4
"""Rows of products: inside, I, three first derivatives, high digits, low digits; rows at a time."""

IntArray = NDArray[Any]
Views = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]


@compiled
def mirror(index: int, size: int) -> int:
    """Return the index of the voxel that a mirror with repeated edge shows: d c b a | a b c d."""
    if 0 <= index < size:
        return index
    index %= 2 * size
    return min(index, 2 * size - 1 - index)


def _item(kit: Any, array: int, *indices: Any) -> Any:
    """Return where an item of one of the arguments lies; `kit` is what numba gives to `emit`."""
    context, builder, signature, values = kit
    kind = signature.args[array]
    found = context.make_array(kind)(context, builder, values[array])
    return cgutils.get_item_pointer(context, builder, kind, found, indices)


def _copy_row(typing: Any, to: Any, at: Any, row: Any, of: Any, where: Any, width: Any) -> Any:
    """Copy a row, of[where], to to[at, row, 2:] as the system does: byte by byte takes longer."""

    def emit(*kit: Any) -> Any:
        (context, builder, _, values), column = kit, ir.IntType(64)
        source = _item(kit, 3, *cgutils.unpack_tuple(builder, values[4]), column(0))
        cgutils.raw_memcpy(builder, _item(kit, 0, *values[1:3], column(2)), source, values[5], 1)
        return context.get_dummy_value()

    return types.void(to, at, row, of, where, width), emit


@compiled
def load_slice(volumes: ImageArray, i: int, z: int, top: int, planes: ImageArray) -> None:
    """Copy rows top − 2 … of a slice into its plane of the ring, (…, w + 4), mirrored."""
    _, _, height, width = volumes.shape
    at, far, beyond = z % 5, mirror(-2, width) + 2, mirror(width + 1, width) + 2
    for row in range(planes.shape[1]):
        copy_row(planes, at, row, volumes, (i, z, mirror(top + row - 2, height)), width)
        for to, of in ((0, far), (1, 2), (width + 2, width + 1), (width + 3, beyond)):
            planes[at, row, to] = planes[at, row, of]


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
def filter_depth(ring: ImageArray, z: int, depth: int, out: IntArray) -> None:
    """Filter five slices along z: [1, 2, 1], [1, 0, −1], [1, 4, 6, 4, 1], [1, 0, −2, 0, 1]."""
    r, c, a, b = ring, z % 5, mirror(z - 2, depth) % 5, mirror(z - 1, depth) % 5
    d, e = mirror(z + 1, depth) % 5, mirror(z + 2, depth) % 5
    for x in range(out.shape[1]):
        out[0, x] = r[b, x] + 2 * r[c, x] + r[d, x]
        out[1, x] = r[b, x] - r[d, x]
        out[2, x] = r[a, x] + 4 * r[b, x] + 6 * r[c, x] + 4 * r[d, x] + r[e, x] - 2048
        out[3, x] = r[a, x] - 2 * r[c, x] + r[e, x]


@compiled
def moved(flat: IntArray, step: int) -> Views:
    """Return five views of a flat array, each a step further on."""
    return flat, flat[step:], flat[2 * step :], flat[3 * step :], flat[4 * step :]


@compiled
def filter_rows(deep: tuple[Views, Views, Views, Views], out: IntArray) -> None:
    """Filter along y what `filter_depth` wrote: what Ix, Iy, Iz, Ixx, Iyy, Izz want of y and z."""
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
def first_features(middle: ImageArray, f: IntArray, phi: IntArray) -> None:
    """Write I, 16|Ix|, 16|Iy|, 16|Iz|, centred at mid-range, into rows 1 to 4 of `phi`.

    All are 0 where ``phi[0]``, −1 inside, is. They are made of what `filter_rows` wrote.
    """
    for x in range(phi.shape[1]):
        inside = phi[0, x]
        phi[1, x] = (middle[x] - 128) & inside
        phi[2, x] = (abs(np.int16(f[0, x + 1] - f[0, x + 3])) - 2040) & inside
        phi[3, x] = (abs(np.int16(f[1, x + 1] + 2 * f[1, x + 2] + f[1, x + 3])) - 2040) & inside
        phi[4, x] = (abs(np.int16(f[2, x + 1] + 2 * f[2, x + 2] + f[2, x + 3])) - 2040) & inside


@compiled
def absolute_digits(high: np.int16, low: np.int16, inside: np.int16) -> tuple[np.int16, np.int16]:
    """Return |v|, v = 32·high + low with 0 ≤ low < 32, as such digits, the first centred.

    Both take the sign of v, that of high: where v < 0, |v| = 32·(−high) + (−low). From |v| ≤ 130560
    follows −4080 ≤ high ≤ 4080, so that all are within ±2040.
    """
    sign = np.int16(high >> 15)
    first, second = np.int16(np.int16(high ^ sign) - sign), np.int16(np.int16(low ^ sign) - sign)
    return (first - 2040) & inside, second & inside


@compiled
def second_features(f: IntArray, phi: IntArray) -> None:
    """Write 512·|Ixx|, |Iyy|, |Izz| as digits, the high ones into rows 5 to 7, as `first_features`.

    The digits of 512·Ixx are made of those of what it is a sum of. Of the others 512·I = 4·inner +
    outer, where int16 holds both and ⌊512·I/4⌋ = inner + ⌊outer/4⌋, which is within ±32640.
    """
    for x in range(phi.shape[1]):
        high = np.int16((f[3, x] >> 5) - 2 * (f[3, x + 2] >> 5) + (f[3, x + 4] >> 5))
        low = np.int16((f[3, x] & 31) - 2 * (f[3, x + 2] & 31) + (f[3, x + 4] & 31))
        high = np.int16(high + (low >> 5))
        phi[5, x], phi[8, x] = absolute_digits(high, np.int16(low & 31), phi[0, x])
    for a in range(4, 6):
        for x in range(phi.shape[1]):
            inner = np.int16(f[a, x + 1] + f[a, x + 2] + f[a, x + 3])
            outer = np.int16(f[a, x] + 2 * f[a, x + 2] + f[a, x + 4])
            high = np.int16(np.int16(inner + (outer >> 2)) >> 3)
            low = np.int16((4 * inner + outer) & 31)
            phi[a + 2, x], phi[a + 5, x] = absolute_digits(high, low, phi[0, x])


def tiles() -> list[list[tuple[int, int]]]:
    """Return all pairs b ≤ a ≥ 1 of rows, those of TILE rows with TILE others together."""
    pairs = [(a, b) for a in range(1, ROWS) for b in range(a + 1)]
    keys = sorted({(a // TILE, b // TILE) for a, b in pairs})
    return [[(a, b) for a, b in pairs if (a // TILE, b // TILE) == key] for key in keys]


def _add_products(typing: Any, rows: Any, start: Any, stop: Any, lanes: Any) -> Any:
    """Add the products rows[a]·rows[b] over start … stop to lanes[a, b], b ≤ a ≥ 1, 8 sums of each.

    `rows` is int16 (ROWS, …) within ±2040, start and stop multiples of LANES: over BLOCK voxels a
    lane sums to at most 2·4096/16 · 2040² = 2,130,739,200 < 2³¹. In LLVM's terms, which makes of a
    loop the instruction that multiplies pairs and adds them only where no products share a row.
    """

    def emit(*kit: Any) -> Any:
        (context, builder, _, values), one, word = kit, ir.IntType(32), ir.IntType(64)
        loaded, wide = ir.VectorType(ir.IntType(16), LANES), ir.VectorType(one, LANES)
        sum_of = ir.VectorType(one, LANES // 2)
        evens, odds = (sum_of(list(range(first, LANES, 2))) for first in (0, 1))

        def load(row: int, column: Any) -> Any:
            there = builder.bitcast(_item(kit, 0, word(row), column), loaded.as_pointer())
            return builder.sext(builder.load(there, align=2), wide)

        for pairs in tiles():
            places = [_item(kit, 3, word(a), word(b), word(0)) for a, b in pairs]
            places = [builder.bitcast(place, sum_of.as_pointer()) for place in places]
            totals = [
                cgutils.alloca_once_value(builder, builder.load(at, align=4)) for at in places
            ]
            with cgutils.for_range_slice(builder, values[1], values[2], word(LANES)) as (column, _):
                held = {row: load(row, column) for row in sorted({*sum(pairs, ())})}
                for (a, b), total in zip(pairs, totals, strict=True):
                    products = builder.mul(held[a], held[b])
                    two = [builder.shuffle_vector(products, products, at) for at in (evens, odds)]
                    builder.store(builder.add(builder.load(total), builder.add(*two)), total)
            for total, place in zip(totals, places, strict=True):
                builder.store(builder.load(total), place, align=4)
        return context.get_dummy_value()

    return types.void(rows, start, stop, lanes), emit


copy_row: Any = intrinsic(_copy_row)
add_products: Any = intrinsic(_add_products)


@compiled
def join_digits(lanes: IntArray, moments: IntArray) -> None:
    """Move what lanes hold to the moments of features, second derivatives 32·high + low."""
    sums = np.empty((ROWS, ROWS), np.int64)
    for pair in np.ndindex(ROWS, ROWS):
        sums[pair] = lanes[pair].sum()
    lanes[:] = 0
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
def aligned(count: int, length: int, at: int) -> IntArray:
    """Return int16 zeros, (count, length or up to 31 more), `at` bytes after a page begins."""
    pitch = -(-length // 32) * 32
    flat = np.zeros(count * pitch + 2048, np.int16)
    start = (at - flat.ctypes.data) % 4096 // 2
    return flat[start : start + count * pitch].reshape(count, pitch)


@compiled
def vol7_moments(images: ImageArray, masks: ImageArray, moments: IntArray) -> None:
    """Add the exact moments of (1, I, 16|Ix|, |Iy|, |Iz|, 512|Ixx|, |Iyy|, |Izz|), each centred.

    Centred at 128, 2040 and 65280, which changes no covariance: every feature within ±65280.
    """
    n, depth, height, width, _ = images.shape
    volumes, step = images.reshape(n, depth, height, width), width + 4
    strips = -(-height // min(height, max(1, STRIP // step)))
    rows = -(-height // strips)
    phi = aligned(ROWS, rows * step, 512)
    filtered = aligned(6, phi.shape[1] + 4, 1536)
    deep = aligned(4, filtered.shape[1] + 4 * step, 0)
    planes = np.zeros((5, -(-deep.shape[1] // step), step), np.uint8)
    lanes = np.zeros((ROWS, ROWS, LANES // 2), np.int32)
    # made once: a view counts its references, which takes as long as some voxels
    ring, mask, nowhere = planes.reshape(5, -1), phi[0], np.zeros((0, 0), np.uint8)
    middles = moved(ring.reshape(-1)[2 * step + 2 :], ring.shape[1])
    under = moved(deep[0], step), moved(deep[1], step), moved(deep[2], step), moved(deep[3], step)
    for i in range(n):
        summed = 0
        for top in range(0, height, rows):
            inside = min(rows, height - top)
            mark_voxels(nowhere, top, inside, width, mask)
            for z in range(-2, depth):
                if z + 2 < depth:
                    load_slice(volumes, i, z + 2, top, planes)
                if z < 0:
                    continue
                if len(masks):
                    mark_voxels(masks[i, z], top, inside, width, mask)
                filter_depth(ring, z, depth, deep)
                filter_rows(under, filtered)
                first_features(middles[z % 5], filtered, phi)
                second_features(filtered, phi)
                for start in range(0, phi.shape[1], BLOCK):
                    stop = min(start + BLOCK, phi.shape[1])
                    if summed + stop - start > BLOCK:
                        join_digits(lanes, moments[i])
                        summed = 0
                    add_products(phi, start, stop, lanes)
                    summed += stop - start
        join_digits(lanes, moments[i])
