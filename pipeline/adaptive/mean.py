"""The adaptive private mean: survey, then rounds of shells and clipped mean, each nearer and finer.

    survey ─► interval ┐
    shells ─► radius ──┴► clipped mean + noise ─► shrink ─► project ─► next round's centre

**Privacy.** Replace-one adjacency, n public. Every step releases the mean of n vectors of a set of
diameter 1 (``clipping.py``) with Gaussian noise for Δ = 1/n and its share of the budget
(``noise.py``); the sets depend on earlier releases only. The shares add up to the budget, and
adaptive composition holds for μ-GDP (Dong, Roth and Su, Theorem 3.2), zCDP and Rényi DP alike. All
the rest, estimating from noisy histograms, choosing what to clip, shrinking, projecting, is
post-processing of released vectors. The number of steps, their sizes and their noise are functions
of n, domain and budget alone. On curved manifolds no convergence of an iteration is relied on, but
for the Fréchet mean where the whole region is covered: its certificate is in the sensitivity.

**Utility.** The scale of the noise is set by how wide the records of one class lie, not by how wide
any two images could. Related: CoinPress (Biswas, Dong, Kamath and Ullman 2020), instance-optimal
mean estimation (Huang, Liang and Yi 2021), PLAN (Aumüller, Lebeda, Nelson and Pagh 2024).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.adaptive.choice import Clip, choose
from pipeline.adaptive.clipping import clipped_sum, mean_units, shell_counts, sizes
from pipeline.adaptive.frame import Frame
from pipeline.adaptive.noise import Cost, Noise, Noised, numpy_noise, step_costs
from pipeline.adaptive.plan import AdaptivePlan
from pipeline.adaptive.records import Records, place, prepare, see
from pipeline.adaptive.region import Domain
from pipeline.adaptive.shrinkage import shrink
from pipeline.adaptive.smoothing import LINE, SHELLS, smooth
from pipeline.arrays import FloatArray
from pipeline.errors import ConfigError
from pipeline.geometry import Manifold, Point
from pipeline.privacy import Budget

CAUTION = 0.3
"""Share of the predicted squared bias that counts as noise when an observation is weighed."""
ROOT = math.sqrt(2.0)


class AdaptiveDraws(NamedTuple):
    """Private means, each of which alone costs the budget, and what they were drawn with.

    Attributes
    ----------
    points : array, shape (size, *point_shape)
        The private means.
    costs : tuple of Cost
        Name, budget, sensitivity and σ of each step; they compose to at most the budget.
    plan : AdaptivePlan
        What was decided beforehand.
    predicted : array, shape (size,)
        Predicted root mean square error of the last round, from released values: free to leave.
    rhos : array, shape (size, steps)
        ρ-zCDP that the source of noise certifies for each step, NaN where it does not.
    """

    points: NDArray[Any]
    costs: tuple[Cost, ...]
    plan: AdaptivePlan
    predicted: FloatArray
    rhos: FloatArray


class _State(NamedTuple):
    """Where a repetition stands: the private centre, how sure it is, what has been certified."""

    point: Point
    belief: FloatArray
    rhos: tuple[float, ...]
    predicted: float


class _Source(NamedTuple):
    """What every step of a repetition draws from."""

    records: Records
    costs: tuple[Cost, ...]
    noise: Noise
    rng: np.random.Generator

    def release(self, step: int, vector: FloatArray) -> Noised:
        """Return the mean `vector` of vectors from a set of diameter 1, with the step's noise."""
        cost = self.costs[step]
        return self.noise(vector, cost.sigma, cost.sensitivity, self.rng)


