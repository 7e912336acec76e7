"""The frames of a DICOM file: whether they can be read, and reading them with pydicom.

Nothing is unpacked before its size is known: frames are compared with the file's length, and the
size that a compressed frame gives itself with the header's.
"""

import base64
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from covdp.addons.hospital.dicom.decoder import decode_in_subprocess
from covdp.addons.hospital.dicom.header import BIG_ENDIAN, EXPLICIT, IMPLICIT, WAY, Header
from covdp.addons.hospital.dicom.plugins import choose_decoder, public_frames
from covdp.datasets.jpeg import is_whole
from covdp.datasets.pictures import digest_images
from covdp.datasets.source import IMAGE_BYTES
from covdp.errors import MachineError, image_error, one_line

StoredFrame = NDArray[Any]

GRAY = ("MONOCHROME1", "MONOCHROME2")

COLOUR_MODELS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
"""Photometric interpretations that are read; the last four become RGB."""

DECODER_PACKAGES = {
    "gdcm": "python-gdcm",
    "openjpeg": "pylibjpeg and pylibjpeg-openjpeg",
    "rle": "pylibjpeg and pylibjpeg-rle",
}

NATIVE = (IMPLICIT, EXPLICIT, BIG_ENDIAN)

_JPEG = "1.2.840.10008.1.2.4."

DECODERS = {
    **{f"{_JPEG}{end}": "gdcm" for end in (50, 51, 57, 70, 80, 81)},
    **{f"{_JPEG}{end}": "openjpeg" for end in (90, 91, 201, 202, 203)},
    "1.2.840.10008.1.2.5": "rle",
}
"""Decoder of each compressed transfer syntax: one each, so that lossy images have the same pixels
everywhere, whatever else is installed. Others that are asked for must make the same."""

JPEG = tuple(f"{_JPEG}{end}" for end in (50, 51, 57, 70))
"""Transfer syntaxes whose decoder fills up what is missing of a frame."""

_SPARE = 1 << 20
"""Bytes that a compressed frame may have besides twice its pixels: tables, profiles, comments."""


@cache
def digest_public_frames() -> str:
    """Return a digest of what each pinned decoder that is installed makes of its public frames.

    Frames that are cut off are left out, as no image is made of such.

    Raises
    ------
    MachineError
        A decoder fails, as where its process is killed: the digest would be that of another one.
    """
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.uid import UID

    decoded = list[StoredFrame]()
    for syntax, frames in public_frames().items():
        pinned = pinned_decoder(syntax)
        there = pinned in get_decoder(UID(syntax)).available_plugins
        for frame in frames if there else ():
            if not frame["cut"]:
                content = base64.b85decode(frame["encoded"])
                try:
                    made, _ = decode_in_subprocess(syntax, pinned, content, frame["options"])
                except ValueError as error:
                    raise MachineError(
                        f"the decoder {pinned} fails on a public frame ({one_line(error)}); run it "
                        "again, with more memory, or install covdp[hospital] anew"
                    ) from error
                decoded.append(made)
    return digest_images(decoded)


def check_frames(header: Header, channels: int) -> None:
    """Raise unless the frames of a file can be read, by what its header says of them.

    Parameters
    ----------
    header : Header
        Header of the file.
    channels : int
        Number of channels, 1 for gray and 3 for colour.

    Raises
    ------
    ImageError
        When values are not stated, an image is too large, the file too short, or there is no
        decoder.
    """
    _check_meaning(header, channels)
    _check_bits(header)
    check_size(header)
    if header.syntax not in NATIVE:
        _check_decoder(header)
    if header.encapsulated == (header.syntax in NATIVE):
        raise image_error(
            f"{header.file}: PixelData (7FE0,0010) must be as TransferSyntaxUID (0002,0010) says, "
            f"{header.syntax}, found {'' if header.encapsulated else 'un'}compressed; write it anew"
        )


