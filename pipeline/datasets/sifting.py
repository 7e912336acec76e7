"""Files that cannot be used, told one by one where the first would be raised."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pipeline.errors import DatasetError, ImageError

Sift: TypeAlias = Callable[[str, str, bool], None]
"""``sift(file, reason, listed)``: told of a file, or of a row of a table, that cannot be used, and
whether a list of exclusions can name it."""


def tell(sift: Sift | None, file: str, error: DatasetError, *, listed: bool = True) -> None:
    """Tell of a fault, after which the caller leaves the file out; raise it if nobody is told."""
    if sift is None:
        raise error
    sift(file, str(error), listed)


def none_left(faults: Mapping[str, DatasetError], sift: Sift | None) -> DatasetError:
    """Return what to raise where no file can be used: what the first says, all of them told."""
    for file, fault in faults.items() if sift else ():
        tell(sift, file, fault)
    return next(iter(faults.values()), ImageError("there is no image"))
