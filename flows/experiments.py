"""The flow of experiments: one or several, one after the other, then the report of all.

Each runs on all cores: its steps are those of `pipeline.experiments.steps`, every call of one a
task, on the runner where labels may be worked on side by side. A task is never retried or cached:
it may draw noise, and a download retries by itself. What is wrong with a file it does not hear.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow, tags, task
from prefect.futures import as_completed
from rich.console import Console
from rich.markup import escape

from flows.launch import default_out
from flows.quiet import accepted, refusing, words_of
from flows.runners import in_share
from pipeline import progress
from pipeline.errors import CovdpError, one_line
from pipeline.experiments.registry import load_experiments
from pipeline.experiments.run import Run
from pipeline.experiments.steps import Step, run_experiment
from pipeline.files import make_folder
from pipeline.report import build_report
from pipeline.results import read_record

report = task(name="report", retries=0)(build_report)


@flow(name="experiments")
def experiments(runs: Sequence[Run], out: Path, *, needs_data: bool = False) -> Path:
    """Do every run and return the path of the report in `out`.

    One run shows its steps; several show a line each, and one that fails is said so at once, the
    others go on, and then its error is raised. One without data is neither done nor failed, unless
    `needs_data`.
    """
    failed, several = list[CovdpError](), len(runs) > 1
    for number, run in enumerate(runs, 1):
        try:
            with _shown(f"{run.name} ({number} of {len(runs)})", several) as step, tags(run.name):
                run_experiment(run, partial(perform, shown=not several), needs_data=needs_data)
                if read_record(run.log).status != "ok":
                    step.skipped = "not run: no data"
        except CovdpError as error:
            if not several:
                raise
            told = f"[red]✗[/] {run.name}: {escape(one_line(words_of(error)))}"
            Console(stderr=True).print(told, highlight=False)
            failed.append(error)
    with progress.step("report"):
        page = Path(report(out))
    if failed:
        raise failed[0]
    return page


@flow(name="reproduce")
def reproduce(
    names: Sequence[str] = ("all",), root: Path | None = None, out: Path | None = None
) -> Path:
    """Run published experiments by name, as a deployment may; return the path of the report."""
    folder = make_folder(out or default_out("reproduce")).resolve()
    runs = [Run(config, root, folder) for config in load_experiments(*names)]
    return experiments.fn(runs, folder)


def perform(run: Run, step: Step, *, shown: bool) -> None:
    """Do one step as tasks."""
    work: Any = task(name=step.name, retries=0)(refusing(in_share(step.work)))
    with _shown(step.name, shown):
        if not step.parallel:
            for call in step.calls(run):
                accepted(work(*call))
            return
        futures = [work.submit(*call) for call in step.calls(run)]
        with progress.counted(step.name, len(futures), "classes") as tick:
            for future in as_completed(futures):
                accepted(future.result())
                tick(1)


def _shown(name: str, shown: bool) -> AbstractContextManager[progress.Step]:
    """Show a step while it works, or not."""
    return progress.step(name) if shown else nullcontext(progress.Step())
