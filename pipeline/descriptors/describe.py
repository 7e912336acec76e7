"""From images to covariance descriptors. Next on the path: `diameter`, which bounds them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray, ImageArray, check_images
from pipeline.descriptors import kernels
from pipeline.descriptors.registry import DESCRIPTORS, Descriptor, check_eta, find_descriptor
from pipeline.errors import DatasetError
from pipeline.threads import side_by_side

WIDEST = 741_636
"""Pixels up to which exact moments fit int64.

With every feature within ±4095, |S|·Σab, Σa·Σb and their difference |S|²·cov(a, b) are all at
most |S|²·4095², and 741,636² · 4095² < 2⁶³. For 512×512 pixels that is 1.2e18 of 9.2e18.
"""
BYTES = 1 << 20
"""Images are worked on in blocks of about this size."""


def describe(images: ImageArray, descriptor: str = "oct5", eta: float = 1e-6) -> FloatArray:
    """Return the covariance descriptor of each image.

    R = (1/|S|) Σ_x (φ(x) − μ)(φ(x) − μ)ᵀ + η·Id over all pixels x of an image, μ the mean of φ.
    First derivatives use 3×3 Sobel kernels, second derivatives 5×5 binomial ones, all of gain 1
    (intensities in [0, b] give absolute derivatives in [0, b]), with the border mirrored.

    The result depends on the images alone, not on how many come at once, on their memory layout or
    on the number of threads (`pipeline.threads`). `oct5` is computed in integers and
    rounded once to 53 bits, once by the division and once by adding η: the same on all machines.

    Parameters
    ----------
    images : uint8 array, shape (n, h, w) or (n, h, w, 3)
        Intensities 0..255; never modified. Any size from 1×1 (`grid9`, `grid11`: 2×2) upwards.
    descriptor : str
        A key of `DESCRIPTORS`.
    eta : float
        η > 0, the least eigenvalue of every exact R. Floats resolve it beside variances up to v
        when η ≫ 1e-15·v; `domain` states the error (``.rounding``).

    Returns
    -------
    array, shape (n, k, k)
        Symmetric positive definite matrices, float64.

    Raises
    ------
    DatasetError
        When images are not uint8, too small, or gray where colour is needed (or the reverse).
    ConfigError
        When the descriptor is unknown or η not positive and finite.

    References
    ----------
    Tuzel, Porikli and Meer, "Region covariance: a fast descriptor for detection and
    classification", ECCV 2006.
    """
    check_images(images)
    spec = find_descriptor(descriptor, height=images.shape[1], width=images.shape[2])
    check_eta(eta)
    _check_channels(images, spec)
    n, height, width = images.shape[:3]
    out = np.empty((n, spec.k, spec.k))
    block = max(1, BYTES // (height * width * spec.channels))

    def work(start: int) -> None:
        part = np.ascontiguousarray(images[start : start + block])
        part = part.reshape(-1, height, width, spec.channels)
        _covariances(part, spec, eta, out[start : start + block])

    if n <= block:
        work(0)
    else:
        with side_by_side() as submit:
            for job in [submit(work, start) for start in range(0, n, block)]:
                job.result()
    return out


def _check_channels(images: ImageArray, spec: Descriptor) -> None:
    """Refuse gray images where colour is needed, and the reverse."""
    channels = 1 if images.ndim == 3 else 3
    if channels != spec.channels:
        kinds = {1: "gray images (n, h, w)", 3: "colour images (n, h, w, 3)"}
        fitting = [name for name, other in DESCRIPTORS.items() if other.channels == channels]
        raise DatasetError(
            f"{spec.name} describes {kinds[spec.channels]}, found {kinds[channels]}; "
            f"for these choose {' or '.join(fitting)}"
        )


def _covariances(images: ImageArray, spec: Descriptor, eta: float, out: FloatArray) -> None:
    """Write the descriptor of each image (n, h, w, channels) into `out` (n, k, k)."""
    n, height, width, _ = images.shape
    pixels, order = height * width, spec.k + 1
    moments: NDArray[Any] = np.zeros((n, order, order), np.int64 if spec.exact else np.float64)
    spec.kernel(images, moments)
    units = np.array(spec.units(height, width), dtype=np.float64)
    if spec.exact and pixels > WIDEST:
        _wide_covariances(moments, pixels, units, eta, out)
    else:
        kernels.covariances(moments, pixels, units, eta, out)


def _wide_covariances(
    moments: NDArray[np.int64], pixels: int, units: FloatArray, eta: float, out: FloatArray
) -> None:
    """Do as `kernels.covariances` in Python's integers, which have no largest value."""
    for matrix, target in zip(moments.tolist(), out, strict=True):
        for a, b in zip(*np.tril_indices(units.size), strict=True):
            numerator = pixels * matrix[a + 1][b + 1] - matrix[a + 1][0] * matrix[b + 1][0]
            value = numerator / (pixels**2 * int(units[a] * units[b]))
            target[a, b] = target[b, a] = value + eta if a == b else value
