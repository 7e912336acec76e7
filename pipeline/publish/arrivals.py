"""What lies in the folder tonight: units, their classes and their records; as private as they are.

An image is known by its pixels, wherever and under whatever name it lies, a person by the digest of
who it is. Of equal images the first counts, in the card's order of classes, and no other: which of
them that is changes no record.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets import ImageSource
from pipeline.geometry import Point
from pipeline.publish.document import Public
from pipeline.store import Plan, StoredImages


@dataclass(frozen=True, eq=False, repr=False)
class Arrivals:
    """Units that lie there.

    Attributes
    ----------
    units : tuple of bytes
        What each is known by.
    labels : tuple of str
        Its class, or classes.
    points : tuple of array
        For each class the records in it: of images (m, k, k), of persons in the chart, (m, d).
    owners : tuple of (m,) int64
        For each class whose each record is: an index into `units`.
    images : tuple of bytes
        For each image that was read, in the order of the source, what its unit is known by; b"" of
        one that is in none of the classes.
    """

    units: tuple[bytes, ...]
    labels: tuple[str, ...]
    points: tuple[Point, ...]
    owners: tuple[NDArray[np.int64], ...]
    images: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        """Show no value."""
        return "Arrivals(…)"

    def only(self, kept: Sequence[bool]) -> "Arrivals":
        """Return the units that are kept."""
        mask = np.array(kept, dtype=bool)
        place = np.cumsum(mask) - 1
        mine = [mask[owner] for owner in self.owners]
        return Arrivals(
            tuple(unit for unit, is_in in zip(self.units, kept, strict=True) if is_in),
            tuple(label for label, is_in in zip(self.labels, kept, strict=True) if is_in),
            tuple(points[rows] for points, rows in zip(self.points, mine, strict=True)),
            tuple(place[owner[rows]] for owner, rows in zip(self.owners, mine, strict=True)),
            self.images,
        )

    def enough(self, fewest: int) -> "Arrivals":
        """Return the units but for those of a class that fewer than `fewest` are of.

        A unit of several classes is left out of all of them with one, which another class may then
        have too few of. Which are left out depends on how many each class has, and on no record.
        """
        kept = np.ones(len(self.units), dtype=bool)
        while few := [own for own in self.owners if 0 < np.count_nonzero(kept[own]) < fewest]:
            kept[np.concatenate(few)] = False
        return self.only(kept.tolist())

    def images_of(self, units: Set[bytes]) -> NDArray[np.bool_]:
        """Tell of each image that was read whether it is of one of some units."""
        return np.array([unit in units for unit in self.images], dtype=bool)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many records each class has."""
        return tuple(map(len, self.points))


def nobody(classes: int, k: int) -> Arrivals:
    """Return what lies in an empty folder."""
    none = tuple(np.empty((0, k, k)) for _ in range(classes))
    return Arrivals((), (), none, tuple(np.empty(0, np.int64) for _ in range(classes)))


def arrivals(source: ImageSource, plan: Plan, stored: StoredImages, public: Public) -> Arrivals:
    """Return the units of a pass over images, each once."""
    known: dict[bytes, list[str]] = {}
    order: dict[bytes, int] = {}
    points, owners = [], []
    images = [b""] * len(source.label_of)
    persons = source.people is not None
    for label, name, _ in public.classes:
        names = _persons(source, plan, label) if persons else _digests(stored, label)
        for row, unit in _images(source, plan, label, names):
            images[row] = unit
        chunks = list(stored.records(label, public.form)) or [np.empty((0, stored.k, stored.k))]
        kept = []
        for row, unit in enumerate(names):
            if persons or unit not in order:
                kept.append(row)
                order.setdefault(unit, len(order))
                known.setdefault(unit, []).append(f"{label} {name}")
        points.append(np.concatenate(chunks)[kept])
        owners.append(np.array([order[names[row]] for row in kept], np.int64))
    labels = tuple(", ".join(known[unit]) for unit in order)
    return Arrivals(tuple(order), labels, tuple(points), tuple(owners), tuple(images))


def _digests(stored: StoredImages, label: int) -> list[bytes]:
    """Return what the pixels of each image of a class are known by."""
    return [row.tobytes() for chunk in stored.chunks(label) for row in chunk.digests]


def _persons(source: ImageSource, plan: Plan, label: int) -> list[bytes]:
    """Return who the persons of a class are, in the order of their records."""
    assert source.people is not None
    mine = np.flatnonzero(plan.chosen.labels == label)
    begins = np.flatnonzero(np.diff(plan.chosen.units[mine], prepend=-1))
    rows = plan.chosen.rows[mine[begins]]
    return [bytes(person) for person in source.people[rows]]


def _images(
    source: ImageSource, plan: Plan, label: int, names: Sequence[bytes]
) -> Iterable[tuple[int, bytes]]:
    """Return each image of a class, by its row, and what its unit is known by."""
    rows = plan.chosen.rows[plan.chosen.labels == label].tolist()
    units = names if source.people is None else map(bytes, source.people[rows])
    return zip(rows, units, strict=True)
