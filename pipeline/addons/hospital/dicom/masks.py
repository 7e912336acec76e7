"""Masks of DICOM images: segmentation objects (DICOM SEG), pictures, or NIfTI.

Segmentations say themselves of which images they are: each frame is bits, of one segment and one
image (DerivationImageSequence), must have the size of its image and be where that is. A picture
is beside its image and has its pixels, row by row. NIfTI says where its voxels are, and so does
DICOM where its pixels do: that alone decides which slice of a file is the mask of which image, and
which way round it is.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.addons.hospital.dicom.card import (
    FAULTY,
    PICTURE_ENDS,
    DicomCard,
    HeaderSummary,
    Segments,
    is_nifti,
)
from covdp.addons.hospital.dicom.header import (
    DIRECTION_ROUNDING,
    EXPLICIT,
    FLOOR,
    IMPLICIT,
    LABEL_MAP,
    SEGMENTATION,
    FrameId,
    Header,
    is_marked,
    items,
    numbers,
    places,
    read_frame_id,
    read_header,
    readable,
    stored,
    text,
)
from covdp.addons.hospital.dicom.pixels import check_size
from covdp.addons.hospital.nifti import (
    MASKED_WAY,
    VOXEL_TOLERANCE,
    Volume,
    corners_of,
    read_affines,
    read_planes,
    read_volume,
)
from covdp.arrays import ImageArray
from covdp.datasets import listing
from covdp.datasets.cards import MASKS
from covdp.datasets.classed import ClassedFiles, root_of
from covdp.datasets.pictures import masks_made_to_fit, read_mask
from covdp.datasets.source import FilesReader, Reader, Rows, StacksReader, changed, file_state
from covdp.errors import LEAVE_OUT, ImageError, image_error

NO_MASK = -1
"""Stand-in for a mask, of a slice of a volume that no region is in. Below it are images that have
no mask that fits, in their order."""

MaskAddress: TypeAlias = tuple[int, int]
"""Place of a mask: its file of masks, and its place there."""

Read: TypeAlias = Callable[[Path, int], ImageArray]
"""One mask of a file as it was drawn, (h, w) of 0 and 1. It runs in threads, or elsewhere."""

Find: TypeAlias = Callable[[HeaderSummary, FrameId | None], MaskAddress | str | None]
"""Place of the mask of an image, by what its header says and its identity; the fault of one that
does not fit; None where there is none."""

_WAY = f"draw it on the image, or {LEAVE_OUT}"


class MaskSource(NamedTuple):
    """The masks of a dataset.

    Attributes
    ----------
    names : listing.Paths
        The files that they are in.
    of : dict
        Place of the mask of each image that has one, or its fault; images are known by the number
        of their file and of their frame.
    read : callable
        See `Read`.
    where : str
        Statement about an image that has no mask.
    """

    names: listing.Paths
    of: dict[tuple[int, int], MaskAddress | str]
    read: Read
    where: str


def find_masks(
    card: DicomCard,
    files: ClassedFiles,
    path: Path,
    summaries: Sequence[HeaderSummary],
    faults: listing.Faults,
) -> MaskSource:
    """Return the masks of some images, which card or table name.

    They are in the segmentations at the card's `masks`, or beside the images: then one that cannot
    be read is at fault where its images are, when it is their turn.

    Parameters
    ----------
    card : DicomCard
        Card of the dataset.
    files : ClassedFiles
        Files by class.
    path : Path
        Folder of the images.
    summaries : sequence of HeaderSummary
        Summary of the header of each file.
    faults : listing.Faults
        Faults found so far, to which others are added.

    Raises
    ------
    ImageError
        When there is no segmentation. One that cannot be read goes to `faults`.
    """
    find: Find
    read: Read
    if card.objects:
        index = _index_segmentations(card, path, summaries, faults)
        names, find = listing.packed(index.names), index.find
        read = partial(_read_region, card.segments)
        none = f"no segmentation at '{card.masks}' is of it"
    else:
        names = files.masks or listing.packed(())
        find, read, none = partial(_find_sidecar, names, {}), _read_sidecar, "it has no mask"
    of = dict[tuple[int, int], MaskAddress | str]()
    for summary in (summary for summary in summaries if summary.usable):
        for number, frame_id in itertools.zip_longest(summary.frames, summary.frame_ids):
            if isinstance(found := find(summary, frame_id), str):
                found = f"{files.names[summary.file]}{found}"
            if found:
                of[summary.file, number] = found
    return MaskSource(names, of, read, f": {none}; bring it, or leave the image out with exclude")


def keep_masked(masks: MaskSource, summaries: Sequence[HeaderSummary]) -> list[HeaderSummary]:
    """Return the files with those of their frames that have a pixel inside a region.

    An image whose mask is at fault stays, and is refused when it is its turn.

    Parameters
    ----------
    masks : MaskSource
        Masks of the images.
    summaries : sequence of HeaderSummary
        Summary of the header of each file.
    """
    return [
        summary._replace(frames=[x for x in summary.frames if _has_some(masks, (summary.file, x))])
        for summary in summaries
    ]


def _has_some(masks: MaskSource, image: tuple[int, int]) -> bool:
    """Return whether an image has a pixel inside its mask, or is at fault."""
    address = masks.of.get(image)
    if not isinstance(address, tuple):
        return address is not None or image[1] == FAULTY
    try:
        return bool(masks.read(Path(masks.names[address[0]]), address[1]).any())
    except ImageError:
        return True


def mask_reader(
    card: DicomCard,
    files: ClassedFiles,
    shape: tuple[int, ...],
    read: FilesReader | StacksReader,
    masks: MaskSource,
) -> Reader:
    """Return the reader of the masks of some images, or of volumes; its rows are those of `read`.

    Images that have no mask, or one that does not fit, are refused when it is their turn.

    Parameters
    ----------
    card : DicomCard
        Card of the dataset.
    files : ClassedFiles
        Files by class.
    shape : tuple of int
        Shape of one image.
    read : FilesReader or StacksReader
        Reader of the images.
    masks : MaskSource
        Masks of the images.
    """
    slices = read.slices if isinstance(read, StacksReader) else read
    images = list(zip(slices.file.tolist(), slices.frame.tolist(), strict=True))
    file, place = np.zeros(len(images), np.int64), np.full(len(images), NO_MASK)
    reasons = dict[int, str]()
    starts = read.starts.tolist() if isinstance(read, StacksReader) else range(len(images) + 1)
    for low, high in itertools.pairwise(starts):
        number, frame = images[low]
        if frame == FAULTY:
            continue
        found = _joined(masks, files.names[number], [*map(masks.of.get, images[low:high])])
        if isinstance(found, str):
            place[low:high] = low - len(images) + NO_MASK
            reasons[int(place[low])] = found
        else:
            file[low:high], place[low:high] = np.transpose(found)
    high, wide = (shape[1:] if card.volumes else shape)[:2]
    decode = partial(_decode, card, (high, wide), reasons, masks.read)
    base = FilesReader(decode, masks.names, file, place, shared=True)
    return StacksReader(base, read.starts, _not_empty) if isinstance(read, StacksReader) else base


def _joined(
    masks: MaskSource, name: str, found: Sequence[MaskAddress | str | None]
) -> Sequence[MaskAddress] | str:
    """Return where the masks of an image, or of the slices of a volume, are; or what is wrong.

    The first of them is called `name`. A slice without a mask gets a file of the other slices. All
    slices of a volume in NIfTI are slices of one mask.
    """
    there = [address for address in found if isinstance(address, tuple)]
    wrong = [reason for reason in found if isinstance(reason, str)]
    if wrong or not there:
        return wrong[0] if wrong else f"{name}{masks.where}"
    file, place = there[0]
    addresses = [address if isinstance(address, tuple) else (file, NO_MASK) for address in found]
    one = len(found) > 1 and {file} == {file for file, _ in there}
    if one and is_nifti(masks.names[file]):
        mask = read_volume(Path(masks.names[file]))
        depth = mask.shape[_along(place)]
        if not len({*there}) == depth == len(found):
            return name + _unlike("series' size", f"{len(found)} slices", depth, mask.file)
    return addresses


def _unlike(what: str, wanted: object, value: object, file: str | Path) -> str:
    return f": a mask must have its {what}, {wanted}, found {value} in {Path(file).name}; {_WAY}"


def _decode(
    card: DicomCard,
    sides: tuple[int, int],
    reasons: dict[int, str],
    read: Read,
    file: Path,
    places: Rows,
) -> ImageArray:
    """Return some masks of a file, (m, *sides), of 0 and 1, made to fit as the images are."""
    if places[0] < NO_MASK:
        raise ImageError(reasons[int(places[0])])
    none = np.zeros(sides, np.uint8)
    masks = [none if place == NO_MASK else read(file, place) for place in places.tolist()]
    if not card.size and any(mask.shape != sides for mask in masks):
        raise changed(file)
    if card.volumes:  # some of its slices may be empty
        return np.stack(masks)
    return masks_made_to_fit(masks, card, file, MASKED_WAY)


def _not_empty(slices: NDArray[Any]) -> ImageArray:
    if not slices.any():
        raise image_error("the mask of a series must have a voxel inside, found none; draw one")
    return slices


_CLASS_HEAD = 1 << 12
"""Bytes of a file in which it says of what class it is."""

CACHED_SEGMENTATIONS = 16
"""Segmentations whose contents are cached: of thousands of frames it takes seconds to read,
and their images are read a few at a time."""


class Regions(NamedTuple):
    """Content of one segmentation.

    Attributes
    ----------
    header : Header
        Without elements, which may be many.
    frame_ids : tuple of FrameId
        The images, in the order in which they are first named.
    frames : tuple of tuple of int
        Frames of each in the segmentation, one a segment.
    """

    header: Header
    frame_ids: tuple[FrameId, ...]
    frames: tuple[tuple[int, ...], ...]


def is_segmentation(file: Path, classes: Sequence[str] = (SEGMENTATION,)) -> bool:
    """Return True if a file seems to be of some classes, by a look at its beginning.

    Parameters
    ----------
    file : Path
        Path of the file.
    classes : sequence of str
        UIDs of SOP classes.
    """
    with readable(file) as stream:
        beginning = stream.read(_CLASS_HEAD) if is_marked(stream) else b""
        return any(uid.encode() in beginning for uid in classes)


@lru_cache(maxsize=CACHED_SEGMENTATIONS)
def _read_regions(file: Path, stamp: bytes, segments: Segments | None) -> Regions | None:
    """Return what a file says if it is a segmentation; one with another `stamp` is another.

    Raises
    ------
    ImageError
        When it is one that cannot be read, or leaves open what is inside.
    """
    if not is_segmentation(file, (SEGMENTATION, LABEL_MAP)):
        return None
    with readable(file) as stream:
        header = read_header(stream, file)
        uid = text(header.elements, "SOPClassUID")
        if uid == LABEL_MAP:
            raise image_error(
                f"{file} is a label map, which is not read as a mask; write a binary segmentation "
                "(DICOM SEG)"
            )
        if uid != SEGMENTATION:
            return None
        _check_segmentation(header)
        wanted = _wanted(header, segments)
        frames: dict[tuple[str, int], list[int]] = {}
        frame_ids: list[FrameId] = []
        for frame in range(header.frames):
            if _segment(header, frame) not in wanted:
                continue
            uid, number = image = _image(header, frame)
            if image not in frames:
                frame_ids.append(read_frame_id(header, frame)._replace(uid=uid, frame=number))
            frames.setdefault(image, []).append(frame)
    few = replace(header, elements=type(header.elements)())
    return Regions(few, tuple(frame_ids), tuple(map(tuple, frames.values())))


def _check_segmentation(header: Header) -> None:
    """Raise unless the frames of a segmentation can be read."""
    kind = text(header.elements, "SegmentationType")
    if kind != "BINARY" or (header.allocated, header.samples) != (1, 1):
        raise header.fault(
            "SegmentationType", f"must be BINARY, of 1 bit a pixel, found {kind!r}", "write it so"
        )
    if header.syntax not in (IMPLICIT, EXPLICIT):
        raise image_error(
            f"{header.file}: a segmentation must not be compressed; write it uncompressed, in "
            "little endian"
        )
    check_size(header)


def _wanted(header: Header, segments: Segments | None) -> frozenset[int]:
    """Return the numbers of the segments that are inside, of those that are there."""
    each = items(header.elements, "SegmentSequence")
    there = frozenset(_small_number(segment, "SegmentNumber") for segment in each)
    if segments == "all" or (segments is None and len(there) == 1):
        return there
    if segments is None:
        raise header.fault(
            "SegmentSequence",
            f"has {len(there)} segments",
            'say which are inside, as segments = [1], or segments = "all", in the card',
        )
    if missing := sorted(set(segments) - there):
        raise header.fault(
            "SegmentSequence",
            f"has no segment {missing[0]}, found {', '.join(map(str, sorted(there)))}",
            "name others in segments in the card",
        )
    return frozenset(segments)


def _segment(header: Header, frame: int) -> int:
    """Return which segment a frame is of."""
    for place in places(header, frame, "SegmentIdentificationSequence"):
        if (number := _small_number(place, "ReferencedSegmentNumber")) > 0:
            return number
    raise header.fault("ReferencedSegmentNumber", f"is missing in frame {frame}")


def _image(header: Header, frame: int) -> tuple[str, int]:
    """Return which image a frame was drawn on: its SOPInstanceUID, and which frame of it."""
    for place in places(header, frame, "DerivationImageSequence"):
        named = [
            (uid, int(number) - 1)
            for source in items(place, "SourceImageSequence")
            if (uid := text(source, "ReferencedSOPInstanceUID"))
            for number in numbers(source, "ReferencedFrameNumber") or [1.0]
        ]
        if len(set(named)) > 1:
            raise header.fault(
                "SourceImageSequence",
                f"names {len(set(named))} images for frame {frame}",
                "write a frame for each image",
            )
        if named:
            return named[0]
    raise header.fault(
        "DerivationImageSequence",
        f"does not say which image frame {frame} was drawn on",
        "write it so",
    )


def _small_number(elements: Any, keyword: str) -> int:
    """Return a small whole number; 0 where it is missing."""
    value = stored(elements, keyword)
    return int.from_bytes(value[:2], "little") if isinstance(value, bytes) else int(value or 0)


SPACING_TOLERANCE = 0.01
"""Tolerance of the sides of their pixels, a share of them: they are rounded too."""


class SegmentationIndex(NamedTuple):
    """The segmentations of a dataset: their files, and for each image where its regions are.

    And how often images are known by the same: more than once, none is known.

    Attributes
    ----------
    names : list of str
        Paths of the segmentations.
    of : dict of (str, int) to list of (MaskAddress, Regions)
        Places of the regions of each image.
    known : Counter
        Number of images of one identity: of more than one, none is known.
    """

    names: list[str]
    of: dict[tuple[str, int], list[tuple[MaskAddress, Regions]]]
    known: Counter[tuple[str, int]]

    def find(self, summary: HeaderSummary, frame_id: FrameId | None) -> MaskAddress | str | None:
        """Return the place of the region of an image, or its fault; see `Find`.

        Parameters
        ----------
        summary : HeaderSummary
            Summary of the image's header.
        frame_id : FrameId or None
            Identity and place of the frame.
        """
        assert frame_id is not None
        image = frame_id.uid, frame_id.frame
        there = self.of.get(image, [])
        if len(there) > 1:
            both = " and ".join(regions.header.file.name for _, regions in there[:2])
            return f" is in several segmentations, {both}; leave some out, by masks or with exclude"
        if not there:
            return None
        if self.known[image] > 1:
            return (
                ": another image has its SOPInstanceUID (0008,0018) too, so which one was drawn on "
                "is not known; give each its own, or leave one out with exclude"
            )
        ((address, regions),) = there
        return _misfit(summary.sides, frame_id, regions, regions.frame_ids[address[1]]) or address


def _misfit(
    sides: tuple[int, int], image: FrameId, regions: Regions, region: FrameId
) -> str | None:
    """Return what is wrong with a region, which must have the pixels of its image."""
    header = regions.header
    if sides != (header.rows, header.columns):
        return _unlike("image's size", sides, (header.rows, header.columns), header.file)
    side, other = min(image.spacing, default=0.0), min(region.spacing, default=0.0)
    if side and other and abs(other / side - 1.0) > SPACING_TOLERANCE:
        return _unlike("image's PixelSpacing", f"{side:g} mm", f"{other:g}", header.file)
    if not all((image.position, image.direction, region.position, region.direction)):
        return None
    slack = max(FLOOR, VOXEL_TOLERANCE * side)
    apart = np.abs(np.subtract(image.position, region.position)).max()
    turned = np.abs(np.subtract(image.direction, region.direction)).max()
    if apart <= slack and turned <= DIRECTION_ROUNDING:
        return None
    return (
        ": a mask must be where its image is, found another place or direction in "
        f"{header.file.name}; {_WAY}"
    )


def _index_segmentations(
    card: DicomCard, path: Path, summaries: Sequence[HeaderSummary], faults: listing.Faults
) -> SegmentationIndex:
    """Return what is at the card's `masks`; files there that are no segmentations are skipped."""
    assert card.masks is not None
    counts = Counter(
        (frame_id.uid, frame_id.frame) for summary in summaries for frame_id in summary.frame_ids
    )
    skip, index = (
        listing.read_exclusions(card.exclude, card.folder, path),
        SegmentationIndex([], {}, counts),
    )
    pattern, root, before = listing.fill(card.masks, {}), root_of(card, path), len(faults)
    for entry in listing.find_files(path, pattern, root, faults):
        if entry.folder or listing.is_excluded(skip, entry.relative, entry.path, path):
            continue
        try:
            if entry.fault is not None:
                raise entry.fault
            regions = _read_regions(Path(entry.path), file_state(entry.path), card.segments)
        except ImageError as error:
            faults.append(listing.Fault(entry.path, error))
            continue
        if regions is not None:
            for place, frame_id in enumerate(regions.frame_ids):
                address = len(index.names), place
                there = index.of.setdefault((frame_id.uid, frame_id.frame), [])
                there.append((address, regions))
            index.names.append(entry.path)
    if not index.names and len(faults) > before:
        raise faults[before].error
    if not index.names:
        raise ImageError(
            f"{path}: no segmentation (DICOM SEG) is at '{card.masks}'; correct masks in the card"
        )
    return index


