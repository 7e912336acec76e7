"""Axes: title, scale and ticks of the numbers that lie on one."""

from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.figures.style import is_log, log_ticks

FEW = 7
"""So many different values are their own ticks."""
DATES = 8
"""Dates up to which each has a mark of its own on the axis of time."""
LONG = 36
"""Letters of a title that still fit beside a panel; a longer one stands on two lines."""


class Axis(NamedTuple):
    """One axis: its title; whether it is linear, counts seconds, and may begin above zero."""

    title: str
    linear: bool = False
    seconds: bool = False
    cut: bool = False


def position(axis: Axis, values: NDArray[np.float64], *, along: bool) -> dict[str, Any]:
    """Return title, scale and ticks of a position: logarithmic where the values span a lot.

    Parameters
    ----------
    axis : Axis
        What lies on it.
    values : array
        All numbers on it, bands included.
    along : bool
        Whether it shows where was measured (ticks at few values), or what (from zero).
    """
    import altair as alt

    low, high = float(values.min()), float(values.max())
    own = sorted({float(f"{value:.6g}") for value in values})
    log = not axis.linear and is_log([low, high])
    options: dict[str, Any] = {"labelOverlap": "greedy"}
    if along and len(own) <= FEW:
        options["values"] = own
    elif log:
        options["values"] = log_ticks(low / 1.08, high * 1.08)
    else:
        options["tickCount"] = 6
    if "values" in options:
        options["format"] = ",.6~g"
    if axis.seconds:  # 500 µs, 2 ms, 14 s
        label = "replace(datum.label, regexp('[0-9.]+'), '$& ') + 's'"
        options |= {"format": "~s", "labelExpr": label}
    if log:
        scale = alt.Scale(type="log", domain=[low / 1.08, high * 1.08], nice=False)
    elif along:
        scale = alt.Scale(zero=False, nice=False, padding=8)
    else:
        scale = alt.Scale(zero=not axis.cut)
    return {"title": _lines(axis.title), "scale": scale, "axis": alt.Axis(**options)}


def _lines(title: str) -> str | list[str]:
    """Return a title, on two lines where it is long: broken before its last "to the"."""
    head, found, tail = title.rpartition(" to the ")
    return [head, f"to the {tail}"] if found and len(title) > LONG else title


def along_runs(chart: Any, runs: Sequence[str]) -> tuple[Any, Any]:
    """Return the chart and its axis of runs: of time where they are dates, else one by one."""
    import altair as alt

    if len(runs) < 2 or not all(map(_is_date, runs)):
        marks = alt.Axis(labelOverlap="greedy", labelAngle=0, labelLimit=120, grid=False)
        return chart, alt.X("run:O", sort=list(runs), title="run", axis=marks)
    dates = sorted({date.fromisoformat(run) for run in runs})
    few, years = len(dates) <= DATES, (dates[-1] - dates[0]).days > 400
    written = ("%-d %b %Y" if few else "%b %Y") if years else "%-d %b"
    each = [alt.DateTime(year=d.year, month=d.month, date=d.day, utc=True) for d in dates]
    ticks = {"values": each} if few else {"tickCount": 6}
    marks = alt.Axis(labelOverlap="greedy", grid=False, format=written, **ticks)
    when = alt.X("when:T", title="planned date", axis=marks, scale=alt.Scale(type="utc"))
    return chart.transform_calculate(when="toDate(datum.run)"), when


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
