"""What is publicly known of the records of a class."""

import math
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DomainError
from pipeline.geometry import Manifold, Point


class Domain(Protocol):
    """The public bound on the records of a class, in the distance of one manifold."""

    @property
    def manifold(self) -> str:
        """Name of the manifold whose distance the bounds are in."""

    @property
    def radius(self) -> float:
        """Bound r ≥ dist(origin, record), the papers' radius."""

    @property
    def diameter(self) -> float:
        """Bound D ≥ dist(record, record)."""


@runtime_checkable
class CovarianceDomain(Domain, Protocol):
    """What is known of covariance descriptors; `pipeline.descriptors.bounds` makes it.

    It may also carry ``typical`` and ``correlations``, what is usual of the descriptor
    (``prior.py``).
    """

    @property
    def descriptor(self) -> str:
        """Name of the descriptor."""

    @property
    def dimension(self) -> int:
        """D = k(k + 1)/2."""

    @property
    def eta(self) -> float:
        """Least eigenvalue η of a record."""

    @property
    def variances(self) -> tuple[float, ...]:
        """Bounds v_j ≥ R_jj − η."""

    @property
    def trace(self) -> float:
        """Bound T ≥ tr(R − η·Id)."""

    @property
    def largest_eigenvalue(self) -> float:
        """Largest eigenvalue of a record."""

    @property
    def rounding(self) -> float:
        """Bound on how far a matrix of doubles, and its computed factor, are from what is meant."""


@dataclass(frozen=True)
class Ball:
    """Records within `radius` of a public centre, the manifold's origin when left out."""

    radius: float
    manifold: str
    center: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def diameter(self) -> float:
        """2r: two records of a ball are at most that far apart, and some are."""
        return 2.0 * self.radius


def center_of(domain: Domain, manifold: Manifold) -> Point:
    """Return the public centre of a domain in `manifold`: its own, else the manifold's origin."""
    own = getattr(domain, "center", None)
    if own is None:
        return manifold.origin
    charted = getattr(manifold, "coordinates", None)
    if charted is not None and np.shape(own) != manifold.point_shape:
        return np.asarray(charted(own))
    return np.asarray(own)


def check_domain(domain: Domain, manifold: Manifold) -> None:
    """Raise `DomainError` unless the bounds of `domain` are in the distance of `manifold`."""
    if domain.manifold != manifold.name:
        raise DomainError(
            f"the domain bounds distances of {domain.manifold}, the mean is taken on "
            f"{manifold.name}; make the domain with manifold={manifold.name!r}"
        )
    if isinstance(domain, CovarianceDomain) and domain.dimension != manifold.dim:
        raise DomainError(
            f"the domain is of {domain.descriptor}, dimension {domain.dimension}, the manifold has "
            f"dimension {manifold.dim}; take k = {len(domain.variances)}"
        )
    if not 0.0 < domain.diameter < math.inf or not 0.0 < domain.radius < math.inf:
        raise DomainError(
            f"a domain needs a finite radius and diameter above 0, found {domain.radius:g} and "
            f"{domain.diameter:g}; without a bound on the records no noise suffices"
        )
