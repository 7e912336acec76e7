"""Descriptors against two oracles: SciPy and scikit-image in floats, Python's integers exactly."""

import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sample_descriptors import matrix_of

from covdp.descriptors import DESCRIPTORS, describe, descriptors_for, kernels
from covdp.descriptors.images import FIRST, SECOND_KERNEL
from covdp.errors import ConfigError, DatasetError
from covdp.parallel import compiled, limited_to

ETA = 1e-6


def oracle(image, name):
    """Return the descriptor by np.cov."""
    return matrix_of(name, DESCRIPTORS[name].reference(image))


def exact_oct5(image):
    """Return `oct5` in Python's integers, each entry rounded once, then η added."""
    height, width = image.shape
    padded = np.pad(image.astype(np.int64), 2, mode="symmetric")

    def filtered(weights):
        reach = len(weights) // 2
        total = np.zeros((height, width), np.int64)
        for (row, column), weight in np.ndenumerate(weights):
            top, left = 2 - reach + row, 2 - reach + column
            total += int(weight) * padded[top : top + height, left : left + width]
        return np.abs(total)

    maps = [padded[2:-2, 2:-2], *map(filtered, (FIRST, FIRST.T, SECOND_KERNEL, SECOND_KERNEL.T))]
    flat = [np.ravel(feature) for feature in maps]
    units, pixels = (1, 4, 4, 32, 32), height * width
    out = np.empty((5, 5))
    for a, b in product(range(5), repeat=2):
        products = int(np.sum(flat[a] * flat[b]))
        numerator = pixels * products - int(np.sum(flat[a])) * int(np.sum(flat[b]))
        out[a, b] = float(Fraction(numerator, pixels**2 * units[a] * units[b]))
    return out + ETA * np.eye(5)


