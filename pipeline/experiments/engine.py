"""The Monte Carlo engine: every (class, series, budget) of one experiment on one dataset.

A `Cell` holds all its repetitions, drawn in one call from a stream of its own, so any row can be
recomputed from its `seed` and `repetition` columns alone, and an interrupted run goes on where it
stopped with the same numbers.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from pipeline import __version__
from pipeline.config import ExperimentConfig, SeriesConfig
from pipeline.errors import DomainError, UndefinedError
from pipeline.experiments import direct
from pipeline.geometry import FlatChart, Manifold
from pipeline.mechanisms import MECHANISMS
from pipeline.release import Domain, NonPrivate, Release, release, summarise


class Setting(NamedTuple):
    """What all cells of a class share: the config, the public domain and the geometry."""

    config: ExperimentConfig
    domain: Domain
    manifold: Manifold

    def repetitions(self, series: SeriesConfig) -> int:
        """Return how often a cell of `series` is drawn."""
        return series.repetitions or self.config.repetitions


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
    nowhere; the embedded ones of the papers, and errors measured between matrices, need the
    matrices themselves.
    """
    charted, chart = data, setting
    if setting.manifold.flat:
        chart = setting._replace(manifold=FlatChart(setting.manifold))
        charted = data._replace(points=setting.manifold.log(setting.manifold.origin, data.points))
    for series in setting.config.mechanisms:
        mine = [cell for cell in pending if cell.series == series and cell.label == data.label]
        stored = MECHANISMS[series.mechanism].embedded or series.measure != "distance"
        if mine:
            _run_series(*((data, setting) if stored else (charted, chart)), mine, write)


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
        size=setting.repetitions(series),
        rng=np.random.default_rng(seed),
    )
    for cell in cells:
        write(cell, columns(data, nonprivate, cell, setting))


def columns(
    data: ClassData, nonprivate: NonPrivate, cell: Cell, setting: Setting
) -> dict[str, Any]:
    """Draw one cell and return its rows.

    Status `undefined` where the law has no density; `not representable` where, on a curved
    manifold, the noise is so wide that a matrix of doubles cannot hold its own eigenvalues.
    """
    known = describe_cell(data, nonprivate.n, cell, setting)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # found by the checks of the geometry
            drawn, distance = draw_cell(
                nonprivate, cell, setting, rng=np.random.default_rng(known["seed"])
            )
        if distance is None or cell.series.measure != "distance":
            distance = measure(nonprivate.mean, drawn.points, setting.manifold, cell.series)
    except UndefinedError:
        return known | {"status": "undefined"}
    except DomainError:
        if setting.manifold.flat:
            raise
        return known | {"status": "not representable"}
    embedded = MECHANISMS[cell.series.mechanism].embedded
    exact = cell.series.measure == "distance" or (embedded and cell.series.measure != "vech")
    return known | {
        "status": "ok",
        "sigma": drawn.sigma,
        "error": distance,
        "expected_error": (drawn.expected_error if exact else None) or np.nan,
        "acceptance": drawn.acceptance,
        "seconds": drawn.seconds,
    }


def draw_cell(
    data: NonPrivate, cell: Cell, setting: Setting, *, rng: np.random.Generator
) -> tuple[Release, NDArray[np.float64] | None]:
    """Draw every repetition of one cell in one call; with distances where points cannot tell."""
    budget = setting.config.budget(cell.value, cell.series)
    size, manifold = setting.repetitions(cell.series), setting.manifold
    if direct.is_direct(cell.series, manifold):
        domain, series = cast(direct.Centred, setting.domain), cell.series
        return direct.draw(
            data, budget, domain=domain, manifold=manifold, series=series, size=size, rng=rng
        )
    plan, domain_ = cell.series.plan, setting.domain
    drawn = release(data, budget, domain=domain_, manifold=manifold, plan=plan, size=size, rng=rng)
    return drawn, None


def describe_cell(data: ClassData, n: int, cell: Cell, setting: Setting) -> dict[str, Any]:
    """Return the columns that are known before anything is drawn."""
    config, series = setting.config, cell.series
    definition = series.definition or config.definition
    delta = series.delta or config.delta
    return {
        "experiment": config.name,
        "dataset": config.dataset,
        "label": data.label,
        "class_name": data.name,
        "n": n,
        "manifold": setting.manifold.name,
        "dim": setting.manifold.dim,
        "descriptor": config.descriptor if config.source is None else "none",
        "mechanism": series.mechanism,
        "series": series.series,
        "sampler": series.sampler,
        "definition": definition,
        "budget": cell.value,
        "delta": delta if definition == "approx" and delta else np.nan,
        "alpha": config.alpha if definition == "rdp" and config.alpha else np.nan,
        "sensitivity": direct.bound_of(series, n, setting.domain, setting.manifold),
        "footpoint": series.footpoint,
        "repetition": np.arange(setting.repetitions(series)),
        "distance": distance_name(series, setting.manifold.name),
        "seed": stream_seed(config, cell.key),
        "version": __version__,
    }


DISTANCES = {
    "spd-log-euclidean": "log-Euclidean",
    "spd-log-cholesky": "log-Cholesky",
    "spd-affine-invariant": "affine-invariant",
    "hyperbolic": "hyperbolic",
    "sphere": "great circle",
    "kendall": "shape space",
    "frobenius": "Frobenius",
    "vech": "half-vectorisation",
    "chord": "chord",
}
"""The distances that errors are measured in, by manifold or by `SeriesConfig.measure`."""


def distance_name(series: SeriesConfig, manifold: str) -> str:
    """Return in which distance the errors of a series are measured, as `measure` measures them."""
    if series.measure != "distance":
        return DISTANCES[series.measure]
    if MECHANISMS[series.mechanism].embedded:
        return DISTANCES["frobenius" if manifold.startswith("spd-") else "chord"]
    return DISTANCES[manifold]


def measure(
    mean: NDArray[Any], points: NDArray[Any], manifold: Manifold, series: SeriesConfig
) -> NDArray[np.float64]:
    """Return how far the points lie from the mean, as the series measures it.

    Outputs of embedded mechanisms leave the manifold: their distance is that of matrices or vectors
    as they are stored.
    """
    apart = points - mean
    if series.measure == "vech":
        rows, columns = np.tril_indices(apart.shape[-1])
        return np.asarray(np.linalg.norm(apart[..., rows, columns], axis=-1))
    if series.measure == "distance" and not MECHANISMS[series.mechanism].embedded:
        return manifold.dist(mean, points)
    axes = tuple(range(-len(manifold.point_shape), 0))
    return np.asarray(np.sqrt((np.abs(apart) ** 2).sum(axis=axes)))
