"""Commands that fail in one line."""

import pytest

from covdp.cli import main


def fails(capsys: pytest.CaptureFixture[str], *tokens: str) -> str:
    """Run a command that must be refused and return its one line."""
    assert main(list(tokens)) == 2
    captured = capsys.readouterr()
    line = captured.err.strip()
    assert line.startswith("covdp: ")
    assert "\n" not in line
    assert "Traceback" not in line
    return line
