"""DICOM: the pixels an oracle reads, whose they are, and one line for what may not be guessed."""

import io
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray
from PIL import Image
from pydicom import uid
from pydicom.sequence import Sequence
from sample_dicom import item, oracle, write_dicom

from covdp.addons.hospital.dicom import header
from covdp.addons.hospital.dicom.header import read_elements, read_header
from covdp.datasets import ImageSource, open_dataset
from covdp.descriptors import describe
from covdp.errors import DatasetError, ImageError
from covdp.parallel import limited_to
from tests.tools.trace import Watcher

CARD = 'kind = "dicom"\nchannels = 1\nclasses = ["cat"]\n'
CT = "window = [-160, 240]\n"


def noise(
    seed: int, kind: str, *shape: int, low: int | None = None, high: int | None = None
) -> Any:
    """Return random values of a type, over all of it unless told otherwise."""
    info = np.iinfo(kind)
    rng = np.random.default_rng(seed)
    ends = info.min if low is None else low, info.max if high is None else high
    return rng.integers(*ends, shape or (12, 10), dtype=kind, endpoint=True)


def ward(root: Path, more: str = "", card: str = CARD) -> ImageSource:
    """Open the folder `ward` by a card."""
    (root / "ward.toml").write_text(card + more)
    return open_dataset(root / "ward.toml", root)


def images(root: Path, more: str = "", card: str = CARD) -> NDArray[np.uint8]:
    """Return all images of the folder `ward`."""
    return np.concatenate(list(ward(root, more, card).chunks()))


@pytest.mark.parametrize(
    "syntax", [uid.ExplicitVRLittleEndian, uid.ImplicitVRLittleEndian, uid.ExplicitVRBigEndian]
)
def test_ct_is_what_the_oracle_reads(tmp_path: Path, syntax: str) -> None:
    """Signed values of 16 bits, rescaled and windowed, whatever way they are written in."""
    values = noise(0, "<i2", low=-900, high=1300)
    rescale = {"RescaleSlope": "0.5", "RescaleIntercept": "-24"}
    plain = write_dicom(tmp_path / "plain.dcm", values, **rescale)
    written = values.astype(">i2") if syntax == uid.ExplicitVRBigEndian else values
    write_dicom(tmp_path / "ward/cat/series/1.2.3", written, syntax=syntax, **rescale)
    np.testing.assert_array_equal(images(tmp_path, CT), oracle(plain, (-160, 240)))


@pytest.mark.parametrize("kind", ["<u2", "<i2", "<i4"])
@pytest.mark.parametrize(("stored", "high"), [(12, 11), (12, 15), (10, 13)])
def test_bits_that_are_not_in_use_do_not_count(
    tmp_path: Path, kind: str, stored: int, high: int
) -> None:
    """Whatever stands above the high bit and below the stored ones, the value is the same."""
    values = noise(1, kind)
    more = {"BitsStored": stored, "HighBit": high, "PhotometricInterpretation": "MONOCHROME1"}
    file = write_dicom(tmp_path / "ward/cat/0", values, **more)
    window = (-1000, 3000)
    found = images(tmp_path, f"window = {list(window)}\n")
    np.testing.assert_array_equal(found, oracle(file, window))
    assert len(np.unique(found)) > 20


def test_monochrome1_is_inverted_last(tmp_path: Path) -> None:
    """An X-ray of 12 bits whose low values are white is 255 less what it is otherwise."""
    values = noise(2, "<u2", high=4095)
    for number, meaning in enumerate(("MONOCHROME1", "MONOCHROME2")):
        more = {"PhotometricInterpretation": meaning, "BitsStored": 12}
        write_dicom(tmp_path / f"ward/cat/{number}.dcm", values, **more)
    one, two = images(tmp_path, 'window = [0, 4095]\nmixed = "accept"\n')
    np.testing.assert_array_equal(one, 255 - two)
    one, two = images(tmp_path, 'window = "image"\nmixed = "accept"\n')
    np.testing.assert_allclose(one, 255 - two.astype(float), atol=1)
    with pytest.raises(
        ImageError, match=r"one PhotometricInterpretation \(0028,0004\), found MONO"
    ):
        images(tmp_path, "window = [0, 4095]\n")


