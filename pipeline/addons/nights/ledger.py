"""Streams of nights: charged once for many nights, as each image or person enters one only.

    open_stream ─► reserve_night ─► draw ─► commit_night ─► publish
    charged        privacy units    noise   result          files, from the stored bytes
    once           claimed                  stored

*Why one charge is enough.* The caller's mechanism makes the whole sequence of nights cost, for a
privacy unit that enters on any one of them, what the stream was charged. That holds only while no
privacy unit enters twice, which the claims enforce, and while there are at most `horizon`
nights. A stream that `follows` another shares its claims: a privacy unit enters one of the two, so
both together cost the larger (parallel composition), which has been paid. Streams that do not, as
of other descriptors, may hold the same privacy units, and each is charged.

**Nights.** Privacy units are claimed, noise is drawn, a result is stored; in order. A night is
known by the date it was planned for, never by a clock.

=============================  =================================================================
asked for                      answer
=============================  =================================================================
a date after all others        the next number; dates that were missed take none, and their images
                               enter now
a date that is committed       its bytes, whatever images are given: two starts, a restart
a date that is reserved only   drawn again for the same images; new ones wait for the next night
a later date after such a one  refused: nights are finished in order
an earlier date, never         refused: the clock was set back, or set forward before
reserved
=============================  =================================================================

Why an unfinished night may be drawn again is stated in the package's docstring. An image that
entered before is refused, a person left out. Both tell, of what one may submit, whether it is in a
stream: that is for the owner of the images; show neither to others.

**Nights that overlap.** A night rests on what `stream_status` stated: which nights are committed,
as what, and who has entered. Another night may be reserved or committed before this one is. So the
version of what was read is compared in the transaction that reserves, in which nobody else writes,
and a night that was overtaken reserves nothing: it is begun anew. From its reservation to its
commit no other night of the stream can come between, since nights are finished in order.

But for the stored nights, all that may be asked of nights is as private as the images.

**Claims** say on which night a privacy unit entered a stream: once, as the database enforces that
they are unique. A row is a privacy unit, by its digest under the ledger's key, the night on which
it entered, its class, and the mac of all these. The journal's row of a night holds the mac of all
its claims together. Before it claims anything, a new night verifies that of the night before it and
of others, from one on that each night draws anew, until it has verified `CHECKED` claims; all of
them where there are no more. Of a longer night each draws whether it verifies that. So a night
costs the same however many there were.

===================================  ===========================================================
changed from outside                 noticed
===================================  ===========================================================
night, class or mac of a row         when its privacy unit returns, and when its night is verified
a row lost, put in, or of another    when its night is verified
privacy unit than it was
the table, for an older copy of it   on the next night, which verifies the night before it
===================================  ===========================================================

So while there are at most `CHECKED` claims, no privacy unit whose row was lost enters again. Where
there are N, the chance that a night verifies a given row is about `CHECKED`/N, and until one does
such a privacy unit can enter again.
"""

import hashlib
import hmac
import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import accumulate, chain
from operator import attrgetter
from random import Random
from typing import Any

from sqlalchemy import Connection, insert, select

from covdp.addons.nights.account import (
    NightState,
    StoredNight,
    StreamAccount,
    StreamStatus,
    streams_in,
)
from covdp.errors import BudgetError, LedgerError
from covdp.ledger.api import Ledger, Transaction, charge_for, check_text, population_names
from covdp.ledger.database import CLAIMS
from covdp.ledger.declared import check_declared, declared_macs, names_of, streams_going
from covdp.ledger.journal import Event, mac_of
from covdp.ledger.records import (
    budget_fields,
    check_affordable,
    clean_name,
    clean_run_key,
    damaged,
    now,
    unit_fields,
)
from covdp.ledger.state import State
from covdp.privacy.composition import fits
from covdp.privacy.definitions import Budget, check_count, equation

UNIT_BYTES = 16
"""Bytes of the digest of a privacy unit: two of 10⁹ have the same with probability 10⁻²¹."""
AT_ONCE = 10_000
"""Privacy units read in one statement; databases limit how many parameters one takes."""
CHECKED = 4096
"""Claims that a new night verifies at least, as far as there are so many."""


