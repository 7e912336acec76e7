"""Documents of releases from elsewhere, wrong or hostile: one line, and no page."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from covdp.cli import main
from covdp.figures import bars
from tests.publish.documents import document

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

Change = Callable[[dict[str, Any]], object]


def seen(**values: Any) -> Change:
    """Change what was observed of the first class."""
    return lambda found: found["classes"][0]["observed"].update(values)


def row(**values: Any) -> Change:
    """Change the entry of the first class."""
    return lambda found: found["classes"][0].update(values)


def said(**values: Any) -> Change:
    """Change the settings."""
    return lambda found: found["settings"].update(values)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the document that others are compared with."""
    return document(tmp_path_factory.mktemp("honest") / "a.json", 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (seen(middle=[float("nan")] * 6), "classes.0.observed.middle.0"),
        (seen(vector=[1e300] * 6), "classes.0.observed.vector.0"),
        (seen(vector=[0.0] * 5), "observed.vector has length 5, not 6"),
        (seen(base=[0.0] * 9), "observed.base has length 9, not 6"),
        (row(coordinates=[0.0] * 5), "classes.0.coordinates has length 5, not 6"),
        (row(coordinates=[0.0] * 6), "classes.0.point is not the matrix of its coordinates"),
        (seen(moment=[0.0]), "observed.moment has length 1, not 21"),
        (seen(odd=[0.0] * 13), "observed.odd has length 13, not 12"),
        (seen(odd=[0.0] * 6), "observed.overshoots has length 5, not 6"),
        (seen(odd=[0.0] * 6, overshoots=[0.0] * 6), "observed.reach has length 5, not 6"),
        (seen(odd=[1.0] * 200_000), "classes.0.observed.odd"),
        (seen(overshoots=[], reach=[]), "observed.overshoots has length 0, not 5"),
        (seen(overshoots=[0.0]), "observed.overshoots has length 1, not 5"),
        (seen(reach=[]), "observed.reach has length 0, not 5"),
        (seen(reach=[0.0] * 5), "classes.0.observed.reach.0"),
        (seen(axes=[[0.0] * 6] * 6), "observed.axes are no basis"),
        (seen(newton=[1.5] * 21), "observed.newton is no step towards a mean"),
        (seen(newton=[1.0]), "observed.newton is no step towards a mean"),
        (seen(axes="x"), "classes.0.observed.axes"),
        (seen(n=100_000), "observed.n is 100000, and n 200"),
        (seen(n=0), "classes.0.observed.n"),
        (seen(sigma=0.0), "classes.0.observed.sigma"),
        (seen(lines=7), "classes.0.observed.lines"),
        (row(n=-200), "classes.0.n"),
        (row(n=10**400), "classes.0.n"),
        (row(point=None), "classes.0.point"),
        (row(point=[[1.0, 5.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "no symmetric matrix"),
        (row(name=["well"]), "classes.0.name"),
        (row(name="ill"), "two classes have one name"),
        (row(name="\x1b[2Jwell"), "must be printable"),
        (row(name="\ud800"), "classes.0.name"),
        (row(manifold="spd-affine-invariant"), "manifold is another than that of the settings"),
        (said(noise=[]), "settings.noise"),
        (said(name="a" * 1001), "settings.name"),
        (said(budget=0), "settings.budget"),
        (said(classes=[[0, "well"]]), "settings.classes.0"),
        (lambda found: found.update(statement=[["label"]]), "statement.0"),
        (lambda found: found.update(statement=[["a", "b"]] * 2), "two texts of the statement"),
        (lambda found: found.update(classes={}), "classes"),
        (lambda found: found["classes"].clear(), "no class stands in all"),
    ],
)
def test_what_is_none_of_a_release_is_one_line(
    change: Change, words: str, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is refused by name before anything is written; nothing is said twice, or not at all."""
    found = json.loads(honest.read_text())
    change(found)
    bad, out = tmp_path / "bad.json", tmp_path / "out"
    bad.write_text(json.dumps(found))
    for first, second in ((honest, bad), (bad, honest)):
        assert main(["combine", str(first), str(second), "--out", str(out)]) == 2
        told = capsys.readouterr()
        assert not told.out
        assert words in told.err
        assert len(told.err.strip().splitlines()) == 1
        assert len(told.err) < 600
        assert not out.exists()


def test_numbers_of_the_right_form_that_mean_nothing_are_one_line(
    honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Coordinates whose exponentials overflow, and a point that is no matrix of its coordinates."""
    for change in (
        seen(base=[1e11] * 6),
        seen(middle=[1e11] * 6),
        row(coordinates=[1e11] * 6),
        row(coordinates=[0.1] * 6),
        row(point=[[-1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]),
    ):
        found = json.loads(honest.read_text())
        change(found)
        bad, out = tmp_path / "bad.json", tmp_path / "out"
        bad.write_text(json.dumps(found))
        assert main(["compare", str(honest), str(bad), "--out", str(out)]) == 2
        told = capsys.readouterr()
        assert not told.out
        assert len(told.err.strip().splitlines()) == 1
        assert not out.exists()


def test_odd_names_are_shown_as_they_are(honest: Path, tmp_path: Path) -> None:
    """One longer than a file's may be ends; one that looks like a citation is none."""
    found = json.loads(honest.read_text())
    found["settings"] |= {"name": "é" * 300, "population": "[@nobody]", "noise": "[@x; @y]"}
    for row in found["classes"]:  # else they were one release
        row["predicted_error"] = 0.2
    bad, out = tmp_path / "bad.json", tmp_path / "out"
    bad.write_text(json.dumps(found))
    assert main(["compare", str(honest), str(bad), "--out", str(out), "-q"]) == 0
    assert sorted(path.name for path in (out / "release").iterdir()) == [
        "a-monday.json",
        f"{'é' * 100}.json",
    ]
    assert "population [@nobody]" in (out / "compare.html").read_text(encoding="utf-8")


def test_a_name_is_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables of both commands show names of classes with brackets as they are."""
    names = ("[/x]", "[bold]", "[link=file:///]here")
    paths = [str(document(tmp_path / f"{seed}.json", seed, names)) for seed in (1, 2)]
    for command in ("compare", "combine"):
        assert main([command, *paths]) == 0
        told = capsys.readouterr().out
        assert all(name in told for name in names)


def test_a_name_is_no_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    """Names in a table of numbers begin with an apostrophe where a spreadsheet would run them."""
    figure = bars(["=1+1", "@a", "b=c"], [-1.0, 2.0, 3.0], name="a", title="A", axis="x")
    assert figure is not None
    cells = {cell for line in csv.reader(figure.csv.splitlines()) for cell in line}
    assert {"'=1+1", "'@a", "b=c", "-1.0"} <= cells
