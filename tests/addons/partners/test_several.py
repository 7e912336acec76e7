"""Commands on several releases: what they print is what the documents say, and one line else."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from sample_documents import night_class_of
from sample_history import draw_nights

from covdp import GDP, describe, domain, open_dataset, private_mean
from covdp.addons.partners.coordinates import common_coordinates
from covdp.cli import main
from covdp.inference import combine, two_sample
from covdp.schema import as_json
from tests.publish.documents import NIGHT, document

pytestmark = pytest.mark.usefixtures("noise_in_doubles")


def test_documents_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Classes that both have, with the p-values of the library; together by Bonferroni.

    A class that one alone has is named.
    """
    one = document(tmp_path / "a.json", 1)
    two = document(tmp_path / "b.json", 2, ("ill", "well", "rare"))
    assert main(["compare", str(one), str(two), "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert [row["class"] for row in told["classes"]] == ["well", "ill"]
    assert told["left_out"] == ["rare"]
    assert printed.err == "covdp: Left out, as not all of them have such a class: rare.\n"
    left, right = (
        {row["name"]: row for row in json.loads(path.read_text())["classes"]} for path in (one, two)
    )
    for row in told["classes"]:
        found = two_sample(left[row["class"]], right[row["class"]])
        assert (row["p_value"], row["statistic"]) == (found.p_value, found.statistic)
    smallest = min(row["p_value"] for row in told["classes"])
    assert told["p_value"] == min(1.0, 2 * smallest)
    assert main(["compare", str(one), str(two)]) == 0
    first = capsys.readouterr().out.lstrip()
    assert re.match(r"(No difference|The two releases differ)[^.]* \(p [=<>] \d", first)


def test_documents_are_combined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three hospitals: means, radii and heterogeneity of the library, by class."""
    paths = [str(document(tmp_path / f"{seed}.json", seed)) for seed in (1, 2, 3)]
    assert main(["combine", *paths, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["classes"]
    rows = [json.loads(Path(path).read_text())["classes"][1] for path in paths]
    found = combine(rows)
    assert told[1]["class"] == "ill"
    assert told[1]["n"] == 600
    assert told[1]["all"]["point"] == found.point.tolist()
    assert told[1]["common"]["radius"] == found.common.radius
    assert told[1]["heterogeneity"]["p_value"] == found.p_value
    assert main(["combine", *paths]) == 0
    assert "one population" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["compare", "combine"])
def test_releases_of_one_population_are_warned_of(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error, whatever is printed; results and exit code as they are."""
    paths = [str(document(tmp_path / f"{seed}.json", seed, population="ward")) for seed in (1, 2)]
    assert main([command, *paths, "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["classes"]
    assert told.err.startswith("covdp: More than one release is about the population ward.")
    assert len(told.err.strip().splitlines()) == 1
    assert main([command, *paths, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    other = str(document(tmp_path / "other.json", 2, population="elsewhere"))
    assert main([command, paths[0], other]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("combine", "a.json"), "two documents of releases or more, found 1"),
        (("compare", "a.json", "gone.json"), "cannot read"),
        (("compare", "a.json", "list.json"), "list.json is no document of a release"),
        (("compare", "a.json", "other.json"), "has descriptor = 'toy3', "),
        (
            ("combine", "a.json", "header.json", "bone.json"),
            "has window = 'header', bone.json ",
        ),
        (("compare", "bone.json", "lung.json"), "window = (0.0, 80.0), lung.json has (-600.0, "),
        (("combine", "a.json", "other.json", "a.json"), "a.json and a.json are one release"),
        (("combine", "a.json", "copy.json"), "a.json and copy.json are one release"),
        (("compare", "a.json", "a.json"), "a.json and a.json are one release"),
        (("compare", "a.json", "rare.json", "--window", "7"), "which have no nights; leave "),
        (("combine", "a.json", "rare.json"), "no class stands in all documents"),
        (("compare", "a.json", "night.json"), "in all documents: night.json has none of "),
        (("combine", "a.json", "night.json"), "no class has a mean in all documents"),
        (("compare", "night.json", "night.json"), "are nights of one stream"),
        (("compare", "a.json", "night.json", "--window", "7"), "has no window of 7 nights, found"),
        (("compare", "bad-night.json", "a.json"), "of a stream (classes.0.n_tonight: "),
        (("combine", "a.json", "bad-night.json"), "is no document of a night of a stream"),
        (("compare", "a.json", "old.json"), "need what an adaptive mean observed"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    command: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2 and what to do: documents that are missing, strange, old or of other things."""
    monkeypatch.chdir(tmp_path)
    old = json.loads(document(Path("a.json"), 1).read_text())
    Path("list.json").write_text("[]")
    again = old | {"settings": old["settings"] | {"name": "again"}, "classes": old["classes"][1:]}
    Path("copy.json").write_text(json.dumps(again, indent=1))
    document(Path("other.json"), 2, descriptor="oct5")
    document(Path("rare.json"), 2, ("rare",))
    windows = {"header": "header", "bone": [0, 80], "lung": [-600, 200]}
    for seed, (name, window) in enumerate(windows.items(), 3):
        document(Path(f"{name}.json"), seed, window=window)
    night = old | NIGHT | {"classes": [as_json(night_class_of({"point": None}))]}
    Path("night.json").write_text(json.dumps(night))
    night["classes"][0]["n_tonight"] = -1
    Path("bad-night.json").write_text(json.dumps(night))
    for row in old["classes"]:
        row["observed"] = None
    Path("old.json").write_text(json.dumps(old))
    assert main(list(command)) == 2
    told = capsys.readouterr()
    assert not told.out
    assert words in told.err
    assert len(told.err.strip().splitlines()) == 1


def test_nights_are_compared_and_combined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two hospitals' streams, and a window of one: as the library says, on a page of its own."""
    paths = []
    for place, name in enumerate(("north", "south")):
        (tmp_path / name).mkdir()
        days = [f"2026-03-{day:02d}" for day in range(1, 6 + place)]
        last = json.loads(draw_nights(tmp_path / name, days, np.random.default_rng(place))[-1])
        last["settings"]["population"] = name
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps(last))
    rows = [json.loads(path.read_text())["classes"][0] for path in paths]
    files = [*map(str, paths)]
    assert main(["compare", *files, "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["classes"][0]
    assert found["p_value"] == two_sample(*rows).p_value
    assert main(["combine", *files, "--out", str(tmp_path), "--json"]) == 0
    together = json.loads(capsys.readouterr().out)["classes"][0]
    assert together["n"] == sum(row["n_so_far"] for row in rows)
    assert together["all"]["radius"] == combine(rows).all.radius
    for one, row in zip(common_coordinates(rows)[2], rows, strict=True):
        noise, predicted, most = map(np.trace, (one.noise, one.predicted, one.noise + one.bias))
        assert noise < predicted < most  # weights are by what is predicted, not by what may be
        assert 0.5 < math.sqrt(predicted) / row["predicted_error"] < 2.0
    pages = [(tmp_path / name).read_text() for name in ("compare.html", "combine.html")]
    assert all("84.8529-GDP" in page for page in pages)  # √2·60 for who is in both
    assert main(["compare", *files, "--window", "1", "--json"]) == 0
    last = json.loads(capsys.readouterr().out)["classes"][0]
    assert last["radius"] > found["radius"]  # three images a class, and not all so far
    assert main(["compare", *files, "--window", "2"]) == 2
    assert "has no window of 2 nights, found 1" in capsys.readouterr().err
    for path, change in zip(paths, ({}, {"windows": []}), strict=True):
        forged = json.loads(path.read_text())
        forged["classes"].append(forged["classes"][0] | {"label": 1, "name": "late"} | change)
        path.write_text(json.dumps(forged))
    assert main(["compare", *files, "--window", "1"]) == 0
    left_out = "covdp: Left out, as a stream has no mean of its last night: late.\n"
    assert capsys.readouterr().err == left_out
    forged = json.loads(paths[0].read_text())
    forged["classes"][0]["certainty"]["parts"][0]["observed"]["vector"].pop()
    paths[0].write_text(json.dumps(forged))
    assert main(["compare", *files]) == 2
    assert "certainty.parts.0.vector has length 14, not 15" in capsys.readouterr().err


def test_what_python_drew_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As releases are, with a line that says so; a release beside it is not meant."""
    tiles, bound = open_dataset("tiles"), domain("oct5", height=28, width=28)
    paths = []
    for seed in (1, 2):
        release, _ = private_mean(
            describe(next(tiles.chunks(label=0)), "oct5"),
            GDP(1.0),
            domain=bound,
            manifold="spd-log-euclidean",
            rng=np.random.default_rng(seed),
        )
        path = tmp_path / f"{seed}.json"
        path.write_text(json.dumps(release.to_document("ihc", name=f"python {seed}")))
        paths.append(str(path))
    for command in ("compare", "combine"):
        assert main([command, *paths, "--out", str(tmp_path / command)]) == 0
        told = capsys.readouterr()
        assert "Drawn in Python, and paid by no ledger: python 1, python 2." in told.err
        assert "no ledger paid it" in (tmp_path / command / f"{command}.html").read_text()
