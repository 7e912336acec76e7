"""Functions of stacks of small symmetric matrices, ``(..., k, k)``.

A symmetric positive definite (SPD) matrix is factored as L Lᵀ by Cholesky, the factor is corrected
once with a residual in twice the working precision, and one-sided Jacobi rotations make its columns
orthogonal: their squared norms are the eigenvalues, their directions the eigenvectors. Eigenvalues
of descriptors may be 10¹² apart; this keeps 9 digits of the small ones, where LAPACK keeps 3.

Asymmetry is not an error here: every function works on (A + Aᵀ)/2. The doors of the manifolds
(``check``) refuse matrices that are not symmetric.

References
----------
J. Demmel and K. Veselić, "Jacobi's method is more accurate than QR", SIAM J. Matrix Anal. Appl.
13(4), 1992, Algorithm 4.4.

**Compiled factors.** Kernels take contiguous float64 stacks ``(n, k, k)``; each matrix is worked on
by one thread, in one fixed order of operations.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numba.extending import intrinsic
from numpy.typing import NDArray

from covdp.arrays import FloatArray, check_square
from covdp.errors import ConvergenceError, DomainError
from covdp.geometry import jacobi
from covdp.parallel import compiled, spread


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
    """Write the refined Cholesky factor of each matrix.

    Parameters
    ----------
    matrices : array, shape (n, k, k)
        SPD matrices.
    lowers : array, shape (n, k, k)
        Output: lower triangular factors.
    start : int
        First task.
    stop : int
        End of the tasks, exclusive.

    Returns
    -------
    bool
        True unless a matrix is not positive definite.
    """
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

    Parameters
    ----------
    matrices : array, shape (..., k, k)
        SPD matrices.

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


def vecd(matrices: FloatArray) -> FloatArray:
    """Return coordinates ``(..., k(k + 1)/2)`` of symmetric matrices: an isometry.

    ‖vecd(X)‖₂ = ‖X‖_F: the diagonal, then √2 · the strict upper triangle, row by row.

    Parameters
    ----------
    matrices : array, shape (..., k, k)
        Symmetric matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp.geometry import vecd
    >>> vecd(np.diag([1.0, 2.0]))
    array([1., 2., 0.])
    """
    k = matrices.shape[-1]
    flat = matrices.reshape(*matrices.shape[:-2], k * k)
    return np.concatenate([flat[..., :: k + 1], math.sqrt(2.0) * flat[..., _above(k)[0]]], axis=-1)


def unvecd(coordinates: FloatArray) -> FloatArray:
    """Return the symmetric matrices ``(..., k, k)`` with given coordinates, the inverse of `vecd`.

    Parameters
    ----------
    coordinates : array, shape (..., k(k + 1)/2)
        Coordinates of symmetric matrices.

    Raises
    ------
    DomainError
        When the last axis is not k(k + 1)/2 long for some k.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp.geometry import unvecd
    >>> unvecd(np.array([1.0, 2.0, 0.0]))
    array([[1., 0.],
           [0., 2.]])
    """
    coordinates = np.asarray(coordinates, dtype=np.float64)
    length = coordinates.shape[-1] if coordinates.ndim else 0
    k = (math.isqrt(8 * length + 1) - 1) // 2
    if k < 1 or k * (k + 1) // 2 != length:
        raise DomainError(f"coordinates must have length k(k+1)/2 (1, 3, 6, 10, …), found {length}")
    above, below = _above(k)
    matrices = np.empty((*coordinates.shape[:-1], k, k))
    flat = matrices.reshape(*matrices.shape[:-2], k * k)
    flat[..., :: k + 1] = coordinates[..., :k]
    flat[..., above] = flat[..., below] = coordinates[..., k:] / math.sqrt(2.0)
    return matrices


@lru_cache(maxsize=64)
def _above(k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places, row by row, of the entries above the diagonal of k × k, and below."""
    rows, columns = np.triu_indices(k, 1)
    return rows * k + columns, columns * k + rows


