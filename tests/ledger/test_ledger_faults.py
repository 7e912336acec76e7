"""Faults: eight processes, kill -9 at every step, full disk, locks, damage; nothing paid twice."""

import multiprocessing
import os
import random
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import pytest

from covdp.errors import LedgerError
from covdp.ledger import (
    Ledger,
    Reservation,
    StoredRelease,
    confirm_restored,
    database,
    init_ledger,
    open_ledger,
)
from covdp.privacy import GDP, compose, fits
from tests.tools.children import in_child, kill_at
from tests.tools.patience import PATIENCE
from tests.tools.postgres import new_address

COST = GDP(0.3)
EIGHT = 8


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where a new ledger may be made, in each kind of database."""
    return new_address(request.param, tmp_path)


def attempt(ledger: Ledger, run_key: str = "monday", population: str = "chest") -> StoredRelease:
    """Reserve, draw and commit, as a release does; what it returns is what would be published."""
    contents = {"normal": ledger.digest([b"images"])}
    found = ledger.reserve(
        population, "query", run_key, contents=contents, cost=COST, declared=["card and folder"]
    )
    if isinstance(found, Reservation):
        found = ledger.commit(found, os.urandom(8))
    return found


# Eight processes at once

BARRIER: list[Any] = []
"""Where a process of the pool waits for the others."""


def start(barrier: Any) -> None:
    """Keep the barrier that all processes of the pool wait at."""
    BARRIER.append(barrier)


@pytest.fixture(scope="module")
def eight() -> Iterator[Pool]:
    """Start eight processes."""
    context = multiprocessing.get_context("fork")
    with context.Pool(EIGHT, start, [context.Barrier(EIGHT)]) as pool:
        yield pool


def all_at_once(pool: Pool, work: Callable[..., Any], address: str) -> list[Any]:
    """Run ``work(address, i)`` in each of the eight processes at the same time."""
    return pool.starmap(work, [(address, i) for i in range(EIGHT)], chunksize=1)


def make(address: str, i: int) -> str:
    """Create the ledger; return its key."""
    BARRIER[0].wait(PATIENCE)
    return init_ledger(address).key.hex()


def spend(address: str, i: int) -> int:
    """Try four releases of its own; return how many were paid."""
    ledger = open_ledger(address)
    BARRIER[0].wait(PATIENCE)
    paid = 0
    for j in range(4):
        try:
            attempt(ledger, f"{i}-{j}")
            paid += 1
        except LedgerError as error:
            if "left of" not in str(error):
                raise
    return paid


def same(address: str, i: int) -> bytes:
    """Attempt the one release that all attempt; return what would be published."""
    ledger = open_ledger(address)
    BARRIER[0].wait(PATIENCE)
    return attempt(ledger).result


def name_it(address: str, i: int) -> bool:
    """Charge the same images under a name of its own; return whether that was accepted."""
    ledger = open_ledger(address)
    BARRIER[0].wait(PATIENCE)
    try:
        attempt(ledger, population=f"name {i}")
    except LedgerError as error:
        if "under population" not in str(error):
            raise
        return False
    return True


@pytest.mark.slow
def test_eight_processes_make_one_ledger(eight: Pool, address: str) -> None:
    """However many make a ledger at once, there is one, with one key."""
    keys = all_at_once(eight, make, address)
    assert set(keys) == {open_ledger(address).key.hex()}


@pytest.mark.slow
def test_eight_processes_never_overspend(eight: Pool, address: str) -> None:
    """Of 32 releases that eight processes ask for at once, exactly the five that fit are paid."""
    ledger = init_ledger(address)
    ledger.set_budget("chest", compose([COST] * 5))
    paid = all_at_once(eight, spend, address)
    (row,) = ledger.show()
    assert sum(paid) == row.releases == 5
    assert (row.spent, row.left, row.unfinished) == (row.budget, None, 0)


@pytest.mark.slow
def test_eight_attempts_at_one_release_publish_the_same(eight: Pool, address: str) -> None:
    """Eight live attempts at one release pay once and all publish the same bytes."""
    ledger = init_ledger(address)
    ledger.set_budget("chest", COST)
    results = all_at_once(eight, same, address)
    assert set(results) == {attempt(ledger).result}
    assert ledger.show()[0].releases == 1


@pytest.mark.slow
def test_eight_names_for_one_folder(eight: Pool, address: str) -> None:
    """Of eight populations that declare the same images at once, exactly one gets them."""
    ledger = init_ledger(address)
    for i in range(EIGHT):
        ledger.set_budget(f"name {i}", GDP(1.0))
    assert sum(all_at_once(eight, name_it, address)) == 1
    assert sum(row.releases for row in ledger.show()) == 1


# Killed


def test_killed_at_any_statement_pays_once(address: str) -> None:
    """Killed before any statement or commit, then restarted: one charge and one result."""
    ledger = init_ledger(address)
    ledger.set_budget("chest", GDP(100.0))
    charged = []
    for step in range(100):

        def run(step: int = step) -> None:
            kill_at(step)
            attempt(ledger, f"run {step}")

        code = in_child(run)
        row = ledger.show()[0]
        assert row.releases - step in (0, 1)
        assert row.unfinished == (row.releases - step if code else 0)
        charged.append(row.releases - step)
        stored = attempt(ledger, f"run {step}")
        assert attempt(ledger, f"run {step}") == stored
        row = ledger.show()[0]
        assert (row.releases, row.unfinished) == (step + 1, 0)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert code == 0
    assert charged == sorted(charged)  # nothing before the reservation commits, one charge after
    assert 3 < sum(charged) < len(charged) - 3


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_killed_while_it_is_made(backend: str, tmp_path: Path) -> None:
    """Killed before any statement, a ledger is whole when next opened.

    Starting a process beside a server is slow: there, every sixth statement.
    """
    for step in range(0, 200, 1 if backend == "sqlite" else 6):
        folder = tmp_path / str(step)
        folder.mkdir()
        place = new_address(backend, folder)

        def run(step: int = step, place: str = place) -> None:
            kill_at(step)
            init_ledger(place)

        code = in_child(run)
        assert init_ledger(place).show() == ()
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert 5 < step < 100


@pytest.mark.slow
def test_killed_at_random_moments_loses_nothing(address: str) -> None:
    """What was published before kill -9 at any moment is found again, and is paid for once."""
    ledger = init_ledger(address)
    ledger.set_budget("chest", GDP(100.0))
    clock = random.Random(5)
    for life in range(6):
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            for i in range(10_000):
                os.write(sink, attempt(ledger, f"{life}-{i}").result)
            os._exit(0)
        os.close(sink)
        time.sleep(clock.uniform(0.02, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(source, "rb") as published:
            results = published.read()
        before = ledger.show()[0].releases
        for i in range(len(results) // 8):
            assert attempt(ledger, f"{life}-{i}").result == results[8 * i : 8 * i + 8]
        assert ledger.show()[0].releases == before
        attempt(ledger, f"{life}-{len(results) // 8}")
        assert ledger.show()[0].releases - before in (0, 1)


# Full disk, locks, damage: SQLite


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a ledger that holds one release."""
    ledger = init_ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("chest", GDP(1.0))
    attempt(ledger)
    return tmp_path / "ledger.sqlite"


