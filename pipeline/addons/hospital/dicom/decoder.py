"""Frames decoded in a process of their own: what a damaged one does to a library ends there.

GDCM takes the whole process with it (SIGABRT, SIGSEGV) on one of 150 JPEG frames with some bits
flipped, and the decoder of RLE, in Rust, panics, which is no `Exception`. Here it takes one that
has nothing else to do; its output goes nowhere, and a frame that keeps it for too long ends it as
well. This file is what runs there, too.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

FRAME_SECONDS = 60.0
"""Seconds that a frame may take."""

_IDLE: list["subprocess.Popen[bytes]"] = []
"""Processes that wait for a frame; where this one ends, nothing more comes, and they do, too."""

_READY = "ready"


def decode_in_subprocess(syntax: str, plugin: str, encoded: bytes, options: dict[str, Any]) -> Any:
    """Return the pixels of one compressed frame, and what they mean.

    Parameters
    ----------
    syntax : str
        UID of the transfer syntax.
    plugin : str
        Name of the decoder, as pydicom calls it.
    encoded : bytes
        Compressed frame.
    options : dict of str to object
        Facts of the header that the decoder needs.

    Raises
    ------
    ValueError
        When the decoder fails, with what it says, or with how it ended.
    MachineError
        When no process can be started.
    """
    child: Any = _idle()
    watch = threading.Timer(FRAME_SECONDS, child.kill)
    watch.start()
    try:
        pickle.dump((syntax, plugin, encoded, options), child.stdin, protocol=5)
        child.stdin.flush()
        reply = pickle.load(child.stdout)
    except (OSError, EOFError, pickle.UnpicklingError):
        reply = _how_it_ended(child)
    else:
        _IDLE.append(child)
    finally:
        watch.cancel()
    if isinstance(reply, str):
        raise ValueError(reply)
    return reply


def _idle() -> "subprocess.Popen[bytes]":
    """Return a process that waits for a frame, started if there is none."""
    with suppress(IndexError):
        while (child := _IDLE.pop()).poll() is not None:
            pass
        return child
    from covdp.errors import MachineError

    command = [sys.executable, "-P", __file__]
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a terminal's Ctrl-C is for this process
        )
    except OSError as error:
        reason = str(error.strerror)
    else:
        with suppress(EOFError, pickle.UnpicklingError):
            if pickle.load(child.stdout) == _READY:  # type: ignore[arg-type]
                return child
        reason = _how_it_ended(child)
    raise MachineError(
        f"no process starts to decode compressed images in ({reason}); let more run (ulimit -u), "
        f"or see what `{' '.join(command)}` prints"
    )


def _how_it_ended(child: "subprocess.Popen[bytes]") -> str:
    """Return how a process that says nothing more has ended."""
    with suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=1)
    child.kill()
    child.wait()
    code = child.returncode
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"its decoder ended by {name}"


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # they are the parent's


def _serve() -> None:
    """Decode what comes until nothing does."""
    with os.fdopen(os.dup(1), "wb") as out, os.fdopen(os.dup(0), "rb") as requests:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # libraries print
        from pydicom.encaps import encapsulate
        from pydicom.pixels.decoders.base import get_decoder
        from pydicom.uid import UID

        reply: Any = _READY
        while True:
            pickle.dump(reply, out, protocol=5)
            out.flush()
            try:
                syntax, plugin, encoded, options = pickle.load(requests)
            except EOFError:
                return
            try:
                decoder = get_decoder(UID(syntax))
                module, _, function = plugin.partition(":")
                if function and plugin not in decoder.available_plugins:
                    decoder.add_plugin(plugin, (module, function))
                frame = encapsulate([encoded])
                reply = decoder.as_array(frame, index=0, decoding_plugin=plugin, **options)
            except BaseException as error:  # a panic is no Exception
                reply = str(error).rpartition("plugins:")[2] or type(error).__name__
                if "'NoneType'" in reply:  # GDCM does not say why
                    reply = f"{plugin} makes no pixels of a frame"


if __name__ == "__main__":
    _serve()
