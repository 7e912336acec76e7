"""Signals are answered with one line, also while a release lets nothing reach standard error."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

WORK = """
import os, signal, sys, time
from pipeline.cli import answered
from pipeline.publish.redact import silence
for line in sys.stdin:
    name, state, folder = line.rstrip().split(";")
    child = os.fork()
    if not child:
        for number in (1, 2):
            os.dup2(os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY), number)
        if state == "closed":
            os.close(2)
        with answered(), silence():
            os.write(2, b"what an image made a library say")
            os.kill(os.getpid(), getattr(signal, name))
            time.sleep(30)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


IMPORT = """
import os, signal, sys

class Press:
    def find_spec(self, name, path, target=None):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Press())
from pipeline.cli import main
sys.exit(main(["datasets"]))
"""


def test_ctrl_c_is_answered_while_commands_are_imported() -> None:
    """The first second of a command is spent on imports: one line there as well."""
    found = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, timeout=60)
    assert (found.returncode, found.stdout) == (130, b"")
    assert found.stderr.splitlines() == [b"covdp: interrupted; the same command starts it again"]


PARENT = """
import os, time
from pipeline.parallel import workers
if __name__ == "__main__":
    with workers("processes") as unordered:
        print(*unordered(os.getpid, [()]), flush=True)
        time.sleep(60)
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
    psutil.wait_procs([child], timeout=20)
    assert not child.is_running()


@pytest.fixture(scope="module")
def signalled() -> Iterator[Callable[[str, str, Path], int]]:
    """Give what sends a signal to a process that reads in silence, and returns how it ended.

    All of them are children of one that has imported everything, once; they write into files.
    """
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WORK], **pipes) as process:

        def send(name: str, state: str, folder: Path) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            print(name, state, folder, sep=";", file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield send


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", -15)])
@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_signal_is_answered_in_silence(
    signalled: Callable[[str, str, Path], int], tmp_path: Path, name: str, code: int, state: str
) -> None:
    """One line on standard error, nothing else of it, the exit code of the signal."""
    assert signalled(name, state, tmp_path) == code
    assert (tmp_path / "1").read_bytes() == b""
    lines = (tmp_path / "2").read_bytes().splitlines()
    assert len(lines) == (state == "open")
    assert all(line.startswith(b"covdp: ") for line in lines)
