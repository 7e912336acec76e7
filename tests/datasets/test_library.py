"""Downloads by the classes of medmnist and torchvision, from a server on this machine."""

import errno
import hashlib
import os
import re
import signal
import socket
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from covdp.cli import main
from covdp.datasets import DATASETS, download, fetch, library, load_card, open_dataset
from covdp.datasets.torchvision import torchvision_datasets
from covdp.errors import DatasetError, ImageError, MissingError
from covdp.experiments import MAIN
from covdp.results import read_record, read_rows
from tests.datasets.digits import digits
from tests.datasets.digits import mnist as write_mnist
from tests.datasets.downloads import BODY, MD5, ROOT, room_for, start, write_card
from tests.sample_server import Fault, FileServer, redirect, sockets_are_left
from tests.tools.patience import PATIENCE, until

pytestmark = sockets_are_left


def class_card(server: FileServer, folder: Path, md5: str = MD5, name: str = "OCTMNIST") -> Path:
    """Write the card of a set that a class of medmnist downloads."""
    return write_card(server, folder, md5, f'medmnist = "{name}"')


@pytest.fixture
def octmnist(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Have medmnist, here and in processes that it is started in, get OCTMNIST from the server."""
    import medmnist

    values = {"url": f"{server.address}/octmnist.npz", "MD5": MD5}
    redirect(monkeypatch, "medmnist", "octmnist", values)
    for key, value in values.items():
        monkeypatch.setitem(medmnist.INFO["octmnist"], key, value)
    return values


@pytest.fixture
def mnist(
    server: FileServer, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> dict[str, bytes]:
    """Have torchvision, here and in other processes, get a small MNIST from its second mirror."""
    paths = write_mnist(tmp_path_factory.mktemp("served"), packed=True).values()
    files = {path.name: path.read_bytes() for path in paths}
    server.files |= {f"/two/{name}": content for name, content in files.items()}
    values: dict[str, Any] = {
        "mirrors": [f"{server.address}/one/", f"{server.address}/two/"],
        "resources": [(name, hashlib.md5(body).hexdigest()) for name, body in files.items()],
    }
    redirect(monkeypatch, "torchvision", "MNIST", values)
    for key, value in values.items():
        monkeypatch.setattr(torchvision_datasets().MNIST, key, value)
    return files


@pytest.mark.slow
def test_torchvision_downloads_and_archives_stay(
    server: FileServer, mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its class goes to the next mirror; the archives stay, and are opened where they lie."""
    moved: list[float] = []

    @contextmanager
    def counted(*_: object, **options: object) -> Iterator[Callable[[float], None]]:
        yield moved.append

    monkeypatch.setattr(download, "counted", counted)
    source = open_dataset("mnist", tmp_path)
    np.testing.assert_array_equal(next(source.chunks("train")), digits("train"))
    assert source.counts("test") == (2,) * 10
    assert sum(moved) == pytest.approx(400)
    left = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == mnist
    asked = len(server.requests)
    open_dataset("mnist", tmp_path)
    assert len(server.requests) == asked


@pytest.mark.parametrize(("name", "split"), [("octmnist", "test"), ("chestmnist", "val")])
def test_a_class_reads_the_smallest_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, split: str
) -> None:
    """Whatever split it is asked for, it downloads all, and reads that one into memory."""
    asked: list[library.Download] = []
    monkeypatch.setattr("covdp.datasets.npz.obtain", lambda *these, **_: asked.append(these[2]))
    fetch(DATASETS[name], tmp_path, size=64)
    options = {"split": split, "size": 64, "download": True}
    assert asked == [library.Download("medmnist", DATASETS[name].title, "root", options)]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (404, "HTTP Error 404: Not Found"),
        (503, "HTTP Error 503: Service Unavailable"),
        ("cut", "what arrived is cut short or has another MD5"),
        ("shorter", "what arrived is cut short or has another MD5"),
        ("stall", "timed out"),
        ("disk", "File too large"),
        ("digest", f"received MD5 {MD5}, expected {'0' * 32}"),
        ("proxy", "Connection refused, by the proxy http://127.0.0.1:9"),
        ("class", "has no attribute 'NoMNIST'"),
    ],
)
def test_failure_of_medmnist_is_one_line(
    server: FileServer,
    octmnist: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
    reason: str,
) -> None:
    """A download that fails names URL, target, cause and --data-root, and leaves nothing."""
    md5, of = "0" * 32 if fault == "digest" else MD5, "NoMNIST" if fault == "class" else "OCTMNIST"
    path = class_card(server, tmp_path, md5, of)
    server.faults["/octmnist.npz"] = [fault] * 3 if fault in (404, 503) else [200, fault]
    if fault == "stall":
        socket.setdefaulttimeout(2.0)
    if fault == "proxy":
        monkeypatch.setenv("http_proxy", "http://ward:SECRET@127.0.0.1:9")
    room = len(BODY) // 2 if fault == "disk" else 1 << 30
    with room_for(room), pytest.raises(MissingError) as caught:
        fetch(load_card(path), tmp_path / "root", progress=False)
    message = str(caught.value)
    assert reason in message
    for part in (octmnist["url"], str(tmp_path / "root" / "octmnist.npz"), "--data-root"):
        assert part in message
    assert "SECRET" not in message
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("in_process", "mnist")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (404, "HTTP Error 404: Not Found"),
        ("cut", "what arrived is cut short or has another MD5"),
        ("stall", "timed out"),
    ],
)
def test_failure_of_torchvision_is_one_line(
    server: FileServer, tmp_path: Path, fault: Fault, reason: str
) -> None:
    """With the causes of all mirrors; three files that came before are not kept either."""
    name = "/two/t10k-labels-idx1-ubyte.gz"
    server.faults[name] = [fault] * 3 if fault == 404 else [200, fault]
    if fault == "stall":
        socket.setdefaulttimeout(2.0)
    with pytest.raises(MissingError, match="put the files there yourself") as caught:
        fetch(DATASETS["mnist"], tmp_path / "root", progress=False)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("in_process")
