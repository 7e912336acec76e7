"""Timelines: what was read of each class, run after run, with bands; and of a few means.

Records have ``class``, what tells them apart (``run``, or ``nights``), ``n`` and the deviation of
its noise, ``n_sd``, ``value``, ``low`` and ``high``; the last two are None where no band is known.
Nothing is drawn there: a mark without its band would seem to be exact, and its axis would show
noise. The reason, ``why``, stands in the gap instead. Whiskers, from ``least`` to ``most``, are
drawn of all records of a picture or of none.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Any, NamedTuple

from covdp.figures import style
from covdp.figures.style import Chart, Figure, channel, listing

Record = Mapping[str, Any]
BAND_NUMBERS = ("value", "low", "high")
MANY_RUNS = 45
"""Runs above which points are small."""
GAPS_SAID = 3
"""Gaps, the latest ones, whose reason is in the caption."""
HEIGHT, LINE_HEIGHT, LETTER_WIDTH = 240, 14, 6.5
"""Pixels of a timeline's height, as in ``reports/charts.json``, and of the texts in its gaps."""
ONE_RUN = 230
"""Pixels of the width of a timeline of one run."""
COLUMNS = 3
"""Panels in a row, where terms are compared."""
BESIDE = 5
"""Pixels, about, between the marks of two classes on a date, where dates are few."""
WHISKER = 1.0
"""Widths of all bands of a panel that whiskers may reach beyond these on each side."""
CUT_OFF = " < and >: the thin stroke goes on."
DATES = 8
"""Dates up to which each has a mark of its own on the axis of time."""


class Scale(NamedTuple):
    """Axis of values.

    Attributes
    ----------
    low : str
        Word for small values.
    high : str
        Word for large values.
    unit : str
        Unit of the values.
    middle : float or None
        Value between the two.
    """

    low: str
    high: str
    unit: str = ""
    middle: float | None = None

    @property
    def title(self) -> str:
        """The axis's title, read towards large values."""
        return f"{self.low} ← → {self.high}" + (f"  ({self.unit})" if self.unit else "")


def timeline(
    records: Sequence[Record],
    *,
    name: str,
    title: str,
    scale: Scale,
    classes: Sequence[str],
    first: str,
    caption: str,
) -> Figure | None:
    """Draw the value of each class against the run, in its order.

    Curves and bands have a gap at each run of which nothing is drawn, with its reason. Of records
    of several spans the page draws those that its reader chooses.

    Parameters
    ----------
    records : sequence of mapping
        Records with ``run``, dates on an axis of time, other names one beside the other;
        ``span``, the nights of the mean; and ``why`` where no band is known.
    name : str
        Id of the figure.
    title : str
        Name of the term.
    scale : Scale
        Axis of values.
    classes : sequence of str
        Names of all classes, for the same colours in all figures.
    first : str
        Span of the static picture.
    caption : str
        Meaning of the marks.

    Returns
    -------
    Figure or None
        Chart; None where no band is known.
    """
    every, records = records, _stretches(records)
    shown = [record for record in records if record["span"] == first]
    if not shown:
        return None
    runs = list(dict.fromkeys(record["run"] for record in shown))
    gaps = _gaps(every, classes)
    latest = sorted((x for x in gaps if x["span"] == first), key=lambda x: str(x["until"]))
    spans = (" to ".join(dict.fromkeys((x["from"], x["until"]))) for x in latest[-GAPS_SAID:])
    pairs = zip(spans, latest[-GAPS_SAID:], strict=True)
    said = "".join(f" Nothing of {x['class']} {when}: {x['why']}." for when, x in pairs)
    return style.finish(
        _chart(every if gaps else records, scale, classes, _up(shown, scale), gaps),
        records,
        name=name,
        title=title,
        alt=f"{title} of {_drawn(classes, shown)}, {_count(runs)}, with bands of 95 %.",
        caption=caption + said,
        legend=classes,
        columns={
            **style.BAND_COLUMNS,
            "value": name.replace("-", "_"),
            "span": "mean_of",
            "stretch": "",
        },
        chosen={"span": first},
    )


def _known(records: Sequence[Record]) -> list[Record]:
    """Return the records whose value and band are known."""
    return [record for record in records if all(record[key] is not None for key in BAND_NUMBERS)]


