"""Each refusal of the readers over a file that causes it: the reason is true, the way out works.

A way out is followed to the letter: what `covdp check` lists is left out, or a key that the words
name is put into the card. Then all other images are read.
"""

import errno
import gzip
import io
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image
from pydicom.uid import JPEGBaseline8Bit, RLELossless

import covdp.addons.hospital.nifti
from covdp.datasets import find_card, open_dataset, tiles
from covdp.datasets.registry import fetch
from covdp.errors import CurableError, DatasetError, ImageError, MachineError
from covdp.files import write_whole
from covdp.parallel import limited_to, side_by_side
from covdp.store import exclusion_list, inspect
from tests.sample_dicom import item, write_dicom, write_segmentation
from tests.tools.addons import addon
from tests.tools.patience import PATIENCE

decoder = addon("hospital.dicom.decoder")
pixels = addon("hospital.dicom.pixels")

HEAD = 'path = "ward"\nchannels = 1\nclasses = ["a", "b"]\n'
FOLDER, NIFTI = f'kind = "folder"\n{HEAD}', f'kind = "nifti"\n{HEAD}window = [0, 255]\n'
DICOM = f'kind = "dicom"\n{HEAD}'
COLOUR = DICOM.replace("channels = 1", "channels = 3") + 'mixed = "accept"\n'
VOLUMES = f"{DICOM}volumes = true\n"
SLICED, WHOLE = f"{NIFTI}axis = 2\n", f"{NIFTI}volumes = true\n"
DEEPER = 'pattern = "{class}/**/*"'
GOOD, COPIED = 4, 2
"""Images that are there besides, and those of a class."""

Content = bytes | Callable[[Path], object]
RGB = {"PhotometricInterpretation": "RGB"}
RNG = np.random.default_rng(0)


def values(*shape: int) -> NDArray[np.uint8]:
    """Return pixels."""
    return RNG.integers(0, 256, shape, np.uint8)


