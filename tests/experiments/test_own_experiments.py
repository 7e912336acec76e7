"""Experiments of one's own: a copied and changed file runs from anywhere, by both commands."""

import json
from pathlib import Path

import numpy as np
import pytest

from covdp.cli import main
from covdp.errors import CovdpError
from covdp.experiments import (
    EXPERIMENT_KINDS,
    EXPERIMENTS,
    MAIN,
    Run,
    load_experiments,
    run_experiment,
)
from covdp.experiments.steps import steps_of
from covdp.results import read_rows

CARD = 'kind = "npz"\nlocal = true\npublic = true\nchannels = 1\nclasses = ["a", "b"]\n'


def copied(folder: Path, source: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Copy an experiment out of the package, change it, and return the copy."""
    text = source.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def mine(tmp_path: Path) -> tuple[Path, ...]:
    """Return a composition, a timing and a run on images of one's own, whose card lies beside."""
    folder = tmp_path / "mine"
    folder.mkdir()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 28, 28), dtype=np.uint8)
    labels = np.repeat([0, 1], 20).astype(np.uint8)
    np.savez(folder / "ward.npz", train_images=images, train_labels=labels)
    (folder / "ward.toml").write_text(CARD)
    return (
        copied(
            folder,
            EXPERIMENTS["rao-composition"],
            "table.toml",
            ('name = "rao-composition"', 'name = "table"'),
            ("queries = [1, 2, 5, 10, 20, 50, 100]", "queries = [3, 4]"),
        ),
        copied(
            folder,
            EXPERIMENTS["ew-timing"],
            "clock.toml",
            ('name = "ew-timing"', 'name = "clock"'),
            ("dimensions = [3, 6, 15]", "dimensions = [3]"),
            ("burn_in = 10000", "burn_in = 200"),
        ),
        copied(
            folder,
            MAIN,
            "images.toml",
            ('name = "main"', 'name = "images"'),
            ('dataset = "tiles"\n', ""),
            ("0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0", "0.2, 1.0"),
            ("\n[[mechanisms]]\nseries = \"EWG as", '\n[[datasets]]\nname = "ward.toml"\n'
             '\n[[mechanisms]]\nseries = "EWG as'),
        ),
    )  # fmt: skip


