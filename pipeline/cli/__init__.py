"""The `covdp` command: every door a person or a scheduler comes in by.

    commands   what it can do, and the modules with each: experiments, catalogue, describing,
               planning, releases with accounts, looking_back, several
    options    what several commands share
    signals    Ctrl-C and SIGTERM
    version    which covdp this is

Exit code 0 means done, 1 that an audit found a claim violated, 2 that something given was wrong
and one line on stderr says what, 130 that it was interrupted. The commands take a second to import;
that too can be interrupted, so `main` does it.
"""

import logging
import os
import sys
import warnings

from pipeline.cli.signals import answered
from pipeline.errors import CovdpError, one_line


def main(tokens: list[str] | None = None) -> int:
    """Run the command line; errors of the user become one line and exit code 2."""
    warnings.filterwarnings("ignore", module="pydicom")  # which may quote a header
    logging.getLogger("pydicom").setLevel(logging.CRITICAL)
    with answered():
        from cyclopts import CycloptsError, UnusedCliTokensError

        from pipeline.cli.commands import app

        try:
            app(tokens, exit_on_error=False, print_error=False, result_action="return_none")
        except UnusedCliTokensError as error:
            unused = one_line(" ".join(error.unused_tokens or ()))
            way = "give it with an option: --help after the command lists them"
            print(f"covdp: {unused} has no place here; {way}", file=sys.stderr)
            return 2
        except (CovdpError, CycloptsError) as error:
            print(f"covdp: {one_line(error)}", file=sys.stderr)
            return 2
        except BrokenPipeError:  # who reads, such as `head`, has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 141
    return 0
