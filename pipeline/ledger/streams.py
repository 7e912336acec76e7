"""Streams of nights: charged once for many nights, as each image or person enters one only.

    open_stream ─► reserve_night ─► draw ─► commit_night ─► publish
    charged        units claimed    noise   result          files, from the stored bytes
    once                                    stored

*Why one charge is enough.* The caller's mechanism makes the whole sequence of nights cost, for a
unit that enters on any one of them, what the stream was charged. That holds only while no unit
enters twice, which the claims enforce, and while there are at most `horizon`
nights. A stream that `follows` another shares its claims: a unit enters one of the two, so both
together cost the larger (parallel composition), which has been paid. Streams that do not, as of
other descriptors, may hold the same units, and each is charged.

**Nights.** Units are claimed, noise is drawn, a result is stored; in order.

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

**Nights that overlap.** A night rests on what `stream_status` said: which nights are settled, as
what, and who has entered. Another night may be reserved or settled before this one is. So the
version of what was read is compared in the transaction that reserves, in which nobody else writes,
and a night that was overtaken reserves nothing: it is begun anew. From its reservation to its
commit no other night of the stream can come between, since nights are finished in order.

But for the stored nights, all that may be asked of nights is as private as the images.

Claims: on which night a unit entered a stream, once, by a uniqueness that the database enforces.

A row is a unit, by its digest under the ledger's key, and the next unit in ascending order; the
first row, of no unit, begins the ring. Each row has a mac. So one look-up of the row at or before a
digest proves that a unit was claimed or was not: where a row was lost, the row before it still
names it, and where one was changed, its mac does. That costs the same however many claims there
are. The journal's row of a night holds how many units it claimed and the sum of their macs modulo
2²⁵⁶, which no order changes; each new night verifies those of the night before, which an older copy
of the table lacks, and of one other, in turn, large ones excepted.

*Why a ring.* The primary key lets no unit stand twice, and the counts in the journal notice a row
that was lost; neither notices a row whose unit was changed to another, and then the first unit
enters again and pays twice. The sums would notice it on the night on which they are verified, but
to verify all of them each night takes as long as there are claims. The ring says of the very units
that come whether they were claimed, in as many look-ups as there are units.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from sqlalchemy import Connection, insert, text, update
from sqlalchemy.sql import bindparam

from pipeline.errors import BudgetError, LedgerError
from pipeline.ledger.api import Ledger, Transaction, charge_for, check_owner, check_text
from pipeline.ledger.database import CLAIMS
from pipeline.ledger.journal import Event, mac_of
from pipeline.ledger.records import (
    NightReservation,
    StoredNight,
    StreamAccount,
    StreamStatus,
    budget_fields,
    check_affordable,
    clean_name,
    clean_run_key,
    damaged,
    now,
    unit_fields,
)
from pipeline.ledger.state import NightState, StreamState
from pipeline.privacy.composition import fits
from pipeline.privacy.definitions import Budget, check_count

BYTES = 16
"""Of the digest of a unit: two of 10⁹ have the same with probability 10⁻²¹."""
AT_ONCE = 400
"""Units looked up in one statement; databases limit how many parameters one takes."""
HEAD = b""
"""The unit before all units, and after the last."""


class UnitClaim(NamedTuple):
    """A row: the privacy unit, the next one, the journal's row of its night, and its class."""

    unit: bytes
    next: bytes
    night: int
    label: str


def unit_digest(key: bytes, unit: bytes) -> bytes:
    """Return the keyed digest under which a privacy unit is claimed."""
    return hmac.digest(key, b"unit\0" + unit, "sha256")[:BYTES]


def start_claims(connection: Connection, key: bytes, scope: int) -> None:
    """Begin the ring of a scope, which is the journal's row of a stream."""
    connection.execute(insert(CLAIMS), _row(key, scope, UnitClaim(HEAD, HEAD, scope, "")))


