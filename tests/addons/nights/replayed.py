"""Streams that are recorded and replayed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from covdp.addons.audit.attacks import ENDS
from covdp.addons.nights.stream import (
    Night,
    PrivateSums,
    StreamMechanism,
    StreamPlan,
    empty_state,
    release_night,
)
from covdp.descriptors import domain
from covdp.geometry import MANIFOLDS
from covdp.mechanisms import NoisyVector
from covdp.privacy import GDP

SPACE = MANIFOLDS["spd-log-euclidean"](k=5)
KNOWN = domain("oct5", height=28, width=28)
MU, HORIZON = 1.0, 40


def stream(horizon: int = HORIZON, budget: Any = None, opening: float = 3.0) -> StreamMechanism:
    return StreamMechanism(StreamPlan(budget or GDP(MU), horizon, opening), KNOWN, SPACE)


def units(n: int, seed: int, width: float = 0.5) -> Any:
    """Matrices about the prior's centre: like images of one class."""
    rng = np.random.default_rng(seed)
    offset = stream().centre + width * rng.standard_normal((n, SPACE.dim))
    return SPACE.exp(SPACE.origin, offset)


def nights(sizes: Sequence[int], seed: int = 0) -> list[Any]:
    return [units(size, seed + place) for place, size in enumerate(sizes)]


@dataclass
class Recorded:
    """Noise that keeps what it gave, what was asked, and σ."""

    rng: np.random.Generator | None = None
    scale: float = 1.0
    asked: list[Any] = field(default_factory=list)
    gave: list[Any] = field(default_factory=list)
    sigmas: list[float] = field(default_factory=list)

    def __call__(self, vector: Any, sigma: float, sensitivity: float) -> NoisyVector:
        """Add noise, and keep it."""
        drawn = np.random.default_rng([7, len(self.gave)]).standard_normal(len(vector))
        return self.keep(vector, vector + self.scale * sigma * drawn, sigma)

    def keep(self, vector: Any, told: Any, sigma: float) -> NoisyVector:
        """Tell what is told."""
        self.asked.append(vector)
        self.gave.append(told)
        self.sigmas.append(sigma)
        return NoisyVector(told, math.nan)


@dataclass
class Replayed(Recorded):
    """No noise: what was told before is told again, and what is asked now is kept."""

    told: Sequence[Any] = ()

    def __call__(self, vector: Any, sigma: float, sensitivity: float) -> NoisyVector:
        """Tell the next of what was told."""
        return self.keep(vector, self.told[len(self.gave)], sigma)


def run(of: StreamMechanism, batches: Sequence[Any], noise: Any) -> tuple[list[Night], PrivateSums]:
    history, private = list[Night](), empty_state(SPACE.dim)
    for points in batches:
        night, private = release_night(of, history, private, points, noise=noise)
        history.append(night)
    return history, private


def leak(of: StreamMechanism, left: Sequence[Any], right: Sequence[Any]) -> float:
    """Return the exact μ of a transcript: each step is normal given those before.

    The means of either data set are those when the steps before are replayed; the differences,
    over σ, add up in squares.
    """
    first = Recorded()
    run(of, left, first)
    second = Replayed(told=first.gave)
    run(of, right, second)
    steps = zip(first.asked, second.asked, first.sigmas, strict=True)
    return math.sqrt(sum(float(np.sum((a - b) ** 2)) / sigma**2 for a, b, sigma in steps))


def with_unit(batches: Sequence[Any], night: int, unit: Any) -> list[Any]:
    """Return the nights with the first unit of one replaced."""
    changed = list(batches)
    changed[night] = np.concatenate([unit[None], batches[night][1:]])
    return changed


def ends() -> tuple[Any, Any]:
    """Two records at opposite ends of the line and of the ball."""
    left, right = (np.diag(np.exp(end)) for end in ENDS)
    return left, right


def told(history: Sequence[Night]) -> list[Any]:
    """Everything that leaves, as bytes."""
    found: list[Any] = []
    for night in history:
        found += [night.units, night.n_so_far]
        if night.epoch:
            found += [night.epoch.first, night.epoch.centre.tobytes(), night.epoch.radius]
        if night.opened:
            found += [night.opened.offset.tobytes(), night.opened.observed.belief.tobytes()]
        for vector in (night.shells, night.w, night.moment):
            found.append(None if vector is None else vector.tobytes())
    return found
