"""Findings of a run, in sentences: computed from the rows, so that they cannot disagree with them.

First means held against their laws, and how rarely that errs by chance: the one rule by which a
report calls anything true. Then what a reader should know first. Add-ons bring verdicts on what an
experiment states (`FINDINGS`).

**A mean against its law.** Where the mean of the law is known exactly, a cell (class, series and
budget) whose measured mean disagrees with it earns nothing: neither it nor what rests on it. All
errors here have a density ∝ ρ^(d−1)·g(ρ) on manifolds that are not negatively curved, g
log-concave. Against Gamma(d), scaled to the same mean m, the logarithm of that density is concave,
so it crosses at most twice: the error is below Gamma(d) in convex order, its variance at most m²/d,
with equality for Laplace noise. The sum of n errors is held against Gamma(n·d). The spread of the
sample is not used: chains that have not mixed spread most. Elsewhere a t-test is made. A chain is
then compared by the spread of the exact draws of the same noise in the same run, and where no law
is known with their mean.

**Rates.** `RATE` bounds the probability of a wrong decision over all cells of a run, by Bonferroni.
The errors are skewed, so that a t-test on ten of them is wrong up to a hundred times as often as it
claims: it is made at `NOMINAL`.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.figures import letter, number
from covdp.geometry import MANIFOLDS
from covdp.registry import Registry
from covdp.report.page import Finding
from covdp.report.runs import FinishedRun
from covdp.report.templates import say
from covdp.results import Table, summarise, unique

FINDINGS = Registry[Callable[[FinishedRun], list[Finding]]]("findings", {}, word="finding")
"""Key of the config of a run → what is found of runs that have it."""
Claim = Mapping[str, Any]
"""A statement of an experiment's TOML."""
EQUAL = 1e-9
"""Relative difference of two exact expectations that is rounding."""
RATE = 1e-3
"""Stated probability of a wrong decision: over the cells of a run, over those of a statement."""
NOMINAL = RATE / 100
"""The same, for a t-test on skewed errors."""
STATED = f"a false alarm has probability at most {100 * RATE:g} %"


class LawChecks(NamedTuple):
    """Each cell of a summary held against its law.

    Attributes
    ----------
    known, off : array of bool, shape (cells,)
        True if there is anything to compare with; true if it disagrees.
    reference : array, shape (cells,)
        The mean of the law, or that of exact draws of it; NaN where there is none.
    p : array, shape (cells,)
        Probability of a mean as far from it; NaN where there is none.
    shape : array, shape (cells,)
        n·d of the Gamma law that bounds the spread of the sum, NaN where none does.
    exact : array, shape (cells,)
        The exact expectation of what was drawn exactly and agrees with its law, else NaN.
    """

    known: NDArray[np.bool_]
    off: NDArray[np.bool_]
    reference: NDArray[np.float64]
    p: NDArray[np.float64]
    shape: NDArray[np.float64]
    exact: NDArray[np.float64]

    def of_squares(self, expected: NDArray[np.float64]) -> "LawChecks":
        """Return the same of squared errors, which are `expected` where the errors are exact.

        Parameters
        ----------
        expected : array, shape (cells,)
            Exact expectations of the squared errors.
        """
        exact = np.where(np.isfinite(self.exact), expected, np.nan)
        return self._replace(exact=exact, shape=np.full_like(self.shape, np.nan))


def check_cells(table: Table) -> LawChecks:
    """Hold each mean of `table`, a summary of errors, against its law.

    Parameters
    ----------
    table : Table
        Summary of errors: a cell each series, class and budget.

    Returns
    -------
    LawChecks
        Reference and p of each cell.
    """
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
    for chain, exact in _pairs(table, radial):
        unknown = not np.isfinite(expected[chain])
        paired[chain], freedom[chain] = True, count[exact] - 1.0
        expected[chain] = mean[exact] if unknown else expected[chain]
        scale[chain] = table["sd"][exact] * np.sqrt(1 / count[chain] + unknown / count[exact])
    spread &= ~paired
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
        p=np.where(testable, p, np.nan),
        shape=np.where(radial & ~off, count * d, np.nan),
        exact=np.where(
            testable & ~off & (table["sampler"] == "exact"), table["expected_error"], np.nan
        ),
    )


