"""Masks: covariances over a region of interest against plain NumPy, and the bound for any mask."""

import json
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from sample_descriptors import matrix_of, ridge
from sample_manifolds import SPD

from covdp.addons.hospital.volumes import integer_features
from covdp.descriptors import DESCRIPTORS, describe, domain, require, verify
from covdp.errors import DatasetError, ImageError
from covdp.experiments import MAIN, Run, load_experiments
from covdp.experiments.images import public_domain
from covdp.geometry import MANIFOLDS
from covdp.ledger import init_ledger
from covdp.privacy import GDP
from covdp.publish import load_release, release_once

ETA = 1e-6


def shape_for(name, height=12, width=11):
    spec = DESCRIPTORS[name]
    return (3,) * (spec.dimensions == 3) + (height, width) + (3,) * (spec.channels == 3)


def sample(name, n, rng, height=12, width=11):
    """Images of noise and edges, and masks of one pixel, a column, a half, some, all of them."""
    shape = shape_for(name, height, width)
    sides = shape[: DESCRIPTORS[name].dimensions]
    images = rng.integers(0, 256, (n, *shape), dtype=np.uint8)
    images[::3] = 255 * (images[::3] > 127)
    masks = np.zeros((n, math.prod(sides)), bool)
    for index, mask in enumerate(masks):
        count = (1, 2, len(mask) // 2, len(mask))[index % 4]
        mask[rng.permutation(len(mask))[:count]] = True
    masks = masks.reshape(n, *sides)
    masks[4::7] = False
    masks[4::7, ..., width // 2] = True  # one x, all y: no variance of x, the largest of y
    return images, masks


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_oracle_over_a_mask(name):
    """R is np.cov(bias=True) over the mask of features that are those of the whole image."""
    images, masks = sample(name, 40, np.random.default_rng(1))
    found = describe(images, name, ETA, masks)
    for matrix, image, mask in zip(found, images, masks, strict=True):
        phi = DESCRIPTORS[name].reference(image)[:, mask.ravel()]
        wanted = matrix_of(name, phi)
        scale = DESCRIPTORS[name].norm_bound
        np.testing.assert_allclose(matrix, wanted, rtol=1e-12, atol=3e-15 * scale)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 40))
def test_masked_vol7_is_exact(seed, side, width):
    """Over any mask `vol7` is the integers' covariance, divided once, to the last bit."""
    rng = np.random.default_rng(seed)
    volume = rng.choice(np.array([0, 1, 254, 255], np.uint8), (1, side, 5, width))
    mask = rng.random(volume.shape) < rng.choice([0.02, 0.5, 0.98])
    mask[0, 0, 0, 0] = True
    phi = integer_features(volume[0])[:, mask.ravel()]
    n, units = phi.shape[1], (1, 16, 16, 16, 512, 512, 512)
    wanted = np.empty((7, 7))
    for a, b in product(range(7), repeat=2):
        numerator = n * int(phi[a] @ phi[b]) - int(phi[a].sum()) * int(phi[b].sum())
        wanted[a, b] = numerator / (n * n * units[a] * units[b])
    found = describe(volume, "vol7", ETA, mask)[0]
    np.testing.assert_array_equal(found, wanted + ETA * np.eye(7))


@pytest.mark.parametrize("name", DESCRIPTORS)
@pytest.mark.parametrize("size", [(12, 11), (200, 90)])
def test_full_mask_is_no_mask(name, size):
    """A mask of ones, or of any other values but 0, gives the bits of no mask, strips or not."""
    images, _ = sample(name, 5, np.random.default_rng(2), *size)
    sides = images.shape[: 1 + DESCRIPTORS[name].dimensions]
    wanted = describe(images, name)
    for mask in (np.ones(sides, bool), np.full(sides, 255, np.uint8)):
        np.testing.assert_array_equal(describe(images, name, masks=mask), wanted)


