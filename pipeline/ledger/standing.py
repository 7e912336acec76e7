"""What may be asked of the nights of a stream: which are settled, and who entered on which.

But for the stored nights all of it is as private as the images.
"""

from collections.abc import Sequence

from pipeline.ledger.accounts import check_affordable
from pipeline.ledger.book import Ledger
from pipeline.ledger.claims import find_claims, sum_of, unit_digest
from pipeline.ledger.entries import Standing, StoredNight, Stream
from pipeline.ledger.names import clean_name
from pipeline.ledger.nights import (
    horizon_reached,
    offered_units,
    planned_date,
    reserved_before,
    stored_night,
)
from pipeline.ledger.streams import check_going, name_of, opened_stream, shown_stream, version_of
from pipeline.ledger.writing import open_book
from pipeline.privacy.definitions import Budget


def entered_on(ledger: Ledger, stream: Stream, units: Sequence[bytes]) -> tuple[int | None, ...]:
    """Return on which night of this stream each unit entered: its number; None where on none.

    A unit that entered a stream which this one follows entered on night 0.
    """
    digests = [unit_digest(ledger.key, unit) for unit in units]
    with open_book(ledger.database, ledger.key, write=False) as book:
        opened = opened_stream(book, stream)
        rows = [book.state.nights[name] for name in opened.nights.values()]
        number = {night.number: night.position for night in rows}
        found = find_claims(book.connection, ledger.key, opened.scope, sorted(set(digests)))
        return tuple(
            number.get(found[one].night, 0) if found[one].unit == one else None for one in digests
        )


def total_of(ledger: Ledger, stream: Stream, units: Sequence[bytes], labels: Sequence[str]) -> str:
    """Return the `NightReservation.total` that a night of these units would have."""
    return sum_of(ledger.key, stream.scope, offered_units(ledger, stream.unit, units, labels))


def stored_nights(ledger: Ledger, stream: Stream, *, after: int = 0) -> tuple[StoredNight, ...]:
    """Return the nights of a stream that are settled, in order, from number `after` + 1 on."""
    with open_book(ledger.database, ledger.key, write=False) as book:
        names = list(opened_stream(book, stream).nights.values())[after:]
        settled = [name for name in names if book.state.nights[name].committed]
        return tuple(stored_night(book, name) for name in settled)


def streams_of(ledger: Ledger, population: str | None = None) -> tuple[Stream, ...]:
    """Return the streams of a population, or of all, that go on, in the order of their opening."""
    with open_book(ledger.database, ledger.key, write=False) as book:
        return tuple(
            shown_stream(book, name)
            for name, opened in book.state.streams.items()
            if not opened.ended and population in (None, opened.population)
        )


def standing(
    ledger: Ledger, population: str, name: str, run_key: str, *, cost: Budget | None = None
) -> Standing | None:
    """Return how far a stream is, and the night of a planned date where it is settled.

    None where no stream of that name was opened. What opening it, or reserving that night, would
    refuse for want of budget is refused at once: for use before images are read.

    Parameters
    ----------
    cost : Budget, optional
        What the account would pay for a new stream; nothing is asked of it when left out, as for a
        stream that follows another, which has paid.

    Raises
    ------
    BudgetError
        Not enough left, or the horizon is reached, the night is not among those that were, and
        they are all finished.
    LedgerError
        No account, another definition, or a stream that ended.
    """
    key, population = planned_date(run_key), clean_name("population", population)
    identity = name_of(ledger, "stream", population, clean_name("stream", name))
    with open_book(ledger.database, ledger.key, write=False) as book:
        account = ledger._account(book, population)
        opened = book.state.streams.get(identity)
        if opened is None:
            if cost is not None:
                check_affordable(account, cost)
            return None
        check_going(opened)
        nights = {name: book.state.nights[name] for name in opened.nights.values()}
        settled = {name: night for name, night in nights.items() if night.committed}
        pending = [name for name in nights if name not in settled]
        if key not in opened.nights and len(nights) >= opened.horizon and not pending:
            raise horizon_reached(opened)
        tonight, last = opened.nights.get(key, ""), next(reversed(settled), None)
        return Standing(
            stream=shown_stream(book, identity),
            run_key=key,
            version=version_of(book, opened),
            digests=tuple(night.digest or "" for night in settled.values()),
            totals=tuple(night.total for night in settled.values()),
            last=None if last is None else stored_night(book, last),
            tonight=stored_night(book, tonight) if tonight in settled else None,
            unfinished=reserved_before(nights[pending[0]], pending[0], ()) if pending else None,
        )
