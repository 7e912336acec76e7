"""A draft of a card, from a table of images."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from covdp.addons.hospital.table import read_columns, read_head
from covdp.datasets import listing
from covdp.datasets.cards import FORMATS
from covdp.datasets.draft import (
    MOST_CLASSES,
    SLICES,
    Draft,
    Find,
    Sketch,
    TableDrafts,
    finder,
    formats_of,
    kind_of,
    write_draft,
)
from covdp.datasets.source import SPLITS
from covdp.datasets.summary import FILE_KINDS, HEADERS, summarise_files
from covdp.errors import DatasetError, printable

USUAL_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "class": ("class", "label", "diagnosis", "target", "category", "finding"),
    "split": ("split", "set", "partition"),
    "person": ("person", "patient", "patient_id", "patientid", "subject", "subject_id", "mrn"),
    "date": ("date", "study_date", "studydate", "taken", "acquired"),
    "mask": ("mask", "mask_path", "segmentation", "region"),
}
"""Usual names of columns of tables."""


def draft_table(path: Path, root: Path) -> Draft:
    """Draft a card of a table.

    Parameters
    ----------
    path : Path
        Path of the table.
    root : Path
        Data root.

    Returns
    -------
    Draft
        Draft of the card.
    """
    names, rows = read_head(path, HEADERS)
    paths = paths_in(path)
    if not paths:
        raise DatasetError(_without_paths(path, names, rows))
    doubts, columns = [], {role: _called(names, x) for role, x in USUAL_COLUMNS.items()}
    files = [name for name in paths if name != columns["mask"]] or paths
    if len(files) > 1:
        doubts.append(f"columns {', '.join(files)} hold paths; {files[0]} is taken for the images'")
    if columns["mask"] not in paths:
        columns["mask"] = None
    split = columns["split"]
    if split and not {row[names.index(split)] for row in rows} <= set(SPLITS):
        doubts.append(f"column {split} may be the split; a card knows {', '.join(SPLITS)}")
        columns["split"] = None
    label, labels = columns["class"], _column(path, files[0], columns["class"]) or {}
    classes = sorted({*labels.values()})
    if not label or len(classes) > MOST_CLASSES:
        doubts.append(f"which column is the class, out of {', '.join(names)}; name it in columns")
    images = [row[names.index(files[0])] for row in rows]
    find = finder(path.parent, root)
    kind = _kind_of_most(find, images, doubts)
    row = FILE_KINDS[kind]
    doubts += [] if row.axis is None else [SLICES]
    columns |= {"mask": None} if row.says_person else {}
    named = {role: name for role, name in columns.items() if name and role != "class"}
    roles = {"path": files[0], "class": label or "?", **named}
    people = _column(path, files[0], columns["person"])
    keys: dict[str, object] = {
        "kind": "table",
        "path": path.relative_to(root).as_posix(),
        "channels": None,
        "classes": classes[:MOST_CLASSES] or ["?"],
        "columns": roles,
        "unit": "person" if row.says_person or columns["person"] else None,
        "formats": formats_of(images) if kind == "folder" else [row.format],
    }
    looks, faults = summarise_files(kind, find, images, most=HEADERS)
    return write_draft(path, Sketch(kind, looks, faults, keys, doubts, labels, people))


def _without_paths(table: Path, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return why no column of a table is of paths: one names files that are not there, or none."""
    ends = (*chain.from_iterable(FORMATS.values()), ".dcm", ".nii", ".nii.gz")
    for place, name in enumerate(names):
        if rows and all(row[place].lower().endswith(ends) for row in rows):
            lost = next(row[place] for row in rows if not _is_beside(table, row[place]))
            return (
                f"column {name} of {table} names {printable(lost, lines=False)}, which is not in "
                f"{table.parent}; write paths relative to the folder of the table"
            )
    return (
        f"{table} has no column of paths to images, out of {', '.join(names)}; add one, relative "
        "to its folder"
    )


def _kind_of_most(find: Find, images: Sequence[str], doubts: list[str]) -> str:
    """Return the kind of most files that a table lists; what is open of it goes to `doubts`."""
    kinds = Counter(kind_of(image, find) or "folder" for image in images)
    if len(kinds) > 1:
        doubts.append("images are of several kinds; a table has one: " + ", ".join(sorted(kinds)))
    return kinds.most_common(1)[0][0]


def _column(table: Path, file: str, column: str | None) -> dict[str, str] | None:
    """Return what a column of a table says of each file, which the column `file` names."""
    if column is None:
        return None
    faults: listing.Faults = []  # reported when the card is read
    rows = read_columns(table, {"file": file, "value": column}, faults)
    return {row["file"]: row["value"] for _, row in rows}


def _called(names: Sequence[str], calls: Sequence[str]) -> str | None:
    """Return the column that has one of some names, the first of them that is there."""
    plain = {name.lower().replace(" ", "_"): name for name in reversed(names)}
    return next((plain[call] for call in calls if call in plain), None)


def _is_beside(table: Path, name: str) -> bool:
    """Return whether a file is beside a table; of a name that no file can have, False."""
    return os.path.isfile(table.parent / name)  # noqa: PTH113 (raises)


def paths_in(table: Path) -> list[str]:
    """Return the columns whose values, as far as looked at, are all files beside a table.

    Parameters
    ----------
    table : Path
        Path of the table.
    """
    names, rows = read_head(table, 20)
    return [
        name
        for place, name in enumerate(names)
        if rows and all(row[place] and _is_beside(table, row[place]) for row in rows)
    ]


TABLE_DRAFTS = TableDrafts(paths_in, draft_table)
"""Drafts of cards for tables."""
