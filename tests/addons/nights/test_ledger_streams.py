"""Streams in the ledger: charged once, each unit enters on one night, whatever is killed."""

import multiprocessing
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sample_nights import reserve

from covdp.addons.nights import ledger as streams
from covdp.addons.nights.account import NightState, StoredNight, StreamAccount
from covdp.addons.nights.ledger import (
    add_claims,
    commit_night,
    entered_on,
    night_mac,
    open_stream,
    reserve_night,
    stored_nights,
    stream_named,
    stream_status,
    unit_digest,
    version_of,
)
from covdp.errors import BudgetError, LedgerError
from covdp.ledger import Ledger, api, confirm_restored, database, init_ledger, open_ledger
from covdp.ledger.state import EVENTS
from covdp.privacy import GDP, ZCDP, Budget
from tests.tools.children import in_child, kill_at
from tests.tools.patience import PATIENCE, calls
from tests.tools.postgres import new_address

HORIZON = 50
EIGHT = 8


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """Return a new ledger, in each kind of database, with 1-GDP for the population "ward"."""
    opened = init_ledger(new_address(request.param, tmp_path))
    opened.set_budget("ward", GDP(1.0))
    return opened


@pytest.fixture
def lite(tmp_path: Path) -> Ledger:
    """Return a new ledger in a SQLite file, with 1-GDP for the population "ward"."""
    opened = init_ledger(tmp_path / "ledger.sqlite")
    opened.set_budget("ward", GDP(1.0))
    return opened


def start(
    ledger: Ledger,
    name: str = "nightly",
    *,
    persons: bool = False,
    horizon: int = HORIZON,
    cost: Budget = GDP(0.5),  # noqa: B008
    follows: str | None = None,
    population: str = "ward",
) -> StreamAccount:
    """Open a stream of images, or of persons."""
    group = None if persons else 1
    return open_stream(
        ledger, population, name, "query", horizon=horizon, cost=cost, group=group, follows=follows
    )


def now(ledger: Ledger) -> StreamAccount:
    """Return the stream as it is."""
    found = stream_named(ledger, "ward", "nightly")
    assert found is not None
    return found


def day(number: int) -> str:
    """Return a planned date, in order of `number`."""
    return f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}"


def some(numbers: Iterable[int]) -> list[bytes]:
    """Return what units are known by."""
    return [b"unit %d" % number for number in numbers]


def ask(
    ledger: Ledger,
    stream: StreamAccount,
    run_key: str,
    units: Sequence[bytes],
    label: str = "0 normal",
) -> NightState | StoredNight:
    """Reserve a night of one class, and begin anew where another came between."""
    while (found := reserve(ledger, stream, run_key, units, [label] * len(units))) is None:
        continue
    return found


def spend(
    ledger: Ledger,
    stream: StreamAccount,
    run_key: str,
    units: Sequence[bytes],
    label: str = "0 normal",
) -> StoredNight:
    """Reserve a night, draw and commit, as a release does."""
    found = ask(ledger, stream, run_key, units, label)
    if not isinstance(found, StoredNight):
        found = commit_night(ledger, found, os.urandom(8))
    return found


def test_a_stream_is_charged_once(ledger: Ledger) -> None:
    """Opened again, and night after night, it costs what it cost; its account is shown as then."""
    stream = start(ledger)
    assert (stream.unit, stream.nights, stream.latest, stream.cost) == ("image", 0, None, GDP(0.5))
    assert start(ledger) == stream
    for number in range(3):
        spend(ledger, stream, day(number), some([number]))
    (row,) = ledger.show()
    assert (row.spent, row.releases, row.unfinished, row.group) == (GDP(0.5), 1, 0, 1)
    again = start(open_ledger(ledger.database.url.render_as_string(False)))
    assert again == now(ledger)
    assert (again.nights, again.latest, again.account) == (3, day(2), stream.account)
    lines = [(one.kind, one.text) for one in ledger.history("ward")[1:]]
    assert lines[0] == (
        "stream",
        "charged μ = 0.5 for the stream 'nightly' of at most 50 nights",
    )
    assert lines[3][0] == "night"
    assert "night 3 of the stream 'nightly', 2026-01-03: 1 images entered" in lines[3][1]
    with pytest.raises(BudgetError, match="left of"):
        start(ledger, "another", cost=GDP(0.9))
    assert start(ledger, "another").account.spent == GDP(0.5**0.5)


