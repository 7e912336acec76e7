"""Readings of released means: terms in words with their bands, and the region of the true mean."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from covdp.descriptors import Term
from covdp.figures import grouped, listing, number
from covdp.figures.style import size_in_words
from covdp.geometry import Manifold, Point, chart_of
from covdp.inference import (
    ConfidenceRegion,
    Verdict,
    certainty_refusal,
    is_usable,
    region,
    usual_difference,
)
from covdp.report.page import cell, signed, table
from covdp.report.templates import percent, say_each
from covdp.schema import ClassEntry, ClassPart, Document

if TYPE_CHECKING:
    from covdp.publish.readings import ClassReadings, Reading

MOST_LOG_GAIN = 128.0
"""ln of the largest gain that is computed: squares of what a larger one makes would overflow."""
MANY = 3
"""Number of classes from which a sentence names those that are left out."""
REGION_LEVEL = 0.95
"""Confidence of the regions."""


def readings(
    document: Document,
    terms: Sequence[Term],
    classes: "Sequence[ClassReadings]",
) -> dict[str, Any] | None:
    """Return a row per term of a document's means, a column a class; how each follows, as a tip.

    None without terms.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    terms : sequence of Term
        Terms that the descriptor has in words.
    classes : sequence of ClassReadings
        Readings of each class.
    """
    if not terms:
        return None
    return {
        "unit": document.settings.run_key,
        "heads": [(row.name, size_in_words(row.n, row.n_sd)) for row in classes],
        "lines": [
            {
                "title": term.title,
                "unit": term.unit,
                "meaning": term.meaning,
                "tip": term.formula,
                "cells": [_cell(row, place) for row in classes],
            }
            for place, term in enumerate(terms)
        ],
        "notes": unbounded(document.classes),
    }


def sentences_of(terms: Sequence[Term], rows: "Sequence[ClassReadings]") -> Sequence[str]:
    """Return what readings say in at most three sentences: sizes, what is decided, what is not.

    Parameters
    ----------
    terms : sequence of Term
        Terms of the descriptor.
    rows : sequence of ClassReadings
        Readings of each class.
    """
    sized, decided, undecided = list[tuple[Term, Any]](), list[str](), list[tuple[str, str]]()
    bounded = [row.name for row in rows if any(x.least is not None for x in row.readings)]
    for place, term in enumerate(terms):
        known = {row.name: one for row in rows if (one := row.readings[place]).low is not None}
        if term.middle is None:
            sized += [(term, sorted(known.items(), key=lambda pair: pair[1].value))] * bool(known)
            continue
        words = grouped((_word(one), name) for name, one in known.items())
        title = term.title[0].lower() + term.title[1:]
        hidden = [name for name in words.pop("", []) if name in bounded]
        decided += [f"{word} ({listing(names)})" for word, names in words.items()]
        undecided += [(_named(hidden, bounded), title)] * bool(hidden)
    title, unit, found = "", "", list[tuple[str, Any]]()
    if sized:
        term, found = sized[0]
        title, unit = term.title, term.unit
    ends = [
        {"name": name, "text": signed(one.value), "band": _band(one), "clipping": _clipping(one)}
        for name, one in dict([found[0], found[-1]] if found else ()).items()
    ]
    return say_each(
        "in_sentences",
        title=title,
        unit=unit,
        ends=ends,
        doubt=_doubt(*(found[at][1] for at in (0, -1))) if len(ends) > 1 else "",
        decided=decided,
        undecided=[f"{', '.join(x)} ({names})" for names, x in grouped(undecided).items()],
        unbounded=[row.name for row in rows if row.name not in bounded],
    )


def _named(names: Sequence[str], known: Iterable[str]) -> str:
    """Return the names of classes in words; of many those of `known` that are left out."""
    left = [name for name in known if name not in names]
    if len(names) < MANY or len(left) > 1:
        return listing(names)
    return f"all classes but {listing(left)}" if left else "all classes"


def _doubt(less: "Reading", more: "Reading") -> str:
    """Return which error may explain the difference of two values; "" if none does."""
    if less.high is None or more.low is None or less.high >= more.low:
        return "Noise may explain the difference."
    if less.ends[1] >= more.ends[0]:
        return "Noise does not explain the difference; clipping of very unlike images may."
    return ""


def _band(reading: "Reading") -> str:
    """Return what noise may make of a value, in words."""
    assert reading.low is not None
    assert reading.high is not None
    return f"{signed(reading.low)} to {signed(reading.high)}"


def _clipping(reading: "Reading") -> str:
    """Return what clipping may make of a value, in words; "" of a mean that clips nothing."""
    if reading.least is None:
        return "clipping: not bounded"
    if reading.ends == (reading.low, reading.high):
        return ""
    return f"clipping, at worst: {' to '.join(map(signed, reading.ends))}"


def _word(reading: "Reading") -> str:
    """Return which way a value points; "" where noise or clipping may turn it.

    Where clipping is not bounded nothing is decided.
    """
    term, (least, most) = reading.term, reading.ends
    assert term.middle is not None
    return term.high if least > term.middle else term.low if most < term.middle else ""


def unbounded(rows: Sequence[ClassEntry]) -> list[str]:
    """Return why classes have no region, and so no bound on what clipping did to their means.

    Parameters
    ----------
    rows : sequence of ClassEntry
        Entries of the classes.
    """
    without = [row for row in rows if says_region(row) and certainty_refusal(row)]
    useless = [
        f"{row.class_name} ({certainty_refusal(row).short})"
        for row in without
        if not is_usable(row)
    ]
    notes = [f"Not usable, and without a region: {listing(useless)}."] if useless else []
    return notes + [
        f"No region is available for {row.class_name}: {certainty_refusal(row)}. "
        "Its band is of noise alone."
        for row in without
        if is_usable(row)
    ]


def _cell(row: "ClassReadings", place: int) -> dict[str, str]:
    """Return value and band of a reading, and which way it points where the band tells."""
    reading = row.readings[place]
    term, value = reading.term, reading.value
    if row.mean is None or row.mean.point is None:
        return cell("", "no mean yet")
    if not row.usable:
        return cell("", "not usable: noise")
    if value is None:
        return cell("", "lost in the noise")
    if reading.low is None:
        return cell(signed(value), "band not known")
    word = "" if term.middle is None else _word(reading) or f"{term.low} or {term.high}: undecided"
    return cell(signed(value), _band(reading), word, _clipping(reading))


def numbers_of(reading: "Reading", *ends: str) -> dict[str, float | None]:
    """Return value and band of a reading as a chart holds them, to six digits.

    Parameters
    ----------
    reading : Reading
        Value of a term and its band.
    *ends : str
        Names of the ends of its whisker, if they are drawn.
    """
    numbers = {key: getattr(reading, key) for key in ("value", "low", "high", *ends)}
    return {key: None if x is None else float(f"{x:.6g}") for key, x in numbers.items()}


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
        else [row.class_name, "Not known.", "", ""]
        for row in rows
    ]
    heads = ["Class", "In words", f"Radius, these {unit}s", "Radius, population"]
    return table(heads, lines, text=2, long=1)


def errors_in_words(row: ClassEntry, verdict: Verdict) -> list[str]:
    """Return predicted error and most clipping of a mean: distances, and their shares.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    verdict : Verdict
        Judgement on the use of its mean.
    """
    error, share = row.predicted_error, verdict.share
    if error is None or share is None or row.point is None:
        return ["no mean yet" if row.point is None else "not known", "–", "–", "–"]
    if verdict.uncounted:  # its mean stays where images are expected, so its error says nothing
        return ["–"] * 4
    bias, most = clipping_share(row), ["–", "–"]
    if bias is not None:
        clipping = f"{region(row, REGION_LEVEL).clipping:.2g}" if has_region(row) else "nothing"
        most = [clipping, percent(bias)]
    return [f"{error:.3g}", percent(share), *most]


def clipping_share(row: ClassEntry, *, beyond_noise: bool = False) -> float | None:
    """Return the most that clipping may have done, as a share of a usual difference.

    None without a bound; 0 of one draw, which clips nothing, and where there is no mean.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    beyond_noise : bool
        True if it is 0 as well where the region of noise alone is as large.
    """
    if row.point is None or len(row.costs) == 1:
        return 0.0
    if not has_region(row):
        return None
    where = region(row, REGION_LEVEL)
    if beyond_noise and where.clipping <= where.noise_radius:
        return 0.0
    return where.clipping / usual_difference(row.manifold, len(row.point))


def nearest_in_words(row: ClassEntry, rows: Sequence[ClassEntry]) -> str:
    """Return an error as a share of the distance to the nearest of the other classes; "" of none.

    The distance is rid of what noise adds to its square; where that is all of it, noise covers by
    how much they differ.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    rows : sequence of ClassEntry
        Entries of all classes.
    """
    error, others = row.predicted_error, [other for other in rows if other is not row]
    return "" if error is None or not is_usable(row) else _of_nearest(row, error, others)


def _of_nearest(row: ClassEntry, error: float, others: Sequence[ClassEntry]) -> str:
    """Return an error as a share of the distance to the nearest of other classes."""
    squares = {}
    for other in others:
        if other.point is not None and other.predicted_error is not None and is_usable(other):
            square = float(chart_of(row.manifold).dist(row.place, other.place)) ** 2
            squares[other.class_name] = square - error**2 - other.predicted_error**2
    if not squares:
        return ""
    name = min(squares, key=squares.__getitem__)
    if squares[name] <= error**2:
        return f"The nearest class, {name}, is nearer than the predicted error."
    share = percent(error / math.sqrt(squares[name]))
    return f"The predicted error is {share} of the distance to {name}, the nearest class."


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
    """Return how far a region reaches, and its radii for sample and population."""
    here = regions.get(row.class_name)
    if here is None:
        return [words, "–", "–"]
    distances = {
        name: float(here.space.dist(here.place, where.place))
        for name, where in regions.items()
        if name != row.class_name
    }
    if distances:
        name = min(distances, key=distances.__getitem__)
        words = f"The first region {_of_way(here, regions[name].centre)} {name}, the nearest class."
    beyond = region(row, REGION_LEVEL, of="population")
    return [words, *map(number, (here.radius, beyond.radius))]


def _of_way(here: ConfidenceRegion, mean: Point) -> str:
    """Return how near a region comes to the mean of another class, whose name follows."""
    if here.contains(mean):
        return "holds the mean of"
    return f"extends {percent(float(here.share_of_way(mean)))} of the way to"


def radius_of(row: ClassEntry) -> tuple[str, ConfidenceRegion | None]:
    """Return why the mean of a class has no region, else the region.

    Parameters
    ----------
    row : ClassEntry
        Entry of the class.
    """
    if reason := certainty_refusal(row):
        return f"Not available: {reason}.", None
    return "", region(row, REGION_LEVEL, of="sample")


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
