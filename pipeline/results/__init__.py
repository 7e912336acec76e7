"""Results on disk: tables whose columns carry unit and meaning, and the record of a run.

    tables  the schemas, the way of a table to Parquet and back, and means of its groups
    record  what was run: run.json

Everything in a table of rows or of bounds was compared with the private data: it is *nonprivate*,
and belongs to experiments on public images, never to a release.
"""

from pipeline.results.record import (
    ClassCount,
    DatasetNote,
    RunRecord,
    collect_versions,
    machine,
    read_record,
    write_record,
)
from pipeline.results.tables import (
    BOUND_SCHEMA,
    SCHEMA,
    STATUSES,
    Field,
    RowWriter,
    Table,
    read_bound,
    read_metadata,
    read_rows,
    summarise,
    unique,
    write_bound,
    write_release,
    write_rows,
)

__all__ = [
    "BOUND_SCHEMA",
    "SCHEMA",
    "STATUSES",
    "ClassCount",
    "DatasetNote",
    "Field",
    "RowWriter",
    "RunRecord",
    "Table",
    "collect_versions",
    "machine",
    "read_bound",
    "read_metadata",
    "read_record",
    "read_rows",
    "summarise",
    "unique",
    "write_bound",
    "write_record",
    "write_release",
    "write_rows",
]
