"""Signals are answered with one line, also while a release lets nothing reach standard error."""

import os
import signal
import subprocess
import sys

import pytest

WORK = """
import os, signal, sys
from pipeline.cli.signals import answered
from pipeline.publish.silence import silence
if "closed" in sys.argv:
    os.close(2)
with answered(), silence():
    os.write(2, b"what an image made a library say")
    os.kill(os.getpid(), signal.{name})
    import time; time.sleep(30)
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


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", -signal.SIGTERM)])
@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_signal_is_answered_in_silence(name: str, code: int, state: str) -> None:
    """One line on standard error, nothing else of it, the exit code of the signal."""
    command = [sys.executable, "-c", WORK.format(name=name), state]
    found = subprocess.run(command, capture_output=True, timeout=60, env=os.environ)
    assert found.returncode == code
    assert found.stdout == b""
    lines = found.stderr.splitlines()
    assert len(lines) == (state == "open")
    assert all(line.startswith(b"covdp: ") for line in lines)
