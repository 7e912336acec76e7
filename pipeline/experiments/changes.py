"""What may happen to all images of a device, and what rare images may lie among those of a class.

Changes are functions of an image alone, but for grain, so that whoever has the images can do the
same. Rare images are patterns of a broken device, empty ones, and crops of a photograph.
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


def _stripes(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    return np.tile(np.where(np.arange(width) // 2 % 2, 255.0, 0.0), (count, height, 1))


def _checkerboard(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    odd = np.add.outer(np.arange(height), np.arange(width)) % 2
    return np.tile(255.0 * odd, (count, 1, 1))


def _ramp(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    return np.tile(np.linspace(0.0, 255.0, width), (count, height, 1))


def _black(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    return np.zeros((count, height, width))


def _dots(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return black images with one faint pixel each."""
    images = np.zeros((count, height, width))
    places = np.arange(count), rng.integers(height, size=count), rng.integers(width, size=count)
    images[places] = rng.integers(1, 6, size=count)
    return images


def _photograph(height: int, width: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return crops of the cameraman of scikit-image, at its full resolution."""
    from skimage.data import camera

    picture = camera()  # type: ignore[no-untyped-call]
    corners = zip(*(rng.integers(512 - side, size=count) for side in (height, width)), strict=True)
    return np.stack([picture[y : y + height, x : x + width] for y, x in corners]).astype(np.float64)


RARE: Mapping[str, Callable[[int, int, int, np.random.Generator], FloatArray]] = {
    "stripes": _stripes,
    "checkerboard": _checkerboard,
    "ramp": _ramp,
    "black": _black,
    "faint dots": _dots,
    "photograph": _photograph,
}
"""What `rare` of a series may be, beside none: images (count, height, width) of 256 gray levels."""
MANY = 200
"""Rare images that are drawn from."""


def rare_images(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> ImageArray:
    """Return `MANY` rare images of a kind, (MANY, *shape); in colour all channels are alike."""
    images = _bytes(RARE[kind](shape[0], shape[1], MANY, rng))
    if len(shape) == 3:
        images = np.repeat(images[..., np.newaxis], shape[2], axis=-1)
    return images
