"""SPD(k) with the affine-invariant metric."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConvergenceError
from pipeline.geometry import jacobi
from pipeline.geometry.charts import NormalChart
from pipeline.geometry.cholesky import cholesky
from pipeline.geometry.covariances import SPECTRAL, Covariances
from pipeline.geometry.linalg import assemble, polar, sym_eig, unvecd, vecd
from pipeline.geometry.manifold import DescentField
from pipeline.geometry.spd import Spd
from pipeline.parallel import SHARE, spread


def _where(first: tuple[int, ...], second: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the index pairs, ``(*broadcast shape, 2)``, of two batches broadcast together."""
    found = np.empty((*np.broadcast_shapes(first, second), 2), np.int64)
    for place, shape in enumerate((first, second)):
        found[..., place] = np.arange(math.prod(shape)).reshape(shape)
    return found


def _run(kernel: Callable[..., bool], count: int, *arguments: Any, share: int = SHARE) -> None:
    if not spread(kernel, count, *arguments, share=share):
        raise ConvergenceError(
            "numbers have left the range of floats: base and point are too far apart; bring them "
            "closer together"
        )


def _whitened_logs(bases: FloatArray, factors: FloatArray) -> FloatArray:
    """Return log(C⁻¹ X C⁻ᵀ), ``(..., k, k)``, for factors C of the bases and L of X = L Lᵀ."""
    k = bases.shape[-1]
    where = _where(bases.shape[:-2], factors.shape[:-2])
    logs = np.empty((*where.shape[:-1], k, k))
    stacks = bases.reshape(-1, k, k), factors.reshape(-1, k, k)
    rows, out = where.reshape(-1, 2), logs.reshape(-1, k, k)
    groups = len(rows) // jacobi.SIMD_WIDTH
    share, rest = SHARE // jacobi.SIMD_WIDTH, groups * jacobi.SIMD_WIDTH
    _run(jacobi.logs_side_by_side, groups, *stacks, rows, out, share=share)
    _run(jacobi.logs, len(rows) - rest, *stacks, rows[rest:], out[rest:])
    return logs


def factor_logs(base: FloatArray, factors: FloatArray) -> FloatArray:
    """Return vecd(log(base^{−1/2} X base^{−1/2})), ``(..., d)``, for factors L of X = L Lᵀ.

    A factor holds small eigenvalues to the last digits that a matrix of doubles has lost.
    """
    bases = cholesky(base)
    rotations = polar(bases)
    return vecd(rotations @ _whitened_logs(bases, factors) @ rotations.swapaxes(-1, -2))


