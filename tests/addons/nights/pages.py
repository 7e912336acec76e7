"""What a page of a history shows."""

import base64
import csv
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from sample_history import draw_release, retold

from covdp.addons.nights.history_page import build_history
from covdp.addons.nights.timelines import Scale, timeline
from covdp.figures import Figure

DAYS = [f"2026-03-{day:02d}" for day in (1, 2, 3, 5, 6)]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the document of one release that was drawn."""
    return draw_release(tmp_path_factory.mktemp("ward"))


@pytest.fixture(scope="module")
def results(first: bytes) -> list[bytes]:
    """Return the documents of five days, brighter by a tenth on the last."""
    return [retold(first, day, gain=1.1 if day == DAYS[-1] else 1.0) for day in DAYS]


@pytest.fixture(scope="module")
def page(results: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of these five."""
    return build_history("ward", results, tmp_path_factory.mktemp("history"))


def words(page: Path) -> str:
    """Return the page's text but for its bar, tags taken out and spaces made single."""
    text = page.read_text(encoding="utf-8")
    body = re.sub(r'(?s)<(script|style|svg).*?</\1>|<a class="skip".*?</nav>', " ", text)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def tables(page: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows of all tables that the page offers, by the names of their files."""
    links = re.findall(
        r'href="data:text/csv;charset=utf-8;base64,([^"]*)" download="([^"]*)"',
        page.read_text(encoding="utf-8"),
    )
    decoded = {name: base64.b64decode(text).decode("utf-8-sig") for text, name in links}
    return {name: list(csv.DictReader(io.StringIO(text))) for name, text in decoded.items()}


def marks(page: Path) -> list[list[dict[str, Any]]]:
    """Return what the charts of the page are drawn from, in order."""
    specs = re.findall(
        r'<script type="application/json">(.*?)</script>', page.read_text(encoding="utf-8"), re.S
    )
    return [
        [row for rows in json.loads(spec)["datasets"].values() for row in rows if row]
        for spec in specs
    ]


def drawn(records: list[dict[str, Any]]) -> Figure | None:
    """Return the chart of some records of two classes."""
    return timeline(
        records,
        name="x",
        title="X",
        scale=Scale("low", "high"),
        classes=["well", "ill"],
        first="all",
        caption="",
    )
