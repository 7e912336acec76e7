"""Pooling: means of several parts put together by precision.

A stream has its opening and its epochs, `covdp.addons.partners` the releases of several hospitals.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from covdp.arrays import FloatArray
from covdp.mean.noisy_moments import WeighedParts, pooled_bounds


class Part(NamedTuple):
    """Mean of the records of one part.

    Attributes
    ----------
    n : int
        Number of records.
    offset : array, shape (d,)
        Mean, in the chart.
    covariance : array, shape (d, d)
        Covariance of its error.
    """

    n: int
    offset: FloatArray
    covariance: FloatArray


class PooledMean(NamedTuple):
    """Mean of parts, and its certainty.

    Attributes
    ----------
    mean : array, shape (d,)
        Estimate, in the chart.
    of_law : array, shape (d, d)
        Covariance of the error, as the mean of the law that all records are drawn from.
    of_units : array, shape (d, d)
        Covariance of the error, as the mean of these very records.
    gains : array, shape (parts, d, d)
        Factor of each part in the mean; they add up to one.
    """

    mean: FloatArray
    of_law: FloatArray
    of_units: FloatArray
    gains: FloatArray


def pool(parts: Sequence[Part], spread: FloatArray) -> PooledMean:
    """Return the mean of all parts, by precision.

    Part i is n_i records of a common law of covariance Σ, `spread`, so their mean is
    m_i = m + N(0, Σ/n_i), observed with an error N(0, V_i): W_i = (V_i + Σ/n_i)⁻¹ weighs what it
    says of m, and (Σ W_i)⁻¹·Σ W_i·u_i is the posterior mean of m. That of all records, Σ f_i·m_i
    with f_i = n_i/N, takes from each part what it says of its own records, f_i·(Σ/n_i)·W_i·(u_i −
    m), where it is precise; these sum to 0, so it is the same number, and only its error is
    another. Weights by 1/V_i alone would miss that the records of the part observed best are not
    all records; f_i alone, that a part may be mostly noise. A wrong Σ costs accuracy, never
    privacy.

    Parameters
    ----------
    parts : sequence of Part
        Mean of each part.
    spread : array, shape (d, d)
        Covariance Σ of single records.
    """
    total, d = sum(part.n for part in parts), len(spread)
    weights = [np.linalg.inv(part.covariance + spread / part.n) for part in parts]
    of_law = np.linalg.inv(np.sum(weights, axis=0))
    first = parts[0].offset  # of one part alone this is the mean, to the last bit
    away = (w @ (part.offset - first) for w, part in zip(weights, parts, strict=True))
    mean = first + of_law @ sum(away)
    through, own = np.zeros((d, d)), np.zeros((d, d))
    for weight, part in zip(weights, parts, strict=True):
        share, gain = part.n / total, spread / part.n @ weight
        rest = np.eye(d) - gain
        through += share * rest
        own += share**2 * rest @ spread / part.n
    of_units = through @ of_law @ through.T + (own + own.T) / 2.0
    return PooledMean(np.asarray(mean), of_law, of_units, of_law @ np.stack(weights))


def pooled_clipping(parts: WeighedParts) -> FloatArray:
    """Return the squares of `pooled_bounds` as a covariance, (d, d), even off the contrast axis.

    Parameters
    ----------
    parts : WeighedParts
        Share of each part in the mean, and its moments.
    """
    first = parts[0][1]
    along, off = pooled_bounds(parts)
    return first.as_covariance(along / first.length, off / first.unit_length)
