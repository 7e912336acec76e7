"""Database of a ledger: its tables, and one transaction at a time, locked and bounded in time.

Nothing is held open between transactions, so a `Database` can be copied, pickled and forked.
"""

import math
import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from covdp.errors import LedgerError, require_extra
from covdp.files import NONBLOCK, leave_to_owner, make_folders

TABLES = sa.MetaData()

META = sa.Table(
    "covdp_meta",
    TABLES,
    # "format", "key" of all HMACs, "seal" of the journal
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
JOURNAL = sa.Table(
    "covdp_journal",
    TABLES,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),  # 1, 2, 3 …
    sa.Column("event", sa.Text, nullable=False),  # JSON
    sa.Column("mac", sa.Text, nullable=False),  # HMAC of the number, the event and the mac before
)
RESULTS = sa.Table(
    "covdp_results",
    TABLES,
    sa.Column("identity", sa.Text, primary_key=True),  # as in the event of the charge
    sa.Column("result", sa.LargeBinary, nullable=False),  # its SHA-256 is in an event
)
CLAIMS = sa.Table(
    "covdp_claims",
    TABLES,
    # row of the stream's charge
    sa.Column("scope", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("unit", sa.LargeBinary, primary_key=True),  # HMAC of the digest of an image or person
    sa.Column("night", sa.Integer, nullable=False),  # row of the night in the journal
    sa.Column("label", sa.Text, nullable=False),  # its class
    sa.Column("mac", sa.LargeBinary, nullable=False),  # HMAC of all these
    # of SQLite it has all that a night is read by
    sa.Index("covdp_claims_night", "night", "label"),
    sqlite_with_rowid=False,
)

DATABASE_SECONDS = 10.0
"""Seconds to wait for a connection or a lock; a server that falls silent is left after twice it."""
LOCK = 0x636F766470
"""Number of the advisory lock in PostgreSQL: the letters covdp."""
_SETTINGS = sa.text(
    "SELECT set_config('lock_timeout', :wait, true), set_config('statement_timeout', :wait, true),"
    " CASE WHEN current_setting('synchronous_commit') = 'off'"
    " THEN set_config('synchronous_commit', 'on', true) END"
)

_REASONS = {
    "SQLITE_BUSY": "has been locked by another process for {0:g} s; try again when that has ended",
    "SQLITE_FULL": "cannot grow: the disk is full; free some space and run again",
    "SQLITE_CORRUPT": "is damaged or no ledger; restore it from a backup, a new one forgets",
    "SQLITE_CANTOPEN": "cannot be opened; check path and permissions, "
    "or create it with `covdp ledger init`",
    "SQLITE_READONLY": "cannot be written; check the permissions of the user that runs this",
    "SQLITE_IOERR": "cannot be read or written: the disk failed or is full; check it and run again",
    "SQLITE_ERROR": "holds no ledger; create one with `covdp ledger init`, or check the address; "
    "if there was one, restore it from a backup",
    "": "cannot be reached, does not answer or refuses this login; check address, user and server",
}
_REASONS |= {
    "SQLITE_LOCKED": _REASONS["SQLITE_BUSY"],
    "SQLITE_NOTADB": _REASONS["SQLITE_CORRUPT"],
    "55P03": _REASONS["SQLITE_BUSY"],  # lock_not_available
    "57014": _REASONS["SQLITE_BUSY"],  # query_canceled, by statement_timeout
    "53100": _REASONS["SQLITE_FULL"],
    "42P01": _REASONS["SQLITE_ERROR"],  # undefined_table
    "25006": _REASONS["SQLITE_READONLY"],  # read_only_sql_transaction
    "42501": _REASONS["SQLITE_READONLY"],  # insufficient_privilege
}


@dataclass(frozen=True)
class Database:
    """The address of a ledger; `place` names it in messages, without user and password.

    Attributes
    ----------
    url : sqlalchemy.URL
        Address, with user and password.
    place : str
        Name in messages, without user and password.
    timeout : float
        Time to wait for the database, in seconds.
    """

    url: sa.URL = field(repr=False)
    place: str
    timeout: float

    @cached_property
    def file(self) -> Path | None:
        """The SQLite file, or None for PostgreSQL."""
        return Path(self.url.database or "") if self.url.drivername == "sqlite" else None


def locate(address: str | Path, timeout: float) -> Database:
    """Return the database at a path (SQLite) or URL (sqlite or postgresql); nothing is opened.

    Parameters
    ----------
    address : str or Path
        Path of an SQLite file, or URL of a database.
    timeout : float
        Time to wait for the database, in seconds.

    Raises
    ------
    LedgerError
        For any other address, a database in memory, or a timeout that is not a number above 0.
    """
    if not 0 < timeout < math.inf:
        raise LedgerError(f"a timeout must be above 0 seconds, found {timeout!r}; give one like 10")
    url = sa.URL.create("sqlite", database=str(address))
    if "://" in str(address):
        with suppress(ArgumentError, ValueError):
            url = sa.make_url(str(address))
    backend, name = url.get_backend_name(), url.database
    if backend in ("postgresql", "postgres") and name:
        host = url.host or url.query.get("host", "this machine")
        place = f"ledger {name!r} on {host}" + (f":{url.port}" if url.port else "")
        require_extra("psycopg", fault=LedgerError)
        return Database(url.set(drivername="postgresql+psycopg"), place, timeout)
    if backend == "sqlite" and name and "://" not in name and name != ":memory:" and not url.query:
        path = Path(name).absolute()
        return Database(sa.URL.create("sqlite", database=str(path)), f"ledger {path}", timeout)
    raise LedgerError(
        "the address of a ledger must be the path of a file, or a URL like "
        "postgresql+psycopg://user@host/name; this one is neither; check --ledger"
    )


def create_file(database: Database) -> None:
    """Make an empty SQLite file for its owner alone, with its folder, where there is none.

    Parameters
    ----------
    database : Database
        Place of the ledger.

    Raises
    ------
    LedgerError
        When it cannot be made.
    """
    if database.file:
        try:
            make_folders(database.file.parent)
            with suppress(FileExistsError):
                handle = os.open(database.file, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o600)
                leave_to_owner(handle, database.file.parent)
                os.close(handle)
            os.close(os.open(database.file, os.O_CREAT | os.O_RDONLY | NONBLOCK, 0o600))
        except OSError as error:
            raise LedgerError(
                f"{database.place} cannot be made ({error.strerror}); choose another with --ledger"
            ) from None


@contextmanager
def connect(database: Database, *, write: bool = True) -> Iterator[sa.Connection]:
    """Run the block as one transaction, alone: committed when it ends, undone when it raises.

    Parameters
    ----------
    database : Database
        Place of the ledger.
    write : bool
        True to write, False to read.

    Yields
    ------
    sa.Connection
        Connection within the transaction.

    Raises
    ------
    LedgerError
        One line for whatever goes wrong in the database, without its statements and secrets. When
        it comes from the end of the block, the transaction is whole or absent, and asking again
        tells which.
    """
    try:
        with closing(_connect(database)) as raw, _deadline(database, raw):
            _RAW.set(raw)
            with _engine(SQLITE if database.file else database.url).connect() as connection:
                _begin(connection, database, write)
                yield connection
                connection.commit()
    except _errors(database) as error:
        raise _explained(database, getattr(error, "orig", error)) from None


_RAW: ContextVar[Any] = ContextVar("raw")
"""The connection of the driver that a transaction has opened."""


SQLITE = sa.URL.create("sqlite")
"""Address of no file: statements that `_engine` has compiled serve all files."""


@lru_cache(maxsize=8)
def _engine(url: sa.URL) -> sa.Engine:
    """Return what runs statements on `_RAW`; it holds no connection, but statements it compiled."""
    return sa.create_engine(
        url,
        creator=_RAW.get,
        poolclass=NullPool,
        hide_parameters=True,
        # PostgreSQL: statements after the lock must see what was committed before it
        isolation_level="SERIALIZABLE" if url == SQLITE else "READ COMMITTED",
    )


def _errors(database: Database) -> tuple[type[Exception], ...]:
    """Return what may go wrong in SQLAlchemy or below it, or in what it makes of damaged fields."""
    fields = (SQLAlchemyError, UnicodeError, OverflowError, MemoryError)
    if database.file:
        return *fields, sqlite3.Error
    import psycopg

    return *fields, psycopg.Error


def _begin(connection: sa.Connection, database: Database, write: bool) -> None:
    """Open the transaction and, but for readers of SQLite, wait to be the only one."""
    if database.file:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
        return
    connection.execute(_SETTINGS, {"wait": str(math.ceil(1000 * database.timeout))})
    connection.execute(sa.text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK})


