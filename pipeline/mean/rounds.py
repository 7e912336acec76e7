"""The adaptive private mean: survey, then rounds of shells and clipped mean, each nearer and finer.

    survey ─► interval ─► shells ─► radius ─┬► mean + noise ─► move back, shrink, project ─► centre
                                            └► second moment + noise ──────────────────────► axes
                                                                                of the next round

**Privacy.** Replace-one adjacency, n public. Every step releases the mean of n vectors of a set of
diameter 1 (``clip.py``) with Gaussian noise for Δ (``sensitivity.py``) and its share of the budget
(`gaussian_steps`); the sets depend on earlier releases only. With secret labels it releases their
sum, which is divided by a released count; n is used nowhere, and neighbours may differ in the class
of a record as well (``release.py``). The shares add up to the budget, and
adaptive composition holds for μ-GDP (Dong, Roth and Su, Theorem 3.2), zCDP and Rényi DP too. All
the rest, estimating from noisy histograms, choosing axes and clip, shrinking, projecting, is
post-processing of released vectors. The number of steps and their noise are functions of n (with
secret labels of N), domain and budget alone, and no convergence of an iteration is relied on, on no
manifold. The vector of a record may be the pair of its clipped coordinates and their products,
which form a set of diameter 1 as well (``sums.py``); in whatever axes, as it is there that they are
clipped.

**Utility.** The scale of the noise is set by how widely the records of one class spread, not by how
wide any two images could. A few records at the ends of the contrast axis are clipped, for holding
them would cost more noise than it saves bias; but the histogram tells about how many they are and
how far they are, and by as much as that is expected to move the mean it is moved back. Related:
CoinPress (Biswas, Dong, Kamath and Ullman 2020), instance-optimal mean estimation (Huang, Liang and
Yi 2021), PLAN (Aumüller, Lebeda, Nelson and Pagh 2024).
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConvergenceError, DomainError, PrivacyError
from pipeline.geometry import Point
from pipeline.mean import tuning
from pipeline.mean.axes import Frame, Numbers, column, in_shape, line_coordinate, vectors_times
from pipeline.mean.clip import (
    Clip,
    Spread,
    choose_clip,
    choose_interval,
    clipping,
    mean_units,
    sizes_within,
    spread,
)
from pipeline.mean.histogram import (
    SQRT2,
    LineBins,
    ShellBins,
    SurveyPosterior,
    merge,
    read_survey,
    shell_counts,
)
from pipeline.mean.noisy_moments import (
    NoisyMoments,
    clip_moments,
    posterior_update,
    region_moments,
    reshape_axes,
)
from pipeline.mean.plan import AdaptivePlan, Shares
from pipeline.mean.public_model import Prior
from pipeline.mean.records import Records
from pipeline.mean.release import (
    COUNT_UNIT,
    PUBLIC_LABELS,
    Labels,
    Release,
    ReleasedCount,
    Step,
)
from pipeline.mean.sensitivity import region_units, step_sensitivity
from pipeline.mean.sums import Clipping, Parts, Sized, clipped_means
from pipeline.mechanisms.noise import FloatNoise, Noise, check_scale
from pipeline.privacy import GDP, ApproxDP, Budget, PureDP, gaussian_sigma, split
from pipeline.recall import repeatable

COORDINATES_AT_ONCE = 2**21
"""Coordinates of records, as repetitions see them, that are held at a time."""


@dataclass(eq=False)
class _Rounds:
    """Repetitions on their way: what every step draws from, and where they stand after it.

    They draw from records of all, or of each its own. Where they stand, centres and axes, how sure
    they are, how wide they clip, costs, has them as the first axis of all arrays; it is 1 long
    where all are equal.
    """

    classes: Sequence[Records]
    steps: tuple[Step, ...]
    plan: AdaptivePlan
    noise: Sequence[Noise]
    size: int
    rhos: tuple[FloatArray, ...] = ()
    whole: dict[int, NoisyMoments] = field(default_factory=dict)
    clipped: tuple[list[int], NoisyMoments] | None = None
    class_size: ReleasedCount | None = None
    counted: ReleasedCount | None = None

    def __post_init__(self) -> None:
        """Begin where the prior expects the records, and as sure as it is."""
        records, self.frame = self.records, self.records.frame
        self.points, prior = records.centre[None], records.prior
        line = (tuning.PRIOR_SD_LINE * prior.step) ** 2
        self.error_cov = self.frame.prior_cov(line, prior.doubt**2)[None]
        self.radius = np.full(self.size, tuning.FIRST_RADIUS * prior.least)
        self.survey = self.shells = self.predicted = np.empty((self.size, 0))

    @property
    def released_size(self) -> Numbers:
        """What released vectors are divided by: the released count of secret labels, else 1."""
        return 1.0 if self.class_size is None else self.class_size.divisor

    @property
    def slack(self) -> Numbers:
        """Variance of the sum of all shares, which are of that count."""
        return 0.0 if self.class_size is None else self.class_size.relative**2

    @property
    def labels(self) -> Labels:
        """What is public of the classes."""
        return self.records.labels

    @property
    def divisor(self) -> int:
        """What sums are divided by before noise: n, or nothing where that is secret."""
        return self.labels.divisor(self.records.n)

    @property
    def records(self) -> Records:
        """The records of the first, whose axes, bins and public numbers are those of all."""
        return self.classes[0]

    def of(self, repetition: int) -> Records:
        """Return the records of a repetition."""
        return self.classes[repetition % len(self.classes)]

    @property
    def each_point(self) -> Point:
        """The centre of each repetition, where all have the same one too."""
        return in_shape(self.points, (self.size, *self.points.shape[1:]))

    def around(self) -> tuple[Parts[Sized], FloatArray]:
        """Return the records as each repetition sees them, as `Records.around`."""
        if len(self.classes) == 1:
            return self.records.around(self.points, self.frame)
        return self.records.around(self.each_point, self.frame, self.classes)

    @property
    def moments(self) -> Iterator[NoisyMoments]:
        """Yield what the last round released of each repetition, with what came before."""

        def filled(moments: NoisyMoments, rows: list[int] | int) -> NoisyMoments:
            survey, shells, belief = self.survey[rows], self.shells[rows], self.error_cov[rows]
            return replace(moments, survey=survey, shells=shells, belief=belief)

        found = {r: filled(moments, r) for r, moments in self.whole.items()}
        if self.clipped is not None:
            rows, several = self.clipped
            found |= zip(rows, filled(several, rows).each(), strict=True)
        return map(found.__getitem__, range(self.size))

    def divided(self, sums: Sequence[FloatArray], sigma: float, *, last: bool) -> list[FloatArray]:
        """Return released sums over the count, without the coordinate that counts.

        That coordinate makes the count better. The last one is put together of coordinates and
        rough sums alone, by variances that nothing released decides: so it is unbiased.
        """
        assert self.class_size is not None
        assert self.counted is not None
        values = np.array([vector[-1] for vector in sums]) / COUNT_UNIT
        self.counted = self.counted.joined(values, sigma)
        self.class_size = self.counted if last else self.class_size.joined(values, sigma)
        pairs = zip(sums, self.class_size.divisor, strict=True)
        return [vector[:-1] / n for vector, n in pairs]

    def release(
        self, step: int, vectors: Iterable[FloatArray]
    ) -> tuple[list[FloatArray], FloatArray]:
        """Return means of vectors from a set of diameter 1 with the step's noise, and their ρ.

        With secret labels they are sums.
        """
        rows, taken = list(vectors), self.steps[step]
        source, alike = self.noise[0], len(self.noise) == 1 and len({*map(len, rows)}) == 1
        if alike and type(source) is FloatNoise:  # others may take one vector at a time
            output = source(np.stack(rows), taken.sigma, taken.sensitivity)
            return list(output.vector), np.full(len(rows), output.rho)
        both = zip(rows, cycle(self.noise), strict=False)
        drawn = [noise(vector, taken.sigma, taken.sensitivity) for vector, noise in both]
        return [output.vector for output in drawn], np.array([output.rho for output in drawn])


def draw_rounds(
    classes: Sequence[Records],
    budget: Budget,
    plan: AdaptivePlan,
    *,
    noise: Sequence[Noise],
    size: int,
) -> Release:
    """Draw `size` private means, each of which alone costs `budget`.

    They are drawn in blocks, step by step: each pass over the records is made for a whole block.
    Predicted errors come from released values, so they are free to leave: estimates, too small
    where the noise masks a few outliers.

    Parameters
    ----------
    classes : sequence of Records
        Those of one class; or `size`, as many records of one domain in each, held in memory.
    noise : sequence of Noise
        That of all; or `size`, of each its own.

    Raises
    ------
    PrivacyError
        As in `step_costs`.
    """
    started, records = time.perf_counter(), classes[0]
    shares = plan.shares or default_shares(records.prior)
    labels, dim = records.labels, records.space.dim
    steps = step_costs(budget, records.n, shares, dim=dim, labels=labels)
    block = max(1, COORDINATES_AT_ONCE // (labels.size(records.n) * dim))
    draws = list[_Rounds]()
    for start in range(0, size, block):
        few = slice(start, start + block)
        own = classes[few] or classes, steps, plan, noise[few] or noise  # one is that of all
        draws.append(_draw(_Rounds(*own, min(block, size - start))))
    class_sizes = [own.class_size for own in draws if own.class_size is not None]
    return Release(
        outputs=np.concatenate([own.points for own in draws]),
        manifold=records.manifold,
        space=records.space,
        steps=steps,
        rhos=np.concatenate([np.stack(own.rhos, axis=-1) for own in draws]),
        expected_error=None,
        predicted_error=np.concatenate([own.predicted for own in draws]),
        seconds=(time.perf_counter() - started) / size,
        moments=tuple(moments for own in draws for moments in own.moments),
        class_size=ReleasedCount.joint(class_sizes) if class_sizes else None,
    )


@repeatable
def count_survey(
    counts: FloatArray, spread: float, bins: tuple[LineBins | None, ShellBins], total: int
) -> tuple[ReleasedCount, ReleasedCount]:
    """Return the number of records of the survey's bins, with noise `spread` each, in two ways.

    Returns
    -------
    rough : ReleasedCount
        Sum of all bins. It is unbiased, and has the noise of empty bins as well.
    likely : ReleasedCount
        Sum of what the prior of a histogram leaves of them. It has less noise and a bias: rounds
        divide by it until the means have counted, and it is never published.
    """
    variance = np.full(len(counts), counts.shape[-1] * spread**2)
    rough = ReleasedCount(counts.sum(axis=-1), variance, total)
    unit = rough.divisor
    survey = read_survey(counts / column(unit), spread / unit, bins, math.inf)
    if survey.shares is None or survey.covariance is None:
        return rough, rough
    shares = survey.shares.sum(axis=-1) + survey.beyond.sum(axis=-1)
    variance = tuning.COUNT_DOUBT * survey.covariance.sum(axis=(-1, -2)) * unit**2
    return rough, ReleasedCount(shares * unit, variance, total)


def _draw(source: _Rounds) -> _Rounds:
    """Return the repetitions after all rounds."""
    bins = source.records.bins
    surveyed = (source.of(r).counts / (source.divisor * SQRT2) for r in range(source.size))
    released, rhos = source.release(0, surveyed)
    shares, spread = np.array(released) * SQRT2, source.steps[0].sigma * SQRT2
    if (total := source.labels.total) is not None:
        source.counted, source.class_size = count_survey(shares, spread, bins, total)
    source.rhos = (rhos,)
    for step in range(1, len(source.steps), 2):
        if step == 1 or total is not None:  # read again the better the count is known
            slack = math.inf if step == 1 and total is not None else source.slack
            size = source.released_size
            posterior = read_survey(shares / column(size), spread / size, bins, slack)
        _round(source, step, posterior)
    divisor = column(source.released_size)
    source.survey, source.shells = shares / divisor, source.shells / divisor
    return source


def _round(source: _Rounds, step: int, posterior: SurveyPosterior) -> None:
    """Do one round: shells, then the mean."""
    records, frame, last = source.records, source.frame, step + 2 == len(source.steps)
    count = source.counted if last else source.class_size
    space, bins, divisor = records.space, records.bins, source.released_size
    parts, centres = source.around()
    first, own, sigma = (source.steps[i].sigma / divisor for i in (0, step, step + 1))
    error: Numbers = 0.0  # by what share the count is off once the mean has stated it too
    if count is not None:
        error = count.joined(count.value, source.steps[step + 1].sigma).relative
    interval = choose_interval(
        posterior, bins, frame, sigma=sigma, radius=source.radius, count_error=error
    )
    counts = np.zeros((source.size, len(bins[1].edges) + 1), np.int64)
    for part in parts:
        counts += shell_counts(sizes_within(part, interval, frame), bins[1].edges)
    released, shell_rhos = source.release(step, counts / (source.divisor * SQRT2))
    shells = np.array(released) * SQRT2
    steady = records.steady(source.points)
    smoothed = merge(shells / column(divisor), posterior.far, own, first, steady, source.slack)
    clip = choose_clip(
        interval,
        posterior,
        smoothed,
        bins,
        frame,
        sigma=sigma,
        diameter=records.feasible_set.diameter,
        cover=math.inf if source.labels.secret else records.feasible_set.cover,
        curvature=-space.curvature[0],
        doubt=frame.off_line(source.error_cov),
        count_error=error,
    )
    width = spread(posterior, smoothed, bins, clip, frame, first * SQRT2, moved=True)
    offset, covariance, mean_rhos = _means(source, step + 1, clip, width, parts, centres)
    moved, source.error_cov = posterior_update(offset, covariance, source.error_cov)
    lengths = np.sqrt(vectors_times(moved, moved[..., None])[..., 0])
    most = records.feasible_set.diameter / np.maximum(lengths, 1e-300)
    source.points = _end(records, source.points, moved * np.minimum(1.0, most)[:, None])
    source.rhos = (*source.rhos, shell_rhos, mean_rhos)
    source.radius, source.shells = clip.radius, shells
    source.predicted = np.minimum(clip.error, records.feasible_set.diameter)


def _end(records: Records, points: Point, moved: FloatArray) -> Point:
    """Return where steps from points end, in the region.

    Noise much wider than the region makes steps on curved manifolds whose ends doubles cannot hold:
    they are not taken. Released values alone decide.
    """
    try:
        return records.feasible_set.inside(records.space.exp(points, moved))
    except (DomainError, ConvergenceError):
        if len(moved) == 1:
            return points
    rows = in_shape(points, (len(moved), *points.shape[1:]))
    return np.concatenate(
        [_end(records, rows[r : r + 1], moved[r : r + 1]) for r in range(len(moved))]
    )


def _means(
    source: _Rounds,
    step: int,
    clip: Clip,
    width: Spread,
    parts: Parts[Sized],
    centres: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Observe the means of clipped records, or of all where nothing is clipped.

    The second moment goes with them where anything reads it. Return what is observed, in
    coordinates at the private centres, the covariances of its errors, and ρ; keep the axes of the
    next round, and with secret labels the count so far. These clip all records: the whole region
    has vectors of norm 1 (``clip.py``), where a move between classes has room for √(3/8).
    """
    records, size, points = source.records, source.size, source.each_point
    d, last = records.space.dim, step + 1 == len(source.steps)
    rows, others = np.flatnonzero(~clip.whole), np.flatnonzero(clip.whole).tolist()
    units = region_units(records) if others else np.empty(0)
    whole = ((r, source.of(r).barycentre) for r in others)
    vectors = {r: mean.seen_from(points[r], records.space) / units for r, mean in whole}
    if len(rows):
        frame, own = source.frame.at(rows), Clip(*(column[rows] for column in clip))
        wide = Spread(*(column[rows] for column in width))
        to = clipping(own, frame, in_shape(centres, (size, d))[rows], records.prior)
        paired = source.plan.moment if last else source.plan.reshape
        vectors |= _clipped_vectors(source, to, rows, parts, paired=paired)
    released, rhos = source.release(step, [vectors[r] for r in range(size)])
    if source.class_size is not None:
        released = source.divided(released, source.steps[step].sigma, last=last)
    count, sigma = source.class_size, source.steps[step].sigma / source.released_size
    offset, covariance = np.empty((size, d)), np.empty((size, d, d))
    source.whole, source.clipped = {}, None
    for r in others:
        source.whole[r] = region_moments(records.n, points[r], released[r], units, sigma)
        offset[r], covariance[r] = released[r] * units, np.diag((sigma * units) ** 2)
    if len(rows):
        noised = np.stack([released[r] for r in rows])
        several = _moments(source, step, points[rows], noised, own, frame, wide, to.reach)
        offset[rows], covariance[rows] = observe(
            noised[:, :d],
            own,
            frame,
            line_coordinate=line_coordinate(records.space, frame, points[rows]),
            shift=wide.shift,
            sigma=sigma,
            relative=0.0 if count is None else count.relative,
        )
        source.clipped = rows.tolist(), several
        if source.plan.reshape and not last:
            source.frame = source.frame.put(rows, reshape_axes(frame, several), size)
    return offset, covariance, rhos