def find_claims(
    connection: Connection, key: bytes, scope: int, units: Sequence[bytes]
) -> dict[bytes, UnitClaim]:
    """Return for each digest its own row, or that of the last privacy unit before it, verified.

    Raises
    ------
    LedgerError
        A row was changed, or the row after it was lost.
    """
    found: dict[bytes, UnitClaim] = {}
    for start in range(0, len(units), AT_ONCE):
        part = units[start : start + AT_ONCE]
        marks = ", ".join(f"(:u{i})" for i in range(len(part)))
        query = text(
            f"WITH asked (unit) AS (VALUES {marks}) "
            "SELECT asked.unit, c.unit, c.next, c.night, c.label, c.mac "
            "FROM asked CROSS JOIN covdp_claims c WHERE c.scope = :scope AND c.unit = "
            "(SELECT d.unit FROM covdp_claims d WHERE d.scope = :scope AND d.unit <= asked.unit "
            "ORDER BY d.unit DESC LIMIT 1)"
        )
        told = {f"u{i}": unit for i, unit in enumerate(part)}
        for asked, *fields, mac in connection.execute(query, {"scope": scope, **told}).tuples():
            claim = UnitClaim(*fields)
            behind = claim.unit < asked and claim.next and claim.next <= asked
            if behind or _mac(key, scope, claim) != mac:
                raise claims_changed()
            found[asked] = claim
    if len(found) != len(units):
        raise claims_changed()
    return found


def add_claims(
    connection: Connection,
    key: bytes,
    scope: int,
    night: int,
    labels: Mapping[bytes, str],
    before: Mapping[bytes, UnitClaim],
) -> None:
    """Claim privacy units that nobody has claimed; `before` is what `find_claims` gave for them."""
    after: dict[bytes, list[bytes]] = {}
    for unit in sorted(labels):
        after.setdefault(before[unit].unit, []).append(unit)
    new: list[UnitClaim] = []
    old: list[UnitClaim] = []
    for units in after.values():
        last = before[units[0]]
        old.append(last._replace(next=units[0]))
        new += [
            UnitClaim(unit, follower, night, labels[unit])
            for unit, follower in pairwise([*units, last.next])
        ]
    if new:
        table = CLAIMS
        same = (table.c.scope == bindparam("s"), table.c.unit == bindparam("u"))
        rows = [_row(key, scope, claim) for claim in old]
        changed = [{"s": scope, "u": r["unit"], "n": r["next"], "m": r["mac"]} for r in rows]
        written = update(table).where(*same).values(next=bindparam("n"), mac=bindparam("m"))
        connection.execute(written, changed)
        connection.execute(insert(table), [_row(key, scope, claim) for claim in new])


def sum_of(key: bytes, scope: int, labels: Mapping[bytes, str]) -> str:
    """Return the sum of the macs of claims and their classes, modulo 2²⁵⁶, in hexadecimal."""
    macs = (
        hmac.digest(key, f"entered\0{scope}\0{label}\0".encode() + unit, "sha256")
        for unit, label in labels.items()
    )
    return f"{sum(int.from_bytes(mac) for mac in macs) % 2**256:064x}"


def claimed_on(connection: Connection, scope: int, night: int) -> dict[bytes, str]:
    """Return the privacy units that a night claimed, each with its class."""
    query = text("SELECT unit, label FROM covdp_claims WHERE night = :night AND scope = :scope")
    rows = connection.execute(query, {"night": night, "scope": scope}).tuples()
    return dict(rows.all())


def check_night(
    connection: Connection, key: bytes, scope: int, night: int, count: int, total: str
) -> None:
    """Raise `LedgerError` unless the claims of a night are those that its row in the journal sums.

    Without one of them a privacy unit could enter a second night.
    """
    labels = claimed_on(connection, scope, night)
    if len(labels) != count or sum_of(key, scope, labels) != total:
        raise claims_changed()


def _row(key: bytes, scope: int, claim: UnitClaim) -> dict[str, object]:
    return {"scope": scope, **claim._asdict(), "mac": _mac(key, scope, claim)}


