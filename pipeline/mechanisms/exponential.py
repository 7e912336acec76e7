"""Exponential mechanisms: densities for the Riemannian volume, of a distance or of a gradient.

    density ∝ exp(−dist(y, c)/σ)        the Riemannian Laplace mechanism, around a mean c
    density ∝ exp(−‖grad F(y)‖/σ)       the K-norm gradient mechanism, F(y) = (1/2n) Σ dist(y, x_i)²

**Riemannian Laplace.** Every manifold here is homogeneous, so a draw is made at one centre and
carried over: a tangent vector v of the right law, then exp(c, v). The law of v is exact (`radial`);
the published Markov chain is retained for comparison (`chains`).

**Existence.** Where volume grows exponentially the density can be integrated only for small σ:
σ < 1/(d − 1) on H^d, σ < 1/c_k with c_k = √(k(k² − 1)/12) on affine-invariant SPD(k). Beyond, there
is no such law, and whatever a chain returns is a sample of nothing: `calibrate` refuses.

**Sensitivities** where curvature changes them; Hadamard needs only D/n. Adjacency is replace-one
with n public. On positive curvature the data must be in a geodesic ball B_r(p0) with r <
½·min(inj, π/(2√κ)), κ > 0 the upper bound of sectional curvature: then the ball is convex, every
two of its points are at most 2r < inj apart, and s√κ·cot(s√κ) > 0 for s ≤ 2r.

**K-norm gradient**: on all of a Hadamard manifold, on the ball B_r(p0) that holds the data on
positive curvature.

**Exact sampler.** F is h-strongly convex along geodesics (h = 1 on Hadamard; h = h(2r) of
`convexity` on the ball, which is convex), so for every point x of the domain

    ‖grad F(y)‖ + ‖grad F(x)‖ ≥ h·dist(y, x).

Take for x the computed mean x̂ with its gradient norm τ. Draw y from the Riemannian Laplace law of
scale σ/h around x̂ (cut at the ball), accept with probability

    exp(−(‖grad F(y)‖ − h·dist(y, x̂) + τ)/σ) ≤ 1.

The accepted y has density ∝ exp(−‖grad F(y)‖/σ), whatever x̂ is: an inexact mean costs the factor
e^{−τ/σ} in acceptance and nothing in exactness. On flat manifolds nothing is rejected, and the
mechanism is the Riemannian Laplace mechanism. On Hadamard manifolds it exists exactly where that
one does, as dist(y, x̄) ≤ ‖grad F(y)‖ ≤ dist(y, x̄) + mean dist(x̄, x_i).

Acceptance falls as the records spread (0.9 for real descriptors of one class, 0.7 to 0.4 for balls
of radius 1.5, k = 3 to 6). It depends on the data, and so does the time a draw takes: for
experiments, not for releases.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from covdp.arrays import FloatArray
from covdp.errors import DomainError, PrivacyError, UndefinedError
from covdp.geometry import Manifold, frechet_mean, gradient_norm
from covdp.geometry.manifold import area_of
from covdp.mechanisms.base import (
    KNG_RECORDS,
    LAPLACE_DEFINITIONS,
    CalibratedMechanism,
    Chain,
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
from covdp.mechanisms.radial import (
    AcceptedDraws,
    RadialLaw,
    accept,
    directions,
    growth,
    spectral_moment,
    tangent_draws,
)
from covdp.privacy import Budget, laplace_cost, laplace_sigma
from covdp.privacy.conversion import laplace_epsilon


def largest_sigma(manifold: Manifold) -> float:
    """Return the limit L such that ∫ exp(−dist(y, c)/σ) dvol(y) < ∞ iff σ < L.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the outputs.

    Raises
    ------
    PrivacyError
        On a manifold that does not say how its volume grows.
    """
    order: int | None = getattr(manifold, "spectral_order", None)
    rate = area_of(manifold).growth if order is None else growth(order)
    return 1.0 / rate if rate > 0.0 else math.inf


def require_existence(sigma: float, budget: Budget, manifold: Manifold) -> None:
    """Raise `UndefinedError` if no Riemannian Laplace law of scale σ exists on `manifold`.

    Parameters
    ----------
    sigma : float
        Scale σ > 0 of the noise.
    budget : Budget
        Budget of one release, for the message.
    manifold : Manifold
        Manifold of the outputs.
    """
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
) -> AcceptedDraws:
    """Return log(c, y) for `size` exact draws y, in orthonormal coordinates (size, d).

    σ is below `largest_sigma`; `end` is the largest distance, only where the law is radial.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the outputs.
    sigma : float
        Scale σ of the law, below `largest_sigma`.
    size : int
        Number of independent draws.
    rng : numpy.random.Generator
        Generator of the draws.
    end : float
        Largest distance from the centre; only where the law is radial.
    """
    order: int | None = getattr(manifold, "spectral_order", None)
    if order is not None:
        return tangent_draws(order, sigma, size, rng)
    radius = RadialLaw(area_of(manifold), sigma, end).draw(size, rng)
    return AcceptedDraws(radius[:, None] * directions(size, manifold.dim, rng), 1.0)


@dataclass(frozen=True)
class RiemannianLaplace(CalibratedMechanism):
    """Density ∝ exp(−dist(y, c)/σ) with respect to the Riemannian volume.

    Attributes
    ----------
    chain : Chain, optional
        Settings of a Markov chain that draws; exact draws when left out.

    Notes
    -----
    **Privacy.** Replace-one. |dist(y, c) − dist(y, c')| ≤ dist(c, c') ≤ Δ bounds the log ratio of
    the unnormalised densities by Δ/σ. On a homogeneous manifold the normalising constant does not
    depend on c, so σ = Δ/ε gives ε-DP; otherwise it may change by as much again, and σ = 2Δ/ε. With
    exact draws that is the guarantee of a draw (idealised numerics); with a ``chain`` it is
    that of the limit of an infinite chain, so a draw has no proven guarantee.

    References
    ----------
    Reimherr, Bharath and Soto, "Differential privacy over Riemannian manifolds" (2021), Theorem 1.
    """

    chain: Chain | None = None
    law: ClassVar[str] = "density ∝ exp(−dist(y, c)/σ)"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs around `center`; the law has no footpoint, `base` is not used.

        Parameters
        ----------
        center : array, shape (*point_shape) or (size, *point_shape)
            Statistic c: one point, or one a draw.
        base : array, shape (*point_shape), optional
            Not used: there is no footpoint.
        size : int
            Number of independent draws.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        center = check_centers(center, self.manifold.point_shape, check_size(size))
        if self.chain is not None:
            sigmas = np.full(size, self.sigma)
            tangent, diagnostics = self.chain.laplace(self.manifold, sigmas, rng)
        else:
            tangent, acceptance = tangent_laplace(self.manifold, self.sigma, size, rng)
            diagnostics = Diagnostics(acceptance)
        distance = np.asarray(np.linalg.norm(tangent, axis=-1))
        return Draws(self.manifold.exp(center, tangent), diagnostics, distance)

    def expected_error(self, power: int = 1) -> float | None:
        """Return E dist(output, c)^p: of the law, also where a chain is to approach it.

        Parameters
        ----------
        power : int
            Power p of the distance.
        """
        order: int | None = getattr(self.manifold, "spectral_order", None)
        if order is not None:
            return spectral_moment(order, self.sigma, power)
        return RadialLaw(area_of(self.manifold), self.sigma).mean(power)


def riemannian_laplace(
    budget: Budget,
    *,
    sensitivity: float,
    manifold: Manifold,
    chain: Chain | None = None,
) -> RiemannianLaplace:
    """Calibrate σ = Δ/ε (homogeneous manifold) or 2Δ/ε, ε the largest pure budget in `budget`.

    Parameters
    ----------
    budget : Budget
        Budget of one release.
    sensitivity : float
        Δ in the manifold's distance; for data in a ball of a manifold of positive curvature see
        `laplace_sensitivity`.
    manifold : Manifold
        Manifold of the outputs.
    chain : Chain, optional
        Draws by the published Markov chain, with these settings; exact when left out.

    Returns
    -------
    RiemannianLaplace
        Calibrated mechanism.

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
    return RiemannianLaplace(budget, sensitivity, manifold, sigma, chain)


