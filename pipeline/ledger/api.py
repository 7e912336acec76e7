"""The ledger itself: make, open, digest, set a budget, reserve, commit, show, look back.

Each of these is one transaction, which reads what the ledger says and may write more.
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, insert, inspect, text

from covdp.errors import LedgerError
from covdp.ledger.database import (
    DATABASE_SECONDS,
    JOURNAL,
    META,
    RESULTS,
    TABLES,
    Database,
    connect,
    create_file,
    locate,
)
from covdp.ledger.declared import check_declared, check_release_beside, declared_macs
from covdp.ledger.journal import (
    SEAL,
    Event,
    Journal,
    Marker,
    append,
    last_row,
    mac_of,
    move_marker,
    path_beside,
    read_journal,
    read_marker,
    restored_fault,
    seal,
)
from covdp.ledger.keys import is_signed, signed, signing_key
from covdp.ledger.layout import LAYOUT, migrate
from covdp.ledger.records import (
    Account,
    Charge,
    HistoryLine,
    PaidRelease,
    PaidStream,
    Reservation,
    ResultRow,
    StoredRelease,
    budget_fields,
    check_affordable,
    check_change,
    check_unlike,
    clean_name,
    clean_run_key,
    damaged,
    name_in,
    now,
    read_key,
    unit_fields,
)
from covdp.ledger.state import State, replay
from covdp.privacy.composition import for_group_as_written, repeat_as_written
from covdp.privacy.definitions import ApproxDP, Budget, equation
from covdp.privacy.profiles import epsilon_of
from covdp.privacy.rounding import in_powers

_KNOWN: dict[tuple[Database, bytes], tuple[Journal, State]] = {}
"""The journal of the ledger that was used last, as verified, and what it adds up to.

