"""Two nights of one stream that overlap: what comes out is what nights in a row release."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from sample_nights import Ward

from pipeline.ledger import stored_nights
from pipeline.privacy import GDP

settling = sys.modules["pipeline.publish.night"]


@pytest.mark.parametrize("opened", [False, True], ids=["opening", "later"])
def test_a_night_that_was_overtaken_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    """It has read how far the stream is, and waits while another night runs to its end."""
    ward = Ward(tmp_path)
    ward.pay()
    ward.put(well=5 if opened else 2, ill=5 if opened else 2)
    ward.settle(1)
    real = settling.how_far

    def late(*args: Any) -> Any:
        monkeypatch.setattr(settling, "how_far", real)
        found = real(*args)
        ward.put(well=3, ill=3)
        ward.settle(2)
        ward.put(well=3, ill=3)
        return found

    monkeypatch.setattr(settling, "how_far", late)
    ward.settle(3)
    for day in (4, 5):
        ward.put(well=1, ill=1)
        ward.settle(day)
    nights = [json.loads(night.result) for night in stored_nights(ward.ledger, ward.stream)]
    assert [night["night"] for night in nights] == [1, 2, 3, 4, 5]
    for label in range(2):
        rows = [night["classes"][label] for night in nights]
        assert sum(row["opened"] is not None for row in rows) == 1
        total = 0
        for row in rows:
            total += row["n_tonight"]
            assert row["n_so_far"] == total
    assert ward.ledger.show("ward-7")[0].spent == GDP(20.0)
