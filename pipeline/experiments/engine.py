"""The Monte Carlo engine: every (class, series, budget) of one experiment on one dataset.

A `Cell` holds all its repetitions, drawn in one call from a stream of its own, so any row can be
recomputed from its `seed` and `repetition` columns alone, and an interrupted run goes on where it
stopped with the same numbers.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline import __version__
from pipeline.config import ExperimentConfig, SeriesConfig
from pipeline.errors import UndefinedError
from pipeline.geometry import FlatChart, Manifold
from pipeline.mechanisms import MECHANISMS
from pipeline.release import Domain, NonPrivate, release, sensitivity, summarise


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
    data: ClassData,
    setting: Setting,
    pending: Sequence[Cell],
    write: Callable[[Cell, dict[str, Any]], Any],
) -> None:
    """Compute the `pending` cells of one class and hand each one's columns to `write`.

    On a flat manifold intrinsic mechanisms work on coordinates, which is the same and overflows
    nowhere; the embedded ones of the papers need the matrices themselves.
    """
    charted, chart = data, setting
    if setting.manifold.flat:
        chart = setting._replace(manifold=FlatChart(setting.manifold))
        charted = data._replace(points=setting.manifold.log(setting.manifold.origin, data.points))
    for series in setting.config.mechanisms:
        mine = [cell for cell in pending if cell.series == series and cell.label == data.label]
        embedded = MECHANISMS[series.mechanism].embedded
        if mine:
            _run_series(*((data, setting) if embedded else (charted, chart)), mine, write)


def _run_series(
    data: ClassData,
    setting: Setting,
    cells: Sequence[Cell],
    write: Callable[[Cell, dict[str, Any]], Any],
) -> None:
    """Compute the cells of one series; what depends on the records alone is computed once."""
    series = cells[0].series
    seed = stream_seed(setting.config, f"{data.label}/{series.series}/records")
    nonprivate = summarise(
        data.points,
        manifold=setting.manifold,
        plan=series.plan,
        size=setting.config.repetitions,
        rng=np.random.default_rng(seed),
    )
    for cell in cells:
        write(cell, columns(data, nonprivate, cell, setting))


def columns(
    data: ClassData, nonprivate: NonPrivate, cell: Cell, setting: Setting
) -> dict[str, Any]:
    """Draw one cell and return its rows; status `undefined` where the law has no density."""
    config, embedded = setting.config, MECHANISMS[cell.series.mechanism].embedded
    known = _known(data, nonprivate.n, cell, setting)
    try:
        drawn = release(
            nonprivate,
            config.budget(cell.value),
            domain=setting.domain,
            manifold=setting.manifold,
            plan=cell.series.plan,
            size=config.repetitions,
            rng=np.random.default_rng(known["seed"]),
        )
    except UndefinedError:
        return known | {"status": "undefined"}
    return known | {
        "status": "ok",
        "sigma": drawn.sigma,
        "error": _distance(nonprivate.mean, drawn.points, setting.manifold, embedded=embedded),
        "expected_error": np.nan if drawn.expected_error is None else drawn.expected_error,
        "acceptance": drawn.acceptance,
        "seconds": drawn.seconds,
    }


def _known(data: ClassData, n: int, cell: Cell, setting: Setting) -> dict[str, Any]:
    """Return the columns that are known before anything is drawn."""
    config, series = setting.config, cell.series
    embedded = MECHANISMS[series.mechanism].embedded
    return {
        "experiment": config.name,
        "dataset": config.dataset,
        "label": data.label,
        "class_name": data.name,
        "n": n,
        "manifold": config.manifold,
        "descriptor": config.descriptor,
        "mechanism": series.mechanism,
        "series": series.series,
        "sampler": series.sampler,
        "definition": config.definition,
        "budget": cell.value,
        "delta": np.nan if config.delta is None else config.delta,
        "alpha": np.nan if config.alpha is None else config.alpha,
        "sensitivity": sensitivity(setting.domain, n, series.sensitivity, embedded=embedded),
        "footpoint": series.footpoint,
        "repetition": np.arange(config.repetitions),
        "seed": stream_seed(config, cell.key),
        "version": __version__,
    }


def _distance(
    mean: NDArray[Any], points: NDArray[Any], manifold: Manifold, *, embedded: bool
) -> NDArray[np.float64]:
    """Return the geodesic distance, or the Frobenius norm where outputs leave the manifold."""
    if embedded:
        return np.asarray(np.linalg.norm(points - mean, axis=(-2, -1)))
    return manifold.dist(mean, points)
