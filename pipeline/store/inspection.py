"""The inspection of a dataset: every file is read, and what cannot be used or is odd is named.

It names files on the terminal of whoever keeps the images, so a release never calls it. What it
finds decides nothing by itself: its owner mends files, leaves them out by a list, or changes the
card.
"""

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import ImageArray
from covdp.datasets import ImageSource, collect_faults, may_be_empty
from covdp.datasets.cards import Card
from covdp.datasets.classed import PatternCard
from covdp.datasets.listing import (
    Fault,
    above_classes,
    as_written,
    composed,
    is_excluded,
    read_exclusions,
)
from covdp.datasets.source import (
    SPLITS,
    FilesReader,
    StacksReader,
    StreamReader,
)
from covdp.datasets.summary import (
    ODD_SHARE,
    FileCount,
    FileSummaries,
    OddFile,
    count_files,
    odd_files,
    summarise_files,
)
from covdp.errors import CurableError, DatasetError
from covdp.progress import counted
from covdp.store.fill import digests_of
from covdp.store.stored import DIGEST

IMAGES_READ = 256
"""Images that are read at a time where they are not in files of their own."""

FEWEST_LEVELS = 32
"""Gray levels, of 256, that an image must span not to be called dark or flat."""


class FileFault(NamedTuple):
    """A file that cannot be used.

    Attributes
    ----------
    file : str
        Its path in the folder of the images.
    reason : str
        Reason, and the way out.
    listed : bool
        True if a list of exclusions names it: not a row of a table, and not a file that is curable.
    curable : bool
        True if a key of the card cures it, and at least half of the files need that key.
    """

    file: str
    reason: str
    listed: bool = True
    curable: bool = False


@dataclass(frozen=True, eq=False)
class Inspection:
    """Findings about the files of a dataset; as private as the images.

    Attributes
    ----------
    folder : Path
        Folder of the images, to which paths of files are relative.
    source : ImageSource or None
        The images that can be listed; None where none can.
    error : DatasetError or None
        Reason why there are none.
    faults : tuple of FileFault
        Files that cannot be used.
    odd : tuple of OddFile
        Files that can be used and differ from nearly all others, by header, pixels or gray levels.
    copies : tuple of OddFile
        Files whose image is that of another file.
    counts : tuple of FileCount
        Depths, sizes, colours, modalities and ranges of values, each with its number of files.
    pixels : Pixels
        Facts about the pixels of all images.
    warnings : tuple of str
        Faults of the card, which concern most images.
    layout : tuple of str
        Classes without images, and folders of no class.
    """

    folder: Path
    source: ImageSource | None
    error: DatasetError | None
    faults: tuple[FileFault, ...]
    odd: tuple[OddFile, ...]
    copies: tuple[OddFile, ...]
    counts: tuple[FileCount, ...]
    pixels: "Pixels"
    warnings: tuple[str, ...]
    layout: tuple[str, ...]

    @property
    def class_sizes(self) -> tuple[int, ...]:
        """Number of listed images of each class."""
        if self.source is None:
            return ()
        return tuple(np.bincount(self.source.label_of, minlength=len(self.source.classes)).tolist())

    @property
    def usable(self) -> NDArray[np.bool_]:
        """True for each image that can be read."""
        return np.isfinite(self.pixels.levels[:, 0])


class PixelFacts(NamedTuple):
    """Facts about some images, as they are described; see `Pixels`.

    Attributes
    ----------
    levels : array of uint8, shape (n, 2)
        Least and largest level of each image.
    digests : array of uint8, shape (n, 16)
        Digest of each image.
    histogram : array of int, shape (256,)
        Number of pixels of each level.
    """

    levels: NDArray[np.uint8]
    digests: NDArray[np.uint8]
    histogram: NDArray[np.int64]


def pixel_facts(images: ImageArray) -> PixelFacts:
    """Return facts about the pixels of images; channels count as pixels.

    Parameters
    ----------
    images : uint8 array, shape (n, ...)
        Images of any shape.
    """
    flat = images.reshape(len(images), -1)
    levels = np.stack([flat.min(axis=1), flat.max(axis=1)], axis=-1)
    return PixelFacts(levels, digests_of(images), np.bincount(images.ravel(), minlength=256))


class Pixels(NamedTuple):
    """Facts about the pixels of all images as they are described, in the order of the source.

    Attributes
    ----------
    levels : array of float64, shape (images, 2)
        Least and largest gray level of each, 0 to 255; NaN where it cannot be read.
    digests : array of uint8, shape (images, 16)
        Digest of the pixels of each.
    histogram : array of int64, shape (256,)
        Pixels of each gray level, of all together.
    """

    levels: NDArray[np.float64]
    digests: NDArray[np.uint8]
    histogram: NDArray[np.int64]

    def add(self, rows: NDArray[np.int64] | slice, facts: PixelFacts) -> None:
        """Note facts about some images.

        Parameters
        ----------
        rows : array of int, shape (n,), or slice
            Rows of the images in the source.
        facts : PixelFacts
            Facts about the pixels.
        """
        self.levels[rows], self.digests[rows] = facts.levels, facts.digests
        self.histogram[:] += facts.histogram


