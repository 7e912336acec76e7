"""What may happen to all images of a device: contrast, gray levels, grain, focus.

Each is a function of an image alone, but for grain, so that whoever has the images can do the same.
"""

from collections.abc import Callable, Mapping

import numpy as np

from pipeline.arrays import FloatArray, ImageArray


def gain(images: ImageArray, amount: float, rng: np.random.Generator) -> ImageArray:
    """Multiply gray levels with `amount`; what is above 255 is cut off."""
    return _bytes(images.astype(np.float64) * amount)


def gamma(images: ImageArray, amount: float, rng: np.random.Generator) -> ImageArray:
    """Raise gray levels, between 0 and 1, to the power `amount`."""
    return _bytes(255.0 * (images / 255.0) ** amount)


def grain(images: ImageArray, amount: float, rng: np.random.Generator) -> ImageArray:
    """Add independent Gaussian noise of `amount` gray levels to each pixel."""
    return _bytes(images + amount * rng.standard_normal(images.shape))


def blur(images: ImageArray, amount: float, rng: np.random.Generator) -> ImageArray:
    """Mix each pixel with those on both sides, up and down: the share `amount` of each way."""
    soft: FloatArray = images.astype(np.float64)
    for axis in (1, 2):
        width = [(int(here == axis),) * 2 for here in range(soft.ndim)]
        padded = np.pad(soft, width, mode="symmetric")
        sides = np.stack(
            [padded.take(range(start, start + soft.shape[axis]), axis) for start in (0, 2)]
        )
        soft = (1.0 - amount) * soft + amount * sides.mean(axis=0)
    return _bytes(soft)


def _bytes(levels: FloatArray) -> ImageArray:
    return np.clip(np.rint(levels), 0, 255).astype(np.uint8)


CHANGES: Mapping[str, Callable[[ImageArray, float, np.random.Generator], ImageArray]] = {
    "gain": gain,
    "gamma": gamma,
    "grain": grain,
    "blur": blur,
}
"""What `change` of a series may be, beside none and another class."""
