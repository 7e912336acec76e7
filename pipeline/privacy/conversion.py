"""From one definition, or from a scale of noise, to another definition, where a proof exists.

`convert` takes a guarantee and nothing else. The costs, inverse to ``calibration.py``, know the
noise, which allows more: Rao DP and mean concentrated DP, and the rows of the table of total
budgets after m queries (``repeat`` of a cost). Every figure is rounded up.

**Amplification by subsampling**: a release from a secret random sample costs less. For the
footpoint only, and as an option: a release from all the data costs the same and is more
accurate (its sensitivity is D/n, that of the sample D/m).
"""

import math
from fractions import Fraction
from typing import Any

from pipeline.errors import PrivacyError
from pipeline.privacy.calibration import pure_renyi, pure_zcdp, rao_factor
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
    check_count,
    check_delta,
    check_positive,
)
from pipeline.privacy.profiles import epsilon_of
from pipeline.privacy.rounding import GUARD, gdp_of_pure, round_up

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


def amplify(
    budget: Budget, *, sample: int, population: int, delta: float | None = None
) -> PureDP | ApproxDP:
    """Return the cost of a release from a uniform sample of m out of n records.

    With q = m/n, a release whose profile on the sample is δ(ε) has, on the whole data,

        δ'(ε') ≤ q·δ(ε)    at    ε' = ln(1 + q·(e^ε − 1)).

    So ε-DP becomes ε'-DP, (ε, δ)-DP becomes (ε', q·δ)-DP, and any other definition with a profile
    becomes (ε', δ)-DP through its ε at δ/q.

    `budget` is the cost of the release to the records of the sample, 1 ≤ m ≤ n are public, and
    `delta` is δ of the result for definitions other than `PureDP` and `ApproxDP`.

    Raises
    ------
    PrivacyError
        For sizes out of order, a missing δ, or a definition without a profile.

    Notes
    -----
    **Privacy.** Adjacency replace-one on the population, n public, and replace-one on the sample.
    The sample is drawn uniformly without replacement, afresh for this release, and stays secret:
    neither indices nor anything else that depends on them may be published, and the sample must not
    be used again. A fixed or published subsample is amplified by nothing.

    Proof in one line: the sample holds the replaced record with probability q, both mixtures share
    the part without it, and within the rest the replaced record may be coupled to any record of the
    sample (advanced joint convexity).

    References
    ----------
    Balle, Barthe and Gaboardi, "Privacy amplification by subsampling" (2018), the theorem on
    sampling without replacement under substitution.
    """
    rate = check_count(sample, "sample") / check_count(population, "population")
    if rate > 1:
        raise PrivacyError(
            f"a sample must not exceed its population, found {sample} of {population}; "
            "sample without replacement"
        )
    match budget:
        case PureDP(epsilon):
            return PureDP(_amplified(epsilon, rate))
        case ApproxDP(epsilon, delta_sample):
            return ApproxDP(_amplified(epsilon, rate), delta_sample * rate * (1 + GUARD))
    level = check_delta(required(delta, "delta", ApproxDP))
    inner = level / rate * (1 - GUARD)
    epsilon = epsilon_of(budget, inner) if inner < 1 else 0.0
    return ApproxDP(max(_amplified(epsilon, rate), LEAST_EPSILON), level)


def _amplified(epsilon: float, rate: float) -> float:
    """Return ln(1 + q·(e^ε − 1)), rounded up but never above ε."""
    if epsilon < 1:
        exact = math.log1p(rate * math.expm1(epsilon))
    else:
        exact = epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))
    return min(epsilon, exact * (1 + GUARD))
