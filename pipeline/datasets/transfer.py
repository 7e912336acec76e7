"""One file over HTTP, bounded in size and in time, whatever the server does.

Size: no more than the caller says, and no more than the disk has. Time: `PATIENCE` seconds to
answer, `TIMEOUT` for each piece, and after the first `PATIENCE` seconds `SPEED` bytes a second on
average, so that a file of b bytes takes at most ``PATIENCE + b / SPEED``. Content codings are
refused: a digest is of the file as it is stored, and what unpacks on the way has no bound.
"""

import shutil
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.progress import counted

if TYPE_CHECKING:
    from requests import Response

TIMEOUT = (10.0, 30.0)
"""Seconds to wait for a connection, and for each piece of the answer."""
PATIENCE = 60.0
"""Seconds until the answer must have begun, and before the speed counts."""
SPEED = 1 << 16
"""Bytes a second that must arrive on average: half a megabit."""
PIECE = 1 << 18
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
        answer = _ask(url)
        try:
            answer.raise_for_status()
            _receive(answer, part, _length(answer, part, most), most, progress)
        finally:
            answer.close()
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

    answer: Future[Response] = Future()

    def ask() -> None:
        headers = {"Accept-Encoding": "identity"}
        try:
            answer.set_result(requests.get(url, stream=True, timeout=TIMEOUT, headers=headers))
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(PATIENCE)
    except TimeoutError:
        answer.add_done_callback(_hang_up)
        raise TransferError(f"no answer in {PATIENCE:g} s", final=True) from None


def _hang_up(late: "Future[Response]") -> None:
    if late.exception() is None:
        late.result().close()


def _length(answer: "Response", part: Path, most: int) -> int | None:
    """Return the length that the server says, if it is none to refuse."""
    coding = answer.headers.get("Content-Encoding", "identity")
    if coding.strip().lower() not in ("", "identity"):
        raise TransferError(f"the server packs the file as {coding!r}, unasked", final=True)
    said = answer.headers.get("Content-Length", "")
    length = int(said) if said.isascii() and said.isdigit() else None
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
    bar = counted("download", total, "kB") if progress else nullcontext(lambda count: None)
    with part.open("wb") as stream, bar as tick:
        while piece := answer.raw.read1(PIECE, decode_content=False):
            stream.write(piece)
            tick(len(piece) / 1000)
            received += len(piece)
            if received > most:
                raise TransferError(f"more than {most:,} bytes came, {_bound(most)}", final=True)
            seconds = time.monotonic() - begun
            if received < SPEED * (seconds - PATIENCE):
                speed = received / seconds / 1024
                raise TransferError(
                    f"{speed:.1f} KiB/s on average, less than {SPEED / 1024:g}", final=True
                )


def _bound(most: int) -> str:
    return f"where at most {most:,} are plausible"
