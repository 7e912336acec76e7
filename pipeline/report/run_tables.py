"""Blocks on the numbers of a run: printed and ours, times, totals, regions, use of the means."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config import ClaimConfig
from pipeline.descriptors import DESCRIPTORS, terms_of
from pipeline.figures import (
    Figure,
    curves,
    digits,
    letter,
    listing,
    matrices,
    number,
)
from pipeline.report.claims import cells, printed
from pipeline.report.page import table
from pipeline.report.readings import signed
from pipeline.report.runs import FinishedRun
from pipeline.results import Table, summarise, unique

LEVELS = (0.95, 0.9)
"""Confidences of the regions whose coverage is shown."""
CLASSIFIED = ("auc", "auc_plain", "balanced", "balanced_plain")


def printed_lines(run: FinishedRun) -> list[dict[str, Any]]:
    """Return the numbers that the paper prints with ours, NaN where it was not run."""
    if run.rows is None or run.record.status != "ok":
        return []
    return [
        {
            "quantity": item["quantity"],
            "unit": item["unit"],
            "paper": item["value"],
            "ours": printed(item, run),
        }
        for item in run.record.config.get("published", ())
    ]


def published(run: FinishedRun) -> dict[str, Any] | None:
    """Return the paper's printed numbers beside ours: quantity, theirs, ours, their ratio."""
    lines = []
    for line in printed_lines(run):
        ours, unit = line["ours"], f" {line['unit']}" if line["unit"] else ""
        lines.append(
            [
                line["quantity"],
                number(line["paper"]) + unit,
                digits(ours) + unit if np.isfinite(ours) else "not run",
                digits(line["paper"] / ours) if ours > 0 else "–",
            ]
        )
    return table(["Quantity", "Paper", "Ours", "Paper over ours"], lines)


def times(run: FinishedRun) -> dict[str, Any] | None:
    """Return seconds a draw: median, mean and standard error of each class and series."""
    if run.rows is None or run.subject != "times":
        return None
    means = summarise(run.rows, value="seconds")
    lines = []
    for row in range(len(means["count"])):
        cell = _rows(run.rows, label=means["label"][row], series=means["series"][row])
        median = float(np.median(run.rows["seconds"][cell]))
        numbers = (median, float(means["mean"][row]), float(means["se"][row]))
        names = [str(means["class_name"][row]), str(means["series"][row])]
        lines.append([*names, *map(number, numbers)])
    heads = ["Setting", "Series", "Median, s", "Mean, s", "± SE"]
    return table(heads, lines, text=2, tall=True)


def passes(run: FinishedRun) -> dict[str, Any] | None:
    """Return images a second, by the median pass, and the most memory, of each set and series."""
    if run.rows is None or run.subject != "passes":
        return None
    rows, lines = run.rows, []
    for name, series in dict.fromkeys(zip(rows["class_name"], rows["series"], strict=True)):
        cell = _rows(rows, class_name=name, series=series)
        seconds = float(np.median(rows["seconds"][cell]))
        memory = float(rows["memory"][cell].max())
        rate = f"{rows['n'][cell][0] / seconds:,.0f}"
        lines.append([name, series, number(seconds), rate, number(memory)])
    heads = ["Set", "Series", "Median, s", "Images/s", "Memory, MB"]
    return table(heads, lines, text=2, tall=True)


def classified(run: FinishedRun) -> dict[str, Any] | None:
    """Return what each classifier tells apart, with noise and without, by series and budget."""
    if run.rows is None or not np.isfinite(run.rows["auc_plain"]).any():
        return None
    tables = [summarise(run.rows, value=name) for name in CLASSIFIED]
    first = tables[0]
    lines = []
    for row in range(len(first["count"])):
        symbol = letter(str(first["definition"][row]))
        means = [float(means["mean"][row]) for means in tables]
        lines.append(
            [
                str(first["series"][row]),
                f"{symbol} = {number(float(first['budget'][row]))}",
                f"{first['n'][row]:,.0f}",
                *(f"{mean:.3f}" if np.isfinite(mean) else "–" for mean in means),
            ]
        )
    plain = "without noise"
    heads = ["Series", "Budget", "n", "AUC", plain, "Balanced accuracy", plain]
    return table(heads, lines, text=2, tall=True)


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
            cell = _rows(rows, series=series, definition=definition, n=count)
            parts = {"": "budget", ", δ = ": "delta", ", τ = ": "tau"}
            values = {text: float(rows[name][cell][0]) for text, name in parts.items()}
            texts = [text + number(value) for text, value in values.items() if np.isfinite(value)]
            cells.append("".join(texts))
        lines.append([series, f"{definition} {letter(str(definition))}", *cells])
    return table(["Noise", "Definition", *(f"m = {m}" for m in queries)], lines, text=2)


