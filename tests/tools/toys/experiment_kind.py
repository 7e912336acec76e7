"""A kind of experiment: how far the private mean of half of the records is from that of all."""

from collections.abc import Sequence

import numpy as np

from covdp.experiments.driver import (
    Cell,
    CellRows,
    ClassData,
    ExperimentKind,
    Setting,
    describe_cell,
)
from covdp.experiments.populations import place, population


def run_halves(data: ClassData, setting: Setting, pending: Sequence[Cell]) -> CellRows:
    """Compute the `pending` cells of one class and yield each one's columns."""
    all_records = population(place(data.points, setting), setting)
    n, space = all_records.own, all_records.records.space
    whole = all_records.records.frechet.point
    for cell in pending:
        known = describe_cell(data.name, n // 2, cell, setting)
        rng, budget = np.random.default_rng(known["seed"]), setting.config.budget(cell.value)
        times = range(setting.repetitions(cell.series))
        halves = [rng.permutation(n)[: n // 2] for _ in times]
        released = all_records.release_each(halves, budget, cell.series.plan, rng)
        half = [float(space.dist(whole, one.outputs[0])) for one in released]
        yield cell, known | {"status": "ok", "error": half, "acceptance": 1.0, "seconds": 0.0}


HALVES = ExperimentKind(
    in_words="Each series released the means of halves of a class", cells=run_halves
)
