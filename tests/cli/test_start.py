"""From a folder to a first release: the draft, `covdp start`, and files of another kind."""

import io
import json
import os
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sample_dicom import write_dicom

from covdp.cli import main
from covdp.ledger import open_ledger
from covdp.privacy import GDP
from covdp.publish import load_release

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CARD = 'kind = "npz"\nlocal = true\nchannels = 1\nclasses = ["a", "b"]\n'
USELESS = ["--even-if-useless"]
"""A few images are enough to try it."""
ANSWERS = ["--population", "ward-7", "--total", "2", "--budget", "0.5"]


class Terminal(io.StringIO):
    """Standard input: of nobody, or of somebody at a terminal who answers."""

    answers = False

    def isatty(self) -> bool:
        """Return whether it is one."""
        return self.answers

    def type(self, text: str) -> None:
        """Answer with a text, and then no more."""
        self.answers = True
        self.seek(0)
        self.truncate()
        self.write(text)
        self.seek(0)


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with images and their card; nobody is at the terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COVDP_DATA", raising=False)
    monkeypatch.setenv("COVDP_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.setattr("sys.stdin", Terminal())
    images = np.random.default_rng(0).integers(0, 256, (60, 12, 12), dtype=np.uint8)
    Path("images").mkdir()
    np.savez("images/ward-card.npz", train_images=images, train_labels=np.arange(60) % 2)
    Path("ward-card.toml").write_text(CARD)
    return tmp_path


def start(*options: str) -> int:
    """Run the command on the card."""
    return main(["start", "ward-card.toml", "--data-root", "images", *options])


def test_start_makes_all_that_a_release_needs(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ledger, account and a config of five keys; then it releases, with no option but the config.

    What it writes lies in the folder where one is, and no path of the machine in its document.
    """
    assert start(*ANSWERS) == 0
    said = capsys.readouterr().out
    assert "ward-7: μ = 2 left of μ = 2" in said
    assert "refused  covdp release, until this is decided or mended\n" in said
    assert "covdp check --config ward-7.toml" in said
    assert "covdp release --config" not in said
    config = tomllib.loads(Path("ward-7.toml").read_text())
    assert list(config) == ["name", "population", "dataset", "data_root", "budget"]
    assert (config["dataset"], config["data_root"]) == ("ward-card.toml", str(ward / "images"))
    assert main(["release", "--config", "ward-7.toml", *USELESS]) == 0
    (document,) = (ward / "covdp-output/ward-7/release").glob("*.json")
    assert str(ward) not in document.read_text()
    assert "charged μ = 0.5" in capsys.readouterr().out


def test_start_names_a_release_next_only_where_it_is_paid(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Enough budget: the release that is named runs. Images of another account: none is named."""
    assert start("--population", "ward-7", "--total", "90", "--budget", "30") == 0
    command = "covdp release --config ward-7.toml"
    assert f"next     {command}\n" in capsys.readouterr().out
    assert main(command.split()[1:]) == 0
    assert start("--population", "ward-8", "--total", "90", "--budget", "30") == 0
    said = capsys.readouterr().out
    assert "set population = 'ward-7', or name the card" in said.replace("\n", " ")
    assert "refused  covdp release, until this is decided or mended" in said
    assert "next     covdp release" not in said
    with pytest.raises(SystemExit):
        main(["check", "--config", "ward-8.toml"])
    assert " a release would be refused, until what is “to decide" in capsys.readouterr().out
    assert main(["release", "--config", "ward-8.toml"]) == 2


def test_start_writes_a_config_that_runs_for_colour_images(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The descriptor fits the card; plan and release take the config as it is."""
    images = np.random.default_rng(0).integers(0, 256, (60, 12, 12, 3), dtype=np.uint8)
    np.savez("images/ward-card.npz", train_images=images, train_labels=np.arange(60) % 2)
    Path("ward-card.toml").write_text(CARD.replace("channels = 1", "channels = 3"))
    assert start(*ANSWERS) == 0
    assert "choose descriptor" not in capsys.readouterr().out
    assert tomllib.loads(Path("ward-7.toml").read_text())["descriptor"] == "grid11"
    assert main(["plan", "--config", "ward-7.toml", "--n", "a=5000"]) == 0
    assert "Prediction: " in capsys.readouterr().out
    assert main(["release", "--config", "ward-7.toml", *USELESS]) == 0


@pytest.mark.parametrize("odd", ["\x7f", "\x85", "\u200e", '"', "\\", "\t"], ids=ascii)
def test_a_data_root_of_any_letters_is_written_as_toml(
    odd: str, ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """DEL, marks and quotes: the config names the folder that is there, and is read."""
    (ward / "images").rename(ward / f"im{odd}ages")
    assert main(["start", "ward-card.toml", "--data-root", f"im{odd}ages", *ANSWERS]) == 0
    keys = tomllib.loads((ward / "ward-7.toml").read_text(encoding="utf-8"))
    assert keys["data_root"] == str(ward / f"im{odd}ages")
    assert load_release(Path("ward-7.toml")).population == "ward-7"
    capsys.readouterr()


def test_a_data_root_that_is_no_text_leaves_no_config(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes that are no letters are refused in one line, before anything is made."""
    root = os.fsdecode(b"im\xffages")
    (ward / "images").rename(ward / root)
    assert main(["start", "ward-card.toml", "--data-root", root, *ANSWERS]) == 2
    said = capsys.readouterr().err
    assert "is a name that is no text, as TOML must be; rename it" in said
    assert said.count("\n") == 1
    assert not [*ward.glob("ward-7*"), *ward.glob("ledger*")]


@pytest.mark.parametrize("option", ["--budget", "--total"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "1e999"])
def test_a_budget_is_a_number_above_0(
    ward: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    """Any other is refused in one line that names the option, and nothing is made."""
    before = sorted(ward.iterdir())
    both = {"--budget": "0.5", "--total": "2"} | {option: value}
    options = [f"{name}={said}" for name, said in both.items()]
    assert start("--population", "ward-9", *options) == 2
    assert f"covdp: {option} must be a number above 0" in capsys.readouterr().err
    assert sorted(ward.iterdir()) == before


def test_start_asks_on_a_terminal_and_never_without_one(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One refusal names all missing options; Enter takes a proposal; a slip is asked anew."""
    assert start("--budget", "0.5") == 2
    said = capsys.readouterr()
    assert "give --population, --total, as in `covdp start" in said.err
    assert start("--budget", "0.25", "--nights", "9", "--out", "a b.toml") == 2
    command = capsys.readouterr().err.split("`")[1]
    for words in ("--budget 0.25", "--nights 9", "--out 'a b.toml'", "--data-root images"):
        assert words in command
    assert sorted(path.name for path in ward.iterdir()) == ["images", "ward-card.toml"]
    typed = sys.stdin
    assert isinstance(typed, Terminal)
    typed.type("\n3\n\n")
    assert start() == 0
    assert load_release(Path("ward.toml")).cost == GDP(0.5)
    assert open_ledger("ledger.sqlite").show("ward")[0].budget == GDP(3.0)
    typed.type("b\nmany\n5\n\n")
    assert start() == 0
    assert "releases of 0.5) must be a number, found 'many'" in capsys.readouterr().err
    assert open_ledger("ledger.sqlite").show("b")[0].budget == GDP(5.0)
    typed.type("")
    assert start() == 2


@pytest.mark.addons
def test_start_leaves_what_is_there(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An account keeps its total, a config is not overwritten, and a wrong one does not stay."""
    assert start(*ANSWERS, "--quiet") == 0
    assert capsys.readouterr().out == "ward-7.toml\n"
    assert start(*ANSWERS) == 2
    assert "is there already" in capsys.readouterr().err
    again = ["--population", "ward-7", "--budget", "0.25", "--out", "second.toml"]
    assert start(*again, "--nights", "100", "--json") == 0
    assert json.loads(capsys.readouterr().out)["account"]["budget"]["mu"] == 2.0
    assert load_release(Path("second.toml"), opened=True).stream is not None
    assert start(*again[:-1], "nights.toml", "--nights", "100") == 0
    assert "a class has its first mean at 1,200 images; here: " in capsys.readouterr().out
    assert start("--population", "ward-7", "--budget", "-1", "--out", "third.toml") == 2
    assert "--budget must be a number above 0" in capsys.readouterr().err
    assert not Path("third.toml").exists()
    assert start(*ANSWERS, "--out", "no/third.toml") == 2
    capsys.readouterr()
    assert start("--population", "new", "--total", "1", "--budget", "2") == 2
    assert "could never pay; give a larger --total" in capsys.readouterr().err
    assert not Path("new.toml").exists()
    assert [row.population for row in open_ledger("ledger.sqlite").show()] == ["ward-7"]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["release", "--config", "ward-card.toml"], "is the card of a dataset, and not the config"),
        (["plan", "--config", "ward-card.toml"], "`covdp start` makes the config of a release"),
        (["start", "ward-7.toml"], "is the config of a release, and not the card of a dataset"),
        (["run", "--config", "ward-7.toml"], "is the config of a release, and not an experiment"),
        (["run", "--dataset", "mine.toml"], "is an experiment, and not the card of a dataset"),
    ],
)
def test_a_file_of_another_kind_is_recognised(
    ward: Path, capsys: pytest.CaptureFixture[str], tokens: list[str], words: str
) -> None:
    """A card for a config, a config for a card, and an experiment: the refusal says what it is."""
    assert start(*ANSWERS) == 0
    Path("mine.toml").write_text('title = "x"\n[[mechanisms]]\n')
    assert main(tokens) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "# nothing\n"])