def _read_region(segments: Segments | None, file: Path, place: int) -> ImageArray:
    """Return a mask of a segmentation, the union of its frames; see `Read`.

    Frames are bit after bit; pydicom 3.0 reads a byte too few of one that does not begin with one.
    """
    regions = _read_regions(file, file_state(file), segments)
    if regions is None or place >= len(regions.frame_ids):
        raise changed(file)
    header = regions.header
    mask = np.zeros(header.frame_bits, np.uint8)
    with readable(file) as stream:
        for frame in regions.frames[place]:
            start, skip = divmod(frame * len(mask), 8)
            stream.seek(header.pixels.start + start)
            content = np.frombuffer(stream.read(math.ceil((skip + len(mask)) / 8)), np.uint8)
            mask |= np.unpackbits(content, bitorder="little")[skip:][: len(mask)]
    return mask.reshape(header.rows, header.columns)


SLICE_TOLERANCE = 0.2
"""Tolerance in slices by which a mask may be off its image, from slice to slice, where positions
are rounded most; the nearest is still plain."""

_FLIP = np.diag([-1.0, -1.0, 1.0])
"""Change of axes from DICOM, where x runs to a patient's left and y to the back, to NIfTI: right
and front."""


Pose: TypeAlias = tuple[Volume, NDArray[np.float64]]
"""Voxels of a file in space: its header, and the map from mm back to i, j, k, (4, 4)."""

