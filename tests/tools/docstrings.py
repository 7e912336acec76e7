"""Docstrings as data: parameters, types, names in backticks and examples of all that is public.

The linter (`make lint`) holds that functions document exactly their parameters. Counted and tested
here is what no linter knows: fields of records, returned values, and whether things exist. Rooms
that the linter leaves out for now are listed in pyproject.toml, and read from there.
"""

import ast
import builtins
import importlib
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.tools.code import PACKAGES, ROOT, files, imported, module_name, parsed

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n(.*?)(?=^\w[\w ]*\n-{3,}$|\Z)", re.M | re.S)
"""Title and body of a section."""
RECORDS = ("NamedTuple", "Record", "Card", "Mechanism")
"""Ends of the names of classes whose fields are parameters."""
SHAPED = {"array", "arrays", "array-like", "shape", "of", "or", "to", "optional"}
KINDS = {"mapping", "sequence", "iterable", "iterator", "callable"}
NUMBERS = {"uint8", "uint16", "int64", "float64", "bytes_", "datetime64"}
WORDS = SHAPED | KINDS | NUMBERS
"""Words of documented types that are no names."""
TABLE = re.compile(r'\{.*?\}|".*?"|`.*?`|shape \S*?\([^()]*(\([^()]*\))?[^()]*\)|\([^()]*\)')
"""Parts of a documented type that are no names: values and shapes."""
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
BANNED = re.compile(r"(What|Whether|How|Of|By|Those|They|It|Where|Whose|Who|When|Why)\b")
"""First words that are not the noun that is described."""


class Export(NamedTuple):
    """A public function, method or class: its file, dotted name, and syntax tree.

    Attributes
    ----------
    owner : ast.ClassDef or None
        Class of a method.
    """

    path: Path
    name: str
    node: Documented
    owner: ast.ClassDef | None

    @property
    def text(self) -> str:
        """Docstring, "" where there is none."""
        return ast.get_docstring(self.node) or ""

    @property
    def place(self) -> str:
        """File, line and name."""
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.node.lineno} {self.name}"


@cache
def linted() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the names and the files that the linter leaves out."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    settings = tomllib.loads(text)["tool"]["numpydoc_validation"]
    left_out = settings["exclude"], settings["exclude_files"]
    names, paths = (re.compile("|".join(some) or "(?!)") for some in left_out)
    return names, paths


def held() -> list[Path]:
    """Return the files whose docstrings are held to the rules."""
    out = linted()[1]
    return [path for path in files(*PACKAGES) if not out.match(str(path.relative_to(ROOT)))]


def exports(paths: Iterable[Path] | None = None) -> Iterator[Export]:
    """Yield all that is public in some files, or in all."""
    for path in files(*PACKAGES) if paths is None else paths:
        waiting: list[tuple[str, ast.Module | ast.ClassDef]] = [(path.stem, parsed(path))]
        for prefix, owner in waiting:
            for node in owner.body:
                if not isinstance(node, Documented) or node.name.startswith("_"):
                    continue
                export = Export(
                    path,
                    f"{prefix}.{node.name}",
                    node,
                    owner if isinstance(owner, ast.ClassDef) else None,
                )
                if linted()[0].search(export.name):
                    continue
                yield export
                if isinstance(node, ast.ClassDef):
                    waiting.append((export.name, node))


def sections(text: str) -> dict[str, list[tuple[str, str, str]]]:
    """Return the entries of each section of a docstring: names, type, and first line."""
    found = dict[str, list[tuple[str, str, str]]]()
    for title, body in SECTION.findall(text):
        lines = body.split("\n")
        found[title] = [
            (*line.partition(" : ")[::2], below.strip() if below.startswith(" ") else "")
            for line, below in zip(lines, [*lines[1:], ""], strict=True)
            if line and not line.startswith(" ")
        ]
    return found


