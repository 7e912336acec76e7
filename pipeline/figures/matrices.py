"""Matrices: a released mean descriptor, as standard deviations and correlations of the features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.figures.style import INK, Figure, finish, number


def matrices(names: Sequence[str], points: FloatArray, features: Sequence[str]) -> Figure:
    """Draw one square a class: correlations as colour, standard deviations on the diagonal.

    Parameters
    ----------
    names : sequence of str, length c
        The classes.
    points : array, shape (c, k, k)
        Their matrices, symmetric positive definite.
    features : sequence of str, length k
        The features.
    """
    records = _cells(names, points, features)
    return _drawn(records, list(names), list(features))


def _cells(
    names: Sequence[str], points: FloatArray, features: Sequence[str]
) -> list[dict[str, Any]]:
    """Return one record a cell of a matrix."""
    scale = np.sqrt(np.diagonal(points, axis1=-2, axis2=-1))
    correlations = points / (scale[:, :, None] * scale[:, None, :])
    return [
        {
            "class": name,
            "row": features[i],
            "column": features[j],
            "value": float(round(correlations[c, i, j], 4)),
            "text": number(float(scale[c, i] if i == j else round(correlations[c, i, j], 2))),
            "pale": bool(abs(correlations[c, i, j]) > 0.6),
        }
        for c, name in enumerate(names)
        for i in range(len(features))
        for j in range(len(features))
    ]


def _drawn(records: list[dict[str, Any]], names: list[str], order: list[str]) -> Figure:
    """Return the chart of the cells."""
    import altair as alt

    base = alt.Chart().encode(
        alt.X("column:N", sort=order, title=None).axis(labelAngle=-40, domain=False, ticks=False),
        alt.Y("row:N", sort=order, title=None).axis(domain=False, ticks=False),
    )
    colour = alt.Color("value:Q", legend=None).scale(domain=[-1, 1], scheme="blueorange")
    cells = base.mark_rect(cornerRadius=2).encode(colour, tooltip=["row:N", "column:N", "text:N"])
    words = base.mark_text(fontSize=10).encode(
        alt.Text("text:N"),
        color=alt.condition("datum.pale", alt.value("#ffffff"), alt.value(INK)),
    )
    side = 44 * len(order)
    chart = (
        alt.layer(cells, words, data=alt.InlineData(values=records))
        .properties(width=side, height=side)
        .facet(alt.Facet("class:N", sort=names, title=None), columns=3 if side < 270 else 2)
    )
    return finish(
        chart,
        name="matrices",
        title="The released means",
        alt=f"Correlations of the features in the private mean of {', '.join(names)}.",
        caption="Diagonal: standard deviation of the feature. Elsewhere: correlation, as colour.",
    )
