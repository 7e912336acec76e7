"""Downloads from a server that lies, never ends or never hurries: bounded, and one clear error."""

import gzip
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pipeline.datasets import DATASETS
from pipeline.datasets.download import obtain
from pipeline.datasets.npz import NpzCard
from pipeline.errors import DatasetError
from tests.tools.patience import PATIENCE

BODY = bytes(range(256)) * 400
MD5 = hashlib.md5(BODY).hexdigest()
MOST = 200_000
Talk = Callable[[socket.socket], None]


@pytest.fixture
def serve() -> Iterator[Callable[[Talk], str]]:
    """Return a function that serves every connection by `talk`, and gives the address."""
    server = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []
    talks: list[Talk] = []
    open_ones: list[socket.socket] = []

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            talks[0](connection)

    def listen() -> None:
        with suppress(OSError):
            while True:
                open_ones.append(server.accept()[0])
                thread = threading.Thread(target=answer, args=(open_ones[-1],), daemon=True)
                thread.start()
                threads.append(thread)

    def start(talk: Talk) -> str:
        talks.append(talk)
        listener.start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/toy.npz"

    listener = threading.Thread(target=listen, daemon=True)
    yield start
    server.shutdown(socket.SHUT_RDWR)
    if listener.ident:  # the thread ends before another server can get its file descriptor
        listener.join(PATIENCE)
    server.close()
    for connection in open_ones:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(PATIENCE)


@pytest.fixture(autouse=True)
def waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait seconds in place of minutes for what a server does not do, and long for all else."""
    callspec = getattr(request.node, "callspec", None)
    answer, piece = SHORT.get(callspec.id if callspec else "", (PATIENCE, PATIENCE))
    monkeypatch.setattr("pipeline.datasets.download.ANSWER_SECONDS", answer)
    monkeypatch.setattr("pipeline.datasets.download.HTTP_SECONDS", (piece, piece))


def wait(connection: socket.socket, before: bytes = b"") -> None:
    """Say so much and nothing more, until the other side hangs up or the test is over."""
    connection.sendall(before)
    connection.recv(1)


def said(headers: str, body: bytes = b"") -> Talk:
    """Return a talk of one answer."""
    content = f"HTTP/1.1 200 OK\r\n{headers}\r\n".encode() + body
    return lambda connection: connection.sendall(content)


def drip(before: bytes, piece: bytes) -> Talk:
    """Return a talk that goes on for ever, a piece every twentieth of a second."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(piece)
            time.sleep(0.05)

    return talk


def flood(headers: str, piece: bytes) -> Talk:
    """Return a talk that goes on for ever, as fast as it can."""

    def talk(connection: socket.socket) -> None:
        connection.sendall(f"HTTP/1.1 200 OK\r\n{headers}\r\n".encode())
        while True:
            connection.sendall(piece)

    return talk


