"""All results that were committed, for who looks back on them."""

from pipeline.errors import LedgerError
from pipeline.ledger.book import Ledger
from pipeline.ledger.charges import read_result
from pipeline.ledger.names import clean_name
from pipeline.ledger.writing import Book, open_book


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
