"""Images in folders, one class a folder or as the card's pattern says."""

import glob
import itertools
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field
from pydantic import model_validator as check

from pipeline.arrays import ImageArray, LabelArray
from pipeline.datasets.cards import goes_down
from pipeline.datasets.decoding import FORMATS, Format, decode, either, header
from pipeline.datasets.download import Asking, find_own, present
from pipeline.datasets.own import OwnCard
from pipeline.datasets.reading import InFiles, Rows
from pipeline.datasets.shapes import check_extent
from pipeline.datasets.source import SPLITS, ImageSource, split_codes
from pipeline.errors import DatasetError, ImageError, MismatchError

if TYPE_CHECKING:
    pass

OTHERS = (
    ".dcm", ".dicom", ".nii", ".nii.gz", ".nrrd", ".mha", ".mhd", ".svs", ".ndpi", ".mrxs", ".czi",
    ".heic", ".heif", ".avif", ".jxl", ".tga", ".psd", ".eps", ".svg", ".exr",
)  # fmt: skip
"""Ends of file names of images that no card of folders can name: not to be passed by in silence."""


class FolderCard(OwnCard):
    """What a card of kind ``folder`` says.

    With `size`, images are made square as `fit` says and resized; without, they are taken as they
    are.

    Attributes
    ----------
    pattern : str
        Where images lie, with ``{class}`` and, if there are splits, ``{split}``.
    formats : tuple of str
        The formats that are read, out of `FORMATS`.
    """

    pattern: str = "{class}/*"
    formats: tuple[Format, ...] = Field(("PNG", "JPEG"), min_length=1)

    @check(mode="after")
    def _keys_fit(self) -> Self:
        if "{class}" not in self.pattern or not goes_down(self.pattern):
            raise ValueError(
                "pattern must be relative, without '..', and contain {class}, as in "
                f"'{{class}}/*.png', found {self.pattern!r}"
            )
        if any("**" in part and part != "**" for part in Path(self.pattern).parts):
            raise ValueError("'**' in pattern must be a folder of its own, as in '{class}/**/*'")
        for name in self.classes:
            if not goes_down(self.pattern.replace("{class}", name)):
                raise ValueError(f"class {name!r} would lead out of the folder")
        return self


def fetch_folder(card: FolderCard, root: Path, size: int | None, asking: Asking) -> Path:
    """Return the folder, which is always the user's own."""
    return find_own(card.name, root / (card.path or card.name), root)


def has_folder(card: FolderCard, root: Path, size: int | None) -> bool:
    """Tell whether the folder is there."""
    return present(root / (card.path or card.name))


def open_folder(card: FolderCard, path: Path) -> ImageSource:
    """Open a folder: list the images of each class and check the header of each.

    Gray is Rec. 601 luma, as Pillow computes it. Images are ordered by class, then by path.

    Raises
    ------
    DatasetError
        When a class has no image, an image lies in two classes or out of the data root, cannot be
        read, has more than 8 bits a channel, or another size than the others while the card gives
        none; when there are images of a format that the card does not name.
    """
    splits = SPLITS if "{split}" in card.pattern else ("train",)
    files: dict[str, tuple[Path, ...]] = {}
    labels = {}
    for split in splits:
        groups = [_find(card, path, split, name) for name in card.classes]
        files[split] = tuple(file for group in groups for file in group)
        labels[split] = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    _check_disjoint(card, path, files, labels)
    sides = {file: header(file, card) for group in files.values() for file in group}
    shape = _shape(card, path, sides) + ((3,) if card.channels == 3 else ())
    check_extent(shape, str(path))
    names = [str(file) for group in files.values() for file in group]
    return ImageSource(
        card,
        shape,
        np.concatenate(list(labels.values())),
        np.concatenate([split_codes(split, len(part)) for split, part in labels.items()]),
        InFiles(partial(decode_one, card), names, np.arange(len(names)), np.zeros(len(names), int)),
        _facts(card, list(sides.values())),
    )


def decode_one(card: FolderCard, file: Path, frames: Rows) -> ImageArray:
    """Return the image of a file, which holds one, (1, *shape)."""
    return decode(file, card)[np.newaxis]


