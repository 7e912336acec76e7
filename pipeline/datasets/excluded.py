"""Files that a card leaves out, by a list of their paths that lies beside the images."""

import os
from pathlib import Path, PurePath, PurePosixPath

from pipeline.datasets.doors import open_regular, stay_inside
from pipeline.errors import DatasetError, ImageError

LARGEST = 1 << 28
"""Bytes that such a list may have."""


def excluded(listed: str | None, folder: Path, *, there: bool = True) -> frozenset[str]:
    """Return the paths that the file `listed` names, relative to `folder`, with ``/``.

    One path a line, of files or of folders with all that is in them, in UTF-8; blank lines do not
    count. An image to which a link leads may be named
    by either path. Each must be `there`, unless the caller checks it.

    Raises
    ------
    DatasetError
        When there is no such file, or it names what is not in the folder.
    """
    if listed is None:
        return frozenset()
    file = stay_inside(folder / listed, folder, f"exclude = {listed!r}")
    try:
        with open_regular(file) as stream:
            content = stream.read(LARGEST + 1)
        lines = content.decode("utf-8-sig", errors="surrogateescape").replace("\r\n", "\n")
    except OSError as error:
        raise DatasetError(
            f"cannot read {file} ({error.strerror}), which exclude in the card names; put it "
            "there, or take the key out"
        ) from error
    if len(content) > LARGEST:
        raise DatasetError(f"{file} has more than {LARGEST} bytes, so it is no list of paths")
    found = frozenset(str(PurePosixPath(line)) for line in lines.split("\n") if line.strip())
    if there:
        check_named(listed, folder, found)
    return found


def check_named(listed: str, folder: Path, paths: frozenset[str]) -> None:
    """Raise unless each of the paths that a list names is in the folder: none is a slip."""
    for path in sorted(paths):
        if Path(path).is_absolute() or not os.path.lexists(folder / path):
            raise ImageError(
                f"{folder / listed} leaves out {path!r}, which is not in {folder}; correct that "
                "line, or take it out"
            )


def is_left_out(skip: frozenset[str], relative: str, path: str, folder: Path) -> bool:
    """Return whether a file, or a folder that it is in, is named.

    By its path in the dataset, or by where links lead to.
    """
    if not skip:
        return False
    real = PurePath(os.path.relpath(path, os.path.realpath(folder))).as_posix()
    return any(
        each in skip
        for name in {relative, real}
        for each in (name, *map(str, PurePosixPath(name).parents[:-1]))
    )
