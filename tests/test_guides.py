"""The guides: paragraphs are short, tutorials and notebooks run, and the site is whole."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from covdp import __all__ as names
from tests.report.browsing import browser  # noqa: F401  (a fixture)
from tests.tools.leaves import LEAVES

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "reports" / "site"
FOUND = [*ROOT.glob("README.md"), *ROOT.glob("[!.]*/README.md"), *ROOT.glob("pipeline/*/README.md")]
READMES = sorted(page for page in FOUND if page == page.resolve())
PAGES = [*READMES, ROOT / ".github" / "CONTRIBUTING.md", *sorted(SITE.rglob("*.md"))]
TUTORIALS = sorted(SITE.glob("tutorials/*.md"))
NOTEBOOKS = sorted(SITE.glob("notebooks/*.md"))
NO_SPHINX = "no Sphinx, MyST-NB or furo: pip install -c constraints.txt -e '.[docs]'"
MOST = 5
"""Sentences of a paragraph, a list item or a cell."""


def named(page: Path) -> str:
    """Return where a page is in the repository."""
    return str(page.relative_to(ROOT))


def paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs, list items and cells of a page; blocks of code are left out."""
    text = re.sub(r"^(```+).*?^\1", "\n", text, flags=re.S | re.M)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) |#|\|)", text):
        for part in re.split(r"(?<!\\)\|", block) if block.startswith("|") else [block]:
            if part.strip():
                yield " ".join(part.split())


def sentences(paragraph: str) -> int:
    """Count sentences; one ends at a full stop, a question mark or a semicolon."""
    return len(re.findall(r"[.?!][\"”)]?\s+(?=[\"“(`*\[]?\w)|;\s", paragraph)) + 1


