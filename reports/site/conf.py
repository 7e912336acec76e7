"""The site of guides: settings of Sphinx, and pages that are made of READMEs and docstrings.

`make docs` builds it. A page includes READMEs or parts of them, and their links lead to the pages
that show the files. Pages in ``reference/python`` are a title each: the names below it are those
that the package shows. The reference of commands is the help of the commands.
"""

import importlib
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from inspect import isfunction
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import covdp
from covdp.cli import app as command

SITE = Path(__file__).resolve().parent
ROOT = SITE.parents[1]

project = html_title = "covdp"
version = release = covdp.__version__
author = copyright = "The covdp developers"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
default_role = "py:obj"  # what stands in backticks in a docstring leads to what it names
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 120
nb_merge_streams = True
autodoc_typehints = "none"  # docstrings have them, with shapes
autosummary_generate = False  # names stand on the page of their package
numpydoc_show_class_members = False
html_theme = "furo"
html_copy_source = False
html_show_search_summary = False  # it would read files, which browsers refuse to pages from a disk

INCLUDE = re.compile(r'```\{include\} (\S+)\n(?::start-after: "(.+)"\n)?(?::end-before: "(.+)"\n)?')


@cache
def included() -> list[tuple[Path, str, str]]:
    """Return each included part of a file: the file, the text, the page that shows it."""
    parts = []
    for page in sorted(SITE.rglob("*.md")):
        for name, start, end in INCLUDE.findall(page.read_text(encoding="utf-8")):
            file = (page.parent / name).resolve()
            text = file.read_text(encoding="utf-8")
            text = text.partition(start)[2] if start else text
            text = text.partition(end)[0] if end else text
            parts.append((file, f"{start}\n{text}", f"/{page.relative_to(SITE)}"))
    return parts


def slugs(text: str) -> list[str]:
    """Return the anchors of the headings of a text, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def led_to(target: str, file: Path, folder: Path) -> str:
    """Return where a link of a file leads on a page of a folder: to a page, else to the file."""
    name, _, anchor = target.partition("#")
    if ":" in name:
        return target
    goal = (file.parent / name).resolve() if name else file
    if (SITE / "reference" / "python" / f"{goal.name}.md").exists() and goal.is_dir():
        return f"/reference/python/{goal.name}.md"
    goal = goal / "README.md" if goal.is_dir() else goal
    shown = [part for part in included() if part[0] == goal]
    for _, text, page in shown:
        if not anchor or anchor in slugs(text):
            return f"{page}#{anchor}" if anchor else page
    return os.path.relpath(goal, folder)


def lead_links(app: Sphinx, path: Path, page: str, content: list[str]) -> None:
    """Lead the links and pictures of an included file to what the site has of them."""
    file, folder = (SITE / path).resolve(), (SITE / app.env.docname).parent
    content[0] = re.sub(
        r"\]\(([^)\s]+)\)", lambda link: f"]({led_to(link[1], file, folder)})", content[0]
    )


def public_names(module: ModuleType) -> list[str]:
    """Return the names that a package shows: neither modules nor what other packages made."""
    found = []
    for name in dir(module):
        value = getattr(module, name)
        ours = str(getattr(value, "__module__", None) or "covdp").startswith("covdp")
        helper = getattr(value, "__name__", "") in ("Registry", "face")  # what packages are made by
        if ours and not (helper or name.startswith("_") or isinstance(value, ModuleType)):
            found.append(name)
    return found


def describe_package(name: str) -> Iterator[str]:
    """Yield the docstring of a package, a table of its names, and each of them in full."""
    module = importlib.import_module(name)
    names = public_names(module)
    yield from (f".. automodule:: {name}", f".. currentmodule:: {name}", "", ".. autosummary::", "")
    yield from (f"   {each}" for each in names)
    for each in returned_classes(module, names):
        yield from ("", f".. autoclass:: {each.__module__}.{each.__name__}")
    for each in names:
        if module is not covdp and each in covdp.__all__:
            continue  # in full on the page of `covdp`
        value = getattr(module, each)
        kind = "class" if isinstance(value, type) else "function" if callable(value) else "data"
        yield from ("", f".. auto{kind}:: {each}")
        if kind == "class":
            yield "   :members:"


def returned_classes(module: ModuleType, names: list[str]) -> list[type]:
    """Return the classes of ours that functions of a package return and no package shows."""
    made = (getattr(module, name) for name in names)
    kinds = (get_type_hints(value).get("return") for value in made if isfunction(value))
    ours = {each for each in kinds if isinstance(each, type) and "covdp." in each.__module__}
    shown = {*names, *covdp.__all__}
    return sorted((each for each in ours if each.__name__ not in shown), key=lambda x: x.__name__)


@cache
def constants() -> dict[str, list[str]]:
    """Return the docstrings of all constants that are loaded, by name."""
    loaded = [name for name in sys.modules if name.startswith("covdp.")]
    docs = (ModuleAnalyzer.for_module(name).find_attr_docs() for name in sorted(loaded))
    return {name: text for each in docs for (scope, name), text in each.items() if not scope}


def write_reference(app: Sphinx, page: str, source: list[str]) -> None:
    """Append to a page of the reference what is written elsewhere: docstrings, help of commands."""
    folder, _, name = page.rpartition("/")
    if folder == "reference/python":
        package = name if name == "covdp" else f"covdp.{name}"
        source[0] += "\n".join(["", "```{eval-rst}", *describe_package(package), "```", ""])
    elif page == "reference/commands":
        text = command.generate_docs(output_format="markdown")
        source[0] += text[text.index("\n## ", text.index("**The program itself**")) :]


def write_docstring(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Keep drawings of modules as they stand; let a star of a shape, or a bar, be one."""
    if what == "data":
        lines[:] = constants().get(name.rpartition(".")[2], lines)
    elif what == "module":
        blocks = re.split(r"\n\n+", "\n".join(lines).strip())
        drawn = [re.sub(r"^", "    ", f"::\n\n{block}", flags=re.M).lstrip() for block in blocks]
        pairs = zip(blocks, drawn, strict=True)
        kept = (d if re.search("^ ", b, re.M) and b[:2] != ".." else b for b, d in pairs)
        lines[:] = "\n\n".join(kept).split("\n")
    else:
        for number, line in enumerate(lines):
            if not line.lstrip().startswith((">>>", "...")):
                lines[number] = re.sub(r"(?<![\w*])\*(?=[A-Za-z])|\|", r"\\\g<0>", line)


def setup(app: Sphinx) -> None:
    """Register what pages are made by."""
    app.connect("include-read", lead_links)
    app.connect("source-read", write_reference)
    app.connect("autodoc-process-docstring", write_docstring, priority=600)  # after numpydoc
