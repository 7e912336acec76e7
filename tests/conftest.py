"""Factories and places that several tests share; no data."""

import asyncio
import json
import os
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from tests.tools.components import NO_OFFICIAL, NO_SAMPLES, NO_VOLUMES, SAMPLES, VOLUMES, images
from tests.tools.once import (  # noqa: F401  (hooks)
    pytest_collection,
    pytest_collection_modifyitems,
)
from tests.tools.patience import PATIENCE
from tests.tools.skips import (  # noqa: F401  (hooks)
    pytest_make_collect_report,
    pytest_runtest_makereport,
    pytest_sessionfinish,
)
from tests.tools.trace import Watcher, profiled

settings.register_profile(
    "suite", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")
"""No property is judged by the time that it takes, here or under CI's own profile."""

# workers of Dask that a busy machine starts late are waited for
os.environ.setdefault("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", f"{PATIENCE:.0f}s")

# temporary folders in memory, 130 MB at most, spare a twelfth of the time
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2**30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


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
def watch() -> Iterator[Watcher]:
    """Watch functions: ``watch(function)`` returns its calls from then on, as they come."""
    watcher = Watcher()
    with profiled(watcher.see):
        yield watcher


@pytest.fixture
def shard_images(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what sets how many images a shard of a store has at most."""
    from covdp.store import plan

    def at_most(images: int) -> None:
        monkeypatch.setattr(plan, "SHARD_IMAGES", images)

    return at_most


class DoubleNoise:
    """Gaussian noise in doubles, with what OpenDP certifies on its finest lattice."""

    def __init__(self, finest: Callable[[int, float], Any], dim: int, sigma: float) -> None:
        self.sigma, self.map = sigma, finest(dim, sigma).map

    def __call__(self, values: list[float]) -> np.ndarray:
        """Return the values with noise, of new entropy of the system."""
        return values + self.sigma * np.random.default_rng().standard_normal(len(values))


@pytest.fixture(scope="module")
def noise_in_doubles() -> Iterator[None]:
    """Have releases draw their noise in doubles, which takes hardly any time.

    For tests that ask what becomes of noised numbers, not how they were noised: half of what a
    release does is to draw integers of a thousand bits. The law is the same but for the last bits.
    What noise is, `test_guards.py` and `test_noise_laws.py` ask of OpenDP's lattice itself.
    """
    from covdp.mechanisms import noise  # here: the process that hands out tests needs none of it

    in_doubles = lru_cache(maxsize=64)(partial(DoubleNoise, noise._measurement))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "_measurement", in_doubles)
        yield


PICTURES: dict[tuple[str, ...], Any] = {}
"""Pictures of charts, by all that Vega is given."""


@pytest.fixture
def pictures_once(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], Any]:
    """Have Vega draw equal charts once in a process; whoever clears what it gets has it draw anew.

    Half of the time of a page is Vega's, and many tests make the page of the same sample.
    """
    from covdp.figures import style

    convert = style._convert

    def recall(spec: Mapping[str, Any], kind: str, **options: Any) -> Any:
        given = json.dumps(spec), kind, json.dumps(options, sort_keys=True)
        if given not in PICTURES:
            PICTURES[given] = convert(spec, kind, **options)
        return PICTURES[given]

    monkeypatch.setattr(style, "_convert", recall)
    return PICTURES


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
def prefect_imported() -> None:
    """Import Prefect, before a test has its own stderr.

    Prefect configures logging when it is first imported, which shuts the handlers that exist;
    absl's, which comes with dp_accounting, would then close the stream that is in place of stderr.
    """
    import covdp.flows  # noqa: F401  (its settings come before Prefect)

    # isort: split
    import prefect.main  # noqa: F401


async def _make_tables(database: Any) -> None:
    """Make all tables of Prefect's in an empty database; some indexes are declared twice."""
    from prefect.server.database.alembic_commands import alembic_stamp
    from prefect.utilities.asyncutils import run_sync_in_worker_thread

    for table in database.Base.metadata.tables.values():
        table.indexes = set({index.name: index for index in table.indexes}.values())
    engine = await database.engine()
    async with engine.begin() as connection:
        await connection.run_sync(database.Base.metadata.create_all)
    await run_sync_in_worker_thread(alembic_stamp, "heads")


@pytest.fixture(scope="session")
def prefect_database(prefect_imported: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty database of Prefect's server, to be copied; all processes make it once.

    Its tables are made as Prefect has them now, not by all that it has made of them since its first
    version: that takes ten seconds.
    """
    from prefect.server.database.dependencies import (
        provide_database_interface,
        temporary_database_interface,
    )
    from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings

    own = tmp_path_factory.getbasetemp()
    path = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "prefect.db"
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            unfinished = path.with_suffix(".part")
            address = {PREFECT_SERVER_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{unfinished}"}
            with temporary_database_interface(), temporary_settings(address):
                asyncio.run(_make_tables(provide_database_interface()))
            unfinished.rename(path)
    return path


@contextmanager
def in_a_thread(app: Any) -> Iterator[str]:
    """Serve an application from a thread of this process, and give its address."""
    import uvicorn

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = threading.Thread(target=copy_context().run, args=(server.run, [listening]))
        serving.start()
        while not server.started and serving.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        serving.join()


@pytest.fixture(scope="module")
def prefect_server(
    prefect_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Have a real server of Prefect's, with a database of its own, for the flows of a file.

    It ends with them: it works while nobody asks it, too.
    """
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker
    from prefect.server.api.server import create_app
    from prefect.server.database.dependencies import temporary_database_interface
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_SERVER_DATABASE_CONNECTION_URL,
        temporary_settings,
    )

    database = shutil.copy(prefect_database, tmp_path_factory.mktemp("prefect"))
    settings = {
        PREFECT_SERVER_DATABASE_CONNECTION_URL: f"sqlite+aiosqlite:///{database}",
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,  # with heartbeats a flow ends up to a second later
    }
    with pytest.MonkeyPatch.context() as patch:
        # every client of a flow or task would read all certificates, for a server without any
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        with (
            temporary_database_interface(),
            temporary_settings(settings),
            in_a_thread(create_app(ephemeral=True)) as url,
            temporary_settings({PREFECT_API_URL: f"{url}/api"}),
        ):
            yield
            APILogWorker.instance().drain()
            EventsWorker.drain_all()