def _connect(database: Database) -> Any:
    """Return a new connection of the driver; a SQLite file is never created here."""
    if database.file:
        address = f"{database.file.as_uri()}?mode=rw"
        raw = sqlite3.connect(address, uri=True, timeout=database.timeout, isolation_level=None)
        # what is damaged is refused by the journal, not by its letters
        raw.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        try:
            raw.execute("PRAGMA cell_size_check=ON")
            raw.execute("PRAGMA synchronous=EXTRA")  # a commit survives a power cut
        except BaseException:  # of a file that is damaged or locked
            raw.close()
            raise
        return raw
    import psycopg
    from psycopg.conninfo import make_conninfo

    options: dict[str, Any] = {
        "connect_timeout": math.ceil(database.timeout),
        **database.url.translate_connect_args(username="user", database="dbname"),
        **database.url.query,
    }
    return psycopg.connect(make_conninfo(**options))


@contextmanager
def _deadline(database: Database, raw: Any) -> Iterator[None]:
    """Close the connection to a server that has been silent for twice the timeout."""
    if database.file:
        yield
        return
    with socket.socket(fileno=os.dup(raw.fileno())) as line:
        timer = threading.Timer(2 * database.timeout, _cut, [line])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _cut(line: socket.socket) -> None:
    """Shut a connection that another thread waits for; it fails there."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _explained(database: Database, error: BaseException | None) -> LedgerError:
    """Return one line for an error of a driver; its own text may quote secrets and is dropped."""
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or ""
    short = "_".join(code.split("_")[:2])  # SQLITE_BUSY_RECOVERY is SQLITE_BUSY
    other = f"refused a statement ({code}); check the server"
    if database.file:
        short, other = short or "SQLITE_CORRUPT", _REASONS["SQLITE_CORRUPT"]
    reason = _REASONS.get(short, other)
    return LedgerError(f"{database.place} {reason.format(database.timeout)}")
