"""JPEG streams that end too early, though an end mark says otherwise.

Decoders fill up what is missing of a scan with mid-gray, and do not say so. So an image of one scan
may be cut only if its last block, or sample without loss, is mid-gray. Then, and where there are
several scans, a stream is whole if bits put before the end mark change no pixel: a decoder that
still waits for bits takes them.

A cut within the last block is not found. Segments and codes are those of ITU-T T.81.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

BASELINE, LOSSLESS = (0xC0, 0xC1), 0xC3
"""Frames of one pass with Huffman codes: of blocks of 8 x 8 samples, and of samples."""

_END = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""A mark that ends the bits of a scan."""

_PROBE = np.random.default_rng(1).integers(0, 255, 1 << 16, np.uint8).tobytes()
"""Bits that no image goes on with; no byte of them is 255."""

MID_GRAY = 128
"""Level of 8 bits, give or take one, of blocks that are missing."""

_UPSAMPLED = 2
"""Rows and columns of a block whose colours depend on those of its neighbours."""


@dataclass
class Scan:
    """One pass over some components of a frame.

    Attributes
    ----------
    components : bytes
        Components that it has.
    first, last, shift : int
        Coefficients that it has, or the predictor of lossless samples, and the bits that are still
        missing of them.
    start, stop : int
        Place of its bits in the stream.
    """

    components: bytes
    first: int
    last: int
    shift: int
    start: int
    stop: int


@dataclass
class Stream:
    """A JPEG stream, as its segments describe it.

    Attributes
    ----------
    content : bytes
        The stream.
    frame : int
        Mark of its frame (SOFn), 0 if there is none.
    components : dict of int to (int, int)
        Component to its sampling factors, across and down.
    bits : int
        Bits of a sample.
    interval : int
        Blocks between two restart marks, 0 without any.
    scans : list of Scan
        Its scans, in order.
    ended : bool
        True if an end mark follows the last scan.
    """

    content: bytes = field(repr=False)
    frame: int = 0
    components: dict[int, tuple[int, int]] = field(default_factory=dict)
    bits: int = 8
    interval: int = 0
    scans: list[Scan] = field(default_factory=list)
    ended: bool = False

    @property
    def in_one_scan(self) -> bool:
        """True if the first scan has all that there is of all components."""
        one_pass = self.frame in (*BASELINE, LOSSLESS)
        return one_pass and {*self.scans[0].components} == self.components.keys()


def read_stream(content: bytes, *, one: bool = False) -> Stream:
    """Return the facts in the segments of a stream; only up to the first scan if `one` is True.

    Then its bits are taken to end at the last end mark.

    Parameters
    ----------
    content : bytes
        Content of the file.
    one : bool
        True to stop at the first scan.
    """
    stream, at = Stream(content), 2
    while at + 4 <= len(content):
        if content[at] != 0xFF or content[at + 1] in (0x00, 0xFF):
            at = content.find(b"\xff", at + 1)
            if at < 0:
                break
            continue
        mark, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4])
        body, after = content[at + 4 : at + 2 + length], at + 2 + length
        if mark == 0xD9:
            break
        if 0xD0 <= mark <= 0xD8:
            at += 2
            continue
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            stream.frame, stream.bits = mark, (body or b"\0")[0]
            stream.components = {
                body[k]: (body[k + 1] >> 4, body[k + 1] & 15) for k in range(6, len(body) - 2, 3)
            }
        elif mark == 0xDD:
            stream.interval = int.from_bytes(body[:2])
        elif mark == 0xDA and len(body) >= 4 + 2 * body[0]:
            count = body[0]
            first, last, approximation = body[1 + 2 * count : 4 + 2 * count]
            end = content.rfind(b"\xff\xd9", after) if one else _next_mark(content, after)
            stop = end if end >= 0 else len(content)
            while stop > after and content[stop - 1] == 0xFF:  # fills up to a mark
                stop -= 1
            stream.scans.append(
                Scan(body[1 : 1 + 2 * count : 2], first, last, approximation & 15, after, stop)
            )
            after = end if end >= 0 else len(content)
            if one:
                at = after
                break
        at = after
    stream.ended = bool(stream.scans) and content[at : at + 2] == b"\xff\xd9"
    return stream


def _next_mark(content: bytes, at: int) -> int:
    """Return where the next mark is that ends a scan, -1 without one."""
    found = _END.search(content, at)
    return found.start() if found else -1


def is_whole(
    content: bytes,
    shape: tuple[int, int],
    corner: Callable[[int, int], NDArray[Any]],
    decode: Callable[[bytes], NDArray[Any]],
) -> bool:
    """Return True if nothing is missing of a stream that a decoder reads.

    Parameters
    ----------
    content : bytes
        The stream.
    shape : (height, width)
        Height and width of its image, in pixels.
    corner : callable
        ``corner(rows, columns)``: so many of the last rows and columns of the decoded image.
    decode : callable
        Function of another stream that returns its image.
    """
    stream = read_stream(content, one=True)
    if stream.ended and stream.in_one_scan and not _may_be_cut(stream, shape, corner):
        return True
    stream = read_stream(content)
    if not stream.ended or not _has_all_scans(stream):
        return False
    scan = stream.scans[-1]
    marks = len(re.findall(rb"\xff[\xd0-\xd7]", content[scan.start : scan.stop]))
    restart = bytes([0xFF, 0xD0 + marks % 8]) if stream.interval else b""
    probed = content[: scan.stop] + _PROBE + restart + _PROBE + content[scan.stop :]
    return np.array_equal(corner(*shape), decode(probed))


def _has_all_scans(stream: Stream) -> bool:
    """Return whether each component is in a scan, and each of its coefficients to its last bit."""
    missing = {component: np.full(64, 16) for component in stream.components}
    for scan in stream.scans:
        whole = stream.frame in (*BASELINE, LOSSLESS)
        chosen = slice(None) if whole else slice(scan.first, scan.last + 1)
        for component in missing.keys() & {*scan.components}:
            missing[component][chosen] = 0 if whole else scan.shift
    return not any(bits.any() for bits in missing.values())


def _may_be_cut(
    stream: Stream, shape: tuple[int, int], corner: Callable[[int, int], NDArray[Any]]
) -> bool:
    """Return whether what a decoder fills up may be at the end of an image of one scan."""
    if stream.frame == LOSSLESS:
        last = corner(1, min(2, shape[1])).astype(np.int64) & (2**stream.bits - 1)
        return bool((last == 2 ** (stream.bits - 1)).all())
    plain = len(stream.components) == 1
    across, down = (max(1 if plain else x[k] for x in stream.components.values()) for k in (0, 1))
    inside = _UPSAMPLED * (max(across, down) > 1)
    block = corner((shape[0] - 1) % (8 * down) + 1, (shape[1] - 1) % (8 * across) + 1)
    return bool((np.abs(block[inside:, inside:].astype(int) - MID_GRAY) <= 1).all())