def unit_digest(key: bytes, unit: bytes) -> bytes:
    """Return the keyed digest under which a privacy unit is claimed.

    Parameters
    ----------
    key : bytes
        Key of the ledger.
    unit : bytes
        Name of the privacy unit: a person's digest, or that of an image's pixels.
    """
    return hmac.digest(key, b"unit\0" + unit, "sha256")[:UNIT_BYTES]


def find_claims(
    connection: Connection, key: bytes, scope: int, units: Sequence[bytes]
) -> dict[bytes, tuple[int, str]]:
    """Return the row of the night and the class of each digest that was claimed.

    Parameters
    ----------
    connection : Connection
        Connection to the database.
    key : bytes
        Key of the ledger.
    scope : int
        Row of the journal under which claims stand.
    units : sequence of bytes
        Digests of privacy units, as `unit_digest` gives them.

    Raises
    ------
    LedgerError
        A row was changed.
    """
    claims: dict[bytes, tuple[int, str]] = {}
    for start in range(0, len(units), AT_ONCE):
        asked = CLAIMS.c.unit.in_(units[start : start + AT_ONCE])
        query = select(CLAIMS).where(CLAIMS.c.scope == scope, asked)
        for _, unit, night, label, mac in connection.execute(query).tuples():
            if claim_mac(key, scope, unit, night, label) != mac:
                raise claims_changed()
            claims[unit] = night, label
    return claims


def add_claims(
    connection: Connection, key: bytes, scope: int, night: int, labels: Mapping[bytes, str]
) -> None:
    """Claim privacy units; the database refuses one that is claimed.

    Parameters
    ----------
    connection : Connection
        Connection to the database.
    key : bytes
        Key of the ledger.
    scope : int
        Row of the journal under which claims stand.
    night : int
        Row of the night in the journal.
    labels : mapping of bytes to str
        Class of each privacy unit, by its digest.
    """
    same = {"scope": scope, "night": night}
    rows = [
        {**same, "unit": unit, "label": label, "mac": claim_mac(key, scope, unit, night, label)}
        for unit, label in labels.items()
    ]
    if rows:
        connection.execute(insert(CLAIMS), rows)


def claim_mac(key: bytes, scope: int, unit: bytes, night: int, label: str) -> bytes:
    """Return the mac of a row; classes have no NUL, and all digests are of one length.

    Parameters
    ----------
    key : bytes
        Key of the ledger.
    scope : int
        Row of the journal under which claims stand.
    unit : bytes
        Digest of the privacy unit.
    night : int
        Row of the night in the journal.
    label : str
        Class, as text on one line.
    """
    return hmac.digest(key, f"claim\0{scope}\0{night}\0{label}\0".encode() + unit, "sha256")


def night_mac(key: bytes, scope: int, night: int, labels: Mapping[bytes, str]) -> str:
    """Return the mac of all claims of a night together, in hexadecimal; see `claim_mac`.

    Parameters
    ----------
    key : bytes
        Key of the ledger.
    scope : int
        Row of the journal under which claims stand.
    night : int
        Row of the night in the journal.
    labels : mapping of bytes to str
        Class of each privacy unit, by its digest.
    """
    claims = b"".join(unit + label.encode() + b"\0" for unit, label in sorted(labels.items()))
    return hmac.digest(key, f"night\0{scope}\0{night}\0".encode() + claims, "sha256").hex()