def laplace_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score (dist(y, c') − dist(y, c))/σ: the log ratio on a homogeneous manifold.

    Parameters
    ----------
    mechanism : Mechanism
        Calibrated mechanism of the family.

    Returns
    -------
    Neighbours
        Two neighbouring statistics, and the score.
    """
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
    neighbours=laplace_neighbours,
    note="float noise: for experiments; the chain is only approximately private",
    samplers=("exact", "chain"),
)


def largest_radius(manifold: Manifold) -> float:
    """Return ½·min(inj, π/(2√κ)), the radius that a ball of data must stay below; ∞ for κ ≤ 0.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the outputs.
    """
    upper = manifold.curvature[1]
    if upper <= 0.0:
        return math.inf
    return min(manifold.injectivity_radius, math.pi / (2.0 * math.sqrt(upper))) / 2.0


def convexity(radius: float, curvature: float) -> float:
    """Return h(2r) with h(s) = s√κ·cot(s√κ), or 1 for κ ≤ 0.

    It is a lower bound of the Hessian of ½dist(·, x)² at distance s ≤ 2r from x (Karcher 1977), so
    F(y) = (1/2n) Σ dist(y, x_i)² is h(2r)-strongly convex on a ball of radius r with all records.

    Parameters
    ----------
    radius : float
        Radius r of the ball that holds the data.
    curvature : float
        Upper bound κ on the sectional curvature.

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

    Parameters
    ----------
    n : int
        Number of records.
    radius : float
        Radius r of the ball that holds the data.
    curvature : float
        Upper bound κ on the sectional curvature.

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

    Parameters
    ----------
    n : int
        Number of records.
    radius : float
        Radius r of the ball that holds the data.
    curvature : float
        Upper bound κ on the sectional curvature.

    References
    ----------
    Reimherr, Bharath and Soto, "Differential privacy over Riemannian manifolds" (2021), Theorem 2.
    """
    return gradient_sensitivity(n, radius, curvature) / convexity(radius, curvature)


def chord(distance: float) -> float:
    """Return 2·sin(s/2): how far points of the unit sphere at distance s are apart in the plane.

    Parameters
    ----------
    distance : float
        Distance s on the sphere, in radians.
    """
    return 2.0 * math.sin(min(distance, math.pi) / 2.0)


@dataclass(frozen=True)
class KNormGradient(CalibratedMechanism):
    """Density ∝ exp(−‖grad F(y)‖/σ) for the Riemannian volume, restricted to B_r(p0) if r < ∞.

    Attributes
    ----------
    radius : float
        Radius r of the ball that holds the data.
    chain : Chain, optional
        Settings of a Markov chain that draws; exact draws when left out.

    Notes
    -----
    **Privacy.** Replace-one. ‖grad F(y) − grad F'(y)‖ = ‖log_y x_n − log_y x_n'‖/n ≤ Δ for every y
    of the domain: Δ = D/n on Hadamard manifolds, where log_y is a contraction, and
    `gradient_sensitivity` on a ball of positive curvature. That bounds the log ratio of
    the unnormalised densities by Δ/σ, and of the normalising constants as well, so σ = 2Δ/ε; on
    flat manifolds the constant does not move and σ = Δ/ε. The domain of y is the same for all data.
    Exact draws carry that guarantee (idealised numerics); a chain is only approximately private.

    References
    ----------
    Soto, Bharath, Reimherr and Slavković, "Shape and structure preserving differential privacy"
    (2022), Theorems 1 and 2. The exact sampler is ours.
    """

    radius: float = math.inf
    chain: Chain | None = None
    law: ClassVar[str] = "density ∝ exp(−‖grad F(y)‖/σ)"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs for the records `center`, (n, *point_shape), not their mean.

        `base` is p0, public: the centre of the ball on positive curvature, else not used.

        Parameters
        ----------
        center : array, shape (n, *point_shape)
            Records, not their mean.
        base : array, shape (*point_shape), optional
            Centre p0 of the ball on positive curvature, public; else not used.
        size : int
            Number of independent draws.
        rng : numpy.random.Generator
            Generator of the draws.

        Raises
        ------
        DomainError
            When a record is outside the ball.
        """
        records = np.asarray(center)
        shape = self.manifold.point_shape
        if records.shape[1:] != shape or len(records) == 0:
            raise DomainError(
                f"kng takes the records, shape (n, *{shape}), in place of the statistic; "
                f"found {records.shape}; pass the data points"
            )
        pole = self.manifold.origin
        if math.isfinite(self.radius):
            pole = pole if base is None else check_centers(base, shape, 0)
            largest = float(self.manifold.dist(pole, records).max())
            if largest > self.radius:
                raise DomainError(
                    f"every record must be within {self.radius:.6g} of the base, found one at "
                    f"{largest:.6g}; move the base or raise the radius"
                )
        return self._draws(records, pole, check_size(size), rng)

    def expected_error(self, power: int = 1) -> float | None:
        """Return E dist(output, x̄)^p on a flat manifold, as of `LaplaceNoise`, else None.

        Parameters
        ----------
        power : int
            Power p of the distance.
        """
        if not self.manifold.flat:
            return None
        return RadialLaw(area_of(self.manifold), self.sigma).mean(power)

    def _draws(self, records: Points, pole: Points, size: int, rng: np.random.Generator) -> Draws:
        """Return outputs for records that are in the ball around `pole`."""
        manifold = self.manifold
        mean = frechet_mean(records, manifold).point

        def log_density(points: Points) -> FloatArray:
            """Return −‖grad F(y)‖/σ, −∞ outside the ball."""
            value = -gradient_norm(records, manifold, points) / self.sigma
            if math.isinf(self.radius):
                return value
            return np.where(manifold.dist(pole, points) > self.radius, -math.inf, value)

        if self.chain is not None:
            sigmas = np.full(size, min(self.sigma, self.radius))
            tangent, diagnostics = self.chain.geodesic(log_density, mean, manifold, sigmas, rng)
            return Draws(manifold.exp(mean, tangent), diagnostics)
        if manifold.flat:  # ‖grad F(y)‖ = dist(y, x̄)
            tangent, acceptance = tangent_laplace(manifold, self.sigma, size, rng)
            return Draws(manifold.exp(mean, tangent), Diagnostics(acceptance))
        slack = float(gradient_norm(records, manifold, mean))
        curve = convexity(self.radius, manifold.curvature[1])
        end = self.radius + float(manifold.dist(pole, mean))

        def propose(count: int) -> tuple[FloatArray, FloatArray]:
            tangent = tangent_laplace(manifold, self.sigma / curve, count, rng, end=end).draws
            lower = (curve * np.linalg.norm(tangent, axis=-1) - slack) / self.sigma
            return tangent, log_density(manifold.exp(mean, tangent)) + lower

        tangent, acceptance = accept(propose, size, rng=rng)
        return Draws(manifold.exp(mean, tangent), Diagnostics(acceptance))


def k_norm_gradient(
    budget: Budget,
    *,
    sensitivity: float,
    manifold: Manifold,
    radius: float = math.inf,
    chain: Chain | None = None,
) -> KNormGradient:
    """Calibrate σ = 2Δ/ε, or Δ/ε on flat manifolds.

    Parameters
    ----------
    budget : Budget
        Budget of one release.
    sensitivity : float
        Δ of the gradient: D/n, or `gradient_sensitivity`.
    manifold : Manifold
        Manifold of the outputs.
    radius : float
        Radius r of the ball that holds the data; needed on positive curvature, not used elsewhere.
    chain : Chain, optional
        Draws by a Metropolis chain, with these settings; exact when left out.

    Returns
    -------
    KNormGradient
        Calibrated mechanism.

    Raises
    ------
    UndefinedError
        Where the density does not exist.
    PrivacyError
        For a ball too large for its curvature, or a combination that `Family.refusal` refuses.
    """
    sigma = laplace_sigma(budget, sensitivity if manifold.flat else 2.0 * sensitivity)
    limit = largest_radius(manifold)
    if math.isinf(limit):
        radius = math.inf
        require_existence(sigma, budget, manifold)
    elif not 0.0 < radius < limit:
        raise PrivacyError(
            f"kng on {manifold.name} needs the radius of a ball that holds the data, above 0 and "
            f"below {limit:.6g}, found {radius:g}; give radius"
        )
    return KNormGradient(budget, sensitivity, manifold, sigma, radius, chain)


def gradient_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score (‖grad F'(y)‖ − ‖grad F(y)‖)/σ: the log ratio, but for a constant.

    The replaced record moves from one end of a diameter of the domain to the other, so that the
    gradients differ by (log_y x − log_y x')/n, of norm D/n on that diameter. The other record sits
    at one end: that makes the normalising constants differ too, unless the manifold is flat. On
    Hadamard manifolds D = n·Δ; on positive curvature the domain is the ball B_r(p0), and D = 2r.

    Parameters
    ----------
    mechanism : Mechanism
        Calibrated mechanism of the family.

    Returns
    -------
    Neighbours
        Two neighbouring data sets, and the score.
    """
    manifold, sigma = mechanism.manifold, mechanism.sigma
    reach = KNG_RECORDS * mechanism.sensitivity / 2.0
    if isinstance(mechanism, KNormGradient) and math.isfinite(mechanism.radius):
        reach = mechanism.radius * (1.0 - 1e-9)  # within the ball, whatever the rounding
    base, end, other = opposite(manifold, reach)
    rest = [end] * (KNG_RECORDS - 1)
    left, right = np.stack([*rest, end]), np.stack([*rest, other])

    def score(y: Points) -> FloatArray:
        return (gradient_norm(right, manifold, y) - gradient_norm(left, manifold, y)) / sigma

    return Neighbours(left, right, base, score)


KNG = Family(
    name="kng",
    in_words="the K-norm gradient mechanism [@soto2022]",
    title="K-norm gradient",
    make=k_norm_gradient,
    definitions=tuple(name for name in LAPLACE_DEFINITIONS if name != "rao"),
    proven=radial,
    price=laplace_cost,
    neighbours=gradient_neighbours,
    options=("radius",),
    note="float noise, and a running time that depends on the data: for experiments",
    samplers=("exact", "chain"),
    statistic="records",
    moves="gradient",
)
