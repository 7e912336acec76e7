"""What a report calls true: at its stated rate, and never on means that are not those of their law.

Random tests are seeded; each states how often it would fail by chance.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sample_runs import write_sample
from scipy import stats

from covdp.addons.papers.blocks import printed_lines
from covdp.addons.papers.verdicts import (
    _together,
    claims,
    mean_errors,
    smaller,
    verdict,
    verdicts,
)
from covdp.config import ClaimConfig, PublishedConfig
from covdp.experiments import load_experiments
from covdp.figures import number
from covdp.report import FinishedRun, load_run
from covdp.report.findings import RATE, check_cells, findings
from covdp.results import Table, summarise

PLACE: dict[str, Any] = {"says": "a is better", "place": "Figure 1", "left": "a", "right": "b"}


def rows_of(cells: dict[tuple[str, int], np.ndarray], **columns: object) -> Table:
    """Return rows with the errors of each (series, label); other columns have one value."""
    keys = [key for key, errors in cells.items() for _ in errors]
    n = len(keys)
    fixed = {
        "definition": "pure", "budget": 1.0, "sampler": "exact", "mechanism": "rl", "dim": 3.0,
        "manifold": "spd-log-euclidean", "distance": "log-Euclidean", "footpoint": "origin",
        "status": "ok", "n": 100, "sigma": 1.0, "expected_error": np.nan,
    } | columns  # fmt: skip
    table = {
        name: np.full(n, value, dtype=object if isinstance(value, str) else None)
        for name, value in fixed.items()
    }
    table["series"] = np.array([series for series, _ in keys], dtype=object)
    table["label"] = np.array([label for _, label in keys])
    table["class_name"] = np.array([f"k = {label}" for _, label in keys], dtype=object)
    table["error"] = np.concatenate(list(cells.values()))
    table.setdefault("seed", np.repeat(np.arange(len(cells)), [*map(len, cells.values())]))
    return table


def run_of(tmp_path: Path, rows: Table, *stated: ClaimConfig, **config: object) -> FinishedRun:
    """Return a run with these rows and claims."""
    record = write_sample(tmp_path, images=False)
    run = load_run(tmp_path / "runs" / record.run, tmp_path / "results" / f"{record.run}.parquet")
    told = {"claims": [item.model_dump(mode="json") for item in stated], **config}
    return replace(run, rows=rows, bound=None, record=replace(record, config=told, baseline=""))


def half_mixed(rng: np.random.Generator, d: int = 465) -> np.ndarray:
    """Return ten errors of which five lie where their chains started."""
    return np.concatenate([np.full(5, 2.0), rng.gamma(d, size=5) / d * 25.5])


def test_means_of_the_right_law_are_rarely_refused() -> None:
    """Ten Laplace errors in each of 20 cells: false alarms as rare as stated (chance: 1e-4)."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(600):
        drawn = {("a", label): rng.gamma(3, size=10) for label in range(20)}
        table = summarise(rows_of(drawn, expected_error=3.0))
        alarms += bool(check_cells(table).off.any())
    assert alarms <= stats.poisson.ppf(1 - 1e-4, 600 * RATE)


def test_a_chain_that_has_not_mixed_is_found_whatever_its_spread() -> None:
    """Half of the chains near their start: no t-test sees it in ten errors, the law does."""
    rng = np.random.default_rng(2)
    errors = half_mixed(rng)
    assert stats.ttest_1samp(errors, 25.5).pvalue > 1e-5
    drawn = {("a", 0): errors, ("b", 0): rng.gamma(465, size=10) / 465 * 25.5}
    table = summarise(rows_of(drawn, expected_error=25.5, dim=465.0))
    assert check_cells(table).off.tolist() == [True, False]