def _shape(card: FolderCard, path: Path, sides: dict[Path, tuple[int, int]]) -> tuple[int, int]:
    """Return the height and width of all images as they will be read."""
    if card.size:
        return card.size, card.size
    shapes = {side: file for file, side in sides.items()}
    if len(shapes) > 1:
        (one, first), (two, second) = list(shapes.items())[:2]
        raise ImageError(
            f"{path}: images must have one size, found {one} in {first.name} and {two} in "
            f"{second.name}; give size in the card to fit and resize them"
        )
    return next(iter(shapes))


def _facts(card: FolderCard, sides: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Say what part of the images is not used."""
    if not card.size or card.fit != "crop":
        return ()
    kept = sum(min(side) ** 2 for side in sides) / sum(high * wide for high, wide in sides)
    if kept == 1:
        return ()
    return (
        f"Images are cropped to their central square, which keeps {kept:.0%} of their pixels; "
        'fit = "pad" or "stretch" in the card keeps all.',
    )


def _find(card: FolderCard, path: Path, split: str, name: str) -> list[Path]:
    """Return the images of one class and split, ordered by path, links followed."""
    _check_listed(card, path, split, name)
    pattern = card.pattern.replace("{class}", glob.escape(name)).replace("{split}", split)
    found = sorted(file for file in path.glob(pattern) if not file.name.startswith("."))
    suffixes = tuple(end for kind in card.formats for end in FORMATS[kind])
    images = [file for file in found if file.name.lower().endswith(suffixes)]
    others = (file for file in found if not file.name.lower().endswith(suffixes))
    if passed := sum(_may_be_images(file, "**" in card.pattern) for file in others):
        raise DatasetError(
            f"{path}: class '{name}' has {passed} image(s) of a format that the card does not "
            f"name (it names {', '.join(card.formats)}), or files without a suffix, or folders; "
            f"add it to formats, one of {', '.join(FORMATS)}, or convert or rename them, "
            "or leave them out by a narrower pattern"
        )
    depth = len(Path(card.path or card.name).parts)
    root = (path.parents[depth - 1] if depth else path).resolve()
    return [_followed(file, root) for file in images]


def _may_be_images(file: Path, descends: bool) -> bool:
    """Return whether a file that is not read would be missed.

    Without a suffix are DICOM files, often named by a number; a folder may hold images, which a
    pattern that descends finds by itself.
    """
    if os.path.isdir(file):  # noqa: PTH112 (Path.is_dir raises on a loop of links)
        return not descends
    known = (*OTHERS, *(end for ends in FORMATS.values() for end in ends))
    return file.name.lower().endswith(known) or not any(map(str.isalpha, file.suffix))


def _check_listed(card: FolderCard, path: Path, split: str, name: str) -> None:
    """Raise unless all folders in which images of a class may lie can be listed; glob is silent."""
    folders = Path(card.pattern).parts[:-1]
    plain = list(itertools.takewhile(lambda part: not glob.has_magic(part), folders))
    start = path.joinpath(*(p.replace("{class}", name).replace("{split}", split) for p in plain))
    for _ in os.walk(start, onerror=_refuse_unlisted):
        if plain == list(folders):
            break


def _refuse_unlisted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise ImageError(
            f"{error.filename} cannot be listed ({error.strerror}); make it readable, or leave it "
            "out by a narrower pattern"
        ) from error


def _followed(file: Path, root: Path) -> Path:
    """Return the file that a link leads to, in the data root."""
    real = Path(os.path.realpath(file))  # Path.resolve raises on a loop
    if not real.is_relative_to(root):
        raise ImageError(
            f"{file} is a link that leads out of the data root; put the image there itself"
        )
    return real


def _check_disjoint(
    card: FolderCard, path: Path, files: dict[str, tuple[Path, ...]], labels: dict[str, LabelArray]
) -> None:
    """Raise unless every class has an image and every image one class."""
    counts = sum(np.bincount(part, minlength=len(card.classes)) for part in labels.values())
    for name, count in zip(card.classes, np.atleast_1d(counts), strict=True):
        if count == 0:
            raise MismatchError(
                f"{path}: class '{name}' has no {either(card)} image at "
                f"'{card.pattern}'; correct classes, pattern, formats or path in the card"
            )
    seen = [file for group in files.values() for file in group]
    if len(set(seen)) < len(seen):
        twice = next(file for file in seen if seen.count(file) > 1)
        raise DatasetError(
            f"{twice} lies in two classes or splits, or a link repeats it; make '{card.pattern}' "
            "tell them apart"
        )
