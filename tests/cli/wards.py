"""A ward, and the arguments of each command on it."""

import json
import os
import pty
import re
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from covdp.cli import main, releases
from covdp.experiments import MAIN
from covdp.ledger import api, init_ledger, open_ledger
from covdp.ledger.keys import signed
from covdp.privacy import GDP
from covdp.progress import Level, say
from covdp.publish import load_release, release_once
from tests.inference.entries import entry, observed
from tests.publish.documents import document

ARGUMENTS = {
    "run": "--config few.toml --dataset ward.toml --out ran",
    "reproduce": "few.toml --dataset ward.toml --no-chains --out reproduced",
    "report": "ran",
    "describe": "--dataset ward.toml --store described",
    "plan": "--config nightly.toml --n a=40 --n b=40",
    "check": "--dataset ward.toml --out looked",
    "start": "ward.toml --population ward-9 --total 2 --budget 0.5",
    "release": "--config nightly.toml --run-key tonight --out released",
    "serve": "--config nightly.toml --out served",
    "history": "--out history",
    "schema": "",
    "export": "m.json --to csv --out exported",
    "compare": "a.json b.json --out compared",
    "combine": "a.json b.json --out combined",
    "harmonise": "a.json b.json --out maps.json",
    "match": "m.json --dataset ward.toml --out matched",
    "verify": "m.json",
    "passport": "m.json --out passport",
    "datasets": "",
    "card": "table.csv",
    "descriptors": "",
    "mechanisms": "",
    "audit": "--mechanism tangent-gaussian --trials 1000 --out audited",
    "completion": "bash",
    "status": "",
    "ledger init": "",
    "ledger set-budget": "ward-7 --total 9",
    "ledger show": "",
    "ledger history": "",
    "ledger key": "",
    "ledger sign": "m.json --out signed.json",
    "ledger confirm-restored": "",
    "join admit": "kit",
    "join approve": "study.toml --config solo.toml --out joined",
    "join run": "study.toml --simulate solo.toml --out joined",
    "join status": "",
    "join withdraw": "study.toml",
}
"""What each command is given; a new one is not tested before it has a line here, and so fails."""
BARS = {
    "run": ("descriptors", "report"),
    "reproduce": ("mechanisms", "report"),
    "describe": ("describing",),
    "check": ("checking",),
    "release": ("describing",),
}
"""What turns while it works."""


class Shown(NamedTuple):
    """How a command ended, and what its terminal showed."""

    code: int
    text: str


