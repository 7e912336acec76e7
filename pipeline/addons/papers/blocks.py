"""Blocks of the page of an experiment that are of papers: statements, printed numbers, tables.

Named in ``reports/report.toml``, each with the runs that have it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from covdp.addons.papers.verdicts import claims, median_times, our_value
from covdp.figures import Figure, letter, number, printed_numbers
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.wrapping import Norms, mean_reach, printed_mean
from covdp.report.page import table
from covdp.report.run_page import lines_of, rows_with
from covdp.report.runs import FinishedRun
from covdp.results import Table, cells_of, summarise

LEVELS = (0.95, 0.9)
"""Confidences of the regions whose coverage is shown."""
MEDIANS = ("region_radius", "error")
"""Of these the medians over regions are shown."""


def statements(run: FinishedRun, *, own: bool) -> list[Any]:
    """Return what became of the statements of a paper, or of our own claims."""
    return [] if own == bool(run.record.config.get("paper")) else claims(run)


def printed(run: FinishedRun) -> Figure | None:
    """Return the numbers that the paper prints with ours, drawn."""
    return printed_numbers(printed_lines(run))


def printed_lines(run: FinishedRun) -> list[dict[str, Any]]:
    """Return the numbers that the paper prints with ours, NaN where it was not run."""
    if run.rows is None or run.record.status != "ok":
        return []
    return [
        {
            "quantity": item["quantity"],
            "unit": item["unit"],
            "paper": item["value"],
            "ours": (ours := our_value(item, run)),
            "ran": bool(np.isfinite(ours)),
        }
        for item in run.record.config.get("published", ())
    ]


def times(run: FinishedRun) -> list[dict[str, Any]]:
    """Return seconds a draw: median, mean and standard error of each class and series."""
    if run.rows is None or run.subject != "times":
        return []
    medians = median_times(run.rows)["mean"]
    return list(lines_of({**summarise(run.rows, value="seconds"), "median": medians}))


def totals(run: FinishedRun) -> dict[str, Any] | None:
    """Return the table of compositions: noise and definition down, number of queries across."""
    if run.rows is None or run.subject != "budgets":
        return None
    rows = run.rows
    queries = sorted({int(n) for n in rows["n"]})
    lines = []
    for series, definition in dict.fromkeys(zip(rows["series"], rows["definition"], strict=True)):
        cells = []
        for count in queries:
            cell = rows_with(rows, series=series, definition=definition, n=count)
            parts = {"": "budget", ", δ = ": "delta", ", τ = ": "tau"}
            values = {text: float(rows[name][cell][0]) for text, name in parts.items()}
            texts = [text + number(value) for text, value in values.items() if np.isfinite(value)]
            cells.append("".join(texts))
        lines.append([series, f"{definition} {letter(str(definition))}", *cells])
    return table(["Noise", "Definition", *(f"m = {m}" for m in queries)], lines, text=2)


def coverage(run: FinishedRun) -> list[dict[str, Any]]:
    """Return how often regions hold the true mean, how wide they are and when there are any.

    A row per class, series and budget of rows on regions; none where none were made.
    """
    rows = run.rows
    if rows is None or "reach" not in rows or not np.isfinite(rows["reach"]).any():
        return []
    return [
        _coverage_row({name: column[at] for name, column in rows.items()}) for at in cells_of(rows)
    ]


def _coverage_row(cell: Table) -> dict[str, Any]:
    """Return a cell: shares with what they are of, medians of the regions that are available."""
    offered = cell["offered"] > 0
    count, reach = int(offered.sum()), cell["reach"][offered]
    medians = {x: float(np.median(cell[x][offered])) if count else np.nan for x in MEDIANS}
    return {
        **{name: cell[name][0] for name in ("class_name", "series", "n", "budget")},
        **medians,
        "letter": letter(str(cell["definition"][0])),
        "available": _share(count, len(offered)),
        "held": {level: _share(int((reach <= level).sum()), count) for level in LEVELS},
    }


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:.3g} % ({count} of {total})" if total else "–"


def bounds(run: FinishedRun) -> list[dict[str, Any]]:
    """Return each mean error of a wrapped mechanism beside its bounds, by the theorem and without.

    Of Gaussian noise around footpoints at stated distances, and around the public origin.
    """
    series = run.record.config.get("mechanisms", ())
    chosen = {
        item["series"]: (item.get("footpoint_distance"), MECHANISMS[item["mechanism"]].noise_norms)
        for item in series
        if item.get("footpoint") == "origin" or item.get("footpoint_distance") is not None
    }
    if run.rows is None or all(distance is None for distance, _ in chosen.values()):
        return []
    out = []
    for line in lines_of(summarise(run.rows)):
        stated, norms = chosen.get(line["series"], (None, None))
        if line["count"] and norms is not None:
            distance = line["footpoint_distance"] if stated is None else stated
            out.append(line | {"distance": distance} | _bounds_of(line, distance, norms))
    return out


def _bounds_of(
    line: Mapping[str, Any], distance: float, norms: Callable[[float, int], Norms]
) -> dict[str, Any]:
    """Return the bounds of one mean error, by the distance of its footpoint and its noise."""
    sigma, dim = line["sigma"], int(line["dim"])
    law = norms(sigma, dim)
    return {
        "letter": letter(str(line["definition"])),
        "least": float(law[0] @ law[1]),
        "curved": line["error_bound"],
        "corrected": float(mean_reach(law, np.array(distance), dim)) + distance,
        "printed": float(printed_mean(sigma, np.array(distance), dim)) + distance,
    }