@pytest.mark.slow
def test_both_commands_run_any_file_from_any_folder(
    mine: tuple[Path, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Seed, repetitions and folders mean the same in both; the rows are those of the library."""
    monkeypatch.chdir(tmp_path)
    root, options = mine[0].parent, ["--seed", "7", "--repetitions", "4"]
    options += ["--data-root", str(root), "--json"]
    files = [str(path.relative_to(tmp_path)) for path in mine]
    assert main(["reproduce", *files, *options, "--out", "reproduced"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["run"] for run in told["runs"]] == [
        "table-simulated", "clock-simulated", "images-ward",
    ]  # fmt: skip
    assert main(["run", "--config", files[2], *options, "--out", "ran"]) == 0
    paths = json.loads(capsys.readouterr().out)
    assert Path(paths["results"]) == tmp_path / "ran" / "results" / "images-ward.parquet"
    configs = load_experiments(*mine, seed=7, repetitions=4)
    for config in configs:
        reproduced = read_rows(tmp_path / "reproduced" / "results" / f"{config.run_name}.parquet")
        if config.kind == "timing":
            assert (reproduced["seconds"] > 0).all()
            assert len(reproduced["seed"]) == 4 * len(config.mechanisms)
            continue
        here = read_rows(run_experiment(Run(config, root, tmp_path / "here")))
        assert set(here["repetition"]) <= set(range(4))
        for name in set(here) - {"seconds"}:
            np.testing.assert_array_equal(reproduced[name], here[name], err_msg=name)
    ran = read_rows(Path(paths["results"]))
    np.testing.assert_array_equal(ran["error"], here["error"])
    assert set(ran["dataset"]) == {"ward"}


@pytest.mark.addons
def test_the_command_of_a_file_loads_it_again(mine: tuple[Path, ...], tmp_path: Path) -> None:
    """A record names the file, what was changed and the card beside it, and that gives the same."""
    from covdp.experiments.record import command

    (config,) = load_experiments(mine[2], seed=7, repetitions=4, quick=True)
    card = mine[2].with_name("ward.toml")
    told = command(Run(config, None, tmp_path))
    assert told == (
        f"covdp reproduce {mine[2]} --seed 7 --repetitions 4 --quick --dataset {card}"
    )  # fmt: skip
    (again,) = load_experiments(
        str(mine[2]), seed=7, repetitions=4, quick=True, dataset=str(card)
    )  # fmt: skip
    assert again == config
    assert command(Run(load_experiments(MAIN)[0], None, tmp_path)) == "covdp run --dataset tiles"


@pytest.mark.addons
def test_rows_do_not_depend_on_where_a_card_lies(mine: tuple[Path, ...], tmp_path: Path) -> None:
    """Folder and file moved elsewhere give the same seeds, bit for bit."""
    moved = mine[2].parent.rename(tmp_path / "elsewhere")
    (there,) = load_experiments(moved / "images.toml", repetitions=2)
    assert there.dataset == str(moved / "ward.toml")
    rows = read_rows(run_experiment(Run(there, moved, tmp_path / "out")))
    moved.rename(tmp_path / "mine")
    (here,) = load_experiments(mine[2], repetitions=2)
    again = read_rows(run_experiment(Run(here, mine[2].parent, tmp_path / "again")))
    for name in ("seed", "error", "dataset"):
        np.testing.assert_array_equal(rows[name], again[name])


@pytest.mark.addons
def test_repetitions_replace_the_files_and_cap_the_series() -> None:
    """More are drawn of what has no number of its own; a chain of 10 stays at 10, or goes down."""
    (plain, *_), (more, *_), (few, *_) = (
        load_experiments("tg-medmnist", repetitions=number) for number in (None, 300, 5)
    )
    assert (plain.repetitions, more.repetitions, few.repetitions) == (100, 300, 5)
    own = [config.mechanisms[0].repetitions for config in (plain, more, few)]
    assert own == [10, 10, 5]


@pytest.mark.addons
def test_classes_draw_side_by_side_unless_timed() -> None:
    """Every kind of experiment has a list of steps; a clock is read while nothing else draws."""
    parallel = {}
    for config in load_experiments("all"):
        steps = steps_of(Run(config, None, Path("out")))
        assert steps[-1].name in ("results", "table")
        parallel[config.kind] = {step.name for step in steps if step.parallel}
    alone = {"timing": set[str](), "composition": set[str]()}
    drawn = {kind: {"mechanisms"} for kind in set(EXPERIMENT_KINDS) - set(alone)}
    assert parallel == {**drawn, **alone}


@pytest.mark.addons
@pytest.mark.parametrize(
    ("source", "old", "new", "words"),
    [
        ("ew-simulation", 'mechanism = "ewg"', 'mechanism = "ewgg"', "did you mean 'ewg'"),
        ("ew-simulation", "[3, 6, 15, 21]", "[4]", "found 4"),
        ("ew-geometries", '"hyperbolic"', '"hyperbolc"', "did you mean 'hyperbolic'"),
        ("rao-composition", '"rdp"', '"rpd"', "unknown definition 'rpd'; did you mean"),
        ("rao-composition", 'kind = "composition"\n', "", "found 'error'"),
        ("ours-stream", 'kind = "nights"\n', "", "what kind nights is, found 'error'"),
        ("ours-stream", "[nights]", "[nigths]", "did you mean 'nights'"),
        ("ours-regions", "\nof = ", "\noff = ", "did you mean 'of'"),
        ("tg-medmnist", "beyond =", "beyod =", "did you mean 'beyond'"),
        ("tg-medmnist", "[figure]", 'dataset = "tiles"\n[figure]', "keep one of them"),
        ("tg-medmnist", 'name = "octmnist"', 'name = "octmnst"', "did you mean 'octmnist'"),
        ("ew-simulation", 'kind = "ball"', 'kind = "bal"', "did you mean 'ball'"),
        ("ew-simulation", "[source]", "[[sauce]]", "did you mean 'source'"),
        ("ew-simulation", "burn_in = 10000", "burn_in = 10000\nstart = 1.0", "leave it out"),
        (
            "tg-burnin",
            'mechanism = "rl"  # ours',
            'start = 1.0\nmechanism = "rl" # ours',
            "leave it out",
        ),
        ("ew-simulation", "repetitions = 3000", "repetitions = 1", "found 1"),
        ("ew-octmnist", "budgets = [0.1, 0.2,", "budgets = [0.2, 0.2,", "budgets must differ"),
        ("ours-stream", "classes = [1]", "classes = [0, 0]", r"each once, found \[0, 0\]"),
        ("ours-stream", "classes = [1]", "classes = []", r"at least one .* found \[\]"),
        ("ew-simulation", 'mechanism = "ewg"', 'mechanism = "ewg"\nn = 5', "n is for kind regions"),
        ("ours-regions", "\nn = ", '\nchange = "class"\nn = ', "is for kind tests, matches, and"),
    ],
)
def test_a_changed_copy_that_means_nothing_is_refused(
    tmp_path: Path, source: str, old: str, new: str, words: str
) -> None:
    """A name, key or combination that means nothing is one line, before there is a folder."""
    path, out = copied(tmp_path, EXPERIMENTS[source], "mine.toml", (old, new)), tmp_path / "out"
    with pytest.raises(CovdpError, match=words) as caught:
        load_experiments(path)
    assert "\n" not in str(caught.value)
    assert main(["reproduce", str(path), "--out", str(out)]) == 2
    assert not out.exists()


@pytest.mark.addons
def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    """Two runs of one name, options of images without images, one repetition, a slip in a name."""
    path = copied(tmp_path, EXPERIMENTS["rao-composition"], "mine.toml")
    with pytest.raises(CovdpError, match="two runs are called rao-composition-simulated"):
        load_experiments("rao-composition", path)
    with pytest.raises(CovdpError, match="takes no --descriptor"):
        load_experiments(path, descriptor="oct5")
    with pytest.raises(CovdpError, match=r"'repetitions'.*found 1"):
        load_experiments(path, repetitions=1)
    with pytest.raises(CovdpError, match="did you mean 'rao-composition'"):
        load_experiments("rao-compositions")
