"""Compiled Jacobi rotations of the columns of factors, over stacks of small matrices.

In: contiguous float64 stacks ``(n, k, k)``. Each matrix is worked on by one thread, in one fixed
order of operations, so results are the same to the last bit for every chunking and thread count.

Points X = L Lᵀ are looked at from SPD bases B = C Cᵀ. G = C⁻¹ L is the point seen from the base:
rotations of its columns give log(G Gᵀ) without forming C⁻¹ X C⁻ᵀ, which would square the condition.
G Gᵀ differs from B^{−1/2} X B^{−1/2} by the rotation R = B^{−1/2} C.

Rotations of one small matrix wait for each other's square roots, so one rotation of each of
`SIMD_WIDTH` matrices, a group, is taken at once, in arrays whose last axis is the matrix: less than
half the time of one by one. Each number is made by the same operations in the same order whichever
matrices are beside it, so it is the same to the last bit: a matrix that is done is rotated by an
angle of 0, which leaves it as it is, and another sweep over it finds so again. Such a rotation
makes 0 of −0: where vectors are returned, `_turn` has replaced each −0 before. Next on the path:
``linalg.py`` and ``spd.py``, which give these loops their guarantees.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.parallel import FEW_TASKS, compiled, spread

Indices: TypeAlias = NDArray[Any]
SWEEPS = 30
"""Most Jacobi sweeps; 4 to 11 are needed in practice. Whatever is left after so many is taken."""
POINTS_SUMMED = 256
"""Points summed one after the other; the sums of blocks are then added in order."""
SIMD_WIDTH = 64
"""Matrices side by side. For 5 × 5, each of 16 takes 1.6 times as long, and each of 128 no less."""
Work: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Work arrays, by matrix: product of two columns, cosine and sine, and 0, 1 if it turns, 2 if it
cannot."""


