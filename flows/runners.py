"""Where tasks run: threads of this process, Dask on this machine, or a running Dask cluster."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from flows.server import check_reachable
from pipeline.errors import ConfigError
from pipeline.threads import cores, limited_to

if TYPE_CHECKING:
    from prefect.task_runners import TaskRunner

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE, LEAST = 4.0, 2.0
"""Seconds until a scheduler that does not answer is refused, and those that it has in any case."""


def check_runner(name: str) -> None:
    """Refuse, before Prefect starts, a runner that is none, or a scheduler that does not answer.

    Raises
    ------
    ConfigError
        One line, in at most 5 s.
    """
    if name in ("threads", "dask"):
        return
    if "://" not in name:
        raise ConfigError(
            f"unknown runner {name!r}; choose threads, dask, or an address such as tcp://host:8786"
        )
    fault, until = "no Dask scheduler answers", time.monotonic() + PATIENCE
    check_reachable(name, fault)
    from distributed.comm.core import connect

    async def greet() -> None:  # a client of Dask would wait longer for one who says nothing
        left = max(LEAST, until - time.monotonic())
        comm = await asyncio.wait_for(connect(name, timeout=left), left)  # type: ignore[no-untyped-call]
        comm.abort()

    try:
        asyncio.run(greet())
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(f"{fault}: {name}; check the address") from error


def in_share(work: Callable[P, R]) -> Callable[P, R]:
    """Return `work` as a task does it: with one thread in a worker of Dask, which has its share."""

    @wraps(work)
    def done(*arguments: P.args, **options: P.kwargs) -> R:
        with limited_to(1) if _in_dask() else nullcontext():
            return work(*arguments, **options)

    return done


def _in_dask() -> bool:
    """Return whether this thread works for Dask."""
    if "distributed" not in sys.modules:
        return False
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def task_runner(name: str) -> "TaskRunner[Any]":
    """Return the task runner for ``threads``, ``dask`` or the address of a Dask scheduler."""
    workers = cores()
    if name == "threads":
        from prefect.task_runners import ThreadPoolTaskRunner

        return ThreadPoolTaskRunner(max_workers=workers)
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
    from prefect_dask.task_runners import DaskTaskRunner

    if name == "dask":
        cluster = {
            "n_workers": workers,
            "threads_per_worker": 1,
            "dashboard_address": "127.0.0.1:0",  # any free port; with None, 8787
            "security": True,  # its own certificates: who reaches a scheduler runs code on it
        }
        return DaskTaskRunner(cluster_kwargs=cluster)
    return DaskTaskRunner(address=name)
