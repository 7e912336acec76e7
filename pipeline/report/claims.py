"""Statements judged by our rows: those of papers by series, those on released values cell by cell.

Every sentence is computed: from the statements in the experiment's TOML and from the rows. Only
what `evidence` decides counts, for a statement or against it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.figures import DEFINITIONS, letter, listing, number
from pipeline.report.evidence import (
    STATED,
    Checked,
    Claim,
    check_cells,
    disagreement,
    is_meant,
    mean_errors,
    median_times,
    place,
    rows_of,
    smaller,
)
from pipeline.report.page import Finding
from pipeline.report.runs import FinishedRun
from pipeline.report.templates import say, words
from pipeline.results import Table, cells_of
from pipeline.results.tables import GROUP

AGREES, PART, AGAINST = "Agrees", "Agrees in part", "Does not agree"
RATIO = "Another ratio"
"""What the paper finds slow takes less time here than there, so it is no longer as far behind."""
OPEN, VOID, UNRUN = "Not decided", "Cannot be judged", "Not checked"
PRICE = "Price"
"""What is measured and shown, and promised by nobody."""
LEFT = {OPEN: "differences within the noise", UNRUN: "series that were not run"}
"""Why a statement is left open, in the headline."""
FEWEST = 20
"""Regions of a cell that say something of its coverage."""
RARE = 0.0228
"""How rare a coverage must be to count against its level: as two standard errors below it."""
LEVEL = 0.05
"""Level of the tests whose power is claimed."""
CONFIDENCE = 0.95
"""Of the regions that are said to hold a mean."""


class ClaimVerdict(NamedTuple):
    """One statement of the paper: what became of it, what it says, what we found, and why."""

    word: str
    says: str
    found: str
    why: str = ""

    @property
    def finding(self) -> Finding:
        """The sentence of the report."""
        why = f" Why: {self.why}." if self.why else ""
        text = f"{self.word}: “{self.says}”{self.found}{why}"
        left = self.word in (OPEN, VOID, UNRUN)
        return Finding(text, self.word in (PART, AGAINST), left, self.word == RATIO)


def claims(run: FinishedRun) -> list[Finding]:
    """Return one sentence for each statement of the paper, and how they were judged."""
    sentences = [verdict.finding for verdict in verdicts(run)]
    columns = dict.fromkeys(claim["column"] for claim in run.record.config.get("claims", ()))
    how = (how_judged(name) for name in columns if sentences)
    return [*sentences, *(Finding(text, told=True) for text in how if text)]


def how_judged(column: str) -> str:
    """Return how statements on a column are judged; "" of one in which nothing is random."""
    return words()["judged"].get(column, "").format(stated=STATED)


def verdict(run: FinishedRun) -> list[Finding]:
    """Return the headline of a published experiment: how many statements hold, and why not."""
    judged = verdicts(run)
    if not judged:
        return []
    config, each = run.record.config, [item.word for item in judged]
    text = say(
        "headline",
        explained=[item for item in judged if item.why or item.word in (PART, AGAINST, VOID)],
        decided=[word for word in each if word in (AGREES, PART, AGAINST)],
        left=[(word, each.count(word), why) for word, why in LEFT.items() if word in each],
        ratio=RATIO in each,
        own=not config.get("paper"),
        beyond=config.get("beyond"),
    )
    return [Finding(text.strip(), open=all(item.finding.open for item in judged))]


@lru_cache
def verdicts(run: FinishedRun) -> list[ClaimVerdict]:
    """Judge every statement of the paper by the rows of a run; none where there was no data."""
    stated = run.record.config.get("claims", ())
    if run.rows is None or run.record.status != "ok":
        return []
    columns = {claim["column"] for claim in stated}
    summaries = {"error": mean_errors, "seconds": median_times}
    tables = {name: summaries[name](run.rows) for name in columns & summaries.keys()}
    out = []
    for claim in stated:
        table = tables.get(claim["column"])
        judgement = LIMITS[claim["column"]](claim, run) if table is None else _judge(claim, table)
        if judgement.word in (PART, AGAINST) and table is not None and outrun(run, claim):
            order = _judge({**claim, "factor": 1.0}, table).word
            judgement = judgement if order in (PART, AGAINST) else judgement._replace(word=RATIO)
        if judgement.word in (PART, AGAINST, RATIO):
            judgement = judgement._replace(why=claim["why"])
        out.append(judgement)
    return out + _rules(run)


def outrun(run: FinishedRun, claim: Claim) -> bool:
    """Tell whether what a paper finds slow takes less time here than it prints, in every class.

    A ratio of times that is smaller here then says that ours is faster, not that theirs is wrong.
    """
    pairs = [
        (our_value(item, run), item["value"])
        for item in run.record.config.get("published", ())
        if claim["column"] == item["column"] == "seconds" and item["series"] == claim["right"]
        if None in (claim["labels"], item["label"]) or item["label"] in claim["labels"]
    ]
    return bool(pairs) and all(ours < paper for ours, paper in pairs)


def our_value(item: Claim, run: FinishedRun) -> float:
    """Return our value of one number that the paper prints, NaN where it was not run."""
    if item["column"] == "radius":
        return float(run.bound["radius"].max()) if run.bound is not None else np.nan
    if run.rows is None:
        return np.nan
    rows = run.rows
    selection = np.ones(len(rows["n"]), dtype=bool)
    if item["series"] is not None:
        selection &= rows["series"] == item["series"]
    if item["label"] is not None:
        selection &= rows["label"] == item["label"]
    values = np.asarray(rows[item["column"]][selection], dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(getattr(np, item["statistic"])(values)) if len(values) else np.nan


def _judge(claim: Mapping[str, Any], table: Table) -> ClaimVerdict:
    """Compare the two series of a statement in every class and at every budget it is about."""
    says = claim["says"]
    for name in (claim["left"], claim["right"]):
        if name not in table["series"]:
            return ClaimVerdict(UNRUN, says, f"; the series “{name}” was not run.")
    both = rows_of(claim, table)
    checked = check_cells(table) if claim["column"] == "error" else None
    void = [pair for pair in both if checked is not None and checked.off[list(pair)].any()]
    pairs = [pair for pair in both if pair not in void]
    decisions = [_decide(claim, table, checked, pair, len(pairs)) for pair in pairs]
    fails = [_pair(table, *pair) for pair, word in zip(pairs, decisions, strict=True) if word < 0]
    word = _word(decisions.count(1), decisions.count(0), len(fails), len(void))
    why = ""
    if void and checked is not None:
        row = next(row for row in void[0] if checked.off[row])
        why = f"{disagreement(table, checked, row)} at {place(table, row)}"
    every = {**table, "count": np.ones_like(table["count"])}
    ratios = np.array([table["mean"][b] / table["mean"][a] for a, b in pairs])
    text = say(
        "pairs",
        claim=claim,
        decisions=decisions,
        fails=fails,
        absent=len(rows_of(claim, every)) - len(both),
        void=len(void),
        why=why,
        ratios=ratios,
        mean=np.exp(np.log(ratios).mean()) if pairs else None,
    )
    return ClaimVerdict(word, says, text)


def _decide(
    claim: Mapping[str, Any],
    table: Table,
    checked: Checked | None,
    pair: tuple[int, int],
    tests: int,
) -> int:
    """Return 1 where a comparison is decided for the statement, −1 against it, 0 where neither."""
    a, b = pair
    if claim["within"] is None:
        return smaller(table, a, b, claim["factor"], tests, checked)
    near = 1 / claim["within"]
    sides = smaller(table, a, b, near, tests, checked), smaller(table, b, a, near, tests, checked)
    return min(sides)


def _word(holds: int, unclear: int, fails: int, void: int) -> str:
    if fails:
        return PART if holds else AGAINST
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


def _fits(claim: Mapping[str, Any], run: FinishedRun) -> ClaimVerdict:
    """Judge a statement on the most memory that any pass over a set took; it is known, too."""
    rows = run.rows
    if rows is None or not np.isfinite(rows["memory"]).all():
        return ClaimVerdict(
            UNRUN, claim["says"], "; this system does not tell the memory of a process."
        )
    most = {name: rows["memory"][rows["class_name"] == name].max() for name in rows["class_name"]}
    sizes = listing((f"{name} {number(memory)} MB" for name, memory in most.items()), "; ")
    return _known(claim, [size <= claim["factor"] for size in most.values()], "sets", sizes)


def _known(claim: Claim, held: Sequence[bool], what: str, measured: str) -> ClaimVerdict:
    """Judge a statement that is true or not of each class or set."""
    holds = sum(held)
    text = say("known", claim=claim, holds=holds, count=len(held), what=what, measured=measured)
    return ClaimVerdict(_word(holds, 0, len(held) - holds, 0), claim["says"], text)


class CellVerdict(NamedTuple):
    """What became of a claim in one cell.

    Attributes
    ----------
    holds : bool
    value : str
        What was measured there.
    order : float
        The same as a number.
    chance : float
        How often chance alone breaks it in a cell that is at its level exactly; 0 where a share is
        taken as it is.
    """

    holds: bool
    value: str
    order: float
    chance: float = 0.0


Judge: TypeAlias = Callable[[float, Table], CellVerdict | None]
"""What a claim of some size comes to in a cell; None where too little was offered."""


def cells(claim: Claim, rows: Table) -> Iterator[tuple[str, Table]]:
    """Yield the cells that a claim is about, named: one class, series, budget and night each."""
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
            symbol = letter(str(cell["definition"][0]))
            name = f"{cell['class_name'][0]}, {series}, {symbol} = {number(float(budget))}"
            yield name + (f", night {night}" if night else ""), cell


def _covers_at_least(least: float, cell: Table, level: float = CONFIDENCE) -> CellVerdict | None:
    """Say whether regions of a level hold the mean at least as often as `least`."""
    reach = cell["reach"][cell["offered"] > 0]
    return None if len(reach) < FEWEST else _is_often(reach <= level, least)


def _is_often(held: NDArray[np.bool_], least: float) -> CellVerdict:
    """Say whether something holds at least as often as `least`, but for chance."""
    from scipy.stats import binom

    share = float(held.mean())
    holds = bool(binom.cdf(int(held.sum()), len(held), least) > RARE)
    return CellVerdict(holds, f"{number(100 * share)} % of {len(held)}", share, RARE)


def _flags(least: float, cell: Table) -> CellVerdict | None:
    """Say whether the share of local records outside is in its range as often as `least`."""
    stated = cell["as_stated"][np.isfinite(cell["as_stated"])]
    if not len(stated):
        return None
    verdict = _is_often(stated > 0, least)
    share = number(100 * float(np.nanmean(cell["outside"])))
    return verdict._replace(value=f"{share} % outside, as stated in {verdict.value}")


def _is_tight(most: float, cell: Table) -> CellVerdict | None:
    offered = cell["offered"] > 0
    if not offered.any():
        return None
    ratio = float(np.median(cell["radius"][offered]) / np.median(cell["error"][offered]))
    return CellVerdict(ratio <= most, f"{number(ratio)} times", ratio)


def _offers(share: float, cell: Table) -> CellVerdict:
    rate = float(cell["offered"].mean())
    return CellVerdict(rate >= share if share else rate == 0.0, f"{number(100 * rate)} %", rate)


def _is_seldom_alarmed(share: float, cell: Table, level: float = LEVEL) -> CellVerdict | None:
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
    rate = float((cell["p_value"] <= LEVEL).mean())
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
    "told": ("balanced", _mean_of(lambda cell: cell["balanced"])),
}
"""Column of a claim → the column of the rows that it rests on, and what judges it."""


def judge(claim: Claim, rows: Table) -> tuple[int, list[str], str]:
    """Return in how many cells a claim holds, where it does not, and the sentence that says so."""
    _, test = JUDGED[claim["column"]]
    judged = [
        (name, held)
        for name, cell in cells(claim, rows)
        if (held := test(claim["factor"], cell)) is not None
    ]
    fails = [f"{name}: {held.value}" for name, held in judged if not held.holds]
    order = sorted((held for _, held in judged), key=lambda held: held.order)
    text = say(
        "cells",
        claim=claim,
        count=len(judged),
        fails=fails,
        chance=sum(held.chance for _, held in judged),
        ends=dict.fromkeys(held.value for held in (*order[:1], *order[-1:])),
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


LIMITS = {"ratio": _fills, "memory": _fits, **dict.fromkeys(JUDGED, _holds)}
"""How a statement on a column is judged that compares no series."""

RULES = {"gdp": {"budget": 0.5}, "rao": {"budget": 0.5}, "mcdp": {"budget": 1.0, "tau": 0.5}}
"""Powers of the number of queries by which budgets grow, where it is not 1 for all."""


def _rules(run: FinishedRun) -> list[ClaimVerdict]:
    """Compare the totals of a table of compositions with the rules that the paper prints."""
    if run.rows is None or run.subject != "budgets":
        return []
    rows, out = run.rows, []
    for name in dict.fromkeys(rows["definition"][rows["n"] == 1]):
        powers = RULES.get(name, {"budget": 1.0, "delta": 1.0})
        chosen = rows["definition"] == name
        single, same = chosen & (rows["n"] == 1), True
        for column, power in powers.items():
            base = dict(zip(rows["series"][single], rows[column][single], strict=True))
            expected = np.array([base[x] for x in rows["series"][chosen]])
            expected = expected * rows["n"][chosen] ** power
            same &= np.allclose(rows[column][chosen], expected, rtol=1e-9, equal_nan=True)
        signs = {"budget": letter(str(name)), "delta": "δ", "tau": "τ"}
        rules = [
            f"√Σ{signs[x]}²" if power == 0.5 else f"Σ{signs[x]}"
            for x, power in powers.items()
            if np.isfinite(rows[x][chosen]).any()
        ]
        text = f" (Table 1). So in all {chosen.sum()} rows, up to rounding."
        text = text if same else " (Table 1). Our totals are others."
        says = f"{DEFINITIONS[str(name)]}: m budgets make {listing(rules)}"
        out.append(ClaimVerdict(AGREES if same else AGAINST, says, text))
    return out


def _pair(table: Table, a: int, b: int) -> str:
    """Return where a statement fails, with both means."""
    means = number(float(table["mean"][a])), number(float(table["mean"][b]))
    return f"{place(table, a)} ({means[0]} against {means[1]})"