def _svd(lowers: FloatArray, *, rights: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return σ², U and Vᵀ (nothing unless `rights`) of L = U diag(σ) Vᵀ; L is written over."""
    k = lowers.shape[-1]
    stack = lowers.reshape(-1, k, k)
    squares, right = np.empty(stack.shape[:2]), np.empty_like(stack if rights else stack[:0])
    if not jacobi.spread_groups(jacobi.spectra, len(stack), stack, squares, right):
        raise ConvergenceError(
            "numbers have left the range of floats; rescale the matrices towards 1"
        )
    return squares.reshape(lowers.shape[:-1]), stack.reshape(lowers.shape).swapaxes(-1, -2), right


def polar(lowers: FloatArray) -> FloatArray:
    """Return the orthogonal R = (L Lᵀ)^{−1/2} L of invertible matrices L, ``(..., k, k)``.

    Parameters
    ----------
    lowers : array, shape (..., k, k)
        Invertible matrices L.
    """
    _, left, right = _svd(np.array(lowers, order="C"), rights=True)
    return left @ right.reshape(lowers.shape)


def assemble(vectors: FloatArray, weights: FloatArray) -> FloatArray:
    """Return V diag(w) Vᵀ, symmetric to the last bit; V has one vector a column.

    Parameters
    ----------
    vectors : array, shape (..., k, k)
        Matrix V, one vector a column.
    weights : array, shape (..., k)
        Weights w of the columns.
    """
    k = vectors.shape[-1]
    rows = np.ascontiguousarray(vectors.swapaxes(-1, -2)).reshape(-1, k, k)
    diagonals, matrices = np.empty(rows.shape[:-1]), np.empty_like(rows)
    diagonals.reshape(vectors.shape[:-1])[...] = weights
    spread(jacobi.assemblies, len(rows), rows, diagonals, matrices)
    return matrices.reshape(vectors.shape)


def spd_eig(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues ``(..., k)`` and eigenvectors (columns) of SPD matrices, unordered.

    Small eigenvalues have small *relative* errors. Raises `DomainError` as `cholesky` does.

    Parameters
    ----------
    matrices : array, shape (..., k, k)
        SPD matrices.
    """
    values, vectors, _ = _svd(cholesky(matrices), rights=False)
    return values, vectors


def sym_eig(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues, ascending, ``(..., k)`` and eigenvectors (columns) of symmetric matrices.

    Errors are a few units in the last place of ‖A‖, as LAPACK's; for SPD matrices `spd_eig` is
    better. A is shifted by 2‖A‖_F, which makes it SPD with a condition of at most 3.

    Parameters
    ----------
    matrices : array, shape (..., k, k)
        Symmetric matrices.
    """
    values, vectors = sym_eig_unordered(matrices)
    order = np.argsort(values, axis=-1)
    values = np.take_along_axis(values, order, axis=-1)
    return values, np.take_along_axis(vectors, order[..., None, :], axis=-1)


def sym_eig_unordered(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and eigenvectors as `sym_eig` does, in any order.

    Parameters
    ----------
    matrices : array, shape (..., k, k)
        Symmetric matrices.
    """
    matrices = check_square(matrices)
    shift = 2.0 * np.sqrt(np.add.reduce(matrices * matrices, axis=(-2, -1)))[..., None]
    shift = np.where(shift > 0.0, shift, 1.0)
    values, vectors = spd_eig(matrices + shift[..., None] * np.eye(matrices.shape[-1]))
    return values - shift, vectors


def sym_log(matrices: FloatArray) -> FloatArray:
    """Return the logarithm of SPD matrices, symmetric to the last bit; raises as `cholesky`.

    Parameters
    ----------
    matrices : array, shape (..., k, k)
        SPD matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp.geometry import sym_log
    >>> bool(np.abs(sym_log(np.eye(3))).max() < 1e-15)
    True
    """
    values, vectors = spd_eig(matrices)
    return assemble(vectors, np.log(values))


def sym_exp(matrices: FloatArray) -> FloatArray:
    """Return the exponential of symmetric matrices, symmetric to the last bit.

    Parameters
    ----------
    matrices : array, shape (..., k, k)
        Symmetric matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp.geometry import sym_exp
    >>> sym_exp(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    values, vectors = sym_eig(matrices)
    return assemble(vectors, np.exp(values))
