"""The source code as data: lines of code, names of classes, and who imports whom."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.tools.once import no_search_for_garbage

ROOT = Path(__file__).parents[2]
PACKAGES = ("pipeline", "flows")
NAMES = {"pipeline": ("covdp",), "flows": ("covdp", "flows")}
"""Folder of the checkout → what it is imported as."""
DEFINITIONS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
TEXTS = ast.Constant | ast.JoinedStr


def files(*folders: str) -> list[Path]:
    """Return the Python files in folders of the repository, in order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file; to look for garbage meanwhile takes twice the time."""
    with no_search_for_garbage():
        return ast.parse(path.read_text(encoding="utf-8"))


def let_import(root: Path) -> None:
    """Link the folders of a copy of the tree, for who has `root` on the path to import."""
    (root / "covdp").symlink_to("pipeline")
    (root / "pipeline" / "flows").symlink_to("../flows")


def statements(path: Path) -> Iterator[ast.AST]:
    """Yield the file itself and all statements in it, whatever they stand in; no expressions."""
    waiting: list[ast.AST] = [parsed(path)]
    for node in waiting:
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())


@cache
def lines_of_code(path: Path) -> int:
    """Return how many lines are neither blank nor in comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    docstrings = [
        node.body[0].value
        for node in statements(path)
        if isinstance(node, DEFINITIONS) and ast.get_docstring(node, clean=False) is not None
    ]
    code = (line.strip()[:1] not in ("", "#") for line in text.splitlines())
    lines = {number for number, is_code in enumerate(code, 1) if is_code}
    for node in docstrings:
        lines -= set(_span(node))
    # other texts of several lines may have what looks like a comment, or a blank line
    if text.count('"""') > 2 * len(docstrings):
        texts = (node for node in ast.walk(parsed(path)) if isinstance(node, TEXTS))
        lines.update(*(_span(node) for node in texts if node not in docstrings))
    return len(lines)


def _span(node: ast.expr) -> range:
    """Return the lines of an expression."""
    return range(node.lineno, (node.end_lineno or 0) + 1)


def classes_named_twice(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return each class name that stands in several places, with the places."""
    places = defaultdict[str, list[str]](list)
    for path in paths:
        nodes = statements(path) if "class " in path.read_text(encoding="utf-8") else ()
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return {name: places[name] for name in sorted(places) if len(places[name]) > 1}


def constants_named_twice(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return each name in capitals that several modules give a value, with the modules."""
    places = defaultdict[str, set[str]](set)
    for path in paths:
        for node in parsed(path).body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            for target in targets:
                for name in getattr(target, "elts", [target]):
                    if isinstance(name, ast.Name) and name.id.isupper() and len(name.id) > 1:
                        places[name.id].add(str(path.relative_to(ROOT)))
    return {name: sorted(places[name]) for name in sorted(places) if len(places[name]) > 1}


def module_name(path: Path) -> str:
    """Return the dotted name of a file's module: the folder `pipeline` is imported as `covdp`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = (*NAMES.get(parts[0], parts[:1]), *parts[1:])
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """Return which of `modules` a file imports: in functions and under ``TYPE_CHECKING`` too.

    A name of a package's face counts as the package, a submodule as itself.
    """
    names = set[str]()
    for node in statements(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in modules else node.module)
    return names & modules.keys()


def import_circles(paths: Iterable[Path]) -> list[list[str]]:
    """Return the sets of modules that import each other, in however many steps."""
    modules = {module_name(path): path for path in paths}
    uses = {name: imported(path, modules) for name, path in modules.items()}
    reached = {name: reachable(name, uses) for name in modules}
    circles = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in modules
        if name in reached[name]
    }
    return sorted(sorted(circle) for circle in circles)


def reachable(start: str, uses: Mapping[str, set[str]]) -> set[str]:
    """Return what is imported from `start` on; itself only if it is in a circle."""
    found, waiting = set[str](), [start]
    while waiting:
        fresh = uses[waiting.pop()] - found
        found |= fresh
        waiting += fresh
    return found
