"""Masks of DICOM images: which of them is whose, and their reader.

They are segmentation objects, which say themselves of which images they are (`dicom_named`), or
pictures and NIfTI files beside the images (`dicom_beside`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.datasets.classed import Classed
from pipeline.datasets.decoding import fitted_mask
from pipeline.datasets.dicom_files import FAULTY, Seen
from pipeline.datasets.dicom_volumes import Found as Images
from pipeline.datasets.listing import Paths, joined, packed
from pipeline.datasets.reading import InFiles, Reader, Rows
from pipeline.datasets.stacks import InStacks
from pipeline.errors import ImageError

if TYPE_CHECKING:
    from pipeline.datasets.dicom import DicomCard

NOTHING, WRONG = -1, -2
"""In place of a mask: a slice of a volume that no region is in, and an image that has none."""
Place: TypeAlias = tuple[int, int]
"""Where a mask is: in which file of masks, and where in it."""


class Drawn(NamedTuple):
    """The masks of a dataset.

    Attributes
    ----------
    names : Paths
        The files that they are in.
    find : callable
        ``find(index, one, frame)``: where the mask of an image is, by the index of its file, what
        its header says, and which of its frames it is. None where there is none; where there is one
        that does not fit, what is wrong with it.
    whole : callable
        ``whole(file, places)``: what is wrong with a file of masks when all slices of a volume have
        theirs in it, at these places; "" if nothing is.
    read : callable
        ``read(file, places)``: some masks as they were drawn, each (h, w) of 0 and 1. It runs in
        threads, or elsewhere.
    where : str
        What is said of an image that has no mask.
    """

    names: Paths
    find: Callable[[int, Seen, int], Place | str | None]
    whole: Callable[[int, Sequence[int]], str]
    read: Callable[[Path, Sequence[int]], list[ImageArray]]
    where: str


def inside_alone(drawn: Drawn, kept: list[int], seen: list[Seen]) -> tuple[list[int], list[Seen]]:
    """Return the files with those of their frames that have a pixel inside a region.

    An image whose mask is at fault stays, and is refused when it is its turn.
    """
    files, left = [], []
    for index, one in zip(kept, seen, strict=True):
        places = [frame for frame in range(len(one.frames)) if _has_some(drawn, index, one, frame)]
        if places:
            files.append(index)
            marks = tuple(one.marks[frame] for frame in places if one.marks)
            left.append(one._replace(frames=[one.frames[i] for i in places], marks=marks))
    return files, left


def _has_some(drawn: Drawn, index: int, one: Seen, frame: int) -> bool:
    """Return whether an image has a pixel inside its mask, or is at fault."""
    if one.frames[0] == FAULTY:
        return True
    found = drawn.find(index, one, frame)
    if found is None or isinstance(found, str):
        return found is not None
    try:
        (mask,) = drawn.read(Path(drawn.names[found[0]]), [found[1]])
    except ImageError:
        return True
    return bool(mask.any())


def regions_of(
    card: "DicomCard",
    files: Classed,
    kept: list[int],
    seen: list[Seen],
    images: Images,
    drawn: Drawn,
) -> Reader:
    """Return the reader of the masks of some images, or of volumes; its rows are theirs.

    An image that has none, or one that does not fit, is refused when it is its turn.
    """
    read = images.read
    slices = read if isinstance(read, InFiles) else read.slices
    known = {
        (index, number): (one, frame)
        for index, one in zip(kept, seen, strict=True)
        for frame, number in enumerate(one.frames)
        if number != FAULTY
    }
    each = _Each(
        files, drawn, np.zeros(len(slices.file), np.int64), np.full(len(slices.file), NOTHING)
    )
    for row, image in enumerate(zip(slices.file.tolist(), slices.frame.tolist(), strict=True)):
        if image not in known:  # it is at fault itself
            continue
        found = drawn.find(image[0], *known[image])
        if found is None and not card.volumes:
            found = drawn.where
        if isinstance(found, str):
            each.refuse(slice(row, row + 1), image[0], found)
        elif found:
            each.file[row], each.place[row] = found
    for start, stop in [] if isinstance(read, InFiles) else _spans(read):
        first = int(slices.file[start])
        if (first, int(slices.frame[start])) in known:
            each.join(slice(start, stop), first)
    high, wide = (images.shape[1:] if card.volumes else images.shape)[:2]
    decode = partial(_decode, card, (high, wide), each.faults, drawn.read)
    names = joined([drawn.names, packed(each.refused)])
    masks = InFiles(decode, names, each.file, each.place, shared=True)
    if isinstance(read, InFiles):
        return masks
    return InStacks(masks, read.starts, _not_empty)


@dataclass(eq=False)
class _Each:
    """For each row the file of its mask, and where in it; for those refused why, by their images.

    Files are numbered as in `Drawn`, after them come the images that are refused.
    """

    files: Classed
    drawn: Drawn
    file: NDArray[np.int64]
    place: NDArray[np.int64]
    faults: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def refuse(self, rows: slice, index: int, reason: str) -> None:
        """Give some rows nothing but the reason."""
        name = self.files.names[index]
        self.faults[name] = f"{name}{reason}"
        self.file[rows], self.place[rows] = len(self.drawn.names) + len(self.refused), WRONG
        self.refused.append(name)

    def join(self, rows: slice, index: int) -> None:
        """Let the slices of a volume be one: what has nothing lies in a file of the others."""
        file, place = self.file[rows], self.place[rows]
        some = np.flatnonzero(place != NOTHING)
        if not len(some):
            self.refuse(rows, index, self.drawn.where)
            return
        file[place == NOTHING] = file[some[0]]
        if (file == file[0]).all() and place[0] != WRONG:
            reason = self.drawn.whole(int(file[0]), place.tolist())
            self.refuse(rows, index, reason) if reason else None


def _spans(read: InStacks) -> list[tuple[int, int]]:
    """Return where the slices of each volume begin and end."""
    return list(zip(read.starts[:-1].tolist(), read.starts[1:].tolist(), strict=True))


_EMPTY = (
    "a mask must have a pixel inside in every image that is read; give "
    'frames = "masked" in the card, or leave the image out with exclude'
)


def _decode(
    card: "DicomCard",
    sides: tuple[int, int],
    faults: dict[str, str],
    read: Callable[[Path, Sequence[int]], list[ImageArray]],
    file: Path,
    places: Rows,
) -> ImageArray:
    """Return some masks of a file, (m, *sides), of 0 and 1, made to fit as the images are."""
    if str(file) in faults:
        raise ImageError(faults[str(file)])
    wanted, where = np.unique(places, return_inverse=True)
    there = wanted[wanted != NOTHING]
    found = read(file, there.tolist())
    if len(there) < len(wanted):  # it is the first, as the smallest
        found = [np.zeros(sides, np.uint8), *found]
    if not card.size and any(mask.shape != sides for mask in found):
        raise changed(file)
    found = [fitted_mask(mask, card) for mask in found]
    if not card.volumes and not all(mask.any() for mask in found):
        raise ImageError(f"{file}: {_EMPTY}")
    return np.stack(found)[where]


def changed(file: Path) -> ImageError:
    """Return what is said of a file that is not what it was when it was listed."""
    return ImageError(f"{file} has changed since it was listed; read the images again")


def _not_empty(slices: NDArray[Any]) -> ImageArray:
    if not slices.any():
        raise ImageError(
            "the mask of a series must have a voxel inside, found none; leave the series out with "
            "exclude"
        )
    return slices
