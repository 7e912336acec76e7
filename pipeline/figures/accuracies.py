"""Accuracies: what classifiers from private means keep of that of the true means, by budget."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.figures.style import INK, PALETTE, SHAPES, Figure, finish, is_log, listing, log_ticks

UP = "told right"
"""What goes up."""


def accuracies(
    records: Sequence[Mapping[str, Any]],
    *,
    colours: Mapping[str, int],
    levels: Mapping[str, float],
    along: str,
    caption: str,
) -> Figure:
    """Draw the mean share that is told right of each series, with a band, against the budget.

    Parameters
    ----------
    records : sequence of mapping
        With ``series``, ``budget``, ``value``, ``low`` and ``high``.
    colours : mapping of str to int
        Each series' place in the palette.
    levels : mapping of str to float
        What to compare with: name and share, a dashed line each.
    along : str
        Title of the axis of budgets.
    caption : str
        What the marks stand for.
    """
    import altair as alt

    budgets = sorted({record["budget"] for record in records})
    colour, shape = _look(colours)
    base = alt.Chart(alt.InlineData(values=list(records))).encode(_along(budgets, along), colour)
    scale, percent = alt.Scale(zero=False), alt.Axis(format=".0%")
    up = alt.Y("value:Q", title=UP, scale=scale, axis=percent)
    area = base.mark_area(fillOpacity=0.16, line=False)
    tips = ["series:N", *(alt.Tooltip(f"{x}:Q", format=".4~g") for x in ("budget", "value"))]
    layers = [
        area.encode(alt.Y("low:Q", scale=scale, title=UP, axis=percent), alt.Y2("high")),
        *_flat(levels, _along(budgets, along), budgets[-1]),
        base.mark_line(strokeWidth=1.8).encode(up),
        base.mark_point(filled=True, opacity=1, size=44).encode(up, shape, tooltip=tips),
    ]
    return finish(
        alt.layer(*layers).properties(width=800, height=260),
        name="accuracies",
        title="Told right",
        alt=f"Share told right by budget, {listing(colours)}, beside {listing(levels)}.",
        caption=caption,
        legend=list(colours),
    )


def _look(colours: Mapping[str, int]) -> tuple[Any, Any]:
    """Return colour and shape of each series; one alone needs no legend."""
    import altair as alt

    names = list(colours)
    legend = alt.Legend(values=names) if len(names) > 1 else None
    ranges = ([of[place % len(of)] for place in colours.values()] for of in (PALETTE, SHAPES))
    first, second = (alt.Scale(domain=names, range=one) for one in ranges)
    return (
        alt.Color("series:N", legend=legend, scale=first),
        alt.Shape("series:N", legend=legend, scale=second),
    )


def _flat(levels: Mapping[str, float], across: Any, last: float) -> list[Any]:
    """Return a dashed line a level, and its name."""
    import altair as alt

    rows = [{"level": name, "value": value, "budget": last} for name, value in levels.items()]
    chart = alt.Chart(alt.InlineData(values=rows)).encode(alt.Y("value:Q"))
    text = chart.mark_text(align="right", dy=-14, color=INK, fontSize=11)
    return [
        chart.mark_rule(color=INK, strokeDash=[4, 3], strokeWidth=1),
        text.encode(across, alt.Text("level:N")),
    ]


def _along(budgets: Sequence[float], title: str) -> Any:
    """Return the axis of budgets: logarithmic where they span a lot."""
    import altair as alt

    if is_log(budgets):
        ticks = log_ticks(budgets[0], budgets[-1])
        scale = alt.Scale(type="log", nice=False)
        return alt.X("budget:Q", title=title, scale=scale, axis=alt.Axis(values=ticks, grid=False))
    return alt.X("budget:Q", title=title, axis=alt.Axis(grid=False), scale=alt.Scale(zero=False))