def _rows(rows: Table, **values: Any) -> NDArray[np.bool_]:
    """Return which rows have some values in some columns."""
    columns = [rows[name] == value for name, value in values.items()]
    return np.asarray(np.logical_and.reduce(columns))


def coverage(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return a row per class, series and budget of rows on regions; None where none were made."""
    rows = run.rows
    if rows is None or "reach" not in rows or not np.isfinite(rows["reach"]).any():
        return None
    return coverage_of(rows)


def coverage_of(rows: Table) -> Mapping[str, Any] | None:
    """Return how often regions hold the true mean, how wide they are and when there are any."""
    every = ClaimConfig(says="all", place="everywhere", column="offered", factor=1.0).model_dump()
    lines = [_coverage_line(cell) for _, cell in cells(every, rows)]
    symbol = letter(str(rows["definition"][0]))
    shares = [f"Hold it at {100 * level:g} %" for level in LEVELS]
    heads = ["Class", "Series", symbol, "n·μ", "Available", *shares, "Radius", "Error"]
    return table([*heads, "Radius / error"], lines, text=2, tall=True)


def _coverage_line(cell: Table) -> list[str]:
    """Return a cell: shares with what they are of, medians of the regions that are available."""
    offered = cell["offered"] > 0
    count, budget = int(offered.sum()), float(cell["budget"][0])
    line = [str(cell["class_name"][0]), str(cell["series"][0]), number(budget)]
    line += [number(float(cell["n"][0]) * budget), _share(count, len(offered))]
    if not count:
        return [*line, *["–"] * (len(LEVELS) + 3)]
    shares = [_share(int((cell["reach"][offered] <= level).sum()), count) for level in LEVELS]
    radius, error = (float(np.median(cell[key][offered])) for key in ("radius", "error"))
    return [*line, *shares, number(radius), number(error), number(radius / error)]


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:.3g} % ({count} of {total})"


def missing(run: FinishedRun, *, status: str) -> list[str]:
    """Return what has no result for one reason, in sentences."""
    return missing_results(run.rows, status) if run.rows is not None else []


def missing_results(rows: Table, status: str) -> list[str]:
    """Return one sentence for each series on the pairs of class and budget it has no result at.

    Where nights are counted, nights stand for budgets. Classes with the same ones stand together.
    Where nothing has a result, one sentence says so.
    `status` is why, one of `pipeline.results.STATUSES`.
    """
    means = summarise(rows)
    lost = (means["count"] == 0) & (means["status"] == status)
    if lost.any() and lost.all():
        return [f"No result of any series: {listing(unique(means['series'])[0], '; ')}."]
    return [
        f"{series} has no result {'; '.join(_places(means, series, lost))}."
        for series in unique(means["series"][lost])[0]
    ]


def _places(means: Table, series: str, lost: NDArray[np.bool_]) -> Iterator[str]:
    """Yield where a series has no result: budgets or nights, and the classes that share them."""
    nights = bool(np.any(means.get("night", 0)))
    axis = means["night" if nights else "budget"]
    drawn = means["series"] == series
    symbol = "" if nights else letter(str(means["definition"][drawn][0]))
    names = dict(zip(means["label"].tolist(), means["class_name"].tolist(), strict=True))
    classes: dict[tuple[float, ...], list[str]] = {}
    for label in unique(means["label"][drawn])[0]:
        values = sorted(set(axis[drawn & lost & (means["label"] == label)].tolist()))
        classes.setdefault(tuple(values), []).append(names[label])
    for places, alike in classes.items():
        if places:
            everywhere = len(places) == len(set(axis[drawn].tolist())) > 1
            yield f"{_at(symbol, places, everywhere)} ({listing(alike, '; ')})"


def _at(symbol: str, values: Sequence[float], everywhere: bool) -> str:
    """Return budgets, or nights where there is no `symbol`, in words; or that there is no other."""
    if everywhere:
        return "at any budget" if symbol else "on any night"
    shown = listing(map(number, values))
    return f"at {symbol} = {shown}" if symbol else f"on night{'s' * (len(values) > 1)} {shown}"


def beside_distances(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return a row per class: how far the next class is, and how much of that the error is."""
    use = run.use
    if not use or run.rows is None or len(use["classes"]) < 2:
        return None
    apart = np.array(use["distances"])
    np.fill_diagonal(apart, np.inf)
    means = summarise(run.rows)
    budgets = sorted(set(run.record.config["budgets"]))
    shown = list(dict.fromkeys([budgets[0], use["budget"], budgets[-1]]))
    symbol = letter(run.record.config["definition"])
    lines = []
    for place, name in enumerate(use["classes"]):
        nearest = int(np.argmin(apart[place]))
        distance = float(apart[place, nearest])
        errors = (_error(means, name, use["series"], value) for value in shown)
        cells = [f"{number(error)} ({_times(error / distance)})" for error in errors]
        lines.append([name, use["classes"][nearest], number(distance), *cells])
    heads = [f"Error at {symbol} = {number(value)}" for value in shown]
    return table(["Class", "Nearest class", "Distance", *heads], lines, text=2)


def _error(means: Table, name: str, series: str, budget: float) -> float:
    cell = _rows(means, class_name=name, series=series, budget=budget)
    return float(means["mean"][cell][0]) if cell.any() else np.nan


def _times(value: float) -> str:
    """Return a share of a distance: in hundredths, or in whole times where it is more."""
    if not np.isfinite(value):
        return "–"
    return f"{100 * value:.2g} %" if value < 1 else f"{value:.2g} times it"


def kept(run: FinishedRun) -> Figure | None:
    """Return what the nearest mean tells right at each budget, beside the true means."""
    use = run.use
    if not use or not use["kept"] or len(use["classes"]) < 2:
        return None
    config = run.record.config
    points = [(item["series"], use["budget"], np.nan) for item in config["mechanisms"]]  # colours
    points += [(one["series"], one["budget"], x) for one in use["kept"] for x in one["kept"]]
    every = np.ones(len(points))
    rows = {
        "series": np.array([series for series, _, _ in points], dtype=object),
        "budget": np.array([budget for _, budget, _ in points]),
        "accuracy": np.array([share for _, _, share in points]),
        "definition": np.array([config["definition"]] * len(points), dtype=object),
        "class_name": np.array([""] * len(points), dtype=object),
        "expected_error": use["plain"] * every,
        **dict.fromkeys(("label", "n", "dim"), every),
    }
    figure = curves(rows, value="accuracy", panels=())
    caption = (
        f"Mean of {len(use['kept'][0]['kept'])} draws of all classes. Band and stroke: 95 % "
        "confidence for the mean of all draws. Thin dashes: by the true means. Classified "
        "correctly: the share of a class that is nearest to its own mean, averaged over classes; "
        f"guessing has {100 / len(use['classes']):.3g} %."
    )
    return figure and replace(figure, id="accuracies", caption=caption)


def beside_true(run: FinishedRun) -> Figure | None:
    """Return each class's mean without noise and one private mean, side by side."""
    use = run.use
    if not use or use["private"] is None:
        return None
    symbol = letter(run.record.config["definition"])
    private = f"private, {symbol} = {number(use['budget'])}"
    pairs = zip(use["classes"], use["true"], use["private"], strict=True)
    squares = {
        f"{name}: {what}": point
        for name, true, noised in pairs
        for what, point in (("without noise", true), (private, noised))
    }
    features = DESCRIPTORS[run.record.config["descriptor"]].features
    drawn = matrices(list(squares), np.array(list(squares.values())), features, across=2)
    return replace(drawn, title="A private mean beside the true one")


def in_words(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return what the private mean of each class says in words, beside the one without noise."""
    use = run.use
    if not use or use["private"] is None or run.rows is None:
        return None
    true, private = np.array(use["true"]), np.array(use["private"])
    names, codes = unique(run.rows["class_name"])
    sizes = {name: int(run.rows["n"][codes == code][0]) for code, name in enumerate(names)}
    lines = []
    for term in terms_of(DESCRIPTORS[run.record.config["descriptor"]]):
        pairs = zip(term.value(private), term.value(true), strict=True)
        cells = [
            {"value": signed(a), "band": f"{signed(b)} without noise", "word": ""} for a, b in pairs
        ]
        lines.append({"title": term.title, "unit": term.unit, "cells": cells})
    symbol = letter(run.record.config["definition"])
    return {
        "unit": f"{use['series']}, {symbol} = {number(use['budget'])}",
        "heads": [(name, f"{sizes.get(name, 0):,}") for name in use["classes"]],
        "lines": lines,
    }
