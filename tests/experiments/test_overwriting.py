"""Results of one run are not written over by another, and the same run goes on."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from covdp.cli import main
from covdp.datasets import DATASETS
from covdp.datasets.npz import NpzCard
from covdp.errors import ConfigError
from covdp.experiments import (
    EXPERIMENTS,
    MAIN,
    Run,
    changed_words,
    load_experiments,
    run_experiment,
    steps,
)
from covdp.results import read_record, write_record

CARD = 'kind = "npz"\nlocal = true\npublic = true\nchannels = 1\nclasses = ["a", "b"]\n'


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with a small set of images and an experiment of two repetitions on it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COVDP_DATA", str(tmp_path))
    monkeypatch.setenv("COVDP_STORE", str(tmp_path / "stores"))
    save_images(0)
    Path("ward.toml").write_text(CARD)
    text = re.sub(r"budgets = .*", "budgets = [1.0]", MAIN.read_text(encoding="utf-8"))
    text = text.replace("repetitions = 30", "repetitions = 2").replace('"tiles"', '"ward.toml"')
    Path("few.toml").write_text(text, encoding="utf-8")
    return tmp_path


def save_images(seed: int) -> None:
    """Write 40 images of two classes, other ones for each seed."""
    images = np.random.default_rng(seed).integers(0, 256, (40, 12, 12), dtype=np.uint8)
    np.savez("ward.npz", train_images=images, train_labels=np.arange(40) % 2)


def content(folder: Path) -> dict[Path, bytes]:
    """Return every file below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


OTHERS = {
    "--descriptor grid9": "main-ward-grid9",
    "--seed 7": "main-ward-seed-7",
    "--repetitions 3": "main-ward-repetitions-3",
    "--descriptor gauss6 --seed 8": "main-ward-gauss6-seed-8",
}
"""Options that change a run, and the folder that it has then."""


@pytest.mark.parametrize("options", OTHERS)
def test_other_settings_have_another_folder(few: Path, options: str) -> None:
    """Their results stand beside those of before; in the same folder they are refused."""
    command = ["run", "--config", "few.toml"]
    assert main(command) == 0
    first = few / "covdp-output" / "main-ward"
    before = content(first)
    assert main([*command, *options.split()]) == 0
    assert {path.name for path in first.parent.iterdir()} == {"main-ward", OTHERS[options]}
    assert content(first) == before


