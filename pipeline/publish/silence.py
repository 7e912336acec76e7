"""Silence while images are read and described: what one makes a library say is not shown.

Decoders in C (libjpeg, libpng, libtiff) write to file descriptor 2 past Python; Python's own
warnings and logs may quote a value or a file's name. All three are of the process, not of a thread:
the first who enters puts them off, the last who leaves puts them on again.
"""

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

STDERR = 2
_LOCK = threading.Lock()
_INSIDE: list[ExitStack] = []
"""What puts everything on again, once for each who is inside; only the last one does it."""


@contextmanager
def silence() -> Iterator[None]:
    """Let nothing reach standard error, the warnings or the logs in the block, from any thread."""
    with _LOCK:
        _INSIDE.append(_INSIDE[0] if _INSIDE else _put_off())
    try:
        yield
    finally:
        with _LOCK:
            last = _INSIDE.pop()
            if not _INSIDE:
                last.close()


def _put_off() -> ExitStack:
    with ExitStack() as stack:
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        stack.enter_context(_descriptor_into_nothing())
        undo = stack.pop_all()
    return undo


@contextmanager
def _descriptor_into_nothing() -> Iterator[None]:
    """Point file descriptor 2 to the null device; one that is closed is closed again."""
    _flush()
    kept: int | None = None
    with suppress(OSError):  # a service may run without
        kept = os.dup(STDERR)
    nothing = os.open(os.devnull, os.O_WRONLY)
    if nothing != STDERR:
        os.dup2(nothing, STDERR)
        os.close(nothing)
    try:
        yield
    finally:
        _flush()  # what is still held back was said inside
        if kept is None:
            os.close(STDERR)
        else:
            os.dup2(kept, STDERR)
            os.close(kept)


def _flush() -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # closed
            sys.stderr.flush()
