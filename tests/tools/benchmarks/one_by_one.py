"""A copy of the loop that drew private means one by one, before repetitions were an axis.

`bench_repetitions.py` draws with it beside the product: `draw_one_by_one`. It is kept as it was, in
one file, without its reasons; records, bins and what has not changed come from the product.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, eigh
from scipy.optimize import brentq

from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError, ConvergenceError, DomainError, PrivacyError
from pipeline.geometry import Manifold, Point
from pipeline.geometry.jacobi import SWEEPS, rounds
from pipeline.geometry.linalg import cholesky, polar, vecd
from pipeline.mean import AdaptivePlan, NoisyMoments, Prior, Records, Step, tuning
from pipeline.mean.clip import ROUNDED, sizes_within
from pipeline.mean.histogram import LineBins, ShellBins, shell_counts
from pipeline.mean.noisy_moments import noise_edge, region_moments
from pipeline.mean.rounds import default_shares, step_costs
from pipeline.mean.sensitivity import region_units
from pipeline.mean.sums import (
    BLOCK,
    HALF,
    NORM,
    OVERSHOOT,
    PER_UNIT,
    PRODUCTS,
    Clipping,
    Parts,
    Sized,
    as_repetition,
    pairs,
    second_moment,
    sizes,
)
from pipeline.mechanisms import Noise, NoisyVector
from pipeline.parallel import compiled
from pipeline.privacy import Budget

SQRT2 = math.sqrt(2.0)


def draw_one_by_one(
    records: Records, budget: Budget, plan: AdaptivePlan, *, noise: Noise, size: int
) -> tuple[FloatArray, FloatArray]:
    """Return private means, (size, *point_shape), and their predicted errors, (size,)."""
    shares = plan.shares or default_shares(records.prior)
    steps = step_costs(budget, records.n, shares, dim=records.space.dim)
    axes, shape = records.frame, records.prior.shape
    frame = build_frame(axes.basis[:, 0] if axes.lines else None, shape)
    source = OldSource(records, steps, plan.moment, plan.reshape, noise, frame)
    states = [_draw(source)[1] for _ in range(size)]
    return np.stack([state.point for state in states]), np.array([s.predicted for s in states])


def around(source: "OldSource", point: Point, frame: "OldFrame") -> tuple[Parts[Sized], FloatArray]:
    """Return the records in some axes with ‖z − c‖, and c, where `point` is in the axes."""
    records = source.records
    if records.space.flat and frame is source.frame:
        parts, centre = records.seen, (point - records.centre) @ frame.to_axes
    else:
        parts = records.parts.map(partial(to_frame, records.space, frame, point))
        centre = np.zeros(records.space.dim)
    return parts.map(lambda part: (part, sizes(part, centre, frame.lines))), centre


def steady(source: "OldSource", point: Point) -> NDArray[np.bool_]:
    """Tell which far shells of the survey, around the prior's centre, hold around a point."""
    records, shells = source.records, source.records.bins[1]
    moved = records.space.log(records.centre, point) @ source.frame.to_axes
    length = float(np.linalg.norm(moved[source.frame.lines :]))
    return np.asarray(shells.edges[shells.far - 1 :] >= tuning.STABLE_RATIO * length)


@dataclass(frozen=True, eq=False)
class OldFrame:
    """Axes of R^d."""

    to_axes: FloatArray
    from_axes: FloatArray
    lines: int
    unit_length: float
    narrowest: float
    widest: float
    basis: FloatArray

    @property
    def others(self) -> int:
        """m, the number of scaled coordinates."""
        return len(self.to_axes) - self.lines

    def isotropic(self, line: float, rest: float) -> FloatArray:
        """Return the covariance of u with variance `line` along the line, `rest` in all others."""
        axis = self.to_axes[:, : self.lines]
        return np.asarray(rest * np.eye(len(self.to_axes)) + (line - rest) * axis @ axis.T)

    def off_line(self, covariance: FloatArray) -> float:
        """Return the root mean square size, off the line, of u with this covariance."""
        axis = self.to_axes[:, : self.lines]
        return math.sqrt(max(0.0, np.trace(covariance) - np.trace(axis.T @ covariance @ axis)))

    def prior_cov(self, line: float, rest: float) -> FloatArray:
        """Return the covariance with `line` along the line, and off it `rest` times scale⁴."""
        axis = self.to_axes[:, : self.lines]
        shape = self.from_axes[self.lines :].T @ self.from_axes[self.lines :]
        return np.asarray(rest * shape @ shape + line * axis @ axis.T)


def build_frame(line: FloatArray | None, shape: FloatArray) -> OldFrame:
    """Return the axes of a line and of scales off it, of which the mean square is made 1."""
    d = len(shape)
    lines = 0 if line is None else 1
    basis = np.eye(d)
    if line is not None:
        basis = np.linalg.qr(np.column_stack([line, np.eye(d)]))[0]
        basis[:, 0] = line
    return scaled(basis, lines, shape)


def scaled(basis: FloatArray, lines: int, shape: FloatArray) -> OldFrame:
    """Return the axes of scales in an orthonormal basis whose first column is the line, if any."""
    d = len(shape)
    rest = basis[:, lines:]
    shape = rest.T @ shape @ rest
    shape *= math.sqrt((d - lines) / np.sum(shape**2))
    to_axes, from_axes = (basis.copy(), basis.T.copy())
    to_axes[:, lines:] = rest @ np.linalg.inv(shape)
    from_axes[lines:] = shape @ rest.T
    squares = np.linalg.eigvalsh(shape) ** 2
    unit_length = math.sqrt(np.sum(squares**2) / np.sum(squares))
    narrowest, widest = (math.sqrt(squares.min()), math.sqrt(squares.max()))
    return OldFrame(to_axes, from_axes, lines, unit_length, narrowest, widest, basis)


