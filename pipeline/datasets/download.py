"""One file, whole and with the right digest, or one clear error and nothing left behind."""

import glob
import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from pipeline.datasets.cards import LARGEST
from pipeline.datasets.doors import stay_inside
from pipeline.datasets.transfer import TransferError, transfer
from pipeline.errors import DatasetError, ImageError
from pipeline.files import atomic_path, home

LOGGER = logging.getLogger(__name__)


def data_root(root: Path | str | None = None) -> Path:
    """Return the folder of the datasets: `root`, else ``COVDP_DATA``, else ``data/cache``."""
    chosen = root or os.environ.get("COVDP_DATA")
    return Path(chosen).expanduser() if chosen else home()


class Asking(NamedTuple):
    """How a server is asked: see `obtain`."""

    progress: bool = True
    attempts: int = 3
    pause: float = 0.5


def find_own(name: str, target: Path, root: Path) -> Path:
    """Return `target`, a file or folder of the user's own, if it is there and inside `root`.

    Raises
    ------
    DatasetError
        When it is not, with the way out.
    """
    stay_inside(target, root, name)
    if not present(target):
        raise DatasetError(
            f"{name} is your own dataset but {target} does not exist; put it there, correct "
            "path in the card, or name the data root with --data-root or COVDP_DATA"
        )
    return target


def obtain(
    url: str,
    target: Path,
    md5: str,
    *,
    most: int = LARGEST,
    progress: bool = True,
    attempts: int = 3,
    pause: float = 0.5,
) -> Path:
    """Return `target` once it holds the file of `url`, downloaded only if it is not there.

    A file that is there is used when its MD5 is right and refused when it is not; it is never
    overwritten. Two processes that ask at once download once: the second waits for the first.
    After a failed attempt i it waits ``pause * 2**(i - 1)`` seconds. What will not change (404,
    403, a host without an address) is not asked for again.

    Parameters
    ----------
    url : str
        Where the file is.
    target : Path
        Where it goes; the folder is made when missing.
    md5 : str
        Its digest, in hexadecimal.
    most : int
        Bytes that it may have; a longer answer is not written. `transfer` has the bounds in time.
    progress : bool
        Show a bar on standard error.
    attempts : int
        How often the server is asked at most.
    pause : float
        Seconds before the second attempt.

    Raises
    ------
    DatasetError
        Naming the URL, the target and the way out.
    """
    if present(target):
        return verify(target, md5)
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        attempt = partial(_attempt, url, target, md5, most, progress)
        return _obtain_alone(attempt, url, target, md5, attempts, pause)
    except (OSError, TransferError) as error:
        for folder in made:  # innermost first; one that another run has filled stays
            with suppress(OSError):
                folder.rmdir()
        told = getattr(error, "strerror", None) or str(error)
        reason = told.replace(url, without_password(url))
        raise DatasetError(
            f"cannot download {without_password(url)} to {target} ({reason}); "
            "put the file there yourself, or name the folder that has it with --data-root or "
            "COVDP_DATA"
        ) from error


def without_password(url: str) -> str:
    """Return a URL as it may be shown: no user, no password, no query."""
    return re.sub(r"//[^/?#]*@", "//", url).partition("?")[0]  # also of a URL that is none


def present(path: Path) -> bool:
    """Return whether something is at `path`, as far as this user can see."""
    return os.access(path, os.F_OK)


def verify(path: Path, md5: str) -> Path:
    """Return `path` if its MD5 is `md5`, else raise `ImageError`; the file stays as it is."""
    found = digest(path)
    if found != md5:
        raise ImageError(
            f"{path} has MD5 {found}, the official file has {md5}; move it away to download the "
            "official one, or describe your own by a card with local = true (data/README.md)"
        )
    return path


def digest(path: Path) -> str:
    """Return the MD5 of a file, computed once a process while its size and time do not change."""
    try:
        state = path.stat()
        return _digest(path.resolve(), state.st_size, state.st_mtime_ns)
    except OSError as error:
        raise DatasetError(f"cannot read {path} ({error.strerror})") from error


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    import pooch

    return str(pooch.file_hash(str(path), alg="md5"))


def _obtain_alone(
    attempt: Callable[[], None], url: str, target: Path, md5: str, attempts: int, pause: float
) -> Path:
    """Download under a lock; what another process finished meanwhile is used."""
    from filelock import FileLock, Timeout

    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        held = lock.acquire(timeout=0.5)
    except Timeout:
        LOGGER.warning("waiting for another run that downloads %s", target)
        held = lock.acquire()
    with held:
        try:
            if present(target):
                return verify(target, md5)
            for stale in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
                stale.unlink()  # left by a run that was killed: no one else writes under the lock
            _repeat(attempt, url, attempts, pause)
        finally:
            with suppress(OSError):
                Path(lock.lock_file).unlink()  # whoever waits for it sees that and asks anew
    return target


def _repeat(attempt: Callable[[], None], url: str, attempts: int, pause: float) -> None:
    for number in range(1, attempts + 1):
        try:
            attempt()
            return
        except TransferError as error:
            if error.final or number == attempts:
                raise
            LOGGER.info("%s: %s; trying again", without_password(url), error)
            time.sleep(pause * 2 ** (number - 1))


def _attempt(url: str, target: Path, md5: str, most: int, progress: bool) -> None:
    """Download once and compare the digest."""
    import pooch

    with atomic_path(target) as part:
        transfer(url, part, most=most, progress=progress)
        found = str(pooch.file_hash(str(part), alg="md5"))
        if found != md5:
            raise TransferError(f"received MD5 {found}, expected {md5}")
