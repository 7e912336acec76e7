"""The spectra of `loops.spectra`, of LANES matrices side by side, in less than half the time.

Rotations of one small matrix wait for each other's square roots. Here one rotation of each of LANES
matrices is taken at once, in arrays whose last axis is the matrix. Each number is made by the same
operations in the same order as there, so it is the same to the last bit: a matrix that is done is
left as it is, and another sweep over it finds so again. Next on the path: ``linalg.py``.
"""

import math
from typing import TypeAlias

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry.compiling import compiled
from pipeline.geometry.loops import SWEEPS, Indices

LANES = 16
"""Matrices side by side: two vectors of the widest kind, which need not wait for each other."""
Work: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Of each matrix: product of two columns, cosine and sine, and 0, 1 if it turns, 2 if it cannot."""


@compiled
def _measure(columns: FloatArray, squares: FloatArray) -> None:
    """Write the squared norms of all columns."""
    squares[:] = 0.0
    for p in range(squares.shape[0]):
        for t in range(columns.shape[1]):
            for j in range(squares.shape[1]):
                squares[p, j] += columns[p, t, j] * columns[p, t, j]


@compiled
def _find_angles(squares: FloatArray, p: int, q: int, tolerance: float, work: Work) -> float:
    """Find the rotations of columns p and q, and take over what they make of `squares`.

    Return 0 if none of the matrices turns, 2 if a square has left the range of floats, else 1.
    """
    product, cosine, sine, turns = work
    most = 0.0
    for j in range(len(product)):
        limit = tolerance * math.sqrt(squares[p, j]) * math.sqrt(squares[q, j])
        turns[j] = 1.0 if abs(product[j]) > limit else 0.0
    for j in range(len(product)):
        most = max(most, turns[j])
    if most == 0.0:
        return most
    for j in range(len(product)):
        gap = squares[q, j] - squares[p, j]
        root = math.sqrt(gap * gap + 4.0 * product[j] * product[j])
        share = 2.0 / (abs(gap) + root)
        tangent = (share if gap >= 0.0 else -share) * product[j]
        cosine[j] = math.sqrt(0.5 + 0.5 * abs(gap) / root)
        sine[j] = cosine[j] * tangent
        moved = tangent * product[j]
        turned = turns[j] > 0.0
        squares[p, j] = squares[p, j] - moved if turned else squares[p, j]
        squares[q, j] = squares[q, j] + moved if turned else squares[q, j]
        turns[j] = turns[j] if not turned or 1e-140 < root < math.inf else 2.0
    for j in range(len(product)):
        most = max(most, turns[j])
    return most


@compiled
def _jacobi(columns: FloatArray, squares: FloatArray, pairs: Indices, work: Work) -> bool:
    """Do as `loops._jacobi` for factors side by side, (k, k, LANES): row j holds column j."""
    k = columns.shape[0]
    product, cosine, sine, turns = work
    for _ in range(SWEEPS):
        _measure(columns, squares)
        still = True
        for pair in range(pairs.shape[0]):
            p, q = pairs[pair]
            for j in range(len(product)):
                product[j] = 0.0
            for t in range(k):
                for j in range(len(product)):
                    product[j] += columns[p, t, j] * columns[q, t, j]
            most = _find_angles(squares, p, q, 4 * k * 2.0**-53, work)
            if most > 1.0:
                return False
            if most == 0.0:
                continue
            still = False
            for t in range(k):
                for j in range(len(product)):
                    x, y = columns[p, t, j], columns[q, t, j]
                    first, second = cosine[j] * x - sine[j] * y, sine[j] * x + cosine[j] * y
                    columns[p, t, j] = first if turns[j] > 0.0 else x
                    columns[q, t, j] = second if turns[j] > 0.0 else y
        if still:
            break
    return True


@compiled
def spectra(lowers: FloatArray, squares: FloatArray, pairs: Indices, start: int, stop: int) -> bool:
    """Write σ² and, in place of L = U diag(σ) Vᵀ, Uᵀ, of LANES matrices a task."""
    k = lowers.shape[1]
    columns, found = np.empty((k, k, LANES)), np.empty((k, LANES))
    work = (np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES))
    for first in range(start * LANES, stop * LANES, LANES):
        for lane in range(LANES):
            for i in range(k):
                for j in range(k):
                    columns[j, i, lane] = lowers[first + lane, i, j]
        if not _jacobi(columns, found, pairs, work):
            return False
        for lane in range(LANES):
            for j in range(k):
                squares[first + lane, j] = found[j, lane]
                inverse = 1.0 / math.sqrt(found[j, lane])
                for i in range(k):
                    lowers[first + lane, j, i] = columns[j, i, lane] * inverse
    return True
