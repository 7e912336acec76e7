"""The `covdp` command: every door a person or a scheduler comes in by.

    commands   what it can do, and the modules with each: experiments, catalogue, describing,
               planning, releases with accounts, looking_back, several
    options    what several commands share
    signals    Ctrl-C and SIGTERM
    version    which covdp this is

Exit code 0 means done, 1 that an audit found a claim violated, 2 that something given was wrong
and one line on stderr says what, 70 that covdp failed in a way that nobody foresaw, 130 that it was
interrupted. The commands take a second to import; that too can be interrupted, so `main` does it.
"""

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

from pipeline.cli.signals import run_in_thread
from pipeline.errors import CovdpError, one_line, printable
from pipeline.progress import is_verbose

UNFORESEEN = 70
"""Exit code of what nobody foresaw (EX_SOFTWARE of sysexits.h)."""
PRIVATE = ("release", "serve")
"""Commands over private images whose output stays in logs: nothing of a failure is shown."""
NAMES = ("file", "path", "config", "folder", "dataset", "document", "first")
"""What functions call the file that they work on."""


def main(tokens: list[str] | None = None) -> int:
    """Run the command line; errors of the user become one line and exit code 2."""
    warnings.filterwarnings("ignore", module="pydicom")  # which may quote a header
    logging.getLogger("pydicom").setLevel(logging.CRITICAL)

    def run() -> int:
        try:
            return _run(tokens)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            _report(error, sys.argv[1:] if tokens is None else tokens)
            return UNFORESEEN

    return run_in_thread(run)


def _run(tokens: list[str] | None) -> int:
    """Run the command line as far as it is foreseen."""
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


def _report(error: BaseException, tokens: Sequence[str]) -> None:
    """Say on one line what nobody foresaw, over which file and where; `--verbose` says all of it.

    Of a command over private images nothing is said of it, in a traceback neither: what failed may
    depend on an image.
    """
    if next((token for token in tokens if not token.startswith("-")), "") in PRIVATE:
        said = (
            "it is withheld, as it may depend on an image; `covdp run` with the same settings on "
            "public images may show it"
        )
    else:
        if is_verbose():
            print(printable("".join(traceback.format_exception(error))), file=sys.stderr)
        said = f"{type(error).__name__} in {_place(error)}"
        said += ", of which --verbose shows more" * (not is_verbose())
    print(
        f"covdp: failed in a way that was not foreseen: {one_line(said)}; this is a fault of "
        "covdp, please report it",
        file=sys.stderr,
    )


def _place(error: BaseException) -> str:
    """Return the last line of covdp that an error went through, and the file it was about."""
    root = Path(__file__).parents[2]
    place, file = "", None
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = Path(frame.f_code.co_filename)
        if not any(code.is_relative_to(root / package) for package in ("pipeline", "flows")):
            continue
        place = f"{code.relative_to(root).as_posix()}, line {line}"
        named = (frame.f_locals.get(name) for name in NAMES)
        file = next((one for one in named if isinstance(one, Path)), file)
    return place if file is None else f"{place}, over {file}"
