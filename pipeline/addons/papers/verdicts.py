"""Verdicts on the statements of papers and on our own claims, judged by the rows of a run.

They are judged series by series or cell by cell; only what the rows decide counts, for a statement
or against it.

**Two means.** What was drawn exactly, and agrees with its law (`covdp.report.findings`), has the
mean of that law: where both sides have one, the laws decide, and no repetition changes it; where
one has, the other is held against its number. Where both are only bounded by such a law, as chains
are, their ratio is held against F(2n·d, 2n'·d'), elsewhere it is Welch's t-test on the difference.
Cells of one seed had the same noise, repetition by repetition: there it is a t-test on the
differences, in which what both have in common cancels. Times have outliers without bound: their
medians are shown, and ranks decide, by the exact test of Mann and Whitney. What is within the noise
is not decided.

**Rates.** `RATE` bounds the probability of a wrong decision over all comparisons of a statement, by
Bonferroni; t-tests are made at `NOMINAL`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.figures import definition_words, letter, listing, number, words
from covdp.report.findings import (
    EQUAL,
    NOMINAL,
    RATE,
    STATED,
    Claim,
    LawChecks,
    check_cells,
    disagreement,
    is_meant,
    place,
    rows_of,
)
from covdp.report.page import Finding
from covdp.report.runs import FinishedRun
from covdp.report.templates import say
from covdp.results import Table, cells_of, summarise
from covdp.results.tables import GROUP


def mean_errors(rows: Table) -> Table:
    """Return the summary of errors, with the seed and all errors of each cell.

    Parameters
    ----------
    rows : Table
        Rows of the run.
    """
    errors = _values(rows, "error")
    seeds = [int(rows["seed"][cell[0]]) for cell in cells_of(rows)]
    return {**summarise(rows), "errors": errors, "seed": np.array(seeds)}


def mean_squares(rows: Table) -> Table:
    """Return the summary of squared errors, with all of each cell.

    Parameters
    ----------
    rows : Table
        Rows of the run.
    """
    squared = {**rows, "error": np.asarray(rows["error"], dtype=np.float64) ** 2}
    return {**mean_errors(squared), "expected_error": summarise(rows)["expected_square"]}


def median_times(rows: Table) -> Table:
    """Return the summary of seconds with medians for means, and all of each cell in `samples`.

    Parameters
    ----------
    rows : Table
        Rows of the run.
    """
    samples = _values(rows, "seconds")
    samples[:] = [values[np.isfinite(values)] for values in samples]
    medians = [np.median(values) if len(values) else np.nan for values in samples]
    return {**summarise(rows, value="seconds"), "mean": np.array(medians), "samples": samples}


def _values(rows: Table, name: str) -> NDArray[np.object_]:
    """Return the values of a column in each cell of a summary, in the order of the rows."""
    cells = [np.array(rows[name][cell]) for cell in cells_of(rows)]
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    return values


def smaller(
    table: Table, a: int, b: int, factor: float, tests: int, checked: LawChecks | None = None
) -> int:
    """Decide if `factor` times the mean of row `a` is below the mean of row `b`.

    Parameters
    ----------
    table : Table
        Summary of the rows, cell by cell.
    a : int
        Row of the first mean.
    b : int
        Row of the second mean.
    factor : float
        Factor of the first mean.
    tests : int
        Number of comparisons that share the rate.
    checked : LawChecks, optional
        Comparison of the cells of `table` with their laws; None for a column that has no law.

    Returns
    -------
    int
        1 if it is below, −1 if it is above, 0 where neither is decided.
    """
    from scipy import special, stats

    gap = float(table["mean"][b] - factor * table["mean"][a])
    known = np.full(2, np.nan) if checked is None else checked.exact[[a, b]] * [factor, 1.0]
    if np.isfinite(known).all():
        return 1 if known[1] - known[0] > EQUAL * known[1] else -1
    if checked is not None and np.isfinite(known).any():
        return _one_sample(table, checked, (a, b), known, factor, tests)
    if "samples" in table:
        both = factor * table["samples"][a], table["samples"][b]
        p = float(stats.mannwhitneyu(*both, method="exact").pvalue)
        return int(np.sign(gap)) if p < RATE / tests else 0
    if checked is not None and np.isfinite(checked.shape[[a, b]]).all():
        ratio = factor * float(table["mean"][a] / table["mean"][b])
        forms = 2 * checked.shape[[a, b]]
        tail = special.fdtr(*forms, ratio), special.fdtrc(*forms, ratio)
        return int(np.sign(gap)) if min(tail) < RATE / (2 * tests) else 0
    if "errors" in table and table["seed"][a] == table["seed"][b]:
        pairs = zip(table["errors"][a], table["errors"][b], strict=False)  # the first of the longer
        gaps = np.array([other - factor * first for first, other in pairs])
        gaps = gaps[np.isfinite(gaps)]
        gap, se = float(np.mean(gaps)), float(stats.sem(gaps))
        limit = -special.stdtrit(len(gaps) - 1, NOMINAL / (2 * tests))
        return int(np.sign(gap)) if abs(gap) > limit * se else 0
    first, other = ([table[name][row] for name in ("mean", "sd", "count")] for row in (a, b))
    scaled = factor * first[0], factor * first[1], first[2]
    p = stats.ttest_ind_from_stats(*other, *scaled, equal_var=False).pvalue
    return int(np.sign(gap)) if p < NOMINAL / tests else 0


def _one_sample(
    table: Table,
    checked: LawChecks,
    rows: tuple[int, int],
    known: NDArray[np.float64],
    factor: float,
    tests: int,
) -> int:
    """Decide as `smaller` where one of both means is `known` exactly, `factor` included."""
    from scipy import special

    other = int(np.isfinite(known[0]))  # the place of the one that was measured
    scale, law = (factor, 1.0)[other], float(known[1 - other])
    mean, row = scale * float(table["mean"][rows[other]]), rows[other]
    sign = int(np.sign(law - mean)) * (1 - 2 * other)
    shape, count = float(checked.shape[row]), float(table["count"][row])
    if np.isfinite(shape):
        tail = min(
            special.gammainc(shape, shape * mean / law),
            special.gammaincc(shape, shape * mean / law),
        )
        return sign if tail < RATE / (2 * tests) else 0
    spread = scale * float(table["se"][row])
    limit = -special.stdtrit(count - 1, NOMINAL / (2 * tests)) if count > 1 else np.inf
    return sign if abs(law - mean) > limit * spread else 0


def best_means(table: Table, checked: LawChecks | None) -> NDArray[np.float64]:
    """Return the exact expectation where it decides, else the mean of the rows, (cells,).

    Parameters
    ----------
    table : Table
        Summary of the rows, cell by cell.
    checked : LawChecks or None
        Comparison of the cells with their laws; None for a column that has none.
    """
    mean = np.asarray(table["mean"], dtype=np.float64)
    return mean if checked is None else np.where(np.isfinite(checked.exact), checked.exact, mean)


AGREES, IN_PART, AGAINST = "Agrees", "Agrees in part", "Does not agree"
RATIO = "Another ratio"
"""Verdict where the ratio differs because our baseline is faster than the paper's."""
OPEN, VOID, UNRUN = "Not decided", "Cannot be judged", "Not checked"
DEPENDS = "Depends on reading"
"""True under one reading of what the paper leaves open, and not under another."""
NO_NUMBER = "No number given"
"""The paper calls two things similar, with no number that decides; the difference is shown."""
NO_VERDICT = "No verdict"
"""Nothing but the statement itself could judge it."""
PRICE = "Price"
"""Verdict on a number that is measured and shown, and promised by nobody."""
NO_DATA = "Data not at hand"
PLACE = re.compile(r"^[;. ]*\((?:[^()]|\([^()]*\))*\)[;. ]*")
"""Place of a statement in a paper, with which a verdict begins: a figure may have a part (b)."""
EXPLAINED = (IN_PART, AGAINST, VOID, DEPENDS)
"""Verdicts of which the headline names the statement."""
LEFT = {OPEN: "differences within the noise", UNRUN: "series that were not run"}
"""Reasons of the headline for a statement that is left open."""
FEWEST_REGIONS = 20
"""Regions of a cell that say something of its coverage."""
RARE_SHARE = 0.0228
"""Probability of a coverage that counts against its level: as two standard errors below it."""
POWER_LEVEL = 0.05
"""Level of the tests whose power is claimed."""
CONFIDENCE = 0.95
"""Confidence of the regions that hold a mean."""


