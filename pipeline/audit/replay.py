"""Transcripts of Gaussian steps, replayed on both data sets: what they leak, exactly.

In: the vectors that one private mean released, in order. Out: their log-likelihood ratio, and μ².
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
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammaincinv

from pipeline.arrays import FloatArray


class Steps(NamedTuple):
    """A transcript step by step.

    Attributes
    ----------
    released : sequence of array
        What each step released.
    left, right : sequence of array
        What it would have released without noise on either data set, after the same steps.
    sigmas : sequence of tuple
        σ of each step on the left and on the right.
    """

    released: Sequence[FloatArray]
    left: Sequence[FloatArray]
    right: Sequence[FloatArray]
    sigmas: Sequence[tuple[float, float]]


Replay: TypeAlias = Callable[[Any], list[Steps]]
"""Transcripts → what each is on both data sets."""


class Cost(NamedTuple):
    """What transcripts cost.

    Attributes
    ----------
    squared_mu : float
        The largest Σ‖a − b‖²/σ² of all transcripts, on all pairs of data sets that were tried.
    sigma : float
        σ of the last step: as asked, or what the draws show it to be at most where that is less.
    """

    squared_mu: float
    sigma: float


def log_ratio(steps: Steps) -> float:
    """Return the log-likelihood ratio of a transcript, left against right."""
    return sum(
        float((2.0 * y - a - b) @ (a - b)) / (2.0 * sigma**2)
        for y, a, b, (sigma, _) in zip(*steps, strict=True)
    )


def squared_mu(steps: Steps) -> FloatArray:
    """Return ‖a − b‖²/σ² of each step, shape (steps,); infinite where σ tells the data sets apart.

    That is exact for noise of the σ that was asked for.
    """
    return np.array(
        [
            _square(a - b) / one**2 if one == other else math.inf
            for _, a, b, (one, other) in zip(*steps, strict=True)
        ]
    )


def cost(
    left: Sequence[Steps], right: Sequence[Steps], *, alpha: float, others: Sequence[Steps] = ()
) -> Cost:
    """Return what transcripts of the left and of the right data set cost, all of as many steps.

    With noise of the σ that was asked for it is exact, except with probability `alpha`: then it is
    too large. What they cost on `others`, further pairs of data sets, counts as well: any
    transcript may come of any data set.
    """
    limits = _noise_limits(left, right, alpha)
    largest = max(float(np.sum(squared_mu(steps) / limits)) for steps in (*left, *right, *others))
    return Cost(largest, left[0].sigmas[-1][0] * math.sqrt(limits[-1]))


def _noise_limits(left: Sequence[Steps], right: Sequence[Steps], alpha: float) -> FloatArray:
    """Return what s² of each step is at most, and 1 where it may be 1; shape (steps,)."""
    squares = [_squares(steps, side) for side, law in enumerate((left, right)) for steps in law]
    entries = np.array([[len(y) for y in steps.released] for steps in (*left, *right)]).sum(axis=0)
    least = 2.0 * gammaincinv(entries / 2.0, alpha / len(entries))
    return np.asarray(np.minimum(np.sum(squares, axis=0) / least, 1.0))


def _squares(steps: Steps, side: int) -> FloatArray:
    """Return ‖released − a‖²/σ² of each step of a transcript that was drawn on one side."""
    own = zip(steps.released, (steps.left, steps.right)[side], steps.sigmas, strict=True)
    return np.array([_square(y - a) / sigmas[side] ** 2 for y, a, sigmas in own])


def _square(vector: FloatArray) -> float:
    return float(vector @ vector)
