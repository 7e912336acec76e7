"""Break a copy of the project, one line at a time, and see that a test fails each time.

    python -m tests.tools.mutants [--check | --quick] [word ...]

Each break is tried on the tests that are likely to notice; one that lives through them without a
written reason, on all that look at the release path. With words, only the mutants whose name holds
one of them; with ``--check`` only whether the list fits the code; with ``--quick`` only the likely
tests. Exit code 1 when one is alive without a written reason, killed in spite of one, or stale; 2
when the unbroken project does not pass.
"""

import argparse
import os
import queue
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.tools.code import let_import
from tests.tools.mutants.fork import prepare, run_forked
from tests.tools.mutants.listed import ROOT, Mutant, faults, read_mutants

WORKERS = 2
RELEVANT = (
    "publish/test_guards.py",
    "publish/test_publish.py",
    "publish/test_persons.py",
    "mean/test_adaptive.py",
    "mean/test_adaptive_parts.py",
    "mean/test_barycentre.py",
    "mean/test_chunks.py",
    "addons/nights/test_stream.py",
    "addons/nights/test_nights.py",
    "descriptors/test_domain.py",
    "mechanisms/test_noise_laws.py",
    "privacy/test_calibration.py",
    "privacy/test_laws_privacy.py",
    "privacy/test_conversion.py",
    "ledger/test_ledger.py",
    "ledger/test_ledger_faults.py",
    "ledger/test_ledger_journal.py",
    "ledger/test_ledger_restored.py",
    "addons/nights/test_ledger_streams.py",
    "publish/test_withheld.py",
    "mean/test_sensitivity.py",
    "mechanisms/test_laws_mechanism.py",
    "descriptors/test_descriptors.py",
    "geometry/test_linalg.py",
    "mean/test_private_mean.py",
    "experiments/test_jobs.py",
    "results/test_results.py",
    "report/test_report.py",
    "report/test_release_page.py",
    "addons/audit/test_audit.py",
    "addons/audit/test_noise.py",
    "flows/test_flows.py",
)
"""All tests that look at the release path, for breaks that the likely ones let live."""
LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "output", "cache", "*.egg-info", "build", "dist"
)
SLACK = 4.0
"""A mutant may take this many times as long as the unbroken project, and a minute for compiling."""


class UnbrokenError(Exception):
    """The unbroken project does not pass."""


@dataclass
class Tree:
    """A copy of the project that is broken and mended again, with machine code of its own."""

    root: Path
    stamp: int = 10**9

    def run(self, tests: Sequence[str], limit: float, numba: Path | None = None) -> tuple[int, str]:
        """Run tests until one fails; return pytest's exit code, -1 for too late, and its words."""
        options = ["-q", "-x", "--tb=no", "--no-header", "-p", "no:cacheprovider"]
        options += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
        told = {
            "PYTHONPATH": str(self.root),
            "NUMBA_CACHE_DIR": str(numba or self.root / ".numba"),
            "COLUMNS": "300",
            "PYTEST_DEBUG_TEMPROOT": str(self.root.parent),  # other runs clear theirs
        }
        return run_forked([*options, *(f"tests/{name}" for name in tests)], self.root, told, limit)

    def write(self, file: Path, text: str) -> None:
        """Write a module with a time of its own, so that no compiled form is taken for it."""
        file.write_text(text, encoding="utf-8")
        self.stamp += 10
        os.utime(file, (self.stamp, self.stamp))


@dataclass(frozen=True)
class MutantVerdict:
    """How it went: killed by which test, or alive; `fault` when it cannot be said."""

    mutant: Mutant
    killer: str
    seconds: float
    fault: str = ""

    @property
    def problem(self) -> str:
        """What is wrong, in one line; empty when all is as it should be."""
        reason = self.mutant.survives
        if self.fault:
            return f"{self.mutant.name}: {self.fault}"
        if self.killer and reason:
            return f"{self.mutant.name}: killed, though it is said to be harmless; drop its reason"
        if not self.killer and not reason:
            return f"{self.mutant.name}: ALIVE, {self.mutant.breaks}; write the missing test"
        return ""


def judge(mutant: Mutant, tree: Tree, limit: float, tests: Sequence[str]) -> MutantVerdict:
    """Break the tree, run tests until one fails, and mend it."""
    started, file = time.perf_counter(), tree.root / mutant.file
    whole = file.read_text(encoding="utf-8")
    killer = fault = ""
    tree.write(file, mutant.apply(tree.root))
    with tempfile.TemporaryDirectory(dir=tree.root.parent) as fresh:
        # the machine code of one file may hold that of another: compile all of it again
        numba = Path(fresh) if "import compiled" in whole else None
        code, words = tree.run(tests, limit, numba)
    if code == 1:
        failed = re.search(r"^(?:FAILED|ERROR) (?:tests/)?(.*?)(?: - .*)?$", words, re.M)
        killer = failed.group(1) if failed else "a test"
    elif code == -1:
        killer = f"the limit of {limit:.0f} s"
    elif code != 0:
        fault = f"pytest ended with {code}: {' '.join(words.split())[-300:]}"
    tree.write(file, whole)
    return MutantVerdict(mutant, killer, time.perf_counter() - started, fault)


