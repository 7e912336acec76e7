"""Privacy profiles δ(ε), which say what a budget means to an attacker, and their inverse.

A profile is the least δ for each ε. All figures bound the attacker from above: δ and ε are rounded
up (``rounding.GUARD``).
"""

import math
from functools import lru_cache

from covdp.errors import PrivacyError
from covdp.privacy.definitions import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    check_delta,
    check_positive,
)
from covdp.privacy.rounding import GUARD, greatest, least, log_delta


def delta_of(budget: Budget, epsilon: float) -> float:
    """Return a δ for which `budget` implies (ε, δ)-DP: the privacy profile, rounded up.

    =====================  =============================================================
    ε₀-DP                  (e^ε₀ − e^ε)⁺/(1 + e^ε₀), least possible
    (ε₀, δ₀)-DP            δ₀ + (1 − δ₀)·(e^ε₀ − e^ε)⁺/(1 + e^ε₀), least possible
    μ-GDP                  Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), least possible
    (α, ε_α)-Rényi DP      e^((α−1)(ε_α − ε))·(1 − 1/α)^(α−1)/α
    ρ-zCDP                 the row above with ε_α = ρα at its best order
    =====================  =============================================================

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    epsilon : float
        Privacy loss ε ≥ 0 at which the profile is read.

    Raises
    ------
    PrivacyError
        For Rao, KL and mean concentrated DP, or a negative or infinite ε.

    References
    ----------
    Kairouz, Oh and Viswanath, "The composition theorem for differential privacy" (2015).
    Dong, Roth and Su (2019), Corollary 2.13. Canonne, Kamath and Steinke, "The discrete Gaussian
    for differential privacy" (2020), Proposition 12 and Corollary 13.
    """
    level = check_positive(epsilon, "epsilon") if epsilon else 0.0
    value = _log_delta(budget, level)
    if value == -math.inf and isinstance(budget, PureDP):
        return 0.0
    return min(1.0, max(math.exp(value), math.ulp(0.0)))


@lru_cache(maxsize=1024)
def epsilon_of(budget: Budget, delta: float) -> float:
    """Return the least ε ≥ 0 with ``delta_of(budget, ε) ≤ δ``, rounded up.

    Parameters
    ----------
    budget : Budget
        Budget in any definition of `DEFINITIONS`.
    delta : float
        Failure probability δ, 0 < δ < 1.

    Raises
    ------
    PrivacyError
        As in `delta_of`; δ outside (0, 1); δ below that of an approximate budget.

    Examples
    --------
    >>> from covdp.privacy import GDP, epsilon_of
    >>> f"{epsilon_of(GDP(0.5), delta=1e-5):.4f}"
    '1.9931'
    """
    limit = math.log(check_delta(delta))
    if isinstance(budget, ApproxDP) and delta < budget.delta:
        raise PrivacyError(
            f"{budget} says nothing at a delta below its own, found {delta:g}; "
            f"ask for delta of {budget.delta:g} or more"
        )
    if _log_delta(budget, 0.0) <= limit:
        return 0.0
    return least(lambda epsilon: _log_delta(budget, epsilon) <= limit, 1.0)


def _log_delta(budget: Budget, epsilon: float) -> float:
    """Return ln δ(ε), `GUARD` added; for `delta_of` and `epsilon_of`."""
    match budget:
        case PureDP(top) | ApproxDP(top, _):
            return _log_chords(top, getattr(budget, "delta", 0.0), epsilon)
        case GDP(mu):
            return min(0.0, log_delta(epsilon, mu) + GUARD)
        case RDP(alpha, divergence):
            return _log_renyi(alpha - 1, divergence, epsilon)
        case ZCDP(rho):
            # the exponent is convex in α = 1 + x; its slope vanishes at the best order
            best = greatest(
                lambda x: (2 * x + 1) * rho + math.log(x) - math.log1p(x) <= epsilon, 1.0
            )
            return _log_renyi(best, rho * (1 + best), epsilon)
    raise PrivacyError(
        f"{budget} bounds no (ε, δ): it is a label for tables; "
        "for Gaussian noise state the same release in GDP"
    )


def _log_chords(top: float, floor: float, epsilon: float) -> float:
    """Return ln δ(ε) of (top, floor)-DP, that of randomised response behind a leak of `floor`."""
    if epsilon >= top:
        return math.log(floor) if floor else -math.inf
    excess = -math.expm1(epsilon - top) / (1 + math.exp(-top))
    return min(0.0, math.log(floor + (1 - floor) * excess) + GUARD)


def _log_renyi(x: float, divergence: float, epsilon: float) -> float:
    """Return ln of e^((α−1)(ε_α − ε))·(1 − 1/α)^(α−1)/α for α = 1 + x, at most 0."""
    terms = (x * divergence, -x * epsilon, x * (math.log(x) - math.log1p(x)), -math.log1p(x))
    rounding = 1e-15 * math.fsum(map(abs, terms))
    return min(0.0, math.fsum(terms) + rounding + GUARD)
