"""Local images, in the clear, described and clipped as a release had its own, class by class.

All of it is as private as the images: names of files, percentiles, p-values. It costs no budget,
and nothing is written but by `write_percentiles`, where it is asked to. What cannot be read is
listed, and the other images are matched without it.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.addons.nights.changes import ALPHA, bonferroni
from covdp.addons.nights.schema import NightClassPart
from covdp.addons.partners.foreign import check_sides, computed
from covdp.addons.partners.match import FLAGGED, Match, match, match_refusal
from covdp.addons.partners.several import CommittedDocument, open_document
from covdp.datasets import (
    ImageSource,
    collect_faults,
    fetch,
    find_card,
    may_be_empty,
    pixel_rules,
)
from covdp.descriptors import DESCRIPTORS, describe, require_descriptor_for
from covdp.errors import ConfigError, DatasetError
from covdp.files import atomic_path
from covdp.geometry import MANIFOLDS, Point, chart_of, to_chart
from covdp.mean import person_records
from covdp.publish.release import domain_for
from covdp.schema import ClassEntry, SettingsPart
from covdp.store import FileFault, check, image_names, listing_faults, relative_name

AS_PRIVATE = "This output is as private as the images: it describes single images."
"""The first sentence, wherever it is shown."""
IMAGES_AT_ONCE = 256
"""Images that are described at a time."""


class LocalImages(NamedTuple):
    """The local images of a class.

    Attributes
    ----------
    files : tuple of str
        Place of each: its path in the folder, or its split and number in one file.
    units : array, shape (m,)
        Number of the record that each is of: an image's own, or a person's.
    places : array, shape (n, *space.point_shape)
        The records, in the chart of a flat manifold.
    """

    files: tuple[str, ...]
    units: NDArray[np.int64]
    places: Point


@dataclass(frozen=True, eq=False)
class ClassMatch:
    """A class that both have, and what was found; None where the release says too little.

    Attributes
    ----------
    row : ClassEntry
        Entry of the class in the document.
    local : LocalImages
        Local images of the class.
    result : Match or None
        Test of the class; None where the release says too little.
    refusal : str
        Reason why nothing is tested; "" where something is.
    """

    row: ClassEntry
    local: LocalImages
    result: Match | None
    refusal: str = ""

    @property
    def untested(self) -> str:
        """Reason why the means were not tested; "" where they were."""
        return self.refusal if self.result is None else self.result.untested

    @property
    def images(self) -> Iterator[tuple[str, float]]:
        """File and percentile of each image; a person's images have that of the person."""
        if self.result is not None:
            yield from zip(
                self.local.files, self.result.percentile[self.local.units].tolist(), strict=True
            )


@dataclass(frozen=True, eq=False)
class MatchedImages:
    """Local images against a release.

    Attributes
    ----------
    release : CommittedDocument
        The document.
    dataset : str
        The name of the local images.
    classes : mapping of str to ClassMatch
        Result of each class that both have, in the order of the release.
    faults : tuple of FileFault
        Local files that cannot be used, and why.
    left_out : tuple of str
        Classes that only one of them has.
    note : str
        The first sentence, wherever it is shown.
    """

    release: CommittedDocument
    dataset: str
    classes: Mapping[str, ClassMatch]
    faults: tuple[FileFault, ...]
    left_out: tuple[str, ...]
    note: str = AS_PRIVATE

    @property
    def p_values(self) -> dict[str, float]:
        """P-values of the classes that were tested."""
        return {
            name: entry.result.p_value
            for name, entry in self.classes.items()
            if entry.result is not None and not entry.untested
        }

    @property
    def p_value(self) -> float:
        """P-value of all tested classes together (Bonferroni); NaN without any."""
        return bonferroni(list(self.p_values.values()))

    @property
    def differs(self) -> bool:
        """True if the local images are of another population, at a level of 5 %."""
        return self.p_value < ALPHA

    @property
    def untested(self) -> dict[str, str]:
        """Reason of each class that was not tested."""
        return {name: entry.untested for name, entry in self.classes.items() if entry.untested}

    @property
    def images(self) -> list[tuple[str, str, float]]:
        """Class, file and percentile of each image, the farthest of all first."""
        rows = [(name, *image) for name, entry in self.classes.items() for image in entry.images]
        return sorted(rows, key=lambda row: -row[2])

    @property
    def outside(self) -> int:
        """Number of images beyond the percentile that flags them."""
        return sum(percentile > FLAGGED for *_, percentile in self.images)


