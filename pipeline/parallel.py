"""Work side by side: threads and processes, and workers of Dask where they are asked for.

    threads, limited_to    how many threads work that is started here may use
    side_by_side           a pool of so many threads
    workers                the same work by processes, threads, Dask here, or a Dask cluster
    answer_within          what may never answer
    compiled, spread       kernels without the interpreter lock, over all threads

Kernels, decoders and unpackers release the interpreter lock, so plain threads use all cores. Draws
of private means hold it half of the time: they are made in processes of their own.

A compiled kernel that is `spread` over threads ends in two arguments, start and stop, works on the
tasks between them, writes into arrays given by the caller and returns True when it could.
"""

import multiprocessing
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    as_completed,
    wait,
)
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit
from weakref import WeakSet

from covdp.errors import ConfigError, CovdpError, OutputError, require_extra, shortage

Submit: TypeAlias = Callable[..., "Future[Any]"]
"""``submit(work, *arguments)``, as executors have it."""
UnorderedMap: TypeAlias = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]
"""``results(work, calls)`` does all calls of `work`, and yields results as they come."""

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")

FEW_TASKS = 512
"""Fewest tasks worth a thread of their own, when a task is one matrix."""
CLUSTER = {
    "threads_per_worker": 1,
    "dashboard_address": "127.0.0.1:0",  # any free port; with None, 8787
    "security": True,  # its own certificates: who reaches a scheduler runs code on it
}
"""Options with which a cluster of Dask on this machine is started."""
CONNECT_SECONDS = 3.0
"""Time in which a scheduler must answer before it is refused: within 5 s, with what is imported
before it is asked."""

_LIMIT: ContextVar[int | None] = ContextVar("_LIMIT", default=None)


