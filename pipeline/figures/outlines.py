"""Closed outlines side by side, as in a figure of shapes."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.figures.panels import broken
from pipeline.figures.style import INK, Figure, finish, listing

ACROSS = 6
"""Outlines in a row."""
SIDE = 126
"""Pixels of the square that holds one outline."""


def outlines(shapes: Mapping[str, Sequence[Sequence[Sequence[float]]]]) -> Figure | None:
    """Draw closed outlines, one row a series, at most six in a row, each as wide as its square.

    Parameters
    ----------
    shapes : mapping of str to array-like, shape (count, landmarks, 2)
        The outlines of each series.
    """
    import altair as alt

    if not shapes:
        return None
    records: list[dict[str, Any]] = [
        {"line": row, "place": column, "order": order, "x": point[0], "y": point[1]}
        for row, outlines_ in enumerate(shapes.values())
        for column, outline in enumerate(outlines_[:ACROSS])
        for order, point in enumerate(_scaled([*outline, outline[0]]))
    ]
    names = broken(range(len(shapes)), list(shapes), 18)
    head = alt.Header(labelAngle=0, title=None, labelAlign="left", labelExpr=names)
    hidden = alt.Axis(labels=False, ticks=False, grid=False, domain=False, title=None)
    scale = alt.Scale(domain=[-1.02, 1.02])
    chart = (
        alt.Chart(alt.InlineData(values=records))
        .mark_line(color=INK, strokeWidth=1.6)
        .encode(
            alt.X("x:Q", axis=hidden, scale=scale),
            alt.Y("y:Q", axis=hidden, scale=scale),
            alt.Order("order:Q"),
        )
        .properties(width=SIDE, height=SIDE)
        .facet(
            row=alt.Row("line:O", header=head),
            column=alt.Column("place:O", header=alt.Header(labels=False, title=None)),
            spacing={"row": 6, "column": 10},
        )
    )
    return finish(
        chart,
        name="outlines",
        title="Private outlines",
        alt=f"Closed outlines in rows: {listing(shapes)}.",
        caption="At most six of each, turned onto the true mean and scaled to one width: a shape "
        "has neither place nor angle nor size. Records and true mean are not private.",
    )


def _scaled(outline: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return an outline that reaches from −1 to 1 along its longer side, around 0."""
    columns = list(zip(*outline, strict=True))
    reach = max(max(column) - min(column) for column in columns) / 2
    middle = [(max(column) + min(column)) / 2 for column in columns]
    return [
        [round((value - centre) / reach, 4) for value, centre in zip(point, middle, strict=True)]
        for point in outline
    ]
