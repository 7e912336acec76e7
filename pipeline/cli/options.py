"""Options that several commands share, and how their tables and paths are printed."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

DataRoot = Annotated[
    Path | None,
    Parameter("--data-root", help="Folder of the datasets [COVDP_DATA, else data/cache]."),
]
Ledger = Annotated[
    str | None,
    Parameter("--ledger", help="Path or database URL of the ledger [COVDP_LEDGER, else your own]."),
]
Out = Annotated[Path | None, Parameter("--out", help="Folder of the results.")]


def print_paths(paths: Mapping[str, Path]) -> None:
    """Print one line a path, title first."""
    for title, path in paths.items():
        print(f"{title:8} {path}")


def show(table: Table) -> None:
    """Print a table as wide as COLUMNS or the terminal says, else wide enough; cut nothing off."""
    for column in table.columns:
        column.overflow = "fold"
    columns = os.environ.get("COLUMNS", "")
    given = int(columns) if columns.isdecimal() else 0
    Console(width=given or (None if sys.stdout.isatty() else 200)).print(table)
