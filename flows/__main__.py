"""``python -m flows [NAME…]``: experiments as a flow of Prefect, its tasks in sight.

One experiment or several, one after the other, then the report of all. Every call of a step is a
task; the mechanisms are a task for each class and mechanism. A task is never retried or cached: it
may draw noise, and a download retries by itself. Prefect keeps what a task raises, so what is wrong
with the user's own images is not shown here: a file may be named after a person. `covdp` shows it.
"""

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while imports last, Ctrl-C has no traceback

from cyclopts import App, Parameter
from prefect import flow, tags, task
from prefect.client.orchestration import get_client
from prefect.futures import as_completed
from prefect.runtime import flow_run
from prefect.states import Crashed
from prefect.task_runners import ThreadPoolTaskRunner

from pipeline.cli import run_in_thread
from pipeline.cli.options import DataRoot, Out
from pipeline.datasets import find_card
from pipeline.errors import CovdpError, DatasetError, MismatchError, MissingError, one_line
from pipeline.experiments import MAIN, ExperimentStep, Run, calls_by_mechanism, load_experiments
from pipeline.experiments.record import outcome
from pipeline.jobs import default_out, run_experiments
from pipeline.parallel import answer_within, cores
from pipeline.report import build_report

RUNNER: Any = ThreadPoolTaskRunner(max_workers=cores())
BEGUN: list[Any] = []
"""The flow runs of this process."""


@flow(name="experiments", retries=0, persist_result=False, task_runner=RUNNER)
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

    Raises
    ------
    MissingError
        As `covdp reproduce` does, when an experiment that was named ran on none of its datasets.
    """
    BEGUN.append(flow_run.id)
    configs = load_experiments(*(names or (str(MAIN),)), quick=quick)
    runs, page = run_experiments(
        configs,
        perform,
        root=root,
        out=out or default_out("reproduce" if names else configs[0].run_name),
        needs_data=not names,
        report=task(name="report", retries=0, persist_result=False)(build_report),
    )
    without = outcome(runs, page, out).without
    if without and "all" not in names:
        raise MissingError(
            f"no data at all for {', '.join(without)}; {page} has the commands that get them"
        )
    return page


def perform(run: Run, step: ExperimentStep) -> None:
    """Do one step of a run as tasks, side by side where labels may be."""
    own = run.config.on_images and find_card(run.config.dataset).own
    work = task(name=step.name, retries=0, persist_result=False)(
        withheld(step.work) if own else step.work
    )
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
    """Return `work` with the words taken from its errors about images, but for what is public."""

    @wraps(work)
    def done(*arguments: Any) -> Any:
        try:
            return work(*arguments)
        except (MismatchError, MissingError):
            raise
        except DatasetError:
            pass  # what follows is raised outside, so that no traceback holds the cause
        raise DatasetError(
            "the images are not all as their card says; which one and why is withheld, as Prefect "
            "keeps these words; `covdp describe --dataset CARD --store DIR --check` says it"
        )

    return done


app = App(name="python -m flows", help_format="markdown", version_flags=[])


@app.default
def run(
    *names: str,
    data_root: DataRoot = None,
    out: Out = None,
    quick: Annotated[bool, Parameter("--quick", negative="")] = False,
) -> None:
    """Run experiments under Prefect; without a name the main job on the embedded images.

    Prefect's server is the one that PREFECT_API_URL names. Where it names none, Prefect starts one
    that ends with the flow.

    ```
    python -m flows
    python -m flows ew-simulation tg-timing --quick
    ```

    Parameters
    ----------
    names
        Names of experiments, files of your own (TOML), or `all`, as for `covdp reproduce`.
    quick
        At most 10 repetitions.
    """
    load_experiments(*(names or (str(MAIN),)), quick=quick)  # what is wrong is reported at once
    page = experiments(names, data_root, out, quick)
    tables = sorted((page.parent / "results").glob("*.parquet"))
    print(f"results  {tables[0] if len(tables) == 1 else tables[0].parent}")
    print(f"report   {page}")


def interrupted() -> None:
    """Tell Prefect that the runs of this process have crashed, and end a server of its own.

    Where Prefect does not answer in 5 s, they stay as they are.
    """

    def tell() -> None:
        with get_client(sync_client=True) as client:
            for run_id in BEGUN:
                client.set_flow_run_state(run_id, Crashed(message="interrupted"), force=True)

    if BEGUN:  # else there may be no server yet, and a client would start one
        with suppress(Exception):
            answer_within(5.0, tell)
    with suppress(AttributeError, KeyError):  # none was started
        # a server that stops in order waits for the clients of this process
        sys.modules["prefect.server.api.server"].SubprocessASGIServer().server_process.kill()


if __name__ == "__main__":
    try:
        run_in_thread(app, interrupted)
    except CovdpError as error:
        print(f"covdp: {one_line(error)}", file=sys.stderr)
        sys.exit(2)