def plant(folder: Path) -> list[Tree]:
    """Copy the project once for each worker."""
    trees = [Tree(folder / str(number)) for number in range(WORKERS)]
    for tree in trees:
        shutil.copytree(ROOT, tree.root, ignore=LEFT_OUT)
        shutil.copy(ROOT / ".dockerignore", tree.root)  # tests read them
        shutil.copytree(ROOT / ".github", tree.root / ".github")
        let_import(tree.root)
    return trees


def unbroken(trees: list[Tree], tests: Sequence[str]) -> float:
    """Return the seconds that `tests` take on whole trees; raise `UnbrokenError` if one fails."""
    started = time.perf_counter()
    count = min(len(trees), len(tests))  # a tree without a test of its own would run all
    parts = [list(tests[number::count]) for number in range(count)]
    with ThreadPoolExecutor(len(trees)) as pool:
        for code, words in pool.map(lambda tree, part: tree.run(part, 3600), trees, parts):
            if code != 0:
                raise UnbrokenError(words[-2000:])
    return len(trees) * (time.perf_counter() - started)


def judge_all(
    mutants: list[Mutant], trees: list[Tree], tests_of: Callable[[Mutant], Sequence[str]]
) -> dict[str, MutantVerdict]:
    """Return the verdict on each mutant, by name, of the tests that `tests_of` gives for it.

    Raises
    ------
    UnbrokenError
        When one of them does not pass on the unbroken project.
    """
    if not mutants:
        return {}
    tests = dict.fromkeys(test for mutant in mutants for test in tests_of(mutant))
    limit = SLACK * unbroken(trees, list(tests)) + 60
    free: queue.Queue[Tree] = queue.Queue()
    for tree in trees:
        free.put(tree)

    def next_one(mutant: Mutant) -> MutantVerdict:
        tree = free.get()
        try:
            return judge(mutant, tree, limit, tests_of(mutant))
        finally:
            free.put(tree)

    found = dict[str, MutantVerdict]()
    with ThreadPoolExecutor(len(trees)) as pool:
        for job in as_completed([pool.submit(next_one, mutant) for mutant in mutants]):
            verdict = job.result()
            found[verdict.mutant.name] = verdict
            print(
                f"{len(found)}/{len(mutants)} {verdict.mutant.name}: "
                f"{verdict.killer or verdict.fault or 'alive'}",
                file=sys.stderr,
            )
    return found


def show(verdicts: list[MutantVerdict]) -> Table:
    """Return the table: each mutant, what killed it, and how long that took."""
    table = Table("mutant", "what it breaks", "killed by", "s", title="Breaks of the release path")
    for item in verdicts:
        end = item.killer or item.fault or "alive: " + (item.mutant.survives or "NO REASON")
        table.add_row(item.mutant.name, item.mutant.breaks, end, f"{item.seconds:.0f}")
    return table


def main() -> int:
    """Judge the mutants and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutants", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only see whether the list fits")
    parser.add_argument("--quick", action="store_true", help="only the likely killers")
    parser.add_argument("word", nargs="*", help="only mutants whose name holds one of these")
    told = parser.parse_args()
    mutants = read_mutants(told.word)
    if wrong := faults(mutants):
        print("\n".join(wrong), file=sys.stderr)
        return 1
    if told.check:
        print(f"{len(mutants)} mutants fit the code")
        return 0
    with tempfile.TemporaryDirectory(prefix="covdp-mutants-") as folder:
        trees = plant(Path(folder))
        prepare(Path(folder, "prefect"))
        try:
            found = judge_all(mutants, trees, lambda mutant: mutant.killers)
            left = [item.mutant for item in found.values() if "ALIVE" in item.problem]
            found |= judge_all([] if told.quick else left, trees, lambda _: RELEVANT)
        except UnbrokenError as error:
            print(f"{error}\nthe unbroken project does not pass; mend it first", file=sys.stderr)
            return 2
        verdicts = [found[mutant.name] for mutant in mutants]
    Console().print(show(verdicts))
    alive = [item for item in verdicts if not item.killer and not item.fault]
    excused = sum(bool(item.mutant.survives) for item in alive)
    print(f"{len(verdicts)} mutants, {len(alive)} alive, {excused} of them with a reason")
    problems = [item.problem for item in verdicts if item.problem]
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
