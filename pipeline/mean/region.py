"""The public region that holds every record, and the map that puts a point back into it.

Each region here is convex for its manifold (in coordinates if flat, along geodesics if not), so it
holds the Fréchet mean of records in it, and the metric projection onto it moves no point farther
from any point of the region: a private mean that is projected is never worse for it, and it costs
no privacy.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.geometry import Manifold, Point
from pipeline.geometry.covariances import Covariances, Facts, covariances_of
from pipeline.mean.domain import CovarianceDomain, Domain, center_of, check_domain


@dataclass(frozen=True)
class Region:
    """A convex set of records.

    Attributes
    ----------
    inside : callable
        The metric projection onto the set, ``(..., *point_shape)`` to the same.
    diameter : float
        D: the largest distance between two of its points.
    condition : float
        Largest condition number of its points, where rounding grows with it; else 1.
    """

    inside: Callable[[Point], Point]
    diameter: float
    condition: float = 1.0


def region(domain: Domain, manifold: Manifold) -> Region:
    """Return the region of `domain`.

    Covariance descriptors lie where the metric says (`Covariances.place`); other records in the
    ball {x : dist(centre, x) ≤ r} around the domain's centre. Balls of a Hadamard manifold are
    convex, and so are those that a mechanism accepts on positive curvature; the projection shortens
    the geodesic from the centre.

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension.
    """
    check_domain(domain, manifold)
    known = covariances_of(manifold)
    if isinstance(domain, CovarianceDomain) and known is not None:
        return _of_covariances(domain, known, manifold)
    return _ball(domain, manifold)


def _of_covariances(domain: CovarianceDomain, known: Covariances, manifold: Manifold) -> Region:
    """Return the metric's place, seen through logarithms where points are matrices.

    Matrices of doubles and their factors miss what a logarithm says: `Domain.rounding` is added to
    the diameter and to the condition.
    """
    place = known.place(Facts(domain.eta, domain.variances, domain.trace))
    diameter = (domain.diameter if place.diameter is None else place.diameter) + place.slack
    condition = place.condition * (1.0 + domain.rounding)
    if hasattr(manifold, "coordinates"):  # a chart: its points are these logarithms
        return Region(place.inside, diameter, condition)

    def inside(points: Point) -> Point:
        before = manifold.log(manifold.origin, points)
        after = place.inside(before)
        moved = (after != before).any(axis=-1)
        if not moved.any():
            return np.array(points)  # what is admitted is ours
        return np.where(_beside(moved, manifold), manifold.exp(manifold.origin, after), points)

    return Region(inside, diameter + 2.0 * domain.rounding, condition)


def _ball(domain: Domain, manifold: Manifold) -> Region:
    radius, center = domain.radius, center_of(domain, manifold)

    def project(points: Point) -> Point:
        spokes = manifold.log(center, points)
        size = np.linalg.norm(spokes, axis=-1, keepdims=True)
        inner = manifold.exp(center, spokes * (radius / np.maximum(size, radius)))
        return np.where(_beside(size[..., 0] > radius, manifold), inner, points)

    condition = getattr(manifold, "condition", None)
    return Region(project, 2.0 * radius, 1.0 if condition is None else condition(center, radius))


def _beside(chosen: NDArray[np.bool_], manifold: Manifold) -> NDArray[np.bool_]:
    """Return one truth a point in a shape that broadcasts against points."""
    return chosen.reshape(chosen.shape + (1,) * len(manifold.point_shape))
