"""The private sums of a stream, kept between nights: small files, beside the ledger, its owner's.

A file is of one night, and holds its sums before anything of it is drawn. It is written before the
night's privacy units are claimed, and named by them: so a night that was reserved and killed is
finished from its file, whatever happened to the images. What it belongs to is under a seal with the
ledger's key: the nights before it, by the digests of what was committed, and the privacy units of
all of them; and the rows of these nights, which are in a file of their own that grows by one a
night (``rows.py``). A file that was changed, or is of a ledger that went another way, is as good as
none.

For SQLite the files are in ``NAME.nights`` beside the ledger; for PostgreSQL on the machine that
runs the nights, beside the marker. They are as private as the images, and belong into their
backups.

The nights of a stream as rows of one file, to which each night adds one.

A row holds what was released of a night, and its private sums, those of an epoch until the next
begins. It is added once its night is committed, when the next one is written. How many
rows count, and their digest, stands in the sealed file of that next night (``sums.py``): rows
behind these, or the half of one, are of a night that was killed, and are written again. All rows
are read each night, as its sums are weighted sums of all before it, and one is written. They are as
private as the images.
"""

import hashlib
import hmac
import io
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from pipeline.arrays import UNCHECKED
from pipeline.errors import OutputError
from pipeline.files import atomic_path, open_regular, private_folder, synced
from pipeline.ledger import Ledger, StreamAccount, StreamStatus
from pipeline.publish.document import ClassHistory, estimate_part, read_estimate
from pipeline.schema import EstimatePart
from pipeline.stream import Epoch, Night, OpeningRelease, PrivateSums, StreamMechanism
from pipeline.stream.factorisation import LIMBS

if TYPE_CHECKING:
    from hashlib import _Hash


FORMAT = 5
"""Raised when what is in a file changes."""
SEAL = 32
"""Bytes of the seal that a file begins with."""


class StoredClass(BaseModel):
    """What a file says of a class, but for its sums; of the nights that had one, by their number.

    `series` is how many rows each of its series has.
    """

    label: int
    name: str
    units: int
    before: EstimatePart | None
    opened: dict[int, OpeningRelease]
    epochs: dict[int, Epoch]
    series: tuple[int, ...]


class StoredRows(NamedTuple):
    """How many rows are in the file, and what their digest is made from."""

    number: int
    digest: "_Hash"


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """All nights before one, as they were released, and the private sums up to it.

    Attributes
    ----------
    histories : tuple of ClassHistory
        Of each class.
    after : tuple of PrivateSums
        Of each class.
    units : tuple of int
        How many privacy units of each class came in the last night; where labels are secret of all
        classes, for each.
    rows : StoredRows or None
        The rows that are in a file already.
    """

    histories: tuple[ClassHistory, ...]
    after: tuple[PrivateSums, ...]
    units: tuple[int, ...]
    rows: StoredRows | None = None

    def __repr__(self) -> str:
        """Show no value."""
        return "Sums(…)"


def sums_folder(ledger: Ledger, stream: StreamAccount) -> Path:
    """Return the folder of a stream's files; nothing is made yet."""
    return ledger.beside("nights") / stream.identity[:32]


def write_sums(ledger: Ledger, status: StreamStatus, total: str, sums: Sums) -> None:
    """Write the file of the night after all that are committed; `total` is of its privacy units."""
    folder = sums_folder(ledger, status.stream)
    private_folder(folder.parent)
    private_folder(folder)
    before = len(status.digests)
    rows = rows_of(sums.histories, sums.after, sums.units, sums.rows.number if sums.rows else 0)
    stored = write_rows(folder, rows[:-1], sums.rows)
    content = _packed(_owner(status, before, total), sums, stored, rows[-1:])
    with atomic_path(_file(ledger, folder, before + 1, total), mode=0o600) as temporary:
        temporary.write_bytes(seal(ledger, content) + content)


