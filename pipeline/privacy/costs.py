"""What noise of a given scale costs, in any definition: the inverse of ``calibration.py``.

Knowing the noise allows more than knowing one guarantee: Rao DP and mean concentrated DP, and the
rows of the table of total budgets after m queries (``repeat`` of a cost).
"""

import math
from fractions import Fraction

from pipeline.errors import PrivacyError
from pipeline.privacy.calibration import rao_factor
from pipeline.privacy.conversion import convert, of_gaussian, required
from pipeline.privacy.definitions import (
    GDP,
    KLDP,
    MCDP,
    RDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    RaoDP,
    check_delta,
    check_positive,
)
from pipeline.privacy.exact import round_up
from pipeline.privacy.normal import GUARD


def gaussian_cost(
    sigma: float,
    sensitivity: float,
    target: type[Budget] = GDP,
    *,
    delta: float | None = None,
    alpha: float | None = None,
    analytic: bool = True,
) -> Budget:
    """Return what Gaussian noise of standard deviation σ per coordinate costs.

    The inverse of `gaussian_sigma`: θ = μ = Δ/σ, ρ = α = Δ²/(2σ²), (α, αΔ²/(2σ²)),
    (Δ²/(2σ²), Δ/σ), and ε at δ from the analytic or classical condition.

    Parameters
    ----------
    sigma, sensitivity : float
        σ > 0 and the L2 replace-one sensitivity Δ > 0, in the same unit.
    target : type
        The definition to state it in.
    delta, alpha : float, optional
        δ of an `ApproxDP` target, order of an `RDP` target.
    analytic : bool
        For `ApproxDP`, the exact condition; else ε = Δ·√(2·ln(1.25/δ))/σ, refused from 1 on.

    Raises
    ------
    PrivacyError
        For a pure target, or arguments that are missing or out of range.
    """
    ratio = _ratio(sigma, sensitivity)
    if target in (RaoDP, MCDP, ZCDP, KLDP):
        return of_gaussian(ratio**2, target)
    if target is RDP:
        order = RDP(required(alpha, "alpha", target), 1.0).alpha
        return RDP(order, round_up(Fraction(order) * ratio**2 / 2))
    mu = round_up(ratio)
    if target is ApproxDP and not analytic:
        level = check_delta(required(delta, "delta", target))
        epsilon = mu * math.sqrt(2 * (math.log(1.25) - math.log(level)))
        if epsilon >= 1:
            raise PrivacyError(
                f"the classical Gaussian formula is proven for epsilon < 1, found {epsilon:g}; "
                "use the analytic one"
            )
        return ApproxDP(epsilon * (1 + GUARD / 2), level)
    return convert(GDP(mu), target, delta=delta)


def laplace_cost(
    sigma: float,
    sensitivity: float,
    target: type[Budget] = PureDP,
    *,
    delta: float | None = None,
    alpha: float | None = None,
) -> Budget:
    """Return what noise with density ∝ exp(−‖x‖/σ) costs: the inverse of `laplace_sigma`.

    θ-Rao DP is θ = Δ/σ, exact in one dimension and an upper bound (by √d) in d; every other
    definition is converted from ε = Δ/σ.

    Arguments are those of `gaussian_cost`.
    """
    epsilon = round_up(_ratio(sigma, sensitivity))
    if target is RaoDP:
        return RaoDP(epsilon)
    return convert(PureDP(epsilon), target, delta=delta, alpha=alpha)


def generalized_gaussian_cost(sigma: float, sensitivity: float, degree: float) -> RaoDP:
    """Return θ = (Δ/σ)·√(N·Γ(2 − 1/N)/Γ(1 + 1/N)) of noise with density ∝ exp(−|x/σ|^N).

    The inverse of `generalized_gaussian_sigma`; no other definition has a closed form here.

    Raises
    ------
    PrivacyError
        For a degree below 1 or arguments that are not positive.
    """
    return RaoDP(round_up(_ratio(sigma, sensitivity) * Fraction(rao_factor(degree))))


def _ratio(sigma: float, sensitivity: float) -> Fraction:
    """Return Δ/σ exactly."""
    sigma = check_positive(sigma, "sigma")
    return Fraction(check_positive(sensitivity, "sensitivity")) / Fraction(sigma)
