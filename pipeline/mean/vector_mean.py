"""The one private operation of the adaptive mean: the noisy mean of vectors of diameter 1.

**Privacy.** Replace-one, n public. Each record is mapped, by itself, to a vector of a set of
diameter at most 1: replacing one of n records moves their mean by at most Δ = 1/n. The map may
depend on what was released before (adaptive composition). Gaussian noise of scale σ(budget, Δ) on
the mean costs its share of the budget, and the shares compose to the whole.

**Numerics.** The computed vectors have norm at most 1, a set of diameter at most 1 + 1e-12 (fewer
than 1000 roundings of u = 2⁻⁵³ each), and any order of summation of n of them errs by at most nu
in the mean, on each of the two data sets: Δ = (1 + 1e-12)/n + 5nu covers both. What a record is
mapped to is a function of that record and of released values alone, to the last bit, so nothing
else needs a margin. With the lattice's noise the account holds for the floats as they are; with
NumPy's it is idealised. Next on the path: ``rounds.py``.
"""

from pipeline.errors import PrivacyError
from pipeline.mean.plan import Shares
from pipeline.mean.release import Step
from pipeline.mechanisms.noise import check_scale
from pipeline.privacy import GDP, ApproxDP, Budget, PureDP, gaussian_sigma, split

UNIT = 2.0**-53
"""u, the unit roundoff of double precision."""


def mean_sensitivity(n: int) -> float:
    """Return Δ = (1 + 1e-12)/n + 5nu, see the top of this file."""
    return (1.0 + 1e-12) / n + 5.0 * n * UNIT


def step_costs(budget: Budget, n: int, shares: Shares) -> tuple[Step, ...]:
    """Return what each step costs; together they compose to at most `budget`.

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
    delta = mean_sensitivity(n)
    steps = tuple(
        Step(name, share, delta, gaussian_sigma(share, delta) * (1.0 + 1e-12))
        for name, share in zip(shares.names, split(whole, shares.all), strict=True)
    )
    for step in steps:
        check_scale(step.sigma)
    return steps
