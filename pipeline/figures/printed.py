"""Numbers that a paper prints, each on one line with ours."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.figures.panels import broken
from pipeline.figures.scales import Axis, position
from pipeline.figures.style import INK, PALETTE, Figure, finish, number

PAPER, OURS = "Paper", "Ours"


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
    import altair as alt

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
