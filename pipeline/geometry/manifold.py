"""The contract of a manifold: one chart in orthonormal coordinates, and the laws it obeys.

Every mechanism is written once against this Protocol. The laws, for all points p, q and coordinates
u (‖u‖ below the injectivity radius)::

    exp(p, log(p, q)) = q          ‖log(p, q)‖₂ = dist(p, q)          log(p, exp(p, u)) = u
    dist(p, q) = dist(q, p)        dist(p, r) ≤ dist(p, q) + dist(q, r)
    Hadamard:  ‖log(b, p) − log(b, q)‖₂ ≤ dist(p, q)        (log is a contraction)

What only some manifolds offer is a capability: an attribute that others lack. Who needs it asks
for it and raises where it is absent; nothing compares names.

======================  ===========================================================================
``area``                size of geodesic spheres, where all directions are equal: a `SphereArea`
``spectral_order``      k, where volume depends on the eigenvalues of a tangent matrix of order k
``of_shape``            makes the one whose points are arrays of a shape
``of_dimension``        makes one of a given dimension, where experiments simulate records
``small``               the dimension of a small one, on which audits and tests try everything
``embed``, ``unembed``  to and from a vector space of dimension ``embedding_dim``, and ``stretch``:
                        how far an embedded mean moves at most for each unit of distance
``nearest``             nearest point to a vector around it, as embedded
``frechet_descent``     minus the gradient of a Fréchet mean, faster than point by point
``factor_logs``         log of a point given by its factor, which holds digits that its array lost;
                        with ``factors``, ``logs_of_factors`` and ``factor_exp``
``log_reach``           how far from the origin the rounding of a logarithm was measured
``condition``           largest condition number in a ball, where that rounding grows with it
``definite``            makes points definite that rounding left on the border
``unit``                what a point is called, where it is more than a point
``normal_chart``        the manifold seen from its origin, points as coordinates
``coordinates``         such a chart: takes points of its manifold to points of itself
``covariances``         what is known on it of covariance descriptors (``covariances.py``)
======================  ===========================================================================

**SphereArea.** The distance of a random point from a centre has a density that is the area A(ρ) of
the geodesic sphere times the law at that distance. A manifold carries its `SphereArea`, or none if
it is not isotropic.

At the end stands what the manifolds whose points are vectors share: their sizes, and helpers. Next
on the path: the manifolds, one a file, then ``frechet.py``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.errors import ConfigError, DomainError, PrivacyError

Point: TypeAlias = NDArray[Any]
"""Points of a manifold, ``(..., *point_shape)``: float64, complex128 for planar shapes."""


class Manifold(Protocol):
    """A complete Riemannian manifold with its exponential chart.

    All array methods take any leading batch axes and broadcast them against each other. They trust
    their input; `check` is the door.
    """

    def __hash__(self) -> int:
        """Let what follows from a manifold be cached by it."""

    @property
    def name(self) -> str:
        """Key in ``MANIFOLDS``."""

    @property
    def title(self) -> str:
        """Name in tables, with its size."""

    @property
    def metric(self) -> str:
        """Name of its distance."""

    @property
    def dim(self) -> int:
        """Dimension d, the length of a coordinate vector."""

    @property
    def point_shape(self) -> tuple[int, ...]:
        """Shape of the array of one point."""

    @property
    def flat(self) -> bool:
        """True when the manifold is isometric to R^d."""

    @property
    def hadamard(self) -> bool:
        """True when it is simply connected and nowhere positively curved: log is global."""

    @property
    def homogeneous(self) -> bool:
        """True when isometries carry every point to every other: volumes do not depend on it."""

    @property
    def curvature(self) -> tuple[float, float]:
        """Lower and upper bound of the sectional curvature."""

    @property
    def injectivity_radius(self) -> float:
        """Largest radius on which log is defined everywhere, ``inf`` on Hadamard manifolds."""

    @property
    def origin(self) -> Point:
        """A public reference point: the identity matrix, the pole, a regular polygon."""

    def dist(self, p: Point, q: Point) -> FloatArray:
        """Return the geodesic distance, ``(...)``.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            First points.
        q : array, shape (..., *point_shape)
            Second points, broadcast against the first.
        """

    def log(self, base: Point, p: Point) -> FloatArray:
        """Return the coordinates of p in an orthonormal frame at `base`, ``(..., d)``.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Points at which the frame stands.
        p : array, shape (..., *point_shape)
            Points whose coordinates are wanted.

        Raises
        ------
        DomainError
            When p is outside the injectivity radius of `base`.
        """

    def exp(self, base: Point, u: FloatArray) -> Point:
        """Return the end, ``(..., *point_shape)``, of the geodesic from `base` with velocity u.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Points at which the geodesics begin.
        u : array, shape (..., d)
            Velocities, in coordinates of the orthonormal frame at `base`.
        """

    def check(self, points: Point) -> Point:
        """Return `points` in the array type of this manifold if they are on it.

        Parameters
        ----------
        points : array, shape (..., *point_shape)
            Candidate points.

        Raises
        ------
        DomainError
            With the rule that is broken: shape, finiteness or the equation of the manifold.
        """


@runtime_checkable
class EmbeddedManifold(Protocol):
    """A manifold that is in a vector space R^m."""

    @property
    def embedding_metric(self) -> str:
        """Name of the distance of that space."""

    @property
    def embedding_dim(self) -> int:
        """M."""

    def embed(self, points: Point) -> FloatArray:
        """Return points as vectors, ``(..., m)``.

        Parameters
        ----------
        points : array, shape (..., *point_shape)
            Points of the manifold.
        """

    def unembed(self, vectors: FloatArray) -> Point:
        """Return vectors in the array type of points, whether they are on the manifold or not.

        Parameters
        ----------
        vectors : array, shape (..., m)
            Vectors of the surrounding space.
        """

    def stretch(self, largest: float) -> float:
        """Return the largest move of an embedded mean for each unit of distance.

        `largest` bounds what a mean can be as it is stored: its largest eigenvalue, say.

        Parameters
        ----------
        largest : float
            Upper bound on a mean as it is stored, such as its largest eigenvalue.
        """


@runtime_checkable
class FactoredManifold(Protocol):
    """A manifold whose points are given by factors, which hold digits that their arrays lost."""

    def factors(self, points: Point) -> FloatArray:
        """Return the factors of points.

        Parameters
        ----------
        points : array, shape (..., *point_shape)
            Points of the manifold.
        """

    def factor_logs(self, base: Point, factors: FloatArray) -> FloatArray:
        """Return log(base, X), ``(..., d)``, for factors of points X.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Point at which the logarithm is taken.
        factors : array
            Factors of the points X, as `factors` returns them.
        """

    def logs_of_factors(self, factor: FloatArray, factors: FloatArray) -> FloatArray:
        """Return the same at a base that is given by its factor, in a frame of its own.

        Parameters
        ----------
        factor : array
            Factor of the base.
        factors : array
            Factors of the points.
        """

    def factor_exp(self, factor: FloatArray, u: FloatArray) -> FloatArray:
        """Return the factor of the end of a geodesic: `logs_of_factors` taken back.

        Parameters
        ----------
        factor : array
            Factor of the base.
        u : array, shape (..., d)
            Tangent vector in the frame of `logs_of_factors`.
        """


@dataclass(frozen=True)
class SphereArea:
    """The area A(ρ) ∝ Π s_κ(ρ)^m of geodesic spheres, of a space of rank one.

    Along a unit-speed geodesic m Jacobi fields see curvature κ, for each pair (κ, m) of `fields`,
    and grow as s_κ(ρ): sin √κρ, ρ, sinh √−κρ, for κ above, at and below 0.

    ==============  ======================================================
    R^d             ((0, d − 1),)
    H^d             ((−1, d − 1),), which grows as e^{(d−1)ρ}
    S^d             ((1, d − 1),) on [0, π]
    CP^n, d = 2n    ((1, 2n − 2), (4, 1)) on [0, π/2]: sin^{2n−1} ρ · cos ρ
    ==============  ======================================================

    Attributes
    ----------
    fields : tuple of (float, int)
        Curvature κ and multiplicity m of each factor.
    """

    fields: tuple[tuple[float, int], ...]

    @property
    def dim(self) -> int:
        """Dimension d of the manifold."""
        return 1 + sum(count for _, count in self.fields)

    @property
    def curvature(self) -> float | None:
        """κ where it is the same in all directions, else None."""
        return self.fields[0][0] if len(self.fields) == 1 else None

    @property
    def end(self) -> float:
        """Largest distance of two points."""
        bend = max(bend for bend, _ in self.fields)
        return math.pi / math.sqrt(bend) if bend > 0.0 else math.inf

    @property
    def growth(self) -> float:
        """Limit of the derivative of ln A at ∞, 0 where the radius ends: volume grows as e^{cρ}."""
        return math.fsum(count * math.sqrt(max(0.0, -bend)) for bend, count in self.fields)

    def log_area(self, radius: float) -> float:
        """Return ln A(ρ) up to a constant, 0 < ρ < end, without overflow.

        Parameters
        ----------
        radius : float
            Radius ρ of the sphere, in the manifold's distance.
        """
        return math.fsum(count * _field(bend, radius)[0] for bend, count in self.fields)

    def slope(self, radius: float) -> float:
        """Return the derivative of ln A; but for H^d, ln A(ρ) − ρ/σ is concave.

        Parameters
        ----------
        radius : float
            Radius ρ of the sphere, in the manifold's distance.
        """
        return math.fsum(count / _field(bend, radius)[1] for bend, count in self.fields)


def _field(curvature: float, radius: float) -> tuple[float, float]:
    """Return ln s_κ(ρ) up to a constant, and s_κ(ρ) over its derivative."""
    root = math.sqrt(abs(curvature))
    x = root * radius
    if curvature > 0.0:
        return math.log(math.sin(x)), math.tan(x) / root
    if curvature < 0.0:
        return x + math.log(-math.expm1(-2.0 * x) / 2.0), math.tanh(x) / root
    return math.log(radius), radius


def area_of(manifold: Manifold) -> SphereArea:
    """Return the area of geodesic spheres of `manifold`.

    Parameters
    ----------
    manifold : Manifold
        Isotropic manifold.

    Raises
    ------
    PrivacyError
        When it is not isotropic, or does not say so.
    """
    if manifold.flat:
        return SphereArea(((0.0, manifold.dim - 1),))
    area: SphereArea | None = getattr(manifold, "area", None)
    if area is None:
        raise PrivacyError(
            f"no law of distances is known on {manifold.name}, which carries no area of its "
            "geodesic spheres; use a wrapped mechanism, such as ewl or ewg"
        )
    return area


PAIRS_AT_ONCE = 2**18
"""Pairs (place, point) held at once when gradients are taken at many places."""

DescentField: TypeAlias = Callable[[Point], tuple[FloatArray, FloatArray]]
"""Places ``(S, *point_shape)`` → −grad F ``(S, d)`` and Σ w h, a bound of the Hessian, ``(S,)``."""


def in_chunks(field: DescentField, n: int) -> DescentField:
    """Return a field of n points that holds at most `PAIRS_AT_ONCE` pairs at once.

    Parameters
    ----------
    field : DescentField
        Descent field, which maps points to descents and bounds.
    n : int
        Number of data points behind the field.
    """

    def chunked(at: Point) -> tuple[FloatArray, FloatArray]:
        stride = max(1, PAIRS_AT_ONCE // n)
        parts = [field(at[start : start + stride]) for start in range(0, max(1, len(at)), stride)]
        descents, bounds = zip(*parts, strict=True)
        return np.concatenate(descents), np.concatenate(bounds)

    return chunked


Vectors = TypeVar("Vectors", NDArray[np.float64], NDArray[np.complex128])
"""Real or complex vectors, one on each row of the last axis."""

ROUNDING = 1e-8
"""Largest distance from the equation of a manifold that its door takes for rounding."""


def check_size(name: str, value: int, least: int) -> None:
    """Raise `ConfigError` unless `value` is an integer of at least `least`.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : int
        Number to check.
    least : int
        Smallest value that is accepted.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{name} must be an integer of at least {least}, found {value!r}")


