"""Volumes too large to be held are read some slices at a time, to the last bit as if they were."""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sample_dicom import write_dicom, write_segmentation

from pipeline.datasets import ImageSource, open_dataset, shapes
from pipeline.descriptors import DESCRIPTORS, describe, describe_slabs
from pipeline.errors import ConfigError, DatasetError, MismatchError
from pipeline.experiments.images import describe_classes
from pipeline.experiments.registry import MAIN, load_experiments
from pipeline.experiments.run import Run
from pipeline.store import check, fill, find_place, make_plan, making, take

LEVELS = np.array([0, 1, 127, 128, 254, 255], np.uint8)
DEPTH, SIDES = 7, (6, 5)
CARD = 'kind = "{}"\nchannels = 1\nvolumes = true\npublic = true\nclasses = ["well", "ill"]\n'


def cut(volume: NDArray[Any], mask: NDArray[Any] | None, sizes: list[int]) -> Iterator[Any]:
    """Yield a volume and its mask in slabs of some sizes, over and over."""
    start, place = 0, 0
    while start < len(volume):
        stop = start + sizes[place % len(sizes)]
        yield volume[start:stop], None if mask is None else mask[start:stop]
        start, place = stop, place + 1


@settings(deadline=None, max_examples=25)
@given(
    st.tuples(st.integers(1, 12), st.integers(1, 9), st.integers(1, 9)),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.permutations(range(3)),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_slabs_give_the_bits_of_the_whole(
    shape: tuple[int, int, int], sizes: list[int], axes: list[int], masked: bool, seed: int
) -> None:
    """Whatever the slabs, across whichever axis they are cut, with and without a mask."""
    rng = np.random.default_rng(seed)
    volume, mask = rng.choice(LEVELS, shape), (rng.random(shape) < 0.5) if masked else None
    if mask is not None:
        mask[0, 0, 0] = True
    wanted = describe(volume[None], "vol7", masks=None if mask is None else mask[None])[0]
    turned = None if mask is None else mask.transpose(axes)
    first, second, third = axes
    found = describe_slabs(cut(volume.transpose(axes), turned, sizes), axes=(first, second, third))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("axes", permutations(range(3)))
def test_more_voxels_than_int64_moments_allow(axes: tuple[int, int, int]) -> None:
    """Boards at the largest moments, above what is computed in int64: exact too."""
    volume = np.zeros((40, 36, 36), np.uint8)
    volume[..., :18] = 255 * (np.arange(18) % 4 < 2)
    assert volume.size > DESCRIPTORS["vol7"].widest
    found = describe_slabs(cut(volume.transpose(axes), None, [5, 16]), axes=axes)
    np.testing.assert_array_equal(found, describe(volume[None], "vol7")[0])


def test_what_slabs_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty mask, descriptors of images, and sums that would leave 64 bits are one line each."""
    volume = np.zeros((4, 3, 3), np.uint8)
    with pytest.raises(DatasetError, match="at least 1 voxel"):
        describe_slabs(cut(volume, volume, [2]))
    with pytest.raises(ConfigError, match="oct5 describes whole images"):
        describe_slabs(cut(volume, None, [2]), "oct5")
    reached = type(DESCRIPTORS["vol7"])(**{**vars(DESCRIPTORS["vol7"]), "reach": 2**29})
    monkeypatch.setitem(DESCRIPTORS, "vol7", reached)
    with pytest.raises(DatasetError, match="exact for up to 32 pixels, found 4×3×3"):
        describe_slabs(cut(volume, None, [2]))


def test_the_largest_volume_is_within_the_proof() -> None:
    """What doors let in is what 64 bits can sum."""
    assert shapes.LONGEST * DESCRIPTORS["vol7"].reach ** 2 < 2**63


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data root with series and NIfTI files of the same voxels, and masks of each."""
    root = tmp_path_factory.mktemp("scans")
    for label in ("well", "ill"):
        rng = np.random.default_rng(len(label))
        for number, depth in ((0, DEPTH), (1, DEPTH - 2)):
            voxels = rng.integers(0, 256, (depth, *SIDES), dtype=np.uint8)
            region = (rng.random(voxels.shape) < 0.4).astype(np.uint8)
            region[0, 0, 0] = 1
            known = [f"1.{len(label)}.{number}.{z}" for z in range(depth)]
            for z in range(depth):
                write_dicom(
                    *(root / f"series/{label}/{number}/{z}", voxels[z]),
                    SOPInstanceUID=known[z],
                    SeriesInstanceUID="1",
                    ImagePositionPatient=[0, 0, z],
                    ImageOrientationPatient=[1, 0, 0, 0, 1, 0],
                )
            file = root / f"series/masks/{label}{number}"
            write_segmentation(file, region, [(uid, None) for uid in known])
            for part, values in (("volumes", voxels), ("volumes/masks", region)):
                file = root / part / label / f"{number}.nii.gz"
                file.parent.mkdir(parents=True, exist_ok=True)
                nibabel.save(nibabel.Nifti1Image(values.transpose(2, 1, 0), np.eye(4)), file)
    return root


CARDS = {
    "dicom": 'path = "series"\n',
    "dicom, masks": 'path = "series"\nmasks = "masks/*"\n',
    "nifti": 'path = "volumes"\n',
    "nifti, masks": 'path = "volumes"\nmasks = "masks/{class}/*.nii.gz"\n',
}


def opened(root: Path, card: str, more: str = f"slices = [2, {DEPTH}]\n") -> ImageSource:
    """Open the volumes by a card."""
    kind = CARD.format(card.partition(",")[0])
    (root / "card.toml").write_text(kind + CARDS[card] + more)
    return open_dataset(root / "card.toml", root)


def stored(source: ImageSource, place: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return descriptors and digests of a pass, its shards as other processes would make them."""
    made = make_plan(source, descriptor="vol7")
    done = fill(made, find_place(place), lambda to, done: [*map(done, map(take, to))]).stored
    chunks = [chunk for label in (0, 1) for chunk in done.chunks(label)]
    return (
        np.concatenate([chunk.points for chunk in chunks]),
        np.concatenate([chunk.digests for chunk in chunks]),
    )


@pytest.mark.parametrize("card", CARDS)
def test_a_pass_in_slabs_is_that_of_the_whole(
    scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card: str
) -> None:
    """Descriptors have the same bits; nothing is held whole, not where files are checked either."""
    points, digests = stored(opened(scans, card), tmp_path / "whole")
    monkeypatch.setattr(shapes, "LARGEST", DEPTH * 30 - 1)
    monkeypatch.setattr(making, "CHUNK", 90)
    source = opened(scans, card)
    monkeypatch.setattr(type(source.read), "__call__", None)
    found, others = stored(source, tmp_path / "slabs")
    np.testing.assert_array_equal(found, points)
    assert len({*map(bytes, others)}) == 4
    if card == "dicom":
        np.testing.assert_array_equal(others, digests)
    assert check(source, scans / CARDS[card].split('"')[1]) == []


@pytest.mark.parametrize("card", ["dicom, masks", "nifti, masks"])
def test_faults_in_slabs_are_those_of_the_whole(
    scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card: str
) -> None:
    """A mask with nothing inside is refused and listed, and so is a window of all voxels."""
    for file in scans.rglob("*"):
        if file.is_file():
            copy = tmp_path / file.relative_to(scans)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    monkeypatch.setattr(shapes, "LARGEST", 100)
    known = [(f"1.3.1.{z}", None) for z in range(DEPTH - 2)]
    write_segmentation(tmp_path / "series/masks/ill1", np.zeros((DEPTH - 2, *SIDES)), known)
    nothing = nibabel.Nifti1Image(np.zeros((*SIDES[::-1], DEPTH - 2), np.uint8), np.eye(4))
    nibabel.save(nothing, tmp_path / "volumes/masks/ill/1.nii.gz")
    source = opened(tmp_path, card)
    with pytest.raises(DatasetError, match=r"must have a(t least 1)? voxel"):
        stored(source, tmp_path / "store")
    (fault,) = check(source, tmp_path / CARDS[card].split('"')[1])
    assert fault.file == ("ill/1" if card.startswith("dicom") else "ill/1.nii.gz")
    assert "must have a voxel inside" in fault.reason
    with pytest.raises(MismatchError, match=r'window = "image" is for volumes of up to 100 voxels'):
        opened(tmp_path, card, f'window = "image"\nslices = [2, {DEPTH}]\n')
    monkeypatch.setattr(shapes, "LONGEST", 200)
    with pytest.raises(MismatchError, match="a volume must have up to 200 voxels, found 210"):
        opened(tmp_path, card)


@pytest.mark.parametrize("card", ["dicom", "nifti"])
def test_a_run_shows_middle_slices(
    scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card: str
) -> None:
    """The pictures of a run are the same, whether volumes are held or not."""
    found = []
    for largest in (1 << 27, 100):
        monkeypatch.setattr(shapes, "LARGEST", largest)
        opened(scans, card)
        (config,) = load_experiments(MAIN, dataset=str(scans / "card.toml"), repetitions=2)
        run = Run(config, scans, tmp_path / str(largest))
        describe_classes(run)
        found.append([(run.folder / f"samples/{label}.png").read_bytes() for label in (0, 1)])
    assert found[0] == found[1]
