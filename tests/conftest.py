"""Factories and places that several tests share; no data."""

import flows  # noqa: F401  (its settings come before Prefect)

# isort: split
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import prefect.main  # noqa: F401  (see below)
import pytest
from components import NO_OFFICIAL, NO_SAMPLES, NO_VOLUMES, SAMPLES, VOLUMES, images
from skips import (  # noqa: F401  (hooks)
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
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One Prefect test server for all tests of a process, with its state in a temporary folder."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield


@pytest.fixture(scope="session")
def copy_prefect(prefect_server: None) -> Callable[[Path], Path]:
    """Give a function that makes a Prefect folder, its database made already, and returns it."""
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL

    made = PREFECT_SERVER_DATABASE_CONNECTION_URL.value().removeprefix("sqlite+aiosqlite:///")

    def copy(folder: Path) -> Path:
        folder.mkdir(parents=True)
        with (
            closing(sqlite3.connect(made)) as source,
            closing(sqlite3.connect(folder / "prefect.db")) as target,
        ):
            source.backup(target)
        return folder

    return copy


@pytest.fixture
def prefect_home(copy_prefect: Callable[[Path], Path], tmp_path: Path) -> Path:
    """Return a Prefect folder whose database is made already, for a command with its own server."""
    return copy_prefect(tmp_path / "prefect")
