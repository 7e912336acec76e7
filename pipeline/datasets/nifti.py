"""NIfTI files, one class a folder or as the card's pattern says: whole volumes, or their slices.

Axes are i, j, k, as the file has them: a volume is (i, j, k), a slice across an axis has the other
two, in this order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator as check

from pipeline.arrays import ImageArray
from pipeline.datasets.cards import Frames, LocalFilesCard, chosen_frames
from pipeline.datasets.classed import ClassedFiles, PatternCard, make_source, sort_files
from pipeline.datasets.intensities import Window, to_uint8
from pipeline.datasets.listing import Faults, no_usable_file
from pipeline.datasets.nifti_format import (
    Volume,
    each_plane,
    each_slice,
    inside,
    read_mask_of,
    read_volume,
)
from pipeline.datasets.pictures import fitted, fitted_mask
from pipeline.datasets.readers import FilesReader, Rows
from pipeline.datasets.source import ImageSource
from pipeline.errors import DatasetError, ImageError


class NiftiCard(PatternCard):
    """What a card of kind ``nifti`` says.

    Where the pattern names no ``{person}``, all of a file is of one person. The mask of a file is
    one of the same voxels.

    Attributes
    ----------
    axis : {0, 1, 2}
        Across which axis slices are cut.
    frames : "all", "middle", "masked" or indices
        Which slices are read; "masked" are those with a voxel inside the mask.
    """

    volumetric: ClassVar[bool] = True
    stored_as: ClassVar[str] = "NIfTI files"

    axis: Literal[0, 1, 2] | None = None
    frames: Frames = "all"

    @check(mode="after")
    def _nifti_keys_fit(self) -> Self:
        check_cuts(self, self.axis)
        return self


def check_cuts(card: LocalFilesCard, axis: int | None) -> None:
    """Raise `ValueError` unless a card of NIfTI says whether slices are read or volumes."""
    if card.volumes == (axis is not None):
        raise ValueError(
            "NIfTI needs either axis = 0, 1 or 2, across which slices are cut, or volumes = true"
        )
    if card.channels != 1:
        raise ValueError(f"NIfTI has 1 channel here, found channels = {card.channels}")


def open_nifti(card: NiftiCard, path: Path, faults: Faults) -> ImageSource:
    """Open a folder of NIfTI files: list them and read the header of each.

    Images are ordered by class, path and slice. A file that is not as the card says, cannot be
    read, or claims more than it can hold, is refused when it is its turn to be read, as is one
    whose size is not that of the first, where the card gives none.

    Raises
    ------
    DatasetError
        When a class has no file, or no file can be used, as the first says.
    """
    files = sort_files(card, path, (".nii", ".nii.gz"), ("NIfTI",), faults)
    return open_nifti_files(card, files, path, faults)


def open_nifti_files(
    card: NiftiCard, files: ClassedFiles, path: Path, faults: Faults
) -> ImageSource:
    """Open some files, as `open_nifti`."""
    if card.frames == "masked" and files.masks is None:
        raise DatasetError(f'{card.name}: frames = "masked" needs masks, found none; name them')
    frames, first = _look_at_all(card, files, faults)
    sides = (card.size, card.size) if card.size else _sides(card, first)
    if card.slices:
        sides = (*sides[:2], card.slices[1])
    file = np.repeat(np.arange(len(frames)), [len(some) for some in frames])
    frame = np.array([index for some in frames for index in some], np.int64)
    alone = bool(card.slices)
    masks = None
    if files.masks is not None:
        decode = partial(_decode_mask, card)
        masks = FilesReader(decode, files.masks, file, frame, files.names, alone=alone)
    read = FilesReader(partial(_decode, card, first), files.names, file, frame, alone=alone)
    if files.people is None:
        files = replace(files, people=np.array(list(files.names), np.str_))
    return make_source(card, files, path, sides, read, file, masks)


def _look_at_all(
    card: NiftiCard, files: ClassedFiles, faults: Faults
) -> tuple[list[Sequence[int]], Volume]:
    """Return which slices are read of each file, and the first that can be used; raise if none."""
    frames: list[Sequence[int]] = []
    good: list[Volume] = []
    errors: dict[str, ImageError] = {}
    for index, name in enumerate(files.names):
        try:
            volume = read_volume(Path(name))
            mask = files.masks and Path(files.masks[index])
            frames.append(_masked(card, volume, mask) if mask else _frames(card, volume))
            good = good or [volume]
        except ImageError as error:
            frames.append((0,))  # asked for it, the file says why
            errors[name] = error
    if not good:
        raise no_usable_file(errors, faults)
    return frames, good[0]


def _sides(card: NiftiCard, volume: Volume) -> tuple[int, ...]:
    """Return the shape of an image as the file has it."""
    return tuple(length for axis, length in enumerate(volume.shape) if axis != card.axis)


def _frames(card: NiftiCard, volume: Volume) -> range | tuple[int, ...]:
    """Return the slices that are read of a volume; of a whole one there is one."""
    if card.axis is None:
        return range(1)
    frames = "all" if card.frames == "masked" else card.frames
    return chosen_frames(frames, volume.shape[card.axis], str(volume.file))


def _masked(card: NiftiCard, volume: Volume, mask: Path) -> Sequence[int]:
    """Return the same where there is a mask, which may choose them."""
    if card.frames != "masked" or card.axis is None:
        return _frames(card, volume)
    regions = _inside(card, mask, volume, range(volume.shape[card.axis]))
    slices = tuple(index for index, region in enumerate(regions) if region.any())
    if not slices:
        raise _nothing_inside(card, mask)
    return slices


def _check_alike(card: NiftiCard, first: Volume, volume: Volume) -> None:
    """Raise unless the images of a file have the size of the first's, where the card gives none."""
    across = 2 if card.slices else None
    card.check_depth(volume.shape[2], str(volume.file))
    if card.size or _sides(card, volume)[:across] == _sides(card, first)[:across]:
        return
    way = (
        "save volumes of one size; slices = [fewest, most] in the card lets the last axis differ"
        if card.volumes
        else "give size in the card to fit and resize them"
    )
    raise ImageError(
        f"{volume.file}: images must have one size, found {_sides(card, first)} in "
        f"{first.file.name} and {_sides(card, volume)} in {volume.file.name}; {way}"
    )


