"""Facts of a metric on SPD(k) about covariance descriptors: how far apart they can be, and where.

Nothing here sees data. What is used of a descriptor: R − η·Id is a covariance matrix of bounded
features, so R ⪰ η·Id; its diagonal is at most v_1, …, v_k, so tr(R − η·Id) ≤ T = Σ v_j; and grid
coordinates x, y that lead the features have fixed variances and covariance 0. A metric carries its
`Covariances`: `SPECTRAL` here, log-Cholesky's in its own file.

**Radius, log-Euclidean and affine-invariant.** λ_max(R) ≤ η + max ‖φ‖² ≤ B + η (the mean of
‖φ − μ‖² is at most that of ‖φ‖²), so each eigenvalue has |ln λ| ≤ max(|ln η|, |ln(B + η)|) and

    dist(R, Id) = ‖log R‖_F ≤ r = √k · max(|ln η|, |ln(B + η)|).

**Diameter, log-Euclidean and affine-invariant.** Let a_1 ≥ … ≥ a_k be the eigenvalues of R, and
b_1 ≤ … ≤ b_k those of R', in opposite order. Then

    dist(R, R')² ≤ Σ_i (ln a_i − ln b_i)².

Log-Euclidean: tr(XY) ≥ Σ x_i y_i for symmetric X, Y with eigenvalues in opposite order (von
Neumann), and ‖X − Y‖² = ‖X‖² + ‖Y‖² − 2 tr(XY). Affine-invariant: the logarithms of the
eigenvalues of R'⁻¹R are majorised by ln a_i − ln b_i (Gelfand and Naimark), and Σ z² is
Schur-convex. Now write a_i = η(1 + s_i), b_i = η(1 + t_i) with s, t ≥ 0, Σ s ≤ τ, Σ t ≤ τ,
τ = T/η, and f(z) = ln²(1 + z), which increases. As both logarithms are ≥ 0, a term is at most the
larger of f(s_i), f(t_i). If s_i ≥ t_i for p of the indices, the sum is at most the sum of f(s_i)
over these plus that of f(t_i) over the other k − p. f is below its concave envelope g, which is
the tangent from the origin up to z* = 3.92… and f itself from there on; so by Jensen m terms of
total at most τ sum to at most m·g(τ/m). Hence

    D² = max over p = 0..k of p·g(τ/p) + (k − p)·g(τ/(k − p)),

or k·ln²(1 + τ) if that is less (τ below about k/2), from |ln a_i − ln b_i| ≤ ln(1 + τ). As
m·g(τ/m) is concave in m, the maximum is at p = ⌊k/2⌋. If τ/k ≥ 4, which is η ≤ T/(4k), g is f in
all terms, and diagonal matrices with ⌊k/2⌋ and ⌈k/2⌉ equal excesses reach D.

**What the grid does not give.** By Cauchy's interlacing the fixed block diag(v_x, v_y) forces the
two largest eigenvalues of R up to η + v_x, η + v_y. For the pair (s, t) that rules out p < 2 and
p > k − 2 only, and the maximum is between: interlacing does not shrink D. Some matrices that obey
the trace bound and do have the fixed block are 0.985·D apart (a test builds them), so that no
argument from these facts could shrink it by more than 1.5 %.

**The nearest spectrum that a record can have**: least change of log-eigenvalues under two bounds.
Given w, find a with a_i ≥ ℓ and Σ e^{a_i} ≤ t that minimises ‖a − w‖. The set is convex, so there
is one. By the Karush-Kuhn-Tucker conditions a_i = max(ℓ, x_i) with x_i + λ e^{x_i} = w_i for the
least λ ≥ 0 that obeys the sum; the sum falls in λ, and λ is bracketed by bisection.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import wrightomega

from covdp.arrays import FloatArray
from covdp.geometry.linalg import assemble, sym_eig_unordered, unvecd, vecd

TANGENT = 3.9215536345675051
"""z*, where the tangent of ln²(1 + z) goes through the origin: ln(1 + z) = 2z/(1 + z)."""
SPECTRUM_TOLERANCE = 1e-6
"""A spectrum whose logarithms are this near to the region stays as it is, to the last bit."""


class Facts(NamedTuple):
    """Public facts about covariance descriptors.

    Attributes
    ----------
    eta : float
        η, the least eigenvalue.
    variances : tuple of float
        v_j ≥ R_jj − η.
    trace : float
        T ≥ Σ v_j.
    norm_bound : float
        B ≥ max ‖φ‖², of the papers' radius.
    grid : int
        Number of leading features that are grid coordinates.
    means : tuple of float
        c·b_j, largest scaled mean of each feature after the first, of Gaussian embeddings; empty of
        covariances. Then η is the least eigenvalue of Σ, R_11 = 1, and means are at least 0.
    """

    eta: float
    variances: tuple[float, ...]
    trace: float
    norm_bound: float = math.inf
    grid: int = 0
    means: tuple[float, ...] = ()

    @property
    def least(self) -> float:
        """Least eigenvalue: η, or of Gaussian embeddings min(1, η)/(2 + Σ means²).

        R = A·diag(1, Σ)·Aᵀ, A = [[1, 0], [m, Id]] with m as scaled, so λ_min(R) ≥ min(1, η)/‖A⁻¹‖²,
        and ‖A⁻¹‖² = 1 + ½t + √(t + ¼t²) ≤ 2 + t with t = ‖m‖².
        """
        if not self.means:
            return self.eta
        return min(1.0, self.eta) / (2.0 + math.fsum(mean**2 for mean in self.means))


class DescriptorSet(NamedTuple):
    """A convex set of coordinates at the identity that holds every descriptor.

    Attributes
    ----------
    inside : callable
        The metric projection onto it, ``(..., d)`` to the same.
    slack : float
        Length that its tolerance adds to the diameter D.
    condition : float
        Largest condition number of its matrices.
    diameter : float or None
        The set's own diameter where it is not D.
    shape : array, shape (d,), or 1
        Half axes of an ellipsoid over ½D such that no two points x, x' of the set are farther apart
        than ‖(x − x')/shape‖ = D; of several, that of least mean square axis.
    """

    inside: Callable[[FloatArray], FloatArray]
    slack: float
    condition: float
    diameter: float | None = None
    shape: FloatArray | float = 1.0


class Covariances(Protocol):
    """Facts about covariance descriptors in one metric, in coordinates at the identity."""

    @property
    def log_share(self) -> float:
        """Share of one unit of ln R_jj in coordinate j of a diagonal matrix."""

    def bounds(self, facts: Facts) -> tuple[float, float]:
        """Return r ≥ dist(R, Id) and D ≥ dist(R, R').

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """

    def formulas(self, facts: Facts) -> tuple[str, str, str]:
        """Return the formulas of `bounds` as text: right-hand sides for r and D, and their symbols.

        Symbols other than η are explained.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """

    def floor(self, facts: Facts) -> float:
        """Return the scale that errors of matrices are compared with: η, less if there are means.

        It is at most the exponential of coordinate j of a descriptor's, over `log_share`, j ≤ k.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """

    def rounding(self, relative: float, largest: float) -> float:
        """Return the error of coordinates; of matrices it is `relative` of η in Frobenius norm.

        `largest` bounds the eigenvalues.

        Parameters
        ----------
        relative : float
            Error of a matrix in units of η, Frobenius norm.
        largest : float
            Upper bound on the eigenvalues.
        """

    def largest(self, radius: float, k: int) -> float:
        """Return a bound on the eigenvalues of k×k matrices within `radius` of the identity.

        Parameters
        ----------
        radius : float
            Radius r of the ball around the identity, in the metric's distance.
        k : int
            Number of rows of the matrices.
        """

    def descriptor_set(self, facts: Facts) -> DescriptorSet:
        """Return the set that holds every descriptor.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """

    def brightness(self, coordinates: FloatArray) -> FloatArray | None:
        """Return along which of the coordinates at the identity the first mean is, (d,).

        None where they are of no Gaussian embedding, or it is along none.

        Parameters
        ----------
        coordinates : array, shape (d,)
            Descriptor, in coordinates at the identity.
        """

    def scales(self, diagonal: FloatArray, others: float, logs: FloatArray) -> FloatArray:
        """Return expected relative scales of the coordinates, ``(d, d)``, for the prior.

        Parameters
        ----------
        diagonal : array, shape (k, k)
            Scales of log-variances.
        others : float
            Scale of a correlation.
        logs : array, shape (k,)
            Expected log-variances.
        """


@dataclass(frozen=True)
class SpectralMetric:
    """The log-Euclidean and the affine-invariant metric: see the top of this file.

    **Set**: {X : X ⪰ η·Id, tr X ≤ T + kη}. It is convex in log X, as λ_min is concave and tr exp
    is convex; and along affine-invariant geodesics X #_t Y, as X, Y ⪰ η·Id gives X #_t Y ⪰ η·Id
    (the geometric mean is monotone) and tr(X #_t Y) ≤ tr(X)^{1−t}·tr(Y)^t. In both metrics
    dist(X, Y) ≥ ‖ln λ(X) − ln λ(Y)‖ for ordered spectra (Lidskii; Gelfand and Naimark), with
    equality for equal eigenvectors: so the projection keeps the eigenvectors and projects the
    vector of log-eigenvalues (`fit_spectrum`).

    **Gaussian embeddings** are SPD matrices like others, X ⪰ ℓ·Id, tr X ≤ T + kη with ℓ of
    `Facts.least`: all of this holds with ℓ for η and T + k(η − ℓ) for T. λ_max(X) ≤ B + η: with
    c ≤ 1 it is at most λ_max(Σ) + 1 + ‖m‖², and B counts the constant 1.

    Attributes
    ----------
    log_share : float
        Share of one unit of ln R_jj in coordinate j of a diagonal matrix.
    """

    log_share: float = 1.0

    def bounds(self, facts: Facts) -> tuple[float, float]:
        """Return r and D.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """
        k, eta = len(facts.variances), facts.least
        most_log = abs(math.log(facts.norm_bound + facts.eta))
        radius = math.sqrt(k) * max(abs(math.log(eta)), most_log)
        excess = (math.fsum(facts.variances) + k * (facts.eta - eta)) / eta

        def most(m: int) -> float:
            if m and excess / m >= TANGENT:
                return m * math.log1p(excess / m) ** 2
            return min(m, 1) * excess * math.log1p(TANGENT) ** 2 / TANGENT

        split = most(k // 2) + most(k - k // 2)
        return radius, math.sqrt(min(split, k * math.log1p(excess) ** 2))

    def formulas(self, facts: Facts) -> tuple[str, str, str]:
        """Return the formulas with k, B and the split of the eigenvalues put in.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """
        k, low = len(facts.variances), "ℓ" if facts.means else "η"
        trace = "(T + kη − kℓ)" if facts.means else "T"
        most = f"ln({_in_levels(facts.norm_bound)} + η)"
        radius = f"√{k}·max(|ln {low}|, {most if facts.norm_bound >= 1.0 else f'|{most}|'})"
        given = f"T = {facts.trace:,.8g}, the largest trace"
        if facts.means:
            given += f"; ℓ = {facts.least:.3g}, the least eigenvalue; k = {k}"
        if facts.trace < TANGENT * (k - k // 2) * facts.least:  # g is not f, see the top
            terms = f"p·g({trace}/(p{low})) + (k − p)·g({trace}/((k − p){low}))"
            return (
                radius,
                f"√(max over p of {terms})",
                f"{given}; g the concave envelope of ln²(1 + z)",
            )
        parts = [m for m in (k // 2, k - k // 2) if m]
        terms = " + ".join(f"{m}·ln²(1 + {trace}/({m}{low}))" for m in parts)
        return radius, f"√({terms})", given

    def floor(self, facts: Facts) -> float:
        """Return the least eigenvalue.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """
        return facts.least

    def rounding(self, relative: float, largest: float) -> float:
        """Return `relative`: divided differences of ln are at most 1/(η − e) on [η − e, ∞).

        Parameters
        ----------
        relative : float
            Error of a matrix in units of η, Frobenius norm.
        largest : float
            Upper bound on the eigenvalues.
        """
        return relative

    def largest(self, radius: float, k: int) -> float:
        """Return e^r: |ln λ| ≤ ‖log X‖_F ≤ r.

        Parameters
        ----------
        radius : float
            Radius r of the ball around the identity, in the metric's distance.
        k : int
            Number of rows of the matrices.
        """
        return math.exp(radius)

    def descriptor_set(self, facts: Facts) -> DescriptorSet:
        """Return the set of spectra.

        Parameters
        ----------
        facts : Facts
            Public numbers of the descriptor: η and bounds on its variances.
        """
        k = len(facts.variances)
        low, total = math.log(facts.least), facts.trace + k * facts.eta

        def inside(coordinates: FloatArray) -> FloatArray:
            values, vectors = sym_eig_unordered(unvecd(coordinates))
            fitted = fit_spectrum(values, low, total)
            moved = (np.abs(fitted - values) > SPECTRUM_TOLERANCE).any(axis=-1)
            out = np.array(coordinates)
            if moved.any():
                out[moved] = vecd(assemble(vectors[moved], fitted[moved]))
            return out

        return DescriptorSet(inside, 2.0 * math.sqrt(k) * SPECTRUM_TOLERANCE, total / facts.least)

    def brightness(self, coordinates: FloatArray) -> FloatArray | None:
        """Return None: means bend with the covariance.

        Parameters
        ----------
        coordinates : array, shape (d,)
            Descriptor, in coordinates at the identity.
        """
        return None

    def scales(self, diagonal: FloatArray, others: float, logs: FloatArray) -> FloatArray:
        """Return `diagonal` for the logarithms of variances, `others` for the rest.

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
        shape = others * np.eye(k * (k + 1) // 2)
        shape[:k, :k] = diagonal
        return shape


def _in_levels(bound: float) -> str:
    """Return a bound on ‖φ‖² as text, as so many times 255² where it is of gray levels."""
    times, rest = divmod(bound, 255.0**2)
    return f"{bound:g}" if rest or not times else f"{times:g}·255²"


SPECTRAL = SpectralMetric()


def covariances_of(manifold: Any) -> Covariances | None:
    """Return the facts of a manifold or its constructor about descriptors, None if it has none.

    Parameters
    ----------
    manifold : object
        Manifold or class of manifolds.
    """
    covariances: Covariances | None = getattr(manifold, "covariances", None)
    return covariances


HALVINGS = 57
"""Bisections of ln λ: from 810 to below the rounding of doubles."""


def fit_spectrum(logs: FloatArray, low: float, total: float) -> FloatArray:
    """Return the log-eigenvalues nearest to `logs` with a_i ≥ `low` and Σ e^{a_i} ≤ `total`.

    `logs` are in any order, ``(..., k)``; it needs k·e^ℓ < t, ℓ = `low` and t = `total`.

    Parameters
    ----------
    logs : array, shape (..., k)
        Log-eigenvalues, in any order.
    low : float
        Least log-eigenvalue ℓ.
    total : float
        Largest sum of the eigenvalues.
    """
    out = np.maximum(low, logs)
    over = np.exp(np.minimum(out, 700.0)).sum(axis=-1) > total
    if not over.any():
        return out
    rows = out[over]
    below, above = np.full((len(rows), 1), -100.0), np.full((len(rows), 1), 710.0)
    for _ in range(HALVINGS):
        middle = (below + above) / 2.0
        # Wright's function ω(z) + ln ω(z) = z: x = w − λe^x has λe^x = ω(w + ln λ)
        fitted = np.maximum(low, np.log(wrightomega(rows + middle)) - middle)
        large = np.exp(fitted).sum(axis=-1, keepdims=True) > total
        below, above = np.where(large, middle, below), np.where(large, above, middle)
    out[over] = fitted
    return out
