"""The page in a real browser: it is drawn, it answers the mouse, it calls nobody.

Playwright drives whatever Chromium or Chrome is on this machine.
"""
# ruff: noqa: F811  (fixtures that are imported)

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from sample_runs import SERIES, write_sample

from covdp.report import build_report
from covdp.results import read_rows, write_rows
from tests.report.browsing import (  # noqa: F401  (fixtures)
    DARK,
    PHONE,
    Showing,
    browser,
    draw_all,
    opened,
    overflow,
    report,
    show,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the index of two experiments."""
    out = tmp_path_factory.mktemp("site")
    for name in ("first", "second"):
        write_sample(out, experiment=name, budgets=2, repetitions=2, images=False)
    return build_report(out)


FAULTS = """figures => figures.flatMap(figure => {
  const svg = figure.querySelector(".live svg"), frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim()
    && text.getAttribute("opacity") !== "0").map(text => [text.textContent,
    text.getBoundingClientRect()]);
  return boxes.flatMap(([words, box], index) => [
    ...(words.includes("…") ? [`cut: ${words}`] : []),
    ...(box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
      || box.bottom > frame.bottom + 1 ? [`outside: ${words}`] : []),
    ...boxes.slice(0, index).filter(([, other]) =>
      Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1
      && Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 2)
      .map(([other]) => `${words} over ${other}`)]);
})"""
"""What is wrong with the texts of interactive charts: cut, outside the picture, on one another."""


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a report whose charts have long names, and titles on two lines."""
    out = tmp_path_factory.mktemp("long")
    names = ("cancer-associated stroma", "choroidal neovascularization", "c", "d")
    write_sample(out, names=names, repetitions=2, images=False)
    record = write_sample(out, dataset="one", budgets=1, repetitions=2, images=False)
    path = out / "results" / f"{record.run}.parquet"
    rows = read_rows(path)
    rows["distance"] = np.full(len(rows["n"]), "half-vectorisation", dtype=object)
    rows["definition"] = np.where(rows["label"] == 0, "pure", "approx").astype(object)
    write_rows(path, rows, metadata={})
    return build_report(out)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [1280, 800, 390])
def test_texts_of_charts_are_whole_and_apart(show: Showing, long_names: Path, wide: int) -> None:
    """No text of a chart is cut, leaves its picture or lies on another, on screens of any width."""
    page, *_ = show(long_names, {"viewport": {"width": wide, "height": 900}})
    assert draw_all(page) == 6
    faults = page.locator("figure.chart").evaluate_all(FAULTS)
    texts = page.locator("figure.chart .live svg text").count()
    assert faults == []
    assert texts > 50
    assert overflow(page) == 0


WIDTHS = """figures => figures.map(figure => {
  const padding = 2 * parseFloat(getComputedStyle(figure).paddingLeft);
  const svg = figure.querySelector(".live svg").getBoundingClientRect();
  const parts = [...figure.querySelectorAll(".live svg text, .live svg .role-mark path")];
  const edge = figure.getBoundingClientRect();
  const beyond = part => part.right > edge.right + 1 || part.left < edge.left - 1;
  return [figure.dataset.name, svg.width / (figure.clientWidth - padding),
    parts.filter(part => beyond(part.getBoundingClientRect())).length];
})"""
"""Width of each chart as a share of its card's, and how many of its marks and texts are cut."""


@pytest.mark.slow
@pytest.mark.parametrize("wide", [1280, 800, 390])
@pytest.mark.parametrize("kind", ["report", "long_names"])
def test_charts_fill_their_cards(
    show: Showing, request: pytest.FixtureRequest, wide: int, kind: str
) -> None:
    """No chart is wider than its card, and charts with axes are as wide; nothing of them is cut."""
    screen = {"viewport": {"width": wide, "height": 900}}
    page, *_ = show(request.getfixturevalue(kind), screen)
    draw_all(page)
    found = page.locator("figure.chart").evaluate_all(WIDTHS)
    assert len(found) == 6
    assert [name for name, share, _ in found if not 0.98 < share <= 1.001] == []
    assert [name for name, _, cut in found if cut] == []


def test_pictures_without_scripts_fit_a_screen(show: Showing, long_names: Path) -> None:
    """At 1,280 pixels no static picture has to be scrolled sideways."""
    page, *_ = show(long_names, {"java_script_enabled": False})
    boxes = page.locator("figure.chart .static")
    assert boxes.evaluate_all("all => all.map(x => x.scrollWidth - x.clientWidth)") == [0] * 6


