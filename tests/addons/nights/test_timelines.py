"""What a chart of runs says beside its marks: reasons of gaps, numbers in tooltips, and its title.

Random tests are seeded and state how often any seed would raise a false alarm.
"""
# ruff: noqa: F811  (fixtures that are imported)

import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sample_history import draw_release, retold

from covdp.addons.nights.history import ClassRun, PublishedRun, Series
from covdp.addons.nights.history_page import build_history, steps, why_nothing
from covdp.addons.nights.timelines import LETTER_WIDTH, Scale, comparison, timeline
from covdp.descriptors import DESCRIPTORS, terms_of
from covdp.figures import Figure
from covdp.figures.style import WIDTH
from covdp.publish.readings import Mean, Reading
from tests.addons.nights.pages import drawn, words
from tests.report.browsing import DARK, PHONE, browser, draw_all, overflow, show  # noqa: F401  (fixtures)

CONTRAST, ROUGHNESS, *_, CORNERS = terms_of(DESCRIPTORS["oct5"])
DAYS = [(date(2026, 1, 1) + timedelta(days=day)).isoformat() for day in range(60)]


def read(run: str, why: str = "", *, of: str = "well", span: str = "all") -> dict[str, Any]:
    """Return a record of a chart, with a band or with the reason why there is none."""
    ends = {"low": None, "high": None} if why else {"low": 0.9, "high": 1.1}
    return {"class": of, "run": run, "span": span, "n": 1, "value": 1.0, **ends, "why": why}


def gaps(figure: Figure) -> list[dict[str, Any]]:
    """Return what the chart says of gaps."""
    last = figure.spec["layer"][-1]
    return list(last["data"]["values"]) if last["mark"]["type"] == "text" else []


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("runs", [DAYS, list("abcdefgh")], ids=["dates", "names"])
def test_each_gap_says_why_and_no_text_lies_on_another(runs: list[str], seed: int) -> None:
    """Each gap of each class after the first mark is there once; texts on a line are apart."""
    rng, every = np.random.default_rng(seed), list[dict[str, Any]]()
    for run in runs:
        for name in ("well", "ill"):
            every.append(read(run, ["", "", "", "noise", "clipped"][rng.integers(5)], of=name))
    found = drawn(every)
    assert found is not None
    first = next(place for place, record in enumerate(every) if not record["why"])
    expected = set[tuple[str, str, str, str]]()
    for name in ("well", "ill"):
        own = [row for row in every if row["class"] == name and row["run"] >= every[first]["run"]]
        for why, part in groupby(own, key=lambda row: row["why"]):
            inside = list(part)
            if why:
                expected.add((name, inside[0]["run"], inside[-1]["run"], why))
    said = gaps(found)
    assert {(x["class"], x["from"], x["until"], x["why"]) for x in said} == expected
    assert len(said) == len(expected)
    axis = [run for run in runs if run >= every[first]["run"]]
    for name in ("well", "ill"):
        ends = []
        for gap in (gap for gap in said if gap["class"] == name):
            assert gap["text"] in ("?", f"{name}: {gap['why']}")
            at = axis.index(gap["run"]) * WIDTH / len(axis)
            long = LETTER_WIDTH * len(gap["text"])
            ends.append((at - long, at) if gap["late"] and gap["text"] != "?" else (at, at + long))
        assert len({gap["up"] for gap in said}) == len({gap["class"] for gap in said})
        written = sorted(end for end in ends if end[1] - end[0] > LETTER_WIDTH)
        assert all(one[1] <= other[0] for one, other in pairwise(written))
    latest = max(said, key=lambda gap: gap["until"], default=None)
    assert latest is None or f"{latest['until']}: {latest['why']}." in found.caption
    assert "why" not in found.csv.splitlines()[0]
    shown = {row["run"] for row in found.spec["datasets"]["rows"]}
    assert shown == {row["run"] for row in every if not row["why"]}


def test_gaps_of_the_last_nights_are_said_when_they_are_drawn() -> None:
    """The static picture says those of its own span; a chart without a gap has no such layer."""
    month = "last 30 nights"
    every = [read("a"), read("b"), read("c")]
    late = [read("a", span=month), read("b", "lost", span=month), read("c", span=month)]
    found, alone = drawn([*every, *late]), drawn(every)
    assert found is not None
    assert alone is not None
    assert [gap["span"] for gap in gaps(found)] == [month]
    assert "lost" not in found.svg
    assert "lost" not in found.caption
    assert gaps(alone) == []
    early = drawn([read("a"), read("b", "<b>lost</b>"), read("c")])
    assert early is not None
    assert "well: &lt;b&gt;lost" in early.svg


