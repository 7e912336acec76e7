"""Several hospitals put together, measured: how far off, and how often of one class it seems two.

In each repetition the records of a class are divided at random between hospitals of given sizes,
none twice, and released by each with the whole budget, as they are of different people. What is
made of these releases alone is compared with the mean of all records.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from covdp.addons.partners.combine import combine
from covdp.addons.partners.comparisons import TEST_LEVEL
from covdp.arrays import FloatArray
from covdp.config import Count, ExperimentConfig, SampledSeries
from covdp.experiments.driver import (
    Cell,
    ClassData,
    ExperimentKind,
    Setting,
    admitted,
    one_by_one,
)
from covdp.experiments.populations import Population, batches, population
from covdp.geometry import Point, from_chart
from covdp.mean import Release


class HospitalSeries(SampledSeries):
    """A series of records that are divided between hospitals.

    Attributes
    ----------
    of : {"sample", "population"}
        Records whose mean is estimated: the sample, or its population.
    hospitals : tuple of int
        Sizes of hospitals, as ratios.
    """

    of: Literal["sample", "population"] = "sample"
    hospitals: tuple[Count, ...] = Field((1,), min_length=1)


class HospitalExperiment(ExperimentConfig):
    """An experiment whose series are `HospitalSeries`."""

    mechanisms: tuple[HospitalSeries, ...] = ()


def ready(data: ClassData, setting: Setting) -> Population:
    """Return the records of a class.

    Parameters
    ----------
    data : ClassData
        Records of the class as they were read.
    setting : Setting
        Config, manifold and public bound of the run.
    """
    return population(admitted(data, setting).placed, setting)


def combine_parts(
    records: Population, setting: Setting, cell: Cell[HospitalSeries], rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of one cell: a combination a repetition.

    Parameters
    ----------
    records : Population
        Records of a class.
    setting : Setting
        Config, manifold and public bound of the run.
    cell : Cell
        Series and budget.
    rng : np.random.Generator
        Random generator of the division and the noise.
    """
    n, space = min(cell.series.n or records.own, records.own), records.records.space
    budget, results = setting.config.budget(cell.value), []
    for batch in batches(setting.repetitions(cell.series), n):
        samples = [rng.permutation(records.own)[:n] for _ in batch]
        parts = zip(*(divided(drawn, cell.series.hospitals) for drawn in samples), strict=True)
        each = [records.release_each(own, budget, cell.series.plan, rng) for own in parts]
        for drawn, *released in zip(samples, *each, strict=True):
            true = records.records.sample(drawn).frechet.point
            point, p, offered = together(released, cell.series.of)
            results.append((float(space.dist(point, true)), noise_of(released), p, offered))
    names = ("error", "sigma", "p_value", "offered")
    columns = dict(zip(names, np.array(results, dtype=np.float64).T, strict=True))
    p = columns["p_value"]
    return {"n": n, "rejected": np.where(np.isfinite(p), p <= TEST_LEVEL, np.nan), **columns}


def divided(drawn: NDArray[Any], sizes: Sequence[int]) -> list[NDArray[Any]]:
    """Return records, or rows, divided in the ratio of `sizes`, as far as whole records allow.

    Parameters
    ----------
    drawn : array, shape (n, ...)
        Records, or their rows.
    sizes : sequence of int
        Ratio of the parts.
    """
    ends = np.cumsum(sizes)
    return np.split(drawn, np.rint(len(drawn) * ends[:-1] / ends[-1]).astype(int))


def together(released: Sequence[Release], of: str) -> tuple[Point, float, bool]:
    """Return the mean of all records or the common one, the p-value of Q, and whether available.

    One release is taken as it is, and has no p-value; nor have several without a second moment,
    whose means are averaged by size.

    Parameters
    ----------
    released : sequence of Release
        Releases of all hospitals.
    of : str
        "sample" for the mean of all records; else the mean of the population.
    """
    moments = [release.noisy_moments for release in released]
    sizes = [part.n for part in moments]
    if len(released) == 1:
        return released[0].point, np.nan, True
    if all(part.moment is None for part in moments):
        space = released[0].space
        places = space.log(space.origin, np.stack([release.outputs[0] for release in released]))
        mean = space.exp(space.origin, np.average(places, axis=0, weights=sizes))
        return from_chart(released[0].manifold, mean), np.nan, False
    combination = combine(released)
    taken = combination.all if of == "sample" else combination.common
    return taken.centre, combination.p_value, taken.offered


def noise_of(released: Sequence[Release]) -> float:
    """Return the standard deviation, root mean square over coordinates, of the noise of all.

    It is that of the mean of all by size before anything is shrunk, exactly; nothing else.

    Parameters
    ----------
    released : sequence of Release
        Releases of all hospitals.
    """
    moments = [release.noisy_moments for release in released]
    total = sum(part.n for part in moments)
    parts: list[FloatArray] = [(part.n / total) ** 2 * part.noise for part in moments]
    return float(np.sqrt(sum(np.trace(part) for part in parts) / len(parts[0])))


COMBINING = ExperimentKind(
    in_words=(
        "Each repetition divided the records of a class at random between hospitals, none twice, "
        "released the mean of each hospital with the whole budget, and combined the releases; the "
        "distance of what they say together from the mean of all records was measured"
    ),
    cells=one_by_one(combine_parts, ready),
    config=HospitalExperiment,
)