def too_long(text: str) -> list[str]:
    """Return how paragraphs of more than five sentences begin."""
    return [each[:80] for each in paragraphs(text) if sentences(each) > MOST]


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the language and the text of each fenced block."""
    found = re.findall(r"^```(\S*).*?\n(.*?)^```$", page.read_text("utf-8"), flags=re.S | re.M)
    return [(language, text) for language, text in found if not language.startswith("{include")]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_paragraph_has_more_than_five_sentences(page: Path) -> None:
    """Neither a list item nor a cell of a table has."""
    assert too_long(page.read_text(encoding="utf-8")) == []


def test_a_paragraph_of_six_sentences_is_found() -> None:
    """In plain text, in a list and in a cell; five sentences and a block of code are not."""
    six, five = "One `a.b` is 0.5. " * 6, "One; is it? " * 2 + "Five."
    wall = f"# Title\n\n{six}\n\n* {six}\n* {five}\n\n| a | {six} |\n\n```\n{six}\n```\n\n{five}\n"
    assert too_long(wall) == [each[:80] for each in (six, f"* {six}", six)]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which commands are those of this checkout, and nothing is kept."""
    programs, kept = tmp_path / "bin", {"LANG", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"}
    programs.mkdir()
    for name, start in {"covdp": "-m covdp", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {start} "$@"\n')
        (programs / name).chmod(0o700)
    environment = {name: value for name, value in os.environ.items() if name in kept}
    folders = dict.fromkeys(("HOME", "TMPDIR"), str(tmp_path))
    path = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return {**environment, **folders, **path}


def run(command: list[str], text: str, folder: Path, home: dict[str, str]) -> str:
    """Return what a program prints that reads `text`."""
    folder.mkdir()
    done = subprocess.run(
        command, input=text, cwd=folder, env=home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def masked(text: str) -> str:
    """Return a text in which numbers are # and blanks are one, as noise and dates decide them."""
    return " ".join(re.sub(r"([<>] ?)?[−-]?\d+([.,]\d+)*", "#", text).split())


@pytest.mark.guides
@pytest.mark.slow
@pytest.mark.addons
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_does_what_it_says(page: Path, tmp_path: Path, home: dict[str, str]) -> None:
    """Every command and script of a tutorial runs; cards and outputs that it shows are made.

    Noise is that of releases: a sentence that depends on it is not shown, its numbers are not read.
    """
    found = blocks(page)
    assert {language for language, _ in found} <= {"bash", "python", "text", "toml"}
    folder = tmp_path / "empty"
    commands = "".join(text for language, text in found if language == "bash")
    scripts = "".join(text for language, text in found if language == "python")
    printed = ""
    if commands:
        printed = masked(run(["bash", "-eu", "-o", "pipefail"], commands, folder, home))
    if scripts:
        printed += run([sys.executable, "-"], scripts, tmp_path / "scripts", home)
    assert printed
    cards = "\n".join(file.read_text() for file in folder.glob("*.toml"))
    for language, text in found:
        for line in filter(None, text.splitlines()):
            if language == "toml":
                assert line in cards
            elif language == "text":
                for part in masked(line).split("…"):
                    assert part.strip() in printed, line


@pytest.mark.guides
@pytest.mark.slow
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_runs_and_shows_a_picture(
    page: Path, tmp_path: Path, home: dict[str, str]
) -> None:
    """Its cells run in order, and some end in a picture."""
    if find_spec("IPython") is None:
        pytest.skip(NO_SPHINX)
    cells = [text for language, text in blocks(page) if language == "{code-cell}"]
    assert len(cells) > 2
    shown = re.sub(
        r"^(SVG|Image)\(.*", r"shown = \g<0>\nassert shown.data", "\n".join(cells), flags=re.M
    )
    assert "shown = " in shown
    run([sys.executable, "-"], shown, tmp_path / "notebook", home)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site as `make docs` builds it, a warning being an error; notebooks are not run."""
    if not all(map(find_spec, ("sphinx", "myst_nb", "furo"))):
        pytest.skip(NO_SPHINX)
    built = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--quiet", "-D", "nb_execution_mode=off"]
    command = [sys.executable, "-m", "sphinx", *options, SITE, built]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return built


@pytest.mark.guides
@pytest.mark.slow
def test_the_site_is_whole(site: Path) -> None:
    """Every page is built, every README is on one; no page asks for anything from elsewhere."""
    made = {page.relative_to(SITE).with_suffix(".html") for page in SITE.rglob("*.md")}
    assert {page for page in made if not (site / page).is_file()} == set()
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    asked = (
        r"<(?:script|img|iframe|source)[^>]*\ssrc=\"(?:https?:)?//|<link[^>]*href=\"(?:https?:)?//"
    )
    assert [page.name for page, text in pages.items() if re.search(asked, text)] == []
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert not re.search(r"@import|url\(['\"]?(?:https?:)?//", styles)
    included = {
        (page.parent / name).resolve()
        for page in SITE.rglob("*.md")
        for name in re.findall(r"```\{include\} (\S+)", page.read_text(encoding="utf-8"))
    }
    assert set(READMES) - included == set()
    assert len(READMES) >= 8


@pytest.mark.guides
@pytest.mark.slow
@pytest.mark.addons
def test_the_reference_has_every_command_and_function(site: Path) -> None:
    """Commands have their options, public names their parameters."""
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    missing = [leaf for leaf in LEAVES if f'id="covdp-{leaf[0]}"' not in commands]
    assert missing == []
    assert commands.count("--data-root") > 10
    functions = (site / "reference" / "python" / "covdp.html").read_text(encoding="utf-8")
    assert [name for name in names if f'id="covdp.{name}"' not in functions] == []
    assert functions.count("Parameters") >= 5


@pytest.mark.guides
@pytest.mark.slow
def test_search_needs_no_network(site: Path, browser: Any) -> None:  # noqa: F811
    """From a disk the search finds a function and a tutorial; nothing is asked for but files."""
    page, asked, faults = browser.new_page(), list[str](), list[str]()
    page.on("request", lambda item: asked.append(item.url))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{(site / 'search.html').as_uri()}?q=harmonise", wait_until="load")
    page.wait_for_selector("#search-results >> text=/^Search finished/")  # results come one by one
    found = page.inner_text("#search-results")
    assert "covdp.inference.harmonise" in found
    assert "Two hospitals" in found
    assert asked
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
    assert faults == []
    page.close()
