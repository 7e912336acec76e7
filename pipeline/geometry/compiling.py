"""How compiled loops are made, and how they are spread over threads.

A kernel ends in two arguments, start and stop, works on the tasks between them, writes into arrays
given by the caller and returns True when it could. Next on the path: ``factoring.py``.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

THREADS = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
"""Threads a stack is spread over: the cores this process may use, or ``NUMBA_NUM_THREADS``."""
SHARE = 512
"""Fewest tasks worth a thread of their own, when a task is one matrix."""


def compiled(function: Function) -> Function:
    """Compile `function`, which then runs without the global interpreter lock.

    The machine code is kept on disk and dropped when the file of the function changes. Functions
    that call each other therefore stand in one file.
    """
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def spread(kernel: Callable[..., bool], count: int, *arguments: Any, share: int = SHARE) -> bool:
    """Run ``kernel(*arguments, start, stop)`` over 0..count in threads; True when all succeed.

    Plain threads, because numba's own pools may not be entered by two Python threads at once.
    """
    parts = min(4 * THREADS, count // share)
    if THREADS == 1 or parts < 2:
        return kernel(*arguments, 0, count)
    edges = [count * part // parts for part in range(parts + 1)]
    with ThreadPoolExecutor(min(THREADS, parts)) as pool:
        jobs = [pool.submit(kernel, *arguments, *edges[part : part + 2]) for part in range(parts)]
        return all(job.result() for job in jobs)