def test_an_empty_card_is_called_empty(
    ward: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    """A card that a refused `covdp card` left empty is named so, by start and by release."""
    assert start(*ANSWERS) == 0
    Path("ward-card.toml").write_text(content)
    for tokens in (["start", "ward-card.toml"], ["release", "--config", "ward-7.toml"]):
        assert main(tokens) == 2
        assert "is an empty card; write it with `covdp card" in capsys.readouterr().err


def test_the_same_day_with_other_images_is_paid_again_only_when_told(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other images under one run key are refused and cost nothing; `--again` pays once more."""
    assert start(*ANSWERS) == 0
    release = ["release", "--config", "ward-7.toml", *USELESS, "--run-key", "monday"]
    assert main(release) == main(release) == 0
    assert "already released, nothing charged" in capsys.readouterr().out
    with np.load("images/ward-card.npz") as file:
        images = file["train_images"]
    more = np.concatenate([images, 255 - images])
    np.savez("images/ward-card.npz", train_images=more, train_labels=np.arange(120) % 2)
    assert main(release) == 2
    assert "nothing was charged now; --again pays" in capsys.readouterr().err
    assert open_ledger("ledger.sqlite").show("ward-7")[0].spent == GDP(0.5)
    assert main([*release, "--again"]) == 0
    assert "charged μ = 0.5; left 1.87082" in capsys.readouterr().out
    assert main([*release[:-1], "tuesday"]) == 0


@pytest.mark.addons
def test_a_night_that_is_repeated_says_how_many_files_wait(
    ward: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that came after the night are counted; where nothing came, nothing is said."""

    def save(label: str, number: int) -> None:
        pixels = np.random.default_rng(number).integers(0, 256, (12, 12), dtype=np.uint8)
        Image.fromarray(pixels).save(ward / f"scans/{label}/{number}.png")

    for label in "ab":
        (ward / "scans" / label).mkdir(parents=True)
        for number in range(6):
            save(label, number + 10 * (label == "b"))
    Path("card.toml").write_text(
        'kind = "folder"\npath = "scans"\nchannels = 1\nclasses = ["a", "b"]\n'
        'pattern = "{class}/*"\n'
    )
    assert main(["start", "card.toml", *ANSWERS, "--nights", "9"]) == 0
    night = ["release", "--config", "ward-7.toml", *USELESS, "--run-key", "2026-11-20"]
    assert main(night) == main(night) == 0
    assert "new file" not in capsys.readouterr().out
    save("a", 7)
    save("b", 17)
    assert main(night) == 0
    assert "2 new files in the folder" in capsys.readouterr().out


@pytest.mark.addons
def test_a_draft_says_what_is_there_and_what_comes_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images and persons of each class, whom it protects, the next command: on standard error."""
    for number in range(12):
        file = tmp_path / f"ward/{'ill' if number % 2 else 'well'}/{number}.dcm"
        pixels = np.full((8, 8), number, np.uint8)
        write_dicom(file, pixels, PatientID=f"P{number // 4}")
    assert main(["card", str(tmp_path / "ward")]) == 0
    said = capsys.readouterr()
    assert tomllib.loads(said.out)["classes"] == ["ill", "well"]
    assert "class ill: 6 images of 3 persons" in said.err
    assert "protected: one person, with all images of that person" in said.err
    assert f"covdp start ward-card.toml --data-root {tmp_path}" in said.err


@pytest.mark.addons
def test_folders_of_patients_are_no_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where all folders are PatientIDs the draft has one class; where some are, they are named."""
    for number in range(8):
        file = tmp_path / f"ward/P{number // 2}/{number}.dcm"
        write_dicom(file, np.full((8, 8), number, np.uint8), PatientID=f"P{number // 2}")
    assert main(["card", str(tmp_path / "ward")]) == 0
    said = capsys.readouterr()
    assert tomllib.loads(said.out)["classes"] == ["ward"]
    assert "4 folders have the names of PatientIDs" in said.err
    write_dicom(tmp_path / "ward/other/9.dcm", np.full((8, 8), 9, np.uint8), PatientID="P9")
    assert main(["card", str(tmp_path / "ward")]) == 0
    said = capsys.readouterr()
    assert "class names that are PatientIDs: P0, P1, P2 and 1 more" in said.err


@pytest.mark.addons
def test_experiments_are_listed(ward: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Title, datasets at hand and those missing, minutes; none is run."""
    assert main(["reproduce", "--list", "--json", "--data-root", "images"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["ours-regions"]["at_hand"] == ["tiles"]
    assert "oct2017" in rows["ours-regions"]["missing"]
    assert rows["ew-simulation"]["at_hand"] == rows["ew-simulation"]["missing"] == []
    assert sum(row["minutes"] is not None for row in rows.values()) >= len(rows) - 2
    assert main(["reproduce", "ew-octmnist", "--list"]) == 0
    assert "OCTMNIST" in capsys.readouterr().out
    assert not (ward / "covdp-output").exists()
