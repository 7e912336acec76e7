"""The privacy curve of Gaussian noise, in a form that keeps its digits everywhere.

Gaussian noise of standard deviation σ per coordinate on a statistic of L2 sensitivity Δ is decided
by one number, μ = Δ/σ. Along the worst direction the two laws are N(0, 1) and N(μ, 1), and the
least δ of (ε, δ)-DP is (Balle and Wang 2018, Theorem 8)

    δ(ε) = Φ(−a) − e^ε·Φ(−b),    a = ε/μ − μ/2,    b = ε/μ + μ/2.

As printed it loses every digit: the two terms are nearly equal, and e^ε overflows. Because
b² − a² = 2ε, e^ε·φ(b) = φ(a), so with the Mills ratio R(x) = Φ(−x)/φ(x), which SciPy computes to
the last digits as √(π/2)·erfcx(x/√2),

    δ(ε) = φ(a)·(R(a) − R(b)) = φ(a)·∫_a^b (1 − x·R(x)) dx = Φ(−a) − φ(a)·R(b).

The first form serves a > 0, the last a ≤ 0, and the integral (R' = x·R − 1) short intervals.
"""

import math

import numpy as np
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri_exp

GUARD = 1e-11
"""Relative error that no function here exceeds: 20 times the largest one measured against long
arithmetic, over ε from 1e-8 to 1e3 and δ from 1e-300 to almost 1. Callers add it on the private
side."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def _mills(x: float) -> float:
    """Return Φ(−x)/φ(x)."""
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def log_delta(epsilon: float, mu: float) -> float:
    """Return ln δ(ε) of Gaussian noise with Δ/σ = μ > 0, to a relative error of `GUARD` in δ.

    It is −∞ where δ is below the least positive double.
    """
    centre, half = epsilon / mu, mu / 2
    a, b = centre - half, centre + half
    if a > 40:  # then δ ≤ e^(−800)·R(a)
        return -math.inf
    log_density = -a * a / 2 - math.log(2 * math.pi) / 2
    if mu < 0.5:
        x = centre + half * _NODES
        slope = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
        return log_density + math.log(half * float(_WEIGHTS @ slope))
    if a > 0:
        return log_density + math.log(_mills(a) - _mills(b))
    return math.log1p(-(float(ndtr(a)) + math.exp(log_density) * _mills(b)))


def pure_of_gdp(mu: float) -> float:
    """Return the greatest ε for which ε-DP implies μ-GDP, rounded down: ln(Φ(μ/2)/Φ(−μ/2)).

    The trade-off curve of ε-DP is the pair of chords from (0, 1) over the point with both errors
    1/(1 + e^ε) to (1, 0). The convex curve of μ-GDP has the same ends, so it stays below the chords
    exactly when it does at that point: Φ(−μ/2) ≤ 1/(1 + e^ε). Three times `GUARD` are taken off, so
    that `gdp_of_pure`, which adds one, comes back to at most μ.
    """
    if mu < 1:  # no cancellation: Φ(x) − Φ(−x) = erf(x/√2)
        exact = 2 * math.atanh(math.erf(mu / math.sqrt(8)))
    else:
        exact = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return exact * (1 - 3 * GUARD)


def gdp_of_pure(epsilon: float) -> float:
    """Return the least μ for which ε-DP implies μ-GDP, rounded up: the inverse of `pure_of_gdp`."""
    if epsilon < 1:
        exact = math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        exact = -2 * float(ndtri_exp(-float(np.logaddexp(0, epsilon))))
    return exact * (1 + GUARD)
