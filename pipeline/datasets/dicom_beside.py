"""Masks of DICOM images in files beside them: a picture for each image, or NIfTI for many.

A picture has the pixels of its image, row by row. NIfTI says where its voxels lie, and so does
DICOM where its pixels do: that alone decides which slice of a file is the mask of which image, and
which way round it is. Next on the path: `nifti_planes`, which reads them.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.datasets.classed import Classed
from pipeline.datasets.decoding import FORMATS, MASKS, read_mask
from pipeline.datasets.dicom_files import Seen
from pipeline.datasets.dicom_masks import Drawn, Place
from pipeline.datasets.dicom_planes import Mark
from pipeline.datasets.listing import Paths
from pipeline.datasets.nifti_file import Volume, read_affines, read_volume
from pipeline.datasets.nifti_planes import read_planes
from pipeline.errors import ImageError

NIFTI = (".nii", ".nii.gz")
PICTURES = tuple(end for kind in MASKS for end in FORMATS[kind])
NEAR = 0.05
"""By how much, in voxels, a mask may lie beside its image, at its corners: headers are rounded."""
ALONG = 0.2
"""The same from slice to slice, where positions are rounded most; the nearest is still plain."""
_FLIP = np.diag([-1.0, -1.0, 1.0])
"""From DICOM, where x runs to a patient's left and y to the back, to NIfTI: right and front."""
_WAY = "draw it on the image, or leave the image out with exclude"


class _Pose(NamedTuple):
    """Where the voxels of a file lie: its header, and what leads from mm back to i, j, k."""

    volume: Volume
    inverse: NDArray[np.float64]


def fits(mask: Path, sides: tuple[int, int], mark: Mark) -> bool:
    """Return whether a file is a mask of an image of some height and width, known by its mark."""
    try:
        if not of_slices(mask.name):
            return read_mask(mask, sides).shape == sides
        return not isinstance(_placed(_pose(mask), sides, mark), str)
    except ImageError:
        return False


Poses: TypeAlias = dict[str, tuple[int, _Pose | str]]
"""For a file the first image that it is the mask of, and where it lies or why it cannot be used."""


def drawn_beside(files: Classed) -> Drawn:
    """Return the masks that lie beside some images: pictures and NIfTI, by the ends of their names.

    One that cannot be read is at fault where its images are, when it is their turn.
    """
    assert files.masks is not None
    poses: Poses = {}
    return Drawn(
        files.masks,
        partial(_find, files.masks, poses),
        partial(_whole, files.masks, poses),
        _read,
        ": it has no mask; bring it, or leave the image out with exclude",
    )


def of_slices(mask: str) -> bool:
    """Return whether a file is one of masks that lie in space, which several images may share."""
    return mask.lower().endswith(NIFTI)


def _find(masks: Paths, poses: Poses, index: int, one: Seen, frame: int) -> Place | str | None:
    """Return where the mask of an image is, or what is wrong with it; see `Drawn`."""
    mask = masks[index]
    if mask.lower().endswith(PICTURES):
        if len(one.frames) > 1:
            return (
                f": a picture is the mask of one image, found {len(one.frames)} frames; give NIfTI "
                "or a segmentation, or name one frame in the card"
            )
        return index, one.sides[0] << 16 | one.sides[1]
    if not of_slices(mask):
        return (
            f": a mask must be a picture ({', '.join(MASKS)}) or NIfTI, found {Path(mask).name}; "
            'segmentations need kind = "dicom", where masks says where they lie'
        )
    if mask not in poses:
        try:
            poses[mask] = index, _pose(Path(mask))
        except ImageError as error:
            poses[mask] = index, f": {error}"
    first, pose = poses[mask]
    found = pose if isinstance(pose, str) else _placed(pose, one.sides, one.marks[frame])
    return found if isinstance(found, str) else (first, found)


def _whole(masks: Paths, poses: Poses, file: int, places: Sequence[int]) -> str:
    """Return what is wrong with the masks of a volume; a picture is that of one slice."""
    name = masks[file]
    _, pose = poses.get(name, (file, ""))
    if isinstance(pose, str):
        return ""
    count, found = len({*places}), pose.volume.shape[_along(places[0])]
    if count == found == len(places):
        return ""
    return (
        f": a mask must have its series' size, {len(places)} slices, found {found} in "
        f"{Path(name).name}; {_WAY}"
    )


