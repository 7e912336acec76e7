"""Several records of one person: what protects all of them, when a budget protects one."""

import math
from fractions import Fraction

from pipeline.errors import PrivacyError
from pipeline.privacy.definitions import GDP, ZCDP, ApproxDP, Budget, PureDP, RaoDP, check_count
from pipeline.privacy.exact import round_down, round_up
from pipeline.privacy.normal import GUARD


def for_group(budget: Budget, size: int) -> Budget:
    """Return what protects a person with at most `size` records, when `budget` protects one.

    Changing g records is g replacements in a row: ε → gε; μ → gμ; ρ → g²ρ; θ → gθ;
    (ε, δ) → (gε, δ·(e^{gε} − 1)/(e^ε − 1)).

    Raises
    ------
    PrivacyError
        A size below 1, a total δ of 1 or more, or a definition without such a rule here.

    References
    ----------
    Dong, Roth and Su (2019), Theorem 2.14. Bun and Steinke (2016), Proposition 1.9. Vadhan, "The
    complexity of differential privacy" (2017), Lemma 2.2.
    """
    size = check_count(size, "a group")
    if size == 1:
        return budget
    match budget:
        case PureDP(epsilon):
            return PureDP(round_up(size * Fraction(epsilon)))
        case GDP(mu):
            return GDP(round_up(size * Fraction(mu)))
        case RaoDP(theta):
            return RaoDP(round_up(size * Fraction(theta)))
        case ZCDP(rho):
            return ZCDP(round_up(size**2 * Fraction(rho)))
        case ApproxDP(epsilon, delta):
            whole = round_up(size * Fraction(epsilon))
            growth = math.expm1(whole) / math.expm1(epsilon) if whole < 700 else math.inf
            if (grown := delta * growth * (1 + GUARD)) < 1:
                return ApproxDP(whole, grown)
    raise PrivacyError(
        f"{budget} protects no group of {size} by a rule known here; "
        "state the release in GDP, zCDP or pure DP"
    )


def for_one_of_group(budget: Budget, size: int) -> Budget:
    """Return what one record may cost so that `size` of them cost at most `budget`, rounded down.

    Raises
    ------
    PrivacyError
        A size below 1, or another definition than pure DP, GDP and zCDP.
    """
    size = check_count(size, "a group")
    match budget:
        case PureDP(epsilon):
            return PureDP(round_down(Fraction(epsilon) / size))
        case GDP(mu):
            return GDP(round_down(Fraction(mu) / size))
        case ZCDP(rho):
            return ZCDP(round_down(Fraction(rho) / size**2))
    raise PrivacyError(
        f"{budget} is not shared out over a group here; state it in GDP, zCDP or pure DP"
    )


def for_group_as_written(budget: Budget, size: int) -> Budget:
    """Return `for_group`, but of the decimal that was typed, to the nearest double.

    The double 0.1 is a little more than a tenth, so that five times it, rounded up, exceeds 0.5.
    What is returned is at most 2⁻⁵² of the number too small, less than the 1e-12 by which the scale
    of every release is raised. Raises as `for_group` does.
    """
    whole = for_group(budget, size)
    match budget:
        case PureDP(epsilon):
            return PureDP(float(size * Fraction(repr(epsilon))))
        case GDP(mu):
            return GDP(float(size * Fraction(repr(mu))))
        case ZCDP(rho):
            return ZCDP(float(size**2 * Fraction(repr(rho))))
    return whole
