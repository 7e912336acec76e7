"""How compiled loops are made, and how they are spread over threads.

A kernel ends in two arguments, start and stop, works on the tasks between them, writes into arrays
given by the caller and returns True when it could.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from pipeline.threads import side_by_side, threads

Function = TypeVar("Function", bound=Callable[..., Any])

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
    if count < 2 * share or (wide := threads()) == 1:
        return kernel(*arguments, 0, count)
    parts = min(4 * wide, count // share)
    edges = [count * part // parts for part in range(parts + 1)]
    with side_by_side() as submit:
        jobs = [submit(kernel, *arguments, *edges[part : part + 2]) for part in range(parts)]
        return all(job.result() for job in jobs)