def adaptive_mean(
    points: Point | Records,
    budget: Budget,
    *,
    domain: Domain,
    manifold: Manifold,
    plan: AdaptivePlan | None = None,
    margin: float = 0.0,
    size: int = 1,
    noise: Noise = numpy_noise,
    rng: np.random.Generator,
) -> AdaptiveDraws:
    """Draw `size` private means of one class; each alone costs `budget`.

    Parameters
    ----------
    points : array, shape (n, *point_shape), or Records
        The records; or what `prepare` made of them, to draw at several budgets.
    budget : Budget
        GDP, zCDP, Rényi DP, (ε, δ)-DP or Rao DP.
    domain, manifold, plan, margin
        As in `prepare`, which is not asked again for `Records`.
    size : int
        Number of independent repetitions.
    noise : Noise
        `numpy_noise` for experiments, `hardened_noise` for a release.
    rng : numpy.random.Generator
        The source of `numpy_noise`.

    Raises
    ------
    ConfigError
        When `size` is below 1.
    DomainError, PrivacyError
        As in `prepare` and `step_costs`.
    """
    if size < 1:
        raise ConfigError(f"size must be at least 1, found {size}; ask for one draw or more")
    records = points
    if not isinstance(records, Records):
        records = prepare(points, domain=domain, manifold=manifold, plan=plan, margin=margin)
    costs = step_costs(budget, records.n, records.plan.shares)
    source = _Source(records, costs, noise, rng)
    draws = [_draw(source) for _ in range(size)]
    found = np.stack([draw.point for draw in draws])
    if records.space is not records.manifold:
        found = records.manifold.exp(records.manifold.origin, found)
    return AdaptiveDraws(
        points=found,
        costs=costs,
        plan=records.plan,
        predicted=np.array([draw.predicted for draw in draws]),
        rhos=np.array([draw.rhos for draw in draws]),
    )


def _draw(source: _Source) -> _State:
    """Return one repetition."""
    records = source.records
    prior, frame = records.plan.prior, records.frame
    survey = source.release(0, records.counts / (records.n * ROOT))
    shares, spread = survey.vector * ROOT, source.costs[0].sigma * ROOT
    along, off = records.bins
    many = len(shares) - (len(off.edges) + 1 - off.far)
    line = smooth(shares[:many], np.full(many, spread), LINE) if along is not None else None
    belief = frame.belief((2.0 * prior.step) ** 2, prior.doubt**2)
    state = _State(prior.centre, belief, (survey.rho,), math.inf)
    for step in range(1, len(source.costs), 2):
        state = _round(source, state, step, line, shares[many:])
    return state


def _round(
    source: _Source, state: _State, step: int, line: FloatArray | None, far: FloatArray
) -> _State:
    """Return the state after one round: shells, then the mean."""
    records = source.records
    frame, space = records.frame, records.space
    if space.flat:
        seen, centre = records.seen, (state.point - records.plan.prior.centre) @ frame.into
    else:
        seen, centre = see(space, frame, state.point, records.points), np.zeros(space.dim)
    size = sizes(seen, centre, frame.lines)
    shells = source.release(step, shell_counts(size, records.bins[1]) / (records.n * ROOT))
    shares = _merge(shells.vector * ROOT, far, source.costs[step].sigma, source.costs[0].sigma)
    sigma = source.costs[step + 1].sigma
    clip = choose(line, shares, records.bins, frame, sigma=sigma, diameter=records.span)
    at = place(space, frame, state.point)
    if clip.whole:
        offset = space.log(state.point, records.mean)
        mean = source.release(step + 1, offset / records.span)
        observed = mean.vector * records.span
        noise = np.eye(space.dim) * (sigma * records.span) ** 2
    else:
        units = mean_units(clip, frame)
        total = clipped_sum(seen, size, centre, frame.lines, clip.low, clip.high, clip.radius)
        mean = source.release(step + 1, total / (records.n * units))
        found = mean.vector * units
        found[: frame.lines] += (clip.low + clip.high) / 2.0 - at
        observed, noise = found @ frame.back, _uncertainty(clip, units, sigma, frame)
    moved, belief = shrink(observed, noise, state.belief)
    moved *= min(1.0, records.span / max(float(np.linalg.norm(moved)), 1e-300))
    point = records.region.inside(space.exp(state.point, moved))
    return _State(point, belief, (*state.rhos, shells.rho, mean.rho), clip.error)


def _merge(shells: FloatArray, far: FloatArray, own: float, survey: float) -> FloatArray:
    """Return the smoothed shells; the far ones were counted twice, by the survey as well."""
    noise = np.full(len(shells), own * ROOT)
    weight = own**2 / (own**2 + survey**2)
    merged = shells.copy()
    merged[-len(far) :] += weight * (far - shells[-len(far) :])
    noise[-len(far) :] *= math.sqrt(1.0 - weight)
    return smooth(merged, noise, SHELLS)


def _uncertainty(clip: Clip, units: FloatArray, sigma: float, frame: Frame) -> FloatArray:
    """Return the covariance of the observed mean: the noise, and some of the predicted bias."""
    covariance = (frame.back.T * (sigma * units) ** 2) @ frame.back
    line = CAUTION * clip.bias_line**2
    return covariance + frame.isotropic(line, CAUTION * clip.bias_rest**2 / frame.others)
