"""Downloads by pooch: whole, verified, once, or one clear error; from a server on this machine."""

import hashlib
import http.server
import os
import signal
from pathlib import Path

import platformdirs
import pytest

from covdp.datasets import DATASETS, fetch, load_card, open_dataset
from covdp.datasets.npz import NpzCard
from covdp.datasets.registry import data_root
from covdp.errors import DatasetError, MissingError
from covdp.files import home
from tests.datasets.downloads import BODY, MD5, room_for, start, write_card
from tests.sample_server import Fault, FileServer, sockets_are_left
from tests.tools.patience import PATIENCE, until

pytestmark = sockets_are_left


def card(server: FileServer, name: str = "toy", md5: str = MD5, address: str = "") -> NpzCard:
    """Return a card whose 28 px file the server gives at /NAME.npz and 64 px at /NAME_64.npz."""
    files = [
        {"size": 28, "url": f"{address or server.address}/{name}.npz", "md5": md5},
        {"size": 64, "url": f"{address or server.address}/{name}_64.npz", "md5": md5},
    ]
    classes = ["a", "b", "c", "d"]
    fields = {"name": name, "kind": "npz", "channels": 1, "classes": classes, "files": files}
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


def test_a_download_is_readable_as_the_umask_says(server: FileServer, tmp_path: Path) -> None:
    """A data root that a group shares stays shared."""
    server.files["/toy.npz"] = BODY
    before = os.umask(0o027)
    try:
        target = fetch(card(server), tmp_path, progress=False)
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o640


def test_size_is_part_of_the_name(server: FileServer, tmp_path: Path) -> None:
    """Another size than the first is another file; one that is not offered is refused."""
    server.files["/toy_64.npz"] = BODY
    assert fetch(card(server), tmp_path, size=64, progress=False) == tmp_path / "toy_64.npz"
    with pytest.raises(DatasetError, match="not available in size 65; choose one of 28, 64"):
        fetch(card(server), tmp_path, size=65)


