"""Tables on disk: their way to Parquet and back; ``columns.toml`` says what their columns are.

In: a mapping of column name to values. Out: a Parquet file that is whole or absent, whose fields
carry meaning and unit of measurement:

    results/<run>.parquet      the rows of an experiment, in one go or cell by cell (`RowWriter`)
    runs/<run>/bound.parquet   the bound on its descriptors
    audit/audit.parquet        what every mechanism leaks at least, beside what it may leak at most;
                               no private data: an audit draws from pairs of made-up data sets
    release/*.parquet          one row a class, private values and public facts only

`summarise` makes the numbers of rows that are drawn and judged: means and standard errors per
group.
"""

import hashlib
import io
import json
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from covdp.errors import ConfigError, OutputError
from covdp.files import atomic_path, make_folder, write_whole

STATUSES = ("ok", "undefined", "not representable", "data not available", "held back", "no release")
"""Status of a row: a number, no density at that scale, no float for it, no images, nothing released
yet, or a pass over images that releases nothing."""

Table: TypeAlias = dict[str, NDArray[Any]]
"""Columns of one length by name: text as objects, a missing number as NaN, missing text as ""."""


class Field(NamedTuple):
    """One column: Arrow type, unit of measurement, and meaning.

    An `optional` one may be left out; `left_out` then stands in its place.

    Attributes
    ----------
    type : str
        Type in Arrow.
    unit : str
        Unit of measurement.
    meaning : str
        Meaning in a sentence.
    optional : bool
        True if the column may be left out.
    left_out : float
        Value in place of a column that is left out.
    """

    type: str
    unit: str = ""
    meaning: str = ""
    optional: bool = False
    left_out: float = np.nan


_COLUMNS = tomllib.loads(Path(__file__).with_name("columns.toml").read_text(encoding="utf-8"))


def _schema(*tables: str) -> Mapping[str, Field]:
    """Return the columns of tables of ``columns.toml``, in order; later ones change earlier."""
    columns = dict[str, dict[str, Any]]()
    for table in tables:
        for name, fields in _COLUMNS[table].items():
            columns[name] = {**columns.get(name, {}), **fields}
    return {name: Field(**fields) for name, fields in columns.items()}


SCHEMA = _schema("rows")
"""The columns of ``results/*.parquet``, in order."""
BOUND_SCHEMA = _schema("bound")
"""The columns of ``runs/<run>/bound.parquet``, in order."""
AUDIT_SCHEMA = _schema("audit")
"""The columns of ``audit/audit.parquet``, in order."""
RELEASE_SCHEMA = _schema("release")
"""The columns of a release, in order: the same for all of them, so that they can be stacked."""
NIGHT_SCHEMA = _schema("release", "night")
"""The columns of a night of a stream: the same for all nights."""


def to_arrow(columns: Mapping[str, ArrayLike], schema: Mapping[str, Field]) -> Any:
    """Build an Arrow table that follows `schema`; single values are repeated for all rows.

    Parameters
    ----------
    columns : mapping of str to array-like
        Columns by name, shape (n,), or one value for all rows.
    schema : mapping of str to Field
        Fields by the name of their column.

    Returns
    -------
    pyarrow.Table
        Table with the columns of `schema`.
    """
    import pyarrow as pa

    lacking = [name for name, field in schema.items() if not field.optional and name not in columns]
    unknown = [name for name in columns if name not in schema]
    if columns and (lacking or unknown):
        raise ConfigError(
            f"the columns must follow the schema: missing {lacking}, unknown {unknown}"
        )
    lengths = {len(np.asarray(column)) for column in columns.values() if np.ndim(column)}
    if len(lengths) > 1 or any(np.ndim(column) > 1 for column in columns.values()):
        raise ConfigError(f"all columns must have one length, found {sorted(lengths)}")
    n = lengths.pop() if lengths else int(bool(columns))
    fields = _arrow_schema(schema)
    filled = {name: columns.get(name, _left_out(field)) for name, field in schema.items()}
    return pa.table([_array(filled[field.name], n, field) for field in fields], schema=fields)


def _arrow_schema(schema: Mapping[str, Field]) -> Any:
    """Return the columns as Arrow has them, with their units of measurement and meanings."""
    import pyarrow as pa

    numbers = pa.list_(pa.float64())
    kinds: dict[str, Any] = {
        "text": pa.dictionary(pa.int32(), pa.string()),
        "list<float64>": numbers,
        "list<list<float64>>": pa.list_(numbers),
    }
    fields = []
    for name, field in schema.items():
        note = {"unit": field.unit, "meaning": field.meaning}
        kind = kinds.get(field.type, field.type)
        fields.append(pa.field(name, kind, nullable=field.optional, metadata=note))
    return pa.schema(fields)


