"""The ledger in a real PostgreSQL server: settings that could break it, and servers that fail."""

import contextlib
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from covdp.errors import LedgerError
from covdp.ledger import Ledger, Reservation, StoredRelease, database, init_ledger, open_ledger
from covdp.ledger.database import LOCK, connect, locate
from covdp.ledger.records import budget_fields, now
from covdp.privacy import GDP
from tests.tools.patience import until
from tests.tools.postgres import PASSWORD, direct, new_address, server

COST = GDP(0.3)
TAKE = f"SELECT pg_advisory_xact_lock({LOCK})".encode()
"""What every transaction of a ledger begins with."""


@pytest.fixture
def address(tmp_path: Path) -> str:
    """Return the address of a ledger with 1-GDP for the population "chest"."""
    place = new_address("postgresql", tmp_path)
    init_ledger(place).set_budget("chest", GDP(1.0))
    return place


def attempt(ledger: Ledger, run_key: str = "monday") -> StoredRelease:
    """Reserve, draw and commit."""
    contents = {"normal": ledger.digest([b"images"])}
    found = ledger.reserve("chest", "query", run_key, contents=contents, cost=COST)
    return ledger.commit(found, b"noised") if isinstance(found, Reservation) else found


def schema(address: str) -> str:
    """Return the schema of an address."""
    return address.rsplit("%3D", 1)[1]


def waiting(connection: psycopg.Connection) -> list[int]:
    """Return the processes of the server that wait for a lock."""
    rows = connection.execute("SELECT pid FROM pg_locks WHERE NOT granted").fetchall()
    return [pid for (pid,) in rows]


def refused(call: Callable[[], object], match: str) -> None:
    """Check that `call` ends in one line without secrets, and says nothing else."""
    with pytest.raises(LedgerError, match=match) as error:
        call()
    assert "\n" not in str(error.value)
    printed = "".join(traceback.format_exception(error.value))
    for secret in (PASSWORD, "hunter2", "covdp:", "sqlalche.me"):
        assert secret not in printed


@pytest.mark.parametrize("level", ["repeatable read", "serializable", "read uncommitted"])
def test_isolation_of_the_server_does_not_matter(address: str, level: str) -> None:
    """Under any default isolation, the second of two that want the last budget is refused."""
    quoted = level.replace(" ", "%5C%20")
    ledger = open_ledger(f"{address}%20-cdefault_transaction_isolation%3D{quoted}")
    ledger.set_budget("chest", COST)
    done: list[object] = []

    def wait_and_spend() -> None:
        try:
            done.append(attempt(ledger, "second"))
        except LedgerError as error:
            done.append(str(error))

    with direct() as other, open_ledger(address).transaction() as first:
        second = threading.Thread(target=wait_and_spend)
        second.start()
        until(lambda: waiting(other))
        # the first spends while the second waits
        charge = {"kind": "charge", "at": now(), "population": "chest", "run_key": "first"}
        charge["query"] = "query"
        paid = {"cost": budget_fields(COST), "group": 1, "contents": {}, "identity": "first"}
        first.write({**charge, **paid})
    second.join()
    assert len(done) == 1
    assert "has nothing left" in str(done[0])


def test_commits_survive_a_crash_of_the_server(address: str) -> None:
    """A transaction of the ledger waits for the disk even where the server is told not to."""
    for given, found in (("off", "on"), ("remote_apply", "remote_apply")):
        place = locate(f"{address}%20-csynchronous_commit%3D{given}", 5.0)
        with connect(place) as connection:
            shown = connection.exec_driver_sql("SHOW synchronous_commit").scalar()
        assert shown == found


