"""Panels of a chart: what each one is called, in which order they stand, and how wide they are."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.figures.style import firm, number
from pipeline.privacy import letter
from pipeline.results import Table, unique

LETTER = 8.4
"""Pixels that one letter of a panel's title takes at most, on average, in bold of 13 pixels."""


def into_panels(
    table: Table, panels: Sequence[str], groups: Mapping[str, str], *, sizes: bool
) -> tuple[Table, int]:
    """Return the table with a column ``panel``, and the panels in a row (0: as they fit).

    Parameters
    ----------
    table : table
        As `summarise` returns it, one row a point.
    panels : sequence of {"class", "panel", "budget"}
        What tells one panel from another, the rows of the figure first and its columns last.
    groups : mapping of str to str
        The group of each series, for "panel".
    sizes : bool
        Whether the title of a class says how many records it has.
    """
    columns = {
        "class": class_titles(table) if sizes else table["class_name"],
        "panel": [groups.get(name, "") for name in table["series"]],
        "budget": [
            f"{letter(definition)} = {number(budget)}"
            for definition, budget in zip(table["definition"], table["budget"], strict=True)
        ],
    }
    parts = [np.array(columns[name], dtype=object) for name in panels]
    codes = [unique(part)[1] for part in parts]
    if codes:
        order = np.lexsort(codes[::-1])
        table = {name: column[order] for name, column in table.items()}
        parts = [part[order] for part in parts]
    titles = [", ".join(filter(None, words)) for words in zip(*parts, strict=True)]
    table["panel"] = np.array(titles or [""] * len(table["count"]), dtype=object)
    return table, min(len(set(codes[-1])), 4) if len(codes) > 1 else 0


def class_titles(table: Table) -> NDArray[Any]:
    """Return the title of each row's class, with its number of records where classes differ in it.

    The number is left out where the class is called by it, where all classes share it, and where it
    is another in each series, or night by night.
    """
    labels = unique(table["label"])[0]
    shared = len(labels) > 1 and len(set(table["n"])) == 1
    several = any(len(set(table["n"][table["label"] == label])) > 1 for label in labels)
    plain = shared or several or bool(np.any(table.get("night", 0)))
    titles = [
        name if plain or "n = " in name else f"{name}, n = {n:,.0f}"
        for name, n in zip(table["class_name"], table["n"], strict=True)
    ]
    return np.array(titles, dtype=object)


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
    import altair as alt

    return alt.Header(
        labelAnchor="start",
        labelLimit=width + 16,
        labelLineHeight=16,
        labelExpr=broken(titles, titles, int(width / LETTER)),
        labels=titles != [""],
    )
