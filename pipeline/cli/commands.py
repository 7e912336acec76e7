"""What `covdp` can do: its commands, grouped as the help shows them.

experiments   run, reproduce, report: on public images
describing    describe: one pass over images into a store
planning      plan: what a release will be like, before it
catalogue     datasets, mechanisms, audit: what there is, and whether it keeps its word
releases      release, ledger, serve: on private images
looking_back  history, schema: on what was released
several       compare, combine: on several releases
completion    what a shell needs to complete all of these
"""

from collections.abc import Callable, Mapping
from typing import Literal

from cyclopts import App, Group

from pipeline.cli import (
    catalogue,
    describing,
    experiments,
    looking_back,
    planning,
    releases,
    several,
)
from pipeline.cli.version import version

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
book.command(releases.confirm_ledger, name="confirm-restored")

HELP: Mapping[str, tuple[Callable[..., None] | App, ...]] = {
    "On public images": (experiments.run, experiments.reproduce, experiments.report),
    "On private images": (
        describing.describe,
        planning.plan,
        releases.release,
        book,
        releases.serve,
        looking_back.history,
        looking_back.schema,
        several.compare,
        several.combine,
    ),
    "What there is": (catalogue.datasets, catalogue.card, catalogue.mechanisms, catalogue.audit),
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