def _stretches(records: Sequence[Record]) -> list[Record]:
    """Return what is drawn, with the number of the unbroken ``stretch`` of runs that it is in."""
    places = {run: place for place, run in enumerate(dict.fromkeys(row["run"] for row in records))}
    last: dict[tuple[Any, Any], tuple[int, int]] = {}
    rows: list[Record] = []
    for record in _known(records):
        key, place = (record["class"], record["span"]), places[record["run"]]
        before, stretch = last.get(key, (place - 1, 1))
        last[key] = (place, stretch + (place > before + 1))
        told = {name: value for name, value in record.items() if name != "why"}
        rows.append({**told, "stretch": last[key][1]})
    return rows


def _runs(records: Sequence[Record]) -> list[str]:
    """Return the runs on the axis, in order: from the first of which something is drawn."""
    runs, known = list(dict.fromkeys(x["run"] for x in records)), _known(records)
    return runs[runs.index(known[0]["run"]) :] if known else []


def _gaps(records: Sequence[Record], classes: Sequence[str]) -> list[Record]:
    """Return a record a gap: whose it is, its runs, why, and where its text stands."""
    places = {run: place for place, run in enumerate(_runs(records))}
    shown = (row for row in records if row["run"] in places)
    gaps = list[dict[str, Any]]()
    for (name, span), rows in style.grouped(((x["class"], x["span"]), x) for x in shown).items():
        parts = groupby(rows, key=lambda row: "" if _known([row]) else row.get("why", ""))
        reasons = [(why, [row["run"] for row in part]) for why, part in parts]
        own, left = [(why, part) for why, part in reasons if why], math.inf
        ends = [part[-1 if _is_late(part, places) else 0] for _, part in own]
        at = [places[run] * style.WIDTH / len(places) for run in ends]
        for (why, part), run, place in reversed(list(zip(own, ends, at, strict=True))):
            late, text = _is_late(part, places), f"{name}: {why}"
            long = LETTER_WIDTH * len(text)
            start = place - long * late
            if (
                start + long > left
                or sum(start <= x + LETTER_WIDTH and x <= start + long for x in at) > 1
            ):
                text, start = "?", place
            left = min(left, start - LETTER_WIDTH)
            told = {"class": name, "span": span, "from": part[0], "until": part[-1], "why": why}
            gaps.append({**told, "run": run, "late": late, "text": text})
    lines = [name for name in classes if any(gap["class"] == name for gap in gaps)]
    return [{**gap, "up": HEIGHT - 4 - LINE_HEIGHT * lines.index(gap["class"])} for gap in gaps]


def _is_late(part: Sequence[str], places: Mapping[str, int]) -> bool:
    """Return True if a gap is in the second half of the axis: its text ends where it ends."""
    return 2 * places[part[-1]] >= len(places)


def _drawn(classes: Sequence[str], records: Sequence[Record]) -> str:
    """Return the classes that are drawn, in words."""
    return listing(name for name in classes if any(record["class"] == name for record in records))


def _count(runs: Sequence[str]) -> str:
    """Return how many runs are drawn, and which."""
    return f"{len(runs)} runs, {runs[0]} to {runs[-1]}" if len(runs) > 1 else f"run {runs[0]}"


def _chart(
    records: Sequence[Record],
    scale: Scale,
    classes: Sequence[str],
    up: Mapping[str, Any],
    gaps: Sequence[Record],
) -> Chart:
    """Return bands, lines and marks; a thin line between what the ends of the axis are called."""
    runs = _runs(records)
    along = along_runs(runs)
    if gaps:  # their texts stand below all that is drawn
        room = min(float(gap["up"]) for gap in gaps) - LINE_HEIGHT - 4
        up = {**up, "scale": {**up["scale"], "range": [room, 0]}}
    dated = along["field"] == "when"
    dates = [{"calculate": _placed(runs, classes), "as": "when"}] if dated else []
    size, stroke = (14, 1) if len(runs) > MANY_RUNS else (44, 2)
    chart = style.chart_of(
        "timeline",
        x=along,
        value=channel("value:Q", **up),
        low=channel("low:Q", **up),
        middle=scale.middle,
        size=size,
        stroke=stroke,
        tooltip=_told("run", "date" if dates else "run"),
        gaps=list(gaps),
        dated=dates,
        **style.look("class", classes, classes if len(classes) > 1 else ()),
    )
    middle, band, line, *marks, reasons = chart["layer"]
    curves = [band, line] if len(runs) > 1 else []
    middles = [] if scale.middle is None else [middle]
    chart["layer"] = [*middles, *curves, *marks, *([reasons] if gaps else [])]
    chart["transform"] += dates
    if len(runs) == 1 and not gaps:  # its one mark is seen on a narrow screen, too
        del chart["usermeta"]
        chart["width"] = ONE_RUN
    return chart


