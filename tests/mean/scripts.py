"""Noise that is written down in advance, and what a mean does with it."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray
from sample_manifolds import MEDIUM, SPD, charted

from covdp.arrays import FloatArray
from covdp.descriptors import describe, domain
from covdp.geometry import MANIFOLDS, FlatChart, Manifold, Point, sym_exp, unvecd
from covdp.mean import (
    Ball,
    Domain,
    MeanSetup,
    draw_each,
)
from covdp.mean.clip import SQRT2
from covdp.mean.plan import STEP_NAMES
from covdp.mechanisms import NoisyVector
from covdp.privacy import (
    Budget,
)
from tests.sample_means import drawn

Script = Callable[[int, int], FloatArray]
"""Step and length → what the step releases."""


@dataclass
class Probe:
    """Noise that follows scripts, one of each repetition, and remembers what it was given."""

    scripts: tuple[Script, ...]
    rng: None = None
    vectors: list[FloatArray] = field(default_factory=list)
    scales: list[tuple[int, float, float]] = field(default_factory=list)

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Return the script, whatever the vector."""
        self.vectors.append(vector.copy())
        self.scales.append((len(vector), sigma, sensitivity))
        step, repetition = divmod(len(self.vectors) - 1, len(self.scripts))
        return NoisyVector(self.scripts[repetition](step, len(vector)), math.nan)


def images() -> NDArray[np.uint8]:
    """Return pictures of every extreme kind, (12, 28, 28)."""
    rng = np.random.default_rng(3)
    at = np.arange(28)
    rows, columns = np.meshgrid(at, at, indexing="ij")
    found = [
        np.full((28, 28), 0),
        np.full((28, 28), 255),
        np.where(columns % 4 < 2, 40, 200),
        np.where(rows < 14, 0, 255),
        np.where((rows + columns) % 2, 0, 255),
        np.where((rows == 5) & (columns == 9), 3, 0),
        np.where((rows + columns) % 6 < 3, 0, 255),
        columns * 9,
        rng.integers(0, 256, (28, 28)),
        rng.integers(100, 102, (28, 28)),
        255 * (rng.random((28, 28)) < 0.02),
        np.clip(rng.normal(128, 20, (28, 28)).cumsum(axis=0) / 28, 0, 255),
    ]
    return np.stack(found).astype(np.uint8)


def opposite(trace: float, eta: float) -> Point:
    """Return matrices that are D apart: the trace on the first two axes, or on the other three."""
    first, other = np.full((2, 5), eta)
    first[:2] += trace / 2.0
    other[2:] += trace / 3.0
    return np.stack([np.diag(first), np.diag(other)])


@cache
def setting(name: str) -> tuple[Manifold, Domain, Point]:
    """Return manifold, domain and candidate records, from usual ones to far outside the domain."""
    rng = np.random.default_rng(7)
    if name not in SPD:
        ball, space = Ball(2.0, name), charted(MEDIUM[name])
        spokes = rng.standard_normal((10, space.dim))
        spokes *= np.geomspace(1e-3, 8.0, 10)[:, None] / np.linalg.norm(spokes, axis=1)[:, None]
        edge = 2.0 * np.eye(space.dim)
        return space, ball, space.exp(space.origin, np.concatenate([spokes, edge, -edge]))
    facts = domain("oct5", height=28, width=28, manifold=name)
    matrices = np.concatenate([describe(images()), opposite(facts.trace, facts.eta)])
    full = MANIFOLDS[name](k=5)
    if not full.flat:
        beyond = sym_exp(unvecd(rng.normal(0.0, 3.0, (4, 15))))
        return full, facts, np.concatenate([matrices, beyond])
    inside = full.log(full.origin, matrices)
    far = [1e3 * inside, -1e3 * inside, rng.normal(0.0, 30.0, (8, 15))]
    return FlatChart(full), facts, np.concatenate([inside, *far])


def flat_script(step: int, length: int) -> FloatArray:
    """Shares spread over all shells, offset 0: wide clips."""
    if STEP_NAMES[step].startswith("mean"):
        return np.zeros(length)
    return np.full(length, 1.0 / (length * SQRT2))


def near_script(step: int, length: int) -> FloatArray:
    """All in the first shell: narrow clips."""
    out = np.zeros(length)
    if STEP_NAMES[step].startswith("shells"):
        out[0] = 1.0 / SQRT2
    return out


def far_script(step: int, length: int) -> FloatArray:
    """All in the farthest shell, and the means at the edge."""
    out = np.zeros(length)
    out[-1] = 1.0 / SQRT2
    return out


def random_script(seed: int, scale: float) -> Script:
    """Numbers of no meaning, of all sizes."""

    def script(step: int, length: int) -> FloatArray:
        rng = np.random.default_rng((seed, step))
        return scale * rng.standard_normal(length)

    return script


SCRIPTS = {
    "flat": flat_script,
    "near": near_script,
    "far": far_script,
    "noise": random_script(1, 0.3),
    "small": random_script(2, 0.02),
    "huge": random_script(3, 1e6),
}


def probe(ready: MeanSetup, budget: Budget, *scripts: Script) -> Probe:
    """Run the algorithm with scripts in place of the noise."""
    found = Probe(scripts)
    drawn(ready, budget, found, size=len(scripts))
    return found


def steps_of(
    classes: Sequence[MeanSetup], budget: Budget, *scripts: Script
) -> tuple[list[FloatArray], list[tuple[int, float, float]]]:
    """Return the vectors of all classes before noise, (classes, length), and what noise was asked.

    Of each script in a step, then the next step; the noise is the same for all classes.
    """
    found = [[Probe((script,)) for script in scripts] for _ in classes]
    each = [ready for ready in classes for _ in scripts]
    draw_each(each, budget, noise=[probe for own in found for probe in own])
    vectors, scales = list[FloatArray](), list[tuple[int, float, float]]()
    for step, script in itertools.product(range(len(STEP_NAMES)), range(len(scripts))):
        (asked,) = {own[script].scales[step] for own in found}
        scales.append(asked)
        vectors.append(np.stack([own[script].vectors[step] for own in found]))
    return vectors, scales
