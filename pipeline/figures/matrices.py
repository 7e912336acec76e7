"""Matrices: a released mean descriptor, as standard deviations and correlations of the features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.figures.style import Figure, finish, number

WORDS = {
    **dict.fromkeys(("x", "y"), "place in the image"),
    "I": "gray level",
    **dict.fromkeys(("R", "G", "B"), "red, green, blue"),
    **dict.fromkeys(("|Ix|", "|Iy|"), "change of brightness to the right, downwards"),
    "|Iz|": "the same from slice to slice",
    **dict.fromkeys(("|Ixx|", "|Iyy|", "|Izz|"), "change of that change"),
    **dict.fromkeys(("magnitude", "angle"), "of the steepest change"),
}
"""What a feature of pixels is."""
_DARK = "luminance(scale('color', datum.value)) < 0.179"
"""Vega: whether white stands out more than black from a cell (equal contrast at √0.0525 − 0.05)."""


def matrices(
    names: Sequence[str], points: FloatArray, features: Sequence[str], *, across: int = 0
) -> Figure:
    """Draw one square a class: correlations as colour, standard deviations on the diagonal.

    `points` are their matrices, shape (c, k, k), symmetric positive definite; `across` of them
    stand in a row if there is room, as many as there is room for by default.
    """
    records = _cells(names, points, features)
    return _drawn(records, list(names), list(features), across)


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
            "text": _deviation(scale[c, i]) if i == j else _correlation(correlations[c, i, j]),
        }
        for c, name in enumerate(names)
        for i in range(len(features))
        for j in range(len(features))
    ]


def _correlation(value: float) -> str:
    """Return a correlation with two decimals; one that rounds to zero has no sign."""
    text = f"{value:.2f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _deviation(value: float) -> str:
    """Return a standard deviation with two significant digits, zeros kept."""
    plain = 1e-3 <= value < 99.5
    return f"{value:#.2g}".removesuffix(".") if plain else number(value)


def _drawn(
    records: list[dict[str, Any]], names: list[str], order: list[str], across: int
) -> Figure:
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
        color=alt.condition(_DARK, alt.value("#ffffff"), alt.value("#000000")),
    )
    side = 44 * len(order)
    room = 3 if side < 270 else 2
    chart = (
        alt.layer(cells, words, data=alt.InlineData(values=records))
        .properties(width=side, height=side)
        .facet(alt.Facet("class:N", sort=names, title=None), columns=min(across or room, room))
        .resolve_axis(x="independent", y="independent")
    )
    return finish(
        chart,
        name="matrices",
        title="The released means",
        alt=f"Correlations of the features in the mean of {', '.join(names)}.",
        caption="Diagonal: standard deviation of the feature. Elsewhere: correlation, as colour. "
        + _explained(order),
    )


def _explained(features: Sequence[str]) -> str:
    """Say what the features are, those that are alike together."""
    told: dict[str, list[str]] = {}
    for name in features:
        told.setdefault(WORDS.get(name, ""), []).append(name)
    known = (f"{', '.join(names)}: {words}" for words, names in told.items() if words)
    return "".join(f"{text}. " for text in known).rstrip()
