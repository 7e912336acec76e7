"""Committed documents: read, and written to files.

Their schema is `covdp.schema`. A file holds the very bytes that the ledger stored.
"""

import itertools
import json
import math
import os
import stat
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from pydantic import ValidationError

from covdp.errors import ConfigError, LedgerError, OutputError
from covdp.files import make_folder, open_regular, write_whole
from covdp.mean import Step
from covdp.results import write_release
from covdp.schema import CostPart, Document, as_json, read_ours

DOCUMENT_SCHEMA = files("covdp.publish").joinpath("document.schema.json")
"""JSON Schema of a document: a file beside this one."""


def cost_rows(steps: Iterable[Step], rhos: Iterable[float]) -> list[CostPart]:
    """Return what each draw of noise cost; ρ is None where nothing certifies it.

    Parameters
    ----------
    steps : iterable of Step
        Draws of noise.
    rhos : iterable of float
        Parameter ρ of zCDP that is certified for each; NaN where none is.
    """
    return [
        CostPart.model_construct(
            step=step.name,
            sensitivity=step.sensitivity,
            sigma=step.sigma,
            rho=None if math.isnan(rho) else rho,
        )
        for step, rho in zip(steps, rhos, strict=True)
    ]


NAME_BYTES = 200
"""Bytes of a name, of 255 that a file may have, before its ending; ours have at most 161."""


def check_folder(folder: Path) -> None:
    """Raise `OutputError` unless a release can be written to `folder`: before it is paid for.

    Parameters
    ----------
    folder : Path
        Folder of the results.
    """
    make_folder(folder / "release")
    if (folder / "report.html").is_dir():
        raise OutputError(
            f"cannot write {folder / 'report.html'}, which is a folder; choose another --out"
        )


def write_document(content: bytes, folder: Path) -> Path:
    """Write the bytes the ledger gave back to ``OUT/release/<name>-<run key>.json``.

    Where that name is taken by another release, or by what is not ours, it gets a number; a
    damaged document is written again.

    Parameters
    ----------
    content : bytes
        Committed document, JSON in UTF-8.
    folder : Path
        Folder of the results.

    Returns
    -------
    Path
        Path of the document.

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
    return write_whole(path, content)


def read_document(path: Path) -> Document:
    """Return the document written to `path`; raise `OutputError` when it is damaged.

    Parameters
    ----------
    path : Path
        File of the document.
    """
    try:
        with open_regular(path) as stream:
            return read_ours(json.load(stream))
    except ConfigError:  # an add-on that is not there
        raise
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, ValidationError):  # bytes that the ledger had, and no disk is full
            raise LedgerError(
                f"{path} is no document of this version of covdp; if another one committed it, its "
                "values are there and paid: make its page with that version"
            ) from error
        raise OutputError(
            f"cannot read {path}; release again with the same run key: the ledger gives the same "
            "values back and charges nothing"
        ) from error


def write_parquet(document: Document, path: Path) -> Path:
    """Write a document as Parquet, a row a class; its statement and settings are metadata.

    Parameters
    ----------
    document : Document
        Document of a release or a night.
    path : Path
        File that is written.

    Returns
    -------
    Path
        The same path.
    """
    values = as_json(document)
    return write_release(values.pop("classes"), values, path)


def _is_taken(path: Path, content: bytes) -> bool:
    """Return whether `path`, or a file that goes with it, must be left to somebody else."""
    beside = [path, path.with_suffix(".parquet"), path.with_suffix(".html")]
    try:
        if not all(_can_be_replaced(place) for place in beside if os.path.lexists(place)):
            return True
        data = path.read_bytes() if path.exists() else content
    except OSError:  # it cannot even be looked at
        return True
    return data != content and _is_whole(data)


def _can_be_replaced(path: Path) -> bool:
    """Return whether there is a file that this user may replace, sticky folders included."""
    status, folder = path.lstat(), path.parent.stat()
    user = getattr(os, "geteuid", lambda: 0)()
    owned = not folder.st_mode & stat.S_ISVTX or user in (0, status.st_uid, folder.st_uid)
    return stat.S_ISREG(status.st_mode) and owned


def _is_whole(content: bytes) -> bool:
    """Return whether a document is undamaged: of another release, or of another program."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def _safe(text: str) -> str:
    """Return `text` as part of a file name, cut where no folder would take it."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)
    return plain.encode()[:NAME_BYTES].decode(errors="ignore")