SHORT = {
    "drips": (2.0, PATIENCE),
    "drips in chunks": (2.0, PATIENCE),
    "drips headers": (0.6, PATIENCE),
    "drips header lines": (0.6, PATIENCE),
    "says nothing": (PATIENCE, 0.6),
    "stalls": (PATIENCE, 0.6),
}
"""Seconds for an answer, and for a piece of it, where a server does not hurry."""
PACKED = 100 * gzip.compress(bytes(500_000))
SERVERS: dict[str, tuple[Talk, str]] = {
    "endless": (flood("", bytes(1 << 16)), "more than 200,000 bytes came"),
    "endless in chunks": (
        flood("Transfer-Encoding: chunked\r\n", b"400\r\n" + bytes(1024) + b"\r\n"),
        "more than 200,000 bytes came",
    ),
    "says too much": (said("Content-Length: 99999999999\r\n"), "says 99,999,999,999 bytes"),
    "says less than it sends": (
        said(f"Content-Length: {len(BODY) - 1}\r\n", BODY),
        "received MD5",
    ),
    "says more than it sends": (
        said(f"Content-Length: {len(BODY) + 1}\r\n", BODY),
        "IncompleteRead|incomplete|broken",
    ),
    "says nonsense": (flood("Content-Length: -5\r\n", bytes(1 << 16)), "more than 200,000 bytes"),
    "says two things": (
        said("Content-Length: 5\r\nContent-Length: 6\r\n", BODY),
        "Content-Length|received MD5",
    ),
    "drips": (drip(b"HTTP/1.1 200 OK\r\n\r\n", b"x"), "KiB/s on average, less than 64"),
    "drips in chunks": (
        drip(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        "KiB/s on average",
    ),
    "drips headers": (drip(b"HTTP/1.1 200 OK\r\nX: ", b"x"), "no answer in 0.6 s"),
    "drips header lines": (drip(b"HTTP/1.1 200 OK\r\n", b"X: x\r\n"), "no answer in 0.6 s"),
    "says nothing": (wait, "timed out|no answer"),
    "stalls": (
        lambda connection: wait(connection, b"HTTP/1.1 200 OK\r\n\r\nx"),
        "timed out",
    ),
    "packs by gzip": (
        said(f"Content-Encoding: gzip\r\nContent-Length: {len(PACKED)}\r\n", PACKED),
        "packs the file as 'gzip', unasked",
    ),
    "packs by deflate": (said("Content-Encoding: Deflate\r\n", PACKED), "as 'Deflate', unasked"),
    "sends to no address": (
        lambda connection: connection.sendall(
            b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n"
        ),
        "Invalid IPv6",
    ),
    "sends to a file": (
        lambda connection: connection.sendall(
            b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"
        ),
        "No connection adapters",
    ),
    "packs twice": (said("Content-Encoding: identity, gzip\r\n", PACKED), "unasked"),
}


@pytest.mark.parametrize(("talk", "words"), SERVERS.values(), ids=SERVERS)
def test_no_server_takes_more_than_its_share(
    tmp_path: Path, serve: Callable[[Talk], str], talk: Talk, words: str
) -> None:
    """It is left with one line, the address and the reason, and nothing stays on the disk."""
    url = serve(talk)
    with pytest.raises(DatasetError, match=words) as caught:
        obtain(url, tmp_path / "toy.npz", MD5, most=MOST, progress=False, attempts=2, pause=0.01)
    assert url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "headers", ["", f"Content-Length: {len(BODY)}\r\n", "Content-Encoding: identity\r\n"]
)
def test_honest_servers_are_heard(
    tmp_path: Path, serve: Callable[[Talk], str], headers: str
) -> None:
    """With a length or without, the file comes whole."""
    obtain(serve(said(headers, BODY)), tmp_path / "x", MD5, most=len(BODY), progress=False)
    assert (tmp_path / "x").read_bytes() == BODY


def test_the_password_of_an_address_is_not_shown(
    serve: Callable[[Talk], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in the error nor in what is logged before another attempt."""
    caplog.set_level("INFO")
    said_busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    url = serve(lambda connection: connection.sendall(said_busy))
    private = url.replace("://", "://ward:SECRET@") + "?token=SECRET"
    with pytest.raises(DatasetError, match="503") as caught:
        obtain(private, tmp_path / "toy.npz", MD5, progress=False, attempts=2, pause=0.01)
    assert url in str(caught.value)
    assert "trying again" in caplog.text
    assert "SECRET" not in str(caught.value) + caplog.text


@pytest.mark.parametrize("host", ["[x", "a b", "host:99999", "host:no", ""])
def test_an_address_that_is_none_is_one_line_without_its_password(
    tmp_path: Path, host: str
) -> None:
    """What cannot be read as an address is refused, and its password is not quoted either."""
    url = f"http://ward:SECRET@{host}/toy.npz"
    with pytest.raises(DatasetError, match="cannot download") as caught:
        obtain(url, tmp_path / "toy.npz", MD5, progress=False, attempts=1)
    assert "SECRET" not in str(caught.value)


def test_a_full_disk_is_said_before_it_is_full(
    tmp_path: Path, serve: Callable[[Talk], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the disk has no room for is refused at its header."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 99})())
    url = serve(said(f"Content-Length: {len(BODY)}\r\n", BODY))
    with pytest.raises(DatasetError, match=r"102,400 bytes and the disk 99 free"):
        obtain(url, tmp_path / "x", MD5, progress=False)


def test_the_bound_is_twice_the_images_of_the_card(shared: Path) -> None:
    """The official files keep it with room to spare; a card that gives no number has 64 GiB."""
    for name in ("pneumoniamnist", "breastmnist"):
        official = (shared / f"{name}.npz").stat().st_size
        assert official < DATASETS[name].most_bytes(28) < 4 * official + (1 << 20)
    pathology = DATASETS["pathmnist"].most_bytes(224)
    assert pathology == 2 * 107_180 * (224 * 224 * 3 + 8) + (1 << 20)
    card = {"name": "x", "kind": "npz", "local": True, "channels": 1, "classes": ["a"]}
    assert NpzCard.model_validate(card).most_bytes(224) == 1 << 36