def test_a_chain_without_a_known_law_is_held_against_exact_draws() -> None:
    """The exact draws of the same noise stand in for the law; without them nothing is known."""
    rng = np.random.default_rng(3)
    drawn = {("exact", 0): rng.gamma(15, size=100), ("chain", 0): rng.gamma(15, size=10) / 2}
    rows = rows_of(drawn, manifold="spd-affine-invariant", dim=15.0)
    rows["sampler"] = np.array(["exact"] * 100 + ["chain"] * 10, dtype=object)
    checked = check_cells(summarise(rows))
    assert checked.off.tolist() == [False, True]
    rows["sigma"][100:] = 2.0
    assert not check_cells(summarise(rows)).known.any()


@pytest.mark.parametrize("known", [True, False])
def test_equal_means_are_rarely_told_apart_and_different_ones_are(known: bool) -> None:
    """Means of ten skewed errors that are equal differ as rarely as stated (chance: 1e-4).

    A factor of 20 is seen in ten errors that a law bounds, as of chains, and in 40 without one.
    """
    rng, wrong, right = np.random.default_rng(4), 0, 0
    sampler = "chain" if known else "exact"
    for _ in range(600):
        drawn = {("a", 0): rng.gamma(3, size=10), ("b", 0): 2 * rng.gamma(3, size=10)}
        drawn[("c", 0)] = 20 * rng.gamma(3, size=10 if known else 40)
        rows = rows_of(drawn, sampler=sampler)
        if known:
            rows["expected_error"] = np.repeat([3.0, 6.0, 60.0], 10)
        table = summarise(rows)
        checked = check_cells(table)
        wrong += smaller(table, 0, 1, 2.0, 1, checked) != 0
        right += smaller(table, 0, 2, 1.0, 1, checked) == 1  # 20 times as large
        assert smaller(table, 2, 0, 1.0, 1, checked) <= 0
    assert wrong <= stats.poisson.ppf(1 - 1e-4, 600 * RATE)
    assert right > 590


@pytest.mark.parametrize("bounded", [True, False])
def test_a_mean_beside_an_exact_one_is_held_against_its_number(bounded: bool) -> None:
    """One side is exact: the other differs from it as rarely as stated where it does not.

    A factor of 4 is seen in 40 errors, whichever side is exact (chance of a false alarm: 1e-4).
    """
    rng, wrong, right = np.random.default_rng(5), 0, 0
    for _ in range(600):
        drawn = {("a", 0): rng.gamma(3, size=10), ("b", 0): 2 * rng.gamma(3, size=10)}
        drawn[("c", 0)] = 8 * rng.gamma(3, size=40)
        rows = rows_of(drawn)
        rows["expected_error"] = np.repeat([3.0, np.nan, np.nan], [10, 10, 40])
        if bounded:
            rows["expected_error"] = np.repeat([3.0, 6.0, 24.0], [10, 10, 40])
            rows["sampler"] = np.repeat(np.array(["exact", "chain", "chain"], object), [10, 10, 40])
        table = summarise(rows)
        checked = check_cells(table)
        assert np.isfinite(checked.exact).tolist() == [not checked.off[0], False, False]
        wrong += (smaller(table, 0, 1, 2.0, 1, checked) != 0) & bool(np.isfinite(checked.exact[0]))
        right += smaller(table, 0, 2, 2.0, 1, checked) == 1
        right += smaller(table, 2, 0, 0.5, 1, checked) == -1
    assert wrong <= stats.poisson.ppf(1 - 1e-4, 600 * RATE)
    assert right > 1180


