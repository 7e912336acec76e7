"""Bars: one number for each of a few things, each read off at its end."""

from collections.abc import Sequence

from pipeline.figures.style import INK, PALETTE, Figure, finish, number
from pipeline.results import RunRecord, Table


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
) -> Figure | None:
    """Draw horizontal bars from zero; None when there is none.

    Parameters
    ----------
    labels, values : sequences of length m
        What each bar stands for, and how long it is.
    name, title : str
        Id of the figure, and its heading.
    axis : str or list of str
        The title of the axis with its unit; its lines, where it has several.
    texts : sequence of length m, optional
        What is written at the end of each bar; its value by default.
    limits : sequence of length m, optional
        A vertical stroke on each bar, for what the value must not exceed.
    caption : str
        What the marks stand for.
    """
    import altair as alt

    if not len(labels):
        return None
    texts = [number(value) for value in values] if texts is None else texts
    records = [
        {"label": label, "value": float(value), "text": text, "order": order}
        | ({} if limits is None else {"limit": float(limits[order])})
        | {"end": float(value if limits is None else max(value, limits[order]))}
        for order, (label, value, text) in enumerate(zip(labels, values, texts, strict=True))
    ]
    base = alt.Chart(alt.InlineData(values=records)).encode(
        alt.Y("label:N", sort=list(labels), title=None).axis(
            domain=False, ticks=False, labelPadding=8
        )
    )
    along = alt.X("value:Q", title=axis).axis(tickCount=6, domain=False)
    bar = base.mark_bar(color=PALETTE[0], height={"band": 0.62}, cornerRadiusEnd=3).encode(
        along, tooltip=["label:N", "text:N"]
    )
    words = base.mark_text(align="left", dx=8, fontSize=12, color=INK).encode(
        alt.X("end:Q"), alt.Text("text:N")
    )
    layers = [bar, words]
    if limits is not None:
        stroke = base.mark_tick(color=PALETTE[1], thickness=3, height=22, opacity=1)
        layers.append(stroke.encode(alt.X("limit:Q")))
    chart = alt.layer(*layers).properties(width=680, height={"step": 30})
    pairs = ", ".join(f"{label} {text}" for label, text in zip(labels, texts, strict=True))
    return finish(
        chart,
        name=name,
        title=title,
        alt=f"Bar chart, {axis if isinstance(axis, str) else ' '.join(axis)}: {pairs}.",
        caption=caption,
    )


def tightness(bound: Table, *, manifold: str = "") -> Figure | None:
    """Draw the largest distance to the identity, per class, against the proven radius.

    `manifold` names the one whose distance it is.
    """
    where = f", on {manifold}" if manifold else ""
    return bars(
        [str(name) for name in bound["class_name"]],
        bound["largest_norm"].tolist(),
        name="bound",
        title="The bound and its tightness",
        axis=["largest distance of a descriptor", f"from the identity{where}"],
        texts=[f"{100 * ratio:.1f} %" for ratio in bound["ratio"]],
        limits=bound["radius"].tolist(),
        caption="Bar: the largest distance in the class, with its share of the bound. "
        "Stroke: the proven radius r, which holds for every possible image of this size.",
    )


def steps(record: RunRecord) -> Figure | None:
    """Draw the wall-clock time of each step of a run."""
    return bars(
        [name for name, _ in record.steps],
        [seconds for _, seconds in record.steps],
        name="steps",
        title="Time per step",
        axis="seconds",
        texts=[f"{number(seconds)} s" for _, seconds in record.steps],
        caption=f"Wall-clock time; {number(sum(s for _, s in record.steps))} s in all.",
    )
