"""What the journal adds up to: accounts, paid releases, who owns which content."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from pipeline.errors import LedgerError
from pipeline.ledger.journal import Event
from pipeline.ledger.records import (
    Account,
    HistoryLine,
    budget_fields,
    damaged,
    now,
    read_budget,
    read_time,
)
from pipeline.privacy.definitions import Budget


@dataclass(frozen=True)
class Paid:
    """A release that was charged; `number` is the row of its charge in the journal."""

    number: int
    population: str
    query: str
    run_key: str
    cost: Budget
    reserved: datetime
    group: int | None
    committed: datetime | None = None
    digest: str | None = None


@dataclass(frozen=True)
class StreamState:
    """A stream; `number` is its row in the journal, `scope` that of the stream that paid.

    `settings` is all that it was opened with, `nights` the names of its nights by planned date.
    """

    number: int
    population: str
    name: str
    scope: int
    settings: Event
    cost: Budget
    horizon: int
    group: int | None
    opened: datetime
    nights: dict[str, str] = field(default_factory=dict)
    ended: bool = False

    @property
    def unit(self) -> Literal["image", "person"]:
        """What enters on one night only."""
        return "person" if self.group is None else "image"


@dataclass(frozen=True)
class NightState:
    """A night of `stream`, reserved in row `number` of the journal; `total` sums its claims."""

    number: int
    stream: str
    run_key: str
    position: int
    units: int
    total: str
    reserved: datetime
    committed: datetime | None = None
    digest: str | None = None


@dataclass(frozen=True)
class State:
    """Everything at the end of the journal, or of its beginning up to some row."""

    totals: dict[str, Account] = field(default_factory=dict)
    releases: dict[str, Paid] = field(default_factory=dict)
    streams: dict[str, StreamState] = field(default_factory=dict)
    nights: dict[str, NightState] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    entries: dict[int, HistoryLine] = field(default_factory=dict)

    def account(self, population: str) -> Account | None:
        """Return the account of `population`, or None when it has none."""
        if population not in self.totals:
            return None
        runs = [one for one in self.releases.values() if one.population == population]
        streams = [
            one
            for one in self.streams.values()
            if one.population == population and one.scope == one.number  # others have been paid
        ]
        paid: list[Paid | StreamState] = sorted([*runs, *streams], key=lambda one: one.number)
        return replace(
            self.totals[population],
            costs=tuple(one.cost for one in paid),
            group=min(
                (one.group for one in paid if one.group is not None), default=None if paid else 1
            ),
            unfinished=sum(one.committed is None for one in runs),
        )

    def history(self, population: str | None) -> tuple[HistoryLine, ...]:
        """Return all that was written about one population, or about all, oldest first."""
        lines = self.entries.values()
        return tuple(line for line in lines if population in (None, line.population))

    def settled(self) -> Iterator[tuple[str, "Paid | NightState"]]:
        """Return releases, then nights, that have a result, with their names."""
        rows: dict[str, Paid | NightState] = {**self.releases, **self.nights}
        return ((name, row) for name, row in rows.items() if row.committed is not None)

    def payer(self, row: "Paid | NightState") -> "Paid | StreamState":
        """Return what paid for a release or a night: itself, or its stream."""
        return row if isinstance(row, Paid) else self.streams[row.stream]


def budget_event(population: str, budget: Budget, delta: float, line: str) -> Event:
    """Return the event of a total that was set or changed."""
    total = {"budget": budget_fields(budget), "delta": delta}
    return {"kind": "budget", "at": now(), "population": population, **total, "text": line}


def replay(events: Iterable[Event]) -> State:
    """Return what `events`, the first ones of a verified journal, add up to.

    Raises
    ------
    LedgerError
        An event that only a later version knows.
    """
    state = State()
    for number, event in enumerate(events, 1):
        extend(state, event, number)
    return state


def copied(state: State) -> State:
    """Return a copy that may be extended without the first."""
    copy = State(*map(dict, vars(state).values()))
    for name, stream in state.streams.items():
        copy.streams[name] = replace(stream, nights=dict(stream.nights))
    return copy


def extend(state: State, event: Event, number: int) -> None:
    """Add the event of row `number` to `state`."""
    if event["kind"] not in _KINDS:
        raise LedgerError(
            f"row {number} of the ledger's journal was written by a later version; use that"
        )
    _KINDS[event["kind"]](state, event, number)


def _ledger(state: State, event: Event, number: int) -> None:
    if number > 1:
        raise damaged(f"row {number} of its journal begins another ledger")


def _budget(state: State, event: Event, number: int) -> None:
    name, at = event["population"], read_time(event["at"])
    old = state.totals.get(name)
    created = old.created if old else at
    budget = read_budget(event["budget"])
    state.totals[name] = Account(name, budget, event["delta"], created, (), 1, 0)
    state.entries[number] = HistoryLine(at, name, "budget", event["text"])


def _charge(state: State, event: Event, number: int) -> None:
    name, key, group = event["population"], event["run_key"], event["group"]
    cost, at = read_budget(event["cost"]), read_time(event["at"])
    state.releases[event["identity"]] = Paid(number, name, event["query"], key, cost, at, group)
    state.owners.update(dict.fromkeys(event["contents"].values(), name))
    line = f"charged {cost!r} for run {key!r}" + ", for whole persons" * (group is None)
    state.entries[number] = HistoryLine(at, name, "charge", line, cost, key, group=group)


def _result(state: State, event: Event, number: int) -> None:
    name, at = event["identity"], read_time(event["at"])
    rows: dict[str, Any] = state.nights if name in state.nights else state.releases
    row = rows[name] = replace(rows[name], committed=at, digest=event["digest"])
    state.entries[row.number] = replace(state.entries[row.number], committed=at)


def _restored(state: State, event: Event, number: int) -> None:
    name = event["population"]
    state.entries[number] = HistoryLine(read_time(event["at"]), name, "note", event["text"])
    for identity, one in state.streams.items():
        if one.population == name:
            state.streams[identity] = replace(one, ended=True)
            for night in one.nights.values():
                if night in state.nights and state.nights[night].committed is None:
                    del state.nights[night]
    for identity, paid in list(state.releases.items()):
        # its result may have been published after the backup: drawn again, it is charged again
        if paid.population == name and paid.committed is None:
            state.releases[f"{identity} before row {number}"] = state.releases.pop(identity)


def _stream(state: State, event: Event, number: int) -> None:
    settings, name, at = event["settings"], event["population"], read_time(event["at"])
    cost, group, scope = read_budget(settings["cost"]), settings["group"], event["scope"]
    horizon = settings["horizon"]
    state.streams[event["identity"]] = StreamState(
        number, name, event["name"], scope, settings, cost, horizon, group, at
    )
    paid = f"charged {cost!r} for" if scope == number else "opened, at no further cost,"
    line = f"{paid} the stream {event['name']!r} of at most {horizon} nights"
    line += ", for whole persons" * (group is None)
    spent = cost if scope == number else None
    state.entries[number] = HistoryLine(at, name, "stream", line, spent, group=group)


def _night(state: State, event: Event, number: int) -> None:
    stream, key = event["stream"], event["run_key"]
    opened = state.streams[stream]
    at, units, position = read_time(event["at"]), event["units"], event["night"]
    row = NightState(number, stream, key, position, units, event["sum"], at)
    state.nights[event["identity"]] = row
    opened.nights[key] = event["identity"]
    if "content" in event:
        state.owners[event["content"]] = opened.population
    who, line = f"{units} {opened.unit}s entered", f"night {position} of the stream {opened.name!r}"
    state.entries[number] = HistoryLine(
        at, opened.population, "night", f"{line}, {key}: {who}", run_key=key, group=opened.group
    )


_KINDS = {
    "ledger": _ledger,
    "budget": _budget,
    "charge": _charge,
    "result": _result,
    "restored": _restored,
    "stream": _stream,
    "night": _night,
}
"""What each kind of event adds."""