def picture(pixels: NDArray[Any], kind: str = "PNG", **options: Any) -> bytes:
    """Return an image file that Pillow writes."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def tiff(pixels: NDArray[Any], photometric: Any = None) -> bytes:
    """Return a TIFF."""
    stream = io.BytesIO()
    tifffile.imwrite(stream, pixels, photometric=photometric)
    return stream.getvalue()


def nifti(pixels: NDArray[Any], at: int = 0, field: bytes = b"") -> bytes:
    """Return a NIfTI file, with some bytes of its header changed."""
    content = bytearray(nib.Nifti1Image(pixels, np.eye(4)).to_bytes())
    content[at : at + len(field)] = field
    return bytes(content)


def dicom(place: float = 0.0, series: str = "1", **elements: Any) -> Callable[[Path], object]:
    """Return what writes a DICOM file, a slice at a place."""
    said = {
        "ImagePositionPatient": [0, 0, place], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0],
        "SeriesInstanceUID": f"1.2.{series}", "PixelSpacing": [1, 1], "PatientID": series,
    }  # fmt: skip
    pixels = elements.pop("pixels", values(5, 7))
    return lambda file: write_dicom(file, pixels, **said | elements)


def two_windows(file: Path) -> None:
    """Write a DICOM file of two slices, each with another window."""
    groups = [
        item(
            FrameVOILUTSequence=[item(WindowCenter=center, WindowWidth=9)],
            PlanePositionSequence=[item(ImagePositionPatient=[0, 0, center])],
        )
        for center in (1, 2)
    ]
    dicom(pixels=values(2, 5, 7), NumberOfFrames=2, PerFrameFunctionalGroupsSequence=groups)(file)


def floating(file: Path) -> None:
    """Write a DICOM file whose pixels are floating numbers."""
    dicom(pixels=values(5, 8))(file)
    file.write_bytes(file.read_bytes().replace(b"\xe0\x7f\x10\0OB", b"\xe0\x7f\x08\0OF"))


def broken(file: Path) -> None:
    """Write a DICOM file whose pixels end early."""
    dicom(1)(file)
    file.write_bytes(file.read_bytes()[:-9])


def damaged_jpeg(file: Path) -> None:
    """Write a DICOM file of a JPEG frame that ends in its head."""
    pixels = values(5, 7)
    encoded = picture(pixels, "JPEG")[:200]
    write_dicom(file, pixels, syntax=JPEGBaseline8Bit, encoded=[encoded], PatientID="1")


def of_another_syntax(file: Path) -> None:
    """Write a DICOM file whose pixels are not compressed as it says."""
    dicom(1)(file)
    plain, packed = b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.5\0"
    file.write_bytes(file.read_bytes().replace(plain, packed))


def sources(kind: str) -> dict[str, Content]:
    """Return good files of a kind of card, two a class."""
    names = [f"ward/{label}/{number}" for label in "ab" for number in range(COPIED)]
    if kind == "nifti":
        return {f"{name}.nii": nifti(values(6, 5, 1)) for name in names}
    if kind == "dicom":
        return {name: dicom(number % 2, f"3.{number}") for number, name in enumerate(names)}
    if kind == "colour":
        return {name: dicom(**RGB, pixels=values(5, 7, 3)) for name in names}
    if kind == "series":
        return {f"{name}/{i}": dicom(i, f"4.{n}") for n, name in enumerate(names) for i in (0, 1)}
    return {f"{name}.png": picture(values(6, 5)) for name in names}


class Refused(NamedTuple):
    """A file that is refused.

    Attributes
    ----------
    card : str
        The card.
    file : str
        Which, in the folder of the images.
    content : bytes or callable
        What is in it, or what makes it.
    words : str
        What is stated of it, an expression.
    key : str
        What is put into the card; "" if the file is left out by the list of a check.
    kind : str
        Which good files there are.
    """

    card: str
    file: str
    content: Content
    words: str
    key: str = ""
    kind: str = "folder"


def masked(mask: bytes) -> Refused:
    """Return a picture whose mask is this."""

    def put(file: Path) -> None:
        for name in ("a/0", "a/1", "b/0", "b/1", "a/x"):
            place = file.parents[1] / f"m/{name}.png"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(picture(np.ones((6, 5), np.uint8)))
        file.write_bytes(picture(values(6, 5)))
        place.write_bytes(mask) if mask else place.unlink()

    return Refused(f'{FOLDER}masks = "m/{{class}}/*.png"\n', "a/x.png", put, "")


def nifti_masks(file: Path) -> None:
    """Write a larger image of NIfTI, and masks of all."""
    file.write_bytes(nifti(values(6, 6, 1)))
    for name in ("a/0", "a/1", "b/0", "b/1", "a/x"):
        place = file.parents[1] / f"m/{name}.nii"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(nifti(np.ones((6, 6 if file.stem in name else 5, 1), np.uint8)))


def with_byte(content: bytes, before: bytes, byte: int, place: int = 0) -> bytes:
    """Return a file with another byte, some places behind the first of others."""
    at = content.index(before) + len(before) + place
    return content[:at] + bytes([byte]) + content[at + 1 :]


PNG, SMALL = picture(values(6, 5)), values(6, 5, 1)
TIFF, DEEP = f'{FOLDER}formats = ["PNG", "TIFF"]\n', values(6, 5).astype("u2") * 99
NOT_A_NUMBER = np.full((6, 5), np.nan, "f4")
CASES = {
    "empty": Refused(FOLDER, "a/x.png", b"", r"\(it is empty\); bring it whole"),
    "text": Refused(FOLDER, "a/x.png", b"text", r"\(PNG or JPEG is asked\); save"),
    "sound": Refused(
        FOLDER, "a/x.png", b"RIFF\x24\0\0\0WAVEfmt ", r"\(PNG or JPEG is asked\); save"
    ),
    "packed": Refused(FOLDER, "a/x.png", gzip.compress(PNG), r"\(it is gzip, not PNG or JPEG\)"),
    "packed by name": Refused(FOLDER, "a/x.png.gz", gzip.compress(PNG), "is packed; unpack it"),
    "cut": Refused(FOLDER, "a/x.png", PNG[:60], r"\(image file is truncated\); bring"),
    "other format": Refused(
        FOLDER, "a/x.png", tiff(values(6, 5)), r"\(it is TIFF, not PNG", 'formats = ["PNG", "TIFF"]'
    ),
    "other end": Refused(
        FOLDER, "a/x.tif", tiff(values(6, 5)), "add TIFF to formats", 'formats = ["PNG", "TIFF"]'
    ),
    "DICOM": Refused(FOLDER, "a/x.dcm", dicom(), "is of a format .*; give it a card of its own"),
    "no end": Refused(FOLDER, "a/x", PNG, "has no suffix, and the card names PNG, JPEG; rename"),
    "folder": Refused(
        FOLDER, "a/x/y.png", PNG, r"is a folder, into which .*; go down by", DEEPER
    ),
    "folder for a file": Refused(FOLDER, "a/x.png", Path.mkdir, "not a file but a folder"),
    "pipe": Refused(FOLDER, "a/x.png", os.mkfifo, "not a file but a named pipe"),
    "link to nothing": Refused(
        FOLDER, "a/x.png", lambda f: f.symlink_to("y"), "not a file but a link to no file"
    ),
    "link to a class": Refused(
        f"{FOLDER}{DEEPER}\n", "a/x", lambda f: f.symlink_to("."), "is a link to a folder"
    ),
    "link out": Refused(FOLDER, "a/x.png", lambda f: f.symlink_to("/etc"), "leads out of the data"),
    "size": Refused(
        FOLDER, "b/x.png", picture(values(9, 9)), r"\(6, 5\) in a/0.png and \(9, 9\)", "size = 5"
    ),
    "too large": Refused(f"{FOLDER}size = 5\n", "a/x.png", b"", "more pixels than are read; cut"),
    "colour": Refused(
        TIFF, "a/x.tif", tiff(values(6, 5, 3).astype("u2")), "8 bits a channel, found 16"
    ),
    "deep": Refused(
        TIFF, "a/x.tif", tiff(DEEP), "unsigned values of 16 bits need a window", "window = [0, 255]"
    ),
    "signed": Refused(
        TIFF, "a/x.tif", tiff(DEEP.astype("i2")), r"signed values of 16 bits .* \"image\" in",
        'window = "image"',
    ),
    "not a number": Refused(
        f"{TIFF}window = [0, 1]\n", "a/x.tif", tiff(NOT_A_NUMBER), "finite, found NaN"
    ),
    "mode": Refused(TIFF, "a/x.tif", tiff(values(6, 5, 3), "cielab"), "found mode LAB; save"),
    "compression": Refused(
        TIFF, "a/x.tif", with_byte(tiff(values(6, 5)), b"\x03\x01\x03\0\1\0\0\0", 9),
        r"a compression or values of a type that is not read\); save it anew",
    ),
    "unread compression": Refused(
        TIFF, "a/x.tif", with_byte(tiff(values(6, 5)), b"\x03\x01\x03\0\1\0\0\0", 8),
        r"\(decoder error -2\); bring it whole, save it anew",
    ),
    "signed JPEG 2000": Refused(
        f'{FOLDER}formats = ["PNG", "JPEG2000"]\nwindow = "image"\n', "a/x.jp2",
        with_byte(picture(DEEP, "JPEG2000"), b"\xff\x4f\xff\x51", 0x8F, 38),
        "values in JPEG 2000 must not have a sign; save it as TIFF",
    ),
    "double": Refused(TIFF, "a/x.tif", tiff(values(6, 5) / 2), "of a type that is not read"),
    "two pages": Refused(
        FOLDER, "a/x.png",
        picture(values(6, 5), save_all=True, append_images=[Image.fromarray(values(6, 5))]),
        "must be one image, found 2; save each, or the one that counts, in",
    ),
    "no mask": masked(b"")._replace(words=r"m/a/x.png .*\(No such file or directory\); bring it"),
    "empty mask": masked(picture(np.zeros((6, 5), np.uint8)))._replace(words="of 30; draw"),
    "other mask": masked(picture(np.ones((6, 4), np.uint8)))._replace(words="size, .*; draw it"),
    "JPEG mask": masked(picture(values(6, 5), "JPEG"))._replace(words="it is JPEG, not PNG"),
    "NIfTI text": Refused(SLICED, "a/x.nii", b"text", "348 bytes, found 4", "", "nifti"),
    "NIfTI packed": Refused(
        SLICED, "a/x.nii", gzip.compress(nifti(SMALL)), "found an archive of gzip; n",
        "", "nifti",
    ),
    "NIfTI unpacked": Refused(
        SLICED, "a/x.nii.gz", nifti(SMALL), "found no archive of gzip; name it .nii,",
        "", "nifti",
    ),
    "NIfTI more": Refused(
        SLICED, "a/x.nii.gz", gzip.compress(nifti(SMALL) + bytes(3 << 20)),
        r"unpacks to more than its header says\); bring it again, write it anew", "", "nifti",
    ),
    "NIfTI axes": Refused(
        SLICED, "a/x.nii", nifti(values(6, 5, 1, 2)), "three axes .*; save", "", "nifti"
    ),
    "NIfTI dim[0]": Refused(
        SLICED, "a/x.nii", nifti(SMALL, 40, b"\x08\0"), "1 to 7, found 2048; write", "", "nifti"
    ),
    "NIfTI sides": Refused(
        SLICED, "a/x.nii", nifti(SMALL, 44, b"\0\0"), "axes of 1 or more", "", "nifti"
    ),
    "NIfTI type": Refused(
        SLICED, "a/x.nii", nifti(SMALL, 70, b"\x4d\0"), r"unknown \(77\)", "", "nifti"
    ),
    "NIfTI slice": Refused(
        SLICED, "a/x.nii", nifti(values(6, 6, 1)),
        r"up to 31 bytes, found \(6, 6\) voxels of 1 byte\(s\); cut", "", "nifti",
    ),
    "NIfTI mask": Refused(
        f'{SLICED}size = 4\nmasks = "m/{{class}}/*.nii"\n', "a/x.nii", nifti_masks,
        r"m/a/x.nii: a mask must have up to 32 voxels, found \(6, 6, 1\); cut it to pieces",
        "", "nifti",
    ),
    "NIfTI labels": Refused(
        SLICED, "a/x.nii", nifti(SMALL, 68, b"\xea\x03"), "map of labels", "", "nifti"
    ),
    "NIfTI depth": Refused(
        WHOLE, "b/x.nii", nifti(values(6, 5, 3)), r"slices = \[fewest, most\]",
        "slices = [1, 3]", "nifti",
    ),
    "NIfTI size": Refused(
        WHOLE, "b/x.nii", nifti(values(9, 5, 3)), "; save volumes of one size, or",
        "", "nifti",
    ),
    "DICOM text": Refused(DICOM, "a/x.dcm", b"text" * 99, "no DICOM file, or one", "", "dicom"),
    "DICOM packed": Refused(DICOM, "a/x.dcm.gz", b"\x1f\x8b" * 99, "no DICOM file", "", "dicom"),
    "DICOM cut": Refused(DICOM, "a/x", broken, "the file is cut off: bring", "", "dicom"),
    "DICOM JPEG": Refused(
        DICOM, "a/x", damaged_jpeg, r"\(gdcm makes no pixels of a frame\); bring", "", "dicom"
    ),
    "DICOM colour": Refused(
        DICOM, "a/x", dicom(pixels=values(5, 7, 3), PhotometricInterpretation="RGB"), "found col",
        "", "dicom",
    ),
    "DICOM sides": Refused(DICOM, "a/x", dicom(Rows=0, Columns=7), "found 0; correct", "", "dicom"),
    "DICOM samples": Refused(
        DICOM, "a/x", dicom(SamplesPerPixel=3), "must be 1 with MONOCHROME2, found 3", "", "dicom"
    ),
    "DICOM size": Refused(
        DICOM, "a/x", dicom(pixels=values(5, 8)), "must be 1 to 36 bytes, found 40; cut the im",
        "", "dicom",
    ),
    "DICOM floats": Refused(
        DICOM, "a/x", floating, "and its pixels are floating numbers; write them", "", "dicom"
    ),
    "DICOM frames": Refused(DICOM, "a/x", dicom(NumberOfFrames=0), "found '0'; co", "", "dicom"),
    "DICOM slope": Refused(
        DICOM + 'window = "image"\n', "a/x", dicom(RescaleSlope="1e307", RescaleIntercept="0"),
        r"RescaleSlope \(0028,1053\) must leave values finite", "", "dicom",
    ),
    "DICOM name": Refused(
        DICOM, "a/x", dicom(BurnedInAnnotation="YES"), "is YES; give b", 'burnt_in = "accept"',
        "dicom",
    ),
    "DICOM report": Refused(
        DICOM, "a/x", dicom(SOPClassUID="1.2.840.10008.5.1.4.1.1.88.11"), "no image but Basic Text",
        "", "dicom",
    ),
    "DICOM syntax": Refused(
        DICOM, "a/x", of_another_syntax, r"says, 1.2.840.10008.1.2.5, found uncompressed; write it",
        "", "dicom",
    ),
    "DICOM frame": Refused(
        DICOM, "a/x",
        dicom(
            pixels=values(2, 5, 7), NumberOfFrames=2, syntax=JPEGBaseline8Bit,
            encoded=[picture(values(5, 7), "JPEG")],
        ),
        "frame 2 is missing; bring", "", "dicom",
    ),
    "planes": Refused(
        COLOUR, "a/x", dicom(**RGB, pixels=values(5, 7, 3), PlanarConfiguration=5),
        "must be 0 or 1, found 5; correct", "", "colour",
    ),
    "signed colour": Refused(
        COLOUR, "a/x", dicom(**RGB, pixels=values(5, 7, 3).astype("i2"), PixelRepresentation=1),
        "must be 0 in colour, found 1; correct", "", "colour",
    ),
    "deep YBR": Refused(
        COLOUR, "a/x",
        dicom(pixels=values(5, 7, 3).astype("u2"), PhotometricInterpretation="YBR_FULL"),
        "must be 8 with YBR_FULL, found 16; correct", "", "colour",
    ),
    "YBR of JPEG 2000": Refused(
        COLOUR, "a/x", dicom(pixels=values(5, 7, 3), PhotometricInterpretation="YBR_ICT"),
        "of JPEG 2000 only; correct", "", "colour",
    ),
    "YBR of JPEG": Refused(
        COLOUR, "a/x",
        dicom(
            pixels=values(5, 7, 3), PhotometricInterpretation="YBR_ICT", syntax=JPEGBaseline8Bit,
            encoded=[picture(values(5, 7, 3), "JPEG")],
        ),
        "of JPEG 2000 only; correct", "", "colour",
    ),
    "segments": Refused(
        COLOUR, "a/x",
        dicom(pixels=values(5, 7, 3), **RGB, syntax=RLELossless, encoded=[b"\1" + bytes(99)]),
        r"must have 3 segment\(s\), .*, found 1; write the file anew", "", "colour",
    ),
    "palette": Refused(
        COLOUR, "a/x", dicom(PhotometricInterpretation="PALETTE COLOR"),
        "found 'PALETTE COLOR'; convert it to RGB or gray", "", "colour",
    ),
    "YBR in whole": Refused(
        COLOUR, "a/x", dicom(pixels=values(5, 8, 3), PhotometricInterpretation="YBR_FULL_422"),
        "422, which needs even Columns and two bytes a pixel; correct it, as", "", "colour",
    ),
    "windows": Refused(
        f'{VOLUMES}window = "header"\nslices = [2, 2]\n', "a/x", two_windows,
        r"WindowCenter \(0028,1050\) must be one for all slices of a volume; give w", "", "series",
    ),
    "slice lost": Refused(
        VOLUMES, "a/0/2", dicom(3, "4.0"), "at equal steps, found 1 to 2 mm; bring", "", "series"
    ),
    "slice cut": Refused(VOLUMES, "a/0/1", broken, "1 beside it, perhaps a slice", "", "series"),
    "scout": Refused(
        VOLUMES, "a/0/2", dicom(2, "4.0", ImageOrientationPatient=[0, 1, 0, 0, 0, 1]),
        "found several; leave out slices", "", "series",
    ),
}  # fmt: skip


LIMITS = {
    "too large": (Image, "MAX_IMAGE_PIXELS", 40),
    "NIfTI slice": (covdp.addons.hospital.nifti, "IMAGE_BYTES", 31),
    "NIfTI mask": (covdp.addons.hospital.nifti, "LARGEST_VOLUME", 4),
    "DICOM size": (pixels, "IMAGE_BYTES", 36),
}
"""Limits that are lower in a case."""


def write(root: Path, card: str, files: dict[str, Content]) -> None:
    """Write a card and its files."""
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content) if isinstance(content, bytes) else content(file)
    (root / "c.toml").write_text(card)


def put(root: Path, case: Refused) -> None:
    """Write a card, good files, and the one of a case."""
    write(root, case.card, {**sources(case.kind), f"ward/{case.file}": case.content})


def count(root: Path) -> int:
    """Read all images and masks; return how many there are."""
    source = open_dataset(root / "c.toml", root)
    return sum(len(images) for images, _ in source.with_masks(source.select().rows, 64))


@pytest.mark.parametrize("name", CASES)
def test_a_way_out_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A file is refused in one line, true words of it; as they say, all other images are read."""
    case = CASES[name]
    if name in LIMITS:
        monkeypatch.setattr(*LIMITS[name])
    if name == "too large":
        case = case._replace(content=picture(values(9, 9)))
    put(tmp_path, case)
    with pytest.raises(DatasetError, match=case.words) as caught:
        count(tmp_path)
    assert re.fullmatch(r"[^\n]+; [^\n]+, or leave the image out with exclude", str(caught.value))
    card = find_card(tmp_path / "c.toml")
    found = inspect(card, fetch(card, tmp_path))
    assert any(re.search(case.words, fault.reason) for fault in found.faults)
    assert not found.layout
    if case.key:
        (tmp_path / "c.toml").write_text(f"{case.card}{case.key}\n")
        assert count(tmp_path) == GOOD + 1
    (tmp_path / "out.txt").write_bytes(exclusion_list(found.faults, ()))
    (tmp_path / "c.toml").write_text(f'{case.card}exclude = "out.txt"\n')
    assert count(tmp_path) == GOOD - case.file.startswith("a/0/")


