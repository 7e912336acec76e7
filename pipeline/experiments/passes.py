"""Passes over one set in a process whose memory is measured, each into a store of its own.

``python -m pipeline.experiments.passes CARD DESCRIPTOR ETA TIMES`` prints `Usage` as JSON. The
image libraries are imported after the idle interpreter has been measured.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import OutputError
from pipeline.parallel import peak_memory


class Usage(NamedTuple):
    """What a process measured of itself.

    Attributes
    ----------
    idle : int
        Its memory before it began, in bytes; 0 where the system does not say.
    seconds : list of float
        How long each pass took.
    peaks : list of int
        The most memory it had had after each, in bytes.
    """

    idle: int
    seconds: list[float]
    peaks: list[int]


def measure(card: Path, descriptor: str, eta: float, times: int) -> Usage:
    """Describe the images of a card some times over."""
    result = Usage(peak_memory(), [], [])
    from pipeline.datasets import open_dataset
    from pipeline.store import fill, find_place, make_plan

    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            source = open_dataset(card, card.parent)
            plan = make_plan(source, descriptor=descriptor, eta=eta)
            filled = fill(plan, find_place(Path(folder) / "store"), shown=False)
        result.seconds.append(filled.seconds)
        result.peaks.append(filled.peak)
    return result


def measured_apart(title: str, *task: object, workers: int) -> Usage:
    """Return what a fresh process with so many threads measures, given the arguments of `measure`.

    Raises
    ------
    OutputError
        When it fails, with its last words.
    """
    ended = subprocess.run(
        [sys.executable, "-m", "pipeline.experiments.passes", *map(str, task)],
        env={**os.environ, "NUMBA_NUM_THREADS": str(workers)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if ended.returncode:
        words = (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        raise OutputError(
            f"a pass over {title} failed ({words}); if memory or disk were short, make the set "
            "smaller, and run again"
        )
    return Usage(*json.loads(ended.stdout))


if __name__ == "__main__":
    card, descriptor, eta, times = sys.argv[1:]
    print(json.dumps(measure(Path(card), descriptor, float(eta), int(times))))