class ClaimVerdict(NamedTuple):
    """Verdict on one statement of a paper.

    Attributes
    ----------
    word : str
        Verdict, in a word or two.
    says : str
        Statement.
    found : str
        Numbers that were found, in words.
    why : str
        Reason, if one is known.
    """

    word: str
    says: str
    found: str
    why: str = ""

    @property
    def finding(self) -> Finding:
        """The sentence of the report."""
        why = f" Why: {self.why}." if self.why else ""
        text = f"{self.word}: “{self.says}”{self.found}{why}"
        left = self.word in (OPEN, VOID, UNRUN, DEPENDS)
        stated = self.word in (RATIO, NO_NUMBER, NO_VERDICT, PRICE)
        return Finding(text, self.word in (IN_PART, AGAINST), left, stated)

    @property
    def reason(self) -> str:
        """Reason why the statement is not held: the one that is known, else what was found.

        What is left open needs none: the word says it.
        """
        if self.word in (AGREES, OPEN, UNRUN, NO_DATA):
            return ""
        text = self.why or PLACE.sub("", self.found).rstrip(".")
        return f"{text[:1].upper()}{text[1:]}."


def claims(run: FinishedRun) -> list[Finding]:
    """Return one sentence for each statement of the paper, and how they were judged.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    """
    sentences = [verdict.finding for verdict in verdicts(run)]
    how = (how_judged(name) for name in columns_of(run) if sentences)
    return [*sentences, *(Finding(text, stated=True) for text in how if text)]


