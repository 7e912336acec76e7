"""Where images come from: readers of rows, from memory, from one file, or from many files.

A reader is what a pass over images is shared out by: it can be cut down to some rows, which a
worker elsewhere then reads without looking at the rest.
"""

import hashlib
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.errors import DatasetError, ImageError
from pipeline.parallel import Submit, side_by_side, threads

Rows: TypeAlias = NDArray[np.signedinteger[Any]]

Decode: TypeAlias = Callable[..., ImageArray]
"""From a file and the frames wanted of it, ascending, and the file beside it where there is one, to
those images, (m, *shape) uint8."""

FEW = 16
"""Files that a thread decodes at a time: with small ones handing over would cost as much."""

VALIDATED_AT_ONCE = 512
"""Files that are tried at a time."""


class FileNames(Protocol):
    """Names of files: a list, or `pipeline.datasets.listing.Paths`."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def __getitem__(self, index: int, /) -> str: ...


class Reader(Protocol):
    """Reads rows.

    Attributes
    ----------
    sequential : bool
        Whether rows lie in one stream, so that they are asked for in ascending order, and skipping
        some costs as much as reading them.
    """

    @property
    def sequential(self) -> bool: ...  # noqa: D102 (see above)

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """Yield the images of `rows`, `size` at a time, (size, *shape) uint8.

        Where they have sizes of their own, fewer: all in a chunk have one.
        """

    def stamp(self, rows: Rows) -> bytes:
        """Return a digest that changes when what these rows are read from does."""

    def only(self, rows: Rows) -> "Reader":
        """Return a reader of these rows alone, which are 0, 1, … there; it can be pickled."""


@dataclass(frozen=True, eq=False)
class MemoryReader:
    """Images that are in memory, (n, *shape): the reader of small datasets."""

    images: ImageArray
    sequential = False

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`."""
        for start in range(0, len(rows), size):
            yield self.images[rows[start : start + size]]

    def stamp(self, rows: Rows) -> bytes:
        """See `Reader`."""
        return hashlib.sha256(self.images[rows].tobytes()).digest()

    def only(self, rows: Rows) -> "MemoryReader":
        """See `Reader`."""
        return MemoryReader(self.images[rows])