def match_images(
    document: Path, dataset: str, root: Path | None = None, *, window: int | None = None
) -> MatchedImages:
    """Match the local images of a dataset with a release, class by class.

    Parameters
    ----------
    document : Path
        The committed document, `OUT/release/*.json`.
    dataset : str
        A known dataset, or the path of a card; its classes are found by their names.
    root : Path, optional
        The data root.
    window : int, optional
        Number of last nights of a night's document, whose mean is that of one epoch alone.

    Returns
    -------
    MatchedImages
        Result of each class, and files that cannot be used.

    Raises
    ------
    ConfigError
        When the document is none of a release, says too little in every class, is of other images
        than these, or has no such window.
    DatasetError
        When no image can be read.
    """
    release = _read_release(document, window)
    settings = release.settings
    released = release.document.classes
    with computed([document]):
        refusals = {row.class_name: _refusal(release, row) for row in released}
    if all(refusals.values()):
        name, reason = next(iter(refusals.items()))
        raise ConfigError(f"{document} cannot be matched, class {name!r}: {reason}")
    card = may_be_empty(find_card(dataset))
    require_descriptor_for(settings.descriptor, channels=card.channels, volumes=card.volumes)
    rows = {row.class_name: row for row in released if row.class_name in card.classes}
    if not rows:
        raise ConfigError(
            f"no class stands in both: {', '.join(map(repr, refusals))} in {document}, "
            f"{', '.join(map(repr, card.classes))} in {dataset}; name the classes of the card as "
            "the release does"
        )
    path = fetch(card, root, size=settings.size if settings.size in card.sizes else None)
    folder = path if path.is_dir() else path.parent
    opened = collect_faults(card, path)
    if opened.source is None:
        raise opened.error or DatasetError(f"{dataset} has no image")
    source, faults = opened.source, listing_faults(opened.faults, folder)
    _check_same(document, settings, dataset, source)
    labels = [card.classes.index(name) for name in rows]
    local, broken = _read(source, folder, labels, settings)
    with computed([document]):
        classes = {
            name: ClassMatch(row, images, None, refusals[name])
            if refusals[name]
            else ClassMatch(row, images, match(row, images.places))
            for (name, row), images in zip(rows.items(), local, strict=True)
        }
    left_out = tuple(x for x in (*refusals, *card.classes) if x not in classes)
    return MatchedImages(release, card.title, classes, (*faults, *broken), left_out)


def _refusal(release: CommittedDocument, row: ClassEntry) -> str:
    """Return why local images are not matched with a class; "" where they are."""
    if release.window is not None and row.coordinates is None:
        return f"there is no mean of its {release.nights}"
    return match_refusal(row)


def _read_release(path: Path, window: int | None) -> CommittedDocument:
    """Return the document of a release whose descriptor is known here."""
    release = open_document(path, window)
    name = release.settings.descriptor
    if name not in DESCRIPTORS:
        raise ConfigError(
            f"{path} has descriptor = {name!r}, this version has {', '.join(DESCRIPTORS)}; match "
            "images with a program that describes them so"
        )
    check_sides(path, release.document, DESCRIPTORS[name].k)
    if window is not None:
        if release.window is None:
            raise ConfigError(f"{path} is a release, which has no nights; leave --window out")
        for row in release.document.classes:
            parts = row.certainty.parts if isinstance(row, NightClassPart) and row.certainty else ()
            if len(parts) > 1:
                raise ConfigError(
                    f"the last {window} nights of class {row.class_name!r} in {path} are of "
                    f"{len(parts)} epochs, which clip images otherwise, the last since night "
                    f"{parts[-1].first}; match with fewer nights, or leave --window out"
                )
    return release


def _check_same(document: Path, settings: SettingsPart, dataset: str, source: ImageSource) -> None:
    """Raise `ConfigError` unless local images are such as the release was made of."""
    ours = {**domain_for(settings, source).images, "unit": source.unit, **pixel_rules(source.card)}
    for name, value in ours.items():
        setting = getattr(settings, name)
        if value != setting is not None:
            raise ConfigError(
                f"{document} has {name} = {setting!r}, {dataset} has {value!r}; match images that "
                "are prepared as those of the release"
            )


def _read(
    source: ImageSource, folder: Path, labels: Sequence[int], settings: SettingsPart
) -> tuple[list[LocalImages], list[FileFault]]:
    """Return the images of some classes, and files that cannot be read, without which they are."""

    def described(source: ImageSource) -> list[LocalImages]:
        return [_described(source, label, folder, settings) for label in labels]

    try:
        return described(source), []
    except DatasetError:
        broken, files_of = check(source, folder), getattr(source.read, "files_of", None)
        bad = {fault.file for fault in broken}
        usable = [
            row
            for row in range(len(source.label_of))
            if files_of and not any(relative_name(name, folder) in bad for name in files_of(row))
        ]
        if not bad or not usable:
            raise
    return described(source.only(np.array(usable))), broken


def _described(
    source: ImageSource, label: int, folder: Path, settings: SettingsPart
) -> LocalImages:
    """Return the images of a class as the records that a release makes of them."""
    manifold = MANIFOLDS[settings.manifold](k=DESCRIPTORS[settings.descriptor].k)
    chosen, space = source.select(None, label), chart_of(manifold)  # a night may have no mean yet
    chunks = [
        to_chart(manifold, describe(images, settings.descriptor, settings.eta, mask))
        for images, mask in source.with_masks(chosen.rows, IMAGES_AT_ONCE)
    ]
    places = np.concatenate([space.origin[np.newaxis][:0], *chunks])
    units = chosen.units.astype(np.int64)
    if source.people is not None and len(places):
        places = person_records(places, units, space)
    return LocalImages(tuple(image_names(source, chosen.rows, folder)), units, places)


def write_percentiles(matched: MatchedImages, path: Path) -> Path:
    """Write a row per image, the farthest first: file, percentile, class; for its owner alone.

    Parameters
    ----------
    matched : MatchedImages
        Local images against a release.
    path : Path
        File that is written, in CSV, readable by its owner alone.

    Returns
    -------
    Path
        The same path.
    """
    rows = (
        (_inert(file), f"{percentile:.4f}", _inert(name))
        for name, file, percentile in matched.images
    )
    with (
        atomic_path(path, mode=0o600) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream,
    ):
        csv.writer(stream).writerows([("file", "percentile", "class"), *rows])
    return path


def _inert(text: str) -> str:
    """Return a text that no table program takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