def to_frame(space: Manifold, frame: OldFrame, base: Point, points: Point) -> FloatArray:
    """Return points in the axes of the frame at `base`, (n, d), along the line from the origin."""
    log = factor_logs if hasattr(space, "factor_logs") else space.log
    seen = matmul_in_order(np.ascontiguousarray(log(base, points)), frame.to_axes)
    if frame.lines:
        seen[:, 0] += line_coordinate(space, frame, base)
    return seen


def factor_logs(base: Point, points: Point) -> FloatArray:
    """Return vecd(log(base^{−1/2} X base^{−1/2})), (n, d), of the points X, one after the other."""
    factor = cholesky(base)
    rotation, out = polar(factor), np.zeros(points.shape)
    if not _whitened_logs(factor, cholesky(points), out):
        raise ConvergenceError("base and point are too far apart; bring them closer together")
    return vecd(rotation @ out @ rotation.T)


@compiled
def _whitened_logs(factor: FloatArray, points: FloatArray, out: FloatArray) -> bool:
    """Write log(C⁻¹ X C⁻ᵀ) for a factor C and factors of points."""
    k = len(factor)
    columns, values, pairs = np.empty((k, k)), np.empty(k), rounds(k)
    for n in range(len(points)):
        for i in range(k):
            inverse = 1.0 / factor[i, i]
            for j in range(k):
                value = points[n, i, j]
                for t in range(i):
                    value -= factor[i, t] * columns[j, t]
                columns[j, i] = value * inverse
        if not _jacobi(columns, values, pairs):
            return False
        for j in range(k):
            inverse = 1.0 / math.sqrt(values[j])
            for i in range(k):
                columns[j, i] *= inverse
            values[j] = math.log(values[j])
        for i in range(k):
            for j in range(i + 1):
                for t in range(k):
                    out[n, i, j] += values[t] * columns[t, i] * columns[t, j]
                out[n, j, i] = out[n, i, j]
    return True


@compiled
def _jacobi(columns: FloatArray, squares: FloatArray, pairs: NDArray[Any]) -> bool:
    """Rotate the columns of a factor until they are orthogonal; write their squared norms."""
    k = len(columns)
    tolerance = 4 * k * 2.0**-53
    for _ in range(SWEEPS):
        for p in range(k):
            squares[p] = 0.0
            for t in range(k):
                squares[p] += columns[p, t] * columns[p, t]
        still = True
        for pair in range(len(pairs)):
            p, q = pairs[pair]
            product = 0.0
            for t in range(k):
                product += columns[p, t] * columns[q, t]
            if abs(product) > tolerance * math.sqrt(squares[p]) * math.sqrt(squares[q]):
                still = False
                gap = squares[q] - squares[p]
                root = math.sqrt(gap * gap + 4.0 * product * product)
                if not 1e-140 < root < math.inf:
                    return False
                tangent = math.copysign(2.0 / (abs(gap) + root), gap) * product
                cosine = math.sqrt(0.5 + 0.5 * abs(gap) / root)
                sine = cosine * tangent
                squares[p] -= tangent * product
                squares[q] += tangent * product
                for t in range(k):
                    x, y = columns[p, t], columns[q, t]
                    columns[p, t] = cosine * x - sine * y
                    columns[q, t] = sine * x + cosine * y
        if still:
            return True
    return False


def line_coordinate(space: Manifold, frame: OldFrame, point: Point) -> float:
    """Return ⟨e, log(origin, point)⟩, where on the line a point is; 0 without a line."""
    if not frame.lines:
        return 0.0
    return float(space.log(space.origin, point) @ frame.to_axes[:, 0])


