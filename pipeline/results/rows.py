"""The rows of an experiment: written in one go, or cell by cell to survive an interruption.

In: columns of numbers from the experiments. Out: ``results/<run>.parquet`` and
``runs/<run>/bound.parquet``. Next on the path: `pipeline.figures`.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pipeline.errors import ConfigError, OutputError
from pipeline.results.tables import (
    BOUND_SCHEMA,
    SCHEMA,
    STATUSES,
    Table,
    read_part,
    read_table,
    to_arrow,
    write_arrow,
    write_part,
)

_ATTRIBUTES = {"class_name": "name", "largest_norm": "largest"}
"""Where a column of the table of bounds is called otherwise than the attribute it holds."""


def write_rows(
    path: Path, columns: Mapping[str, ArrayLike], *, metadata: Mapping[str, str]
) -> Path:
    """Write a table of results in one go, whole or not at all.

    Parameters
    ----------
    path : Path
        The Parquet file; its folder is made.
    columns : mapping of column name to array (n,) or to one value for all rows
        The columns of `SCHEMA`. Optional ones may be absent; NaN is written as missing.
    metadata : mapping of text to text
        Kept in the file beside the schema, see `read_metadata`.

    Raises
    ------
    ConfigError
        When the columns do not follow the schema, or ``status`` is "ok" on a row without a finite
        error, or not "ok" on a row with one.
    OutputError
        When the file cannot be written.
    """
    return write_arrow(path, _rows_to_arrow(columns), metadata)


def read_rows(path: Path) -> Table:
    """Return the columns of a table of results, each of shape (n,)."""
    return read_table(path, SCHEMA)


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata a table was written with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowInvalid) as error:
        raise OutputError(
            f"cannot read {path} as Parquet ({error}); run the experiment again"
        ) from error
    return {key.decode(): value.decode() for key, value in stored.items()}


def write_bound(path: Path, bounds: Sequence[Any]) -> Path:
    """Write what `pipeline.descriptors.verify` returns, one row a class, columns `BOUND_SCHEMA`.

    Raises
    ------
    OutputError
        When the file cannot be written.
    """
    attributes = {name: _ATTRIBUTES.get(name, name) for name in BOUND_SCHEMA}
    columns = {
        column: [getattr(bound, attribute) for bound in bounds]
        for column, attribute in attributes.items()
    }
    return write_arrow(path, to_arrow(columns, BOUND_SCHEMA), {})


def read_bound(path: Path) -> Table:
    """Return the columns of a table of bounds, each of shape (classes,)."""
    return read_table(path, BOUND_SCHEMA)


@dataclass(frozen=True)
class RowWriter:
    """A table of results that is written cell by cell and survives an interruption.

    A cell is any part of the work that is computed in one go. Each is one small file, complete the
    moment it exists, in a folder beside `path`; `finish` joins them in the order of `cells`, so
    the table does not depend on when, or how often, the work was interrupted. The name of the
    folder holds a fingerprint of `cells` and `metadata`: a changed configuration starts afresh.

    Examples
    --------
    ``with RowWriter(path, cells, metadata) as writer:``
    ``    for cell in writer.pending(): writer.write(cell, compute(cell))``

    Attributes
    ----------
    path : Path
        The Parquet file that exists in the end.
    cells : sequence of str
        The distinct names of all cells, in the order of the table.
    metadata : mapping of text to text
        What the rows depend on (configuration, seed, version): kept in the file.
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
        """Tell whether the whole table of this very configuration is on disk."""
        if not self.path.is_file():
            return False
        return read_metadata(self.path).get("fingerprint") == self.fingerprint

    def pending(self) -> tuple[str, ...]:
        """Return the cells that are still to be computed, in order."""
        if self.complete():
            return ()
        return tuple(cell for cell in self.cells if not self._part(cell).is_file())

    def write(self, cell: str, columns: Mapping[str, ArrayLike]) -> Path:
        """Write one finished cell, whole or not at all; columns as in `write_rows`."""
        if cell not in self.cells:
            raise ConfigError(f"cell {cell!r} is not among the {len(self.cells)} of {self.path}")
        return write_part(self._part(cell), _rows_to_arrow(columns))

    def finish(self) -> Path:
        """Join all cells into `path` and remove the parts; raise `OutputError` if one lacks."""
        import pyarrow as pa

        if not self.complete():
            if missing := self.pending():
                raise OutputError(
                    f"{self.path} is not finished: {len(missing)} of {len(self.cells)} cells are "
                    f"missing, the first is {missing[0]!r}; run again to compute them"
                )
            tables = [read_part(self._part(cell)) for cell in self.cells]
            table = pa.concat_tables(tables) if tables else _rows_to_arrow({})
            metadata = {**self.metadata, "fingerprint": self.fingerprint}
            write_arrow(self.path, table.unify_dictionaries(), metadata)
        for folder in self.path.parent.glob(f".{self.path.stem}.*.parts"):
            shutil.rmtree(folder, ignore_errors=True)
        return self.path

    def _part(self, cell: str) -> Path:
        digest = hashlib.sha256(cell.encode()).hexdigest()[:24]
        return self.parts / f"{digest}.arrow"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish()


def _rows_to_arrow(columns: Mapping[str, ArrayLike]) -> Any:
    table = to_arrow(columns, SCHEMA)
    status = np.asarray(columns.get("status", []), dtype=object)
    unknown = set(np.atleast_1d(status)) - set(STATUSES)
    if unknown:
        raise ConfigError(f"status must be one of {STATUSES}, found {sorted(map(str, unknown))}")
    given = np.isfinite(np.asarray(columns.get("error", np.nan), dtype=np.float64))
    if np.any((status == "ok") != given):
        raise ConfigError('a row must have a finite error if and only if its status is "ok"')
    return table
