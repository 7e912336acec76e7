"""What a record is where images are of persons, by series: four ways, to be compared.

Only the first is what a release does. Next on the path: `montecarlo`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry import Manifold, Point
from pipeline.mean import person_records
from pipeline.privacy import Budget, for_one_of_group


class ClassData(NamedTuple):
    """The images of one class, or its simulated records.

    Attributes
    ----------
    label, name
        Of the class.
    points : array, shape (n, *point_shape)
    persons : array, shape (n,), optional
        Whose each point is, those of a person one after another, where the unit is the person.
    """

    label: int
    name: str
    points: NDArray[Any]
    persons: NDArray[np.int64] | None = None

    @property
    def most(self) -> int:
        """The most points of one person."""
        if self.persons is None:
            return 1
        return int(np.unique(self.persons, return_counts=True)[1].max())


@dataclass(frozen=True)
class Unit:
    """One way to make records of the images of persons.

    Attributes
    ----------
    points : callable
        Points, persons and manifold → the records.
    group : bool
        Whether noise is for all records of the person with most of them.
    protects : bool
        Whether a budget spent so protects a person.
    """

    points: Callable[[Point, NDArray[np.int64], Manifold], Point]
    group: bool = False
    protects: bool = True


def _each(points: Point, persons: NDArray[np.int64], manifold: Manifold) -> Point:
    return points


def _first(points: Point, persons: NDArray[np.int64], manifold: Manifold) -> Point:
    """Return the first image of each person: a function of that person's images alone."""
    return np.asarray(points[np.unique(persons, return_index=True)[1]])


UNITS = {
    "persons": Unit(person_records),
    "one image": Unit(_first),
    "images in groups": Unit(_each, group=True),
    "images": Unit(_each, protects=False),
}
"""What `records` of a series may be; where the unit is the image, records are images."""


def records_of(data: ClassData, unit: str, manifold: Manifold) -> Point:
    """Return the records of a class as a series wants them."""
    if data.persons is None:
        return data.points
    return UNITS[unit].points(data.points, data.persons, manifold)


def budget_of(budget: Budget, most: int, unit: str) -> Budget:
    """Return what one record may cost so that a person with `most` costs `budget`, where wanted."""
    return for_one_of_group(budget, most) if UNITS[unit].group else budget
