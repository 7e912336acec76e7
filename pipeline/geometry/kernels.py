"""Compiled loops over stacks of small matrices, the only numba code of the geometry.

In: contiguous float64 stacks ``(n, k, k)``. Out: results written into arrays given by the caller,
and True when every matrix was treated. Each matrix is worked on by one thread, in one fixed order
of operations, so results are the same to the last bit for every chunking and thread count.
Next on the path: ``linalg.py``, which gives these loops their names and their guarantees.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import intrinsic
from numpy.typing import NDArray

from pipeline.arrays import FloatArray

Function = TypeVar("Function", bound=Callable[..., Any])

THREADS = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
"""Threads a stack is spread over: the cores this process may use, or ``NUMBA_NUM_THREADS``."""
SHARE = 512
"""Fewest tasks worth a thread of their own, when a task is one matrix."""
SWEEPS = 30
"""Most Jacobi sweeps; 4 to 11 are needed in practice."""


def compiled(function: Function) -> Function:
    """Compile `function` once per machine; it runs without the global interpreter lock."""
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def spread(kernel: Callable[..., bool], count: int, *arguments: Any, share: int = SHARE) -> bool:
    """Run ``kernel(*arguments, start, stop)`` over 0..count in threads; True when all succeed.

    Plain threads, because numba's own pools may not be entered by two Python threads at once.
    """
    parts = min(4 * THREADS, count // share)
    if THREADS == 1 or parts < 2:
        return kernel(*arguments, 0, count)
    edges = [count * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(min(THREADS, parts)) as pool:
        jobs = [pool.submit(kernel, *arguments, *edges[part : part + 2]) for part in range(parts)]
        return all(job.result() for job in jobs)


def rounds(k: int) -> NDArray[np.uint64]:
    """Return all pairs p < q < k, ``(k(k − 1)/2, 2)``, in rounds of disjoint pairs.

    Unsigned, so that compiled loops need not ask whether an index counts from the end.
    """
    ring = list(range(k + k % 2))
    half = len(ring) // 2
    pairs = []
    for _ in ring[1:]:
        pairs += [sorted((ring[i], ring[-1 - i])) for i in range(half)]
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return np.array([pair for pair in pairs if pair[1] < k], dtype=np.uint64).reshape(-1, 2)


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
    tolerance = 4 * k * 2.0**-53  # above what rounding leaves in a product, or sweeps never end
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
    start: int,
    stop: int,
) -> bool:
    """Write eigenvalues and unit eigenvectors (as columns) of L Lᵀ for each factor L."""
    k = lowers.shape[1]
    columns = np.empty((k, k))
    for n in range(start, stop):
        for i in range(k):
            for j in range(k):
                columns[j, i] = lowers[n, i, j]
        if not _jacobi(columns, values[n], pairs):
            return False
        for j in range(k):
            norm = math.sqrt(values[n, j])
            for i in range(k):
                vectors[n, i, j] = columns[j, i] / norm
    return True


@compiled
def assemblies(
    vectors: FloatArray, weights: FloatArray, matrices: FloatArray, start: int, stop: int
) -> bool:
    """Write Σ_j weight_j · v_j v_jᵀ for each matrix of columns v, symmetric to the last bit."""
    k = vectors.shape[1]
    for n in range(start, stop):
        for i in range(k):
            for j in range(i + 1):
                value = 0.0
                for t in range(k):
                    value += weights[n, t] * vectors[n, i, t] * vectors[n, j, t]
                matrices[n, i, j] = value
                matrices[n, j, i] = value
    return True