@pytest.mark.parametrize("folder", ["in the card", "x; give size in the card"])
def test_no_name_of_a_folder_is_taken_for_a_way_out(tmp_path: Path, folder: str) -> None:
    """A damaged file is none that a key of the card cures, wherever it is."""
    put(tmp_path / folder, CASES["cut"])
    with pytest.raises(ImageError, match=re.escape(folder)) as caught:
        count(tmp_path / folder)
    assert not isinstance(caught.value, CurableError)


def test_a_key_that_most_files_need_is_no_reason_to_leave_them_out(tmp_path: Path) -> None:
    """Where most files need a key of the card, none is listed: a list would leave nothing."""
    for more, key, kind in (
        ("frames = [9]\naxis = 2\nwindow = [0, 255]\n", "frames", "nifti"),
        ("volumes = true\nslices = [5, 6]\n", "slices", "series"),
        ("", "window", "deep"),
    ):
        root = tmp_path / key
        card = (NIFTI if kind == "nifti" else DICOM).replace("window = [0, 255]\n", "") + more
        deep = {f"ward/{x}/{i}": dicom(pixels=DEEP) for x in "ab" for i in range(2)}
        for name, content in (deep if kind == "deep" else sources(kind)).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content) if isinstance(content, bytes) else content(
                root / name
            )
        (root / "c.toml").write_text(card)
        made = find_card(root / "c.toml")
        found = inspect(made, fetch(made, root))
        assert len(found.faults) >= GOOD
        assert not any(fault.listed for fault in found.faults)
        assert all(re.search(rf"\b{key}\b", x.reason) and x.curable for x in found.faults)
        assert not found.layout  # classes have images, though none can be read


