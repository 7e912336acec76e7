"""SPD(k) with the two flat metrics: log-Euclidean and log-Cholesky.

Each has global coordinates φ: SPD(k) → R^d, d = k(k + 1)/2, in which it is Euclidean space:
dist(P, Q) = ‖φ(Q) − φ(P)‖, log(B, P) = φ(P) − φ(B), exp(B, u) = φ⁻¹(φ(B) + u).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray, check_square
from pipeline.errors import ConfigError, DomainError
from pipeline.geometry.linalg import cholesky, sym_exp, sym_log, unvecd, vecd

SYMMETRY = 1e-8
"""Largest |A_ij − A_ji| / √(A_ii A_jj) that the door takes for rounding."""


def check_order(k: int) -> None:
    """Raise `ConfigError` unless k is an integer ≥ 1."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise ConfigError(f"k must be an integer of at least 1, found {k!r}")


def check_spd(points: FloatArray, k: int) -> FloatArray:
    """Return `points` as float64 ``(..., k, k)``, exactly symmetric and positive definite.

    Raises
    ------
    DomainError
        When the shape is wrong, or a matrix is not finite, symmetric, positive definite.
    """
    points = check_square(points, k=k)
    scale = np.sqrt(np.abs(np.diagonal(points, axis1=-2, axis2=-1)))
    excess = np.abs(points - points.swapaxes(-1, -2))
    if (excess > SYMMETRY * scale[..., :, None] * scale[..., None, :]).any():
        raise DomainError(
            f"matrices must be symmetric, found entries that differ by {excess.max():.3g}; "
            "pass (A + Aᵀ)/2 if that is meant"
        )
    points = (points + points.swapaxes(-1, -2)) / 2.0
    cholesky(points)
    return points


@dataclass(frozen=True)
class LogEuclidean:
    """SPD(k) with the log-Euclidean metric: φ(X) = vecd(log X), dist(X, Y) = ‖log X − log Y‖_F.

    Invariant under similarities X ↦ s·Q X Qᵀ (s > 0, Q orthogonal) and under inversion.

    References
    ----------
    V. Arsigny, P. Fillard, X. Pennec and N. Ayache, "Geometric means in a novel vector space
    structure on symmetric positive-definite matrices", SIAM J. Matrix Anal. Appl. 29(1), 2007.
    """

    k: int
    name: ClassVar[str] = "spd-log-euclidean"
    flat: ClassVar[bool] = True
    hadamard: ClassVar[bool] = True
    homogeneous: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (0.0, 0.0)
    injectivity_radius: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        check_order(self.k)

    @property
    def dim(self) -> int:
        """Dimension k(k + 1)/2."""
        return self.k * (self.k + 1) // 2

    @property
    def point_shape(self) -> tuple[int, ...]:
        """``(k, k)``."""
        return (self.k, self.k)

    @property
    def origin(self) -> FloatArray:
        """The identity matrix."""
        return np.eye(self.k)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖log p − log q‖_F, ``(...)``."""
        return np.asarray(np.linalg.norm(sym_log(p) - sym_log(q), axis=(-2, -1)))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return vecd(log p − log base), ``(..., d)``."""
        return vecd(sym_log(p) - sym_log(base))

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return exp(log base + unvecd(u)), ``(..., k, k)``."""
        return sym_exp(sym_log(base) + unvecd(u))

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` if they are SPD ``(..., k, k)``, else raise `DomainError`."""
        return check_spd(points, self.k)
