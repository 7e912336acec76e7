"""The frames of a DICOM file: native ones by NumPy, others by a decoder; and how they are scaled.

Nothing is unpacked before its size is known: frames are compared with the file's length, and the
size that a compressed frame gives itself with the header's.

Where the frames of a DICOM series are in space, and the order in which they are a volume.

A frame is at ImagePositionPatient, its rows and columns run as ImageOrientationPatient says, and
the normal is their cross product. Enhanced objects say it in functional groups.
"""

import math
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.dicom.decoder import decode_in_subprocess
from pipeline.datasets.dicom.header import (
    BIG_ENDIAN,
    EXPLICIT,
    IMPLICIT,
    Header,
    items,
    numbers,
    text,
)
from pipeline.datasets.pictures import Sigmoid, Window
from pipeline.datasets.source import LARGEST
from pipeline.errors import ImageError

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

Stored = NDArray[Any]

GRAY = ("MONOCHROME1", "MONOCHROME2")

COLOUR = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_ICT", "YBR_RCT")
"""Photometric interpretations that are read; the last four become RGB."""

PACKAGES = {
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
"""Which decoder reads a compressed transfer syntax: one each, so that lossy images have the same
pixels everywhere, whatever else is installed."""

_SPARE = 1 << 20
"""Bytes that a compressed frame may have besides twice its pixels: tables, profiles, comments."""


def check_frames(header: Header, channels: int) -> None:
    """Raise unless the frames of a file can be read, by what its header says of them.

    Raises
    ------
    ImageError
        When values are not told, an image is too large, the file too short, or there is no decoder.
    """
    _check_meaning(header, channels)
    _check_bits(header)
    frame = header.frame_bytes
    if not 1 <= frame <= LARGEST:
        raise ImageError(
            f"{header.file}: Rows (0028,0010) x Columns (0028,0011) must be 1 to {LARGEST:,} "
            f"bytes, found {frame:,}; cut the image to tiles or leave it out"
        )
    native = header.length >= 0
    # a compressed frame is at least an item's head and two bytes
    needed = header.frames * (frame if native else 10)
    if needed > (header.length if native else header.size):
        raise header.fault(
            "NumberOfFrames",
            f"is {header.frames:,}, for which the file is too short",
            "bring the file whole or leave it out",
        )
    if header.syntax not in NATIVE:
        _check_decoder(header)
    if native != (header.syntax in NATIVE):
        raise ImageError(
            f"{header.file}: PixelData (7FE0,0010) is not as TransferSyntaxUID (0002,0010) says; "
            "write the file anew or leave it out"
        )


def _check_meaning(header: Header, channels: int) -> None:
    """Raise unless the values of a pixel are gray or colour, as the card says."""
    gray = header.photometric in GRAY
    if not gray and header.photometric not in COLOUR:
        raise header.fault(
            "PhotometricInterpretation",
            f"must be one of {', '.join((*GRAY, *COLOUR))}, found {header.photometric!r}",
            "convert it, write the file anew, or leave it out",
        )
    if header.samples != (1 if gray else 3):
        raise header.fault("SamplesPerPixel", f"cannot be {header.samples} in such a file")
    if channels != header.samples:
        asked, colour = ("gray", "colour") if channels == 1 else ("colour", "gray")
        raise header.fault(
            "PhotometricInterpretation",
            f"must be {asked} as channels = {channels} in the card says, found {colour} "
            f"({header.photometric})",
            "correct the card or leave the file out",
        )


def _check_bits(header: Header) -> None:
    """Raise unless it is known how the bits of a value are to be read."""
    if header.allocated not in (8, 16, 32):
        raise header.fault("BitsAllocated", f"must be 8, 16 or 32, found {header.allocated}")
    if not 1 <= header.stored <= header.allocated:
        raise header.fault(
            "BitsStored", f"must be 1 to {header.allocated} (BitsAllocated), found {header.stored}"
        )
    highest = header.allocated - 1 if header.plain else header.stored - 1
    if not header.stored - 1 <= header.high <= highest:
        raise header.fault("HighBit", f"must be BitsStored - 1, found {header.high}")
    if header.samples == 3 and header.signed:
        raise header.fault("PixelRepresentation", "must be 0 in colour, found 1")
    if header.photometric.startswith("YBR") and header.stored != 8:
        raise header.fault(
            "BitsStored", f"must be 8 with {header.photometric}, found {header.stored}"
        )
    if header.photometric in ("YBR_ICT", "YBR_RCT") and header.length >= 0:
        raise header.fault("PhotometricInterpretation", "is one of JPEG 2000 only")


def read_frames(stream: BinaryIO, header: Header, frames: Sequence[int]) -> Iterator[Stored]:
    """Yield some frames, ascending, (h, w) or (h, w, 3), in the integers that the header says.

    Raises
    ------
    ImageError
        When a compressed frame is not what the header says.
    Exception
        Whatever damaged pixels make a decoder raise.
    """
    if header.length < 0:
        yield from _compressed(stream, header, frames)
    elif header.plain:
        for frame in frames:
            stream.seek(header.start + frame * header.frame_bytes)
            yield _native(stream.read(header.frame_bytes), header)
    else:
        from pydicom.pixels.decoders.base import get_decoder
        from pydicom.uid import UID

        decoder = get_decoder(UID(header.syntax))
        stream.seek(header.start)
        options = _options(header, header.frames)
        for pixels, _ in decoder.iter_array(stream, indices=list(frames), **options):
            yield pixels


def _native(pixels: bytes, header: Header) -> Stored:
    """Return one gray frame: bits that are not in use are dropped, the sign is carried on."""
    kind = np.dtype(f"<{'i' if header.signed else 'u'}{header.allocated // 8}")
    values = np.frombuffer(pixels, kind).reshape(header.rows, header.columns)
    above = header.allocated - 1 - header.high
    if unused := header.allocated - header.stored:
        values = np.right_shift(np.left_shift(values, above), unused)
    return values


def _compressed(stream: BinaryIO, header: Header, frames: Sequence[int]) -> Iterator[Stored]:
    from pydicom.encaps import generate_frames

    _check_decoder(header)
    stream.seek(header.start)
    wanted = iter(frames)
    next_one = next(wanted)
    for index, encoded in enumerate(generate_frames(stream, number_of_frames=header.frames)):
        if index < next_one:
            continue
        _check_encoded(header, encoded)
        plugin, options = _plugin(header), _options(header, 1)
        frame, meaning = decode_in_subprocess(header.syntax, plugin, encoded, options)
        if header.samples == 3 and meaning["photometric_interpretation"] != "RGB":
            raise header.fault("PhotometricInterpretation", "is not what the frames are")
        yield frame
        if (next_one := next(wanted, -1)) < 0:
            return
    raise ImageError(
        f"{header.file}: frame {next_one} is missing; bring the file whole or leave it out"
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
        "pixel_vr": header.representation or "OW",
    }


def _check_decoder(header: Header) -> None:
    """Raise unless there is a decoder of a compressed file, naming the package that has it."""
    from pydicom.pixels.decoders.base import get_decoder
    from pydicom.uid import UID

    uid = UID(header.syntax)
    deep = header.syntax == f"{_JPEG}51" and header.stored > 8  # gdcm reads 8 bits of it only
    if header.syntax in DECODERS and not deep:
        if _plugin(header) in get_decoder(uid).available_plugins:
            return
        way = f"install {PACKAGES[DECODERS[header.syntax]]}"
    else:
        way = "write it uncompressed first, as with gdcmconv --raw"
    raise ImageError(
        f"{header.file}: TransferSyntaxUID (0002,0010) is {uid.name or 'missing'} with "
        f"{header.stored} bits, for which there is no decoder here; {way}"
    )


def _plugin(header: Header) -> str:
    """Return the decoder of a compressed file by pydicom's name of it."""
    return "gdcm" if DECODERS[header.syntax] == "gdcm" else "pylibjpeg"


def _check_encoded(header: Header, encoded: bytes) -> None:
    """Raise unless a compressed frame has the size of the header, by what stands at its beginning.

    Decoders allocate what the frame itself asks for.
    """
    wanted = (header.rows, header.columns, header.samples)
    sides = {"gdcm": _jpeg_sides, "openjpeg": _jpeg2000_sides}.get(DECODERS[header.syntax])
    encoded_sides = sides(encoded) if sides else wanted
    if encoded_sides != wanted:
        raise ImageError(
            f"{header.file}: a frame must be {wanted} as the header says (rows, columns, samples), "
            f"found {encoded_sides}; write the file anew or leave it out"
        )
    if len(encoded) > 2 * header.frame_bytes + _SPARE:
        raise ImageError(
            f"{header.file}: a compressed frame has {len(encoded):,} bytes for "
            f"{header.frame_bytes:,} of pixels; write the file anew or leave it out"
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


ASK_WINDOW = 'give window = [low, high] or "image" in the card'


class Scaling(NamedTuple):
    """What `pipeline.datasets.pictures.to_uint8` is given of one frame."""

    slope: float
    intercept: float
    window: Window


def scaling(
    header: Header, frame: int, window: tuple[float, float] | Literal["image", "header"] | None
) -> Scaling:
    """Return how the values of one frame are rescaled, and the window that a card asks for.

    Raises
    ------
    ImageError
        When the header maps values by a table, does not say all of it, or says no numbers.
    """
    if items(header.elements, "ModalityLUTSequence"):
        raise header.fault(
            "ModalityLUTSequence",
            "maps values by a table, which is not read",
            "apply it and write the file anew, or leave it out",
        )
    slope, intercept = _rescale(header, frame)
    if window == "header":
        window = _header_window(header, frame, plain=(slope, intercept) == (1.0, 0.0))
    return Scaling(slope, intercept, window)


def _rescale(header: Header, frame: int) -> tuple[float, float]:
    for place in places(header, frame, "PixelValueTransformationSequence"):
        if text(place, "RescaleSlope") or text(place, "RescaleIntercept"):
            slope = _real(header, place, "RescaleSlope")
            return slope, _real(header, place, "RescaleIntercept")
    return 1.0, 0.0


def _header_window(header: Header, frame: int, plain: bool) -> Window:
    """Return the first window of a frame (PS3.3, C.11.2.1.2 and C.11.2.1.3).

    LINEAR is a window from c − ½ − (w − 1)/2 to c − ½ + (w − 1)/2, LINEAR_EXACT one of c ± w/2.
    """
    if items(header.elements, "VOILUTSequence"):
        raise header.fault(
            "VOILUTSequence", 'is a table, which window = "header" does not read', ASK_WINDOW
        )
    for place in places(header, frame, "FrameVOILUTSequence"):
        if not text(place, "WindowCenter"):
            continue
        center = _real(header, place, "WindowCenter")
        width = _real(header, place, "WindowWidth")
        function = text(place, "VOILUTFunction") or "LINEAR"
        if function not in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
            raise header.fault(
                "VOILUTFunction",
                f"must be LINEAR, LINEAR_EXACT or SIGMOID, found {function}",
                ASK_WINDOW,
            )
        if width < 1 if function == "LINEAR" else width <= 0:
            raise header.fault(
                "WindowWidth", f"is too small for {function}, found {width}", ASK_WINDOW
            )
        if function == "SIGMOID":
            return Sigmoid(center, width)
        if function == "LINEAR":
            center, width = center - 0.5, width - 1
        return center - width / 2, center + width / 2
    if header.stored == 8 and not header.signed and plain:
        return None
    raise header.fault(
        "WindowCenter", 'must be there for window = "header", found none', ASK_WINDOW
    )


def places(header: Header, frame: int, group: str) -> list["Dataset"]:
    """Return where to find what is said of one frame, the nearest first."""
    each, shared = header.groups
    of_frame = (
        item for groups in each[frame : frame + 1] + shared for item in items(groups, group)[:1]
    )
    return [*of_frame, header.elements]


def _real(header: Header, place: "Dataset", keyword: str) -> float:
    """Return a decimal string as a number; that it is finite is checked where it is used."""
    said = text(place, keyword)
    try:
        number = float(said)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise header.fault(keyword, f"must be a number, found {said!r}")
    return number


Vectors = NDArray[np.float64]

SLACK, FLOOR = 0.01, 0.01
"""By how much steps from slice to slice may differ: a share of them, but no less than this in mm,
to which positions are often rounded."""

UNIT = 1e-3
"""By how much the components of directions may differ, which have length 1."""

WAY = "bring the series whole, or leave it out with exclude"


class Planes(NamedTuple):
    """Where the frames of one file are.

    Attributes
    ----------
    series : str
        SeriesInstanceUID.
    positions : (m, 3) float64
        In mm.
    directions : (m, 6) float64
        Of rows and of columns.
    spacings : (m, 2) float64
        PixelSpacing; NaN where the file says none.
    """

    series: str
    positions: Vectors
    directions: Vectors
    spacings: Vectors


def read_planes(header: Header, frames: Sequence[int]) -> Planes:
    """Return where some frames of a file are.

    Raises
    ------
    ImageError
        When the file does not say it, or directions are no right angle of length 1.
    """
    positions = [_numbers(header, frame, "ImagePositionPatient", 3) for frame in frames]
    directions = [_numbers(header, frame, "ImageOrientationPatient", 6) for frame in frames]
    spacings = [_numbers(header, frame, "PixelSpacing", 2) for frame in frames]
    for direction in directions:
        rows, columns = np.reshape(direction, (2, 3))
        products = [rows @ rows - 1, columns @ columns - 1, rows @ columns]
        if not np.abs(products).max() <= 2 * UNIT:
            raise header.fault(
                "ImageOrientationPatient", f"must be two directions at a right angle, {direction}"
            )
    return Planes(
        text(header.elements, "SeriesInstanceUID"),
        np.array(positions),
        np.array(directions),
        np.array(spacings),
    )


class FrameId(NamedTuple):
    """What an image is known by: its SOPInstanceUID, which frame it is, where it is.

    Attributes
    ----------
    uid : str
    frame : int
    plane : tuple of float
        Its position, and the directions of its rows and columns; empty where the file says none.
    sides : tuple of float
        PixelSpacing, from row to row and from column to column in mm; empty likewise.
    """

    uid: str
    frame: int
    plane: tuple[float, ...]
    sides: tuple[float, ...]

    @property
    def spacing(self) -> float:
        """The smaller side of a pixel in mm, 0 where the file says none."""
        return min(self.sides, default=0.0)


def read_frame_id(header: Header, frame: int) -> FrameId:
    """Return what a frame of a file is known by."""
    position = _said(header, frame, "ImagePositionPatient", 3)
    direction = _said(header, frame, "ImageOrientationPatient", 6)
    plane = (*position, *direction) if position and direction else ()
    sides = tuple(_said(header, frame, "PixelSpacing", 2))
    return FrameId(text(header.elements, "SOPInstanceUID"), frame, plane, sides)


_GROUPS = {
    "ImagePositionPatient": "PlanePositionSequence",
    "ImageOrientationPatient": "PlaneOrientationSequence",
    "PixelSpacing": "PixelMeasuresSequence",
}


def _numbers(header: Header, frame: int, keyword: str, count: int) -> list[float]:
    """Return what must be said of one frame, as numbers."""
    values = _said(header, frame, keyword, count)
    if values:
        return values
    if keyword == "PixelSpacing":
        return [math.nan] * count
    raise header.fault(
        keyword, "must be there for volumes = true", "leave the file out, or read slices"
    )


def _said(header: Header, frame: int, keyword: str, count: int) -> list[float]:
    """Return what is said of one frame, as numbers; none where nothing is."""
    for place in places(header, frame, _GROUPS[keyword]):
        values = numbers(place, keyword)
        if len(values) == count and all(map(math.isfinite, values)):
            return values
        if values:
            raise header.fault(keyword, f"must be {count} numbers, found {len(values)}")
    return []


def slice_order(planes: Sequence[Planes], where: str) -> NDArray[np.int64]:
    """Return the order of frames along their normal, ascending; `where` names the series.

    Raises
    ------
    ImageError
        When there is one alone, two are in one place, one is missing between two, or they are not
        of one orientation, or of one size of pixels, or are not straight behind one another.
    """
    positions, directions, spacings = (
        np.concatenate([getattr(each, name) for each in planes])
        for name in ("positions", "directions", "spacings")
    )
    if len(positions) < 2:
        raise ImageError(f"{where}: a volume needs 2 slices or more, found 1; {WAY}")
    if np.ptp(directions, axis=0).max() > UNIT:
        raise ImageError(
            f"{where}: ImageOrientationPatient (0020,0037) must be one in a series, found several; "
            f"{WAY}"
        )
    if len({*map(tuple, np.nan_to_num(spacings).round(4).tolist())}) > 1:
        raise ImageError(
            f"{where}: PixelSpacing (0028,0030) must be one in a series, found several; {WAY}"
        )
    rows, columns = directions[0].reshape(2, 3)
    normal = np.cross(rows, columns)
    normal /= np.linalg.norm(normal)
    heights = positions @ normal
    order = np.argsort(heights, kind="stable")
    _check_steps(positions[order], normal, np.diff(heights[order]), where)
    return order


def _check_steps(positions: Vectors, normal: Vectors, steps: Vectors, where: str) -> None:
    """Raise unless slices are at equal steps along the normal, and straight behind one another."""
    step = float(np.median(steps))
    slack = max(SLACK * step, FLOOR)
    low, high = float(steps.min()), float(steps.max())
    place = f"{where}: slices, by ImagePositionPatient (0020,0032),"
    if low <= slack / 2:
        raise ImageError(f"{place} must be in different places, found two in one; {WAY}")
    if high - low > slack:
        raise ImageError(f"{place} must be at equal steps, found {low:.4g} to {high:.4g} mm; {WAY}")
    moves = np.diff(positions, axis=0)
    aside = np.linalg.norm(moves - np.outer(moves @ normal, normal), axis=1).max()
    if aside > slack:
        raise ImageError(
            f"{place} must be straight behind one another, found {aside:.4g} mm aside (a tilted "
            f"gantry?); {WAY}"
        )