def test_no_list_leaves_out_both_of_two(tmp_path: Path) -> None:
    """Of an image that a link repeats, the link is left out; of two of one mask, the second."""
    link = Refused(FOLDER, "a/x.png", lambda file: file.symlink_to("0.png"), "")
    put(tmp_path, link)
    card = find_card(tmp_path / "c.toml")
    (fault,) = inspect(card, fetch(card, tmp_path)).faults
    assert "leave the link out with exclude" in fault.reason
    assert not fault.listed
    (tmp_path / "out.txt").write_text("a/x.png\n")
    (tmp_path / "c.toml").write_text(f'{FOLDER}exclude = "out.txt"\n')
    assert count(tmp_path) == GOOD
    (tmp_path / "ward/a/x.png").unlink()
    masks = masked(picture(np.ones((6, 5), np.uint8)))
    put(tmp_path, masks)
    (tmp_path / "ward/a/x.jpg").write_bytes(picture(values(6, 5), "JPEG"))
    card = find_card(tmp_path / "c.toml")
    (fault,) = inspect(card, fetch(card, tmp_path)).faults
    assert "is the mask of two images" in fault.reason
    (tmp_path / "out.txt").write_bytes(exclusion_list([fault], ()))
    (tmp_path / "c.toml").write_text(f'{masks.card}exclude = "out.txt"\n')
    assert count(tmp_path) == GOOD + 1


