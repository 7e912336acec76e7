"""SPD(k) with the two flat metrics: log-Euclidean and log-Cholesky.

Each has global coordinates φ: SPD(k) → R^d, d = k(k + 1)/2, in which it is Euclidean space:
dist(P, Q) = ‖φ(Q) − φ(P)‖, log(B, P) = φ(P) − φ(B), exp(B, u) = φ⁻¹(φ(B) + u).
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray, check_square
from pipeline.errors import DomainError
from pipeline.geometry.linalg import assemble, cholesky, sym_exp, sym_log, unvecd, vecd
from pipeline.geometry.vectors import ROUNDING, check_size


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
    if (excess > ROUNDING * scale[..., :, None] * scale[..., None, :]).any():
        raise DomainError(
            f"matrices must be symmetric, found entries that differ by {excess.max():.3g}; "
            "pass (A + Aᵀ)/2 if that is meant"
        )
    points = (points + points.swapaxes(-1, -2)) / 2.0
    cholesky(points)
    return points


@dataclass(frozen=True)
class Spd:
    """What the metrics on SPD(k) have in common: size, shape, origin, door."""

    k: int
    hadamard: ClassVar[bool] = True
    homogeneous: ClassVar[bool] = True
    injectivity_radius: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        check_size("k", self.k, 1)

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

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` if they are SPD ``(..., k, k)``, else raise `DomainError`."""
        return check_spd(points, self.k)


@dataclass(frozen=True)
class LogEuclidean(Spd):
    """SPD(k) with the log-Euclidean metric: φ(X) = vecd(log X), dist(X, Y) = ‖log X − log Y‖_F.

    Invariant under similarities X ↦ s·Q X Qᵀ (s > 0, Q orthogonal) and under inversion.

    References
    ----------
    V. Arsigny, P. Fillard, X. Pennec and N. Ayache, "Geometric means in a novel vector space
    structure on symmetric positive-definite matrices", SIAM J. Matrix Anal. Appl. 29(1), 2007.
    """

    name: ClassVar[str] = "spd-log-euclidean"
    flat: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖log p − log q‖_F, ``(...)``."""
        return np.asarray(np.linalg.norm(sym_log(p) - sym_log(q), axis=(-2, -1)))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return vecd(log p − log base), ``(..., d)``."""
        return vecd(sym_log(p) - sym_log(base))

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return exp(log base + unvecd(u)), ``(..., k, k)``."""
        return sym_exp(sym_log(base) + unvecd(u))

    def stretch(self, largest: float) -> float:
        """Return ℓ: a matrix moves by at most ℓ·s, for eigenvalues up to ℓ; exp is ℓ-Lipschitz."""
        return largest


@dataclass(frozen=True)
class LogCholesky(Spd):
    """SPD(k) with the log-Cholesky metric, X = L Lᵀ: φ(X) = (log of L's diagonal, L below it).

    The diagonal comes first, then the strict lower triangle row by row, each entry once and
    unscaled: dist(X, Y)² = Σ_i (log L_ii − log M_ii)² + Σ_{i>j} (L_ij − M_ij)². Invariant under
    X ↦ S X S for signs S = diag(±1).

    References
    ----------
    Z. Lin, "Riemannian geometry of symmetric positive definite matrices via Cholesky
    decomposition", SIAM J. Matrix Anal. Appl. 40(4), 2019.
    """

    name: ClassVar[str] = "spd-log-cholesky"
    flat: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖φ(p) − φ(q)‖, ``(...)``."""
        return np.asarray(np.linalg.norm(self.log(p, q), axis=-1))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return φ(p) − φ(base), ``(..., d)``."""
        return self._chart(p) - self._chart(base)

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return φ⁻¹(φ(base) + u), ``(..., k, k)``, symmetric to the last bit."""
        coordinates = self._chart(base) + u
        lower = np.zeros((*coordinates.shape[:-1], self.k, self.k))
        lower[..., range(self.k), range(self.k)] = np.exp(coordinates[..., : self.k])
        rows, columns = np.tril_indices(self.k, -1)
        lower[..., rows, columns] = coordinates[..., self.k :]
        return assemble(lower, np.ones(self.k))

    def stretch(self, largest: float) -> float:
        """Return 2·max(√ℓ, ℓ): dX = dL·Lᵀ + L·dLᵀ with ‖L‖ ≤ √ℓ and ‖dL‖ ≤ max(1, √ℓ)·s."""
        return 2 * max(math.sqrt(largest), largest)

    def _chart(self, points: FloatArray) -> FloatArray:
        lower = cholesky(points)
        rows, columns = np.tril_indices(self.k, -1)
        diagonal = np.diagonal(lower, axis1=-2, axis2=-1)
        return np.concatenate([np.log(diagonal), lower[..., rows, columns]], axis=-1)