def test_where_both_laws_are_known_the_laws_decide(tmp_path: Path) -> None:
    """Ten errors decide a difference of a tenth of a percent, and refute a statement of equals.

    Nothing is decided by a law that its own rows refute.
    """
    rng = np.random.default_rng(8)
    drawn = {(name, label): rng.gamma(3, size=10) for name in "ab" for label in (0, 1)}
    rows = rows_of(drawn)
    for other, word in ((3.003, "Agrees"), (3.0, "Does not agree"), (2.997, "Does not agree")):
        rows["expected_error"] = np.where(rows["series"] == "a", 3.0, other)
        (found,) = verdicts(run_of(tmp_path / f"{other}", rows, ClaimConfig(**PLACE)))
        assert found.word == word
        assert "By exact expectations: “b” has" in found.found
    rows["expected_error"] = np.where(rows["series"] == "a", 3.0, 300.0)
    (found,) = verdicts(run_of(tmp_path / "off", rows, ClaimConfig(**PLACE)))
    assert found.word == "Cannot be judged"
    table = summarise(rows)
    assert (np.isfinite(check_cells(table).exact) == (table["series"] == "a")).all()


def test_squared_errors_have_an_expectation_of_their_own(tmp_path: Path) -> None:
    """Of Laplace noise in 3 dimensions E ρ = 3 and E ρ² = 12; the bar of 5 parts both readings."""
    rng = np.random.default_rng(9)
    drawn = {("a", 0): rng.gamma(3, size=50), ("b", 0): 3 * rng.gamma(3, size=50)}
    rows = rows_of(drawn)
    rows["expected_error"] = np.repeat([3.0, 9.0], 50)
    rows["expected_square"] = np.repeat([12.0, 108.0], 50)
    readings = [{"name": "ρ²", "column": "squared"}, {"name": "ρ", "column": "error"}]
    claim = ClaimConfig(**PLACE, factor=5.0, readings=readings, why="one is the square")
    (found,) = verdicts(run_of(tmp_path, rows, claim))
    assert found.word == "Depends on reading"
    assert "With ρ²: agrees. True in 1 of 1 comparisons. By exact expectations" in found.found
    assert "“b” has 9 times the mean squared error of “a”" in found.found
    assert "With ρ: does not agree." in found.found
    assert "“b” has 3 times the error of “a”" in found.found
    assert found.why == "one is the square"
    assert found.finding.open
    for factor, word in ((2.0, "Agrees"), (20.0, "Does not agree")):
        claim = ClaimConfig(**PLACE, factor=factor, readings=readings)
        (found,) = verdicts(run_of(tmp_path / f"{factor}", rows, claim))
        assert found.word == word


@pytest.mark.parametrize(
    ("words", "together"),
    [
        (("Agrees", "Agrees"), "Agrees"),
        (("Agrees", "Agrees in part"), "Depends on reading"),
        (("Does not agree", "Agrees"), "Depends on reading"),
        (("Does not agree", "Agrees in part"), "Agrees in part"),
        (("Does not agree", "Does not agree"), "Does not agree"),
        (("Agrees", "Not decided"), "Not decided"),
        (("Not checked", "Does not agree"), "Not checked"),
    ],
)
def test_readings_are_put_together(words: tuple[str, ...], together: str) -> None:
    """A statement holds or fails only if it does so whatever is read into it."""
    assert _together(words) == together


def test_a_statement_without_a_number_gets_none_from_us(tmp_path: Path) -> None:
    """Two that a paper calls similar are neither refuted nor confirmed: how far apart is stated.

    Of two chains it is stated what they return, also where that is not their law.
    """
    rng = np.random.default_rng(10)
    drawn = {
        (name, label): (label + 1.0) * rng.gamma(3, size=10) for name in "ab" for label in (0, 1)
    }
    rows = rows_of(drawn, sampler="chain")
    rows["expected_error"] = np.where(rows["series"] == "a", 3.0, 300.0)
    claim = ClaimConfig(**PLACE, no_number=True)
    (found,) = verdicts(run_of(tmp_path, rows, claim))
    assert found.word == "No number given"
    assert "The paper gives no number. Measured: “b” has" in found.found
    assert "They differ most at k = " in found.found
    assert found.finding.stated
    assert not found.finding.warning
    assert not found.finding.open
    rows["sampler"][:] = "exact"
    (found,) = verdicts(run_of(tmp_path / "exact", rows, claim))
    assert found.word == "Cannot be judged"
    with pytest.raises(ValidationError, match="has no factor"):
        ClaimConfig(**PLACE, no_number=True, factor=2.0)


