"""The encoded file of a picture: one image, all of it there, and values that mean what they say.

Pillow reads the first image of several, fills up what is missing, and says of neither.
"""

import io
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from covdp.datasets import jpeg
from covdp.errors import image_error

_DESCRIPTION, _BITS, _COMPRESSION, _SAMPLES = 270, 258, 259, 339
_KIND, _STRIP_BYTES, _TILE_BYTES, _SUB_IMAGES, _DEPTH, _PLANES = 254, 279, 325, 330, 32997, 33629
"""Tags of TIFF; the last two are those of volumes and of MetaMorph's stacks."""

_SPARE_BYTES = 1 << 16
"""Bytes that a TIFF may have besides its image and its tags."""


_MARKS = {
    rb"\x89PNG": "PNG", rb"\xff\xd8\xff": "JPEG", rb"II[*+]\0|MM\0[*+]": "TIFF",
    rb"BM.{4}\0{4}": "BMP", rb"GIF8": "GIF", rb"RIFF.{4}WEBP": "WEBP",
    rb"\0\0\0\x0cjP|\xff\x4f\xff\x51": "JPEG2000", rb"\x1f\x8b": "gzip", rb"PK\x03\x04": "zip",
}  # fmt: skip
"""Formats by the bytes at the start of a file, as regular expressions."""


def format_of(content: bytes) -> str:
    """Return the format that a file has by the bytes at its start, "" where it is not known.

    Parameters
    ----------
    content : bytes
        Content of the file.
    """
    return next((name for mark, name in _MARKS.items() if re.match(mark, content, re.DOTALL)), "")


def stored_bits(image: Any) -> tuple[int, bool]:
    """Return the bits of a value as the file has them, and whether they have a sign.

    Parameters
    ----------
    image : PIL.Image.Image
        Picture, opened and not decoded.
    """
    if image.format == "TIFF":
        return int(max(image.tag_v2.get(_BITS, (1,)))), image.tag_v2.get(_SAMPLES, (1,))[0] == 2
    if image.format == "JPEG2000":
        return _stored_in_jpeg2000(_content(image.fp))
    raw = image.tile[0][3] if image.tile else ""
    if image.format == "PPM" and not isinstance(raw, str):
        return int(raw[1]).bit_length(), False
    return 16 if isinstance(raw, str) and ";16" in raw else 8, False


def _content(stream: BinaryIO) -> bytes:
    """Return all of a stream, which is left where it was."""
    place = stream.tell()
    stream.seek(0)
    content = stream.read()
    stream.seek(place)
    return content


def _stored_in_jpeg2000(content: bytes) -> tuple[int, bool]:
    """Return the same of the SIZ segment of the codestream (ISO 15444-1, A.5.1)."""
    siz = content.partition(b"\xff\x4f\xff\x51")[2]
    depths = siz[38 : 38 + 3 * int.from_bytes(siz[36:38]) : 3]
    return max(depth & 0x7F for depth in depths) + 1, any(depth & 0x80 for depth in depths)


def check_single(image: Any, file: Path) -> None:
    """Raise unless a file that is open and not decoded holds one image, and its colours are known.

    A JPEG with a preview is one image.

    Parameters
    ----------
    image : PIL.Image.Image
        Picture, opened and not decoded.
    file : Path
        Path of the file.
    """
    pages = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
    count_images = _IMAGES.get(image.format)
    least = count_images(image, file) if pages == 1 and count_images else 1
    if max(pages, least) > 1:
        found = f"at least {least}" if pages == 1 else pages
        raise image_error(
            f"{file}: one file must be one image, found {found}; save each, or the one that "
            "counts, in a file of its own"
        )


