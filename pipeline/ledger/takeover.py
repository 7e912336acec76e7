"""Taking over a ledger of format 1, which had no journal: all of it, or nothing, in one step.

Every charge is verified by its identity, an HMAC of all that it was made for. Names become what
`clean_name` makes of them. Where two accounts then have one name, they are one: both paid for the
same people, so all charges count, against the smaller total.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, text, update

from pipeline.errors import LedgerError, PrivacyError
from pipeline.ledger import schema
from pipeline.ledger.fields import budget_fields, damaged, now, read_budget, read_time
from pipeline.ledger.journal import Event, append, mac_of, start_journal
from pipeline.ledger.names import clean_name
from pipeline.privacy.composition import fits
from pipeline.privacy.definitions import Budget
from pipeline.privacy.profiles import epsilon_of

OLD_FORMAT = "1"
_TABLES = {
    "populations": "name, budget, delta, created",
    "contents": "digest, population",
    "releases": "identity, population, query, run_key, contents, cost, reserved, result, "
    "result_digest, committed",
    "changes": "id, at, population, text",
}
"""The tables of the old format, with their columns."""


def take_over(connection: Connection, key: bytes, new_format: str) -> None:
    """Turn a ledger of format 1 into a journal, unless another process has just done so.

    Raises
    ------
    LedgerError
        A row that the old version did not write; nothing is changed.
    """
    found = connection.scalar(text("SELECT value FROM covdp_meta WHERE name = 'format'"))
    if found != OLD_FORMAT:
        return
    accounts, contents, releases, changes = (_rows(connection, name) for name in _TABLES)
    names = _names(accounts)
    for row in releases:
        _check_release(row, key, names)
    claimed = {(row["digest"], row["population"]) for row in contents}
    charged = {
        (digest, row["population"])
        for row in releases
        for digest in json.loads(row["contents"]).values()
    }
    if claimed != charged:
        raise damaged("contents and charges do not match, so one of either was changed or lost")
    timed = [_change(row, names) for row in changes]
    timed += [one for row in releases for one in _release(row, names)]
    events = [event for _, event in sorted(timed, key=lambda one: one[0])]
    for name in _TABLES:
        connection.execute(text(f"DROP TABLE covdp_{name}"))
    for table in (schema.journal, schema.results):
        table.create(connection)
    first = {"kind": "ledger", "at": now(), "format": new_format, "before": OLD_FORMAT}
    journal = start_journal(connection, key, first)
    totals = _totals(accounts, names)
    append(connection, key, journal, *totals, *events)
    results = [
        {"identity": row["identity"], "result": row["result"]}
        for row in releases
        if row["committed"] is not None
    ]
    if results:
        connection.execute(insert(schema.results), results)
    form = update(schema.meta).where(schema.meta.c.name == "format")
    connection.execute(form.values(value=new_format))


def _rows(connection: Connection, name: str) -> list[dict[str, Any]]:
    """Return the rows of an old table as they are."""
    query = text(f"SELECT {_TABLES[name]} FROM covdp_{name} ORDER BY 1")
    rows = connection.execute(query).tuples()
    return [dict(zip(_TABLES[name].split(", "), row, strict=True)) for row in rows]


def _names(accounts: list[dict[str, Any]]) -> dict[str, str]:
    """Return for each old name the new one."""
    names: dict[str, str] = {}
    totals: dict[str, Budget] = {}
    for row in sorted(accounts, key=lambda row: row["name"] != _new_name(row["name"])):
        name, budget = _new_name(row["name"]), _account(row)
        while name in totals and not _one_is_smaller(totals[name], budget):
            name = f"{name} ({budget.name})"
        if name not in totals or not fits(totals[name], budget):
            totals[name] = budget
        names[row["name"]] = name
    return names


def _new_name(old: object) -> str:
    """Return a name by the rule; what the rule refuses is spelt by its numbers in Unicode."""
    if not isinstance(old, str):
        raise damaged("the name of a population cannot be read")
    try:
        return clean_name("population", old)
    except LedgerError:
        return "".join(x if x.isascii() else f"u{ord(x):04x}" for x in old).strip()


def _one_is_smaller(one: Budget, other: Budget) -> bool:
    """Return whether two totals can be of one account, and one of them allows no more."""
    try:
        return fits(one, other) or fits(other, one)
    except PrivacyError:  # definitions or orders differ
        return False


def _account(row: Mapping[str, Any]) -> Budget:
    """Return the total of an old account, checked."""
    read_time(row["created"])
    budget = read_budget(_json(row["budget"]))
    try:
        epsilon_of(budget, row["delta"])
    except (PrivacyError, TypeError):
        raise damaged("the δ of a population cannot be read") from None
    return budget


def _totals(accounts: list[dict[str, Any]], names: Mapping[str, str]) -> list[Event]:
    """Return the events that open the accounts; those that became one say so."""
    events: dict[str, Event] = {}
    notes: list[Event] = []
    for row in sorted(accounts, key=lambda row: str(row["created"])):
        name, budget = names[row["name"]], _account(row)
        at = {"at": row["created"], "population": name}
        event = {"kind": "budget", **at, "delta": row["delta"], "text": ""}
        event["budget"] = budget_fields(budget)
        if name not in events:
            events[name] = event
        else:
            first = read_budget(events[name]["budget"])
            if not fits(first, budget):
                events[name]["budget"] = event["budget"]
            both = f"two accounts became one, of the smaller of {first!r} and {budget!r}"
            notes.append({"kind": "note", **at, "at": now(), "entry": "note", "text": both})
        if row["name"] != name:
            line = f"was called {row['name']!a}"
            notes.append({"kind": "note", **at, "at": now(), "entry": "note", "text": line})
    return [*events.values(), *notes]


def _change(row: Mapping[str, Any], names: Mapping[str, str]) -> tuple[datetime, Event]:
    """Return the event of a line of the audit trail, and when it was."""
    time = read_time(row["at"])
    if row["population"] not in names or not isinstance(row["text"], str):
        raise damaged("a line of its history cannot be read")
    at = {"at": row["at"], "population": names[row["population"]]}
    return time, {"kind": "note", **at, "entry": "budget", "text": row["text"]}


def _check_release(row: Mapping[str, Any], key: bytes, names: Mapping[str, str]) -> None:
    """Raise `LedgerError` unless a charge and its result are as they were written."""
    read_time(row["reserved"])
    try:
        parts = [row["population"], row["query"], row["run_key"], row["cost"]]
        contents = sorted(_json(row["contents"]).items())
        identity = mac_of(key, "release\0" + json.dumps([*parts, contents]))
    except TypeError:
        identity = ""
    known = row["population"] in names
    if identity != row["identity"] or not known:
        raise damaged(f"a charge of population {row['population']!r:.60} was changed")
    read_budget(_json(row["cost"]))
    if row["committed"] is None:
        return
    read_time(row["committed"])
    result = row["result"]
    if not isinstance(result, bytes) or _digest(result) != row["result_digest"]:
        raise damaged(f"a result of population {row['population']!r:.60} was changed or lost")


def _release(row: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[datetime, Event]]:
    """Return the events of a charge and of its result, and when; what was paid stays as it was."""
    kept = {name: row[name] for name in ("query", "run_key", "identity")}
    charge = {"kind": "charge", "at": row["reserved"], "population": names[row["population"]]}
    paid = {"cost": _json(row["cost"]), "group": 1, "contents": _json(row["contents"])}
    time = read_time(row["reserved"])
    events: list[tuple[datetime, Event]] = [(time, {**charge, **paid, **kept})]
    if row["committed"] is not None:
        result = {"identity": row["identity"], "digest": row["result_digest"]}
        after = max(time, read_time(row["committed"]))  # a clock may have been put back
        events.append((after, {"kind": "result", "at": row["committed"], **result}))
    return events


def _json(text_: object) -> dict[str, Any]:
    """Return what an old field holds."""
    try:
        fields = json.loads(str(text_))
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise damaged("a field cannot be read")
    return fields


def _digest(result: bytes) -> str:
    return hashlib.sha256(result).hexdigest()
