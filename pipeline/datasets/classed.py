"""Which file is in which class and split, whose it is and of which day: by a card's pattern."""

import itertools
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator as check

from covdp.arrays import LabelArray, counting
from covdp.datasets import listing
from covdp.datasets.cards import FORMATS, LocalFilesCard, goes_down
from covdp.datasets.source import (
    SPLITS,
    ImageSource,
    Reader,
    Rows,
    check_extent,
    check_person,
    check_volume,
)
from covdp.errors import DatasetError, ImageError, image_error

FOREIGN_ENDS = (
    ".dcm", ".dicom", ".ima", ".nii", ".nii.gz", ".hdr", ".img", ".nrrd", ".mha", ".mhd", ".svs",
    ".ndpi", ".mrxs", ".czi", ".heic", ".heif", ".avif", ".jxl", ".tga", ".psd", ".eps", ".svg",
    ".exr",
)  # fmt: skip

IMAGE_ENDS = (*FOREIGN_ENDS, *(end for ends in FORMATS.values() for end in ends))
"""Ends of names of image files, of any kind: none is skipped without a message."""


class PatternCard(LocalFilesCard):
    """A card that finds its files by a pattern.

    Attributes
    ----------
    pattern : str
        Paths of the images, with ``{class}`` and, where wanted, ``{split}``, ``{person}`` and
        ``{date}`` (`covdp.datasets.listing`).
    masks : str, optional
        Path of the mask of an image, with names of the pattern, and ``*`` for the name of the image
        without its end.
    """

    pattern: str = "{class}/*"
    masks: str | None = None

    @property
    def ends(self) -> Mapping[Any, tuple[str, ...]]:
        """The ends of names of files that are read, in lower case, by format."""
        return FORMATS

    @property
    def beside(self) -> str | None:
        """The pattern of masks that are found by the names of images."""
        return self.masks

    @property
    def person_from(self) -> str | None:
        """The pattern, where it names persons."""
        return self.pattern if "{person}" in self.pattern else None

    @check(mode="after")
    def _pattern_fits(self) -> Self:
        listing.check_pattern(self.pattern)
        if self.beside is not None:
            listing.check_masks(self.beside, self.pattern, shared=self.shared)
        for name in self.classes:
            if not goes_down(self.pattern.replace("{class}", name)):
                raise ValueError(f"class {name!r} would lead out of the folder")
        return self


@dataclass(frozen=True, eq=False)
class ClassedFiles:
    """The files of a dataset, by split, class and path.

    Attributes
    ----------
    names : listing.Paths
        Paths of the files.
    label_of, split_of : array of int, shape (n,)
        Class and split of each.
    people : (n,) str or None
        Person of each file, where the pattern says so.
    dates : array of datetime64, shape (n,), or None
        Day of each file, where the pattern has days.
    left_out : array of int64, shape (3, classes)
        Number of files of each split and class that the card's list leaves out.
    masks : listing.Paths or None
        Path of the mask of each file, where the card has masks.
    """

    names: listing.Paths
    label_of: LabelArray
    split_of: NDArray[np.signedinteger[Any]]
    people: NDArray[np.str_] | None
    dates: NDArray[np.datetime64] | None
    left_out: NDArray[np.int64]
    masks: listing.Paths | None = None


class FileRow(NamedTuple):
    """One file, and what a pattern or a row of a table says of it; a mask by its path.

    Attributes
    ----------
    path : str
        Path relative to the folder.
    label : int
        Index of the class.
    split : int
        Index of the split.
    person : str
        Name of the person.
    day : date, optional
        Day of the image.
    mask : str
        Path of the mask.
    """

    path: str
    label: int
    split: int
    person: str = ""
    day: date | None = None
    mask: str = ""


