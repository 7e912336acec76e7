"""Lower bounds on what a mechanism leaks, from scores or transcripts, beside what a budget claims.

**Scores.** In: scores of independent outputs under P and under Q, the laws on two neighbouring data
sets. Out: numbers that the true ε(δ) and μ exceed, except with a probability stated beforehand, and
what a budget claims that they are at most.

For any event S, (ε, δ)-DP says P(S) ≤ e^ε·Q(S) + δ, and μ-GDP says Φ⁻¹(P(S)) − Φ⁻¹(Q(S)) ≤ μ. So
one event whose two probabilities are known within limits bounds both from below:

    ε(δ) ≥ ln((p − δ)/q),   μ ≥ Φ⁻¹(p) − Φ⁻¹(q),   p a lower limit of P(S), q an upper one of Q(S).

Events are half-lines of the score: {score ≥ t} is likely under P, {score < t} under Q; for the
optimal score no other events are better. One event is named before anything is drawn, score ≥ 0,
and counted in all draws. Another is picked, for each bound, by the first half of the draws, and
counted in the second. As no event depends on the draws it is counted on, the counts are binomial,
and the limits of Clopper and Pearson hold exactly, whatever the score is.

References: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case
of the binomial" (1934). Jagielski, Ullman and Oprea, "Auditing differentially private machine
learning" (2020). Nasr and others, "Tight auditing of differentially private machine learning"
(2023), for the bound on μ.

**Transcripts** of Gaussian steps are replayed on both data sets: what they leak is exact. In: the
vectors that one private mean released, in order. Out: their log-likelihood ratio, and μ².
Given what was released before, the vector that a step adds noise to is a function of the data set.
So the law of step i is N(a_i, σ_i²·Id) on one data set and N(b_i, σ_i²·Id) on the other, and all
steps together are μ-GDP if Σ‖a_i − b_i‖²/σ_i² ≤ μ² in every transcript. A transcript with a larger
sum disproves that the steps compose to the claim, with no sampling error.

The σ_i are what the code asks of its source of noise. Whether the source adds that much is tested
on what it gave: the squares of all (released − a_i)/σ_i of a step sum to s²·χ², where s = 1 is
promised. Where s < 1 beyond doubt, the step is charged 1/s² times as much.

References: Dong, Roth and Su, "Gaussian differential privacy" (2022); Smith and Thakurta, "Fully
adaptive composition for Gaussian differential privacy" (2022).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, gammaincinv, ndtri

from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.privacy import (
    GDP,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    RaoDP,
    convert,
    epsilon_of,
    gaussian_sigma,
)

DELTAS = (0.0, 1e-3, 1e-2, 0.1)
"""Values of δ at which ε is bounded."""
SQUARED_MU = "squared mu"
"""Cost of a transcript, exact: Σ‖a − b‖²/σ²."""
STATED_COST = "stated"
"""Cost by the proven sensitivities, exact: of transcripts Σ Δ²/σ², else the budget's parameter."""
NOISE = "noise"
"""Departure of the noise from its law: −log₁₀ of a p-value, see ``noise.py``."""


class Claim(NamedTuple):
    """An upper bound that a budget promises: on ε at some δ, on μ, or on the μ² of transcripts.

    Or one that noise stays below if it has the law it was asked for. δ is NaN but for ε.

    Attributes
    ----------
    quantity : str
        Name of what is bounded.
    delta : float
        Failure probability δ of a bound on ε.
    value : float
        Upper bound.
    """

    quantity: str
    delta: float
    value: float


def claims(budget: Budget) -> tuple[Claim, ...]:
    """Return the promises of `budget` about ε(δ) at each of `DELTAS`, and about μ if it has one.

    Rao DP promises nothing about either; it gets one claim on μ of the value NaN.

    Parameters
    ----------
    budget : Budget
        Budget that is claimed.
    """
    if isinstance(budget, RaoDP):
        return (Claim("mu", math.nan, math.nan),)
    result = []
    for delta in DELTAS:
        if delta == 0.0 and isinstance(budget, PureDP):
            result.append(Claim("epsilon", delta, budget.epsilon))
        elif delta > 0.0 and not (isinstance(budget, ApproxDP) and delta < budget.delta):
            result.append(Claim("epsilon", delta, epsilon_of(budget, delta)))
    if isinstance(budget, PureDP | GDP):
        result.append(Claim("mu", math.nan, convert(budget, GDP).mu))
    return tuple(result)


def squared_mu(budget: Budget) -> float:
    """Return the promise of `budget` about the μ² of Gaussian steps, in every transcript.

    Of the usual budgets without the function that scales the noise, which is audited.

    Parameters
    ----------
    budget : Budget
        Budget that is claimed.
    """
    if isinstance(budget, GDP):
        return budget.mu**2
    return 2.0 * budget.rho if isinstance(budget, ZCDP) else gaussian_sigma(budget, 1.0) ** -2


