"""A draft of a card, from what lies in a folder: what is plain, what is a guess, what is open."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipeline.datasets.columns import read_columns, read_head
from pipeline.datasets.decoding import FORMATS
from pipeline.datasets.doors import stay_inside
from pipeline.datasets.drafted_card import Draft, write_draft
from pipeline.datasets.drafted_dicom import (
    Drafted,
    draft_segmentations,
    draft_slices,
    of_depths,
    sort_segmentations,
)
from pipeline.datasets.drafted_masks import Sorted, draft_masks, sort_masks
from pipeline.datasets.layouts import FEW, read_layout
from pipeline.datasets.looks import SAMPLE, TABLES, Look, kind_of, look_at, scan
from pipeline.datasets.source import SPLITS
from pipeline.errors import DatasetError, ImageError


@dataclass(frozen=True)
class Trait:
    """What files of one kind are like, as far as a draft depends on it.

    Attributes
    ----------
    word : str
        What they are called.
    format : str or None
        Their one format; None where ends of names tell.
    signed : bool
        Whether a file says whose it is, which image it belongs to, and where it lies.
    deep : bool
        Whether a file is many images, slices of one person's volume.
    """

    word: str
    format: str | None = None
    signed: bool = False
    deep: bool = False

    def formats(self, names: Sequence[str]) -> list[str] | None:
        """Return what a table's card says of formats."""
        return _formats(names) if self.format is None else [self.format]


TRAITS = {
    "folder": Trait("picture(s)"),
    "dicom": Trait("DICOM file(s)", "DICOM", signed=True),
    "nifti": Trait("NIfTI file(s)", "NIfTI", deep=True),
}
ALONE = "each file is taken for another person; name {person} in pattern where one has more"
SLICES = "axis = 2 cuts slices across the last axis; volumes = true takes volumes whole"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "class": ("class", "label", "diagnosis", "target", "category", "finding"),
    "split": ("split", "set", "partition"),
    "person": ("person", "patient", "patient_id", "patientid", "subject", "subject_id", "mrn"),
    "date": ("date", "study_date", "studydate", "taken", "acquired"),
    "mask": ("mask", "mask_path", "segmentation", "region"),
}
"""What columns of tables are usually called."""


def draft_card(path: Path, root: Path | None = None) -> Draft:
    """Return a draft for a folder of images, or for a table of them.

    Parameters
    ----------
    path : Path
        The folder, or the file of a table.
    root : Path, optional
        The data root, in which it lies; the folder above when left out.

    Raises
    ------
    DatasetError
        When there is no such folder, no image in it, or no table of images.
    """
    if not path.exists():
        raise DatasetError(f"{path} does not exist; name a folder of images, or a table of them")
    path = path.resolve()
    root = (root or path.parent).resolve()
    stay_inside(path, root, str(path))
    if path.is_file():
        if path.suffix.lower() not in TABLES:
            raise DatasetError(f"{path} is no folder, nor a table (.csv or .parquet)")
        return _of_table(path, root)
    found = scan(path)
    tables = [path / name for name in found.pop("table")]
    if len(tables) == 1 and _paths_in(tables[0]):
        return _of_table(tables[0], root)
    kinds = sorted(filter(found.get, found), key=lambda kind: (-len(found[kind]), kind == "folder"))
    if not kinds:
        raise DatasetError(
            f"{path} holds no image that can be read ({', '.join(FORMATS)}, DICOM, NIfTI); name "
            "the folder they are in"
        )
    return _of_folder(kinds[0], path, root, found, kinds[1:])


def _of_folder(
    kind: str, path: Path, root: Path, scanned: Mapping[str, list[str]], others: Sequence[str]
) -> Draft:
    """Draft a card of a folder of files of one kind, beside which `others` lie."""
    names, objects, trait = scanned[kind], list[str](), TRAITS[kind]
    if trait.signed:
        names, objects = sort_segmentations(path, names)
    beside = [] if objects else [x for one in others for x in scanned[one]]
    found = Sorted([*names], beside) if trait.signed else sort_masks(names)
    # of what says whose it is a guess from paths would take a patient of two series for two
    layout = read_layout(found.images, path.name, persons=not trait.signed)
    above = f"{path.name}/" if layout.from_above else ""
    alike = partial(_alike, kind, path)
    masks = draft_masks(found, layout, above, alike, shared=trait.signed)
    names = found.images if masks else names
    if found.masks and not masks and not trait.signed:  # a class may be called so
        layout = read_layout(names, path.name)
    doubts = [masks.doubt] if masks else []
    doubts += _left_out(kind, () if masks and trait.signed else others, scanned)
    base = path.parent if layout.from_above else path
    stay_inside(base, root, str(base))
    doubts += layout.open
    keys: dict[str, object] = {
        "kind": kind,
        "path": base.relative_to(root).as_posix(),
        "classes": list(layout.classes),
        "pattern": layout.pattern,
        "unit": "person" if trait.signed or trait.deep or layout.person else None,
        "formats": None if trait.format else trait.formats(names),
        "masks": masks and masks.masks,
        "axis": 2 if trait.deep else None,
    }
    doubts += ([SLICES] if layout.person else [SLICES, ALONE]) if trait.deep else []
    looks, faults = look_at(kind, path, names)
    drafted = [*_of_looks(kind, path, names, objects, looks)]
    for one in drafted:
        keys |= one.keys
        doubts += one.open
    return write_draft(
        path, keys, looks, faults, doubts, lines=[x for y in drafted for x in y.lines]
    )


