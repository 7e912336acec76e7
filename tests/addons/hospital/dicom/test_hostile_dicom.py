"""DICOM files that are wrong, hostile or too telling: one line with file, tag and way out."""

import io
import logging
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom import uid
from pydicom.encaps import encapsulate, generate_frames
from pydicom.pixels import get_decoder
from sample_dicom import item, write_dicom

from covdp.addons.hospital.dicom import decoder
from covdp.datasets import ImageSource, open_dataset
from covdp.errors import DatasetError, ImageError, MismatchError
from covdp.store import check
from tests.tools.patience import PATIENCE

CARD = 'kind = "dicom"\nchannels = 1\nclasses = ["cat"]\nwindow = [0, 255]\n'
GRAY = np.arange(32 * 40, dtype=np.uint8).reshape(32, 40)


def ward(root: Path, more: str = "", card: str = CARD) -> ImageSource:
    """Open the folder `ward` by a card."""
    (root / "ward.toml").write_text(card + more)
    return open_dataset(root / "ward.toml", root)


def read(root: Path, more: str = "") -> list[Any]:
    """Return all images of the folder `ward`."""
    return list(ward(root, more).chunks())


def changed(file: Path, **elements: Any) -> None:
    """Write a file again with other elements; None takes one out."""
    data = pydicom.dcmread(file)
    for name, value in elements.items():
        if value is None:
            delattr(data, name)
        else:
            setattr(data, name, value)
    data.save_as(file)


def in_jpeg2000(file: Path, put: Callable[[bytearray], None]) -> None:
    """Compress a file, its only frame spoilt."""
    data = pydicom.dcmread(file)
    data.compress(uid.JPEG2000Lossless, encoding_plugin="pylibjpeg")
    stream = bytearray(next(generate_frames(data.PixelData, number_of_frames=1)))
    put(stream)
    data.PixelData = encapsulate([bytes(stream)])
    data.save_as(file)


def larger(stream: bytearray) -> None:
    """Let a frame say of itself that it is 60,000 pixels wide."""
    at = stream.index(b"\xff\x51") + 6
    stream[at : at + 4] = (60_000).to_bytes(4, "big")


def boxed(stream: bytearray) -> None:
    """Put a frame that is too wide into boxes, in one of them the beginning of the right one."""
    small = bytes(stream)
    larger(stream)
    box = (8 + 60).to_bytes(4, "big") + b"uuid" + small[:60]
    stream[:0] = bytes.fromhex("0000000c6a5020200d0a870a") + box + b"\0\0\0\0jp2c"


def no_window(file: Path) -> None:
    """Write 12 bits, and a card without a window."""
    write_dicom(file, GRAY.astype("<u2"), BitsStored=12)
    card = file.parents[2] / "ward.toml"
    card.write_text(CARD.replace("window = [0, 255]\n", ""))


def header_window(file: Path, **elements: Any) -> None:
    """Ask for the window of a header."""
    write_dicom(file, GRAY.astype("<u2"), **elements)
    (file.parents[2] / "ward.toml").write_text(CARD.replace("[0, 255]", '"header"'))


def cut(file: Path, end: int) -> None:
    """Leave the first bytes of a file only."""
    file.write_bytes(file.read_bytes()[:end])


