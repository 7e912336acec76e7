"""Two nights of one stream that overlap: what comes out is what nights in a row release.

One night is stopped at some step, in another process, while another runs to its end or as far as
the lock of the ledger lets it; then the first goes on. Noise is left out, so that the documents
can be compared, to the last bit, with what the nights that units entered on release in a row.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sample_documents import documents_of
from sample_nights import Ward

from covdp.addons.nights.account import StreamAccount
from covdp.addons.nights.arrivals import arrivals
from covdp.addons.nights.ledger import entered_on, stored_nights, stream_named
from covdp.addons.nights.night import public_of, release_night, unfinished_night
from covdp.addons.nights.stream import Night, StreamMechanism, add_units, draw_night, empty_state
from covdp.addons.nights.transcript import read_histories
from covdp.datasets import find_card, open_fetched
from covdp.errors import CovdpError, LedgerError
from covdp.ledger import Ledger
from covdp.ledger.database import TABLES
from covdp.ledger.journal import MARKERS_VARIABLE
from covdp.mechanisms import NOISES, NoisyVector
from covdp.publish import load_release
from covdp.store import fill, find_place, make_plan
from tests.tools.patience import PATIENCE
from tests.tools.postgres import direct, new_address

settling, reserving = "covdp.addons.nights.night", "covdp.addons.nights.ledger"

WAITS = 0.05
"""Seconds that the other night waits for a lock that the one stopped holds."""
STEPS = (
    (settling, "check_due"),
    ("covdp.publish.config", "open_fetched"),
    *((settling, name) for name in ("open_stream", "read_sums", "find_unread")),
    *((settling, name) for name in ("_read_tonight", "entered_on", "read_past", "reserve_night")),
    *((reserving, name) for name in ("version_of", "find_claims", "add_claims")),
    *((settling, name) for name in ("write_sums", "make_night", "commit_night", "forget_sums")),
)
"""What a night does, one after another."""
LOCKED = range(9, 14)
"""What it does while it alone may write to the ledger, the end of `write_sums` included."""
REFUSALS = ("nights go forward", "is not finished", "has been locked by another process")
"""What a night that comes too late, or at the same moment, may be told."""


class Silent:
    """No noise: what was asked is released as it is."""

    rng = None

    def __call__(self, vector: np.ndarray, sigma: float, sensitivity: float) -> NoisyVector:
        """Return the vector, and what noise would certify."""
        return NoisyVector(np.array(vector), sensitivity**2 / (2.0 * sigma**2))


@pytest.fixture(autouse=True)
def silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have releases draw no noise, and the markers of a ledger lie in the ward, to be copied.

    All is written at one time, of files too: so what two streams keep can be compared byte by byte.
    """
    monkeypatch.setitem(NOISES, "hardened", Silent)
    monkeypatch.setattr("covdp.datasets.source.file_state", os.fsencode)
    # a server that is slow to say that it is locked is not one that is silent
    monkeypatch.setattr("covdp.ledger.database._deadline", lambda *_: nullcontext())
    for module in ("ledger.api", "addons.nights.ledger"):
        monkeypatch.setattr(f"covdp.{module}.now", lambda: "2026-03-01T00:00:00+00:00")
    monkeypatch.setenv(MARKERS_VARIABLE, str(tmp_path / "ward" / "markers"))


@pytest.fixture
def other() -> Iterator[ProcessPoolExecutor]:
    """Return another process, in which nights are stopped."""
    with ProcessPoolExecutor(1, get_context("fork")) as process:
        yield process


class StopPoint(NamedTuple):
    """A step of a night, a function of a module, right before or after which it is stopped."""

    module: str
    name: str
    after: bool


class Meeting(NamedTuple):
    """Which night is stopped, which run meanwhile, and how many images came on the first night."""

    stopped: int
    meanwhile: tuple[int, ...]
    first: int


