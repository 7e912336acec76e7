"""Tables and records survive the way to disk and back, and an interruption in between."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covdp.descriptors import Bound
from covdp.errors import ConfigError, OutputError
from covdp.results import (
    BOUND_SCHEMA,
    SCHEMA,
    STATUSES,
    ClassCount,
    DatasetNote,
    RowWriter,
    RunRecord,
    collect_versions,
    machine,
    read_bound,
    read_metadata,
    read_record,
    read_rows,
    write_bound,
    write_record,
    write_release,
    write_rows,
)


def columns(n: int = 4) -> dict[str, object]:
    """Return valid columns, text and numbers, single values and arrays."""
    return {
        "experiment": "trial",
        "dataset": "tiles",
        "label": np.arange(n) % 2,
        "class_name": np.array(["naïve <b>", "σ-cells"], dtype=object)[np.arange(n) % 2],
        "n": 1000,
        "manifold": "spd-log-euclidean",
        "descriptor": "oct5",
        "mechanism": "ewg",
        "series": "EWG, D/n, all data",
        "sampler": "exact",
        "definition": "gdp",
        "budget": np.linspace(0.1, 2.0, n),
        "sensitivity": 0.054,
        "sigma": np.linspace(0.54, 0.027, n),
        "footpoint": "all data",
        "repetition": np.arange(n),
        "seed": 2**64 - 1,
        "error": np.linspace(1.0, 0.1, n),
        "status": "ok",
        "version": "0.1.0",
    }


def record() -> RunRecord:
    """Return a record with every field set."""
    return RunRecord(
        experiment="trial",
        title="A trial",
        dataset=DatasetNote("tiles", "Tiles", "CC0", "https://example.org", "embedded"),
        classes=(ClassCount(0, "a", 5), ClassCount(1, "b", 7)),
        image_shape=(28, 28),
        config={"budgets": [0.1, 2.0], "mechanisms": ["ewg"]},
        command="covdp run --seed 3",
        baseline="EWG, 2r/n",
        seed=3,
        versions={"covdp": "0.1.0"},
        machine={"processor": "x", "cores": 2},
        steps=(("fetch", 0.5), ("describe", 1.25)),
        privacy={"Unit": "one image", "Adjacency": "replace-one"},
        notes=("η = 1e-6",),
        started="2026-01-01T00:00:00Z",
        finished="2026-01-01T00:00:02Z",
    )


def test_rows_survive(tmp_path: Path) -> None:
    """Every column comes back with its values, single values repeated, absent ones missing."""
    given = columns()
    rows = read_rows(write_rows(tmp_path / "new" / "trial.parquet", given, metadata={}))
    assert tuple(rows) == tuple(SCHEMA)
    for name, column in given.items():
        np.testing.assert_array_equal(rows[name], np.broadcast_to(np.asarray(column), 4))
    for name in ("delta", "alpha", "expected_error", "acceptance"):
        assert np.isnan(rows[name]).all()


def test_schema_survives(tmp_path: Path) -> None:
    """A reader without covdp finds type, unit and meaning of every column in the file."""
    path = write_rows(tmp_path / "trial.parquet", columns(), metadata={"config": "{}"})
    schema = pq.read_schema(path)
    assert schema.names == list(SCHEMA)
    for name, field in SCHEMA.items():
        stored = schema.field(name)
        assert stored.metadata == {
            b"unit": field.unit.encode(),
            b"meaning": field.meaning.encode(),
        }
        assert stored.nullable == field.optional
        kind = pa.dictionary(pa.int32(), pa.string()) if field.type == "text" else field.type
        assert stored.type.equals(pa.type_for_alias(kind) if isinstance(kind, str) else kind)
    assert read_metadata(path) == {"config": "{}"}


def test_file_is_compressed_text_encoded_once(tmp_path: Path) -> None:
    """32,000 rows of repeated text and numbers take less than a tenth of a byte a cell."""
    path = write_rows(tmp_path / "trial.parquet", {**columns(4), "error": 1.0}, metadata={})
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert "RLE_DICTIONARY" in column.encodings
    constant = {k: (v if np.ndim(v) == 0 else np.resize(v, 32_000)) for k, v in columns().items()}
    assert write_rows(path, constant, metadata={}).stat().st_size < 0.1 * 32_000 * len(SCHEMA)


@pytest.mark.parametrize("status", STATUSES[1:])
def test_undefined_rows_have_no_error(tmp_path: Path, status: str) -> None:
    """A row without a result keeps its status, and its error is missing, not a number."""
    table = {**columns(2), "error": [0.5, np.nan], "status": ["ok", status]}
    path = write_rows(tmp_path / "trial.parquet", table, metadata={})
    assert pq.read_table(path)["error"].null_count == 1
    rows = read_rows(path)
    assert list(rows["status"]) == ["ok", status]
    assert np.isnan(rows["error"][1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "fine"}, "status must be one of"),
        ({"status": "undefined"}, "finite error if and only if"),
        ({"error": np.nan}, "finite error if and only if"),
        ({"error": np.inf}, "finite error if and only if"),
        ({"label": [0.5, 1, 2, 3]}, "'label' must hold int32"),
        ({"series": 3}, "'series' must hold string"),
        ({"budget": [0.1, np.nan, 1, 2]}, "'budget' must have a value in every row"),
        ({"budget": [0.1, 0.2]}, "one length"),
        ({"errors": 1.0}, r"unknown \['errors'\]"),
    ],
)
def test_bad_columns_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    """Columns that break the schema raise one clear line and leave no file behind."""
    with pytest.raises(ConfigError, match=message):
        write_rows(tmp_path / "trial.parquet", {**columns(), **change}, metadata={})
    assert list(tmp_path.iterdir()) == []


def test_missing_column_is_named() -> None:
    """A required column that is absent is named in the message."""
    table = columns()
    del table["sigma"], table["budget"]
    with pytest.raises(ConfigError, match=r"missing \['budget'\]"):
        write_rows(Path("never.parquet"), table, metadata={})


@pytest.mark.parametrize("reader", [read_rows, read_bound, read_metadata, read_record])
def test_unreadable_files_are_one_line(tmp_path: Path, reader: object) -> None:
    """A missing and a damaged file raise `OutputError` that names the file."""
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1 nothing of the kind PAR1")
    for path in (damaged, tmp_path / "absent.parquet"):
        with pytest.raises(OutputError, match=path.name):
            reader(path)  # type: ignore[operator]


def test_foreign_table_is_refused(tmp_path: Path) -> None:
    """A Parquet file with other columns is not taken for a table of results."""
    path = write_bound(tmp_path / "bound.parquet", BOUNDS)
    with pytest.raises(OutputError, match="lacks the columns"):
        read_rows(path)
    dates = pa.table({name: pa.array([0], pa.date32()) for name in BOUND_SCHEMA})
    pq.write_table(dates, path)
    with pytest.raises(OutputError, match=r"no numbers in \['label'"):
        read_bound(path)


def test_a_table_of_an_older_version_is_read(tmp_path: Path) -> None:
    """Columns that may be left out, and were not there yet, are read as left out."""
    path, older = tmp_path / "rows.parquet", tmp_path / "older.parquet"
    write_rows(path, columns(), metadata={})
    pq.write_table(pq.read_table(path).drop_columns(["night", "distance"]), older)
    found, before = read_rows(path), read_rows(older)
    assert (before["night"] == 0).all()
    assert (before["distance"] == "").all()
    for name in set(found) - {"night", "distance"}:
        np.testing.assert_array_equal(before[name], found[name])


def test_the_radius_of_an_older_table_is_read_under_its_new_name(tmp_path: Path) -> None:
    """Version 0.3 called `radius` what is `region_radius` now."""
    path, older = tmp_path / "rows.parquet", tmp_path / "older.parquet"
    write_rows(path, {**columns(), "region_radius": [0.5, 1.5, 2.5, 3.5]}, metadata={})
    table = pq.read_table(path)
    names = ["radius" if name == "region_radius" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), older)
    assert read_rows(older)["region_radius"].tolist() == [0.5, 1.5, 2.5, 3.5]


def test_a_table_that_another_program_wrote_again_is_read(tmp_path: Path) -> None:
    """Its texts may be plain ones, and its rows in many groups."""
    path, again = tmp_path / "rows.parquet", tmp_path / "again.parquet"
    write_rows(path, columns(), metadata={})
    table = pq.read_table(path)
    plain = {
        name: column.cast("string") if str(column.type).startswith("dictionary") else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    pq.write_table(pa.table(plain), again, row_group_size=2)
    found, before = read_rows(path), read_rows(again)
    for name in found:
        np.testing.assert_array_equal(before[name], found[name])


BOUNDS = [
    Bound(0, "a", 5, 28.0, 30.892, 0.906, 54.081, 1e-6, 81281.2, True),
    Bound(1, "b", 7, 31.0, 30.892, 1.003, 54.081, 1e-6, 9e4, False),
]


def test_bound_survives(tmp_path: Path) -> None:
    """The table of bounds comes back as it was, with units in its fields."""
    path = write_bound(tmp_path / "bound.parquet", BOUNDS)
    table = read_bound(path)
    assert list(zip(*table.values(), strict=True)) == BOUNDS
    assert table["ok"].dtype == bool
    meanings = [pq.read_schema(path).field(name).metadata[b"meaning"] for name in BOUND_SCHEMA]
    assert all(meanings)


CELLS = [f"class {label}, {series}" for label in (1, 0) for series in ("EWG", "RL")]


def cell_columns(cell: str) -> dict[str, object]:
    """Return rows that depend on the cell alone."""
    return {**columns(), "series": cell, "seed": len(cell)}


def undisturbed(path: Path) -> bytes:
    """Write all cells in order and return the file's content."""
    writer = RowWriter(path, CELLS, {"seed": "1"})
    for cell in writer.pending():
        writer.write(cell, cell_columns(cell))
    return writer.finish().read_bytes()


