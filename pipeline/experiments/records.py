"""The record of a run, ``runs/<run>/run.json``: what was run, on what, how long it took."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pipeline import __version__
from pipeline.config import ExperimentConfig
from pipeline.datasets import Card, find_card
from pipeline.errors import DatasetError, PrivacyError
from pipeline.experiments.engine import ClassData, all_cells, stream_seed
from pipeline.experiments.steps import labels_of, open_images, run_folder
from pipeline.privacy import privacy_statement
from pipeline.results import (
    ClassCount,
    DatasetNote,
    RunRecord,
    collect_versions,
    machine,
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
    where = "" if root is None else f" --data-root {root}"
    note = _note(card, _origin(card))
    return _write(config, note, classes, source.shape, where, out, started, seconds)


def write_simulated(
    config: ExperimentConfig, classes: Sequence[ClassData], out: Path, started: datetime, s: Steps
) -> Path:
    """Write the record of a run on simulated records, or on none."""
    counts = tuple(ClassCount(data.label, data.name, len(data.points)) for data in classes)
    note = DatasetNote(config.dataset, "made by the experiment itself", origin="simulated")
    return _write(config, note, counts, (), "", out, started, s)


def write_missing(
    config: ExperimentConfig, out: Path, started: datetime, reason: DatasetError
) -> Path:
    """Write rows with status `data not available`, and a record that says how to get the data."""
    card = find_card(config.dataset)
    labels = range(len(card.classes)) if config.classes is None else config.classes
    cells = all_cells(config, labels)
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
        "seed": np.array([stream_seed(config, cell.key) for cell in cells], dtype=np.uint64),
        "status": "data not available",
        "version": __version__,
    }
    path = write_rows(out / "results" / f"{config.run_name}.parquet", columns, metadata={})
    _write(config, _note(card, ""), (), (), "", out, started, (), reason=str(reason))
    return path


def _write(
    config: ExperimentConfig,
    note: DatasetNote,
    classes: tuple[ClassCount, ...],
    shape: tuple[int, ...],
    where: str,
    out: Path,
    started: datetime,
    seconds: Steps,
    *,
    reason: str = "",
) -> Path:
    run = RunRecord(
        experiment=config.name,
        title=config.title,
        dataset=note,
        classes=classes,
        image_shape=shape,
        config=config.model_dump(mode="json"),
        command=_command(config) + where,
        baseline=config.baseline,
        seed=config.seed,
        versions=collect_versions(),
        machine=machine(),
        steps=tuple(seconds),
        privacy=_statement(config, classes) if classes else {},
        notes=tuple(filter(None, (config.paper and f"Reproduces {config.paper}.", *config.open))),
        status="data not available" if reason else "ok",
        started=started.isoformat(timespec="milliseconds"),
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    if reason:
        run = replace(run, notes=(reason, *run.notes))
    return write_record(run_folder(config, out) / "run.json", run)


def _note(card: Card, origin: str) -> DatasetNote:
    return DatasetNote(card.name, card.title, card.licence, card.url, origin)


def _origin(card: Card) -> str:
    """Say how the images came here."""
    if card.kind == "tiles":
        return "shipped with scikit-image, cut on the fly"
    return "a file of your own" if card.local else "official files, digest checked"


def _command(config: ExperimentConfig) -> str:
    """Return what to type to run the same again."""
    if config.paper:
        of = "" if config.source or config.composition else f" --dataset {config.dataset}"
        return f"covdp reproduce {config.name}{of}"
    own = "" if config.name == "main" else f" --config {config.name}.toml"
    return f"covdp run{own} --dataset {config.dataset} --seed {config.seed}"


def _statement(config: ExperimentConfig, classes: Sequence[ClassCount]) -> dict[str, str]:
    """Return what one private mean at the largest budget guarantees, in words."""
    budget = config.budget(max(config.budgets), config.mechanisms[0])
    counts = {item.name: item.n for item in classes}
    try:
        return dict(privacy_statement(budget, n_by_class=counts).items())
    except PrivacyError as error:
        return {"Guarantee": f"none is certified: {error}"}