def is_meant(claim: Claim, label: int, budget: float, night: int) -> bool:
    """Tell whether a claim is about a class, a budget and a night.

    Parameters
    ----------
    claim : Claim
        Statement of an experiment.
    label : int
        Label of the class.
    budget : float
        Budget, in the parameter of the definition.
    night : int
        Number of the night; 0 where nights are not counted.

    Returns
    -------
    bool
        True if the claim is about them.
    """
    labels, nights = claim["labels"], claim.get("nights")
    within = claim["above"] <= budget <= claim["below"]
    return within and (labels is None or label in labels) and (nights is None or night in nights)


def rows_of(claim: Claim, table: Table) -> list[tuple[int, int]]:
    """Return the rows of both series of a claim, in every class and budget it is about.

    Parameters
    ----------
    claim : Claim
        Statement of an experiment about two series, `left` and `right`.
    table : Table
        Summary of results.
    """
    nights = table.get("night", np.zeros_like(table["label"]))
    keys = zip(table["series"], table["label"], table["budget"], nights, strict=True)
    rows = {key: row for row, key in enumerate(keys) if table["count"][row] > 0}
    return [
        (row, rows[other])
        for (series, *where), row in rows.items()
        if series == claim["left"] and is_meant(claim, *where)
        if (other := (claim["right"], *where)) in rows
    ]


def disagreement(table: Table, checked: LawChecks, row: int) -> str:
    """Return how the mean of a cell differs from that of its law, in words.

    Parameters
    ----------
    table : Table
        Summary of errors.
    checked : LawChecks
        Reference and p of each cell.
    row : int
        Number of the cell.
    """
    mean, law = float(table["mean"][row]), float(checked.reference[row])
    series = f"“{table['series'][row]}”"
    if table["sampler"][row] == "chain":
        series += " has not mixed:"
    text = f"{series} mean error {number(mean)} where its law has {number(law)}"
    if mean < law:
        return f"{text}, {number(law / mean)} times too little noise"
    return text


def place(table: Table, row: int, *series: str) -> str:
    """Return class and budget of a cell, its series if given, and its night where it has one.

    Parameters
    ----------
    table : Table
        Summary of results.
    row : int
        Number of the cell.
    *series : str
        Words for its series, at most one.
    """
    night = int(table["night"][row]) if "night" in table else 0
    budget = f"{letter(str(table['definition'][row]))} = {number(float(table['budget'][row]))}"
    text = ", ".join([table["class_name"][row], *series, budget])
    return f"{text}, night {night}" if night else text


def _bends_down(manifold: str) -> bool:
    """Tell whether volume grows faster than in a flat space, so that laws may spread more."""
    curvature: tuple[float, float] = getattr(MANIFOLDS.get(manifold), "curvature", (0.0, 0.0))
    return curvature[0] < 0


