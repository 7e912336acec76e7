"""What was found, in sentences: computed from the rows, so that they cannot disagree with them.

First what rows prove, and how rarely by chance: the one rule by which a report calls anything true.
Then the statements of papers and our own claims, judged by it series by series or cell by cell;
only what it decides counts, for a statement or against it. Last what a reader should know first.

**A mean against its law.** Where the mean of the law is known exactly, a cell (class, series and
budget) whose measured mean disagrees with it earns nothing: neither it nor what rests on it. All
errors here have a density ∝ ρ^(d−1)·g(ρ) on manifolds that are not negatively curved, g
log-concave. Against Gamma(d), scaled to the same mean m, the logarithm of that density is concave,
so it crosses at most twice: the error is below Gamma(d) in convex order, its variance at most m²/d,
with equality for Laplace noise. The sum of n errors is held against Gamma(n·d). The spread of the
sample is not used: chains that have not mixed spread most. Elsewhere a t-test is made. A chain
without a known law is compared with the exact draws of the same noise in the same run, by the
spread of the latter.

**Two means.** Where both have such a law their ratio is held against F(2n·d, 2n'·d'), elsewhere it
is Welch's t-test on the difference. Cells of one seed had the same noise, repetition by repetition:
there it is a t-test on the differences, in which what both have in common cancels. Times have
outliers without bound: their medians are shown, and ranks decide, by the exact test of Mann and
Whitney. What is within the noise is not decided.

**Rates.** `RATE` bounds the probability of a wrong decision over all cells of a run, or over all
comparisons of a statement, by Bonferroni. The errors are skewed, so that a t-test on ten of them
is wrong up to a hundred times as often as it claims: it is made at `NOMINAL`.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.figures import definition_words, letter, listing, number, words
from pipeline.geometry import MANIFOLDS
from pipeline.report.page import Finding
from pipeline.report.runs import FinishedRun
from pipeline.report.templates import say
from pipeline.results import Table, cells_of, summarise, unique
from pipeline.results.tables import GROUP

Claim = Mapping[str, Any]
"""A statement of an experiment's TOML."""
RATE = 1e-3
"""Stated probability of a wrong decision: over the cells of a run, over those of a statement."""
NOMINAL = RATE / 100
"""The same, for a t-test on skewed errors."""
STATED = f"a wrong decision has probability at most {100 * RATE:g} %"


class LawChecks(NamedTuple):
    """Each cell of a summary held against its law.

    Attributes
    ----------
    known, off : array of bool, shape (cells,)
        Whether there is anything to compare with, and whether it disagrees.
    reference : array, shape (cells,)
        The mean of the law, or that of exact draws of it; NaN where there is none.
    score : array, shape (cells,)
        Distance from it in standard errors.
    shape : array, shape (cells,)
        n·d of the Gamma law that bounds the spread of the sum, NaN where none does.
    """

    known: NDArray[np.bool_]
    off: NDArray[np.bool_]
    reference: NDArray[np.float64]
    score: NDArray[np.float64]
    shape: NDArray[np.float64]


def check_cells(table: Table) -> LawChecks:
    """Hold each mean of `table`, a summary of errors, against its law."""
    from scipy import special

    count, mean = table["count"], table["mean"]
    expected, d = table["expected_error"].copy(), table.get("dim", np.full(len(mean), np.nan))
    bends = np.array([_bends_down(str(name)) for name in table["manifold"]], dtype=bool)
    radial = np.isfinite(expected) & (count > 0) & np.isfinite(d) & ~bends
    spread = np.isfinite(expected) & ~radial & (count > 1) & (table["se"] > 0)
    scale, freedom = np.full(len(mean), np.nan), count - 1.0
    scale[radial] = expected[radial] / np.sqrt(count[radial] * d[radial])
    scale[spread] = table["se"][spread]
    paired = np.zeros(len(mean), dtype=bool)
    for chain, exact in _pairs(table, np.isfinite(expected)):
        paired[chain], expected[chain] = True, mean[exact]
        scale[chain] = table["sd"][exact] * np.sqrt(1 / count[chain] + 1 / count[exact])
        freedom[chain] = count[exact] - 1.0
    testable = radial | spread | paired
    score = np.abs(mean - expected) / scale
    p = np.ones(len(mean))
    shape = (count * d)[radial]
    place = shape * mean[radial] / expected[radial]
    tails = special.gammainc(shape, place), special.gammaincc(shape, place)
    p[radial] = 2 * np.minimum(*tails)
    by_t = spread | paired
    p[by_t] = 2 * special.stdtr(freedom[by_t], -score[by_t])
    tests = max(int(testable.sum()), 1)
    off = testable & (p < np.where(radial, RATE, NOMINAL) / tests)
    return LawChecks(
        known=testable,
        off=off,
        reference=np.where(testable, expected, np.nan),
        score=np.where(testable, score, np.nan),
        shape=np.where(radial & ~off, count * d, np.nan),
    )


