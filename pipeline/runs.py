"""Runs: all steps of experiments. `covdp` does them here, `flows` under Prefect.

each run, step by step (`covdp.experiments.steps`) ─► report of all
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from covdp import progress
from covdp.errors import CovdpError, one_line
from covdp.figures.style import load_charts
from covdp.files import owner_only, results_folder
from covdp.parallel import UnorderedMap
from covdp.report import build_report

if TYPE_CHECKING:
    from covdp.config import ExperimentConfig
    from covdp.experiments.images import Run
    from covdp.experiments.steps import ExperimentStep


def run_experiments(
    configs: "Sequence[ExperimentConfig]",
    perform: "Callable[[Run, ExperimentStep], None]",
    *,
    root: Path | None,
    out: Path,
    side_by_side: Callable[..., Iterable[CovdpError | None]] = map,
    needs_data: bool = False,
    report: Callable[[Path], Path] = build_report,
) -> "tuple[tuple[Run, ...], Path]":
    """Do experiments, each step by `perform`, then the report of all.

    One run shows its steps; several show a row each, and one that fails is reported at once, the
    others go on, and then its error is raised. What is written about images of one's own is
    readable by oneself alone.

    Parameters
    ----------
    configs : sequence of ExperimentConfig
        Experiments, each on one dataset.
    perform : callable
        Function that does one step of a run.
    root : Path or None
        Data root.
    out : Path
        Folder of results.
    side_by_side : callable
        `map`, or that of a pool of threads, of which each does a run. Those that take longest begin
        first; those that read a clock wait for all others, and for each other.
    needs_data : bool
        True if images that cannot be had are an error, and not a run that is left out.
    report : callable
        Function that writes the report of a folder of results, and returns its path.

    Returns
    -------
    tuple
        The runs, and the path of the report.
    """
    from covdp.datasets import find_card
    from covdp.experiments.images import Run, check_results
    from covdp.experiments.kinds import EXPERIMENT_KINDS
    from covdp.experiments.steps import run_experiment
    from covdp.results import read_record

    ThreadPoolExecutor(1).submit(load_charts)
    own = any(find_card(config.dataset).own for config in configs if config.on_images)
    several = len(configs) > 1

    def begin(run: Run) -> CovdpError | None:
        try:
            with _shown(f"{run.name} ({runs.index(run) + 1} of {len(runs)})", several) as step:
                run_experiment(run, perform, needs_data=needs_data)
                if read_record(run.log).status != "ok":
                    step.skipped = "not run: no data"
        except CovdpError as error:
            if not several:
                raise
            line = f"[red]✗[/] {run.name}: {escape(one_line(error))}"
            Console(stderr=True).print(line, highlight=False)
            return error
        return None

    for config in configs:
        check_results(Run(config, root, out))
    with owner_only(own), results_folder(out) as folder:
        runs = tuple(Run(config, root and root.resolve(), folder) for config in configs)
        clocked = [run for run in runs if not EXPERIMENT_KINDS[run.config.kind].parallel]
        others = [run for run in runs if run not in clocked]
        others.sort(key=lambda run: run.config.minutes or 0.0, reverse=True)
        errors = [*side_by_side(begin, others), *map(begin, clocked)]
        with progress.step("report"):
            page = Path(report(folder))
        for error in filter(None, errors):
            raise error
    return runs, page


def perform(run: "Run", step: "ExperimentStep", *, workers: UnorderedMap, shown: bool) -> None:
    """Do one step of a run: by `workers` where its calls may be done side by side, else here.

    Parameters
    ----------
    run : Run
        Experiment on one dataset.
    step : ExperimentStep
        Step of the run.
    workers : UnorderedMap
        Map over calls, in any order, that may do them side by side.
    shown : bool
        True if the step is shown while it works.
    """
    with _shown(step.name, shown):
        calls = step.calls(run)
        if not step.parallel:
            for call in calls:
                step.work(*call)
            return
        with progress.counted(step.name, len(calls), "classes") as tick:
            for _ in workers(step.work, calls):
                tick(1)


def _shown(name: str, shown: bool) -> AbstractContextManager[progress.StepStatus]:
    """Show a step while it works, or not."""
    return progress.step(name) if shown else nullcontext(progress.StepStatus())
