"""The least budget whose error is small enough."""

from collections.abc import Callable

from scipy.optimize import brentq

from pipeline.privacy.rounding import digits_up

STEP, STEPS = 2.0, 12
"""Budgets are looked for by this factor, so many times up or down: 2000 times in all."""
DIGITS = 4
"""Digits of what is found, rounded up."""


def least_budget(high: Callable[[float], float], error: float, start: float) -> float | None:
    """Return the least budget from which `high`, the upper end of a range, is at most `error`.

    None where no budget that is looked at suffices, the least of them where that one does.

    Parameters
    ----------
    high : callable
        Budget to upper end, infinite where nothing is released. It falls, but for steps up that
        are smaller than what it falls by in a factor of `STEP`.
    error : float
        What is to be reached.
    start : float
        A budget to begin with.
    """
    if high(start * STEP ** (STEPS - 1)) > error:  # it falls, so all others are above it
        return None
    enough = _first(lambda budget: high(budget) <= error, start, STEP)
    if enough is None:
        return None
    short = _first(lambda budget: high(budget) > error, enough, 1.0 / STEP)
    if short is None:
        return enough * STEP ** (1 - STEPS)

    def surplus(budget: float) -> float:
        return min(high(budget), 2.0 * error) - error

    found = float(brentq(surplus, short, STEP * short, rtol=1e-6))
    return float(digits_up(found, DIGITS))


def _first(fits: Callable[[float], bool], start: float, factor: float) -> float | None:
    """Return the first of start, start·factor, … that fits."""
    candidates = (start * factor**step for step in range(STEPS))
    return next((budget for budget in candidates if fits(budget)), None)
