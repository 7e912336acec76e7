"""One hospital in a joint release: who the others are, its steps, and what it checks of each.

    hello: nonce, keys ─► transcript, signed by all ─► N ─► steps ─► digest, compared by all

Nothing of the images leaves before all have signed one transcript, which holds the terms, the job,
and each hospital's nonce and keys. The first hospital of the terms leads: the parameters of a step
are its own, since doubles of other machines may differ in their last bits. Each checks that what
it is sent keeps its vectors inside their proven norm. What a server or a hospital says falsely
spoils the result, and not the promise.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from covdp.addons.partners.join.journal import StudyJournal
from covdp.addons.partners.join.masks import Masks
from covdp.addons.partners.join.shares import MOST_RECORDS, JointError, Share, Words
from covdp.addons.partners.join.study import Study
from covdp.ledger.keys import fingerprint
from covdp.mean.clip import fault_of

START_ANEW = "nothing more is sent: ask who runs the server, and start the job anew"
"""End of each refusal."""


class Exchange(Protocol):
    """Way through a server, which relays what all say, and adds words."""

    def gather(self, kind: str, content: bytes) -> Mapping[str, bytes]:
        """Return what each hospital says, once all have said it.

        Parameters
        ----------
        kind : str
            Name of the turn.
        content : bytes
            Words of this hospital.
        """

    def total(self, kind: str, words: bytes) -> bytes:
        """Return the sum of the words of all hospitals, mod 2⁶⁴.

        Parameters
        ----------
        kind : str
            Name of the turn.
        words : bytes
            Masked words of this hospital.
        """


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
    journal : StudyJournal
        Journal of the study at this hospital.
    seal : callable
        Function of a step and the digest of its share: it has the ledger know them before the
        share leaves, and raises where the ledger knows another.
    resumed : int
        Number of steps that all hospitals have opened before.
    keys : dict of str to Ed25519PublicKey
        Key of each hospital, of the fingerprint that the terms have.
    transcript : bytes
        Digest of all that was said before the first word.
    """

    name: str
    study: Study
    identity: Ed25519PrivateKey = field(repr=False)
    exchange: Exchange
    journal: StudyJournal
    seal: Callable[[int, str], None]
    resumed: int = 0
    keys: dict[str, Ed25519PublicKey] = field(default_factory=dict)
    transcript: bytes = b""

    @cached_property
    def private(self) -> X25519PrivateKey:
        """Key of this attempt."""
        return X25519PrivateKey.generate()

    @property
    def digest(self) -> bytes:
        """Digest of all totals that were opened, 32 bytes."""
        opened = [v for (kind, _), v in sorted(self.journal.entries.items()) if kind == "opened"]
        return hashlib.sha256(b"".join(opened)).digest()

    def begin(self) -> None:
        """Meet the others: learn their keys, and sign with all of them what this attempt is.

        Raises
        ------
        JointError
            When a hospital is missing or another is there, or a key or a signature is another's.
        """
        public = (key.public_key().public_bytes_raw() for key in (self.identity, self.private))
        mine, steps = bytes.fromhex(self.study.digest), self.journal.steps.to_bytes(32, "big")
        hello = b"".join([*public, mine, secrets.token_bytes(32), steps])
        said, keys, opened = self._from_all("hello", hello), dict[str, bytes](), list[bytes]()
        for name, words in said.items():
            identity, keys[name], terms, _, step = (words[i : i + 32] for i in range(0, 160, 32))
            if len(words) != 160:
                raise JointError(f"{name} did not say who it is; {START_ANEW}")
            if terms != mine:
                raise JointError(f"{name} has approved other terms; compare them letter by letter")
            if (found := fingerprint(identity)) != self.study.fingerprints[name]:
                raise JointError(
                    f"the key of {name} is not that of the terms, but {found}; ask by telephone"
                )
            self.keys[name] = Ed25519PublicKey.from_public_bytes(identity)
            opened.append(step)
        content = b"".join(name.encode() + b"\0" + said[name] for name in sorted(said))
        self.transcript = hashlib.sha256(content).digest()
        self.signed("transcript", b"")
        self.resumed = int.from_bytes(min(opened), "big")
        del keys[self.name]
        self.masks = Masks(self.name, self.private, keys, self.transcript)

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
            signature, found[name] = said[:64], said[64:]
            try:
                self.keys[name].verify(signature, self._message(kind, name, found[name]))
            except InvalidSignature:
                raise JointError(
                    f"what came as of {name} has not its signature in this attempt; {START_ANEW}"
                ) from None
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
        total = int(self._total("count", self.masks.put_on(0, np.array([n], dtype=np.uint64)))[0])
        if not n <= total <= MOST_RECORDS:
            raise JointError(
                f"the server says that all hospitals have {total:,} records; at most "
                f"{MOST_RECORDS:,} take part, and no fewer than one has: {START_ANEW}"
            )
        content = total.to_bytes(8, "big")
        before = self.journal.read("agreed", 0) or content
        if {before, *self.signed("total", content).values()} != {content}:
            raise JointError(f"hospitals were told other numbers of records in all; {START_ANEW}")
        self.journal.write("agreed", 0, content)
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
        before = self.journal.read("opened", step)
        if before is not None and step <= self.resumed:
            return np.frombuffer(before, "<u8").astype(np.uint64)
        drawn = self.journal.read("share", step)
        if drawn is None:
            drawn = self.journal.write("share", step, share.draw().astype("<u8").tobytes())
        self.seal(step, hashlib.sha256(drawn).hexdigest())
        masked = self.masks.put_on(step, np.frombuffer(drawn, "<u8").astype(np.uint64))
        total = self._total(f"step {step}", masked)
        content = total.astype("<u8").tobytes()
        if (before or content) != content:
            raise JointError(f"step {step} was opened before with another total; {START_ANEW}")
        self.journal.write("opened", step, content)
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
        content, lead = self.journal.read("agreed", step), self.study.hospitals[0]
        if content is None or step > self.resumed:
            own = (content or _packed(parameters)) if self.name == lead else b""
            said = self.signed(f"parameters {step}", own)[lead]
            content = content or said
        found = _unpacked(content, parameters)
        if fault := fault_of(found, parameters):
            raise JointError(f"{lead} sent parameters {fault}; {START_ANEW}")
        self.journal.write("agreed", step, content)
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

    def _total(self, kind: str, words: Words) -> Words:
        """Return the sum of the words of all hospitals."""
        content = self.exchange.total(kind, words.astype("<u8").tobytes())
        if len(content) != 8 * len(words):
            raise JointError(f"the total of {kind} is damaged; {START_ANEW}")
        return np.frombuffer(content, "<u8").astype(np.uint64)

    def _from_all(self, kind: str, content: bytes) -> Mapping[str, bytes]:
        """Return what all hospitals of the terms say, and nobody else."""
        said = self.exchange.gather(kind, content)
        if said.keys() != {*self.study.hospitals} or said[self.name] != content:
            raise JointError(
                f"{', '.join(said)} took part, and {', '.join(self.study.hospitals)} are to: "
                f"{START_ANEW}"
            )
        return said

    def _message(self, kind: str, name: str, content: bytes) -> bytes:
        """Return the bytes that a hospital signs."""
        words = ("covdp join", kind, name, self.study.digest)
        parts = (*(word.encode() for word in words), self.transcript)
        return b"".join(len(part).to_bytes(4, "big") + part for part in (*parts, content))


def _packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays of numbers or truth values as bytes."""
    return np.concatenate([x.ravel() for x in arrays.values()]).astype("<f8").tobytes()


def _unpacked(content: bytes, like: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return arrays like others that `_packed` wrote; none of other bytes."""
    ends = np.cumsum([x.size for x in like.values()])
    if len(content) != 8 * ends[-1]:
        return {}
    parts = np.split(np.frombuffer(content, "<f8"), ends[:-1])
    both = zip(like.items(), parts, strict=True)
    return {name: part.reshape(x.shape).astype(x.dtype) for (name, x), part in both}
