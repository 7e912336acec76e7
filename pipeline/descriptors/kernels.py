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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray, ImageArray
from pipeline.parallel import compiled

PIXELS_SUMMED = 128
"""Pixels whose products are summed before the sum is widened: int32 holds BLOCK · 4095²."""
STRIP = 4096
"""Pixels of a strip, about: a strip and its features stay in the first-level cache."""
SLICE_STRIP = 1100
"""Voxels of a slice of a strip, about: longer ones leave the first-level cache, and shorter ones
filter more rows twice. Strips of 28×28 have all rows, strips of 64×64 a quarter."""
DIGIT = 32
"""A second derivative of a volume is DIGIT · (high + 2040) + low."""
ROWS = 11
"""Rows of products of `vol7`: inside, I, three first derivatives, high digits, low digits."""

OCT5_CENTRES = (128, 510, 510, 4080, 4080)
"""Mid-range of each feature of `oct5_moments`, which it takes off."""

IntArray = NDArray[Any]
Views = tuple[IntArray, IntArray, IntArray, IntArray, IntArray]


@compiled
def mirror(index: int, size: int) -> int:
    """Return the index of the pixel that a mirror with repeated edge shows: d c b a | a b c d."""
    if 0 <= index < size:
        return index
    index %= 2 * size
    return min(index, 2 * size - 1 - index)


