"""The page of `covdp match`: local images, in the clear, against a release; for their owner alone.

Unlike any other page it is as private as the images: it names single files and their percentiles.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS, terms_of
from pipeline.figures import Figure
from pipeline.files import make_folder, owner_only
from pipeline.geometry import frechet_mean
from pipeline.inference import FLAGGED, Match
from pipeline.publish.document import write_document
from pipeline.publish.local_images import (
    AS_PRIVATE,
    ClassMatch,
    MatchedImages,
    write_percentiles,
)
from pipeline.publish.readings import (
    Mean,
    population_mean,
    read_differences,
    read_terms,
)
from pipeline.publish.several import Several
from pipeline.report.page import Declaration, Finding, PageFrame, table
from pipeline.report.several_page import (
    NOT_TESTED,
    Together,
    difference_chart,
    finite,
    forest_chart,
    frame_of,
    p_in_words,
    probability,
    reasons,
    size_together,
    untested,
    write_together,
)
from pipeline.report.templates import say

LOCAL = "local images"
FARTHEST = 20
"""Images that the page and the terminal name; the CSV file has all."""


@dataclass(frozen=True, eq=False)
class MatchFiles:
    """What was written of a match: the page, a row per image, and the committed bytes."""

    page: Path
    images: Path
    document: Path


def build_match(matched: MatchedImages, out: Path) -> MatchFiles:
    """Write ``OUT/match.html``, ``match.csv`` and the committed bytes, for their owner alone.

    Raises
    ------
    OutputError
        When something cannot be written.
    """
    given = matched.given
    rows = {name: [one.row] for name, one in matched.classes.items()}
    together = Together(Several((given,), (given.name,), rows), matched)
    with owner_only(True):
        folder = make_folder(out)
        images = write_percentiles(matched, folder / "match.csv")
        page = write_together("match", together, folder / "match.html")
    return MatchFiles(page, images, write_document(given.content, folder))


def match_page(together: Together, texts: Declaration) -> PageFrame:
    """Return the frame of the page; it is as private as the images, whatever its noise."""
    matched: MatchedImages = together.results
    outside = sum(percentile > FLAGGED for *_, percentile in matched.images)
    numbers = [(f"{outside:,}", "images outside"), (f"{len(matched.images):,}", LOCAL)]
    if matched.p_values:
        numbers.insert(0, (probability(matched.p_value), "all tested classes together"))
    return frame_of(
        "match",
        together,
        texts,
        numbers=numbers,
        headline=match_verdict(matched),
        local=f"{matched.dataset} against ",
        warning=AS_PRIVATE,
    )


def match_verdict(matched: MatchedImages) -> Finding:
    """Say whether the local images differ from the release, or why that cannot be tested."""
    p_values, missing = matched.p_values, matched.untested
    if not p_values:
        return untested(missing)
    many = [name for name, one in matched.classes.items() if one.result and one.result.many_outside]
    text = say(
        "local",
        found=p_in_words(matched.p_value, p_values),
        differs=matched.differs,
        surest=min(p_values, key=p_values.__getitem__),
        many=many,
        missing=reasons(missing),
    )
    return Finding(text, warning=matched.differs or bool(missing or many))


def tests(together: Together) -> dict[str, Any] | None:
    """Return a row per class: sizes, p-value, how many images are outside and are expected to."""
    lines = []
    for name, one in together.results.classes.items():
        result = one.result
        cells = ["–"] * 4
        if result is not None:
            test = NOT_TESTED if one.untested else probability(result.p_value)
            cells = [test, finite(result.line), *outside_cells(result)]
        lines.append([name, size_together([one.row]), f"{len(one.local.places):,}", *cells])
    heads = ["Class", "n, release", "n, local", "p-value", "z of contrast", "Outside", "Expected"]
    return table(heads, lines)


def outside_cells(result: Match) -> tuple[str, str]:
    """Return how many records are outside, and how many are expected."""
    if not result.n:
        return "–", "–"
    low, high = (100.0 * share for share in result.expected_range)
    count = np.count_nonzero(result.is_outside)
    share = f"{count:,} of {result.n:,} ({100.0 * result.outside:.2g} %)"
    return share, f"{100.0 * result.expected:.2g} % ({low:.2g} to {high:.2g})"


def farthest(together: Together) -> dict[str, Any] | None:
    """Return a row per the images that are farthest away."""
    lines = [
        [file, name, f"{percentile:.2f}", "yes" if percentile > FLAGGED else "no"]
        for name, file, percentile in together.results.images[:FARTHEST]
    ]
    return table(["Image", "Class", "Percentile", "Outside"], lines, text=2)


def faults(together: Together) -> dict[str, Any] | None:
    """Return a row per local file that cannot be used."""
    lines = [[fault.file, fault.reason] for fault in together.results.faults]
    return table(["File", "Why"], lines, text=2, long=1)


def forest_figure(together: Together, *, marks: str) -> Figure | None:
    """Return what the mean of either side says in each term, classes side by side."""
    known, sides = terms_of(DESCRIPTORS[together.descriptor]), (*together.several.names, LOCAL)
    forests = {
        name: {
            side: read_terms(known, mean, one.row.manifold)
            for side, mean in zip(sides, _means(one), strict=True)
        }
        for name, one in _readable(together.results)
    }
    return forest_chart(forests, marks)


def difference_figure(together: Together, *, marks: str) -> Figure | None:
    """Return by what local images differ from the release, in each term and class."""
    known = terms_of(DESCRIPTORS[together.descriptor])
    readings = {
        name: read_differences(known, *_means(one), one.row.manifold)
        for name, one in _readable(together.results)
    }
    return difference_chart(readings, "local images to release", marks)


def _readable(matched: MatchedImages) -> Iterator[tuple[str, ClassMatch]]:
    """Yield the classes whose local images have a mean with a band."""
    for name, one in matched.classes.items():
        if one.result is not None and one.result.n > 1:
            yield name, one


def _means(one: ClassMatch) -> tuple[Mean, Mean]:
    """Return the mean of the release and that of the local records, each as of a population."""
    places, space = one.local.places, one.row.space
    point = frechet_mean(places, space).point
    scatter = np.cov(space.log(point, places), rowvar=False) / len(places)
    return population_mean(one.row), Mean(point, scatter, point)