def test_one_name_is_one_stream(lite: Ledger) -> None:
    """What it was opened with, changed by mistake, is refused and opens no second account."""
    start(lite)
    changed: dict[str, dict[str, object]] = {
        "horizon = 50, found 51": {"horizon": 51},
        "cost = {.*0.5}, found {.*0.4}": {"cost": GDP(0.4)},
        "group = 1, found null": {"persons": True},
        'follows = null, found "nightly"': {"follows": "nightly"},
    }
    for words, told in changed.items():
        with pytest.raises(LedgerError, match=f"was opened with other settings: {words}; set it"):
            start(lite, **told)  # type: ignore[arg-type]
    assert lite.show()[0].spent == GDP(0.5)
    with pytest.raises(LedgerError, match="in the definition of GDP"):
        start(lite, "zcdp", cost=ZCDP(0.1))
    with pytest.raises(LedgerError, match="no budget"):
        start(lite, population="other")


def test_an_image_enters_one_night(ledger: Ledger) -> None:
    """An image of an earlier night is refused with the likely cause, and nothing is claimed."""
    stream = start(ledger)
    spend(ledger, stream, day(0), some(range(5)))
    with pytest.raises(LedgerError, match="probably still holds yesterday's images") as refusal:
        ask(ledger, stream, day(1), some([7, 3, 8]))
    assert "\n" not in str(refusal.value)
    with pytest.raises(LedgerError, match="given twice in one night"):
        ask(ledger, stream, day(1), some([7, 7]))
    assert entered_on(ledger, stream, some([7, 3, 8, 3])) == (None, 1, None, 1)
    assert now(ledger).nights == 1
    found = ask(ledger, stream, day(1), some([8, 7]))
    assert (found.night, found.units, found.committed) == (2, 2, None)
    assert entered_on(ledger, stream, some([7, 3, 8])) == (2, 1, 2)
    assert found.total not in repr(found)


def test_a_person_enters_one_night(ledger: Ledger) -> None:
    """Later images of a person are left out."""
    stream = start(ledger, persons=True)
    assert stream.unit == "person"
    spend(ledger, stream, day(0), some(range(5)))
    found = ask(ledger, stream, day(1), some([7, 3, 8]))
    assert found.committed is None
    assert entered_on(ledger, stream, some([7, 3, 8])) == (2, 1, 2)
    assert commit_night(ledger, found, b"x").units == 2
    later = ask(ledger, stream, day(2), some([8, 3]))
    assert (later.units, later.committed) == (0, None)
    assert entered_on(ledger, stream, some([8, 3])) == (2, 1)
    assert ledger.show()[0].group is None


def test_the_same_night_gives_the_same_bytes(ledger: Ledger) -> None:
    """Once committed, a night gives its bytes for any units, and claims none of them."""
    stream = start(ledger)
    stored = spend(ledger, stream, day(0), some([1, 2]))
    assert (stored.night, stored.units) == (1, 2)
    assert spend(ledger, stream, day(0), some([1, 2])) == stored
    assert spend(ledger, stream, day(0), some([1, 9])) == stored
    second = spend(ledger, stream, day(1), some([9]))
    assert stored_nights(ledger, stream) == (stored, second)


def test_a_reserved_night_is_drawn_again_for_its_units_alone(ledger: Ledger) -> None:
    """Killed before its commit, a night takes the units it claimed: no other, none less, no class.

    Of what has arrived since, nothing enters before the next night.
    """
    stream = start(ledger)
    spend(ledger, stream, day(0), some([0]))
    first = ask(ledger, stream, day(1), some([1, 2]))
    assert first.committed is None
    assert now(ledger).rows[-1].run_key == day(1)
    again = ask(ledger, stream, day(1), some([3, 2, 1, 4]))
    assert again == first
    assert entered_on(ledger, stream, some([0, 1, 2, 3, 4])) == (1, 2, 2, None, None)
    for units, label in (([1], "0 normal"), ([1, 3], "0 normal"), ([1, 2], "1 other")):
        with pytest.raises(LedgerError, match="reserved for other images or classes"):
            ask(ledger, stream, day(1), some(units), label)
    with pytest.raises(LedgerError, match="yesterday's images"):
        ask(ledger, stream, day(1), some([0, 1, 2]))
    with pytest.raises(LedgerError, match=rf"night of {day(1)} is not finished"):
        ask(ledger, stream, day(2), some([3]))
    slow, fast = commit_night(ledger, again, b"again"), commit_night(ledger, first, b"first")
    assert slow == fast == spend(ledger, stream, day(1), some([1, 2]))
    assert spend(ledger, stream, day(2), some([3, 4])).night == 3


