"""The goals of the house, each counted: ``python -m tests.tools.count`` prints now against goal.

A line of code has a token outside comments and docstrings. A file is small below forty of them, but
for a package's face. A class name stands twice where `pipeline` and `flows`, or the tests too,
define it again. An import circle is a set of files that import each other, in functions and under
``TYPE_CHECKING`` too.

The rest is counted in tiny runs. A walk follows the objects of a class: budgets through a private
mean, the config through a release and through the second night of a stream, the card through the
opening of a DICOM file. Rooms are the files with a function that is given one, itself or in a
record; returns are entries of a file that had been left. The goal is half of what they were when
they were first counted. Record types are those that are made between the first noise and the region
of a mean and hold what another of them holds. Openings, passes and parses are calls. At last the
lines of code are split by what README.md promises: what a promise less would save.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

from tests.tools.code import (
    PACKAGES,
    ROOT,
    classes_named_twice,
    files,
    import_circles,
    lines_of_code,
)
from tests.tools.trace import calls, records_made, walk

SMALL = 40

WALKS = {"budget": (8, 2), "release": (5, 11), "night": (9, 18), "DICOM": (7, 7)}
"""Rooms and returns of each walk, when they were first counted."""

POPULATION = 'population = "tiles"'
"""What stands in the config of the tiny release alone."""

PROMISES = {
    "DICOM, NIfTI and tables of files are read": {
        "addons/hospital": "**/*",
        "datasets": "pictures encoded jpeg listing classed draft summary cards source",
        "cli": "start",
    },
    "the published experiments and our own claims, paper beside ours": {
        "datasets": "download library npz torchvision tiles",
        "experiments": "**/*",
        "figures": "curves pictures",
        "addons/papers": "*",
        "mechanisms": "additive exponential radial wrapping",
        "report": "findings runs run_* split",
        "results": "record",
        "cli": "experiments",
        ".": "config",
    },
    "Each image is paid for once, on the night it arrives": {
        "addons/nights": "arrivals commands experiment followed ledger night stream/* sums",
        ".": "stream",
    },
    "None costs privacy": {
        "inference": "*",
        "addons/partners": "*",
    },
    "The ledger charges before noise is drawn": {"ledger": "*", "cli": "ledger status"},
    "one page with all that was released": {
        "publish": "history",
        "addons/nights": "*",
    },
    "attacks every mechanism and compares what leaks with what is claimed": {"addons/audit": "*"},
    "error and price, before anything is spent": {".": "planning"},
    "releases the mean matrix of each class with a proven guarantee": {".": "**/*"},
}
"""Sentences of README.md, and the files of each room that are there for them.

A file counts for the first sentence that names it.
"""

BETWEEN = ("mean", "mechanisms", "inference")
"""The rooms whose records are counted."""

Row = tuple[str, int, int]
"""What is counted, how much it is now, and the goal: at most so much."""


def in_files() -> list[Row]:
    """Return what is counted in the files as they are."""
    ours = files(*PACKAGES)
    small = [path for path in ours if path.name != "__init__.py" and lines_of_code(path) < SMALL]
    return [
        ("lines of code in pipeline", sum(map(lines_of_code, files("pipeline"))), 21_000),
        ("files in pipeline and flows", len(ours), 190),
        (f"files of less than {SMALL} lines", len(small), 0),
        ("class names that stand twice", len(classes_named_twice(ours)), 0),
        ("the same with tests", len(classes_named_twice(files(*PACKAGES, "tests"))), 0),
        ("import circles", len(import_circles(ours)), 0),
        ("dependencies of a plain install", len(required()), 30),
        ("words of README.md", len((ROOT / "README.md").read_text(encoding="utf-8").split()), 1300),
    ]


def by_promise() -> dict[str, list[Path]]:
    """Return the files of `pipeline` that each promise needs, and no other before it."""
    left, found = set(files("pipeline")), dict[str, list[Path]]()
    for promise, rooms in PROMISES.items():
        mine = {
            path
            for room, names in rooms.items()
            for name in names.split()
            for path in (ROOT / "pipeline" / room).glob(f"{name}.py")
        }
        found[promise] = sorted(mine & left)
        left -= mine
    return found


def without(over: int, lines: dict[str, int]) -> list[str]:
    """Return the fewest promises that have so many lines; all stand on the last, which stays."""
    found, left = list[str](), over
    for promise in sorted(list(lines)[:-1], key=lambda promise: -lines[promise]):
        if left <= 0:
            break
        found.append(promise)
        left -= lines[promise]
    return found


def required() -> list[str]:
    """Return the packages that are required without extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [re.split(r"[\s<>=!~;\[]", line)[0] for line in project["dependencies"]]


def installed() -> set[str]:
    """Return the packages that come with a plain install: the required ones and all of theirs."""
    from packaging.requirements import Requirement

    found, waiting = set[str](), required()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        found.add(name)
        lines = map(Requirement, metadata.requires(name) or [])
        waiting += [r.name for r in lines if not r.marker or r.marker.evaluate({"extra": ""})]
    return found