def is_meant(claim: Claim, label: int, budget: float, night: int) -> bool:
    """Tell whether a claim is about a class, a budget and a night."""
    labels, nights = claim["labels"], claim.get("nights")
    within = claim["above"] <= budget <= claim["below"]
    return within and (labels is None or label in labels) and (nights is None or night in nights)


def rows_of(claim: Claim, table: Table) -> list[tuple[int, int]]:
    """Return the rows of both series of a claim, in every class and budget it is about."""
    nights = table.get("night", np.zeros_like(table["label"]))
    keys = zip(table["series"], table["label"], table["budget"], nights, strict=True)
    rows = {key: row for row, key in enumerate(keys) if table["count"][row] > 0}
    return [
        (row, rows[other])
        for (series, *where), row in rows.items()
        if series == claim["left"] and is_meant(claim, *where)
        if (other := (claim["right"], *where)) in rows
    ]


def mean_errors(rows: Table) -> Table:
    """Return the summary of errors, with the seed and all errors of each cell."""
    errors = _values(rows, "error")
    seeds = [int(rows["seed"][cell[0]]) for cell in cells_of(rows)]
    return {**summarise(rows), "errors": errors, "seed": np.array(seeds)}


def median_times(rows: Table) -> Table:
    """Return the summary of seconds with medians for means, and all of each cell in `samples`."""
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
    """Decide whether `factor` times the mean of row `a` is below the mean of row `b`.

    Parameters
    ----------
    tests : int
        How many comparisons share the rate.
    checked : Checked, optional
        What `check_cells` found in `table`; None for a column that has no law.

    Returns
    -------
    int
        1 if it is below, −1 if it is above, 0 where neither is decided.
    """
    from scipy import special, stats

    gap = float(table["mean"][b] - factor * table["mean"][a])
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


def disagreement(table: Table, checked: LawChecks, row: int) -> str:
    """Return how the mean of a cell differs from that of its law, in words."""
    mean, law = float(table["mean"][row]), float(checked.reference[row])
    series = f"“{table['series'][row]}”"
    if table["sampler"][row] == "chain":
        series += " has not mixed:"
    text = f"{series} mean error {number(mean)} where its law has {number(law)}"
    if mean < law:
        return f"{text}, {number(law / mean)} times too little noise"
    return text


def place(table: Table, row: int, *series: str) -> str:
    """Return class and budget of a cell, its series if given, and its night where it has one."""
    night = int(table["night"][row]) if "night" in table else 0
    budget = f"{letter(str(table['definition'][row]))} = {number(float(table['budget'][row]))}"
    text = ", ".join([table["class_name"][row], *series, budget])
    return f"{text}, night {night}" if night else text


def _bends_down(manifold: str) -> bool:
    """Tell whether volume grows faster than in a flat space, so that laws may spread more."""
    curvature: tuple[float, float] = getattr(MANIFOLDS.get(manifold), "curvature", (0.0, 0.0))
    return curvature[0] < 0


