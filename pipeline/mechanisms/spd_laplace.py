"""The Riemannian Laplace law on affine-invariant SPD(k), drawn exactly: no Markov chain.

In the tangent space at its centre (which homogeneity lets us take to be Id) the density is

    f(S) ∝ e^{−‖S‖/σ}·J(S),   J(S) = Π_{i<j} sinh(x_ij)/x_ij,   x_ij = |λ_i − λ_j|/2,

λ the eigenvalues of S ∈ Sym(k) ≅ R^d, d = k(k+1)/2. Write P = k(k−1)/2 for the number of pairs,
g(x) = ln(sinh x/x), a = √(2(k−1)), w_i = (k + 1 − 2i)/2 and c_k = ‖w‖ = √(k(k² − 1)/12).

**Existence.** For λ_1 ≥ … ≥ λ_k, Σ_{i<j} x_ij = ⟨w, λ⟩ ≤ c_k‖λ‖, and g(x) ≤ x, so J ≤ e^{c_k‖S‖}.
The integral is finite for σ < 1/c_k. Along λ ∥ w the integrand is e^{−ρ(1/σ − c_k)} up to a power
of ρ, and with the width of that ridge the radial integrand at σ = 1/c_k grows like ρ^{(k−1)/2}: it
is infinite for σ ≥ 1/c_k.

**Ball envelope.** (i) g is concave in y = x²: coth x = 1/x + Σ_n 2x/(x² + n²π²) gives
dg/dy = (coth x − 1/x)/(2x) = Σ_n 1/(y + n²π²), which falls. (ii) Σ_{i<j}(λ_i − λ_j)² =
k‖λ‖² − (Σλ_i)² ≤ k‖S‖², so the mean of x_ij² over pairs is at most kρ²/(4P) = (ρ/a)². (iii) By
Jensen, and as g grows, ln J(ρu) = P·mean g(x_ij) ≤ ψ(ρ) := P·g(ρ/a) for every unit u. (iv) The
radius density ∝ ρ^{d−1}·e^{−ρ/σ + ψ(ρ)} is strictly log-concave: g″(x) = 1/x² − 1/sinh²x ≤ 1/x², so
ψ″ ≤ P/ρ², and d − 1 − P = k − 1 > 0. So: radius from that law, direction uniform, accept with
probability exp(ln J(ρu) − ψ(ρ)). It needs σ < a/P.

**Chamber envelope.** In eigenvalues (the density of S integrated over eigenvectors) the law is

    f(λ) ∝ Π_{i<j} 2·sinh(x_ij)·e^{−‖λ‖/σ}
         = e^{⟨w,λ⟩ − ‖λ‖/σ}·Π_{i<j}(1 − e^{−2x_ij}),   λ_1 > … > λ_k,

with Haar eigenvectors. The first factor on all of R^k is a normal law of random variance:
T ~ Gamma((k+1)/2, rate (σ^{−2} − c_k²)/2), λ = T·w + √T·N(0, Id), because
e^{−s‖λ‖} ∝ ∫ t^{−1/2}·e^{−s²t/2}·e^{−‖λ‖²/2t} dt. So: draw it, refuse what is not in descending
order, accept with probability Π(1 − e^{−2x_ij}). It works for every σ < 1/c_k, and better the
closer σ is to the limit.

Both envelopes have known mass; the smaller one is used. Acceptance of the ball envelope: 0.98
(k = 5, σ = 0.075), 0.82 (k = 3, σ = 0.375); of the chamber envelope: 0.54 (k = 5, σ = 0.3). Where
the two are equal, near σ = 0.83/c_k, acceptance is lowest: 0.2, 0.06, 0.01, 1.5e-3, 1e-4, 4e-6 for
k = 4 to 9. For k ≥ 10 that middle is out of reach, and `rejection.accept` says so.

References: Hajri, Ilea, Said, Bombrun and Berthoumieu, "Riemannian Laplace distribution on the
space of symmetric positive definite matrices" (2016), for the law; the samplers are ours.
"""

import math
from functools import lru_cache

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry.linalg import unvecd, vecd
from pipeline.mechanisms.radial import RadialLaw, SpdEnvelope, ball_bound, directions, log_sinhc
from pipeline.mechanisms.rejection import Accepted, accept


def growth(k: int) -> float:
    """Return c_k = √(k(k² − 1)/12): the law exists iff σ < 1/c_k."""
    return math.sqrt(k * (k * k - 1) / 12.0)


