"""Downloads: whole, verified, once, or one clear error; against a server on this machine."""

import hashlib
import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipeline.datasets import DATASETS, data_root, download, fetch, open_dataset
from pipeline.datasets.download import obtain
from pipeline.datasets.npz import NpzCard
from pipeline.errors import DatasetError
from pipeline.files import home
from tests.tools.patience import PATIENCE, until

BODY = bytes(range(256)) * 2048
MD5 = hashlib.md5(BODY).hexdigest()


@dataclass
class FileServer:
    """A server that gives `files`; `faults` of the first requests, by path, come before them."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[int | str]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def server() -> Iterator[FileServer]:
    """Serve on a free port; close it whatever happens."""
    state = FileServer()
    state.gate.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            faults = state.faults.get(self.path, [])
            fault = faults.pop(0) if faults else None
            body = state.files.get(self.path, b"")
            status = fault if isinstance(fault, int) else 200 if body else 404
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) if status == 200 else 0))
            self.end_headers()
            if status == 200:
                half = len(body) // 2
                self.wfile.write(body[:half])
                self.wfile.flush()
                state.gate.wait(PATIENCE)
                if fault != "cut":
                    self.wfile.write(body[half:])

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.daemon_threads = True
        state.address = f"http://127.0.0.1:{httpd.server_port}"
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield state
        state.gate.set()
        httpd.shutdown()
        thread.join()


def card(server: FileServer, name: str = "toy", md5: str = MD5) -> NpzCard:
    """Return a card whose 28 px file the server gives at /NAME.npz and 64 px at /NAME_64.npz."""
    files = [
        {"size": 28, "url": f"{server.address}/{name}.npz", "md5": md5},
        {"size": 64, "url": f"{server.address}/{name}_64.npz", "md5": md5},
    ]
    fields = {"name": name, "kind": "npz", "channels": 1, "classes": ["a"], "files": files}
    return NpzCard.model_validate(fields)


def test_download_is_whole_and_used_again(server: FileServer, tmp_path: Path) -> None:
    """A file is downloaded once into a new folder, byte for byte, and used from then on."""
    server.files["/toy.npz"] = BODY
    root = tmp_path / "new" / "root"
    for _ in range(2):
        assert fetch(card(server), root, progress=False) == root / "toy.npz"
    assert (root / "toy.npz").read_bytes() == BODY
    assert [path.name for path in root.iterdir()] == ["toy.npz"]
    assert server.requests == ["/toy.npz"]


def test_size_is_part_of_the_name(server: FileServer, tmp_path: Path) -> None:
    """Another size than the first is another file; one that is not offered is refused."""
    server.files["/toy_64.npz"] = BODY
    assert fetch(card(server), tmp_path, size=64, progress=False) == tmp_path / "toy_64.npz"
    with pytest.raises(DatasetError, match="not available in size 65; choose one of 28, 64"):
        fetch(card(server), tmp_path, size=65)


def test_a_download_is_counted_only_when_asked(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every byte of the file is counted, out of as many as there are, and only when asked."""
    seen: list[float] = []

    @contextmanager
    def counted(
        what: str, total: float | None, unit: str, *, shown: bool
    ) -> Iterator[Callable[[float], None]]:
        assert (what, total, unit) == ("download", len(BODY) / 1000, "kB")
        yield seen.append if shown else lambda count: None

    monkeypatch.setattr(download, "counted", counted)
    server.files |= {"/toy.npz": BODY, "/toy_64.npz": BODY}
    fetch(card(server), tmp_path, progress=False)
    assert seen == []
    fetch(card(server), tmp_path, size=64, progress=True)
    assert sum(seen) == pytest.approx(len(BODY) / 1000)


@pytest.mark.parametrize("fault", [500, 503, 429, "cut"])
def test_passing_faults_are_tried_again(
    server: FileServer, tmp_path: Path, fault: int | str
) -> None:
    """A server that is busy or cuts the body short is asked again, and the file comes whole."""
    server.files["/toy.npz"] = BODY
    server.faults["/toy.npz"] = [fault, fault]
    fetch(card(server), tmp_path, progress=False, pause=0.01)
    assert (tmp_path / "toy.npz").read_bytes() == BODY
    assert len(server.requests) == 3


