"""The descriptors of images: raw gray intensities (`OCT5`), gray and colour on a grid.

With gain 1 a derivative is a weighted mean of levels minus another one: b_j = 255 in `OCT5`.
"""

import math
from dataclasses import replace

import numpy as np

from covdp.arrays import FloatArray, ImageArray
from covdp.descriptors import kernels
from covdp.descriptors.base import Descriptor

DERIVATIVES = ("|Ix|", "|Iy|", "|Ixx|", "|Iyy|")
EDGES = ("change of brightness to the right, downwards",) * 2 + ("change of that change",) * 2
"""Derivatives in words."""
STEEPEST = ("of the steepest change",) * 2
"""Magnitude and angle in words."""
FIRST = np.outer([1, 2, 1], [1, 0, -1])
SECOND_KERNEL = np.outer([1, 4, 6, 4, 1], [1, 0, -2, 0, 1])
"""Kernels of 4·Ix and of 32·Ixx; transposed, of 4·Iy and of 32·Iyy."""
SOBEL = (
    "are Sobel's, absolute, with mirrored borders (dcba|abcd). The first have kernels "
    "¼·(1,2,1)ᵀ(1,0,−1) and its transpose, exactly as scikit-image's sobel_v and sobel_h. The "
    "second have kernels 1/32·(1,4,6,4,1)ᵀ(1,0,−2,0,1) and its transpose, half the convolution "
    "of a first kernel with itself"
)
"""Filters in words. A test applies what is written here."""
MAGNITUDE = math.sqrt(5) / 2
"""Largest √(Ix² + Iy²) for intensities in [0, 1]; less than the √2 of two separate bounds.

(Ix, Iy) is (1/4) Σ p g over the eight neighbours: g = (±2, 0), (0, ±2), (±1, ±1), p in [0, 1]. Its
component along (cos t, sin t), by symmetry 0 ≤ t ≤ π/4, is largest when p is 1 exactly where that
component of g is positive: E (2, 0), S (0, 2), SE (1, 1), NE (1, −1). It is then
(4 cos t + 2 sin t)/4 ≤ √(1 + 1/4), and this is reached where tan t = 1/2.
"""
ANGLE = math.pi / 2


def _absolute_derivatives(levels: FloatArray) -> list[FloatArray]:
    """Return |Ix|, |Iy|, |Ixx|, |Iyy| by scipy.ndimage.

    The filters run on whole numbers (gray levels, or luminance in steps of 10⁻⁴) and are scaled
    afterwards: else rounding makes a derivative of 1e-17 out of 0, and any angle at all of it.
    """
    from scipy.ndimage import correlate

    shapes = FIRST / 4, FIRST.T / 4, SECOND_KERNEL / 32, SECOND_KERNEL.T / 32
    return [np.abs(correlate(levels, shape, mode="reflect")) for shape in shapes]


def oct5_features(image: ImageArray) -> FloatArray:
    """Return φ of every pixel of a gray image, (5, h·w), in gray levels.

    Parameters
    ----------
    image : uint8 array, shape (h, w)
        Gray image.
    """
    levels = image.astype(float)
    return np.stack([np.ravel(part) for part in (levels, *_absolute_derivatives(levels))])


def grid_features(image: ImageArray) -> FloatArray:
    """Return φ of every pixel of a gray or a colour image, (9 or 11, h·w).

    Parameters
    ----------
    image : uint8 array, shape (h, w) or (h, w, 3)
        Gray or colour image.
    """
    from skimage.color import rgb2gray

    colour, (height, width) = image.ndim == 3, image.shape[:2]
    steps = 255 * (10_000 if colour else 1)
    levels = np.rint(rgb2gray(image) * steps) if colour else image.astype(float)
    edges = [feature / steps for feature in _absolute_derivatives(levels)]
    y, x = np.mgrid[0:height, 0:width] / np.reshape([height - 1, width - 1], (2, 1, 1))
    channels = np.moveaxis(image / 255, -1, 0) if colour else [image / 255]
    steepest = np.hypot(*edges[:2]), np.arctan2(*edges[:2])
    return np.stack([np.ravel(part) for part in (x, y, *channels, *edges, *steepest)])


def _gradients(first: int) -> tuple[tuple[int, int, float], ...]:
    """Return the usual correlations of |Ix|, |Iy| at `first`, with magnitude and angle."""
    across, down, size, angle = first, first + 1, first + 4, first + 5
    gains = (across, size, 0.74), (down, size, 0.74)
    return (across, down, 0.15), *gains, (across, angle, 0.53), (down, angle, -0.53)


LUMINANCE_UNITS = (1020e4, 1020e4, 8160e4, 8160e4, 1020e4)
"""Factors by which derivatives and magnitude of the luminance exceed φ: it is in steps of 10⁻⁴."""

OCT5 = Descriptor(
    name="oct5",
    in_words=(
        "five pixel features (gray level, absolute first and second derivatives along both axes)"
    ),
    features=("I", *DERIVATIVES),
    meanings=("gray level", *EDGES),
    channels=1,
    ranges=(255.0,) * 5,
    norm_bound=5 * 255.0**2,
    units=lambda height, width: (1, 4, 4, 32, 32),
    kernel=kernels.oct5_moments,
    reference=oct5_features,
    exact=True,
    filters=f"derivatives of the gray levels {SOBEL}",
    typical=(-3.4, -5.2, -5.2, -6.1, -6.1),
)
GRID9 = Descriptor(
    name="grid9",
    in_words=(
        "nine pixel features (position, gray level, absolute first and second derivatives "
        "along both axes, magnitude and angle of the gradient)"
    ),
    features=("x", "y", "I", *DERIVATIVES, "magnitude", "angle"),
    meanings=("place in the image",) * 2 + ("gray level", *EDGES, *STEEPEST),
    channels=1,
    ranges=(1.0,) * 7 + (MAGNITUDE, ANGLE),
    norm_bound=12.0,
    units=lambda height, width: (width - 1, height - 1, 255, 1020, 1020, 8160, 8160, 1020, 1),
    kernel=kernels.grid_moments,
    reference=grid_features,
    exact=False,
    grid=2,
    filters=f"derivatives of the gray levels {SOBEL}. Levels and derivatives are divided by 255",
    typical=(0.0, 0.0, -3.4, -5.2, -5.2, -6.1, -6.1, -4.9, -1.1),
    correlations=_gradients(3),
)
GRID11 = replace(
    GRID9,
    name="grid11",
    in_words=(
        "eleven pixel features (position, red, green and blue, and of the luminance "
        "absolute first and second derivatives along both axes, magnitude and angle of the "
        "gradient)"
    ),
    features=("x", "y", "R", "G", "B", *DERIVATIVES, "magnitude", "angle"),
    meanings=("place in the image",) * 2 + ("red, green, blue",) * 3 + EDGES + STEEPEST,
    channels=3,
    ranges=(1.0,) * 9 + (MAGNITUDE, ANGLE),
    norm_bound=14.0,
    units=lambda height, width: (width - 1, height - 1, 255, 255, 255, *LUMINANCE_UNITS, 1),
    filters=(
        "derivatives of the luminance 0.2125 R + 0.7154 G + 0.0721 B in whole steps of 10⁻⁴ "
        f"{SOBEL}. Levels and derivatives are divided by 255"
    ),
    typical=(0.0, 0.0, -3.4, -3.4, -3.4, -5.2, -5.2, -6.1, -6.1, -4.9, -1.1),
    correlations=(*_gradients(5), (2, 3, 0.93), (3, 4, 0.93), (2, 4, 0.87)),
)
