"""The page of `covdp match`: local images, in the clear, against a release; for their owner alone.

Unlike any other page it is as private as the images: it names single files and their percentiles.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.descriptors import DESCRIPTORS, terms_of
from pipeline.figures import Figure, comparison
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
from pipeline.report.methods import methods, of_release
from pipeline.report.page import (
    Declaration,
    Finding,
    PageFrame,
    Section,
    statement_of,
    table,
    write_page,
)
from pipeline.report.several_page import (
    NOT_TESTED,
    difference_records,
    finite,
    forest_records,
    not_tested,
    probability,
    size_together,
    units_in_words,
    untested,
)
from pipeline.report.templates import word

LOCAL = "local images"
ORDER = "local images to release"
"""What a difference is of."""
FARTHEST = 20
"""Images that the page and the terminal name; the CSV file has all."""


@dataclass(frozen=True, eq=False)
class MatchFiles:
    """What was written of a match: the page, a row per image, and the committed bytes."""

    page: Path
    images: Path
    document: Path


@dataclass(frozen=True, eq=False)
class _Subject:
    """What the page is made of."""

    matched: MatchedImages
    document: Path

    @property
    def name(self) -> str:
        """What the release is called."""
        return self.matched.given.name

    @property
    def descriptor(self) -> str:
        """Which descriptor the means are of."""
        return self.matched.given.settings.descriptor

    @property
    def readable(self) -> dict[str, ClassMatch]:
        """The classes whose local images have a mean with a band."""
        return {
            name: one
            for name, one in self.matched.classes.items()
            if one.result is not None and one.result.n > 1
        }


def build_match(matched: MatchedImages, out: Path) -> MatchFiles:
    """Write ``OUT/match.html``, ``match.csv`` and the committed bytes, for their owner alone.

    Raises
    ------
    OutputError
        When something cannot be written.
    """
    with owner_only(True):
        folder = make_folder(out)
        document = write_document(matched.given.content, folder)
        images = write_percentiles(matched, folder / "match.csv")
        subject = _Subject(matched, document.relative_to(out))
        page = write_page(folder / "match.html", "match", subject)
    return MatchFiles(page, images, document)


def match_page(subject: _Subject, texts: Declaration) -> PageFrame:
    """Return the frame of the page: one section."""
    matched = subject.matched
    given, tested = matched.given, matched.p_values
    outside = sum(percentile > FLAGGED for *_, percentile in matched.images)
    key_numbers = [(f"{outside:,}", "images outside"), (f"{len(matched.images):,}", LOCAL)]
    if tested:
        key_numbers.insert(0, (probability(matched.p_value), "all tested classes together"))
    section = Section(
        id="match",
        title=texts["headline"],
        subtitle=f"{matched.dataset} against {subject.name}",
        key_numbers=key_numbers,
        headline=match_verdict(matched),
        subject=subject,
        classes=tuple(matched.classes),
    )
    return PageFrame(
        title=f"{texts['headline']}: {matched.dataset} against {given.settings.population} "
        f"({given.settings.run_key})",
        sections=[section],
        privacy=statement_of([(subject.name, given.document.statement)]),
        methods=methods(
            {subject.name: of_release(given.settings, given.document.classes)},
            more=word("analysis", "match"),
        ),
        texts={"warning": AS_PRIVATE},
    )


def match_verdict(matched: MatchedImages) -> Finding:
    """Say whether the local images differ from the release, or why that cannot be tested."""
    p_values, missing = matched.p_values, matched.untested
    if not p_values:
        return untested(missing)
    together = "all tested classes together" if len(p_values) > 1 else "one class"
    p = probability(matched.p_value)
    found = f"(p {p if p[0] in '<>' else f'= {p}'}, {together})"
    if matched.differs:
        least = min(p_values, key=p_values.__getitem__)
        text = f"The local images differ from those of the release {found}, most surely in {least}:"
        text += " two samples of one population would seldom differ so much."
    else:
        text = f"No difference is found {found}. That is no proof that there is none."
    text += not_tested(missing)
    return Finding(text, warning=matched.differs or bool(missing))


def tests(subject: _Subject) -> dict[str, Any] | None:
    """Return a row per class: sizes, p-value, how many images are outside and are expected to."""
    lines = []
    for name, one in subject.matched.classes.items():
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


def farthest(subject: _Subject) -> dict[str, Any] | None:
    """Return a row per the images that are farthest away."""
    lines = [
        [file, name, f"{percentile:.2f}", "yes" if percentile > FLAGGED else "no"]
        for name, file, percentile in subject.matched.images[:FARTHEST]
    ]
    return table(["Image", "Class", "Percentile", "Outside"], lines, text=2)


def faults(subject: _Subject) -> dict[str, Any] | None:
    """Return a row per local file that cannot be used."""
    lines = [[fault.file, fault.reason] for fault in subject.matched.faults]
    return table(["File", "Why"], lines, text=2, long=1)


def forest_figure(subject: _Subject, *, marks: str) -> Figure | None:
    """Return what the mean of either side says in each term, classes side by side."""
    known, sides = terms_of(DESCRIPTORS[subject.descriptor]), (subject.name, LOCAL)
    forests = {
        name: {
            side: read_terms(known, mean, one.row.manifold)
            for side, mean in zip(sides, _means(one), strict=True)
        }
        for name, one in subject.readable.items()
    }
    return comparison(
        forest_records(forests),
        name="forest",
        title="Terms",
        along="mean",
        lines=sides,
        classes=list(forests),
        caption=marks,
    )


def difference_figure(subject: _Subject, *, marks: str) -> Figure | None:
    """Return by what local images differ from the release, in each term and class."""
    known = terms_of(DESCRIPTORS[subject.descriptor])
    readings = {
        name: read_differences(known, *_means(one), one.row.manifold)
        for name, one in subject.readable.items()
    }
    return comparison(
        difference_records(readings, ORDER),
        name="differences",
        title="Differences",
        along="of",
        lines=[ORDER],
        classes=list(readings),
        caption=marks,
    )


def _means(one: ClassMatch) -> tuple[Mean, Mean]:
    """Return the mean of the release and that of the local records, each as of a population."""
    places, space = one.local.places, one.row.space
    point = frechet_mean(places, space).point
    scatter = np.cov(space.log(point, places), rowvar=False) / len(places)
    return population_mean(one.row), Mean(point, scatter, point)


def basis(subject: _Subject) -> list[Finding]:
    """Return what all figures of the page rest on, and what it costs."""
    matched = subject.matched
    unit, promise = matched.given.settings.unit, matched.given.settings.promise
    return [
        Finding(AS_PRIVATE, warning=True),
        Finding(
            f"Nothing is taken from an account: the release promised {promise} to one {unit} of "
            "its own, and that is unchanged. The local images were read in the clear.",
            told=True,
        ),
        Finding(
            f"The tests hold for releases of other people than the local ones, each {unit} drawn "
            "independently. If some people are in both, the tests find real differences less "
            "often.",
            told=True,
        ),
        Finding(
            "Percentiles are of a law of distances with the tails of the local images, no wider "
            "than the release says: a class of unusual tails has more images outside than 1 %.",
            told=True,
        ),
    ]


def documents(subject: _Subject) -> dict[str, Any]:
    """Return a row on the document, with its digest."""
    given = subject.matched.given
    settings = given.settings
    units = units_in_words([given])
    cells = [given.name, settings.population, units, str(settings.promise)]
    path = subject.document
    line = {"cells": cells, "href": path.as_posix(), "file": path.name, "digest": given.digest}
    heads = ["Release", "Population", f"{settings.unit.capitalize()}s", "Promise"]
    return {"heads": heads, "lines": [{**line, "statement": ""}], "text": len(heads)}
