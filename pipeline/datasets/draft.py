"""A draft of a card, from what is in a folder: what is plain, what is a guess, what is open.

Files are known by their names and marks, classes, splits and persons by their paths, sizes and
depths by some headers.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

from covdp.datasets import listing
from covdp.datasets.cards import FORMATS, NARROWEST_IMAGE
from covdp.datasets.source import SPLITS, check_person
from covdp.datasets.summary import (
    FILE_KINDS,
    HEADERS,
    FileCount,
    FileKind,
    FileSummaries,
    OddFile,
    by,
    count_files,
    odd_files,
    summarise_files,
)
from covdp.errors import DatasetError, ImageError, printable, require_known
from covdp.registry import Registry
from covdp.toml import to_toml

TABLE_ENDS = (".csv", ".parquet")

HEAD_BYTES = 132
"""Bytes at the beginning of a file that may hold its mark."""

Find: TypeAlias = Callable[[str], Path]
"""Absolute path of a file, links followed, by its relative path; raises `ImageError` out of the
root."""


def finder(folder: Path, root: Path) -> Find:
    """Return the finder of the files of a folder in the data root.

    Parameters
    ----------
    folder : Path
        Folder of the images.
    root : Path
        Data root.
    """
    follow = listing.follower(root)
    return lambda name: Path(follow(f"{folder}/{name}"))


def scan(folder: Path, root: Path) -> dict[str, list[str]]:
    """Return the relative paths of files by the kind of card that reads them, in order.

    Hidden ones are left out, and tables in folders below. Links to files are followed, and those
    to folders in this one, as they may be classes.

    Parameters
    ----------
    folder : Path
        Folder of the images.
    root : Path
        Data root.

    Raises
    ------
    ImageError
        When a folder cannot be listed, or is too deep.
    """
    names_of_kind: dict[str, list[str]] = {name: [] for name in (*FILE_KINDS, "table")}
    faults, find = listing.Faults(), finder(folder, root)
    patterns = listing.fill("*", {}), listing.fill("*/**/*", {})
    found = (listing.find_files(folder, pattern, root, faults) for pattern in patterns)
    for entry in chain.from_iterable(found):
        *above, name = entry.relative.lower().split("/")
        if entry.folder or _is_hidden(above) or name == "dicomdir":
            continue
        kind = kind_of(entry.relative, find)
        if name.endswith(TABLE_ENDS) and not above:
            kind = "table"
        if kind is not None:
            names_of_kind[kind].append(entry.relative)
    for fault in faults:
        hidden = _is_hidden(Path(os.path.relpath(fault.file, folder)).parts)
        if not hidden and not Path(fault.file).is_symlink():
            raise fault.error
    return names_of_kind


def _is_hidden(above: Sequence[str]) -> bool:
    return any(name.startswith(".") for name in above)


def kind_of(name: str, find: Find) -> str | None:
    """Return the kind of card that reads a file, by its name or its mark; None for no image.

    Parameters
    ----------
    name : str
        Path relative to the folder.
    find : Find
        Finder of the folder's files, as of `finder`.
    """
    for kind, row in FILE_KINDS.items():
        if name.lower().endswith(row.ends):
            return kind
    if any(map(str.isalpha, Path(name).suffix)):
        return None
    try:
        with listing.open_regular(find(name)) as stream:
            head = stream.read(HEAD_BYTES)
    except (OSError, EOFError, ImageError):
        return None
    marks = {kind: row.mark for kind, row in FILE_KINDS.items() if row.mark[1]}
    return next((kind for kind, (at, mark) in marks.items() if head[at:].startswith(mark)), None)


MOST_CLASSES = 50
"""Classes that names of folders or files may be taken for; more are rather persons."""

FEW_CLASSES, FEW_IMAGES = 5, 10
"""More classes of fewer images, on average, may be persons."""

OTHER_SPLITS = ("training", "valid", "validation", "dev", "testing")


@dataclass(frozen=True)
class PathLayout:
    """A reading of paths.

    Attributes
    ----------
    pattern : str
        Paths of the images, with ``{class}``.
    labels : list of str
        The class of each image.
    open : list of str
        Guesses, and questions that could not be decided.
    persons : list of str or None
        Person of each image; None where the pattern does not name ``{person}``.
    from_above : bool
        True if the pattern begins in the folder above, as the folder is the only class.
    """

    pattern: str
    labels: list[str]
    open: list[str]
    persons: list[str] | None = None
    from_above: bool = False

    @property
    def classes(self) -> list[str]:
        """The names of the classes, sorted."""
        return sorted(set(self.labels))


def read_layout(paths: Sequence[str], folder: str, *, persons: bool = True) -> PathLayout:
    """Return the layout of the relative paths of images; `folder` is the name of theirs.

    Folders that hold nothing but one folder are passed; then come splits, if all have such names;
    then classes. Where the images are in one folder, the beginnings of their names are tried, and
    last all are one class. Persons are searched only where `persons` says so.

    Parameters
    ----------
    paths : sequence of str
        Paths relative to the folder, with ``/``.
    folder : str
        Name of the folder.
    persons : bool
        True to search names of persons.
    """
    parts = [path.split("/") for path in paths]
    before: list[str] = []
    while len({part[0] for part in parts}) == 1 and all(len(part) > 2 for part in parts):
        before.append(re.sub(r"[*?\[{]", r"[\g<0>]", parts[0][0]))
        parts = [part[1:] for part in parts]
    doubts = []
    first = {part[0] for part in parts}
    if first <= set(SPLITS) and all(len(part) > 2 for part in parts):
        before.append("{split}")
        parts = [part[1:] for part in parts]
    elif strange := first & set(OTHER_SPLITS):
        doubts.append(
            f"folder '{min(strange)}' may be a split; a card knows {', '.join(SPLITS)}: rename it"
        )
    if all(len(part) > 1 for part in parts) and _are_classes({part[0] for part in parts}):
        labels = [part[0] for part in parts]
        owners, rest = _below([part[1:] for part in parts], labels, persons)
        if owners:
            doubts.append(
                "persons are a guess from the paths; correct `pattern`, or take `unit` and "
                "{person} out if every image is of another person"
            )
        elif persons:
            doubts += _hidden_persons([part[1:] for part in parts], labels)
        return PathLayout("/".join([*before, "{class}", *rest]), labels, doubts, owners)
    for between in "-_" if all(len(part) == 1 for part in parts) else "":
        if labels := _beginnings([name for (name,) in parts], between):
            doubts.append(
                f"classes are the beginnings of file names, {', '.join(sorted(set(labels)))}: "
                "correct classes and pattern if they are not"
            )
            return PathLayout("/".join([*before, "{class}" + between + "*"]), labels, doubts)
    doubts.append(
        "no folders or names that look like classes: all images are one class; correct classes and "
        "pattern if they are not"
    )
    deeper = ["**"] if any(len(part) > 1 for part in parts) else []
    return _one_class(folder, [*before, *deeper], len(paths), doubts)


def _hidden_persons(parts: list[list[str]], labels: list[str]) -> list[str]:
    """Return the warning on a few images that are not in a folder of one person as all others."""
    places = [place for place, part in enumerate(parts) if len(part) == 2]
    strays = len(parts) - len(places)
    people, classes = [parts[place][0] for place in places], [labels[place] for place in places]
    if not 0 < strays <= len(parts) / 10 or not _repeats(people, classes):
        return []
    return [
        f"{strays} image(s) are not in a folder of one person, as all others may be, so persons "
        "are not guessed; move them and draft again, or each image is protected by itself"
    ]


def _one_class(folder: str, between: Sequence[str], n: int, doubts: list[str]) -> PathLayout:
    """Return the layout in which a folder is the only class."""
    pattern = "/".join(["{class}", *between, "*"])
    return PathLayout(pattern, [folder] * n, doubts, from_above=True)


def _are_classes(names: set[str]) -> bool:
    """Return whether folders may be classes: some, and each named as a class can be."""
    return 1 <= len(names) <= MOST_CLASSES and all(
        name.isprintable() and name == name.strip() for name in names
    )


def _below(
    parts: list[list[str]], labels: list[str], persons: bool
) -> tuple[list[str] | None, list[str]]:
    """Return whose each path below a class is, if they say so, and the pattern of them."""
    depths = {len(part) for part in parts}
    folders = [part[0] for part in parts]
    if persons and depths == {2} and _repeats(folders, labels):
        return folders, ["{person}", "*"]
    if depths != {1}:
        return None, ["**", "*"]
    for between in "-_" if persons else "":
        fields = [name.rpartition(".")[0].split(between) for name in folders]
        plain = all(
            len(field) == 2 and field[0].strip() and field[1].isdecimal() for field in fields
        )
        owners = [field[0] for field in fields]
        if plain and _repeats(owners, labels):
            return owners, ["{person}" + between + "*"]
    return None, ["*"]


def _repeats(persons: list[str], labels: list[str]) -> bool:
    """Return whether names are persons': several a class, half of them with several images."""
    images: dict[str, Counter[str]] = defaultdict(Counter)
    for person, label in zip(persons, labels, strict=True):
        images[label][person] += 1
    return all(
        len(counts) > 1 and 2 * sum(n > 1 for n in counts.values()) >= len(counts)
        for counts in images.values()
    )


