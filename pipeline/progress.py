"""Progress of a long pass: counted by the workers, shown where somebody looks.

    with counted("images of well", 4000, "images") as tick:
        for chunk in chunks:
            tick(len(chunk))

As a library covdp says nothing; the command line sets the level. Bars stand on standard error, on a
terminal only, with count, rate and time left. They show counts and never a name of a file. The bar
of a release shows the number of all images, which is public. Standard output is for results.
"""

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import IO, TYPE_CHECKING, Any, TypeVar

from covdp.errors import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

T = TypeVar("T")


class Level(IntEnum):
    """Amount that is printed while a command works."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


@dataclass
class _Screen:
    """Screen of this process: a level, and one display of all bars that stand."""

    level: Level = Level.QUIET
    terminal: IO[str] | None = None
    display: "Progress | None" = None
    bars: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_SCREEN = _Screen()


def say(level: Level) -> None:
    """Set how much this process says from now on.

    A terminal is held by a descriptor of our own: a release points standard error to nothing while
    it reads images, so that no decoder is heard, and a count is no word of a decoder.

    Parameters
    ----------
    level : Level
        Level from now on.
    """
    if _SCREEN.terminal is not None:
        _SCREEN.terminal.close()
    _SCREEN.level, _SCREEN.terminal = level, None
    if level > Level.QUIET and sys.stderr.isatty():
        own = os.dup(sys.stderr.fileno())
        coding, errors = sys.stderr.encoding, sys.stderr.errors
        _SCREEN.terminal = os.fdopen(own, "w", encoding=coding, errors=errors)


def is_verbose() -> bool:
    """Return True if more is wanted than usual."""
    return _SCREEN.level == Level.VERBOSE


def console() -> "Console":
    """Return the terminal, or standard error as it is now; silent when quiet."""
    from rich.console import Console

    where = _SCREEN.terminal or sys.stderr
    return Console(file=where, quiet=_SCREEN.level == Level.QUIET)


def is_watched() -> bool:
    """Return True if bars are shown: on a terminal, unless this process is quiet."""
    return _SCREEN.level > Level.QUIET and console().is_terminal


@contextmanager
def counted(
    what: str, total: float | None, unit: str, *, shown: bool = True
) -> Iterator[Callable[[float], None]]:
    """Show a bar while the block works, and give the function that moves it on.

    The display comes with the first bar and goes with the last.

    Parameters
    ----------
    what : str
        Present participle and its object; of the data, names of classes at most.
    total : float or None
        Number of them, where that is known.
    unit : str
        Plural noun for what is counted.
    shown : bool
        True if there may be a bar.

    Yields
    ------
    callable
        ``tick(count)`` says that so many more are done, from any thread.
    """
    if not (shown and is_watched()):
        yield lambda count: None
        return
    with _SCREEN.lock:
        display = _SCREEN.display = _SCREEN.display or _started()
        _SCREEN.bars += 1
        task = display.add_task(printable(what), total=total, shown="")
    try:
        yield lambda count: _advance(display, task, count, unit)
    finally:
        with _SCREEN.lock:
            display.remove_task(task)
            _SCREEN.bars -= 1
            if not _SCREEN.bars:
                _SCREEN.display = None
                display.stop()


_SPENT: defaultdict[str, float] = defaultdict(float)
_SPENT_LOCK = threading.Lock()


@contextmanager
def spending(on: str) -> Iterator[None]:
    """Count the seconds that the block takes, in this thread, as spent on something.

    Parameters
    ----------
    on : str
        Name of the work in `seconds_spent`.
    """
    started = time.perf_counter()
    try:
        yield
    finally:
        with _SPENT_LOCK:
            _SPENT[on] += time.perf_counter() - started


def seconds_spent(since: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the seconds that all threads of this process have spent, by what on.

    Parameters
    ----------
    since : mapping of str to float, optional
        Earlier result of this function, which is subtracted.
    """
    with _SPENT_LOCK:
        spent = {what: all_of - (since or {}).get(what, 0.0) for what, all_of in _SPENT.items()}
    return {what: seconds for what, seconds in spent.items() if seconds > 0.0}


@dataclass
class StepStatus:
    """One step while it works: it may say that there was nothing to do, and why.

    Attributes
    ----------
    skipped : str
        Reason why there was nothing to do; "" where there was.
    """

    skipped: str = ""


@contextmanager
def step(name: str) -> Iterator[StepStatus]:
    """Show `name` while the block works, then a message with the seconds it took.

    The message stands on a terminal; for `Level.VERBOSE` in a log as well.

    Parameters
    ----------
    name : str
        Present participle and its object, such as "reading images".

    Yields
    ------
    StepStatus
        Status, which the block may set to skipped.
    """
    started, now, name = time.perf_counter(), StepStatus(), printable(name)
    with counted(name, None, ""):
        yield now
    if not (is_watched() or is_verbose()):
        return
    from rich.markup import escape

    if now.skipped:
        text = f"[yellow]○ {escape(name)}: {escape(printable(now.skipped))}[/]"
    else:
        text = f"[green]✓[/] {escape(name)} [dim]{time.perf_counter() - started:.2f} s[/]"
    with suppress(OSError, SystemExit):  # whoever read it is gone: rich would end the process
        console().print(text, highlight=False)


def _started() -> "Progress":
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    fields = ("{task.description}", "{task.fields[shown]}")
    text = [TextColumn(field, markup=False) for field in fields]
    display = Progress(
        SpinnerColumn(), text[0], BarColumn(16), text[1], console=console(), transient=True
    )
    display.start()
    return display


def _advance(display: "Progress", task: Any, count: float, unit: str) -> None:
    display.advance(task, count)
    state = next(item for item in display.tasks if item.id == task)
    display.update(task, shown=pace(state.completed, state.total, state.elapsed or 0.0, unit))


def pace(done: float, total: float | None, seconds: float, unit: str) -> str:
    """Return count, rate and time left in words: "1,200 of 4,000 images, 350/s, 0:00:08 left".

    Parameters
    ----------
    done : float
        Amount of work done.
    total : float or None
        Amount of work in all; unknown when None.
    seconds : float
        Time since the start, in seconds.
    unit : str
        Plural noun for what is counted, such as "images".

    Examples
    --------
    >>> from covdp.progress import pace
    >>> pace(1200, 4000, 3.4, "images")
    '1,200 of 4,000 images, 353/s, 0:00:08 left'
    """
    count = f"{done:,.0f} of {total:,.0f} {unit}" if total else f"{done:,.0f} {unit}"
    if not done or seconds <= 0:
        return count
    rate = done / seconds
    shown = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
    if not total:
        return f"{count}, {shown}"
    left = timedelta(seconds=max(0, round((total - done) / rate)))
    return f"{count}, {shown}, {left} left"
