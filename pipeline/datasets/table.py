"""Images that a table lists: a CSV or Parquet file with columns of path, class, person and more."""

import os
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic import model_validator as check

from pipeline.datasets.cards import may_be_empty, require_classes
from pipeline.datasets.classed import Classed, check_once
from pipeline.datasets.columns import read_columns
from pipeline.datasets.decoding import Format, PictureCard
from pipeline.datasets.dicom import DicomCard, check_keys
from pipeline.datasets.dicom import open_files as open_dicom
from pipeline.datasets.download import Asking, find_own, present
from pipeline.datasets.excluded import check_named, excluded, is_left_out
from pipeline.datasets.frames import Frames
from pipeline.datasets.listing import follower, packed
from pipeline.datasets.nifti import NiftiCard, check_cuts
from pipeline.datasets.nifti import open_files as open_nifti
from pipeline.datasets.own import OwnCard
from pipeline.datasets.pictures import from_files
from pipeline.datasets.sifting import Sift, tell
from pipeline.datasets.source import SPLITS, ImageSource
from pipeline.errors import ImageError

Column: TypeAlias = Literal["path", "class", "split", "person", "date", "mask"]


class TableCard(PictureCard):
    """What a card of kind ``table`` says.

    Attributes
    ----------
    columns : mapping
        What the table calls each column that is read; path and class are needed.
    formats : tuple of str
        As of pictures, or DICOM or NIfTI alone. Person and day are those of DICOM files, unless the
        table has them.
    axis, frames
        As in a card of kind ``nifti`` or ``dicom``.
    """

    volumetric: ClassVar[bool] = True

    columns: dict[Column, str]
    formats: tuple[Format | Literal["DICOM", "NIfTI"], ...] = Field(  # type: ignore[assignment]
        ("PNG", "JPEG"), min_length=1
    )
    axis: Literal[0, 1, 2] | None = None
    frames: Frames = "all"

    @property
    def other(self) -> str | None:
        """DICOM or NIfTI, where the files are that; None for pictures."""
        return next((name for name in self.formats if name in OTHERS), None)

    @property
    def file(self) -> str:
        """Where the table lies, from the data root."""
        return self.path or f"{self.name}.csv"

    @property
    def masked(self) -> bool:
        """Whether the table names masks."""
        return "mask" in self.columns

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
        OTHERS[self.other].check(self) if self.other else None
        if not self.file.lower().endswith((".csv", ".parquet")):
            raise ValueError(f"path must end in .csv or .parquet, found {self.file!r}")
        return self


def fetch_table(card: TableCard, root: Path, size: int | None, asking: Asking) -> Path:
    """Return the table, which is always the user's own."""
    return find_own(card.name, root / card.file, root)


def has_table(card: TableCard, root: Path, size: int | None) -> bool:
    """Tell whether the table is there."""
    return present(root / card.file)


def open_table(card: TableCard, path: Path, sift: Sift | None = None) -> ImageSource:
    """Open a table: read its rows; what the images hold is seen when they are read.

    Images come in the order of the rows. Their paths, and those of masks, are relative to the
    table's folder and stay in the data root; blanks around a value do not count, nor do rows
    without any.

    Raises
    ------
    DatasetError
        When the table cannot be read or lacks a column, a class has no row, a value means nothing,
        a row lacks one, or two rows name one image.
    """
    rows = _Rows(np.zeros((len(SPLITS), len(card.classes)), np.int64))
    names = packed(_read(card, path, rows, sift))
    counts = np.bincount(rows.labels, minlength=len(card.classes))
    require_classes(
        card,
        counts.tolist(),
        lambda name: f"{path}: class '{name}' has no row; correct classes or columns in the card",
    )
    check_once(names, "is in two rows, or a link repeats it; take one out", sift)
    masks = packed(rows.masks) if card.masked else None
    files = Classed(
        names,
        np.array(rows.labels, np.int64),
        np.array(rows.splits, np.int64),
        np.array(rows.people, np.str_) if "person" in card.columns else None,
        np.array(rows.days, "datetime64[D]") if "date" in card.columns else None,
        rows.left_out,
        masks,
    )
    if card.other is None:
        return from_files(card, files, path, sift)
    kind = OTHERS[card.other]
    said = card.model_fields_set & (kind.card.model_fields.keys() - {"kind", "path", "formats"})
    same = kind.card(**{key: getattr(card, key) for key in said} | {"kind": "", "name": card.name})
    same = may_be_empty(same) if card.sparse else same
    return replace(kind.open(same, files, path, sift), card=card)


