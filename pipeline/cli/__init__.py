"""The `covdp` command: every door a person or a scheduler comes in by.

    experiments   run, reproduce, report: on public images
    catalogue     datasets, mechanisms, audit: what there is, and whether it keeps its word
    releases      release, ledger, serve: on private images
    completion    what a shell needs to complete all of these

Exit code 0 means done, 1 that an audit found a claim violated, 2 that something given was wrong
and one line on stderr says what, 130 that it was interrupted.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Literal

from cyclopts import App, CycloptsError, Group

from pipeline.cli import catalogue, experiments, releases
from pipeline.cli.signals import answered
from pipeline.cli.version import version
from pipeline.errors import CovdpError

app = App(
    name="covdp",
    help="Differentially private mean covariance descriptors of medical images.",
    version=version,
    help_format="markdown",
    help_epilogue="Start with `covdp run`, which needs no network.",
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


book = App(
    name="ledger",
    help="The account of privacy budgets: what was spent, what is left, for how long it lasts.",
    help_epilogue="",
)
book.command(releases.init)
book.command(releases.set_budget)
book.command(releases.show_ledger, name="show")
book.command(releases.history)

HELP: Mapping[str, tuple[Callable[..., None] | App, ...]] = {
    "On public images": (experiments.run, experiments.reproduce, experiments.report),
    "On private images": (releases.release, book, releases.serve),
    "What there is": (catalogue.datasets, catalogue.mechanisms, catalogue.audit),
    "The program itself": (completion, app["--help"], app["--version"]),
}
"""What stands under which heading of the help."""

for number, (title, commands) in enumerate(HELP.items()):
    group = Group(title, sort_key=number)
    for command in commands:
        if isinstance(command, App):
            command.group = group
        else:
            app.command(command, group=group, help_epilogue="")
app.command(book)


def main(tokens: list[str] | None = None) -> int:
    """Run the command line; errors of the user become one line and exit code 2."""
    try:
        with answered():
            app(tokens, exit_on_error=False, print_error=False, result_action="return_none")
    except (CovdpError, CycloptsError) as error:
        print(f"covdp: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # who reads, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0
