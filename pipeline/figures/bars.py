"""Bars, one number for each of a few things; printed numbers beside ours, two marks a line."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.figures.axes import Axis, broken, position
from pipeline.figures.style import INK, PALETTE, Figure, alt, finish, number
from pipeline.results import RunRecord, Table

PAPER, OURS = "Paper", "Ours"


def bars(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    name: str,
    title: str,
    axis: str | list[str],
    texts: Sequence[str] | None = None,
    limits: Sequence[float] | None = None,
    caption: str = "",
) -> Figure | None:
    """Draw horizontal bars from zero; None when there is none.

    Parameters
    ----------
    labels, values : sequences of length m
        What each bar stands for, and how long it is.
    name, title : str
        Id of the figure, and its heading.
    axis : str or list of str
        The title of the axis with its unit; its lines, where it has several.
    texts : sequence of length m, optional
        What is written at the end of each bar; its value by default.
    limits : sequence of length m, optional
        A vertical stroke on each bar, for what the value must not exceed.
    caption : str
        What the marks stand for.
    """
    if not len(labels):
        return None
    texts = [number(value) for value in values] if texts is None else texts
    records = [
        {"label": label, "value": float(value), "text": text, "order": order}
        | ({} if limits is None else {"limit": float(limits[order])})
        | {"end": float(value if limits is None else max(value, limits[order]))}
        for order, (label, value, text) in enumerate(zip(labels, values, texts, strict=True))
    ]
    base = alt.Chart(alt.InlineData(values=records)).encode(
        alt.Y("label:N", sort=list(labels), title=None).axis(
            domain=False, ticks=False, labelPadding=8
        )
    )
    along = alt.X("value:Q", title=axis).axis(tickCount=6, domain=False)
    bar = base.mark_bar(color=PALETTE[0], height={"band": 0.62}, cornerRadiusEnd=3).encode(
        along, tooltip=["label:N", "text:N"]
    )
    words = base.mark_text(align="left", dx=8, fontSize=12, color=INK).encode(
        alt.X("end:Q"), alt.Text("text:N")
    )
    layers = [bar, words]
    if limits is not None:
        stroke = base.mark_tick(color=PALETTE[1], thickness=3, height=22, opacity=1)
        layers.append(stroke.encode(alt.X("limit:Q")))
    chart = alt.layer(*layers).properties(width=680, height={"step": 30})
    pairs = ", ".join(f"{label} {text}" for label, text in zip(labels, texts, strict=True))
    return finish(
        chart,
        name=name,
        title=title,
        alt=f"Bar chart, {axis if isinstance(axis, str) else ' '.join(axis)}: {pairs}.",
        caption=caption,
    )


def tightness(bound: Table, *, manifold: str = "") -> Figure | None:
    """Draw the largest distance to the identity, per class, against the proven radius.

    `manifold` names the one whose distance it is.
    """
    where = f", on {manifold}" if manifold else ""
    return bars(
        [str(name) for name in bound["class_name"]],
        bound["largest_norm"].tolist(),
        name="bound",
        title="The bound and its tightness",
        axis=["largest distance of a descriptor", f"from the identity{where}"],
        texts=[f"{100 * ratio:.1f} %" for ratio in bound["ratio"]],
        limits=bound["radius"].tolist(),
        caption="Bar: the largest distance in the class, with its share of the bound. "
        "Stroke: the proven radius r, which holds for every possible image of this size.",
    )


def steps(record: RunRecord) -> Figure | None:
    """Draw the wall-clock time of each step of a run."""
    return bars(
        [name for name, _ in record.steps],
        [seconds for _, seconds in record.steps],
        name="steps",
        title="Time per step",
        axis="seconds",
        texts=[f"{number(seconds)} s" for _, seconds in record.steps],
        caption=f"Wall-clock time; {number(sum(s for _, s in record.steps))} s in all.",
    )


def printed_numbers(lines: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Draw printed numbers and ours as two marks on a line.

    Parameters
    ----------
    lines : sequence of mapping
        ``quantity``, ``unit`` ("s" for seconds, "" for none), and the numbers ``paper`` and
        ``ours``, NaN where it was not run.

    Returns
    -------
    Figure or None
        None when there is no line, and when units differ: they have no axis in common.
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
    along = position(axis, np.array([record["value"] for record in records]), along=False)
    base = alt.Chart().encode(
        alt.X("value:Q", **{**along, "title": along["title"] or None}),
        alt.Y("quantity:N", sort=names, title=None).axis(
            domain=False, ticks=False, grid=True, labelPadding=8, labelExpr=broken(names, names, 34)
        ),
    )
    line = base.mark_line(color=INK, strokeWidth=1.2).encode(detail="quantity:N")
    whose = [PAPER, OURS]
    marks = base.mark_point(filled=True, size=90, opacity=1).encode(
        alt.Color("whose:N", scale=alt.Scale(domain=whose, range=[PALETTE[1], PALETTE[0]])),
        alt.Shape("whose:N", scale=alt.Scale(domain=whose, range=["diamond", "circle"])),
        tooltip=["quantity:N", "whose:N", alt.Tooltip("value:Q", format=".3~g")],
    )
    chart = alt.layer(line, marks, data=alt.InlineData(values=records))
    told = "; ".join(
        f"{line['quantity']}: {number(line['paper'])} in the paper, {number(line['ours'])} here"
        for line in lines
    )
    return finish(
        chart.properties(width=560, height={"step": 38}),
        name="printed",
        title="Printed numbers and ours",
        alt=f"Numbers that the paper prints and ours. {told}.",
        caption="Diamond: as printed in the paper. Dot: the same quantity here.",
        legend=(PAPER, OURS),
    )
