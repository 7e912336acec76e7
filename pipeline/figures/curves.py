"""Curves: a mean with its band and, thin and dashed, what theory expects.

Any column may lie along x, and panels may go by class, group or budget, as in the figure of a
paper. With a single budget nothing lies along x: each series is then a line of its own.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.figures.captions import FOOT, GROWING, budgets, caption, distances, is_alone, letters
from pipeline.figures.panels import broken, header, into_panels, layout
from pipeline.figures.scales import Axis, position
from pipeline.figures.style import INK, PALETTE, SHAPES, Figure, finish, listing
from pipeline.results import Table, summarise, unique

Band = Literal["se", "2se", "2sd"]
SIZES: Mapping[str, Axis] = {
    "n": Axis("number of records n"),
    "dim": Axis("dimension d", linear=True),
    "k": Axis("size k of the k × k matrices", linear=True),
    "night": Axis("night"),
}
"""The columns that may lie along x, beside the budget."""

MEASURED: Mapping[str, Axis] = {
    "seconds": Axis("time of a draw", seconds=True),
    "rejected": Axis("share of tests that find a difference, at 5 %", linear=True),
    "auc": Axis("area under the ROC curve", linear=True, cut=True),
}
"""What may go up, beside the error."""


def curves(
    rows: Table,
    *,
    x: str = "budget",
    panels: Sequence[str] = ("class",),
    band: Band = "se",
    value: str = "error",
    panel_of: Mapping[str, str] = MappingProxyType({}),
) -> Figure | None:
    """Draw the mean of `value` of each series against `x`.

    Parameters
    ----------
    rows : table
        As `read_rows` returns it.
    x : {"budget", "n", "dim", "k", "night"}
        The column along x; k is the size of matrices of dimension d = k(k + 1)/2.
    panels : sequence of {"class", "panel", "budget"}
        What tells one panel from another; empty for a single panel.
    band : {"se", "2se", "2sd"}
        Half-width of the band.
    value : {"error", "seconds", "rejected", "auc"}
        The column that goes up.
    panel_of : mapping of str to str
        The group of each series, for panels by group.

    Returns
    -------
    Figure or None
        None when no row has a value.
    """
    table = summarise(rows, value=value)
    table = {name: column[table["count"] > 0] for name, column in table.items()}
    if not len(table["count"]):
        return None
    table["k"] = (np.sqrt(8 * table["dim"] + 1) - 1) / 2
    if value != "error":
        table["expected_error"] = np.full(len(table["count"]), np.nan)
    table["low"], table["high"] = _band(table, band)
    table, across = into_panels(table, panels, panel_of, sizes=x not in GROWING)
    measured, names = _measure(table, value), unique(rows["series"])[0]
    if is_alone(table, x):
        chart, where = _dots(table, names, measured), f"at {budgets(table)}"
    else:
        along = Axis(f"budget {letters(table)}") if x == "budget" else SIZES[x]
        chart, where = _lines(table, names, x, along, measured, across), f"against {along.title}"
    title = f"{measured.title[0].upper()}{measured.title[1:]} {where}"
    count = len(set(table["panel"]))
    return finish(
        chart,
        name="error",
        title=title,
        alt=f"{title}{f', in {count} panels' if count > 1 else ''}, for "
        f"{listing(unique(table['series'])[0], '; ')}.",
        caption=caption(table, band=band, x=x, panels=tuple(panels), value=value),
        legend=names,
    )


def _measure(table: Table, value: str) -> Axis:
    """Return the axis of what was measured; a distance in so many words."""
    if value in MEASURED:
        return MEASURED[value]
    names = distances(table)
    return Axis(
        f"{names[0]} distance to the true mean" if len(names) == 1 else "distance to the true mean"
    )


def _band(table: Table, band: Band) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the band's edges; its foot stays above zero, so that it can be drawn on a log axis."""
    half = {"se": table["se"], "2se": 2 * table["se"], "2sd": 2 * table["sd"]}[band]
    half = np.where(np.isfinite(half), half, 0.0)
    return np.maximum(table["mean"] - half, table["mean"] * FOOT), table["mean"] + half


