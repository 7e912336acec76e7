"""Histograms of records in fixed public bins, and what their noisy counts say.

**Bins** are along the contrast axis and off it. A record falls into one bin of each histogram.
``over`` tables say by how much the records of a bin reach beyond each possible cut on average. The
constants were set by hand: ``python -m tests.tools.tuning`` tries others on public images.

**Posterior.** A noisy histogram gives the posterior mean of each bin's share of the records. The
prior is a chain along the bins (`HmmPrior`). A bin is empty or holds a share on a geometric ladder
of levels. At first bins are empty; each fills the next with probability `p_fill`. From a filled one
the next is empty with probability `p_empty`, else filled, with levels that are the more likely the
nearer: so a tail that thins out is thought to go on where noise covers it, and one that ends
abruptly to have ended. Once they are empty again they stay so, except with a small probability
`p_refill`: records of one class are close together. The noise is Gaussian of known scale, so the
posterior is exact (forward and backward sums), and so is the joint error of shares: a tail that is
masked is masked in several bins. At last the shares are made to sum to 1, as they must, by moving
each by its covariance with the sum. All of it is post-processing. The constants were set by hand:
``python -m tests.tools.tuning`` tries others on public images.

**The survey** is the first histogram. What it says is merged with those of later rounds as far as
it still holds when the centre has moved (`merge`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.mean import tuning
from pipeline.mean.axes import Frame, Numbers, column, in_shape, vectors_times
from pipeline.mean.public_model import Prior
from pipeline.mean.sums import sizes
from pipeline.parallel import compiled
from pipeline.recall import repeatable

SQRT2 = math.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class LineBins:
    """Bins along the contrast axis.

    Attributes
    ----------
    ends : array, shape (b + 1,)
        Where the b bins begin and end.
    cuts : array, shape (c,)
        Ends that an interval may have.
    below, above : array, shape (b, c)
        Mean length by which records of a bin reach below or above each cut.
    start : float
        Place of the prior's centre.
    """

    ends: FloatArray
    cuts: FloatArray
    below: FloatArray
    above: FloatArray
    start: float

    @property
    def edges(self) -> FloatArray:
        """Inner edges of the bins, (b − 1,)."""
        return self.ends[1:-1]


@dataclass(frozen=True, eq=False)
class ShellBins:
    """Bins of distance off the contrast axis, scaled: [0, edges[0]), …, [edges[-1], ∞).

    Attributes
    ----------
    edges : array, shape (b − 1,)
        Inner edges of the b bins.
    cuts : array, shape (c,)
        Radii that a ball may have.
    above : array, shape (b, c)
        Mean length by which records of a bin reach beyond each radius.
    far : int
        Index of the first bin of outliers.
    """

    edges: FloatArray
    cuts: FloatArray
    above: FloatArray
    far: int

    def steady(self, moved: Numbers) -> NDArray[np.bool_]:
        """Tell for each outer shell whether it holds about the same when its centre has moved."""
        return np.asarray(self.edges[self.far - 1 :] >= tuning.STABLE_RATIO * column(moved))


def clipped_moments(ends: FloatArray, low: Numbers, high: Numbers) -> tuple[FloatArray, ...]:
    """Return E x, E x² and the share inside, for x clipped to [low, high], in bins between ends."""
    low, high = np.asarray(low)[..., None], np.asarray(high)[..., None]
    cut = np.minimum(np.maximum(ends, low), high)
    begin, end = cut[..., :-1], cut[..., 1:]
    length = np.diff(ends)
    inside = (end - begin) / length
    below = np.minimum(np.maximum((low - ends[..., :-1]) / length, 0.0), 1.0)
    above = np.minimum(np.maximum((ends[..., 1:] - high) / length, 0.0), 1.0)
    first = inside * (begin + end) / 2.0 + below * low + above * high
    second = inside * (begin**2 + begin * end + end**2) / 3.0 + below * low**2 + above * high**2
    return first, second, inside


def _reach(ends: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return E max(x − cut, 0), (b, c), for x uniform between neighbouring `ends`, (b + 1,)."""
    beyond = np.maximum(ends[:, None] - cuts, 0.0) ** 2 / 2.0
    return np.asarray(np.diff(beyond, axis=0) / np.diff(ends)[:, None])


