"""One run from its config to its table: its steps, plain functions, here and under Prefect.

    images       fetch ─► describe ─► verify ─► select footpoints ─► release ─► write results
    simulated    select footpoints ─► release ─► write results
    tables       tabulate

A run that was interrupted goes on where it stopped; one that is complete draws nothing.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from covdp import __version__
from covdp.config import SeriesConfig
from covdp.errors import MissingError
from covdp.experiments.driver import AnyCell, ClassData, Footpoints, Setting, all_cells
from covdp.experiments.images import (
    Run,
    check_results,
    class_images,
    describe_classes,
    farthest_of,
    fetch_images,
    image_setting,
    keep_settings,
    verify_bound,
)
from covdp.experiments.kinds import EXPERIMENT_KINDS, drawn_labels, source_of
from covdp.experiments.record import write_log, write_missing
from covdp.experiments.usefulness import judged, measure_usefulness
from covdp.mean import SinglePlan, pays_footpoint
from covdp.progress import counted
from covdp.results import RowWriter


@dataclass(frozen=True)
class ClassSeries:
    """One series of an experiment on one class, which is drawn in one go.

    Attributes
    ----------
    label : int
        The class that its cells are of.
    name : str
        Name of the class.
    series : SeriesConfig
        Settings of the series.
    """

    label: int
    name: str
    series: SeriesConfig

    def __str__(self) -> str:
        """Return its name in sight of a user: "normal · EWG"."""
        return f"{self.name} · {self.series.series}"


class SelectedFootpoints(NamedTuple):
    """Private footpoints of a series on a class.

    Attributes
    ----------
    what : ClassSeries
        Series and class.
    cells : Footpoints
        Footpoints by the key of their cell.
    """

    what: ClassSeries
    cells: Footpoints


class DrawnCells(NamedTuple):
    """Number of cells of a series on a class that were drawn now, and are on disk.

    Attributes
    ----------
    what : ClassSeries
        Series and class.
    cells : int
        Number of cells.
    """

    what: ClassSeries
    cells: int


def class_series(run: Run) -> list[ClassSeries]:
    """Return every class and series of a run.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    """
    names = partial(_class_name, run)
    return [
        ClassSeries(label, names(label), series)
        for label in drawn_labels(run)
        for series in run.config.mechanisms
    ]


def with_footpoint(run: Run) -> list[ClassSeries]:
    """Return every class and series whose private footpoints are drawn before the means.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    """
    if EXPERIMENT_KINDS[run.config.kind].footpoints is None:
        return []
    plans = {item.series: item.plan for item in run.config.mechanisms}
    paid = {x for x, plan in plans.items() if isinstance(plan, SinglePlan) and pays_footpoint(plan)}
    return [what for what in class_series(run) if what.series.series in paid]


def beside(
    run: Run, selected: Sequence[SelectedFootpoints]
) -> tuple[list[ClassSeries], list[Footpoints | None]]:
    """Return every class and series of a run, and the footpoints of each, None where none are.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    selected : sequence of SelectedFootpoints
        Footpoints that were drawn.
    """
    cells, found = class_series(run), {str(item.what): item.cells for item in selected}
    return cells, [found.get(str(what)) for what in cells]


def _class_name(run: Run, label: int) -> str:
    if EXPERIMENT_KINDS[run.config.kind].together:
        return "all classes"
    source = source_of(run.config)
    return run.images.classes[label] if source is None else source.title(run.config, label)


ClassRecords: TypeAlias = tuple[Any, Setting]
"""Records of a class as its kind of experiment reads them, and their setting."""


def load_class(run: Run, label: int) -> ClassRecords:
    """Return the records of one class and its setting, as the kind of experiment reads them.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    label : int
        Label of the class.
    """
    return (EXPERIMENT_KINDS[run.config.kind].read or read_class)(run, label)


def select_footpoint(
    run: Run, what: ClassSeries, records: ClassRecords | None = None
) -> SelectedFootpoints:
    """Draw the private footpoints of a series on a class, at every budget that is not on disk.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    what : ClassSeries
        Series and class.
    records : ClassRecords, optional
        Result of `load_class`, which is loaded when left out.

    Returns
    -------
    SelectedFootpoints
        Private footpoints of all cells that were pending.
    """
    draw, pending = EXPERIMENT_KINDS[run.config.kind].footpoints, _pending(run, what)
    if draw is None or not pending:
        return SelectedFootpoints(what, {})
    return SelectedFootpoints(what, draw(*(records or load_class(run, what.label)), pending))


def release(
    run: Run,
    what: ClassSeries,
    footpoints: Footpoints | None = None,
    records: ClassRecords | None = None,
) -> DrawnCells:
    """Draw a series on a class, at every budget that is not on disk yet.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    what : ClassSeries
        Series and class.
    footpoints : Footpoints, optional
        Footpoints of `select_footpoint`; drawn with the means when left out.
    records : ClassRecords, optional
        Result of `load_class`, which is loaded when left out.

    Returns
    -------
    DrawnCells
        Number of cells that were drawn.
    """
    kind, writer, pending = EXPERIMENT_KINDS[run.config.kind], row_writer(run), _pending(run, what)
    if kind.cells is None or not pending:
        return DrawnCells(what, 0)
    with run.timed("mechanisms"):
        data, setting = records or load_class(run, what.label)
        work = partial(kind.cells, footpoints=footpoints) if footpoints else kind.cells
        farthest = farthest_of(run, None if kind.together else what.label)
        with counted(data.name, len(pending), "cells") as tick:
            for cell, rows in work(data, setting, pending):
                writer.write(cell.key, rows | {"farthest": farthest})
                tick(1)
    return DrawnCells(what, len(pending))


def draw_class(run: Run, label: int) -> None:
    """Select the footpoints and release all series on one class, whose records are loaded once.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    label : int
        Label of the class.
    """
    records, paid = None, {str(what) for what in with_footpoint(run)}
    for what in class_series(run):
        if what.label == label and _pending(run, what):
            records = records or load_class(run, label)
            chosen = select_footpoint(run, what, records).cells if str(what) in paid else None
            release(run, what, chosen, records)


def _pending(run: Run, what: ClassSeries) -> list[AnyCell]:
    todo, name = set(row_writer(run).pending()), what.series.series
    cells = all_cells(run.config, [what.label])
    return [cell for cell in cells if cell.key in todo and cell.series.series == name]


def read_class(run: Run, label: int) -> tuple[ClassData, Setting]:
    """Return the records of one class, and its setting.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    label : int
        Label of the class.
    """
    if (source := source_of(run.config)) is not None:
        return source.read(run.config, label)
    return class_images(run, label), image_setting(run)


def write_results(run: Run, drawn: int | None = None) -> Path:
    """Join the rows of all classes into one table, and write the record of the run.

    Pictures are drawn, and the use of the private means is measured, where the kind of experiment
    asks for it. The stored descriptors are dropped. Where the table was complete, the record of the
    start that drew it stays.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    drawn : int, optional
        Number of cells that were drawn now; all of them when left out.

    Returns
    -------
    Path
        Path of the table.
    """
    config = run.config
    with run.timed("results"):
        if (source := source_of(config)) is not None and source.pictures is not None:
            source.pictures(*read_class(run, run.labels[0]), run.folder)
        if judged(config):
            measure_usefulness(run, row_writer(run).fingerprint)
        row_writer(run).finish()
        if config.on_images:
            run.store.clear()
    if not run.log.is_file() or run.log.stat().st_mtime_ns < run.table.stat().st_mtime_ns:
        total = len(all_cells(config, drawn_labels(run)))
        there = 0 if drawn is None else total - drawn
        note = f"{there} of {total} cells were there from an earlier start, whose time is not "
        write_log(run, [f"{note}counted."] if there else [])
    return run.table


def tabulate(run: Run) -> Path:
    """Compute every cell of a table that is not on disk yet, one at a time, and join them.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.

    Returns
    -------
    Path
        Path of the table.
    """
    kind = EXPERIMENT_KINDS[run.config.kind]
    name, table = kind.table or ("", lambda config: {})
    with run.timed(name):
        cells = table(run.config)
        writer = row_writer(run, cells)
        pending = writer.pending()
        with counted(run.config.name, len(pending), "cells") as tick:
            for key in pending:
                writer.write(key, cells[key]())
                tick(1)
        writer.finish()
    if not run.log.is_file() or run.log.stat().st_mtime_ns < run.table.stat().st_mtime_ns:
        write_log(run, [])
    return run.table


class ExperimentStep(NamedTuple):
    """One step of a run, shown under its name.

    Attributes
    ----------
    name : str
        Name of the step, as it is shown.
    work : callable
        Function of the run; with `over`, of the run and a label.
    over : tuple of int, optional
        Labels for which it is done, one by one.
    parallel : bool
        True if labels may be worked on side by side.
    """

    name: str
    work: Callable[..., Any]
    over: tuple[int, ...] | None = None
    parallel: bool = False

    def calls(self, run: Run) -> list[tuple[Any, ...]]:
        """Return the arguments of each call of the work.

        Parameters
        ----------
        run : Run
            Experiment on one dataset, with its images and results.
        """
        return [(run,)] if self.over is None else [(run, label) for label in self.over]


def steps_of(run: Run) -> tuple[ExperimentStep, ...]:
    """Return the steps of a run, in order.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    """
    config, kind = run.config, EXPERIMENT_KINDS[run.config.kind]
    if kind.table is not None:
        return (ExperimentStep(kind.table[0], tabulate),)
    steps = list[ExperimentStep]()
    if config.on_images:
        steps = [
            ExperimentStep("images", fetch_images),
            ExperimentStep("descriptors", lambda run: describe_classes(run, run.images)),
            ExperimentStep("bound", lambda run: verify_bound(run, run.stored)),
        ]
    steps.append(ExperimentStep("mechanisms", draw_class, drawn_labels(run), kind.parallel))
    return (*steps, ExperimentStep("results", write_results))


def perform(run: Run, step: ExperimentStep) -> None:
    """Do one step in this process.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    step : ExperimentStep
        Step of the run.
    """
    for call in step.calls(run):
        step.work(*call)


def run_experiment(
    run: Run, perform: Callable[[Run, ExperimentStep], None] = perform, *, needs_data: bool = False
) -> Path:
    """Do all steps of a run.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    perform : callable
        Function that does one step.
    needs_data : bool
        True to raise the error of images that cannot be had; else their rows have status `data not
        available`.

    Returns
    -------
    Path
        Path of the table.
    """
    run = Run(run.config, run.root, run.out)  # what an earlier one opened is no longer there
    begin_run(run)
    for step in steps_of(run):
        try:
            if step.work is draw_class:
                pending = len(row_writer(run).pending())
                with run.timed(step.name):
                    perform(run, step)
            elif step.work is write_results:
                perform(run, step._replace(work=partial(write_results, drawn=pending)))
            else:
                perform(run, step)
        except MissingError as error:
            if needs_data or step.work is not fetch_images:
                raise
            return write_missing(run, error)
    return run.table


def begin_run(run: Run) -> None:
    """Refuse a folder with results of other settings, and write the settings of simulated records.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.

    Raises
    ------
    ConfigError
        See `check_results`.
    """
    if run.config.on_images:
        check_results(run)
    else:
        keep_settings(run)


def row_writer(run: Run, cells: Iterable[str] | None = None) -> RowWriter:
    """Return the writer of a run's table: the same for every task of the run.

    Simulated records depend on the config and the version alone.

    Parameters
    ----------
    run : Run
        Experiment on one dataset, with its images and results.
    cells : iterable of str, optional
        Keys of the cells; those of classes, series and budgets when left out.
    """
    config = run.config
    metadata = {"config": config.model_dump_json(), "version": __version__}
    if config.on_images:
        records = hashlib.sha256(run.stored.fingerprint.encode())
        metadata["records"] = records.hexdigest()
    if cells is None:
        cells = [cell.key for cell in all_cells(config, drawn_labels(run))]
    return RowWriter(run.table, list(cells), metadata)