def check_size(header: Header) -> None:
    """Raise unless frames have a size that images may have, and the file is as long as they are.

    At the end may be less than a frame more, or a byte that makes the length even.

    Parameters
    ----------
    header : Header
        Header of the file.
    """
    frame = math.ceil(header.frame_bits / 8)
    if not 1 <= frame <= IMAGE_BYTES:
        way = "cut the image to tiles" if frame else "correct the file"
        raise image_error(
            f"{header.file}: Rows (0028,0010) x Columns (0028,0011) must be 1 to {IMAGE_BYTES:,} "
            f"bytes, found {frame:,}; {way}"
        )
    # a compressed frame is at least an item's head and two bytes
    frame_bits, length = header.frame_bits, header.pixels.length
    if header.encapsulated:
        frame_bits, length = 80, header.size
    excess = 8 * length - header.frames * frame_bits
    long = not header.encapsulated and excess >= max(16, frame_bits)
    halved = header.photometric == "YBR_FULL_422" and not header.encapsulated
    if halved and (header.columns % 2 or 2 * excess == header.frames * frame_bits):
        one = "is YBR_FULL_422, which needs even Columns and two bytes a pixel"
        raise header.fault("PhotometricInterpretation", one, "correct it, as to YBR_FULL")
    if excess < 0 or long:
        raise header.fault(
            "NumberOfFrames",
            f"is {header.frames:,}, for which the file is too {'long' if long else 'short'}",
            f"{'write it anew' if long else 'bring it whole'} or correct it, Rows or Columns",
        )


def _check_meaning(header: Header, channels: int) -> None:
    """Raise unless the values of a pixel are gray or colour, as the card says."""
    gray = header.photometric in GRAY
    if not gray and header.photometric not in COLOUR_MODELS:
        raise header.fault(
            "PhotometricInterpretation",
            f"must be one of {', '.join((*GRAY, *COLOUR_MODELS))}, found {header.photometric!r}",
            "convert it to RGB or gray" if header.photometric else WAY,
        )
    if header.samples != (1 if gray else 3):
        one = f"must be {1 if gray else 3} with {header.photometric}, found {header.samples}"
        raise header.fault("SamplesPerPixel", one)
    if channels != header.samples:
        asked, colour = ("gray", "colour") if channels == 1 else ("colour", "gray")
        raise header.fault(
            "PhotometricInterpretation",
            f"must be {asked} as channels = {channels} says, found {colour} ({header.photometric})",
            "correct channels in the card",
        )


def _check_bits(header: Header) -> None:
    """Raise unless it is known how the bits of a value are to be read."""
    if header.allocated not in (8, 16, 32):
        raise header.fault("BitsAllocated", f"must be 8, 16 or 32, found {header.allocated}")
    if not 1 <= header.stored <= header.allocated:
        raise header.fault(
            "BitsStored", f"must be 1 to {header.allocated} (BitsAllocated), found {header.stored}"
        )
    shifted = header.samples == 1 and not header.encapsulated
    highest = header.allocated - 1 if shifted else header.stored - 1
    if not header.stored - 1 <= header.high <= highest:
        most = f" to {highest}" * shifted
        raise header.fault("HighBit", f"must be {header.stored - 1}{most}, found {header.high}")
    if header.samples == 3 and header.planar not in (0, 1):
        raise header.fault("PlanarConfiguration", f"must be 0 or 1, found {header.planar}")
    if header.samples == 3 and header.signed:
        raise header.fault("PixelRepresentation", "must be 0 in colour, found 1")
    if header.photometric.startswith("YBR") and header.stored != 8:
        raise header.fault(
            "BitsStored", f"must be 8 with {header.photometric}, found {header.stored}"
        )
    if header.photometric in ("YBR_ICT", "YBR_RCT") and (DECODERS.get(header.syntax) != "openjpeg"):
        raise header.fault("PhotometricInterpretation", "is one of JPEG 2000 only")


