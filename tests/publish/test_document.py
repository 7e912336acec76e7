"""The schema of committed documents: real ones fit it, by pydantic and by another validator."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from sample_history import CONFIG, draw_nights, write_ward
from sample_nights import PERSONS, Ward

from covdp.cli import main
from covdp.errors import ConfigError, LedgerError, OutputError
from covdp.jobs import publish
from covdp.ledger import init_ledger
from covdp.publish import load_release, read_document, release_once
from covdp.publish.config import RELEASE_TABLES
from covdp.schema import DOCUMENTS, ReleaseDocument, json_schema, read_ours, serialised
from tests.tools.addons import addon

NightDocument = addon("nights.schema:NightDocument")
read_committed = addon("nights.followed:read_committed")
read_foreign = addon("partners.foreign:read_foreign")

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

PLANS = {
    "auto": "",
    "single": 'mechanism = "ewg"\n',
    "curved": 'manifold = "spd-affine-invariant"\n',
    "zcdp": 'definition = "zcdp"\n',
    "float": 'noise = "float"\n',
}
"""Releases of each kind, by what their configs have besides."""


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    """Return the validator of the schema that the wheel holds, which is a schema itself."""
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return a document of each kind, the last nights of a stream among them."""
    documents = {}
    for name, lines in PLANS.items():
        folder = tmp_path_factory.mktemp(name)
        path = write_ward(folder)
        path.write_text(CONFIG + lines)
        documents[name] = release(folder, path)
    ward = Ward(tmp_path_factory.mktemp("persons"))
    ward.write(PERSONS, stream="")
    ward.put(well=5, ill=5)
    documents["persons"] = release(ward.folder, ward.folder / "night.toml")
    nights = draw_nights(
        tmp_path_factory.mktemp("nights"),
        [f"2026-03-{day:02d}" for day in range(1, 6)],
        np.random.default_rng(1),
    )
    documents |= {f"night {number}": json.loads(one) for number, one in enumerate(nights, 1)}
    return documents


def release(folder: Path, path: Path) -> dict[str, Any]:
    """Release by a config whose account pays for it, and return the document."""
    config = load_release(path)
    book = init_ledger(folder / "ledger.sqlite")
    book.set_budget(config.population, config.charge)
    return dict(json.loads(release_once(config, book, folder)))


def model_of(document: dict[str, Any]) -> ReleaseDocument | NightDocument:
    """Return what the models read of a document."""
    kind = NightDocument if "night" in document else ReleaseDocument
    return kind.model_validate(document)


def test_real_documents_fit_the_schema(
    released: dict[str, dict[str, Any]], validator: Draft202012Validator
) -> None:
    """Releases of all plans, of persons, and nights before, at and after the opening.

    The models read them and write the same bytes again, so they hold every key.
    """
    for name, document in released.items():
        assert [error.message for error in validator.iter_errors(document)] == [], name
        assert serialised(model_of(document)) == json.dumps(document, sort_keys=True).encode(), name
    assert released["night 3"]["classes"][0]["opened"]
    assert released["night 5"]["classes"][0]["windows"]


