"""The adaptive private mean: survey, then rounds of shells and clipped mean, each nearer and finer.

    survey ─► interval ─► shells ─► radius ─┬► mean + noise ─► move back, shrink, project ─► centre
                                            └► second moment + noise ──────────────────────► axes
                                                                                of the next round

**Privacy.** Replace-one adjacency, n public. Every step releases the mean of n vectors of a set of
diameter 1 (``clipping.py``) with Gaussian noise for Δ and its share of the budget
(``vector_mean.py``); the sets depend on earlier releases only. The shares add up to the budget, and
adaptive composition holds for μ-GDP (Dong, Roth and Su, Theorem 3.2), zCDP and Rényi DP alike. All
the rest, estimating from noisy histograms, choosing axes and clip, shrinking, projecting, is
post-processing of released vectors. The number of steps and their noise are functions of n, domain
and budget alone, and no convergence of an iteration is relied on, on no manifold. The vector of a
record may be the pair of its clipped coordinates and their products, which form a set of diameter 1
as well (``second_moment.py``); in whatever axes, as it is there that they are clipped.

**Utility.** The scale of the noise is set by how wide the records of one class lie, not by how wide
any two images could. Few records far down the line are clipped, for holding them would cost more
noise than it saves bias; but the histogram tells about how many they are and how far they lie, and
by as much as that is expected to move the mean it is moved back. Related: CoinPress (Biswas, Dong,
Kamath and Ullman 2020), instance-optimal mean estimation (Huang, Liang and Yi 2021), PLAN
(Aumüller, Lebeda, Nelson and Pagh 2024).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConvergenceError, DomainError
from pipeline.geometry import Point
from pipeline.mean.choice import Clip, choose, choose_interval
from pipeline.mean.clipping import clipping, mean_units, reaches, shell_counts, sizes_within
from pipeline.mean.frame import Frame
from pipeline.mean.observed import Observed, of_clip, of_whole
from pipeline.mean.parts import Parts
from pipeline.mean.plan import Shares
from pipeline.mean.records import Records
from pipeline.mean.release import Step, Told
from pipeline.mean.reshaping import reshaped
from pipeline.mean.second_moment import paired_mean
from pipeline.mean.shrinkage import shrink
from pipeline.mean.spread import Spread, spread
from pipeline.mean.sums import Sized, clipped_mean
from pipeline.mean.survey import Surveyed, merge, read_survey
from pipeline.mean.vector_mean import step_costs
from pipeline.mean.view import View, place
from pipeline.mechanisms.noise import Noise, Noised
from pipeline.privacy import Budget

CAUTION = 0.3
"""Share of the predicted squared bias that counts as noise in an observation's weight; by hand."""
ALONG = 2.0
"""Standard deviation of the mean along the line, in steps of the prior.

By hand: on `tiles` it is 4, on PneumoniaMNIST and BreastMNIST 1.
"""
EXPECTED = 2.5
"""Radius that the first round expects to clip to, in units of `Prior.least`; by hand."""
ROOT = math.sqrt(2.0)


class Rounds(NamedTuple):
    """Where the rounds end, what they cost, and what they predict.

    Attributes
    ----------
    points : array, shape (size, *space.point_shape)
        The private means.
    steps : tuple of Step
        They compose to at most the budget.
    rhos : array, shape (size, steps)
        ρ-zCDP that the source of noise certifies for each step, NaN where it does not.
    told : tuple of Told
        What each released on the way.
    predicted : array, shape (size,)
        Root mean square error that the last round predicts from released values, so free to leave:
        an estimate, too small where a few records far out went unnoticed in the noise.
    """

    points: NDArray[np.float64]
    steps: tuple[Step, ...]
    rhos: FloatArray
    told: tuple[Told, ...]
    predicted: FloatArray


class _State(NamedTuple):
    """Where a repetition stands: centre and axes, how sure it is, how wide it clips, its costs."""

    point: Point
    frame: Frame
    belief: FloatArray
    radius: float
    rhos: tuple[float, ...]
    shells: FloatArray
    predicted: float
    observed: Observed | None


class _Seen(NamedTuple):
    """A noisy mean in coordinates at the private centre, and the covariance of its error."""

    offset: FloatArray
    covariance: FloatArray
    rho: float
    observed: Observed


class _Source(NamedTuple):
    """What every step of a repetition draws from."""

    view: View
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
    view: View,
    budget: Budget,
    shares: Shares,
    *,
    moment: bool,
    reshape: bool,
    noise: Noise,
    size: int,
) -> Rounds:
    """Draw `size` private means of one class; each alone costs `budget`, with `moment` or without.

    With `reshape` each round clips in axes as wide as the one before found the records.

    Raises
    ------
    PrivacyError
        As in `step_costs`.
    """
    steps = step_costs(budget, view.records.n, shares, dim=view.records.space.dim)
    draws, told = list[_State](), list[Told]()
    for _ in range(size):
        survey, draw = _draw(_Source(view, steps, moment, reshape, noise))
        draws.append(draw)
        assert draw.observed is not None  # there is a round
        told.append(Told(survey, draw.shells, draw.belief, draw.observed))
    return Rounds(
        points=np.stack([draw.point for draw in draws]),
        steps=steps,
        rhos=np.array([draw.rhos for draw in draws]),
        told=tuple(told),
        predicted=np.array([draw.predicted for draw in draws]),
    )