@compiled
def strip_of(height: int, width: int, pixels: int) -> tuple[int, int, int]:
    """Return rows, pixels (four of padding a row) and blocks of a strip of about `pixels`."""
    rows = min(height, max(1, pixels // (width + 4)))
    size = rows * (width + 4)
    return rows, size, -(-size // PIXELS_SUMMED)


@compiled
def five_rows(flat: IntArray, width: int) -> Views:
    """Return views of a flat padded strip, each one row further down: rows y − 2 to y + 2."""
    step = width + 4
    return flat, flat[step:], flat[2 * step :], flat[3 * step :], flat[4 * step :]


@compiled
def mirror_sides(plane: IntArray, width: int) -> None:
    """Fill the two columns on each side of `plane`, (rows, width + 4), by mirroring."""
    columns = (mirror(-2, width), mirror(-1, width), mirror(width, width), mirror(width + 1, width))
    for row in range(plane.shape[0]):
        plane[row, 0] = plane[row, columns[0] + 2]
        plane[row, 1] = plane[row, columns[1] + 2]
        plane[row, width + 2] = plane[row, columns[2] + 2]
        plane[row, width + 3] = plane[row, columns[3] + 2]


@compiled
def load_gray(image: ImageArray, top: int, plane: IntArray) -> None:
    """Copy rows top − 2 … of a gray image (h, w), mirrored at the border, into `plane`."""
    height, width = image.shape
    for row in range(plane.shape[0]):
        y = mirror(top + row - 2, height)
        for x in range(width):
            plane[row, x + 2] = image[y, x]
    mirror_sides(plane, width)


@compiled
def load_luminance(image: ImageArray, top: int, plane: IntArray) -> None:
    """Do as `load_gray` for 10⁴·(0.2125 R + 0.7154 G + 0.0721 B) of a colour image (h, w, 3)."""
    height, width, _ = image.shape
    for row in range(plane.shape[0]):
        y = mirror(top + row - 2, height)
        for x in range(width):
            red, green, blue = image[y, x, 0], image[y, x, 1], image[y, x, 2]
            plane[row, x + 2] = 2125 * red + 7154 * green + 721 * blue
    mirror_sides(plane, width)


@compiled
def derivatives(views: Views, scratch: IntArray, out: IntArray, size: int) -> None:
    """Write I, 4 Ix, 4 Iy, 32 Ixx, 32 Iyy of a strip into the rows of `out`, as exact integers.

    Ix is (1/4)·[1, 2, 1]ᵀ[1, 0, −1] and Ixx is (1/32)·[1, 4, 6, 4, 1]ᵀ[1, 0, −2, 0, 1], Iy and Iyy
    their transposes; each is applied as a column filter, then a row filter. If I is in [0, b], no
    intermediate value leaves [−32 b, 32 b]: int16 holds b = 255, int32 holds b = 2,550,000.
    """
    a, b, c, d, e = views
    for x in range(size + 4):
        scratch[0, x] = b[x] + 2 * c[x] + d[x]
        scratch[1, x] = b[x] - d[x]
        scratch[2, x] = a[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x]
        scratch[3, x] = a[x] - 2 * c[x] + e[x]
    s = scratch
    for x in range(size):
        out[0, x] = c[x + 2]
        out[1, x] = s[0, x + 1] - s[0, x + 3]
        out[2, x] = s[1, x + 1] + 2 * s[1, x + 2] + s[1, x + 3]
        out[3, x] = s[2, x] - 2 * s[2, x + 2] + s[2, x + 4]
        out[4, x] = s[3, x] + 4 * s[3, x + 1] + 6 * s[3, x + 2] + 4 * s[3, x + 3] + s[3, x + 4]


@compiled
def mark_pixels(mask: IntArray, inside: ImageArray, rows: int, width: int) -> None:
    """Set the flat strip `mask` to 1 at pixels of the first `rows` rows, to 0 at padding.

    Where `inside`, (rows, width), has rows, only at pixels where it is 1.
    """
    mask[:] = 0
    for row in range(rows):
        for x in range(width):
            mask[row * (width + 4) + x] = inside[row, x] if len(inside) else 1


@compiled
def add_exact(rows: IntArray, moments: IntArray) -> None:
    """Add Σ rows[a]·rows[b] to moments[a, b], b ≤ a ≥ 1, exactly.

    `rows` is int16 (k + 1, blocks, BLOCK) within ±4095: a block then sums to at most
    128 · 4095² = 2,146,435,200 < 2³¹.
    """
    for a in range(1, rows.shape[0]):
        for b in range(a + 1):
            for block in range(rows.shape[1]):
                total = np.int32(0)
                for j in range(PIXELS_SUMMED):
                    product = np.int32(np.int32(rows[a, block, j]) * np.int32(rows[b, block, j]))
                    total = np.int32(total + product)
                moments[a, b] += total


@compiled
def add_float(rows: FloatArray, lanes: FloatArray, moments: FloatArray) -> None:
    """Add Σ rows[a]·rows[b] to moments[a, b], b ≤ a ≥ 1, in one fixed order.

    `rows` is float64 (k + 1, blocks, BLOCK). BLOCK running sums in `lanes`, folded in halves, let
    the compiler use vector instructions without reordering anything.
    """
    for a in range(1, rows.shape[0]):
        for b in range(a + 1):
            lanes[:] = 0.0
            for block in range(rows.shape[1]):
                for j in range(PIXELS_SUMMED):
                    lanes[j] += rows[a, block, j] * rows[b, block, j]
            half = PIXELS_SUMMED // 2
            while half:
                for j in range(half):
                    lanes[j] += lanes[j + half]
                half //= 2
            moments[a, b] += lanes[0]


@compiled
def oct5_moments(images: ImageArray, masks: ImageArray, moments: IntArray) -> None:
    """Add the exact moments of (1, I, 4|Ix|, 4|Iy|, 32|Ixx|, 32|Iyy|), each centred at mid-range.

    Centring keeps every value within ±4080, as `add_exact` wants, and changes no covariance.
    """
    n, height, width, _ = images.shape
    gray = images.reshape(n, height, width)
    step, size, blocks = strip_of(height, width, STRIP)
    flat = np.zeros((step + 4) * (width + 4) + 4, np.int16)
    plane = flat[: (step + 4) * (width + 4)].reshape(step + 4, width + 4)
    views = five_rows(flat, width)
    scratch = np.empty((4, size + 4), np.int16)
    rows = np.zeros((6, blocks, PIXELS_SUMMED), np.int16)
    phi = rows.reshape(6, blocks * PIXELS_SUMMED)
    mask, features = phi[0], phi[1:]
    centre = np.array(OCT5_CENTRES).astype(np.int16)
    everywhere, marked = np.zeros((0, 0), np.uint8), 0
    for i in range(n):
        for top in range(0, height, step):
            load_gray(gray[i], top, plane)
            if len(masks) or marked != min(step, height - top):
                marked = min(step, height - top)
                inside = masks[i, top : top + step] if len(masks) else everywhere
                mark_pixels(mask, inside, marked, width)
            derivatives(views, scratch, features, size)
            for a in range(5):
                middle = centre[a]
                for x in range(size):
                    value = features[a, x]
                    features[a, x] = ((value if value >= 0 else -value) - middle) * mask[x]
            add_exact(rows, moments[i])


@compiled
def grid_moments(images: ImageArray, masks: ImageArray, moments: FloatArray) -> None:
    """Add the moments of (1, x, y, channels, |Ix|, |Iy|, |Ixx|, |Iyy|, magnitude, angle).

    In pixels and integer intensities: only magnitude, angle and large products of derivatives of
    the luminance are rounded. Gray images, (n, h, w, 1), and colour images, (n, h, w, 3).
    """
    n, height, width, channels = images.shape
    step, size, blocks = strip_of(height, width, STRIP)
    flat = np.zeros((step + 4) * (width + 4) + 4, np.int32)
    plane = flat[: (step + 4) * (width + 4)].reshape(step + 4, width + 4)
    views = five_rows(flat, width)
    scratch, edges = np.empty((4, size + 4), np.int32), np.empty((5, size), np.int32)
    rows, lanes = np.zeros((channels + 9, blocks, PIXELS_SUMMED)), np.empty(PIXELS_SUMMED)
    phi = rows.reshape(channels + 9, blocks * PIXELS_SUMMED)
    everywhere, marked = np.zeros((0, 0), np.uint8), 0
    for i in range(n):
        for top in range(0, height, step):
            if channels == 1:
                load_gray(images[i, :, :, 0], top, plane)
            else:
                load_luminance(images[i], top, plane)
            if len(masks) or marked != min(step, height - top):
                marked = min(step, height - top)
                inside = masks[i, top : top + step] if len(masks) else everywhere
                mark_pixels(phi[0], inside, marked, width)
            derivatives(views, scratch, edges, size)
            place_features(images[i, top : top + step], top, phi)
            edge_features(edges, phi[0], phi[3 + channels :], size)
            add_float(rows, lanes, moments[i])


@compiled
def place_features(strip: ImageArray, top: int, phi: FloatArray) -> None:
    """Fill x, y and the channels of a strip, 0 where ``phi[0]`` is and below its last row."""
    height, width, channels = strip.shape
    for row in range(height):
        first = row * (width + 4)
        for x in range(width):
            phi[1, first + x] = x * phi[0, first + x]
            phi[2, first + x] = (top + row) * phi[0, first + x]
        for channel in range(channels):
            for x in range(width):
                phi[3 + channel, first + x] = strip[row, x, channel] * phi[0, first + x]
    for a in range(1, 3 + channels):
        for t in range(height * (width + 4), phi.shape[1]):
            phi[a, t] = 0.0


@compiled
def edge_features(edges: IntArray, mask: FloatArray, out: FloatArray, size: int) -> None:
    """Fill |Ix|, |Iy|, |Ixx|, |Iyy|, magnitude and angle, 0 where `mask` is."""
    for a in range(4):
        for t in range(size):
            value = edges[1 + a, t]
            out[a, t] = (value if value >= 0 else -value) * mask[t]
    for t in range(size):
        out[4, t] = np.sqrt(out[0, t] * out[0, t] + out[1, t] * out[1, t])
    for t in range(size):
        out[5, t] = angle(out[0, t], out[1, t])


@compiled
def angle(ix: float, iy: float) -> float:
    """Return arctan(ix / iy) of whole numbers 0 <= ix, iy < 2**26; 0 of two zeros.

    Within 2 units in the last place, and never above π/2 as floats have it. The smaller is divided
    by the larger, and above tan(π/8) turned by π/4: |x| <= tan(π/8). Then comes the rational
    function of Cephes' atan (S. Moshier), without a branch, so that loops become vector code.
    """
    low, high = (ix, iy) if ix < iy else (iy, ix)
    near = low > 0.41421356237309503 * high
    x = (low - high if near else low) / (low + high if near else max(high, 1.0))
    z = x * x
    p = -8.750608600031904122785e-1 * z - 1.615753718733365076637e1
    p = ((p * z - 7.500855792314704667340e1) * z - 1.228866684490136173410e2) * z
    q = (z + 2.485846490142306297962e1) * z + 1.650270098316988542046e2
    q = ((q * z + 4.328810604912902668951e2) * z + 4.853903996359136964868e2) * z
    radians = x + x * (z * (p - 6.485021904942025371773e1) / (q + 1.945506571482613964425e2))
    radians = radians + np.pi / 4 if near else radians
    return np.pi / 2 - radians if ix > iy else radians


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
def first_features(middle: ImageArray, f: IntArray, phi: IntArray, size: int) -> None:
    """Write I, 16|Ix|, 16|Iy|, 16|Iz|, centred at mid-range, into rows 1 to 4 of `phi`.

    All are 0 where ``phi[0]``, 1 inside, is. They are made of what `filter_rows` wrote.
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
    """
    sign = np.int16(high >> 15)
    first, second = np.int16(np.int16(high ^ sign) - sign), np.int16(np.int16(low ^ sign) - sign)
    return (first - 2040) * inside, second * inside


@compiled
def second_features(f: IntArray, phi: IntArray, size: int) -> None:
    """Write 512·|Ixx|, |Iyy|, |Izz| as digits, the high ones into rows 5 to 7, as `first_features`.

    The digits of 512·Ixx are made of those of what it is a sum of. Of the others 512·I = 4·inner +
    outer, where int16 holds both and ⌊512·I/4⌋ = inner + ⌊outer/4⌋, which is within ±32640.
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
    every digit within ±2040, as `add_exact` wants.
    """
    n, depth, height, width, _ = images.shape
    volumes = images.reshape(n, depth, height, width)
    step, size, blocks = strip_of(height, width, SLICE_STRIP)
    planes = np.zeros((5, step + 5, width + 4), np.uint8)
    ring = planes.reshape(5, (step + 5) * (width + 4))
    deep, filtered = np.zeros((4, ring.shape[1]), np.int16), np.zeros((6, size + 4), np.int16)
    under = (
        *(five_rows(deep[0], width), five_rows(deep[1], width)),
        *(five_rows(deep[2], width), five_rows(deep[3], width)),
    )
    rows = np.zeros((ROWS, blocks, PIXELS_SUMMED), np.int16)
    phi, sums = rows.reshape(ROWS, blocks * PIXELS_SUMMED), np.zeros((ROWS, ROWS), np.int64)
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
                add_exact(rows, sums)
        join_digits(sums, moments[i])


@compiled
def covariances(
    moments: NDArray[Any], counts: IntArray, units: FloatArray, eta: float, out: FloatArray
) -> None:
    """Write (|S|·Σφφᵀ − Σφ·Σφᵀ)/|S|² + η·Id, in units of `units`, for the moments of each image."""
    for i in range(moments.shape[0]):
        pixels = counts[i]
        for a in range(units.size):
            for b in range(a + 1):
                product = moments[i, a + 1, 0] * moments[i, b + 1, 0]
                numerator = pixels * moments[i, a + 1, b + 1] - product
                value = numerator / (float(pixels) * pixels * units[a] * units[b])
                out[i, a, b] = out[i, b, a] = value + eta if a == b else value
