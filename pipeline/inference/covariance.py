"""The covariance of the records of a class, estimated from its noised second moment.

All of it is post-processing, in the units of the released vectors, where the noise is the same in
all directions.
"""

import math

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.mean import Observed
from pipeline.mean.second_moment import FACTOR


def noisy_covariance(observed: Observed) -> FloatArray:
    """Return A = M − v·vᵀ + σ²·Id, (d, d), in units of the vectors: unbiased, not definite.

    v and M are released with noise, so v·vᵀ is on average too large by σ²·Id.

    Raises
    ------
    ConfigError
        Where no second moment was released.
    """
    if observed.moment is None:
        raise ConfigError(
            "this class was released without a second moment: n·μ being small, its noise covered "
            "the whole region; release with a larger budget, or more records"
        )
    d, v = len(observed.vector), observed.vector
    return np.asarray(observed.moment - np.outer(v, v) + observed.sigma**2 * np.eye(d))


def noise_edge(observed: Observed) -> float:
    """Return 2τ, where the spectrum of the noise of A ends.

    The noise is symmetric, of standard deviation s = σ/λ on the diagonal and s/√2 off it: its
    eigenvalues fill a semicircle of radius 2·√d·s/√2 (Wigner).
    """
    return math.sqrt(2.0 * len(observed.vector)) * observed.sigma / FACTOR


def raw_covariance(observed: Observed) -> FloatArray:
    """Return the covariance nearest to A, in coordinates at the base, (d, d)."""
    return in_coordinates(_definite(noisy_covariance(observed)), observed)


def covariance(observed: Observed) -> FloatArray:
    """Return the covariance of single records, in coordinates at the base, (d, d).

    With T what the histograms say, one variance along the line and one off it, and (w, u) the
    eigenpairs of A − T, it is T + Σ sign(w)·√(w² − 4τ²)₊·u·uᵀ, made definite: what noise alone
    could be is taken for noise, and the rest is rid of what noise has added to it.
    """
    rough = np.full(len(observed.vector), observed.variance_rest)
    rough[: observed.lines] = observed.variance_line
    values, vectors = np.linalg.eigh(noisy_covariance(observed) - np.diag(rough))
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - noise_edge(observed) ** 2, 0.0))
    found = _definite(np.diag(rough) + (vectors * kept) @ vectors.T)
    return in_coordinates(found, observed)


def in_coordinates(matrix: FloatArray, observed: Observed) -> FloatArray:
    """Return a matrix in units of the vectors in coordinates at the base."""
    return np.asarray(observed.axes.T @ matrix @ observed.axes)


def _definite(matrix: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
