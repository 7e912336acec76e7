"""Hospitals with images, configs and accounts, which take part in one process."""

import json
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from covdp import open_dataset
from covdp.addons.partners import join
from covdp.addons.partners.join.hospital import Approval, approvals, approve, take_part
from covdp.addons.partners.join.study import Study
from covdp.errors import CovdpError
from covdp.ledger import Ledger, init_ledger
from covdp.privacy import GDP
from tests.addons.partners.join.hub import CLASSES, Hub, Line

NAMES = ("north", "south", "west")
CARD = f'kind = "npz"\nlocal = true\nchannels = 1\nclasses = {json.dumps(CLASSES)}\n'


def write_hospitals(folder: Path, names: Sequence[str] = NAMES, *, images: int = 220) -> Ledger:
    """Write images, card and config of each hospital, and one ledger with an account for each."""
    source = open_dataset("tiles")
    for place, name in enumerate(names):
        parts = [next(source.chunks(label=label))[place * images :][:images] for label in (0, 1)]
        home = folder / name
        home.mkdir()
        labels = np.repeat([0, 1], [len(part) for part in parts])[:, None]
        np.savez(home / f"{name}-card.npz", train_images=np.concatenate(parts), train_labels=labels)
        (home / f"{name}-card.toml").write_text(CARD)
        config = f'population = "{name}"\ndataset = "{name}-card.toml"\ndata_root = "."\n'
        (home / f"{name}.toml").write_text(f"{config}budget = 1.0\n")
    book = init_ledger(folder / "ledger.sqlite")
    for name in names:
        book.set_budget(name, GDP(2.0))
    return book


def approve_at(folder: Path, book: Ledger, study: Study, name: str) -> Approval:
    """Approve a study at one hospital."""
    config, out = folder / name / f"{name}.toml", folder / "out" / name
    return approve(study, name, config, book, out)[0]


def entries_of(book: Ledger, study: Study, name: str) -> dict[str, str]:
    """Return what a ledger keeps of a study at a hospital, but for its approval."""
    (mine,) = approvals(book, study.digest, name)
    with book.transaction(write=False) as tx:
        return {x: y for x, y in tx.state.words[mine.identity].items() if x != "approval"}


def run_all(
    study: str,
    hospitals: Iterable[str] = NAMES,
    *,
    hub: Hub | None = None,
    line: Callable[[Hub, str], Any] = Line,
) -> dict[str, Any]:
    """Return the document, or what was raised, of each hospital of a study, by its digest."""
    names, found = tuple(hospitals), dict[str, Any]()
    hub = hub or Hub(names)

    def run(name: str) -> None:
        with hub.lock:
            try:
                found[name] = take_part(study, name, line(hub, name))
            except Exception as error:
                found[name] = error
                hub.barrier.abort()

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def run_here(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Put an engine in place of NVFlare's, which runs studies in this process; return it."""
    ran = SimpleNamespace(studies=[], jobs=[], line=Line)

    def simulate(study: str, hospitals: Mapping[str, str]) -> None:
        ran.studies.append(study)
        found = run_all(study, hospitals, line=ran.line)
        for error in found.values():
            if isinstance(error, CovdpError):
                raise error

    def run(*words: Any) -> str:
        ran.jobs.append(words)
        return "job-1"

    ran.simulate, ran.run = simulate, run
    monkeypatch.setitem(sys.modules, "covdp.addons.partners.join.engine", ran)
    monkeypatch.setattr(join, "engine", ran, raising=False)
    return ran
