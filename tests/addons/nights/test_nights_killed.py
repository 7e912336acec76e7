"""Thirty nights, most of them killed at random moments: then every promise again."""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from sample_documents import documents_of
from sample_nights import Ward

from covdp.addons.nights.ledger import stored_nights
from covdp.addons.nights.stream import cumulative_mean
from covdp.addons.nights.sums import sums_folder
from covdp.addons.nights.transcript import read_histories
from covdp.privacy import GDP
from tests.addons.nights.documents import next_sums
from tests.tools.children import in_child

pytestmark = pytest.mark.usefixtures("noise_in_doubles")

SEED, LATER = 12, 4
"""Kills come in the first `LATER` halves of what a night takes: some are too late."""
OURS = str(Path(__file__).parents[3] / "pipeline")


def trace(act: Callable[[int], None]) -> None:
    """From now on call `act` with how many of our functions have begun or ended."""
    moments = 0

    def count(frame: FrameType, what: str, _: object) -> Any:
        nonlocal moments
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_lines = False
        if what in ("call", "return"):
            moments += 1
            act(moments)
        return count

    sys.settrace(count)


def kill(*_: object) -> None:
    """End this process as power cuts do."""
    os.kill(os.getpid(), signal.SIGKILL)


def thirty(ward: Ward, rng: random.Random, out: Path) -> tuple[list[int], list[int], list[bool]]:
    """Let nights come and be killed; return all images, how each ended, and if it had claimed.

    Half of the kills come at a call of a function of ours, drawn from all that a night makes, half
    by the processor's clock, which others do not turn, anywhere. What was killed is done by the
    next night, or asked for again, or both.
    """
    ward.put(well=5, ill=5)
    ward.settle(1)
    ward.put(well=1, ill=1)
    moments, started = list[int](), time.process_time()
    trace(moments.append)
    ward.settle(2)
    sys.settrace(None)
    seconds = time.process_time() - started
    images, ended, claimed = [6, 6], list[int](), list[bool]()
    for day in range(3, 29):
        well, ill = rng.randrange(3), rng.randrange(3)
        ward.put(well=well, ill=ill)
        images = [images[0] + well, images[1] + ill]
        at = rng.randrange(LATER * len(moments) // 2)
        clock = rng.uniform(0.0, LATER * seconds / 2) if rng.random() < 0.5 else None

        def run(day: int = day, at: int = at, clock: float | None = clock) -> None:
            if clock is None:
                trace(lambda moment: kill() if moment > at else None)
            else:
                signal.setitimer(signal.ITIMER_PROF, max(clock, 1e-6))
            for content in ward.settle(day):
                path = out / json.loads(content)["settings"]["run_key"]
                path.with_suffix(".part").write_bytes(content)
                path.with_suffix(".part").rename(path)

        ended.append(in_child(run))
        claimed.append(ward.stream.latest == f"2026-03-{day:02d}")
        if rng.random() < 0.3:
            ward.settle(day)
    return images, ended, claimed


def test_thirty_nights_killed_at_random_moments(tmp_path: Path) -> None:
    """No unit enters twice or is lost, what was given out is what is stored, one charge, one story.

    What was summed up is, to the last bit, what the images of all nights make.
    """
    ward, rng, out = Ward(tmp_path), random.Random(SEED), tmp_path / "out"
    ward.pay()
    out.mkdir()
    images, ended, claimed = thirty(ward, rng, out)
    assert set(ended) <= {0, -signal.SIGKILL, -signal.SIGPROF}
    assert ended.count(-signal.SIGKILL) >= 4
    assert {0, -signal.SIGPROF} <= set(ended)  # how often depends on what a second is worth
    assert {found for code, found in zip(ended, claimed, strict=True) if code} == {False, True}
    last = json.loads(ward.settle(29)[-1])

    assert [row["n_so_far"] for row in last["classes"]] == images
    stored = {night.run_key: night.result for night in stored_nights(ward.ledger, ward.stream)}
    with ward.ledger.transaction(write=False) as book:
        rows = book.connection.exec_driver_sql("SELECT unit FROM covdp_claims").all()
        assert len(rows) == len(set(rows)) == sum(images)
    given = {path.name: path.read_bytes() for path in out.iterdir() if not path.suffix}
    assert given
    assert given.items() <= stored.items()
    for key in rng.sample(sorted(stored), 4):
        assert ward.settle(int(key[-2:])) == [stored[key]]
    (account,) = ward.ledger.show("ward-7")
    assert (account.spent, account.releases, account.unfinished) == (GDP(20.0), 1, 0)
    histories = read_histories(documents_of(stored.values()))
    for found, row in zip(histories, last["classes"], strict=True):
        mean = cumulative_mean(found.stream, found.nights)
        assert mean
        assert mean.point.tolist() == row["point"]
    expected = next_sums(ward, 30)
    for path in sums_folder(ward.ledger, ward.stream).glob("*.sums"):
        path.unlink()
    again = next_sums(ward, 31)
    assert [[rows[:-1] for rows in series] for series in again] == [list(one) for one in expected]
