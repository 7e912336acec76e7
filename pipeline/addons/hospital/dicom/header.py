"""The header of a DICOM file: what of it decides pixels, size, person, date and place.

Most files are skimmed: from one element to the next, without a look at what is not asked for. What
that cannot do, pydicom does, which takes four times as long. Values are read from the bytes of
their elements. No text of a header is put into a warning or log.

A frame is at ImagePositionPatient, its rows and columns run as ImageOrientationPatient says, and
the normal is their cross product, along which the frames of a series are a volume. Enhanced objects
say it in functional groups.
"""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.datasets.cards import ASK_WINDOW
from covdp.datasets.listing import day_of, open_regular, wrap_errors
from covdp.datasets.pictures import Scaling, Sigmoid, Window
from covdp.errors import ImageError, image_error

if TYPE_CHECKING:
    from pydicom.dataset import Dataset


KEYWORDS = """
    SpecificCharacterSet ImageType SOPClassUID SOPInstanceUID StudyDate Modality
    ReferencedSOPInstanceUID
    ReferencedFrameNumber SourceImageSequence DerivationImageSequence PatientID SeriesInstanceUID
    ImagePositionPatient ImageOrientationPatient PlanePositionSequence PlaneOrientationSequence
    SamplesPerPixel PhotometricInterpretation PlanarConfiguration NumberOfFrames Rows Columns
    PixelSpacing BitsAllocated BitsStored HighBit PixelRepresentation BurnedInAnnotation
    RecognizableVisualFeatures WindowCenter WindowWidth RescaleIntercept RescaleSlope
    VOILUTFunction ModalityLUTSequence VOILUTSequence PixelMeasuresSequence FrameVOILUTSequence
    PixelValueTransformationSequence SegmentationType SegmentSequence SegmentNumber
    SegmentIdentificationSequence ReferencedSegmentNumber SharedFunctionalGroupsSequence
    PixelPaddingValue PixelPaddingRangeLimit
    PerFrameFunctionalGroupsSequence TransferSyntaxUID
"""
"""The elements that are read, by the names that the standard gives them."""

IMPLICIT, BIG_ENDIAN = "1.2.840.10008.1.2", "1.2.840.10008.1.2.2"

EXPLICIT, DEFLATED = "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.99"

SEGMENTATION = "1.2.840.10008.5.1.4.1.1.66.4"
"""The class of objects that hold masks."""

LABEL_MAP = "1.2.840.10008.5.1.4.1.1.66.7"

_NEWER = {
    LABEL_MAP: "Label Map Segmentation Storage",
    "1.2.840.10008.5.1.4.1.1.66.8": "Height Map Segmentation Storage",
}
"""Names of classes that are newer than pydicom's list."""

_VOLUMES = ("Enhanced US Volume Storage",)
"""Names of classes of images that do not say so."""

NO_IMAGES = (
    "DOC FID KO M3D PLAN PR REG RTDOSE RTINTENT RTPLAN RTRAD RTRECORD RTSEGANN RTSTRUCT RWV SEG "
    "SMR SR STAIN TEXTUREMAP"
)
"""Modalities of objects that are no images, even where they have pixels (PS3.3, C.7.3.1.1.1)."""

_STANDARD_CLASSES = "1.2.840.10008.5.1.4."

_ITEMS = 0xFFFE0000
"""First tag of the marks of items, which are no elements: one that is astray ends nothing."""

UNDEFINED = 0xFFFFFFFF
"""The length of a value that ends where a mark says so."""

_ELEMENT, _LENGTH = Struct("<HH2sH").unpack_from, Struct("<I").unpack_from

_SKIMMED = 1 << 17
"""Bytes that are skimmed, in which most headers end."""


@cache
def tag_of(keyword: str) -> int:
    """Return the tag of an element.

    Parameters
    ----------
    keyword : str
        Keyword of the element.
    """
    from pydicom.datadict import tag_for_keyword

    return int(tag_for_keyword(keyword) or 0)