def _beginnings(names: list[str], between: str) -> list[str]:
    """Return the word that each file name begins with, if these may be classes; else none."""
    words = [name.partition(between)[0] for name in names if between in name]
    counts = Counter(words)
    may_be = 2 <= len(counts) <= 20 and min(counts.values()) > 1 and all(map(str.isalpha, counts))
    return words if may_be and len(words) == len(names) else []


_MASK = re.compile(
    r"(^|/)(masks?|segs?|segmentations?|rois?|regions)/|[-_. ](mask|seg|segmentation|roi)"
    r"([-_. ]?[0-9]+)?$",
    re.IGNORECASE,
)
"""Usual names of folders of masks, and usual ends of the names of masks."""


def _is_mask(kind: str, find: Find, name: str) -> bool:
    """Return whether a file is no image but a mask.

    DICOM says itself what is a segmentation (DICOM SEG); others look like masks by the name of a
    folder, or the end of their own.
    """
    says = FILE_KINDS[kind].is_mask
    if says is None:
        return bool(_MASK.search(listing.stem_of(name)))
    try:
        return says(find(name))
    except ImageError:  # reported when it is opened
        return False


@dataclass(frozen=True)
class Sketch:
    """Facts that are known of a card so far.

    Attributes
    ----------
    kind : str
        Kind of its images.
    looks : dict
        Some of its files.
    faults : dict
        Faults of images that say nothing, by their paths.
    keys : dict
        Its keys; those that are None are left out.
    open : list of str
        Guesses, and questions that could not be decided.
    labels : mapping of str to str
        Path of an image to its class.
    persons : mapping of str to str, optional
        Path of an image to its person; None where files of DICOM say it themselves, or nothing.
    lines : list of str
        Further keys that it may have, in comments.
    above : str
        Path of the folder in the dataset, with a slash, if that is the folder above; else "".
    """

    kind: str
    looks: FileSummaries
    faults: Mapping[str, ImageError]
    keys: dict[str, object]
    open: list[str]
    labels: Mapping[str, str]
    persons: Mapping[str, str] | None
    lines: list[str] = field(default_factory=list)
    above: str = ""

    @property
    def row(self) -> FileKind:
        """Kind of its files."""
        return FILE_KINDS[self.kind]


