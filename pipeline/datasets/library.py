"""Downloads by medmnist, torchvision and pooch, in a process of their own.

These libraries print, wait for a silent server for ever, read a whole split into memory, and turn
Ctrl-C into an error that says "download manually". In a process of their own none of that reaches
this one, which takes the progress and the cause of a failure from what they say. This file is what
runs there, too; it imports the standard library alone.
"""

import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
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
        Where it is.
    folder : str
        Name of its argument that is the folder.
    options : mapping
        Its other arguments, as JSON has them.
    """

    module: str
    name: str
    folder: str
    options: Mapping[str, Any]


def run(download: Download, folder: Path) -> Generator[float, None, None]:
    """Download into a folder that is there, and yield the progress.

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
        ended = f"{download.module} was ended by {signal.Signals(-code).name}" if code < 0 else last
        raise OSError(cause or ended)


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
    cause = failure(module, name, options)
    os.write(answer, cause.encode(errors="replace"))
    os._exit(bool(cause))  # PyTorch takes a second to leave in order


def _end_with_parent() -> None:
    """End this process once the one that started it has ended, however that was."""
    while os.read(0, 1):  # raw: a buffer would be locked where Python ends in order
        pass
    os._exit(1)


def failure(module: str, name: str, options: Mapping[str, Any]) -> str:
    """Make a call, here; return the first cause of its failure, "" where there is none."""
    try:
        getattr(importlib.import_module(module), name)(**options)
    except BaseException as error:  # medmnist makes an error of Ctrl-C, too
        return first_cause(error).replace(*UNCLEAR)
    return ""


def first_cause(error: BaseException) -> str:
    """Return the words, or the type, of the error that came first of those that led to `error`."""
    while inner := error.__cause__ or error.__context__:
        error = inner
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


if __name__ == "__main__":
    main()
