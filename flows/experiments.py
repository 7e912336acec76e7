"""The flow of experiments: one or several, one after the other, then the report of all.

Every call of a step is a task; the mechanisms are a task for each class and mechanism. A task is
never retried or cached: it may draw noise, and a download retries by itself. Prefect keeps what a
task raises, so what is wrong with a file of images is not said here: the file may be named after a
person. `covdp` says it.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from prefect import flow, tags, task
from prefect.futures import as_completed
from prefect.task_runners import ThreadPoolTaskRunner

from pipeline.errors import ImageError
from pipeline.experiments import MAIN, ExperimentStep, Run, calls_by_mechanism, load_experiments
from pipeline.jobs import default_out, run_experiments
from pipeline.parallel import cores
from pipeline.report import build_report

RUNNER: Any = ThreadPoolTaskRunner(max_workers=cores())


@flow(
    name="experiments",
    retries=0,
    persist_result=False,
    task_runner=RUNNER,
)
def experiments(
    names: Sequence[str] = (),
    root: Path | None = None,
    out: Path | None = None,
    quick: bool = False,
) -> Path:
    """Run experiments and return the path of the report.

    Parameters
    ----------
    names : sequence of str
        As `covdp reproduce` takes them: names, ``all``, or TOML files; the main job on the embedded
        images when left out.
    root, out : Path, optional
        The data root, and the folder of the results.
    quick : bool
        At most 10 repetitions.
    """
    configs = load_experiments(*(names or (str(MAIN),)), quick=quick)
    _, page = run_experiments(
        configs,
        perform,
        root=root,
        out=out or default_out("reproduce" if names else configs[0].run_name),
        needs_data=not names,
        report=task(name="report", retries=0, persist_result=False)(build_report),
    )
    return page


def perform(run: Run, step: ExperimentStep) -> None:
    """Do one step of a run as tasks, side by side where labels may be."""
    work = task(name=step.name, retries=0, persist_result=False)(withheld(step.work))
    with tags(run.name):
        futures = []
        for call in calls_by_mechanism(run, step):
            name = " · ".join([step.name, *(f"class {label}" for label in call[1:2]), *call[2:]])
            futures.append(work.with_options(task_run_name=name).submit(*call))
            if not step.parallel:
                futures.pop().result()
        for future in as_completed(futures):
            future.result()


def withheld(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return `work` with the words taken from its errors about files of images."""

    @wraps(work)
    def done(*arguments: Any) -> Any:
        try:
            return work(*arguments)
        except ImageError:
            pass  # what follows is raised outside, so that no traceback holds the cause
        raise ImageError(
            "the images are not all as their card says; which one and why is withheld, as Prefect "
            "keeps these words; `covdp describe --dataset CARD --store DIR --check` says it"
        )

    return done