def _lines(
    table: Table, names: Sequence[str], x: str, along: Axis, measured: Axis, across: int
) -> Any:
    """Return the faceted chart of curves, `across` panels in a row (0: as they fit)."""
    import altair as alt

    picked = alt.selection_point(fields=["series"], bind="legend")
    span = np.concatenate([table["low"], table["high"]])
    base = alt.Chart().encode(
        alt.X("x:Q", **position(along, table[x], along=True)),
        opacity=alt.when(picked).then(alt.value(1)).otherwise(alt.value(0.12)),
    )
    color, shape = _look(table, names)
    up = position(measured, span, along=False)
    area = base.mark_area(fillOpacity=0.18, clip=True).encode(
        alt.Y("low:Q", title=up["title"]), alt.Y2("high"), color
    )
    line = base.mark_line(strokeWidth=2, clip=True).encode(alt.Y("mean:Q", **up), color)
    dots = base.mark_point(filled=True, size=42).encode(
        alt.Y("mean:Q", **up), color, shape, tooltip=_tooltip("x")
    )
    theory = base.mark_line(
        strokeDash=[4, 3], strokeWidth=1.2, strokeOpacity=0.8, color=INK, clip=True
    ).encode(alt.Y("expected:Q"), alt.Detail("series:N"))
    layers = alt.layer(area, line, theory.properties(name="theory"), dots.add_params(picked))
    columns, width = layout(len(set(table["panel"])), across)
    return _facets(layers.properties(width=width, height=230), table, table[x], columns, width)


def _dots(table: Table, names: Sequence[str], measured: Axis) -> Any:
    """Return the faceted chart of one budget: a mark a series, with its band along x."""
    import altair as alt

    drawn = [name for name in names if name in set(table["series"])]
    span = np.concatenate([table["low"], table["high"]])
    base = alt.Chart().encode(
        alt.Y("series:N", sort=drawn, title=None).axis(
            domain=False, ticks=False, grid=True, labelPadding=8, labelExpr=broken(drawn, drawn, 18)
        )
    )
    along = position(measured, span, along=False)
    color, shape = (channel.legend(None) for channel in _look(table, names))
    stroke = base.mark_rule(strokeWidth=2).encode(
        alt.X("low:Q", title=along["title"]), alt.X2("high"), color
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        alt.X("mean:Q", **along), color, shape, tooltip=_tooltip()
    )
    theory = base.mark_tick(color=INK, thickness=1.2, height=18).encode(alt.X("expected:Q"))
    layers = alt.layer(stroke, theory.properties(name="theory"), dots)
    columns, width = layout(len(set(table["panel"])))
    width -= 160 // columns  # room for the names of the series
    return _facets(
        layers.properties(width=width, height={"step": 34}), table, table["budget"], columns, width
    )


def _look(table: Table, names: Sequence[str]) -> tuple[Any, Any]:
    """Return colour and shape of each series, the same whichever of them are drawn."""
    import altair as alt

    drawn = set(table["series"])
    legend = alt.Legend(values=[name for name in names if name in drawn])
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(names))]
    shapes = [SHAPES[place % len(SHAPES)] for place in range(len(names))]
    return (
        alt.Color("series:N", legend=legend, scale=alt.Scale(domain=names, range=colours)),
        alt.Shape("series:N", legend=legend, scale=alt.Scale(domain=names, range=shapes)),
    )


def _tooltip(*first: str) -> list[Any]:
    import altair as alt

    numbers = (*first, "mean", "low", "high", "expected")
    shown = [alt.Tooltip(f"{name}:Q", format=".3~g") for name in numbers]
    return ["panel:N", "series:N", *shown, "count:Q"]


def _facets(layers: Any, table: Table, x: NDArray[np.float64], columns: int, width: int) -> Any:
    """Return one copy of the layers a panel, with the points that are drawn."""
    import altair as alt

    titles = unique(table["panel"])[0]
    numbers = {"x": x} | {name: table[name] for name in ("mean", "low", "high", "count")}
    drawn = {"panel": table["panel"], "series": table["series"], **numbers}
    drawn["expected"] = table["expected_error"]
    records = [
        {name: _plain(value) for name, value in zip(drawn, values, strict=True)}
        for values in zip(*drawn.values(), strict=True)
    ]
    return layers.facet(
        facet=alt.Facet("panel:N", sort=titles, header=header(titles, width)),
        columns=columns,
        data=alt.InlineData(values=records),
    )


def _plain(value: Any) -> Any:
    """Return a value JSON can hold, floats to seven digits: the specification stays small."""
    if isinstance(value, str):
        return value
    return float(f"{value:.7g}") if np.isfinite(value) else None
