"""The Markov chains of the papers, for comparison: what they return is only approximately private.

One call runs all its chains as one batch, one scale per chain, spread over threads. The numbers of
a chain come from its own seed, so they do not depend on the number of threads.

*Flat manifolds* (Utpala, Vepakomma and Miolane, section B.1): random-walk Metropolis with
log-Gaussian proposals LN(X, σ²·Id). In orthonormal coordinates around the centre and in
units of σ: x' = x + z, z ~ N(0, Id_d), accepted with probability min(1, e^{‖x‖ − ‖x'‖}).
Only ‖x'‖ decides, and ‖x'‖² = (‖x‖ + z_1)² + χ²_{d−1} with z_1 along x: the radius is a
Markov chain by itself. Start and steps look the same in all directions, so the direction at the
end is uniform and independent of the radius. A step then costs two random numbers instead of d, and
the last point has the same law as that of the chain in all coordinates.

*Hyperbolic space*: a geodesic random walk y' = exp(y, s·u), s = σ·‖z‖, is seen from the centre
through the law of cosines, sinh²(ρ'/2) = sinh²((ρ − s)/2) + sinh ρ·sinh s·(1 + cos θ)/2, θ uniform
in direction: again only the radius is walked.

*Affine-invariant SPD(k)* (Hajri and others 2016; "Exponential-wrapped mechanisms …", section 5.2):
the same walk on the k logarithms of eigenvalues, with the target
e^{−‖λ‖/σ}·Π_{i<j} sinh(|λ_i − λ_j|/2), then Haar eigenvectors.

*Anything else*, K-norm gradient included ("Shape and structure preserving differential privacy"): a
geodesic random walk y' = exp(y, σ·z), z ~ N(0, Id_d), accepted with probability
min(1, f(y')/f(y)). No proposal ratio is needed: the volume density of exp_y at y' equals that of
exp_y' at y, so the proposal density with respect to the Riemannian volume is symmetric.

Every chain starts one proposal away from the centre, or on a flat manifold at a given distance from
it: the paper of the flat chain starts at a random matrix. A trace keeps the distance to the centre.
"""
# ruff: noqa: NPY002  (inside compiled loops, np.random is numba's own generator, seeded per chain)

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.errors import ConfigError
from covdp.geometry import Manifold
from covdp.mechanisms.base import Diagnostics, Points
from covdp.mechanisms.radial import directions, rotate
from covdp.parallel import compiled, spread


@dataclass(frozen=True)
class ChainSettings:
    """Settings of a chain.

    Attributes
    ----------
    burn_in : int
        Steps before the one draw that each chain gives.
    keep : int
        Length of the trace stored for the diagnostics, evenly spaced over the second half.
    start : float, optional
        Distance from the centre at which it starts, in √d, in a uniform direction; one proposal
        away if None. Flat manifolds only.
    """

    burn_in: int = 10_000
    keep: int = 100
    start: float | None = None

    def __post_init__(self) -> None:
        if self.burn_in < 2 * self.keep or self.keep < 4:
            raise ConfigError(
                f"a chain needs keep ≥ 4 and burn_in ≥ 2·keep, found keep = {self.keep}, "
                f"burn_in = {self.burn_in}; raise burn_in or lower keep"
            )

    def laplace(
        self, manifold: Manifold, sigmas: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, Diagnostics]:
        """Return the last points of `laplace_chains` as tangent vectors, and diagnostics.

        Parameters
        ----------
        manifold : Manifold
            Manifold of the points.
        sigmas : array, shape (C,)
            Scale of each chain.
        rng : numpy.random.Generator
            Source of the random numbers.
        """
        run = laplace_chains(manifold, sigmas, settings=self, rng=rng)
        return run.tangents, diagnose(run)

    def geodesic(
        self,
        log_density: Callable[[Points], FloatArray],
        center: Points,
        manifold: Manifold,
        sigmas: FloatArray,
        rng: np.random.Generator,
    ) -> tuple[FloatArray, Diagnostics]:
        """Return the last points of `geodesic_chains` as tangent vectors, and diagnostics.

        Parameters
        ----------
        log_density : callable
            Function of points, (C, *point_shape), to the logarithms of the target densities.
        center : array, shape (*point_shape)
            Start of the chains, inside the support.
        manifold : Manifold
            Manifold of the points.
        sigmas : array, shape (C,)
            Scale of each chain.
        rng : numpy.random.Generator
            Source of the random numbers.
        """
        run = geodesic_chains(log_density, center, manifold, sigmas, settings=self, rng=rng)
        return run.tangents, diagnose(run)


