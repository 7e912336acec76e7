"""Releases and contents in the tables: find, check, claim."""

import hashlib
import re
from collections.abc import Mapping

from sqlalchemy import Connection, insert, select

from pipeline.errors import LedgerError
from pipeline.privacy.ledger import tables
from pipeline.privacy.ledger.fields import damaged, read_budget, read_time
from pipeline.privacy.ledger.records import Reservation, Stored


def check_name(what: str, value: str) -> None:
    """Raise `LedgerError` unless `value` is text that every database can hold."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise LedgerError(f"a {what} must be text on one line, found {value!r:.60}; name it")


def check_contents(contents: Mapping[str, str]) -> None:
    """Raise `LedgerError` unless every class has a digest of its own."""
    if not contents:
        raise LedgerError("a release needs the content of a class, found none; give one or more")
    owners: dict[str, str] = {}
    for label, digest in contents.items():
        check_name("class", label)
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise LedgerError(
                f"the content of class {label!r} is not a digest of this ledger; use Ledger.digest"
            )
        if digest in owners:
            raise LedgerError(
                f"classes {owners[digest]!r} and {label!r} hold the same images, so they are not "
                "disjoint; leave one out"
            )
        owners[digest] = label


def claim(connection: Connection, population: str, contents: Mapping[str, str]) -> None:
    """Give the contents to `population`, or raise `LedgerError` when one has another owner."""
    table = tables.contents
    for label, digest in contents.items():
        owner = connection.scalar(select(table.c.population).where(table.c.digest == digest))
        if owner is None:
            connection.execute(insert(table).values(digest=digest, population=population))
        elif owner != population:
            raise LedgerError(
                f"the images of class {label!r} have been charged under population {owner!r} "
                f"before, found {population!r}; people have one budget: use {owner!r}"
            )


def find_release(connection: Connection, identity: str) -> Reservation | Stored | None:
    """Read a release: settled, charged only, or None when it was never charged."""
    table = tables.releases
    row = connection.execute(select(table).where(table.c.identity == identity)).one_or_none()
    if row is None:
        return None
    cost = read_budget(row.cost)
    if row.committed is None:
        return Reservation(row.population, cost, resumed=True, identity=identity)
    if row.result is None or hashlib.sha256(row.result).hexdigest() != row.result_digest:
        raise damaged("a result")
    return Stored(
        population=row.population,
        cost=cost,
        result=row.result,
        result_digest=row.result_digest,
        reserved=read_time(row.reserved),
        committed=read_time(row.committed),
    )


def holds_run(connection: Connection, population: str, run_key: str) -> bool:
    """Return whether `population` was charged for any release under `run_key`."""
    column = tables.releases.c
    same = (column.population == population) & (column.run_key == run_key)
    return connection.scalar(select(column.identity).where(same).limit(1)) is not None