def test_reasons_are_those_of_the_readings() -> None:
    """No mean, one that is noise, a term that is, one of many clipped records; else none."""
    mean, nothing = Mean(np.eye(5), None), Reading(CONTRAST, None, None, None)
    known, bare = Reading(CONTRAST, 2.0, 1.0, 3.0), Reading(CONTRAST, 2.0, None, None)
    reasons = [
        why_nothing(ClassRun("a", 9), nothing),
        why_nothing(ClassRun("a", 9, mean=mean), nothing),
        why_nothing(ClassRun("a", 9, mean=mean, usable=True), nothing),
        why_nothing(ClassRun("a", 9, mean=mean, usable=True), bare),
        why_nothing(ClassRun("a", 9, mean=mean, usable=True), known),
    ]
    words = ["no mean", "usable", "lost", "clipped"]
    assert all(word in reason for word, reason in zip(words, reasons, strict=False))
    assert reasons[-1] == ""


def told_by(part: Any) -> Iterator[set[str]]:
    """Yield the columns in each tooltip of a chart."""
    if isinstance(part, dict):
        if "tooltip" in part:
            yield {channel["field"] for channel in part["tooltip"]}
        for value in part.values():
            yield from told_by(value)
    if isinstance(part, list):
        for value in part:
            yield from told_by(value)


def test_tooltips_hold_value_interval_and_date() -> None:
    """Each mark of a mean says whose it is, when, its value and its interval."""
    texts: dict[str, Any] = {"name": "x", "title": "X", "caption": "", "classes": ["well"]}
    over = timeline(list(map(read, DAYS)), scale=Scale("low", "high"), first="all", **texts)
    beside = comparison([{**read("a"), "term": "Size"}], along="run", **texts)
    for figure in (over, beside):
        assert figure is not None
        tooltips = list(told_by(figure.spec))
        assert tooltips
        assert all({"class", "run", "value", "interval", "n"} <= tooltip for tooltip in tooltips)
    assert over is not None
    fields = {x["field"]: x.get("title") for x in over.spec["layer"][-1]["encoding"]["tooltip"]}
    assert fields["run"] == "date"
    assert "95 %" in str(fields["interval"])


@pytest.mark.parametrize(("most", "cut"), [(1.29, False), (250.0, True)])
def test_strokes_of_clipping_leave_the_axes_to_marks_and_bands(most: float, cut: bool) -> None:
    """A thin stroke ends a width of the bands beyond them, with a mark, and the caption says so."""
    records = [{**read(run), "term": "Size", "least": 0.71, "most": most} for run in "ab"]
    texts: dict[str, Any] = {"name": "x", "title": "X", "caption": "", "classes": ["well"]}
    figure = comparison(records, along="run", **texts)
    assert figure is not None
    mark = re.search(">(?:&gt;|>)</text>", figure.svg)
    assert (mark is not None, "goes on" in figure.caption) == (cut, cut)
    assert "&lt;</text>" not in figure.svg
    assert max(map(float, re.findall(r">([0-9.]+)</text>", figure.svg))) < 2.0
    assert f"{most:g}" in figure.csv


def test_one_run_is_seen_on_a_phone_and_dates_stay_on_the_axis() -> None:
    """The picture of one run fits a phone; the axis of time does not follow the reader's choice."""
    alone, several = drawn([read(DAYS[0])]), drawn([read(day) for day in DAYS[:3]])
    assert alone is not None
    assert several is not None
    assert float(re.findall(r'width="([0-9.]+)"', alone.svg)[0]) < 340 < WIDTH
    assert "usermeta" not in alone.spec
    ends = [(end["month"], end["date"]) for end in axis_of(several)["scale"]["domain"]]
    assert ends == [(1, 1), (1, 3)]


@pytest.mark.parametrize(("days", "apart"), [(3, 5.0), (len(DAYS), 0.0)])
def test_classes_of_a_date_are_side_by_side_where_dates_are_few(days: int, apart: float) -> None:
    """Marks of two classes are about five pixels apart; of many dates they are on the date."""
    names = ["o'\"\\well", "ill"]
    every = [read(day, of=name) for day in DAYS[:days] for name in names]
    texts: dict[str, Any] = {"name": "x", "title": "X", "caption": "", "classes": names}
    figure = timeline(every, scale=Scale("low", "high"), first="all", **texts)
    assert figure is not None
    marks = re.findall(
        r'translate\(([-0-9.]+),[-0-9.]+\)" d="M[^"]*" fill="[^"]*" fill-o', figure.svg
    )
    assert len(marks) == 2 * days
    places = sorted(map(float, marks))
    assert np.diff(places)[0] == pytest.approx(apart, abs=0.5)


def axis_of(figure: Figure) -> dict[str, Any]:
    """Return the axis of runs of a chart."""
    return dict(figure.spec["layer"][0]["encoding"]["x"])


def series(values: np.ndarray, half: float, *, horizon: int | None = None) -> Series:
    """Return releases of two classes in three terms, (runs, classes, terms), with their bands."""
    terms = (CONTRAST, ROUGHNESS, CORNERS)
    runs = []
    for day, classes in zip(DAYS, values, strict=False):
        rows = [
            ClassRun(
                name,
                9,
                readings=tuple(
                    Reading(term, *(float(term.unscaled(x + half * e)) for e in (0, -1.96, 1.96)))
                    for term, x in zip(terms, row, strict=True)
                ),
            )
            for name, row in zip(("well", "ill"), classes, strict=True)
        ]
        settings = SimpleNamespace(run_key=day)
        document: Any = SimpleNamespace(settings=settings, horizon=horizon)
        runs.append(PublishedRun(1, document, b"", tuple(rows)))
    return Series(tuple(runs), terms)


