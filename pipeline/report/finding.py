"""One sentence of a report."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One sentence: a warning, or left open (not run, not decided), or neither."""

    text: str
    warning: bool = False
    open: bool = False
