"""The header of a DICOM file: what of it decides pixels, size, person and date.

Values are read from the bytes of their elements. No text of a header is put into a warning or log.
Next on the path: `dicom_pixels`, which reads the frames.
"""

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pipeline.errors import ImageError

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

TAGS: Mapping[str, int] = {
    "SpecificCharacterSet": 0x00080005,
    "SOPClassUID": 0x00080016,
    "StudyDate": 0x00080020,
    "PatientID": 0x00100020,
    "IssuerOfPatientID": 0x00100021,
    "SeriesInstanceUID": 0x0020000E,
    "SamplesPerPixel": 0x00280002,
    "PhotometricInterpretation": 0x00280004,
    "PlanarConfiguration": 0x00280006,
    "NumberOfFrames": 0x00280008,
    "Rows": 0x00280010,
    "Columns": 0x00280011,
    "BitsAllocated": 0x00280100,
    "BitsStored": 0x00280101,
    "HighBit": 0x00280102,
    "PixelRepresentation": 0x00280103,
    "BurnedInAnnotation": 0x00280301,
    "RecognizableVisualFeatures": 0x00280302,
    "WindowCenter": 0x00281050,
    "WindowWidth": 0x00281051,
    "RescaleIntercept": 0x00281052,
    "RescaleSlope": 0x00281053,
    "VOILUTFunction": 0x00281056,
    "ModalityLUTSequence": 0x00283000,
    "VOILUTSequence": 0x00283010,
    "FrameVOILUTSequence": 0x00289132,
    "PixelValueTransformationSequence": 0x00289145,
    "SharedFunctionalGroupsSequence": 0x52009229,
    "PerFrameFunctionalGroupsSequence": 0x52009230,
}
IMPLICIT, BIG_ENDIAN = "1.2.840.10008.1.2", "1.2.840.10008.1.2.2"
EXPLICIT, DEFLATED = "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.99"
_TRANSFER_SYNTAX = 0x00020010
_FLOAT_PIXELS, _PIXELS = 0x7FE00008, 0x7FE00010
_UNDEFINED = 0xFFFFFFFF
WAY = "correct the file or leave it out"
_MARK = 128
_HEAD = 1 << 17
"""Bytes of a file that are read at once, in which most headers end."""


@dataclass(frozen=True, eq=False)
class Header:
    """What the header of one file says.

    Attributes
    ----------
    file : Path
        Which.
    syntax : str
        The UID of its transfer syntax.
    elements : Dataset
        The elements of `TAGS`, as their bytes.
    start, length : int
        Where the pixels begin in the file, and how many bytes they are; −1 when they are
        encapsulated.
    size : int
        Bytes of the file.
    representation : str
        The value representation of the pixels, OB or OW; "" where the file leaves it out.
    rows, columns, samples, frames : int
        Height, width, values of a pixel (1 or 3), images.
    photometric : str
        What the values of a pixel mean.
    planar : int
        Whether colours lie in planes of their own.
    allocated, stored, high : int
        Bits that a value takes, how many of them are in use, and the highest of these.
    signed : bool
        Whether values are two's complement.
    """

    file: Path
    syntax: str
    elements: "Dataset" = field(repr=False)
    start: int
    length: int
    size: int
    representation: str
    rows: int
    columns: int
    samples: int
    frames: int
    photometric: str
    planar: int
    allocated: int
    stored: int
    high: int
    signed: bool

    @property
    def plain(self) -> bool:
        """Whether the pixels are gray values, one after another, as this machine has them."""
        return self.length >= 0 and self.syntax in (IMPLICIT, EXPLICIT) and self.samples == 1

    @property
    def frame_bytes(self) -> int:
        """Bytes of a frame that is not compressed."""
        halved = self.photometric == "YBR_FULL_422" and self.length >= 0
        return self.rows * self.columns * (2 if halved else self.samples) * self.allocated // 8

    @property
    def person(self) -> str:
        """Whose image it is: PatientID, with its issuer if there is one; "" where it says none."""
        name = _person(self.elements, "PatientID")
        issuer = _person(self.elements, "IssuerOfPatientID")
        return f"{name}\\{issuer}" if name and issuer else name

    @property
    def day(self) -> date | None:
        """The day of the study; None where the file does not say one that a calendar has."""
        said = text(self.elements, "StudyDate").replace(".", "")  # with points before 1993
        try:
            return date.fromisoformat(said) if len(said) == 8 else None
        except ValueError:
            return None

    def fault(self, keyword: str, rule: str, way: str = WAY) -> ImageError:
        """Return an error about an element: the file, the tag, the rule, the way out."""
        return _fault(self.file, keyword, rule, way)


def _fault(file: Path, keyword: str, rule: str, way: str = WAY) -> ImageError:
    tag = TAGS[keyword]
    return ImageError(f"{file}: {keyword} ({tag >> 16:04X},{tag & 0xFFFF:04X}) {rule}; {way}")


def _number(file: Path, elements: "Dataset", keyword: str, default: int | None = None) -> int:
    """Return an integer of the header; without a default it must be there."""
    found: Any = elements.get_item(TAGS[keyword])
    if not getattr(found, "value", None) and default is not None:
        return default
    if not isinstance(getattr(found, "value", None), bytes) or len(found.value) < 2:
        raise _fault(file, keyword, "must be there, and an integer")
    return int.from_bytes(found.value[:2], "little" if found.is_little_endian else "big")


