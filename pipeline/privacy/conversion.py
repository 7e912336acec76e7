"""From a budget to the scale of the noise, and from one definition to another where a proof exists.

**Conversion.** `convert` takes a guarantee and nothing else. The costs, inverse to the scales, know
the noise, which allows more: Rao DP and mean concentrated DP, and the rows of the table of total
budgets after m queries (``repeat`` of a cost). Every figure is rounded up.

**Calibration.** Sensitivity is the L2 distance by which replacing one record moves the statistic,
in orthonormal coordinates. Every scale is rounded to the private side: closed forms exactly
(``rounding.py``), the analytic Gaussian after adding the evaluation error to δ (`GUARD`). Next on
the path: the mechanisms, which call this.
"""

import math
from fractions import Fraction
from typing import Any

from covdp.errors import PrivacyError
from covdp.privacy.definitions import (
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
    check_positive,
)
from covdp.privacy.profiles import epsilon_of
from covdp.privacy.rounding import GUARD, gdp_of_pure, greatest, log_delta, pure_of_gdp, round_up


def gaussian_sigma(budget: Budget, sensitivity: float, *, analytic: bool = True) -> float:
    """Return the least standard deviation per coordinate that Gaussian noise may have.

    =====================  =============================================================
    μ-GDP, θ-Rao DP        σ = Δ/μ, Δ/θ
    ρ-zCDP, α-KL DP        σ = Δ/√(2ρ), Δ/√(2α)
    (α, ε)-Rényi DP        σ = Δ·√(α/(2ε))
    (ε, δ), analytic       least σ with Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ) ≤ δ
    (ε, δ), classical      σ = Δ·√(2·ln(1.25/δ))/ε, proven for ε < 1 only
    (μ, τ)-mCDP            σ = Δ/min(√(2μ), τ): the loss is N(Δ²/2σ², Δ²/σ²)
    =====================  =============================================================

    Δ > 0 is L2, replace-one. Only `ApproxDP` looks at `analytic`: the exact condition, or else the
    classical formula.

    Parameters
    ----------
    budget : Budget
        Budget of one release, in any definition but `PureDP`.
    sensitivity : float
        L2 sensitivity Δ > 0, replace-one.
    analytic : bool
        True for the exact condition of `ApproxDP`, False for the classical formula.

    Raises
    ------
    PrivacyError
        For `PureDP`, for the classical formula with ε ≥ 1, for a sensitivity that is not positive.

    Notes
    -----
    **Privacy.** Adjacency replace-one, n public. Along the worst direction the two laws are
    N(0, σ²) and N(Δ, σ²), and every formula above is the definition evaluated on that pair.
    Idealised numerics: the noise is a real-valued Gaussian.

    The second Φ carries −Δ/2σ. Printed with +Δ/2σ, as in some papers, the left side is never
    positive and any σ passes.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018), Theorem 8.
    Dwork and Roth, "The algorithmic foundations of differential privacy" (2014), Theorem A.1.
    Dong, Roth and Su, "Gaussian differential privacy" (2019), Theorem 2.7.
    Mironov, "Rényi differential privacy" (2017), Corollary 3.
    Bun and Steinke, "Concentrated differential privacy" (2016), Proposition 1.6.

    Examples
    --------
    >>> from covdp.privacy import GDP, gaussian_sigma
    >>> gaussian_sigma(GDP(0.5), sensitivity=0.1)
    0.2
    """
    delta = Fraction(check_positive(sensitivity, "sensitivity"))
    return round_up(delta**2 / _largest_ratio_squared(budget, analytic), 2)


def _largest_ratio_squared(budget: Budget, analytic: bool) -> Fraction:
    """Return the largest (Δ/σ)² that `budget` allows to Gaussian noise, exactly or rounded down."""
    match budget:
        case GDP(value) | RaoDP(value):
            return Fraction(value) ** 2
        case ZCDP(value) | KLDP(value):
            return 2 * Fraction(value)
        case RDP(alpha, epsilon):
            return 2 * Fraction(epsilon) / Fraction(alpha)
        case MCDP(mu, tau):
            return min(2 * Fraction(mu), Fraction(tau) ** 2)
        case ApproxDP(epsilon, delta):
            ratio = analytic_mu(epsilon, delta) if analytic else _classical_mu(epsilon, delta)
            return Fraction(ratio) ** 2
        case PureDP():
            raise PrivacyError(
                f"Gaussian noise gives no pure DP at any scale, found {budget}; "
                "use Laplace noise, or a budget in (ε, δ)-DP, GDP, Rényi DP or zCDP"
            )


