"""One NIfTI file: its header, checked against what the file can hold, and planes of its values.

Axes are those of the file, i, j and k, as nibabel's arrays have them; nothing is turned to where a
patient's left is. Masks of images in other files are kept packed while these are read a few at a
time.
"""

import gzip
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.datasets.listing import open_regular
from pipeline.datasets.readers import file_state
from pipeline.datasets.source import LARGEST, check_volume
from pipeline.errors import ImageError

RATIO = 1100
"""Bytes that one byte of a gzip file can unpack to, at most (1032, and its header)."""

VOXEL_TOLERANCE = 0.05
"""By how much, in voxels or pixels, a mask may lie beside its image, at its corners: headers are
rounded."""

BLOCK = 1 << 28
"""Bytes of slices across i or j that are put together at a time, each time reading all planes."""

PIECE = 1 << 20
"""Bytes that are unpacked at a time where only their sum is checked."""


@dataclass(frozen=True)
class Volume:
    """What the header of a NIfTI file says.

    Attributes
    ----------
    file : Path
        The file.
    shape : tuple of int
        Voxels along i, j and k.
    dtype : np.dtype
        Of a stored value.
    offset : int
        Bytes before the first.
    slope, intercept : float
        From stored values to those that are meant.
    shown : (low, high) or None
        The window of the file (cal_min, cal_max), where it has one.
    affine : (12,) floats
        Where voxels lie: from i, j, k to mm, row by row.
    """

    file: Path
    shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    offset: int
    slope: float
    intercept: float
    shown: tuple[float, float] | None
    affine: tuple[float, ...]


