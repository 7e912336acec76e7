"""How often regions hold the true mean, how wide they are and when they are offered: the table."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.claimed import ClaimConfig
from pipeline.figures import letter, number
from pipeline.report.covering import cells
from pipeline.report.runs import FinishedRun
from pipeline.results import Table

LEVELS = (0.95, 0.9)


def coverage(run: FinishedRun) -> Mapping[str, Any] | None:
    """Return a line a class, series and budget; None where no regions were made."""
    rows = run.rows
    if rows is None or "reach" not in rows or not np.isfinite(rows["reach"]).any():
        return None
    return covered(rows)


def covered(rows: Table) -> Mapping[str, Any]:
    """Return a line a class, series and budget of rows on regions."""
    every = ClaimConfig(says="all", place="everywhere", column="offered", factor=1.0).model_dump()
    lines = [_line(cell) for _, cell in cells(every, rows)]
    symbol = letter(str(rows["definition"][0]))
    held = [f"Hold it at {100 * level:g} %" for level in LEVELS]
    heads = ["Class", "Series", symbol, "n·μ", "Offered", *held, "Radius", "Error"]
    return {"heads": [*heads, "Radius / error"], "lines": lines, "text": 2, "tall": True}


def _line(cell: Table) -> list[str]:
    """Return a cell: shares with what they are of, medians of the regions that are offered."""
    offered = cell["offered"] > 0
    many, budget = int(offered.sum()), float(cell["budget"][0])
    name, series = str(cell["class_name"][0]), str(cell["series"][0])
    told = [name, series, number(budget), number(float(cell["n"][0]) * budget)]
    told.append(_of(many, len(offered)))
    if not many:
        return [*told, *["–"] * (len(LEVELS) + 3)]
    held = [_of(int((cell["reach"][offered] <= level).sum()), many) for level in LEVELS]
    radius, error = (float(np.median(cell[key][offered])) for key in ("radius", "error"))
    return [*told, *held, number(radius), number(error), number(radius / error)]


def _of(count: int, whole: int) -> str:
    return f"{100 * count / whole:.3g} % ({count} of {whole})"
