"""Place of shards: a folder that is the owner's alone, or an address that fsspec knows.

What is written is whole or absent: on this machine by a move, in object stores by their nature;
elsewhere the digest in a shard's name tells.

**Leases** tell which passes are at work in a store, so that what others have left half done can be
swept. A pass holds a lease as long as it works. On this machine that is a lock, which the system
gives back when a process ends, however it does; elsewhere a file with the time, written anew while
the pass works. What is half done, tasks and files that never took their place, is removed by a pass
that finds itself alone: nobody else can be in need of it.
"""

import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from covdp.errors import ConfigError, LedgerError, OutputError, require_extra
from covdp.files import home, locked, private_folder, without_password, write_whole
from covdp.parallel import answer_within

T = TypeVar("T")
ADDRESS_SECONDS = 5.0
"""Seconds that an address elsewhere may take to answer for the first time."""


@dataclass(frozen=True)
class Place:
    """A folder of files; ``folder`` is None where it is elsewhere.

    Attributes
    ----------
    address : str
        Address of the folder.
    folder : Path or None
        Path of the folder; None where it is elsewhere.
    """

    address: str
    folder: Path | None

    @property
    def shown(self) -> str:
        """The address as it may be printed."""
        return without_password(self.address)

    def join(self, name: str) -> str:
        """Return the address of a file.

        Parameters
        ----------
        name : str
            Name of a file in the store.
        """
        return f"{self.address}/{name}"

    def prepare(self) -> None:
        """Make the folder, the owner's alone, and prove that it can be written.

        Of an address elsewhere it is only tested whether somebody answers there, in
        `ADDRESS_SECONDS`: some libraries would wait for minutes.
        """
        if self.folder is not None:
            private_folder(self.folder)
            return
        try:
            answer_within(ADDRESS_SECONDS, self.names)
        except TimeoutError:
            raise self._fault("reach", f"no answer in {ADDRESS_SECONDS:g} s") from None

    def names(self) -> list[str]:
        """Return the names of all files."""

        def listing(files: Any, path: str) -> list[str]:
            files.invalidate_cache()
            with suppress(FileNotFoundError):  # nothing was written yet
                return [str(name).rpartition("/")[2] for name in files.ls(path, False)]
            return []

        return self._tried("read", lambda folder: [file.name for file in folder.iterdir()], listing)

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading.

        Parameters
        ----------
        name : str
            Name of a file in the store.

        Returns
        -------
        BinaryIO
            Opened file.
        """
        return self._tried(
            "read",
            lambda folder: (folder / name).open("rb"),
            lambda files, path: files.open(f"{path}/{name}", "rb"),
        )

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Parameters
        ----------
        name : str
            Name of a file in the store.
        """
        return self._tried(
            "read",
            lambda folder: (folder / name).read_bytes(),
            lambda files, path: files.cat_file(f"{path}/{name}"),
        )

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all.

        Parameters
        ----------
        name : str
            Name of a file in the store.
        content : bytes
            Content of the file.
        """
        self._tried(
            "write to",
            lambda folder: write_whole(folder / name, content, mode=0o600),
            lambda files, path: files.pipe_file(f"{path}/{name}", content),
        )

    def remove(self, name: str) -> None:
        """Remove a file, if it is there.

        Parameters
        ----------
        name : str
            Name of a file in the store.
        """

        def gone(files: Any, path: str) -> None:
            with suppress(FileNotFoundError):
                files.rm_file(f"{path}/{name}")

        self._tried("write to", lambda folder: (folder / name).unlink(missing_ok=True), gone)

    def clear(self) -> None:
        """Remove all of a folder on this machine."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _tried(
        self, what: str, here: Callable[[Path], T], elsewhere: Callable[[Any, str], Any]
    ) -> T:
        """Return what is done in a folder `here`, or `elsewhere` by a file system of fsspec's.

        That one finds credentials in its own environment. Of what a library says about a failure,
        its kind alone is stated.
        """
        try:
            if self.folder is not None:
                return here(self.folder)
            import fsspec

            result: T = elsewhere(*fsspec.core.url_to_fs(self.address))
            return result
        except Exception as error:  # each service has errors of its own
            cause = error.__cause__ if isinstance(error, OutputError) else error
            reason = getattr(cause, "strerror", None) or type(error).__name__
        raise self._fault(what, reason)

    def _fault(self, what: str, reason: str) -> OutputError:
        return OutputError(
            f"cannot {what} the store {self.shown} ({reason}); check the address, the rights and "
            "the package that fsspec needs for it (covdp[s3] for s3://), or choose another --store"
        )