Measure: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
"""Limits p, q of the probabilities of events → what each event shows, elementwise."""

_LEVELS = np.concatenate([np.geomspace(1e-4, 0.5, 60), 1.0 - np.geomspace(1e-4, 0.5, 60)])
"""Quantiles of the scores among which the first half chooses its thresholds."""


def lower_limit(count: Any, total: int, alpha: float) -> FloatArray:
    """Return lower confidence limits of probabilities, wrong with `alpha` (Clopper and Pearson).

    Parameters
    ----------
    count : object
        Numbers of successes.
    total : int
        Number of trials.
    alpha : float
        Probability that a limit is wrong.
    """
    count = np.asarray(count)
    limit = betaincinv(np.maximum(count, 1), total - count + 1, alpha)
    return np.where(count > 0, limit, 0.0)


def upper_limit(count: Any, total: int, alpha: float) -> FloatArray:
    """Return upper confidence limits of probabilities, wrong with probability `alpha`.

    Parameters
    ----------
    count : object
        Numbers of successes.
    total : int
        Number of trials.
    alpha : float
        Probability that a limit is wrong.
    """
    return np.asarray(1.0 - lower_limit(total - np.asarray(count), total, alpha))


def epsilon_shown(delta: float) -> Measure:
    """Return the measure ln((p − δ)/q), at least 0.

    Parameters
    ----------
    delta : float
        Failure probability δ.
    """

    def measure(p: FloatArray, q: FloatArray) -> FloatArray:
        gain = np.maximum(p - delta, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(gain) - np.log(q), 0.0))

    return measure


