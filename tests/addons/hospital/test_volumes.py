"""Volumes: `vol7` against explicit kernels in whole numbers, and the card's way to a run."""

import json
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from covdp.addons.hospital.volumes import derivative_kernels, integer_features
from covdp.datasets import open_dataset
from covdp.descriptors import (
    DESCRIPTORS,
    describe,
    domain,
    domain_of,
    require,
    require_descriptor_for,
    verify,
)
from covdp.descriptors.base import check_sides
from covdp.errors import ConfigError, DatasetError, MismatchError
from covdp.experiments import MAIN, Run, load_experiments, run_experiment
from covdp.ledger import init_ledger
from covdp.privacy import GDP
from covdp.publish import load_release, release_once
from covdp.report import load_runs
from covdp.results import read_rows

ETA = 1e-6
UNITS = (1, 16, 16, 16, 512, 512, 512)
LEVELS = np.array([0, 1, 127, 128, 254, 255], np.uint8)


def exact_vol7(volume, inside=None):
    """Return `vol7` of explicit kernels and Python's integers, rounded as the docstring says.

    Where the numerator leaves 53 bits and yet fits int64 it is rounded before it is divided.
    """
    phi = integer_features(volume)
    if inside is not None:
        phi = phi[:, inside.ravel() != 0]
    n, wide = phi.shape[1], volume.size > DESCRIPTORS["vol7"].widest
    out = np.empty((7, 7))
    for a, b in product(range(7), repeat=2):
        numerator = n * int(phi[a] @ phi[b]) - int(phi[a].sum()) * int(phi[b].sum())
        scale = n * n * UNITS[a] * UNITS[b]
        out[a, b] = float(Fraction(numerator, scale)) if wide else float(numerator) / scale
    return out + ETA * np.eye(7)


@settings(max_examples=60)
@given(
    arrays(
        np.uint8,
        st.tuples(st.just(1), st.integers(1, 12), st.integers(1, 12), st.integers(1, 40)),
        elements=st.sampled_from(list(map(int, LEVELS))),
    )
)
def test_vol7_is_exact(volumes):
    """`vol7` equals the exact covariance of explicit kernels, to the last bit."""
    np.testing.assert_array_equal(describe(volumes, "vol7")[0], exact_vol7(volumes[0]))


@pytest.mark.parametrize(
    "shape",
    [
        *[(1, 1, 1), (1, 1, 9), (1, 9, 1), (9, 1, 1), (2, 2, 2), (28, 28, 28), (3, 70, 90)],
        *[(36, 36, 36), (2, 200, 130), (1, 2, 4100), (3, 1, 8200)],
    ],
)
def test_vol7_of_every_form(shape):
    """One voxel, thin, long rows, several strips, more than int64 moments allow: all are exact."""
    rng = np.random.default_rng(sum(shape))
    z, y, x = np.indices(shape)
    boards = [(z + y + x) % 2, (x % 4 < 2) * 1, (z % 4 < 2) * 1, (2 * y > shape[1]) * 1]
    volumes = np.stack([rng.choice(LEVELS, shape), *(255 * board for board in boards)])
    found = describe(volumes.astype(np.uint8), "vol7")
    np.testing.assert_array_equal(found, list(map(exact_vol7, volumes.astype(np.uint8))))


def test_vol7_above_the_int64_limit():
    """A volume half board, half flat, whose variances do not fit int64 times |S|², is exact."""
    volume = np.zeros((8, 60, 120), np.uint8)
    volume[..., :60] = 255 * (np.arange(60) % 4 < 2)
    phi = integer_features(volume)[4]
    assert volume.size * int(phi @ phi) - int(phi.sum()) ** 2 > 2**63
    np.testing.assert_array_equal(describe(volume[None], "vol7")[0], exact_vol7(volume))


def test_limit_of_int64_lies_between_forms():
    """The forms above have volumes on both sides of the limit, one board at its largest moments."""
    assert 3 * 70 * 90 < 28**3 < DESCRIPTORS["vol7"].widest < 36**3
    board = 255 * (np.arange(36) % 4 < 2) * np.ones((36, 36, 36))
    phi = integer_features(board.astype(np.uint8))
    assert phi[4].max() == 2 * DESCRIPTORS["vol7"].reach
    assert (board.size * 65280) ** 2 > 2**63


def test_gain_is_one():
    """Positive and negative weights of each kernel sum to its unit: derivatives stay in ±255."""
    for cube, unit in zip(derivative_kernels(), UNITS[1:], strict=True):
        assert cube[cube > 0].sum() == -cube[cube < 0].sum() == unit


@pytest.mark.parametrize("order", permutations(range(3)))
def test_axes_turn_with_features(order):
    """Swapping axes of a volume swaps the features of these axes; mirroring one changes nothing."""
    volume = np.random.default_rng(1).choice(LEVELS, (9, 40, 130))
    wanted = describe(volume[None], "vol7")[0]
    turned = describe(volume.transpose(order)[None], "vol7")[0]
    axes = [2 - order[2 - axis] for axis in range(3)]  # x, y, z are the axes 2, 1, 0
    moved = [0, *(1 + axis for axis in axes), *(4 + axis for axis in axes)]
    np.testing.assert_array_equal(turned, wanted[np.ix_(moved, moved)])
    for axis in range(3):
        np.testing.assert_array_equal(describe(np.flip(volume, axis)[None], "vol7")[0], wanted)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 7), (28, 28, 28), (40, 40, 40), (1, 1, 8200)])
def test_constant_volume_is_eta(shape):
    """A constant volume has R = η·Id to the last bit, whichever arithmetic its size takes."""
    for level in (0, 77, 255):
        found = describe(np.full((1, *shape), level, np.uint8), "vol7", ETA)[0]
        np.testing.assert_array_equal(found, ETA * np.eye(7))


