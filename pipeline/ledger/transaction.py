"""The ledger in one transaction: what it says, and the way to write more."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, insert, text

from pipeline.errors import LedgerError
from pipeline.ledger.accounts import Account
from pipeline.ledger.database import RESULTS, Database, connect
from pipeline.ledger.journal import (
    Event,
    Journal,
    Marker,
    append,
    last_row,
    move_marker,
    path_beside,
    read_journal,
    read_marker,
    restored_fault,
)
from pipeline.ledger.records import Reservation, Stored, damaged, now
from pipeline.ledger.state import State, copied, extend, replay

_KNOWN: dict[tuple[Database, bytes], tuple[Journal, State]] = {}
"""The journal of the ledger that was used last, as verified, and what it adds up to.

A release opens the ledger ten times, and the journal may have thousands of rows.
"""


@dataclass(frozen=True)
class Transaction:
    """A ledger in one transaction: what its journal says, and the way to write more."""

    connection: Connection
    database: Database
    key: bytes = field(repr=False)
    journal: Journal
    state: State

    def write(self, event: Event) -> "Transaction":
        """Append an event; return the ledger as it is then."""
        journal = append(self.connection, self.key, self.journal, event)
        extend(self.state, event, len(journal.events))
        return replace(self, journal=journal)

    def account(self, population: str) -> Account:
        """Return the account of `population`, or raise `LedgerError` when it has none."""
        account = self.state.account(population)
        if account is None:
            raise LedgerError(
                f"population {population!r} has no budget in {self.database.place}; "
                "give it one with `covdp ledger set-budget`"
            )
        return account

    def account_then(self, population: str, number: int) -> Account:
        """Return the account as it was right after row `number` of the journal."""
        account = replay(self.journal.events[:number]).account(population)
        if account is None:
            raise damaged(f"row {number} of its journal charges nobody")
        return account

    def release(self, identity: str) -> Reservation | Stored | None:
        """Return a release: settled, charged only, or None when it was never charged."""
        paid = self.state.releases.get(identity)
        if paid is None:
            return None
        if paid.committed is None or paid.digest is None:
            then = self.account_then(paid.population, paid.number)
            return Reservation(paid.population, paid.cost, True, then, identity)
        result = self.result(identity, paid.digest, paid.number)
        times = paid.reserved, paid.committed
        return Stored(paid.population, paid.cost, result, paid.digest, *times)

    def commit(self, identity: str, result: bytes) -> "Transaction":
        """Store the one result of a release or a night; return the ledger as it is then."""
        self.connection.execute(insert(RESULTS).values(identity=identity, result=result))
        digest = hashlib.sha256(result).hexdigest()
        return self.write({"kind": "result", "at": now(), "identity": identity, "digest": digest})

    def result(self, identity: str, digest: str, number: int) -> bytes:
        """Return a stored result, or raise `LedgerError` unless it is the one that was committed.

        `number` is the row in the journal of what was paid or reserved.
        """
        query = text("SELECT result FROM covdp_results WHERE identity = :identity")
        result = self.connection.scalar(query, {"identity": identity})
        if not isinstance(result, bytes) or hashlib.sha256(result).hexdigest() != digest:
            raise damaged(f"the result of row {number} of its journal was changed or lost")
        return result


@contextmanager
def transaction(database: Database, key: bytes, *, write: bool = True) -> Iterator[Transaction]:
    """Open a transaction, verify the whole journal in it, and give what it adds up to.

    Its marker is compared before anything is decided, and moved once all that was written is kept.
    """
    path = path_beside(database, key)
    marker = read_marker(path)  # before the transaction: it may only be behind what that sees
    with connect(database, write=write) as connection:
        before, _ = known = _KNOWN.get((database, key), (Journal(), State()))
        journal = read_journal(connection, key, before)
        if fault := restored_fault(database, path, marker, journal):
            raise LedgerError(
                f"{database.place} {fault}; if it was restored from a backup, what was spent since "
                "is not in it: `covdp ledger confirm-restored` accepts that, in writing"
            )
        state = _added_up(journal, *known)
        _check_results(connection, state)
        _KNOWN.clear()
        _KNOWN[database, key] = journal, copied(state)
        yield Transaction(connection, database, key, journal, state)
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


def _check_results(connection: Connection, state: State) -> None:
    """Raise `LedgerError` unless there is a result for every commit and for nothing else."""
    stored = set(connection.exec_driver_sql("SELECT identity FROM covdp_results").scalars())
    known = {name for name, _ in state.settled()}
    if stored != known:
        raise damaged(
            f"{len(known - stored)} of {len(known)} results are lost"
            if known - stored
            else f"{len(stored - known)} results were put in from outside"
        )