@pytest.mark.parametrize(
    ("more", "rows", "words"),
    [
        ("", b"a\n", r"class 'a' has no image left, as out.txt leaves out 2; take rows out"),
        ("", "a/0.png".encode("utf-16"), r"out.txt must be text in UTF-8, found bytes of 0"),
        ("", None, r"exclude = 'out.txt' leads out of the folder .*; put the list itself there"),
        ('pattern = "{class}/[z-a]"\n', b"", r"cannot be read: bad character range z-a; mend it"),
        ("window = [5, 5]\n", b"", r"window must be .* low < high, found \(5.0, 5.0\)"),
        ("classes_per_person = 2\n", b"", 'classes_per_person needs unit = "person"'),
        (
            'unit = "person"\nclasses_per_person = 3\npattern = "{class}/{person}.png"\n',
            b"",
            "at most the number of classes, 2, found 3",
        ),
        (f'pattern = "{{class}}/{"x" * 4096}"\n', b"", "up to 4,096 letters, found 4,104"),
        ('window = "auto"\n', b"", r"must be \[low, high\], \"image\" or \"header\", found 'auto'"),
        ('path = "c.toml"\n', b"", r"c.toml must be a folder of images; correct path or kind"),
    ],
)
def test_a_card_is_told_what_is_wrong_with_it(
    tmp_path: Path, more: str, rows: bytes | None, words: str
) -> None:
    """What a list or a key does is stated, and not what follows of it."""
    card = FOLDER.replace('path = "ward"\n', "") if "path" in more else FOLDER
    put(tmp_path, Refused(f'{card}{more}exclude = "out.txt"\n', "a/0.png", PNG, ""))
    if rows is None:
        (tmp_path / "out.txt").symlink_to("/etc/hostname")
    else:
        (tmp_path / "out.txt").write_bytes(rows)
    with pytest.raises(DatasetError, match=words):
        count(tmp_path)


