"""The steps of one experiment on one dataset, each from paths to a path.

    fetch ─► describe ─► verify ─► run each class ─► collect

`flows` wraps each in a Prefect task; called in order they are the whole experiment without Prefect.
"""

import hashlib
import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import __version__
from pipeline.arrays import FloatArray
from pipeline.config import ExperimentConfig, known
from pipeline.datasets import Card, ImageSource, find_card, open_dataset
from pipeline.descriptors import DESCRIPTORS, Domain, describe, domain, require, verify
from pipeline.errors import ConfigError
from pipeline.experiments.engine import Cell, ClassData, Setting, all_cells, run_cells
from pipeline.figures import montage
from pipeline.files import atomic_path, make_folder
from pipeline.geometry import MANIFOLDS
from pipeline.geometry.covariances import covariances_of
from pipeline.mechanisms import MECHANISMS, refusal
from pipeline.progress import counted, passing
from pipeline.results import (
    RowWriter,
    write_bound,
)

SAMPLES = 24
"""Images in the montage of a class."""


def check(config: ExperimentConfig) -> None:
    """Refuse, before anything is computed, names and combinations that mean nothing.

    Raises
    ------
    ConfigError, DatasetError
        One line: what was asked, why it means nothing, what to choose.
    """
    _require_public(find_card(config.dataset))
    known("descriptor", config.descriptor, DESCRIPTORS, "the README")
    known("manifold", config.manifold, MANIFOLDS, "the README")
    if covariances_of(MANIFOLDS[config.manifold]) is None:
        spd = ", ".join(name for name, kind in MANIFOLDS.items() if covariances_of(kind))
        raise ConfigError(
            f"covariance descriptors are SPD matrices and do not lie on {config.manifold!r}; "
            f"choose one of {spd}"
        )
    for series in config.mechanisms:
        names = [(series.mechanism, series.sampler)]
        if series.footpoint != "origin":
            names.append((series.footpoint_mechanism, "exact"))
        for name, sampler in names:
            known("mechanism", name, MECHANISMS, "`covdp mechanisms`")
            definition = series.definition or config.definition
            reason = refusal(name, definition, config.manifold, sampler)
            if reason is not None:
                raise ConfigError(f"series {series.series!r}: {reason}")


def _require_public(card: Card) -> None:
    """Refuse images that nobody has declared public: what a run writes tells of them."""
    if not card.public:
        raise ConfigError(
            f"a run writes sample pictures of {card.name}, its true means and the errors against "
            "them, so its card must say public = true, if that is so; images that must not leak "
            "are for `covdp release`, which does not need it"
        )


def run_folder(config: ExperimentConfig, out: Path) -> Path:
    """Return the folder of a run's record, bound and samples, ``OUT/runs/<run>``."""
    return out / "runs" / config.run_name


def open_images(config: ExperimentConfig, root: Path | None) -> ImageSource:
    """Open the images of an experiment; they are fetched and checked first if they must be."""
    _require_public(find_card(config.dataset))
    return open_dataset(config.dataset, root, size=config.size)


def labels_of(config: ExperimentConfig, source: ImageSource) -> tuple[int, ...]:
    """Return the labels an experiment runs on."""
    return tuple(range(len(source.classes))) if config.classes is None else config.classes


def fetch_images(config: ExperimentConfig, root: Path | None) -> tuple[int, ...]:
    """Have the images on disk with the right digest; return the labels to run on.

    Raises
    ------
    DatasetError
        When they cannot be had, or a class has none in the chosen splits.
    """
    source = open_images(config, root)
    labels = labels_of(config, source)
    for label in labels:
        source.chunks(config.splits, label)
    return labels


def public_domain(config: ExperimentConfig, source: ImageSource) -> Domain:
    """Return the bound on the descriptors: a function of the config and of the images' size."""
    height, width = source.shape[:2]
    return domain(
        config.descriptor, height=height, width=width, eta=config.eta, manifold=config.manifold
    )