def _pairs(table: Table, radial: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the rows of chains whose law is not `radial`, each with that of the same, exact."""
    same = ("label", "budget", "mechanism", "definition", "footpoint", "distance", "sigma")
    columns = [table[name].tolist() for name in same if name in table]
    keys = list(zip(*columns, strict=True))
    good = (table["count"] > 1) & (table["se"] > 0)
    exact = {
        key: row
        for row, key in enumerate(keys)
        if good[row] and table["sampler"][row] == "exact" and not radial[row]
    }
    return [
        (row, exact[key])
        for row, key in enumerate(keys)
        if table["sampler"][row] == "chain" and table["count"][row] and not radial[row]
        if key in exact
    ]


@lru_cache
def findings(run: FinishedRun) -> list[Finding]:
    """Return what a reader should know first, most important first.

    Parameters
    ----------
    run : FinishedRun
        Finished run.
    """
    items = [Finding(fault, warning=True) for fault in run.faults]
    if run.record.status != "ok":
        name, command = run.record.dataset.title, run.record.command
        fetch = f" This gets it and runs: {command}" if command else ""
        items.append(Finding(f"Not run: {name} is not at hand.{fetch}", open=True))
    if run.rows is not None and len(run.rows["n"]) and run.record.status == "ok":
        table = summarise(run.rows)
        checked = check_cells(table)
        stated = [FINDINGS[key] for key in FINDINGS if run.record.config.get(key)]
        items += [finding for judge in dict.fromkeys(stated) for finding in judge(run)]
        if run.kind.compared:
            sound = {name: column[~checked.off] for name, column in table.items()}
            items.append(_comparison(_one_panel(sound, run), run.record.baseline))
        if run.kind.means:  # what is drawn there is shown nowhere
            items += _theory(table, checked)
        items += _disagreements(table, checked)
    if run.bound is not None:
        items.append(_bound(run.bound))
    return [finding for finding in items if finding.text] or [Finding("Nothing was measured.")]


def _one_panel(table: Table, run: FinishedRun) -> Table:
    """Return the series that may be compared: of the panel and guarantee of the published setting.

    A budget is the same only in one definition, and at one δ.
    """
    config = run.record.config
    kinds = {
        item["series"]: (
            item.get("panel", ""),
            *(item.get(key) or config.get(key) for key in ("definition", "delta")),
        )
        for item in config.get("mechanisms", ())
    }
    if run.record.baseline not in kinds:
        return table
    kind = kinds[run.record.baseline]
    same = np.array([kinds.get(name, kind) == kind for name in table["series"]], dtype=bool)
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
    return Finding(text, open=not sure, result=True)


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
        return bool(abs(np.log(self.gain)) > limit * spread + EQUAL)


def _ratios(table: Table, baseline: str, name: str) -> _Ratios:
    """Return mean error of `baseline` over mean error of `name`, for each class and budget.

    Expectations stand in place of means where both are known exactly; cells that disagree with
    theirs are not in `table`.
    """
    claim = {"left": name, "right": baseline, "above": 0.0, "below": np.inf, "labels": None}
    pairs = [(a, b) for a, b in rows_of(claim, table) if table["mean"][a] > 0]
    a, b = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    relative = table["se"] / table["mean"]
    noise = np.nan_to_num(np.hypot(relative[a], relative[b]), nan=np.inf)
    laws = table["expected_error"][b] / table["expected_error"][a]
    known = np.isfinite(laws)
    values = np.where(known, laws, table["mean"][b] / table["mean"][a])
    return _Ratios(values, np.where(known, 0.0, noise))


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
    return Finding(say("ranges", symbol=symbol, ends=ends), stated=True, result=True)


def _theory(table: Table, checked: LawChecks) -> list[Finding]:
    """Say how many measured means agree with their law, and at which rate that was asked."""
    count, off = int(checked.known.sum()), int(checked.off.sum())
    if not count:
        return []
    worst = int(np.nanargmin(checked.p))
    text = say(
        "laws",
        count=count,
        off=off,
        ratio=table["mean"][worst] / checked.reference[worst],
        where=place(table, worst, f"“{table['series'][worst]}”"),
        rate=STATED,
    )
    return [Finding(text, warning=off > 0)]


def _disagreements(table: Table, checked: LawChecks) -> list[Finding]:
    """Say of each series which means are not those of its law, and what that is worth."""
    out = []
    for series in unique(table["series"][checked.off])[0]:
        rows = np.flatnonzero(checked.off & (table["series"] == series))
        worst = int(rows[np.argmin(checked.p[rows])])
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
