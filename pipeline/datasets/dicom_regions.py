"""One segmentation object (DICOM SEG): which image each of its frames was drawn on, and its pixels.

Frames are bits, one after another, each of one segment and one image (DerivationImageSequence).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from pipeline.arrays import ImageArray
from pipeline.datasets.dicom_elements import EXPLICIT, IMPLICIT, TAGS, items, numbers, text
from pipeline.datasets.dicom_files import SEGMENTATION, readable
from pipeline.datasets.dicom_header import Header, read_header
from pipeline.datasets.dicom_planes import Mark, read_mark
from pipeline.datasets.dicom_scaling import places
from pipeline.datasets.frames import Segments
from pipeline.datasets.reading import state
from pipeline.datasets.shapes import LARGEST
from pipeline.errors import ImageError

_HEAD = 1 << 12
"""Bytes of a file in which it says of what class it is."""
KEPT = 16
"""Segmentations of which is kept what they say: of thousands of frames it takes seconds to read,
and their images are read a few at a time."""


class Regions(NamedTuple):
    """What one segmentation says.

    Attributes
    ----------
    sides : (int, int)
        Rows and columns.
    marks : tuple of Mark
        The images, in the order in which they are first named.
    frames : tuple of tuple of int
        For each its frames in the segmentation, one a segment.
    start : int
        Where the bits begin in the file.
    segments : int
        How many segments it has, inside or not.
    """

    sides: tuple[int, int]
    marks: tuple[Mark, ...]
    frames: tuple[tuple[int, ...], ...]
    start: int
    segments: int


def is_segmentation(file: Path) -> bool:
    """Return whether a file seems to be a segmentation, by a look at its beginning."""
    with readable(file) as stream:
        return _looks_like_one(stream.read(_HEAD))


def _looks_like_one(head: bytes) -> bool:
    return head[128:132] == b"DICM" and SEGMENTATION.encode() in head


def read_regions(file: Path, segments: Segments | None) -> Regions | None:
    """Return what a file says if it is a segmentation.

    Raises
    ------
    ImageError
        When it is one that cannot be read, or leaves open what is inside.
    """
    return _read_regions(file, state(file), segments)


@lru_cache(maxsize=KEPT)
def _read_regions(file: Path, stamp: bytes, segments: Segments | None) -> Regions | None:
    """Return the same; a file with another `stamp` is another."""
    with readable(file) as stream:
        header = _read_segmentation(stream, file)
        if header is None:
            return None
        there = _segments(header)
        wanted = _wanted(header, there, segments)
        frames: dict[tuple[str, int], list[int]] = {}
        marks: dict[tuple[str, int], Mark] = {}
        for frame in range(header.frames):
            if _segment(header, frame) not in wanted:
                continue
            image = _image(header, frame)
            frames.setdefault(image, []).append(frame)
            marks.setdefault(image, read_mark(header, frame)._replace(uid=image[0], frame=image[1]))
    sides = header.rows, header.columns
    found = tuple(map(tuple, frames.values()))
    return Regions(sides, tuple(marks.values()), found, header.start, len(there))


def _read_segmentation(stream: BinaryIO, file: Path) -> Header | None:
    """Return the header of a segmentation that can be read; None for any other file."""
    if not _looks_like_one(stream.read(_HEAD)):
        return None
    header = read_header(stream, file)
    if header is None or text(header.elements, "SOPClassUID") != SEGMENTATION:
        return None
    kind = text(header.elements, "SegmentationType")
    if kind != "BINARY" or (header.allocated, header.samples) != (1, 1):
        raise header.fault(
            "SegmentationType", f"must be BINARY, of 1 bit a pixel, found {kind!r}", "write it so"
        )
    if header.syntax not in (IMPLICIT, EXPLICIT):
        raise ImageError(
            f"{file}: a segmentation must not be compressed; write it uncompressed, as with "
            "dcmconv +te"
        )
    pixels = header.rows * header.columns
    if not 1 <= pixels <= LARGEST or header.frames * pixels > 8 * header.length:
        raise header.fault(
            "NumberOfFrames",
            f"is {header.frames:,}, for which the file is too short",
            "bring the file whole or leave it out",
        )
    return header


def union(stream: BinaryIO, regions: Regions, frames: Sequence[int]) -> ImageArray:
    """Return where any of some frames is not 0, (h, w) of 0 and 1; frames lie bit after bit."""
    pixels = math.prod(regions.sides)
    found = np.zeros(pixels, np.uint8)
    for frame in frames:
        first = frame * pixels
        stream.seek(regions.start + first // 8)
        content = stream.read(math.ceil((first % 8 + pixels) / 8))
        bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
        found |= bits[first % 8 :][:pixels]
    return found.reshape(regions.sides)


def _segments(header: Header) -> frozenset[int]:
    """Return the numbers of all segments."""
    each = items(header.elements, "SegmentSequence")
    return frozenset(_whole(one, "SegmentNumber") for one in each)


def _wanted(header: Header, there: frozenset[int], segments: Segments | None) -> frozenset[int]:
    """Return the numbers of the segments that are inside, of those that are there."""
    if segments == "all" or (segments is None and len(there) == 1):
        return there
    if segments is None:
        raise header.fault(
            "SegmentSequence",
            f"has {len(there)} segments",
            'say which are inside, as segments = [1], or segments = "all", in the card',
        )
    if missing := sorted(set(segments) - there):
        raise header.fault(
            "SegmentSequence",
            f"has no segment {missing[0]}",
            "name others in segments, or leave the file out with exclude",
        )
    return frozenset(segments)


def _segment(header: Header, frame: int) -> int:
    """Return which segment a frame is of."""
    for place in places(header, frame, "SegmentIdentificationSequence"):
        if (number := _whole(place, "ReferencedSegmentNumber")) > 0:
            return number
    raise header.fault("ReferencedSegmentNumber", f"is missing in frame {frame}")


def _image(header: Header, frame: int) -> tuple[str, int]:
    """Return which image a frame was drawn on: its SOPInstanceUID, and which frame of it."""
    for place in places(header, frame, "DerivationImageSequence"):
        named = [
            (uid, int(number) - 1)
            for source in items(place, "SourceImageSequence")
            if (uid := text(source, "ReferencedSOPInstanceUID"))
            for number in numbers(source, "ReferencedFrameNumber") or [1.0]
        ]
        if len(set(named)) > 1:
            raise header.fault(
                "SourceImageSequence",
                f"names {len(set(named))} images for frame {frame}",
                "write a frame for each image, or leave the file out",
            )
        if named:
            return named[0]
    raise header.fault(
        "DerivationImageSequence",
        f"does not say which image frame {frame} was drawn on",
        "write it so, or leave the file out",
    )


def _whole(elements: Any, keyword: str) -> int:
    """Return a small whole number; 0 where it is missing."""
    value = getattr(elements.get_item(TAGS[keyword]), "value", None)
    return int.from_bytes(value[:2], "little") if isinstance(value, bytes) else int(value or 0)
