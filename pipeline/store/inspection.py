"""The inspection of a dataset: every file is read, and what cannot be used or is odd is named.

It names files on the terminal of whoever keeps the images, so a release never calls it. What it
finds decides nothing by itself: its owner mends files, leaves them out by a list, or changes the
card.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets import Fault, ImageSource, collect_faults
from pipeline.datasets.cards import Card
from pipeline.datasets.source import FilesReader, StacksReader, StreamReader
from pipeline.datasets.summary import (
    FileCount,
    FileSummaries,
    OddFile,
    count_files,
    odd_files,
    summarise_files,
)
from pipeline.errors import CurableError, DatasetError
from pipeline.progress import counted

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
        Why, and the way out.
    listed : bool
        Whether a list of exclusions names it: not a row of a table, and not a file that is curable.
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
    source : ImageSource or None
        The images that can be listed; None where none can.
    error : DatasetError or None
        Why there are none.
    faults : tuple of FileFault
        Files that cannot be used.
    odd : tuple of OddFile
        Files that can be used and differ from nearly all others, by header, pixels or gray levels.
    counts : tuple of FileCount
        Depths, sizes, colours, modalities and ranges of values, each with its number of files.
    levels : (images, 2) float64
        Least and largest gray level of each image as it is described, 0 to 255, in the order of the
        source's rows; NaN where it cannot be read.
    warnings : tuple of str
        Faults of the card, which concern most images.
    """

    source: ImageSource | None
    error: DatasetError | None
    faults: tuple[FileFault, ...]
    odd: tuple[OddFile, ...]
    counts: tuple[FileCount, ...]
    levels: NDArray[np.float64]
    warnings: tuple[str, ...]


def inspect(card: Card, path: Path) -> Inspection:
    """Read every file of a dataset.

    Parameters
    ----------
    card : Card
        The card of the dataset.
    path : Path
        Where it is, as `pipeline.datasets.fetch` states it.

    Raises
    ------
    DatasetError
        When it cannot be opened, and no file is at fault.
    """
    folder = path if path.is_dir() else path.parent
    opened = collect_faults(card, path)
    faults = listing_faults(opened.faults, folder)
    if opened.source is None:
        faults, none = _weighed(faults, {}, card), np.empty((0, 2))
        return Inspection(None, opened.error, tuple(faults), (), (), none, ())
    source = opened.source
    before = {fault.file for fault in faults}
    found, levels = _read_all(source, folder)
    faults += [fault for fault in found if fault.file not in before]
    summaries = _summaries(source, folder)
    faults = _weighed(faults, summaries, card)
    bad = {fault.file for fault in faults}
    odd = [x for x in odd_files(summaries) if x.file not in bad]
    warnings = list[str]()
    dark = levels[:, 1] - levels[:, 0] < FEWEST_LEVELS
    if window := _window_of_few(card, dark):
        warnings.append(window)
    elif isinstance(source.read, FilesReader):
        named = {x.file for x in odd}
        odd += [x for x in _dark(source.read, levels, dark, folder) if x.file not in named | bad]
    return Inspection(
        source,
        opened.error,
        tuple(faults),
        tuple(sorted(odd)),
        count_files(summaries),
        levels,
        tuple(warnings),
    )


def _summaries(source: ImageSource, folder: Path) -> FileSummaries:
    """Return the summaries of the files of a dataset that can be listed."""
    read = source.read.slices if isinstance(source.read, StacksReader) else source.read
    if not isinstance(read, FilesReader):
        return {}
    card = source.card
    kind = (getattr(card, "other", None) or card.kind).lower().replace("table", "folder")
    paths = {relative_name(name, folder): Path(name) for name in read.names}
    return summarise_files(kind, paths.__getitem__, [*paths])[0]


def _weighed(faults: list[FileFault], summaries: FileSummaries, card: Card) -> list[FileFault]:
    """Return the faults; a key of the card cures one only where at least half of the files need it.

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
    most = len({*summaries, *(fault.file for fault in faults)})
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
    for index in np.unique(read.file[dark]).tolist():
        low, high = levels[dark & (read.file == index)][0]
        text = f"its gray levels are {low:.0f} to {high:.0f} of 0 to 255"
        yield OddFile(relative_name(read.names[index], folder), text, True)


def listing_faults(faults: Iterable[Fault], folder: Path) -> list[FileFault]:
    """Return the faults that were found when files were listed, in the order of their paths."""
    return sorted(
        _file_fault(relative_name(x.file, folder), x.error, x.file, x.listed) for x in faults
    )


def _file_fault(file: str, error: DatasetError, name: str, listed: bool = True) -> FileFault:
    """Return a fault; a list of exclusions, one path in each row, names no file of several."""
    reason = _plain(str(error), name)
    if listed and ("\n" in file or file.endswith("\r")):
        return FileFault(file, f"{reason}; rename it, as a list has one name a row", False)
    return FileFault(file, reason, listed, isinstance(error, CurableError))


def check(source: ImageSource, folder: Path) -> list[FileFault]:
    """Return all files that cannot be used, in the order of their paths.

    Parameters
    ----------
    source : ImageSource
    folder : Path
        The folder of the images, or of their one file.
    """
    return _read_all(source, folder)[0]


def _read_all(source: ImageSource, folder: Path) -> tuple[list[FileFault], NDArray[np.float64]]:
    """Return the files that cannot be used, and the gray levels of all images."""
    readers = [x for x in (source.read, source.masks) if isinstance(x, FilesReader | StacksReader)]
    levels = np.full((len(source.label_of), 2), np.nan)
    if not readers:
        return _whole(source, folder, levels), levels
    # those too that the rule for persons in several classes leaves out
    rows, faults = np.arange(len(source.label_of)), dict[str, FileFault]()
    with counted("checking", len(rows), "images") as tick:
        for reader in readers:
            for result in reader.validate(rows):
                if result.error is not None:
                    for name in readers[0].files_of(result.row):
                        file = relative_name(name, folder)
                        faults.setdefault(file, _file_fault(file, result.error, name))
                elif reader is source.read:
                    levels[result.row : result.row + result.images] = result.levels
                tick(result.images / len(readers))
    return sorted(faults.values()), levels


def _whole(source: ImageSource, folder: Path, levels: NDArray[np.float64]) -> list[FileFault]:
    """Return the fault of images that are in one file or in memory, if there is one."""
    file = source.read.files[0] if isinstance(source.read, StreamReader) else folder
    rows = source.select().rows
    done = 0
    with counted("checking", len(rows), "images") as tick:
        try:
            for images in source.chunks(size=IMAGES_READ):
                flat = images.reshape(len(images), -1)
                ends = np.stack([flat.min(axis=1), flat.max(axis=1)], axis=-1)
                levels[rows[done : done + len(images)]] = ends
                done += len(images)
                tick(len(images))
        except DatasetError as error:
            return [_file_fault(file.name, error, str(file))]
    return []


def exclusion_list(faults: Iterable[FileFault], before: Iterable[str]) -> bytes:
    """Return the text of a list of exclusions, with what was left out before."""
    paths = sorted({*before, *(fault.file for fault in faults if fault.listed)})
    return "".join(f"{path}\n" for path in paths).encode(errors="surrogateescape")


def relative_name(name: str, folder: Path) -> str:
    """Return the path of a file in the folder of the images."""
    return Path(os.path.relpath(name, folder.resolve())).as_posix()


def _plain(reason: str, name: str) -> str:
    """Return a reason without the name of the file that it is about."""
    text = reason.replace(name, "").strip(" :,")
    return text or reason
