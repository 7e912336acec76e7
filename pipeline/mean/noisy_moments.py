"""Noisy moments: what the last mean released of the mean and the spread of records, not shrunk.

They are all that regions, tests and classifiers read. All of this file is post-processing of
released values.

**Correcting.** A clipped mean lacks what was cut off. Overshoots say how much of it lay along some
public directions (``sums.py``): each that noise cannot explain (`tuning.SURE`) is added. Of striped
images some run one way and some the other, and noise may explain either part but not both: those
towards one picture and the same turned are told together, by the root of the sum of their squares.

**Shrinking** puts a noisy observation together with what was known before it. The observation u = θ
+ N(0, S) of the offset θ of the mean from the present centre meets the belief θ ~ N(0, P). Where u
is larger than expected, h = u'(P + S)⁻¹u beyond what χ²_d makes likely, P is widened by the cube of
the excess: an observation far beyond its noise is retained as it is, one that drowns in it hardly
moves the centre.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import (
    BASIS,
    COORDINATES,
    COUNT,
    DIVISOR,
    NUMBERS,
    SHARE,
    SIZE,
    SMALLEST,
    TRIANGLE,
    FloatArray,
    Limits,
)
from covdp.errors import ConfigError
from covdp.geometry import Point
from covdp.mean import tuning
from covdp.mean.axes import Frame, Scalar, unit_length, vectors_times
from covdp.mean.clip import lengths
from covdp.mean.sums import FACTOR, OVERSHOOT, Clipping, second_moment
from covdp.recall import repeatable

TURNED = ((1, 2), (3, 4))
"""Places, in `Prior.odd`, of pictures that are one and the same turned: stripes, and ramps."""
LARGEST_TRACE = 0.25
"""Largest trace of a second moment of vectors, which are no longer than ½."""


@dataclass(frozen=True, eq=False)
class DrawnMoments:
    """Noisy moments of r repetitions: the attributes of `NoisyMoments`, which they lead.

    An array is 1 long where it is the same for all of them.

    Attributes
    ----------
    n : array of int, shape (r,)
        Number of records, or released count.
    base : array, shape (r, *space.point_shape)
        Private centres that records are seen from.
    axes : array, shape (r, d, d)
        Coordinates at the base that one unit of each coordinate of a vector is.
    middle, vector : array, shape (r, d)
        Centres of the balls; means of the vectors, noised.
    moment : array, shape (r, d, d), or None
        Means of v·vᵀ, noised.
    sigma : array, shape (r,)
        Noise of each coordinate of `vector`.
    lines : {0, 1}
        Number of leading coordinates that are along the contrast axis.
    overshoots, reach : array, shape (r, e)
        Mean overshoots, noised, and the lengths that they were measured by.
    odd : array, shape (r, m·d)
        Vectors of the odd pictures, one after another.
    clipped, clipped_noise, n_sd : array, shape (r,)
        Share of clipped records, with its standard deviation; that of `n`.
    shells : array, shape (r, b), or None
        Shares of the records in the shells.
    belief, newton : array, shape (r, d, d), or None
        Predicted covariance of the error of the shrunk mean; Newton's step.
    """

    n: NDArray[np.int64]
    base: Point
    axes: FloatArray
    middle: FloatArray
    vector: FloatArray
    moment: FloatArray | None
    sigma: FloatArray
    lines: int
    overshoots: FloatArray
    reach: FloatArray
    odd: FloatArray
    clipped: FloatArray
    clipped_noise: FloatArray
    n_sd: FloatArray
    shells: FloatArray | None = None
    belief: FloatArray | None = None
    newton: FloatArray | None = None

    def each(self) -> "list[NoisyMoments]":
        """Return the noisy moments of each repetition.

        Returns
        -------
        list of NoisyMoments
            One of each repetition.
        """
        many = len(self.vector)

        def rows(values: NDArray[Scalar] | None) -> Sequence[NDArray[Scalar] | None]:
            if values is None:
                return [None] * many
            return list(values) if len(values) == many else [values[0]] * many

        def numbers(values: NDArray[Scalar]) -> list[float]:
            own: list[float] = values.tolist()
            return own if len(own) == many else own * many

        columns = zip(
            numbers(self.n),
            rows(self.base),
            rows(self.axes),
            rows(self.middle),
            rows(self.vector),
            rows(self.moment),
            numbers(self.sigma),
            [self.lines] * many,
            rows(self.overshoots),
            rows(self.reach),
            rows(self.odd),
            numbers(self.clipped),
            numbers(self.clipped_noise),
            rows(self.shells),
            rows(self.belief),
            numbers(self.n_sd),
            rows(self.newton),
            strict=True,
        )
        return [NoisyMoments(*own) for own in columns]

    @cached_property
    def steps(self) -> FloatArray:
        """Offsets of the mean that one unit of each coordinate of a vector makes, (r, d, d)."""
        return self.axes if self.newton is None else self.axes @ self.newton

    @cached_property
    def directions(self) -> FloatArray:
        """Unit vectors of all overshoots but the first, (r, e − 1, d)."""
        odd = self.odd.reshape(len(self.odd), -1, self.vector.shape[1])
        along = np.zeros((len(odd), 4 * self.lines, odd.shape[2]))
        along[:, ::2, 0], along[:, 1::2, 0] = -1.0, 1.0
        towards = odd / np.maximum(lengths(odd), 1e-300)[..., None]
        return np.concatenate([along, towards], axis=1)

    @cached_property
    def overshoot_noise(self) -> FloatArray:
        """Standard deviation of the noise of each overshoot, (r, e)."""
        return np.asarray(self.reach * self.sigma[:, None] / OVERSHOOT)

    @cached_property
    def sure(self) -> FloatArray:
        """Share of each overshoot but the first that is added to the mean, (r, e − 1): 0 to 1."""
        found = (self.overshoots / self.overshoot_noise)[:, 1:]
        many = found.shape[1] - 4 * self.lines
        limits = np.array([*tuning.SURE * self.lines, *[tuning.SURE_ODD] * many])
        for pair in TURNED if many > TURNED[-1][-1] else ():
            both = 4 * self.lines + np.array(pair)
            found[:, both] = lengths(np.maximum(found[:, both], 0.0))[:, None]
        logistic = 1.0 / (1.0 + np.exp(np.clip(limits**2 - found**2, -60.0, 60.0)))
        return np.where(self.overshoots[:, 1:] > 0.0, logistic, 0.0)

    @cached_property
    def added(self) -> FloatArray:
        """Vectors added to the means of vectors, (r, d)."""
        return vectors_times(self.sure * self.overshoots[:, 1:], self.directions)

    @property
    def log_mean(self) -> FloatArray:
        """Mean of log(base, record) of clipped records, (r, d)."""
        return vectors_times(self.middle + self.vector, self.axes)

    @cached_property
    def noise(self) -> FloatArray:
        """Covariance of the noise of the means of vectors, (r, d, d), as `observe` returns it."""
        vector = self.middle + self.vector + self.added
        return observe(vector, self.steps, self.sigma, self.n_sd / self.n)[1]

    @cached_property
    def predicted_bias(self) -> tuple[FloatArray, FloatArray]:
        """Predicted bias of clipping along the contrast axis and off it, in distance, (r,) each."""
        worth = self.clipped / (tuning.OUTSIDE * math.sqrt(self.vector.shape[1]))
        worth = np.maximum(worth, self.sigma)
        along, off = self.squared_bias((tuning.BIAS_OF_CLIPPING * worth) ** 2)
        return self.length * np.sqrt(along), np.sqrt(off * self.unit_length**2 + self.bend**2)

    def squared_bias(self, clipping: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the squared bias along the contrast axis and off it, in units of the vectors.

        What is added has noise of its own, and of what is not added so much counts as is beyond its
        noise.

        Parameters
        ----------
        clipping : array, shape (r,)
            Square of the bias that clipping by count makes.

        Returns
        -------
        along : array, shape (r,)
            Squares along the contrast axis; 0 without one.
        off : array, shape (r,)
            Squares off it.
        """
        found, noise = self.overshoots, self.overshoot_noise
        least = np.array([tuning.LEFT_SD, *[tuning.MISSED_SD] * (found.shape[1] - 1)])
        seen = np.where(found > least * noise, found**2 - noise**2, 0.0)
        squares = (self.sure * noise[:, 1:]) ** 2 + (1.0 - self.sure) ** 2 * seen[:, 1:]
        total = (squares[..., None] * self.directions**2).sum(axis=1)
        total += clipping[:, None]
        off = total[:, self.lines :].sum(axis=1) + tuning.LEFT_ONE_WAY * seen[:, 0]
        return (total[:, 0] if self.lines else 0.0 * off), off

    @cached_property
    def bend(self) -> FloatArray:
        """Part of the way to the mean that Newton's step may leave, in distance, (r,)."""
        if self.newton is None:
            return np.zeros(1)
        lost = vectors_times(self.middle + self.vector, self.axes - self.steps)
        return tuning.STEP_LEFT * lengths(lost)

    @cached_property
    def length(self) -> FloatArray:
        """Distance of one unit along the contrast axis, (r,); 1 without one."""
        return lengths(self.axes[:, 0]) if self.lines else np.ones(1)

    @cached_property
    def unit_length(self) -> FloatArray:
        """Distance of one unit off the contrast axis, (r,), as `Frame.unit_length`."""
        return unit_length(self.axes[:, self.lines :])


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Statistics of the records that the last mean released, before shrinkage.

    All are noised, or functions of what is. A record is at u = log(base, record) = (middle + v) @
    axes, v its vector; one that is clipped has the vector of where it is clipped to. ‖v‖ ≤ ½.

    Attributes
    ----------
    n : int
        Number of records, where labels are public; else the released count that sums were divided
        by, rounded, and all noise here is that of the sums over it.
    base : array, shape (*space.point_shape)
        Private centre that records are seen from.
    axes : array, shape (d, d)
        Coordinates at the base that one unit of each coordinate of a vector is, one a row.
    middle : array, shape (d,)
        Centre of the ball, in the same units; 0 on a flat manifold.
    vector : array, shape (d,)
        Mean of the vectors, noised.
    moment : array, shape (d, d), or None
        Mean of v·vᵀ, noised; None where it was not asked for.
    sigma : float
        Noise of each coordinate of `vector`. That of `moment` is σ/λ on the diagonal, λ just below
        √2 (``sums.py``), and by another √2 less off it.
    lines : {0, 1}
        Number of leading coordinates that are along the contrast axis.
    overshoots, reach : array, shape (e,)
        Mean lengths of what is cut off, in units of the vectors, noised, and the lengths that they
        were measured by: the rest; below, above, and beyond what these reach; towards each odd
        picture. e is ``1 + 4·lines + m``.
    odd : array, shape (m·d,)
        Vectors of the odd pictures, one after another.
    clipped, clipped_noise : float
        Share of the records that are clipped, as a noisy count says, and its standard deviation.
    shells : array, shape (b,), or None
        Shares of the records in the shells around the base, with noise of √2·σ of their step. None,
        as `belief`, of the nights of an epoch.
    belief : array, shape (d, d), or None
        Covariance of the error of the mean once it is shrunk, as that is predicted.
    n_sd : float
        Standard deviation of the noise of `n`; 0 where labels are public.
    newton : array, shape (d, d), or None
        Newton's step, in coordinates at the base: the factor of the mean of logarithms. None where
        it would be 1, as on a flat manifold.
    """

    n: Annotated[int, COUNT]
    base: Annotated[Point, COORDINATES]
    axes: Annotated[FloatArray, BASIS]
    middle: Annotated[FloatArray, COORDINATES]
    vector: Annotated[FloatArray, NUMBERS]
    moment: Annotated[FloatArray, TRIANGLE] | None
    sigma: Annotated[float, DIVISOR]
    lines: Annotated[int, Limits(0, 1, kind="int")]
    overshoots: Annotated[FloatArray, NUMBERS]
    reach: Annotated[FloatArray, Limits(SMALLEST, sides=NUMBERS.sides)]
    odd: Annotated[FloatArray, NUMBERS]
    clipped: Annotated[float, SHARE]
    clipped_noise: Annotated[float, SIZE]
    shells: Annotated[FloatArray, NUMBERS] | None = None
    belief: Annotated[FloatArray, BASIS] | None = None
    n_sd: Annotated[float, SIZE] = 0.0
    newton: Annotated[FloatArray, TRIANGLE] | None = None

    @cached_property
    def drawn(self) -> DrawnMoments:
        """Moments of these as of one repetition, r = 1."""

        def led(value: FloatArray | None) -> FloatArray | None:
            return None if value is None else value[None]

        return DrawnMoments(
            n=np.array([self.n]),
            base=self.base[None],
            axes=self.axes[None],
            middle=self.middle[None],
            vector=self.vector[None],
            moment=led(self.moment),
            sigma=np.array([self.sigma]),
            lines=self.lines,
            overshoots=self.overshoots[None],
            reach=self.reach[None],
            odd=self.odd[None],
            clipped=np.array([self.clipped]),
            clipped_noise=np.array([self.clipped_noise]),
            n_sd=np.array([self.n_sd]),
            shells=led(self.shells),
            belief=led(self.belief),
            newton=led(self.newton),
        )

    @property
    def steps(self) -> FloatArray:
        """Offsets of the mean that one unit of each coordinate of a vector makes, (d, d)."""
        return np.asarray(self.drawn.steps[0])

    @property
    def directions(self) -> FloatArray:
        """Unit vectors of all overshoots but the first, (e − 1, d)."""
        return np.asarray(self.drawn.directions[0])

    @property
    def overshoot_noise(self) -> FloatArray:
        """Standard deviation of the noise of each overshoot, (e,)."""
        return np.asarray(self.drawn.overshoot_noise[0])

    @property
    def sure(self) -> FloatArray:
        """Share of each overshoot but the first that is added to the mean, (e − 1,): 0 to 1."""
        return np.asarray(self.drawn.sure[0])

    @property
    def added(self) -> FloatArray:
        """Vector added to the mean of the vectors, (d,)."""
        return np.asarray(self.drawn.added[0])

    @cached_property
    def offset(self) -> FloatArray:
        """Unshrunk mean, in coordinates at `base`, (d,)."""
        return vectors_times(self.middle + self.vector + self.added, self.steps)

    @cached_property
    def clipped_offset(self) -> FloatArray:
        """Unshrunk mean of clipped records, to which nothing is added, (d,)."""
        return vectors_times(self.middle + self.vector, self.steps)

    @property
    def noise(self) -> FloatArray:
        """Covariance of the noise of the vectors' mean, (d, d), as `observe` returns it."""
        return np.asarray(self.drawn.noise[0])

    @cached_property
    def predicted_bias(self) -> tuple[float, float]:
        """Predicted bias of clipping, along the contrast axis and off it, in distance.

        Clipping by count makes a bias in proportion to the noise, or to that which as many records
        outside are worth: balls of streams are older than their noise. Curvature leaves some of the
        way to the mean.
        """
        worth = self.clipped / (tuning.OUTSIDE * math.sqrt(len(self.vector)))
        square = (tuning.BIAS_OF_CLIPPING * max(worth, self.sigma)) ** 2
        along, off = (float(part[0]) for part in self.drawn.squared_bias(np.array([square])))
        rest = math.sqrt(off * self.unit_length**2 + self.bend**2)
        return self.length * math.sqrt(along), rest

    @property
    def bend(self) -> float:
        """Part of the way to the mean that Newton's step may leave, in distance."""
        return float(self.drawn.bend[0])

    @cached_property
    def limits(self) -> FloatArray:
        """Largest mean overshoots that bounds allow for, (e,).

        No prior is in them: where noise covers rare records, it does so by `OVERSHOOT_SD` of its
        deviations and no more, wherever they are.
        """
        return np.maximum(self.overshoots + tuning.OVERSHOOT_SD * self.overshoot_noise, 0.0)

    @property
    def shortened(self) -> float:
        """Largest length by which vectors are shortened in the mean, to leave room for overshoots.

        One of length ½ or less is by the square of its overshoots over their reach, so by less than
        their sum: 1 − t² of it leaves room (``sums.py``). That of a record towards an odd picture
        is 0 from the first.
        """
        return 0.5 * float(np.sum((self.limits / self.reach)[: 1 + 4 * self.lines]))

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Bounds on how far clipping moves the mean, along the contrast axis and off it.

        They are in units of the vectors.
        """
        along, off = pooled_bounds([(1.0, self)])
        return along / self.length, off / self.unit_length

    @cached_property
    def moves(self) -> tuple[FloatArray, FloatArray]:
        """Moves of the mean by clipping, up the contrast axis, down it, and off it: in vectors.

        First is what overshoots say, (3,), without what was added; then how much more the noise of
        each may cover, (overshoots, 3). What is left counts as if it pointed one way, and so
        does by how much vectors are shortened.
        """
        found, noise = np.maximum(self.overshoots, 0.0), tuning.OVERSHOOT_SD * self.overshoot_noise
        more, less = self.limits - found, found - np.maximum(self.overshoots - noise, 0.0)
        axis, missing = (
            self.directions[:, : self.lines].sum(axis=1),
            found[1:] - self.sure * found[1:],
        )
        others = self.directions[:, self.lines :]
        levels = np.array([missing @ axis, -missing @ axis, found[0] + lengths(missing @ others)])
        noises = np.zeros((len(found), 3))
        noises[0, 2], noises[1:, 2] = more[0], lengths(others) * np.maximum(more, less)[1:]
        for place, way in enumerate((axis, -axis)):
            noises[1:, place] = np.where(way > 0.0, more[1:], less[1:]) * np.abs(way)
        many, shorter = 1 + 4 * self.lines, 0.5 / self.reach
        levels += (shorter * found)[:many].sum()
        noises[:many] += (shorter * more)[:many, None]
        both = np.array([self.lines, self.lines, 1.0])
        return both * levels, both * noises

    @property
    def length(self) -> float:
        """Distance of one unit along the contrast axis; 1 without one."""
        return float(self.drawn.length[0])

    @property
    def unit_length(self) -> float:
        """Distance of one unit off the contrast axis, as `Frame.unit_length`."""
        return float(self.drawn.unit_length[0])

    @property
    def rough(self) -> FloatArray:
        """Variance of each coordinate of a vector, (d,), as its trace says: one of all."""
        least = tuning.SCATTER_FLOOR * LARGEST_TRACE
        return np.maximum(self.even, least / len(self.vector))

    @property
    def even(self) -> FloatArray:
        """Variance of each coordinate without a least one, (d,): 0 where all records are equal."""
        d, most = len(self.vector), LARGEST_TRACE
        trace = most if self.moment is None else float(np.trace(noisy_covariance(self)))
        return np.full(d, max(0.0, min(trace, most)) / d)

    @cached_property
    def line(self) -> FloatArray:
        """Projection onto the contrast axis, (d, d); 0 without one."""
        axis = self.axes[: self.lines]
        return np.asarray(axis.T @ axis / max(float(np.sum(axis**2)), 1e-300))

    @property
    def clipping(self) -> FloatArray:
        """Squares of `predicted_bias` as a covariance, (d, d)."""
        along, off = self.predicted_bias
        return self.as_covariance(along / self.length, off / self.unit_length)

    @property
    def predicted(self) -> FloatArray:
        """Covariance of noise and of the predicted bias of clipping, (d, d): for weights."""
        return np.asarray(self.noise + self.clipping)

    def as_covariance(self, along: float, off: float) -> FloatArray:
        """Return the covariance of errors of two sizes, along the contrast axis and off it.

        Parameters
        ----------
        along, off : float
            Sizes, in units of the vectors.

        Returns
        -------
        array, shape (d, d)
            Covariance in coordinates at the base.
        """
        squares = np.full(len(self.axes), off**2 / (len(self.axes) - self.lines))
        squares[: self.lines] = along**2
        return np.asarray((self.axes.T * squares) @ self.axes)


def clipped_moments(
    released: FloatArray,
    to: Clipping,
    frame: Frame,
    *,
    n: NDArray[np.int64],
    base: Point,
    middle: FloatArray,
    sigma: FloatArray,
    clipped: FloatArray,
    clipped_noise: FloatArray,
    n_sd: FloatArray,
    shells: FloatArray | None = None,
) -> DrawnMoments:
    """Return the noisy moments that released means of clipped records make.

    Parameters
    ----------
    released : array, shape (r, m)
        Means of d coordinates and e overshoots, and of d(d + 1)/2 products if those were asked
        for, as `pairs`.
    to : Clipping
        Maps that records were clipped by.
    frame : Frame
        Axes of the records.
    n, base, middle, sigma, clipped, clipped_noise, n_sd, shells : array
        Attributes of `DrawnMoments`.

    Returns
    -------
    DrawnMoments
        Moments of all repetitions.
    """
    d, many, unit = len(frame.to_axes), to.overshoots, to.unit[:, None]
    reach, paired = to.reach / unit, released.shape[1] > d + many
    return DrawnMoments(
        axes=unit[..., None] * frame.from_axes,
        vector=released[:, :d],
        moment=second_moment(released[:, d + many :]) if paired else None,
        lines=frame.lines,
        overshoots=reach * released[:, d : d + many] / OVERSHOOT,
        reach=reach,
        odd=to.odd.reshape(len(unit), -1) / unit,
        n=n,
        base=base,
        middle=middle,
        sigma=sigma,
        clipped=clipped,
        clipped_noise=clipped_noise,
        n_sd=n_sd,
        shells=shells,
    )


@repeatable
def observe(
    vector: FloatArray, steps: FloatArray, sigma: FloatArray, relative: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the offsets that noised means of vectors say, and their covariances.

    A released count that is off by a share of itself makes the way from the base shorter, or
    longer, by that share.

    Parameters
    ----------
    vector : array, shape (r, d)
        Means of vectors, from the base.
    steps : array, shape (r, d, d)
        Offsets that one unit of each coordinate makes.
    sigma : array, shape (r,) or (1,)
        Noise of each coordinate of `vector`.
    relative : array, shape (r,) or (1,)
        Standard deviation of a released count that divides the vector, over that count.

    Returns
    -------
    mean : array, shape (r, d)
        Offsets of the mean from the base, in coordinates there.
    covariance : array, shape (r, d, d)
        Covariance of their noise.
    """
    mean = vectors_times(vector, steps)
    square = sigma[:, None, None] ** 2
    covariance = steps.swapaxes(-1, -2) @ (square * steps)
    if np.any(relative):
        way = relative[:, None] * mean
        covariance = covariance + way[:, :, None] * way[:, None, :]
    return mean, np.asarray(covariance)


