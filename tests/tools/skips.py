"""A skipped test is said in the last line, or is a failure where nothing may be skipped.

Nothing may be skipped with COVDP_REQUIRE_ALL=1. Under CI the same holds, but for tests on real
images when COVDP_DATA names no folder of them, which are not the project's to give, and for golden
digests on a processor that rounds otherwise.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.tools.components import NO_IMAGES
from tests.tools.golden import OTHER_ROUNDING

OFF = {"", "0", "false", "no"}


def required(reason: str) -> str:
    """Return the variable that forbids a skip for this reason, or nothing."""
    if os.environ.get("COVDP_REQUIRE_ALL", "").lower() not in OFF:
        return "COVDP_REQUIRE_ALL"
    if os.environ.get("CI", "").lower() in OFF:
        return ""
    without = NO_IMAGES in reason and not os.environ.get("COVDP_DATA")
    return "" if without or OTHER_ROUNDING in reason else "CI"


def _strict(report: Any) -> Any:
    """Turn a skip into a failure where it is forbidden; expected failures stay as they are."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = _reason(report)
        if rule := required(reason):
            report.outcome = "failed"
            report.longrepr = f"nothing may be skipped under {rule}: {reason}"
    return report


def _reason(report: Any) -> str:
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(told).removeprefix("Skipped: ")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """Forbid skips of tests."""
    return _strict((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Iterator[None]:
    """Forbid skips of whole files."""
    return _strict((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Print, after pytest's own last line, how many tests did not run, why, and the way out."""
    result = yield
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = terminal.stats.get("skipped", []) if terminal else []
    if skipped and not hasattr(session.config, "workerinput"):
        reasons = Counter(map(_reason, skipped))
        said = ". ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
        tests = "1 TEST" if len(skipped) == 1 else f"{len(skipped)} TESTS"
        terminal.write_line(f"{tests} DID NOT RUN. {said}.", red=True, bold=True)
    return result
