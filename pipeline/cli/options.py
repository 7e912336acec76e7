"""Options that several commands share, and how they print: texts, paths, tables, JSON.

Results go to standard output; progress, warnings and errors to standard error. What ``--json``,
``--quiet`` and ``--verbose`` mean is decided here, once for all commands; and whatever is printed,
no terminal obeys a letter of it.
"""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter
from rich import box
from rich.console import Console
from rich.table import Column, Table

from pipeline.errors import ConfigError, printable
from pipeline.progress import Level, say

DataRoot = Annotated[
    Path | None,
    Parameter("--data-root", help="Folder of the datasets [COVDP_DATA, else data/cache]."),
]
LedgerAddress = Annotated[
    str | None,
    Parameter("--ledger", help="Path or database URL of the ledger [COVDP_LEDGER, else your own]."),
]
Out = Annotated[
    Path | None, Parameter("--out", help="Folder of the results [covdp-output/NAME, here].")
]

_PRINTING = Group("Printing", sort_key=9)
NARROW = 100
"""Columns below which a table leaves out what its command shows for one row alone."""


@Parameter(name="*")
@dataclasses.dataclass(frozen=True)
class Printing:
    """What a command prints, and how much."""

    json: Annotated[
        bool,
        Parameter(
            "--json",
            negative="",
            group=_PRINTING,
            show_default=False,
            help="Print JSON on standard output, only that.",
        ),
    ] = False
    quiet: Annotated[
        bool,
        Parameter(
            ("--quiet", "-q"),
            negative="",
            group=_PRINTING,
            show_default=False,
            help="Print the paths of results and errors, nothing else.",
        ),
    ] = False
    verbose: Annotated[
        bool,
        Parameter(
            ("--verbose", "-v"),
            negative="",
            group=_PRINTING,
            show_default=False,
            help="Print more: all columns; steps and their times also where there is no terminal, "
            "but in a release.",
        ),
    ] = False


PLAIN = Printing()
"""No option given."""


def configure_output(output: Printing) -> None:
    """Set how much is said from here on; raise `ConfigError` for quiet and verbose together."""
    if output.quiet and output.verbose:
        raise ConfigError("--quiet and --verbose exclude each other; leave one out")
    say(Level.QUIET if output.quiet else Level.VERBOSE if output.verbose else Level.NORMAL)


def print_line(line: object) -> None:
    """Print a row on standard output, or several."""
    print(printable(str(line)))


def print_paths(paths: Mapping[str, Path], output: Printing) -> None:
    """Print one line a path, title first; when quiet the path alone."""
    if output.json:
        print_json(paths)
        return
    for title, path in paths.items():
        print_line(path if output.quiet else f"{title:8} {path}")


def print_json(value: Any) -> None:
    """Print a value as JSON; see `plain`. What a terminal would obey is escaped, as JSON does."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False)
    escaped = (x if x.isprintable() or x == "\n" else json.dumps(x)[1:-1] for x in text)
    print(text if text.isprintable() else "".join(escaped))


def plain(value: Any) -> Any:
    """Return a value as JSON has it.

    Paths are text, times ISO 8601, budgets objects with their definition; what is not finite is
    null.
    """
    from pipeline.privacy import Budget

    if isinstance(value, Budget):
        return {"definition": value.name, **dataclasses.asdict(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Path) else value


def width() -> int:
    """Return how wide a table may be: what COLUMNS or the terminal says, else wide enough."""
    columns = os.environ.get("COLUMNS", "")
    given = int(columns) if columns.isdecimal() else 0
    return given or (Console().width if sys.stdout.isatty() else 200)


class _Table(Table):
    """A table whose cells are as `printable` has them."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(printable(x) if isinstance(x, str) else x for x in cells), **options)


def new_table(*heads: Column | str, **options: Any) -> Table:
    """Return an empty table in the one style of all commands."""
    options = {name: printable(x) if isinstance(x, str) else x for name, x in options.items()}
    return _Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False, **options)


def show(item: Table | str, output: Printing) -> None:
    """Print a table or a text, unless quiet; what is long goes on below, nothing is cut off."""
    if output.quiet:
        return
    if isinstance(item, Table):
        for column in item.columns:
            column.overflow = "fold"
    else:
        item = printable(item)
    Console(width=width()).print(item, highlight=False)
