"""Persons: told apart by keyed digests, so that no identifier goes further than this file."""

import hashlib
import unicodedata

import numpy as np
from numpy.typing import NDArray

BYTES = 16
"""Length of a digest: two of 10⁹ persons have the same with probability 10⁻²¹."""


def opaque(people: NDArray[np.str_], key: bytes) -> NDArray[np.bytes_]:
    """Return a keyed digest of each identifier, in hexadecimal, (n,) bytes.

    Without the key a digest tells neither who it is nor, tried out, who it could be.

    Parameters
    ----------
    people : (n,) str
        Identifiers; blanks around one do not count, nor in which way an accent is written.
    key : bytes
        The ledger's, where digests are to be known again, else random; up to 64 bytes.
    """
    names, of_name = np.unique(people, return_inverse=True)
    digests = [
        hashlib.blake2b(_plain(str(name)), digest_size=BYTES, key=key).hexdigest().encode()
        for name in np.char.strip(names)
    ]
    return np.array(digests, dtype=f"S{2 * BYTES}")[of_name]


def _plain(name: str) -> bytes:
    """Return a name as bytes: the same for one person, as one system writes é and another e + ´."""
    return unicodedata.normalize("NFC", name).encode(errors="surrogateescape")
