"""The flow of a pass over images: each shard a task, by workers of Dask.

Prefect keeps what a task is given and what it raises: a task is given the address of its shard's
task in the store, which names no file, and returns what went wrong, which may name one.
"""

from collections.abc import Callable, Sequence
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import as_completed

from flows.runners import in_share
from pipeline import errors
from pipeline.store import HandOut, Made, take


@task(name="shard", retries=0, cache_policy=NO_CACHE, persist_result=False)
def shard(address: str) -> Made | tuple[str, str]:
    """Make the shards of one task, or return the kind and the words of what went wrong."""
    try:
        return in_share(take)(address)
    except errors.CovdpError as error:
        return type(error).__name__, str(error)
    except Exception as error:
        return "OutputError", f"a worker failed ({type(error).__name__}: {error})"


def hand_out_by(runner: Any, ready: Callable[[], None]) -> HandOut:
    """Return what hands shards to a task runner once Prefect is `ready`."""

    def hand_out(addresses: Sequence[str], done: Callable[[Made], None]) -> None:
        @flow(name="describe", task_runner=runner, retries=0, persist_result=False)
        def describe(shards: int) -> None:
            for future in as_completed([shard.submit(address) for address in addresses]):
                found = future.result()
                if not isinstance(found, Made):
                    raise _Stopped(*found)
                done(found)

        ready()
        try:
            describe(len(addresses))
        except _Stopped as stopped:
            raise getattr(errors, stopped.kind)(stopped.words) from None

    return hand_out


class _Stopped(Exception):
    """A shard that could not be made; what Prefect keeps of it says nothing."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__("images cannot be described; the terminal says why")
        self.kind, self.words = kind, words
