"""Images that a table lists: a CSV or Parquet file with columns of path, class, person and more."""

import csv
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic import model_validator as check

from covdp.addons.hospital.dicom.card import DicomCard
from covdp.addons.hospital.dicom.files import open_dicom
from covdp.addons.hospital.nifti import NiftiCard, check_cuts, open_nifti
from covdp.datasets import listing
from covdp.datasets.cards import Axis, Format, Frames, LocalFilesCard
from covdp.datasets.classed import FileRow, check_once, collect, require_listed
from covdp.datasets.kind import DatasetKind
from covdp.datasets.pictures import PictureCard, open_pictures
from covdp.datasets.source import SPLITS, ImageSource, check_person
from covdp.errors import DatasetError, ImageError, image_error

ROWS_AT_ONCE = 1 << 14
"""Rows that are unpacked at a time."""


def read_head(path: Path, count: int) -> tuple[list[str], list[list[str]]]:
    """Return the names of all columns, and the first rows as text.

    Parameters
    ----------
    path : Path
        Path of the table.
    count : int
        Number of rows.
    """
    with _opened(path) as (names, rows):
        head = [[_text(value) for value in row] for _, row in islice(rows, count)]
    return names, [row for row in head if len(row) == len(names)]


def read_columns(
    path: Path, columns: Mapping[Any, str], faults: listing.Faults
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place of each row, and its values by the names in `columns`, without blanks.

    Rows without any value are skipped.

    Parameters
    ----------
    path : Path
        The file: Parquet if its name ends in ``.parquet``, else CSV in UTF-8 with a line of names.
    columns : mapping
        Names of the file's columns, by the names of the values.
    faults : listing.Faults
        Faults found so far, to which rows go that lack a value.

    Raises
    ------
    DatasetError
        When the file cannot be read, has no such column or has it twice, or a row lacks a value.
    """
    with _opened(path, columns.values()) as (names, rows):
        places = _places(columns.values(), names, path)
        for number, row in rows:
            where = f"{path}, {number}"
            try:
                if len(row) != len(names):
                    way = "add what is missing" if len(row) < len(names) else "quote commas"
                    raise ImageError(
                        f"{where}: a row must have {len(names)} values, found {len(row)}; {way}, "
                        "or take the row out"
                    )
                values = {name: _text(row[at]) for name, at in zip(columns, places, strict=True)}
                if any(values.values()):
                    yield where, _full(values, columns, where)
            except ImageError as error:
                faults.append(listing.Fault(where, error, listed=False))


TableRows: TypeAlias = Iterator[tuple[str, Sequence[Any]]]
"""The number of each row, and its values."""


@contextmanager
def _opened(
    path: Path, wanted: Collection[str] | None = None
) -> Iterator[tuple[list[str], TableRows]]:
    """Open a table: give the names of its columns, and its rows, of which some values are `wanted`.

    Whatever a damaged one raises becomes one `DatasetError`.
    """
    damaged = listing.wrap_errors(path, "table", "save it anew", DatasetError)
    with damaged, listing.open_regular(path) as stream:
        try:
            if path.suffix.lower() == ".parquet":
                yield _parquet(stream, path, wanted)
                return
            with TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
                yield _csv(text)
        except UnicodeDecodeError as error:
            raise DatasetError(f"{path} is not UTF-8; save it as CSV in UTF-8") from error


def _csv(text: TextIOWrapper) -> tuple[list[str], TableRows]:
    """Return the names and rows of a CSV file; a row may have more or fewer values than names."""
    lines = csv.reader(text, strict=True)
    filled = (line for line in lines if any(map(str.strip, line)))
    names = [name.strip() for name in next(filled, [])]
    return names, ((f"line {lines.line_num}", line) for line in filled)


def _parquet(
    stream: BinaryIO, path: Path, wanted: Collection[str] | None
) -> tuple[list[str], TableRows]:
    """Return the names and rows of a Parquet file; values that are not wanted are None."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream)
    names, count, size = file.schema_arrow.names, file.metadata.num_rows, path.stat().st_size
    listing.check_count(count, size, f"{path}: {count:,} rows", "a real table")
    columns = [name for name in names if wanted is None or name in wanted]
    for name in columns if wanted else ():
        kind = str(file.schema_arrow.field(names.index(name)).type).partition("<")[0]
        if kind in ("list", "large_list", "map", "struct", "binary", "large_binary"):
            raise DatasetError(
                f"{path}: column '{name}' must have text, numbers or days, found {kind}; save it so"
            )
    batches = (batch.to_pylist() for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns))
    rows = enumerate(chain.from_iterable(batches), 1)
    return names, ((f"row {number}", list(map(row.get, names))) for number, row in rows)


