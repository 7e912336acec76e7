"""Claims: on which night a unit entered a stream, once, by a uniqueness that the database enforces.

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

import hmac
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from sqlalchemy import Connection, insert, text, update
from sqlalchemy.sql import bindparam

from pipeline.ledger.database import CLAIMS
from pipeline.ledger.records import damaged

BYTES = 16
"""Of the digest of a unit: two of 10⁹ have the same with probability 10⁻²¹."""
AT_ONCE = 400
"""Units looked up in one statement; databases limit how many parameters one takes."""
HEAD = b""
"""The unit before all units, and after the last."""


class UnitClaim(NamedTuple):
    """A row: the unit, the unit after it, the journal's row of its night, and its class."""

    unit: bytes
    next: bytes
    night: int
    label: str


def unit_digest(key: bytes, unit: bytes) -> bytes:
    """Return the keyed digest under which a unit is claimed."""
    return hmac.digest(key, b"unit\0" + unit, "sha256")[:BYTES]


def start_claims(connection: Connection, key: bytes, scope: int) -> None:
    """Begin the ring of a scope, which is the journal's row of a stream."""
    connection.execute(insert(CLAIMS), _row(key, scope, UnitClaim(HEAD, HEAD, scope, "")))


def find_claims(
    connection: Connection, key: bytes, scope: int, units: Sequence[bytes]
) -> dict[bytes, UnitClaim]:
    """Return for each digest its own row, or that of the last unit before it, verified.

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
    """Claim units that nobody has claimed; `before` is what `find_claims` gave for them."""
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
    """Return the sum of the macs of units and their classes, modulo 2²⁵⁶, in hexadecimal."""
    macs = (
        hmac.digest(key, f"entered\0{scope}\0{label}\0".encode() + unit, "sha256")
        for unit, label in labels.items()
    )
    return f"{sum(int.from_bytes(mac) for mac in macs) % 2**256:064x}"


def claimed_on(connection: Connection, scope: int, night: int) -> dict[bytes, str]:
    """Return the units that a night claimed, each with its class."""
    query = text("SELECT unit, label FROM covdp_claims WHERE night = :night AND scope = :scope")
    rows = connection.execute(query, {"night": night, "scope": scope}).tuples()
    return dict(rows.all())


def check_night(
    connection: Connection, key: bytes, scope: int, night: int, count: int, total: str
) -> None:
    """Raise `LedgerError` unless the claims of a night are those that its row in the journal sums.

    Without one of them a unit could enter a second night.
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
    return damaged("the units that nights of a stream have claimed were changed or lost")
