"""Curves: a mean with its band and, thin and dashed, what theory expects.

Any column may lie along x, and panels may go by class, group or budget, as in the figure of a
paper. With a single budget nothing lies along x: each series is then a line of its own.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.figures.axes import Axis, broken, header, in_order, layout, look, position, tips
from pipeline.figures.style import DEFINITIONS, INK, Figure, alt, finish, listing, number
from pipeline.privacy import letter
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
NAMED, SHOWN = ("panel:N", "series:N"), ("mean", "low", "high", "expected")
"""What a tooltip tells of a mark: whose it is, and numbers."""
BANDS: Mapping[str, str] = {
    "se": "one standard error",
    "2se": "two standard errors",
    "2sd": "two standard deviations",
}
GROWING = ("n", "night")
"""Where they lie along x, the number of records is another at each point."""
FOOT = 1 / 20
"""A band ends at this share of its mean: a logarithmic axis has no zero."""


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
    picked = alt.selection_point(fields=["series"], bind="legend")
    span = np.concatenate([table["low"], table["high"]])
    base = alt.Chart().encode(
        alt.X("x:Q", **position(along, table[x], along=True)),
        opacity=alt.when(picked).then(alt.value(1)).otherwise(alt.value(0.12)),
    )
    drawn = set(table["series"])
    color, shape = look("series", in_order(names), [name for name in names if name in drawn])
    up = position(measured, span, along=False)
    area = base.mark_area(fillOpacity=0.18, clip=True).encode(
        alt.Y("low:Q", title=up["title"]), alt.Y2("high"), color
    )
    line = base.mark_line(strokeWidth=2, clip=True).encode(alt.Y("mean:Q", **up), color)
    dots = base.mark_point(filled=True, size=42).encode(
        alt.Y("mean:Q", **up), color, shape, tooltip=[*NAMED, *tips("x", *SHOWN), "count:Q"]
    )
    theory = base.mark_line(
        strokeDash=[4, 3], strokeWidth=1.2, strokeOpacity=0.8, color=INK, clip=True
    ).encode(alt.Y("expected:Q"), alt.Detail("series:N"))
    layers = alt.layer(area, line, theory.properties(name="theory"), dots.add_params(picked))
    columns, width = layout(len(set(table["panel"])), across)
    return _facets(layers.properties(width=width, height=230), table, table[x], columns, width)


def _dots(table: Table, names: Sequence[str], measured: Axis) -> Any:
    """Return the faceted chart of one budget: a mark a series, with its band along x."""
    drawn = [name for name in names if name in set(table["series"])]
    span = np.concatenate([table["low"], table["high"]])
    base = alt.Chart().encode(
        alt.Y("series:N", sort=drawn, title=None).axis(
            domain=False, ticks=False, grid=True, labelPadding=8, labelExpr=broken(drawn, drawn, 18)
        )
    )
    along = position(measured, span, along=False)
    color, shape = look("series", in_order(names), ())
    stroke = base.mark_rule(strokeWidth=2).encode(
        alt.X("low:Q", title=along["title"]), alt.X2("high"), color
    )
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        alt.X("mean:Q", **along), color, shape, tooltip=[*NAMED, *tips(*SHOWN), "count:Q"]
    )
    theory = base.mark_tick(color=INK, thickness=1.2, height=18).encode(alt.X("expected:Q"))
    layers = alt.layer(stroke, theory.properties(name="theory"), dots)
    columns, width = layout(len(set(table["panel"])))
    width -= 160 // columns  # room for the names of the series
    return _facets(
        layers.properties(width=width, height={"step": 34}), table, table["budget"], columns, width
    )


def _facets(layers: Any, table: Table, x: NDArray[np.float64], columns: int, width: int) -> Any:
    """Return one copy of the layers a panel, with the points that are drawn."""
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


def caption(table: Table, *, band: str, x: str, panels: tuple[str, ...], value: str) -> str:
    """Return the caption of a chart of `table`, which has the columns of `curves`."""
    alone = is_alone(table, x)
    spread = listing([number(count) for count in sorted(set(table["count"]))])
    sentences = [
        f"{'Mark' if alone else 'Line'}: mean of {spread} repetitions.",
        _band_words(table, band, "Line" if alone else "Band"),
        _theory(table, "Upright stroke" if alone else "Thin dashes"),
        "" if alone or x == "budget" or "budget" in panels else f"Budget: {budgets(table)}.",
        _definitions(table),
        _distances(table) if value == "error" else "",
        _sizes(table) if x not in GROWING else "",
    ]
    return " ".join(filter(None, sentences))


def is_alone(table: Table, x: str) -> bool:
    """Tell whether there is one budget only, so that nothing lies along the axis of budgets."""
    return x == "budget" and len(set(table["budget"])) == 1


def budgets(table: Table) -> str:
    """Return the budgets of a table with their letters: "ε = 1 and μ = 1"."""
    pairs = zip(table["definition"], table["budget"], strict=True)
    return listing([f"{letter(name)} = {number(value)}" for name, value in pairs])


def letters(table: Table) -> str:
    """Return the letters of a table's budgets: "ε or μ"."""
    return " or ".join(dict.fromkeys(map(letter, table["definition"])))


def _band_words(table: Table, band: str, mark: str) -> str:
    if not np.isfinite(table["se"]).any():
        return ""
    cut = bool((table["low"] <= table["mean"] * FOOT).any())
    return f"{mark}: ± {BANDS[band]}{', cut at a twentieth of the mean' if cut else ''}."


def _theory(table: Table, mark: str) -> str:
    known = np.isfinite(table["expected_error"])
    if not known.any():
        return ""
    return f"{mark}: exact expectation{'' if known.all() else ', where it is known'}."


def _definitions(table: Table) -> str:
    """Say which definition each letter stands for."""
    words: dict[str, list[str]] = {}
    for name in unique(table["definition"])[0]:
        if name in DEFINITIONS:
            symbol, text = letter(name), DEFINITIONS[name]
            words.setdefault(symbol, []).append(text.removesuffix(" differential privacy"))
    parts = [f"{key}: {listing(texts)} differential privacy" for key, texts in words.items()]
    return "; ".join(parts) + "." if parts else ""


def distances(table: Table) -> list[str]:
    """Return the distances that the errors of a table are measured in; none where none is said."""
    return [name for name in unique(table["distance"])[0] if name] if "distance" in table else []


def _distances(table: Table) -> str:
    """Say which series is measured in which distance, where they differ."""
    names = distances(table)
    if len(names) < 2:
        return ""
    series = {name: unique(table["series"][table["distance"] == name])[0] for name in names}
    once = len({word for words in series.values() for word in words}) == sum(
        map(len, series.values())
    )
    if not once:
        return f"Distance: {listing(names)}, that of each panel."
    return f"Distance: {'; '.join(f'{name} ({listing(series[name])})' for name in names)}."


def _sizes(table: Table) -> str:
    """Say how many records each class has, where it is one number and no title says it."""
    sizes = set(table["n"])
    told = len(unique(table["label"])[0]) == 1 and any(" n = " in name for name in table["panel"])
    return "" if len(sizes) > 1 or told else f"n = {sizes.pop():,.0f}."
