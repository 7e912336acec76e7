"""The experiment on regions: its rows, and how what is claimed of them is judged."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import ndtr
from scipy.stats import chi2

from covdp.addons.papers.verdicts import judge, verdicts
from covdp.config import ClaimConfig
from covdp.errors import ConfigError
from covdp.experiments import EXPERIMENTS, Run, load_experiments, run_experiment
from covdp.report import load_runs, table_of
from covdp.results import Table, read_rows


def short(folder: Path) -> Path:
    """Write the experiment for one class, one number of records and two budgets."""
    text = EXPERIMENTS["ours-regions"].read_text(encoding="utf-8")
    head, rest = text.split("[[datasets]]", 1)
    series = rest.split("[[mechanisms]]")
    claims = text[text.index("[[claims]]") :]
    chosen = [one for one in series if 'n = 1000"' in one]
    assert len(chosen) == 2
    head = head.replace('"ours-regions"', '"short"').replace("[0.1, 0.5, 2.0]", "[0.005, 2.0]")
    tiles = '[[datasets]]\nname = "tiles"\nclasses = [2]\n\n'
    path = folder / "short.toml"
    path.write_text(
        head + tiles + "".join("[[mechanisms]]" + one for one in chosen) + claims, encoding="utf-8"
    )
    return path


def test_the_experiment_says_how_often_regions_are_right(tmp_path: Path) -> None:
    """Of 20 releases: none is offered at n·μ = 5, all are at 2000, and these hold the truth.

    A region that held it in exactly 95 % would fail for one seed in 10⁴. The report judges all.
    """
    (config,) = load_experiments(short(tmp_path), repetitions=20)
    rows = read_rows(run_experiment(Run(config, None, tmp_path / "out")))
    assert len(rows["n"]) == 2 * 2 * 20
    assert set(rows["n"]) == {1000}
    few = rows["budget"] < 1.0
    assert not rows["offered"][few].any()
    assert np.mean(rows["offered"][~few]) >= 0.9
    for series in set(rows["series"]):
        mine = (rows["series"] == series) & ~few & (rows["offered"] > 0)
        assert np.sum(rows["reach"][mine] <= 0.95) >= 12
        ratio = np.median(rows["region_radius"][mine]) / np.median(rows["error"][mine])
        assert 1.0 < ratio < 6.0
    (run,) = load_runs(tmp_path / "out")
    found = {verdict.says: verdict.word for verdict in verdicts(run)}
    assert found["no region is available"] == "Agrees"
    assert list(found.values()).count("Price") == 1
    assert "Not checked" not in found.values()


def test_secret_labels_are_measured_beside_public_ones(tmp_path: Path) -> None:
    """Of a class of no image to one of 120: counts lie near, and nothing is offered of few.

    Of 60 counts one lies more than 5 standard deviations off for one seed in 30,000.
    """
    text = EXPERIMENTS["ours-labels"].read_text(encoding="utf-8")
    head, rest = text.split("[[datasets]]", 1)
    series = rest.split("[[mechanisms]]")
    chosen = [one for one in series if '= 0"' in one[:40] or '= 120"' in one[:40]]
    assert len(chosen) == 3
    text = head.replace('"ours-labels"', '"short"').replace("[0.5, 2.0]", "[2.0]")
    text += '[[datasets]]\nname = "tiles"\nclasses = [2]\n\n'
    text += "".join("[[mechanisms]]" + one.split("[[claims]]")[0] for one in chosen)
    path = tmp_path / "short.toml"
    path.write_text(text + rest[rest.index("[[claims]]") :], encoding="utf-8")
    (config,) = load_experiments(path, repetitions=20)
    rows = read_rows(run_experiment(Run(config, None, tmp_path / "out")))
    secret = np.char.startswith(rows["series"].astype(str), "Secret")
    assert np.isnan(rows["p_value"][~secret]).all()
    assert (rows["p_value"][secret] > 2.0 * ndtr(-5.0)).all()
    assert rows["p_value"][secret & (rows["n"] == 120)].min() < 0.9
    assert not rows["offered"][rows["n"] == 0].any()
    assert rows["offered"][rows["n"] == 120].mean() > 0.9
    (run,) = load_runs(tmp_path / "out")
    words = {verdict.says: verdict.word for verdict in verdicts(run)}
    assert words["no region is available of a class of few images"] == "Agrees"
    for total, message in (("", "n = 0 needs total"), ("total = 100\n", "total is below n")):
        path.write_text(text.replace("total = 10000\n", total), encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            load_experiments(path)


def rows_of(reach: Any, **columns: Any) -> Table:
    """Return the rows of one cell at n·μ = 500."""
    size = len(reach)
    known = {
        "n": 1000,
        "budget": 0.5,
        "label": 0,
        "offered": 1.0,
        "error": 0.1,
        "region_radius": 0.2,
    }
    text = {"series": "Sample", "class_name": "well", "definition": "gdp"}
    return {
        "reach": np.asarray(reach),
        **{name: np.resize(value, size) for name, value in {**known, **columns}.items()},
        **{name: np.full(size, value, dtype=object) for name, value in text.items()},
    }


NONE = "This run has no cell to judge it by."


def claim(column: str, factor: float, **fields: Any) -> dict[str, Any]:
    """Return a claim."""
    known = {"says": "it is so", "place": "here", "column": column, "factor": factor}
    return ClaimConfig(**{**known, **fields}).model_dump()


@pytest.mark.parametrize(
    ("fields", "rows", "holds", "words"),
    [
        (("coverage", 0.95), rows_of([0.5] * 182 + [0.99] * 18), 0, "μ = 0.5: 91 % of 200"),
        (("coverage", 0.95), rows_of([0.5] * 188 + [0.99] * 12), 1, "in 1 of 1 cells"),
        (("coverage", 0.9), rows_of([0.5] * 168 + [0.99] * 32), 0, "well, Sample"),
        (("coverage", 0.95), rows_of([0.99] * 19), 0, NONE),
        (
            ("coverage", 0.95),
            rows_of([0.99] * 99, offered=0.0),
            0,
            NONE,
        ),
        (("held", 0.9), rows_of([0.94] * 90 + [0.96] * 10), 1, "90 % of 100"),
        (("held", 0.9), rows_of([0.94] * 83 + [0.96] * 17), 0, "83 % of 100"),
        (("alarms", 0.1), rows_of([0.5] * 100, p_value=[0.04] * 16 + [0.06] * 84), 1, "16 %"),
        (("alarms", 0.1), rows_of([0.5] * 100, p_value=[0.04] * 17 + [0.06] * 83), 0, "17 %"),
        (("radius", 2.2), rows_of([0.5] * 9), 1, "in 1 of 1"),
        (("radius", 1.9), rows_of([0.5] * 9), 0, "2 times"),
        (("price", 1.0), rows_of([0.5] * 9), 1, "Measured, cell by cell: 2 times"),
        (("offered", 0.95), rows_of([0.5] * 20), 1, "in 1 of 1"),
        (("offered", 0.95), rows_of([0.5] * 20, offered=0.0), 0, "μ = 0.5: 0 %"),
        (("offered", 0.0), rows_of([0.5] * 20, offered=0.0), 1, "in 1 of 1"),
        (("offered", 0.0), rows_of([0.5] * 20), 0, "μ = 0.5: 100 %"),
    ],
)
def test_claims_on_regions_are_judged(
    fields: tuple[str, float], rows: Table, holds: int, words: str
) -> None:
    """A coverage as rare as two standard errors counts, what is not offered says nothing."""
    found, _, text = judge(claim(*fields), rows)
    assert found == holds
    assert words in text


def coverage_of(rows: Table) -> Any:
    """Return the lines of the table of coverage."""
    shown = table_of("run", "coverage", SimpleNamespace(rows=rows))
    assert shown is not None
    return shown["lines"]


def test_the_table_counts_regions_that_are_offered() -> None:
    """Shares are of what is offered, with how many that is; radius and error are medians of it."""
    reach = [0.5] * 6 + [0.92] * 2 + [0.99] * 2 + [0.5] * 10
    rows = rows_of(reach) | {"offered": np.repeat([1.0, 0.0], 10)}
    rows["region_radius"] = np.where(rows["offered"] > 0, 0.2, 9.0)
    (line,) = coverage_of(rows)
    assert line[:5] == ["well", "Sample", "0.5", "500", "50 % (10 of 20)"]
    assert line[5:] == ["80 % (8 of 10)", "60 % (6 of 10)", "0.2", "0.1", "2"]
    (none,) = coverage_of(rows_of(reach, offered=0.0))
    assert none[4:] == ["0 % (0 of 20)", *["–"] * 5]


def test_claims_are_of_some_sizes() -> None:
    """`least` and `most` bound n·budget; only a share that is offered may be 0."""
    rows = rows_of([0.5] * 30)
    assert judge(claim("radius", 2.2, least=501.0), rows)[2].endswith(NONE)
    assert judge(claim("radius", 2.2, most=499.0), rows)[2].endswith(NONE)
    with pytest.raises(ValidationError, match="above 0, but for the column `offered`"):
        claim("coverage", 0.0)


def test_reach_is_a_level() -> None:
    """A region of level q holds what lies where its chi square is q: 92 % where 95 % should."""
    rng = np.random.default_rng(0)
    lengths = chi2.rvs(15, size=4000, random_state=rng)
    reach = chi2.cdf(lengths, 15)
    assert judge(claim("coverage", 0.95), rows_of(reach))[0] == 1
    assert judge(claim("coverage", 0.95), rows_of(chi2.cdf(1.15 * lengths, 15)))[0] == 0