def _mac(key: bytes, scope: int, claim: UnitClaim) -> bytes:
    """Return the mac of a row; the lengths of what is joined are fixed, or it is kept apart."""
    fields = f"claim\0{scope}\0{claim.night}\0{claim.label}\0{len(claim.unit)}\0"
    return hmac.digest(key, fields.encode() + claim.unit + claim.next, "sha256")[:BYTES]


def claims_changed() -> Exception:
    """Return the error for claims that are not those that were written."""
    return damaged(
        "the images or persons that nights of a stream have claimed were changed or lost"
    )


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
) -> StreamAccount:
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
        As in `Ledger.reserve`; `group` None says that privacy units are persons.
    follows : str, optional
        The stream whose privacy units do not enter this one. It has paid for both, if this one is
        charged at most as much for the same kind of privacy units.

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
    charged = charge_for(cost, group, classes)
    identity = name_of(ledger, "stream", population, name)
    settings = {"query": query, "horizon": horizon, "cost": budget_fields(charged)}
    settings |= {**unit_fields(group, classes), "follows": follows}
    with ledger.transaction() as tx:
        if (opened := tx.state.streams.get(identity)) is not None:
            check_going(opened)
            if opened.settings != settings:
                raise LedgerError(
                    f"the stream {name!r} of {population!r} was opened with other settings; set "
                    "them back, or give another name: that is another stream, and is charged"
                )
            return shown_stream(tx, identity)
        number = len(tx.journal.events) + 1
        account = tx.account(population)
        if follows is None:
            check_affordable(account, charged)
            scope = number
        else:
            scope = _followed(ledger, tx, population, follows, settings, charged)
        event: Event = {"kind": "stream", "at": now(), "population": population, "name": name}
        tx = tx.write({**event, "identity": identity, "scope": scope, "settings": settings})
        if follows is None:
            start_claims(tx.connection, ledger.key, scope)
        return shown_stream(tx, identity)


def stream_named(ledger: Ledger, population: str, name: str) -> StreamAccount | None:
    """Return the stream of a name as it is now, or None where none was opened.

    Raises
    ------
    LedgerError
        It ended, as the ledger was restored from a backup.
    """
    population, name = clean_name("population", population), clean_name("stream", name)
    identity = name_of(ledger, "stream", population, name)
    with ledger.transaction(write=False) as tx:
        if (opened := tx.state.streams.get(identity)) is None:
            return None
        check_going(opened)
        return shown_stream(tx, identity)


def opened_stream(tx: Transaction, stream: StreamAccount) -> StreamState:
    """Return a stream as the journal tells of it, or raise `LedgerError` when it cannot go on."""
    opened = tx.state.streams.get(stream.identity)
    if opened is None:
        raise LedgerError(f"the ledger does not know the stream {stream.name!r}; open it again")
    check_going(opened)
    return opened


def check_going(opened: StreamState) -> None:
    """Raise `LedgerError` when a stream has ended, as claims of it may be lost."""
    if opened.ended:
        raise LedgerError(
            f"the stream {opened.name!r} ended when the ledger was restored from a backup, which "
            "forgot images or persons that had entered; open one of another name, which is charged"
        )


def _followed(
    ledger: Ledger, tx: Transaction, population: str, name: str, settings: Event, charged: Budget
) -> int:
    """Return the scope of the stream that one follows, once it has paid for that."""
    before = tx.state.streams.get(name_of(ledger, "stream", population, clean_name("stream", name)))
    if before is None or before.ended:
        raise LedgerError(
            f"{population!r} has no stream {name!r} whose images or persons are all known; open "
            "one that follows none"
        )
    units = ("group", "unit", "classes")
    if any(before.settings[part] != settings[part] for part in units):
        raise LedgerError(
            f"the stream {name!r} counts other privacy units, so another cannot go on from it; "
            "keep what it protects, group and classes, or open one that follows none"
        )
    if type(charged) is not type(before.cost) or not fits(charged, before.cost):
        raise LedgerError(
            f"the stream {name!r} was charged {before.cost!r}, which pays for one that follows at "
            f"no more than that, found {charged!r}; ask for less, or open one that follows none"
        )
    return before.scope