def columns_of(run: FinishedRun) -> list[str]:
    """Return the columns that statements of a run are on, whichever way they are read.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    """
    stated = run.record.config.get("claims", ())
    every = [read for claim in stated for read in (claim, *claim.get("readings", ()))]
    return list(dict.fromkeys(read["column"] for read in every if read["column"]))


def how_judged(column: str) -> str:
    """Return the rule of verdicts on a column; "" of one in which nothing is random.

    Parameters
    ----------
    column : str
        Column of the rows.
    """
    return words()["judged"].get(column, "").format(stated=STATED)


def verdict(run: FinishedRun) -> list[Finding]:
    """Return the headline of an experiment: the number of statements that hold, and reasons.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    """
    judged = verdicts(run)
    if not judged:
        return []
    config, each = run.record.config, [item.word for item in judged]
    text = say(
        "headline",
        explained=[item for item in judged if item.why or item.word in EXPLAINED],
        decided=[word for word in each if word in (AGREES, IN_PART, AGAINST)],
        left=[(word, each.count(word), why) for word, why in LEFT.items() if word in each],
        ratio=RATIO in each,
        own=not config.get("paper"),
        beyond=config.get("beyond"),
    )
    return [Finding(text.strip(), open=all(item.finding.open for item in judged))]


@lru_cache
def verdicts(run: FinishedRun) -> list[ClaimVerdict]:
    """Judge every statement of the paper by the rows of a run.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.

    Returns
    -------
    list of ClaimVerdict
        Verdicts; none where there was no data.
    """
    stated = run.record.config.get("claims", ())
    if run.rows is None or run.record.status != "ok":
        return []
    summaries = {"error": mean_errors, "squared": mean_squares, "seconds": median_times}
    tables = {name: summaries[name](run.rows) for name in columns_of(run) if name in summaries}
    out = []
    for claim in stated:
        judgement = _readings(claim, run, tables)
        if judgement.word in (IN_PART, AGAINST, RATIO, DEPENDS):
            judgement = judgement._replace(why=claim["why"])
        out.append(judgement)
    return out + _rules(run)


