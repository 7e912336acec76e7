"""The ledger itself: digest, set a budget, reserve, commit, show. Next: ``writing.py``."""

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sqlalchemy import insert

from pipeline.errors import LedgerError
from pipeline.ledger import schema
from pipeline.ledger.accounts import Account, check_affordable, check_change
from pipeline.ledger.charges import check_contents, check_owner, check_text
from pipeline.ledger.database import Database
from pipeline.ledger.entries import Entry, PopulationRow, Reservation, Stored
from pipeline.ledger.fields import budget_fields, now, unit_fields
from pipeline.ledger.marker import path_beside
from pipeline.ledger.names import check_unlike, clean_name, clean_run_key
from pipeline.ledger.state import budget_event
from pipeline.ledger.writing import Book, open_book
from pipeline.privacy.composition import for_group_as_written, repeat_as_written
from pipeline.privacy.definitions import ApproxDP, Budget
from pipeline.privacy.profiles import epsilon_of

DELTA = 1e-5
"""δ at which ε is shown, unless the population has its own."""


@dataclass(frozen=True)
class Ledger:
    """An open ledger; `init_ledger` and `open_ledger` make one.

    Whatever is asked, a database that fails is a `LedgerError`.

    Attributes
    ----------
    database : Database
        Where it is. Nothing stays open between calls, so a ledger may be pickled and forked.
    key : bytes
        Key of all digests and of the journal, 256 random bits.
    """

    database: Database
    key: bytes = field(repr=False)

    def digest(self, chunks: Iterable[bytes]) -> str:
        """Return the HMAC-SHA256, in hexadecimal, of the content of one class.

        It depends on the concatenation of `chunks` alone, not on where they are cut. Give what the
        units are known by in ascending order and nothing else: a class is known again by them under
        any name, in whatever order its images are read. For `reserve` only; not to be shown, see
        the package's docstring.
        """
        return self._mac("content", chunks)

    def person_key(self) -> bytes:
        """Return the key under which persons are told apart: always the same, and not `key`."""
        return bytes.fromhex(self._mac("person", []))

    def beside(self, ending: str) -> Path:
        """Return where what belongs to the ledger and not into it is kept: beside its marker."""
        return path_beside(self.database, self.key, ending)

    def set_budget(self, population: str, budget: Budget, *, delta: float | None = None) -> None:
        """Open the account of a population, or change its total; each change leaves a line.

        Parameters
        ----------
        population : str
            Declared name of the people the budget belongs to.
        budget : Budget
            All that may ever be spent, in the definition that every charge will be in.
        delta : float, optional
            δ at which ε is shown. When left out: δ of an `ApproxDP` budget, else unchanged, else
            1e-5.

        Raises
        ------
        LedgerError
            Another definition than before, or less than is spent.
        PrivacyError
            A definition that certifies no (ε, δ), or a δ below that of the budget.
        """
        population = clean_name("population", population)
        if delta is None and isinstance(budget, ApproxDP):
            delta = budget.delta
        with self._book() as book:
            old = book.state.account(population)
            level = (old.delta if old else DELTA) if delta is None else delta
            epsilon_of(budget, level)  # refuses what certifies nothing
            line = f"{budget!r}, shown at δ = {level:g}"
            if old is None:
                check_unlike(population, book.state.totals)
                line = f"opened with {line}"
            else:
                check_change(old, budget)
                if (budget, level) == (old.budget, old.delta):
                    return
                line = f"changed from {old.budget!r}, shown at δ = {old.delta:g}, to {line}"
            book.write(budget_event(population, budget, level, line))

    def reserve(
        self,
        population: str,
        query: str,
        run_key: str,
        *,
        contents: Mapping[str, str],
        cost: Budget,
        group: int | None = 1,
        classes: int = 1,
    ) -> Reservation | Stored:
        """Charge a release before its noise is drawn, once; or return it when it is there already.

        A release is known by the first five arguments together. One that was charged is never
        charged again, whatever was charged then: it comes back as `Stored` when it was committed,
        else as a `Reservation` with `resumed`.

        Parameters
        ----------
        population : str
            Who pays; `set_budget` has opened its account.
        query : str
            All that the law of the result depends on except the data, in a canonical form such as
            JSON with sorted keys.
        run_key : str
            Which run of the query, such as the scheduled date; a new key is a new release.
        contents : mapping of str to str
            For each class the `digest` of its content. Classes are disjoint and their labels
            public.
        cost : Budget
            What the release costs where neighbours differ in one record: `parallel` over its
            classes.
        group : int or None
            The most records of one person; None where one record is all that a person has in a
            class. The account protects people, so it is charged for a group of that many.
        classes : int
            In how many classes a person may be, each with a record: what these cost together is
            charged.

        Raises
        ------
        BudgetError
            Not enough left; the message says how much is.
        LedgerError
            No account, another definition, a content charged under another population, two classes
            of the same content, or a database that fails. Nothing is charged, except that a
            database failing at the very end may have kept the charge; asking again finds it.
        """
        population, run_key = clean_name("population", population), clean_run_key(run_key)
        check_text("query", query)
        check_contents(contents)
        of_one_class = for_group_as_written(cost, 1 if group is None else group)
        charged = repeat_as_written(of_one_class, classes)
        cost_text = json.dumps(budget_fields(cost))
        parts = [population, query, run_key, cost_text, sorted(contents.items())]
        identity = self._mac("release", [json.dumps(parts).encode()])
        with self._book() as book:
            if (found := book.release(identity)) is not None:
                return found
            account = self._account(book, population)
            check_owner(book.state, population, contents)
            check_affordable(account, charged)
            paid = {"cost": budget_fields(charged), **unit_fields(group, classes)}
            known = {"query": query, "run_key": run_key, "contents": dict(contents)}
            event = {"kind": "charge", "at": now(), "population": population, **paid, **known}
            book = book.write({**event, "identity": identity})
            account = self._account(book, population)
        return Reservation(population, charged, False, account.row(), identity)

    def check_charge(self, population: str, cost: Budget, run_key: str) -> None:
        """Refuse at once what `reserve` would refuse for want of budget; nothing is charged.

        For use before images are read; `cost` is what the account would pay. A population that
        holds any release under this run key passes: it may be that one which is asked for again,
        at no cost.

        Raises
        ------
        BudgetError
            Not enough left.
        LedgerError
            No account, or another definition.
        """
        population, run_key = clean_name("population", population), clean_run_key(run_key)
        with self._book(write=False) as book:
            account = self._account(book, population)
            runs = {(one.population, one.run_key) for one in book.state.releases.values()}
            if (population, run_key) not in runs:
                check_affordable(account, cost)

    def stored_since(self, population: str, run_key: str, since: datetime) -> tuple[str, ...]:
        """Return the queries of a run whose results are stored, paid at `since` or later."""
        name, key = clean_name("population", population), clean_run_key(run_key)
        with self._book(write=False) as book:
            return tuple(
                one.query
                for one in book.state.releases.values()
                if (one.population, one.run_key) == (name, key)
                and one.committed is not None
                and one.reserved >= since
            )

    def releases_left(self, population: str, cost: Budget) -> int:
        """Return how many more releases are accepted when each is charged `cost`.

        No account, or one in another definition, is a `LedgerError`.
        """
        population = clean_name("population", population)
        with self._book(write=False) as book:
            return self._account(book, population).releases_left(cost)

    def commit(self, reservation: Reservation, result: bytes) -> Stored:
        """Store `result` as the one result of a reservation, and return what may be published.

        The first commit wins: when another attempt of the same release came first, its result is
        returned, and `result` is discarded. So publish `Stored.result`, never the argument.

        Raises
        ------
        LedgerError
            The ledger does not know the reservation, or the database fails: publish nothing and
            ask `reserve` again.
        """
        name, digest = reservation.identity, hashlib.sha256(result).hexdigest()
        with self._book() as book:
            found = book.release(name)
            if isinstance(found, Reservation):
                row = {"identity": name, "result": result}
                book.connection.execute(insert(schema.results).values(row))
                event = {"kind": "result", "at": now(), "identity": name, "digest": digest}
                found = book.write(event).release(name)
        if not isinstance(found, Stored):
            raise LedgerError(
                f"{self.database.place} does not know this reservation, so nothing may be "
                "published; reserve again"
            )
        return found

    def show(self, population: str | None = None) -> tuple[PopulationRow, ...]:
        """Return the account of one population, which must be there, or all in order of name."""
        name = None if population is None else clean_name("population", population)
        with self._book(write=False) as book:
            known = sorted(book.state.totals)
            accounts = [book.state.account(one) for one in known if name in (None, one)]
        if population is not None and not accounts:
            raise LedgerError(
                f"{self.database.place} has no population {population!r}; "
                f"it has {', '.join(map(repr, known)) or 'none'}"
            )
        return tuple(account.row() for account in accounts if account)

    def history(self, population: str | None = None) -> tuple[Entry, ...]:
        """Return changes of budgets and charges, of one population or of all, oldest first."""
        name = None if population is None else clean_name("population", population)
        with self._book(write=False) as book:
            return book.state.history(name)

    def _book(self, *, write: bool = True) -> AbstractContextManager[Book]:
        return open_book(self.database, self.key, write=write)

    def _account(self, book: Book, population: str) -> Account:
        """Return the account of `population`, or raise `LedgerError` when it has none."""
        account = book.state.account(population)
        if account is None:
            raise LedgerError(
                f"population {population!r} has no budget in {self.database.place}; "
                "give it one with `covdp ledger set-budget`"
            )
        return account

    def _mac(self, purpose: str, chunks: Iterable[bytes]) -> str:
        """Return the HMAC of concatenated `chunks`, in hexadecimal; purposes never collide."""
        code = hmac.new(self.key, f"{purpose}\0".encode(), "sha256")
        for chunk in chunks:
            code.update(chunk)
        return code.hexdigest()