def test_a_trend_is_one_of_ratios(tmp_path: Path) -> None:
    """Errors of `a` over those of `b` grow from class to class, whatever either does alone."""
    rng = np.random.default_rng(11)
    ratios, scales = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 9.0, 1: 1.0, 2: 0.1}
    drawn = {("b", label): scale * rng.gamma(3, size=10) for label, scale in scales.items()}
    drawn |= {("a", x): ratios[x] * scales[x] * rng.gamma(45, size=200) / 15 for x in ratios}
    rows = rows_of(drawn, manifold="spd-affine-invariant")
    known = np.array([3.0 * scales[label] for label in rows["label"]])
    rows["expected_error"] = np.where(rows["series"] == "b", known, np.nan)
    for labels, word in (((0, 1, 2), "Agrees"), ((2, 1, 0), "Does not agree")):
        claim = ClaimConfig(**PLACE, trend=True, labels=labels)
        (found,) = verdicts(run_of(tmp_path / word, rows, claim))
        assert (found.word, "2 of 2" in found.found) == (word, word == "Agrees")
        if word != "Agrees":  # the ratios are shown, not the means
            both = r"ratio at k = 2, ε = 1: (\S+), at k = \d+, ε = 1: ([\d.]+\d)"
            (shown,) = re.findall(both, found.found)
            assert [float(x) for x in shown] == pytest.approx([4, 2], rel=0.05)
    rows["expected_error"][:] = np.nan
    (found,) = verdicts(run_of(tmp_path / "unknown", rows, ClaimConfig(**PLACE, trend=True)))
    assert found.word == "Not decided"


def test_only_equal_guarantees_are_compared(tmp_path: Path) -> None:
    """The headline compares with series of the same definition and δ as the published setting."""
    rng = np.random.default_rng(12)
    drawn = {
        (name, 0): factor * rng.gamma(3, size=20)
        for name, factor in zip("abc", (1, 0.1, 0.01), strict=True)
    }
    rows = rows_of(drawn)
    series = [{"series": name, "panel": ""} for name in "abc"]
    for other, best in (({"delta": 1e-9}, "b"), ({"definition": "gdp"}, "b"), ({}, "c")):
        config = {"mechanisms": [*series[:2], {**series[2], **other}], "delta": 1e-5}
        run = run_of(tmp_path / f"{other}", rows, **config, definition="approx")
        run = replace(run, record=replace(run.record, baseline="a"))
        headline = next(item.text for item in findings(run) if "published setting" in item.text)
        assert f"the error of “{best}” is" in headline


def test_cells_of_one_seed_are_compared_pair_by_pair() -> None:
    """Errors of one noise are told apart at a tenth of their spread, and equal ones rarely.

    With seeds of their own nothing is decided of the same numbers. The shorter of two cells is
    compared with the first of the longer. The chance of a false alarm is 1e-4.
    """
    rng, wrong, right = np.random.default_rng(6), 0, 0
    for _ in range(300):
        common = rng.gamma(3, size=60)
        own = rng.gamma(3, size=(2, 60)) / 20
        drawn = {("a", 0): common + own[0], ("b", 0): common + own[1]}
        drawn[("c", 0)] = 1.15 * drawn[("b", 0)][:50]
        table = mean_errors(rows_of(drawn, seed=7))
        wrong += smaller(table, 0, 1, 1.0, 1) != 0
        right += smaller(table, 0, 2, 1.0, 1) == 1
        assert smaller(mean_errors(rows_of(drawn)), 0, 2, 1.0, 1) == 0
    assert wrong <= stats.poisson.ppf(1 - 1e-4, 300 * RATE)
    assert right > 290


