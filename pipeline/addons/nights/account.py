"""Streams in the account: what the journal of the ledger says of them and of their nights."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, cast

from covdp.ledger.journal import Event
from covdp.ledger.records import Account, HistoryLine, ResultRow, read_budget
from covdp.ledger.state import State, declare, pay
from covdp.privacy.definitions import Budget, equation


@dataclass(frozen=True)
class NightState(ResultRow):
    """A night of a stream, as the journal tells of it; all but its date and sizes is private.

    Without a result it is the right to draw for the privacy units that it claimed, and to commit.

    Attributes
    ----------
    stream : str
        Name of its stream inside the ledger, an HMAC; not to be shown.
    night : int
        Number in the stream: 1, 2, 3 …
    units : int
        Number of privacy units that entered; public.
    total : str
        HMAC of its privacy units and their classes together; as private as the images.
    """

    stream: str = field(repr=False)
    night: int
    units: int
    total: str = field(repr=False)


@dataclass(frozen=True)
class StoredNight(NightState):
    """A night that is committed: what may be published, now and again.

    Attributes
    ----------
    result : bytes
        The released, private values, as they were committed.
    """

    result: bytes = field(repr=False)


@dataclass(frozen=True)
class StreamAccount:
    """A stream of nights that was charged once.

    Attributes
    ----------
    identity : str
        Name inside the ledger, an HMAC; not to be shown.
    number : int
        Row of the journal in which it was opened.
    population : str
        Name of the population that paid.
    name : str
        Name among the streams of that population.
    scope : int
        Row under which its claims stand: that of the stream that paid, itself or one it follows.
    settings : dict
        Settings that it was opened with.
    cost : Budget
        Charge of the stream, or of the stream that it follows for both.
    account : Account
        Account right after the charge. It holds budgets only, so it may be shown.
    rows : tuple of NightState
        Nights, in order; the last may have no result yet.
    ended : bool
        True if the ledger was restored since.
    """

    identity: str = field(repr=False)
    number: int = field(repr=False)
    population: str
    name: str
    scope: int = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    cost: Budget
    account: Account
    rows: tuple[NightState, ...] = field(default=(), repr=False)
    ended: bool = False

    @property
    def query(self) -> str:
        """Query that it was opened with."""
        return str(self.settings["query"])

    @property
    def horizon(self) -> int:
        """Largest number of nights."""
        return int(self.settings["horizon"])

    @property
    def unit(self) -> Literal["image", "person"]:
        """Privacy unit, which enters on one night only."""
        return "person" if self.settings["group"] is None else "image"

    @property
    def nights(self) -> int:
        """Number of nights that were reserved."""
        return len(self.rows)

    @property
    def latest(self) -> str | None:
        """The planned date of the last of them; None before the first."""
        return self.rows[-1].run_key if self.rows else None

    @property
    def committed(self) -> tuple[NightState, ...]:
        """The nights that have a result."""
        return self.rows[:-1] if self.pending else self.rows

    @property
    def pending(self) -> NightState | None:
        """The last night, where it has no result yet: it has to be finished first."""
        return self.rows[-1] if self.rows and self.rows[-1].committed is None else None

    @property
    def paid(self) -> bool:
        """True if it was charged itself, and not the stream that it follows."""
        return self.scope == self.number

    @property
    def in_words(self) -> str:
        """Number of nights that it had and that are left, in words."""
        left = self.horizon - self.nights
        rest = f"{left:,} more at no further cost" if left else "none is left"
        return f"stream {self.name}: {self.nights:,} of {self.horizon:,} nights; {rest}"

    def as_json(self) -> dict[str, Any]:
        """Return it under the names that programs may rely on."""
        account = {name: getattr(self, name) for name in ("population", "name", "unit", "cost")}
        nights = {"nights": self.nights, "horizon": self.horizon, "latest": self.latest}
        return {**account, **nights, "nights_left": self.horizon - self.nights}

    def night_on(self, run_key: str) -> NightState | None:
        """Return the night of a planned date, None where it was not reserved.

        Parameters
        ----------
        run_key : str
            Planned date, YYYY-MM-DD.
        """
        return next((night for night in self.rows if night.run_key == run_key), None)

    def with_result(self, committed: datetime, digest: str) -> "StreamAccount":
        """Return the stream with its last night stored: nights are finished in order.

        Parameters
        ----------
        committed : datetime
            Time of the commit.
        digest : str
            Digest of the result.
        """
        last = replace(self.rows[-1], committed=committed, digest=digest)
        return replace(self, rows=(*self.rows[:-1], last))

    def restored(self) -> "StreamAccount":
        """Return the stream in a ledger that was restored: it has ended."""
        return replace(self, rows=self.committed, ended=True)


@dataclass(frozen=True)
class StreamStatus:
    """State of a stream, and of its night of one planned date.

    Attributes
    ----------
    stream : StreamAccount
        Stream, as it is now.
    run_key : str
        Planned date that was asked about.
    version : str
        Digest that `reserve_night` compares: another one as soon as a night is reserved or
        committed, of this stream or of one with the same claims. As private as the images.
    last : StoredNight or None
        Last night that is committed.
    tonight : StoredNight or None
        Night that was asked about, once it is committed.
    """

    stream: StreamAccount
    run_key: str
    version: str = field(repr=False)
    last: StoredNight | None
    tonight: StoredNight | None

    @property
    def state(self) -> Literal["new", "reserved", "stored"]:
        """State of the night that was asked about; it goes from one to the next, and never back.

        A new night claims privacy units, a reserved one is drawn for the privacy units that it
        claimed, a stored one is given out as it was committed.
        """
        if self.tonight is not None:
            return "stored"
        pending = self.stream.pending
        return "reserved" if pending and pending.run_key == self.run_key else "new"


def streams_in(state: State) -> dict[str, StreamAccount]:
    """Return the streams of an account by their names inside the ledger.

    Parameters
    ----------
    state : State
        State of the ledger.
    """
    return cast(dict[str, StreamAccount], state.streams)


def add_stream(state: State, event: Event, number: int) -> None:
    """Add that a stream was opened.

    Parameters
    ----------
    state : State
        State of the ledger.
    event : Event
        Event of the opening.
    number : int
        Row of the event in the journal.
    """
    settings, name, at = event["settings"], event["population"], event["at"]
    cost, group, scope = read_budget(settings["cost"]), settings["group"], event["scope"]
    identity, paid = event["identity"], f"charged {equation(cost)} for"
    declare(state, event, name)
    if scope == number:
        pay(state, name, cost, group, unfinished=0)
    else:  # paid by the stream that it follows
        paid = "opened, at no further cost,"
        cost = next(one.cost for one in state.streams.values() if one.number == scope)
    state.streams[identity] = StreamAccount(
        identity, number, name, event["name"], scope, settings, cost, state.accounts[name]
    )
    line = f"{paid} the stream {event['name']!r} of at most {settings['horizon']} nights"
    line += ", for whole persons" * (group is None)
    spent = cost if scope == number else None
    state.entries[number] = HistoryLine(at, name, "stream", line, spent, group=group)


def add_night(state: State, event: Event, number: int) -> None:
    """Add that a night was reserved.

    Parameters
    ----------
    state : State
        State of the ledger.
    event : Event
        Event of the reservation.
    number : int
        Row of the event in the journal.
    """
    stream, key, at = streams_in(state)[event["stream"]], event["run_key"], event["at"]
    claimed, units, position = event["claims"], event["units"], event["night"]
    night = NightState(
        event["identity"], number, key, at, stream.identity, position, units, claimed
    )
    state.streams[stream.identity] = replace(stream, rows=(*stream.rows, night))
    declare(state, event, stream.population)
    line = f"night {position} of the stream {stream.name!r}, {key}: {units} {stream.unit}s entered"
    state.entries[number] = HistoryLine(
        at, stream.population, "night", line, run_key=key, group=stream.settings["group"]
    )
