"""Every command on a terminal: bars turn there, and no other test would see what they break."""
# ruff: noqa: F811  (fixtures that are imported)

from pathlib import Path

import pytest

from tests.cli.wards import (
    ARGUMENTS,
    BARS,
    by_dask,
    on_terminal,
    prepare,
    ward,  # noqa: F401  (fixtures)
)
from tests.tools.leaves import LEAVES

pytestmark = pytest.mark.usefixtures("noise_in_doubles")


@pytest.mark.addons
def test_every_command_has_its_line() -> None:
    """The table above names the commands that there are."""
    assert set(ARGUMENTS) == {" ".join(tokens) for tokens in LEAVES}


@pytest.mark.addons
@pytest.mark.parametrize("tokens", LEAVES, ids=" ".join)
def test_every_command_works_on_a_terminal(
    ward: Path, monkeypatch: pytest.MonkeyPatch, tokens: list[str]
) -> None:
    """Exit code 0, no traceback, and its bars are shown."""
    name = " ".join(tokens)
    prepare(monkeypatch, name)
    found = on_terminal(monkeypatch, *tokens, *ARGUMENTS[name].split())
    assert found.code == 0, found.text
    assert "Traceback" not in found.text
    assert all(bar in found.text for bar in BARS.get(name, ())), found.text


@pytest.mark.slow
def test_describing_by_dask_works_on_a_terminal(
    ward: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker is sent each task, and no bar with it; of a run `test_jobs.py` tests the same."""
    by_dask(monkeypatch, "describe", ARGUMENTS["describe"])


def test_checking_turns_as_well(ward: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar of `describe --check` is shown."""
    arguments = ARGUMENTS["describe"].split()
    found = on_terminal(monkeypatch, "describe", *arguments, "--check")
    assert found.code == 0, found.text
    assert "checking" in found.text
    assert "all files can be used" in found.text