def _add_masks(sketch: Sketch, masks: set[str]) -> None:
    """Say where segmentations of DICOM are; where other masks are is not guessed."""
    if sketch.row.is_mask is None:
        sketch.open.append(
            f"{len(masks)} file(s) look like masks; say where they are by masks in the card, "
            "so that none is taken for an image"
        )
        return
    above = os.path.commonpath([os.path.dirname(name) for name in masks])  # noqa: PTH120
    sketch.keys["masks"] = f"{above}/**/*" if above else "**/*"
    sketch.lines.append('# segments = [1]  # or "all": which are inside, where there are several')
    sketch.lines.append('# frames = "masked"  # leaves out images that no segmentation is of')
    sketch.open.append(f"masks: {len(masks)} file(s) are segmentations")


def _add_depths(sketch: Sketch) -> None:
    """Say how many slices volumes have: NIfTI files, or series of DICOM if each may be one.

    Where there are more files than are looked at, all DICOM files of a folder are taken for one
    series, if two of those looked at are of one. Radiographs are not: each is a series of its own.
    """
    depths, looks = Counter[str](), sketch.looks.values()
    for look in looks:
        depths[look.series] += look.slices
    single = max(look.slices for look in looks) == 1
    if single and len(looks) < len(sketch.labels) and max(depths.values()) > 1:
        depths = Counter(name.rpartition("/")[0] for name in sketch.labels)
    fewest, most = min(depths.values()), max(depths.values())
    if fewest < 2:
        return
    instead = "in place of axis, " if sketch.row.axis is not None else ""
    sketch.lines.append(f"# volumes = true  # {instead}whole volumes, for descriptor vol7")
    if fewest < most:
        sketch.lines.append(f"# slices = [{fewest}, {most}]  # with it, fewest and most slices")
        sketch.open.append(
            f"volumes have {fewest} to {most} slices: with volumes = true add slices, fewest and "
            "most of a volume; this range becomes public"
        )