@pytest.mark.parametrize(
    ("end", "change", "words"),
    [
        (
            "csv",
            lambda name: name.replace("/", "\\"),
            r"with / between folders, found 'a\\\\0.png'",
        ),
        (
            "csv",
            lambda name: f"C:\\{name}",
            r"must be relative .*, found 'C:\\\\a/0.png'; correct it",
        ),
        ("parquet", lambda name: {"place": name}, "'file' must have text, .* found struct; save"),
        ("parquet", lambda name: [name], "'file' must have text, .* found list; save it so"),
        ("parquet", str.encode, "'file' must have text, .* found binary; save it so"),
    ],
)
def test_a_table_is_told_what_is_wrong_with_its_values(
    tmp_path: Path, end: str, change: Callable[[str], Any], words: str
) -> None:
    """Where a column has no paths that can be followed, that is stated; as text they are read."""
    card = f'kind = "table"\n{HEAD}columns = {{ path = "file", class = "kind" }}\n'
    write(tmp_path, card.replace('"ward"', f'"ward/t.{end}"'), sources("folder"))
    for changed in (change, str):
        names = [file.relative_to(tmp_path / "ward") for file in tmp_path.glob("ward/*/*")]
        table = {"file": [changed(str(x)) for x in sorted(names)], "kind": ["a", "a", "b", "b"]}
        if end == "parquet":
            pq.write_table(pa.table(table), tmp_path / "ward/t.parquet")
        else:
            rows = ["file,kind", *map(",".join, zip(*table.values(), strict=True))]
            (tmp_path / "ward/t.csv").write_text("\n".join(rows))
        if changed is str:
            assert count(tmp_path) == GOOD
        else:
            with pytest.raises(DatasetError, match=words):
                count(tmp_path)


@pytest.mark.parametrize(
    ("classes", "size", "words"),
    [
        ("ihc", 0, "needs a size and classes out of ihc, retina, cell, found none, ihc"),
        ("liver", 64, "needs a size and classes out of ihc, retina, cell, found 64, liver"),
        ("ihc", 513, "size must be up to 512, the shortest side of the pictures, found 513"),
    ],
)
def test_embedded_tiles_have_bounds(tmp_path: Path, classes: str, size: int, words: str) -> None:
    """A card of tiles has a size, which its pictures have, and classes that are there."""
    card = f'kind = "tiles"\nchannels = 1\nclasses = ["{classes}"]\n'
    write(tmp_path, card + f"size = {size}\n" * bool(size), {})
    with pytest.raises(DatasetError, match=words):
        count(tmp_path)
    write(tmp_path, card.replace("liver", "ihc") + "size = 512\n", {"ihc.png": PNG[:60]})
    assert count(tmp_path) == 1
    with pytest.raises(DatasetError, match=r"cannot read .*ihc.png; install scikit-image again"):
        tiles.opened(tmp_path / "ihc.png")


