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
    label : int
        Label of the class.
    name : str
        Name of the class.
    points : array, shape (n, *point_shape)
        Points, or images' descriptors, one after another.
    persons : array, shape (n,), optional
        Number of the person of each point, those of a person one after another; None where the
        record is not the person.
    """

    label: int
    name: str
    points: NDArray[Any]
    persons: NDArray[np.int64] | None = None

    @property
    def most(self) -> int:
        """Largest number of points of one person."""
        if self.persons is None:
            return 1
        return int(np.unique(self.persons, return_counts=True)[1].max())


@dataclass(frozen=True)
class Unit:
    """One way to make records of the images of persons.

    Attributes
    ----------
    points : callable
        Function of points, persons and manifold to the records.
    group : bool
        True if noise is for all records of the person with most of them.
    protects : bool
        True if a budget spent so protects a person.
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
"""Kinds of `records` of a series; where the privacy unit is the image, records are images."""

RADIUS_LEVEL = 0.95
"""Confidence of the regions whose radius is written down."""


class ErrorSeries(PersonSeries):
    """A series whose means are held against the true ones.

    Attributes
    ----------
    measure : {"distance", "frobenius", "vech", "chord"}
        Measure of the error: the distance of the manifold, or one of points as stored.
    aligned : bool
        True if outlines are rotated onto each other first.
    footpoint_distance : float, optional
        Distance of footpoint ``at`` from the true mean.
    """

    measure: Literal["distance", "frobenius", "vech", "chord"] = "distance"
    aligned: bool = True
    footpoint_distance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class ErrorExperiment(ExperimentConfig):
    """An experiment whose series are `ErrorSeries`."""

    mechanisms: tuple[ErrorSeries, ...] = ()


def unit_of(series: SeriesConfig) -> str:
    """Return the name in `UNITS` of the records that a series makes.

    Parameters
    ----------
    series : SeriesConfig
        Settings of the series.
    """
    return series.records if isinstance(series, PersonSeries) else "persons"


def check_units(config: ExperimentConfig) -> None:
    """Refuse records that are not known.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    """
    for series in config.mechanisms:
        way = "ours-persons.toml has one of each"
        require_known("kind of records", unit_of(series), UNITS, way)


class Setting(NamedTuple):
    """Facts that all cells of a class share: the config, the public domain and the geometry.

    Attributes
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    domain : mean.Domain
        Public domain of the records.
    manifold : Manifold
        Manifold of the means.
    """

    config: ExperimentConfig
    domain: mean.Domain
    manifold: Manifold

    def repetitions(self, series: SeriesConfig) -> int:
        """Return the number of draws of a cell of a series.

        Parameters
        ----------
        series : SeriesConfig
            Settings of the series.
        """
        return series.repetitions or self.config.repetitions


def admitted(data: ClassData, setting: Setting, unit: str = "persons") -> Records:
    """Return the records of a class as a series wants them, checked and placed.

    Parameters
    ----------
    data : ClassData
        Images of the class, or its simulated records.
    setting : Setting
        Config, public domain and geometry of the class.
    unit : str
        Name of the kind of records, in `UNITS`.
    """
    points = data.points
    if data.persons is not None:
        points = UNITS[unit].points(points, data.persons, setting.manifold)
    return mean.admit(points, domain=setting.domain, manifold=setting.manifold)


def budget_of(budget: Budget, most: int, unit: str) -> Budget:
    """Return the budget of one record, so that a person with `most` costs `budget`, where wanted.

    Parameters
    ----------
    budget : Budget
        Budget of a person.
    most : int
        Largest number of records of one person.
    unit : str
        Name of the kind of records, in `UNITS`.
    """
    return for_one_of_group(budget, most) if UNITS[unit].group else budget


Series = TypeVar("Series", bound=SeriesConfig, covariant=True)


class Cell(NamedTuple, Generic[Series]):
    """One class, series and budget, with all repetitions.

    Attributes
    ----------
    label : int
        Label of the class.
    series : Series
        Settings of the series.
    value : float
        Main parameter of the budget.
    """

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
"""Function that computes the rows of a cell without records of a class."""


