"""Files that nights hand on: a small one for each of the last two, beside the ledger, its owner's.

A file is of one night. It holds all nights before it as they were released, the private sums up to
it, and which files need not be read again. It is written before the night's privacy units are
claimed, and named by them: so a night that was reserved and killed is finished from its file,
whatever happened to the images. What it belongs to is under a seal with the ledger's key: the
nights before it, by the digests of what was committed, and the privacy units of all of them. A file
that was changed, or is of a ledger that went another way, is as good as none.

For SQLite the files are in ``NAME.nights`` beside the ledger; for PostgreSQL on the machine that
runs the nights, beside the marker. They are as private as the images, and belong into their
backups.
"""

import hashlib
import hmac
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from covdp.addons.nights.account import NightState, StreamAccount, StreamStatus
from covdp.addons.nights.schema import EstimatePart
from covdp.addons.nights.stream import Epoch, Night, OpeningRelease, PrivateSums, StreamMechanism
from covdp.addons.nights.transcript import ClassHistory, estimate_part, read_estimate
from covdp.arrays import UNCHECKED, FloatArray
from covdp.errors import OutputError
from covdp.files import open_regular, private_folder, write_whole
from covdp.ledger import Ledger
from covdp.store import DIGEST

SUMS_FORMAT = 8
"""Raised when what is in a file changes."""
SEAL_BYTES = 32
"""Bytes of the seal that a file begins with."""
STAMP = 16
"""Bytes of what a file of images is known by: two of 10⁹ have the same with probability 10⁻²¹."""
UNIT = DIGEST + 8
"""Bytes of a privacy unit in a file: of an image its pixel digest, and which copy it is."""
RELEASED = ("shells", "w", "moment")
SUMS = ("waiting", "shells", "means", "counts")


class StoredClass(BaseModel):
    """Content of a file on a class, but for its arrays; of nights that had one, by their number.

    `units` has tonight's too, `counts` are the released ones of the nights before.
    """

    label: int
    name: str
    units: list[int]
    counts: list[float | None]
    before: EstimatePart | None
    opened: dict[int, OpeningRelease]
    epochs: dict[int, Epoch]


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """All nights before one, as they were released, and the private sums up to it.

    Attributes
    ----------
    histories : tuple of ClassHistory
        Nights of each class.
    after : tuple of PrivateSums
        Private sums of each class.
    units : tuple of int
        Number of privacy units of each class in the last night; where labels are secret of all
        classes, for each.
    stamps : mapping of bytes to bytes
        Stamp of each image that need not be read again, and its privacy unit; of persons the first
        bytes of theirs. Files of older versions have the pixel digest, or nothing.
    """

    histories: tuple[ClassHistory, ...]
    after: tuple[PrivateSums, ...]
    units: tuple[int, ...]
    stamps: Mapping[bytes, bytes] = field(default_factory=dict)


def sums_folder(ledger: Ledger, stream: StreamAccount) -> Path:
    """Return the folder of a stream's files; nothing is made yet.

    Parameters
    ----------
    ledger : Ledger
        Ledger beside which the folder is.
    stream : StreamAccount
        Stream, as it was opened.
    """
    return ledger.beside("nights") / stream.identity[:32]


def write_sums(ledger: Ledger, status: StreamStatus, total: str, sums: Sums) -> None:
    """Write the file of the night after all that are committed.

    Parameters
    ----------
    ledger : Ledger
        Ledger beside which the file is.
    status : StreamStatus
        State of the stream and of its night.
    total : str
        HMAC of the privacy units of the night.
    sums : Sums
        Nights before, and the private sums.
    """
    folder = sums_folder(ledger, status.stream)
    private_folder(folder.parent)
    private_folder(folder)
    before = len(status.stream.committed)
    content = _packed(_owner(status, before, total), sums)
    file = _file(ledger, folder, before + 1, total)
    write_whole(file, _seal(ledger, content) + content, mode=0o600)


def read_sums(
    ledger: Ledger, status: StreamStatus, mechanism: StreamMechanism, night: NightState | None
) -> Sums | None:
    """Return the content of the file of a night, or None where there is none that belongs to it.

    Parameters
    ----------
    ledger : Ledger
        Ledger beside which the file is.
    status : StreamStatus
        State of the stream and of its night.
    mechanism : StreamMechanism
        Mechanism of the stream.
    night : NightState or None
        Night of the file; None for no night.

    Raises
    ------
    OutputError
        When it is there and cannot be read.
    """
    if night is None:
        return None
    path = _file(ledger, sums_folder(ledger, status.stream), night.night, night.total)
    try:
        with open_regular(path) as stream:
            sealed, content = stream.read(SEAL_BYTES), stream.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(
            f"the private sums of the stream in {path.parent} cannot be read ({error.strerror}); "
            "give them back to the user that runs the nights"
        ) from None
    if not hmac.compare_digest(sealed, _seal(ledger, content)):
        return None
    first, _, numbers = content.partition(b"\n")
    head = json.loads(first)
    if head["owner"] != _owner(status, night.night - 1, night.total):
        return None
    arrays = _unpacked(head["arrays"], numbers)
    classes = [StoredClass.model_validate(part, context=UNCHECKED) for part in head["classes"]]
    return Sums(
        tuple(_history(i, part, arrays, mechanism) for i, part in enumerate(classes)),
        tuple(PrivateSums(*(arrays[f"{i} {name}"] for name in SUMS)) for i in range(len(classes))),
        tuple(part.units[-1] for part in classes),
        {row[:STAMP]: _unit(row[STAMP:]) for row in arrays["stamps"].tolist()},
    )


