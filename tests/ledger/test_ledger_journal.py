"""The journal of a ledger: what is changed from outside is noticed, and nothing is forgotten."""

import os
import random
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from covdp.errors import BudgetError, LedgerError
from covdp.ledger import Ledger, StoredRelease, init_ledger, open_ledger
from covdp.ledger import api as transactions
from covdp.ledger import journal as journals
from covdp.ledger.journal import append
from covdp.privacy import GDP, Budget, compose
from tests.tools.patience import calls
from tests.tools.trace import Watcher

PRICE = GDP(0.3)
TABLES = ("meta", "journal", "results")
FLIPS = 120
"""Random damages in the suite; by hand it was 6,000."""


def pay(ledger: Ledger, run_key: str, *, query: str = "query", cost: Budget = PRICE) -> bytes:
    """Reserve and commit; return what would be published."""
    contents = {"normal": ledger.digest([b"x"])}
    found = ledger.reserve("chest", query, run_key, contents=contents, cost=cost)
    return (
        found if isinstance(found, StoredRelease) else ledger.commit(found, run_key.encode())
    ).result


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of a ledger with three releases, one unfinished, and a changed total."""
    ledger = init_ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("chest", GDP(1.0))
    pay(ledger, "monday")
    pay(ledger, "tuesday")
    ledger.set_budget("chest", GDP(2.0))
    contents = {"normal": ledger.digest([b"x"])}
    ledger.reserve("chest", "query", "friday", contents=contents, cost=GDP(0.3))
    return tmp_path / "ledger.sqlite"


def beside(file: Path) -> Path:
    """Return the marker of a file."""
    return file.with_name(f"{file.name}.marker")


def change(file: Path, *statements: str) -> None:
    """Run statements on the file, past the ledger."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_each_row_is_verified_once_and_compared_each_time(
    file: Path, monkeypatch: pytest.MonkeyPatch, watch: Watcher
) -> None:
    """A use verifies the rows that came since the last; one that failed leaves nothing behind."""
    ledger, chained = open_ledger(file), watch(journals.chain)

    def verified() -> list[int]:
        return [call.given["number"] for call in chained]

    transactions._KNOWN.clear()
    before = ledger.show("chest")
    assert verified() == list(range(1, 9))
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "last_row", lambda _: exec("raise MemoryError"))
        with pytest.raises(LedgerError):
            ledger.set_budget("chest", GDP(9.0))
    assert verified()[8:] == [9]  # written, and undone
    assert ledger.show("chest") == before
    ledger.set_budget("chest", GDP(3.0))
    assert verified()[9:] == [9]
    change(file, "UPDATE covdp_journal SET event = replace(event, 'monday', 'sunday')")
    with pytest.raises(LedgerError, match="row 3 of its journal was changed"):
        ledger.show("chest")


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["DELETE FROM covdp_journal WHERE number = 3"], "row 3 of its journal is missing"),
        (["DELETE FROM covdp_journal WHERE number = 1"], "row 1 of its journal is missing"),
        (["DELETE FROM covdp_journal WHERE number > 5"], "ends at row 5, and 8 were written"),
        (["DELETE FROM covdp_journal"], "ends at row 0, and 8 were written"),
        (
            [
                "DELETE FROM covdp_journal WHERE number = 8",
                "UPDATE covdp_meta SET value = '7' || substr(value, 2) WHERE name = 'seal'",
            ],
            "row 7 of its journal is not the last",
        ),
        (
            ["INSERT INTO covdp_journal SELECT 9, event, mac FROM covdp_journal WHERE number = 2"],
            "row 9 of its journal was changed",
        ),
        (
            [
                "UPDATE covdp_journal SET number = 99 WHERE number = 3",
                "UPDATE covdp_journal SET number = 3 WHERE number = 5",
                "UPDATE covdp_journal SET number = 5 WHERE number = 99",
            ],
            "row 3 of its journal was changed",
        ),
        (
            [
                "UPDATE covdp_journal SET event = replace(event, '0.3', '0.1')"
                " WHERE event LIKE '%monday%'"
            ],
            "row 3 of its journal was changed",
        ),
        (
            ["UPDATE covdp_journal SET event = replace(event, '2.0', '9.0') WHERE number = 7"],
            "row 7 of its journal was changed",
        ),
        (["DELETE FROM covdp_meta WHERE name = 'seal'"], "row 8 of its journal is not the last"),
        (["UPDATE covdp_meta SET value = hex(zeroblob(32)) WHERE name = 'key'"], "damaged"),
        (["DELETE FROM covdp_results WHERE rowid = 1"], "1 of 2 results are lost"),
        (["INSERT INTO covdp_results VALUES ('more', x'00')"], "1 results were put in"),
        (["DROP TABLE covdp_journal"], "restore it from a backup"),
        (["DROP TABLE covdp_meta"], "restore it from a backup"),
        (["DROP TABLE covdp_results"], "restore it from a backup"),
    ],
)
def test_a_change_from_outside_is_named(file: Path, statements: list[str], words: str) -> None:
    """Rows deleted, repeated, swapped or edited stop every call with a line that names the row."""
    ledger = open_ledger(file)
    change(file, *statements)
    calls: list[Callable[[], object]] = [
        lambda: open_ledger(file),
        lambda: init_ledger(file),
        ledger.show,
        ledger.history,
        lambda: ledger.check_charge("chest", GDP(0.1), "sunday"),
        lambda: ledger.show("chest")[0].lasts(GDP(0.1)),
        lambda: ledger.set_budget("chest", GDP(3.0)),
        lambda: pay(ledger, "sunday"),
    ]
    for call in calls:
        with pytest.raises(LedgerError) as refusal:
            call()
        assert "\n" not in str(refusal.value)
    with pytest.raises(LedgerError, match=words):
        ledger.show()


