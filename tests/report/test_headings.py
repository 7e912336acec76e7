"""Headings that state a finding: they say what the rows behind their chart say, and no more."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from covdp.descriptors import DESCRIPTORS, terms_of
from covdp.publish.readings import ClassReadings, Reading
from covdp.report import build_report, release_page
from covdp.report.page import Finding, Section, blocks_of, load_pages, table
from covdp.report.run_page import measured
from covdp.report.runs import load_runs
from covdp.results import Table, unique
from tests.sample_runs import OURS, PAPER, write_sample

END = re.compile(r"(?<!\bd\.f)[.?!](?=\s|$)")
"""End of a sentence, but not that of "d.f."."""
pytestmark = pytest.mark.usefixtures("pictures_once")


def test_no_paragraph_of_a_caption_is_a_wall() -> None:
    """At most five sentences; the words of a table are a list, each in one or two sentences."""
    for name, page in load_pages().items():
        for block in page["block"]:
            lengths = [len(END.findall(block.get("caption", "")))]
            lengths += [1 + len(END.findall(text)) for _, text, *_ in block.get("meanings", ())]
            assert max(lengths) <= 5, f"{name}: {block['name']}"


@pytest.mark.parametrize("steps", [["count"], ["mean 1", "shells 1"], ["mean", "shells", "count"]])
def test_words_that_a_table_lacks_are_not_explained(steps: list[str]) -> None:
    """A night's draws of noise are those in its table; a joint release has a ρ of its own."""
    document = SimpleNamespace(
        settings=SimpleNamespace(secret=len(steps) > 1, classes_per_person=None)
    )
    section = Section("a", "A", "", (), Finding(""), document)
    lines = [["normal", step] for step in steps]
    for page in ("night", "release"):
        declared = next(item for item in load_pages()[page]["block"] if item["name"] == "costs")
        content = {**declared, "content": lambda _: table(["Class", "Step"], lines, text=2)}
        (block,) = blocks_of(section, [content])
        said = [word for word, _ in block.meanings]
        if page == "night":
            assert said[:-3] == [step.split()[0].capitalize() for step in steps]
        assert said.count("Certified ρ") == 1
        assert page == "night" or said.count("Mean") == 1


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
    among = "all" if count == wins.total() else f"{count} of"
    return f"{name}: smallest mean error in {among} {wins.total()} cases"


def test_a_chart_of_errors_is_headed_by_the_series_that_is_best_most_often(out: Path) -> None:
    """The heading has the finding, and the table of contents what the chart is of."""
    (run,) = load_runs(out)
    assert run.rows is not None
    page = build_report(out).read_text(encoding="utf-8")
    name = "Error against budget"
    assert f'<h2><span class="where">{name}:</span> {best_of(run.rows)}</h2>' in page
    assert re.search(rf'href="#[^"]*-error"[^>]*>{name}<', page)


@pytest.mark.parametrize(
    ("errors", "heading"),
    [
        ({}, ""),  # all cells are shared by all
        ({(OURS, 0, 0): 0.5}, f"{OURS}: smallest mean error in 1 of 1 cases"),
        ({(OURS, 0, 0): 0.5, (PAPER, 1, 1): 0.5}, ""),  # two are the best as often
        (
            {(OURS, 0, 0): 0.5, (PAPER, 0, 0): 0.5, (PAPER, 1, 1): 0.5, (OURS, 1, 2): 2.0},
            f"{PAPER}: smallest mean error in 1 of 1 cases",
        ),
        (
            {(PAPER, 0, 0): 0.5, (PAPER, 0, 1): 0.5, (OURS, 1, 2): 0.5},
            f"{PAPER}: smallest mean error in 2 of 3 cases",
        ),
    ],
    ids=["shared", "one", "as often", "shared by two", "most"],
)
def test_a_best_is_named_where_it_is_one(
    out: Path, errors: dict[tuple[str, int, int], float], heading: str
) -> None:
    """All errors are 1 but those of some series, class and budget; no exact law is known."""
    (run,) = load_runs(out)
    assert run.rows is not None
    budgets = unique(run.rows["budget"])[1]
    cells = zip(run.rows["series"], run.rows["label"], budgets, strict=True)
    column = np.array([errors.get(cell, 1.0) for cell in cells])
    rows = {**run.rows, "error": column, "expected_error": np.full_like(column, np.nan)}
    figure = measured(replace(run, rows=rows), shown="budget")
    assert figure is not None
    assert figure.finding == heading


def test_cases_are_those_in_which_the_best_stands_beside_another(out: Path) -> None:
    """A series of one guarantee has half of the cells of a run with two: no more are counted."""
    (run,) = load_runs(out)
    assert run.rows is not None
    names = unique(run.rows["series"])[0]
    error = np.select([run.rows["series"] == name for name in names], [1.0, 2.0, 3.0, 4.0])
    kinds = dict(zip(names, ("gdp", "gdp", "zcdp", "zcdp"), strict=True))
    series = run.record.config["mechanisms"]
    config = {**run.record.config}
    config["mechanisms"] = [{**x, "definition": kinds[x["series"]]} for x in series]
    rows = {**run.rows, "error": error, "expected_error": np.full_like(error, np.nan)}
    rows["error"] = np.where((rows["series"] == names[2]) & (rows["label"] == 0), 9.0, error)
    figure = measured(
        replace(run, record=replace(run.record, config=config), rows=rows), shown="budget"
    )
    assert figure is not None
    assert figure.finding == f"{names[0]}: smallest mean error in all 6 cases"


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
    words = "[AB]: smallest mean error in (?:[3-5] of|all) 6 cases(?: with a rival)?"
    assert alone or re.fullmatch(words, figure.finding)


@pytest.mark.parametrize(
    ("least", "heading"), [(21.0, "Contrast: 30.0 in b, 10.0 in a"), (20.0, ""), (12.0, "")]
)
def test_means_are_headed_by_contrasts_whose_intervals_are_apart(
    monkeypatch: pytest.MonkeyPatch, least: float, heading: str
) -> None:
    """The interval of the smallest ends at 20: clipping counts, and a common end is no gap."""
    (contrast, *_) = terms_of(DESCRIPTORS["oct5"])
    ends = {"a": (10.0, 9.0, 11.0, 8.0, 20.0), "b": (30.0, 29.0, 31.0, least, 45.0)}
    rows = {
        name: ClassReadings(name, 9, readings=(Reading(contrast, *values),))
        for name, values in ends.items()
    }
    monkeypatch.setattr(release_page, "is_usable", lambda row: True)
    monkeypatch.setattr(
        release_page, "reader_of", lambda settings: SimpleNamespace(read=lambda row: rows[row])
    )
    document: Any = SimpleNamespace(settings=None, classes=["b", "a"])
    assert release_page._contrasts(document) == heading


def test_a_chart_of_the_bound_is_headed_by_its_fullest_class(out: Path) -> None:
    """The share is the largest of all classes."""
    (run,) = load_runs(out)
    assert run.bound is not None
    page = build_report(out).read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert f"The farthest image is at {100 * run.bound['ratio'].max():.1f} % of the bound" in page
