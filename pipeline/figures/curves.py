"""Curves: a mean with its band and, thin and dashed, what theory expects.

Any column may be along x, and panels may go by class, group or budget, as in the figure of a
paper. With a single budget nothing is along x: each series is then a row of its own.

Bars, one number for each of a few things.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from covdp.figures import style
from covdp.figures.style import Axis, Chart, Figure, channel, listing, number
from covdp.privacy import letter
from covdp.results import RunRecord, Table, summarise, unique

GROWING = ("n", "night")
"""x axes on which n varies from point to point."""
BAND_CONFIDENCE = 0.95
"""Confidence of every band that is drawn."""
FOOT = 1 / 20
"""A band ends at this share of its mean: a logarithmic axis has no zero."""
CUT = "; it is cut at a twentieth of the mean"


def curves(
    rows: Table,
    *,
    x: str = "budget",
    panels: Sequence[str] = ("class",),
    value: str = "error",
    panel_of: Mapping[str, str] = MappingProxyType({}),
    curve_of: Mapping[str, str] = MappingProxyType({}),
    dashes: str = "expected_error",
) -> Figure | None:
    """Draw the mean of `value` of each series against `x`.

    Parameters
    ----------
    rows : Table
        Results as `read_rows` returns them.
    x : {"budget", "n", "dim", "k", "night", "footpoint_share", "footpoint_distance"}
        The column along x; k is the size of matrices of dimension d = k(k + 1)/2. Means of a series
        without a number there are drawn from end to end.
    panels : sequence of {"class", "panel", "budget"}
        Columns that tell one panel from another; empty for a single panel.
    value : {"error", "seconds", "rejected", "auc", "accuracy"}
        The column that goes up; dashes are of errors and accuracies alone.
    panel_of : mapping of str to str
        The group of each series, for panels by group.
    curve_of : mapping of str to str
        The curve of each series, where several are one.
    dashes : {"expected_error", "error_bound"}
        The column of what is thin and dashed.

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
    table["expected_error"] = table[dashes]
    if value not in ("error", "accuracy"):
        table["expected_error"] = np.full(len(table["count"]), np.nan)
    table["low"], table["high"] = band(table, value)
    table["beyond"] = table["expected_error" if dashes == "error_bound" else "high"]
    table, across = into_panels(table, panels, panel_of, sizes=x not in GROWING)
    names = list(dict.fromkeys(curve_of.get(name, name) for name in unique(rows["series"])[0]))
    table = _from_end_to_end(_joined(table, curve_of), x)
    if not len(table["count"]):
        return None
    measured = _axis(table, value)
    if is_alone(table, x):
        chart, where = _dots(table, names, measured), f"at {listing(budgets(table))}"
    else:
        along = _axis(table, x)
        chart, where = _lines(table, names, x, along, measured, across), f"against {along.title}"
    title = f"{measured.title[0].upper()}{measured.title[1:]} {where}"
    count = len(set(table["panel"]))
    return style.finish(
        chart,
        _points(table, x),
        name="error",
        title=title,
        alt=f"{title}{f', in {count} panels' if count > 1 else ''}, for "
        f"{listing(unique(table['series'])[0], '; ')}.",
        caption=caption(table, x=x, panels=tuple(panels), value=value, dashes=dashes),
        legend=names,
        columns={
            "x": style.budget_column(table["definition"]) if x == "budget" else x,
            "mean": f"mean_{value}",
            **style.BAND_COLUMNS,
            "count": "repetitions",
            "expected": dashes,
        },
    )


def _joined(table: Table, curve_of: Mapping[str, str]) -> Table:
    """Return a table of means whose series that are one curve have one name."""
    names = [curve_of.get(name, name) for name in table["series"]]
    return {**table, "series": np.array(names, dtype=object)}


def _from_end_to_end(table: Table, x: str) -> Table:
    """Return a table of means in which those without a number along x are at both ends of it."""
    known = np.isfinite(np.asarray(table[x], dtype=np.float64))
    if known.all():
        return table
    if not known.any():
        return {name: column[known] for name, column in table.items()}
    at = np.concatenate([np.flatnonzero(known), np.repeat(np.flatnonzero(~known), 2)])
    ends = np.resize([table[x][known].min(), table[x][known].max()], 2 * int((~known).sum()))
    drawn = {name: column[at] for name, column in table.items()}
    return {**drawn, x: np.concatenate([table[x][known], ends])}