def written(path: Path) -> tuple[int, int, int]:
    """Return which file a path names, and when it was written; reading changes none of it."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def test_files_that_are_there_are_never_overwritten(
    mnist: dict[str, bytes], tmp_path: Path
) -> None:
    """One archive with another digest is refused and stays; a right one stays and is used."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    name, other = list(mnist)[:2]
    (raw / name).write_bytes(mnist[name])
    (raw / other).write_bytes(b"mine")
    before = written(raw / name)
    with pytest.raises(ImageError, match=f"{other} has MD5"):
        fetch(DATASETS["mnist"], tmp_path, progress=False)
    assert (raw / other).read_bytes() == b"mine"
    (raw / other).unlink()
    fetch(DATASETS["mnist"], tmp_path, progress=False)
    assert written(raw / name) == before
    assert {path.name for path in raw.iterdir()} == set(mnist)


class Stuck:
    """A class that has begun to download, and takes Ctrl-C for an error, as medmnist's do."""

    def __init__(self, root: str, **_: object) -> None:
        Path(root, "octmnist.npz").write_bytes(b"half")
        while True:
            with suppress(BaseException):
                time.sleep(60)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_its_process_ends_with_the_one_that_started_it(
    server: FileServer, tmp_path: Path, how: signal.Signals
) -> None:
    """Whatever ends covdp while a class downloads ends the class as well; no file is left."""
    path, root = write_card(server, tmp_path), tmp_path / "root"
    code = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background ignores it