def mu_shown(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return Φ⁻¹(p) − Φ⁻¹(q), at least 0.

    Parameters
    ----------
    p : array, shape (...)
        Probabilities of events under P, or lower limits of them.
    q : array, shape (...)
        Probabilities of the events under Q, or upper limits of them.
    """
    return np.asarray(np.maximum(ndtri(p) - ndtri(q), 0.0))


def lower_bounds(
    left: FloatArray, right: FloatArray, measures: list[Measure], *, alpha: float
) -> list[float]:
    """Return one lower bound for each measure; each is wrong with probability at most `alpha`.

    `left` and `right` are scores of independent draws from P and from Q, shape (n,): larger means
    more like P. Measures, `epsilon_shown` of some δ or `mu_shown`, rise in p and fall in q. Half of
    `alpha` goes to either limit; the bounds may depend on one another.

    A bound is the larger of two, each wrong with probability at most ``alpha / 2``: that of {score
    ≥ 0}, where a log-likelihood ratio tells P from Q best, and of its complement, whose limits are
    the same two; and that of the event picked by the first half.

    Parameters
    ----------
    left : array, shape (n,)
        Scores of independent draws from P.
    right : array, shape (n,)
        Scores of independent draws from Q.
    measures : list of Measure
        Functions of both probabilities, rising in p and falling in q.
    alpha : float
        Largest probability that a bound is wrong.

    Raises
    ------
    ConfigError
        When the two lengths differ, are below 4, or a score is not finite.
    """
    if left.shape != right.shape or left.ndim != 1 or len(left) < 4:
        raise ConfigError(
            f"scores must be two vectors of one length, at least 4, found shapes {left.shape} and "
            f"{right.shape}; draw as often from either law"
        )
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise ConfigError("scores must be finite, found NaN or infinity; check the score")
    half = len(left) // 2
    thresholds = np.quantile(np.concatenate([left[:half], right[:half]]), _LEVELS)
    before = _limits(left, right, np.zeros(1), alpha / 2.0)
    guess = _limits(left[:half], right[:half], thresholds, alpha / 2.0)
    after = _limits(left[half:], right[half:], thresholds, alpha / 2.0)
    bounds = []
    for measure in measures:
        best = int(np.argmax(measure(*guess)))
        bounds.append(float(max(*measure(*before), measure(*after)[best])))
    return bounds


def _limits(
    left: FloatArray, right: FloatArray, thresholds: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return a lower limit of the likely and an upper limit of the rare probability of each event.

    Events are {score ≥ t}, likely in `left`, then {score < t}, likely in `right`.
    """
    total = len(left)
    below_left, below_right = (
        np.searchsorted(np.sort(scores), thresholds, side="left") for scores in (left, right)
    )
    likely = np.concatenate([total - below_left, below_right])
    rare = np.concatenate([total - below_right, below_left])
    return lower_limit(likely, total, alpha / 2.0), upper_limit(rare, total, alpha / 2.0)


class Transcript(NamedTuple):
    """All noised vectors in order, drawn or replayed on a data set.

    Attributes
    ----------
    released : list of array
        Released vector of each step.
    own : list of array
        Vectors without noise on this data set, after the same steps.
    sigmas : list of float
        σ of each step on this data set.
    history : sequence
        Nights, of a stream; of means what leaves, as bytes.
    """

    released: list[FloatArray]
    own: list[FloatArray]
    sigmas: list[float]
    history: Sequence[Any] = ()


class Cost(NamedTuple):
    """Cost of transcripts.

    Attributes
    ----------
    squared_mu : float
        The largest Σ‖a − b‖²/σ² of all transcripts, on all pairs of data sets that were tried.
    sigma : float
        σ of the last step: as asked, or what the draws show it to be at most where that is less.
    """

    squared_mu: float
    sigma: float


@dataclass(frozen=True, eq=False)
class Law:
    """Transcripts of one data set, all of as many steps, as arrays: their vectors end to end.

    Attributes
    ----------
    released, left, right : array
        Released vectors, and those without noise on either data set.
    lengths : array, shape (n, steps)
        Length of each vector.
    sigmas : array, shape (2, n, steps)
        σ on the left and on the right.
    """

    released: FloatArray
    left: FloatArray
    right: FloatArray
    lengths: NDArray[np.int64]
    sigmas: FloatArray

    @classmethod
    def of(cls, left: Sequence[Transcript], right: Sequence[Transcript]) -> "Law":
        """Return the same transcripts, on either data set, as arrays.

        Parameters
        ----------
        left : sequence of Transcript
            Transcripts on the left data set.
        right : sequence of Transcript
            The same transcripts on the right data set.
        """
        parts = [x.released for x in left], [x.own for x in left], [x.own for x in right]
        released, a, b = (np.concatenate([*chain.from_iterable(part)]) for part in parts)
        lengths = np.array([[len(vector) for vector in each.released] for each in left])
        sigmas = np.array([[each.sigmas for each in side] for side in (left, right)])
        return cls(released, a, b, lengths, sigmas)

    @property
    def turned(self) -> "Law":
        """The same with left and right exchanged."""
        return replace(self, left=self.right, right=self.left, sigmas=self.sigmas[::-1])

    def sums(self, entries: FloatArray) -> FloatArray:
        """Return the sums of one number for each entry of the vectors, (n, steps).

        Parameters
        ----------
        entries : array
            One number for each entry of the vectors.
        """
        ends = np.cumsum(self.lengths)
        sums = np.add.reduceat(entries, ends - self.lengths.ravel())
        return np.asarray(sums.reshape(self.lengths.shape))

    def over_variance(self, sums: FloatArray) -> FloatArray:
        """Return sums over σ², (n, steps); infinite where σ tells the data sets apart.

        Parameters
        ----------
        sums : array, shape (n, steps)
            Sums, one a step.
        """
        left, right = self.sigmas
        return np.where(left == right, sums / left**2, math.inf)

    @cached_property
    def costs(self) -> FloatArray:
        """‖a − b‖²/σ² of each step, shape (n, steps): exact for noise of the σ asked for."""
        return self.over_variance(self.sums((self.left - self.right) ** 2))

    def noise(self, own: FloatArray) -> FloatArray:
        """Return ‖released − own‖²/σ² of each step, (n, steps), `own` being `left` or `right`.

        Parameters
        ----------
        own : array
            Vectors without noise, `left` or `right`.
        """
        return self.over_variance(self.sums((self.released - own) ** 2))

    @property
    def log_ratios(self) -> FloatArray:
        """The log-likelihood ratio of each transcript, left against right, (n,)."""
        left, right = self.left, self.right
        products = self.sums((2.0 * self.released - left - right) * (left - right))
        return np.asarray((products / (2.0 * self.sigmas[0] ** 2)).sum(axis=1))


def cost(left: Law, right: Law, *, alpha: float, others: Sequence[Law] = ()) -> Cost:
    """Return the cost of transcripts of the left and right data set, all of as many steps.

    With noise of the σ that was asked for it is exact, except with probability `alpha`: then it is
    too large. What they cost on `others`, further pairs of data sets, counts as well: any
    transcript may come of any data set.

    Parameters
    ----------
    left : Law
        Transcripts drawn on the left data set.
    right : Law
        Transcripts drawn on the right data set.
    alpha : float
        Probability that the cost is too large for noise of the σ that was asked for.
    others : sequence of Law
        Further pairs of data sets; none when left out.
    """
    squares = left.noise(left.left).sum(axis=0) + right.noise(right.right).sum(axis=0)
    entries = left.lengths.sum(axis=0) + right.lengths.sum(axis=0)
    least = 2.0 * gammaincinv(entries / 2.0, alpha / len(entries))
    limits = np.minimum(squares / least, 1.0)  # what s² of each step is at most
    largest = max(float((law.costs / limits).sum(axis=1).max()) for law in (left, right, *others))
    return Cost(largest, float(left.sigmas[0, 0, -1]) * math.sqrt(limits[-1]))
