"""Compiled loops over stacks of small matrices, the only numba code of the geometry.

In: contiguous float64 stacks ``(n, k, k)``. Each matrix is worked on by one thread, in one fixed
order of operations, so results are the same to the last bit for every chunking and thread count.

The second half looks at SPD points from SPD bases. A base B = C Cᵀ and a point X = L Lᵀ come as
factors. G = C⁻¹ L is the point seen from the base: Jacobi rotations of its columns give log(G Gᵀ)
without ever forming C⁻¹ X C⁻ᵀ, which would square the condition. G Gᵀ differs from
B^{−1/2} X B^{−1/2} by the rotation R = B^{−1/2} C.
Next on the path: ``linalg.py`` and ``affine.py``, which give these loops their guarantees.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.geometry.kernels import compiled

SWEEPS = 30
"""Most Jacobi sweeps; 4 to 11 are needed in practice."""
BLOCK = 256
"""Points summed one after the other; the sums of blocks are then added in order."""


def _emit_fma(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """Tell numba the types of a fused multiply-add, and the instruction for it."""
    return x(x, y, z), lambda context, builder, signature, values: builder.fma(*values)


_fma = cast(Callable[[float, float, float], float], intrinsic(_emit_fma))
"""x·y + z, rounded once: with z = −fl(x·y), the rounding error of the product."""


@compiled
def _cholesky(a: FloatArray, lower: FloatArray) -> None:
    """Write L with L Lᵀ = (a + aᵀ)/2, the textbook loop; NaN when there is no such L."""
    k = a.shape[0]
    for j in range(k):
        for i in range(j, k):
            rest = 0.5 * (a[i, j] + a[j, i])
            for t in range(j):
                rest -= lower[i, t] * lower[j, t]
            if i == j:
                lower[j, j] = math.sqrt(rest)
            else:
                lower[i, j] = rest / lower[j, j]
                lower[j, i] = 0.0


@compiled
def _residual(a: FloatArray, lower: FloatArray, rest: FloatArray) -> None:
    """Write (a + aᵀ)/2 − L Lᵀ, accumulated in twice the working precision."""
    for i in range(a.shape[0]):
        for j in range(i + 1):
            high = 0.5 * (a[i, j] + a[j, i])
            low = 0.0
            for t in range(j + 1):
                product = -lower[i, t] * lower[j, t]
                tail = _fma(-lower[i, t], lower[j, t], -product)
                total = high + product
                back = total - high
                low += ((high - (total - back)) + (product - back)) + tail
                high = total
            rest[i, j] = high + low
            rest[j, i] = high + low


@compiled
def _solve(lower: FloatArray, columns: FloatArray) -> None:
    """Replace `columns` by L⁻¹ columns, by forward substitution."""
    for i in range(lower.shape[0]):
        inverse = 1.0 / lower[i, i]
        for t in range(i):
            for column in range(columns.shape[1]):
                columns[i, column] -= lower[i, t] * columns[t, column]
        for column in range(columns.shape[1]):
            columns[i, column] *= inverse


@compiled
def _refine(lower: FloatArray, rest: FloatArray) -> bool:
    """Replace L by L (I + Φ(F)), F = L⁻¹ rest L⁻ᵀ and Φ its lower half.

    False when ‖F‖_F ≥ 1/2 or NaN; otherwise the matrix, L (I + F) Lᵀ, is positive definite.
    """
    k = lower.shape[0]
    _solve(lower, rest)
    for i in range(k):  # rest is symmetric: (L⁻¹ rest)ᵀ = rest L⁻ᵀ
        for j in range(i):
            rest[i, j], rest[j, i] = rest[j, i], rest[i, j]
    _solve(lower, rest)
    size = 0.0
    for i in range(k):
        for j in range(k):
            size += rest[i, j] * rest[i, j]
    if not size < 0.25:
        return False
    for i in range(k):
        for j in range(i + 1):
            value = 0.5 * lower[i, j] * rest[j, j]
            for t in range(j + 1, i + 1):
                value += lower[i, t] * rest[t, j]
            lower[i, j] += value
    return True


@compiled
def _jacobi(columns: FloatArray, squares: FloatArray, pairs: NDArray[np.uint64]) -> bool:
    """Rotate the k columns of a factor until they are orthogonal; write their squared norms.

    Row j of `columns` holds column j: its first k entries decide the rotations, entries after them
    (for instance the identity, to collect the rotations) are carried along.
    """
    k, length = columns.shape
    tolerance = 4 * k * 2.0**-53  # a product and the rotations after it may leave 3k · 2⁻⁵³
    for _ in range(SWEEPS):
        for p in range(k):
            squares[p] = 0.0
            for t in range(k):
                squares[p] += columns[p, t] * columns[p, t]
        still = True
        for pair in range(pairs.shape[0]):
            p, q = pairs[pair]
            product = 0.0
            for t in range(k):
                product += columns[p, t] * columns[q, t]
            if abs(product) > tolerance * math.sqrt(squares[p]) * math.sqrt(squares[q]):
                still = False
                gap = squares[q] - squares[p]
                root = math.sqrt(gap * gap + 4.0 * product * product)
                if not 1e-140 < root < math.inf:  # a square has left the range of floats
                    return False
                tangent = 2.0 * product / (abs(gap) + root)
                if gap < 0.0:
                    tangent = -tangent
                cosine = math.sqrt(0.5 + 0.5 * abs(gap) / root)
                sine = cosine * tangent
                squares[p] -= tangent * product
                squares[q] += tangent * product
                for t in range(length):
                    x = columns[p, t]
                    y = columns[q, t]
                    columns[p, t] = cosine * x - sine * y
                    columns[q, t] = sine * x + cosine * y
        if still:
            return True
    return False


@compiled
def factors(matrices: FloatArray, lowers: FloatArray, start: int, stop: int) -> bool:
    """Write the refined Cholesky factor of each matrix."""
    rest = np.empty(matrices.shape[1:])
    for n in range(start, stop):
        _cholesky(matrices[n], lowers[n])
        _residual(matrices[n], lowers[n], rest)
        if not _refine(lowers[n], rest):
            return False
    return True


@compiled
def spectra(
    lowers: FloatArray,
    pairs: NDArray[np.uint64],
    values: FloatArray,
    vectors: FloatArray,
    rights: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write σ² and U of L = U diag(σ) Vᵀ, and V unless `rights` is ``(n, 0, k)``."""
    k = lowers.shape[1]
    columns = np.zeros((k, k + rights.shape[1]))
    for n in range(start, stop):
        for i in range(k):
            for j in range(k):
                columns[j, i] = lowers[n, i, j]
        columns[:, k:] = np.eye(k)[:, : rights.shape[1]]
        if not _jacobi(columns, values[n], pairs):
            return False
        for j in range(k):
            norm = math.sqrt(values[n, j])
            for i in range(k):
                vectors[n, i, j] = columns[j, i] / norm
        rights[n] = columns[:, k:].T
    return True