WeighedParts: TypeAlias = Sequence[tuple[float, NoisyMoments]]
"""Parts of a mean of means: the share of each in it, and its noisy moments."""


def clipping_bound(parts: WeighedParts) -> float:
    """Return a bound on how far clipping moves a mean of means, in distance.

    Parameters
    ----------
    parts : sequence of (float, NoisyMoments)
        Parts of the mean, with the share of each.

    Returns
    -------
    float
        Bound, in distance.
    """
    return math.hypot(*pooled_bounds(parts))


def pooled_bounds(parts: WeighedParts) -> tuple[float, float]:
    """Return bounds on how far clipping moves a mean of means, in distance.

    That is along the contrast axis and off it. Rare images may be similar in all parts, so what was
    released adds up, and what bounds add for its noise as variances do: that of each overshoot of
    each part, and of its count.

    Parameters
    ----------
    parts : sequence of (float, NoisyMoments)
        Parts of the mean, with the share of each.

    Returns
    -------
    along : float
        Distance along the contrast axis.
    off : float
        Distance off it.
    """
    total, squares = np.zeros(3), np.zeros(3)
    for share, part in parts:
        units = share * np.array([part.length, part.length, part.unit_length])
        levels, noises = part.moves
        levels = units * levels + share * np.array([0.0, 0.0, part.bend])
        total += levels
        squares += ((units * noises) ** 2).sum(axis=0)
        squares += (tuning.OVERSHOOT_SD * part.n_sd / part.n * levels) ** 2
    up, down, off = (total + np.sqrt(squares)).tolist()
    return max(up, down), off


