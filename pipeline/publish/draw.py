"""Drawing one class's private mean for a release: noise that is safe to publish, or none.

Hardened noise is added to coordinates by OpenDP, on an integer lattice with the system's entropy;
what comes after is post-processing. What comes before, in floats, is covered by a margin on the
sensitivity, or needs none because each record is clipped exactly.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.adaptive import adaptive_mean, default_plan, hardened_noise, numpy_noise, prepare
from pipeline.arrays import FloatArray
from pipeline.descriptors import Domain
from pipeline.geometry import Manifold, frechet_mean
from pipeline.geometry.accuracy import log_error
from pipeline.mechanisms.noise import hardened_gaussian
from pipeline.plan import Plan
from pipeline.privacy import Budget, gaussian_sigma
from pipeline.release import MEAN_TOLERANCE, private_mean, sensitivity


class Step(NamedTuple):
    """One draw: of what, how far a record could move it, the noise, and the certified ρ."""

    step: str
    sensitivity: float
    sigma: float
    rho: float | None


class Drawn(NamedTuple):
    """A private mean, shape (k, k), what was drawn for it, and how far off it may be.

    The predicted error, root mean square, comes from public and released values alone.
    """

    point: FloatArray
    steps: tuple[Step, ...]
    predicted_error: float | None


def record_margin(domain: Domain) -> float:
    """Return how far the computed coordinates of one record may be from the exact ones.

    ``domain.rounding`` for the descriptor, `log_error` for its logarithm at the identity.
    """
    low = domain.eta / (1 + domain.rounding)
    return domain.rounding + log_error(domain.k, low, domain.largest_eigenvalue)


def draw_hardened(points: FloatArray, cost: Budget, *, domain: Domain, manifold: Manifold) -> Drawn:
    """Release the Fréchet mean with exponential-wrapped Gaussian noise at the identity.

    **Privacy.** Replace-one, n public; OpenDP certifies ρ = Δ²/(2σ²). Flat manifolds: the computed
    coordinates of a record depend on it alone and are within e = `record_margin` of the exact
    ones, so their mean moves by at most (D + 2e)/n, plus 2τ for its summation (pairwise: the error
    of a mean of vectors of norm below 100 is below 1e-11). Curved: log at the identity is a
    contraction, so the exact mean's coordinates move by at most D/n; those computed are off by at
    most τ for the mean, and e for records and logarithm, on both data sets: plus 2(τ + e).
    """
    origin, n = manifold.origin, len(points)
    bound = sensitivity(domain, n, "diameter")  # 2τ included
    if manifold.flat:
        statistic = manifold.log(origin, points).mean(axis=0)
        bound += 2 * record_margin(domain) / n
    else:
        mean = frechet_mean(points, manifold, tolerance=MEAN_TOLERANCE).point
        statistic = manifold.log(origin, mean)
        bound += 2 * record_margin(domain)
    sigma = gaussian_sigma(cost, bound) * (1 + 1e-12)  # OpenDP rounds its ρ up: stay below cost
    drawn = hardened_gaussian(statistic, sigma, bound)
    point = manifold.exp(origin, drawn.vector)
    error = sigma * math.sqrt(manifold.dim) if manifold.flat else None
    return Drawn(point, (Step("mean", bound, sigma, drawn.rho),), error)


def draw_adaptive(
    points: FloatArray,
    cost: Budget,
    *,
    shares: tuple[float, ...] | None,
    hardened: bool,
    domain: Domain,
    manifold: Manifold,
) -> Drawn:
    """Release the adaptive mean: a survey, then rounds of radius and clipped mean.

    **Privacy.** As in `pipeline.adaptive`: every step is the mean of n vectors of a set of diameter
    1, each a function of one computed record to the last bit, with hardened noise; ρ of the steps
    adds up. `record_margin` covers the one step that clips nothing.
    """
    margin = record_margin(domain)
    plan = default_plan(domain, manifold, shares)
    records = prepare(points, domain=domain, manifold=manifold, plan=plan, margin=margin)
    noise = hardened_noise if hardened else numpy_noise
    drawn = adaptive_mean(records, cost, noise=noise, rng=np.random.default_rng())
    steps = tuple(
        Step(item.name, item.sensitivity, item.sigma, float(rho) if hardened else None)
        for item, rho in zip(drawn.costs, drawn.rhos[0], strict=True)
    )
    return Drawn(drawn.points[0], steps, float(drawn.predicted[0]))


def draw_float(
    points: FloatArray,
    cost: Budget,
    *,
    mechanism: str,
    domain: Domain,
    manifold: Manifold,
) -> Drawn:
    """Release with noise in floats, from the system's entropy, as accepted in writing.

    **Privacy.** Idealised numerics: not certified.
    """
    drawn, _ = private_mean(
        points,
        cost,
        domain=domain,
        manifold=manifold,
        plan=Plan(mechanism),
        rng=np.random.default_rng(),
    )
    steps = (Step("mean", drawn.sensitivity, drawn.sigma, None),)
    return Drawn(drawn.point, steps, drawn.expected_error)


def draw(
    points: FloatArray,
    cost: Budget,
    *,
    mechanism: str,
    shares: tuple[float, ...] | None = None,
    noise: str,
    domain: Domain,
    manifold: Manifold,
) -> Drawn:
    """Draw one class's private mean as the config says."""
    if mechanism == "auto":
        return draw_adaptive(
            points,
            cost,
            shares=shares,
            hardened=noise == "hardened",
            domain=domain,
            manifold=manifold,
        )
    if noise == "float":
        return draw_float(points, cost, mechanism=mechanism, domain=domain, manifold=manifold)
    return draw_hardened(points, cost, domain=domain, manifold=manifold)
