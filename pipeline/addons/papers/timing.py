"""Timing: what one draw takes, warm, chain against exact in the same run on the same machine.

A timed call is the draw alone: calibration, mean and diagnostics are done before and after. Each
repetition is one call after three to warm up, so a median over repetitions is a median of calls.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from covdp.config import DefinedSeries, ExperimentConfig
from covdp.errors import ConfigError, UndefinedError
from covdp.experiments.driver import Cell, ExperimentKind, Setting, admitted, one_by_one
from covdp.mean import Records, SinglePlan, calibrate
from covdp.mean.single import CentredLaw


class TimingSeries(DefinedSeries):
    """A series whose draws are timed.

    Attributes
    ----------
    batch : int
        Draws of one timed call.
    """

    batch: int = Field(1, ge=1)


class TimingExperiment(ExperimentConfig):
    """An experiment whose series are `TimingSeries`."""

    mechanisms: tuple[TimingSeries, ...] = ()


WARM_UP = 3
"""Calls before the first that is timed: they compile, and fill caches."""


def time_draws(
    records: Records, setting: Setting, cell: Cell[TimingSeries], rng: np.random.Generator
) -> dict[str, Any]:
    """Return the columns of one cell: a timed call a repetition.

    Parameters
    ----------
    records : Records
        Records of the class.
    setting : Setting
        Config, public domain and geometry of the class.
    cell : Cell
        Class, series and budget.
    rng : numpy.random.Generator
        Source of the random numbers.
    """
    series, plan = cell.series, cell.series.plan
    if not isinstance(plan, SinglePlan):
        raise ConfigError(
            f"series {series.series!r}: one draw around a mean is timed, found the footpoint "
            f"{series.footpoint!r}; choose another"
        )
    budget = setting.config.budget(cell.value, series)
    try:
        ready = calibrate(records, budget, replace(plan, charted=False))
    except UndefinedError:
        unknown = dict.fromkeys(("acceptance", "seconds"), np.nan)
        return {"n": records.n, "status": "undefined", **unknown}
    times = WARM_UP + setting.repetitions(series)
    calls = [_timed(ready, series.batch, rng) for _ in range(times)][WARM_UP:]
    dist = setting.manifold.dist
    return {
        "n": records.n,
        "sigma": ready.mechanism.sigma,
        "error": [float(dist(ready.statistic, points)[0]) for _, points in calls],
        "expected_error": ready.mechanism.expected_error() or np.nan,
        "acceptance": np.nan,
        "seconds": [seconds for seconds, _ in calls],
    }


def _timed(ready: CentredLaw, size: int, rng: np.random.Generator) -> tuple[float, NDArray[Any]]:
    """Return seconds per draw of one call, and its points."""
    started = time.perf_counter()
    points = ready.mechanism.sample(ready.statistic, base=ready.base, size=size, rng=rng).points
    return (time.perf_counter() - started) / size, points


TIMING = ExperimentKind(
    in_words=(
        "Each series drew the noise of a mean again and again, one call after another in one "
        "process, and every call was timed"
    ),
    cells=one_by_one(time_draws, admitted),
    config=TimingExperiment,
    parallel=False,
)
"""A clock that is read while another class draws would say nothing."""
