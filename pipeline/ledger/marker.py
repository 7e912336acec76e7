"""The marker: how far the journal went, kept outside the database, so that a restored copy is seen.

A marker is one small file: the number of the journal's last row and its mac. For SQLite it stands
beside the ledger, as ``NAME.marker``; for PostgreSQL in `MARKERS`, else in the user's state folder,
by the ledger's identity, on each machine that uses it. It is written after a transaction was kept
and read before one begins, so it never runs ahead of its ledger. Hence the rules:

====================================  ==========================================================
the database                          then
====================================  ==========================================================
ends before its marker, or holds      it was restored or replaced, and what was spent since is
another row there                     not in it: refused until someone confirms
goes on after its marker              killed between the two, or used from another machine: the
                                      marker is moved forward
has no marker, SQLite                 refused until someone confirms, unless nothing but its first
                                      row was ever written, or a version without markers made it
has no marker, PostgreSQL             this machine sees it for the first time: one is made
====================================  ==========================================================

A marker that is restored together with its ledger notices nothing: keep it out of the backups.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import LedgerError, OutputError
from pipeline.files import atomic_path, open_regular
from pipeline.ledger.database import Database
from pipeline.ledger.journal import Journal, mac_of

MARKERS = "COVDP_MARKERS"
"""Environment variable: the folder of the markers of ledgers in PostgreSQL."""
LONGEST = 18 + 1 + 64 + 1
"""Bytes of a marker."""


class Marker(NamedTuple):
    """The last row of a journal that is known to have been kept."""

    number: int
    mac: str


def marker_path(database: Database, key: bytes) -> Path:
    """Return where the marker of a ledger is."""
    return path_beside(database, key, "marker")


def path_beside(database: Database, key: bytes, ending: str) -> Path:
    """Return the path of what a ledger keeps outside the database, by how its name ends."""
    if database.file:
        file = database.file.resolve()  # one ledger has one of it, by whatever link it is opened
        return file.with_name(f"{file.name}.{ending}")
    import platformdirs

    folder = os.environ.get(MARKERS) or platformdirs.user_state_path("covdp") / "markers"
    return Path(folder) / f"{mac_of(key, 'marker')[:32]}.{ending}"


def read_marker(path: Path) -> Marker | None:
    """Return the marker, or None where there is none.

    Raises
    ------
    LedgerError
        It cannot be read; one that holds anything else than a marker is of no row.
    """
    try:
        with open_regular(path) as stream:
            text = stream.read(LONGEST + 1).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error.strerror) from None
    found = re.fullmatch(r"([1-9][0-9]{0,17}) ([0-9a-f]{64})\n", text)
    return Marker(int(found[1]), found[2]) if found else Marker(0, "")


def fault(database: Database, path: Path, marker: Marker | None, journal: Journal) -> str:
    """Return why a ledger is taken for a restored one, by the rules above; else ""."""
    rows = len(journal.events)
    if marker is None:
        marked = database.file and journal.events[0].get("marker")
        if not marked or rows == 1:
            return ""
        return f"has lost {path}, which stood beside it; put that back if the file was moved"
    if marker.number == 0:
        return f"has a marker that cannot be read, {path}"
    if marker.number > rows:
        return (
            f"ends at row {rows} of its journal, and {marker.number} were written, as {path} says; "
            "put the newer one back"
        )
    if journal.macs[marker.number - 1] != marker.mac:
        return (
            f"is not the one that {path} was written for: row {marker.number} of its journal is "
            "another; put that one back"
        )
    return ""


def check_marker(database: Database, path: Path, marker: Marker | None, journal: Journal) -> None:
    """Raise `LedgerError` when the ledger is taken for a restored one."""
    if found := fault(database, path, marker, journal):
        raise LedgerError(
            f"{database.place} {found}; if it was restored from a backup, what was spent since is "
            "not in it: `covdp ledger confirm-restored` accepts that, in writing"
        )


def move_marker(path: Path, end: Marker, *, back: bool = False) -> None:
    """Write the end of a journal that was kept; never back, unless told so.

    Raises
    ------
    LedgerError
        It cannot be written.
    """
    now = None if back else read_marker(path)
    if now and now.number >= end.number:  # another process went further meanwhile
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_path(path, mode=0o600) as temporary:
            temporary.write_text(f"{end.number} {end.mac}\n", encoding="ascii", newline="\n")
    except (OutputError, OSError) as error:
        raise _unusable(path, getattr(error.__cause__ or error, "strerror", None)) from None


def _unusable(path: Path, why: str | None) -> LedgerError:
    return LedgerError(
        f"{path}, the marker of a ledger, cannot be read or written ({why or 'unknown'}); nothing "
        f"may be published until it can; check the folder and the disk, or, for PostgreSQL, name "
        f"another in {MARKERS}"
    )
