"""The history in a real browser: drawn, chosen from by keyboard, on a phone, and calling nobody."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_documents import document_of
from sample_history import CLASSES, draw_nights

from covdp.addons.nights.history_page import build_history
from covdp.report import build_release_report
from covdp.report.templates import undivided
from tests.addons.nights.pages import tables
from tests.report.browsing import (  # noqa: F401  (fixtures)
    DARK,
    HIGHEST,
    PHONE,
    Showing,
    browser,
    draw_all,
    opened,
    overflow,
    parts,
    show,
)

DAYS = [f"2026-03-{day:02d}" for day in range(1, 9)]
CONTROLS = """() => {
  const told = element => [
    element.type || element.tagName,
    element.name || element.getAttribute("href") || element.className,
    element.value ?? "",
  ];
  window.visited = [];
  document.addEventListener("focusin", ({ target }) => window.visited.push(told(target)));
}"""
"""Notes each control that gets the focus: what it is, its name or where it leads, its value."""
CONTRAST = """elements => elements.map(element => {
  const channels = color => color.match(/[0-9.]+/g).slice(0, 3).map(c => Number(c) / 255).map(c =>
    c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const weights = [0.2126, 0.7152, 0.0722];
  const light = color => channels(color).reduce((sum, c, i) => sum + weights[i] * c, 0);
  const behind = element => getComputedStyle(element).backgroundColor;
  let under = element;
  while (/rgba\\(.*, 0\\)/.test(behind(under))) under = under.parentElement;
  const both = [getComputedStyle(element).color, behind(under)].map(light);
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
})"""
"""Contrast of texts against what lies behind them, as WCAG 2 has it."""
AT_THE_END = "innerHeight + scrollY > document.documentElement.scrollHeight - 2"
MARKS = "#series-1-contrast .live .mark-symbol.role-mark path"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the history of eight nights."""
    folder = tmp_path_factory.mktemp("nights")
    results = draw_nights(folder, DAYS, np.random.default_rng(20260322))
    return build_history("ward", results, folder / "out")


def focus(page: Any, kind: str, value: str = "") -> None:
    """Press Tab until a control of a kind, and with a value, has the focus."""
    page.evaluate(CONTROLS)
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate("window.visited.at(-1)")
        if found[0] == kind and value in found[1:]:
            return
    raise AssertionError(f"{kind} {value} cannot be reached by keyboard")


def draw_contrast(page: Any) -> Any:
    """Scroll to the chart of contrast until it is interactive, and return its marks."""
    chart = page.locator("#series-1-contrast figure.chart")
    chart.scroll_into_view_if_needed()
    page.locator("#series-1-contrast figure.chart[data-state=live]").wait_for()
    page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
    return page.locator(MARKS)


def wait_for_marks(page: Any, count: int) -> None:
    """Wait until the chart of contrast has so many."""
    page.wait_for_function(
        "([marks, count]) => document.querySelectorAll(marks).length === count", arg=[MARKS, count]
    )


@pytest.mark.parametrize("opened", [PHONE], indirect=True)
def test_it_fits_a_phone(opened: Any) -> None:  # noqa: F811
    """At 390 pixels nothing sticks out, with all charts drawn; each window's panel has its axis."""
    assert draw_all(opened) == 7
    assert overflow(opened) == 0
    widths = opened.locator("#series-1-windows .live .mark-group.cell > g").evaluate_all(
        """panels => panels.map(panel => {
          const places = [...panel.querySelectorAll(".mark-symbol path")].map(mark =>
            mark.getBoundingClientRect().x);
          return Math.max(...places) - Math.min(...places);
        })"""
    )
    assert len(widths) == 5
    assert min(widths) > 10


def test_what_is_open_is_read_to_its_end(opened: Any) -> None:  # noqa: F811
    """At most 6,000 pixels; all else opens in print, and for a link that leads into it."""
    draw_all(opened)
    opened.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = false")
    assert opened.evaluate("document.documentElement.scrollHeight") <= HIGHEST
    shut = opened.locator("details.fold:not([open])")
    assert {"windows", "statements", "privacy", "methods"} <= {
        name.rpartition("-")[2]
        for name in shut.evaluate_all("all => all.map(one => one.parentElement.id)")
    }
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert shut.count() == 0
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shut.count() > 0


def test_a_night_is_read_to_its_end(tmp_path: Path, show: Showing) -> None:  # noqa: F811
    """At most 6,000 pixels, with the statement of privacy; methods are whole at a click."""
    nights = draw_nights(tmp_path, DAYS[:4], np.random.default_rng(20260322))
    path = build_release_report(document_of(nights[-1]), tmp_path / "night.html")
    page, faults, _ = show(path, {})
    draw_all(page)
    page.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = false")
    assert page.evaluate("document.documentElement.scrollHeight") <= HIGHEST
    assert page.locator("#privacy dl.pairs").is_visible()
    assert not page.locator("#methods-text").is_visible()
    page.locator("#methods summary").first.click()
    assert page.locator("#methods-text").is_visible()
    assert faults == []


@pytest.mark.parametrize("opened", [DARK, {}], indirect=True, ids=["dark", "light"])
def test_soft_texts_are_legible(opened: Any) -> None:  # noqa: F811
    """What is written in soft colours has a contrast of 4.5, on a light and on a dark screen."""
    shown = opened.locator(".where, .word, .filter label, .caption, .digest, figcaption, .data")
    found = shown.evaluate_all(CONTRAST)
    assert len(found) > 30
    assert min(found) > 4.5


def test_every_control_is_reached_by_keyboard(opened: Any) -> None:  # noqa: F811
    """Tab comes to each box, to the means, to every table, statement and committed file.

    Enter on the heading of a part that is folded opens it.
    """
    opened.evaluate(CONTROLS)
    for _ in range(100):
        focused = "document.activeElement?.matches('.fold:not([open]) > summary')"
        if opened.evaluate(focused):
            opened.keyboard.press("Enter")
        opened.keyboard.press("Tab")
    found = [tuple(one) for one in opened.evaluate("window.visited")]
    boxes = [value for kind, _, value in found if kind == "checkbox"]
    assert boxes[:2] == list(CLASSES)
    assert ("radio", "span", "all nights so far") in found
    links = {target for kind, target, _ in found if kind == "A"}
    expected = opened.locator("main a[href]:not(.vega-actions a)").evaluate_all(
        "all => all.map(link => link.getAttribute('href'))"
    )
    assert len(expected) == 2 * 7 + 2 * len(DAYS)
    assert set(expected) <= links


def test_a_class_is_left_out_by_keyboard(opened: Any) -> None:  # noqa: F811
    """Space on its box takes its marks from a chart and its column from the table, and back."""
    marks = draw_contrast(opened)
    column = opened.locator(f'td[data-class="{CLASSES[0]}"]')
    before = marks.count()
    assert before > 0
    focus(opened, "checkbox", CLASSES[0])
    opened.keyboard.press("Space")
    wait_for_marks(opened, before // 2)
    assert column.first.is_hidden()
    opened.keyboard.press("Space")
    wait_for_marks(opened, before)
    assert column.first.is_visible()


def test_other_nights_are_chosen_by_keyboard(opened: Any, report: Path) -> None:  # noqa: F811
    """An arrow key draws the means of the last thirty nights: as many marks as its rows."""
    spans = [row["mean_of"] for row in tables(report)["series-1-contrast.csv"]]
    every, month = (spans.count(span) for span in ("all nights so far", "last 30 nights"))
    assert every + month == len(spans)
    assert every != month
    assert draw_contrast(opened).count() == every
    focus(opened, "radio", "all nights so far")
    opened.keyboard.press("ArrowRight")
    wait_for_marks(opened, month)


def test_a_night_leads_to_its_statement(opened: Any) -> None:  # noqa: F811
    """The link of a night brings the line of its statement to the screen."""
    link = opened.locator("main a", has_text="statement").nth(2)
    link.click()
    line = opened.locator(f'[id="{link.get_attribute("href")[1:]}"]')
    assert line.get_by_text(undivided(DAYS[-3])).is_visible()
    assert opened.evaluate("location.hash") == link.get_attribute("href")


@pytest.mark.parametrize(
    "opened",
    [{}, PHONE, {"java_script_enabled": False}],
    indirect=True,
    ids=["desktop", "phone", "plain"],
)
def test_the_bar_leads_to_every_part(opened: Any) -> None:  # noqa: F811
    """It lists all parts, stays in sight, and what it leads to is not hidden by it."""
    sections = opened.locator(".reportlet, .privacy").evaluate_all("all => all.map(one => one.id)")
    assert len(sections) > 12
    assert parts(opened) == sections
    assert {"privacy", "methods"} < set(sections)
    for place in ("series-1-windows", "series-1-runs", "methods"):
        menu = opened.locator(".bar summary")
        if menu.is_visible():  # on a wide screen its list is open at the left
            menu.press("Enter")
        opened.locator(f".bar a[href='#{place}']").press("Enter")
        opened.wait_for_url(f"**#{place}")
        boxes = opened.locator(".bar, .filter").filter(visible=True)
        edges = boxes.evaluate_all("all => all.map(one => one.getBoundingClientRect())")
        assert edges[0]["top"] == 0
        heading = opened.locator(f"#{place} :is(h2, h3)").first.bounding_box()["y"]
        assert heading >= max(edge["bottom"] for edge in edges)
        assert heading < 500 or opened.evaluate(AT_THE_END)
        opened.locator(".bar details[open] summary").evaluate_all("all => all.map(x => x.click())")
    opened.locator(".bar .home").press("Enter")
    opened.wait_for_function("scrollY === 0")


@pytest.mark.parametrize("opened", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts_all_is_there(opened: Any, report: Path) -> None:  # noqa: F811
    """Pictures of all nights are visible, no box that does nothing, and numbers can be had."""
    for heading in opened.locator(".fold > summary").all():
        heading.click()
    charts = opened.locator("figure.chart .static svg")
    assert charts.count() == 7
    assert all(charts.nth(index).is_visible() for index in range(7))
    assert not opened.locator(".filter").first.is_visible()
    link = opened.locator("#series-1-contrast a.data")
    with opened.expect_download() as waiting:
        link.click()
    assert waiting.value.suggested_filename == "series-1-contrast.csv"
    saved = Path(waiting.value.path()).read_text(encoding="utf-8-sig")
    assert len(saved.splitlines()) == 1 + len(tables(report)["series-1-contrast.csv"])
