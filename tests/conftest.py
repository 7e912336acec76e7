"""Factories and places that several tests share; no data."""

import flows  # noqa: F401  (its settings come before Prefect)

# isort: split
from collections.abc import Iterator
from pathlib import Path

import prefect.main  # noqa: F401  (see below)
import pytest
from remembered import FOLLOWS, remembered

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


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Have a real server of Prefect's, with a database of its own, for the flows of a process."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield
