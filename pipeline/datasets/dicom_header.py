"""The header of a DICOM file: what of it decides pixels, size, person and date.

Values are read from the bytes of their elements. No text of a header is put into a warning or log.
Next on the path: `dicom_pixels`, which reads the frames.
"""

import os
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pipeline.datasets.dicom_elements import (
    DEFLATED,
    EXPLICIT,
    IMPLICIT,
    TAGS,
    TRANSFER_SYNTAX,
    UNDEFINED,
    Read,
    items,
    plain,
    read_elements,
    text,
)
from pipeline.errors import ImageError

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

WAY = "correct the file or leave it out"
_META_ENDS, _FLOAT_PIXELS, _PIXELS = 0x00030000, 0x7FE00008, 0x7FE00010
_MARK = 128
_HEAD = 1 << 17
"""Bytes of a file that are read at once, in which most headers end."""
_MANY = 16
"""Frames from which on a header says so much that reading it again costs more than keeping it."""


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

    @cached_property
    def groups(self) -> tuple[list["Dataset"], list["Dataset"]]:
        """Functional groups of Enhanced objects: those of each frame, and the shared ones."""
        each = items(self.elements, "PerFrameFunctionalGroupsSequence")
        if each and len(each) != self.frames:
            raise self.fault(
                "PerFrameFunctionalGroupsSequence",
                f"must have {self.frames} item(s), one for each frame, found {len(each)}",
            )
        return each, items(self.elements, "SharedFunctionalGroupsSequence")[:1]

    @property
    def person(self) -> str:
        """Whose image it is, by PatientID; "" where it says none.

        Its issuer does not count: often some of a person's files name it and others do not, and two
        halves of a person would be protected as two, while two persons of one number, taken for
        one, are protected as each of them is.
        """
        return _person(self.elements, "PatientID")

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


def _person(elements: "Dataset", keyword: str) -> str:
    """Return an identifier in the letters that the file says it is written in."""
    from pydicom.charset import convert_encodings, decode_bytes

    value = getattr(elements.get_item(TAGS[keyword]), "value", None)
    if not isinstance(value, bytes) or value.isascii():
        return plain(value)
    said = getattr(elements.get_item(TAGS["SpecificCharacterSet"]), "value", None)
    names = [name.strip() for name in plain(said).split("\\")]
    return decode_bytes(value, convert_encodings(names), set()).strip(" \0")


_KEPT: dict[tuple[object, ...], Header] = {}
"""By what tells a file from others, and from what it was before: one at most."""


def kept_header(stream: BinaryIO, file: Path) -> Header | None:
    """Return `read_header` of a file; of one with many frames, which are read in turns, it is kept.

    The header of the last such file, until another one is read or the file is written to. Threads
    that begin with it at once read it each.
    """
    told = os.fstat(stream.fileno())
    # as `reading.state`, but of the file that is open: an old time may be given back, a change not
    times = told.st_mtime_ns, told.st_ctime_ns
    known = file, told.st_dev, told.st_ino, told.st_size, times
    found = _KEPT.get(known)
    if found is None:
        found = read_header(stream, file)
        if found is not None and found.frames >= _MANY:
            _KEPT.clear()
            _KEPT[known] = found
    return found


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
    head = stream.read(_HEAD)
    if head[_MARK : _MARK + 4] != b"DICM":
        return None
    meta = read_elements(stream, head, _MARK + 4, EXPLICIT, _META_ENDS)
    syntax = plain(getattr(meta.elements.get_item(TRANSFER_SYNTAX), "value", None))
    if syntax == DEFLATED:
        raise ImageError(
            f"{file}: a deflated file may unpack to any size; write it uncompressed first, as with "
            "dcmconv +te"
        )
    read = read_elements(stream, head, meta.at, syntax, _FLOAT_PIXELS)
    if read.tag != _PIXELS:
        raise ImageError(
            f"{file}: PixelData (7FE0,0010) is missing ({_class_of(read.elements)}); leave the "
            "file out, by a narrower pattern or with exclude"
        )
    if read.length != UNDEFINED and read.value + read.length > size:
        raise ImageError(
            f"{file}: PixelData (7FE0,0010) must have {read.length:,} bytes, found "
            f"{size - read.value:,}; the file is cut off: bring it whole or leave it out"
        )
    return _header(file, syntax, read, size)


def _class_of(elements: "Dataset") -> str:
    """Return the name of what a file holds."""
    from pydicom.uid import UID

    what = text(elements, "SOPClassUID")
    return UID(what).name if what else "no class"


def _header(file: Path, syntax: str, read: Read, size: int) -> Header:
    """Return what the elements say, with what is known of the file."""
    number = partial(_number, file, read.elements)
    stored = number("BitsStored")
    return Header(
        file=file,
        syntax=syntax,
        elements=read.elements,
        start=read.value,
        length=-1 if read.length == UNDEFINED else read.length,
        size=size,
        representation=read.kind,
        rows=number("Rows"),
        columns=number("Columns"),
        samples=number("SamplesPerPixel"),
        frames=_count(file, read.elements),
        photometric=text(read.elements, "PhotometricInterpretation"),
        planar=number("PlanarConfiguration", 0),
        allocated=number("BitsAllocated"),
        stored=stored,
        high=number("HighBit", stored - 1),
        signed=number("PixelRepresentation") == 1,
    )
