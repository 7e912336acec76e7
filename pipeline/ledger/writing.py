"""The ledger in one transaction: what it says, and the way to write more. Next: ``accounts.py``."""

from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from pipeline.ledger.charges import find_release
from pipeline.ledger.entries import Reservation, Stored
from pipeline.ledger.journal import Event, Journal, append
from pipeline.ledger.state import State, extend


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