def collect(
    card: LocalFilesCard, rows: Iterable[FileRow], left_out: NDArray[np.int64]
) -> ClassedFiles:
    """Return files as they are held; persons, days and masks where rows, then all, have them.

    Parameters
    ----------
    card : LocalFilesCard
        Card of the dataset.
    rows : iterable of FileRow
        Files with their class, and person, day and mask where the card has them.
    left_out : array of int, shape (classes,)
        Number of files left out of each class.
    """
    labels, splits, persons, masks = array("q"), array("b"), list[str](), list[str]()
    days = list[date]()

    def paths() -> Iterator[str]:
        for row in rows:
            labels.append(row.label)
            splits.append(row.split)
            if row.person:
                persons.append(row.person)
            if row.day:
                days.append(row.day)
            if row.mask:
                masks.append(row.mask)
            yield row.path

    return ClassedFiles(
        listing.packed(paths()),
        np.array(labels, counting(len(card.classes))),
        np.array(splits, counting(len(SPLITS))),
        np.array(persons, np.str_) if persons else None,
        np.array(days, "datetime64[D]") if days else None,
        left_out,
        listing.packed(masks) if masks else None,
    )


COPIES = "A copy of an image counts once more."

SQUARED = {"crop": "cropped to their central square", "pad": "padded", "stretch": "stretched"}
"""Words for the ways to make an image square."""


def make_source(
    card: LocalFilesCard,
    files: ClassedFiles,
    path: Path,
    shape: tuple[int, ...],
    read: Reader,
    file: Rows | None = None,
    masks: Reader | None = None,
) -> ImageSource:
    """Return the dataset of some files.

    Parameters
    ----------
    card : LocalFilesCard
        Card of the dataset.
    files : ClassedFiles
        Files of the dataset.
    path : Path
        Folder of the files.
    shape : tuple of int
        Shape of an image.
    read : Reader
        Reader of the images.
    file : array of int, shape (n,), optional
        The file of each image; each file is one image when left out.
    masks : Reader, optional
        Reader of the masks.

    Raises
    ------
    MismatchError
        When images would be larger than any may be.
    """
    if card.volumes:
        check_volume(shape, str(path), card.window)
    else:
        check_extent(shape, str(path))
    facts = []
    if many := int(files.left_out.sum()):
        facts.append(f"{many} file(s) are left out, as {card.exclude} says.")
    if card.slices:
        fewest, most = card.slices
        facts.append(
            f"Volumes have {fewest} to {most} slices; the size shown is that of the largest."
        )
    if card.size:
        facts.append(
            f"Images are {SQUARED[card.fit]} and resized to {card.size} × {card.size} pixels."
        )
    if card.unit == "image":
        facts.append(COPIES)
    rows = slice(None) if file is None else file
    return ImageSource(
        card,
        shape,
        files.label_of[rows],
        files.split_of[rows],
        read,
        tuple(facts),
        files.people[rows] if files.people is not None and card.unit == "person" else None,
        None if files.dates is None else files.dates[rows],
        masks,
        classes_per_person=card.classes_per_person,
        left_out=files.left_out,
    )


def require_alike(
    file: Path, what: str, value: object, first: object, name: str, way: str = ""
) -> None:
    """Raise unless a file has the `value` that the `first` one has, whose path is `name`.

    Without another `way` it is to be fitted.

    Parameters
    ----------
    file : Path
        Path of the file.
    what : str
        Noun for what is compared, such as "size".
    value : object
        Value of this file.
    first : object
        Value of the first file.
    name : str
        Path of the first file.
    way : str
        Way out, the last part of the message.
    """
    if value != first:
        way = way or "give size in the card to fit and resize them"
        above = os.path.commonpath([Path(name).parent, file.parent])
        one, other = (os.path.relpath(each, above) for each in (name, file))
        raise image_error(
            f"{file}: images must have one {what}, found {first} in {one} and {value} in {other}; "
            f"{way}"
        )


def root_of(card: PatternCard, path: Path) -> Path:
    """Return the data root of a dataset's folder.

    Parameters
    ----------
    card : PatternCard
        Card of the dataset.
    path : Path
        Folder of the dataset.
    """
    depth = len(Path(card.path or card.name).parts)
    return path.parents[depth - 1] if depth else path


