"""The sentences of a report follow from its rows, and change when the rows do."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sample_runs import OURS, PAPER, SERIES, Bound, write_sample

from covdp.report import FinishedRun, load_run, load_runs
from covdp.report.findings import findings
from covdp.results import Table, read_bound, read_rows, write_bound, write_rows


def run_of(out: Path, change: Callable[[Table], Table] = lambda rows: rows) -> FinishedRun:
    """Write a sample, change its rows, and load it."""
    record = write_sample(out, images=False)
    path = out / "results" / f"{record.run}.parquet"
    write_rows(path, change(read_rows(path)), metadata={})
    return load_run(out / "runs" / record.run, path)


def test_headline_compares_at_the_same_budget(tmp_path: Path) -> None:
    """The first sentence names the best series and its gain over the published setting."""
    halve = {PAPER: 1.0, OURS: 0.25, SERIES[2]: 3.0, SERIES[3]: 2.0}

    def change(rows: Table) -> Table:
        factor = np.array([halve[series] for series in rows["series"]])
        error = factor / rows["budget"] * (1 + rows["label"])
        return {**rows, "error": error, "expected_error": np.full_like(error, np.nan)}

    headline = findings(run_of(tmp_path / "better", change))[0].text
    assert f"the error of “{OURS}” is 4 times smaller" in headline
    assert f"“{PAPER}” (geometric mean over 10 pairs" in headline
    halve[OURS] = 0.9
    assert f"“{OURS}” is 10 % smaller" in findings(run_of(tmp_path / "some", change))[0].text
    halve[OURS] = 1.5
    headline = findings(run_of(tmp_path / "worse", change))[0].text
    assert "no series has a smaller error" in headline
    assert f"“{OURS}”, has 1.5 times its error" in headline


@pytest.mark.parametrize("gain", [2.0, 1.0])
def test_a_noisy_series_hides_no_decided_one(tmp_path: Path, gain: float) -> None:
    """The best in the headline is one that is decided, however lucky a noisy one is.

    Where none is decided to be better, the others may well be worse: it is not said that no series
    differs. Nothing is random: the noisy series has the least mean by construction.
    """
    fixed = {PAPER: 1.0, OURS: 1 / gain, SERIES[2]: 3.0, SERIES[3]: 2.0}

    def change(rows: Table) -> Table:
        factor = np.array([fixed[series] for series in rows["series"]])
        most = rows["repetition"].max()
        noisy = np.where(rows["repetition"] == most, 0.4 * (most + 1), 1e-9)  # mean 0.4
        error = np.where(rows["series"] == SERIES[2], noisy, factor)
        return {**rows, "error": error, "expected_error": np.full_like(error, np.nan)}

    headline = findings(run_of(tmp_path, change))[0].text
    if gain > 1:
        assert f"the error of “{OURS}” is 2 times smaller" in headline
    else:
        assert "no series has a smaller error" in headline
        assert "by more than chance" in headline
        assert "differs" not in headline


def test_a_range_over_two_definitions_names_both(tmp_path: Path) -> None:
    """A range of errors over series in ε and in μ does not call all of their budgets μ."""
    run = run_of(tmp_path)
    mixed = np.where(run.rows["series"] == OURS, "pure", "gdp").astype(object)
    record = replace(run.record, baseline="absent")
    text = findings(replace(run, rows={**run.rows, "definition": mixed}, record=record))[0].text
    assert " at μ or ε = 0.1, " in text


def test_headline_without_a_published_setting(tmp_path: Path) -> None:
    """With one series, or no baseline among them, the first sentence gives the range of errors."""
    run = run_of(tmp_path)
    alone = {name: column[run.rows["series"] == OURS] for name, column in run.rows.items()}
    for rows, baseline in ((alone, PAPER), (run.rows, "absent")):
        record = replace(run.record, baseline=baseline)
        text = findings(replace(run, rows=rows, record=record))[0].text
        assert re.fullmatch(r"Mean distance to the true mean: .* at μ = 0.1, .* at μ = 2\.", text)


@pytest.mark.parametrize(("factor", "warning"), [(1.0, False), (1.25, True)])
def test_theory_is_checked(tmp_path: Path, factor: float, warning: bool) -> None:
    """Errors 25 % too large raise a warning; right ones do not (false alarms: 1e-6, one seed)."""
    run = run_of(tmp_path, lambda rows: {**rows, "error": factor * rows["error"]})
    (finding,) = [x for x in findings(run) if "exact expectation" in x.text]
    assert finding.warning == warning
    assert ("disagree" in finding.text) == warning


def test_broken_bound_is_a_warning(tmp_path: Path) -> None:
    """A descriptor outside the bound is said first in so many words; inside, how far it reaches."""
    record = write_sample(tmp_path, images=False)
    path = tmp_path / "runs" / record.run / "bound.parquet"
    assert findings(load_runs(tmp_path)[0])[-1].text.endswith("the farthest is at 92.7 % of it.")
    table = read_bound(path)
    table["ok"] = np.array([True, False])
    lines = zip(*table.values(), strict=True)
    write_bound(path, [Bound(*line) for line in lines])
    finding = findings(load_runs(tmp_path)[0])[-1]
    assert finding.warning
    assert "broken in pneumonia" in finding.text