def shown_stream(tx: Transaction, identity: str) -> StreamAccount:
    """Return a stream as it is shown."""
    opened = tx.state.streams[identity]
    latest = next(reversed(opened.nights), None)
    open_one = latest and tx.state.nights[opened.nights[latest]].committed is None
    return StreamAccount(
        population=opened.population,
        name=opened.name,
        horizon=opened.horizon,
        unit=opened.unit,
        cost=opened.cost,
        nights=len(opened.nights),
        latest=latest,
        unfinished=latest if open_one else None,
        account=tx.account_then(opened.population, opened.number),
        query=opened.settings["query"],
        scope=opened.scope,
        identity=identity,
    )


def version_of(tx: Transaction, opened: StreamState) -> str:
    """Return what tells two states of a stream apart: its nights, reserved and committed.

    And those of all streams with the same claims: privacy units that enter one of them enter no
    other, and the mean of a stream goes on in the one that follows it.
    """
    shared = (one for one in tx.state.streams.values() if one.scope == opened.scope)
    nights = (tx.state.nights.get(name) for one in shared for name in one.nights.values())
    rows = [(night.number, night.digest) for night in nights if night is not None]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def name_of(ledger: Ledger, purpose: str, *parts: str) -> str:
    """Return the HMAC by which something is known inside the ledger."""
    return mac_of(ledger.key, f"{purpose}\0{json.dumps(parts)}")


LARGE = 2000
"""Units of a night that is verified once and not in turn, as it would make each of those long."""


