"""What stands beside images and is none, what is no part of one, and scales that mean nothing."""

import copy
import io
import itertools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.encaps import encapsulate, generate_frames
from pydicom.uid import UID_dictionary
from sample_dicom import item, write_dicom, write_segmentation

from covdp.addons.hospital.dicom.header import check_image, read_header, readable, scaling
from covdp.datasets import open_dataset
from covdp.datasets.draft import draft_card
from covdp.errors import DatasetError, ImageError, MismatchError

CARD = 'kind = "dicom"\nchannels = 1\npath = "ward"\nclasses = ["a", "b"]\nburnt_in = "accept"\n'
GRAY = np.arange(64, dtype=np.uint16).reshape(8, 8) * 60


def read(root: Path, more: str = "window = [0, 4095]\n", label: int | None = 0) -> NDArray[Any]:
    """Return the images of a class."""
    (root / "ward.toml").write_text(CARD + more)
    return np.concatenate([*open_dataset(root / "ward.toml", root).chunks(label=label)])


def ward(root: Path, **elements: Any) -> Path:
    """Write an image a class; return the file of the first."""
    write_dicom(root / "ward/b/1.dcm", GRAY)
    return write_dicom(root / "ward/a/1.dcm", GRAY, **elements)


def classes_of_no_images() -> list[str]:
    """Return all classes of the standard that have stored objects and are no images."""
    names = {uid: entry[0] for uid, entry in UID_dictionary.items() if entry[1] == "SOP Class"}
    newer = ["1.2.840.10008.5.1.4.1.1.66.7", "1.2.840.10008.5.1.4.1.1.66.8"]
    return newer + [
        uid
        for uid, name in names.items()
        if "Storage" in name and "Image" not in name and "US Volume" not in name
    ]


def test_only_images_are_images(tmp_path: Path) -> None:
    """Objects of no class but images' are read: dose, maps, segmentations, states, documents."""
    file = ward(tmp_path)
    others = classes_of_no_images()
    assert len(others) > 90
    for uid in others:
        write_dicom(file, GRAY, SOPClassUID=uid)
        with readable(file) as stream, pytest.raises(ImageError, match="is no image but "):
            check_image(file, read_header(stream, file).elements)
    for uid, entry in UID_dictionary.items():
        if entry[1] == "SOP Class" and "Image Storage" in entry[0]:
            write_dicom(file, GRAY, SOPClassUID=uid)
            with readable(file) as stream:
                check_image(file, read_header(stream, file).elements)
    for modality in ("SEG", "RTDOSE", "PR", "KO"):  # drawn, and written as a capture
        write_dicom(file, GRAY, Modality=modality)
        with pytest.raises(DatasetError, match=f"is no image but .*modality {modality}"):
            read(tmp_path)
    write_dicom(file, GRAY, SOPClassUID="1.3.12.2.1107.5.9.1", Modality="CT")  # a maker's own
    assert read(tmp_path).shape == (1, 8, 8)
    data = pydicom.dcmread(file)
    del data.SOPClassUID
    data.save_as(file)
    assert read(tmp_path).shape == (1, 8, 8)


@pytest.mark.parametrize("name", ["rtdose_1frame.dcm", "rtdose.dcm", "rtplan.dcm", "reportsi.dcm"])
def test_a_draft_counts_no_other_objects(name: str, tmp_path: Path) -> None:
    """Real objects beside images are named, and are no images of a class."""
    for label in "ab":
        for number in range(3):
            write_dicom(tmp_path / f"ward/{label}/{number}.dcm", GRAY)
    (tmp_path / "ward/a/other.dcm").write_bytes(Path(get_testdata_file(name)).read_bytes())
    draft = draft_card(tmp_path / "ward")
    assert [count.images for count in draft.counts] == [3, 3]
    assert [x.file for x in draft.odd if not x.curable] == ["a/other.dcm"]
    assert any("files that cannot be read: 1" in line for line in draft.open)