def _readings(claim: Claim, run: FinishedRun, tables: Mapping[str, Table]) -> ClaimVerdict:
    """Judge a statement under every reading of it; see `_together`."""
    readings = claim.get("readings") or ()
    if not readings:
        return _under(claim, run, tables)
    each = []
    for reading in readings:
        own = {key: value for key, value in reading.items() if key != "name" and value is not None}
        judged = _under({**claim, **own, "ours": ""}, run, tables)
        each.append((reading["name"], judged, PLACE.sub("", judged.found)))
    text = say("readings", claim=claim, each=each)
    return ClaimVerdict(_together([judged.word for _, judged, _ in each]), claim["says"], text)


def _together(words: Sequence[str]) -> str:
    """Return what became of a statement with several readings.

    It agrees if it does under all of them, and fails if it does; if it agrees under some and fails
    under others, it depends on the reading. What is left open under one is left open.
    """
    if left := [word for word in words if word not in (AGREES, IN_PART, AGAINST)]:
        return left[0]
    failed = [word for word in words if word != AGREES]
    if failed and len(failed) < len(words):
        return DEPENDS
    return next((word for word in (IN_PART, AGAINST) if word in failed), AGREES)


def _under(claim: Claim, run: FinishedRun, tables: Mapping[str, Table]) -> ClaimVerdict:
    """Judge a statement as it is read here."""
    table = tables.get(claim["column"])
    if table is None:
        return LIMITS[claim["column"]](claim, run)
    judgement = _judge(claim, table, _checks(claim["column"], tables, run))
    if judgement.word in (IN_PART, AGAINST) and outrun(run, claim):
        order = _judge({**claim, "factor": 1.0}, table, None).word
        judgement = judgement if order in (IN_PART, AGAINST) else judgement._replace(word=RATIO)
    return judgement


def _checks(column: str, tables: Mapping[str, Table], run: FinishedRun) -> LawChecks | None:
    """Return the cells of a summary held against their laws; None of times, which have none."""
    if column == "error":
        return check_cells(tables[column])
    if column != "squared" or run.rows is None:
        return None
    return check_cells(summarise(run.rows)).of_squares(tables[column]["expected_error"])


def outrun(run: FinishedRun, claim: Claim) -> bool:
    """Return True if a paper's slow series takes less time here than it prints, in every class.

    A ratio of times that is smaller here then says that ours is faster, not that theirs is wrong.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    claim : Claim
        Statement of the experiment.
    """
    pairs = [
        (our_value(item, run), item["value"])
        for item in run.record.config.get("published", ())
        if claim["column"] == item["column"] == "seconds" and item["series"] == claim["right"]
        if None in (claim["labels"], item["label"]) or item["label"] in claim["labels"]
    ]
    return bool(pairs) and all(ours < paper for ours, paper in pairs)