@dataclass(frozen=True)
class ExperimentKind:
    """Work of experiments of one kind.

    Attributes
    ----------
    in_words : str
        Sentence on the work, as a paper says what was done.
    cells : callable, optional
        Function of the data, the setting and the pending cells; yields each cell as it is done,
        with the columns of its rows.
    parallel : bool
        True if classes may be worked on side by side, and other runs beside it.
    read : callable, optional
        Function of run and label to the data of a class and its setting; the records of a class,
        where it is left out.
    config : type of ExperimentConfig
        Its settings, with those of its series.
    footpoints : callable, optional
        Function that draws the private footpoints of pending cells before, which `cells` then
        takes.
    on_images : bool
        True if images are needed: simulated records will not do.
    together : bool
        True if a cell is of all classes, under the label of the first.
    useful : bool
        True if the use of its private means is measured.
    check : callable
        Function that refuses, in one line, settings that mean nothing.
    table : (str, callable), optional
        Name of the only step, and function of the config to the work of each cell by its name;
        stands in place of all that.
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
    """Return the cells of an experiment in the order of its table.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    labels : iterable of int
        Labels of the classes.
    """
    return [Cell(*each) for each in product(labels, config.mechanisms, config.budgets)]


def stream_seed(config: ExperimentConfig, key: str) -> int:
    """Return the seed of one stream, a function of the experiment's seed and of public names.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    key : str
        Public name of the stream.
    """
    words = [zlib.crc32(part.encode()) for part in (config.name, config.dataset_name, key)]
    state = np.random.SeedSequence([config.seed, *words]).generate_state(1, np.uint64)
    return int(state[0])


Work: TypeAlias = Callable[[Any, Setting, Cell[Any], np.random.Generator], dict[str, Any]]
"""Function of data, setting, a cell and its stream to the columns of all its repetitions."""


def one_by_one(
    work: Work, ready: Callable[[Any, Setting], Any] = lambda data, setting: data
) -> Callable[[Any, Setting, Sequence[AnyCell]], CellRows]:
    """Return a function that computes pending cells of a class one after another, each by `work`.

    Parameters
    ----------
    work : Work
        Function of the data, the setting, a cell and its stream to the columns.
    ready : callable
        Function of data and setting to what all cells share, which `work` takes as its data.
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
    """Return the columns of a cell whose repetitions were all done in so many seconds.

    Parameters
    ----------
    name : str
        Name of the class.
    setting : Setting
        Config, public domain and geometry of the class.
    cell : AnyCell
        Class, series and budget.
    values : mapping of str to object
        Columns that were computed, with the number of records ``n``.
    seconds : float
        Wall-clock time of all repetitions, in seconds.
    """
    setup = describe_cell(name, int(np.max(values["n"])), cell, setting)
    each = seconds / setting.repetitions(cell.series)
    return setup | {"status": "ok", "acceptance": 1.0, "seconds": each, **values}


class CellFootpoints(NamedTuple):
    """Private footpoints of a cell, and the stream of the cell, which its means go on with.

    Attributes
    ----------
    points : DrawnFootpoints
        Footpoints, one for each repetition.
    rng : numpy.random.Generator
        Stream of the cell.
    """

    points: DrawnFootpoints
    rng: np.random.Generator


Footpoints: TypeAlias = Mapping[str, CellFootpoints]
"""Private footpoints by the key of their cell; a cell without a law of its footpoint has none."""


