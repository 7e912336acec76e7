"""Processes of tests that are killed at a step."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any


def in_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked process; return its exit code, minus the signal that ended it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at(step: int) -> None:
    """Arrange for this process to be killed, by kill -9, right before a statement or a commit."""
    from sqlalchemy import Engine, event

    left = step

    def count(*_: Any) -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)
