"""Records that the ledger takes and gives, frozen, and how they are written as JSON and text.

**An account** of a population says what was spent, what is left, and what may be changed.

**Names** of populations and runs: what is easily taken for another name is refused. A name is one
line of ASCII characters, and of letters with their marks that compatibility forms (NFKC) leave as
they are; its letters are of one alphabet, beside which East Asian scripts may stand. So zero-width
and directional characters, blanks and dashes that are not the ASCII ones, full-width letters, and a
Cyrillic а among Latin letters are refused. Blanks around a name are dropped, and the rest is
composed (NFC).
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, Protocol

from covdp.errors import BudgetError, LedgerError, PrivacyError
from covdp.privacy.composition import compose, fits, fits_as_written, remaining, times_left
from covdp.privacy.definitions import DEFINITIONS, RDP, Budget, equation
from covdp.privacy.profiles import epsilon_of


@dataclass(frozen=True)
class Account:
    """The account of one population, as the journal adds it up.

    Attributes
    ----------
    population : str
        Its declared name.
    budget : Budget
        All that it may ever spend; its class is the definition of the account.
    delta : float
        δ at which ε is stated.
    created : datetime
        Time when the budget was first set, UTC.
    costs : tuple of Budget
        All charges, in order.
    group : int or None
        The most images of one person for whom `spent` holds: the least that any charge counted.
        None where every charge was for whole persons, with any number of images. One for images
        and one for persons add up, since each says what it costs a person; together they hold for
        a person of at most as many images as the former counted.
    unfinished : int
        Number of charges without a result: in progress, or crashed and waiting to be asked for
        again.
    """

    population: str
    budget: Budget
    delta: float
    created: datetime
    costs: tuple[Budget, ...]
    group: int | None
    unfinished: int

    @cached_property
    def spent(self) -> Budget | None:
        """Composition of all charges in one go, rounded up once, but not above the budget.

        Decimals that add up to the budget may be doubles that add up to a little more.
        """
        if not self.costs:
            return None
        spent = compose(self.costs)
        over = not fits(spent, self.budget)
        return self.budget if over and fits_as_written(self.costs, self.budget) else spent

    @cached_property
    def left(self) -> Budget | None:
        """Largest cost of one more release, rounded down; None when nothing is left.

        Let q be the quantity that adds up (ε, μ², ρ …). q(left) ≤ q(budget) − q(spent), and
        q(spent) is at least the exact sum of the charges. So the charges with one of `left` sum to
        at most q(budget), and `compose`, which returns the least double above a sum, returns at
        most the budget: `check_affordable` accepts it.
        """
        spent = self.spent
        return remaining(self.budget, spent) if spent else self.budget

    @property
    def epsilon_budget(self) -> float:
        """ε with (ε, δ)-DP for the budget, rounded up."""
        return epsilon_of(self.budget, self.delta)

    @property
    def epsilon_spent(self) -> float:
        """The same for what is spent, 0 where nothing is; composition is not a sum in (ε, δ)."""
        return epsilon_of(self.spent, self.delta) if self.spent else 0.0

    @property
    def epsilon_left(self) -> float:
        """The same for what is left."""
        return epsilon_of(self.left, self.delta) if self.left else 0.0

    @property
    def releases(self) -> int:
        """Number of charges."""
        return len(self.costs)

    @property
    def latest(self) -> Budget | None:
        """The latest charge; None before the first."""
        return self.costs[-1] if self.costs else None

    def lasts(self, cost: Budget) -> int:
        """Return the number of further releases at `cost` that are accepted, one after the other.

        Parameters
        ----------
        cost : Budget
            Cost of one release.

        Raises
        ------
        LedgerError
            `cost` is in another definition than the account.
        """
        _check_kind(self, cost)
        return times_left(self.budget, self.costs, cost)


def check_affordable(account: Account, cost: Budget) -> None:
    """Raise `BudgetError` unless all charges with `cost` compose to at most the budget.

    Parameters
    ----------
    account : Account
        Account of the population.
    cost : Budget
        Cost of one release.
    """
    _check_kind(account, cost)
    try:
        costs = [*account.costs, cost]
        affordable = fits(compose(costs), account.budget) or fits_as_written(costs, account.budget)
    except PrivacyError:  # a sum that is no budget, such as δ of 1 or more
        affordable = False
    if not affordable:
        left = equation(account.left) if account.left else "nothing"  # every digit: to be spent
        raise BudgetError(
            f"population {account.population!r} has {left} left of {equation(account.budget)}, and "
            f"this release costs {equation(cost)}; ask for less, or raise the total with "
            "`covdp ledger set-budget` if its people have agreed to less protection"
        )


def check_change(account: Account, budget: Budget) -> None:
    """Raise `LedgerError` unless `budget` may take the place of the account's total.

    Parameters
    ----------
    account : Account
        Account of the population.
    budget : Budget
        Budget in all from now on.
    """
    _check_kind(account, budget)
    if account.spent and not fits(account.spent, budget):
        raise LedgerError(
            f"population {account.population!r} has spent {equation(account.spent)} already, more "
            f"than {equation(budget)}; set a total of at least what was spent"
        )


def _check_kind(account: Account, budget: Budget) -> None:
    """Raise `LedgerError` unless `budget` is in the definition of the account."""
    own = account.budget
    same_order = not isinstance(own, RDP) or own.alpha == getattr(budget, "alpha", None)
    if type(budget) is not type(own) or not same_order:
        raise LedgerError(
            f"population {account.population!r} is accounted in the definition of {own.title}, "
            f"with {equation(own)}, found {budget.title}, {equation(budget)}; state it in that "
            "definition, which an account keeps for ever"
        )


@dataclass(frozen=True)
class HistoryLine:
    """One line of an account's history.

    Attributes
    ----------
    at : datetime
        Time of the event, UTC, to the second.
    population : str
        Population whose account it is.
    kind : str
        "budget": the total was set, raised or lowered; "charge": a release was paid for;
        "stream": one was opened; "night": privacy units entered one; "note": it was restored, a
        document was signed, or a study was withdrawn.
    text : str
        Event in one line.
    cost : Budget or None
        Cost of a charge or a stream.
    run_key : str or None
        Run key that paid, of a charge; the planned date of a night.
    name : str or None
        Name of the release that paid, where its query says one.
    committed : datetime or None
        Time when the result of a charge was stored, UTC; None while there is none.
    group : int or None
        The most images of one person that a charge paid for; None for whole persons.
    """

    at: datetime
    population: str
    kind: Literal["budget", "charge", "stream", "night", "note"]
    text: str
    cost: Budget | None = None
    run_key: str | None = None
    name: str | None = None
    committed: datetime | None = None
    group: int | None = 1


@dataclass(frozen=True)
class ResultRow:
    """Row that a result belongs to: a release that was charged, or a night of a stream.

    Attributes
    ----------
    identity : str
        Its name inside the ledger; an HMAC, not to be shown.
    number : int
        The row of the journal in which it was reserved.
    run_key : str
        Run key; the planned date of a night.
    reserved : datetime
        Time of the charge, UTC.
    committed : datetime or None
        Time when its result was stored; None while there is none.
    digest : str or None
        SHA-256 of that result, hexadecimal: of noised values only, so it may be shown.
    """

    identity: str = field(repr=False)
    number: int = field(repr=False)
    run_key: str
    reserved: datetime = field(compare=False)
    committed: datetime | None = field(default=None, kw_only=True)
    digest: str | None = field(default=None, kw_only=True, repr=False)


@dataclass(frozen=True)
class PaidRelease(ResultRow):
    """A release that was charged.

    Attributes
    ----------
    population : str
        Population that paid.
    name : str or None
        Name that its query says.
    cost : Budget
        Cost that was paid.
    declared : tuple of str
        HMACs of what was declared of its images; not to be shown.
    """

    population: str
    name: str | None
    cost: Budget
    declared: tuple[str, ...] = field(default=(), kw_only=True, repr=False)


@dataclass(frozen=True)
class Reservation(PaidRelease):
    """A charge that has been paid and has no result yet: the right to draw and commit.

    Attributes
    ----------
    account : Account
        The account right after this charge, however much later it is asked for again. It holds
        budgets only, so it may be shown.
    """

    account: Account


@dataclass(frozen=True)
class StoredRelease(PaidRelease):
    """A release that is paid for and committed: what may be published, now and again.

    Attributes
    ----------
    result : bytes
        The released, private values, as they were committed.
    """

    result: bytes = field(repr=False)


class PaidStream(Protocol):
    """Charge for several results, of an add-on, as the journal adds it up."""

    @property
    def identity(self) -> str:
        """Its name inside the ledger; an HMAC, not to be shown."""

    @property
    def number(self) -> int:
        """The row of the journal in which it was opened."""

    @property
    def population(self) -> str:
        """Population that paid."""

    @property
    def name(self) -> str:
        """Its name among those of that population."""

    @property
    def cost(self) -> Budget:
        """Budget that it was charged, or that of the one it goes on with."""

    @property
    def paid(self) -> bool:
        """True if it was charged itself."""

    @property
    def ended(self) -> bool:
        """True if it goes on no more."""

    @property
    def horizon(self) -> int:
        """The most results it may have."""

    @property
    def nights(self) -> int:
        """Number of results that were reserved."""

    @property
    def committed(self) -> Sequence[ResultRow]:
        """Results that are stored, in order."""

    @property
    def pending(self) -> ResultRow | None:
        """The last one, where it is not stored yet."""

    @property
    def in_words(self) -> str:
        """Results that are left, in words."""

    def as_json(self) -> dict[str, Any]:
        """Return it under the names that programs may rely on."""

    def with_result(self, committed: datetime, digest: str) -> "PaidStream":
        """Return it with the pending result stored.

        Parameters
        ----------
        committed : datetime
            Time of the commit.
        digest : str
            Digest of the result.
        """

    def restored(self) -> "PaidStream":
        """Return it in a ledger that was restored from a backup."""


@dataclass(frozen=True)
class Charge:
    """Cost of a result.

    Attributes
    ----------
    cost : Budget
        Cost of the release, or of its stream for all nights.
    charged : bool
        True if the account was charged since.
    committed : bool
        True if the result was stored since; if not, it had been released before.
    of_stream : bool
        True if the result is of a night.
    account : Account
        Account as it is now.
    """

    cost: Budget
    charged: bool
    committed: bool
    of_stream: bool
    account: Account


def damaged(fault: str) -> LedgerError:
    """Return the error for what cannot be what the ledger wrote.

    Parameters
    ----------
    fault : str
        Statement that is wrong, in words.
    """
    return LedgerError(
        f"the ledger is damaged: {fault}; restore it from a backup, a new one forgets"
    )


def budget_fields(budget: Budget) -> dict[str, Any]:
    """Return `budget` as JSON values.

    Parameters
    ----------
    budget : Budget
        Budget in any definition.
    """
    return {"definition": budget.name, **asdict(budget)}


def read_budget(fields: Mapping[str, Any]) -> Budget:
    """Return the budget that `budget_fields` wrote.

    Parameters
    ----------
    fields : mapping of str to object
        JSON values.
    """
    try:
        rest = dict(fields)
        return DEFINITIONS[rest.pop("definition")](**rest)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise damaged("a budget cannot be read") from None


def name_in(query: str) -> str | None:
    """Return the name that a query of ours says; None of other programs', which are any text.

    Parameters
    ----------
    query : str
        Query of a release.
    """
    with suppress(ValueError, TypeError, KeyError):
        name = json.loads(query)["name"]
        return name if isinstance(name, str) else None
    return None


def unit_fields(group: int | None, classes: int) -> dict[str, Any]:
    """Return the fields of a charge about the privacy unit it paid for.

    Parameters
    ----------
    group : int or None
        Largest number of images of a person that it covers; None where a record is a person.
    classes : int
        Largest number of classes with records of one person.
    """
    return {"unit": "person" if group is None else "image", "group": group, "classes": classes}


def now() -> str:
    """Return the time in UTC, to the second; for people to read, nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_key(text: object) -> bytes:
    """Return the 32 bytes of the key.

    Parameters
    ----------
    text : object
        Key as it is stored.
    """
    try:
        key = bytes.fromhex(str(text))
    except ValueError:
        key = b""
    if len(key) != 32 or key.hex() != text:
        raise damaged("its key cannot be read")
    return key


