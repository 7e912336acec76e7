"""What the private means of a run are good for: its four blocks, from ``use.json`` and the rows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS, terms_of
from pipeline.figures import Figure, accuracies, digits, letter, matrices, number
from pipeline.report.runs import FinishedRun
from pipeline.results import Table, summarise, unique


def beside_distances(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return a line a class: how far the next class lies, and how much of that the error is."""
    use = run.use
    if not use or run.rows is None or len(use["classes"]) < 2:
        return None
    apart = np.array(use["distances"])
    np.fill_diagonal(apart, np.inf)
    table = summarise(run.rows)
    budgets = sorted(set(run.record.config["budgets"]))
    shown = list(dict.fromkeys([budgets[0], use["budget"], budgets[-1]]))
    symbol = letter(run.record.config["definition"])
    lines = []
    for place, name in enumerate(use["classes"]):
        nearest = int(np.argmin(apart[place]))
        distance = float(apart[place, nearest])
        errors = (_error(table, name, use["series"], value) for value in shown)
        cells = [f"{number(error)} ({_share(error / distance)})" for error in errors]
        lines.append([name, use["classes"][nearest], number(distance), *cells])
    heads = [f"Error at {symbol} = {number(value)}" for value in shown]
    return {"heads": ["Class", "Nearest class", "Distance", *heads], "lines": lines, "text": 2}


def _error(table: Table, name: str, series: str, budget: float) -> float:
    mine = (table["class_name"] == name) & (table["series"] == series) & (table["budget"] == budget)
    return float(table["mean"][mine][0]) if mine.any() else np.nan


def _share(value: float) -> str:
    """Return a share of a distance: in hundredths, or in whole times where it is more."""
    if not np.isfinite(value):
        return "–"
    return f"{100 * value:.2g} %" if value < 1 else f"{value:.2g} times it"


def kept(run: FinishedRun) -> Figure | None:
    """Return what the nearest mean tells right at each budget, beside the true means."""
    use = run.use
    if not use or not use["kept"] or len(use["classes"]) < 2:
        return None
    records = []
    for one in use["kept"]:
        shares = np.array(one["kept"])
        middle, spread = float(shares.mean()), float(shares.std())
        ends = {"low": max(middle - spread, 0.0), "high": min(middle + spread, 1.0)}
        point = {"value": middle, **ends}
        rounded = {name: float(f"{value:.5g}") for name, value in point.items()}
        records.append({"series": one["series"], "budget": one["budget"], **rounded})
    order = [item["series"] for item in run.record.config["mechanisms"]]
    colours = {name: order.index(name) for name in dict.fromkeys(r["series"] for r in records)}
    guess = 1.0 / len(use["classes"])
    levels = {"by the true means": use["plain"]}
    if min(record["low"] for record in records) < 2.0 * guess:
        levels["by guessing"] = guess
    draws = len(use["kept"][0]["kept"])
    return accuracies(
        records,
        colours=colours,
        levels=levels,
        along=f"budget {letter(run.record.config['definition'])}",
        caption=f"Line: mean of {draws} draws of all classes. Band: ± one standard deviation of "
        "them. Told right: the share of a class that lies nearest to its own mean, averaged over "
        f"classes; guessing has {100 * guess:.3g} %.",
    )


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
            {"value": _signed(a), "band": f"{_signed(b)} without noise", "word": ""}
            for a, b in pairs
        ]
        lines.append({"title": term.title, "unit": term.unit, "cells": cells})
    symbol = letter(run.record.config["definition"])
    return {
        "unit": f"{use['series']}, {symbol} = {number(use['budget'])}",
        "heads": [(name, sizes.get(name, 0)) for name in use["classes"]],
        "lines": lines,
    }


def _signed(value: float) -> str:
    return digits(float(value)).replace("-", "−")
