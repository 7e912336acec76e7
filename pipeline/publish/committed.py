"""The committed document on disk: its very bytes, and the same as Parquet."""

import itertools
import json
import os
import stat
from pathlib import Path
from typing import Any

from pipeline.errors import OutputError
from pipeline.files import atomic_path, make_folder, open_regular

LONGEST = 200
"""Bytes of a name, of 255 that a file may have, before its ending; ours have at most 161."""


def check_folder(folder: Path) -> None:
    """Raise `OutputError` unless a release can be written to `folder`: before it is paid for."""
    make_folder(folder / "release")
    if (folder / "report.html").is_dir():
        raise OutputError(
            f"cannot write {folder / 'report.html'}, which is a folder; choose another --out"
        )


def write_document(content: bytes, folder: Path) -> Path:
    """Write the bytes the ledger gave back to ``OUT/release/<name>-<run key>.json``.

    Where that name is taken by another release, or by what is not ours, it gets a number; a
    damaged document is written again.

    Raises
    ------
    OutputError
        The folder cannot be written: the same run key gives the same bytes again, at no cost.
    """
    settings = json.loads(content)["settings"]
    stem = _safe(f"{settings['name']}-{settings['run_key']}")  # it may come from elsewhere
    place = make_folder(folder / "release")
    names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    path = next(
        path for path in (place / f"{name}.json" for name in names) if not _is_taken(path, content)
    )
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return path


def read_document(path: Path) -> dict[str, Any]:
    """Return the document written to `path`; raise `OutputError` when it is damaged."""
    try:
        with open_regular(path) as stream:
            document: dict[str, Any] = json.load(stream)
    except (OSError, ValueError, RecursionError) as error:
        raise OutputError(
            f"cannot read {path}; release again with the same run key: the ledger gives the same "
            "values back and charges nothing"
        ) from error
    return document


def _is_taken(path: Path, content: bytes) -> bool:
    """Return whether `path`, or a file that goes with it, must be left to somebody else."""
    beside = [path, path.with_suffix(".parquet"), path.with_suffix(".html")]
    try:
        if not all(_can_be_replaced(one) for one in beside if os.path.lexists(one)):
            return True
        found = path.read_bytes() if path.exists() else content
    except OSError:  # it cannot even be looked at
        return True
    return found != content and _is_whole(found)


def _can_be_replaced(path: Path) -> bool:
    """Return whether there is a file that this user may replace, sticky folders included."""
    found, folder = path.lstat(), path.parent.stat()
    user = getattr(os, "geteuid", lambda: 0)()
    owned = not folder.st_mode & stat.S_ISVTX or user in (0, found.st_uid, folder.st_uid)
    return stat.S_ISREG(found.st_mode) and owned


def _is_whole(found: bytes) -> bool:
    """Return whether a document is undamaged: of another release, or of another program."""
    try:
        json.loads(found)
    except (ValueError, RecursionError):
        return False
    return True


def _safe(text: str) -> str:
    """Return `text` as part of a file name, cut where no folder would take it."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
    return plain.encode()[:LONGEST].decode(errors="ignore")
