"""In a release no image is named, quoted or heard of; what card and settings decide is told."""

import io
import logging
import os
import re
import shutil
import struct
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from PIL import Image
from pydicom import config
from pydicom.uid import JPEG2000Lossless, RLELossless
from sample_dicom import write_dicom, write_segmentation

from covdp.datasets import registry
from covdp.datasets.source import StreamReader
from covdp.errors import CovdpError, DatasetError, MachineError
from covdp.ledger import Ledger, init_ledger
from covdp.privacy import GDP
from covdp.publish import load_release, release_once
from covdp.publish.redact import silence
from tests.tools.addons import addon
from tests.tools.patience import PATIENCE

plugins = addon("hospital.dicom.plugins")

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

CARD = 'kind = "folder"\nchannels = 1\nclasses = ["well", "ill"]\n'
CONFIG = """\
name = "nightly"
population = "ward-7"
dataset = "{card}"
labels = "public"
budget = 0.5
run_key = "monday"
"""
NAME = "miller"


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    """Make a data root with three pictures a class, named after people, and an account of μ = 1."""
    rng = np.random.default_rng(1)
    for label in ("well", "ill"):
        (tmp_path / "ward" / label).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 256, (28, 28), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "ward" / label / f"{NAME}-{number}.png")
    (tmp_path / "ward.toml").write_text(CARD)
    (tmp_path / "release.toml").write_text(CONFIG.format(card=tmp_path / "ward.toml"))
    init_ledger(tmp_path / "ledger.sqlite").set_budget("ward-7", GDP(1.0))
    return tmp_path


def ledger(ward: Path) -> Ledger:
    """Open the ward's ledger."""
    return init_ledger(ward / "ledger.sqlite")


def refused(ward: Path, words: str, capfd: pytest.CaptureFixture[str], log: Any) -> str:
    """Release; assert a refusal without a charge that names nobody anywhere; return its words."""
    with pytest.raises(CovdpError, match=words) as caught:
        release_once(load_release(ward / "release.toml"), ledger(ward), ward)
    told = "".join([*traceback.format_exception(caught.value), *capfd.readouterr(), log.text])
    assert NAME not in told
    if "withheld" in words:
        assert (caught.value.__context__, caught.value.__cause__) == (None, None)
    assert ledger(ward).show("ward-7")[0].releases == 0
    return str(caught.value)


FAILURES = {
    "memory": MemoryError(f"{NAME} needs 9 GB"),
    "letters": UnicodeDecodeError("utf-8", NAME.encode(), 0, 1, "invalid"),
    "struct": struct.error(f"{NAME}: unpack requires 4 bytes"),
    "depth": RecursionError(NAME),
    "key": KeyError(NAME),
    "system": OSError(5, "Input/output error", f"{NAME}.png"),
    "dataset": DatasetError(f"{NAME}.png has another size"),
    "machine": MachineError(f"no process starts for {NAME}.dcm"),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("when", ["opening", "reading"])
def test_every_failure_over_images_is_withheld(
    ward: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    when: str,
    failure: Exception,
) -> None:
    """Whatever kind of exception opening or reading raises, its words go nowhere."""
    real = registry.DATASET_KINDS["folder"]

    def open_badly(card: Any, path: Path, faults: Any) -> Any:
        if when == "opening":
            raise failure
        source = real.open(card, path, faults)
        return replace(source, read=StreamReader(read_badly, ()))

    def read_badly(rows: Any, size: int) -> Iterator[Any]:
        logging.getLogger("PIL").error("%s", failure)
        warnings.warn(f"{NAME} is large", UserWarning, stacklevel=1)
        os.write(2, f"libjpeg: {NAME} is corrupt\n".encode())
        raise failure

    monkeypatch.setitem(registry.DATASET_KINDS, "folder", replace(real, open=open_badly))
    refused(ward, "withheld", capfd, caplog)


HOSTILE: dict[str, Callable[[Path], object]] = {
    "postscript": lambda file: file.write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"
    ),
    "pipe": os.mkfifo,
    "out": lambda file: file.symlink_to("/etc/hostname"),
    "cut": lambda file: file.write_bytes((file.parent / f"{NAME}-0.png").read_bytes()[:-40]),
    "chunk": lambda file: file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\xff" * 90),
    "size": lambda file: Image.new("L", (9, 9)).save(file),
    "other format": lambda file: file.with_suffix(".dcm").write_bytes(b"DICM"),
    "tiff": lambda file: Image.new("L", (28, 28)).save(file, "TIFF"),
}


