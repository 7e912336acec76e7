"""Commands of `covdp`, grouped and in the order of their use, as the help shows them.

catalogue     card, describe: images; datasets, descriptors, mechanisms, schema: what there is
start         from a card to a first release
check         images, odd files, account and likely use, before anything is paid
releases      plan, release, serve: on private images
ledger        the account that pays
status        what a monitor asks
experiments   run, report: on public images
version       which covdp this is
completion    what a shell needs to complete all of these

Add-ons and packages of others bring more (`COMMANDS`).
"""

import json
import os
from collections.abc import Callable
from typing import Literal

from cyclopts import App, Group

from covdp import __version__
from covdp.files import project_root
from covdp.registry import Registry, at


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
    help_epilogue="Start with `covdp run`, which brings images, or with `covdp card FOLDER`.",
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
COMMANDS = Registry[Callable[..., None]](
    "commands",
    {
        name: at(f"covdp.cli.{module}:{name}")
        for module, names in {
            "catalogue": "card describe datasets descriptors mechanisms schema",
            "start": "start",
            "check": "check",
            "releases": "plan release serve",
            "status": "status",
            "experiments": "run report",
            "commands": "completion",
        }.items()
        for name in names.split()
    },
    word="command",
)
"""Name → what it does, imported when it is asked for."""
HELP = {
    "Begin": "run card start",
    "On private images": "check plan release join serve ledger status describe",
    "On releases": "history compare combine match harmonise export verify passport schema",
    "On public images": "reproduce report audit",
    "What there is": "datasets descriptors mechanisms",
    "The program itself": "completion --help --version",
}
"""Names that stand under each heading of the help, in order."""


def _register() -> None:
    """Give every command its place in the help."""
    for number, (title, names) in enumerate(HELP.items()):
        group = Group(title, sort_key=number)
        for place, name in enumerate(names.split()):
            if name.startswith("--"):
                app[name].group, app[name].sort_key = group, place
            elif name == "ledger":  # imported when it is asked for: it knows SQLAlchemy
                address = "covdp.cli.ledger:book"
                app.command(address, name=name, help=LEDGER, group=group, sort_key=place)
            elif name in COMMANDS.own():
                _add(name, group, place)


def import_all() -> None:
    """Import all commands, for a help or a hint: those of other packages have their own heading."""
    group = Group("Of other packages", sort_key=len(HELP))
    for place, name in enumerate(COMMANDS.loaded(set(COMMANDS) - COMMANDS.own())):
        if name not in app:
            _add(name, group, place)
    for name in COMMANDS.loaded():
        app[name]  # imports it


def _add(name: str, group: Group, place: int) -> None:
    """Register a command, or a book of several; an add-on's is imported when it is asked for."""
    address = COMMANDS.address(name)
    of_one = {"help_epilogue": "", "help_format": "markdown"}
    options = {} if address and address.endswith(":book") else of_one
    app.command(address or COMMANDS[name], name=name, group=group, sort_key=place, **options)


_register()