def _array(column: ArrayLike, n: int, field: Any) -> Any:
    """Return one Arrow array of length `n`, NaN as null; of arrays Arrow would ask pandas."""
    import pyarrow as pa

    name, kind = field.name, field.type
    if pa.types.is_dictionary(kind):
        return _texts(np.broadcast_to(np.asarray(column, object), n).tolist(), name)
    full = np.broadcast_to(np.asarray(column), n)
    missing = full != full  # NaN alone
    if missing.any() and not field.nullable:
        raise ConfigError(f"column {name!r} must have a value in every row")
    try:
        values = np.where(missing, 0, full).astype(_dtype(kind))
        fitting = np.array_equal(values[~missing], full[~missing])
    except (OverflowError, TypeError, ValueError):
        fitting = False
    if not fitting:
        raise ConfigError(f"column {name!r} must hold {kind}, found {full[:3].tolist()}")
    bits = [np.packbits(~missing, bitorder="little") if missing.any() else None]
    bits.append(np.packbits(values, bitorder="little") if values.dtype == bool else values)
    buffers = [part if part is None else pa.py_buffer(part) for part in bits]
    return pa.Array.from_buffers(kind, n, buffers)


def _texts(values: list[Any], name: str) -> Any:
    """Return texts as an Arrow array of numbers of the distinct ones."""
    import pyarrow as pa

    if wrong := [value for value in values if not isinstance(value, str)]:
        raise ConfigError(f"column {name!r} must hold string, found {wrong[:3]}")
    number = {text: i for i, text in enumerate(dict.fromkeys(values))}
    encoded = [text.encode() for text in number]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    rows = np.array([number[value] for value in values], np.int32)
    texts = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.DictionaryArray.from_arrays(
        pa.Array.from_buffers(pa.int32(), len(rows), [None, pa.py_buffer(rows)]),
        pa.Array.from_buffers(pa.string(), len(encoded), texts),
    )


def write_arrow(path: Path, table: Any, metadata: Mapping[str, str]) -> Path:
    """Write an Arrow table to `path` with `metadata`, whole or not at all.

    Parameters
    ----------
    path : Path
        Path of the file.
    table : pyarrow.Table
        Table to write.
    metadata : mapping of str to str
        Texts by name, for the file's metadata.

    Returns
    -------
    Path
        The path.
    """
    import pyarrow.parquet as pq

    make_folder(path.parent)
    with atomic_path(path) as temporary:
        pq.write_table(table.replace_schema_metadata(dict(metadata)), temporary, compression="zstd")
    return path


def _read(path: Path, part: Callable[[Any], Any]) -> Any:
    """Return a part of a Parquet file; raise `OutputError` when it is missing or damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return part(pq.ParquetFile(path))
    except (OSError, pa.ArrowInvalid) as error:
        raise OutputError(
            f"cannot read {path} as Parquet ({error}); run the experiment again"
        ) from error


def read_table(path: Path, schema: Mapping[str, Field]) -> Table:
    """Return the columns of `schema` from the file `path`, each of shape (n,).

    A column that may be left out may be missing: an older version did not have it.

    Parameters
    ----------
    path : Path
        Path of the file.
    schema : mapping of str to Field
        Fields by the name of their column.
    """
    table = _read(path, lambda file: file.read().unify_dictionaries())
    absent = schema.keys() - set(table.column_names)
    if missing := [name for name in schema if name in absent and not schema[name].optional]:
        raise OutputError(f"{path} lacks the columns {missing}; it was not written by covdp")
    filled = [name for name in schema if name not in absent and schema[name].type != "text"]
    if wrong := [name for name in filled if not _is_number(table.schema.field(name).type)]:
        raise OutputError(f"{path} has no numbers in {wrong}; it was not written by covdp")
    return {
        name: np.full(table.num_rows, _left_out(field))
        if name in absent
        else _numpy(table.column(name))
        for name, field in schema.items()
    }


def _is_number(kind: Any) -> bool:
    """Tell whether a type of Arrow is of numbers; those of dates are primitive as well."""
    import pyarrow as pa

    return bool(pa.types.is_primitive(kind) and not pa.types.is_temporal(kind))


def _left_out(field: Field | None) -> str | float:
    """Return what stands in the place of a column that is left out."""
    return field.left_out if field and field.type != "text" else ""


def _numpy(column: Any) -> NDArray[Any]:
    """Return a column, a missing number as NaN."""
    import pyarrow as pa

    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    if not isinstance(array, pa.DictionaryArray):
        numbers = _is_number(array.type)
        return _from_buffers(array) if numbers else np.array(array.to_pylist(), object)
    words = np.array(array.dictionary.to_pylist(), dtype=object)
    return np.asarray(words[_from_buffers(array.indices)])


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return the NumPy type of a type of Arrow, which would ask pandas in its older versions."""
    return np.dtype({"float": "float32", "halffloat": "float16"}.get(str(kind), str(kind)))


