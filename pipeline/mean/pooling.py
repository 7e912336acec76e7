"""Putting a noisy observation together with what was known before it.

The observation u = θ + N(0, S) of the offset θ of the mean from the present centre meets the belief
θ ~ N(0, τP), with P known and τ ≥ 1 found from u itself: the least τ for which u is no larger than
expected, u'(τP + S)⁻¹u ≤ d. So a belief that was too sure is widened until it agrees with the data,
as in the empirical Bayes form of the James-Stein estimator: an observation far beyond its noise is
kept as it is, one that drowns in it hardly moves the centre. Post-processing throughout.

Means of several parts put together by precision.

Post-processing of released values. A stream puts its opening and its epochs together so, and
`pipeline.inference` the releases of several hospitals.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.mean import tuning

EXCESS = 1e-12
"""By how much, relatively, u may remain larger than expected."""
MOST_STEPS = 100
"""Most steps of Newton's to τ; a few suffice."""


def posterior_update(
    observed: FloatArray, noise: FloatArray, prior_cov: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E(θ | u) and Cov(θ | u).

    Parameters
    ----------
    observed : array, shape (..., d)
        u.
    noise, prior_cov : array, shape (..., d, d)
        S, positive definite, and P.
    """
    root = np.linalg.cholesky(noise)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ prior_cov @ inverse.swapaxes(-1, -2))
    whitened = inverse @ observed[..., None]
    ratio, seen = np.maximum(values, 0.0), (vectors.swapaxes(-1, -2) @ whitened)[..., 0]
    ratio = _widening(seen, ratio)[..., None] * ratio
    gain = ratio / (1.0 + ratio)
    axes = root @ vectors
    covariance = (axes * gain[..., None, :]) @ axes.swapaxes(-1, -2)
    return np.asarray((axes @ (gain * seen)[..., None])[..., 0]), np.asarray(covariance)


def _widening(seen: FloatArray, ratio: FloatArray) -> FloatArray:
    """Return the τ ≥ 1 with which u is as large as expected, (...,); `LARGEST_LOG_SCALE` ends it.

    With h(τ) = Σ s²/(1 + τr) it is where 1/h = 1/d. 1/h rises and is concave, being a harmonic sum
    of linear functions: from τ = 1 Newton's steps rise to it and never beyond.
    """
    scale, d = np.ones(seen.shape[:-1]), seen.shape[-1]
    for _ in range(MOST_STEPS):
        width = 1.0 + scale[..., None] * ratio
        excess = np.sum(seen**2 / width, axis=-1) / d - 1.0
        rises = excess > EXCESS
        if not rises.any():
            break
        slope = np.sum(ratio * (seen / width) ** 2, axis=-1) / d
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.nan_to_num(excess * (1.0 + excess) / slope, nan=np.inf)
        most = math.exp(tuning.LARGEST_LOG_SCALE)
        scale = np.where(rises, np.minimum(scale + step, most), scale)
    return scale


class Part(NamedTuple):
    """Mean of n units, (d,), and the covariance of its error, (d, d)."""

    n: int
    offset: FloatArray
    covariance: FloatArray


class Pooled(NamedTuple):
    """A mean of parts, (d,), and how certain it is, (d, d).

    Attributes
    ----------
    mean
        The estimate.
    of_law, of_units
        Covariance of its error, as the mean of the law that all units are drawn from, and as the
        mean of these very units.
    gains
        By what each part is multiplied in it, (parts, d, d); they add up to one.
    """

    mean: FloatArray
    of_law: FloatArray
    of_units: FloatArray
    gains: FloatArray


def pool(parts: Sequence[Part], spread: FloatArray) -> Pooled:
    """Return the mean of all parts, by precision.

    Part i is n_i units of a common law of covariance Σ, `spread`, so their mean is
    m_i = m + N(0, Σ/n_i), seen with an error N(0, V_i): W_i = (V_i + Σ/n_i)⁻¹ weighs what it says
    of m, and (Σ W_i)⁻¹·Σ W_i·u_i is the posterior mean of m. That of all units, Σ f_i·m_i with
    f_i = n_i/N, takes from each part what it says of its own units, f_i·(Σ/n_i)·W_i·(u_i − m),
    where it is precise; these sum to 0, so it is the same number, and only its error is another.
    Weights by 1/V_i alone would miss that the units of the part seen best are not all units; f_i
    alone, that a part may be mostly noise. A wrong Σ costs accuracy, never privacy.
    """
    whole, d = sum(part.n for part in parts), len(spread)
    weights = [np.linalg.inv(part.covariance + spread / part.n) for part in parts]
    of_law = np.linalg.inv(np.sum(weights, axis=0))
    mean = of_law @ sum(w @ part.offset for w, part in zip(weights, parts, strict=True))
    through, own = np.zeros((d, d)), np.zeros((d, d))
    for weight, part in zip(weights, parts, strict=True):
        share, gain = part.n / whole, spread / part.n @ weight
        rest = np.eye(d) - gain
        through += share * rest
        own += share**2 * rest @ spread / part.n
    of_units = through @ of_law @ through.T + (own + own.T) / 2.0
    return Pooled(np.asarray(mean), of_law, of_units, of_law @ np.stack(weights))