def forget_sums(ledger: Ledger, stream: StreamAccount, night: int) -> None:
    """Remove the files of nights before the one before `night`, which nobody needs again.

    Files that were being written when a process was killed go too; see `atomic_path`.

    Parameters
    ----------
    ledger : Ledger
        Ledger beside which the files are.
    stream : StreamAccount
        Stream, as it was opened.
    night : int
        Number of the night.
    """
    for path in sums_folder(ledger, stream).glob("*-*.sums*"):
        number = path.name.lstrip(".").partition("-")[0]
        if number.isdecimal() and int(number) < night - 1:
            path.unlink(missing_ok=True)


def _file(ledger: Ledger, folder: Path, night: int, total: str) -> Path:
    return folder / f"{night}-{_seal(ledger, total.encode()).hex()[:16]}.sums"


def _owner(status: StreamStatus, before: int, total: str) -> dict[str, Any]:
    """Return what the file of the night after the first `before` belongs to."""
    chain, stream = hashlib.sha256(), status.stream
    for night in stream.committed[:before]:
        chain.update(f"{night.digest} {night.total}\n".encode())
    known = {"stream": stream.identity, "query": stream.query, "night": before + 1}
    return {**known, "chain": chain.hexdigest(), "total": total}


def _seal(ledger: Ledger, content: bytes) -> bytes:
    """Return the seal of a file, `SEAL_BYTES` bytes."""
    seal = hmac.new(ledger.key, f"sums {SUMS_FORMAT}\0".encode(), "sha256")
    seal.update(content)
    return seal.digest()


def _packed(owner: dict[str, Any], sums: Sums) -> bytes:
    """Return a file without its seal: JSON, and after a newline the numbers of all arrays."""
    classes = list[dict[str, Any]]()
    known = sorted(stamp + unit[:UNIT].ljust(UNIT, b"\0") for stamp, unit in sums.stamps.items())
    arrays: dict[str, NDArray[Any]] = {"stamps": np.array(known, f"V{STAMP + UNIT}")}
    for i, (history, after) in enumerate(zip(sums.histories, sums.after, strict=True)):
        nights = history.nights
        part = StoredClass.model_construct(
            label=history.label,
            name=history.name,
            units=[*(night.units for night in nights), sums.units[i]],
            counts=[night.count for night in nights],
            before=None if history.before is None else estimate_part(history.before),
            opened={t: night.opened for t, night in enumerate(nights) if night.opened},
            epochs={t: night.epoch for t, night in enumerate(nights) if night.epoch},
        )
        classes.append(part.model_dump(warnings=False))
        arrays |= {f"{i} {name}": getattr(after, name) for name in SUMS}
        for name in RELEASED:
            arrays[f"{i} released {name}"] = _rows(getattr(night, name) for night in nights)
    shapes = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    head = json.dumps({"owner": owner, "classes": classes, "arrays": shapes})
    return b"".join([f"{head}\n".encode(), *(array.tobytes() for array in arrays.values())])


def _unit(row: bytes) -> bytes:
    """Return a privacy unit without what fills its row up; a digest may end in NUL."""
    return row[:DIGEST] + row[DIGEST:].rstrip(b"\0")


def _unpacked(
    known: Iterable[tuple[str, str, list[int]]], numbers: bytes
) -> dict[str, NDArray[Any]]:
    """Return arrays by name; of each is known its type and its shape."""
    arrays, start = dict[str, NDArray[Any]](), 0
    for name, dtype, shape in known:
        size = math.prod(shape)
        arrays[name] = np.frombuffer(numbers, dtype, size, start).reshape(shape)
        start += arrays[name].nbytes
    return arrays


def _rows(values: Iterable[FloatArray | None]) -> FloatArray:
    """Return what nights released as rows, of NaN where there was nothing."""
    vectors = list(values)
    width = max((len(value) for value in vectors if value is not None), default=0)
    nothing = np.full(width, np.nan)
    rows = [nothing if value is None else value for value in vectors]
    return np.array(rows, np.float64).reshape(len(vectors), width)


def _history(
    i: int, part: StoredClass, arrays: Mapping[str, NDArray[Any]], mechanism: StreamMechanism
) -> ClassHistory:
    """Return the history of class number `i`."""
    series = []
    for name in RELEASED:
        rows = arrays[f"{i} released {name}"]
        empty = np.isnan(rows).all(axis=1)
        series.append([None if none else row for none, row in zip(empty, rows, strict=True)])
    so_far = itertools.accumulate(part.units)
    nights = tuple(
        Night(
            t + 1,
            units,
            n,
            part.opened.get(t),
            part.epochs.get(t),
            count=count,
            **dict(zip(RELEASED, released, strict=True)),
        )
        for t, (count, units, n, *released) in enumerate(
            zip(part.counts, part.units, so_far, *series, strict=False)
        )
    )
    before = read_estimate(part.before, mechanism)
    return ClassHistory(part.label, part.name, mechanism, nights, before)
