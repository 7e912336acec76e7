"""The goals of the house, each counted: ``python -m tests.tools.count`` prints now against goal.

A line of code has a token outside comments and docstrings. The ground floor is `pipeline` without
its add-ons. An import circle is a set of files that import each other, in functions and under
``TYPE_CHECKING`` too. Imports of add-ons are those in the ground floor, and those of an add-on in
another that may not (`MAY`).

The rest is counted in tiny runs. A walk follows the objects of a class: budgets through a private
mean, the config through a release and through the second night of a stream, the card through the
opening of a DICOM file. Rooms are the files with a function that is given one, itself or in a
record; returns are entries of a file that had been left. The goal is half of what they were when
they were first counted. Record types are those that are made between the first noise and the region
of a mean and hold what another of them holds. Openings, passes and parses are calls. Modules are
those that `covdp run` on the embedded images imports.

At last each dependency of a plain install is printed with what it weighs and what it is for.
"""

import argparse
import ast
import json
import os
import re
import subprocess
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
    imported,
    lines_of_code,
    module_name,
    parsed,
    statements,
)
from tests.tools.trace import calls, records_made, walk

ADDONS = ROOT / "pipeline" / "addons"

WALKS = {"budget": (8, 2), "release": (5, 11), "night": (9, 18), "DICOM": (7, 7)}
"""Rooms and returns of each walk, when they were first counted."""

POPULATION = 'population = "tiles"'
"""What stands in the config of the tiny release alone."""

MAY = {"partners": {"nights"}, "audit": {"nights"}}
"""Add-on → add-ons that it may import."""

BETWEEN = ("mean", "mechanisms", "inference")
"""The rooms whose records are counted."""

Row = tuple[str, int, int]
"""What is counted, how much it is now, and the goal: at most so much."""


def in_files() -> list[Row]:
    """Return what is counted in the files as they are."""
    ours, tests = files(*PACKAGES), files("tests")
    ground = [path for path in files("pipeline") if ADDONS not in path.parents]
    return [
        ("lines of code in the ground floor", sum(map(lines_of_code, ground)), 15_000),
        ("files in the ground floor", len(ground), 110),
        ("lines of code in pipeline", sum(map(lines_of_code, files("pipeline"))), 29_000),
        ("imports of add-ons", len(imports_of_addons()), 0),
        ("class names that stand twice", len(classes_named_twice([*ours, *tests])), 0),
        ("import circles", len(import_circles(ours)), 0),
        ("Any in pipeline/mean", sum(map(names_of_any, files("pipeline/mean"))), 0),
        ("fields of SeriesConfig", fields_of("SeriesConfig"), 15),
        ("fields of ExperimentConfig", fields_of("ExperimentConfig"), 20),
        ("dependencies of a plain install", len(required()), 22),
        ("words of README.md", len((ROOT / "README.md").read_text(encoding="utf-8").split()), 1300),
        ("uses of monkeypatch.setattr", sum(map(patches, tests)), 100),
        ("imports between test modules", len(imports_of_tests()), 0),
    ]


def imports_of_addons() -> list[str]:
    """Return the imports, "module → module", of add-ons by whoever may not import them."""
    modules = {module_name(path): path for path in files(*PACKAGES)}
    found = list[str]()
    for name, path in modules.items():
        own = _addon_of(name)
        for other in sorted(imported(path, modules)):
            theirs = _addon_of(other)
            if theirs not in ("", own, *MAY.get(own, ())) and not name.startswith("covdp.flows"):
                found.append(f"{name} → {other}")
    return found


def _addon_of(module: str) -> str:
    """Return the add-on in which a module is, "" for none."""
    return module.removeprefix("covdp.addons.").partition(".")[0] if ".addons." in module else ""


def names_of_any(path: Path) -> int:
    """Return how often a file names `Any` in an annotation."""
    nodes = ast.walk(parsed(path))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def fields_of(model: str) -> int:
    """Return the number of fields of a model of the settings."""
    from covdp import config

    return len(getattr(config, model).model_fields)


def patches(path: Path) -> int:
    """Return how often a file of tests replaces an attribute of ours or of a library."""
    return path.read_text(encoding="utf-8").count("monkeypatch.setattr" + "(")


def imports_of_tests() -> list[str]:
    """Return the imports of a test module in another."""
    return [
        f"{path.relative_to(ROOT).as_posix()} → {node.module}"
        for path in files("tests")
        for node in statements(path)
        if isinstance(node, ast.ImportFrom) and ".test_" in f".{node.module}"
    ]


def weights() -> list[tuple[str, float, str]]:
    """Return each package that is required, its own size in MB, and what it is for."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    purposes = dict(re.findall(r'^    "([A-Za-z0-9-]+)[^"]*",  # (.*)$', text, re.M))
    return [
        (name, sum(file.size or 0 for file in metadata.files(name) or ()) / 1e6, purposes[name])
        for name in required()
    ]


def modules_of_a_run(folder: Path) -> list[str]:
    """Return the modules of ours that `covdp run` on the embedded images imports."""
    code = (
        "import sys; from covdp.cli import main; code = main(sys.argv[1:]); "
        "print('|'.join(name for name in sys.modules if name.split('.')[0] == 'covdp')); "
        "sys.exit(code)"
    )
    options = ["run", "--repetitions", "2", "--out", str(folder / "modules"), "--quiet"]
    command = [sys.executable, "-c", code, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split("|")


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
        ("modules of ours in a run on the tiles", len(modules_of_a_run(folder)), 90),
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
    print("\nWhat a plain install requires, in MB of its own:")
    for name, size, purpose in sorted(weights(), key=lambda row: -row[1]):
        print(f"{size:8,.1f}  {name:20}{purpose}")


if __name__ == "__main__":
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    sys.exit(main())
