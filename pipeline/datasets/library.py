"""Downloads by medmnist, torchvision and pooch, in a process of their own.

These libraries print, wait for a silent server for ever, read a whole split into memory, and turn
Ctrl-C into an error that says "download manually". In a process of their own none of that reaches
this one, which takes the progress and the cause of a failure from what they say. This file is what
runs there, too; it imports the standard library alone.
"""

import errno
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

SILENCE_SECONDS = 60.0
"""Seconds without a byte after which a server is given up; pooch has 30 of its own."""

UNCLEAR = ("File not found or corrupted.", "what arrived is cut short or has another MD5")
"""Words of torchvision, and what they mean after a download."""

COMMAND = (sys.executable, "-P", __file__)
"""Command of the process, which gets its order, one line of JSON, by standard input: an address may
have a password."""


@dataclass(frozen=True)
class Download:
    """A function or class of a library that downloads into a folder when it is called.

    Attributes
    ----------
    module, name : str
        Module of the library, and its attribute.
    folder : str
        Name of its argument that is the folder.
    options : mapping
        Its other arguments, as JSON has them.
    """

    module: str
    name: str
    folder: str
    options: Mapping[str, Any]


FINAL = 3
"""Exit code of the process where asking again is no use."""
PASSING_STATUSES = (408, 429)
"""Answers of a server that refuse for now: too slow, too often."""
LASTING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS)
"""Faults of a disk."""


class LibraryError(OSError):
    """Error of a library, in its words; `passing` is True if asking again may help.

    Parameters
    ----------
    words : str
        Message of the library.
    passing : bool
        True if asking again may help.
    """

    def __init__(self, words: str, *, passing: bool) -> None:
        super().__init__(words)
        self.passing = passing


def run(download: Download, folder: Path) -> Generator[float, None, None]:
    """Download into a folder that is there, and yield the progress.

    Parameters
    ----------
    download : Download
        Call that downloads.
    folder : Path
        Folder to download into.

    Yields
    ------
    float
        The part of a file that has arrived since the last one, in percent.

    Raises
    ------
    OSError
        When the library raises, with the first cause of its error, or its process is lost.
    """
    options = {**download.options, download.folder: str(folder)}
    order, pipe = [download.module, download.name, options, SILENCE_SECONDS], subprocess.PIPE
    with subprocess.Popen(
        COMMAND,
        stdin=pipe,  # closed with this process, which ends the other one
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,  # a terminal's Ctrl-C is for this process
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            child.stdin.write(json.dumps(order).encode() + b"\n")
            child.stdin.flush()
            last = yield from _percents(child.stderr)
            cause = child.stdout.read().decode(errors="replace")
            code = child.wait()
        finally:
            child.kill()
    if code:
        passing = code != FINAL
        ended = f"{download.module} was ended by {signal.Signals(-code).name}" if code < 0 else last
        raise LibraryError(cause or ended, passing=passing)


def _percents(stream: IO[bytes]) -> Generator[float, None, str]:
    """Yield the progress that bars on a stream show, and return its last words."""
    before, line, rest = 0, b"", b""
    while piece := os.read(stream.fileno(), 1 << 16):
        *lines, rest = re.split(rb"[\r\n]", rest + piece)
        for line in filter(None, lines):
            if found := re.match(rb"\s*(\d+)%", line):
                percent = int(found[1])
                yield percent - before if percent >= before else percent  # of the next file
                before = percent
    return (rest or line).decode(errors="replace")


def main() -> NoReturn:
    """Carry out the order, here; write the cause of a failure to standard output."""
    module, name, options, silence = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer = os.dup(1)
    os.dup2(2, 1)  # the libraries print
    socket.setdefaulttimeout(silence)
    error = failure(module, name, options)
    if error is not None:
        os.write(answer, first_cause(error).replace(*UNCLEAR).encode(errors="replace"))
    # PyTorch takes a second to leave in order
    os._exit(0 if error is None else 1 if may_pass(error) else FINAL)


def _end_with_parent() -> None:
    """End this process once the one that started it has ended, however that was."""
    while os.read(0, 1):  # raw: a buffer would be locked where Python ends in order
        pass
    os._exit(1)


def failure(module: str, name: str, options: Mapping[str, Any]) -> BaseException | None:
    """Return the error of a call that is made in this process, None where there is none.

    Parameters
    ----------
    module : str
        Name of the library's module.
    name : str
        Attribute of the module to call.
    options : mapping of str to object
        Keyword arguments of the call.
    """
    try:
        getattr(importlib.import_module(module), name)(**options)
    except BaseException as error:  # medmnist makes an error of Ctrl-C, too
        return error
    return None


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it, the first of all last.

    Parameters
    ----------
    error : BaseException or None
        Error to look into.
    """
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def first_cause(error: BaseException) -> str:
    """Return the words, or the type, of the error that came first of those that led to `error`.

    Parameters
    ----------
    error : BaseException
        Error to look into.
    """
    *_, first = causes(error)
    return str(getattr(first, "strerror", None) or first) or type(first).__name__


def may_pass(error: BaseException) -> bool:
    """Return True if a failure may pass: no full disk, no host without address, no "not found".

    Parameters
    ----------
    error : BaseException
        Error to look into.
    """
    for cause in causes(error):
        status = getattr(getattr(cause, "response", cause), "status_code", None)
        status = getattr(cause, "code", None) if status is None else status
        if isinstance(status, int) and 400 <= status < 500:
            return status in PASSING_STATUSES
        if isinstance(cause, socket.gaierror):
            return cause.errno == socket.EAI_AGAIN
        if isinstance(cause, OSError) and cause.errno in LASTING:
            return False
    return True


if __name__ == "__main__":
    main()