def sort_files(card: PatternCard, path: Path, faults: listing.Faults) -> ClassedFiles:
    """Return the files of each split and class, in the order of their paths.

    Parameters
    ----------
    card : PatternCard
        Pattern, classes, ends of names that are read, and what is left out.
    path : Path
        The dataset's folder.
    faults : listing.Faults
        Faults found so far, to which files go that cannot be used.

    Raises
    ------
    DatasetError
        When a class has no file, a file is in two classes, or one that may be an image would be
        skipped.
    """
    if not path.is_dir():
        raise DatasetError(f"{path} must be a folder of images; correct path or kind in the card")
    splits = range(len(SPLITS) if "{split}" in card.pattern else 1)
    left_out = np.zeros((len(SPLITS), len(card.classes)), np.int64)
    folder = _Folder(
        card, path, listing.read_exclusions(card.exclude, card.folder, path), faults, left_out, {}
    )
    groups = itertools.product(splits, range(len(card.classes)))
    rows = itertools.chain.from_iterable(itertools.starmap(folder.rows, groups))
    files = collect(card, rows, left_out)
    for (_, label), entries in folder.passed.items():
        faults += _passed(card, path, label, entries)
    keys = "formats, " * ("formats" in type(card).model_fields)
    none = f"{' or '.join(card.ends)} image at '{card.pattern}'"
    require_listed(card, path, files, f"{none}; correct classes, {keys}pattern or path")
    apart = f"make '{card.pattern}' tell them apart, or leave the link out with exclude"
    check_once(files.names, f"is in two classes or splits, or a link repeats it; {apart}", faults)
    if files.masks and not card.shared:
        apart = f"make '{card.beside}' tell them apart, or leave one out with exclude"
        check_once(files.masks, f"is the mask of two images; {apart}", faults, files.names)
    return files


def require_listed(card: LocalFilesCard, path: Path, files: ClassedFiles, none: str) -> None:
    """Raise unless each class has a file; `none` is what it has not, and what to correct.

    Parameters
    ----------
    card : LocalFilesCard
        Card of the dataset.
    path : Path
        Folder of the images.
    files : ClassedFiles
        Files by class.
    none : str
        Files that are missing and way out, the last part of the message.
    """

    def fault(name: str) -> str:
        many = int(files.left_out[:, card.classes.index(name)].sum())
        left = f"image left, as {card.exclude} leaves out {many}; take rows out of it, or classes"
        return f"{path}: class '{name}' has no {left if many else none} in the card"

    card.require_classes(files.label_of, fault)


def _passed(
    card: PatternCard, path: Path, label: int, entries: Sequence[listing.FileEntry]
) -> Iterator[listing.Fault]:
    """Yield the faults of files of a class that are not read, though they may be images."""
    name = card.classes[label]
    many = f"{path}: class '{name}' has {len(entries)} image(s) that the card does not read"
    errors, raised = dict[str, ImageError](), None
    for entry in entries:  # there may be a million: they share their few errors
        text = _other_file(card, entry)
        error = errors[text] = errors.get(text) or image_error(text)
        raised = raised or DatasetError(f"{many}: {entry.relative} {error}")
        # by the path of a link: what it leads to may be a class
        yield listing.Fault(f"{path}/{entry.relative}", error, raised=raised)


def _other_file(card: PatternCard, entry: listing.FileEntry) -> str:
    """Return why a file that may be an image is none of the card's, and the first way out."""
    names, name = ", ".join(card.ends), entry.relative.lower()
    if entry.folder and not entry.path.endswith(f"/{entry.relative}"):
        return "is a link to a folder, which ** does not follow; name it by pattern in the card"
    if entry.folder:
        return f"is a folder, into which '{card.pattern}' does not go; go down by ** in the card"
    if not any(map(str.isalpha, Path(name).suffix)):
        return f"has no suffix, and the card names {names}; rename it, narrow the pattern"
    if not name.endswith(IMAGE_ENDS):
        return "is packed; unpack it, narrow the pattern"
    format_ = next((key for key, ends in FORMATS.items() if name.endswith(ends)), None)
    known = format_ and "formats" in type(card).model_fields
    way = f"add {format_} to formats in the card" if known else "give it a card of its own"
    return f"is of a format that the card does not name (it names {names}); {way}"


