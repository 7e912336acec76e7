"""Ctrl-C and SIGTERM: one line, and the process is gone, whatever it does.

A handler that raised would be at the mercy of whatever runs: an import that swallows it, a pool
that waits for its threads. And a handler is called between two lines of the main thread, which a
long call keeps waiting: so the work has a thread of its own, and the main thread only waits.
Nothing is asked here, and nothing needs to be: tables and documents take their place whole, a
release that was paid is not paid again, and what this process started ends with it.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from types import FrameType
from typing import NoReturn, TypeVar

from pipeline.files import discard_unfinished

Result = TypeVar("Result")

WORDS = {
    signal.SIGINT: b"covdp: interrupted; the same command starts it again\n",
    signal.SIGTERM: b"covdp: told to stop; the same command starts it again\n",
}


def run_in_thread(work: Callable[[], Result]) -> Result:
    """Do `work` in a thread, and return its result or raise its error; signals are answered.

    Signals belong to the main thread: elsewhere the work is done at once, and they are left alone.
    What the work starts, such as workers of Dask, leaves Ctrl-C to this process.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done: Future[Result] = Future()
    context = copy_context()

    def run() -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)

    with answered():
        threading.Thread(target=run, name="command", daemon=True).start()
        while not wait([done], timeout=0.2).done:  # a wait without end would not be interrupted
            continue
    return done.result()


@contextmanager
def answered() -> Iterator[None]:
    """Answer Ctrl-C and SIGTERM in the block, which the main thread is in."""
    stderr = os.dup(2) if _is_open(2) else None  # a release silences 2 itself while it reads
    leave = partial(_leave, stderr)
    before = {number: signal.signal(number, leave) for number in WORDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if stderr is not None:
            os.close(stderr)


def _is_open(number: int) -> bool:
    """Return whether a file descriptor is there: a service may run without."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _leave(stderr: int | None, number: int, _: FrameType | None) -> NoReturn:
    """Say so and end: 130 after Ctrl-C, by the signal itself after SIGTERM."""
    for each in WORDS:
        signal.signal(each, signal.SIG_IGN)
    with suppress(OSError):  # whoever read it is gone
        for screen in (1, stderr):
            if screen is not None and os.isatty(screen):
                os.write(screen, b"\r\x1b[2K\x1b[?25h")  # a spinner goes, the cursor comes back
    with suppress(OSError):
        if stderr is not None:
            os.write(stderr, WORDS[signal.Signals(number)])
    discard_unfinished()
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    os._exit(128 + number)  # Ctrl-C; or the first process of a container, which no signal ends
