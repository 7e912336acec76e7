"""Starting a flow from the command line: the doors first, then Prefect, which takes seconds."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import TypeVar

from flows.quiet import told
from flows.runners import check_runner, task_runner
from flows.server import start_server
from pipeline.config import ExperimentConfig
from pipeline.datasets import find_card
from pipeline.experiments.run import Run
from pipeline.files import make_folder, owner_only, project_root
from pipeline.progress import counted

Result = TypeVar("Result")


def default_out(name: str) -> Path:
    """Return where results go when nobody says: ``reports/output/NAME``."""
    return (project_root() or Path.cwd()) / "reports" / "output" / name


def run_experiments(
    configs: Sequence[ExperimentConfig],
    *,
    root: Path | None,
    out: Path | None,
    name: str,
    runner: str,
    needs_data: bool = False,
) -> tuple[tuple[Run, ...], Path]:
    """Run experiments under Prefect and return the runs and their report.

    A terminal shows our own progress; Prefect's log stays quiet unless PREFECT_LOGGING_LEVEL asks.
    What is written about images of one's own is readable by oneself alone.

    Parameters
    ----------
    name : str
        Of the folder that results go to where `out` names none.
    runner : str
        threads, dask, or the address of a Dask scheduler.
    needs_data : bool
        Whether images that cannot be had are an error.
    """
    check_runner(runner)
    own = any(find_card(config.dataset).own for config in configs if config.on_images)
    with owner_only(own):
        folder = make_folder(out or default_out(name)).resolve()
        runs = tuple(Run(config, root and root.resolve(), folder) for config in configs)
        with prefect() as ready:
            from flows.experiments import experiments

            flow = experiments.with_options(task_runner=task_runner(runner))
            ready()
            with told():
                page = aside(lambda: flow(runs, folder, needs_data=needs_data))
    return runs, page


@contextmanager
def prefect() -> Iterator[Callable[[], None]]:
    """Have a quiet Prefect in the block; import flows in it, then call what it gives.

    It is shown among the other bars, as a terminal has room for one display.
    """
    answers = start_server()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    with ExitStack() as shown:
        shown.enter_context(counted("starting Prefect", None, ""))

        def ready() -> None:
            answers()
            shown.close()

        yield ready


def aside(work: Callable[[], Result]) -> Result:
    """Do `work` in a thread and return its result, or raise its error.

    A flow takes signals over in the main thread, and long calls keep them waiting. Here the main
    thread does nothing but wait, so that Ctrl-C is answered at once. What the work starts, such as
    workers of Dask, leaves Ctrl-C to this process.
    """
    done: Future[Result] = Future()
    context = copy_context()

    def run() -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="flow", daemon=True).start()
    while not wait([done], timeout=0.2).done:  # a wait without end would not be interrupted
        continue
    return done.result()
