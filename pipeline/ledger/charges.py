"""Charges: what is checked before one, and how a paid release is found again."""

import hashlib
import re
from collections.abc import Mapping

from sqlalchemy import Connection, text

from pipeline.errors import LedgerError
from pipeline.ledger.entries import Reservation, Stored
from pipeline.ledger.fields import damaged
from pipeline.ledger.journal import Journal
from pipeline.ledger.state import State, replay


def check_contents(contents: Mapping[str, str]) -> None:
    """Raise `LedgerError` unless every class has a digest of its own."""
    if not contents:
        raise LedgerError("a release needs the content of a class, found none; give one or more")
    owners: dict[str, str] = {}
    for label, digest in contents.items():
        check_text("class", label)
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


def check_text(what: str, value: str) -> None:
    """Raise `LedgerError` unless `value` is text on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise LedgerError(f"a {what} must be text on one line, found {value!r:.60}; name it")


def check_owner(state: State, population: str, contents: Mapping[str, str]) -> None:
    """Raise `LedgerError` when one of the contents was charged under another population."""
    for label, digest in contents.items():
        owner = state.owners.get(digest, population)
        if owner != population:
            raise LedgerError(
                f"the images of class {label!r} have been charged under population {owner!r} "
                f"before, found {population!r}; people have one budget: use {owner!r}"
            )


def find_release(
    connection: Connection, journal: Journal, state: State, identity: str
) -> Reservation | Stored | None:
    """Return a release: settled, charged only, or None when it was never charged."""
    paid = state.releases.get(identity)
    if paid is None:
        return None
    if paid.committed is None or paid.digest is None:
        then = replay(journal.events[: paid.number]).account(paid.population)
        if then is None:
            raise damaged(f"row {paid.number} of its journal charges nobody")
        return Reservation(paid.population, paid.cost, True, then.row(), identity)
    return Stored(
        population=paid.population,
        cost=paid.cost,
        result=read_result(connection, identity, paid.digest, paid.number),
        result_digest=paid.digest,
        reserved=paid.reserved,
        committed=paid.committed,
    )


def read_result(connection: Connection, identity: str, digest: str, number: int) -> bytes:
    """Return a stored result, or raise `LedgerError` unless it is the one that was committed."""
    query = text("SELECT result FROM covdp_results WHERE identity = :identity")
    result = connection.scalar(query, {"identity": identity})
    if not isinstance(result, bytes) or hashlib.sha256(result).hexdigest() != digest:
        raise damaged(f"the result of row {number} of its journal was changed or lost")
    return result


def check_results(connection: Connection, state: State) -> None:
    """Raise `LedgerError` unless there is a result for every commit and for nothing else."""
    found = set(connection.scalars(text("SELECT identity FROM covdp_results")))
    known = {name for name, paid in state.releases.items() if paid.committed}
    known |= {name for name, night in state.nights.items() if night.committed}
    if found != known:
        raise damaged(
            f"{len(known - found)} of {len(known)} results are lost"
            if known - found
            else f"{len(found - known)} results were put in from outside"
        )