def noisy_covariance(observed: NoisyMoments) -> FloatArray:
    """Return A = M − v·vᵀ + σ²·Id, in units of the vectors: unbiased, not definite.

    v and M are released with noise, so v·vᵀ is on average too large by σ²·Id.

    Parameters
    ----------
    observed : NoisyMoments
        Moments of one release.

    Returns
    -------
    array, shape (d, d)
        Symmetric matrix A.

    Raises
    ------
    ConfigError
        Where no second moment was released.
    """
    if observed.moment is None:
        raise ConfigError(
            'this class was released without a second moment; release with plan="auto"'
        )
    v = observed.vector
    return np.asarray(observed.moment - np.outer(v, v) + observed.sigma**2 * np.eye(len(v)))


def noise_edge(observed: NoisyMoments) -> float:
    """Return 2τ, where the spectrum of the noise of A ends, in units of the vectors.

    The noise is symmetric, of standard deviation s = σ/λ on the diagonal and s/√2 off it: its
    eigenvalues fill a semicircle of radius 2·√d·s/√2 (Wigner).

    Parameters
    ----------
    observed : NoisyMoments
        Moments of one release.

    Returns
    -------
    float
        Largest size of an eigenvalue of noise.
    """
    return math.sqrt(2.0 * len(observed.vector)) * observed.sigma / FACTOR


