"""Before anything is spent: what a release will be like, from its settings and public numbers.

    curves, of public pictures ─► error, radius, price, nights by budget

The error of a private mean depends on how widely its records spread, which is private, and on n·μ,
which is not. So the same procedure is run on public pictures that come with scikit-image. Their
error, widened, is the range. It is an estimate; the guarantee does not rest on it. No image of the
release is read, no account is charged.

The noise of every step of a plan is 1/(n·μ) of what its records are clipped to, and all else that a
plan decides follows from n·μ too (`mean.rounds.default_shares`): one curve serves all class sizes
and budgets. The pictures stand for how records of a class spread, not for what is on them.
"""

import itertools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from covdp import mean
from covdp.arrays import FloatArray, ImageArray, evenly
from covdp.datasets import Card, find_card
from covdp.datasets.tiles import TILE_PICTURES, cut, opened, pictures_folder
from covdp.descriptors import (
    DESCRIPTORS,
    Descriptor,
    DescriptorDomain,
    describe,
    domain_of,
    find_descriptor,
    require_descriptor_for,
)
from covdp.errors import ConfigError, require_known
from covdp.figures import listing
from covdp.geometry import MANIFOLDS, Manifold
from covdp.inference import NOISY, NOTHING, Verdict, usual_difference, verdict_of
from covdp.inference.confidence import ErrorLaw
from covdp.inference.verdict import COMPARISONS, LARGE, SMALL
from covdp.mean import AdaptivePlan, MeanSetup, Plan, Release, SinglePlan
from covdp.mean.rounds import default_shares, is_few
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.noise import FloatNoise, Noise
from covdp.privacy import (
    GDP,
    ApproxDP,
    Budget,
    advantage,
    certified,
    convert,
    gaussian_sigma,
    protects,
    repeat_as_written,
    success,
)
from covdp.privacy.rounding import digits_up, two_digits
from covdp.publish import ReleaseConfig
from covdp.registry import Registry
from covdp.report.templates import percent, say_each

WIDENED = (0.75, 1.4)
"""Factors by which a range reaches beyond the least and the largest error of the pictures.

By hand, so that it holds all of `tiles`, PneumoniaMNIST and BreastMNIST;
``python -m tests.tools.tuning --ranges`` measures how often it holds the errors of other sets.
"""
GAUSSIAN_RANGE = (0.9, 1.1)
"""The same for one draw of noise, which does not depend on how records spread."""
FORESEEN = 4.0
"""n·μ below which the lower end falls no more: there the mean is what is expected publicly, and how
near the nearest pictures happen to be to that says nothing of others."""
DRAWS_A_POINT = 5
"""Draws at each point and set: their mean is uncertain by √(1/(2d))/√DRAWS, 8 % for `oct5`."""
CURVE_RATIO = 2.0
"""Ratio of neighbouring n·μ of a curve; what is between is interpolated."""
SEED = 20261122
COVERED = 0.95
"""Share of releases that are within the radius."""
TILE_SIDE, VOLUME_SIDE = 28, 16
"""Pixels along a side of a tile, and of a volume; larger ones give the same errors within a few
parts in a hundred, but where n·μ is small."""
MOST_TILES = 100
"""Tiles of one set. The error depends on n·μ and how records spread, hardly on n alone."""
IN_COLOUR = ("ihc", "retina")
"""Pictures that have colour."""
SMALLER = 4
"""Subsampling factor of a thumbnail, across and down."""


class ErrorRange(NamedTuple):
    """The range of the expected distance between the released mean and that of the class.

    Attributes
    ----------
    low : float
        Least expected distance.
    high : float
        Largest expected distance.
    """

    low: float
    high: float

    def radius(self, dim: int) -> float:
        """Return within what `COVERED` of all releases are, where their error is in the range.

        The upper end times √(q/d), q the quantile of χ² with d degrees of freedom: noise equal in
        all directions has such a ball.

        Parameters
        ----------
        dim : int
            Dimension d of the manifold.
        """
        return self.high * math.sqrt(ErrorLaw(dim).ppf(COVERED) / dim)


