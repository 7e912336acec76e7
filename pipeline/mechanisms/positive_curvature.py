"""Sensitivities where curvature or an embedding changes them; Hadamard needs only D/n.

Adjacency is replace-one with n public. On positive curvature the data must lie in a geodesic ball
B_r(p0) with r < ½·min(inj, π/(2√κ)), κ > 0 the upper bound of sectional curvature: then the ball is
convex, every two of its points are at most 2r < inj apart, and s√κ·cot(s√κ) > 0 for s ≤ 2r.
"""

import math

from pipeline.errors import PrivacyError
from pipeline.geometry import Manifold


def largest_radius(manifold: Manifold) -> float:
    """Return ½·min(inj, π/(2√κ)), the radius that a ball of data must stay below; ∞ for κ ≤ 0."""
    upper = manifold.curvature[1]
    if upper <= 0.0:
        return math.inf
    return min(manifold.injectivity_radius, math.pi / (2.0 * math.sqrt(upper))) / 2.0


def convexity(radius: float, curvature: float) -> float:
    """Return h(2r) with h(s) = s√κ·cot(s√κ), or 1 for κ ≤ 0.

    It is a lower bound of the Hessian of ½dist(·, x)² at distance s ≤ 2r from x (Karcher 1977), so
    F(y) = (1/2n) Σ dist(y, x_i)² is h(2r)-strongly convex on a ball of radius r with all records.

    Raises
    ------
    PrivacyError
        When 2r√κ ≥ π/2, where h ≤ 0.
    """
    if curvature <= 0.0:
        return 1.0
    angle = 2.0 * radius * math.sqrt(curvature)
    if not 0.0 < angle < math.pi / 2.0:
        raise PrivacyError(
            f"a ball of data on curvature {curvature:g} must have a radius above 0 and below "
            f"{math.pi / (4.0 * math.sqrt(curvature)):.6g}, found {radius:g}; use a smaller ball"
        )
    return angle / math.tan(angle)


def gradient_sensitivity(n: int, radius: float, curvature: float) -> float:
    """Return Δ = 2r(2 − h(2r))/n, which bounds ‖grad F(y) − grad F'(y)‖ for every y in the ball.

    The gradients differ by (log_y x_n − log_y x_n')/n. For κ ≤ 0, log_y is a contraction, h = 1 and
    Δ = 2r/n. For κ > 0 Rauch's comparison bounds the stretch of log_y at distance s ≤ 2r by
    s√κ/sin(s√κ), largest at s = 2r, along the geodesic from x_n to x_n', which stays in the ball
    and is at most 2r long. And t/sin t ≤ 2 − t·cot t on (0, π/2), as that is t ≤ 2·tan(t/2).

    References
    ----------
    Soto, Bharath, Reimherr and Slavković, "Shape and structure preserving differential privacy"
    (2022), Theorem 2.
    """
    return 2.0 * radius * (2.0 - convexity(radius, curvature)) / n


def laplace_sensitivity(n: int, radius: float, curvature: float) -> float:
    """Return Δ = 2r(2 − h(2r))/(n·h(2r)), which bounds dist(x̄, x̄') of the Fréchet mean.

    F is h-strongly convex on the ball and grad F(x̄) = 0 = grad F'(x̄'), so h·dist(x̄, x̄') ≤
    ‖grad F(x̄')‖ = ‖grad F(x̄') − grad F'(x̄')‖ ≤ `gradient_sensitivity`.

    References
    ----------
    Reimherr, Bharath and Soto, "Differential privacy over Riemannian manifolds" (2021), Theorem 2.
    """
    return gradient_sensitivity(n, radius, curvature) / convexity(radius, curvature)


def chord(distance: float) -> float:
    """Return 2·sin(s/2): how far points of the unit sphere at distance s are apart in the plane."""
    return 2.0 * math.sin(min(distance, math.pi) / 2.0)
