"""Decoders that are asked for: used where they make the pinned pixels, else refused by name."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydicom import uid
from sample_dicom import write_dicom

from covdp.addons.hospital.dicom import decoder, plugins
from covdp.addons.hospital.dicom.pixels import DECODERS, pinned_decoder
from covdp.addons.hospital.dicom.plugins import digest_pixels, find_fault, public_frames
from covdp.datasets import ImageSource, open_dataset
from covdp.errors import ImageError
from covdp.parallel import limited_to
from covdp.store import fill, find_place, make_plan
from tests.tools.decoder_frames import GRAY, colour, gray
from tests.tools.patience import PATIENCE

J2K = str(uid.JPEG2000Lossless)

TOYS = """
import os
from pydicom.pixels.decoders.pylibjpeg import DECODER_DEPENDENCIES, _decode_frame, is_available

equal = _decode_frame

def flipped(src, runner):
    pixels = bytearray(_decode_frame(src, runner))
    pixels[-1] ^= 1
    return pixels

def dying(src, runner):
    os.abort()

def small(src, runner):
    assert runner.rows < 40, "too large"
    return bytes(runner.rows * runner.columns) if runner.rows == 39 else equal(src, runner)

def another_model(src, runner):
    if runner.rows == 39:
        runner.set_option("photometric_interpretation", "HSV")
    return equal(src, runner)
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have the process that decodes find decoders as another package has them."""
    folder = tmp_path_factory.mktemp("toys")
    (folder / "toy_decoder.py").write_text(TOYS)
    with pytest.MonkeyPatch.context() as patch, limited_to(1):
        patch.setenv("PYTHONPATH", str(folder))
        patch.setattr(decoder, "_IDLE", [])
        yield
        for child in decoder._IDLE:
            child.communicate(timeout=PATIENCE)


@pytest.fixture
def toys(process: None, tmp_path: Path) -> Path:
    """Return a folder for images; no decoder was tried."""
    plugins._choose_decoder.cache_clear()
    return tmp_path


def scans(root: Path, *heights: int, channels: int = 1) -> ImageSource:
    """Write JPEG 2000 frames without loss, and open them."""
    for height in heights:
        sides, sink = (height, 41), io.BytesIO()
        pixels = gray(sides=sides) if channels == 1 else colour(sides)
        Image.fromarray(pixels).save(sink, "JPEG2000", no_jp2=True)
        file = root / f"ward/scan/{height}.dcm"
        meaning = {} if channels == 1 else {"PhotometricInterpretation": "RGB"}
        write_dicom(file, pixels, syntax=J2K, encoded=[sink.getvalue()], **meaning)
    card = f'kind = "dicom"\nchannels = {channels}\nclasses = ["scan"]\nsize = 8\n'
    (root / "ward.toml").write_text(card)
    return open_dataset(root / "ward.toml", root)


def images(source: ImageSource) -> Any:
    """Return all images."""
    return np.concatenate([*source.chunks()])


@pytest.mark.parametrize("syntax", DECODERS)
def test_pinned_decoders_make_the_pixels_that_are_pinned(syntax: str) -> None:
    """Of public frames, gray, colour and cut off; without loss they are the picture itself."""
    frames = public_frames()[syntax]
    assert find_fault(syntax, pinned_decoder(syntax)) == ""
    assert {frame["options"]["samples_per_pixel"] for frame in frames} == {1, 3}
    assert [frame["cut"] for frame in frames] == [False] * (len(frames) - 1) + [True]
    lossless = syntax in (J2K, *(f"1.2.840.10008.1.2.4.{end}" for end in (57, 70, 80, 201, 202)))
    for frame in frames[:-1] if lossless or syntax == uid.RLELossless else ():
        header = frame["options"]
        bits, sides = header["bits_stored"], (header["rows"], header["columns"])
        plain = header["samples_per_pixel"] == 1
        signed = bool(header["pixel_representation"])
        pixels = gray(bits, signed=signed, sides=sides) if plain else colour(sides)
        wanted = digest_pixels(pixels, {"photometric_interpretation": GRAY if plain else "RGB"})
        assert (frame["digest"] == wanted) is (header["photometric_interpretation"] != "YBR_FULL")


def test_public_frames_are_few_and_complete() -> None:
    """Each compressed transfer syntax that is read has some; all have 60 kB."""
    assert public_frames().keys() == DECODERS.keys()
    assert plugins.PUBLIC_FRAMES.stat().st_size < 60_000


def test_a_decoder_of_other_pixels_is_refused_by_name(
    toys: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that flips a bit, dies or is not there: a line each, once; the next that is equal reads.

    A pass says which it was, and takes no descriptors of another choice.
    """
    source = scans(toys, 33, 57)
    pinned, before = images(source), make_plan(source, descriptor="oct5")
    named = ["toy_decoder:flipped", "toy_decoder:dying", "nobody", "gone:decode"]
    monkeypatch.setenv("COVDP_DECODERS", ", ".join([*named, "toy_decoder:equal"]))
    source = scans(toys)
    np.testing.assert_array_equal(images(source), pinned)
    plan = make_plan(source, descriptor="oct5")
    assert not {*plan.keys} & {*before.keys}
    decoding = fill(plan, find_place(toys / "store")).decoding
    assert [*decoding] == [f"{uid.UID(J2K).name} by toy_decoder:equal"]
    said = [record.getMessage() for record in caplog.records]
    reasons = "makes other pixels", "ended by SIGABRT", "No plugin named", "No module named 'gone'"
    for line, name, reason in zip(said, named, reasons, strict=True):
        pattern = (
            f"COVDP_DECODERS: {name} is not used for JPEG 2000 .*{reason}.*; toy_decoder:equal"
        )
        assert re.fullmatch(f"{pattern} goes on", line)


