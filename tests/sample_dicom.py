"""DICOM files of given pixels, and an oracle that reads them tag by tag without pydicom."""

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    CTImageStorage,
    ExplicitVRLittleEndian,
    SecondaryCaptureImageStorage,
    SegmentationStorage,
    generate_uid,
)

GRAY = "MONOCHROME2"
LONG = (b"OB", b"OW", b"OF", b"OD", b"OL", b"SQ", b"UC", b"UN", b"UR", b"UT")


def write_dicom(
    path: Path,
    pixels: NDArray[Any],
    *,
    syntax: str = ExplicitVRLittleEndian,
    encoded: list[bytes] | None = None,
    **elements: Any,
) -> Path:
    """Write an image (h, w), (h, w, 3), or frames of them where NumberOfFrames is given."""
    data = Dataset()
    signed = pixels.dtype.kind == "i"
    data.SOPClassUID = CTImageStorage if signed else SecondaryCaptureImageStorage
    data.SOPInstanceUID = generate_uid(entropy_srcs=[path.name])
    data.SamplesPerPixel = 3 if elements.get("PhotometricInterpretation", GRAY)[0] in "RY" else 1
    data.PhotometricInterpretation = GRAY
    if "Rows" not in elements:
        frames = pixels.ndim > 2 and "NumberOfFrames" in elements
        data.Rows, data.Columns = pixels.shape[frames:][:2]
    data.BitsAllocated = data.BitsStored = 8 * pixels.dtype.itemsize
    data.PixelRepresentation = int(signed)
    if data.SamplesPerPixel == 3:
        data.PlanarConfiguration = 0
    for name, value in elements.items():
        setattr(data, name, value)
    data.HighBit = elements.get("HighBit", data.BitsStored - 1)
    data.PixelData = pixels.tobytes() if encoded is None else encapsulate(encoded)
    if len(data.PixelData) % 2:
        data.PixelData += b"\0"
    data["PixelData"].VR = "OB" if encoded or pixels.dtype.itemsize == 1 else "OW"
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = syntax
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save_as(path, enforce_file_format=True)
    return path


def item(**elements: Any) -> Dataset:
    """Return the item of a sequence."""
    found = Dataset()
    for name, value in elements.items():
        setattr(found, name, value)
    return found


def write_segmentation(
    path: Path,
    frames: NDArray[Any],
    of: Sequence[tuple[str, int | None]],
    *,
    segments: Sequence[int] | None = None,
    planes: Sequence[tuple[list[Any], list[Any]]] | None = None,
    **elements: Any,
) -> Path:
    """Write a segmentation: bits of frames (n, h, w), of which images, segments and where each is.

    An image is its SOPInstanceUID, and which frame of it from 1, None where it has one.
    """
    numbers = segments or [1] * len(frames)
    groups = []
    for place, ((uid, number), segment) in enumerate(zip(of, numbers, strict=True)):
        source = item(ReferencedSOPClassUID=CTImageStorage, ReferencedSOPInstanceUID=uid)
        if number is not None:
            source.ReferencedFrameNumber = number
        group = item(
            DerivationImageSequence=[item(SourceImageSequence=[source])],
            SegmentIdentificationSequence=[item(ReferencedSegmentNumber=segment)],
        )
        if planes:
            position, direction = planes[place]
            group.PlanePositionSequence = [item(ImagePositionPatient=position)]
            group.PlaneOrientationSequence = [item(ImageOrientationPatient=direction)]
        groups.append(group)
    bits = np.packbits(np.asarray(frames, np.uint8).ravel(), bitorder="little")
    said = {
        "SOPClassUID": SegmentationStorage, "NumberOfFrames": len(frames), "BitsAllocated": 1,
        "BitsStored": 1, "SegmentationType": "BINARY",
        "SegmentSequence": [item(SegmentNumber=n) for n in sorted(set(numbers))],
        "PerFrameFunctionalGroupsSequence": groups, "Rows": frames.shape[1],
        "Columns": frames.shape[2],
    }  # fmt: skip
    return write_dicom(path, bits, **said | elements)