def test_what_lies_within_the_noise_counts_neither_way(tmp_path: Path) -> None:
    """A statement whose every ratio points its way, but within the noise, is not decided."""
    rng = np.random.default_rng(5)
    drawn = {(series, label): rng.gamma(3, size=10) for series in "ab" for label in range(4)}
    for label in range(4):
        drawn[("b", label)] *= 1.2 * drawn[("a", label)].mean() / drawn[("b", label)].mean()
    run = run_of(tmp_path, rows_of(drawn), ClaimConfig(**PLACE))
    (found,) = verdicts(run)
    assert found.word == "Not decided"
    assert "0 of 4 comparisons, 4 not decided" in found.found
    assert found.finding.open
    assert not found.finding.warning
    headline = verdict(run)[0]
    assert headline.text.startswith("Our rows decide none of our own claims. Not decided: 1")
    assert headline.open


def test_nothing_rests_on_a_chain_that_has_not_mixed(tmp_path: Path) -> None:
    """Wherever a side is not its law the statement cannot be judged, and the page says by how much.

    Two chains that are wrong alike are near each other; that earns nothing.
    """
    rng = np.random.default_rng(6)
    good = {(series, 5): rng.gamma(465, size=10) / 465 * 25.5 for series in "ab"}
    drawn = good | {(series, 30): half_mixed(rng) for series in "ab"}
    rows = rows_of(drawn, expected_error=25.5, dim=465.0, sampler="chain")
    claim = ClaimConfig(**PLACE, factor=0.5, ours="The factor is ours.")
    run = run_of(tmp_path, rows, claim)
    (found,) = verdicts(run)
    assert found.word == "Cannot be judged"
    assert "True in 1 of 1 comparisons; 1 more cannot be judged: “a” has not mixed" in found.found
    told = [item for item in findings(run) if item.warning]
    assert any("times too little noise. So in 1 cell (k = 30)" in item.text for item in told)
    alone = {name: column[rows["label"] == 30] for name, column in rows.items()}
    (found,) = verdicts(replace(run, rows=alone))
    assert found.word == "Cannot be judged"
    assert "No comparison" in found.found


@pytest.mark.parametrize(
    ("means", "factor", "word"),
    [
        ((1, 4), 1.0, "Agrees"),
        ((1, 4), 10.0, "Does not agree"),
        ((4, 1), 1.0, "Does not agree"),
    ],
)
def test_a_statement_is_held_against_its_own_bar(
    tmp_path: Path, means: tuple[float, float], factor: float, word: str
) -> None:
    """The bar is the paper's number, or one said to be ours; measured and asked for stand there."""
    rng = np.random.default_rng(7)
    drawn = {
        (name, 0): mean * rng.gamma(45, size=200) / 45
        for name, mean in zip("ab", means, strict=True)
    }
    rows = rows_of(drawn, dim=45.0)
    (found,) = verdicts(run_of(tmp_path, rows, ClaimConfig(**PLACE, factor=factor)))
    assert found.word == word
    assert " (Figure 1)." in found.found
    ratio = rows["error"][200:].mean() / rows["error"][:200].mean()
    assert f"has {number(ratio)} times the error" in found.found
    asked = {1.0: ""}.get(factor, f"asked for: more than {factor:g} times")
    assert asked in found.found


def test_times_are_decided_by_ranks_whatever_their_outliers(tmp_path: Path) -> None:
    """One call of a second among thirty of milliseconds hides nothing; equal times decide nothing.

    Bars of 2 and 50 on a ratio of 10 are decided for and against; chance of either failing: none.
    """
    rng = np.random.default_rng(9)
    fast, slow = 1e-3 * rng.uniform(1, 1.1, 30), 1e-2 * rng.uniform(1, 1.1, 30)
    fast[0] = slow[0] = 1.0
    drawn = {("a", 0): np.ones(30), ("b", 0): np.ones(30)}
    for seconds, factor, word in (
        (np.concatenate([fast, slow]), 2.0, "Agrees"),
        (np.concatenate([fast, slow]), 50.0, "Does not agree"),
        (np.concatenate([fast, fast[::-1]]), 1.0, "Not decided"),
    ):
        rows = rows_of(drawn) | {"seconds": seconds}
        claim = ClaimConfig(**PLACE, factor=factor, column="seconds")
        (found,) = verdicts(run_of(tmp_path / f"{factor}", rows, claim))
        assert found.word == word
        assert "times the median time of “a”" in found.found
        told = claims(run_of(tmp_path / f"{factor}", rows, claim))[-1].text
        assert "ranks of the times" in told
        assert "means" not in told