A release opens the ledger ten times, and the journal may have thousands of rows.
"""


@dataclass(frozen=True)
class Transaction:
    """A ledger in one transaction: what its journal says, and the way to write more.

    `restored` says why it is taken for a copy that was put back; "" where it is not.

    Attributes
    ----------
    connection : Connection
        Connection in a transaction.
    database : Database
        Place of the ledger.
    key : bytes
        Secret key of the ledger, 32 bytes.
    journal : Journal
        Verified journal.
    state : State
        Ledger at the end of the journal.
    restored : str
        Reason why it is taken for a copy that was put back; "" where it is not.
    """

    connection: Connection
    database: Database
    key: bytes = field(repr=False)
    journal: Journal
    state: State
    restored: str = ""

    def write(self, event: Event) -> "Transaction":
        """Append an event; return the ledger as it is then.

        Parameters
        ----------
        event : Event
            Change to append.

        Returns
        -------
        Transaction
            Ledger with the event.
        """
        journal = append(self.connection, self.key, self.journal, event)
        state = replay([event], self.state, len(self.journal.rows))
        return replace(self, journal=journal, state=state)

    def account(self, population: str) -> Account:
        """Return the account of `population`, or raise `LedgerError` when it has none.

        Parameters
        ----------
        population : str
            Name of the population.
        """
        account = self.state.accounts.get(population)
        if account is None:
            raise LedgerError(
                f"population {population!r} has no budget in {self.database.place}; "
                "give it one with `covdp ledger set-budget`"
            )
        return account

    def release(self, identity: str) -> Reservation | StoredRelease:
        """Return a release that was charged: committed, or charged only.

        Parameters
        ----------
        identity : str
            Identity of the release.
        """
        paid = self.state.releases[identity]
        if paid.committed:
            return StoredRelease(**vars(paid), result=self.result(paid))
        latest = paid.number == len(self.journal.rows)
        then = self.state if latest else replay(self.journal.events(end=paid.number))
        return Reservation(**vars(paid), account=then.accounts[paid.population])

    def commit(self, row: ResultRow, result: bytes) -> "Transaction":
        """Store the one result of a release or a night, the first; return the ledger as it is then.

        A document is signed. Of one that has its result nothing is stored.

        Parameters
        ----------
        row : ResultRow
            Row of the journal that holds the result.
        result : bytes
            Content of the document.

        Returns
        -------
        Transaction
            Ledger with the result.
        """
        if row.committed is not None:
            return self
        result = signed(signing_key(self.key), result)
        self.connection.execute(insert(RESULTS).values(identity=row.identity, result=result))
        event: Event = {"kind": "result", "at": now(), "identity": row.identity}
        return self.write({**event, "digest": hashlib.sha256(result).hexdigest()})

    def result(self, row: ResultRow) -> bytes:
        """Return a stored result; raise `LedgerError` unless it is the one that was committed.

        Parameters
        ----------
        row : ResultRow
            Row of the journal that holds the result.
        """
        query = text("SELECT result FROM covdp_results WHERE identity = :identity")
        result = self.connection.scalar(query, {"identity": row.identity})
        if not isinstance(result, bytes) or hashlib.sha256(result).hexdigest() != row.digest:
            raise damaged(f"the result of row {row.number} of its journal was changed or lost")
        return result


def _check_results(connection: Connection, state: State) -> None:
    """Raise `LedgerError` unless there is a result for every commit and no other."""
    stored = set(connection.exec_driver_sql("SELECT identity FROM covdp_results").scalars().all())
    identities = {row.identity for row, _ in state.committed()}
    if stored != identities:
        raise damaged(
            f"{len(identities - stored)} of {len(identities)} results are lost"
            if identities - stored
            else f"{len(stored - identities)} results were put in from outside"
        )


DELTA = 1e-5
"""δ at which ε is shown, unless the population has its own."""


@dataclass(frozen=True)
class Ledger:
    """An open ledger; `init_ledger` and `open_ledger` make one.

    Whatever is asked, a database that fails is a `LedgerError`.

    Attributes
    ----------
    database : Database
        Place of the ledger. Nothing stays open between calls, so a ledger may be pickled and
        forked.
    key : bytes
        Key of all digests and of the journal, 256 random bits.
    rows : int
        Number of rows of the journal when it was opened: by rows `charge_of` tells what was paid
        since, and not by clocks, which are set back.
    """

    database: Database
    key: bytes = field(repr=False)
    rows: int = field(default=0, repr=False, compare=False)

    def digest(self, chunks: Iterable[bytes]) -> str:
        """Return the HMAC-SHA256, in hexadecimal, of the content of one class.

        It depends on the concatenation of `chunks` alone, not on where they are cut. Give what the
        privacy units are known by in ascending order and nothing else: a class is known again by
        them under any name, in whatever order its images are read. For `reserve` only; not to be
        shown, see the package's docstring.

        Parameters
        ----------
        chunks : iterable of bytes
            Digests of the privacy units, ascending, cut anywhere.
        """
        code = hmac.new(self.key, b"content\0", "sha256")
        for chunk in chunks:
            code.update(chunk)
        return code.hexdigest()

    def person_key(self) -> bytes:
        """Return the key under which persons are known: always the same, and not `key`."""
        return bytes.fromhex(mac_of(self.key, "person\0"))

    def signing_key(self) -> Ed25519PrivateKey:
        """Return the key that signs documents and joint releases: always the same."""
        return signing_key(self.key)

    def sign(self, result: bytes) -> bytes:
        """Return a document that was committed before documents were signed, signed, with the date.

        It is signed once: asked again, the ledger gives the same bytes.

        Parameters
        ----------
        result : bytes
            Committed document, unchanged.

        Raises
        ------
        LedgerError
            The ledger committed no such document, or signed it when it did.
        """
        digest = hashlib.sha256(result).hexdigest()
        with self.transaction() as tx:
            found = [(row, owner) for row, owner in tx.state.committed() if row.digest == digest]
            if not found or is_signed(result):
                fault = "signed these bytes before" if found else "committed no such bytes"
                raise LedgerError(
                    f"{self.database.place} {fault}, so there is nothing to sign; give a document "
                    "of OUT/release that it committed before it signed any, unchanged"
                )
            if digest not in tx.state.signed:
                row, owner = found[0]
                event: Event = {"kind": "signed", "at": now(), "population": owner.population}
                tx = tx.write({**event, "digest": digest, "run_key": row.run_key})
            return signed(self.signing_key(), result, tx.state.signed[digest])

    def beside(self, ending: str) -> Path:
        """Return the path of a file that belongs to the ledger and not into it: beside its marker.

        Parameters
        ----------
        ending : str
            Last part of the file's name.
        """
        return path_beside(self.database, self.key, ending)

    def set_budget(self, population: str, budget: Budget, *, delta: float | None = None) -> None:
        """Open the account of a population, or change its total; each change is recorded.

        Parameters
        ----------
        population : str
            Declared name of the people the budget belongs to.
        budget : Budget
            All that may ever be spent, in the definition that every charge will be in.
        delta : float, optional
            Failure probability δ at which ε is shown. When left out: δ of an `ApproxDP` budget,
            else unchanged, else 1e-5.

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
        with self.transaction() as tx:
            old = tx.state.accounts.get(population)
            level = (old.delta if old else DELTA) if delta is None else delta
            epsilon_of(budget, level)  # refuses what certifies nothing
            line = f"{equation(budget)} (ε is stated at δ = {in_powers(f'{level:g}')})"
            if old is None:
                check_unlike(population, tx.state.accounts)
                line = f"opened with {line}"
            else:
                check_change(old, budget)
                if (budget, level) == (old.budget, old.delta):
                    return
                before = (
                    f"{equation(old.budget)} (ε is stated at δ = {in_powers(f'{old.delta:g}')})"
                )
                line = f"changed from {before}, to {line}"
            event: Event = {"kind": "budget", "at": now(), "population": population, "text": line}
            tx.write({**event, "budget": budget_fields(budget), "delta": level})

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
        declared: Sequence[str] = (),
        once: str | None = None,
        beside: bool = True,
    ) -> Reservation | StoredRelease:
        """Charge a release before its noise is drawn, once; or return it when it is there already.

        A release is known by the first five arguments together. One that was charged is never
        charged again, whatever was charged then: it comes back as `StoredRelease` when it was
        committed, else as the `Reservation` that it was.

        Parameters
        ----------
        population : str
            Population that pays; `set_budget` has opened its account.
        query : str
            All that the law of the result depends on except the data, in a canonical form such as
            JSON with sorted keys.
        run_key : str
            Key of the query's run, such as the scheduled date; a new key is a new release.
        contents : mapping of str to str
            Digest of the content of each class, as `digest` returns it, under the name that
            messages have for the class. Classes are disjoint and their labels public. All of them
            together may have a digest, too.
        cost : Budget
            Cost of the release where neighbours differ in one record: `parallel` over its classes.
        group : int or None
            The most records of one person; None where one record is all that a person has in a
            class. The account protects people, so it is charged for a group of that many.
        classes : int
            Largest number of classes with a record of one person: what these cost together is
            charged.
        declared : sequence of str
            Texts that say of which images it is, stored as HMACs. Images that were declared for
            another population are refused.
        once : str, optional
            A name that the queries of ours say. Where another release of this name and run key was
            paid, this one would be charged in its place: that is refused.
        beside : bool
            True if it may be paid beside a stream, or beside a release of another name under the
            same run key of the same declared images (``declared.py``).

        Returns
        -------
        Reservation or StoredRelease
            Reservation of a new release, or the release that is stored already.

        Raises
        ------
        BudgetError
            Not enough left; the message says how much is.
        LedgerError
            No account, another definition, images declared for another population, or a database
            that fails. Nothing is charged, except that a database failing at the very end may have
            stored the charge; asking again finds it.
        """
        population, run_key = clean_name("population", population), clean_run_key(run_key)
        check_text("query", query)
        check_contents(contents)
        charged = charge_for(cost, group, classes)
        cost_text = json.dumps(budget_fields(cost))
        parts = [population, query, run_key, cost_text, sorted(contents.items())]
        identity = mac_of(self.key, f"release\0{json.dumps(parts)}")
        macs, name = declared_macs(self.key, declared), name_in(query)
        with self.transaction() as tx:
            check_declared(tx.state, population, macs)  # first, as a known content would tell
            if identity in tx.state.releases:
                return tx.release(identity)
            account = tx.account(population)
            if once and any(paid.name == once for paid in tx.state.runs(population, run_key)):
                raise LedgerError(
                    f"run {run_key} of {population} was paid before, with other images or "
                    f"settings, and nothing was charged now; --again pays {equation(charged)} for "
                    "a second release"
                )
            if not beside:
                check_release_beside(tx.state, population, name, run_key, macs, charged)
            check_affordable(account, charged)
            event: Event = {"kind": "charge", "at": now(), "population": population, "query": query}
            event |= {"run_key": run_key, "contents": dict(contents), "identity": identity}
            event |= {"declared": macs}
            event |= {"cost": budget_fields(charged), **unit_fields(group, classes)}
            return tx.write(event).release(identity)

    def check_charge(
        self, population: str, cost: Budget, run_key: str, *, beside: bool = True
    ) -> None:
        """Refuse at once what `reserve` would refuse for want of budget; nothing is charged.

        For use before images are read; `cost` is what the account would pay, `beside` as in
        `reserve`. A population that holds any release under this run key passes: it may be that
        one which is asked for again, at no cost.

        Parameters
        ----------
        population : str
            Name of the population.
        cost : Budget
            Cost that the account would pay.
        run_key : str
            Run key of the release.
        beside : bool
            True if the release may be paid beside a stream.

        Raises
        ------
        BudgetError
            Not enough left.
        LedgerError
            No account, another definition, or a stream beside which it is not to be paid.
        """
        population, run_key = clean_name("population", population), clean_run_key(run_key)
        with self.transaction(write=False) as tx:
            account = tx.account(population)
            if not tx.state.runs(population, run_key):
                if not beside:
                    check_release_beside(tx.state, population, None, run_key, (), cost)
                check_affordable(account, cost)

    def check_declared(self, population: str, declared: Sequence[str]) -> None:
        """Raise `LedgerError` where declared images belong to another population, as `reserve`.

        Parameters
        ----------
        population : str
            Name of the population.
        declared : sequence of str
            Texts that say of which images a release is, as in `Ledger.reserve`.
        """
        with self.transaction(write=False) as tx:
            check_declared(tx.state, population, declared_macs(self.key, declared))

    def charges_of(self, contents: Iterable[str]) -> tuple[HistoryLine, ...]:
        """Return the charges of releases that are of any of some contents, oldest first.

        It tells which images are the same: for their owner, before a charge, and never in one.
        Images that entered streams are found by the add-on of nights.

        Parameters
        ----------
        contents : iterable of str
            Digests of `digest`.
        """
        with self.transaction(write=False) as tx:
            rows = {row for content in contents for row in tx.state.contents.get(content, ())}
            return tuple(tx.state.entries[row] for row in sorted(rows))

    def stored_since(self, population: str, name: str, run_key: str, since: datetime) -> bool:
        """Return True if a run of a release of this name, paid since a time, is stored.

        The name is the one that its query says.

        Parameters
        ----------
        population : str
            Name of the population.
        name : str
            Name of the release, as its query says.
        run_key : str
            Run key of the release.
        since : datetime
            Earliest time of the payment.
        """
        run = clean_name("population", population), clean_run_key(run_key)
        with self.transaction(write=False) as tx:
            runs = (paid for paid in tx.state.runs(*run) if paid.name == name and paid.committed)
            return any(paid.reserved >= since for paid in runs)

    def commit(self, reservation: Reservation, result: bytes) -> StoredRelease:
        """Store `result` as the one result of a reservation, and return what may be published.

        The first commit wins: when another attempt of the same release came first, its result is
        returned, and `result` is discarded. So publish `StoredRelease.result`, never the argument.

        Parameters
        ----------
        reservation : Reservation
            Reservation of the release.
        result : bytes
            Content of the document.

        Returns
        -------
        StoredRelease
            Release with the bytes that may be published.

        Raises
        ------
        LedgerError
            The ledger does not know the reservation, or the database fails: publish nothing and
            ask `reserve` again.
        """
        identity = reservation.identity
        with self.transaction() as tx:
            if (paid := tx.state.releases.get(identity)) is None:
                raise LedgerError(
                    f"{self.database.place} does not know this reservation, so nothing may be "
                    "published; reserve again"
                )
            tx = tx.commit(paid, result)
            paid = tx.state.releases[identity]
            return StoredRelease(**vars(paid), result=tx.result(paid))

    def show(self, population: str | None = None) -> tuple[Account, ...]:
        """Return the account of one population, which must be there, or all in order of name.

        Parameters
        ----------
        population : str, optional
            Name of the population; all when None.
        """
        with self.transaction(write=False) as tx:
            return tuple(tx.state.accounts[name] for name in population_names(tx, population))

    def history(self, population: str | None = None) -> tuple[HistoryLine, ...]:
        """Return changes of budgets and charges, of one population or of all, oldest first.

        Parameters
        ----------
        population : str, optional
            Name of the population; all when None.
        """
        name = None if population is None else clean_name("population", population)
        with self.transaction(write=False) as tx:
            lines = tx.state.entries.values()
            return tuple(line for line in lines if name in (None, line.population))

    def streams(self, population: str | None = None) -> tuple[PaidStream, ...]:
        """Return the streams of a population, or of all, that go on, as they were opened.

        Parameters
        ----------
        population : str, optional
            Name of the population; all of them when left out.
        """
        with self.transaction(write=False) as tx:
            return tuple(
                opened
                for opened in tx.state.streams.values()
                if not opened.ended and population in (None, opened.population)
            )

    @contextmanager
    def transaction(self, *, write: bool = True, confirm: bool = False) -> Iterator[Transaction]:
        """Open a transaction, verify the whole journal in it, and give what it adds up to.

        Its marker is compared before anything is decided, and moved once all that was written is
        committed. A ledger that was restored is refused, but to `confirm` it.

        Parameters
        ----------
        write : bool
            True to write, False to read.
        confirm : bool
            True to accept a ledger that was restored.

        Yields
        ------
        Transaction
            Ledger as it is, within the transaction.
        """
        database, key = self.database, self.key
        path = path_beside(database, key)
        marker = read_marker(path)  # before the transaction: it may only be behind what that sees
        with connect(database, write=write) as connection:
            before, state = _KNOWN.get((database, key), (Journal(), State()))
            journal = read_journal(connection, key, before)
            fault = restored_fault(database, path, marker, journal)
            if fault and not confirm:
                raise LedgerError(
                    f"{database.place} {fault}; if it was restored from a backup, what was spent "
                    "since is not in it: `covdp ledger confirm-restored` accepts that, in writing, "
                    "and ends all streams"
                )
            n = len(before.rows)
            if journal.rows[n - 1 : n] != before.rows[n - 1 :]:  # its mac is of all before it
                n, state = 0, State()
            state = replay(journal.events(n), state, n)
            _check_results(connection, state)
            _KNOWN.clear()
            _KNOWN[database, key] = journal, state
            yield Transaction(connection, database, key, journal, state, fault)
            end = Marker(*last_row(connection) if write else (len(journal.rows), journal.mac))
        if marker != end:
            with suppress(*(() if write else (LedgerError,))):  # who only reads need not write it
                move_marker(path, end, back=bool(fault))


