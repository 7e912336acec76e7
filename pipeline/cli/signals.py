"""Ctrl-C and SIGTERM: one line, and the process is gone.

A handler that raised would be at the mercy of whatever runs: an import that swallows it, a pool
that waits for its threads. Nothing is asked here, and nothing needs to be: tables and documents
take their place whole, a release that was paid is not paid again, and what this process started
ends with it.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from pipeline.files import discard_unfinished

WORDS = {
    signal.SIGINT: b"covdp: interrupted; the same command starts it again\n",
    signal.SIGTERM: b"covdp: told to stop; the same command starts it again\n",
}


@contextmanager
def answered() -> Iterator[None]:
    """Answer Ctrl-C and SIGTERM in the block; they belong to the main thread, so elsewhere not."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _leave) for number in WORDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> NoReturn:
    """Say so and end: 130 after Ctrl-C, by the signal itself after SIGTERM."""
    for each in WORDS:
        signal.signal(each, signal.SIG_IGN)
    for screen in (1, 2):
        if os.isatty(screen):
            os.write(screen, b"\r\x1b[2K\x1b[?25h")  # a spinner goes, the cursor comes back
    os.write(2, WORDS[signal.Signals(number)])
    discard_unfinished()
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    os._exit(128 + number)  # Ctrl-C; or the first process of a container, which no signal ends