RUN_KEY_BYTES = 100
"""Most bytes of a run key in UTF-8: a file's name may have 255, with what is put around the key."""
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
"""Marks and letters that may show nothing; all others of that kind are unprintable or not NFKC."""
_EAST_ASIAN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO", "HANGUL"})
"""Scripts that may stand beside any alphabet."""
_DEVICE = re.compile(r"(?i:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:[. ].*)?")


def clean_name(what: str, value: str) -> str:
    """Return `value` without blanks around it, in NFC, or raise `LedgerError` by the rule above.

    Parameters
    ----------
    what : str
        Noun for what is named, for the message.
    value : str
        The name as it was typed.
    """
    fault = None
    name = unicodedata.normalize("NFC", value).strip() if isinstance(value, str) else ""
    if not name or not name.isprintable():
        fault = "must be text on one line without invisible characters"
    elif odd := next((letter for letter in name if not _plain(letter)), None):
        fault = f"takes letters and ASCII characters, not {odd!a}"
    elif len(_alphabets(name) - _EAST_ASIAN) > 1:
        fault = "takes letters of one alphabet"
    if fault:
        raise LedgerError(f"a {what} {fault}, found {value!a:.60}; name it in plain letters")
    return name


def check_unlike(population: str, others: Iterable[str]) -> None:
    """Raise `LedgerError` when a new name is another's but for the case of letters or blanks.

    Parameters
    ----------
    population : str
        New name of a population.
    others : iterable of str
        Names of the other populations.
    """
    for other in others:
        if _spelt(other) == _spelt(population):
            raise LedgerError(
                f"the population {population!r} is easily taken for {other!r}, which has an "
                "account; use that one, or a name that differs in more than case and blanks"
            )


