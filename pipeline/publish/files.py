"""The committed document on disk: its very bytes, and the same as Parquet."""

import itertools
import json
from pathlib import Path
from typing import Any

from pipeline.errors import OutputError
from pipeline.files import atomic_path, make_folder


def check_folder(folder: Path) -> None:
    """Raise `OutputError` unless a release can be written to `folder`: before it is paid for."""
    make_folder(folder / "release")
    if (folder / "report.html").is_dir():
        raise OutputError(
            f"cannot write {folder / 'report.html'}, which is a folder; choose another --out"
        )


def write_document(content: bytes, folder: Path) -> Path:
    """Write the bytes the ledger gave back to ``OUT/release/<name>-<run key>.json``.

    Where that is the document of another release, a number is added to the name; a damaged
    document is written again.
    """
    settings = json.loads(content)["settings"]
    stem = f"{settings['name']}-{_safe(settings['run_key'])}"
    place = make_folder(folder / "release")
    names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    path = next(
        path for path in (place / f"{name}.json" for name in names) if not _is_other(path, content)
    )
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return path


def read_document(path: Path) -> dict[str, Any]:
    """Return the document written to `path`; raise `OutputError` when it is damaged."""
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise OutputError(
            f"cannot read {path}; release again with the same run key: the ledger gives the same "
            "values back and charges nothing"
        ) from error
    return document


def _is_other(path: Path, content: bytes) -> bool:
    """Return whether `path` holds the document of another release than `content`."""
    if not path.is_file() or (found := path.read_bytes()) == content:
        return False
    try:
        return "settings" in json.loads(found)
    except ValueError:
        return False


def _safe(text: str) -> str:
    """Return `text` as part of a file name."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
