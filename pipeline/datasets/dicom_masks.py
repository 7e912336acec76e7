"""Masks of DICOM images: segmentation objects (DICOM SEG), found by the images that they name.

A region must have the size of its image and lie where that lies. Next on the path:
`dicom_regions`, which reads one segmentation.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.datasets.classed import Classed, root_of
from pipeline.datasets.decoding import fitted
from pipeline.datasets.dicom_files import FAULTY, Seen, readable
from pipeline.datasets.dicom_planes import FLOOR, UNIT, Mark
from pipeline.datasets.dicom_regions import Regions, read_regions, union
from pipeline.datasets.dicom_volumes import Found as Images
from pipeline.datasets.excluded import excluded, is_left_out
from pipeline.datasets.listing import find_files
from pipeline.datasets.patterns import fill
from pipeline.datasets.reading import InFiles, Reader, Rows
from pipeline.datasets.sifting import Sift, tell
from pipeline.datasets.stacks import InStacks
from pipeline.errors import ImageError

if TYPE_CHECKING:
    from pipeline.datasets.dicom import DicomCard

NEAR = 0.05
"""By how much, in pixels, a region may lie beside its image: positions are rounded."""
SCALED = 0.01
"""By how much the sides of their pixels may differ, a share of them: they are rounded too."""
NOTHING, WRONG = -1, -2
"""In place of a frame: a slice of a volume that no region is in, and an image that has none."""


class Found(NamedTuple):
    """The segmentations of a dataset: files, what they say, and for each image which they are."""

    names: list[str]
    regions: list[Regions]
    of: dict[tuple[str, int], list[tuple[int, int]]]


def find_regions(card: "DicomCard", path: Path, sift: Sift | None) -> Found:
    """Return the segmentations at the card's `masks`; other files there are passed by.

    Raises
    ------
    ImageError
        When there is none, or one cannot be read (told to `sift` instead if there is one).
    """
    assert card.masks is not None
    skip, found = excluded(card.exclude, path), Found([], [], {})
    for one in find_files(path, fill(card.masks, {}), root_of(card, path), sift):
        if one.folder or is_left_out(skip, one.relative, one.path, path):
            continue
        try:
            if one.fault is not None:
                raise one.fault
            regions = read_regions(Path(one.path), card.segments)
        except ImageError as error:
            tell(sift, one.path, error)
            continue
        if regions is not None:
            for place, mark in enumerate(regions.marks):
                found.of.setdefault((mark.uid, mark.frame), []).append((len(found.names), place))
            found.names.append(one.path)
            found.regions.append(regions)
    if not found.names:
        raise ImageError(
            f"{path}: no segmentation (DICOM SEG) is at '{card.masks}'; correct masks in the card"
        )
    return found


def inside_alone(found: Found, kept: list[int], seen: list[Seen]) -> tuple[list[int], list[Seen]]:
    """Return the files with those of their frames that have a pixel inside a region."""
    some: set[tuple[str, int]] = set()
    for name, regions in zip(found.names, found.regions, strict=True):
        with readable(Path(name)) as stream:
            for mark, frames in zip(regions.marks, regions.frames, strict=True):
                if union(stream, regions, frames).any():
                    some.add((mark.uid, mark.frame))
    files, left = [], []
    for index, one in zip(kept, seen, strict=True):
        places = [i for i, mark in enumerate(one.marks) if (mark.uid, mark.frame) in some]
        if one.frames[0] == FAULTY:
            places = [0]
        if places:
            files.append(index)
            marks = tuple(one.marks[i] for i in places if one.marks)
            left.append(one._replace(frames=[one.frames[i] for i in places], marks=marks))
    return files, left


def regions_of(
    card: "DicomCard",
    files: Classed,
    kept: list[int],
    seen: list[Seen],
    images: Images,
    found: Found,
) -> Reader:
    """Return the reader of the masks of some images, or of volumes; its rows are theirs.

    An image that has none, or one that does not fit, is refused when it is its turn.
    """
    read = images.read
    slices = read if isinstance(read, InFiles) else read.slices
    known = {
        (index, frame): (one, mark)
        for index, one in zip(kept, seen, strict=True)
        for frame, mark in zip(one.frames, one.marks, strict=False)
    }
    names, faults = list(found.names), dict[str, str]()
    file, place = np.zeros(len(slices.file), np.int64), np.full(len(slices.file), NOTHING)

    def refuse(rows: slice, index: int, reason: str) -> None:
        name = files.names[index]
        faults[name] = f"{name}{reason}"
        names.append(name)
        file[rows], place[rows] = len(names) - 1, WRONG

    for row, image in enumerate(zip(slices.file.tolist(), slices.frame.tolist(), strict=True)):
        if image not in known:  # it is at fault itself
            continue
        one, mark = known[image]
        there = found.of.get((mark.uid, mark.frame), [])
        if reason := _misfit(card, found, there, one.sides, mark):
            refuse(slice(row, row + 1), image[0], reason)
        elif there:
            file[row], place[row] = there[0]
    high, wide = (images.shape[1:] if card.volumes else images.shape)[:2]
    decode = partial(_decode, card, (high, wide), faults)
    if isinstance(read, InFiles):
        return InFiles(decode, names, file, place, shared=True)
    for start, stop in zip(read.starts[:-1].tolist(), read.starts[1:].tolist(), strict=True):
        span = slice(start, stop)
        drawn = np.flatnonzero(place[span] != NOTHING)
        if len(drawn):
            file[span][place[span] == NOTHING] = file[start + drawn[0]]
        elif (int(slices.file[start]), int(slices.frame[start])) in known:
            refuse(span, int(slices.file[start]), _NONE.format(card.masks))
    return InStacks(InFiles(decode, names, file, place), read.starts, _not_empty)


_NONE = ": no segmentation at '{}' is of it; bring it, or leave the image out with exclude"
_EMPTY = (
    "a mask must have a pixel inside in every image that is read; give "
    'frames = "masked" in the card, or leave the image out with exclude'
)


def _misfit(
    card: "DicomCard",
    found: Found,
    there: list[tuple[int, int]],
    sides: tuple[int, int],
    mark: Mark,
) -> str:
    """Return what is wrong with the region of an image, "" if nothing is."""
    if len(there) > 1:
        both = " and ".join(Path(found.names[file]).name for file, _ in there[:2])
        return f" is in several segmentations, {both}; leave some out, by masks or with exclude"
    if not there:
        return "" if card.volumes else _NONE.format(card.masks)
    file, place = there[0]
    regions, name = found.regions[file], Path(found.names[file]).name
    if regions.sides != sides:
        return f": a mask must have its image's size, {sides}, found {regions.sides} in {name}"
    other = regions.marks[place]
    if mark.spacing and other.spacing and abs(other.spacing / mark.spacing - 1.0) > SCALED:
        return (
            f": a mask must have its image's PixelSpacing, {mark.spacing:g} mm, found "
            f"{other.spacing:g} in {name}; draw it anew, or leave the image out with exclude"
        )
    if mark.plane and other.plane:
        slack = max(FLOOR, NEAR * mark.spacing)
        apart = np.abs(np.subtract(mark.plane, other.plane))
        if not (apart[:3].max() <= slack and apart[3:].max() <= UNIT):
            return (
                f": a mask must lie where its image does, found another place or direction in "
                f"{name}; draw it on the image, or leave the image out with exclude"
            )
    return ""


def _decode(
    card: "DicomCard", sides: tuple[int, int], faults: dict[str, str], file: Path, places: Rows
) -> ImageArray:
    """Return some masks of a segmentation, (m, *sides), of 0 and 1.

    They are made to fit as the images are, each pixel from its nearest.
    """
    from PIL import Image

    if str(file) in faults:
        raise ImageError(faults[str(file)])
    wanted, where = np.unique(places, return_inverse=True)
    regions = read_regions(file, card.segments)
    if (
        regions is None
        or wanted.max() >= len(regions.marks)
        or (not card.size and regions.sides != sides)
    ):
        raise ImageError(f"{file} has changed since it was listed; read the images again")
    with readable(file) as stream:
        found = [
            union(stream, regions, () if place == NOTHING else regions.frames[place])
            for place in wanted.tolist()
        ]
    if card.size:
        fit = partial(fitted, size=card.size, fit=card.fit, smooth=False)
        found = [np.asarray(fit(Image.fromarray(mask))) for mask in found]
    if not card.volumes and not all(mask.any() for mask in found):
        raise ImageError(f"{file}: {_EMPTY}")
    return np.stack(found)[where]


def _not_empty(slices: NDArray[Any]) -> ImageArray:
    if not slices.any():
        raise ImageError(
            "the mask of a series must have a voxel inside, found none; leave the series out with "
            "exclude"
        )
    return slices