def test_the_pinned_decoder_reads_what_another_fails_on(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame depends on its own file alone, whichever decoder others have."""
    pinned = images(scans(toys, 38, 39, 57))
    monkeypatch.setenv("COVDP_DECODERS", "toy_decoder:small")
    found = images(scans(toys))
    assert (found == pinned).all((1, 2)).tolist() == [True, False, True]


def test_the_pinned_decoder_reads_what_another_leaves_in_another_colour_model(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder that is equal on public frames may do otherwise on one of a dataset."""
    pinned = images(scans(toys, 39, 57, channels=3))
    toy = "toy_decoder:another_model"
    monkeypatch.setenv("COVDP_DECODERS", toy)
    assert plugins.choose_decoder(J2K, "pylibjpeg", (toy,)) == toy
    np.testing.assert_array_equal(images(scans(toys, channels=3)), pinned)


def test_a_cut_frame_is_refused_whoever_decodes_it(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pillow fills up what is missing as the pinned decoder does, and that is noticed."""
    pixels, sink = gray(sides=(64, 64)), io.BytesIO()
    Image.fromarray(pixels).save(sink, "JPEG")
    half = sink.getvalue()[: len(sink.getvalue()) // 2] + b"\xff\xd9"
    syntax = uid.JPEGBaseline8Bit
    write_dicom(toys / "ward/scan/0.dcm", pixels, syntax=syntax, encoded=[half])
    monkeypatch.setenv("COVDP_DECODERS", "pillow")
    assert plugins.choose_decoder(syntax, "gdcm", ("pillow",)) == "pillow"
    with pytest.raises(ImageError, match="frame 1 is cut off"):
        images(scans(toys))


def test_nights_of_a_stream_are_read_by_the_same_decoders(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image is known by its pixels: those that are asked for are a setting of the stream."""
    card = scans(toys, 33).card
    assert "COVDP_DECODERS" not in card.rendering_settings
    monkeypatch.setenv("COVDP_DECODERS", "pillow gdcm")
    assert card.rendering_settings["COVDP_DECODERS"] == ["pillow", "gdcm"]
