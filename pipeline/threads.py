"""How many threads a process works with: decided here, for decoding, describing and geometry alike.

Kernels, decoders and unpackers release the interpreter lock, so plain threads use all cores. A
worker among several on one machine is given its share by `limited_to`.

A compiled kernel that is `spread` over threads ends in two arguments, start and stop, works on the
tasks between them, writes into arrays given by the caller and returns True when it could.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar, cast

Submit: TypeAlias = Callable[..., "Future[Any]"]
"""``submit(work, *arguments)``, as executors have it."""

Function = TypeVar("Function", bound=Callable[..., Any])

SHARE = 512
"""Fewest tasks worth a thread of their own, when a task is one matrix."""
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


def compiled(function: Function) -> Function:
    """Compile `function`, which then runs without the global interpreter lock.

    The machine code is kept on disk and dropped when the file of the function changes. Functions
    that call each other therefore stand in one file.
    """
    import numba

    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def spread(kernel: Callable[..., bool], count: int, *arguments: Any, share: int = SHARE) -> bool:
    """Run ``kernel(*arguments, start, stop)`` over 0..count in threads; True when all succeed.

    Plain threads, because numba's own pools may not be entered by two Python threads at once.
    """
    if count < 2 * share or (wide := threads()) == 1:
        return kernel(*arguments, 0, count)
    parts = min(4 * wide, count // share)
    edges = [count * part // parts for part in range(parts + 1)]
    with side_by_side() as submit:
        jobs = [submit(kernel, *arguments, *edges[part : part + 2]) for part in range(parts)]
        return all(job.result() for job in jobs)
