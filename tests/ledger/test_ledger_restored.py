"""A ledger that came back from a backup: what was spent since is not forgotten in silence."""

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from covdp.errors import LedgerError
from covdp.ledger import (
    Ledger,
    Reservation,
    StoredRelease,
    api,
    confirm_restored,
    init_ledger,
    open_ledger,
)
from covdp.ledger.journal import path_beside
from covdp.privacy import GDP, compose
from tests.tools.children import in_child, kill_at
from tests.tools.postgres import direct, new_address

COST = GDP(0.3)
TABLES = ("covdp_meta", "covdp_journal", "covdp_results")


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a ledger with 1-GDP for the population "chest", in each kind of database."""
    place = new_address(request.param, tmp_path)
    init_ledger(place).set_budget("chest", GDP(1.0))
    return place


def pay(ledger: Ledger, run_key: str = "monday") -> StoredRelease:
    """Reserve and commit."""
    contents = {"normal": ledger.digest([b"x"])}
    found = ledger.reserve("chest", "query", run_key, contents=contents, cost=COST)
    return ledger.commit(found, run_key.encode()) if isinstance(found, Reservation) else found


def marker(address: str) -> Path:
    """Return the marker of a ledger."""
    ledger = open_ledger(address)
    return path_beside(ledger.database, ledger.key)


def backup(address: str) -> Callable[[], None]:
    """Copy a ledger as it is; return what puts the copy back, as an administrator would."""
    if "://" not in address:
        held = Path(address).read_bytes()
        return lambda: Path(address).write_bytes(held) and None
    schema = address.rsplit("%3D", 1)[1]
    with direct(f"options=-csearch_path={schema}") as connection:
        kept = {
            name: connection.execute(f"SELECT * FROM {name}".encode()).fetchall() for name in TABLES
        }

    def restore() -> None:
        with direct(f"options=-csearch_path={schema}") as connection, connection.transaction():
            for name, rows in kept.items():
                connection.execute(f"DELETE FROM {name}".encode())
                for row in rows:
                    marks = ", ".join(["%s"] * len(row))
                    connection.execute(f"INSERT INTO {name} VALUES ({marks})".encode(), row)

    return restore


def refused(address: str, ledger: Ledger, words: str) -> None:
    """Check that every use of a ledger is refused in one line, and changes nothing."""
    calls: list[Callable[[], object]] = [
        lambda: open_ledger(address),
        lambda: init_ledger(address),
        ledger.show,
        ledger.history,
        lambda: ledger.check_charge("chest", GDP(0.1), "sunday"),
        lambda: ledger.set_budget("chest", GDP(3.0)),
        lambda: pay(ledger, "sunday"),
        lambda: pay(ledger, "monday"),
    ]
    for call in calls:
        with pytest.raises(LedgerError, match=words) as refusal:
            call()
        assert "\n" not in str(refusal.value)
        assert "covdp ledger confirm-restored" in str(refusal.value)


def test_a_restored_ledger_is_refused_until_confirmed(address: str) -> None:
    """An older copy is refused by every use; confirmed, it goes on, and its history says so."""
    ledger = open_ledger(address)
    pay(ledger, "monday")
    restore = backup(address)
    pay(ledger, "tuesday")
    restore()
    refused(address, ledger, "its journal ends at row 4, and .* says that 6 were written")
    assert confirm_restored(address)
    assert not confirm_restored(address)
    (row,) = open_ledger(address).show()
    assert (row.releases, row.spent) == (1, COST)  # nothing is charged or given back
    last = ledger.history("chest")[-1]
    assert (last.kind, last.text) == (
        "note",
        "confirmed as restored after row 4; row 6 had been written",
    )
    pay(ledger, "tuesday")
    assert ledger.show()[0].spent == compose([COST] * 2)


def test_a_copy_that_went_another_way_is_refused(address: str) -> None:
    """A restored copy on which as much was spent as before, past its marker, is no longer it."""
    ledger = open_ledger(address)
    restore, held = backup(address), marker(address)
    pay(ledger, "monday")
    real = held.read_bytes()
    restore()
    held.unlink()
    confirm_restored(address)
    pay(ledger, "tuesday")
    held.write_bytes(real)
    refused(address, ledger, "is not the one that .* was written for: row 4 of its journal")


def test_killed_between_commit_and_marker(address: str) -> None:
    """Killed after the database kept a row and before its marker did, all goes on as before."""
    ledger = open_ledger(address)
    held = marker(address)
    for name, charges in (("monday", 1), ("tuesday", 2)):
        before = held.read_bytes()

        def run(name: str = name) -> None:
            def killed(*_: object, **__: object) -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            api.move_marker = killed
            pay(ledger, name)

        assert in_child(run) == -signal.SIGKILL
        assert held.read_bytes() == before
        assert ledger.show()[0].releases == charges
        assert held.read_bytes() != before  # who reads moves it forward
        restore = backup(address)
        assert pay(ledger, name).result == name.encode()
        assert ledger.show()[0].releases == charges
    restore()
    refused(address, ledger, "its journal ends at row 5, and .* says that 6 were written")


def test_killed_while_a_restored_ledger_is_confirmed(tmp_path: Path) -> None:
    """Killed before any statement of it, a confirmation is not given or given, and can be."""
    address = str(tmp_path / "ledger.sqlite")
    ledger = init_ledger(address)
    ledger.set_budget("chest", GDP(1.0))
    restore = backup(address)
    pay(ledger)
    for step in range(40):
        restore()

        def run(step: int = step) -> None:
            kill_at(step)
            confirm_restored(address)

        code = in_child(run)
        if code == 0:
            break
        with pytest.raises(LedgerError, match="confirm-restored"):
            ledger.show()
    assert 5 < step < 39
    pay(ledger)
    assert ledger.show()[0].releases == 1


def test_a_confirmation_of_nothing_moves_no_marker_back(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process, which writes a row right after it, moves the marker further."""
    ledger, move, held = open_ledger(address), api.move_marker, marker(address)
    paying = list[str]()
    before = held.read_bytes()
    pay(ledger, "monday")
    held.write_bytes(before)

    def overtaken(*parts: Any, **how: Any) -> None:
        if not paying:
            paying.append("tuesday")
            pay(ledger, "tuesday")
        move(*parts, **how)

    monkeypatch.setattr(api, "move_marker", overtaken)
    assert not confirm_restored(address)
    assert held.read_text().startswith("6 ")