def test_segmentations_that_cannot_be_read_are_there(tmp_path: Path) -> None:
    """Where the only segmentation is at fault, that is stated, and not that there is none."""
    put(
        tmp_path,
        Refused(f'{DICOM}masks = "m/*"\n', "a/x", dicom(SOPInstanceUID="1.2.9"), "", "", "dicom"),
    )
    write_segmentation(
        tmp_path / "ward/m/s", np.ones((2, 5, 7), np.uint8), [("1.2.9", None)] * 2, segments=[1, 2]
    )
    card = find_card(tmp_path / "c.toml")
    found = inspect(card, fetch(card, tmp_path))
    assert "has 2 segments" in str(found.error)
    assert [fault.file for fault in found.faults] == ["m/s"]
    (tmp_path / "ward/m/s").unlink()
    (tmp_path / "ward/m/s").symlink_to("nowhere")
    found = inspect(card, fetch(card, tmp_path))
    assert "m/s cannot be read (No such file or directory); bring it, or" in str(found.error)


def test_unreadable_files_and_odd_splits_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that may not be read says so; a folder that is no split is not passed by."""
    put(tmp_path, Refused(FOLDER, "a/x.png", PNG, ""))
    opened = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("x.png"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(DatasetError, match=r"x.png .*\(Permission denied\); make it readable"):
            count(tmp_path)
        (tmp_path / "c.toml").write_text(f'{FOLDER}exclude = "x.png"\n')
        (tmp_path / "x.png").write_text("a/x.png")
        with pytest.raises(DatasetError, match="in the card names; make it readable, or take"):
            count(tmp_path)
    (tmp_path / "c.toml").write_text(FOLDER)
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: not str(path).endswith("ward/a"))
        card = find_card(tmp_path / "c.toml")
        found = inspect(card, tmp_path / "ward")
        (fault,) = found.faults
        assert "cannot be listed (Permission denied); make it readable, or leave it" in fault.reason
        assert (fault.file, fault.listed, found.layout) == ("a", False, ())
    for split in ("train", "valid"):
        for name, content in sources("folder").items():
            place = tmp_path / name.replace("ward", f"sets/{split}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)  # type: ignore[arg-type]
    head = HEAD.replace("ward", "sets")
    (tmp_path / "c.toml").write_text(f'kind = "folder"\n{head}pattern = "{{split}}/{{class}}/*"\n')
    card = find_card(tmp_path / "c.toml")
    (text,) = inspect(card, fetch(card, tmp_path)).layout
    assert text == "folder 'valid' is of no split; name it train, val, test, or move it away"


@pytest.mark.parametrize(
    ("kind", "fails", "words"),
    [
        ("folder", "open", r"cannot read .*a/0.png \(Too many open files\), as this machine has"),
        ("nifti", "open", r"cannot read .*a/0.nii \(Too many open files\), as this machine has"),
        ("dicom", "scandir", r"cannot list .*ward/a \(Too many open files\), as this machine has"),
        ("folder", "submit", r"no thread starts \(can't start new thread\), as this machine has"),
        ("dicom", "/no/python", r"no process starts .*\(No such file .*`/no/python -P .* prints"),
        ("dicom", "/bin/false", r"no process starts .* ended by exit code 1\); .*\(ulimit -u\)"),
    ],
)
def test_no_file_is_blamed_for_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, fails: str, words: str
) -> None:
    """Where too little is left to read with, no file is at fault, and none is left out."""
    content = [picture(values(5, 7), "JPEG")]
    files = sources(kind)
    if fails.startswith("/"):
        files = {x: dicom(syntax=JPEGBaseline8Bit, encoded=content) for x in files}
    write(tmp_path, {"nifti": SLICED, "dicom": DICOM}.get(kind, FOLDER), files)
    function = getattr(os, fails, None)

    def refuse(path: Any, *arguments: Any, **options: Any) -> Any:
        if "ward/a" in str(path):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return function(path, *arguments, **options)

    def no_thread(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    if fails.startswith("/"):
        monkeypatch.setattr(sys, "executable", fails)
        monkeypatch.setattr(decoder, "_IDLE", [])
    elif fails == "submit":
        monkeypatch.setattr(ThreadPoolExecutor, fails, no_thread)
    else:
        monkeypatch.setattr(os, fails, refuse)
    card = find_card(tmp_path / "c.toml")
    for read in (lambda: count(tmp_path), lambda: inspect(card, fetch(card, tmp_path))):
        with limited_to(2), pytest.raises(MachineError, match=words):
            read()


@pytest.mark.parametrize("kind", ["folder", "nifti"])
def test_memory_is_stated_where_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An image that memory does not hold says so."""

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    write(tmp_path, SLICED if kind == "nifti" else FOLDER, sources(kind))
    if kind == "nifti":
        monkeypatch.setattr(covdp.addons.hospital.nifti, "_shown", fail)
    else:
        monkeypatch.setattr(Image.Image, "convert", fail)
    with pytest.raises(ImageError, match=r"takes more memory than there is.*; .*read it with more"):
        count(tmp_path)


