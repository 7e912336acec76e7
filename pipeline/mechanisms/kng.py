"""The K-norm gradient mechanism for the Fréchet mean, drawn exactly.

    density ∝ exp(−‖grad F(y)‖/σ),   F(y) = (1/2n) Σ dist(y, x_i)²,

on all of a Hadamard manifold, on the ball B_r(p0) that holds the data on positive curvature.

**Exact sampler.** F is h-strongly convex along geodesics (h = 1 on Hadamard; h = h(2r) of
`sensitivity.convexity` on the ball, which is convex), so for every point x of the domain

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

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import DomainError, PrivacyError
from pipeline.geometry import Manifold, frechet_mean, gradient_norm
from pipeline.mechanisms.base import (
    LAPLACE_DEFINITIONS,
    RECORDS,
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
from pipeline.mechanisms.chains import USUAL_CHAIN, ChainSettings, diagnose, geodesic_chains
from pipeline.mechanisms.radial import accept
from pipeline.mechanisms.riemannian_laplace import (
    convexity,
    largest_radius,
    require_existence,
    tangent_laplace,
)
from pipeline.privacy import Budget, laplace_cost, laplace_sigma


@dataclass(frozen=True)
class KNormGradient(CalibratedMechanism):
    """Density ∝ exp(−‖grad F(y)‖/σ) for the Riemannian volume, restricted to B_r(p0) if r < ∞.

    Notes
    -----
    **Privacy.** Replace-one. ‖grad F(y) − grad F'(y)‖ = ‖log_y x_n − log_y x_n'‖/n ≤ Δ for every y
    of the domain: Δ = D/n on Hadamard manifolds, where log_y is a contraction, and
    `sensitivity.gradient_sensitivity` on a ball of positive curvature. That bounds the log ratio of
    the unnormalised densities by Δ/σ, and of the normalising constants as well, so σ = 2Δ/ε; on
    flat manifolds the constant does not move and σ = Δ/ε. The domain of y is the same for all data.
    Exact draws carry that guarantee (idealised numerics); a chain is only approximately private.

    References
    ----------
    Soto, Bharath, Reimherr and Slavković, "Shape and structure preserving differential privacy"
    (2022), Theorems 1 and 2. The exact sampler is ours.
    """

    radius: float = math.inf
    sampler: str = "exact"
    chain: ChainSettings = USUAL_CHAIN

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs for the records `center`, (n, *point_shape), not their mean.

        `base` is p0, public: the centre of the ball on positive curvature, else not used.

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
        if base is not None and math.isfinite(self.radius):
            pole = check_centers(base, shape, 0)
        if math.isfinite(self.radius):
            largest = float(self.manifold.dist(pole, records).max())
            if largest > self.radius:
                raise DomainError(
                    f"every record must be within {self.radius:.6g} of the base, found one at "
                    f"{largest:.6g}; move the base or raise the radius"
                )
        return self._draws(records, pole, check_size(size), rng)

    def expected_error(self) -> float | None:
        """Return E dist(output, x̄) = σd on a flat manifold, else None."""
        return self.sigma * self.manifold.dim if self.manifold.flat else None

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

        if self.sampler == "chain":
            sigmas = np.full(size, min(self.sigma, self.radius))
            run = geodesic_chains(log_density, mean, manifold, sigmas, settings=self.chain, rng=rng)
            return Draws(manifold.exp(mean, run.tangents), diagnose(run))
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
    sampler: str = "exact",
    chain: ChainSettings = USUAL_CHAIN,
) -> KNormGradient:
    """Calibrate σ = 2Δ/ε, or Δ/ε on flat manifolds.

    Parameters
    ----------
    sensitivity : float
        Δ of the gradient: D/n, or `sensitivity.gradient_sensitivity`.
    radius : float
        r of the ball that holds the data; needed on positive curvature, not used elsewhere.
    sampler : {"exact", "chain"}
        Exact draws, or a Metropolis chain with the settings `chain`.

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
    return KNormGradient(budget, sensitivity, manifold, sigma, radius, sampler, chain)


def neighbours(mechanism: Mechanism) -> Neighbours:
    """Score (‖grad F'(y)‖ − ‖grad F(y)‖)/σ: the log ratio, but for a constant.

    The replaced record moves from one end of a diameter of the domain to the other, so that the
    gradients differ by (log_y x − log_y x')/n, of norm D/n on that diameter. The other record sits
    at one end: that makes the normalising constants differ too, unless the manifold is flat. On
    Hadamard manifolds D = n·Δ; on positive curvature the domain is the ball B_r(p0), and D = 2r.
    """
    manifold, sigma = mechanism.manifold, mechanism.sigma
    reach = RECORDS * mechanism.sensitivity / 2.0
    if isinstance(mechanism, KNormGradient) and math.isfinite(mechanism.radius):
        reach = mechanism.radius * (1.0 - 1e-9)  # within the ball, whatever the rounding
    base, end, other = opposite(manifold, reach)
    rest = [end] * (RECORDS - 1)
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
    neighbours=neighbours,
    options=("radius",),
    note="float noise, and a running time that depends on the data: for experiments",
    samplers=("exact", "chain"),
    statistic="records",
    moves="gradient",
)
