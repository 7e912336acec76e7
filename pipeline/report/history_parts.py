"""What the blocks of a history show: readings, charts, the list of releases, their statements."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS, Term
from pipeline.figures import Figure, Scale, comparison, digits, letter, matrices, number, timeline
from pipeline.inference import ALPHA, WindowTest, holm, region
from pipeline.privacy.rounding import digits_down, digits_up
from pipeline.publish.history import ClassRun, Run, Series, latest_points
from pipeline.publish.readings import Reading
from pipeline.report.release_regions import as_gain, is_told

ALL = "all nights so far"
MONTH = 30
"""Nights of the window that is drawn night by night."""
SAME = "nothing that is not the same for all"
"""Of a statement without words of its own."""


def latest(series: Series) -> dict[str, Any] | None:
    """Return a line a term of the latest means, a column a class; and the regions of 95 %."""
    found = in_terms(series)
    if found:
        found["lines"] += _region_line(series.runs[-1])
    return found


def in_terms(series: Series, *, formulas: bool = False) -> dict[str, Any] | None:
    """Return a line a term of the latest means, a column a class; how each follows, if wanted."""
    if not series.terms:
        return None
    run = series.runs[-1]
    return {
        "unit": run.key,
        "heads": [(one.name, one.n) for one in run.classes],
        "lines": [
            {
                "title": term.title,
                "unit": term.formula if formulas else term.unit,
                "cells": [_said(one, place) for one in run.classes],
            }
            for place, term in enumerate(series.terms)
        ],
    }


def _region_line(run: Run) -> list[dict[str, Any]]:
    """Return the radius of each class's region, where releases say what it is made of."""
    rows = run.document["classes"]
    if not any(map(is_told, rows)):
        return []
    return [{"title": "Region of 95 %", "unit": "radius", "cells": [_radius(row) for row in rows]}]


def _radius(row: Mapping[str, Any]) -> dict[str, str]:
    if not is_told(row):
        return {"value": "", "band": "not known", "word": ""}
    where = region(row)
    if not where.offered:
        return {"value": "", "band": "not offered", "word": ""}
    gain = as_gain(where.manifold, where.centre, where.radius)
    return {"value": number(where.radius), "band": f"a gain of {gain:.4g}", "word": ""}


def _said(one: ClassRun, place: int) -> dict[str, str]:
    """Return value and band of a reading, and which way it points where the band tells."""
    term, value, low, high = one.readings[place]
    if one.mean is None or one.mean.point is None:
        return {"value": "", "band": "no mean yet", "word": ""}
    if value is None:
        return {"value": "", "band": "lost in the noise", "word": ""}
    if low is None or high is None:
        return {"value": _signed(value), "band": "band not known", "word": ""}
    word = ""
    if term.middle is not None:
        undecided = f"{term.low} or {term.high}: noise hides which"
        word = term.high if low > term.middle else term.low if high < term.middle else undecided
    return {"value": _signed(value), "band": f"{_signed(low)} to {_signed(high)}", "word": word}


def _signed(value: float) -> str:
    """Return three digits with a true minus sign."""
    return digits(value).replace("-", "−")


def term_chart(series: Series, term: Term, caption: str) -> Figure | None:
    """Return the chart of one term, run after run."""
    place, shown = series.terms.index(term), spans(series)
    records = [
        {"class": one.name, "run": run.key, "span": span, "n": n, **_numbers(found[place])}
        for run in series.runs
        for one in run.classes
        for span, n, found in _spans(one)
        if found and span in shown
    ]
    return timeline(
        records,
        name=term.name,
        title=term.title,
        scale=Scale(term.low, term.high, term.unit, term.middle),
        classes=series.classes,
        first=shown[0],
        caption=f"Value: {term.formula}. {caption}",
    )


def _numbers(reading: Reading) -> dict[str, float | None]:
    numbers = {"value": reading.value, "low": reading.low, "high": reading.high}
    return {key: None if x is None else float(f"{x:.6g}") for key, x in numbers.items()}


def spans(series: Series) -> tuple[str, ...]:
    """Return the nights whose means are drawn night by night; the first, until a reader chooses.

    Those of no known band are left out, as nothing is drawn of them.
    """
    if series.horizon is None:
        return (ALL,)
    spans = [seen for run in series.runs for one in run.classes for seen in _spans(one)]
    known = {span for span, _, found in spans if any(one.low is not None for one in found)}
    return tuple(span for span in (ALL, _last(MONTH)) if span in known) or (ALL,)


def _last(nights: int) -> str:
    return f"last {nights} nights" if nights > 1 else "last night"


def windows(series: Series) -> Figure | None:
    """Return the chart of the last nights of a stream, beside all of them."""
    classes = series.runs[-1].classes
    reaching = {ALL, *(when for one in classes for when in _reaching(one))}
    records = [
        {"term": term.title, "class": one.name, "nights": when, "n": n, **_numbers(found[place])}
        for place, term in enumerate(series.terms)
        for one in classes
        for when, n, found in _spans(one)
        if when in reaching
    ]
    named = list(dict.fromkeys(str(record["nights"]) for record in records))
    if len(named) < 2:
        return None
    return comparison(
        records,
        name="windows",
        title="Windows",
        along="nights",
        lines=named,
        classes=series.classes,
        caption="Mark: the mean of the units that came in these nights. Stroke: where it lies "
        "without noise, in 9 of 10 nights: the noise of windows is known exactly, what clipping "
        "did is predicted. Of more than a factor of 2 nothing is drawn. Windows that end "
        "on one night share noise.",
    )


