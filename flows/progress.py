"""The steps of one run: shown while they work, timed when they end."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from pipeline import progress

Item = TypeVar("Item")


@dataclass
class Steps:
    """The steps of one run with their wall-clock seconds."""

    seconds: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[progress.Step]:
        """Show `name` until the block ends, then a line with its time."""
        started = time.perf_counter()
        with progress.step(name) as now:
            yield now
        self.seconds.append((name, time.perf_counter() - started))

    def each(self, name: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield `items` behind a bar that counts them, then a line with the time of all."""
        with self.step(name), progress.counted(name, total, "classes") as tick:
            for item in items:
                yield item
                tick(1)
