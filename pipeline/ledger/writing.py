"""The ledger in one transaction: what it says, and the way to write more. Next: ``accounts.py``."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from pipeline.errors import LedgerError
from pipeline.ledger.charges import check_results, find_release
from pipeline.ledger.database import Database, transaction
from pipeline.ledger.entries import Reservation, Stored
from pipeline.ledger.journal import Event, Journal, append, last_row, read_journal
from pipeline.ledger.marker import Marker, check_marker, marker_path, move_marker, read_marker
from pipeline.ledger.state import State, copied, extend

_KNOWN: dict[tuple[Database, bytes], tuple[Journal, State]] = {}
"""The journal of the ledger that was used last, as verified, and what it adds up to.

A release opens the ledger ten times, and the journal may have thousands of rows.
"""


@dataclass(frozen=True)
class Book:
    """A ledger in one transaction: what its journal says, and the way to write more."""

    connection: Connection
    key: bytes = field(repr=False)
    journal: Journal
    state: State

    def write(self, event: Event) -> "Book":
        """Append an event; return the ledger as it is then."""
        journal = append(self.connection, self.key, self.journal, event)
        extend(self.state, event, len(journal.events))
        return replace(self, journal=journal)

    def release(self, identity: str) -> Reservation | Stored | None:
        """Return a release that was charged, or None."""
        return find_release(self.connection, self.journal, self.state, identity)


@contextmanager
def open_book(database: Database, key: bytes, *, write: bool = True) -> Iterator[Book]:
    """Open a transaction, verify the whole journal in it, and give what it adds up to.

    Its marker is compared before anything is decided, and moved once all that was written is kept.
    """
    path = marker_path(database, key)
    marker = read_marker(path)  # before the transaction: it may only be behind what that sees
    with transaction(database, write=write) as connection:
        before, _ = known = _KNOWN.get((database, key), (Journal(), State()))
        journal = read_journal(connection, key, before)
        check_marker(database, path, marker, journal)
        state = _added_up(journal, *known)
        check_results(connection, state)
        _KNOWN.clear()
        _KNOWN[database, key] = journal, copied(state)
        yield Book(connection, key, journal, state)
        end = Marker(*last_row(connection))
    if marker != end:
        with suppress(*(() if write else (LedgerError,))):  # who may only read need not write it
            move_marker(path, end)


def _added_up(journal: Journal, before: Journal, state: State) -> State:
    """Return what a journal adds up to; `state` is what `before` did, and is left as it is."""
    n = len(before.macs)
    if journal.macs[:n] != before.macs:
        n, state = 0, State()
    state = copied(state)
    for number, event in enumerate(journal.events[n:], n + 1):
        extend(state, event, number)
    return state
