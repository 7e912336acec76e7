"""Pictures: released means as correlations, sample tiles of public images."""

import base64
import io
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covdp.arrays import FloatArray, ImageArray, check_images
from covdp.figures import style
from covdp.figures.style import INK, WIDTH, Figure, number

DARK = 0.179
"""Luminance below which white stands out more than black (equal contrast at √0.0525 − 0.05).

``reports/charts.json`` has the same number.
"""
BLUE_ORANGE = bytes.fromhex("134b852f78b35da2cb9dcae1d2e5eff2f0ebfce0bafbbf74e8932fc5690d994a07")
"""Vega's scheme of this name from −1 to 1: red, green and blue of eleven colours."""
CELL = 44
"""Pixels of the square of one number in a matrix, at most."""
READABLE = 28
"""Pixels from which a square has its number in it; a smaller one has its colour alone."""
MATRICES_ACROSS = 4
"""Matrices side by side, at most."""
SPACING = 16
"""Pixels between matrices."""
GAP = 2
"""Pixels between two tiles, transparent."""


def matrices(means: Mapping[str, ArrayLike], features: Sequence[str], *, across: int = 0) -> Figure:
    """Draw one square a class: correlations as colour, standard deviations on the diagonal.

    `means` are their matrices by name, shape (k, k), symmetric positive definite; `across` of them
    belong together: whole groups of them stand in a row, if there is room for one.

    Parameters
    ----------
    means : mapping of str to array-like
        Matrices by name, each of shape (k, k) and SPD.
    features : sequence of str
        Names of the k features.
    across : int
        Number of matrices that belong together; any may stand in a row when 0.

    Returns
    -------
    Figure
        Figure of all classes.
    """
    names, k = list(means), len(features)
    records = _cells(names, np.array(list(means.values())), features)
    groups = MATRICES_ACROSS // across * across if across else 0
    columns = min(len(names), groups or MATRICES_ACROSS)
    cell = min(CELL, ((WIDTH + SPACING) // columns - SPACING - _left(features)) // k)
    shape = columns, cell
    numbers = "" if cell >= READABLE else " The numbers of each square are in its tooltip and file."
    return Figure(
        "matrices",
        "The released means",
        _static(records, names, features, shape),
        _specification(records, names, features, shape),
        f"Correlations of the features in the mean of {', '.join(names)}.",
        f"Diagonal: standard deviation of the feature. Elsewhere: correlation, as colour.{numbers} "
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
    """Return a standard deviation with two significant digits, zeros included."""
    plain = 1e-3 <= value < 99.5
    return f"{value:#.2g}".removesuffix(".") if plain else number(value)


def _specification(
    records: list[dict[str, Any]],
    names: Sequence[str],
    features: Sequence[str],
    shape: tuple[int, int],
) -> dict[str, Any]:
    """Return the specification; `shape` is matrices in a row, and pixels of a square."""
    columns, cell = shape
    known = {"names": names, "features": features, "side": cell * len(features), "spacing": SPACING}
    header = style.header(names, cell * len(features) - 16, columns) | {"labelAnchor": "middle"}
    spec = style.chart_of("matrices", **known, columns=columns, header=header)
    if cell < READABLE:
        spec["spec"]["layer"].pop()
        spec["spec"]["encoding"]["x"]["axis"]["labelAngle"] = -90
    return spec | {"config": style.house_style(), "datasets": {"cells": records}}


def _static(
    records: list[dict[str, Any]],
    names: Sequence[str],
    features: Sequence[str],
    shape: tuple[int, int],
) -> str:
    """Return the picture as Vega draws it, whose engine takes a second to start.

    Squares and their texts say, as ``--dark``, what their colours are on a dark screen.
    """
    columns, cell = shape
    k, side, left = len(features), cell * len(features), _left(features)
    titles = [style.wrapped(name, int(side / style.LETTER)) for name in names]
    top = 12 + 16 * max(map(len, titles))
    tilted = cell >= READABLE  # else labels are upright, as tilted ones would overlap
    below = 10 + round((0.64 if tilted else 1.0) * (left - 6))
    turned = "rotate(320) translate(0,9)" if tilted else "rotate(270) translate(0,4)"
    wide, high = left + side + SPACING, top + side + below + SPACING
    edge = f"h{cell - 4}{_CORNERS[0]}v{cell - 4}{_CORNERS[1]}h{4 - cell}{_CORNERS[2]}v{4 - cell}"
    lines = list[str]()
    for number_, title in enumerate(titles):
        row, column = divmod(number_, columns)
        lines.append(f'<g transform="translate({left + column * wide},{top + row * high})">')
        for place, value in enumerate(records[number_ * k * k : (number_ + 1) * k * k]):
            (y, x), (light, dark) = np.multiply(divmod(place, k), cell), _colours(value["value"])
            lines.append(
                f'<path d="M{x + 2},{y}{edge}{_CORNERS[3]}" fill="rgb{light}" '
                f'style="--dark:rgb{dark}"/>'
            )
            if cell >= READABLE:
                at = f"translate({x + cell / 2:g},{y + cell / 2 + 3:g})"
                lines.append(_text(value["text"], at, 10, _ink(light), dark=_ink(dark)))
        for order, words in enumerate(reversed(title)):
            above = f"translate({side / 2:g},{-13 - 16 * order})"
            lines.append(_text(words, above, 13, INK, weight="bold"))
        for place, feature in enumerate(features):
            middle = (place + 0.5) * cell
            below_it = f"translate({middle:g},{side + 2.5:g}) {turned}"
            beside_it = f"translate(-5.5,{middle + 3:g})"
            lines += [_text(feature, at, 11, INK, anchor="end") for at in (below_it, beside_it)]
        lines.append("</g>")
    down = -(-len(names) // columns)
    width, height = columns * wide - SPACING, down * high - SPACING
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    body = "".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" class="marks" {size}>{body}</svg>'
    )


def _left(features: Sequence[str]) -> int:
    """Return the pixels of the names beside a matrix."""
    return 6 * max(map(len, features)) + 6


_CORNERS = "a2,2 0 0 1 2,2", "a2,2 0 0 1 -2,2", "a2,2 0 0 1 -2,-2", "a2,2 0 0 1 2,-2Z"
"""The corners of a cell."""


def _text(
    text: str,
    place: str,
    size: int,
    ink: str,
    *,
    anchor: str = "middle",
    weight: str = "normal",
    dark: str = "",
) -> str:
    """Return a text of a picture."""
    font = f'font-family="sans-serif" font-weight="{weight}" font-size="{size}px" fill="{ink}"'
    font += f' style="--dark:{dark}"' if dark else ""
    return f'<text text-anchor="{anchor}" transform="{place}" {font}>{escape(text)}</text>'


def _colours(value: float) -> list[tuple[int, ...]]:
    """Return red, green and blue of a correlation, 0 to 255: on a light and on a dark screen."""
    stops = [np.linspace(-1.0, 1.0, len(scheme)) for scheme in _schemes()]
    pairs = zip(stops, _schemes(), strict=True)
    return [tuple(int(np.interp(value, x, y) + 0.5) for y in levels.T) for x, levels in pairs]


@cache
def _schemes() -> tuple[NDArray[np.uint8], ...]:
    """Return the colours from −1 to 1, (n, 3): on a light and on a dark screen."""
    dark = "".join(style.chart_settings("matrices")["usermeta"]["dark"]).replace("#", "")
    schemes = BLUE_ORANGE, bytes.fromhex(dark)
    return tuple(np.frombuffer(scheme, np.uint8).reshape(-1, 3) for scheme in schemes)


def _ink(colour: tuple[int, ...]) -> str:
    """Return black or white, whichever stands out more from a colour."""
    return "#ffffff" if _luminance(colour) < DARK else "#000000"


def _luminance(colour: tuple[int, ...]) -> float:
    """Return the relative luminance of 8-bit sRGB (WCAG 2)."""
    srgb = np.array(colour) / 255.0
    light = np.where(srgb <= 0.03928, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    return float(light @ [0.2126, 0.7152, 0.0722])


def _explained(features: Sequence[str]) -> str:
    """Say what the features are, similar ones together."""
    from covdp.descriptors import DESCRIPTORS  # loads compiled code

    meanings = dict[str, str]()
    for name in DESCRIPTORS:  # no further than needed: the last are of add-ons
        if meanings.keys() >= set(features):
            break
        if (kind := DESCRIPTORS.loaded([name]).get(name)) is not None:
            meanings |= zip(kind.features, kind.meanings, strict=True)
    groups = style.grouped((meanings.get(name, ""), name) for name in features)
    lines = (f"{', '.join(names)}: {words}" for words, names in groups.items() if words)
    return "".join(f"{line}. " for line in lines).rstrip()


def montage(images: ImageArray, columns: int) -> bytes:
    """Return a PNG with n ≥ 1 images side by side, row by row, `columns` in a row.

    They are uint8 of shape (n, h, w) or (n, h, w, 3), and copied pixel by pixel into an RGBA
    picture that is transparent between them.

    Parameters
    ----------
    images : uint8 array, shape (n, h, w) or (n, h, w, 3)
        Images to place.
    columns : int
        Number of images in a row.
    """
    from PIL import Image

    images = check_images(images)
    n, h, w = images.shape[:3]
    columns = min(columns, n)
    lines = -(-n // columns)
    tiles = np.zeros((lines, columns, h + GAP, w + GAP, 4), dtype=np.uint8)
    shown = tiles.reshape(-1, *tiles.shape[2:])[:n, :h, :w]
    shown[..., :3] = images if images.ndim == 4 else images[..., np.newaxis]
    shown[..., 3] = 255
    sheet = np.vstack([np.hstack(line) for line in tiles])[:-GAP, :-GAP]
    stream = io.BytesIO()
    Image.fromarray(sheet).save(stream, format="PNG")
    return stream.getvalue()


def png_address(images: ImageArray, columns: int = 1) -> str:
    """Return a `montage` as an address that needs no file.

    Parameters
    ----------
    images : uint8 array, shape (n, h, w) or (n, h, w, 3)
        Images to place.
    columns : int
        Number of images in a row.
    """
    return f"data:image/png;base64,{base64.b64encode(montage(images, columns)).decode()}"
