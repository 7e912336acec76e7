"""The ground floor alone: ``python -m tests.tools.ground`` runs its tests without add-ons.

In a copy of the tree, from which `pipeline/addons` and `tests/addons` are left out, with an install
of its own. Tests of the ground floor that need a member of an add-on are marked `addons`.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from tests.tools.code import ROOT

LEFT_OUT = (".git", ".venv*", ".types", "addons", "cache", "output", "__pycache__", "*.egg-info")
OWN = ("-m", "not slow and not addons", "-p", "no:cacheprovider", "--quiet")


def plant(root: Path) -> Path:
    """Copy the tree without add-ons to `root`, and return a Python in which that is installed.

    Its packages are those of this environment, but not the install of covdp, which would bring the
    add-ons of the original. What Numba compiled goes along: it knows a source by its time and size.
    """
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    for path in (ROOT / "pipeline").rglob("*.nb[ic]"):
        if (target := root / path.relative_to(ROOT)).parent.parent.is_dir():
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(path, target)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    python = root / ".venv" / "bin" / "python"
    (packages,) = (root / ".venv" / "lib").glob("*/site-packages")
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--editable", root], check=True)
    return python


def environment() -> dict[str, str]:
    """Return the environment in which that Python finds the copy alone."""
    left_out = ("PYTHONPATH", "CI")  # what needs an add-on is skipped
    return {name: value for name, value in os.environ.items() if name not in left_out}


def main() -> int:
    """Run all tests of the ground floor in a copy; return pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "covdp"
        command = [plant(root), "-m", "pytest", *OWN, "--numprocesses", "2"]
        rooms = sorted(path.parent for path in root.glob("tests/*/test_*.py"))
        tests = [str(room) for room in dict.fromkeys(rooms) if room.name != "flows"]
        return subprocess.run([*command, *tests], cwd=root, env=environment()).returncode


if __name__ == "__main__":
    sys.exit(main())
