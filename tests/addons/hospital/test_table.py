"""Tables of images: what the rows say, whole and in order, or one clear error."""

import csv
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from covdp.arrays import ImageArray
from covdp.datasets import ImageSource, load_card, open_dataset
from covdp.datasets.classed import COPIES
from covdp.errors import DatasetError

CARD = """\
kind = "table"
channels = 1
classes = ["well", "ill"]
"""
COLUMNS = 'columns = { path = "file", class = "diagnosis"'
ALL = COLUMNS + ', split = "part", person = "who", date = "day", mask = "region" }\n'
ROWS: list[dict[str, Any]] = [
    {"file": "a, 1.png", "diagnosis": "ill", "part": "train", "who": "mo", "day": "20240101"},
    {"file": "sub/b.png", "diagnosis": "well", "part": "test", "who": "zoy", "day": "2024-01-02"},
    {"file": "c.png", "diagnosis": "ill", "part": "train", "who": "mo", "day": "2024-01-03 09:10"},
    {"file": "../d.png", "diagnosis": "well", "part": "train", "who": "vi", "day": "2024-02-29"},
]
for row in ROWS:
    row["region"] = "masks/" + Path(row["file"]).name


def pixels(seed: int) -> ImageArray:
    """Return random pixels."""
    return np.random.default_rng(seed).integers(0, 256, (6, 5), dtype=np.uint8)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a data root with the images of `ROWS` and their masks."""
    for seed, row in enumerate(ROWS):
        for name, image in ((row["file"], pixels(seed)), (row["region"], pixels(seed) % 2)):
            path = tmp_path / "root/lists" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
    return tmp_path / "root"


def write(root: Path, rows: list[dict[str, Any]], end: str = "csv") -> None:
    """Write a table of rows."""
    path = root / f"lists/ward.{end}"
    if end == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        stream.write("\r\n")
        writer = csv.DictWriter(stream, ["note", *ROWS[0]])
        writer.writeheader()
        for row in rows:
            writer.writerow({"note": 'a "quoted", note', **row})
            stream.write("\r\n,,,,,,\r\n")


def ward(root: Path, more: str = ALL, end: str = "csv") -> ImageSource:
    """Open the table by a card."""
    (root / "ward.toml").write_text(f'{CARD}path = "lists/ward.{end}"\n{more}')
    return open_dataset(root / "ward.toml", root)


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_rows_become_images(root: Path, end: str) -> None:
    """Images, classes, splits, persons, dates and masks are those of the rows, in their order."""
    rows = ROWS
    if end == "parquet":
        days = [date(2024, 1, 1), date(2024, 1, 2), datetime(2024, 1, 3, 9, 10), date(2024, 2, 29)]
        rows = [row | {"day": str(day)} for row, day in zip(ROWS, days, strict=True)]
    write(root, rows, end)
    source = ward(root, 'unit = "person"\n' + ALL, end)
    assert (source.shape, source.unit) == ((6, 5), "person")
    assert (source.counts("train"), source.counts("test")) == ((1, 2), (1, 0))
    assert (source.units("train"), source.units("test")) == ((1, 1), (1, 0))
    np.testing.assert_array_equal(
        np.concatenate(list(source.chunks())), [pixels(seed) for seed in (1, 3, 0, 2)]
    )
    assert source.dates is not None
    assert list(map(str, source.dates)) == ["2024-01-01", "2024-01-02", "2024-01-03", "2024-02-29"]
    assert source.people is not None
    assert len(set(source.people.tolist())) == 3
    assert source.masks is not None
    (masks,) = source.masks(np.arange(4), 4)
    np.testing.assert_array_equal(masks, [pixels(seed) % 2 for seed in range(4)])
    plain = ward(root, COLUMNS + " }\n", end)
    assert (plain.counts(), plain.unit, plain.dates, plain.masks) == ((2, 2), "image", None, None)


def test_values_of_parquet_are_text(root: Path) -> None:
    """Numbers, days and what pandas makes of numbers with gaps are read as CSV would have them."""
    rows = [
        {"file": "a, 1.png", "diagnosis": 1, "who": 17.0, "day": date(2024, 1, 1)},
        {"file": "c.png", "diagnosis": 0, "who": 18.0, "day": date(2024, 1, 2)},
    ]
    write(root, rows, "parquet")
    card = COLUMNS + ', person = "who", date = "day" }\nunit = "person"\n'
    (root / "numbers.toml").write_text(
        CARD.replace('["well", "ill"]', '["0", "1"]') + 'path = "lists/ward.parquet"\n' + card
    )
    source = open_dataset(root / "numbers.toml", root)
    np.testing.assert_array_equal(source.label_of, [1, 0])
    write(root, [row | {"who": name} for row, name in zip(rows, ("17", "18"), strict=True)], "csv")
    from covdp.datasets import fetch, open_fetched

    keys = []
    for end in ("csv", "parquet"):
        (root / "numbers.toml").write_text(
            CARD.replace('["well", "ill"]', '["0", "1"]') + f'path = "lists/ward.{end}"\n' + card
        )
        found = load_card(root / "numbers.toml")
        people = open_fetched(found, fetch(found, root), b"key").people
        assert people is not None
        keys.append(people.tolist())
    assert keys[0] == keys[1]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"diagnosis": "sick"}, r"line 3: the class must be one of well, ill, found 'sick'"),
    ({"part": "dev"}, r"line 3: the split must be one of train, val, test, found 'dev'"),
    ({"who": " "}, r"line 3: column 'who' must have a value on one line, found ''"),
    ({"day": "2024-13-01"}, r"line 3: a date must be YYYY-MM-DD or YYYYMMDD, found '2024-13-01'"),
    ({"file": "/etc/hostname"}, r"line 3: a path must be relative"),
    ({"file": "../../x.png"}, "x.png leads out of the data root"),
    ({"file": "c.png"}, "c.png is in two rows"),
    ({"file": "none.png"}, r"none.png is not a readable image .*No such file"),
    ({"file": "x\ny.png"}, r"column 'file' must have a value on one line"),
]


@pytest.mark.parametrize(("change", "reason"), BAD, ids=[str(change) for change, _ in BAD])
def test_a_bad_row_is_one_line(root: Path, change: dict[str, Any], reason: str) -> None:
    """A row that means nothing is refused with its line, the value and the way out."""
    (root.parent / "x.png").touch()
    write(root, [ROWS[0] | change, *ROWS[1:]])
    with pytest.raises(DatasetError, match=reason) as caught:
        list(ward(root).chunks())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "more", "reason"),
    [
        (b"file;diagnosis\nc.png;ill\n", "", r"one column 'file', found 0; it has 'file;diagno"),
        (b"file,file,diagnosis\n", "", "must have one column 'file', found 2"),
        (b"file,diagnosis\nc.png,ill,x\n", "", "line 2: a row must have 2 values, found 3"),
        (b"file,diagnosis\n\xe9.png,ill\n", "", "is not UTF-8"),
        (b'file,diagnosis\n"c.png,ill\n', "", "is not a readable table"),
        (b"file,diagnosis\nc.png,ill\n", "", "class 'well' has no row"),
        (b"", "", r"is not a readable table \(it is empty\)"),
        (b"file,diagnosis\n", 'unit = "person"', "needs the column of the person"),
        (b"file,diagnosis\n", 'exclude = "none.txt"', "cannot read .*none.txt"),
    ],
)
def test_a_bad_table_is_one_line(root: Path, content: bytes, more: str, reason: str) -> None:
    """A file that is no such table is refused with what was found in it."""
    (root / "lists/ward.csv").write_bytes(content)
    with pytest.raises(DatasetError, match=reason) as caught:
        ward(root, f"{COLUMNS} }}\n{more}\n")
    assert "\n" not in str(caught.value)


def test_a_bad_parquet_is_one_line(root: Path) -> None:
    """What is no Parquet, and one of more rows than bytes, is refused before they are unpacked."""
    (root / "lists/ward.parquet").write_bytes(b"PAR1 no table PAR1")
    with pytest.raises(DatasetError, match=r"ward.parquet is not a readable table"):
        ward(root, COLUMNS + " }\n", "parquet")
    column = pa.DictionaryArray.from_arrays(np.zeros(2_000_000, np.int8), ["c.png"])
    pq.write_table(pa.table({"file": column, "diagnosis": column}), root / "lists/ward.parquet")
    assert (root / "lists/ward.parquet").stat().st_size < 100_000
    with pytest.raises(DatasetError, match=r"2,000,000 rows are more than the file has bytes"):
        ward(root, COLUMNS + " }\n", "parquet")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('columns = { path = "file" }', "columns must name the column of the class"),
        ('columns = { pth = "file", class = "c" }', "columns"),
        (COLUMNS + ' }\npath = "ward.xlsx"', "must end in .csv or .parquet"),
        (COLUMNS + ' }\npath = "../ward.csv"', "must be in the data root"),
    ],
)
def test_a_bad_card_is_one_line(tmp_path: Path, more: str, reason: str) -> None:
    """A card without the columns that are needed is refused when it is read."""
    (tmp_path / "ward.toml").write_text(f"{CARD}{more}\n")
    with pytest.raises(DatasetError, match=reason) as caught:
        load_card(tmp_path / "ward.toml")
    assert "\n" not in str(caught.value)


def test_rows_can_be_left_out(root: Path) -> None:
    """What the list of exclusions names is not read; what the table does not name neither."""
    write(root, ROWS)
    (root / "lists/sub/b.png").write_bytes(b"no image")
    (root / "lists/out.txt").write_text("./sub/b.png\n")
    source = ward(root, ALL + 'exclude = "out.txt"\n')
    assert source.counts() == (1, 2)
    assert source.facts == ("1 file(s) are left out, as out.txt says.", COPIES)
    assert len(np.concatenate(list(source.chunks()))) == 3


def test_dicom_files_are_listed_too(root: Path) -> None:
    """Rows may name DICOM files: persons and days are the table's, or else the files' own."""
    from pydicom import examples

    for number in range(3):
        scan = examples.ct
        scan.PatientID = f"P{number // 2}"
        scan.save_as(root / f"lists/{number}")
    lines = ["file,diagnosis,who", "0,ill,x", "1,ill,y", "2,well,x"]
    (root / "lists/ward.csv").write_text("\n".join(lines))
    card = 'formats = ["DICOM"]\nwindow = [-160, 240]\nsize = 16\nunit = "person"\n'
    source = ward(root, f"{COLUMNS} }}\n{card}")
    assert (source.shape, source.counts(), source.units()) == ((16, 16), (1, 2), (1, 1))
    assert source.dates is not None
    assert np.concatenate(list(source.chunks())).std() > 10
    assert ward(root, f'{COLUMNS}, person = "who" }}\n{card}').units() == (1, 1)
    plain = ward(root, f"{COLUMNS} }}\n{card}".replace('"person"', '"image"'))
    assert (plain.unit, plain.units()) == ("image", (1, 2))
    (root / "lists/notes.txt").write_text("no image")
    (root / "lists/ward.csv").write_text("\n".join([*lines, "notes.txt,ill,x"]))
    with pytest.raises(DatasetError, match=r"notes.txt .* is no DICOM file"):
        list(ward(root, f"{COLUMNS} }}\n{card}").chunks())
    with pytest.raises(DatasetError, match="DICOM files need a table of their own"):
        ward(root, f'{COLUMNS} }}\nformats = ["DICOM", "PNG"]\n')
