"""Where tasks run: threads of this process, Dask on this machine, or a running Dask cluster."""

import os
from typing import Any

from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from pipeline.errors import ConfigError


def task_runner(name: str) -> TaskRunner[Any]:
    """Return the task runner for ``threads``, ``dask`` or the address of a Dask scheduler.

    Raises
    ------
    ConfigError
        When `name` is none of them.
    """
    workers = os.cpu_count() or 1
    if name == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
    from prefect_dask.task_runners import DaskTaskRunner

    if name == "dask":
        cluster = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        return DaskTaskRunner(cluster_kwargs=cluster)
    if "://" in name:
        return DaskTaskRunner(address=name)
    raise ConfigError(
        f"unknown runner {name!r}; choose threads, dask, or an address such as tcp://host:8786"
    )
