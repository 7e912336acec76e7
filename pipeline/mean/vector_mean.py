"""The one private operation of the adaptive mean: the noisy mean of vectors of diameter 1.

**Privacy.** Replace-one, n public. Each record is mapped, by itself, to a vector of a set of
diameter at most 1: replacing one of n records moves their mean by at most Δ = 1/n. The map may
depend on what was released before (adaptive composition). Gaussian noise of scale σ(budget, Δ) on
the mean costs its share of the budget, and the shares compose to the whole.

**Numerics.** Let u = 2⁻⁵³. Before it is added a vector goes through fewer than 1000 + d roundings,
each of which moves it by at most u times its norm, which is at most 1: the computed vectors form a
set of diameter at most 1 + 2e-12 + 2du, with intervals that rounding carries beyond their ball, by
at most 4e-13 of it (`clipping.clipping`), and with products and overshoots, which move by at most
√3 times as much (``second_moment.py``). Rounding to the lattice 2⁻⁴⁰·Z (``sums.py``) moves two of
them apart by at most √d·2⁻³⁹ + 2⁻³⁷, as it says there. Counts
are whole numbers as they are. Sums are exact, so neighbours' sums differ by the one vector that was
replaced, whatever n is. Dividing by n rounds each coordinate of the mean, of norm at most 1, once:
by at most u in all, on each of the two data sets. Together

    Δ = (1 + 2e-12 + 2du + √d·2⁻³⁹ + 2⁻³⁷)/n + 2u.

What a record is mapped to is a function of that record and of released values alone, to the last
bit, so nothing else needs a margin. With the lattice's noise the account holds for the floats as
they are; with NumPy's it is idealised.
"""

import math
from functools import lru_cache

from pipeline.errors import PrivacyError
from pipeline.mean.plan import Shares
from pipeline.mean.release import Step
from pipeline.mean.sums import PER_UNIT, UNIT
from pipeline.mechanisms.noise import check_scale
from pipeline.privacy import GDP, ApproxDP, Budget, PureDP, gaussian_sigma, split


def vector_diameter(dim: int) -> float:
    """Return the diameter of the set of computed vectors of length `dim`, on the lattice."""
    lattice = (2.0 * math.sqrt(dim) + 8.0) / PER_UNIT
    return 1.0 + 2e-12 + 2.0 * dim * UNIT + lattice


def mean_sensitivity(n: int, dim: int) -> float:
    """Return Δ of the mean of n vectors of length `dim`, see the top of this file.

    The roundings of this formula itself are among the 1000.
    """
    return vector_diameter(dim) / n + 2.0 * UNIT


def step_costs(budget: Budget, n: int, shares: Shares, *, dim: int) -> tuple[Step, ...]:
    """Return what each step costs; together they compose to at most `budget`.

    As `gaussian_steps` for the mean of n vectors. `dim` is the dimension of the mean; that of a
    histogram, whose vectors are not rounded, does not matter.
    """
    return gaussian_steps(budget, shares.names, shares.all, mean_sensitivity(n, dim))


@lru_cache(maxsize=256)
def gaussian_steps(
    budget: Budget, names: tuple[str, ...], shares: tuple[float, ...], delta: float
) -> tuple[Step, ...]:
    """Return one step of Gaussian noise a share, each of sensitivity `delta`.

    μ-GDP is split into √s·μ, ρ-zCDP into s·ρ, Rényi DP of one order into s·ε. (ε, δ)-DP is first
    turned into the largest μ-GDP that implies it, since all noise here is Gaussian: better than
    dividing ε and δ. σ is raised by 1e-12 of its value, so that an account that rounds up stays
    within the share.

    Raises
    ------
    PrivacyError
        For pure DP, which Gaussian noise never satisfies, and budgets out of all proportion.
    """
    if isinstance(budget, PureDP):
        raise PrivacyError(
            f"the adaptive mean adds Gaussian noise, which gives no pure DP, found {budget}; "
            "state the budget in GDP, zCDP, Rényi DP or (ε, δ)"
        )
    whole: Budget = budget
    if isinstance(budget, ApproxDP):
        whole = GDP((1.0 - 1e-12) / gaussian_sigma(budget, 1.0))
    steps = tuple(
        Step(name, share, delta, gaussian_sigma(share, delta) * (1.0 + 1e-12))
        for name, share in zip(names, split(whole, shares), strict=True)
    )
    for step in steps:
        check_scale(step.sigma)
    return steps