def cores() -> int:
    """Return the number of cores this process may use; ``NUMBA_NUM_THREADS`` says otherwise."""
    setting = os.environ.get("NUMBA_NUM_THREADS", "")
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Return the number of threads that work that is started here may use."""
    return _LIMIT.get() or cores()


@contextmanager
def limited_to(count: int) -> Iterator[None]:
    """Let work that is started in the block, in this thread, use `count` threads.

    Parameters
    ----------
    count : int
        Number of threads.
    """
    token = _LIMIT.set(count)
    try:
        yield
    finally:
        _LIMIT.reset(token)


@contextmanager
def side_by_side() -> Iterator[Submit]:
    """Give a function that hands work to `threads`; with one thread it is done at once, here.

    When the block is left, what has not begun is dropped and what has is waited for. A generator
    may be left to the collector, which closes it in any thread, also where one begins or works: so
    no thread is joined there, and none of the pool waits for itself.
    """
    if threads() == 1:
        yield _now
        return
    begun, own = WeakSet["Future[Any]"](), set[int]()
    pool = ThreadPoolExecutor(threads(), initializer=lambda: own.add(threading.get_ident()))

    def submit(work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        try:
            begun.add(job := pool.submit(work, *arguments))
        except RuntimeError as error:
            raise shortage("no thread starts", error) from error
        return job

    joined = True
    try:
        yield submit
    except GeneratorExit:
        joined = False
        raise
    finally:
        pool.shutdown(wait=joined, cancel_futures=True)
        wait([] if threading.get_ident() in own else [x for x in begun if not x.cancelled()])


def _now(work: Callable[..., Any], *arguments: Any) -> "Future[Any]":
    done: Future[Any] = Future()
    try:
        done.set_result(work(*arguments))
    except Exception as error:
        done.set_exception(error)
    return done


@contextmanager
def workers(runner: str) -> Iterator[UnorderedMap]:
    """Give a function that does many calls side by side, and yields results as they come.

    Parameters
    ----------
    runner : str
        "processes", one a core, which end with this one; "threads"; "dask", for one process a core
        on this machine; or the address of a Dask scheduler. A process, or worker of Dask, works
        with one thread. See `check_runner`.

    Raises
    ------
    CovdpError
        What the first call that fails raises; of a worker that is lost `OutputError`.
    """
    if threads() == 1 and runner in ("processes", "threads"):
        yield lambda work, calls: (work(*call) for call in calls)
        return
    if runner == "threads":
        with side_by_side() as submit:
            yield partial(_results, submit)
        return
    if runner == "processes":
        # after Ctrl-C Python removes the semaphores of the pool, and would warn that it had to
        os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
        fresh = multiprocessing.get_context("spawn")  # a fork would copy locks that threads hold
        pool: Any = ProcessPoolExecutor(threads(), fresh, _end_with_parent)
        try:
            yield partial(_results, partial(pool.submit, _by_worker))
        finally:
            pool.shutdown(cancel_futures=True)
        return
    # a worker whose heartbeat meets the end of its scheduler would log that as an error
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    import distributed

    dask: Any = distributed  # it has no types
    with ExitStack() as stack:
        address = runner
        if runner == "dask":
            address = stack.enter_context(dask.LocalCluster(n_workers=cores(), **CLUSTER))
        client = stack.enter_context(dask.Client(address, set_as_default=False))
        executor = client.get_executor(pure=False, retries=0)
        yield partial(_results, partial(executor.submit, _by_worker))


def _results(
    submit: Submit, work: Callable[..., Any], calls: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    futures = [submit(work, *call) for call in calls]
    for future in as_completed(futures):
        yield _result(future)


def _result(future: "Future[Any]") -> Any:
    """Return what a call gave; raise the error that it raised, or that its worker sent back."""
    try:
        result = future.result()
    except Exception as error:
        lost = isinstance(error, BrokenExecutor)
        if lost or type(error).__module__.startswith("distributed"):
            raise OutputError(f"a worker failed ({type(error).__name__}: {error})") from error
        raise
    if isinstance(result, CovdpError):
        raise result
    return result


def _end_with_parent() -> None:
    """Exit when the parent process dies, however it does."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _by_worker(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do a call in a process or a worker of Dask, with its one thread.

    An error may name a file. It is returned: what is raised stays in Dask's log.
    """
    with limited_to(1):
        try:
            return work(*arguments)
        except CovdpError as error:
            return error
        except Exception as error:
            return OutputError(f"a worker failed ({type(error).__name__}: {error})")


def answer_within(
    seconds: float, work: Callable[[], T], discard: Callable[[T], object] = lambda late: None
) -> T:
    """Return the result of `work`; it is done in a thread, for which nothing waits any longer.

    Parameters
    ----------
    seconds : float
        Longest time to wait, in seconds.
    work : callable
        Function without arguments.
    discard : callable
        Function that is called with a result that comes later.

    Raises
    ------
    TimeoutError
        When it takes more than so many seconds.
    """
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        answer.add_done_callback(lambda late: late.exception() or discard(late.result()))
        raise


def check_runner(runner: str) -> None:
    """Refuse a runner that is none, or a scheduler that does not answer, before any work.

    Parameters
    ----------
    runner : str
        "processes", "threads", "dask", or the address of a scheduler.

    Raises
    ------
    ConfigError
        One line, in at most 5 s.
    """
    if runner in ("processes", "threads"):
        return
    if runner != "dask" and "://" not in runner:
        raise ConfigError(
            f"unknown runner {runner!r}; choose processes, threads, dask, or an address such as "
            "tcp://host:8786"
        )
    require_extra("distributed", fault=ConfigError)
    if runner == "dask":
        return
    import asyncio

    until = time.monotonic() + CONNECT_SECONDS
    try:
        parts = urlsplit(runner)
        with socket.create_connection((parts.hostname or "", parts.port or 0), CONNECT_SECONDS):
            pass
        from distributed.comm.core import connect

        async def greet() -> None:  # a client of Dask would wait longer for one who says nothing
            left = max(1.0, until - time.monotonic())
            comm = await asyncio.wait_for(connect(runner, timeout=left), left)  # type: ignore[no-untyped-call]
            comm.abort()

        asyncio.run(greet())
    except (OSError, ValueError, TimeoutError) as error:
        raise ConfigError(
            f"no Dask scheduler answers at {runner}; check the address, and that it runs"
        ) from error


def compiled(function: Function, *, exact_sums: bool = False) -> Function:
    """Compile `function`, which then runs without the global interpreter lock.

    With `exact_sums` numbers may be added in any order: for whole numbers whose sums are exact.

    The machine code is stored on disk and dropped when the file of the function changes. Functions
    that call each other therefore stand in one file. If no folder can be written it is compiled in
    every process, for some seconds; NUMBA_CACHE_DIR names one.

    Parameters
    ----------
    function : callable
        Function in the subset of Python that numba compiles.
    exact_sums : bool
        True if numbers may be added in any order.

    Returns
    -------
    callable
        Compiled function.
    """
    import numba

    free = {"reassoc", "nsz", "contract"} if exact_sums else False
    make = partial(numba.njit, nogil=True, error_model="numpy", fastmath=free)
    try:
        return cast(Function, make(cache=True)(function))
    except RuntimeError:  # neither the install nor the home can be written
        return cast(Function, make(cache=False)(function))


def spread(
    kernel: Callable[..., bool], count: int, *arguments: Any, share: int = FEW_TASKS
) -> bool:
    """Run ``kernel(*arguments, start, stop)`` over 0..count in threads; True when all succeed.

    Plain threads, because numba's own pools may not be entered by two Python threads at once.

    Parameters
    ----------
    kernel : callable
        Compiled function that takes a range of tasks last, and returns True on success.
    count : int
        Number of tasks.
    *arguments : object
        Arguments before the range.
    share : int
        Smallest number of tasks that is worth a thread.

    Returns
    -------
    bool
        True when all calls succeed.
    """
    if count < 2 * share or (wide := threads()) == 1:
        return kernel(*arguments, 0, count)
    parts = min(4 * wide, count // share)
    edges = [count * part // parts for part in range(parts + 1)]
    with side_by_side() as submit:
        jobs = [submit(kernel, *arguments, *edges[part : part + 2]) for part in range(parts)]
        return all(job.result() for job in jobs)


def peak_memory() -> int:
    """Return the most memory this process ever had, in bytes; 0 where the system does not say."""
    status = Path("/proc/self/status")
    if status.exists() and (line := re.search(r"^VmHWM:\s+(\d+)", status.read_text(), re.M)):
        return 1024 * int(line[1])
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