def _placed(runs: Sequence[str], classes: Sequence[str]) -> str:
    """Return the place of a mark on an axis of dates; of few, those of a date are side by side."""
    if len(runs) > DATES:
        return "toDate(datum.run)"
    days = (date.fromisoformat(runs[-1]) - date.fromisoformat(runs[0])).days
    step = BESIDE * days * 24 * 3600 * 1000 / style.WIDTH
    names, middle = json.dumps(list(classes)), (len(classes) - 1) / 2
    return f"toDate(datum.run) + {step:g} * (indexof({names}, datum.class) - {middle:g})"


def comparison(
    records: Sequence[Record],
    *,
    name: str,
    title: str,
    along: str,
    classes: Sequence[str],
    caption: str,
) -> Figure | None:
    """Draw the values of a few means below one another, a panel a term.

    Parameters
    ----------
    records : sequence of mapping
        Records with ``term`` and `along`.
    name : str
        Id of the figure.
    title : str
        Title of the figure.
    along : str
        Key that names the means; that of the first record is on top.
    classes : sequence of str
        Names of all classes.
    caption : str
        Meaning of the marks.

    Returns
    -------
    Figure or None
        Chart; None without a band.
    """
    lines, records = list(dict.fromkeys(record[along] for record in records)), _known(records)
    if not records:
        return None
    panels = listing(line for line in lines if any(record[along] == line for record in records))
    terms = list(dict.fromkeys(record["term"] for record in records))
    chart = _panels(terms, along, lines, classes)
    if any(record.get("least") is None for record in records):
        records = [{k: x for k, x in row.items() if k not in ("least", "most")} for row in records]
    else:
        chart = _with_whiskers(chart)
        panels_of = style.grouped((row["term"], row) for row in records)
        caption += CUT_OFF * any(map(_is_cut, panels_of.values()))
    return style.finish(
        chart,
        records,
        name=name,
        title=title,
        alt=f"{listing(terms)} of {_drawn(classes, records)}, with bands of 95 %. Rows: {panels}.",
        caption=caption,
        legend=classes,
        columns=style.BAND_COLUMNS,
    )


def _is_cut(records: Sequence[Record]) -> bool:
    """Return True if a whisker of one panel is longer than its panel shows."""
    low, high = min(row["low"] for row in records), max(row["high"] for row in records)
    room = WHISKER * (high - low)
    return any(row["least"] < low - room or row["most"] > high + room for row in records)


def _with_whiskers(chart: Chart) -> Chart:
    """Return panels with whiskers, thin strokes, none of which reaches further than `WHISKER`."""
    *marks, band = chart["spec"]["layer"]
    at, x = band["encoding"], band["encoding"]["x"]
    arrow = {key: at[key] for key in ("y", "yOffset", "color")}
    more = [
        {
            "mark": {"type": "text", "fontSize": 14, "baseline": "middle"},
            "encoding": arrow
            | {"x": x | {"field": drawn}}
            | {"text": {"condition": {"test": f"datum.{end} {sign} datum.{drawn}", "value": text}}},
        }
        for end, sign, drawn, text in (("least", "<", "from", "<"), ("most", ">", "to", ">"))
    ]
    thin = {
        "mark": {"type": "rule", "strokeWidth": 0.7},
        "encoding": at | {"x": x | {"field": "from"}, "x2": {"field": "to"}},
    }
    ends = (("min", "low", "bottom"), ("max", "high", "top"))
    room = f"{WHISKER} * (datum.top - datum.bottom)"
    transform = [
        {
            "joinaggregate": [{"op": op, "field": end, "as": name} for op, end, name in ends],
            "groupby": ["term"],
        },
        {"calculate": f"max(datum.least, datum.bottom - {room})", "as": "from"},
        {"calculate": f"min(datum.most, datum.top + {room})", "as": "to"},
    ]
    spec = {**chart["spec"], "layer": [*marks, thin, *more, band]}
    return {**chart, "transform": transform, "spec": spec}


