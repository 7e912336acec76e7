"""What came of a reproduction: which runs there are now, which had no data, and how to get them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.config import ExperimentConfig
from pipeline.experiments.records import command
from pipeline.experiments.steps import run_folder
from pipeline.results import read_record


class Outcome(NamedTuple):
    """What a person is told in the end.

    Attributes
    ----------
    lines : tuple of str
        What had no data, why, and the command that gets and runs it; then how many of each.
    without : tuple of str
        The experiments that ran on none of their datasets.
    runs : tuple of mapping
        The same for programs: run, whether it is done, why not, and the command that gets it.
    paths : mapping of str to Path
        Where results and report are.
    """

    lines: tuple[str, ...]
    without: tuple[str, ...]
    runs: tuple[Mapping[str, Any], ...]
    paths: Mapping[str, Path]


def outcome(
    configs: Sequence[ExperimentConfig],
    folder: Path,
    page: Path,
    *,
    root: Path | None,
    out: Path | None,
    options: Sequence[str] | None = None,
) -> Outcome:
    """Read what the runs of `configs` left in `folder`.

    Parameters
    ----------
    page : Path
        The report.
    root, out : Path, optional
        The data root and the folder of results as they were given, for the commands.
    options : sequence of str, optional
        The other options as they were given.
    """
    lines, ran, runs = list[str](), dict[str, bool](), list[Mapping[str, Any]]()
    for config in configs:
        record = read_record(run_folder(config, folder) / "run.json")
        done = record.status == "ok"
        ran[config.name] = ran.get(config.name, False) or done
        reason = fetch = None
        if not done:
            reason, fetch = (*record.notes, record.status)[0], command(config, root, out, options)
            lines.append(f"not run  {record.run}: {reason}")
            lines.append(f"         gets and runs it: {fetch}")
        runs.append({"run": record.run, "done": done, "reason": reason, "command": fetch})
    missing = len(lines) // 2
    summary = f"{len(configs) - missing} run, {missing} not run"
    lines.append(f"summary  {summary}: no data" if missing else f"summary  {summary}")
    without = tuple(name for name, done in ran.items() if not done)
    paths = {"results": folder / "results", "report": page}
    return Outcome(tuple(lines), without, tuple(runs), paths)
