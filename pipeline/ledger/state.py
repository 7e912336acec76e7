"""State that the journal adds up to: accounts, paid releases, what was declared, known contents."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from covdp.errors import LedgerError
from covdp.ledger.journal import Event
from covdp.ledger.records import (
    Account,
    HistoryLine,
    PaidRelease,
    PaidStream,
    ResultRow,
    damaged,
    name_in,
    read_budget,
)
from covdp.privacy.definitions import Budget, equation
from covdp.registry import Registry


@dataclass(frozen=True)
class State:
    """Everything at the end of the journal, or of its beginning up to some row.

    Attributes
    ----------
    accounts : dict of str to Account
        Accounts by population.
    releases : dict of str to PaidRelease
        Releases by identity.
    streams : dict of str to PaidStream
        Streams by identity.
    contents : dict of str to tuple of int
        Rows of the charges of each content, by digest.
    declared : dict of str to str
        Population of declared images, by HMAC.
    entries : dict of int to HistoryLine
        Lines of the history, by row.
    signed : dict of str to str
        Time of signing of each document that was committed unsigned, by digest.
    words : dict of str to dict of str to str
        Entries of a joint release, in hexadecimal, by the identity of its charge.
    """

    accounts: dict[str, Account] = field(default_factory=dict)
    releases: dict[str, PaidRelease] = field(default_factory=dict)
    streams: dict[str, PaidStream] = field(default_factory=dict)
    contents: dict[str, tuple[int, ...]] = field(default_factory=dict)  # rows of their charges
    declared: dict[str, str] = field(default_factory=dict)  # the population of declared images
    entries: dict[int, HistoryLine] = field(default_factory=dict)
    signed: dict[str, str] = field(default_factory=dict)
    words: dict[str, dict[str, str]] = field(default_factory=dict)

    def committed(self) -> Iterator[tuple[ResultRow, PaidRelease | PaidStream]]:
        """Return releases, then nights, that have a result, each with what paid for it."""
        yield from ((release, release) for release in self.releases.values() if release.committed)
        for stream in self.streams.values():
            yield from ((night, stream) for night in stream.committed)

    def runs(self, population: str, run_key: str) -> list[PaidRelease]:
        """Return the releases of a population that were charged under a run key.

        Parameters
        ----------
        population : str
            Name of the population.
        run_key : str
            Run key of the release.
        """
        run = population, run_key
        return [paid for paid in self.releases.values() if (paid.population, paid.run_key) == run]


def replay(events: Iterable[Event], before: State | None = None, rows: int = 0) -> State:
    """Return the state after a verified journal, of which `events` come after its first `rows`.

    `before` is what these add up to, and is left as it is.

    Parameters
    ----------
    events : iterable of Event
        Changes in order.
    before : State, optional
        State of the first `rows` rows; the empty ledger when left out.
    rows : int
        Number of rows behind `before`.

    Raises
    ------
    LedgerError
        An event that only a later version knows.
    """
    state = State(*map(dict, vars(before or State()).values()))
    for number, event in enumerate(events, rows + 1):
        if (kind := event["kind"]) in OF_ADD_ONS:
            EVENTS.need(kind, f"row {number} of the ledger's journal")
        if kind not in EVENTS:
            raise LedgerError(
                f"row {number} of the ledger's journal was written by a later version; use that"
            )
        EVENTS[kind](state, {**event, "at": datetime.fromisoformat(event["at"])}, number)
    return state


def _ledger(state: State, event: Event, number: int) -> None:
    if number > 1:
        raise damaged(f"row {number} of its journal begins another ledger")


def _budget(state: State, event: Event, number: int) -> None:
    name, at = event["population"], event["at"]
    budget, delta = read_budget(event["budget"]), event["delta"]
    account = state.accounts.get(name) or Account(name, budget, delta, at, (), 1, 0)
    state.accounts[name] = replace(account, budget=budget, delta=delta)
    state.entries[number] = HistoryLine(at, name, "budget", event["text"])


def pay(state: State, name: str, cost: Budget, group: int | None, *, unfinished: int) -> None:
    """Charge an account; of its charges those that count images count the least.

    Parameters
    ----------
    state : State
        Ledger as it is; changed.
    name : str
        Name of the population.
    cost : Budget
        Charge.
    group : int or None
        Most images of a person that it covers; None for whole persons.
    unfinished : int
        Number of results that it pays for and that are not stored yet.
    """
    account = state.accounts[name]
    counted = [group, account.group] if account.costs else [group]
    state.accounts[name] = replace(
        account,
        costs=(*account.costs, cost),
        group=min((size for size in counted if size is not None), default=None),
        unfinished=account.unfinished + unfinished,
    )


def _charge(state: State, event: Event, number: int) -> None:
    name, key, group = event["population"], event["run_key"], event["group"]
    cost, at, identity = read_budget(event["cost"]), event["at"], event["identity"]
    pay(state, name, cost, group, unfinished=1)
    release = name_in(event["query"])
    declared = declare(state, event, name)
    state.releases[identity] = PaidRelease(
        identity, number, key, at, name, release, cost, declared=declared
    )
    for content in set(event["contents"].values()):
        state.contents[content] = (*state.contents.get(content, ()), number)
    line = f"charged {equation(cost)} for {f'{release}, ' if release else ''}run {key!r}"
    line += ", for whole persons" * (group is None)
    state.entries[number] = HistoryLine(at, name, "charge", line, cost, key, release, group=group)


def declare(state: State, event: Event, population: str) -> tuple[str, ...]:
    """Return the declared digests of an event; rows of an earlier layout have none.

    Parameters
    ----------
    state : State
        Ledger as it is; changed.
    event : mapping
        Row of the journal.
    population : str
        Name of the population.
    """
    declared = tuple(event.get("declared", ()))
    for mac in declared:
        state.declared.setdefault(mac, population)
    return declared


def _result(state: State, event: Event, number: int) -> None:
    name = event["identity"]
    done: dict[str, Any] = {"committed": event["at"], "digest": event["digest"]}
    row: ResultRow
    if name in state.releases:
        paid = row = replace(state.releases[name], **done)
        state.releases[name] = paid
        account = state.accounts[paid.population]
        state.accounts[paid.population] = replace(account, unfinished=account.unfinished - 1)
    else:
        streams = ((one, one.pending) for one in state.streams.values())
        stream = next(one for one, last in streams if last and last.identity == name)
        state.streams[stream.identity] = stream = stream.with_result(**done)
        row = stream.committed[-1]
    state.entries[row.number] = replace(state.entries[row.number], committed=row.committed)


def _signed(state: State, event: Event, number: int) -> None:
    at, name, key = event["at"], event["population"], event["run_key"]
    state.signed[event["digest"]] = at.isoformat()
    line = f"signed the document of run {key!r}, which was committed without a signature"
    state.entries[number] = HistoryLine(at, name, "note", line)


def _restored(state: State, event: Event, number: int) -> None:
    name = event["population"]
    state.entries[number] = HistoryLine(event["at"], name, "note", event["text"])
    state.accounts[name] = replace(state.accounts[name], unfinished=0)
    for identity, stream in state.streams.items():
        if stream.population == name:
            state.streams[identity] = stream.restored()
    for identity, paid in list(state.releases.items()):
        # its result may have been published after the backup: drawn again, it is charged again
        if paid.population == name and paid.committed is None:
            state.releases[f"{identity} before row {number}"] = state.releases.pop(identity)


EVENTS = Registry[Callable[[State, Event, int], None]](
    "events",
    {
        "ledger": _ledger,
        "budget": _budget,
        "charge": _charge,
        "result": _result,
        "restored": _restored,
        "signed": _signed,
    },
    word="event",
    fault=LedgerError,
)
"""Effect of each kind of event; its time is read before."""
OF_ADD_ONS = ("stream", "night", "word", "withdrawal")
"""Kinds that add-ons of covdp bring."""
