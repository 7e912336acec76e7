"""The journal: all that ever happened to a ledger, one row an event, chained by HMAC.

    mac(i) = HMAC(key, mac(i − 1), i, event(i))        seal = HMAC(key, n, mac(n))

The seal stands in another table. Whoever changes, loses, repeats or moves a row, at the end too,
breaks the chain or the seal, and the next transaction refuses to go on and names the row. All rows
are read and verified each time, in the transaction that decides; those that are letter by letter
what this process has verified before need no second HMAC.

**The marker** says how far the journal went, outside the database, so that a restored copy is
noticed. It is one small file: the number of the journal's last row and its mac. For SQLite it
stands beside the ledger, as ``NAME.marker``; for PostgreSQL in `MARKERS_VARIABLE`, else in the
user's state folder, by the ledger's identity, on each machine that uses it. It is written after a
transaction was committed and read before one begins, so it never runs ahead of its ledger. Hence
the rules:

====================================  ==========================================================
the database                          then
====================================  ==========================================================
ends before its marker, or holds      it was restored or replaced, and what was spent since is
another row there                     not in it: refused until someone confirms
goes on after its marker              killed between the two, or used from another machine: the
                                      marker is moved forward
has no marker, SQLite                 refused until someone confirms, unless nothing but its first
                                      row was ever written
has no marker, PostgreSQL             this machine sees it for the first time: one is made
====================================  ==========================================================

A marker that is restored together with its ledger notices nothing: keep it out of the backups.
"""

import hmac
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Connection, insert, update

from covdp.errors import LedgerError, OutputError
from covdp.files import make_folders, open_regular, write_whole
from covdp.ledger.database import JOURNAL, META, Database
from covdp.ledger.records import damaged

Event: TypeAlias = dict[str, Any]
SEAL = "seal"


@dataclass(frozen=True)
class Journal:
    """The verified rows of a ledger, first to last: number, event as JSON, and mac.

    Attributes
    ----------
    rows : tuple of (int, str, str)
        Number, event as JSON, and mac of each row.
    """

    rows: tuple[tuple[int, str, str], ...] = ()

    @property
    def mac(self) -> str:
        """The mac of the last row; "" of none."""
        return self.rows[-1][2] if self.rows else ""

    def events(self, first: int = 0, end: int | None = None) -> list[Event]:
        """Return the events after the first rows, up to row `end`.

        Parameters
        ----------
        first : int
            Number of rows to leave out.
        end : int, optional
            End of the rows, exclusive; all when None.
        """
        lines = ",".join(line for _, line, _ in self.rows[first:end])
        return list(json.loads(f"[{lines}]"))


def append(connection: Connection, key: bytes, journal: Journal, *events: Event) -> Journal:
    """Write events after the last and seal them; return the journal that is there now.

    Parameters
    ----------
    connection : Connection
        Connection in a transaction.
    key : bytes
        Secret key of the ledger, 32 bytes.
    journal : Journal
        Journal as it is before.
    *events : Event
        Changes in order.

    Returns
    -------
    Journal
        Journal with the events.
    """
    mac = journal.mac
    rows: list[tuple[int, str, str]] = []
    for number, event in enumerate(events, len(journal.rows) + 1):
        line = json.dumps(event, sort_keys=True)
        mac = chain(key, mac, number, line)
        rows.append((number, line, mac))
    names = JOURNAL.columns.keys()
    connection.execute(insert(JOURNAL), [dict(zip(names, row, strict=True)) for row in rows])
    longer = Journal((*journal.rows, *rows))
    sealed = {"value": seal(key, len(longer.rows), mac)}
    connection.execute(update(META).where(META.c.name == SEAL).values(sealed))
    return longer


def read_journal(connection: Connection, key: bytes, before: Journal | None = None) -> Journal:
    """Return the journal once every row and the seal have been verified.

    Parameters
    ----------
    connection : Connection
        Connection in a transaction.
    key : bytes
        Secret key of the ledger, 32 bytes.
    before : Journal, optional
        Journal that was verified under the same key before. Rows that say the same are not verified
        again.

    Raises
    ------
    LedgerError
        The first row that is not what was written, or how many are missing.
    """
    meta = dict(connection.exec_driver_sql("SELECT name, value FROM covdp_meta").tuples().all())
    if meta.get("key") != key.hex():
        raise damaged("its key was changed")
    query = "SELECT number, event, mac FROM covdp_journal ORDER BY number"
    rows = tuple(map(tuple, connection.exec_driver_sql(query).all()))
    begun = before if before and before.rows == rows[: len(before.rows)] else Journal()
    mac = begun.mac
    for expected, (number, line, code) in enumerate(rows[len(begun.rows) :], len(begun.rows) + 1):
        if number != expected:
            raise damaged(f"row {expected} of its journal is missing")
        if not isinstance(line, str) or (mac := chain(key, mac, number, line)) != code:
            raise damaged(f"row {expected} of its journal was changed after it was written")
    if meta.get(SEAL) != seal(key, len(rows), mac):
        raise damaged(_end(meta.get(SEAL), len(rows)))
    return Journal(rows)


def last_row(connection: Connection) -> tuple[int, str]:
    """Return the number and the mac of the last row, as this transaction leaves it.

    Parameters
    ----------
    connection : Connection
        Connection in a transaction.
    """
    query = "SELECT number, mac FROM covdp_journal ORDER BY number DESC LIMIT 1"
    number, mac = connection.exec_driver_sql(query).tuples().one()
    return number, mac


