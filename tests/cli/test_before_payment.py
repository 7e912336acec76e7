"""`covdp check`: what it finds, says, writes and leaves alone; `card` and `start` that use it."""

import json
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from covdp.cli import main
from covdp.ledger import init_ledger, open_ledger
from covdp.privacy import GDP
from covdp.publish import load_release, release_once
from tests.sample_dicom import write_dicom
from tests.tools.addons import addon

release_night = addon("nights.night:release_night")

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CARD = 'kind = "folder"\nchannels = 1\nclasses = ["ill", "well"]\npath = "ward"\n'
CONFIG = """\
name = "{name}"
population = "{name}"
dataset = "ward-card.toml"
data_root = "images"
budget = {budget}
"""


def picture(seed: int, side: int = 16, most: int = 256) -> np.ndarray[Any, Any]:
    """Return an image of random gray levels."""
    return np.random.default_rng(seed).integers(0, most, (side, side), dtype=np.uint16)


def save(path: Path, values: np.ndarray[Any, Any]) -> None:
    """Write an image of 8 bits, or of 16 where its values need them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values if values.max() > 255 else values.astype(np.uint8)).save(path)


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with 60 images of two classes, a card, a config and an account."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setenv("COVDP_STORE", str(tmp_path / "stores"))
    for number in range(60):
        save(tmp_path / f"images/ward/{('ill', 'well')[number % 2]}/{number}.png", picture(number))
    Path("ward-card.toml").write_text(CARD)
    Path("ward.toml").write_text(CONFIG.format(name="ward", budget=8.0))
    init_ledger(tmp_path / "ledger.sqlite").set_budget("ward", GDP(20.0))
    return tmp_path


def checked(
    capsys: pytest.CaptureFixture[str], *more: str, code: int = 0, config: str = "ward.toml"
) -> dict[str, Any]:
    """Check a config; return the JSON that is printed, after the exit code is compared."""
    tokens = ["check", *(() if "--dataset" in more else ("--config", config)), *more, "--json"]
    try:
        found = main(tokens)
    except SystemExit as end:
        found = end.code
    captured = capsys.readouterr()
    assert (found, captured.err) == (code, ""), captured.out
    value: dict[str, Any] = json.loads(captured.out)
    return value


def content(folder: Path, *, but: str) -> dict[Path, bytes]:
    """Return every file below a folder, but for those of one of its folders."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if but not in path.parts}


