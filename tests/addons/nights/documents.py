"""Documents and sums of the nights of a ward."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_nights import Ward

from covdp.addons.nights.ledger import stream_status
from covdp.addons.nights.night import mechanism_of
from covdp.addons.nights.sums import read_sums
from tests.publish.scripted import ScriptedSource, noised, replay, stand_in  # noqa: F401  (a fixture)


@pytest.fixture
def ward(tmp_path: Path) -> Ward:
    """Return a ward without images, and a ledger that pays for its stream alone."""
    found = Ward(tmp_path)
    found.pay()
    return found


def next_sums(ward: Ward, day: int) -> list[Any]:
    """Settle a night and return the private sums that its file holds, which follow these nights."""
    ward.settle(day)
    now = stream_status(ward.ledger, "ward-7", "nightly", f"2026-03-{day:02d}")
    assert now
    ground = mechanism_of(ward.stream.query)
    first, *later = now.stream.rows
    sums = read_sums(ward.ledger, now, ground, later[-1])
    assert sums
    other = replace(now.stream, rows=(replace(first, digest="another first night"), *later))
    assert read_sums(ward.ledger, replace(now, stream=other), ground, later[-1]) is None
    return [tuple(x.tolist() for x in (one.shells, one.means)) for one in sums.after]
