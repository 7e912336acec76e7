"""The digest of public images: it stays where images of files stay, and changes where they do."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from covdp.addons.hospital.dicom import pixels as dicom_pixels
from covdp.addons.hospital.dicom.card import DicomCard
from covdp.addons.hospital.dicom.plugins import PUBLIC_FRAMES
from covdp.addons.hospital.nifti import NiftiCard
from covdp.addons.hospital.table import TableCard
from covdp.datasets import pictures
from covdp.datasets.cards import Format
from covdp.datasets.pictures import FolderCard, Scaling, digest_images, to_uint8
from covdp.errors import MachineError

PICTURES = "3ff9a3a8c7e5ffec96eabb465861a50fc5dfa2117605d8ad22258f39ec0364a2"
FRAMES = "6a4a9139fb78ad4dbbff30c70ee7286a931b4be7e7095640f63adeb951277c57"
VALUES = "e5d23fdf953ea0df5944d6bce02c60fe"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Take no digest from before, and leave none."""
    for function in (pictures._digest_pictures, dicom_pixels.digest_public_frames):
        function.cache_clear()
    yield
    for function in (pictures._digest_pictures, dicom_pixels.digest_public_frames):
        function.cache_clear()


def test_public_pictures_stay_as_they_are() -> None:
    """Another byte of them, or another public value, would end the streams of everybody."""
    files = sorted(pictures.PUBLIC_PICTURES.iterdir())
    found = hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files))
    assert found.hexdigest() == PICTURES
    assert hashlib.sha256(PUBLIC_FRAMES.read_bytes()).hexdigest() == FRAMES
    assert digest_images(()) == VALUES


def test_a_digest_hangs_on_no_setting_that_may_change() -> None:
    """Size, formats and channels are others' to compare; a table has the digest of its files."""
    cards = [
        FolderCard.model_construct(size=28, formats=("PNG",)),
        FolderCard.model_construct(channels=3),
        TableCard.model_construct(),
    ]
    assert len({card.decoding for card in cards}) == 1
    for card in (DicomCard.model_construct(), NiftiCard.model_construct()):
        name = "DICOM" if isinstance(card, DicomCard) else "NIfTI"
        assert card.decoding == TableCard.model_construct(formats=(name,)).decoding
        assert card.decoding != cards[0].decoding


@pytest.mark.parametrize("name", [file.name for file in sorted(pictures.PUBLIC_PICTURES.iterdir())])
def test_a_pixel_of_any_format_is_seen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One bit of one pixel of one format, as another version of its decoder would make it."""
    before = FolderCard.model_construct().decoding
    opened = pictures.opened

    @contextmanager
    def other(file: Path, formats: tuple[Format, ...]) -> Iterator[Image.Image]:
        with opened(file, formats) as image:
            if file.name == name and (pixels := image.load()):
                value: Any = pixels[3, 5]
                pixels[3, 5] = value ^ 8 if isinstance(value, int) else (value[0] ^ 8, *value[1:])
            yield image

    monkeypatch.setattr(pictures, "opened", other)
    pictures._digest_pictures.cache_clear()
    assert FolderCard.model_construct().decoding != before


@pytest.mark.parametrize("method", ["resize", "crop", "paste"])
def test_another_way_to_fit_is_seen(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Every kind of file is resized by Pillow."""
    before = digest_images(())
    plain = getattr(Image.Image, method)

    def other(image: Image.Image, what: object, *more: object) -> object:
        if method == "paste":
            more = ((more[0][0] + 1, more[0][1]),)  # type: ignore[index]
        made = plain(image, what, *more)
        if made is not None:
            made.putpixel((0, 0), made.getpixel((0, 0)) ^ 1)
        return made

    monkeypatch.setattr(Image.Image, method, other)
    assert digest_images(()) != before


@pytest.mark.parametrize("rule", range(3))
def test_another_rule_of_values_is_seen(monkeypatch: pytest.MonkeyPatch, rule: int) -> None:
    """A window, a sigmoid, and percentiles."""
    before, calls = digest_images(()), iter(range(3))

    def other(stored: NDArray[np.uint16], scale: Scaling, *, where: str) -> NDArray[np.uint8]:
        made = to_uint8(stored, scale, where=where)
        made[1, 2] ^= next(calls) == rule
        return made

    monkeypatch.setattr(pictures, "to_uint8", other)
    assert digest_images(()) != before


def test_another_pinned_decoder_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bit of the last frame of a transfer syntax; and a decoder that is missing."""
    before = DicomCard.model_construct().decoding
    plain = dicom_pixels.decode_in_subprocess
    for syntax in dicom_pixels.DECODERS:

        def other(asked: str, *more: object, syntax: str = syntax) -> object:
            made, meaning = plain(asked, *more)  # type: ignore[arg-type]
            return (made ^ 1 if asked == syntax else made), meaning

        with monkeypatch.context() as patch:
            patch.setattr(dicom_pixels, "decode_in_subprocess", other)
            dicom_pixels.digest_public_frames.cache_clear()
            assert DicomCard.model_construct().decoding != before


def test_a_decoder_that_fails_is_not_another_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was killed ends nothing but this command: a stream keeps no digest of it."""

    def killed(*asked: object) -> object:
        raise ValueError("its decoder ended by SIGKILL")

    monkeypatch.setattr(dicom_pixels, "decode_in_subprocess", killed)
    with pytest.raises(MachineError, match="fails on a public frame"):
        _ = DicomCard.model_construct().decoding
    monkeypatch.undo()
    assert len(DicomCard.model_construct().decoding) == 32
