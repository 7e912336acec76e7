"""Volumes are held, up to a size within the proof of exact sums; a larger one is one line."""

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from sample_dicom import write_dicom, write_segmentation

from covdp.datasets import ImageSource, open_dataset
from covdp.datasets import source as sources
from covdp.descriptors import DESCRIPTORS
from covdp.errors import DatasetError, MismatchError
from covdp.store import check, fill, find_place, make_plan

DEPTH, SIDES = 7, (6, 5)
CARD = 'kind = "{}"\nchannels = 1\nvolumes = true\npublic = true\nclasses = ["well", "ill"]\n'


def test_the_largest_volume_is_within_the_proof() -> None:
    """What doors let in is what 64 bits can sum."""
    assert sources.LARGEST_VOLUME * DESCRIPTORS["vol7"].reach ** 2 < 2**63


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
    done = fill(made, find_place(place), lambda work, calls: (work(*call) for call in calls)).stored
    chunks = [chunk for label in (0, 1) for chunk in done.chunks(label)]
    return (
        np.concatenate([chunk.points for chunk in chunks]),
        np.concatenate([chunk.digests for chunk in chunks]),
    )


@pytest.mark.parametrize("card", ["dicom, masks", "nifti, masks"])
def test_faults_of_large_volumes_are_one_line(
    scans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card: str
) -> None:
    """Refused are a mask with nothing inside, percentiles of too many voxels, and too many."""
    for file in scans.rglob("*"):
        if file.is_file():
            copy = tmp_path / file.relative_to(scans)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    monkeypatch.setattr(sources, "IMAGE_BYTES", 100)
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
    monkeypatch.setattr(sources, "LARGEST_VOLUME", 200)
    with pytest.raises(MismatchError, match="a volume must have 1 to 200 voxels, found 210"):
        opened(tmp_path, card)
