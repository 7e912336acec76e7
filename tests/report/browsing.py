"""Pages in a browser."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sample_runs import write_sample

from covdp.report import build_report
from tests.tools.components import NO_CHROMIUM, chromium
from tests.tools.patience import PATIENCE

HIGHEST = 6000
"""Pixels of a page, 1,280 wide, that somebody reads to its end."""
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of two runs, one with long names and a class called like markup."""
    out = tmp_path_factory.mktemp("browser")
    write_sample(out)
    names = ("<script>alert(1)</script>", "cancer-associated stroma of a long name", "c", "d")
    write_sample(out, dataset="again", names=names)
    return build_report(out)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start one headless Chromium for the file."""
    from playwright.sync_api import sync_playwright

    path = chromium() or pytest.skip(NO_CHROMIUM)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path, args=SWITCHES, timeout=1000 * PATIENCE
        )
        yield started
        started.close()


Showing = Callable[[Path, Mapping[str, Any]], tuple[Any, list[str], list[str]]]
AS_LOADED = """() => {
  for (const one of document.querySelectorAll("details[open]")) one.open = false;
  for (const form of document.forms) {
    const changed = [...form.elements].some(box => box.checked !== box.defaultChecked);
    form.reset();
    if (changed) form.dispatchEvent(new Event("change"));
  }
  history.replaceState(null, "", location.pathname);
  document.querySelector(".skip").focus();
  document.activeElement.blur();
  scrollTo(0, 0);
}"""
"""Puts a page back as it was when it was loaded, but that its charts stay drawn."""


@pytest.fixture(scope="module")
def show(browser: Any) -> Iterator[Showing]:
    """Give a function that shows a file in the one window, as options of a context say.

    To open a window takes longer than to load a file. A file is loaded again unless it was shown
    last, with equal options. Returned are the page, what it complained of, and what it asked for.
    """
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(1000 * PATIENCE)
    page, faults, requests = context.new_page(), list[str](), list[str]()
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda item: requests.append(item.url))
    settings, shown = context.new_cdp_session(page), list[Any]()

    def show_in_window(path: Path, options: Mapping[str, Any]) -> tuple[Any, list[str], list[str]]:
        if shown != [path, options]:
            plain = not options.get("java_script_enabled", True)
            settings.send("Emulation.setScriptExecutionDisabled", {"value": plain})
            page.set_viewport_size(options.get("viewport", DESKTOP))
            page.emulate_media(color_scheme=options.get("color_scheme", "light"))
            faults.clear()
            requests.clear()
            page.goto(path.as_uri(), wait_until="load")
            shown[:] = path, options
        return page, faults, requests

    yield show_in_window
    context.close()


@pytest.fixture
def opened(show: Showing, report: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Show the report with the given options; afterwards: no error, no request but the file."""
    page, faults, requests = show(report, getattr(request, "param", {}))
    yield page
    page.evaluate(AS_LOADED)
    called = [url for url in requests if not url.startswith(("data:", "blob:"))]
    assert faults == []
    assert called == [report.as_uri()]


def draw_all(page: Any) -> int:
    """Open all folded parts, scroll to every chart until it is interactive; return how many."""
    page.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = true")
    charts = page.locator("figure.chart")
    for index in range(charts.count()):
        charts.nth(index).scroll_into_view_if_needed()
        page.wait_for_function(
            "i => document.querySelectorAll('figure.chart')[i].dataset.state === 'live'",
            arg=index,
        )
    return int(charts.count())


def overflow(page: Any) -> int:
    """Return by how many pixels the page is wider than the screen."""
    return int(
        page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    )


def parts(page: Any) -> list[str]:
    """Return the ids that the bar's list of this page leads to, in order."""
    links = page.locator(".bar .menu a[href^='#']")
    return [str(link)[1:] for link in links.evaluate_all("all => all.map(a => a.hash)")]


DESKTOP = {"width": 1280, "height": 720}
PHONE = {"viewport": {"width": 390, "height": 844}}
DARK = {"color_scheme": "dark"}
