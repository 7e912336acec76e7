"""Stored descriptors: shards of descriptors, read back in chunks, by class, as often as wanted.

**A shard** is a Parquet file with a group of rows for each class and its digest in its name. It
holds, for each image, the lower triangle of its descriptor in doubles, exact, its privacy
unit, and digests of its pixels and its mask. The former are d = k(k + 1)/2 numbers, as many as
coordinates in a chart, and good for every manifold: a logarithm is taken when it is read.
"""

import hashlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.errors import OutputError
from covdp.store.place import Place

DIGEST = 16
"""Bytes of a digest: of two among 10⁹ images the chance to be the same is 10⁻²¹."""
SUFFIX = ".parquet"


class Chunk(NamedTuple):
    """Some images of one class, in their order; all images of a person are in one chunk.

    Attributes
    ----------
    points : array of float64, shape (m, k, k)
        Their descriptors.
    units : array of int64, shape (m,)
        Privacy unit of the class that each belongs to.
    digests : (m, 16) or (m, 32) uint8
        Digests of their pixels, and after them of their masks if there are any.
    """

    points: FloatArray
    units: NDArray[np.int64]
    digests: NDArray[np.uint8]

    def __repr__(self) -> str:
        """Show no value."""
        return f"Chunk(m={len(self.points)}, …)"

    def records(self, form: "Form | None") -> FloatArray:
        """Return one record of each image, or those that `form` makes of each privacy unit's.

        Parameters
        ----------
        form : Form or None
            Form of a record of several images; each image is one when None.
        """
        return self.points if form is None else form(self.points, self.units)


@lru_cache(maxsize=8)
def columns_of(k: int) -> dict[str, tuple[int, int]]:
    """Return the columns that hold a lower triangle: name, row and column of each, row by row.

    Parameters
    ----------
    k : int
        Number of rows of a descriptor.
    """
    return {f"R_{a + 1}_{b + 1}": (a, b) for a in range(k) for b in range(a + 1)}


def encode(labels: NDArray[Any], chunk: Chunk) -> bytes:
    """Return the file of a shard; its rows are grouped by class and keep their order within.

    Parameters
    ----------
    labels : array, shape (n,)
        Class of each image.
    chunk : Chunk
        Images of a shard, in the order of the source.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    k = chunk.points.shape[-1]
    lower = chunk.points[:, *np.tril_indices(k)]
    order = np.argsort(labels, kind="stable")
    schema = pa.schema(
        [("label", pa.int32()), ("unit", pa.int64())]
        + [("digest", pa.binary(chunk.digests.shape[1]))]
        + [(name, pa.float64()) for name in columns_of(k)]
    )
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="none",
        use_dictionary=["label"],
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for rows in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
            values = [labels.astype(np.int32), chunk.units, chunk.digests, *lower.T]
            columns = [  # from buffers: of arrays pyarrow asks pandas, whose import takes 0.4 s
                pa.Array.from_buffers(
                    field.type, len(rows), [None, pa.py_buffer(np.ascontiguousarray(column[rows]))]
                )
                for field, column in zip(schema, values, strict=True)
            ]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=len(rows))
    return sink.getvalue()


def decode(stream: BinaryIO, group: int, k: int) -> Chunk:
    """Return one class of a shard; raise `OutputError` when the file is damaged.

    Parameters
    ----------
    stream : BinaryIO
        Content of the shard's file.
    group : int
        Index of the class in the file.
    k : int
        Number of rows of a descriptor.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        columns = ["unit", "digest", *columns_of(k)]
        table = file.read_row_group(group, columns, use_threads=False)  # copies what is in memory
    except (OSError, pa.ArrowException):
        table = None
    if table is None:  # outside the handler: what a reader says of a private file stays there
        raise OutputError("a shard was damaged since the pass over the images; run again")
    table = table.combine_chunks()
    points = np.empty((table.num_rows, k, k))
    for name, (a, b) in columns_of(k).items():
        points[:, a, b] = points[:, b, a] = _column(table, name, np.float64)
    width = table.schema.field("digest").type.byte_width
    digests = _column(table, "digest", np.uint8, width).reshape(-1, width)
    return Chunk(points, _column(table, "unit", np.int64), digests)


def _column(table: Any, name: str, kind: type, width: int = 1) -> NDArray[Any]:
    """Return a column of `width` numbers a row, from its buffer, as `encode` wrote it."""
    array = table.column(name).chunk(0)
    start = width * np.dtype(kind).itemsize * array.offset
    return np.frombuffer(array.buffers()[1], kind, width * len(array), start)


def name_of(key: str, content: bytes) -> str:
    """Return the name of a shard: what it is made from, and what it holds.

    Parameters
    ----------
    key : str
        Digest of what the shard is made from.
    content : bytes
        Content of the shard.
    """
    return f"{key}.{hashlib.sha256(content).hexdigest()[: 2 * DIGEST]}{SUFFIX}"