@pytest.mark.addons
def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """What it prints is what the models say: made anew where they change, by this test's lines."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def nested(depth: int) -> Any:
    """Return lists in lists."""
    value: Any = 0.0
    for _ in range(depth):
        value = [value]
    return value


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "no settings": lambda one: one.pop("settings"),
    "no account": lambda one: one.pop("account"),
    "a lost key": lambda one: one["classes"][0].pop("costs"),
    "a number as text": lambda one: one["classes"][0].update(n="200"),
    "a truth as a number": lambda one: one["classes"][0].update(n=True),
    "a number as a truth": lambda one: one["settings"].update(masked=1),
    "huge": lambda one: one["classes"][0]["observed"].update(sigma=1e300),
    "a script": lambda one: one["settings"].update(unit="<script>alert(1)</script>"),
    "too long": lambda one: one["settings"].update(name="a" * 1001),
    "deep": lambda one: one["classes"][0].update(point=nested(500)),
    "a class too many": lambda one: one.update(classes=[[]]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_documents_are_refused_by_both(
    released: dict[str, dict[str, Any]],
    validator: Draft202012Validator,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The schema and the models refuse the same, and a command ends with one line and exit 2."""
    document = json.loads(json.dumps(released["auto"]))
    HOSTILE[name](document)
    assert not validator.is_valid(document)
    with pytest.raises(ValidationError):
        model_of(document)
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(released["auto"]))
    bad.write_text(json.dumps(document))
    assert main(["compare", str(good), str(bad)]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert len(printed.err.strip().splitlines()) == 1
    assert len(printed.err) < 600


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", "[" * 100_000, '{"a":' * 100_000])
def test_what_no_number_is_ends_with_one_line(
    released: dict[str, dict[str, Any]],
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """NaN and infinities in the place of a σ, and nesting that no parser should follow."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    document = json.loads(json.dumps(released["auto"]))
    good.write_text(json.dumps(document))
    document["classes"][0]["observed"]["sigma"] = "HERE"
    bad.write_text(json.dumps(document).replace('"HERE"', text))
    assert main(["compare", str(good), str(bad)]) == 2
    printed = capsys.readouterr()
    assert not printed.out
    assert len(printed.err.strip().splitlines()) == 1


def test_a_script_in_a_name_is_text_on_a_page(
    released: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Names of classes that look like markup are shown, not run."""
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for number, path in enumerate(paths):
        document = json.loads(json.dumps(released["auto"]))
        document["settings"] |= {"run_key": f"run {number}", "population": "<script>x()</script>"}
        document["classes"][0]["name"] = "<script>alert(1)</script>"
        for row in document["classes"]:  # else they were one release
            row["predicted_error"] = 0.1 + number
        path.write_text(json.dumps(document))
    assert main(["compare", *map(str, paths), "--out", str(tmp_path / "out"), "-q"]) == 0
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "<script>x()" not in page


def test_a_document_of_another_version_is_paid_and_no_disk_is_full(
    released: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """One that the ledger gave back, of a run that an older version committed: one true line."""
    older = json.loads(json.dumps(released["auto"]))
    del older["classes"][0]["observed"]["reach"]
    (tmp_path / "older.json").write_text(json.dumps(older))
    with pytest.raises(LedgerError, match="no document of this version of covdp") as caught:
        publish(tmp_path / "older.json", tmp_path)
    assert "make room" not in str(caught.value)
    (tmp_path / "older.json").write_text("{")
    with pytest.raises(OutputError, match=r"cannot read .* make room"):
        publish(tmp_path / "older.json", tmp_path)


def test_a_document_is_made_whatever_noise_makes_of_it() -> None:
    """What nobody else would believe is still written: the checks are for strangers' documents."""
    document = ReleaseDocument.model_construct(classes=[], title="t" * 2000)
    assert json.loads(serialised(document)) == {"classes": [], "title": "t" * 2000}
    with pytest.raises(ValueError, match="Out of range float"):
        serialised(ReleaseDocument.model_construct(title=float("nan")))  # type: ignore[arg-type]


def test_ours_is_read_whatever_noise_made_of_it(released: dict[str, dict[str, Any]]) -> None:
    """Numbers and names beyond all bounds are read as they were written; a stranger's are not.

    What is no document stays none.
    """
    document = json.loads(json.dumps(released["auto"]))
    document["settings"]["title"] = "t" * 2000
    document["classes"][0]["coordinates"][0] = 1e300
    document["classes"][0]["observed"]["vector"][0] = -1e300
    found = read_ours(document)
    assert serialised(found) == json.dumps(document, sort_keys=True).encode()
    with pytest.raises(ValidationError):
        model_of(document)
    for name in ("no settings", "no account", "a lost key", "a class too many"):
        broken = json.loads(json.dumps(document))
        HOSTILE[name](broken)
        with pytest.raises(ValidationError):
            read_ours(broken)


def test_a_night_is_refused_in_one_line_without_its_add_on(
    released: dict[str, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether somebody sent its document, or it is our own; and so is a table that asks for one."""
    path, config = tmp_path / "night.json", write_ward(tmp_path)
    path.write_text(json.dumps(released["night 5"]))
    config.write_text(CONFIG + "[stream]\nhorizon = 30\n")
    load_release(config, opened=True)
    monkeypatch.delitem(DOCUMENTS, "night")
    monkeypatch.delitem(RELEASE_TABLES, "stream")
    line = "needs an add-on that is not there; use an installation of covdp with its add-ons"
    for read in (read_document, read_foreign):
        with pytest.raises(ConfigError, match=f"^a document of a night of a stream {line}$"):
            read(path)
    assert read_committed(path.read_bytes()) is None
    with pytest.raises(ConfigError, match=r"key 'stream': a table \[stream\] " + line):
        load_release(config, opened=True)
