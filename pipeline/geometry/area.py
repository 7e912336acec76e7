"""How large geodesic spheres are, on a manifold that looks alike in all directions.

The distance of a random point from a centre has a density that is the area A(ρ) of the geodesic
sphere times the law at that distance. A manifold carries its `Area`, or none if it does not look
alike in all directions.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from pipeline.errors import PrivacyError
from pipeline.geometry.manifold import Manifold


class Area(Protocol):
    """ln A(ρ) up to a constant, its derivative, where the radius ends, and how A grows."""

    @property
    def dim(self) -> int:
        """Dimension d of the manifold."""

    @property
    def end(self) -> float:
        """Largest distance of two points."""

    @property
    def growth(self) -> float:
        """Limit of the derivative of ln A at ∞, 0 where the radius ends: volume grows as e^{cρ}."""

    def log_area(self, radius: float) -> float:
        """Return ln A(ρ) up to a constant, 0 < ρ < end; ln A(ρ) − ρ/σ is concave."""

    def slope(self, radius: float) -> float:
        """Return the derivative of ln A."""


@dataclass(frozen=True)
class FlatArea:
    """A(ρ) = ρ^{d−1}."""

    dim: int
    end: ClassVar[float] = math.inf
    growth: ClassVar[float] = 0.0

    def log_area(self, radius: float) -> float:
        """Return (d − 1)·ln ρ."""
        return (self.dim - 1) * math.log(radius)

    def slope(self, radius: float) -> float:
        """Return (d − 1)/ρ."""
        return (self.dim - 1) / radius


def area_of(manifold: Manifold) -> Area:
    """Return the area of geodesic spheres of `manifold`.

    Raises
    ------
    PrivacyError
        When it does not look alike in all directions, or does not say so.
    """
    if manifold.flat:
        return FlatArea(manifold.dim)
    area: Area | None = getattr(manifold, "area", None)
    if area is None:
        raise PrivacyError(
            f"no law of distances is known on {manifold.name}, which carries no area of its "
            "geodesic spheres; use a wrapped mechanism, such as ewl or ewg"
        )
    return area
