"""The Monte Carlo driver: every (class, series, budget) of one experiment on one dataset.

    records ─► Cell: all its repetitions, from a stream of its own ─► columns of its rows

A `Cell` holds all its repetitions, drawn in one call from a stream of its own, so any row can be
recomputed from its `seed` and `repetition` columns alone, and an interrupted run goes on where it
stopped with the same numbers. What a record is where images are of persons, differs by series
(`UNITS`): four ways, to be compared, of which only the first is what a release does.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby, product
from operator import attrgetter
from time import perf_counter
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from covdp import __version__, mean
from covdp.arrays import FloatArray
from covdp.config import ExperimentConfig, PersonSeries, SeriesConfig
from covdp.errors import ConvergenceError, DomainError, UndefinedError, require_known
from covdp.geometry import Manifold, Point
from covdp.geometry.manifold import EmbeddedManifold
from covdp.mean import DrawnFootpoints, MeanSetup, Records, Release, SinglePlan
from covdp.mean.sensitivity import frechet_sensitivity
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.noise import FloatNoise
from covdp.mechanisms.wrapping import error_bound
from covdp.parallel import side_by_side
from covdp.privacy import (
    Budget,
    compose,
    for_one_of_group,
    main_parameter,
    second_parameter,
    share_of,
)


class ClassData(NamedTuple):
    """The images of one class, or its simulated records.

    Attributes
    ----------
    label, name
        Of the class.
    points : array, shape (n, *point_shape)
    persons : array, shape (n,), optional
        Whose each point is, those of a person one after another, where the record is the person.
    """

    label: int
    name: str
    points: NDArray[Any]
    persons: NDArray[np.int64] | None = None

    @property
    def most(self) -> int:
        """The most points of one person."""
        if self.persons is None:
            return 1
        return int(np.unique(self.persons, return_counts=True)[1].max())


@dataclass(frozen=True)
class Unit:
    """One way to make records of the images of persons.

    Attributes
    ----------
    points : callable
        Points, persons and manifold → the records.
    group : bool
        Whether noise is for all records of the person with most of them.
    protects : bool
        Whether a budget spent so protects a person.
    """

    points: Callable[[Point, NDArray[np.int64], Manifold], Point]
    group: bool = False
    protects: bool = True


def _each(points: Point, persons: NDArray[np.int64], manifold: Manifold) -> Point:
    return points


def _first(points: Point, persons: NDArray[np.int64], manifold: Manifold) -> Point:
    """Return the first image of each person: a function of that person's images alone."""
    return np.asarray(points[np.unique(persons, return_index=True)[1]])


UNITS = {
    "persons": Unit(mean.person_records),
    "one image": Unit(_first),
    "images in groups": Unit(_each, group=True),
    "images": Unit(_each, protects=False),
}
"""What `records` of a series may be; where the privacy unit is the image, records are images."""

RADIUS_LEVEL = 0.95
"""Confidence of the regions whose radius is written down."""


class ErrorSeries(PersonSeries):
    """A series whose means are held against the true ones.

    Attributes
    ----------
    measure : {"distance", "frobenius", "vech", "chord"}
        How the error is measured: in the manifold, or as stored.
    aligned : bool
        Whether outlines are rotated onto each other first.
    footpoint_distance : float, optional
        Of footpoint ``at``.
    """

    measure: Literal["distance", "frobenius", "vech", "chord"] = "distance"
    aligned: bool = True
    footpoint_distance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class ErrorExperiment(ExperimentConfig):
    """An experiment whose series are `ErrorSeries`."""

    mechanisms: tuple[ErrorSeries, ...] = ()


def unit_of(series: SeriesConfig) -> str:
    """Return the name in `UNITS` of what a series makes records of."""
    return series.records if isinstance(series, PersonSeries) else "persons"


def check_units(config: ExperimentConfig) -> None:
    """Refuse records that are not known."""
    for series in config.mechanisms:
        way = "ours-persons.toml has one of each"
        require_known("kind of records", unit_of(series), UNITS, way)


