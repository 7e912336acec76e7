"""Flows: thin Prefect skins over `pipeline`, and the settings they run under.

    launch, launch_release, launch_describe   how the command line starts them
    experiments, release, describing          the flows; runners: where their tasks run
    quiet                                     what of a failure Prefect does not hear
    serve, deployed                           on a schedule; artifact: what a release leaves
    server, guarded, attached                 Prefect's server, for one process

Importing this package, before Prefect itself, makes it work offline and leave the user's own
Prefect alone: state lives in the project's cache unless PREFECT_HOME is set, is the owner's alone,
nothing is reported to anyone, and no result of a task is kept. Prefect never starts a server of its
own making: `flows.server` does.
"""

import os
from pathlib import Path

from pipeline.files import home, make_folder

SETTINGS = {
    "PREFECT_HOME": str(home() / "prefect"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_TASKS_DEFAULT_NO_CACHE": "true",
}
"""What covdp sets where the user has not."""

_place = Path(os.environ.get("PREFECT_HOME", SETTINGS["PREFECT_HOME"])).expanduser()
_ours = "PREFECT_HOME" not in os.environ or not _place.exists()
for _name, _value in SETTINGS.items():
    os.environ.setdefault(_name, _value)
make_folder(_place)  # the server does not make it itself
if _ours:
    _place.chmod(0o700)