def pictures(shape, rng, dimensions=2):
    """Images of many kinds: noise of all contrasts, constants, edges, single pixels, boards."""
    *_, height, width = sides = shape[:dimensions]
    *slices, rows, columns = np.indices(sides)
    masks = [
        rows >= rows,
        (rows + columns) % 2 == 0,
        (rows // 2 + columns // 2) % 2 == 0,
        columns % 4 < 2,
        rows % 4 < 2,
        (rows == height // 2) & (columns == width // 2),
        (rows == 0) & (columns == width - 1),
        columns >= (width + 1) // 2,
        rows * width >= columns * height,
    ]
    for depths in slices:  # boards and slopes that lie across the others
        masks += [(depths + rows) % 2 == 0, depths % 4 < 2, 2 * depths > depths.max()]
    channels = (1,) * (len(shape) - dimensions)
    plain = [255 * mask.reshape(mask.shape + channels) * np.ones(shape) for mask in masks]
    plain += [np.full(shape, value) for value in (0, 1, 128)]
    plain += [rng.integers(0, top, shape) for top in (2, 17, 256, 256)]
    plain += [255 * rng.integers(0, 2, shape)]
    return np.stack(plain).astype(np.uint8)


def shape_for(name, height, width):
    """Shape of one image of that size, of a volume of up to 9 slices and some 2,000 voxels."""
    if DESCRIPTORS[name].dimensions == 3:
        return (min(9, max(1, 2000 // (height * width))), height, width)
    return (height, width, 3)[: 2 + (DESCRIPTORS[name].channels == 3)]


def pictures_for(name, height, width, rng):
    return pictures(shape_for(name, height, width), rng, DESCRIPTORS[name].dimensions)


def assert_close(found, wanted, name):
    """Equal up to the rounding of the *oracle*: a few units of the largest feature squared."""
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=3e-15 * DESCRIPTORS[name].norm_bound)


SIZES = [(28, 28), (2, 2), (2, 3), (3, 2), (7, 40), (40, 31), (3, 2100), (130, 70), (224, 224)]


@pytest.mark.parametrize("name", DESCRIPTORS)
@pytest.mark.parametrize(("height", "width"), SIZES)
def test_oracle(name, height, width):
    """Every descriptor is np.cov(bias=True) of SciPy's filters plus η, for all sizes and kinds."""
    images = pictures_for(name, height, width, np.random.default_rng(height * width))
    wanted = [oracle(image, name) for image in images]
    assert_close(describe(images, name, ETA), wanted, name)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_oracle_of_every_small_size(name):
    """The mirrored border is SciPy's `reflect` also where the filters are wider than the image."""
    rng = np.random.default_rng(2)
    least = 2 if DESCRIPTORS[name].grid else 1
    for height, width in product(range(least, 8), repeat=2):
        image = rng.integers(0, 256, shape_for(name, height, width), dtype=np.uint8)
        assert_close(describe(image[None], name)[0], oracle(image, name), name)


@settings(max_examples=150)
@given(
    arrays(
        np.uint8,
        st.tuples(st.just(1), st.integers(1, 40), st.integers(1, 40)),
        elements=st.sampled_from([0, 1, 127, 254, 255]),
    )
)
def test_oct5_is_exact(images):
    """`oct5` equals the exact rational covariance rounded to float64, to the last bit."""
    np.testing.assert_array_equal(describe(images)[0], exact_oct5(images[0]))


@pytest.fixture(scope="module")
def large():
    """Return the pictures of 512×512 pixels."""
    return pictures((512, 512), np.random.default_rng(3))


@pytest.mark.parametrize("kind", range(17))
def test_oct5_at_512_does_not_overflow(kind, large):
    """At 512×512, black-and-white patterns included, `oct5` has at most one rounding more."""
    image = large[kind]
    np.testing.assert_allclose(describe(image[None])[0], exact_oct5(image), rtol=3e-16, atol=0)


def test_oct5_above_the_int64_limit():
    """Images with more pixels than int64 moments allow are exact too."""
    image = np.zeros((1, 860, 876), np.uint8)
    image[0, :, :438] = 255 * (np.arange(438) % 4 < 2)
    assert (4080 * image[0].size) ** 2 > 2**63
    np.testing.assert_array_equal(describe(image)[0], exact_oct5(image[0]))


@pytest.mark.addons
def test_int64_limit_is_where_the_comment_says():
    """N²·F² < 2⁶³ holds up to the limit and fails after it; 128·4095² < 2³¹."""
    assert [DESCRIPTORS[name].widest for name in ("oct5", "vol7")] == [741_636, 46_522]
    for spec in (DESCRIPTORS["oct5"], DESCRIPTORS["vol7"]):
        assert (spec.widest * spec.reach) ** 2 < 2**63 <= ((spec.widest + 1) * spec.reach) ** 2
    assert kernels.PIXELS_SUMMED * 4095**2 < 2**31 <= kernels.PIXELS_SUMMED * 4096**2


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_bits_do_not_depend_on_chunks_threads_or_layout(name, monkeypatch):
    """The same bits come out whatever the chunks, threads, memory order, strides or callers."""
    rng = np.random.default_rng(4)
    images = rng.integers(0, 256, (301, *shape_for(name, 21, 30)), dtype=np.uint8)
    before = images.copy()
    wanted = describe(images, name)
    assert "BLOCK_BYTES" in describe.__globals__
    monkeypatch.setitem(describe.__globals__, "BLOCK_BYTES", 1 << 14)  # now 8 to 26 images a block
    pieces = [describe(part, name) for part in np.array_split(images, [1, 2, 70, 248])]
    np.testing.assert_array_equal(np.concatenate(pieces), wanted)
    for threads in (1, 2):
        with limited_to(threads):
            np.testing.assert_array_equal(describe(images, name), wanted)
    layouts = [np.asfortranarray(images), np.repeat(images, 2, axis=2)[:, :, ::2], images[::-1]]
    for layout, result in zip(layouts, (wanted, wanted, wanted[::-1]), strict=True):
        np.testing.assert_array_equal(describe(layout, name), result)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: describe(images, name), range(4)):
            np.testing.assert_array_equal(result, wanted)
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize("masked", [False, True])
def test_gauss6_is_oct5_and_its_exact_means(masked):
    """Means are rounded once, c being a power of 2; the block is `oct5` plus their products."""
    rng = np.random.default_rng(9)
    images = pictures((23, 40), rng)
    masks = rng.random(images.shape) < 0.3 if masked else np.ones(images.shape, bool)
    found = describe(images, "gauss6", masks=masks if masked else None)
    plain = describe(images, "oct5", masks=masks if masked else None)
    for matrix, inner, image, mask in zip(found, plain, images, masks, strict=True):
        phi = DESCRIPTORS["oct5"].reference(image)[:, mask.ravel()]
        wholes = np.rint(phi * np.array([[1], [4], [4], [32], [32]])).astype(int).sum(axis=1)
        pairs = zip(wholes, (1, 4, 4, 32, 32), strict=True)
        means = [float(Fraction(int(whole), int(mask.sum()) * unit)) for whole, unit in pairs]
        np.testing.assert_array_equal(matrix[0], [1.0, *(mean / 8 for mean in means)])
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(matrix[1:, 1:], inner + np.outer(means, means) / 64)


def test_strips_do_not_show():
    """Mirrored images have equal `oct5` (transposed ones after swapping axes), strips or not."""
    image = np.random.default_rng(5).integers(0, 256, (1, 300, 90), dtype=np.uint8)
    wanted = describe(image)
    np.testing.assert_array_equal(describe(image[:, ::-1, ::-1]), wanted)
    order = [0, 2, 1, 4, 3]
    np.testing.assert_array_equal(describe(image.swapaxes(1, 2))[:, order][:, :, order], wanted)
    assert kernels.strip_of(300, 90, kernels.STRIP)[0] < 300


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_constant_image_is_eta(name):
    """A constant image has R = η·Id to the last bit, apart from the coordinates and the mean."""
    images = np.full((1, *shape_for(name, 28, 28)), 77, np.uint8)
    grid = DESCRIPTORS[name].grid
    matrix = describe(images, name, ETA)[0]
    if scale := DESCRIPTORS[name].means:
        np.testing.assert_array_equal(matrix[0], [1.0, 77 * scale, 0.0, 0.0, 0.0, 0.0])
        matrix[1, 1] -= (77 * scale) ** 2
        assert matrix[1, 1] == pytest.approx(ETA, abs=2e-14)
        np.testing.assert_array_equal(matrix[2:, 1:], ETA * np.eye(5)[1:])
        return
    np.testing.assert_array_equal(matrix[grid:, grid:], ETA * np.eye(len(matrix) - grid))
    np.testing.assert_array_equal(matrix[:grid, grid:], 0)
    assert (np.diag(matrix)[:grid] == matrix[0, 0]).all()


@pytest.mark.parametrize("dataset", ["pneumoniamnist", "breastmnist", "pathmnist_subset"])
def test_medical_images(request, dataset):
    """On real medical images every fitting descriptor agrees with the oracle."""
    root = request.getfixturevalue("samples" if dataset.endswith("subset") else "shared")
    with np.load(root / f"{dataset}.npz") as archive:
        images = archive["test_images"][:60]
    fitting = descriptors_for(channels=1 if images.ndim == 3 else 3, volumes=False)
    assert fitting
    for name in fitting:
        assert_close(describe(images, name), [oracle(image, name) for image in images], name)


def test_embedded_images():
    """On scikit-image's own pictures, gray and colour, descriptors agree with the oracle."""
    gray, colour = skimage.data.cell(), skimage.data.immunohistochemistry()[:200, :300]
    for name in ("oct5", "grid9"):
        assert_close(describe(gray[None], name)[0], oracle(gray, name), name)
    assert_close(describe(colour[None], "grid11")[0], oracle(colour, "grid11"), "grid11")


def test_range_of_derivatives():
    """Gain 1: over all 3×3 patches derivatives reach 1 and no more, magnitude √5/2, not √2."""
    bits = np.array(list(product([0, 255], repeat=9)), np.uint8).reshape(-1, 3, 3)
    patches = np.pad(bits, ((0, 0), (2, 2), (2, 2)), mode="edge")
    found = np.stack(
        [DESCRIPTORS["grid9"].reference(patch).reshape(9, 7, 7)[:, 3, 3] for patch in patches]
    )
    assert found[:, 3:5].max() == 1
    assert math.isclose(found[:, 7].max(), math.sqrt(5) / 2, rel_tol=1e-14)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_features_stay_in_their_ranges(name):
    """No feature spans more than b_j, nor is ‖φ‖² above B; both are nearly reached."""
    spec = DESCRIPTORS[name]
    assert len(spec.features) == len(spec.ranges) == spec.k
    assert len(spec.units(9, 9)) == spec.k
    images = pictures_for(name, 25, 26, np.random.default_rng(7))
    phi = np.concatenate([DESCRIPTORS[name].reference(image) for image in images], axis=1)
    assert (phi.min(axis=1) >= 0).all()
    if spec.means:  # the first feature is 1, of range 0
        assert (phi[0] == 1).all()
        phi[0] = 0
    assert (phi.max(axis=1) <= np.array(spec.ranges) * (1 + 1e-12)).all()
    assert (phi.max(axis=1) >= 0.9 * np.array(spec.ranges)).all()
    assert np.square(phi).sum(axis=0).max() <= spec.norm_bound


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_no_images(name):
    """Zero images give zero matrices of the right order."""
    k = DESCRIPTORS[name].k
    assert describe(np.zeros((0, *shape_for(name, 28, 28)), np.uint8), name).shape == (0, k, k)


GRAY, COLOUR = np.zeros((2, 9, 9), np.uint8), np.zeros((2, 9, 9, 3), np.uint8)
BAD = [
    (GRAY.astype(float), "oct5", ETA, DatasetError, "uint8"),
    (GRAY[0], "oct5", ETA, DatasetError, "shape"),
    (GRAY, "oct6", ETA, ConfigError, "oct5, grid9, grid11, gauss6, vol7"),
    (GRAY, "grid11", ETA, DatasetError, "choose oct5 or grid9"),
    (COLOUR, "oct5", ETA, DatasetError, "choose .*grid11"),
    (GRAY, "vol7", ETA, DatasetError, "volumes \\(n, d, h, w\\), .*choose oct5 or grid9"),
    (GRAY[None], "oct5", ETA, DatasetError, "found .* \\(2, 9, 9\\); for these choose vol7"),
    (GRAY[None, None], "vol7", ETA, DatasetError, "drop or add axes"),
    (GRAY[None, :0], "vol7", ETA, DatasetError, "at least 1×1×1 pixels, found 0×9×9"),
    (GRAY[:, :1], "grid9", ETA, DatasetError, "at least 2×2 pixels, found 1×9"),
    (GRAY[:, :, :0], "oct5", ETA, DatasetError, "at least 1×1 pixels, found 9×0"),
    *[(GRAY, "oct5", eta, ConfigError, "positive") for eta in (0.0, -1.0, math.inf, math.nan)],
]


@pytest.mark.addons
@pytest.mark.parametrize(("images", "name", "eta", "error", "words"), BAD)
def test_bad_inputs(images, name, eta, error, words):
    """Each bad input is refused with one line that names the rule or the way out."""
    with pytest.raises(error, match=words) as caught:
        describe(images, name, eta)
    assert "\n" not in str(caught.value)


@pytest.mark.addons
def test_registry_is_frozen_and_named():
    """Keys are names, entries cannot be changed in place, and d = k(k + 1)/2."""
    for name, spec in DESCRIPTORS.items():
        assert spec.name == name
        with pytest.raises(AttributeError):
            spec.channels = 3
        assert replace(spec, name="other").dimension == spec.k * (spec.k + 1) // 2
    assert [DESCRIPTORS[name].k for name in DESCRIPTORS] == [5, 9, 11, 6, 7]


def test_compiled_code_calls_none_of_another_file():
    """Numba's cache tracks one file a function: no kernel calls compiled code of another file."""
    plain = {"typing", "numpy", "numpy.typing", "covdp.arrays", "covdp.parallel"}
    plain |= {"collections.abc", "functools", "numba.core", "numba.core.cgutils"}
    plain |= {"numba.extending"}
    found = {path.name: path.read_text() for path in Path(kernels.__file__).parent.glob("*.py")}
    compiled = {
        name: text for name, text in found.items() if "\n@compiled" in text or "njit" in text
    }
    assert compiled.keys() == {"kernels.py"}
    for text in compiled.values():
        assert set(re.findall(r"^(?:from|import) (\S+)", text, re.MULTILINE)) <= plain


@compiled
def steepest(levels, edges, ring, sums):
    kernels.add_steepest(levels, 6, edges, ring, 0, kernels.PIECE, sums)


def test_magnitudes_and_angles_are_those_of_the_library():
    """Of whole numbers up to the largest derivative, within 4 u of their value, never > π/2.

    Compared in extended precision with zeros, equal pairs and neighbours of tan(π/8) among them.
    Their sums of products are those of the rows, each added up with one rounding a step.
    """
    rng = np.random.default_rng(8)
    size = kernels.PIECE
    levels, edges = kernels.aligned(6, size, np.int16), kernels.aligned(4, size, np.int32)
    ring, sums = np.zeros((12, kernels.RING_ROW)), np.zeros((12, 12))
    levels[:] = rng.integers(0, 256, levels.shape)
    for most in (1, 4, 1020, 10_200_000) * 13:
        edges[:] = rng.integers(0, most + 1, edges.shape)
        ix, iy = edges[:2]
        ix[:30], iy[20:50], ix[50:70] = 0, 0, iy[50:70]
        ix[70:90] = np.rint((np.sqrt(2) - 1) * iy[70:90])
        sums[:] = 0
        steepest(levels, edges, ring, sums)
        x, y = ix.astype(np.longdouble), iy.astype(np.longdouble)
        for found, wanted in zip(ring[10:, :size], (np.hypot(x, y), np.arctan2(x, y)), strict=True):
            assert (np.abs(found - wanted) <= 4 * 2.0**-53 * wanted).all()
        magnitude, angle = ring[10:, :size]
        assert angle.min() >= 0
        assert angle.max() <= np.pi / 2
        assert not angle[20:30].any()
        rows = np.concatenate([np.ones((1, size)), levels[1:], edges, magnitude[None], angle[None]])
        np.testing.assert_allclose(sums[10, :10], rows[:10] @ magnitude, rtol=size * 2.0**-53)
        np.testing.assert_allclose(sums[11], rows @ angle, rtol=size * 2.0**-53)


def test_without_a_folder_for_machine_code_images_are_described_all_the_same(monkeypatch):
    """Of an install that is read-only and a user without a home numba has no folder at all."""
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert compiled(mirror_by_hand)(-1, 5) == 0


def mirror_by_hand(index, size):
    return kernels.mirror(index, size)