def test_interrupted_table_equals_undisturbed(tmp_path: Path) -> None:
    """Stopped after any cell and started again, the file has the same bytes, no cell twice."""
    expected = undisturbed(tmp_path / "undisturbed.parquet")
    assert list(read_rows(tmp_path / "undisturbed.parquet")["series"][::4]) == CELLS
    for stop in range(len(CELLS) + 1):
        path = tmp_path / f"run{stop}" / "trial.parquet"
        first = CELLS[len(CELLS) - stop :][::-1]
        writer = RowWriter(path, CELLS, {"seed": "1"})
        for cell in first:
            writer.write(cell, cell_columns(cell))
        assert not path.exists()
        writer = RowWriter(path, CELLS, {"seed": "1"})
        second = writer.pending()
        for cell in second:
            writer.write(cell, cell_columns(cell))
        writer.finish()
        assert sorted([*first, *second]) == sorted(CELLS)
        assert path.read_bytes() == expected
        assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_finished_table_is_not_computed_again(tmp_path: Path) -> None:
    """A complete table has no pending cell, unless seed, configuration or cells have changed."""
    path = tmp_path / "trial.parquet"
    before = undisturbed(path)
    writer = RowWriter(path, CELLS, {"seed": "1"})
    assert writer.pending() == ()
    assert writer.finish().read_bytes() == before
    assert RowWriter(path, CELLS, {"seed": "2"}).pending() == tuple(CELLS)
    assert RowWriter(path, CELLS[:2], {"seed": "1"}).pending() == tuple(CELLS[:2])


