"""Several hospitals in one process: a hub in place of a server, which tests may have lie."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from covdp.addons.partners.join.journal import Journal, new_journal, open_journal
from covdp.addons.partners.join.site import Site, fingerprint
from covdp.errors import CovdpError

Said = Mapping[str, bytes]


@dataclass
class Hub:
    """A server: it waits for all, relays and adds, and keeps what it saw.

    `lie` may change what one hospital is told: given the turn, the hospital and the answer.
    """

    names: Sequence[str]
    lie: Callable[[str, str, Any], Any] = lambda turn, name, answer: answer
    seen: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(len(self.names))
        self.said = dict[str, bytes]()
        self.lock = threading.Lock()
        """Held by the one hospital that computes: compiled loops are not made for several."""

    def turn(self, kind: str, name: str, content: bytes) -> dict[str, bytes]:
        self.said[name] = content
        self.lock.release()
        try:
            if self.barrier.wait(60) == 0:
                self.seen.append((kind, dict(self.said)))
            self.barrier.wait(60)
            said = dict(self.seen[-1][1])
            self.barrier.wait(60)
        finally:
            self.lock.acquire()
        return said


@dataclass
class Line:
    """The line of one hospital to the hub."""

    hub: Hub
    name: str

    def gather(self, kind: str, content: bytes) -> Said:
        answer: Said = self.hub.lie(kind, self.name, self.hub.turn(kind, self.name, content))
        return answer

    def total(self, kind: str, words: bytes) -> bytes:
        said = self.hub.turn(kind, self.name, words).values()
        total = np.sum([np.frombuffer(words, "<u8") for words in said], axis=0, dtype=np.uint64)
        answer: bytes = self.hub.lie(kind, self.name, total.astype("<u8").tobytes())
        return answer


def keys_of(names: Sequence[str]) -> dict[str, Ed25519PrivateKey]:
    """Return a key of each hospital, always the same."""
    return {
        name: Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b".")) for name in names
    }


def together(
    work: Callable[[Site], Any],
    folder: Path,
    names: Sequence[str] = ("north", "south", "west"),
    *,
    terms: Mapping[str, bytes] | None = None,
    keys: Mapping[str, Ed25519PrivateKey] | None = None,
    hub: Hub | None = None,
) -> tuple[dict[str, Any], Hub]:
    """Return what `work` returned or raised at each hospital, and the hub; journals go on."""
    hub, known = hub or Hub(names), keys_of(names)
    prints = {n: fingerprint(k.public_key().public_bytes_raw()) for n, k in known.items()}
    results = dict[str, Any]()

    def journal(name: str) -> Journal:
        path = folder / f"{name}.jsonl"
        return open_journal(path) if path.exists() else new_journal(path)

    def run(name: str) -> None:
        own = {**known, **(keys or {})}[name]
        told = (terms or {}).get(name, b"terms")
        line = Line(hub, name)
        site = Site(name, tuple(names), prints, told, own, line, journal(name))
        with hub.lock:
            try:
                site.begin()
                results[name] = work(site)
            except (CovdpError, threading.BrokenBarrierError, Killed) as error:
                results[name] = error
                hub.barrier.abort()

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results, hub


class Killed(Exception):
    """A hospital is killed here."""