@cache
def _wanted() -> frozenset[int]:
    return frozenset(map(tag_of, KEYWORDS.split()))


class Stop(NamedTuple):
    """The element at which reading ended.

    Attributes
    ----------
    tag : int
        −1 at the end of the file.
    kind : str
        Its value representation, "" where the file leaves it out.
    length, start : int
        Number of bytes of its value, and their first place in the file.
    """

    tag: int = -1
    kind: str = ""
    length: int = 0
    start: int = 0


def read_elements(stream: BinaryIO, syntax: str, until: int) -> tuple["Dataset", Stop]:
    """Read the elements of `KEYWORDS` up to the first whose tag is `until` or larger.

    There the stream is left.

    Parameters
    ----------
    stream : BinaryIO
        Opened file, at an element.
    syntax : str
        UID of the transfer syntax.
    until : int
        Tag at which reading ends.

    Returns
    -------
    tuple of Dataset, Stop
        Elements, and the element at which reading ended.
    """
    at = stream.tell()
    if syntax != BIG_ENDIAN and (read := _skimmed(stream, syntax == IMPLICIT, until)):
        return read
    stream.seek(at)
    from pydicom.filereader import read_dataset

    stops: list[Stop] = []

    def ends(tag: int, kind: str | None, length: int) -> bool:
        if until <= int(tag) < _ITEMS:
            stops.append(Stop(int(tag), kind or "", length, stream.tell()))
        return bool(stops)

    implicit, little = syntax == IMPLICIT, syntax != BIG_ENDIAN
    elements = read_dataset(stream, implicit, little, stop_when=ends, specific_tags=[*_wanted()])
    return elements, stops[-1] if stops else Stop()


def _skimmed(stream: BinaryIO, implicit: bool, until: int) -> tuple["Dataset", Stop] | None:
    """Go from element to element; None at what only pydicom reads, and after `_SKIMMED` bytes."""
    from pydicom.dataelem import RawDataElement
    from pydicom.dataset import Dataset
    from pydicom.tag import BaseTag
    from pydicom.valuerep import EXPLICIT_VR_LENGTH_16, EXPLICIT_VR_LENGTH_32

    start, head, at = stream.tell(), stream.read(_SKIMMED), 0
    raw: dict[BaseTag, Any] = {}
    wanted = _wanted()
    while at + 12 <= len(head):
        group, number, code, length = _ELEMENT(head, at)
        value, kind = at + 8, "" if implicit else code.decode("latin-1")
        if implicit:
            (length,) = _LENGTH(head, at + 4)
        elif kind in EXPLICIT_VR_LENGTH_32:
            value, (length,) = at + 12, _LENGTH(head, at + 8)
        elif kind not in EXPLICIT_VR_LENGTH_16:
            if not _is_astray(head, at):
                return None
            at += 8
            continue
        tag = group << 16 | number
        if tag >= until:
            if _is_astray(head, at):
                at += 8
                continue
            stream.seek(start + at)
            return Dataset(raw), Stop(tag, kind, length, start + value)
        if length == UNDEFINED:
            return None
        if tag in wanted:
            name, content = BaseTag(tag), head[value : value + length]
            raw[name] = RawDataElement(
                name, kind or None, length, content, start + value, implicit, True
            )
        at = value + length
    return None


def _is_astray(head: bytes, at: int) -> bool:
    """Return whether there is the mark of an item, without content, in place of an element."""
    group, number, _, _ = _ELEMENT(head, at)
    (length,) = _LENGTH(head, at + 4)
    return group << 16 | number >= _ITEMS and length in (0, UNDEFINED)


def plain(value: Any) -> str:
    """Return bytes as text without what fills them up, "" for anything else.

    Parameters
    ----------
    value : object
        Value of an element.
    """
    return value.decode("latin-1").strip(" \0") if isinstance(value, bytes) else ""