Form: TypeAlias = Callable[[FloatArray, NDArray[np.int64]], FloatArray]
"""Function of descriptors and the persons they are of, each one's together, that returns one record
a person."""


DIGESTS_AT_ONCE = 1 << 16
"""Images or persons whose digests are yielded at a time."""


class StoredShard(NamedTuple):
    """A shard that is there: its file, and the classes in it, ascending.

    Attributes
    ----------
    name : str
        Name of the file.
    labels : tuple of int
        Classes in it, ascending.
    """

    name: str
    labels: tuple[int, ...]


@dataclass(frozen=True)
class StoredImages:
    """The descriptors of all images of a pass; nothing of it may leave without noise.

    Attributes
    ----------
    place : Place
        Place of the shards.
    counts, units : tuple of int
        Images and privacy units, which are images or persons, of each class.
    k : int
        Order of the matrices.
    shards : tuple of StoredShard
        Shards in the order of the pass.
    """

    place: Place
    counts: tuple[int, ...]
    units: tuple[int, ...]
    k: int
    shards: tuple[StoredShard, ...]

    def chunks(self, label: int) -> Iterator[Chunk]:
        """Yield the images of a class in the order of the source.

        Parameters
        ----------
        label : int
            Index of the class.

        Raises
        ------
        OutputError
            When a shard is damaged.
        """
        for shard in self.shards:
            if label in shard.labels:
                with self.place.open(shard.name) as stream:
                    yield decode(stream, shard.labels.index(label), self.k)

    def records(self, label: int, form: Form | None = None) -> "StoredRecords":
        """Return the records of a class, read anew at each pass over them.

        Parameters
        ----------
        label : int
            Index of the class.
        form : callable, optional
            Function that makes one record of each privacy unit, where one has several images.
        """
        return StoredRecords(self, label, form)

    def contents(self, label: int | None) -> Iterator[bytes]:
        """Yield the digests of the images or persons of classes, ascending, some at a time.

        Joined, it depends neither on the order of these, nor on that of the images of one, nor
        on where shards are cut; of all, not on their classes. They are held, 32 bytes each.

        Parameters
        ----------
        label : int or None
            Index of the class; all classes when None.
        """
        labels = range(len(self.units)) if label is None else [label]
        chunks = itertools.chain.from_iterable(map(self.chunks, labels))
        return ascending(digests_of_units(chunk) for chunk in chunks)

    @property
    def fingerprint(self) -> str:
        """Identity of the content of all shards: the same wherever the images are."""
        return "".join(shard.name.split(".")[1] for shard in self.shards)


def ascending(units: Iterable[NDArray[np.uint8]]) -> Iterator[bytes]:
    """Yield digests, each (u, width), in one order, whatever the order they come in.

    Parameters
    ----------
    units : iterable of array of uint8, shape (u, width)
        Digests of the units.
    """
    digests = np.concatenate(list(units) or [np.empty((0, DIGEST), np.uint8)])
    digests.view(f"S{digests.shape[1]}").sort(axis=0)  # in place
    for start in range(0, len(digests), DIGESTS_AT_ONCE):
        yield digests[start : start + DIGESTS_AT_ONCE].tobytes()


def digests_of_units(chunk: Chunk) -> NDArray[np.uint8]:
    """Return the digest of each image or person, (u, width), in their order.

    A privacy unit of one image is known by that image's digest, one of several by a digest of
    theirs, ascending.

    Parameters
    ----------
    chunk : Chunk
        Images with their digests.
    """
    starts = np.flatnonzero(np.diff(chunk.units, prepend=-1))
    if len(starts) == len(chunk.units):
        return chunk.digests
    ascending = chunk.digests[np.lexsort((*_halves(chunk.digests), chunk.units))]
    digests, person = ascending[starts], b"covdp unit"
    ends = np.append(starts[1:], len(chunk.units))
    for unit in np.flatnonzero(ends - starts > 1):
        images = ascending[starts[unit] : ends[unit]].tobytes()
        digest = hashlib.blake2b(images, digest_size=digests.shape[1], person=person).digest()
        digests[unit] = np.frombuffer(digest, np.uint8)
    return digests


def _halves(digests: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return what digests are sorted by, the first half last, as `numpy.lexsort` wants it."""
    return np.ascontiguousarray(digests).view(">u8").astype(np.uint64).T[::-1]


@dataclass(frozen=True)
class StoredRecords:
    """The records of one class: of `n` privacy units, in chunks, as often as they are asked for.

    Attributes
    ----------
    stored : StoredImages
        Stored images.
    label : int
        Index of the class.
    form : Form, optional
        Form of a record of several images; each image is one when None.
    """

    stored: StoredImages
    label: int
    form: Form | None = None

    @property
    def n(self) -> int:
        """Number of records."""
        return (
            self.stored.counts[self.label] if self.form is None else self.stored.units[self.label]
        )

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield records, (m, *point_shape)."""
        for chunk in self.stored.chunks(self.label):
            yield chunk.records(self.form)
