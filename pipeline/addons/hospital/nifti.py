"""NIfTI files, one class a folder or as the card's pattern says: whole volumes, or their slices.

Axes are those of the file, i, j and k, as nibabel's arrays have them; nothing is turned to where a
patient's left is. A volume is (i, j, k), a slice across an axis has the other two, in this order.
First comes one file: its header, checked against what the file can hold, and planes of its values.
Masks are held packed while their images are read a few at a time.
"""

import gzip
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator as check

from covdp.addons.hospital.frames import chosen_frames, each_spending
from covdp.arrays import ImageArray
from covdp.datasets.cards import ASK_ANY_WINDOW, ASK_WINDOW, Axis, Frames, LocalFilesCard
from covdp.datasets.classed import ClassedFiles, PatternCard, in_folder, make_source, require_alike
from covdp.datasets.kind import DatasetKind
from covdp.datasets.listing import Faults, no_usable_file, open_regular, wrap_errors
from covdp.datasets.pictures import (
    Scaling,
    Window,
    digest_images,
    made_to_fit,
    masks_made_to_fit,
    to_uint8,
)
from covdp.datasets.source import (
    IMAGE_BYTES,
    LARGEST_VOLUME,
    FilesReader,
    ImageSource,
    Rows,
    changed,
    file_state,
)
from covdp.errors import ImageError, MissingError, image_error, require_extra

require_extra("nibabel", fault=MissingError)

GZIP_RATIO = 1100
"""Bytes that one byte of a gzip file can unpack to, at most (1032, and its header)."""

_GZIP = b"\x1f\x8b"
"""Bytes at the start of an archive."""

_HEADS = [size.to_bytes(4, order) for size in (348, 540) for order in ("little", "big")]
"""Bytes at the start of a header, which is that long."""

_LABELS = (1002, 1003)
"""Intents of values that are numbers of labels or of anatomical names."""

MASKED_WAY = 'give frames = "masked" in the card'
"""The way out where some slices have nothing inside their mask."""

VOXEL_TOLERANCE = 0.05
"""Distance of a mask from its image, in voxels or pixels, that is accepted at corners: headers are
rounded."""

BYTES_ACROSS = 1 << 28
"""Bytes of slices across i or j that are put together at a time, each time reading all planes."""

UNPACKED_BYTES = 1 << 20
"""Bytes that are unpacked at a time where only their sum is checked."""


@dataclass(frozen=True)
class Volume:
    """Header of a NIfTI file.

    Attributes
    ----------
    file : Path
        The file.
    shape : tuple of int
        Voxels along i, j and k.
    dtype : numpy.dtype
        Type of a stored value.
    offset : int
        Bytes before the first.
    slope, intercept : float
        Map from stored values to those that are meant.
    shown : (low, high) or None
        The window of the file (cal_min, cal_max), where it has one.
    affine : array of float, shape (12,)
        Map from i, j, k to mm, row by row.
    labels : bool
        True if the header states that values are labels, not intensities.
    """

    file: Path
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    offset: int
    slope: float
    intercept: float
    shown: tuple[float, float] | None
    affine: tuple[float, ...]
    labels: bool = False


def read_volume(file: Path) -> Volume:
    """Return the header of a file.

    Parameters
    ----------
    file : Path
        Path of the file.

    Raises
    ------
    ImageError
        When it is no NIfTI in one file, has no three axes, values that are no numbers, or claims
        more than the file can hold.
    """
    with _opened(file) as stream:
        return _volume(stream, file)