def _from_buffers(array: Any) -> NDArray[Any]:
    """Return the numbers of an Arrow array, without Arrow's own way, which imports pandas."""
    kind, rows = _dtype(array.type), slice(array.offset, None)

    def bits(buffer: Any) -> NDArray[np.bool_]:
        flags = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
        return flags[rows][: len(array)].astype(bool)

    valid, content = array.buffers()
    values = bits(content) if kind.kind == "b" else np.frombuffer(content, kind)[rows][: len(array)]
    return np.where(bits(valid), values, np.nan) if array.null_count else values


def write_rows(
    path: Path, columns: Mapping[str, ArrayLike], *, metadata: Mapping[str, str]
) -> Path:
    """Write a table of results in one go, whole or not at all.

    Parameters
    ----------
    path : Path
        The Parquet file; its folder is made.
    columns : mapping of str to array-like
        Columns of `SCHEMA`, shape (n,), or one value for all rows. Optional ones may be absent;
        NaN is written as missing.
    metadata : mapping of str to str
        Texts to store in the file beside the schema, see `read_metadata`.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    ConfigError
        When the columns do not follow the schema, or ``status`` is "ok" on a row without a finite
        error, or not "ok" on a row with one.
    OutputError
        When the file cannot be written.
    """
    table = to_arrow(columns, SCHEMA)
    status = np.asarray(columns.get("status", []), dtype=object)
    if unknown := set(np.atleast_1d(status)) - set(STATUSES):
        raise ConfigError(f"status must be one of {STATUSES}, found {sorted(map(str, unknown))}")
    finite = np.isfinite(np.asarray(columns.get("error", np.nan), dtype=np.float64))
    if np.any((status == "ok") != finite):
        raise ConfigError('a row must have a finite error if and only if its status is "ok"')
    return write_arrow(path, table, metadata)