class ChainRun(NamedTuple):
    """The last points of C chains, as tangent vectors at their centre, and what they went through.

    Attributes
    ----------
    tangents : array, shape (C, d)
        Orthonormal coordinates of the last points at the centre.
    acceptance : array, shape (C,)
        Accepted share of the proposals.
    trace : array, shape (C, keep)
        Distance to the centre, in units of the chain's σ.
    """

    tangents: FloatArray
    acceptance: FloatArray
    trace: FloatArray


def diagnose(run: ChainRun) -> Diagnostics:
    """Return mean acceptance, split R-hat and bulk effective size of chains with one common law.

    Parameters
    ----------
    run : ChainRun
        Chains with one common law.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner, "Rank-normalization, folding, and localization:
    an improved R-hat" (2021); computed by ArviZ.
    """
    from arviz_stats import base

    library: Any = base
    stats = library.array_stats
    trace = run.trace if len(run.trace) > 1 else run.trace.reshape(2, -1)
    axes = {"chain_axis": 0, "draw_axis": 1}
    r_hat = float(stats.rhat(trace, method="split", **axes))
    effective = float(stats.ess(trace, method="bulk", **axes))
    return Diagnostics(float(run.acceptance.mean()), r_hat, effective)


def _seeds(count: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Return `count` distinct seeds: an odd multiplier permutes the 32-bit numbers."""
    first = rng.integers(2**32, dtype=np.uint64)
    scattered = (first + np.arange(count, dtype=np.uint64)) * np.uint64(0x9E3779B1)
    return scattered.astype(np.uint32)


@compiled
def _radius_kernel(
    dim: int,
    bent: bool,
    firsts: FloatArray,
    seeds: NDArray[np.uint32],
    sigmas: FloatArray,
    burn_in: int,
    last: FloatArray,
    accepted: FloatArray,
    trace: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write last radii (C, 1), trace (C, keep) and accepted share (C,); `bent` is hyperbolic.

    `firsts` are the radii at which chains start (C,), NaN for one proposal away.
    """
    keep, half = trace.shape[1], burn_in - burn_in // 2
    for c in range(start, stop):
        np.random.seed(seeds[c])
        scale = sigmas[c]
        radius = firsts[c]
        if math.isnan(radius):
            radius = scale * math.sqrt(2.0 * np.random.standard_gamma(dim / 2.0))
        moves = entries = 0
        for t in range(burn_in):
            across = 0.0
            if dim > 1:
                across = 2.0 * np.random.standard_gamma((dim - 1) / 2.0)
            along = np.random.standard_normal()
            if bent:
                norm = math.sqrt(along * along + across)
                move, turn = scale * norm, (1.0 + along / norm) / 2.0
                square = math.sinh((radius - move) / 2.0) ** 2
                square += math.sinh(radius) * math.sinh(move) * turn
                proposal = 2.0 * math.asinh(math.sqrt(square))
            else:
                proposal = math.sqrt((radius + scale * along) ** 2 + scale * scale * across)
            if np.random.standard_exponential() >= (proposal - radius) / sigmas[c]:
                radius = proposal
                moves += 1
            if (t + 1 - half) * keep >= (entries + 1) * (burn_in - half):
                trace[c, entries] = radius / sigmas[c]
                entries += 1
        last[c, 0], accepted[c] = radius, moves / burn_in
    return True


@compiled
def _spd_log_density(eigenvalues: FloatArray, sigma: float) -> float:
    """Return −‖λ‖/σ + Σ_{i<j} ln(2·sinh(|λ_i − λ_j|/2)), with few logarithms."""
    total, product, square = 0.0, 1.0, 0.0
    for i in range(len(eigenvalues)):
        square += eigenvalues[i] ** 2
        for j in range(i):
            gap = abs(eigenvalues[i] - eigenvalues[j])
            total += gap / 2.0
            product *= -math.expm1(-gap)
            if product < 1e-200:
                total += math.log(product)
                product = 1.0
    return total + math.log(product) - math.sqrt(square) / sigma


@compiled
def _spd_kernel(
    seeds: NDArray[np.uint32],
    sigmas: FloatArray,
    burn_in: int,
    last: FloatArray,
    accepted: FloatArray,
    trace: FloatArray,
    start: int,
    stop: int,
) -> bool:
    """Write last eigenvalues (C, k), trace (C, keep) and accepted share (C,)."""
    keep, half = trace.shape[1], burn_in - burn_in // 2
    proposal = np.empty(last.shape[1])
    for c in range(start, stop):
        np.random.seed(seeds[c])
        current, scale = last[c], sigmas[c]
        for i in range(len(current)):
            current[i] = scale * np.random.standard_normal()
        density = _spd_log_density(current, sigmas[c])
        moves = entries = 0
        for t in range(burn_in):
            for i in range(len(current)):
                proposal[i] = current[i] + scale * np.random.standard_normal()
            proposed = _spd_log_density(proposal, sigmas[c])
            if np.random.standard_exponential() >= density - proposed:
                current[:] = proposal
                density = proposed
                moves += 1
            if (t + 1 - half) * keep >= (entries + 1) * (burn_in - half):
                trace[c, entries] = math.sqrt((current * current).sum()) / sigmas[c]
                entries += 1
        accepted[c] = moves / burn_in
    return True


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

    The tangent vectors live at `center`.

    Parameters
    ----------
    log_density : callable
        Function of points, (C, *point_shape), to the logarithms of the C target densities up to
        constants, −∞ outside their support.
    center : array, shape (*point_shape)
        Start of the chains, inside the support.
    manifold : Manifold
        Manifold of the points.
    sigmas : array, shape (C,)
        Scale of each chain.
    settings : ChainSettings
        Settings of the chains.
    rng : numpy.random.Generator
        Source of the random numbers.

    Returns
    -------
    ChainRun
        Last points, acceptance and trace of each chain.
    """
    chains, scale = len(sigmas), sigmas[:, None]
    state = np.broadcast_to(center, (chains, *manifold.point_shape)).copy()
    density = log_density(state)
    accepted, trace = np.zeros(chains), np.empty((chains, settings.keep))
    half, entries = settings.burn_in - settings.burn_in // 2, 0
    for t in range(-1, settings.burn_in):
        proposal = manifold.exp(state, scale * rng.standard_normal((chains, manifold.dim)))
        proposed = log_density(proposal)
        if t < 0:  # the start, one proposal away where the support allows it
            move = proposed > -math.inf
        else:
            move = rng.standard_exponential(chains) >= density - proposed
            accepted += move
        state[move], density[move] = proposal[move], proposed[move]
        if (t + 1 - half) * settings.keep >= (entries + 1) * (settings.burn_in - half):
            trace[:, entries] = manifold.dist(center, state) / sigmas
            entries += 1
    return ChainRun(manifold.log(center, state), accepted / settings.burn_in, trace)


def laplace_chains(
    manifold: Manifold, sigmas: FloatArray, *, settings: ChainSettings, rng: np.random.Generator
) -> ChainRun:
    """Run one chain per scale, all together, for the density ∝ exp(−dist(y, c)/σ).

    Tangent vectors are at the centre: on a homogeneous manifold, exp(c, ·) carries them to any c.

    Parameters
    ----------
    manifold : Manifold
        Manifold of the points.
    sigmas : array, shape (C,)
        Scale σ of each chain.
    settings : ChainSettings
        Settings of the chains.
    rng : numpy.random.Generator
        Source of the random numbers.

    Returns
    -------
    ChainRun
        Last points, acceptance and trace of each chain.
    """
    if settings.start is not None and not manifold.flat:
        raise ConfigError(
            f"a chain starts at a distance of its own on flat manifolds only, found start = "
            f"{settings.start:g} on {manifold.name}; leave start out"
        )
    order: int | None = getattr(manifold, "spectral_order", None)
    bent = manifold.hadamard and manifold.curvature == (-1.0, -1.0)  # which is H^d and no other
    if order is None and not (manifold.flat or bent):
        origin = manifold.origin

        def log_density(points: Points) -> FloatArray:
            return np.asarray(-manifold.dist(origin, points) / sigmas)

        return geodesic_chains(log_density, origin, manifold, sigmas, settings=settings, rng=rng)
    chains, scales = len(sigmas), np.ascontiguousarray(sigmas, dtype=np.float64)
    begins = math.nan if settings.start is None else settings.start * math.sqrt(manifold.dim)
    begun = partial(_radius_kernel, manifold.dim, bent, begins / scales)  # NaN if not flat
    width, kernel = 1, cast(Callable[..., bool], begun)
    if order is not None:
        kernel, width = _spd_kernel, order
    units = np.ones(chains) if manifold.flat else scales
    last, *rest = np.empty((chains, width)), np.empty(chains), np.empty((chains, settings.keep))
    spread(kernel, chains, _seeds(chains, rng), units, settings.burn_in, last, *rest, share=1)
    if order is not None:
        return ChainRun(rotate(last, rng), *rest)
    radius = scales[:, None] * last if manifold.flat else last
    return ChainRun(radius * directions(chains, manifold.dim, rng), *rest)
