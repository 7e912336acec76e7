"""Pages that are read once: the order of their parts, their height, and one interval a number."""
# ruff: noqa: F811  (fixtures that are imported)

import html
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from covdp.cli import main
from covdp.figures import listing
from covdp.inference import region, usual_difference
from covdp.ledger import init_ledger
from covdp.ledger.keys import fingerprint
from covdp.privacy import GDP
from covdp.publish import load_release, release_once
from covdp.publish.readings import ClassReadings, Reading, reader_of
from covdp.report import build_release_report, readings
from covdp.report.page import signed
from covdp.report.readings import _named, sentences_of
from covdp.report.release_page import in_sentences, verdict
from covdp.report.templates import percent
from covdp.schema import read_ours
from tests.report.browsing import (  # noqa: F401  (fixtures)
    DESKTOP,
    HIGHEST,
    PHONE,
    Showing,
    browser,
    draw_all,
    overflow,
    show,
)

CLASSES = ("normal colon mucosa", "stroma", "debris")
NINE = (
    *CLASSES,
    "adipose",
    "background",
    "mucus",
    "muscle",
    "lymphocytes",
    "colorectal adenocarcinoma epithelium",
)
CARD = 'kind = "npz"\nlocal = true\npublic = true\nchannels = {}\nclasses = {}\n'
CONFIG = """\
name = "WardS"
population = "WardS"
dataset = "ward.toml"
run_key = "2026-11-28"
budget = 2.0
"""


