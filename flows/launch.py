"""Starting a flow from the command line: the doors first, then Prefect, which takes seconds."""

import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from pipeline.config import ExperimentConfig
from pipeline.experiments.outcome import Outcome, outcome
from pipeline.experiments.steps import check
from pipeline.files import make_folder, project_root


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
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    with Console().status("starting Prefect …"):
        from flows.experiment import experiment
        from flows.runners import task_runner

        flow = experiment.with_options(task_runner=task_runner(runner))
    results = flow(config, root and root.resolve(), folder)
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
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    with Console().status("starting Prefect …"):
        from flows.reproduce import reproduce
    report = reproduce(list(configs), root and root.resolve(), folder)
    return outcome(configs, folder, report, root=root, out=out, options=options)
