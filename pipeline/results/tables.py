"""Tables on disk: the columns with their units and meanings, and their way to Parquet and back.

In: a mapping of column name to values. Out: a Parquet file that is whole or absent, whose fields
carry unit and meaning. Next on the path: `pipeline.results.rows`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.errors import ConfigError, OutputError
from pipeline.files import atomic_path, make_folder

STATUSES = (
    "ok",
    "undefined",
    "not representable",
    "data not available",
    "held back",
    "no release",
)
"""What became of a row: a number, no density at that scale, no float for it, no images, nothing
released yet, or a pass over images that releases nothing."""

Table: TypeAlias = dict[str, NDArray[Any]]
"""Columns of one length by name: text as objects, a missing number as NaN, missing text as ""."""


class Field(NamedTuple):
    """One column: Arrow type, unit, meaning, whether it may be left out, and what then stands."""

    type: str
    unit: str
    meaning: str
    optional: bool = False
    left_out: float = np.nan


SCHEMA: Mapping[str, Field] = {
    "experiment": Field("text", "", "name of the experiment"),
    "dataset": Field("text", "", "name of the dataset"),
    "label": Field("int32", "", "label of the class, its index in the dataset"),
    "class_name": Field("text", "", "name of the class"),
    "n": Field("int64", "records", "records in the class; public"),
    "manifold": Field("text", "", "manifold that measures the error"),
    "dim": Field("int32", "", "dimension d of the manifold", True),
    "descriptor": Field("text", "", "covariance descriptor of an image"),
    "mechanism": Field("text", "", "mechanism that adds the noise"),
    "series": Field("text", "", "the curve a row belongs to, as a legend prints it"),
    "sampler": Field("text", "", "how the noise was drawn: exact, or a Markov chain"),
    "definition": Field("text", "", "definition of privacy the budget is counted in"),
    "budget": Field("float64", "", "total budget: ε, μ, ρ or θ of the definition"),
    "delta": Field("float64", "", "δ of approximate differential privacy", True),
    "alpha": Field("float64", "", "order α of Rényi differential privacy", True),
    "tau": Field("float64", "", "τ of mean concentrated differential privacy", True),
    "sensitivity": Field("float64", "distance", "sensitivity Δ of the mean, replace-one"),
    "sigma": Field("float64", "distance", "scale σ of the noise on the mean", True),
    "footpoint": Field("text", "", "where the base of the tangent space came from"),
    "night": Field("int32", "nights", "number of the night, 0 where none are counted", True, 0),
    "repetition": Field("int32", "", "number of the repetition, from 0"),
    "seed": Field("uint64", "", "seed of the row's random stream, shared by its repetitions"),
    "error": Field(
        "float64",
        "distance",
        "nonprivate: from the private to the true mean; of tests, between both; of "
        "classifiers, root mean square over the classes",
        True,
    ),
    "distance": Field("text", "", "in which distance the error is measured", True),
    "expected_error": Field("float64", "distance", "exact expectation of the error", True),
    "acceptance": Field("float64", "", "share of the proposals accepted, 1 if none is", True),
    "radius": Field("float64", "distance", "radius of the region of 95 %", True),
    "reach": Field("float64", "", "nonprivate: least level whose region holds the true mean", True),
    "offered": Field(
        "float64", "", "1 where a region is offered, of each release; 0 where not", True
    ),
    "p_value": Field("float64", "", "p-value of the test of two releases", True),
    "rejected": Field("float64", "", "1 where it is 0.05 or less, 0 where it is not", True),
    "auc": Field("float64", "", "nonprivate: area under the ROC curve, mean of all classes", True),
    "balanced": Field("float64", "", "nonprivate: mean of the shares of each class found", True),
    "auc_plain": Field("float64", "", "nonprivate: area of the same classifier, no noise", True),
    "balanced_plain": Field("float64", "", "nonprivate: balanced accuracy without noise", True),
    "status": Field("text", "", "one of: " + ", ".join(STATUSES)),
    "seconds": Field("float64", "s", "wall-clock time of the row's draw, or pass", True),
    "memory": Field("float64", "MB", "most memory so far, above an idle interpreter", True),
    "version": Field("text", "", "version of covdp"),
}
"""The columns of ``results/*.parquet``, in order."""

BOUND_SCHEMA: Mapping[str, Field] = {
    "label": Field("int32", "", "label of the class, its index in the dataset"),
    "class_name": Field("text", "", "name of the class"),
    "n": Field("int64", "images", "records in the class; public"),
    "largest_norm": Field(
        "float64", "distance", "nonprivate: largest distance of R to Id; ‖log R‖_F"
    ),
    "radius": Field("float64", "distance", "proven radius r of the domain around Id"),
    "ratio": Field("float64", "", "nonprivate: largest_norm / radius, at most 1"),
    "diameter": Field("float64", "distance", "proven diameter D of the domain"),
    "least_eigenvalue": Field("float64", "", "nonprivate: least eigenvalue of R in the class"),
    "largest_trace": Field("float64", "", "nonprivate: largest trace of R in the class"),
    "ok": Field("bool", "", "whether the bound holds on every image of the class"),
}
"""The columns of ``runs/<run>/bound.parquet``, in order."""


def to_arrow(columns: Mapping[str, ArrayLike], schema: Mapping[str, Field]) -> Any:
    """Build an Arrow table that follows `schema`; single values are repeated for all rows."""
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
    arrays, fields = [], []
    for name, field in schema.items():
        kind = pa.dictionary(pa.int32(), pa.string()) if field.type == "text" else field.type
        note = {"unit": field.unit, "meaning": field.meaning}
        fields.append(pa.field(name, kind, nullable=field.optional, metadata=note))
        missing: ArrayLike = "" if field.type == "text" else field.left_out
        arrays.append(_array(columns.get(name, missing), n, fields[-1], name))
    return pa.table(arrays, schema=pa.schema(fields))


def _array(column: ArrayLike, n: int, field: Any, name: str) -> Any:
    """Return one Arrow array of length `n`, NaN as null."""
    import pyarrow as pa

    text = pa.types.is_dictionary(field.type)
    kind = pa.string() if text else field.type
    values = np.asarray(column, dtype=object if text else None)
    values = values if values.ndim else np.full(min(n, 1), values)
    try:
        array = pa.array(values, type=kind, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise ConfigError(f"column {name!r} must hold {kind}: {error}") from error
    if array.null_count and not field.nullable:
        raise ConfigError(f"column {name!r} must have a value in every row")
    array = array.dictionary_encode().cast(field.type) if text else array
    return array if len(array) == n else array.take(pa.array(np.zeros(n, dtype=np.int64)))


def write_arrow(path: Path, table: Any, metadata: Mapping[str, str]) -> Path:
    """Write an Arrow table to `path` with `metadata`, whole or not at all."""
    import pyarrow.parquet as pq

    make_folder(path.parent)
    with atomic_path(path) as temporary:
        pq.write_table(table.replace_schema_metadata(dict(metadata)), temporary, compression="zstd")
    return path


def write_part(path: Path, table: Any) -> Path:
    """Write an Arrow table to `path` in Arrow's own format, three times as fast as Parquet."""
    import pyarrow as pa

    make_folder(path.parent)
    with atomic_path(path) as temporary, pa.ipc.new_file(str(temporary), table.schema) as sink:
        sink.write_table(table)
    return path


def read_part(path: Path) -> Any:
    """Return the Arrow table that `write_part` wrote to `path`."""
    import pyarrow as pa

    try:
        with pa.ipc.open_file(str(path)) as source:
            return source.read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise OutputError(f"cannot read {path} ({error}); delete it and run again") from error


def read_arrow(path: Path) -> Any:
    """Return the Arrow table in `path`; raise `OutputError` when it is missing or damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path).read().unify_dictionaries()
    except (OSError, pa.ArrowInvalid) as error:
        raise OutputError(
            f"cannot read {path} as Parquet ({error}); run the experiment again"
        ) from error


def read_table(path: Path, schema: Mapping[str, Field]) -> Table:
    """Return the columns of `schema` from the file `path`, each of shape (n,).

    A column that may be left out may be missing: an older version did not have it.
    """
    table = read_arrow(path)
    absent = {name for name in schema if name not in table.column_names}
    if missing := [name for name in schema if name in absent and not schema[name].optional]:
        raise OutputError(f"{path} lacks the columns {missing}; it was not written by covdp")
    return {
        name: _left_out(field, table.num_rows) if name in absent else _numpy(table.column(name))
        for name, field in schema.items()
    }


def _left_out(field: Field, n: int) -> NDArray[Any]:
    return np.full(n, "", object) if field.type == "text" else np.full(n, field.left_out)


def _numpy(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    if not isinstance(array, pa.DictionaryArray):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    words = np.array(array.dictionary.to_pylist(), dtype=object)
    column_of_words: NDArray[Any] = words[array.indices.to_numpy()]
    return column_of_words