def test_wide_volumes_have_masks_too():
    """Above the limit of int64 moments the mask's own count divides, in Python's integers."""
    rng = np.random.default_rng(3)
    volume = rng.integers(0, 256, (2, 36, 36, 37), dtype=np.uint8)
    mask = rng.random(volume.shape) < 0.3
    found = describe(volume, "vol7", ETA, mask)
    for matrix, one, inside in zip(found, volume, mask, strict=True):
        phi = DESCRIPTORS["vol7"].reference(one)[:, inside.ravel()]
        wanted = np.cov(phi, bias=True) + ETA * np.eye(7)
        np.testing.assert_allclose(matrix, wanted, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_masked_bits_do_not_depend_on_chunks_or_layout(name, monkeypatch):
    """The same bits whatever the chunks, the masks' dtype, values and strides."""
    images, masks = sample(name, 60, np.random.default_rng(4))
    wanted = describe(images, name, masks=masks)
    monkeypatch.setitem(describe.__globals__, "BLOCK_BYTES", 1 << 10)
    np.testing.assert_array_equal(describe(images, name, masks=masks), wanted)
    levels = np.where(masks, 7, 0).astype(np.uint8)
    twice = np.repeat(levels, 2, axis=-1)[..., ::2]
    for mask in (np.asfortranarray(levels), twice):
        np.testing.assert_array_equal(describe(images, name, masks=mask), wanted)


@pytest.mark.parametrize("name", DESCRIPTORS)
@pytest.mark.parametrize("manifold", SPD)
def test_no_mask_breaks_the_masked_bound(name, manifold):
    """Adversarial masks stay within r, D, v and T of the masked domain, and above η."""
    rng = np.random.default_rng(5)
    eta = ridge(name, manifold)
    size = {"depth": _depth(name), "eta": eta, "manifold": manifold, "masked": True}
    for height, width in [(2, 2), (2, 9), (12, 11)]:
        limit = domain(name, height=height, width=width, **size)
        images, masks = sample(name, 60, rng, height, width)
        masks[-1] = images[-1].reshape(*masks[-1].shape, -1)[..., 0] > 127
        masks[-1].flat[0] = True
        found = describe(images, name, eta, masks)
        require([verify([found], limit, 0, "all")])
        apart = MANIFOLDS[manifold](k=limit.k).dist(found[:, None], found[None])
        assert (apart <= limit.diameter + 2 * limit.rounding).all()
        diagonal = np.diagonal(found, axis1=1, axis2=2) - eta
        assert (diagonal <= np.array(limit.variances) * (1 + 1e-12) + 1e-15).all()


def _depth(name):
    return 3 if DESCRIPTORS[name].dimensions == 3 else None


@pytest.mark.parametrize("name", ["grid9", "grid11"])
def test_masks_break_the_grid_facts(name):
    """Corners alone have variances ¼, a diagonal covariance ¼: facts without masks do not hold."""
    images = np.zeros((3, *shape_for(name, 9, 9)), np.uint8)
    masks = np.zeros((3, 9, 9), bool)
    masks[0, ::8, ::8] = True
    masks[1, [0, 8], [0, 8]] = True
    masks[2, 4, 4] = True
    corners, diagonal, one = describe(images, name, ETA, masks)
    assert math.isclose(corners[0, 0], 0.25 + ETA, rel_tol=1e-12)
    assert math.isclose(diagonal[0, 1], 0.25, rel_tol=1e-12)
    np.testing.assert_allclose(one, ETA * np.eye(len(one)), atol=1e-15)
    plain, masked = (domain(name, height=9, width=9, masked=flag) for flag in (False, True))
    assert corners[0, 0] - ETA > plain.variances[0]
    assert masked.variances[:2] == (0.25, 0.25)
    assert masked.trace > plain.trace
    assert masked.diameter > plain.diameter
    chol = "spd-log-cholesky"
    plain, masked = (
        domain(name, height=9, width=9, manifold=chol, masked=flag) for flag in (False, True)
    )
    apart = MANIFOLDS[chol](k=masked.k).dist(corners, one)
    assert apart <= masked.diameter
    assert masked.diameter > plain.diameter + 1  # rows x, y are no longer the same for all


@pytest.mark.parametrize("name", ["oct5", "vol7"])
def test_without_a_grid_masks_cost_nothing(name):
    """The facts of descriptors without coordinates hold for any set of pixels: nothing is wider."""
    plain, masked = (domain(name, height=9, width=9, masked=flag) for flag in (False, True))
    assert (plain.radius, plain.diameter) == (masked.radius, masked.diameter)
    assert plain.variances == masked.variances


@pytest.mark.parametrize("name", ["oct5", "grid9", "vol7"])
def test_hill_climbing_over_masks_does_not_break_the_diameter(name):
    """Two images and masks, changed pixel by pixel to be ever further apart, stay within D."""
    rng = np.random.default_rng(6)
    limit = domain(name, height=4, width=4, depth=_depth(name), masked=True)
    images, masks = sample(name, 2, rng, 4, 4)
    masks[:] = True
    manifold = MANIFOLDS["spd-log-euclidean"](k=limit.k)
    reached = start = manifold.dist(*describe(images, name, ETA, masks))
    for _ in range(400):
        at = (rng.integers(2), rng.integers(masks[0].size))
        tried, changed = masks.copy(), images.copy()
        if rng.random() < 0.5:
            tried.reshape(2, -1)[at] ^= True
        else:
            changed.reshape(2, -1)[at] = rng.choice([0, 1, 254, 255])
        if not tried.reshape(2, -1).any(axis=1).all():
            continue
        now = manifold.dist(*describe(changed, name, ETA, tried))
        if now > reached:
            images, masks, reached = changed, tried, now
    assert start < reached <= limit.diameter + 2 * limit.rounding


def test_bad_masks_are_one_line():
    """An empty mask, another size, another type: one line that says what to do."""
    images = np.zeros((3, 9, 9), np.uint8)
    empty = np.ones((3, 9, 9), bool)
    empty[1] = False
    cases = [
        (ImageError, "at least 1 pixel, found 1 without, first of image 1", empty),
        (DatasetError, "shape \\(3, 9, 9\\), found \\(3, 9, 8\\)", empty[:, :, :8]),
        (DatasetError, "shape \\(3, 9, 9\\), found \\(9, 9\\)", empty[0]),
        (DatasetError, "bool or uint8, found float64", empty.astype(float)),
        (DatasetError, "bool or uint8, found list", [[1]]),
    ]
    for error, words, masks in cases:
        with pytest.raises(error, match=words) as caught:
            describe(images, "oct5", ETA, masks)
        assert "\n" not in str(caught.value)
    assert describe(images[:0], "oct5", ETA, empty[:0]).shape == (0, 5, 5)


@pytest.fixture
def ward(tmp_path):
    """Return a folder with gray images of two classes, their masks, a card and a release."""
    rng = np.random.default_rng(7)
    for name, index in product(("well", "ill"), range(3)):
        for part, top in (("", 256), ("masks/", 2)):
            folder = tmp_path / "ward" / f"{part}{name}"
            folder.mkdir(parents=True, exist_ok=True)
            levels = rng.integers(0, top, (9, 8)) * (1 if part == "" else 255)
            Image.fromarray(levels.astype(np.uint8)).save(folder / f"{index}.png")
    (tmp_path / "ward.toml").write_text(
        'kind = "folder"\npublic = true\nchannels = 1\nclasses = ["well", "ill"]\n'
        'masks = "masks/{class}/*.png"\n'
    )
    (tmp_path / "release.toml").write_text(
        f'name = "r"\npopulation = "p"\ndataset = "{tmp_path / "ward.toml"}"\nbudget = 1.0\n'
        'labels = "public"\ndescriptor = "grid9"\nmechanism = "ewg"\n'
    )
    return tmp_path


def test_a_card_with_masks_has_the_masked_domain(ward):
    """Runs and releases on images with masks rest on the bound for any mask, not on the grid's."""
    plain, masked = (domain("grid9", height=9, width=8, masked=flag) for flag in (False, True))
    (config,) = load_experiments(MAIN, dataset=str(ward / "ward.toml"), descriptor="grid9")
    assert public_domain(Run(config, ward, ward / "out")) == masked
    ledger = init_ledger(ward / "ledger.sqlite")
    ledger.set_budget("p", GDP(1.0))
    released = json.loads(release_once(load_release(ward / "release.toml"), ledger, ward))
    for row in released["classes"]:
        (step,) = row["costs"]
        assert step["sensitivity"] >= masked.diameter / 3 > 1.002 * plain.diameter / 3
