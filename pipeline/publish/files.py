"""The committed document on disk: its very bytes, and the same as Parquet."""

import json
from pathlib import Path
from typing import Any

from pipeline.errors import OutputError
from pipeline.files import atomic_path, make_folder


def write_document(content: bytes, folder: Path) -> Path:
    """Write the bytes the ledger gave back to ``OUT/release/<name>-<run key>.json``."""
    settings = json.loads(content)["settings"]
    stem = f"{settings['name']}-{_safe(settings['run_key'])}"
    path = make_folder(folder / "release") / f"{stem}.json"
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


def _safe(text: str) -> str:
    """Return `text` as part of a file name."""
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
