"""Timing: what one draw takes, warm, chain against exact in the same run on the same machine.

A timed call is the draw alone: calibration, mean and diagnostics are done before and after. Each
repetition is one call after three to warm up, so a median over repetitions is a median of calls.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config import SeriesConfig
from pipeline.errors import UndefinedError
from pipeline.experiments.engine import Cell, ClassData, Setting, describe_cell, measure
from pipeline.geometry import Manifold, frechet_mean
from pipeline.mechanisms import MECHANISMS, ChainSettings, Mechanism
from pipeline.mechanisms.walk import laplace_chains
from pipeline.release import sensitivity

WARM_UP = 3
"""Calls before the first that is timed: they compile, and fill caches."""


def time_cells(
    data: ClassData,
    setting: Setting,
    pending: Sequence[Cell],
    write: Callable[[Cell, dict[str, Any]], Any],
) -> None:
    """Time the `pending` cells of one class, one after another, and hand their rows to `write`."""
    manifold = setting.manifold
    mean = frechet_mean(data.points, manifold).point
    for cell in pending:
        if cell.label != data.label:
            continue
        series, known = cell.series, describe_cell(data, len(data.points), cell, setting)
        bound = sensitivity(setting.domain, len(data.points), series.sensitivity)
        budget = setting.config.budget(cell.value, series)
        family, rng = MECHANISMS[series.mechanism], np.random.default_rng(known["seed"])
        try:
            mechanism = family.calibrate(budget, sensitivity=bound, manifold=manifold)
        except UndefinedError:
            write(cell, known | {"status": "undefined"})
            continue
        calls = [
            _timed(mechanism, mean, series, rng)
            for _ in range(WARM_UP + setting.repetitions(series))
        ][WARM_UP:]
        found = {
            "status": "ok",
            "sigma": mechanism.sigma,
            "error": [float(measure(mean, points, manifold, series)[0]) for _, points in calls],
            "expected_error": mechanism.expected_error() or np.nan,
            "acceptance": np.nan,
            "seconds": [seconds for seconds, _ in calls],
        }
        write(cell, known | found)


def _timed(
    mechanism: Mechanism, mean: NDArray[Any], series: SeriesConfig, rng: np.random.Generator
) -> tuple[float, NDArray[Any]]:
    """Return seconds per draw of one call, and its points."""
    manifold: Manifold = mechanism.manifold
    started = time.perf_counter()
    if series.sampler == "chain":
        chain = ChainSettings(burn_in=series.burn_in)
        scales = np.full(series.batch, mechanism.sigma)
        run = laplace_chains(manifold, scales, settings=chain, rng=rng)
        points = manifold.exp(mean, run.tangents)
    else:
        points = mechanism.sample(mean, size=series.batch, rng=rng).points
    return (time.perf_counter() - started) / series.batch, points
