"""A geodesic random walk for any density on any manifold, and the Riemannian Laplace chains.

A step goes from y to y' = exp(y, step·σ·z), z ~ N(0, Id_d), and is accepted with probability
min(1, f(y')/f(y)). No proposal ratio is needed: the volume density of exp_y at y' equals that of
exp_y' at y, so the proposal density with respect to the Riemannian volume is symmetric.
"""

import math
from collections.abc import Callable

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold
from pipeline.mechanisms.family import Points
from pipeline.mechanisms.mcmc import (
    ChainRun,
    ChainSettings,
    flat_chains,
    hyperbolic_chains,
    spd_chains,
)


def geodesic_chains(
    log_density: Callable[[Points], FloatArray],
    center: Points,
    manifold: Manifold,
    sigmas: FloatArray,
    *,
    settings: ChainSettings,
    rng: np.random.Generator,
) -> ChainRun:
    """Run one geodesic random walk per scale, all in step with one another.

    `log_density` takes points (C, *point_shape) to the logarithms of the C target densities up to
    constants, −∞ outside their support. The chains start at `center`, inside the support, where the
    tangent vectors live.
    """
    chains, scale = len(sigmas), settings.step * sigmas[:, None]
    state = np.broadcast_to(center, (chains, *manifold.point_shape)).copy()
    density = log_density(state)
    accepted, trace = np.zeros(chains), np.empty((chains, settings.keep))
    half, kept = settings.burn_in - settings.burn_in // 2, 0
    for t in range(-1, settings.burn_in):
        proposal = manifold.exp(state, scale * rng.standard_normal((chains, manifold.dim)))
        proposed = log_density(proposal)
        if t < 0:  # the start, one proposal away where the support allows it
            move = proposed > -math.inf
        else:
            move = rng.standard_exponential(chains) >= density - proposed
            accepted += move
        state[move], density[move] = proposal[move], proposed[move]
        if (t + 1 - half) * settings.keep >= (kept + 1) * (settings.burn_in - half):
            trace[:, kept] = manifold.dist(center, state) / sigmas
            kept += 1
    return ChainRun(manifold.log(center, state), accepted / settings.burn_in, trace)


def laplace_chains(
    manifold: Manifold, sigmas: FloatArray, *, settings: ChainSettings, rng: np.random.Generator
) -> ChainRun:
    """Run one chain per scale, all together, for the density ∝ exp(−dist(y, c)/σ).

    They give tangent vectors at the centre: on a homogeneous manifold, exp(c, ·) carries them to
    any c.
    """
    order: int | None = getattr(manifold, "spectral_order", None)
    if manifold.flat:
        return flat_chains(manifold.dim, sigmas, settings=settings, rng=rng)
    if order is not None:
        return spd_chains(order, sigmas, settings=settings, rng=rng)
    if manifold.hadamard and manifold.curvature == (-1.0, -1.0):  # which is H^d and no other
        return hyperbolic_chains(manifold.dim, sigmas, settings=settings, rng=rng)
    origin = manifold.origin

    def log_density(points: Points) -> FloatArray:
        value: FloatArray = -manifold.dist(origin, points) / sigmas
        return value

    return geodesic_chains(log_density, origin, manifold, sigmas, settings=settings, rng=rng)