def claims_of(tx: Transaction, scope: int, nights: Sequence[NightState]) -> list[dict[bytes, str]]:
    """Return the verified claims of each night: privacy units and their classes.

    Parameters
    ----------
    tx : Transaction
        Transaction on the ledger.
    scope : int
        Row of the journal under which claims stand.
    nights : sequence of NightState
        Nights of the stream.

    Raises
    ------
    LedgerError
        They are not those of which the journal has the mac.
    """
    claimed: dict[tuple[int, int], dict[bytes, str]] = defaultdict(dict)
    columns = CLAIMS.c.scope, CLAIMS.c.unit, CLAIMS.c.night, CLAIMS.c.label
    query = select(*columns).where(CLAIMS.c.night.in_([night.number for night in nights]))
    for of, unit, number, label in tx.connection.execute(query).all():
        claimed[of, number][unit] = label
    for night in nights:
        if night_mac(tx.key, scope, night.number, claimed[scope, night.number]) != night.total:
            raise claims_changed()
    return [claimed[scope, night.number] for night in nights]


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
    declared: Sequence[str] = (),
    follows: str | None = None,
    beside: bool = True,
    row: StreamAccount | None = None,
) -> StreamAccount:
    """Charge a stream, once; or return it when it is open already.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    population : str
        Name of the population that pays.
    name : str
        Name among the streams of the population. Under one name there is one stream for ever, so
        that a setting that is changed by mistake opens, and pays for, no second one.
    query : str
        Settings that must stay the same from night to night, in a canonical form. Versions of the
        code do not belong here: they would end the stream.
    horizon : int
        Largest number of nights.
    cost : Budget
        Budget of the stream, as in `Ledger.reserve`.
    group : int or None
        Largest number of images of one person, as in `Ledger.reserve`; None if privacy units are
        persons.
    classes : int
        Largest number of classes with records of one person, as in `Ledger.reserve`.
    declared : sequence of str
        Declarations of the images, as in `Ledger.reserve`.
    follows : str, optional
        Name of the stream whose privacy units do not enter this one. It has paid for both, if this
        one is charged at most as much for the same kind of privacy units.
    beside : bool
        True if it may be paid beside another stream of the population, or beside releases.
    row : StreamAccount, optional
        Stream, where `stream_status` has just stated that it is open: it is not looked up again.

    Returns
    -------
    StreamAccount
        Stream, open.

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
    if row is not None:
        return _opened_with(settings, row)
    with ledger.transaction() as tx:
        if (opened := streams_in(tx.state).get(identity)) is not None:
            return _opened_with(settings, opened)
        number = len(tx.journal.rows) + 1
        account, macs = tx.account(population), declared_macs(ledger.key, declared)
        check_declared(tx.state, population, macs)
        if follows is None:
            if not beside:
                check_stream_beside(tx.state, population, name, charged)
            check_affordable(account, charged)
            scope = number
        else:
            scope = _followed(ledger, tx, population, follows, settings, charged)
        event: Event = {"kind": "stream", "at": now(), "population": population, "name": name}
        event |= {"declared": macs}
        tx = tx.write({**event, "identity": identity, "scope": scope, "settings": settings})
        return streams_in(tx.state)[identity]


def check_stream_beside(state: State, population: str, name: str, charged: Budget) -> None:
    """Raise `LedgerError` where a stream would be paid beside another, or beside releases.

    Parameters
    ----------
    state : State
        State of the ledger.
    population : str
        Name of the population.
    name : str
        Name of the stream, which is not open and follows none.
    charged : Budget
        Charge, for the message.
    """
    cost = f"the stream {name!r} would cost {equation(charged)} more; nothing was charged"
    if streams := streams_going(state, population):
        last = streams[-1].name
        raise LedgerError(
            f"{population!r} has the {names_of('stream', streams)}, and {cost}: set name = "
            f"{last!r} to go on with it, or follows = {last!r} for new images at no further cost, "
            "or pay with --again"
        )
    if releases := [paid for paid in state.releases.values() if paid.population == population]:
        latest = releases[-1]
        raise LedgerError(
            f"{population!r} has paid for {len(releases)} release{'s' * (len(releases) != 1)}, the "
            f"last {latest.name or 'without a name'!r} of run {latest.run_key}, and {cost}: leave "
            "[stream] out, or pay with --again, once for all nights"
        )


def _opened_with(settings: Event, opened: StreamAccount) -> StreamAccount:
    """Return a stream that is open, or raise `LedgerError` unless it was opened with `settings`."""
    check_going(opened)
    if opened.settings != settings:
        key, old, new = _first_difference(opened.settings, settings)
        raise LedgerError(
            f"the stream {opened.name!r} of {opened.population!r} was opened with other settings: "
            f"{key} = {json.dumps(old)}, found {json.dumps(new)}; set it back, or give another "
            "name: that is another stream, and is charged"
        )
    return opened


def _first_difference(then: Event, now: Event) -> tuple[str, Any, Any]:
    """Return the first setting that differs, with both values; those of the query come first."""
    pairs = [(_query_of(then), _query_of(now)), (then, now)]
    return next(
        (key, one.get(key), other.get(key))
        for one, other in pairs
        for key in {**one, **other}
        if one.get(key) != other.get(key)
    )


def _query_of(settings: Event) -> dict[str, Any]:
    """Return the settings in a query of ours; none of another program's, which is any text."""
    with suppress(ValueError, TypeError):
        query = dict(json.loads(settings["query"]))
        return {**(query.pop("stream", None) or {}), **query}
    return {}