def _reaching(one: ClassRun) -> Iterator[str]:
    """Yield the windows of a class that have more units than those before them."""
    for place, (nights, n, _) in enumerate(one.windows):
        if n > (one.windows[place - 1].n if place else -1):
            yield _last(nights)


def _spans(one: ClassRun) -> Iterator[tuple[str, int, tuple[Reading, ...]]]:
    """Yield the windows of a class, in words, and all its nights."""
    for nights, n, found in one.windows:
        yield _last(nights), n, found
    yield ALL, one.n, one.readings


def changes(series: Series) -> dict[str, Any] | None:
    """Return a line a class and window: whether its units differ from those of nights before it."""
    known = [(one, seen) for one in series.runs[-1].classes for seen in one.changes]
    tested = {id(seen): seen.p_value for _, seen in known if seen.p_value is not None}
    together = dict(zip(tested, holm(list(tested.values())), strict=True))
    lines = [
        [one.name, _last(seen.nights), *_changed(seen, together.get(id(seen)))]
        for one, seen in known
    ]
    heads = ["Class", "Nights", "In words", _units(series), "Before", "p", "Holm's"]
    return {"heads": heads, "lines": lines, "text": 3, "long": 2} if tested else None


def _changed(seen: WindowTest, together: float | None) -> list[str]:
    if seen.p_value is None or together is None:
        return [f"Not tested: {seen.reason}.", "–", "–", "–", "–"]
    differs = f"Unlike those from night {seen.since} on"
    words = differs if together <= ALPHA else "Noise and chance may explain all differences"
    p_values = [f"{digits_up(p, 2)}" for p in (seen.p_value, together)]
    return [f"{words}.", f"{seen.n:,}", f"{seen.before:,}", *p_values]


def correlations(series: Series) -> Figure | None:
    """Return the latest means as correlations; None where there is none."""
    known = latest_points(series)
    if not known:
        return None
    features = DESCRIPTORS[series.settings["descriptor"]].features
    return matrices(list(known), np.array([*known.values()]), features)


def committed(series: Series, files: Mapping[int, Path]) -> dict[str, Any]:
    """Return a line a release, the latest first: size, cost, what was left, its bytes."""
    known = _night_cells if series.horizon is not None else _release_cells
    lines = [
        {
            "cells": list(known(run, series.horizon or 0).values()),
            "place": run.place,
            "href": files[run.place].as_posix(),
            "file": files[run.place].name,
            "digest": run.digest,
        }
        for run in reversed(series.runs)
    ]
    names = known(series.runs[-1], series.horizon or 0)
    unit = _units(series)
    heads = [(name.format(unit=unit), place > 0) for place, name in enumerate(names)]
    return {"heads": heads, "lines": lines}


def _release_cells(run: Run, _: int) -> dict[str, str]:
    """Return what stands in the line of a release, by the head of the column."""
    account = run.document.get("account")
    symbol = letter(run.document["settings"]["definition"])
    return {
        "Release": run.key,
        "{unit}": f"{run.n:,}",
        "Paid": f"{symbol} = {digits_up(account['charged'], 4)}" if account else "",
        "Then left": f"{symbol} = {digits_down(account['left'], 4)}" if account else "",
    }


def _night_cells(run: Run, horizon: int) -> dict[str, str]:
    """Return what stands in the line of a night, by the head of the column."""
    rows = run.document["classes"]
    return {
        "Night of": run.key,
        "Number": f"{run.document['night']:,}",
        "{unit} that night": f"{sum(row['n_tonight'] for row in rows):,}",
        "So far": f"{sum(row['n_so_far'] for row in rows):,}",
        "Then left": f"{horizon - run.document['night']:,} nights",
    }


def _units(series: Series) -> str:
    return f"{str(series.settings.get('unit', 'image')).capitalize()}s"


def shared_statement(series: Series) -> dict[str, str]:
    """Return what the statements of all runs say alike."""
    first, *others = (dict(run.document["statement"]) for run in series.runs)
    return {
        label: text
        for label, text in first.items()
        if all(other.get(label) == text for other in others)
    }


def statements(series: Series) -> dict[str, Any]:
    """Return a line a release with what its statement says that not all say."""
    shared = shared_statement(series)
    told = [dict(run.document["statement"]) for run in series.runs]
    heads = list(dict.fromkeys(label for one in told for label in one if label not in shared))
    lines = [
        {
            "place": run.place,
            "key": run.key,
            "texts": [one.get(label, "") for label in heads] or [SAME],
        }
        for run, one in zip(series.runs, told, strict=True)
    ]
    return {"heads": ["Release", *(heads or ["Statement"])], "lines": lines[::-1]}