def test_a_title_seldom_states_a_change_where_there_is_none() -> None:
    """Of 400 histories without a change, few have a title that states one.

    One in 20 at most: more than 40 are found with probability below 10⁻⁵.
    """
    rng, start = np.random.default_rng(1), np.log([20.0, 0.3, 1.2])
    histories = (start + 0.05 * rng.standard_normal((12, 2, 3)) for _ in range(400))
    assert sum(bool(steps(series(values, 0.05))) for values in histories) <= 40


def test_a_title_states_the_largest_change() -> None:
    """By how much, of which class and when; of correlations a difference; of nights nothing."""
    values = np.tile(np.log([20.0, 0.3, 1.2]), (8, 2, 1))
    assert steps(series(values, 0.005)) == {}
    values[5:, 1, 0] += np.log(1.08)
    values[3:, 0, 1] -= np.log(1.25)
    values[6:, 1, 2] = 0.0
    found = steps(series(values, 0.005))
    assert found["contrast"] == "Contrast of ill rose by 8 % on 6 January 2026"
    assert found["roughness"] == "Smooth or rough: well more smooth, by 20 %, on 4 January 2026"
    assert found["corners"].endswith("ill more straight lines, by 0.18, on 7 January 2026")
    assert steps(series(values, 0.5)) == {}
    assert steps(series(values, 0.005, horizon=40)) == {}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of 60 releases, the last ten brighter, one of which is noise."""
    folder = tmp_path_factory.mktemp("releases")
    first, results = draw_release(folder), list[bytes]()
    for place, day in enumerate(DAYS):
        document = json.loads(retold(first, day, gain=1.2 if place >= 50 else 1.0))
        for row in document["classes"]:
            row["predicted_error"] = 90.0 if place == 55 else 0.02
        results.append(json.dumps(document, sort_keys=True).encode())
    return build_history("ward", results, folder / "out")


def test_the_page_states_the_change_and_the_reason(page: Path) -> None:
    """In the title of its chart, and below it; what did not change has a neutral title."""
    text = words(page)
    assert "rose by 20 % on 20 February 2026" in text
    assert "too much noise to be usable" in text
    assert " Smooth or rough How much of the contrast" in text


def test_a_phone_shows_the_newest_nights_first(show: Any, page: Path) -> None:
    """The last mark and the axis are on the screen, the first mark is not, nothing sticks out."""
    window, *_ = show(page, PHONE)
    draw_all(window)
    assert overflow(window) == 0
    live = window.locator("#series-1-contrast .live")
    edges = live.evaluate(
        """live => {
          const box = live.getBoundingClientRect();
          const places = [...live.querySelectorAll(".mark-symbol.role-mark path")].map(x =>
            x.getBoundingClientRect().x);
          const axis = [...live.querySelectorAll(".role-axis-label text")].at(-1);
          return [box.left, box.right, Math.min(...places), Math.max(...places),
            axis.getBoundingClientRect().right];
        }"""
    )
    left, right, first, last, axis = edges
    assert first < left
    assert left < last <= right
    assert left < axis <= right + 1


def test_a_static_picture_on_a_phone_is_seen_from_its_end(show: Any, page: Path) -> None:
    """Without scripts, too, the newest nights are seen first."""
    window, *_ = show(page, {"java_script_enabled": False, **PHONE})
    box = window.locator("#series-1-contrast .static")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth + 100 && box.scrollLeft === 0")
    assert box.evaluate("box => getComputedStyle(box).direction") == "rtl"
    assert overflow(window) == 0


def test_a_mark_says_its_value_interval_and_date(show: Any, page: Path) -> None:
    """Over a mark of a history a tooltip shows them."""
    window, *_ = show(page, {})
    draw_all(window)
    marks = window.locator("#series-1-contrast .live .mark-symbol.role-mark path")
    marks.nth(4).hover(force=True)
    tip = window.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    lines = tip.inner_text()
    assert "95 % interval" in lines
    assert " to " in lines
    assert "2026-01-" in lines
    assert "value" in lines


@pytest.mark.parametrize("scripts", [True, False])
def test_matrices_are_dark_on_a_dark_screen(show: Any, page: Path, scripts: bool) -> None:
    """Squares of correlations near 0 are dark there and bright on a light screen."""
    kind = ".live .mark-rect path" if scripts else ".static path"
    for options, is_dark in ((DARK, True), ({}, False)):
        window, *_ = show(page, {"java_script_enabled": scripts, **options})
        if scripts:
            draw_all(window)
        squares = window.locator(f"#series-1-means {kind}")
        fills = squares.evaluate_all("all => all.map(x => getComputedStyle(x).fill)")
        levels = [sum(map(int, re.findall(r"\d+", fill)[:3])) / 3 for fill in fills]
        assert len(levels) == 2 * 25
        assert (np.median(levels) < 90) == is_dark
