"""The Monte Carlo engine: every (class, series, budget) of one experiment on one dataset.

A `Cell` holds all its repetitions, drawn in one call from a stream of its own, so any row can be
recomputed from its `seed` and `repetition` columns alone, and an interrupted run goes on where it
stopped with the same numbers.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline import __version__
from pipeline.config import ExperimentConfig, SeriesConfig
from pipeline.errors import DomainError, UndefinedError
from pipeline.experiments.persons import ClassData, budget_of, records_of
from pipeline.geometry import Manifold
from pipeline.geometry.manifold import Embedded
from pipeline.mean import Domain, MeanDraw, Prepared, Records, SinglePlan, admit, draw, prepare
from pipeline.mean.sensitivity import frechet_sensitivity
from pipeline.mechanisms import MECHANISMS
from pipeline.mechanisms.noise import FloatNoise
from pipeline.privacy import second_parameter


class Setting(NamedTuple):
    """What all cells of a class share: the config, the public domain and the geometry."""

    config: ExperimentConfig
    domain: Domain
    manifold: Manifold

    def repetitions(self, series: SeriesConfig) -> int:
        """Return how often a cell of `series` is drawn."""
        return series.repetitions or self.config.repetitions


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
    words = [zlib.crc32(part.encode()) for part in (config.name, config.dataset_name, key)]
    state = np.random.SeedSequence([config.seed, *words]).generate_state(1, np.uint64)
    return int(state[0])


def run_cells(
    data: ClassData,
    setting: Setting,
    pending: Sequence[Cell],
    write: Callable[[Cell, dict[str, Any]], Any],
) -> None:
    """Compute the `pending` cells of one class and hand each one's columns to `write`.

    What depends on the records alone is computed once, and what depends on a series once for all
    its budgets.
    """

    @cache
    def records(unit: str) -> Records:
        points = records_of(data, unit, setting.manifold)
        return admit(points, domain=setting.domain, manifold=setting.manifold)

    for series in setting.config.mechanisms:
        mine = [cell for cell in pending if cell.series == series and cell.label == data.label]
        if not mine:
            continue
        prepared = prepare_series(records(series.records), data, setting, series)
        for cell in mine:
            write(cell, columns(data, prepared, cell, setting))


def prepare_series(
    records: Records, data: ClassData, setting: Setting, series: SeriesConfig
) -> Prepared:
    """Return what all budgets of a series share, from a stream of its own."""
    seed = stream_seed(setting.config, f"{data.label}/{series.series}/records")
    rng = np.random.default_rng(seed)
    return prepare(records, series.plan, size=setting.repetitions(series), rng=rng)


def columns(data: ClassData, prepared: Prepared, cell: Cell, setting: Setting) -> dict[str, Any]:
    """Draw one cell and return its rows.

    Status `undefined` where the law has no density; `not representable` where, on a curved
    manifold, the noise is so wide that a matrix of doubles cannot hold its own eigenvalues.
    """
    known = describe_cell(data, prepared.records.n, cell, setting)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # found by the checks of the geometry
            rng = np.random.default_rng(known["seed"])
            drawn = draw_cell(prepared, cell, setting, rng=rng, most=data.most)
            distance = measure(prepared.records, drawn, cell.series)
    except UndefinedError:
        return known | {"status": "undefined"}
    except DomainError:
        if setting.manifold.flat:
            raise
        return known | {"status": "not representable"}
    embedded = MECHANISMS[cell.series.mechanism].embedded
    exact = cell.series.measure == "distance" or (embedded and cell.series.measure != "vech")
    release = drawn.release
    return known | {
        "status": "ok",
        "sigma": release.sigma if isinstance(prepared.plan, SinglePlan) else np.nan,
        "error": distance,
        "expected_error": (release.expected_error if exact else None) or np.nan,
        "acceptance": release.acceptance,
        "seconds": release.seconds,
    }


def draw_cell(
    prepared: Prepared, cell: Cell, setting: Setting, *, rng: np.random.Generator, most: int = 1
) -> MeanDraw:
    """Draw every repetition of one cell in one call; `most` records are of one person."""
    budget = budget_of(setting.config.budget(cell.value, cell.series), most, cell.series.records)
    size = setting.repetitions(cell.series)
    return draw(prepared, budget, noise=FloatNoise(rng), size=size)


def describe_cell(data: ClassData, n: int, cell: Cell, setting: Setting) -> dict[str, Any]:
    """Return the columns that are known before anything is drawn."""
    config, series = setting.config, cell.series
    second = second_parameter(config.budget(cell.value, series))
    return {
        "experiment": config.name,
        "dataset": config.dataset_name,
        "label": data.label,
        "class_name": data.name,
        "n": n,
        "manifold": setting.manifold.name,
        "dim": setting.manifold.dim,
        "descriptor": config.descriptor if config.source is None else "none",
        "mechanism": series.mechanism,
        "series": series.series,
        "sampler": series.sampler,
        "definition": series.definition or config.definition,
        "budget": cell.value,
        "delta": second.get("delta", np.nan),
        "alpha": second.get("alpha", np.nan),
        "sensitivity": frechet_sensitivity(
            setting.domain,
            n,
            series.plan if isinstance(series.plan, SinglePlan) else SinglePlan(),
            MECHANISMS[series.mechanism],
            setting.manifold,
        ),
        "footpoint": series.footpoint,
        "repetition": np.arange(setting.repetitions(series)),
        "distance": distance_name(series, setting.manifold),
        "seed": stream_seed(config, cell.key),
        "version": __version__,
    }


MEASURES = {"frobenius": "Frobenius", "vech": "half-vectorisation", "chord": "chord"}
"""What the distances of `SeriesConfig.measure` are called, but for the manifold's own."""


def distance_name(series: SeriesConfig, manifold: Manifold) -> str:
    """Return in which distance the errors of a series are measured, as `measure` measures them."""
    if series.measure != "distance":
        return MEASURES[series.measure]
    if MECHANISMS[series.mechanism].embedded and isinstance(manifold, Embedded):
        return manifold.embedding_metric
    return manifold.metric


def measure(records: Records, drawn: MeanDraw, series: SeriesConfig) -> NDArray[np.float64]:
    """Return how far the outputs lie from the true mean, as the series measures it.

    Outputs of embedded mechanisms leave the manifold: their distance is that of matrices or vectors
    as they are stored.
    """
    release, manifold = drawn.release, records.manifold
    embedded = MECHANISMS[series.mechanism].embedded
    if series.measure == "distance" and not embedded:
        if drawn.distance is not None:
            return drawn.distance
        return release.space.dist(records.frechet.point, release.outputs)
    apart = release.points - records.on_manifold(records.frechet.point)
    if series.measure == "vech":
        rows, columns = np.tril_indices(apart.shape[-1])
        return np.asarray(np.linalg.norm(apart[..., rows, columns], axis=-1))
    axes = tuple(range(-len(manifold.point_shape), 0))
    return np.asarray(np.sqrt((np.abs(apart) ** 2).sum(axis=axes)))