def stream_named(ledger: Ledger, population: str, name: str) -> StreamAccount | None:
    """Return the stream of a name as it is now, or None where none was opened.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    population : str
        Name of the population.
    name : str
        Name of the stream.

    Raises
    ------
    LedgerError
        It ended, as the ledger was restored from a backup.
    """
    population, name = clean_name("population", population), clean_name("stream", name)
    identity = name_of(ledger, "stream", population, name)
    with ledger.transaction(write=False) as tx:
        opened = streams_in(tx.state).get(identity)
        if opened is not None:
            check_going(opened)
        return opened


def opened_stream(tx: Transaction, stream: StreamAccount) -> StreamAccount:
    """Return a stream as the journal tells of it, or raise `LedgerError` when it cannot go on.

    Parameters
    ----------
    tx : Transaction
        Transaction on the ledger.
    stream : StreamAccount
        Stream, as it was opened.
    """
    opened = streams_in(tx.state).get(stream.identity)
    if opened is None:
        raise LedgerError(f"the ledger does not know the stream {stream.name!r}; open it again")
    check_going(opened)
    return opened


def check_going(opened: StreamAccount) -> None:
    """Raise `LedgerError` when a stream has ended, as claims of it may be lost.

    Parameters
    ----------
    opened : StreamAccount
        Stream, as the journal tells of it.
    """
    if opened.ended:
        raise LedgerError(
            f"the stream {opened.name!r} ended when the ledger was restored from a backup, which "
            "forgot images or persons that had entered; open one of another name, which is charged"
        )


def _followed(
    ledger: Ledger, tx: Transaction, population: str, name: str, settings: Event, charged: Budget
) -> int:
    """Return the scope of the stream that one follows, once it has paid for that."""
    before = streams_in(tx.state).get(
        name_of(ledger, "stream", population, clean_name("stream", name))
    )
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
            f"the stream {name!r} was charged {equation(before.cost)}, which pays for one that "
            f"follows at no more than that, found {equation(charged)}; ask for less, or open "
            "one that follows none"
        )
    return before.scope


def version_of(tx: Transaction, opened: StreamAccount) -> str:
    """Return the digest that tells two states of a stream apart: its nights and their results.

    Nights of all streams with the same claims are in it: privacy units that enter one of them enter
    no other, and the mean of a stream goes on in the one that follows it.

    Parameters
    ----------
    tx : Transaction
        Transaction on the ledger.
    opened : StreamAccount
        Stream, as the journal tells of it.
    """
    shared = [
        stream.rows for stream in streams_in(tx.state).values() if stream.scope == opened.scope
    ]
    lasts = [(len(rows), rows[-1].digest) if rows else None for rows in shared]
    return hashlib.sha256(json.dumps(lasts).encode()).hexdigest()


def name_of(ledger: Ledger, purpose: str, *parts: str) -> str:
    """Return the HMAC that is a name inside the ledger.

    Parameters
    ----------
    ledger : Ledger
        Ledger with the key.
    purpose : str
        Kind of the name: ``stream`` or ``night``.
    *parts : str
        Parts of the name.
    """
    return mac_of(ledger.key, f"{purpose}\0{json.dumps(parts)}")


