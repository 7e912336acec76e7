"""Composition: how budgets add up, and how one is divided.

In every definition something is additive: ε, (ε, δ), μ², ε at one order, ρ, θ², α, (μ, τ²). Sums
and shares are formed in exact rational arithmetic; a total is then rounded up to the next double
and a share down. Hence, with no tolerance at all,

    compose(split(b, shares)) ≤ b,    compose([b] * n) = repeat(b, n),    order does not matter.

Compose one list of all that was spent: a running total would be rounded up at each step.

`for_group` is of several records of one person: what protects all of them, when a budget protects
one.

`pld_compose` is tight for releases of different kinds, by privacy loss distributions. Adding ε of
pure releases and converting a Gaussian one by itself wastes budget. The privacy loss of several
independent releases is a sum of random variables, so its law is a convolution, which dp-accounting
computes on a grid with every rounding upwards (pessimistic).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, TypeAlias

from covdp.errors import PrivacyError
from covdp.privacy.conversion import LEAST_EPSILON, convert
from covdp.privacy.definitions import (
    DEFINITIONS,
    GDP,
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
from covdp.privacy.rounding import GUARD, round_down, round_up

Total: TypeAlias = Callable[[tuple[float, ...], int], float]


def _fields(budgets: Iterable[Budget], total: Total) -> tuple[Any, list[float]]:
    """Return the class and the fields `total(values, power)`; refuse mixed definitions."""
    items = list(budgets)
    if not items:
        raise PrivacyError("at least one budget is needed, found none; leave nothing out")
    names = sorted({getattr(item, "name", type(item).__name__) for item in items})
    if len(names) > 1 or names[0] not in DEFINITIONS:
        raise PrivacyError(
            f"budgets must share one definition, found {', '.join(names)}; "
            "convert them to one first, as in convert(PureDP(1.0), GDP)"
        )
    values = []
    columns = zip(*(vars(item).values() for item in items), strict=True)
    for power, column in zip(items[0].powers, columns, strict=True):
        if power == 0 and len(set(column)) > 1:
            raise PrivacyError(
                f"Rényi budgets add at one order only, found {sorted(set(column))}; "
                "state all releases at the same alpha"
            )
        values.append(total(column, power) if power else column[0])
    return type(items[0]), values


def _combine(budgets: Iterable[B], total: Total) -> B:
    """Return the budget with the fields of `_fields`."""
    kind, values = _fields(budgets, total)
    return kind(*values)  # type: ignore[no-any-return]


def compose(budgets: Iterable[B]) -> B:
    """Return the joint cost of several releases from the same records (sequential composition).

    Σε; (Σε, Σδ); √Σμ²; (α, Σε); Σρ; √Σθ²; Σα; (Σμ, √Στ²), rounded up. Each release may be chosen
    after the earlier ones are known.

    Parameters
    ----------
    budgets : iterable of Budget
        Costs of the releases, all in one definition.

    Raises
    ------
    PrivacyError
        No budget, mixed definitions, different Rényi orders, or a total δ of 1 or more.

    References
    ----------
    Dwork and Roth (2014), Theorem 3.16. Dong, Roth and Su (2019), Corollary 3.3. Mironov (2017),
    Proposition 1. Bun and Steinke (2016), Lemma 1.7. Soto, "Rao differential privacy", Table 1.

    Examples
    --------
    >>> from covdp.privacy import GDP, compose
    >>> compose([GDP(3.0), GDP(4.0)])
    GDP(mu=5.0)
    """
    return _combine(budgets, lambda v, power: round_up(_sum_of_powers(v, power), power))


def _as_written(value: float) -> Fraction:
    """Return the shortest decimal that gives a double: what was typed."""
    return Fraction(repr(value))


def scaled(
    budget: B,
    factor: int | Fraction,
    rounding: Callable[[Fraction, int], float],
    read: Callable[[float], Fraction] = Fraction,
) -> B:
    """Return so many times `budget`, in what adds up.

    Parameters
    ----------
    budget : Budget
        Cost of one release.
    factor : int or Fraction
        Number of releases, which may be a fraction.
    rounding : callable
        `round_up`, `round_down`, or another function of a fraction and its power.
    read : callable
        Function that takes a double to an exact number; the double itself when left out.
    """
    return _combine([budget], lambda v, power: rounding(factor * read(v[0]) ** power, power))


def _nearest(x: Fraction, power: int) -> float:
    """Return x^(1/power), to the nearest double where it is a fraction, else rounded up."""
    parts = x.numerator, x.denominator
    exact = Fraction(*(math.isqrt(part) if power == 2 else part for part in parts))
    return float(exact) if exact**power == x else round_up(x, power)


def _sum_of_powers(
    values: Iterable[float], power: int, read: Callable[[float], Fraction] = Fraction
) -> Fraction:
    """Return the exact sum; a number that comes often, as of nightly releases, is read once."""
    often = Counter(values).items()
    return sum((times * read(value) ** power for value, times in often), Fraction(0))


def parallel(budgets: Iterable[B]) -> B:
    """Return the joint cost of releases from disjoint sets of records: the most costly one.

    Allowed where the sets are public, such as classes with public labels: replacing a record, label
    retained, changes the input of one release only. (ε, δ) and (μ, τ) take each maximum by itself.
    Raises as `compose` does.

    Parameters
    ----------
    budgets : iterable of Budget
        Costs of the releases, all in one definition.
    """
    return _combine(budgets, lambda values, power: max(values))


def repeat(budget: B, times: int) -> B:
    """Return the joint cost of `times` releases of one cost: ``compose([budget] * times)``.

    Parameters
    ----------
    budget : Budget
        Cost of one release.
    times : int
        Number of releases.
    """
    return scaled(budget, check_count(times, "times"), round_up)


def split(budget: B, shares: Sequence[float]) -> tuple[B, ...]:
    """Divide `budget` so that composing the parts gives at most `budget` back.

    Share s of ε, (ε, δ), ρ, α is s·ε, (s·ε, s·δ), s·ρ, s·α; of μ and θ it is √s·μ and √s·θ. Shares
    are taken relative to their exact sum.

    Parameters
    ----------
    budget : Budget
        Budget to divide.
    shares : sequence of float
        Positive shares, of sum 1.

    Returns
    -------
    tuple of Budget
        Parts of the budget, in the order of the shares, each rounded down.

    Raises
    ------
    PrivacyError
        Shares that are not positive or do not sum to 1 within 1e-9.

    Examples
    --------
    >>> from covdp.privacy import ZCDP, split
    >>> split(ZCDP(0.5), [0.25, 0.75])
    (ZCDP(rho=0.125), ZCDP(rho=0.375))
    """
    parts = [Fraction(check_positive(share, "a share")) for share in shares]
    total = sum(parts, Fraction(0))
    if abs(total - 1) > 1e-9:
        raise PrivacyError(
            f"shares must sum to 1, found {float(total):.10g}; divide each by their sum"
        )
    return tuple(scaled(budget, part / total, round_down) for part in parts)


def share_of(part: Budget, budget: Budget) -> float:
    """Return the share of `budget` that a part of it is, in what adds up: of μ it is (μ'/μ)².

    Parameters
    ----------
    part : Budget
        Part of `budget`, in the same definition.
    budget : Budget
        Budget in all.
    """
    values = zip(budget.powers, vars(part).values(), vars(budget).values(), strict=True)
    power, own, whole = next(row for row in values if row[0])
    return float((own / whole) ** power)


def fits(spent: Budget, budget: Budget) -> bool:
    """Return True if every parameter of `spent` is at most that of `budget`, in one definition.

    Parameters
    ----------
    spent : Budget
        Cost to compare, in the same definition.
    budget : Budget
        Budget in all.

    Raises
    ------
    PrivacyError
        The two are of different definitions or Rényi orders.
    """
    return parallel([spent, budget]) == budget


def fits_as_written(costs: Sequence[Budget], budget: Budget) -> bool:
    """Return True if `costs` compose to at most `budget`, in the decimals that were typed.

    The double 0.1 is a little more than a tenth, so that three of them exceed 0.3. Here each number
    is the shortest decimal that gives its double, and the sum is exact. That is at most 2⁻⁵³ of a
    number off, less than the 1e-12 by which the scale of every release is raised.
    Raises as `compose` does.

    Parameters
    ----------
    costs : sequence of Budget
        Costs of the releases, in the definition of `budget`.
    budget : Budget
        Budget in all.
    """

    def within(values: tuple[float, ...], power: int) -> float:
        *parts, total = values
        return float(_sum_of_powers(parts, power, _as_written) <= _as_written(total) ** power)

    _, fields = _fields([*costs, budget], within)
    return all(fields)


def times_left(budget: Budget, spent: Sequence[Budget], cost: Budget) -> int:
    """Return for how many more releases at `cost` there is room in `budget` after `spent`.

    The greatest k such that `spent` and k times `cost` compose to at most `budget`, as doubles or
    as written. Both compare Σ spent + k·cost with the budget, in powers that add up and without
    rounding (`compose` returns the least double above the sum, which is at most the budget exactly
    when the sum is). So k is a floor of a rational number for each field, the least counts, and the
    better of the two readings. Raises as `compose` does.

    Parameters
    ----------
    budget : Budget
        Budget in all.
    spent : sequence of Budget
        Costs so far, in the same definition.
    cost : Budget
        Cost of one more release.
    """

    def room(read: Callable[[float], Fraction]) -> Total:
        def times(values: tuple[float, ...], power: int) -> float:
            total, price, *parts = values
            rest = read(total) ** power - _sum_of_powers(parts, power, read)
            return max(0, rest // read(price) ** power)

        return times

    fields = [_fields([budget, cost, *spent], room(read))[1] for read in (Fraction, _as_written)]
    counts = (
        min(int(k) for k, power in zip(ks, cost.powers, strict=True) if power) for ks in fields
    )
    return max(counts)


def remaining(budget: B, spent: B) -> B | None:
    """Return the rest of `budget` after `spent`, rounded down, or None when nothing is left.

    Parameters
    ----------
    budget : Budget
        Budget in all.
    spent : Budget
        Cost so far, in the same definition.

    Raises
    ------
    PrivacyError
        The two are of different definitions or Rényi orders.
    """

    def left(values: tuple[float, ...], power: int) -> float:
        rest = Fraction(values[0]) ** power - Fraction(values[1]) ** power
        return round_down(max(rest, Fraction(0)), power)

    kind, values = _fields([budget, spent], left)
    return kind(*values) if min(values) > 0 else None


def repeat_as_written(budget: Budget, times: int) -> Budget:
    """Return `repeat`, but of the decimal that was typed: for people in several classes.

    A person in g classes is in g releases: √g·μ, g·ρ, g·ε. Where that is a fraction of whole
    numbers (2·μ for g = 4) it is taken to the nearest double, as in `for_group_as_written` and
    within the same margin; where it is not (√2·μ), it is rounded up.

    Parameters
    ----------
    budget : Budget
        Cost of one release.
    times : int
        Number of releases.

    Raises
    ------
    PrivacyError
        As in `repeat`.
    """
    return scaled(budget, check_count(times, "times"), _nearest, _as_written)


def _growth(budget: Budget, size: int) -> int:
    """Return how many times a budget a group costs, in what adds up; 0 where it has no rule."""
    squared = isinstance(budget, GDP | RaoDP | ZCDP)
    return size**2 if squared else size if isinstance(budget, PureDP) else 0


def for_group(budget: Budget, size: int) -> Budget:
    """Return the budget of a person with at most `size` records, when `budget` protects one.

    Changing g records is g replacements in a row: ε → gε; μ → gμ; ρ → g²ρ; θ → gθ;
    (ε, δ) → (gε, δ·(e^{gε} − 1)/(e^ε − 1)).

    Parameters
    ----------
    budget : Budget
        Budget that protects one record.
    size : int
        Largest number of records of one person.

    Raises
    ------
    PrivacyError
        A size below 1, a total δ of 1 or more, or a definition without such a rule here.

    References
    ----------
    Dong, Roth and Su (2019), Theorem 2.14. Bun and Steinke (2016), Proposition 1.9. Vadhan, "The
    complexity of differential privacy" (2017), Lemma 2.2.

    Examples
    --------
    >>> from covdp.privacy import GDP, for_group
    >>> for_group(GDP(0.25), 4)
    GDP(mu=1.0)
    """
    size = check_count(size, "a group")
    if size == 1:
        return budget
    if factor := _growth(budget, size):
        return scaled(budget, factor, round_up)
    if isinstance(budget, ApproxDP):
        epsilon = round_up(size * Fraction(budget.epsilon))
        growth = math.expm1(epsilon) / math.expm1(budget.epsilon) if epsilon < 700 else math.inf
        if (grown := budget.delta * growth * (1 + GUARD)) < 1:
            return ApproxDP(epsilon, grown)
    raise PrivacyError(
        f"{budget} protects no group of {size} by a rule known here; "
        "state the release in GDP, zCDP or pure DP"
    )


def for_one_of_group(budget: Budget, size: int) -> Budget:
    """Return the largest cost of one record so that `size` of them cost at most `budget`.

    It is rounded down.

    Parameters
    ----------
    budget : Budget
        Budget that protects a person with `size` records.
    size : int
        Largest number of records of one person.

    Raises
    ------
    PrivacyError
        A size below 1, or another definition than pure DP, GDP and zCDP.
    """
    size = check_count(size, "a group")
    if (factor := _growth(budget, size)) and not isinstance(budget, RaoDP):
        return scaled(budget, Fraction(1, factor), round_down)
    raise PrivacyError(
        f"{budget} is not shared out over a group here; state it in GDP, zCDP or pure DP"
    )


def for_group_as_written(budget: Budget, size: int) -> Budget:
    """Return `for_group`, but of the decimal that was typed, to the nearest double.

    The double 0.1 is a little more than a tenth, so that five times it, rounded up, exceeds 0.5.
    What is returned is at most 2⁻⁵² of the number too small, less than the 1e-12 by which the scale
    of every release is raised. Raises as `for_group` does.

    Parameters
    ----------
    budget : Budget
        Budget that protects one record.
    size : int
        Largest number of records of one person.
    """
    total = for_group(budget, size)
    factor = _growth(budget, size)
    return scaled(budget, factor, _nearest, _as_written) if factor else total


LEAST_DELTA = 1e-12
_MARGIN = 1e-13
"""Taken off δ for the tails that each convolution cuts (1e-15) and its float noise, so δ may not be
less than ten times that."""


def pld_compose(budgets: Iterable[Budget], delta: float) -> ApproxDP:
    """Return the (ε, δ)-DP of releases in sequence, each in pure or approximate DP or GDP.

    Repeat a budget for repeated releases. ε is rounded up: at least that of the exact composition,
    up to 1 % above it. It needs 1e-12 ≤ δ < 1.

    Parameters
    ----------
    budgets : iterable of Budget
        Costs of the releases, in pure or approximate DP or GDP.
    delta : float
        Failure probability δ, 0 < δ < 1.

    Raises
    ------
    PrivacyError
        Other definitions, no budget, δ out of range, or a δ that the releases exceed at any ε.

    Notes
    -----
    **Privacy.** Adjacency replace-one, n public. Each budget enters as its dominating pair:
    N(0, 1) against N(μ, 1), that is standard deviation 1/μ at replace-one sensitivity 1, stated to
    dp-accounting explicitly because its own replace-one accountants disagree by a factor 2; and
    randomised response behind a leak of δ for (ε, δ)-DP. All Gaussian releases are first composed
    to one, exactly.
    """
    if check_delta(delta) < LEAST_DELTA:
        raise PrivacyError(f"delta must be at least {LEAST_DELTA:g}, found {delta:g}; use compose")
    items = list(budgets)
    gaussian = [item for item in items if isinstance(item, GDP)]
    others = Counter(item for item in items if isinstance(item, PureDP | ApproxDP))
    if len(gaussian) + others.total() < len(items):
        names = sorted({getattr(item, "name", repr(item)) for item in items})
        raise PrivacyError(
            f"loss distributions exist for pure and approximate DP and GDP, found {names}; "
            "convert the others to ApproxDP first"
        )
    if not others:
        return convert(compose(gaussian), ApproxDP, delta=delta)
    total = compose(gaussian).mu if gaussian else 0.0
    loss = _loss_distribution(total, tuple(sorted(others.items(), key=repr)))
    epsilon = float(loss.get_epsilon_for_delta(delta - _MARGIN))
    if math.isinf(epsilon):
        raise PrivacyError(
            f"the releases lose all protection with a probability above delta = {delta:g}; "
            "ask for a larger delta"
        )
    return ApproxDP(max(epsilon, LEAST_EPSILON), delta)


@lru_cache(maxsize=4)
def _loss_distribution(total: float, others: tuple[tuple[PureDP | ApproxDP, int], ...]) -> Any:
    """Return dp-accounting's of one `total`-GDP release, if that is not 0, and so often of others.

    It is on a grid fine against their total loss, and the same whatever δ is asked of it.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as losses

    span = total * (total + 8) + sum(item.epsilon * n for item, n in others)
    interval = span / max(2**18, 2**10 * sum(n for _, n in others))
    parts: list[Any] = [
        losses.from_privacy_parameters(
            common.DifferentialPrivacyParameters(item.epsilon, getattr(item, "delta", 0.0)),
            value_discretization_interval=interval,
        ).self_compose(times)
        for item, times in others
    ]
    if total:
        parts.append(
            losses.from_gaussian_mechanism(
                standard_deviation=1 / total, sensitivity=1, value_discretization_interval=interval
            )
        )
    return reduce(lambda loss, part: loss.compose(part), parts)
