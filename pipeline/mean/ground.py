"""What is public of the records of a class, in the coordinates in which the work is done.

A mean has it, and so has a stream: each takes these functions for its properties.
"""

from typing import Protocol

from pipeline.geometry import Manifold, Point, chart_of
from pipeline.mean.domain import Domain
from pipeline.mean.prior import Prior, default_prior
from pipeline.mean.region import Region, region


class Ground(Protocol):
    """Where records live, what is publicly known of them, and what follows from it."""

    @property
    def manifold(self) -> Manifold:
        """Where they live."""

    @property
    def domain(self) -> Domain:
        """What is publicly known of them."""

    @property
    def space(self) -> Manifold:
        """As `space_of`."""

    @property
    def region(self) -> Region:
        """As `region_of`."""

    @property
    def prior(self) -> Prior:
        """As `prior_of`."""


def space_of(ground: Ground) -> Manifold:
    """Return where the work is done: the chart of a flat manifold, else the manifold itself."""
    return chart_of(ground.manifold)


def region_of(ground: Ground) -> Region:
    """Return the public, convex region that holds every record, in `space`."""
    return region(ground.domain, ground.space)


def prior_of(ground: Ground) -> Prior:
    """Return what is publicly expected of the records."""
    return default_prior(ground.domain, ground.space)


def centre_of(ground: Ground) -> Point:
    """Return where the records are publicly expected, in `space` and inside the region."""
    return ground.region.inside(ground.space.exp(ground.space.origin, ground.prior.centre))