USUAL_SIDES = (224, 128, 64, 28)
"""Sides that a draft chooses from where images have different sizes."""


class DraftedClass(NamedTuple):
    """Numbers of images and persons of a class; None where nothing tells persons apart.

    Attributes
    ----------
    name : str
        Name of the class.
    images : int
        Number of images.
    persons : int or None
        Number of persons; None where nothing tells them apart.
    """

    name: str
    images: int
    persons: int | None


@dataclass(frozen=True)
class Draft:
    """A card that could be.

    Attributes
    ----------
    card : str
        TOML.
    open : tuple of str
        Guesses, and questions that could not be decided; empty when the card can be used as it is.
    unit : str
        Whom it protects: "person" or "image".
    counts : tuple of DraftedClass
        Numbers of images and persons by class, as private as the images.
    sampled : bool
        True if persons were counted in some of the files only.
    files : tuple of FileCount
        Depths, sizes, colours, modalities and ranges of values, each with its number of files.
    odd : tuple of OddFile
        Files that differ from nearly all others or cannot be read, by their paths in the dataset.
    exclude : str
        File beside the card that leaves out those of `odd` that no key cures; "" where none are.
    """

    card: str
    open: tuple[str, ...]
    unit: str
    counts: tuple[DraftedClass, ...]
    sampled: bool
    files: tuple[FileCount, ...]
    odd: tuple[OddFile, ...]
    exclude: str

    @property
    def exclusions(self) -> bytes:
        """Content of the file `exclude`."""
        rows = (f"{x.file}\n" for x in self.odd if not x.curable)
        return "".join(rows).encode(errors="surrogateescape")


def _persons_of(sketch: Sketch) -> Mapping[str, str]:
    """Return the person of each image: what files say themselves where nothing else does."""
    if sketch.persons is not None:
        return sketch.persons
    return {name: look.person for name, look in sketch.looks.items() if look.person}


def _without_nobody(sketch: Sketch) -> Sketch:
    """Return it with the images of persons that are not known among those of no use."""
    faults = dict(sketch.faults)
    for name, person in _persons_of(sketch).items() if sketch.keys["unit"] else ():
        try:
            check_person(person, printable(name, lines=False))
        except ImageError as error:
            faults[name] = error
    looks = {name: look for name, look in sketch.looks.items() if name not in faults}
    return replace(sketch, looks=looks, faults=faults)


def _count_classes(sketch: Sketch, out: AbstractSet[str]) -> tuple[tuple[DraftedClass, ...], int]:
    """Return what each class has, less what is left out, and how many persons are in several.

    Each counts in the first of them, with its images there, as `ImageSource.select` has it.
    """
    persons = _persons_of(sketch)
    classes_of = defaultdict[str, set[str]](set)
    labels = {name: label for name, label in sketch.labels.items() if name not in out}
    for name in persons.keys() & labels.keys() if sketch.keys["unit"] else ():
        classes_of[persons[name]].add(labels[name])
    people, others = Counter(map(min, classes_of.values())), Counter[str]()
    for name, label in labels.items() if classes_of else ():
        others[label] += label != min(classes_of.get(persons.get(name, ""), {label}))
    counts = tuple(
        DraftedClass(name, n - others[name], people[name] if people else None)
        for name, n in sorted(Counter(labels.values()).items())
    )
    return counts, sum(len(classes) > 1 for classes in classes_of.values())


