"""Waiting in tests: until something has happened, never for how long it took.

A machine may be busy with anything else. So no test judges a clock: it tells what happened, in
which order, or how often, and ends with a failure only where it would wait for ever.
"""

import sys
import time
from collections.abc import Callable
from types import FrameType

PATIENCE = 300.0
"""Seconds after which what has not happened never will: a guard against hanging alone."""


def until(happens: Callable[[], object]) -> None:
    """Wait until a callable returns something true.

    Raises
    ------
    AssertionError
        After `PATIENCE`.
    """
    end = time.monotonic() + PATIENCE
    while not happens():
        if time.monotonic() > end:
            raise AssertionError(f"it has not happened in {PATIENCE:.0f} s")
        time.sleep(0.01)


def calls(work: Callable[[], object]) -> int:
    """Return how many functions `work` calls in this thread, those written in C included.

    That is what an effort is measured in: it is the same on a machine that is busy.
    """
    count = 0

    def counted(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
