"""One file, whole and with the right digest, or one clear error and nothing left behind."""

import glob
import logging
import os
import socket
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from pipeline.errors import DatasetError, ImageError
from pipeline.files import atomic_path, home

LOGGER = logging.getLogger(__name__)
TIMEOUT = (10.0, 30.0)
"""Seconds to wait for a connection, and for each piece of the answer."""
PIECE = 1 << 18
"""Bytes written at a time."""


class _TransferError(Exception):
    """One attempt that failed; `final` when another one would fail in the same way."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def data_root(root: Path | str | None = None) -> Path:
    """Return the folder of the datasets: `root`, else ``COVDP_DATA``, else ``data/cache``."""
    chosen = root or os.environ.get("COVDP_DATA")
    return Path(chosen).expanduser() if chosen else home()


def obtain(
    url: str,
    target: Path,
    md5: str,
    *,
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
        return _obtain_alone(url, target, md5, progress, attempts, pause)
    except (OSError, _TransferError) as error:
        for folder in made:  # innermost first; one that another run has filled stays
            with suppress(OSError):
                folder.rmdir()
        reason = getattr(error, "strerror", None) or str(error)
        raise DatasetError(
            f"cannot download {url} to {target} ({reason}); put the file there yourself, "
            "or name the folder that has it with --data-root or COVDP_DATA"
        ) from error


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
    url: str, target: Path, md5: str, progress: bool, attempts: int, pause: float
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
            _download(url, target, md5, progress, attempts, pause)
        finally:
            with suppress(OSError):
                Path(lock.lock_file).unlink()  # whoever waits for it sees that and asks anew
    return target


def _download(
    url: str, target: Path, md5: str, progress: bool, attempts: int, pause: float
) -> None:
    for attempt in range(1, attempts + 1):
        try:
            with atomic_path(target) as part:
                _transfer(url, part, md5, progress)
            return
        except _TransferError as error:
            if error.final or attempt == attempts:
                raise
            LOGGER.info("%s: %s; trying again", url, error)
            time.sleep(pause * 2 ** (attempt - 1))


def _transfer(url: str, part: Path, md5: str, progress: bool) -> None:
    """Write the answer of `url` to `part` and compare its digest."""
    import pooch
    from requests import Response
    from requests.exceptions import HTTPError, RequestException

    answers: list[Response] = []
    download = pooch.HTTPDownloader(
        progressbar=progress,
        chunk_size=PIECE,
        timeout=TIMEOUT,
        headers={"Accept-Encoding": "identity"},  # the digest is of the file as it is stored
        hooks={"response": lambda answer, **_: answers.append(answer)},
    )
    try:
        download(url, str(part), None)
    except HTTPError as error:
        status = error.response.status_code if error.response is not None else 500
        final = status < 500 and status not in (408, 429)
        raise _TransferError(str(error).partition(" for url")[0], final=final) from error
    except RequestException as error:
        cause = getattr(error.args[0], "reason", error) if error.args else error
        final = isinstance(cause.__cause__, socket.gaierror)  # no such host, or no network at all
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise _TransferError(reason, final=final) from error
    finally:
        for answer in answers:  # pooch leaves a broken one open
            answer.close()
    found = str(pooch.file_hash(str(part), alg="md5"))
    if found != md5:
        raise _TransferError(f"received MD5 {found}, expected {md5}")
