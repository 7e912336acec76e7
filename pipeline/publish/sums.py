"""The private sums of a stream, kept between nights: small files, beside the ledger, its owner's.

A file is of one night, and holds its sums before anything of it is drawn. It is written before the
night's units are claimed, and named by them: so a night that was reserved and killed is finished
from its file, whatever happened to the images. What it belongs to is under a seal with the ledger's
key: the nights before it, by the digests of what was committed, and the units of all of them; and
the rows of these nights, which are in a file of their own that grows by one a night (``rows.py``).
A file that was changed, or is of a ledger that went another way, is as good as none.

For SQLite the files lie in ``NAME.nights`` beside the ledger; for PostgreSQL on the machine that
runs the nights, beside the marker. They are as private as the images, and belong into their
backups.
"""

import hashlib
import hmac
import io
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.files import atomic_path, private_folder
from pipeline.ledger import Ledger, StreamAccount, StreamStatus
from pipeline.publish.rows import (
    Kept,
    nights_of,
    private_of,
    read_private,
    read_rows,
    row_type,
    rows_of,
    write_rows,
)
from pipeline.publish.transcript import (
    ClassHistory,
    epoch_row,
    estimate_row,
    opened_row,
    read_epoch,
    read_estimate,
    read_opened,
)
from pipeline.stream import PrivateSums
from pipeline.stream import StreamMechanism as Ground

FORMAT = 3
"""Raised when what is in a file changes."""
SEAL = 32
"""Bytes of the seal that a file begins with."""


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
        How many units of each class came in the last night.
    kept : Kept or None
        The rows that lie in a file already.
    """

    histories: tuple[ClassHistory, ...]
    after: tuple[PrivateSums, ...]
    units: tuple[int, ...]
    kept: Kept | None = None

    def __repr__(self) -> str:
        """Show no value."""
        return "Sums(…)"


def sums_folder(ledger: Ledger, stream: StreamAccount) -> Path:
    """Return the folder of a stream's files; nothing is made yet."""
    return ledger.beside("nights") / stream.identity[:32]


def write_sums(
    ledger: Ledger, stream: StreamAccount, now: StreamStatus, total: str, sums: Sums
) -> None:
    """Write the file of the night after all that are settled; `total` is of its units."""
    folder = private_folder(sums_folder(ledger, stream).parent) / stream.identity[:32]
    private_folder(folder)
    first = sums.kept.number if sums.kept else 0
    rows = rows_of(sums.histories, sums.after, sums.units, first)
    kept = write_rows(folder, rows[:-1], sums.kept)
    content = _packed(_known(stream, now, len(now.digests), total), sums, kept, rows[-1:])
    with atomic_path(_file(ledger, folder, len(now.digests) + 1, total), mode=0o600) as temporary:
        temporary.write_bytes(seal(ledger, content) + content)


def read_sums(
    ledger: Ledger, stream: StreamAccount, now: StreamStatus, ground: Ground, night: int, total: str
) -> Sums | None:
    """Return what the file of a night holds, or None where there is none that belongs to it."""
    path = _file(ledger, sums_folder(ledger, stream), night, total)
    sealed = read_private(path)
    if sealed is None:
        return None
    known, content = sealed[:SEAL], sealed[SEAL:]
    if not hmac.compare_digest(known, seal(ledger, content)):
        return None
    head, arrays = _unpacked(content)
    if head["of"] != _known(stream, now, night - 1, total):
        return None
    kind = row_type(ground, len(head["classes"]))
    found = read_rows(path.parent, kind, head["rows"], arrays["tonight"].tobytes())
    if found is None:
        return None
    rows, kept = found
    classes = [
        _read_class(told, arrays[f"{i} held"], rows[str(i)], ground)
        for i, told in enumerate(head["classes"])
    ]
    histories, after = zip(*classes, strict=True)
    return Sums(histories, after, tuple(told["units"] for told in head["classes"]), kept)


def forget_sums(ledger: Ledger, stream: StreamAccount, night: int) -> None:
    """Remove the files of nights before the one before `night`, which nobody needs again."""
    for path in sums_folder(ledger, stream).glob("*.sums"):
        number = path.name.partition("-")[0]
        if number.isdecimal() and int(number) < night - 1:
            path.unlink(missing_ok=True)


def _file(ledger: Ledger, folder: Path, night: int, total: str) -> Path:
    return folder / f"{night}-{seal(ledger, total.encode()).hex()[:16]}.sums"


def _known(stream: StreamAccount, now: StreamStatus, before: int, total: str) -> dict[str, Any]:
    """Return what the file of the night after the first `before` belongs to."""
    chain = hashlib.sha256()
    for digest, units in itertools.islice(zip(now.digests, now.totals, strict=True), before):
        chain.update(f"{digest} {units}\n".encode())
    told = {"stream": stream.identity, "query": stream.query, "night": before + 1}
    return {"format": FORMAT, **told, "chain": chain.hexdigest(), "total": total}


def seal(ledger: Ledger, content: bytes, purpose: bytes = b"sums") -> bytes:
    """Return the seal of a file, `SEAL` bytes; that of one kind is none for another."""
    return hmac.digest(ledger.key, purpose + b"\0" + content, "sha256")


def _packed(known: dict[str, Any], sums: Sums, kept: Kept, tonight: NDArray[Any]) -> bytes:
    """Return a file without its seal: what it belongs to as JSON, then NumPy's arrays."""
    classes = list[dict[str, Any]]()
    arrays: dict[str, NDArray[Any]] = {"tonight": np.frombuffer(tonight.tobytes(), np.uint8)}
    for i, (found, after) in enumerate(zip(sums.histories, sums.after, strict=True)):
        marks = [(t, one) for t, one in enumerate(found.nights) if one.opened or one.epoch]
        told = {
            "label": found.label,
            "name": found.name,
            "units": sums.units[i],
            "before": None if found.before is None else estimate_row(found.before),
            "opened": [(t, opened_row(night.opened)) for t, night in marks if night.opened],
            "epochs": [(t, epoch_row(night.epoch)) for t, night in marks if night.epoch],
            "series": [len(after.survey), len(after.shells), len(after.means)],
        }
        classes.append(told)
        arrays[f"{i} held"] = after.held
    rows = kept.number, kept.digest.hexdigest()
    head = json.dumps({"of": known, "rows": rows, "classes": classes}).encode()
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return len(head).to_bytes(8, "little") + head + stream.getvalue()


def _unpacked(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    size = 8 + int.from_bytes(content[:8], "little")
    with np.load(io.BytesIO(content[size:]), allow_pickle=False) as found:
        return json.loads(content[8:size]), dict(found)


def _read_class(
    told: dict[str, Any], held: NDArray[np.float64], rows: NDArray[Any], ground: Ground
) -> tuple[ClassHistory, PrivateSums]:
    """Return the history of a class, and its sums."""
    opened = {t: read_opened(row) for t, row in told["opened"]}
    epochs = {t: read_epoch(row) for t, row in told["epochs"]}
    nights = nights_of(rows[:-1], opened, epochs)
    before = None if told["before"] is None else read_estimate(told["before"], ground)
    history = ClassHistory(told["label"], told["name"], ground, nights, before)
    return history, private_of(rows, held, told["series"])