def test_pauses_double(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After attempt i the wait is pause·2^(i-1)."""
    pauses: list[float] = []
    monkeypatch.setattr("pipeline.datasets.download.time.sleep", pauses.append)
    server.files["/toy.npz"] = BODY
    server.faults["/toy.npz"] = [500, 500, 500, 500]
    with pytest.raises(DatasetError, match="500 Server Error"):
        fetch(card(server), tmp_path, progress=False, attempts=4, pause=0.5)
    assert pauses == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    ("fault", "asked", "reason"),
    [
        ("missing", 1, "404 Client Error"),
        (403, 1, "403 Client Error"),
        ("cut", 3, "IncompleteRead|incomplete|broken"),
        ("digest", 3, f"received MD5 {MD5}, expected {'0' * 32}"),
        ("refused", 0, "refused"),
    ],
)
def test_failure_is_one_line(
    server: FileServer, tmp_path: Path, fault: int | str, asked: int, reason: str
) -> None:
    """A download that fails names URL, target, reason and --data-root, and leaves no file."""
    toy = card(server, md5="0" * 32 if fault == "digest" else MD5)
    if fault != "missing":
        server.files["/toy.npz"] = BODY
    server.faults["/toy.npz"] = [] if fault == "digest" else [fault] * 3
    if fault == "refused":  # nobody listens on port 9 of this machine
        file = toy.files[0].model_copy(update={"url": "http://127.0.0.1:9/toy.npz"})
        toy = toy.model_copy(update={"files": (file,)})
    with pytest.raises(DatasetError, match=reason) as caught:
        fetch(toy, tmp_path, progress=False, pause=0.01)
    message = str(caught.value)
    assert "\n" not in message
    for part in (toy.files[0].url, str(tmp_path / "toy.npz"), "--data-root"):
        assert part in message
    assert len(server.requests) == asked
    assert list(tmp_path.iterdir()) == []


def test_unwritable_root_is_one_line(server: FileServer, tmp_path: Path) -> None:
    """A data root that cannot be made is an error of the same form, without a request."""
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DatasetError, match="--data-root"):
        fetch(card(server), tmp_path / "file" / "root", progress=False)
    assert server.requests == []


def test_wrong_digest_on_disk_is_refused(server: FileServer, tmp_path: Path) -> None:
    """A file of the user's with another MD5 is refused with both digests, and stays as it is."""
    server.files["/toy.npz"] = BODY
    target = tmp_path / "toy.npz"
    target.write_bytes(b"mine")
    with pytest.raises(DatasetError, match="move it away") as caught:
        fetch(card(server), tmp_path)
    assert MD5 in str(caught.value)
    assert hashlib.md5(b"mine").hexdigest() in str(caught.value)
    assert target.read_bytes() == b"mine"
    assert server.requests == []


def test_changed_file_is_noticed(server: FileServer, tmp_path: Path) -> None:
    """A digest that was right is not believed any more when the file changes."""
    server.files["/toy.npz"] = BODY
    for _ in range(2):
        target = fetch(card(server), tmp_path, progress=False)
    target.write_bytes(BODY[:-1] + b"x")
    os.utime(target, ns=(0, 1))
    with pytest.raises(DatasetError, match="has MD5"):
        fetch(card(server), tmp_path)


FETCH = """
import signal
import sys
from pathlib import Path
from pipeline.datasets.download import obtain
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
obtain(sys.argv[1], Path(sys.argv[2]), sys.argv[3], progress=False)
"""


def start(url: str, target: Path) -> subprocess.Popen[str]:
    """Start a process that downloads."""
    command = [sys.executable, "-c", FETCH, url, str(target), MD5]
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
def test_two_processes_download_once(server: FileServer, tmp_path: Path) -> None:
    """Of two processes that ask at once, one downloads; the other says it waits, then uses it."""
    server.files["/toy.npz"] = BODY
    server.gate.clear()
    target = tmp_path / "toy.npz"
    first = start(f"{server.address}/toy.npz", target)
    until(lambda: server.requests)
    second = start(f"{server.address}/toy.npz", target)
    assert second.stderr is not None
    assert "waiting for another run" in second.stderr.readline()
    server.gate.set()
    first.communicate(timeout=PATIENCE)
    second.communicate(timeout=PATIENCE)
    assert (first.returncode, second.returncode) == (0, 0)
    assert server.requests == ["/toy.npz"]
    assert target.read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["toy.npz"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_kill_leaves_no_half_file(server: FileServer, tmp_path: Path, how: signal.Signals) -> None:
    """Killed midway, a download leaves no file under its name; the next run cleans and succeeds."""
    server.files["/toy.npz"] = BODY
    server.gate.clear()
    target = tmp_path / "toy.npz"
    process = start(f"{server.address}/toy.npz", target)
    until(lambda: any(path.stat().st_size for path in tmp_path.glob(".toy.npz.*.part")))
    process.send_signal(how)
    process.communicate(timeout=PATIENCE)
    assert not target.exists()
    if how == signal.SIGINT:
        assert list(tmp_path.iterdir()) == []
    server.gate.set()
    obtain(f"{server.address}/toy.npz", target, MD5, progress=False)
    assert target.read_bytes() == BODY
    assert [path.name for path in tmp_path.iterdir()] == ["toy.npz"]


@pytest.mark.parametrize("name", ["pneumoniamnist", "breastmnist"])
def test_official_file(server: FileServer, tmp_path: Path, shared: Path, name: str) -> None:
    """The official file passes the digest of its card, downloaded or in place in a data root."""
    body = (shared / f"{name}.npz").read_bytes()
    official = DATASETS[name]
    server.files[f"/{name}.npz"] = body
    fetch(card(server, name, official.files[0].md5), tmp_path, progress=False)
    assert (tmp_path / f"{name}.npz").read_bytes() == body
    before = sorted(path.name for path in shared.iterdir())
    assert official.images is not None
    assert sum(open_dataset(name, shared).counts()) == official.images.total
    assert sorted(path.name for path in shared.iterdir()) == before
    assert server.requests == [f"/{name}.npz"]


def test_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The data root is the argument, else COVDP_DATA, else the project's cache."""
    monkeypatch.setenv("COVDP_DATA", str(tmp_path / "env"))
    assert data_root(tmp_path) == tmp_path
    assert data_root() == tmp_path / "env"
    monkeypatch.delenv("COVDP_DATA")
    assert data_root() == home()
