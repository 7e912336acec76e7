"""The public frames that decoders are tried on: ``python -m tests.tools.decoder_frames``.

Writes ``pipeline/addons/hospital/dicom/frames.json.gz``: details of pictures that scikit-image
ships, encoded in every compressed transfer syntax that is read, and digests of what the pinned
decoder makes of them. Pixels are means of 8 x 8, or 2 x 2 in colour, so that 16 bits are as in
nature. It takes encoders that covdp does without: ``pip install imagecodecs pyjpegls``. Where a
pinned decoder is to change, ``--digests`` leaves the frames as they are.
"""

import base64
import gzip
import importlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import skimage.data
from numpy.typing import NDArray
from PIL import Image
from pydicom import uid
from pydicom.pixels.encoders.base import get_encoder

from covdp.addons.hospital.dicom.decoder import decode_in_subprocess
from covdp.addons.hospital.dicom.pixels import DECODERS, pinned_decoder
from covdp.addons.hospital.dicom.plugins import PUBLIC_FRAMES, digest_pixels, public_frames

GRAY, RGB = "MONOCHROME2", "RGB"
SIDES, SMALL = (33, 35), (17, 19)
"""Odd, and no multiples of a block; the larger for five levels of wavelets."""

Pixels = NDArray[Any]


class PublicFrame(NamedTuple):
    """An encoded picture, and what a header would say of it."""

    name: str
    pixels: Pixels
    encoded: bytes
    stored: int = 8
    photometric: str = GRAY


def gray(bits: int = 8, *, signed: bool = False, sides: tuple[int, int] = SIDES) -> Pixels:
    """Return a detail of a picture that takes the whole range of so many bits."""
    high, wide = sides
    detail = skimage.data.camera()[-8 * high :, : 8 * wide].astype(float)
    means = detail.reshape(high, 8, wide, 8).mean((1, 3))
    means -= means.min()
    values = np.round(means * ((1 << bits) - 1) / means.max()).astype(np.int64)
    if signed:
        values -= 1 << (bits - 1)
    return values.astype(f"{'i' if signed else 'u'}{1 if bits <= 8 else 2}")


def colour(sides: tuple[int, int] = SIDES) -> Pixels:
    """Return a detail of stained tissue."""
    high, wide = sides
    detail = skimage.data.immunohistochemistry()[: 2 * high, : 2 * wide].astype(float)
    return np.round(detail.reshape(high, 2, wide, 2, 3).mean((1, 3))).astype(np.uint8)


def jpeg(pixels: Pixels, **options: Any) -> bytes:
    """Return a baseline JPEG stream."""
    sink = io.BytesIO()
    Image.fromarray(pixels).save(sink, "JPEG", **options)
    return sink.getvalue()


def baseline() -> Iterator[PublicFrame]:
    """Yield baseline frames: qualities, restarts, and every way of colours."""
    yield PublicFrame("gray", gray(), jpeg(gray(), quality=90))
    large = gray(sides=(61, 63))
    yield PublicFrame("gray of low quality", large, jpeg(large, quality=15, optimize=True))
    restarts = jpeg(gray(), quality=75, restart_marker_blocks=3)
    yield PublicFrame("gray with restarts", gray(), restarts)
    for sampling, photometric in ((0, "YBR_FULL"), (1, "YBR_FULL_422"), (2, "YBR_FULL_422")):
        stream = jpeg(colour(), quality=85, subsampling=sampling, optimize=True)
        yield PublicFrame(f"colour {sampling}", colour(), stream, photometric=photometric)
    stream = jpeg(colour(), quality=85, keep_rgb=True, optimize=True)
    yield PublicFrame("colour as RGB", colour(), stream, photometric=RGB)


def extended() -> Iterator[PublicFrame]:
    """Yield what a baseline stream is as an extended one."""
    for frame in baseline():
        if frame.name in ("gray", "gray of low quality", "colour 1"):
            yield frame._replace(encoded=frame.encoded.replace(b"\xff\xc0\x00", b"\xff\xc1\x00", 1))


def lossless(predictors: tuple[int, ...]) -> Iterator[PublicFrame]:
    """Yield JPEG without loss, of 8, 12 and 16 bits, and of 16 with a sign, and colour."""
    encode = importlib.import_module("imagecodecs").jpeg8_encode
    kinds = [(8, False), (12, False), (16, False), (16, True)]
    for number, (bits, signed) in enumerate(kinds * (2 if len(predictors) > 1 else 1)):
        pixels, predictor = (
            gray(bits, signed=signed, sides=SMALL),
            predictors[number % len(predictors)],
        )
        unsigned = pixels.view(f"u{pixels.dtype.itemsize}")
        stream = encode(unsigned, lossless=True, predictor=predictor, bitspersample=bits)
        yield PublicFrame(f"{bits} bits{', signed' * signed}, {predictor}", pixels, stream, bits)
    pixels = colour(SMALL)
    stream = encode(pixels, lossless=True, predictor=predictors[0], outcolorspace="RGB")
    yield PublicFrame("colour", pixels, stream, photometric=RGB)


