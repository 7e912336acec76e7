"""A server on this machine that gives files and fails as it is told, and libraries that ask it."""

import http.server
import io
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Fault = int | str | Callable[[http.server.BaseHTTPRequestHandler], None]
"""A status; "cut", "longer", "shorter" or "stall" for an answer that is not what it says; or a
function that answers in its own way."""


@dataclass
class FileServer:
    """Files of a server by path, or by address where it is asked as a proxy.

    Attributes
    ----------
    faults : dict
        Faults of a path's first requests, one each.
    requests : list of str
        All requests so far.
    gate : Event
        Bodies wait for it after their first half; it is set unless a test clears it.
    """

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        self.requests.append(handler.path)
        faults = self.faults.get(handler.path, [])
        fault = faults.pop(0) if faults else None
        if callable(fault):
            return fault(handler)
        body = self.files.get(handler.path, b"")
        status = fault if isinstance(fault, int) else 200 if body else 404
        body = body if status == 200 else b""
        length = len(body) + {"longer": 1, "shorter": -1}.get(str(fault), 0)
        handler.send_response(status)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2])
        handler.wfile.flush()
        self.gate.wait()
        if fault == "stall":
            self.closing.wait()
        elif fault != "cut":
            handler.wfile.write(body[len(body) // 2 :])
        return None


@contextmanager
def serving() -> Iterator[FileServer]:
    """Serve on a free port; close it whatever happens."""
    state = FileServer()
    state.gate.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(OSError):  # who asked may have gone
                state.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        state.address = f"http://127.0.0.1:{httpd.server_port}"
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield state
        state.gate.set()
        state.closing.set()
        httpd.shutdown()
        thread.join()


sockets_are_left = pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")
"""Of tests whose downloads fail: pooch and urllib leave sockets to the garbage collector."""


def npz_like_octmnist() -> bytes:
    """Return a small file with the arrays, types, classes and label shape of OCTMNIST."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for split, n in (("train", 120), ("val", 20), ("test", 16)):
        arrays[f"{split}_images"] = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        arrays[f"{split}_labels"] = (np.arange(n, dtype=np.uint8) % 4)[:, np.newaxis]
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def redirect(patch: pytest.MonkeyPatch, library: str, name: str, values: dict[str, object]) -> None:
    """Have a library that is started by covdp know other addresses and digests of a dataset."""
    order = json.dumps([library, name, values])
    command = (sys.executable, "-P", str(Path(__file__)), order)
    patch.setattr("covdp.datasets.library.COMMAND", command)


def main(changes: str) -> None:
    """Do what `redirect` says, then what the process is for."""
    from covdp.datasets import library

    module, name, values = json.loads(changes)
    if module == "medmnist":
        import medmnist

        medmnist.INFO[name].update(values)
    else:
        import torchvision

        for key, value in values.items():
            setattr(getattr(torchvision.datasets, name), key, value)
    library.main()


if __name__ == "__main__":
    main(sys.argv[1])