def test_swapped_results_are_noticed(file: Path) -> None:
    """A stored result that is not the one committed for its charge is not given out."""
    change(
        file,
        "UPDATE covdp_results SET result = CASE CAST(result AS TEXT)"
        " WHEN 'monday' THEN CAST('tuesday' AS BLOB) ELSE CAST('monday' AS BLOB) END",
    )
    ledger = open_ledger(file)
    with pytest.raises(LedgerError, match="the result of row 3 of its journal was changed or lost"):
        pay(ledger, "monday")


def test_a_row_of_an_older_copy_is_noticed(file: Path, tmp_path: Path) -> None:
    """A row of a copy that went another way is genuine, and still does not fit into the chain."""
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(file.read_bytes())
    beside(copy).write_bytes(beside(file).read_bytes())
    pay(open_ledger(file), "sunday", cost=GDP(0.5))
    pay(open_ledger(copy), "sunday", cost=GDP(0.1))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"ATTACH '{copy}' AS copy")
        connection.execute("DELETE FROM covdp_journal WHERE number = 9")
        connection.execute(
            "INSERT INTO covdp_journal SELECT * FROM copy.covdp_journal WHERE number = 9"
        )
        connection.commit()
    with pytest.raises(LedgerError, match="row 10 of its journal was changed"):
        open_ledger(file)


def test_rows_of_another_ledger_are_noticed(file: Path, tmp_path: Path) -> None:
    """The journal of one ledger is none for the key of another."""
    other = init_ledger(tmp_path / "other")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"ATTACH '{tmp_path / 'other'}' AS other")
        for statement in (
            "DELETE FROM covdp_journal",
            "INSERT INTO covdp_journal SELECT * FROM other.covdp_journal",
            "UPDATE covdp_meta SET value = (SELECT value FROM other.covdp_meta"
            " WHERE name = 'seal') WHERE name = 'seal'",
        ):
            connection.execute(statement)
        connection.commit()
    assert other.show() == ()
    with pytest.raises(LedgerError, match="row 1 of its journal was changed"):
        open_ledger(file)


