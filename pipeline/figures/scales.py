"""Axes: title, scale and ticks of the numbers that lie on one."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.figures.style import is_log, log_ticks

FEW = 7
"""So many different values are their own ticks."""
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