@pytest.mark.parametrize("window", [(-100.0, 900.0), "header"])
def test_enhanced_objects_rescale_each_frame(tmp_path: Path, window: Any) -> None:
    """Two frames with two slopes, one shared intercept's group, and windows of their own."""
    values = noise(3, "<i2", 2, 12, 10, low=-100, high=2000)
    groups = [
        item(
            PixelValueTransformationSequence=[item(RescaleSlope=slope, RescaleIntercept="-8")],
            FrameVOILUTSequence=[item(WindowCenter=[center, "1"], WindowWidth=["257", "2"])],
        )
        for slope, center in (("0.25", "100.5"), ("2", "300.5"))
    ]
    file = write_dicom(
        tmp_path / "ward/cat/0.dcm",
        values,
        NumberOfFrames=2,
        RescaleSlope="77",
        RescaleIntercept="0",
        PerFrameFunctionalGroupsSequence=groups,
    )
    found = images(tmp_path, f"window = {json.dumps(window)}\n")
    np.testing.assert_array_equal(found, oracle(file, window))
    shared = write_dicom(
        tmp_path / "ward/cat/0.dcm",
        values,
        NumberOfFrames=2,
        SharedFunctionalGroupsSequence=groups[1:],
    )
    found = images(tmp_path, f"window = {json.dumps(window)}\n")
    np.testing.assert_array_equal(found, oracle(shared, window))


def test_a_header_of_many_frames_is_read_once_unless_the_file_is_written_to(
    tmp_path: Path, watch: Watcher
) -> None:
    """Whatever chunks it is read in; one of the same size and time in its place is read anew."""
    files, values = [], noise(3, "<i2", 20, 12, 10, low=-100, high=2000)
    for number, slope in enumerate(("0.25", "0.75")):
        groups = [
            item(PixelValueTransformationSequence=[item(RescaleSlope=slope, RescaleIntercept="-8")])
        ] * 20
        more = {"NumberOfFrames": 20, "PerFrameFunctionalGroupsSequence": groups}
        files.append(write_dicom(tmp_path / f"{number}.dcm", values, **more))
    place = tmp_path / "ward/cat/0.dcm"
    place.parent.mkdir(parents=True)
    place.write_bytes(files[0].read_bytes())
    source = ward(tmp_path, "window = [0, 500]\n")
    asked = watch(read_header)
    for file in (0, 1):
        assert files[file].stat().st_size == place.stat().st_size
        time.sleep(0.05)  # kernels keep times to some milliseconds
        place.write_bytes(files[file].read_bytes())
        os.utime(place, (0, 0))
        with limited_to(1):  # two threads may both begin with it
            found = np.concatenate(list(source.chunks(size=3)))
        np.testing.assert_array_equal(found, oracle(files[file], (0, 500)))
        assert len(asked) == file + 1


@pytest.mark.parametrize("function", [None, "LINEAR", "LINEAR_EXACT"])
def test_windows_of_the_header(tmp_path: Path, function: str | None) -> None:
    """The first window counts, by the formula of its function."""
    values = noise(4, "<i2", low=-200, high=300)
    more = {"VOILUTFunction": function} if function else {}
    file = write_dicom(
        tmp_path / "ward/cat/0", values, WindowCenter=["40", "9"], WindowWidth=["257", "9"], **more
    )
    found = images(tmp_path, 'window = "header"\n')
    np.testing.assert_array_equal(found, oracle(file, "header"))


def test_sigmoid_of_the_header(tmp_path: Path) -> None:
    """SIGMOID is 255/(1 + exp(−4(x − c)/w))."""
    values = noise(5, "<i2", low=-200, high=300)
    more = {"WindowCenter": "40", "WindowWidth": "100", "VOILUTFunction": "SIGMOID"}
    write_dicom(tmp_path / "ward/cat/0", values, **more)
    wanted = 255 / (1 + np.exp(-4 * (values - 40.0) / 100))
    np.testing.assert_allclose(images(tmp_path, 'window = "header"\n')[0], wanted, atol=0.5 + 1e-9)


def ybr(colour: NDArray[Any]) -> NDArray[np.uint8]:
    """Return Y, Cb and Cr of red, green and blue (PS3.3, C.7.6.3.1.2)."""
    matrix = [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]]
    return np.rint(colour @ np.transpose(matrix) + [0, 128, 128]).clip(0, 255).astype(np.uint8)


