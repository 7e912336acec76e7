"""Starting one release from the command line: the doors first, then Prefect."""

import os
from datetime import datetime
from pathlib import Path
from typing import cast

from flows.launch import aside, default_out, prefect
from pipeline.errors import BudgetError
from pipeline.files import make_folder
from pipeline.ledger import Charge, charge_of, open_ledger, rows_written
from pipeline.publish import (
    ReleaseConfig,
    check_account,
    check_folder,
    ledger_address,
    load_release,
)
from pipeline.store import find_place


def run_release(
    config: Path,
    *,
    ledger: str | None,
    root: Path | None,
    out: Path | None,
    run_key: str | None,
    store: str | None,
) -> tuple[dict[str, Path], Charge]:
    """Release once; return the paths of the Parquet file and of the report, and what it cost."""
    use_ledger(ledger)
    told, folder = check_release(config, out, run_key=run_key, store=store)
    place = store and find_place(store, out=folder).address
    before = rows_written(open_ledger(ledger_address()))
    with prefect() as ready:
        from flows.release import release

        ready()
        key = told.run_key
        made = aside(lambda: release(config.resolve(), folder, root and root.resolve(), key, place))
    table = cast(Path, made)  # only a run of a deployment is ever skipped
    document = table.with_suffix(".json").read_bytes()
    cost = charge_of(open_ledger(ledger_address()), document, before)
    return {"release": table, "report": table.with_suffix(".html")}, cost


def use_ledger(address: str | None) -> None:
    """Have releases of this process and of those it starts paid from `address`, if there is one.

    It may hold a password, so it goes by the environment.
    """
    if address is not None:
        os.environ["COVDP_LEDGER"] = address


def check_release(
    config: Path,
    out: Path | None,
    *,
    run_key: str | None = None,
    at: datetime | None = None,
    store: str | None = None,
) -> tuple[ReleaseConfig, Path]:
    """Check all that can be checked before images are read and before Prefect starts.

    Returns
    -------
    tuple
        The release and the folder it goes to, both usable.

    Raises
    ------
    BudgetError
        When the account cannot pay and holds no release of this run.
    CovdpError
        Whatever else stands against it.
    """
    told = load_release(config, run_key=run_key, at=at, opened=True)
    try:
        check_account(told, open_ledger(ledger_address()), planned=at is not None)
    except BudgetError as error:
        raise BudgetError(f"{config}: {error}") from error
    where = out or default_out(told.name)
    if store:  # refused before there is a folder
        find_place(store, out=where)
    folder = make_folder(where).resolve()
    check_folder(folder)
    return told, folder