def _no_pixels(images: int) -> Pixels:
    levels, digests = np.full((images, 2), np.nan), np.zeros((images, DIGEST), np.uint8)
    return Pixels(levels, digests, np.zeros(256, np.int64))


def inspect(card: Card, path: Path, key: bytes | None = None) -> Inspection:
    """Read every file of a dataset.

    Parameters
    ----------
    card : Card
        The card of the dataset.
    path : Path
        Path of the dataset, as `covdp.datasets.fetch` returns it.
    key : bytes, optional
        Key of the digests of persons; a random one when left out.

    Returns
    -------
    Inspection
        Faults and facts of all files.

    Raises
    ------
    DatasetError
        When it cannot be opened, and no file is at fault.
    """
    folder = path if path.is_dir() else path.parent
    opened = collect_faults(may_be_empty(card), path, key)
    closed = any(_is_closed(fault.file) for fault in opened.faults)
    faults = listing_faults(opened.faults, folder)
    if opened.source is None:
        faults = _weighed(faults, {}, card)
        layout = () if closed else tuple(layout_faults(card, path, None))
        none = _no_pixels(0)
        return Inspection(folder, None, opened.error, tuple(faults), (), (), (), none, (), layout)
    source = opened.source
    before = {fault.file for fault in faults}
    found, pixels = _read_all(source, folder)
    faults += [fault for fault in found if fault.file not in before]
    summaries = _summaries(source, folder)
    volumes = len(source.label_of) if isinstance(source.read, StacksReader) else 0
    faults = _weighed(faults, summaries, card, volumes)
    bad = {fault.file for fault in faults}
    odd = [x for x in odd_files(summaries) if x.file not in bad]
    warnings = list[str]()
    dark = pixels.levels[:, 1] - pixels.levels[:, 0] < FEWEST_LEVELS
    if window := _window_of_few(card, dark):
        warnings.append(window)
    elif isinstance(source.read, FilesReader) and dark.sum() <= ODD_SHARE * len(dark):
        named = {x.file for x in odd}
        odd += [
            x for x in _dark(source.read, pixels.levels, dark, folder) if x.file not in named | bad
        ]
    counts = np.bincount(source.label_of, minlength=len(card.classes)).tolist()
    return Inspection(
        folder,
        source,
        opened.error,
        tuple(faults),
        tuple(sorted(odd)),
        tuple(_copies(source, pixels, folder)),
        count_files(summaries),
        pixels,
        tuple(warnings),
        () if closed else tuple(layout_faults(card, path, counts)),
    )


def _is_closed(path: str) -> bool:
    """Return whether there is a folder whose files cannot be known."""
    return os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK)  # noqa: PTH112 (raises)


def layout_faults(card: Card, path: Path, counts: Sequence[int] | None) -> Iterator[str]:
    """Yield the faults of the layout: classes without images, and folders of no class.

    Parameters
    ----------
    card : Card
        Card of the dataset.
    path : Path
        Path of the dataset.
    counts : sequence of int
        Images of each class; None where they are not known, as no file can be used.
    """
    pattern = card.pattern if isinstance(card, PatternCard) else ""
    above = above_classes(path, pattern) if pattern else None
    for name, count in zip(card.classes, counts or [1] * len(card.classes), strict=True):
        folders = [Path(as_written(f"{folder}/{name}")) for folder in above or ()]
        if above is not None and not any(map(Path.is_dir, folders)):
            yield f"class {name!r} has no folder at '{pattern}'; make one, or correct the card"
        elif not count:
            where = f" at '{pattern}'" if pattern else ""
            yield f"class {name!r} has no image{where}; correct the card if that is wrong"
    if isinstance(card, PatternCard):
        splits = above_classes(path, pattern, "split") or ()
        yield from _strange_folders(card, path, above or (), "class", card.classes)
        yield from _strange_folders(card, path, splits, "split", SPLITS)


def _strange_folders(
    card: PatternCard, path: Path, above: Iterable[Path], key: str, names: Sequence[str]
) -> Iterator[str]:
    """Yield the folders beside those with `names` in which images are."""
    ends = tuple(itertools.chain(*card.ends.values()))
    named = set(map(composed, (*names, *(card.masks or "").split("/"))))
    way = "add it to classes" if key == "class" else f"name it {', '.join(SPLITS)}"
    out = read_exclusions(card.exclude, card.folder, path, there=False)
    for folder in sorted(itertools.chain.from_iterable(map(Path.iterdir, above))):
        name = relative_name(str(folder), path)
        if composed(folder.name) in named or folder.name.startswith(".") or not folder.is_dir():
            continue
        if is_excluded(out, name, str(folder), path):
            continue
        if any(x.name.lower().endswith(ends) and x.is_file() for x in folder.rglob("*")):
            yield f"folder {name!r} is of no {key}; {way}, or move it away"


