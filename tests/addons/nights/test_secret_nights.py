"""Nights with secret labels: nothing that leaves, or lies in the ledger, tells a class or its size.

A source of noise stands in for the lattice that gives the same numbers whatever it is asked to
hide: all that differs between two folders without it is noise.
"""
# ruff: noqa: F811  (fixtures that are imported)

import json
import logging
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sample_documents import documents_of
from sample_nights import PERSONS, Ward

from covdp.addons.nights.ledger import entered_on, stored_nights
from covdp.addons.nights.schema import NightDocument
from covdp.addons.nights.stream import cumulative_mean, window_mean
from covdp.addons.nights.sums import sums_folder
from covdp.addons.nights.transcript import read_histories
from covdp.addons.partners.foreign import check
from covdp.cli import main
from covdp.errors import LedgerError, OutputError
from covdp.inference import region
from tests.addons.nights.secret_wards import (
    CLASSES,
    COUNTS,
    FIVE,
    HORIZON,
    SECRET,
    Vectors,
    fixed_noise,
    move,
    nights,
    recorded,
    told,
    ward,  # noqa: F401  (fixtures)
)

pytestmark = pytest.mark.usefixtures("noise_in_doubles")


@pytest.mark.parametrize("card", ["", PERSONS])
def test_folders_that_differ_in_labels_differ_in_noise_alone(
    card: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One image of another class, or all of them: the same bytes, the same asked of the noise.

    The first class opens on the first night, whatever is there, as all images are enough for one
    class; and the other never does.
    """
    outcomes = []
    for moved in ((), (0,), (0, 3, 8, 9, 12), tuple(range(18))):
        asked = fixed_noise(monkeypatch, COUNTS)
        ward = Ward(tmp_path / "ward")
        ward.write(card, config=SECRET, stream=HORIZON)
        ward.pay()
        for day in range(1, 6):
            many = {1: 9, 3: 1}.get(day, 2)
            for path in ward.put(well=many, ill=0 if day == 3 else many):
                if int(path.stem.partition("-")[2]) in moved:
                    move(ward, path)
            ward.settle(day)
        outcomes.append((told(ward), list(asked)))
        shutil.rmtree(tmp_path / "ward")
    assert all(one == outcomes[0] for one in outcomes)
    last = json.loads(outcomes[0][0][1][-1])
    assert [row["opened"] is None for row in json.loads(outcomes[0][0][1][0])["classes"]] == [
        False,
        True,
    ]
    assert [row["point"] is None for row in last["classes"]] == [False, True]


@pytest.mark.parametrize("stream", ["", FIVE], ids=["releases", "nights"])
def test_what_is_printed_and_written_tells_no_class(
    stream: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A file is moved: both streams, exit codes, log, names and bytes of all files are the same."""
    caplog.set_level(logging.DEBUG)
    outcomes = []
    for moved in (False, True):
        fixed_noise(monkeypatch, COUNTS)
        ward = Ward(tmp_path / "ward")
        ward.write(config=SECRET, stream=stream)
        ward.pay(50.0)
        monkeypatch.chdir(ward.folder)
        for day in (1, 2):
            (first, *_) = ward.put(well=4, ill=1)
            if moved:
                move(ward, first)
            asked = ["release", "--config", "night.toml", "--ledger", "ledger.sqlite"]
            asked += ["--out", "out", "--data-root", ".", "--run-key", f"2026-03-{day:02d}"]
            code = main(asked)
            printed = capsys.readouterr()
            out = sorted(path for path in (ward.folder / "out").rglob("*") if path.is_file())
            files = {str(path.relative_to(ward.folder)): path.read_bytes() for path in out}
            assert any(name.endswith(".parquet") for name in files)
            outcomes.append((code, printed.out, printed.err, caplog.messages, files))
            caplog.clear()
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(ward.folder)
    assert outcomes[0][0] == outcomes[1][0] == 0
    assert outcomes[:2] == outcomes[2:]


def test_counts_and_means_lie_near_the_truth(ward: Ward) -> None:
    """Released counts within six deviations, also of windows; documents alone give the history."""
    last = nights(ward, range(1, 6))
    assert (last["n_tonight"], last["settings"]["total"]) == (18, 90)
    assert last["settings"]["classes"] == [[0, "well", None], [1, "ill", None]]
    for row, many in zip(last["classes"], (60, 30), strict=True):
        assert row["n_tonight"] is row["n_so_far"] is None
        assert abs(row["n"] - many) <= 6.0 * row["n_sd"]
        assert row["n_sd"] < 2.0
        assert region(row).offered
        for window in row["windows"]:
            nights_of = window["last"] - window["first"] + 1
            assert abs(window["n"] - nights_of * many / 5) <= 6.0 * window["n_sd"]
        assert 180.0 < row["rho"] <= 200.0
    said = dict(last["statement"])
    assert "of the same class or of any other" in said["Neighbouring data sets"]
    assert "and on which night it came" in said["Exact, not protected"]
    assert "how many of them came on each night" in said["Exact, not protected"]
    assert "diagnosis" not in json.dumps(said)
    assert said["Images of all classes together (exact)"] == "90"
    assert said["Images of this night (exact)"] == "18, of all classes together"
    content = [night.result for night in stored_nights(ward.ledger, ward.stream)]
    found = read_histories(documents_of(content))
    other = json.loads(content[0])
    count = other["classes"][0]["costs"][0]
    assert count["step"] == "count"
    count["sigma"] *= 0.5
    with pytest.raises(OutputError, match=r"night 1 .* other noise"):
        read_histories(documents_of([json.dumps(other).encode()]))
    for history, row in zip(found, last["classes"], strict=True):
        estimate = cumulative_mean(history.stream, history.nights)
        assert estimate is not None
        assert estimate.offset.tolist() == row["coordinates"]
        assert estimate.n == row["n"]
    document = check(Path("night.json"), last)
    assert isinstance(document, NightDocument)
    for history, part in zip(found, document.classes, strict=True):
        for window in part.windows:  # counts move all coordinates, not along the axes alone
            seen = window_mean(history.stream, history.nights, window.nights)
            assert seen is not None
            noise_of = window.noise(document.axes)
            np.testing.assert_allclose(noise_of, seen.covariance, rtol=1e-9, atol=1e-15)


def test_too_few_of_all_classes_wait_together(ward: Ward) -> None:
    """What decides is how many come of all classes, as that is what is published."""
    ward.write(config=SECRET.replace("smallest_class = 1", "smallest_class = 3"), stream=HORIZON)
    ward.put(well=1, ill=1)
    assert ward.night(1)["n_tonight"] == 0
    ward.put(well=1)
    assert ward.night(2)["n_tonight"] == 3


def test_the_ledger_does_not_know_labels(ward: Ward) -> None:
    """Nor does a night that is finished later, and an image whose label changed is not new."""
    ward.put(well=5, ill=5)
    ward.night(1)
    (path, *_) = ward.put(well=2, ill=2)
    ward.night(2)
    with closing(sqlite3.connect(ward.folder / "ledger.sqlite")) as book:
        labels = [label for (label,) in book.execute("SELECT label FROM covdp_claims")]
    assert len(labels) == len(set(labels)) == 14
    assert all(len(bytes.fromhex(label)) == 32 for label in labels)
    move(ward, path)
    assert ward.night(3)["n_tonight"] == 0


def test_lost_sums_are_made_again_of_the_same_labels_alone(ward: Ward) -> None:
    """Where an image is in another class now, it would be paid for once more, and is refused."""
    (path, *_) = ward.put(well=5, ill=5)
    ward.night(1)
    ward.put(well=2, ill=2)
    ward.night(2)
    folder = sums_folder(ward.ledger, ward.stream)
    shutil.rmtree(folder)
    move(ward, path)
    ward.put(well=1, ill=1)
    with pytest.raises(LedgerError, match="images of earlier nights are not there"):
        ward.settle(3)
    move(ward, ward.folder / "ward" / "ill" / path.name)
    assert ward.night(3)["n_tonight"] == 2


def test_streams_are_read_and_compared(
    tmp_path: Path, ward: Ward, capsys: pytest.CaptureFixture[str]
) -> None:
    """`history` and `compare` take nights of secret labels as they take others."""
    other = Ward(tmp_path / "other", made=1000)
    other.write(config=SECRET.replace("nightly", "evening"), stream=HORIZON)
    other.pay()
    paths = []
    for place, name in ((ward, "nightly"), (other, "evening")):
        nights(place, range(1, 5))
        out = str(place.folder / "out")
        asked = ["release", "--config", str(place.folder / "night.toml"), "--out", out]
        asked += ["--ledger", str(place.folder / "ledger.sqlite"), "--run-key", "2026-03-04"]
        assert main([*asked, "--data-root", str(place.folder)]) == 0
        paths.append(str(place.folder / "out" / "release" / f"{name}-2026-03-04.json"))
        shown = [
            "history",
            "--population",
            "ward-7",
            "--ledger",
            str(place.folder / "ledger.sqlite"),
        ]
        assert main([*shown, "--out", str(place.folder / "history")]) == 0
    capsys.readouterr()
    assert main(["compare", *paths, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found
    assert entered_on(ward.ledger, ward.stream, [b"nobody"]) == (None,)


OF_PERSONS = CLASSES + 'pattern = "{class}/{person}-*.png"\nunit = "person"\n'


def nights_with(
    folder: Path, card: str, night: int, records: dict[str, int], who: str = "q"
) -> list[bytes]:
    """Settle three nights of two classes; on one comes somebody with an image in some classes.

    Every other row of an image of theirs is black.
    """
    ward = Ward(folder)
    ward.write(card, config=SECRET, stream=HORIZON)
    ward.pay(20.0 * math.sqrt(2.0))
    (ward.folder / "ward" / "none").mkdir()
    for day in (1, 2, 3):
        ward.put(*((20, 22) if day == 1 else (2, 1)))
        for name, level in records.items() if day == night else ():
            image = np.zeros((8, 8), np.uint8)
            image[::2] = level
            path = ward.folder / "ward" / name / f"{who}-9000.png"
            Image.fromarray(image).save(path)
        ward.settle(day)
    content = [night.result for night in stored_nights(ward.ledger, ward.stream)]
    shutil.rmtree(folder)
    return content


def cost(one: Vectors, other: Vectors) -> float:
    """Return Σ‖a − b‖²/σ² of two transcripts, over all draws of all classes."""
    pairs = zip(one, other, strict=True)
    return sum(float(np.sum((a - b) ** 2)) / sigma**2 for (a, sigma, _), (b, _, _) in pairs)


FAINT, ROWS = 0, 255
"""Gray levels of every other row of an image."""
CASES = {
    "an image": (CLASSES, 1, {"well": FAINT}, {"none": ROWS}),
    "the label of an image at the opening": (CLASSES, 1, {"well": FAINT}, {"ill": FAINT}),
    "the label of a person at the opening": (OF_PERSONS, 1, {"ill": FAINT}, {"well": FAINT}),
    "a person in two classes": (
        OF_PERSONS + "classes_per_person = 2\n",
        2,
        {"well": FAINT, "ill": FAINT},
        {"well": ROWS, "ill": ROWS},
    ),
    "a person in two other classes": (
        OF_PERSONS + "classes_per_person = 2\n",
        2,
        {"well": FAINT},
        {"ill": ROWS, "none": ROWS},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_is_drawn_of_all_nights_costs_what_is_promised(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From files on: all draws of all classes move by g·μ² at most, and documents are the same.

    With nine tenths of the noise, a control, a label at the opening costs more.
    """
    card, group, before, after = CASES[name]
    night = 1 if "opening" in name else 2
    for scale in (1.0, 0.9) if night == 1 else (1.0,):
        one = recorded(monkeypatch, [], scale=scale)
        first = nights_with(tmp_path / "ward", card, night, before)
        other = recorded(monkeypatch, one, scale=scale)
        assert nights_with(tmp_path / "ward", card, night, after) == first
        found = cost(one, other) / (group * 20.0**2)
        assert found > (0.9 if night == 1 else 0.04)
        assert (found <= 1.0 + 1e-9) == (scale == 1.0), found
