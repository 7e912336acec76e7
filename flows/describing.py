"""The flow of a pass over images: each shard a task, by workers of Dask.

Prefect keeps what a task is given and what it raises: a task is given the address of its shard's
task in the store, which names no file, and returns what went wrong, which may name one.
A worker of Dask is sent the flow with each task, and with it all that the flow closes over: plain
values alone. What hears of results, which may be a bar on a terminal, stays in this process.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import as_completed

from flows.quiet import Refusal, accepted, refusing, told
from flows.runners import in_share
from pipeline.errors import CovdpError
from pipeline.store import HandOut, Made, take

_RESULT: ContextVar[Callable[[Made], None]] = ContextVar("_RESULT")
"""What hears of each result while a flow runs in this context."""


def report_result(one: Made) -> None:
    """Hand a result to whoever started the flow; pickled by name, so that no worker gets more."""
    _RESULT.get()(one)


@task(name="shard", retries=0, cache_policy=NO_CACHE, persist_result=False)
def shard(address: str) -> Made | Refusal:
    """Make the shards of one task, or return what went wrong."""
    try:
        return refusing(in_share(take), CovdpError)(address)
    except Exception as error:
        return Refusal("OutputError", f"a worker failed ({type(error).__name__}: {error})")


def hand_out_by(runner: Any, ready: Callable[[], None]) -> HandOut:
    """Return what hands shards to a task runner once Prefect is `ready`."""

    def hand_out(addresses: Sequence[str], done: Callable[[Made], None]) -> None:
        @flow(name="describe", task_runner=runner, retries=0, persist_result=False)
        def describe(shards: int) -> None:
            for future in as_completed([shard.submit(address) for address in addresses]):
                report_result(accepted(future.result()))

        ready()
        token = _RESULT.set(done)
        try:
            with told():
                describe(len(addresses))
        finally:
            _RESULT.reset(token)

    return hand_out