def test_a_sound_folder_needs_no_decision(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its numbers are true, nothing is charged or written but the page, and that is private."""
    before = content(ward, but="looked")
    found = checked(capsys, "--out", "looked")
    assert content(ward, but="looked") == before
    assert (found["images"], found["persons"], found["odd"], found["decide"]) == (60, None, [], [])
    assert [(row["name"], row["n"]) for row in found["classes"]] == [("ill", 30), ("well", 30)]
    pixels = np.stack([picture(number) for number in range(60)])
    assert found["gray"]["black"] == np.mean(pixels == 0)
    assert found["gray"]["white"] == np.mean(pixels == 255)
    low, median, high = (found["gray"][name] for name in ("low", "median", "high"))
    for level, share in ((low, 0.01), (median, 0.5), (high, 0.99)):
        assert np.mean(pixels < level) < share <= np.mean(pixels <= level)
    assert found["would"].startswith("take ")
    assert "take μ = 8 from the account of 'ward'" in found["would"]
    assert found["account"] == "ward: μ = 20 left of μ = 20"
    assert "usable" in found["use"].lower()
    (account,) = open_ledger(ward / "ledger.sqlite").show("ward")
    assert (account.spent, account.releases) == (None, 0)
    assert [path.name for path in (ward / "looked").iterdir()] == ["check.html"]
    assert stat.S_IMODE((ward / "looked").stat().st_mode) == 0o700
    assert stat.S_IMODE((ward / "looked/check.html").stat().st_mode) == 0o600


def test_the_page_stands_alone_and_says_that_it_is_private(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has pictures of both classes, twelve at most, and asks no network for anything."""
    checked(capsys, "--out", "looked")
    page = Path("looked/check.html").read_text(encoding="utf-8")
    assert "Output and page are as private as the images" in page
    assert page.count("data:image/png;base64,") == 2
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert "Prefers" not in page
    assert "prefers-color-scheme" in page
    assert 'id="methods"' not in page
    assert "<title>Before a release" in page


def test_it_stands_beside_results_where_no_folder_is_named(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never in the folder of a release, from which files are published."""
    found = checked(capsys)
    assert Path(found["page"]) == ward / "covdp-output" / "ward-check" / "check.html"
    assert stat.S_IMODE((ward / "covdp-output").stat().st_mode) & 0o077


ODD = {
    "broken.png": "is not a readable image",
    "deep.png": "16 bits",
    "wide.png": "17",
}
"""Files that no release of the ward reads, and what is said of each."""


def spoil(ward: Path) -> None:
    """Add a broken file, one of 12 bits, one of another size, and a copy."""
    (ward / "images/ward/ill/broken.png").write_bytes(b"broken")
    save(ward / "images/ward/ill/deep.png", picture(70, most=4096))
    save(ward / "images/ward/well/wide.png", picture(71, side=17))
    save(ward / "images/ward/well/zcopy.png", picture(3))


def test_odd_files_are_named_with_lines_that_work_where_they_are_printed(
    ward: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is beside the card, as the folder of the images may be nobody's to write."""
    spoil(ward)
    found = checked(capsys, code=3)
    reasons = {Path(x["file"]).name: (x["reason"], x["kind"]) for x in found["odd"]}
    assert set(reasons) == {*ODD, "zcopy.png"}
    assert (
        found["note"] == "Output and page are as private as the images."
    )  # true of a page that shows none, too
    for name, words in ODD.items():
        assert words in reasons[name][0]
        assert reasons[name][1] == "cannot be used"
    assert reasons["zcopy.png"] == (
        "same image as well/3.png; each counts",
        "is a copy",
    )
    assert (found["images"], len(found["decide"]), len(found["notes"])) == (61, 1, 1)
    with pytest.raises(SystemExit):
        main(["check", "--config", "ward.toml"])
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.strip().startswith("exclude"))
    Path("ward-card.toml").write_text(CARD + line.strip() + "\n")
    os.chmod(ward / "images/ward", 0o500)  # noqa: PTH101 (an export)
    found = checked(capsys)  # a copy is a note
    assert [(x["file"], x["kind"]) for x in found["odd"]] == [("well/zcopy.png", "is a copy")]
    assert Path("covdp-output/ward-check/excluded.txt").is_file()
    assert main(["release", "--config", "ward.toml"]) == 0
    monkeypatch.chdir("/")
    assert main(["release", "--config", str(ward / "ward.toml"), "--out", str(ward / "o")]) == 0


def test_a_list_elsewhere_is_copied_beside_the_card(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `exclude` only goes down; the command that copies it is printed."""
    spoil(ward)
    Path("cards").mkdir()
    Path("ward-card.toml").rename("cards/ward-card.toml")
    text = Path("ward.toml").read_text().replace('"ward-card', '"cards/ward-card')
    Path("ward.toml").write_text(text)
    with pytest.raises(SystemExit):
        main(["check", "--config", "ward.toml", "--out", "looked"])
    lines = [x.strip() for x in capsys.readouterr().out.splitlines()]
    assert "cp looked/excluded.txt cards/ward-excluded.txt" in lines
    assert 'exclude = "ward-excluded.txt"' in lines
    Path("cards/ward-excluded.txt").write_bytes(Path("looked/excluded.txt").read_bytes())
    Path("cards/ward-card.toml").write_text(CARD + 'exclude = "ward-excluded.txt"\n')
    assert [x["kind"] for x in checked(capsys)["odd"]] == ["is a copy"]


def test_a_list_beside_the_images_is_still_found(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That beside the card comes first; one that is nowhere is named as beside the card."""
    spoil(ward)
    Path("ward-card.toml").write_text(CARD + 'exclude = "out.txt"\n')
    (ward / "images/ward/out.txt").write_text("ill/deep.png\nwell/wide.png\n")
    assert {Path(x["file"]).name for x in checked(capsys, code=3)["odd"]} == {
        "broken.png",
        "zcopy.png",
    }
    Path("out.txt").write_text("ill/broken.png\nill/deep.png\nwell/wide.png\nwell/zcopy.png\n")
    assert checked(capsys)["odd"] == []
    Path("out.txt").unlink()
    (ward / "images/ward/out.txt").unlink()
    assert main(["check", "--config", "ward.toml"]) == 2
    assert str(ward / "out.txt") in capsys.readouterr().err


def test_a_window_for_a_few_is_told(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All others become nearly black: it is a fault of the card, and the gray levels show it."""
    save(ward / "images/ward/ill/deep.png", picture(70, most=4096))
    Path("ward-card.toml").write_text(CARD + "window = [0, 4095]\n")
    found = checked(capsys, code=3)
    assert found["gray"]["median"] <= 255 * 128 // 4095 + 1
    assert any("under window = [0, 4095]" in text for text in found["decide"])


def test_a_layout_is_judged_here(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A class without a folder, one without an image, and a folder of no class; no release does."""
    Path("ward-card.toml").write_text(CARD.replace('"well"', '"well", "new", "gone"'))
    (ward / "images/ward/new").mkdir()
    save(ward / "images/ward/strange/1.png", picture(80))
    (ward / "images/ward/notes").mkdir()
    (ward / "images/ward/notes/read.me").write_text("no image")
    layout = checked(capsys, code=3)["decide"]
    assert [text.partition(";")[0] for text in layout] == [
        "class 'new' has no image at '{class}/*'",
        "class 'gone' has no folder at '{class}/*'",
        "folder 'strange' is of no class",
    ]
    assert main(["release", "--config", "ward.toml"]) == 0


@pytest.mark.addons
def test_what_a_release_would_do(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Make one, give it again, open a stream, go on with it; and why it would be refused."""
    assert checked(capsys)["would"].startswith("take ")
    assert main(["release", "--config", "ward.toml"]) == 0
    capsys.readouterr()
    assert checked(capsys)["would"].startswith("give run ")
    text = Path("ward.toml").read_text()
    Path("ward.toml").write_text(text.replace("8.0", "0.5"))
    would = checked(capsys)["would"]
    assert would.startswith("be refused: run ")
    assert would.endswith("was paid with μ = 8; --again pays μ = 0.5")
    assert main(["release", "--config", "ward.toml"]) == 2
    assert "--again pays μ = 0.5" in capsys.readouterr().err
    Path("ward.toml").write_text(text)
    stream = CONFIG.format(name="nights", budget=8.0) + "[stream]\nhorizon = 9\nopening = 20\n"
    Path("nights.toml").write_text(stream.replace('"ward-card', '"other-card'))
    Path("other-card.toml").write_text(CARD.replace('"ward"', '"other"'))
    for number in range(60):
        save(
            ward / f"images/other/{('ill', 'well')[number % 2]}/{number}.png", picture(900 + number)
        )
    book = open_ledger(ward / "ledger.sqlite")
    unknown = "do nothing yet, as its account is not known"
    found = checked(capsys, config="nights.toml")
    assert "nights" in found["account"]
    assert found["would"] == unknown
    found = checked(capsys, "--ledger", "elsewhere.sqlite")
    assert found["account"].startswith("not known: ")
    assert found["would"] == unknown
    images = "--dataset", "ward-card.toml", "--data-root", "images"
    assert checked(capsys, *images)["would"] == "do nothing yet, as there is no config"
    book.set_budget("nights", GDP(8.0))
    opened = checked(capsys, config="nights.toml")["would"]
    assert opened == "open the stream 'nights': 'nights' pays μ = 8, once for 9 nights"
    release_night(load_release(Path("nights.toml"), run_key="2026-01-01"), book, None)
    assert "night 2 of 9, at no cost" in checked(capsys, config="nights.toml")["would"]
    poor = Path("ward.toml").read_text().replace('"ward"', '"poor"').replace("8.0", "30.0")
    Path("poor.toml").write_text(poor)
    book.set_budget("poor", GDP(8.0))
    refused = checked(capsys, config="poor.toml", code=3)["decide"]
    assert any("nothing was charged" in text.lower() or "left" in text for text in refused)


@pytest.mark.addons
def test_equal_images_of_another_population_are_told_to_their_owner(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a release by the digest of all, of a stream image by image; their own are no news."""
    book = open_ledger(ward / "ledger.sqlite")
    release_once(load_release(Path("ward.toml"), run_key="monday"), book, None)
    assert checked(capsys)["decide"] == []
    (ward / "images/ward").rename(ward / "images/elsewhere")
    Path("ward-card.toml").write_text(CARD.replace('"ward"', '"elsewhere"'))
    Path("twin-card.toml").write_text(CARD.replace('"ward"', '"elsewhere"'))
    twin = CONFIG.format(name="twin", budget=8.0).replace('"ward-card', '"twin-card')
    Path("twin.toml").write_text(twin)
    book.set_budget("twin", GDP(8.0))
    (found,) = checked(capsys, config="twin.toml", code=3)["decide"]
    assert found == (
        "images equal to these were charged under 'ward': run monday of 'ward'; if they are of the "
        "same people, let population 'ward' pay"
    )
    assert "'ward'" in checked(capsys, "--dataset", "twin-card.toml", "--data-root", "images",
                               code=3)["decide"][0]  # fmt: skip
    stream = twin.replace('"twin"', '"nights"') + "[stream]\nhorizon = 9\nopening = 20\n"
    Path("nights.toml").write_text(stream)
    book.set_budget("nights", GDP(8.0))
    release_night(load_release(Path("nights.toml"), run_key="2026-01-01"), book, None)
    save(ward / "images/elsewhere/ill/more.png", picture(99))
    decide = checked(capsys, config="twin.toml", code=3)["decide"]
    assert any("60 of these images entered the stream 'nights'" in text for text in decide)


@pytest.mark.addons
def test_persons_are_counted_in_their_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each in the first class of the card; a class that is left with nobody is told."""
    monkeypatch.chdir(tmp_path)
    for place, name in enumerate(("ill/P1/a", "ill/P1/b", "ill/P2/a", "well/P1/a", "well/P3/a")):
        write_dicom(tmp_path / f"ward/{name}", picture(place), PatientID=name.split("/")[1])
    Path("card.toml").write_text(
        'kind = "dicom"\nchannels = 1\nclasses = ["ill", "well"]\npath = "ward"\n'
        'unit = "person"\nwindow = [0, 255]\n'
    )
    found = checked(capsys, "--dataset", "card.toml")
    assert [(x["n"], x["persons"]) for x in found["classes"]] == [(3, 2), (1, 1)]
    assert found["persons"] == 3
    Path("card.toml").write_text(Path("card.toml").read_text() + "classes_per_person = 2\n")
    found = checked(capsys, "--dataset", "card.toml")
    assert [(x["n"], x["persons"]) for x in found["classes"]] == [(3, 2), (2, 2)]
    assert (found["persons"], found["images"]) == (3, 5)
    assert found["use"].startswith("Without a config, μ = 0.5 is assumed. ")


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ([], "give --config, or --dataset"),
        (["--config", "ward.toml", "--dataset", "ward-card.toml"], "and not both"),
        (["--dataset", "ward-card.toml", "--data-root", "nowhere"], "nowhere"),
        (["--config", "none.toml"], "none.toml"),
    ],
)
def test_bad_input_is_one_line(
    ward: Path, capsys: pytest.CaptureFixture[str], tokens: Sequence[str], words: str
) -> None:
    """Exit code 2, and no folder is made."""
    assert main(["check", *tokens]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error
    assert not (ward / "covdp-output/ward-check").exists()


def test_a_draft_leaves_out_what_a_release_would_refuse(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`card`, `start` and `release` go through, with a broken file, 12 bits and another size."""
    spoil(ward)
    assert main(["card", "images/ward"]) == 0
    Path("new-card.toml").write_text(capsys.readouterr().out)
    listed = Path("ward-excluded.txt")
    assert stat.S_IMODE(listed.stat().st_mode) == 0o600
    assert listed.read_text().split() == ["ill/broken.png", "ill/deep.png", "well/wide.png"]
    tokens = "start new-card.toml --data-root images --population new --total 9 --budget 8"
    assert main(tokens.split()) == 0
    said = capsys.readouterr().out
    assert "note     1 image is a copy of others. Each counts." in said
    assert "cannot be used" not in said
    assert main(["release", "--config", "new.toml"]) == 0
    listed.write_text("ill/broken.png\n")
    assert main(["card", "images/ward"]) == 0
    assert "is there with other rows" in capsys.readouterr().err
    assert listed.read_text() == "ill/broken.png\n"


def test_start_says_what_must_be_mended_first(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the lines to paste; nothing is paid, and what it makes is there."""
    spoil(ward)
    tokens = "start ward-card.toml --data-root images --population new --total 9 --budget 8"
    assert main(tokens.split()) == 0
    said = capsys.readouterr().out
    assert "3 files cannot be used" in said
    assert 'exclude = "covdp-output/new-check/excluded.txt"' in said
    (account,) = open_ledger(ward / "ledger.sqlite").show("new")
    assert account.spent is None
    assert main([*tokens.replace("new", "newer").split(), "--json"]) == 0
    assert "3 files cannot be used" in json.loads(capsys.readouterr().out)["decide"]


def test_no_service_and_no_flow_calls_it() -> None:
    """A release that hangs on what images show tells of them."""
    root = Path(__file__).parents[2]
    files = [*(root / "flows").glob("*.py"), root / "pipeline/cli/releases.py"]
    files += [path for path in (root / "flows").iterdir() if path.suffix in (".yaml", ".service")]
    words = re.compile(r"\bcheck --|preview_release|cli\.check|preview_images")
    assert [path.name for path in files if words.search(path.read_text(encoding="utf-8"))] == []
