"""Options that several commands share.

What ``--json``, ``--quiet`` and ``--verbose`` mean is decided here, once for all commands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter, Token
from rich.table import Table

from covdp.cli.output import Screen, print_json, print_line, width
from covdp.errors import ConfigError, printable
from covdp.progress import Level, say


def here(_: Any, tokens: Sequence[Token]) -> Path:
    """Return a place on this machine, ``~/`` being the user's home; refuse an address.

    Parameters
    ----------
    _ : object
        Type of the option, which is known.
    tokens : sequence of Token
        Words of the option, of which there is one.
    """
    if "://" in (text := tokens[0].value):
        raise ConfigError(f"{text} is an address; name a folder or a file on this machine")
    return Path.home() / text[2:] if text.startswith("~/") else Path(text)


Written = partial(Parameter, "--out", converter=here)
"""An option that tells where something is written."""
DataRoot = Annotated[
    Path | None,
    Parameter(
        "--data-root",
        converter=here,
        help="Folder of the datasets [COVDP_DATA, else the user's cache].",
    ),
]
ConfigRoot = Annotated[
    DataRoot,
    Parameter(
        help="Folder of the images [that of the config, else COVDP_DATA, else the user's cache]."
    ),
]
LedgerAddress = Annotated[
    str | None,
    Parameter("--ledger", help="Path or database URL of the ledger [COVDP_LEDGER, else your own]."),
]
Out = Annotated[Path | None, Written(help="Folder of the results [covdp-output/NAME, here].")]

NARROW = 100
"""Columns below which a table leaves out what its command shows for one row alone."""

_flag = partial(Parameter, negative="", group=Group("Printing", sort_key=9), show_default=False)


@Parameter(name="*")
@dataclass(frozen=True)
class Printing:
    """Options of what a command prints.

    Attributes
    ----------
    json : bool
        True if JSON is printed, and nothing else.
    quiet : bool
        True if paths of results and errors are printed, and nothing else.
    verbose : bool
        True if all columns are printed, and steps with their times.
    """

    json: Annotated[bool, _flag("--json", help="Print JSON on standard output, only that.")] = False
    quiet: Annotated[
        bool, _flag(("--quiet", "-q"), help="Print the paths of results and errors, nothing else.")
    ] = False
    verbose: Annotated[
        bool,
        _flag(
            ("--verbose", "-v"),
            help="Print all columns, and each step with its time, except in a release.",
        ),
    ] = False

    def begin(self) -> None:
        """Set how much is printed from here on; `ConfigError` for quiet and verbose together."""
        if self.quiet and self.verbose:
            raise ConfigError("--quiet and --verbose exclude each other; leave one out")
        say(Level.QUIET if self.quiet else Level.VERBOSE if self.verbose else Level.NORMAL)

    def answer(
        self, value: Any, *items: Table | str, paths: Mapping[str, Path] | None = None
    ) -> None:
        """Print a value, with `paths`, as JSON; or what a person reads of it, then the paths.

        Parameters
        ----------
        value : object
            Value that is printed as JSON.
        *items : Table or str
            Tables and texts that a person reads instead.
        paths : mapping of str to Path, optional
            Paths of results, by their titles.
        """
        if self.json:
            print_json(value if paths is None else {**value, **paths})
            return
        for item in items:
            self.show(item)
        self.paths(paths or {})

    def paths(self, paths: Mapping[str, Path]) -> None:
        """Print one line a path, title first; the path alone when quiet, or if its title is a file.

        Parameters
        ----------
        paths : mapping of str to Path
            Paths of results, by their titles.
        """
        if self.json:
            print_json(paths)
            return
        for title, path in paths.items():
            alone = self.quiet or (title == Path(path).name and "." in title)
            print_line(path if alone else f"{title:8} {path}")

    def show(self, item: Table | str) -> None:
        """Print a table or a text, unless quiet; what is long goes on below, nothing is cut off.

        Parameters
        ----------
        item : Table or str
            Table or text.
        """
        if self.quiet:
            return
        if isinstance(item, Table):
            for column in item.columns:
                column.overflow = "fold"
        else:
            item = printable(item)
        Screen(width=width()).print(item, highlight=False)


PLAIN = Printing()
"""No option given."""
