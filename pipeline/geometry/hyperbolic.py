"""Hyperbolic space H^d on the hyperboloid."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import DomainError
from pipeline.geometry.manifold import ROUNDING, SpaceForm, check_vectors, direction, dot, norm


class Polar(NamedTuple):
    """A point around e₀: its spatial part, sinh and cosh of its distance, its direction."""

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
class HyperbolicArea:
    """A(ρ) = sinh^{d−1} ρ, which grows as e^{(d−1)ρ}."""

    dim: int
    end: ClassVar[float] = math.inf

    @property
    def growth(self) -> float:
        """D − 1."""
        return float(self.dim - 1)

    def log_area(self, radius: float) -> float:
        """Return (d − 1)·ln sinh ρ, without overflow."""
        return (self.dim - 1) * (radius + math.log(-math.expm1(-2.0 * radius) / 2.0))

    def slope(self, radius: float) -> float:
        """Return (d − 1)·coth ρ."""
        return (self.dim - 1) / math.tanh(radius)


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
    def area(self) -> HyperbolicArea:
        """Area of its geodesic spheres."""
        return HyperbolicArea(self.dim)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return arccosh(−⟨p, q⟩_L), ``(...)``, accurate for near and for far points."""
        low, high = _polar(p), _polar(q)
        return np.asarray(_apart(low, high, _gap(low, high))[..., 0])

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return the coordinates of p in the transported frame at `base`, ``(..., d)``.

        The boost that takes `base` to e₀ takes p to the point with spatial part sinh(b − a) n −
        cosh a sinh b (1 − cos θ) n + sinh b (m − cos θ n).
        """
        low, high = _polar(base), _polar(p)
        gap, axis = _gap(low, high), low.direction
        turn = high.direction - axis
        along = gap - low.cosh * high.sinh * dot(turn, turn) / 2.0
        moved = along * axis + high.sinh * (turn - dot(turn, axis) * axis)
        return _apart(low, high, gap) * direction(moved)

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return the end of the geodesic from `base` with velocity u, ``(..., d + 1)``."""
        low, radius = _polar(base), norm(u)
        axis, heading = low.direction, direction(u, radius)
        side = np.where(dot(heading, axis) < 0.0, -1.0, 1.0)
        turn = heading - side * axis
        along = np.sinh(np.arcsinh(low.sinh) + side * radius)
        along = along - side * low.cosh * np.sinh(radius) * dot(turn, turn) / 2.0
        space = along * axis + np.sinh(radius) * (turn - dot(turn, axis) * axis)
        return np.concatenate([_lift(space), space], axis=-1)

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` ``(..., d + 1)`` if they lie on the hyperboloid, x₀ made exact."""
        points = check_vectors(points, self.dim + 1, np.float64)
        lift = _lift(points[..., 1:])
        if (np.abs(points[..., :1] - lift) > ROUNDING * lift).any():
            raise DomainError(
                "points must lie on the hyperboloid, x₀ = √(1 + x₁² + … + x_d²), found one that "
                "does not; put the time-like coordinate first"
            )
        return np.concatenate([lift, points[..., 1:]], axis=-1)
