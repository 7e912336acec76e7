"""How far apart two descriptors can be, proved for every image of a size. Next: `verify`.

Nothing here sees data. What is used of an image: R − η·Id is a covariance matrix, so R ⪰ η·Id;
its diagonal is at most v_1, …, v_k (`Descriptor.variances`), so tr(R − η·Id) ≤ T = Σ v_j; and the
grid coordinates x, y have fixed variances and covariance 0.

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
over these plus that of f(t_i) over the other k − p. f lies below its concave envelope g, which is
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

**Log-Cholesky.** R = L Lᵀ. Schur complements of R are at least η, so η ≤ L_ii² ≤ R_ii ≤ v_i + η,
and the strict lower part of row i has norm² R_ii − L_ii² ≤ v_i. Two such rows differ by at most
2√v_i; row 1 has no such part. Rows x and y are the same for all images. With C the rows from the
third on if there is a grid, all rows if not, and C₊ = C without row 1,

    D² = 4 Σ_{C₊} v_i + ¼ Σ_C ln²(1 + v_i/η),
    r² = Σ_{C₊} v_i + ¼ Σ_C max(ln² η, ln²(v_i + η)) + ¼ Σ_{i not in C} ln²(v_i + η).

**Rounding.** Radii and diameters are raised by 1e-12 of their value: their formulas take fewer
than 100 floating-point steps of relative error 2⁻⁵³ ≈ 1.1e-16, so the result is an upper bound.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pipeline.descriptors.registry import Descriptor, check_eta, find_descriptor
from pipeline.errors import ConfigError

UPWARDS = 1 + 1e-12
UNIT = 2.0**-53
TANGENT = 3.9215536345675051
"""z*, where the tangent of ln²(1 + z) goes through the origin: ln(1 + z) = 2z/(1 + z)."""


@dataclass(frozen=True)
class Domain:
    """Public facts on the descriptors of all images of one size. Build it with `domain`.

    Attributes
    ----------
    descriptor, height, width, eta, manifold
        What the facts are about; sizes in pixels.
    k, dimension : int
        Order of the matrices, and d = k(k + 1)/2.
    radius : float
        r ≥ dist(R, Id) in the manifold's distance.
    diameter : float
        D ≥ dist(R, R') for any two images; replacing one of n records moves their mean by ≤ D/n.
    variances : tuple of float
        v_j ≥ R_jj − η; the first two are equalities if there is a grid.
    trace : float
        T = Σ v_j ≥ tr(R − η·Id).
    rounding : float
        Bound on the distance of the computed from the exact chart coordinates of a descriptor
        (logarithm, or log-Cholesky coordinates), the numeric margin of `radius` and `diameter`.
    """

    descriptor: str
    height: int
    width: int
    eta: float
    manifold: str
    k: int
    dimension: int
    radius: float
    diameter: float
    variances: tuple[float, ...]
    trace: float
    rounding: float

    @property
    def largest_eigenvalue(self) -> float:
        """T + kη, which no eigenvalue of a descriptor exceeds."""
        return (self.trace + self.k * self.eta) * UPWARDS


def domain(
    descriptor: str,
    *,
    height: int,
    width: int,
    eta: float = 1e-6,
    manifold: str = "spd-log-euclidean",
) -> Domain:
    """Return the proven bounds of a descriptor on images of a size, whatever the images are.

    Parameters
    ----------
    descriptor : str
        A key of `DESCRIPTORS`.
    height, width : int
        Size of the images in pixels.
    eta : float
        The η of `describe`.
    manifold : str
        "spd-log-euclidean", "spd-affine-invariant" or "spd-log-cholesky".

    Returns
    -------
    Domain
        For 28×28 and η = 1e-6, log-Euclidean: `oct5` r = 30.892, D = 54.081; `grid9` r = 41.447,
        D = 39.491; `grid11` r = 45.821, D = 43.637.

    Raises
    ------
    ConfigError
        When the descriptor or manifold is unknown, or η too small for floats to hold.
    DatasetError
        When the size is too small for the descriptor.

    References
    ----------
    Radius: "Differentially private Fréchet mean on SPD matrices with the log-Euclidean metric",
    Theorem 5. Diameter: proved at the top of this file.
    """
    spec = find_descriptor(descriptor, height=height, width=width)
    check_eta(eta)
    if manifold not in BOUNDS:
        raise ConfigError(f"no bound is proved for {manifold!r}; choose one of {', '.join(BOUNDS)}")
    variances = tuple(float(v) for v in spec.variances(height, width))
    radius, diameter = BOUNDS[manifold](spec, variances, eta)
    return Domain(
        descriptor=descriptor,
        height=height,
        width=width,
        eta=eta,
        manifold=manifold,
        k=spec.k,
        dimension=spec.dimension,
        radius=radius * UPWARDS,
        diameter=diameter * UPWARDS,
        variances=variances,
        trace=math.fsum(variances) * UPWARDS,
        rounding=_rounding(spec, height * width, eta, math.fsum(variances), manifold),
    )


def _spectral_bounds(
    spec: Descriptor, variances: tuple[float, ...], eta: float
) -> tuple[float, float]:
    """Return r and D of the log-Euclidean and of the affine-invariant distance."""
    k = spec.k
    radius = math.sqrt(k) * max(abs(math.log(eta)), abs(math.log(spec.norm_bound + eta)))
    excess = math.fsum(variances) / eta

    def most(m: int) -> float:
        if m and excess / m >= TANGENT:
            return m * math.log1p(excess / m) ** 2
        return min(m, 1) * excess * math.log1p(TANGENT) ** 2 / TANGENT

    split = most(k // 2) + most(k - k // 2)
    return radius, math.sqrt(min(split, k * math.log1p(excess) ** 2))


def _cholesky_bounds(
    spec: Descriptor, variances: tuple[float, ...], eta: float
) -> tuple[float, float]:
    """Return r and D of the log-Cholesky distance."""
    free = np.array(variances[spec.grid :])
    fixed = np.array(variances[: spec.grid])
    lower = math.fsum(free if spec.grid else free[1:])
    spread = np.sum(np.log1p(free / eta) ** 2) / 4
    largest = np.sum(np.maximum(np.log(eta) ** 2, np.log(free + eta) ** 2)) / 4
    known = np.sum(np.log(fixed + eta) ** 2) / 4
    return math.sqrt(lower + largest + known), math.sqrt(4 * lower + spread)


BOUNDS: dict[str, Callable[[Descriptor, tuple[float, ...], float], tuple[float, float]]] = {
    "spd-log-euclidean": _spectral_bounds,
    "spd-affine-invariant": _spectral_bounds,
    "spd-log-cholesky": _cholesky_bounds,
}
"""Manifold → (radius, diameter) from the public facts of a descriptor."""


def _rounding(spec: Descriptor, pixels: int, eta: float, trace: float, manifold: str) -> float:
    """Return the bound called `Domain.rounding`.

    With u = 2⁻⁵³, the computed descriptor R̂ has ‖R̂ − R‖_F ≤ 4u(T + kη) if its moments are exact
    (conversion, division and + η each round an entry once), and ≤ (3|S| + 16)·u·B if not: a sum
    of |S| terms in any order errs by at most |S|·u times the sum of their absolute values, three
    such sums meet in an entry, E|ab| and E|a|·E|b| are at most √(E a²·E b²), and the Frobenius
    norm of that matrix is Σ E a² ≤ B; the 16 covers the steps outside the sums. A backward stable
    eigen or Cholesky decomposition counts for at most 16·k·u·(T + kη). Let e be the total.

    Divided differences of ln on [η − e, ∞) are at most 1/(η − e), so ‖log R̂ − log R‖_F ≤ ε =
    e/(η − e). Log-Cholesky: R̂ = L(Id + F)Lᵀ with ‖F‖_F ≤ e/η < ε, so the factor of R̂ is L times
    one within ε of Id, to first order, and the coordinates move by at most ε(1 + ‖L‖), where
    ‖L‖² ≤ T + kη.
    """
    largest = trace + spec.k * eta
    moments = 4 * UNIT * largest if spec.exact else (3 * pixels + 16) * UNIT * spec.norm_bound
    error = moments + 16 * spec.k * UNIT * largest
    if error >= eta:
        raise ConfigError(
            f"eta must be larger than the rounding errors of {spec.name}, {error:.1e} at this "
            f"size, found {eta}; the papers use 1e-6"
        )
    relative = error / (eta - error)
    return relative * (1 + math.sqrt(largest)) if "cholesky" in manifold else relative
