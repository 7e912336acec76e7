"""Several hospitals in one process: a hub in place of a server, which tests may have lie."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from covdp.addons.partners.join.site import Site
from covdp.addons.partners.join.study import Study
from covdp.errors import CovdpError
from covdp.ledger.keys import fingerprint


@dataclass
class Hub:
    """A server: it waits for all, relays, and keeps what it saw.

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
        """Return what all hospitals say in a turn."""
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

    def __call__(self, kind: str, content: bytes) -> Any:
        """Return what each hospital says."""
        return self.hub.lie(kind, self.name, self.hub.turn(kind, self.name, content))


def keys_of(names: Sequence[str]) -> dict[str, Ed25519PrivateKey]:
    """Return a key of each hospital, always the same."""
    return {
        name: Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b".")) for name in names
    }


CLASSES = ("stained", "eye")


def study_of(names: Sequence[str] = ("north", "south", "west"), **changes: Any) -> Study:
    """Return terms with the fingerprints of `keys_of`."""
    prints = {n: fingerprint(k.public_key().public_bytes_raw()) for n, k in keys_of(names).items()}
    terms = {
        "name": "tissue",
        "hospitals": tuple(names),
        "colluders": 1 if len(names) > 1 else 0,
        "descriptor": "oct5",
        "manifold": "spd-log-euclidean",
        "classes": CLASSES,
        "budget": 1.0,
        "size": 28,
        "fingerprints": prints,
    }
    return Study.model_validate(terms | changes)


Kept = dict[str, dict[str, bytes]]
"""Entries that the ledger of each hospital keeps."""


def together(
    work: Callable[[Site], Any],
    names: Sequence[str] = ("north", "south", "west"),
    *,
    kept: Kept | None = None,
    terms: Mapping[str, Study] | None = None,
    keys: Mapping[str, Ed25519PrivateKey] | None = None,
    hub: Hub | None = None,
) -> tuple[dict[str, Any], Hub]:
    """Return what `work` returned or raised at each hospital, and the hub; what is kept goes on."""
    hub, known, kept = hub or Hub(names), keys_of(names), {} if kept is None else kept
    results = dict[str, Any]()

    def run(name: str) -> None:
        own = {**known, **(keys or {})}[name]
        study, line = (terms or {}).get(name, study_of(names)), Line(hub, name)
        entries = kept.setdefault(name, {})

        def keep(entry: str, make: Callable[[], bytes]) -> bytes:
            return entries[entry] if entry in entries else entries.setdefault(entry, make())

        site = Site(name, study, own, line, keep)
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
