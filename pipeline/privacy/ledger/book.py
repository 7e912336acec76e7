"""The ledger itself: digest, set a budget, reserve, commit, show. Next: ``accounts.py``."""

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, insert, select, update

from pipeline.errors import LedgerError
from pipeline.privacy.definitions import ApproxDP, Budget
from pipeline.privacy.ledger import tables
from pipeline.privacy.ledger.accounts import Account, check_affordable, check_change, find_account
from pipeline.privacy.ledger.charges import (
    check_contents,
    check_name,
    claim,
    find_release,
    holds_run,
)
from pipeline.privacy.ledger.database import TIMEOUT, Database, create_file, locate, transaction
from pipeline.privacy.ledger.fields import budget_text, now, read_key, read_time
from pipeline.privacy.ledger.records import Change, PopulationRow, Reservation, Stored
from pipeline.privacy.profiles import epsilon_of

FORMAT = "1"
"""Layout of the tables; a ledger of another layout is refused."""
DELTA = 1e-5
"""δ at which ε is shown, unless the population has its own."""


@dataclass(frozen=True)
class Ledger:
    """An open ledger; `init_ledger` and `open_ledger` make one.

    Attributes
    ----------
    database : Database
        Where it is. Nothing stays open between calls, so a ledger may be pickled and forked.
    key : bytes
        Key of all digests, 256 random bits.
    """

    database: Database
    key: bytes = field(repr=False)

    def digest(self, chunks: Iterable[bytes]) -> str:
        """Return the HMAC-SHA256, in hexadecimal, of the content of one class.

        It depends on the concatenation of `chunks` alone, not on where they are cut. Give the bytes
        of the images in a fixed order and nothing else: a class is known again by them under any
        name. For `reserve` only; not to be shown, see the package's docstring.
        """
        return self._mac("content", chunks)

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
            Another definition than before, less than is spent, or a database that fails.
        PrivacyError
            A definition that certifies no (ε, δ), or a δ below that of the budget.
        """
        check_name("population", population)
        if delta is None and isinstance(budget, ApproxDP):
            delta = budget.delta
        with transaction(self.database) as connection:
            old = find_account(connection, population)
            level = (old.delta if old else DELTA) if delta is None else delta
            epsilon_of(budget, level)  # refuses what certifies nothing
            values = {"budget": budget_text(budget), "delta": level}
            line = f"{budget!r}, shown at δ = {level:g}"
            if old is None:
                row = {"name": population, "created": now(), **values}
                connection.execute(insert(tables.populations).values(row))
                line = f"opened with {line}"
            else:
                check_change(old, budget)
                if (budget, level) == (old.budget, old.delta):
                    return
                named = tables.populations.c.name == population
                connection.execute(update(tables.populations).where(named).values(values))
                line = f"changed from {old.budget!r}, shown at δ = {old.delta:g}, to {line}"
            note = {"at": now(), "population": population, "text": line}
            connection.execute(insert(tables.changes).values(note))

    def reserve(
        self,
        population: str,
        query: str,
        run_key: str,
        *,
        contents: Mapping[str, str],
        cost: Budget,
    ) -> Reservation | Stored:
        """Charge a release before its noise is drawn, once; or return it when it is there already.

        A release is known by all five arguments together. One that was charged is never charged
        again: it comes back as `Stored` when it was committed, else as a `Reservation` with
        `resumed`.

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
            What the release costs: `parallel` over its classes.

        Raises
        ------
        BudgetError
            Not enough left; the message says how much is.
        LedgerError
            No account, another definition, a content charged under another population, two classes
            of the same content, or a database that fails. Nothing is charged, except that a
            database failing at the very end may have kept the charge; asking again finds it.
        """
        for what, value in (("population", population), ("query", query), ("run key", run_key)):
            check_name(what, value)
        check_contents(contents)
        parts = [population, query, run_key, budget_text(cost), sorted(contents.items())]
        identity = self._mac("release", [json.dumps(parts).encode()])
        with transaction(self.database) as connection:
            if (found := find_release(connection, identity)) is not None:
                return found
            account = self._account(connection, population)
            claim(connection, population, contents)
            check_affordable(account, cost)
            row = {
                "identity": identity,
                "population": population,
                "query": query,
                "run_key": run_key,
                "contents": json.dumps(dict(contents), sort_keys=True),
                "cost": budget_text(cost),
                "reserved": now(),
            }
            connection.execute(insert(tables.releases).values(row))
        return Reservation(population, cost, resumed=False, identity=identity)

    def check_charge(self, population: str, cost: Budget, run_key: str) -> None:
        """Refuse at once what `reserve` would refuse for want of budget; nothing is charged.

        For use before images are read. A population that holds any release under this run key
        passes: it may be that release which is asked for again, at no cost.

        Raises
        ------
        BudgetError
            Not enough left.
        LedgerError
            No account, another definition, or a database that fails.
        """
        for what, value in (("population", population), ("run key", run_key)):
            check_name(what, value)
        with transaction(self.database, write=False) as connection:
            account = self._account(connection, population)
            if not holds_run(connection, population, run_key):
                check_affordable(account, cost)

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
        column = tables.releases.c
        open_one = (column.identity == reservation.identity) & column.committed.is_(None)
        digest = hashlib.sha256(result).hexdigest()
        values = {"result": result, "result_digest": digest, "committed": now()}
        with transaction(self.database) as connection:
            connection.execute(update(tables.releases).where(open_one).values(values))
            found = find_release(connection, reservation.identity)
        if not isinstance(found, Stored):
            raise LedgerError(
                f"{self.database.place} does not know this reservation, so nothing may be "
                "published; reserve again"
            )
        return found

    def show(self, population: str | None = None) -> tuple[PopulationRow, ...]:
        """Return the account of one population, or of all in alphabetical order.

        Raises
        ------
        LedgerError
            An unknown population, or a database that fails.
        """
        with transaction(self.database, write=False) as connection:
            known = sorted(connection.scalars(select(tables.populations.c.name)))
            chosen = [name for name in known if population in (None, name)]
            accounts = [find_account(connection, name) for name in chosen]
        if population is not None and not accounts:
            raise LedgerError(
                f"{self.database.place} has no population {population!r}; "
                f"it has {', '.join(map(repr, known)) or 'none'}"
            )
        return tuple(account.row() for account in accounts if account)

    def history(self, population: str | None = None) -> tuple[Change, ...]:
        """Return the changes of budgets, of one population or of all, oldest first."""
        column = tables.changes.c
        lines = select(column.at, column.population, column.text).order_by(column.id)
        if population is not None:
            lines = lines.where(column.population == population)
        with transaction(self.database, write=False) as connection:
            rows = connection.execute(lines).all()
        return tuple(Change(read_time(at), name, text) for at, name, text in rows)

    def _account(self, connection: Connection, population: str) -> Account:
        """Return the account of `population`, or raise `LedgerError` when it has none."""
        account = find_account(connection, population)
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


def init_ledger(address: str | Path, *, timeout: float = TIMEOUT) -> Ledger:
    """Create a ledger where there is none, and open it; one that is there stays as it is.

    Any number of processes may do this at once: all get the same key.

    Parameters
    ----------
    address : str or Path
        Path of a SQLite file, made readable for its owner alone, or a URL such as
        ``postgresql+psycopg://user@host/name`` of a database that exists.
    timeout : float
        Seconds to wait for a connection or a lock.

    Raises
    ------
    LedgerError
        An address that cannot be used, in one line.
    """
    database = locate(address, timeout)
    create_file(database)
    with transaction(database) as connection:
        tables.TABLES.create_all(connection)
        if connection.scalar(select(tables.meta.c.name).limit(1)) is None:
            rows = {"format": FORMAT, "key": secrets.token_hex(32)}
            values = [{"name": name, "value": value} for name, value in rows.items()]
            connection.execute(insert(tables.meta), values)
    return open_ledger(address, timeout=timeout)


def open_ledger(address: str | Path, *, timeout: float = TIMEOUT) -> Ledger:
    """Open a ledger that exists; never creates one, since a new ledger forgets what was spent.

    Parameters and errors are those of `init_ledger`.
    """
    database = locate(address, timeout)
    with transaction(database, write=False) as connection:
        rows = connection.execute(select(tables.meta.c.name, tables.meta.c.value)).all()
    values = {row.name: row.value for row in rows}
    if values.get("format") != FORMAT:
        raise LedgerError(
            f"{database.place} has format {values.get('format')!r}, this version reads {FORMAT!r}; "
            "open it with the version that wrote it"
        )
    return Ledger(database, read_key(values.get("key")))
