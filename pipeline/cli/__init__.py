"""The `covdp` command: every door a person or a scheduler comes in by.

    experiments   run, reproduce, report: on public images
    catalogue     datasets, mechanisms, audit: what there is, and whether it keeps its word
    releases      release, ledger, serve: on private images

Exit code 0 means done, 1 that an audit found a claim violated, 2 that something given was wrong
and one line on stderr says what.
"""

import sys

from cyclopts import App, CycloptsError

from pipeline import __version__
from pipeline.cli import catalogue, experiments, releases
from pipeline.errors import CovdpError

app = App(
    name="covdp",
    help="Differentially private mean covariance descriptors of medical images.",
    version=__version__,
    help_format="markdown",
    help_epilogue="Start with `covdp run`, which needs no network.",
)

for command in (
    experiments.run,
    experiments.reproduce,
    experiments.report,
    catalogue.datasets,
    catalogue.mechanisms,
    catalogue.audit,
    releases.release,
    releases.serve,
):
    app.command(command, help_epilogue="")

book = App(
    name="ledger",
    help="The account of privacy budgets: what was spent, what is left.",
    help_epilogue="",
)
book.command(releases.init)
book.command(releases.set_budget)
book.command(releases.show_ledger, name="show")
app.command(book)


def main(tokens: list[str] | None = None) -> int:
    """Run the command line; errors of the user become one line and exit code 2."""
    try:
        app(tokens, exit_on_error=False, print_error=False, result_action="return_none")
    except (CovdpError, CycloptsError) as error:
        print(f"covdp: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("covdp: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    return 0
