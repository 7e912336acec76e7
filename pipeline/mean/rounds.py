"""The adaptive private mean: survey, then rounds of shells and clipped mean, each nearer and finer.

    survey ─► interval ─► shells ─► radius ─┬► mean + noise ─► move back, shrink, project ─► centre
                                            └► second moment + noise ──────────────────────► axes
                                                                                of the next round

**Privacy.** Replace-one adjacency, n public. Every step releases the mean of n vectors of a set of
diameter 1 (``clip.py``) with Gaussian noise for Δ and its share of the budget
(``sensitivity.py``); the sets depend on earlier releases only. The shares add up to the budget, and
adaptive composition holds for μ-GDP (Dong, Roth and Su, Theorem 3.2), zCDP and Rényi DP alike. All
the rest, estimating from noisy histograms, choosing axes and clip, shrinking, projecting, is
post-processing of released vectors. The number of steps and their noise are functions of n, domain
and budget alone, and no convergence of an iteration is relied on, on no manifold. The vector of a
record may be the pair of its clipped coordinates and their products, which form a set of diameter 1
as well (``sums.py``); in whatever axes, as it is there that they are clipped.

**Utility.** The scale of the noise is set by how wide the records of one class lie, not by how wide
any two images could. Few records far down the line are clipped, for holding them would cost more
noise than it saves bias; but the histogram tells about how many they are and how far they lie, and
by as much as that is expected to move the mean it is moved back. Related: CoinPress (Biswas, Dong,
Kamath and Ullman 2020), instance-optimal mean estimation (Huang, Liang and Yi 2021), PLAN
(Aumüller, Lebeda, Nelson and Pagh 2024).
"""

import math
import time
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import ConvergenceError, DomainError
from pipeline.geometry import Point
from pipeline.mean import tuning
from pipeline.mean.axes import Frame, line_coordinate
from pipeline.mean.clip import (
    Clip,
    Spread,
    choose_clip,
    choose_interval,
    clipping,
    mean_units,
    reaches,
    sizes_within,
    spread,
)
from pipeline.mean.histogram import (
    SurveyPosterior,
    merge,
    read_survey,
    shell_counts,
)
from pipeline.mean.noisy_moments import NoisyMoments, clip_moments, region_moments, reshape_axes
from pipeline.mean.plan import AdaptivePlan, Shares
from pipeline.mean.pooling import posterior_update
from pipeline.mean.public_model import Prior
from pipeline.mean.records import Records, SurveyedRecords
from pipeline.mean.release import Release, ReleasedStatistics, Step
from pipeline.mean.sensitivity import step_costs
from pipeline.mean.sums import Parts, Sized, clipped_mean, paired_mean
from pipeline.mechanisms.noise import Noise, Noised
from pipeline.privacy import Budget

SQRT2 = math.sqrt(2.0)


class _State(NamedTuple):
    """Where a repetition stands: centre and axes, how sure it is, how wide it clips, its costs."""

    point: Point
    frame: Frame
    belief: FloatArray
    radius: float
    rhos: tuple[float, ...]
    shells: FloatArray
    predicted: float
    observed: NoisyMoments | None


class MeanEstimate(NamedTuple):
    """A noisy mean in coordinates at the private centre, and the covariance of its error."""

    offset: FloatArray
    covariance: FloatArray
    rho: float
    observed: NoisyMoments


class _Source(NamedTuple):
    """What every step of a repetition draws from."""

    view: SurveyedRecords
    steps: tuple[Step, ...]
    moment: bool
    reshape: bool
    noise: Noise

    def last(self, step: int) -> bool:
        """Tell whether a step is the last."""
        return step + 1 == len(self.steps)

    def release(self, step: int, vector: FloatArray) -> Noised:
        """Return the mean `vector` of vectors from a set of diameter 1, with the step's noise."""
        taken = self.steps[step]
        return self.noise(vector, taken.sigma, taken.sensitivity)


def draw_rounds(
    survey: SurveyedRecords, budget: Budget, plan: AdaptivePlan, *, noise: Noise, size: int
) -> Release:
    """Draw `size` private means of one class, each of which alone costs `budget`.

    Its predicted errors come from released values, so they are free to leave: estimates, too small
    where a few records far out went unnoticed in the noise.

    Raises
    ------
    PrivacyError
        As in `step_costs`.
    """
    started, records = time.perf_counter(), survey.records
    shares = plan.shares or default_shares(records.prior)
    steps = step_costs(budget, records.n, shares, dim=records.space.dim)
    source = _Source(survey, steps, plan.moment, plan.reshape, noise)
    states, statistics = list[_State](), list[ReleasedStatistics]()
    for _ in range(size):
        counts, state = _draw(source)
        states.append(state)
        assert state.observed is not None  # there is a round
        statistics.append(ReleasedStatistics(counts, state.shells, state.belief, state.observed))
    return Release(
        outputs=np.stack([state.point for state in states]),
        manifold=records.manifold,
        space=records.space,
        budget=budget,
        steps=steps,
        rhos=np.array([state.rhos for state in states]),
        expected_error=None,
        predicted_error=np.array([state.predicted for state in states]),
        acceptance=1.0,
        seconds=(time.perf_counter() - started) / size,
        statistics=tuple(statistics),
    )


