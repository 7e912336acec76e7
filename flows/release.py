"""The release flow: one private release of one population, safe to kill and to start again.

    settle (pay, draw, commit) ─► publish (Parquet and page from the committed bytes)

`settle` draws noise: Prefect never retries or caches it. It needs no retry: started again with the
same run key it finds its charge, and draws under it or gets the stored result. The key of a
scheduled run is the date it was planned for, however late it starts. A night of a stream is paid
already; one before it that was killed is finished, and published, first. `publish` only writes
files from committed bytes, so it may be retried; an artifact says what is in them. Parameters are
public: the path of a config, folders, a run key. The ledger's address may hold a password and is no
parameter: it comes from COVDP_LEDGER. Prefect keeps what a task raises, so no word of a file that
is named as a config is in it.
"""

import shutil
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.artifact import leave_artifact
from flows.deployed import overtaken
from pipeline.errors import ConfigError, CovdpError
from pipeline.files import atomic_path
from pipeline.ledger import open_ledger
from pipeline.publish import (
    ReleaseConfig,
    check_folder,
    ledger_address,
    load_release,
    read_document,
    settle,
    settle_night,
    unfinished_night,
    write_document,
    write_parquet,
)
from pipeline.report import build_release_report
from pipeline.store import find_place


@task(name="settle", retries=0, cache_policy=NO_CACHE, persist_result=False)
def settle_release(
    config: Path, out: Path, root: Path | None, run_key: str | None, store: str | None = None
) -> Path:
    """Pay, draw, commit, and write the committed bytes; return the path of the document."""
    told = _load(config, run_key)
    place = None if store is None else find_place(store, out=out)
    check_folder(out)
    work = settle if told.stream is None else settle_night
    return write_document(work(told, open_ledger(ledger_address()), root, place), out)


@task(name="publish", retries=2, retry_delay_seconds=[2, 10], persist_result=False)
def publish(document: Path, out: Path) -> Path:
    """Write the table and the page of a committed document; return the path of the table.

    ``OUT/report.html`` is the page of the latest release; each keeps its own beside its table.
    """
    released = read_document(document)
    page = build_release_report(released, document.with_suffix(".html"))
    with atomic_path(out / "report.html") as latest:
        shutil.copyfile(page, latest)
    return write_parquet(released, document.with_suffix(".parquet"))


@flow(name="release", retries=0, persist_result=False)
def release(
    config: Path,
    out: Path,
    root: Path | None = None,
    run_key: str | None = None,
    store: str | None = None,
) -> Path | State[Path]:
    """Release once under a run key and return the path of the Parquet file.

    A run that a later one of its deployment has overtaken is skipped, and its state says so.
    """
    if reason := overtaken():
        get_run_logger().warning(reason)
        return Completed(name="Skipped", message=reason)
    table = out
    for key in _run_keys(config, run_key):
        document = settle_release(config, out, root, key, store)
        table = publish(document, out)
        leave_artifact(document)
    return Path(table)


def _run_keys(config: Path, run_key: str | None) -> list[str]:
    """Return what is to be released, in order: a night that was not finished, then tonight."""
    told = _load(config, run_key)
    before = unfinished_night(told, open_ledger(ledger_address()))
    return [key for key in (before, told.run_key) if key is not None]


def _load(config: Path, run_key: str | None) -> ReleaseConfig:
    """Return the release that `config` tells; what is wrong with the file is not said here."""
    try:
        at = flow_run.scheduled_start_time
        return load_release(config, run_key=run_key, at=at, opened=True)
    except CovdpError:
        pass
    raise ConfigError(
        f"{config} cannot be released from; Prefect keeps these words, so why is withheld, and "
        f"`covdp release --config {config}` says it on the machine where the file is"
    )