def test_a_locked_ledger_is_waited_for_and_left(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table locked elsewhere, or another writer that hangs, ends in one line.

    A server that is slow to say so is not a silent one, which is left after twice the timeout.
    """
    monkeypatch.setattr(database, "_deadline", lambda *_: contextlib.nullcontext())
    ledger = open_ledger(address, timeout=0.3)
    locks = [
        TAKE,
        b"LOCK TABLE covdp_journal IN ACCESS EXCLUSIVE MODE",
    ]
    for lock in locks:
        with direct(f"options=-csearch_path={schema(address)}") as holder, holder.transaction():
            holder.execute(lock)
            refused(lambda: attempt(ledger), r"locked by another process for 0\.3 s")
            refused(ledger.show, r"locked by another process for 0\.3 s")
    assert attempt(ledger).result == b"noised"


def test_an_unreachable_server_is_one_line() -> None:
    """A closed port, an unknown host and a missing socket end at once, without secrets."""
    for host in ("127.0.0.1:1", "no-such-host.invalid:5432"):
        address = f"postgresql+psycopg://covdp:hunter2@{host}/ledger?password=hunter2"
        refused(lambda place=address: open_ledger(place), f"ledger 'ledger' on {host} cannot be")  # type: ignore[misc]
    address = "postgresql://covdp:hunter2@/ledger?host=/no/such/folder"
    refused(lambda: init_ledger(address), "on /no/such/folder cannot be reached")


def test_a_wrong_login_is_one_line() -> None:
    """Wrong password, unknown database and unknown option end at once, without secrets."""
    end = f"?host={server()}"
    for middle in ("stranger:hunter2@/postgres", f"covdp:{PASSWORD}@/none"):
        refused(lambda m=middle: open_ledger(f"postgresql://{m}{end}"), "refuses this login")  # type: ignore[misc]
    wrong = f"postgresql://covdp:{PASSWORD}@/postgres{end}&autocommit=hunter2"
    refused(lambda: open_ledger(wrong), "cannot be reached")


@contextlib.contextmanager
def silent_after(size: int) -> Iterator[int]:
    """Serve on a port that passes `size` bytes on to the real server and answers no more."""
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:

        def carry(source: socket.socket, sink: socket.socket, left: int) -> None:
            with contextlib.suppress(OSError):
                while left > 0 and (part := source.recv(min(left, 65536))):
                    sink.sendall(part)
                    left -= len(part)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client = stack.enter_context(listener.accept()[0])
                    target = stack.enter_context(socket.socket(socket.AF_UNIX))
                    target.connect(f"{server()}/.s.PGSQL.5432")
                    for ends in ((client, target, size), (target, client, 10**9)):
                        threading.Thread(target=carry, args=ends, daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 300, 700])
def test_a_silent_server_is_left(address: str, size: int, caplog: pytest.LogCaptureFixture) -> None:
    """A server that stops answering, at the login or in a transaction, is left in time."""
    options = address.rsplit("&", 1)[1]
    with silent_after(size) as port:
        place = f"postgresql://covdp:{PASSWORD}@127.0.0.1:{port}/postgres?{options}"
        refused(lambda: open_ledger(place, timeout=0.5), f"on 127.0.0.1:{port} cannot be reached")
    assert caplog.records == []


def test_a_server_without_a_ledger(tmp_path: Path) -> None:
    """Opening a database that holds no ledger is an error and creates nothing."""
    place = new_address("postgresql", tmp_path)
    refused(lambda: open_ledger(place), "holds no ledger; create one with `covdp ledger init`")
    with direct() as connection:
        tables = connection.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = %s", [schema(place)]
        ).fetchone()
    assert tables == (0,)


def test_a_ledger_that_may_only_be_read(address: str) -> None:
    """A server that takes no writes still shows the account, and refuses a charge in one line."""
    ledger = open_ledger(f"{address}%20-cdefault_transaction_read_only%3Don")
    assert ledger.show()[0].budget == GDP(1.0)
    refused(lambda: attempt(ledger), "cannot be written")


def test_backends_that_die_undo_whole_transactions(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server ends the connection in the middle of a charge: one line, nothing is charged."""
    ledger = open_ledger(address)
    with direct(f"options=-csearch_path={schema(address)}") as holder, holder.transaction():
        holder.execute("LOCK TABLE covdp_journal IN ACCESS EXCLUSIVE MODE")

        def end() -> None:
            with direct() as other:
                until(lambda: waiting(other))
                other.execute("SELECT pg_terminate_backend(%s)", [waiting(other)[0]])

        killer = threading.Thread(target=end)
        killer.start()
        refused(lambda: attempt(ledger), "ledger 'postgres' on ")
        killer.join()
    assert caplog.records == []
    assert ledger.show()[0].releases == 0
    attempt(ledger)


def test_addresses_of_every_spelling_work(address: str, tmp_path: Path) -> None:
    """The short scheme names of PostgreSQL lead to the same ledger."""
    rest = address.split("://", 1)[1]
    keys = {open_ledger(f"{scheme}://{rest}").key for scheme in ("postgres", "postgresql")}
    assert keys == {open_ledger(address).key}
    assert list(tmp_path.iterdir()) == []