Elements = dict[int, Any]


class Read(NamedTuple):
    """Elements by tag, bytes or lists of items, and where reading ended."""

    elements: Elements
    at: int


def parse(data: bytes, at: int, end: int) -> Read:
    """Read elements in explicit VR little endian, by the tables of PS3.5 alone."""
    found: Elements = {}
    while at < end:
        group, element, kind = struct.unpack_from("<HH2s", data, at)
        if (group, element) == (0xFFFE, 0xE00D):
            return Read(found, at + 8)
        if kind in LONG:
            (length,) = struct.unpack_from("<I", data, at + 8)
            at += 12
        else:
            (length,) = struct.unpack_from("<H", data, at + 6)
            at += 8
        if kind == b"SQ":
            found[group << 16 | element], at = items(data, at, length)
        else:
            found[group << 16 | element] = data[at : at + length]
            at += length
    return Read(found, at)


def items(data: bytes, at: int, length: int) -> tuple[list[Elements], int]:
    """Read the items of a sequence, of known length or up to its delimiter."""
    found: list[Elements] = []
    end = len(data) if length == 0xFFFFFFFF else at + length
    while at < end:
        group, element, size = struct.unpack_from("<HHI", data, at)
        at += 8
        if (group, element) == (0xFFFE, 0xE0DD):
            break
        inside, after = parse(data, at, len(data) if size == 0xFFFFFFFF else at + size)
        found.append(inside)
        at = after
    return found, at


def oracle(path: Path, window: Any) -> NDArray[np.uint8]:
    """Return every frame of an uncompressed gray file as 0..255, in exact fractions."""
    root = parse(path.read_bytes(), 132, path.stat().st_size).elements
    count = int(root.get(0x00280008, b"1").strip(b" \0"))
    rows, columns, allocated, stored, high, signed = (
        struct.unpack("<H", root[0x00280000 | tag])[0]
        for tag in (0x10, 0x11, 0x100, 0x101, 0x102, 0x103)
    )
    size = allocated // 8
    raw = [
        int.from_bytes(root[0x7FE00010][at * size : (at + 1) * size], "little")
        for at in range(count * rows * columns)
    ]
    values = [value >> (high + 1 - stored) & ((1 << stored) - 1) for value in raw]
    if signed:
        values = [value - (value >> (stored - 1) << stored) for value in values]
    out = []
    for frame in range(count):
        part = values[frame * rows * columns :][: rows * columns]
        slope, intercept, low, high_end = scale(root, frame, window)
        shares = [(slope * value + intercept - low) / (high_end - low) for value in part]
        shown = [255 * min(max(share, Fraction(0)), Fraction(1)) for share in shares]
        if root[0x00280004].strip() == b"MONOCHROME1":
            shown = [255 - value for value in shown]
        out.append([round(value) for value in shown])
    return np.array(out, np.uint8).reshape(count, rows, columns)


def scale(root: Elements, frame: int, window: Any) -> list[Fraction]:
    """Return slope, intercept and the ends of the window of a frame."""
    groups = root.get(0x52009230, [])[frame : frame + 1] + root.get(0x52009229, [])

    def said(group: int, tag: int, default: str) -> Fraction:
        places = [found for one in groups for found in one.get(group, [])] + [root]
        text = next((place[tag] for place in places if tag in place), default.encode())
        return Fraction(text.decode().split("\\")[0].strip(" \0"))

    found = [said(0x00289145, 0x00281053, "1"), said(0x00289145, 0x00281052, "0")]
    if window != "header":
        return [*found, *map(Fraction, window)]
    center, width = said(0x00289132, 0x00281050, ""), said(0x00289132, 0x00281051, "")
    if root.get(0x00281056, b"LINEAR").strip() == b"LINEAR":
        center, width = center - Fraction(1, 2), width - 1
    return [*found, center - width / 2, center + width / 2]
