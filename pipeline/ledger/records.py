"""What the ledger takes and gives, as frozen records, and how they are written as JSON and text."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pipeline.errors import LedgerError
from pipeline.ledger.accounts import Account
from pipeline.privacy.definitions import DEFINITIONS, Budget


@dataclass(frozen=True)
class Reservation:
    """A charge that has been paid and has no result yet: the right to draw and commit.

    Attributes
    ----------
    population : str
        Who paid.
    cost : Budget
        What was paid.
    resumed : bool
        True when an earlier attempt paid and did not commit; this one pays nothing.
    account : Account
        The account right after this charge, however much later it is resumed. It holds budgets
        only, so it may be shown.
    identity : str
        Name of the release inside the ledger; an HMAC, not to be shown.
    """

    population: str
    cost: Budget
    resumed: bool
    account: Account
    identity: str = field(repr=False)


@dataclass(frozen=True)
class Stored:
    """A release that is paid for and settled: what may be published, now and again.

    Attributes
    ----------
    population : str
        Who paid.
    cost : Budget
        What was paid.
    result : bytes
        The released, private values, as they were committed.
    result_digest : str
        SHA-256 of `result`, hexadecimal: of noised values only, so it may be shown.
    reserved, committed : datetime
        When it was paid and when it was settled, UTC.
    """

    population: str
    cost: Budget
    result: bytes = field(repr=False)
    result_digest: str
    reserved: datetime
    committed: datetime


@dataclass(frozen=True)
class HistoryLine:
    """One line of an account's history.

    Attributes
    ----------
    at : datetime
        When, UTC, to the second.
    population : str
        Whose account.
    kind : str
        "budget": the total was set, raised or lowered; "charge": a release was paid for;
        "stream": one was opened; "night": units entered one; "note": it was restored.
    text : str
        What happened, in one line.
    cost : Budget or None
        What was paid, of a charge or a stream.
    run_key : str or None
        Which run paid, of a charge; the planned date of a night.
    committed : datetime or None
        When the result of a charge was stored, UTC; None while there is none.
    group : int or None
        The most images of one person that a charge paid for; None for whole persons.
    """

    at: datetime
    population: str
    kind: Literal["budget", "charge", "stream", "night", "note"]
    text: str
    cost: Budget | None = None
    run_key: str | None = None
    committed: datetime | None = None
    group: int | None = 1


@dataclass(frozen=True)
class StreamAccount:
    """A stream of nights that was charged once.

    Attributes
    ----------
    population : str
        Who paid.
    name : str
        Its name among the streams of that population.
    horizon : int
        The most nights it may have.
    unit : str
        "image" or "person": what is told apart, and enters on one night only.
    cost : Budget
        What it was charged, or what the stream that it follows was charged for both.
    nights : int
        How many nights were reserved.
    latest : str or None
        The planned date of the last of them; None before the first.
    unfinished : str or None
        That date where the last night has no result yet: it has to be finished first.
    account : Account
        The account right after the charge. It holds budgets only, so it may be shown.
    query : str
        What it was opened with.
    scope : int
        What its claims are known by; that of the stream which it follows.
    identity : str
        Its name inside the ledger; an HMAC, not to be shown.
    """

    population: str
    name: str
    horizon: int
    unit: Literal["image", "person"]
    cost: Budget
    nights: int
    latest: str | None
    unfinished: str | None
    account: Account
    query: str = field(repr=False)
    scope: int = field(repr=False)
    identity: str = field(repr=False)


@dataclass(frozen=True)
class NightReservation:
    """A night whose units are claimed and that has no result yet: the right to draw and commit.

    Attributes
    ----------
    run_key : str
        The planned date.
    night : int
        Its number in the stream: 1, 2, 3 …
    mask : tuple of bool
        Which of the units that were offered enter on this night; as private as the images.
    resumed : bool
        True when an earlier attempt reserved it and did not commit.
    units : int
        How many units entered; public.
    total : str
        What they and their classes are known by together; as private as the images.
    identity : str
        Name of the night inside the ledger; an HMAC, not to be shown.
    """

    run_key: str
    night: int
    mask: tuple[bool, ...] = field(repr=False)
    resumed: bool
    units: int
    total: str = field(repr=False)
    identity: str = field(repr=False)


@dataclass(frozen=True)
class StoredNight(Stored):
    """A night that is settled: what may be published, now and again; `cost` is of the stream.

    Attributes
    ----------
    run_key : str
        The planned date.
    night : int
        Its number in the stream.
    units : int
        How many units entered on it; public.
    """

    run_key: str
    night: int
    units: int


@dataclass(frozen=True)
class StreamStatus:
    """How far a stream is, and its night of one planned date.

    Attributes
    ----------
    stream : StreamAccount
    run_key : str
        The planned date that was asked about.
    version : str
        What `reserve_night` compares: another one as soon as a night is reserved or settled, of
        this stream or of one with the same claims. As private as the images.
    digests : tuple of str
        `StoredNight.result_digest` of each night that is settled, in order.
    totals : tuple of str
        What the units of each of these nights are known by; as private as the images.
    last : StoredNight or None
        The last of them.
    tonight : StoredNight or None
        The night that was asked about, once it is settled.
    unfinished : NightReservation or None
        The night that has to be finished before another is begun; its mask is empty.
    """

    stream: StreamAccount
    run_key: str
    version: str = field(repr=False)
    digests: tuple[str, ...]
    totals: tuple[str, ...] = field(repr=False)
    last: StoredNight | None
    tonight: StoredNight | None
    unfinished: NightReservation | None

    @property
    def state(self) -> Literal["new", "reserved", "stored"]:
        """Of the night that was asked about; it goes from one to the next, and never back.

        A new night claims units, a reserved one is drawn for the units that it claimed, a stored
        one is given out as it was committed.
        """
        if self.tonight is not None:
            return "stored"
        held = self.unfinished
        return "reserved" if held is not None and held.run_key == self.run_key else "new"


@dataclass(frozen=True)
class Charge:
    """What a result cost.

    Attributes
    ----------
    cost : Budget
        Of the release, or of its stream for all nights.
    charged : bool
        Whether the account was charged since.
    settled : bool
        Whether the result was stored since; if not, it had been released before.
    of_stream : bool
        Whether the result is of a night.
    account : Account
        As it is now.
    """

    cost: Budget
    charged: bool
    settled: bool
    of_stream: bool
    account: Account


def damaged(fault: str) -> LedgerError:
    """Return the error for what cannot be what the ledger wrote."""
    return LedgerError(
        f"the ledger is damaged: {fault}; restore it from a backup, a new one forgets"
    )


def budget_fields(budget: Budget) -> dict[str, Any]:
    """Return `budget` as JSON values."""
    return {"definition": budget.name, **asdict(budget)}


def read_budget(fields: Mapping[str, Any]) -> Budget:
    """Return the budget that `budget_fields` wrote."""
    try:
        rest = dict(fields)
        return DEFINITIONS[rest.pop("definition")](**rest)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise damaged("a budget cannot be read") from None


def unit_fields(group: int | None, classes: int) -> dict[str, Any]:
    """Return what a charge says of the unit it paid for."""
    return {"unit": "person" if group is None else "image", "group": group, "classes": classes}


def now() -> str:
    """Return the time in UTC, to the second; for people to read, nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_time(text: str) -> datetime:
    """Return the time that `now` wrote, in UTC."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        raise damaged("a time cannot be read") from None


def read_key(text: object) -> bytes:
    """Return the 32 bytes of the key."""
    try:
        key = bytes.fromhex(str(text))
    except ValueError:
        key = b""
    if len(key) != 32 or key.hex() != text:
        raise damaged("its key cannot be read")
    return key
