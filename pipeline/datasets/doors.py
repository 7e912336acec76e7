"""Doors of the data root: nothing outside it is read, and nothing but regular files."""

import os
from pathlib import Path
from typing import BinaryIO

from pipeline import files
from pipeline.errors import DatasetError, ImageError


def stay_inside(path: Path, root: Path, name: str) -> Path:
    """Return `path` if it lies in `root` after all symbolic links are followed, else raise."""
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)):
        raise DatasetError(
            f"the path of {name} leads out of the data root {root}; move the images there, or name "
            "the folder they are in with --data-root or COVDP_DATA"
        )
    return path


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, without following a link, or raise when it is not a regular one.

    Raises
    ------
    ImageError
        For a pipe, a device, a socket or a folder, which are never opened.
    OSError
        When the file cannot be opened.
    """
    try:
        return files.open_regular(path, links=False)
    except files.IrregularFileError as error:
        raise ImageError(
            f"{path} is not a file but {error.strerror}; take it out of the data root"
        ) from error
