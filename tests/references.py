"""The features of each descriptor in plain NumPy and SciPy: what its kernel is compared with."""

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.ndimage
import skimage.color
from numpy.typing import NDArray

from pipeline.arrays import FloatArray, ImageArray

FIRST = np.outer([1, 2, 1], [1, 0, -1])
SECOND = np.outer([1, 4, 6, 4, 1], [1, 0, -2, 0, 1])


def features(name: str, image: ImageArray) -> FloatArray:
    """φ of every pixel, (k, h·w), by scipy.ndimage and scikit-image.

    The filters run on whole numbers (gray levels, or luminance in steps of 10⁻⁴) and are scaled
    afterwards: else rounding makes a derivative of 1e-17 out of 0, and any angle at all of it.
    """
    height, width = image.shape[:2]
    steps = 10_000 if image.ndim == 3 else 1
    whole = np.rint(skimage.color.rgb2gray(image) * 255 * steps) if image.ndim == 3 else image
    gray = whole.astype(float)
    shapes = [FIRST / 4, FIRST.T / 4, SECOND / 32, SECOND.T / 32]
    found = [np.abs(scipy.ndimage.correlate(gray, shape, mode="reflect")) for shape in shapes]
    if name != "oct5":
        gray, found = gray / 255, [feature / (255 * steps) for feature in found]
    if name == "oct5":
        maps = [gray, *found]
    else:
        y, x = np.mgrid[0:height, 0:width] / np.reshape([height - 1, width - 1], (2, 1, 1))
        colours = np.moveaxis(image / 255, -1, 0) if image.ndim == 3 else [gray]
        maps = [x, y, *colours, *found, np.hypot(*found[:2]), np.arctan2(*found[:2])]
    return np.stack([np.ravel(feature) for feature in maps])


SMOOTH, SLOPE = [1, 2, 1], [1, 0, -1]
BROAD, BEND = [1, 4, 6, 4, 1], [1, 0, -2, 0, 1]


def volume_kernels() -> list[NDArray[np.int64]]:
    """Return the kernels of `vol7`, cubes of whole numbers: gain 16 for Ix …, 512 for Ixx …."""
    cubes = []
    for even, odd in ((SMOOTH, SLOPE), (BROAD, BEND)):
        for axis in (2, 1, 0):  # x is the last axis
            a, b, c = (odd if part == axis else even for part in range(3))
            cubes.append(np.multiply.outer(np.multiply.outer(a, b), c))
    return cubes


def whole_volume_features(volume: ImageArray) -> NDArray[np.int64]:
    """φ of `vol7` at every voxel in units of the kernel, (7, d·h·w), by scipy.ndimage, exactly.

    SciPy adds in doubles: whole numbers below 2⁵³ are exact.
    """
    whole = volume.astype(np.int64)
    found = [scipy.ndimage.correlate(whole, cube, mode="reflect") for cube in volume_kernels()]
    return np.abs(np.stack([whole, *found]).reshape(7, -1))


def volume_features(volume: ImageArray) -> FloatArray:
    """φ of `vol7` at every voxel, (7, d·h·w)."""
    units = np.array([1, 16, 16, 16, 512, 512, 512])
    return np.asarray(whole_volume_features(volume) / units[:, None])


REFERENCES: dict[str, Callable[[ImageArray], FloatArray]] = {
    **{name: partial(features, name) for name in ("oct5", "grid9", "grid11")},
    "vol7": volume_features,
}
"""Name → the map from one image or volume to φ of every pixel, (k, h·w) or (k, d·h·w)."""