def _check_dicom(card: TableCard) -> None:
    """Raise `ValueError` where a table of DICOM asks for what such files do not have."""
    if card.axis is not None:
        raise ValueError("key 'axis' is for tables of NIfTI")
    check_keys(card)


class _Other(NamedTuple):
    """Files that are no pictures: their card, what it may say in a table, how they are opened."""

    card: type[OwnCard]
    check: Callable[[TableCard], None]
    open: Callable[[Any, Classed, Path, Sift | None], ImageSource]


OTHERS = {
    "DICOM": _Other(
        DicomCard,
        _check_dicom,
        lambda card, files, path, sift: open_dicom(card, files, path, others=False, sift=sift),
    ),
    "NIfTI": _Other(NiftiCard, lambda card: check_cuts(card, card.axis), open_nifti),
}
"""What a table may list besides pictures."""


@dataclass(eq=False)
class _Rows:
    """What the rows say of the images, one after another; `left_out` by split and class."""

    left_out: NDArray[np.int64]
    labels: "array[int]" = field(default_factory=lambda: array("q"))
    splits: "array[int]" = field(default_factory=lambda: array("q"))
    people: list[str] = field(default_factory=list)
    days: list[date] = field(default_factory=list)
    masks: list[str] = field(default_factory=list)


def _read(card: TableCard, path: Path, rows: _Rows, sift: Sift | None) -> Iterator[str]:
    """Yield where the image of each row is, and note in `rows` what else is said of it."""
    skip, named = excluded(card.exclude, path.parent, there=False), set[str]()
    depth = len(Path(card.file).parts)
    follow = follower(path.parents[depth - 1])
    labels = {name: label for label, name in enumerate(card.classes)}
    splits = {name: code for code, name in enumerate(SPLITS)}
    for where, said in read_columns(path, card.columns, sift):
        relative = str(PurePosixPath(said["path"]))
        named.add(relative) if relative in skip else None
        try:
            image = follow(_joined(path, said["path"], where))
        except ImageError as error:
            if relative not in skip:
                tell(sift, where, error, listed=False)
            continue
        if is_left_out(skip, relative, image, path.parent):
            if said["class"] in labels:
                split = splits.get(said.get("split", SPLITS[0]), 0)
                rows.left_out[split, labels[said["class"]]] += 1
            continue
        try:
            label = _code(said["class"], labels, f"{where}: the class")
            split = _code(said.get("split", SPLITS[0]), splits, f"{where}: the split")
            day = _day(said["date"], where) if "date" in said else None
            mask = follow(_joined(path, said["mask"], where)) if "mask" in said else None
        except ImageError as error:
            tell(sift, image, error)
            continue
        rows.labels.append(label)
        rows.splits.append(split)
        rows.people += [said["person"]] if "person" in said else []
        rows.days += [day] if day else []
        rows.masks += [mask] if mask else []
        yield image
    check_named(card.exclude or "", path.parent, skip - named)


def _code(name: str, codes: Mapping[str, int], what: str) -> int:
    """Return the number of a name, or raise when it has none."""
    if name not in codes:
        raise ImageError(
            f"{what} must be one of {', '.join(codes)}, found {name!r}; correct it, or classes in "
            "the card"
        )
    return codes[name]


def _day(text: str, where: str) -> date:
    """Return a day, of which a time may be said too."""
    try:
        return datetime.fromisoformat(text).date()
    except ValueError as error:
        raise ImageError(
            f"{where}: a date must be YYYY-MM-DD or YYYYMMDD, found {text!r}; correct it"
        ) from error


def _joined(path: Path, said: str, where: str) -> str:
    """Return where a path of the table leads to, from its folder."""
    if Path(said).is_absolute() or "\0" in said:
        raise ImageError(
            f"{where}: a path must be relative to the folder of the table, found {said!r}"
        )
    return os.path.normpath(os.path.join(path.parent, said))  # noqa: PTH118 (of each row)