def put(folder: Path, name: str, classes: tuple[str, ...], n: int, *sides: int) -> None:
    """Write so many images of each class, each class with a contrast of its own, and their card."""
    rng, labels = np.random.default_rng(3), np.repeat(np.arange(len(classes)), n)
    coarse = rng.normal(size=(len(labels), 7, 7, *sides[2:])).repeat(4, axis=1).repeat(4, axis=2)
    images = 120.0 + (8.0 + 4.0 * labels[:, *[None] * len(sides)]) * coarse
    images = np.clip(images + rng.normal(size=coarse.shape), 0, 255).astype(np.uint8)
    np.savez(folder / f"{name}.npz", train_images=images, train_labels=labels.astype(np.uint8))
    card = CARD.format(3 if len(sides) > 2 else 1, list(classes)).replace("'", '"')
    (folder / f"{name}.toml").write_text(card)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for all pages."""
    return tmp_path_factory.mktemp("layout")


@pytest.fixture
def release(folder: Path, noise_in_doubles: None) -> tuple[Any, Path]:
    """Return a release of three classes, and its page."""
    if not (folder / "content").exists():
        put(folder, "ward", CLASSES, 500, 28, 28)
        (folder / "release.toml").write_text(CONFIG)
        book = init_ledger(folder / "ledger.sqlite")
        book.set_budget("WardS", GDP(9.0))
        content = release_once(load_release(folder / "release.toml"), book, folder)
        (folder / "content").write_bytes(content)
    document = read_ours(json.loads((folder / "content").read_bytes()))
    return document, build_release_report(document, folder / "release.html")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    """Return the page of a run of nine classes."""
    put(folder, "nine", NINE, 30, 28, 28, 3)
    out = folder / "run"
    given = ("--dataset", str(folder / "nine.toml"), "--data-root", str(folder))
    asked = ("--descriptor", "grid11", "--repetitions", "2", "--out", str(out), "--quiet")
    assert main(["run", *given, *asked]) == 0
    return out / "report.html"


def height(page: Any) -> int:
    """Return the height of a page as it is loaded, with its charts drawn."""
    draw_all(page)
    page.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = false")
    return int(page.evaluate("document.documentElement.scrollHeight"))


def order(page: Any) -> list[str]:
    """Return the names of the parts of a page, from its top."""
    ids = page.locator(".reportlet, .privacy").evaluate_all("all => all.map(one => one.id)")
    return [str(name).rpartition("-")[2] for name in ids]


def test_a_release_is_read_to_its_end(release: tuple[Any, Path], show: Showing) -> None:
    """At most 6,000 pixels: who is protected, a picture, sentences, privacy, means, methods."""
    page, faults, _ = show(release[1], {})
    assert height(page) <= HIGHEST
    assert overflow(page) == 0
    assert faults == []
    names = order(page)
    assert names[:3] == ["means", "words", "attacks"]
    first = [names.index(name) for name in ("attacks", "privacy", "terms", "errors", "methods")]
    assert first == sorted(first)
    lead = page.locator(".lead").all_inner_texts()
    assert lead[1] == "Protected: one image, not a person."
    assert page.locator("#privacy dl.pairs").is_visible()
    assert not page.locator("#methods-text").is_visible()
    page.locator("#methods summary").first.click()
    assert page.locator("#methods-text").is_visible()
    document = json.loads((release[1].parent / "content").read_bytes())
    check = page.locator(".attacks dd", has_text="covdp verify").inner_text()
    assert fingerprint(bytes.fromhex(document["signature"]["public_key"])) in check
    assert 1 <= page.locator(".words .prose").count() <= 3


def test_a_release_of_nine_classes_is_read_to_its_end(
    folder: Path, noise_in_doubles: None, show: Showing
) -> None:
    """At most 6,000 pixels: terms of more than four classes are folded, and open at a click."""
    put(folder, "nine-released", NINE, 200, 28, 28)
    lines = CONFIG.replace("WardS", "WardN").replace("ward.toml", "nine-released.toml")
    (folder / "nine-release.toml").write_text(lines)
    book = init_ledger(folder / "nine.sqlite")
    book.set_budget("WardN", GDP(9.0))
    content = release_once(load_release(folder / "nine-release.toml"), book, folder)
    document = read_ours(json.loads(content))
    page, faults, _ = show(build_release_report(document, folder / "nine-release.html"), {})
    assert height(page) <= HIGHEST
    assert overflow(page) == 0
    assert faults == []
    terms = page.locator(".terms table")
    assert not terms.is_visible()
    page.locator(".terms summary").click()
    assert terms.is_visible()


def test_a_run_of_nine_classes_is_read_to_its_end(run: Path, show: Showing) -> None:
    """At most 6,000 pixels: the picture, what was checked, privacy, then what was run."""
    page, faults, _ = show(run, {})
    assert height(page) <= HIGHEST
    assert overflow(page) == 0
    assert faults == []
    names = order(page)
    first = [names.index(name) for name in ("error", "summary", "privacy", "facts", "methods")]
    assert first == sorted(first)
    assert first[0] == 0


@pytest.mark.parametrize("wide", [1100, 1280, 1920])
def test_the_contents_stand_at_the_left(
    release: tuple[Any, Path], show: Showing, wide: int
) -> None:
    """They are in sight at the top and at the end, beside the text; on a phone they are a menu."""
    page, *_ = show(release[1], {"viewport": {"width": wide, "height": 720}})
    contents = page.locator(".here > ol")
    for place in ("0", "document.documentElement.scrollHeight"):
        page.evaluate(f"scrollTo(0, {place})")
        box = contents.bounding_box()
        assert box["y"] == pytest.approx(48, abs=4)
        assert box["x"] + box["width"] <= page.locator("main").bounding_box()["x"] + 24
    page.locator(".here a[href$='-costs']").click()
    assert page.locator("details.fold[open] h2").all_inner_texts() == [
        "What was paid, step by step"
    ]
    page, *_ = show(release[1], PHONE)
    assert not page.locator(".here > ol").is_visible()


def test_tables_are_rows_on_a_phone(release: tuple[Any, Path], show: Showing) -> None:
    """At 390 pixels no table of means is scrolled sideways: each cell stands below its label."""
    page, *_ = show(release[1], PHONE)
    for name in ("terms", "errors"):
        box = page.locator(f".{name} .scroll")
        assert box.evaluate("one => one.scrollWidth - one.clientWidth") == 0
    cell = page.locator(".errors td").nth(1)
    assert cell.evaluate("one => getComputedStyle(one, '::before').content") == '"Predicted error"'


def test_a_mean_has_one_interval_everywhere(release: tuple[Any, Path]) -> None:
    """Each band on the page is that of the document: in sentences and in the table, none else."""
    document, path = release
    text = path.read_text(encoding="utf-8")
    reader = reader_of(document.settings)
    assert reader is not None
    rows = [reader.read(row) for row in document.classes]
    known = {}
    for row in rows:
        for one in row.readings:
            assert one.least is not None
            assert one.most is not None
            assert one.low is not None
            assert one.high is not None
            assert one.least <= one.low < one.high <= one.most
            known[signed(one.low), signed(one.high)] = row.name
            known[signed(one.least), signed(one.most)] = row.name
    text = re.sub(r"(?s)<(script|svg|style|pre).*?</\1>", " ", text)
    plain = html.unescape(re.sub(r"<[^>]*>", " ", text.partition("<main")[2]))
    number = r"(−?[\d.,]+(?:·10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?)"
    shown = re.findall(rf"{number} to {number}", plain)
    assert len(shown) >= 2 * len(rows) * len(rows[0].readings)
    assert set(shown) <= set(known)
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', text)
    assert heads.count("Predicted error") == heads.count("Clipping, at most") == 1


@pytest.mark.parametrize("noise", [0.5, 1.5, 2.0, 4.0])
def test_a_verdict_names_a_mean_that_clipping_may_have_moved_farther_than_noise(
    release: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch, noise: float
) -> None:
    """Clipping by 1.5 beside noise: the headline states it, or not; without a bound, that."""
    document, _ = release
    real = {row.class_name: region(row) for row in document.classes}
    assert all(where.clipping > where.noise_radius for where in real.values())
    assert "may be larger by up to " in verdict(document).text
    wide = SimpleNamespace(clipping=1.5, noise_radius=noise)
    monkeypatch.setattr(readings, "region", lambda row, level: wide)
    text = verdict(document).text
    share = percent(1.5 / usual_difference(document.classes[0].manifold, 5))
    assert ": usable for " in text
    assert ". Largest predicted error: " in text
    assert " of a usual difference between classes. A usual difference is a change of" in text
    whole = f"may be larger by up to {share} of a usual difference (class "
    assert (whole in text) == (noise < 1.5)
    monkeypatch.setattr(readings, "has_region", lambda row: False)
    assert f"Clipping is not bounded for {listing(CLASSES)}." in verdict(document).text
    monkeypatch.setattr("covdp.publish.readings.certainty_refusal", lambda row: "no bound")
    (last,) = in_sentences(document)[1:]
    assert last == f"Undecided, as clipping is not bounded: all terms of {listing(CLASSES)}."


def test_only_an_error_that_may_explain_a_difference_is_named(release: tuple[Any, Path]) -> None:
    """Values 40 and 50: clipping is named if whiskers meet, noise if bands do, else none."""
    term = next(term for term in reader_of(release[0].settings).terms if term.name == "contrast")
    for half, reach, said in (
        (1.0, 2.0, ""),
        (
            1.0,
            6.0,
            " Noise does not explain the difference; clipping of very unlike images may.",
        ),
        (
            1.0,
            None,
            " Noise does not explain the difference; clipping of very unlike images may.",
        ),
        (6.0, 7.0, " Noise may explain the difference."),
    ):
        rows = []
        for name, at in (("a", 40.0), ("b", 50.0)):
            whisker = (None, None) if reach is None else (at - reach, at + reach)
            one = Reading(term, at, at - half, at + half, *whisker)
            rows.append(ClassReadings(name, 9, usable=True, readings=(one,)))
        assert sentences_of([term], rows)[0].partition(").")[2] == said


def test_a_sentence_of_many_classes_names_those_that_are_left_out() -> None:
    """Up to two classes are named; of three or more of `known` all, or all but one."""
    known = ("a", "b", "c", "d")
    assert _named("ab", known) == "a and b"
    assert _named("abc", known) == "all classes but d"
    assert _named("abcd", known) == "all classes"
    assert _named("abc", (*known, "e")) == "a, b and c"
