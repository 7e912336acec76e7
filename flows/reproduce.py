"""Published experiments: one task for each experiment and dataset, then one report of all.

Experiments run one after the other, each on all cores: a clock that is read while another draws
would say nothing, and the streams of two would meet in one sampler. A task that draws noise is
never retried or cached.
"""

from collections.abc import Sequence
from pathlib import Path

from prefect import flow, task
from rich.console import Console

from flows.progress import Steps
from pipeline.config import ExperimentConfig
from pipeline.errors import CovdpError
from pipeline.experiments.run import run_experiment
from pipeline.experiments.steps import run_folder
from pipeline.report import build_report
from pipeline.results import read_record

one = task(name="experiment", task_run_name="{config.run_name}", retries=0)(run_experiment)
report = task(name="report")(build_report)


@flow(name="reproduce")
def reproduce(configs: Sequence[ExperimentConfig], root: Path | None, out: Path) -> Path:
    """Run every config and return the path of the report in `out`.

    An experiment that fails is said so at once and the others go on; then its error is raised. One
    without data is neither done nor failed.
    """
    clock, failed = Steps(), list[CovdpError]()
    for number, config in enumerate(configs, 1):
        try:
            with clock.step(f"{config.run_name} ({number} of {len(configs)})") as step:
                one(config, root, out)
                if read_record(run_folder(config, out) / "run.json").status != "ok":
                    step.skipped = "not run: no data"
        except CovdpError as error:
            Console(stderr=True).print(f"[red]✗[/] {config.run_name}: {error}", highlight=False)
            failed.append(error)
    with clock.step("report"):
        page = Path(report(out))
    if failed:
        raise failed[0]
    return page