MEETINGS = {
    "overtaken at the opening": Meeting(4, (2,), 2),
    "overtaken later": Meeting(4, (2,), 5),
    "overtaken by two": Meeting(4, (2, 3), 5),
    "the same night": Meeting(2, (2,), 2),
    "late": Meeting(2, (3,), 2),
}


class Overlaps:
    """Streams of one ward, each in a ledger of its own, with two nights that overlap.

    They have the same images, which each of the two processes describes once.
    """

    def __init__(self, kind: str, place: Path, other: ProcessPoolExecutor) -> None:
        self.kind, self.ward, self.other = kind, Ward(place / "ward"), other
        self.gone_on = set[tuple[bool, frozenset[Any]]]()

    def meet(self, meeting: Meeting, stop: StopPoint, *, locked: bool = False) -> str:
        """Let nights overlap, then more come; return what was said by the one stopped.

        Images are gone where two nights run meanwhile before the first goes on. Where nights that
        overlapped leave what others have left, to the last byte, later ones are not run once more.
        """
        self.begin(meeting.first)
        ward = self.ward
        ward.put(3, 2)
        process = self.other.submit(os.getpid).result()
        night = self.other.submit(settle_stopped, ward, meeting.stopped, stop)
        while os.waitpid(process, os.WUNTRACED | os.WNOHANG) == (0, 0):
            assert not night.done(), f"ended before it was stopped: {night.exception()}"
            time.sleep(0.002)
        try:
            refused = again = self.others(meeting, WAITS if locked else PATIENCE)
            if not refused and len(meeting.meanwhile) > 1:
                self.empty()
        finally:
            os.kill(process, signal.SIGCONT)
        error = night.exception()
        if error and not isinstance(error, CovdpError):
            raise error
        if refused:
            again = self.others(meeting)
        waiting = again or meeting.stopped in meeting.meanwhile
        if not waiting:
            self.empty()
        if (left := (waiting, self.left())) not in self.gone_on:
            self.go_on(waiting=waiting)
            self.gone_on.add(left)
        told = str(error or "")
        known = [one for one in (refused, again, told) if one]
        assert all(any(words in one for words in REFUSALS) for one in known), known
        return told or refused

    def left(self) -> frozenset[Any]:
        """Return all that later nights rest on: the files of the ward, the rows of its ledger."""
        ledger = self.ward.ledger
        files = {path for path in self.ward.folder.rglob("*") if path.is_file()}
        kept: list[Any] = [(path, path.read_bytes()) for path in files - {ledger.database.file}]
        with ledger.transaction(write=False) as tx:
            for table in TABLES.sorted_tables:
                kept += [(table.name, *row) for row in tx.connection.execute(table.select())]
        return frozenset(kept)

    def go_on(self, *, waiting: bool) -> None:
        """Let more nights come, and compare all there were with nights in a row.

        Images are gone once they have entered: so what the nights kept has to be whole. Where all
        have entered one more night shows that; where some may wait it takes them up, and another
        one comes.
        """
        ward = self.ward
        for day in (5, 6) if waiting else (5,):
            ward.put(1, 0)
            settle(ward, day, "store")
            self.empty()
        (ward.folder / "ward").rename(ward.folder / "empty")
        (ward.folder / "gone").rename(ward.folder / "ward")
        check(ward.ledger, ward.folder)
        (ward.folder / "empty").rename(ward.folder / "gone")

    def begin(self, first: int) -> None:
        """Settle the first night, once for each number of images; later its state is restored."""
        folder, begun = self.ward.folder, self.ward.folder.with_name(f"begun-{first}")
        shutil.rmtree(folder)
        if begun.exists():
            shutil.copytree(begun, folder)
            self.copy_tables("begun_", "")
            self.ward.made = 2 * first
            return
        folder.mkdir()
        self.ward = Ward(folder, address=new_address(self.kind, folder))
        for name in ("well", "ill"):
            (folder / "gone" / name).mkdir(parents=True)
        self.ward.pay(1e4)
        self.ward.put(first, first)
        settle(self.ward, 1, "store")
        shutil.copytree(folder, begun)
        self.copy_tables("", "begun_")

    def copy_tables(self, source: str, target: str) -> None:
        """Copy a ledger in PostgreSQL from tables with one prefix to tables with another."""
        if self.kind == "sqlite":
            return
        schema = self.ward.address.rpartition("%3D")[2]
        with direct(f"options=-csearch_path={schema}") as connection:
            for name in TABLES.tables:
                copy, of = f"{target}{name}", f"{source}{name}"
                connection.execute(f"CREATE TABLE IF NOT EXISTS {copy} (LIKE {of})".encode())
                connection.execute(f"DELETE FROM {copy}".encode())
                connection.execute(f"INSERT INTO {copy} SELECT * FROM {of}".encode())

    def others(self, meeting: Meeting, timeout: float = PATIENCE) -> str:
        """Settle the nights that run meanwhile; return what the first that is refused is told."""
        for day in meeting.meanwhile:
            self.ward.put(2, 3)
            try:
                settle(self.ward, day, "store", timeout)
            except LedgerError as error:
                return str(error)
        return ""

    def empty(self) -> None:
        """Take away all images that lie there."""
        for path in self.ward.folder.glob("ward/*/*.png"):
            path.rename(self.ward.folder / "gone" / path.relative_to(self.ward.folder / "ward"))