def _add_size(sketch: Sketch, usual: FileSummaries) -> list[str]:
    """Say of which size images are; return the comment where they have one."""
    sides = {look.sides for look in usual.values()}
    if len(sides) == 1:
        some = len(sketch.looks) < len(sketch.labels) or len(usual) < len(sketch.looks)
        which = f"{len(usual):,} of {len(sketch.labels):,}" if some else "all"
        return [f"# {which} images have {by(min(sides))} pixels"]
    shortest = min(map(min, sides))
    least = max(shortest, NARROWEST_IMAGE)
    low, high = (tuple(map(end, zip(*sides, strict=True))) for end in (min, max))
    size = sketch.keys["size"] = next((size for size in USUAL_SIDES if size <= shortest), least)
    usual_sides = ", ".join(map(str, reversed(USUAL_SIDES)))
    rule = f"the largest of {usual_sides}" if size in USUAL_SIDES else "the side"
    sketch.open.append(
        f"images have {len(sides)} sizes, heights and widths from {by(low)} to {by(high)}; size = "
        f"{size}, {rule} that the smallest image has, becomes public and makes them square by "
        "cropping; fit names other ways"
    )
    return []


def _add_window(sketch: Sketch, usual: FileSummaries) -> list[str]:
    """Say how many files have which depth and range; return the comment where they need a window.

    It is one window for all files, so those that need none would become nearly black.
    """
    deep = {name: look for name, look in usual.items() if look.deep}
    if not deep:
        return []
    counts = count_files(usual)
    said = "; ".join(
        f"{feature}: " + ", ".join(f"{x.files:,} {x.value}" for x in counts if x.feature == feature)
        for feature in ("depth", "values", "modality")
        if any(x.feature == feature for x in counts)
    )
    doubt = f"values have more than 8 bits; set window to those that become 0 and 255 ({said})"
    if len(deep) < len(usual):
        doubt += (
            f"; {len(usual) - len(deep):,} of {len(usual):,} files need no window and would become "
            "dark under one made for the others: give them a card of their own"
        )
    sketch.open.append(doubt)
    return ['# window = [low, high]  # or "image", for values of more than 8 bits']


NAMED_ODD = 5
"""Odd files that are named, each in a warning of its own."""


def _add_odd(sketch: Sketch, path: Path) -> tuple[list[OddFile], FileSummaries]:
    """Name the files that are odd or cannot be read; return them, and the summaries of the others.

    One of its depth, size or colour goes to `exclude`, as a window or size for its sake would
    change all others.
    """
    found = odd_files(sketch.looks)
    found += [OddFile(name, str(error), False) for name, error in sketch.faults.items()]
    out = {x.file for x in found if not x.curable}
    if sketch.faults:
        reason = next(map(str, sketch.faults.values()))
        sketch.open.append(f"files that cannot be read: {len(sketch.faults)}; the first: {reason}")
    shown = [x for x in found if x.file not in sketch.faults]
    sketch.open.extend(
        f"odd file {printable(x.file, lines=False)}: {x.reason}" for x in shown[:NAMED_ODD]
    )
    if len(shown) > NAMED_ODD:
        sketch.open.append(f"{len(shown) - NAMED_ODD:,} more files are odd; --json names all")
    if out:
        sketch.keys["exclude"] = f"{re.sub('[^A-Za-z0-9._-]+', '-', path.stem)}-excluded.txt"
        sketch.open.append(f"files that {sketch.keys['exclude']} leaves out: {len(out):,}")
    odd = [x._replace(file=f"{sketch.above}{x.file}") for x in sorted(found)]
    return odd, {name: look for name, look in sketch.looks.items() if name not in out}


def _add_names(sketch: Sketch) -> None:
    """Say where files name no person, and where a path cannot stand in a card."""
    own = sketch.row.says_person and sketch.persons is None
    if own and not all(look.person for look in sketch.looks.values()):
        sketch.keys["unit"] = None
        sketch.open.append(
            'some files have no PatientID; unit = "person" needs {person} in pattern, or a column'
        )
    if not str(sketch.keys["path"]).isprintable():
        sketch.open.append(
            "the path has letters that cannot be printed, which no card may: rename it"
        )


