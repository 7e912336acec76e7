"""What `covdp` can do: its commands, grouped and in the order of their use, as the help shows them.

catalogue     card, describe: images; datasets, descriptors, mechanisms: what there is; audit
start         from a card to a first release
check         images, odd files, account and likely use, before anything is paid
releases      plan, release, serve: on private images
documents     history, compare, combine, match, harmonise, schema: on what was released
ledger        the account that pays
status        what a monitor asks
experiments   run, reproduce, report: on public images
version       which covdp this is
completion    what a shell needs to complete all of these
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Literal

from cyclopts import App, Group

from covdp import __version__
from covdp.cli import catalogue, check, documents, experiments, releases, start, status
from covdp.files import project_root


def version() -> str:
    """Return ``0.3.0``, or ``0.3.0 (commit 1a2b3c4d5e6f)``."""
    revision = commit()
    return f"{__version__} (commit {revision})" if revision else __version__


def commit() -> str:
    """Return twelve digits of the commit: git's in a checkout, else what pip wrote down, or ""."""
    import subprocess

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
    from importlib import metadata  # a fifth of what the help imports

    try:
        noted = metadata.distribution("covdp").read_text("direct_url.json")
        return str(json.loads(noted or "{}")["vcs_info"]["commit_id"])[:12]
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""


app = App(
    name="covdp",
    help="Differentially private mean covariance descriptors of medical images.",
    version=version,
    help_format="plaintext",  # of markdown the import alone takes 0.1 s
    help_epilogue="Start with `covdp card FOLDER`, or with `covdp run`, which brings images.",
)


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that makes a shell complete commands and options.

    ```
    eval "$(covdp completion bash)"
    covdp completion zsh > ~/.zfunc/_covdp
    covdp completion fish > ~/.config/fish/completions/covdp.fish
    ```

    Parameters
    ----------
    shell
        The shell the script is for.
    """
    print(app.generate_completion(shell=shell))


LEDGER = "The account of privacy budgets: what was spent, what is left, for how long it lasts."
"""Help of the commands on the ledger."""
HELP: Mapping[str, tuple[Callable[..., None] | App | str, ...]] = {
    "On private images": (
        catalogue.card,
        start.start,
        check.check,
        releases.plan,
        releases.release,
        releases.serve,
        "covdp.cli.ledger:book",  # imported when it is asked for: it knows SQLAlchemy
        status.status,
        catalogue.describe,
    ),
    "On releases": (
        documents.history,
        documents.compare,
        documents.combine,
        documents.match,
        documents.harmonise,
        documents.schema,
    ),
    "On public images": (
        experiments.run,
        experiments.reproduce,
        experiments.report,
        catalogue.audit,
    ),
    "What there is": (catalogue.datasets, catalogue.descriptors, catalogue.mechanisms),
    "The program itself": (completion, app["--help"], app["--version"]),
}
"""What stands under which heading of the help, in order."""

for number, (title, commands) in enumerate(HELP.items()):
    group = Group(title, sort_key=number)
    for place, command in enumerate(commands):
        if isinstance(command, App):
            command.group, command.sort_key = group, place
        elif isinstance(command, str):
            app.command(command, name="ledger", group=group, sort_key=place, help=LEDGER)
        else:
            app.command(
                command, group=group, sort_key=place, help_epilogue="", help_format="markdown"
            )
