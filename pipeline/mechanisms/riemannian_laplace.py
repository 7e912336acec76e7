"""The Riemannian Laplace mechanism: density ∝ exp(−dist(y, c)/σ) for the Riemannian volume.

Every manifold here is homogeneous, so a draw is made at one centre and carried over: a tangent
vector v of the right law, then exp(c, v). The law of v is exact (`radial`); the published Markov
chain is retained for comparison (`chains`).

**Existence.** Where volume grows exponentially the density can be integrated only for small σ:
σ < 1/(d − 1) on H^d, σ < 1/c_k with c_k = √(k(k² − 1)/12) on affine-invariant SPD(k). Beyond, there
is no such law, and whatever a chain returns is a sample of nothing: `calibrate` refuses.

**Sensitivities** where curvature changes them; Hadamard needs only D/n. Adjacency is replace-one
with n public. On positive curvature the data must be in a geodesic ball B_r(p0) with r <
½·min(inj, π/(2√κ)), κ > 0 the upper bound of sectional curvature: then the ball is convex, every
two of its points are at most 2r < inj apart, and s√κ·cot(s√κ) > 0 for s ≤ 2r.

Next on the path: ``kng.py``, whose exact sampler starts from these draws.
"""

import math
from dataclasses import dataclass

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError, UndefinedError
from pipeline.geometry import Manifold
from pipeline.geometry.manifold import area_of
from pipeline.mechanisms.base import (
    LAPLACE_DEFINITIONS,
    CalibratedMechanism,
    Diagnostics,
    Draws,
    Family,
    Mechanism,
    Neighbours,
    Points,
    check_centers,
    check_size,
    opposite,
    radial,
)
from pipeline.mechanisms.chains import USUAL_CHAIN, ChainSettings, diagnose, laplace_chains
from pipeline.mechanisms.radial import Accepted, RadialLaw, directions, growth, tangent_draws
from pipeline.privacy import Budget, laplace_cost, laplace_sigma
from pipeline.privacy.conversion import laplace_epsilon


def largest_sigma(manifold: Manifold) -> float:
    """Return the limit L such that ∫ exp(−dist(y, c)/σ) dvol(y) < ∞ iff σ < L.

    Raises
    ------
    PrivacyError
        On a manifold that does not say how its volume grows.
    """
    order: int | None = getattr(manifold, "spectral_order", None)
    rate = area_of(manifold).growth if order is None else growth(order)
    return 1.0 / rate if rate > 0.0 else math.inf


def require_existence(sigma: float, budget: Budget, manifold: Manifold) -> None:
    """Raise `UndefinedError` if no Riemannian Laplace law of scale σ exists on `manifold`."""
    limit = largest_sigma(manifold)
    if sigma >= limit:
        least = laplace_epsilon(budget) * sigma / limit
        raise UndefinedError(
            f"the density ∝ exp(−dist/σ) exists on {manifold.name} of dimension {manifold.dim} "
            f"only for σ < {limit:.6g}, found σ = {sigma:.6g} for {budget}; give a budget that "
            f"allows ε > {least:.6g}, {sigma / limit:.3g} times as many records, or ewl or ewg"
        )


def tangent_laplace(
    manifold: Manifold, sigma: float, size: int, rng: np.random.Generator, *, end: float = math.inf
) -> Accepted:
    """Return log(c, y) for `size` exact draws y, in orthonormal coordinates (size, d).

    σ is below `largest_sigma`; `end` is the largest distance, only where the law is radial.
    """
    order: int | None = getattr(manifold, "spectral_order", None)
    if order is not None:
        return tangent_draws(order, sigma, size, rng)
    radius = RadialLaw(area_of(manifold), sigma, end).draw(size, rng)
    return Accepted(radius[:, None] * directions(size, manifold.dim, rng), 1.0)


