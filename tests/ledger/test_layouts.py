"""Ledgers that earlier versions wrote: migrated as they are opened, with all that was spent.

`layout-2-*.sql` were written by covdp 0.4, as dumps of its own tables: two releases of "ward", one
of them without a result, and a stream of "zone" with two nights, of which one has no result.
"""

import multiprocessing
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sample_nights import reserve
from sqlalchemy import text

from covdp.errors import LedgerError
from covdp.ledger import (
    Ledger,
    Reservation,
    StoredRelease,
    confirm_restored,
    init_ledger,
    layout,
    open_ledger,
)
from covdp.ledger.database import connect, locate
from covdp.privacy import GDP, compose
from tests.tools.addons import addon
from tests.tools.postgres import direct, new_address

commit_night = addon("nights.ledger:commit_night")
stream_named = addon("nights.ledger:stream_named")

HERE = Path(__file__).parent


@pytest.fixture(params=["sqlite", "postgresql"])
def older(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a ledger of layout 2, whose marker in PostgreSQL is not there yet."""
    monkeypatch.setenv("COVDP_MARKERS", str(tmp_path / "markers"))
    address = new_address(request.param, tmp_path)
    script = (HERE / f"layout-2-{request.param}.sql").read_text()
    if request.param == "sqlite":
        with closing(sqlite3.connect(address)) as connection:
            connection.executescript(script)
            query = "SELECT number, mac FROM covdp_journal ORDER BY number DESC LIMIT 1"
            end = connection.execute(query).fetchone()
        Path(f"{address}.marker").write_text("{} {}\n".format(*end))
    else:
        with direct() as server:
            server.execute(f"SET search_path TO {address.rsplit('%3D', 1)[1]}".encode())
            server.execute(script.encode())
    return address


def found(address: str) -> tuple[str, list[tuple[int, str, str]]]:
    """Return the layout and the rows of the journal, as they are in the database."""
    with connect(locate(address, 10.0), write=False) as connection:
        query = "SELECT value FROM covdp_meta WHERE name = 'format'"
        rows = "SELECT number, event, mac FROM covdp_journal ORDER BY number"
        journal = [(row[0], row[1], row[2]) for row in connection.execute(text(rows))]
        return str(connection.scalar(text(query))), journal


def set_layout(address: str, value: str) -> None:
    """Write another layout into a ledger."""
    with connect(locate(address, 10.0)) as connection:
        change = text("UPDATE covdp_meta SET value = :value WHERE name = 'format'")
        connection.execute(change, {"value": value})


def ask(book: Ledger, run_key: str, images: str, declared: Sequence[str] = ()) -> object:
    """Ask for a release as covdp 0.4 asked for those of the sample."""
    parts = {"all classes": images.encode(), "each class": f"{images[:5]} by class".encode()}
    if images == "images":
        parts["each class"] = b"by class"
    contents = {name: book.digest([part]) for name, part in parts.items()}
    return book.reserve(
        "ward",
        '{"name": "ward"}',
        run_key,
        contents=contents,
        cost=GDP(0.5),
        declared=declared,
        once="ward",
        beside=False,
    )


@pytest.mark.addons
def test_an_older_ledger_is_migrated_with_what_was_spent(older: str) -> None:
    """Its rows stay letter by letter; what was charged comes back, and is charged no more."""
    before, rows = found(older)
    book = init_ledger(older)
    assert (before, found(older)) == ("2", (layout.LAYOUT, rows))
    ward, zone = book.show()
    assert (ward.spent, ward.releases, ward.unfinished) == (compose([GDP(0.5)] * 2), 2, 1)
    assert zone.spent == GDP(0.5)
    stored, held = ask(book, "monday", "images"), ask(book, "tuesday", "other")
    assert isinstance(stored, StoredRelease)
    assert stored.result == b"released on monday"
    assert isinstance(held, Reservation)
    assert book.commit(held, b"drawn now").result == b"drawn now"
    with pytest.raises(LedgerError, match="was paid before, with other images or settings"):
        ask(book, "monday", "changed")
    stream = stream_named(book, "zone", "nightly")
    assert stream
    assert stream.pending
    units = [b"unit 3", b"unit 4"]
    night = reserve(book, stream, "2026-03-02", units, ["0 normal"] * 2)
    assert night
    commit_night(book, night, b"second night")
    with pytest.raises(LedgerError, match="yesterday's images"):
        reserve(book, stream, "2026-03-03", [b"unit 1"], ["0 normal"])
    assert [row.releases for row in book.show()] == [2, 1]
    assert ask(open_ledger(older), "wednesday", "new", ["card and folder"])
    with pytest.raises(LedgerError, match="under population 'ward' before, found 'zone'"):
        open_ledger(older).check_declared("zone", ["card and folder"])


@pytest.mark.addons
def test_an_older_backup_is_still_noticed(tmp_path: Path) -> None:
    """A copy of layout 2 that takes the place of the ledger forgets what was spent since."""
    address = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(address)) as connection:
        connection.executescript((HERE / "layout-2-sqlite.sql").read_text())
    with pytest.raises(LedgerError, match=r"has lost .*confirm-restored"):
        open_ledger(address)
    assert confirm_restored(address)
    assert open_ledger(address).show("zone")[0].spent == GDP(0.5)
    assert found(str(address))[0] == layout.LAYOUT


def _open(address: str) -> list[str]:
    ARRIVED[0].wait()
    return [account.population for account in open_ledger(address).show()]


ARRIVED: list[Any] = []
"""In each of several processes the barrier at which they meet."""


@pytest.mark.slow
def test_eight_processes_migrate_once(older: str) -> None:
    """However many open it at once, each step is done once and all of them go on."""
    context = multiprocessing.get_context("fork")
    with context.Pool(8, ARRIVED.append, [context.Barrier(8)]) as pool:
        told = pool.map(_open, [older] * 8, chunksize=1)
    assert told == [told[0]] * 8
    assert found(older)[0] == layout.LAYOUT


@pytest.mark.addons
def test_all_steps_are_one_transaction(older: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the last step fails the first is undone; where it does not, all are done in order."""
    monkeypatch.setattr(layout, "LAYOUT", "4")
    monkeypatch.setattr("covdp.ledger.api.LAYOUT", "4")
    make = "CREATE TABLE covdp_more (value INTEGER)"
    steps: dict[str, tuple[str, ...]] = {"2": (make,)}
    steps |= {"3": ("INSERT INTO covdp_more VALUES (1)", "INSERT INTO nowhere (1)")}
    monkeypatch.setattr(layout, "MIGRATIONS", steps)
    before = found(older)
    for _ in range(2):
        with pytest.raises(LedgerError):
            open_ledger(older)
        assert found(older) == before
    steps["3"] = steps["3"][:1]
    open_ledger(older)
    open_ledger(older)
    assert found(older)[0] == "4"
    with connect(locate(older, 10.0), write=False) as connection:
        assert connection.scalar(text("SELECT count(*) FROM covdp_more")) == 1


@pytest.mark.parametrize("value", ["1", "4", "three", ""])
def test_another_layout_is_refused(older: str, value: str) -> None:
    """One of a later version, or of the first, is not touched, and the line names both."""
    set_layout(older, value)
    for work in (open_ledger, init_ledger, confirm_restored):
        with pytest.raises(LedgerError, match=f"has layout '{value}', this version reads '3'"):
            work(older)
    assert found(older)[0] == value