def our_value(item: Claim, run: FinishedRun) -> float:
    """Return our value of one number that the paper prints, NaN where it was not run.

    Parameters
    ----------
    item : Claim
        Number of the paper, with its series and statistic.
    run : FinishedRun
        Run, with its rows if it had data.
    """
    if item["column"] == "radius":
        return float(run.bound["radius"].max()) if run.bound is not None else np.nan
    if run.rows is None:
        return np.nan
    rows = run.rows
    selection = np.ones(len(rows["n"]), dtype=bool)
    for name in ("series", "label"):
        if item[name] is not None:
            selection &= rows[name] == item[name]
    values = np.asarray(rows[item["column"]][selection], dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(getattr(np, item["statistic"])(values)) if len(values) else np.nan


def _judge(claim: Claim, table: Table, checked: LawChecks | None) -> ClaimVerdict:
    """Compare the two series of a statement in every class and at every budget it is about."""
    says = claim["says"]
    for name in (claim["left"], claim["right"]):
        if name not in table["series"]:
            return ClaimVerdict(UNRUN, says, f"; the series “{name}” was not run.")
    both = rows_of(claim, table)
    void = [pair for pair in both if _is_void(claim, table, checked, pair)]
    pairs, means = [pair for pair in both if pair not in void], best_means(table, checked)
    decisions, fails = _decide(claim, table, checked, pairs)
    word = _word(decisions.count(1), decisions.count(0), len(fails), len(void))
    why = ""
    if void and checked is not None:
        row = next(row for row in void[0] if checked.off[row])
        why = f"{disagreement(table, checked, row)} at {place(table, row)}"
    every = {**table, "count": np.ones_like(table["count"])}
    ratios = np.array([means[b] / means[a] for a, b in pairs])
    exact = [] if checked is None else [np.isfinite(checked.exact[[*pair]]).all() for pair in pairs]
    text = say(
        "pairs",
        claim=claim,
        alike=no_number(claim),
        decisions=decisions,
        fails=fails,
        absent=len(rows_of(claim, every)) - len(both),
        void=len(void),
        why=why,
        exact=sum(exact),
        ratios=ratios,
        mean=np.exp(np.log(ratios).mean()) if pairs else None,
        most=_most(table, means, pairs),
    )
    return ClaimVerdict(NO_NUMBER if no_number(claim) and pairs else word, says, text)


def no_number(claim: Claim) -> bool:
    """Return True if a paper calls two similar, without a number that decides.

    Older records have a bar of ours in its place.

    Parameters
    ----------
    claim : Claim
        Statement of the experiment.
    """
    return bool(claim.get("no_number") or claim.get("within"))


def _is_void(claim: Claim, table: Table, checked: LawChecks | None, pair: tuple[int, int]) -> bool:
    """Tell whether a comparison rests on a mean that is not that of its law.

    If two chains are called similar, it is shown what they return, whatever their law.
    """
    rows = [*pair]
    if checked is None or not checked.off[rows].any():
        return False
    return not no_number(claim) or bool((table["sampler"][rows] != "chain").any())


def _decide(
    claim: Claim, table: Table, checked: LawChecks | None, pairs: Sequence[tuple[int, int]]
) -> tuple[list[int], list[str]]:
    """Return what each comparison decides, as `smaller` does, and where it is against.

    Of a trend the ratios of both sides are shown, of all others their means.
    """
    shown, steps = best_means(table, checked).copy(), pairs
    if claim.get("trend"):
        steps = _steps(claim, table, pairs)
        for left, right in pairs:
            shown[left] /= shown[right]
    factors = [_factor(claim, checked, dict(pairs), step) for step in steps]
    decisions = [
        smaller(table, a, b, factor, len(steps), checked) if np.isfinite(factor) else 0
        for (a, b), factor in zip(steps, factors, strict=True)
    ]
    against = [step for step, word in zip(steps, decisions, strict=True) if word < 0]
    in_words = _ratios if claim.get("trend") else _pair
    return decisions, [in_words(table, shown, *step) for step in against]


def _steps(claim: Claim, table: Table, pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the rows of the left series in each class and in the next, at each budget."""
    labels, places = claim["labels"] or sorted(set(table["label"].tolist())), {}
    for row, _ in pairs:
        places[int(table["label"][row]), float(table["budget"][row])] = row
    return [
        (row, places[following, budget])
        for (label, budget), row in places.items()
        for following in labels[list(labels).index(label) + 1 :][:1]
        if (following, budget) in places
    ]


def _factor(
    claim: Claim, checked: LawChecks | None, right: Mapping[int, int], step: tuple[int, int]
) -> float:
    """Return what the first mean of a comparison is multiplied by: in a trend, as the other grew.

    mean(left)/mean(right) grows if mean(left)·(its factor) is below the next mean(left). It is NaN
    where no law gives the exact expectation of the right side.
    """
    if not claim.get("trend"):
        return float(claim["factor"])
    if checked is None:
        return math.nan
    first, second = step
    return float(checked.exact[right[second]] / checked.exact[right[first]])


def _most(table: Table, means: FloatArray, pairs: Sequence[tuple[int, int]]) -> str:
    """Return where both means of a pair differ most, and the means."""
    if not pairs:
        return ""
    widest = max(pairs, key=lambda pair: abs(math.log(means[pair[1]] / means[pair[0]])))
    return _pair(table, means, *widest)


def _word(holds: int, unclear: int, fails: int, void: int) -> str:
    if fails:
        return IN_PART if holds else AGAINST
    if void:
        return VOID
    return OPEN if unclear else (AGREES if holds else VOID)


def _fills(claim: Mapping[str, Any], run: FinishedRun) -> ClaimVerdict:
    """Judge a statement on how much of the bound the largest descriptor of each class fills.

    Nothing here is random: the largest of all records is known.
    """
    if run.bound is None:
        return ClaimVerdict(UNRUN, claim["says"], "; the bound was not measured.")
    ratios = list(zip(run.bound["class_name"], run.bound["ratio"], strict=True))
    shares = listing(f"{name} {number(100 * ratio)} %" for name, ratio in ratios)
    return _known(claim, [ratio >= claim["factor"] for _, ratio in ratios], "classes", shares)


def _known(claim: Claim, outcomes: Sequence[bool], what: str, measured: str) -> ClaimVerdict:
    """Judge a statement that is true or not of each class or set."""
    holds = sum(outcomes)
    alike = no_number(claim)
    many = {"holds": holds, "count": len(outcomes), "what": what, "measured": measured}
    word = NO_NUMBER if alike else _word(holds, 0, len(outcomes) - holds, 0)
    return ClaimVerdict(word, claim["says"], say("known", claim=claim, alike=alike, **many))


class CellVerdict(NamedTuple):
    """Verdict on a claim in one cell.

    Attributes
    ----------
    holds : bool
        True if the claim holds there.
    value : str
        Value that was measured there, in words.
    order : float
        Value that was measured there, as a number.
    chance : float
        Probability that chance alone breaks it in a cell that is at its level exactly; 0 where a
        share is taken as it is.
    """

    holds: bool
    value: str
    order: float
    chance: float = 0.0


Judge: TypeAlias = Callable[[float, Table], CellVerdict | None]
"""Function of a claim's size and a cell to the verdict; None of too few regions."""


def cells(claim: Claim, rows: Table) -> Iterator[tuple[str, Table]]:
    """Yield the cells that a claim is about, named: one class, series, budget and night each.

    Parameters
    ----------
    claim : Claim
        Statement of the experiment.
    rows : Table
        Rows of the run.
    """
    left = claim["left"]
    places = {
        tuple(rows[name][at[0]] for name in GROUP if name in rows): at for at in cells_of(rows)
    }
    for (label, series, budget, *nights), at in places.items():
        named = not left or series == left or series.startswith(f"{left},")
        night = nights[0] if nights else 0
        if not (named and is_meant(claim, label, budget, night)):
            continue
        if claim["least"] <= float(rows["n"][at[0]] * budget) <= claim["most"]:
            cell = {name: column[at] for name, column in rows.items()}
            if claim["right"]:
                other = claim["right"] + series.removeprefix(left)
                beside = places.get((label, other, budget, *nights), ())
                if len(beside) != len(at):
                    continue
                cell["right"] = rows["auc"][beside]
            yield place(cell, 0, series), cell


def _covers_at_least(least: float, cell: Table, level: float = CONFIDENCE) -> CellVerdict | None:
    """Say whether regions of a level hold the mean at least as often as `least`."""
    reach = cell["reach"][cell["offered"] > 0]
    return None if len(reach) < FEWEST_REGIONS else _is_often(reach <= level, least)


def _is_often(outcomes: NDArray[np.bool_], least: float) -> CellVerdict:
    """Say whether something holds at least as often as `least`, but for chance."""
    from scipy.stats import binom

    share = float(outcomes.mean())
    holds = bool(binom.cdf(int(outcomes.sum()), len(outcomes), least) > RARE_SHARE)
    return CellVerdict(holds, f"{number(100 * share)} % of {len(outcomes)}", share, RARE_SHARE)


def _flags(least: float, cell: Table) -> CellVerdict | None:
    """Say whether the share of local records outside is in its range as often as `least`."""
    stated = cell["as_stated"][np.isfinite(cell["as_stated"])]
    if not len(stated):
        return None
    verdict = _is_often(stated > 0, least)
    share = number(100 * float(np.nanmean(cell["outside"])))
    return verdict._replace(value=f"{share} % outside, as stated in {verdict.value}")


def _is_tight(most: float, cell: Table) -> CellVerdict | None:
    offered = (cell["offered"] > 0) & np.isfinite(cell["region_radius"])
    if not offered.any():
        return None
    ratio = float(np.median(cell["region_radius"][offered]) / np.median(cell["error"][offered]))
    return CellVerdict(ratio <= most, f"{number(ratio)} times", ratio)


def _offers(share: float, cell: Table) -> CellVerdict:
    rate = float(cell["offered"].mean())
    return CellVerdict(rate >= share if share else rate == 0.0, f"{number(100 * rate)} %", rate)


def _is_seldom_alarmed(share: float, cell: Table, level: float = POWER_LEVEL) -> CellVerdict | None:
    """Say whether p-values at or below a level are no more than a share and two standard errors."""
    from scipy.stats import binom

    values = cell["p_value"][np.isfinite(cell["p_value"])]
    many = len(values)
    if not many:
        return None
    most = share * many + 2.0 * (many * share * (1.0 - share)) ** 0.5
    alarms = int((values <= level).sum())
    chance = float(binom.sf(int(most), many, share))
    return CellVerdict(alarms <= most, f"{number(100 * alarms / many)} %", alarms / many, chance)


def _finds(share: float, cell: Table) -> CellVerdict:
    rate = float((cell["p_value"] <= POWER_LEVEL).mean())
    return CellVerdict(rate >= share, f"{number(100 * rate)} %", rate)


def _mean_of(values: Callable[[Table], FloatArray], sign: float = 1.0) -> Judge:
    """Return what says whether a mean is at most a number, or with a `sign` of −1 at least."""

    def judge_mean(limit: float, cell: Table) -> CellVerdict | None:
        numbers = values(cell)
        if not np.isfinite(numbers).any():
            return None
        mean = float(np.nanmean(numbers))
        return CellVerdict(sign * mean <= sign * limit, number(mean), mean)

    return judge_mean


JUDGED: Mapping[str, tuple[str, Judge]] = {
    "coverage": ("offered", lambda level, cell: _covers_at_least(level, cell, level)),
    "held": ("offered", _covers_at_least),
    "alarms": ("p_value", _is_seldom_alarmed),
    "radius": ("offered", _is_tight),
    "price": ("offered", lambda _, cell: _is_tight(math.inf, cell)),
    "offered": ("offered", _offers),
    "false": ("p_value", lambda level, cell: _is_seldom_alarmed(level, cell, level)),
    "power": ("p_value", _finds),
    "flags": ("outside", _flags),
    "auc": ("auc", _mean_of(lambda cell: cell["auc"], -1.0)),
    "behind": ("auc", _mean_of(lambda cell: cell["right"] - cell["auc"])),
    "balanced": ("balanced", _mean_of(lambda cell: cell["balanced"])),
}
"""Column of the rows that a claim rests on, and its judge, by the column of the claim."""


def judge(claim: Claim, rows: Table) -> tuple[int, list[str], str]:
    """Return the number of cells in which a claim holds, those where it does not, and a sentence.

    Parameters
    ----------
    claim : Claim
        Statement of the experiment.
    rows : Table
        Rows of the run.
    """
    _, test = JUDGED[claim["column"]]
    judged = [
        (name, verdict)
        for name, cell in cells(claim, rows)
        if (verdict := test(claim["factor"], cell)) is not None
    ]
    fails = [f"{name}: {verdict.value}" for name, verdict in judged if not verdict.holds]
    order = sorted((verdict for _, verdict in judged), key=lambda verdict: verdict.order)
    text = say(
        "cells",
        claim=claim,
        count=len(judged),
        fails=fails,
        chance=sum(verdict.chance for _, verdict in judged),
        ends=dict.fromkeys(verdict.value for verdict in (*order[:1], *order[-1:])),
    )
    return len(judged) - len(fails), fails, text


def _holds(claim: Mapping[str, Any], run: FinishedRun) -> ClaimVerdict:
    """Judge a statement on released values, cell by cell."""
    column, _ = JUDGED[claim["column"]]
    if run.rows is None or not np.isfinite(run.rows[column]).any():
        return ClaimVerdict(UNRUN, claim["says"], "; nothing of the kind was made.")
    holds, fails, text = judge(claim, run.rows)
    if claim["column"] == "price" and holds:
        return ClaimVerdict(PRICE, claim["says"], text)
    return ClaimVerdict(_word(holds, 0, len(fails), 0), claim["says"], text)


def _tight(claim: Claim, run: FinishedRun) -> ClaimVerdict:
    """Judge whether the least GDP of the queries of a series is their Rao budget.

    Both are of the same rows: what is needed in GDP follows from the loss of all queries together.
    """
    if run.rows is None or claim["left"] not in run.rows["series"]:
        return ClaimVerdict(UNRUN, claim["says"], f"; the series “{claim['left']}” was not run.")
    rows = run.rows
    mine = (rows["series"] == claim["left"]) & (rows["repetition"] == 0)
    of = {name: mine & (rows["definition"] == name) for name in ("gdp", "rao")}
    needed = dict(zip(rows["n"][of["gdp"]], rows["attained"][of["gdp"]], strict=True))
    rao = dict(zip(rows["n"][of["rao"]], rows["budget"][of["rao"]], strict=True))
    ratios = {m: needed[m] / rao[m] for m in needed if m in rao and np.isfinite(needed[m])}
    measured = listing((f"{number(ratio)} for m = {m}" for m, ratio in ratios.items()), "; ")
    holds = [abs(ratio - 1) <= QUADRATURE for ratio in ratios.values()]
    return _known(claim, holds, "numbers of queries", f"GDP over Rao budget {measured}")


LIMITS = {"ratio": _fills, "tight": _tight, **dict.fromkeys(JUDGED, _holds)}
"""Judges of statements that compare no series, by their column."""
QUADRATURE = 1e-3
"""Relative error of what is computed from the loss on its grid."""
RULES = {"gdp": {"budget": 0.5}, "rao": {"budget": 0.5}, "mcdp": {"budget": 1.0, "tau": 0.5}}
"""Powers of the number of queries by which budgets grow, where it is not 1 for all."""


def _rules(run: FinishedRun) -> list[ClaimVerdict]:
    """Hold what queries need together against the rules of composition that the paper prints.

    The totals in `budget` are those rules, so they prove nothing; `attained` follows from the loss
    of all queries together, and no rule enters it. A rule holds where that is not above the total.
    """
    if run.rows is None or run.subject != "budgets":
        return []
    rows, out = run.rows, []
    attained = rows.get("attained", np.full(len(rows["n"]), np.nan))
    for name in dict.fromkeys(rows["definition"].tolist()):
        powers = RULES.get(name, {"budget": 1.0, "delta": 1.0})
        chosen = (rows["definition"] == name) & (rows["repetition"] == 0)
        signs = {"budget": letter(str(name)), "delta": "δ", "tau": "τ"}
        rules = [
            f"√Σ{signs[x]}²" if power == 0.5 else f"Σ{signs[x]}"
            for x, power in powers.items()
            if np.isfinite(rows[x][chosen]).any()
        ]
        says = f"{definition_words()[name]} differential privacy: m budgets make {listing(rules)}"
        known = chosen & np.isfinite(attained)
        shares = attained[known] / rows["budget"][known]
        holds = int((shares <= 1 + QUADRATURE).sum())
        word = _word(holds, 0, len(shares) - holds, 0) if len(shares) else NO_VERDICT
        out.append(ClaimVerdict(word, says, say("rule", holds=holds, shares=shares)))
    return out


def _pair(table: Table, means: FloatArray, a: int, b: int) -> str:
    """Return where a comparison was made, with both means."""
    values = (f"“{table['series'][at]}” {number(float(means[at]))}" for at in (a, b))
    return f"{place(table, a)} ({' against '.join(values)})"


def _ratios(table: Table, ratios: FloatArray, a: int, b: int) -> str:
    """Return the ratios of both sides of a trend, in one class and in the next."""
    values = (f"{place(table, at)}: {number(float(ratios[at]))}" for at in (a, b))
    return f"ratio at {', at '.join(values)}"
