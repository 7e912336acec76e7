"""Space forms, of constant curvature: H^d, on the hyperboloid, and the unit sphere S^d."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from covdp.arrays import FloatArray
from covdp.errors import DomainError
from covdp.geometry.manifold import (
    ROUNDING,
    SpaceForm,
    SphereArea,
    check_vectors,
    direction,
    dot,
    norm,
)


class Polar(NamedTuple):
    """Point in polar coordinates around e₀.

    Attributes
    ----------
    space : array, shape (..., d)
        Spatial part.
    sinh : array, shape (..., 1)
        Hyperbolic sine of the distance.
    cosh : array, shape (..., 1)
        Hyperbolic cosine of the distance.
    direction : array, shape (..., d)
        Direction from e₀.
    """

    space: FloatArray
    sinh: FloatArray
    cosh: FloatArray
    direction: FloatArray


def _polar(point: FloatArray) -> Polar:
    """Return a point in polar coordinates; one call, since norms are most of the time of a step."""
    space = point[..., 1:]
    length = norm(space)
    return Polar(space, length, np.hypot(1.0, length), direction(space, length))


def _lift(space: FloatArray) -> FloatArray:
    """Return the time-like coordinate √(1 + ‖x‖²) over x, ``(..., 1)``."""
    return np.hypot(1.0, norm(space))


def _gap(p: Polar, q: Polar) -> FloatArray:
    """Return sinh(b − a), a and b the distances of p and q from the origin, without cancellation.

    sinh b cosh a − cosh b sinh a = (sinh²b − sinh²a)/(sinh b cosh a + cosh b sinh a).
    """
    below = q.sinh * p.cosh + p.sinh * q.cosh
    return dot(q.space - p.space, q.space + p.space) / np.where(below > 0.0, below, 1.0)


def _apart(p: Polar, q: Polar, gap: FloatArray) -> FloatArray:
    """Return the distance of p and q, ``(..., 1)``."""
    angle = norm(q.direction - p.direction) / 2.0
    half = np.hypot(np.sinh(np.arcsinh(gap) / 2.0), np.sqrt(p.sinh * q.sinh) * angle)
    return 2.0 * np.arcsinh(half)


@dataclass(frozen=True)
class Hyperbolic(SpaceForm):
    """H^d = {x ∈ R^{d+1} : −x₀² + x₁² + … + x_d² = −1, x₀ ≥ 1}, dist = arccosh(−⟨p, q⟩_L).

    The frame at a base is the standard frame (e₁, …, e_d) of the origin e₀, moved to the base along
    the geodesic by parallel transport (a Lorentz boost). Isometries: the Lorentz group.

    All formulas are written in polar coordinates around e₀, where nothing cancels: a and b are the
    distances of the base and of p from e₀, n and m their directions, θ the angle between them, and
    sinh²(dist/2) = sinh²((b − a)/2) + sinh a · sinh b · sin²(θ/2). The coordinate x₀ of a point is
    not read but computed from the others.
    """

    letter: ClassVar[str] = "H"
    name: ClassVar[str] = "hyperbolic"
    in_words: ClassVar[str] = "hyperbolic space"
    metric: ClassVar[str] = "hyperbolic"
    log_reach: ClassVar[float] = 10.0
    hadamard: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (-1.0, -1.0)
    injectivity_radius: ClassVar[float] = math.inf

    @property
    def area(self) -> SphereArea:
        """Area of its geodesic spheres."""
        return SphereArea(((-1.0, self.dim - 1),))

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return arccosh(−⟨p, q⟩_L), ``(...)``, accurate for near and for distant points.

        Parameters
        ----------
        p : array, shape (..., d + 1)
            First points.
        q : array, shape (..., d + 1)
            Second points, broadcast against the first.
        """
        low, high = _polar(p), _polar(q)
        return np.asarray(_apart(low, high, _gap(low, high))[..., 0])

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return the coordinates of p in the transported frame at `base`, ``(..., d)``.

        The boost that takes `base` to e₀ takes p to the point with spatial part sinh(b − a) n −
        cosh a sinh b (1 − cos θ) n + sinh b (m − cos θ n).

        Parameters
        ----------
        base : array, shape (..., d + 1)
            Points at which the frame stands.
        p : array, shape (..., d + 1)
            Points whose coordinates are wanted.
        """
        low, high = _polar(base), _polar(p)
        gap, axis = _gap(low, high), low.direction
        turn = high.direction - axis
        along = gap - low.cosh * high.sinh * dot(turn, turn) / 2.0
        moved = along * axis + high.sinh * (turn - dot(turn, axis) * axis)
        return _apart(low, high, gap) * direction(moved)

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return the end of the geodesic from `base` with velocity u, ``(..., d + 1)``.

        Parameters
        ----------
        base : array, shape (..., d + 1)
            Points at which the geodesics begin.
        u : array, shape (..., d)
            Velocities, in coordinates of the frame at `base`.
        """
        low, radius = _polar(base), norm(u)
        axis, heading = low.direction, direction(u, radius)
        side = np.where(dot(heading, axis) < 0.0, -1.0, 1.0)
        turn = heading - side * axis
        along = np.sinh(np.arcsinh(low.sinh) + side * radius)
        along = along - side * low.cosh * np.sinh(radius) * dot(turn, turn) / 2.0
        space = along * axis + np.sinh(radius) * (turn - dot(turn, axis) * axis)
        return np.concatenate([_lift(space), space], axis=-1)

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` ``(..., d + 1)`` if they are on the hyperboloid, x₀ made exact.

        Parameters
        ----------
        points : array, shape (..., d + 1)
            Candidate points.
        """
        points = check_vectors(points, self.dim + 1, np.float64)
        lift = _lift(points[..., 1:])
        if (np.abs(points[..., :1] - lift) > ROUNDING * lift).any():
            raise DomainError(
                "points must be on the hyperboloid, x₀ = √(1 + x₁² + … + x_d²), found one that "
                "does not; put the time-like coordinate first"
            )
        return np.concatenate([lift, points[..., 1:]], axis=-1)


ANTIPODAL = 1e-15
"""Points closer than this to the antipode have no direction from the base in floating point."""


def _flip(base: FloatArray) -> FloatArray:
    """Return signs that turn a base of the lower hemisphere (x₀ < 0) into the upper one."""
    signs = np.ones_like(base)
    signs[..., :2] = np.where(base[..., :1] < 0.0, -1.0, 1.0)
    return signs


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
    def area(self) -> SphereArea:
        """Area of its geodesic spheres."""
        return SphereArea(((1.0, self.dim - 1),))

    @property
    def embedding_dim(self) -> int:
        """D + 1, of the space around the sphere."""
        return self.dim + 1

    def embed(self, points: FloatArray) -> FloatArray:
        """Return points as vectors of the space around the sphere: as they are.

        Parameters
        ----------
        points : array, shape (..., d + 1)
            Points of the sphere.
        """
        return points

    def unembed(self, vectors: FloatArray) -> FloatArray:
        """Return vectors as they are: off the sphere where noise moved them.

        Parameters
        ----------
        vectors : array, shape (..., d + 1)
            Vectors of the space around the sphere.
        """
        return vectors

    def nearest(self, vectors: FloatArray) -> FloatArray:
        """Return the nearest point of the sphere: the vector over its norm.

        Parameters
        ----------
        vectors : array, shape (..., d + 1)
            Vectors of the space around the sphere, none of them 0.
        """
        return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))

    def stretch(self, largest: float) -> float:
        """Return 1: a chord is no longer than its arc.

        Parameters
        ----------
        largest : float
            Largest distance from the origin, unused.
        """
        return 1.0

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return 2·arctan(‖p − q‖/‖p + q‖), ``(...)``: accurate near 0 and near π.

        Parameters
        ----------
        p : array, shape (..., d + 1)
            First points.
        q : array, shape (..., d + 1)
            Second points, broadcast against the first.
        """
        return np.asarray(2.0 * np.arctan2(norm(p - q), norm(p + q))[..., 0])

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return the coordinates of p in the frame at `base`, ``(..., d)``.

        Parameters
        ----------
        base : array, shape (..., d + 1)
            Points at which the frame stands.
        p : array, shape (..., d + 1)
            Points whose coordinates are wanted.

        Raises
        ------
        DomainError
            When p is the antipode of `base`.
        """
        to_antipode = norm(p + base)
        if (to_antipode <= ANTIPODAL).any():
            raise DomainError(
                "log needs points closer than the injectivity radius π, found an antipodal pair; "
                "choose another base"
            )
        signs = _flip(base)
        b, q = signs * base, signs * p
        apart = q - b  # has the tangent part of q, and few digits to lose when q is near
        slope = dot(b[..., 1:], apart[..., 1:]) / (1.0 + b[..., :1])
        moved = apart[..., 1:] - b[..., 1:] * (apart[..., :1] + slope)
        return 2.0 * np.arctan2(norm(apart), to_antipode) * direction(moved)  # as `dist`

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return the end of the geodesic from `base` with velocity u, ``(..., d + 1)``.

        Parameters
        ----------
        base : array, shape (..., d + 1)
            Points at which the geodesics begin.
        u : array, shape (..., d)
            Velocities, in coordinates of the frame at `base`.
        """
        signs = _flip(base)
        b, radius = signs * base, norm(u)
        heading = np.sin(radius) * direction(u)
        slope = dot(b[..., 1:], heading)
        first = b[..., :1] * np.cos(radius) - slope
        rest = heading + b[..., 1:] * (np.cos(radius) - slope / (1.0 + b[..., :1]))
        return signs * direction(np.concatenate([first, rest], axis=-1))

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` ``(..., d + 1)`` if they have norm 1, made exact to rounding.

        Parameters
        ----------
        points : array, shape (..., d + 1)
            Candidate points.
        """
        points = check_vectors(points, self.dim + 1, np.float64)
        if (np.abs(norm(points) - 1.0) > ROUNDING).any():
            raise DomainError("points must have norm 1, found one that has not; divide by the norm")
        return points / norm(points)