def test_a_cell_that_a_power_cut_left_empty_is_computed_again(tmp_path: Path) -> None:
    """Cells are not synced: a file of one may be there without its content."""
    writer = RowWriter(tmp_path / "trial.parquet", CELLS, {})
    written = [writer.write(cell, cell_columns(cell)) for cell in CELLS]
    assert writer.pending() == ()
    written[1].write_bytes(b"")
    assert writer.pending() == (CELLS[1],)
    writer.write(CELLS[1], cell_columns(CELLS[1]))
    writer.finish()


def test_unfinished_table_is_never_written(tmp_path: Path) -> None:
    """Finishing early raises with the number and the name of the missing cells."""
    writer = RowWriter(tmp_path / "trial.parquet", CELLS, {})
    writer.write(CELLS[0], cell_columns(CELLS[0]))
    with pytest.raises(OutputError, match=r"3 of 4 cells are missing, the first is 'class 1, RL'"):
        writer.finish()
    with pytest.raises(ConfigError, match="not among"):
        writer.write("class 7", columns())


def test_record_survives(tmp_path: Path) -> None:
    """The record of a run comes back equal, and its file is plain JSON."""
    path = write_record(tmp_path / "runs" / record().run / "run.json", record())
    assert read_record(path) == record()
    assert path.parent.name == "trial-tiles"
    assert list(json.loads(path.read_text())["privacy"]) == ["Unit", "Adjacency"]


def test_machine_and_versions_are_named() -> None:
    """Versions hold covdp, Python and NumPy; the machine holds no host name."""
    import platform

    versions = collect_versions()
    assert versions["numpy"] == np.__version__
    assert versions["python"] == platform.python_version()
    assert versions["covdp"][0].isdigit()
    assert set(machine()) == {"processor", "cores", "platform"}
    assert platform.node() not in json.dumps(machine()).split()


def test_releases_can_be_stacked(tmp_path: Path) -> None:
    """Whatever a release leaves out, all have one schema, so that their tables can be stacked."""
    known = {
        "label": 0,
        "name": "a",
        "n": 9,
        "n_sd": 0.0,
        "point": [[1.0]],
        "coordinates": [0.0],
        "rho": 0.1,
    }
    given = [
        {"mu": 0.5, "predicted_error": 0.1},
        {"mu": None, "predicted_error": 0.1},
        {"mu": 0.5, "predicted_error": None, "rho": None, "observed": {"n": 9, "vector": [0.5]}},
    ]
    tables = [
        pq.read_table(
            write_release(
                [known | row],
                {"title": f"{i}", "settings": {}, "statement": []},
                tmp_path / f"{i}.parquet",
            )
        )
        for i, row in enumerate(given)
    ]
    for table in tables:
        assert table.schema.equals(tables[0].schema.with_metadata(table.schema.metadata), True)
    stacked = pa.concat_tables(tables)
    assert stacked["mu"].to_pylist() == [0.5, None, 0.5]
    assert stacked["observed"].to_pylist() == [None, None, '{"n": 9, "vector": [0.5]}']
    assert {field.name for field in stacked.schema if field.nullable} == {
        "predicted_error",
        "observed",
        "mu",
        "rho",
    }


def test_a_released_table_says_what_was_promised(tmp_path: Path) -> None:
    """All of the document but its classes stands in the file's metadata: statement and settings."""
    document = {
        "title": "Means",
        "settings": {"budget": 0.5},
        "statement": [["Guarantee", "0.5-GDP"]],
        "account": {"left": 0.1},
    }
    kept = read_metadata(write_release([], document, tmp_path / "means.parquet"))
    for key in ("title", "settings", "statement", "account"):
        assert json.loads(kept[key]) == document[key]