def _places(columns: Collection[str], names: list[str], path: Path) -> list[int]:
    """Return where each column is among the names of the file's."""
    for column in columns:
        if (times := names.count(column)) != 1:
            there = ", ".join(map(repr, names[:9])) + (" and more" if len(names) > 9 else "")
            raise DatasetError(
                f"{path} must have one column '{column}', found {times}; it has "
                f"{there or 'none'}: correct columns in the card, or save it with commas"
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


Column: TypeAlias = Literal["path", "class", "split", "person", "date", "mask"]


class TableCard(PictureCard):
    """A card of kind ``table``.

    Attributes
    ----------
    columns : mapping
        Name in the table of each column that is read; path and class are needed.
    formats : tuple of str
        Formats as of pictures, or DICOM or NIfTI alone. Person and day are those of DICOM files,
        unless the table has them.
    axis, frames
        Slices that are read, as in a card of kind ``nifti`` or ``dicom``.
    """

    volumetric: ClassVar[bool] = True
    stored_as: ClassVar[str] = "files of your own that a table lists"

    columns: dict[Column, str]
    formats: tuple[Format | Literal["DICOM", "NIfTI"], ...] = Field(  # type: ignore[assignment]
        ("PNG", "JPEG"), min_length=1
    )
    axis: Axis | None = None
    frames: Frames = "all"

    @property
    def other(self) -> str | None:
        """DICOM or NIfTI, where the files are that; None for pictures."""
        return next((name for name in self.formats if name in LISTED_KINDS), None)

    @property
    def file(self) -> str:
        """Path of the table, from the data root."""
        return self.path or f"{self.name}.csv"

    def place(self, root: Path, size: int | None) -> Path:
        """Return the path of the table.

        Parameters
        ----------
        root : Path
            Data root.
        size : int or None
            Not used: tables have no sizes.
        """
        return root / self.file

    @property
    def masked(self) -> bool:
        """True if the table names masks."""
        return "mask" in self.columns

    @property
    def person_from(self) -> str | None:
        """The column of the person; without one the header of DICOM."""
        return self.columns.get("person") or ("PatientID" if self.other == "DICOM" else None)

    @property
    def rendering_settings(self) -> dict[str, Any]:
        """The settings of any card, and the column of the mask."""
        return super().rendering_settings | ({"mask": self.columns["mask"]} if self.masked else {})

    @property
    def decoding(self) -> str:
        """Digest of public images, as of a card of the kind of file that the table lists."""
        if self.other is None:
            return super().decoding
        kind, _ = LISTED_KINDS[self.other]
        return kind.model_construct(**self.model_dump(include={"name", "classes"})).decoding

    @check(mode="after")
    def _columns_fit(self) -> Self:
        if missing := [name for name in ("path", "class") if name not in self.columns]:
            raise ValueError(
                f"columns must name the column of the {missing[0]}, as in columns = "
                '{ path = "file", class = "diagnosis" }'
            )
        if self.other and len(self.formats) > 1:
            raise ValueError(f"{self.other} files need a table of their own")
        if self.unit == "person" and self.other is None and "person" not in self.columns:
            raise ValueError('unit = "person" needs the column of the person in columns')
        for key in ("axis", "frames", "volumes") if self.other is None else ():
            if key in self.model_fields_set:
                raise ValueError(f"key '{key}' is for tables of DICOM or NIfTI, as formats says")
        if self.other == "DICOM" and self.axis is not None:
            raise ValueError("key 'axis' is for tables of NIfTI")
        if self.other == "NIfTI":
            check_cuts(self, self.axis)
        if not self.file.lower().endswith((".csv", ".parquet")):
            raise ValueError(f"path must end in .csv or .parquet, found {self.file!r}")
        return self


def open_table(card: TableCard, path: Path, faults: listing.Faults) -> ImageSource:
    """Open a table: read its rows; what the images hold is known when they are read.

    Images come in the order of the rows. Their paths, and those of masks, are relative to the
    table's folder and stay in the data root; blanks around a value do not count, nor do rows
    without any.

    Parameters
    ----------
    card : TableCard
        Card of the dataset.
    path : Path
        Path of the table.
    faults : listing.Faults
        Faults found so far, to which others are added.

    Returns
    -------
    ImageSource
        Opened dataset.

    Raises
    ------
    DatasetError
        When the table cannot be read or lacks a column, a class has no row, a value means nothing,
        a row lacks one, or two rows name one image.
    """
    left_out = np.zeros((len(SPLITS), len(card.classes)), np.int64)
    files = collect(card, _read(card, path, left_out, faults), left_out)
    require_listed(card, path, files, "row; correct classes or columns")
    check_once(files.names, "is in two rows, or a link repeats it; take one row out", faults)
    if card.other is None:
        return open_pictures(card, files, path, faults)
    kind, open_files = LISTED_KINDS[card.other]
    columns = card.model_fields_set & (kind.model_fields.keys() - {"kind", "path", "formats"})
    same = kind.model_construct(**{key: getattr(card, key) for key in columns})
    same._sparse = card.sparse
    return replace(open_files(same, files, path, faults), card=card)


LISTED_KINDS: dict[str, tuple[type[LocalFilesCard], Callable[..., ImageSource]]] = {
    "DICOM": (DicomCard, partial(open_dicom, others=False)),
    "NIfTI": (NiftiCard, open_nifti),
}
"""Kinds of files that a table may list besides pictures: the fields of their cards, and the
function that opens them."""


def _read(
    card: TableCard, path: Path, left_out: NDArray[np.int64], faults: listing.Faults
) -> Iterator[FileRow]:
    """Yield what each row says of its image; count those that the card leaves out."""
    skip = listing.read_exclusions(card.exclude, card.folder, path.parent, there=False)
    named = set[str]()
    depth = len(Path(card.file).parts)
    follow = listing.follower(path.parents[depth - 1])
    labels = {listing.composed(name): label for label, name in enumerate(card.classes)}
    splits = {name: code for code, name in enumerate(SPLITS)}
    for where, row in read_columns(path, card.columns, faults):
        relative = listing.composed(str(PurePosixPath(row["path"])))
        named.add(relative) if relative in skip else None
        try:
            image = follow(_joined(path, row["path"], where))
        except ImageError as error:
            if relative not in skip:
                faults.append(listing.Fault(where, error, listed=False))
            continue
        named_class = listing.composed(row["class"])
        if listing.is_excluded(skip, relative, image, path.parent):
            if named_class in labels:
                split = splits.get(row.get("split", SPLITS[0]), 0)
                left_out[split, labels[named_class]] += 1
            continue
        try:
            label = _code(named_class, labels, f"{where}: the class", " or classes in the card")
            check_person(row.get("person", ""), f"{where}: column '{card.columns.get('person')}'")
            split = _code(row.get("split", SPLITS[0]), splits, f"{where}: the split", "")
            day = _day(row["date"], where) if "date" in row else None
            mask = follow(_joined(path, row["mask"], where)) if "mask" in row else ""
        except ImageError as error:
            faults.append(listing.Fault(image, error))
            continue
        yield FileRow(image, label, split, row.get("person", ""), day, mask)
    if card.exclude is not None:
        file = listing.list_of_exclusions(card.exclude, card.folder, path.parent)
        listing.check_exclusions(file, path.parent, skip - named)


def _code(name: str, codes: Mapping[str, int], what: str, more: str) -> int:
    """Return the number of a name, or raise when it has none."""
    if name not in codes:
        known = ", ".join(codes)
        raise image_error(f"{what} must be one of {known}, found {name!r}; correct it{more}")
    return codes[name]


def _day(text: str, where: str) -> date:
    """Return a day, which may have a time, too."""
    try:
        return datetime.fromisoformat(text).date()
    except ValueError as error:
        raise image_error(
            f"{where}: a date must be YYYY-MM-DD or YYYYMMDD, found {text!r}; correct it"
        ) from error


def _joined(path: Path, relative: str, where: str) -> str:
    """Return where a path of the table leads to, from its folder."""
    joined = os.path.join(path.parent.absolute(), relative)  # noqa: PTH118 (of each row)
    strange = "\0" in relative or ("\\" in relative and not os.path.exists(joined))  # noqa: PTH110
    if strange or Path(relative).is_absolute():
        raise ImageError(
            f"{where}: a path must be relative to the folder of the table, with / between folders, "
            f"found {relative!r}; correct it, or take the row out"
        )
    return listing.as_written(os.path.normpath(joined))


TABLE = DatasetKind(TableCard, open_table)
"""Kind of dataset whose images a table lists."""
