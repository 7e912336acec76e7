"""Some columns of a CSV or Parquet file, row by row, as text."""

import csv
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pipeline.datasets.doors import open_regular
from pipeline.datasets.sifting import Sift, tell
from pipeline.errors import DatasetError, ImageError

MANY = 1_000_000
"""Rows that any Parquet file may have; one of more has a byte or more for each."""
BATCH = 1 << 14
"""Rows that are unpacked at a time."""


def read_head(path: Path, count: int) -> tuple[list[str], list[list[str]]]:
    """Return the names of all columns, and the first rows as text."""
    with _readable(path) as stream:
        if path.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            with closing(pq.ParquetFile(stream)) as file:
                names = list(file.schema_arrow.names)
                batch = next(file.iter_batches(count), None)
            rows = [list(row.values()) for row in batch.to_pylist()] if batch else []
        else:
            with TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
                lines = (
                    line for line in csv.reader(text, strict=True) if any(map(str.strip, line))
                )
                names = [name.strip() for name in next(lines, [])]
                rows = list(islice(lines, count))
    return names, [[_text(value) for value in row] for row in rows if len(row) == len(names)]


def read_columns(
    path: Path, columns: Mapping[Any, str], sift: Sift | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield where each row is, and its values by the names in `columns`, without blanks around.

    Rows without any value are passed by.

    Parameters
    ----------
    path : Path
        The file: Parquet if its name ends in ``.parquet``, else CSV in UTF-8 with a line of names.
    columns : mapping
        From the names of the values to those of the file's columns.
    sift : Sift, optional
        Told of rows that lack a value; the first is raised otherwise.

    Raises
    ------
    DatasetError
        When the file cannot be read, has no such column or has it twice, or a row lacks a value.
    """
    rows = _parquet if path.suffix.lower() == ".parquet" else partial(_csv, sift=sift)
    with _readable(path) as stream:
        for where, row in rows(stream, path, list(columns.values())):
            values = dict(zip(columns, map(_text, row), strict=True))
            try:
                whole = _full(values, columns, where) if any(values.values()) else None
            except ImageError as error:
                tell(sift, where, error, listed=False)
                continue
            if whole is not None:
                yield where, whole


@contextmanager
def _readable(path: Path) -> Iterator[BinaryIO]:
    """Open a table; whatever a damaged one raises becomes one `DatasetError`."""
    try:
        with open_regular(path) as stream:
            yield stream
    except DatasetError:
        raise
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8; save it as CSV in UTF-8") from error
    except Exception as error:  # what a damaged file makes pyarrow raise is not foreseen
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise DatasetError(f"{path} is not a readable table ({said})") from error


def _csv(
    stream: BinaryIO, path: Path, columns: list[str], sift: Sift | None = None
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the rows of a CSV file; one with more or fewer values than names is refused."""
    with TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        lines = csv.reader(text, strict=True)
        names = next((line for line in lines if any(map(str.strip, line))), [])
        places = _places(columns, [name.strip() for name in names], path)
        for line in lines:
            if not any(map(str.strip, line)):
                continue
            where = f"{path}, line {lines.line_num}"
            if len(line) != len(names):
                error = ImageError(
                    f"{where}: a row must have {len(names)} values, found {len(line)}; put values "
                    "with commas in double quotes"
                )
                tell(sift, where, error, listed=False)
                continue
            yield where, [line[place] for place in places]


def _parquet(stream: BinaryIO, path: Path, columns: list[str]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the rows of a Parquet file."""
    import pyarrow.parquet as pq

    with closing(pq.ParquetFile(stream)) as file:
        _places(columns, file.schema_arrow.names, path)
        found, size = file.metadata.num_rows, path.stat().st_size
        if found > max(MANY, size):
            raise DatasetError(
                f"{path}: {found:,} rows are more than the file has bytes ({size:,}), so it "
                "unpacks to nothing but repeats; save a real table"
            )
        number = 0
        for batch in file.iter_batches(BATCH, columns=columns):
            values = [batch.column(name).to_pylist() for name in columns]
            for row in zip(*values, strict=True):
                number += 1
                yield f"{path}, row {number}", list(row)


def _places(columns: list[str], names: list[str], path: Path) -> list[int]:
    """Return where each column is among the names of the file's."""
    for column in columns:
        if (times := names.count(column)) != 1:
            held = ", ".join(map(repr, names[:9])) + (" and more" if len(names) > 9 else "")
            raise DatasetError(
                f"{path} must have one column '{column}', found {times}; it has "
                f"{held or 'none'}: correct columns in the card, or save it with commas"
            )
    return [names.index(column) for column in columns]


def _text(value: Any) -> str:
    """Return a value as CSV would have it; missing ones, and NaN, as nothing."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():  # what pandas makes of numbers with gaps
        value = int(value)
    return str(value).strip()


def _full(values: dict[str, str], columns: Mapping[str, str], where: str) -> dict[str, str]:
    for name, value in values.items():
        if not value or not value.isprintable():
            raise ImageError(
                f"{where}: column '{columns[name]}' must have a value on one line, found "
                f"{value!r}; correct it, or take the row out"
            )
    return values
