"""The program `covdp`: it runs a command line, answers signals, and says what went wrong.

**Ctrl-C and SIGTERM** are one line, and the process is gone, whatever it does. A handler that
raised would be at the mercy of whatever runs: an import that swallows it, a pool that waits for its
threads. And a handler is called between two statements of the main thread, which a long call keeps
waiting: so the work has a thread of its own, and the main thread only waits. Nothing is asked here,
and nothing needs to be: tables and documents take their place whole, a release that was paid is not
paid again, and what this process started ends with it.
"""

import atexit
import gc
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from covdp.cli.streams import complain, open_streams, settle_streams
from covdp.errors import CovdpError, MemberWarning, missing_extra, one_line, printable
from covdp.files import discard_unfinished
from covdp.progress import is_verbose

if TYPE_CHECKING:
    from cyclopts import MissingArgumentError

Result = TypeVar("Result")

UNFORESEEN = 70
"""Exit code of an unexpected error (EX_SOFTWARE of sysexits.h)."""
PRIVATE = ("release", "serve")
"""Commands over private images whose output stays in logs: nothing of a failure is shown."""
FILE_ARGUMENTS = ("file", "path", "config", "folder", "dataset", "document", "first")
"""Names of the parameter that is the file a function works on."""
SIGNAL_WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "told to stop"}
"""Message about a signal."""
ANEW = "the same command starts it again"
FREE = f"{ANEW}; a release that was paid costs nothing under its run key"
"""The way on after it; and that after a command which pays."""
DONE = "print elsewhere; what the command has written to files or charged stands"
"""The way out where a result cannot be printed."""
FORMAT_WARNING = warnings.formatwarning
"""Python's own format of a warning."""
atexit.register(gc.freeze)  # at the end Python would look through all that is there, for 0.3 s


def main(tokens: list[str] | None = None) -> int:
    """Run the command line; errors of the user become one line and exit code 2.

    Parameters
    ----------
    tokens : list of str, optional
        Words of the command line; those that the program was started with when left out.

    Returns
    -------
    int
        Exit code of the process.
    """
    # threads of ours use all cores: those of BLAS, for small matrices, make a run a quarter slower
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    open_streams()
    warnings.formatwarning = _format_warning
    warnings.filterwarnings("ignore", module="pydicom")  # which may quote a header
    logging.getLogger("pydicom").setLevel(logging.CRITICAL)

    arguments = sys.argv[1:] if tokens is None else tokens

    def run() -> int:
        try:
            return _run(arguments)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of a library in Rust is no Exception
            _report(error, arguments)
            return UNFORESEEN

    try:
        return run_in_thread(run, way=FREE if _command(arguments) in PRIVATE else ANEW)
    finally:
        settle_streams()


def _format_warning(
    message: Warning | str, category: type[Warning], *where: Any, **more: Any
) -> str:
    """Return a warning about a package's member as one line of covdp, others as Python has them."""
    if issubclass(category, MemberWarning):
        return f"covdp: {one_line(str(message))}\n"
    return FORMAT_WARNING(message, category, *where, **more)


def _run(tokens: list[str]) -> int:
    """Run the command line as far as it is foreseen."""
    from cyclopts import CycloptsError, MissingArgumentError, UnusedCliTokensError

    from covdp.cli.commands import app, import_all
    from covdp.cli.options import PLAIN
    from covdp.cli.output import Screen

    app.console = Screen()
    if _command(tokens) not in app:
        import_all()
    try:
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
        if "output" in bound.signature.parameters:
            bound.arguments.get("output", PLAIN).begin()
        try:
            command(*bound.args, **bound.kwargs)
        finally:  # of one that ends with an exit code of its own, too
            sys.stdout.flush()
    except UnusedCliTokensError as error:
        unused = one_line(" ".join(error.unused_tokens or ()))
        way = "give it with an option: --help after the command lists them"
        complain(f"{unused} has no place here; {way}")
        return 2
    except MissingArgumentError as error:
        complain(_needs(error, tokens))
        return 2
    except (CovdpError, CycloptsError) as error:
        complain(error)
        return 2
    except ImportError as error:
        complain(missing_extra(error))
        return 2
    except BrokenPipeError:  # who reads, such as `head`, has had enough
        settle_streams()
        return 141
    except OSError as error:
        if not (names := settle_streams(probe="\n")):
            raise
        complain(f"cannot write to {' and '.join(names)} ({error.strerror}); {DONE}")
        return 2
    return 0


