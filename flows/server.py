"""A Prefect server of this machine's own, for schedules where there is no other.

The server that a flow starts for itself has no scheduler and ends with the flow; a schedule needs
one that stays up as long as it is served.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import OutputError

PATIENCE = 120.0
"""Seconds a server may take to answer; the first start makes its database."""


@contextmanager
def local_server() -> Iterator[str]:
    """Give the address of a Prefect API: the one PREFECT_API_URL names, else one started here.

    To be entered before Prefect is imported. A server started here ends with the block.

    Raises
    ------
    OutputError
        When the server does not answer in time.
    """
    address = os.environ.get("PREFECT_API_URL")
    if address:
        yield address
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/api"
    start = ["-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, *start],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C ends what is served first, then the server
    )
    try:
        _wait(address, process)
        os.environ["PREFECT_API_URL"] = address
        yield address
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    raise OutputError(
        f"the Prefect server did not answer within {PATIENCE:.0f} s; look at its log with "
        "`prefect server start`, or name a running one in PREFECT_API_URL"
    )
