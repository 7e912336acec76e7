"""Regions of released means, measured: how far the level must go for them to hold the true mean.

n records are drawn from a class, with replacement, and released with their second moment. The
class is the population: its mean is known, as is that of the records drawn. Some of the records may
be of rare images unlike the class: then it is the mean of those drawn alone.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from pipeline.experiments.driver import (
    Cell,
    ExperimentKind,
    Setting,
    describe_cell,
    draw_mixed,
    releases,
    space_of,
)
from pipeline.experiments.kinds.comparisons import Populations, read_populations
from pipeline.inference import region
from pipeline.mean import admit

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
    for cell in pending:
        write(cell, columns(populations, cell, setting))


def columns(populations: Populations, cell: Cell, setting: Setting) -> dict[str, Any]:
    """Return the rows of one cell: a region a repetition, offered or not."""
    data, series, space = populations.data, cell.series, space_of(setting)

    def mean_of(records: Any) -> Any:
        return admit(records, domain=setting.domain, manifold=space).frechet.point

    n = series.n or len(data.points)
    known = describe_cell(data, n, cell, setting)
    rng, budget = np.random.default_rng(known["seed"]), setting.config.budget(cell.value)
    whole, rows = mean_of(data.points), list[tuple[float, float, float, bool]]()
    started, times = perf_counter(), setting.repetitions(series)
    rare = populations.rare.get(series.rare)
    most = DRAWS if series.of == "sample" else 1
    for start in range(0, times, most):
        size = min(most, times - start)
        drawn = draw_mixed(data.points, rare, series.rare_share, n, rng)
        true = mean_of(drawn) if series.of == "sample" else whole
        for released in releases(drawn, budget, series.plan, setting, rng, size=size):
            where = region(released, LEVEL, of=series.of)
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


COVERING = ExperimentKind(run_regions, read=read_populations, on_images=True)
