"""The arrays inside a ``.npz``: nothing is allocated on the word of a header alone.

A header may claim any number of rows, and a few megabytes of a zip unpack to gigabytes. So the
member that a header stands in must have exactly the bytes that it claims; the archive must have the
compressed bytes that the member claims; and deflate expands at most 1032 times.

Python's own reader of zips reads; inflating, which is most of the work, is done by ISA-L, in half
the time of zlib, and so is the CRC, in a quarter.
"""

import io
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from pipeline.datasets.doors import open_regular
from pipeline.errors import CovdpError, DatasetError

EXPANSION = 1032
"""Most bytes that one byte of deflate can become: 258 for every 2 bits."""
DIRECTORY = 1 << 17
"""Bytes of the largest list of members that is read; six arrays need less than a kilobyte."""
PIECE = 1 << 20
"""Bytes of one read of a member: after each it waits for the interpreter, which others hold."""
HEADER = 10_000
"""Bytes of the longest header of an array, as NumPy has it."""
_READERS = {
    (1, 0): (2, np.lib.format.read_array_header_1_0),
    (2, 0): (4, np.lib.format.read_array_header_2_0),
}
"""Versions of ``.npy`` with plain fields: bytes of the header's length, and its reader."""


class Array(NamedTuple):
    """What the header of one array says, and where its content starts."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int


@dataclass(frozen=True)
class Members:
    """The arrays of an open file of `size` bytes, by name."""

    archive: zipfile.ZipFile
    size: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays; a member of another kind, or in a folder, has its whole name."""
        found = (info.filename for info in self.archive.infolist())
        return tuple(n.removesuffix(".npy") if "/" not in n else n for n in found)

    def header(self, name: str) -> Array:
        """Return what the header of an array says, once the file can hold it."""
        with self.opened(name) as (found, _):
            return found

    def read(self, name: str) -> NDArray[Any]:
        """Return an array, whole."""
        with self.opened(name) as (found, stream):
            content = stream.read(self._info(name).file_size)
            if stream.read(1) or len(content) != found.dtype.itemsize * math.prod(found.shape):
                raise EOFError(f"{name} has another length than its header says")
        flat: NDArray[Any] = np.frombuffer(content, found.dtype)
        return flat.reshape(found.shape, order="F" if found.fortran else "C")

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[Array, zipfile.ZipExtFile]]:
        """Open an array at its content, its header checked against the file."""
        info = self._info(name)
        with cast(zipfile.ZipExtFile, self.archive.open(info)) as stream:
            if info.compress_type == zipfile.ZIP_DEFLATED:
                inflater = isal_zlib.decompressobj(-zlib.MAX_WBITS)  # as zlib's, without a header
                stream._decompressor = inflater  # type: ignore[attr-defined]
            stream._update_crc = partial(_update_crc, stream)  # type: ignore[attr-defined]
            found = _header(stream, name)
            claimed = found.dtype.itemsize * math.prod(found.shape)
            if info.file_size - found.start != claimed:
                raise EOFError(
                    f"{name} has {info.file_size - found.start} bytes for shape {found.shape}"
                )
            yield found, stream

    def _info(self, name: str) -> zipfile.ZipInfo:
        """Return the entry of an array if the file can hold what it claims."""
        entries = [x for x in self.archive.infolist() if x.filename == f"{name}.npy"]
        if len(entries) != 1:
            raise ValueError(f"{len(entries)} members are named {name}.npy")
        (info,) = entries
        if info.flag_bits & 1:
            raise ValueError(f"{name} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is compressed in a way that NumPy does not write")
        most = EXPANSION if info.compress_type == zipfile.ZIP_DEFLATED else 1
        ends = info.header_offset + info.compress_size
        if ends > self.size or info.file_size > most * info.compress_size:
            raise EOFError(f"{name} claims {info.file_size} bytes, which the file cannot hold")
        return info


@contextmanager
def open_members(path: Path) -> Iterator[Members]:
    """Open a file; whatever a damaged one makes the readers raise becomes one `DatasetError`."""
    try:
        with open_regular(path.resolve()) as stream:
            size = stream.seek(0, io.SEEK_END)
            sipped = _Sipped(stream)
            with zipfile.ZipFile(cast(BinaryIO, sipped)) as archive:
                sipped.most = PIECE
                yield Members(archive, size)
    except CovdpError:
        raise
    except Exception as error:  # the readers raise whatever they stumble over
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise DatasetError(
            f"{path} is not a readable .npz ({reason or type(error).__name__}); download or save "
            "it again"
        ) from error


def _update_crc(stream: Any, content: bytes) -> None:
    """Do as the reader of zips does itself: take what was read into its CRC, compare at the end."""
    stream._running_crc = isal_zlib.crc32(content, stream._running_crc)
    if stream._eof and stream._running_crc != stream._expected_crc:
        raise zipfile.BadZipFile(f"Bad CRC-32 for {stream.name}")


def _header(stream: zipfile.ZipExtFile, name: str) -> Array:
    """Return the header at the start of a ``.npy`` stream; no more than `HEADER` bytes are read."""
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"{name} has .npy version {version}, not 1.0 or 2.0")
    width, reader = _READERS[version]
    length = stream.read(width)
    if (longest := int.from_bytes(length, "little")) > HEADER:
        raise ValueError(f"{name} has a header of {longest} bytes")
    shape, fortran, dtype = reader(io.BytesIO(length + stream.read(longest)))
    if not all(type(side) is int and side >= 0 for side in shape):
        raise ValueError(f"{name} has the shape {shape}")
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which are never opened")
    return Array(shape, fortran and len(shape) > 1, dtype, stream.tell())


@dataclass
class _Sipped:
    """A file that gives at most `most` bytes at a time: few while the list of members is read."""

    stream: BinaryIO
    most: int = DIRECTORY

    def read(self, size: int = -1) -> bytes:
        return self.stream.read(min(size, self.most) if size >= 0 else self.most)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