@pytest.mark.parametrize("put", HOSTILE.values(), ids=HOSTILE)
def test_no_file_in_the_folder_is_told_of(
    ward: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    put: Callable[[Path], object],
) -> None:
    """Whatever lies among the images, a release says no more than that something does."""
    caplog.set_level(logging.DEBUG)
    put(ward / "ward" / "ill" / f"{NAME}-9.png")
    said = refused(ward, "withheld", capfd, caplog)
    assert "PNG" not in said


MASKS: dict[str, Callable[[Path], object]] = {
    "nothing inside": lambda file: Image.new("L", (28, 28)).save(file),
    "size": lambda file: Image.new("L", (9, 28), 255).save(file),
    "no image": lambda file: file.write_bytes(NAME.encode()),
    "none": Path.unlink,
}


@pytest.mark.parametrize("spoil", MASKS.values(), ids=MASKS)
def test_no_mask_is_told_of(
    ward: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], object],
) -> None:
    """A mask that is not as it should be is withheld as its image would be, and costs nothing."""
    caplog.set_level(logging.DEBUG)
    for image in sorted((ward / "ward").rglob("*.png")):
        mask = ward / "ward/masks" / image.parent.name / image.name
        mask.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (28, 28), 255).save(mask)
    extend(ward / "ward.toml", 'masks = "masks/{class}/*.png"\n')
    spoil(ward / "ward/masks/ill" / f"{NAME}-1.png")
    said = refused(ward, "withheld", capfd, caplog)
    assert not re.search("a mask|pixel|readable", said)


def save_region(file: Path, *sides: int, inside: float = 1.0, moved: float = 0.0) -> None:
    """Write a volume of one value as NIfTI, so far beside the others."""
    affine = np.eye(4)
    affine[0, 3] = moved
    nibabel.save(nibabel.Nifti1Image(np.full(sides, inside, np.float32), affine), file)


REGIONS: dict[str, Callable[[Path], object]] = {
    "nothing inside": lambda file: save_region(file, 9, 8, 7, inside=0.0),
    "size": lambda file: save_region(file, 9, 8, 6),
    "elsewhere": lambda file: save_region(file, 9, 8, 7, moved=5.0),
    "no number": lambda file: save_region(file, 9, 8, 7, inside=np.nan),
    "no volume": lambda file: file.write_bytes(NAME.encode() * 99),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "none": Path.unlink,
}


@pytest.mark.addons
@pytest.mark.parametrize("spoil", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize("how", ["all", "masked"])
def test_no_mask_of_a_volume_is_told_of(
    ward: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], object],
    how: str,
) -> None:
    """Of NIfTI too a mask at fault is withheld, whether found when it is opened or when read."""
    caplog.set_level(logging.DEBUG)
    for label, number in product(("well", "ill"), range(2)):
        (ward / "scans/masks" / label).mkdir(parents=True, exist_ok=True)
        (ward / "scans" / label).mkdir(exist_ok=True)
        for part in (label, f"masks/{label}"):
            save_region(ward / "scans" / part / f"{NAME}-{number}.nii", 9, 8, 7)
    kind = CARD.replace("folder", "nifti")
    (ward / "ward.toml").write_text(
        f'{kind}axis = 2\nframes = "{how}"\npath = "scans"\nwindow = [0, 1]\n'
        'masks = "masks/{class}/*.nii"\n'
    )
    spoil(ward / "scans/masks/ill" / f"{NAME}-1.nii")
    said = refused(ward, "withheld", capfd, caplog)
    assert not re.search("a mask|voxel|affine|NIfTI|readable", said)


SPOILT: dict[str, dict[str, Any]] = {
    "burnt in": {"BurnedInAnnotation": "YES"},
    "nobody": {"PatientID": "", "PatientName": NAME},
    "words": {"PhotometricInterpretation": NAME},
    "frames": {"NumberOfFrames": "7"},
    "compressed": {"syntax": RLELossless, "encoded": [NAME.encode() * 9]},
}


