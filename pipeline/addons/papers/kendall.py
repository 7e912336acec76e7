"""Kendall's shape space of planar landmarks, the complex projective space CP^{m−2}."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from covdp.arrays import FloatArray
from covdp.errors import DomainError
from covdp.geometry.manifold import (
    ROUNDING,
    DescentField,
    SphereArea,
    check_size,
    check_vectors,
    direction,
    dot,
    in_chunks,
    norm,
)

ComplexArray: TypeAlias = NDArray[np.complex128]
ORTHOGONAL = 1e-15
"""Below this |z* w| two shapes cannot be aligned in floating point."""


def preshape(landmarks: NDArray[Any]) -> ComplexArray:
    """Return landmarks ``(..., m, 2)``, or ``(..., m)`` complex, as z with Σ z_j = 0 and ‖z‖ = 1.

    Parameters
    ----------
    landmarks : array, shape (..., m, 2) or (..., m)
        Landmarks, real or complex.

    Raises
    ------
    DomainError
        When all landmarks of an outline coincide, or one is not finite.
    """
    landmarks = np.asarray(landmarks)
    if not np.iscomplexobj(landmarks):
        if landmarks.ndim < 2 or landmarks.shape[-1] != 2:
            raise DomainError(f"landmarks must have shape (..., m, 2), found {landmarks.shape}")
        landmarks = landmarks[..., 0] + 1j * landmarks[..., 1]
    centred = landmarks - landmarks.mean(axis=-1, keepdims=True)
    size = norm(centred)
    if not ((size > 0.0) & (size < np.inf)).all():
        raise DomainError(
            "landmarks must be finite and not all equal, found an outline that is not"
        )
    return np.asarray(centred / size, dtype=np.complex128)


def _coordinates(base: ComplexArray, lifts: ComplexArray) -> FloatArray:
    """Return coordinates of the horizontal part of vectors in the frame at `base`, ``(..., d)``."""
    turn = helmert(base.shape[-1]).T  # columns are orthonormal and orthogonal to (1, …, 1)
    moved = _reflect(base @ turn, lifts @ turn)[..., 1:]
    return np.concatenate([moved.real, moved.imag], axis=-1)


def _check_aligned(cosine: FloatArray) -> None:
    """Raise `DomainError` when no rotation aligns two shapes best: their distance is π/2."""
    if (cosine <= ORTHOGONAL).any():
        raise DomainError(
            "log needs shapes closer than the injectivity radius π/2, found a pair at π/2; "
            "choose another base"
        )


def _reflect(axis: ComplexArray, vectors: ComplexArray) -> ComplexArray:
    """Return Q v, Q the Householder reflection that takes the unit vector `axis` to phase · e₁."""
    first = axis[..., :1]
    size = np.abs(first)
    mirror = axis.copy()
    mirror[..., :1] += np.where(size > 0.0, first / np.where(size > 0.0, size, 1.0), 1.0)
    return vectors - mirror * dot(mirror, vectors) / (1.0 + size)


@dataclass(frozen=True)
class Kendall:
    """Shapes of m planar landmarks: z ∈ C^m, Σ z_j = 0, ‖z‖ = 1, up to rotation e^{iα}.

    dist(z, w) = arccos|z* w|. A point is any preshape of its orbit. The tangent space at z is the
    horizontal space {v : Σ v_j = 0, z* v = 0}; its frame is the Helmert basis of the centred
    vectors, reflected so that z becomes the first axis: coordinates are the real, then the
    imaginary parts of the m − 2 others. Two preshapes e^{iα} z of one shape have frames that differ
    by the rotation e^{iα} of these complex numbers. Isometries: the unitary group of the centred
    vectors.

    Attributes
    ----------
    landmarks : int
        Number m of landmarks.

    References
    ----------
    D. G. Kendall, "Shape manifolds, Procrustean metrics, and complex projective spaces", Bull.
    London Math. Soc. 16(2), 1984.
    """

    landmarks: int
    name: ClassVar[str] = "kendall"
    in_words: ClassVar[str] = "the space of planar shapes [@kendall1984]"
    metric: ClassVar[str] = "shape space"
    flat: ClassVar[bool] = False
    hadamard: ClassVar[bool] = False
    homogeneous: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (1.0, 4.0)
    small: ClassVar[int] = 2
    injectivity_radius: ClassVar[float] = math.pi / 2.0

    def __post_init__(self) -> None:
        check_size("landmarks", self.landmarks, 3)

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> Self:
        """Return the shapes of as many landmarks.

        Parameters
        ----------
        shape : tuple of int
            Shape of the points, (..., m).
        """
        return cls(shape[-1])

    @classmethod
    def of_dimension(cls, dim: int) -> Self:
        """Return the shapes of m landmarks, d = 2(m − 2).

        Parameters
        ----------
        dim : int
            Dimension d.
        """
        return cls(dim // 2 + 2)

    @property
    def area(self) -> SphereArea:
        """Area of its geodesic spheres: CP^n, n = m − 2, has sectional curvatures 1 to 4."""
        return SphereArea(((1.0, self.dim - 2), (4.0, 1)))

    @property
    def title(self) -> str:
        """Shapes of m landmarks."""
        return f"shapes of {self.landmarks} landmarks"

    @property
    def dim(self) -> int:
        """Dimension 2(m − 2)."""
        return 2 * (self.landmarks - 2)

    @property
    def point_shape(self) -> tuple[int, ...]:
        """``(m,)``, complex."""
        return (self.landmarks,)

    @property
    def origin(self) -> ComplexArray:
        """The regular polygon with m corners."""
        return preshape(np.exp(2j * math.pi * np.arange(self.landmarks) / self.landmarks))

    def dist(self, p: ComplexArray, q: ComplexArray) -> FloatArray:
        """Return arccos|p* q|, ``(...)``, accurate near 0.

        Parameters
        ----------
        p : array, shape (..., m)
            First shapes.
        q : array, shape (..., m)
            Second shapes, broadcast against the first.
        """
        return np.asarray(np.arctan2(norm(self._lift(p, q)), np.abs(dot(p, q)))[..., 0])

    def log(self, base: ComplexArray, p: ComplexArray) -> FloatArray:
        """Return θ (p e^{iα} − cos θ·base)/sin θ in the frame at `base`, ``(..., d)``.

        α aligns p with `base` (base* p e^{iα} > 0) and θ is their distance.

        Parameters
        ----------
        base : array, shape (..., m)
            Shapes at which the frame stands.
        p : array, shape (..., m)
            Shapes whose coordinates are wanted.

        Raises
        ------
        DomainError
            When the distance is π/2, the injectivity radius: no rotation aligns the two best.
        """
        _check_aligned(np.abs(dot(base, p)))
        heading = direction(_coordinates(base, self._lift(base, p)))
        return self.dist(base, p)[..., None] * heading

    def exp(self, base: ComplexArray, u: FloatArray) -> ComplexArray:
        """Return cos‖u‖·base + sin‖u‖·v, v the unit horizontal vector along u, ``(..., m)``.

        Parameters
        ----------
        base : array, shape (..., m)
            Shapes at which the geodesics begin.
        u : array, shape (..., d)
            Velocities, in coordinates of the frame at `base`.
        """
        turn = helmert(self.landmarks)
        radius, heading = norm(u), direction(u)
        half = self.landmarks - 2
        moved = heading[..., :half] + 1j * heading[..., half:]
        moved = np.concatenate([np.zeros_like(moved[..., :1]), moved], axis=-1)
        lift = _reflect(base @ turn.T, moved) @ turn
        return preshape(np.cos(radius) * base + np.sin(radius) * lift)

    def frechet_descent(self, points: ComplexArray, weights: FloatArray) -> DescentField:
        """Return minus the gradient of a Fréchet mean by two matrix products.

        It is Σ_i w_i log(z, p_i), log(z, p) the horizontal part of θ/sin θ p e^{iα}, and raises
        `DomainError` when a point is at distance π/2 of a place.

        Parameters
        ----------
        points : array, shape (n, m)
            Shapes p_i.
        weights : array, shape (n,)
            Weights w_i.
        """

        def field(at: ComplexArray) -> tuple[FloatArray, FloatArray]:
            inner = at.conj() @ points.T
            cosine = np.abs(inner)
            _check_aligned(cosine)
            angle = np.arccos(np.minimum(cosine, 1.0))
            lifts = (weights * inner.conj() / (cosine * np.sinc(angle / math.pi))) @ points
            return _coordinates(at, lifts), np.ones(len(at))

        return in_chunks(field, len(points))

    def check(self, points: ComplexArray) -> ComplexArray:
        """Return `points` ``(..., m)`` complex if centred with norm 1, exact to rounding.

        Parameters
        ----------
        points : array, shape (..., m)
            Candidate shapes.
        """
        points = check_vectors(points, self.landmarks, np.complex128)
        centre = np.abs(points.mean(axis=-1, keepdims=True))
        if (np.abs(norm(points) - 1.0) > ROUNDING).any() or (centre > ROUNDING).any():
            raise DomainError(
                "shapes must be centred with norm 1, found one that is not; use preshape(landmarks)"
            )
        return preshape(points)

    def _lift(self, base: ComplexArray, p: ComplexArray) -> ComplexArray:
        """Return p e^{iα} − cos θ·base, horizontal at `base`, of norm sin θ."""
        inner = dot(base, p)
        size = np.abs(inner)
        phase = np.where(size > 0.0, np.conj(inner) / np.where(size > 0.0, size, 1.0), 1.0)
        apart = p * phase - base
        return np.asarray(apart - base * dot(base, apart), dtype=np.complex128)
