"""Masks in NIfTI, kept packed while the images they are of are read a few at a time."""

import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.datasets.nifti_file import Volume, each_plane, inside, read_volume
from pipeline.datasets.reading import state
from pipeline.datasets.shapes import LARGEST_VOLUME
from pipeline.errors import ImageError

KEPT = 16
"""Files that are kept: to read one slice all of it is unpacked."""
BLOCK = 1 << 26
"""Bytes of slices across another axis that are put together at a time."""


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
    packed = _packed(file, state(file), axis)
    return [_unpacked(packed[number], *_sides(volume, axis)) for number in wanted]


def _sides(volume: Volume, axis: int) -> tuple[int, int]:
    first, second = (volume.shape[other] for other in range(3) if other != axis)
    return first, second


def _pack(plane: NDArray[np.bool_] | ImageArray) -> bytes:
    return zlib.compress(np.packbits(plane).tobytes(), 1)


def _unpacked(packed: bytes, high: int, wide: int) -> ImageArray:
    bits = np.frombuffer(zlib.decompress(packed), np.uint8)
    return np.unpackbits(bits, count=high * wide).reshape(high, wide)


@lru_cache(maxsize=KEPT)
def _packed(file: Path, stamp: bytes, axis: int) -> tuple[bytes, ...]:
    """Return all slices across an axis; a file with another `stamp` is another."""
    volume = read_volume(file)
    if np.prod(volume.shape, dtype=object) > LARGEST_VOLUME:
        raise ImageError(
            f"{file}: a mask must have up to {LARGEST_VOLUME:,} voxels, found {volume.shape}; "
            "cut it"
        )
    if axis == 2:
        return tuple(_pack(inside(volume, plane)) for plane in each_plane(volume))
    return tuple(_across(volume, _packed(file, stamp, 2), axis))


def _across(volume: Volume, planes: Sequence[bytes], axis: int) -> Iterator[bytes]:
    """Yield slices across i or j, of those across k."""
    kept, depth = volume.shape[1 - axis], volume.shape[2]
    some = max(1, BLOCK // (kept * depth))
    for start in range(0, volume.shape[axis], some):
        count = min(some, volume.shape[axis] - start)
        block = np.empty((count, kept, depth), np.uint8)
        for number, plane in enumerate(planes):
            whole = _unpacked(plane, *volume.shape[:2])
            part = whole[start : start + count] if axis == 0 else whole[:, start : start + count].T
            block[:, :, number] = part
        yield from map(_pack, block)