def _axis(table: Table, name: str) -> Axis:
    """Return the axis of a column; that of a budget or a distance in so many words."""
    names = distances(table)
    kind = f"{names[0]} " if len(names) == 1 else ""
    words = {"budget": f"budget {letters(table)}", "error": f"{kind}distance to the true mean"}
    return Axis(words[name]) if name in words else Axis(**style.chart_settings("axes")[name])


def band(table: Table, value: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of the intervals of 95 % for the means of a table.

    Student's t, and of shares of tests Wilson's score, which has a width at 0 and at 1 too. None
    reaches beyond what a value can be: 1 of a share or an area, and of a distance or a time,
    whose axis may be logarithmic, a twentieth of its mean. A single draw has none.

    Parameters
    ----------
    table : Table
        Columns of results, as `summarise` returns them.
    value : str
        Name of the column of values.
    """
    count, mean = table["count"], table["mean"]
    if value == "rejected":
        square = special.ndtri((1.0 + BAND_CONFIDENCE) / 2.0) ** 2 / count
        half = np.sqrt(square * (mean * (1.0 - mean) + square / 4.0))
        middle = mean + square / 2.0
        return (middle - half) / (1.0 + square), (middle + half) / (1.0 + square)
    half = special.stdtrit(np.maximum(count - 1, 1), (1.0 + BAND_CONFIDENCE) / 2.0) * table["se"]
    half = np.where(np.isfinite(half), half, 0.0)
    high = np.minimum(mean + half, 1.0) if value in ("auc", "accuracy") else mean + half
    return np.maximum(mean - half, mean * FOOT), high


def _lines(
    table: Table, names: Sequence[str], x: str, along: Axis, measured: Axis, across: int
) -> Chart:
    """Return the faceted chart of curves, `across` panels in a row (0: as they fit)."""
    drawn = set(table["series"])
    return style.chart_of(
        "curves",
        x=channel("x:Q", **style.position(along, table[x], along=True)),
        **_measured(table, measured),
        **style.look("series", names, [name for name in names if name in drawn]),
        **_panels(table, across=across),
    )


def _dots(table: Table, names: Sequence[str], measured: Axis) -> Chart:
    """Return the faceted chart of one budget: a mark a series, with its band along x."""
    drawn = [name for name in names if name in set(table["series"])]
    return style.chart_of(
        "dots",
        series=style.down("series", drawn, 18),
        **_measured(table, measured),
        **style.look("series", names, ()),
        **_panels(table, room=160),
    )


def _measured(table: Table, measured: Axis) -> Chart:
    """Return the channels of means and of the lower ends of their bands."""
    span = np.concatenate([table["low"], table["high"], table["beyond"]])
    span = span[np.isfinite(span)]
    mean = channel("mean:Q", **style.position(measured, span, along=False))
    return {"mean": mean, "low": channel("low:Q", title=mean["title"])}


def _panels(table: Table, *, across: int = 0, room: int = 0) -> Chart:
    """Return the titles and the width of panels; `room` is for the names of the series."""
    titles = unique(table["panel"])[0]
    columns, width = style.layout(len(titles), across)
    width -= room // columns
    header = style.header(titles, width, columns)
    return {"titles": titles, "header": header, "columns": columns, "width": width}


def _points(table: Table, x: str) -> list[dict[str, Any]]:
    """Return the points that are drawn."""
    numbers = {"x": table[x]} | {name: table[name] for name in ("mean", "low", "high", "count")}
    drawn = {"panel": table["panel"], "series": table["series"], **numbers}
    drawn["expected"] = table["expected_error"]
    return [
        {name: _plain(value) for name, value in zip(drawn, values, strict=True)}
        for values in zip(*drawn.values(), strict=True)
    ]


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
    table : Table
        Summary as `summarise` returns it, one row a point.
    panels : sequence of {"class", "panel", "budget"}
        Columns that tell one panel from another, the rows of the figure first and its columns last.
    groups : mapping of str to str
        The group of each series, for "panel".
    sizes : bool
        True if the title of a class says how many records it has.
    """
    columns = {
        "class": class_titles(table) if sizes else table["class_name"],
        "panel": [groups.get(name, "") for name in table["series"]],
        "budget": budgets(table),
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

    Parameters
    ----------
    table : Table
        Columns of results, as `summarise` returns them.
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


def caption(
    table: Table, *, x: str, panels: tuple[str, ...], value: str, dashes: str = "expected_error"
) -> str:
    """Return the caption of a chart of `table`, which has the columns of `curves`.

    Parameters
    ----------
    table : Table
        Columns of results, as `summarise` returns them.
    x : str
        Name of the column along x.
    panels : tuple of str
        Names of the columns that tell panels apart.
    value : str
        Name of the column that goes up.
    dashes : str
        Name of the column that is drawn dashed.
    """
    alone = is_alone(table, x)
    spread = listing([number(count) for count in sorted(set(table["count"]))])
    sentences = [
        f"{'Mark' if alone else 'Curve'}: mean of {spread} repetitions.",
        _band_words(table, "Stroke" if alone else "Band and stroke"),
        _theory(table, "Upright stroke" if alone else "Thin dashes", DASHES[dashes]),
        ""
        if alone or x == "budget" or "budget" in panels
        else f"Budget: {listing(budgets(table))}.",
        _definitions(table),
        _distances(table) if value == "error" else "",
        _sizes(table) if x not in GROWING else "",
    ]
    return " ".join(filter(None, sentences))


def is_alone(table: Table, x: str) -> bool:
    """Return True if there is one budget only, so that nothing is along the axis of budgets.

    Parameters
    ----------
    table : Table
        Columns of results, as `summarise` returns them.
    x : str
        Name of the column along x.
    """
    return x == "budget" and len(set(table["budget"])) == 1


def budgets(table: Table) -> list[str]:
    """Return the budget of each row of a table with its letter: "ε = 1".

    Parameters
    ----------
    table : Table
        Columns of results, as `summarise` returns them.
    """
    pairs = zip(table["definition"], table["budget"], strict=True)
    return [f"{letter(name)} = {number(value)}" for name, value in pairs]


def letters(table: Table) -> str:
    """Return the letters of a table's budgets: "ε or μ".

    Parameters
    ----------
    table : Table
        Columns of results, as `summarise` returns them.
    """
    return " or ".join(dict.fromkeys(map(letter, table["definition"])))


def _band_words(table: Table, mark: str) -> str:
    if not np.isfinite(table["se"]).any():
        return ""
    cut = bool((table["low"] == table["mean"] * FOOT).any())
    return f"{mark}: 95 % confidence for the mean of all draws{CUT * cut}."


DASHES = {
    "expected_error": "exact expectation",
    "error_bound": "what the expectation is at most, by Theorem 4.1, corrected and with curvature",
}
"""Meaning of a thin, dashed line, by column."""


def _theory(table: Table, mark: str, words: str) -> str:
    exact = np.isfinite(table["expected_error"])
    if not exact.any():
        return ""
    return f"{mark}: {words}{'' if exact.all() else ', where it is known'}."


def _definitions(table: Table) -> str:
    """Say which definition each letter stands for."""
    known, names = style.definition_words(), unique(table["definition"])[0]
    words = style.grouped((letter(name), known[name]) for name in names if name in known)
    parts = [f"{key}: {listing(texts)} differential privacy" for key, texts in words.items()]
    return "; ".join(parts) + "." if parts else ""


def distances(table: Table) -> list[str]:
    """Return the distances that errors of a table are measured in; none where none is stated.

    Parameters
    ----------
    table : Table
        Columns of results, as `summarise` returns them.
    """
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
    has_n = len(unique(table["label"])[0]) == 1 and any(" n = " in name for name in table["panel"])
    return "" if len(sizes) > 1 or has_n else f"n = {sizes.pop():,.0f}."


def bars(
    labels: Sequence[str],
    values: Sequence[float],
    *,
    name: str,
    title: str,
    axis: str | list[str],
    texts: Sequence[str] | None = None,
    limits: Sequence[float] | None = None,
    caption: str = "",
    columns: Mapping[str, str] = MappingProxyType({}),
) -> Figure | None:
    """Draw horizontal bars from zero; None when there is none.

    Parameters
    ----------
    labels : sequence of str
        Label of each of m bars.
    values : sequence of float
        Length of each bar.
    name, title : str
        Id of the figure, and its heading.
    axis : str or list of str
        The title of the axis with its unit of measurement; its lines of text, where it has several.
    texts : sequence of str, optional
        Text at the end of each bar; its value by default.
    limits : sequence of float, optional
        A vertical stroke on each bar, for what the value must not exceed.
    caption : str
        Meaning of the marks.
    columns : mapping of str to str
        Headings of columns in the file of numbers, by name.

    Returns
    -------
    Figure or None
        Figure, None where there are no bars.
    """
    if not len(labels):
        return None
    texts = [number(value) for value in values] if texts is None else texts
    records = [
        {"label": label, "value": float(value), "text": text}
        | ({} if limits is None else {"limit": float(limits[order])})
        | {"end": float(value if limits is None else max(value, limits[order]))}
        for order, (label, value, text) in enumerate(zip(labels, values, texts, strict=True))
    ]
    rows = {"domain": False, "ticks": False, "labelPadding": 8}
    label = channel("label:N", sort=list(labels), title=None, axis=rows)
    chart = style.chart_of("bars", label=label, axis=axis)
    if limits is None:
        chart["layer"].pop()
    pairs = ", ".join(f"{label} {text}" for label, text in zip(labels, texts, strict=True))
    return style.finish(
        chart,
        records,
        name=name,
        title=title,
        alt=f"Bar chart, {axis if isinstance(axis, str) else ' '.join(axis)}: {pairs}.",
        caption=caption,
        columns={"end": "", "text": "", **columns},
    )


def tightness(bound: Table, *, manifold: str = "") -> Figure | None:
    """Draw the largest distance to the identity, per class, against the proven radius.

    `manifold` names the one whose distance it is.

    Parameters
    ----------
    bound : Table
        Columns of bounds, as `covdp.results.read_bound` returns them.
    manifold : str
        Name of the manifold whose distance it is; not named when empty.

    Returns
    -------
    Figure or None
        Figure, None for a table without rows.
    """
    where = f", on {manifold}" if manifold else ""
    fullest = 100.0 * float(np.max(bound["ratio"], initial=0.0))
    figure = bars(
        [str(name) for name in bound["class_name"]],
        bound["largest_norm"].tolist(),
        name="bound",
        title="The bound and its tightness",
        axis=["largest distance of a descriptor", f"from the identity{where}"],
        texts=[f"{100 * ratio:.1f} %" for ratio in bound["ratio"]],
        limits=bound["radius"].tolist(),
        caption="Bar: the largest distance in the class, with its share of the bound. "
        "Stroke: the proven radius r, which holds for every possible image of this size.",
        columns={
            "label": "class",
            "value": "largest_distance",
            "limit": "proven_radius",
            "text": "share_of_radius",
        },
    )
    finding = f"The farthest image is at {fullest:.1f} % of the bound"
    return figure and replace(figure, finding=finding)


def steps(record: RunRecord) -> Figure | None:
    """Draw the wall-clock time of each step of a run.

    Parameters
    ----------
    record : RunRecord
        Record of the run.

    Returns
    -------
    Figure or None
        Figure, None for a run without steps.
    """
    if not record.steps:
        return None
    total = sum(seconds for _, seconds in record.steps)
    longest, most = max(record.steps, key=lambda step: step[1])
    figure = bars(
        [name for name, _ in record.steps],
        [seconds for _, seconds in record.steps],
        name="steps",
        title="Time per step",
        axis="seconds",
        texts=[f"{number(seconds)} s" for _, seconds in record.steps],
        caption=f"Wall-clock time; {number(total)} s in all.",
        columns={"label": "step", "value": "seconds"},
    )
    share = 100.0 * most / max(total, 1e-9)
    return figure and replace(figure, finding=f"Time per step: {longest} {share:.0f} %")
