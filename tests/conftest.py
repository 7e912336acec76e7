"""Factories and places that several tests share; no data."""

import flows  # noqa: F401  (its settings come before Prefect)

# isort: split
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import prefect.main  # noqa: F401  (see below)
import pytest
from components import NO_OFFICIAL, NO_SAMPLES, NO_VOLUMES, SAMPLES, VOLUMES, images
from filelock import FileLock
from once import pytest_collection  # noqa: F401  (a hook)
from skips import (  # noqa: F401  (hooks)
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_sessionfinish,
)

from flows.attached import start_attached
from pipeline.geometry import inductive

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
def short_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take 100 steps of an inductive mean, not 2000: its sensitivity is D/n for any number."""
    monkeypatch.setattr(inductive, "STEPS", 100)


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


@pytest.fixture(scope="session")
def prefect_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new database of Prefect's, which takes 5 s to make: once for all processes."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # of the folders of all processes
    home = place / "prefect"
    with FileLock(place / "prefect.lock"):
        if not home.exists():
            making = place / "making"
            making.mkdir()
            with running_server(making):
                pass
            making.rename(home)
    return home / "prefect.db"


@contextmanager
def running_server(home: Path) -> Iterator[dict[str, str]]:
    """Run a server with its state in `home`, and give the variables that lead to it."""
    secret = "covdp:the secret of the suite"
    told = {"PREFECT_HOME": str(home), "PREFECT_SERVER_API_AUTH_STRING": secret}
    with start_attached("flows.guarded", environment=told, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert process.stdout.readline() == b"ready\n"
        address = f"http://127.0.0.1:{port}/api"
        yield {"PREFECT_API_URL": address, "PREFECT_API_AUTH_STRING": secret}


@pytest.fixture(scope="session")
def copy_prefect(prefect_database: Path) -> Callable[[Path], Path]:
    """Give a function that makes a Prefect folder, its database made already, and returns it."""

    def copy(folder: Path) -> Path:
        folder.mkdir(parents=True)
        with (
            closing(sqlite3.connect(prefect_database)) as source,
            closing(sqlite3.connect(folder / "prefect.db")) as target,
        ):
            source.backup(target)
        return folder

    return copy


@pytest.fixture(scope="session")
def prefect_server(
    copy_prefect: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """One server for the flows and the commands of a process; the variables that lead to it."""
    from prefect.settings import (
        PREFECT_API_AUTH_STRING,
        PREFECT_API_URL,
        temporary_settings,
    )

    with (
        running_server(copy_prefect(tmp_path_factory.mktemp("server") / "prefect")) as told,
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


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a command start a server of its own, whatever another test has used before."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("PREFECT_API_AUTH_STRING", raising=False)


@pytest.fixture
def prefect_home(copy_prefect: Callable[[Path], Path], own_server: None, tmp_path: Path) -> Path:
    """Return a Prefect folder whose database is made already, for a command with its own server."""
    return copy_prefect(tmp_path / "prefect")
