"""Signals are answered with one line, also while a release lets nothing reach standard error."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from covdp.cli import run_in_thread
from covdp.publish.redact import silence
from tests.tools.children import in_child
from tests.tools.patience import PATIENCE

IMPORT = """
import os, signal, sys

class Press:
    def find_spec(self, name, path, target=None):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
from covdp.cli import main
sys.exit(main())
"""
AGAIN = "covdp: interrupted; the same command starts it again"


@pytest.mark.parametrize(
    ("command", "more"),
    [("datasets", ""), ("release", "; a release that was paid costs nothing under its run key")],
)
def test_ctrl_c_is_answered_while_commands_are_imported(command: str, more: str) -> None:
    """The first second of a command is spent on imports: one line there as well."""
    tokens = [sys.executable, "-c", IMPORT, command]
    found = subprocess.run(tokens, capture_output=True, timeout=PATIENCE, encoding="utf-8")
    assert (found.returncode, found.stdout) == (130, "")
    assert found.stderr.splitlines() == [AGAIN + more]


PARENT = """
import os, time
from covdp.parallel import workers
if __name__ == "__main__":
    with workers("processes") as unordered:
        print(*unordered(os.getpid, [()]), flush=True)
        time.sleep(600)
"""


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """Kill -9 leaves nothing: a process of ours waits for work no longer than who gives it.

    Nothing is said, of the semaphores that they shared neither: Python's tracker, the last of all,
    has standard error until it has removed them.
    """
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    env = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, script], env=env, **pipes) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.pid != parent.pid
        parent.kill()
        assert parent.stderr.read() == b""
    psutil.wait_procs([child], timeout=PATIENCE)
    assert not child.is_running()


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", -15)])
@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_signal_is_answered_in_silence(tmp_path: Path, name: str, code: int, state: str) -> None:
    """One line on standard error, nothing else of it, the exit code of the signal."""

    def read_in_silence() -> None:
        for number in (1, 2):
            os.dup2(os.open(tmp_path / str(number), os.O_CREAT | os.O_WRONLY), number)
        if state == "closed":
            os.close(2)
        run_in_thread(work)

    def work() -> None:
        with silence():
            os.write(2, b"what an image made a library say")
            os.kill(os.getpid(), getattr(signal, name))
            time.sleep(PATIENCE)

    assert in_child(read_in_silence) == code
    assert (tmp_path / "1").read_bytes() == b""
    lines = (tmp_path / "2").read_bytes().splitlines()
    assert len(lines) == (state == "open")
    assert all(line.startswith(b"covdp: ") for line in lines)
