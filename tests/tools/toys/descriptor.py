"""A descriptor of two features: intensity, and how it changes from one column to the next."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray, ImageArray
from covdp.descriptors.base import Descriptor


def edge2_moments(images: ImageArray, masks: ImageArray, moments: NDArray[Any]) -> None:
    """Add Σ_x (1, φ)(1, φ)ᵀ of each gray image, in integers: levels 0 to 255 and their steps."""
    for index, image in enumerate(images[..., 0].astype(np.int64)):
        step = np.abs(np.diff(image, axis=1, append=image[:, -1:]))
        phi = np.stack([np.ones_like(image), image, step]).reshape(3, -1)
        inside = phi[:, masks[index].ravel() != 0] if len(masks) else phi
        moments[index] += np.tril(inside @ inside.T)


def edge2_features(image: ImageArray) -> FloatArray:
    """Return φ of every pixel, (2, h·w), for one image: what the kernel is compared with."""
    gray = image.astype(float)
    step = np.abs(np.append(gray[:, 1:], gray[:, -1:], axis=1) - gray)
    return np.stack([gray.ravel(), step.ravel()])


EDGE2 = Descriptor(
    name="edge2",
    in_words="two features of its pixels (gray level and its change to the right)",
    features=("I", "|step|"),
    meanings=("gray level", "change to the next column"),
    channels=1,
    ranges=(255.0, 255.0),  # levels are 0 to 255, and so is the size of a difference of two
    norm_bound=2 * 255.0**2,
    units=lambda height, width: (1, 1),
    kernel=edge2_moments,
    reference=edge2_features,
    exact=True,
)
