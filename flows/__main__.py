"""``python -m flows [NAME…]``: the main job, or experiments, as flows of Prefect.

One experiment on one dataset is one flow. Several are a flow each, one after another, then an
index. Prefect's server is the one that PREFECT_API_URL names. Where it names none, Prefect starts
one that ends with the flow.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Annotated, Any

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while imports last, Ctrl-C has no traceback

from cyclopts import App, Parameter
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL
from prefect.states import Crashed

from covdp.cli import run_in_thread
from covdp.cli.experiments import print_bound
from covdp.cli.options import DataRoot, Out
from covdp.cli.streams import complain, open_streams
from covdp.errors import ConfigError, CovdpError
from covdp.experiments import MAIN, load_experiments
from covdp.parallel import answer_within

from .experiment import BEGUN, experiments, flow_of

SERVER_SECONDS = 10.0
"""Seconds that a server may take to say that it is there."""
TASK_WORDS = {
    "download": "images are on disk",
    "describe": "each image is a covariance matrix",
    "verify_bound": "each descriptor lies within the proven bound",
    "select_footpoint": "private footpoints are drawn, of {} pairs of class and series",
    "release": "private means are drawn, for {} pairs of class and series",
    "write_results": "results are written",
    "write_report": "the report is written",
}
"""Words for a task that is done, by its name, with how often it was done."""

app = App(name="python -m flows", help_format="markdown", version_flags=[])


@app.default
def run(
    *names: str,
    dataset: str | None = None,
    descriptor: str | None = None,
    repetitions: int | None = None,
    quick: Annotated[bool, Parameter("--quick", negative="")] = False,
    data_root: DataRoot = None,
    out: Out = None,
) -> None:
    """Run experiments under Prefect; without a name the main job.

    Prefect's server is the one that PREFECT_API_URL names. Where it names none, Prefect starts one
    that ends with the flow.

    ```
    python -m flows
    python -m flows --dataset octmnist --data-root ~/medmnist
    python -m flows ew-simulation tg-timing --quick
    ```

    Parameters
    ----------
    names
        Names of experiments, files of your own (TOML), or `all`, as for `covdp reproduce`.
    dataset
        A name from `covdp datasets`, or a card of your own (a TOML file), in place of the
        experiment's.
    descriptor
        The descriptor, in place of the experiment's.
    repetitions
        Repetitions, in place of the experiment's.
    quick
        At most 10 repetitions.
    """
    name = names[0] if len(names) == 1 else None
    changes: dict[str, Any] = {"repetitions": repetitions, "quick": quick, "out": out}
    on_images: dict[str, Any] = {"descriptor": descriptor, "data_root": data_root}
    configs = load_experiments(
        *(names or (str(MAIN),)),
        dataset=dataset,
        descriptor=descriptor,
        repetitions=repetitions,
        quick=quick,
    )
    require_server()
    quiet_known_errors()
    if (
        len(configs) == 1
        and not PREFECT_API_URL.value()
        and "PREFECT_LOGGING_LEVEL" not in os.environ
    ):
        log_in_words()
    if len(configs) > 1:
        datasets = () if dataset is None else (dataset,)
        page = experiments(names, datasets, **on_images, **changes)
    elif configs[0].on_images:
        page = flow_of(configs[0])(name, dataset, None, **on_images, **changes)
    else:
        page = flow_of(configs[0])(name, dataset, None, **changes)
    tables = sorted((page.parent / "results").glob("*.parquet"))
    print_bound(page.parent)
    print(f"results  {tables[0] if len(tables) == 1 else tables[0].parent}")
    print(f"report   {page}")


def require_server() -> None:
    """Refuse a server that does not answer, in one line.

    Raises
    ------
    ConfigError
        When PREFECT_API_URL names a server, and none answers there in `SERVER_SECONDS`.
    """
    if not (address := PREFECT_API_URL.value()):
        return

    def ask() -> Exception | None:
        with get_client(sync_client=True) as client:
            return client.api_healthcheck()

    try:
        reason = answer_within(SERVER_SECONDS, ask)
    except (OSError, ValueError, RuntimeError) as error:
        reason = error
    if reason is not None:
        said = " ".join(str(reason).split()) or type(reason).__name__
        raise ConfigError(
            f"no Prefect server answers at PREFECT_API_URL, {address} ({said}); start it, or unset "
            "PREFECT_API_URL, and a server is started that ends with the flow"
        )


def quiet_known_errors() -> None:
    """Leave tracebacks out of Prefect's log for errors that say what is wrong in one line."""

    def without_traceback(record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], CovdpError):
            record.exc_info = None
        return True

    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addFilter(without_traceback)


def log_in_words() -> None:
    """Print one line a step in place of Prefect's log, of which warnings and errors stay."""
    done, one_by_one = Counter[str](), threading.Lock()  # tasks end in threads of their own
    began = ended = time.monotonic()

    def in_words(record: logging.LogRecord) -> bool:
        nonlocal began, ended
        name, said = getattr(record, "task_name", None), record.getMessage()
        if record.levelno > logging.INFO or (name and not said.startswith("Finished")):
            return True  # a retry, too
        with one_by_one:
            if name not in done:  # the last step is over, or the flow begins
                for step, times in done.items():
                    words = TASK_WORDS.get(step, step).format(times)
                    print(f"✓ {words} ({ended - began:.1f} s)", file=sys.stderr)
                began = ended if done else time.monotonic()
                done.clear()
            if name is not None:
                done[name] += 1
                ended = time.monotonic()
        return False

    for logger in ("prefect", "prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(logger).addFilter(in_words)
    print("Prefect starts a server, which ends with the flow", file=sys.stderr)


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
    open_streams()
    try:
        run_in_thread(app, interrupted)
    except CovdpError as error:
        complain(error)
        sys.exit(2)