def test_colour(tmp_path: Path) -> None:
    """RGB by pixel and by plane is kept; YBR_FULL and _422 become RGB, but for their rounding."""
    colour = np.repeat(noise(6, "u1", 12, 5, 3, low=30, high=220), 2, axis=1)
    luma = ybr(colour)
    halved = np.concatenate([luma[:, ::2, :1], luma[:, 1::2, :1], luma[:, ::2, 1:]], axis=2)
    files: list[tuple[str, NDArray[Any], dict[str, Any]]] = [
        ("RGB", colour, {}),
        ("RGB", np.ascontiguousarray(colour.transpose(2, 0, 1)), {"PlanarConfiguration": 1}),
        ("YBR_FULL", luma, {}),
        ("YBR_FULL_422", halved, {"Columns": 10}),
    ]
    for number, (meaning, values, more) in enumerate(files):
        sides = {"Rows": 12, "Columns": 10, "PhotometricInterpretation": meaning}
        write_dicom(tmp_path / f"ward/cat/{number}", values, **{**sides, **more})
    card = CARD.replace("channels = 1", "channels = 3") + 'mixed = "accept"\n'
    found = images(tmp_path, card=card)
    np.testing.assert_array_equal(found[:2], [colour, colour])
    np.testing.assert_allclose(found[2:].astype(int), [colour.astype(int)] * 2, atol=2)
    more = {"Columns": 10, "Rows": 12, "PhotometricInterpretation": "YBR_FULL_422"}
    frames = np.stack([halved, halved[::-1], halved])
    write_dicom(tmp_path / "ward/cat/4", frames, NumberOfFrames=3, **more)
    turned = images(tmp_path, card=card)[4:].astype(int)
    np.testing.assert_allclose(turned, [found[3], found[3][::-1], found[3]], atol=0)


def by_gdcm(file: Path, syntax: int) -> None:
    """Write a file again in a compressed transfer syntax."""
    import gdcm

    reader = gdcm.ImageReader()
    reader.SetFileName(str(file))
    assert reader.Read()
    change = gdcm.ImageChangeTransferSyntax()
    change.SetTransferSyntax(gdcm.TransferSyntax(syntax))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer = gdcm.ImageWriter()
    writer.SetFileName(str(file))
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    assert writer.Write()


@pytest.mark.parametrize("kind", ["u1", "<i2", "<u2"])
@pytest.mark.parametrize(
    "way", ["RLELossless", "JPEG2000Lossless", "JPEGLSLossless", "JPEGLosslessSV1"]
)
def test_compressed_losslessly(tmp_path: Path, kind: str, way: str) -> None:
    """A file compressed without loss has the pixels that it had before, every frame of them."""
    import gdcm

    values = noise(7, kind, 3, 32, 40, high=4000 if kind != "u1" else 255)
    file = write_dicom(tmp_path / "ward/cat/0", values, NumberOfFrames=3)
    wanted = images(tmp_path, "window = [-50, 3000]\n")
    if way.startswith("JPEGL"):
        names = {"JPEGLSLossless": "JPEGLSLossless", "JPEGLosslessSV1": "JPEGLosslessProcess14_1"}
        by_gdcm(file, getattr(gdcm.TransferSyntax, names[way]))
    else:
        data = pydicom.dcmread(file)
        data.compress(getattr(uid, way), encoding_plugin="pylibjpeg")
        data.save_as(file)
    assert pydicom.dcmread(file).file_meta.TransferSyntaxUID == getattr(uid, way)
    np.testing.assert_array_equal(images(tmp_path, "window = [-50, 3000]\n"), wanted)
    found = images(tmp_path, "window = [-50, 3000]\nframes = [2, 0]\n")
    np.testing.assert_array_equal(found, wanted[[2, 0]])


