"""Series over nights: how far the mean of all records so far is from the true one, night by night.

The records of a class come in a random order, a random number of them each night; where a class is
smaller than what comes, its records come again in another order, as records of their own. All
series see the same nights, and spend the same budget on each record over the whole horizon.

The standard normal numbers of a repetition's night are the same in all series too. Each series has
its own law all the same, and what differs between two of them is the series: their errors are
compared repetition by repetition, as their rows say by one seed (`covdp.addons.papers.verdicts`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator
from scipy import special

from covdp.addons.nights.certainty import mean_certainty
from covdp.addons.nights.schema import StreamEntry
from covdp.addons.nights.stream import (
    Night,
    StreamMechanism,
    StreamPlan,
    add_placed,
    cumulative_mean,
    draw_night,
    empty_state,
    later_openings,
)
from covdp.arrays import FloatArray
from covdp.config import Count, ExperimentConfig, PersonSeries, Positive
from covdp.errors import ConfigError
from covdp.experiments.driver import (
    Cell,
    ExperimentKind,
    Setting,
    admitted,
    check_units,
    one_by_one,
    stream_seed,
)
from covdp.geometry import FlatChart, chart_of
from covdp.inference import ConfidenceRegion, region
from covdp.mean import AdaptivePlan, Records, admit, draw_each, prepare
from covdp.mechanisms.noise import FloatNoise
from covdp.privacy import Budget, split
from covdp.toml import Record


class NightsConfig(Record):
    """Arrivals of records night by night, and the settings of a stream of releases.

    Attributes
    ----------
    horizon : int
        Nights that the budget lasts.
    opening : float
        N·μ at which the first records are released.
    units : tuple of int
        Fewest and most that come in a night.
    shown : tuple of int
        Nights that are looked at.
    """

    horizon: Count
    opening: Positive = 300.0
    units: tuple[Count, Count]
    shown: tuple[Count, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _nights_are_in_order(self) -> Self:
        if list(self.shown) != sorted(set(self.shown)) or self.shown[-1] > self.horizon:
            raise ConfigError(
                f"shown must be nights in order, none beyond the horizon of {self.horizon}, found "
                f"{list(self.shown)}"
            )
        if self.units[0] > self.units[1]:
            raise ConfigError(f"`units` must be fewest, then most, found {list(self.units)}")
        return self


class NightsSeries(PersonSeries):
    """A series of releases, night by night.

    Attributes
    ----------
    nights : str
        Kind of the releases of the records so far.
    opening : float, optional
        Opening of its stream, where another than that of all.
    """

    nights: Literal[
        "stream", "stream of secret labels", "one release", "anew every night", "average of nights"
    ] = "stream"
    opening: Positive | None = None


class NightsExperiment(ExperimentConfig):
    """An experiment of records that come night by night.

    Attributes
    ----------
    nights : NightsConfig
    """

    nights: NightsConfig
    mechanisms: tuple[NightsSeries, ...] = ()


class Nights(NamedTuple):
    """One repetition: each night's records, and the nights that are looked at.

    Attributes
    ----------
    settings : NightsConfig
        Settings of the arrivals.
    stream : StreamMechanism
        Mechanism of the stream.
    budget : Budget
        Budget of each record.
    batches : tuple of array
        Records of each night, (m, d).
    seed : int
        Seed of the class.
    repetition : int
        Number of the repetition.
    """

    settings: NightsConfig
    stream: StreamMechanism
    budget: Budget
    batches: tuple[FloatArray, ...]
    seed: int
    repetition: int

    def noise(self, night: int) -> FloatNoise:
        """Return the source of a night's noise, which starts anew at each call.

        Parameters
        ----------
        night : int
            Number of the night.
        """
        return FloatNoise(np.random.default_rng((self.seed, self.repetition, night)))

    def until(self, night: int) -> FloatArray:
        """Return all records up to a night, in the chart.

        Parameters
        ----------
        night : int
            Number of the night.
        """
        return np.concatenate(self.batches[:night])

    def means(self, records: Mapping[int, FloatArray], budget: Budget) -> dict[int, FloatArray]:
        """Return the adaptive mean of the records of each night, with its noise.

        Parameters
        ----------
        records : mapping of int to array
            Records of each night, (m, d), by its number.
        budget : Budget
            Budget of each release.
        """
        domain, chart = self.stream.domain, chart_of(self.stream.manifold)
        alike, means = dict[int, list[int]](), dict[int, FloatArray]()
        for night, own in records.items():
            alike.setdefault(len(own), []).append(night)
        for same in alike.values():
            admitted = (admit(records[night], domain=domain, manifold=chart) for night in same)
            ready = [prepare(own, AdaptivePlan(), rng=None) for own in admitted]
            drawn = draw_each(ready, budget, noise=[self.noise(night) for night in same])
            means |= zip(same, drawn.outputs, strict=True)
        return means

    def all_so_far(self, budget: Budget) -> "Means":
        """Return the adaptive mean of all records up to each night that is looked at.

        Parameters
        ----------
        budget : Budget
            Budget of each release.
        """
        means = self.means({night: self.until(night) for night in self.settings.shown}, budget)
        return [NightEstimate(means[night]) for night in self.settings.shown]


class NightEstimate(NamedTuple):
    """Mean at a night and, of a stream, the region that its document would state.

    Attributes
    ----------
    mean : array, shape (d,)
        Mean, in the chart.
    region : ConfidenceRegion, optional
        Region of the mean.
    """

    mean: FloatArray
    region: ConfidenceRegion | None = None


Means: TypeAlias = Iterable[NightEstimate | None]
"""Estimate at each night that is looked at, None where nothing is released yet."""


def _stream(nights: Nights) -> Means:
    stream, history = nights.stream, list[Night]()
    private = empty_state(stream.space.dim)
    for number, batch in enumerate(nights.batches, start=1):
        # where labels are secret, as many records of other classes come as of this one
        units = (2 if stream.plan.secret else 1) * len(batch)
        private = add_placed(stream, history, private, batch)
        night = draw_night(stream, history, private, units, noise=nights.noise(number))
        history.append(night)
        if night.night in nights.settings.shown:
            yield _so_far(stream, history)


def _so_far(stream: StreamMechanism, history: Sequence[Night]) -> NightEstimate | None:
    if (mean := cumulative_mean(stream, history)) is None:
        return None
    certainty = mean_certainty(stream, history)
    entry = StreamEntry.model_construct(n=mean.n, coordinates=mean.offset, certainty=certainty)
    return NightEstimate(mean.offset, None if certainty is None else region(entry))


def _anew(nights: Nights) -> Means:
    share = 1.0 / nights.settings.horizon
    budget = split(nights.budget, (share, 1.0 - share))[0]
    return nights.all_so_far(budget)


def _average(nights: Nights) -> Means:
    total, n = np.zeros(nights.stream.space.dim), 0
    means = nights.means(dict(enumerate(nights.batches, start=1)), nights.budget)
    for night, batch in enumerate(nights.batches, start=1):
        total += len(batch) * means[night]
        n += len(batch)
        if night in nights.settings.shown:
            yield NightEstimate(total / n)


SERIES: dict[str, Callable[[Nights], Means]] = {
    "stream": _stream,
    "stream of secret labels": _stream,
    "one release": lambda nights: nights.all_so_far(nights.budget),
    "anew every night": _anew,
    "average of nights": _average,
}
"""Values of `nights` of a series, and the means that they release."""


def release_nights(
    records: Callable[[str], Records],
    setting: Setting,
    cell: Cell[NightsSeries],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the columns of one cell: each night that is looked at, in each repetition.

    Parameters
    ----------
    records : callable
        Function that returns the records of the class, by their kind.
    setting : Setting
        Config, public domain and geometry of the class.
    cell : Cell
        Class, series and budget.
    rng : numpy.random.Generator
        Source of random numbers, unused: nights have streams of their own.
    """
    config, series = setting.config, cell.series
    assert isinstance(config, NightsExperiment)
    settings = config.nights
    placed, seed = records(series.records).placed, stream_seed(config, f"{cell.label}/nights")
    budget, opening = config.budget(cell.value, series), series.opening or settings.opening
    secret, again = series.nights == "stream of secret labels", later_openings(opening)
    plan = StreamPlan(budget, settings.horizon, opening, secret, again)
    # the records are in the chart already
    stream = StreamMechanism(plan, setting.domain, FlatChart(setting.manifold))
    rows: list[tuple[Any, ...]] = []
    for repetition in range(setting.repetitions(series)):
        come = arrivals(placed, settings, np.random.default_rng((seed, repetition)))
        nights = Nights(settings, stream, budget, come, seed, repetition)
        for night, mean in zip(settings.shown, SERIES[series.nights](nights), strict=True):
            units = nights.until(night)
            numbers = (np.nan,) * 4 if mean is None else measured(mean, units.mean(axis=0))
            status = "held back" if mean is None else "ok"
            rows.append((repetition, night, len(units), status, *numbers))
    names = ("repetition", "night", "n", "status", "error", "region_radius", "reach", "offered")
    return {"seed": seed, **dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))}