def _copies(source: ImageSource, pixels: Pixels, folder: Path) -> Iterator[OddFile]:
    """Yield the images whose pixels are those of an earlier one; with masks they may differ."""
    readable = np.flatnonzero(np.isfinite(pixels.levels[:, 0]))
    if source.masks is not None or not len(readable):
        return
    _, first, group = np.unique(
        pixels.digests[readable], axis=0, return_index=True, return_inverse=True
    )
    later = np.setdiff1d(np.arange(len(readable)), first)
    origins = first[group.reshape(-1)[later]]
    names = image_names(source, readable[later], folder)
    others = image_names(source, readable[origins], folder)
    each = "counts" if source.people is None else "counts in the mean of its person"
    for name, other in zip(names, others, strict=True):
        yield OddFile(name, f"same image as {other}; each {each}", True)


def image_names(source: ImageSource, rows: NDArray[Any], folder: Path) -> Iterator[str]:
    """Yield the name of each image: its file, and number there; or split and number.

    Of a volume of several files it is the first.

    Parameters
    ----------
    source : ImageSource
        Opened dataset.
    rows : array, shape (n,)
        Rows of the images in the source.
    folder : Path
        Folder of the images.
    """
    read = source.read
    if isinstance(read, StacksReader):
        for row in read.starts[rows].tolist():
            yield relative_name(read.slices.names[int(read.slices.file[row])], folder)
    elif isinstance(read, FilesReader):
        several = np.bincount(read.file) > 1
        for row in rows.tolist():
            index = int(read.file[row])
            frame = f"#{read.frame[row]}" if several[index] else ""
            yield relative_name(read.names[index], folder) + frame
    else:
        codes = source.split_of
        numbers = np.empty(len(codes), np.int64)
        for code in range(len(SPLITS)):
            numbers[codes == code] = np.arange(np.count_nonzero(codes == code))
        yield from (f"{SPLITS[codes[row]]}/{numbers[row]}" for row in rows.tolist())


def _summaries(source: ImageSource, folder: Path) -> FileSummaries:
    """Return the summaries of the files of a dataset that can be listed."""
    read = source.read.slices if isinstance(source.read, StacksReader) else source.read
    if not isinstance(read, FilesReader):
        return {}
    card = source.card
    kind = (getattr(card, "other", None) or card.kind).lower().replace("table", "folder")
    paths = {relative_name(name, folder): Path(name) for name in read.names}
    return summarise_files(kind, paths.__getitem__, [*paths])[0]


def _weighed(
    faults: list[FileFault], summaries: FileSummaries, card: Card, volumes: int = 0
) -> list[FileFault]:
    """Return the faults; a key of the card cures one only where at least half of the files need it.

    Of `volumes`, which may have many files, half of them.
    Where the first file has another size than more than half of all, it is at fault and not they.
    """
    first = next(iter(summaries.values()), None)
    sides = Counter(summary.sides for summary in summaries.values())
    if first and not card.size and 2 * sides[first.sides] < len(summaries):
        usual, many = sides.most_common(1)[0]
        if 2 * many > len(summaries):
            reason = (
                f"size {first.sides}, where {many:,} of {len(summaries):,} files have {usual}; "
                "leave it out, and check again"
            )
            blamed = {x.file for x in faults if x.curable and _sides(summaries, x.file) == usual}
            rest = [x for x in faults if x.file not in blamed]
            known = {x.file for x in rest}
            faults = rest + [
                FileFault(name, reason)
                for name, summary in summaries.items()
                if summary.sides == first.sides and name not in known
            ]
    needs = Counter(_way(fault) for fault in faults if fault.curable)
    most = volumes or len({*summaries, *(fault.file for fault in faults)})
    weighed = []
    for fault in faults:
        curable = fault.curable and 2 * needs[_way(fault)] >= most
        weighed.append(fault._replace(curable=curable, listed=fault.listed and not curable))
    return sorted(weighed)


def _sides(summaries: FileSummaries, name: str) -> tuple[int, ...] | None:
    return summaries[name].sides if name in summaries else None


def _way(fault: FileFault) -> str:
    """Return the way out of a fault, by which those of one cure are known."""
    return fault.reason.rpartition(";")[2]