def test_a_label_map_is_no_mask(tmp_path: Path) -> None:
    """At the place of masks one is refused for what it is, and not skipped."""
    file = ward(tmp_path)
    uid = str(pydicom.dcmread(file).SOPInstanceUID)
    frames = np.ones((1, 8, 8), np.uint8)
    more = 'window = [0, 4095]\nmasks = "masks/*"\nframes = "masked"\n'
    write_segmentation(tmp_path / "ward/masks/1", frames, [(uid, None)])
    assert len(read(tmp_path, more)) == 1
    label_map = "1.2.840.10008.5.1.4.1.1.66.7"
    write_dicom(tmp_path / "ward/masks/2", GRAY.astype(np.uint8), SOPClassUID=label_map)
    with pytest.raises(DatasetError, match="is a label map, which is not read as a mask"):
        read(tmp_path, more)


def test_masks_of_other_images_are_said_to_be(tmp_path: Path) -> None:
    """A class whose images no segmentation names has images, and the refusal says so."""
    ward(tmp_path)
    write_segmentation(tmp_path / "ward/masks/1", np.ones((1, 8, 8), np.uint8), [("1.2.3", None)])
    more = 'window = [0, 4095]\nmasks = "masks/*"\nframes = "masked"\n'
    with pytest.raises(MismatchError, match=r"no DICOM image that a mask at 'masks/\*' is of"):
        read(tmp_path, more)


def test_an_item_astray_ends_nothing(tmp_path: Path) -> None:
    """A mark of an item among the elements is skipped, as pydicom does."""
    file = ward(tmp_path)
    whole, content = read(tmp_path), file.read_bytes()
    at = content.index(struct.pack("<HH", 0x28, 0x10) + b"US")
    for mark, length in itertools.product((0xE000, 0xE00D, 0xE0DD), (0, 0xFFFFFFFF)):
        astray = struct.pack("<HHI", 0xFFFE, mark, length)
        file.write_bytes(content[:at] + astray + content[at:])
        np.testing.assert_array_equal(read(tmp_path), whole)
    data = pydicom.dcmread(ward(tmp_path))
    data.ReferencedImageSequence = [item(ReferencedFrameNumber=1)]
    data["ReferencedImageSequence"].is_undefined_length = True  # so it is not skimmed
    data.save_as(file)
    content = file.read_bytes()
    at = content.index(struct.pack("<HH", 0x28, 0x10) + b"US")
    file.write_bytes(content[:at] + struct.pack("<HHI", 0xFFFE, 0xE000, 0) + content[at:])
    np.testing.assert_array_equal(read(tmp_path), whole)


@pytest.mark.parametrize("slope", ["0", "-0.0", "0e5", "nan", "inf", "1_0", "", "1e999"])
def test_a_slope_of_nothing_is_refused(slope: str, tmp_path: Path) -> None:
    """In the file, and in the functional groups of a frame."""
    for frames in (False, True):
        elements: dict[str, Any] = {"RescaleIntercept": "3"}
        if slope:
            elements["RescaleSlope"] = "1"
        if frames:
            group = item(PixelValueTransformationSequence=[item(**elements)])
            elements = {
                "NumberOfFrames": 1,
                "SharedFunctionalGroupsSequence": [Dataset()],
                "PerFrameFunctionalGroupsSequence": [group],
            }
        file = ward(tmp_path, **elements)
        content = file.read_bytes()
        tag = struct.pack("<HH", 0x28, 0x1053)
        if slope:
            old = tag + b"DS\x02\x001 "
            assert content.count(old) == 1
            new = slope + " " * (len(slope) % 2)
            # lengths of sequences are not defined here, so that an element may grow
            file.write_bytes(
                content.replace(old, tag + b"DS" + struct.pack("<H", len(new)) + new.encode())
            )
            if frames and len(new) > 2:
                continue
        with pytest.raises(DatasetError, match=r"RescaleSlope \(0028,1053\) must"):
            read(tmp_path)


def padded(
    root: Path, values: NDArray[Any], window: str, volumes: bool = False, **elements: Any
) -> NDArray[Any]:
    """Return what becomes of an image, or of two slices, with padding."""
    for label in "ab":
        for number in range(1 + volumes):
            place = {
                "ImagePositionPatient": [0, 0, number], "PixelSpacing": [1, 1],
                "ImageOrientationPatient": [1, 0, 0, 0, 1, 0], "SeriesInstanceUID": "1.2.3",
            }  # fmt: skip
            write_dicom(root / f"ward/{label}/{number}.dcm", values, **place, **elements)
    more = f"window = {window}\n" + "volumes = true\n" * volumes
    shown = read(root, more)[0]
    return shown[0] if volumes else shown


