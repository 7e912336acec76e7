"""Drawing one class's private mean for a release: noise that is safe to publish, or none.

Hardened noise is added to coordinates by OpenDP, on an integer lattice with the system's entropy;
what comes after is post-processing. What comes before, in floats, is a function of one computed
record each, put into a region of known diameter, and a mean whose rounding is in the sensitivity.
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.adaptive import (
    adaptive_mean,
    default_plan,
    definite,
    hardened_noise,
    mean_sensitivity,
    numpy_noise,
    prepare,
    region,
)
from pipeline.arrays import FloatArray
from pipeline.descriptors import Domain
from pipeline.geometry import MANIFOLDS, FlatChart, Manifold
from pipeline.mechanisms import MECHANISMS
from pipeline.mechanisms.noise import hardened_gaussian
from pipeline.privacy import Budget, gaussian_sigma


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


def draw_hardened(points: FloatArray, cost: Budget, *, domain: Domain, manifold: Manifold) -> Drawn:
    """Release the mean with exponential-wrapped Gaussian noise at the identity.

    **Privacy.** Replace-one, n public; OpenDP certifies ρ = Δ²/(2σ²). The records as computed are
    moved into the public region of diameter D; log at the identity of their (inductive) mean moves
    by at most ``span``/n, rounding of the walk included, and summation adds 5nu of it
    (`pipeline.adaptive.noise`). The noisy coordinates are put back into the region.
    """
    records = prepare(points, domain=domain, manifold=manifold)
    space = records.space
    bound = records.span * mean_sensitivity(len(points))
    sigma = gaussian_sigma(cost, bound) * (1 + 1e-12)  # OpenDP rounds its ρ up: stay below cost
    drawn = hardened_gaussian(records.mean.seen_from(space.origin, space), sigma, bound)
    chart = manifold if manifold.flat else MANIFOLDS["spd-log-euclidean"](k=domain.k)
    vector = region(domain, FlatChart(chart)).inside(drawn.vector)
    point = definite(manifold.exp(manifold.origin, vector))
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
    adds up.
    """
    plan = default_plan(domain, manifold, shares)
    records = prepare(points, domain=domain, manifold=manifold, plan=plan)
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

    **Privacy.** The mean and its sensitivity are those of `draw_hardened`. Idealised numerics: not
    certified.
    """
    records = prepare(points, domain=domain, manifold=manifold)
    bound = records.span * mean_sensitivity(len(points))
    family = MECHANISMS[mechanism].calibrate(cost, sensitivity=bound, manifold=manifold)
    centre = records.mean.point
    if records.space is not manifold:
        centre = manifold.exp(manifold.origin, centre)
    source = points if mechanism == "kng" else centre  # it draws from the gradient at the records
    drawn = family.sample(source, size=1, rng=np.random.default_rng())
    steps = (Step("mean", bound, family.sigma, None),)
    return Drawn(drawn.points[0], steps, family.expected_error())


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
