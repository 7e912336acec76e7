"""Compiled loops over pairs (base, point) of SPD matrices in the affine-invariant metric.

A base B = C Cᵀ and a point X = L Lᵀ come as Cholesky factors. G = C⁻¹ L is the point seen from the
base: Jacobi rotations of its columns give log(G Gᵀ) without ever forming C⁻¹ X C⁻ᵀ, which would
square the condition. G Gᵀ differs from B^{−1/2} X B^{−1/2} by the rotation R = B^{−1/2} C.
Next on the path: ``affine.py``.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.geometry.kernels import _jacobi, _solve, compiled

BLOCK = 256
"""Points summed one after the other; the sums of blocks are then added in order."""


@compiled
def _logs(
    lower: FloatArray,
    point: FloatArray,
    pairs: NDArray[np.uint64],
    seen: FloatArray,
    columns: FloatArray,
    logs: FloatArray,
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
    if not _jacobi(columns, logs, pairs):
        return False
    for j in range(k):
        inverse = 1.0 / math.sqrt(logs[j])
        for i in range(k):
            columns[j, i] *= inverse
        logs[j] = math.log(logs[j])
    return True


@compiled
def frames(
    lowers: FloatArray, pairs: NDArray[np.uint64], rotations: FloatArray, start: int, stop: int
) -> bool:
    """Write R = B^{−1/2} C = U Vᵀ for each factor C = U Σ Vᵀ."""
    k = lowers.shape[1]
    columns = np.empty((k, 2 * k))
    squares = np.empty(k)
    for n in range(start, stop):
        columns[:] = 0.0
        for i in range(k):
            columns[i, k + i] = 1.0
            for j in range(k):
                columns[j, i] = lowers[n, i, j]
        if not _jacobi(columns, squares, pairs):
            return False
        for i in range(k):
            for j in range(k):
                value = 0.0
                for t in range(k):
                    value += columns[t, i] * columns[t, k + j] / math.sqrt(squares[t])
                rotations[n, i, j] = value
    return True


@compiled
def distances(
    bases: FloatArray,
    points: FloatArray,
    where: NDArray[np.int64],
    pairs: NDArray[np.uint64],
    out: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write ‖log(C⁻¹ X C⁻ᵀ)‖_F for the pairs (base, point) in the rows of `where`."""
    k = bases.shape[1]
    seen, columns, logs = np.empty((k, k)), np.empty((k, k)), np.empty(k)
    for n in range(start, stop):
        base, point = where[n]
        if not _logs(bases[base], points[point], pairs, seen, columns, logs):
            return False
        total = 0.0
        for j in range(k):
            total += logs[j] * logs[j]
        out[n] = math.sqrt(total)
    return True


@compiled
def coordinates(
    bases: FloatArray,
    rotations: FloatArray,
    points: FloatArray,
    where: NDArray[np.int64],
    pairs: NDArray[np.uint64],
    out: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write vecd(R log(C⁻¹ X C⁻ᵀ) Rᵀ), for the pairs (base, point) in the rows of `where`."""
    k = bases.shape[1]
    seen, columns, logs = np.empty((k, k)), np.empty((k, k)), np.empty(k)
    for n in range(start, stop):
        base, point = where[n]
        if not _logs(bases[base], points[point], pairs, seen, columns, logs):
            return False
        for t in range(k):
            for i in range(k):
                seen[t, i] = 0.0
                for j in range(k):
                    seen[t, i] += rotations[base, i, j] * columns[t, j]
        entry = k
        for i in range(k):
            for j in range(i, k):
                value = 0.0
                for t in range(k):
                    value += logs[t] * seen[t, i] * seen[t, j]
                if i == j:
                    out[n, i] = value
                else:
                    out[n, entry] = math.sqrt(2.0) * value
                    entry += 1
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
    """Write Σ w log(C⁻¹ X C⁻ᵀ), Σ w √(1 + x²) over block t % blocks, seen from base t // blocks.

    2x is the difference of the largest and the smallest log-eigenvalue. With `turn` (one base) each
    factor L is replaced by L V, V the rotations it took: another factor of X, whose columns need
    few rotations when seen from a base nearby.
    """
    k = bases.shape[1]
    blocks = -(-points.shape[0] // BLOCK)
    seen, columns, logs = np.empty((k, k)), np.empty((k, 2 * k if turn else k)), np.empty(k)
    for task in range(start, stop):
        base, block = task // blocks, task % blocks
        logs_sum[task] = 0.0
        spread_sum[task] = 0.0
        for n in range(block * BLOCK, min((block + 1) * BLOCK, points.shape[0])):
            if not _logs(bases[base], points[n], pairs, seen, columns, logs):
                return False
            half = 0.5 * (logs.max() - logs.min())
            spread_sum[task] += weights[n] * math.sqrt(1.0 + half * half)
            for t in range(k):
                scale = weights[n] * logs[t]
                for i in range(k):
                    for j in range(i + 1):
                        logs_sum[task, i, j] += scale * columns[t, i] * columns[t, j]
                    if turn:
                        points[n, i, t] = columns[t, k + i]
    return True
