"""Local images against a release, by `covdp match`: verdicts, files for one's own eyes, refusals.

Random tests are seeded and state how often any seed would raise a false alarm.
"""
# ruff: noqa: F811  (fixtures that are imported)

import csv
import json
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from PIL import Image
from sample_documents import night_class_of
from sample_nights import Ward as Nights

import covdp
from covdp.addons.partners.local_images import AS_PRIVATE
from covdp.cli import main
from covdp.experiments.images import gain
from covdp.schema import as_json
from tests.addons.partners.local import (
    CARD,
    LOCAL,
    NAMES,
    SIZE,
    N,
    document,
    images,
    ward,  # noqa: F401  (fixtures)
)
from tests.publish.documents import NIGHT

pytestmark = pytest.mark.usefixtures("noise_in_doubles")


def matched(*more: str, code: int = 0, release: str = "partner.json") -> None:
    """Match the local images, which ends with this exit code."""
    found = 0
    try:
        found = main(["match", release, "--dataset", "ward.toml", *more])
    except SystemExit as end:
        found = int(str(end.code))
    assert found == code


def inside(folder: Path) -> set[Path]:
    """Return all that lies in a folder."""
    return set(folder.rglob("*"))


def test_images_of_one_population_match(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, no file, and the same numbers in the table and for programs, all images once."""
    before = inside(ward)
    matched("--json")
    told = json.loads(capsys.readouterr().out)
    assert inside(ward) == before
    assert next(iter(told)) == "note"
    assert told["note"] == AS_PRIVATE
    assert not told["differs"]
    assert [one["name"] for one in told["classes"]] == list(NAMES)
    for one in told["classes"]:
        assert 0.0 < one["p_value"] <= 1.0
        assert one["expected"] == 0.01
        percentiles = [i["percentile"] for i in told["images"] if i["class"] == one["name"]]
        assert len(percentiles) == one["n"] == LOCAL
        assert one["outside"] == np.mean(np.array(percentiles) > 99.0)
    files = {f"{name}/{number:03d}.png" for name in NAMES for number in range(LOCAL)}
    assert {image["file"] for image in told["images"]} == files
    matched()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == AS_PRIVATE
    assert said[1].startswith("No difference is found (p = ")


TRACE = """
import json, os, sys
found, opened = [], {"reads": set(), "writes": set(), "talks": set()}
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod"}
TALKS = ("socket.", "subprocess.", "os.fork", "os.exec", "os.posix_spawn", "os.system")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
def real(values):
    return [os.path.realpath(os.fsdecode(one)) for one in values if isinstance(one, (str, bytes))]
def watch(event, values):
    if event == "open" and isinstance(values[0], (str, bytes)):
        opened["writes" if values[2] & WRITES else "reads"].update(real(values[:1]))
    elif event in CHANGES:
        opened["writes"].update(real(values))
    elif event.startswith(TALKS):
        opened["talks"].add(event)
sys.addaudithook(watch)
from covdp.cli import main
for work in json.loads(sys.argv[1]):
    try:
        code = exec(work) if isinstance(work, str) else main(work)
    except SystemExit as end:
        code = end.code
    found.append({"code": code} | {name: sorted(those) for name, those in opened.items()})
    for those in opened.values():
        those.clear()
print(json.dumps(found))
"""


def traced(*works: Sequence[str] | str) -> list[dict[str, Any]]:
    """Return which files each work of a new process reads and writes, and whom it talks to.

    A work is a command of `covdp`, or code. Python tells all that it opens itself, from its start
    on, which is the first work's.
    """
    whole = [sys.executable, "-c", TRACE, json.dumps(works)]
    done = subprocess.run(whole, capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout.splitlines()[-1]))


@cache
def folders_of_programs() -> tuple[str, ...]:
    """Return the folders of Python, of this program and of the system, each with a slash."""
    own = {Path(covdp.__file__).parents[1], Path(sys.prefix), Path(sys.base_prefix)}
    own.add(platformdirs.user_cache_path("covdp"))  # the scripts of pages, unpacked once
    system = {Path(name) for name in ("/etc", "/proc", "/sys", "/usr")}
    return tuple(f"{folder.resolve()}/" for folder in own | system)


def test_a_match_reads_what_it_is_given_and_writes_where_it_is_told(ward: Path) -> None:
    """No socket, no process; of files the document, the card and the images, and none but `out`.

    Not counted is where numba tries whether it may keep what it compiles, and the name that an
    editable install has on the path in the place of a folder.

    The same trace of a program that also reads, writes and connects elsewhere has each of these.
    """
    (ward / "partner-2.json").write_bytes((ward / "partner.json").read_bytes())
    (ward / "ward.csv").write_text("other data beside the images")
    matched("--quiet", "--out", "before")  # what is compiled or unpacked once is written now
    given = {*inside(ward / "ward"), ward / "partner.json", ward / "ward.toml"}
    given = {path.resolve() for path in given if path.is_file()}
    tokens = "match", "partner.json", "--dataset", "ward.toml", "--quiet"
    spy = "import socket; open('ward.csv').close(); open('copy', 'w').close(); socket.socket()"
    *commands, spied = traced(tokens, (*tokens, "--out", "out"), spy)
    for found, more in zip(commands, (False, True), strict=True):
        assert found["code"] == 0
        assert found["talks"] == []
        out = (ward / "out").resolve()
        reads = {
            Path(path)
            for path in found["reads"]
            if not path.startswith(folders_of_programs()) and not path.endswith("__path_hook__")
        }
        assert {path for path in reads if not path.is_relative_to(out)} == given
        writes = [path for path in found["writes"] if path != "/dev/null"]
        writes = [path for path in writes if "__pycache__" not in Path(path).parts]
        assert bool(writes) == more
        assert all(Path(path).is_relative_to(out) for path in writes)
    assert str((ward / "ward.csv").resolve()) in spied["reads"]
    assert str((ward / "copy").resolve()) in spied["writes"]
    assert spied["talks"] == ["socket.__new__"]


def test_what_differs_ends_with_3(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gain of 1.3, which is found in all of a million seeds; files are for their owner alone."""
    for path in (ward / "ward").rglob("*.png"):
        image = np.asarray(Image.open(path))[np.newaxis]
        Image.fromarray(gain(image, 1.3, np.random.default_rng(0))[0]).save(path)
    matched("--out", "out", code=3)
    said = " ".join(capsys.readouterr().out.split())
    assert "The local images differ from those of the release (p < 0.0001" in said
    written = sorted(path.relative_to(ward).as_posix() for path in inside(ward / "out"))
    names = ["match.csv", "match.html", "release", "release/partner-monday.json"]
    assert written == [f"out/{name}" for name in names]
    for path in inside(ward / "out"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert (ward / "out" / names[-1]).read_bytes() == (ward / "partner.json").read_bytes()
    page = (ward / "out" / "match.html").read_text(encoding="utf-8")
    assert page.index(AS_PRIVATE) < page.index("<h1")
    assert "The local images differ from those of the release" in page
    with (ward / "out" / "match.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == 2 * LOCAL
    percentiles = [float(line["percentile"]) for line in lines]
    assert percentiles == sorted(percentiles, reverse=True)


def test_images_that_fail_are_listed_and_strange_ones_found(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no image, with a name like markup; empty images, each outside.

    Their vectors are in the middle, but what is cut off says that the release has fewer; the
    verdict names them.
    """
    odd, formula = "tissue/<i>no image.png", "=1+1.png"
    (ward / "ward" / odd).write_bytes(b"\x89PNG none")
    names = [formula, *(f"empty-{number}.png" for number in range(14))]
    empty = np.zeros((SIZE, SIZE), dtype=np.uint8)
    for name in names:
        Image.fromarray(empty).save(ward / "ward" / "cells" / name)
    matched("--json", code=3)
    told = json.loads(capsys.readouterr().out)
    assert [fault["file"] for fault in told["faults"]] == [odd]
    assert len(told["images"]) == 2 * LOCAL + len(names)
    assert "More images of cells are outside than is expected." in told["verdict"]
    percentiles = {image["file"]: image["percentile"] for image in told["images"]}
    for name in names:
        assert percentiles[f"cells/{name}"] > 99.0
    matched("--out", "out", code=3)
    assert f"{odd} cannot be used: " in " ".join(capsys.readouterr().out.split())
    page = (ward / "out" / "match.html").read_text(encoding="utf-8")
    assert "<i>no image" not in page
    assert "&lt;i&gt;no image" in page


def test_persons_are_matched_with_persons(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One record a person, whose images have one percentile; a release of images is refused."""
    (ward / "ward.toml").write_text(CARD + 'pattern = "{class}/{person}-*"\nunit = "person"\n')
    for path in (ward / "ward").rglob("*.png"):
        path.rename(path.with_name(f"{path.parent.name}{int(path.stem) // 2}-{path.name}"))
    matched(code=2)
    assert "has unit = 'image', ward.toml has 'person'" in capsys.readouterr().err
    document(ward / "people.json", 4.0, per_person=2, unit="person", classes_per_person=1)
    matched("--json", release="people.json")
    told = json.loads(capsys.readouterr().out)
    assert [one["n"] for one in told["classes"]] == [LOCAL // 2] * 2
    persons: dict[str, set[float]] = {}
    for image in told["images"]:
        persons.setdefault(image["file"].split("-")[0], set()).add(image["percentile"])
    assert len(persons) == LOCAL
    assert all(len(percentiles) == 1 for percentiles in persons.values())


def test_few_images_have_percentiles_but_no_verdict(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three images of one class, none of the other: exit code 2, and why, after the table."""
    for path in (ward / "ward").rglob("*.png"):
        if path.parent.name == NAMES[1] or int(path.stem) > 2:
            path.unlink()
    matched("--json", code=2)
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert len(found["images"]) == 3
    assert found["p_value"] is None
    assert [one["untested"] for one in found["classes"]] == [
        f"there are {count} local records, and 10 are needed" for count in (3, 0)
    ]
    (line,) = told.err.splitlines()
    assert "Nothing could be tested: tissue, because there are 3 local records" in line


def forged(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return what writes a document that was changed."""

    def write(folder: Path) -> None:
        values = json.loads((folder / "partner.json").read_text())
        change(values)
        (folder / "partner.json").write_text(json.dumps(values))

    return write


def set_moments(**fields: Any) -> Callable[[Path], None]:
    """Return what changes what was observed of all classes."""
    return forged(lambda values: [x["observed"].update(fields) for x in values["classes"]])


def set_settings(**fields: Any) -> Callable[[Path], None]:
    """Return what changes the settings of a document."""
    return forged(lambda values: values["settings"].update(fields))


def other_window(folder: Path) -> None:
    """Let a release and the local card make pixels of values by different windows."""
    set_settings(window=[0, 200])(folder)
    (folder / "ward.toml").write_text(CARD + "window = [0, 255]\n")


def as_night(values: dict[str, Any]) -> None:
    """Make a document that of a night."""
    values |= NIGHT | {"classes": [as_json(night_class_of({"point": None}))]}


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda folder: document(folder / "partner.json", 0.5), "n·μ is 200, and 500 is needed"),
        (lambda folder: (folder / "partner.json").write_text("[]"), "is no document of a release"),
        (lambda folder: (folder / "partner.json").unlink(), "cannot read partner.json"),
        (forged(as_night), "it has not opened"),
        (set_settings(image_height=27), "has image_height = 27, ward.toml has 28"),
        (set_settings(masked=True), "has masked = True, ward.toml has False"),
        (other_window, "has window = (0.0, 200.0), ward.toml has (0.0, 255.0)"),
        (set_settings(descriptor="grid11"), "are not 11 × 11"),
        (set_settings(descriptor="vol8"), "has descriptor = 'vol8', this version has oct5"),
        (set_settings(manifold="sphere"), "partner.json"),
        (set_moments(sigma=float("nan")), "is no document of a release"),
        (set_moments(base=[1e300] * 15), "partner.json"),
        (set_moments(middle=[1e11] * 15), "partner.json"),
        (set_moments(vector=[1e11] * 15), "not larger than its noise"),
        (
            forged(lambda values: [x.update(name="x" + x["name"]) for x in values["classes"]]),
            "no class stands in both: 'xtissue', 'xcells' in partner.json, 'tissue', 'cells' in",
        ),
        (lambda folder: (folder / "ward.toml").write_text(CARD.replace("= 1", "= 3")), "channel"),
    ],
)
def test_what_cannot_be_matched_is_one_line(
    write: Callable[[Path], Any], words: str, ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 with both values, or what is needed; nothing is printed or written."""
    write(ward)
    before = inside(ward)
    matched("--out", "out", code=2)
    told = capsys.readouterr()
    assert not told.out
    assert words in told.err
    assert len(told.err.splitlines()) == 1
    assert len(told.err) < 600
    assert inside(ward) == before


def test_images_in_one_file_are_named_by_split_and_number(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers count from 0 in each split, as the arrays do; with some of one class alone."""
    pictures = images(0)[N + 20 : N + 40]
    np.savez(
        "one.npz",
        train_images=pictures[:12],
        train_labels=np.zeros(12, np.int64),
        test_images=pictures[12:],
        test_labels=np.zeros(8, np.int64),
    )
    card = CARD.replace('"folder"\npath = "ward"', '"npz"\npath = "one.npz"\nlocal = true')
    (ward / "ward.toml").write_text(card.replace('"cells"]', '"cells", "rare"]'))
    matched("--json")
    told, said = (json.loads(x) if x[:1] == "{" else x for x in capsys.readouterr())
    assert told["left_out"] == ["rare"]
    assert said == "covdp: Left out, as not all of them have such a class: rare.\n"
    names = {f"train/{number}" for number in range(12)} | {f"test/{number}" for number in range(8)}
    assert {image["file"] for image in told["images"]} == names
    assert told["classes"][1]["untested"] == "there are 0 local records, and 10 are needed"


def test_a_night_is_matched_by_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images like those of a stream match its last night; black ones among them lie outside."""
    monkeypatch.chdir(tmp_path)
    ward, local = Nights(tmp_path / "stream"), Nights(tmp_path / "local")
    ward.pay()
    for day, many in ((1, 60), (2, 40), (3, 80)):
        ward.put(well=many, ill=many, seed=day)
        (tmp_path / "night.json").write_bytes(ward.settle(day)[-1])
    local.put(well=60, ill=60, seed=9)
    for number in range(2):
        black = tmp_path / "local" / "ward" / "ill" / f"black-{number}.png"
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(black)
    tokens = ["match", "night.json", "--dataset", "local/ward.toml", "--data-root", "local"]
    assert main([*tokens, "--out", "out", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in told["classes"]] == ["well", "ill"]
    outside = [image["file"] for image in told["images"] if image["percentile"] > 99.0]
    assert {"ill/black-0.png", "ill/black-1.png"} <= set(outside)
    assert len(outside) <= 10
    page = (tmp_path / "out" / "match.html").read_text("utf-8")
    assert "night" in page
    night = json.loads((tmp_path / "night.json").read_text())
    night["classes"][1]["windows"] = []
    (tmp_path / "night.json").write_text(json.dumps(night))
    assert main([*tokens, "--window", "1", "--json"]) == 0
    late = json.loads(capsys.readouterr().out)["classes"][1]
    assert late["untested"] == "there is no mean of its last night"
