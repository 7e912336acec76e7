"""Image source, which every dataset becomes: classes, shape, labels, persons, and uint8 chunks.

Shapes, sizes and labels are checked here for all kinds. Persons are keyed digests, so that no
identifier goes further than this file.

**Readers** read rows of images from memory, from one file, or from many files. A pass over images
is shared out by its reader: it can be cut down to some rows, which a worker elsewhere then reads
without looking at the rest.
"""

import hashlib
import itertools
import math
import os
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import (
    ImageArray,
    LabelArray,
    count_labels,
    counting,
    facts_html,
    facts_text,
)
from covdp.datasets.cards import Card
from covdp.errors import DatasetError, EmptyError, ImageError, MismatchError, image_error
from covdp.parallel import Submit, side_by_side, threads

Rows: TypeAlias = NDArray[np.signedinteger[Any]]

Decode: TypeAlias = Callable[..., ImageArray]
"""Function of a file and the frames wanted of it, ascending, and the file beside it where there is
one, that returns those images, (m, *shape) uint8."""

FILES_AT_ONCE = 16
"""Files that a thread decodes at a time: with small ones handing over would cost as much."""

VALIDATED_AT_ONCE = 512
"""Files that are tried at a time."""


class Reader(Protocol):
    """Reads rows.

    Attributes
    ----------
    sequential : bool
        True if rows are in one stream, so that they are asked for in ascending order, and skipping
        some costs as much as reading them.
    """

    @property
    def sequential(self) -> bool:
        """True if rows are in one stream, so that they are asked for in ascending order."""

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """Yield the images of `rows`, `size` at a time, (size, *shape) uint8.

        Where they have sizes of their own, fewer: all in a chunk have one.
        """

    def stamp(self, rows: Rows) -> bytes:
        """Return a digest that changes when what these rows are read from does.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """

    def only(self, rows: Rows) -> "Reader":
        """Return a reader of these rows alone, which are 0, 1, … there; it can be pickled.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """


