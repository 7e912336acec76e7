"""One hospital in a joint release: who the others are, its steps, and what it checks of each.

    hello: nonce, keys ─► transcript, signed by all ─► N ─► steps ─► digest, compared by all

Nothing of the images leaves before all have signed one transcript, which holds the terms, the job,
and each hospital's nonce and keys. The first hospital of the terms leads: the parameters of a step
are its own, since doubles of other machines may differ in their last bits. Each checks that what
it is sent keeps its vectors inside their proven norm. What a server or a hospital says falsely
spoils the result, and not the promise.
"""

import hashlib
import json
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

from covdp.addons.partners.join.journal import Journal, packed, unpacked, words_of
from covdp.addons.partners.join.masks import Masks
from covdp.addons.partners.join.shares import MOST_RECORDS, Share, Words
from covdp.errors import ConfigError


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
    """A hospital in one attempt at a study: the `Meeting` of its noise.

    Attributes
    ----------
    name : str
        Name of this hospital.
    hospitals : tuple of str
        Names of all, the leading one first.
    fingerprints : mapping of str to str
        Fingerprint of the key of each hospital.
    terms : bytes
        Digest of the terms.
    identity : Ed25519PrivateKey
        Key of this hospital.
    exchange : Exchange
        Way to the others.
    journal : Journal
        Journal of the study at this hospital.
    resumed : int
        Number of steps that all hospitals have opened before.
    """

    name: str
    hospitals: tuple[str, ...]
    fingerprints: Mapping[str, str]
    terms: bytes
    identity: Ed25519PrivateKey = field(repr=False)
    exchange: Exchange
    journal: Journal
    resumed: int = 0
    keys: dict[str, Ed25519PublicKey] = field(default_factory=dict)
    transcript: bytes = b""

    @cached_property
    def private(self) -> X25519PrivateKey:
        """Key of this attempt."""
        return X25519PrivateKey.generate()

    def begin(self) -> None:
        """Meet the others: learn their keys, and sign with all of them what this attempt is.

        Raises
        ------
        ConfigError
            When a hospital is missing or another is there, or a key or a signature is another's.
        """
        hello = {
            "identity": self.identity.public_key().public_bytes_raw().hex(),
            "key": self.private.public_key().public_bytes_raw().hex(),
            "nonce": secrets.token_hex(16),
            "steps": self.journal.steps,
        }
        said = self._from_all("hello", json.dumps(hello).encode())
        every = {name: _hello(name, content) for name, content in said.items()}
        for name, words in every.items():
            if fingerprint(words["identity"]) != self.fingerprints[name]:
                raise ConfigError(
                    f"the key of {name} is not the one of the terms: its fingerprint is "
                    f"{fingerprint(words['identity'])}; ask there, by telephone"
                )
            self.keys[name] = Ed25519PublicKey.from_public_bytes(words["identity"])
        content = json.dumps([self.terms.hex(), sorted((k, v.hex()) for k, v in said.items())])
        self.transcript = hashlib.sha256(content.encode()).digest()
        self.signed("transcript", b"")
        self.resumed = min(words["steps"] for words in every.values())
        others = {name: words["key"] for name, words in every.items() if name != self.name}
        self.masks = Masks(self.name, self.private, others, self.transcript)

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
        ConfigError
            When a signature is none of that hospital in this attempt and turn.
        """
        own = self.identity.sign(self._message(kind, self.name, content))
        found = {}
        for name, said in self._from_all(kind, own + content).items():
            signature, found[name] = said[:64], said[64:]
            try:
                self.keys[name].verify(signature, self._message(kind, name, found[name]))
            except InvalidSignature:
                raise ConfigError(
                    f"what came as of {name} has not its signature in this attempt; nothing more "
                    "is sent: start the job anew, and ask who runs the server"
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
        ConfigError
            When there are more than fit.
        """
        words = self.masks.put_on(0, np.array([n], dtype=np.uint64))
        total = int(words_of(self.exchange.total("count", words.tobytes()), 1)[0])
        if not n <= total <= MOST_RECORDS:
            raise ConfigError(
                f"all hospitals have {total:,} records by what the server says, this one {n:,}, "
                f"and at most {MOST_RECORDS:,} take part; start the job anew"
            )
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
        length, journal = len(share.whole), self.journal
        if (before := journal.read("opened", step)) is not None and step <= self.resumed:
            return words_of(before, length)
        drawn = journal.read("share", step)
        if drawn is None:
            drawn = journal.write("share", step, share.draw().astype("<u8").tobytes())
        masked = self.masks.put_on(step, words_of(drawn, length))
        try:
            total = words_of(self.exchange.total(f"step {step}", masked.tobytes()), length)
        except ValueError as error:
            raise ConfigError(
                f"the server's total of step {step} is damaged ({error}); nothing was used of it: "
                "start the job anew"
            ) from None
        if before is not None and total.astype("<u8").tobytes() != before:
            raise ConfigError(
                f"step {step} was opened before with another total; a hospital or the server does "
                "not say what it said then: nothing more is sent"
            )
        if before is None:
            journal.write("opened", step, total.astype("<u8").tobytes())
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
        ConfigError
            When they are none that keep vectors inside their norm.
        """
        content = self.journal.read("agreed", step)
        if content is None or step > self.resumed:
            own = packed(parameters) if self.name == self.hospitals[0] else b""
            said = self.signed(f"parameters {step}", own)[self.hospitals[0]]
            if content is None:
                _check_parameters(self.hospitals[0], said, parameters)
                content = self.journal.write("agreed", step, said)
        return unpacked(content)

    def end(self, released: bytes) -> bytes:
        """Compare what was opened, and return what the leading hospital made of it.

        Parameters
        ----------
        released : bytes
            Released values as they were computed here.

        Raises
        ------
        ConfigError
            When hospitals were told other totals.
        """
        opened = [v for (kind, _), v in sorted(self.journal.entries.items()) if kind == "opened"]
        digest = hashlib.sha256(b"".join(opened)).digest()
        said = self.signed("end", digest + released)
        if len({words[:32] for words in said.values()}) > 1:
            raise ConfigError(
                "hospitals were told other totals, so what was released differs; nothing was "
                "committed: ask who runs the server, and start the job anew"
            )
        return said[self.hospitals[0]][32:]

    def _from_all(self, kind: str, content: bytes) -> Mapping[str, bytes]:
        """Return what all hospitals of the terms say, and nobody else."""
        said = self.exchange.gather(kind, content)
        if sorted(said) != sorted(self.hospitals) or said[self.name] != content:
            raise ConfigError(
                f"{', '.join(sorted(said)) or 'nobody'} took part in turn {kind!r}, and the terms "
                f"are of {', '.join(sorted(self.hospitals))}; nothing was opened: start the job "
                "anew when all are there"
            )
        return said

    def _message(self, kind: str, name: str, content: bytes) -> bytes:
        """Return the bytes that a hospital signs."""
        parts = (b"covdp join", kind.encode(), name.encode(), self.terms, self.transcript)
        return b"".join(len(part).to_bytes(4, "big") + part for part in (*parts, content))


def fingerprint(identity: bytes) -> str:
    """Return the fingerprint of a public key, as people read it out: eight groups of four.

    Parameters
    ----------
    identity : bytes
        Public key, 32 bytes.
    """
    digest = hashlib.sha256(identity).hexdigest()[:32]
    return "-".join(digest[i : i + 4] for i in range(0, 32, 4))


def _hello(name: str, content: bytes) -> dict[str, Any]:
    """Return what a hospital says first; raise `ConfigError` where it is nothing of the kind."""
    try:
        words = json.loads(content)
        found = {key: bytes.fromhex(words[key]) for key in ("identity", "key", "nonce")}
        if not all(len(found[key]) == 32 for key in ("identity", "key")):
            raise ValueError("a key has 32 bytes")
        return {**found, "steps": int(words["steps"])}
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{name} did not say who it is; start the job anew") from None


def _check_parameters(leader: str, content: bytes, own: Mapping[str, NDArray[Any]]) -> None:
    """Raise `ConfigError` unless parameters keep each vector inside its proven norm.

    A vector is (y − centre)/unit, cut off at the radius: of norm at most ½ where the unit is twice
    the radius or more. Overshoots are lengths over reaches, which are positive where they are here.
    Counts are of norm 1 in any shells. So a record moves no more, whatever the parameters are.
    """
    try:
        found = unpacked(content)
    except (ValueError, OSError, KeyError, EOFError):
        found = {}
    fault = next((word for word, holds in RULES.items() if not holds(found, own)), "")
    if fault:
        raise ConfigError(
            f"{leader} sent parameters that are {fault}; nothing was sent to it: ask there, and "
            "start the job anew"
        )


RULES: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], bool]] = {
    "of other shapes": lambda found, own: (
        {name: (x.shape, x.dtype) for name, x in found.items()}
        == {name: (x.shape, x.dtype) for name, x in own.items()}
    ),
    "not finite": lambda found, own: all(np.isfinite(x).all() for x in found.values()),
    "of reaches that are not positive": lambda found, own: all(
        np.array_equal(found[name] > 0.0, own[name] > 0.0)
        for name in ("radius", "near", "far", "farthest")
        if name in own
    ),
    "of a unit below twice the radius": lambda found, own: (
        "unit" not in own or bool((found["unit"] >= 2.0 * found["radius"]).all())
    ),
}
"""Faults of parameters, and what holds of those that have none."""