def mean_logs(
    bases: FloatArray, points: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return Σ_i w_i log(B^{−1/2} X_i B^{−1/2}) and a bound of the Hessian, for each base B.

    Parameters
    ----------
    bases, points : (S, k, k), (n, k, k) arrays
        Factors: Cholesky factors of the bases B, and L_i with L_i L_iᵀ = X_i. With a single base
        the L_i are overwritten by other factors of the same X_i, which makes the next call from a
        base nearby about twice as fast.
    weights : (n,) array
        w_i ≥ 0 with sum 1.

    Returns
    -------
    (S, k, k), (S,) arrays
        The sums, the same to the last bit for every S and thread count; and Σ_i w_i √(1 + x_i²),
        2x_i the difference of the extreme eigenvalues of the i-th logarithm. The Hessian at B of
        ½ dist(·, X_i)² has eigenvalues between 1 and x_i coth x_i ≤ √(1 + x_i²).
    """
    k, blocks = bases.shape[-1], -(-len(points) // jacobi.BLOCK)
    logs, spreads = np.empty((len(bases) * blocks, k, k)), np.empty(len(bases) * blocks)
    turn = len(bases) == 1
    _run(jacobi.sums, len(logs), bases, points, weights, turn, logs, spreads, share=1)
    total, spreading = np.zeros((len(bases), k, k)), np.zeros(len(bases))
    for block in range(blocks):
        total += logs[block::blocks]
        spreading += spreads[block::blocks]
    rotations = polar(bases)
    return rotations @ total @ rotations.swapaxes(-1, -2), spreading


@dataclass(frozen=True)
class AffineInvariant(Spd):
    """SPD(k) with the affine-invariant metric: dist(X, Y) = ‖log(X^{−1/2} Y X^{−1/2})‖_F.

    Invariant under congruences X ↦ A X Aᵀ (A invertible) and under inversion. The curvature lies in
    [−1/2, 0].

    References
    ----------
    X. Pennec, P. Fillard and N. Ayache, "A Riemannian framework for tensor computing", Int. J.
    Computer Vision 66(1), 2006.
    """

    name: ClassVar[str] = "spd-affine-invariant"
    metric: ClassVar[str] = "affine-invariant"
    covariances: ClassVar[Covariances] = SPECTRAL
    log_reach: ClassVar[float] = math.inf  # the condition number sets the bound instead
    flat: ClassVar[bool] = False
    curvature: ClassVar[tuple[float, float]] = (-0.5, 0.0)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖log(p^{−1/2} q p^{−1/2})‖_F, ``(...)``."""
        return np.asarray(np.linalg.norm(_whitened_logs(cholesky(p), cholesky(q)), axis=(-2, -1)))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return vecd(log(base^{−1/2} p base^{−1/2})), ``(..., d)``."""
        return factor_logs(base, cholesky(p))

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return base^{1/2} exp(unvecd(u)) base^{1/2}, symmetric to the last bit.

        With base = C Cᵀ and unvecd(u) = V diag(λ) Vᵀ it is W diag(e^λ) Wᵀ, W = base^{1/2} V =
        C Rᵀ V: small eigenvalues of an ill-conditioned base keep their digits.
        """
        lower = cholesky(base)
        values, vectors = sym_eig(unvecd(u))
        columns = lower @ polar(lower).swapaxes(-1, -2) @ vectors
        return assemble(columns, np.exp(values))

    def frechet_descent(self, points: FloatArray, weights: FloatArray) -> DescentField:
        """Return minus the gradient of a Fréchet mean, computed on factors of the points."""
        factors = cholesky(points)

        def field(at: FloatArray) -> tuple[FloatArray, FloatArray]:
            descents, bounds = mean_logs(cholesky(at), factors, weights)
            return vecd(descents), bounds

        return field

    def factors(self, points: FloatArray) -> FloatArray:
        """Return lower triangular factors C of points C·Cᵀ."""
        return cholesky(points)

    def logs_of_factors(self, factor: FloatArray, factors: FloatArray) -> FloatArray:
        """Return vecd(log(C⁻¹ X C⁻ᵀ)), ``(..., d)``, for a factor C and factors of points X.

        Logarithms at C·Cᵀ in another frame than that of `log`; `factor_exp` takes them back.
        """
        return vecd(_whitened_logs(factor, factors))

    def factor_exp(self, factor: FloatArray, u: FloatArray) -> FloatArray:
        """Return the triangular factor of C·exp(unvecd(u))·Cᵀ, ``(k, k)``."""
        values, vectors = sym_eig(unvecd(u))
        found = np.empty_like(factor)
        jacobi.triangular((factor @ vectors) * np.exp(values / 2.0), found)
        return found

    def factor_logs(self, base: FloatArray, factors: FloatArray) -> FloatArray:
        """Return log(base, C Cᵀ), ``(..., d)``, for factors C."""
        return factor_logs(base, factors)

    def condition(self, center: FloatArray, radius: float) -> float:
        """Return cond(center)·e^{√2·r}, the largest condition number within r of `center`.

        X = B·exp(S)·B, B² = center and ‖S‖_F ≤ r: the eigenvalues of S are at most √2·r apart.
        """
        spread = math.exp(min(math.sqrt(2.0) * radius, 700.0))
        return float(np.linalg.cond(center)) * spread

    def stretch(self, largest: float) -> float:
        """Return ℓ: dX = X^½ S X^½ along a geodesic, and ℓ bounds the eigenvalues on it too."""
        return largest

    @property
    def spectral_order(self) -> int:
        """k: volume at the centre depends on the eigenvalues λ of a tangent k×k matrix alone.

        Its density is Π_{i<j} sinh(x_ij)/x_ij, x_ij = |λ_i − λ_j|/2.
        """
        return self.k

    def normal_chart(self) -> NormalChart:
        """Return this manifold seen from the identity, points as coordinates."""
        return NormalChart(self.k)
