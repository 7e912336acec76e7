"""Records that are read in parts, anew in every pass, so that they need not fit in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from pipeline.errors import DomainError
from pipeline.geometry import Point

T = TypeVar("T")
U = TypeVar("U")


@runtime_checkable
class Chunks(Protocol):
    """Points of one class in chunks; every iteration gives the same ones in the same order."""

    @property
    def n(self) -> int:
        """Number of points in all (public)."""

    def __iter__(self) -> Iterator[Point]:
        """Yield arrays of shape (m, *point_shape)."""


@dataclass(frozen=True, eq=False, repr=False)
class AtOnce(Generic[T]):
    """All n points, or what was made of them, in memory: one part."""

    n: int
    held: T

    def map(self, of: Callable[[T], U]) -> "AtOnce[U]":
        """Return what `of` makes of them, computed now and kept."""
        return AtOnce(self.n, of(self.held))

    def __iter__(self) -> Iterator[T]:
        """Yield the one part."""
        yield self.held


@dataclass(frozen=True, eq=False, repr=False)
class Streamed(Generic[T]):
    """What `of` makes of each chunk of points, one at a time in memory."""

    chunks: Chunks
    of: Callable[[Point], T]
    held = None

    @property
    def n(self) -> int:
        """Number of points, as announced."""
        return self.chunks.n

    def map(self, of: Callable[[T], U]) -> "Streamed[U]":
        """Return what `of` makes of each part, computed again in every pass."""
        return Streamed(self.chunks, lambda chunk: of(self.of(chunk)))

    def __iter__(self) -> Iterator[T]:
        """Yield a part of each chunk that is not empty.

        Raises
        ------
        DomainError
            When a pass gives another number of points than was announced: Δ rests on n.
        """
        found = 0
        for chunk in self.chunks:
            found += len(chunk)
            if len(chunk) and found <= self.n:
                yield self.of(chunk)
        if found != self.n:
            raise DomainError(
                f"a pass over the records must give all {self.n} of them, found {found}; "
                "chunks must be the same each time they are iterated over, so no generator will do"
            )


Parts: TypeAlias = AtOnce[T] | Streamed[T]
"""Points in parts: ``n``, ``held`` (all of them, or None), ``map`` and iteration."""


def parts_of(points: Point | Chunks) -> Parts[Point]:
    """Return points in parts: an array is one, chunks are read again in every pass."""
    if isinstance(points, AtOnce | Streamed):
        return points
    if isinstance(points, Chunks):
        return Streamed(points, np.asarray)
    points = np.asarray(points)
    return AtOnce(len(points) if points.ndim else 0, points)
