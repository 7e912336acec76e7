"""Pictures in files of their own: what folders and tables of them have in common."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.arrays import ImageArray, counting
from pipeline.datasets.classed import Classed
from pipeline.datasets.decoding import Check, PictureCard, decode, decode_mask, extent
from pipeline.datasets.reading import FileNames, InFiles, Rows
from pipeline.datasets.shapes import check_extent
from pipeline.datasets.sifting import Sift, none_left
from pipeline.datasets.source import ImageSource
from pipeline.errors import ImageError

CROPPED = (
    "Images are cropped to their central square, if they are not square; "
    'fit = "pad" or "stretch" in the card keeps all of each.'
)


class Pictures(NamedTuple):
    """The pictures of a card: the shape of all, their reader, what a run tells of them."""

    shape: tuple[int, ...]
    read: InFiles
    facts: tuple[str, ...]
    masks: InFiles | None


def from_files(
    card: PictureCard, files: Classed, path: Path, sift: Sift | None = None
) -> ImageSource:
    """Return the dataset of some files, each one image."""
    pictures = open_pictures(card, files.names, str(path), files.masks, sift)
    return ImageSource(
        card,
        pictures.shape,
        files.label_of,
        files.split_of,
        pictures.read,
        files.facts(card.exclude) + pictures.facts,
        files.people if card.unit == "person" else None,
        files.dates,
        pictures.masks,
        classes_per_person=card.classes_per_person,
        left_out=files.left_out,
    )


def open_pictures(
    card: PictureCard,
    names: FileNames,
    where: str,
    masks: FileNames | None = None,
    sift: Sift | None = None,
) -> Pictures:
    """Return the reader of some files, each one image.

    With `size` in the card none is opened. Without, the first that can be read gives the shape, and
    every other is compared with it before it is decoded.

    Raises
    ------
    ImageError
        When no file can be read, as the first says.
    MismatchError
        When images would be larger than any may be.
    """
    check = None
    if card.size:
        sides = card.size, card.size
    else:
        sides, first = _first(card, names, sift)
        check = partial(_check_sides, sides, Path(first).name)
    shape = sides + ((3,) if card.channels == 3 else ())
    check_extent(shape, where)
    each = np.arange(len(names), dtype=counting(len(names)))
    none = np.zeros(len(names), np.int8)
    facts = (CROPPED,) if card.size and card.fit == "crop" else ()
    inside = None
    if masks is not None:
        beside = names if card.size else None
        inside = InFiles(partial(_decode_mask, card, sides), masks, each, none, beside)
    read = InFiles(partial(_decode, card, check), names, each, none)
    return Pictures(shape, read, facts, inside)


def _first(card: PictureCard, names: FileNames, sift: Sift | None) -> tuple[tuple[int, int], str]:
    """Return height and width of the first image that has them, and its name.

    One before it that cannot be read is refused when it is its turn.
    """
    faults: dict[str, ImageError] = {}
    for index in range(len(names)):
        try:
            return extent(Path(names[index]), card), names[index]
        except ImageError as error:
            faults[names[index]] = error
    raise none_left(faults, sift)


def _check_sides(wanted: tuple[int, int], first: str, sides: tuple[int, int], file: Path) -> None:
    if sides != wanted:
        raise ImageError(
            f"{file}: images must have one size, found {wanted} in {first} and {sides} in "
            f"{file.name}; give size in the card to fit and resize them"
        )


def _decode(card: PictureCard, check: Check | None, file: Path, frames: Rows) -> ImageArray:
    """Return the image of a file, which holds one, (1, *shape)."""
    return decode(file, card, check)[np.newaxis]


def _decode_mask(
    card: PictureCard, sides: tuple[int, int], file: Path, frames: Rows, image: Path | None = None
) -> ImageArray:
    """Return the mask in a file, (1, h, w); of an image that was made to fit, as that was."""
    return decode_mask(file, card, extent(image, card) if image else sides)[np.newaxis]
