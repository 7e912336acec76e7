"""Making and opening a ledger. Next: ``takeover.py``, for ledgers of the format before."""

import secrets
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, text

from pipeline.errors import LedgerError
from pipeline.ledger import schema
from pipeline.ledger.book import Ledger
from pipeline.ledger.database import TIMEOUT, Database, create_file, locate, transaction
from pipeline.ledger.fields import now, read_key
from pipeline.ledger.journal import Event, append, last_row, read_journal, start_journal
from pipeline.ledger.marker import Marker, fault, marker_path, move_marker, read_marker
from pipeline.ledger.state import replay
from pipeline.ledger.takeover import OLD_FORMAT, take_over

FORMAT = "2"
"""Layout of the tables; one of a later version is refused."""


def init_ledger(address: str | Path, *, timeout: float = TIMEOUT) -> Ledger:
    """Create a ledger where there is none, and open it; one that is there stays as it is.

    Any number of processes may do this at once: all get the same key.

    Parameters
    ----------
    address : str or Path
        Path of a SQLite file, made readable for its owner alone, or a URL such as
        ``postgresql+psycopg://user@host/name`` of a database that exists.
    timeout : float
        Seconds to wait for a connection or a lock.

    Raises
    ------
    LedgerError
        An address that cannot be used, in one line.
    """
    database = locate(address, timeout)
    create_file(database)
    with transaction(database) as connection:
        if not inspect(connection).has_table(schema.meta.name):
            _check_empty(connection, database)
            key = secrets.token_bytes(32)
            schema.TABLES.create_all(connection, checkfirst=False)
            rows = {"format": FORMAT, "key": key.hex()}
            values = [{"name": name, "value": value} for name, value in rows.items()]
            connection.execute(insert(schema.meta), values)
            first = {"kind": "ledger", "at": now(), "format": FORMAT, "marker": True}
            start_journal(connection, key, first)
    return open_ledger(address, timeout=timeout)


def _check_empty(connection: Connection, database: Database) -> None:
    """Raise `LedgerError` where a new ledger might take the place of a damaged one."""
    names = (schema.journal.name, schema.results.name)
    held = any(inspect(connection).has_table(name) for name in names)
    if held or (database.file and database.file.stat().st_size):
        raise LedgerError(
            f"{database.place} holds something already, but no ledger that can be read; restore "
            "it from a backup, or choose another place with --ledger"
        )
    if database.file and (marker := marker_path(database, b"")).exists():
        raise LedgerError(
            f"{database.place} is gone, and a new one forgets what was spent: its marker is still "
            f"at {marker}; restore the ledger from a backup, or choose another place with --ledger"
        )


def open_ledger(address: str | Path, *, timeout: float = TIMEOUT) -> Ledger:
    """Open a ledger that exists; never creates one, since a new ledger forgets what was spent.

    Parameters and errors are those of `init_ledger`.
    """
    ledger = _found(address, timeout)
    ledger.history()  # every row is verified
    return ledger


def confirm_restored(address: str | Path, *, timeout: float = TIMEOUT) -> bool:
    """Accept a ledger that its marker refuses, and write that into each account's history.

    Nothing is charged or given back: what was spent after the backup is not known. For the same
    reason all streams end, since units that were claimed on nights after it would be claimed again,
    and a charge without a result pays for no other draw, as it may have got one.

    Parameters and errors are those of `init_ledger`.

    Returns
    -------
    bool
        Whether there was anything to confirm.
    """
    ledger = _found(address, timeout)
    path = marker_path(ledger.database, ledger.key)
    marker = read_marker(path)
    with transaction(ledger.database) as connection:
        journal = read_journal(connection, ledger.key)
        why = fault(ledger.database, path, marker, journal)
        if not why:
            return False
        line = f"confirmed as restored after row {len(journal.events)}"
        line += f"; row {marker.number} had been written" if marker and marker.number else ""
        events: list[Event] = [
            {"kind": "restored", "at": now(), "population": name, "text": line}
            for name in sorted(replay(journal.events).totals)
        ]
        if events:
            append(connection, ledger.key, journal, *events)
        end = Marker(*last_row(connection))
    move_marker(path, end, back=True)
    return True


def _found(address: str | Path, timeout: float) -> Ledger:
    """Return a ledger that exists and is of this version's format; its journal is not read yet."""
    database = locate(address, timeout)
    meta = _read_meta(database)
    key = read_key(meta.get("key"))
    if meta.get("format") == OLD_FORMAT:
        with transaction(database) as connection:
            take_over(connection, key, FORMAT)
        meta = _read_meta(database)
    if meta.get("format") != FORMAT:
        raise LedgerError(
            f"{database.place} has format {meta.get('format')!r}, this version reads {FORMAT!r}; "
            "open it with the version that wrote it"
        )
    return Ledger(database, key)


def _read_meta(database: Database) -> dict[object, object]:
    """Return what the ledger says of itself."""
    with transaction(database, write=False) as connection:
        return dict(connection.execute(text("SELECT name, value FROM covdp_meta")).tuples().all())
