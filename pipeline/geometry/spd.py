"""SPD(k) with the flat metrics, log-Euclidean and log-Cholesky, and the affine-invariant one.

The flat ones have global coordinates φ: SPD(k) → R^d, d = k(k + 1)/2, in which SPD(k) is Euclidean
space: dist(P, Q) = ‖φ(Q) − φ(P)‖, log(B, P) = φ(P) − φ(B), exp(B, u) = φ⁻¹(φ(B) + u).
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar, Self

import numpy as np

from covdp.arrays import FloatArray, check_square
from covdp.errors import ConfigError, ConvergenceError, DomainError
from covdp.geometry import jacobi
from covdp.geometry.charts import NormalChart
from covdp.geometry.covariances import SPECTRAL, Covariances, DescriptorSet, Facts
from covdp.geometry.linalg import (
    assemble,
    cholesky,
    polar,
    sym_eig,
    sym_exp,
    sym_log,
    unvecd,
    vecd,
)
from covdp.geometry.manifold import ROUNDING, DescentField, check_size
from covdp.parallel import spread

LEAST = 1e-13
"""Share of the largest eigenvalue that doubles still tell from 0."""


@dataclass(frozen=True)
class Spd:
    """Common part of the metrics on SPD(k): size, shape, origin, door.

    Attributes
    ----------
    k : int
        Number of rows of the matrices.
    """

    k: int
    hadamard: ClassVar[bool] = True
    homogeneous: ClassVar[bool] = True
    small: ClassVar[int] = 3
    injectivity_radius: ClassVar[float] = math.inf
    embedding_metric: ClassVar[str] = "Frobenius"
    unit: ClassVar[str] = "matrix"

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

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> Self:
        """Return SPD(k) of k×k matrices.

        Parameters
        ----------
        shape : tuple of int
            Shape of one point.
        """
        return cls(shape[-1])

    @classmethod
    def of_dimension(cls, dim: int) -> Self:
        """Return SPD(k) of dimension d = k(k + 1)/2; raise `ConfigError` if there is none.

        Parameters
        ----------
        dim : int
            Dimension d of the manifold.
        """
        k = round((math.sqrt(8 * dim + 1) - 1) / 2)
        if k * (k + 1) // 2 != dim:
            raise ConfigError(
                f"SPD(k) has dimension k(k + 1)/2, found {dim}; choose 1, 3, 6, 10, 15, …"
            )
        return cls(k)

    @property
    def title(self) -> str:
        """``SPD(k)``."""
        return f"SPD({self.k})"

    @property
    def embedding_dim(self) -> int:
        """d, of the space of symmetric matrices."""
        return self.dim

    def embed(self, points: FloatArray) -> FloatArray:
        """Return matrices as vectors with their Frobenius norm, ``(..., d)``.

        Parameters
        ----------
        points : array, shape (..., k, k)
            Symmetric matrices.
        """
        return vecd(points)

    def unembed(self, vectors: FloatArray) -> FloatArray:
        """Return vectors as symmetric matrices, not definite where noise moved them.

        Parameters
        ----------
        vectors : array, shape (..., d)
            Coordinates as of `embed`.
        """
        return unvecd(vectors)

    def stretch(self, largest: float) -> float:
        """Return ℓ: a matrix moves by at most ℓ·s, for eigenvalues up to ℓ.

        Log-Euclidean: exp is ℓ-Lipschitz. Affine-invariant: dX = X^½ S X^½ along a geodesic, and ℓ
        bounds the eigenvalues on it too.

        Parameters
        ----------
        largest : float
            Upper bound on the eigenvalues.
        """
        return largest

    @property
    def origin(self) -> FloatArray:
        """The identity matrix."""
        return np.eye(self.k)

    def definite(self, points: FloatArray) -> FloatArray:
        """Return symmetric matrices as matrices that are positive definite in doubles.

        Eigenvalues below `LEAST` of the largest are raised to it; other matrices stay as they are.
        The region of Cholesky factors holds products L·Lᵀ that rounding leaves indefinite.

        Parameters
        ----------
        points : array, shape (..., k, k)
            Symmetric matrices.

        Raises
        ------
        DomainError
            For entries beyond the range of doubles.
        """
        points = check_square(points, k=self.k)
        values, vectors = np.linalg.eigh(points)
        least = LEAST * values[..., -1:]
        low = (values[..., :1] < least)[..., None]
        return np.where(low, assemble(vectors, np.maximum(values, least)), points)

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` as float64 ``(..., k, k)``, exactly symmetric and positive definite.

        Parameters
        ----------
        points : array, shape (..., k, k)
            Candidate matrices.

        Raises
        ------
        DomainError
            When the shape is wrong, or a matrix is not finite, symmetric, positive definite.
        """
        points = check_square(points, k=self.k)
        scale = np.sqrt(np.abs(np.diagonal(points, axis1=-2, axis2=-1)))
        excess = np.abs(points - points.swapaxes(-1, -2))
        if (excess > ROUNDING * scale[..., :, None] * scale[..., None, :]).any():
            raise DomainError(
                f"matrices must be symmetric, found entries that differ by {excess.max():.3g}; "
                "pass (A + Aᵀ)/2 if that is meant, and `covdp.describe` of images"
            )
        points = (points + points.swapaxes(-1, -2)) / 2.0
        cholesky(points)
        return points


