"""Microseconds a draw: exact samplers, and the published Markov chain they replace.

The peer of the chain rows is the chain as its paper prints it, one step after another in NumPy, in
all coordinates (log-Euclidean) or on the log-eigenvalues (affine-invariant), for one draw.
"""

import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from covdp.addons.papers.chains import ChainSettings
from covdp.arrays import FloatArray
from covdp.geometry import MANIFOLDS
from covdp.mechanisms import MECHANISMS
from covdp.privacy import GDP, PureDP

BATCH = 10_000
CHAINS = 200
SENSITIVITY = 0.075
"""Of the published simulation: 40 records in a ball of radius 1.5."""


def published_flat_chain(dim: int, steps: int, rng: np.random.Generator) -> FloatArray:
    """Return one draw of density ∝ exp(−‖x‖/σ), σ = 1, by log-Gaussian proposals."""
    state = rng.standard_normal(dim)
    norm = math.sqrt(state @ state)
    for _ in range(steps):
        proposal = state + rng.standard_normal(dim)
        proposed = math.sqrt(proposal @ proposal)
        if rng.random() < math.exp(min(norm - proposed, 0.0)):
            state, norm = proposal, proposed
    return state


def published_spd_chain(k: int, sigma: float, steps: int, rng: np.random.Generator) -> FloatArray:
    """Return log-eigenvalues of one draw of the affine-invariant law (Hajri and others 2016)."""
    rows, columns = np.triu_indices(k, 1)

    def log_density(values: FloatArray) -> float:
        gaps = np.sinh(np.abs(values[rows] - values[columns]) / 2.0)
        return float(np.log(gaps).sum()) - math.sqrt(values @ values) / sigma

    state = sigma * rng.standard_normal(k)
    density = log_density(state)
    for _ in range(steps):
        proposal = state + sigma * rng.standard_normal(k)
        proposed = log_density(proposal)
        if rng.random() < math.exp(min(proposed - density, 0.0)):
            state, density = proposal, proposed
    return state


def microseconds(draw: Callable[[], Any], draws: int, *, rounds: int) -> float:
    """Return the median time of one draw over some rounds, in microseconds, warm."""
    draw()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        draw()
        seconds.append(time.perf_counter() - start)
    return 1e6 * statistics.median(seconds) / draws


def sampler(name: str, space: str, **knobs: Any) -> Callable[[int], Any]:
    """Return size → draws of a calibrated mechanism on SPD(5)."""
    manifold = MANIFOLDS[space](k=5)
    budget = GDP(1.0) if name == "ewg" else PureDP(1.0)
    mechanism = MECHANISMS[name].calibrate(
        budget, sensitivity=SENSITIVITY, manifold=manifold, **knobs
    )
    center = manifold.exp(manifold.origin, np.full(manifold.dim, 0.1))
    rng = np.random.default_rng(0)

    def draw(size: int) -> Any:
        return mechanism.sample(center, size=size, rng=rng)

    return draw


def row(name: str, ours: float, peer: float | None, target: float) -> dict[str, Any]:
    """Return a row; without a peer, `target` is the most microseconds and the ratio is theirs."""
    return {
        "name": name,
        "ours": ours,
        "peer": peer,
        "unit": "µs a draw",
        "ratio": peer / ours if peer is not None else target / ours,
        "target": target if peer is not None else 1.0,
    }


def run() -> list[dict[str, Any]]:
    """Measure the exact samplers against their limits, and the chains against the papers'."""
    rng = np.random.default_rng(1)
    rows = []
    for name, most in (("rl", 20.0), ("ewg", 5.0)):
        for space in ("spd-affine-invariant", "spd-log-euclidean"):
            ours = microseconds(partial(sampler(name, space), BATCH), BATCH, rounds=9)
            title = f"{name}, {space}, d = 15, exact, limit {most:g} µs"
            rows.append(row(title, ours, None, most))
    papers: dict[str, tuple[int, Callable[[], FloatArray]]] = {
        "spd-affine-invariant": (10_000, partial(published_spd_chain, 5, SENSITIVITY, 10_000, rng)),
        "spd-log-euclidean": (50_000, partial(published_flat_chain, 15, 50_000, rng)),
    }
    for space, (steps, published) in papers.items():
        peer = microseconds(published, 1, rounds=3)
        exact = microseconds(partial(sampler("rl", space), BATCH), BATCH, rounds=5)
        rows.append(row(f"rl, {space}, exact, against {steps:,} steps", exact, peer, 1000.0))
        chains = sampler("rl", space, chain=ChainSettings(burn_in=steps))
        ours = microseconds(partial(chains, CHAINS), CHAINS, rounds=3)
        rows.append(row(f"rl, {space}, our chain of {steps:,} steps", ours, peer, 10.0))
    return rows