def test_a_lost_marker_is_noticed(tmp_path: Path) -> None:
    """A file without its marker, or with one that cannot be read, may be any copy: it is refused.

    One on which nothing was ever set may have lost it in a crash, and one from before markers had
    none.
    """
    place = tmp_path / "ledger.sqlite"
    ledger, held = init_ledger(place), tmp_path / "ledger.sqlite.marker"
    held.unlink()
    ledger.set_budget("chest", GDP(1.0))
    pay(ledger)
    good = held.read_bytes()
    held.unlink()
    refused(str(place), ledger, "has lost .*ledger.sqlite.marker, which stood beside it")
    for text in ("", "3 ", "0 " + "0" * 64 + "\n", "x", good.decode() * 2):
        held.write_text(text)
        refused(str(place), ledger, "has a marker that cannot be read")
    held.write_bytes(good)
    assert pay(ledger).result == b"monday"
    link = tmp_path / "link"
    link.symlink_to(place)
    assert pay(open_ledger(link)).result == b"monday"  # one ledger has one marker


def test_no_ledger_is_made_where_one_is_lost(tmp_path: Path) -> None:
    """Where a marker is and no ledger, none is begun that would forget what was spent."""
    place = tmp_path / "ledger.sqlite"
    init_ledger(place)
    place.unlink()
    for ask in (init_ledger, open_ledger) * 2:
        with pytest.raises(LedgerError, match="is gone, and a new one forgets"):
            ask(place)
        assert not place.exists()


def test_a_marker_that_cannot_be_written_stops_publishing(tmp_path: Path) -> None:
    """No result comes back before its marker is kept; later the same charge pays."""
    place, held = tmp_path / "ledger.sqlite", tmp_path / "ledger.sqlite.marker"
    ledger = init_ledger(place)
    ledger.set_budget("chest", GDP(1.0))
    good = held.read_bytes()
    held.unlink()
    held.mkdir()
    with pytest.raises(LedgerError, match=r"ledger.sqlite.marker.*nothing may be published"):
        pay(ledger)
    held.rmdir()
    held.write_bytes(good)
    pay(ledger)
    assert ledger.show()[0].releases == 1


def test_a_server_seen_for_the_first_time_gets_a_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each machine that uses a server keeps its own marker, and one that is behind is moved."""
    address = new_address("postgresql", tmp_path)
    init_ledger(address).set_budget("chest", GDP(1.0))
    one = marker(address)
    monkeypatch.setenv("COVDP_MARKERS", str(tmp_path / "other"))
    pay(open_ledger(address))
    two = marker(address)
    assert two.parent == tmp_path / "other"
    assert (one.read_text().split()[0], two.read_text().split()[0]) == ("2", "4")
    monkeypatch.undo()
    open_ledger(address)
    assert one.read_bytes() == two.read_bytes()


def test_a_marker_tells_nothing(tmp_path: Path) -> None:
    """It holds how many rows there are and a mac under the ledger's key, and no key."""
    place = tmp_path / "ledger.sqlite"
    ledger = init_ledger(place)
    ledger.set_budget("chest", GDP(1.0))
    with closing(sqlite3.connect(place)) as connection:
        (mac,) = connection.execute("SELECT mac FROM covdp_journal WHERE number = 2").fetchone()
    text = place.with_name("ledger.sqlite.marker").read_text()
    assert text == f"2 {mac}\n"
    assert ledger.key.hex() not in text


def test_the_command_confirms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`covdp ledger confirm-restored` accepts what every other command refuses with exit code 2."""
    from covdp.cli import main

    address = str(tmp_path / "ledger.sqlite")
    ledger = init_ledger(address)
    ledger.set_budget("chest", GDP(1.0))
    restore = backup(address)
    pay(ledger)
    restore()

    def run(command: str) -> int:
        return main(["ledger", command, "--ledger", address])

    assert run("show") == 2
    assert "confirm-restored" in capsys.readouterr().err
    assert run("confirm-restored") == 0
    assert capsys.readouterr().out == "confirmed\n"
    assert run("confirm-restored") == 0
    assert "nothing to confirm" in capsys.readouterr().out
    assert run("show") == 0


def test_what_was_unfinished_in_a_backup_is_charged_again(address: str) -> None:
    """A charge without a result may have got one after the backup: it pays for no second draw."""
    ledger = open_ledger(address)
    contents = {"normal": ledger.digest([b"x"])}
    held = ledger.reserve("chest", "query", "monday", contents=contents, cost=COST)
    assert isinstance(held, Reservation)
    restore = backup(address)
    ledger.commit(held, b"published")
    restore()
    confirm_restored(address)
    with pytest.raises(LedgerError, match="does not know this reservation"):
        ledger.commit(held, b"again")
    again = ledger.reserve("chest", "query", "monday", contents=contents, cost=COST)
    assert isinstance(again, Reservation)
    assert again.number > held.number
    assert ledger.commit(again, b"anew").result == b"anew"
    (row,) = ledger.show()
    assert (row.releases, row.unfinished, row.spent) == (2, 0, compose([COST] * 2))