@pytest.mark.addons
@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_no_header_of_a_scan_is_told_of(
    ward: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    spoilt: dict[str, Any],
) -> None:
    """Whatever a DICOM file says or does to its readers, a release says no more than that."""
    caplog.set_level(logging.DEBUG)
    shutil.rmtree(ward / "ward")
    pixels = np.random.default_rng(1).integers(0, 256, (28, 28), dtype=np.uint8)
    for label in ("well", "ill"):
        for number in range(3):
            file = ward / "ward" / label / NAME / f"{number}.dcm"
            write_dicom(file, pixels, PatientID=f"{NAME}-{label}-{number}", StudyDate="17881113")
    with config.disable_value_validation():
        write_dicom(ward / "ward/ill" / NAME / "3.dcm", pixels, **{"PatientID": NAME, **spoilt})
    scans = CARD.replace("folder", "dicom")
    (ward / "ward.toml").write_text(f'{scans}unit = "person"\nwindow = [0, 255]\n')
    said = refused(ward, "withheld", capfd, caplog)
    assert not re.search(r"1788|\(00..,0...\)|DICOM", said)


@pytest.mark.addons
def test_no_transfer_syntax_is_told_by_a_decoder(
    ward: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A decoder that is passed over is named to who describes images, and not in a release."""
    caplog.set_level(logging.DEBUG)
    shutil.rmtree(ward / "ward")
    pixels = np.random.default_rng(1).integers(0, 256, (28, 28), dtype=np.uint8)
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "JPEG2000", no_jp2=True)
    for label, number in product(("well", "ill"), range(3)):
        file = ward / "ward" / label / f"{number}.dcm"
        write_dicom(file, pixels, syntax=JPEG2000Lossless, encoded=[sink.getvalue()])
    (ward / "ward.toml").write_text(CARD.replace("folder", "dicom"))
    monkeypatch.setenv("COVDP_DECODERS", "nobody")
    plugins._choose_decoder.cache_clear()
    release_once(load_release(ward / "release.toml"), ledger(ward), ward)
    assert (caplog.text, *capfd.readouterr()) == ("", "", "")
    assert plugins._choose_decoder.cache_info().misses == 1
    plugins._choose_decoder.cache_clear()
    list(registry.open_dataset(ward / "ward.toml", ward).chunks())
    assert "nobody is not used for JPEG 2000" in caplog.text


REGION: dict[str, dict[str, Any]] = {
    "size": {"Rows": 14, "Columns": 56},
    "fractional": {"SegmentationType": "FRACTIONAL"},
    "another's": {"of": NAME},
}


@pytest.mark.addons
@pytest.mark.parametrize("spoilt", REGION.values(), ids=REGION)
def test_no_region_of_a_scan_is_told_of(
    ward: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    spoilt: dict[str, Any],
) -> None:
    """Of DICOM too a mask at fault is withheld, whether found when it is opened or when read."""
    caplog.set_level(logging.DEBUG)
    pixels = np.random.default_rng(1).integers(0, 256, (28, 28), dtype=np.uint8)
    for label, number in product(("well", "ill"), range(2)):
        known = f"1.2.{len(label)}.{number}"
        write_dicom(ward / "scans" / label / f"{NAME}-{number}", pixels, SOPInstanceUID=known)
        mine = spoilt if (label, number) == ("ill", 1) else {}
        of = [(mine.get("of", known), None)]
        elements = {key: value for key, value in mine.items() if key != "of"}
        file = ward / "scans/masks" / label / f"{NAME}-{number}"
        with config.disable_value_validation():
            write_segmentation(file, np.ones((1, 28, 28)), of, **elements)
    (ward / "ward.toml").write_text(
        f'{CARD.replace("folder", "dicom")}path = "scans"\nmasks = "masks/**/*"\n'
    )
    said = refused(ward, "withheld", capfd, caplog)
    assert not re.search(r"a mask|segmentation|\(00..,0...\)|DICOM", said)


BESIDE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "nothing inside": ("png", lambda file: Image.new("L", (28, 28)).save(file)),
    "no picture": ("png", Path.unlink),
    "elsewhere": ("nii", lambda file: save_region(file, 28, 28, 1, moved=9.0)),
    "no volume": ("nii", lambda file: file.write_bytes(NAME.encode() * 99)),
}


@pytest.mark.addons
@pytest.mark.parametrize(("end", "spoil"), BESIDE.values(), ids=BESIDE)
def test_no_mask_beside_a_scan_is_told_of(
    ward: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    end: str,
    spoil: Callable[[Path], object],
) -> None:
    """Neither of pictures nor of NIfTI beside DICOM is told more than that one is at fault."""
    caplog.set_level(logging.DEBUG)
    pixels = np.random.default_rng(1).integers(0, 256, (28, 28), dtype=np.uint8)
    lies = {
        "ImagePositionPatient": [0, 0, 0], "ImageOrientationPatient": [-1, 0, 0, 0, -1, 0],
        "PixelSpacing": [1, 1],
    }  # fmt: skip
    for label, number in product(("well", "ill"), range(2)):
        write_dicom(ward / "scans" / label / f"{NAME}-{number}", pixels, **lies)
        mask = ward / "scans/masks" / label / f"{NAME}-{number}.{end}"
        mask.parent.mkdir(parents=True, exist_ok=True)
        save_region(mask, 28, 28, 1) if end == "nii" else Image.new("L", (28, 28), 9).save(mask)
    (ward / "ward.toml").write_text(
        f'{CARD.replace("folder", "dicom")}path = "scans"\nmasks = "masks/{{class}}/*.{end}"\n'
    )
    masks = registry.open_dataset(ward / "ward.toml", ward).masks
    assert masks is not None
    assert next(masks(np.arange(4), 4)).all()
    spoil(ward / "scans/masks/ill" / f"{NAME}-1.{end}")
    said = refused(ward, "withheld", capfd, caplog)
    assert not re.search("a mask|pixel|voxel|NIfTI|readable", said)


def extend(path: Path, line: str) -> None:
    """Add a line to a file."""
    path.write_text(path.read_text() + line)


PUBLIC: dict[str, tuple[Callable[[Path], object], str]] = {
    "folder": (lambda root: (root / "ward").rename(root / "elsewhere"), "does not exist"),
    "class": (
        lambda root: (root / "ward.toml").write_text(CARD.replace("ill", "sick")),
        "class 'sick' has no",
    ),
    "key": (lambda root: (root / "ward.toml").write_text(CARD + "sise = 28\n"), "'size'"),
    "split": (
        lambda root: extend(root / "release.toml", 'splits = ["test"]\n'),
        "split test, has no image",
    ),
    "size": (lambda root: extend(root / "release.toml", "size = 9\n"), "size 9"),
}


@pytest.mark.parametrize(("spoil", "words"), PUBLIC.values(), ids=PUBLIC)
def test_faults_of_public_settings_are_told(
    ward: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[Path], object],
    words: str,
) -> None:
    """What card, settings and class sizes decide keeps its own words, in one line."""
    spoil(ward)
    said = refused(ward, words, capfd, caplog)
    assert "withheld" not in said
    assert "\n" not in said


def test_silence_covers_c_warnings_and_logs_and_ends(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Inside nothing is heard, also from threads that come and go; after the last one all is."""

    def speak() -> None:
        os.write(2, b"from C ")
        logging.getLogger("PIL").error("a log")
        warnings.warn("a warning", UserWarning, stacklevel=1)

    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with silence():
            inside.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=stay)
    with silence():
        thread.start()
        assert inside.wait(PATIENCE)
        speak()
    speak_after_one_left = capfd.readouterr().err
    os.write(2, b"still quiet")  # the thread is inside yet
    leave.set()
    thread.join()
    assert (speak_after_one_left, capfd.readouterr().err, caplog.text) == ("", "", "")
    with pytest.warns(UserWarning, match="a warning"):
        speak()
    assert capfd.readouterr().err == "from C "
    assert "a log" in caplog.text


def test_silence_without_standard_error(tmp_path: Path) -> None:
    """A service whose standard error is closed reads images all the same, and keeps it closed."""
    kept = os.dup(2)
    os.close(2)
    try:
        with silence():
            os.write(2, b"nothing")
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(2)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
