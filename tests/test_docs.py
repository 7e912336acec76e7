"""The repository itself: the README names every member, the house keeps its own rules."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from covdp.cli import main
from covdp.datasets import DATASETS
from covdp.descriptors import DESCRIPTORS, find_descriptor
from covdp.errors import CovdpError
from covdp.experiments import EXPERIMENTS
from covdp.geometry import MANIFOLDS, find_manifold
from covdp.mechanisms import MECHANISMS, refusal
from covdp.privacy import DEFINITIONS
from tests.tools import docstrings
from tests.tools.code import parsed, statements

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("[!.]*/README.md")),
    *ROOT.glob("pipeline/*/README.md"),
]
PAGES += [ROOT / ".github" / "CONTRIBUTING.md"]
GUIDES = sorted((ROOT / "reports" / "site").rglob("*.md"))


@pytest.mark.parametrize(
    ("registry", "tokens"),
    [
        (DATASETS, None),
        (DESCRIPTORS, ["descriptors"]),
        (MANIFOLDS, ["mechanisms", "--verbose"]),
        (MECHANISMS, ["mechanisms"]),
        (DEFINITIONS, None),
        (EXPERIMENTS, None),
    ],
    ids=["datasets", "descriptors", "manifolds", "mechanisms", "definitions", "experiments"],
)
def test_a_page_names_every_member(
    registry: dict[str, object], tokens: list[str] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each registry's members stand in the page of the package, in code type, or a command's table.

    The page names the command, so that a new member of these needs no row of it.
    """
    page = (ROOT / "pipeline" / "README.md").read_text(encoding="utf-8")
    if tokens is None:
        assert [name for name in registry if f"`{name}`" not in page] == []
        return
    assert f"`covdp {tokens[0]}`" in page
    assert main(tokens) == 0
    words = set(re.findall(r"[\w-]+", capsys.readouterr().out))
    assert set(registry) - words == set()


@pytest.mark.parametrize(
    ("title", "registry", "ask"),
    [
        ("descriptors", DESCRIPTORS, lambda: find_descriptor("nonesuch")),
        ("manifolds", MANIFOLDS, lambda: find_manifold("nonesuch", np.eye(3)[None])),
        ("mechanisms", MECHANISMS, lambda: refusal("nonesuch", "gdp", "sphere")),
    ],
    ids=["descriptors", "manifolds", "mechanisms"],
)
def test_refusals_name_every_member_and_a_page_no_other(
    title: str, registry: dict[str, object], ask: Callable[[], object]
) -> None:
    """An unknown name is refused with all names there are; the table of a page has members only."""
    try:
        words = str(ask())
    except CovdpError as error:
        words = str(error)
    assert "'nonesuch'" in words
    assert [name for name in registry if name not in words] == []
    page = (ROOT / "pipeline" / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"^\| {title} \|.*?\n\n", page, flags=re.S | re.M)
    cells = "".join(line.split("|")[1] for line in table.split("\n") if line)
    names = set(re.findall(r"`([a-z0-9-]+)`", cells)) - {"auto"}
    assert names
    assert names <= set(registry)


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    """The README has at most 1,300 words, and a link to each other page."""
    assert len(README.split()) <= 1300
    for page in PAGES[1:]:
        assert f"]({page.relative_to(ROOT)})" in README, page


@pytest.mark.parametrize("page", [*PAGES, *GUIDES], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_pages_exist(page: Path) -> None:
    """Every `make` target and `covdp` command of a page exists."""
    from covdp.cli import app

    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"`make ([a-z]+)", text)) <= targets
    blocks = "".join(re.findall(r"```(?:bash)?\n(.*?)```", text, flags=re.S))
    commands = re.findall(r"`covdp ([a-z]+)", text)
    commands += re.findall(r"^ *covdp ([a-z]+)", blocks, flags=re.M)
    assert set(commands) <= set(app)


def test_readme_has_the_words_of_the_default_descriptor() -> None:
    """Kernels, gains, border and normalisation stand there as the descriptor has them."""
    words = " ".join(README.replace("\n> ", " ").split())
    formula = DESCRIPTORS["oct5"].formula
    assert f"{formula[0].upper()}{formula[1:]}." in words


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The example in Python is at most a dozen lines, and prints a symmetric matrix."""
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    assert len([line for line in code.splitlines() if line]) <= 12
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert capsys.readouterr().out.startswith("[[")


def test_importing_the_package_is_quick() -> None:
    """`import covdp` loads nothing heavy: neither NumPy nor any room."""
    code = "import sys, covdp; print([m for m in sys.modules if m in ('numpy', 'covdp.mean')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("page", [*PAGES, *GUIDES], ids=lambda page: str(page.relative_to(ROOT)))
def test_pictures_and_links_of_pages_exist(page: Path) -> None:
    """Every local file that a page shows or links is in the repository."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / target).exists(), target


def test_every_test_states_its_property() -> None:
    """Each test has a docstring of one line that ends in a full stop."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in statements(path):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                said = ast.get_docstring(node)
                assert said, f"{path.name}: {node.name}"
                assert said.split("\n\n")[0].endswith("."), f"{path.name}: {node.name}"


class SourceFile(NamedTuple):
    """A file of the library or the flows: its lines, and those of each function's body."""

    path: Path
    lines: int
    functions: dict[str, int]
    compared: set[object]


