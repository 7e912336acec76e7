"""Where the ledger is: what COVDP_LEDGER says, else a file that cleaning up never removes."""

import os
from pathlib import Path

from pipeline.files import make_folder

VARIABLE = "COVDP_LEDGER"


def ledger_address(given: str | None = None) -> str | Path:
    """Return the address of the ledger: a path or a database URL.

    A URL may hold a password, so flows read it here, where it is used: it enters neither their
    parameters nor a log.
    """
    import platformdirs

    address = given or os.environ.get(VARIABLE)
    if address:
        return address
    return make_folder(platformdirs.user_data_path("covdp")) / "ledger.sqlite"
