"""Timing: what one draw takes, warm, chain against exact in the same run on the same machine.

A timed call is the draw alone: calibration, mean and diagnostics are done before and after. Each
repetition is one call after three to warm up, so a median over repetitions is a median of calls.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UndefinedError
from pipeline.experiments.driver import (
    Cell,
    CellRows,
    ClassData,
    ExperimentKind,
    Setting,
    describe_cell,
    records_of,
)
from pipeline.mean import SinglePlan, admit, calibrate
from pipeline.mean.single import Calibrated

WARM_UP = 3
"""Calls before the first that is timed: they compile, and fill caches."""


def time_cells(data: ClassData, setting: Setting, pending: Sequence[Cell]) -> CellRows:
    """Time the `pending` cells of one class, one after another, and yield their rows."""
    manifold = setting.manifold
    points = records_of(data, "persons", manifold)
    records = admit(points, domain=setting.domain, manifold=manifold)
    for cell in pending:
        series, plan = cell.series, cell.series.plan
        if cell.label != data.label or not isinstance(plan, SinglePlan):
            continue
        known = describe_cell(data, records.n, cell, setting)
        budget = setting.config.budget(cell.value, series)
        rng = np.random.default_rng(known["seed"])
        try:
            ready = calibrate(records, budget, replace(plan, charted=False))
        except UndefinedError:
            yield cell, known | {"status": "undefined"}
            continue
        calls = [
            _timed(ready, series.batch, rng) for _ in range(WARM_UP + setting.repetitions(series))
        ][WARM_UP:]
        found = {
            "status": "ok",
            "sigma": ready.mechanism.sigma,
            "error": [float(manifold.dist(ready.statistic, points)[0]) for _, points in calls],
            "expected_error": ready.mechanism.expected_error() or np.nan,
            "acceptance": np.nan,
            "seconds": [seconds for seconds, _ in calls],
        }
        yield cell, known | found


def _timed(ready: Calibrated, size: int, rng: np.random.Generator) -> tuple[float, NDArray[Any]]:
    """Return seconds per draw of one call, and its points."""
    started = time.perf_counter()
    points = ready.mechanism.sample(ready.statistic, base=ready.base, size=size, rng=rng).points
    return (time.perf_counter() - started) / size, points


TIMING = ExperimentKind(
    in_words=(
        "Each series drew the noise of a mean again and again, one call after another in one "
        "process, and every call was timed"
    ),
    cells=time_cells,
    parallel=False,
)
"""A clock that is read while another class draws would say nothing."""
