"""Descriptors in plain NumPy, and the ridges at which bounds of each are proven."""

import numpy as np

from covdp.arrays import FloatArray
from covdp.descriptors import DESCRIPTORS

ETA = 1e-6


def ridge(name: str, manifold: str) -> float:
    """Return an η that is large enough: of embedded means, beside the rounding of matrices."""
    return 1e-3 if DESCRIPTORS[name].means and manifold != "spd-log-cholesky" else ETA


def ridges(name: str, manifold: str, wanted: FloatArray) -> FloatArray:
    """Return those of some η at which D falls with η; of embedded means Σ + η·Id stays below Id."""
    if not DESCRIPTORS[name].means:
        return wanted
    return wanted[(wanted >= ridge(name, manifold)) & (wanted <= 1.0)]


def matrix_of(name: str, phi: FloatArray, eta: float = ETA) -> FloatArray:
    """Return the descriptor of features at pixels, (k, pixels), by np.cov."""
    scale, k = DESCRIPTORS[name].means, len(phi)
    matrix = np.reshape(np.cov(phi, bias=True), (k, k)) + eta * np.eye(k)
    if scale:
        first = np.concatenate([[1.0], scale * phi[1:].mean(axis=1)])
        matrix += np.outer(first, first)
        matrix[0] = matrix[:, 0] = first
    return matrix