def test_domain_of_volumes():
    """T = 7·255²/4, k = 7 features of range 255: the same for every size and depth."""
    limit = domain("vol7", height=28, width=28)
    assert (limit.k, limit.dimension) == (7, 28)
    assert limit.radius == pytest.approx(np.sqrt(7) * 13.815510557964274, rel=1e-11)
    excess = 7 * 255**2 / 4 / ETA
    wanted = np.sqrt(3 * np.log1p(excess / 3) ** 2 + 4 * np.log1p(excess / 4) ** 2)
    assert wanted < limit.diameter < wanted * (1 + 1e-11)
    for shape in ((1, 1, 1), (28, 28, 28), (64, 5, 9)):
        other = domain_of("vol7", shape)
        assert (other.depth, other.height, other.width) == shape
        assert (other.radius, other.diameter, other.rounding) == (
            limit.radius,
            limit.diameter,
            limit.rounding,
        )


def test_what_does_not_fit_is_one_line(monkeypatch):
    """Volumes for images, images for volumes, a depth where there is none: one line each."""
    inexact = type(DESCRIPTORS["vol7"])(**{**vars(DESCRIPTORS["vol7"]), "exact": False})
    monkeypatch.setitem(DESCRIPTORS, "float7", inexact)
    cases = [
        (MismatchError, "no depth", lambda: domain("oct5", height=9, width=9, depth=9)),
        (ConfigError, "needs the depth", lambda: domain("float7", height=9, width=9)),
        (MismatchError, "choose another", lambda: domain_of("oct5", (9, 9, 9))),
        (MismatchError, "volumes", lambda: domain_of("vol7", (9, 9))),
        (
            MismatchError,
            "choose descriptor vol7 or float7",
            lambda: require_descriptor_for("oct5", channels=1, volumes=True),
        ),
        (
            DatasetError,
            "exact for up to 2,164,359,682 pixels, found 2000×2000×1000",
            lambda: check_sides(DESCRIPTORS["vol7"], (2000, 2000, 1000)),
        ),
    ]
    for error, words, call in cases:
        with pytest.raises(error, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("side", [28, 64])
def test_real_volumes_are_within_the_bound(volumes, side):
    """AdrenalMNIST3D, read by its card: exact, within r in every class, nowhere near it."""
    source = open_dataset("adrenalmnist3d", volumes, size=side)
    assert source.shape == (side,) * 3
    assert [source.counts(split) for split in ("train", "val", "test")] == [
        (929, 259),
        (76, 22),
        (229, 69),
    ]
    chosen = np.concatenate(list(source.chunks("val")))
    found = describe(chosen, "vol7")
    np.testing.assert_array_equal(found[7], exact_vol7(chosen[7]))
    known, labels = domain_of("vol7", source.shape), source.labels("val")
    classes = enumerate(source.classes)
    rows = [verify([found[labels == label]], known, label, name) for label, name in classes]
    require(rows)
    assert all(0.3 < row.ratio < 0.6 for row in rows)


CARD = """\
kind = "npz"
local = true
public = true
channels = 1
volumes = true
classes = ["solid", "hollow"]
"""


@pytest.fixture
def ward(tmp_path):
    """Volumes of one's own, 5×7×6, and their card; the middle slices of each class are told."""
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (30, 5, 7, 6), dtype=np.uint8)
    images[:, 2] = 10 * np.arange(30, dtype=np.uint8)[:, None, None]
    np.savez_compressed(tmp_path / "ward.npz", train_images=images, train_labels=np.arange(30) % 2)
    (tmp_path / "ward.toml").write_text(CARD)
    return tmp_path


def test_a_run_on_volumes(ward):
    """The main experiment takes `vol7` by itself, keeps the bound and shows the middle slices."""
    (config,) = load_experiments(MAIN, dataset=str(ward / "ward.toml"), repetitions=2)
    assert config.descriptor == "vol7"
    run = Run(config, ward, ward / "out")
    rows = read_rows(run_experiment(run))
    assert set(rows["status"]) == {"ok"}
    assert np.isfinite(rows["error"]).all()
    with Image.open(run.folder / "samples" / "1.png") as picture:
        sheet = np.asarray(picture)
    assert sheet.shape == (2 * (7 + 2) - 2, 8 * (6 + 2) - 2, 4)
    assert [sheet[0, 8 * column, 0] for column in range(8)] == list(range(10, 170, 20))
    (found,) = load_runs(ward / "out")
    assert found.record.image_shape == (5, 7, 6)
    assert found.bound["ok"].all()


@pytest.mark.parametrize("descriptor", ["vol7", "oct5"])
def test_a_release_on_volumes(ward, descriptor):
    """A release says the depth beside height and width; a descriptor of images is refused."""
    (ward / "release.toml").write_text(
        f'name = "deep"\npopulation = "p"\ndataset = "{ward / "ward.toml"}"\n'
        f'labels = "public"\ndescriptor = "{descriptor}"\nbudget = 1.0\n'
    )
    config = load_release(ward / "release.toml", run_key="one")
    ledger = init_ledger(f"sqlite:///{ward / 'ledger.sqlite'}")
    ledger.set_budget("p", GDP(2.0))
    if descriptor == "oct5":
        with pytest.raises(MismatchError, match="choose descriptor vol7"):
            release_once(config, ledger, ward)
        return
    document = json.loads(release_once(config, ledger, ward))
    sizes = [document["settings"][f"image_{side}"] for side in ("depth", "height", "width")]
    assert sizes == [5, 7, 6]
    point = np.array(document["classes"][0]["point"])
    assert point.shape == (7, 7)
    assert np.linalg.eigvalsh(point).min() > 0