@compiled
def _add(rows: FloatArray, values: FloatArray, weight: float, total: FloatArray) -> None:
    """Add the lower triangle of weight · Σ_t value_t · v_t v_tᵀ for the rows v_t."""
    k = len(values)
    for t in range(k):
        scale = weight * values[t]
        for i in range(k):
            for j in range(i + 1):
                total[i, j] += scale * rows[t, i] * rows[t, j]


@compiled
def assemblies(
    vectors: FloatArray, weights: FloatArray, matrices: FloatArray, start: int, stop: int
) -> bool:
    """Write the lower triangle of Σ_j weight_j · v_j v_jᵀ for each matrix of columns v."""
    for n in range(start, stop):
        matrices[n] = 0.0
        _add(vectors[n].T, weights[n], 1.0, matrices[n])
    return True


@compiled
def _see(
    lower: FloatArray,
    point: FloatArray,
    pairs: NDArray[np.uint64],
    seen: FloatArray,
    columns: FloatArray,
    values: FloatArray,
) -> bool:
    """Write unit eigenvectors (rows of `columns`) and log-eigenvalues of C⁻¹ X C⁻ᵀ.

    When `columns` is (k, 2k), the columns of L are turned along in its second half.
    """
    k = lower.shape[0]
    seen[:] = point
    _solve(lower, seen)
    for i in range(k):
        for j in range(k):
            columns[j, i] = seen[i, j]
            if columns.shape[1] > k:
                columns[j, k + i] = point[i, j]
    if not _jacobi(columns, values, pairs):
        return False
    for j in range(k):
        inverse = 1.0 / math.sqrt(values[j])
        for i in range(k):
            columns[j, i] *= inverse
        values[j] = math.log(values[j])
    return True


@compiled
def logs(
    bases: FloatArray,
    points: FloatArray,
    where: NDArray[np.int64],
    pairs: NDArray[np.uint64],
    out: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write the lower triangle of log(C⁻¹ X C⁻ᵀ) for the (base, point) in each row of `where`."""
    k = bases.shape[1]
    seen, columns, values = np.empty((k, k)), np.empty((k, k)), np.empty(k)
    for n in range(start, stop):
        base, point = where[n]
        if not _see(bases[base], points[point], pairs, seen, columns, values):
            return False
        out[n] = 0.0
        _add(columns, values, 1.0, out[n])
    return True


@compiled
def sums(
    bases: FloatArray,
    points: FloatArray,
    weights: FloatArray,
    turn: bool,
    pairs: NDArray[np.uint64],
    logs_sum: FloatArray,
    spread_sum: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write Σ w log(C⁻¹ X C⁻ᵀ) (lower triangle) and Σ w √(1 + x²), one block of points a task.

    Task t is block t % blocks seen from base t // blocks, 2x the difference of the extreme
    log-eigenvalues. With `turn` (one base) each
    factor L is replaced by L V, V the rotations it took: another factor of X, whose columns need
    few rotations when seen from a base nearby.
    """
    k = bases.shape[1]
    blocks = -(-points.shape[0] // BLOCK)
    seen, columns, values = np.empty((k, k)), np.empty((k, 2 * k if turn else k)), np.empty(k)
    for task in range(start, stop):
        base, block = task // blocks, task % blocks
        logs_sum[task] = 0.0
        spread_sum[task] = 0.0
        for n in range(block * BLOCK, min((block + 1) * BLOCK, points.shape[0])):
            if not _see(bases[base], points[n], pairs, seen, columns, values):
                return False
            half = 0.5 * (values.max() - values.min())
            spread_sum[task] += weights[n] * math.sqrt(1.0 + half * half)
            _add(columns, values, weights[n], logs_sum[task])
            if turn:
                points[n] = columns[:, k:].T
    return True
