"""What a noisy histogram says: the posterior mean of each bin's share of the records.

The prior is a chain along the bins. A bin is empty or holds a share on a geometric ladder of
levels. At first bins are empty; each fills the next with probability `rise`. From a filled one the
next is empty with probability `drop`, else filled, with levels that are the more likely the nearer:
so a tail that thins out is thought to go on where noise hides it, and one that ends at a stroke to
have ended. Once they are empty again they stay so, except with a small probability `again`: records
of one class lie together. The noise is Gaussian of known scale, so the posterior is exact (forward
and backward sums), and so is how shares err together: a tail that is hidden is hidden in several
bins. At last the shares are made to sum to 1, as they must, by moving each by its covariance with
the sum. All of it is post-processing. The constants were set by hand: ``python -m tests.tuning``
tries others on public images.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from pipeline.arrays import FloatArray
from pipeline.threads import compiled

LEAST, LADDER = 0.3, 1.5
"""Lowest level, in units of the least noise, and the ratio of neighbouring levels.

Below the noise: several bins of few records each move the mean, though none is seen by itself.
"""
WIDTH = 0.25
"""Standard deviation of a share around its level, relative to it: no gap between levels."""
DOUBT = 3.0
"""Standard deviations by which the sum of the shares is corrected at most."""


class Chain(NamedTuple):
    """Prior of a histogram.

    Attributes
    ----------
    first : float
        Probability that the first bin is filled.
    rise, again, drop : float
        Probability that a bin is filled where none was before it, and after an empty one that came
        after a filled one; that it is empty after a filled one.
    kinship : float
        A level is exp(−kinship) as likely one rung farther away.
    apart : bool
        Whether the first bin says nothing of the others.
    """

    first: float
    rise: float
    again: float
    drop: float
    kinship: float
    apart: bool


LINE = Chain(first=0.07, rise=0.06, again=0.003, drop=0.15, kinship=0.4, apart=True)
"""Along the line; the first bin is that of featureless images.

Bins of 1 % of the records or more rise with 0.09 to 0.14 and drop with 0.19 to 0.33 in `tiles`,
PneumoniaMNIST and BreastMNIST, and none lies apart from the others; bins of fewer drop more rarely.
The more rarely a tail ends, and the more likely bins lie apart, the less means err whose records
have a thin tail, and the more all others; the more likely images are featureless, the less means
err of classes that hold some, and the wider the regions of all others are.
"""
SHELLS = Chain(first=0.5, rise=0.002, again=0.002, drop=0.2, kinship=0.162, apart=False)
"""Outwards from the centre; there 0 to 0.09 and 0.15 to 0.18.

The rise is held small: far shells are many and nearly always empty, and one that noise alone seems
to fill makes the clip as wide as the region.
"""


class Smoothed(NamedTuple):
    """What a noisy histogram says.

    Attributes
    ----------
    shares : array, shape (b,)
        Posterior mean of each bin's share of the records, at least 0.
    covariance : array, shape (b, b)
        Of the shares, given the histogram and that they sum to 1.
    """

    shares: FloatArray
    covariance: FloatArray


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
    mean, covariance = estimate(counts, noise, chain)
    each = covariance.sum(axis=1)
    whole = max(float(each.sum()), 1e-300)
    missing = min(max(1.0 - mean.sum(), -DOUBT * math.sqrt(whole)), DOUBT * math.sqrt(whole))
    covariance -= np.outer(each, each) / whole
    return Smoothed(np.maximum(mean + missing * each / whole, 0.0), covariance)


def estimate(counts: FloatArray, noise: FloatArray, chain: Chain) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and covariance of some of the shares: their sum is unknown."""
    levels = _levels(LEAST * float(noise.min()), LADDER)
    known = levels, _moves(len(levels) - 2, chain)
    if not chain.apart or len(counts) == 1:
        return posterior(counts, noise, *known, chain.first)
    alone = posterior(counts[:1], noise[:1], *known, chain.first)
    others = posterior(counts[1:], noise[1:], *known, chain.rise)
    return np.append(alone[0], others[0]), block_diag(alone[1], others[1])


def posterior(
    counts: FloatArray, noise: FloatArray, levels: FloatArray, moves: FloatArray, first: float
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean and covariance of the shares, (b,) and (b, b); see `_levels`."""
    spread, own = noise[:, None] ** 2, (WIDTH * levels) ** 2
    fit = -0.5 * ((counts[:, None] - levels) ** 2 / (spread + own) + np.log(spread + own))
    fit = np.exp(np.maximum(fit - fit.max(axis=1, keepdims=True), -600.0))
    start = np.full(len(levels), first / (len(levels) - 2))
    start[0], start[-1] = 1.0 - first, 0.0
    weights, ahead = np.empty_like(fit), np.empty_like(fit)
    passes(fit, moves, start, weights, ahead)
    weights *= ahead
    weights /= weights.sum(axis=1, keepdims=True)
    gain = own / (own + spread)
    share = levels + gain * (counts[:, None] - levels)
    mean = (weights * share).sum(axis=1)
    away = share - mean[:, None]
    covariance = np.diag((weights * (away**2 + gain * spread)).sum(axis=1))
    products(weights, away, moves, fit * ahead, covariance)
    return mean, covariance


@lru_cache(maxsize=64)
def _levels(least: float, ratio: float) -> FloatArray:
    """Return the level of each state: 0 so far, the rungs from `least` up to 1, 0 once more."""
    rungs = max(1, math.ceil(-math.log(least) / math.log(ratio)))
    return np.concatenate([[0.0], least * ratio ** np.arange(rungs), [0.0]])


@lru_cache(maxsize=64)
def _moves(rungs: int, chain: Chain) -> FloatArray:
    """Return the transition probabilities between the states, (rungs + 2, rungs + 2)."""
    steps, filled = np.arange(rungs), slice(1, -1)
    kin = np.exp(-chain.kinship * np.abs(steps[:, None] - steps))
    moves = np.zeros((rungs + 2, rungs + 2))
    moves[0, 0], moves[0, filled] = 1.0 - chain.rise, chain.rise / rungs
    moves[filled, filled] = (1.0 - chain.drop) * kin / kin.sum(axis=1, keepdims=True)
    moves[filled, -1] = chain.drop
    moves[-1, -1], moves[-1, filled] = 1.0 - chain.again, chain.again / rungs
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


@compiled
def products(
    weights: FloatArray,
    away: FloatArray,
    moves: FloatArray,
    onwards: FloatArray,
    covariance: FloatArray,
) -> None:
    """Write the covariances of two bins, off the diagonal; `away` are their states' from the mean.

    From a state of one bin the next one's are as likely as `moves` times `onwards`, what is seen
    from there on: so the mean of a later bin follows, step by step back, given each state.
    """
    bins, states = away.shape
    for j in range(1, bins):
        later = away[j].copy()
        for i in range(j - 1, -1, -1):
            seen, total = later * onwards[i + 1], 0.0
            for s in range(states):
                chance = 0.0
                later[s] = 0.0
                for t in range(states):
                    later[s] += moves[s, t] * seen[t]
                    chance += moves[s, t] * onwards[i + 1, t]
                later[s] /= max(chance, 1e-300)
                total += weights[i, s] * away[i, s] * later[s]
            covariance[i, j] = covariance[j, i] = total