def stored(elements: "Dataset", keyword: str) -> Any:
    """Return the value of an element as it is stored, None when there is none.

    Parameters
    ----------
    elements : pydicom.Dataset
        Elements of an object or of an item.
    keyword : str
        Keyword of the element.
    """
    return getattr(elements.get_item(tag_of(keyword)), "value", None)


def text(elements: "Dataset", keyword: str) -> str:
    """Return the first value of an element that is text, "" when there is none.

    Parameters
    ----------
    elements : pydicom.Dataset
        Elements of an object or of an item.
    keyword : str
        Keyword of the element.
    """
    return plain(stored(elements, keyword)).split("\\")[0].strip()


def numbers(elements: "Dataset", keyword: str) -> list[float]:
    """Return all values of an element that are decimal strings; NaN for one that is none.

    Parameters
    ----------
    elements : pydicom.Dataset
        Elements of an object or of an item.
    keyword : str
        Keyword of the element.
    """
    value = plain(stored(elements, keyword))
    return [_decimal(decimal) for decimal in value.split("\\")] if value else []


def _decimal(decimal: str) -> float:
    try:
        return math.nan if "_" in decimal else float(decimal)
    except ValueError:
        return math.nan


def object_name(elements: "Dataset") -> str:
    """Return the name of the class of an object, and whether it is a localizer.

    Parameters
    ----------
    elements : pydicom.Dataset
        Elements of an object or of an item.
    """
    name = _class_name(text(elements, "SOPClassUID"))
    kind = plain(stored(elements, "ImageType")).split("\\")[2:3]
    return f"{name}, localizer" if kind == ["LOCALIZER"] else name


def _class_name(uid: str) -> str:
    from pydicom.uid import UID

    return _NEWER.get(uid) or UID(uid).name or "no class"


def items(elements: "Dataset", keyword: str) -> list["Dataset"]:
    """Return the items of a sequence.

    Parameters
    ----------
    elements : pydicom.Dataset
        Elements of an object or of an item.
    keyword : str
        Keyword of the element.
    """
    tag = tag_of(keyword)
    return list(elements[tag].value or ()) if tag in elements else []


WAY = "correct the file"

_META_ENDS, _FLOAT_PIXELS, _PIXELS = 0x00030000, 0x7FE00008, 0x7FE00010

_MARK = 128


@dataclass(frozen=True, eq=False)
class Header:
    """Header of one file.

    Attributes
    ----------
    file : Path
        Path of the file.
    syntax : str
        The UID of its transfer syntax.
    elements : Dataset
        The elements of `KEYWORDS`, as their bytes.
    pixels : Stop
        The pixels: their value representation is OB or OW, and their length `UNDEFINED` when they
        are encapsulated.
    size : int
        Bytes of the file.
    rows, columns, samples, frames : int
        Height, width, values of a pixel (1 or 3), images.
    photometric : str
        Meaning of the values of a pixel.
    planar : int
        1 if colours are in planes of their own.
    allocated, stored, high : int
        Bits that a value takes, how many of them are in use, and the highest of these.
    signed : bool
        True if values are two's complement.
    """

    file: Path
    syntax: str
    elements: "Dataset" = field(repr=False)
    pixels: Stop
    size: int
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
    def encapsulated(self) -> bool:
        """True if the pixels are fragments of frames, as compressed ones are."""
        return self.pixels.length == UNDEFINED

    @property
    def frame_bits(self) -> int:
        """Bits of a frame that is not compressed."""
        halved = self.photometric == "YBR_FULL_422" and not self.encapsulated
        return self.rows * self.columns * (2 if halved else self.samples) * self.allocated

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
        """PatientID, in the letters that the file says it is written in.

        "" where it says none. Its issuer does not count: often some of a person's files name it and
        others do not, and two halves of a person would be protected as two, while two persons of
        one number, taken for one, are protected as each of them is.
        """
        value = stored(self.elements, "PatientID")
        if not isinstance(value, bytes) or (value.isascii() and _ESCAPE not in value):
            return plain(value)
        said = plain(stored(self.elements, "SpecificCharacterSet"))
        return _letters(value, [*map(str.strip, said.split("\\"))]).strip(" \0")

    @property
    def day(self) -> date | None:
        """The day of the study; None where the file does not say one that a calendar has."""
        digits = text(self.elements, "StudyDate").replace(".", "")  # with points before 1993
        return day_of(digits) if len(digits) == 8 else None

    def fault(self, keyword: str, rule: str, way: str = WAY) -> ImageError:
        """Return an error about an element: the file, the tag, the rule, the way out.

        Parameters
        ----------
        keyword : str
            Keyword of the element.
        rule : str
            Rule that the element breaks.
        way : str
            Way out, the last part of the message.
        """
        return _fault(self.file, keyword, rule, way)