def _left_out(kind: str, others: Sequence[str], scanned: Mapping[str, list[str]]) -> list[str]:
    """Return what is said of files of other kinds."""
    own = f"{len(scanned[kind])} {TRAITS[kind].word}"
    return [
        f"{len(scanned[other])} {TRAITS[other].word} beside {own} are not of this card; move them "
        "away, or leave them out by a narrower pattern"
        for other in others
    ]


def _of_looks(
    kind: str, path: Path, names: Sequence[str], objects: Sequence[str], looks: Sequence[Look]
) -> Iterator[Drafted]:
    """Yield what images say of their segmentations, and of volumes that they may be."""
    if objects and looks:
        yield draft_segmentations(path, objects, looks)
    if TRAITS[kind].signed and looks:
        yield draft_slices(looks, names)
    if TRAITS[kind].deep and looks:
        yield of_depths([look.sides[2] for look in looks], "in place of axis, ")


def _alike(kind: str, folder: Path, image: str, mask: str) -> bool:
    """Return whether an image and its mask have one size; what cannot be read has none."""
    if TRAITS[kind].signed:
        from pipeline.datasets.dicom_beside import fits
        from pipeline.datasets.dicom_files import known_by

        try:
            return fits(folder / mask, *known_by(folder / image))
        except ImageError:
            return False
    looks, _ = look_at(kind, folder, [image, mask])
    return len(looks) == 2 and looks[0].sides == looks[1].sides


def _of_table(path: Path, root: Path) -> Draft:
    """Draft a card of a table."""
    names, rows = read_head(path, SAMPLE)
    paths = _paths_in(path)
    if not paths:
        raise DatasetError(
            f"{path} has no column of paths to images, relative to its folder; correct the paths"
        )
    doubts = []
    columns = {role: _called(names, calls) for role, calls in COLUMNS.items()}
    files = [name for name in paths if name != columns["mask"]] or paths
    if len(files) > 1:
        doubts.append(f"columns {', '.join(files)} hold paths; {files[0]} is taken for the images'")
    if columns["mask"] not in paths:
        columns["mask"] = None
    split = columns["split"]
    if split and not {row[names.index(split)] for row in rows} <= set(SPLITS):
        doubts.append(f"column {split} may be the split; a card knows {', '.join(SPLITS)}")
        columns["split"] = None
    classes: list[str] = []
    if label := columns["class"]:
        classes = sorted({said["class"] for _, said in read_columns(path, {"class": label})})
    if not label or len(classes) > FEW:
        doubts.append(f"which column is the class, out of {', '.join(names)}; name it in columns")
    images = [row[names.index(files[0])] for row in rows]
    kind = _kind_of_all(path.parent, images, doubts)
    trait = TRAITS[kind]
    columns["mask"] = None if trait.signed else columns["mask"]
    kept = {"path": files[0], "class": label or "?"}
    kept |= {role: name for role, name in columns.items() if name and role != "class"}
    own = trait.signed and not columns["person"]
    keys: dict[str, object] = {
        "kind": "table",
        "path": path.relative_to(root).as_posix(),
        "classes": classes[:FEW] or ["?"],
        "columns": kept,
        "unit": "person" if own or columns["person"] else None,
        "formats": trait.formats(images),
        "axis": 2 if trait.deep else None,
    }
    looks, faults = look_at(kind, path.parent, images)
    return write_draft(path, keys, looks, faults, doubts, own=own)


def _kind_of_all(folder: Path, images: Sequence[str], doubts: list[str]) -> str:
    """Return the kind of most files that a table lists; what is open of it goes to `doubts`."""
    kinds = Counter(kind_of(folder / image) or "folder" for image in images)
    if len(kinds) > 1:
        doubts.append("images are of several kinds; a table has one: " + ", ".join(sorted(kinds)))
    kind = kinds.most_common(1)[0][0]
    doubts += [SLICES] if TRAITS[kind].deep else []
    return kind


def _called(names: Sequence[str], calls: Sequence[str]) -> str | None:
    """Return the column that has one of some names, the first of them that is there."""
    plain = {name.lower().replace(" ", "_"): name for name in reversed(names)}
    return next((plain[call] for call in calls if call in plain), None)


def _paths_in(table: Path) -> list[str]:
    """Return the columns whose values, as far as looked at, are all files beside a table."""
    names, rows = read_head(table, 20)
    return [
        name
        for place, name in enumerate(names)
        if rows and all(row[place] and (table.parent / row[place]).is_file() for row in rows)
    ]


def _formats(names: Sequence[str]) -> list[str] | None:
    """Return the formats of pictures, unless they are those that a card reads anyway."""
    found = {
        kind for kind, ends in FORMATS.items() for name in names if name.lower().endswith(ends)
    }
    return None if found <= {"PNG", "JPEG"} else [kind for kind in FORMATS if kind in found]