def _in_tiff(image: Any, file: Path) -> int:
    """Return how many images follow one another in a TIFF of one directory.

    ImageJ, tifffile and MetaMorph state it in tags. Without such a tag there are several where as
    many bytes as the image has are neither of it nor of a tag.
    """
    tags, counts = image.tag_v2, [1]
    said = str(tags[_DESCRIPTION]) if _DESCRIPTION in tags else ""
    if said.startswith("ImageJ=") and (found := re.search(r"(?m)^images=(\d+)", said)):
        counts.append(int(found[1]))
    if said.startswith('{"shape": ['):
        size = image.width * image.height * len(image.getbands())
        counts.append(math.prod(json.loads(said)["shape"]) // size)
    if _DEPTH in tags:
        counts.append(int(np.max(tags[_DEPTH])))
    if _PLANES in tags:
        counts.append(len(tags[_PLANES]))
    if _SUB_IMAGES in tags:  # the first may be but a thumbnail
        counts.append(1 + (tags.get(_KIND, 0) & 1))
    elif tags.get(_COMPRESSION, 1) == 1:
        stored = sum(tags.get(_STRIP_BYTES) or tags.get(_TILE_BYTES) or (0,))
        free = os.fstat(image.fp.fileno()).st_size - stored - _SPARE_BYTES
        if 0 < stored <= free and stored <= free - sum(map(len, tags._tagdata.values())):
            counts.append(2)
    return int(max(counts))


def _in_mpo(image: Any, file: Path) -> int:
    """Return how many images a JPEG with several has, previews apart, which are smaller."""
    from PIL import Image

    count, content = 1, io.BytesIO(_content(image.fp))
    with Image.open(content, formats=("JPEG",)) as other:  # what seeking fails on is no image
        for frame in range(1, image.n_frames):
            with suppress(Exception):
                other.seek(frame)
                count += other.size == image.size
    return count


def _in_ppm(image: Any, file: Path) -> int:
    """Return how many images follow one another, of two or more 2."""
    name, _, offset, arguments = image.tile[0]
    mode = arguments if isinstance(arguments, str) else arguments[0]
    if name == "ppm_plain":
        image.fp.seek(offset)
        return 1 + bool(re.search(rb"(?m)^\s*P[1-7]\s", image.fp.read()))
    row = (image.width + 7) // 8 if mode.startswith("1") else image.width * len(image.getbands())
    deep = image.mode == "I" or (name == "ppm" and arguments[1] > 255)
    image.fp.seek(offset + image.height * row * (1 + deep))
    return 1 + bool(re.match(rb"\s*P[1-7]\s", image.fp.read(16)))


def _in_jpeg2000(image: Any, file: Path) -> int:
    """Return how many codestreams a file has; raise where colours are named by a table.

    Pillow takes neither a palette nor the order of channels as it stands there.
    """
    content, count, boxes = _content(image.fp), 0, dict[bytes, bytes]()
    if content.startswith(b"\xff\x4f"):
        return 1
    for kind, body in _boxes(content):
        count += kind == b"jp2c"
        boxes |= dict(_boxes(body)) if kind == b"jp2h" else {}
    if b"pclr" in boxes:
        raise image_error(f"{file}: JPEG 2000 with a palette is not read; save it with its colours")
    meanings = np.frombuffer(boxes.get(b"cdef", b"\0\0")[2:], ">u2").reshape(-1, 3)
    if any(kind == 0 and of not in (0, channel + 1) for channel, kind, of in meanings.tolist()):
        raise image_error(
            f"{file}: channels of JPEG 2000 must be in their order, found another (cdef); "
            "save them as red, green, blue"
        )
    return count


def _boxes(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and content of the boxes of JPEG 2000 (ISO 15444-1, I.4)."""
    at = 0
    while at + 8 <= len(content):
        length, head = int.from_bytes(content[at : at + 4]), 8
        if length == 1:
            length, head = int.from_bytes(content[at + 8 : at + 16]), 16
        length = length if length >= head else len(content) - at  # 0: up to the end
        yield content[at + 4 : at + 8], content[at + head : at + length]
        at += length


_IMAGES = {"TIFF": _in_tiff, "MPO": _in_mpo, "PPM": _in_ppm, "JPEG2000": _in_jpeg2000}
"""Function that counts the images of a file, in formats where Pillow counts one."""


def check_whole(image: Any, stream: BinaryIO, read: int, file: Path) -> None:
    """Raise where a part of a decoded file is missing, which its decoder fills up.

    Parameters
    ----------
    image : PIL.Image.Image
        The decoded image.
    stream : BinaryIO
        Stream of its file.
    read : int
        Bytes of the file that were read when it was opened: of a JPEG the head of its first scan
        too.
    file : Path
        Its name, for errors.
    """
    whole = True
    if image.format == "PNG":
        whole = _is_whole_png(_content(stream))
    elif image.format in ("JPEG", "MPO") and not _is_plainly_whole(image, stream, read):
        corner = partial(_corner, image)
        whole = jpeg.is_whole(_content(stream), image.size[::-1], corner, _decode_jpeg)
    if not whole:
        raise image_error(
            f"{file} is cut off or damaged: a part of the image is missing; bring it whole"
        )


def _is_plainly_whole(image: Any, stream: BinaryIO, read: int) -> bool:
    """Return whether a JPEG is of one scan that has an end mark and does not end in mid-gray.

    Nearly all are, and it takes a glance; `jpeg.is_whole` decides on the others.
    """
    count = len(image.layer)
    scan = b"\xff\xda" + bytes([0, 6 + 2 * count, count])  # what its head begins with
    stream.seek(max(0, read - 8 - 2 * count))
    found = stream.read(len(scan))
    stream.seek(-2, io.SEEK_END)
    if found != scan or stream.read(2) != b"\xff\xd9" or "progressive" in image.info:
        return False
    last = image.getpixel((image.width - 1, image.height - 1))
    return any(abs(level - jpeg.MID_GRAY) > 1 for level in (last if count > 1 else (last,)))


def _corner(image: Any, rows: int, columns: int) -> NDArray[Any]:
    width, height = image.size
    return np.asarray(image.crop((width - columns, height - rows, width, height)))


def _decode_jpeg(content: bytes) -> NDArray[Any]:
    from PIL import Image

    with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
        return np.asarray(image)


def _is_whole_png(content: bytes) -> bool:
    """Return whether the sums of all data are right, up to the end mark."""
    at, view = 8, memoryview(content)
    while at + 12 <= len(content):
        kind, end = content[at + 4 : at + 8], at + 8 + int.from_bytes(view[at : at + 4])
        if kind == b"IEND":
            return True
        crc = int.from_bytes(view[end : end + 4])
        if kind == b"IDAT" and isal_zlib.crc32(view[at + 4 : end]) != crc:
            return False
        at = end + 4
    return False
