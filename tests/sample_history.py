"""A ledger with many releases, of one drawn for real: the others are told from it."""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.datasets import open_dataset
from pipeline.ledger import Ledger, Reservation, init_ledger
from pipeline.privacy import GDP
from pipeline.publish import load_release, settle

CLASSES = ("<i>well</i>", "ill")
CARD = f'kind = "npz"\nlocal = true\nchannels = 1\nclasses = {json.dumps(CLASSES)}\n'
CONFIG = """\
name = "nightly"
title = "Ward <7>"
population = "ward"
dataset = "ward.toml"
labels_and_class_sizes_are_public = true
run_key = "2026-03-01"
budget = 4
"""


def write_ward(folder: Path) -> Path:
    """Write 40 real tiles of two classes, their card and a config, and return the config."""
    source = open_dataset("tiles")
    parts = [next(iter(source.chunks(label=label)))[:20] for label in (0, 2)]
    labels = np.repeat(np.arange(2, dtype=np.uint8), 20)
    np.savez(folder / "ward.npz", train_images=np.concatenate(parts), train_labels=labels)
    (folder / "ward.toml").write_text(CARD)
    (folder / "release.toml").write_text(CONFIG)
    return folder / "release.toml"


def draw_release(folder: Path) -> bytes:
    """Return the document of a release that is settled with a ledger of its own."""
    config = load_release(write_ward(folder))
    book = init_ledger(folder / "first.sqlite")
    book.set_budget("ward", GDP(9.0))
    return settle(config, book, folder)


def retold(content: bytes, run_key: str, *, gain: float = 1.0, **settings: Any) -> bytes:
    """Return a document as that of another run, its means those of brighter images."""
    document: dict[str, Any] = copy.deepcopy(json.loads(content))
    document["settings"] |= {"run_key": run_key, **settings}
    for row in document["classes"]:
        row["point"] = (np.array(row["point"]) * gain**2).tolist()
        row["predicted_error"] = 0.1
    return json.dumps(document, sort_keys=True).encode()


def commit(ledger: Ledger, population: str, results: Iterable[bytes]) -> None:
    """Commit results as releases of a population, in order."""
    ledger.set_budget(population, GDP(90.0))
    for number, result in enumerate(results):
        digest = ledger.digest([f"{population} {number}".encode()])
        held = ledger.reserve(
            population, "query", f"run {number}", contents={"0": digest}, cost=GDP(0.5)
        )
        assert isinstance(held, Reservation)
        ledger.commit(held, result)