def analytic_mu(epsilon: float, delta: float) -> float:
    """Return the greatest μ = Δ/σ with which Gaussian noise is (ε, δ)-DP, rounded down.

    The test leaves twice `GUARD` below δ, so that a later account of the same noise, which adds
    `GUARD` once, never exceeds the budget.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε > 0.
    delta : float
        Failure probability δ, 0 < δ < 1.
    """
    limit = math.log(delta) - 2 * GUARD
    return greatest(lambda mu: log_delta(epsilon, mu) <= limit, 1.0)


def _classical_mu(epsilon: float, delta: float) -> float:
    """Return ε/√(2·ln(1.25/δ)), rounded down, for ε < 1."""
    _check_classical(epsilon)
    return epsilon / math.sqrt(2 * (math.log(1.25) - math.log(delta))) * (1 - GUARD)


def _check_classical(epsilon: float) -> None:
    """Raise `PrivacyError` unless ε < 1."""
    if epsilon >= 1:
        raise PrivacyError(
            f"the classical Gaussian formula is proven for epsilon < 1, found {epsilon:g}; "
            "use the analytic one"
        )


def laplace_sigma(budget: Budget, sensitivity: float) -> float:
    """Return the least scale σ = Δ/ε of noise with density ∝ exp(−‖x‖/σ), in any dimension.

    ε is the largest pure budget that implies `budget` (see `laplace_epsilon`), Δ > 0 the L2
    replace-one sensitivity.

    Parameters
    ----------
    budget : Budget
        Budget of one release.
    sensitivity : float
        L2 sensitivity Δ > 0, replace-one.

    Notes
    -----
    **Privacy.** Adjacency replace-one, n public. |‖x − c‖ − ‖x − c'‖| ≤ ‖c − c'‖ ≤ Δ bounds the log
    density ratio by Δ/σ = ε; the norming constant does not depend on c. The same holds on a
    homogeneous Riemannian manifold with its distance. Idealised numerics.
    """
    delta = Fraction(check_positive(sensitivity, "sensitivity"))
    return round_up(delta / Fraction(laplace_epsilon(budget)))


def laplace_epsilon(budget: Budget) -> float:
    """Return the largest ε, rounded down, for which every ε-DP mechanism satisfies `budget`.

    =====================  =============================================================
    ε-DP                   ε
    (ε, δ)-DP              ε; using δ too would raise it by about 2δ at most
    μ-GDP                  ln(Φ(μ/2)/Φ(−μ/2))
    ρ-zCDP, α-KL DP        ε·tanh(ε/2) = ρ, α      (a little more than √(2ρ))
    (α, ε₀)-Rényi DP       ln[cosh((α − ½)ε)/cosh(ε/2)]/(α − 1) = ε₀
    (μ, τ)-mCDP            ε·tanh(ε/2) ≤ μ and ε ≤ τ (a loss in [−ε, ε] is ε-sub-Gaussian)
    θ-Rao DP               θ, the Fisher-Rao distance in one dimension, above it in more
    =====================  =============================================================

    Every pair of laws that ε-DP allows is a post-processing of randomised response with odds e^ε
    (Kairouz, Oh and Viswanath 2015), whose divergences these are; see `pure_renyi`.

    Parameters
    ----------
    budget : Budget
        Budget that must hold.
    """
    match budget:
        case PureDP(epsilon) | ApproxDP(epsilon, _) | RaoDP(epsilon):
            return epsilon
        case GDP(mu):
            return pure_of_gdp(mu)
        case ZCDP(value) | KLDP(value):
            return _pure_of_zcdp(value)
        case MCDP(mu, tau):
            return min(tau, _pure_of_zcdp(mu))
        case RDP(alpha, divergence):
            limit = divergence * (1 - GUARD)
            return greatest(lambda epsilon: pure_renyi(epsilon, alpha) <= limit, 1.0)


def _pure_of_zcdp(rho: float) -> float:
    """Return the largest ε with ε·tanh(ε/2) ≤ ρ, with `GUARD` left for the rounding of tanh."""
    return greatest(lambda epsilon: pure_zcdp(epsilon) <= rho * (1 - GUARD), 1.0)


def pure_renyi(epsilon: float, alpha: float) -> float:
    """Return the Rényi divergence of order α that ε-DP allows at most, rounded up.

    With p/q = e^ε, p + q = 1, it is that of randomised response,

        ln(p^α·q^(1−α) + q^α·p^(1−α))/(α − 1) = ln[cosh((α − ½)ε)/cosh(ε/2)]/(α − 1).

    Parameters
    ----------
    epsilon : float
        Privacy loss ε > 0.
    alpha : float
        Rényi order α > 1.
    """
    # cosh u − cosh v = 2·sinh((u + v)/2)·sinh((u − v)/2) keeps the digits of a small divergence
    rise, excess = alpha * epsilon / 2, (alpha - 1) * epsilon / 2
    if max(rise, epsilon) < 300:
        gain = 2 * math.sinh(rise) * math.sinh(excess) / math.cosh(epsilon / 2)
        value = math.log1p(gain) / (alpha - 1)
    else:  # ln cosh u = u + ln(1 + e^(−2u)) − ln 2
        u = rise + excess
        value = epsilon + (math.log1p(math.exp(-2 * u)) - math.log1p(math.exp(-epsilon))) / (
            alpha - 1
        )
    return value * (1 + GUARD)


