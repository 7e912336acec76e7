"""What a noisy histogram says: the posterior mean of each bin's share of the records.

The prior is a chain along the bins. A bin is empty or holds a share on a geometric ladder of
levels. From an empty bin the next one is empty too, except with a small probability `rise`; from a
filled one the next is empty with probability `drop`, else filled, with levels that are the more
likely the nearer. The noise is Gaussian of known scale, so the posterior is exact (forward and
backward sums). At last the shares are made to sum to 1, as they must, by moving each in proportion
to its variance. All of it is post-processing. The constants were set by hand: ``python -m
tests.tuning`` tries others on public images.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry.compiling import compiled

LEAST, LADDER = 0.3, 1.5
"""Lowest level, in units of the least noise, and the ratio of neighbouring levels.

Below the noise: several bins of few records each move the mean, though none is seen by itself.
"""
WIDTH = 0.25
"""Standard deviation of a share around its level, relative to it: no gap between levels."""
DOUBT = 3.0
"""Standard deviations by which the sum of the shares is corrected at most."""
KINSHIP = 0.162
"""A level is exp(−KINSHIP) as likely one rung farther away: 1.5^(−1/2.5)."""


class Chain(NamedTuple):
    """Prior of a histogram.

    Attributes
    ----------
    first : float
        Probability that the first bin is filled.
    rise, drop : float
        Probability that a bin is filled after an empty one, empty after a filled one.
    """

    first: float
    rise: float
    drop: float


LINE = Chain(first=0.12, rise=0.06, drop=0.2)
"""Along the line; the first bin is that of featureless images.

The histograms of `tiles`, PneumoniaMNIST and BreastMNIST rise with 0.07 to 0.10, and drop with 0.38
to 0.15, where from 5 % down to 0.05 % of the records fill a bin. The more it rises, the less means
err whose records have a thin tail, and the more all others.
"""
SHELLS = Chain(first=0.5, rise=0.002, drop=0.2)
"""Outwards from the centre; there 0 to 0.09 and 0.15 to 0.18.

The rise is held small: far shells are many and nearly always empty, and one that noise alone seems
to fill makes the clip as wide as the region.
"""


class Smoothed(NamedTuple):
    """What a noisy histogram says.

    Attributes
    ----------
    shares, variances : array, shape (b,)
        Posterior mean of each bin's share of the records, at least 0, and its variance.
    """

    shares: FloatArray
    variances: FloatArray


def smooth(counts: FloatArray, noise: FloatArray, chain: Chain) -> Smoothed:
    """Return the posterior of the shares.

    Parameters
    ----------
    counts : array, shape (b,)
        Noisy shares of the records.
    noise : array, shape (b,)
        Standard deviation of the noise of each.
    chain : Chain
        The prior.
    """
    mean, variance = estimate(counts, noise, chain)
    whole = variance.sum()
    missing = min(max(1.0 - mean.sum(), -DOUBT * math.sqrt(whole)), DOUBT * math.sqrt(whole))
    return Smoothed(np.maximum(mean + missing * variance / whole, 0.0), variance)


def estimate(counts: FloatArray, noise: FloatArray, chain: Chain) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and variance of some of the shares, (b,) each: their sum is unknown."""
    levels = _levels(LEAST * float(noise.min()), LADDER)
    return posterior(counts, noise, levels, _moves(len(levels) - 1, chain, KINSHIP), chain.first)


def posterior(
    counts: FloatArray, noise: FloatArray, levels: FloatArray, moves: FloatArray, first: float
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean and variance of each share, (b,) each."""
    spread, own = noise[:, None] ** 2, (WIDTH * levels) ** 2
    fit = -0.5 * ((counts[:, None] - levels) ** 2 / (spread + own) + np.log(spread + own))
    fit = np.exp(np.maximum(fit - fit.max(axis=1, keepdims=True), -600.0))
    start = np.full(len(levels), first / (len(levels) - 1))
    start[0] = 1.0 - first
    weights, ahead = np.empty_like(fit), np.empty_like(fit)
    passes(fit, moves, start, weights, ahead)
    weights *= ahead
    weights /= weights.sum(axis=1, keepdims=True)
    gain = own / (own + spread)
    share = levels + gain * (counts[:, None] - levels)
    mean = (weights * share).sum(axis=1)
    return mean, (weights * ((share - mean[:, None]) ** 2 + gain * spread)).sum(axis=1)


@lru_cache(maxsize=64)
def _levels(least: float, ratio: float) -> FloatArray:
    """Return 0 and the rungs of the ladder from `least` up to a share of 1."""
    rungs = max(1, math.ceil(-math.log(least) / math.log(ratio)))
    return np.concatenate([[0.0], least * ratio ** np.arange(rungs)])


@lru_cache(maxsize=64)
def _moves(rungs: int, chain: Chain, kinship: float) -> FloatArray:
    """Return the transition probabilities between empty and the levels, (rungs + 1, rungs + 1)."""
    steps = np.arange(rungs)
    kin = np.exp(-kinship * np.abs(steps[:, None] - steps))
    moves = np.empty((rungs + 1, rungs + 1))
    moves[0, 0], moves[0, 1:] = 1.0 - chain.rise, chain.rise / rungs
    moves[1:, 0] = chain.drop
    moves[1:, 1:] = (1.0 - chain.drop) * kin / kin.sum(axis=1, keepdims=True)
    return moves


@compiled
def passes(
    fit: FloatArray, moves: FloatArray, first: FloatArray, behind: FloatArray, ahead: FloatArray
) -> None:
    """Write how likely each state is given the bins up to its own, and those after it, (b, s)."""
    bins, states = fit.shape
    for s in range(states):
        behind[0, s], ahead[bins - 1, s] = first[s] * fit[0, s], 1.0
    for j in range(1, bins):
        for s in range(states):
            behind[j, s] = 0.0
        for t in range(states):
            for s in range(states):
                behind[j, s] += behind[j - 1, t] * moves[t, s]
        whole = 0.0
        for s in range(states):
            behind[j, s] *= fit[j, s]
            whole += behind[j, s]
        for s in range(states):
            behind[j, s] /= whole
    for j in range(bins - 1, 0, -1):
        best = 0.0
        for s in range(states):
            total = 0.0
            for t in range(states):
                total += moves[s, t] * (ahead[j, t] * fit[j, t])
            ahead[j - 1, s], best = total, max(best, total)
        for s in range(states):
            ahead[j - 1, s] /= best