def _panels(
    titles: Sequence[str], along: str, lines: Sequence[str], classes: Sequence[str]
) -> Chart:
    """Return a panel a term, with a row per mean, and the classes side by side on it."""
    width = (style.WIDTH - 150) // COLUMNS - 20
    down = {"domain": False, "ticks": False, "grid": True, "labelPadding": 8}
    return style.chart_of(
        "comparison",
        terms=list(titles),
        header=style.header(titles, width, COLUMNS),
        columns=COLUMNS,
        width=width,
        step=max(34, 12 * len(classes)),
        y=channel(f"{along}:N", title=None, axis=down, scale={"domain": list(lines)}),
        beside=channel("class:N", sort=list(classes), scale={"paddingOuter": 0.35}),
        tooltip=[channel("term:N"), *_told(along, along)],
        **style.look("class", classes, classes if len(classes) > 1 else ()),
    )


RIGHT = {"orient": "right", "titleAngle": -90, "titleBaseline": "top"}
"""Axis on the right, whose title reads upwards as its values rise."""


def _up(records: Sequence[Record], scale: Scale) -> dict[str, Any]:
    """Return title, scale and ticks of the values: logarithmic where they span a lot.

    A middle of 0, as of correlations, has no logarithm: their axis is linear. The axis is on the
    right, where a narrow screen shows the newest runs.
    """
    numbers = [record[key] for record in records for key in BAND_NUMBERS]
    if scale.middle is not None:
        numbers.append(scale.middle)
    low, high = min(numbers), max(numbers)
    up: dict[str, Any] = {"title": scale.title}
    if not style.is_log([low, high]):
        return {**up, "scale": {"zero": False}, "axis": {"tickCount": 5, **RIGHT}}
    ticks = style.log_ticks(low / 1.08, high * 1.08)
    axis = {"values": ticks, "format": ",.6~g", **RIGHT}
    return {**up, "scale": {"type": "log", "nice": False}, "axis": axis}


def _told(first: str, title: str) -> list[Chart]:
    """Return the tooltip of a mark: whose it is and when, its numbers, and of how many."""
    numbers = channel("value:Q", format=".3~g"), channel("interval:N", title="95 % interval")
    sizes = channel("n:Q", format=","), channel("n_sd:Q", format=".2~g")
    return [channel("class:N"), channel(f"{first}:N", title=title), *numbers, *sizes]


def along_runs(runs: Sequence[str]) -> Chart:
    """Return the axis of runs: of time, as the column ``when``, where they are dates.

    Parameters
    ----------
    runs : sequence of str
        Keys of the runs, in order.
    """
    if len(runs) < 2 or not all(map(_is_date, runs)):
        marks = {"labelOverlap": "greedy", "labelAngle": 0, "labelLimit": 120, "grid": False}
        return channel("run:O", sort=list(runs), title="run", axis=marks)
    dates = sorted({date.fromisoformat(run) for run in runs})
    few, years = len(dates) <= DATES, (dates[-1] - dates[0]).days > 400
    written = ("%-d %b %Y" if few else "%b %Y") if years else "%-d %b"
    each = [{"year": d.year, "month": d.month, "date": d.day, "utc": True} for d in dates]
    scale = {"type": "utc", "domain": [each[0], each[-1]]}
    ticks = {"values": each} if few else {"tickCount": 6}
    marks = dict(labelOverlap="greedy", grid=False, format=written, **ticks)
    return channel("when:T", title="date", axis=marks, scale=scale)


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def day_in_words(run: str) -> str:
    """Return when a run was, within a sentence: its date, else its name.

    Parameters
    ----------
    run : str
        Key of the run.
    """
    return f"on {date.fromisoformat(run):%-d %B %Y}" if _is_date(run) else f"in run {run}"