def clean_run_key(value: str) -> str:
    """Return a run key as `clean_name` does, or raise `LedgerError` when no file can have it.

    Parameters
    ----------
    value : str
        Candidate run key.
    """
    key = clean_name("run key", value)
    size = len(key.encode())
    fault = None
    if size > RUN_KEY_BYTES:
        fault = f"has at most {RUN_KEY_BYTES} bytes in UTF-8, found {size}"
    elif re.search(r"[/\\]|\.\.", key) or key.endswith("."):
        fault = f"has no '/', '\\' or '..' and no dot at its end, found {key!r}"
    elif _DEVICE.fullmatch(key):
        fault = f"is not the name of a device on Windows, found {key!r}"
    if fault:
        raise LedgerError(f"a run key names files, so it {fault}; choose another")
    return key


def _spelt(name: str) -> str:
    return "".join(name.casefold().split())


def _plain(letter: str) -> bool:
    """Return whether a character is ASCII, or a letter or mark with no other meaning."""
    if letter.isascii():
        return True
    kind = unicodedata.category(letter)[0]
    stable = unicodedata.normalize("NFKC", letter) == letter
    return kind in "LM" and stable and not _UNSEEN.match(letter)


def _alphabets(name: str) -> set[str]:
    """Return the alphabets of the letters of a name, as Unicode calls them."""
    letters = [letter for letter in name if letter.isalpha()]
    return {unicodedata.name(letter, "NONE").split()[0] for letter in letters}
