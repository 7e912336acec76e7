"""What released means say: terms in words with their bands, and the region where the truth is."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from covdp.descriptors import Term
from covdp.figures import number
from covdp.figures.style import size_in_words
from covdp.geometry import Manifold, Point, chart_of
from covdp.inference import ConfidenceRegion, Verdict, certainty_refusal, is_usable, region
from covdp.report.page import cell, signed, table
from covdp.report.templates import percent, rough
from covdp.schema import ClassEntry, ClassPart, Document

if TYPE_CHECKING:
    from covdp.publish.readings import ClassReadings

MOST_LOG_GAIN = 128.0
"""ln of the largest gain that is computed: squares of what a larger one makes would overflow."""
REGION_LEVEL = 0.95
"""Confidence of the regions."""


def readings(
    document: Document,
    terms: Sequence[Term],
    classes: "Sequence[ClassReadings]",
    *,
    formulas: bool = False,
) -> dict[str, Any] | None:
    """Return a row per term of a document's means, a column a class; how each follows, if wanted.

    None without terms.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    terms : sequence of Term
        Terms that the descriptor has in words.
    classes : sequence of ClassReadings
        Readings of each class.
    formulas : bool
        True if the formula of each term is shown in place of its unit.
    """
    if not terms:
        return None
    return {
        "unit": document.settings.run_key,
        "heads": [(row.name, size_in_words(row.n, row.n_sd)) for row in classes],
        "lines": [
            {
                "title": term.title,
                "unit": term.formula if formulas else term.unit,
                "cells": [_cell(row, place) for row in classes],
            }
            for place, term in enumerate(terms)
        ],
        "notes": clipping_notes(document.classes, document.settings.unit),
    }


def clipping_notes(rows: Sequence[ClassEntry], unit: str) -> list[str]:
    """Return what the bands of terms leave out: the most that clipping may have moved each mean.

    It is a bound, which outliers may reach; bands have the error of clipping that is predicted.
    Where there is none, the note says why.

    Parameters
    ----------
    rows : sequence of ClassEntry
        Entries of the classes.
    unit : str
        Privacy unit: "image" or "person".
    """
    notes = []
    for row in rows:
        if not says_region(row):
            continue
        if reason := certainty_refusal(row):
            bands = " The 95 % of the bands do not include the error of clipping." * is_usable(row)
            notes.append(f"No region is available for {row.class_name}: {reason}.{bands}")
        elif is_usable(row) and (where := region(row, REGION_LEVEL)).clipping > 0.0:
            notes.append(
                f"The mean of {row.class_name} may be off by up to {rough(where.clipping)} if a "
                f"few {unit}s are very unlike the others. This is not in the 95 % of the bands, "
                "but in the region, which reaches farther than its radius along its longest axes."
            )
    return notes


def _cell(row: "ClassReadings", place: int) -> dict[str, str]:
    """Return value and band of a reading, and which way it points where the band tells."""
    term, value, low, high = row.readings[place]
    if row.mean is None or row.mean.point is None:
        return cell("", "no mean yet")
    if not row.usable:
        return cell("", "not usable: noise")
    if value is None:
        return cell("", "lost in the noise")
    if low is None or high is None:
        return cell(signed(value), "band not known")
    word = ""
    if term.middle is not None:
        undecided = f"{term.low} or {term.high}: undecided, noise is too wide"
        word = term.high if low > term.middle else term.low if high < term.middle else undecided
    return cell(signed(value), f"{signed(low)} to {signed(high)}", word)


def regions_of(rows: Sequence[ClassEntry], unit: str) -> dict[str, Any] | None:
    """Return a row per class of a release or night; None where none says what they are made of.

    Parameters
    ----------
    rows : sequence of ClassEntry
        Entries of the classes.
    unit : str
        Privacy unit: "image" or "person".
    """
    if not any(map(says_region, rows)):
        return None
    radii = {row.class_name: radius_of(row) for row in rows if says_region(row)}
    regions = {name: where for name, (_, where) in radii.items() if where is not None}
    lines = [
        [row.class_name, *_radii(row, radii[row.class_name][0], regions)]
        if row.class_name in radii
        else [row.class_name, "Not known.", "", "", ""]
        for row in rows
    ]
    heads = ["Class", "In words", f"These {unit}s", "Population", "Clipping, at most"]
    return table(heads, lines, text=2, long=1)


def errors_in_words(row: ClassEntry, verdict: Verdict, rows: Sequence[ClassEntry]) -> list[str]:
    """Return how far the true mean may be: as a distance, a gain, and shares of distances.

    The distance to the nearest of the other classes, among `rows`, is rid of what noise adds to
    its square; where that is all of it, noise covers by how much they differ.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    verdict : Verdict
        Judgement on the use of its mean.
    rows : sequence of ClassEntry
        Entries of all classes.
    """
    error, share = row.predicted_error, verdict.share
    if error is None or share is None or row.point is None:
        return ["no mean yet" if row.point is None else "not known", "–", "–", "–"]
    gain = as_gain(row.manifold, np.eye(len(row.point)), error)
    nearest = "–"
    if verdict.use and len(rows) > 1:
        nearest = _of_nearest(row, error, [other for other in rows if other is not row])
    return [f"{error:.3g}", larger(gain), percent(share), nearest]


def _of_nearest(row: ClassEntry, error: float, others: Sequence[ClassEntry]) -> str:
    """Return an error as a share of the distance to the nearest of other classes."""
    squares = {}
    for other in others:
        if other.point is not None and other.predicted_error is not None and is_usable(other):
            square = float(chart_of(row.manifold).dist(row.place, other.place)) ** 2
            squares[other.class_name] = square - error**2 - other.predicted_error**2
    if not squares:
        return "–"
    name = min(squares, key=squares.__getitem__)
    if squares[name] <= error**2:
        return f"{name}: nearer than the noise"
    return f"{name}: {percent(error / math.sqrt(squares[name]))}"


def says_region(row: ClassEntry) -> bool:
    """Tell whether a class says what its region is made of.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.

    Returns
    -------
    bool
        True if the numbers of a region are in it.
    """
    return bool(row.observed if isinstance(row, ClassPart) else row.weighed)


def has_region(row: ClassEntry) -> bool:
    """Tell whether the mean of a class has a region.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.

    Returns
    -------
    bool
        True if there is one.
    """
    return says_region(row) and not certainty_refusal(row)


def _radii(row: ClassEntry, words: str, regions: Mapping[str, ConfidenceRegion]) -> list[str]:
    """Return how far a region reaches, its radii for sample and population, and the clipping."""
    here = regions.get(row.class_name)
    if here is None:
        return [words, "–", "–", "–"]
    distances = {
        name: float(here.space.dist(here.place, where.place))
        for name, where in regions.items()
        if name != row.class_name
    }
    if distances:
        name = min(distances, key=distances.__getitem__)
        words += f", and {_of_way(here, regions[name].centre)} {name}, the nearest class"
    beyond = region(row, REGION_LEVEL, of="population")
    return [f"{words}.", *map(number, (here.radius, beyond.radius, here.clipping))]


def _of_way(here: ConfidenceRegion, mean: Point) -> str:
    """Return how near a region comes to the mean of another class, whose name follows."""
    if here.contains(mean):
        return "holds the mean of"
    return f"{percent(float(here.share_of_way(mean)))} of the way to"


def radius_of(row: ClassEntry) -> tuple[str, ConfidenceRegion | None]:
    """Return how far the region of the mean of a class reaches along a gain, and the region.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    """
    if reason := certainty_refusal(row):
        return f"Not available: {reason}.", None
    where = region(row, REGION_LEVEL, of="sample")
    gain = largest_gain(where)
    return f"It extends to a gain that makes all standard deviations {larger(gain)}", where


def larger(gain: float) -> str:
    """Return how much larger a gain makes what it multiplies: in percent, or as a factor.

    Parameters
    ----------
    gain : float
        Factor, 1 or more.
    """
    if math.isinf(gain):
        return "more than 10⁵⁵ times as large"
    if gain < 1.995:
        return f"{rough(100.0 * (gain - 1.0))} % larger"
    return f"{number(gain)} times as large"


def as_gain(manifold: Manifold, point: Point, distance: float) -> float:
    """Return the gain of all standard deviations that moves a descriptor by a distance.

    One of more than 10⁵⁵ is infinite.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the descriptor.
    point : array, shape (d, d)
        Descriptor that is multiplied.
    distance : float
        Distance in the manifold.
    """
    return _least_gain(
        lambda log_gain: float(manifold.dist(point, math.exp(2.0 * log_gain) * point)) < distance
    )


def largest_gain(where: ConfidenceRegion) -> float:
    """Return the largest gain of all standard deviations of its centre that a region has in it.

    One of more than 10⁵⁵ is infinite.

    Parameters
    ----------
    where : ConfidenceRegion
        Region of the mean of a class.
    """
    centre = where.centre
    return _least_gain(lambda log_gain: bool(where.contains(math.exp(2.0 * log_gain) * centre)))


def _least_gain(falls_short: Callable[[float], bool]) -> float:
    """Return the least gain whose logarithm does not fall short; one of 10⁵⁵ is infinite."""
    low, high = 0.0, 1.0
    while falls_short(high):
        if high >= MOST_LOG_GAIN:
            return math.inf
        low, high = high, 2.0 * high
    for _ in range(60):  # by halves: SciPy's search takes 0.2 s to import
        middle = (low + high) / 2.0
        low, high = (middle, high) if falls_short(middle) else (low, middle)
    return math.exp(high)