@dataclass(frozen=True)
class Curve:
    """The range of the expected error by n·μ, for one plan in one domain.

    It is computed where it is asked for, on the points of a fixed grid, so that the same question
    has the same answer whatever was asked before. What is computed is cached.

    Attributes
    ----------
    domain : DescriptorDomain
        Public bound on the records.
    plan : Plan
        Plan of spending.
    """

    domain: DescriptorDomain
    plan: Plan

    @property
    def manifold(self) -> Manifold:
        """Manifold of the records."""
        return MANIFOLDS[self.domain.manifold](k=self.domain.k)

    @property
    def widened(self) -> tuple[float, float]:
        """Factors by which the range reaches beyond the least and the largest error."""
        return GAUSSIAN_RANGE if isinstance(self.plan, SinglePlan) else WIDENED

    def ends(self, information: float) -> ErrorRange:
        """Return both ends of the range at n·μ, interpolated between the points of the grid.

        Parameters
        ----------
        information : float
            Product n·μ of the number of records and the budget.
        """
        place = math.log(information, CURVE_RATIO)
        left = math.floor(place)
        share = place - left
        points = zip(_point(self, left), _point(self, left + 1), strict=True)
        low, high = (a ** (1.0 - share) * b**share for a, b in points)
        return ErrorRange(
            low if information >= FORESEEN else max(low, self.ends(FORESEEN).low), high
        )


@lru_cache(maxsize=512)
def _point(curve: Curve, power: int) -> ErrorRange:
    """Return both ends of the range at n·μ = STEP**power.

    Noise is the same at all n·μ, so that curves are smooth. Sets of as many records are drawn from
    together.
    """
    errors, of_size = list[float](), defaultdict[int, list[tuple[MeanSetup, Noise]]](list)
    for seed, ready in enumerate(picture_records(curve)):
        noise = FloatNoise(np.random.default_rng((SEED, seed)))
        of_size[ready.records.n].append((ready, noise))
    for n, sets in of_size.items():
        errors += _errors(sets, GDP(CURVE_RATIO**power / n))
    below, above = curve.widened
    return ErrorRange(below * min(errors), above * max(errors))


@lru_cache(maxsize=8)
def picture_records(curve: Curve) -> tuple[MeanSetup, ...]:
    """Return the records of each set of pictures, ready to be drawn from.

    Parameters
    ----------
    curve : Curve
        Plan and domain.
    """
    points = reference_points(find_descriptor(curve.domain.descriptor), curve.domain.eta)
    sets = (mean.admit(each, domain=curve.domain, manifold=curve.manifold) for each in points)
    return tuple(mean.prepare(records, curve.plan, rng=None) for records in sets)


def _errors(sets: Sequence[tuple[MeanSetup, Noise]], budget: Budget) -> list[float]:
    """Return the mean error of each set, of as many records, with its own noise."""
    drawn, errors = list[tuple[Release, FloatArray | None]](), list[float]()
    if isinstance(sets[0][0].plan, SinglePlan):
        drawn += [
            mean.draw(ready, budget, noise=noise, size=DRAWS_A_POINT) for ready, noise in sets
        ]
    else:
        prepared, noises = zip(*(each for each in sets for _ in range(DRAWS_A_POINT)), strict=True)
        several = mean.draw_each(prepared, budget, noise=noises)
        outputs = np.split(several.outputs, len(sets))
        drawn += [(several._replace(outputs=own), None) for own in outputs]
    for (ready, _), (release, distance) in zip(sets, drawn, strict=True):
        if distance is None:
            distance = release.space.dist(ready.records.frechet.point, release.outputs)
        errors.append(float(distance.mean()))
    return errors


@cache
def reference_points(spec: Descriptor, eta: float) -> tuple[FloatArray, ...]:
    """Return the descriptors of sets of tiles, (n, k, k): of each picture four.

    Tiles as they were taken, smooth and faint; stretched from black to white, as the window of most
    X-rays and scans does; of the picture made small, sharp as thumbnails are; and in black and
    white, as masks are.

    Parameters
    ----------
    spec : Descriptor
        Descriptor.
    eta : float
        Number η that is added to the diagonal of a descriptor.
    """
    sets = list[ImageArray]()
    for picture in _pictures(spec.channels):
        thumbnail = picture[::SMALLER, ::SMALLER]
        taken, small = (evenly(cut(x, TILE_SIDE), MOST_TILES) for x in (picture, thumbnail))
        if spec.dimensions == 3:
            taken, small = volumes(taken), volumes(small)
        sets += [taken, stretched(taken), stretched(small), parted(taken)]
    return tuple(describe(images, spec.name, eta) for images in sets)


def _pictures(channels: int) -> list[ImageArray]:
    folder = pictures_folder()
    if channels == 3:
        return [opened(folder / TILE_PICTURES[name], "RGB") for name in IN_COLOUR]
    return [opened(folder / name) for name in TILE_PICTURES.values()]


