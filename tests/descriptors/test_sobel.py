"""Derivatives of features: scikit-image's Sobel filters, to the last bit, and as words say."""

import re
from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import correlate
from skimage.filters import sobel, sobel_h, sobel_v

from covdp.datasets import open_dataset
from covdp.descriptors import DESCRIPTORS, describe, kernels

ETA = 1e-6
WITH_FILTERS = [spec.name for spec in DESCRIPTORS.values() if spec.filters]
LEVELS = st.sampled_from([0, 1, 2, 127, 128, 254, 255])
IMAGES = arrays(np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40)), elements=LEVELS)
VOLUMES = arrays(np.uint8, st.tuples(*[st.integers(1, 9)] * 3), elements=LEVELS)
UNITS = (1, 4, 4, 32, 32)
LUMINANCE = (2125, 7154, 721)


def skimage_features(levels: np.ndarray) -> np.ndarray:
    """Return |first| and |second| derivatives by scikit-image's filters, x first, shape (2·dim, …).

    Second ones are half of the first applied twice to the image mirrored by two pixels.
    """
    padded, inner = np.pad(levels, 2, mode="symmetric"), (slice(2, -2),) * levels.ndim
    if levels.ndim == 2:
        firsts, twice = (
            [f(levels) for f in (sobel_v, sobel_h)],
            [f(f(padded)) for f in (sobel_v, sobel_h)],
        )
    else:
        axes = range(levels.ndim - 1, -1, -1)
        firsts = [sobel(levels, axis=axis) for axis in axes]
        twice = [sobel(sobel(padded, axis=axis), axis=axis) for axis in axes]
    return np.abs(np.stack([*firsts, *(part[inner] / 2 for part in twice)]))


def covariance(features: np.ndarray, units: tuple[int, ...]) -> np.ndarray:
    """Return the covariance, normalised by 1/|S|, of exact features, rounded once, then η added."""
    wholes = features.reshape(len(units), -1) * np.array(units)[:, None]
    assert np.array_equal(wholes, np.rint(wholes))
    phi, n = wholes.astype(np.int64), wholes.shape[1]
    out = np.empty((len(units),) * 2)
    for a, b in product(range(len(units)), repeat=2):
        numerator = n * int(phi[a] @ phi[b]) - int(phi[a].sum()) * int(phi[b].sum())
        out[a, b] = float(Fraction(numerator, n * n * units[a] * units[b]))
    return out + ETA * np.eye(len(units))


def compiled_derivatives(image: np.ndarray) -> np.ndarray:
    """Return 4·|Ix|, 4·|Iy|, 32·|Ixx|, 32·|Iyy| of an image by machine code, shape (4, h, w)."""
    height, width = image.shape[:2]
    size = height * (width + 4)
    flat = np.zeros((height + 4) * (width + 4) + 4, np.int32)
    plane = flat[: (height + 4) * (width + 4)].reshape(height + 4, width + 4)
    load = kernels.load_luminance if image.ndim == 3 else kernels.load_gray
    load(np.ascontiguousarray(image), 0, plane)
    out = np.empty((5, size), np.int32)
    views = kernels.five_rows(flat, width)
    inside, centres = np.ones(size, np.int16), np.zeros(5, np.int32)
    scratch = np.empty((4, size + 4), np.int32)
    kernels.derivatives(views, scratch, inside, centres, out, size)
    return out[1:].reshape(4, height, width + 4)[:, :, :width]


def assert_same_bits(found: np.ndarray, wanted: np.ndarray) -> None:
    """Compare floats bit by bit."""
    assert found.dtype == wanted.dtype == np.float64
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(np.int64), np.ascontiguousarray(wanted).view(np.int64)
    )


def assert_is_sobel(image: np.ndarray) -> None:
    """Compare compiled derivatives of a gray or a colour image with scikit-image's, pixel by pixel.

    Of colours they are those of the luminance, in whole steps of 10⁻⁴.
    """
    levels = image.astype(np.float64)
    levels = levels @ np.array(LUMINANCE, float) if image.ndim == 3 else levels
    units = np.array(UNITS[1:])[:, None, None]
    assert_same_bits(compiled_derivatives(image) / units, skimage_features(levels))


@settings(max_examples=150)
@given(IMAGES)
def test_derivatives_of_random_images_are_those_of_scikit_image(image: np.ndarray) -> None:
    """First ones are `sobel_v` and `sobel_h`, second ones half of them twice: to the last bit."""
    assert_is_sobel(image)


@settings(max_examples=40)
@given(arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20), st.just(3))))
def test_derivatives_of_random_colours_are_those_of_scikit_image(image: np.ndarray) -> None:
    """Those of the luminance, 10⁴ times that of a level, are `sobel_v` and `sobel_h` exactly."""
    assert_is_sobel(image)