@pytest.mark.addons
@pytest.mark.parametrize(
    ("command", "options"),
    [*(("run --config few.toml", one) for one in OTHERS), ("reproduce few.toml", [*OTHERS][-1])],
)
def test_one_folder_keeps_the_results_it_has(
    few: Path, capsys: pytest.CaptureFixture[str], options: str, command: str
) -> None:
    """One line says what differs and what to do; the same run goes on there and draws nothing."""
    words = [*command.split(), "--out", "here"]
    assert main(words) == 0
    before = content(few / "here")
    capsys.readouterr()
    assert main([*words, *options.split()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--out" in error
    assert all(part in error for part in options.split() if part[0] != "-"), error
    assert content(few / "here") == before
    assert main(words) == 0
    table = Path("results/main-ward.parquet")
    assert (few / "here" / table).read_bytes() == before[few / "here" / table]


def test_an_edited_file_and_other_images_are_refused(
    few: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one name, one folder; words alone may be changed."""
    command = ["run", "--config", "few.toml"]
    assert main(command) == 0
    text, before = Path("few.toml").read_text(encoding="utf-8"), content(few / "covdp-output")
    Path("few.toml").write_text(text.replace("budgets = [1.0]", "budgets = [0.5]"))
    assert main(command) == 2
    assert "(budgets)" in capsys.readouterr().err
    assert content(few / "covdp-output") == before
    Path("few.toml").write_text(text)
    save_images(1)
    assert main(command) == 2
    assert "images" in capsys.readouterr().err
    assert content(few / "covdp-output") == before
    save_images(0)
    Path("few.toml").write_text(re.sub('title = ".*"', 'title = "Another"', text))
    assert main(command) == 0


def test_settings_that_one_version_does_not_have_are_not_compared(few: Path) -> None:
    """A key more or less, of the run or of a series, is no other setting; a value is."""
    command = ["run", "--config", "few.toml", "--out", "here"]
    assert main(command) == 0
    (kept,) = Path("here").glob("runs/*/settings.json")
    before = json.loads(kept.read_text())
    more = [{**series, "batch": 1} for series in before["mechanisms"]]
    less = {key: value for key, value in before.items() if key != "alpha"}
    kept.write_text(json.dumps({**less, "nights": None, "mechanisms": more}))
    assert main(command) == 0
    more[0]["scale"] = 2.0
    kept.write_text(json.dumps({**before, "mechanisms": more}))
    assert main(command) == 2


def test_another_card_of_the_same_name_is_refused(few: Path) -> None:
    """A card is known by where it is, from whatever folder it is named."""
    command = ["run", "--config", "few.toml", "--out", "here"]
    assert main(command) == 0
    assert main([*command, "--dataset", str(few / "ward.toml")]) == 0
    (few / "other").mkdir()
    (few / "other" / "ward.toml").write_text(CARD)
    assert main([*command, "--dataset", "other/ward.toml"]) == 2


@pytest.mark.addons
def test_what_was_begun_goes_on_and_is_not_dropped(tmp_path: Path) -> None:
    """An interrupted run keeps its cells; another one of its name is refused meanwhile."""
    config = load_experiments("ew-simulation", quick=True)[0]
    run = Run(config.model_copy(update={"repetitions": 2}), None, tmp_path)
    steps.begin_run(run)
    what = steps.class_series(run)[0]
    drawn = steps.release(run, what).cells
    assert drawn > 0
    other = replace(run, config=run.config.model_copy(update={"seed": 99}))
    with pytest.raises(ConfigError, match="there, 99 here"):
        run_experiment(other)
    steps.begin_run(run)
    assert steps.release(run, what).cells == 0


def test_results_of_an_earlier_version_are_kept_as_well(few: Path) -> None:
    """They have no settings beside them, but a record of the run."""
    command = ["run", "--config", "few.toml", "--out", "here"]
    assert main(command) == 0
    Path("here/runs/main-ward/settings.json").unlink()
    assert main([*command, "--seed", "5"]) == 2
    assert main(command) == 0
    log = Path("here/runs/main-ward/run.json")
    write_record(log, replace(read_record(log), status="data not available"))
    Path("here/runs/main-ward/settings.json").unlink()
    assert main([*command, "--seed", "5"]) == 0


@pytest.mark.addons
def test_names_have_what_differs_from_the_file() -> None:
    """An option that says what the file says anyway is none."""
    (config,) = load_experiments(MAIN)
    assert changed_words(MAIN, descriptor="oct5", seed=config.seed) == []
    assert changed_words(MAIN, dataset="octmnist", descriptor="grid9") == ["grid9"]
    names = [*EXPERIMENTS][:2]
    assert changed_words(*names, repetitions=3, quick=True, chains=False) == [
        "repetitions-3", "quick", "no-chains",
    ]  # fmt: skip


@pytest.mark.parametrize("options", [[], ["--out", "new"], ["--out", "deep/new"]])
def test_a_download_that_fails_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    """Neither one that it made, nor anything else; a folder that was there stays."""
    monkeypatch.chdir(tmp_path)
    card = DATASETS["pathmnist"]
    assert isinstance(card, NpzCard)
    files = tuple(x.model_copy(update={"url": "http://nowhere.invalid/x"}) for x in card.files)
    nowhere = card.model_copy(update={"files": files, "medmnist": None})
    monkeypatch.setitem(DATASETS, "pathmnist", nowhere)
    command = ["run", "--dataset", "pathmnist", "--descriptor", "grid11", *options]
    assert main([*command, "--data-root", str(tmp_path / "data")]) == 2
    assert [path for path in tmp_path.rglob("*") if path.name in ("covdp-output", "new")] == []
    (tmp_path / "new").mkdir()
    assert main([*command[:5], "--out", "new", "--data-root", str(tmp_path / "data")]) == 2
    assert (tmp_path / "new").is_dir()