def raw_covariance(observed: NoisyMoments) -> FloatArray:
    """Return the covariance nearest to A, in coordinates at the base.

    Parameters
    ----------
    observed : NoisyMoments
        Moments of one release.

    Returns
    -------
    array, shape (d, d)
        Positive semidefinite matrix.
    """
    return congruent(_nearest_semidefinite(noisy_covariance(observed)), observed.axes)


def covariance(observed: NoisyMoments, rough: FloatArray | None = None) -> FloatArray:
    """Return the covariance of single records, in coordinates at the base.

    With T what its trace says, one variance of all coordinates, and (w, u) the eigenpairs of A − T,
    it is T + Σ sign(w)·√(w² − 4τ²)₊·u·uᵀ, made definite: what noise alone could be is taken for
    noise, and the rest is rid of what noise has added to it. It is that of clipped records. T is
    `rough` where that is given.

    Parameters
    ----------
    observed : NoisyMoments
        Moments of one release.
    rough : array, shape (d,), optional
        Variances T; those of the trace when left out.

    Returns
    -------
    array, shape (d, d)
        Positive semidefinite matrix.
    """
    even = np.diag(observed.rough if rough is None else rough)
    values, vectors = np.linalg.eigh(noisy_covariance(observed) - even)
    signal = np.sign(values) * np.sqrt(np.maximum(values**2 - noise_edge(observed) ** 2, 0.0))
    matrix = _nearest_semidefinite(even + (vectors * signal) @ vectors.T)
    return congruent(matrix, observed.axes)


