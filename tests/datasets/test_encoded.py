"""Files of pictures: one image, whole, and in the colours that it says; else refused."""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from covdp.datasets import open_dataset
from covdp.datasets.jpeg import is_whole, read_stream
from covdp.errors import DatasetError, ImageError

Pixels = np.ndarray[Any, np.dtype[Any]]

STACK = np.random.default_rng(0).integers(0, 256, (6, 40, 50)).astype(np.uint8)


def read(root: Path, content: bytes, kind: str, end: str, more: str = "") -> Pixels:
    """Return the only image of a folder."""
    place = root / f"ward/a/1{end}"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    card = f'kind = "folder"\npath = "ward"\nchannels = 1\nclasses = ["a"]\nformats = ["{kind}"]\n'
    (root / "ward.toml").write_text(card + more)
    return next(open_dataset(root / "ward.toml", root).chunks())[0]


def pillow(kind: str, *images: Pixels, **options: Any) -> bytes:
    """Return a file as Pillow writes it."""
    stream = io.BytesIO()
    first, *others = map(Image.fromarray, images)
    several = {"save_all": True, "append_images": others} if others else {}
    first.save(stream, kind, **several, **options)
    return stream.getvalue()


def tiff(*images: Pixels, **options: Any) -> bytes:
    """Return a TIFF as tifffile writes it."""
    stream = io.BytesIO()
    tifffile.imwrite(stream, images[0] if len(images) == 1 else np.stack(images), **options)
    return stream.getvalue()


def thumbnail_first() -> bytes:
    """Return a TIFF whose first image is a thumbnail of one below it."""
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as file:
        file.write(STACK[0][::2, ::2], subifds=1, subfiletype=1)
        file.write(STACK[0])
    return stream.getvalue()


def pyramid() -> bytes:
    """Return a TIFF of one image with a smaller version below it."""
    stream = io.BytesIO()
    with tifffile.TiffWriter(stream) as file:
        file.write(STACK[0], subifds=1)
        file.write(STACK[0][::2, ::2], subfiletype=1)
    return stream.getvalue()


def two_streams() -> bytes:
    """Return a JP2 with a second codestream."""
    content = pillow("JPEG2000", STACK[0])
    at = content.index(b"jp2c") - 4
    return content + struct.pack(">I", len(content) - at) + content[at + 4 :]


def metamorph() -> bytes:
    """Return a TIFF with MetaMorph's tag of planes."""
    return tiff(STACK[0], metadata=None, extratags=[(33629, 5, 6, (1, 1) * 6, True)])


LARGE = np.random.default_rng(1).integers(0, 256, (6, 300, 400)).astype(np.uint8)

