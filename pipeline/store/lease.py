"""Passes that are at work in a store, so that what others have left half done can be swept.

A pass holds a lease as long as it works. On this machine that is a lock, which the system gives
back when a process ends, however it does; elsewhere a file with the time, written anew while the
pass works. What is half done, tasks and files that never took their place, is removed by a pass
that finds itself alone: nobody else can be in need of it.
"""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.store.place import Place

LEASE, TASK, PART = ".lease", ".task", ".part"
RENEWED = 600.0
"""Seconds after which the lease of a pass elsewhere is written again."""
LASTS = 6 * RENEWED
"""Seconds after which one that was not is over; clocks may differ by most of it."""


@contextmanager
def lease(place: Place) -> Iterator[str]:
    """Hold a lease in the block, and give its name."""
    name = f"{secrets.token_hex(8)}{LEASE}"
    with _locked(place.folder / name) if place.folder else _renewed(place, name):
        yield name


def sweep(place: Place, own: str) -> None:
    """Remove what is half done, unless a pass but that of the lease `own` is at work.

    Tasks are listed before leases: whose task is there has its lease there, or has ended since.
    """
    left = [name for name in place.names() if name.endswith((TASK, PART))]
    others = [name for name in place.names() if name.endswith(LEASE) and name != own]
    held = [name for name in others if _is_held(place, name)]
    for name in left if not held else ():
        place.remove(name)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    from filelock import FileLock

    with FileLock(file, mode=0o600):
        try:
            yield
        finally:
            with suppress(OSError):
                file.unlink()


@contextmanager
def _renewed(place: Place, name: str) -> Iterator[None]:
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED):
            with suppress(Exception):  # the next time, perhaps; the pass itself says what is wrong
                place.write(name, _now())

    place.write(name, _now())
    threading.Thread(target=renew, name="renew the lease", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        place.remove(name)


def _now() -> bytes:
    return f"{time.time():.0f}".encode()


def _is_held(place: Place, name: str) -> bool:
    """Return whether a pass is at work; the lease of one that is not is removed."""
    from filelock import FileLock, Timeout

    try:
        if place.folder:
            with FileLock(place.folder / name, mode=0o600, blocking=False):
                place.remove(name)
            return False
        said = place.read(name)
    except (Timeout, OSError):  # it is held, or has gone while we looked
        return name in place.names()
    if said.isdigit() and abs(time.time() - int(said)) < LASTS:
        return True
    place.remove(name)
    return False
