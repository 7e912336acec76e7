"""The main flow: one experiment on one dataset, from images to a report.

    fetch ─► describe ─► verify ─► run each class ─► collect ─► record ─► report

Tasks take configs and paths and return paths. A task that draws noise is never retried or cached.
"""

from datetime import UTC, datetime
from pathlib import Path

from prefect import flow, task
from prefect.futures import as_completed

from flows.progress import Steps
from pipeline.config import ExperimentConfig
from pipeline.experiments import records, steps
from pipeline.report import build_report

fetch = task(name="fetch")(steps.fetch_images)  # a download retries by itself, with back-off
describe = task(name="describe")(steps.describe_classes)
verify = task(name="verify")(steps.verify_bound)
run_class = task(name="run class", retries=0)(steps.run_class)
collect = task(name="collect")(steps.collect)
record = task(name="record")(records.write_run)
report = task(name="report")(build_report)


@flow(name="experiment")
def experiment(config: ExperimentConfig, root: Path | None, out: Path) -> Path:
    """Run `config` and return the path of its Parquet file; the report stands in `out`."""
    clock, started = Steps(), datetime.now(UTC)
    with clock.step("images"):
        labels = fetch(config, root)
    with clock.step("descriptors"):
        describe(config, root, out)
    with clock.step("bound"):
        verify(config, root, out)
    runs = [run_class.submit(config, root, out, label) for label in labels]
    for run in clock.each("mechanisms", as_completed(runs), len(runs)):
        run.result()
    with clock.step("results"):
        results = collect(config, root, out)
    record(config, root, out, started, clock.seconds)
    with clock.step("report"):
        report(out)
    return Path(results)
