"""A flat manifold seen through its global chart: the same metric, points as coordinates.

A matrix with eigenvalues e^±60 cannot be held in floats, its logarithm can. Monte Carlo draws with
large noise are therefore made and measured in the chart, where nothing overflows or is rounded off.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import DomainError
from pipeline.geometry.covariances import Covariances, covariances_of
from pipeline.geometry.manifold import Manifold, Point


@dataclass(frozen=True)
class FlatChart:
    """The flat manifold `of`, each point p replaced by log(origin, p) in R^d.

    The map is an isometry, so distances, means and the laws of all intrinsic mechanisms are those
    of `of`; the name is kept for that reason.
    """

    of: Manifold
    flat: ClassVar[bool] = True
    hadamard: ClassVar[bool] = True
    homogeneous: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (0.0, 0.0)
    injectivity_radius: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if not self.of.flat:
            raise DomainError(f"only a flat manifold has a global chart, found {self.of.name}")

    @property
    def name(self) -> str:
        """Name of the manifold that is charted."""
        return self.of.name

    @property
    def title(self) -> str:
        """Title of the manifold that is charted."""
        return self.of.title

    @property
    def metric(self) -> str:
        """Name of the distance, which is the same."""
        return self.of.metric

    @property
    def covariances(self) -> Covariances | None:
        """What is known of covariance descriptors on the manifold that is charted."""
        return covariances_of(self.of)

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.of.dim

    @property
    def point_shape(self) -> tuple[int, ...]:
        """``(d,)``."""
        return (self.dim,)

    @property
    def origin(self) -> FloatArray:
        """The coordinates of the origin: 0."""
        return np.zeros(self.dim)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖p − q‖, ``(...)``."""
        return np.asarray(np.linalg.norm(np.asarray(p) - q, axis=-1))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return p − base, ``(..., d)``."""
        return np.asarray(np.subtract(p, base))

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return base + u, ``(..., d)``."""
        return np.asarray(np.add(base, u))

    def coordinates(self, points: Point) -> FloatArray:
        """Return points of the manifold that is charted as points of this chart."""
        return self.of.log(self.of.origin, points)

    def points(self, coordinates: FloatArray) -> Point:
        """Return points of this chart as points of the manifold, as near as doubles hold them.

        Matrices are definite: what rounding left on the border is moved.
        """
        found = self.of.exp(self.of.origin, coordinates)
        definite = getattr(self.of, "definite", None)
        return found if definite is None else np.asarray(definite(found))

    def check(self, points: Point) -> FloatArray:
        """Return `points` as float64 ``(..., d)`` if they are finite, else raise `DomainError`."""
        out = np.asarray(points, dtype=np.float64)
        if out.ndim < 1 or out.shape[-1] != self.dim or not np.isfinite(out).all():
            raise DomainError(
                f"coordinates must be finite of shape (..., {self.dim}), found {out.shape}"
            )
        return out


def flat_chart(manifold: Manifold) -> Manifold:
    """Return the chart of a flat manifold, or the manifold itself if it is a chart already."""
    return manifold if isinstance(manifold, FlatChart) else FlatChart(manifold)


def chart_of(manifold: Manifold) -> Manifold:
    """Return where points are worked with: the chart of a flat manifold, else the manifold."""
    return flat_chart(manifold) if manifold.flat else manifold


def to_chart(manifold: Manifold, points: Point) -> Point:
    """Return points of a manifold as points of `chart_of` it."""
    if not manifold.flat or isinstance(manifold, FlatChart):
        return points
    return FlatChart(manifold).coordinates(points)


def from_chart(manifold: Manifold, points: Point) -> Point:
    """Return points of `chart_of` a manifold as its points; see `FlatChart.points`."""
    if not manifold.flat or isinstance(manifold, FlatChart):
        return points
    return FlatChart(manifold).points(points)
