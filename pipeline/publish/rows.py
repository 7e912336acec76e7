"""The nights of a stream as rows of one file, to which each night adds one.

A row holds what was released of a night, and its private sums, those of an epoch until the next
begins. It is added once its night is settled, when the next one is written. How many
rows count, and their digest, stands in the sealed file of that next night (``sums.py``): rows
behind these, or the half of one, are of a night that was killed, and are written again. All rows
are read each night, as its sums are weighted sums of all before it, and one is written. They are as
private as the images.
"""

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import OutputError
from pipeline.files import atomic_path, open_regular, synced
from pipeline.publish.transcript import ClassHistory
from pipeline.stream import Epoch, Night, OpeningRelease, PrivateSums, StreamMechanism
from pipeline.stream.factorisation import LIMBS

if TYPE_CHECKING:
    from hashlib import _Hash

NAME = "nights.rows"
RELEASED = ("survey", "shells", "w", "moment")
SUMS = ("counts", "sizes", "means")


class Kept(NamedTuple):
    """How many rows lie in the file, and what their digest is made from."""

    number: int
    digest: "_Hash"


def row_type(stream: StreamMechanism, classes: int) -> np.dtype[Any]:
    """Return what the row of a night is: the same for all nights of a stream."""
    (bins, shells), dim = stream.lengths, stream.space.dim
    products = stream.products
    sizes = zip(RELEASED, (bins, shells, dim, products), strict=True)
    sums = zip(SUMS, (bins, shells, dim + products), strict=True)
    own: list[tuple[Any, ...]] = [("units", "<i8")]
    own += [(name, "<f8", (n,)) for name, n in sizes]
    own += [(name, "<u2", (n, LIMBS)) for name, n in sums]
    return np.dtype([(str(label), own) for label in range(classes)])


def rows_of(
    histories: Sequence[ClassHistory],
    after: Sequence[PrivateSums],
    units: Sequence[int],
    first: int,
) -> NDArray[Any]:
    """Return the rows of the nights behind the `first`, tonight's included: it has no release.

    What was not released is NaN, and private sums that are not needed again are 0.
    """
    tonight = len(histories[0].nights)
    rows = np.zeros(tonight + 1 - first, row_type(histories[0].stream, len(histories)))
    for label, (found, private) in enumerate(zip(histories, after, strict=True)):
        own = rows[str(label)]
        own["units"] = [*(night.units for night in found.nights[first:]), units[label]]
        for name in RELEASED:
            own[name] = np.nan
        for place, night in enumerate(found.nights[first:]):
            told = zip(RELEASED, (night.survey, night.shells, night.w, night.moment), strict=True)
            for name, released in told:
                if released is not None:
                    own[name][place] = released
        series = zip(SUMS, (private.survey, private.shells, private.means), strict=True)
        for name, sums in series:
            if len(sums):
                own[name][-len(sums) :] = sums[-len(rows) :]
    return rows


def write_rows(folder: Path, rows: NDArray[Any], kept: Kept | None) -> Kept:
    """Write rows behind those that lie there; in the place of all, where none are kept."""
    content, path = rows.tobytes(), folder / NAME
    before = kept or Kept(0, hashlib.sha256())
    digest = before.digest.copy()
    digest.update(content)
    if not before.number:
        with atomic_path(path, mode=0o600) as temporary:
            temporary.write_bytes(content)
    else:
        with synced(path) as stream:
            stream.seek(before.number * rows.itemsize)
            stream.write(content)
    return Kept(before.number + len(rows), digest)


def read_rows(
    folder: Path, kind: np.dtype[Any], told: tuple[int, str], tonight: bytes
) -> tuple[NDArray[Any], Kept] | None:
    """Return the rows that a file says lie there, with tonight's, if they are what it says."""
    number, known = told
    content = read_private(folder / NAME, number * kind.itemsize) if number else b""
    if content is None or (digest := hashlib.sha256(content)).hexdigest() != known:
        return None
    return np.frombuffer(content + tonight, kind), Kept(number, digest)


def read_private(path: Path, size: int = -1) -> bytes | None:
    """Return what a file begins with, None where there is none.

    Raises
    ------
    OutputError
        When it is there and cannot be read.
    """
    try:
        with open_regular(path) as stream:
            return stream.read(size)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(
            f"the private sums of the stream in {path.parent} cannot be read ({error.strerror}); "
            "give them back to the user that runs the nights"
        ) from None


def nights_of(
    rows: NDArray[Any], opened: dict[int, OpeningRelease], epochs: dict[int, Epoch]
) -> tuple[Night, ...]:
    """Return the nights of a class, from its rows and what few of them released besides."""
    units = rows["units"].tolist()
    series = [_released(rows[name]) for name in RELEASED]
    return tuple(
        Night(t + 1, many, so_far, opened.get(t), epochs.get(t), *released)
        for t, many, so_far, *released in zip(
            itertools.count(), units, np.cumsum(units).tolist(), *series, strict=False
        )
    )


def private_of(rows: NDArray[Any], held: NDArray[np.float64], last: Sequence[int]) -> PrivateSums:
    """Return the private sums of a class; `last` is how many rows each series has."""
    series = zip(SUMS, last, strict=True)
    return PrivateSums(held, *(rows[name][len(rows) - many :] for name, many in series))


def _released(values: NDArray[np.float64]) -> list[Any]:
    missing = np.isnan(values[:, 0]).tolist()
    return [None if gone else row for gone, row in zip(missing, values, strict=True)]