def private_stores() -> Path:
    """Return the folder of the stores that nobody names: ``COVDP_STORE``, else below our home."""
    folder = os.environ.get("COVDP_STORE")
    return private_folder(Path(folder).expanduser() if folder else home() / "store")


def find_place(address: str | Path, *, out: Path | None = None) -> Place:
    """Return the place at a path or an address; nothing is made yet.

    Parameters
    ----------
    address : str or Path
        A folder, or what fsspec takes: ``s3://bucket/folder``, ``memory://name``.
    out : Path, optional
        The folder of the results.

    Raises
    ------
    ConfigError
        When it is in `out`, whose files are to be handed on, holds a password, is none, or needs
        an extra.
    """
    text = str(address).rstrip("/")
    if not text.strip() or "::" in text or re.fullmatch(r"[A-Za-z0-9+.-]+:", text):
        raise ConfigError(
            f"the store must be one folder or one address, found {without_password(text)!r}; name "
            "one, without caches or archives before it, which would keep copies elsewhere"
        )
    here = re.match(r"(file|local)://", text)
    if "://" in text and not here:
        if re.search(r"//[^/]*:[^/]*@", text):
            raise ConfigError(
                f"the store {without_password(text)} is given with a password, which would stay in "
                "logs; fsspec finds credentials in its own environment, such as AWS_PROFILE"
            )
        require_extra("fsspec", fault=ConfigError)
        return Place(text, None)
    folder = Path(text[here.end() :] if here else text).expanduser().resolve()
    if out is not None and folder.is_relative_to(out.resolve()):
        raise ConfigError(
            f"the store {folder} is in the results {out.resolve()}, and it is as private as the "
            "images; choose another folder for one of them"
        )
    return Place(str(folder), folder)


@contextmanager
def temporary_store(key: str, store: Place | None) -> Iterator[Place]:
    """Give the store of a release in the block; a private one is emptied once the block succeeds.

    A refusal by the ledger empties it too: what it refuses is not asked for again. Of two releases
    of the same images one waits for the other, lest it lose its store.

    Parameters
    ----------
    key : str
        Digest of what the descriptors are made from.
    store : Place or None
        Store to use; a private one when None.
    """
    if store is not None:
        yield store
        return
    folder = private_stores() / key
    with locked(folder.with_suffix(".lock"), "releases the same images", mode=0o600):
        own = find_place(folder)
        try:
            yield own
        except LedgerError:
            own.clear()
            raise
        own.clear()


LEASE, TASK, PART = ".lease", ".task", ".part"
RENEWED = 600.0
"""Seconds after which the lease of a pass elsewhere is written again."""
LASTS = 6 * RENEWED
"""Seconds after which one that was not is over; clocks may differ by most of it."""


@contextmanager
def lease(place: Place) -> Iterator[str]:
    """Give the name of a lease that is held in the block.

    Parameters
    ----------
    place : Place
        Address of the store.
    """
    name = f"{secrets.token_hex(8)}{LEASE}"
    here = place.folder
    with locked(here / name, "has its lease", mode=0o600) if here else _renewed(place, name):
        yield name


def sweep(place: Place, own: str) -> None:
    """Remove what is half done, unless a pass but that of the lease `own` is at work.

    Tasks are listed before leases: whose task is there has its lease there, or has ended since.

    Parameters
    ----------
    place : Place
        Address of the store.
    own : str
        Name of one's own lease.
    """
    left = [name for name in place.names() if name.endswith((TASK, PART))]
    others = [name for name in place.names() if name.endswith(LEASE) and name != own]
    active = [name for name in others if _is_held(place, name)]
    for name in left if not active else ():
        place.remove(name)


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
        stamp = place.read(name)
    except (Timeout, OSError):  # it is held, or has gone while we looked
        return name in place.names()
    if stamp.isdigit() and abs(time.time() - int(stamp)) < LASTS:
        return True
    place.remove(name)
    return False
