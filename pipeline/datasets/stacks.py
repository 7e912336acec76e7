"""Volumes whose slices lie in files of their own, or are frames of files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import ImageArray
from pipeline.datasets.reading import InFiles, Rows
from pipeline.errors import DatasetError


@dataclass(frozen=True, eq=False)
class InStacks:
    """Volumes of slices: a reader, see `pipeline.datasets.reading.Reader`.

    Attributes
    ----------
    slices : InFiles
        The slices of all volumes, one after another; they may be values that are no 0..255 yet.
    starts : (v + 1,) int64
        Where the slices of each volume begin in these, and where the last one's end.
    shown : callable
        From the slices of a volume to 0..255.
    """

    slices: InFiles
    starts: NDArray[np.int64]
    shown: Callable[[NDArray[Any]], ImageArray]
    sequential = False

    def __call__(self, rows: Rows, size: int) -> Iterator[ImageArray]:
        """See `Reader`; while a volume is worked on, the slices of the next are decoded."""
        held: list[ImageArray] = []
        counts = np.diff(self.starts)[rows]
        for slices in self.slices.runs(self._slices(rows), (np.cumsum(counts) - counts).tolist()):
            if held and len(held[-1]) != len(slices):
                yield np.stack(held)
                held = []
            held.append(self.shown(slices))
            if len(held) == size:
                yield np.stack(held)
                held = []
        if held:
            yield np.stack(held)

    def _slices(self, rows: Rows) -> Rows:
        """Return the rows of the slices of some volumes."""
        none = [np.zeros(0, np.int64)]
        return np.concatenate(none + [np.arange(*self.starts[row : row + 2]) for row in rows])

    def within(self, row: int) -> list[str]:
        """Return what a list of exclusions names to leave a volume out: its folder, or its files.

        Its folder, where no file of another volume lies.
        """
        file, names = self.slices.file, self.slices.names
        mine = set(file[self._slices(np.array([row]))].tolist())
        files = [names[index] for index in sorted(mine)]
        folder = Path(files[0]).parent
        others = set(file.tolist()) - mine
        if len(files) > 1 and not any(Path(names[index]).parent == folder for index in others):
            return [str(folder)]
        return files

    def tried(self, rows: Rows) -> Iterator[tuple[int, int, str | None]]:
        """Read volume by volume: yield each row, 1, and why it cannot be read."""
        for row in rows.tolist():
            fault = None
            try:
                for _ in self(np.array([row]), 1):
                    pass
            except DatasetError as error:
                fault = str(error)
            yield row, 1, fault

    def stamp(self, rows: Rows) -> bytes:
        """See `Reader`."""
        return self.slices.stamp(self._slices(rows))

    def only(self, rows: Rows) -> "InStacks":
        """See `Reader`."""
        starts = np.cumsum([0, *np.diff(self.starts)[rows]])
        return replace(self, slices=self.slices.only(self._slices(rows)), starts=starts)
