"""Every kind of page on A4, as Chromium prints it: nothing is folded, nothing is cut."""
# ruff: noqa: F811  (fixtures that are imported)

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_pages import of_nights, of_plans, of_releases, of_runs, of_several

from tests.addons.partners.pages import hospitals  # noqa: F401  (a fixture)
from tests.addons.partners.sites import documents as sites  # noqa: F401  (a fixture)
from tests.report.browsing import browser  # noqa: F401  (a fixture)

pypdf = pytest.importorskip("pypdf")
pytestmark = pytest.mark.usefixtures("noise_in_doubles")

A4 = 210.0, 297.0
"""Width and height, in millimetres."""
INNER = 688
"""Pixels across an A4 page within its margins."""
TALLEST = 980
"""Pixels down the same."""
TEXTS = """() => [...document.querySelectorAll(
  "#privacy dd, #privacy dt, details :is(p, dt, dd, td, th, li), .lead, .prose, .reportlet td"
)].filter(one => !one.closest(".bar, .copy, .filter, .take") && !one.matches(".copy"))
  .map(one => one.innerText)"""
"""What is to be read on paper: the statement, all that is folded on a screen, and the tables."""
CUT = """([width, height]) => [...document.querySelectorAll("header *, main *")].filter(one => {
  if (one.closest("svg") && !one.matches("svg:not(svg svg)")) return false;
  const box = one.getBoundingClientRect();
  return box.width && (box.right > width + 1 || (one.matches("svg") && box.height > height));
}).map(one => one.outerHTML.slice(0, 80))"""
"""Elements that are wider than a page, and pictures that are taller."""


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, hospitals: list[Path], sites: list[Path]
) -> dict[str, Path]:
    """Make every kind of page, and return one of each, by its kind."""
    folder = tmp_path_factory.mktemp("printed")
    for name, made in (("runs", of_runs), ("releases", of_releases), ("nights", of_nights)):
        made(folder / name)
    of_several(folder / "several", hospitals, sites)
    of_plans(folder / "plans")
    kinds = {
        "index": "runs/report.html",
        "run": "runs/report-pages/paper.html",
        "errata": "runs/report-pages/errata.html",
        "timing": "runs/ew-timing/report.html",
        "composition": "runs/rao-composition/report.html",
        "release": "releases/0/release/*.html",
        "release with regions": "releases/2.html",
        "release of persons": "releases/of-persons/release/*.html",
        "night": "nights/4.html",
        "history": "nights/history/index.html",
        "compare": "several/compare/*.html",
        "combine": "several/combine/*.html",
        "harmonise": "several/harmonise/maps-page/*.html",
        "match": "several/matched/*.html",
        "check": "plans/looked/*.html",
    }
    found = {kind: list(folder.glob(name)) for kind, name in kinds.items()}
    return {kind: path for kind, (path,) in found.items()}


@pytest.fixture(scope="module")
def window(browser: Any) -> Iterator[Any]:
    """Open a window as wide as paper."""
    page = browser.new_page(viewport={"width": INNER, "height": TALLEST})
    yield page
    page.close()


def squeezed(text: str) -> str:
    """Return a text without blanks, hyphens and ligatures, of which paper may have others."""
    return re.sub(r"[\s\u00ad\u2010\u2011-]+", "", unicodedata.normalize("NFKC", text))


def holds(whole: str, text: str) -> bool:
    """Tell whether a text is printed in one piece, or in two as a page ends within it."""
    if text in whole:
        return True
    first = next(n for n in range(len(text), -1, -1) if text[:n] in whole)
    return first > 10 and text[first:] in whole


def test_all_is_on_paper(pages: dict[str, Path], window: Any, tmp_path: Path) -> None:
    """What is folded on a screen is open in print, on A4, and every page has its number."""
    for kind, path in pages.items():
        window.emulate_media(media="screen")
        window.goto(path.as_uri())
        assert window.locator(".fold[open]").count() == 0
        window.emulate_media(media="print")
        texts = [one for text in window.evaluate(TEXTS) if (one := squeezed(text))]
        written = tmp_path / f"{kind}.pdf"
        window.pdf(path=written, prefer_css_page_size=True)
        sheets = pypdf.PdfReader(written).pages
        sides = [float(side) / 72.0 * 25.4 for side in sheets[0].mediabox[2:]]
        assert sides == pytest.approx(A4, abs=0.5), kind
        printed = [squeezed(sheet.extract_text()) for sheet in sheets]
        for number, text in enumerate(printed, 1):
            assert f"{number}/{len(sheets)}" in text, (kind, number)
        footless = [
            text.replace(f"{number}/{len(sheets)}", "") for number, text in enumerate(printed, 1)
        ]
        whole = "".join(footless)
        missing = [text for text in texts if not holds(whole, text)]
        assert missing == [], (kind, missing[:5])
        assert len(texts) > 5, kind


def test_nothing_is_cut_on_paper(pages: dict[str, Path], window: Any) -> None:
    """No table, text or picture is wider than a page, and no picture is taller."""
    window.emulate_media(media="print")
    for kind, path in pages.items():
        window.goto(path.as_uri())
        assert window.evaluate(CUT, [INNER, TALLEST]) == [], kind


WIDER = """() => [...document.querySelectorAll(".scroll")]
  .filter(one => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
  .map(one => `${one.getAttribute("aria-label")}: ${one.scrollWidth} in ${one.clientWidth}`)"""
"""Tables that have to be scrolled sideways."""


def test_no_table_is_cut_beside_the_contents(pages: dict[str, Path], browser: Any) -> None:
    """At 1,280 pixels each table has all its columns in sight, folded ones too."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    cut = {}
    for kind, path in pages.items():
        page.goto(path.as_uri())
        page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
        if found := page.evaluate(WIDER):
            cut[kind] = found
    page.close()
    assert cut == {}