def init_ledger(address: str | Path, *, timeout: float = DATABASE_SECONDS) -> Ledger:
    """Create a ledger where there is none, and open it; one that is there stays as it is.

    Any number of processes may do this at once: all get the same key.

    Parameters
    ----------
    address : str or Path
        Path of a SQLite file, made readable for its owner alone, or a URL such as
        ``postgresql+psycopg://user@host/name`` of a database that exists.
    timeout : float
        Seconds to wait for a connection or a lock.

    Returns
    -------
    Ledger
        Opened ledger.

    Raises
    ------
    LedgerError
        An address that cannot be used, in one line.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from covdp import GDP
    >>> from covdp.ledger import init_ledger
    >>> with TemporaryDirectory() as folder:
    ...     ledger = init_ledger(Path(folder) / "ledger.sqlite")
    ...     ledger.set_budget("patients", GDP(1.0))
    ...     print(ledger.show()[0].left)
    1-GDP
    """
    database = locate(address, timeout)
    _check_there(database)
    create_file(database)
    with connect(database) as connection:
        if not inspect(connection).has_table(META.name):
            _check_empty(connection, database)
            key = secrets.token_bytes(32)
            TABLES.create_all(connection, checkfirst=False)
            meta = {"format": LAYOUT, "key": key.hex(), SEAL: seal(key, 0, "")}
            rows = [{"name": name, "value": value} for name, value in meta.items()]
            connection.execute(insert(META), rows)
            first = {"kind": "ledger", "at": now(), "format": LAYOUT}
            append(connection, key, Journal(), first)
    return open_ledger(address, timeout=timeout)