def sent_to_a_file(handler: http.server.BaseHTTPRequestHandler) -> None:
    """Send who asks to a file of their own."""
    handler.send_response(302)
    handler.send_header("Location", "file:///etc/passwd")
    handler.end_headers()


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (404, "404 Client Error"),
        (500, "500 Server Error"),
        ("cut", "IncompleteRead"),
        ("longer", "IncompleteRead"),
        ("shorter", f"expected md5:{MD5} but got"),
        ("stall", "timed out"),
        (sent_to_a_file, "No connection adapters"),
        ("disk", "File too large"),
        ("refused", "Connection refused"),
        ("proxy", "Connection refused, by the proxy http://127.0.0.1:9/"),
    ],
)
def test_failure_is_one_line(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, reason: str
) -> None:
    """A download that fails names URL, target, reason and --data-root, and leaves nothing."""
    nobody = "http://127.0.0.1:9"  # where nobody listens
    toy = card(server, address=nobody if fault == "refused" else "")
    server.files["/toy.npz"] = BODY
    server.faults["/toy.npz"] = [fault]
    if fault == "stall":
        monkeypatch.setattr("pooch.downloaders.DEFAULT_TIMEOUT", 2.0)
    if fault == "proxy":
        monkeypatch.setenv("HTTP_PROXY", nobody + "/")
    room = room_for(len(BODY) // 2 if fault == "disk" else 1 << 30)
    with room, pytest.raises(MissingError) as caught:
        fetch(toy, tmp_path / "new", progress=False)
    message = str(caught.value)
    assert reason in message
    assert "\n" not in message
    for part in (toy.files[0].url, str(tmp_path / "new" / "toy.npz"), "--data-root"):
        assert part in message
    assert list(tmp_path.iterdir()) == []


def test_a_proxy_of_the_environment_is_asked(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of a host that has no address comes by the proxy."""
    server.files["http://images.invalid/toy.npz"] = BODY
    monkeypatch.setenv("HTTP_PROXY", server.address)
    fetch(card(server, address="http://images.invalid"), tmp_path, progress=False)
    assert (tmp_path / "toy.npz").read_bytes() == BODY
    assert server.requests == ["http://images.invalid/toy.npz"]


def test_passwords_are_not_shown(
    server: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither that of an address nor that of a proxy, in the error or on the screen."""
    private = server.address.replace("://", "://ward:SECRET@")
    toy = card(server, address=private)
    url = f"{toy.files[0].url}?token=SECRET"
    toy = toy.model_copy(update={"files": (toy.files[0].model_copy(update={"url": url}),)})
    with pytest.raises(MissingError, match="404") as caught:
        fetch(toy, tmp_path, progress=False)
    assert f"{server.address}/toy.npz to" in str(caught.value)
    monkeypatch.setenv("HTTP_PROXY", "http://ward:SECRET@127.0.0.1:9")
    with pytest.raises(MissingError, match=r"by the proxy http://127\.") as by_proxy:
        fetch(toy, tmp_path, progress=False)
    assert "SECRET" not in "".join((str(caught.value), str(by_proxy.value), *capfd.readouterr()))


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("host", ["[x", "a b", "host:99999", "host:no", ""])
def test_an_address_that_is_none_is_one_line_without_its_password(
    server: FileServer, tmp_path: Path, host: str
) -> None:
    """What cannot be read as an address is refused, and its password is not quoted either."""
    toy = card(server)
    bad = toy.files[0].model_copy(update={"url": f"http://ward:SECRET@{host}/toy.npz"})
    with pytest.raises(MissingError, match="cannot download") as caught:
        fetch(toy.model_copy(update={"files": (bad,)}), tmp_path, progress=False)
    assert "SECRET" not in str(caught.value)


def test_unwritable_root_is_one_line(server: FileServer, tmp_path: Path) -> None:
    """A data root that cannot be made is an error of the same form, without a request."""
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(MissingError, match="--data-root"):
        fetch(card(server), tmp_path / "file" / "root", progress=False)
    assert server.requests == []


def test_a_folder_that_was_there_stays_when_a_download_fails(
    server: FileServer, tmp_path: Path
) -> None:
    """Only folders that the download made are removed, and none that holds something."""
    (tmp_path / "kept").mkdir()
    for root in (tmp_path / "kept" / "a" / "b", tmp_path / "kept"):
        with pytest.raises(MissingError, match="404"):
            fetch(card(server), root, progress=False)
        assert list(tmp_path.rglob("*")) == [tmp_path / "kept"]


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
import sys
from pathlib import Path
from covdp.datasets import fetch, load_card
fetch(load_card(Path(sys.argv[1])), sys.argv[2], progress=False)
"""


@pytest.mark.slow
def test_two_processes_download_once(server: FileServer, tmp_path: Path) -> None:
    """Of two processes that ask at once, one downloads; the other says it waits, then uses it."""
    server.gate.clear()
    path, root = write_card(server, tmp_path), tmp_path / "root"
    first = start("-c", FETCH, path, root)
    until(lambda: server.requests)
    second = start("-c", FETCH, path, root)
    assert second.stderr is not None
    assert "waiting for another run" in second.stderr.readline()
    server.gate.set()
    first.communicate(timeout=PATIENCE)
    second.communicate(timeout=PATIENCE)
    assert (first.returncode, second.returncode) == (0, 0)
    assert server.requests == ["/octmnist.npz"]
    assert [path.name for path in root.iterdir()] == ["octmnist.npz"]


@pytest.mark.slow
@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_kill_leaves_no_half_file(
    server: FileServer, tmp_path: Path, how: signal.Signals, code: int
) -> None:
    """A command killed midway leaves no file under its name; the next one cleans and succeeds."""
    server.gate.clear()
    path, root = write_card(server, tmp_path), tmp_path / "root"
    command = ("run", "--dataset", path, "--data-root", root, "--out", tmp_path / "out")
    process = start("-m", "covdp.cli", *command)
    until(lambda: server.requests and any(root.rglob("tmp*")))
    process.send_signal(how)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert not (root / "octmnist.npz").exists()
    if how == signal.SIGINT:
        assert said.count("\n") == 1
        assert list(root.iterdir()) == []
    server.gate.set()
    fetch(load_card(path), root, progress=False)
    assert [path.name for path in root.iterdir()] == ["octmnist.npz"]


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
    """The argument, else COVDP_DATA, else the user's cache folder, whatever folder one is in."""
    monkeypatch.setenv("COVDP_DATA", str(tmp_path / "env"))
    assert data_root(tmp_path) == tmp_path
    assert data_root() == tmp_path / "env"
    monkeypatch.delenv("COVDP_DATA")
    monkeypatch.chdir(tmp_path)
    assert data_root() == home() == platformdirs.user_cache_path("covdp")
