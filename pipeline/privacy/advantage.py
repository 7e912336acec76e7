"""What a budget means to one person: how well the best test can tell whether an image was used.

The test knows everything but one image: the mechanism, all other images, two candidates for the one
in question. It sees what was released and says which of the two it was. At even odds it is right
with probability ½ + TV(P, Q)/2, where TV = sup_S |P(S) − Q(S)| and P, Q are the laws of the output
with either candidate; guessing is right with ½. If the other candidate is drawn at random, Q is a
mixture, and TV is at most the largest over its parts. Figures are rounded up.
"""

import math
from fractions import Fraction

from pipeline.errors import PrivacyError
from pipeline.privacy.calibration import pure_renyi
from pipeline.privacy.conversion import convert
from pipeline.privacy.definitions import GDP, RDP, ZCDP, ApproxDP, Budget, PureDP
from pipeline.privacy.exact import least
from pipeline.privacy.normal import GUARD
from pipeline.privacy.profiles import delta_of


def advantage(budget: Budget) -> float:
    """Return the largest TV(P, Q) that `budget` allows: P(success) = ½ + TV/2 at even odds.

    =====================  =============================================================
    ε-DP                   tanh(ε/2)
    (ε, δ)-DP              δ + (1 − δ)·tanh(ε/2)
    μ-GDP                  2Φ(μ/2) − 1
    ρ-zCDP                 tanh(ε/2) with ε·tanh(ε/2) = ρ; at most √(ρ/2)
    (α, ε_α)-Rényi DP      tanh(ε/2) with ln[cosh((α − ½)ε)/cosh(ε/2)]/(α − 1) = ε_α
    =====================  =============================================================

    The first three are the privacy profile at ε = 0, since TV is the least δ of (0, δ)-DP. Each is
    the least possible.

    *zCDP and Rényi DP.* Let a test tell v = p − q, accepting with probability p under P and q under
    Q. By data processing D_α(Ber(p)‖Ber(q)) is bounded as D_α(P‖Q) is; as neighbours are symmetric,
    so is D_α(Ber(q)‖Ber(p)) = D_α(Ber(1 − q)‖Ber(1 − p)). D_α is jointly quasi-convex, hence
    bounded as well halfway between the two pairs, at Ber((1 + v)/2) and Ber((1 − v)/2). This is
    randomised response with e^ε = (1 + v)/(1 − v), so v = tanh(ε/2). It attains the bound, and is
    itself an instance of it. For zCDP all orders bind at once: the strictest is the limit α → 1, as
    shown at `calibration.pure_zcdp`, where D_1 = ε·tanh(ε/2). From tanh(ε/2) ≤ ε/2 it follows that
    ρ ≥ 2v², which is Pinsker's inequality.

    Raises
    ------
    PrivacyError
        For Rao, KL and mean concentrated DP, which are labels.

    References
    ----------
    Dong, Roth and Su (2019), section 2. Kairouz, Oh and Viswanath (2015). van Erven and Harremoës,
    "Rényi divergence and Kullback-Leibler divergence" (2014), Theorems 9 and 13.
    """
    match budget:
        case PureDP() | ApproxDP() | GDP():
            return delta_of(budget, 0.0)
        case ZCDP(rho):
            floor = rho * (1 + GUARD)
            level = least(lambda x: x * math.tanh(x / 2) >= floor, 1.0)
        case RDP(alpha, divergence):
            floor = divergence * (1 + 3 * GUARD)  # `pure_renyi` has one in it
            level = least(lambda x: pure_renyi(x, alpha) >= floor, 1.0)
        case _:
            raise PrivacyError(
                f"{budget} bounds no test: it is a label for tables; "
                "for Gaussian noise state the same release in GDP"
            )
    return min(1.0, math.tanh(level / 2) * (1 + GUARD))


def certified(budget: Budget) -> Budget:
    """Return what noise on a lattice is certified for at `budget`, for `advantage` and `success`.

    Of μ-GDP that is (μ²/2)-zCDP: μ itself holds for noise of real numbers, and for a lattice up to
    the ratio of its step to σ, which no map certifies (``noise.py``). Others are as they are.
    """
    return convert(budget, ZCDP) if isinstance(budget, GDP) else budget


def success(budget: Budget) -> str:
    """Return how often the best test is right, at even odds, in per cent: one decimal, rounded up.

    "59.9" of 0.5-GDP, say, and "62.4" of what is certified at it; guessing gives 50.
    """
    return f"{math.ceil(500 * (1 + Fraction(advantage(budget)))) / 10:.1f}"


def best_test(budget: Budget, hardened: bool) -> str:
    """Return `success` of what hardened noise is certified for, of floats what holds on paper."""
    return success(certified(budget) if hardened else budget)


def plainly(
    budget: Budget,
    *,
    unit: str = "image",
    group: int | None = 1,
    seen: str = "the result",
    hardened: bool = True,
) -> str:
    """Return what `budget` means to one person, for readers who know none of the terms.

    Parameters
    ----------
    budget : Budget
        What protects the records in question, all of them together.
    unit : str
        What one record is.
    group : int or None
        How many records one person has at most, None for any number; they are in question together.
    seen : str
        What is seen.
    hardened : bool
        As in `best_test`.
    """
    one, other = f"one particular {unit} was used", "another in its place"
    if group != 1:
        most = "" if group is None else f", at most {group},"
        one = f"the {unit}s of one particular person{most} were used"
        other = "others in their place"
    return (
        f"whoever sees {seen} and knows all other {unit}s can tell whether {one}, or {other}, "
        f"with at most {best_test(budget, hardened)} % success; guessing has 50 %"
    )