def archive(*shape: int) -> bytes:
    """Return a .npz of images of class 0, and one of class 1."""
    stream = io.BytesIO()
    labels = np.arange(shape[0]) == 0
    np.savez(stream, train_images=values(*shape), train_labels=labels)
    return stream.getvalue()


NPZ = 'kind = "npz"\nlocal = true\npath = "d.npz"\nchannels = 1\nclasses = ["a", "b"]\n'


@pytest.mark.parametrize(
    ("card", "file", "before", "after"),
    [
        (NPZ, "d.npz", archive(4, 6, 5), archive(3, 6, 5)),
        (NPZ, "d.npz", archive(4, 6, 5), archive(5, 6, 5)),
        (NPZ, "d.npz", archive(4, 6, 5), archive(4, 5, 5)),
        (f"{NIFTI}axis = 0\nsize = 4\n", "ward/a/0.nii", nifti(SMALL), nifti(values(3, 5, 1))),
        (SLICED, "ward/a/0.nii", nifti(SMALL), nifti(SMALL.astype("u2"))),
        (
            f'{SLICED}size = 4\nmasks = "*.nii"\n', "0.nii",
            nifti(np.ones((6, 5, 2), "u1")), nifti(np.ones((6, 5, 1), "u1")),
        ),
    ],
)  # fmt: skip
def test_a_file_that_changes_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, card: str, file: str, before: bytes,
    after: bytes,
) -> None:  # fmt: skip
    """A file that is another one than when it was listed says so; read again, it is read."""
    if "masks" in card:
        (tmp_path / file).write_bytes(before)
        planes = covdp.addons.hospital.nifti.read_planes(tmp_path / file, 2, [1])
        (tmp_path / file).write_bytes(after)
        with pytest.raises(ImageError, match=r"0.nii has changed since it was listed; read the im"):
            next(planes)
        return
    write(tmp_path, card, (sources("nifti") if "nifti" in card else {}) | {file: before})
    source = open_dataset(tmp_path / "c.toml", tmp_path)
    alike = covdp.addons.hospital.nifti._check_alike

    def change(card: Any, first: Any, volume: Any) -> None:
        alike(card, first, volume)
        if volume.file == tmp_path / file:
            volume.file.write_bytes(after)

    if card == SLICED:
        monkeypatch.setattr(covdp.addons.hospital.nifti, "_check_alike", change)
    else:
        (tmp_path / file).write_bytes(after)
    with pytest.raises(ImageError, match=f"{file} has changed since it was listed; read the im"):
        list(source.chunks())
    monkeypatch.undo()
    assert count(tmp_path)


def test_a_list_names_what_is_stated_to_be_left_out(tmp_path: Path) -> None:
    """A damaged file of all images is not listed, as its card leaves nothing out."""
    write(tmp_path, NPZ, {"d.npz": with_byte(archive(4, 6, 5), b"\n", 0, 9)})
    card = find_card(tmp_path / "c.toml")
    (fault,) = inspect(card, fetch(card, tmp_path)).faults
    assert fault.reason.endswith("(Bad CRC-32 for train_images.npy); download or save it again")
    assert exclusion_list([fault], ()) == b""


@pytest.mark.parametrize(("make", "words"), [(Path.mkdir, "a folder"), (os.mkfifo, "a named pipe")])
def test_a_download_is_a_file(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    """What stands in the place of a file that would be downloaded is not waited for."""
    file = f'[[files]]\nsize = 28\nurl = "https://x/d.npz"\nmd5 = "{"0" * 32}"\n'
    head = 'kind = "npz"\nchannels = 1\nclasses = ["a", "b"]\n'
    write(tmp_path, head + file, {"c.npz": make})
    with pytest.raises(DatasetError, match=f"c.npz is not a file but {words}; bring the file"):
        count(tmp_path)


def test_a_name_that_is_no_text_is_written_to_a_page(tmp_path: Path) -> None:
    """Names may have bytes that are no letters; a page shows their codes."""
    text = os.fsdecode(b"\xff.png")
    assert write_whole(tmp_path / "page.html", text).read_bytes() == b"\\udcff.png"


def test_a_reader_that_is_left_ends_where_it_is_collected() -> None:
    """A refusal leaves a reader to the collector, which may run where a thread begins.

    There a lock is held that a thread needs to end, so that none may be joined.
    """

    def read() -> Iterator["Future[None]"]:
        with side_by_side() as submit:
            yield submit(time.sleep, 0.05)

    def leave() -> None:
        with getattr(threading, "_shutdown_locks_lock", threading.Lock()):
            reader.close()

    reader = read()
    with limited_to(2):
        job = next(reader)
    thread = threading.Thread(target=leave, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert job.done()  # what has begun is waited for all the same
