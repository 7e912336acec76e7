"""The fused kernel of volumes: from voxels to the moments of `vol7`, as `kernels` does for images.

x runs along the width, y along the height, z along the depth. Each derivative is a product of three
filters of one axis each:

    16·Ix = [1, 0, −1] along x, [1, 2, 1] along y and z                     Iy, Iz likewise
    512·Ixx = [1, 0, −2, 0, 1] along x, [1, 4, 6, 4, 1] along y and z       Iyy, Izz likewise

A volume is worked through in strips of whole rows; along z a ring of five padded slices of the
strip goes with it. Values as they are stored, of I − 128 in [−128, 127] and in kernel units:

    along z   [1, 2, 1] ±512   [1, 0, −1] ±255   [1, 4, 6, 4, 1] ±2048   [1, 0, −2, 0, 1] ±510
    then y    16·Ix ±2048   16·Iy, 16·Iz ±1020   512·Ixx −32768..32512   512·Iyy, 512·Izz ±8160
    then x    16·Ix, 16·Iy, 16·Iz ±4080   512·Iyy, 512·Izz after the first of two [1, 2, 1] ±32640

so int16 holds all of them. |512·Ixx| up to 130560 does not fit: it is kept as two digits (see
`absolute_digits`), whose products are put together at the end. No helper is shared with `kernels`:
numba's cache notices changes of a function's own file only.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.geometry.compiling import compiled

BLOCK = 448
"""Voxels whose products are summed before the sum is widened: int32 holds BLOCK · 2043²."""
STRIP = 896
"""Voxels of a slice of a strip, about: whole blocks, here for slices of 28×28 and of 64×64."""
DIGIT = 32
"""A second derivative is DIGIT · (high + 2040) + low."""

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
    """Copy I − 128 of rows top − 2 … of a slice (h, w) into `plane` (rows, w + 4), mirrored."""
    height, width = image.shape
    far, beyond = mirror(-2, width) + 2, mirror(width + 1, width) + 2
    for row in range(plane.shape[0]):
        y = mirror(top + row - 2, height)
        for x in range(width):
            plane[row, x + 2] = np.int16(image[y, x]) - 128
        plane[row, 0], plane[row, 1] = plane[row, far], plane[row, 2]
        plane[row, width + 2], plane[row, width + 3] = plane[row, width + 1], plane[row, beyond]


@compiled
def mark_voxels(mask: ImageArray, top: int, rows: int, width: int, marks: IntArray) -> None:
    """Set the flat strip `marks` to 1 at voxels of the mask (h, w), to 0 elsewhere.

    A mask without rows stands for one that is 1 everywhere.
    """
    marks[:] = 0
    for row in range(rows):
        for x in range(width):
            marks[row * (width + 4) + x] = mask[top + row, x] if len(mask) else 1


@compiled
def filter_depth(slices: Slices, out: IntArray, size: int) -> None:
    """Filter five slices along z: [1, 2, 1], [1, 0, −1], [1, 4, 6, 4, 1], [1, 0, −2, 0, 1]."""
    a, b, c, d, e = slices
    for x in range(size):
        out[0, x] = b[x] + 2 * c[x] + d[x]
        out[1, x] = b[x] - d[x]
        out[2, x] = a[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x]
        out[3, x] = a[x] - 2 * c[x] + e[x]


@compiled
def smooth(values: IntArray, reach: int, out: IntArray, size: int) -> None:
    """Filter by [1, 2, 1], of which neighbours are `reach` apart."""
    b, c = values[reach:], values[2 * reach :]
    for x in range(size):
        out[x] = values[x] + 2 * b[x] + c[x]


@compiled
def slope(values: IntArray, reach: int, out: IntArray, size: int) -> None:
    """Filter by [1, 0, −1]."""
    c = values[2 * reach :]
    for x in range(size):
        out[x] = values[x] - c[x]


@compiled
def broaden(values: IntArray, reach: int, out: IntArray, size: int) -> None:
    """Filter by [1, 4, 6, 4, 1]."""
    b, c, d, e = values[reach:], values[2 * reach :], values[3 * reach :], values[4 * reach :]
    for x in range(size):
        out[x] = values[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x]


@compiled
def bend(values: IntArray, reach: int, out: IntArray, size: int) -> None:
    """Filter by [1, 0, −2, 0, 1]."""
    c, e = values[2 * reach :], values[4 * reach :]
    for x in range(size):
        out[x] = values[x] - 2 * c[x] + e[x]


@compiled
def filter_rows(deep: IntArray, step: int, out: IntArray, size: int) -> None:
    """Filter along y what `filter_depth` wrote: what Ix, Iy, Iz, Ixx, Iyy, Izz want of y and z."""
    smooth(deep[0, step:], step, out[0], size)
    slope(deep[0, step:], step, out[1], size)
    smooth(deep[1, step:], step, out[2], size)
    broaden(deep[2], step, out[3], size)
    bend(deep[2], step, out[4], size)
    broaden(deep[3], step, out[5], size)


@compiled
def first_features(middle: IntArray, filtered: IntArray, phi: IntArray, size: int) -> None:
    """Write I, 16|Ix|, 16|Iy|, 16|Iz|, centred at mid-range, into rows 1 to 4 of `phi`."""
    f = filtered
    for x in range(size):
        inside = phi[0, x]
        phi[1, x] = middle[x] * inside
        ix = np.int16(f[0, x + 1] - f[0, x + 3])
        iy = np.int16(f[1, x + 1] + 2 * f[1, x + 2] + f[1, x + 3])
        iz = np.int16(f[2, x + 1] + 2 * f[2, x + 2] + f[2, x + 3])
        phi[2, x] = ((ix if ix >= 0 else -ix) - 2040) * inside
        phi[3, x] = ((iy if iy >= 0 else -iy) - 2040) * inside
        phi[4, x] = ((iz if iz >= 0 else -iz) - 2040) * inside


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
        highs[x] = (np.int16(np.int16(high ^ sign) - sign) - 2040) * inside[x]
        lows[x] = np.int16(np.int16(low ^ sign) - sign) * inside[x]


@compiled
def add_products(rows: IntArray, sums: IntArray) -> None:
    """Add Σ rows[a]·rows[b] to sums[a, b], b ≤ a, exactly.

    `rows` is int16 (11, blocks, BLOCK) within ±2043: a block then sums to at most
    448 · 2043² = 1,869,884,352 < 2³¹. Around a circle of 11 rows each meets itself and the five
    after it: these are all pairs, and three products at once share the loads of rows[a].
    """
    for block in range(rows.shape[1]):
        for a in range(11):
            for after in range(0, 6, 3):
                b, c, d = (a + after) % 11, (a + after + 1) % 11, (a + after + 2) % 11
                one, two, three = np.int32(0), np.int32(0), np.int32(0)
                for j in range(BLOCK):
                    product = np.int32(np.int32(rows[a, block, j]) * np.int32(rows[b, block, j]))
                    one = np.int32(one + product)
                for j in range(BLOCK):
                    product = np.int32(np.int32(rows[a, block, j]) * np.int32(rows[c, block, j]))
                    two = np.int32(two + product)
                for j in range(BLOCK):
                    product = np.int32(np.int32(rows[a, block, j]) * np.int32(rows[d, block, j]))
                    three = np.int32(three + product)
                sums[max(a, b), min(a, b)] += one
                sums[max(a, c), min(a, c)] += two
                sums[max(a, d), min(a, d)] += three


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
            moments[a, b] += total


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
    rows = min(height, max(1, STRIP // step))
    size, padded = rows * step, (rows + 4) * step
    ring = aligned(5, padded + 4)
    deep = aligned(4, padded + 4)
    filtered = aligned(6, size + 4)
    smoothed = aligned(1, size + 4)[0]
    blocks = -(-size // BLOCK)
    phi = aligned(11, blocks * BLOCK)
    blocked = phi.reshape(11, blocks, BLOCK)
    mask = phi[0]
    across = (filtered[3], filtered[3, 2:], filtered[3, 4:])
    twice = (smoothed, smoothed[1:], smoothed[2:])
    everywhere = np.zeros((0, 0), np.uint8)
    for i in range(n):
        sums = np.zeros((11, 11), np.int64)
        for top in range(0, height, rows):
            inside = min(rows, height - top)
            mark_voxels(everywhere, top, inside, width, mask)
            for z in range(-4, depth):
                plane = ring[(z + 4) % 5, :padded].reshape(rows + 4, step)
                load_slice(voxels[i, mirror(z + 2, depth)], top, plane)
                if z < 0:
                    continue
                if len(masks):
                    mark_voxels(masks[i, z], top, inside, width, mask)
                a, b, c = ring[z % 5], ring[(z + 1) % 5], ring[(z + 2) % 5]
                filter_depth((a, b, c, ring[(z + 3) % 5], ring[(z + 4) % 5]), deep, padded)
                filter_rows(deep, step, filtered, size + 4)
                first_features(c[2 * step + 2 :], filtered, phi, size)
                absolute_digits(across, -2, mask, phi[5], phi[8], size)
                smooth(filtered[4], 1, smoothed, size + 2)
                absolute_digits(twice, 2, mask, phi[6], phi[9], size)
                smooth(filtered[5], 1, smoothed, size + 2)
                absolute_digits(twice, 2, mask, phi[7], phi[10], size)
                add_products(blocked, sums)
        join_digits(sums, moments[i])
