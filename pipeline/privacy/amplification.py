"""Amplification by subsampling: a release from a secret random sample costs less.

For the footpoint only, and as an option: a release from all the data costs the same and is more
accurate (its sensitivity is D/n, that of the sample D/m).
"""

import math

from pipeline.errors import PrivacyError
from pipeline.privacy.conversion import LEAST_EPSILON, required
from pipeline.privacy.definitions import ApproxDP, Budget, PureDP, check_count, check_delta
from pipeline.privacy.normal import GUARD
from pipeline.privacy.profiles import epsilon_of


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
