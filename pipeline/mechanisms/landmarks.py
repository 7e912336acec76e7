"""Point-wise Laplace on landmarks: every landmark gets its own noise and its share of the budget.

The baseline of "Shape and structure preserving differential privacy" for planar shapes. The
statistic is a preshape z ∈ C^m (centred, norm 1) in a fixed rotation; whether records were aligned
before it was computed is the caller's choice and shows in the sensitivity only.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold
from pipeline.mechanisms.capabilities import laplace_price
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
from pipeline.privacy import Budget, laplace_sigma, split


@dataclass(frozen=True)
class LandmarkLaplace:
    """Noise of density ∝ exp(−|x|/σ) on each landmark; then all are centred and scaled to norm 1.

    Notes
    -----
    **Privacy.** Replace-one. Δ bounds the move of every single landmark, |z_j − z_j'| ≤ Δ. Each of
    m landmarks costs its share of the budget (ε/m in pure DP, μ/√m in GDP), and the shares compose
    to the whole. Centring and scaling are post-processing. Idealised numerics.

    References
    ----------
    Soto, Bharath, Reimherr and Slavković (2022), section 4.3.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    law: ClassVar[str] = "z_j + x_j, density of x_j ∝ exp(−|x_j|/σ) on C; centred, norm 1"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` preshapes, shape (size, m); `base` is not used."""
        (landmarks,) = self.manifold.point_shape
        center = check_centers(center, (landmarks,), check_size(size))
        radius = self.sigma * rng.standard_gamma(2.0, (size, landmarks))
        noisy = center + radius * np.exp(2j * np.pi * rng.random((size, landmarks)))
        noisy = noisy - noisy.mean(axis=-1, keepdims=True)
        return Draws(noisy / np.linalg.norm(noisy, axis=-1, keepdims=True), Diagnostics())

    def expected_error(self) -> float | None:
        """Return None: the projection has no closed law."""
        return None


def landmark_laplace(budget: Budget, *, sensitivity: float, manifold: Manifold) -> LandmarkLaplace:
    """Calibrate one landmark to its equal share of the budget.

    Parameters
    ----------
    sensitivity : float
        Δ: the largest move of one landmark, in units of the preshape (norm 1).
    """
    LANDMARK_LAPLACE.require(budget, manifold)
    (landmarks,) = manifold.point_shape
    share = split(budget, [1.0 / landmarks] * landmarks)[0]
    return LandmarkLaplace(budget, sensitivity, manifold, laplace_sigma(share, sensitivity))


def _landmarks(manifold: Manifold) -> bool:
    """Return whether points are landmarks in the plane."""
    return hasattr(manifold, "landmarks")


def neighbours(mechanism: Mechanism) -> Neighbours:
    """Score Σ_j (|y_j − c'_j| − |y_j − c_j|)/σ: the log ratio before centring and scaling.

    The regular polygon is rotated, so that every landmark moves by Δ and neither centre nor size
    changes. Centring and scaling the output lose little while the noise is small against the shape.
    """
    polygon, sigma = mechanism.manifold.origin, mechanism.sigma
    angle = math.asin(mechanism.sensitivity * math.sqrt(len(polygon)) / 2.0)
    left, right = np.exp(1j * angle) * polygon, np.exp(-1j * angle) * polygon

    def score(y: Points) -> FloatArray:
        return np.asarray((np.abs(y - right) - np.abs(y - left)).sum(axis=-1)) / sigma

    return Neighbours(left, right, None, score, exact=False)


LANDMARK_LAPLACE = Family(
    name="landmark-laplace",
    title="Point-wise Laplace on landmarks",
    calibrate=landmark_laplace,
    definitions=LAPLACE_DEFINITIONS,
    proven=_landmarks,
    price=laplace_price,
    neighbours=neighbours,
    typical=0.02,
    note="ignores the shape: for comparison only",
    moves="embedding",
)
