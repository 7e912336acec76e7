"""Serving by a clock of the test."""

from collections.abc import Callable
from datetime import datetime

import pytest

from covdp.cli import releases as serve
from covdp.jobs import ReleaseJob


def on_schedule(
    monkeypatch: pytest.MonkeyPatch,
    now: Callable[[], datetime],
    sleep: Callable[[float], None],
    night: Callable[[ReleaseJob], str],
) -> None:
    """Have the command go by a clock, sleep in one piece, and do `night` at each planned time."""
    real, times = serve.nights, serve.planned_times
    monkeypatch.setattr(serve, "LONGEST_SLEEP", 1e6)
    monkeypatch.setattr(serve, "nights", lambda coming, _: real(coming, now, sleep))
    monkeypatch.setattr(serve, "planned_times", lambda cron, _: times(cron, now()))
    monkeypatch.setattr(serve, "release_night", night)