def write_draft(path: Path, sketch: Sketch) -> Draft:
    """Return a draft with what some images themselves say.

    Parameters
    ----------
    path : Path
        Path of the images.
    sketch : Sketch
        Layout and format of the images.
    """
    sketch = _without_nobody(sketch)
    if not sketch.looks:
        first = next(iter(sketch.faults.values()))
        raise DatasetError(f"none of the images can be read; the first: {first}")
    looks, keys, doubts = sketch.looks.values(), sketch.keys, sketch.open
    _add_names(sketch)
    odd, usual = _add_odd(sketch, path)
    colours = {look.colour for look in usual.values()} - {None}
    if len(colours) > 1:
        doubts.append("some images are gray and some in colour; choose channels, leave some out")
    keys["channels"] = 3 if True in colours else 1
    keys["axis"] = sketch.row.axis
    lines = [*_add_size(sketch, usual), *_add_window(sketch, usual)]
    patients = sorted({*sketch.labels.values()} & {look.person for look in looks})
    doubts += [_named_by_patients(patients)] if patients else []
    sampled = sketch.persons is None and len(looks) + len(sketch.faults) < len(sketch.labels)
    counts, shared = _count_classes(sketch, {*sketch.faults, *sketch.looks} - {*usual})
    if shared:
        doubts.append(
            f"{'at least ' * sampled}{shared:,} person(s) have images in several classes, and "
            "count in the first of `classes`; `classes_per_person = 2` counts them in two"
        )
    named = printable(path.name, lines=False)
    written = [f"# drafted from {len(looks):,} files of {named}; keys: data/README.md"]
    written += [
        f"{key} = {to_toml(value, DatasetError)}"
        for key, value in keys.items()
        if value is not None
    ]
    return Draft(
        "\n".join([*written, *lines, *sketch.lines]) + "\n",
        tuple(doubts),
        str(keys["unit"] or "image"),
        counts,
        sampled,
        count_files(sketch.looks),
        tuple(odd),
        str(keys.get("exclude", "")),
    )


def _named_by_patients(classes: Sequence[str]) -> str:
    """Return the warning that classes have the names of patients."""
    shown = ", ".join(printable(name, lines=False) for name in classes[:3])
    more = f" and {len(classes) - 3} more" * (len(classes) > 3)
    return (
        f"class names that are PatientIDs: {shown}{more}; a release publishes the names of its "
        "classes: rename them in the folder or the table, or correct classes and pattern"
    )


ALONE = "each file is taken for another person; name {person} in pattern where one has more"

SLICES = (
    "axis = 2 makes an image of each slice across the last axis; volumes = true makes one volume "
    "of each file"
)


class TableDrafts(NamedTuple):
    """Functions that draft a card for a table of images.

    Attributes
    ----------
    paths_in : callable
        ``paths_in(table)``: columns that hold paths of images.
    draft : callable
        ``draft(table, root)`` → `Draft`.
    """

    paths_in: Callable[[Path], list[str]]
    draft: Callable[[Path, Path], Draft]


DRAFTS = Registry[TableDrafts]("table_drafts", {})
"""``table``: how tables are drafted."""


def draft_card(path: Path, root: Path | None = None) -> Draft:
    """Return a draft for a folder of images, or for a table of them.

    Parameters
    ----------
    path : Path
        The folder, or the file of a table.
    root : Path, optional
        The data root, in which it is; the folder above when left out.

    Raises
    ------
    DatasetError
        When there is no such folder, no image in it, or no table of images.
    """
    if not os.access(path, os.F_OK):
        raise DatasetError(
            f"{path} does not exist, or you may not see it; name a folder of images, or a table"
        )
    path = path.resolve()
    root = (root or path.parent).resolve()
    listing.require_inside(path, root, str(path))
    if path.is_file():
        if path.suffix.lower() == ".npz":
            raise DatasetError(
                f"{path} is an array file: write its card by hand (data/README.md: an array file)"
            )
        if path.suffix.lower() not in TABLE_ENDS:
            raise DatasetError(
                f"{path} is no folder, nor a table (.csv, .parquet); name its folder"
            )
        require_known("kind of draft", "table", DRAFTS, "tables are read by an add-on")
        return DRAFTS["table"].draft(path, root)
    scanned = scan(path, root)
    tables = [path / name for name in scanned.pop("table")]
    if len(tables) == 1 and "table" in DRAFTS and DRAFTS["table"].paths_in(tables[0]):
        return DRAFTS["table"].draft(tables[0], root)
    kinds = sorted(
        filter(scanned.get, scanned), key=lambda kind: (-len(scanned[kind]), kind == "folder")
    )
    if not kinds:
        for kind in FILE_KINDS:
            FILE_KINDS[kind]  # names the extra that would read others
        raise DatasetError(
            f"{path} holds no image that can be read ({', '.join(FORMATS)}, DICOM, NIfTI); name "
            "the folder they are in"
        )
    return _of_folder(kinds[0], path, root, scanned, kinds[1:])