def read_sums(
    ledger: Ledger, status: StreamStatus, mechanism: StreamMechanism, night: int, total: str
) -> Sums | None:
    """Return what the file of a night holds, or None where there is none that belongs to it."""
    path = _file(ledger, sums_folder(ledger, status.stream), night, total)
    content = unsealed(ledger, read_private(path))
    if content is None:
        return None
    head, arrays = _unpacked(content)
    if head["owner"] != _owner(status, night - 1, total):
        return None
    classes = [StoredClass.model_validate(part, context=UNCHECKED) for part in head["classes"]]
    kind = row_type(mechanism, len(classes))
    nights = read_rows(path.parent, kind, head["rows"], arrays["tonight"].tobytes())
    if nights is None:
        return None
    rows, stored = nights
    histories, after = zip(
        *(
            _read_class(part, arrays[f"{i} held"], rows[str(i)], mechanism)
            for i, part in enumerate(classes)
        ),
        strict=True,
    )
    return Sums(histories, after, tuple(part.units for part in classes), stored)


def forget_sums(ledger: Ledger, stream: StreamAccount, night: int) -> None:
    """Remove the files of nights before the one before `night`, which nobody needs again."""
    for path in sums_folder(ledger, stream).glob("*.sums"):
        number = path.name.partition("-")[0]
        if number.isdecimal() and int(number) < night - 1:
            path.unlink(missing_ok=True)


def _file(ledger: Ledger, folder: Path, night: int, total: str) -> Path:
    return folder / f"{night}-{seal(ledger, total.encode()).hex()[:16]}.sums"


def _owner(status: StreamStatus, before: int, total: str) -> dict[str, Any]:
    """Return what the file of the night after the first `before` belongs to."""
    chain, stream = hashlib.sha256(), status.stream
    for digest, units in itertools.islice(zip(status.digests, status.totals, strict=True), before):
        chain.update(f"{digest} {units}\n".encode())
    owner = {"stream": stream.identity, "query": stream.query, "night": before + 1}
    return {"format": FORMAT, **owner, "chain": chain.hexdigest(), "total": total}


def seal(ledger: Ledger, content: bytes, purpose: bytes = b"sums") -> bytes:
    """Return the seal of a file, `SEAL` bytes; that of one kind is none for another."""
    return hmac.digest(ledger.key, purpose + b"\0" + content, "sha256")


def unsealed(ledger: Ledger, file: bytes | None, purpose: bytes = b"sums") -> bytes | None:
    """Return a file without its seal, None where there is none or it is another's."""
    if file is None or not hmac.compare_digest(file[:SEAL], seal(ledger, file[SEAL:], purpose)):
        return None
    return file[SEAL:]


def _packed(owner: dict[str, Any], sums: Sums, stored: StoredRows, tonight: NDArray[Any]) -> bytes:
    """Return a file without its seal: what it belongs to as JSON, then NumPy's arrays."""
    classes = list[StoredClass]()
    arrays: dict[str, NDArray[Any]] = {"tonight": np.frombuffer(tonight.tobytes(), np.uint8)}
    for i, (history, after) in enumerate(zip(sums.histories, sums.after, strict=True)):
        stored_class = StoredClass.model_construct(
            label=history.label,
            name=history.name,
            units=sums.units[i],
            before=None if history.before is None else estimate_part(history.before),
            opened={t: night.opened for t, night in enumerate(history.nights) if night.opened},
            epochs={t: night.epoch for t, night in enumerate(history.nights) if night.epoch},
            series=tuple(len(getattr(after, name)) for name in SUMS),
        )
        classes.append(stored_class)
        arrays[f"{i} held"] = after.held
    rows = stored.number, stored.digest.hexdigest()
    parts = [part.model_dump(warnings=False) for part in classes]
    head = json.dumps({"owner": owner, "rows": rows, "classes": parts}).encode()
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return len(head).to_bytes(8, "little") + head + stream.getvalue()


