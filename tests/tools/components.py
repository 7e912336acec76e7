"""What the tests need beside Python packages: a Chromium, a PostgreSQL server, real images.

``python -m tests.tools.components``, which ``make test`` runs first, gets what is missing: on
Debian and its relatives the packages, as root or through a sudo that asks nothing (never with
COVDP_INSTALL=0), and the official image files, if there is a network. What is then still missing is
skipped, and the last line of the suite says so.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from covdp.errors import CovdpError
from covdp.files import home
from tests.tools.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"chromium": ("chromium", "libatomic1"), "postgresql": ("postgresql",)}
"""Debian's; Playwright's driver needs the library, which a small Debian has not."""
CHROMIUM_NAMES = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
)  # fmt: skip
CHROMIUM_PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "~/Applications/Chromium.app/Contents/MacOS/Chromium",
    "~/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "${PROGRAMFILES}/Google/Chrome/Application/chrome.exe",
    "${PROGRAMFILES(X86)}/Google/Chrome/Application/chrome.exe",
    "${LOCALAPPDATA}/Google/Chrome/Application/chrome.exe",
    "${LOCALAPPDATA}/Chromium/Application/chrome.exe",
)
POSTGRES_PLACES = (
    "/usr/lib/postgresql/*/bin",  # Debian
    "/usr/pgsql-*/bin",  # PostgreSQL's own packages for Fedora and the like
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
OFFICIAL = ("pneumoniamnist.npz", "breastmnist.npz")
SAMPLES = (
    "pathmnist_subset.npz", "pathmnist_64_subset.npz", "oct2017_28_subset.npz",
    "oct2017_manifest.csv", "oct2017_jpeg",
)  # fmt: skip
VOLUMES = ("adrenalmnist3d.npz", "adrenalmnist3d_64.npz")

NO_CHROMIUM = (
    "no Chromium that Playwright can drive: apt-get install chromium libatomic1, or "
    "python -m playwright install chromium, or name one in CHROME"
)
NO_POSTGRES = "no PostgreSQL server: apt-get install postgresql, or brew install postgresql"
NO_IMAGES = "no real images: "
NO_OFFICIAL = (
    f"{NO_IMAGES}python -m tests.tools.components downloads {' and '.join(OFFICIAL)}, "
    "or name their folder in COVDP_DATA"
)
NO_SAMPLES = (
    f"{NO_IMAGES}the samples of PathMNIST and OCT2017 are no official files and not downloaded; "
    "name their folder in COVDP_DATA"
)
NO_VOLUMES = f"{NO_IMAGES}name a folder with {' and '.join(VOLUMES)} in COVDP_DATA"


@functools.cache
def chromium() -> str | None:
    """Return a Chromium or Chrome: CHROME's, one in PATH, in its usual place, or Playwright's."""
    if not driver_starts():
        return None
    named = os.environ.get("CHROME")
    if named:
        return shutil.which(named)
    return next(filter(_starts, _chromiums()), None)


def driver_starts() -> bool:
    """Return whether Playwright's driver does: on a small Debian it lacks a library."""
    return _succeeds([sys.executable, "-m", "playwright", "--version"])


def _chromiums() -> Iterator[str]:
    for name in CHROMIUM_NAMES:
        if path := shutil.which(name):
            yield path
    for place in CHROMIUM_PLACES:
        path = Path(os.path.expandvars(place)).expanduser()
        if path.is_file():
            yield str(path)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    if Path(own).is_file():
        yield own


def _starts(path: str) -> bool:
    """Return whether a browser runs: Ubuntu's `chromium-browser` may only ask for a snap."""
    if sys.platform == "win32":  # there --version opens a window
        return True
    return _succeeds([path, "--version"])


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=PATIENCE).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@functools.cache
def postgres_programs() -> Path | None:
    """Return the folder of the newest PostgreSQL server's programs: PATH's, else the usual one."""
    found = [Path(path).parent for path in [shutil.which("initdb")] if path]
    if shutil.which("pg_config"):
        told = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True)
        found.append(Path(told.stdout.strip()))
    for pattern in POSTGRES_PLACES:
        paths = Path("/").glob(pattern.lstrip("/"))
        found += sorted(paths, key=_version, reverse=True)
    return next(
        (path for path in found if all((path / name).is_file() for name in ("initdb", "postgres"))),
        None,
    )


def _version(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", str(path))))


def images(names: Sequence[str] = OFFICIAL) -> Path | None:
    """Return the first folder that holds all of `names`: COVDP_DATA, ../shared/data, the cache."""
    named = os.environ.get("COVDP_DATA")
    roots = [Path(named).expanduser()] if named else []
    roots += [ROOT.parent / "shared" / "data", home()]
    return next((root for root in roots if all((root / name).exists() for name in names)), None)


def install(packages: Sequence[str]) -> str:
    """Install Debian packages, and return why that was not possible, or nothing."""
    if not shutil.which("apt-get") or os.environ.get("COVDP_INSTALL") == "0":
        return "they are not installed by themselves here"
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and not (shutil.which("sudo") and _succeeds([*prefix, "true"])):
        return "installing them needs root"
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--quiet"]
    apt += ["--option", "DPkg::Lock::Timeout=300"]
    chosen = ["--yes", "--no-install-recommends", *packages]
    for step in (["update"], ["install", *chosen]):
        done = subprocess.run([*apt, *step], capture_output=True, text=True)
        if done.returncode:
            return " ".join((done.stderr or done.stdout).strip().splitlines()[-1:])
    chromium.cache_clear()
    postgres_programs.cache_clear()
    return ""


def download() -> str:
    """Get the official image files, and return why not, or nothing."""
    from covdp.datasets import DATASETS, fetch
    from covdp.datasets.registry import data_root

    try:
        for name in OFFICIAL:
            fetch(DATASETS[Path(name).stem], data_root(), progress=False)
    except CovdpError as error:
        return str(error)
    return ""


def main() -> None:
    """Get what is missing and print what was done, and what is still missing."""
    finders = {"chromium": chromium, "postgresql": postgres_programs}
    missing = [name for name, find in finders.items() if find() is None]
    if missing:
        print(f"Not here: {' and '.join(missing)}. Installing Debian's packages ...", flush=True)
        reason = install([package for name in missing for package in PACKAGES[name]])
        for name in missing:
            state = "installed" if finders[name]() else f"still missing ({reason or 'not found'})"
            print(f"{name}: {state}")
    if images() is None:
        print("Not here: real images. Downloading ...", flush=True)
        print(f"real images: {download() or 'downloaded'}")


if __name__ == "__main__":
    main()