def _draw(source: _Source) -> tuple[FloatArray, _State]:
    """Return one repetition: the survey, and all rounds."""
    view, records = source.view, source.view.records
    prior = records.prior
    survey = source.release(0, view.counts / (records.n * SQRT2))
    shares, spread = survey.vector * SQRT2, source.steps[0].sigma * SQRT2
    found = read_survey(shares, spread, view.bins)
    belief = view.frame.prior_cov((tuning.PRIOR_SD_LINE * prior.step) ** 2, prior.doubt**2)
    radius, rhos = tuning.FIRST_RADIUS * prior.least, (survey.rho,)
    state = _State(records.centre, view.frame, belief, radius, rhos, np.empty(0), math.inf, None)
    for step in range(1, len(source.steps), 2):
        state = _round(source, state, step, found)
    return shares, state


def _round(source: _Source, state: _State, step: int, survey: SurveyPosterior) -> _State:
    """Return the state after one round: shells, then the mean."""
    view, records = source.view, source.view.records
    frame, space = state.frame, records.space
    seen, centre = view.around(state.point, frame)
    sigma = source.steps[step + 1].sigma
    interval = choose_interval(survey, view.bins, frame, sigma=sigma, radius=state.radius)
    within = seen.map(lambda part: sizes_within(part, interval, frame))
    counts = np.sum([shell_counts(size, view.bins[1]) for size in within], axis=0)
    shells = source.release(step, counts / (records.n * SQRT2))
    noises = source.steps[step].sigma, source.steps[0].sigma
    filled = merge(shells.vector * SQRT2, survey.far, *noises, view.steady(state.point))
    clip = choose_clip(
        interval,
        survey,
        filled,
        view.bins,
        frame,
        sigma=sigma,
        diameter=records.feasible_set.diameter,
        curvature=-space.curvature[0],
        doubt=frame.off_line(state.belief),
    )
    if clip.whole:
        mean = _whole_mean(source, state, step + 1)
    else:
        noise = source.steps[0].sigma * SQRT2
        width = spread(survey, filled, view.bins, clip, frame, noise, moved=True)
        mean = _clipped_mean(source, state, step + 1, clip, width, seen, centre)
    moved, belief = posterior_update(mean.offset, mean.covariance, state.belief)
    moved *= min(1.0, records.feasible_set.diameter / max(float(np.linalg.norm(moved)), 1e-300))
    point = _end(records, state.point, moved)
    rhos = (*state.rhos, shells.rho, mean.rho)
    axes = (
        frame if source.last(step + 1) or not source.reshape else reshape_axes(frame, mean.observed)
    )
    return _State(
        point, axes, belief, clip.radius, rhos, shells.vector * SQRT2, clip.error, mean.observed
    )


def _end(records: Records, point: Point, moved: FloatArray) -> Point:
    """Return where a step from `point` ends, in the region.

    Noise far wider than the region makes steps on curved manifolds whose ends doubles cannot hold:
    they are not taken. Released values alone decide.
    """
    try:
        return records.feasible_set.inside(records.space.exp(point, moved))
    except (DomainError, ConvergenceError):
        return point


def _whole_mean(source: _Source, state: _State, step: int) -> MeanEstimate:
    """Observe the mean of all records, nothing clipped."""
    records, sigma = source.view.records, source.steps[step].sigma
    offset = records.barycentre.seen_from(state.point, records.space)
    mean = source.release(step, offset / records.span)
    covariance = np.eye(len(offset)) * (sigma * records.span) ** 2
    observed = region_moments(records.n, state.point, mean.vector, records.span, sigma)
    return MeanEstimate(mean.vector * records.span, covariance, mean.rho, observed)


def _clipped_mean(
    source: _Source,
    state: _State,
    step: int,
    clip: Clip,
    width: Spread,
    seen: Parts[Sized],
    centre: FloatArray,
) -> MeanEstimate:
    """Observe the mean of clipped records, with their second moment where anything reads it."""
    records, frame, sigma = source.view.records, state.frame, source.steps[step].sigma
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
    return MeanEstimate(*estimate, mean.rho, observed)


def observe(
    vector: FloatArray,
    clip: Clip,
    frame: Frame,
    *,
    line_coordinate: float,
    shift: float,
    sigma: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the mean that a noised mean of vectors says, seen from its centre, and its covariance.

    Parameters
    ----------
    vector : array, shape (d,)
        Mean of clipped records, in the units of the clip.
    line_coordinate, shift : float
        Place of the centre on the line, and by how much the mean is moved up it (`Spread.shift`).
    sigma : float
        Noise of `vector`. Some of the predicted bias counts as noise too.
    """
    units = mean_units(clip, frame)
    found = vector * units
    found[: frame.lines] += (clip.low + clip.high) / 2.0 + shift - line_coordinate
    found[frame.lines :] *= clip.gain
    units[frame.lines :] *= clip.gain
    covariance = (frame.from_axes.T * (sigma * units) ** 2) @ frame.from_axes
    bend = clip.bend * float(np.linalg.norm(found[frame.lines :] @ frame.from_axes[frame.lines :]))
    rest = tuning.BIAS_AS_VARIANCE * clip.bias_rest**2 + bend**2
    covariance += frame.isotropic(tuning.BIAS_AS_VARIANCE * clip.bias_line**2, rest / frame.others)
    return found @ frame.from_axes, covariance


def default_shares(prior: Prior) -> Shares:
    """Return the shares of the budget, a function of the prior: public.

    They are the same for all n and μ: to 1/(n·μ) scales the noise, and by it the histograms decide
    how much clipping is worth. At small n·μ they say nothing, the prior decides, and the answer
    stays near it. Where clipping is predicted to cost more, the whole region is covered: that is
    the single release with the share of the last mean, 0.49 where a line is surveyed and D is
    smaller than 2r, 0.80 without a line.
    """
    return tuning.SHARES_WITHOUT_LINE if prior.line is None else tuning.SHARES_WITH_LINE
