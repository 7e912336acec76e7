"""Tests of a broken copy, run in a fork of a process that has imported what is not ours.

Half the time of a short test goes by until Prefect, SciPy and their like are imported.
"""

import os
import signal
import sys
import tempfile
import threading
from multiprocessing import get_context, parent_process
from pathlib import Path

OURS = {"covdp", "flows", "tests"}
FORKS = get_context("forkserver")


def prepare(home: Path) -> None:
    """Have the process that is forked import all that is not ours, with Prefect's state in `home`.

    Without this it imports nothing, and each fork all that it needs.
    """
    os.environ["PREFECT_HOME"] = str(home)
    FORKS.set_forkserver_preload(["tests.tools.mutants.preload"])


def run_forked(
    options: list[str], root: Path, told: dict[str, str], limit: float
) -> tuple[int, str]:
    """Run pytest in the folder `root`; return its exit code, -1 for too late, and its words."""
    with tempfile.TemporaryDirectory() as place:
        job = FORKS.Process(target=_pytest, args=(options, root, told, place))
        job.start()
        job.join(limit)
        if job.is_alive():
            assert job.pid is not None
            os.killpg(job.pid, signal.SIGKILL)
            job.join()
            return -1, ""
        words, code = Path(place, "words"), Path(place, "code")
        # multiprocessing may lose an exit code when several threads start processes
        ended = int(code.read_text()) if code.exists() else 128
        return ended, words.read_text(encoding="utf-8", errors="replace")


def _pytest(options: list[str], root: Path, told: dict[str, str], place: str) -> None:
    """Be what ``python -m pytest`` is in `root`, its words and its exit code written to `place`."""
    os.setsid()
    threading.Thread(target=_end_with_starter, daemon=True).start()
    words = os.open(Path(place, "words"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(words, 1)
    os.dup2(words, 2)
    os.chdir(root)
    os.environ |= told
    sys.argv, sys.dont_write_bytecode = ["pytest", *options], False
    here = str(Path(__file__).parents[3])
    sys.path = [str(root), *(path for path in sys.path if path not in ("", here))]
    for name in list(sys.modules):
        if name.partition(".")[0] in OURS:
            del sys.modules[name]
    if "numba" in sys.modules:
        sys.modules["numba"].config.reload_config()  # where machine code is kept
    import pytest

    code = pytest.main(options)
    Path(place, "code").write_text(str(int(code)))


def _end_with_starter() -> None:
    """Wait until the process that asked for the fork is gone, then end with all that was begun."""
    starter = parent_process()
    assert starter is not None
    starter.join()
    os.killpg(0, signal.SIGKILL)