def damage(held: bytearray, rng: random.Random) -> None:
    """Damage a file at random: bits, bytes, a run of bytes, a page, or the end lost."""
    kind = rng.choice(["bit", "bit", "bytes", "run", "page", "swap", "cut"])
    place = rng.randrange(len(held))
    if kind == "bit":
        held[place] ^= 1 << rng.randrange(8)
    elif kind == "bytes":
        for _ in range(rng.randrange(1, 40)):
            held[rng.randrange(len(held))] = rng.randrange(256)
    elif kind == "run":
        size = rng.randrange(1, 200)
        held[place : place + size] = rng.randbytes(len(held[place : place + size]))
    elif kind == "page":
        start = place // 4096 * 4096
        held[start : start + 4096] = bytes(4096)
    elif kind == "swap":
        one, two = (rng.randrange(len(held) // 4096) * 4096 for _ in range(2))
        held[one : one + 4096], held[two : two + 4096] = (
            held[two : two + 4096],
            held[one : one + 4096],
        )
    else:
        del held[place:]


def fault(call: Callable[[], object]) -> str | None:
    """Return the line with which the ledger refuses, or None when it does not."""
    try:
        call()
    except LedgerError as error:
        return str(error)
    return None


def test_random_damage_is_noticed_or_harmless(file: Path, tmp_path: Path) -> None:
    """After any damage of the file the account is right to the last bit, or one line refuses."""
    before = open_ledger(file)
    expected = (before.show(), before.history())

    def use() -> None:
        ledger = init_ledger(place)  # what `covdp ledger init` does
        assert (ledger.show(), ledger.history()) == expected
        for run_key in ("monday", "tuesday"):
            assert pay(ledger, run_key) == run_key.encode()
        with pytest.raises(BudgetError):
            ledger.check_charge("chest", GDP(2.0), "sunday")
        pay(ledger, "sunday")
        assert open_ledger(place).show()[0].spent == compose([GDP(0.3)] * 4)

    good, rng = file.read_bytes(), random.Random(600)
    faults = []
    for number in range(FLIPS):
        held = bytearray(good)
        damage(held, rng)
        place = tmp_path / f"{number}.sqlite"
        place.write_bytes(held or good)  # an empty file is new for whoever makes a ledger
        beside(place).write_bytes(beside(file).read_bytes())
        faults.append(fault(use))
        for path in tmp_path.glob(f"{number}.sqlite*"):
            path.unlink()
    lines = [line for line in faults if line]
    assert not [line for line in lines if "\n" in line]
    assert 0.1 < len(lines) / len(faults) < 0.9


@pytest.mark.parametrize("removed", [False, True])
def test_a_lost_rollback_journal_is_noticed(file: Path, removed: bool) -> None:
    """Killed while SQLite writes, all is as before; without its rollback journal, one line."""
    ledger = open_ledger(file)
    for number in range(20):
        pay(ledger, f"night {number}", query="q" * 4000, cost=GDP(0.01))
    expected = (ledger.show(), ledger.history())
    child = os.fork()
    if child == 0:
        raw = sqlite3.connect(file, isolation_level=None)
        raw.execute("PRAGMA cache_size=1")  # pages are written before the commit
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("UPDATE covdp_journal SET event = replace(event, 'q', 'r')")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    rollback = file.with_name(file.name + "-journal")
    assert rollback.stat().st_size > 4096
    if removed:
        rollback.unlink()
        with pytest.raises(LedgerError, match="damaged"):
            ledger.show()
    else:
        assert (ledger.show(), ledger.history()) == expected


def test_thousands_of_releases_are_verified_at_once(tmp_path: Path) -> None:
    """A charge is verified with so many calls a release, 75 here: no more of each among 3,000."""
    effort = {count: calls_of_a_charge(tmp_path / str(count), count) for count in (500, 3000)}
    assert effort[3000] - effort[500] < 2500 * 100


def calls_of_a_charge(file: Path, count: int) -> int:
    """Return what the first check of a charge takes, in calls, after so many releases."""
    ledger = init_ledger(file)
    ledger.set_budget("chest", GDP(10.0))
    cost = {"definition": "gdp", "mu": 0.1}
    with ledger.transaction() as book:
        at = {"at": "2026-01-01T00:00:00+00:00", "population": "chest", "query": "q" * 1000}
        charges = [
            {
                "kind": "charge",
                **at,
                "run_key": str(i),
                "group": 1,
                "contents": {},
                "cost": cost,
                "identity": str(i),
            }
            for i in range(count)
        ]
        append(book.connection, ledger.key, book.journal, *charges)
    effort = calls(lambda: ledger.check_charge("chest", GDP(0.1), "new"))
    assert ledger.show("chest")[0].lasts(GDP(0.1)) == 10_000 - count
    return effort


def test_no_ledger_is_made_in_a_file_that_holds_anything(file: Path, tmp_path: Path) -> None:
    """Where a ledger's tables are gone, or were never, none is begun that would forget."""
    change(file, *(f"ALTER TABLE covdp_{name} RENAME TO x{name}" for name in TABLES))
    change(tmp_path / "foreign", "CREATE TABLE t (x)")
    for place in (file, tmp_path / "foreign"):
        with pytest.raises(LedgerError, match="holds something already"):
            init_ledger(place)


def test_an_emptied_file_is_not_opened(file: Path) -> None:
    """A file cut to nothing is no ledger, nor is it told to make one that would be refused."""
    file.write_bytes(b"")
    with pytest.raises(LedgerError, match="; restore the ledger from a backup, or choose another"):
        open_ledger(file)