def _count(file: Path, elements: "Dataset") -> int:
    """Return how many frames there are, 1 where nothing says it."""
    said = text(elements, "NumberOfFrames") or "1"
    if not (said.isascii() and said.isdecimal() and int(said[:20]) >= 1):
        raise _fault(file, "NumberOfFrames", "must be a positive whole number")
    return int(said[:20])


def text(elements: "Dataset", keyword: str) -> str:
    """Return the first value of an element that is text, "" when there is none."""
    value = getattr(elements.get_item(TAGS[keyword]), "value", None)
    return _plain(value).split("\\")[0].strip()


def items(elements: "Dataset", keyword: str) -> list["Dataset"]:
    """Return the items of a sequence."""
    tag = TAGS[keyword]
    if tag not in elements:
        return []
    value = elements[tag].value
    return list(value) if value else []


def _person(elements: "Dataset", keyword: str) -> str:
    """Return an identifier in the letters that the file says it is written in."""
    from pydicom.charset import convert_encodings, decode_bytes

    value = getattr(elements.get_item(TAGS[keyword]), "value", None)
    if not isinstance(value, bytes) or value.isascii():
        return _plain(value)
    said = getattr(elements.get_item(TAGS["SpecificCharacterSet"]), "value", None)
    names = [name.strip() for name in _plain(said).split("\\")]
    return decode_bytes(value, convert_encodings(names), set()).strip(" \0")


def read_header(stream: BinaryIO, file: Path) -> Header | None:
    """Read the header of a file as far as its pixels; None when it is not a DICOM file.

    Raises
    ------
    ImageError
        When it has no pixels, or not as many bytes as it says.
    Exception
        Whatever a damaged file makes pydicom raise.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    head = io.BytesIO(stream.read(_HEAD))  # hundreds of small reads are quicker in memory
    if head.getvalue()[_MARK : _MARK + 4] != b"DICM":
        return None
    try:
        return _read(head, size, file)
    except Exception:
        if size <= _HEAD:
            raise
    return _read(stream, size, file)  # the header is longer than that


def _read(stream: BinaryIO, size: int, file: Path) -> Header:
    """Read the header of a file of `size` bytes from its beginning, which `stream` holds."""
    from pydicom.filereader import read_dataset

    stream.seek(_MARK + 4)
    meta = read_dataset(stream, False, True, stop_when=lambda tag, *_: int.__rshift__(tag, 16) > 2)
    syntax = _plain(getattr(meta.get_item(_TRANSFER_SYNTAX), "value", None))
    if syntax == DEFLATED:
        raise ImageError(
            f"{file}: a deflated file may unpack to any size; write it uncompressed first, as with "
            "dcmconv +te"
        )
    elements, kind, length = _read_elements(stream, syntax, file)
    start = stream.tell() + (12 if kind in ("OB", "OW", "UN") else 8)
    if length == _UNDEFINED:
        length = -1
    elif start + length > size:
        raise ImageError(
            f"{file}: PixelData (7FE0,0010) must have {length:,} bytes, found {size - start:,}; "
            "the file is cut off: bring it whole or leave it out"
        )
    return _header(file, elements, syntax=syntax, start=start, length=length, size=size, kind=kind)


def _read_elements(stream: BinaryIO, syntax: str, file: Path) -> tuple["Dataset", str, int]:
    """Read the elements up to the pixels; return them, and kind and length of the pixels."""
    from pydicom.filereader import read_dataset
    from pydicom.uid import UID

    pixels: list[tuple[int, str, int]] = []

    def at_pixels(tag: int, kind: str | None, length: int) -> bool:
        if int.__ge__(tag, _FLOAT_PIXELS):
            pixels.append((int(tag), kind or "", length))
        return bool(pixels)

    elements = read_dataset(
        stream,
        syntax == IMPLICIT,
        syntax != BIG_ENDIAN,
        stop_when=at_pixels,
        specific_tags=[*TAGS.values()],
    )
    if not pixels or pixels[0][0] != _PIXELS:
        what = text(elements, "SOPClassUID")
        raise ImageError(
            f"{file}: PixelData (7FE0,0010) is missing ({UID(what).name if what else 'no class'}); "
            "leave the file out, by a narrower pattern or with exclude"
        )
    return elements, pixels[0][1], pixels[0][2]


def _header(
    file: Path, elements: "Dataset", *, syntax: str, start: int, length: int, size: int, kind: str
) -> Header:
    """Return what the elements say, with what is known of the file."""
    number = partial(_number, file, elements)
    stored = number("BitsStored")
    return Header(
        file=file,
        syntax=syntax,
        elements=elements,
        start=start,
        length=length,
        size=size,
        representation=kind,
        rows=number("Rows"),
        columns=number("Columns"),
        samples=number("SamplesPerPixel"),
        frames=_count(file, elements),
        photometric=text(elements, "PhotometricInterpretation"),
        planar=number("PlanarConfiguration", 0),
        allocated=number("BitsAllocated"),
        stored=stored,
        high=number("HighBit", stored - 1),
        signed=number("PixelRepresentation") == 1,
    )


def _plain(value: Any) -> str:
    """Return bytes as text without what fills them up, "" for anything else."""
    return value.decode("latin-1").strip(" \0") if isinstance(value, bytes) else ""
