"""The descriptor of covariance and means, `GAUSS6`: `oct5` that sees how bright an image is.

A covariance stays as it is when a number is added to all pixels. The Gaussian embedding

    R = [[1, c·mᵀ], [c·m, Σ + c²·m·mᵀ]]

of the means m and the covariance Σ of the features of `oct5` does not: it is the point of
SPD(k + 1) that stands for the Gaussian N(c·m, Σ) (Calvo and Oller, "A distance between
multivariate normal distributions based in an embedding into the Siegel group", J. Multivariate
Anal. 35, 1990). Its Cholesky factor is [[1, 0], [c·m, chol Σ]]. So in log-Cholesky coordinates it
is (c·m, those of Σ): means cost no more than their own noise, and this is the metric it is made for
(`geometry.spd`). In the log-Euclidean and the affine-invariant metric its bound is proven as well
(`Facts.least`), where η is large beside the rounding of its matrices; `domain` refuses others.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray
from covdp.descriptors import kernels
from covdp.descriptors.images import OCT5, oct5_features

GRAY_LEVEL = 1 / 8
"""c: a gray level counts what an eighth of a log-unit of contrast does.

A larger c takes noise off the means and puts it on all else. On the three classes of `tiles`, at
n·μ = 500, with 1/32, 1/8 brightness is off by 1.0, 0.8 gray levels; contrast has 1.02, 1.07 times
the error of `oct5`, and all of its terms 1.04, 1.12 times, of which ihc and retina 0.99, 1.02 and
the faint cells 1.13, 1.38 (geometric means); term by term the cells' contrast and roughness have
1.3 times the error at 1/8, upright 1.7, edges 1.8, corners 0.9. Five gray levels between two halves
want 0.8 or less at n = 1,000 and μ = 0.5. A power of 2 rounds nothing.
"""


def gauss6_moments(images: ImageArray, masks: ImageArray, moments: NDArray[Any]) -> None:
    """Add the moments of (1, 1, φ), φ and its sums those of `oct5_moments`.

    Parameters
    ----------
    images : uint8 array, shape (n, h, w)
        Gray images.
    masks : uint8 array, shape (n or 0, h, w)
        Masks of 0 and 1; no rows where all pixels count.
    moments : array, shape (n, m, m)
        Output: moments of each image, to which sums are added.
    """
    sums = np.zeros((len(images), 6, 6), np.int64)
    kernels.oct5_moments(images, masks, sums)
    sums[:, 0, 0] = np.prod(images.shape[1:3])
    if len(masks):
        sums[:, 0, 0] = np.count_nonzero(masks.reshape(len(masks), -1), axis=1)
    moments[:, 1:, 1:] += sums
    moments[:, 1:, 0] += sums[:, :, 0]


def gauss6_features(image: ImageArray) -> FloatArray:
    """Return (1, φ) of every pixel of a gray image, (6, h·w).

    Parameters
    ----------
    image : uint8 array, shape (h, w)
        Gray image.
    """
    phi = oct5_features(image)
    return np.concatenate([np.ones((1, phi.shape[1])), phi])


GAUSS6 = replace(
    OCT5,
    name="gauss6",
    in_words=(
        "the mean and the covariance, together, of five pixel features (gray level, and "
        "absolute first and second derivatives along both axes)"
    ),
    features=("1", *OCT5.features),
    meanings=("means", *OCT5.meanings),
    ranges=(0.0, *OCT5.ranges),
    norm_bound=1.0 + OCT5.norm_bound,
    units=lambda height, width: (1, *OCT5.units(height, width)),
    kernel=gauss6_moments,
    reference=gauss6_features,
    typical=(0.0, *OCT5.typical),
    manifold="spd-log-cholesky",
    means=GRAY_LEVEL,
    centres=(0, *kernels.OCT5_CENTRES),
    typical_means=(1.0, 127.5, 8.0, 8.0, 5.0, 5.0),
)