def _of_folder(
    kind: str, path: Path, root: Path, scanned: Mapping[str, list[str]], others: Sequence[str]
) -> Draft:
    """Draft a card of a folder of files of one kind, beside which `others` are."""
    row, find = FILE_KINDS[kind], finder(path, root)
    masks = {name for name in scanned[kind] if _is_mask(kind, find, name)}
    images = [name for name in scanned[kind] if name not in masks]
    if not images:  # where all look like masks, they are images
        images, masks = scanned[kind], set()
    # of what says whose it is a guess from paths would take a patient of two series for two
    layout = read_layout(images, path.name, persons=not row.says_person)
    looks, faults = summarise_files(kind, find, images, most=HEADERS)
    layout = _without_patients(layout, path.name, looks)
    base = path.parent if layout.from_above else path
    listing.require_inside(base, root, str(base))
    keys: dict[str, object] = {
        "kind": kind,
        "path": base.relative_to(root).as_posix(),
        "channels": None,
        "classes": layout.classes,
        "pattern": layout.pattern,
        "unit": "person" if kind != "folder" or layout.persons else None,
        "formats": formats_of(images) if kind == "folder" else None,
    }
    owners = layout.persons or (images if row.alone else None)
    labels = dict(zip(images, layout.labels, strict=True))
    persons = dict(zip(images, owners, strict=True)) if owners else None
    above = f"{path.name}/" * layout.from_above
    sketch = Sketch(kind, looks, faults, keys, [], labels, persons, above=above)
    if masks:
        _add_masks(sketch, masks)
    for other in others:
        sketch.open.append(
            f"{len(scanned[other])} {FILE_KINDS[other].words} beside {len(scanned[kind])} "
            f"{row.words} are not of this card; move them away, leave them out by a "
            "narrower pattern, or name them by masks if they are masks"
        )
    sketch.open.extend(layout.open)
    sketch.open.extend(_odd_folders(path, layout, chain.from_iterable(scanned.values())))
    if row.axis is not None:
        sketch.open.extend([SLICES] if layout.persons else [SLICES, ALONE])
    if kind != "folder" and looks:
        _add_depths(sketch)
    return write_draft(path, sketch)


def _odd_folders(folder: Path, layout: PathLayout, names: Iterable[str]) -> list[str]:
    """Return the warnings on many folders of few images, and on those in which no file is."""
    above = [] if layout.from_above else listing.above_classes(folder, layout.pattern) or []
    full = {f"{name.rpartition('/')[0]}/" for name in names}
    empty = [
        printable(place.name, lines=False)
        for place in sorted(chain.from_iterable(map(Path.iterdir, above)))
        if place.is_dir() and not _is_hidden([place.name])
        if not any(name.startswith(f"{place.relative_to(folder).as_posix()}/") for name in full)
    ]
    doubts = [f"no image is in {', '.join(empty)}; add it to classes if it is one"] * bool(empty)
    if FEW_CLASSES < len(layout.classes) > len(layout.labels) / FEW_IMAGES:
        doubts.append(
            f"{len(layout.classes)} classes of few images each; if they are persons, name them by "
            "{person} in pattern: a release publishes the names of its classes"
        )
    return doubts


def _without_patients(layout: PathLayout, folder: str, looks: FileSummaries) -> PathLayout:
    """Return a layout; that of one class where all classes have the names of patients."""
    if len(layout.classes) < 2 or not {look.person for look in looks.values()}.issuperset(
        layout.classes
    ):
        return layout
    doubt = (
        f"the {len(layout.classes)} folders have the names of PatientIDs, which are no "
        "classes: all images are one class; for more, name folders by what was found"
    )
    return _one_class(folder, ["**"], len(layout.labels), [doubt])


def formats_of(names: Sequence[str]) -> list[str] | None:
    """Return the formats of pictures, unless they are those that a card reads anyway.

    Parameters
    ----------
    names : sequence of str
        Names of the pictures.
    """
    formats = {
        kind for kind, ends in FORMATS.items() for name in names if name.lower().endswith(ends)
    }
    return None if formats <= {"PNG", "JPEG"} else [kind for kind in FORMATS if kind in formats]
