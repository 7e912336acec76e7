"""One sentence of a report."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One sentence, and whether it is a warning."""

    text: str
    warning: bool = False