def _fault(file: Path, keyword: str, rule: str, way: str = WAY) -> ImageError:
    tag = tag_of(keyword)
    return image_error(f"{file}: {keyword} ({tag >> 16:04X},{tag & 0xFFFF:04X}) {rule}; {way}")


_ESCAPE = b"\x1b"
"""Begins a change of letters in ISO 2022."""

_PLAIN = {"", "ISO_IR 6", "ISO 2022 IR 6", "ISO_IR 100", "ISO 2022 IR 100"}
"""Character sets of which no text is, by chance, UTF-8 too: Latin letters, or none stated."""


def _letters(value: bytes, sets: list[str]) -> str:
    """Return a text that is not in ASCII, in the letters of its character sets.

    What changes letters says itself into which, whether the set is named or not. Where only the
    first of several sets counts, and that has no such letters, the next one that fits is meant;
    and many files that are in UTF-8 say that they are in Latin letters, or nothing.
    """
    from pydicom.charset import convert_encodings, decode_bytes, python_encoding

    if _ESCAPE in value:
        sets = sets + [x for x in python_encoding if x.startswith("ISO 2022") and x not in sets]
    elif sets[0] in _PLAIN:
        for codec in ("utf-8", *convert_encodings(sets)[1:]):
            with suppress(UnicodeDecodeError, LookupError):
                return value.decode(codec)
    return decode_bytes(value, convert_encodings(sets), set())


def check_image(file: Path, elements: "Dataset") -> None:
    """Raise unless an object is an image: what it shows was taken, not drawn or computed.

    Parameters
    ----------
    file : Path
        Path of the file.
    elements : pydicom.Dataset
        Elements of an object or of an item.
    """
    what = _other_object(text(elements, "SOPClassUID"), text(elements, "Modality"))
    way = "name masks by the key masks" if what == _SEGMENTS else "keep it apart"
    if what:
        raise image_error(f"{file} is no image but {what}; {way}")


_SEGMENTS = "a segmentation (DICOM SEG)"


@lru_cache
def _other_object(uid: str, modality: str) -> str:
    """Return what objects of a class and a modality are, "" where they are images.

    One of nobody's standard is taken for an image if its modality is none of `NO_IMAGES`.
    """
    from pydicom.uid import UID

    name, kind = _class_name(uid), UID(uid).type if uid else ""
    other = kind == "SOP Class" or (kind == "" and uid.startswith(_STANDARD_CLASSES))
    image = "Image" in name or name in _VOLUMES or not other
    if image and modality not in NO_IMAGES.split():
        return ""
    return _SEGMENTS if uid == SEGMENTATION else f"{name}, modality {modality or 'not stated'}"


def _number(file: Path, elements: "Dataset", keyword: str, default: int | None = None) -> int:
    """Return an integer of the header; without a default it must be there."""
    element: Any = elements.get_item(tag_of(keyword))
    if not getattr(element, "value", None) and default is not None:
        return default
    if not isinstance(getattr(element, "value", None), bytes) or len(element.value) < 2:
        raise _fault(file, keyword, "must be there, and an integer")
    return int.from_bytes(element.value[:2], "little" if element.is_little_endian else "big")