def test_full_disk_is_one_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No room for the result: one clear line; the charge stands, and a later attempt settles it."""
    ledger = open_ledger(file)
    contents = {"normal": ledger.digest([b"images"])}
    found = ledger.reserve("chest", "query", "tuesday", contents=contents, cost=COST)
    assert isinstance(found, Reservation)
    connect = database._connect

    def full(place: database.Database) -> Any:
        raw = connect(place)
        raw.execute("PRAGMA max_page_count=1")  # SQLite takes the present size
        return raw

    with monkeypatch.context() as patch:
        patch.setattr(database, "_connect", full)
        with pytest.raises(LedgerError, match="cannot grow: the disk is full"):
            ledger.commit(found, bytes(100_000))
    assert ledger.show()[0].unfinished == 1
    assert attempt(ledger, "tuesday").cost == COST
    assert (ledger.show()[0].releases, ledger.show()[0].unfinished) == (2, 0)


def test_a_file_that_may_not_grow(file: Path) -> None:
    """Writing fails in the system itself: one line for reserve and commit, nothing half-written."""
    ledger = open_ledger(file)

    def run() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        with pytest.raises(LedgerError, match="disk"):
            attempt(ledger, "tuesday")
        with pytest.raises(LedgerError, match="disk"):
            ledger.set_budget("chest", GDP(2.0))

    assert in_child(run) == 0
    assert (ledger.show()[0].budget, ledger.show()[0].releases) == (GDP(1.0), 1)
    attempt(ledger, "tuesday")


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the file in another process, which has begun an exclusive transaction."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        os.write(told, b"!")
        time.sleep(PATIENCE)
        os._exit(0)
    os.read(ready, 1)
    yield
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(told)


def test_a_locked_file_is_waited_for_and_left(file: Path) -> None:
    """A lock held elsewhere ends every call with one line after the timeout; then all goes on."""
    ledger = open_ledger(file, timeout=0.3)
    with locked(file):
        calls: list[Callable[[], object]] = [
            lambda: attempt(ledger, "tuesday"),
            lambda: ledger.set_budget("chest", GDP(2.0)),
            ledger.show,
            ledger.history,
            lambda: open_ledger(file, timeout=0.3),
            lambda: init_ledger(file, timeout=0.3),
        ]
        for call in calls:
            with pytest.raises(LedgerError, match=r"locked by another process for 0\.3 s"):
                call()
    attempt(ledger, "tuesday")


def test_a_short_lock_is_waited_out(file: Path) -> None:
    """A lock that ends within the timeout delays a release and fails nothing."""
    ledger = open_ledger(file, timeout=PATIENCE)
    holder = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.3, holder.rollback)
    timer.start()
    attempt(ledger, "tuesday")
    timer.join()
    holder.close()


def scramble(file: Path, what: str) -> None:
    """Damage the file in one of several ways."""
    held = bytearray(file.read_bytes())
    if what == "text":
        held[:] = b"this is no database\n" * 100
    elif what == "header":
        held[:100] = random.Random(1).randbytes(100)
    elif what == "half":
        del held[len(held) // 2 :]
    elif what == "pages":
        held[4096:] = random.Random(2).randbytes(len(held) - 4096)
    file.write_bytes(held)


@pytest.mark.parametrize("what", ["text", "header", "half", "pages"])
def test_a_damaged_file_is_one_line(file: Path, what: str) -> None:
    """A damaged file is refused with one line, by every call, and is left as it was."""
    ledger = open_ledger(file)
    scramble(file, what)
    held = file.read_bytes()
    calls: list[Callable[[], object]] = [
        lambda: open_ledger(file),
        lambda: init_ledger(file),
        lambda: attempt(ledger, "tuesday"),
        ledger.show,
    ]
    for call in calls:
        with pytest.raises(LedgerError, match="damaged or no ledger; restore it"):
            call()
    assert file.read_bytes() == held


@pytest.mark.parametrize(
    "change",
    [
        "covdp_meta SET value = 'short' WHERE name = 'key'",
        "covdp_meta SET value = x'00ff' WHERE name = 'key'",
        "covdp_meta SET value = upper(value) WHERE name = 'key'",
        "covdp_meta SET value = '' WHERE name = 'seal'",
        "covdp_journal SET event = replace(event, '1.0', '9.0')",
        "covdp_journal SET event = replace(event, 'chest', 'lungs')",
        "covdp_journal SET event = x'00ff' WHERE number = 2",
        "covdp_journal SET event = 7 WHERE number = 3",
        "covdp_journal SET mac = mac || ' ' WHERE number = 2",
        "covdp_results SET result = x'00'",
        "covdp_results SET result = 7",
        "covdp_results SET identity = x'00'",
    ],
)
def test_a_damaged_field_is_one_line(file: Path, change: str) -> None:
    """A field that the ledger did not write stops what needs it, with one line."""
    with sqlite3.connect(file) as connection:
        connection.execute(f"UPDATE {change}")
    connection.close()

    def use() -> None:
        ledger = open_ledger(file)
        attempt(ledger)
        ledger.show()

    with pytest.raises(LedgerError, match=r"the ledger is damaged: .* restore it from a backup"):
        use()


def test_a_ledger_that_vanishes_is_not_made_anew(file: Path) -> None:
    """A file removed under an open ledger is an error, and no empty ledger takes its place."""
    ledger = open_ledger(file)
    file.unlink()
    with pytest.raises(LedgerError, match="cannot be opened"):
        attempt(ledger, "tuesday")
    assert not file.exists()


def test_a_commit_after_an_old_copy_came_back(file: Path) -> None:
    """A reservation that a restored copy does not know cannot be committed."""
    ledger = open_ledger(file)
    old = file.read_bytes()
    contents = {"normal": ledger.digest([b"images"])}
    found = ledger.reserve("chest", "query", "tuesday", contents=contents, cost=COST)
    assert isinstance(found, Reservation)
    file.write_bytes(old)
    with pytest.raises(
        LedgerError, match=r"its journal ends at row 4, and .* says that 5 were written"
    ):
        ledger.commit(found, b"noised")
    assert confirm_restored(file)
    with pytest.raises(LedgerError, match="does not know this reservation, so nothing may be"):
        ledger.commit(found, b"noised")
    assert fits(COST, ledger.show()[0].budget)
