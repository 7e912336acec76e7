"""The history of a population: what it shows is what its committed documents say, and no more."""
# ruff: noqa: F811  (fixtures that are imported)

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from sample_documents import document_of
from sample_history import CLASSES, commit, retold
from sample_nights import reserve

from covdp.addons.nights.history import read_history
from covdp.addons.nights.history_page import build_history
from covdp.addons.nights.ledger import commit_night, committed_results, open_stream
from covdp.addons.nights.timelines import Scale, timeline
from covdp.cli import main
from covdp.descriptors import DESCRIPTORS, terms_of
from covdp.errors import LedgerError
from covdp.figures.style import BAND_COLUMNS
from covdp.inference import is_usable
from covdp.ledger import Ledger, Reservation, init_ledger
from covdp.privacy import GDP
from covdp.report import build_release_report
from tests.addons.nights.pages import DAYS, drawn, first, marks, page, results, tables, words  # noqa: F401  (fixtures)

pytestmark = pytest.mark.usefixtures("noise_in_doubles")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return an empty ledger."""
    return init_ledger(tmp_path / "ledger.sqlite")


def test_results_come_in_the_order_in_which_they_were_paid(ledger: Ledger) -> None:
    """Of releases and nights of every stream; what has no result yet is not among them."""
    ledger.set_budget("ward", GDP(9.0))
    commit(ledger, "clinic", [b"other"])
    night = open_stream(ledger, "ward", "nights", "query", horizon=9, cost=GDP(1.0))
    for number, day in enumerate(DAYS[:2]):
        held = reserve(ledger, night, day, [bytes([number])], ["0"])
        commit_night(ledger, held, f"night {number}".encode())  # type: ignore[arg-type]
        commit_one(ledger, f"run {number}")
    ledger.reserve("ward", "q", "never", contents={"0": ledger.digest([b"x"])}, cost=GDP(0.1))
    expected = (b"night 0", b"run 0", b"night 1", b"run 1")
    assert committed_results(ledger) == {"clinic": (b"other",), "ward": expected}
    assert committed_results(ledger, " ward ") == {"ward": expected}
    with pytest.raises(LedgerError, match="no population 'nobody'; it has 'clinic', 'ward'"):
        committed_results(ledger, "nobody")


def commit_one(ledger: Ledger, run: str) -> None:
    """Commit the name of a run as its result."""
    held = ledger.reserve(
        "ward", "query", run, contents={"0": ledger.digest([run.encode()])}, cost=GDP(0.1)
    )
    assert isinstance(held, Reservation)
    ledger.commit(held, run.encode())


def test_results_that_were_changed_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    """A result that is not the one committed is named, and nothing is shown."""
    commit(ledger, "ward", [b"one", b"two"])
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as database, database:
        database.execute("UPDATE covdp_results SET result = ? WHERE result = ?", (b"2", b"two"))
    with pytest.raises(LedgerError, match="changed or lost"):
        committed_results(ledger)


def test_runs_that_can_be_compared_are_one_series(first: bytes, results: list[bytes]) -> None:
    """Another descriptor's means, or another name's, are a series apart; others are counted."""
    other = retold(first, DAYS[0], name="weekly")
    found, left = read_history("ward", [results[0], b"\xff", other, results[1], b"[1]", b"{}"])
    assert [one.settings.name for one in found] == ["nightly", "weekly"]
    assert [[run.place for run in one.runs] for one in found] == [[1, 4], [3]]
    assert left == 3
    with pytest.raises(LedgerError, match="'ward' has no release yet"):
        read_history("ward", [b"something else"])


def test_a_gain_between_runs_is_seen(results: list[bytes]) -> None:
    """The last day is brighter by a tenth: contrast by exactly that, outside the band before."""
    ((series,), _) = read_history("ward", results)
    before, last = (series.runs[place].classes[0].readings[0] for place in (-2, -1))
    assert before.value is not None
    assert before.high is not None
    assert last.value == pytest.approx(1.1 * before.value)
    assert last.value > before.high
    assert series.runs[-1].classes[0].readings[1].value == pytest.approx(
        series.runs[-2].classes[0].readings[1].value
    )


def test_an_unknown_descriptor_is_listed_and_not_read(first: bytes, tmp_path: Path) -> None:
    """A release of a descriptor that this version does not know has its line, and no terms."""
    page = build_history("ward", [retold(first, DAYS[0], descriptor="later3")], tmp_path)
    assert "nightly-2026-03-01.json" in words(page)
    assert "Contrast" not in words(page)


def test_the_title_has_the_first_run_and_the_last(first: bytes, tmp_path: Path) -> None:
    """Where they differ in the case of a letter alone, too."""
    page = build_history("ward", [retold(first, run) for run in ("Run-1", "run-1")], tmp_path)
    assert words(page).startswith("ward, Run-1 to run-1: history of releases")


def test_numbers_behind_marks_are_those_of_the_marks(page: Path) -> None:
    """Every chart has a table of its own, with a line for each mark and its very numbers."""
    found = tables(page)
    assert [name.removeprefix("series-1-") for name in found] == [
        f"{name}.csv" for name in ("contrast", "roughness", "upright", "edges", "corners", "means")
    ]
    matrix = {"row": "feature", "column": "other", "value": "correlation"}
    matrix["text"] = "correlation_or_sd"
    for (file, rows), shown in zip(found.items(), marks(page), strict=True):
        assert len(rows) == len(shown) > 0
        name = file.removeprefix("series-1-").removesuffix(".csv")
        term = {**BAND_COLUMNS, "value": name, "span": "mean_of", "stretch": ""}
        columns = matrix if name == "means" else term
        for row, mark in zip(rows, shown, strict=True):
            named = {columns.get(key, key): str(value) for key, value in mark.items()}
            assert {key: value for key, value in named.items() if key} == row
    contrast = found["series-1-contrast.csv"]
    assert [row["run"] for row in contrast[::2]] == DAYS
    assert {row["class"] for row in contrast} == set(CLASSES)
    ends = [[float(row[key]) for key in ("low95", "contrast", "high95")] for row in contrast]
    assert all(low < value < high for low, value, high in ends)


def test_a_release_says_of_its_means_what_its_history_says(first: bytes, tmp_path: Path) -> None:
    """Its page has the terms of its usable means with the same values, bands and words.

    In one draw of 40 noise leaves one of the two means without use; both in fewer than 1 of 1,000.
    """
    usable = sum(map(is_usable, document_of(first).classes))
    pages = [
        build_release_report(document_of(first), tmp_path / "release.html"),
        build_history("ward", [first], tmp_path),
    ]
    shown = [re.findall("<td data-class=.*?</td>", page.read_text("utf-8")) for page in pages]
    assert usable
    assert len(shown[0]) == 5 * usable
    assert shown[0] == shown[1][: 5 * usable]  # a history has the regions besides
    assert 'title="sd(I)"' in pages[0].read_text("utf-8")
    for term in terms_of(DESCRIPTORS["oct5"]):
        assert all(f">{term.meaning}</span>" in page.read_text("utf-8") for page in pages)


def test_committed_bytes_lie_beside_the_page(page: Path, results: list[bytes]) -> None:
    """Each file that the page links is a committed result, byte for byte; there are no others."""
    links = re.findall(r'href="(release/[^"]*)"', page.read_text(encoding="utf-8"))
    assert [(page.parent / link).read_bytes() for link in links] == results[::-1]
    there = {path for path in page.parent.rglob("*") if path.is_file()}
    assert there == {page, *(page.parent / link for link in links)}


def test_the_page_follows_from_the_documents_alone(
    ledger: Ledger, page: Path, results: list[bytes], tmp_path: Path
) -> None:
    """The command makes the very page of the bytes alone: nothing of the ledger is on it."""
    commit(ledger, "ward", results)
    out = tmp_path / "out"
    assert main(["history", "--out", str(out), "--ledger", str(tmp_path / "ledger.sqlite")]) == 0
    assert (out / "index.html").read_bytes() == page.read_bytes()


def test_every_release_leads_to_its_statement(page: Path, results: list[bytes]) -> None:
    """What all statements say stands once; what differs, in the line that a release leads to."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r'<a href="#(series-1-\d+)"', text)
    assert len(lines) == len(results)
    assert all(text.count(f'id="{line}"') == 1 for line in lines)
    said = words(page)
    for _, line in json.loads(results[0])["statement"]:
        assert " ".join(line.split()) in said
    assert said.count("Neighbouring data sets") == said.count("nothing that is not the same") == 1


