"""Headers of NIfTI that mean nothing, and reasons that are true."""

import shutil
import struct
from pathlib import Path

import nibabel
import numpy as np
import pytest

from covdp.addons.hospital.nifti import read_volume
from covdp.datasets import open_dataset
from covdp.datasets.draft import draft_card
from covdp.errors import DatasetError, ImageError


def patched(content: bytes, *fields: tuple[int, str, float]) -> bytes:
    """Return a file with other numbers in its header."""
    changed = bytearray(content)
    for place, kind, value in fields:
        struct.pack_into(kind, changed, place, value)
    return bytes(changed)


@pytest.mark.parametrize("offset", [0, 4, 348, 351, 352.5, -1, np.nan, np.inf])
def test_voxels_begin_behind_the_header(tmp_path: Path, offset: float) -> None:
    """No header is read as voxels, wherever it says that they begin."""
    file = tmp_path / "1.nii"
    nibabel.save(nibabel.Nifti1Image(np.ones((3, 4, 5), np.uint8), np.eye(4)), file)
    file.write_bytes(patched(file.read_bytes(), (108, "<f", offset)))
    with pytest.raises(ImageError, match=r"voxels must begin at byte 352 or later \(vox_offset\)"):
        read_volume(file)


@pytest.mark.parametrize("slope", [np.inf, -np.inf])
def test_a_slope_without_end_is_refused(tmp_path: Path, slope: float) -> None:
    """NaN and 0 say that there is none; infinity says nothing."""
    file = tmp_path / "1.nii"
    nibabel.save(nibabel.Nifti1Image(np.ones((3, 4, 5), np.uint8), np.eye(4)), file)
    content = file.read_bytes()
    file.write_bytes(patched(content, (112, "<f", slope)))
    with pytest.raises(ImageError, match="scl_slope must be a number, found infinity"):
        read_volume(file)
    for none in (0.0, np.nan):
        file.write_bytes(patched(content, (112, "<f", none), (116, "<f", np.nan)))
        assert (read_volume(file).slope, read_volume(file).intercept) == (1.0, 0.0)


def test_reasons_of_nifti_are_true(tmp_path: Path) -> None:
    """A flat file is no series, an archive is no Analyze, and neither way out is of the other."""
    flat, gone = tmp_path / "flat.nii", tmp_path / "packed.nii"
    nibabel.save(nibabel.Nifti1Image(np.ones((3, 4), np.uint8), np.eye(4)), flat)
    with pytest.raises(ImageError, match=r"found \(3, 4\); save a flat image with a third axis"):
        read_volume(flat)
    nibabel.save(nibabel.Nifti1Image(np.ones((3, 4, 5, 2), np.uint8), np.eye(4)), flat)
    with pytest.raises(ImageError, match="save each volume of a series"):
        read_volume(flat)
    nibabel.save(nibabel.Nifti1Image(np.ones((3, 4, 5), np.uint8), np.eye(4)), f"{gone}.gz")
    (tmp_path / "packed.nii.gz").rename(gone)
    with pytest.raises(ImageError, match=r"found an archive of gzip; name it \.nii\.gz"):
        read_volume(gone)


@pytest.mark.parametrize("intent", ["label", "neuroname"])
def test_a_map_of_labels_is_no_image(tmp_path: Path, intent: str) -> None:
    """It is refused among images, named in a draft, and read as a mask."""
    rng = np.random.default_rng(0)
    for label in ("a", "b"):
        voxels = rng.integers(0, 256, (8, 9, 4)).astype(np.uint8)
        for folder, kind in (("ward", "none"), ("ward/masks", intent)):
            image = nibabel.Nifti1Image(voxels // 128 + 1 if kind != "none" else voxels, np.eye(4))
            image.header.set_intent(kind)
            (tmp_path / folder / label).mkdir(parents=True, exist_ok=True)
            nibabel.save(image, tmp_path / folder / label / "1.nii")
    card = 'kind = "nifti"\nchannels = 1\nclasses = ["a", "b"]\naxis = 2\nwindow = [0, 255]\n'
    (tmp_path / "ward.toml").write_text(card + 'masks = "masks/{class}/*.nii"\n')
    source = open_dataset(tmp_path / "ward.toml", tmp_path)
    assert source.counts() == (4, 4)
    assert source.masks is not None
    assert next(source.masks(source.select().rows, 8)).all()
    (tmp_path / "ward/masks/a/1.nii").rename(tmp_path / "ward/a/2.nii")
    (tmp_path / "ward.toml").write_text(card)
    with pytest.raises(DatasetError, match="is no image but a map of labels"):
        list(open_dataset(tmp_path / "ward.toml", tmp_path).chunks())
    shutil.rmtree(tmp_path / "ward/masks")
    draft = draft_card(tmp_path / "ward")
    assert [x.file for x in draft.odd] == ["a/2.nii"]
    assert [count.images for count in draft.counts] == [1, 1]