def _count(file: Path, elements: "Dataset") -> int:
    """Return how many frames there are, 1 where nothing says it."""
    digits = text(elements, "NumberOfFrames") or "1"
    if not (digits.isascii() and digits.isdecimal() and int(digits[:20]) >= 1):
        raise _fault(file, "NumberOfFrames", f"must be a positive whole number, found {digits!r}")
    return int(digits[:20])


_KEPT: dict[tuple[object, ...], Header] = {}
"""Cache of one header, keyed by path, size and times of the file."""


def kept_header(stream: BinaryIO, file: Path) -> Header:
    """Return `read_header` of a file; that of the last one is cached, until it is written to.

    A file of many frames is read in turns. Threads that begin with it at once read it each.

    Parameters
    ----------
    stream : BinaryIO
        Opened file, at its beginning.
    file : Path
        Path of the file.
    """
    status = os.fstat(stream.fileno())
    # as `file_state`, but of the file that is open: an old time may be given back, a change not
    times = status.st_mtime_ns, status.st_ctime_ns
    identity = file, status.st_dev, status.st_ino, status.st_size, times
    header = _KEPT.get(identity)
    if header is None:
        header = read_header(stream, file)
        _KEPT.clear()
        _KEPT[identity] = header
    return header


@contextmanager
def readable(file: Path) -> Iterator[BinaryIO]:
    """Open a file; whatever a damaged one makes pydicom raise becomes one `ImageError`.

    Parameters
    ----------
    file : Path
        Path of the file.

    Yields
    ------
    BinaryIO
        Opened file.
    """
    with wrap_errors(file, "DICOM file", "bring it whole"), open_regular(file) as stream:
        yield stream


def is_marked(stream: BinaryIO) -> bool:
    """Return True if a file has the mark of DICOM, after which the stream is left.

    Parameters
    ----------
    stream : BinaryIO
        Opened file, at its beginning.
    """
    stream.seek(_MARK)
    return stream.read(4) == b"DICM"


def read_header(stream: BinaryIO, file: Path) -> Header:
    """Read the header of a file as far as its pixels.

    Parameters
    ----------
    stream : BinaryIO
        Opened file, at its beginning.
    file : Path
        Path of the file.

    Returns
    -------
    Header
        Header, up to the pixels.

    Raises
    ------
    ImageError
        When it is not a DICOM file, has no pixels, or not as many bytes as it says.
    Exception
        Whatever a damaged file makes pydicom raise.
    """
    size = stream.seek(0, os.SEEK_END)
    if not is_marked(stream):
        raise image_error(
            f"{file} has no DICM after 128 bytes, so it is no DICOM file, or one without its "
            "beginning; write it anew"
        )
    meta, _ = read_elements(stream, EXPLICIT, _META_ENDS)
    syntax = plain(stored(meta, "TransferSyntaxUID"))
    if syntax == DEFLATED:
        raise image_error(
            f"{file}: a deflated file may unpack to any size; write it uncompressed, as with "
            "dcmconv +te"
        )
    elements, pixels = read_elements(stream, syntax, _FLOAT_PIXELS)
    if pixels.tag != _PIXELS:
        check_image(file, elements)
        what = _class_name(text(elements, "SOPClassUID"))
        rest, way = "or the file is cut off before it", "bring it whole"
        if 0 < pixels.tag < _PIXELS:
            rest, way = "and its pixels are floating numbers", "write them as integers"
        raise image_error(f"{file}: PixelData (7FE0,0010) is missing ({what}), {rest}; {way}")
    if pixels.length != UNDEFINED and pixels.start + pixels.length > size:
        raise image_error(
            f"{file}: PixelData (7FE0,0010) must have {pixels.length:,} bytes, found "
            f"{size - pixels.start:,}; the file is cut off: bring it whole"
        )
    return _header(file, syntax, elements, pixels, size)


