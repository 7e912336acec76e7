"""`covdp reproduce`: names, configs, missing data, quick runs, the table and the report."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from covdp.addons.papers.blocks import totals
from covdp.addons.papers.verdicts import JUDGED, claims, verdict
from covdp.cli import main
from covdp.config import ExperimentConfig
from covdp.errors import ConfigError, CovdpError
from covdp.experiments import (
    EXPERIMENTS,
    MAIN,
    ExperimentStep,
    Run,
    load_experiments,
    run_experiment,
)
from covdp.experiments.record import command, guarantees, outcome, statement, uncertified
from covdp.experiments.registry import QUICK
from covdp.experiments.steps import perform
from covdp.privacy import GDP, ApproxDP, PureDP, RaoDP, repeat, success
from covdp.report import build_report, load_run, table_of
from covdp.results import read_record, read_rows, write_record
from covdp.runs import run_experiments
from covdp.toml import parse
from tests.tools.patience import PATIENCE

NAMES = [
    "ew-simulation",
    "ew-timing",
    "ew-octmnist",
    "ew-footpoint",
    "ew-geometries",
    "tg-synthetic",
    "tg-medmnist",
    "tg-standard",
    "tg-timing",
    "tg-burnin",
    "tg-bound",
    "kng-sphere",
    "kng-spd",
    "kng-shapes",
    "rao-composition",
]
OURS = [
    "ours-classify",
    "ours-combine",
    "ours-harmonise",
    "ours-join",
    "ours-labels",
    "ours-match",
    "ours-peers",
    "ours-persons",
    "ours-regions",
    "ours-stream",
    "ours-tests",
]
"""What this project claims itself: no paper says it."""


def test_every_published_experiment_is_there() -> None:
    """The registry has the published names and ours; every config but ours names its paper."""
    assert sorted(EXPERIMENTS) == sorted(NAMES + OURS)
    for config in load_experiments("all"):
        assert bool(config.paper) == (config.name in NAMES)
        assert config.open


def test_statements_and_baselines_name_series_that_exist() -> None:
    """Claims, printed numbers and baselines point at series and classes of their experiment."""
    for config in load_experiments("all"):
        series = {item.series for item in config.mechanisms}
        begins = {name.split(",")[0] for name in series}
        for claim in config.claims:
            known = series | begins if claim.column in JUDGED else series
            assert {claim.left, claim.right} - {""} <= known
            for reading in claim.readings:
                assert {reading.left, reading.right} - {None} <= known
        assert {item.series for item in config.published if item.series} <= series
        assert not config.baseline or config.baseline in series


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("radius = 1.5", "radios = 1.5", "did you mean 'radius'"),
        ("dimensions =", "dimension =", "did you mean 'dimensions'"),
        ("burn_in = 10000", "burnin = 10000", "did you mean 'burn_in'"),
        ('left = "EWG', 'lfet = "EWG', "did you mean 'left'"),
        ('kind = "ball"', 'kind = "bal"', "ball"),
        ("repetitions = 3000", "repetitons = 3000", "did you mean 'repetitions'"),
    ],
)
def test_a_slip_in_an_experiment_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    """A misspelt key of any table is one line with the closest key."""
    text = EXPERIMENTS["ew-simulation"].read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "slip.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(CovdpError, match=words):
        load_experiments(path)


def test_quick_changes_repetitions_only() -> None:
    """A quick run differs in numbers of repetitions alone."""
    for full, short in zip(
        load_experiments("all"), load_experiments("all", quick=True), strict=True
    ):
        assert short.repetitions == min(full.repetitions, QUICK)
        a, b = full.model_dump(), short.model_dump()
        for fields in (a, b):
            del fields["repetitions"]
            for item in fields["mechanisms"]:
                del item["repetitions"]
        assert a == b


def test_chains_can_be_left_out() -> None:
    """Without chains every other series stays."""
    for full, short in zip(
        load_experiments("all"), load_experiments("all", chains=False), strict=True
    ):
        kept = [item.series for item in full.mechanisms if item.sampler != "chain"]
        assert [item.series for item in short.mechanisms] == kept


def test_names_and_datasets_that_mean_nothing_are_refused() -> None:
    """An unknown name gets the closest one; simulated experiments take no dataset."""
    with pytest.raises(ConfigError, match="did you mean 'ew-simulation'"):
        load_experiments("ew-simulations")
    with pytest.raises(ConfigError, match="give the name"):
        load_experiments()
    with pytest.raises(ConfigError, match="no --dataset"):
        load_experiments("ew-simulation", dataset="breastmnist")
    with pytest.raises(ConfigError, match=r"gray images .* pathmnist has not; choose .*grid11"):
        load_experiments("ew-octmnist", dataset="pathmnist")
    with pytest.raises(ConfigError, match="adrenalmnist3d has not; choose --descriptor vol7"):
        load_experiments("ew-octmnist", dataset="adrenalmnist3d")
    with pytest.raises(ConfigError, match="choose --descriptor vol7"):
        load_experiments(MAIN, dataset="adrenalmnist3d", descriptor="oct5")


def test_a_dataset_is_put_in_place_of_the_published_one() -> None:
    """The variant whose descriptor fits the channels runs, on the classes the dataset has."""
    config, curved = load_experiments("ew-octmnist", dataset="pneumoniamnist")
    assert config.beyond
    assert curved.run_name == "ew-octmnist-pneumoniamnist-affine-invariant"
    assert (curved.manifold, curved.dataset) == ("spd-affine-invariant", config.dataset)
    assert not load_experiments("ew-octmnist")[0].beyond
    assert load_experiments("ew-octmnist", dataset="organamnist")[0].beyond
    assert config.run_name == "ew-octmnist-pneumoniamnist"
    (gray,) = load_experiments("tg-standard", dataset="breastmnist")
    assert (gray.descriptor, gray.classes) == ("grid9", (0, 1))
    (listed,) = load_experiments("tg-medmnist", dataset="octmnist")
    assert listed == load_experiments("tg-medmnist")[1]
    (colour,) = load_experiments("tg-medmnist", dataset="dermamnist")
    assert colour.descriptor == "grid11"
    found = {"adrenalmnist3d": "vol7", "pathmnist": "grid11", "breastmnist": "oct5"}
    for dataset, descriptor in found.items():  # no paper's experiment: what fits
        (config,) = load_experiments(MAIN, dataset=dataset)
        assert config.descriptor == descriptor


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ExperimentConfig, Path]:
    """Run ew-octmnist where its card points at a server that is not there."""
    from covdp.datasets import DATASETS

    card = DATASETS["octmnist"]
    files = tuple(
        file.model_copy(update={"url": "http://nowhere.invalid/x.npz"}) for file in card.files
    )
    nowhere = card.model_copy(update={"files": files, "medmnist": None})
    monkeypatch.setitem(DATASETS, "octmnist", nowhere)
    config = load_experiments("ew-octmnist")[0]
    run_experiment(Run(config, tmp_path / "data", tmp_path / "out"))
    return config, tmp_path / "out"


def test_missing_data_are_rows_and_a_command(missing: tuple[ExperimentConfig, Path]) -> None:
    """A dataset that cannot be had gives rows with that status, and says how to get it."""
    config, out = missing
    rows = read_rows(out / "results" / "ew-octmnist-octmnist.parquet")
    assert set(rows["status"]) == {"data not available"}
    assert len(rows["seed"]) == 4 * len(config.mechanisms) * len(config.budgets)
    record = read_record(out / "runs" / "ew-octmnist-octmnist" / "run.json")
    assert record.status == "data not available"
    root = out.parent / "data"
    assert record.command == f"covdp reproduce ew-octmnist --dataset octmnist --data-root {root}"
    page = build_report(out).read_text(encoding="utf-8")
    assert 'id="ew-octmnist-octmnist"' in page
    assert "Not run: OCTMNIST" in page


def test_results_stay_when_their_data_have_gone(missing: tuple[ExperimentConfig, Path]) -> None:
    """A table of an earlier run is not written over by rows that say there were no data."""
    config, out = missing
    path = out / "runs" / "ew-octmnist-octmnist" / "run.json"
    write_record(path, replace(read_record(path), status="ok"))
    table = out / "results" / "ew-octmnist-octmnist.parquet"
    table.write_bytes(b"earlier")
    with pytest.raises(CovdpError, match="of an earlier run stays as it is"):
        run_experiment(Run(config, out.parent / "data", out))
    assert table.read_bytes() == b"earlier"


def test_missing_data_is_neither_done_nor_failed(
    missing: tuple[ExperimentConfig, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A line with the command, a summary, exit code 2 only if it was asked for by name, no folder.

    One dataset that ran is enough for an experiment.
    """
    import covdp.experiments.record
    from covdp import runs

    config, out = missing
    assert not (tmp_path / "data").exists()
    run = Run(config, tmp_path / "data", out)
    found = outcome([run], out / "report.html", out)
    assert found.without == ("ew-octmnist",)
    assert found.lines[0].startswith(
        "not run  ew-octmnist-octmnist: cannot download http://nowhere"
    )
    assert found.lines[1].endswith(command(run, out))
    quick, *_ = load_experiments("ew-octmnist", quick=True)
    listed = outcome([Run(quick, None, out)], out / "report.html", None)
    assert listed.lines[1].endswith("covdp reproduce ew-octmnist --quick --dataset octmnist")
    assert found.lines[2] == "summary  0 run, 1 not run: no data"
    monkeypatch.setattr(runs, "run_experiments", lambda *_, **__: ((run,), out / "report.html"))
    monkeypatch.setattr(covdp.experiments.record, "outcome", lambda *_: found)
    assert main(["reproduce", "ew-octmnist"]) == 2
    said = capsys.readouterr()
    assert said.err == "covdp: no data at all for ew-octmnist; the commands above get them\n"
    assert "summary  0 run, 1 not run" in said.out
    for option in ("--json", "--quiet"):  # which print no commands
        assert main(["reproduce", "ew-octmnist", option]) == 2
        assert "above" not in capsys.readouterr().err
    assert main(["reproduce", "all"]) == 0
    capsys.readouterr()
    assert main(["reproduce", "all", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert (told["run"], told["done"]) == ("ew-octmnist-octmnist", False)
    assert told["command"] == command(run, out)
    other = config.model_copy(update={"dataset": "breastmnist"})
    runs = [run, replace(run, config=other)]
    write_record(runs[1].log, replace(read_record(run.log), status="ok"))
    both = outcome(runs, out / "report.html", None)
    assert both.without == ()
    assert both.lines[-1] == "summary  1 run, 1 not run: no data"


def test_a_step_without_data_has_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Done is a green tick; not run is a yellow circle."""
    from rich.console import Console

    from covdp import progress

    log = Console(file=io.StringIO(), record=True, color_system="standard", width=80)
    monkeypatch.setattr(progress, "console", lambda: log)
    progress.say(progress.Level.VERBOSE)
    try:
        with progress.step("one"):
            pass
        with progress.step("two") as step:
            step.skipped = "not run: no data"
    finally:
        progress.say(progress.Level.QUIET)
    told = log.export_text(styles=True)
    assert "\x1b[32m✓\x1b[0m one" in told
    assert "\x1b[33m○ two: not run: no data" in told
    assert told.count("✓") == 1


@pytest.mark.parametrize(
    ("name", "quick", "chains", "words"),
    [
        ("ew-octmnist", True, False, "ew-octmnist --quick --no-chains --dataset octmnist"),
        ("ew-octmnist", False, True, "ew-octmnist --dataset octmnist"),
        ("tg-medmnist", False, False, "tg-medmnist --no-chains --dataset pathmnist"),
        ("kng-spd", True, True, "kng-spd --quick"),
    ],
)
def test_the_command_of_a_run_has_its_options(
    name: str, quick: bool, chains: bool, words: str
) -> None:
    """What a page says to type makes the same config again, folders quoted for a shell."""
    config = load_experiments(name, quick=quick, chains=chains)[0]
    root = None if config.source else Path("/my data")
    told = command(Run(config, root, Path("/there")), Path("out"))
    assert told.startswith(f"covdp reproduce {words}")
    assert told.endswith("--out out")
    assert ("--data-root '/my data'" in told) == (root is not None)
    again = load_experiments(name, quick="--quick" in told, chains="--no-chains" not in told)[0]
    assert again == config


def test_each_series_has_its_own_promise() -> None:
    """Definition and δ of each series; nothing is certified for chains, labels or altered noise."""
    config = load_experiments("tg-medmnist")[0]
    words = guarantees(config, {"a": 100})
    assert words["RL exact, 2r/n"] == "0.9-DP, pure: δ = 0"
    assert words["TanG, δ = 1e-7, 2r/n"] == "(0.9, 10⁻⁷)-DP"
    assert words["RL chain, 2r/n"].startswith("approximate only: 50,000 steps")
    told = statement(config, {"a": 100})
    assert "0.9-DP, pure" in told["Guarantee"]
    alike = statement(load_experiments("ours-tests")[0], {"a": 100})["Guarantee"]
    assert alike.startswith("of one draw at the largest budget, for every series: 2-GDP")
    assert "“" not in alike
    assert "release never does" in told["Trust model"]
    most = max(success(ApproxDP(0.9, 1e-5)), success(PureDP(0.9)))
    assert f"at most {most} %" in told["In plain words"]
    mixed = statement(load_experiments("ew-simulation")[0], {"a": 100})
    assert success(PureDP(2.0)) > success(GDP(2.0))
    assert f"at most {success(PureDP(2.0))} %" in mixed["In plain words"]
    sphere = load_experiments("kng-sphere")[0]
    found = guarantees(sphere, {"a": 100})
    assert "2 times" in found["Manifold Laplace, 2Δ/ε"]
    assert found["Manifold Laplace, Δ/ε"] == "1-DP, pure: δ = 0"
    embedded = next(x for x in sphere.mechanisms if x.series == "Euclidean Laplace, 2Δ/ε")
    alone = embedded.model_copy(update={"scale": 1.0})
    assert "2r/n does not bound" in uncertified(sphere, alone)
    synthetic = load_experiments("tg-synthetic")[0]
    classical = next(x for x in synthetic.mechanisms if not x.analytic)
    assert not uncertified(synthetic, classical)
    wide = synthetic.model_copy(update={"budgets": (1.5,)})
    assert "proven for ε < 1" in uncertified(wide, classical)
    label = synthetic.model_copy(update={"definition": "rao"})
    assert "never certified" in uncertified(label, label.mechanisms[-1])


def test_composition_table_follows_the_rules(tmp_path: Path) -> None:
    """Totals are those of `repeat`: θ√m under Rao DP, mε under pure DP, and Laplace only there."""
    config = load_experiments("rao-composition")[0]
    rows = read_rows(run_experiment(Run(config, None, tmp_path)))
    laplace = rows["series"] == "Laplace"
    for m in (1, 10, 100):
        at = laplace & (rows["n"] == m)
        rao = rows["budget"][at & (rows["definition"] == "rao")]
        pure = rows["budget"][at & (rows["definition"] == "pure")]
        assert rao[0] == pytest.approx(repeat(RaoDP(0.1), m).theta, rel=1e-9)
        assert pure[0] == pytest.approx(repeat(PureDP(0.1), m).epsilon, rel=1e-9)
    assert set(rows["series"][rows["definition"] == "pure"]) == {"Laplace"}
    gaussian = rows["series"] == "Gaussian"
    both = [rows["budget"][gaussian & (rows["definition"] == name)] for name in ("gdp", "rao")]
    np.testing.assert_allclose(*both, rtol=1e-9)
    mean = gaussian & (rows["definition"] == "mcdp")
    one, ten = (rows["tau"][mean & (rows["n"] == m)][0] for m in (1, 10))
    assert ten == pytest.approx(np.sqrt(10) * one, rel=1e-9)
    run = load_run(
        tmp_path / "runs" / config.run_name, tmp_path / "results" / f"{config.run_name}.parquet"
    )
    lines = totals(run)
    assert lines is not None
    cells = next(line[2:] for line in lines["lines"] if "mcdp" in line[1])
    assert all(", τ = " in cell for cell in cells)
    assert run.record.units == "queries"


@pytest.mark.slow
def test_timing_rows_hold_seconds_and_the_paper_stands_beside(tmp_path: Path) -> None:
    """Each timed call is a row; the report's lines compare our seconds with the printed ones."""
    config = load_experiments("ew-timing", quick=True)[0]
    source = config.source.model_copy(update={"dimensions": (3,)})
    config = config.model_copy(update={"source": source})
    rows = read_rows(run_experiment(Run(config, None, tmp_path)))
    assert (rows["seconds"] > 0).all()
    assert set(rows["series"]) == {item.series for item in config.mechanisms}
    run = load_run(
        tmp_path / "runs" / config.run_name, tmp_path / "results" / f"{config.run_name}.parquet"
    )
    numbers = table_of("run", "published", run)
    assert numbers is not None
    assert numbers["heads"][1:3] == ["Paper", "Ours"]
    lines = {line[0]: line[1:] for line in numbers["lines"]}
    assert lines["seconds a draw, RL chain, d = 3"][0] == "1.05 s"
    assert lines["seconds a draw, RL chain, d = 6"][1] == "not run"
    assert run.record.machine["processor"]


@pytest.mark.slow
def test_statements_are_judged_by_the_rows(tmp_path: Path) -> None:
    """A statement and its opposite cannot both agree; a series that was not run is said so."""
    config = load_experiments("ew-simulation", chains=False)[0]
    claim = config.claims[0]
    opposite = claim.model_copy(update={"left": claim.right, "right": claim.left})
    absent = claim.model_copy(update={"left": "nobody"})
    config = config.model_copy(update={"budgets": (0.4, 0.5), "claims": (claim, opposite, absent)})
    run_experiment(Run(config, None, tmp_path))
    run = load_run(
        tmp_path / "runs" / config.run_name, tmp_path / "results" / f"{config.run_name}.parquet"
    )
    yes, no, none, how = claims(run)
    assert yes.text.startswith("Agrees:")
    assert claim.place in yes.text
    assert no.text.startswith("Does not agree:")
    assert no.warning
    assert none.text.startswith("Not checked:")
    assert none.open
    assert not none.warning
    assert "probability at most 0.1 %" in how.text
    headline = verdict(run)[0].text
    assert "1 of 2 agree" in headline


def test_real_images_run_under_a_published_experiment(shared: Path, tmp_path: Path) -> None:
    """ew-octmnist on breastmnist gives a row for every cell and the radius 31 beside ours."""
    config = load_experiments("ew-octmnist", dataset="breastmnist", quick=True, chains=False)[0]
    config = config.model_copy(update={"budgets": (0.5, 1.0)})
    rows = read_rows(run_experiment(Run(config, shared, tmp_path)))
    assert set(rows["status"]) == {"ok"}
    assert len(rows["seed"]) == 2 * 2 * 10 * len(config.mechanisms)


@pytest.mark.slow
def test_several_runs_leave_one_report(tmp_path: Path) -> None:
    """All experiments are run, and there is one page with a section for each."""
    few = [
        config.model_copy(update={"repetitions": 3})
        for config in load_experiments("rao-composition", "tg-burnin", "kng-shapes", chains=False)
    ]
    _, report = run_experiments(few, perform, root=None, out=tmp_path)
    page = report.read_text(encoding="utf-8")
    for config in few:
        assert f'id="{config.run_name}"' in page
        assert (tmp_path / "results" / f"{config.run_name}.parquet").is_file()
    outlines = json.loads((tmp_path / "runs" / few[2].run_name / "outlines.json").read_text())
    assert all(len(shapes) == 6 for name, shapes in outlines.items() if "Laplace" in name)
    assert "Total budget after m queries" in page


@pytest.mark.slow
def test_runs_stand_side_by_side_unless_they_read_a_clock(tmp_path: Path) -> None:
    """Two draw at a time, the longest first; one whose draws are timed draws alone, at last.

    They write what they write one after the other, and are returned in the order asked for.
    """
    few = [
        config.model_copy(update={"repetitions": 3})
        for config in load_experiments("ew-timing", "kng-shapes", "tg-burnin", chains=False)
    ]
    meet, drawing, seen = Barrier(2, timeout=PATIENCE), list[str](), list[tuple[str, int]]()

    def watched(run: Run, step: ExperimentStep) -> None:
        if step.name == "mechanisms":
            drawing.append(run.config.name)
            if run.config.kind != "timing":
                meet.wait()
            seen.append((run.config.name, len(drawing)))
            perform(run, step)
            if run.config.kind != "timing":
                meet.wait()
            drawing.remove(run.config.name)
        else:
            perform(run, step)

    with ThreadPoolExecutor(2) as pool:

        def side_by_side(work: Any, asked: list[Run]) -> Any:
            assert [run.config.name for run in asked] == ["tg-burnin", "kng-shapes"]
            return pool.map(work, asked)

        rest = {"root": None, "out": tmp_path, "report": lambda out: out}
        runs, _ = run_experiments(few, watched, **rest, side_by_side=side_by_side)
    assert sorted(seen) == [("ew-timing", 1), ("kng-shapes", 2), ("tg-burnin", 2)]
    assert [run.config for run in runs] == few
    for run in runs[1:]:
        again = read_rows(run_experiment(Run(run.config, None, tmp_path / "again")))["error"]
        np.testing.assert_array_equal(read_rows(run.table)["error"], again)


def test_of_several_one_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of its words, those in brackets too; the others go on, and the first is raised."""
    from covdp import runs
    from covdp.experiments import steps

    def fails(run: Run, *rest: object, **told: object) -> None:
        raise ConfigError("give slices = [fewest, most], no [/x]")

    monkeypatch.setattr(steps, "run_experiment", fails)
    few = load_experiments("rao-composition", "tg-burnin", chains=False)
    with pytest.raises(ConfigError, match="fewest"):
        runs.run_experiments(few, perform, root=None, out=tmp_path, report=lambda out: out)
    told = " ".join(capsys.readouterr().err.split())
    for config in few:
        assert f"{config.run_name}: give slices = [fewest, most], no [/x]" in told


def test_a_target_is_checked_too() -> None:
    """A misspelt key in a dataset's table is refused with its name."""
    from covdp.config import TargetConfig

    with pytest.raises(ConfigError, match="did you mean 'descriptor'"):
        parse(TargetConfig, {"name": "x", "descripter": "oct5"}, Path("file.toml"))
