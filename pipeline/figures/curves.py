"""Curves: a mean with its band and, thin and dashed, what theory expects."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.figures.style import (
    DEFINITIONS,
    INK,
    PALETTE,
    SHAPES,
    Figure,
    finish,
    is_log,
    listing,
    log_ticks,
    number,
)
from pipeline.results import Table, summarise, unique

Band = Literal["se", "2se", "2sd"]
BANDS: dict[Band, str] = {
    "se": "± one standard error",
    "2se": "± two standard errors",
    "2sd": "± two standard deviations",
}


class Axis(NamedTuple):
    """One axis: its title, and the numbers that lie on it."""

    title: str
    values: NDArray[np.float64]


def error_against_budget(rows: Table, *, band: Band = "se") -> Figure | None:
    """Draw the mean error of each series against the budget, one panel a class.

    Parameters
    ----------
    rows : table
        As `read_rows` returns it.
    band : {"se", "2sd"}
        Half-width of the band: one standard error of the mean, or two standard deviations.

    Returns
    -------
    Figure or None
        None when no row has an error.
    """
    table = summarise(rows)
    names = [DEFINITIONS.get(name, (name, name)) for name in unique(rows["definition"])[0]]
    budget = listing([f"{letter} ({title})" for letter, title in names])
    panels = _panels(table)
    count = table["count"][table["count"] > 0]
    if not len(count):
        return None
    spread = number(count.min()) + (f" to {number(count.max())}" if np.ptp(count) else "")
    theory = np.isfinite(table["expected_error"]).any()
    caption = f"Line: mean of {spread} repetitions. Band: {BANDS[band]}."
    caption += " Thin dashes: exact expectation." if theory else ""
    chart = _curves(
        table,
        panels,
        x=Axis(f"budget {budget}", table["budget"]),
        y="distance to the true mean",
        band=band,
    )
    alt = (
        f"Line chart with one panel for each of {len(set(panels))} classes: distance between the "
        f"private and the true mean against the budget, for {listing(table['series'], '; ')}."
    )
    return finish(
        chart,
        name="error",
        title="Error against budget",
        alt=alt,
        caption=caption,
        legend=unique(rows["series"])[0],
    )


def time_against_size(rows: Table, *, size: str, size_title: str) -> Figure | None:
    """Draw the mean seconds of each series against the column `size`; None without a time."""
    table = summarise(rows, ("series", size), value="seconds")
    if not table["count"].any():
        return None
    table["expected_error"] = np.full(len(table["count"]), np.nan)
    panels = np.full(len(table["count"]), "", dtype=object)
    x = Axis(size_title, np.asarray(table[size], dtype=np.float64))
    chart = _curves(table, panels, x=x, y="seconds", band="se")
    return finish(
        chart,
        name=f"time-{size}",
        title=f"Time against {size_title}",
        alt=f"Line chart: seconds against {size_title}, for {listing(table['series'], '; ')}.",
        caption=f"Line: mean time on this machine. Band: {BANDS['se']}.",
        legend=unique(rows["series"])[0],
    )


def _panels(table: Table) -> NDArray[Any]:
    """Return the title of each row's panel: its class and the number of records."""
    titles = [
        f"{name}, n = {n:,.0f}" for name, n in zip(table["class_name"], table["n"], strict=True)
    ]
    return np.array(titles, dtype=object)