def congruent(covariance: FloatArray, rows: FloatArray) -> FloatArray:
    """Return a covariance in the coordinates in which one unit of each of its numbers is a row.

    Parameters
    ----------
    covariance : array, shape (m, m)
        Covariance of the numbers.
    rows : array, shape (m, d)
        Coordinates of one unit of each number.

    Returns
    -------
    array, shape (d, d)
        Covariance of the coordinates.
    """
    return np.asarray(rows.T @ covariance @ rows)


def _nearest_semidefinite(matrix: FloatArray) -> FloatArray:
    """Return the nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


@repeatable
def posterior_update(
    observed: FloatArray, noise: FloatArray, prior_cov: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean and covariance of an offset θ.

    Parameters
    ----------
    observed : array, shape (..., d)
        Observation u.
    noise, prior_cov : array, shape (..., d, d)
        Covariances S, positive definite, and P.

    Returns
    -------
    mean : array, shape (..., d)
        E(θ | u).
    covariance : array, shape (..., d, d)
        Cov(θ | u).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            mean, covariance = _updated(observed, noise, prior_cov)
            fine = bool(np.isfinite(mean).all() and np.isfinite(covariance).all())
        except np.linalg.LinAlgError:
            fine = False
    if fine:
        return mean, covariance
    if observed.size == observed.shape[-1]:  # doubles hold nothing of a belief beside such noise
        return np.zeros_like(observed), np.broadcast_to(prior_cov, noise.shape)
    each = observed.shape + observed.shape[-1:]  # one of all repetitions is that of each
    both = np.broadcast_to(noise, each), np.broadcast_to(prior_cov, each)
    rows = [posterior_update(*row) for row in zip(observed, *both, strict=True)]
    return np.stack([mean for mean, _ in rows]), np.stack([covariance for _, covariance in rows])


def _updated(
    observed: FloatArray, noise: FloatArray, prior_cov: FloatArray
) -> tuple[FloatArray, FloatArray]:
    d = observed.shape[-1]
    solved = np.linalg.solve(noise + prior_cov, observed[..., None])[..., 0]
    excess = (observed * solved).sum(axis=-1) / (d + tuning.SURPRISE * math.sqrt(2.0 * d))
    wider = np.minimum(np.maximum(excess, 1.0) ** 3, math.exp(tuning.LARGEST_LOG_SCALE))
    believed = wider[..., None, None] * prior_cov
    both = np.concatenate([observed[..., None], believed], axis=-1)
    solved = np.linalg.solve(noise + believed, both)
    covariance = noise @ solved[..., 1:]
    mean = (believed @ solved[..., :1])[..., 0]
    return np.asarray(mean), np.asarray((covariance + covariance.swapaxes(-1, -2)) / 2.0)
