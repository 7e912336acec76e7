"""The judge of broken copies: stale breaks are named, and no verdict comes for nothing."""

from pathlib import Path

import pytest

from tests.tools.mutants.__main__ import MutantVerdict, Tree, UnbrokenError, judge, judge_all
from tests.tools.mutants.listed import Mutant, faults, read_mutants

CODE = "def noise(sigma):\n    return sigma\n"
KILLERS = ("test_code.py",)
TESTS = "from code_of import noise\n\ndef test_noise():\n    assert noise(2) == 2\n"


def mutant(**fields: str) -> Mutant:
    """Return a break of `CODE`, with changes."""
    known = {"name": "half", "file": "code_of.py", "old": "return sigma", "new": "return sigma / 2"}
    return Mutant(**{**known, "breaks": "half the noise", **fields}, killers=KILLERS)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Make a project of one function and one test."""
    (tmp_path / "root" / "tests").mkdir(parents=True)
    (tmp_path / "root" / "code_of.py").write_text(CODE)
    (tmp_path / "root" / "tests" / "test_code.py").write_text(TESTS)
    return Tree(tmp_path / "root")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, []),
        ({"old": "return tau"}, ["half: stale, its text occurs 0 times in code_of.py"]),
        ({"old": "sigma"}, ["half: stale, its text occurs 2 times in code_of.py"]),
        ({"file": "gone.py"}, ["half: stale, its text occurs 0 times in gone.py"]),
        ({"new": "return ("}, ["half: is no Python, '(' was never closed in line 2"]),
    ],
)
def test_stale_breaks_are_named(tree: Tree, fields: dict[str, str], words: list[str]) -> None:
    """A break whose text does not occur exactly once, or that is no Python, is a line."""
    assert faults([mutant(**fields)], tree.root) == words


def test_names_and_tests_are_checked(tree: Tree) -> None:
    """Two breaks of one name, and a likely killer that is not there, are lines."""
    twice = faults([mutant(), mutant()], tree.root)
    assert twice == ["half: more than one mutant of this name"]
    (tree.root / "tests" / "test_code.py").unlink()
    assert faults([mutant()], tree.root) == ["half: there is no test test_code.py"]


def test_a_break_is_killed_and_the_tree_is_mended(tree: Tree) -> None:
    """The test that fails is named; what changes nothing is alive; the file is as it was."""
    killed = judge(mutant(), tree, 100.0, KILLERS)
    assert (killed.killer, killed.problem) == ("test_code.py::test_noise", "")
    alive = judge(mutant(new="return 1 * sigma"), tree, 100.0, KILLERS)
    assert not alive.killer
    assert "ALIVE" in alive.problem
    assert (tree.root / "code_of.py").read_text() == CODE


def test_a_break_that_cannot_be_judged_is_no_kill(tree: Tree) -> None:
    """When the tests cannot even be collected, nobody has noticed anything."""
    found = judge(mutant(new="return sigma\nraise OSError"), tree, 100.0, KILLERS)
    assert not found.killer
    assert "pytest ended with 2" in found.problem


def test_no_verdict_without_an_unbroken_project_that_passes(tree: Tree) -> None:
    """A test that fails anyway has noticed nothing."""
    (tree.root / "tests" / "test_code.py").write_text(TESTS.replace("== 2", "== 3"))
    with pytest.raises(UnbrokenError, match="1 failed"):
        judge_all([mutant(new="return 3")], [tree], lambda one: one.killers)


def test_reasons_must_be_true() -> None:
    """A break with a written reason may live, and must."""
    excused = mutant(survives="nothing reads it")
    assert not MutantVerdict(excused, "", 1.0).problem
    assert "drop its reason" in MutantVerdict(excused, "test_code.py::test_noise", 1.0).problem
    assert "ALIVE" in MutantVerdict(mutant(), "", 1.0).problem


def test_the_list_is_long_enough() -> None:
    """At least 60 breaks, each said in words and with a test to begin with."""
    mutants = read_mutants([])
    assert len(mutants) >= 60
    assert all(item.breaks and item.killers for item in mutants)


def test_the_list_fits_the_code() -> None:
    """Every listed break still has its line, and names tests that exist."""
    found = read_mutants([])
    assert len(found) >= 60
    assert faults(found) == []
