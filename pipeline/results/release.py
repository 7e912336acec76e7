"""The released means as Parquet: one row a class, private values and public facts only."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.results.tables import write_arrow

RELEASE_SCHEMA: Mapping[str, tuple[str, str, str]] = {
    "label": ("int32", "", "label of the class; public"),
    "class_name": ("string", "", "name of the class; public"),
    "n": ("int64", "images", "images of the class; public"),
    "point": ("list<list<float64>>", "", "private mean descriptor, (k, k), row by row"),
    "predicted_error": (
        "float64",
        "distance",
        "how far the true mean may be, root mean square, from private and public values",
    ),
    "mu": ("float64", "", "what this class cost, as Gaussian DP: idealised"),
    "rho": ("float64", "", "what this class cost, as certified zero-concentrated DP"),
}
"""Column → type, unit, meaning."""


def write_release(document: Mapping[str, Any], path: Path) -> Path:
    """Write a released document as Parquet, its statement and settings in the file's metadata.

    Parameters
    ----------
    document : mapping
        What the ledger committed: ``classes`` (one mapping a class), ``statement``, ``settings``.
    path : Path
        The Parquet file.
    """
    import pyarrow as pa

    kinds = {"list<list<float64>>": pa.list_(pa.list_(pa.float64()))}
    fields, arrays = [], []
    for name, (kind, unit, meaning) in RELEASE_SCHEMA.items():
        note = {"unit": unit, "meaning": meaning}
        column = pa.array([row[name] for row in document["classes"]], kinds.get(kind, kind))
        fields.append(pa.field(name, column.type, nullable=column.null_count > 0, metadata=note))
        arrays.append(column)
    rest = {key: json.dumps(document[key]) for key in document if key != "classes"}
    return write_arrow(path, pa.table(arrays, schema=pa.schema(fields)), rest)
