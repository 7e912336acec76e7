"""Blocks of the page of an experiment that are of papers: statements, numbers, outlines, tables.

Named in ``reports/report.toml``, each with the runs that have it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from covdp.addons.papers.verdicts import claims, median_times, our_value
from covdp.figures import Figure, letter, listing, number, style
from covdp.figures.style import Axis, channel
from covdp.mechanisms import MECHANISMS
from covdp.mechanisms.wrapping import Norms, mean_reach, printed_mean
from covdp.report.page import table
from covdp.report.run_page import lines_of, rows_with
from covdp.report.runs import FinishedRun
from covdp.results import Table, cells_of, summarise

PAPER, OURS = "Paper", "Ours"
ACROSS = 6
"""Outlines in a row."""
LEVELS = (0.95, 0.9)
"""Confidences of the regions whose coverage is shown."""
MEDIANS = ("region_radius", "error")
"""Columns whose medians over regions are shown."""


def statements(run: FinishedRun, *, own: bool) -> list[Any]:
    """Return the verdicts on the statements of a paper, or on our own claims.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    own : bool
        True for our own claims, False for the statements of a paper.
    """
    return [] if own == bool(run.record.config.get("paper")) else claims(run)


def printed(run: FinishedRun) -> Figure | None:
    """Return the numbers that the paper prints with ours, drawn.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    """
    return printed_numbers(printed_lines(run))


def printed_numbers(lines: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draw printed numbers and ours as two marks in a row.

    Parameters
    ----------
    lines : sequence of mapping
        ``quantity``, ``unit`` ("s" for seconds, "" for none), and the numbers ``paper`` and
        ``ours``, NaN where it was not run.

    Returns
    -------
    Figure or None
        None when there is no printed number, and when units of measurement differ: they have no
        axis in common.
    """
    if len({line["unit"] for line in lines}) != 1:
        return None
    records = [
        {"quantity": line["quantity"], "whose": whose, "value": float(line[whose.lower()])}
        for line in lines
        for whose in (PAPER, OURS)
        if math.isfinite(line[whose.lower()])
    ]
    unit, names = str(lines[0]["unit"]), [str(line["quantity"]) for line in lines]
    axis = Axis("", seconds=True) if unit == "s" else Axis(unit)
    along = style.position(axis, np.array([record["value"] for record in records]), along=False)
    chart = style.chart_of(
        "printed",
        x=channel("value:Q", **{**along, "title": along["title"] or None}),
        y=style.down("quantity", names, 40),
        whose=[PAPER, OURS],
    )
    numbers = "; ".join(
        f"{line['quantity']}: {number(line['paper'])} in the paper, {number(line['ours'])} here"
        for line in lines
    )
    return style.finish(
        chart,
        records,
        name="printed",
        title="Printed numbers and ours",
        alt=f"Numbers that the paper prints and ours. {numbers}.",
        caption="Diamond: as printed in the paper. Dot: the same quantity here.",
        legend=(PAPER, OURS),
        columns={"value": "seconds"} if unit == "s" else {},
    )


def printed_lines(run: FinishedRun) -> list[dict[str, Any]]:
    """Return the numbers that the paper prints with ours, NaN where it was not run.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    """
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
    """Return seconds a draw: median, mean and standard error of each class and series.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    """
    if run.rows is None or run.subject != "times":
        return []
    medians = median_times(run.rows)["mean"]
    return list(lines_of({**summarise(run.rows, value="seconds"), "median": medians}))


def totals(run: FinishedRun) -> dict[str, Any] | None:
    """Return the table of compositions: noise and definition down, number of queries across.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
    """
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
    """Return the shares of regions that hold the true mean, their width and their availability.

    There is a row per class, series and budget of rows on regions; none where none were made.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
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

    Rows are those of Gaussian noise around footpoints at stated distances, and around the public
    origin.

    Parameters
    ----------
    run : FinishedRun
        Run, with its rows if it had data.
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


def outlines(shapes: Mapping[str, Sequence[Sequence[Sequence[float]]]]) -> Figure | None:
    """Draw closed outlines, one row a series, at most six in a row, each as wide as its square.

    Parameters
    ----------
    shapes : mapping of str to array-like, shape (count, landmarks, 2)
        Outlines of each series.

    Returns
    -------
    Figure or None
        Chart; None without outlines.
    """
    if not shapes:
        return None
    records: list[dict[str, Any]] = [
        {"line": row, "place": column, "order": order, "x": point[0], "y": point[1]}
        for row, outlines_ in enumerate(shapes.values())
        for column, outline in enumerate(outlines_[:ACROSS])
        for order, point in enumerate(_scaled([*outline, outline[0]]))
    ]
    names = style.broken(range(len(shapes)), list(shapes), 18)
    return style.finish(
        style.chart_of("outlines", names=names),
        records,
        name="outlines",
        title="Private outlines",
        alt=f"Closed outlines in rows: {listing(shapes)}.",
        caption="At most six of each, turned onto the true mean and scaled to one width: a shape "
        "has neither place nor angle nor size. Records and true mean are not private.",
        columns={"line": "row", "place": "outline", "order": "landmark"},
    )


def _scaled(outline: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return an outline that reaches from −1 to 1 along its longer side, around 0."""
    columns = list(zip(*outline, strict=True))
    reach = max(max(column) - min(column) for column in columns) / 2
    middle = [(max(column) + min(column)) / 2 for column in columns]
    return [
        [round((value - centre) / reach, 4) for value, centre in zip(point, middle, strict=True)]
        for point in outline
    ]
