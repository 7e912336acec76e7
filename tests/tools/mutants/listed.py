"""The list of breaks: what it holds, and whether it still fits the code."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@dataclass(frozen=True)
class Mutant:
    """One break, as it is written in the TOML files beside this one.

    Attributes
    ----------
    name : str
        What it is called on screen and on the command line.
    file : str
        What it changes, from the root of the project.
    old, new : str
        Text that occurs exactly once there, and what takes its place.
    breaks : str
        What would go wrong.
    killers : tuple of str
        Tests that are likely to notice, run first: modules or single tests, from ``tests``.
    survives : str
        Why no test can notice, and why it does no harm; empty for all that must be killed.
    """

    name: str
    file: str
    old: str
    new: str
    breaks: str
    killers: tuple[str, ...]
    survives: str = ""

    def apply(self, root: Path) -> str:
        """Return the text of the file with the break in it."""
        return (root / self.file).read_text(encoding="utf-8").replace(self.old, self.new)


def read_mutants(words: list[str]) -> list[Mutant]:
    """Return the mutants whose name holds one of `words`, all without words."""
    found: list[Mutant] = []
    for path in sorted(HERE.glob("*.toml")):
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
        found += [Mutant(**{**row, "killers": tuple(row["killers"])}) for row in rows]
    return [item for item in found if not words or any(word in item.name for word in words)]


def faults(mutants: list[Mutant], root: Path = ROOT) -> list[str]:
    """Return a line for each mutant that cannot be applied to the tree at `root`, or means nothing.

    One is stale when its text does not occur exactly once: the code has changed. Say the same break
    in the words of today, or drop it with the code that it broke.
    """
    names = [item.name for item in mutants]
    lines = [
        f"{name}: more than one mutant of this name" for name in set(names) if names.count(name) > 1
    ]
    for item in mutants:
        path = root / item.file
        count = path.read_text(encoding="utf-8").count(item.old) if path.is_file() else 0
        if count != 1:
            lines.append(f"{item.name}: stale, its text occurs {count} times in {item.file}")
            continue
        try:
            compile(item.apply(root), item.file, "exec")
        except SyntaxError as error:
            lines.append(f"{item.name}: is no Python, {error.msg} in line {error.lineno}")
        lines += [
            f"{item.name}: there is no test {killer}"
            for killer in item.killers
            if not _is_test(killer, root)
        ]
    return sorted(lines)


def _is_test(killer: str, root: Path) -> bool:
    """Return whether a module of tests, or a test in it, is there."""
    module, _, name = killer.partition("::")
    path = root / "tests" / module
    return path.is_file() and (not name or f"def {name}(" in path.read_text(encoding="utf-8"))