class Setting(NamedTuple):
    """What all cells of a class share: the config, the public domain and the geometry."""

    config: ExperimentConfig
    domain: mean.Domain
    manifold: Manifold

    def repetitions(self, series: SeriesConfig) -> int:
        """Return how often a cell of `series` is drawn."""
        return series.repetitions or self.config.repetitions


def admitted(data: ClassData, setting: Setting, unit: str = "persons") -> Records:
    """Return the records of a class as a series wants them, checked and placed."""
    points = data.points
    if data.persons is not None:
        points = UNITS[unit].points(points, data.persons, setting.manifold)
    return mean.admit(points, domain=setting.domain, manifold=setting.manifold)


def budget_of(budget: Budget, most: int, unit: str) -> Budget:
    """Return what one record may cost so that a person with `most` costs `budget`, where wanted."""
    return for_one_of_group(budget, most) if UNITS[unit].group else budget


Series = TypeVar("Series", bound=SeriesConfig, covariant=True)


class Cell(NamedTuple, Generic[Series]):
    """One class, series and budget, with all repetitions."""

    label: int
    series: Series
    value: float

    @property
    def key(self) -> str:
        """Name of the cell, unique in a run."""
        return f"{self.label}/{self.series.series}/{self.value!r}"


AnyCell: TypeAlias = Cell[SeriesConfig]
"""A cell of any kind of experiment."""


CellRows: TypeAlias = Iterator[tuple[AnyCell, dict[str, Any]]]
"""Cells that are done, each with the columns of its rows."""


Rows: TypeAlias = Callable[[], dict[str, Any]]
"""What computes the rows of a cell that is of no class's records."""


@dataclass(frozen=True)
class ExperimentKind:
    """What is done in an experiment of one kind.

    Attributes
    ----------
    in_words : str
        What a paper says was done.
    cells : callable, optional
        Takes what was read, what is public and the cells that are pending; yields each as it is
        done, with the columns of its rows.
    parallel : bool
        Whether classes may be worked on side by side, and other runs beside it.
    read : callable, optional
        Run and label → what is worked on, and what is public of it; the records of a class, where
        it is left out.
    config : type of ExperimentConfig
        Its settings, with those of its series.
    on_images : bool
        Whether it must have images: simulated records will not do.
    together : bool
        Whether a cell is of all classes, under the label of the first.
    footpoints : callable, optional
        Draws the private footpoints of pending cells before, and `cells` then takes them.
    useful : bool
        Whether it is asked what its private means are good for.
    check : callable
        Refuses, in one line, settings that mean nothing.
    table : (str, callable), optional
        In place of all that: the name of the only step, and config → what computes the rows of each
        cell, by the cell's name.
    """

    in_words: str
    cells: Callable[..., CellRows] | None = None
    parallel: bool = True
    read: Callable[[Any, int], tuple[Any, Setting]] | None = None
    config: type[ExperimentConfig] = ExperimentConfig
    footpoints: "Callable[[ClassData, Setting, Sequence[AnyCell]], Footpoints] | None" = None
    on_images: bool = False
    together: bool = False
    useful: bool = False
    check: Callable[[Any], None] = lambda config: None
    table: tuple[str, Callable[[ExperimentConfig], Mapping[str, Rows]]] | None = None

    @property
    def series(self) -> type[SeriesConfig]:
        """Settings of a series."""
        model: type[SeriesConfig] = get_args(self.config.model_fields["mechanisms"].annotation)[0]
        return model


def all_cells(config: ExperimentConfig, labels: Iterable[int]) -> list[AnyCell]:
    """Return the cells of an experiment in the order of its table."""
    return [Cell(*each) for each in product(labels, config.mechanisms, config.budgets)]


def stream_seed(config: ExperimentConfig, key: str) -> int:
    """Return the seed of one stream, a function of the experiment's seed and of public names."""
    words = [zlib.crc32(part.encode()) for part in (config.name, config.dataset_name, key)]
    state = np.random.SeedSequence([config.seed, *words]).generate_state(1, np.uint64)
    return int(state[0])


Work: TypeAlias = Callable[[Any, Setting, Cell[Any], np.random.Generator], dict[str, Any]]
"""What was read, what is public, a cell and its stream → the columns of all its repetitions."""