def reserve_night(
    ledger: Ledger,
    stream: StreamAccount,
    run_key: str,
    *,
    units: Sequence[bytes],
    labels: Sequence[str],
    version: str,
    prepare: Callable[[NightReservation], None] | None = None,
) -> NightReservation | StoredNight | None:
    """Claim the images of a night before its noise is drawn; or return the committed night.

    None says that another night came between: claim nothing, read `stream_status` and begin anew.

    Parameters
    ----------
    ledger : Ledger
    stream : StreamAccount
    run_key : str
        The date it was planned for, YYYY-MM-DD.
    units : sequence of bytes
        What each unit is known by: a person's digest under `Ledger.person_key`, or that of an
        image's pixels. May be empty.
    labels : sequence of str
        Class of each unit, or classes of a person, as text on one line.
    version : str
        `StreamStatus.version` of all that the night rests on.
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
    with ledger.transaction() as tx:
        opened = opened_stream(tx, stream)
        identity = opened.nights.get(run_key, "")
        night = tx.state.nights.get(identity)
        if night and night.committed:
            return stored_night(tx, identity)
        if version_of(tx, opened) != version:
            return None
        before = find_claims(tx.connection, ledger.key, opened.scope, list(offered))
        entered = {unit: claim for unit, claim in before.items() if claim.unit == unit}
        if night:
            held = _again(tx, opened, identity, offered, entered)
        else:
            position = _next(tx, opened, run_key)
            if entered and opened.unit == "image":
                raise _refused()
            mask = tuple(unit not in entered for unit in offered)
            new = {unit: label for unit, label in offered.items() if unit not in entered}
            identity = name_of(ledger, "night", stream.identity, run_key)
            event = _night_event(ledger, tx, opened, new)
            event |= {"stream": stream.identity, "run_key": run_key, "night": position}
            tx = tx.write(event | {"identity": identity})
            row = len(tx.journal.events)
            add_claims(tx.connection, ledger.key, opened.scope, row, new, before)
            held = _reservation(tx.state.nights[identity], identity, mask)
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
    name = reservation.identity
    with ledger.transaction() as tx:
        night = tx.state.nights.get(name)
        if night is None:
            raise LedgerError(
                f"{ledger.database.place} does not know this night, so nothing may be published; "
                "reserve it again"
            )
        if night.committed is None:
            tx = tx.commit(name, result)
        return stored_night(tx, name)


def offered_units(
    ledger: Ledger, unit: str, units: Sequence[bytes], labels: Sequence[str]
) -> dict[bytes, str]:
    """Return the digest and class of each claim, in order; raise unless each is there once."""
    if len(units) != len(labels):
        raise LedgerError(
            f"each image or person has a class, found {len(units)} and {len(labels)} classes; "
            "give both"
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


def _next(tx: Transaction, opened: StreamState, run_key: str) -> int:
    """Return the number of a new night, or raise `LedgerError`; see the rules above."""
    latest = next(reversed(opened.nights), None)
    if latest is None:
        return 1
    night = tx.state.nights[opened.nights[latest]]
    if run_key < latest:
        raise LedgerError(
            f"the night of {run_key} was not released when it was due, and {latest} has been; "
            "nights go forward: check the clock, its images enter with the next one"
        )
    if night.committed is None:
        raise LedgerError(
            f"the night of {latest} is not finished, and {run_key} comes after it; release that "
            f"one first, with run key {latest}"
        )
    if night.position >= opened.horizon:
        raise horizon_reached(opened)
    return night.position + 1


def horizon_reached(opened: StreamState) -> BudgetError:
    """Return the error of a night after the last."""
    return BudgetError(
        f"the stream {opened.name!r} has had its {opened.horizon} nights; open another that "
        f"follows it, for new images or persons at no further cost: a new name, and follows = "
        f"{opened.name!r}"
    )


def _night_event(
    ledger: Ledger, tx: Transaction, opened: StreamState, new: Mapping[bytes, str]
) -> Event:
    """Return what the journal keeps of a night's claims, once those of other nights are verified.

    Its privacy units are also known as a whole, so that images under the name of another population
    are noticed as they are for a release; one alone is not, since blank images occur anywhere.
    """
    names = list(opened.nights.values())
    turn = len(names) - (1 << len(names).bit_length() >> 1)  # 0; 0, 1; 0, 1, 2, 3; …: each again
    for name in {names[-1], names[turn]} if names else ():
        night = tx.state.nights[name]
        if night.units > LARGE and name != names[-1]:
            continue
        where = (opened.scope, night.number)
        check_night(tx.connection, ledger.key, *where, night.units, night.total)
    event: Event = {"kind": "night", "at": now(), "units": len(new)}
    event["sum"] = sum_of(ledger.key, opened.scope, new)
    if opened.unit == "image" and len(new) > 1:
        event["content"] = name_of(ledger, "units", *(unit.hex() for unit in sorted(new)))
        check_owner(tx.state, opened.population, {"of this night": event["content"]})
    return event


def _again(
    tx: Transaction,
    opened: StreamState,
    identity: str,
    offered: Mapping[bytes, str],
    entered: Mapping[bytes, UnitClaim],
) -> NightReservation:
    """Return a night that was reserved before, for the units that it claimed and no others."""
    night = tx.state.nights[identity]
    claimed = claimed_on(tx.connection, opened.scope, night.number)
    if len(claimed) != night.units:
        raise claims_changed()
    if any(offered.get(unit) != label for unit, label in claimed.items()):
        raise LedgerError(
            f"the night of {night.run_key} was reserved for other images or classes, and may be "
            "drawn again for the same alone; give what was there when it was reserved"
        )
    if opened.unit == "image" and any(claim.night != night.number for claim in entered.values()):
        raise _refused()
    mask = tuple(unit in claimed for unit in offered)
    return _reservation(night, identity, mask, resumed=True)


def _reservation(
    night: NightState, identity: str, mask: tuple[bool, ...], *, resumed: bool = False
) -> NightReservation:
    """Return a night that has no result yet, as it was reserved."""
    position, units, total = night.position, night.units, night.total
    return NightReservation(night.run_key, position, mask, resumed, units, total, identity)


def _refused() -> LedgerError:
    return LedgerError(
        "some of these images entered this stream on an earlier night, and each may enter once; "
        "the folder probably still holds yesterday's images: give those that are new"
    )


def stored_night(tx: Transaction, identity: str) -> StoredNight:
    """Return a night that is committed."""
    night = tx.state.nights[identity]
    if night.committed is None or night.digest is None:
        raise damaged(f"row {night.number} of its journal has no result")
    stream = tx.state.streams[night.stream]
    return StoredNight(
        population=stream.population,
        cost=stream.cost,
        result=tx.result(identity, night.digest, night.number),
        result_digest=night.digest,
        reserved=night.reserved,
        committed=night.committed,
        run_key=night.run_key,
        night=night.position,
        units=night.units,
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


def entered_on(
    ledger: Ledger, stream: StreamAccount, units: Sequence[bytes]
) -> tuple[int | None, ...]:
    """Return on which night of this stream each one entered: its number; None where on none.

    A unit that entered a stream which this one follows entered on night 0.
    """
    digests = [unit_digest(ledger.key, unit) for unit in units]
    with ledger.transaction(write=False) as tx:
        opened = opened_stream(tx, stream)
        rows = [tx.state.nights[name] for name in opened.nights.values()]
        number = {night.number: night.position for night in rows}
        claims = find_claims(tx.connection, ledger.key, opened.scope, sorted(set(digests)))
        return tuple(
            number.get(claims[unit].night, 0) if claims[unit].unit == unit else None
            for unit in digests
        )


def total_of(
    ledger: Ledger, stream: StreamAccount, units: Sequence[bytes], labels: Sequence[str]
) -> str:
    """Return the `NightReservation.total` that a night of these privacy units would have."""
    return sum_of(ledger.key, stream.scope, offered_units(ledger, stream.unit, units, labels))


def stored_nights(
    ledger: Ledger, stream: StreamAccount, *, after: int = 0
) -> tuple[StoredNight, ...]:
    """Return the nights of a stream that are committed, in order, from number `after` + 1 on."""
    with ledger.transaction(write=False) as tx:
        names = list(opened_stream(tx, stream).nights.values())[after:]
        settled = [name for name in names if tx.state.nights[name].committed]
        return tuple(stored_night(tx, name) for name in settled)


def streams_of(ledger: Ledger, population: str | None = None) -> tuple[StreamAccount, ...]:
    """Return the streams of a population, or of all, that go on, in the order of their opening."""
    with ledger.transaction(write=False) as tx:
        return tuple(
            shown_stream(tx, name)
            for name, opened in tx.state.streams.items()
            if not opened.ended and population in (None, opened.population)
        )


def stream_status(
    ledger: Ledger, population: str, name: str, run_key: str, *, cost: Budget | None = None
) -> StreamStatus | None:
    """Return how far a stream is, and the night of a planned date where it is committed.

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
    with ledger.transaction(write=False) as tx:
        account = tx.account(population)
        opened = tx.state.streams.get(identity)
        if opened is None:
            if cost is not None:
                check_affordable(account, cost)
            return None
        check_going(opened)
        nights = {name: tx.state.nights[name] for name in opened.nights.values()}
        settled = {name: night for name, night in nights.items() if night.committed}
        pending = [name for name in nights if name not in settled]
        if key not in opened.nights and len(nights) >= opened.horizon and not pending:
            raise horizon_reached(opened)
        tonight, last = opened.nights.get(key, ""), next(reversed(settled), None)
        return StreamStatus(
            stream=shown_stream(tx, identity),
            run_key=key,
            version=version_of(tx, opened),
            digests=tuple(night.digest or "" for night in settled.values()),
            totals=tuple(night.total for night in settled.values()),
            last=None if last is None else stored_night(tx, last),
            tonight=stored_night(tx, tonight) if tonight in settled else None,
            unfinished=_reservation(nights[pending[0]], pending[0], (), resumed=True)
            if pending
            else None,
        )