@dataclass(frozen=True, eq=False)
class MemoryReader:
    """Images that are in memory, (n, *shape): the reader of small datasets.

    Attributes
    ----------
    images : uint8 array, shape (n, *shape)
        All images.
    """

    images: ImageArray
    sequential = False

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`."""
        for start in range(0, len(rows), size):
            yield self.images[rows[start : start + size]]

    def stamp(self, rows: Rows) -> bytes:
        """Return a digest of the images in memory, see `Reader`.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        return hashlib.sha256(self.images[rows].tobytes()).digest()

    def only(self, rows: Rows) -> "MemoryReader":
        """Return a reader of these rows, see `Reader`.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        return MemoryReader(self.images[rows])


@dataclass(frozen=True, eq=False)
class StreamReader:
    """Images of files that are read from their start to their end.

    Attributes
    ----------
    read : callable
        ``read(rows, size)``, for ascending rows.
    files : tuple of Path
        Files that are read.
    subset : array of int, shape (m,), optional
        The rows that are left of all.
    """

    read: Callable[[Rows, int], Iterator[ImageArray]]
    files: tuple[Path, ...]
    subset: Rows | None = None
    sequential = True

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`."""
        return self.read(rows if self.subset is None else self.subset[rows], size)

    def stamp(self, rows: Rows) -> bytes:
        """Return a digest of the file's name, size and times, see `Reader`.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        digest = hashlib.sha256(b"".join(map(file_state, self.files)))
        chosen = rows if self.subset is None else self.subset[rows]
        digest.update(chosen.astype(np.int64).tobytes())
        return digest.digest()

    def only(self, rows: Rows) -> "StreamReader":
        """Return a reader of these rows, see `Reader`.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        chosen = rows if self.subset is None else self.subset[rows]
        return StreamReader(self.read, self.files, chosen)


@dataclass(frozen=True, eq=False)
class FilesReader:
    """Images in files of their own, or several in one; decoded side by side, yielded in order.

    Attributes
    ----------
    decode : callable
        See `Decode`; it runs in threads.
    names : sequence of str
        The files, as `covdp.datasets.listing.Paths`.
    file, frame : array of int, shape (n,)
        Index of each row's file, and of its image in that file.
    beside : sequence of str, optional
        Second file that each is decoded with, as a mask is with its image.
    alone : bool
        True if images have sizes of their own, so that each is yielded alone.
    shared : bool
        True if an image of a file can be at fault and the others not, as masks that images share.
    """

    decode: Decode
    names: Sequence[str] = field(repr=False)
    file: NDArray[np.signedinteger[Any]]
    frame: NDArray[np.signedinteger[Any]]
    beside: Sequence[str] | None = None
    alone: bool = False
    shared: bool = False
    sequential = False

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`."""
        return self.runs(rows, range(0, len(rows), 1 if self.alone else size))

    def runs(self, rows: Rows, starts: Iterable[int]) -> Iterator[ImageArray]:
        """Yield the images of `rows` from each of `starts` up to the next.

        While some are worked on, the next ones are decoded.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        starts : iterable of int
            First place in `rows` of each block, ascending.
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
        few = max(1, min(FILES_AT_ONCE, files // (4 * threads())))
        return [
            submit(self._decode, rows, edges[start : start + few + 1])
            for start in range(0, files, few)
        ]

    def _decode(self, rows: Rows, edges: NDArray[np.int64]) -> ImageArray:
        """Return some of `rows`: between two edges they are in one file."""
        images = []
        for low, high in itertools.pairwise(edges.tolist()):
            index = int(self.file[rows[low]])
            file, frames = Path(self.names[index]), self.frame[rows[low:high]]
            wanted, place = frames, slice(None)
            if len(frames) > 1:
                wanted, place = np.unique(frames, return_inverse=True)
            try:
                images.append(self.decode(file, wanted, *self._beside(index))[place])
            except MemoryError as error:
                raise image_error(
                    f"{file} takes more memory than there is; read it with more, make it smaller"
                ) from error
        return _whole(images)

    def files_of(self, row: int) -> list[str]:
        """Return the lines of a list of exclusions that leave a row out: the file that it is in.

        Parameters
        ----------
        row : int
            Row of the image in the source.
        """
        return [self.names[int(self.file[row])]]

    def validate(self, rows: Rows, look: "Look") -> Iterator["ReadResult"]:
        """Yield the result of each file, one after the other.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        look : Look
            Function that looks at the images read.
        """
        edges = np.flatnonzero(np.diff(self.file[rows], prepend=-1, append=-1))
        if self.shared:
            edges = np.arange(len(rows) + 1)
        with side_by_side() as submit:
            for start in range(0, len(edges) - 1, VALIDATED_AT_ONCE):
                spans = list(
                    itertools.pairwise(edges[start : start + VALIDATED_AT_ONCE + 1].tolist())
                )
                jobs = [
                    submit(_read_and_look, look, self._decode, rows, np.array(span))
                    for span in spans
                ]
                for (low, high), job in zip(spans, jobs, strict=True):
                    yield ReadResult(int(rows[low]), high - low, *job.result())

    def _beside(self, index: int) -> tuple[Path, ...]:
        return () if self.beside is None else (Path(self.beside[index]),)

    def stamp(self, rows: Rows) -> bytes:
        """Return a digest of the files' names, sizes and times, see `Reader`.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        digest = hashlib.sha256()
        for index in dict.fromkeys(self.file[rows].tolist()):
            for name in [self.names[index], *map(str, self._beside(index))]:
                digest.update(file_state(name))
        digest.update(self.frame[rows].astype(np.int64).tobytes())
        return digest.digest()

    def only(self, rows: Rows) -> "FilesReader":
        """Return a reader of these rows, see `Reader`.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        wanted, file = np.unique(self.file[rows], return_inverse=True)
        names = [self.names[index] for index in wanted]
        beside = None if self.beside is None else [self.beside[index] for index in wanted]
        return replace(self, names=names, file=file, frame=self.frame[rows], beside=beside)


class ReadResult(NamedTuple):
    """Result of reading a file, or a volume.

    Attributes
    ----------
    row, images : int
        Its first row, and how many images it has.
    error : DatasetError or None
        Reason why it cannot be read.
    seen : object
        Result of `look` for its images; None where they cannot be read.
    """

    row: int
    images: int
    error: DatasetError | None
    seen: Any


Look: TypeAlias = Callable[[ImageArray], Any]
"""Function of the images of a file, as they are described, that a validation calls."""


def _read_and_look(
    look: Look, read: Callable[..., ImageArray], *arguments: Any
) -> tuple[DatasetError | None, Any]:
    """Return why reading fails, or what `look` returns of the images."""
    try:
        return None, look(read(*arguments))
    except DatasetError as error:
        return error, None


def _one(chunks: Iterator[ImageArray]) -> ImageArray:
    (chunk,) = chunks
    return chunk


def _joined(parts: list["Future[ImageArray]"]) -> ImageArray:
    return _whole([part.result() for part in parts])


def _whole(parts: list[ImageArray]) -> ImageArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def changed(file: Path) -> ImageError:
    """Return the error of a file that is not what it was when it was listed.

    Parameters
    ----------
    file : Path
        Path of the file.
    """
    return ImageError(f"{file} has changed since it was listed; read the images again")


def file_state(file: Path | str) -> bytes:
    """Return name, size and times of a file.

    What was copied in its place with its old time (``cp -p``, ``rsync -t``) has a new change time.

    Parameters
    ----------
    file : Path or str
        Path of the file.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 (a path made of each of a million names takes as long)
    except OSError as error:
        from covdp.datasets.listing import way_to

        raise image_error(f"{file} cannot be read ({error.strerror}); {way_to(error)}") from error
    text = f"{file}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0"
    return text.encode(errors="surrogateescape")


