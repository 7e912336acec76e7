"""One experiment on one dataset from its config to its table: what a task of a flow calls.

    images      fetch ─► describe ─► verify ─► draw each class ─► join ─► record
    simulated   simulate ─► draw or time each class ─► join ─► record

A run that was interrupted goes on where it stopped; one that is complete draws nothing.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pipeline import __version__
from pipeline.config import ExperimentConfig
from pipeline.errors import DatasetError
from pipeline.experiments import composition, records, steps
from pipeline.experiments.engine import ClassData, all_cells, run_cells
from pipeline.experiments.pictures import draw_outlines
from pipeline.experiments.sources import simulate
from pipeline.experiments.timing import time_cells
from pipeline.progress import counted
from pipeline.results import RowWriter


class Clock:
    """The steps of one run with their wall-clock seconds."""

    def __init__(self) -> None:
        self.started = datetime.now(UTC)
        self.seconds: list[tuple[str, float]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time the block under `name`."""
        started = time.perf_counter()
        yield
        self.seconds.append((name, time.perf_counter() - started))


def run_experiment(config: ExperimentConfig, root: Path | None, out: Path) -> Path:
    """Run one experiment on one dataset and return its table, ``OUT/results/<run>.parquet``.

    Images that cannot be had give rows with status `data not available` and no error.
    """
    if config.composition is not None:
        return _run_table(config, out)
    if config.source is not None:
        return _run_simulated(config, out)
    started = datetime.now(UTC)
    try:
        steps.fetch_images(config, root)
    except DatasetError as error:
        if (kept := records.earlier_results(config, out)) is None:
            return records.write_missing(config, root, out, started, error)
        raise DatasetError(f"{error}; {kept} of an earlier run stays as it is") from error
    return _run_images(config, root, out)


def _run_images(config: ExperimentConfig, root: Path | None, out: Path) -> Path:
    clock = Clock()
    with clock.step("images"):
        labels = steps.fetch_images(config, root)
    with clock.step("descriptors"):
        steps.describe_classes(config, root, out)
    with clock.step("bound"):
        steps.verify_bound(config, root, out)
    with clock.step("mechanisms"):
        for label in labels:
            steps.run_class(config, root, out, label)
    with clock.step("results"):
        path = steps.collect(config, root, out)
    records.write_run(config, root, out, clock.started, clock.seconds)
    return path


def _run_simulated(config: ExperimentConfig, out: Path) -> Path:
    if config.source is None:
        raise ValueError("a simulated experiment has a source")
    clock = Clock()
    with clock.step("records"):
        classes = simulate(config, config.source)
    cells = {cell.key: cell for cell in all_cells(config, [data.label for data, _ in classes])}
    writer = _writer(config, out, list(cells))
    pending = [cells[key] for key in writer.pending()]
    work: Callable[..., None] = time_cells if config.kind == "timing" else run_cells
    with clock.step("mechanisms"), counted(config.run_name, len(pending), "cells") as tick:
        for data, setting in classes:
            mine = [cell for cell in pending if cell.label == data.label]
            work(data, setting, mine, steps.written(writer, tick))
    with clock.step("results"):
        path = writer.finish()
    if config.source.kind == "outlines":
        draw_outlines(config, classes, steps.run_folder(config, out))
    of: list[ClassData] = [data for data, _ in classes]
    records.write_simulated(config, of, out, clock.started, clock.seconds)
    return path


def _run_table(config: ExperimentConfig, out: Path) -> Path:
    if config.composition is None:
        raise ValueError("a table of compositions has a composition")
    clock = Clock()
    entries = composition.entries(config, config.composition)
    writer = _writer(config, out, [entry.key for entry in entries])
    todo = set(writer.pending())
    pending = [entry for entry in entries if entry.key in todo]
    with clock.step("table"):
        composition.fill(
            config, config.composition, pending, lambda entry, rows: writer.write(entry.key, rows)
        )
        path = writer.finish()
    records.write_simulated(config, (), out, clock.started, clock.seconds)
    return path


def _writer(config: ExperimentConfig, out: Path, keys: list[str]) -> RowWriter:
    metadata = {"config": config.model_dump_json(), "version": __version__}
    return RowWriter(out / "results" / f"{config.run_name}.parquet", keys, metadata)