@dataclass(frozen=True)
class LogEuclidean(Spd):
    """SPD(k) with the log-Euclidean metric: φ(X) = vecd(log X), dist(X, Y) = ‖log X − log Y‖_F.

    Invariant under similarities X ↦ s·Q X Qᵀ (s > 0, Q orthogonal) and under inversion.

    References
    ----------
    V. Arsigny, P. Fillard, X. Pennec and N. Ayache, "Geometric means in a novel vector space
    structure on symmetric positive-definite matrices", SIAM J. Matrix Anal. Appl. 29(1), 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from covdp import MANIFOLDS
    >>> manifold = MANIFOLDS["spd-log-euclidean"](k=2)
    >>> manifold.dim
    3
    >>> float(manifold.dist(np.eye(2), np.e * np.eye(2)).round(6))
    1.414214
    """

    name: ClassVar[str] = "spd-log-euclidean"
    in_words: ClassVar[str] = (
        "the log-Euclidean metric on symmetric positive definite matrices [@arsigny2007]"
    )
    coordinates_in_words: ClassVar[str] = (
        "entries of the logarithm of the matrix, times √2 off the diagonal"
    )
    metric: ClassVar[str] = "log-Euclidean"
    covariances: ClassVar[Covariances] = SPECTRAL
    flat: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖log p − log q‖_F, ``(...)``.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            First points.
        q : array, shape (..., *point_shape)
            Second points, broadcast against the first.
        """
        return np.asarray(np.linalg.norm(sym_log(p) - sym_log(q), axis=(-2, -1)))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return vecd(log p − log base), ``(..., d)``.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Points at which the frame stands.
        p : array, shape (..., *point_shape)
            Points whose coordinates are wanted.
        """
        return vecd(sym_log(p) - sym_log(base))

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return exp(log base + unvecd(u)), ``(..., k, k)``.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Points at which the geodesics begin.
        u : array, shape (..., d)
            Velocities, in coordinates of the orthonormal frame at `base`.
        """
        return sym_exp(sym_log(base) + unvecd(u))


CONSTANT_WIDTH = 1e-3
"""Scale of ln L_11 = 0 of Gaussian embeddings, so that shapes have no axis 0."""


@dataclass(frozen=True)
class CholeskyCovariances:
    """Facts about covariance descriptors R = L·Lᵀ in log-Cholesky coordinates.

    Schur complements of R are at least η, so η ≤ L_ii² ≤ R_ii ≤ v_i + η, and the strict lower part
    of row i has norm² R_ii − L_ii² ≤ v_i. Two such rows differ by at most 2√v_i; row 1 has no such
    part. Rows x and y are the same for all images. With C the rows from the third on if there is a
    grid, all rows if not, and C₊ = C without row 1,

        D² = 4 Σ_{C₊} v_i + ¼ Σ_C ln²(1 + v_i/η),
        r² = Σ_{C₊} v_i + ¼ Σ_C max(ln² η, ln²(v_i + η)) + ¼ Σ_{i not in C} ln²(v_i + η).

    **Set**: ½ ln η ≤ ln L_ii ≤ ½ ln(v_i + η) and Σ_{j<i} L_ij² ≤ v_i, a product of intervals and
    balls, projected factor by factor; wider than D.

    **Shape**: two points differ by at most D_b in each factor, of dimension m_b, so that
    Σ_b ‖x_b − x'_b‖²/u_b² ≤ Σ_b D_b²/u_b² = 1 for u_b² = S·D_b/√m_b, S = Σ_b √m_b·D_b. Then
    Σ_b m_b·u_b² = S², and no other u does better: by Cauchy and Schwarz
    S² ≤ Σ_b D_b²/u_b² · Σ_b m_b·u_b². With u_b = D for all b it is d·D²: for `oct5` S² is 0.68 of
    that, for `grid9` 0.34.

    **Gaussian embeddings** [[1, mᵀ], [m, Σ + m·mᵀ]] (m as scaled) have the factor
    [[1, 0], [m, chol Σ]]: L_11 = 1, the first column below it is m, and the rest is the factor of
    Σ, of which Σ_ii − η ≤ R_ii − η ≤ v_i. So the set is the product of {0}, of the box of the
    means, 0 ≤ m_i ≤ c·b_i, and of the set of the factors of Σ; D² = D_m² + D_Σ², D_m² = Σ c²b_i²,
    and r² = r_Σ² + D_m². A mean is a factor of its own in the shape, and ln L_11 = 0 one of
    `CONSTANT_WIDTH`: a larger D_b than the set has is one, too.

    Attributes
    ----------
    log_share : float
        Share of one unit of ln R_jj in coordinate j of a diagonal matrix.
    """

    log_share: float = 0.5

    def bounds(self, facts: Facts) -> tuple[float, float]:
        """Return r and D.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """
        eta, means = facts.eta, math.fsum(mean**2 for mean in facts.means)
        free = np.array(facts.variances[max(facts.grid, bool(means)) :])
        fixed = np.array(facts.variances[: facts.grid])
        lower = math.fsum(free if facts.grid else free[1:])
        spread = np.sum(np.log1p(free / eta) ** 2) / 4
        largest = np.sum(np.maximum(np.log(eta) ** 2, np.log(free + eta) ** 2)) / 4
        constant = np.sum(np.log(fixed + eta) ** 2) / 4
        return math.sqrt(lower + largest + constant + means), math.sqrt(4 * lower + spread + means)

    def formulas(self, facts: Facts) -> tuple[str, str, str]:
        """Return the formulas of r and D: Σ over the rows of the factor, Σ₊ without the first.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """
        means = " + Σ c²b²" if facts.means else ""
        grid = " + ¼·Σ ln²(v + η) over the grid" if facts.grid else ""
        radius = f"√(Σ₊ v + ¼·Σ max(ln² η, ln²(v + η)){grid}{means})"
        given = "v the largest variance of a feature, Σ over features"
        given += " beside the grid, Σ₊ the same" if facts.grid else ", Σ₊ without the first"
        given += ", c·b the largest scaled mean of a feature" if facts.means else ""
        return radius, f"√(4·Σ₊ v + ¼·Σ ln²(1 + v/η){means})", given

    def floor(self, facts: Facts) -> float:
        """Return η; a quarter of it where there are means.

        Errors E of entries, |E_ab| ≤ e·√(R_aa·R_bb)/tr R, of R = A·diag(1, Σ)·Aᵀ (`Facts.least`)
        are errors A⁻¹E·A⁻ᵀ of diag(1, Σ). As |m_a| ≤ √R_aa, each entry of these has four terms of
        at most e·√(R_aa·R_bb)/tr R: together at most 4e.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """
        return facts.eta / 4.0 if facts.means else facts.eta

    def rounding(self, relative: float, largest: float) -> float:
        """Return ε(1 + ‖L‖): R̂ = L(Id + F)Lᵀ, ‖F‖_F < ε, has the factor L·(Id + O(ε)).

        Parameters
        ----------
        relative : float
            Error of a matrix in units of η, Frobenius norm.
        largest : float
            Upper bound on the eigenvalues.
        """
        return relative * (1 + math.sqrt(largest))

    def largest(self, radius: float, k: int) -> float:
        """Return k·e^{2r} + r² ≥ ‖L‖_F²: each L_ii is at most e^r, the rest has norm at most r.

        Parameters
        ----------
        radius : float
            Radius r of the ball around the identity, in the metric's distance.
        k : int
            Number of rows of the matrices.
        """
        return k * math.exp(2.0 * radius) + radius**2

    def descriptor_set(self, facts: Facts) -> DescriptorSet:
        """Return the set of factors.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """
        bound, k = np.array(facts.variances), len(facts.variances)
        means, constant = np.array(facts.means), bool(facts.means)
        low, high = np.full(k, 0.5 * math.log(facts.eta)), 0.5 * np.log(bound + facts.eta)
        low[:constant] = high[:constant] = 0.0

        def inside(coordinates: FloatArray) -> FloatArray:
            out = np.array(coordinates)
            out[..., :k] = np.clip(out[..., :k], low, high)
            end = k
            for row in range(1, k):
                if constant:
                    out[..., end] = np.clip(out[..., end], 0.0, means[row - 1])
                block = slice(end + constant, end := end + row)  # a view: sums in one order
                size = np.linalg.norm(out[..., block], axis=-1, keepdims=True)
                limit = math.sqrt(bound[row])
                out[..., block] *= np.where(size > limit, limit / np.maximum(size, limit), 1.0)
            return out

        width = 4.0 * bound[1 + constant :].sum() + np.sum((high - low) ** 2) + np.sum(means**2)
        diameter = math.sqrt(width) * (1 + 1e-12)
        lengths, dims = [*np.maximum(high - low, CONSTANT_WIDTH * constant)], [1] * k
        for row in range(1, k):
            if constant:
                lengths.append(means[row - 1])
                dims.append(1)
            if row > constant:
                lengths.append(2.0 * math.sqrt(bound[row]))
                dims.append(row - constant)
        widths, sizes = np.array(lengths), np.array(dims)
        units = np.sqrt(widths / np.sqrt(sizes) * np.sum(np.sqrt(sizes) * widths))
        shape = np.repeat(units / diameter, sizes) * (1 + 2e-12)
        return DescriptorSet(inside, 0.0, 1.0, diameter, shape)

    def brightness(self, coordinates: FloatArray) -> FloatArray | None:
        """Return the coordinate of L_21 where ln L_11 is 0, as it is of Gaussian embeddings alone.

        Parameters
        ----------
        coordinates : array, shape (d,)
            Descriptor, in coordinates at the identity.
        """
        k = round((math.sqrt(8 * len(coordinates) + 1) - 1) / 2)
        return np.eye(1, len(coordinates), k)[0] if coordinates[0] == 0.0 else None

    def scales(self, diagonal: FloatArray, others: float, logs: FloatArray) -> FloatArray:
        """Return scales: ln of a deviation is half that of a variance; L_ij is ρ_ij times one.

        Parameters
        ----------
        diagonal : array, shape (k, k)
            Scales along the logarithms of the variances.
        others : float
            Scale along every other coordinate.
        logs : array, shape (k,)
            Logarithms of typical variances.
        """
        k = len(logs)
        d = k * (k + 1) // 2
        shape = others * np.eye(d)
        shape[:k, :k] = diagonal / math.sqrt(2.0)
        rows, _ = _below(k)
        shape[range(k, d), range(k, d)] = others * np.exp(logs[rows] / 4.0)
        return shape


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
    in_words: ClassVar[str] = (
        "the log-Cholesky metric on symmetric positive definite matrices [@lin2019]"
    )
    coordinates_in_words: ClassVar[str] = (
        "of the lower Cholesky factor: logarithms of the diagonal, and the entries below it"
    )
    metric: ClassVar[str] = "log-Cholesky"
    covariances: ClassVar[Covariances] = CholeskyCovariances()
    flat: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖φ(p) − φ(q)‖, ``(...)``.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            First points.
        q : array, shape (..., *point_shape)
            Second points, broadcast against the first.
        """
        return np.asarray(np.linalg.norm(self.log(p, q), axis=-1))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return φ(p) − φ(base), ``(..., d)``.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Points at which the frame stands.
        p : array, shape (..., *point_shape)
            Points whose coordinates are wanted.
        """
        return self._chart(p) - self._chart(base)

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return φ⁻¹(φ(base) + u), ``(..., k, k)``, symmetric to the last bit.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Points at which the geodesics begin.
        u : array, shape (..., d)
            Velocities, in coordinates of the orthonormal frame at `base`.
        """
        coordinates = self._chart(base) + u
        lower = np.zeros((*coordinates.shape[:-1], self.k, self.k))
        lower[..., range(self.k), range(self.k)] = np.exp(coordinates[..., : self.k])
        rows, columns = _below(self.k)
        lower[..., rows, columns] = coordinates[..., self.k :]
        return assemble(lower, np.ones(self.k))

    def stretch(self, largest: float) -> float:
        """Return 2·max(√ℓ, ℓ): dX = dL·Lᵀ + L·dLᵀ with ‖L‖ ≤ √ℓ and ‖dL‖ ≤ max(1, √ℓ)·s.

        Parameters
        ----------
        largest : float
            Upper bound on the eigenvalues.
        """
        return 2 * max(math.sqrt(largest), largest)

    def _chart(self, points: FloatArray) -> FloatArray:
        lower = cholesky(points)
        rows, columns = _below(self.k)
        diagonal = np.diagonal(lower, axis1=-2, axis2=-1)
        return np.concatenate([np.log(diagonal), lower[..., rows, columns]], axis=-1)


