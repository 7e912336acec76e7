"""What the pages of several releases have in common: their basis, their documents, figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS
from pipeline.figures import Figure, comparison, listing, matrices, number
from pipeline.inference import read_released, region_refusal
from pipeline.publish.committed import write_document
from pipeline.publish.forests import Forest
from pipeline.publish.readings import Reading
from pipeline.publish.several import Several
from pipeline.report.finding import Finding
from pipeline.report.page import Reportlet
from pipeline.report.release_parts import unit_of

ALPHA = 0.05
"""Level of the tests, all classes together."""
Block = tuple[str, Any]
"""Template of a reportlet, and what it draws."""


def reportlets(blocks: Mapping[str, Block], words: Mapping[str, Any]) -> list[Reportlet]:
    """Return the blocks that have something to show, with their titles and captions."""
    return [
        Reportlet(name, words[f"{name}_title"], words[f"{name}_caption"], template, content)
        for name, (template, content) in blocks.items()
        if content
    ]


def basis(several: Several) -> list[Finding]:
    """Return what all figures of a page rest on, and what its releases cost together."""
    units = {unit_of(one.settings) for one in several.given}
    unit = units.pop()
    promised = (
        f"{name}: {one.promise}" for name, one in zip(several.names, several.given, strict=True)
    )
    together = several.together
    both = (
        f"in GDP and zCDP alike the promises compose, to {together} for one {unit}"
        if together
        else "as they are promised in different definitions, no one figure says how much in all"
    )
    found = [
        Finding("Only released values were read: this page costs no privacy."),
        Finding(
            f"What each release promises one {unit}: {'; '.join(promised)}. Who is in several of "
            f"them pays in each: {both}.",
            told=True,
        ),
        Finding(
            "Tests, and bands of means together, hold for releases of different people, each "
            f"{unit} drawn by itself.",
            told=True,
        ),
    ]
    if several.doubt:
        found.append(Finding(several.doubt, warning=True))
    return found + list(_unsound(several))


def _unsound(several: Several) -> Iterator[Finding]:
    """Yield why no region is offered, by class and release."""
    for name, rows in several.classes.items():
        for title, row in zip(several.names, rows, strict=True):
            if reason := region_refusal(read_released(row).observed):
                yield Finding(f"Not sound for {name}, as in {title} {reason}.", warning=True)


def is_float(several: Several) -> bool:
    """Tell whether the noise of a release is not safe to publish."""
    return any(one.settings.get("noise") != "hardened" for one in several.given)


def documents(several: Several, out: Path) -> dict[str, Any]:
    """Write the committed bytes beside the page; return a line a document, with its digest."""
    lines = []
    for name, one in zip(several.names, several.given, strict=True):
        path = write_document(one.content, out)
        sizes = sum(int(row["n"]) for row in one.document["classes"])
        settings = one.settings
        cells = [name, str(settings.get("population", "")), f"{sizes:,}", str(one.promise)]
        href = path.relative_to(out).as_posix()
        lines.append({"cells": cells, "href": href, "file": path.name, "digest": one.digest})
    unit = unit_of(several.given[0].settings).capitalize()
    return {"heads": ["Release", "Population", f"{unit}s", "Promise"], "lines": lines}


def statement(several: Several) -> dict[str, list[tuple[str, str]]]:
    """Return the statements of all releases: label, and each text with whose it is."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, one in zip(several.names, several.given, strict=True):
        for label, text in one.document.get("statement", ()):
            found.setdefault(str(label), {}).setdefault(str(text), []).append(name)
    count = len(several.given)
    return {
        label: [("" if len(who) == count else listing(who), text) for text, who in texts.items()]
        for label, texts in found.items()
    }


def means(several: Several, more: Mapping[str, Mapping[str, Any]] | None = None) -> Figure | None:
    """Return the released means as squares, those of a class one beside the other.

    `more` holds further means of each class, by name.
    """
    kind = DESCRIPTORS.get(several.given[0].settings["descriptor"])
    if kind is None:
        return None
    squares = {
        f"{name}: {title}": point
        for name, rows in several.classes.items()
        for title, point in {
            **dict(zip(several.names, (row["point"] for row in rows), strict=True)),
            **(more or {}).get(name, {}),
        }.items()
    }
    across = len(squares) // len(several.classes)
    return matrices(list(squares), np.array(list(squares.values())), kind.features, across=across)


def forest_figure(found: Mapping[str, Forest], caption: str) -> Figure | None:
    """Return what each mean says in each term, classes side by side; None without terms."""
    lines = list(dict.fromkeys(name for one in found.values() for name in one.rows))
    records = [
        {"term": _title(reading), "class": name, "mean": title, **_numbers(reading)}
        for name, one in found.items()
        for title, row in one.rows.items()
        for reading in row
    ]
    return comparison(
        records,
        name="forest",
        title="Terms",
        along="mean",
        lines=lines,
        classes=list(found),
        caption=caption,
    )


def difference_figure(found: Mapping[str, Sequence[Reading]], caption: str) -> Figure | None:
    """Return by what the second release differs from the first, in each term and class."""
    records = [
        {
            "term": reading.term.title,
            "class": name,
            "of": "second to first",
            "same": float(reading.term.unscaled(np.array(0.0))),
            **_numbers(reading),
        }
        for name, row in found.items()
        for reading in row
    ]
    return comparison(
        records,
        name="differences",
        title="Differences",
        along="of",
        lines=["second to first"],
        classes=list(found),
        caption=caption,
    )


def _title(reading: Reading) -> str:
    unit = reading.term.unit
    return f"{reading.term.title} ({unit})" if unit else reading.term.title


def _numbers(reading: Reading) -> dict[str, float | None]:
    numbers = {"value": reading.value, "low": reading.low, "high": reading.high}
    return {key: None if x is None else float(f"{x:.6g}") for key, x in numbers.items()}


def probability(p: float) -> str:
    """Return a p-value as a paper prints it."""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def equal(p: float) -> str:
    """Return “p = …”, or “p < …”."""
    return f"p {probability(p)}" if p < 1e-4 else f"p = {probability(p)}"


def finite(value: float) -> str:
    """Return a number with a true minus sign; a dash where there is none."""
    return number(value).replace("-", "−") if math.isfinite(value) else "–"