def check_vectors(points: NDArray[Any], length: int, dtype: type[Any]) -> NDArray[Any]:
    """Return `points` as a finite ``(..., length)`` array of `dtype`, else raise `DomainError`.

    Parameters
    ----------
    points : array, shape (..., length)
        Candidate points.
    length : int
        Length that the last axis must have.
    dtype : type
        Type of the numbers returned.
    """
    if np.iscomplexobj(points) and not issubclass(dtype, np.complexfloating):
        raise DomainError("points must be real, found complex numbers")
    points = np.asarray(points, dtype=dtype)
    if points.ndim < 1 or points.shape[-1] != length:
        raise DomainError(f"points must have shape (..., {length}), found {points.shape}")
    if not np.isfinite(points).all():
        raise DomainError("points must be finite, found NaN or infinity")
    return points


def norm(vectors: NDArray[Any]) -> FloatArray:
    """Return ‖v‖₂ along the last axis, which is retained.

    Parameters
    ----------
    vectors : array, shape (..., m)
        Real or complex vectors.
    """
    return np.asarray(np.linalg.norm(vectors, axis=-1, keepdims=True))


def dot(v: Vectors, w: Vectors) -> Vectors:
    """Return v* w along the last axis, which is retained (v conjugated when complex).

    Parameters
    ----------
    v : array, shape (..., m)
        Left vectors.
    w : array, shape (..., m)
        Right vectors.
    """
    total: Vectors = (np.conj(v) * w).sum(axis=-1, keepdims=True)
    return total