def test_a_bar_of_ours_must_say_so() -> None:
    """Every bar of an experiment is the paper's number, or stands beside a word of ours."""
    for config in load_experiments("all"):
        for claim in config.claims:
            assert claim.place
            assert claim.factor >= 1 or claim.column == "ratio" or claim.ours


def test_acceptance_and_class_sizes_stand_beside_the_printed_ones(tmp_path: Path) -> None:
    """Of a column the least and the largest value of a series are ours; the files print both."""
    rows = rows_of({(name, label): np.ones(3) for name in "ab" for label in (0, 1)})
    rows["n"] = np.where(rows["label"] == 0, 8004, 46276)
    rows["acceptance"] = np.where(rows["series"] == "a", 0.52 + 0.1 * rows["label"], 1.0)
    printed = [
        PublishedConfig(quantity=f"{column} {x}", value=1, column=column, statistic=x, series=of)
        for column, of in (("n", None), ("acceptance", "a"))
        for x in ("min", "max")
    ]
    published = [item.model_dump(mode="json") for item in printed]
    lines = printed_lines(run_of(tmp_path, rows, published=published))
    assert [line["ours"] for line in lines] == pytest.approx([8004, 46276, 0.52, 0.62])
    by_run = {config.run_name: config.published for config in load_experiments("tg-medmnist")}
    of_octmnist = {item.value for item in by_run["tg-medmnist-octmnist"]}
    assert of_octmnist == {8000, 46276, 0.5, 0.65}
    assert {item.value for item in by_run["tg-medmnist-pathmnist"]} == {0.5, 0.65}


def test_missing_data_is_no_judgement(tmp_path: Path) -> None:
    """A run without data has no statement, no warning, and one open sentence with the command."""
    rows = rows_of({("a", 0): np.full(1, np.nan), ("b", 0): np.full(1, np.nan)})
    run = run_of(tmp_path, rows, ClaimConfig(**PLACE))
    run = replace(run, record=replace(run.record, status="data not available"))
    assert not claims(run)
    (only,) = findings(run)
    assert only.open
    assert not only.warning
    assert only.text.startswith("Not run:")


def test_of_the_bound_nothing_is_random(tmp_path: Path) -> None:
    """A statement on the bound is judged without a word of tests."""
    run = run_of(tmp_path, rows_of({("a", 0): np.ones(1)}))
    stated = ClaimConfig(**PLACE, factor=0.8, column="ratio", ours="Ours.").model_dump(mode="json")
    bound = {"class_name": np.array(["c"], dtype=object), "ratio": np.array([0.5])}
    judged = claims(
        replace(run, record=replace(run.record, config={"claims": [stated]}), bound=bound)
    )
    assert len(judged) == 1


def test_a_reason_is_stated_where_a_statement_fails(tmp_path: Path) -> None:
    """The sentence of the TOML stands beside what does not agree, and nowhere else."""
    rows = rows_of({("a", 0): np.ones(20), ("b", 0): np.full(20, 4.0)})
    for factor, words in ((10.0, ["the laws have the ratio 4"]), (3.0, [])):
        claim = ClaimConfig(**PLACE, factor=factor, why="the laws have the ratio 4")
        (found,) = verdicts(run_of(tmp_path / f"{factor}", rows, claim))
        assert [found.why] == words or not (found.why or words)
        assert ("Why: the laws" in found.finding.text) == bool(words)