def test_what_differs_between_statements_is_told_by_release(
    results: list[bytes], tmp_path: Path
) -> None:
    """A size that changes stands with its release, and not in what they have in common."""
    former, later = (json.loads(retold(one, "same", descriptor="later3")) for one in results[:2])
    later["statement"] = [
        [label, "other words" if label == "Trust model" else text]
        for label, text in later["statement"]
    ]
    page = build_history("ward", [json.dumps(one).encode() for one in (former, later)], tmp_path)
    said = words(page)
    assert said.count("Trust model") == 1
    assert (
        said.index("Trust model") < said.index("other words") < said.index("Statement of privacy")
    )


def test_the_page_says_what_is_left_and_what_it_all_means(page: Path) -> None:
    """The account after the latest release, and the bound on what all of them tell of one image."""
    said = words(page)
    assert "May be spent in all μ = 9" in said
    assert "the best attacker is then right in at most" in said
    assert "An attacker who knows all other images decides between two candidates" in said
    assert "ward, 2026\u201103\u201101 to 2026\u201103\u201106: history of releases" in said


def spend_more(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of a small budget, whose account had paid for other releases too."""
    account = document["account"]
    settings = document["settings"] | {"budget": 0.5}
    return document | {"settings": settings, "account": account | {"spent": 1.0}}


def test_the_account_is_told_of_the_series_that_was_paid_last(first: bytes, tmp_path: Path) -> None:
    """When an older one was paid less was spent, which bounds nothing that is said of all."""
    both = [retold(first, day, name=f"series-{day}") for day in DAYS[:2]]
    older = json.loads(retold(first, DAYS[2], name=f"series-{DAYS[0]}"))
    older["account"] |= {"releases": older["account"]["releases"] - 1}  # as a night's, stored later
    both.append(json.dumps(older).encode())
    both = [json.dumps(spend_more(json.loads(content))).encode() for content in both]
    said = words(build_history("ward", both, tmp_path))
    assert said.count("success of an attacker, at most") == 2
    assert said.count("success with all releases so far, if all had") == 1
    assert said.count("like this") - said.count("Lasts for") == 1
    told = said.index("success with all releases so far")
    assert told < said.rindex("success of an attacker, at most")
    assert told < said.index(f"latest {DAYS[1]}") < said.index(f"latest {DAYS[2]}")


def test_names_are_no_markup(page: Path) -> None:
    """Class names and titles are shown as they are written."""
    text = page.read_text(encoding="utf-8")
    assert "<i>well</i>" not in re.sub(r"(?s)<script.*?</script>", "", text)
    assert "<i>well</i>" in words(page)


def test_noise_in_floats_is_warned_of(first: bytes, tmp_path: Path) -> None:
    """A history with one release that is not safe to publish says so on top."""
    both = [retold(first, DAYS[0], noise=noise, descriptor="x") for noise in ("hardened", "float")]
    assert words(build_history("ward", both, tmp_path)).startswith(
        "ward, 2026-03-01: history of releases Not safe"
    )


def test_refusals_are_one_line_and_leave_nothing(
    ledger: Ledger, results: list[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No release, several populations, an unknown one: exit code 2, the way out, no file."""
    out, place = tmp_path / "out", str(tmp_path / "ledger.sqlite")

    def refusal(*more: str) -> str:
        assert main(["history", "--out", str(out), "--ledger", place, *more]) == 2
        assert not out.exists()
        (line,) = capsys.readouterr().err.splitlines()
        return str(line)

    assert "0 populations" in refusal()
    ledger.set_budget("empty", GDP(1.0))
    assert "'empty' has no release yet" in refusal("--population", "empty")
    commit(ledger, "ward", results[:1])
    commit(ledger, "clinic", results[1:2])
    assert "2 populations" in (line := refusal())
    assert "'clinic', 'ward'" in line or "'ward', 'clinic'" in line
    assert "--population" in line
    assert "no population 'nobody'" in refusal("--population", "nobody")


@pytest.mark.parametrize("nights", [2, 3, 8, 9, 30])
def test_no_date_stands_twice_on_the_axis(nights: int) -> None:
    """A short history has a mark a night, a longer one marks that are days apart."""
    days = [date(2026, 10, 30) + timedelta(days=night) for night in range(nights)]
    told = {"class": "well", "n": 1, "value": 1.0, "low": 0.9, "high": 1.1, "span": "all"}
    found = timeline(
        [{**told, "run": day.isoformat()} for day in days],
        name="x",
        title="X",
        scale=Scale("low", "high"),
        classes=["well"],
        first="all",
        caption="",
    )
    assert found
    labels = re.findall(r">(\d+ (?:Oct|Nov))<", found.svg)
    assert len(labels) == len(set(labels)) >= min(nights, 4)
    if nights <= 8:
        assert labels == [f"{day:%-d %b}" for day in days]


def told(run: str, *, known: bool = True, of: str = "well") -> dict[str, Any]:
    """Return a record of a chart, with a band or without."""
    ends = {"low": 0.9, "high": 1.1} if known else {"low": None, "high": None}
    return {"class": of, "run": run, "span": "all", "n": 1, "value": 1.0, **ends}


def test_nothing_is_drawn_where_no_band_is_known() -> None:
    """No mark, no line across the gap, a stroke over each mark, and words for what is drawn."""
    assert drawn([told("a", known=False), told("b", known=False)]) is None
    known = {"a": True, "b": True, "c": False, "d": True}
    found = drawn(
        [*(told(run, known=one) for run, one in known.items()), told("a", of="ill", known=False)]
    )
    assert found
    rows = list(csv.DictReader(io.StringIO(found.csv)))
    assert [row["run"] for row in rows] == ["a", "b", "d"]
    (data,) = found.spec["datasets"].values()
    assert [row["stretch"] for row in data] == [1, 1, 2]
    assert found.alt == "X of well, 3 runs, a to d, with bands of 95 %."
    root = ElementTree.fromstring(found.svg)
    paths = [one for one in root.iter() if "mark-line" in one.get("class", "")]
    lines = [path.get("d") for one in paths for path in one if path.get("d")]
    assert [line.count("L") for line in lines] == [1, 0]
    strokes = [
        line for one in root.iter() if "mark-rule role-mark" in one.get("class", "") for line in one
    ]
    assert [float(line.get("y2", 0)) != 0.0 for line in strokes] == [True, True, True]


def test_the_static_picture_is_of_the_first_span() -> None:
    """Means of the last nights are among the numbers of a chart, and not in its static picture."""
    every = [told("a"), told("b")]
    found, alone = (
        drawn([*every, *({**row, "span": "last 30 nights"} for row in every)]),
        drawn(every),
    )
    assert found
    assert alone
    assert found.svg == alone.svg
    assert found.csv.count("last 30 nights") == 2


def test_a_single_release_has_a_stroke_and_no_number_that_is_none() -> None:
    """One run: a rule for each class of a known band, whatever the other has."""
    found = drawn([told("a"), told("a", of="ill", known=False)])
    assert found
    assert found.alt == "X of well, run a, with bands of 95 %."
    assert "NaN" not in found.svg
    assert "NaN" not in json.dumps(found.spec)


def test_a_correlation_has_a_linear_axis_and_its_file_says_what_a_band_is() -> None:
    """Between 0.02 and 0.23 with a middle of 0 nothing is NaN; ends of bands are low95, high95."""
    record = {"class": "well", "run": "a", "span": "all", "n": 9}
    found = timeline(
        [record | {"value": 0.05, "low": 0.02, "high": 0.23}],
        name="x",
        title="X",
        scale=Scale("low", "high", middle=0.0),
        classes=["well"],
        first="all",
        caption="",
    )
    assert found is not None
    assert "NaN" not in found.svg
    assert {"x", "low95", "high95"} <= set(found.csv.splitlines()[0].split(","))
