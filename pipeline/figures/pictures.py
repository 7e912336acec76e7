"""Pictures: released means as correlations, closed outlines, sample tiles of public images."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.arrays import FloatArray, ImageArray, check_images
from pipeline.figures.style import (
    INK,
    WIDTH,
    Figure,
    alt,
    broken,
    finish,
    house_style,
    listing,
    number,
    picture_of,
)

MATRICES = Path(__file__).with_name("matrices.json")
"""The specification of matrices but for its numbers. Below a luminance of 0.179 white stands out
more than black: equal contrast at √0.0525 − 0.05."""
CELL = 44
"""Pixels of the square of one number in a matrix."""
SPACING = 16
"""Pixels between matrices."""
ACROSS = 6
"""Outlines in a row."""
SIDE = 126
"""Pixels of the square that holds one outline."""
GAP = 2
"""Pixels between two tiles, transparent."""


def matrices(
    names: Sequence[str], points: FloatArray, features: Sequence[str], *, across: int = 0
) -> Figure:
    """Draw one square a class: correlations as colour, standard deviations on the diagonal.

    `points` are their matrices, shape (c, k, k), symmetric positive definite; `across` of them
    belong together: whole groups of them stand in a row, if there is room for one.
    """
    records = _cells(names, points, features)
    wide = 6 * max(map(len, features)) + 2 + CELL * len(features) + SPACING
    room = max(1, (WIDTH + SPACING) // wide)
    columns = room // across * across if 0 < across <= room else room
    spec = _specification(records, names, features, columns)
    return Figure(
        "matrices",
        "The released means",
        picture_of(spec),
        spec,
        f"Correlations of the features in the mean of {', '.join(names)}.",
        "Diagonal: standard deviation of the feature. Elsewhere: correlation, as colour. "
        + _explained(features),
        {"row": "feature", "column": "other", "value": "correlation", "text": "correlation_or_sd"},
    )


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


def _specification(
    records: list[dict[str, Any]], names: Sequence[str], features: Sequence[str], columns: int
) -> dict[str, Any]:
    """Return the specification, as Altair, whose import takes 0.4 s, would write it."""
    found: dict[str, Any] = json.loads(MATRICES.read_text(encoding="utf-8"))
    side = CELL * len(features)
    found |= {"config": house_style(), "datasets": {"cells": records}}
    found |= {"columns": columns, "spacing": SPACING}
    found["facet"]["sort"] = names
    found["spec"] |= {"width": side, "height": side}
    for axis in found["spec"]["encoding"].values():
        axis["sort"] = features
    return found


def _explained(features: Sequence[str]) -> str:
    """Say what the features are, those that are alike together."""
    from pipeline.descriptors import DESCRIPTORS  # loads compiled code

    kinds = DESCRIPTORS.values()
    meanings = {k: v for kind in kinds for k, v in zip(kind.features, kind.meanings, strict=True)}
    groups: dict[str, list[str]] = {}
    for name in features:
        groups.setdefault(meanings.get(name, ""), []).append(name)
    lines = (f"{', '.join(names)}: {words}" for words, names in groups.items() if words)
    return "".join(f"{line}. " for line in lines).rstrip()


def outlines(shapes: Mapping[str, Sequence[Sequence[Sequence[float]]]]) -> Figure | None:
    """Draw closed outlines, one row a series, at most six in a row, each as wide as its square.

    Parameters
    ----------
    shapes : mapping of str to array-like, shape (count, landmarks, 2)
        The outlines of each series.
    """
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
        columns={"line": "row", "place": "outline", "order": "landmark"},
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


def montage(images: ImageArray, columns: int) -> bytes:
    """Return a PNG with n ≥ 1 images side by side, row by row, `columns` in a row.

    They are uint8 of shape (n, h, w) or (n, h, w, 3), and copied pixel by pixel into an RGBA
    picture that is transparent between them.
    """
    from PIL import Image

    images = check_images(images)
    n, h, w = images.shape[:3]
    columns = min(columns, n)
    lines = -(-n // columns)
    sheet = np.zeros((lines * (h + GAP) - GAP, columns * (w + GAP) - GAP, 4), dtype=np.uint8)
    for index, image in enumerate(images):
        row, column = divmod(index, columns)
        top, left = row * (h + GAP), column * (w + GAP)
        tile = sheet[top : top + h, left : left + w]
        tile[..., :3] = image if image.ndim == 3 else image[..., None]
        tile[..., 3] = 255
    stream = io.BytesIO()
    Image.fromarray(sheet).save(stream, format="PNG", optimize=True)
    return stream.getvalue()
