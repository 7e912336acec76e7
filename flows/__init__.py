"""Flows: the jobs of `covdp` under Prefect, for deployments and for whoever watches a run.

    experiment  experiments, a task a step, a class and series: the main job, and those on simulated
                records
    release     one private release, or one night of a stream, with an artifact; and local images
                against a release, which fails where they differ
    __main__    ``python -m flows``: experiments, with Prefect's own server if there is no other

The functions are those of `covdp.experiments.steps` and `covdp.jobs`, which `covdp` calls
without Prefect.

Importing this package before Prefect makes Prefect work offline and leave the user's own Prefect
alone: state lives in the project's cache unless PREFECT_HOME is set, is the owner's alone, nothing
is reported to anyone, and no result of a task is stored. PREFECT_API_URL names a Prefect server;
where it is not set, Prefect starts one for as long as the flow runs, which answers this process
alone.
"""

import os
import secrets
import sys
from pathlib import Path

from covdp.files import home, make_folder

SETTINGS = {
    "PREFECT_HOME": str(home() / "prefect"),
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "true",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",  # the first start makes its database
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",  # none is used
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_TASKS_DEFAULT_NO_CACHE": "true",
}
"""Settings of Prefect where the user has set none."""

if "prefect" not in sys.modules:  # else it has its settings
    _place = Path(os.environ.get("PREFECT_HOME", SETTINGS["PREFECT_HOME"])).expanduser()
    _own = "PREFECT_HOME" not in os.environ or not _place.exists()
    for _name, _value in SETTINGS.items():
        os.environ.setdefault(_name, _value)
    make_folder(_place)  # the server does not make it itself
    if _own:
        _place.chmod(0o700)
    if "PREFECT_API_URL" not in os.environ:
        _secret = f"covdp:{secrets.token_urlsafe(32)}"
        os.environ["PREFECT_API_AUTH_STRING"] = _secret
        os.environ["PREFECT_SERVER_API_AUTH_STRING"] = _secret
