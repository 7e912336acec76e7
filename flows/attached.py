"""A process that ends when the one that started it does, in whatever way that ends.

Its standard input is a pipe from the one that started it. Nothing is ever written to it: the system
closes it when that process returns, fails or is killed, and reading it then comes to its end.
``python -m flows.attached release …`` is `covdp release …` under this rule.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

FAREWELL = 2.0
"""Seconds between the end of the pipe and the end of the process."""


def start_attached(
    module: str, *arguments: str, environment: Mapping[str, str], **pipes: Any
) -> "subprocess.Popen[bytes]":
    """Start `module`, which calls `end_with_parent`, with `environment` added to this one's.

    It has a session of its own: a terminal's Ctrl-C is for this process.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, **environment},
        start_new_session=True,
        **{"stdin": subprocess.PIPE, **pipes},
    )


def end_with_parent(ending: Callable[[], object] = lambda: os._exit(0)) -> None:
    """Watch standard input; at its end call `ending`, then end this process if it still is there.

    A thread watches, and it never holds up a process that ends by itself.
    """

    def watch() -> None:
        while os.read(0, 4096):
            pass
        ending()
        time.sleep(FAREWELL)
        os._exit(0)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()


def main() -> int:
    """Run `covdp` attached."""
    end_with_parent()
    from pipeline.cli import main as covdp

    return covdp(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