def read_frames(
    stream: BinaryIO, header: Header, frames: Sequence[int], plugin: str | None = None
) -> Iterator[StoredFrame]:
    """Yield some frames, ascending, (h, w) or (h, w, 3), in the integers that the header says.

    Compressed ones are decoded by `plugin`, and those that it fails on by the pinned decoder.

    Parameters
    ----------
    stream : BinaryIO
        Opened file.
    header : Header
        Header of the file.
    frames : sequence of int
        Indices of the frames, ascending.
    plugin : str, optional
        Name of the decoder; the pinned one when left out.

    Raises
    ------
    ImageError
        When a compressed frame is not what the header says.
    Exception
        Whatever damaged pixels make a decoder raise.
    """
    if header.encapsulated:
        yield from _compressed(stream, header, frames, plugin or pinned_decoder(header.syntax))
        return
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.uid import UID

    above, unused = header.allocated - 1 - header.high, header.allocated - header.stored
    shifted = header.samples == 1 and unused > 0  # pydicom takes HighBit for BitsStored - 1
    options = _options(header, header.frames) | {"correct_unused_bits": not shifted}
    stream.seek(header.pixels.start)
    decoder = get_decoder(UID(header.syntax))
    read = decoder.iter_array(stream, indices=list(frames), **options)
    if header.photometric == "YBR_FULL_422":  # of which it takes all but the first for YBR_FULL
        read = (decoder.as_array(stream, index=index, **options) for index in frames)
    for pixels, _ in read:
        # bits that are not in use are dropped, the sign is carried on
        yield np.right_shift(np.left_shift(pixels, above), unused) if shifted else pixels


def _compressed(
    stream: BinaryIO, header: Header, frames: Sequence[int], plugin: str
) -> Iterator[StoredFrame]:
    from pydicom.encaps import generate_frames

    stream.seek(header.pixels.start)
    index, last = -1, frames[-1]
    for index, encoded in enumerate(generate_frames(stream, number_of_frames=header.frames)):
        if index in frames:
            _check_encoded(header, encoded)
            frame, meaning = _decoded(header, encoded, plugin)
            if header.syntax in JPEG and not _is_whole(header, encoded, frame, plugin):
                raise image_error(
                    f"{header.file}: frame {index + 1} is cut off, a part of it is missing; bring "
                    "the file whole"
                )
            # of `COLOUR_MODELS` the pinned decoders make RGB
            assert header.samples == 1 or meaning["photometric_interpretation"] == "RGB"
            yield frame
        if index == last:
            return
    raise image_error(f"{header.file}: frame {index + 2} is missing; bring the file whole")


def _decoded(header: Header, encoded: bytes, plugin: str) -> Any:
    """Return the pixels of a frame and what they mean, from the pinned decoder if `plugin` fails.

    So a frame that another decoder does not know, or leaves in another colour model than RGB, is
    read, or refused, as it would be without it.
    """
    options, pinned = _options(header, 1), pinned_decoder(header.syntax)
    if plugin != pinned:
        with suppress(ValueError):
            frame, meaning = decode_in_subprocess(header.syntax, plugin, encoded, options)
            if header.samples == 1 or meaning["photometric_interpretation"] == "RGB":
                return frame, meaning
    return decode_in_subprocess(header.syntax, pinned, encoded, options)


def _is_whole(header: Header, encoded: bytes, frame: StoredFrame, plugin: str) -> bool:
    """Return whether nothing of a frame is filled up by its decoder."""
    return is_whole(
        encoded,
        (header.rows, header.columns),
        lambda rows, columns: frame[-rows:, -columns:],
        lambda other: _decoded(header, other, plugin)[0],
    )


def _options(header: Header, frames: int) -> dict[str, Any]:
    """Return what pydicom's decoders must know of a file."""
    return {
        "rows": header.rows,
        "columns": header.columns,
        "number_of_frames": frames,
        "samples_per_pixel": header.samples,
        "bits_allocated": header.allocated,
        "bits_stored": header.stored,
        "pixel_representation": int(header.signed),
        "photometric_interpretation": header.photometric,
        "planar_configuration": header.planar,
        "pixel_keyword": "PixelData",
        "pixel_vr": header.pixels.kind or "OW",
    }


def _check_decoder(header: Header) -> None:
    """Raise unless there is a decoder of a compressed file, naming the package that has it."""
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.uid import UID

    uid = UID(header.syntax)
    deep = header.syntax == f"{_JPEG}51" and header.stored > 8  # gdcm reads 8 bits of it only
    if header.syntax in DECODERS and not deep:
        if pinned_decoder(uid) in get_decoder(uid).available_plugins:
            return
        way = f"install {DECODER_PACKAGES[DECODERS[header.syntax]]}"
    else:
        way = "write it uncompressed first, as with gdcmconv --raw"
    raise image_error(
        f"{header.file}: TransferSyntaxUID (0002,0010) is {uid.name or 'missing'} with "
        f"{header.stored} bits, for which there is no decoder here; {way}"
    )