def log_jacobian(eigenvalues: FloatArray) -> FloatArray:
    """Return ln J = Σ_{i<j} ln(sinh x_ij/x_ij), x_ij = |λ_i − λ_j|/2, for eigenvalues (..., k)."""
    rows, columns = np.triu_indices(eigenvalues.shape[-1], 1)
    x = np.abs(eigenvalues[..., rows] - eigenvalues[..., columns]) / 2.0
    total: FloatArray = log_sinhc(x).sum(axis=-1)
    return total


def tangent_draws(k: int, sigma: float, size: int, rng: np.random.Generator) -> Accepted:
    """Return `size` exact tangent vectors at the centre, coordinates (size, d), for σ < 1/c_k."""
    if ball_is_smaller(k, sigma):
        return _ball_draws(k, sigma, size, rng)
    return _chamber_draws(k, sigma, size, rng)


def _ball_draws(k: int, sigma: float, size: int, rng: np.random.Generator) -> Accepted:
    dim = k * (k + 1) // 2
    law = RadialLaw(SpdEnvelope(dim), sigma)

    def propose(count: int) -> tuple[FloatArray, FloatArray]:
        radius = law.draw(count, rng)
        tangent = radius[:, None] * directions(count, dim, rng)
        log_j = log_jacobian(np.asarray(np.linalg.eigvalsh(unvecd(tangent)), dtype=np.float64))
        return tangent, log_j - ball_bound(k, radius)

    return accept(propose, size, rng=rng)


def _chamber_draws(k: int, sigma: float, size: int, rng: np.random.Generator) -> Accepted:
    slope = (k + 1 - 2.0 * np.arange(1, k + 1)) / 2.0
    rate = (sigma**-2 - growth(k) ** 2) / 2.0
    rows, columns = np.triu_indices(k, 1)

    def propose(count: int) -> tuple[FloatArray, FloatArray]:
        time = rng.standard_gamma((k + 1) / 2.0, (count, 1)) / rate
        eigenvalues = time * slope + np.sqrt(time) * rng.standard_normal((count, k))
        gap = np.maximum(eigenvalues[:, rows] - eigenvalues[:, columns], 0.0)
        with np.errstate(divide="ignore"):
            return eigenvalues, np.log(-np.expm1(-gap)).sum(axis=-1)

    eigenvalues, acceptance = accept(propose, size, rng=rng)
    return Accepted(rotate(eigenvalues, rng), acceptance)


def rotate(eigenvalues: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return vecd(Q·diag(λ)·Qᵀ) with independent Haar Q for eigenvalues (n, k), shape (n, d).

    The Q of a QR factorisation of a normal matrix is Haar up to the signs of its columns, which
    cancel here.
    """
    size, k = eigenvalues.shape
    q = np.linalg.qr(rng.standard_normal((size, k, k))).Q
    coordinates: FloatArray = vecd((q * eigenvalues[:, None, :]) @ q.mT)
    return coordinates


@lru_cache(maxsize=256)
def ball_is_smaller(k: int, sigma: float) -> bool:
    """Return whether the ball envelope has the smaller mass, both measured on Sym(k).

    Ball: |S^{d−1}|·∫ρ^{d−1}·e^{−ρ/σ + ψ(ρ)} dρ. Chamber, with s = 1/σ:
    C·2^k·π^{(k−1)/2}·Γ((k+1)/2)·s·(s² − c_k²)^{−(k+1)/2}, where Mehta's integral gives the constant
    C = (2π)^{(d−k)/2}·k!·Π_j Γ(3/2)/Γ(1 + j/2) of dS = C·Π_{i<j}|λ_i − λ_j| dλ dQ.
    """
    dim, pairs = k * (k + 1) // 2, k * (k - 1) / 2
    if pairs == 0 or sigma * pairs >= math.sqrt(2.0 * (k - 1)):
        return pairs == 0
    ball = RadialLaw(SpdEnvelope(dim), sigma).log_integral()
    ball += math.log(2.0) + dim / 2 * math.log(math.pi) - math.lgamma(dim / 2)
    chamber = (dim - k) / 2 * math.log(2.0 * math.pi) + math.lgamma(k + 1)
    chamber += sum(math.lgamma(1.5) - math.lgamma(1 + j / 2) for j in range(1, k + 1))
    chamber += k * math.log(2.0) + (k - 1) / 2 * math.log(math.pi) + math.lgamma((k + 1) / 2)
    chamber += -math.log(sigma) - (k + 1) / 2 * math.log(sigma**-2 - growth(k) ** 2)
    return ball <= chamber