def measured(result: NightEstimate, true: FloatArray) -> tuple[float, float, float, float]:
    """Return the error of a mean, and of its region the radius, the reach and the availability.

    Parameters
    ----------
    result : NightEstimate
        Mean, and its region if there is one.
    true : array, shape (d,)
        Mean of the records without noise.
    """
    away, where = result.mean - true, result.region
    error = float(np.linalg.norm(away))
    if where is None:
        return error, np.nan, np.nan, np.nan
    length = float(away @ np.linalg.solve(where.covariance, away))
    return error, where.radius, float(special.chdtr(len(away), length)), float(where.offered)


def arrivals(
    placed: FloatArray, settings: NightsConfig, rng: np.random.Generator
) -> tuple[FloatArray, ...]:
    """Return the records of each night, up to the last that is looked at.

    Parameters
    ----------
    placed : array, shape (n, d)
        Records of the class, in the chart.
    settings : NightsConfig
        Settings of the arrivals.
    rng : numpy.random.Generator
        Source of the order and of the numbers of each night.
    """
    sizes = rng.integers(*settings.units, size=settings.shown[-1], endpoint=True)
    rounds = range(-(-int(sizes.sum()) // len(placed)))
    order = np.concatenate([rng.permutation(len(placed)) for _ in rounds])[: sizes.sum()]
    return tuple(placed[rows] for rows in np.split(order, np.cumsum(sizes)[:-1]))


STREAMING = ExperimentKind(
    in_words=(
        "Records came night by night, and each series released the mean of all so far; its "
        "distance from their mean without noise was measured"
    ),
    cells=one_by_one(release_nights, lambda data, setting: cache(partial(admitted, data, setting))),
    config=NightsExperiment,
    check=check_units,
)