def names_of(entries: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the names that entries document, of which one may have several."""
    return [name.strip() for names, _, _ in entries for name in names.split(",")]


def parameters(function: Function, *, bound: bool) -> list[str]:
    """Return the names of a function's parameters, but for the first of a `bound` one."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)][bound:]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [each.arg for each in given.kwonlyargs]
    return names + ([f"**{given.kwarg.arg}"] if given.kwarg else [])


def fields(record: ast.ClassDef) -> tuple[set[str], set[str]]:
    """Return the public fields of a record, and those with a docstring of their own."""
    decorated = any("dataclass" in ast.unparse(each) for each in record.decorator_list)
    if not decorated and not any(ast.unparse(each).endswith(RECORDS) for each in record.bases):
        return set(), set()
    found, told = set[str](), set[str]()
    for node, after in zip(record.body, [*record.body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            public = not node.target.id.startswith("_")
            if public and "ClassVar" not in ast.unparse(node.annotation):
                found.add(node.target.id)
                told |= {node.target.id} if _is_text(after) else set()
    return found, told


def _is_text(node: ast.AST | None) -> bool:
    """Tell whether a statement is a text alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def without_parameters(paths: Iterable[Path] | None = None) -> list[str]:
    """Return the exports that do not document each of their parameters or fields, and no other."""
    found = []
    for export in exports(paths):
        node, entries = export.node, sections(export.text)
        told = names_of(entries.get("Parameters", []))
        if isinstance(node, Function):
            static = any(ast.unparse(each) == "staticmethod" for each in node.decorator_list)
            wanted = parameters(node, bound=export.owner is not None and not static)
            complete = told == wanted
        else:
            wanted_fields, own = fields(node)
            inits = [x for x in node.body if isinstance(x, Function) and x.name == "__init__"]
            wanted = [name for x in inits for name in parameters(x, bound=True)]
            known = {*told, *names_of(entries.get("Attributes", [])), *own}
            complete = set(wanted) <= {*told} and wanted_fields <= known
        if not complete:
            found.append(export.place)
    return found


def without_returns(paths: Iterable[Path] | None = None) -> list[str]:
    """Return the functions that return something and do not say what.

    A summary that begins with "Return" or "Yield" says it, and so does "Give" of a context manager.
    A property is described by a noun.
    """
    found = []
    for export in exports(paths):
        node = export.node
        if isinstance(node, ast.ClassDef):
            continue
        decorators = [ast.unparse(each) for each in node.decorator_list]
        returned = ast.unparse(node.returns) if node.returns else "None"
        silent = returned in ("None", "NoReturn") or returned == "Iterator[None]"
        titles = sections(export.text).keys() & {"Returns", "Yields"}
        said = titles or export.text.startswith(("Return ", "Yield ", "Give "))
        if not (said or silent or any("property" in each for each in decorators)):
            found.append(export.place)
    return found


def unknown_types(paths: Iterable[Path] | None = None) -> list[str]:
    """Return the documented types, and documented errors, that do not exist."""
    found = []
    for export in exports(paths):
        for title, entries in sections(export.text).items():
            if title not in ("Parameters", "Attributes", "Returns", "Yields", "Raises"):
                continue
            for names, types, _ in entries:
                said = types or (names if title not in ("Parameters", "Attributes") else "")
                told = re.findall(r"[A-Za-z_][\w.-]*", TABLE.sub(" ", said))
                gone = [name for name in told if name not in WORDS and not exists(name, export)]
                found += [f"{export.place}: {title}, {name}" for name in gone]
    return found


def exists(name: str, export: Export) -> bool:
    """Return True if a name is bound in an export's file, built in, or found by import."""
    if name == "fault" and name in names_of(sections(export.text).get("Parameters", [])):
        return True
    head, _, rest = name.partition(".")
    ours = bound_in(export.path)
    if rest:
        return resolves(f"{ours.get(head, head)}.{rest}")
    errors = bound_in(ROOT / "pipeline" / "errors.py")
    return name in ours or name in errors or hasattr(builtins, name)


@cache
def bound_in(path: Path) -> dict[str, str]:
    """Return the names that a file binds at its top, and what each is imported from."""
    nodes, found = list[ast.AST](parsed(path).body), dict[str, str]()
    for node in nodes:
        if isinstance(node, ast.If | ast.Try):
            nodes += [*node.body, *node.orelse]
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                head = alias.name if module or alias.asname else alias.name.partition(".")[0]
                found[alias.asname or head] = f"{module}{head}"
        targets = [*getattr(node, "targets", ()), getattr(node, "target", None)]
        bound = [name for each in targets for name in getattr(each, "elts", [each])]
        names = [name.id for name in bound if isinstance(name, ast.Name)]
        found |= dict.fromkeys([*names, getattr(node, "name", "")], "")
    return found


@cache
def resolves(name: str) -> bool:
    """Return True if a dotted name can be imported, attribute by attribute."""
    head, *rest = name.split(".")
    try:
        thing: object = importlib.import_module(head)
    except ImportError:
        return False
    for at, part in enumerate(rest, 2):
        if not hasattr(thing, part):
            try:
                importlib.import_module(".".join(name.split(".")[:at]))
            except ImportError:
                return part in getattr(thing, "__dataclass_fields__", ()) or part in getattr(
                    thing, "__annotations__", ()
                )
        thing = getattr(thing, part)
    return True


def never_raised(paths: Iterable[Path] | None = None) -> list[str]:
    """Return the documented errors of ours that no file in reach raises.

    In reach are an export's file and those that it imports; a subclass counts as its base.
    """
    ours = {module_name(path): path for path in files(*PACKAGES)}
    errors = importlib.import_module("covdp.errors")
    found = []
    for export in exports(paths):
        for name in names_of(sections(export.text).get("Raises", [])):
            if isinstance(error := getattr(errors, name, None), type):
                near = [export.path, *(ours[each] for each in imported(export.path, ours))]
                used = set[str]().union(*map(_names_used, near))
                kinds = (getattr(errors, each) for each in used & set(vars(errors)))
                if not any(isinstance(kind, type) and issubclass(kind, error) for kind in kinds):
                    found.append(f"{export.place}: {name}")
    return found


@cache
def _names_used(path: Path) -> frozenset[str]:
    """Return the names that a file's code reads, imports apart."""
    return frozenset(node.id for node in ast.walk(parsed(path)) if isinstance(node, ast.Name))


def with_example(paths: Iterable[Path] | None = None) -> list[str]:
    """Return the exports whose docstring has an example that is run."""
    return [export.place for export in exports(paths) if ">>> " in export.text]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring of a file, those of attributes too."""
    for node in ast.walk(parsed(path)):
        for part in node.body if isinstance(node, ast.Module | Documented) else ():
            if _is_text(part) and isinstance(part.value.value, str):
                yield part.lineno, part.value.value


def descriptions(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of what begins with a noun: files, attributes, classes, parameters.

    Summaries of functions begin with a verb, and are left out.
    """
    yield 1, ast.get_docstring(parsed(path)) or ""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef):
            for before, part in zip(node.body, node.body[1:], strict=False):
                if isinstance(before, ast.Assign | ast.AnnAssign) and _is_text(part):
                    yield part.lineno, str(part.value.value)
        if isinstance(node, Documented):
            text = ast.get_docstring(node) or ""
            decorators = [ast.unparse(each) for each in node.decorator_list]
            if isinstance(node, ast.ClassDef) or any("property" in each for each in decorators):
                yield node.lineno, text
            for title, entries in sections(text).items():
                if title in ("Parameters", "Attributes", "Returns", "Yields"):
                    yield from ((node.lineno, below) for _, _, below in entries)


@cache
def names_of_ours() -> set[str]:
    """Return every name that a file of ours defines, takes or imports."""
    found = set[str]()
    for path in files(*PACKAGES):
        for node in ast.walk(parsed(path)):
            for key in ("name", "id", "arg", "attr", "asname"):
                found.add(str(getattr(node, key, "")))
    return found
