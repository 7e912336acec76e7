"""The suite about itself: what it needs is found, and nothing is skipped in silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import components

TESTS = Path(__file__).parent
SUITE = """
import pytest
from tests.tools.components import NO_CHROMIUM, NO_OFFICIAL

@pytest.fixture(scope="session")
def browser():
    pytest.skip(NO_CHROMIUM)

@pytest.mark.parametrize("number", [1, 2])
def test_page(browser, number): pass

def test_images(): pytest.skip(NO_OFFICIAL)

@pytest.mark.xfail(reason="known")
def test_known(): assert False

def test_sum(): assert 1 + 1 == 2
"""


@pytest.mark.parametrize(
    ("variables", "options", "code", "counts"),
    [
        ({}, ["-p", "xdist", "-n", "1"], 0, "1 passed, 3 skipped, 1 xfailed"),
        ({"CI": "true"}, [], 1, "1 passed, 1 skipped, 1 xfailed, 2 errors"),
        (
            {"CI": "true", "COVDP_DATA": "/nowhere"},
            [],
            1,
            "1 failed, 1 passed, 1 xfailed, 2 errors",
        ),
        ({"COVDP_REQUIRE_ALL": "1"}, [], 1, "1 failed, 1 passed, 1 xfailed, 2 errors"),
    ],
    ids=["anywhere", "ci", "ci-with-data", "all"],
)
def test_skips_are_said_last_or_fail(
    tmp_path: Path, variables: dict[str, str], options: list[str], code: int, counts: str
) -> None:
    """The last line counts skips and says the way out; where all must run they are failures."""
    (tmp_path / "test_it.py").write_text(SUITE)
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.tools.skips",
            "--rootdir",
            tmp_path,
            *options,
            tmp_path,
        ],
        env={**kept, "PYTHONPATH": str(TESTS.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        | variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert counts in done.stdout
    last = done.stdout.strip().splitlines()[-1]
    if not variables:
        assert last == (
            f"3 TESTS DID NOT RUN. 2: {components.NO_CHROMIUM}. 1: {components.NO_OFFICIAL}."
        )
    elif "skipped" in counts:
        assert last == f"1 TEST DID NOT RUN. 1: {components.NO_OFFICIAL}."
    else:
        assert "DID NOT RUN" not in done.stdout
        assert f"nothing may be skipped under {next(iter(variables))}" in done.stdout


def program(path: Path, text: str = "") -> Path:
    """Write a program that prints `text` and ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is all of PATH, on a machine without anything in its usual place."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    monkeypatch.delenv("CHROME", raising=False)
    monkeypatch.setattr(components, "CHROMIUM_PLACES", ("${APPS}/Chrome.app/chrome",))
    monkeypatch.setattr(components, "POSTGRES_PLACES", (f"{tmp_path}/lib/postgresql/*/bin",))
    monkeypatch.setenv("APPS", str(tmp_path / "apps"))
    return tmp_path


def test_any_chromium_is_found(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser is CHROME's, else one in PATH that starts, else one in its place.

    Without a driver that starts there is none; here one is made up, that of this machine may not.
    """
    find = components.chromium.__wrapped__
    monkeypatch.setattr(sys, "executable", str(program(bare / "python")))
    placed = program(bare / "apps/Chrome.app/chrome")
    assert find() == str(placed)
    for name in components.CHROMIUM_NAMES[::-1]:
        found = program(bare / "bin" / name)
        assert find() == str(found)
    found.write_text("#!/bin/sh\necho 'install the snap'\nexit 1\n")
    assert find() == str(bare / "bin" / components.CHROMIUM_NAMES[1])
    monkeypatch.setenv("CHROME", str(placed))
    assert find() == str(placed)
    monkeypatch.setenv("CHROME", "/no/browser")
    assert find() is None
    monkeypatch.delenv("CHROME")
    monkeypatch.setattr(sys, "executable", str(bare / "bin/a-python-whose-playwright-fails"))
    assert find() is None


def test_playwrights_own_chromium_is_found(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no other browser is, the one that Playwright has downloaded is taken."""
    if not components.driver_starts():
        pytest.skip(components.NO_CHROMIUM)
    monkeypatch.setattr(
        components, "driver_starts", lambda: True
    )  # it does: asked once, not thrice
    find = components.chromium.__wrapped__
    assert find() is None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = program(Path(playwright.chromium.executable_path))
    assert bare in own.parents
    assert find() == str(own)
    placed = program(bare / "apps/Chrome.app/chrome")
    assert find() == str(placed)


def test_any_postgres_is_found(bare: Path) -> None:
    """The server is the one in PATH, else pg_config's, else the newest in the usual places."""
    find = components.postgres_programs.__wrapped__

    def server(folder: Path) -> Path:
        return program(program(folder / "initdb").with_name("postgres")).parent

    assert find() is None
    program(bare / "lib/postgresql/17/bin/initdb")  # a client's folder, without a server
    for version in ("9.6", "16"):
        newest = server(bare / f"lib/postgresql/{version}/bin")
        assert find() == newest
    configured = server(bare / "opt/bin")
    program(bare / "bin/pg_config", str(configured))
    assert find() == configured
    assert find() != server(bare / "bin")
    assert find() == bare / "bin"


def test_images_are_found_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real images are COVDP_DATA's, else beside the checkout, else the cache's, when complete."""
    monkeypatch.setattr(components, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(components, "home", lambda: tmp_path / "cache")
    monkeypatch.setenv("COVDP_DATA", str(tmp_path / "named"))
    assert components.images(["a", "b"]) is None
    for folder in ("cache", "shared/data", "named"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a").touch()
        assert components.images(["a", "b"]) != tmp_path / folder
        (tmp_path / folder / "b").touch()
        assert components.images(["a", "b"]) == tmp_path / folder


def test_debian_packages_are_installed_only_with_the_right(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apt-get runs as root or through a sudo that asks nothing; else the reason comes back."""
    calls = bare / "calls"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "not installed by themselves" in components.install(["chromium"])
    program(bare / "bin/apt-get").write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    program(bare / "bin/env").write_text('#!/bin/sh\nshift; exec "$@"\n')
    assert components.install(["chromium"]) == "installing them needs root"
    program(bare / "bin/true")
    sudo = program(bare / "bin/sudo")
    sudo.write_text("#!/bin/sh\nexit 1\n")
    assert components.install(["chromium"]) == "installing them needs root"
    assert not calls.exists()
    sudo.write_text('#!/bin/sh\n[ "$1" = -n ] && shift && exec "$@"\n')
    assert components.install(["chromium", "postgresql"]) == ""
    update, install = calls.read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith("install --yes --no-install-recommends chromium postgresql")
    program(bare / "bin/apt-get").write_text("#!/bin/sh\necho 'E: no network' >&2\nexit 100\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert components.install(["chromium"]) == "E: no network"
    monkeypatch.setenv("COVDP_INSTALL", "0")
    assert "not installed by themselves" in components.install(["chromium"])
