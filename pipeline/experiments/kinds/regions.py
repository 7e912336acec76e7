"""Regions of released means, measured: how far the level must go for them to hold the true mean.

n records are drawn from a class, with replacement, and released with their second moment. The
class is the population: its mean is known, as is that of the records drawn. Some of the records may
be of rare images unlike the class: then it is the mean of those drawn alone.
"""

from collections.abc import Callable, Sequence
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from pipeline.experiments.driver import (
    Cell,
    ClassData,
    ExperimentKind,
    Population,
    Setting,
    batches,
    describe_cell,
    population,
)
from pipeline.experiments.kinds.comparisons import Populations, read_populations
from pipeline.inference import region
from pipeline.mean import draw_each
from pipeline.mechanisms.noise import FloatNoise

LEVEL = 0.95
"""Confidence whose radius is written down."""
DRAWS = 10
"""Releases of each sample, in one call, where regions are of the mean of the sample.

That they hold it is promised for every sample, so given the samples the releases are independent
trials, each as likely to hold as the level at least: a count of them is judged as binomial. Of the
mean of the population it is promised on average over samples: each release has its own.
"""


def run_regions(
    populations: Populations,
    setting: Setting,
    pending: Sequence[Cell],
    write: Callable[[Cell, dict[str, Any]], Any],
) -> None:
    """Compute the `pending` cells of one class and hand each one's columns to `write`."""
    data = populations.data

    @cache
    def of(rare: str) -> Population:
        return population(data.points, setting, populations.rare.get(rare))

    for cell in pending:
        write(cell, columns(data, of(cell.series.rare), cell, setting))


def columns(data: ClassData, drawn: Population, cell: Cell, setting: Setting) -> dict[str, Any]:
    """Return the rows of one cell: a region a repetition, offered or not."""
    series, n = cell.series, cell.series.n or drawn.own
    known = describe_cell(data, n, cell, setting)
    rng, budget = np.random.default_rng(known["seed"]), setting.config.budget(cell.value)
    rows, space = list[tuple[float, float, float, bool]](), drawn.records.space
    started, times = perf_counter(), setting.repetitions(series)
    most = DRAWS if series.of == "sample" else 1
    for batch in batches(times, n):
        samples = [
            drawn.prepare(drawn.draw(n, rng, series.rare_share), series.plan, rng)
            for _ in batch[::most]
        ]
        each = [one for one in samples for _ in range(most)][: len(batch)]
        released = draw_each(each, budget, noise=FloatNoise(rng)).each
        for one, sample in zip(released, each, strict=True):
            true = (sample if series.of == "sample" else drawn).records.frechet.point
            where = region(one, LEVEL, of=series.of)
            error = float(np.linalg.norm(space.log(where.centre, true)))
            rows.append((error, where.radius, float(where.reach(true)), where.offered))
    errors, radius, reached, offered = zip(*rows, strict=True)
    return known | {
        "status": "ok",
        "error": errors,
        "radius": radius,
        "reach": reached,
        "offered": np.array(offered, dtype=np.float64),
        "acceptance": 1.0,
        "seconds": (perf_counter() - started) / times,
    }


COVERING = ExperimentKind(
    in_words=(
        "Each repetition drew records from a class, with replacement, released their mean, and "
        "asked whether the region of 95 % around it holds the mean without noise"
    ),
    cells=run_regions,
    read=read_populations,
    on_images=True,
)
