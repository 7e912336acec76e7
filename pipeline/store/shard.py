"""One shard as a file: Parquet, a group of rows for each class, its digest in its name.

Kept are, for each image, the lower triangle of its descriptor in doubles, exact, its unit, and a
digest of its pixels. These are d = k(k + 1)/2 numbers, as many as coordinates in a chart, and good
for every manifold: a logarithm is taken when it is read.
"""

import hashlib
import io
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import OutputError

DIGEST = 16
"""Bytes of a digest: of two among 10⁹ images the chance to be the same is 10⁻²¹."""
SUFFIX = ".parquet"


class Chunk(NamedTuple):
    """Some images of one class, in their order; all images of a unit are in one chunk.

    Attributes
    ----------
    points : (m, k, k) float64
        Their descriptors.
    units : (m,) int64
        Which unit of the class each belongs to.
    digests : (m, 16) uint8
        Of their pixels, and of their masks if there are any.
    """

    points: FloatArray
    units: NDArray[np.int64]
    digests: NDArray[np.uint8]

    def __repr__(self) -> str:
        """Show no value."""
        return f"Chunk(m={len(self.points)}, …)"


def columns_of(k: int) -> list[str]:
    """Return the names of the columns that hold a lower triangle, row by row."""
    return [f"R_{a + 1}_{b + 1}" for a, b in zip(*np.tril_indices(k), strict=True)]


def encode(labels: NDArray[Any], chunk: Chunk) -> bytes:
    """Return the file of a shard; its rows are grouped by class and keep their order within."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    k = chunk.points.shape[-1]
    lower = chunk.points[:, *np.tril_indices(k)]
    order = np.argsort(labels, kind="stable")
    schema = pa.schema(
        [("label", pa.int32()), ("unit", pa.int64()), ("digest", pa.binary(DIGEST))]
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
    """Return one class of a shard; raise `OutputError` when the file is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        table = file.read_row_group(group, ["unit", "digest", *columns_of(k)])
    except (OSError, pa.ArrowException):
        table = None
    if table is None:  # outside the handler: what a reader says of a private file stays there
        raise OutputError("a shard was damaged since the pass over the images; run again")
    table = table.combine_chunks()
    points = np.empty((table.num_rows, k, k))
    for name, a, b in zip(columns_of(k), *np.tril_indices(k), strict=True):
        points[:, a, b] = points[:, b, a] = _column(table, name, np.float64)
    digests = _column(table, "digest", np.uint8, DIGEST).reshape(-1, DIGEST)
    return Chunk(points, _column(table, "unit", np.int64), digests)


def _column(table: Any, name: str, kind: type, width: int = 1) -> NDArray[Any]:
    """Return a column of `width` numbers a row, from its buffer, as `encode` wrote it."""
    array = table.column(name).chunk(0)
    start = width * np.dtype(kind).itemsize * array.offset
    return np.frombuffer(array.buffers()[1], kind, width * len(array), start)


def name_of(key: str, content: bytes) -> str:
    """Return the name of a shard: what it is made from, and what it holds."""
    return f"{key}.{hashlib.sha256(content).hexdigest()[: 2 * DIGEST]}{SUFFIX}"
