"""From a budget to the scale of the noise. Next on the path: the mechanisms, which call this.

Sensitivity is the L2 distance by which replacing one record moves the statistic, in orthonormal
coordinates. Every scale is rounded to the private side: closed forms exactly (``rounding.py``), the
analytic Gaussian after adding the evaluation error to δ (`GUARD`).
"""

import math
from fractions import Fraction

from scipy.special import gammaln

from pipeline.errors import PrivacyError
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
    check_positive,
)
from pipeline.privacy.rounding import GUARD, greatest, log_delta, pure_of_gdp, round_up


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

    Raises
    ------
    PrivacyError
        For `PureDP`, for the classical formula with ε ≥ 1, for a sensitivity that is not positive.

    Notes
    -----
    **Privacy.** Adjacency replace-one, n public. Along the worst direction the two laws are
    N(0, σ²) and N(Δ, σ²), and every line above is the definition evaluated on that pair. Idealised
    numerics: the noise is a real-valued Gaussian.

    The second Φ carries −Δ/2σ. Printed with +Δ/2σ, as in some papers, the left side is never
    positive and any σ passes.

    References
    ----------
    Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018), Theorem 8.
    Dwork and Roth, "The algorithmic foundations of differential privacy" (2014), Theorem A.1.
    Dong, Roth and Su, "Gaussian differential privacy" (2019), Theorem 2.7.
    Mironov, "Rényi differential privacy" (2017), Corollary 3.
    Bun and Steinke, "Concentrated differential privacy" (2016), Proposition 1.6.
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
    """
    limit = math.log(delta) - 2 * GUARD
    return greatest(lambda mu: log_delta(epsilon, mu) <= limit, 1.0)


def _classical_mu(epsilon: float, delta: float) -> float:
    """Return ε/√(2·ln(1.25/δ)), rounded down, for ε < 1."""
    if epsilon >= 1:
        raise PrivacyError(
            f"the classical Gaussian formula is proven for epsilon < 1, found {epsilon:g}; "
            "use the analytic one"
        )
    return epsilon / math.sqrt(2 * (math.log(1.25) - math.log(delta))) * (1 - GUARD)


def laplace_sigma(budget: Budget, sensitivity: float) -> float:
    """Return the least scale σ = Δ/ε of noise with density ∝ exp(−‖x‖/σ), in any dimension.

    ε is the largest pure budget that implies `budget` (see `laplace_epsilon`), Δ > 0 the L2
    replace-one sensitivity.

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
    """
    return epsilon * math.tanh(epsilon / 2) * (1 + GUARD)


def generalized_gaussian_sigma(budget: RaoDP, sensitivity: float, degree: float) -> float:
    """Return the least scale σ = Δ·√(N·Γ(2 − 1/N)/Γ(1 + 1/N))/θ of noise ∝ exp(−|x/σ|^N), N ≥ 1.

    The root is the square root of the Fisher information of the location at σ = 1: degree 1 is the
    Laplace law and gives 1, degree 2 the Gaussian with standard deviation σ/√2 and gives √2. Δ is
    the replace-one sensitivity of one coordinate.

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


def rao_factor(degree: float) -> float:
    """Return √(N·Γ(2 − 1/N)/Γ(1 + 1/N)), rounded up, for a degree N ≥ 1."""
    order = check_positive(degree, "degree")
    if order < 1:
        raise PrivacyError(f"degree must be at least 1, found {order:g}; 1 is Laplace, 2 Gaussian")
    information = order * math.exp(gammaln(2 - 1 / order) - gammaln(1 + 1 / order))
    return math.sqrt(information) * (1 + GUARD)