@settings(max_examples=60)
@given(
    st.sampled_from([np.uint8, np.uint16, np.int16]),
    st.integers(0, 2**16 - 1),
    st.one_of(st.none(), st.integers(0, 2**16 - 1)),
    st.sampled_from(["MONOCHROME1", "MONOCHROME2"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_padding_is_black_and_counts_in_no_window(
    tmp_path_factory: pytest.TempPathFactory,
    kind: type,
    value: int,
    limit: int | None,
    photometric: str,
    volumes: bool,
    seed: int,
) -> None:
    """An image with padding is as one without it, and black where the padding is."""
    root = tmp_path_factory.mktemp("padding")
    info = np.iinfo(kind)
    low = high = value % (int(info.max) + 1)
    if limit is not None:
        low, high = sorted((low, limit % (int(info.max) + 1)))
    values = np.random.default_rng(seed).integers(info.min, info.max, (9, 9), endpoint=True)
    values = values.astype(kind)
    inside = (values >= low) & (values <= high)
    values[:2] = low
    inside[:2] = True
    signed = "h" if info.min < 0 else "H"
    extra: dict[str, Any] = {"PhotometricInterpretation": photometric}
    extra["PixelPaddingValue"] = low
    if limit is not None:
        extra["PixelPaddingRangeLimit"] = high
    assert struct.pack(signed, low)
    shown = padded(root, values, '"image"', volumes, **extra)
    assert not shown[inside].any()
    if inside.all():
        return
    part = values[~inside].astype(np.float64)
    ends = np.percentile(np.tile(part, 1 + volumes), (1, 99))
    levels = 255 * np.clip((part - ends[0]) / max(ends[1] - ends[0], 1e-9), 0, 1)
    levels = 255 - levels if photometric == "MONOCHROME1" else levels
    if ends[0] < ends[1]:
        np.testing.assert_array_equal(shown[~inside], np.rint(levels))


def test_padding_that_no_pixel_can_have_changes_nothing(tmp_path: Path) -> None:
    """Of 12 bits one of more is that of no pixel, and a value that it equals in 12 bits stays."""
    values = GRAY.copy()
    values[0] = 0xF830 & 0xFFF
    plain = padded(tmp_path, values, "[0, 4095]", BitsStored=12)
    shown = padded(tmp_path, values, "[0, 4095]", BitsStored=12, PixelPaddingValue=0xF830)
    np.testing.assert_array_equal(shown, plain)


LETTERS = {
    "ISO_IR 100": "Müller-ß",
    "ISO_IR 101": "Łódź",
    "ISO_IR 144": "Иванов-7",
    "ISO_IR 126": "Αθήνα",
    "ISO_IR 127": "محمد",
    "ISO_IR 138": "שלום",
    "ISO_IR 148": "Şahin-ğ",
    "\\ISO 2022 IR 87": "山田-12",
    "\\ISO 2022 IR 149": "김희중-3",
    "\\ISO 2022 IR 58": "王小东-4",
    "ISO 2022 IR 100\\ISO 2022 IR 144": "Иванов",
    "GB18030": "王小東-5",
    "GBK": "王小东-6",
}
"""Letters that a character set of DICOM has."""


def person_of(file: Path) -> str:
    """Return whose image a file is."""
    with readable(file) as stream:
        return read_header(stream, file).person


@pytest.mark.parametrize("charset", LETTERS)
def test_a_person_is_one_in_every_encoding(charset: str, tmp_path: Path) -> None:
    """In its own set, in UTF-8, in UTF-8 that no set is named for, and with a set left out."""
    name, sets = LETTERS[charset], charset.split("\\")
    own = ward(tmp_path, SpecificCharacterSet=sets, PatientID=name)
    assert person_of(own) == name
    utf = write_dicom(tmp_path / "utf", GRAY, SpecificCharacterSet="ISO_IR 192", PatientID=name)
    assert person_of(utf) == name
    content = utf.read_bytes()
    for silent in (b"          ", b"ISO_IR 6  "):
        (tmp_path / "silent").write_bytes(content.replace(b"ISO_IR 192", silent))
        assert person_of(tmp_path / "silent") == name
    if sets[0] == "" and b"\x1b" in own.read_bytes():  # what changes letters names their set
        dropped = own.read_bytes().replace(charset.encode(), b" " * len(charset))
        assert dropped != own.read_bytes()
        own.write_bytes(dropped)
        assert person_of(own) == name


@pytest.mark.parametrize("name", ["NA", "nan", "None", "unknown", "ANONYMOUS", "#N/A", "."])
def test_nobody_is_no_person(name: str, tmp_path: Path) -> None:
    """A PatientID that says that nobody knows it is refused, as an empty one is."""
    ward(tmp_path, PatientID=name)
    with pytest.raises(DatasetError, match=r"names a person that is not known, found"):
        read(tmp_path, 'window = [0, 4095]\nunit = "person"\n')
    assert read(tmp_path).shape == (1, 8, 8)


CUT = (
    "SC_rgb_jpeg_gdcm.dcm",
    "SC_rgb_dcmtk_+eb+cr.dcm",
    "MR_small_jp2klossless.dcm",
    "MR_small_RLE.dcm",
    "MR_small_jpeg_ls_lossless.dcm",
)


@pytest.mark.parametrize("name", CUT)
def test_a_frame_that_is_cut_is_refused(name: str, tmp_path: Path) -> None:
    """With an end mark or without, in each way of compression; a whole one is read."""
    data = pydicom.dcmread(str(get_testdata_file(name)))
    (frame,) = generate_frames(data.PixelData, number_of_frames=1)
    frame = frame.rstrip(b"\0")
    card = CARD.replace("channels = 1", f"channels = {data.SamplesPerPixel}")
    more = 'window = "image"\n' if data.SamplesPerPixel == 1 else ""
    (tmp_path / "ward.toml").write_text(card.replace('["a", "b"]', '["a"]') + more)
    (tmp_path / "ward/a").mkdir(parents=True)
    data.save_as(tmp_path / "ward/a/1")
    assert next(open_dataset(tmp_path / "ward.toml", tmp_path).chunks()).shape[0] == 1
    for share in (0.5, 0.8):
        for end in (b"", b"\xff\xd9"):
            cut = copy.deepcopy(data)
            part = frame[: int(share * len(frame))] + end
            cut.PixelData = encapsulate([part + b"\0" * (len(part) % 2)])
            cut["PixelData"].is_undefined_length = True
            cut.save_as(tmp_path / "ward/a/1")
            with pytest.raises(DatasetError, match=r"cut off|not a readable DICOM file"):
                next(open_dataset(tmp_path / "ward.toml", tmp_path).chunks())


def test_a_frame_of_mid_gray_is_whole(tmp_path: Path) -> None:
    """One that ends in what a decoder fills up with is read: nothing is missing."""
    pixels = np.full((40, 40), 128, np.uint8)
    pixels[:9] = np.arange(40) * 6
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=95)
    for label in "ab":
        write_dicom(
            tmp_path / f"ward/{label}/1",
            pixels,
            syntax="1.2.840.10008.1.2.4.50",
            encoded=[stream.getvalue() + b"\0" * (len(stream.getvalue()) % 2)],
        )
    shown = read(tmp_path, "")
    assert np.abs(shown[0].astype(int) - pixels).max() <= 9


def test_scaling_of_padding_is_of_this_file(tmp_path: Path) -> None:
    """In either order of bytes, and not in colour."""
    file = ward(tmp_path, PixelPaddingValue=9, PixelPaddingRangeLimit=5)
    with readable(file) as stream:
        assert scaling(read_header(stream, file), 0, (0, 9)).padding == (5, 9)
    big = write_dicom(tmp_path / "big", GRAY, syntax="1.2.840.10008.1.2.2", PixelPaddingValue=258)
    with readable(big) as stream:
        assert scaling(read_header(stream, big), 0, (0, 9)).padding == (258, 258)
    rgb = np.zeros((4, 4, 3), np.uint8)
    colour = write_dicom(
        tmp_path / "rgb", rgb, PhotometricInterpretation="RGB", PixelPaddingValue=0
    )
    with readable(colour) as stream:
        assert scaling(read_header(stream, colour), 0, None).padding is None