def settle(ward: Ward, day: int, place: str, timeout: float = PATIENCE) -> list[bytes]:
    """Settle a night of the stream of now, one that is not finished first."""
    path, database = ward.folder / "night.toml", replace(ward.ledger.database, timeout=timeout)
    ledger = replace(ward.ledger, database=database)
    configs = [load_release(path, run_key=f"2026-03-{day:02d}")]
    if before := unfinished_night(configs[0], ledger):
        configs.insert(0, load_release(path, run_key=before))
    store = find_place(ward.folder.with_name(place))
    return [release_night(told, ledger, ward.folder, store) for told in configs]


def settle_stopped(ward: Ward, day: int, stop: StopPoint) -> None:
    """Settle a night; this process stops at the first call of a step."""
    module, calls = sys.modules[stop.module], list[bool]()
    real = getattr(module, stop.name)

    def stopped(*args: Any, **told: Any) -> Any:
        calls.append(True)
        if len(calls) == 1 and not stop.after:
            os.kill(os.getpid(), signal.SIGSTOP)
        found = real(*args, **told)
        if len(calls) == 1 and stop.after:
            os.kill(os.getpid(), signal.SIGSTOP)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, stop.name, stopped)
        settle(ward, day, "other")


def check(ledger: Ledger, folder: Path) -> None:
    """Replay a stream from the images and the night on which each entered: it is what came out."""
    stream = stream_named(ledger, "ward-7", "nightly")
    assert stream
    results = (night.result for night in stored_nights(ledger, stream))
    documents: list[Any] = documents_of(results)
    assert [document.night for document in documents] == list(range(1, stream.nights + 1))
    assert stream.pending is None
    present, entered = units_of(ledger, stream, folder)
    assert None not in entered
    assert len(present.units) == len(list(folder.glob("ward/*/*.png")))
    for found, points, owner in zip(
        read_histories(documents), present.points, present.owners, strict=True
    ):
        on = np.array([entered[one] for one in owner])
        came = tuple(points[on == night.night].tobytes() for night in found.nights)
        stands_on = found.stream.plan, found.stream.domain, found.stream.manifold
        mine = replayed(stands_on, points.shape[1:], came)
        for one, night in zip(mine, found.nights, strict=True):
            assert_same(one, night)
        assert sum(night.opened is not None for night in found.nights) == 1
        assert found.nights[-1].n_so_far == len(points)
    charges = [one for one in ledger.history("ward-7") if one.kind == "stream"]
    assert len(charges) == 1


