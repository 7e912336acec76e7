"""Printing of commands: texts, tables in one style, JSON.

Results go to standard output; progress, warnings and errors to standard error. Whatever is printed,
no terminal obeys a letter of it.
"""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from rich import box
from rich.console import Console
from rich.table import Column, Table

from covdp.cli.streams import takes_unicode
from covdp.errors import printable


class Screen(Console):
    """Standard output of tables and help; who reads, such as `head`, may have had enough."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to the command line, as with what is printed otherwise."""
        raise BrokenPipeError


def print_line(line: object) -> None:
    """Print a row on standard output, or several.

    Parameters
    ----------
    line : object
        Text of the row, or of several.
    """
    print(printable(str(line)))


def print_json(value: Any) -> None:
    """Print a value as JSON; see `plain`.

    Letters that a terminal would obey, or that standard output cannot hold, are escaped.

    Parameters
    ----------
    value : object
        Value that `plain` turns into JSON.
    """
    some = not takes_unicode(sys.stdout)
    text = json.dumps(plain(value), ensure_ascii=some, indent=2, allow_nan=False)
    escaped = (x if x.isprintable() or x == "\n" else json.dumps(x)[1:-1] for x in text)
    print(text if text.isprintable() else "".join(escaped))


def plain(value: Any) -> Any:
    """Return a value as JSON has it.

    Paths are text, times ISO 8601, budgets objects with their definition; what is not finite is
    null.

    Parameters
    ----------
    value : object
        Budget, record, mapping, sequence, array, path, time or number.
    """
    from covdp.privacy import Budget

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
    stated = int(columns) if columns.isdecimal() else 0
    return stated or (Console().width if sys.stdout.isatty() else 200)


class _Table(Table):
    """A table whose cells are as `printable` has them."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(printable(x) if isinstance(x, str) else x for x in cells), **options)


def numbers(*heads: str, **options: Any) -> list[Column]:
    """Return columns of numbers.

    Parameters
    ----------
    *heads : str
        Heads of the columns.
    **options : object
        Further options of `rich.table.Column`.
    """
    return [Column(head, justify="right", no_wrap=True, **options) for head in heads]


def new_table(*heads: Column | str, rows: Iterable[Sequence[Any]] = (), **options: Any) -> Table:
    """Return a table in the one style of all commands, with some rows.

    Parameters
    ----------
    *heads : Column or str
        Columns, or their heads.
    rows : iterable of sequence of object
        Cells of each row.
    **options : object
        Further options of `rich.table.Table`.
    """
    options = {name: printable(x) if isinstance(x, str) else x for name, x in options.items()}
    table = _Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False, **options)
    for row in rows:
        table.add_row(*row)
    return table
