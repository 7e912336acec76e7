"""One run from its config to its table: the list of its steps, here and under Prefect.

    images       images ─► descriptors ─► bound ─► mechanisms (─► usefulness) ─► results
    simulated    mechanisms (─► pictures) ─► results
    composition  table
    scale        passes

A run that was interrupted goes on where it stopped; one that is complete draws nothing.
"""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import __version__
from pipeline.errors import MissingError
from pipeline.experiments.driver import ClassData, Setting, all_cells
from pipeline.experiments.images import (
    Run,
    class_images,
    describe_classes,
    fetch_images,
    image_setting,
    verify_bound,
)
from pipeline.experiments.kinds import EXPERIMENT_KINDS, drawn_labels
from pipeline.experiments.record import write_log, write_missing
from pipeline.experiments.simulated import SOURCES, simulate
from pipeline.experiments.usefulness import judged, measure_usefulness
from pipeline.progress import counted
from pipeline.results import RowWriter


class ExperimentStep(NamedTuple):
    """One step of a run, shown and timed under its name.

    Attributes
    ----------
    work : callable
        Takes the run; with `over`, the run and a label.
    over : tuple of int, optional
        The labels it is done for, one by one.
    parallel : bool
        Whether labels may be worked on side by side.
    """

    name: str
    work: Callable[..., Any]
    over: tuple[int, ...] | None = None
    parallel: bool = False

    def calls(self, run: Run) -> list[tuple[Any, ...]]:
        """Return the arguments of each call of the work."""
        return [(run,)] if self.over is None else [(run, label) for label in self.over]


def calls_by_mechanism(run: Run, step: ExperimentStep) -> list[tuple[Any, ...]]:
    """Return the calls of a step, those that draw split into one for each series."""
    if step.work is not draw_class:
        return step.calls(run)
    series = [item.series for item in run.config.mechanisms]
    return [(*call, name) for call in step.calls(run) for name in series]


def steps_of(run: Run) -> tuple[ExperimentStep, ...]:
    """Return the steps of a run, in order."""
    config, kind = run.config, EXPERIMENT_KINDS[run.config.kind]
    if kind.table is not None:
        return (ExperimentStep(kind.table[0], fill_table),)
    steps = list[ExperimentStep]()
    if config.on_images:
        steps = [
            ExperimentStep("images", fetch_images),
            ExperimentStep("descriptors", describe_classes),
            ExperimentStep("bound", verify_bound),
        ]
    steps.append(ExperimentStep("mechanisms", draw_class, drawn_labels(run), kind.parallel))
    if config.source is not None and SOURCES[config.source.kind].pictures is not None:
        steps.append(ExperimentStep("pictures", draw_pictures))
    if judged(config):
        steps.append(ExperimentStep("usefulness", judge))
    return (*steps, ExperimentStep("results", collect))


def perform(run: Run, step: ExperimentStep) -> None:
    """Do one step in this process."""
    for call in step.calls(run):
        step.work(*call)


def run_experiment(
    run: Run, perform: Callable[[Run, ExperimentStep], None] = perform, *, needs_data: bool = False
) -> Path:
    """Do all steps of a run, each by `perform`, and return its table.

    Images that cannot be had give rows with status `data not available`, or, with `needs_data`,
    raise their error. Where the table was complete, the record of the start that drew it stays.
    """
    started, seconds, notes = datetime.now(UTC), list[tuple[str, float]](), list[str]()
    run = replace(run)  # what an earlier one opened and stored is no longer there
    for step in steps_of(run):
        before = time.perf_counter()
        if step.work is draw_class:
            writer = row_writer(run)
            if there := len(writer.cells) - len(writer.pending()):
                notes = [
                    f"{there} of {len(writer.cells)} cells were there from an earlier start, whose "
                    "time is not counted."
                ]
        try:
            perform(run, step)
        except MissingError as error:
            if needs_data or step.work is not fetch_images:
                raise
            return write_missing(run, started, error)
        seconds.append((step.name, time.perf_counter() - before))
    if not run.log.is_file() or run.log.stat().st_mtime_ns < run.table.stat().st_mtime_ns:
        write_log(run, started, seconds, notes)
    return run.table


def fill_table(run: Run) -> None:
    """Compute every cell that is not on disk yet, one at a time, and join them."""
    kind = EXPERIMENT_KINDS[run.config.kind]
    cells = kind.table[1](run.config) if kind.table else {}
    writer = row_writer(run, cells)
    pending = writer.pending()
    with counted(run.config.name, len(pending), "cells") as tick:
        for key in pending:
            writer.write(key, cells[key]())
            tick(1)
    writer.finish()


def read_class(run: Run, label: int) -> tuple[ClassData, Setting]:
    """Return the records of one class, and what is public of it."""
    config = run.config
    if config.on_images:
        return class_images(run, label), image_setting(run)
    return simulate(config, label)


def draw_class(run: Run, label: int, series: str | None = None) -> None:
    """Run every budget of one class, of one series or of all, that is not on disk yet."""
    kind = EXPERIMENT_KINDS[run.config.kind]
    data, setting = (kind.read or read_class)(run, label)
    writer = row_writer(run)
    todo = set(writer.pending())
    cells = [cell for cell in all_cells(run.config, [label]) if cell.key in todo]
    pending = [cell for cell in cells if series in (None, cell.series.series)]
    with counted(data.name, len(pending), "cells") as tick:
        for cell, rows in kind.cells(data, setting, pending) if kind.cells else ():
            writer.write(cell.key, rows)
            tick(1)


def draw_pictures(run: Run) -> None:
    """Draw the pictures of the first class."""
    source = run.config.source
    if source is not None and (draw := SOURCES[source.kind].pictures) is not None:
        draw(*read_class(run, run.labels[0]), run.folder)


def judge(run: Run) -> None:
    """Measure what the private means of a run are good for."""
    measure_usefulness(run, row_writer(run).fingerprint)


def collect(run: Run) -> None:
    """Join the rows of all classes into one table; drop what is stored of images."""
    row_writer(run).finish()
    if run.config.on_images:
        run.store.clear()


def row_writer(run: Run, cells: Iterable[str] | None = None) -> RowWriter:
    """Return the writer of a run's table: the same for every task of the run.

    Its cells are those of classes, series and budgets, where no others are named.
    Simulated records depend on the config and the version alone.
    """
    config = run.config
    metadata = {"config": config.model_dump_json(), "version": __version__}
    if config.on_images:
        records = hashlib.sha256(run.stored.fingerprint.encode())
        metadata["records"] = records.hexdigest()
    if cells is None:
        cells = [cell.key for cell in all_cells(config, drawn_labels(run))]
    return RowWriter(run.table, list(cells), metadata)