@pytest.mark.slow
@pytest.mark.parametrize("opened", [PHONE, DARK, {}], indirect=True, ids=["phone", "dark", "light"])
def test_charts_become_interactive(opened: Any) -> None:
    """Every chart is drawn again by the script with marks inside the screen, no static one left."""
    assert overflow(opened) == 0
    assert draw_all(opened) == 6
    widths = opened.locator("figure.chart .live svg.marks").evaluate_all(
        "all => all.map(svg => [svg.getBoundingClientRect().width, svg.querySelectorAll("
        "'.role-mark path').length])"
    )
    assert len(widths) == 6
    assert all(width > 150 and marks > 1 for width, marks in widths)
    assert opened.locator(".static:visible").count() == 0
    assert overflow(opened) == 0


def test_marks_answer_the_mouse(opened: Any) -> None:
    """Over a point a tooltip shows its series and its numbers."""
    draw_all(opened)
    dots = opened.locator("#main-pneumoniamnist-error .live .mark-symbol.role-mark path")
    assert dots.count() == 2 * 4 * 5
    dots.first.hover(force=True)
    tip = opened.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "EWG" in tip.inner_text()
    assert "mean" in tip.inner_text()


def test_pictures_are_present(opened: Any) -> None:
    """Every image has decoded to a size of its own, and no class name became a script."""
    opened.wait_for_function("[...document.images].every(image => image.complete)")
    sizes = opened.evaluate("[...document.images].map(image => image.naturalWidth)")
    assert len(sizes) == 6
    assert min(sizes) > 28
    assert opened.title() == "Private mean covariance descriptors, per class"
    assert opened.get_by_text("<script>alert(1)</script>").count() > 1


def test_links_lead_to_their_sections(opened: Any) -> None:
    """Each entry of the contents brings its section to the screen."""
    links = opened.locator(".masthead nav a")
    assert links.count() == 4
    for index in range(4):
        links.nth(index).click()
        target = opened.locator(f'[id="{links.nth(index).get_attribute("href")[1:]}"]')
        target.locator("h2").first.wait_for()
        assert target.is_visible()


def test_bibtex_is_copied_by_keyboard_offline(opened: Any) -> None:
    """The button puts the very entries into the clipboard, and says that it did."""
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.get_by_role("heading", name="Methods").click()
    opened.get_by_text("References, and as BibTeX").first.click()
    button = opened.get_by_role("button", name="Copy the BibTeX")
    button.focus()
    opened.keyboard.press("Enter")
    opened.get_by_role("button", name="Copied").wait_for()
    found = opened.evaluate("navigator.clipboard.readText()")
    assert found.strip() == opened.locator("#bibtex").inner_text().strip()
    assert "@software{covdp," in found


@pytest.mark.parametrize("opened", [PHONE], indirect=True)
def test_phone_needs_no_sideways_scrolling(opened: Any) -> None:
    """At 390 pixels nothing sticks out of the page; a wide table scrolls inside its box."""
    assert overflow(opened) == 0
    opened.locator("#main-pneumoniamnist-numbers summary").click()
    box = opened.locator("#main-pneumoniamnist-numbers .scroll")
    assert box.evaluate("box => box.scrollWidth - box.clientWidth") > 0
    head = box.locator("thead th").first
    before = head.bounding_box()["y"]
    box.evaluate("box => box.scrollTop = 200")
    assert head.bounding_box()["y"] == pytest.approx(before, abs=2)


SIDES = """async figure => {
  const spec = JSON.parse(figure.querySelector("script").textContent);
  Object.assign(spec, { background: "white", padding: 24 });
  const nowhere = document.createElement("div");
  const { view } = await vegaEmbed(nowhere, spec, { renderer: "none", actions: false });
  const svg = new DOMParser().parseFromString(await view.toSVG(), "image/svg+xml");
  return [svg.documentElement.width, svg.documentElement.height].map(side => side.baseVal.value);
}"""
"""Width and height of a chart as this browser draws it: its letters are those of its own fonts, and
those of the SVG in the page are the report's."""


