"""The journal: all that ever happened to a ledger, one row an event, chained by HMAC.

    mac(i) = HMAC(key, mac(i − 1), i, event(i))        seal = HMAC(key, n, mac(n))

The seal stands in another table. Whoever changes, loses, repeats or moves a row, at the end too,
breaks the chain or the seal, and the next transaction refuses to go on and names the row. All rows
are read and verified each time, in the transaction that decides; those that are letter by letter
what this process has verified before need no second HMAC.
"""

import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, insert, text, update

from pipeline.ledger import schema
from pipeline.ledger.fields import damaged

Event: TypeAlias = dict[str, Any]
SEAL = "seal"


@dataclass(frozen=True)
class Journal:
    """The verified events of a ledger, first to last, with the line and the mac of each."""

    events: tuple[Event, ...] = ()
    lines: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()

    @property
    def mac(self) -> str:
        """The mac of the last row; "" of none."""
        return self.macs[-1] if self.macs else ""


def start_journal(connection: Connection, key: bytes, event: Event) -> Journal:
    """Write the first row and the seal, and return the journal."""
    row = {"name": SEAL, "value": seal(key, 0, "")}
    connection.execute(insert(schema.meta).values(row))
    return append(connection, key, Journal(), event)


def append(connection: Connection, key: bytes, journal: Journal, *events: Event) -> Journal:
    """Write events after the last and seal them; return the journal that is there now."""
    mac = journal.mac
    rows: list[dict[str, Any]] = []
    for number, event in enumerate(events, len(journal.events) + 1):
        line = json.dumps(event, sort_keys=True)
        mac = chain(key, mac, number, line)
        rows.append({"number": number, "event": line, "mac": mac})
    connection.execute(insert(schema.journal), rows)
    whole = Journal(
        (*journal.events, *events),
        (*journal.lines, *(row["event"] for row in rows)),
        (*journal.macs, *(row["mac"] for row in rows)),
    )
    sealed = {"value": seal(key, len(whole.events), mac)}
    connection.execute(update(schema.meta).where(schema.meta.c.name == SEAL).values(sealed))
    return whole


def read_journal(connection: Connection, key: bytes, known: Journal | None = None) -> Journal:
    """Return the journal once every row and the seal have been verified.

    Parameters
    ----------
    known : Journal, optional
        What was verified under the same key before. Rows that say the same are not verified again.

    Raises
    ------
    LedgerError
        The first row that is not what was written, or how many are missing.
    """
    meta = dict(connection.execute(text("SELECT name, value FROM covdp_meta")).tuples().all())
    if meta.get("key") != key.hex():
        raise damaged("its key was changed")
    rows = connection.execute(
        text("SELECT number, event, mac FROM covdp_journal ORDER BY number")
    ).all()
    numbers, lines, macs = zip(*rows, strict=True) if rows else ((), (), ())
    begun = known if known and _goes_on(known, numbers, lines, macs) else Journal()
    mac = begun.mac
    for expected, (number, line, found) in enumerate(rows[len(begun.macs) :], len(begun.macs) + 1):
        if number != expected:
            raise damaged(f"row {expected} of its journal is missing")
        if not isinstance(line, str) or (mac := chain(key, mac, number, line)) != found:
            raise damaged(f"row {expected} of its journal was changed after it was written")
    if meta.get(SEAL) != seal(key, len(lines), mac):
        raise damaged(_end(meta.get(SEAL), len(lines)))
    new = json.loads(f"[{','.join(lines[len(begun.lines) :])}]")
    return Journal((*begun.events, *new), lines, macs)


def _goes_on(
    known: Journal, numbers: Sequence[int], lines: Sequence[str], macs: Sequence[str]
) -> bool:
    """Tell whether rows begin with those that are known."""
    n = len(known.macs)
    same = lines[:n] == known.lines and macs[:n] == known.macs
    return same and numbers[:n] == tuple(range(1, n + 1))


def last_row(connection: Connection) -> tuple[int, str]:
    """Return the number and the mac of the last row, as this transaction leaves it."""
    query = text("SELECT number, mac FROM covdp_journal ORDER BY number DESC LIMIT 1")
    number, mac = connection.execute(query).tuples().one()
    return number, mac


def chain(key: bytes, before: str, number: int, line: str) -> str:
    """Return the mac of a row, in hexadecimal."""
    return mac_of(key, f"row\0{before}\0{number}\0{line}")


def seal(key: bytes, number: int, mac: str) -> str:
    """Return what is stored of the end of the journal: how many rows, and the HMAC of the last."""
    sealed = mac_of(key, f"seal\0{number}\0{mac}")
    return f"{number} {sealed}"


def mac_of(key: bytes, message: str) -> str:
    """Return the HMAC-SHA256 of a message, in hexadecimal."""
    return hmac.digest(key, message.encode(errors="surrogateescape"), "sha256").hex()


def _end(sealed: object, found: int) -> str:
    """Return what is wrong with the end of a journal whose rows are a chain."""
    number = sealed.split()[0] if isinstance(sealed, str) and sealed.split() else ""
    if number.isdecimal() and int(number) > found:
        return f"its journal ends at row {found}, and {number} were written"
    return f"row {found} of its journal is not the last that was sealed; rows were put back or lost"
