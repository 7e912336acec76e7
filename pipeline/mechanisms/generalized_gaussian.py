"""The wrapped generalized Gaussian mechanism: independent coordinates of density ∝ exp(−|x/σ|^N).

Reference: Soto and others, "Rao differential privacy", Theorem 4.12.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError
from pipeline.geometry import Manifold
from pipeline.mechanisms.capabilities import hadamard
from pipeline.mechanisms.family import Draws, Family, Mechanism, Neighbours, Points, check_size
from pipeline.mechanisms.neighbours import opposite
from pipeline.mechanisms.wrapped import wrap
from pipeline.privacy import Budget, RaoDP, generalized_gaussian_cost, generalized_gaussian_sigma


@dataclass(frozen=True)
class WrappedGeneralizedGaussian:
    """Wrapped generalized Gaussian: independent coordinates with density ∝ exp(−|x/σ|^N).

    Notes
    -----
    **Privacy.** Replace-one, θ-Rao DP only, which bounds neither ε nor δ. The d coordinates have
    equal Fisher information I = N·Γ(2 − 1/N)/(Γ(1 + 1/N)·σ²) and are independent, so the location
    family is flat in the Fisher-Rao metric and two centres lie √I·‖v − v'‖ ≤ √I·Δ = θ apart: the
    one-dimensional formula holds with the L2 sensitivity. Idealised numerics.

    References
    ----------
    "Rao differential privacy", Theorem 4.12, with σ inside the power.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    degree: float
    law: ClassVar[str] = "exp(p0, log(p0, c) + x), independent coordinates ∝ exp(−|x_i/σ|^N)"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs; |x/σ|^N ~ Gamma(1/N) with a fair sign in each coordinate."""
        shape = (check_size(size), self.manifold.dim)
        magnitude = rng.standard_gamma(1.0 / self.degree, shape) ** (1.0 / self.degree)
        sign = 1.0 - 2.0 * rng.integers(0, 2, shape)
        return wrap(center, base, self.sigma * sign * magnitude, self.manifold)

    def expected_error(self) -> float | None:
        """Return None: the norm has no closed law, except for N = 2."""
        return None


def generalized_gaussian(
    budget: Budget, *, sensitivity: float, manifold: Manifold, degree: float = 4.0
) -> WrappedGeneralizedGaussian:
    """Calibrate σ = Δ·√(N·Γ(2 − 1/N)/Γ(1 + 1/N))/θ for a degree N ≥ 1.

    Raises
    ------
    PrivacyError
        For a definition other than Rao DP or a degree below 1.
    """
    GENERALIZED_GAUSSIAN.require(budget, manifold)
    sigma = generalized_gaussian_sigma(cast(RaoDP, budget), sensitivity, degree)
    return WrappedGeneralizedGaussian(budget, sensitivity, manifold, sigma, degree)


def generalized_gaussian_price(
    sigma: float,
    sensitivity: float,
    target: type[Budget],
    *,
    delta: float | None,
    alpha: float | None,
    degree: float | None,
) -> Budget:
    """Return what generalized Gaussian noise costs: Rao DP, nothing else is known."""
    if target is not RaoDP or degree is None:
        raise PrivacyError(f"generalized Gaussian noise has a cost in Rao DP only, not {target}")
    return generalized_gaussian_cost(sigma, sensitivity, degree)


def generalized_gaussian_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score Σ (|x_j − v'_j|^N − |x_j − v_j|^N)/σ^N, N the degree."""
    manifold, sigma = mechanism.manifold, mechanism.sigma
    degree = mechanism.degree if isinstance(mechanism, WrappedGeneralizedGaussian) else 2.0
    base, left, right = opposite(manifold, mechanism.sensitivity / 2.0)
    v = manifold.log(base, left)

    def score(y: Points) -> FloatArray:
        x = manifold.log(base, y)
        ratio = (np.abs(x + v) / sigma) ** degree - (np.abs(x - v) / sigma) ** degree
        return np.asarray(ratio.sum(axis=-1))

    return Neighbours(left, right, base, score)


GENERALIZED_GAUSSIAN = Family(
    name="generalized-gaussian",
    price=generalized_gaussian_price,
    neighbours=generalized_gaussian_neighbours,
    options=("degree",),
    title="Wrapped generalized Gaussian",
    calibrate=generalized_gaussian,
    definitions=("rao",),
    proven=hadamard,
    note="Rao DP bounds neither ε nor δ: for comparison only",
    wrapped=True,
)