def _moments(
    source: _Rounds,
    step: int,
    points: Point,
    noised: FloatArray,
    clip: Clip,
    frame: Frame,
    width: Spread,
    reach: FloatArray,
) -> NoisyMoments:
    """Return what noised means say of repetitions that clip their records."""
    records, count, divisor = source.records, source.class_size, source.released_size
    first, before, sigma = (source.steps[i].sigma / divisor for i in (0, step - 1, step))
    return clip_moments(
        records.n if count is None else count.divisor.astype(np.int64),
        points,
        noised,
        clip,
        frame,
        line_coordinate=line_coordinate(records.space, frame, points),
        spread=width,
        sigma=sigma,
        noises=(before * SQRT2, first * SQRT2),
        reach=reach,
        n_sd=0.0 if count is None else count.sd,
    )


def _clipped_vectors(
    source: _Rounds, to: Clipping, rows: NDArray[np.int64], parts: Parts[Sized], *, paired: bool
) -> dict[int, FloatArray]:
    """Return the mean vector of each repetition that clips its records, by its number."""

    def own(each: FloatArray) -> FloatArray:
        return each if len(each) <= len(rows) else each[rows]

    sized = ((own(records), own(size)) for records, size in parts)
    means = clipped_means(sized, source.divisor, to, paired=paired)
    pairs = zip(rows.tolist(), means, strict=True)
    return {r: source.labels.counted(mean, source.of(r).n) for r, mean in pairs}


