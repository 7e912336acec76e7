"""The released means as Parquet: one row a class, private values and public facts only."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.results.tables import Field, write_arrow

RELEASE_SCHEMA: Mapping[str, Field] = {
    "label": Field("int32", "", "label of the class; public"),
    "class_name": Field("string", "", "name of the class; public"),
    "n": Field("int64", "records", "images or persons of the class, as the statement says; public"),
    "point": Field("list<list<float64>>", "", "private mean descriptor, (k, k), row by row"),
    "coordinates": Field(
        "list<float64>", "", "the same in the manifold's chart at the identity, as it was released"
    ),
    "predicted_error": Field(
        "float64",
        "distance",
        "how far the true mean may be, root mean square, from private and public values",
        True,
    ),
    "observed": Field(
        "string",
        "",
        "JSON: the mean before it was shrunk, its noise and the second moment, all noised, or "
        "functions of what is; what regions, tests and classifiers are made of",
        True,
    ),
    "mu": Field("float64", "", "what this class cost, as Gaussian DP: idealised", True),
    "rho": Field("float64", "", "what this class cost, as certified zero-concentrated DP", True),
}
"""The columns of a release, in order: the same for all of them, so that they can be stacked."""

NIGHT_SCHEMA: Mapping[str, Field] = {
    **RELEASE_SCHEMA,
    "point": RELEASE_SCHEMA["point"]._replace(
        meaning="private mean descriptor of all units so far, (k, k), row by row", optional=True
    ),
    "coordinates": RELEASE_SCHEMA["coordinates"]._replace(optional=True),
    "n_tonight": Field("int64", "records", "images or persons that entered this night; public"),
    "n_so_far": Field("int64", "records", "images or persons up to this night; public"),
    "sigma": Field("float64", "", "standard deviation of the noise of w; public"),
    "w": Field("list<float64>", "", "weighted sum of the clipped vectors of all nights", True),
}
"""The columns of a night of a stream: the same for all nights."""


def write_release(document: Mapping[str, Any], path: Path) -> Path:
    """Write a released document as Parquet, its statement and settings in the file's metadata.

    It has ``classes`` (one mapping a class), ``statement`` and ``settings``.
    """
    import pyarrow as pa

    kinds: dict[str, Any] = {
        "list<list<float64>>": pa.list_(pa.list_(pa.float64())),
        "list<float64>": pa.list_(pa.float64()),
    }
    fields, arrays = [], []
    for name, field in (NIGHT_SCHEMA if "night" in document else RELEASE_SCHEMA).items():
        note = {"unit": field.unit, "meaning": field.meaning}
        kind = kinds.get(field.type, field.type)
        cells = [row.get(name) if field.optional else row[name] for row in document["classes"]]
        arrays.append(pa.array([_text(cell) for cell in cells], kind))
        fields.append(pa.field(name, arrays[-1].type, nullable=field.optional, metadata=note))
    rest = {key: json.dumps(document[key]) for key in document if key != "classes"}
    return write_arrow(path, pa.table(arrays, schema=pa.schema(fields)), rest)


def _text(value: Any) -> Any:
    """Return a value as it stands in a cell: what has parts with names, as JSON."""
    return json.dumps(value) if isinstance(value, Mapping) else value