def prepared_series(
    data: ClassData, setting: Setting, pending: Sequence[AnyCell], known: Footpoints
) -> Iterator[tuple[MeanSetup, list[AnyCell]]]:
    """Yield the prepared records of each series, and its pending cells.

    Centres of footpoints are left out where all of them are `known`.

    Parameters
    ----------
    data : ClassData
        Images of the class, or its simulated records.
    setting : Setting
        Config, public domain and geometry of the class.
    pending : sequence of AnyCell
        Cells that are to be drawn.
    known : Footpoints
        Private footpoints that are drawn already, by the key of their cell.
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
    """Draw the private footpoints of the `pending` cells of a class that pay for them.

    Parameters
    ----------
    data : ClassData
        Images of the class, or its simulated records.
    setting : Setting
        Config, public domain and geometry of the class.
    pending : sequence of AnyCell
        Cells that are to be drawn.

    Returns
    -------
    Footpoints
        Private footpoints by the key of their cell; a cell without a law of its footpoint has none.
    """
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

    Computations on the records alone are made once, and those of a series once for all its budgets,
    which are drawn side by side: one class may have most of the records.

    Parameters
    ----------
    data : ClassData
        Images of the class, or its simulated records.
    setting : Setting
        Config, public domain and geometry of the class.
    pending : sequence of AnyCell
        Cells that are to be drawn.
    footpoints : Footpoints, optional
        Result of `draw_footpoints`; without it each cell draws its own, the same.

    Returns
    -------
    tuple
        Cell, and the columns of its rows.
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
    """Return the budget of one record of a cell.

    Parameters
    ----------
    data : ClassData
        Images of the class, or its simulated records.
    cell : AnyCell
        Class, series and budget.
    setting : Setting
        Config, public domain and geometry of the class.
    """
    budget = setting.config.budget(cell.value, cell.series)
    return budget_of(budget, data.most, unit_of(cell.series))


def columns(
    data: ClassData,
    prepared: MeanSetup,
    cell: AnyCell,
    setting: Setting,
    footpoints: CellFootpoints | None = None,
) -> dict[str, Any]:
    """Draw all repetitions of one cell.

    Status `undefined` where the law has no density; `not representable` where, on a curved
    manifold, the noise is so wide that doubles cannot hold a point, or its own eigenvalues.

    Parameters
    ----------
    data : ClassData
        Images of the class, or its simulated records.
    prepared : MeanSetup
        Records of the class, ready for draws of the series.
    cell : AnyCell
        Class, series and budget.
    setting : Setting
        Config, public domain and geometry of the class.
    footpoints : CellFootpoints, optional
        Private footpoints of the cell, if they are drawn already.

    Returns
    -------
    dict of str to object
        Columns of the rows, by their names.
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
    """Return distances of footpoints to the true mean, and bounds of them; nothing for others.

    Parameters
    ----------
    prepared : MeanSetup
        Records, ready for draws of a plan.
    release : Release
        Release of a cell, all of its repetitions.
    """
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
    """Return the columns of names, and the seed of the stream named `key`.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    label : int
        Label of the class.
    name : str
        Name of the class.
    key : str
        Public name of the stream.
    """
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
    """Return the columns of a cell that follow from its config, and the name of its class.

    Parameters
    ----------
    config : ExperimentConfig
        Experiment on one dataset.
    cell : AnyCell
        Class, series and budget.
    name : str
        Name of the class.
    manifold : Manifold
        Manifold of the points.
    """
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
    """Return the columns of a plan's footpoint: its source, mechanism and share.

    The steps of an adaptive plan have their shares in `split_columns`.

    Parameters
    ----------
    plan : mean.Plan
        Plan of the private mean.
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
    """Return the columns of the split of a budget between footpoint and mean.

    Of an adaptive plan the counts, which find the radii, count as the footpoint, and its three
    clipped means as the mean.

    Parameters
    ----------
    plan : mean.Plan
        Plan of the private mean.
    budget : Budget
        Budget of one record.
    steps : sequence of mean.Step
        Steps that were drawn; none before a draw.
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
    """Return the columns that are known before anything is drawn.

    Parameters
    ----------
    name : str
        Name of the class.
    n : int
        Number of records.
    cell : AnyCell
        Class, series and budget.
    setting : Setting
        Config, public domain and geometry of the class.
    """
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
"""Names of the distances of `ErrorSeries.measure`, but for the manifold's own."""


def measure_of(series: SeriesConfig) -> str:
    """Return the measure of the errors of a series.

    Parameters
    ----------
    series : SeriesConfig
        Settings of the series.
    """
    return series.measure if isinstance(series, ErrorSeries) else "distance"


def distance_name(series: SeriesConfig, manifold: Manifold) -> str:
    """Return the name of the distance of a series' errors, as `measure` measures them.

    Parameters
    ----------
    series : SeriesConfig
        Settings of the series.
    manifold : Manifold
        Manifold of the points.
    """
    if (how := measure_of(series)) != "distance":
        return MEASURES[how]
    if MECHANISMS[series.mechanism].embedded and isinstance(manifold, EmbeddedManifold):
        return manifold.embedding_metric
    return manifold.metric


def measure(
    records: Records, release: Release, distances: FloatArray | None, series: SeriesConfig
) -> FloatArray:
    """Return the distances of the outputs from the true mean, in the measure of the series.

    Outputs of embedded mechanisms leave the manifold: their distance is that of matrices or vectors
    as they are stored.

    Parameters
    ----------
    records : Records
        Records of the class.
    release : Release
        Release of a cell, all of its repetitions.
    distances : array or None, shape (r,)
        Distances that are known from the draw, where the points cannot tell.
    series : SeriesConfig
        Settings of the series.
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