@compiled
def matmul_in_order(vectors: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return vectors @ matrix, (n, d); a library's may depend on n in its last bits."""
    out = np.zeros(vectors.shape)
    for n in range(len(vectors)):
        for i in range(len(matrix)):
            for j in range(len(matrix)):
                out[n, j] += vectors[n, i] * matrix[i, j]
    return out


def clipped_moments(ends: FloatArray, low: float, high: float) -> tuple[FloatArray, ...]:
    """Return E x, E x² and the share inside, for x clipped to [low, high], in bins between ends."""
    cut = np.minimum(np.maximum(ends, low), high)
    begin, end = (cut[:-1], cut[1:])
    length = np.diff(ends)
    inside = (end - begin) / length
    below = np.minimum(np.maximum((low - ends[:-1]) / length, 0.0), 1.0)
    above = np.minimum(np.maximum((ends[1:] - high) / length, 0.0), 1.0)
    first = inside * (begin + end) / 2.0 + below * low + above * high
    second = inside * (begin**2 + begin * end + end**2) / 3.0 + below * low**2 + above * high**2
    return (first, second, inside)


class OldSmoothed(NamedTuple):
    """What a noisy histogram says."""

    shares: FloatArray
    covariance: FloatArray


def smooth(counts: FloatArray, noise: FloatArray, chain: tuning.HmmPrior) -> OldSmoothed:
    """Return the posterior of the shares."""
    mean, covariance = estimate(counts, noise, chain)
    each = covariance.sum(axis=1)
    whole = max(float(each.sum()), 1e-300)
    missing = min(
        max(1.0 - mean.sum(), -tuning.SUM_CORRECTION_SD * math.sqrt(whole)),
        tuning.SUM_CORRECTION_SD * math.sqrt(whole),
    )
    covariance -= np.outer(each, each) / whole
    return OldSmoothed(np.maximum(mean + missing * each / whole, 0.0), covariance)


def estimate(
    counts: FloatArray, noise: FloatArray, chain: tuning.HmmPrior
) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and covariance of some of the shares: their sum is unknown."""
    levels = _levels(tuning.LOWEST_LEVEL * float(noise.min()), tuning.LEVEL_RATIO)
    known = (levels, _moves(len(levels) - 2, chain))
    if not chain.separate_first or len(counts) == 1:
        return posterior(counts, noise, *known, chain.first)
    alone = posterior(counts[:1], noise[:1], *known, chain.first)
    others = posterior(counts[1:], noise[1:], *known, chain.p_fill)
    return (np.append(alone[0], others[0]), block_diag(alone[1], others[1]))


def posterior(
    counts: FloatArray, noise: FloatArray, levels: FloatArray, moves: FloatArray, first: float
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean and covariance of the shares, (b,) and (b, b); see `_levels`."""
    spread, own = (noise[:, None] ** 2, (tuning.LEVEL_SD * levels) ** 2)
    fit = -0.5 * ((counts[:, None] - levels) ** 2 / (spread + own) + np.log(spread + own))
    fit = np.exp(np.maximum(fit - fit.max(axis=1, keepdims=True), -600.0))
    start = np.full(len(levels), first / (len(levels) - 2))
    start[0], start[-1] = (1.0 - first, 0.0)
    weights, ahead = (np.empty_like(fit), np.empty_like(fit))
    forward_backward(fit, moves, start, weights, ahead)
    weights *= ahead
    weights /= weights.sum(axis=1, keepdims=True)
    gain = own / (own + spread)
    share = levels + gain * (counts[:, None] - levels)
    mean = (weights * share).sum(axis=1)
    away = share - mean[:, None]
    covariance = np.diag((weights * (away**2 + gain * spread)).sum(axis=1))
    pairwise_covariances(weights, away, moves, fit * ahead, covariance)
    return (mean, covariance)


@lru_cache(maxsize=64)
def _levels(least: float, ratio: float) -> FloatArray:
    """Return the level of each state: 0 so far, the rungs from `least` up to 1, 0 once more."""
    rungs = max(1, math.ceil(-math.log(least) / math.log(ratio)))
    return np.concatenate([[0.0], least * ratio ** np.arange(rungs), [0.0]])


@lru_cache(maxsize=64)
def _moves(rungs: int, chain: tuning.HmmPrior) -> FloatArray:
    """Return the transition probabilities between the states, (rungs + 2, rungs + 2)."""
    steps, filled = (np.arange(rungs), slice(1, -1))
    kin = np.exp(-chain.level_decay * np.abs(steps[:, None] - steps))
    moves = np.zeros((rungs + 2, rungs + 2))
    moves[0, 0], moves[0, filled] = (1.0 - chain.p_fill, chain.p_fill / rungs)
    moves[filled, filled] = (1.0 - chain.p_empty) * kin / kin.sum(axis=1, keepdims=True)
    moves[filled, -1] = chain.p_empty
    moves[-1, -1], moves[-1, filled] = (1.0 - chain.p_refill, chain.p_refill / rungs)
    return moves


@compiled
def forward_backward(
    fit: FloatArray, moves: FloatArray, first: FloatArray, behind: FloatArray, ahead: FloatArray
) -> None:
    """Write how likely each state is given the bins up to its own, and those after it, (b, s)."""
    bins, states = fit.shape
    for s in range(states):
        behind[0, s], ahead[bins - 1, s] = (first[s] * fit[0, s], 1.0)
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
            ahead[j - 1, s], best = (total, max(best, total))
        for s in range(states):
            ahead[j - 1, s] /= best


@compiled
def pairwise_covariances(
    weights: FloatArray,
    away: FloatArray,
    moves: FloatArray,
    onwards: FloatArray,
    covariance: FloatArray,
) -> None:
    """Write the covariances of two bins, off the diagonal."""
    bins, states = away.shape
    for j in range(1, bins):
        later = away[j].copy()
        for i in range(j - 1, -1, -1):
            seen, total = (later * onwards[i + 1], 0.0)
            for s in range(states):
                chance = 0.0
                later[s] = 0.0
                for t in range(states):
                    later[s] += moves[s, t] * seen[t]
                    chance += moves[s, t] * onwards[i + 1, t]
                later[s] /= max(chance, 1e-300)
                total += weights[i, s] * away[i, s] * later[s]
            covariance[i, j] = covariance[j, i] = total


class OldPosterior(NamedTuple):
    """What the survey says of the records, seen from the prior's centre."""

    line: OldSmoothed | None
    beyond: FloatArray
    far: FloatArray
    below: FloatArray
    above: FloatArray

    @property
    def shares(self) -> FloatArray | None:
        """The shares along the line."""
        return None if self.line is None else self.line.shares


def read_survey(
    shares: FloatArray, spread: float, bins: tuple[LineBins | None, ShellBins]
) -> OldPosterior:
    """Return what the survey says; `spread` is the standard deviation of the noise of a share."""
    along, off = bins
    many = len(shares) - (len(off.edges) + 1 - off.far)
    line = (
        smooth(shares[:many], np.full(many, spread), tuning.LINE_PRIOR)
        if along is not None
        else None
    )
    far = shares[many:]
    chain = tuning.SHELL_PRIOR._replace(first=tuning.SHELL_PRIOR.p_fill)
    beyond = np.maximum(estimate(far, np.full(len(far), spread), chain)[0], 0.0)
    return survey_posterior(line, beyond / max(1.0, float(beyond.sum())), far, bins)


def survey_posterior(
    line: OldSmoothed | None,
    beyond: FloatArray,
    far: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
) -> OldPosterior:
    """Return these shares, and by how much records reach beyond the cuts of the line."""
    along, off = bins
    if along is None or line is None:
        return OldPosterior(line, beyond, far, *(np.zeros(1),) * 2)
    cuts, ends = (along.cuts, np.append(off.edges, off.cuts[-1])[off.far :, None])
    low = np.maximum(along.start - tuning.LINE_WEIGHT * ends, cuts[0])
    high = np.minimum(along.start + tuning.LINE_WEIGHT * ends, cuts[-1])
    far_below = beyond @ np.maximum(cuts - low, 0.0)
    far_above = beyond @ np.maximum(high - cuts, 0.0)
    below, above = (line.shares @ along.below + far_below, line.shares @ along.above + far_above)
    return OldPosterior(line, beyond, far, below, above)


def merge(
    shells: FloatArray, far: FloatArray, own: float, survey: float, steady: NDArray[np.bool_]
) -> FloatArray:
    """Return the smoothed shells; the far ones were counted twice, by the survey as well."""
    noise = np.full(len(shells), own * SQRT2)
    merged, late = (shells.copy(), shells[-len(far) :])
    new = late - far > tuning.DISAGREEMENT_SD * SQRT2 * math.hypot(own, survey)
    weight = np.where(steady & ~new, own**2 / (own**2 + survey**2), 0.0)
    merged[-len(far) :] = late + weight * (far - late)
    noise[-len(far) :] *= np.sqrt(1.0 - weight)
    return smooth(merged, noise, tuning.SHELL_PRIOR).shares


@compiled
def clipped_sum(
    seen: FloatArray,
    size: FloatArray,
    centre: FloatArray,
    units: FloatArray,
    lines: int,
    low: float,
    high: float,
    weight: float,
    radius: float,
    reach: FloatArray | None = None,
    halves: FloatArray | None = None,
    beyond: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Return Σ 2⁴⁰·(clip(x) − (low + high)/2, clip(z − centre))/units, (d,), each term rounded."""
    out = np.zeros(seen.shape[1], np.int64)
    middle, per = (0.5 * (low + high), PER_UNIT / units)
    rest, begin, share, total = (seen[:, lines:], centre[lines:], per[lines:], out[lines:])
    for n in range(len(seen)):
        place = _clipped(seen[n, 0], low, high) - middle if lines else 0.0
        outside, scale = (size[n], 0.0)
        if size[n] < np.inf:
            room = math.sqrt(max(radius**2 - (weight * place) ** 2, 0.0))
            outside = size[n] - room
            scale = 1.0 if outside <= 0.0 else room / size[n]
        if reach is not None:
            square = (place / units[0]) ** 2 if lines else 0.0
            if scale > 0.0:
                for i in range(len(total)):
                    square += (scale * (rest[n, i] - begin[i]) / units[lines + i]) ** 2
            short = _shortened(seen[n, 0], outside, square, lines, low, high, reach, beyond)
            place *= short
            scale *= short
        if lines:
            along = np.int64(np.rint(place * per[0]))
            out[0] += along
            _write(halves, n, 0, along)
        for i in range(len(total)):
            term = np.int64(0)
            if size[n] < np.inf:
                term = np.int64(np.rint(scale * (rest[n, i] - begin[i]) * share[i]))
            total[i] += term
            _write(halves, n, lines + i, term)
    return out


@compiled
def _clipped(x: float, low: float, high: float) -> float:
    """Return x in the interval; no number is its middle."""
    if x > high:
        return high
    if x < low:
        return low
    return x if x <= high else 0.5 * (low + high)


@compiled
def _write(halves: FloatArray | None, n: int, i: int, term: np.int64) -> None:
    """Write both halves of a term where they are asked for."""
    if halves is not None:
        upper = term + (1 << HALF - 1) >> HALF
        halves[n, i], halves[n, halves.shape[1] // 2 + i] = (upper, term - (upper << HALF))


@compiled
def _shortened(
    x: float,
    outside: float,
    square: float,
    lines: int,
    low: float,
    high: float,
    reach: FloatArray,
    beyond: NDArray[np.int64] | None,
) -> float:
    """Return what the vector v of a record is multiplied with; add its overshoots to `beyond`."""
    radial = min(max(outside, 0.0) / reach[0], 1.0)
    below = min((low - x) / reach[1], 1.0) if lines and x < low else 0.0
    above = min((x - high) / reach[2], 1.0) if lines and x > high else 0.0
    whole = radial**2 + below**2 + above**2
    if whole == 0.0:
        return 1.0
    share = math.sqrt(NORM) / math.sqrt(max(whole, 1.0))
    if beyond is not None:
        beyond[0] += np.int64(np.floor(share * radial * PER_UNIT))
        if lines:
            beyond[1] += np.int64(np.floor(share * below * PER_UNIT))
            beyond[2] += np.int64(np.floor(share * above * PER_UNIT))
    left = max(NORM - NORM * min(whole, 1.0), 0.0)
    most = 2.0 * left / (1.0 + math.sqrt(1.0 + 8.0 * left))
    return 1.0 if square <= most else math.sqrt(most / square)


def clipped_total(parts: Iterable[Sized], to: Clipping) -> list[int]:
    """Return 2⁴⁰ times the sum of the vectors of records that come in parts, d whole numbers."""
    total = [0] * len(to.units)
    for seen, size in parts:
        for start in range(0, len(seen), BLOCK):
            block = slice(start, start + BLOCK)
            found = clipped_sum(seen[block], size[block], *to).tolist()
            total = list(map(add, total, found))
    return total


def clipped_totals(parts: Iterable[Sized], to: Clipping) -> tuple[list[int], list[int]]:
    """Return the same, then 2⁴⁰ times the sums of the overshoots and 2⁸⁰ times that of v·vᵀ."""
    d, halves = (len(to.units), np.empty((0, 0)))
    first, over, second = ([0] * d, [0] * to.overshoots, [0] * (d * (d + 1) // 2))
    for seen, size in parts:
        for start in range(0, len(seen), BLOCK):
            block = slice(start, start + BLOCK)
            if len(halves) < min(len(seen), PRODUCTS):
                halves = np.empty((min(len(seen), PRODUCTS), 2 * d))
            total, beyond, products = _block_sums(seen[block], size[block], to, halves)
            first = list(map(add, first, total.tolist()))
            over = list(map(add, over, beyond.tolist()))
            second = list(map(add, second, _whole(products)))
    return (first, over + second)


def _block_sums(
    seen: FloatArray, size: FloatArray, to: Clipping, halves: FloatArray
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return `clipped_sum` of at most `BLOCK` records, their overshoots, and products of halves."""
    total, products = (
        np.zeros(len(to.units), np.int64),
        np.zeros((halves.shape[1],) * 2, np.int64),
    )
    beyond = np.zeros(to.overshoots, np.int64)
    for start in range(0, len(seen), PRODUCTS):
        few = slice(start, start + PRODUCTS)
        own = halves[: len(seen[few])]
        total += clipped_sum(seen[few], size[few], *to, own, beyond)
        products += (own.T @ own).astype(np.int64)
    return (total, beyond, products)


def _whole(products: NDArray[np.int64]) -> list[int]:
    """Return Σ v·vᵀ of the products of halves, (2d, 2d), exactly."""
    d = len(products) // 2
    middle = products[:d, d:] + products[d:, :d]
    upper = products[:d, :d] + (middle >> HALF)
    lower = products[d:, d:] + ((middle & (1 << HALF) - 1) << HALF)
    places = (block.ravel()[_pairs(d)].tolist() for block in (upper, lower))
    return [(high << 2 * HALF) + low for high, low in zip(*places, strict=True)]


@lru_cache(maxsize=64)
def _pairs(d: int) -> NDArray[np.intp]:
    """Return the places, row by row, of the diagonal, then of the strict upper triangle."""
    (rows, columns), (above, beside) = (np.diag_indices(d), np.triu_indices(d, 1))
    return np.append(rows, above) * d + np.append(columns, beside)


def clipped_mean(parts: Iterable[Sized], n: int, to: Clipping) -> FloatArray:
    """Return the mean vector of n records that come in parts, (d,); see the top of this file."""
    total = clipped_total(parts, to)
    return np.array([one / (n * PER_UNIT) for one in total])


def paired_mean(parts: Iterable[Sized], n: int, to: Clipping) -> FloatArray:
    """Return the mean of the triples of n records that come in parts, (d + e + d(d + 1)/2,)."""
    return pairs(*clipped_totals(parts, to), n)


class OldInterval(NamedTuple):
    """What records are clipped to along the line; all 0 without one."""

    low: float
    high: float
    weight: float


class OldClip(NamedTuple):
    """What the next mean is clipped to."""

    low: float
    high: float
    weight: float
    radius: float
    whole: bool
    gain: float
    error: float
    bias_line: float
    bias_rest: float
    bend: float


def lengths_off(shells: FloatArray, off: ShellBins, frame: OldFrame, diameter: float) -> FloatArray:
    """Return the mean length, in distance, by which records reach beyond each radius, (c',)."""
    near = frame.unit_length * shells[: off.far] @ off.above[: off.far]
    far = shells[off.far :] @ np.minimum(frame.widest * off.above[off.far :], diameter)
    return np.asarray(near + far)


def choose_interval(
    survey: OldPosterior,
    bins: tuple[LineBins | None, ShellBins],
    frame: OldFrame,
    *,
    sigma: float,
    radius: float,
) -> OldInterval:
    """Return the interval of least predicted error, of which α is the best."""
    along, _ = bins
    if along is None:
        return OldInterval(0.0, 0.0, 0.0)
    price = 2.0 * radius * math.sqrt(frame.others)
    below, above = (survey.below**2, survey.above**2)
    i, j = _least(
        along.cuts, below, above, tuning.LENGTH_DISCOUNT * sigma, price / tuning.LENGTH_DISCOUNT
    )
    low, high = (float(along.cuts[i]), float(along.cuts[j]))
    return OldInterval(low, high, math.sqrt(price / frame.others / (high - low)))


@compiled
def _least(
    cuts: FloatArray, below: FloatArray, above: FloatArray, sigma: float, price: float
) -> tuple[int, int]:
    """Return the low and the high cut of least below + above + (σ·(length + price))²."""
    best, low, high = (np.inf, 0, 1)
    for i in range(len(cuts) - 1):
        if below[i] >= best:
            break
        for j in range(i + 1, len(cuts)):
            square = below[i] + above[j] + (sigma * (cuts[j] - cuts[i] + price)) ** 2
            if square < best:
                best, low, high = (square, i, j)
    return (low, high)


def choose_clip(
    interval: OldInterval,
    survey: OldPosterior,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    frame: OldFrame,
    *,
    sigma: float,
    diameter: float,
    cover: float,
    curvature: float,
    doubt: float,
) -> OldClip:
    """Return the clip of least predicted error: its radius, and what of the interval it leaves."""
    along, off = bins
    radii, low, high = (off.cuts, np.zeros(len(off.cuts)), np.zeros(len(off.cuts)))
    below = above = low
    if along is not None:
        room = radii / interval.weight
        middle = (interval.low + interval.high) / 2.0
        low, high = (
            np.maximum(interval.low, middle - room),
            np.minimum(interval.high, middle + room),
        )
        below = np.interp(low, along.cuts, survey.below)
        above = np.interp(high, along.cuts, survey.above)
    rest, hessian = (lengths_off(shells, off, frame, diameter), np.ones(len(radii)))
    if curvature > 0.0:
        ends = np.append(off.edges, radii[-1])[:, None]
        square = np.minimum(ends, radii) ** 2 - mean_square(interval, survey.shares, along)
        bent = stretch(
            math.sqrt(tuning.CURVATURE_FRACTION * curvature)
            * frame.unit_length
            * np.sqrt(square.clip(0.0))
        )
        hessian = shells @ bent / max(shells.sum(), 1e-09)
    gain, bend = (2.0 / (1.0 + hessian), (hessian - 1.0) / (hessian + 1.0))
    lines = 1.0 / interval.weight**2 if interval.weight else 0.0
    noise = (2.0 * sigma * radii) ** 2 * (frame.others * gain**2 + lines)
    squares = below**2 + above**2 + rest**2 + (bend * doubt) ** 2 + noise
    k, whole = (int(np.argmin(squares)), sigma * cover * math.sqrt(len(frame.to_axes)))
    error = math.sqrt(float(squares[k]))
    return OldClip(
        low=float(low[k]),
        high=float(high[k]),
        weight=interval.weight,
        radius=float(radii[k]),
        whole=error > whole,
        gain=float(gain[k]),
        error=min(error, whole),
        bias_line=float(np.hypot(below[k], above[k])),
        bias_rest=float(rest[k]),
        bend=float(bend[k]),
    )


def mean_square(
    to: OldInterval | OldClip, line: FloatArray | None, along: LineBins | None
) -> float:
    """Return the mean square of t = α·(x − middle), x clipped to the interval, by its shares."""
    if along is None or line is None:
        return 0.0
    middle = (to.low + to.high) / 2.0
    _, second, _ = clipped_moments(along.ends - middle, to.low - middle, to.high - middle)
    return to.weight**2 * float(line @ second) / max(float(line.sum()), 1e-12)


def stretch(x: FloatArray) -> FloatArray:
    """Return x·coth(x), 1 at 0."""
    return np.asarray(np.maximum(x, 1e-06) / np.tanh(np.maximum(x, 1e-06)))


def mean_units(clip: OldClip, frame: OldFrame) -> NDArray[np.float64]:
    """Return what one unit of the released vector is worth in each coordinate of y, (d,)."""
    units = np.full(len(frame.to_axes), 2.0 * clip.radius)
    if frame.lines:
        units[0] /= clip.weight
    return units


def reaches(clip: OldClip, frame: OldFrame, prior: Prior) -> FloatArray:
    """Return what overshoots are measured by, (3,)."""
    units = mean_units(clip, frame)
    below, above = (clip.low - prior.span[0], prior.span[1] - clip.high)
    turned = build_frame(prior.line, prior.shape).from_axes @ frame.to_axes
    longer = max(float(np.linalg.norm(turned[frame.lines :, frame.lines :], 2)), 1.0)
    return np.maximum([longer * prior.farthest, below, above], [units[-1], units[0], units[0]])


def clipping(clip: OldClip, frame: OldFrame, centre: FloatArray, prior: Prior) -> Clipping:
    """Return what maps a record to its vector, around `centre` in the axes."""
    end = clip.weight * (clip.high - clip.low) / 2.0
    if not 0.0 <= end <= clip.radius * (1.0 + ROUNDED):
        raise PrivacyError("an interval leaves its ball; take a wider one")
    units = mean_units(clip, frame)
    interval = (clip.low, clip.high, clip.weight)
    return Clipping(centre, units, frame.lines, *interval, clip.radius, reaches(clip, frame, prior))


class OldSpread(NamedTuple):
    """What the histograms say of the records."""

    line: float
    rest: float
    clipped: float
    cut: float
    shift: float
    added: float


def spread(
    survey: OldPosterior,
    shells: FloatArray,
    bins: tuple[LineBins | None, ShellBins],
    clip: OldClip,
    frame: OldFrame,
    noise: float,
    *,
    moved: bool,
) -> OldSpread:
    """Return how wide records lie, of their estimated shares; see `choose` for what they are of."""
    along, off = bins
    variance = cut = shift = added = 0.0
    if along is not None and survey.line is not None:
        shares, ends = (survey.line.shares, along.ends)
        first, second, inside = clipped_moments(ends, clip.low, clip.high)
        weights = _weights(shares)
        variance = max(float(weights @ second) - float(weights @ first) ** 2, 0.0)
        cut = 1.0 - float(weights @ inside)
        if moved:
            places = (ends[:-1] + ends[1:]) / 2.0
            places[0], first[0] = (ends[0], np.clip(ends[0], clip.low, clip.high))
            left = places - first
            shift = math.fsum(shares * left)
            heard = survey.line.covariance @ left / noise**2
            along_with = heard**2 + 2.0 * heard * (first - weights @ first)
            added = max(float(weights @ along_with) - float(weights @ heard) ** 2, 0.0)
    weights, ends = (_weights(shells), np.concatenate([[0.0], off.edges, off.cuts[-1:]]))
    _, second, inside = clipped_moments(ends, 0.0, clip.radius)
    square = float(weights @ second)
    return OldSpread(
        line=variance,
        rest=max(square - mean_square(clip, survey.shares, along), tuning.RADIAL_FLOOR * square)
        / frame.others,
        clipped=1.0 - float(weights @ inside),
        cut=cut,
        shift=shift,
        added=added,
    )


def _weights(shares: FloatArray) -> FloatArray:
    """Return shares that sum to 1."""
    return shares / max(float(shares.sum()), 1e-12)


def clip_moments(
    n: int,
    base: Point,
    noised: FloatArray,
    clip: OldClip,
    frame: OldFrame,
    *,
    line_coordinate: float,
    spread: OldSpread,
    sigma: float,
    noises: tuple[float, float],
    reach: FloatArray,
) -> NoisyMoments:
    """Return what a noised mean of vectors, or of triples, says."""
    d, lines = (len(frame.to_axes), frame.lines)
    units, paired, many = (mean_units(clip, frame), len(noised) > d, 1 + 2 * lines)
    lengths = np.append(reach[0] / units[-1], reach[1:] / units[0])[:many]
    middle = (clip.low + clip.high) / 2.0 + spread.shift - line_coordinate
    off = (clip.gain * units * noised[:d])[lines:] @ frame.from_axes[lines:]
    bent = clip.bend * float(np.linalg.norm(off))
    return NoisyMoments(
        n=n,
        base=base,
        middle=middle * frame.from_axes[:lines].sum(axis=0),
        axes=units[:, np.newaxis] * frame.from_axes,
        vector=noised[:d],
        moment=second_moment(noised[d + many :]) if paired else None,
        sigma=sigma,
        gain=clip.gain,
        lines=lines,
        bias_line=clip.bias_line,
        bias_rest=math.hypot(clip.bias_rest, bent),
        variance_line=spread.line / float(units[0]) ** 2,
        variance_rest=spread.rest / float(units[-1]) ** 2,
        clipped=spread.clipped,
        cut=spread.cut,
        clipped_noise=noises[0],
        cut_noise=noises[1],
        interval=np.array([clip.low, clip.high][: 2 * lines]),
        shift=spread.shift,
        added=spread.added,
        bend=bent,
        overshoots=lengths * noised[d : d + many] / OVERSHOOT if paired else None,
        reach=lengths if paired else None,
    )


def noisy_covariance(observed: NoisyMoments) -> FloatArray:
    """Return A = M − v·vᵀ + σ²·Id, (d, d), in units of the vectors: unbiased, not definite."""
    if observed.moment is None:
        raise ConfigError("released without a second moment; release with more")
    d, v = (len(observed.vector), observed.vector)
    return np.asarray(observed.moment - np.outer(v, v) + observed.sigma**2 * np.eye(d))


def reshape_axes(frame: OldFrame, observed: NoisyMoments) -> OldFrame:
    """Return the axes for the records that were seen in `frame`."""
    if observed.moment is None:
        return frame
    lines, rest, edge = (frame.lines, frame.from_axes[frame.lines :], noise_edge(observed))
    seen = noisy_covariance(observed)[lines:, lines:]
    usual = rest @ rest.T * (np.trace(seen) / np.sum(rest**2))
    values, vectors = np.linalg.eigh(seen - usual)
    if np.trace(seen) <= 0.0 or np.abs(values).max() <= edge:
        return frame
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    ratios, axes = eigh(usual + vectors * kept @ vectors.T, usual, check_finite=False)
    root = rest.T @ usual @ axes
    squares, directions = np.linalg.eigh(
        root * np.clip(ratios, 1.0 / tuning.VARIANCE_RATIO, tuning.VARIANCE_RATIO) @ root.T
    )
    shape = directions * np.maximum(squares, 0.0) ** 0.25 @ directions.T
    return scaled(frame.basis, lines, shape)


def posterior_update(
    observed: FloatArray, noise: FloatArray, belief: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E(θ | u) and Cov(θ | u)."""
    root = np.linalg.cholesky(noise)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ belief @ inverse.T)
    ratio, seen = (np.maximum(values, 0.0), vectors.T @ (inverse @ observed))
    d = len(observed)

    def surplus(log_tau: float) -> float:
        return float(np.sum(seen**2 / (1.0 + np.exp(log_tau) * ratio))) - d

    if surplus(0.0) > 0.0:
        end = (
            brentq(surplus, 0.0, tuning.LARGEST_LOG_SCALE, xtol=1e-13, rtol=1e-14)
            if surplus(tuning.LARGEST_LOG_SCALE) < 0.0
            else tuning.LARGEST_LOG_SCALE
        )
        ratio = np.exp(end) * ratio
    gain = ratio / (1.0 + ratio)
    axes = root @ vectors
    return (np.asarray(axes @ (gain * seen)), np.asarray(axes * gain @ axes.T))


class OldState(NamedTuple):
    """Where a repetition stands: centre and axes, how sure it is, how wide it clips, its costs."""

    point: Point
    frame: OldFrame
    belief: FloatArray
    radius: float
    rhos: tuple[float, ...]
    shells: FloatArray
    predicted: float
    observed: NoisyMoments | None


class OldEstimate(NamedTuple):
    """A noisy mean in coordinates at the private centre, and the covariance of its error."""

    offset: FloatArray
    covariance: FloatArray
    rho: float
    observed: NoisyMoments


class OldSource(NamedTuple):
    """What every step of a repetition draws from."""

    records: Records
    steps: tuple[Step, ...]
    moment: bool
    reshape: bool
    noise: Noise
    frame: OldFrame

    def last(self, step: int) -> bool:
        """Tell whether a step is the last."""
        return step + 1 == len(self.steps)

    def release(self, step: int, vector: FloatArray) -> NoisyVector:
        """Return the mean `vector` of vectors from a set of diameter 1, with the step's noise."""
        taken = self.steps[step]
        return self.noise(vector, taken.sigma, taken.sensitivity)


def _draw(source: OldSource) -> tuple[FloatArray, OldState]:
    """Return one repetition: the survey, and all rounds."""
    records = source.records
    prior = records.prior
    survey = source.release(0, records.counts / (records.n * SQRT2))
    shares, spread = (survey.vector * SQRT2, source.steps[0].sigma * SQRT2)
    found = read_survey(shares, spread, records.bins)
    belief = source.frame.prior_cov((tuning.PRIOR_SD_LINE * prior.step) ** 2, prior.doubt**2)
    radius, rhos = (tuning.FIRST_RADIUS * prior.least, (survey.rho,))
    state = OldState(
        records.centre, source.frame, belief, radius, rhos, np.empty(0), math.inf, None
    )
    for step in range(1, len(source.steps), 2):
        state = _round(source, state, step, found)
    return (shares, state)


def _round(source: OldSource, state: OldState, step: int, survey: OldPosterior) -> OldState:
    """Return the state after one round: shells, then the mean."""
    records = source.records
    frame, space = (state.frame, records.space)
    seen, centre = around(source, state.point, frame)
    sigma = source.steps[step + 1].sigma
    interval = choose_interval(survey, records.bins, frame, sigma=sigma, radius=state.radius)
    within = seen.map(lambda part: sizes_within(as_repetition(*part), interval, frame))
    counts = np.sum([shell_counts(size, records.bins[1].edges)[0] for size in within], axis=0)
    shells = source.release(step, counts / (records.n * SQRT2))
    noises = (source.steps[step].sigma, source.steps[0].sigma)
    filled = merge(shells.vector * SQRT2, survey.far, *noises, steady(source, state.point))
    clip = choose_clip(
        interval,
        survey,
        filled,
        records.bins,
        frame,
        sigma=sigma,
        diameter=records.feasible_set.diameter,
        cover=records.feasible_set.cover,
        curvature=-space.curvature[0],
        doubt=frame.off_line(state.belief),
    )
    if clip.whole:
        mean = _whole_mean(source, state, step + 1)
    else:
        noise = source.steps[0].sigma * SQRT2
        width = spread(survey, filled, records.bins, clip, frame, noise, moved=True)
        mean = _clipped_mean(source, state, step + 1, clip, width, seen, centre)
    moved, belief = posterior_update(mean.offset, mean.covariance, state.belief)
    moved *= min(1.0, records.feasible_set.diameter / max(float(np.linalg.norm(moved)), 1e-300))
    point = _end(records, state.point, moved)
    rhos = (*state.rhos, shells.rho, mean.rho)
    axes = (
        frame if source.last(step + 1) or not source.reshape else reshape_axes(frame, mean.observed)
    )
    return OldState(
        point, axes, belief, clip.radius, rhos, shells.vector * SQRT2, clip.error, mean.observed
    )


def _end(records: Records, point: Point, moved: FloatArray) -> Point:
    """Return where a step from `point` ends, in the region."""
    try:
        return records.feasible_set.inside(records.space.exp(point, moved))
    except (DomainError, ConvergenceError):
        return point


def _whole_mean(source: OldSource, state: OldState, step: int) -> OldEstimate:
    """Observe the mean of all records, nothing clipped."""
    records, sigma = (source.records, source.steps[step].sigma)
    offset = records.barycentre.seen_from(state.point, records.space)
    units = region_units(records)
    mean = source.release(step, offset / units)
    covariance = np.diag((sigma * units) ** 2)
    observed = region_moments(records.n, state.point, mean.vector, units, sigma)
    return OldEstimate(mean.vector * units, covariance, mean.rho, observed)


def _clipped_mean(
    source: OldSource,
    state: OldState,
    step: int,
    clip: OldClip,
    width: OldSpread,
    seen: Parts[Sized],
    centre: FloatArray,
) -> OldEstimate:
    """Observe the mean of clipped records, with their second moment where anything reads it."""
    records, frame, sigma = (source.records, state.frame, source.steps[step].sigma)
    to = clipping(clip, frame, centre, records.prior)
    paired = source.moment if source.last(step) else source.reshape
    averaged = paired_mean if paired else clipped_mean
    mean = source.release(step, averaged(seen, records.n, to))
    vector, coordinate = (
        mean.vector[: len(to.units)],
        line_coordinate(records.space, frame, state.point),
    )
    observed = clip_moments(
        records.n,
        state.point,
        mean.vector,
        clip,
        frame,
        line_coordinate=coordinate,
        spread=width,
        sigma=sigma,
        noises=(source.steps[step - 1].sigma * SQRT2, source.steps[0].sigma * SQRT2),
        reach=reaches(clip, frame, records.prior),
    )
    estimate = observe(
        vector, clip, frame, line_coordinate=coordinate, shift=width.shift, sigma=sigma
    )
    return OldEstimate(*estimate, mean.rho, observed)


def observe(
    vector: FloatArray,
    clip: OldClip,
    frame: OldFrame,
    *,
    line_coordinate: float,
    shift: float,
    sigma: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the mean that a noised mean of vectors says, and its covariance."""
    units = mean_units(clip, frame)
    found = vector * units
    found[: frame.lines] += (clip.low + clip.high) / 2.0 + shift - line_coordinate
    found[frame.lines :] *= clip.gain
    units[frame.lines :] *= clip.gain
    covariance = frame.from_axes.T * (sigma * units) ** 2 @ frame.from_axes
    bend = clip.bend * float(np.linalg.norm(found[frame.lines :] @ frame.from_axes[frame.lines :]))
    rest = tuning.BIAS_AS_VARIANCE * clip.bias_rest**2 + bend**2
    covariance += frame.isotropic(tuning.BIAS_AS_VARIANCE * clip.bias_line**2, rest / frame.others)
    return (found @ frame.from_axes, covariance)