def encoded(
    syntax: str,
    kinds: list[tuple[int, bool]],
    colours: tuple[str, ...],
    sides: tuple[int, int] = SMALL,
    **options: Any,
) -> Iterator[PublicFrame]:
    """Yield what pydicom's encoder makes of gray of some bits, with a sign or not, and colours."""
    encoder = get_encoder(uid.UID(syntax))

    def encode(pixels: Pixels, stored: int, photometric: str) -> bytes:
        return encoder.encode(
            pixels,
            rows=pixels.shape[0], columns=pixels.shape[1], number_of_frames=1,
            samples_per_pixel=1 if pixels.ndim == 2 else 3, planar_configuration=0,
            bits_allocated=8 * pixels.dtype.itemsize, bits_stored=stored,
            pixel_representation=int(pixels.dtype.kind == "i"),
            photometric_interpretation=photometric, **options,
        )  # fmt: skip

    for bits, signed in kinds:
        pixels = gray(bits, signed=signed, sides=sides)
        name = f"{bits} bits{', signed' * signed}"
        yield PublicFrame(name, pixels, encode(pixels, bits, GRAY), bits)
    for photometric in colours:
        pixels = colour(sides)
        stream = encode(pixels, 8, photometric)
        yield PublicFrame(f"colour, {photometric}", pixels, stream, photometric=photometric)


def high_throughput(level: float | None, **options: Any) -> Iterator[PublicFrame]:
    """Yield HTJ2K of 8 and 16 bits, with a sign or not, and colour."""
    encode = importlib.import_module("imagecodecs").htj2k_encode
    for bits, signed in ((8, False), (16, False), (16, True)):
        pixels = gray(bits, signed=signed, sides=SMALL)
        name = f"{bits} bits{', signed' * signed}"
        yield PublicFrame(name, pixels, encode(pixels, level, **options), bits)
    pixels, photometric = colour(SMALL), "YBR_RCT" if level is None else "YBR_ICT"
    stream = encode(pixels, level, rgb=True, **options)
    yield PublicFrame("colour", pixels, stream, photometric=photometric)


PLAIN, SIGNED = [(8, False), (12, False), (16, False)], [(12, True), (16, True)]

MADE: dict[str, Callable[[str], Iterator[PublicFrame]]] = {
    uid.JPEGBaseline8Bit: lambda _: baseline(),
    uid.JPEGExtended12Bit: lambda _: extended(),
    uid.JPEGLossless: lambda _: lossless((1, 2, 4, 5, 6, 7, 3)),
    uid.JPEGLosslessSV1: lambda _: lossless((1,)),
    uid.JPEGLSLossless: lambda own: encoded(own, [*PLAIN, (16, True)], (RGB,)),
    uid.JPEGLSNearLossless: lambda own: encoded(own, PLAIN, (RGB,), jls_error=2),
    uid.JPEG2000Lossless: lambda own: encoded(own, PLAIN + SIGNED, (RGB, "YBR_RCT"), SIDES),
    uid.JPEG2000: lambda own: encoded(own, PLAIN + SIGNED, (RGB, "YBR_ICT"), SIDES, j2k_cr=[6]),
    uid.HTJ2KLossless: lambda _: high_throughput(None, resolutions=4),
    uid.HTJ2KLosslessRPCL: lambda _: high_throughput(None, resolutions=3, tlm=True),
    uid.HTJ2K: lambda _: high_throughput(0.01, resolutions=4),
    uid.RLELossless: lambda own: encoded(
        own, [*PLAIN, (16, True)], (RGB, "YBR_FULL"), encoding_plugin="pydicom"
    ),
}
"""Frames of each transfer syntax."""


def entry(frame: PublicFrame, cut: int = 0) -> dict[str, Any]:
    """Return a frame as it is stored, with its header; `cut` bytes are missing at its end."""
    pixels = frame.pixels
    name, content = frame.name, frame.encoded
    if cut:
        end = b"\xff\xd9" if content.startswith(b"\xff\xd8") else b""
        name, content = f"{name}, cut off", content[:-cut] + end
    options = {
        "rows": pixels.shape[0], "columns": pixels.shape[1], "number_of_frames": 1,
        "samples_per_pixel": 1 if pixels.ndim == 2 else 3,
        "bits_allocated": 8 * pixels.dtype.itemsize, "bits_stored": frame.stored,
        "pixel_representation": int(pixels.dtype.kind == "i"),
        "photometric_interpretation": frame.photometric, "planar_configuration": 0,
        "pixel_keyword": "PixelData", "pixel_vr": "OB",
    }  # fmt: skip
    text = base64.b85encode(content).decode()
    return {"name": name, "cut": bool(cut), "options": options, "encoded": text}


def pinned_digest(syntax: str, frame: dict[str, Any]) -> str | None:
    """Return the digest of what the pinned decoder makes of a frame, None where it fails."""
    content = base64.b85decode(frame["encoded"])
    try:
        made = decode_in_subprocess(syntax, pinned_decoder(syntax), content, frame["options"])
    except ValueError:
        if not frame["cut"]:
            raise
        return None
    return digest_pixels(*made)


def main() -> None:
    """Write the frames, or their digests alone."""
    stored: dict[str, list[dict[str, Any]]] = {}
    if "--digests" in sys.argv:
        stored = public_frames()
    else:
        for syntax in DECODERS:
            frames = [*MADE[syntax](syntax)]
            stored[syntax] = [
                *map(entry, frames),
                entry(frames[0], cut=len(frames[0].encoded) // 3),
            ]
    for syntax, entries in stored.items():
        for one in entries:
            one["digest"] = pinned_digest(syntax, one)
    PUBLIC_FRAMES.write_bytes(gzip.compress(json.dumps(stored).encode(), mtime=0))
    count, size = sum(map(len, stored.values())), PUBLIC_FRAMES.stat().st_size
    print(f"{PUBLIC_FRAMES}: {count} frames in {size:,} bytes")


if __name__ == "__main__":
    main()
