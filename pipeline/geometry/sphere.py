"""The unit sphere S^d."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import DomainError
from pipeline.geometry.manifold import ROUNDING, SpaceForm, check_vectors, direction, dot, norm

ANTIPODAL = 1e-15
"""Points closer than this to the antipode have no direction from the base in floating point."""


def _flip(base: FloatArray) -> FloatArray:
    """Return signs that turn a base of the lower hemisphere (x₀ < 0) into the upper one."""
    signs = np.ones_like(base)
    signs[..., :2] = np.where(base[..., :1] < 0.0, -1.0, 1.0)
    return signs


@dataclass(frozen=True)
class SphericalArea:
    """A(ρ) = sin^{d−1} ρ on [0, π]."""

    dim: int
    end: ClassVar[float] = math.pi
    growth: ClassVar[float] = 0.0

    def log_area(self, radius: float) -> float:
        """Return (d − 1)·ln sin ρ."""
        return (self.dim - 1) * math.log(math.sin(radius))

    def slope(self, radius: float) -> float:
        """Return (d − 1)·cot ρ."""
        return (self.dim - 1) / math.tan(radius)


@dataclass(frozen=True)
class Sphere(SpaceForm):
    """S^d = {x ∈ R^{d+1} : ‖x‖ = 1}, dist = arccos⟨p, q⟩; its pole is e₀ = (1, 0, …, 0).

    The frame at a base b is the standard frame (e₁, …, e_d) of the pole, turned by the rotation
    that takes e₀ to b and moves nothing orthogonal to both; for b₀ < 0 the half turn of the plane
    (e₀, e₁) comes in between, so that the frame is defined (not continuous) everywhere.
    Isometries: the orthogonal group.
    """

    letter: ClassVar[str] = "S"
    name: ClassVar[str] = "sphere"
    in_words: ClassVar[str] = "the unit sphere"
    metric: ClassVar[str] = "great circle"
    hadamard: ClassVar[bool] = False
    curvature: ClassVar[tuple[float, float]] = (1.0, 1.0)
    injectivity_radius: ClassVar[float] = math.pi
    embedding_metric: ClassVar[str] = "chord"

    @property
    def area(self) -> SphericalArea:
        """Area of its geodesic spheres."""
        return SphericalArea(self.dim)

    @property
    def embedding_dim(self) -> int:
        """D + 1, of the space around the sphere."""
        return self.dim + 1

    def embed(self, points: FloatArray) -> FloatArray:
        """Return points as vectors of the space around the sphere: as they are."""
        return points

    def unembed(self, vectors: FloatArray) -> FloatArray:
        """Return vectors as they are: off the sphere where noise moved them."""
        return vectors

    def nearest(self, vectors: FloatArray) -> FloatArray:
        """Return the nearest point of the sphere: the vector over its norm."""
        return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))

    def stretch(self, largest: float) -> float:
        """Return 1: a chord is no longer than its arc."""
        return 1.0

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return 2·arctan(‖p − q‖/‖p + q‖), ``(...)``: accurate near 0 and near π."""
        return np.asarray(2.0 * np.arctan2(norm(p - q), norm(p + q))[..., 0])

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return the coordinates of p in the frame at `base`, ``(..., d)``.

        Raises
        ------
        DomainError
            When p is the antipode of `base`.
        """
        if (norm(p + base) <= ANTIPODAL).any():
            raise DomainError(
                "log needs points closer than the injectivity radius π, found an antipodal pair; "
                "choose another base"
            )
        signs = _flip(base)
        b, q = signs * base, signs * p
        apart = q - b  # has the tangent part of q, and few digits to lose when q is near
        slope = dot(b[..., 1:], apart[..., 1:]) / (1.0 + b[..., :1])
        moved = apart[..., 1:] - b[..., 1:] * (apart[..., :1] + slope)
        return self.dist(base, p)[..., None] * direction(moved)

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return the end of the geodesic from `base` with velocity u, ``(..., d + 1)``."""
        signs = _flip(base)
        b, radius = signs * base, norm(u)
        heading = np.sin(radius) * direction(u)
        slope = dot(b[..., 1:], heading)
        first = b[..., :1] * np.cos(radius) - slope
        rest = heading + b[..., 1:] * (np.cos(radius) - slope / (1.0 + b[..., :1]))
        return signs * direction(np.concatenate([first, rest], axis=-1))

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` ``(..., d + 1)`` if they have norm 1, made exact to rounding."""
        points = check_vectors(points, self.dim + 1, np.float64)
        if (np.abs(norm(points) - 1.0) > ROUNDING).any():
            raise DomainError("points must have norm 1, found one that has not; divide by the norm")
        return points / norm(points)
