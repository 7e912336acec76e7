"""A night after a million claims, in SQLite and in PostgreSQL, against one of the first nights."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from covdp.addons.nights.account import StreamAccount
from covdp.addons.nights.ledger import commit_night, open_stream, reserve_night, stream_status
from covdp.ledger import Ledger, init_ledger
from covdp.privacy import GDP
from tests.tools.benchmarks.bench_stream import UNITS, day, write_nights

NIGHTS = 5000
"""Nights of the past: with `UNITS` a night a million claims."""
LONG = 3600.0
"""Seconds that the past may take to write."""


def run() -> list[dict[str, Any]]:
    """Return the seconds in which the ledger takes up a night early and late, least of three."""
    from tests.tools.postgres import new_address

    rows = []
    for backend in ("sqlite", "postgresql"):
        with tempfile.TemporaryDirectory() as folder:
            rng = np.random.default_rng(0)
            ledger = init_ledger(new_address(backend, Path(folder)), timeout=LONG)
            ledger.set_budget("ward-7", GDP(2.0))
            told = {"horizon": 2 * NIGHTS, "cost": GDP(2.0)}
            stream = open_stream(ledger, "ward-7", "nightly", "q", **told)  # type: ignore[arg-type]
            early = min(settle(ledger, stream, night, rng) for night in range(1, 5))
            write_nights(ledger, stream, 4, NIGHTS, rng)
            after = range(NIGHTS + 1, NIGHTS + 4)
            late = min(settle(ledger, stream, night, rng) for night in after)
        name = f"{UNITS} units after {NIGHTS * UNITS:,} others, {backend}; peer: after none"
        rows.append({"name": name, "ours": late, "peer": early, "unit": "s", "ratio": late / early})
    return rows


def settle(ledger: Ledger, stream: StreamAccount, night: int, rng: np.random.Generator) -> float:
    """Claim new units, commit a night; return how long that takes."""
    units, labels = [rng.bytes(32) for _ in range(UNITS)], ["0 well"] * UNITS
    now = stream_status(ledger, "ward-7", "nightly", day(night))
    assert now is not None
    started, version = time.perf_counter(), now.version
    held = reserve_night(ledger, stream, day(night), units=units, labels=labels, version=version)
    assert held is not None
    commit_night(ledger, held, b"{}")
    return time.perf_counter() - started
