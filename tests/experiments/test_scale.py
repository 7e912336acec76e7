"""Scale: rows are what a process measured of itself, and the bound on its memory can fail."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.config import ExperimentConfig
from pipeline.datasets import open_dataset
from pipeline.errors import CovdpError, OutputError
from pipeline.experiments import EXPERIMENTS, Run, load_experiments, run_experiment
from pipeline.experiments.kinds.scale import FORMS
from pipeline.experiments.registry import check
from pipeline.report import FinishedRun, build_report, load_run, table_of, verdicts
from pipeline.report.templates import templates
from pipeline.results import read_rows


def tiny(folder: Path, *changes: tuple[str, str]) -> ExperimentConfig:
    """Return the experiment with one small set and one worker, and with other `changes`."""
    text = EXPERIMENTS["ours-scale"].read_text(encoding="utf-8")
    cuts = (
        ("n = [10_000, 100_000, 1_000_000]\nworkers = [1, 2]", "n = [40]\nworkers = [1]"),
        ('[[scale]]\nform = "JPEG"\nside = 224\nn = [100, 1_000, 10_000]\nworkers = [1, 2]\n', ""),
        ("repetitions = 3", "repetitions = 2"),
    )
    for old, new in (*cuts, *changes):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = folder / "tiny.toml"
    path.write_text(text, encoding="utf-8")
    return load_experiments(path)[0]


def finished(run: Run) -> FinishedRun:
    """Return what a run left on disk."""
    return load_run(run.folder, run.table)


def test_rows_are_what_was_measured_and_the_bound_can_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass takes time and more memory than NumPy alone; a bound below that is not held.

    What is on disk is not measured again and its record stays, and the page states images a second
    of the median.
    """
    run = Run(tiny(tmp_path), None, tmp_path / "out")
    rows = read_rows(run_experiment(run))
    assert rows["n"].tolist() == [40, 40]
    assert rows["repetition"].tolist() == [0, 1]
    assert set(rows["series"]) == {"1 worker"}
    assert (rows["seconds"] > 0).all()
    assert (np.diff(rows["memory"]) >= 0).all()
    assert (rows["memory"] > 20).all()  # MB; NumPy and the kernels' compiler have more
    record = run.log.read_bytes()
    np.testing.assert_array_equal(read_rows(run_experiment(run))["seconds"], rows["seconds"])
    assert run.log.read_bytes() == record
    found = finished(run)
    assert [item.word for item in verdicts(found)] == ["Agrees"]
    lines = table_of("run", "passes", found)
    assert lines is not None
    (line,) = (dict(zip(lines["heads"], line, strict=True)) for line in lines["lines"])
    assert line["Images/s"] == f"{40 / np.median(rows['seconds']):,.0f}"
    monkeypatch.setitem(templates().globals, "library", lambda: "")  # 1.5 s, for charts alone
    page = build_report(run.out).read_text(encoding="utf-8")
    assert f">{line['Images/s']}<" in page
    assert "descriptor oct5;" in page  # in the caption, and no manifold, as there is none
    low = float(rows["memory"].max()) - 0.01
    broken = Run(tiny(tmp_path, ("factor = 500", f"factor = {low}")), None, tmp_path / "out")
    claims = json.loads(broken.config.model_dump_json())["claims"]
    found.record.config["claims"][:] = claims
    assert [item.word for item in verdicts(replace(found))] == ["Does not agree"]


@pytest.mark.parametrize("form", FORMS)
def test_sets_have_what_they_say(tmp_path: Path, form: str) -> None:
    """A set has n gray images of its side, which differ, and the same ones for the same seed."""
    seen = []
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        card = FORMS[form](tmp_path / part, 7, 12, rng=np.random.default_rng(3))
        source = open_dataset(card, card.parent)
        seen.append(np.concatenate(list(source.chunks())))
    assert seen[0].shape == (7, 12, 12)
    assert len(np.unique(seen[0].reshape(7, -1), axis=0)) == 7
    np.testing.assert_array_equal(*seen)


def test_a_pass_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that cannot describe is said in one line, and no table is left behind."""
    monkeypatch.setitem(FORMS, "npz", lambda root, n, side, *, rng: root / "absent.toml")
    run = Run(tiny(tmp_path), None, tmp_path / "out")
    with pytest.raises(OutputError, match="a pass over 40 images of 28 × 28, npz failed") as caught:
        run_experiment(run)
    assert "\n" not in str(caught.value)
    assert not run.table.exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('form = "npz"', 'form = "npy"', "unknown form 'npy'; did you mean 'npz'"),
        ("seed = ", 'descriptor = "grid11"\nseed = ', "grid11"),
        ("workers = [1]", "workers = [1, 1]", "must make cells that differ"),
        ('kind = "scale"\n', "", "what kind scale is, found 'error'"),
        ("seed = ", "budgets = [1.0]\nseed = ", "needs budgets and mechanisms; scale takes none"),
    ],
)
def test_a_grid_that_means_nothing_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    """A form, a descriptor or a key that means nothing is refused before anything is written."""
    with pytest.raises(CovdpError, match=words):
        check(tiny(tmp_path, (old, new)))
