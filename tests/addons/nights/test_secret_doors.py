"""Secret labels at every door: nights and releases compared, combined, matched, shown, harmonised.

Images are of one population or of another whose gray levels are a fifth of these, which moves each
mean by many times its noise: what is tested differs with p below 1e-6 (below 1e-31 in each of 120
runs), and of one population with more but once in 10^5 runs of this file. A class that no image has
is at each door.
"""

import io
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sample_nights import CONFIG, Ward

from covdp.cli import main
from covdp.figures.style import size_in_words
from covdp.inference import region
from covdp.privacy import GDP
from tests.addons.nights.pages import marks, tables
from tests.addons.nights.secret_wards import CLASSES, HORIZON, SECRET, recorded

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

WELL, ILL = (41, 44), (9, 7)
"""Images of the two classes that have any, on the first night and on each of three later ones."""
SURE = 1e-6


def make(folder: Path, name: str, *, gain: float = 1.0, stream: bool = True) -> Path:
    """Return the document of the fourth night of a stream, or of a release of as many images."""
    number = ord(name[-1])
    ward = Ward(folder / name, made=1000 * number)
    (ward.folder / "ward" / "none").mkdir()
    config = SECRET.replace("nightly", name).replace("ward-7", f"population-{name}")
    config = config.replace("20.0", "80.0")  # a window of a few images, too, has little noise
    ward.write(CLASSES, config=config, stream=HORIZON if stream else "")
    ward.ledger.set_budget(f"population-{name}", GDP(80.0))
    for day in (1, 2, 3, 4):
        for path in ward.put(*(WELL if day == 1 else ILL)):
            if gain != 1.0:
                darker = gain * np.asarray(Image.open(path))
                Image.fromarray(darker.astype(np.uint8)).save(path)
        if stream and day < 4:
            ward.settle(day)
    tokens = ["release", "--config", "night.toml", "--data-root", ".", "--run-key", "2026-03-04"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ward.folder)
        assert main([*tokens, "--out", "out", "--ledger", "ledger.sqlite", "--quiet"]) == 0
    return ward.folder / "out" / "release" / f"{name}-2026-03-04.json"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return two streams and two releases of one population, and one of each of another."""
    folder = tmp_path_factory.mktemp("wards")
    found = {name: make(folder, name) for name in ("night-a", "night-b")}
    found |= {name: make(folder, name, stream=False) for name in ("release-d", "release-e")}
    found["night-c"] = make(folder, "night-c", gain=0.2)
    found["release-f"] = make(folder, "release-f", gain=0.2, stream=False)
    return found


Printed = tuple[str, str]
"""What a command said on both streams."""


def said(
    capsys: pytest.CaptureFixture[str], *tokens: object, codes: Sequence[int] = (0,)
) -> Printed:
    """Return what a command says, which ends with one of some exit codes."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        try:
            found = main(list(map(str, tokens)))
        except SystemExit as stopped:
            found = stopped.code
    assert found in codes
    return capsys.readouterr()


def classes_of(capsys: pytest.CaptureFixture[str], *tokens: object) -> dict[str, Any]:
    """Return what a command says of each class, by its name."""
    out, _ = said(capsys, *tokens, "--json")
    return {row["class"]: row for row in json.loads(out)["classes"]}


def rows_of(path: Path) -> dict[str, Any]:
    """Return the classes of a document by their names."""
    return {row["name"]: row for row in json.loads(path.read_bytes())["classes"]}


def sizes_of(*rows: dict[str, Any]) -> str:
    """Return how many units classes have together, as every page says it."""
    return size_in_words(sum(row["n"] for row in rows), np.hypot.reduce([r["n_sd"] for r in rows]))


def text_of(page: Path) -> str:
    """Return what a page says."""
    plain = re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", page.read_text("utf-8"), flags=re.S)
    return " ".join(unescape(plain).split())