def test_a_night_that_was_overtaken_reserves_nothing(ledger: Ledger) -> None:
    """Whatever night came between, of this stream or of one with the same claims; of others, none.

    What a night keeps is kept before it is reserved, and a night whose keeping fails is none.
    """
    streams = {"nightly": start(ledger), "other": start(ledger, "other")}
    streams["later"] = start(ledger, "later", follows="nightly")

    def version() -> str:
        found = stream_status(ledger, "ward", "nightly", day(9))
        assert found
        assert found.state == "new"
        return found.version

    def late(version: str, prepare: Callable[[NightState], None] | None = None) -> object:
        told = {"units": some([99]), "labels": ["0 normal"], "prepare": prepare}
        return reserve_night(ledger, streams["nightly"], day(9), version=version, **told)  # type: ignore[arg-type]

    for number, (name, moves) in enumerate(
        {"nightly": True, "later": True, "other": False}.items()
    ):
        before = version()
        held = ask(ledger, streams[name], day(number), some([number]))
        assert (version() != before) == moves
        between = version()
        assert held.committed is None
        commit_night(ledger, held, b"{}")
        assert (version() != between) == moves
        if moves:
            assert late(before) is None
            assert late(between) is None
    kept = list[NightState]()
    with pytest.raises(ZeroDivisionError):
        late(version(), lambda held: kept.append(held) or 1 // 0)
    assert now(ledger).nights == 1
    assert entered_on(ledger, streams["nightly"], some([99])) == (None,)
    assert late(version(), kept.append) == kept[0] == kept[1]
    found = stream_status(ledger, "ward", "nightly", day(9))
    assert found
    assert found.state == "reserved"
    commit_night(ledger, kept[1], b"{}")
    found = stream_status(ledger, "ward", "nightly", day(9))
    assert found
    assert found.state == "stored"


def test_nights_go_forward(lite: Ledger) -> None:
    """Missed dates take no number, a clock set back releases nothing, the horizon is the end."""
    stream = start(lite, horizon=3)
    assert spend(lite, stream, day(0), some([1])).night == 1
    assert spend(lite, stream, day(9), []).night == 2  # nights without images are nights
    for number in (8, 1):
        with pytest.raises(LedgerError, match="nights go forward: check the clock") as refused:
            ask(lite, stream, day(number), some([2]))
        assert f"a new name with follows = {stream.name!r} goes on" in str(refused.value)
    assert spend(lite, stream, day(10), some([2])).night == 3
    with pytest.raises(BudgetError, match="has had its 3 nights"):
        ask(lite, stream, day(11), some([3]))
    with lite.transaction(write=False) as tx:
        version = version_of(tx, tx.state.streams[stream.identity])
    with pytest.raises(BudgetError, match="has had its 3 nights"):  # the transaction refuses, too
        reserve_night(lite, stream, day(11), units=some([3]), labels=["0 normal"], version=version)
    assert spend(lite, stream, day(0), []).night == 1
    for name in ("tonight", "2026-1-3", "20260103", "2026-02-30", "2026-01-03T02:00"):
        with pytest.raises(LedgerError, match="named by the date"):
            ask(lite, stream, name, some([4]))


def test_a_stream_that_follows_shares_its_claims(ledger: Ledger) -> None:
    """It costs nothing more for units that are new; other streams pay and may hold the same."""
    one = start(ledger)
    spend(ledger, one, day(0), some([1, 2]))
    two = start(ledger, "second", cost=GDP(0.4), follows="nightly")
    three = start(ledger, "third", follows="second", cost=GDP(0.3))
    assert one.cost == two.cost == three.cost  # the charge that paid for all
    other = start(ledger, "other")
    assert ledger.show()[0].releases == 2
    assert spend(ledger, two, day(0), some([3])).night == 1
    for stream, units in ((two, [1]), (three, [3]), (one, [3])):
        with pytest.raises(LedgerError, match="yesterday's images"):
            ask(ledger, stream, day(5), some(units))
    spend(ledger, other, day(0), some([1, 2, 3]))
    with pytest.raises(LedgerError, match="no more than that"):
        start(ledger, "dear", follows="nightly", cost=GDP(0.6))
    with pytest.raises(LedgerError, match="counts other privacy units"):
        start(ledger, "people", follows="nightly", persons=True)
    with pytest.raises(LedgerError, match="has no stream 'lost'"):
        start(ledger, "x", follows="lost")


@pytest.mark.parametrize("what", ["middle", "last", "label", "unit", "night", "older"])
def test_claims_that_were_changed_or_lost_are_noticed(
    lite: Ledger, tmp_path: Path, what: str
) -> None:
    """A claim that is deleted or changed stops the night that would let its unit enter again."""
    stream, file = start(lite), tmp_path / "ledger.sqlite"
    for number in range(6):
        spend(lite, stream, day(number), some(range(10 * number, 10 * number + 10)))
    key = unit_digest(lite.key, some([13])[0])
    statement = {
        "middle": f"DELETE FROM covdp_claims WHERE unit = x'{key.hex()}'",
        "last": "DELETE FROM covdp_claims WHERE unit = (SELECT max(unit) FROM covdp_claims)",
        "label": f"UPDATE covdp_claims SET label = '1' WHERE unit = x'{key.hex()}'",
        "unit": f"UPDATE covdp_claims SET unit = randomblob(16) WHERE unit = x'{key.hex()}'",
        "night": f"UPDATE covdp_claims SET night = night + 1 WHERE unit = x'{key.hex()}'",
        "older": "DELETE FROM covdp_claims WHERE night > 10",
    }[what]
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute(statement).rowcount
    with pytest.raises(LedgerError, match="claimed were changed or lost"):
        ask(lite, stream, day(6), some(range(60)))
    assert lite.show()[0].releases == 1  # accounts rest on the journal alone
    if what == "older":
        with pytest.raises(LedgerError, match="claimed were changed or lost"):
            ask(lite, stream, day(6), some([61]))


def test_a_row_that_was_changed_is_noticed_as_its_unit_comes(
    lite: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its mac alone, on a night that verifies no other: its class, and its night."""
    stream = start(lite, persons=True)
    for number in range(3):
        spend(lite, stream, day(number), some([number]))
    monkeypatch.setattr(streams, "CHECKED", 1)
    key = unit_digest(lite.key, some([0])[0]).hex()
    for column, value in (("label", "'1'"), ("night", "night + 2")):
        with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection, connection:
            then = connection.execute(f"SELECT {column} FROM covdp_claims WHERE unit = x'{key}'")
            before = then.fetchone()
            change = f"UPDATE covdp_claims SET {column} = {{}} WHERE unit = x'{key}'"
            assert connection.execute(change.format(value)).rowcount
        for call in (lambda: entered_on(lite, stream, some([0])), lambda: late(lite, stream)):
            with pytest.raises(LedgerError, match="claimed were changed or lost"):
                call()
        with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection, connection:
            connection.execute(change.format("?"), before)
    assert late(lite, stream).units == 0
    assert entered_on(lite, stream, some([0])) == (1,)


def late(ledger: Ledger, stream: StreamAccount) -> NightState:
    """Ask for a night of the first unit."""
    found = ask(ledger, stream, day(9), some([0]))
    assert found.committed is None
    return found


def test_any_loss_is_noticed_within_some_nights(
    lite: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each night verifies the one before it and two others at random, once there are many claims.

    A loss is missed by 54 nights with probability ∏(1 − 2/n), 0.008; each run draws the same.
    """
    monkeypatch.setattr(streams, "CHECKED", 5)
    stream = start(lite, horizon=200)
    for number in range(6):
        spend(lite, stream, day(number), some([10 * number, 10 * number + 1]))
    key = unit_digest(lite.key, some([10])[0])
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection, connection:
        assert connection.execute("DELETE FROM covdp_claims WHERE unit = ?", [key]).rowcount

    def go_on() -> None:
        for number in range(6, 60):
            spend(lite, stream, day(number), some([10 * number, 10 * number + 1]))

    with pytest.raises(LedgerError, match="changed or lost"):
        go_on()


def test_uniqueness_is_the_databases(ledger: Ledger) -> None:
    """Whoever writes a claim a second time, past every check, is refused by the database."""
    stream = start(ledger)
    spend(ledger, stream, day(0), some([1]))
    key = unit_digest(ledger.key, b"unit 1")

    def claim() -> None:
        with ledger.transaction() as book:
            scope = book.state.streams[stream.identity].scope
            add_claims(book.connection, ledger.key, scope, 99, {key: "0"})

    with pytest.raises(LedgerError, match=r"refused a statement|damaged"):
        claim()


def test_killed_at_any_statement_claims_once(ledger: Ledger) -> None:
    """Killed before any statement or commit of a night, then started again: every unit enters once.

    Every second statement, or, as starting a process beside a server is slow, there every sixth.
    """
    stream = start(ledger, horizon=200)
    expected = 0
    for step in range(0, 120, 2 if ledger.database.file else 6):

        def run(step: int = step) -> None:
            kill_at(step)
            spend(ledger, stream, day(step), some([2 * step, 2 * step + 1]))

        code = in_child(run)
        reserved = now(ledger).nights - expected
        assert reserved in (0, 1)
        stored = spend(ledger, stream, day(step), some([2 * step, 2 * step + 1]))
        expected += 1
        assert (stored.night, stored.units) == (expected, 2)
        with pytest.raises(LedgerError, match="yesterday's images"):
            ask(ledger, stream, day(step + 1), some([2 * step]))
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert 8 < step < 60
    assert len(stored_nights(ledger, stream)) == expected


@pytest.mark.slow
def test_killed_at_random_moments_every_unit_enters_once(ledger: Ledger) -> None:
    """After kill -9 at any moment of a run of nights, what was published is there, and no more."""
    stream = start(ledger, horizon=5000)
    clock, night = random.Random(6), 0
    for _ in range(4):
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            for number in range(night, 300):
                os.write(sink, spend(ledger, stream, day(number), some([number])).result)
            os._exit(0)
        os.close(sink)
        time.sleep(clock.uniform(0.05, 0.2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(source, "rb") as published:
            results = published.read()
        kept = [one.result for one in stored_nights(ledger, stream)][night:]
        assert kept[: len(results) // 8] == [results[i : i + 8] for i in range(0, len(results), 8)]
        assert len(kept) - len(results) // 8 in (0, 1)
        night += len(kept)
        assert spend(ledger, stream, day(night), some([night])).night == night + 1
        night += 1


BARRIER: list[object] = []


def meet(barrier: object) -> None:
    """Keep the barrier that all processes of the pool wait at."""
    BARRIER.append(barrier)


def compete(address: str, i: int, stream: StreamAccount) -> list[object]:
    """Run nights as each of eight schedules would; return bytes, and the last refusal."""
    ledger = open_ledger(address)
    BARRIER[0].wait(PATIENCE)  # type: ignore[attr-defined]
    found: list[object] = [
        spend(ledger, stream, day(number), some(range(3 * number, 3 * number + 3))).result
        for number in range(2)
    ]
    try:  # a night of its own, with an image that all want
        spend(ledger, stream, day(10 + i), some([1000, 2000 + i]))
    except LedgerError as error:
        return [*found, str(error)]
    return [*found, ""]


@pytest.mark.slow
def test_eight_processes_at_once(tmp_path: Path) -> None:
    """Eight starts of a night publish the same bytes, and an image that all offer enters once."""
    context = multiprocessing.get_context("fork")
    with context.Pool(EIGHT, meet, [context.Barrier(EIGHT)]) as pool:
        for backend in ("sqlite", "postgresql"):
            address = new_address(backend, tmp_path)
            ledger = init_ledger(address)
            ledger.set_budget("ward", GDP(1.0))
            stream = start(ledger)
            told = [(address, i, stream) for i in range(EIGHT)]
            found = pool.starmap(compete, told, chunksize=1)
            assert len({tuple(one[:2]) for one in found}) == 1
            lines = [str(one[2]) for one in found if one[2]]
            assert len(lines) == EIGHT - 1
            known = ("yesterday", "go forward", "not finished")
            assert all(any(word in line for word in known) for line in lines)
            assert [one.units for one in stored_nights(ledger, stream)] == [3, 3, 2]
            assert ledger.show()[0].releases == 1


def test_a_restored_ledger_ends_its_streams(lite: Ledger, tmp_path: Path) -> None:
    """What entered after the backup is forgotten, so no night may follow; another stream pays."""
    stream, file = start(lite), tmp_path / "ledger.sqlite"
    found = ask(lite, stream, day(0), some([1]))
    assert found.committed is None
    held = file.read_bytes()
    commit_night(lite, found, b"published")
    file.write_bytes(held)
    with pytest.raises(LedgerError, match="confirm-restored"):
        ask(lite, stream, day(1), some([1]))
    assert confirm_restored(file)
    with pytest.raises(LedgerError, match="does not know this night"):
        commit_night(lite, found, b"drawn again")
    for call in (
        lambda: ask(lite, stream, day(1), some([1])),
        lambda: start(lite),
        lambda: now(lite),
    ):
        with pytest.raises(LedgerError, match="ended when the ledger was restored"):
            call()
    with pytest.raises(LedgerError, match="whose images or persons are all known"):
        start(lite, "next", follows="nightly")
    start(lite, "next")
    assert lite.show()[0].releases == 2


def test_nothing_in_the_file_is_known_by_its_pixels(lite: Ledger, tmp_path: Path) -> None:
    """Claims hold HMACs under the ledger's key alone, not what the caller knows units by."""
    spend(lite, start(lite), day(0), [b"digest of pixels"])
    held = (tmp_path / "ledger.sqlite").read_bytes()
    assert b"digest of pixels" not in held
    assert unit_digest(lite.key, b"digest of pixels") in held


def test_a_night_costs_no_more_after_many_claims(tmp_path: Path) -> None:
    """A night of 200 new units takes as many calls, and steps of SQLite, among 20,000 as 200.

    Steps grow with the depth of an index, by some percent. By hand, among 10⁶ claims in SQLite, a
    night took 0.03 s.
    """
    few, many = (effort_of_a_night(tmp_path / f"{claims}", claims) for claims in (200, 20_000))
    assert many[0] < 1.5 * few[0]
    assert many[1] < 1.5 * few[1]


def effort_of_a_night(file: Path, claims: int) -> tuple[int, int]:
    """Return what a night of 200 new units takes after so many claims: calls, steps of SQLite.

    The least of ten nights: one in five verifies those 20,000 anew, all ten in 1 of 10⁷ runs.
    """
    ledger = init_ledger(file)
    ledger.set_budget("ward", GDP(1.0))
    stream = start(ledger)
    fill(ledger, stream, claims)
    spend(ledger, stream, day(1), some([1]))  # verifies the long one
    connect_plain, steps = database._connect, list[int]()

    def counted(place: database.Database) -> Any:
        raw = connect_plain(place)
        raw.set_progress_handler(lambda: steps.append(1), 1)
        return raw

    efforts = []
    for number in range(3, 13):
        units = some(range(100_000 * number, 100_000 * number + 200))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "_connect", counted)
            steps.clear()
            effort = calls(lambda n=number, u=units: spend(ledger, stream, day(n), u))
        efforts.append((effort - len(steps), len(steps)))
    return min(efforts)


def fill(ledger: Ledger, stream: StreamAccount, count: int) -> None:
    """Let many units enter on the first night."""
    many = {unit_digest(ledger.key, unit): "0" for unit in some(range(-count, 0))}
    with ledger.transaction() as book:
        scope = book.state.streams[stream.identity].scope
        row = len(book.journal.rows) + 1
        known = {"units": count, "claims": night_mac(ledger.key, scope, row, many)}
        told = {"stream": stream.identity, "identity": "0" * 64, "night": 1, "run_key": day(0)}
        book = book.write({"kind": "night", "at": "2026-01-01T00:00:00+00:00", **known, **told})
        add_claims(book.connection, ledger.key, scope, row, many)
    commit_night(ledger, now(ledger).rows[-1], b"x")


def test_a_journal_with_a_stream_is_refused_without_its_add_on(
    lite: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line: what the stream was charged would be missing in the account."""
    start(lite)
    monkeypatch.delitem(EVENTS, "stream")
    api._KNOWN.clear()
    line = "^row 3 of the ledger's journal needs an add-on that is not there; use an installation"
    with pytest.raises(LedgerError, match=line):
        lite.show()
