"""One hospital in a joint release: who the others are, its steps, and what it checks of each.

    hello: nonce, keys ─► transcript, signed by all ─► N ─► steps ─► digest, compared by all

Nothing of the images leaves before all have signed one transcript, which holds the terms, and each
hospital's nonce and keys. The first hospital of the terms leads: the parameters of a step are its
own, since doubles of other machines may differ in their last bits. Each checks that what it is sent
keeps its vectors inside their proven norm. After a break all steps are said again: a share that was
drawn stays as it was, and so does each total. What a server or a hospital says falsely spoils the
result, and not the promise.

Masks are words that each two hospitals know alone, and that cancel in the total of all: X25519
between each two, with new keys in each attempt; HKDF over the transcript that all have signed, the
step and the pair; ChaCha20; added in words mod 2⁶⁴. All of it is `cryptography`'s. Masked words are
uniform, whoever sees them, but for their total. Each hospital signs its own and adds up all, so a
server cannot state another total.

No refusal here depends on images, labels or their number: all is decided by what others have said.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from covdp.addons.partners.join.shares import JointError, Share, Words, check_room
from covdp.addons.partners.join.study import Study
from covdp.errors import PrivacyError
from covdp.ledger.keys import fingerprint
from covdp.mean.clip import fault_of

# End of each refusal after which the same study may go on.
START_ANEW = "nothing more is sent: ask who runs the server, and start the job anew"


Exchange: TypeAlias = Callable[[str, bytes], Any]
"""Way through a server: function of a turn and one's own words; it returns the words of all."""


