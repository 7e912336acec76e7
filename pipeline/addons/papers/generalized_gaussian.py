"""Costs and scales of noise ∝ exp(−|x/σ|^N), N ≥ 1, in independent coordinates, in Rao DP."""

import math
from fractions import Fraction

from scipy.special import gammaln

from covdp.errors import PrivacyError
from covdp.privacy.conversion import exact_ratio
from covdp.privacy.definitions import Budget, RaoDP, check_positive
from covdp.privacy.rounding import GUARD, round_up


def generalized_gaussian_sigma(budget: RaoDP, sensitivity: float, degree: float) -> float:
    """Return the least scale σ = Δ·√(N·Γ(2 − 1/N)/Γ(1 + 1/N))/θ of noise ∝ exp(−|x/σ|^N), N ≥ 1.

    The root is the square root of the Fisher information of the location at σ = 1: degree 1 is the
    Laplace law and gives 1, degree 2 the Gaussian with standard deviation σ/√2 and gives √2. Δ is
    the replace-one sensitivity of one coordinate.

    Parameters
    ----------
    budget : RaoDP
        Budget of one release.
    sensitivity : float
        Sensitivity Δ > 0 of one coordinate, replace-one.
    degree : float
        Exponent N ≥ 1 of the density ∝ exp(−|x/σ|^N).

    Raises
    ------
    PrivacyError
        For another definition, which has no closed form here, or a degree below 1.

    References
    ----------
    Soto, "Rao differential privacy", Theorem 4.12; its printed density exp(−|x|^N/σ) is
    not the one its formula belongs to.
    """
    if not isinstance(budget, RaoDP):
        raise PrivacyError(
            f"generalized Gaussian noise is calibrated to Rao DP only, found {budget}; "
            "give RaoDP(theta), or use Gaussian or Laplace noise"
        )
    delta = Fraction(check_positive(sensitivity, "sensitivity"))
    return round_up(delta * Fraction(rao_factor(degree)) / Fraction(budget.theta))


def generalized_gaussian_cost(
    sigma: float,
    sensitivity: float,
    target: type[Budget] = RaoDP,
    *,
    degree: float,
    delta: float | None = None,
    alpha: float | None = None,
) -> RaoDP:
    """Return θ = (Δ/σ)·√(N·Γ(2 − 1/N)/Γ(1 + 1/N)) of noise with density ∝ exp(−|x/σ|^N).

    The inverse of `generalized_gaussian_sigma`; no other definition has a closed form here, so none
    looks at `delta` and `alpha`.

    Parameters
    ----------
    sigma : float
        Scale σ > 0 of the noise.
    sensitivity : float
        Sensitivity Δ > 0 of one coordinate, replace-one.
    target : type of Budget
        Definition of the result, a class of `DEFINITIONS`.
    degree : float
        Exponent N ≥ 1 of the density ∝ exp(−|x/σ|^N).
    delta : float, optional
        Not used; other costs take it for an `ApproxDP` target.
    alpha : float, optional
        Not used; other costs take it for an `RDP` target.

    Raises
    ------
    PrivacyError
        For another target, a degree below 1 or arguments that are not positive.
    """
    if target is not RaoDP:
        raise PrivacyError(f"generalized Gaussian noise has a cost in Rao DP only, not {target}")
    return RaoDP(round_up(exact_ratio(sigma, sensitivity) * Fraction(rao_factor(degree))))


def rao_factor(degree: float) -> float:
    """Return √(N·Γ(2 − 1/N)/Γ(1 + 1/N)), rounded up, for a degree N ≥ 1.

    Parameters
    ----------
    degree : float
        Exponent N ≥ 1 of the density ∝ exp(−|x/σ|^N).
    """
    order = check_positive(degree, "degree")
    if order < 1:
        raise PrivacyError(f"degree must be at least 1, found {order:g}; 1 is Laplace, 2 Gaussian")
    information = order * math.exp(gammaln(2 - 1 / order) - gammaln(1 + 1 / order))
    return math.sqrt(information) * (1 + GUARD)
