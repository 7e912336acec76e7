"""Figures in the layout of a paper: any column along x, panels by class, group or budget."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.figures.curves import BANDS, Axis, Band, _curves
from pipeline.figures.style import DEFINITIONS, INK, Figure, finish, letter, listing, number
from pipeline.results import Table, summarise, unique

TITLES = {"n": "records n", "dim": "dimension d", "k": "size k, d = k(k + 1)/2"}
"""Titles of the columns that lie along x."""
MEASURES = {"error": "distance to the true mean", "seconds": "seconds a draw"}
"""Titles of the columns that go up."""


def paper_curves(
    rows: Table,
    *,
    x: str,
    panels: Sequence[str],
    band: Band,
    value: str,
    panel_of: Mapping[str, str],
) -> Figure | None:
    """Draw the mean of `value` of each series against `x`, in the panels of the paper's figure.

    Parameters
    ----------
    rows : table
        As `read_rows` returns it.
    x : {"budget", "n", "dim", "k"}
        The column along x; k is that of k × k matrices, found from the dimension.
    panels : sequence of {"class", "panel", "budget"}
        What tells one panel from another; empty for a single panel.
    band : {"se", "2se", "2sd"}
        Half-width of the band.
    value : {"error", "seconds"}
        The column that goes up.
    panel_of : mapping of str to str
        The group of each series, for panels by group.

    Returns
    -------
    Figure or None
        None when no row has a value.
    """
    table = summarise(rows, ("label", "series", "budget", "dim"), value=value)
    if not table["count"].any():
        return None
    table["k"] = (np.sqrt(8 * table["dim"] + 1) - 1) / 2
    if value != "error":
        table["expected_error"] = np.full(len(table["count"]), np.nan)
    parts = [_panel(table, row, panels, panel_of) for row in range(len(table["count"]))]
    codes = [unique(np.array(column, dtype=object))[1] for column in zip(*parts, strict=True)]
    if codes:  # the rows of the paper's figure first, its columns last
        order = np.lexsort(codes[::-1])
        table = {name: column[order] for name, column in table.items()}
        parts = [parts[row] for row in order]
    across = min(len(set(codes[-1])), 4) if len(codes) > 1 else 0
    titles = np.array([", ".join(filter(None, part)) for part in parts], dtype=object)
    letters = unique(rows["definition"])[0]
    names = list(dict.fromkeys(map(letter, letters))) if x == "budget" else []
    x_title = f"budget {listing(names)}" if names else TITLES[x]
    axis = Axis(x_title, np.asarray(table[x], dtype=np.float64))
    chart = _curves(table, titles, x=axis, y=MEASURES[value], band=band, across=across)
    spread = sorted({int(count) for count in table["count"] if count})
    caption = f"Line: mean of {listing(map(number, spread))} repetitions. Band: {BANDS[band]}."
    if np.isfinite(table["expected_error"]).any():
        caption += " Thin dashes: exact expectation, where the law gives one."
    if names:
        words = {letter(name): DEFINITIONS[name][1] for name in letters if name in DEFINITIONS}
        caption += " " + "; ".join(f"{key}: {text}" for key, text in words.items()) + "."
    return finish(
        chart,
        name="error",
        title=f"{MEASURES[value].capitalize()} against {x_title}",
        alt=f"Line chart: {MEASURES[value]} against {x_title}, for "
        f"{listing(table['series'], '; ')}.",
        caption=caption,
        legend=unique(rows["series"])[0],
    )


def _panel(
    table: Table, row: int, panels: Sequence[str], panel_of: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what names the panel of one row of the summary, part by part."""
    series = str(table["series"][row])
    symbol = letter(str(table["definition"][row]))
    parts = {
        "class": str(table["class_name"][row]),
        "panel": panel_of.get(series, ""),
        "budget": f"{symbol} = {number(float(table['budget'][row]))}",
    }
    return tuple(parts[name] for name in panels)


def outlines(shapes: Mapping[str, Sequence[Sequence[Sequence[float]]]]) -> Figure | None:
    """Draw closed outlines, one row a series, at most six in a row.

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
        for column, outline in enumerate(outlines_[:6])
        for order, point in enumerate([*outline, outline[0]])
    ]
    names = json.dumps(list(shapes), ensure_ascii=False)
    head = alt.Header(
        labelAngle=0, title=None, labelAlign="left", labelExpr=f"{names}[datum.value]"
    )
    hidden = alt.Axis(labels=False, ticks=False, grid=False, domain=False, title=None)
    chart = (
        alt.Chart(alt.InlineData(values=records))
        .mark_line(color=INK, strokeWidth=1.6)
        .encode(
            alt.X("x:Q", axis=hidden, scale=alt.Scale(domain=[-0.4, 0.4])),
            alt.Y("y:Q", axis=hidden, scale=alt.Scale(domain=[-0.4, 0.4])),
            alt.Order("order:Q"),
        )
        .properties(width=100, height=100)
        .facet(
            row=alt.Row("line:O", header=head),
            column=alt.Column("place:O", header=alt.Header(labels=False, title=None)),
        )
    )
    return finish(
        chart,
        name="outlines",
        title="Private outlines",
        alt=f"Closed outlines in rows: {listing(shapes)}.",
        caption="Six of each, turned onto the true mean; records and mean are not private.",
    )