def read_volume(file: Path) -> Volume:
    """Return what the header of a file says.

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

    Planes of i and j lie one after another, so that one is held at a time; of slices across the
    other axes some, of `BLOCK` bytes.
    """
    if axis == 2:
        yield from each_plane(volume, wanted)
        return
    _check_slice(volume.file, volume.shape, axis, volume.dtype.itemsize)
    sides = volume.shape[1 - axis], volume.shape[2]
    some = max(1, BLOCK // (math.prod(sides) * volume.dtype.itemsize))
    for start in range(0, len(wanted), some):
        few = list(wanted[start : start + some])
        slices = np.empty((len(few), *sides), volume.dtype)
        for k, plane in enumerate(each_plane(volume)):
            slices[:, :, k] = plane[few] if axis == 0 else plane[:, few].T
        yield from slices


def each_plane(volume: Volume, wanted: Sequence[int] | None = None) -> Iterator[NDArray[Any]]:
    """Yield the planes of i and j one by one, as they are stored; some of them, if `wanted`."""
    with _opened(volume.file) as stream:
        if _volume(stream, volume.file) != volume:
            raise ImageError(f"{volume.file} has changed since it was listed; read it again")
        planes = range(volume.shape[2]) if wanted is None else wanted
        yield from _planes(stream, volume, planes)


def inside(volume: Volume, stored: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a mask is not 0, of some of its values as they are stored.

    Raises
    ------
    ImageError
        When there are values that are no numbers.
    """
    if stored.dtype.kind in "iu" and (volume.slope, volume.intercept) == (1.0, 0.0):
        return np.asarray(stored != 0)
    values = stored * np.float64(volume.slope) + volume.intercept
    if not np.isfinite(values).all():
        raise ImageError(
            f"{volume.file}: a mask must have numbers, found NaN or infinity; draw it anew"
        )
    mask: NDArray[np.bool_] = values != 0
    return mask


def read_mask_of(file: Path, image: Volume) -> Volume:
    """Return what the header of a mask says; raise when it has other voxels than its image."""
    mask = read_volume(file)
    if mask.shape != image.shape:
        raise ImageError(
            f"{file}: a mask must have its image's size, {image.shape}, found {mask.shape}"
        )
    apart = np.abs(np.subtract(mask.affine, image.affine)).max()
    if not apart <= VOXEL_TOLERANCE * np.abs(np.reshape(image.affine, (3, 4))[:, :3]).max():
        raise ImageError(
            f"{file}: a mask must lie where its image does, found another affine (sform, qform), "
            f"{apart:.4g} off; draw it on the image, or leave the image out with exclude"
        )
    return mask


def read_affines(file: Path) -> list[NDArray[np.float64]]:
    """Return what a header says of where voxels lie (sform, qform), (4, 4) each; they may differ.

    From i, j, k to mm to the right, to the front and up. None where it says nothing: then a file
    has an affine all the same, which is made up.
    """
    with _opened(file) as stream:
        header = _read_header(stream)
        affines = header.get_sform(coded=True)[0], header.get_qform(coded=True)[0]
    return [affine for affine in affines if affine is not None]


def _planes(stream: BinaryIO, volume: Volume, wanted: Sequence[int]) -> Iterator[NDArray[Any]]:
    """Yield some planes (i, j); a compressed file is read to its end, for its sum."""
    wide, high, _ = volume.shape
    size = wide * high * volume.dtype.itemsize
    for k in wanted:
        stream.seek(volume.offset + k * size)
        if len(content := stream.read(size)) != size:
            raise EOFError("it ends early")
        yield np.frombuffer(content, volume.dtype).reshape(high, wide).T
    if isinstance(stream, gzip.GzipFile):
        while stream.read(PIECE):
            if stream.tell() > volume.offset + size * volume.shape[2] + PIECE:
                raise EOFError("it unpacks to more than its header says")


def _read_header(stream: BinaryIO) -> Any:
    """Return a header, unchecked, without extensions."""
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header

    start = stream.read(4)
    stream.seek(0)
    second = 540 in (int.from_bytes(start, "little"), int.from_bytes(start, "big"))
    kind: Any = Nifti2Header if second else Nifti1Header
    return kind(stream.read(kind.template_dtype.itemsize), check=False)


def _volume(stream: BinaryIO, file: Path) -> Volume:
    header = _read_header(stream)
    magic = bytes(header["magic"])
    if not magic.startswith(b"n+"):
        other = "a pair of files" if magic.startswith(b"ni") else "Analyze or another format"
        raise ImageError(
            f"{file} must be NIfTI in one file, found {other}; convert it to .nii or .nii.gz"
        )
    dtype, shape = header.get_data_dtype(), header.get_data_shape()
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise ImageError(
            f"{file}: values (datatype) must be whole or floating numbers of up to 64 bits, found "
            f"{dtype}; convert colour and complex values to one gray value"
        )
    while len(shape) > 3 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) != 3:
        raise ImageError(
            f"{file}: a volume must have three axes (dim), found {shape}; save each volume of a "
            "series in a file of its own"
        )
    offset = int(header["vox_offset"])
    _check_size(stream, file, shape, dtype.itemsize, offset)
    slope, intercept = header.get_slope_inter()
    return Volume(
        file,
        shape,
        dtype,
        offset,
        1.0 if slope is None else float(slope),
        0.0 if intercept is None else float(intercept),
        _window(header),
        tuple(header.get_best_affine()[:3].ravel().tolist()),
    )


def _window(header: Any) -> tuple[float, float] | None:
    low, high = float(header["cal_min"]), float(header["cal_max"])
    return (low, high) if math.isfinite(low) and math.isfinite(high) and low < high else None


def _check_size(
    stream: BinaryIO, file: Path, shape: tuple[int, ...], width: int, offset: int
) -> None:
    """Raise when a header claims more than the file can hold, or planes that no memory has."""
    size = file.stat().st_size
    most = size * RATIO if isinstance(stream, gzip.GzipFile) else size
    needed = offset + math.prod(shape) * width
    if min(shape) < 1 or offset < 0 or needed > most:
        raise ImageError(
            f"{file}: its header claims {shape} voxels, {needed:,} bytes, more than a file of "
            f"{size:,} bytes can hold; it is damaged, copy it anew"
        )
    _check_slice(file, shape, 2, width)


def _check_slice(file: Path, shape: tuple[int, ...], axis: int, width: int) -> None:
    """Raise when a slice across an axis, of values of `width` bytes, is larger than any image."""
    sides = shape[:axis] + shape[axis + 1 :]
    if math.prod(sides) * width > LARGEST:
        raise ImageError(
            f"{file}: a slice must have up to {LARGEST:,} bytes, found {sides} voxels of {width}; "
            "cut the volume to pieces"
        )


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """Open a file, unpacked; whatever a damaged one raises becomes one `ImageError`."""
    try:
        with open_regular(file) as plain:
            if not file.name.lower().endswith(".gz"):
                yield plain
                return
            with gzip.GzipFile(fileobj=plain) as stream:
                yield cast(BinaryIO, stream)
    except ImageError:
        raise
    except Exception as error:  # what nibabel stumbles over is not foreseen
        said = " ".join(str(error).replace(str(file), "file").split())[:200]
        raise ImageError(
            f"{file} is not a readable NIfTI file ({said or type(error).__name__}); bring it "
            "whole, or leave it out with exclude"
        ) from error


KEPT = 8
"""Masks that are kept, a bit a voxel: to read one slice all of a file is unpacked."""


def read_planes(file: Path, axis: int, wanted: Sequence[int]) -> list[ImageArray]:
    """Return slices of a mask across an axis, the other two in order: 1 inside, 0 elsewhere.

    Raises
    ------
    ImageError
        When it cannot be read, has no such slice or values that are no numbers.
    """
    volume = read_volume(file)
    if max(wanted, default=0) >= volume.shape[axis]:
        raise ImageError(f"{file} has changed since it was listed; read the images again")
    bits = _packed_mask(file, file_state(file), axis)
    columns = volume.shape[1 if axis == 2 else 2]
    return [np.unpackbits(bits[number], axis=-1, count=columns) for number in wanted]


@lru_cache(maxsize=KEPT)
def _packed_mask(file: Path, stamp: bytes, axis: int) -> ImageArray:
    """Return a mask as bits, its slices across `axis`; a file with another `stamp` is another."""
    volume = read_volume(file)
    check_volume(volume.shape, str(file))
    mask = np.empty(volume.shape, bool)
    for number, plane in enumerate(each_plane(volume)):
        mask[..., number] = inside(volume, plane)
    return np.packbits(np.moveaxis(mask, axis, 0), axis=-1)
