"""Rare images: each kind is what it says, and unlike the images among which it is put."""

import numpy as np
import pytest

from covdp.arrays import ImageArray
from covdp.datasets import open_dataset
from covdp.descriptors import describe
from covdp.experiments.images import RARE, RARE_IMAGES, rare_images
from covdp.geometry import MANIFOLDS

SHAPE = (28, 20)


def drawn(kind: str, shape: tuple[int, ...] = SHAPE) -> ImageArray:
    """Return the rare images of a kind."""
    return rare_images(kind, shape, np.random.default_rng(0))


@pytest.mark.parametrize("kind", RARE)
@pytest.mark.parametrize("shape", [SHAPE, (28, 20, 3)])
def test_rare_images_are_as_those_among_which_they_lie(kind: str, shape: tuple[int, ...]) -> None:
    """Bytes of the same size; in colour all channels are alike; a seed gives the same again."""
    images = drawn(kind, shape)
    assert images.shape == (RARE_IMAGES, *shape)
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images, drawn(kind, shape))
    if len(shape) == 3:
        for channel in range(3):
            np.testing.assert_array_equal(images[..., channel], drawn(kind))


def test_patterns_are_those_of_a_broken_device() -> None:
    """Two columns black and two white; one pixel in two white; levels that rise; all black."""
    stripes, board, ramp, black = map(drawn, ("stripes", "checkerboard", "ramp", "black"))
    for images in (stripes, board, ramp, black):
        assert (images == images[0]).all()
    np.testing.assert_array_equal(stripes[0, 0, :6], [0, 0, 255, 255, 0, 0])
    assert (stripes[0] == stripes[0, 0]).all()
    np.testing.assert_array_equal(board[0, :2, :3], [[0, 255, 0], [255, 0, 255]])
    np.testing.assert_array_equal(board[0, 1:, 1:], board[0, :-1, :-1])
    assert (ramp[0] == ramp[0, 0]).all()
    assert (ramp[0, 0, 0], ramp[0, 0, -1]) == (0, 255)
    assert set(np.diff(ramp[0, 0].astype(int))) <= {13, 14}
    assert not black.any()


def test_dots_are_one_faint_pixel_each() -> None:
    """Of 1 to 5 levels, anywhere: in 200 images each level and most columns come about.

    A level is missing with probability 5·0.8²⁰⁰ < 1e-18.
    """
    images = drawn("faint dots")
    assert (np.count_nonzero(images, axis=(1, 2)) == 1).all()
    assert set(images.max(axis=(1, 2))) == {1, 2, 3, 4, 5}
    assert len(np.unique(np.argwhere(images)[:, 1:], axis=0)) > 100


def test_photographs_are_crops_of_one_picture() -> None:
    """Each lies somewhere in the cameraman, at its full resolution; they are not all the same."""
    data = pytest.importorskip("skimage.data")
    picture, images = data.camera(), drawn("photograph")
    windows = np.lib.stride_tricks.sliding_window_view(picture, SHAPE)
    for image in images[:5]:
        corners = np.argwhere(windows[:, :, 0, 0] == image[0, 0])
        assert any((windows[y, x] == image).all() for y, x in corners)
    assert len({image.tobytes() for image in images}) > RARE_IMAGES // 2


@pytest.mark.parametrize("kind", RARE)
def test_their_descriptors_are_unlike_those_of_real_images(kind: str) -> None:
    """All lie farther from the mean of a class than 99 of 100 of its images; of crops a third.

    Nothing is random but crops and dots, which are seeded.
    """
    manifold = MANIFOLDS["spd-log-euclidean"](k=5)
    source = open_dataset("tiles")
    tiles = np.concatenate(list(source.chunks(label=0)))
    places = manifold.log(manifold.origin, describe(tiles, "oct5", 1e-6))
    rare = drawn(kind, tiles.shape[1:])
    strange = manifold.log(manifold.origin, describe(rare, "oct5", 1e-6))
    mean = places.mean(axis=0)
    apart = np.linalg.norm(strange - mean, axis=1)
    usual = np.quantile(np.linalg.norm(places - mean, axis=1), 0.99)
    assert np.mean(apart > usual) >= (1 / 3 if kind == "photograph" else 1.0)
