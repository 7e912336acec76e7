"""How far a computed logarithm may be from the exact one: a proven bound."""

import math

from pipeline.errors import ConfigError
from pipeline.geometry.loops import SWEEPS

UNIT = 2.0**-53
"""Unit roundoff u of double precision."""


def log_error(k: int, low: float, high: float) -> float:
    """Return a bound of ‖vecd(sym_log(A)) − vecd(log A)‖₂ for SPD A with spectrum in [low, high].

    Proven for the arithmetic of IEEE 754 without overflow or underflow, and a NumPy ``log`` within
    4 units in the last place. It holds for the matrix as stored: the rounding of A itself, before,
    is not counted. A finite bound also means that `sym_log` accepts every such matrix.

    Proof
    -----
    D = diag(√A_ii), κ = high/low, γ_j = ju/(1 − ju). For every x, xᵀD²x ≤ κ xᵀAx, because
    A_ii ≤ high. If (1 − c) A ⪯ A' ⪯ (1 + c) A, the eigenvalues of A^{−1/2} A' A^{−1/2} are within
    c of 1, so ‖log A − log A'‖_F ≤ dist(A, A') ≤ −√k ln(1 − c): the logarithm at the identity is a
    contraction of the affine-invariant distance.

    1. *Cholesky.* L₀L₀ᵀ = A + E, |E_ij| ≤ γ_{k+1}/(1 − γ_{k+1}) √(A_ii A_jj) (Higham, "Accuracy and
       Stability of Numerical Algorithms", Theorem 10.5). Hence |xᵀEx| ≤ e xᵀAx with
       e = kκγ_{k+1}/(1 − γ_{k+1}), and F = L₀⁻¹(A − L₀L₀ᵀ)L₀⁻ᵀ has ‖F‖_F ≤ f = √k e/(1 − e).
    2. *Correction.* L₀(I + Φ(F)) misses A by L₀ΦΦᵀL₀ᵀ, and ‖Φ‖_F² ≤ f²/2. The computed F is off by
       at most 4k³u²κ (residual in double-double, u relative when rounded) and 3sf (two triangular
       solves, s = kγ_{k+1} √(κ/(1 − e)), as |L₀⁻¹||L₀| does not change when rows are scaled).
       So c = (f²/2 + (u + 3s) f + 4k³u²κ)(1 + e).
    3. *Rows.* Rounding L changes row i by r₁ = u(1 + f) + γ_{k+1} f of its norm √A_ii, a round of
       disjoint Jacobi rotations by at most 16u, so SWEEPS sweeps by r₂ = (1 + 16u)^{k·SWEEPS} − 1.
       With ΔL = DΔ, ‖Δ‖_F ≤ √k (r₁ + r₂), ‖ΔLᵀx‖ ≤ ρ‖Lᵀx‖ for ρ = √k (r₁ + r₂) √(κ/(1 − c)).
    4. *Directions.* The columns end orthogonal within 6ku: W = QPΣ, P = I + T/2 + …, ‖T‖_F ≤ 6k²u.
       d/dt log(e^{tK} A e^{tK}) has entries K_ij · 2x coth x in the eigenbasis, 2x the difference
       of two log-eigenvalues, so PΣ²P changes the logarithm by at most ‖log P‖_F (ln κ + 2); using
       the directions of W as they are adds 2‖P − I‖_F m, m = max |ln λ|. Together
       4k²u (ln κ + 2 + 2m).
    5. *Assembly.* Logarithms of squared norms, and the sum Σ_j log λ_j v_j v_jᵀ:
       ku (1 + (2k + 12) m).

    Measured, on matrices made to be hard, the error is some 10⁴ times smaller than the bound.

    Parameters
    ----------
    k : int
        Order of the matrices.
    low, high : float
        0 < low ≤ high, bounds of the eigenvalues.

    Returns
    -------
    float
        In the log-Euclidean distance; ``inf`` where the proof does not hold (f ≥ 1/2).

    Raises
    ------
    ConfigError
        When the arguments are out of order.
    """
    if k < 1 or not 0.0 < low <= high < math.inf:
        raise ConfigError(
            f"the bound needs k ≥ 1 and 0 < low ≤ high, found k={k}, low={low}, high={high}"
        )
    condition, root = high / low, math.sqrt(k)
    cholesky = k * condition * _gamma(k + 1) / (1.0 - _gamma(k + 1))
    first = root * cholesky / (1.0 - cholesky) if cholesky < 1.0 else math.inf
    if first >= 0.49:
        return math.inf
    solves = k * _gamma(k + 1) * math.sqrt(condition / (1.0 - cholesky))
    second = first**2 / 2.0 + (UNIT + 3.0 * solves) * first + 4.0 * k**3 * UNIT**2 * condition
    second *= 1.0 + cholesky
    rounding = UNIT * (1.0 + first) + _gamma(k + 1) * first
    turning = math.expm1(k * SWEEPS * math.log1p(16.0 * UNIT))
    rows = root * (rounding + turning) * math.sqrt(condition / (1.0 - second))
    size = max(abs(math.log(low)), abs(math.log(high)))
    directions = 4.0 * k**2 * UNIT * (math.log(condition) + 2.0 + 2.0 * size)
    assembly = k * UNIT * (1.0 + (2 * k + 12) * size)
    return -root * math.log1p(-second) - 2.0 * root * math.log1p(-rows) + directions + assembly


def _gamma(j: int) -> float:
    return j * UNIT / (1.0 - j * UNIT)