def parted(images: ImageArray) -> ImageArray:
    """Return images with all that is above their own median white, all else black.

    Parameters
    ----------
    images : array of uint8, shape (n, ...)
        Gray levels, 0 to 255.
    """
    middle = np.median(images, axis=tuple(range(1, images.ndim)), keepdims=True)
    return np.where(images > middle, 255, 0).astype(np.uint8)


def stretched(images: ImageArray) -> ImageArray:
    """Return images each of which has its own 1st and 99th percentile at 0 and 255.

    Parameters
    ----------
    images : array of uint8, shape (n, ...)
        Gray levels, 0 to 255.
    """
    flat = images.reshape(len(images), -1).astype(np.float64)
    low, high = np.quantile(flat, [0.01, 0.99], axis=1)[..., np.newaxis]
    shares = np.clip((flat - low) / np.maximum(high - low, 1.0), 0.0, 1.0)
    pixels: ImageArray = np.rint(255.0 * shares).astype(np.uint8).reshape(images.shape)
    return pixels


def volumes(tiles: ImageArray) -> ImageArray:
    """Return volumes, (n, s, s, s), s = `VOLUME_SIDE`, each the mean of three tiles, one a side.

    There is no public volume at hand; this one varies along each axis as a picture does.

    Parameters
    ----------
    tiles : array of uint8, shape (n, h, w)
        Gray levels of tiles whose sides are `VOLUME_SIDE` or more.
    """
    first = tiles[:, :VOLUME_SIDE, :VOLUME_SIDE].astype(np.uint16)
    other, third = np.roll(first, 1, axis=0), np.roll(first, 2, axis=0)
    total = first[:, np.newaxis] + other[:, :, np.newaxis] + third[:, :, :, np.newaxis]
    return (total // 3).astype(np.uint8)


SHOWN_NIGHTS = (1, 2, 5, 10, 30, 100, 365, 1000, 3650, 10_000)
"""Nights that are shown, with the opening and the last."""


@dataclass(frozen=True)
class ClassArrivals:
    """Number of records of a class, night by night.

    Attributes
    ----------
    first : int
        Records on the first night.
    nightly : int
        Records that come on each night after it.
    each : bool
        True if they stand for several classes, of so many records each.
    """

    first: int
    nightly: int = 0
    each: bool = False

    def until(self, night: int) -> int:
        """Return the records up to a night.

        Parameters
        ----------
        night : int
            Number of the night, from 1.
        """
        return self.first + (night - 1) * self.nightly


def marks(last: int, *more: int | None) -> tuple[int, ...]:
    """Return the nights that are shown of so many.

    Parameters
    ----------
    last : int
        Last night.
    *more : int or None
        Further nights that are shown, none that is later than the last.
    """
    chosen = {*SHOWN_NIGHTS, last, *(night for night in more if night)}
    return tuple(sorted(night for night in chosen if night <= last))


class NightsForecast(Protocol):
    """Forecast of a release that is spread over nights.

    Attributes
    ----------
    widened : tuple of float
        Factors by which its range reaches beyond that of its parts, after the first mean.
    """

    widened: tuple[float, float]

    def first_mean(self, units: ClassArrivals) -> int | None:
        """Return the night of the first mean of a class; None before the horizon.

        Parameters
        ----------
        units : ClassArrivals
            Arrivals of the class.
        """

    def in_mean(self, units: ClassArrivals, night: int) -> int:
        """Return of how many records the mean of a night is.

        Parameters
        ----------
        units : ClassArrivals
            Arrivals of the class.
        night : int
            Number of the night, from 1.
        """

    def ends(self, later: Curve, units: ClassArrivals, night: int) -> ErrorRange | None:
        """Return both ends of the range of the error at a night; None without a mean.

        `later` is the curve of releases of their own.

        Parameters
        ----------
        later : Curve
            Range of the error of releases of their own.
        units : ClassArrivals
            Arrivals of the class.
        night : int
            Number of the night, from 1.
        """

    def has_opened(self, n: int) -> bool:
        """Return whether records are held back no more after n.

        Parameters
        ----------
        n : int
            Number of records of the class.
        """


FORECASTS = Registry[Callable[[ReleaseConfig], NightsForecast]]("forecasts", {}, word="forecast")
"""Forecasts of a release with a table of that key."""


def _nights_of(config: ReleaseConfig) -> NightsForecast | None:
    """Return what foresees a stream; None of a release."""
    return None if config.stream is None else FORECASTS["stream"](config)


LADDER = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Budgets that are shown, as multiples of the config's."""
SHOWN_SIZES, NIGHTLY = (50, 200, 1000, 5000), (5, 20, 100)
"""Images or persons of a class, and new ones a night, that are shown where none are given."""
Affords = Callable[[Budget], int]
"""Function of a charge to the number of releases that an account pays for."""
MOST_PREDICTED, MOST_NIGHTS = 10**12, 100_000
"""Most images or persons of a class, in all and a night, and most nights, of a prediction: as many
as a document may have, and a stream."""
SEARCH_FACTOR, SEARCH_STEPS = 2.0, 12
"""Budgets are searched by this factor, so many times up or down: 2000 times in all."""
BUDGET_DIGITS = 4
"""Digits of what is found, rounded up."""


@dataclass(frozen=True)
class BudgetPrice:
    """One budget, what it costs and what it means.

    Attributes
    ----------
    value : float
        The config's ``budget``.
    charge : Budget
        Budget that the account pays, and that one person is promised.
    epsilon, delta : float
        The (ε, δ) that the charge implies.
    advantage : float
        P(success) of the best membership test is ½ + this/2 at most.
    success : str
        The same in per cent, rounded up: guessing has 50.
    nights : int or None
        Number of nights that the account lasts for; None where it is not known.
    """

    value: float
    charge: Budget
    epsilon: float
    delta: float
    advantage: float
    success: str
    nights: int | None


USES = ("nothing", "large differences", "comparisons, classifiers", "small changes, too")
"""Uses of a mean by their number (`covdp.inference.verdict`)."""
Predictions: TypeAlias = tuple[tuple[str, ...], ...]
"""Sentences on the predicted use of means, those of one use together."""
USES_IN_SENTENCES = {
    (NOTHING, NOTHING): "not usable",
    (LARGE, LARGE): "usable for large differences only",
    (COMPARISONS, COMPARISONS): "usable for comparisons and classifiers",
    (SMALL, SMALL): "usable for comparisons, classifiers and small changes over time",
    (NOTHING, LARGE): "perhaps usable for large differences",
    (NOTHING, COMPARISONS): "perhaps usable for comparisons and classifiers",
    (NOTHING, SMALL): "perhaps usable for small changes over time",
    (LARGE, COMPARISONS): "usable for large differences, perhaps for comparisons and classifiers",
    (LARGE, SMALL): "usable for large differences, perhaps for small changes over time",
    (
        COMPARISONS,
        SMALL,
    ): "usable for comparisons and classifiers, perhaps for small changes over time",
}
"""Predictions by the use at the upper and at the lower end of an error range."""


@dataclass(frozen=True)
class ErrorForecast:
    """Forecast of the error of the released mean of n records.

    Attributes
    ----------
    n : int
        Records of the class, images or persons.
    low, high : float or None
        Range of the expected distance to the mean of the class; None before a stream opens.
    radius : float or None
        95 of 100 releases have an error of at most this, where the error is in the range.
    use : int
        Number of its likely use (`covdp.inference.verdict`).
    """

    n: int
    low: float | None
    high: float | None
    radius: float | None
    use: int

    @property
    def in_words(self) -> str:
        """Its use in a few words."""
        if self.low is None:
            return "not open yet" if self.n else "no mean"
        return USES[self.use]


@dataclass(frozen=True)
class ClassForecast:
    """One class: by budget, as `Forecast.prices`; by night; and what `error` needs.

    Attributes
    ----------
    name : str
        Name of the class.
    by_budget : tuple of ErrorForecast
        Error at each budget, in the order of `Forecast.prices`.
    by_night : tuple of ErrorForecast
        Error at the config's budget, on each night that is shown.
    needed : float or None
        Least budget with which the error is as asked for; None where none is.
    opening : int or None
        Night of the first mean; None before the horizon.
    """

    name: str
    by_budget: tuple[ErrorForecast, ...]
    by_night: tuple[ErrorForecast, ...]
    needed: float | None
    opening: int | None


@dataclass(frozen=True)
class Forecast:
    """Forecast of a release, or of a stream.

    Attributes
    ----------
    name, population, unit, descriptor, manifold, definition : str
        Settings as the config says; the privacy unit is that of the card.
    dimension : int
        Numbers of a released mean.
    diameter : float
        Largest distance of two records, which errors compare with.
    horizon : int or None
        Nights of a stream, else None.
    night : int
        The night that is foreseen.
    prices : tuple of BudgetPrice
        Prices of the budgets that are shown.
    nights : tuple of int
        Nights that are shown; none where only the first is asked for.
    totals : tuple of Budget
        Charges up to each of these nights.
    error : float or None
        Error that was asked for.
    needed : float or None
        Least budget with which no class has a larger error; None where there is none.
    classes : tuple of ClassForecast
        Forecast of each class.
    verdict : tuple of str
        Sentences on the predicted use of the means at the config's budget.
    meaning : tuple of str
        Sentences on what the numbers mean, and where that was measured.
    """

    name: str
    population: str
    unit: str
    descriptor: str
    manifold: str
    dimension: int
    diameter: float
    definition: str
    horizon: int | None
    night: int
    prices: tuple[BudgetPrice, ...]
    nights: tuple[int, ...]
    totals: tuple[Budget, ...]
    error: float | None
    needed: float | None
    classes: tuple[ClassForecast, ...]
    verdict: tuple[str, ...]
    meaning: tuple[str, ...]


@dataclass(frozen=True)
class ForecastRequest:
    """Class sizes or their `total`, arrivals, nights and an error to reach, besides the config.

    Attributes
    ----------
    sizes : mapping of str to int
        Number of images, or persons, of each class.
    total : int or None
        Number of all classes together, if labels are secret.
    per_night : int or None
        Number that comes each night, in each class.
    nights : int or None
        Night that is foreseen.
    error : float or None
        Distance that the upper end of the range is to reach.
    """

    sizes: Mapping[str, int]
    total: int | None = None
    per_night: int | None = None
    nights: int | None = None
    error: float | None = None

    def __post_init__(self) -> None:
        require_count("--per-night", self.per_night, 1, MOST_PREDICTED)
        require_count("--nights", self.nights, 1, MOST_NIGHTS)
        if self.error is not None and not 0.0 < self.error < math.inf:
            raise ConfigError(f"--error must be a distance above 0, found {self.error:g}")


def require_count(name: str, count: int | None, least: int, most: int) -> None:
    """Raise `ConfigError` where a number that is asked about is out of range.

    Parameters
    ----------
    name : str
        Name of the option.
    count : int or None
        Number that is given.
    least : int
        Least number that is accepted.
    most : int
        Largest number that is accepted.
    """
    if count is not None and not least <= count <= most:
        raise ConfigError(
            f"{name} must be {least} to {most:,}, found {count}; correct it, or leave it out"
        )


def forecast(
    config: ReleaseConfig, request: ForecastRequest, affords: Affords | None = None
) -> Forecast:
    """Return what to expect of a release, or of a stream of them.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release; the card must be found, images need not.
    request : ForecastRequest
        Public numbers besides the config.
    affords : callable, optional
        Function of a charge to the number of releases that the account pays for.

    Raises
    ------
    ConfigError, DatasetError
        Settings that a release refuses too, a class the card does not have, or a mechanism whose
        noise is not Gaussian.
    """
    card = find_card(config.dataset)
    ends, plan, last = _ends(config, card), config.nights, _last_night(config, request)
    units = _arrivals(config, card, request)
    configs = [_at(config, factor * config.budget) for factor in LADDER]
    opened = {name: ends.first_mean(each) for name, each in units.items()}
    nights = marks(last, *opened.values()) if last > 1 else ()
    classes = tuple(
        ClassForecast(
            name,
            tuple(ends.expected(at.budget, arrivals, last) for at in configs),
            tuple(ends.expected(config.budget, arrivals, night) for night in nights),
            ends.needed(request.error, arrivals, last),
            opened[name],
        )
        for name, arrivals in units.items()
    )
    enough = [row.needed for row in classes if row.needed is not None]
    delta = _delta(request, units, last, len(card.classes))
    return Forecast(
        name=config.name,
        population=config.population,
        unit=config.unit,
        descriptor=config.descriptor,
        manifold=config.manifold,
        dimension=ends.curve.domain.dimension,
        diameter=ends.curve.domain.diameter,
        definition=config.definition,
        horizon=None if plan is None else plan.horizon,
        night=last,
        prices=tuple(_price(at, delta, affords) for at in configs),
        nights=nights,
        totals=tuple(
            config.charge if plan else repeat_as_written(config.charge, night) for night in nights
        ),
        error=request.error,
        needed=None if len(enough) < len(classes) else max(enough),
        classes=classes,
        verdict=tuple(itertools.chain(*ends.verdict(units, last))),
        meaning=ends.meaning(empty=not all(each.until(last) for each in units.values())),
    )


def _delta(
    request: ForecastRequest, units: Mapping[str, ClassArrivals], night: int, classes: int
) -> float:
    """Return δ at which budgets are stated: below one over the number of all that have come."""
    known = units.values() if request.sizes or request.per_night else ()
    come = sum(each.until(night) for each in known)
    if request.total is not None:
        come = request.total + (night - 1) * (request.per_night or 0) * classes
    return min(1e-5, 1 / (10 * max(1, come)))


@dataclass(frozen=True)
class _Forecasts:
    """Ranges by budget, records and night."""

    config: ReleaseConfig
    curve: Curve

    def at(self, budget: float, units: ClassArrivals, night: int) -> ErrorRange | None:
        config, n = _at(self.config, budget), units.until(night)
        nights = _nights_of(config)
        if nights is None or not n:
            return self.curve.ends(n / gaussian_sigma(config.cost, 1.0)) if n else None
        return nights.ends(self.curve, units, night)

    def first_mean(self, units: ClassArrivals) -> int | None:
        nights = _nights_of(self.config)
        return None if nights is None else nights.first_mean(units)

    def expected(self, budget: float, units: ClassArrivals, night: int) -> ErrorForecast:
        n, estimate = units.until(night), self.at(budget, units, night)
        if estimate is None:
            return ErrorForecast(n, None, None, None, NOTHING)
        use = replace(self, config=_at(self.config, budget))._verdict("", units, night).use
        return ErrorForecast(n, *estimate, estimate.radius(self.curve.domain.dimension), use)

    def verdict(self, units: Mapping[str, ClassArrivals], night: int) -> Predictions:
        """Return the predicted use of all means, in words."""
        there = [(name, each) for name, each in units.items() if each.until(night)]
        ends = [
            (self._verdict(name, each, night), self._verdict(name, each, night, best=True))
            for name, each in there
        ]
        return tuple(_predictions(self.config, ends, self.curve.widened == WIDENED))

    def _verdict(
        self, name: str, units: ClassArrivals, night: int, *, best: bool = False
    ) -> Verdict:
        """Return the likely use of a mean by the upper end of its range; `best`: by the lower.

        As many records as are said to be needed for more are judged as the mean itself is. Where
        clipping alone forbids the next use, no number is needed.
        """
        found = self._judged(name, units, night, best=best)
        if best or self.config.nights is not None or found.factor == 1.0:
            return found
        enough, likely = units.until(night), found
        while likely.use == found.use:
            if enough > MOST_PREDICTED:
                return replace(found, factor=1.0)
            enough = math.ceil(max(likely.needed, 1.1 * enough))
            likely = self._judged(name, ClassArrivals(enough), 1)
        return replace(found, factor=enough / max(found.n, 1.0))

    def _judged(
        self, name: str, units: ClassArrivals, night: int, *, best: bool = False
    ) -> Verdict:
        """Return the same, with what its own noise says of how many records are needed."""
        estimate, nights = self.at(self.config.budget, units, night), _nights_of(self.config)
        n = units.until(night) if nights is None else nights.in_mean(units, night)
        plan, manifold, sigma = self.curve.plan, self.curve.manifold, None
        if isinstance(plan, AdaptivePlan):
            prior, cost = mean.default_prior(self.curve.domain, manifold), self.config.cost
            shares = plan.shares or default_shares(prior, few=is_few(cost, n, prior))
            sigma = gaussian_sigma(cost, 1.0 / n) / math.sqrt(shares.last)
        share = None
        if estimate is not None:
            error = estimate.low if best else estimate.high
            share = error / usual_difference(manifold, self.curve.domain.k)
        opened = nights is not None and estimate is not None and nights.has_opened(n)
        offered = sigma is not None and (opened or sigma <= NOISY)
        found = verdict_of(name, n, share, sigma, offered=offered, plan=self.config.nights)
        arrived = units.until(night)
        return replace(found, n=arrived, factor=found.needed / arrived, each=units.each)

    def needed(self, error: float | None, units: ClassArrivals, night: int) -> float | None:
        if error is None:
            return None

        def high(budget: float) -> float:
            estimate = self.at(budget, units, night)
            return math.inf if estimate is None else estimate.high

        return least_budget(high, error, self.config.budget)

    def meaning(self, *, empty: bool) -> tuple[str, ...]:
        """Return the sentences that are true of a forecast, in reading order.

        `empty` says whether one of its classes has no images.
        """
        nights = _nights_of(self.config)
        return say_each(
            "foreseen",
            config=self.config,
            widened=self.curve.widened,
            streamed=nights and nights.widened,
            volumes=DESCRIPTORS[self.config.descriptor].dimensions == 3,
            empty=empty,
        )


def _predictions(
    config: ReleaseConfig, ends: Sequence[tuple[Verdict, Verdict]], varied: bool
) -> Iterator[tuple[str, ...]]:
    """Yield the sentences on use, error and need of the means of one use, use after use.

    `ends` has the verdict at the upper and at the lower end of each error range; `varied` says
    whether these ends depend on how similar images are.
    """
    if not protects(config.promise, config.hardened):
        nobody = "At this budget nobody is protected"
        yield (f"{nobody}: an attack may succeed in 99 of 100 cases or more.",)
    groups = defaultdict[tuple[int, int], list[tuple[Verdict, Verdict]]](list)
    for upper, lower in ends:
        if upper.share is not None:
            groups[upper.use, lower.use].append((upper, lower))
    for uses, rows in sorted(groups.items(), reverse=True):
        said = [
            f"Prediction: {USES_IN_SENTENCES[uses]}: {listing(x.name for x, _ in rows)}.",
            f"Error: {_worst_error(rows, config.unit)}.",
        ]
        if varied:
            said.append(
                "Classes of similar images, such as chest X-rays, are nearer to the lower end; a "
                "few images that are very unlike the others make the error larger."
            )
            varied = False
        worst = [upper for upper, _ in rows]
        if uses[0] < COMPARISONS and any(x.factor > 1.0 for x in worst):
            said.append(_need(config, worst, several=len(rows) < len(ends)))
        yield tuple(said)
    if waiting := [upper.name for upper, _ in ends if upper.share is None]:
        said = [f"No mean yet of {listing(waiting)}."]
        if plan := config.nights:
            said.append(f"A class has its first mean at about {plan.first_mean:,} {config.unit}s.")
        yield tuple(said)


def _worst_error(rows: Sequence[tuple[Verdict, Verdict]], unit: str) -> str:
    """Return the error range of the class in which it is largest."""
    upper, lower = max(rows, key=lambda row: row[0].share or 0.0)
    high, low, usual = upper.share or 0.0, lower.share or 0.0, "a usual difference between classes"
    whose = f"{upper.n:,} {unit}s{' each' * upper.each}"
    whose = f"{upper.name}, {whose}" if len(rows) > 1 else whose
    return f"{percent(low)} to {percent(high)}{' of' * (high < 10.0)} {usual} ({whose})"


def _need(config: ReleaseConfig, worst: Sequence[Verdict], *, several: bool) -> str:
    """Return the number of images, and the budget, that the next use needs at the upper end."""
    of = f" of {listing(x.name for x in worst)}" * several
    use = f"any use{of} needs" if worst[0].use == NOTHING else f"comparisons{of} need"
    factor, needed = max(x.factor for x in worst), max(x.needed for x in worst)
    budgets = {"gdp": ("μ", factor), "zcdp": ("ρ", factor**2)}
    letter, times = budgets.get(config.definition, ("", 0.0))
    budget = f", or {letter} = {two_digits(config.budget * times)}" * bool(letter)
    many = f"{two_digits(needed)} {config.unit}s a class{budget}"
    return f"At the upper end of this range {use} about {many}."


def expected_uses(
    config: ReleaseConfig, sizes: Mapping[str, int]
) -> tuple[Predictions, dict[str, ErrorForecast]]:
    """Return what the means of classes are likely usable for: sentences, and the error of each.

    The sentences on classes of one use are a tuple.

    Parameters
    ----------
    config : ReleaseConfig
        A release, or a stream on its first night.
    sizes : mapping of str to int
        Images or persons of each class.
    """
    ends, units = _ends(config, config.card), {x: ClassArrivals(n) for x, n in sizes.items()}
    errors = {name: ends.expected(config.budget, each, 1) for name, each in units.items()}
    return ends.verdict(units, 1), errors


def likely_verdict(config: ReleaseConfig, n: int, *, best: bool = False) -> Verdict:
    """Return what the mean of n records of a release is likely usable for, or at `best`.

    Parameters
    ----------
    config : ReleaseConfig
        Settings of the release.
    n : int
        Number of records of the class.
    best : bool
        True to judge by the lower end of the range of the error.
    """
    return _ends(config, config.card)._verdict("", ClassArrivals(n), 1, best=best)


def is_foreseen(plan: Plan) -> bool:
    """Return whether all noise of a plan is Gaussian: else n·μ alone does not say the error.

    Parameters
    ----------
    plan : Plan
        Plan of spending.
    """
    return not isinstance(plan, SinglePlan) or MECHANISMS[plan.mechanism].hardened is not None


def _ends(config: ReleaseConfig, card: Card) -> _Forecasts:
    """Return the ranges of a release, or of a stream."""
    plan = config.plan
    if isinstance(plan, SinglePlan) and not is_foreseen(plan):
        raise ConfigError(
            f"the error of {plan.mechanism} is not foreseen, only that of what releases draw with "
            'hardened noise; choose mechanism = "auto" or "ewg", or try it on public images with '
            "`covdp run`"
        )
    return _Forecasts(config, Curve(_domain(config, card), plan))


def _at(config: ReleaseConfig, budget: float) -> ReleaseConfig:
    """Return the config with another budget."""
    return config.model_copy(update={"budget": budget})


def _domain(config: ReleaseConfig, card: Card) -> DescriptorDomain:
    """Return the domain; where neither config nor card says the size, that of small images.

    `oct5` and `vol7` do not depend on it; the bound of the others changes by less than 0.1 %.
    """
    require_descriptor_for(config.descriptor, channels=card.channels, volumes=card.volumes)
    side = config.size or card.size or TILE_SIDE
    shape = (side,) * (3 if card.volumes else 2) + ((3,) if card.channels == 3 else ())
    return domain_of(
        config.descriptor, shape, eta=config.eta, manifold=config.manifold, masked=card.masked
    )


def _last_night(config: ReleaseConfig, request: ForecastRequest) -> int:
    """Return the night that is asked for: of a stream its horizon where none is."""
    plan = config.nights
    if plan is not None and request.nights is not None and request.nights > plan.horizon:
        raise ConfigError(
            f"the stream has {plan.horizon} nights, found --nights {request.nights}; raise horizon "
            "in the config, or ask for fewer"
        )
    return request.nights or (1 if plan is None else plan.horizon)


def _arrivals(
    config: ReleaseConfig, card: Card, request: ForecastRequest
) -> dict[str, ClassArrivals]:
    """Return the records of each class that is asked for; of any class, where no size is given.

    Where labels are secret a class may have none.
    """
    more = request.per_night
    for name, n in request.sizes.items():
        require_known("class", name, card.classes, f"the card has {', '.join(card.classes)}")
        require_count(f"--n {name}", n, 0 if config.secret or more else 1, MOST_PREDICTED)
    if request.sizes:
        units = {name: ClassArrivals(n, more or 0) for name, n in request.sizes.items()}
    elif request.total is not None:
        many = len(card.classes)
        units = {
            f"each of {many} classes": ClassArrivals(request.total // many, more or 0, each=True)
        }
    elif more is not None:
        units = {name: ClassArrivals(more, more) for name in card.classes}
    elif config.nights is not None:
        units = {f"any class, {n} a night": ClassArrivals(n, n) for n in NIGHTLY}
    else:
        units = {f"any class of {n:,}": ClassArrivals(n) for n in SHOWN_SIZES}
    if config.nights is None:
        config.check_sizes({name: arrivals.first for name, arrivals in units.items()})
    return units


def _price(config: ReleaseConfig, delta: float, affords: Affords | None) -> BudgetPrice:
    """Return what a budget costs and means."""
    charge, plan = config.charge, config.nights
    implied = convert(charge, ApproxDP, delta=delta)
    nights = None if affords is None else affords(charge)
    if nights and plan is not None:
        nights = plan.horizon
    sure = certified(charge) if config.hardened else charge
    return BudgetPrice(
        config.budget, charge, implied.epsilon, delta, advantage(sure), success(sure), nights
    )


def least_budget(high: Callable[[float], float], error: float, start: float) -> float | None:
    """Return the least budget from which `high`, the upper end of a range, is at most `error`.

    None where no budget that is looked at suffices, the least of them where that one does.

    Parameters
    ----------
    high : callable
        Budget to upper end, infinite where nothing is released. It falls, but for steps up that
        are smaller than what it falls by in a factor of `SEARCH_FACTOR`.
    error : float
        Error that is to be reached.
    start : float
        Budget to begin with.
    """
    from scipy.optimize import brentq

    ladder = [start * SEARCH_FACTOR**step for step in range(1 - SEARCH_STEPS, SEARCH_STEPS)]
    if high(ladder[-1]) > error:  # it falls, so all others are above it
        return None
    place = bisect_left(ladder, True, key=lambda budget: high(budget) <= error)
    if place == 0:
        return ladder[0]

    def surplus(budget: float) -> float:
        return min(high(budget), 2.0 * error) - error

    root = float(brentq(surplus, ladder[place - 1], ladder[place], rtol=1e-6))
    return float(digits_up(root, BUDGET_DIGITS))
