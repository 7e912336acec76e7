"""Regions of released means, measured: how far the level must go for them to hold the true mean.

n records are drawn from a class, with replacement, and released with their second moment. The
class is the population: its mean is known, as is that of the records drawn. Some of the records may
be of rare images unlike the class: then it is the mean of those drawn alone. Where labels are
secret n may be 0, and errors are those against the mean of the class; and how likely the noise of a
count is to be as large as it was is written down.
"""

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator
from scipy.special import ndtr

from covdp.config import Count, ExperimentConfig
from covdp.errors import ConfigError
from covdp.experiments.driver import (
    RADIUS_LEVEL,
    Cell,
    ExperimentKind,
    Setting,
    one_by_one,
)
from covdp.experiments.populations import (
    Populations,
    RareSeries,
    batches,
    check_populations,
    read_populations,
)
from covdp.inference import region
from covdp.mean import Release, draw_each
from covdp.mechanisms.noise import FloatNoise


class RegionSeries(RareSeries):
    """A series of regions of released means.

    Attributes
    ----------
    n : int, optional
        Number of records drawn, all of the class by default; 0 where labels are secret only.
    of : {"sample", "population"}
        Mean that is estimated.
    total : int, optional
        Public number of records of all classes, where labels are secret.
    """

    n: Annotated[int, Field(ge=0)] | None = None
    of: Literal["sample", "population"] = "sample"
    total: Count | None = None

    @model_validator(mode="after")
    def _sizes_are_possible(self) -> Self:
        if self.n == 0 and self.total is None:
            raise ValueError("n = 0 needs total: nothing is released of no image by public labels")
        if self.total is not None and self.total < (self.n or 0):
            raise ValueError(f"total is below n, found {self.total} and {self.n}")
        return self


class RegionExperiment(ExperimentConfig):
    """An experiment whose series are `RegionSeries`."""

    mechanisms: tuple[RegionSeries, ...] = ()


RELEASES_A_SAMPLE = 10
"""Releases of each sample, in one call, where regions are of the mean of the sample.

That they hold it is promised for every sample, so given the samples the releases are independent
trials, each as likely to hold as the level at least: a count of them is judged as binomial. Of the
mean of the population it is promised on average over samples: each release has its own.
"""


def cover(
    populations: Populations, setting: Setting, cell: Cell[RegionSeries], rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of one cell: a region a repetition, available or not.

    Parameters
    ----------
    populations : Populations
        Records of the class, those that it is compared with, and rare ones.
    setting : Setting
        Config, public domain and geometry of the class.
    cell : Cell
        Class, series and budget.
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    series, drawn = cell.series, populations.of(setting, cell.series, total=cell.series.total)
    n = drawn.own if series.n is None else series.n
    budget, space = setting.config.budget(cell.value), drawn.records.space
    rows = list[tuple[float, float, float, bool, float]]()
    most = RELEASES_A_SAMPLE if series.of == "sample" else 1
    for batch in batches(setting.repetitions(series), n):
        samples = [
            drawn.prepare(drawn.draw(n, rng, series.rare_share), series.plan, rng)
            for _ in batch[::most]
        ]
        each = [item for item in samples for _ in range(most)][: len(batch)]
        released = draw_each(each, budget, noise=FloatNoise(rng)).each
        for release, sample in zip(released, each, strict=True):
            true = (sample if series.of == "sample" and n else drawn).records.frechet.point
            where = region(release, RADIUS_LEVEL, of=series.of)
            error = float(np.linalg.norm(space.log(where.centre, true)))
            reach = float(where.reach(true))
            rows.append((error, where.radius, reach, where.offered, _of_count(release, n)))
    names = ("error", "region_radius", "reach", "offered", "p_value")
    return {"n": n, **dict(zip(names, np.array(rows, dtype=np.float64).T, strict=True))}


def _of_count(release: Release, n: int) -> float:
    """Return how likely noise is to be as far from 0 as a released count is from n, or farther.

    A count is shown as a whole number, which is off by up to a half more than its noise: as much is
    left out, so that no p-value is too small. NaN where n is public.
    """
    if (count := release.class_size) is None:
        return np.nan
    away = max(abs(float(count.shown[0]) - n) - 0.5, 0.0)
    return float(2.0 * ndtr(-away / np.sqrt(count.variance[0])))


def check_regions(config: RegionExperiment) -> None:
    """Refuse a mean that nobody knows, of a class with rare images among its own.

    Parameters
    ----------
    config : RegionExperiment
        Experiment on one dataset.
    """
    check_populations(config)
    for series in config.mechanisms:
        if series.rare_share and series.of != "sample":
            raise ConfigError(
                f"series {series.series!r}: where rare images are among those of a class only the "
                f'mean of the sample is known, found of = "{series.of}"; write of = "sample"'
            )


COVERING = ExperimentKind(
    in_words=(
        "Each repetition drew records from a class, with replacement, released their mean, and "
        "asked whether the region of 95 % around it holds the mean without noise"
    ),
    cells=one_by_one(cover),
    read=read_populations,
    check=check_regions,
    config=RegionExperiment,
    on_images=True,
)
