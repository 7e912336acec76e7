"""Factories and places that several tests share; no data."""

import flows  # noqa: F401  (its settings come before Prefect)

# isort: split
import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import prefect.main  # noqa: F401  (see below)
import pytest
from filelock import FileLock
from remembered import FOLLOWS, remembered

from flows.attached import start_attached
from pipeline.mean import rounds
from tests.tools.components import NO_OFFICIAL, NO_SAMPLES, NO_VOLUMES, SAMPLES, VOLUMES, images
from tests.tools.once import pytest_collection  # noqa: F401  (a hook)
from tests.tools.skips import (  # noqa: F401  (hooks)
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_sessionfinish,
)

# Prefect configures logging when it is first imported, which shuts the handlers that exist; absl's,
# which comes with dp_accounting, would then close the stream pytest has put in place of stderr.


@pytest.fixture(autouse=True)
def no_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide in a test as in any pipe, whatever terminal the suite runs in."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True, scope="session")
def private_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Descriptors of what fails in a test, which a release keeps, are not left in the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COVDP_STORE", str(tmp_path_factory.mktemp("stores", numbered=True)))
        yield


@pytest.fixture(autouse=True, scope="session")
def private_markers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Markers of ledgers in PostgreSQL, which goes with the session, are not left to the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COVDP_MARKERS", str(tmp_path_factory.mktemp("markers", numbered=True)))
        yield


@pytest.fixture
def worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work out once what a private mean makes of the same released values."""
    for name in FOLLOWS:
        monkeypatch.setattr(rounds, name, remembered(getattr(rounds, name)))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return a folder with the official PneumoniaMNIST and BreastMNIST."""
    return images() or pytest.skip(NO_OFFICIAL)


@pytest.fixture(scope="session")
def samples() -> Path:
    """Return a folder with samples of PathMNIST and real OCT scans."""
    return images(SAMPLES) or pytest.skip(NO_SAMPLES)


@pytest.fixture(scope="session")
def volumes() -> Path:
    """Return a folder with AdrenalMNIST3D, 28 and 64 voxels a side."""
    return images(VOLUMES) or pytest.skip(NO_VOLUMES)


class Server(NamedTuple):
    """A new database of Prefect's, and the variables that lead to the server that made it."""

    new: Path
    told: dict[str, str]


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server of Prefect's for all processes, which takes seconds to start.

    It ends when its pipe does, into which each process that uses it holds an end. Should all others
    have ended before, a process starts another one.
    """
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # of the folders of all processes
    with FileLock(place / "server.lock"):
        number = len(list(place.glob("server-*")))
        home = place / f"server-{number - 1}"
        try:
            end = os.open(home / "pipe", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # no such pipe, or nobody reads it
            home = place / f"server-{number}"
            home.mkdir()
            end = _serve(home)
    try:
        told = json.loads((home / "told.json").read_text())
        yield Server(home / "new.db", told)
    finally:
        os.close(end)


def _serve(home: Path) -> int:
    """Start a server with its state in `home`, keep its database as it is new, give the pipe."""
    os.mkfifo(home / "pipe", 0o600)
    reading = os.open(home / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    end = os.open(home / "pipe", os.O_WRONLY)
    os.set_blocking(reading, True)
    secret = "covdp:the secret of the suite"
    told = {"PREFECT_HOME": str(home), "PREFECT_SERVER_API_AUTH_STRING": secret}
    process = start_attached(
        "flows.guarded", environment=told, stdin=reading, stdout=subprocess.PIPE
    )
    os.close(reading)
    assert process.stdout is not None
    with process.stdout as said:
        port = int(said.readline())
        assert said.readline() == b"ready\n"
    process.returncode = 0  # it is not waited for: others may use it when this process has ended
    address = f"http://127.0.0.1:{port}/api"
    ways = {"PREFECT_API_URL": address, "PREFECT_API_AUTH_STRING": secret}
    (home / "told.json").write_text(json.dumps(ways))
    copy_database(home / "prefect.db", home / "new.db")
    return end


def copy_database(source: Path, target: Path) -> None:
    """Copy a database that others may be writing to."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@pytest.fixture(scope="session")
def copy_prefect(shared_server: Server) -> Callable[[Path], Path]:
    """Give a function that makes a Prefect folder, its database made already, and returns it."""

    def copy(folder: Path) -> Path:
        folder.mkdir(parents=True)
        copy_database(shared_server.new, folder / "prefect.db")
        return folder

    return copy


@pytest.fixture(scope="session")
def prefect_server(shared_server: Server) -> Iterator[dict[str, str]]:
    """Lead the flows and the commands of a process to the server; the variables that do."""
    from prefect.logging.handlers import APILogWorker
    from prefect.settings import (
        PREFECT_API_AUTH_STRING,
        PREFECT_API_URL,
        temporary_settings,
    )

    told = shared_server.told
    with (
        pytest.MonkeyPatch.context() as patch,
        temporary_settings(
            {
                PREFECT_API_URL: told["PREFECT_API_URL"],
                PREFECT_API_AUTH_STRING: told["PREFECT_API_AUTH_STRING"],
            }
        ),
    ):
        for name, value in told.items():
            patch.setenv(name, value)
        yield told
        APILogWorker.drain_all(timeout=10.0)  # when the process ends, the server has ended


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a command start a server of its own, whatever another test has used before."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)


@pytest.fixture
def prefect_home(copy_prefect: Callable[[Path], Path], own_server: None, tmp_path: Path) -> Path:
    """Return a Prefect folder whose database is made already, for a command with its own server."""
    return copy_prefect(tmp_path / "prefect")