TABLE = [item(LUTDescriptor=[2, 0, 16], LUTData=b"\0\0\1\1")]
GROUPS = [item(PixelValueTransformationSequence=[item(RescaleSlope="1", RescaleIntercept="0")])]
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no window": (no_window, r"BitsStored \(0028,0101\): unsigned values of 12 bits need a window"),
    "colour": (
        lambda f: write_dicom(f, np.stack([GRAY] * 3, 2), PhotometricInterpretation="RGB"),
        r"PhotometricInterpretation \(0028,0004\) must be gray .* found colour \(RGB\); correct",
    ),
    "palette": (
        lambda f: changed(f, PhotometricInterpretation="PALETTE COLOR"),
        r"PhotometricInterpretation \(0028,0004\) must be one of MONO.*'PALETTE COLOR'; convert",
    ),
    "burnt in": (
        lambda f: changed(f, BurnedInAnnotation="YES"),
        r'BurnedInAnnotation \(0028,0301\) is YES; give burnt_in = "accept".*, or leave',
    ),
    "face": (
        lambda f: changed(f, RecognizableVisualFeatures="YES"),
        r"RecognizableVisualFeatures \(0028,0302\) is YES; give",
    ),
    "no pixels": (
        lambda f: changed(f, PixelData=None),
        r"PixelData \(7FE0,0010\) is missing \(Secondary Capture Image Storage\), or the file",
    ),
    "modality table": (
        lambda f: changed(f, ModalityLUTSequence=TABLE),
        r"ModalityLUTSequence \(0028,3000\) maps values by a table",
    ),
    "window table": (
        lambda f: header_window(f, VOILUTSequence=TABLE),
        r"VOILUTSequence \(0028,3010\) is a table",
    ),
    "no window in the header": (
        header_window,
        r"WindowCenter \(0028,1050\) must be there for window = \"header\", found none; give",
    ),
    "narrow window": (
        lambda f: header_window(f, WindowCenter="5", WindowWidth="0"),
        r"WindowWidth \(0028,1051\) is too small for LINEAR, found 0.0",
    ),
    "function": (
        lambda f: header_window(f, WindowCenter="5", WindowWidth="9", VOILUTFunction="LOG"),
        r"VOILUTFunction \(0028,1056\) must be LINEAR, LINEAR_EXACT or SIGMOID, found LOG",
    ),
    "half a rescale": (
        lambda f: changed(f, RescaleSlope="2"),
        r"RescaleIntercept \(0028,1052\) must be a number, found ''",
    ),
    "groups": (
        lambda f: changed(f, PerFrameFunctionalGroupsSequence=GROUPS * 2),
        r"PerFrameFunctionalGroupsSequence \(5200,9230\) must have 1 item\(s\)",
    ),
    "bits": (lambda f: changed(f, BitsStored=9), r"BitsStored \(0028,0101\) must be 1 to 8"),
    "high": (lambda f: changed(f, BitsStored=4, HighBit=2), r"HighBit \(0028,0102\) must be"),
    "one bit": (
        lambda f: changed(f, BitsAllocated=1, BitsStored=1),
        r"BitsAllocated \(0028,0100\) must be 8, 16 or 32, found 1",
    ),
    "rows": (lambda f: changed(f, Rows=None), r"Rows \(0028,0010\) must be there, and an integer"),
    "frames": (
        lambda f: changed(f, NumberOfFrames=2),
        r"NumberOfFrames \(0028,0008\) is 2, for which the file is too short",
    ),
    "more frames": (
        lambda f: changed(f, PixelData=2 * pydicom.dcmread(f).PixelData),
        r"NumberOfFrames \(0028,0008\) is 1, for which the file is too long; write it anew or",
    ),
    "empty": (
        lambda f: changed(f, Rows=0),
        r"\(0028,0011\) must be 1 to 134,217,728 bytes, found 0",
    ),
    "cut": (
        lambda f: cut(f, f.stat().st_size - 9),
        r"PixelData \(7FE0,0010\) must have 1,280 bytes, found 1,271; the file is cut off",
    ),
    "cut header": (lambda f: cut(f, 300), r"PixelData \(7FE0,0010\) is missing"),
    "not DICOM": (lambda f: f.write_bytes(b"\x89PNG" * 99), "has no DICM after 128 bytes"),
    "empty file": (lambda f: f.write_bytes(b""), r"DICOM file \(it is empty\)"),
    "deflated": (
        lambda f: write_dicom(f, GRAY, syntax=uid.DeflatedExplicitVRLittleEndian),
        "a deflated file may unpack to any size; write it uncompressed",
    ),
    "video": (
        lambda f: write_dicom(f, GRAY, syntax=uid.MPEG2MPML, encoded=[b"\0" * 64]),
        r"TransferSyntaxUID \(0002,0010\) is MPEG2 .* no decoder here; write it uncompressed",
    ),
    "12 bits in JPEG": (
        lambda f: write_dicom(
            f, GRAY.astype("<u2"), syntax=uid.JPEGExtended12Bit, encoded=[b"\0" * 64], BitsStored=12
        ),
        r"JPEG Extended .* with 12 bits, for which there is no decoder here",
    ),
    "frame of another size": (
        lambda f: in_jpeg2000(f, larger),
        r"a frame must be \(32, 40, 1\) as the header says .* found \(32, 60000, 1\); write",
    ),
    "frame of another size in a box": (
        lambda f: in_jpeg2000(f, boxed),
        r"a frame must be \(32, 40, 1\) as the header says .* found \(32, 60000, 1\); write",
    ),
    "spoilt frame": (
        lambda f: in_jpeg2000(f, lambda stream: stream.__setitem__(slice(80, 160), bytes(80))),
        "is not a readable DICOM file",
    ),
    "long frame": (
        lambda f: in_jpeg2000(f, lambda stream: stream.extend(bytes(1 << 21))),
        r"a compressed frame has 2,\d+,\d+ bytes for 1,280 of pixels",
    ),
    "missing frame": (
        lambda f: (in_jpeg2000(f, lambda stream: None), changed(f, NumberOfFrames=2)),
        "frame 2 is missing|is not a readable DICOM file",
    ),
}