def reserve_night(
    ledger: Ledger,
    stream: StreamAccount,
    run_key: str,
    *,
    units: Sequence[bytes],
    labels: Sequence[str],
    version: str,
    declared: Sequence[str] = (),
    prepare: Callable[[NightState], None] | None = None,
) -> NightState | StoredNight | None:
    """Claim the images of a night before its noise is drawn; or give back the committed night.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    stream : StreamAccount
        Stream, as it was opened.
    run_key : str
        Planned date, YYYY-MM-DD.
    units : sequence of bytes
        Digest of each privacy unit: a person's under `Ledger.person_key`, or that of an image's
        pixels. May be empty.
    labels : sequence of str
        Class of each image, or classes of a person, as text on one line.
    version : str
        Version of all that the night rests on, of `StreamStatus`.
    declared : sequence of str
        Declarations of the images, as in `Ledger.reserve`: a config may name another folder than
        when the stream was opened.
    prepare : callable, optional
        Function of the reservation, called before it is stored, while no other night can be
        reserved: for files that have to be on disk once it is. Where it raises, nothing is claimed.

    Returns
    -------
    NightState or StoredNight or None
        Night that is reserved, or committed already. None if another night came between: claim
        nothing, read `stream_status` and begin anew.

    Raises
    ------
    BudgetError
        The horizon is reached.
    LedgerError
        An image that entered before, a privacy unit twice, a date out of order (see above), or a
        database that fails. Nothing is claimed.
    """
    run_key = planned_date(run_key)
    offered = offered_units(ledger, stream.unit, units, labels)
    with ledger.transaction() as tx:
        opened, macs = opened_stream(tx, stream), declared_macs(ledger.key, declared)
        night = opened.night_on(run_key)
        if night and night.committed:
            return stored_night(tx, night)
        check_declared(tx.state, opened.population, macs)
        if version_of(tx, opened) != version:
            return None
        if night is None:
            position = _next(tx, opened, run_key)
            check_claims(tx, opened)
        entered = find_claims(tx.connection, ledger.key, opened.scope, list(offered))
        if night is not None:
            _check_again(tx, opened, night, offered, entered)
        else:
            if entered and opened.unit == "image":
                raise _refused()
            new = {unit: label for unit, label in offered.items() if unit not in entered}
            identity = name_of(ledger, "night", stream.identity, run_key)
            event: Event = {"kind": "night", "at": now(), "units": len(new)}
            event["claims"] = night_mac(ledger.key, opened.scope, len(tx.journal.rows) + 1, new)
            event["declared"] = [mac for mac in macs if mac not in tx.state.declared]
            event |= {"stream": stream.identity, "run_key": run_key, "night": position}
            tx = tx.write(event | {"identity": identity})
            night = streams_in(tx.state)[stream.identity].rows[-1]
            add_claims(tx.connection, ledger.key, opened.scope, night.number, new)
        if prepare is not None:
            prepare(night)
    return night


def commit_night(ledger: Ledger, reservation: NightState, result: bytes) -> StoredNight:
    """Store the one result of a night.

    The first commit wins, as for `Ledger.commit`: publish what is returned, never the argument.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    reservation : NightState
        Night that was reserved.
    result : bytes
        Document of the night.

    Returns
    -------
    StoredNight
        Night with the result that may be published.

    Raises
    ------
    LedgerError
        The ledger does not know the night, or the database fails: publish nothing, reserve again.
    """
    identity, run_key = reservation.stream, reservation.run_key
    with ledger.transaction() as tx:
        stream = streams_in(tx.state).get(identity)
        night = stream and stream.night_on(run_key)
        if not night:
            raise LedgerError(
                f"{ledger.database.place} does not know this night, so nothing may be published; "
                "reserve it again"
            )
        tx = tx.commit(night, result)
        return stored_night(tx, streams_in(tx.state)[identity].rows[night.night - 1])


def offered_units(
    ledger: Ledger, unit: str, units: Sequence[bytes], labels: Sequence[str]
) -> dict[bytes, str]:
    """Return the class of each digest, in order; raise unless each is there once.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    unit : str
        Noun for a privacy unit.
    units : sequence of bytes
        Name of each privacy unit: a person's digest, or that of an image's pixels.
    labels : sequence of str
        Class of each privacy unit, or classes of a person.
    """
    if len(units) != len(labels):
        raise LedgerError(
            f"each image or person has a class, found {len(units)} and {len(labels)} classes; "
            "give both"
        )
    for label in set(labels):
        check_text("class", label)
    offered = {
        unit_digest(ledger.key, bytes(record)): str(label)
        for record, label in zip(units, labels, strict=True)
    }
    if len(offered) != len(units):
        raise LedgerError(
            f"some {unit} is given twice in one night, and each enters once; leave the copy out"
        )
    return offered


def _next(tx: Transaction, opened: StreamAccount, run_key: str) -> int:
    """Return the number of a new night, or raise `LedgerError`; see the rules above."""
    if not opened.rows:
        return 1
    night = opened.rows[-1]
    latest = night.run_key
    if run_key < latest:
        raise LedgerError(
            f"the night of {run_key} was not released when it was due, and {latest} has been; "
            "nights go forward: check the clock, its images enter with the next one; where that "
            f"day is to come, a new name with follows = {opened.name!r} goes on at no further cost"
        )
    if night.committed is None:
        raise LedgerError(
            f"the night of {latest} is not finished, and {run_key} comes after it; release that "
            f"one first, with run key {latest}"
        )
    if night.night >= opened.horizon:
        raise horizon_reached(opened)
    return night.night + 1


