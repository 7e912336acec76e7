"""What the pages of experiments and their index end with: a paragraph a run, what they cite."""

from collections.abc import Mapping, Sequence

from pipeline.report.claims import HOW
from pipeline.report.methods import Methods, methods
from pipeline.report.methods_of_experiment import of_experiment
from pipeline.report.page import where
from pipeline.report.runs import FinishedRun


def methods_of_runs(runs: Sequence[FinishedRun]) -> Methods:
    """Return what a paper says of some runs, a paragraph each."""
    told = {
        run.id: of_experiment(
            {"dataset": run.record.dataset.name, **run.record.config, "seed": run.record.seed}
            | {"name": run.record.experiment},
            title=where(run),
            classes=", ".join(f"{one.name} n = {one.n:,}" for one in run.record.classes),
            guarantees=run.record.guarantees,
        )
        for run in runs
    }
    return methods(told, apart=True, version=_version(runs))


def methods_of_site(runs: Sequence[FinishedRun], words: Mapping[str, str]) -> Methods:
    """Return how the statements of all runs were decided, and all that their pages cite."""
    columns = {
        claim["column"]: None for run in runs for claim in run.record.config.get("claims", ())
    }
    names = dict.fromkeys(run.record.experiment for run in runs)
    text = words["methods"].format(
        experiments=len(names), runs=len([run for run in runs if run.record.status == "ok"])
    )
    how = [HOW.get(column, words["methods_else"]) for column in columns]
    told = [text, *dict.fromkeys(line.rstrip(".") for line in how)]
    said = {str(place): line for place, line in enumerate(told)}
    own = methods({"": said}, version=_version(runs))
    cited = sorted(methods_of_runs(runs).references, key=lambda one: one.text.casefold())
    return own._replace(references=tuple(cited))


def _version(runs: Sequence[FinishedRun]) -> str:
    """Return the version of covdp that made all runs; "" where there are several."""
    versions = {run.record.versions.get("covdp", "") for run in runs}
    return versions.pop() if len(versions) == 1 else ""