def line_bins(prior: Prior, start: float) -> LineBins:
    """Return the bins of the part of the contrast axis that the region can reach.

    Parameters
    ----------
    prior : Prior
        With a contrast axis.
    start : float
        Place of the prior's centre on it.

    Notes
    -----
    Within a bin records are taken as uniform; in the wide bins outside of the expected part they
    are taken to be at its outer end, so that no cut is thought to hold them all unless it does.
    """
    step, span = prior.step, prior.span
    middle = start + step * np.arange(-tuning.STEPS_BELOW, tuning.STEPS_ABOVE + 1)
    growing = step * np.cumsum(tuning.LINE_RATIO ** np.arange(1, 60))
    lower, upper = middle[0] - growing[::-1], middle[-1] + growing
    lower, upper = lower[lower > span[0] + step / 2], upper[upper < span[1] - step / 2]
    middle = middle[(middle > span[0]) & (middle < span[1])]
    edges = np.concatenate([lower, middle, upper])
    ends = np.concatenate([[span[0]], edges, [span[1]]])
    cuts = np.arange(span[0], span[1] + step / tuning.CUTS_PER_STEP, step / tuning.CUTS_PER_STEP)
    below, above = _reach(-ends[::-1], -cuts)[::-1], _reach(ends, cuts)
    first, last = len(lower) + 1, len(upper) + 1
    below[:first] = np.maximum(cuts - ends[:first, None], 0.0)
    above[-last:] = np.maximum(ends[-last:, None] - cuts, 0.0)
    return LineBins(ends, cuts, below, above, start)


def shell_bins(prior: Prior, frame: Frame, diameter: float) -> ShellBins:
    """Return geometric shells from `prior.least` to the farthest place a record can have."""
    least, most = prior.least, diameter / frame.narrowest
    count = max(2, math.ceil(math.log(most / least) / math.log(tuning.SHELL_RATIO)))
    ends = np.append(0.0, least * np.power(tuning.SHELL_RATIO, np.arange(count + 1.0)))
    fine = math.ceil(math.log(ends[-1] / least) / math.log(tuning.RADIUS_RATIO))
    cuts = least * np.power(tuning.RADIUS_RATIO, np.arange(fine + 1.0))
    far = min(int(np.searchsorted(ends, tuning.FAR_RATIO * least)), count)
    return ShellBins(ends[1:-1], cuts, _reach(ends, cuts), far)


SharePosterior: TypeAlias = tuple[FloatArray, FloatArray]
"""What a noisy histogram says: means of the shares, (..., b), and their covariance, (..., b, b)."""


def smooth(
    counts: FloatArray, noise: FloatArray, chain: tuning.HmmPrior, slack: Numbers = 0.0
) -> SharePosterior:
    """Return the posterior of the shares, at least 0, given that they sum to 1.

    Parameters
    ----------
    counts : array, shape (..., b)
        Noisy shares of the records.
    noise : array, shape (..., b)
        Standard deviation of the noise of each.
    chain : HmmPrior
        The prior.
    slack : float, or array of one a repetition
        Variance of their sum around 1, where they are shares of a number that is not exact.
    """
    mean, covariance = estimate(counts, noise, chain)
    each = covariance.sum(axis=-1)
    shares, total = sum_to_one(mean, each, slack)
    covariance -= each[..., :, None] * each[..., None, :] / total[..., None]
    return shares, covariance


