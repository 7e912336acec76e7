"""Masks: words that each two hospitals know alone, and that cancel in the total of all.

X25519 between each two, with new keys in each attempt; HKDF over the transcript that all have
signed, the step and the pair; ChaCha20; added in words mod 2⁶⁴. All of it is `cryptography`'s. A
server sees uniform words, and their total.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from covdp.addons.partners.join.shares import Words
from covdp.errors import PrivacyError


@dataclass
class Masks:
    """Masks of one hospital in one attempt; no step has two of them.

    Attributes
    ----------
    own : str
        Name of this hospital.
    private : X25519PrivateKey
        Key of this attempt.
    others : mapping of str to bytes
        Public key of each other hospital in this attempt.
    transcript : bytes
        Digest of all that was signed before the first word: terms, job, attempt, nonces and keys.
    used : dict of int to bytes
        Digest of the sums that had the masks of a step.
    """

    own: str
    private: X25519PrivateKey = field(repr=False)
    others: Mapping[str, bytes]
    transcript: bytes
    used: dict[int, bytes] = field(default_factory=dict, repr=False)

    def put_on(self, step: int, words: Words) -> Words:
        """Return words with the masks of a step.

        Parameters
        ----------
        step : int
            Number of the step.
        words : array, shape (d,)
            Sums with noise.

        Raises
        ------
        PrivacyError
            When other words had the masks of this step: their difference would tell both.
        """
        content = hashlib.sha256(words.tobytes()).digest()
        if self.used.setdefault(step, content) != content:
            raise PrivacyError("a mask is put on one sum only, found another; begin a new attempt")
        total = words.copy()
        for name, key in sorted(self.others.items()):
            mask = self._of(step, name, key, len(words))
            total = total + mask if self.own < name else total - mask
        return total

    def _of(self, step: int, name: str, key: bytes, length: int) -> Words:
        """Return the mask that this hospital and another know of a step."""
        shared = self.private.exchange(X25519PublicKey.from_public_bytes(key))
        pair = "\0".join([str(step), *sorted((self.own, name))]).encode()
        secret = HKDF(SHA256(), 32, self.transcript, b"covdp join\0" + pair).derive(shared)
        stream = Cipher(ChaCha20(secret, bytes(16)), None).encryptor()
        return np.frombuffer(stream.update(bytes(8 * length)), dtype="<u8")
