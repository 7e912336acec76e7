"""A Prefect server of covdp's own: for one process, behind a secret, and gone when it is.

    this process                            child: `flows.guarded`
    start ─────────────────── pipe ───────► ends when the pipe does
    import Prefect and the flow             import Prefect's server        (side by side)
    answers? ◄─────────────── pipe ──────── ready

Prefect's own temporary server asks for no password, lets every web page in (CORS ``*``) and stays
when whoever started it is killed. The secret is in the environment of these processes and nowhere
else. Importing Prefect's server takes 2.7 s of processor time and its start 0.9 s, making the
database (once) 5 s; importing Prefect's client takes 1.0 s and ours 1.2 s: hence side by side.
"""

import atexit
import os
import queue
import secrets
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from flows.attached import FAREWELL, start_attached
from pipeline.errors import ConfigError, OutputError

PATIENCE = 120.0
"""Seconds a server may take to answer; the first start makes its database."""
REACH = 3.0
"""Seconds an address may take to answer; a machine that is there answers in a few thousandths."""


def start_server() -> Callable[[], None]:
    """Have a Prefect API: the one PREFECT_API_URL names, else one started here.

    To be called before Prefect is imported. It gives a function that returns when the server
    answers; import Prefect first, then call it. A server started here ends after this process has
    told it all that Prefect still has to tell, or when this process is killed.

    Raises
    ------
    ConfigError
        When the server that PREFECT_API_URL names cannot be reached.
    OutputError
        When the one started here does not answer.
    """
    given = os.environ.get("PREFECT_API_URL")
    if given:
        check_reachable(given, "PREFECT_API_URL names no Prefect server that answers")
        return lambda: None
    secret = f"covdp:{secrets.token_urlsafe(32)}"
    process = start_attached(
        "flows.guarded",
        environment={"PREFECT_SERVER_API_AUTH_STRING": secret},
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("PREFECT_LOGGING_LEVEL") else subprocess.DEVNULL,
    )
    atexit.register(_end, process)  # Prefect, imported later, takes its leave before
    said = _lines(process)
    os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{_next(said)}/api"
    os.environ["PREFECT_API_AUTH_STRING"] = secret
    return lambda: _ready(said)


def check_reachable(address: str, fault: str) -> None:
    """Raise `ConfigError` with `fault` unless something listens at the host and port of a URL."""
    try:
        parts = urlsplit(address)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        with socket.create_connection((parts.hostname or "", port or 0), timeout=REACH):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{fault}: {address} ({reason}); check the address") from error


def _lines(process: "subprocess.Popen[bytes]") -> "queue.SimpleQueue[str]":
    """Return the lines a process prints as they come; an empty one is the last."""
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    stream = process.stdout
    assert stream is not None

    def read() -> None:
        for line in stream:
            said.put(line.decode().strip())
        said.put("")

    threading.Thread(target=read, name="read the server", daemon=True).start()
    return said


def _next(said: "queue.SimpleQueue[str]") -> str:
    fault = f"did not start within {PATIENCE:.0f} s"
    with suppress(queue.Empty):
        if line := said.get(timeout=PATIENCE):
            return line
        fault = "ended while it started"
    raise OutputError(
        f"the Prefect server {fault} in {os.environ['PREFECT_HOME']}; see why with "
        "PREFECT_LOGGING_LEVEL=ERROR, or let PREFECT_HOME name a new folder"
    )


def _ready(said: "queue.SimpleQueue[str]") -> None:
    _next(said)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Close the pipe, and give the server a moment to write down what it was told."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=2 * FAREWELL)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
