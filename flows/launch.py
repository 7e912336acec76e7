"""Starting a flow from the command line: the doors first, then Prefect, which takes seconds."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from flows.runners import check_runner, task_runner
from flows.server import start_server
from pipeline.config import ExperimentConfig
from pipeline.experiments.outcome import Outcome, outcome
from pipeline.experiments.steps import check
from pipeline.files import make_folder, project_root

Result = TypeVar("Result")


def default_out(name: str) -> Path:
    """Return where results go when nobody says: ``reports/output/NAME``."""
    return (project_root() or Path.cwd()) / "reports" / "output" / name


def run_experiment(
    config: ExperimentConfig, *, root: Path | None, out: Path | None, runner: str
) -> dict[str, Path]:
    """Run one experiment under Prefect and return the paths of its results and its report.

    A terminal shows our own progress; Prefect's log stays quiet unless PREFECT_LOGGING_LEVEL asks.
    """
    check(config)
    folder = make_folder(out or default_out(config.run_name)).resolve()
    check_runner(runner)
    with prefect() as ready:
        from flows.experiment import experiment

        flow = experiment.with_options(task_runner=task_runner(runner))
        ready()
        results = aside(lambda: flow(config, root and root.resolve(), folder))
    return {"results": results, "report": folder / "report.html"}


def run_reproduction(
    configs: Sequence[ExperimentConfig],
    *,
    root: Path | None,
    out: Path | None,
    options: Sequence[str] | None = None,
) -> Outcome:
    """Run published experiments under Prefect and return what came of each.

    `options` made `configs`; they stand in the commands for what could not be run.
    """
    for config in configs:
        if config.source is None and config.composition is None:
            check(config)
    folder = make_folder(out or default_out("reproduce")).resolve()
    with prefect() as ready:
        from flows.reproduce import reproduce

        ready()
        report = aside(lambda: reproduce(list(configs), root and root.resolve(), folder))
    return outcome(configs, folder, report, root=root, out=out, options=options)


@contextmanager
def prefect() -> Iterator[Callable[[], None]]:
    """Have a quiet Prefect in the block; import flows in it, then call what it gives."""
    answers = start_server()
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    with Console(stderr=True).status("starting Prefect …") as status:

        def ready() -> None:
            answers()
            status.stop()

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