@dataclass(frozen=True, eq=False)
class StreamReader:
    """Images of files that are read from their start to their end.

    Attributes
    ----------
    read : callable
        ``read(rows, size)``, for ascending rows.
    files : tuple of Path
        What is read.
    kept : (m,) integers, optional
        The rows that are left of all.
    """

    read: Callable[[Rows, int], Iterator[ImageArray]]
    files: tuple[Path, ...]
    kept: Rows | None = None
    sequential = True

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`."""
        return self.read(rows if self.kept is None else self.kept[rows], size)

    def stamp(self, rows: Rows) -> bytes:
        """See `Reader`."""
        digest = hashlib.sha256(b"".join(map(file_state, self.files)))
        chosen = rows if self.kept is None else self.kept[rows]
        digest.update(chosen.astype(np.int64).tobytes())
        return digest.digest()

    def only(self, rows: Rows) -> "StreamReader":
        """See `Reader`."""
        chosen = rows if self.kept is None else self.kept[rows]
        return StreamReader(self.read, self.files, chosen)


@dataclass(frozen=True, eq=False)
class FilesReader:
    """Images in files of their own, or several in one; decoded side by side, yielded in order.

    Attributes
    ----------
    decode : callable
        See `Decode`; it runs in threads.
    names : FileNames
        The files.
    file, frame : (n,) integers
        For each row the index of its file, and which image of that file it is.
    beside : FileNames, optional
        For each file another that it is decoded with, as a mask is with its image.
    alone : bool
        Whether images have sizes of their own, so that each is yielded alone.
    shared : bool
        Whether an image of a file can be at fault and the others not, as masks that images share.
    """

    decode: Decode
    names: FileNames = field(repr=False)
    file: NDArray[np.signedinteger[Any]]
    frame: NDArray[np.signedinteger[Any]]
    beside: FileNames | None = None
    alone: bool = False
    shared: bool = False
    sequential = False

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`."""
        return self.runs(rows, range(0, len(rows), 1 if self.alone else size))

    def runs(self, rows: Rows, starts: Iterable[int]) -> Iterator[ImageArray]:
        """Yield the images of `rows` from each of `starts` up to the next.

        While some are worked on, the next ones are decoded.
        """
        with side_by_side() as submit:
            ahead: deque[list[Future[ImageArray]]] = deque()
            for start, stop in itertools.pairwise([*starts, len(rows)]):
                ahead.append(self._ask(submit, rows[start:stop]))
                if len(ahead) > 1:
                    yield _joined(ahead.popleft())
            while ahead:
                yield _joined(ahead.popleft())

    def _ask(self, submit: Submit, rows: Rows) -> list["Future[ImageArray]"]:
        """Return the images of `rows` to come, those of a few files at a time."""
        edges = np.flatnonzero(np.diff(self.file[rows], prepend=-1, append=-1))
        files = len(edges) - 1
        few = max(1, min(FEW, files // (4 * threads())))
        return [
            submit(self._decode, rows, edges[start : start + few + 1])
            for start in range(0, files, few)
        ]

    def _decode(self, rows: Rows, edges: NDArray[np.int64]) -> ImageArray:
        """Return some of `rows`: between two edges they lie in one file."""
        images = []
        for low, high in itertools.pairwise(edges.tolist()):
            index = int(self.file[rows[low]])
            file, frames = Path(self.names[index]), self.frame[rows[low:high]]
            wanted, place = frames, slice(None)
            if len(frames) > 1:
                wanted, place = np.unique(frames, return_inverse=True)
            images.append(self.decode(file, wanted, *self._beside(index))[place])
        return _whole(images)

    def files_of(self, row: int) -> list[str]:
        """Return what a list of exclusions names to leave a row out: the file that it lies in."""
        return [self.names[int(self.file[row])]]

    def validate(self, rows: Rows) -> Iterator[tuple[int, int, str | None]]:
        """Read file by file: yield a row of each, how many it has, and why it cannot be read."""
        edges = np.flatnonzero(np.diff(self.file[rows], prepend=-1, append=-1))
        if self.shared:
            edges = np.arange(len(rows) + 1)
        with side_by_side() as submit:
            for start in range(0, len(edges) - 1, VALIDATED_AT_ONCE):
                spans = list(
                    itertools.pairwise(edges[start : start + VALIDATED_AT_ONCE + 1].tolist())
                )
                jobs = [submit(self._fault, rows, np.array(span)) for span in spans]
                for (low, high), job in zip(spans, jobs, strict=True):
                    yield int(rows[low]), high - low, job.result()

    def _fault(self, rows: Rows, edges: NDArray[np.int64]) -> str | None:
        try:
            self._decode(rows, edges)
        except DatasetError as error:
            return str(error)
        return None

    def _beside(self, index: int) -> tuple[Path, ...]:
        return () if self.beside is None else (Path(self.beside[index]),)

    def stamp(self, rows: Rows) -> bytes:
        """See `Reader`: names, sizes and times of the files."""
        digest = hashlib.sha256()
        for index in dict.fromkeys(self.file[rows].tolist()):
            for name in [self.names[index], *map(str, self._beside(index))]:
                digest.update(file_state(name))
        digest.update(self.frame[rows].astype(np.int64).tobytes())
        return digest.digest()

    def only(self, rows: Rows) -> "FilesReader":
        """See `Reader`."""
        wanted, file = np.unique(self.file[rows], return_inverse=True)
        names = [self.names[index] for index in wanted]
        beside = None if self.beside is None else [self.beside[index] for index in wanted]
        return replace(self, names=names, file=file, frame=self.frame[rows], beside=beside)


def _joined(parts: list["Future[ImageArray]"]) -> ImageArray:
    return _whole([part.result() for part in parts])


def _whole(parts: list[ImageArray]) -> ImageArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def changed(file: Path) -> ImageError:
    """Return what is said of a file that is not what it was when it was listed."""
    return ImageError(f"{file} has changed since it was listed; read the images again")


def file_state(file: Path | str) -> bytes:
    """Return name, size and times of a file.

    What was copied in its place with its old time (``cp -p``, ``rsync -t``) has a new change time.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 (a path made of each of a million names takes as long)
    except OSError as error:
        raise ImageError(f"{file} cannot be read ({error.strerror})") from error
    text = f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0"
    return text.encode(errors="surrogateescape")


