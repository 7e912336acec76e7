"""The suite about itself: what it needs is found, no skip is silent, and no clock judges."""

import ast
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.tools import components
from tests.tools.code import parsed
from tests.tools.patience import PATIENCE
from tests.tools.trace import Watcher

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
    driver = program(bare / "python")
    monkeypatch.setattr(sys, "executable", str(driver))
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
    driver.write_text("#!/bin/sh\nexit 1\n")
    assert find() is None


def test_playwrights_own_chromium_is_found(bare: Path) -> None:
    """Where no other browser is, the one that Playwright has downloaded is taken."""
    if not components.driver_starts():
        pytest.skip(components.NO_CHROMIUM)
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
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = components.home().relative_to(tmp_path)
    monkeypatch.setenv("COVDP_DATA", str(tmp_path / "named"))
    assert components.images(["a", "b"]) is None
    for folder in (cache, "shared/data", "named"):
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
    user = [1000]
    monkeypatch.setattr(os, "geteuid", lambda: user[0])
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
    user[0] = 0
    assert components.install(["chromium"]) == "E: no network"
    monkeypatch.setenv("COVDP_INSTALL", "0")
    assert "not installed by themselves" in components.install(["chromium"])


CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time", "times", "time_ns"}
CLOCKS |= {"monotonic_ns", "perf_counter_ns", "process_time_ns"}
PRODUCTS = {"open_ledger", "init_ledger", "replace"}
"""Functions whose timeout is a setting of the product, under test."""
LEAST = 60.0
"""Seconds that anything else is waited for, at least."""


def reads_a_clock(node: ast.AST) -> bool:
    """Tell whether an expression calls a clock of the module `time`, or `os.times`."""
    return any(
        isinstance(part, ast.Call)
        and isinstance(part.func, ast.Attribute)
        and part.func.attr in CLOCKS
        and isinstance(part.func.value, ast.Name)
        and part.func.value.id in ("time", "os")
        for part in ast.walk(node)
    )


def judged_clocks(function: ast.AST) -> Iterator[int]:
    """Yield the lines of a function that assert something of a clock, or of what is made of one."""
    made, before = set[str](), -1

    def is_made(node: ast.AST) -> bool:
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        return bool(names & made) or reads_a_clock(node)

    while len(made) > before:
        before = len(made)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if is_made(node.value):
                    made |= {x.id for y in targets for x in ast.walk(y) if isinstance(x, ast.Name)}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                grows = node.func.attr in ("append", "extend", "add")
                if grows and isinstance(owner, ast.Name) and any(map(is_made, node.args)):
                    made.add(owner.id)
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and is_made(node.test):
            yield node.lineno


def short_waits(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that wait for less than `LEAST`, but for what is to be refused by then."""
    refused = {
        id(part)
        for block in ast.walk(tree)
        if isinstance(block, ast.With) and any("raises" in ast.dump(x) for x in block.items)
        for part in ast.walk(block)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in refused:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        waits = [x.value for x in node.keywords if x.arg and "timeout" in x.arg]
        if name in ("wait", "join", "acquire", "set_default_timeout", "timeout"):
            waits += node.args[:1]
        seconds = [x.value for x in waits if isinstance(x, ast.Constant)]
        numbers = [x for x in seconds if isinstance(x, int | float) and not isinstance(x, bool)]
        if name not in PRODUCTS and any(x < LEAST for x in numbers):
            yield node.lineno


def test_no_test_judges_a_clock() -> None:
    """None asserts how long something took, and none gives up within a minute.

    Settings of the product that are under test may be short, and so may a wait that is to fail.
    Hypothesis has one profile without a deadline, and pytest one limit of a quarter of an hour.
    """
    faults = []
    for path in sorted(TESTS.rglob("*.py")):
        if path.is_relative_to(TESTS / "tools"):  # benchmarks measure; they judge nothing
            continue
        text, tree = path.read_text(encoding="utf-8"), parsed(path)
        functions = [x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef)]
        lines = {line for function in functions for line in judged_clocks(function)}
        lines |= set(short_waits(tree))
        faults += [f"{path.relative_to(TESTS)}:{line}" for line in sorted(lines)]
        if "deadline=" in text and path.name not in ("conftest.py", "test_suite.py"):
            faults.append(f"{path.relative_to(TESTS)}: a deadline of its own")
    assert faults == []
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check


def test_what_waits_is_patient(pytestconfig: pytest.Config) -> None:
    """A test that hangs fails by its own guard, a minute and more before pytest ends it."""
    assert LEAST < PATIENCE <= float(pytestconfig.getini("timeout")) - LEAST


JUDGES = """
def test_direct(): assert time.monotonic() - started < 2
def test_named():
    begun = time.process_time()
    taken = [time.process_time() - begun]
    assert min(taken) < 0.1
def test_listed():
    seconds = []
    seconds.append(time.perf_counter() - 1)
    assert max(seconds) < 3
def test_waits(): process.wait(15)
def test_asks(): urlopen(url, timeout=30)
def test_joins(): thread.join(timeout=5.0)
def test_marks(): pytest.mark.timeout(20)
"""
JUST = """
def test_counts():
    started = time.monotonic()
    assert count < 3
def test_waits(): process.wait(PATIENCE), event.wait(300), ", ".join(names), thread.join()
def test_product(): open_ledger(file, timeout=0.3)
def test_refused():
    with pytest.raises(OSError):
        Client(address, timeout=2)
"""


def test_judges_of_clocks_are_found() -> None:
    """Each line that judges a clock is named, and none that only reads one."""
    for text, count in ((JUDGES, 7), (JUST, 0)):
        tree = ast.parse(text)
        functions = [x for x in tree.body if isinstance(x, ast.FunctionDef)]
        found = [line for function in functions for line in judged_clocks(function)]
        assert len([*found, *short_waits(tree)]) == count


def test_the_quick_part_needs_nothing_beside_the_environment() -> None:
    """Its files exist, those of privacy among them; none asks for a server or a browser."""
    makefile = (TESTS.parent / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    (names,) = re.findall(r"^QUICK := \$\(addprefix tests/,(.*)\)$", makefile, flags=re.M)
    places = [TESTS / name for name in names.split()]
    files = [file for place in places for file in ([place] if place.suffix else place.glob("*.py"))]
    assert {"privacy", "geometry", "mechanisms", "mean"} <= set(names.split())
    assert len(files) > 30
    for file in files:
        needs = r"tools\.(?:postgres|components)|prefect|playwright|moto\b"
        assert not re.search(needs, file.read_text(encoding="utf-8")), file


def test_a_watcher_sees_calls_and_changes_none(watch: Watcher) -> None:
    """Arguments by name and results, also in a new thread; a generator once, what raises too."""

    def half(number: int) -> int:
        if number < 0:
            raise ValueError
        return number // 2

    def numbers(most: int) -> Iterator[int]:
        yield from range(most)

    assert half(2) == 1
    halves, made = watch(half), watch(numbers)
    thread = threading.Thread(target=half, args=(8,))
    thread.start()
    thread.join()
    with pytest.raises(ValueError, match=r"^$"):
        half(-1)
    assert half(6) == 3
    assert [(call.given["number"], call.result) for call in halves] == [(8, 4), (-1, None), (6, 3)]
    assert [*numbers(3)] == [0, 1, 2]
    assert [call.given["most"] for call in made] == [3]
