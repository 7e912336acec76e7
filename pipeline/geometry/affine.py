"""SPD(k) with the affine-invariant metric."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.arrays import FloatArray
from pipeline.errors import ConvergenceError
from pipeline.geometry import kernels, whitened
from pipeline.geometry.linalg import assemble, cholesky, sym_eig, unvecd
from pipeline.geometry.spd import check_spd
from pipeline.geometry.vectors import check_size


def _where(first: tuple[int, ...], second: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the index pairs, ``(*broadcast shape, 2)``, of two batches broadcast together."""
    indices = [np.arange(math.prod(shape)).reshape(shape) for shape in (first, second)]
    return np.stack(np.broadcast_arrays(*indices), axis=-1)


def _settled(done: bool) -> None:
    if not done:
        raise ConvergenceError(
            f"Jacobi rotations did not settle in {kernels.SWEEPS} sweeps; "
            "bring base and point closer together"
        )


def _frames(lowers: FloatArray) -> FloatArray:
    """Return R = B^{−1/2} C of factors C ``(..., k, k)`` of B."""
    k = lowers.shape[-1]
    stack = lowers.reshape(-1, k, k)
    rotations = np.empty_like(stack)
    _settled(kernels.spread(whitened.frames, len(stack), stack, kernels.rounds(k), rotations))
    return rotations.reshape(lowers.shape)


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
    k, blocks = bases.shape[-1], -(-len(points) // whitened.BLOCK)
    logs, spreads = np.empty((len(bases) * blocks, k, k)), np.empty(len(bases) * blocks)
    turn = len(bases) == 1
    arrays = (bases, points, weights, turn, kernels.rounds(k), logs, spreads)
    _settled(kernels.spread(whitened.sums, len(logs), *arrays, share=1))
    total, spread = np.zeros((len(bases), k, k)), np.zeros(len(bases))
    for block in range(blocks):
        total += logs[block::blocks]
        spread += spreads[block::blocks]
    total += np.tril(total, -1).swapaxes(-1, -2)
    rotations = _frames(bases)
    return rotations @ total @ rotations.swapaxes(-1, -2), spread


@dataclass(frozen=True)
class AffineInvariant:
    """SPD(k) with the affine-invariant metric: dist(X, Y) = ‖log(X^{−1/2} Y X^{−1/2})‖_F.

    Invariant under congruences X ↦ A X Aᵀ (A invertible) and under inversion. The curvature lies in
    [−1/2, 0].

    References
    ----------
    X. Pennec, P. Fillard and N. Ayache, "A Riemannian framework for tensor computing", Int. J.
    Computer Vision 66(1), 2006.
    """

    k: int
    name: ClassVar[str] = "spd-affine-invariant"
    flat: ClassVar[bool] = False
    hadamard: ClassVar[bool] = True
    homogeneous: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (-0.5, 0.0)
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

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖log(p^{−1/2} q p^{−1/2})‖_F, ``(...)``."""
        bases, points = cholesky(p), cholesky(q)
        where = _where(bases.shape[:-2], points.shape[:-2])
        out = np.empty(where.shape[:-1])
        shape = (-1, self.k, self.k)
        arrays = (bases.reshape(shape), points.reshape(shape), where.reshape(-1, 2))
        tail = (kernels.rounds(self.k), out.reshape(-1))
        _settled(kernels.spread(whitened.distances, out.size, *arrays, *tail))
        return out

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return vecd(log(base^{−1/2} p base^{−1/2})), ``(..., d)``."""
        bases, points = cholesky(base), cholesky(p)
        where = _where(bases.shape[:-2], points.shape[:-2])
        out = np.empty((*where.shape[:-1], self.dim))
        shape = (-1, self.k, self.k)
        arrays = (bases.reshape(shape), _frames(bases).reshape(shape), points.reshape(shape))
        tail = (where.reshape(-1, 2), kernels.rounds(self.k), out.reshape(-1, self.dim))
        _settled(kernels.spread(whitened.coordinates, where.size // 2, *arrays, *tail))
        return out

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return base^{1/2} exp(unvecd(u)) base^{1/2}, symmetric to the last bit.

        With base = C Cᵀ and unvecd(u) = V diag(λ) Vᵀ it is W diag(e^λ) Wᵀ, W = base^{1/2} V =
        C Rᵀ V: small eigenvalues of an ill-conditioned base keep their digits.
        """
        lower = cholesky(base)
        values, vectors = sym_eig(unvecd(u))
        columns = lower @ _frames(lower).swapaxes(-1, -2) @ vectors
        return assemble(columns, np.exp(values))

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` if they are SPD ``(..., k, k)``, else raise `DomainError`."""
        return check_spd(points, self.k)