def test_of_one_population_nothing_is_found(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two streams, two releases, one of each: by class, of all nights and of the last."""
    night, other = places["night-a"], places["night-b"]
    for pair in ((night, other), (night, places["release-d"]), (other, places["release-e"])):
        found = classes_of(capsys, "compare", *pair)
        assert found.keys() == {"well", "ill"}
        assert all(row["p_value"] > SURE for row in found.values())
        for row in classes_of(capsys, "combine", *pair).values():
            assert row["all"]["offered"]
            assert row["heterogeneity"]["p_value"] > SURE
    for window in (1, 7):
        for row in classes_of(capsys, "compare", night, other, "--window", window).values():
            assert row["p_value"] > SURE


def test_of_two_populations_the_difference_is_found(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """By class, in nights and releases, and in the last night alone."""
    other = places["night-c"]
    for first in ("night-a", "release-d"):
        for row in classes_of(capsys, "compare", places[first], other).values():
            assert row["p_value"] < SURE
    found = classes_of(capsys, "compare", places["night-a"], other, "--window", 7)
    assert all(row["p_value"] < SURE for row in found.values())
    found = classes_of(capsys, "compare", places["release-d"], places["release-f"])
    assert found["well"]["p_value"] < SURE


def test_sizes_have_their_deviation_everywhere(
    places: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In terminal, JSON and pages: n̂ ± its deviation, of windows their own."""
    paths = [places["night-a"], places["night-b"]]
    rows = [rows_of(path) for path in paths]
    parts = [
        {name: next(p for p in row["windows"] if p["nights"] == 7) for name, row in one.items()
         if row["windows"]}
        for one in rows
    ]  # fmt: skip
    for many, (first, second) in (((), rows), (("--window", 7), parts)):
        found = classes_of(capsys, "combine", *paths, *many)
        for command in ("compare", "combine"):
            out, _ = said(capsys, command, *paths, *many, "--out", tmp_path)
            page = text_of(tmp_path / f"{command}.html")
            for name in ("well", "ill"):
                both = first[name], second[name]
                assert (found[name]["n"], found[name]["n_sd"]) == (
                    sum(row["n"] for row in both),
                    pytest.approx(np.hypot(*(row["n_sd"] for row in both))),
                )
                if command == "combine":
                    assert sizes_of(*both) in out
                    assert sizes_of(*both) in page
                else:
                    assert all(sizes_of(row) in page for row in both)
                assert " 0 images in " not in page
        exact = f"{2 * (sum(WELL) + 3 * sum(ILL)):,}"
        total = sizes_of(*(one[name] for one in (first, second) for name in ("well", "ill")))
        assert f" images {total if many else exact} " in page


def test_local_images_are_matched(
    places: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a night and with a release; the class without an image is at both."""
    for first in ("night-a", "release-d"):
        rows = rows_of(places[first])
        for other, differs in (("night-b", False), ("night-c", True)):
            folder = places[other].parents[2]
            tokens = ["match", places[first], "--dataset", folder / "ward.toml"]
            tokens += ["--data-root", folder, "--out", tmp_path, "--json"]
            out, _ = said(capsys, *tokens, codes=(3,) if differs else (0, 3))
            found = json.loads(out)
            classes = {row["name"]: row for row in found["classes"]}
            for name in ("well", "ill"):
                assert (classes[name]["p_value"] < SURE) == differs
            assert (classes["none"]["n"], classes["none"]["p_value"]) == (0, None)
            assert classes["none"]["untested"]
            page = text_of(tmp_path / "match.html")
            assert all(sizes_of(row) in page for row in rows.values())


def test_a_class_without_images_has_a_count_and_no_region_at_every_door(
    places: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a release its mean is noise, of a stream there is none; nothing is refused for it."""
    for path in places.values():
        row = rows_of(path)["none"]
        assert row["n"] <= 6.0 * row["n_sd"]
        if row["coordinates"] is None:
            assert "no mean yet" in row["no_point"]
        else:
            assert not region(row).offered
        page = text_of(path.with_suffix(".html"))
        assert "about 0 images" not in page
        assert size_in_words(row["n"], row["n_sd"]) in page
    one, other = places["release-d"], places["release-e"]
    found = classes_of(capsys, "compare", one, other)["none"]
    assert found["p_value"] is None
    assert "noise" in found["untested"]
    found = classes_of(capsys, "combine", one, other)["none"]
    assert not found["all"]["offered"]
    assert found["heterogeneity"]["p_value"] is None
    _, doubt = said(capsys, "compare", places["night-a"], places["night-b"])
    assert "no mean of it yet: none." in doubt
    for path in (places["night-a"], one):
        ledger = path.parents[2] / "ledger.sqlite"
        said(capsys, "history", "--ledger", ledger, "--out", tmp_path / path.stem)
        page = text_of(tmp_path / path.stem / "index.html")
        assert "none" in page
        assert sizes_of(rows_of(path)["none"]) in page


def harmonised(capsys: pytest.CaptureFixture[str], out: Path, *paths: Path) -> Sequence[Any]:
    """Return what is said of each site."""
    out_text, _ = said(capsys, "harmonise", *paths, "--out", out, "--json")
    return list(json.loads(out_text)["sites"])


def test_sites_are_harmonised_whatever_class_has_no_image(
    places: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The site of darker images is mapped, by the classes that have images.

    Its page draws the means of each site before and after, and has the classes to choose from.
    """
    names = ("release-d", "release-e", "release-f")
    sites = harmonised(capsys, tmp_path / "maps.json", *(places[name] for name in names))
    assert len(sites) == 3
    assert not sites[-1]["reason"]
    page = (tmp_path / "maps-page/harmonise.html").read_text(encoding="utf-8")
    assert "window.vegaEmbed=" in page
    assert '<form class="filter"' in page


COMING = ((137, 159), (153, 128))
"""Images of either class on two nights: numbers that stand nowhere else."""
EXACT = {*sum(COMING, ()), *map(sum, zip(*COMING, strict=True))}
"""What each class has, by night and so far."""


def settled(folder: Path, config: str) -> Iterator[tuple[str, str]]:
    """Yield all that two nights of a stream print and write, and their history, as text."""
    import pyarrow.parquet as pq

    ward = Ward(folder)
    ward.write(config=config.replace("budget = 20.0", "budget = 2.0"), stream=HORIZON)
    ward.pay(2.0)
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(shown), redirect_stderr(shown):
        patch.chdir(ward.folder)
        for day, many in enumerate(COMING, 1):
            ward.put(*many)
            tokens = ["release", "--config", "night.toml", "--data-root", ".", "--out", "out"]
            tokens += ["--ledger", "ledger.sqlite", "--run-key", f"2026-03-0{day}"]
            assert main([*tokens, "--even-if-useless"]) == 0
        assert main(["history", "--ledger", "ledger.sqlite", "--out", "out/history"]) == 0
        assert main(["ledger", "show", "--ledger", "ledger.sqlite", "--verbose"]) == 0
    yield "screen", shown.getvalue()
    for path in sorted((ward.folder / "out").rglob("*")):
        if path.suffix == ".parquet":
            table = pq.ParquetFile(path).read()  # what reads folders imports pandas
            yield path.name, repr((table.to_pydict(), table.schema.metadata))
        elif path.suffix == ".html":
            yield path.name, text_of(path)
            yield f"{path.name}, charts", repr(marks(path))
            yield f"{path.name}, tables", repr(tables(path))
        elif path.is_file():
            yield path.name, path.read_text(encoding="utf-8")
    with closing(sqlite3.connect(ward.folder / "ledger.sqlite")) as book:
        yield "ledger", "\n".join(book.iterdump())


def test_no_output_of_a_stream_holds_the_size_of_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents, tables, pages, charts, histories, screen and ledger; of public labels most do.

    Noise is the same in each run, and no count is exact by chance.
    """
    word = re.compile(rf"(?<![\w.])({'|'.join(map(str, EXACT))})(?:\.0+)?(?![\w.])")
    found: dict[str, set[str]] = {}
    for labels, config in (("secret", SECRET), ("public", CONFIG)):
        recorded(monkeypatch, [])
        for name, text in settled(tmp_path / labels, config):
            if word.search(text.replace(str(tmp_path), "")):  # it ends in the number of a run
                found.setdefault(labels, set()).add(name)
    assert found.get("secret") is None
    assert {"nightly-2026-03-01.json", "nightly-2026-03-02.parquet", "index.html"} <= found[
        "public"
    ]
