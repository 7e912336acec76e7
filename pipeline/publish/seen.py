"""What need not be read again: files whose images entered, or were left out, on a night before.

A file is known by its name, size and times, and by whose images the card says it holds. So what is
decoded and described on a night depends on what is new, not on what lies there. What is known is
looked at before the file is read, so one that changes meanwhile is read again. What is read is
looked up among the claims, so no list makes an image enter twice; one that is lost, or was changed,
is as good as empty, and costs one night of reading all.
"""

import hmac
import itertools
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets import ImageSource, Splits
from pipeline.datasets.readers import Rows, stamps_of
from pipeline.errors import OutputError
from pipeline.files import atomic_path, open_regular, private_folder
from pipeline.ledger import Ledger, StreamAccount
from pipeline.publish.sums import SEAL, seal, sums_folder

BYTES = 16
"""Of what a file is known by: two of 10⁹ have the same with probability 10⁻²¹."""
NAME, PURPOSE = "files.seen", b"seen"


class Rest(NamedTuple):
    """What is to be read, and what all files that lie there are known by.

    Attributes
    ----------
    source : ImageSource or None
        The images that may be new; None where there are none.
    stamps : tuple of bytes
        What the file of each of these is known by. Empty where images lie in one stream, which is
        read from its start to its end.
    others : frozenset of bytes
        The same of the files that need not be read.
    """

    source: ImageSource | None
    stamps: tuple[bytes, ...] = ()
    others: frozenset[bytes] = frozenset()

    def stamps_without(self, waiting: NDArray[np.bool_]) -> frozenset[bytes]:
        """Return those of all files but of the images that wait, which are to be read again."""
        held = {stamp for stamp, late in zip(self.stamps, waiting, strict=False) if late}
        return self.others.union(self.stamps) - held


def rest_of(
    source: ImageSource | None,
    splits: Splits,
    ledger: Ledger,
    stream: StreamAccount,
    *,
    everything: bool,
) -> Rest:
    """Return the images of files that no settled night has read, or of all."""
    if source is None or source.read.sequential:
        return Rest(source)
    rows = np.sort(source.select(splits).rows)
    stamps = _stamps(source, ledger, rows)
    seen = frozenset[bytes]() if everything else _read_seen(ledger, stream)
    is_new = [stamp not in seen for stamp in stamps]
    kept, new = rows[is_new], tuple(itertools.compress(stamps, is_new))
    if len(kept) < len(source.label_of):
        return Rest(source.only(kept) if len(kept) else None, new, seen.intersection(stamps))
    return Rest(source, new)


def write_seen(ledger: Ledger, stream: StreamAccount, stamps: frozenset[bytes]) -> None:
    """Keep what the files are known by that a night has read, once it is settled.

    A list that cannot be written is none: the night is settled, and is not to fail for it.
    """
    content = stream.identity.encode() + b"".join(stamps)
    with suppress(OutputError):
        folder = private_folder(sums_folder(ledger, stream))
        with atomic_path(folder / NAME, mode=0o600) as temporary:
            temporary.write_bytes(seal(ledger, content, PURPOSE) + content)


def _read_seen(ledger: Ledger, stream: StreamAccount) -> frozenset[bytes]:
    """Return the list, empty where there is none of this stream that is whole."""
    try:
        with open_regular(sums_folder(ledger, stream) / NAME) as file:
            content = file.read()
    except OSError:
        return frozenset()
    head = stream.identity.encode()
    known, content = content[:SEAL], content[SEAL:]
    sealed = hmac.compare_digest(known, seal(ledger, content, PURPOSE))
    if not sealed or not content.startswith(head):
        return frozenset()
    rest = content[len(head) :]
    return frozenset(rest[at : at + BYTES] for at in range(0, len(rest), BYTES))


def _stamps(source: ImageSource, ledger: Ledger, rows: Rows) -> list[bytes]:
    """Return what the file of each image is known by, with that of its mask, and whose it is.

    Under the ledger's key, since names of files may be those of patients, and can be guessed.
    """
    parts: list[Iterable[bytes]] = [stamps_of(source.read, rows)]
    if source.masks is not None:
        parts.append(stamps_of(source.masks, rows))
    if source.people is not None:
        parts.append(map(bytes, source.people[rows]))
    known = map(b"".join, zip(*parts, strict=True))
    return [hmac.digest(ledger.key, b"file\0" + one, "sha256")[:BYTES] for one in known]
