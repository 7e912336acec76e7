"""Classes that jobs of tests name: a server that keeps what it saw, and hospitals with a fault."""

import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covdp.addons.partners.join.engine import Participant, Relay
from covdp.addons.partners.join.site import Exchange
from tests.tools.patience import PATIENCE

FOLDER = "COVDP_TEST_JOIN"
"""Variable of the environment: folder of what the server saw, and of the next fault."""
SECRET = "patient 4711"
"""Words of a failure that may not leave a hospital."""


class Witness(Relay):
    """A server that keeps what it is told."""

    patience = 15.0

    def start_controller(self, fl_ctx: Any) -> None:
        """Begin to hear; sites that a busy machine starts late are waited for."""
        super().start_controller(fl_ctx)
        self.heard = dict.fromkeys(self.hospitals, time.monotonic() + PATIENCE)

    def silent(self) -> list[str]:
        """Have the deadline pass once all others wait for a hospital that hangs."""
        if len(self.said) == len(self.hospitals) - 1 and Path(os.environ[FOLDER], "hung").exists():
            self.deadline = 0.0
        return super().silent()

    def hear(self, topic: str, request: Mapping[str, Any], fl_ctx: Any) -> Any:
        """Keep a message, and answer it."""
        reply = super().hear(topic, request, fl_ctx)
        if "kind" in request:
            name = fl_ctx.get_peer_context().get_identity_name()
            row = [name, request["kind"], request["content"].hex()]
            path = Path(os.environ[FOLDER], f"{fl_ctx.get_job_id()}.jsonl")
            with path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")
        return reply


class Worker(Participant):
    """A hospital that fails where the file `fault` says, once."""

    def take_part(self, study: str, name: str, exchange: Exchange) -> Path:
        """Take part, or fail before it."""
        fail_once(name, "start")
        return super().take_part(study, name, Breaking(exchange, name))


@dataclass
class Breaking:
    """A line that breaks before a turn."""

    line: Exchange
    name: str

    def __call__(self, kind: str, content: bytes) -> Any:
        """Return what all say, or break."""
        fail_once(self.name, kind)
        return self.line(kind, content)


def fail_once(name: str, kind: str) -> None:
    """Fail as code does, hang, or kill this site with all its processes, where it is asked for."""
    path = Path(os.environ[FOLDER], "fault")
    fault = path.read_text() if path.exists() else ""
    if fault.split(maxsplit=2)[1:] == [name, kind]:
        path.unlink()
        if fault.startswith("fail"):
            raise KeyError(SECRET)
        if fault.startswith("hang"):
            path.with_name("hung").touch()
            threading.Event().wait()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
