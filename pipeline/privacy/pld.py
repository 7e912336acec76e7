"""Tight composition of releases of different kinds, by privacy loss distributions.

Adding ε of pure releases and converting a Gaussian one by itself wastes budget. The privacy loss of
several independent releases is a sum of random variables, so its law is a convolution, which
dp-accounting computes on a grid with every rounding upwards (pessimistic).
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pipeline.errors import PrivacyError
from pipeline.privacy.composition import compose
from pipeline.privacy.conversion import LEAST_EPSILON, convert
from pipeline.privacy.definitions import GDP, ApproxDP, Budget, PureDP, check_delta

LEAST_DELTA = 1e-12
_MARGIN = 1e-13
"""Taken off δ for the tails that each convolution cuts (1e-15) and its float noise, so δ may not be
less than ten times that."""


def pld_compose(budgets: Iterable[Budget], delta: float) -> ApproxDP:
    """Return the (ε, δ)-DP of releases in sequence, each in pure or approximate DP or GDP.

    Repeat a budget for repeated releases. ε is rounded up: at least that of the exact composition,
    up to 1 % above it. It needs 1e-12 ≤ δ < 1.

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
    return ApproxDP(max(_epsilon(gaussian, others, delta), LEAST_EPSILON), delta)


def _epsilon(gaussian: list[GDP], others: "Counter[PureDP | ApproxDP]", delta: float) -> float:
    """Return ε at δ of all releases together, on a grid fine against their total loss."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as losses

    total = compose(gaussian).mu if gaussian else 0.0
    span = total * (total + 8) + sum(item.epsilon * n for item, n in others.items())
    interval = span / max(2**18, 2**10 * others.total())
    parts: list[Any] = [
        losses.from_privacy_parameters(
            common.DifferentialPrivacyParameters(item.epsilon, getattr(item, "delta", 0.0)),
            value_discretization_interval=interval,
        ).self_compose(times)
        for item, times in sorted(others.items(), key=repr)
    ]
    if gaussian:
        parts.append(
            losses.from_gaussian_mechanism(
                standard_deviation=1 / total,
                sensitivity=1,
                value_discretization_interval=interval,
            )
        )
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    epsilon = float(whole.get_epsilon_for_delta(delta - _MARGIN))
    if math.isinf(epsilon):
        raise PrivacyError(
            f"the releases lose all protection with a probability above delta = {delta:g}; "
            "ask for a larger delta"
        )
    return epsilon