SEVERAL = {
    "ImageJ, one directory": ("TIFF", ".tif", tiff(*STACK, imagej=True, truncate=True)),
    "tifffile, one directory": ("TIFF", ".tif", tiff(*STACK, truncate=True)),
    "nothing says it": ("TIFF", ".tif", tiff(*LARGE, truncate=True, metadata=None)),
    "pages": ("TIFF", ".tif", tiff(*STACK, metadata=None, photometric="minisblack")),
    "OME": ("TIFF", ".tif", tiff(*STACK, ome=True)),
    "tiles with depth": (
        "TIFF", ".tif", tiff(np.zeros((16, 64, 64), np.uint8), volumetric=True, tile=(16, 16, 16))
    ),
    "MetaMorph": ("TIFF", ".tif", metamorph()),
    "thumbnail first": ("TIFF", ".tif", thumbnail_first()),
    "APNG": ("PNG", ".png", pillow("PNG", *STACK)),
    "APNG, another default": ("PNG", ".png", pillow("PNG", *STACK, default_image=True)),
    "GIF": ("GIF", ".gif", pillow("GIF", *STACK)),
    "WebP": ("WEBP", ".webp", pillow("WEBP", *STACK)),
    "MPO": ("JPEG", ".jpg", pillow("MPO", *STACK[:3])),
    "PGM": ("PPM", ".pgm", pillow("PPM", STACK[0]) * 2),
    "PGM of 15": ("PPM", ".pgm", (b"P5 50 40 15\n" + (STACK[0] // 16).tobytes()) * 2),
    "PGM of 16 bits": ("PPM", ".pgm", pillow("PPM", STACK[0].astype(np.uint16) * 257) * 2),
    "PBM": ("PPM", ".pbm", (b"P4\n50 40\n" + bytes(7 * 40)) * 2),
    "PPM": ("PPM", ".ppm", pillow("PPM", np.stack([STACK[0]] * 3, -1)) * 2),
    "PGM in figures": ("PPM", ".pgm", b"P2 2 2 9\n1 2 3 4\n" * 2),
    "JPEG 2000": ("JPEG2000", ".jp2", two_streams()),
}  # fmt: skip


@pytest.mark.parametrize("name", SEVERAL)
def test_several_images_in_one_file_are_refused(name: str, tmp_path: Path) -> None:
    """In whatever way a format stores them: none is dropped in silence."""
    kind, end, content = SEVERAL[name]
    with pytest.raises(ImageError, match=r"one file must be one image, found (at least )?\d"):
        read(tmp_path, content, kind, end)


ONE = {
    "TIFF": ("TIFF", ".tif", tiff(STACK[0])),
    "TIFF of ImageJ": ("TIFF", ".tif", tiff(STACK[0], imagej=True)),
    "TIFF in colour": ("TIFF", ".tif", tiff(np.stack([STACK[0]] * 3, -1), photometric="rgb")),
    "TIFF in planes": ("TIFF", ".tif", tiff(*[STACK[0]] * 3, photometric="rgb")),
    "TIFF with long tags": (
        "TIFF", ".tif", tiff(STACK[0], extratags=[(65000, 7, 1 << 18, bytes(1 << 18), True)])
    ),
    "pyramid": ("TIFF", ".tif", pyramid()),
    "PNG": ("PNG", ".png", pillow("PNG", STACK[0])),
    "PGM": ("PPM", ".pgm", pillow("PPM", STACK[0]) + b"\n"),
    "JPEG 2000": ("JPEG2000", ".jp2", pillow("JPEG2000", STACK[0])),
    "JPEG 2000 with alpha": ("JPEG2000", ".jp2", pillow("JPEG2000", np.stack([STACK[0]] * 4, -1))),
    "codestream": ("JPEG2000", ".j2k", pillow("JPEG2000", STACK[0], no_jp2=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_one_image_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    """What looks similar to a stack and is none keeps each pixel."""
    kind, end, content = ONE[name]
    np.testing.assert_array_equal(read(tmp_path, content, kind, end), STACK[0])


def test_a_preview_is_no_second_image(tmp_path: Path) -> None:
    """An MPO whose other image is smaller is one image."""
    small = np.asarray(Image.fromarray(STACK[0]).resize((25, 20)))
    content = pillow("MPO", STACK[0], small)
    whole = read(tmp_path, pillow("JPEG", STACK[0]), "JPEG", ".jpg")
    np.testing.assert_array_equal(read(tmp_path, content, "JPEG", ".jpg"), whole)


def test_named_colours_of_jpeg_2000_are_refused(tmp_path: Path) -> None:
    """Pillow minds neither a palette with a colour twice nor channels in another order."""
    content = pillow("JPEG2000", np.stack([*STACK[:3]], -1))
    at = content.index(b"jp2c") - 4
    head = content.index(b"jp2h") - 4
    meanings = struct.pack(">H9H", 3, 0, 0, 3, 1, 0, 2, 2, 0, 1)
    box = struct.pack(">I4s", 8 + len(meanings), b"cdef") + meanings
    length = struct.unpack_from(">I", content, head)[0]
    for kind, more in (("channels", box), ("palette", struct.pack(">I4s", 12, b"pclr") + bytes(4))):
        changed = content[:head] + struct.pack(">I", length + len(more))
        changed += content[head + 4 : at] + more + content[at:]
        with pytest.raises(ImageError, match=kind):
            read(tmp_path, changed, "JPEG2000", ".jp2")
    same = box[:10] + struct.pack(">9H", 0, 0, 1, 1, 0, 2, 2, 0, 3)
    changed = content[:head] + struct.pack(">I", length + len(same))
    changed += content[head + 4 : at] + same + content[at:]
    whole = read(tmp_path, content, "JPEG2000", ".jp2")
    np.testing.assert_array_equal(read(tmp_path, changed, "JPEG2000", ".jp2"), whole)


def picture(seed: int, shape: tuple[int, ...], gray: int, rows: int) -> Pixels:
    """Return a smooth picture that ends in rows of one gray level."""
    noise = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    pixels = np.array(Image.fromarray(noise).filter(ImageFilter.GaussianBlur(2)))
    pixels[len(pixels) - rows :] = gray
    return pixels


JPEGS: dict[str, dict[str, Any]] = {
    "baseline": {"quality": 90},
    "own codes": {"quality": 60, "optimize": True},
    "progressive": {"quality": 85, "progressive": True},
    "restarts": {"quality": 85, "restart_marker_blocks": 5},
    "colour is not halved": {"quality": 85, "subsampling": 0},
}


def decoded(content: bytes) -> Pixels:
    """Return what Pillow makes of a JPEG."""
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image)


def whole(content: bytes, decode: Callable[[bytes], Pixels] = decoded) -> bool:
    """Return whether a JPEG is taken for whole; `decode` is what looks at another one."""
    pixels = decoded(content)

    def corner(rows: int, columns: int) -> Pixels:
        return pixels[-rows:, -columns:]

    return is_whole(content, (pixels.shape[0], pixels.shape[1]), corner, decode)


@settings(max_examples=150, suppress_health_check=[HealthCheck.data_too_large])
@given(
    options=st.sampled_from(sorted(JPEGS)),
    seed=st.integers(0, 9),
    colour=st.booleans(),
    sides=st.tuples(st.integers(20, 70), st.integers(20, 70)),
    gray=st.sampled_from([0, 127, 128, 129, 255]),
    rows=st.sampled_from([0, 1, 8, 19]),
    share=st.floats(0.0, 1.0),
)
def test_a_jpeg_is_cut_or_whole(
    options: str,
    seed: int,
    colour: bool,
    sides: tuple[int, int],
    gray: int,
    rows: int,
    share: float,
) -> None:
    """A whole one is whole, whatever gray it ends in; a cut one with an end mark is not.

    But for a cut within the last block, which changes no pixel outside it.
    """
    pixels = picture(seed, (*sides, 3) if colour else sides, gray, rows)
    content = pillow("JPEG", pixels, **JPEGS[options])
    assert whole(content)
    scans = read_stream(content).scans
    start, stop = scans[0].start, scans[-1].stop
    cut = content[: start + int(share * (stop - start))] + b"\xff\xd9"
    try:
        changed = decoded(cut) != decoded(content)
    except OSError:  # Pillow refuses it itself
        return
    block = 16 if colour and options != "colour is not halved" else 8
    edge = [(side - 1) // block * block - (block == 16) for side in sides]
    changed[edge[0] :, edge[1] :] = False
    assert not changed.any() or not whole(cut)


CUT = {
    "JPEG": (".jpg", b"\xff\xd9"),
    "PNG": (".png", b"\0\0\0\0IEND\xae\x42\x60\x82"),
    "GIF": (".gif", b"\0;"),
    "TIFF": (".tif", b""),
    "JPEG2000": (".jp2", b"\xff\xd9"),
    "BMP": (".bmp", b""),
    "PPM": (".pgm", b""),
    "WEBP": (".webp", b""),
}


@pytest.mark.parametrize("kind", CUT)
@pytest.mark.parametrize("ended", [False, True])
def test_a_file_that_is_cut_is_refused(kind: str, ended: bool, tmp_path: Path) -> None:
    """Anywhere, with an end mark or without: nothing is invented for what is missing."""
    pixels = picture(0, (96, 96), 255, 0)
    content = pillow(kind, pixels)
    end = CUT[kind][1] if ended else b""
    assert read(tmp_path, content, kind, CUT[kind][0]).shape == (96, 96)
    for share in (0.2, 0.5, 0.8, 0.95):
        with pytest.raises(DatasetError, match=r"cut off|not a readable image"):
            read(tmp_path, content[: int(share * len(content))] + end, kind, CUT[kind][0])


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_file_that_ends_in_zeros_is_refused(kind: str, tmp_path: Path) -> None:
    """So a download looks that was given its whole length at once and stopped half way."""
    content = pillow(
        kind, picture(0, (96, 96), 255, 0), **({"quality": 95} if kind == "JPEG" else {})
    )
    half = len(content) // 2
    with pytest.raises(DatasetError, match=r"cut off|not a readable image"):
        read(tmp_path, content[:half] + bytes(len(content) - half), kind, CUT[kind][0])


def test_the_check_of_jpeg_decodes_nothing_twice() -> None:
    """Unless the last block is mid-gray, or there are several scans."""
    calls = list[bytes]()

    def count(content: bytes) -> Pixels:
        calls.append(content)
        return decoded(content)

    for gray in (0, 255, 100):
        assert whole(pillow("JPEG", picture(0, (64, 64), gray, 30), quality=90), count)
    assert calls == []
