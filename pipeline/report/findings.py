"""What was found, in sentences: computed from the rows, so that they cannot disagree with them."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.figures import letter
from pipeline.report.claims import verdict
from pipeline.report.evidence import NOMINAL, STATED, Checked, check_cells, disagreement, rows_of
from pipeline.report.page import Finding
from pipeline.report.runs import FinishedRun
from pipeline.report.templates import say
from pipeline.results import Table, summarise, unique


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
    return Finding(say("ranges", symbol=symbol, ends=ends), told=True)


def _theory(checked: Checked) -> list[Finding]:
    """Say how many measured means agree with their law, and at which rate that was asked."""
    count, off = int(checked.known.sum()), int(checked.off.sum())
    if not count:
        return []
    farthest = np.nanmax(checked.score)
    text = say("laws", count=count, off=off, farthest=farthest, rate=STATED)
    return [Finding(text, warning=off > 0)]


def _disagreements(table: Table, checked: Checked) -> list[Finding]:
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