def one_by_one(
    work: Work, ready: Callable[[Any, Setting], Any] = lambda data, setting: data
) -> Callable[[Any, Setting, Sequence[AnyCell]], CellRows]:
    """Return what computes pending cells of a class one after another, each by `work`.

    `ready` does what all of them share.
    """

    def cells(data: Any, setting: Setting, pending: Sequence[AnyCell]) -> CellRows:
        shared = ready(data, setting)
        for cell in pending:
            rng = np.random.default_rng(stream_seed(setting.config, cell.key))
            started = perf_counter()
            values = work(shared, setting, cell, rng)
            yield cell, finished(data.name, setting, cell, values, perf_counter() - started)

    return cells


def finished(
    name: str, setting: Setting, cell: AnyCell, values: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Return the columns of a cell whose repetitions were all done in so many seconds."""
    setup = describe_cell(name, int(np.max(values["n"])), cell, setting)
    each = seconds / setting.repetitions(cell.series)
    return setup | {"status": "ok", "acceptance": 1.0, "seconds": each, **values}


class CellFootpoints(NamedTuple):
    """The private footpoints of a cell, and the stream of the cell, which its means go on with."""

    points: DrawnFootpoints
    rng: np.random.Generator


Footpoints: TypeAlias = Mapping[str, CellFootpoints]
"""Private footpoints by the key of their cell; a cell without a law of its footpoint has none."""


def prepared_series(
    data: ClassData, setting: Setting, pending: Sequence[AnyCell], known: Footpoints
) -> Iterator[tuple[MeanSetup, list[AnyCell]]]:
    """Yield what the pending cells of each series share, and these cells.

    What footpoints are drawn around is left out where all of them are `known`.
    """
    records = cache(partial(admitted, data, setting))
    for series, group in groupby(pending, key=attrgetter("series")):
        own, plan = list(group), series.plan
        if all(cell.key in known for cell in own):
            yield MeanSetup(records(unit_of(series)), plan, None), own
            continue
        seed = stream_seed(setting.config, f"{data.label}/{series.series}/records")
        rng, size = np.random.default_rng(seed), setting.repetitions(series)
        placed = records(unit_of(series))
        yield mean.prepare(placed, plan, size=size, rng=rng, nonprivate=True), own


def draw_footpoints(data: ClassData, setting: Setting, pending: Sequence[AnyCell]) -> Footpoints:
    """Draw the private footpoints of the `pending` cells of a class that pay for them."""
    drawn = dict[str, CellFootpoints]()
    for prepared, own in prepared_series(data, setting, pending, drawn):
        for cell in own:
            rng = np.random.default_rng(stream_seed(setting.config, cell.key))
            size, budget = setting.repetitions(cell.series), record_budget(data, cell, setting)
            try:
                with np.errstate(over="ignore", invalid="ignore"):  # as in `columns`
                    source = FloatNoise(rng)
                    points = mean.select_footpoints(prepared, budget, noise=source, size=size)
            except (UndefinedError, DomainError, ConvergenceError):
                continue  # `columns` meets it again, and says so
            if points is not None:
                drawn[cell.key] = CellFootpoints(points, rng)
    return drawn


def run_cells(
    data: ClassData,
    setting: Setting,
    pending: Sequence[AnyCell],
    footpoints: Footpoints | None = None,
) -> CellRows:
    """Compute the `pending` cells of one class and yield each one's columns.

    What depends on the records alone is computed once, and what depends on a series once for all
    its budgets, which are drawn side by side: one class may have most of the records.
    `footpoints` are those of `draw_footpoints`; without them each cell draws its own, the same.
    """
    known = footpoints or {}
    for prepared, own in prepared_series(data, setting, pending, known):
        with side_by_side() as submit:
            jobs = [
                (cell, submit(columns, data, prepared, cell, setting, known.get(cell.key)))
                for cell in own
            ]
            for cell, job in jobs:
                yield cell, job.result()


def record_budget(data: ClassData, cell: AnyCell, setting: Setting) -> Budget:
    """Return what one record of a cell may cost."""
    budget = setting.config.budget(cell.value, cell.series)
    return budget_of(budget, data.most, unit_of(cell.series))


def columns(
    data: ClassData,
    prepared: MeanSetup,
    cell: AnyCell,
    setting: Setting,
    footpoints: CellFootpoints | None = None,
) -> dict[str, Any]:
    """Draw one cell and return its rows.

    Status `undefined` where the law has no density; `not representable` where, on a curved
    manifold, the noise is so wide that doubles cannot hold a point, or its own eigenvalues.
    """
    setup = describe_cell(data.name, prepared.records.n, cell, setting)
    budget = record_budget(data, cell, setting)
    if isinstance(prepared.plan, SinglePlan):
        setup |= split_columns(prepared.plan, budget, ())
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # found by the checks of the geometry
            points, rng = footpoints or (None, np.random.default_rng(setup["seed"]))
            release, known_distance = mean.draw(
                prepared,
                budget,
                noise=FloatNoise(rng),
                size=setting.repetitions(cell.series),
                footpoint=points,
            )
            distance = measure(prepared.records, release, known_distance, cell.series)
            where = bound_columns(prepared, release)
    except UndefinedError:
        return setup | {"status": "undefined"}
    except (DomainError, ConvergenceError):
        if setting.manifold.flat:
            raise
        return setup | {"status": "not representable"}
    if not setting.manifold.flat and not np.isfinite(distance).all():
        return setup | {"status": "not representable"}
    embedded = MECHANISMS[cell.series.mechanism].embedded
    how = measure_of(cell.series)
    exact = how == "distance" or (embedded and how != "vech")
    return setup | {
        "status": "ok",
        **split_columns(prepared.plan, budget, release.steps),
        "sigma": release.sigma if isinstance(prepared.plan, SinglePlan) else np.nan,
        "error": distance,
        "expected_error": (release.expected_error if exact else None) or np.nan,
        "expected_square": (release.expected_square if exact else None) or np.nan,
        "seconds": release.seconds,
        **release.diagnostics._asdict(),
        **where,
    }


def bound_columns(prepared: MeanSetup, release: Release) -> dict[str, FloatArray]:
    """Return how far each footpoint is from the true mean, and what that bounds; of others none."""
    records, plan = prepared.records, prepared.plan
    family = MECHANISMS[plan.mechanism] if isinstance(plan, SinglePlan) else None
    if family is None or family.noise_norms is None:
        return {}
    space = records.space
    base = space.origin if release.footpoint is None else release.footpoint
    distance = np.broadcast_to(space.dist(base, records.frechet.point), len(release.outputs))
    norms = family.noise_norms(release.sigma, space.dim)
    bound = error_bound(norms, distance, space)
    return {"footpoint_distance": distance, "error_bound": bound}


def named_columns(config: ExperimentConfig, label: int, name: str, key: str) -> dict[str, Any]:
    """Return the columns that tell whose rows these are, and the seed of the stream named `key`."""
    return {
        "experiment": config.name,
        "dataset": config.dataset_name,
        "label": label,
        "class_name": name,
        "seed": stream_seed(config, key),
        "version": __version__,
    }


def cell_columns(
    config: ExperimentConfig, cell: AnyCell, name: str, manifold: Manifold
) -> dict[str, Any]:
    """Return the columns of a cell that its config says, and the name of its class."""
    series = cell.series
    return named_columns(config, cell.label, name, cell.key) | {
        "manifold": manifold.name,
        "dim": manifold.dim,
        "descriptor": config.descriptor if config.source is None else "none",
        "mechanism": series.mechanism,
        "series": series.series,
        "sampler": series.sampler,
        "definition": config.definition_of(series),
        "budget": cell.value,
        **footpoint_columns(series.plan),
        "distance": distance_name(series, manifold),
    }


def footpoint_columns(plan: mean.Plan) -> dict[str, Any]:
    """Return the columns that say where the footpoint of a plan comes from, and its share.

    The steps of an adaptive plan have their shares in `split_columns`.
    """
    if not isinstance(plan, SinglePlan):
        return {"footpoint": "adaptive", "footpoint_mechanism": "ewg", "footpoint_share": np.nan}
    if not mean.pays_footpoint(plan):
        where = "origin" if plan.private else plan.footpoint
        return {"footpoint": where, "footpoint_mechanism": "none", "footpoint_share": 0.0}
    return {
        "footpoint": plan.footpoint,
        "footpoint_mechanism": plan.footpoint_mechanism,
        "footpoint_share": plan.footpoint_share,
    }


def split_columns(plan: mean.Plan, budget: Budget, steps: Sequence[mean.Step]) -> dict[str, Any]:
    """Return the columns that say how a budget is split between footpoint and mean.

    Of an adaptive plan the counts, which find the radii, count as the footpoint, and its three
    clipped means as the mean. What was not drawn has no `steps`.
    """
    if isinstance(plan, SinglePlan):
        share, rest = mean.split_budget(budget, plan)
        sigma = steps[0].sigma if share is not None and steps else np.nan
        paid = np.nan if share is None else main_parameter(share)
        split = {"footpoint_budget": paid, "footpoint_sigma": sigma}
        return split | {"mean_budget": main_parameter(rest)}
    looks, means = (
        [step.budget for step in steps if step.name.startswith("mean") == is_mean]
        for is_mean in (False, True)
    )
    found, kept = compose(looks), compose(means)
    columns = {"footpoint_share": share_of(found, compose([*looks, *means]))}
    if found.name != budget.name:  # the steps of an (ε, δ) budget are counted in GDP
        return columns
    columns |= {"footpoint_budget": main_parameter(found), "mean_budget": main_parameter(kept)}
    return columns


def describe_cell(name: str, n: int, cell: AnyCell, setting: Setting) -> dict[str, Any]:
    """Return the columns that are known before anything is drawn."""
    config, series, manifold = setting.config, cell.series, setting.manifold
    plan = series.plan if isinstance(series.plan, SinglePlan) else SinglePlan()
    family = MECHANISMS[series.mechanism]
    return cell_columns(config, cell, name, manifold) | {
        "n": n,
        **second_parameter(config.budget(cell.value, series)),
        "radius_bound": setting.domain.radius,
        "diameter_bound": setting.domain.diameter,
        "sensitivity": frechet_sensitivity(setting.domain, max(1, n), plan, family, manifold),
        "repetition": np.arange(setting.repetitions(series)),
    }


MEASURES = {"frobenius": "Frobenius", "vech": "half-vectorisation", "chord": "chord"}
"""What the distances of `ErrorSeries.measure` are called, but for the manifold's own."""


def measure_of(series: SeriesConfig) -> str:
    """Return how the errors of a series are measured."""
    return series.measure if isinstance(series, ErrorSeries) else "distance"


def distance_name(series: SeriesConfig, manifold: Manifold) -> str:
    """Return in which distance the errors of a series are measured, as `measure` measures them."""
    if (how := measure_of(series)) != "distance":
        return MEASURES[how]
    if MECHANISMS[series.mechanism].embedded and isinstance(manifold, EmbeddedManifold):
        return manifold.embedding_metric
    return manifold.metric


def measure(
    records: Records, release: Release, distances: FloatArray | None, series: SeriesConfig
) -> FloatArray:
    """Return how far the outputs are from the true mean, as the series measures it.

    `distances` are given where the points cannot tell.

    Outputs of embedded mechanisms leave the manifold: their distance is that of matrices or vectors
    as they are stored.
    """
    manifold = records.manifold
    embedded = MECHANISMS[series.mechanism].embedded
    how = measure_of(series)
    if how == "distance" and not embedded:
        if distances is not None:
            return distances
        return release.space.dist(records.frechet.point, release.outputs)
    apart = release.points - records.on_manifold(records.frechet.point)
    if how == "vech":
        rows, columns = np.tril_indices(apart.shape[-1])
        return np.asarray(np.linalg.norm(apart[..., rows, columns], axis=-1))
    axes = tuple(range(-len(manifold.point_shape), 0))
    return np.asarray(np.sqrt((np.abs(apart) ** 2).sum(axis=axes)))