@pytest.mark.parametrize("name", ["camera", "immunohistochemistry", "retina", "cell"])
def test_derivatives_of_photographs_are_those_of_scikit_image(name: str) -> None:
    """The same of pictures of a camera and of microscopes, in gray and in colour."""
    assert_is_sobel(getattr(skimage.data, name)()[:512, :512])


@pytest.mark.parametrize("name", ["oct5", "gauss6"])
def test_descriptors_of_images_are_covariances_of_scikit_images_maps(name: str) -> None:
    """`describe` is the covariance of scikit-image's maps, over |S|, to the last bit."""
    tiles = next(iter(open_dataset("tiles").chunks(label=0)))[:20]
    photograph = skimage.data.camera()[None, 100:300, 60:310]
    noise = np.random.default_rng(1).integers(0, 256, (20, 31, 45), dtype=np.uint8)
    for images in (tiles, photograph, noise):
        for matrix, image in zip(describe(images, name, ETA), images, strict=True):
            levels = image.astype(float)
            maps = np.concatenate([levels[None], skimage_features(levels)])
            wanted = covariance(maps, UNITS)
            if name == "gauss6":  # whose means are normalised by 1/|S| too
                means = maps.reshape(5, -1).mean(axis=1) / 8
                np.testing.assert_allclose(matrix[0, 1:], means, rtol=1e-13)
                matrix, wanted = matrix[1:, 1:], wanted + np.outer(matrix[0, 1:], matrix[0, 1:])
            assert_same_bits(matrix, wanted)


@pytest.mark.addons
@settings(max_examples=60)
@given(VOLUMES)
def test_derivatives_of_volumes_are_those_of_scikit_image(volume: np.ndarray) -> None:
    """`vol7` is the covariance of `sobel` along each axis, and of half of it twice, exactly."""
    levels = volume.astype(float)
    maps = np.concatenate([levels[None], skimage_features(levels)])
    found = describe(volume[None], "vol7", ETA)[0]
    assert_same_bits(found, covariance(maps, (1, 16, 16, 16, 512, 512, 512)))


def test_border_is_of_the_image_and_not_of_its_derivative() -> None:
    """Half of `sobel_v` twice, not padded before, differs in the outermost columns alone."""
    image = np.random.default_rng(2).integers(0, 256, (30, 40), dtype=np.uint8)
    levels = image.astype(float)
    twice = np.abs(sobel_v(sobel_v(levels))) / 2
    differs = twice != skimage_features(levels)[2]
    assert differs[:, [0, -1]].mean() > 0.9
    assert not differs[:, 1:-1].any()


def written_kernels(words: str, axes: int) -> list[list[np.ndarray]]:
    """Return the kernels of first and of second derivatives, x first, as the words have them.

    In words the last filter is that of the axis of the derivative, those before of the others.
    """
    found = []
    for part in words.replace("−", "-").split("The second"):
        (gain,) = re.findall(r"(¼|1/\d+)·\(", part)
        lists = [np.array(x.split(","), float) for x in re.findall(r"\(([-\d,]+)\)", part)]
        *even, odd = lists
        assert len(lists) == axes
        scale = float(Fraction(gain.replace("¼", "1/4")))
        assert scale * odd[odd > 0].sum() * np.prod([each.sum() for each in even]) == 1.0
        found.append(
            [
                scale * reduce(np.multiply.outer, [*even[:axis], odd, *even[axis:]])
                for axis in range(axes - 1, -1, -1)
            ]
        )
    return found


@pytest.mark.parametrize("name", WITH_FILTERS)
def test_words_of_filters_are_what_is_computed(name: str) -> None:
    """Gains and kernels as the words have them give the features, and have gain 1."""
    spec = DESCRIPTORS[name]
    colours = (3,) * (spec.channels == 3)
    shape = (*(6, 7, 8)[-spec.dimensions :], *colours)
    image = np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)
    levels, (scale,) = image.astype(float), re.findall(r"by (255)", spec.filters) or ["1"]
    if colours:
        levels = levels @ np.array(re.findall(r"(0\.\d+) [RGB]", spec.filters), float)
    features = dict(zip(spec.features, spec.reference(image), strict=True))
    for order, kernels_of in enumerate(written_kernels(spec.filters, spec.dimensions), start=1):
        for letter, kernel in zip("xyz", kernels_of, strict=False):
            wanted = np.abs(correlate(levels, kernel, mode="reflect")).ravel()
            found = int(scale) * features[f"|I{letter * order}|"]
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-10)


def test_every_descriptor_with_derivatives_says_them() -> None:
    """Filters are written of each descriptor that has a derivative among its features."""
    derived = [x.name for x in DESCRIPTORS.values() if any("|I" in y for y in x.features)]
    assert derived == WITH_FILTERS
    assert all("1/|S|" in spec.formula for spec in DESCRIPTORS.values())
