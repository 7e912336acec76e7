"""The server that downloads are asked of in tests."""

import gc
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from covdp.datasets import download, library
from tests.sample_server import FileServer, serving


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Serve on a free port, whatever proxies the environment names."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("urllib.request._opener", None)  # it keeps the proxies that it met first
    with serving() as state:
        yield state
    gc.collect()  # see `sockets_are_left`


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the real libraries download in this process, which imports them once for all tests."""

    def run(call: library.Download, folder: Path) -> Iterator[float]:
        options = {**call.options, call.folder: str(folder)}
        if (error := library.failure(call.module, call.name, options)) is not None:
            words = library.first_cause(error).replace(*library.UNCLEAR)
            raise library.LibraryError(words, passing=library.may_pass(error))
        yield 100.0

    monkeypatch.setattr(download, "run", run)
    yield
    socket.setdefaulttimeout(None)