@compiled
def rounds(k: int) -> Indices:
    """Return all pairs p < q < k, ``(k(k − 1)/2, 2)``, in rounds of disjoint pairs.

    Parameters
    ----------
    k : int
        Number of rows of the matrices.
    """
    ring = k - 1 + k % 2
    pairs = np.empty((k * (k - 1) // 2, 2), dtype=np.uint64)  # unsigned: never from the end
    entry = 0
    for turn in range(ring):
        for i in range(ring // 2 + 1):
            p, q = (turn + i) % ring, (turn - i) % ring if i > 0 else ring
            if max(p, q) < k:
                pairs[entry, 0], pairs[entry, 1] = min(p, q), max(p, q)
                entry += 1
    return pairs


@compiled
def _inner_products(first: FloatArray, second: FloatArray, out: FloatArray) -> None:
    """Write the inner product of two columns of each matrix."""
    out[:] = 0.0
    for t in range(len(first)):
        for j in range(len(out)):
            out[j] += first[t, j] * second[t, j]


@compiled
def _find_angles(first: FloatArray, second: FloatArray, tolerance: float, work: Work) -> float:
    """Find the rotations of two columns, and take over what they make of their squared norms.

    Return 0 if none of the matrices turns, 2 if a square has left the range of floats, else 1.
    """
    product, cosine, sine, turns = work
    most = 0.0
    for j in range(len(product)):
        limit = tolerance * tolerance * first[j] * second[j]
        still = product[j] == 0.0 or product[j] * product[j] < limit
        turns[j] = 0.0 if still else 1.0
    for j in range(len(product)):
        most = max(most, turns[j])
    if most == 0.0:
        return most
    for j in range(len(product)):
        gap = second[j] - first[j]
        root = math.sqrt(gap * gap + 4.0 * product[j] * product[j])
        share = 2.0 / (abs(gap) + root)
        turned = turns[j] > 0.0
        tangent = (share if gap >= 0.0 else -share) * product[j] if turned else 0.0
        cosine[j] = math.sqrt(0.5 + 0.5 * abs(gap) / root) if turned else 1.0
        sine[j] = cosine[j] * tangent
        first[j] -= tangent * product[j]
        second[j] += tangent * product[j]
        turns[j] = turns[j] if not turned or 1e-140 < root < math.inf else 2.0
    for j in range(len(product)):
        most = max(most, turns[j])
    return most


@compiled
def _rotate(first: FloatArray, second: FloatArray, work: Work) -> None:
    """Rotate two columns of each matrix."""
    _, cosine, sine, _ = work
    for t in range(len(first)):
        for j in range(len(cosine)):
            x, y = first[t, j], second[t, j]
            first[t, j] = cosine[j] * x - sine[j] * y
            second[t, j] = sine[j] * x + cosine[j] * y


@compiled
def _jacobi(columns: FloatArray, squares: FloatArray, pairs: Indices, work: Work) -> bool:
    """Rotate the k columns of factors until they are orthogonal; write their squared norms.

    Row j of `columns`, (k, length, lanes), holds column j of each: its first k entries decide the
    rotations, entries after them (for instance the identity, to collect the rotations) are carried
    along. Return False where a square leaves the range of floats: never between condition numbers
    up to 1e100.
    """
    k = len(columns)
    tolerance = 4 * k * 2.0**-53  # a product and the rotations after it may leave 3k · 2⁻⁵³
    for _ in range(SWEEPS):
        for p in range(k):
            _inner_products(columns[p, :k], columns[p, :k], squares[p])
        still = True
        for pair in range(pairs.shape[0]):
            p, q = pairs[pair]
            _inner_products(columns[p, :k], columns[q, :k], work[0])
            most = _find_angles(squares[p], squares[q], tolerance, work)
            if most > 1.0:
                return False
            if most == 0.0:
                continue
            still = False
            _rotate(columns[p], columns[q], work)
        if still:
            break
    return True  # nearly orthogonal at the least: no record ends a release by taking longer


@compiled
def _group(k: int, length: int, lanes: int) -> tuple[FloatArray, FloatArray, Work]:
    """Return room for the columns and squares of matrices side by side, and for their rotations."""
    work = (np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes))
    return np.zeros((k, length, lanes)), np.empty((k, lanes)), work


@compiled
def _turn(matrix: FloatArray, out: FloatArray) -> None:
    """Write the transpose, with 0 for −0.

    It is written entry by entry: whole arrays take seconds longer to compile.
    """
    for i in range(len(out)):
        for j in range(out.shape[1]):
            out[i, j] = matrix[j, i] + 0.0


@compiled
def spectra(
    lowers: FloatArray, squares: FloatArray, rights: FloatArray, start: int, stop: int
) -> bool:
    """Write σ², in place of L = U diag(σ) Vᵀ Uᵀ, one group a task; Vᵀ if `rights` has rows.

    Parameters
    ----------
    lowers : array, shape (n, k, k)
        Lower triangular matrices L; overwritten with the left vectors.
    squares : array, shape (n, k)
        Output: squares of the singular values.
    rights : array, shape (n or 0, k, k)
        Output: Vᵀ; no rows when it is not wanted.
    start : int
        First task.
    stop : int
        End of the tasks, exclusive.

    Returns
    -------
    bool
        True unless a decomposition does not converge.
    """
    k, pairs = lowers.shape[1], rounds(lowers.shape[1])
    for first in range(start * SIMD_WIDTH, min(stop * SIMD_WIDTH, len(lowers)), SIMD_WIDTH):
        lanes = min(SIMD_WIDTH, len(lowers) - first)
        columns, eigenvalues, work = _group(k, 2 * k if len(rights) else k, lanes)
        for lane in range(lanes):
            _turn(lowers[first + lane], columns[:, :k, lane])
            for j in range(k if len(rights) else 0):
                columns[j, k + j, lane] = 1.0
        if not _jacobi(columns, eigenvalues, pairs, work):
            return False
        for lane in range(lanes):
            for j in range(k):
                squares[first + lane, j] = eigenvalues[j, lane]
                inverse = 1.0 / math.sqrt(eigenvalues[j, lane])
                for i in range(k):
                    lowers[first + lane, j, i] = columns[j, i, lane] * inverse
                for i in range(k if len(rights) else 0):
                    rights[first + lane, j, i] = columns[j, k + i, lane]
    return True


@compiled
def _add(rows: FloatArray, values: FloatArray, weight: float, total: FloatArray) -> None:
    """Add weight · Σ_t value_t · v_t v_tᵀ for the rows v_t to a symmetric `total`."""
    k = len(values)
    for i in range(k):
        for j in range(i + 1):
            entry = 0.0
            for t in range(k):
                entry += values[t] * rows[t, i] * rows[t, j]
            total[i, j] += weight * entry
            total[j, i] = total[i, j]


@compiled
def assemblies(
    rows: FloatArray, weights: FloatArray, out: FloatArray, start: int, stop: int
) -> bool:
    """Write Σ_j weight_j · v_j v_jᵀ for the rows v_j of each matrix.

    Parameters
    ----------
    rows : array, shape (n, k, k)
        Matrices whose rows are the vectors v_j.
    weights : array, shape (n, k)
        Weights of the rows of each matrix.
    out : array, shape (n, k, k)
        Output: symmetric matrices.
    start : int
        First task.
    stop : int
        End of the tasks, exclusive.

    Returns
    -------
    bool
        True: it cannot fail.
    """
    for n in range(start, stop):
        out[n] = 0.0
        _add(rows[n], weights[n], 1.0, out[n])
    return True


@compiled
def _see_from(lower: FloatArray, columns: FloatArray) -> None:
    """Replace L in the first k rows of `columns` by C⁻¹ L, of each matrix; C is in `lower`."""
    for i in range(len(lower)):
        inverse = 1.0 / lower[i, i]
        for p in range(len(lower)):
            for t in range(i):
                for j in range(len(inverse)):
                    columns[p, i, j] -= lower[i, t, j] * columns[p, t, j]
            for j in range(len(inverse)):
                columns[p, i, j] *= inverse[j]


@compiled
def _log_eig(columns: FloatArray, values: FloatArray) -> None:
    """Normalise orthogonal rows of squared norms `values`, and take logarithms of `values`."""
    for j in range(len(values)):
        inverse = 1.0 / math.sqrt(values[j])
        for i in range(len(values)):
            columns[j, i] *= inverse
        values[j] = math.log(values[j])


@compiled
def _add_rotated(rotations: FloatArray, columns: FloatArray, out: FloatArray) -> None:
    """Add R·g of all columns g of each matrix to `out`."""
    for p in range(len(columns)):
        for i in range(len(columns)):
            for t in range(len(columns)):
                for j in range(columns.shape[2]):
                    out[p, i, j] += rotations[i, t, j] * columns[p, t, j]


@compiled
def _write_logs(
    columns: FloatArray, squares: FloatArray, rotations: FloatArray, out: FloatArray
) -> None:
    """Write vecd(R log(G Gᵀ) Rᵀ) of each matrix; G has orthogonal columns of norms² `squares`."""
    k, place, entry = len(columns), len(columns), np.empty(columns.shape[2])
    rotated = np.zeros(columns.shape)
    _add_rotated(rotations, columns, rotated)
    for p in range(k):
        for j in range(len(entry)):
            squares[p, j] = math.log(squares[p, j]) / squares[p, j]
        for i in range(k):
            for j in range(len(entry)):
                columns[p, i, j] = squares[p, j] * rotated[p, i, j]
    for row in range(k):
        for column in range(row, k):
            entry[:] = 0.0
            for p in range(k):
                for j in range(len(entry)):
                    entry[j] += columns[p, row, j] * rotated[p, column, j]
            to, factor = (row, 1.0) if column == row else (place, math.sqrt(2.0))
            for j in range(len(entry)):
                out[j, to] = factor * entry[j]
            place += column > row


@compiled
def logs(
    bases: FloatArray,
    rotations: FloatArray,
    points: FloatArray,
    where: Indices,
    out: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write vecd(R log(C⁻¹ X C⁻ᵀ) Rᵀ) for the pairs (base, point) in the rows of `where`.

    C and R of a base are in `bases` and `rotations`. A group a task.

    Parameters
    ----------
    bases : array, shape (b, k, k)
        Cholesky factors C of the bases.
    rotations : array, shape (b, k, k)
        Rotations R of the bases.
    points : array, shape (n, k, k)
        Cholesky factors L of points X = L Lᵀ.
    where : array, shape (m, 2)
        Rows of base and point of each pair.
    out : array, shape (m, k(k + 1)/2)
        Output: coordinates of each pair.
    start : int
        First task.
    stop : int
        End of the tasks, exclusive.

    Returns
    -------
    bool
        True unless a decomposition does not converge.
    """
    k, pairs = bases.shape[1], rounds(bases.shape[1])
    lower, rotation = np.empty((2, k, k, SIMD_WIDTH))
    at = np.full(SIMD_WIDTH, -1)  # base whose C and R a lane has
    for first in range(start * SIMD_WIDTH, min(stop * SIMD_WIDTH, len(where)), SIMD_WIDTH):
        lanes = min(SIMD_WIDTH, len(where) - first)
        columns, squares, work = _group(k, k, lanes)
        for lane in range(lanes):
            base, point = where[first + lane]
            for i in range(k):
                for j in range(k):
                    columns[j, i, lane] = points[point, i, j]
            if base != at[lane]:
                at[lane] = base
                for i in range(k):
                    for j in range(k):
                        lower[i, j, lane] = bases[base, i, j]
                        rotation[i, j, lane] = rotations[base, i, j]
        _see_from(lower[:, :, :lanes], columns)
        if not _jacobi(columns, squares, pairs, work):
            return False
        _write_logs(columns, squares, rotation[:, :, :lanes], out[first : first + lanes])
    return True


@compiled
def sums(
    bases: FloatArray,
    points: FloatArray,
    weights: FloatArray,
    turn: bool,
    logs_sum: FloatArray,
    spread_sum: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write Σ w log(C⁻¹ X C⁻ᵀ) and Σ w √(1 + x²), one block of points a task.

    Task t is block t % blocks seen from base t // blocks; 2x is the difference of the extreme
    log-eigenvalues. With `turn` (one base) each factor L is replaced by L V, V the rotations it
    took: another factor of X, whose columns need few rotations when seen from a base nearby.

    Parameters
    ----------
    bases : array, shape (b, k, k)
        Cholesky factors C of the bases.
    points : array, shape (n, k, k)
        Cholesky factors L of points X = L Lᵀ; overwritten with `turn`.
    weights : array, shape (n,)
        Weights of the points.
    turn : bool
        True to replace each factor L by L V; only with one base.
    logs_sum : array, shape (tasks, k, k)
        Output: weighted sum of logarithms of each task.
    spread_sum : array, shape (tasks,)
        Output: weighted sum of √(1 + x²) of each task.
    start : int
        First task.
    stop : int
        End of the tasks, exclusive.

    Returns
    -------
    bool
        True unless a decomposition does not converge.
    """
    k, blocks = bases.shape[1], -(-points.shape[0] // POINTS_SUMMED)
    pairs = rounds(k)
    for task in range(start, stop):
        base, block = task // blocks, task % blocks
        last = min((block + 1) * POINTS_SUMMED, points.shape[0])
        logs_sum[task] = 0.0
        spread_sum[task] = 0.0
        for first in range(block * POINTS_SUMMED, last, SIMD_WIDTH):
            lanes = min(SIMD_WIDTH, last - first)
            columns, values, work = _group(k, 2 * k if turn else k, lanes)
            lower = np.empty((k, k, lanes))
            for lane in range(lanes):
                lower[:, :, lane] = bases[base]
                _turn(points[first + lane], columns[:, :k, lane])
                if turn:
                    _turn(points[first + lane], columns[:, k:, lane])
            _see_from(lower, columns)
            if not _jacobi(columns, values, pairs, work):
                return False
            for lane in range(lanes):
                _log_eig(columns[:, :k, lane], values[:, lane])
                half = 0.5 * (values[:, lane].max() - values[:, lane].min())
                spread_sum[task] += weights[first + lane] * math.sqrt(1.0 + half * half)
                _add(columns[:, :k, lane], values[:, lane], weights[first + lane], logs_sum[task])
                if turn:
                    _turn(columns[:, k:, lane], points[first + lane])
    return True


@compiled
def triangular(columns: FloatArray, lower: FloatArray) -> None:
    """Write the lower triangular L with L Lᵀ = G Gᵀ, G = `columns`, by plane rotations of G.

    Parameters
    ----------
    columns : array, shape (k, k)
        Matrix G; overwritten.
    lower : array, shape (k, k)
        Output: lower triangular L.
    """
    k = columns.shape[0]
    for i in range(k):
        for j in range(i + 1, k):
            size = math.hypot(columns[i, i], columns[i, j])
            if size > 0.0:
                cosine, sine = columns[i, i] / size, columns[i, j] / size
                for row in range(i, k):
                    x, y = columns[row, i], columns[row, j]
                    columns[row, i] = cosine * x + sine * y
                    columns[row, j] = cosine * y - sine * x
        for j in range(k):
            lower[i, j] = columns[i, j] if j <= i else 0.0


def spread_groups(kernel: Callable[..., bool], count: int, *arguments: Any) -> bool:
    """Run a kernel whose tasks are groups over `count` matrices; True when all succeed.

    Parameters
    ----------
    kernel : callable
        Compiled function, as `covdp.parallel.spread` takes it; a task is a group of matrices.
    count : int
        Number of matrices.
    *arguments : object
        Arguments before the range of tasks.

    Returns
    -------
    bool
        True when all tasks succeed.
    """
    groups = -(-count // SIMD_WIDTH)
    return spread(kernel, groups, *arguments, share=FEW_TASKS // SIMD_WIDTH)
