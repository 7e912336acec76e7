"""The paper beside us: its statements judged by our rows, and its numbers next to ours.

Every sentence is computed: from the statements in the experiment's TOML and from the rows.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.figures import letter, listing, number
from pipeline.report.finding import Finding
from pipeline.report.sources import Run
from pipeline.results import Table, summarise


def claims(run: Run) -> list[Finding]:
    """Return one sentence for each statement of the paper: agrees, in part, or not."""
    stated = run.record.config.get("claims", ())
    if run.rows is None or run.record.status != "ok":
        return []
    columns = {claim["column"] for claim in stated} - {"ratio"}
    tables = {name: summarise(run.rows, value=name) for name in columns}
    return [
        _fills(claim, run) if claim["column"] == "ratio" else _judge(claim, tables[claim["column"]])
        for claim in stated
    ] + _rules(run)


def verdict(run: Run) -> list[Finding]:
    """Return the headline of a published experiment: how many statements hold."""
    judged = claims(run)
    if not judged:
        return []
    good = [finding for finding in judged if finding.text.startswith("Agrees:")]
    rest = [finding.text.partition("”")[0] + "”" for finding in judged if finding not in good]
    text = f"{len(good)} of {len(judged)} statements of the paper agree with our rows"
    return [Finding(f"{text}. {'. '.join(rest)}." if rest else f"{text}.")]


def _judge(claim: Mapping[str, Any], table: Table) -> Finding:
    """Compare the two series of a statement in every class and at every budget it is about."""
    says, left, right = claim["says"], claim["left"], claim["right"]
    for name in (left, right):
        if name not in table["series"]:
            return Finding(f"Not checked: “{says}”; the series “{name}” was not run.")
    holds, unclear, fails, gone, ratios = 0, 0, list[str](), 0, list[float]()
    for label, budget in dict.fromkeys(zip(table["label"], table["budget"], strict=True)):
        within = claim["above"] <= budget <= claim["below"]
        if not within or (claim["labels"] is not None and label not in claim["labels"]):
            continue
        at = (table["label"] == label) & (table["budget"] == budget)
        a, b = (np.flatnonzero(at & (table["series"] == name)) for name in (left, right))
        if not len(a) or not len(b):
            continue
        if not table["count"][a[0]] or not table["count"][b[0]]:
            gone += 1
            continue
        ratios.append(float(table["mean"][b[0]] / table["mean"][a[0]]))
        gap = table["mean"][b[0]] - claim["factor"] * table["mean"][a[0]]
        noise = 2 * np.hypot(table["se"][b[0]], claim["factor"] * table["se"][a[0]])
        if gap > 0:
            holds += 1
        elif -gap <= noise:
            unclear += 1
        else:
            fails.append(_pair(table, int(a[0]), int(b[0])))
    found = _sentence(says, holds, unclear, fails, gone)
    if not ratios:
        return found
    mean = number(float(np.exp(np.log(ratios).mean())))
    return found._replace(text=f"{found.text} “{right}” over “{left}”: {mean} on average.")


def _fills(claim: Mapping[str, Any], run: Run) -> Finding:
    """Judge a statement on how much of the bound the largest descriptor of each class fills."""
    if run.bound is None:
        return Finding(f"Not checked: “{claim['says']}”; the bound was not measured.")
    ratios = zip(run.bound["class_name"], run.bound["ratio"], strict=True)
    told = [(f"{name} ({number(100 * ratio)} %)", ratio) for name, ratio in ratios]
    fails = [text for text, ratio in told if ratio < claim["factor"]]
    return _sentence(claim["says"], len(told) - len(fails), 0, fails, 0)


def _rules(run: Run) -> list[Finding]:
    """Compare the totals of a table of compositions with the rules that the paper prints."""
    if run.rows is None or not run.record.config.get("composition"):
        return []
    rows, out = run.rows, []
    for name in dict.fromkeys(rows["definition"]):
        power, letters = (0.5, "√Σ of squares") if name in ("gdp", "rao") else (1.0, "Σ")
        mine = rows["definition"] == name
        one = mine & (rows["n"] == 1)
        base = dict(zip(rows["series"][one], rows["budget"][one], strict=True))
        expected = np.array([base[x] for x in rows["series"][mine]]) * rows["n"][mine] ** power
        same = np.allclose(rows["budget"][mine], expected, rtol=1e-9)
        most = int(rows["n"].max())
        text = f"{name} composes by {letters}: {most} queries cost {number(most**power)} times one"
        out.append(Finding(f"{'Agrees' if same else 'Does not agree'}: {text}.", warning=not same))
    return out


def _sentence(says: str, holds: int, unclear: int, fails: list[str], gone: int) -> Finding:
    total = holds + unclear + len(fails)
    if not total:
        return Finding(f"Cannot be judged: “{says}”; one side has no result there.")
    word = "Agrees" if not fails else ("Does not agree" if not holds else "Agrees in part")
    text = f"{word}: “{says}”: so in {holds} of {total} comparisons"
    text += f", {unclear} more within two standard errors" if unclear else ""
    text += f"; not so for {listing(fails[:3], '; ')}" if fails else ""
    text += f" and {len(fails) - 3} more" if len(fails) > 3 else ""
    text += f"; in {gone} a density does not exist" if gone else ""
    return Finding(text + ".", warning=bool(fails))


def _pair(table: Table, a: int, b: int) -> str:
    """Return where a statement fails, with both means."""
    symbol = letter(str(table["definition"][a]))
    return (
        f"{table['class_name'][a]}, {symbol} = {number(float(table['budget'][a]))} "
        f"({number(float(table['mean'][a]))} against {number(float(table['mean'][b]))})"
    )


def published(run: Run) -> list[dict[str, str]] | None:
    """Return the paper's printed numbers beside ours: quantity, theirs, ours, their ratio."""
    if run.rows is None or run.record.status != "ok":
        return None
    lines = []
    for item in run.record.config.get("published", ()):
        ours = _ours(item, run)
        unit = f" {item['unit']}" if item["unit"] else ""
        lines.append(
            {
                "quantity": item["quantity"],
                "paper": number(item["value"]) + unit,
                "ours": number(ours) + unit if np.isfinite(ours) else "not run",
                "ratio": number(item["value"] / ours) if ours > 0 else "–",
            }
        )
    return lines


def _ours(item: Mapping[str, Any], run: Run) -> float:
    """Return our value of one printed number, NaN where it was not run."""
    if item["column"] == "radius":
        return float(run.bound["radius"].max()) if run.bound is not None else np.nan
    if run.rows is None:
        return np.nan
    rows = run.rows
    mine = np.ones(len(rows["n"]), dtype=bool)
    if item["series"] is not None:
        mine &= rows["series"] == item["series"]
    if item["label"] is not None:
        mine &= rows["label"] == item["label"]
    values = np.asarray(rows[item["column"]][mine], dtype=np.float64)
    values = values[np.isfinite(values)]
    return float(getattr(np, item["statistic"])(values)) if len(values) else np.nan


def times(run: Run) -> list[dict[str, str]] | None:
    """Return seconds a draw: median, mean and standard error of each class and series."""
    if run.rows is None or run.record.config.get("kind") != "timing":
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


def totals(run: Run) -> dict[str, Any] | None:
    """Return the table of compositions: noise and definition down, number of queries across."""
    if run.rows is None or not run.record.config.get("composition"):
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
