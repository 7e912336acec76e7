"""What may be asked of the nights of a stream: which are settled, and who entered on which.

But for the stored nights all of it is as private as the images.
"""

from collections.abc import Sequence

from pipeline.ledger.accounts import check_affordable
from pipeline.ledger.book import Ledger
from pipeline.ledger.claims import find_claims, sum_of, unit_digest
from pipeline.ledger.entries import Standing, StoredNight, Stream
from pipeline.ledger.nights import (
    horizon_reached,
    offered_units,
    planned_date,
    reserved_before,
    stored_night,
)
from pipeline.ledger.streams import check_going, name_of, opened_stream
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


def entered_before(
    ledger: Ledger, stream: Stream, run_key: str, units: Sequence[bytes]
) -> tuple[bool, ...]:
    """Return which units entered on another night than this one: what a schedule leaves out."""
    found = entered_on(ledger, stream, units)
    own = None
    with open_book(ledger.database, ledger.key, write=False) as book:
        night = opened_stream(book, stream).nights.get(planned_date(run_key))
        own = book.state.nights[night].position if night else None
    return tuple(number is not None and number != own for number in found)


def total_of(ledger: Ledger, stream: Stream, units: Sequence[bytes], labels: Sequence[str]) -> str:
    """Return the `NightReservation.total` that a night of these units would have."""
    offered = offered_units(ledger, stream.unit, units, labels)
    with open_book(ledger.database, ledger.key, write=False) as book:
        return sum_of(ledger.key, opened_stream(book, stream).scope, offered)


def stored_nights(ledger: Ledger, stream: Stream, *, after: int = 0) -> tuple[StoredNight, ...]:
    """Return the nights of a stream that are settled, in order, from number `after` + 1 on."""
    with open_book(ledger.database, ledger.key, write=False) as book:
        names = list(opened_stream(book, stream).nights.values())[after:]
        settled = [name for name in names if book.state.nights[name].committed]
        return tuple(stored_night(book, name) for name in settled)


def standing(ledger: Ledger, stream: Stream, run_key: str) -> Standing:
    """Return how far a stream is, and the night of a planned date where it is settled."""
    key = planned_date(run_key)
    with open_book(ledger.database, ledger.key, write=False) as book:
        opened = opened_stream(book, stream)
        nights = {name: book.state.nights[name] for name in opened.nights.values()}
        settled = {name: night for name, night in nights.items() if night.committed}
        pending = [name for name in nights if name not in settled]
        return Standing(
            digests=tuple(night.digest or "" for night in settled.values()),
            totals=tuple(night.total for night in settled.values()),
            tonight=stored_night(book, opened.nights[key])
            if opened.nights.get(key) in settled
            else None,
            unfinished=reserved_before(nights[pending[0]], pending[0], ()) if pending else None,
        )


def check_night(
    ledger: Ledger, population: str, name: str, run_key: str, cost: Budget | None
) -> None:
    """Refuse at once what opening a stream or reserving its night would refuse for want of budget.

    For use before images are read; `cost` is what the account would pay, None for a stream that
    follows another, which has paid.

    Raises
    ------
    BudgetError
        Not enough left, or the horizon is reached and the night is not among those that were.
    LedgerError
        No account, another definition, or a stream that ended.
    """
    key, identity = planned_date(run_key), name_of(ledger, "stream", population, name)
    with open_book(ledger.database, ledger.key, write=False) as book:
        account = ledger._account(book, population)
        opened = book.state.streams.get(identity)
        if opened is None:
            if cost is not None:
                check_affordable(account, cost)
            return
        check_going(opened)
        if key not in opened.nights and len(opened.nights) >= opened.horizon:
            raise horizon_reached(opened)
