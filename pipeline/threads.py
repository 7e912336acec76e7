"""How many threads a process works with: decided here, for decoding, describing and geometry alike.

Kernels, decoders and unpackers release the interpreter lock, so plain threads use all cores. A
worker among several on one machine is given its share by `limited_to`.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

Submit: TypeAlias = Callable[..., "Future[Any]"]
"""``submit(work, *arguments)``, as executors have it."""

_LIMIT: ContextVar[int | None] = ContextVar("_LIMIT", default=None)


def cores() -> int:
    """Return how many cores this process may use; ``NUMBA_NUM_THREADS`` says otherwise."""
    told = os.environ.get("NUMBA_NUM_THREADS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return how many threads work that is started here may use."""
    return _LIMIT.get() or cores()


@contextmanager
def limited_to(count: int) -> Iterator[None]:
    """Let work that is started in the block, in this thread, use `count` threads."""
    token = _LIMIT.set(count)
    try:
        yield
    finally:
        _LIMIT.reset(token)


@contextmanager
def side_by_side() -> Iterator[Submit]:
    """Give a function that hands work to `threads`; with one thread it is done at once, here.

    When the block is left, what has not begun is dropped and what has is waited for.
    """
    if threads() == 1:
        yield _now
        return
    pool = ThreadPoolExecutor(threads())
    try:
        yield pool.submit
    finally:
        pool.shutdown(cancel_futures=True)


def _now(work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
    done: Future[Any] = Future()
    try:
        done.set_result(work(*arguments))
    except Exception as error:
        done.set_exception(error)
    return done
