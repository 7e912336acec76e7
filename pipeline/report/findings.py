"""What was found, in sentences: computed from the rows, so that they cannot disagree with them."""

import numpy as np
from numpy.typing import NDArray

from pipeline.figures import letter, listing, number
from pipeline.report.claims import verdict
from pipeline.report.finding import Finding
from pipeline.report.sources import Run
from pipeline.results import Table, summarise, unique

__all__ = ["Finding", "findings", "gaps"]

FALSE_ALARM = 1e-6
"""How rarely the sentence on theory may raise a false alarm, over all means of a run."""


def findings(run: Run) -> list[Finding]:
    """Return what a reader should know first, most important first."""
    found = [Finding(fault, warning=True) for fault in run.faults]
    if run.record.status != "ok":
        name, command = run.record.dataset.title, run.record.command
        fetch = f" This gets it and runs: {command}" if command else ""
        found.append(Finding(f"{name}: {run.record.status}.{fetch}", warning=True))
    if run.rows is not None and len(run.rows["n"]):
        table = summarise(run.rows)
        found += verdict(run)
        if run.record.config.get("kind", "error") == "error":
            found.append(_comparison(_one_panel(table, run), run.record.baseline))
        found.append(_theory(table))
    if run.bound is not None:
        found.append(_bound(run.bound))
    return [finding for finding in found if finding.text] or [Finding("Nothing was measured.")]


REASONS = {
    "undefined": "its density does not exist at the scale of noise this budget asks for, "
    "so there is nothing to draw",
    "not representable": "its noise is so wide that no matrix of doubles can hold an output",
    "data not available": "there was no data to run it on",
}
"""Why a row has no result, by its status."""


def gaps(rows: Table) -> list[Finding]:
    """Return one sentence for each series that has rows without a result, saying which and why."""
    missing = rows["status"] != "ok"
    out = []
    for series in unique(rows["series"][missing])[0]:
        mine = missing & (rows["series"] == series)
        budgets = sorted(set(rows["budget"][mine].tolist()))
        symbol = letter(str(rows["definition"][mine][0]))
        names = unique(rows["class_name"][mine])[0]
        reason = listing(REASONS[status] for status in unique(rows["status"][mine])[0])
        where = listing([number(budget) for budget in budgets])
        text = f"{series} has no result at {symbol} = {where} ({listing(names)}): {reason}."
        out.append(Finding(text))
    return out


def _one_panel(table: Table, run: Run) -> Table:
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
    ratios = {name: values for name, values in ratios.items() if len(values)}
    if not ratios:
        return _range(table)
    best = max(ratios, key=lambda name: float(np.exp(np.log(ratios[name]).mean())))
    values = ratios[best]
    gain = float(np.exp(np.log(values).mean()))
    if gain <= 1:
        return Finding(
            f"At the same budget no series has a smaller error than the published setting, "
            f"“{baseline}”; the closest, “{best}”, has {number(1 / gain)} times its error."
        )
    span = listing([_smaller(values.min()), _smaller(values.max())])
    return Finding(
        f"At the same budget, the error of “{best}” is {_smaller(gain)} than that of the published "
        f"setting, “{baseline}”"
        + (
            f" (geometric mean over {len(values)} pairs of class and budget; between {span})."
            if len(values) > 1
            else "."
        )
    )


def _smaller(factor: float) -> str:
    """Return in words how much smaller an error is that was divided by `factor`."""
    if factor >= 2:
        return f"{number(factor)} times smaller"
    return (
        f"{100 * (1 - 1 / factor):.0f} % smaller"
        if factor >= 1
        else f"{100 * (1 / factor - 1):.0f} % larger"
    )


def _ratios(table: Table, baseline: str, name: str) -> NDArray[np.float64]:
    """Return mean error of `baseline` over mean error of `name`, for each class and budget."""
    points = list(zip(table["label"].tolist(), table["budget"].tolist(), strict=True))
    means: list[dict[tuple[int, float], float]] = []
    for series in (baseline, name):
        mine = (table["series"] == series) & (table["count"] > 0)
        chosen = [point for point, keep in zip(points, mine, strict=True) if keep]
        means.append(dict(zip(chosen, table["mean"][mine].tolist(), strict=True)))
    reference, other = means
    return np.array([reference[key] / other[key] for key in reference if other.get(key, 0) > 0])


def _range(table: Table) -> Finding:
    """Say how far the private mean is from the true one, where there is nothing to compare with."""
    good = table["count"] > 0
    if not good.any():
        return Finding("")
    symbol = letter(str(table["definition"][0]))
    ends = []
    for budget in (table["budget"][good].min(), table["budget"][good].max()):
        means = table["mean"][good & (table["budget"] == budget)]
        ends.append(
            f"{number(means.min())} to {number(means.max())} at {symbol} = {number(budget)}"
        )
    return Finding(f"Mean distance to the true mean: {', and '.join(dict.fromkeys(ends))}.")


def _theory(table: Table) -> Finding:
    """Say whether measured means and exact expectations agree, by a t-test with Bonferroni."""
    from scipy import special

    known = np.isfinite(table["expected_error"]) & (table["count"] > 1) & (table["se"] > 0)
    if not known.any():
        return Finding("")
    mean, se, count = table["mean"][known], table["se"][known], table["count"][known]
    score = np.abs(mean - table["expected_error"][known]) / se
    limit = -special.stdtrit(count - 1, FALSE_ALARM / (2 * len(score)))
    off = int((score > limit).sum())
    farthest = f"the farthest lies {number(score.max())} standard errors away"
    if off:
        return Finding(
            f"{off} of {len(score)} mean errors disagree with their exact expectation; {farthest}.",
            warning=True,
        )
    return Finding(f"All {len(score)} mean errors agree with their exact expectation: {farthest}.")


def _bound(bound: Table) -> Finding:
    """Say whether the proven bound holds on every image."""
    broken = [str(name) for name in bound["class_name"][~bound["ok"].astype(bool)]]
    if broken:
        return Finding(
            f"The bound on the descriptors is broken in {listing(broken)}: nothing that rests on "
            "it is private.",
            warning=True,
        )
    tightest = number(100 * bound["ratio"].max())
    return Finding(
        f"The bound on the descriptors holds on every image; the largest fills {tightest} %."
    )