def pinned_decoder(syntax: str) -> str:
    """Return the decoder of a compressed transfer syntax by pydicom's name of it.

    Parameters
    ----------
    syntax : str
        UID of the transfer syntax.
    """
    return "gdcm" if DECODERS[syntax] == "gdcm" else "pylibjpeg"


def decoder_of(header: Header, asked: tuple[str, ...]) -> tuple[str | None, str]:
    """Return the decoder that reads a file, and its transfer syntax in words.

    The decoder is None of a file that is not compressed, and part of the words if it is not the
    pinned one.

    Parameters
    ----------
    header : Header
        Header of the file.
    asked : tuple of str
        Names of decoders, the preferred one first.
    """
    from pydicom.uid import UID

    syntax, words = header.syntax, UID(header.syntax).name
    if syntax in NATIVE:
        return None, words
    pinned = pinned_decoder(syntax)
    plugin = choose_decoder(syntax, pinned, asked)
    return plugin, words if plugin == pinned else f"{words} by {plugin}"


def _check_encoded(header: Header, encoded: bytes) -> None:
    """Raise unless a compressed frame has the size of the header, by what stands at its beginning.

    Decoders allocate what the frame itself asks for.
    """
    wanted = (header.rows, header.columns, header.samples)
    sides = {"gdcm": _jpeg_sides, "openjpeg": _jpeg2000_sides}.get(DECODERS[header.syntax])
    encoded_sides = sides(encoded) if sides else wanted
    if encoded_sides != wanted:
        raise image_error(
            f"{header.file}: a frame must be {wanted} as the header says (rows, columns, samples), "
            f"found {encoded_sides or 'another format'}; write the file anew"
        )
    segments, found = header.samples * header.allocated // 8, int.from_bytes(encoded[:4], "little")
    if DECODERS[header.syntax] == "rle" and found != segments:
        raise image_error(
            f"{header.file}: a frame of RLE must have {segments} segment(s), as SamplesPerPixel "
            f"and BitsAllocated say, found {found}; write the file anew"
        )
    size = header.frame_bits // 8
    if len(encoded) > 2 * size + _SPARE:
        raise image_error(
            f"{header.file}: a compressed frame has {len(encoded):,} bytes for "
            f"{size:,} of pixels; write the file anew"
        )


def _jpeg_sides(encoded: bytes) -> tuple[int, ...]:
    """Return rows, columns and samples of a JPEG or JPEG-LS stream; () where it gives none."""
    at = 2
    while at + 10 <= len(encoded) and encoded[at] == 0xFF:
        mark, length = encoded[at + 1], int.from_bytes(encoded[at + 2 : at + 4], "big")
        if mark == 0xFF:  # fill
            at += 1
        elif mark == 0xF7 or (0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC)):
            return struct.unpack_from(">HHB", encoded, at + 5)
        else:
            at += 2 + length
    return ()


def _jpeg2000_sides(encoded: bytes) -> tuple[int, ...]:
    """Return rows, columns and samples of a JPEG 2000 stream; () where it gives none.

    What is read is what the decoder reads: some writers put boxes before the stream, and in one of
    them may stand the beginning of another.
    """
    at = 0
    while encoded[at : at + 4] != b"\xff\x4f\xff\x51":
        length, box = int.from_bytes(encoded[at : at + 4], "big"), encoded[at + 4 : at + 8]
        head = 8
        if length == 1:
            length, head = int.from_bytes(encoded[at + 8 : at + 16], "big"), 16
        if at + head >= len(encoded) or (box != b"jp2c" and length < head):
            return ()
        at += head if box == b"jp2c" else length
    if at + 42 > len(encoded):
        return ()
    right, bottom, left, top = struct.unpack_from(">4I", encoded, at + 8)
    return bottom - top, right - left, int.from_bytes(encoded[at + 40 : at + 42], "big")