Poses: TypeAlias = dict[str, tuple[int, Pose | str]]
"""First image that each file is the mask of, and the place of the mask or its fault."""


def _find_sidecar(
    masks: listing.Paths, poses: Poses, summary: HeaderSummary, frame_id: FrameId | None
) -> MaskAddress | str:
    """Return where the mask of an image is, or what is wrong with it; see `Find`."""
    index, mask = summary.file, masks[summary.file]
    if mask.lower().endswith(PICTURE_ENDS):
        if len(summary.frames) > 1:
            return (
                f": a picture is the mask of one image, found {len(summary.frames)} frames; give "
                "NIfTI or a segmentation, or name one frame in the card"
            )
        return index, summary.sides[0] << 16 | summary.sides[1]
    if not is_nifti(mask) or frame_id is None:
        return (
            f": a mask must be a picture ({', '.join(MASKS)}) or NIfTI, found {Path(mask).name}; "
            'segmentations need kind = "dicom", where masks says where they are'
        )
    if mask not in poses:
        try:
            poses[mask] = index, _pose(Path(mask))
        except ImageError as error:
            poses[mask] = index, f": {error}"
    first, pose = poses[mask]
    place = pose if isinstance(pose, str) else _placed(pose, summary.sides, frame_id)
    return place if isinstance(place, str) else (first, place)