def _unpacked(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    size = 8 + int.from_bytes(content[:8], "little")
    with np.load(io.BytesIO(content[size:]), allow_pickle=False) as arrays:
        return json.loads(content[8:size]), dict(arrays)


def _read_class(
    part: StoredClass, held: NDArray[np.float64], rows: NDArray[Any], mechanism: StreamMechanism
) -> tuple[ClassHistory, PrivateSums]:
    """Return the history of a class, and its sums."""
    nights = nights_of(rows[:-1], part.opened, part.epochs)
    before = None if part.before is None else read_estimate(part.before, mechanism)
    history = ClassHistory(part.label, part.name, mechanism, nights, before)
    return history, private_of(rows, held, part.series)


ROWS_FILE = "nights.rows"
RELEASED = ("survey", "shells", "w", "moment")
SUMS = ("survey", "shells", "means", "counts")


def row_type(stream: StreamMechanism, classes: int) -> np.dtype[Any]:
    """Return what the row of a night is: the same for all nights of a stream."""
    (bins, shells), dim = stream.lengths, stream.space.dim
    products = stream.products
    counted = int(stream.plan.secret)
    sizes = zip(RELEASED, (bins, shells, dim, products), strict=True)
    sums = zip(SUMS, (bins, shells, dim + products, counted), strict=True)
    own: list[tuple[Any, ...]] = [("units", "<i8"), ("count", "<f8")]
    own += [(name, "<f8", (n,)) for name, n in sizes]
    own += [(f"sum of {name}", "<u2", (n, LIMBS)) for name, n in sums]
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
    for label, (history, private) in enumerate(zip(histories, after, strict=True)):
        own = rows[str(label)]
        own["units"] = [*(night.units for night in history.nights[first:]), units[label]]
        for name in ("count", *RELEASED):
            own[name] = np.nan
        for place, night in enumerate(history.nights[first:]):
            for name in ("count", *RELEASED):
                if (values := getattr(night, name)) is not None:
                    own[name][place] = values
        for name in SUMS:
            sums = getattr(private, name)
            if len(sums):
                own[f"sum of {name}"][-len(sums) :] = sums[-len(rows) :]
    return rows


def write_rows(folder: Path, rows: NDArray[Any], stored: StoredRows | None) -> StoredRows:
    """Write rows behind those that are there; in the place of all, where there are none."""
    content, path = rows.tobytes(), folder / ROWS_FILE
    before = stored or StoredRows(0, hashlib.sha256())
    digest = before.digest.copy()
    digest.update(content)
    if not before.number:
        with atomic_path(path, mode=0o600) as temporary:
            temporary.write_bytes(content)
    else:
        with synced(path) as stream:
            stream.seek(before.number * rows.itemsize)
            stream.write(content)
    return StoredRows(before.number + len(rows), digest)


def read_rows(
    folder: Path, kind: np.dtype[Any], told: tuple[int, str], tonight: bytes
) -> tuple[NDArray[Any], StoredRows] | None:
    """Return the rows that a file says are there, with tonight's, if they are what it says."""
    number, known = told
    content = read_private(folder / ROWS_FILE, number * kind.itemsize) if number else b""
    if content is None or (digest := hashlib.sha256(content)).hexdigest() != known:
        return None
    return np.frombuffer(content + tonight, kind), StoredRows(number, digest)


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
    names = [*RELEASED, "count"]
    series = [_released(rows[name]) for name in RELEASED]
    series.append([None if math.isnan(count) else count for count in rows["count"].tolist()])
    return tuple(
        Night(
            t + 1,
            many,
            so_far,
            opened.get(t),
            epochs.get(t),
            **dict(zip(names, released, strict=True)),
        )
        for t, many, so_far, *released in zip(
            itertools.count(), units, np.cumsum(units).tolist(), *series, strict=False
        )
    )


def private_of(rows: NDArray[Any], held: NDArray[np.float64], last: Sequence[int]) -> PrivateSums:
    """Return the private sums of a class; `last` is how many rows each series has."""
    series = zip(SUMS, last, strict=True)
    return PrivateSums(held, *(rows[f"sum of {name}"][len(rows) - many :] for name, many in series))


def _released(values: NDArray[np.float64]) -> list[Any]:
    missing = np.isnan(values[:, 0]).tolist()
    return [None if gone else row for gone, row in zip(missing, values, strict=True)]
