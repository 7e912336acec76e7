"""Manifolds seen through a chart: the same metric, points as coordinates.

`FlatChart` is the global chart of a flat manifold. A matrix with eigenvalues e^±60 cannot be held
in floats, its logarithm can. Monte Carlo draws with large noise are therefore made and measured in
the chart, where nothing overflows or is rounded off.

`NormalChart` is affine-invariant SPD(k) seen from the identity: X is vecd(log X). Noise of a tiny
budget makes matrices whose eigenvalues e^±40 no matrix of doubles can hold side by side; their
logarithms are ordinary numbers. Wrapped mechanisms with footpoint Id need the chart only, and
distances come from factors X = F·Fᵀ, F = Q·e^{Λ/2}: the singular values of C^{−1/2}·F, a matrix
with scaled columns, which Jacobi rotations find to full relative accuracy.

**Affine maps** of coordinates put descriptors of one scanner on the scale of others. In coordinates
u = log(base, X) a map takes u to target + A·(u − centre). On a flat manifold, whose coordinates at
any two bases differ by a constant, that is one affine map of its chart; elsewhere it is affine in
the tangent space at the base.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from covdp.arrays import FloatArray
from covdp.errors import ConvergenceError, DomainError
from covdp.geometry.linalg import sym_log, unvecd, vecd
from covdp.geometry.manifold import Manifold, Point, check_vectors


def _charted(fact: str) -> property:
    """Return what holds of the manifold that is charted, None where it does not say."""
    return property(lambda chart: getattr(chart.manifold, fact, None))


@dataclass(frozen=True)
class Chart:
    """The manifold `manifold`, each point p replaced by log(origin, p) in R^d; the name stays.

    Attributes
    ----------
    manifold : Manifold
        Manifold that is charted.
    """

    manifold: Manifold
    hadamard: ClassVar[bool] = True
    homogeneous: ClassVar[bool] = True
    injectivity_radius: ClassVar[float] = math.inf

    name = _charted("name")
    title = _charted("title")
    metric = _charted("metric")
    covariances = _charted("covariances")
    flat = _charted("flat")
    curvature = _charted("curvature")
    dim = _charted("dim")

    @property
    def point_shape(self) -> tuple[int, ...]:
        """``(d,)``."""
        return (self.dim,)

    @property
    def origin(self) -> FloatArray:
        """The coordinates of the origin: 0."""
        return np.zeros(self.dim)

    def points(self, coordinates: FloatArray) -> Point:
        """Return points of this chart as points of the manifold, as near as doubles hold them.

        Matrices are definite: what rounding left on the border is moved.

        Parameters
        ----------
        coordinates : array, shape (..., d)
            Points of this chart.
        """
        points = self.manifold.exp(self.manifold.origin, coordinates)
        definite = getattr(self.manifold, "definite", None)
        return points if definite is None else np.asarray(definite(points))

    def check(self, points: Point) -> FloatArray:
        """Return `points` as float64 ``(..., d)`` if they are finite, else raise `DomainError`.

        Parameters
        ----------
        points : array, shape (..., d)
            Candidate points of this chart.
        """
        return check_vectors(points, self.dim, np.float64)


@dataclass(frozen=True)
class FlatChart(Chart):
    """The chart of a flat manifold.

    The map is an isometry, so distances, means and the laws of all intrinsic mechanisms are those
    of `manifold`; the name is retained for that reason.
    """

    def __post_init__(self) -> None:
        if not self.manifold.flat:
            raise DomainError(
                f"only a flat manifold has a global chart, found {self.manifold.name}"
            )

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖p − q‖, ``(...)``.

        Parameters
        ----------
        p : array, shape (..., d)
            First points.
        q : array, shape (..., d)
            Second points, broadcast against the first.
        """
        return np.asarray(np.linalg.norm(np.asarray(p) - q, axis=-1))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return p − base, ``(..., d)``.

        Parameters
        ----------
        base : array, shape (..., d)
            Points at which the frame stands.
        p : array, shape (..., d)
            Points whose coordinates are wanted.
        """
        return np.asarray(np.subtract(p, base))

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return base + u, ``(..., d)``.

        Parameters
        ----------
        base : array, shape (..., d)
            Points at which the geodesics begin.
        u : array, shape (..., d)
            Velocities, in coordinates of the orthonormal frame at `base`.
        """
        return np.asarray(np.add(base, u))

    def coordinates(self, points: Point) -> FloatArray:
        """Return points of the manifold that is charted as points of this chart.

        Parameters
        ----------
        points : array, shape (..., *point_shape)
            Points of the manifold.
        """
        return self.manifold.log(self.manifold.origin, points)


def chart_of(manifold: Manifold) -> Manifold:
    """Return the chart of a flat manifold, in which points are worked with, else the manifold.

    A chart is its own.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the points.
    """
    charted = not manifold.flat or isinstance(manifold, FlatChart)
    return manifold if charted else FlatChart(manifold)