@lru_cache(maxsize=64)  # most streams of a test come to the same
def replayed(
    stands_on: tuple[Any, ...], shape: tuple[int, ...], came: tuple[bytes, ...]
) -> tuple[Night, ...]:
    """Return what nights of a stream release without noise, by the points that came on each."""
    stream = StreamMechanism(*stands_on)
    history, private = list[Night](), empty_state(stream.space.dim)
    for content in came:
        points = np.frombuffer(content).reshape(-1, *shape)
        private = add_units(stream, history, private, points)
        history.append(draw_night(stream, history, private, len(points), noise=Silent()))
    return tuple(history)


def units_of(
    ledger: Ledger, stream: StreamAccount, folder: Path
) -> tuple[Any, tuple[int | None, ...]]:
    """Return all units that lie there, and on which night of a stream each entered."""
    config = load_release(folder / "night.toml", run_key="2026-03-01")
    source = open_fetched(find_card(config.dataset), folder / "ward", ledger.person_key())
    plan = make_plan(source, None, descriptor=config.descriptor, eta=config.eta)
    stored = fill(plan, find_place(folder.with_name("store")), shown=False).stored
    present = arrivals(source, plan, stored, public_of(config, source, None).form)
    return present, entered_on(ledger, stream, present.units)


def assert_same(mine: Night, theirs: Night) -> None:
    """Assert that a night released these very numbers."""
    assert (mine.night, mine.units, mine.n_so_far) == (theirs.night, theirs.units, theirs.n_so_far)
    assert (mine.opened is None) == (theirs.opened is None)
    assert (mine.epoch is None) == (theirs.epoch is None)
    pairs = [(getattr(mine, x), getattr(theirs, x)) for x in ("shells", "w", "moment")]
    if mine.opened and theirs.opened:
        pairs.append((mine.opened.offset, theirs.opened.offset))
    if mine.epoch and theirs.epoch:
        pairs.append((mine.epoch.centre, theirs.epoch.centre))
    for one, other in pairs:
        assert (one is None) == (other is None)
        assert one is None or np.array_equal(one, other)


def test_a_night_that_was_overtaken_begins_anew(tmp_path: Path, other: ProcessPoolExecutor) -> None:
    """It has read how far the stream is, and waits while another runs to its end."""
    found, stop = Overlaps("sqlite", tmp_path, other), StopPoint(settling, "check_due", after=True)
    for name in ("overtaken at the opening", "overtaken later", "overtaken by two"):
        assert found.meet(MEETINGS[name], stop) == ""


BOTH = ("overtaken at the opening", "the same night")
"""Meetings in a ledger of each kind; the others, whose locks are the same, in SQLite's alone.

In PostgreSQL nights are stopped where they hold the lock, and right before and after it.
"""
WHERE = [*(("sqlite", name) for name in MEETINGS), *(("postgresql", name) for name in BOTH)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), WHERE)
def test_stopped_between_any_two_steps(
    kind: str, name: str, tmp_path: Path, other: ProcessPoolExecutor
) -> None:
    """Each unit enters once, no coefficient repeats, one charge, and later nights go on.

    A night that has claimed nothing is overtaken, and begins anew, or comes too late; one that has
    is finished by the other, or before it. While it claims, the other waits for the lock.
    """
    overlaps = Overlaps(kind, tmp_path, other)
    meeting, begun, done = MEETINGS[name], "", ""
    if meeting.stopped < meeting.meanwhile[0]:
        begun = "nights go forward"
    elif meeting.stopped > meeting.meanwhile[0]:
        done = "nights go forward"
    stops = [StopPoint(module, step, after=False) for module, step in STEPS]
    stops.insert(LOCKED.stop - 1, StopPoint(settling, "write_sums", after=True))
    near = range(LOCKED.start - 1, LOCKED.stop + 1)
    for place in near if kind == "postgresql" else range(len(stops)):
        stop = stops[place]
        said = overlaps.meet(meeting, stop, locked=place in LOCKED)
        expected = begun if place < LOCKED.start else done
        expected = "has been locked" if place in LOCKED else expected
        assert expected in said, (stop, said)
        assert bool(expected) == bool(said), (stop, said)
