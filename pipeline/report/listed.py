"""Tables beside the figures: printed numbers and ours, times, totals, passes, classifiers."""

from typing import Any

import numpy as np

from pipeline.figures import digits, letter, number
from pipeline.report.reasons import printed
from pipeline.report.runs import FinishedRun
from pipeline.results import summarise


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


def published(run: FinishedRun) -> list[dict[str, str]]:
    """Return the paper's printed numbers beside ours: quantity, theirs, ours, their ratio."""
    lines = []
    for line in printed_lines(run):
        ours = line["ours"]
        unit = f" {line['unit']}" if line["unit"] else ""
        lines.append(
            {
                "quantity": line["quantity"],
                "paper": number(line["paper"]) + unit,
                "ours": digits(ours) + unit if np.isfinite(ours) else "not run",
                "ratio": digits(line["paper"] / ours) if ours > 0 else "–",
            }
        )
    return lines


def times(run: FinishedRun) -> list[dict[str, str]] | None:
    """Return seconds a draw: median, mean and standard error of each class and series."""
    if run.rows is None or run.subject != "times":
        return None
    table = summarise(run.rows, value="seconds")
    lines = []
    for row in range(len(table["count"])):
        mine = (run.rows["label"] == table["label"][row]) & (
            run.rows["series"] == table["series"][row]
        )
        lines.append(
            {
                "class": str(table["class_name"][row]),
                "series": str(table["series"][row]),
                "median": number(float(np.median(run.rows["seconds"][mine]))),
                "mean": number(float(table["mean"][row])),
                "se": number(float(table["se"][row])),
            }
        )
    return lines


def passes(run: FinishedRun) -> list[dict[str, str]] | None:
    """Return images a second, by the median pass, and the most memory, of each set and series."""
    if run.rows is None or run.subject != "passes":
        return None
    rows, lines = run.rows, []
    for name, series in dict.fromkeys(zip(rows["class_name"], rows["series"], strict=True)):
        mine = (rows["class_name"] == name) & (rows["series"] == series)
        seconds = float(np.median(rows["seconds"][mine]))
        memory = float(rows["memory"][mine].max())
        lines.append(
            {
                "set": name,
                "series": series,
                "seconds": number(seconds),
                "rate": f"{rows['n'][mine][0] / seconds:,.0f}",
                "memory": number(memory) if np.isfinite(memory) else "–",
            }
        )
    return lines


def classified(run: FinishedRun) -> list[dict[str, str]] | None:
    """Return what each classifier tells apart, with noise and without, by series and budget."""
    if run.rows is None or not np.isfinite(run.rows["auc_plain"]).any():
        return None
    columns = ("auc", "auc_plain", "balanced", "balanced_plain")
    found = {name: summarise(run.rows, value=name) for name in columns}
    table, lines = found["auc"], []
    for row in range(len(table["count"])):
        means = {name: one["mean"][row] for name, one in found.items()}
        lines.append(
            {
                "series": str(table["series"][row]),
                "budget": f"{letter(str(table['definition'][row]))} = "
                + number(float(table["budget"][row])),
                "n": f"{table['n'][row]:,.0f}",
                **{k: f"{x:.3f}" if np.isfinite(x) else "–" for k, x in means.items()},
            }
        )
    return lines


def totals(run: FinishedRun) -> dict[str, Any] | None:
    """Return the table of compositions: noise and definition down, number of queries across."""
    if run.rows is None or run.subject != "budgets":
        return None
    rows = run.rows
    queries = sorted({int(n) for n in rows["n"]})
    keys = dict.fromkeys(zip(rows["series"], rows["definition"], strict=True))
    lines = []
    for series, definition in keys:
        mine = (rows["series"] == series) & (rows["definition"] == definition)
        cells = []
        for count in queries:
            at = mine & (rows["n"] == count)
            parts = {"": "budget", ", δ = ": "delta", ", τ = ": "tau"}
            values = {text: float(rows[name][at][0]) for text, name in parts.items()}
            told = [text + number(value) for text, value in values.items() if np.isfinite(value)]
            cells.append("".join(told))
        name = f"{definition} {letter(str(definition))}"
        lines.append({"series": series, "definition": name, "cells": cells})
    return {"queries": queries, "lines": lines}