def _draw(source: _Source) -> tuple[FloatArray, _State]:
    """Return one repetition: the survey, and all rounds."""
    view, records = source.view, source.view.records
    prior = records.prior
    survey = source.release(0, view.counts / (records.n * ROOT))
    shares, spread = survey.vector * ROOT, source.steps[0].sigma * ROOT
    found = read_survey(shares, spread, view.bins)
    belief = view.frame.belief((ALONG * prior.step) ** 2, prior.doubt**2)
    radius, rhos = EXPECTED * prior.least, (survey.rho,)
    state = _State(records.centre, view.frame, belief, radius, rhos, np.empty(0), math.inf, None)
    for step in range(1, len(source.steps), 2):
        state = _round(source, state, step, found)
    return shares, state


def _round(source: _Source, state: _State, step: int, survey: Surveyed) -> _State:
    """Return the state after one round: shells, then the mean."""
    view, records = source.view, source.view.records
    frame, space = state.frame, records.space
    seen, centre = view.around(state.point, frame)
    sigma = source.steps[step + 1].sigma
    interval = choose_interval(survey, view.bins, frame, sigma=sigma, radius=state.radius)
    within = seen.map(lambda part: sizes_within(part, interval, frame))
    counts = np.sum([shell_counts(size, view.bins[1]) for size in within], axis=0)
    shells = source.release(step, counts / (records.n * ROOT))
    noises = source.steps[step].sigma, source.steps[0].sigma
    filled = merge(shells.vector * ROOT, survey.far, *noises, view.steady(state.point))
    clip = choose(
        interval,
        survey,
        filled,
        view.bins,
        frame,
        sigma=sigma,
        diameter=records.region.diameter,
        curvature=-space.curvature[0],
        doubt=frame.off_line(state.belief),
    )
    if clip.whole:
        mean = _whole_mean(source, state, step + 1)
    else:
        noise = source.steps[0].sigma * ROOT
        width = spread(survey, filled, view.bins, clip, frame, noise, moved=True)
        mean = _clipped_mean(source, state, step + 1, clip, width, seen, centre)
    moved, belief = shrink(mean.offset, mean.covariance, state.belief)
    moved *= min(1.0, records.region.diameter / max(float(np.linalg.norm(moved)), 1e-300))
    point = _end(records, state.point, moved)
    rhos = (*state.rhos, shells.rho, mean.rho)
    axes = frame if source.last(step + 1) or not source.reshape else reshaped(frame, mean.observed)
    return _State(
        point, axes, belief, clip.radius, rhos, shells.vector * ROOT, clip.error, mean.observed
    )


def _end(records: Records, point: Point, moved: FloatArray) -> Point:
    """Return where a step from `point` ends, in the region.

    Noise far wider than the region makes steps on curved manifolds whose ends doubles cannot hold:
    they are not taken. Released values alone decide.
    """
    try:
        return records.region.inside(records.space.exp(point, moved))
    except (DomainError, ConvergenceError):
        return point


def _whole_mean(source: _Source, state: _State, step: int) -> _Seen:
    """Observe the mean of all records, nothing clipped."""
    records, sigma = source.view.records, source.steps[step].sigma
    offset = records.barycentre.seen_from(state.point, records.space)
    mean = source.release(step, offset / records.span)
    covariance = np.eye(len(offset)) * (sigma * records.span) ** 2
    observed = of_whole(records.n, state.point, mean.vector, records.span, sigma)
    return _Seen(mean.vector * records.span, covariance, mean.rho, observed)


def _clipped_mean(
    source: _Source,
    state: _State,
    step: int,
    clip: Clip,
    width: Spread,
    seen: Parts[Sized],
    centre: FloatArray,
) -> _Seen:
    """Observe the mean of clipped records, with their second moment where anything reads it."""
    records, frame, sigma = source.view.records, state.frame, source.steps[step].sigma
    to = clipping(clip, frame, centre, records.prior)
    paired = source.moment if source.last(step) else source.reshape
    averaged = paired_mean if paired else clipped_mean
    mean = source.release(step, averaged(seen, records.n, to))
    vector, spot = mean.vector[: len(to.units)], place(records.space, frame, state.point)
    observed = of_clip(
        records.n,
        state.point,
        mean.vector,
        clip,
        frame,
        spot=spot,
        spread=width,
        sigma=sigma,
        noises=(source.steps[step - 1].sigma * ROOT, source.steps[0].sigma * ROOT),
        reach=reaches(clip, frame, records.prior),
    )
    told = observe(vector, clip, frame, spot=spot, shift=width.shift, sigma=sigma)
    return _Seen(*told, mean.rho, observed)


def observe(
    vector: FloatArray, clip: Clip, frame: Frame, *, spot: float, shift: float, sigma: float
) -> tuple[FloatArray, FloatArray]:
    """Return the mean that a noised mean of vectors says, seen from its centre, and its covariance.

    Parameters
    ----------
    vector : array, shape (d,)
        Mean of clipped records, in the units of the clip.
    spot, shift : float
        Place of the centre on the line, and by how much the mean is moved up it (`Spread.shift`).
    sigma : float
        Noise of `vector`. Some of the predicted bias counts as noise too.
    """
    units = mean_units(clip, frame)
    found = vector * units
    found[: frame.lines] += (clip.low + clip.high) / 2.0 + shift - spot
    found[frame.lines :] *= clip.gain
    units[frame.lines :] *= clip.gain
    covariance = (frame.back.T * (sigma * units) ** 2) @ frame.back
    bend = clip.bend * float(np.linalg.norm(found[frame.lines :] @ frame.back[frame.lines :]))
    rest = CAUTION * clip.bias_rest**2 + bend**2
    covariance += frame.isotropic(CAUTION * clip.bias_line**2, rest / frame.others)
    return found @ frame.back, covariance