from pathlib import Path
from covdp.datasets import fetch, load_card, npz
from covdp.datasets.library import Download
npz.Download = lambda *_: Download("tests.datasets.test_library", "Stuck", "root", {{}})
fetch(load_card(Path({str(path)!r})), {str(root)!r})
"""
    process = start("-c", code)
    until(lambda: any(root.rglob("octmnist.npz")))
    (child,) = psutil.Process(process.pid).children()
    process.send_signal(how)
    process.communicate(timeout=PATIENCE)
    child.wait(120)
    assert not (root / "octmnist.npz").exists()
    if how == signal.SIGINT:
        assert list(root.iterdir()) == []


class Talker:
    """A class that talks like one which downloads, and then ends as it is told."""

    def __init__(self, root: str, ends: str) -> None:
        print("Downloading")
        sys.stderr.write("\r  0%|   | 0/9\r 45%|## | 4/9\r100%|###| 9/9\nnotes: 7% of 9\n")
        sys.stderr.write("\r  0%|   | 0/9\r 50%|## | 4/9\rout of mind")
        sys.stderr.flush()
        if ends == "raises":
            try:
                raise KeyboardInterrupt
            except BaseException:
                raise RuntimeError("\n  download it\n  manually") from None
        if ends == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if ends == "exits":
            os._exit(3)


@pytest.mark.parametrize(
    ("ends", "reason"),
    [("", ""), ("raises", "^KeyboardInterrupt$"), ("killed", "SIGKILL"), ("exits", "out of mind")],
)
def test_what_a_class_says_is_progress_and_cause(
    ends: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Its bars, one a file, are the progress; its first error, signal or last line the cause."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    moved: list[float] = []
    talker = library.Download("tests.datasets.test_library", "Talker", "root", {"ends": ends})
    order = library.run(talker, tmp_path)
    if reason:
        with pytest.raises(OSError, match=reason):
            moved.extend(order)
    else:
        moved.extend(order)
    assert moved == [0, 45, 55, 0, 50]
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.usefixtures("octmnist")
@pytest.mark.parametrize("way", ["medmnist", "pooch"])
def test_the_main_job_runs_on_a_downloaded_file(
    server: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    way: str,
) -> None:
    """A file like OCTMNIST's is fetched, described, verified, released of and reported on.

    Without the extra it comes by pooch, here for one budget. Neither library says a word.
    """
    out, root, path = tmp_path / "out", tmp_path / "root", class_card(server, tmp_path)
    command = ["run", "--dataset", path, "--data-root", root, "--out", out, "--repetitions", "2"]
    if way == "pooch":
        monkeypatch.setitem(sys.modules, "medmnist", None)
        few = re.sub(r"budgets = .*", "budgets = [1.0]", MAIN.read_text(encoding="utf-8"))
        (tmp_path / "few.toml").write_text(few, encoding="utf-8")
        command += ["--config", tmp_path / "few.toml"]
    assert main([*map(str, command)]) == 0
    assert len(server.requests) == (2 if way == "medmnist" else 1)  # where it leads, and the file
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"octmnist.npz": BODY}
    (table,) = (out / "results").glob("*.parquet")
    bound, *_, farthest, results, report = (said := capfd.readouterr()).out.splitlines()
    assert (bound[:18], farthest.split()[:2], said.err) == (
        "bound    radius r ",
        ["farthest", "image:"],
        "",
    )
    assert [results, report] == [f"results  {table}", f"report   {out / 'report.html'}"]
    rows = read_rows(table)
    assert set(rows["dataset"]) == {"octmnist"}
    for label, n in enumerate(open_dataset(path, root).counts()):
        assert set(rows["n"][rows["label"] == label]) == {n}
    assert set(rows["status"]) == {"ok"}
    (log,) = (out / "runs").glob("*/run.json")
    assert read_record(log).status == "ok"
    assert (log.parent / "bound.parquet").exists()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in DATASETS["octmnist"].classes)


def test_a_run_without_its_data_says_so_and_is_safe_to_ask_again(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one line; once the server has the file, the same command succeeds."""
    path = write_card(server, tmp_path)
    root = tmp_path / "root"
    command = ["run", "--dataset", path, "--data-root", root, "--out", tmp_path / "out"]
    server.faults["/octmnist.npz"] = [404]
    assert main([*map(str, command), "--repetitions", "2"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not root.exists()
    assert main([*map(str, command), "--repetitions", "2"]) == 0


@sockets_are_left
def test_what_may_pass_is_told_from_what_will_not(server: FileServer, tmp_path: Path) -> None:
    """Who asks again later, as a flow does, is told where that may help: not without a network."""
    for address, passing in ((server.address, True), ("http://no-such-host.invalid", False)):
        path = write_card(server, tmp_path)
        path.write_text(path.read_text().replace(server.address, address))
        server.faults["/octmnist.npz"] = [503] * 9
        with pytest.raises(MissingError) as missing:
            open_dataset(path, tmp_path / "root")
        assert missing.value.passing == passing


@pytest.mark.parametrize(
    ("cause", "passing"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (OSError(errno.ECONNRESET, "Connection reset by peer"), True),
        (urllib.error.HTTPError("https://a.example", 404, "Not Found", Message(), None), False),
        (urllib.error.HTTPError("https://a.example", 429, "Too Many", Message(), None), True),
    ],
)
def test_a_full_disk_and_a_missing_file_do_not_pass(cause: OSError, passing: bool) -> None:
    """The cause is found behind the errors that libraries raise from it."""
    error = RuntimeError("a library's own words")
    error.__cause__ = cause
    assert library.may_pass(error) == passing


def test_an_unfitting_torch_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where torchvision does not import beside the torch that is there, the way out is said."""

    def fail(name: str) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr("covdp.datasets.torchvision.import_module", fail)
    with pytest.raises(DatasetError, match=r"nms does not exist\).*--force-reinstall"):
        fetch(DATASETS["mnist"], tmp_path)
