"""Documents as ledgers commit them, and both verdicts on them."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from covdp.addons.nights.night import release_night
from covdp.addons.partners.passport.checking import UnverifiedError, verified
from covdp.ledger import Ledger, init_ledger
from covdp.ledger.keys import public_text
from covdp.privacy import GDP, ZCDP
from covdp.publish import load_release, release_once, write_document
from tests.tools.golden import CARD, add_night, write_images

TILES = 'population = "tiles"\ndataset = "tiles"\n'
CONFIGS = {
    "secret": f"{TILES}budget = 0.5\n",
    "public": f'{TILES}budget = 1.0\nlabels = "public"\n',
    "cholesky": f'{TILES}budget = 1.0\nmanifold = "spd-log-cholesky"\n',
    "invariant": f'{TILES}budget = 1.0\nmanifold = "spd-affine-invariant"\n',
    "single": f'{TILES}budget = 1.0\nlabels = "public"\nmechanism = "ewg"\n',
    "group": f"{TILES}budget = 0.1\nimages_per_person = 3\n",
    "persons": 'population = "persons"\ndataset = "persons.toml"\nbudget = 2.0\n',
}
"""Releases: every manifold, labels either way, one draw, several images of a person, persons."""
STREAM = """population = "{name}"
dataset = "{name}.toml"
budget = {budget}
labels = "{name}"
smallest_class = 1
[stream]
horizon = 40
opening = {opening}
"""
"""A stream of nights, of which the first has no mean and the last is after the opening."""
STREAMS = {"public": (10.0, 60), "secret": (20.0, 80)}
"""Labels, budget and opening; the first is a first look, after which images are held back."""

Document = dict[str, Any]


def issue(folder: Path, budget: GDP | ZCDP | None = None) -> dict[str, Path]:
    """Release in every way there is and return the documents; the ledger's key is key.pem."""
    ledger = init_ledger(folder / "ledger.sqlite")
    for name in ("tiles", "persons", "public", "secret"):
        ledger.set_budget(name, budget or GDP(40.0))
    card = CARD.replace('"ward"', '"persons"')
    (folder / "persons.toml").write_text(
        card + 'pattern = "{class}/{person}-*.png"\nunit = "person"\n'
    )
    write_images(folder / "persons", range(24))
    found = {name: committed(folder, ledger, name, text) for name, text in CONFIGS.items()}
    for labels, (amount, opening) in STREAMS.items():
        text = STREAM.format(name=labels, budget=amount, opening=opening)
        (folder / f"{labels}.toml").write_text(CARD.replace('"ward"', '"nightly"'))
        for night in range(1, 4):
            add_night(folder, night)
            (folder / "nightly").rename(folder / labels)
            (folder / f"{labels}.toml").write_text(CARD.replace('"ward"', f'"{labels}"'))
            name, key = f"{labels}-night", f"2026-03-{night:02d}"
            found[f"{name}-{night}"] = committed(folder, ledger, name, text, key)
            (folder / labels).rename(folder / "nightly")
        (folder / "nightly").rename(folder / f"{labels}-done")
    (folder / "key.pem").write_text(public_text(ledger.signing_key()))
    return found


def committed(folder: Path, ledger: Ledger, name: str, text: str, key: str = "monday") -> Path:
    """Release by a config, or a night, and return the document."""
    config = folder / f"{name}-config.toml"
    config.write_text(f'name = "{name}"\n{text}')
    loaded = load_release(config, run_key=key)
    work = release_night if loaded.stream else release_once
    return write_document(work(loaded, ledger, folder), folder)


def script(path: Path) -> Callable[[bytes, bytes | None], tuple[str, dict[str, float]]]:
    """Return what the script of a passport does with the bytes of a document and of a key."""
    spec = importlib.util.spec_from_file_location("passport_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda content, key: module.verify(content, key, module.FORMS)  # type: ignore[no-any-return]


def both(run: Any, content: bytes, folder: Path, key: Path | None = None) -> tuple[str, str]:
    """Return what covdp and the script say of a document: a verdict, or "" where it is refused."""
    path = folder / "judged.json"
    path.write_bytes(content)
    try:
        ours = verified(path, key)[0]
    except UnverifiedError:
        ours = ""
    try:
        theirs = run(content, key and key.read_bytes())[0]
    except Exception:
        theirs = ""
    return ours, theirs


def unsigned(path: Path) -> Document:
    """Return a document without its signature, as earlier versions committed it."""
    values: Document = json.loads(path.read_bytes())
    del values["signature"]
    return values


def dumped(values: Document) -> bytes:
    return json.dumps(values).encode()
