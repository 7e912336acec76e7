"""The door: the records of one class, checked and put into their public region.

Everything here is computed without noise: none of it may leave. Next on the path: ``single.py``,
which adds noise to a mean of them, and ``rounds.py``, which goes round after round.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pipeline.errors import DomainError, PrivacyError
from pipeline.geometry import (
    FrechetMean,
    InductiveMean,
    Manifold,
    Point,
    flat_chart,
    frechet_mean,
    inductive_mean,
)
from pipeline.mean.domain import Domain, check_domain
from pipeline.mean.prior import Prior, default_prior
from pipeline.mean.region import Region, region

MEAN_TOLERANCE = 1e-9
"""Certificate τ of the Fréchet mean: the least gradient norm asked of `frechet_mean`."""


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records of one class, admitted by `admit`; what is computed of them is kept.

    Attributes
    ----------
    manifold : Manifold
        Where they live.
    domain : Domain
        What is publicly known of them.
    placed : array, shape (n, *space.point_shape)
        They as points of `space`, inside the region.
    """

    manifold: Manifold
    domain: Domain
    placed: Point

    @property
    def n(self) -> int:
        """Number of records (public)."""
        return len(self.placed)

    @cached_property
    def space(self) -> Manifold:
        """Where the work is done: the chart of a flat manifold, else the manifold itself."""
        return flat_chart(self.manifold) if self.manifold.flat else self.manifold

    @cached_property
    def region(self) -> Region:
        """The public, convex region that holds every record, in `space`."""
        return region(self.domain, self.space)

    @cached_property
    def prior(self) -> Prior:
        """What is publicly expected of them."""
        return default_prior(self.domain, self.space)

    @cached_property
    def centre(self) -> Point:
        """Where they are publicly expected, in `space` and inside the region."""
        return self.region.inside(self.space.exp(self.space.origin, self.prior.centre))

    @cached_property
    def stored(self) -> Point:
        """The records as points of the manifold, shape (n, *point_shape)."""
        return self.on_manifold(self.placed)

    @cached_property
    def frechet(self) -> FrechetMean:
        """The certified Fréchet mean, in `space`."""
        return frechet_mean(self.placed, self.space, tolerance=MEAN_TOLERANCE)

    @cached_property
    def inductive(self) -> InductiveMean:
        """A mean that moves by at most D/n with one record: the Fréchet mean where it is flat."""
        self.check_walk()
        if self.space.flat:
            return InductiveMean(self.centre + (self.placed - self.centre).mean(axis=0), 0.0)
        return inductive_mean(self.placed, self.space, condition=self.region.condition)

    @property
    def span(self) -> float:
        """The diameter of what the n records add to the computed log(p, inductive), for every p.

        One replaced record moves it by at most ``span``/n: on a Hadamard manifold log(p, ·) is a
        contraction, so by D/n, D the diameter of the region, and what rounding may add on both data
        sets. The region holds the records as they were computed, so what came before needs no
        margin.
        """
        return self.region.diameter + 2.0 * self.n * self.inductive.rounding

    def check_walk(self) -> None:
        """Raise `PrivacyError` unless the rounding of their inductive mean has a bound.

        It was measured on some manifolds (``geometry/inductive.py``), up to a distance.
        """
        reach: float | None = getattr(self.space, "walk_reach", None)
        if self.space.flat or (reach is not None and self.domain.radius <= reach):
            return
        raise PrivacyError(
            f"the rounding of an inductive mean is not bounded on {self.space.name} for records "
            f"within {self.domain.radius:g} of the origin; use the Fréchet mean, or measure it"
        )

    def on_manifold(self, points: Point) -> Point:
        """Return points of `space` as points of the manifold."""
        if self.space is self.manifold:
            return points
        return self.manifold.exp(self.manifold.origin, points)

    def __repr__(self) -> str:
        """Show no value."""
        return f"Records(n={self.n}, manifold={self.manifold.name!r})"


def admit(points: Point, *, domain: Domain, manifold: Manifold) -> Records:
    """Return the records of one class, each inside the domain's region.

    Parameters
    ----------
    points : array, shape (n, *point_shape)
        The records. Those outside the region are moved to its nearest point, unreported: whether
        one was outside is private.
    domain : Domain
        What is publicly known of them, in the distance of `manifold`.
    manifold : Manifold

    Raises
    ------
    DomainError
        When the domain is that of another manifold or dimension, there is no record, or a record
        has the wrong shape or is not finite.
    """
    check_domain(domain, manifold)
    points = np.asarray(points)
    if points.shape[1:] != manifold.point_shape or len(points) < 1:
        raise DomainError(
            f"a mean needs one record or more, shape (n, {str(manifold.point_shape)[1:-1]}), found "
            f"{points.shape}; leave out empty classes"
        )
    if not np.isfinite(points).all():
        raise DomainError("records must be finite, found NaN or infinity; check the images")
    space = flat_chart(manifold) if manifold.flat else manifold
    if space is not manifold:
        points = manifold.log(manifold.origin, points)
    return Records(manifold, domain, region(domain, space).inside(points))