@dataclass
class Site:
    """A hospital in one attempt at a study: the `Hospitals` of its noise.

    Attributes
    ----------
    name : str
        Name of this hospital.
    study : Study
        Terms; the first of its hospitals leads.
    identity : Ed25519PrivateKey
        Key of this hospital.
    exchange : Exchange
        Way to the others.
    keep : callable
        Function of the name of an entry and of what makes its content: it returns the content that
        was kept first, once it is on disk.
    hello : mapping of str to bytes
        Beginning of this attempt, four times 32 bytes of each hospital: its public key, of the
        fingerprint that the terms have; its public key of this attempt; digest of the terms; nonce.
    transcript : bytes
        Digest of all that was said before the first word.
    shared : dict of str to bytes
        Secret of this attempt that each other hospital has, too.
    used : dict of int to bytes
        Sums that had the masks of a step.
    digest : bytes
        Digest of all totals that were opened.
    """

    name: str
    study: Study
    identity: Ed25519PrivateKey = field(repr=False)
    exchange: Exchange
    keep: Callable[[str, Callable[[], bytes]], bytes]
    hello: Mapping[str, bytes] = field(default_factory=dict)
    transcript: bytes = b""
    shared: dict[str, bytes] = field(default_factory=dict, repr=False)
    used: dict[int, bytes] = field(default_factory=dict, repr=False)
    digest: bytes = b""

    def begin(self) -> None:
        """Meet the others: learn their keys, and sign with all of them what this attempt is.

        Raises
        ------
        JointError
            When a hospital is missing or another is there, or a key or a signature is another's.
        """
        private, mine = X25519PrivateKey.generate(), bytes.fromhex(self.study.digest)
        public = (key.public_key().public_bytes_raw() for key in (self.identity, private))
        said = self._from_all("hello", b"".join([*public, mine, secrets.token_bytes(32)]))
        for name, words in said.items():
            if len(words) != 128:  # of other lengths two rows of words might be one transcript
                raise JointError(f"{name} did not say who it is; {START_ANEW}")
            if (found := fingerprint(words[:32])) != self.study.fingerprints[name]:
                raise JointError(f"{name} has the key {found}, not that of the terms; ask by phone")
            if words[64:96] != mine:
                raise JointError(f"{name} has approved other terms; compare them letter by letter")
            try:
                key = X25519PublicKey.from_public_bytes(words[32:64])
                self.shared[name] = private.exchange(key)
            except ValueError:
                raise JointError(f"the masks of {name} have no key; {START_ANEW}") from None
        content = b"".join(name.encode() + b"\0" + said[name] for name in sorted(said))
        self.hello, self.transcript = said, hashlib.sha256(content).digest()
        self.signed("transcript", b"")

    def signed(self, kind: str, content: bytes) -> dict[str, bytes]:
        """Return what each hospital says in a turn, with its signature checked.

        Parameters
        ----------
        kind : str
            Name of the turn.
        content : bytes
            Words of this hospital.

        Raises
        ------
        JointError
            When a signature is none of that hospital in this attempt and turn.
        """
        own = self.identity.sign(self._message(kind, self.name, content))
        found = {}
        for name, said in self._from_all(kind, own + content).items():
            found[name], key = said[64:], Ed25519PublicKey.from_public_bytes(self.hello[name][:32])
            try:
                key.verify(said[:64], self._message(kind, name, found[name]))
            except InvalidSignature:
                raise JointError(f"what came as of {name} is not signed; {START_ANEW}") from None
        return found

    def count(self, n: int) -> int:
        """Return N, of all hospitals together; n is that of this one.

        Parameters
        ----------
        n : int
            Number of records of this hospital.

        Raises
        ------
        JointError
            When there are more than fit.
        """
        total = int(self._total("count", 0, np.array([n], np.uint64))[0])
        check_room(total, 0.0)
        content = total.to_bytes(8, "big")
        if {*self.signed("total", content).values()} != {content}:
            raise JointError(f"hospitals were told other numbers of records in all; {START_ANEW}")
        if self.keep("total", lambda: content) != content:
            raise JointError("another number of records in all was agreed: agree on a new study")
        return total

    def opened(self, step: int, share: Share) -> Words:
        """Return the total of what all hospitals have in a step; a share is drawn at most once.

        Parameters
        ----------
        step : int
            Number of the step.
        share : Share
            Sums of this hospital, which get their noise where it has none yet.
        """
        drawn = self.keep(f"share {step}", lambda: share.draw().astype("<u8").tobytes())
        total = self._total(f"step {step}", step, np.frombuffer(drawn, "<u8"))
        self.digest = hashlib.sha256(self.digest + total.astype("<u8").tobytes()).digest()
        if self.keep(f"opened {step}", lambda: self.digest) != self.digest:
            raise JointError(f"step {step} was opened with another total; agree on a new study")
        return total

    def agreed(self, step: int, parameters: Mapping[str, NDArray[Any]]) -> Mapping[str, Any]:
        """Return the parameters of a step as the leading hospital has them.

        Parameters
        ----------
        step : int
            Number of the step.
        parameters : mapping of str to array
            Parameters as they were computed here.

        Raises
        ------
        JointError
            When they are none that keep vectors inside their norm.
        """
        lead = self.study.hospitals[0]
        form = np.dtype([(key, "<f8", x.shape) for key, x in parameters.items()])
        own = b"".join(x.astype("<f8").tobytes() for x in parameters.values())
        said = self.signed(f"parameters {step}", own if self.name == lead else b"")[lead]
        rows = np.frombuffer(said, form) if len(said) == form.itemsize else ()
        found = {key: row[key].astype(np.float64) for row in rows for key in parameters}
        if fault := fault_of(found, parameters):
            raise JointError(f"{lead} sent parameters {fault}; {START_ANEW}")
        return found

    def end(self, released: bytes) -> bytes:
        """Compare what was opened, and return what the leading hospital made of it.

        Parameters
        ----------
        released : bytes
            Released values as they were computed here.

        Returns
        -------
        bytes
            Released values as the leading hospital has them.

        Raises
        ------
        JointError
            When hospitals were told other totals.
        """
        said = self.signed("end", self.digest + released)
        if len({words[:32] for words in said.values()}) > 1:
            raise JointError(f"hospitals were told other totals; {START_ANEW}")
        return said[self.study.hospitals[0]][32:]

    def masked(self, step: int, words: Words) -> Words:
        """Return words with the masks of a step; no step has two of them.

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
        if self.used.setdefault(step, words.tobytes()) != words.tobytes():
            raise PrivacyError("a mask is put on one sum only, found another; begin a new attempt")
        for name in sorted(self.shared.keys() - {self.name}):
            pair = "\0".join([str(step), *sorted((self.name, name))]).encode()
            secret = HKDF(SHA256(), 32, self.transcript, b"covdp join\0" + pair).derive(
                self.shared[name]
            )
            stream = Cipher(algorithms.ChaCha20(secret, bytes(16)), None).encryptor()
            mask = np.frombuffer(stream.update(bytes(words.nbytes)), "<u8")
            words = words + mask if self.name < name else words - mask
        return words

    def _total(self, kind: str, step: int, words: Words) -> Words:
        """Return the sum of the words of all hospitals, which go out masked and signed."""
        said = self.signed(kind, self.masked(step, words).astype("<u8").tobytes())
        for name, content in said.items():
            if len(content) != 8 * len(words):
                raise JointError(f"the words of {name} in {kind} are damaged; {START_ANEW}")
        parts = [np.frombuffer(content, "<u8") for content in said.values()]
        return np.asarray(np.sum(parts, axis=0, dtype=np.uint64))

    def _from_all(self, kind: str, content: bytes) -> Mapping[str, bytes]:
        """Return what all hospitals of the terms say, and nobody else."""
        said, names = self.exchange(kind, content), self.study.hospitals
        right = isinstance(said, dict) and said.keys() == {*names} and said[self.name] == content
        if not right or {*map(type, said.values())} != {bytes}:
            raise JointError(f"{', '.join(names)} are to take part, nobody else; {START_ANEW}")
        return dict(said)

    def _message(self, kind: str, name: str, content: bytes) -> bytes:
        """Return the bytes that a hospital signs; its transcript holds the terms."""
        parts = (b"covdp join", kind.encode(), name.encode(), self.transcript, content)
        return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
