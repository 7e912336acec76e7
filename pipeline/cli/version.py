"""Which covdp this is: the version, and the commit where one is known."""

import json
import os
import subprocess
from importlib import metadata

from pipeline import __version__
from pipeline.files import project_root


def version() -> str:
    """Return ``0.3.0``, or ``0.3.0 (commit 1a2b3c4d5e6f)``."""
    found = commit()
    return f"{__version__} (commit {found})" if found else __version__


def commit() -> str:
    """Return twelve digits of the commit: git's in a checkout, else what pip wrote down, or ""."""
    root = project_root()
    if root is None:
        return _installed()
    if not (root / ".git").exists():  # a copy of the files, maybe inside another repository
        return ""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            timeout=5,
            env=plain,
        )
    except (OSError, subprocess.SubprocessError):  # no git here
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _installed() -> str:
    """Return the commit that pip installed from, which it notes when it fetches with git."""
    try:
        noted = metadata.distribution("covdp").read_text("direct_url.json")
        return str(json.loads(noted or "{}")["vcs_info"]["commit_id"])[:12]
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""