def chain(key: bytes, before: str, number: int, line: str) -> str:
    """Return the mac of a row, in hexadecimal.

    Parameters
    ----------
    key : bytes
        Secret key of the ledger, 32 bytes.
    before : str
        Mac of the row before.
    number : int
        Number of the row.
    line : str
        Content of the row.
    """
    return mac_of(key, f"row\0{before}\0{number}\0{line}")


def seal(key: bytes, number: int, mac: str) -> str:
    """Return the stored end of the journal: the number of rows, and the HMAC of the last.

    Parameters
    ----------
    key : bytes
        Secret key of the ledger, 32 bytes.
    number : int
        Number of rows.
    mac : str
        Mac of the last row.
    """
    sealed = mac_of(key, f"seal\0{number}\0{mac}")
    return f"{number} {sealed}"


def mac_of(key: bytes, message: str) -> str:
    """Return the HMAC-SHA256 of a message, in hexadecimal; its first word says what it is of.

    Parameters
    ----------
    key : bytes
        Secret key of the ledger, 32 bytes.
    message : str
        Text to seal.
    """
    return hmac.digest(key, message.encode(errors="surrogateescape"), "sha256").hex()


def _end(sealed: object, count: int) -> str:
    """Return what is wrong with the end of a journal whose rows are a chain."""
    number = sealed.split()[0] if isinstance(sealed, str) and sealed.split() else ""
    if number.isdecimal() and int(number) > count:
        return f"its journal ends at row {count}, and {number} were written"
    return f"row {count} of its journal is not the last that was sealed; rows were put back or lost"


MARKERS_VARIABLE = "COVDP_MARKERS"
"""Environment variable: the folder of the markers of ledgers in PostgreSQL."""
MARKER_BYTES = 18 + 1 + 64 + 1
"""Most bytes of a marker: number, blank, mac, line break."""


class Marker(NamedTuple):
    """The last row of a journal that is known to have been committed.

    Attributes
    ----------
    number : int
        Number of the row.
    mac : str
        Mac of the row.
    """

    number: int
    mac: str


def path_beside(database: Database, key: bytes, ending: str = "marker") -> Path:
    """Return the path of what a ledger keeps outside the database, by how its name ends.

    Parameters
    ----------
    database : Database
        Place of the ledger.
    key : bytes
        Secret key of the ledger, 32 bytes.
    ending : str
        Last part of the file's name.
    """
    if database.file:
        file = database.file.resolve()  # one ledger has one of it, by whatever link it is opened
        return file.with_name(f"{file.name}.{ending}")
    import platformdirs

    folder = os.environ.get(MARKERS_VARIABLE) or platformdirs.user_state_path("covdp") / "markers"
    return Path(folder) / f"{mac_of(key, 'marker')[:32]}.{ending}"


def read_marker(path: Path) -> Marker | None:
    """Return the marker, or None where there is none.

    Parameters
    ----------
    path : Path
        Path of the marker.

    Raises
    ------
    LedgerError
        It cannot be read; one that holds anything else than a marker is of no row.
    """
    try:
        with open_regular(path) as stream:
            text = stream.read(MARKER_BYTES + 1).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, error.strerror) from None
    match = re.fullmatch(r"([1-9][0-9]{0,17}) ([0-9a-f]{64})\n", text)
    return Marker(int(match[1]), match[2]) if match else Marker(0, "")


def restored_fault(database: Database, path: Path, marker: Marker | None, journal: Journal) -> str:
    """Return the reason why a ledger is taken for a restored one, by the rules above; else "".

    Parameters
    ----------
    database : Database
        Place of the ledger.
    path : Path
        Path of the marker.
    marker : Marker or None
        Marker as it was read; None where there is none.
    journal : Journal
        Journal, verified.
    """
    rows = len(journal.rows)
    if marker is None:
        if not database.file or rows == 1:
            return ""
        return f"has lost {path}, which stood beside it; put that back if the file was moved"
    if marker.number == 0:
        return f"has a marker that cannot be read, {path}"
    if marker.number > rows:
        return (
            f"is an old copy: its journal ends at row {rows}, and {path} says that "
            f"{marker.number} were written; put the newest ledger back"
        )
    if journal.rows[marker.number - 1][2] != marker.mac:
        return (
            f"is not the one that {path} was written for: row {marker.number} of its journal is "
            "another; put that one back"
        )
    return ""


def move_marker(path: Path, end: Marker, *, back: bool = False) -> None:
    """Write where a journal ends, into its marker; never an earlier end, unless `back`.

    Parameters
    ----------
    path : Path
        Path of the marker.
    end : Marker
        End of the journal.
    back : bool
        True to accept an earlier end.

    Raises
    ------
    LedgerError
        It cannot be written.
    """
    now = None if back else read_marker(path)
    if now and now.number >= end.number:  # another process went further meanwhile
        return
    try:
        make_folders(path.parent, mode=0o700)
        write_whole(path, f"{end.number} {end.mac}\n", mode=0o600)
    except (OutputError, OSError) as error:
        raise _unusable(path, getattr(error.__cause__ or error, "strerror", None)) from None


def _unusable(path: Path, why: str | None) -> LedgerError:
    return LedgerError(
        f"{path}, the marker of a ledger, cannot be read or written ({why or 'unknown'}); nothing "
        f"may be published until it can; check the folder and the disk, or, for PostgreSQL, name "
        f"another in {MARKERS_VARIABLE}"
    )
