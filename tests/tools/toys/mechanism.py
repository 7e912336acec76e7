"""A mechanism: wrapped noise with the flat top of a Gaussian and the tails of a Laplace.

    output = exp(p0, log(p0, c) + x),   density of x ∝ exp(−H(‖x‖/σ)),

H Huber's function: H(t) = t²/2 up to 1, t − 1/2 from there on.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from covdp.arrays import FloatArray
from covdp.geometry import Manifold
from covdp.mechanisms.additive import wrap
from covdp.mechanisms.base import (
    Draws,
    Family,
    Mechanism,
    Neighbours,
    Points,
    check_size,
    hadamard,
    opposite,
)
from covdp.mechanisms.radial import directions
from covdp.privacy import Budget, laplace_cost, laplace_sigma


@dataclass(frozen=True)
class WrappedHuber:
    """Exponential-wrapped Huber noise.

    Notes
    -----
    **Privacy.** Replace-one. ε-DP with ε = Δ/σ on every Hadamard manifold: 0 ≤ H' ≤ 1, so the log
    density of the noise is 1/σ-Lipschitz, and log(p0, ·) is a contraction: the log ratio is at most
    ‖v − v'‖/σ ≤ Δ/σ. Every other definition follows from ε. Idealised numerics.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    law: ClassVar[str] = "exp(p0, log(p0, c) + x), density of x ∝ exp(−H(‖x‖/σ)), H Huber's"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs; `base` is the footpoint, the manifold's origin when left out."""
        dim = self.manifold.dim
        radius = self.sigma * _radii(dim, check_size(size), rng)
        return wrap(center, base, radius[:, None] * directions(size, dim, rng), self.manifold)

    def expected_error(self, power: int = 1) -> float | None:
        """Return E dist(output, c)^p on a flat manifold, else None."""
        dim = self.manifold.dim
        if not self.manifold.flat:
            return None
        return self.sigma**power * sum(_masses(dim + power)) / sum(_masses(dim))


def _masses(dim: int) -> tuple[float, float]:
    """Return ∫ t^{d−1}·e^{−H(t)} dt up to 1, and from 1 on, by incomplete Gamma functions."""
    near = 2.0 ** (dim / 2 - 1) * special.gamma(dim / 2) * special.gammainc(dim / 2, 0.5)
    far = np.exp(0.5) * special.gamma(dim) * special.gammaincc(dim, 1.0)
    return float(near), float(far)


def _radii(dim: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Return radii in units of σ: which part, then the inverse of its distribution function."""
    near, far = _masses(dim)
    inner, u = rng.random(size) < near / (near + far), rng.random(size)
    low = np.sqrt(2.0 * special.gammaincinv(dim / 2, u * special.gammainc(dim / 2, 0.5)))
    high = special.gammainccinv(dim, u * special.gammaincc(dim, 1.0))
    return np.asarray(np.where(inner, low, high))


def huber(budget: Budget, *, sensitivity: float, manifold: Manifold) -> WrappedHuber:
    """Calibrate σ = Δ/ε, ε the largest pure budget that implies `budget`."""
    return WrappedHuber(budget, sensitivity, manifold, laplace_sigma(budget, sensitivity))


def neighbours(mechanism: Mechanism) -> Neighbours:
    """Score H(‖x − v'‖/σ) − H(‖x − v‖/σ) with x = log_{p0} y."""
    manifold, sigma = mechanism.manifold, mechanism.sigma
    base, left, right = opposite(manifold, mechanism.sensitivity / 2.0)
    v = manifold.log(base, left)

    def cost(x: FloatArray) -> FloatArray:
        return np.asarray(special.huber(1.0, np.linalg.norm(x, axis=-1) / sigma))

    def score(y: Points) -> FloatArray:
        x = manifold.log(base, y)
        return np.asarray(cost(x + v) - cost(x - v))

    return Neighbours(left, right, base, score)


HUBER = Family(
    name="huber",
    in_words="the exponential-wrapped Huber mechanism",
    title="Exponential-wrapped Huber",
    make=huber,
    definitions=("pure", "approx", "gdp", "rdp", "zcdp"),
    proven=hadamard,
    price=laplace_cost,
    neighbours=neighbours,
    note="float noise: for experiments",
    wrapped=True,
)