_below = lru_cache(maxsize=64)(partial(np.tril_indices, k=-1))
"""Rows and columns, row by row, of the entries below the diagonal of k × k."""


def _check_range(within: bool) -> None:
    if not within:
        raise ConvergenceError(
            "numbers have left the range of floats: base and point are too distant; bring them "
            "closer together"
        )


def _whitened_logs(
    bases: FloatArray, factors: FloatArray, rotations: FloatArray | None = None
) -> FloatArray:
    """Return vecd(R log(C⁻¹ X C⁻ᵀ) Rᵀ), ``(..., d)``, for factors C of the bases and L of X = L Lᵀ.

    Each base has its own R; without `rotations` it is the identity.
    """
    k = bases.shape[-1]
    turns = np.broadcast_to(np.eye(k) if rotations is None else rotations, bases.shape)
    stacks = bases.reshape(-1, k, k), turns.reshape(-1, k, k), factors.reshape(-1, k, k)
    base, point = (np.arange(len(stack)) for stack in stacks[1:])
    pairs = np.broadcast_arrays(base.reshape(bases.shape[:-2]), point.reshape(factors.shape[:-2]))
    where = np.stack(pairs, axis=-1).reshape(-1, 2)  # which base and which factor
    logs = np.empty((len(where), k * (k + 1) // 2))
    _check_range(jacobi.spread_groups(jacobi.logs, len(where), *stacks, where, logs))
    return logs.reshape(*pairs[0].shape, logs.shape[1])


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
    weights : array, shape (n,)
        Weights w_i ≥ 0 with sum 1.

    Returns
    -------
    (S, k, k), (S,) arrays
        The sums, the same to the last bit for every S and thread count; and Σ_i w_i √(1 + x_i²),
        2x_i the difference of the extreme eigenvalues of the i-th logarithm. The Hessian at B of
        ½ dist(·, X_i)² has eigenvalues between 1 and x_i coth x_i ≤ √(1 + x_i²).
    """
    k, blocks = bases.shape[-1], -(-len(points) // jacobi.POINTS_SUMMED)
    logs, spreads = np.empty((len(bases) * blocks, k, k)), np.empty(len(bases) * blocks)
    turn = len(bases) == 1
    _check_range(
        spread(jacobi.sums, len(logs), bases, points, weights, turn, logs, spreads, share=1)
    )
    total, spreading = np.zeros((len(bases), k, k)), np.zeros(len(bases))
    for block in range(blocks):
        total += logs[block::blocks]
        spreading += spreads[block::blocks]
    rotations = polar(bases)
    return rotations @ total @ rotations.swapaxes(-1, -2), spreading


@dataclass(frozen=True)
class AffineInvariant(Spd):
    """SPD(k) with the affine-invariant metric: dist(X, Y) = ‖log(X^{−1/2} Y X^{−1/2})‖_F.

    Invariant under congruences X ↦ A X Aᵀ (A invertible) and under inversion. The curvature is in
    [−1/2, 0].

    References
    ----------
    X. Pennec, P. Fillard and N. Ayache, "A Riemannian framework for tensor computing", Int. J.
    Computer Vision 66(1), 2006.
    """

    name: ClassVar[str] = "spd-affine-invariant"
    in_words: ClassVar[str] = (
        "the affine-invariant metric on symmetric positive definite matrices [@pennec2006]"
    )
    coordinates_in_words: ClassVar[str] = (
        "entries of log(M^(-1/2) X M^(-1/2)), times √2 off the diagonal, of a matrix X around the "
        "mean M"
    )
    metric: ClassVar[str] = "affine-invariant"
    covariances: ClassVar[Covariances] = SPECTRAL
    log_reach: ClassVar[float] = math.inf  # the condition number sets the bound instead
    flat: ClassVar[bool] = False
    curvature: ClassVar[tuple[float, float]] = (-0.5, 0.0)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖log(p^{−1/2} q p^{−1/2})‖_F, ``(...)``.

        Parameters
        ----------
        p : array, shape (..., *point_shape)
            First points.
        q : array, shape (..., *point_shape)
            Second points, broadcast against the first.
        """
        return np.asarray(np.linalg.norm(_whitened_logs(cholesky(p), cholesky(q)), axis=-1))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return vecd(log(base^{−1/2} p base^{−1/2})), ``(..., d)``.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Points at which the frame stands.
        p : array, shape (..., *point_shape)
            Points whose coordinates are wanted.
        """
        return self.factor_logs(base, cholesky(p))

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return base^{1/2} exp(unvecd(u)) base^{1/2}, symmetric to the last bit.

        With base = C Cᵀ and unvecd(u) = V diag(λ) Vᵀ it is W diag(e^λ) Wᵀ, W = base^{1/2} V =
        C Rᵀ V: small eigenvalues of an ill-conditioned base keep their digits.

        Parameters
        ----------
        base : array, shape (..., *point_shape)
            Points at which the geodesics begin.
        u : array, shape (..., d)
            Velocities, in coordinates of the orthonormal frame at `base`.
        """
        lower = cholesky(base)
        values, vectors = sym_eig(unvecd(u))
        columns = lower @ polar(lower).swapaxes(-1, -2) @ vectors
        return assemble(columns, np.exp(values))

    def frechet_descent(self, points: FloatArray, weights: FloatArray) -> DescentField:
        """Return minus the gradient of a Fréchet mean, computed on factors of the points.

        Parameters
        ----------
        points : array, shape (n, k, k)
            SPD matrices.
        weights : array, shape (n,)
            Weights, of sum 1.
        """
        factors = cholesky(points)

        def field(at: FloatArray) -> tuple[FloatArray, FloatArray]:
            descents, bounds = mean_logs(cholesky(at), factors, weights)
            return vecd(descents), bounds

        return field

    def factors(self, points: FloatArray) -> FloatArray:
        """Return lower triangular factors C of points C·Cᵀ.

        Parameters
        ----------
        points : array, shape (n, k, k)
            SPD matrices.
        """
        return cholesky(points)

    def logs_of_factors(self, factor: FloatArray, factors: FloatArray) -> FloatArray:
        """Return vecd(log(C⁻¹ X C⁻ᵀ)), ``(..., d)``, for a factor C and factors of points X.

        Logarithms at C·Cᵀ in another frame than that of `log`; `factor_exp` takes them back.

        Parameters
        ----------
        factor : array, shape (k, k)
            Lower triangular factor C of the base C·Cᵀ.
        factors : array, shape (n, k, k)
            Lower triangular factors of points X.
        """
        return _whitened_logs(factor, factors)

    def factor_exp(self, factor: FloatArray, u: FloatArray) -> FloatArray:
        """Return the triangular factor of C·exp(unvecd(u))·Cᵀ, ``(k, k)``.

        Parameters
        ----------
        factor : array, shape (k, k)
            Lower triangular factor C of the base C·Cᵀ.
        u : array, shape (d,)
            Velocity, in the frame of `logs_of_factors`.
        """
        values, vectors = sym_eig(unvecd(u))
        lower = np.empty_like(factor)
        jacobi.triangular((factor @ vectors) * np.exp(values / 2.0), lower)
        return lower

    def factor_logs(self, base: FloatArray, factors: FloatArray) -> FloatArray:
        """Return vecd(log(base^{−1/2} X base^{−1/2})), ``(..., d)``, for factors L of X = L Lᵀ.

        A factor holds small eigenvalues to the last digits that a matrix of doubles has lost.

        Parameters
        ----------
        base : array, shape (..., k, k)
            SPD matrices at which the frame stands.
        factors : array, shape (..., k, k)
            Lower triangular factors L of points X = L Lᵀ.
        """
        bases = cholesky(base)
        return _whitened_logs(bases, factors, polar(bases))

    def condition(self, center: FloatArray, radius: float) -> float:
        """Return cond(center)·e^{√2·r}, the largest condition number within r of `center`.

        X = B·exp(S)·B, B² = center and ‖S‖_F ≤ r: the eigenvalues of S are at most √2·r apart.

        Parameters
        ----------
        center : array, shape (k, k)
            Centre of the ball, an SPD matrix.
        radius : float
            Radius r of the ball around `center`, in the metric's distance.
        """
        spread = math.exp(min(math.sqrt(2.0) * radius, 700.0))
        return float(np.linalg.cond(center)) * spread

    def jacobi_operator(self, moment: FloatArray) -> FloatArray:
        """Return the mean of R(·, u)u over vectors u of a second moment, (d, d).

        That is −¼·[u, [u, ·]], as at the identity; the sectional curvature is ⟨R(v, u)u, v⟩.

        Parameters
        ----------
        moment : array, shape (d, d)
            Second moment of tangent vectors, in coordinates.
        """
        values, vectors = np.linalg.eigh(moment)
        basis, total = unvecd(np.eye(self.dim)), np.zeros((self.dim, self.dim))
        for value, u in zip(values, unvecd(vectors.T), strict=True):
            square = u @ u
            total -= value / 4.0 * vecd(square @ basis + basis @ square - 2.0 * u @ basis @ u)
        return total

    @property
    def spectral_order(self) -> int:
        """k: volume at the centre depends on the eigenvalues λ of a tangent k×k matrix alone.

        Its density is Π_{i<j} sinh(x_ij)/x_ij, x_ij = |λ_i − λ_j|/2.
        """
        return self.k

    def normal_chart(self) -> NormalChart:
        """Return this manifold seen from the identity, points as coordinates."""
        return NormalChart(self)
