"""What came of a reproduction: which runs there are now, which had no data, and how to get them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.experiments.logbook import command
from pipeline.experiments.run import Run
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


def outcome(runs: Sequence[Run], page: Path, out: Path | None) -> Outcome:
    """Read what the runs left behind.

    Parameters
    ----------
    page : Path
        The report.
    out : Path, optional
        The folder of results as it was given, for the commands.
    """
    lines, ran, told = list[str](), dict[str, bool](), list[Mapping[str, Any]]()
    for run in runs:
        record = read_record(run.log)
        done = record.status == "ok"
        ran[run.config.name] = ran.get(run.config.name, False) or done
        reason = fetch = None
        if not done:
            reason, fetch = (*record.notes, record.status)[0], command(run, out)
            lines.append(f"not run  {record.run}: {reason}")
            lines.append(f"         gets and runs it: {fetch}")
        told.append({"run": record.run, "done": done, "reason": reason, "command": fetch})
    missing = len(lines) // 2
    summary = f"{len(runs) - missing} run, {missing} not run"
    lines.append(f"summary  {summary}: no data" if missing else f"summary  {summary}")
    without = tuple(name for name, done in ran.items() if not done)
    paths = {"results": page.parent / "results", "report": page}
    return Outcome(tuple(lines), without, tuple(told), paths)
