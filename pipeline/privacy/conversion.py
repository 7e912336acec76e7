"""From one definition to another, where a proof exists.

``convert`` takes a guarantee and nothing else; the functions of ``costs.py`` know the noise and can
say more. Every figure is rounded up.
"""

from fractions import Fraction
from typing import Any

from pipeline.errors import PrivacyError
from pipeline.privacy.calibration import pure_renyi, pure_zcdp
from pipeline.privacy.definitions import (
    DEFINITIONS,
    GDP,
    KLDP,
    MCDP,
    RDP,
    ZCDP,
    ApproxDP,
    B,
    Budget,
    PureDP,
    RaoDP,
    check_delta,
)
from pipeline.privacy.exact import round_up
from pipeline.privacy.normal import gdp_of_pure
from pipeline.privacy.profiles import epsilon_of

LEAST_EPSILON = 1e-9
"""Where (0, δ)-DP holds already, `convert` states (1e-9, δ)-DP: weaker, true, and above 0."""


def convert(
    budget: Budget,
    target: type[B],
    *,
    delta: float | None = None,
    alpha: float | None = None,
) -> B:
    """Return a budget of class `target` that every mechanism satisfying `budget` satisfies.

    ===================  ==============  =================================================
    from                 to              by
    ===================  ==============  =================================================
    pure, approx, GDP,   ApproxDP at δ   ``epsilon_of``: the privacy profile
    Rényi, zCDP
    ε-DP                 GDP             least μ with Φ(−μ/2) ≤ 1/(1 + e^ε)
    ε-DP                 RDP at α        ln[cosh((α − ½)ε)/cosh(ε/2)]/(α − 1)
    ε-DP                 ZCDP, KLDP      ε·tanh(ε/2) ≤ ε²/2
    ε-DP                 MCDP            (ε·tanh(ε/2), ε)
    μ-GDP                ZCDP, KLDP      μ²/2
    μ-GDP                RDP at α        αμ²/2
    ρ-zCDP               RDP at α, KLDP  ρα, ρ
    (a, ε)-Rényi         RDP at α ≤ a    ε: the divergence grows with its order
    (a, ε)-Rényi         KLDP            ε
    ===================  ==============  =================================================

    `delta` is that of an `ApproxDP` target, `alpha` the order of an `RDP` target: required there
    unless `budget` is of that class already.

    Raises
    ------
    PrivacyError
        Where the implication is false or no proof is known, with the reason and the way out.

    References
    ----------
    Dong, Roth and Su (2019), Corollaries 2.13 and B.6: μ-GDP is a post-processing of the pair
    N(0, 1), N(μ, 1), so each divergence is at most that of the pair. Pure DP: see
    ``calibration.pure_renyi`` and ``pure_zcdp``.
    """
    if target not in DEFINITIONS.values():
        raise PrivacyError(
            f"a target must be a definition, found {target!r:.40}; give one like GDP"
        )
    if target is ApproxDP and (delta is not None or not isinstance(budget, ApproxDP)):
        level = check_delta(required(delta, "delta", target))
        found: Budget | None = ApproxDP(max(epsilon_of(budget, level), LEAST_EPSILON), level)
    elif target is RDP and (alpha is not None or not isinstance(budget, RDP)):
        found = _to_renyi(budget, RDP(required(alpha, "alpha", target), 1.0).alpha)
    else:
        found = budget if isinstance(budget, target) else _closed_form(budget, target)
    if not isinstance(found, target):
        raise PrivacyError(_refusal(budget, target))
    return found


def _closed_form(budget: Budget, target: type[Any]) -> Budget | None:
    """Return the budget of a class without second parameter that `budget` implies, if any."""
    match budget:
        case PureDP(epsilon) if target is GDP:
            return GDP(gdp_of_pure(epsilon))
        case PureDP(epsilon) if target is ZCDP:
            return ZCDP(pure_zcdp(epsilon))
        case PureDP(epsilon) if target is KLDP:
            return KLDP(pure_zcdp(epsilon))
        case PureDP(epsilon) if target is MCDP:
            return MCDP(pure_zcdp(epsilon), epsilon)
        case GDP(mu) if target in (ZCDP, KLDP):
            return of_gaussian(Fraction(mu) ** 2, target)
        case ZCDP(value) | RDP(_, value) if target is KLDP:
            return KLDP(value)
    return None


def required(value: float | None, what: str, target: type[Any]) -> float:
    """Return `value` unless it was left out, which `target` does not allow."""
    if value is None:
        raise PrivacyError(f"{target.__name__} needs {what}, found none; give {what} to convert")
    return value


def _to_renyi(budget: Budget, order: float) -> RDP | None:
    """Return the Rényi budget of the given order that `budget` implies, if any."""
    match budget:
        case PureDP(epsilon):
            return RDP(order, pure_renyi(epsilon, order))
        case GDP(mu):
            return RDP(order, round_up(Fraction(order) * Fraction(mu) ** 2 / 2))
        case ZCDP(rho):
            return RDP(order, round_up(Fraction(order) * Fraction(rho)))
        case RDP(alpha, epsilon) if order <= alpha:
            return RDP(order, epsilon)
    return None


def _refusal(budget: Budget, target: type[Any]) -> str:
    """Return why `budget` implies no `target`, and the way out."""
    wanted = target.__name__
    if isinstance(budget, RaoDP):
        why = "the Fisher-Rao distance bounds no ε and no δ except for Gaussian noise"
        out = f"if the noise is Gaussian state GDP({budget.theta:g}), else calibrate it in {wanted}"
    elif target is RaoDP:
        why = "the Fisher-Rao distance belongs to a family of noise, not to a guarantee"
        out = "use gaussian_cost or laplace_cost with its scale"
    elif target is PureDP:
        why = "its loss may be unbounded on rare events"
        out = "calibrate Laplace noise in PureDP, or state ApproxDP at a small delta"
    elif isinstance(budget, KLDP | MCDP):
        why = "it is kept for tables, and bounds a mean or is not kept by post-processing"
        out = "calibrate in GDP, zCDP or pure DP"
    elif isinstance(budget, RDP):
        why = "one Rényi order bounds no higher order, no zCDP and no GDP"
        out = "convert to ApproxDP, or state the release in zCDP"
    else:
        why = "no such implication is known"
        out = "state all releases in a definition both convert to, such as ApproxDP at one delta"
    return f"{budget} implies no {wanted}: {why}; {out}"


def of_gaussian(ratio_squared: Fraction, target: type[Any]) -> Budget:
    """Return the zCDP, KL, Rao or mCDP budget of Gaussian noise from (Δ/σ)², rounded up."""
    half, root = round_up(ratio_squared / 2), round_up(ratio_squared, 2)
    costs: dict[Any, Budget] = {
        RaoDP: RaoDP(root),
        ZCDP: ZCDP(half),
        KLDP: KLDP(half),
        MCDP: MCDP(half, root),
    }
    return costs[target]
