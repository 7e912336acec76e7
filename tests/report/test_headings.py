"""Headings that state a finding: they say what the rows behind their chart say, and no more."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from covdp.report import build_report
from covdp.report.run_page import measured
from covdp.report.runs import load_runs
from covdp.results import Table, unique
from tests.sample_runs import OURS, PAPER, write_sample

pytestmark = pytest.mark.usefixtures("pictures_once")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of one run."""
    folder = tmp_path_factory.mktemp("headings")
    write_sample(folder, budgets=3, images=False)
    return folder


def best_of(rows: Table) -> str:
    """Return the best series of most cells, by plain loops."""
    wins = Counter[str]()
    for label in set(rows["label"]):
        for budget in set(rows["budget"]):
            means = {}
            for series in unique(rows["series"])[0]:
                cell = rows["series"] == series
                cell &= (rows["label"] == label) & (rows["budget"] == budget)
                means[series] = rows["error"][cell].mean()
            wins[min(means, key=means.__getitem__)] += 1
    (name, count), *_ = wins.most_common()
    return f"{name}: smallest mean error in {count} of {wins.total()} cases"


def test_a_chart_of_errors_is_headed_by_the_series_that_is_best_most_often(out: Path) -> None:
    """The heading has the finding, and the table of contents what the chart is of."""
    (run,) = load_runs(out)
    assert run.rows is not None
    page = build_report(out).read_text(encoding="utf-8")
    assert f"<h2>{best_of(run.rows)}</h2>" in page
    assert re.search(r'href="#[^"]*-error"[^>]*>Error against budget<', page)


def test_an_error_that_disagrees_with_its_law_is_nobody_s(out: Path) -> None:
    """A tenth of the error that the law has would be the best everywhere."""
    (run,) = load_runs(out)
    assert run.rows is not None
    small = np.where(run.rows["series"] == PAPER, 0.01, 1.0)
    broken = replace(run, rows={**run.rows, "error": run.rows["error"] * small})
    assert best_of(broken.rows or {}).startswith(f"{PAPER}: ")
    figure = measured(broken, shown="budget")
    assert figure is not None
    assert figure.finding.startswith(f"{OURS}: ") or not figure.finding.startswith(PAPER)


@pytest.mark.parametrize("alone", [True, False])
def test_sizes_in_names_are_compared_each_with_its_own(out: Path, alone: bool) -> None:
    """Series of one method in several sizes have no finding, as nothing stands beside another."""
    (run,) = load_runs(out)
    assert run.rows is not None
    names = unique(run.rows["series"])[0]
    told = ["A, n = 10", "A, n = 20", "A, n = 30" if alone else "B, n = 10", "A, n = 40"]
    new = dict(zip(names, told, strict=True))
    series = np.array([new[name] for name in run.rows["series"]], dtype=object)
    config = {
        **run.record.config,
        "mechanisms": [
            {**item, "series": new[item["series"]]} for item in run.record.config["mechanisms"]
        ],
    }
    record = replace(run.record, config=config)
    figure = measured(
        replace(run, record=record, rows={**run.rows, "series": series}), shown="budget"
    )
    assert figure is not None
    assert (figure.finding == "") == alone
    assert alone or re.fullmatch("[AB]: smallest mean error in [3-6] of 6 cases", figure.finding)


def test_a_chart_of_the_bound_is_headed_by_its_fullest_class(out: Path) -> None:
    """The share is the largest of all classes."""
    (run,) = load_runs(out)
    assert run.bound is not None
    page = build_report(out).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert f"The farthest image is at {100 * run.bound['ratio'].max():.1f} % of the bound" in page