def on_terminal(monkeypatch: pytest.MonkeyPatch, *tokens: str) -> Shown:
    """Run a command with a terminal of 100 columns as its standard output and standard error."""
    ours, theirs = pty.openpty()
    shown, end = bytearray(), b"\0this is the end\0"

    def read() -> None:
        with suppress(OSError):
            while not shown.endswith(end):  # what was started may hold the other end open
                shown.extend(os.read(ours, 4096))

    reader = threading.Thread(target=read)
    reader.start()
    kept = os.dup(1), os.dup(2)
    try:
        with os.fdopen(theirs, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
            patch.setenv("TERM", "xterm")
            patch.setenv("COLUMNS", "100")
            for number, name in ((1, "stdout"), (2, "stderr")):
                os.dup2(theirs, number)
                patch.setattr(sys, name, stream)
            try:
                code = main(list(tokens))
            finally:
                say(Level.QUIET)  # lets go of the terminal
                stream.flush()
                os.write(theirs, end)
                reader.join()
    finally:
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(ours)
    text = bytes(shown).removesuffix(end).decode()
    return Shown(code, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with what every command needs: images, cards, configs, a ledger, documents."""
    monkeypatch.chdir(tmp_path)
    for name, place in (("DATA", "."), ("LEDGER", "ledger.sqlite"), ("STORE", "stores")):
        monkeypatch.setenv(f"COVDP_{name}", str(tmp_path / place))
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    images = np.random.default_rng(0).integers(0, 256, (80, 12, 12), dtype=np.uint8)
    np.savez("ward.npz", train_images=images, train_labels=np.arange(80) % 2)
    card = 'kind = "npz"\nlocal = true\npublic = true\nchannels = 1\nclasses = ["a", "b"]\n'
    Path("ward.toml").write_text(card)
    few = re.sub(r"budgets = .*", "budgets = [1.0]", MAIN.read_text(encoding="utf-8"))
    Path("few.toml").write_text(few.replace("repetitions = 30", "repetitions = 2"))
    Path("nightly.toml").write_text(
        'name = "nightly"\npopulation = "ward-7"\ndataset = "ward.toml"\nbudget = 0.5\n'
        'labels = "public"\n'
    )
    init_ledger("ledger.sqlite").set_budget("ward-7", GDP(2.0))
    for seed, name in enumerate("ab"):
        document(Path(f"{name}.json"), seed)
        Path(f"{name}.pgm").write_bytes(b"P5 12 12 255\n" + images[seed].tobytes())
    Path("table.csv").write_text("file,diagnosis\na.pgm,a\nb.pgm,b\n")
    return tmp_path


def prepare(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make what a command needs besides; nights that it would serve never come."""
    if name == "report":
        assert main(["run", *ARGUMENTS["run"].split()]) == 0  # what is reported on
    if name == "history":
        monday = load_release(Path("nightly.toml"), run_key="monday")
        release_once(monday, open_ledger("ledger.sqlite"), None)
    if name == "harmonise":
        other = json.loads(Path("b.json").read_text())
        for row in other["classes"]:
            row |= entry(observed(base=observed().base + 0.5))
        Path("b.json").write_text(json.dumps(other))
    if name == "ledger sign":  # as an earlier version committed it
        monkeypatch.setattr(api, "signed", lambda key, content, date=None: content)
    if name in ("match", "export", "verify", "passport", "ledger sign"):
        account = open_ledger("ledger.sqlite")
        account.set_budget("ward-8", GDP(20.0))
        text = Path("nightly.toml").read_text().replace("ward-7", "ward-8").replace("0.5", "20.0")
        Path("once.toml").write_text(text)
        once = load_release(Path("once.toml"), run_key="monday")
        Path("m.json").write_bytes(release_once(once, account, None))
    if name == "ledger sign":
        monkeypatch.setattr(api, "signed", signed)
    if name == "join admit":
        Path("kit/local").mkdir(parents=True)
        Path("kit/local/resources.json.default").write_text("{}")
        rights = '{"permissions": {"lead": {}, "project_admin": {}}}'
        Path("kit/local/authorization.json.default").write_text(rights)
    elif name.startswith("join"):
        write_study(monkeypatch)
    if name == "join withdraw":
        assert main(["join", "approve", *ARGUMENTS["join approve"].split()]) == 0
    monkeypatch.setattr(releases, "nights", lambda *_: iter(()))


def write_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the terms of a study of one hospital, which runs without a network."""
    from covdp.addons.partners.join.hospital import own_fingerprint
    from tests.addons.partners.join.wards import run_here

    own = own_fingerprint(open_ledger("ledger.sqlite"))
    Path("study.toml").write_text(
        'name = "joint"\nhospitals = ["solo"]\ncolluders = 0\ndescriptor = "oct5"\n'
        'manifold = "spd-log-euclidean"\nclasses = ["a", "b"]\nbudget = 0.5\nsize = 12\n'
        f'[fingerprints]\nsolo = "{own}"\n'
    )
    Path("solo.toml").write_text('population = "ward-7"\ndataset = "ward.toml"\nbudget = 0.5\n')
    run_here(monkeypatch)


def by_dask(monkeypatch: pytest.MonkeyPatch, name: str, arguments: str) -> None:
    """Check a command whose tasks go to workers of Dask."""
    found = on_terminal(monkeypatch, name, *arguments.split(), "--runner", "dask")
    assert found.code == 0, found.text
    assert "Traceback" not in found.text
    assert all(bar in found.text for bar in BARS[name]), found.text