def regroup(blocks: Iterable[ImageArray], size: int) -> Iterator[ImageArray]:
    """Yield the same images in the same order, `size` at a time."""
    held: list[ImageArray] = []
    count = 0
    for block in blocks:
        held.append(block)
        count += len(block)
        if count >= size:
            joined = _whole(held)
            full = count - count % size
            yield from (joined[start : start + size] for start in range(0, full, size))
            held, count = [joined[full:]] if count > full else [], count - full
    if count:
        yield _whole(held)


@dataclass(frozen=True, eq=False)
class StacksReader:
    """Volumes of slices: a reader, see `pipeline.datasets.readers.Reader`.

    Attributes
    ----------
    slices : FilesReader
        The slices of all volumes, one after another; they may be values that are no 0..255 yet.
    starts : (v + 1,) int64
        Where the slices of each volume begin in these, and where the last one's end.
    shown : callable
        From the slices of a volume to 0..255.
    """

    slices: FilesReader
    starts: NDArray[np.int64]
    shown: Callable[[NDArray[Any]], ImageArray]
    sequential = False

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`; while a volume is worked on, the slices of the next are decoded."""
        held: list[ImageArray] = []
        counts = np.diff(self.starts)[rows]
        for slices in self.slices.runs(self._slices(rows), (np.cumsum(counts) - counts).tolist()):
            if held and len(held[-1]) != len(slices):
                yield np.stack(held)
                held = []
            held.append(self.shown(slices))
            if len(held) == size:
                yield np.stack(held)
                held = []
        if held:
            yield np.stack(held)

    def _slices(self, rows: Rows) -> Rows:
        """Return the rows of the slices of some volumes."""
        none = [np.zeros(0, np.int64)]
        return np.concatenate(none + [np.arange(*self.starts[row : row + 2]) for row in rows])

    def files_of(self, row: int) -> list[str]:
        """Return what a list of exclusions names to leave a volume out: its folder, or its files.

        Its folder, where no file of another volume lies.
        """
        file, names = self.slices.file, self.slices.names
        own = set(file[self._slices(np.array([row]))].tolist())
        files = [names[index] for index in sorted(own)]
        folder = Path(files[0]).parent
        others = set(file.tolist()) - own
        if len(files) > 1 and not any(Path(names[index]).parent == folder for index in others):
            return [str(folder)]
        return files

    def validate(self, rows: Rows) -> Iterator[tuple[int, int, str | None]]:
        """Read volume by volume: yield each row, 1, and why it cannot be read."""
        for row in rows.tolist():
            fault = None
            try:
                for _ in self(np.array([row]), 1):
                    pass
            except DatasetError as error:
                fault = str(error)
            yield row, 1, fault

    def stamp(self, rows: Rows) -> bytes:
        """See `Reader`."""
        return self.slices.stamp(self._slices(rows))

    def only(self, rows: Rows) -> "StacksReader":
        """See `Reader`."""
        starts = np.cumsum([0, *np.diff(self.starts)[rows]])
        return replace(self, slices=self.slices.only(self._slices(rows)), starts=starts)


def stamps_of(read: Reader, rows: Rows) -> Iterator[bytes]:
    """Yield the stamp of each of some rows alone; names of files are unpacked once, in turn."""
    if not isinstance(read, FilesReader):
        yield from map(read.stamp, rows[:, np.newaxis])
        return
    frames, last, file_stamp = read.frame[rows].astype(np.int64).tobytes(), -1, b""
    ahead, start = iter(read.names), 0
    for place, index in enumerate(read.file[rows].tolist()):
        if index != last:
            later = index >= start
            name = next(itertools.islice(ahead, index - start, None)) if later else None
            beside = () if read.beside is None else (read.beside[index],)
            file_stamp = b"".join(map(file_state, (name or read.names[index], *beside)))
            last, start = index, max(start, index + 1)
        yield hashlib.sha256(file_stamp + frames[8 * place : 8 * place + 8]).digest()
