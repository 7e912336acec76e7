"""PNG and JPEG images in folders, one class a folder or as the card's pattern says."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipeline.arrays import ImageArray, LabelArray
from pipeline.datasets.cards import Card
from pipeline.datasets.source import SPLITS, ImageSource, Rows
from pipeline.errors import DatasetError, ImageError

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = {".png", ".jpg", ".jpeg"}
EIGHT_BIT = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}
"""Pillow's modes with intensities 0..255; others would be clipped, not rescaled."""


def open_folder(card: Card, path: Path) -> ImageSource:
    """Open a folder: list the images of each class and check the header of each.

    Gray is Rec. 601 luma, as Pillow computes it. Images are ordered by class, then by path.

    Raises
    ------
    DatasetError
        When a class has no image, an image lies in two classes, cannot be read, has more than
        8 bits a channel, or another size than the others while the card gives none.
    """
    splits = SPLITS if "{split}" in card.pattern else ("train",)
    files: dict[str, tuple[Path, ...]] = {}
    labels = {}
    for split in splits:
        groups = [_find(card, path, split, name) for name in card.classes]
        files[split] = tuple(file for group in groups for file in group)
        labels[split] = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    _check_disjoint(card, path, files, labels)
    shapes = {_header(file, card): file for group in files.values() for file in group}
    if len(shapes) > 1:
        (one, first), (two, second) = list(shapes.items())[:2]
        raise ImageError(
            f"{path}: images must have one size, found {one} in {first.name} and {two} in "
            f"{second.name}; give size in the card to crop and resize them"
        )
    shape = next(iter(shapes)) + ((3,) if card.channels == 3 else ())
    return ImageSource(card, shape, labels, partial(read_folder, card, shape, files))


def read_folder(
    card: Card,
    shape: tuple[int, ...],
    files: dict[str, tuple[Path, ...]],
    split: str,
    rows: Rows,
    size: int,
) -> Iterator[ImageArray]:
    """Read rows of one split, decoding only those."""
    for start in range(0, len(rows), size):
        wanted = rows[start : start + size]
        block = np.empty((len(wanted), *shape), np.uint8)
        for image, row in zip(block, wanted, strict=True):
            image[...] = _decode(files[split][row], card)
        yield block


def _find(card: Card, path: Path, split: str, name: str) -> list[Path]:
    """Return the images of one class and split, ordered by path."""
    pattern = card.pattern.replace("{class}", glob.escape(name)).replace("{split}", split)
    found = (file for file in path.glob(pattern) if file.suffix.lower() in SUFFIXES)
    return sorted(file for file in found if not file.name.startswith("."))


def _check_disjoint(
    card: Card, path: Path, files: dict[str, tuple[Path, ...]], labels: dict[str, LabelArray]
) -> None:
    """Raise unless every class has an image and every image one class."""
    counts = sum(np.bincount(part, minlength=len(card.classes)) for part in labels.values())
    for name, count in zip(card.classes, np.atleast_1d(counts), strict=True):
        if count == 0:
            raise DatasetError(
                f"{path}: class '{name}' has no PNG or JPEG image at '{card.pattern}'; correct "
                "classes, pattern or path in the card"
            )
    seen = [file for group in files.values() for file in group]
    if len(set(seen)) < len(seen):
        twice = next(file for file in seen if seen.count(file) > 1)
        raise DatasetError(
            f"{twice} lies in two classes or splits; make '{card.pattern}' tell them apart"
        )


def _header(file: Path, card: Card) -> tuple[int, int]:
    """Return height and width of an image as it will be read, from its header alone."""
    with _opened(file) as image:
        if image.mode not in EIGHT_BIT:
            raise ImageError(
                f"{file}: images must have 8 bits a channel, found mode {image.mode}; rescale "
                "to 0..255 and save again"
            )
        return (card.size, card.size) if card.size else (image.height, image.width)


def _decode(file: Path, card: Card) -> ImageArray:
    """Return one image, (h, w) or (h, w, 3)."""
    from PIL import Image

    with _opened(file) as image:
        plain = image.convert("L" if card.channels == 1 else "RGB")
        if card.size:
            side = min(plain.size)
            left, top = (plain.width - side) // 2, (plain.height - side) // 2
            square = plain.crop((left, top, left + side, top + side))
            plain = square.resize((card.size, card.size), Image.Resampling.BICUBIC)
        return np.asarray(plain)


@contextmanager
def _opened(file: Path) -> Iterator["Image.Image"]:
    """Open an image; whatever a damaged file makes Pillow raise becomes one `ImageError`."""
    from PIL import Image

    try:
        with Image.open(file) as image:
            yield image
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        reason = " ".join(str(error).replace(str(file), "file").split())
        raise ImageError(f"{file} is not a readable image ({reason})") from error