def sum_to_one(mean: FloatArray, each: FloatArray, slack: Numbers) -> tuple[FloatArray, FloatArray]:
    """Return shares given that they sum to 1, and the variance of their sum.

    Each is moved by its covariance with the sum, `each`, (..., b).
    """
    total = np.maximum(each.sum(axis=-1, keepdims=True), 1e-300)
    most = tuning.SUM_CORRECTION_SD * np.sqrt(total)
    missing = np.clip(1.0 - mean.sum(axis=-1, keepdims=True), -most, most)
    total = total + column(slack)
    return np.maximum(mean + missing * each / total, 0.0), total


def estimate(
    counts: FloatArray, noise: FloatArray, chain: tuning.HmmPrior, *, joint: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return posterior means of some of the shares, whose sum is unknown, and their covariance.

    Unless `joint`, it is that of each with their sum, (..., b), which takes a fraction of the time.
    """
    shape, bins = counts.shape, counts.shape[-1]
    counts = counts.reshape(-1, bins)
    noise = in_shape(noise, shape).reshape(-1, bins)
    others = (bins,) if joint else ()
    mean, covariance = np.zeros(counts.shape), np.zeros((*counts.shape, *others))
    parts = [(slice(None), chain.first)]
    if chain.separate_first and bins > 1:
        parts = [(slice(1), chain.first), (slice(1, None), chain.p_fill)]
    lowest = tuning.LOWEST_LEVEL * noise.min(axis=-1)
    least, rows = np.unique(lowest, return_inverse=True)
    rungs = np.array([_rungs(value) for value in least.tolist()])[rows]
    for many in set(rungs.tolist()):  # moves are equal where the number of levels is
        alike, moves = np.flatnonzero(rungs == many), _moves(many, chain)
        levels = _levels(lowest[alike], many)
        for part, first in parts:
            own = counts[alike, part], noise[alike, part]
            result = posterior(*own, levels, moves, first, joint=joint)
            mean[alike, part] = result[0]
            covariance[(alike, part, part)[: covariance.ndim]] = result[1]
    return mean.reshape(shape), covariance.reshape(*shape, *others)


def posterior(
    counts: FloatArray,
    noise: FloatArray,
    levels: FloatArray,
    moves: FloatArray,
    first: float,
    *,
    joint: bool = True,
) -> tuple[FloatArray, FloatArray]:
    """Return posterior means of the shares, (r, b), and their covariances, as `estimate`.

    `levels` are those of each repetition, see `_levels`, and `moves` those of all.
    """
    alike = np.all(noise == noise[:1, :1])
    spread = (noise[:1, :1] if alike else noise)[..., None] ** 2
    levels = (levels[:1] if np.all(levels == levels[:1]) else levels)[:, None]
    own = (tuning.LEVEL_SD * levels) ** 2
    both, beyond = spread + own, counts[..., None] - levels
    fit = -0.5 * (beyond**2 / both + np.log(both))
    fit = np.exp(np.maximum(fit - fit.max(axis=-1, keepdims=True), -600.0))
    start = np.full(len(moves), first / (len(moves) - 2))
    start[0], start[-1] = 1.0 - first, 0.0
    behind, ahead, before, after = np.empty((4, *fit.shape))
    turned = np.ascontiguousarray(moves.T)
    forward_backward(fit, moves, turned, start, behind, ahead, before, after)
    weights = behind * ahead
    weights /= weights.sum(axis=-1, keepdims=True)
    gain = own / both
    share = levels + gain * beyond
    mean = (weights * share).sum(axis=-1)
    away = share - mean[..., None]
    variances = (weights * (away**2 + gain * spread)).sum(axis=-1)
    if not joint:
        add_covariances(weights, away, turned, fit * ahead, after, -1, variances)
        add_covariances(weights, away, moves, behind, before, 1, variances)
        return mean, variances
    repetitions, bins = counts.shape
    covariance = np.zeros((repetitions, bins, bins))
    covariance.reshape(repetitions, -1)[:, :: bins + 1] = variances
    pairwise_covariances(weights, away, turned, fit * ahead, after, covariance)
    return mean, covariance


def _rungs(least: float) -> int:
    """Return how many levels there are from `least` up to 1."""
    return max(1, math.ceil(-math.log(least) / math.log(tuning.LEVEL_RATIO)))


def _levels(least: FloatArray, rungs: int) -> FloatArray:
    """Return the level of each state, (r, s): 0 so far, rungs from `least`, (r,), 0 once more."""
    levels = np.zeros((len(least), rungs + 2))
    levels[:, 1:-1] = least[:, None] * tuning.LEVEL_RATIO ** np.arange(rungs)
    return levels


@lru_cache(maxsize=64)
def _moves(rungs: int, chain: tuning.HmmPrior) -> FloatArray:
    """Return the transition probabilities between the states, (rungs + 2, rungs + 2)."""
    steps, filled = np.arange(rungs), slice(1, -1)
    kin = np.exp(-chain.level_decay * np.abs(steps[:, None] - steps))
    moves = np.zeros((rungs + 2, rungs + 2))
    moves[0, 0], moves[0, filled] = 1.0 - chain.p_fill, chain.p_fill / rungs
    moves[filled, filled] = (1.0 - chain.p_empty) * kin / kin.sum(axis=1, keepdims=True)
    moves[filled, -1] = chain.p_empty
    moves[-1, -1], moves[-1, filled] = 1.0 - chain.p_refill, chain.p_refill / rungs
    return moves


@compiled
def _times(vector: FloatArray, turned: FloatArray, out: FloatArray) -> None:
    """Write M·v of the transpose `turned` of M: the inner loop goes along rows."""
    for s in range(len(out)):
        out[s] = 0.0
    for t in range(len(vector)):
        for s in range(len(out)):
            out[s] += turned[t, s] * vector[t]


@compiled
def forward_backward(
    fits: FloatArray,
    moves: FloatArray,
    turned: FloatArray,
    first: FloatArray,
    behinds: FloatArray,
    aheads: FloatArray,
    befores: FloatArray,
    afters: FloatArray,
) -> None:
    """Write how likely each state is given the bins up to its own, and those after it, (r, b, s).

    Both are scaled. Given the bins before it alone it is as in `befores`; and given a state, what
    is observed in the bins after it is as likely as in `afters`. `turned` is the transpose of
    `moves`.
    """
    repetitions, bins, states = fits.shape
    for r in range(repetitions):
        fit, behind, ahead = fits[r], behinds[r], aheads[r]
        for s in range(states):
            behind[0, s], ahead[bins - 1, s] = first[s] * fit[0, s], 1.0
        for j in range(1, bins):
            _times(behind[j - 1], moves, befores[r, j])
            total = 0.0
            for s in range(states):
                behind[j, s] = befores[r, j, s] * fit[j, s]
                total += behind[j, s]
            for s in range(states):
                behind[j, s] /= total
        for j in range(bins - 1, 0, -1):
            _times(ahead[j] * fit[j], turned, afters[r, j - 1])
            best = 0.0
            for s in range(states):
                best = max(best, afters[r, j - 1, s])
            for s in range(states):
                ahead[j - 1, s] = afters[r, j - 1, s] / best


@compiled
def pairwise_covariances(
    weights: FloatArray,
    aways: FloatArray,
    turned: FloatArray,
    onwards: FloatArray,
    afters: FloatArray,
    covariances: FloatArray,
) -> None:
    """Write the covariances of two bins, off the diagonal; `aways` are their states' from the mean.

    From a state of one bin the next one's are as likely as the moves, of which `turned` is the
    transpose, times `onwards`, what is observed from there on, which add up to `afters`: so the
    mean of a later bin follows, step by step back, given each state.
    """
    repetitions, bins, states = aways.shape
    later, product = np.empty(states), np.empty(states)
    for r in range(repetitions):
        away, onward = aways[r], onwards[r]
        for j in range(1, bins):
            later[:] = away[j]
            for i in range(j - 1, -1, -1):
                for s in range(states):
                    product[s] = later[s] * onward[i + 1, s]
                _times(product, turned, later)
                total = 0.0
                for s in range(states):
                    later[s] /= max(afters[r, i, s], 1e-300)
                    total += weights[r, i, s] * away[i, s] * later[s]
                covariances[r, i, j] = covariances[r, j, i] = total


@compiled
def add_covariances(
    weights: FloatArray,
    aways: FloatArray,
    turned: FloatArray,
    onwards: FloatArray,
    sums: FloatArray,
    step: int,
    out: FloatArray,
) -> None:
    """Add to `out`, (r, b), the covariance of each bin with all later ones together.

    As above, in one way back: what follows given a state is one number. With `step` 1 it is the
    covariance with all earlier ones: `turned` are then the moves themselves, `onwards` what is
    observed up to a bin, and `sums` are the `befores`.
    """
    repetitions, bins, states = aways.shape
    beside, product = np.empty(states), np.empty(states)
    for r in range(repetitions):
        beside[:] = 0.0
        for i in range(bins - 2, -1, -1) if step < 0 else range(1, bins):
            onward = onwards[r, i - step]
            for s in range(states):
                product[s] = (beside[s] + aways[r, i - step, s]) * onward[s]
            _times(product, turned, beside)
            total = 0.0
            for s in range(states):
                beside[s] /= max(sums[r, i, s], 1e-300)
                total += weights[r, i, s] * aways[r, i, s] * beside[s]
            out[r, i] += total


class SurveyPosterior(NamedTuple):
    """What the survey says of the records, seen from the prior's centre; repetitions lead.

    Attributes
    ----------
    shares, covariance : array, shapes (..., b), (..., b, b), or None without a contrast axis
        The posterior of the shares along it.
    beyond : array
        Smoothed shares in the outer shells.
    far : array
        The latter as they were released.
    below, above : array, shape (c,)
        Mean length by which records reach below, and above, each cut of the contrast axis; one 0
        without.
    """

    shares: FloatArray | None
    covariance: FloatArray | None
    beyond: FloatArray
    far: FloatArray
    below: FloatArray
    above: FloatArray


@repeatable
def read_survey(
    shares: FloatArray,
    spread: Numbers,
    bins: tuple[LineBins | None, ShellBins],
    slack: Numbers = 0.0,
) -> SurveyPosterior:
    """Return what the survey says; `spread` is the standard deviation of the noise of a share.

    That is one number, or an array of one for each repetition; `slack` is as in `smooth`.
    """
    along, off = bins
    many = shares.shape[-1] - (len(off.edges) + 1 - off.far)
    line, far, noise = None, shares[..., many:], np.asarray(column(spread))
    if along is not None:
        line = smooth(shares[..., :many], noise, tuning.LINE_PRIOR, slack)
    chain = tuning.SHELL_PRIOR._replace(first=tuning.SHELL_PRIOR.p_fill)
    beyond = np.maximum(estimate(far, noise, chain, joint=False)[0], 0.0)
    beyond = beyond / np.maximum(1.0, beyond.sum(axis=-1, keepdims=True))
    return survey_posterior(line, beyond, far, bins)


def survey_posterior(
    line: SharePosterior | None,
    beyond: FloatArray,
    far: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
) -> SurveyPosterior:
    """Return these shares, and by how much records reach beyond the cuts of the contrast axis."""
    along, off = bins
    if along is None or line is None:
        return SurveyPosterior(None, None, beyond, far, *(np.zeros(1),) * 2)
    cuts, ends = along.cuts, np.append(off.edges, off.cuts[-1])[off.far :, None]
    low = np.maximum(along.start - tuning.LINE_WEIGHT * ends, cuts[0])
    high = np.minimum(along.start + tuning.LINE_WEIGHT * ends, cuts[-1])
    far_below = vectors_times(beyond, np.maximum(cuts - low, 0.0))
    far_above = vectors_times(beyond, np.maximum(high - cuts, 0.0))
    below = vectors_times(line[0], along.below) + far_below
    above = vectors_times(line[0], along.above) + far_above
    return SurveyPosterior(*line, beyond, far, below, above)


@repeatable
def merge(
    shells: FloatArray,
    far: FloatArray,
    own: Numbers,
    survey: Numbers,
    steady: NDArray[np.bool_],
    slack: Numbers = 0.0,
) -> FloatArray:
    """Return the smoothed shells, (..., b); the outer ones were counted twice, by the survey too.

    The two counts are weighted by their precision, unless the centre has moved too far since the
    survey, or the later one found records that were not far from the prior's centre.

    Parameters
    ----------
    own, survey : float, or array of one a repetition
        The noise of either over √2.
    steady : array of bool
        Which outer shells the survey still tells of.
    slack : float, or array of one a repetition
        As in `smooth`.
    """
    outer, own, survey = (..., slice(-far.shape[-1], None)), column(own), column(survey)
    noise, merged, late = np.full(shells.shape, own * SQRT2), shells.copy(), shells[outer]
    new = late - far > tuning.DISAGREEMENT_SD * SQRT2 * np.hypot(own, survey)
    weight = np.where(steady & ~new, own**2 / (own**2 + survey**2), 0.0)
    merged[outer] = late + weight * (far - late)
    noise[outer] *= np.sqrt(1.0 - weight)
    mean, each = estimate(merged, noise, tuning.SHELL_PRIOR, joint=False)
    return sum_to_one(mean, each, slack)[0]


def survey_counts(rows: FloatArray, line: LineBins | None, shells: ShellBins) -> NDArray[np.int64]:
    """Return the number of records in each bin of the survey, (b,); see `survey_bins`."""
    inner = 0 if line is None else len(line.edges)
    total = inner + 1 + len(shells.edges) + 1 - shells.far
    return np.bincount(survey_bins(rows, line, shells), minlength=total)


def survey_bins(rows: FloatArray, line: LineBins | None, shells: ShellBins) -> NDArray[np.int64]:
    """Return the number of each record's bin, (n,): of the contrast axis, or an outer shell.

    The shell of an outlier tells how far it is both off the contrast axis and along it, by the
    larger of ‖z‖ and |x − start|/`LINE_WEIGHT`.

    Parameters
    ----------
    rows : array, shape (n, d)
        Records in the axes of the frame, seen from the prior's centre; the contrast axis is
        absolute.
    """
    lines, edges, ahead = 0, np.empty(0), np.zeros(len(rows))
    if line is not None:
        lines, edges = 1, line.edges
        ahead = np.abs(rows[:, 0] - line.start) / tuning.LINE_WEIGHT
    spot = np.searchsorted(edges, rows[:, 0])
    size = sizes(rows, np.zeros(rows.shape[1]), lines)
    shell = np.searchsorted(shells.edges, np.maximum(size, ahead))
    off_line = np.searchsorted(shells.edges, size) >= shells.far
    return np.where(off_line, len(edges) + 1 + shell - shells.far, spot)


@compiled
def shell_counts(size: FloatArray, edges: FloatArray) -> NDArray[np.int64]:
    """Return the number of records in each shell, by their size, (r, n): (r, b).

    They are counted up to each edge from the one before, and above all. What is no number is no
    record.
    """
    repetitions, many = size.shape
    out = np.zeros((repetitions, len(edges) + 1), np.int64)
    for r in range(repetitions):
        own, above = size[r], 0
        for n in range(many):
            above += 1 if own[n] == own[n] else 0
        for i in range(len(edges)):
            before, above = above, 0
            for n in range(many):
                above += 1 if own[n] > edges[i] else 0
            out[r, i] = before - above
        out[r, len(edges)] = above
    return out
