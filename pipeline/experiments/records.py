"""The record of a run, ``runs/<run>/run.json``: what was run, on what, how long it took."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pipeline import __version__
from pipeline.config import ExperimentConfig
from pipeline.datasets import Card, find_card, origin
from pipeline.descriptors import DESCRIPTORS
from pipeline.errors import DatasetError
from pipeline.experiments.engine import ClassData, all_cells, distance_name, stream_seed
from pipeline.experiments.promises import guarantees, manifolds, statement
from pipeline.experiments.registry import made_by
from pipeline.experiments.sources import build_manifold
from pipeline.experiments.steps import labels_of, open_images, run_folder
from pipeline.geometry import MANIFOLDS
from pipeline.results import (
    ClassCount,
    DatasetNote,
    RunRecord,
    collect_versions,
    machine,
    read_record,
    write_record,
    write_rows,
)

Steps = Sequence[tuple[str, float]]
"""Each step with its wall-clock seconds."""


def write_run(
    config: ExperimentConfig, root: Path | None, out: Path, started: datetime, seconds: Steps
) -> Path:
    """Write the record of a run on images."""
    source = open_images(config, root)
    card, counts = source.card, source.counts(config.splits)
    classes = tuple(
        ClassCount(label, source.classes[label], counts[label])
        for label in labels_of(config, source)
    )
    note = _note(card, origin(card))
    return _write(
        config, note, classes, source.shape, root, out, started, seconds, facts=source.facts
    )


def write_simulated(
    config: ExperimentConfig, classes: Sequence[ClassData], out: Path, started: datetime, s: Steps
) -> Path:
    """Write the record of a run on simulated records, or on none."""
    counts = tuple(ClassCount(data.label, data.name, len(data.points)) for data in classes)
    note = DatasetNote(config.dataset, "made by the experiment itself", origin="simulated")
    return _write(config, note, counts, (), None, out, started, s)


def earlier_results(config: ExperimentConfig, out: Path) -> Path | None:
    """Return the table of a run of this name that had its data, None if there is none."""
    path = run_folder(config, out) / "run.json"
    if not path.is_file() or read_record(path).status != "ok":
        return None
    return out / "results" / f"{config.run_name}.parquet"


def write_missing(
    config: ExperimentConfig,
    root: Path | None,
    out: Path,
    started: datetime,
    reason: DatasetError,
) -> Path:
    """Write rows with status `data not available`, and a record that says how to get the data."""
    card = find_card(config.dataset)
    labels = range(len(card.classes)) if config.classes is None else config.classes
    cells = all_cells(config, labels)
    manifold = MANIFOLDS[config.manifold](k=DESCRIPTORS[config.descriptor].k)
    columns: dict[str, ArrayLike] = {
        "experiment": config.name,
        "dataset": config.dataset,
        "label": [cell.label for cell in cells],
        "class_name": [card.classes[cell.label] for cell in cells],
        "n": 0,
        "manifold": config.manifold,
        "descriptor": config.descriptor,
        "mechanism": [cell.series.mechanism for cell in cells],
        "series": [cell.series.series for cell in cells],
        "sampler": [cell.series.sampler for cell in cells],
        "definition": [cell.series.definition or config.definition for cell in cells],
        "budget": [cell.value for cell in cells],
        "sensitivity": np.inf,
        "footpoint": [cell.series.footpoint for cell in cells],
        "repetition": 0,
        "distance": [distance_name(cell.series, manifold) for cell in cells],
        "seed": np.array([stream_seed(config, cell.key) for cell in cells], dtype=np.uint64),
        "status": "data not available",
        "version": __version__,
    }
    path = write_rows(out / "results" / f"{config.run_name}.parquet", columns, metadata={})
    _write(config, _note(card, ""), (), (), root, out, started, (), reason=str(reason))
    return path


def _write(
    config: ExperimentConfig,
    note: DatasetNote,
    classes: tuple[ClassCount, ...],
    shape: tuple[int, ...],
    root: Path | None,
    out: Path,
    started: datetime,
    seconds: Steps,
    *,
    reason: str = "",
    facts: Sequence[str] = (),
) -> Path:
    sizes = {item.name: item.n for item in classes}
    run = RunRecord(
        experiment=config.name,
        title=config.title,
        dataset=note,
        classes=classes,
        image_shape=shape,
        config=config.model_dump(mode="json"),
        command=command(config, root),
        baseline=config.baseline,
        seed=config.seed,
        versions=collect_versions(),
        machine=machine(),
        steps=tuple(seconds),
        privacy=statement(config, sizes) if sizes else {},
        guarantees=guarantees(config, sizes) if sizes else {},
        unit=_unit(config),
        notes=tuple(
            filter(None, (config.paper and f"Reproduces {config.paper}.", *facts, *config.open))
        ),
        status="data not available" if reason else "ok",
        started=started.isoformat(timespec="milliseconds"),
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    if reason:
        run = replace(run, notes=(reason, *run.notes))
    return write_record(run_folder(config, out) / "run.json", run)


def _note(card: Card, origin: str) -> DatasetNote:
    return DatasetNote(card.name, card.title, card.licence, card.url, origin)


def command(
    config: ExperimentConfig,
    root: Path | None,
    out: Path | None = None,
    options: Sequence[str] | None = None,
) -> str:
    """Return what to type to run the same again, with the options that made `config`.

    Parameters
    ----------
    root : Path, optional
        The data root, where one was named.
    out : Path, optional
        The folder of results, where one was named.
    options : sequence of str, optional
        The options that made `config`, where they are known; else the shortest that make it.
    """
    simulated = config.source is not None or config.composition is not None
    words = ["covdp", "reproduce" if config.paper else "run"]
    if config.paper:
        words += [config.name, *(made_by(config) if options is None else options)]
    elif config.name != "main":
        words += ["--config", f"{config.name}.toml"]
    words += [] if simulated else ["--dataset", config.dataset]
    words += [] if config.paper else ["--seed", str(config.seed)]
    for option, folder in (("--data-root", None if simulated else root), ("--out", out)):
        words += [] if folder is None else [option, str(folder)]
    return shlex.join(words)


def _unit(config: ExperimentConfig) -> str:
    """Return what one record is."""
    if config.composition is not None:
        return "query"
    if config.source is None:
        return "image"
    if config.source.kind == "outlines":
        return "outline"
    spaces = [build_manifold(name, config.source.dimensions[0]) for name in manifolds(config)]
    kinds = {"matrix" if len(space.point_shape) == 2 else "point" for space in spaces}
    return kinds.pop() if len(kinds) == 1 else "record"
