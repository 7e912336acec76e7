"""Nights of a stream: units are claimed, noise is drawn, a result is stored; in order.

A night is known by the date it was planned for, never by a clock.

=============================  =================================================================
asked for                      answer
=============================  =================================================================
a date after all others        the next number; dates that were missed take none, and their units
                               enter now
a date that is committed       its bytes, whatever units are offered: two starts, a restart
a date that is reserved only   drawn again for the same units; new ones wait for the next night
a later date after such a one  refused: nights are finished in order
an earlier date, never         refused: the clock was set back, or set forward before
reserved
=============================  =================================================================

Why an unfinished night may be drawn again is said in the package's docstring. An image that entered
before is refused, a person left out. Both tell, of what one may submit, whether it is in a stream:
that is for the owner of the images; show neither to others.

**Nights that overlap.** A night rests on what `standing` said: which nights are settled, as what,
and who has entered. Another night may be reserved or settled before this one is. So the version of
what was read is compared in the transaction that reserves, in which nobody else writes, and a night
that was overtaken reserves nothing: it is begun anew. From its reservation to its commit no other
night of the stream can come between, since nights are finished in order. Next: ``standing.py``.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date

from sqlalchemy import insert

from pipeline.errors import BudgetError, LedgerError
from pipeline.ledger import schema
from pipeline.ledger.book import Ledger
from pipeline.ledger.charges import check_owner, check_text, read_result
from pipeline.ledger.claims import (
    Claim,
    add_claims,
    check_night,
    claimed_on,
    find_claims,
    sum_of,
    unit_digest,
)
from pipeline.ledger.entries import NightReservation, StoredNight, Stream
from pipeline.ledger.fields import damaged, now
from pipeline.ledger.journal import Event
from pipeline.ledger.names import clean_run_key
from pipeline.ledger.state import Night, Opened
from pipeline.ledger.streams import name_of, opened_stream, version_of
from pipeline.ledger.writing import Book, open_book

LARGE = 2000
"""Units of a night that is verified once and not in turn, as it would make each of those long."""


def reserve_night(
    ledger: Ledger,
    stream: Stream,
    run_key: str,
    *,
    units: Sequence[bytes],
    labels: Sequence[str],
    version: str,
    prepare: Callable[[NightReservation], None] | None = None,
) -> NightReservation | StoredNight | None:
    """Claim the units of a night before its noise is drawn; or return the night when it is settled.

    None says that another night came between: claim nothing, read `standing` and begin anew.

    Parameters
    ----------
    ledger : Ledger
    stream : Stream
    run_key : str
        The date it was planned for, YYYY-MM-DD.
    units : sequence of bytes
        What each unit is known by: a person's digest under `Ledger.person_key`, or that of an
        image's pixels. May be empty.
    labels : sequence of str
        Class of each unit, or classes of a person, as text on one line.
    version : str
        `Standing.version` of all that the night rests on.
    prepare : callable, optional
        Called with the reservation before it is kept, while no other night can be reserved: for
        what has to be on disk once it is. Where it raises, nothing is claimed.

    Raises
    ------
    BudgetError
        The horizon is reached.
    LedgerError
        An image that entered before, a unit twice, a date out of order (see above), or a database
        that fails. Nothing is claimed.
    """
    run_key = planned_date(run_key)
    offered = offered_units(ledger, stream.unit, units, labels)
    with open_book(ledger.database, ledger.key) as book:
        opened = opened_stream(book, stream)
        identity = opened.nights.get(run_key, "")
        night = book.state.nights.get(identity)
        if night and night.committed:
            return stored_night(book, identity)
        if version_of(book, opened) != version:
            return None
        before = find_claims(book.connection, ledger.key, opened.scope, list(offered))
        entered = {unit: claim for unit, claim in before.items() if claim.unit == unit}
        if night:
            held = _again(book, opened, identity, offered, entered)
        else:
            position = _next(book, opened, run_key)
            if entered and opened.unit == "image":
                raise _refused()
            mask = tuple(unit not in entered for unit in offered)
            new = {unit: label for unit, label in offered.items() if unit not in entered}
            identity = name_of(ledger, "night", stream.identity, run_key)
            event = _night_event(ledger, book, opened, new)
            known = {"run_key": run_key, "night": position, "identity": identity}
            book = book.write({**event, "stream": stream.identity, **known})
            row = len(book.journal.events)
            add_claims(book.connection, ledger.key, opened.scope, row, new, before)
            counted = event["units"], event["sum"]
            held = NightReservation(run_key, position, mask, False, *counted, identity)
        if prepare is not None:
            prepare(held)
    return held


def commit_night(ledger: Ledger, reservation: NightReservation, result: bytes) -> StoredNight:
    """Store `result` as the one result of a night, and return what may be published.

    The first commit wins, as for `Ledger.commit`: publish what is returned, never the argument.

    Raises
    ------
    LedgerError
        The ledger does not know the night, or the database fails: publish nothing, reserve again.
    """
    name, digest = reservation.identity, hashlib.sha256(result).hexdigest()
    with open_book(ledger.database, ledger.key) as book:
        night = book.state.nights.get(name)
        if night is None:
            raise LedgerError(
                f"{ledger.database.place} does not know this night, so nothing may be published; "
                "reserve it again"
            )
        if night.committed is None:
            row = {"identity": name, "result": result}
            book.connection.execute(insert(schema.results).values(row))
            event = {"kind": "result", "at": now(), "identity": name, "digest": digest}
            book = book.write(event)
        return stored_night(book, name)


def offered_units(
    ledger: Ledger, unit: str, units: Sequence[bytes], labels: Sequence[str]
) -> dict[bytes, str]:
    """Return the digest and class of each unit, in order; raise unless each is there once."""
    if len(units) != len(labels):
        raise LedgerError(
            f"each unit has a class, found {len(units)} units and {len(labels)} classes; give both"
        )
    for label in set(labels):
        check_text("class", label)
    offered = {
        unit_digest(ledger.key, bytes(one)): str(label)
        for one, label in zip(units, labels, strict=True)
    }
    if len(offered) != len(units):
        raise LedgerError(
            f"some {unit} is given twice in one night, and each enters once; leave the copy out"
        )
    return offered


def _next(book: Book, opened: Opened, run_key: str) -> int:
    """Return the number of a new night, or raise `LedgerError`; see the rules above."""
    latest = next(reversed(opened.nights), None)
    if latest is None:
        return 1
    night = book.state.nights[opened.nights[latest]]
    if run_key < latest:
        raise LedgerError(
            f"the night of {run_key} was not released when it was due, and {latest} has been; "
            "nights go forward: check the clock, its units enter with the next one"
        )
    if night.committed is None:
        raise LedgerError(
            f"the night of {latest} is not finished, and {run_key} comes after it; release that "
            f"one first, with run key {latest}"
        )
    if night.position >= opened.horizon:
        raise horizon_reached(opened)
    return night.position + 1


def horizon_reached(opened: Opened) -> BudgetError:
    """Return the error of a night after the last."""
    return BudgetError(
        f"the stream {opened.name!r} has had its {opened.horizon} nights; open another that "
        f"follows it, for new units at no further cost: a new name, and follows = {opened.name!r}"
    )


def _night_event(ledger: Ledger, book: Book, opened: Opened, new: Mapping[bytes, str]) -> Event:
    """Return what the journal keeps of a night's claims, once those of other nights are verified.

    Its units are also known as a whole, so that images under the name of another population are
    noticed as they are for a release; one alone is not, since blank images occur anywhere.
    """
    names = list(opened.nights.values())
    turn = len(names) - (1 << len(names).bit_length() >> 1)  # 0; 0, 1; 0, 1, 2, 3; …: each again
    for name in {names[-1], names[turn]} if names else ():
        night = book.state.nights[name]
        if night.units > LARGE and name != names[-1]:
            continue
        where = (opened.scope, night.number)
        check_night(book.connection, ledger.key, *where, night.units, night.total)
    known: dict[str, str] = {}
    if opened.unit == "image" and len(new) > 1:
        known["content"] = name_of(ledger, "units", *(unit.hex() for unit in sorted(new)))
        check_owner(book.state, opened.population, {"of this night": known["content"]})
    counted = {"units": len(new), "sum": sum_of(ledger.key, opened.scope, new)}
    return {"kind": "night", "at": now(), **counted, **known}


def _again(
    book: Book,
    opened: Opened,
    identity: str,
    offered: Mapping[bytes, str],
    entered: Mapping[bytes, Claim],
) -> NightReservation:
    """Return a night that was reserved before, for the units that it claimed and no others."""
    night = book.state.nights[identity]
    claimed = claimed_on(book.connection, opened.scope, night.number)
    if len(claimed) != night.units:
        raise damaged("the units that nights of a stream have claimed were changed or lost")
    if any(offered.get(unit) != label for unit, label in claimed.items()):
        raise LedgerError(
            f"the night of {night.run_key} was reserved for other units or classes, and may be "
            "drawn again for the same alone; give what was there when it was reserved"
        )
    if opened.unit == "image" and any(claim.night != night.number for claim in entered.values()):
        raise _refused()
    mask = tuple(unit in claimed for unit in offered)
    return reserved_before(night, identity, mask)


def reserved_before(night: Night, identity: str, mask: tuple[bool, ...]) -> NightReservation:
    """Return a night that has no result yet, as it was reserved."""
    position, units, total = night.position, night.units, night.total
    return NightReservation(night.run_key, position, mask, True, units, total, identity)


def _refused() -> LedgerError:
    return LedgerError(
        "some of these images entered this stream on an earlier night, and each may enter once; "
        "the folder probably still holds yesterday's images: give those that are new"
    )


def stored_night(book: Book, identity: str) -> StoredNight:
    """Return a night that is settled."""
    night = book.state.nights[identity]
    if night.committed is None or night.digest is None:
        raise damaged(f"row {night.number} of its journal has no result")
    return StoredNight(
        run_key=night.run_key,
        night=night.position,
        units=night.units,
        result=read_result(book.connection, identity, night.digest, night.number),
        result_digest=night.digest,
        reserved=night.reserved,
        committed=night.committed,
    )


def planned_date(run_key: str) -> str:
    """Return the planned date, whose letters are in the order of the days."""
    key = clean_run_key(run_key)
    with suppress(ValueError):
        if date.fromisoformat(key).isoformat() == key:
            return key
    raise LedgerError(
        f"a night is named by the date it was planned for, like 2026-01-31, found {run_key!r}; "
        "give that as its run key"
    )
