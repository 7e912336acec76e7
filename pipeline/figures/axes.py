"""Axes: title, scale and ticks; panels, their titles and widths; colours and shapes of series."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.figures.style import PALETTE, SHAPES, alt, firm, is_log, log_ticks

LETTER = 8.4
"""Pixels that one letter of a panel's title takes at most, on average, in bold of 13 pixels."""
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


def look(field: str, places: Mapping[str, int], legend: Sequence[str]) -> tuple[Any, Any]:
    """Return colour and shape of names, by their places in the palette.

    Parameters
    ----------
    field : str
        The column of the names.
    places : mapping of str to int
        Name to place, the same whichever of them are drawn.
    legend : sequence of str
        The names in the legend; none without one.
    """
    shown = alt.Legend(values=list(legend)) if legend else None
    colours, shapes = (
        alt.Scale(domain=list(places), range=[marks[x % len(marks)] for x in places.values()])
        for marks in (PALETTE, SHAPES)
    )
    return (
        alt.Color(f"{field}:N", legend=shown, scale=colours),
        alt.Shape(f"{field}:N", legend=shown, scale=shapes),
    )


def in_order(names: Sequence[str]) -> dict[str, int]:
    """Return the place of each name."""
    return {name: place for place, name in enumerate(names)}


def tips(*names: str) -> list[Any]:
    """Return the tooltips of some numbers."""
    return [alt.Tooltip(f"{name}:Q", format=".3~g") for name in names]


def layout(count: int, across: int = 0) -> tuple[int, int]:
    """Return panels in a row, and the width of one in pixels."""
    across = min(across or (2 if count in (2, 4) else 3), count)
    return across, {1: 640, 2: 390, 3: 245}.get(across, 172)


def broken(keys: Sequence[Any], titles: Sequence[str], letters: int) -> str:
    """Return the Vega expression of each key's title, in lines of at most so many letters."""
    lines = [textwrap.wrap(firm(title), letters) for title in titles]
    pairs = dict(zip(map(str, keys), lines, strict=True))
    return f"{json.dumps(pairs, ensure_ascii=False)}[datum.value]"


def header(titles: Sequence[str], width: int) -> Any:
    """Return the header of panels of `width` pixels: a title that is longer takes several lines."""
    return alt.Header(
        labelAnchor="start",
        labelLimit=width + 16,
        labelLineHeight=16,
        labelExpr=broken(titles, titles, int(width / LETTER)),
        labels=titles != [""],
    )
