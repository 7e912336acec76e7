"""Regions of released means, measured: how far the level must go for them to hold the true mean.

In each repetition n records are drawn from a class, with replacement, and released with their
second moment. The class is the population: its mean is known, as is that of the records drawn.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from pipeline.experiments.montecarlo import Cell, Setting, describe_cell
from pipeline.experiments.persons import ClassData, records_of
from pipeline.experiments.samples import draw_sample, release, space_of
from pipeline.inference import region
from pipeline.mean import Records, admit

LEVEL = 0.95
"""Confidence whose radius is written down."""


def run_regions(
    data: ClassData,
    setting: Setting,
    pending: Sequence[Cell],
    write: Callable[[Cell, dict[str, Any]], Any],
) -> None:
    """Compute the `pending` cells of one class and hand each one's columns to `write`."""
    points = records_of(data, "persons", setting.manifold)
    records = admit(points, domain=setting.domain, manifold=setting.manifold)
    for cell in pending:
        write(cell, columns(data, records, cell, setting))


def columns(data: ClassData, records: Records, cell: Cell, setting: Setting) -> dict[str, Any]:
    """Return the rows of one cell: a region a repetition, offered or not."""
    n = cell.series.n or records.n
    known = describe_cell(data, n, cell, setting)
    rng, budget = np.random.default_rng(known["seed"]), setting.config.budget(cell.value)
    of, space = cell.series.of, space_of(setting)
    whole, rows = records.frechet.point, list[tuple[float, float, float, bool]]()
    started, times = perf_counter(), setting.repetitions(cell.series)
    for _ in range(times):
        drawn = draw_sample(records.placed, n, rng)
        released = release(drawn, budget, cell.series.plan, setting, rng)
        true = whole
        if of == "sample":
            true = admit(drawn, domain=setting.domain, manifold=space).frechet.point
        found = region(released, LEVEL, of=of)
        away = space.log(found.centre, true)
        reach = float(found.reach(true))
        rows.append((float(np.linalg.norm(away)), found.radius, reach, found.offered))
    error, radius, reached, offered = zip(*rows, strict=True)
    return known | {
        "status": "ok",
        "error": error,
        "radius": radius,
        "reach": reached,
        "offered": np.array(offered, dtype=np.float64),
        "acceptance": 1.0,
        "seconds": (perf_counter() - started) / times,
    }
