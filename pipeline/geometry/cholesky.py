"""Compiled Cholesky factors of stacks of small matrices, refined in twice the working precision.

In: contiguous float64 stacks ``(n, k, k)``; each matrix is worked on by one thread, in one fixed
order of operations.
"""

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba.extending import intrinsic

from pipeline.arrays import FloatArray, check_square
from pipeline.errors import DomainError
from pipeline.parallel import compiled, spread


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
            rest[i, j] = rest[j, i] = high + low


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
    for value in rest.flat:
        size += value * value
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
def refined_factors(matrices: FloatArray, lowers: FloatArray, start: int, stop: int) -> bool:
    """Write the refined Cholesky factor of each matrix."""
    rest = np.empty(matrices.shape[1:])
    for n in range(start, stop):
        _cholesky(matrices[n], lowers[n])
        _residual(matrices[n], lowers[n], rest)
        if not _refine(lowers[n], rest):
            return False
    return True


def cholesky(matrices: FloatArray) -> FloatArray:
    """Return L ``(..., k, k)``, lower triangular with positive diagonal, such that L Lᵀ = A.

    One correction step follows the usual factorisation, so that a row of L has an error of a few
    units in the last place of its norm, whatever the condition of A up to about 10¹⁴.

    Raises
    ------
    DomainError
        When a matrix is not finite, or not positive definite in double precision.
    """
    matrices = check_square(matrices)
    stack = np.ascontiguousarray(matrices).reshape(-1, *matrices.shape[-2:])
    lowers = np.empty_like(stack)
    stack.flags.writeable = False  # as some are: numba compiles for either
    if not spread(refined_factors, len(stack), stack, lowers):
        raise DomainError(
            "matrices must be positive definite in double precision, found one that is not; "
            "add a ridge η·Id or check what it was computed from"
        )
    return lowers.reshape(matrices.shape)