@dataclass(frozen=True, eq=False)
class _Folder:
    """The folder of a dataset, whose files are sorted by its card.

    Counted are, by split and class, files that the list `skip` names, and listed those that would
    be `passed` by, though they may be images.
    """

    card: PatternCard
    path: Path
    skip: frozenset[str]
    faults: listing.Faults
    left_out: NDArray[np.int64]
    passed: dict[tuple[int, int], list[listing.FileEntry]]

    def rows(self, split: int, label: int) -> Iterator[FileRow]:
        """Yield the files of one split and class."""
        card, passed = self.card, self.passed.setdefault((split, label), [])
        named = {"class": card.classes[label], "split": SPLITS[split]}
        pattern, root = listing.fill(card.pattern, named), root_of(card, self.path)
        follow, masks = listing.follower(root), dict[listing.FileEntry, str]()
        entries = listing.find_files(self.path, pattern, root, self.faults)
        images: Iterable[listing.FileEntry] = self._usable(entries, split, label)
        if card.beside is not None:
            for entry in images:
                letters = pattern.letters(entry.relative)
                masks[entry] = listing.mask_of(card.beside, entry.relative, named | letters)
            # a mask is no image, whatever its format
            taken = set(map(listing.composed, masks.values()))
            images = [x for x in masks if listing.composed(x.relative) not in taken]
            passed[:] = [x for x in passed if listing.composed(x.relative) not in taken]
        for entry in images:
            try:
                said = pattern.read(entry.relative, entry.path)
                check_person(said[0] if self.card.unit == "person" else "", entry.path)
                mask = f"{self.path.absolute()}/{masks[entry]}" if masks else ""
                mask = follow(listing.as_written(mask)) if masks else ""
            except ImageError as error:
                self.faults.append(listing.Fault(entry.path, error))
                continue
            yield FileRow(entry.path, label, split, *said, mask)

    def _usable(
        self, entries: Iterable[listing.FileEntry], split: int, label: int
    ) -> Iterator[listing.FileEntry]:
        """Yield the files that the card reads, and count or keep those that it does not."""
        ends = tuple(itertools.chain(*self.card.ends.values()))
        for entry in entries:
            if listing.is_excluded(self.skip, entry.relative, entry.path, self.path):
                self.left_out[split, label] += 1
            elif entry.fault is not None:
                self.faults.append(listing.Fault(entry.path, entry.fault))
            elif entry.relative.lower().endswith(ends):
                yield entry
            elif entry.folder or may_be_image(entry.relative):
                self.passed[split, label].append(entry)


def may_be_image(name: str) -> bool:
    """Return True if a file that is not read would be missed.

    Without a suffix are DICOM files, often named by a number.

    Parameters
    ----------
    name : str
        Name of the file.
    """
    unpacked = re.sub(r"\.(gz|bz2|xz|zst|zip)$", "", name.lower())
    return unpacked.endswith(IMAGE_ENDS) or not any(map(str.isalpha, Path(name).suffix))


def check_once(
    names: listing.Paths, way: str, faults: listing.Faults, of: listing.Paths | None = None
) -> None:
    """Note files that are there twice; `way` says of one what to do.

    No list names one of two, as it would leave out both; of masks it names the second image.

    Parameters
    ----------
    names : listing.Paths
        Paths that are to differ.
    way : str
        Way out, for one file.
    faults : listing.Faults
        Faults found so far, to which others are added.
    of : listing.Paths, optional
        Images of the masks; None where the paths are of images.
    """
    marks = np.fromiter(map(hash, names), np.int64, len(names))
    marks.sort()  # in place, as there may be many
    if not (marks[1:] == marks[:-1]).any():
        return
    earlier: set[str] = set()
    for index, name in enumerate(names):
        if name in earlier:
            file, error = of[index] if of else name, DatasetError(f"{name} {way}")
            faults.append(listing.Fault(file, error, listed=of is not None))
        earlier.add(name)


OpenFolder: TypeAlias = Callable[[Any, Path, listing.Faults], ImageSource]
"""``open(card, path, faults)``, see `covdp.datasets.kind.DatasetKind`."""


def in_folder(
    open_files: Callable[[Any, ClassedFiles, Path, listing.Faults], ImageSource],
) -> OpenFolder:
    """Return the opener of a folder: the files of each class, as the card's pattern says.

    Parameters
    ----------
    open_files : callable
        Function of a kind: card, files, folder and faults to the source.

    Raises
    ------
    DatasetError
        When a class has no image, an image is in two classes or out of the data root, a path does
        not say whose it is where the card asks, or an image would be skipped.
    """
    return lambda card, path, faults: open_files(card, sort_files(card, path, faults), path, faults)