@cache
def library() -> list[SourceFile]:
    """Return each file, with the constants that it compares with."""
    found = []
    for path in [*(ROOT / "pipeline").rglob("*.py"), *(ROOT / "flows").rglob("*.py")]:
        text, functions, compared = path.read_text(encoding="utf-8"), {}, set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef):
                docstring = ast.get_docstring(node, clean=False) or ""
                body = node.end_lineno - node.body[0].lineno - docstring.count("\n")
                functions[node.name] = max(body, functions.get(node.name, 0))
            elif isinstance(node, ast.Compare):
                compared |= {x.value for x in ast.walk(node) if isinstance(x, ast.Constant)}
        found.append(SourceFile(path, len(text.splitlines()), functions, compared))
    return found


def test_files_and_functions_stay_short() -> None:
    """No function of the library or the flows has more than 40 lines."""
    for source in library():
        for name, body in source.functions.items():
            assert body <= 40, f"{source.path.name}: {name}"


def test_no_member_is_compared_by_its_name() -> None:
    """What members differ in they carry: no code asks for the name of one.

    But for the one that an adaptive mean stands for in a config, whose noise its steps have.
    """
    members = {*MANIFOLDS, *MECHANISMS, *DESCRIPTORS, *DATASETS}
    asked = {(source.path.name, x) for source in library() for x in source.compared & members}
    assert asked == {("plan.py", "ewg")}


ROOMS = sorted(path.parent for path in (ROOT / "pipeline").glob("*/__init__.py"))


@pytest.mark.parametrize("room", [*ROOMS, ROOT / "flows"], ids=lambda path: path.name)
def test_the_map_of_a_room_names_all_its_files(room: Path) -> None:
    """The docstring of a room has each of its modules, and no file that is not there."""
    found = ast.get_docstring(parsed(room / "__init__.py")) or ""
    modules = {path.stem for path in room.glob("*.py")} - {"__init__", "__main__"}
    assert modules - set(re.findall(r"\w+", found)) == set()
    named = re.findall(r"``([\w/]+\.py)``", found)
    assert [name for name in named if not (room / name).is_file()] == []


def test_constraints_pin_versions_and_name_no_address() -> None:
    """constraints.txt holds NAME==VERSION lines and nothing else."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert len(lines) > 50
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.!]+", line) for line in lines)


def test_parameters_and_returned_values_are_documented() -> None:
    """Parameters of functions, fields of records and returned values, in rooms that are held."""
    assert docstrings.without_parameters(docstrings.held()) == []
    assert docstrings.without_returns(docstrings.held()) == []


def test_documented_types_and_errors_exist() -> None:
    """Each is built in, bound in the file, or can be imported; errors are raised within reach."""
    assert docstrings.unknown_types(docstrings.held()) == []
    assert docstrings.never_raised(docstrings.held()) == []


def test_descriptions_begin_with_a_noun() -> None:
    """Attributes, parameters and classes: not with What, Whether, How, Of, By and their like."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {text.splitlines()[0]}"
        for path in docstrings.held()
        for line, text in docstrings.descriptions(path)
        if docstrings.BANNED.match(text)
    ]
    assert wrong == []


def is_there(code: str) -> bool:
    """Return True if a name in backticks exists, or looks like none of ours."""
    if code.startswith("covdp."):
        return docstrings.resolves(code)
    ours = re.fullmatch(r"[A-Za-z_][\w.]*", code) and re.search(r"[a-z][A-Z]|_|^[A-Z][a-z]", code)
    return not ours or set(code.split(".")) <= docstrings.names_of_ours()


def test_names_and_files_in_docstrings_exist() -> None:
    """In backticks `covdp.x.y`, `Class` and `a_function`, in code type ``file.py``."""
    wrong = []
    for path in docstrings.held():
        rooms = (path.parent, ROOT, ROOT / "pipeline", ROOT / "tests")
        for line, text in docstrings.texts(path):
            codes = [code.removesuffix("()") for code in docstrings.CODE.findall(text)]
            named = re.findall(r"``([\w/]+\.py)``", text)
            gone = [code for code in codes if not is_there(code)]
            gone += [name for name in named if not any((room / name).is_file() for room in rooms)]
            wrong += [f"{path.relative_to(ROOT)}:{line} {name}" for name in gone]
    assert wrong == []


FAULTS = '''
def nothing(a: int) -> int:
    """Return a number."""


def another(a: int) -> int:
    """Add one.

    Parameters
    ----------
    b : Integer
        Whole number.

    Raises
    ------
    NoSuchError
        For no number.
    """
'''


def test_each_fault_of_a_docstring_is_found(tmp_path: Path) -> None:
    """Missing and unknown parameters, a returned value that nothing says, types that are none."""
    path = tmp_path / "faults.py"
    path.write_text(FAULTS, encoding="utf-8")
    wrong = [
        [place.split(" ", 1)[1] for place in find([path])]
        for find in (
            docstrings.without_parameters,
            docstrings.without_returns,
            docstrings.unknown_types,
        )
    ]
    assert wrong == [
        ["faults.nothing", "faults.another"],
        ["faults.another"],
        ["faults.another: Parameters, Integer", "faults.another: Raises, NoSuchError"],
    ]
