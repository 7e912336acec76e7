"""What a person sees while a flow works, and the time each step took."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

Item = TypeVar("Item")


@dataclass
class Step:
    """One step while it runs: it may say that there was nothing to do."""

    skipped: str = ""


@dataclass
class Steps:
    """The steps of one run: announced while they run, timed when they end."""

    console: Console = field(default_factory=lambda: Console())
    seconds: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator["Step"]:
        """Show `name` with a spinner until the block ends, then a line with its time."""
        started, step = time.perf_counter(), Step()
        with self.console.status(f"{name} …"):
            yield step
        self._done(name, started, step.skipped)

    def each(self, name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield `items` behind a progress bar, then a line with the time of all of them."""
        started = time.perf_counter()
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.console, transient=True) as progress:
            yield from progress.track(items, total=total, description=name)
        self._done(name, started)

    def _done(self, name: str, started: float, skipped: str = "") -> None:
        seconds = time.perf_counter() - started
        self.seconds.append((name, seconds))
        if skipped:
            self.console.print(f"[yellow]○ {name}: {skipped}[/]", highlight=False)
            return
        self.console.print(f"[green]✓[/] {name} [dim]{seconds:.2f} s[/]", highlight=False)