@pytest.mark.parametrize(("spoil", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_may_not_be_guessed_is_one_line(
    tmp_path: Path, spoil: Callable[[Path], Any], reason: str
) -> None:
    """Every refusal names the file, the tag, the rule and the way out, and shows no identifier."""
    (tmp_path / "ward.toml").write_text(CARD)
    file = write_dicom(tmp_path / "ward/cat/0.dcm", GRAY, PatientID="quixote-17")
    spoil(file)
    with pytest.raises(ImageError, match=f"0.dcm.*{reason}") as caught:
        list(open_dataset(tmp_path / "ward.toml", tmp_path).chunks())
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)
    assert "quixote" not in str(caught.value)


def test_what_is_refused_may_be_accepted(tmp_path: Path) -> None:
    """A card may accept burnt-in annotations, faces and mixed interpretations."""
    more = {"BurnedInAnnotation": "YES", "RecognizableVisualFeatures": "YES"}
    write_dicom(tmp_path / "ward/cat/0", GRAY, **more)
    write_dicom(tmp_path / "ward/cat/1", GRAY, PhotometricInterpretation="MONOCHROME1")
    with pytest.raises(ImageError, match="is YES"):
        read(tmp_path, 'mixed = "accept"\n')
    with pytest.raises(ImageError, match="found MONOCHROME2 in 0 and MONOCHROME1 in 1; give mixed"):
        read(tmp_path, 'burnt_in = "accept"\n')
    source = ward(tmp_path, 'mixed = "accept"\nburnt_in = "accept"\n')
    assert source.counts() == (2, 0, 0)[:1]


def test_a_decoder_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its decoder a compressed file is refused when it is listed, with the package."""
    in_jpeg2000(write_dicom(tmp_path / "ward/cat/0", GRAY), lambda stream: None)
    assert ward(tmp_path).counts() == (1,)
    monkeypatch.setattr(get_decoder(uid.JPEG2000Lossless), "_available", {})
    with pytest.raises(
        ImageError, match=r"JPEG 2000 .*install pylibjpeg and pylibjpeg-openjpeg, or"
    ):
        ward(tmp_path)


@pytest.mark.parametrize("encapsulated", [False, True])
def test_a_header_that_claims_too_much_allocates_nothing(
    tmp_path: Path, encapsulated: bool
) -> None:
    """10¹² pixels in a small file are refused by numbers alone: less than 20 MB are touched."""
    more: dict[str, Any] = {"Rows": 10_000, "Columns": 10_000, "NumberOfFrames": 10_000}
    if encapsulated:
        more |= {"encoded": [bytes(64)], "syntax": uid.RLELossless}
    write_dicom(tmp_path / "ward/cat/0", GRAY[np.newaxis], **more)
    tracemalloc.start()
    with pytest.raises(ImageError, match=r"NumberOfFrames \(0028,0008\) is 10,000, for which"):
        ward(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    changed(tmp_path / "ward/cat/0", Rows=65535, Columns=65535, NumberOfFrames=1)
    with pytest.raises(ImageError, match=r"must be 1 to 134,217,728 bytes, found 4,294,836,225"):
        ward(tmp_path)


def outcome(root: Path) -> tuple[str, list[Any]]:
    """Return what is said of the ward, or its images."""
    try:
        return "", list(ward(root).chunks())
    except (ImageError, MismatchError) as error:
        return str(error), []


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_bytes_are_one_line_or_pixels(tmp_path: Path, compressed: bool) -> None:
    """Whatever 150 spoilt files hold, what comes out is uint8 of the right shape or one line."""
    groups = {"SharedFunctionalGroupsSequence": GROUPS, "NumberOfFrames": 1}
    file = write_dicom(tmp_path / "ward/cat/0", GRAY[np.newaxis], **groups)
    if compressed:
        data = pydicom.dcmread(file)
        data.compress(uid.RLELossless, encoding_plugin="pylibjpeg")
        data.save_as(file)
    whole, rng = file.read_bytes(), np.random.default_rng(11)
    refused = 0
    for _ in range(150):
        spoilt = bytearray(whole[: rng.integers(140, len(whole)) if rng.random() < 0.3 else None])
        for at in rng.integers(128, len(spoilt), 4):
            spoilt[at] = rng.integers(256)
        file.write_bytes(spoilt)
        said, images = outcome(tmp_path)
        refused += bool(said)
        assert "\n" not in said
        assert all(image.dtype == np.uint8 for image in images)
    assert 30 < refused < 150


def test_files_beside_the_images(tmp_path: Path) -> None:
    """DICOMDIR and notes are passed by; what looks like an image and is none is refused."""
    write_dicom(tmp_path / "ward/cat/deep/er/IM0001", GRAY)
    write_dicom(tmp_path / "ward/cat/1.2.840.1", GRAY)
    (tmp_path / "ward/cat/DICOMDIR").write_bytes(bytes(128) + b"DICM" + bytes(999))
    (tmp_path / "ward/cat/notes.txt").write_text("no image")
    (tmp_path / "ward/cat/.hidden").write_text("no image")
    assert ward(tmp_path).counts() == (2,)
    for name in ("IM0002", "scan.dcm", "photo.jpg"):
        (tmp_path / "ward/cat" / name).write_text("no image")
        with pytest.raises(ImageError, match=f"{name} has no DICM after 128 bytes"):
            read(tmp_path)
        (tmp_path / "ward/cat" / name).unlink()
    (tmp_path / "ward/cat/out").symlink_to("/etc/hostname")
    with pytest.raises(DatasetError, match="is a link that leads out of the data root"):
        ward(tmp_path)
    (tmp_path / "ward/cat/out").unlink()
    for number in ("1.2.840.1", "deep/er/IM0001"):
        (tmp_path / "ward/cat" / number).unlink()
    with pytest.raises(MismatchError, match="class 'cat' has no DICOM image at"):
        ward(tmp_path)


def test_sizes_that_differ(tmp_path: Path) -> None:
    """Without a size all images must have one; with it each is made to fit."""
    write_dicom(tmp_path / "ward/cat/0", GRAY)
    write_dicom(tmp_path / "ward/cat/1", GRAY.T.copy())
    with pytest.raises(ImageError, match=r"one size, found \(32, 40\) in 0 and \(40, 32\) in 1; g"):
        read(tmp_path)
    assert ward(tmp_path, 'size = 16\nfit = "pad"\n').shape == (16, 16)


def test_a_file_that_changes_after_it_was_listed(tmp_path: Path) -> None:
    """What was true when a dataset was opened is looked at again when a file is read."""
    file, both = tmp_path / "ward/cat/0", np.stack([GRAY, GRAY])
    for spoil, reason in (
        (lambda: write_dicom(file, GRAY.T.copy()), r"images must have one size, found \(32, 40\)"),
        (lambda: write_dicom(file, GRAY, BurnedInAnnotation="YES"), "is YES"),
        (lambda: file.write_text("no image"), "has no DICM after 128 bytes"),
        (lambda: write_dicom(file, both[:1], NumberOfFrames=1), "has changed since it was listed"),
    ):
        write_dicom(file, both, NumberOfFrames=2)
        source = ward(tmp_path)
        spoil()
        with pytest.raises(ImageError, match=reason):
            list(source.chunks())


WHO = {"PatientName": "Quixote^Alonso", "PatientID": "quixote-17", "StudyDate": "16050116"}


def test_persons_are_digests_and_dates_are_days(tmp_path: Path) -> None:
    """PatientID says who it is, in any character set, whoever issued it; a source names nobody."""
    who = [
        {**WHO, "PatientID": "müller", "SpecificCharacterSet": "ISO_IR 100"},
        {**WHO, "PatientID": " müller ", "SpecificCharacterSet": "ISO_IR 192"},
        {**WHO, "IssuerOfPatientID": "Toboso"},
        WHO,
        {**WHO, "PatientID": "sancho", "StudyDate": ""},
    ]
    for number, more in enumerate(who):
        write_dicom(tmp_path / f"ward/cat/{number}", GRAY, **more)
    source = ward(tmp_path, 'unit = "person"\n')
    people = source.persons()
    assert people is not None
    assert len(set(people.tolist())) == 3
    assert source.units() == (3,)
    assert people[0] == people[1]
    assert people[2] == people[3]
    assert all(len(name) == 32 for name in people.tolist())
    assert source.dates is not None
    np.testing.assert_array_equal(np.isnat(source.dates), [False] * 4 + [True])
    assert source.dates[0] == np.datetime64("1605-01-16")
    for text in ("quixote", "Quixote", "16050116", "1605", "sancho", "Toboso"):
        assert text not in repr(source)
    image = ward(tmp_path)
    assert image.people is None
    write_dicom(tmp_path / "ward/cat/9", GRAY)
    assert ward(tmp_path).counts() == (6,)
    with pytest.raises(
        ImageError, match=r"9: PatientID \(0010,0020\) is empty, which unit = \"per"
    ):
        read(tmp_path, 'unit = "person"\n')


def test_all_that_cannot_be_used_is_listed(tmp_path: Path) -> None:
    """A look at every file names each at fault, also where the header says it, and no other."""
    for number in range(6):
        write_dicom(tmp_path / f"ward/cat/{number}.dcm", GRAY)
    write_dicom(tmp_path / "ward/cat/0.dcm", GRAY, BurnedInAnnotation="YES")
    write_dicom(tmp_path / "ward/cat/2.dcm", GRAY.T.copy())
    cut(tmp_path / "ward/cat/3.dcm", 200)
    (tmp_path / "ward/cat/4.dcm").write_text("no image")
    faults = check(ward(tmp_path), tmp_path / "ward")
    assert [fault.file for fault in faults] == [f"cat/{number}.dcm" for number in (0, 2, 3, 4)]
    assert "BurnedInAnnotation" in faults[0].reason
    assert "one size" in faults[1].reason
    card = CARD.replace('["cat"]', '["cat", "dog"]') + 'unit = "person"\n'
    write_dicom(tmp_path / "ward/dog/5.dcm", GRAY, PatientID="17")
    write_dicom(tmp_path / "ward/dog/6.dcm", GRAY)
    faults = check(ward(tmp_path, card=card), tmp_path / "ward")
    assert [fault.file[:3] for fault in faults] == ["cat"] * 6 + ["dog"]


def test_a_file_that_was_at_fault_stays_so(tmp_path: Path) -> None:
    """A file repaired after it was listed is not read as nobody's image."""
    write_dicom(tmp_path / "ward/cat/0.dcm", GRAY, **WHO)
    write_dicom(tmp_path / "ward/cat/1.dcm", GRAY)
    source = ward(tmp_path, 'unit = "person"\n')
    write_dicom(tmp_path / "ward/cat/1.dcm", GRAY, **WHO)
    with pytest.raises(ImageError, match=r"1\.dcm has changed since it was listed"):
        list(source.chunks())


def test_a_pattern_may_say_who_and_when(tmp_path: Path) -> None:
    """Person and day of the pattern stand in the place of those of the header."""
    for person in ("17", "18"):
        for number in range(2):
            write_dicom(tmp_path / f"ward/cat/{person}-2024010{number + 1}-{number}", GRAY, **WHO)
    source = ward(tmp_path, 'unit = "person"\npattern = "{class}/{person}-{date}-*"\n')
    assert source.units() == (2,)
    assert source.dates is not None
    assert source.dates.tolist() == [
        np.datetime64(f"2024-01-0{day}").item() for day in (1, 2, 1, 2)
    ]


def test_reading_says_nothing_of_a_header(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Values that break the rules of DICOM are quoted in no warning or log, of a run either."""
    caplog.set_level(logging.DEBUG)
    file = write_dicom(tmp_path / "ward/cat/0", GRAY, **WHO)
    bad = (
        file.read_bytes().replace(b"quixote-17", b"quixote\x0717").replace(b"16050116", b"16051316")
    )
    file.write_bytes(bad)
    source = ward(tmp_path, 'unit = "person"\n')
    list(source.chunks())
    told = caplog.text + "".join(capfd.readouterr())
    assert "quixote" not in told
    assert "1605" not in told


def jpeg(seed: int) -> bytes:
    """Return a JPEG frame of `GRAY`: cut off, with bits flipped, or with bytes put in its head."""
    rng, sink = np.random.default_rng(seed), io.BytesIO()
    Image.fromarray(GRAY).save(sink, "JPEG")
    stream = bytearray(sink.getvalue())
    if seed % 3 == 0:
        return bytes(stream[: rng.integers(2, len(stream))])
    for at in rng.integers(0, len(stream) if seed % 3 == 1 else 200, rng.integers(1, 9)):
        stream[at] = stream[at] ^ (1 << rng.integers(8)) if seed % 3 == 1 else rng.integers(256)
    return bytes(stream)


def test_damaged_frames_are_values_or_one_line(tmp_path: Path) -> None:
    """Whatever bits of a JPEG are flipped or missing, the process that asked for it goes on."""
    outcomes = set[Any]()
    for seed in range(45):
        file = tmp_path / "ward/cat/0.dcm"
        write_dicom(file, GRAY, syntax=uid.JPEGBaseline8Bit, encoded=[jpeg(seed)])
        try:
            (images,) = read(tmp_path)
            outcomes.add(images.shape)
        except ImageError as error:
            outcomes.add(str(error).count("\n"))
    assert outcomes == {0, (1, *GRAY.shape)}


class Fatal(NamedTuple):
    """Something that does `what` where it is unpickled."""

    what: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how."""
        return self.what[0], self.what[1:]


@pytest.mark.parametrize(
    ("what", "how"), [((os.abort,), "SIGABRT"), ((time.sleep, 2 * PATIENCE), "SIGKILL")]
)
def test_a_decoder_that_ends_takes_nobody_with_it(
    monkeypatch: pytest.MonkeyPatch, what: tuple[Any, ...], how: str
) -> None:
    """A frame that kills its decoder, or keeps it for too long, is an error; the next is read."""

    def wait(seconds: float) -> None:
        monkeypatch.setattr(decoder, "FRAME_SECONDS", seconds)

    wait(0.5 if how == "SIGKILL" else PATIENCE)
    with pytest.raises(ValueError, match=rf"decoder ended by .*{how}"):
        decoder.decode_in_subprocess("", "", Fatal(what), {})  # type: ignore[arg-type]
    wait(PATIENCE)
    with pytest.raises(ValueError, match="fragment"):
        decoder.decode_in_subprocess(uid.ExplicitVRLittleEndian, "gdcm", b"", {})
