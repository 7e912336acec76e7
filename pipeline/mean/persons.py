"""One record a person: the mean of the images that a person has in a class.

A person's record is a function of that person's images alone, rounding included, so that however
many images there are, replacing all of them replaces one record.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DomainError
from pipeline.geometry import Manifold, Point, to_chart


def person_records(points: Point, persons: NDArray[Any], manifold: Manifold) -> Point:
    """Return one point a person, in the order in which they come.

    On a flat manifold it is the mean of the images' coordinates, a point of the chart, (persons,
    d): as a matrix it might be none that doubles hold (``records.py``). On another Hadamard
    manifold it is their inductive mean in the given order, (persons, *point_shape), S_1 = x_1 and
    S_t on the geodesic from S_{t−1} to x_t at 1/t of the way. Both lie in every convex set that
    holds the images (Sturm 2003, for the latter). Whoever has one image is that image, to the last
    bit.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        The images' points; those of a person one after another.
    persons : array, shape (n,)
        Whose each is.
    manifold : Manifold

    Raises
    ------
    DomainError
        When somebody else's images come between those of a person, who would count twice; or a
        person has several images on a manifold of positive curvature.

    References
    ----------
    Sturm, "Probability measures on metric spaces of nonpositive curvature" (2003), section 4.
    """
    begins = np.flatnonzero(np.concatenate([[True], persons[1:] != persons[:-1]]))
    if len(np.unique(persons[begins])) < len(begins):
        raise DomainError(
            "all images of a person must come one after another, found some between those of "
            "another; sort points and persons by person"
        )
    counts = np.diff([*begins, len(points)])
    if manifold.flat:
        return np.add.reduceat(to_chart(manifold, points), begins, axis=0) / counts[:, np.newaxis]
    found = np.array(points[begins])
    if not (counts > 1).any():
        return found
    if not manifold.hadamard:
        raise DomainError(
            f"a person with several images has no record on {manifold.name}: no mean there is sure "
            "to stay in the region; choose a manifold without positive curvature"
        )
    for step in range(2, int(counts.max()) + 1):
        more = np.flatnonzero(counts >= step)
        towards = manifold.log(found[more], points[begins[more] + step - 1])
        found[more] = manifold.exp(found[more], towards / step)
    return found