def test_jpeg_is_decoded_as_jpeg_is(tmp_path: Path) -> None:
    """A baseline frame, gray or colour, is what any JPEG decoder makes of its stream."""
    smooth = np.add.outer(np.arange(32), 3 * np.arange(24)).astype(np.uint8)
    colour = np.stack([smooth, smooth[::-1], 128 - smooth // 2], axis=2).astype(np.uint8)
    for channels, pixels in ((1, smooth), (3, colour)):
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=95, subsampling=0)
        wanted = np.asarray(Image.open(stream)).astype(int)
        meaning = "MONOCHROME2" if channels == 1 else "YBR_FULL"
        write_dicom(
            tmp_path / "ward/cat/0",
            pixels,
            syntax=uid.JPEGBaseline8Bit,
            encoded=[stream.getvalue()],
            PhotometricInterpretation=meaning,
        )
        (found,) = images(tmp_path, card=CARD.replace("channels = 1", f"channels = {channels}"))
        assert np.abs(found - wanted).max() <= 2


def test_frames(tmp_path: Path) -> None:
    """All frames of an ultrasound, the middle one, or some, in the order they are named."""
    values = noise(8, "u1", 5, 12, 10)
    write_dicom(tmp_path / "ward/cat/0.dcm", values, NumberOfFrames=5)
    write_dicom(tmp_path / "ward/cat/1.dcm", values[::-1], NumberOfFrames=5)
    both = np.concatenate([values, values[::-1]])
    np.testing.assert_array_equal(images(tmp_path), both)
    np.testing.assert_array_equal(images(tmp_path, 'frames = "middle"\n'), both[[2, 7]])
    np.testing.assert_array_equal(images(tmp_path, "frames = [4, 1]\n"), both[[4, 1, 9, 6]])
    source = ward(tmp_path)
    rows = np.array([7, 3, 3, 0])
    np.testing.assert_array_equal(np.concatenate(list(source.read(rows, 3))), both[rows])
    with pytest.raises(ImageError, match=r"0.dcm has 5 frame\(s\), and no frame 5; name others"):
        ward(tmp_path, "frames = [0, 5]\n")
    with pytest.raises(DatasetError, match="a list of different indices, found"):
        ward(tmp_path, "frames = [1, 1]\n")


def test_every_door_gives_the_same_descriptors(tmp_path: Path) -> None:
    """The same pixels as an array, as PNG and as DICOM: descriptors equal to the last bit."""
    pixels = noise(9, "u1", 4, 20, 16)
    for number, image in enumerate(pixels):
        write_dicom(tmp_path / f"ward/cat/{number}", image)
        (tmp_path / "png/cat").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / f"png/cat/{number}.png")
    np.savez(tmp_path / "npz.npz", train_images=pixels, train_labels=np.zeros(4, int))
    (tmp_path / "png.toml").write_text(CARD.replace("dicom", "folder"))
    (tmp_path / "npz.toml").write_text(CARD.replace("dicom", "npz") + "local = true\n")
    wanted = describe(images(tmp_path))
    for name in ("png", "npz"):
        others = np.concatenate(list(open_dataset(tmp_path / f"{name}.toml", tmp_path).chunks()))
        np.testing.assert_array_equal(describe(others), wanted)
    for fit in ("crop", "pad", "stretch"):
        more = f'size = 8\nfit = "{fit}"\n'
        (tmp_path / "png.toml").write_text(CARD.replace("dicom", "folder") + more)
        (others,) = open_dataset(tmp_path / "png.toml", tmp_path).chunks()
        np.testing.assert_array_equal(others, images(tmp_path, more))


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("syntax", [uid.ExplicitVRLittleEndian, uid.ImplicitVRLittleEndian])
def test_whatever_stands_before_the_pixels(tmp_path: Path, syntax: str, long: bool) -> None:
    """Sequences of unknown length and a header longer than is read at once change nothing."""
    values = noise(10, "<i2", low=-900, high=1300)
    rescale = {"RescaleSlope": "0.5", "RescaleIntercept": "-24"}
    wanted = oracle(write_dicom(tmp_path / "plain.dcm", values, **rescale), (-160, 240))
    images_of = Sequence([item(ReferencedSOPInstanceUID="1.2.3", Rows=3, PatientID="nobody")])
    file = write_dicom(
        tmp_path / "ward/cat/0",
        values,
        syntax=syntax,
        PatientID="17",
        ReferencedImageSequence=images_of,
        PixelValueTransformationSequence=images_of,
        **rescale,
    )
    data = pydicom.dcmread(file)
    for name in ("ReferencedImageSequence", "PixelValueTransformationSequence"):
        data[name].is_undefined_length = True
    data.private_block(0x0029, "MAKER", create=True).add_new(1, "OB", bytes(300_000 * long + 8))
    data.save_as(file)
    source = ward(tmp_path, CT + 'unit = "person"\n')
    np.testing.assert_array_equal(np.concatenate(list(source.chunks())), wanted)


def test_skimming_finds_what_pydicom_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The elements of a header that is skimmed are those that pydicom reads, byte for byte."""
    for syntax in (uid.ExplicitVRLittleEndian, uid.ImplicitVRLittleEndian):
        file = write_dicom(tmp_path / "0", noise(11, "u1"), syntax=syntax, PatientID="müller")
        with file.open("rb") as stream:
            stream.seek(132)
            read_elements(stream, uid.ExplicitVRLittleEndian, 0x30000)
            begin = stream.tell()
            skimmed, ours_ends = read_elements(stream, syntax, 0x7FE00008)
            stream.seek(begin)
            with monkeypatch.context() as patch:
                patch.setattr(header, "_SKIMMED", 0)
                parsed, theirs_ends = read_elements(stream, syntax, 0x7FE00008)
        assert ours_ends == theirs_ends
        assert len(skimmed) > 8
        for tag in list(skimmed.keys()):
            ours, theirs = skimmed.get_item(tag), parsed.get_item(tag)
            assert ours.value == theirs.value
