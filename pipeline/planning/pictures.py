"""What is looked at in place of images that are not there: tiles of public pictures.

They stand for how records of a class lie, not for what is on them.
"""

from functools import cache

import numpy as np

from pipeline.arrays import FloatArray, ImageArray
from pipeline.datasets.tiles import PICTURES, cut, opened, pictures_folder
from pipeline.descriptors import Descriptor, describe

SIDE, DEEP = 28, 16
"""Pixels along a side of a tile, and of a volume; larger ones give the same errors within a few
parts in a hundred, but where n·μ is small."""
MOST = 100
"""Tiles of one set. How far a mean errs depends on n·μ and how records lie, hardly on n alone."""
COLOUR = ("ihc", "retina")
"""Those of the pictures that have colour."""
SMALLER = 4
"""Of so many pixels one is left in a thumbnail, across and down."""


@cache
def reference_points(spec: Descriptor, eta: float) -> tuple[FloatArray, ...]:
    """Return the descriptors of sets of tiles, (n, k, k): of each picture four.

    Tiles as they were taken, smooth and faint; stretched from black to white, as the window of most
    X-rays and scans does; of the picture made small, sharp as thumbnails are; and in black and
    white, as masks are.
    """
    sets = list[ImageArray]()
    for picture in _pictures(spec.channels):
        taken, small = _some(cut(picture, SIDE)), _some(cut(picture[::SMALLER, ::SMALLER], SIDE))
        if spec.dimensions == 3:
            taken, small = volumes(taken), volumes(small)
        sets += [taken, stretched(taken), stretched(small), parted(taken)]
    return tuple(describe(images, spec.name, eta) for images in sets)


def _pictures(channels: int) -> list[ImageArray]:
    folder = pictures_folder()
    if channels == 3:
        return [opened(folder / PICTURES[name], "RGB") for name in COLOUR]
    return [opened(folder / name) for name in PICTURES.values()]


def _some(tiles: ImageArray) -> ImageArray:
    """Return at most `MOST` tiles, from all over the picture."""
    rows = np.linspace(0, len(tiles) - 1, min(MOST, len(tiles))).astype(int)
    return np.ascontiguousarray(tiles[rows])


def parted(images: ImageArray) -> ImageArray:
    """Return images with all that is above their own median white, all else black."""
    middle = np.median(images, axis=tuple(range(1, images.ndim)), keepdims=True)
    white: ImageArray = np.where(images > middle, 255, 0).astype(np.uint8)
    return white


def stretched(images: ImageArray) -> ImageArray:
    """Return images each of which has its own 1st and 99th percentile at 0 and 255."""
    flat = images.reshape(len(images), -1).astype(np.float64)
    low, high = np.quantile(flat, [0.01, 0.99], axis=1)[..., np.newaxis]
    shares = np.clip((flat - low) / np.maximum(high - low, 1.0), 0.0, 1.0)
    found: ImageArray = np.rint(255.0 * shares).astype(np.uint8).reshape(images.shape)
    return found


def volumes(tiles: ImageArray) -> ImageArray:
    """Return volumes, (n, `DEEP`, `DEEP`, `DEEP`), each the mean of three tiles, one a side.

    There is no public volume at hand; this one varies along each axis as a picture does.
    """
    one = tiles[:, :DEEP, :DEEP].astype(np.uint16)
    other, third = np.roll(one, 1, axis=0), np.roll(one, 2, axis=0)
    total = one[:, np.newaxis] + other[:, :, np.newaxis] + third[:, :, :, np.newaxis]
    found: ImageArray = (total // 3).astype(np.uint8)
    return found
