"""What the ledger takes and gives, as frozen records."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pipeline.privacy.definitions import Budget


@dataclass(frozen=True)
class PopulationRow:
    """The account of one population.

    Attributes
    ----------
    population : str
        Its declared name.
    budget : Budget
        All that it may ever spend; its class is the definition of the account.
    spent : Budget or None
        Composition of all charges, rounded up; None before the first.
    left : Budget or None
        Rounded down: one more release that costs exactly `left` is accepted. None when nothing is.
    delta : float
        δ at which the next three are stated.
    epsilon_budget, epsilon_spent, epsilon_left : float
        ε with (ε, δ)-DP for each of the above, rounded up; 0 for None. They do not add up, since
        composition is not a sum in (ε, δ).
    group : int or None
        The most images of one person for whom `spent` holds: the least that any charge counted.
        None where every charge was for whole persons, with any number of images. One for images
        and one for persons add up, since each says what it costs a person; together they hold for
        a person of at most as many images as the former counted.
    releases : int
        Number of charges.
    unfinished : int
        How many of them have no result: in progress, or crashed and waiting to be asked for again.
    created : datetime
        When the budget was first set, UTC.
    latest : Budget or None
        The latest charge; None before the first.
    releases_left : int or None
        How many more charges like the latest fit; None before the first.
    """

    population: str
    budget: Budget
    spent: Budget | None
    left: Budget | None
    delta: float
    epsilon_budget: float
    epsilon_spent: float
    epsilon_left: float
    group: int | None
    releases: int
    unfinished: int
    created: datetime
    latest: Budget | None
    releases_left: int | None


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
    account : PopulationRow
        The account right after this charge, however much later it is resumed. It holds budgets
        only, so it may be shown.
    identity : str
        Name of the release inside the ledger; an HMAC, not to be shown.
    """

    population: str
    cost: Budget
    resumed: bool
    account: PopulationRow
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
class Entry:
    """One line of an account's history.

    Attributes
    ----------
    at : datetime
        When, UTC, to the second.
    population : str
        Whose account.
    kind : str
        "budget": the total was set, raised or lowered; "charge": a release was paid for;
        "stream": one was opened; "night": units entered one; "note": what else is to be known.
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
class Stream:
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
    account : PopulationRow
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
    account: PopulationRow
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
class StoredNight:
    """A night that is settled: what may be published, now and again.

    Attributes
    ----------
    run_key : str
        The planned date.
    night : int
        Its number in the stream.
    units : int
        How many units entered on it; public.
    result : bytes
        The released, private values, as they were committed.
    result_digest : str
        SHA-256 of `result`, hexadecimal: of noised values only, so it may be shown.
    reserved, committed : datetime
        When its units were claimed and when it was settled, UTC.
    """

    run_key: str
    night: int
    units: int
    result: bytes = field(repr=False)
    result_digest: str
    reserved: datetime
    committed: datetime


@dataclass(frozen=True)
class Standing:
    """How far a stream is, and its night of one planned date.

    Attributes
    ----------
    stream : Stream
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

    stream: Stream
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
