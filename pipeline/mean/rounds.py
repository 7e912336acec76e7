"""Adaptive private means: two means find where records are, counts how wide, the third is it.

    mean 1 ─► centre ─► shells 1 ─► radius ─► mean 2 ─► centre ─► shells 2 ─► radius
                                                                                │
    mean + second moment + overshoots ◄─ mean 3 ◄───────────────────────────────┘

*Mean 1* clips records to a ball around where the prior expects them, as wide as that may be wrong.
*Shells* count records by their distance from the centre; the radius leaves as many outside as the
noise makes worth it (``clip.py``). Where many are beyond the last edge the second shells are wider.
*Mean 2* moves the centre where that is distant, as the radii say, or where n·μ is so small that
noise alone matters; halfway where the radii say no more than that the class is narrow, and has no
thick tail. *Mean 3* has most of the budget. What it cuts off is released with it, and added again
where it exceeds its noise; so a few black images, or stripes, move the result by what they move the
mean. Each observation is put together with what was known before it (`posterior_update`).

**Privacy.** Replace-one adjacency, n public. Every step releases the mean of n vectors of a set of
diameter 1: indicators of shells over √2 (`clip.SQRT2`), or records clipped to a ball of radius R,
over 2R, the last with products and overshoots (``sums.py``). It has Gaussian noise for Δ
(``sensitivity.py``) and its share of the budget (`gaussian_steps`); the sets depend on earlier
releases only. With secret labels it releases their sum, which is divided by a released count; n is
used nowhere, and neighbours may differ in the class of a record as well (``release.py``). The
shares add up to the budget, and adaptive composition holds for μ-GDP (Dong, Roth and Su, Theorem
3.2), zCDP and Rényi DP too. All the rest is post-processing of released vectors. The steps and
their noise are functions of n (with secret labels of N), domain and budget alone.

On a curved manifold coordinates are those of log(p, ·), and nothing more is needed, as each record
is clipped by itself.

Related: CoinPress (Biswas, Dong, Kamath and Ullman 2020), instance-optimal mean estimation (Huang,
Liang and Yi 2021), PLAN (Aumüller, Lebeda, Nelson and Pagh 2024).
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import cycle
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.errors import ConvergenceError, DomainError, PrivacyError
from covdp.geometry import Point
from covdp.mean import tuning
from covdp.mean.axes import Scalar, in_shape, vectors_times
from covdp.mean.clip import (
    SQRT2,
    ball,
    choose_radius,
    clipping,
    lengths,
    likely_counts,
    newton_step,
    one_peak,
    records_outside,
    shell_counts,
)
from covdp.mean.noisy_moments import (
    DrawnMoments,
    NoisyMoments,
    clipped_moments,
    covariance,
    observe,
    posterior_update,
)
from covdp.mean.plan import STEP_NAMES, AdaptivePlan, Shares
from covdp.mean.public_model import Prior, center_of
from covdp.mean.records import PublicModel, Records
from covdp.mean.release import (
    PUBLIC_LABELS,
    Labels,
    Release,
    ReleasedCount,
    Step,
)
from covdp.mean.sensitivity import step_sensitivity
from covdp.mean.sums import Clipping, Parts, Sized, clipped_means, sizes_beside_odd
from covdp.mechanisms.noise import CollectiveNoise, FloatNoise, Noise, check_scale
from covdp.privacy import GDP, ApproxDP, Budget, PureDP, gaussian_sigma, split

T = TypeVar("T")
COORDINATES_AT_ONCE = 2**21
"""Coordinates of records, as repetitions see them, that are held at a time."""


@dataclass(eq=False)
class _Draws:
    """State of repetitions: what every step draws from, and where they stand after it.

    They draw from records of all, or of each its own. Where they stand, how sure they are and how
    wide they clip has them as the first axis of all arrays; it is 1 long where all are equal.
    """

    classes: Sequence[Records]
    steps: tuple[Step, ...]
    plan: AdaptivePlan
    noise: Sequence[Noise]
    size: int
    rhos: list[FloatArray] = field(default_factory=list)
    class_size: ReleasedCount | None = None

    def __post_init__(self) -> None:
        """Begin where the prior expects the records, and as sure as it is."""
        self.points, self.belief = self.model.centre[None], first_belief(self.model)[None]
        self.middle = self.points

    @property
    def model(self) -> Records:
        """Records of the first class, whose axes, shells and public numbers are those of all."""
        return self.classes[0]

    @property
    def labels(self) -> Labels:
        """Public facts of the labels."""
        return self.model.labels

    def counted(self) -> FloatArray:
        """Return the number of records in sums, (r,): public n, (1,), else the released count."""
        n = np.array([float(self.model.n)])
        return n if self.class_size is None else self.class_size.divisor

    def sigma(self, step: int) -> FloatArray:
        """Return the noise of a mean, (r,): of a sum of secret size over the released count."""
        sigma = np.array([self.steps[step].sigma])
        return sigma if self.class_size is None else sigma / self.counted()

    def sum_noise(self) -> float:
        """Return the noise that the whole budget would leave in a sum of vectors."""
        return _whole_noise([step.sigma for step in self.steps], self.labels, self.model.n)

    def few(self) -> NDArray[np.bool_]:
        """Return True where n·μ is so small that noise alone decides, (size,), by `is_few`."""
        counted = in_shape(self.counted(), (self.size,))
        return _is_few(counted / self.sum_noise(), self.model.prior)

    def release(self, step: int, vectors: Sequence[FloatArray]) -> list[FloatArray]:
        """Return means of vectors from a set of diameter 1 with the step's noise.

        With secret labels they are sums.
        """
        taken, source = self.steps[step], self.noise[0]
        rows = [vectors[r % len(vectors)] for r in range(self.size)]
        if len(self.noise) == 1 and type(source) is FloatNoise:  # others may take one vector a time
            output = source(np.stack(rows), taken.sigma, taken.sensitivity)
            self.rhos.append(np.full(len(rows), output.rho))
            return list(output.vector)
        both = zip(rows, cycle(self.noise), strict=False)
        drawn = [noise(vector, taken.sigma, taken.sensitivity) for vector, noise in both]
        self.rhos.append(np.array([output.rho for output in drawn]))
        return [output.vector for output in drawn]

    def centres(self) -> FloatArray:
        """Return the centres of balls in the axes, (r, d), of as many repetitions as differ."""
        many = max(len(self.points), len(self.middle), len(self.classes))
        points, middle = (in_shape(x, (many, *x.shape[1:])) for x in (self.points, self.middle))
        return self.model.in_axes(points, middle)

    def around(self, centres: FloatArray) -> Parts[Sized]:
        """Return the records as each repetition sees them, with their way from the centres."""
        points = in_shape(self.points, (len(centres), *self.points.shape[1:]))
        return self.model.around(points, centres, self.classes if len(self.classes) > 1 else ())

    def shells(self, step: int, far: NDArray[np.bool_]) -> FloatArray:
        """Return noised counts of records by their distance from the centres, (size, b).

        Of repetitions that see many `far` records they go up to the farthest that is expected.
        """
        prior, divisor = self.model.prior, self.labels.divisor(self.model.n)
        centres = self.centres()
        counts = ends = np.zeros((1, len(prior.edges) + 1), np.int64)
        odd = self.odd(self.points, centres)[:, : None if self.may_cut else 0]
        centres, odd, farther = self.agreed(centres=centres, odd=odd, far=far.astype(np.float64))
        far = farther > 0.0
        for records, size in self.around(centres):
            size = sizes_beside_odd(records, size, centres, odd, prior.edges[-1])
            counts = counts + shell_counts(size, prior.edges)
            if far.any():
                ends = ends + shell_counts(size, prior.far_edges)
        if far.any():
            counts = np.where(far[:, None], ends, counts)
        released = self.release(step, list(counts / (divisor * SQRT2)))
        return np.array(released) * (SQRT2 * divisor)

    def agreed(self, **own: FloatArray) -> list[FloatArray]:
        """Return the parameters of a step, and move to the points, as all curators have them."""
        if len(self.noise) == 1 and isinstance(source := self.noise[0], CollectiveNoise):
            axes = self.model.frame.from_axes  # public: compared, and each keeps its own
            found = source.agree({**own, "points": self.points, "axes": axes})
            space, region = self.model.space, self.model.feasible_set
            self.points = region.inside(space.check(found["points"]))  # where no record fails
            return [found[name] for name in own]
        return list(own.values())

    def agreed_clipping(self, to: Clipping) -> Clipping:
        """Return maps of records to vectors as all curators have them."""
        arrays = {name: value for name, value in to._asdict().items() if name != "lines"}
        found = self.agreed(**arrays)
        return Clipping._make([*found[:3], to.lines, *found[3:]])

    def odd(self, points: Point, centres: FloatArray) -> FloatArray:
        """Return the way from the centres to odd pictures, (r, m, d), in the axes at points."""
        base = in_shape(points, (len(centres), *points.shape[1:]))[:, None]
        return self.model.in_axes(base, self.model.odd) - centres[:, None]

    def outside(self) -> FloatArray:
        """Return the number of records that are left outside, (size,)."""
        many = records_outside(self.sum_noise(), self.model.space.dim, self.counted())
        return in_shape(many, (self.size,))

    @property
    def may_cut(self) -> bool:
        """True if the noise is worth one record outside of the ball; else it holds all of them."""
        every = np.array([np.inf])
        return bool(records_outside(self.sum_noise(), self.model.space.dim, every) >= 1.0)

    def far(self, shells: FloatArray) -> NDArray[np.bool_]:
        """Return True where more are beyond the last edge than is worth it or noise, (size,)."""
        noise = SQRT2 * self.labels.divisor(self.model.n) * self.steps[1].sigma
        return np.asarray(shells[:, -1] > np.maximum(self.outside(), tuning.FAR_SD * noise))

    def peaked(self, step: int, shells: FloatArray, which: NDArray[np.bool_]) -> FloatArray:
        """Return counts that rise to one peak and fall beyond it, of some of the repetitions.

        Not where a shell holds more than noise explains: its records are a cluster of their own.
        """
        noise = SQRT2 * self.labels.divisor(self.model.n) * self.steps[step].sigma
        found = one_peak(shells)
        cluster = (shells - found > tuning.CLUSTER_SD * noise).any(axis=1)
        return _chosen(which & ~cluster, found, shells)

    def radius(self, shells: FloatArray, far: NDArray[np.bool_], share: float = 1.0) -> FloatArray:
        """Return the radius that such counts say, (size,).

        It leaves a share outside of the records that may be there.
        """
        prior, outside = self.model.prior, share * self.outside()
        shells = likely_counts(shells, self.counted())
        found = choose_radius(shells, prior.edges, outside)
        return np.where(far, choose_radius(shells, prior.far_edges, outside), found)

    def is_wide(self, radius: FloatArray) -> NDArray[np.bool_]:
        """Return True where a ball has more noise than one around the whole domain, (size,)."""
        axes, most = self.model.frame.from_axes, self.model.domain.radius
        return np.asarray(radius**2 * np.sum(axes**2) > most**2 * len(axes))

    def most_beyond(
        self, step: int, shells: FloatArray, far: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return True where so many are beyond that a ball around all is worth it, (size,).

        Beyond the farthest edge those are as many as may be outside of a ball.
        """
        noise = SQRT2 * self.labels.divisor(self.model.n) * self.steps[step].sigma
        many = np.where(far, self.outside(), tuning.MOST_BEYOND * self.counted())
        return np.asarray(shells[:, -1] > np.maximum(many, tuning.FAR_SD * noise))

    def count_of(self, rows: NDArray[np.intp]) -> ReleasedCount | None:
        """Return the counts of some of the repetitions; None where sizes are public."""
        count = self.class_size
        return count and ReleasedCount(count.value[rows], count.variance[rows], count.total)

    def some(self, rows: NDArray[np.intp], *, around_all: bool) -> "_Draws":
        """Return some of the repetitions, before the last mean, which may be around all records."""
        if len(rows) == self.size and not around_all:
            return self

        def own(each: Sequence[T]) -> list[T]:
            return [each[r] for r in rows] if len(each) > 1 else list(each)

        def part(values: NDArray[Scalar]) -> NDArray[Scalar]:
            return in_shape(values, (self.size, *values.shape[1:]))[rows]

        classes = own(self.classes)
        if around_all:
            classes = [records.unshaped for records in classes]
        found = _Draws(classes, self.steps, self.plan, own(self.noise), len(rows))
        found.points, found.belief = part(self.points), part(self.belief)
        found.middle = part(self.middle)
        if around_all:  # what was believed rests on clipped means
            found.belief = np.eye(self.model.space.dim)[None] * self.model.domain.radius**2 * 1e6
            found.middle = center_of(self.model.domain, self.model.space)[None]
            if self.model.space.flat:
                found.middle = found.points = in_shape(found.middle, found.points.shape)
        found.class_size = self.count_of(rows)
        return found

    def vectors(self, to: Clipping, *, paired: bool) -> list[FloatArray]:
        """Return means of the vectors of records, with what rides along; 1 where all are equal."""
        divisor, sizes = self.labels.divisor(self.model.n), [own.n for own in self.classes]
        means = clipped_means(self.around(to.centre), divisor, to, paired=paired)
        return [self.labels.counted(m, sizes[r % len(sizes)]) for r, m in enumerate(means)]

    def means(self, step: int, vectors: Sequence[FloatArray]) -> list[FloatArray]:
        """Return noised means, of each repetition; of secret size over the count so far."""
        released = self.release(step, vectors)
        if not self.labels.secret:
            return released
        ends = np.array([vector[-1] for vector in released])
        found = ReleasedCount.of(ends, self.steps[step].sigma, self.labels.size(0))
        self.class_size = found if self.class_size is None else self.class_size.joined(found)
        pairs = zip(released, self.class_size.divisor, strict=True)
        return [vector[:-1] / n for vector, n in pairs]

    def centred(self, radius: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return radii and centres in the axes, of as many repetitions as either has."""
        centres = self.centres()
        many = max(len(radius), len(centres))
        return in_shape(radius, (many,)), in_shape(centres, (many, centres.shape[1]))

    def move(self, step: int, radius: FloatArray) -> None:
        """Move the centres to the noised mean of records clipped to balls around them."""
        to = self.agreed_clipping(ball(*self.centred(radius)))
        released = np.array(self.means(step, self.vectors(to, paired=self.bent)))
        self.put(self.seen(step, released, to, clipped=np.zeros(1), clipped_noise=np.zeros(1)))
        self.middle = self.points

    @property
    def bent(self) -> bool:
        """True if curvature makes Newton's step need a second moment of every mean."""
        return self.model.space.curvature[0] < 0.0

    @property
    def off(self) -> FloatArray:
        """Relative standard deviation of the count that means are divided by, (r,)."""
        return np.zeros(1) if self.class_size is None else self.class_size.relative

    def seen(
        self,
        step: int,
        released: FloatArray,
        to: Clipping,
        *,
        clipped: FloatArray,
        clipped_noise: FloatArray,
        shells: FloatArray | None = None,
    ) -> DrawnMoments:
        """Return the noisy moments of a step, seen from where the repetitions stand."""
        count = self.class_size
        moments = clipped_moments(
            released,
            to,
            self.model.frame,
            n=self.counted().astype(np.int64),
            base=in_shape(self.points, (self.size, *self.points.shape[1:])),
            middle=to.centre * self.bent / to.unit[:, None],
            sigma=self.sigma(step),
            n_sd=np.zeros(1) if count is None else count.sd,
            clipped=clipped,
            clipped_noise=clipped_noise,
            shells=shells,
        )
        if not self.bent:
            return moments
        both = zip(moments.each(), moments.log_mean, strict=True)
        return replace(moments, newton=np.stack([self.newton(one, mean) for one, mean in both]))

    def newton(self, seen: NoisyMoments, mean: FloatArray) -> FloatArray:
        """Return Newton's step, (d, d); 1 where doubles do not hold how wide records seem."""
        most = self.model.feasible_set.diameter**2  # no record is farther
        with suppress(np.linalg.LinAlgError):
            square = covariance(seen, seen.even) + np.outer(mean, mean)
            if np.isfinite(trace := np.trace(square)):
                return newton_step(self.model.space, square * min(1.0, most / max(trace, most)))
        return np.eye(len(mean))

    def put(self, moments: DrawnMoments) -> None:
        """Put what was observed together with what was known: where centres are, and how sure."""
        vector = moments.middle + moments.vector
        observed = observe(vector, moments.steps, moments.sigma, self.off)
        moved, self.belief = posterior_update(*observed, self.belief)
        self.points = end_of(self.model, self.points, moved)


def first_belief(model: PublicModel) -> FloatArray:
    """Return the covariance of where the mean is before any record is used.

    Parameters
    ----------
    model : PublicModel
        Public facts of the records.

    Returns
    -------
    array, shape (d, d)
        Covariance in coordinates at the public centre.
    """
    d, prior, frame = model.space.dim, model.prior, model.frame
    line = (tuning.PRIOR_SD_LINE / float(np.linalg.norm(frame.from_axes[0]))) ** 2
    return np.asarray(frame.covariance(np.array([line]), np.array([prior.doubt**2 / d]))[0])


def end_of(model: PublicModel, points: Point, moved: FloatArray) -> Point:
    """Return the ends of steps from points, in the region, none longer than the region is wide.

    Noise much wider than the region makes steps on curved manifolds whose ends doubles cannot hold:
    they are not taken. Released values alone decide.

    Parameters
    ----------
    model : PublicModel
        Public facts of the records.
    points : array, shape (r, *point_shape) or (1, *point_shape)
        Points of `space`.
    moved : array, shape (r, d)
        Steps, in coordinates at the points.

    Returns
    -------
    array, shape (r, *point_shape)
        Points of `space`, inside the region.
    """
    longest = model.feasible_set.diameter / np.maximum(lengths(moved), 1e-300)
    moved = moved * np.minimum(1.0, longest)[:, None]
    moved = np.where(np.isfinite(moved).all(axis=1, keepdims=True), moved, 0.0)
    try:
        return model.feasible_set.inside(model.space.exp(points, moved))
    except (DomainError, ConvergenceError):
        if len(moved) == 1:
            return points
    rows = in_shape(points, (len(moved), *points.shape[1:]))
    return np.concatenate([end_of(model, rows[[r]], moved[[r]]) for r in range(len(moved))])


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
        Records of one class; or of `size`, as many of one domain in each, held in memory.
    budget : Budget
        Budget of each mean in all.
    plan : AdaptivePlan
        Shares of the budget.
    noise : sequence of Noise
        One source of noise for all; or `size`, one of each.
    size : int
        Number of means.

    Returns
    -------
    Release
        Private means and their noise, free to leave.

    Raises
    ------
    PrivacyError
        As in `step_costs`.
    """
    started, records = time.perf_counter(), classes[0]
    labels, dim = records.labels, records.space.dim
    shares = plan.shares or default_shares(records.prior, few=False)
    steps = step_costs(budget, records.n, shares, dim=dim, labels=labels)
    noise_of_all = _whole_noise([step.sigma for step in steps], labels, records.n)
    information = np.array([labels.size(records.n) / noise_of_all])
    if plan.shares is None and _is_few(information, records.prior):
        shares = default_shares(records.prior, few=True)
        steps = step_costs(budget, records.n, shares, dim=dim, labels=labels)
    block = max(1, COORDINATES_AT_ONCE // (labels.size(records.n) * dim))
    done = list[tuple[_Draws, FloatArray, list[NoisyMoments]]]()
    for start in range(0, size, block):
        some = slice(start, start + block)
        own = classes[some] or classes, steps, plan, noise[some] or noise  # one is that of all
        with np.errstate(over="ignore", invalid="ignore"):  # noise as wide as doubles hold
            done.append(_draw(_Draws(*own, min(block, size - start))))
    sizes = [own.class_size for own, _, _ in done if own.class_size is not None]
    return Release(
        outputs=np.concatenate([own.points for own, _, _ in done]),
        manifold=records.manifold,
        space=records.space,
        steps=steps,
        rhos=np.concatenate([np.stack(own.rhos, axis=-1) for own, _, _ in done]),
        expected_error=None,
        predicted_error=np.concatenate([predicted for _, predicted, _ in done]),
        seconds=(time.perf_counter() - started) / size,
        moments=tuple(moments for _, _, several in done for moments in several),
        class_size=ReleasedCount.joint(sizes) if sizes else None,
    )


def _draw(source: _Draws) -> tuple[_Draws, FloatArray, list[NoisyMoments]]:
    """Return the repetitions after all steps, their predicted errors, and what they released."""
    prior = source.model.prior
    source.move(0, np.array([prior.first]))
    near = np.zeros(source.size, np.bool_)
    stays, shells = (source.points, source.belief), source.shells(1, near)
    radius, few, far = source.radius(shells, near), source.few(), source.far(shells)
    noise = 2.0 * source.sigma(2) * math.sqrt(len(prior.centre))  # of a ball of radius 1
    wider = np.clip(tuning.SECOND_NOISE * prior.unit / noise, radius, prior.farthest)
    wider = np.where(far & source.most_beyond(1, shells, near), wider, radius)
    source.move(2, np.where(few, tuning.FEW_RADIUS * prior.unit, wider))
    counted = source.shells(3, far)
    likely, space = source.peaked(3, counted, few | far), source.model.space
    second, tail = source.radius(likely, far), source.radius(likely, far, tuning.TAIL_SHARE)
    away = few | (radius > tuning.FAR_OFF * prior.unit)
    narrow = (second < tuning.NEARER * radius) & (tail < tuning.TAIL_NEARER * radius)
    goes = away | narrow
    half = goes & ~away & ~far
    way = space.log(stays[0], source.points) / 2.0
    halfway = space.exp(stays[0], way)
    source.middle = _chosen(half, halfway, _chosen(goes, source.points, stays[0]))
    if space.flat:  # from halfway the mean is believed to be as much farther on
        beside = source.belief + way[:, :, None] * way[:, None, :]
        belief = _chosen(half, beside, _chosen(goes, source.belief, stays[1]))
        source.points, source.belief = source.middle, belief
    weights = [source.steps[step].sigma ** -2.0 for step in (1, 3)]
    weight = np.where(goes | far, 0.0, weights[0] / sum(weights))[:, None]  # one centre: twice
    counted = weight * shells + (1.0 - weight) * counted
    again = np.where(few | far, second, source.radius(counted, far))
    radius = np.where(half, (radius + again) / 2.0, again)
    wide = source.is_wide(radius) | (~few & source.most_beyond(3, counted, far))
    shells = _chosen(far, shells, counted)
    return _last(source, np.where(wide, source.model.domain.radius, radius), shells, wide)


def _chosen(which: NDArray[np.bool_], there: FloatArray, here: FloatArray) -> FloatArray:
    """Return rows of the first where that is chosen, else of the second."""
    return np.where(which.reshape(-1, *[1] * (there.ndim - 1)), there, here)


def _last(
    source: _Draws, radius: FloatArray, shells: FloatArray, wide: NDArray[np.bool_]
) -> tuple[_Draws, FloatArray, list[NoisyMoments]]:
    """Draw the last mean, of some repetitions in a ball around all that records may be."""
    parts, vectors = list[tuple[NDArray[np.intp], _Draws, Clipping]](), dict[int, FloatArray]()
    for rows in filter(len, (np.flatnonzero(~wide), np.flatnonzero(wide))):
        some = source.some(rows, around_all=bool(wide[rows[0]]))
        reach, centres = some.centred(radius[rows])
        odd, model = some.odd(some.points, centres), some.model
        to = clipping(reach, centres, odd, model.frame.lines, model.prior)
        to = some.agreed_clipping(to)
        own = some.vectors(to, paired=source.plan.moment or some.bent)
        vectors |= {r: own[k % len(own)] for k, r in enumerate(rows.tolist())}
        parts.append((rows, some, to))
    released = source.means(4, [vectors[r] for r in range(source.size)])
    predicted, each = np.empty(source.size), dict[int, NoisyMoments]()
    points = np.empty((source.size, *source.points.shape[1:]))
    for rows, some, to in parts:
        some.class_size = source.count_of(rows)
        noised = np.stack([released[r] for r in rows])
        predicted[rows], moments = _ended(some, to, noised, shells[rows])
        points[rows] = some.points
        each |= zip(rows.tolist(), moments.each(), strict=True)
    source.points = points
    return source, predicted, [each[r] for r in range(source.size)]


def _ended(
    source: _Draws, to: Clipping, released: FloatArray, shells: FloatArray
) -> tuple[FloatArray, DrawnMoments]:
    """Move the centres to the last means; return predicted errors, and what was released."""
    model, n = source.model, source.counted()
    share_noise = source.steps[3].sigma * SQRT2 * source.labels.divisor(model.n) / n
    outside = shells.shape[1] - np.searchsorted(model.prior.edges, to.radius, side="right")
    moments = source.seen(
        4,
        released,
        to,
        clipped=in_shape(source.outside() / n, (source.size,)),
        clipped_noise=share_noise * np.sqrt(outside),
        shells=shells / n[:, None],
    )
    source.put(moments)
    moments = replace(moments, belief=source.belief)
    added = vectors_times(moments.added, moments.steps)
    source.points = end_of(model, source.points, added)
    line, rest = moments.predicted_bias
    square = np.trace(source.belief, axis1=-2, axis2=-1) + line**2 + rest**2
    if not source.plan.moment:
        moments = replace(moments, moment=None)
    return np.fmin(np.sqrt(square), model.feasible_set.diameter), moments  # where doubles end, too


def is_few(budget: Budget, n: int, prior: Prior) -> bool:
    """Return True if n·μ is so small that noise alone decides: public.

    Parameters
    ----------
    budget : Budget
        Budget of a mean in all.
    n : int
        Public number of records; of all classes where labels are secret.
    prior : Prior
        Public expectation of the records.

    Returns
    -------
    bool
        True if it is.
    """
    if isinstance(budget, PureDP):
        return False
    return bool(_is_few(np.array([n / gaussian_sigma(budget, 1.0)]), prior))


def _whole_noise(sigmas: Sequence[float], labels: Labels, n: int) -> float:
    """Return the noise that all steps together would leave in a sum of n vectors."""
    return labels.divisor(n) / math.sqrt(math.fsum(sigma**-2.0 for sigma in sigmas))


def _is_few(information: FloatArray, prior: Prior) -> NDArray[np.bool_]:
    few = information < tuning.FEW * math.sqrt(len(prior.centre))
    return np.asarray(few & (prior.line is not None))


def default_shares(prior: Prior, *, few: bool) -> Shares:
    """Return the shares of the budget, a function of the prior and of n·μ: public.

    Parameters
    ----------
    prior : Prior
        Public expectation of the records.
    few : bool
        True if n·μ is so small that noise alone decides: `is_few`.

    Returns
    -------
    Shares
        Shares of an adaptive budget.
    """
    if prior.line is None:
        return tuning.SHARES_WITHOUT_LINE
    return tuning.SHARES_OF_FEW if few else tuning.SHARES_OF_MANY


def step_costs(
    budget: Budget, n: int, shares: Shares, *, dim: int, labels: Labels = PUBLIC_LABELS
) -> tuple[Step, ...]:
    """Return the cost of each step; together they compose to at most `budget`.

    As `gaussian_steps` for the mean of n vectors; with secret labels for their sum, whatever n is.
    `dim` is the dimension of the mean; that of counts, whose vectors are not rounded, does not
    matter.

    Parameters
    ----------
    budget : Budget
        Budget of a mean in all.
    n : int
        Public number of records of the class; of no effect with secret labels.
    shares : Shares
        Shares of the budget.
    dim : int
        Dimension d of the mean.
    labels : Labels
        Public facts of the labels.

    Returns
    -------
    tuple of Step
        Five steps, named as `STEP_NAMES`.

    Examples
    --------
    >>> from covdp import GDP
    >>> from covdp.mean import Shares
    >>> from covdp.mean.rounds import step_costs
    >>> steps = step_costs(GDP(1.0), 1000, Shares(0.08, 0.02, 0.03, 0.03, 0.84), dim=15)
    >>> round(1000 * steps[-1].sigma, 3)
    1.091
    """
    return gaussian_steps(budget, STEP_NAMES, shares.all, step_sensitivity(labels, n, dim))


@lru_cache(maxsize=256)
def gaussian_steps(
    budget: Budget, names: tuple[str, ...], shares: tuple[float, ...], delta: float
) -> tuple[Step, ...]:
    """Return one step of Gaussian noise a share, each of sensitivity `delta`.

    μ-GDP is split into √s·μ, ρ-zCDP into s·ρ, Rényi DP of one order into s·ε. (ε, δ)-DP is first
    turned into the largest μ-GDP that implies it, since all noise here is Gaussian: better than
    dividing ε and δ. σ is raised by 1e-12 of its value, so that an account that rounds up stays
    within the share.

    Parameters
    ----------
    budget : Budget
        Budget of all steps together.
    names : tuple of str
        Name of each step.
    shares : tuple of float
        Share of each step; they sum to 1.
    delta : float
        Sensitivity Δ of each step.

    Returns
    -------
    tuple of Step
        One a share, in order.

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
