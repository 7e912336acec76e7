"""The page of a population's history: made from its committed documents and from nothing else."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from scipy.special import ndtri

from covdp.addons.nights.changes import ALPHA, WindowTest, holm
from covdp.addons.nights.history import ClassRun, PublishedRun, Series, read_history
from covdp.addons.nights.night_page import last, reaching
from covdp.addons.nights.schema import NightDocument, WindowPart
from covdp.addons.nights.timelines import Scale, comparison, day_in_words, timeline
from covdp.descriptors import Term
from covdp.figures import Figure, grouped, letter, listing, number
from covdp.files import make_folder
from covdp.inference import region
from covdp.publish.document import write_document
from covdp.publish.readings import WIDE, Reading
from covdp.report import release_page
from covdp.report.methods import Methods, methods, of_document
from covdp.report.page import Block, Finding, cell, write_page
from covdp.report.readings import numbers_of, readings, says_region
from covdp.report.templates import at_most, percent, word
from covdp.schema import ClassEntry, Document

ALL_NIGHTS = "all nights so far"
MONTH = 30
"""Nights of the window that is drawn night by night."""
OPEN_TERMS = 2
"""Terms whose charts are open; of the others those are that state a step."""


class SeriesPart(NamedTuple):
    """Content of a section: a series, its place, and the files of all.

    Attributes
    ----------
    series : Series
        Runs that can be compared.
    place : int
        Place of the section, from 1.
    files : mapping of int to Path
        File of each document, by the number of its run.
    """

    series: Series
    place: int
    files: Mapping[int, Path]

    @property
    def document(self) -> Document:
        """The latest document."""
        return self.series.runs[-1].document

    @property
    def latest(self) -> Document | None:
        """The same; None where nothing is known of its means."""
        return self.document if self.series.terms else None

    @property
    def paid(self) -> Document | None:
        """The same in the section of the series that was paid last, where the account is."""
        return self.latest if self.place == 1 else None


class History(NamedTuple):
    """All releases of a population.

    Attributes
    ----------
    population : str
        Name of the population.
    series : sequence of Series
        Series, the one that was paid last first.
    others : int
        Number of results that are no documents.
    files : mapping of int to Path
        File of each document, by the number of its run.
    """

    population: str
    series: Sequence[Series]
    others: int
    files: Mapping[int, Path]

    @property
    def parts(self) -> list[SeriesPart]:
        """Content of the sections: a series each."""
        return [SeriesPart(item, place, self.files) for place, item in enumerate(self.series, 1)]

    @property
    def runs(self) -> list[PublishedRun]:
        """All releases and nights, in the order in which they were paid."""
        runs = (run for item in self.series for run in item.runs)
        return sorted(runs, key=lambda run: run.place)

    @property
    def is_safe(self) -> bool:
        """True if all noise was safe."""
        return all(run.document.settings.is_safe for run in self.runs)


def build_history(population: str, results: Sequence[bytes], out: Path) -> Path:
    """Write ``OUT/index.html``, and the committed bytes beside it.

    Parameters
    ----------
    population : str
        Name of the population.
    results : sequence of bytes
        Committed results, in the order in which they were paid.
    out : Path
        Folder of the page.

    Returns
    -------
    Path
        Path of the page.

    Raises
    ------
    LedgerError
        When there is no release.
    OutputError
        When something cannot be written.
    """
    series, others = read_history(population, results)
    files = {
        run.place: write_document(run.content, make_folder(out)).relative_to(out)
        for item in series
        for run in item.runs
    }
    return write_page(out / "index.html", "history", History(population, series, others, files))


def promises(history: History) -> list[tuple[str, Iterable[tuple[str, str]]]]:
    """Return the promises that all runs of each series make.

    Parameters
    ----------
    history : History
        Releases of the population.
    """
    return [(series.settings.name, shared_statement(series).items()) for series in history.series]


def headline(part: SeriesPart) -> Finding:
    """Return the use of the latest means, in a sentence.

    Parameters
    ----------
    part : SeriesPart
        Content of the section.
    """
    return release_page.verdict(part.document)


def protected(part: SeriesPart) -> str:
    """Return who is protected.

    Parameters
    ----------
    part : SeriesPart
        Content of the section.
    """
    return release_page.protected(part.document)


def values(part: SeriesPart) -> dict[str, Any]:
    """Return the values of the texts and numbers at the head of a series.

    Parameters
    ----------
    part : SeriesPart
        Content of the section.
    """
    known = {"runs": part.series.runs, "paid": part.place == 1, "spans": spans(part.series)}
    return release_page.promised(part.document) | known


def history_methods(history: History) -> Methods:
    """Return the Methods of all releases: of those equal but for run and sizes, the last.

    Parameters
    ----------
    history : History
        Releases of the population.
    """
    documents = (run.document for item in history.series for run in item.runs)
    but = {"run_key", "classes", "total"}
    alike = grouped((item.settings.model_dump_json(exclude=but), item) for item in documents)
    slots = {}
    for place, equal in enumerate(alike.values(), 1):
        last, count = equal[-1], len(equal)
        sentences = dict(of_document(last))
        if count > 1:
            sentences["data"] = f"the last of {count} releases is " + sentences["data"]
        slots[f"{last.settings.name} ({place})"] = sentences
    latest = history.series[0].runs[-1].document
    account, more = latest.paid, word("analysis", "history")
    spent = f"{letter(account.definition)} = {at_most(account.spent, 6)}"
    when = "When the stream was opened" if latest.page == "night" else "With the latest release"
    more += f". {when} the account had paid {spent}"
    return methods(slots, more=more, version=latest.settings.version)


def term_blocks(
    series: Series, *, captions: Mapping[str, str], band: str, none: str, found: str
) -> list[Block]:
    """Return the chart of each term, or that there is nothing to draw.

    A chart of the first terms is open, and so is one whose title states a step.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    captions : mapping of str to str
        Caption of each chart, by the name of its term.
    band : str
        Sentence on the band, in each caption.
    none : str
        Text in place of a chart of which nothing can be drawn.
    found : str
        Sentence on the test, in the caption of a chart whose title states a change.
    """
    charts, changed = {}, steps(series)
    for term in series.terms:
        charts[term] = term_chart(series, term, band + f" {found}" * (term.name in changed))
    if series.terms and not any(charts.values()):
        return [Block("terms", "Run after run", "", "prose.html.j2", [none])]
    blocks = []
    for place, (term, chart) in enumerate(charts.items()):
        template, drawn = ("prose.html.j2", [none]) if chart is None else ("figure.html.j2", chart)
        texts = (term.name, changed.get(term.name, term.title), captions[term.name], template)
        folded = place >= OPEN_TERMS and term.name not in changed
        blocks.append(Block(*texts, drawn, folded, term.title))
    missing = gaps(series)
    about = [Block("gaps", "Where nothing is drawn", "", "lines.html.j2", missing)]
    return [*blocks, *(about if missing else ())]


def gaps(series: Series) -> list[str]:
    """Return why a class has no mark in some runs, a sentence a reason.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    """
    places = grouped(
        (
            (row.name, "has no mean yet" if row.mean.point is None else "is too noisy to be used"),
            run,
        )
        for run in series.runs
        for row in run.classes
        if row.mean is not None and not row.usable
    )
    return [
        f"{name} {reason}: {runs[0].key}"
        + (f" to {runs[-1].key}, {len(runs)} runs." if len(runs) > 1 else ".")
        for (name, reason), runs in places.items()
    ]


def steps(series: Series) -> dict[str, str]:
    """Return the largest step of each term from one release to the next, where one is certain.

    Noise of releases is independent, so the interval of a difference follows from those of both
    values (Zou and Donner, Statistics in Medicine 27, 2008). If no image changed, noise makes a
    step of any term or class in at most 1 of 20 histories (Bonferroni). Nights share noise, and
    have none.

    Parameters
    ----------
    series : Series
        Runs that can be compared.

    Returns
    -------
    dict of str to str
        Sentence on the step, by the name of the term.
    """
    pairs = [
        (after.term, old.name, run.key, first, second)
        for last, run in pairwise(series.runs)
        for old, new in zip(last.classes, run.classes, strict=True)
        for before, after in zip(old.readings, new.readings, strict=True)
        if (first := _known(before)) and (second := _known(after))
    ]
    most = ndtri(1.0 - ALPHA / (2.0 * max(len(pairs), 1))) / WIDE
    found: dict[str, tuple[float, str]] = {}
    for term, name, key, old, new in pairs if series.horizon is None else ():
        low, high = sorted((old, new))
        half = math.hypot(low[2] - low[0], high[0] - high[1])
        size = (high[0] - low[0]) / max(half, 1e-300)
        if size > max(most, found.get(term.name, (0.0, ""))[0]):
            words = _step(term, name, day_in_words(key), old[0], new[0])
            found[term.name] = size, words
    return {name: text for name, (_, text) in found.items()}


def _known(reading: Reading) -> tuple[float, float, float] | None:
    """Return value, lower and upper end of a reading; None without a band."""
    value, low, high = reading.value, reading.low, reading.high
    return None if value is None or low is None or high is None else (value, low, high)


def _step(term: Term, name: str, day: str, old: float, new: float) -> str:
    """Return what changed of a class, by how much and when: in percent, or as a difference."""
    size = number(abs(new - old)) if term.middle == 0.0 else percent(abs(new / old - 1.0))
    if term.unit:
        return f"{term.title} of {name} {'rose' if new > old else 'fell'} by {size} {day}"
    return f"{term.title}: {name} more {term.high if new > old else term.low}, by {size}, {day}"


def latest(series: Series) -> dict[str, Any] | None:
    """Return a row per term of the latest means, a column a class; and the regions of 95 %.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    """
    run = series.runs[-1]
    lines = readings(run.document, series.terms, run.classes)
    if lines:
        lines["lines"] += radius_line(run.document.classes)
    return lines


def radius_line(rows: Sequence[ClassEntry]) -> list[dict[str, Any]]:
    """Return the row of readings with each class's radius, where documents state a region.

    Parameters
    ----------
    rows : sequence of ClassEntry
        Classes of the document.
    """
    if not any(map(says_region, rows)):
        return []
    cells = [radius_cell(row) for row in rows]
    meaning = "a distance, for all terms of the mean at once"
    return [
        {"title": "Region of 95 %", "unit": "radius", "meaning": meaning, "tip": "", "cells": cells}
    ]


def radius_cell(row: ClassEntry) -> dict[str, str]:
    """Return the radius of a class's region, and the largest gain in it.

    Parameters
    ----------
    row : ClassEntry
        Class of the document.
    """
    if not says_region(row):
        return cell("", "not known")
    where = region(row)
    if not where.offered:
        return cell("", "not available")
    return cell(number(where.radius), "noise and clipping, averaged over directions")


def term_chart(series: Series, term: Term, caption: str) -> Figure | None:
    """Return the chart of one term, run after run.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    term : Term
        Term that is drawn.
    caption : str
        Further sentences of the caption.
    """
    place, shown = series.terms.index(term), spans(series)
    records = [
        {"class": row.name, "run": run.key, "span": span, **size, **numbers_of(read[place])}
        | {"why": why_nothing(row, read[place])}
        for run in series.runs
        for row in run.classes
        for span, size, read in _spans(row)
        if read and span in shown
    ]
    return timeline(
        records,
        name=term.name,
        title=term.title,
        scale=Scale(term.low, term.high, term.unit, term.middle),
        classes=series.classes,
        first=shown[0],
        caption=caption,
    )


def why_nothing(row: ClassRun, reading: Reading) -> str:
    """Return why a term of a class is not drawn; "" where it is.

    A usable mean states its error, but for one of which too many records were clipped.

    Parameters
    ----------
    row : ClassRun
        Content of a document on the class.
    reading : Reading
        Term of its mean.
    """
    if row.mean is None or row.mean.point is None:
        return "no mean yet"
    if not row.usable:
        return "too much noise to be usable"
    if reading.value is None:
        return "lost in the noise"
    return (
        "" if reading.low is not None else "no interval, as half of the records or more are clipped"
    )


def spans(series: Series) -> tuple[str, ...]:
    """Return the nights whose means are drawn night by night; the first, until a reader chooses.

    Those of no known band are left out, as nothing is drawn of them.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    """
    if series.horizon is None:
        return (ALL_NIGHTS,)
    every = [item for run in series.runs for row in run.classes for item in _spans(row)]
    drawn = {span for span, _, read in every if any(reading.low is not None for reading in read)}
    return tuple(span for span in (ALL_NIGHTS, last(MONTH)) if span in drawn) or (ALL_NIGHTS,)


def windows(series: Series, *, caption: str) -> Figure | None:
    """Return the chart of the last nights of a stream, beside all of them.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    caption : str
        Caption, with ``{record}`` for the noun of a record.
    """
    classes = series.runs[-1].classes
    parts = ([part for part, _ in row.windows] for row in classes)
    furthest = {ALL_NIGHTS, *(last(part.nights) for row in parts for part in reaching(row))}
    records = [
        {"term": term.title, "class": row.name, "nights": span, **size}
        | numbers_of(read[place], "least", "most")
        for place, term in enumerate(series.terms)
        for row in classes
        for span, size, read in _spans(row)
        if span in furthest
    ]
    if len({record["nights"] for record in records}) < 2:
        return None
    figure = comparison(
        records,
        name="windows",
        title="Windows",
        along="nights",
        classes=series.classes,
        caption=caption.format(record=series.settings.unit),
    )
    tested = [line for line in changes(series) if line["together"] is not None]
    unlike = [line for line in tested if line["together"] <= ALPHA]
    found = "no difference is found" if tested else ""
    if unlike:
        nights = grouped((line["name"], line["nights"]) for line in unlike)
        found = "; ".join(
            f"{name}: {listing(spans)} {'differ' if len(spans) > 1 else 'differs'}"
            for name, spans in nights.items()
        )
    return figure and replace(figure, finding=found)


def _spans(row: ClassRun) -> Iterator[tuple[str, dict[str, float], tuple[Reading, ...]]]:
    """Yield the windows of a class, in words, and all its nights: the records, and readings."""
    for window, read in row.windows:
        yield last(window.nights), _size(window), read
    yield ALL_NIGHTS, _size(row), row.readings


def _size(row: ClassRun | WindowPart) -> dict[str, float]:
    """Return how many records a chart says there are, with the deviation that noise has in it."""
    return {"n": row.n, "n_sd": float(f"{row.n_sd:.3g}")}


def changes(series: Series) -> list[dict[str, Any]]:
    """Return a row per class and window, with its test against the nights before it.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    """
    rows, document = series.runs[-1].classes, series.runs[-1].document
    nights = document.night if isinstance(document, NightDocument) else 0
    tests = [(row, test) for row in rows for test in row.changes if test.nights < nights]
    p_values = {id(test): test.p_value for _, test in tests if test.p_value is not None}
    together = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    lines = []
    for row, test in tests:
        both = together.get(id(test))
        words = _change(test, both, nights - test.nights)
        content = {"words": words, "test": test, "together": both}
        lines.append({"name": row.name, "nights": last(test.nights), **content})
    return lines if p_values else []


def _change(test: WindowTest, together: float | None, end: int) -> str:
    """Return the result of a test against the nights from `test.since` to `end`."""
    if together is None:
        return f"Not tested: {test.reason}."
    before = f"nights {test.since} to {end}" if test.since < end else f"night {end}"
    if together <= ALPHA:
        return f"Unlike {before}."
    return f"No difference from {before} is found."


def shared_statement(series: Series) -> dict[str, str]:
    """Return the parts that the statements of all runs have in common.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    """
    first, *others = (dict(run.document.statement) for run in series.runs)
    return {
        label: text
        for label, text in first.items()
        if all(other.get(label) == text for other in others)
    }


def statements(series: Series) -> dict[str, Any]:
    """Return the runs, and the titles of the parts in which their statements differ.

    Parameters
    ----------
    series : Series
        Runs that can be compared.
    """
    shared = shared_statement(series)
    every = (label for run in series.runs for label, _ in run.document.statement)
    labels = list(dict.fromkeys(label for label in every if label not in shared))
    return {"runs": series.runs, "labels": labels}
