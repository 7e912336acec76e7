"""All results that were committed, for who looks back on them, and what each cost."""

import hashlib
from dataclasses import dataclass

from pipeline.errors import LedgerError
from pipeline.ledger.book import Ledger
from pipeline.ledger.charges import read_result
from pipeline.ledger.entries import PopulationRow
from pipeline.ledger.fields import damaged
from pipeline.ledger.names import clean_name
from pipeline.ledger.state import Opened
from pipeline.ledger.writing import Book, open_book
from pipeline.privacy.definitions import Budget


@dataclass(frozen=True)
class Charge:
    """What a result cost.

    Attributes
    ----------
    cost : Budget
        Of the release, or of its stream for all nights.
    charged : bool
        Whether the account was charged since.
    settled : bool
        Whether the result was stored since; if not, it had been released before.
    of_stream : bool
        Whether the result is of a night.
    account : PopulationRow
        As it is now.
    """

    cost: Budget
    charged: bool
    settled: bool
    of_stream: bool
    account: PopulationRow


def committed_results(
    ledger: Ledger, population: str | None = None
) -> dict[str, tuple[bytes, ...]]:
    """Return the results of each population that has any, in the order in which they were paid.

    Releases and nights of streams alike, those of streams that have ended too. Each is compared
    with the digest that was committed.

    Parameters
    ----------
    ledger : Ledger
    population : str, optional
        One population only.

    Raises
    ------
    LedgerError
        No such population, a result that was changed or lost, or a database that fails.
    """
    name = None if population is None else clean_name("population", population)
    with open_book(ledger.database, ledger.key, write=False) as book:
        if name is not None and book.state.account(name) is None:
            known = ", ".join(map(repr, sorted(book.state.totals))) or "none"
            raise LedgerError(
                f"{ledger.database.place} has no population {population!r}; it has {known}"
            )
        rows = sorted(row for row in _rows(book) if name in (None, row[1]))
        found: dict[str, list[bytes]] = {}
        for number, whose, identity, digest in rows:
            result = read_result(book.connection, identity, digest, number)
            found.setdefault(whose, []).append(result)
    return {whose: tuple(results) for whose, results in found.items()}


def _rows(book: Book) -> list[tuple[int, str, str, str]]:
    """Return row in the journal, population, identity and digest of all that has a result."""
    state = book.state
    rows = [
        (paid.number, paid.population, identity, paid.digest)
        for identity, paid in state.releases.items()
        if paid.digest is not None
    ]
    for stream in state.streams.values():
        nights = ((identity, state.nights.get(identity)) for identity in stream.nights.values())
        rows += [
            (night.number, stream.population, identity, night.digest)
            for identity, night in nights
            if night is not None and night.digest is not None
        ]
    return rows


def rows_written(ledger: Ledger) -> int:
    """Return how many rows the journal has: what `charge_of` counts from."""
    with open_book(ledger.database, ledger.key, write=False) as book:
        return len(book.journal.events)


def charge_of(ledger: Ledger, result: bytes, since: int) -> Charge:
    """Return what a result cost, and whether that was paid after the first `since` rows.

    By rows and not by clocks, which are set back.

    Raises
    ------
    LedgerError
        The result is not in the ledger, or the database fails.
    """
    digest = hashlib.sha256(result).hexdigest()
    with open_book(ledger.database, ledger.key, write=False) as book:
        state, later = book.state, book.journal.events[since:]
        new = any(one["kind"] == "result" and one["digest"] == digest for one in later)
        paid = next((one for one in state.releases.values() if one.digest == digest), None)
        owner = paid or next(
            (
                one
                for one in state.streams.values()
                for name in one.nights.values()
                if name in state.nights and state.nights[name].digest == digest
            ),
            None,
        )
        account = state.account(owner.population) if owner else None
        if owner is None or account is None:
            raise damaged("a result that was just stored is not in it")
        follows = isinstance(owner, Opened) and owner.scope != owner.number  # paid by another
        charged = owner.number > since and not follows
        return Charge(owner.cost, charged, new, paid is None, account.row())