def pure_zcdp(epsilon: float) -> float:
    """Return the least ρ for which ε-DP implies ρ-zCDP, rounded up: ε·tanh(ε/2) ≤ ε²/2.

    With w = (α − ½)², α·(α − 1) = w − ¼, so D_α ≤ ρ·α reads h(w) − h(¼) ≤ ρ·(w − ¼) for
    h(w) = ln cosh(ε√w). h'(w) = ε·tanh(ε√w)/(2√w) decreases, because tanh(y)/y does: h is concave,
    and h'(¼) = ε·tanh(ε/2) is the least slope that works for all w > ¼. It is also the limit α → 1,
    the Kullback-Leibler divergence of randomised response.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε > 0.
    """
    return epsilon * math.tanh(epsilon / 2) * (1 + GUARD)


LEAST_EPSILON = 1e-9
"""Least ε of a conversion: for (0, δ)-DP `convert` states (1e-9, δ)-DP, which is weaker, true, and
above 0."""


def convert(
    budget: Budget, target: type[B], *, delta: float | None = None, alpha: float | None = None
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

    Parameters
    ----------
    budget : Budget
        Budget that a mechanism satisfies.
    target : type of Budget
        Definition of the result, a class of `DEFINITIONS`.
    delta : float, optional
        Failure probability δ of an `ApproxDP` target.
    alpha : float, optional
        Rényi order α of an `RDP` target.

    Raises
    ------
    PrivacyError
        Where the implication is false or no proof is known, with the reason and the way out.

    References
    ----------
    Dong, Roth and Su (2019), Corollaries 2.13 and B.6: μ-GDP is a post-processing of the pair
    N(0, 1), N(μ, 1), so each divergence is at most that of the pair. Pure DP: see
    `pure_renyi` and `pure_zcdp`.

    Examples
    --------
    >>> from covdp.privacy import GDP, ApproxDP, convert
    >>> f"{convert(GDP(0.5), ApproxDP, delta=1e-5).epsilon:.4f}"
    '1.9931'
    """
    if target not in DEFINITIONS.values():
        raise PrivacyError(
            f"a target must be a definition, found {target!r:.40}; give one like GDP"
        )
    if target is ApproxDP and (delta is not None or not isinstance(budget, ApproxDP)):
        level = check_delta(required(delta, "delta", target))
        result: Budget | None = ApproxDP(max(epsilon_of(budget, level), LEAST_EPSILON), level)
    elif isinstance(budget, target) and (target is not RDP or alpha is None):
        result = budget
    else:
        result = _closed_form(budget, target, _order(alpha, target))
    if not isinstance(result, target):
        raise PrivacyError(_refusal(budget, target))
    return result


def _closed_form(budget: Budget, target: type[Any], order: float) -> Budget | None:
    """Return the budget of a class, at an order, that `budget` implies, if any."""
    match budget:
        case PureDP(epsilon) if target is GDP:
            return GDP(gdp_of_pure(epsilon))
        case PureDP(epsilon) if target is RDP:
            return RDP(order, pure_renyi(epsilon, order))
        case PureDP(epsilon) if target in (ZCDP, KLDP):
            return target(pure_zcdp(epsilon))  # type: ignore[no-any-return]
        case PureDP(epsilon) if target is MCDP:
            return MCDP(pure_zcdp(epsilon), epsilon)
        case GDP(mu) if target in (ZCDP, KLDP, RDP):
            return of_gaussian(Fraction(mu) ** 2, target, order)
        case ZCDP(rho) if target in (KLDP, RDP):
            return of_gaussian(2 * Fraction(rho), target, order)
        case RDP(alpha, epsilon) if target is KLDP or (target is RDP and order <= alpha):
            return KLDP(epsilon) if target is KLDP else RDP(order, epsilon)
    return None


def _order(alpha: float | None, target: type[Any]) -> float:
    """Return the order of a Rényi target, `alpha`; 1 of others, at which KL DP is."""
    return RDP(required(alpha, "alpha", target), 1.0).alpha if target is RDP else 1.0


def required(value: float | None, what: str, target: type[Any]) -> float:
    """Return `value` unless it was left out, which `target` does not allow.

    Parameters
    ----------
    value : float or None
        Parameter as it was passed.
    what : str
        Name of the number, for the message.
    target : type
        Definition of the result, a class of `DEFINITIONS`.
    """
    if value is None:
        raise PrivacyError(f"{target.__name__} needs {what}, found none; give {what} to convert")
    return value


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
        why = "it is there for tables: it bounds a mean, or post-processing does not preserve it"
        out = "calibrate in GDP, zCDP or pure DP"
    elif isinstance(budget, RDP):
        why = "one Rényi order bounds no higher order, no zCDP and no GDP"
        out = "convert to ApproxDP, or state the release in zCDP"
    else:
        why = "no such implication is known"
        out = "state all releases in a definition both convert to, such as ApproxDP at one delta"
    return f"{budget} implies no {wanted}: {why}; {out}"


def of_gaussian(ratio_squared: Fraction, target: type[Any], order: float) -> Budget:
    """Return the zCDP, KL, Rényi, Rao or mCDP budget of Gaussian noise from (Δ/σ)², rounded up.

    `order` is that of the Rényi divergence, α·Δ²/2σ²; 1 but for Rényi DP.

    Parameters
    ----------
    ratio_squared : Fraction
        Square of the signal-to-noise ratio, (Δ/σ)².
    target : type
        Definition of the result, a class of `DEFINITIONS`.
    order : float
        Rényi order α; 1 for every other definition.
    """
    divergence = round_up(Fraction(order) * ratio_squared / 2)
    root = round_up(ratio_squared, 2)
    own = {RDP: (order, divergence), MCDP: (divergence, root), RaoDP: (root,)}
    return target(*own.get(target, (divergence,)))  # type: ignore[no-any-return]


def gaussian_cost(
    sigma: float,
    sensitivity: float,
    target: type[Budget] = GDP,
    *,
    delta: float | None = None,
    alpha: float | None = None,
    analytic: bool = True,
) -> Budget:
    """Return the cost of Gaussian noise of standard deviation σ per coordinate.

    The inverse of `gaussian_sigma`: θ = μ = Δ/σ, ρ = α = Δ²/(2σ²), (α, αΔ²/(2σ²)),
    (Δ²/(2σ²), Δ/σ), and ε at δ from the analytic or classical condition.

    Parameters
    ----------
    sigma : float
        Standard deviation σ > 0 of a coordinate.
    sensitivity : float
        L2 sensitivity Δ > 0, replace-one, in the same privacy unit.
    target : type of Budget
        Definition of the result, a class of `DEFINITIONS`.
    delta : float, optional
        Failure probability δ of an `ApproxDP` target.
    alpha : float, optional
        Rényi order of an `RDP` target.
    analytic : bool
        True for the exact condition of `ApproxDP`; else ε = Δ·√(2·ln(1.25/δ))/σ, refused from 1 on.

    Raises
    ------
    PrivacyError
        For a pure target, or arguments that are missing or out of range.
    """
    ratio = exact_ratio(sigma, sensitivity)
    if target in (RaoDP, MCDP, ZCDP, KLDP, RDP):
        return of_gaussian(ratio**2, target, _order(alpha, target))
    mu = round_up(ratio)
    if target is ApproxDP and not analytic:
        level = check_delta(required(delta, "delta", target))
        epsilon = mu * math.sqrt(2 * (math.log(1.25) - math.log(level)))
        _check_classical(epsilon)
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
    """Return the cost of noise with density ∝ exp(−‖x‖/σ): the inverse of `laplace_sigma`.

    θ-Rao DP is θ = Δ/σ, exact in one dimension and an upper bound (by √d) in d; every other
    definition is converted from ε = Δ/σ.

    Arguments are those of `gaussian_cost`.

    Parameters
    ----------
    sigma : float
        Scale σ > 0 of the noise.
    sensitivity : float
        L2 sensitivity Δ > 0, replace-one.
    target : type of Budget
        Definition of the result, a class of `DEFINITIONS`.
    delta : float, optional
        Failure probability δ of an `ApproxDP` target.
    alpha : float, optional
        Rényi order α of an `RDP` target.
    """
    epsilon = round_up(exact_ratio(sigma, sensitivity))
    if target is RaoDP:
        return RaoDP(epsilon)
    return convert(PureDP(epsilon), target, delta=delta, alpha=alpha)


def exact_ratio(sigma: float, sensitivity: float) -> Fraction:
    """Return Δ/σ exactly.

    Parameters
    ----------
    sigma : float
        Scale σ > 0 of the noise.
    sensitivity : float
        Sensitivity Δ > 0.
    """
    sigma = check_positive(sigma, "sigma")
    return Fraction(check_positive(sensitivity, "sensitivity")) / Fraction(sigma)
