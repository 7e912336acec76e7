"""One sentence of a report."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One sentence: a warning, left open (not run, not decided), only told, or found true."""

    text: str
    warning: bool = False
    open: bool = False
    told: bool = False