def _curves(
    table: Table, panels: NDArray[Any], *, x: Axis, y: str, band: Band, across: int = 0
) -> Any:
    """Return the layered, faceted Altair chart, `across` panels in a row (0: as they fit)."""
    import altair as alt

    low, high = _band(table, band)
    good = table["count"] > 0
    records = _records(table, panels, x, low, high)
    series, titles = unique(table["series"][good])[0], unique(panels[good])[0]
    picked = alt.selection_point(fields=["series"], bind="legend")
    span = np.concatenate([low[good], high[good]])
    base = alt.Chart().encode(
        alt.X("x:Q", **_scale(x.title, x.values[good], tight=True)),
        opacity=alt.when(picked).then(alt.value(1)).otherwise(alt.value(0.12)),
    )
    color = alt.Color("series:N", sort=series, scale=alt.Scale(domain=series, range=PALETTE))
    up = alt.Y("mean:Q", **_scale(y, span, tight=False))
    area = base.mark_area(fillOpacity=0.18, clip=True).encode(
        alt.Y("low:Q", title=y), alt.Y2("high"), color
    )
    line = base.mark_line(strokeWidth=2, clip=True).encode(up, color)
    tooltip = [
        alt.Tooltip(f"{name}:Q", format=".3~g") for name in ("x", "mean", "low", "high", "expected")
    ]
    dots = base.mark_point(filled=True, size=42).encode(
        up,
        color,
        alt.Shape("series:N", sort=series, scale=alt.Scale(domain=series, range=SHAPES)),
        tooltip=["panel:N", "series:N", *tooltip, "count:Q"],
    )
    theory = base.mark_line(
        strokeDash=[4, 3], strokeWidth=1.2, strokeOpacity=0.8, color=INK, clip=True
    ).encode(alt.Y("expected:Q"), alt.Detail("series:N"))
    layers = alt.layer(area, line, theory.properties(name="theory"), dots.add_params(picked))
    columns_wide, width = _layout(len(titles), across)
    return layers.properties(width=width, height=230).facet(
        facet=alt.Facet(
            "panel:N", sort=titles, header=alt.Header(labelAnchor="start", labelLimit=width)
        ),
        columns=columns_wide,
        data=alt.InlineData(values=records),
    )


def _records(
    table: Table, panels: NDArray[Any], x: Axis, low: NDArray[Any], high: NDArray[Any]
) -> list[dict[str, Any]]:
    """Return the points that are drawn, one a row with a mean."""
    names = ("panel", "series", "x", "mean", "low", "high", "expected", "count")
    numbers = (table["mean"], low, high, table["expected_error"], table["count"])
    columns = [panels, table["series"], x.values, *numbers]
    good = table["count"] > 0
    return [
        {name: _plain(value) for name, value in zip(names, values, strict=True)}
        for values in zip(*(column[good] for column in columns), strict=True)
    ]


def _band(table: Table, band: Band) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the band's edges; its foot stays above zero, so that it can be drawn on a log axis."""
    half = {"se": table["se"], "2se": 2 * table["se"], "2sd": 2 * table["sd"]}[band]
    half = np.where(np.isfinite(half), half, 0.0)
    return np.maximum(table["mean"] - half, table["mean"] / 20), table["mean"] + half


def _scale(title: str, values: NDArray[np.float64], *, tight: bool) -> dict[str, Any]:
    """Return title, scale and ticks of a position: logarithmic where the values span a lot."""
    import altair as alt

    low, high = float(values.min()), float(values.max())
    if not is_log([low, high]):
        scale = alt.Scale(zero=False, nice=False, padding=8) if tight else alt.Scale(zero=True)
        return {"title": title, "scale": scale, "axis": alt.Axis(tickCount=6)}
    slack = 1.08
    domain = [low / slack, high * slack]
    ticks = alt.Axis(values=log_ticks(*domain), format="~g")
    return {
        "title": title,
        "scale": alt.Scale(type="log", domain=domain, nice=False),
        "axis": ticks,
    }


def _layout(panels: int, across: int = 0) -> tuple[int, int]:
    """Return panels in a row, and the width of one in pixels."""
    across = min(across or (2 if panels in (2, 4) else 3), panels)
    return across, {1: 640, 2: 390, 3: 245}.get(across, 172)


def _plain(value: Any) -> Any:
    """Return a value JSON can hold, floats to seven digits: the specification stays small."""
    if isinstance(value, str):
        return value
    return float(f"{value:.7g}") if np.isfinite(value) else None
