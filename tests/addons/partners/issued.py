"""Documents as ledgers commit them, what forgers make of them, and both verdicts on them."""

import copy
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covdp import describe, domain, open_dataset, private_mean
from covdp.addons.nights.night import release_night
from covdp.addons.partners.join.hospital import own_fingerprint
from covdp.addons.partners.passport.checking import verified
from covdp.addons.partners.passport.verify import UnverifiedError
from covdp.cli import main
from covdp.ledger import Ledger
from covdp.ledger.keys import public_text
from covdp.privacy import GDP, ZCDP
from covdp.publish import load_release, release_once, write_document
from tests.addons.partners.join.hub import study_of
from tests.addons.partners.join.wards import NAMES, approve_at, run_all, write_hospitals
from tests.tools.golden import CARD, add_night, write_images

TILES = 'population = "tiles"\ndataset = "tiles"\n'
CONFIGS = {
    "secret": f"{TILES}budget = 0.5\n",
    "public": f'{TILES}budget = 1.0\nlabels = "public"\n',
    "cholesky": f'{TILES}budget = 1.0\nmanifold = "spd-log-cholesky"\n',
    "invariant": f'{TILES}budget = 1.0\nmanifold = "spd-affine-invariant"\n',
    "single": f'{TILES}budget = 4.0\nlabels = "public"\nmechanism = "ewg"\n',
    "group": f"{TILES}budget = 0.1\nimages_per_person = 3\n",
    "persons": 'population = "persons"\ndataset = "persons.toml"\nbudget = 2.0\n',
}
"""Releases: every manifold, labels either way, one draw, several images of a person, persons.

At the budget of the one draw GDP alone would protect, and what its noise is certified for does not.
"""
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

DRAWN = {"float": GDP(4.0), "zcdp": ZCDP(0.3)}
"""Budgets of what Python draws; the first one protects, as it is noise on paper that counts."""

Document = dict[str, Any]


def issue(folder: Path) -> dict[str, Path]:
    """Release in every way there is and return the documents; the ledger's key is key.pem."""
    ledger = write_hospitals(folder)
    for name in ("tiles", "persons", "public", "secret"):
        ledger.set_budget(name, GDP(40.0))
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COVDP_LEDGER", str(folder / "ledger.sqlite"))
        study = study_of(fingerprints=dict.fromkeys(NAMES, own_fingerprint(ledger)))
        for name in NAMES:
            approve_at(folder, ledger, study, name)
        return {**found, "joint": run_all(study.digest)["north"]}


def draw_in_python(folder: Path) -> dict[str, Path]:
    """Draw means that no ledger signs, with noise of floats, and return their documents."""
    images, limit = next(open_dataset("tiles").chunks(label=0)), domain("oct5", height=28, width=28)
    known: Any = {"domain": limit, "manifold": "spd-log-euclidean", "rng": np.random.default_rng(0)}
    for name, budget in DRAWN.items():
        drawn, _ = private_mean(describe(images, "oct5"), budget, **known)
        (folder / f"{name}.json").write_bytes(dumped(dict(drawn.to_document())))
    return {name: folder / f"{name}.json" for name in DRAWN}


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
    except Exception as error:  # any other is in Python's words
        theirs = "" if type(error).__name__ == "UnverifiedError" else repr(error)
    return ours, theirs


def unsigned(path: Path) -> Document:
    """Return a document without its signature, as earlier versions committed it."""
    values: Document = json.loads(path.read_bytes())
    del values["signature"]
    return values


def dumped(values: Document) -> bytes:
    return json.dumps(values).encode()


def places(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value of a document that is neither an object nor a list."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from places(item, (*where, key))
    else:
        yield where


def holders(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each object and list in a document."""
    if isinstance(value, dict | list):
        if where:
            yield where
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from holders(item, (*where, key))


def code_of(*arguments: object) -> int:
    """Return the exit code of a command."""
    try:
        return main(list(map(str, arguments)))
    except SystemExit as end:
        return int(end.code or 0)


def at(values: Any, where: tuple[Any, ...]) -> Any:
    for key in where:
        values = values[key]
    return values


def put(values: Document, where: tuple[Any, ...], value: Any) -> Document:
    """Return a copy of a document with another value somewhere."""
    other = copy.deepcopy(values)
    at(other, where[:-1])[where[-1]] = value
    return other


def other_digit(number: float, rng: np.random.Generator) -> float:
    """Return a number of which one digit is another."""
    text = repr(number)
    digits = [m.start() for m in re.finditer(r"\d", text.partition("e")[0])]
    while True:
        spot = int(rng.choice(digits))
        digit = str((int(text[spot]) + int(rng.integers(1, 10))) % 10)
        changed: float = json.loads(
            re.sub(r"^(-?)0+(?=\d)", r"\1", text[:spot] + digit + text[spot + 1 :])
        )
        if changed != number:
            return changed


def twin_class(values: Document) -> Document:
    """Return a document in which two classes have one name."""
    name = values["classes"][0]["name"]
    return put(put(values, ("classes", 1, "name"), name), ("settings", "classes", 1, 1), name)


def twin_label(values: Document) -> Document:
    """Return a document in which two classes have one label."""
    label = values["classes"][0]["label"]
    return put(put(values, ("classes", 1, "label"), label), ("settings", "classes", 1, 0), label)


def changed_at_random(old: Any, rng: np.random.Generator) -> Any:
    """Return something else than a value of a document, often of its type."""
    others = [None, True, 0, 1, -1, 1e-13, 10**400, "", "x\n", [], {}, [[1.0]], "public", "float"]
    if isinstance(old, dict):
        others += [{**old, name: 1} for name in ("night", "joint", "unknown", "certainty")]
        others += [{key: old[key] for key in [*old][1:]}] * 3
    elif isinstance(old, list):
        others += [old[:-1], old[1:], old * 2, old[::-1], [*old, None]] * 2
    elif isinstance(old, str):
        others += [f"{old}x", f"{old}\ud834", old.upper(), f"1{old}", old[:-1], [old]] * 2
    elif isinstance(old, int | float):
        others += [-old, old + 1, 2 * old, 1.001 * old, str(old), float(old), [old]] * 2
    return others[int(rng.integers(len(others)))]
