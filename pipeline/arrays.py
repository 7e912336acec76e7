"""Array types and the shape guards used at the doors.

Batch axes lead everywhere: matrices are ``(..., k, k)``, coordinates ``(..., d)``, images
``(n, h, w)`` or ``(n, h, w, 3)``. A single matrix is the batch of shape ``()``.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DatasetError, DomainError

FloatArray: TypeAlias = NDArray[np.float64]
"""Floats in, floats out."""
ImageArray: TypeAlias = NDArray[np.uint8]
"""Images, ``(n, h, w)`` gray or ``(n, h, w, 3)`` colour, intensities 0..255."""
LabelArray: TypeAlias = NDArray[np.signedinteger[Any]]
"""Class of each image, ``(n,)``."""
COUNTED = 1 << 16
"""Images whose classes are counted at a time: NumPy works on copies of 8 bytes an image."""


def counting(most: int) -> np.dtype[Any]:
    """Return the smallest type of integers, with a sign, that has 0 to `most`."""
    return np.min_scalar_type(-most - 1)


def count_labels(labels: LabelArray, classes: int) -> NDArray[np.int64]:
    """Return how many images each class has."""
    parts = (labels[start : start + COUNTED] for start in range(0, len(labels), COUNTED))
    many = np.zeros(classes, np.int64)
    for part in parts:
        many += np.bincount(part, minlength=classes)
    return many


def check_images(images: NDArray[Any], *, channels: int | None = None) -> ImageArray:
    """Return `images` if they are uint8 of shape (n, h, w) or (n, h, w, 3), else raise.

    Parameters
    ----------
    images : array
        The candidate.
    channels : {1, 3}, optional
        The number of channels that is required; either when left out.

    Raises
    ------
    DatasetError
        With the rule, the dtype or shape found, and the way out.
    """
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        found = getattr(images, "dtype", type(images).__name__)
        raise DatasetError(
            f"images must be uint8 with intensities 0..255, found {found}; "
            "rescale floats to 0..255 and convert with .astype('uint8')"
        )
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[-1] != 3):
        raise DatasetError(
            f"images must have shape (n, h, w) or (n, h, w, 3), found {images.shape}; "
            "drop or add axes so that the batch comes first"
        )
    found_channels = 3 if images.ndim == 4 else 1
    if channels is not None and channels != found_channels:
        raise DatasetError(
            f"images must have {channels} channel(s), found {found_channels} in shape "
            f"{images.shape}; choose a descriptor made for them"
        )
    return images


def check_square(matrices: FloatArray, *, k: int | None = None) -> FloatArray:
    """Return `matrices` as float64 if they are finite and (..., k, k), else raise `DomainError`."""
    out = np.asarray(matrices, dtype=np.float64)
    if out.ndim < 2 or out.shape[-1] != out.shape[-2] or (k is not None and out.shape[-1] != k):
        wanted = "(..., k, k)" if k is None else f"(..., {k}, {k})"
        raise DomainError(f"matrices must have shape {wanted}, found {out.shape}")
    if not np.isfinite(out).all():
        raise DomainError("matrices must be finite, found NaN or infinity; check the images")
    return out