def _pairs(table: Table, testable: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the rows of chains without a known law, each with that of the same noise, exact."""
    same = ("label", "budget", "mechanism", "definition", "footpoint", "distance", "sigma")
    columns = [table[name].tolist() for name in same if name in table]
    keys = list(zip(*columns, strict=True))
    good = (table["count"] > 1) & (table["se"] > 0)
    exact = {
        key: row
        for row, key in enumerate(keys)
        if good[row] and table["sampler"][row] == "exact" and not testable[row]
    }
    return [
        (row, exact[key])
        for row, key in enumerate(keys)
        if table["sampler"][row] == "chain" and table["count"][row] and not testable[row]
        if key in exact
    ]


AGREES, IN_PART, AGAINST = "Agrees", "Agrees in part", "Does not agree"
RATIO = "Another ratio"
"""What the paper finds slow takes less time here than there, so it is closer to the others."""
OPEN, VOID, UNRUN = "Not decided", "Cannot be judged", "Not checked"
PRICE = "Price"
"""What is measured and shown, and promised by nobody."""
NO_DATA = "Data not at hand"
PLACE = re.compile(r"^[;. ]*\((?:[^()]|\([^()]*\))*\)[;. ]*")
"""Where a paper makes a statement, as a verdict begins: a figure may have a part (b)."""
LEFT = {OPEN: "differences within the noise", UNRUN: "series that were not run"}
"""Why a statement is left open, in the headline."""
FEWEST_REGIONS = 20
"""Regions of a cell that say something of its coverage."""
RARE_SHARE = 0.0228
"""How rare a coverage must be to count against its level: as two standard errors below it."""
POWER_LEVEL = 0.05
"""Level of the tests whose power is claimed."""
CONFIDENCE = 0.95
"""Of the regions that hold a mean by their confidence."""


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
        return Finding(text, self.word in (IN_PART, AGAINST), left, self.word == RATIO)

    @property
    def reason(self) -> str:
        """Why the statement is not held: the reason that is known, else what was found.

        What is left open needs none: the word says it.
        """
        if self.word in (AGREES, OPEN, UNRUN, NO_DATA):
            return ""
        text = self.why or PLACE.sub("", self.found).rstrip(".")
        return f"{text[:1].upper()}{text[1:]}."


def claims(run: FinishedRun) -> list[Finding]:
    """Return one sentence for each statement of the paper, and how they were judged."""
    sentences = [verdict.finding for verdict in verdicts(run)]
    columns = dict.fromkeys(claim["column"] for claim in run.record.config.get("claims", ()))
    how = (how_judged(name) for name in columns if sentences)
    return [*sentences, *(Finding(text, stated=True) for text in how if text)]


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
        explained=[item for item in judged if item.why or item.word in (IN_PART, AGAINST, VOID)],
        decided=[word for word in each if word in (AGREES, IN_PART, AGAINST)],
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
        if judgement.word in (IN_PART, AGAINST) and table is not None and outrun(run, claim):
            order = _judge({**claim, "factor": 1.0}, table).word
            judgement = judgement if order in (IN_PART, AGAINST) else judgement._replace(word=RATIO)
        if judgement.word in (IN_PART, AGAINST, RATIO):
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
    for name in ("series", "label"):
        if item[name] is not None:
            selection &= rows[name] == item[name]
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
    # 1 where a comparison is decided for the statement, −1 against it, 0 where neither
    within, tests = claim["within"], len(pairs)
    near = claim["factor"] if within is None else 1 / within
    decisions = [smaller(table, a, b, near, tests, checked) for a, b in pairs]
    if within is not None:  # neither is smaller by more
        back = (smaller(table, b, a, near, tests, checked) for a, b in pairs)
        decisions = list(map(min, decisions, back))
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


def _known(claim: Claim, outcomes: Sequence[bool], what: str, measured: str) -> ClaimVerdict:
    """Judge a statement that is true or not of each class or set."""
    holds = sum(outcomes)
    text = say("known", claim=claim, holds=holds, count=len(outcomes), what=what, measured=measured)
    return ClaimVerdict(_word(holds, 0, len(outcomes) - holds, 0), claim["says"], text)


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
"""What a claim of some size comes to in a cell; None where too few regions are available."""


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
    offered = cell["offered"] > 0
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


def _is_bounded(factor: float, cell: Table) -> CellVerdict | None:
    """Say whether the mean error is at most `factor` times its bound, but for a t-test's chance.

    Each error is held against the bound of its own draw, as private footpoints differ.
    """
    from scipy import stats

    good = np.isfinite(cell["error"]) & np.isfinite(cell["error_bound"])
    if good.sum() < 2:
        return None
    over = cell["error"][good] - factor * cell["error_bound"][good]
    p = float(stats.ttest_1samp(over, 0.0, alternative="greater").pvalue) if over.any() else 1.0
    ratio = float(cell["error"][good].mean() / cell["error_bound"][good].mean())
    return CellVerdict(p >= NOMINAL, f"{number(ratio)} times its bound", ratio, NOMINAL)


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
    "bounded": ("error_bound", _is_bounded),
}
"""Column of a claim → the column of the rows that it rests on, and what judges it."""


def judge(claim: Claim, rows: Table) -> tuple[int, list[str], str]:
    """Return in how many cells a claim holds, where it does not, and the sentence that says so."""
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
        kind, added = definition_words()[name], listing(rules)
        says = f"{kind} differential privacy: m budgets make {added}"
        out.append(ClaimVerdict(AGREES if same else AGAINST, says, text))
    return out


def _pair(table: Table, a: int, b: int) -> str:
    """Return where a statement fails, with both means."""
    means = number(float(table["mean"][a])), number(float(table["mean"][b]))
    return f"{place(table, a)} ({means[0]} against {means[1]})"


@lru_cache
def findings(run: FinishedRun) -> list[Finding]:
    """Return what a reader should know first, most important first."""
    items = [Finding(fault, warning=True) for fault in run.faults]
    if run.record.status != "ok":
        name, command = run.record.dataset.title, run.record.command
        fetch = f" This gets it and runs: {command}" if command else ""
        items.append(Finding(f"Not run: {name} is not at hand.{fetch}", open=True))
    if run.rows is not None and len(run.rows["n"]) and run.record.status == "ok":
        table = summarise(run.rows)
        checked = check_cells(table)
        items += verdict(run)
        if run.kind.compared:
            sound = {name: column[~checked.off] for name, column in table.items()}
            items.append(_comparison(_one_panel(sound, run), run.record.baseline))
        if run.kind.means:  # what is drawn there is shown nowhere
            items += _theory(checked)
        items += _disagreements(table, checked)
    if run.bound is not None:
        items.append(_bound(run.bound))
    return [finding for finding in items if finding.text] or [Finding("Nothing was measured.")]


def _one_panel(table: Table, run: FinishedRun) -> Table:
    """Return the series that may be compared: those in the panel of the published setting."""
    series = run.record.config.get("mechanisms", ())
    panels = {item["series"]: item.get("panel", "") for item in series}
    if run.record.baseline not in panels:
        return table
    panel = panels[run.record.baseline]
    same = np.array([panels.get(name, panel) == panel for name in table["series"]], dtype=bool)
    return {name: column[same] for name, column in table.items()}


def _comparison(table: Table, baseline: str) -> Finding:
    """Say how much nearer the best series is than the published setting, at the same budget."""
    names = unique(table["series"])[0]
    ratios = {name: _ratios(table, baseline, name) for name in names if name != baseline}
    ratios = {name: ratio for name, ratio in ratios.items() if len(ratio.values)}
    if not ratios:
        return _range(table)
    decided = [name for name, ratio in ratios.items() if ratio.decided(len(ratios))]
    better = [name for name in decided if ratios[name].gain > 1]
    best = max(better or ratios, key=lambda name: ratios[name].gain)
    values, gain, sure = ratios[best].values, ratios[best].gain, best in decided
    text = say("comparison", baseline=baseline, best=best, gain=gain, decided=sure, values=values)
    return Finding(text, open=not sure)


class _Ratios(NamedTuple):
    """Mean errors of one series over those of another, and the relative error of each ratio."""

    values: NDArray[np.float64]
    noise: NDArray[np.float64]

    @property
    def gain(self) -> float:
        """Their geometric mean."""
        return float(np.exp(np.log(self.values).mean()))

    def decided(self, tests: int) -> bool:
        """Tell whether the geometric mean is not 1, by a z-test shared with `tests` series."""
        from scipy import special

        spread = float(np.sqrt((self.noise**2).sum())) / len(self.values)
        limit = -float(special.ndtri(NOMINAL / (2 * tests)))
        return bool(abs(np.log(self.gain)) > limit * spread)


def _ratios(table: Table, baseline: str, name: str) -> _Ratios:
    """Return mean error of `baseline` over mean error of `name`, for each class and budget."""
    claim = {"left": name, "right": baseline, "above": 0.0, "below": np.inf, "labels": None}
    pairs = [(a, b) for a, b in rows_of(claim, table) if table["mean"][a] > 0]
    a, b = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    relative = table["se"] / table["mean"]
    noise = np.hypot(relative[a], relative[b])
    return _Ratios(table["mean"][b] / table["mean"][a], np.nan_to_num(noise, nan=np.inf))


def _range(table: Table) -> Finding:
    """Say how far the private mean is from the true one, where there is nothing to compare with."""
    good = table["count"] > 0
    if not good.any():
        return Finding("")
    symbol = " or ".join(dict.fromkeys(letter(str(x)) for x in table["definition"][good]))
    ends = {}
    for budget in (table["budget"][good].min(), table["budget"][good].max()):
        means = table["mean"][good & (table["budget"] == budget)]
        ends[budget] = means.min(), means.max()
    return Finding(say("ranges", symbol=symbol, ends=ends), stated=True)


def _theory(checked: LawChecks) -> list[Finding]:
    """Say how many measured means agree with their law, and at which rate that was asked."""
    count, off = int(checked.known.sum()), int(checked.off.sum())
    if not count:
        return []
    farthest = np.nanmax(checked.score)
    text = say("laws", count=count, off=off, farthest=farthest, rate=STATED)
    return [Finding(text, warning=off > 0)]


def _disagreements(table: Table, checked: LawChecks) -> list[Finding]:
    """Say of each series which means are not those of its law, and what that is worth."""
    out = []
    for series in unique(table["series"][checked.off])[0]:
        rows = np.flatnonzero(checked.off & (table["series"] == series))
        worst = int(rows[np.argmax(checked.score[rows])])
        text = say(
            "disagreements",
            first=disagreement(table, checked, worst),
            count=len(rows),
            names=unique(table["class_name"][rows])[0],
            less=(table["mean"][rows] < checked.reference[rows]).any(),
        )
        out.append(Finding(text, warning=True))
    return out


def _bound(bound: Table) -> Finding:
    """Say whether the proven bound holds on every image."""
    broken = [str(name) for name in bound["class_name"][~bound["ok"].astype(bool)]]
    text = say("bound", broken=broken, fullest=100 * bound["ratio"].max())
    return Finding(text, warning=bool(broken))