def _pose(file: Path) -> _Pose:
    """Return where the voxels of a file lie.

    Raises
    ------
    ImageError
        When its header does not say it, says it twice and not alike, or lets them lie in a plane.
    """
    volume, affines = read_volume(file), read_affines(file)
    if not affines:
        raise ImageError(
            f"{file}: a mask of DICOM must say where it lies (sform or qform), found neither; save "
            "it with the affine of its image, or as pictures"
        )
    try:
        inverse = np.linalg.inv(np.vstack([np.reshape(volume.affine, (3, 4)), [0, 0, 0, 1]]))
    except np.linalg.LinAlgError:
        inverse = np.full((4, 4), np.nan)
    if not np.isfinite(inverse).all():
        raise ImageError(f"{file}: its affine (sform, qform) has no inverse; save it anew")
    last = np.subtract(volume.shape, 1)
    corners = np.array([[*(last * bits), 1] for bits in np.ndindex(2, 2, 2)]).T
    with np.errstate(over="ignore", invalid="ignore"):
        apart = max(np.abs((inverse @ affine @ corners - corners)[:3]).max() for affine in affines)
    if not apart <= NEAR:
        raise ImageError(
            f"{file}: sform and qform must say the same, found voxels {apart:.2f} apart; save it "
            "with the affine of its image"
        )
    return _Pose(volume, inverse)


def _placed(pose: _Pose, sides: tuple[int, int], mark: Mark) -> int | str:
    """Return which slice of a file is the mask of an image, and how it is turned; or what is wrong.

    With S the voxel of the first pixel, and d, a the steps to the pixels below and beside it, all
    in voxels, pixel (r, c) lies at S + r·d + c·a. Where d and a are ±1 along two axes and 0 along
    the others, up to `NEAR` at the corners, and S is the first or last voxel of these axes, pixels
    are voxels, turned and mirrored as the signs say.
    """
    name = pose.volume.file.name
    if not mark.plane or not mark.sides:
        return (
            ": a mask in NIfTI needs ImagePositionPatient (0020,0032), ImageOrientationPatient "
            "(0020,0037) and PixelSpacing (0028,0030) in its image, to know which way round it "
            "lies; give a picture as mask, or leave the image out with exclude"
        )
    position, across, down = np.reshape(mark.plane, (3, 3))
    with np.errstate(over="ignore", invalid="ignore"):
        turn = pose.inverse[:3, :3] @ _FLIP
        start = turn @ position + pose.inverse[:3, 3]
        steps = turn @ np.stack([down * mark.sides[0], across * mark.sides[1]], axis=1)
    axes = np.abs(steps).argmax(axis=0)
    if axes[0] == axes[1] or not (np.isfinite(start).all() and np.isfinite(steps).all()):
        return f": a mask must lie as its image does, found another direction in {name}; {_WAY}"
    found = tuple(pose.volume.shape[axis] for axis in axes)
    if found != sides:
        return f": a mask must have its image's size, {sides}, found {found} in {name}; {_WAY}"
    signs = np.sign(steps[axes, [0, 1]])
    along = 3 - int(axes.sum())
    number = int(np.clip(np.rint(start[along]), -1, pose.volume.shape[along]))
    wanted_start, wanted_steps = np.zeros(3), np.zeros((3, 2))
    wanted_start[axes] = np.where(signs > 0, 0, np.subtract(sides, 1))
    wanted_start[along], wanted_steps[axes, [0, 1]] = number, signs
    corners = np.array([[0, 0], [sides[0] - 1, 0], [0, sides[1] - 1], np.subtract(sides, 1)]).T
    apart = np.abs((start - wanted_start)[:, np.newaxis] + (steps - wanted_steps) @ corners)
    aside = apart[axes].max()
    if not (aside <= NEAR and apart[along].max() <= ALONG):
        return (
            f": a mask must lie where its image does, found its voxels {aside:.2f} pixels beside "
            f"and {apart[along].max():.2f} slices off in {name}; {_WAY}"
        )
    if not 0 <= number < pose.volume.shape[along]:
        return (
            f": a mask must have a slice where its image lies, found {name} with "
            f"{pose.volume.shape[along]} slices that end before; {_WAY}"
        )
    turned = int(axes[0]) << 4 | int(axes[1]) << 2 | int(signs[0] < 0) << 1 | int(signs[1] < 0)
    return number << 6 | turned


def _along(place: int) -> int:
    """Return the axis across which a slice is cut, by its place: that of no row or column."""
    return 3 - (place >> 4 & 3) - (place >> 2 & 3)


def _read(file: Path, places: Sequence[int]) -> list[ImageArray]:
    """Return some masks of a file; see `Drawn`."""
    if not of_slices(file.name):
        return [read_mask(file, divmod(place, 1 << 16)) for place in places]
    found = dict[int, ImageArray]()
    for turned in {place & 63 for place in places}:
        mine = [place for place in places if place & 63 == turned]
        lying = (turned >> 4) > (turned >> 2 & 3)  # rows run along the later of the two axes
        up, back = 1 - (turned & 2), 1 - 2 * (turned & 1)
        planes = read_planes(file, _along(turned), [place >> 6 for place in mine])
        for place, plane in zip(mine, planes, strict=True):
            found[place] = np.ascontiguousarray((plane.T if lying else plane)[::up, ::back])
    return [found[place] for place in places]