def _check_empty(connection: Connection, database: Database) -> None:
    """Raise `LedgerError` where a new ledger might take the place of a damaged one."""
    names = (JOURNAL.name, RESULTS.name)
    present = any(inspect(connection).has_table(name) for name in names)
    if present or (database.file and database.file.stat().st_size):
        raise LedgerError(
            f"{database.place} holds something already, but no ledger that can be read; restore "
            "it from a backup, or choose another place with --ledger"
        )


def _check_there(database: Database) -> None:
    """Raise `LedgerError` where a file is gone, or empty, that a marker says was a ledger."""
    if database.file is None:
        return
    marker = path_beside(database, b"")
    with suppress(PermissionError):  # opening it says so
        if marker.exists() and not (database.file.exists() and database.file.stat().st_size):
            raise LedgerError(
                f"{database.place} is gone, and a new one forgets what was spent: its marker is "
                f"still at {marker}; restore the ledger from a backup, or choose another place "
                "with --ledger"
            )


def open_ledger(address: str | Path, *, timeout: float = DATABASE_SECONDS) -> Ledger:
    """Open a ledger that exists; never creates one, since a new ledger forgets what was spent.

    Parameters and errors are those of `init_ledger`.

    Parameters
    ----------
    address : str or Path
        Path of an SQLite file, or URL of a database.
    timeout : float
        Time to wait for the database, in seconds.

    Returns
    -------
    Ledger
        Opened ledger.
    """
    ledger = _locate_ledger(address, timeout)
    with ledger.transaction(write=False) as tx:  # every row is verified
        return replace(ledger, rows=len(tx.journal.rows))


