"""Streams: charged once for many nights, because each unit enters on one of them only.

    open_stream ─► reserve_night ─► draw ─► commit_night ─► publish
    charged        units claimed    noise   result          files, from the stored bytes
    once                                    stored

*Why one charge is enough.* The caller's mechanism makes the whole sequence of nights cost, for a
unit that enters on any one of them, what the stream was charged. That holds only while no unit
enters twice, which the claims enforce (``claims.py``), and while there are at most `horizon`
nights. A stream that `follows` another shares its claims: a unit enters one of the two, so both
together cost the larger (parallel composition), which has been paid. Streams that do not, as of
other descriptors, may hold the same units, and each is charged.

Next: ``nights.py``.
"""

import hashlib
import json

from pipeline.errors import LedgerError
from pipeline.ledger.accounts import check_affordable
from pipeline.ledger.book import Ledger
from pipeline.ledger.charges import check_text
from pipeline.ledger.claims import start_claims
from pipeline.ledger.entries import Stream
from pipeline.ledger.fields import budget_fields, damaged, now, unit_fields
from pipeline.ledger.journal import Event, mac_of
from pipeline.ledger.names import clean_name
from pipeline.ledger.state import Opened, replay
from pipeline.ledger.writing import Book, open_book
from pipeline.privacy.composition import fits, for_group_as_written, repeat_as_written
from pipeline.privacy.definitions import Budget, check_count


def open_stream(
    ledger: Ledger,
    population: str,
    name: str,
    query: str,
    *,
    horizon: int,
    cost: Budget,
    group: int | None = 1,
    classes: int = 1,
    follows: str | None = None,
) -> Stream:
    """Charge a stream, once; or return it when it is open already.

    Parameters
    ----------
    ledger : Ledger
    population : str
        Who pays.
    name : str
        Its name among the streams of the population. Under one name there is one stream for ever,
        so that a setting that is changed by mistake opens, and pays for, no second one.
    query : str
        All that must stay the same from night to night, in a canonical form. Versions of the code
        do not belong here: they would end the stream.
    horizon : int
        The most nights it may have.
    cost, group, classes
        As in `Ledger.reserve`; `group` None says that units are persons.
    follows : str, optional
        The stream whose units do not enter this one. It has paid for both, if this one is charged
        at most as much for the same kind of units.

    Raises
    ------
    BudgetError
        Not enough left.
    LedgerError
        The stream was opened with something else, or what it follows does not fit; or as for
        `Ledger.reserve`.
    """
    population, name = clean_name("population", population), clean_name("stream", name)
    check_text("query", query)
    horizon = check_count(horizon, "a horizon")
    of_one_class = for_group_as_written(cost, 1 if group is None else group)
    charged = repeat_as_written(of_one_class, classes)
    identity = name_of(ledger, "stream", population, name)
    told = {"query": query, "horizon": horizon, "cost": budget_fields(charged)}
    told |= {**unit_fields(group, classes), "follows": follows}
    with open_book(ledger.database, ledger.key) as book:
        if (found := book.state.streams.get(identity)) is not None:
            check_going(found)
            if found.told != told:
                raise LedgerError(
                    f"the stream {name!r} of {population!r} was opened with other settings; set "
                    "them back, or give another name: that is another stream, and is charged"
                )
            return shown_stream(book, identity)
        number = len(book.journal.events) + 1
        account = ledger._account(book, population)
        if follows is None:
            check_affordable(account, charged)
            scope = number
        else:
            scope = _followed(ledger, book, population, follows, told, charged)
        event: Event = {"kind": "stream", "at": now(), "population": population, "name": name}
        book = book.write({**event, "identity": identity, "scope": scope, "told": told})
        if follows is None:
            start_claims(book.connection, ledger.key, scope)
        return shown_stream(book, identity)


def stream_named(ledger: Ledger, population: str, name: str) -> Stream | None:
    """Return the stream of a name as it is now, or None where none was opened.

    Raises
    ------
    LedgerError
        It ended, as the ledger was restored from a backup.
    """
    population, name = clean_name("population", population), clean_name("stream", name)
    identity = name_of(ledger, "stream", population, name)
    with open_book(ledger.database, ledger.key, write=False) as book:
        if (found := book.state.streams.get(identity)) is None:
            return None
        check_going(found)
        return shown_stream(book, identity)


def opened_stream(book: Book, stream: Stream) -> Opened:
    """Return a stream as the journal tells of it, or raise `LedgerError` when it cannot go on."""
    opened = book.state.streams.get(stream.identity)
    if opened is None:
        raise LedgerError(f"the ledger does not know the stream {stream.name!r}; open it again")
    check_going(opened)
    return opened


def check_going(opened: Opened) -> None:
    """Raise `LedgerError` when a stream has ended, as claims of it may be lost."""
    if opened.ended:
        raise LedgerError(
            f"the stream {opened.name!r} ended when the ledger was restored from a backup, which "
            "forgot units that had entered; open one of another name, which is charged"
        )


def _followed(
    ledger: Ledger, book: Book, population: str, name: str, told: Event, charged: Budget
) -> int:
    """Return the scope of the stream that one follows, once it has paid for that."""
    found = book.state.streams.get(
        name_of(ledger, "stream", population, clean_name("stream", name))
    )
    if found is None or found.ended:
        raise LedgerError(
            f"{population!r} has no stream {name!r} whose units are all known; open one that "
            "follows none"
        )
    units = ("group", "unit", "classes")
    if any(found.told.get(one) != told.get(one) for one in units):
        raise LedgerError(
            f"the stream {name!r} told apart other units, so another cannot go on from it; keep "
            "unit, group and classes, or open one that follows none"
        )
    if type(charged) is not type(found.cost) or not fits(charged, found.cost):
        raise LedgerError(
            f"the stream {name!r} was charged {found.cost!r}, which pays for one that follows at "
            f"no more than that, found {charged!r}; ask for less, or open one that follows none"
        )
    return found.scope


def shown_stream(book: Book, identity: str) -> Stream:
    """Return a stream as it is shown."""
    opened = book.state.streams[identity]
    then = replay(book.journal.events[: opened.number]).account(opened.population)
    if then is None:
        raise damaged(f"row {opened.number} of its journal charges nobody")
    latest = next(reversed(opened.nights), None)
    open_one = latest and book.state.nights[opened.nights[latest]].committed is None
    return Stream(
        population=opened.population,
        name=opened.name,
        horizon=opened.horizon,
        unit=opened.unit,
        cost=opened.cost,
        nights=len(opened.nights),
        latest=latest,
        unfinished=latest if open_one else None,
        account=then.row(),
        query=opened.told["query"],
        scope=opened.scope,
        identity=identity,
    )


def version_of(book: Book, opened: Opened) -> str:
    """Return what tells two states of a stream apart: its nights, reserved and settled.

    And those of all streams with the same claims: units that enter one of them enter no other, and
    the mean of a stream goes on in the one that follows it.
    """
    shared = (one for one in book.state.streams.values() if one.scope == opened.scope)
    nights = (book.state.nights.get(name) for one in shared for name in one.nights.values())
    rows = [(night.number, night.digest) for night in nights if night is not None]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def name_of(ledger: Ledger, purpose: str, *parts: str) -> str:
    """Return the HMAC by which something is known inside the ledger."""
    return mac_of(ledger.key, f"{purpose}\0{json.dumps(parts)}")