def _window_of_few(card: Card, dark: NDArray[np.bool_]) -> str:
    """Return the fault of a window under which most images are dark; "" where they are not."""
    window, many = getattr(card, "window", None), int(dark.sum())
    if not isinstance(window, tuple) or 2 * many <= len(dark):
        return ""
    return (
        f"{many:,} of {len(dark):,} images span fewer than {FEWEST_LEVELS} of 256 gray levels "
        f"under window = [{window[0]:g}, {window[1]:g}], so little is left of them; name the range "
        "of most files, and leave out those of another depth"
    )


def _dark(
    read: FilesReader, levels: NDArray[np.float64], dark: NDArray[np.bool_], folder: Path
) -> Iterator[OddFile]:
    """Yield the files whose images span few gray levels."""
    rows = np.flatnonzero(dark)
    files, first = np.unique(read.file[rows], return_index=True)
    for index, (low, high) in zip(files.tolist(), levels[rows[first]].tolist(), strict=True):
        text = f"its gray levels are {low:.0f} to {high:.0f} of 0 to 255"
        yield OddFile(relative_name(read.names[index], folder), text, True)


def listing_faults(faults: Iterable[Fault], folder: Path) -> list[FileFault]:
    """Return the faults that were found when files were listed, in the order of their paths.

    Parameters
    ----------
    faults : iterable of Fault
        Faults that were found.
    folder : Path
        Folder of the images.
    """
    return sorted(
        _file_fault(relative_name(x.file, folder), x.error, x.file, x.listed) for x in faults
    )


def _file_fault(file: str, error: DatasetError, name: str, listed: bool = True) -> FileFault:
    """Return a fault; a list of exclusions names only what is stated to be left out by one.

    It has one path in each row, so it names no file whose name has two.
    """
    reason = _plain(str(error), name)
    listed = listed and "with exclude" in reason.rpartition(";")[2]
    if listed and ("\n" in file or file.endswith("\r")):
        rule = reason.partition(";")[0]
        return FileFault(file, f"{rule}; rename it, as a list has one name a row", False)
    return FileFault(file, reason, listed, isinstance(error, CurableError))


def check(source: ImageSource, folder: Path) -> list[FileFault]:
    """Return all files that cannot be used, in the order of their paths.

    Parameters
    ----------
    source : ImageSource
        Opened dataset.
    folder : Path
        The folder of the images, or of their one file.
    """
    return _read_all(source, folder)[0]


def _read_all(source: ImageSource, folder: Path) -> tuple[list[FileFault], Pixels]:
    """Return the files that cannot be used, and facts about the pixels of all images."""
    readers = [x for x in (source.read, source.masks) if isinstance(x, FilesReader | StacksReader)]
    pixels = _no_pixels(len(source.label_of))
    if not readers:
        return _whole(source, folder, pixels), pixels
    # those too that the rule for persons in several classes leaves out
    rows, faults = np.arange(len(source.label_of)), dict[str, FileFault]()
    with counted("checking", len(rows), "images") as tick:
        for reader in readers:
            for result in reader.validate(rows, pixel_facts):
                if result.error is not None:
                    for name in readers[0].files_of(result.row):
                        file = relative_name(name, folder)
                        faults.setdefault(file, _file_fault(file, result.error, name))
                elif reader is source.read:
                    pixels.add(slice(result.row, result.row + result.images), result.seen)
                tick(result.images / len(readers))
    return sorted(faults.values()), pixels


def _whole(source: ImageSource, folder: Path, pixels: Pixels) -> list[FileFault]:
    """Return the fault of images that are in one file or in memory, if there is one."""
    file = source.read.files[0] if isinstance(source.read, StreamReader) else folder
    rows = source.select().rows
    done = 0
    with counted("checking", len(rows), "images") as tick:
        try:
            for images in source.chunks(size=IMAGES_READ):
                pixels.add(rows[done : done + len(images)], pixel_facts(images))
                done += len(images)
                tick(len(images))
        except DatasetError as error:
            return [_file_fault(file.name, error, str(file))]
    return []


def exclusion_list(faults: Iterable[FileFault], before: Iterable[str]) -> bytes:
    """Return the text of a list of exclusions, with what was left out before.

    Parameters
    ----------
    faults : iterable of FileFault
        Faults of the files to leave out.
    before : iterable of str
        Paths that were left out before.
    """
    paths = sorted({*before, *(fault.file for fault in faults if fault.listed)})
    return "".join(f"{path}\n" for path in paths).encode(errors="surrogateescape")


def relative_name(name: str, folder: Path) -> str:
    """Return the path of a file in the folder of the images.

    Parameters
    ----------
    name : str
        Absolute path of a file.
    folder : Path
        Folder of the images.
    """
    return Path(os.path.relpath(name, folder.resolve())).as_posix()


def _plain(reason: str, name: str) -> str:
    """Return a reason without the name of the file that it is about."""
    text = reason.replace(f"{name}/", "").replace(name, "").strip(" :,")
    return text or reason