def confirm_restored(address: str | Path, *, timeout: float = DATABASE_SECONDS) -> bool:
    """Accept a ledger that its marker refuses, and write that into each account's history.

    Nothing is charged or given back: what was spent after the backup is not known. For the same
    reason all streams end, since privacy units that were claimed on nights after it would be
    claimed again, and a charge without a result pays for no other draw, as it may have got one.

    Parameters and errors are those of `init_ledger`.

    Parameters
    ----------
    address : str or Path
        Path of an SQLite file, or URL of a database.
    timeout : float
        Time to wait for the database, in seconds.

    Returns
    -------
    bool
        True if there was anything to confirm.
    """
    ledger = _locate_ledger(address, timeout)
    marker = read_marker(ledger.beside("marker"))
    with ledger.transaction(confirm=True) as tx:
        if tx.restored:
            line = f"confirmed as restored after row {len(tx.journal.rows)}"
            line += f"; row {marker.number} had been written" if marker and marker.number else ""
            for name in sorted(tx.state.accounts):
                tx = tx.write({"kind": "restored", "at": now(), "population": name, "text": line})
        return bool(tx.restored)


def _locate_ledger(address: str | Path, timeout: float) -> Ledger:
    """Return a ledger that exists, in the present layout; its journal is not read yet."""
    database = locate(address, timeout)
    _check_there(database)
    with connect(database, write=False) as connection:
        meta = dict(connection.execute(text("SELECT name, value FROM covdp_meta")).tuples().all())
    key = read_key(meta.get("key"))
    if meta.get("format") != LAYOUT:
        migrate(database)
    return Ledger(database, key)


