"""Every kind of page on A4, as Chromium prints it: nothing is folded, nothing is cut."""
# ruff: noqa: F811  (fixtures that are imported)

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_documents import document_of
from sample_pages import of_nights, of_plans, of_releases, of_runs, of_several

from covdp.report import build_release_report
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
    _of_nine(folder / "releases/2.json", folder / "nine.html")
    kinds = {
        "index": "runs/report.html",
        "run": "runs/report-pages/paper.html",
        "errata": "runs/report-pages/errata.html",
        "timing": "runs/ew-timing/report.html",
        "composition": "runs/rao-composition/report.html",
        "release": "releases/0/release/*.html",
        "release with regions": "releases/2.html",
        "release of nine classes": "nine.html",
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


def _of_nine(released: Path, page: Path) -> None:
    """Write the page of a release whose nine classes are usable."""
    values = json.loads(released.read_text())
    rows = [values["classes"][place % 2] for place in range(9)]
    names = [f"colorectal tissue {place}" for place in range(9)]
    values["classes"] = [
        {**row, "name": name, "label": place}
        for place, (row, name) in enumerate(zip(rows, names, strict=True))
    ]
    values["settings"]["classes"] = [[n, name, 400] for n, name in enumerate(names)]
    build_release_report(document_of(values), page)


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


WIDER = """() => [...document.querySelectorAll(".scroll")]
  .filter(one => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
  .map(one => `${one.getAttribute("aria-label")}: ${one.scrollWidth} in ${one.clientWidth}`)"""
"""Tables that have to be scrolled sideways."""
BROKEN = r"""() => [...document.querySelectorAll(".scroll :is(th, td)")].flatMap(cell => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), found = [];
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (node.parentElement.closest("a, code, .digest")) continue;
    for (const word of node.data.matchAll(/[^\s\u00a0]{2,16}(?![^\s\u00a0])/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
      if (tops.size > 1) found.push(word[0]);
    }
  }
  return found;
})"""
"""Words, dates and numbers of tables that stand in two lines."""


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
        assert footless[-1], kind
        whole = "".join(footless)
        missing = [text for text in texts if not holds(whole, text)]
        assert missing == [], (kind, missing[:5])
        assert len(texts) > 5, kind


def test_nothing_is_cut_on_paper(pages: dict[str, Path], window: Any) -> None:
    """No table, text or picture is wider than a page, no picture taller, and no word broken."""
    window.emulate_media(media="print")
    for kind, path in pages.items():
        window.goto(path.as_uri())
        assert window.evaluate(CUT, [INNER, TALLEST]) == [], kind
        assert window.evaluate(WIDER) == [], kind
        assert window.evaluate(BROKEN) == [], kind


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
