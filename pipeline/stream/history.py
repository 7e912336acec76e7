"""What a stream remembers of a class: what was released, which is public, and what was not."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np

from pipeline.arrays import COORDINATES, COUNT, SIZE, FloatArray
from pipeline.mean import NoisyMoments
from pipeline.mean.clip import Clip
from pipeline.mean.rounds import SQRT2
from pipeline.mean.sums import pairs
from pipeline.stream.factorisation import LIMBS, WEIGHT_UNIT, Limbs, weighted, weighted_sums


class NoisyShares(NamedTuple):
    """Noised shares of units in bins, and the standard deviation of the noise of each."""

    values: FloatArray
    noise: float


@dataclass(frozen=True, eq=False)
class OpeningRelease:
    """What the opening released: one adaptive mean of all units held back.

    Attributes
    ----------
    offset : array, shape (d,)
        The mean, in the chart.
    observed : NoisyMoments
        The mean before it was shrunk, the second moment, what it found in the bins, about the
        origin and about the last centre but one, and the covariance of its error as predicted.
    survey_noise, shells_noise : float
        Standard deviation of the noise of each share in the bins.
    """

    offset: Annotated[FloatArray, COORDINATES]
    observed: NoisyMoments
    survey_noise: Annotated[float, SIZE]
    shells_noise: Annotated[float, SIZE]

    @property
    def belief(self) -> FloatArray:
        """Covariance of the error of the mean, as predicted."""
        assert self.observed.belief is not None
        return self.observed.belief

    @property
    def survey(self) -> NoisyShares:
        """The shares in the bins of the survey."""
        assert self.observed.survey is not None
        return NoisyShares(self.observed.survey, self.survey_noise)

    @property
    def shells(self) -> NoisyShares:
        """The shares in the shells."""
        assert self.observed.shells is not None
        return NoisyShares(self.observed.shells, self.shells_noise)


@dataclass(frozen=True, eq=False)
class Epoch:
    """What units are mapped to from a night on, chosen from what was released before it.

    Attributes
    ----------
    first : int
        Its first night.
    centre : array, shape (d,)
        Where shells are counted from and the ball lies, in the chart.
    clip : Clip
        Interval and ball.
    """

    first: Annotated[int, COUNT]
    centre: Annotated[FloatArray, COORDINATES]
    clip: Clip


@dataclass(frozen=True, eq=False)
class Night:
    """What one night released of a class.

    Attributes
    ----------
    night : int
        Its number, from 1.
    units, n_so_far : int
        Units that came this night and up to it (public).
    opened : OpeningRelease or None
        On the night of the opening.
    epoch : Epoch or None
        On the first night of one.
    survey, shells, w, moment : array or None
        Weighted sums of all nights of their series, noised: counts over √2 in the bins, clipped
        vectors, and overshoots and products as in ``mean/sums.py``. None before that.
    rhos : tuple of float
        ρ-zCDP that the source of noise certifies for the steps of the opening; on a later night,
        for each series, for all that a unit pays in it; NaN where it does not.
    """

    night: int
    units: int
    n_so_far: int
    opened: OpeningRelease | None = None
    epoch: Epoch | None = None
    survey: FloatArray | None = None
    shells: FloatArray | None = None
    w: FloatArray | None = None
    moment: FloatArray | None = None
    rhos: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class PrivateSums:
    """What must stay where the images are; small, and the same whatever order units come in.

    Attributes
    ----------
    held : array, shape (m, d)
        Coordinates of the units that wait for the opening.
    survey, shells, means : array of uint16, shape (t, m, `LIMBS`)
        Counts, and 2⁴⁰ times sums of clipped vectors and overshoots, then 2⁸⁰ times those of their
        products, of each night of the series: since the opening for the survey, since the epoch
        began for the others.
    """

    held: FloatArray
    survey: Limbs
    shells: Limbs
    means: Limbs

    @cached_property
    def vectors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What the last night's noise is added to: weighted survey, shells, and means as pairs."""
        d, sums = self.held.shape[1], weighted_sums(self.means)
        both = pairs(sums[:d], sums[d:], WEIGHT_UNIT)
        return weighted(self.survey, SQRT2), weighted(self.shells, SQRT2), both

    def __repr__(self) -> str:
        """Show no value."""
        return f"Private(nights={len(self.survey)})"


def empty_state(dim: int) -> PrivateSums:
    """Return what a stream starts with."""
    none = np.empty((0, 0, LIMBS), np.uint16)
    return PrivateSums(np.empty((0, dim)), none, none, none)


@dataclass(frozen=True, eq=False)
class EpochNights:
    """The nights of one epoch.

    Attributes
    ----------
    epoch : Epoch
    units : array, shape (t,)
        Units of each night.
    shells, w : array, shapes (t, b), (t, d)
        What they released.
    moments : array, shape (t, e + d(d + 1)/2)
        The same of overshoots and products.
    """

    epoch: Epoch
    units: FloatArray
    shells: FloatArray
    w: FloatArray
    moments: FloatArray

    @property
    def n(self) -> int:
        """Units in the epoch."""
        return int(self.units.sum())

    def until(self, nights: int) -> "EpochNights":
        """Return its first nights."""
        series = (self.units, self.shells, self.w, self.moments)
        return EpochNights(self.epoch, *(values[:nights] for values in series))


@dataclass(frozen=True, eq=False)
class EpochHistory:
    """A history in its parts.

    Attributes
    ----------
    opened : OpeningRelease or None
    held : int
        Units of the opening, or those that wait for it.
    survey : array, shape (t, b)
        All nights since the opening.
    segments : tuple of EpochNights
    """

    opened: OpeningRelease | None
    held: int
    survey: FloatArray
    segments: tuple[EpochNights, ...]

    @property
    def n(self) -> int:
        """Units released so far."""
        return self.held + sum(part.n for part in self.segments) if self.opened else 0


def split_epochs(history: Sequence[Night]) -> EpochHistory:
    """Return the opening and the epochs of a history, in one pass over its nights."""
    return _parts_of(tuple(history))


@lru_cache(maxsize=32)  # of released values only: a night asks for the same history many times
def _parts_of(history: tuple[Night, ...]) -> EpochHistory:
    at = next((i for i, night in enumerate(history) if night.opened), len(history))
    held = sum(night.units for night in history[: at + 1])
    later = history[at + 1 :]
    starts = [i for i, night in enumerate(later) if night.epoch]
    bounds = pairwise([*starts, len(later)])
    segments = tuple(_segment(later[start:end]) for start, end in bounds)
    opened = history[at].opened if at < len(history) else None
    return EpochHistory(opened, held, np.array([night.survey for night in later]), segments)


def _segment(nights: Sequence[Night]) -> EpochNights:
    epoch = nights[0].epoch
    assert epoch is not None
    return EpochNights(
        epoch,
        np.array([night.units for night in nights], dtype=np.float64),
        np.array([night.shells for night in nights]),
        np.array([night.w for night in nights]),
        np.array([night.moment for night in nights]),
    )