def population_names(tx: Transaction, population: str | None) -> list[str]:
    """Return all populations in order of name, or the one asked for, which must be there.

    Parameters
    ----------
    tx : Transaction
        Open transaction.
    population : str, optional
        Name of one population; all when left out.
    """
    names = sorted(tx.state.accounts)
    if population is None:
        return names
    if (name := clean_name("population", population)) not in names:
        raise LedgerError(
            f"{tx.database.place} has no population {population!r}; "
            f"it has {', '.join(map(repr, names)) or 'none'}"
        )
    return [name]


def charge_of(ledger: Ledger, result: bytes) -> Charge:
    """Return the cost of a result, and whether that was paid since the ledger was opened.

    Parameters
    ----------
    ledger : Ledger
        Opened ledger.
    result : bytes
        Content of the document.

    Raises
    ------
    LedgerError
        The result is not in the ledger, or the database fails.
    """
    digest = hashlib.sha256(result).hexdigest()
    with ledger.transaction(write=False) as tx:
        state, later = tx.state, tx.journal.events(ledger.rows)
        committed = any(event.get("digest") == digest for event in later)
        owner = next((owner for row, owner in state.committed() if row.digest == digest), None)
        if owner is None:
            raise damaged("a result that was just stored is not in it")
        of_stream = not isinstance(owner, PaidRelease)
        paid = isinstance(owner, PaidRelease) or owner.paid  # or another stream has
        charged = owner.number > ledger.rows and paid
        return Charge(owner.cost, charged, committed, of_stream, tx.account(owner.population))