def _needs(error: "MissingArgumentError", tokens: Sequence[str]) -> str:
    """Return what a command line lacks, and where the way out is."""
    name, argument = " ".join(error.command_chain or ()), error.argument
    missing = argument.name if argument else "an argument"
    needs = f"{missing} needs a value" if missing in tokens else f"{name} needs {missing}"
    return f"{needs}; covdp {name} --help shows examples"


def _command(tokens: Sequence[str]) -> str:
    """Return the command of a command line."""
    return next((token for token in tokens if not token.startswith("-")), "")


def _report(error: BaseException, tokens: Sequence[str]) -> None:
    """Report an unexpected error in one sentence, its file and place; `--verbose` prints all of it.

    Of a command over private images nothing is printed, nor a traceback: what failed may
    depend on an image.
    """
    if _command(tokens) in PRIVATE:
        reason = (
            "it is withheld, as it may depend on an image; `covdp run` with the same settings on "
            "public images may show it"
        )
    else:
        if is_verbose():
            with suppress(OSError):
                print(printable("".join(traceback.format_exception(error))), file=sys.stderr)
        reason = f"{type(error).__name__} in {_place(error)}"
        reason += ", of which --verbose shows more" * (not is_verbose())
    complain(
        f"failed in a way that was not foreseen: {reason}; this is a fault of covdp, please report "
        "it"
    )


def _place(error: BaseException) -> str:
    """Return the last statement of covdp that an error went through, and the file it was about."""
    root = Path(__file__).parents[2]
    place, file = "", None
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = Path(frame.f_code.co_filename)
        if not any(code.is_relative_to(root / package) for package in ("pipeline", "flows")):
            continue
        place = f"{code.relative_to(root).as_posix()}, line {line}"
        named = (frame.f_locals.get(name) for name in FILE_ARGUMENTS)
        file = next((value for value in named if isinstance(value, Path)), file)
    return place if file is None else f"{place}, over {file}"


def run_in_thread(
    work: Callable[[], Result], ended: Callable[[], None] = lambda: None, *, way: str = ANEW
) -> Result:
    """Do `work` in a thread, and return its result or raise its error; signals are answered.

    After Ctrl-C and SIGTERM `ended` is called; the message about them ends with `way`.
    Signals belong to the main thread: elsewhere the work is done at once, and they are left alone.
    What the work starts, such as workers of Dask, leaves Ctrl-C to this process.

    Parameters
    ----------
    work : callable
        Function that is called once.
    ended : callable
        Function that is called after Ctrl-C or SIGTERM.
    way : str
        Way out, at the end of the message about the signal.

    Returns
    -------
    Result
        Result of `work`.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done: Future[Result] = Future()
    context = copy_context()

    def run() -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            done.set_result(context.run(work))
        except BaseException as error:
            done.set_exception(error)

    stderr = None
    with suppress(OSError):  # a service may run without
        stderr = os.dup(2)  # a release silences 2 itself while it reads
    leave = partial(_leave, stderr, ended, way)
    before = {number: signal.signal(number, leave) for number in SIGNAL_WORDS}
    try:
        try:
            threading.Thread(target=run, name="command", daemon=True).start()
        except RuntimeError:  # no more may run
            run()
        while not wait([done], timeout=0.2).done:  # a wait without end would not be interrupted
            continue
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if stderr is not None:
            os.close(stderr)
    return done.result()


def _leave(
    stderr: int | None, ended: Callable[[], None], way: str, number: int, _: FrameType | None
) -> NoReturn:
    """Say so and end: 130 after Ctrl-C, by the signal itself after SIGTERM."""
    for each in SIGNAL_WORDS:
        signal.signal(each, signal.SIG_IGN)
    with suppress(OSError):  # whoever read it is gone
        for screen in (1, stderr):
            if screen is not None and os.isatty(screen):
                os.write(screen, b"\r\x1b[2K\x1b[?25h")  # a spinner goes, the cursor comes back
    with suppress(OSError):
        if stderr is not None:
            os.write(stderr, f"covdp: {SIGNAL_WORDS[signal.Signals(number)]}; {way}\n".encode())
    ended()
    discard_unfinished()
    if number == signal.SIGTERM:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    os._exit(128 + number)  # Ctrl-C; or the first process of a container, which no signal ends


if __name__ == "__main__":
    sys.exit(main())
