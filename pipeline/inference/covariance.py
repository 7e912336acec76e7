"""The covariance of the records of a class, estimated from its noised second moment.

All of it is post-processing, in the units of the released vectors, where the noise is the same in
all directions.
"""

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.mean import Observed
from pipeline.mean.observed import noise_edge, noisy_covariance


def raw_covariance(observed: Observed) -> FloatArray:
    """Return the covariance nearest to A, in coordinates at the base, (d, d)."""
    return in_coordinates(_definite(noisy_covariance(observed)), observed)


def covariance(observed: Observed) -> FloatArray:
    """Return the covariance of single records, in coordinates at the base, (d, d).

    With T what the histograms say, one variance along the line and one off it, and (w, u) the
    eigenpairs of A − T, it is T + Σ sign(w)·√(w² − 4τ²)₊·u·uᵀ, made definite: what noise alone
    could be is taken for noise, and the rest is rid of what noise has added to it. It is that of
    clipped records; along the line what moving their mean adds comes to it (`Observed.added`).
    """
    rough = np.full(len(observed.vector), observed.variance_rest)
    rough[: observed.lines] = observed.variance_line
    values, vectors = np.linalg.eigh(noisy_covariance(observed) - np.diag(rough))
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - noise_edge(observed) ** 2, 0.0))
    found = _definite(np.diag(rough) + (vectors * kept) @ vectors.T)
    clipped = in_coordinates(found, observed)
    return np.asarray(clipped + observed.added * observed.line)


def in_coordinates(matrix: FloatArray, observed: Observed) -> FloatArray:
    """Return a matrix in units of the vectors in coordinates at the base."""
    return np.asarray(observed.axes.T @ matrix @ observed.axes)


def _definite(matrix: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
