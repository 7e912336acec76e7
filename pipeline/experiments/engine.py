"""The Monte Carlo engine: every (class, series, budget) of one experiment on one dataset.

A `Cell` holds all its repetitions, drawn in one call from a stream of its own, so any row can be
recomputed from its `seed` and `repetition` columns alone, and an interrupted run goes on where it
stopped with the same numbers.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline import __version__
from pipeline.config import ExperimentConfig, SeriesConfig
from pipeline.errors import UndefinedError
from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.release import Domain, NonPrivate, Release, release, sensitivity, summarise


class Setting(NamedTuple):
    """What all cells share: the config, the public domain and the geometry."""

    config: ExperimentConfig
    domain: Domain
    manifold: Manifold


class ClassData(NamedTuple):
    """The records of one class: label, name, and points of shape (n, *point_shape)."""

    label: int
    name: str
    points: NDArray[Any]


class Cell(NamedTuple):
    """One class, series and budget, with all repetitions."""

    label: int
    series: SeriesConfig
    value: float

    @property
    def key(self) -> str:
        """Name of the cell, unique in a run."""
        return f"{self.label}/{self.series.series}/{self.value!r}"


def all_cells(config: ExperimentConfig, labels: Iterable[int]) -> list[Cell]:
    """Return the cells of an experiment in the order of its table."""
    return [
        Cell(label, series, value)
        for label in labels
        for series in config.mechanisms
        for value in config.budgets
    ]


def stream_seed(config: ExperimentConfig, key: str) -> int:
    """Return the seed of one stream, a function of the experiment's seed and of public names."""
    words = [zlib.crc32(part.encode()) for part in (config.name, config.dataset, key)]
    state = np.random.SeedSequence([config.seed, *words]).generate_state(1, np.uint64)
    return int(state[0])


def run_cells(
    data: ClassData, setting: Setting, pending: Sequence[Cell], write: Callable[[Cell, dict], Any]
) -> None:
    """Compute the `pending` cells of one class and hand each one's columns to `write`."""
    for series in setting.config.mechanisms:
        mine = [cell for cell in pending if cell.series == series and cell.label == data.label]
        if not mine:
            continue
        seed = stream_seed(setting.config, f"{data.label}/{series.series}/records")
        nonprivate = summarise(
            data.points,
            manifold=setting.manifold,
            plan=series.plan,
            size=setting.config.repetitions,
            rng=np.random.default_rng(seed),
        )
        for cell in mine:
            write(cell, columns(data, nonprivate, cell, setting))


def columns(
    data: ClassData, nonprivate: NonPrivate, cell: Cell, setting: Setting
) -> dict[str, Any]:
    """Draw one cell and return its rows; status `undefined` where the law has no density."""
    config, series = setting.config, cell.series
    seed = stream_seed(config, cell.key)
    shared: dict[str, Any] = {
        "experiment": config.name,
        "dataset": config.dataset,
        "label": data.label,
        "class_name": data.name,
        "n": nonprivate.n,
        "manifold": config.manifold,
        "descriptor": config.descriptor,
        "mechanism": series.mechanism,
        "series": series.series,
        "sampler": series.sampler,
        "definition": config.definition,
        "budget": cell.value,
        "delta": np.nan if config.delta is None else config.delta,
        "alpha": np.nan if config.alpha is None else config.alpha,
        "sensitivity": sensitivity(setting.domain, nonprivate.n, series.sensitivity),
        "footpoint": series.footpoint,
        "repetition": np.arange(config.repetitions),
        "seed": seed,
        "version": __version__,
    }
    try:
        drawn = release(
            nonprivate,
            config.budget(cell.value),
            domain=setting.domain,
            manifold=setting.manifold,
            plan=series.plan,
            size=config.repetitions,
            rng=np.random.default_rng(seed),
        )
    except UndefinedError:
        return shared | {"status": "undefined"}
    return shared | _measured(drawn, nonprivate, setting.manifold)


def _measured(drawn: Release, nonprivate: NonPrivate, manifold: Manifold) -> dict[str, Any]:
    expected = np.nan if drawn.expected_error is None else drawn.expected_error
    return {
        "status": "ok",
        "sigma": drawn.sigma,
        "error": manifold.dist(nonprivate.mean, drawn.points),
        "expected_error": expected,
        "acceptance": drawn.acceptance,
        "seconds": drawn.seconds,
    }


def build_manifold(name: str, k: int) -> Manifold:
    """Return the manifold `name` for k x k covariance descriptors."""
    return MANIFOLDS[name](k=k)
