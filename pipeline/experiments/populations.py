"""Records that samples are drawn from, placed once: what experiments release again and again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from covdp import mean
from covdp.config import Count, ExperimentConfig, SampledSeries
from covdp.datasets import find_card
from covdp.descriptors import describe
from covdp.errors import ConfigError, require_known
from covdp.experiments.driver import Setting, stream_seed
from covdp.experiments.images import CHANGES, RARE, Run, image_setting, placed_images, rare_images
from covdp.geometry import Point, chart_of
from covdp.mean import PUBLIC_LABELS, AdaptivePlan, Labels, MeanSetup, Plan, Records, Release
from covdp.mechanisms.noise import FloatNoise
from covdp.privacy import Budget


def place(points: Point, setting: Setting) -> Point:
    """Return the points of a class as records, in `chart_of` its manifold.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        Points of the class, on the manifold.
    setting : Setting
        Config, public domain and geometry of the class.
    """
    return mean.admit(points, domain=setting.domain, manifold=setting.manifold).placed


@dataclass(frozen=True, eq=False)
class Population:
    """Records that samples are drawn from, which are placed and expressed in their axes once.

    Attributes
    ----------
    records : Records
        Records of the class, then the rare ones.
    own : int
        Number of records of the class, which are the first; the others are rare ones.
    """

    records: Records
    own: int

    def draw(self, n: int, rng: np.random.Generator, share: float = 0.0) -> NDArray[np.int64]:
        """Return n rows, drawn with replacement, shape (n,).

        Parameters
        ----------
        n : int
            Number of rows.
        rng : numpy.random.Generator
            Source of the random numbers.
        share : float
            Probability of each to be a rare one.
        """
        rows, rare = rng.integers(self.own, size=n), self.records.n - self.own
        if rare:
            others = np.flatnonzero(rng.random(n) < share)
            rows[others] = self.own + rng.integers(rare, size=len(others))
        return rows

    def prepare(
        self, rows: NDArray[np.int64], plan: Plan, rng: np.random.Generator, *, size: int = 1
    ) -> MeanSetup:
        """Return a sample, ready for draws; adaptive plans get their second moment.

        Parameters
        ----------
        rows : array
            Rows of the sample, shape (n,).
        plan : Plan
            Plan of the private mean.
        rng : numpy.random.Generator
            Source of the random numbers.
        size : int
            Number of draws.
        """
        if isinstance(plan, AdaptivePlan):
            plan = replace(plan, moment=True)
        return mean.prepare(self.records.sample(rows), plan, size=size, rng=rng)

    def release_each(
        self,
        samples: Sequence[NDArray[np.int64]],
        budget: Budget,
        plan: Plan,
        rng: np.random.Generator,
    ) -> list[Release]:
        """Return one private mean of each of several samples of as many records.

        Parameters
        ----------
        samples : sequence of array
            Rows of each sample, as many in each.
        budget : Budget
            Budget of each release.
        plan : Plan
            Plan of the private mean.
        rng : numpy.random.Generator
            Source of the random numbers.
        """
        noise, prepared = FloatNoise(rng), (self.prepare(rows, plan, rng) for rows in samples)
        if isinstance(plan, AdaptivePlan):
            return mean.draw_each(list(prepared), budget, noise=noise).each
        drawn = (mean.draw(sample, budget, noise=noise)[0] for sample in prepared)
        return [own for release in drawn for own in release.each]


def population(
    placed: Point, setting: Setting, rare: Point | None = None, labels: Labels = PUBLIC_LABELS
) -> Population:
    """Return records that are placed already as a population, rare ones after those of a class.

    Parameters
    ----------
    placed : array, shape (n, d)
        Records of the class, in the chart.
    setting : Setting
        Config, public domain and geometry of the class.
    rare : array, shape (m, d), optional
        Rare records, in the chart.
    labels : Labels
        Statement on the labels: public, or secret among a total.
    """
    points = placed if rare is None else np.concatenate([placed, rare])
    space = chart_of(setting.manifold)
    records = mean.admit(points, domain=setting.domain, manifold=space, labels=labels)
    return Population(records, len(placed))


SAMPLED_RECORDS = 200_000
"""Records of samples that are held at a time."""


def batches(times: int, n: int) -> Iterator[range]:
    """Yield ranges of repetitions whose samples are held, and released, together.

    Parameters
    ----------
    times : int
        Number of repetitions.
    n : int
        Number of records of a sample.
    """
    size = max(1, SAMPLED_RECORDS // max(1, n))
    return (range(start, min(start + size, times)) for start in range(0, times, size))


class RareSeries(SampledSeries):
    """A series of samples that may have rare images among their own.

    Attributes
    ----------
    rare : str
        Kind of the images unlike the class among its own.
    rare_share : float
        Expected share of these.
    """

    rare: str = "none"
    rare_share: Annotated[float, Field(ge=0, lt=1)] = 0.0


class ComparedSeries(RareSeries):
    """A series of pairs of samples.

    Attributes
    ----------
    n_other : int, optional
        Number of records of the second sample.
    change : str
        Change of the class in the second sample, or another class.
    amount : float
        Amount of the change.
    """

    n_other: Count | None = None
    change: str = "none"
    amount: float = 0.0


SAME, OTHER = "none", "class"
"""Values of `change` of a series, beside `CHANGES`: the same class, the next one."""


@dataclass(frozen=True, eq=False)
class Populations:
    """A class, the classes that it is compared with, and rare records.

    Attributes
    ----------
    name : str
        Name of the class.
    points : array, shape (n, d)
        Records of the class, in the chart.
    others : mapping of (str, float) to array
        Changed records, by the change and its amount.
    rare : mapping of str to array
        Rare records, by their kind.
    made : dict of tuple of object to Population
        Populations that were made already, by their parts.
    """

    name: str
    points: Point
    others: Mapping[tuple[str, float], Point]
    rare: Mapping[str, Point]
    made: dict[tuple[Any, ...], Population] = field(default_factory=dict)

    def of(
        self,
        setting: Setting,
        series: RareSeries,
        change: tuple[str, float] = (SAME, 0.0),
        total: int | None = None,
    ) -> Population:
        """Return the class, as it is or changed, with the rare records of a series; made once.

        Parameters
        ----------
        setting : Setting
            Config, public domain and geometry of the class.
        series : RareSeries
            Settings of the series.
        change : (str, float)
            Name of the change, and its amount.
        total : int, optional
            Public number of records of all classes, where labels are secret.
        """
        key = change, series.rare, total
        if key not in self.made:
            labels = PUBLIC_LABELS if total is None else Labels(total)
            points = self.others.get(change, self.points)
            self.made[key] = population(points, setting, self.rare.get(series.rare), labels)
        return self.made[key]


def check_populations(config: ExperimentConfig) -> None:
    """Refuse changes and rare images that do not exist.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.

    Raises
    ------
    ConfigError
        One line: what was asked, why it means nothing, what to choose.
    """
    changes, rare = [SAME, OTHER, *CHANGES], [SAME, *RARE]
    compared, mixed = _series_of(config)
    for series in compared:
        require_known("change", series.change, changes, "ours-tests.toml has some")
    for one in mixed:
        require_known("kind of rare images", one.rare, rare, "ours-regions.toml has all")
    labels = config.classes or range(len(find_card(config.dataset).classes))
    if len(labels) < 2 and any(series.change == OTHER for series in compared):
        raise ConfigError(
            f"{config.name} compares a class with the next, and has {len(labels)}; give two or more"
        )


def _series_of(config: ExperimentConfig) -> tuple[list[ComparedSeries], list[RareSeries]]:
    """Return the series with second samples, and those with rare images, of a config."""
    compared = [one for one in config.mechanisms if isinstance(one, ComparedSeries)]
    return compared, [one for one in config.mechanisms if isinstance(one, RareSeries)]


def read_populations(run: Run, label: int) -> tuple[Populations, Setting]:
    """Return a class and all classes that it is compared with, as records in the chart.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    label : int
        Label of the class.
    """
    setting, config = image_setting(run), run.config
    others = dict[tuple[str, float], Point]()
    compared, mixed = _series_of(config)
    for kind, amount in dict.fromkeys((item.change, item.amount) for item in compared):
        if kind == OTHER:
            after = run.labels.index(label) + 1
            other = run.labels[after % len(run.labels)]
            others[kind, amount] = placed_images(run, other, config.splits)
        elif kind != SAME:
            rng = np.random.default_rng(stream_seed(config, f"{label}/{kind} {amount}"))
            change = partial(CHANGES[kind], amount=amount, rng=rng)
            others[kind, amount] = placed_images(run, label, config.splits, change)
    rare, shape = dict[str, Point](), run.images.shape
    for kind in dict.fromkeys(series.rare for series in mixed if series.rare != SAME):
        rng = np.random.default_rng(stream_seed(config, f"{label}/{kind}"))
        points = describe(rare_images(kind, shape, rng), config.descriptor, config.eta)
        rare[kind] = place(points, setting)
    points = placed_images(run, label, config.splits)
    return Populations(run.images.classes[label], points, others, rare), setting