@pytest.mark.parametrize("opened", [PHONE], indirect=True)
def test_pictures_and_numbers_can_be_taken_away(opened: Any, tmp_path: Path) -> None:
    """CSV, SVG and PNG are saved from the file alone, as wide on a phone as on a screen."""
    opened.context.set_offline(True)
    figure = opened.locator("#main-pneumoniamnist-error figure")
    saved = {}
    for kind in ("Numbers (CSV)", "SVG", "PNG"):
        with opened.expect_download() as waiting:
            figure.get_by_text(kind, exact=True).press("Enter")
        name = waiting.value.suggested_filename
        waiting.value.save_as(tmp_path / name)
        saved[name.rpartition(".")[2]] = tmp_path / name
        assert name.startswith("main-pneumoniamnist-error.")
    opened.context.set_offline(False)
    svg, csv = (saved[kind].read_text(encoding="utf-8") for kind in ("svg", "csv"))
    assert csv.count("\n") == 1 + 2 * 4 * 5
    width = float(svg.partition('width="')[2].partition('"')[0])
    assert width > 800
    assert all(name in svg for name in ("pneumonia", *SERIES))
    png = saved["png"].read_bytes()
    assert png.startswith(b"\x89PNG")
    sides = [3 * side for side in figure.evaluate(SIDES)]
    assert [int.from_bytes(png[16:20]), int.from_bytes(png[20:24])] == sides
    assert len(png) > 20_000  # drawn, not blank


@pytest.mark.parametrize(
    "opened",
    [{"java_script_enabled": False}, {"java_script_enabled": False, **PHONE}],
    indirect=True,
    ids=["desktop", "phone"],
)
def test_pictures_without_scripts(opened: Any) -> None:
    """With JavaScript off every chart and sample is a visible picture on a page that fits.

    Numbers and pictures can be saved; what would need a script is not there.
    """
    for fold in opened.locator(".fold > summary").all():
        fold.click()
    charts = opened.locator("figure.chart .static svg")
    assert charts.count() == 6
    for index in range(6):
        assert charts.nth(index).is_visible()
        assert charts.nth(index).bounding_box()["width"] > 300
        assert charts.nth(index).locator(".role-mark path").count() > 1
    assert overflow(opened) == 0
    images = opened.locator(".samples img")
    assert images.count() == 2 + 4
    assert all(images.nth(index).is_visible() for index in range(6))
    assert not opened.locator("button, .filter").filter(visible=True).count()
    with opened.expect_download() as waiting:
        opened.locator("#main-pneumoniamnist-error a.svg").click()
    assert waiting.value.suggested_filename == "main-pneumoniamnist-error.svg"
    root = ElementTree.parse(waiting.value.path()).getroot()
    seen = opened.locator("#main-pneumoniamnist-error .static svg")
    drawn = seen.evaluate("svg => [svg.viewBox.baseVal.width, svg.textContent]")
    assert float(root.attrib["width"]) == drawn[0] + 40
    assert "".join(root.itertext()) == drawn[1]


@pytest.mark.addons
@pytest.mark.parametrize("scripts", [True, False])
def test_the_bar_stays_in_sight_and_leads_by_keyboard(
    show: Showing, site: Path, scripts: bool
) -> None:
    """On a phone, from the index by keys alone to the end of a page, on to the next, and back."""
    page, _, requests = show(site, {"java_script_enabled": scripts, **PHONE})
    assert overflow(page) == 0
    menus = page.locator(".bar summary")
    menus.first.press("Enter")
    page.locator(".bar .menu a").first.press("Enter")
    page.wait_for_url("**/report-pages/first.html")
    assert overflow(page) == 0
    menus.nth(1).press("Enter")
    page.locator(".menu a", has_text="Statement of privacy").press("Enter")
    page.wait_for_url("**/first.html#privacy")
    heading, bar = page.locator("#privacy h2").bounding_box(), page.locator(".bar").bounding_box()
    assert bar["y"] == 0
    assert bar["height"] < 60  # one line
    assert heading["y"] >= bar["height"]
    if scripts:
        assert page.locator(".menu[open]").count() == 0
        menus.first.press("Enter")
        menus.first.press("Escape")
        assert page.locator(".menu[open]").count() == 0
    page.locator(".bar [rel=next]").press("Enter")
    page.wait_for_url("**/report-pages/second.html")
    page.locator(".bar .home").press("Enter")
    page.wait_for_url("**/report.html")
    assert {url for url in requests if not url.startswith("file:")} <= {
        url for url in requests if url.startswith(("data:", "blob:"))
    }
