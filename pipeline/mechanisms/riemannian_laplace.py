"""The Riemannian Laplace mechanism: density ∝ exp(−dist(y, c)/σ) for the Riemannian volume.

Every manifold here is homogeneous, so a draw is made at one centre and carried over: a tangent
vector v of the right law, then exp(c, v). The law of v is exact (`radial`, `spd_laplace`); the
published Markov chain is kept for comparison (`walk`).

**Existence.** Where volume grows exponentially the density can be integrated only for small σ:
σ < 1/(d − 1) on H^d, σ < 1/c_k with c_k = √(k(k² − 1)/12) on affine-invariant SPD(k). Beyond, there
is no such law, and whatever a chain returns is a sample of nothing: `calibrate` refuses.

Next on the path: ``kng.py``, whose exact sampler starts from these draws.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import UndefinedError
from pipeline.geometry import Manifold
from pipeline.geometry.area import area_of
from pipeline.mechanisms.capabilities import laplace_price, radial
from pipeline.mechanisms.family import (
    LAPLACE_DEFINITIONS,
    Diagnostics,
    Draws,
    Family,
    Mechanism,
    Neighbours,
    Points,
    check_centers,
    check_size,
)
from pipeline.mechanisms.mcmc import ChainSettings, diagnose
from pipeline.mechanisms.neighbours import opposite
from pipeline.mechanisms.radial import RadialLaw, directions
from pipeline.mechanisms.rejection import Accepted
from pipeline.mechanisms.spd_laplace import growth, tangent_draws
from pipeline.mechanisms.walk import laplace_chains
from pipeline.privacy import Budget, laplace_sigma
from pipeline.privacy.calibration import laplace_epsilon


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
    manifold: Manifold,
    sigma: float,
    size: int,
    rng: np.random.Generator,
    *,
    end: float = math.inf,
) -> Accepted:
    """Return log(c, y) for `size` exact draws y, in orthonormal coordinates (size, d).

    σ lies below `largest_sigma`; `end` is the largest distance, only where the law is radial.
    """
    order: int | None = getattr(manifold, "spectral_order", None)
    if order is not None:
        return tangent_draws(order, sigma, size, rng)
    radius = RadialLaw(area_of(manifold), sigma, end).draw(size, rng)
    return Accepted(radius[:, None] * directions(size, manifold.dim, rng), 1.0)


@dataclass(frozen=True)
class RiemannianLaplace:
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

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    sampler: str = "exact"
    chain: ChainSettings = ChainSettings()  # noqa: RUF009  (frozen)
    law: ClassVar[str] = "density ∝ exp(−dist(y, c)/σ)"

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
    chain: ChainSettings | None = None,
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
    RL.require(budget, manifold, sampler)
    factor = 1.0 if manifold.homogeneous else 2.0
    sigma = laplace_sigma(budget, factor * sensitivity)
    require_existence(sigma, budget, manifold)
    settings = ChainSettings() if chain is None else chain
    return RiemannianLaplace(budget, sensitivity, manifold, sigma, sampler, settings)


def neighbours(mechanism: Mechanism) -> Neighbours:
    """Score (dist(y, c') − dist(y, c))/σ: the log ratio on a homogeneous manifold."""
    manifold, sigma = mechanism.manifold, mechanism.sigma
    _, left, right = opposite(manifold, mechanism.sensitivity / 2.0)

    def score(y: Points) -> FloatArray:
        return np.asarray(manifold.dist(y, right) - manifold.dist(y, left)) / sigma

    return Neighbours(left, right, None, score, exact=manifold.homogeneous)


RL = Family(
    name="rl",
    title="Riemannian Laplace",
    calibrate=riemannian_laplace,
    definitions=LAPLACE_DEFINITIONS,
    proven=radial,
    price=laplace_price,
    neighbours=neighbours,
    note="float noise: for experiments; the chain is only approximately private",
    samplers=("exact", "chain"),
)
