"""Nights that overlap, under audit: which nights each of them goes on from, as the ledger decides.

In: a number of nights. Out: from how many nights each goes on, which is all that an overlap may
change of a transcript. A ledger of its own says it, in a folder that goes.
"""

import tempfile
from functools import cache
from pathlib import Path

from pipeline.ledger import (
    NightReservation,
    StreamStatus,
    commit_night,
    init_ledger,
    open_stream,
    reserve_night,
    stream_status,
)
from pipeline.privacy import GDP

POPULATION, STREAM = "audit", "nights"


@cache
def overlapping(count: int) -> tuple[int, ...]:
    """Return from how many nights each of `count` nights goes on, all but the first begun at once.

    Each has read how far the stream is before any other of them was reserved; one that is told that
    another came between reads again.
    """
    days = [f"2000-01-{1 + number:02d}" for number in range(count)]
    found = list[int]()
    with tempfile.TemporaryDirectory() as folder:
        ledger = init_ledger(Path(folder) / "ledger.sqlite")
        ledger.set_budget(POPULATION, GDP(1.0))
        stream = open_stream(ledger, POPULATION, STREAM, "{}", horizon=count, cost=GDP(1.0))

        def read(day: str) -> StreamStatus:
            now = stream_status(ledger, POPULATION, STREAM, day)
            assert now is not None
            return now

        def settle(day: str, now: StreamStatus) -> None:
            units = [day.encode()]
            while (
                held := reserve_night(
                    ledger, stream, day, units=units, labels=["0"], version=now.version
                )
            ) is None:
                now = read(day)
            assert isinstance(held, NightReservation)
            commit_night(ledger, held, b"{}")
            found.append(len(now.digests))

        settle(days[0], read(days[0]))
        for day, now in [(day, read(day)) for day in days[1:]]:
            settle(day, now)
    return tuple(found)