def regroup(blocks: Iterable[ImageArray], size: int) -> Iterator[ImageArray]:
    """Yield the same images in the same order, `size` at a time.

    Parameters
    ----------
    blocks : iterable of uint8 array
        Blocks of any number of images.
    size : int
        Number of images of a block.
    """
    waiting: list[ImageArray] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += len(block)
        if count >= size:
            joined = _whole(waiting)
            full = count - count % size
            yield from (joined[start : start + size] for start in range(0, full, size))
            waiting, count = [joined[full:]] if count > full else [], count - full
    if count:
        yield _whole(waiting)


@dataclass(frozen=True, eq=False)
class StacksReader:
    """Volumes of slices: a reader, see `covdp.datasets.source.Reader`.

    Attributes
    ----------
    slices : FilesReader
        The slices of all volumes, one after another; they may be values that are no 0..255 yet.
    starts : array of int64, shape (v + 1,)
        First place of each volume's slices in these, and the end of the last one's.
    shown : callable
        Function of the slices of a volume that returns them in 0..255.
    """

    slices: FilesReader
    starts: NDArray[np.int64]
    shown: Callable[[NDArray[Any]], ImageArray]
    sequential = False

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`; while a volume is worked on, the slices of the next are decoded."""
        counts = np.diff(self.starts)[rows]
        read = self.slices.runs(self._slices(rows), (np.cumsum(counts) - counts).tolist())
        volumes = (self.shown(slices)[np.newaxis] for slices in read)
        for _, of_one_shape in itertools.groupby(volumes, np.shape):
            yield from regroup(of_one_shape, size)

    def _slices(self, rows: Rows) -> Rows:
        """Return the rows of the slices of some volumes."""
        none = [np.zeros(0, np.int64)]
        return np.concatenate(none + [np.arange(*self.starts[row : row + 2]) for row in rows])

    def files_of(self, row: int) -> list[str]:
        """Return the lines of a list of exclusions that leave a volume out: its folder, or files.

        Its folder, where no file of another volume is.

        Parameters
        ----------
        row : int
            Row of the image in the source.
        """
        file, names = self.slices.file, self.slices.names
        own = set(file[self._slices(np.array([row]))].tolist())
        files = [names[index] for index in sorted(own)]
        folder = Path(files[0]).parent
        others = set(file.tolist()) - own
        if len(files) > 1 and not any(Path(names[index]).parent == folder for index in others):
            return [str(folder)]
        return files

    def validate(self, rows: Rows, look: Look) -> Iterator[ReadResult]:
        """Yield the result of each volume, one after the other.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        look : Look
            Function that looks at the images read.
        """
        for row in rows.tolist():
            yield ReadResult(row, 1, *_read_and_look(look, _one, self(np.array([row]), 1)))

    def stamp(self, rows: Rows) -> bytes:
        """Return a digest of the files' names, sizes and times, see `Reader`.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        return self.slices.stamp(self._slices(rows))

    def only(self, rows: Rows) -> "StacksReader":
        """Return a reader of these rows, see `Reader`.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        starts = np.cumsum([0, *np.diff(self.starts)[rows]])
        return replace(self, slices=self.slices.only(self._slices(rows)), starts=starts)


CHUNK_BYTES = 1 << 28
"""Bytes of images in a chunk where nobody asks for a number of images."""

SPLITS = ("train", "val", "test")

Splits: TypeAlias = str | tuple[str, ...] | None
"""One split, several in the order they are named, or None for all."""

Names: TypeAlias = NDArray[np.bytes_]
"""Opaque keys, (n,): equal for the images of one person, and telling nothing else."""


class Selection(NamedTuple):
    """The images that some splits give, in the order in which they are read.

    Attributes
    ----------
    rows : array of int, shape (m,)
        Rows of the reader; ascending, but for persons, whose images come one after another.
    labels : array of int, shape (m,)
        Their classes.
    units : array of int, shape (m,)
        0, 1, …: which privacy unit of its class an image belongs to, image or person; each privacy
        unit's images are consecutive.
    """

    rows: Rows
    labels: LabelArray
    units: NDArray[np.signedinteger[Any]]

    def count_units(self, classes: int) -> tuple[int, ...]:
        """Return the number of privacy units of each class; they are numbered from 0.

        Parameters
        ----------
        classes : int
            Number of classes.
        """
        own = (self.labels == label for label in range(classes))
        return tuple(int(self.units.max(where=chosen, initial=-1)) + 1 for chosen in own)


@dataclass(frozen=True, eq=False)
class ImageSource:
    """The images of one dataset, read chunk by chunk; privacy units are in disjoint classes.

    Columns are integers as short as they can be: there may be 10⁸ images.

    Attributes
    ----------
    card : Card
        Card of the dataset.
    shape : tuple of int
        Shape of one image, (h, w) or (h, w, 3), or of one volume, (d, h, w); where they have
        different numbers of slices, of the largest that may be.
    label_of : array of int, shape (n,)
        The label of each image.
    split_of : array of int, shape (n,)
        The split of each image, an index into `SPLITS`.
    read : Reader
        Reader of the images.
    facts : tuple of str
        Facts about the reading that a reader should know. They depend on the images: a run tells
        them, a release does not.
    people : array of bytes, shape (n,), optional
        Person of each image, where the card's privacy unit is the person: opaque once the source is
        open (`covdp.datasets.source.opaque`).
    dates : array of datetime64, shape (n,), optional
        Day of each image, where card or files say it.
    masks : Reader, optional
        The region of interest in each image, non-zero inside, where the card names masks.
    classes_per_person : int
        Largest number of classes with images of one person; their images in others are left out.
    left_out : array of int64, shape (3, classes), optional
        Number of files of each split and class that a list in the card leaves out. A release states
        it only where the card says that it is public.
    """

    card: Card
    shape: tuple[int, ...]
    label_of: LabelArray
    split_of: NDArray[np.signedinteger[Any]]
    read: Reader
    facts: tuple[str, ...] = ()
    people: NDArray[Any] | None = field(default=None, repr=False)
    dates: NDArray[np.datetime64] | None = field(default=None, repr=False)
    masks: Reader | None = None
    classes_per_person: int = 1
    left_out: NDArray[np.int64] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Show what there is in a few lines; sizes only where the card says they are public.

        What is shown may end in a log, or in a notebook that is passed on.
        """
        return facts_text("ImageSource", self._facts)

    def _repr_html_(self) -> str:
        """Return the same as a table of a notebook."""
        return facts_html("ImageSource", self._facts)

    @property
    def _facts(self) -> dict[str, str]:
        """Facts to show, by name."""
        images, classes = " × ".join(map(str, self.shape)) + " pixels", list(self.classes)
        if self.card.public:
            sizes = count_labels(self.label_of, len(classes))
            classes = [f"{name} {size:,}" for name, size in zip(classes, sizes, strict=True)]
            images = f"{len(self.label_of):,} of {images}"
        return {
            "dataset": self.card.title or self.card.name,
            "images": images,
            "classes": ", ".join(classes),
            "protected": f"one {self.unit}",
        }

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; a label is an index into them."""
        return self.card.classes

    @property
    def unit(self) -> str:
        """Unit of protection, "image" or "person"."""
        return "image" if self.people is None else "person"

    def select(self, split: Splits = None, label: int | None = None) -> Selection:
        """Return the images of some splits and of one class or all.

        Where the privacy unit is the person and ``classes_per_person`` is 1, a person belongs to
        the first class, in the card's order, in which they have an image in these splits; their
        other images are left out. Which images that leaves of a person depends on that person's
        images alone.

        Parameters
        ----------
        split : Splits
            Name or names of splits; all when None.
        label : int, optional
            Index of the class; all classes when None.

        Raises
        ------
        DatasetError
            When a split or label is unknown or without images.
        """
        chosen = self._chosen(split)
        if label is not None and label not in range(len(self.classes)):
            known = ", ".join(f"{place} {name}" for place, name in enumerate(self.classes))
            raise MismatchError(
                f"label must be 0..{len(self.classes) - 1} in {self.card.name}, found {label!r}; "
                f"classes are {known}"
            )
        self._check(chosen, split, label)
        if label is not None:
            of_label = chosen.labels == label
            chosen = Selection(*(column[of_label] for column in chosen))
        return chosen

    def chunks(
        self, split: Splits = None, label: int | None = None, size: int | None = None
    ) -> Iterator[ImageArray]:
        """Yield the images of some splits and of one class or all, as uint8 arrays.

        Joined, the chunks hold each chosen image once, in the order of `select`. Volumes in one
        chunk have one number of slices.

        Parameters
        ----------
        split : str, tuple of str or None
            Name or names of splits; all when None.
        label : int, optional
            Index of the class; all classes when left out.
        size : int, optional
            Images in a chunk; the last one may have fewer. When left out 4096, or as many as fit
            in 256 MiB.

        Raises
        ------
        DatasetError
            At once when a split or label is unknown or without images; while reading when a file
            turns out to be damaged.
        """
        if size is None:
            size = min(4096, max(1, CHUNK_BYTES // math.prod(self.shape)))
        if size < 1:
            raise DatasetError(f"a chunk must hold at least 1 image, found size {size}")
        return self.read(self.select(split, label).rows, size)

    def with_masks(self, rows: Rows, size: int) -> Iterator[tuple[ImageArray, ImageArray | None]]:
        """Yield the images of `rows` as `read` does, and beside them their masks if there are.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        size : int
            Number of images of a block.
        """
        masks = itertools.repeat(None) if self.masks is None else self.masks(rows, size)
        return zip(self.read(rows, size), masks, strict=False)

    def labels(self, split: Splits = None) -> LabelArray:
        """Return the label of each image of some splits, (n,) int64, in the order of `chunks`.

        Parameters
        ----------
        split : Splits
            Name or names of splits; all when None.

        Raises
        ------
        DatasetError
            When a split is unknown or a class has no image in the chosen splits.

        Examples
        --------
        >>> from covdp import open_dataset
        >>> open_dataset("tiles").labels()[:5]
        array([0, 0, 0, 0, 0])
        """
        return self.select(split).labels.astype(np.int64)

    def persons(self, split: Splits = None, label: int | None = None) -> Names | None:
        """Return whose image each is, in the order of `chunks`; None where a record is one image.

        Parameters
        ----------
        split : Splits
            Name or names of splits; all when None.
        label : int, optional
            Index of the class; all classes when None.

        Returns
        -------
        (n,) bytes or None
            Opaque keys, different in each opened source unless it was opened with a key.
        """
        if self.people is None:
            return None
        keys: Names = self.people[self.select(split, label).rows]
        return keys

    def counts(self, split: Splits = None) -> tuple[int, ...]:
        """Return the number of images of each class in some splits, by label; zeros included.

        Parameters
        ----------
        split : Splits
            Name or names of splits; all when None.

        Examples
        --------
        >>> from covdp import open_dataset
        >>> open_dataset("tiles").counts()
        (1220, 8078, 1746)
        """
        return tuple(count_labels(self._chosen(split).labels, len(self.classes)).tolist())

    def units(self, split: Splits = None) -> tuple[int, ...]:
        """Return the number of privacy units, images or persons, of each class; as `counts`.

        Parameters
        ----------
        split : Splits
            Name or names of splits; all when None.
        """
        return self._chosen(split).count_units(len(self.classes))

    def excluded(self, split: Splits = None) -> tuple[int, ...] | None:
        """Return the number of files of each class left out; None unless the card calls it public.

        Index = label; zeros included.

        Parameters
        ----------
        split : Splits
            Name or names of splits; all when None.
        """
        if self.left_out is None or not getattr(self.card, "excluded_public", False):
            return None
        return tuple(self.left_out[_codes(split)].sum(axis=0).tolist())

    def only(self, rows: Rows) -> "ImageSource":
        """Return the source of these rows alone, which are 0, 1, … there.

        Parameters
        ----------
        rows : Rows
            Rows of the images in the source.
        """
        people, dates, masks = self.people, self.dates, self.masks
        return replace(
            self,
            label_of=self.label_of[rows],
            split_of=self.split_of[rows],
            read=self.read.only(rows),
            people=None if people is None else people[rows],
            dates=None if dates is None else dates[rows],
            masks=None if masks is None else masks.only(rows),
        )

    def _chosen(self, split: Splits) -> Selection:
        """Return what the chosen splits hold, each split once."""
        in_splits = np.zeros(len(self.split_of), bool)
        for code in _codes(split):
            in_splits |= self.split_of == code
        rows = np.arange(len(in_splits), dtype=counting(len(in_splits)))
        labels = self.label_of
        if not in_splits.all():
            rows, labels = rows[in_splits], labels[in_splits]
        if self.people is not None:
            return _by_person(rows, labels, self.people[rows], self.classes_per_person)
        return Selection(rows, labels, _numbered(labels, len(self.classes)))

    def _check(self, chosen: Selection, split: Splits, label: int | None) -> None:
        """Raise when a wanted class has no image in the chosen splits."""
        counts = count_labels(chosen.labels, len(self.classes))
        where = f"{self.card.name}, split {'+'.join(SPLITS[code] for code in _codes(split))}"
        if not counts.any():
            others = ", ".join(SPLITS[code] for code in np.unique(self.split_of))
            way = f"choose another split ({others})" if others else "bring some"
            raise EmptyError(f"{where}, has no image; {way}")
        if self.card.sparse:
            return
        for wanted in range(len(self.classes)) if label is None else (label,):
            if counts[wanted] == 0:
                none, way = "image", ""
                if self.people is not None:
                    none, way = "person of its own", "give a larger classes_per_person, "
                raise MismatchError(
                    f"{where}: class {wanted} '{self.classes[wanted]}' has no {none}; {way}choose "
                    "other splits or take the class out of the card"
                )


def _by_person(
    rows: Rows, labels: LabelArray, people: NDArray[Any], classes_per_person: int
) -> Selection:
    """Return the images ordered by class and person, each person in as many classes as allowed.

    More than one class a person is allowed for a price; more than `classes_per_person` are left
    out in the card's order, again by a rule on that person's own images.
    """
    _, first_seen, who = np.unique(people, return_index=True, return_inverse=True)
    pairs, of_pair = np.unique(who * (labels.max(initial=0) + 1) + labels, return_inverse=True)
    person_of_pair = pairs // (labels.max(initial=0) + 1)
    rank = np.arange(len(pairs)) - np.searchsorted(person_of_pair, person_of_pair)
    allowed = np.flatnonzero((rank < classes_per_person)[of_pair])
    order = allowed[np.lexsort((first_seen[who[allowed]], labels[allowed]))]
    rows, labels = rows[order], labels[order]
    number = np.cumsum(np.diff(of_pair[order], prepend=-1) != 0)
    units = number - number[np.searchsorted(labels, labels)]
    return Selection(rows, labels, units.astype(rows.dtype))


def _numbered(labels: LabelArray, classes: int) -> NDArray[np.signedinteger[Any]]:
    """Return 0, 1, … for the images of each class."""
    numbers = np.empty(len(labels), counting(len(labels)))
    for label in range(classes):
        of_label = labels == label
        numbers[of_label] = np.arange(np.count_nonzero(of_label), dtype=numbers.dtype)
    return numbers


def _codes(split: Splits) -> list[int]:
    """Return the indices of splits in `SPLITS`, each named once."""
    names = SPLITS if split is None else (split,) if isinstance(split, str) else tuple(split)
    if not names or len(set(names)) != len(names) or not set(names) <= set(SPLITS):
        raise MismatchError(
            f"split must be one or more of {', '.join(SPLITS)}, each once, found {split!r}"
        )
    return [SPLITS.index(name) for name in names]


def split_codes(split: str, n: int) -> NDArray[np.signedinteger[Any]]:
    """Return the codes of n images of one split, as in `ImageSource.split_of`.

    Parameters
    ----------
    split : str
        Name of the split.
    n : int
        Number of images.
    """
    return np.full(n, SPLITS.index(split), counting(len(SPLITS)))


PERSON_BYTES = 16
"""Length of a digest: two of 10⁹ persons have the same with probability 10⁻²¹."""


def opaque(people: NDArray[np.str_], key: bytes) -> NDArray[np.bytes_]:
    """Return a keyed digest of each identifier, in hexadecimal, (n,) bytes.

    Without the key a digest tells neither who it is nor, tried out, who it could be.

    Parameters
    ----------
    people : (n,) str
        Identifiers; blanks around one do not count, nor in which way an accent is written.
    key : bytes
        The ledger's, where digests are to be known again, else random; up to 64 bytes.
    """
    names, of_name = np.unique(people, return_inverse=True)
    digests = [
        hashlib.blake2b(_plain(str(name)), digest_size=PERSON_BYTES, key=key).hexdigest().encode()
        for name in np.char.strip(names)
    ]
    return np.array(digests, dtype=f"S{2 * PERSON_BYTES}")[of_name]


def _plain(name: str) -> bytes:
    """Return a name as bytes: the same for one person, as one system writes é and another e + ´."""
    return unicodedata.normalize("NFC", name).encode(errors="surrogateescape")


NO_PERSON = (
    "na n/a #n/a #na <na> nan -nan null none nil nat \\n . - ? unknown anonymous anonymized "
    "anonymised"
)
"""Names, in lower case, that programs give to what they do not know; no person has one of them."""


def check_person(person: str, where: str) -> None:
    """Raise where the name of a person says that nobody knows whose an image is.

    Images of several persons would be taken for one person's, and those of one person for two's.

    Parameters
    ----------
    person : str
        Name of the person.
    where : str
        Name of the file, for the message.
    """
    if person.strip().lower() in NO_PERSON.split():
        raise image_error(
            f"{where} names a person that is not known, found {person!r}; name the person"
        )


IMAGE_BYTES = 1 << 27
"""Bytes of the largest image: more pixels than any detector has."""

LARGEST_VOLUME = 1 << 30
"""Voxels of the largest volume, which is held in memory. Sums of its features are exact: they stay
within 64 bits up to 2,164,359,682 voxels (`covdp.descriptors.describe`)."""


def check_extent(shape: tuple[int, ...], where: str) -> None:
    """Raise unless one image of `shape` has a size that an image may have.

    Parameters
    ----------
    shape : tuple of int
        Shape of one image.
    where : str
        Name of the image, for the message.
    """
    if not 1 <= (pixels := math.prod(shape)) <= IMAGE_BYTES:
        way = "cut it to tiles, or make it smaller" if pixels else "save images with pixels"
        raise MismatchError(
            f"{where}: an image must have 1 to {IMAGE_BYTES:,} bytes, found {pixels:,}; {way}"
        )


def check_volume(shape: tuple[int, ...], where: str, window: object = None) -> None:
    """Raise unless a volume of `shape` can be held, and its percentiles if its window is those.

    Parameters
    ----------
    shape : tuple of int
        Shape of one image.
    where : str
        Name of the volume, for the message.
    window : object
        Key ``window`` of the card.
    """
    voxels = math.prod(shape)
    if not 1 <= voxels <= LARGEST_VOLUME:
        raise MismatchError(
            f"{where}: a volume must have 1 to {LARGEST_VOLUME:,} voxels, found {voxels:,}; cut it "
            "to pieces, or resample it"
        )
    if window == "image" and voxels > IMAGE_BYTES:  # percentiles take 16 bytes a voxel
        raise MismatchError(
            f'{where}: window = "image" is for volumes of up to {IMAGE_BYTES:,} voxels, found '
            f"{voxels:,}; give window = [low, high] in the card"
        )


def check_shape(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    channels: int,
    where: str,
    *,
    volumes: bool = False,
) -> None:
    """Raise unless (n, *image) is uint8 and (n, h, w) for 1 channel, (n, h, w, 3) for 3.

    Volumes have one channel, (n, d, h, w).

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    dtype : numpy.dtype
        Type of the numbers.
    channels : int
        Number of channels, 1 for gray and 3 for colour.
    where : str
        Name of the array, for the message.
    volumes : bool
        True for volumes.
    """
    if dtype != np.uint8:
        raise DatasetError(
            f"{where}: images must be uint8 with intensities 0..255, found {dtype}; rescale "
            "(without NaN) to 0..255, convert with .astype('uint8') and save again"
        )
    wanted = "(n, d, h, w)" if volumes else "(n, h, w)" if channels == 1 else "(n, h, w, 3)"
    if len(shape) != wanted.count(",") + 1 or (channels == 3 and shape[-1] != 3):
        raise MismatchError(
            f"{where}: {'volumes' if volumes else 'images'} of {channels} channel(s) must have "
            f"shape {wanted}, found {shape}; move or drop axes, or correct channels or volumes in "
            "the card"
        )


def check_label_shape(shape: tuple[int, ...], dtype: np.dtype[Any], n: int, where: str) -> None:
    """Raise unless labels are n integers of shape (n,) or (n, 1).

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    dtype : numpy.dtype
        Type of the numbers.
    n : int
        Number of images.
    where : str
        Name of the array, for the message.
    """
    if dtype.kind not in "biu" or shape not in ((n,), (n, 1)):
        raise DatasetError(
            f"{where}: labels must be {n} integers, one for each image, of shape ({n},) or "
            f"({n}, 1), found {dtype} of shape {shape}; save them so"
        )


def check_labels(labels: NDArray[Any], n: int, classes: int, where: str) -> LabelArray:
    """Return labels as (n,) if they are n integers 0..classes-1, else raise.

    Parameters
    ----------
    labels : array, shape (n,) or (n, 1)
        Candidate labels.
    n : int
        Number of images.
    classes : int
        Number of classes.
    where : str
        Name of the array, for the message.
    """
    check_label_shape(labels.shape, labels.dtype, n, where)
    low, high = (labels.min(), labels.max()) if n else (0, 0)
    if low < 0 or high >= classes:
        raise DatasetError(
            f"{where}: labels must be 0..{classes - 1}, one for each class of the card, found "
            f"{low}..{high}; correct them or the classes"
        )
    return labels.reshape(-1).astype(counting(classes))


def middle_slices(source: ImageSource, rows: NDArray[np.int64]) -> Iterator[ImageArray]:
    """Yield images, (1, h, w[, 3]), of volumes the slice in the middle of their depth.

    Parameters
    ----------
    source : ImageSource
        Opened dataset.
    rows : array of int, shape (n,)
        Rows of the images in the source.
    """
    for image in source.read(rows, 1):
        if source.card.volumes:
            image = image[:, image.shape[1] // 2]
            wider = np.subtract(source.shape[1:], image.shape[1:])  # black where one has fewer
            image = np.pad(image, [(0, 0), *((0, more) for more in wider)])
        yield image