def charge_for(cost: Budget, group: int | None, classes: int) -> Budget:
    """Return the charge of an account: `cost`, for a group of records of a person, in some classes.

    Parameters
    ----------
    cost : Budget
        Cost of the release to one record.
    group : int or None
        Largest number of images of a person that it covers; None where a record is a person.
    classes : int
        Largest number of classes with records of one person.
    """
    of_one_class = for_group_as_written(cost, 1 if group is None else group)
    return repeat_as_written(of_one_class, classes)


def check_contents(contents: Mapping[str, str]) -> None:
    """Raise `LedgerError` unless there are classes, each with a digest of this ledger.

    Parameters
    ----------
    contents : mapping of str to str
        Digest of each class, as of `Ledger.digest`.
    """
    if not contents:
        raise LedgerError("a release needs the content of a class, found none; give one or more")
    for label, digest in contents.items():
        check_text("class", label)
        if not re.fullmatch("[0-9a-f]{64}", digest):
            raise LedgerError(
                f"the content of class {label!r} is not a digest of this ledger; use Ledger.digest"
            )


def check_text(what: str, value: str) -> None:
    """Raise `LedgerError` unless `value` is text on one line.

    Parameters
    ----------
    what : str
        Noun for the text, for the message.
    value : str
        Candidate text.
    """
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise LedgerError(f"a {what} must be text on one line, found {value!r:.60}; name it")