def horizon_reached(opened: StreamAccount) -> BudgetError:
    """Return the error of a night after the last.

    Parameters
    ----------
    opened : StreamAccount
        Stream, as the journal tells of it.
    """
    return BudgetError(
        f"the stream {opened.name!r} has had its {opened.horizon} nights; open another that "
        f"follows it, for new images or persons at no further cost: a new name, and follows = "
        f"{opened.name!r}"
    )


def check_claims(tx: Transaction, opened: StreamAccount) -> None:
    """Raise `LedgerError` unless the claims of the last night, and of others at random, are whole.

    Without one of them a privacy unit could enter a second night.

    Parameters
    ----------
    tx : Transaction
        Transaction on the ledger.
    opened : StreamAccount
        Stream, as the journal tells of it.
    """
    shared = (
        stream.rows for stream in streams_in(tx.state).values() if stream.scope == opened.scope
    )
    nights = sorted(chain.from_iterable(shared), key=attrgetter("number"), reverse=True)
    chance = Random(len(nights))
    others = deque(night for night in nights[1:] if night.units * chance.random() < CHECKED)
    others.rotate(chance.randrange(len(nights) + 1))
    order = [*nights[:1], *others]
    before = accumulate((night.units for night in order), initial=0)
    chosen = [night for night, claims in zip(order, before, strict=False) if claims < CHECKED]
    claims_of(tx, opened.scope, chosen)


def _check_again(
    tx: Transaction,
    opened: StreamAccount,
    night: NightState,
    offered: Mapping[bytes, str],
    entered: Mapping[bytes, tuple[int, str]],
) -> None:
    """Raise `LedgerError` unless a reserved night is given the privacy units that it claimed."""
    (claimed,) = claims_of(tx, opened.scope, [night])
    if any(offered.get(unit) != label for unit, label in claimed.items()):
        raise LedgerError(
            f"the night of {night.run_key} was reserved for other images or classes, and may be "
            "drawn again for the same alone; give what was there when it was reserved"
        )
    if opened.unit == "image" and any(number != night.number for number, _ in entered.values()):
        raise _refused()


def _refused() -> LedgerError:
    return LedgerError(
        "some of these images entered this stream on an earlier night, and each may enter once; "
        "the folder probably still holds yesterday's images: give those that are new"
    )


def stored_night(tx: Transaction, night: NightState) -> StoredNight:
    """Return a night that is committed.

    Parameters
    ----------
    tx : Transaction
        Transaction on the ledger.
    night : NightState
        Night of the journal, committed.
    """
    return StoredNight(**vars(night), result=tx.result(night))


def planned_date(run_key: str) -> str:
    """Return the planned date, whose letters are in the order of the days.

    Parameters
    ----------
    run_key : str
        Planned date, YYYY-MM-DD.
    """
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
    """Return the number of the night of this stream on which each one entered; None for no night.

    A privacy unit that entered a stream which this one follows entered on night 0.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    stream : StreamAccount
        Stream, as it was opened.
    units : sequence of bytes
        Digest of each privacy unit, as in `reserve_night`.
    """
    opened, claims = _entered(ledger, stream, units)
    number = {night.number: night.night for night in opened.rows}
    return tuple(claim and number.get(claim[0], 0) for claim in claims)


def entered_as(
    ledger: Ledger, stream: StreamAccount, units: Sequence[bytes]
) -> tuple[str | None, ...]:
    """Return the label with which each one entered this stream; None where it did not.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    stream : StreamAccount
        Stream, as it was opened.
    units : sequence of bytes
        Digest of each privacy unit, as in `reserve_night`.
    """
    return tuple(claim and claim[1] for claim in _entered(ledger, stream, units)[1])


def _entered(
    ledger: Ledger, stream: StreamAccount, units: Sequence[bytes]
) -> tuple[StreamAccount, list[tuple[int, str] | None]]:
    """Return the stream as it is, and row and label of the claim of each privacy unit, or None."""
    digests = [unit_digest(ledger.key, unit) for unit in units]
    with ledger.transaction(write=False) as tx:
        opened = opened_stream(tx, stream)
        claims = find_claims(tx.connection, ledger.key, opened.scope, digests)
        return opened, [claims.get(digest) for digest in digests]


