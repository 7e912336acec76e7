"""Doors of the data root: nothing outside it is read, and nothing but regular files."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import DatasetError, ImageError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)  # Windows
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe put in the file's place meanwhile does not hang
)


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
    _check_regular(path, os.lstat(path).st_mode)  # of each of a million images
    handle = os.open(path, _FLAGS)
    stream = os.fdopen(handle, "rb")
    try:
        _check_regular(path, os.fstat(handle).st_mode)
    except ImageError:
        stream.close()
        raise
    return stream


def _check_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a symbolic link")
        raise ImageError(f"{path} is not a file but {kind}; take it out of the data root")
