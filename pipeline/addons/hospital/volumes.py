"""The descriptor of volumes, `VOL7`: x runs along the width, y along the height, z along the depth.

With gain 1 a derivative is a weighted mean of levels minus another one: b_j = 255.
"""

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray
from covdp.descriptors import kernels
from covdp.descriptors.base import Descriptor

SOBEL_3D = (
    "derivatives of the gray levels are Sobel's, absolute, with mirrored borders (dcba|abcd). "
    "The first have kernel 1/16·(1,2,1) (1,2,1) (1,0,−1), the last factor along the axis of the "
    "derivative, exactly as scikit-image's sobel. The second have kernel "
    "1/512·(1,4,6,4,1) (1,4,6,4,1) (1,0,−2,0,1), half the convolution of the first kernel with "
    "itself"
)
"""Filters of volumes in words. A test applies what is written here."""
FEATURE_UNITS = (1, 16, 16, 16, 512, 512, 512)
"""Factors by which the kernel's features, whole numbers, exceed φ."""


def derivative_kernels() -> list[NDArray[np.int64]]:
    """Return the kernels of Ix …, then of Ixx …, cubes of whole numbers: gain 16, gain 512."""
    filters = ([1, 2, 1], [1, 0, -1]), ([1, 4, 6, 4, 1], [1, 0, -2, 0, 1])
    cubes = []
    for even, odd in filters:
        for axis in (2, 1, 0):  # x is the last axis
            a, b, c = (odd if part == axis else even for part in range(3))
            cubes.append(np.multiply.outer(np.multiply.outer(a, b), c))
    return cubes


def integer_features(volume: ImageArray) -> NDArray[np.int64]:
    """Return φ of every voxel in units of the kernel, (7, d·h·w), by scipy.ndimage, exactly.

    SciPy adds in doubles: whole numbers below 2⁵³ are exact.

    Parameters
    ----------
    volume : uint8 array, shape (d, h, w)
        Volume.
    """
    from scipy.ndimage import correlate

    levels = volume.astype(np.int64)
    parts = [correlate(levels, cube, mode="reflect") for cube in derivative_kernels()]
    return np.asarray(np.abs(np.stack([levels, *parts])).reshape(7, -1))


def vol7_features(volume: ImageArray) -> FloatArray:
    """Return φ of every voxel, (7, d·h·w).

    Parameters
    ----------
    volume : uint8 array, shape (d, h, w)
        Volume.
    """
    return np.asarray(integer_features(volume) / np.array(FEATURE_UNITS)[:, None])


VOL7 = Descriptor(
    name="vol7",
    in_words=(
        "seven features of its voxels (gray level, absolute first and second derivatives "
        "along three axes, from 0 to 255)"
    ),
    features=("I", "|Ix|", "|Iy|", "|Iz|", "|Ixx|", "|Iyy|", "|Izz|"),
    meanings=(
        "gray level",
        *("change of brightness to the right, downwards",) * 2,
        "the same from slice to slice",
        *("change of that change",) * 3,
    ),
    channels=1,
    dimensions=3,
    ranges=(255.0,) * 7,
    norm_bound=7 * 255.0**2,
    units=lambda height, width: FEATURE_UNITS,
    kernel=kernels.vol7_moments,
    reference=vol7_features,
    exact=True,
    reach=65280,
    filters=SOBEL_3D,
)
