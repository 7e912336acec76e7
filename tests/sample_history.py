"""A ledger with many releases, of one drawn for real: the others are told from it."""

import copy
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sample_nights import reserve

from covdp.datasets import open_dataset
from covdp.descriptors import describe, domain
from covdp.geometry import vecd
from covdp.ledger import Ledger, Reservation, init_ledger
from covdp.mechanisms import FloatNoise
from covdp.privacy import GDP
from covdp.publish import load_release, release_once
from covdp.publish.release import PublicFacts, serialised
from tests.tools.addons import addon

commit_night = addon("nights.ledger:commit_night")
open_stream = addon("nights.ledger:open_stream")
make_night = addon("nights.night:make_night")
read_stream = addon("nights.schema:read_stream")
Night = addon("nights.stream:Night")
empty_state = addon("nights.stream:empty_state")
release_night = addon("nights.stream:release_night")
ClassHistory = addon("nights.transcript:ClassHistory")

CLASSES = ("<i>well</i>", "ill")
CARD = f'kind = "npz"\nlocal = true\nchannels = 1\nclasses = {json.dumps(CLASSES)}\n'
CONFIG = """\
name = "nightly"
title = "Ward <7>"
population = "ward"
dataset = "ward.toml"
labels = "public"
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
    return release_once(config, book, folder)


def retold(content: bytes, run_key: str, *, gain: float = 1.0, **settings: Any) -> bytes:
    """Return a document as that of another run, its means of brighter images and little noise."""
    document: dict[str, Any] = copy.deepcopy(json.loads(content))
    document["settings"] |= {"run_key": run_key, **settings}
    for row in document["classes"]:
        row["point"] = (np.array(row["point"]) * gain**2).tolist()
        brighter = 2.0 * np.log(gain) * vecd(np.eye(len(row["point"])))
        row["coordinates"] = (row["coordinates"] + brighter).tolist()
        row |= {"predicted_error": 0.1, "observed": None}
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


def draw_nights(
    folder: Path, days: Sequence[str], noise: np.random.Generator, *, mu: float = 60.0
) -> list[bytes]:
    """Return the documents of nights of a stream of the ward, three images of each class a night.

    Units wait until there are eight of a class: the third night opens, the fourth begins an epoch.
    At `mu` of 60 all means since have bands, at 3 none, as more than half of the records are
    clipped.
    """
    path = write_ward(folder)
    config = CONFIG.replace("budget = 4\n", f"budget = {mu}\n")
    path.write_text(f"{config}[stream]\nhorizon = 40\nopening = {7.9 * mu}\n")
    book = init_ledger(folder / "nights.sqlite")
    book.set_budget("ward", GDP(2.0 * mu))
    opened = open_stream(book, "ward", "nightly", "query", horizon=40, cost=GDP(mu))
    config = load_release(path, opened=True)
    with np.load(folder / "ward.npz") as file:
        images = file["train_images"]
    classes = tuple((label, name, 20) for label, name in enumerate(CLASSES))
    public = PublicFacts(config, domain("oct5", height=28, width=28), classes)
    stream = read_stream(public.settings())
    known = {label: (empty_state(15), tuple[Night, ...]()) for label in range(2)}
    documents = []
    for number, day in enumerate(days):
        for label, (sums, nights) in known.items():
            points = describe(images[20 * label + 3 * (number % 6) :][:3])
            night, sums = release_night(stream, nights, sums, points, noise=FloatNoise(noise))
            known[label] = sums, (*nights, night)
        held = reserve(book, opened, day, [day.encode()], ["0"])
        assert held is not None
        histories = [
            ClassHistory(label, CLASSES[label], stream, nights)
            for label, (_, nights) in known.items()
        ]
        tonight = replace(public, config=config.model_copy(update={"run_key": day}))
        documents.append(serialised(make_night(tonight, opened, held, histories)))
        commit_night(book, held, documents[-1])
    return documents
