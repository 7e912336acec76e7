"""Shapes, sizes and labels that images may have: checked where files are opened."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import LabelArray, counting
from pipeline.errors import DatasetError, MismatchError

LARGEST = 1 << 27
"""Bytes of the largest image: more pixels than any detector has."""
LARGEST_VOLUME = 1 << 30
"""Voxels of the largest volume, which is held in memory. Sums of its features are exact: they stay
within 64 bits up to 2,164,359,682 voxels (`pipeline.descriptors.describe`)."""


def check_extent(shape: tuple[int, ...], where: str) -> None:
    """Raise unless one image of `shape` has a size that an image may have."""
    if not 1 <= (pixels := math.prod(shape)) <= LARGEST:
        raise MismatchError(
            f"{where}: an image must have 1 to {LARGEST:,} bytes, found {pixels:,}; cut it to "
            "tiles, or name a smaller size"
        )


def check_volume(shape: tuple[int, ...], where: str, window: object = None) -> None:
    """Raise unless a volume of `shape` can be held, and its percentiles if its window is those."""
    voxels = math.prod(shape)
    if not 1 <= voxels <= LARGEST_VOLUME:
        raise MismatchError(
            f"{where}: a volume must have 1 to {LARGEST_VOLUME:,} voxels, found {voxels:,}; cut it "
            "to pieces, or resample it"
        )
    if window == "image" and voxels > LARGEST:  # percentiles take 16 bytes a voxel
        raise MismatchError(
            f'{where}: window = "image" is for volumes of up to {LARGEST:,} voxels, found '
            f"{voxels:,}; give window = [low, high] in the card"
        )


def check_shape(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    channels: int,
    where: str,
    *,
    volumes: bool = False,
) -> None:
    """Raise unless (n, *image) is uint8 and (n, h, w) for 1 channel, (n, h, w, 3) for 3.

    Volumes have one channel, (n, d, h, w).
    """
    if dtype != np.uint8:
        raise DatasetError(
            f"{where}: images must be uint8 with intensities 0..255, found {dtype}; rescale "
            "(without NaN) to 0..255, convert with .astype('uint8') and save again"
        )
    wanted = "(n, d, h, w)" if volumes else "(n, h, w)" if channels == 1 else "(n, h, w, 3)"
    if len(shape) != wanted.count(",") + 1 or (channels == 3 and shape[-1] != 3):
        raise MismatchError(
            f"{where}: {'volumes' if volumes else 'images'} of {channels} channel(s) must have "
            f"shape {wanted}, found {shape}; move or drop axes, or correct channels or volumes in "
            "the card"
        )


def check_label_shape(shape: tuple[int, ...], dtype: np.dtype[Any], n: int, where: str) -> None:
    """Raise unless labels are n integers of shape (n,) or (n, 1)."""
    if dtype.kind not in "biu" or shape not in ((n,), (n, 1)):
        raise DatasetError(
            f"{where}: labels must be {n} integers, one for each image, of shape ({n},) or "
            f"({n}, 1), found {dtype} of shape {shape}"
        )


def check_labels(labels: NDArray[Any], n: int, classes: int, where: str) -> LabelArray:
    """Return labels as (n,) if they are n integers 0..classes-1, else raise."""
    check_label_shape(labels.shape, labels.dtype, n, where)
    low, high = (labels.min(), labels.max()) if n else (0, 0)
    if low < 0 or high >= classes:
        raise DatasetError(
            f"{where}: labels must be 0..{classes - 1}, one for each class of the card, found "
            f"{low}..{high}; correct them or the classes"
        )
    return labels.reshape(-1).astype(counting(classes))
