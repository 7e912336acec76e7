"""Starting releases from the command line: the doors first, then Prefect."""

import os
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from flows.launch import default_out
from flows.server import local_server
from pipeline.errors import ConfigError
from pipeline.files import make_folder
from pipeline.privacy.ledger import open_ledger
from pipeline.publish import ReleaseConfig, ledger_address, load_release


def run_release(
    config: Path, *, ledger: str | None, root: Path | None, out: Path | None, run_key: str | None
) -> dict[str, Path]:
    """Release once and return the paths of the Parquet file and of the report."""
    told, folder = _ready(config, ledger, out, run_key)
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    with Console().status("starting Prefect …"):
        from flows.release import release

    table = release(config.resolve(), folder, root and root.resolve(), told.run_key)
    return {"release": table, "report": table.with_suffix(".html")}


def serve_release(
    config: Path, *, ledger: str | None, root: Path | None, out: Path | None, cron: str
) -> None:
    """Release whenever `cron` says (UTC), until stopped; a run is named by its planned date."""
    told, folder = _ready(config, ledger, out, None)
    if told.run_key != f"{datetime.now(UTC):%Y-%m-%d}":
        raise ConfigError(
            f"{config} fixes run_key = {told.run_key!r}, so every night would give the first "
            "night's release again; leave run_key out of a config that is served"
        )
    parameters = {
        "config": str(config.resolve()),
        "out": str(folder),
        "root": str(root.resolve()) if root else None,
    }
    with local_server() as address:
        from prefect.client.schemas.schedules import CronSchedule

        from flows.release import release

        try:
            CronSchedule(cron=cron)
        except ValueError:
            fault = f"--cron takes cron's five fields, such as '0 2 * * *', found {cron!r}"
            raise ConfigError(fault) from None
        print(f"serving {told.name} at {cron!r} through {address}; stop with Ctrl-C")
        release.serve(name=told.name, cron=cron, parameters=parameters)


def _ready(
    config: Path, ledger: str | None, out: Path | None, run_key: str | None
) -> tuple[ReleaseConfig, Path]:
    """Check all that can be checked before Prefect starts, and settle where the ledger is."""
    told = load_release(config, run_key=run_key)
    if ledger is not None:
        os.environ["COVDP_LEDGER"] = ledger
    open_ledger(ledger_address())
    folder = make_folder(out or default_out(told.name)).resolve()
    return told, folder