def describe_classes(config: ExperimentConfig, root: Path | None, out: Path) -> Path:
    """Write the descriptors of each class, shape (n, k, k), and a montage of some of its images.

    Returns the folder of ``<label>.npy``; the montages go to ``samples/<label>.png`` beside it.
    """
    source = open_images(config, root)
    descriptors = make_folder(run_folder(config, out) / "descriptors")
    samples = make_folder(run_folder(config, out) / "samples")
    counts = source.counts(config.splits)
    for label in labels_of(config, source):
        images = source.chunks(split=config.splits, label=label)
        chunks = passing(images, source.classes[label], counts[label], "images")
        first = next(chunks)
        parts = [describe(chunk, config.descriptor, config.eta) for chunk in chain([first], chunks)]
        with atomic_path(descriptors / f"{label}.npy") as temporary, temporary.open("wb") as stream:
            np.save(stream, np.concatenate(parts))
        with atomic_path(samples / f"{label}.png") as temporary:
            spread = np.linspace(0, len(first) - 1, min(SAMPLES, len(first))).astype(int)
            temporary.write_bytes(montage(first[spread], columns=8))
    return descriptors


def verify_bound(config: ExperimentConfig, root: Path | None, out: Path) -> Path:
    """Compare every descriptor with the proven radius and write ``bound.parquet``.

    Raises
    ------
    DomainError
        When a descriptor lies outside: nothing may be drawn from a wrong sensitivity.
    """
    source = open_images(config, root)
    limit, labels = public_domain(config, source), labels_of(config, source)
    points = [_points(config, out, label) for label in labels]
    of_record = np.repeat(labels, [len(part) for part in points])
    rows = verify(np.concatenate(points), of_record, limit, source.classes)
    bounds = [row for row in rows if row.label in labels]
    path = write_bound(run_folder(config, out) / "bound.parquet", bounds)
    require(bounds)
    return path


def run_class(config: ExperimentConfig, root: Path | None, out: Path, label: int) -> Path:
    """Run every series and budget of one class that is not on disk yet."""
    source = open_images(config, root)
    setting = Setting(
        config,
        public_domain(config, source),
        MANIFOLDS[config.manifold](k=DESCRIPTORS[config.descriptor].k),
    )
    writer = row_writer(config, source, out)
    data = ClassData(label, source.classes[label], _points(config, out, label))
    todo = set(writer.pending())
    pending = [cell for cell in all_cells(config, [label]) if cell.key in todo]
    with counted(data.name, len(pending), "cells") as tick:
        run_cells(data, setting, pending, written(writer, tick))
    return writer.path


def written(
    writer: RowWriter, tick: Callable[[int], None]
) -> Callable[[Cell, dict[str, Any]], None]:
    """Return what a cell's rows are handed to: they are written, and the cell is counted."""

    def write(cell: Cell, rows: dict[str, Any]) -> None:
        writer.write(cell.key, rows)
        tick(1)

    return write


def collect(config: ExperimentConfig, root: Path | None, out: Path) -> Path:
    """Join the rows of all classes into ``OUT/results/<run>.parquet``; drop the descriptors."""
    path = row_writer(config, open_images(config, root), out).finish()
    shutil.rmtree(run_folder(config, out) / "descriptors")
    return path


def row_writer(config: ExperimentConfig, source: ImageSource, out: Path) -> RowWriter:
    """Return the writer of a run's table: the same for every task of the run."""
    folder = run_folder(config, out) / "descriptors"
    labels = labels_of(config, source)
    digest = hashlib.sha256(b"".join((folder / f"{x}.npy").read_bytes() for x in labels))
    return RowWriter(
        out / "results" / f"{config.run_name}.parquet",
        [cell.key for cell in all_cells(config, labels)],
        {
            "config": config.model_dump_json(),
            "descriptors": digest.hexdigest(),
            "version": __version__,
        },
    )


def _points(config: ExperimentConfig, out: Path, label: int) -> FloatArray:
    points: FloatArray = np.load(run_folder(config, out) / "descriptors" / f"{label}.npy")
    return points