def each_slice(volume: Volume, axis: int, wanted: Sequence[int]) -> Iterator[NDArray[Any]]:
    """Yield slices across an axis one by one as they are stored, the other two axes in order.

    Planes of i and j are one after another, so that one is held at a time; of slices across the
    other axes some, of `BYTES_ACROSS` bytes.

    Parameters
    ----------
    volume : Volume
        Volume, not unpacked.
    axis : int
        Axis across which slices are cut, 0 to 2.
    wanted : sequence of int
        Indices of the slices, ascending.
    """
    if axis == 2:
        yield from each_plane(volume, wanted)
        return
    _check_slice(volume.file, volume.shape, axis, volume.dtype.itemsize)
    sides = volume.shape[1 - axis], volume.shape[2]
    some = max(1, BYTES_ACROSS // (math.prod(sides) * volume.dtype.itemsize))
    for start in range(0, len(wanted), some):
        few = list(wanted[start : start + some])
        slices = np.empty((len(few), *sides), volume.dtype)
        for k, plane in enumerate(each_plane(volume)):
            slices[:, :, k] = plane[few] if axis == 0 else plane[:, few].T
        yield from slices


def each_plane(volume: Volume, wanted: Sequence[int] | None = None) -> Iterator[NDArray[Any]]:
    """Yield the planes of i and j one by one, as they are stored; some of them, if `wanted`.

    A compressed file is read to its end, for its sum.

    Parameters
    ----------
    volume : Volume
        Volume, not unpacked.
    wanted : sequence of int, optional
        Indices of the planes, ascending; all when left out.
    """
    from nibabel.fileslice import fileslice

    with _opened(volume.file) as stream:
        if _volume(stream, volume.file) != volume:
            raise changed(volume.file)
        for k in range(volume.shape[2]) if wanted is None else wanted:
            plane = (slice(None), slice(None), k)
            stored = (volume.shape, volume.dtype, volume.offset, "F")
            yield fileslice(stream, plane, *stored)  # type: ignore[no-untyped-call]
        if isinstance(stream, gzip.GzipFile):
            end = volume.offset + math.prod(volume.shape) * volume.dtype.itemsize
            while stream.read(UNPACKED_BYTES):
                if stream.tell() > end + UNPACKED_BYTES:
                    raise image_error(
                        f"{volume.file} is not a readable NIfTI file (it unpacks to more than its "
                        "header says); bring it again, write it anew"
                    )


def _inside(volume: Volume, stored: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a mask is not 0, of some of its values as they are stored.

    Raises
    ------
    ImageError
        When there are values that are no numbers.
    """
    values = stored * np.float64(volume.slope) + volume.intercept
    if not np.isfinite(values).all():
        raise image_error(
            f"{volume.file}: a mask must have numbers, found NaN or infinity; draw it anew"
        )
    mask: NDArray[np.bool_] = values != 0
    return mask


def _check_mask(file: Path, image: Volume) -> None:
    """Raise unless a mask has the voxels of its image, where these are."""
    mask = read_volume(file)
    if mask.shape != image.shape:
        raise image_error(
            f"{file}: a mask must have its image's size, {image.shape}, found {mask.shape}; "
            "draw it anew"
        )
    affine = np.reshape(image.affine, (3, 4))
    with np.errstate(invalid="ignore"):
        moved = (np.reshape(mask.affine, (3, 4)) - affine) @ corners_of(image.shape)
    apart, sides = np.linalg.norm(moved, axis=0).max(), np.linalg.norm(affine[:, :3], axis=0)
    if not apart <= VOXEL_TOLERANCE * sides.min():
        raise image_error(
            f"{file}: a mask must be where its image is, found another affine (sform, qform), a "
            f"corner {apart:.4g} mm off; draw it anew"
        )


def corners_of(shape: Sequence[int]) -> NDArray[np.int64]:
    """Return the corners of an image of d sides, in voxels, each with a 1 below: (d + 1, 2^d).

    Parameters
    ----------
    shape : sequence of int
        Sides of the image, in voxels.
    """
    last = np.subtract(shape, 1)
    return np.array([[*(last * bits), 1] for bits in np.ndindex(*[2] * len(last))]).T


def read_affines(file: Path) -> list[NDArray[np.float64]]:
    """Return the affines in a header (sform, qform), (4, 4) each; they may differ.

    From i, j, k to mm to the right, to the front and up. None where it says nothing: then a file
    has an affine all the same, which is made up.

    Parameters
    ----------
    file : Path
        Path of the file.
    """
    with _opened(file) as stream:
        header = _read_header(stream)
        affines = header.get_sform(coded=True)[0], header.get_qform(coded=True)[0]
    return [affine for affine in affines if affine is not None]


def _read_header(stream: BinaryIO) -> Any:
    """Return a header, unchecked, without extensions."""
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    start = stream.read(4)
    stream.seek(0)
    kind: Any = Nifti2Header if start in _HEADS[2:] else Nifti1Header
    size = kind.template_dtype.itemsize
    if len(content := stream.read(size)) < size:
        raise EOFError(f"a header has {size} bytes, found {len(content)}")
    return kind(content, check=False)


def _volume(stream: BinaryIO, file: Path) -> Volume:
    from nibabel.nifti1 import data_type_codes

    header = _read_header(stream)
    magic = bytes(header["magic"])
    if not magic.startswith(b"n+"):
        other = "a pair of files" if magic.startswith(b"ni") else "Analyze or another format"
        raise image_error(
            f"{file} must be NIfTI in one file, found {other}; convert it to .nii or .nii.gz"
        )
    if not 1 <= (axes := int(header["dim"][0])) <= 7:
        raise image_error(f"{file}: axes (dim[0]) must be 1 to 7, found {axes}; write it anew")
    code, shape = int(header["datatype"]), _shape(header.get_data_shape(), file)
    dtype = header.get_data_dtype() if code in data_type_codes.label else np.dtype(np.void)
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        name = data_type_codes.label.get(code, "unknown")
        raise image_error(
            f"{file}: values (datatype) must be whole or floating numbers of up to 64 bits, found "
            f"{name} ({code}); convert colour and complex values to one gray value"
        )
    offset = _offset(header, file)
    _check_size(stream, file, shape, dtype.itemsize, offset)
    if math.isinf(header["scl_slope"]):
        raise image_error(f"{file}: scl_slope must be a number, found infinity; repair the header")
    slope, intercept = header.get_slope_inter()
    low, high = float(header["cal_min"]), float(header["cal_max"])
    return Volume(
        file,
        shape,
        dtype,
        offset,
        1.0 if slope is None else float(slope),
        0.0 if intercept is None else float(intercept),
        (low, high) if -math.inf < low < high < math.inf else None,
        tuple(header.get_best_affine()[:3].ravel().tolist()),
        int(header["intent_code"]) in _LABELS,
    )


def _shape(shape: tuple[int, ...], file: Path) -> tuple[int, int, int]:
    """Return the three sides of a volume; further axes of length 1 are dropped."""
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    axes, way = "three axes", "save each volume of a series in a file of its own"
    if len(shape) < 3:
        way = "save a flat image with a third axis of length 1, or as TIFF"
    elif len(shape) == 3:
        axes, way = "axes of 1 or more", "write it anew"
    if len(shape) != 3 or min(shape) < 1:
        raise image_error(f"{file}: a volume must have {axes} (dim), found {shape}; {way}")
    return shape


def _offset(header: Any, file: Path) -> int:
    """Return where voxels begin: behind the header, and the four bytes that follow it."""
    offset, least = float(header["vox_offset"]), header.template_dtype.itemsize + 4
    if not (offset >= least and offset.is_integer()):
        raise image_error(
            f"{file}: voxels must begin at byte {least} or later (vox_offset), found {offset:g}; "
            "write it anew, as nibabel does"
        )
    return int(offset)


def _check_size(
    stream: BinaryIO, file: Path, shape: tuple[int, ...], width: int, offset: int
) -> None:
    """Raise when a header claims more than the file can hold, or planes that no memory has."""
    size = file.stat().st_size
    most = size * GZIP_RATIO if isinstance(stream, gzip.GzipFile) else size
    needed = offset + math.prod(shape) * width
    if needed > most:
        raise image_error(
            f"{file}: its header claims {shape} voxels, {needed:,} bytes, more than a file of "
            f"{size:,} bytes can hold; bring it whole"
        )
    _check_slice(file, shape, 2, width)


def _check_slice(file: Path, shape: tuple[int, ...], axis: int, width: int) -> None:
    """Raise when a slice across an axis, of values of `width` bytes, is larger than any image."""
    sides = shape[:axis] + shape[axis + 1 :]
    if math.prod(sides) * width > IMAGE_BYTES:
        raise image_error(
            f"{file}: a slice must have up to {IMAGE_BYTES:,} bytes, found {sides} voxels of "
            f"{width} byte(s); cut the volume to pieces"
        )


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """Open a file, unpacked; whatever a damaged one raises becomes one `ImageError`."""
    with wrap_errors(file, "NIfTI file", "bring it whole"), open_regular(file) as plain:
        start, named = plain.read(4), file.name.lower().endswith(".gz")
        packed = start.startswith(_GZIP)
        plain.seek(0)
        if packed != named and (packed or start in _HEADS):
            found, end = ("an", ".nii.gz") if packed else ("no", ".nii")
            raise image_error(
                f"{file} must be NIfTI in one file, found {found} archive of gzip; name it {end}"
            )
        if not named:
            yield plain
            return
        with gzip.GzipFile(fileobj=plain) as stream:
            yield cast(BinaryIO, stream)


CACHED_MASKS = 8
"""Masks that are cached, a bit a voxel: to read one slice all of a file is unpacked."""


def read_planes(file: Path, axis: int, wanted: Iterable[int]) -> Iterator[ImageArray]:
    """Yield slices of a mask across an axis, the other two in order: 1 inside, 0 elsewhere.

    It is unpacked once, however many others are read meanwhile.

    Parameters
    ----------
    file : Path
        Path of the file.
    axis : int
        Axis across which slices are cut, 0 to 2.
    wanted : iterable of int
        Indices of the slices, ascending.

    Raises
    ------
    ImageError
        When it cannot be read, has no such slice or values that are no numbers.
    """
    sides, bits = _packed_mask(file, file_state(file))
    for place in wanted:
        if place >= sides[axis]:
            raise changed(file)
        if axis == 2:
            yield np.unpackbits(bits[place], -1, sides[1])
        elif axis == 0:
            yield np.unpackbits(bits[:, place], -1, sides[1]).T
        else:
            yield np.unpackbits(bits[..., [place // 8]], -1)[..., place % 8].T


@lru_cache(maxsize=CACHED_MASKS)
def _packed_mask(file: Path, stamp: bytes) -> tuple[tuple[int, ...], ImageArray]:
    """Return the sides of a mask, and its bits, (k, i, j / 8); another `stamp` is another file."""
    volume = read_volume(file)
    if math.prod(volume.shape) > 8 * LARGEST_VOLUME:
        raise image_error(
            f"{file}: a mask must have up to {8 * LARGEST_VOLUME:,} voxels, found {volume.shape}; "
            "cut it to pieces, as its image"
        )
    planes = [np.packbits(_inside(volume, plane), -1) for plane in each_plane(volume)]
    return volume.shape, np.stack(planes)


class NiftiCard(PatternCard):
    """A card of kind ``nifti``.

    Where the pattern names no ``{person}``, all of a file is of one person. The mask of a file is
    one of the same voxels.

    Attributes
    ----------
    axis : {0, 1, 2}
        Across which axis slices are cut.
    frames : {"all", "middle", "masked"} or tuple of int
        Slices that are read; "masked" are those with a voxel inside the mask.
    """

    volumetric: ClassVar[bool] = True
    stored_as: ClassVar[str] = "NIfTI files of your own"
    ends: ClassVar[Mapping[Any, tuple[str, ...]]] = {"NIfTI": (".nii", ".nii.gz")}

    axis: Axis | None = None
    frames: Frames = "all"

    @property
    def decoding(self) -> str:
        """Digest of public values, windowed and made to fit: voxels are stored as they are."""
        return digest_images(())

    @check(mode="after")
    def _nifti_keys_fit(self) -> Self:
        check_cuts(self, self.axis)
        return self


def check_cuts(card: LocalFilesCard, axis: int | None) -> None:
    """Raise `ValueError` unless a card of NIfTI says whether slices are read or volumes.

    Parameters
    ----------
    card : LocalFilesCard
        Card of the dataset.
    axis : int or None
        Axis across which slices are cut; None where the card does not say.
    """
    if card.volumes == (axis is not None):
        raise ValueError(
            "NIfTI needs either axis = 0, 1 or 2, across which slices are cut, or volumes = true"
        )
    if card.channels != 1:
        raise ValueError(f"NIfTI has 1 channel here, found channels = {card.channels}")


def open_nifti(card: NiftiCard, files: ClassedFiles, path: Path, faults: Faults) -> ImageSource:
    """Open NIfTI files: read the header of each.

    Images are ordered by class, path and slice. A file that is not as the card says, cannot be
    read, or claims more than it can hold, is refused when it is its turn to be read, as is one
    whose size is not that of the first, where the card gives none.

    Parameters
    ----------
    card : NiftiCard
        Card of the dataset.
    files : ClassedFiles
        Files by class.
    path : Path
        Folder of the images.
    faults : Faults
        Faults found so far, to which others are added.

    Returns
    -------
    ImageSource
        Opened dataset.

    Raises
    ------
    DatasetError
        When no file can be used, as the first says.
    """
    frames, first = _look_at_all(card, files, faults)
    sides = (card.size, card.size) if card.size else _sides(card, first)
    if card.slices:
        sides = (*sides[:2], card.slices[1])
    file = np.repeat(np.arange(len(frames)), [len(some) for some in frames])
    frame = np.array([index for some in frames for index in some], np.int64)
    read = FilesReader(
        partial(_decode, card, first), files.names, file, frame, alone=bool(card.slices)
    )
    masks = None
    if files.masks is not None:
        decode = partial(_decode_mask, card)
        masks = replace(read, decode=decode, names=files.masks, beside=files.names)
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
            mask = None if files.masks is None else Path(files.masks[index])
            frames.append(_frames(card, volume, mask))
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


def _frames(card: NiftiCard, volume: Volume, mask: Path | None = None) -> Sequence[int]:
    """Return the slices that are read of a volume, which a mask may choose; of a whole one 0."""
    check_intensities(volume)
    if card.axis is None:
        return range(1)
    count = volume.shape[card.axis]
    if card.frames != "masked" or mask is None:
        return chosen_frames(card.frames, count, str(volume.file))
    regions = _masks(card, mask, volume, range(count))
    slices = tuple(index for index, region in enumerate(regions) if region.any())
    return slices or (0,)  # of an empty mask, for which it is refused


def check_intensities(volume: Volume) -> None:
    """Raise where a file has labels, not intensities.

    Parameters
    ----------
    volume : Volume
        Volume, not unpacked.
    """
    if volume.labels:
        raise image_error(
            f"{volume.file} is no image but a map of labels (intent_code); name masks by the key "
            "masks"
        )


def _check_alike(card: NiftiCard, first: Volume, volume: Volume) -> None:
    """Raise unless the images of a file have the size of the first's, where the card gives none."""
    card.check_depth(volume.shape[2], str(volume.file))
    sides, wanted, across = _sides(card, volume), _sides(card, first), 2 if card.slices else None
    if not card.size and sides[:across] != wanted[:across]:
        way = "save volumes of one size"
        way += ", or give slices = [fewest, most] in the card" * (sides[:2] == wanted[:2])
        require_alike(volume.file, "size", sides, wanted, str(first.file), way * card.volumes)


def _decode(card: NiftiCard, first: Volume, file: Path, frames: Rows) -> ImageArray:
    """Return some images of a file as 0..255, (m, *sides)."""
    volume = read_volume(file)
    _check_alike(card, first, volume)
    if not set(frames.tolist()) <= set(_frames(card, volume)):
        raise changed(file)
    if card.axis is None:
        planes = each_spending(each_plane(volume), "NIfTI")
        return _shown(card, volume, np.stack([*planes], axis=-1))[np.newaxis]
    slices = each_spending(each_slice(volume, card.axis, frames.tolist()), "NIfTI")
    return np.stack([_shown(card, volume, values) for values in slices])


def _decode_mask(card: NiftiCard, file: Path, frames: Rows, image: Path) -> ImageArray:
    """Return the masks of some images of a file, (m, *sides), of 0 and 1, made to fit as they."""
    drawn = _masks(card, file, read_volume(image), frames.tolist())
    way = "draw one" if card.volumes or card.frames == "masked" else MASKED_WAY
    return masks_made_to_fit(drawn, card, file, way)


def _masks(
    card: NiftiCard, file: Path, image: Volume, wanted: Sequence[int]
) -> Iterator[ImageArray]:
    """Return some masks of a file as it has them, 1 where they are not 0.

    An `ImageError` when the mask has other voxels than its image, or values that are no numbers.
    """
    _check_mask(file, image)
    if card.axis is not None:
        return read_planes(file, card.axis, wanted)
    return iter([np.stack([*read_planes(file, 2, range(image.shape[2]))], axis=-1)])


def _shown(card: NiftiCard, volume: Volume, stored: ImageArray) -> ImageArray:
    """Return one image as 0..255, made to fit where the card has a size."""
    window: Window = volume.shown if card.window == "header" else card.window
    if card.window == "header" and window is None:
        raise image_error(
            f'{volume.file} has no window (cal_min, cal_max), which window = "header" asks; '
            f"{ASK_WINDOW}"
        )
    scale = Scaling(window, volume.slope, volume.intercept)
    where = f"{volume.file} (datatype)"
    return made_to_fit(to_uint8(stored, scale, where=where, ask=ASK_ANY_WINDOW), card)


NIFTI_KIND = DatasetKind(NiftiCard, in_folder(open_nifti))
"""Kind of dataset of NIfTI files in folders."""
