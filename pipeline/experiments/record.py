"""The record of a run, ``runs/<run>/run.json``: what was run, on what, how long it took.

And what came of a reproduction: which runs there are now, which had no data, and how to get them.
"""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pipeline import __version__
from pipeline.config import ExperimentConfig
from pipeline.datasets import Card, find_card, origin
from pipeline.datasets.source import Selection
from pipeline.descriptors import DESCRIPTORS
from pipeline.errors import DatasetError
from pipeline.experiments.driver import all_cells, distance_name, stream_seed
from pipeline.experiments.guarantees import guarantees, persons_of, statement, unit
from pipeline.experiments.kinds import drawn_labels
from pipeline.experiments.run import Run
from pipeline.experiments.simulated import SOURCES, class_title
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


def write_log(run: Run, started: datetime, seconds: Steps) -> Path:
    """Write the record of a run that has its rows."""
    config = run.config
    if not config.on_images:
        note = DatasetNote(config.dataset, "made by the experiment itself", origin="simulated")
        sizes = [(class_title(config, label), config.simulated[label][2]) for label in run.labels]
        counts = tuple(ClassCount(label, *size) for label, size in enumerate(sizes))
        return _write(run, note, counts, started, seconds)
    source = run.images
    n = source.units(config.splits)
    counts = tuple(ClassCount(label, source.classes[label], n[label]) for label in run.labels)
    note = _note(source.card, origin(source.card))
    facts = (*source.facts, *_persons(config, source.select(config.splits)))
    return _write(run, note, counts, started, seconds, shape=source.shape, facts=facts)


def write_missing(run: Run, started: datetime, reason: DatasetError) -> Path:
    """Write rows with status `data not available`, and a record that says how to get the data.

    Raises
    ------
    DatasetError
        When there is a table of an earlier run of this name that had its data: it stays.
    """
    config = run.config
    if run.log.is_file() and read_record(run.log).status == "ok":
        raise DatasetError(f"{reason}; {run.table} of an earlier run stays as it is") from reason
    card = find_card(config.dataset)
    cells = all_cells(config, drawn_labels(run))
    manifold = MANIFOLDS[config.manifold](k=DESCRIPTORS[config.descriptor].k)
    columns: dict[str, ArrayLike] = {
        "experiment": config.name,
        "dataset": config.dataset_name,
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
    write_rows(run.table, columns, metadata={})
    _write(run, _note(card, ""), (), started, (), reason=str(reason))
    return run.table


def _write(
    run: Run,
    note: DatasetNote,
    classes: tuple[ClassCount, ...],
    started: datetime,
    seconds: Steps,
    *,
    shape: tuple[int, ...] = (),
    facts: Sequence[str] = (),
    reason: str = "",
) -> Path:
    config, sizes = run.config, {item.name: item.n for item in classes}
    paper = config.paper and f"Reproduces {config.paper}."
    record = RunRecord(
        experiment=config.name,
        title=config.title,
        dataset=note,
        classes=classes,
        image_shape=shape,
        config=config.model_dump(mode="json"),
        command=command(run),
        baseline=config.baseline,
        seed=config.seed,
        versions=collect_versions(),
        machine=machine(),
        steps=tuple(seconds),
        privacy=statement(config, sizes) if sizes else {},
        guarantees=guarantees(config, sizes) if sizes else {},
        unit=_unit(config),
        notes=tuple(filter(None, (reason, paper, *facts, *config.open))),
        status="data not available" if reason else "ok",
        started=started.isoformat(timespec="milliseconds"),
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    return write_record(run.log, record)


def _note(card: Card, origin: str) -> DatasetNote:
    return DatasetNote(card.name, card.title, card.licence, card.url, origin)


def command(run: Run, out: Path | None = None) -> str:
    """Return what to type to run the same again, "" where that is not known.

    Parameters
    ----------
    out : Path, optional
        The folder of results, where one was named.
    """
    config = run.config
    if not config.words:
        return ""
    words = ["covdp", *config.words]
    words += ["--dataset", config.dataset] if config.on_images else []
    for option, folder in (("--data-root", config.on_images and run.root), ("--out", out)):
        words += [option, str(folder)] if folder else []
    return shlex.join(words)


def _persons(config: ExperimentConfig, chosen: Selection) -> tuple[str, ...]:
    """Say how many images are whose, which a run on public images may."""
    if persons_of(config) is None:
        return ()
    _, many = np.unique(np.stack([chosen.labels, chosen.units]), axis=1, return_counts=True)
    return (
        f"One record is one person: {many.sum():,} images make {len(many):,} records, of "
        f"{many.min()} to {many.max()} images each.",
    )


def _unit(config: ExperimentConfig) -> str:
    """Return what one record is."""
    if config.composition is not None:
        return "query"
    if config.scale:
        return "image"
    if config.source is None:
        return unit(config)
    if own := SOURCES[config.source.kind].unit:
        return own
    units = {getattr(MANIFOLDS[name], "unit", "point") for name in config.manifolds}
    return units.pop() if len(units) == 1 else "record"


class Outcome(NamedTuple):
    """What a person is told in the end.

    Attributes
    ----------
    lines : tuple of str
        What had no data, why, and the command that gets and runs it; then how many of each.
    without : tuple of str
        The experiments that ran on none of their datasets.
    runs : tuple of mapping
        The same for programs: run, whether it is done, why not, and the command that gets it.
    paths : mapping of str to Path
        Where results and report are.
    """

    lines: tuple[str, ...]
    without: tuple[str, ...]
    runs: tuple[Mapping[str, Any], ...]
    paths: Mapping[str, Path]


def outcome(runs: Sequence[Run], page: Path, out: Path | None) -> Outcome:
    """Read what the runs left behind.

    Parameters
    ----------
    page : Path
        The report.
    out : Path, optional
        The folder of results as it was given, for the commands.
    """
    lines, ran, told = list[str](), dict[str, bool](), list[Mapping[str, Any]]()
    for run in runs:
        record = read_record(run.log)
        done = record.status == "ok"
        ran[run.config.name] = ran.get(run.config.name, False) or done
        reason = fetch = None
        if not done:
            reason, fetch = (*record.notes, record.status)[0], command(run, out)
            lines.append(f"not run  {record.run}: {reason}")
            lines.append(f"         gets and runs it: {fetch}")
        told.append({"run": record.run, "done": done, "reason": reason, "command": fetch})
    missing = len(lines) // 2
    summary = f"{len(runs) - missing} run, {missing} not run"
    lines.append(f"summary  {summary}: no data" if missing else f"summary  {summary}")
    without = tuple(name for name, done in ran.items() if not done)
    paths = {"results": page.parent / "results", "report": page}
    return Outcome(tuple(lines), without, tuple(told), paths)