def to_chart(manifold: Manifold, points: Point) -> Point:
    """Return points of a manifold as points of `chart_of` it.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the points.
    points : array, shape (..., *point_shape)
        Points of the manifold.
    """
    space: Any = chart_of(manifold)
    return points if space is manifold else space.coordinates(points)


def from_chart(manifold: Manifold, points: Point) -> Point:
    """Return points of `chart_of` a manifold as its points; see `FlatChart.points`.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the points.
    points : array
        Points of `chart_of` the manifold, batch axes first.
    """
    space: Any = chart_of(manifold)
    return points if space is manifold else space.points(points)


@dataclass(frozen=True)
class NormalChart(Chart):
    """The chart of affine-invariant SPD(k), each point X replaced by vecd(log X) in R^d.

    `log` and `exp` are those at the identity, the only footpoint there is here.
    """

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return the distance of one point p ``(d,)``, not far from Id, to points q ``(n, d)``.

        Parameters
        ----------
        p : array, shape (d,)
            One point, not far from 0, which is the identity.
        q : array, shape (n, d)
            Other points.
        """
        values, vectors = np.linalg.eigh(unvecd(p))
        whiten = (vectors * np.exp(-values / 2)) @ vectors.T
        values, vectors = np.linalg.eigh(unvecd(q))
        return np.array(
            [
                np.linalg.norm(2 * _log_singular(whiten @ v, w / 2))
                for v, w in zip(vectors, values, strict=True)
            ]
        )

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return p, the coordinates at the identity.

        Parameters
        ----------
        base : array, shape (d,)
            Origin of the chart, the only base there is.
        p : array, shape (..., d)
            Points of this chart.
        """
        self._at_origin(base)
        return np.asarray(p)

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return u.

        Parameters
        ----------
        base : array, shape (d,)
            Origin of the chart, the only base there is.
        u : array, shape (..., d)
            Velocities, in coordinates of the orthonormal frame at `base`.
        """
        self._at_origin(base)
        return np.asarray(u)

    def coordinates(self, points: FloatArray) -> FloatArray:
        """Return matrices as points of this chart.

        Parameters
        ----------
        points : array, shape (..., k, k)
            SPD matrices.
        """
        return vecd(sym_log(points))

    def _at_origin(self, base: FloatArray) -> None:
        if np.any(base):
            raise DomainError("the normal chart has one footpoint, the identity; leave base out")


def _log_singular(directions: FloatArray, exponents: FloatArray) -> FloatArray:
    """Return the logarithms of the singular values of directions·diag(e^exponents)."""
    matrix = np.asfortranarray(directions * np.exp(exponents))
    values, _, _, work, _, info = lapack.dgejsv(matrix, joba=0, jobu=3, jobv=3, jobr=0)
    if info != 0 or not (values > 0).all():
        raise ConvergenceError(
            f"singular values of e^±{np.abs(exponents).max():.3g} were not found (info {info}); "
            "choose a larger budget"
        )
    return np.asarray(np.log(values) + math.log(work[0] / work[1]))


@dataclass(frozen=True, eq=False)
class AffineMap:
    """An affine map of the coordinates at a base.

    Attributes
    ----------
    manifold : Manifold
        Manifold of the points.
    base : array, shape (*space.point_shape)
        Base of the coordinates, in the chart of a flat manifold.
    centre, target : array, shape (d,)
        A point, and where it is mapped to.
    matrix : array, shape (d, d)
        A.
    """

    manifold: Manifold
    base: NDArray[np.float64]
    centre: FloatArray
    target: FloatArray
    matrix: FloatArray

    def __call__(self, points: Point) -> Point:
        """Return points of the manifold where they are mapped to, (..., *point_shape).

        Each by itself, to the last bit: whatever comes with it, and how many.

        Raises
        ------
        DomainError
            When a point is mapped to one that doubles cannot hold.
        """
        space = chart_of(self.manifold)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = self.move(space.log(self.base, to_chart(self.manifold, points)))
            mapped = from_chart(self.manifold, space.exp(self.base, moved))
        if not np.isfinite(mapped).all():
            raise DomainError(
                "a map must keep descriptors within doubles, found one that leads to infinity; "
                "were the maps changed? Make them again with `covdp harmonise`"
            )
        return mapped

    def move(self, coordinates: FloatArray) -> FloatArray:
        """Return coordinates at the base where they are mapped to, (..., d).

        Parameters
        ----------
        coordinates : array, shape (..., d)
            Coordinates at the base.
        """
        away = (coordinates - self.centre)[..., np.newaxis, :]
        return np.asarray(self.target + (away @ self.matrix.T)[..., 0, :])

    @property
    def digest(self) -> str:
        """Identity of the map: SHA-256 of all that it is, hexadecimal."""
        hasher = hashlib.sha256(f"{self.manifold.name} {self.manifold.dim}".encode())
        for part in (self.base, self.centre, self.target, self.matrix):
            hasher.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
        return hasher.hexdigest()