def _pose(file: Path) -> Pose:
    """Return where the voxels of a file are.

    Raises
    ------
    ImageError
        When its header does not say it, says two different things, or puts all voxels in one plane.
    """
    volume, affines = read_volume(file), read_affines(file)
    if not affines:
        raise image_error(
            f"{file}: a mask of DICOM must say where it is (sform or qform), found neither; save "
            "it with the affine of its image, or as pictures"
        )
    try:
        inverse = np.linalg.inv(np.vstack([np.reshape(volume.affine, (3, 4)), [0, 0, 0, 1]]))
    except np.linalg.LinAlgError:
        inverse = np.full((4, 4), np.nan)
    if not np.isfinite(inverse).all():
        raise image_error(f"{file}: its affine (sform, qform) has no inverse; save it anew")
    corners = corners_of(volume.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        apart = max(np.abs((inverse @ affine @ corners - corners)[:3]).max() for affine in affines)
    if not apart <= VOXEL_TOLERANCE:
        raise image_error(
            f"{file}: sform and qform must say the same, found voxels {apart:.2f} apart; save it "
            "with the affine of its image"
        )
    return volume, inverse


def _placed(pose: Pose, sides: tuple[int, int], image: FrameId) -> int | str:
    """Return which slice of a file is the mask of an image, and how it is turned; or what is wrong.

    Pixel (r, c) of the image is at voxel A·(r, c, 1). Where the first two columns of A are ±1
    along two axes and 0 along the others, up to `VOXEL_TOLERANCE` at the corners, and the third is
    the first or last voxel of these axes, pixels are voxels, turned and mirrored as the signs say.
    """
    volume, inverse = pose
    if not (image.position and image.direction and image.spacing):
        return (
            ": a mask in NIfTI needs ImagePositionPatient (0020,0032), ImageOrientationPatient "
            "(0020,0037) and PixelSpacing (0028,0030) in its image, to know its orientation; "
            "give a picture as mask, or leave the image out with exclude"
        )
    across, down = np.reshape(image.direction, (2, 3))
    steps = np.array([down * image.spacing[0], across * image.spacing[1], image.position])
    last = np.subtract(sides, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        affine = inverse[:3] @ np.vstack([_FLIP @ steps.T, [0, 0, 1]])
    axes = np.abs(affine[:, :2]).argmax(axis=0)
    if axes[0] == axes[1] or not np.isfinite(affine).all():
        return (
            f": a mask must have its image's orientation, found another in {volume.file.name}; "
            f"{_WAY}"
        )
    mask_sides = tuple(volume.shape[axis] for axis in axes)
    if mask_sides != sides:
        return _unlike("image's size", sides, mask_sides, volume.file)
    signs, along = np.sign(affine[axes, [0, 1]]), 3 - int(axes.sum())
    number = int(np.clip(np.rint(affine[along, 2]), -1, volume.shape[along]))
    wanted = np.zeros((3, 3))
    wanted[axes, [0, 1]], wanted[axes, 2], wanted[along, 2] = signs, last * (signs <= 0), number
    apart = np.abs((affine - wanted) @ corners_of(sides)).max(axis=1)
    if not (apart[axes].max() <= VOXEL_TOLERANCE and apart[along] <= SLICE_TOLERANCE):
        return (
            f": a mask must be where its image is, found its voxels {apart[axes].max():.2f} pixels "
            f"beside and {apart[along]:.2f} slices off in {volume.file.name}; {_WAY}"
        )
    if not 0 <= number < volume.shape[along]:
        return (
            f": a mask must have a slice where its image has one, found {volume.file.name} with "
            f"{volume.shape[along]} slices that end before; {_WAY}"
        )
    turned = int(axes[0]) << 4 | int(axes[1]) << 2 | int(signs[0] < 0) << 1 | int(signs[1] < 0)
    return number << 6 | turned


def _along(place: int) -> int:
    """Return the axis across which a slice is cut, by its place: that of no row or column."""
    return 3 - (place >> 4 & 3) - (place >> 2 & 3)


def _read_sidecar(file: Path, place: int) -> ImageArray:
    """Return a mask of a file; see `Read`."""
    if not is_nifti(file.name):
        return read_mask(file, divmod(place, 1 << 16))
    (plane,) = read_planes(file, _along(place), [place >> 6])
    lying = (place >> 4 & 3) > (place >> 2 & 3)  # rows run along the later of the two axes
    up, back = 1 - (place & 2), 1 - 2 * (place & 1)
    return np.ascontiguousarray((plane.T if lying else plane)[::up, ::back])