def _header(file: Path, syntax: str, elements: "Dataset", pixels: Stop, size: int) -> Header:
    """Return what the elements say, with what is known of the file."""
    number = partial(_number, file, elements)
    stored = number("BitsStored")
    return Header(
        file=file,
        syntax=syntax,
        elements=elements,
        pixels=pixels,
        size=size,
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


def scaling(
    header: Header, frame: int, window: tuple[float, float] | Literal["image", "header"] | None
) -> Scaling:
    """Return the rescaling of the values of one frame, and the window that a card asks for.

    Parameters
    ----------
    header : Header
        Header of the file.
    frame : int
        Index of the frame.
    window : tuple of float, {"image", "header"} or None
        Window of the card: least and largest value, or where they are read; none when None.

    Raises
    ------
    ImageError
        When the header maps values by a table, does not say all of it, or says no numbers.
    """
    if items(header.elements, "ModalityLUTSequence"):
        raise header.fault(
            "ModalityLUTSequence",
            "maps values by a table, which is not read",
            "apply it and write the file anew",
        )
    slope, intercept = _rescale(header, frame)
    if window == "header":
        window = _header_window(header, frame, plain=(slope, intercept) == (1.0, 0.0))
    inverted = header.photometric == "MONOCHROME1"
    return Scaling(window, slope, intercept, inverted, _padding(header))


def _padding(header: Header) -> tuple[int, int] | None:
    """Return the stored values that are no part of the image (PS3.3, C.7.5.1.1.2), low to high.

    None where there are none: not all bits of a value may be in use, and a padding value that needs
    others is that of no pixel.
    """
    values = list[int]()
    for keyword in ("PixelPaddingValue", "PixelPaddingRangeLimit"):
        element: Any = header.elements.get_item(tag_of(keyword))
        content = getattr(element, "value", None)
        if isinstance(content, bytes) and len(content) >= 2:
            first = content[:2] if element.is_little_endian else content[1::-1]
            values.append(int.from_bytes(first, "little", signed=header.signed))
    if header.samples != 1 or not values:
        return None
    least = -(1 << header.stored - 1) if header.signed else 0
    low, high = max(least, min(values)), min(least + (1 << header.stored) - 1, max(values))
    return (low, high) if low <= high else None


def _rescale(header: Header, frame: int) -> tuple[float, float]:
    for place in places(header, frame, "PixelValueTransformationSequence"):
        if text(place, "RescaleSlope") or text(place, "RescaleIntercept"):
            slope = _real(header, place, "RescaleSlope")
            if slope == 0:
                raise header.fault("RescaleSlope", "must not be 0, which leaves one value of all")
            intercept = _real(header, place, "RescaleIntercept")
            if not math.isfinite(abs(slope) * 2.0**header.stored + abs(intercept)):
                raise header.fault("RescaleSlope", f"must leave values finite, found {slope:g}")
            return slope, intercept
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
    """Return the places of statements about one frame, the nearest first.

    Parameters
    ----------
    header : Header
        Header of the file.
    frame : int
        Index of the frame.
    group : str
        Keyword of the sequence of a functional group.
    """
    each, shared = header.groups
    of_frame = (
        item for groups in each[frame : frame + 1] + shared for item in items(groups, group)[:1]
    )
    return [*of_frame, header.elements]


def _real(header: Header, place: "Dataset", keyword: str) -> float:
    """Return a decimal string as a number; that it is finite is checked where it is used."""
    decimal = text(place, keyword)
    if not math.isfinite(number := _decimal(decimal)):
        raise header.fault(keyword, f"must be a number, found {decimal!r}")
    return number


Vectors = NDArray[np.float64]

SLACK, FLOOR = 0.01, 0.01
"""Tolerance of steps from slice to slice, a share of them, but no less than this in mm, to which
positions are often rounded."""

DIRECTION_ROUNDING = 1e-3
"""Tolerance of the components of directions, which have length 1."""

BRING, APART = "bring the series whole", "leave out slices that are of another"

READ_SLICES = "read slices, without volumes in the card"


class FrameId(NamedTuple):
    """Identity and place of an image; empty where the file does not say it.

    Attributes
    ----------
    uid : str
        Its SOPInstanceUID.
    frame : int
        Index of the frame in the file.
    position : tuple of float
        Position in mm.
    direction : tuple of float
        Directions of rows and of columns.
    spacing : tuple of float
        PixelSpacing, from row to row and from column to column in mm.
    """

    uid: str
    frame: int
    position: tuple[float, ...]
    direction: tuple[float, ...]
    spacing: tuple[float, ...]


def read_frame_id(header: Header, frame: int) -> FrameId:
    """Return the identity and the place of a frame of a file.

    Parameters
    ----------
    header : Header
        Header of the file.
    frame : int
        Index of the frame.
    """
    place = (
        _numbers(header, frame, "PlanePositionSequence", "ImagePositionPatient", 3),
        _numbers(header, frame, "PlaneOrientationSequence", "ImageOrientationPatient", 6),
        _numbers(header, frame, "PixelMeasuresSequence", "PixelSpacing", 2),
    )
    return FrameId(text(header.elements, "SOPInstanceUID"), frame, *place)


def _numbers(header: Header, frame: int, group: str, keyword: str, count: int) -> tuple[float, ...]:
    """Return what is stated of one frame, as numbers; none where nothing is."""
    for place in places(header, frame, group):
        values = tuple(numbers(place, keyword))
        if len(values) == count and all(map(math.isfinite, values)):
            return values
        if values:
            raise header.fault(keyword, f"must be {count} numbers, found {len(values)}")
    return ()


def check_slice(header: Header, frame: FrameId) -> None:
    """Raise unless a frame can be a slice of a volume.

    Parameters
    ----------
    header : Header
        Header of the file.
    frame : FrameId
        Place of the frame.

    Raises
    ------
    ImageError
        When the file does not say where it is, or directions are no right angle of length 1.
    """
    for keyword, values in (
        ("ImagePositionPatient", frame.position),
        ("ImageOrientationPatient", frame.direction),
    ):
        if not values:
            raise header.fault(keyword, "must be there for volumes = true", READ_SLICES)
    axes = np.reshape(frame.direction, (2, 3))
    if not np.abs(axes @ axes.T - np.eye(2)).max() <= 2 * DIRECTION_ROUNDING:
        raise header.fault(
            "ImageOrientationPatient",
            f"must be two directions at a right angle, {list(frame.direction)}",
        )


def slice_order(frames: Sequence[FrameId], where: str) -> NDArray[np.int64]:
    """Return the order of frames along their normal, ascending; `where` names the series.

    Parameters
    ----------
    frames : sequence of FrameId
        Places of the frames of one series.
    where : str
        Name of the series, for the message.

    Raises
    ------
    ImageError
        When there is one alone, two are in one place, one is missing between two, or they are not
        of one orientation, or of one size of pixels, or are not straight behind one another.
    """
    if len(frames) < 2:
        raise image_error(f"{where}: a volume needs 2 slices or more, found 1; {BRING}")
    positions = np.array([frame.position for frame in frames])
    directions = np.array([frame.direction for frame in frames])
    if np.ptp(directions, axis=0).max() > DIRECTION_ROUNDING:
        raise image_error(
            f"{where}: ImageOrientationPatient (0020,0037) must be one in a series, found several; "
            f"{APART}"
        )
    if len({tuple(np.round(frame.spacing, 4)) for frame in frames}) > 1:
        raise image_error(
            f"{where}: PixelSpacing (0028,0030) must be one in a series, found several; {APART}"
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
        raise image_error(f"{place} must be in different places, found two in one; {APART}")
    if high - low > slack:
        raise image_error(
            f"{place} must be at equal steps, found {low:.4g} to {high:.4g} mm; {BRING}"
        )
    moves = np.diff(positions, axis=0)
    aside = np.linalg.norm(moves - np.outer(moves @ normal, normal), axis=1).max()
    if aside > slack:
        raise image_error(
            f"{place} must be straight behind one another, found {aside:.4g} mm aside (a tilted "
            f"gantry?); {READ_SLICES}"
        )
