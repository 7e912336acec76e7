"""The elements of a DICOM file up to its pixels, those that are asked for, as their bytes.

Most files are skimmed: from one element to the next, without a look at what is not asked for. What
that cannot do, pydicom does, which reads everything and takes ten times as long. Next on the path:
`dicom_header`.
"""

import io
import math
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

TAGS: Mapping[str, int] = {
    "SpecificCharacterSet": 0x00080005,
    "SOPClassUID": 0x00080016,
    "SOPInstanceUID": 0x00080018,
    "StudyDate": 0x00080020,
    "ReferencedSOPInstanceUID": 0x00081155,
    "ReferencedFrameNumber": 0x00081160,
    "SourceImageSequence": 0x00082112,
    "DerivationImageSequence": 0x00089124,
    "PatientID": 0x00100020,
    "SeriesInstanceUID": 0x0020000E,
    "ImagePositionPatient": 0x00200032,
    "ImageOrientationPatient": 0x00200037,
    "PlanePositionSequence": 0x00209113,
    "PlaneOrientationSequence": 0x00209116,
    "SamplesPerPixel": 0x00280002,
    "PhotometricInterpretation": 0x00280004,
    "PlanarConfiguration": 0x00280006,
    "NumberOfFrames": 0x00280008,
    "Rows": 0x00280010,
    "Columns": 0x00280011,
    "PixelSpacing": 0x00280030,
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
    "PixelMeasuresSequence": 0x00289110,
    "FrameVOILUTSequence": 0x00289132,
    "PixelValueTransformationSequence": 0x00289145,
    "SegmentationType": 0x00620001,
    "SegmentSequence": 0x00620002,
    "SegmentNumber": 0x00620004,
    "SegmentIdentificationSequence": 0x0062000A,
    "ReferencedSegmentNumber": 0x0062000B,
    "SharedFunctionalGroupsSequence": 0x52009229,
    "PerFrameFunctionalGroupsSequence": 0x52009230,
}
IMPLICIT, BIG_ENDIAN = "1.2.840.10008.1.2", "1.2.840.10008.1.2.2"
EXPLICIT, DEFLATED = "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.1.99"
UNDEFINED = 0xFFFFFFFF
"""The length of a value that ends where a mark says so."""
TRANSFER_SYNTAX = 0x00020010
_WANTED = frozenset({TRANSFER_SYNTAX, *TAGS.values()})
_LONG = frozenset({b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR"})
_LONG |= {b"UT", b"UV"}
_SHORT = frozenset(b"AE AS AT CS DA DS DT FD FL IS LO LT PN SH SL SS ST TM UI UL US".split())
_ELEMENT, _LENGTH = Struct("<HH2sH").unpack_from, Struct("<I").unpack_from


class Read(NamedTuple):
    """Elements, and the one at which reading ended.

    Attributes
    ----------
    elements : Dataset
        Those that are asked for.
    tag, kind, length : int, str, int
        The element at which reading ended: its tag, −1 at the end of the file; its value
        representation, "" where the file leaves it out; the length of its value.
    at, value : int
        Where it begins in the file, and where its value does.
    """

    elements: "Dataset"
    tag: int
    kind: str
    length: int
    at: int
    value: int


def read_elements(stream: BinaryIO, head: bytes, at: int, syntax: str, until: int) -> Read:
    """Read from `at` up to the first element whose tag is `until` or larger.

    Parameters
    ----------
    stream : BinaryIO
        The file.
    head : bytes
        Its beginning, in which the elements may end.
    at : int
        Where to begin.
    syntax : str
        The transfer syntax.
    until : int
        A tag.
    """
    if syntax != BIG_ENDIAN and (found := _skimmed(head, at, syntax == IMPLICIT, until)):
        return found
    try:
        found = _parsed(io.BytesIO(head), at, syntax, until)  # many small reads: quicker in memory
    except Exception:  # cut off in the middle of an element
        found = None
    if found is None or found.tag < 0:
        found = _parsed(stream, at, syntax, until)
    return found


def _skimmed(head: bytes, at: int, implicit: bool, until: int) -> Read | None:
    """Go from element to element; None at what only pydicom reads, and at the end of `head`."""
    from pydicom.dataelem import RawDataElement
    from pydicom.dataset import Dataset
    from pydicom.tag import BaseTag

    found: dict[BaseTag, Any] = {}
    while at + 12 <= len(head):
        group, number, kind, length = _ELEMENT(head, at)
        value = at + 8
        if implicit:
            kind, (length,) = b"", _LENGTH(head, at + 4)
        elif kind in _LONG:
            value, (length,) = at + 12, _LENGTH(head, at + 8)
        elif kind not in _SHORT:
            return None
        tag = group << 16 | number
        if tag >= until:
            return Read(Dataset(found), tag, kind.decode(), length, at, value)
        if length == UNDEFINED:
            return None
        if tag in _WANTED:
            name, content = BaseTag(tag), head[value : value + length]
            found[name] = RawDataElement(
                name, kind.decode() or None, length, content, value, implicit, True
            )
        at = value + length
    return None


def _parsed(stream: BinaryIO, at: int, syntax: str, until: int) -> Read:
    """Read elements with pydicom."""
    from pydicom.filereader import read_dataset

    last: list[tuple[int, str, int]] = []

    def at_the_end(tag: int, kind: str | None, length: int) -> bool:
        if int.__ge__(tag, until):
            last.append((int(tag), kind or "", length))
        return bool(last)

    stream.seek(at)
    little = syntax != BIG_ENDIAN
    elements = read_dataset(
        stream, syntax == IMPLICIT, little, stop_when=at_the_end, specific_tags=[*_WANTED]
    )
    if not last:
        return Read(elements, -1, "", 0, stream.tell(), stream.tell())
    tag, kind, length = last[0]
    wide = 12 if kind.encode() in _LONG else 8
    return Read(elements, tag, kind, length, stream.tell(), stream.tell() + wide)


def plain(value: Any) -> str:
    """Return bytes as text without what fills them up, "" for anything else."""
    return value.decode("latin-1").strip(" \0") if isinstance(value, bytes) else ""


def text(elements: "Dataset", keyword: str) -> str:
    """Return the first value of an element that is text, "" when there is none."""
    value = getattr(elements.get_item(TAGS[keyword]), "value", None)
    return plain(value).split("\\")[0].strip()


def numbers(elements: "Dataset", keyword: str) -> list[float]:
    """Return all values of an element that are decimal strings; NaN for one that is none."""
    value = plain(getattr(elements.get_item(TAGS[keyword]), "value", None))
    found = []
    for said in value.split("\\") if value else ():
        try:
            found.append(float(said))
        except ValueError:
            found.append(math.nan)
    return found


def items(elements: "Dataset", keyword: str) -> list["Dataset"]:
    """Return the items of a sequence."""
    tag = TAGS[keyword]
    if tag not in elements:
        return []
    value = elements[tag].value
    return list(value) if value else []
