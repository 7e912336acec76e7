"""Trade-off curves: the least type II error of a test for each type I error, an oracle of profiles.

They are right to about twelve digits.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from covdp.arrays import FloatArray
from covdp.errors import PrivacyError
from covdp.privacy.definitions import GDP, RDP, ZCDP, ApproxDP, Budget, PureDP

_ORDERS = 1 + np.geomspace(1e-3, 1e3, 61)
"""Rényi orders at which the trade-off curve of zCDP is bounded; each bound is valid by itself."""


def tradeoff(budget: Budget, alpha: ArrayLike) -> FloatArray:
    """Return the least type II error of any test of type I error α against `budget`.

    =====================  =============================================================
    (ε, δ)-DP              max(0, 1 − δ − e^ε·α, e^(−ε)·(1 − δ − α)), pure DP with δ = 0
    μ-GDP                  Φ(Φ⁻¹(1 − α) − μ)
    (a, ε)-Rényi DP        least β with D_a(Ber(1 − β)‖Ber(α)) ≤ ε both ways round
    ρ-zCDP                 the largest of these bounds over many orders a, ε = ρa
    =====================  =============================================================

    It is decreasing and convex in α, and at most 1 − α.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    alpha : array-like, shape (...)
        Type I errors α, each in [0, 1].

    Raises
    ------
    PrivacyError
        For other definitions, or α outside [0, 1].

    References
    ----------
    Dong, Roth and Su (2019), Definition 2.6 and Proposition 2.5. The Rényi bounds are the data
    processing inequality for the outcome of the test.
    """
    level = np.asarray(alpha, dtype=np.float64)
    if not ((level >= 0) & (level <= 1)).all():
        raise PrivacyError("type I errors must be in [0, 1], found one outside; clip them first")
    match budget:
        case PureDP(epsilon) | ApproxDP(epsilon, _):
            return _chords(epsilon, getattr(budget, "delta", 0.0), level)
        case GDP(mu):
            return np.asarray(ndtr(-ndtri(level) - mu))
        case RDP(order, divergence):
            return _renyi_curve(order, divergence, level)
        case ZCDP(rho):
            orders = np.reshape(_ORDERS, (-1, *[1] * level.ndim))
            return np.asarray(np.max(_renyi_curve(orders, rho * orders, level), axis=0))
    raise PrivacyError(
        f"{budget} bounds no test: it is a label for tables; "
        "for Gaussian noise state the same release in GDP"
    )


def _chords(epsilon: float, delta: float, level: FloatArray) -> FloatArray:
    slope = math.exp(min(epsilon, 700.0))
    chords = np.maximum(1 - delta - slope * level, (1 - delta - level) / slope)
    return np.asarray(np.maximum(0.0, chords))


def _renyi_curve(
    order: float | FloatArray, divergence: float | FloatArray, level: FloatArray
) -> FloatArray:
    """Bisect for the greatest power p with D_a(Ber(p)‖Ber(α)), D_a(Ber(α)‖Ber(p)) ≤ ε.

    Of one order, or of several, which lead.
    """

    def renyi(p: tuple[FloatArray, ...], q: tuple[FloatArray, ...]) -> FloatArray:
        parts = [order * a + (1 - order) * b for a, b in zip(p, q, strict=True)]
        return np.asarray(np.logaddexp(*parts) / (order - 1))

    inside = np.clip(level, 1e-300, 1 - 2**-53)
    fixed, low, high = _log_law(inside), inside, np.ones_like(inside)
    for _ in range(60):
        power = (low + high) / 2
        own = _log_law(power)
        fits = (renyi(own, fixed) <= divergence) & (renyi(fixed, own) <= divergence)
        low, high = np.where(fits, power, low), np.where(fits, high, power)
    return np.asarray(np.clip(1 - high, 0.0, 1 - level))


def _log_law(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of p and 1 − p."""
    with np.errstate(divide="ignore"):
        return np.log(p), np.log1p(-p)
