"""What came of a reproduction: which runs there are now, which had no data, and how to get them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
    """

    lines: tuple[str, ...]
    without: tuple[str, ...]


def outcome(
    configs: Sequence[ExperimentConfig],
    folder: Path,
    *,
    root: Path | None,
    out: Path | None,
    options: Sequence[str] | None = None,
) -> Outcome:
    """Read what the runs of `configs` left in `folder`.

    Parameters
    ----------
    root, out : Path, optional
        The data root and the folder of results as they were given, for the commands.
    options : sequence of str, optional
        The other options as they were given.
    """
    lines, ran = list[str](), dict[str, bool]()
    for config in configs:
        record = read_record(run_folder(config, folder) / "run.json")
        done = record.status == "ok"
        ran[config.name] = ran.get(config.name, False) or done
        if not done:
            reason = record.notes[0] if record.notes else record.status
            lines.append(f"not run  {record.run}: {reason}")
            lines.append(f"         gets and runs it: {command(config, root, out, options)}")
    missing = len(lines) // 2
    summary = f"{len(configs) - missing} run, {missing} not run"
    lines.append(f"summary  {summary}: no data" if missing else f"summary  {summary}")
    return Outcome(tuple(lines), tuple(name for name, done in ran.items() if not done))
