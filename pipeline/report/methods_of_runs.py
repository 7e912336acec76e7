"""What the pages of experiments and their index end with: a paragraph a run, what they cite."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.report.claims import HOW, UNRUN, verdicts
from pipeline.report.methods import Methods, Said, methods
from pipeline.report.methods_of_experiment import of_experiment
from pipeline.report.runs import FinishedRun, where
from pipeline.results import Table


def methods_of_runs(runs: Sequence[FinishedRun]) -> Methods:
    """Return what a paper says of some runs, a paragraph each: only what their rows hold."""
    return methods({run.id: _said(run) for run in runs}, apart=True, version=_version(runs))


def _said(run: FinishedRun) -> Said:
    """Return what a run did; of one without a result, that there is none."""
    record = run.record
    if run.rows is None or not np.any(run.rows["status"] == "ok"):
        return {"kind": f"“{record.experiment}” has no result on {record.dataset.name}"}
    rows = {name: column[run.rows["status"] == "ok"] for name, column in run.rows.items()}
    config = {"dataset": record.dataset.name, **record.config, "seed": record.seed}
    held = set(rows["class_name"].tolist())
    classes = [one for one in record.classes if one.name in held or record.config.get("source")]
    return of_experiment(
        _held(config | {"name": record.experiment}, rows),
        title=where(run),
        classes=", ".join(f"{one.name} n = {one.n:,}" for one in classes),
        guarantees={
            series: text
            for series, text in record.guarantees.items()
            if series in set(rows["series"].tolist())
        },
    )


def _held(config: Mapping[str, Any], rows: Table) -> dict[str, Any]:
    """Return a config as if it had asked for no more than there are rows of."""
    counts = {
        name: len(set(rows["repetition"][rows["series"] == name].tolist()))
        for name in dict.fromkeys(rows["series"].tolist())
    }
    most = max(counts.values())
    series = [
        {**one, "repetitions": None if counts[one["series"]] == most else counts[one["series"]]}
        for one in config.get("mechanisms", ())
        if one["series"] in counts
    ]
    found = {**config, "mechanisms": series, "repetitions": most}
    if config.get("baseline") not in counts or len(counts) < 2:
        found["baseline"] = ""
    if not config.get("composition"):  # whose rows have the budgets of all queries together
        spent = set(rows["budget"].tolist())
        found["budgets"] = [one for one in config.get("budgets", ()) if float(one) in spent]
    return found


def methods_of_site(runs: Sequence[FinishedRun], words: Mapping[str, str]) -> Methods:
    """Return how the statements of all runs were decided, and all that their pages cite."""
    judged = [run for run in runs if any(one.word != UNRUN for one in verdicts(run))]
    columns = {
        claim["column"]: None for run in judged for claim in run.record.config.get("claims", ())
    }
    done = [run for run in runs if run.record.status == "ok"]
    text = words["methods"].format(
        experiments=len({run.record.experiment for run in done}), runs=len(done)
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