def direction(vectors: Vectors, length: FloatArray | None = None) -> Vectors:
    """Return v/‖v‖, and the first axis when v = 0; `length` is ‖v‖ where it is known.

    Parameters
    ----------
    vectors : array, shape (..., m)
        Real or complex vectors v.
    length : array, shape (..., 1), optional
        Norms ‖v‖; computed when left out.
    """
    length = norm(vectors) if length is None else length
    turned: Vectors = vectors / np.where(length > 0.0, length, 1.0)
    turned[..., 0] += length[..., 0] == 0.0
    return turned


def superscript(number: int) -> str:
    """Return a number in raised digits.

    Parameters
    ----------
    number : int
        Integer to write.
    """
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


@dataclass(frozen=True)
class SpaceForm:
    """Common part of H^d and S^d: points are vectors of length d + 1, with e₀ for origin.

    Attributes
    ----------
    dim : int
        Dimension d of the manifold.
    """

    dim: int
    flat: ClassVar[bool] = False
    homogeneous: ClassVar[bool] = True
    small: ClassVar[int] = 2
    letter: ClassVar[str]

    def __post_init__(self) -> None:
        check_size("dim", self.dim, 1)

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> Self:
        """Return the one whose points are vectors of length d + 1.

        Parameters
        ----------
        shape : tuple of int
            Shape of one point.
        """
        return cls(shape[-1] - 1)

    @classmethod
    def of_dimension(cls, dim: int) -> Self:
        """Return the one of dimension d.

        Parameters
        ----------
        dim : int
            Dimension d of the manifold.
        """
        return cls(dim)

    @property
    def point_shape(self) -> tuple[int, ...]:
        """``(d + 1,)``."""
        return (self.dim + 1,)

    @property
    def title(self) -> str:
        """``H^d`` or ``S^d``."""
        return f"{self.letter}{superscript(self.dim)}"

    @property
    def origin(self) -> FloatArray:
        """The point e₀ = (1, 0, …, 0)."""
        return np.asarray(np.eye(self.dim + 1)[0])
