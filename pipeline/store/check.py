"""What cannot be used, and why: every file is read, and those at fault are listed.

For the terminal of whoever keeps the images: it names files, so a release never calls it.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.datasets import Fault, ImageSource, Splits
from pipeline.errors import DatasetError
from pipeline.progress import counted

SIZE = 256
"""Images that are read at a time where they are not in files of their own."""


class FileFault(NamedTuple):
    """A file that cannot be used: its path in the folder of the images, and the reason.

    `listed` is whether a list of exclusions can name it: of a row of a table, say, it cannot.
    """

    file: str
    reason: str
    listed: bool = True


def listing_faults(faults: Iterable[Fault], folder: Path) -> list[FileFault]:
    """Return the faults that were found when files were listed, in the order of their paths."""
    return sorted(
        FileFault(relative_name(x.file, folder), _plain(str(x.error), x.file), x.listed)
        for x in faults
    )


def check(source: ImageSource, folder: Path, splits: Splits = None) -> list[FileFault]:
    """Return all files of some splits that cannot be used, in the order of their paths.

    Parameters
    ----------
    source : ImageSource
    folder : Path
        The folder of the images, or their one file.
    """
    # those too that the rule for persons in several classes leaves out
    rows = np.arange(len(source.label_of)) if splits is None else source.select(splits).rows
    validate = getattr(source.read, "validate", None)
    if validate is None:
        return _whole(source, folder, splits)
    found = dict[str, str]()
    files_of = source.read.files_of  # type: ignore[attr-defined]
    with counted("checking", len(rows), "images") as tick:
        readers = [validate]
        readers += [] if source.masks is None else [getattr(source.masks, "validate", None)]
        for reader in readers:
            for row, count, reason in reader(rows) if reader else ():
                for name in files_of(row) if reason is not None else ():
                    found.setdefault(relative_name(name, folder), _plain(str(reason), name))
                tick(count / len(readers))
    return [FileFault(*item) for item in sorted(found.items())]


def _whole(source: ImageSource, file: Path, splits: Splits) -> list[FileFault]:
    """Return the fault of images that lie in one file or in memory, if there is one."""
    with counted("checking", len(source.select(splits).rows), "images") as tick:
        try:
            for images in source.chunks(splits, size=SIZE):
                tick(len(images))
        except DatasetError as error:
            return [FileFault(file.name, _plain(str(error), str(file)))]
    return []


def exclusion_list(faults: list[FileFault], before: Iterable[str]) -> bytes:
    """Return the lines of a list of exclusions, with what was left out before."""
    paths = sorted({*before, *(fault.file for fault in faults if fault.listed)})
    return "".join(f"{path}\n" for path in paths).encode(errors="surrogateescape")


def relative_name(name: str, folder: Path) -> str:
    """Return the path of a file in the folder of the images."""
    return Path(os.path.relpath(name, folder.resolve())).as_posix()


def _plain(reason: str, name: str) -> str:
    """Return a reason without the name of the file that it is about."""
    said = reason.replace(name, "").strip(" :,")
    return said or reason