def in_runs(folder: Path) -> list[Row]:
    """Return what is counted while tiny runs run in an empty folder."""
    from covdp import GDP
    from covdp.datasets import DATASET_KINDS, find_card, open_dataset
    from covdp.publish import ReleaseConfig
    from tests.tools import golden

    ledger, out, stream = folder / "ledger.sqlite", folder / "out", golden.write_stream(folder)
    golden.make_ledger(ledger, {"tiles": 9.0, "stream": 30.0})
    config = folder / "release.toml"
    config.write_text(golden.RELEASE.format(population="tiles", dataset="tiles", budget=1.0))

    def release(run_key: str) -> None:
        golden.release(config, run_key, ledger, out)

    def night(number: int) -> None:
        golden.add_night(folder, number)
        golden.release(stream, f"2026-03-{number:02d}", ledger, out)

    night(1)
    card = write_scan(folder)
    walks = {
        "budget": walk(one_mean, GDP),
        "release": walk(lambda: release("monday"), ReleaseConfig),
        "night": walk(lambda: night(2), ReleaseConfig),
        "DICOM": walk(lambda: open_dataset(card, folder), type(find_card(card))),
    }
    rows = [
        row
        for name, found in walks.items()
        for row in (
            (f"rooms of a walk: {name}", found.rooms, WALKS[name][0] // 2),
            (f"returns of a walk: {name}", found.returns, WALKS[name][1] // 2),
        )
    ]
    stamp = type(open_dataset("tiles").read).stamp
    opened, digested = calls(lambda: run(folder / "run"), DATASET_KINDS["tiles"].open, stamp)
    (parsed,) = calls(command(config, ledger, out), tomllib.loads, text=POPULATION)
    records = [name for name in records_made(to_region) if name.split(".")[1] in BETWEEN]
    return [
        *rows,
        ("record types from noise to region", len(records), 3),
        ("openings of a dataset in a run of 3 classes", opened, 1),
        ("passes of digests in a run of 3 classes", digested, 1),
        ("parses of a config in a release", parsed, 1),
    ]


def run(folder: Path) -> None:
    """Run an experiment on all classes of the tiles."""
    from tests.tools import golden

    folder.mkdir()
    config = folder / "tiny.toml"
    series = '[[mechanisms]]\nseries = "one"\nmechanism = "ewg"\n'
    config.write_text(golden.MAIN.replace("classes = [0, 2]", "") + series)
    golden.run_experiment(config, folder)


def command(config: Path, ledger: Path, out: Path) -> Callable[[], object]:
    """Return a release by the command line."""
    from covdp.cli import main

    given = {"config": config, "ledger": ledger, "out": out, "run-key": "friday"}
    options = [word for name, value in given.items() for word in (f"--{name}", str(value))]

    def release() -> None:
        with redirect_stdout(StringIO()):
            main(["release", *options, "--quiet"])

    return release


def one_mean(begin: Callable[[], None] = lambda: None) -> Any:
    """Release one private mean; call `begin` when noise is drawn for the first time."""
    import numpy as np

    from covdp import GDP, MANIFOLDS, describe, domain, open_dataset, private_mean

    class Watched(np.random.Generator):
        """NumPy's generator, which tells of what is drawn."""

        def standard_normal(self, *given: Any, **named: Any) -> Any:
            begin()
            return super().standard_normal(*given, **named)

    return private_mean(
        describe(next(iter(open_dataset("tiles").chunks(label=0)))),
        GDP(1.0),
        domain=domain("oct5", height=28, width=28),
        manifold=MANIFOLDS["spd-log-euclidean"](k=5),
        rng=Watched(np.random.PCG64(7)),
    )[0]


def to_region(begin: Callable[[], None]) -> None:
    """Release a private mean and make its region."""
    from covdp.inference import region

    found = region(one_mean(begin))
    _ = found.radius, found.covariance


def write_scan(folder: Path) -> Path:
    """Write a folder of one CT slice, and return its card."""
    import numpy as np

    from tests.sample_dicom import write_dicom

    write_dicom(folder / "scans" / "well" / "slice.dcm", np.arange(64, dtype="<i2").reshape(8, 8))
    card = folder / "scans.toml"
    card.write_text(
        'kind = "dicom"\npath = "scans"\nchannels = 1\nclasses = ["well"]\nwindow = [0, 60]\n'
    )
    return card


def main(arguments: list[str] | None = None) -> None:
    """Print all of it as a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.count", description=__doc__)
    parser.add_argument("--json", action="store_true", help="for programs")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = [*in_files(), *in_runs(Path(folder).resolve())]
    if asked.json:
        print(json.dumps([dict(zip(("name", "now", "goal"), row, strict=True)) for row in rows]))
        return
    print(f"{'':46}{'now':>8}{'goal':>8}")
    for name, now, goal in rows:
        print(f"{name:46}{now:8,}{goal:8,}{'' if now <= goal else '  over'}")
    print(f"With all that they require, {len(installed())} packages are installed.")
    print("\nLines of code in pipeline, by what README.md promises:")
    lines = {promise: sum(map(lines_of_code, paths)) for promise, paths in by_promise().items()}
    for promise, count in lines.items():
        print(f"{count:8,}  {promise}")
    _, now, goal = rows[0]
    print(f"{now - goal:,} lines over the goal; it would be met without these promises:")
    for promise in without(now - goal, lines):
        print(f"{'':10}{promise}")


if __name__ == "__main__":
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    sys.exit(main())