def read_rows(path: Path) -> Table:
    """Return the columns of a table of results, each of shape (n,).

    In version 0.3 and before, what is ``region_radius`` was called ``radius``.

    Parameters
    ----------
    path : Path
        Path of the file.
    """
    rows = read_table(path, SCHEMA)
    names = _read(path, lambda file: file.schema_arrow.names)
    if "radius" in names and "region_radius" not in names:
        before = {"radius": SCHEMA["region_radius"]}
        rows["region_radius"] = read_table(path, before)["radius"]
    return rows


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata a table was written with.

    Parameters
    ----------
    path : Path
        Path of the file.
    """
    stored = _read(path, lambda file: file.schema_arrow.metadata) or {}
    return {key.decode(): value.decode() for key, value in stored.items()}


def write_bound(path: Path, bounds: Sequence[Any], words: str = "") -> Path:
    """Write what `covdp.descriptors.bounds` returns, one row a class, columns `BOUND_SCHEMA`.

    `words` say how the bound is computed; they stand in the file's metadata as ``bound``.

    Parameters
    ----------
    path : Path
        Path of the file.
    bounds : sequence of object
        Bounds of the classes, as `covdp.descriptors.bounds` returns them.
    words : str
        Formula of the bound, for the metadata.

    Returns
    -------
    Path
        The path.

    Raises
    ------
    OutputError
        When the file cannot be written.
    """
    columns = {name: [getattr(bound, name) for bound in bounds] for name in BOUND_SCHEMA}
    return write_arrow(path, to_arrow(columns, BOUND_SCHEMA), {"bound": words})


def read_bound(path: Path) -> Table:
    """Return the columns of a table of bounds, each of shape (classes,).

    Parameters
    ----------
    path : Path
        Path of the file.
    """
    return read_table(path, BOUND_SCHEMA)


@dataclass(frozen=True)
class RowWriter:
    """A table of results that is written cell by cell and survives an interruption.

    A cell is any part of the work that is computed in one go. Each is one small file, complete the
    moment it exists, in a folder beside `path`; `finish` joins them in the order of `cells`, so
    the table does not depend on when, or how often, the work was interrupted. The name of the
    folder holds a fingerprint of `cells` and `metadata`: a changed configuration starts afresh.

    Attributes
    ----------
    path : Path
        The Parquet file that exists in the end.
    cells : sequence of str
        The distinct names of all cells, in the order of the table.
    metadata : mapping of str to str
        Settings that the rows depend on (configuration, seed, version): stored in the file.

    Notes
    -----
    ``for cell in writer.pending(): writer.write(cell, compute(cell))``, then ``writer.finish()``.
    """

    path: Path
    cells: Sequence[str]
    metadata: Mapping[str, str]

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that decides the content of the table."""
        text = json.dumps([list(self.cells), dict(self.metadata)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def parts(self) -> Path:
        """Folder of the finished cells."""
        return self.path.parent / f".{self.path.stem}.{self.fingerprint}.parts"

    def complete(self) -> bool:
        """Return True if the whole table of this very configuration is on disk."""
        if not self.path.is_file():
            return False
        return read_metadata(self.path).get("fingerprint") == self.fingerprint

    def pending(self) -> tuple[str, ...]:
        """Return the cells that are still to be computed, in order."""
        if self.complete():
            return ()
        return tuple(cell for cell in self.cells if not _is_whole(self._part(cell)))

    def write(self, cell: str, columns: Mapping[str, ArrayLike]) -> Path:
        """Write one finished cell, whole or not at all; columns as in `write_rows`.

        Parameters
        ----------
        cell : str
            Name of the cell, and of its file.
        columns : mapping of str to array-like
            Columns by name, as in `write_rows`.

        Returns
        -------
        Path
            Path of the cell's file.
        """
        if cell not in self.cells:
            raise ConfigError(f"cell {cell!r} is not among the {len(self.cells)} of {self.path}")
        make_folder(self.parts)
        text = json.dumps({name: np.asarray(column).tolist() for name, column in columns.items()})
        return write_whole(self._part(cell), text, durable=False)

    def finish(self) -> Path:
        """Join all cells into `path` and remove the parts; raise `OutputError` if one lacks.

        Returns
        -------
        Path
            The path of the table.
        """
        if not self.complete():
            if missing := self.pending():
                raise OutputError(
                    f"{self.path} is not finished: {len(missing)} of {len(self.cells)} cells are "
                    f"missing, the first is {missing[0]!r}; run again to compute them"
                )
            rows = _joined([_read_part(self._part(cell)) for cell in self.cells])
            metadata = {**self.metadata, "fingerprint": self.fingerprint}
            write_rows(self.path, rows, metadata=metadata)
        for folder in self.path.parent.glob(f".{self.path.stem}.*.parts"):
            shutil.rmtree(folder, ignore_errors=True)
        return self.path

    def _part(self, cell: str) -> Path:
        digest = hashlib.sha256(cell.encode()).hexdigest()[:24]
        return self.parts / f"{digest}.json"


def _is_whole(path: Path) -> bool:
    """Tell whether a finished cell is there; a power cut may have left it empty."""
    return path.is_file() and path.stat().st_size > 0


def _read_part(path: Path) -> dict[str, Any]:
    """Return the columns of a finished cell."""
    try:
        columns: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot read {path} ({error}); delete it and run again") from error
    return columns


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns of cells one below the other; what some have not, the others left out."""
    sizes = [next((len(x) for x in part.values() if isinstance(x, list)), 1) for part in parts]
    joined = dict[str, NDArray[Any]]()
    for name in dict.fromkeys(name for part in parts for name in part):
        left_out, values = _left_out(SCHEMA.get(name)), list[Any]()
        for part, size in zip(parts, sizes, strict=True):
            value = part.get(name, left_out)
            values += value if isinstance(value, list) else [value] * size
        joined[name] = np.array(values, object)  # seeds have 64 bits
    return joined


def write_release(
    rows: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any], path: Path
) -> Path:
    """Write what was released of each class as Parquet, all else in the file's metadata.

    Rows go to Arrow as JSON: of Python's lists it asks pandas, whose import takes 0.4 s. They take
    its schema on as it is: a cast would import all functions of Arrow.

    Parameters
    ----------
    rows : sequence of mapping of str to object
        Values of each class, by column.
    metadata : mapping of str to object
        Values by name, for the file's metadata.
    path : Path
        Path of the file.

    Returns
    -------
    Path
        The path.
    """
    import pyarrow as pa
    import pyarrow.json

    schema = _arrow_schema(NIGHT_SCHEMA if "night" in metadata else RELEASE_SCHEMA)
    cells = ({name: _text(row.get(name)) for name in schema.names} for row in rows)
    lines = "\n".join(["", *map(json.dumps, cells), ""]).encode()
    table = pyarrow.json.read_json(
        io.BytesIO(lines),
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        pyarrow.json.ParseOptions(explicit_schema=schema),  # refuses a value that is missing
    )
    texts = {key: json.dumps(value) for key, value in metadata.items()}
    return write_arrow(path, pa.Table.from_arrays(table.columns, schema=schema), texts)


def _text(value: Any) -> Any:
    """Return a value as it stands in a cell: what has parts with names, as JSON."""
    return json.dumps(value) if isinstance(value, Mapping) else value


GROUP = ("label", "series", "budget", "night")
"""Columns that tell one point of a curve, and one line of the table of numbers, from others; absent
columns do not tell anything apart."""


AVERAGED = (
    *("n", "dim", "sigma", "expected_error", "expected_square"),
    *("footpoint_share", "footpoint_distance", "error_bound"),
)
"""Columns of numbers whose means stand beside that of a value."""


def summarise(rows: Table, *, value: str = "error") -> Table:
    """Return mean and spread of `value` over the rows that agree in all columns of `GROUP`.

    Parameters
    ----------
    rows : Table
        Rows as `read_rows` returns it. Only rows with a number in `value` enter the means.
    value : str
        The column that is averaged.

    Returns
    -------
    Table
        One row a group, in the order of appearance of its values: every text column and every
        column of `GROUP` with the group's first value, and ``count`` (values averaged), ``mean``,
        ``sd`` (divisor count − 1), ``se`` = sd/√count, ``rows`` (rows of the group), and the means
        of `AVERAGED` where the table has them. NaN where one cannot be computed.
    """
    by = [name for name in GROUP if name in rows]
    group, first = _groups(rows, by)
    size = len(first)
    out = {name: rows[name][first] for name in rows if name in by or rows[name].dtype == object}
    values = np.asarray(rows[value], dtype=np.float64)
    count, mean = _mean(values, group, size)
    squares = _mean((values - mean[group]) ** 2, group, size)[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = np.sqrt(squares * count / np.where(count > 1, count - 1, np.nan))
        se = sd / np.sqrt(count)
    out |= {"count": count, "mean": mean, "sd": sd, "se": se}
    out["rows"] = np.bincount(group, minlength=size)
    for name in AVERAGED:
        if name in rows and name not in by:
            out[name] = _mean(np.asarray(rows[name], dtype=np.float64), group, size)[1]
    return out


def cells_of(rows: Table) -> list[NDArray[np.int64]]:
    """Return the rows of each cell, which agree in all columns of `GROUP`, as `summarise` has them.

    Cells are in the order of `summarise`, and the rows of each in their own.

    Parameters
    ----------
    rows : Table
        Columns of results, as `read_rows` returns them.
    """
    group, first = _groups(rows, [name for name in GROUP if name in rows])
    ends = np.cumsum(np.bincount(group, minlength=len(first)))
    return np.split(np.argsort(group, kind="stable"), ends[:-1])


def unique(column: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct values in order of appearance, and each row's index among them.

    Parameters
    ----------
    column : array, shape (n,)
        Column of a table.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp.results import unique
    >>> unique(np.array(["b", "a", "b"]))
    (['b', 'a'], array([0, 1, 0]))
    """
    values = column.tolist()
    index = {value: place for place, value in enumerate(dict.fromkeys(values))}
    codes = np.fromiter(map(index.__getitem__, values), np.int64, len(values))
    return list(index), codes


def _groups(rows: Table, by: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each row, and the first row of each group."""
    code = np.zeros(len(rows[by[0]]), dtype=np.int64)
    for name in by:
        values, codes = unique(rows[name])
        code = code * max(len(values), 1) + codes
    _, first, group = np.unique(code, return_index=True, return_inverse=True)
    return group, first


def _mean(
    values: NDArray[np.float64], group: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return how many finite values each group has, and their mean (NaN where there is none)."""
    good = np.isfinite(values)
    count = np.bincount(group[good], minlength=size)
    total = np.bincount(group[good], weights=values[good], minlength=size)
    with np.errstate(invalid="ignore"):
        return count, total / np.where(count > 0, count, np.nan)