@repeatable
def observe(
    vector: FloatArray,
    clip: Clip,
    frame: Frame,
    *,
    line_coordinate: Numbers,
    shift: Numbers,
    sigma: Numbers,
    relative: Numbers = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Return the mean that a noised mean of vectors says, seen from its centre, and its covariance.

    Parameters
    ----------
    vector : array, shape (..., d)
        Mean of clipped records, in the units of the clip.
    line_coordinate, shift : float
        Place of the centre on the contrast axis, and by how much the mean is moved up it
        (`Spread.shift`).
    sigma : float, or array of one a repetition
        Noise of `vector`. Some of the predicted bias counts as noise too.
    relative : float, or array of one a repetition
        Standard deviation of a released count that divides the vector, over that count.
    """
    units, lines = mean_units(clip, frame), frame.lines
    mean = vector * units
    error = vectors_times(column(relative) * mean, frame.from_axes)
    place = (clip.low + clip.high) / 2.0 + shift - line_coordinate
    gain, back = np.asarray(clip.gain)[..., None], frame.from_axes
    mean[..., :lines] += np.asarray(place)[..., None]
    mean[..., lines:] *= gain
    units[..., lines:] *= gain
    squares = ((column(sigma) * units) ** 2)[..., None, :]
    covariance = (back.swapaxes(-1, -2) * squares) @ back
    off = vectors_times(mean[..., lines:], back[..., lines:, :])
    bend = clip.bend * np.sqrt(vectors_times(off, off[..., None])[..., 0])
    rest = tuning.BIAS_AS_VARIANCE * clip.bias_rest**2 + bend**2
    line = tuning.BIAS_AS_VARIANCE * clip.bias_line**2
    covariance += frame.isotropic(line, rest / frame.others)
    if np.any(relative):
        covariance += error[..., :, None] * error[..., None, :]
    return vectors_times(mean, back), covariance


def default_shares(prior: Prior) -> Shares:
    """Return the shares of the budget, a function of the prior: public.

    They are the same for all n and μ: to 1/(n·μ) scales the noise, and by it the histograms decide
    how much clipping is worth. At small n·μ they say nothing, the prior decides, and the answer
    stays near it. Where clipping is predicted to cost more, the whole region is covered: where that
    is so in all rounds the means together have the noise of a single release of the share 0.76, or
    0.95 without a contrast axis, and 1 or 2 % more, as they are weighed by noisy values. The
    histograms have the rest, more than the papers' footpoint, 0.1: it is never worse than theirs as
    long as `FeasibleSet.cover` is well below √(0.76/0.9) = 0.918 of 2r. It is 0.88 or less for
    every descriptor in all metrics; a region as wide as a ball of radius r in all directions,
    surveyed along a contrast axis, would have up to √(0.9/0.76) = 1.09 of the papers' error.
    """
    return tuning.SHARES_WITHOUT_LINE if prior.line is None else tuning.SHARES_WITH_LINE


def step_costs(
    budget: Budget, n: int, shares: Shares, *, dim: int, labels: Labels = PUBLIC_LABELS
) -> tuple[Step, ...]:
    """Return what each step costs; together they compose to at most `budget`.

    As `gaussian_steps` for the mean of n vectors; with secret labels for their sum, whatever n is.
    `dim` is the dimension of the mean; that of a histogram, whose vectors are not rounded, does not
    matter.
    """
    return gaussian_steps(budget, shares.names, shares.all, step_sensitivity(labels, n, dim))


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
    total: Budget = budget
    if isinstance(budget, ApproxDP):
        total = GDP((1.0 - 1e-12) / gaussian_sigma(budget, 1.0))
    steps = tuple(
        Step(name, share, delta, gaussian_sigma(share, delta) * (1.0 + 1e-12))
        for name, share in zip(names, split(total, shares), strict=True)
    )
    for step in steps:
        check_scale(step.sigma)
    return steps
