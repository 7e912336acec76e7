"""Distance of a wrapped output from its statistic, and what the footpoint has to do with it.

Let M be a Hadamard manifold with sectional curvature between −K and 0, c the statistic, p0 the
footpoint, s = dist(p0, c), u = log(p0, c), and y = exp(p0, u + x) the output for noise x in the
tangent space at p0. Write a = ‖u‖ = s, b = ‖u + x‖, θ for the angle between u and u + x, R for the
larger of a and b, and h_K(a, b, θ) for the third side of a triangle with sides a, b and the angle θ
between them in the plane of curvature −K,

    cosh(√K·h) = cosh(√K·a)·cosh(√K·b) − sinh(√K·a)·sinh(√K·b)·cos θ,
    h_0² = a² + b² − 2ab·cos θ.

**Theorem.** For every x

    ‖x‖ ≤ dist(y, c) ≤ h_K(a, b, θ) ≤ min(s + ‖u + x‖, ‖x‖·sinh(√K·R)/(√K·R)).

*Proof.* log(p0, ·) is a contraction, so ‖x‖ = ‖log(p0, y) − log(p0, c)‖ ≤ dist(y, c). The second is
Toponogov's comparison of hinges: both sides at p0 are geodesics of lengths a and b, and curvature
is at least −K. The rest holds in the plane of curvature −K. There s + ‖u + x‖ = a + b is the
triangle inequality. And the straight way from u to u + x in its tangent plane is carried to a curve
between the two ends of the hinge; the differential of its exponential map at v leaves lengths along
v as they are and stretches those across by sinh(√K‖v‖)/(√K‖v‖) ≥ 1, which grows with ‖v‖, and ‖v‖
is largest at an end of the straight way, as norms are convex: the curve is at most
‖x‖·sinh(√K·R)/(√K·R) long. □

**What follows for the error E dist(y, c)**, where x has a spherical law:

- It is at least E‖x‖, whatever p0 is; with p0 = c it is E‖x‖, as then h_K = b = ‖x‖. So the best
  footpoint is the mean itself, and no footpoint saves more than what curvature adds.
- K = 0: dist(y, c) = ‖x‖. The footpoint changes nothing, and its share of the budget is lost: with
  a share f the noise of the mean is 1/√(1 − f) times as wide in Gaussian DP, 1.054 for f = 0.1.
- K > 0: what s adds is at most 2s, and at most the factor sinh(√K·R)/(√K·R): about 1 + K·R²/6 for
  small R, e^{√K·R}/(2√K·R) for large R. It is felt when √K·s is about 1 or more.
- On hyperbolic space all curvature is −K: E h_K is the error itself, not a bound (`mean_hinge`).
- Affine-invariant SPD(k) is the product of the scales, which are flat, and of the matrices of
  determinant 1. A footpoint that differs from c by a scale alone, p0 = t·c, has the same second
  part: there a is 0, and dist(y, c) = ‖x‖ at any distance. So the identity may be better than
  another point as distant.

**The theorem of the paper** ("Exponential-wrapped mechanisms for differential privacy on Hadamard
manifolds", Theorem 4.1) is E dist(y, c) ≤ E‖u + x‖ + s: by its (2) at most σd + 2s for Laplace
noise, as E‖u + x‖ ≤ E‖x‖ + s = σd + s. Its (3) has for Gaussian noise

    E‖u + x‖ = σ·√(π/2)·L_{1/2}^{(d/2−1)}(−s²/2)        as printed,
    E‖u + x‖ = σ·√(π/2)·L_{1/2}^{(d/2−1)}(−s²/(2σ²))    as it must be:

(u + x)/σ is N(u/σ, Id), so that ‖u + x‖/σ has the noncentral chi law of d degrees of freedom whose
noncentrality is λ = s/σ, not s, and mean √(π/2)·L_{1/2}^{(d/2−1)}(−λ²/2). For d = 15, σ = 0.01 and
s = 1 the printed one is 0.039, less than the distance 1 that y has from p0 without noise; the mean
is 1.0007. What is printed is no bound of the error either: on H^15 with s = 20 and σ = 0.01 the
error is 25.98, and the printed bound 20.2. Here
L_{1/2}^{(α)}(z) = Γ(α + 3/2)/(Γ(3/2)·Γ(α + 1))·₁F₁(−1/2; α + 1; z).
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy import special

from covdp.arrays import FloatArray
from covdp.geometry import Manifold

ANGLES, RADII = 24, 48
"""Places of a quadrature over the direction of noise, and over its norm."""

Norms: TypeAlias = tuple[FloatArray, FloatArray]
"""Places ‖x‖ and weights, which sum to 1, of a quadrature over the norm of spherical noise."""


def radial_norms(log_density: Callable[[FloatArray], FloatArray], low: float, high: float) -> Norms:
    """Return a quadrature for a law of norms, by Gauss and Legendre between two ends.

    Parameters
    ----------
    log_density : callable
        Logarithm of the density of the norm, but for a constant.
    low, high : float
        Ends between which all but 1e-12 of the law is.
    """
    places, weights = special.roots_legendre(RADII)
    rho = low + (high - low) * (places + 1.0) / 2.0
    logs = log_density(rho)
    weights = weights * np.exp(logs - logs.max())
    return rho, weights / weights.sum()


def hinge(a: FloatArray, b: FloatArray, sine: FloatArray, curvature: float) -> FloatArray:
    """Return h_K(a, b, θ), ``(...)``, in the plane of curvature −K, without overflow.

    Parameters
    ----------
    a, b : arrays, shape (...)
        Sides, at least 0.
    sine : array, shape (...)
        Half-angle sine sin(θ/2), θ the angle between them.
    curvature : float
        K, at least 0.

    Notes
    -----
    sinh²(√K·h/2) = sinh²(√K·(a − b)/2) + sinh(√K·a)·sinh(√K·b)·sin²(θ/2).
    """
    if curvature == 0.0:
        return np.sqrt((a - b) ** 2 + 4.0 * a * b * sine**2)
    root = math.sqrt(curvature)
    with np.errstate(divide="ignore"):
        sides = _log_sinh(root * a) + _log_sinh(root * b) + 2.0 * np.log(sine)
        square = np.logaddexp(2.0 * _log_sinh(root * np.abs(a - b) / 2.0), sides)
    half = square / 2.0  # ln sinh(√K·h/2); beyond e^20 sinh is half of exp to the last bit
    small = np.arcsinh(np.exp(np.minimum(half, 20.0)))
    return 2.0 / root * np.where(half < 20.0, small, half + math.log(2.0))


def _log_sinh(x: FloatArray) -> FloatArray:
    """Return ln sinh(x) for x ≥ 0, −∞ at 0."""
    return np.asarray(x + np.log(-np.expm1(-2.0 * x) / 2.0))


def mean_hinge(norms: Norms, distance: FloatArray, dim: int, curvature: float) -> FloatArray:
    """Return E h_K(s, ‖u + x‖, θ), ``(...)``: at least E dist(y, c), see the top of this file.

    Parameters
    ----------
    norms : Norms
        Quadrature for the law of the noise's norm.
    distance : array, shape (...)
        Distances s = dist(p0, c).
    dim : int
        Dimension d of the tangent space.
    curvature : float
        K, at least 0.
    """
    return _mean(lambda a, b, sine: hinge(a, b, sine, curvature), norms, distance, dim)


def error_bound(norms: Norms, distance: FloatArray, manifold: Manifold) -> FloatArray:
    """Return an upper bound on E dist(y, c) on a manifold, for each distance s, ``(...)``.

    On a flat manifold it is E‖x‖, which the error is.

    Parameters
    ----------
    norms : Norms
        Quadrature for the law of ‖x‖: nodes and weights.
    distance : array, shape (...)
        Distances s from footpoint to statistic.
    manifold : Manifold
        Manifold of the outputs.
    """
    if manifold.flat:
        return np.full(np.shape(distance), norms[0] @ norms[1])
    return mean_hinge(norms, distance, manifold.dim, -manifold.curvature[0])


def mean_reach(norms: Norms, distance: FloatArray, dim: int) -> FloatArray:
    """Return E‖u + x‖, ``(...)``: how far from the footpoint an output is.

    Parameters
    ----------
    norms : Norms
        Quadrature for the law of ‖x‖: nodes and weights.
    distance : array, shape (...)
        Distances s from footpoint to statistic.
    dim : int
        Dimension d of the tangent space.
    """
    return _mean(lambda a, b, sine: b, norms, distance, dim)


def _mean(
    value: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
    norms: Norms,
    distance: FloatArray,
    dim: int,
) -> FloatArray:
    """Return the mean of value(a, b, sin θ/2) for spherical noise, by quadrature.

    The cosine t of the angle between u and x has the density ∝ (1 − t²)^{(d−3)/2}.
    """
    if dim == 1:
        cosine, share = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    else:
        cosine, share = special.roots_jacobi(ANGLES, (dim - 3) / 2, (dim - 3) / 2)
        share = share / share.sum()
    each, back = np.unique(np.asarray(distance, dtype=np.float64), return_inverse=True)
    s, t, rho = each[:, None, None], cosine[None, :, None], norms[0][None, None, :]
    along, across = s + t * rho, rho * np.sqrt(1.0 - t * t)
    b = np.hypot(along, across)
    theta = np.where(s > 0.0, np.arctan2(across, along), 0.0)
    means = np.einsum("sij,i,j->s", value(s + 0.0 * b, b, np.sin(theta / 2.0)), share, norms[1])
    return np.asarray(means[back].reshape(np.shape(distance)))


def printed_mean(sigma: float, distance: FloatArray, dim: int) -> FloatArray:
    """Return the first term of (3) as printed, σ·√(π/2)·L_{1/2}^{(d/2−1)}(−s²/2), ``(...)``.

    Wrong but for σ = 1, and shown beside what is right; see the top of this file.

    Parameters
    ----------
    sigma : float
        Standard deviation σ > 0 of a coordinate.
    distance : array, shape (...)
        Distances s from footpoint to statistic.
    dim : int
        Dimension d of the tangent space.
    """
    factor = math.sqrt(2.0) * math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))
    square = np.asarray(distance, dtype=np.float64) ** 2 / 2.0
    return np.asarray(sigma * factor * special.hyp1f1(-0.5, dim / 2, -square))