@dataclass(frozen=True)
class RiemannianLaplace(CalibratedMechanism):
    """Density ∝ exp(−dist(y, c)/σ) with respect to the Riemannian volume.

    Notes
    -----
    **Privacy.** Replace-one. |dist(y, c) − dist(y, c')| ≤ dist(c, c') ≤ Δ bounds the log ratio of
    the unnormalised densities by Δ/σ. On a homogeneous manifold the normalising constant does not
    depend on c, so σ = Δ/ε gives ε-DP; otherwise it may change by as much again, and σ = 2Δ/ε. With
    ``sampler="exact"`` that is the guarantee of a draw (idealised numerics); with ``"chain"`` it is
    that of the limit of an infinite chain, so a draw has no proven guarantee.

    References
    ----------
    Reimherr, Bharath and Soto, "Differential privacy over Riemannian manifolds" (2021), Theorem 1.
    """

    sampler: str = "exact"
    chain: ChainSettings = USUAL_CHAIN

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs around `center`; the law has no footpoint, `base` is not used."""
        center = check_centers(center, self.manifold.point_shape, check_size(size))
        if self.sampler == "chain":
            sigmas = np.full(size, self.sigma)
            run = laplace_chains(self.manifold, sigmas, settings=self.chain, rng=rng)
            tangent, diagnostics = run.tangents, diagnose(run)
        else:
            tangent, acceptance = tangent_laplace(self.manifold, self.sigma, size, rng)
            diagnostics = Diagnostics(acceptance)
        distance = np.asarray(np.linalg.norm(tangent, axis=-1))
        return Draws(self.manifold.exp(center, tangent), diagnostics, distance)

    def expected_error(self) -> float | None:
        """Return E dist(output, c), or None where the law is not radial."""
        if hasattr(self.manifold, "spectral_order"):
            return None
        return RadialLaw(area_of(self.manifold), self.sigma).mean()


def riemannian_laplace(
    budget: Budget,
    *,
    sensitivity: float,
    manifold: Manifold,
    sampler: str = "exact",
    chain: ChainSettings = USUAL_CHAIN,
) -> RiemannianLaplace:
    """Calibrate σ = Δ/ε (homogeneous manifold) or 2Δ/ε, ε the largest pure budget in `budget`.

    Parameters
    ----------
    sensitivity : float
        Δ in the manifold's distance; for data in a ball of a manifold of positive curvature see
        `sensitivity.laplace_sensitivity`.
    sampler : {"exact", "chain"}
        Exact draws, or the published Markov chain with the settings `chain`.

    Raises
    ------
    UndefinedError
        Where no such law exists, stating σ, its limit, and the least ε that works.
    PrivacyError
        For a combination that `Family.refusal` refuses.
    """
    factor = 1.0 if manifold.homogeneous else 2.0
    sigma = laplace_sigma(budget, factor * sensitivity)
    require_existence(sigma, budget, manifold)
    return RiemannianLaplace(budget, sensitivity, manifold, sigma, sampler, chain)


def neighbours(mechanism: Mechanism) -> Neighbours:
    """Score (dist(y, c') − dist(y, c))/σ: the log ratio on a homogeneous manifold."""
    manifold, sigma = mechanism.manifold, mechanism.sigma
    _, left, right = opposite(manifold, mechanism.sensitivity / 2.0)

    def score(y: Points) -> FloatArray:
        return np.asarray(manifold.dist(y, right) - manifold.dist(y, left)) / sigma

    return Neighbours(left, right, None, score, exact=manifold.homogeneous)


RL = Family(
    name="rl",
    in_words="the Riemannian Laplace mechanism [@reimherr2021]",
    title="Riemannian Laplace",
    make=riemannian_laplace,
    definitions=LAPLACE_DEFINITIONS,
    proven=radial,
    price=laplace_cost,
    neighbours=neighbours,
    note="float noise: for experiments; the chain is only approximately private",
    samplers=("exact", "chain"),
)


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