def entered_streams(
    ledger: Ledger, units: Sequence[bytes]
) -> tuple[tuple[StreamAccount, int], ...]:
    """Return the streams that some of these privacy units entered, and how many did.

    Streams of all populations, in the order of their opening; of those that share their claims the
    first. It is for the owner of the images, before a charge, and never in one.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    units : sequence of bytes
        Digest of each privacy unit, as in `reserve_night`.
    """
    digests = [unit_digest(ledger.key, unit) for unit in units]
    with ledger.transaction(write=False) as tx:
        scopes = {one.scope: one for one in reversed(streams_in(tx.state).values())}
        found = (
            (one, len(find_claims(tx.connection, ledger.key, scope, digests)))
            for scope, one in sorted(scopes.items())
        )
        return tuple((one, count) for one, count in found if count)


def none_missing(
    ledger: Ledger, stream: StreamAccount, units: Sequence[bytes], labels: Sequence[str]
) -> bool:
    """Return True if all privacy units of the committed nights are among these, as they came.

    One that is in another class now would be paid for once more, as of that; so would a person of
    other images, as of these, where labels tell them apart.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    stream : StreamAccount
        Stream, as it was opened.
    units : sequence of bytes
        Digest of each privacy unit, as in `reserve_night`.
    labels : sequence of str
        Class of each privacy unit, or classes of a person.
    """
    offered = offered_units(ledger, stream.unit, units, labels)
    with ledger.transaction(write=False) as tx:
        opened = opened_stream(tx, stream)
        claims = find_claims(tx.connection, ledger.key, opened.scope, list(offered))
        many = Counter(number for unit, (number, label) in claims.items() if label == offered[unit])
        return all(many[night.number] == night.units for night in opened.committed)


def stored_nights(ledger: Ledger, stream: StreamAccount) -> tuple[StoredNight, ...]:
    """Return the nights of a stream that are committed, in order.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    stream : StreamAccount
        Stream, as it was opened.
    """
    with ledger.transaction(write=False) as tx:
        return tuple(stored_night(tx, night) for night in opened_stream(tx, stream).committed)


def stream_status(
    ledger: Ledger,
    population: str,
    name: str,
    run_key: str,
    *,
    cost: Budget | None = None,
    beside: bool = True,
) -> StreamStatus | None:
    """Return the state of a stream, and of its night of a planned date.

    None where no stream of that name was opened. Openings and reservations that would be refused
    for want of budget are refused at once: for use before images are read.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    population : str
        Name of the population.
    name : str
        Name of the stream.
    run_key : str
        Planned date, YYYY-MM-DD.
    cost : Budget, optional
        Budget that the account would pay for a new stream; nothing is asked of it when left out, as
        for a stream that follows another, which has paid.
    beside : bool
        As in `open_stream`, of a stream that would pay.

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
        opened = streams_in(tx.state).get(identity)
        if opened is None:
            if cost is not None:
                if not beside:
                    check_stream_beside(tx.state, population, name, cost)
                check_affordable(account, cost)
            return None
        check_going(opened)
        tonight, committed = opened.night_on(key), opened.committed
        if tonight is None and opened.nights >= opened.horizon and not opened.pending:
            raise horizon_reached(opened)
        return StreamStatus(
            stream=opened,
            run_key=key,
            version=version_of(tx, opened),
            last=stored_night(tx, committed[-1]) if committed else None,
            tonight=stored_night(tx, tonight) if tonight and tonight.committed else None,
        )


def committed_results(
    ledger: Ledger, population: str | None = None
) -> dict[str, tuple[bytes, ...]]:
    """Return the results of each population that has any, in the order in which they were paid.

    Both releases and nights of streams, those of streams that have ended too. Each is compared
    with the digest that was committed.

    Parameters
    ----------
    ledger : Ledger
        Ledger whose account pays.
    population : str, optional
        One population only.

    Raises
    ------
    LedgerError
        No such population, a result that was changed or lost, or a database that fails.
    """
    with ledger.transaction(write=False) as tx:
        names = population_names(tx, population)
        results: dict[str, list[bytes]] = {}
        for row, owner in sorted(tx.state.committed(), key=lambda item: item[0].number):
            if owner.population in names:
                results.setdefault(owner.population, []).append(tx.result(row))
    return {owner: tuple(contents) for owner, contents in results.items()}
