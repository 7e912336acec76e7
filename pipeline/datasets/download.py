"""One file over HTTP: whole and with the right digest, or one clear error and nothing left behind.

Size: no more than the caller says, and no more than the disk has. Time: `ANSWER_SECONDS` to
answer, `HTTP_SECONDS` for each piece, and after the first `ANSWER_SECONDS` `SPEED` bytes a second
on average, so that a file of b bytes takes at most ``ANSWER_SECONDS + b / SPEED``. Content codings
are refused: a digest is of the file as it is stored, and what unpacks on the way has no bound.
"""

import glob
import hashlib
import logging
import os
import re
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pipeline.datasets.cards import LARGEST_DOWNLOAD
from pipeline.datasets.listing import require_inside
from pipeline.errors import DatasetError, ImageError, MissingError
from pipeline.files import atomic_path, home, locked
from pipeline.parallel import answer_within
from pipeline.progress import counted

if TYPE_CHECKING:
    from requests import Response


HTTP_SECONDS = (10.0, 30.0)
"""Seconds to wait for a connection, and for each piece of the answer."""

ANSWER_SECONDS = 60.0
"""Seconds until the answer must have begun, and before the speed counts."""

SPEED = 1 << 16
"""Bytes a second that must arrive on average: half a megabit."""

WRITTEN_BYTES = 1 << 18
"""Bytes written at a time, at most."""


class TransferError(Exception):
    """One attempt that failed; `final` when another one would fail in the same way."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def transfer(url: str, part: Path, *, most: int, progress: bool) -> None:
    """Write the answer of `url`, at most `most` bytes, to `part`.

    Raises
    ------
    TransferError
        With the reason, and whether asking again makes sense.
    """
    from requests.exceptions import HTTPError, RequestException
    from urllib3.exceptions import HTTPError as BrokenError

    try:
        with _ask(url) as answer:
            answer.raise_for_status()
            _receive(answer, part, _length(answer, part, most), most, progress)
    except HTTPError as error:
        status = error.response.status_code if error.response is not None else 500
        final = status < 500 and status not in (408, 429)
        raise TransferError(str(error).partition(" for url")[0], final=final) from error
    except (RequestException, BrokenError, ValueError) as error:  # an address sent to is none
        cause = getattr(error.args[0], "reason", error) if error.args else error
        final = isinstance(cause.__cause__, socket.gaierror)  # no such host, or no network at all
        reason = " ".join(str(cause).split()) or type(cause).__name__
        raise TransferError(reason, final=final) from error


def _ask(url: str) -> "Response":
    """Return the answer once its headers are here; they may not trickle in for ever."""
    import requests

    headers = {"Accept-Encoding": "identity"}
    ask = partial(requests.get, url, stream=True, timeout=HTTP_SECONDS, headers=headers)
    try:
        return answer_within(ANSWER_SECONDS, ask, requests.Response.close)
    except TimeoutError:
        raise TransferError(f"no answer in {ANSWER_SECONDS:g} s", final=True) from None


def _length(answer: "Response", part: Path, most: int) -> int | None:
    """Return the length that the server says, if it is none to refuse."""
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding.strip().lower() not in ("", "identity"):
        raise TransferError(f"the server packs the file as {coding!r}, unasked", final=True)
    digits = answer.headers.get("Content-Length", "")
    length = int(digits) if digits.isascii() and digits.isdigit() else None
    if length is not None and length > most:
        raise TransferError(f"the server says {length:,} bytes, {_bound(most)}", final=True)
    free = shutil.disk_usage(part.parent).free
    if length is not None and length > free:
        raise TransferError(f"it has {length:,} bytes and the disk {free:,} free", final=True)
    return length


def _receive(answer: "Response", part: Path, length: int | None, most: int, progress: bool) -> None:
    """Write the body, piece by piece as it arrives, and stop when it is too long or too slow."""
    begun, received = time.monotonic(), 0
    total = None if length is None else length / 1000
    bar = counted("download", total, "kB", shown=progress)
    with part.open("wb") as stream, bar as tick:
        while piece := answer.raw.read1(WRITTEN_BYTES, decode_content=False):
            stream.write(piece)
            tick(len(piece) / 1000)
            received += len(piece)
            if received > most:
                raise TransferError(f"more than {most:,} bytes came, {_bound(most)}", final=True)
            seconds = time.monotonic() - begun
            if received < SPEED * (seconds - ANSWER_SECONDS):
                speed = received / seconds / 1024
                raise TransferError(
                    f"{speed:.1f} KiB/s on average, less than {SPEED / 1024:g}", final=True
                )


def _bound(most: int) -> str:
    return f"where at most {most:,} are plausible"


LOGGER = logging.getLogger(__name__)


def data_root(root: Path | str | None = None) -> Path:
    """Return the folder of the datasets: `root`, else ``COVDP_DATA``, else ``data/cache``."""
    chosen = root or os.environ.get("COVDP_DATA")
    return Path(chosen).expanduser() if chosen else home()


Obtain: TypeAlias = Callable[..., Path]
"""``obtain(url, target, md5, most=…)``: `obtain`, for one way of asking a server."""


def find_own(name: str, target: Path, root: Path) -> Path:
    """Return `target`, a file or folder of the user's own, if it is there and inside `root`.

    Raises
    ------
    MissingError
        When it is not there, with the way out.
    DatasetError
        When it is outside.
    """
    require_inside(target, root, name)
    if not present(target):
        raise MissingError(
            f"{name} is your own dataset but {target} does not exist; put it there, correct "
            "the card, or name the data root with --data-root or COVDP_DATA"
        )
    return target


def obtain(
    url: str,
    target: Path,
    md5: str,
    *,
    most: int = LARGEST_DOWNLOAD,
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
    MissingError
        When it cannot be had, naming the URL, the target and the way out.
    ImageError
        When the file that is there has another digest.
    """
    if present(target):
        return verify(target, md5)
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(target.with_name(f".{target.name}.lock"), f"downloads {target}"):
            if not present(target):
                for stale in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
                    stale.unlink()  # of a run that was killed: no one else writes under the lock
                _download(
                    url, target, md5, most=most, progress=progress, attempts=attempts, pause=pause
                )
                return target
        return verify(target, md5)  # another run has finished it meanwhile
    except (OSError, TransferError) as error:
        for folder in made:  # innermost first; one that another run has filled stays
            with suppress(OSError):
                folder.rmdir()
        message = getattr(error, "strerror", None) or str(error)
        reason = message.replace(url, without_password(url))
        raise MissingError(
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
    actual = digest(path)
    if actual != md5:
        raise ImageError(
            f"{path} has MD5 {actual}, the official file has {md5}; move it away to download the "
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
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "md5").hexdigest()


def _download(
    url: str, target: Path, md5: str, *, most: int, progress: bool, attempts: int, pause: float
) -> None:
    """Ask until the answer is whole and has the right digest, or another attempt makes no sense."""
    for number in range(1, attempts + 1):
        try:
            with atomic_path(target) as part:
                transfer(url, part, most=most, progress=progress)
                if (received := digest(part)) != md5:
                    raise TransferError(f"received MD5 {received}, expected {md5}")
            return
        except TransferError as error:
            if error.final or number == attempts:
                raise
            LOGGER.info("%s: %s; trying again", without_password(url), error)
            time.sleep(pause * 2 ** (number - 1))
