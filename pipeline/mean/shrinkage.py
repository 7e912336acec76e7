"""Putting a noisy observation together with what was known before it.

The observation u = θ + N(0, S) of the offset θ of the mean from the present centre meets the belief
θ ~ N(0, τP), with P known and τ ≥ 1 found from u itself: the least τ for which u is no larger than
expected, u'(τP + S)⁻¹u ≤ d. So a belief that was too sure is widened until it agrees with the data,
as in the empirical Bayes form of the James-Stein estimator: an observation far beyond its noise is
kept as it is, one that drowns in it hardly moves the centre. Post-processing throughout.
"""

import numpy as np
from scipy.optimize import brentq

from pipeline.arrays import FloatArray

WIDEST = 80.0
"""Largest ln τ."""


def shrink(
    observed: FloatArray, noise: FloatArray, belief: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E(θ | u) and Cov(θ | u).

    Parameters
    ----------
    observed : array, shape (d,)
        u.
    noise, belief : array, shape (d, d)
        S, positive definite, and P.
    """
    root = np.linalg.cholesky(noise)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ belief @ inverse.T)
    ratio, seen = np.maximum(values, 0.0), vectors.T @ (inverse @ observed)
    d = len(observed)

    def surplus(log_tau: float) -> float:
        return float(np.sum(seen**2 / (1.0 + np.exp(log_tau) * ratio))) - d

    if surplus(0.0) > 0.0:
        end = brentq(surplus, 0.0, WIDEST, xtol=1e-6) if surplus(WIDEST) < 0.0 else WIDEST
        ratio = np.exp(end) * ratio
    gain = ratio / (1.0 + ratio)
    axes = root @ vectors
    return np.asarray(axes @ (gain * seen)), np.asarray((axes * gain) @ axes.T)