def _decode(card: NiftiCard, first: Volume, file: Path, frames: Rows) -> ImageArray:
    """Return some images of a file as 0..255, (m, *sides)."""
    volume = read_volume(file)
    _check_alike(card, first, volume)
    if not set(frames.tolist()) <= set(_frames(card, volume)):
        raise ImageError(f"{file} has changed since it was listed; read the images again")
    wanted, place = np.unique(frames, return_inverse=True)
    stored = _stored(card, volume, wanted.tolist())
    return np.stack([_shown(card, volume, values) for values in stored])[place]


def _stored(card: NiftiCard, volume: Volume, wanted: Sequence[int]) -> Iterator[NDArray[Any]]:
    """Yield some slices of a file one by one, or the whole volume, as they are stored."""
    if card.axis is None:
        return iter([np.stack([*each_plane(volume)], axis=-1)])
    return each_slice(volume, card.axis, wanted)


def _decode_mask(card: NiftiCard, file: Path, frames: Rows, image: Path) -> ImageArray:
    """Return the masks of some images of a file, (m, *sides), of 0 and 1, made to fit as they."""
    wanted, place = np.unique(frames, return_inverse=True)
    volume = read_volume(image)
    if not set(wanted.tolist()) <= set(_masked(card, volume, file)):
        raise ImageError(f"{file} has changed since it was listed; read the images again")
    each = _inside(card, file, volume, wanted.tolist())
    masks = np.stack([fitted_mask(region, card) for region in each])
    if not masks.any(axis=tuple(range(1, masks.ndim))).all():
        raise _nothing_inside(card, file)
    return masks[place]


def _inside(
    card: NiftiCard, file: Path, image: Volume, wanted: Sequence[int]
) -> Iterator[ImageArray]:
    """Yield some masks of a file one by one as it has them, 1 where they are not 0.

    An `ImageError` when the mask has other voxels than its image, or values that are no numbers.
    """
    mask = read_mask_of(file, image)
    for stored in _stored(card, mask, wanted):
        yield inside(mask, stored).astype(np.uint8)


def _nothing_inside(card: NiftiCard, mask: Path) -> ImageError:
    way = "" if card.volumes else 'give frames = "masked" in the card, or '
    return ImageError(
        f"{mask}: a mask must have a voxel inside, one that is not 0, in every image that is read; "
        f"{way}leave the image out with exclude"
    )


def _shown(card: NiftiCard, volume: Volume, stored: ImageArray) -> ImageArray:
    """Return one image as 0..255, made to fit where the card has a size."""
    from PIL import Image

    pixels = to_uint8(
        stored,
        slope=volume.slope,
        intercept=volume.intercept,
        window=_window(card, volume),
        where=f"{volume.file} (datatype)",
    )
    if not card.size:
        return pixels
    return np.asarray(fitted(Image.fromarray(np.ascontiguousarray(pixels)), card.size, card.fit))


def _window(card: NiftiCard, volume: Volume) -> Window:
    """Return the window of a file: the card's, or what cal_min and cal_max say."""
    if card.window != "header":
        return card.window
    if volume.shown is None:
        raise ImageError(
            f'{volume.file} has no window (cal_min, cal_max), which window = "header" asks; give '
            'window = [low, high] or "image" in the card'
        )
    return volume.shown
