"""Exponential-wrapped mechanisms: noise in one tangent space, carried over by the exponential map.

    output = exp(p0, log(p0, c) + noise),   c the statistic, p0 the footpoint

The footpoint is public, or already private. On a Hadamard manifold log(p0, ·) is a contraction,
``‖log(p0, c) − log(p0, c')‖ ≤ dist(c, c') ≤ Δ``, so that the noise masks a vector of R^d with L2
sensitivity Δ, and exp(p0, ·) is post-processing: whatever holds for the noise in R^d holds for the
output, for every footpoint that does not depend on the private data. On a flat manifold the
footpoint does not change the output at all.

References: "Exponential-wrapped mechanisms for differential privacy on Hadamard manifolds",
Theorems 3.1 to 3.4; Utpala, Vepakomma and Miolane, "Differentially private Fréchet mean on the
manifold of symmetric positive definite matrices" (tangent Gaussian, Theorem 4); Soto and others,
"Rao differential privacy", Theorem 4.12 (generalized Gaussian).

The wrapped generalized Gaussian mechanism: independent coordinates of density ∝ exp(−|x/σ|^N).

Reference: Soto and others, "Rao differential privacy", Theorem 4.12.
"""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError
from pipeline.geometry import Manifold
from pipeline.geometry.covariances import SPECTRAL, covariances_of
from pipeline.mechanisms.base import (
    GAUSSIAN_DEFINITIONS,
    LAPLACE_DEFINITIONS,
    Diagnostics,
    Draws,
    Family,
    HardenedDraw,
    Mechanism,
    Neighbours,
    Points,
    check_centers,
    check_size,
    chi_mean,
    diagonal,
    hadamard,
    opposite,
)
from pipeline.mechanisms.noise import Noise
from pipeline.mechanisms.radial import directions
from pipeline.privacy import (
    Budget,
    RaoDP,
    gaussian_cost,
    gaussian_sigma,
    generalized_gaussian_cost,
    generalized_gaussian_sigma,
    laplace_cost,
    laplace_sigma,
)


def wrap(center: Points, base: Points | None, noise: FloatArray, manifold: Manifold) -> Draws:
    """Return exp(p0, log(p0, c) + noise) for each row of `noise`, shape (size, d)."""
    size = len(noise)
    center = check_centers(center, manifold.point_shape, size)
    base = manifold.origin if base is None else check_centers(base, manifold.point_shape, size)
    return Draws(manifold.exp(base, manifold.log(base, center) + noise), Diagnostics())


@dataclass(frozen=True)
class WrappedLaplace:
    """Exponential-wrapped Laplace: noise of density ∝ exp(−‖u‖/σ) on R^d, so ‖u‖ ~ σ·Gamma(d, 1).

    Notes
    -----
    **Privacy.** Replace-one. ε-DP with ε = Δ/σ on every Hadamard manifold: the log density ratio of
    the noise is |‖u − v‖ − ‖u − v'‖|/σ ≤ ‖v − v'‖/σ ≤ Δ/σ. Idealised numerics.

    References
    ----------
    "Exponential-wrapped mechanisms …", Theorem 3.1 and Algorithm 1.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    law: ClassVar[str] = "exp(p0, log(p0, c) + σ·G·v), G ~ Gamma(d, 1), v uniform on S^{d−1}"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs; `base` is the footpoint, the manifold's origin when left out."""
        dim = self.manifold.dim
        radius = self.sigma * rng.standard_gamma(dim, check_size(size))
        return wrap(center, base, radius[:, None] * directions(size, dim, rng), self.manifold)

    def expected_error(self) -> float | None:
        """Return E dist(output, c) = σd on a flat manifold, else None."""
        return self.sigma * self.manifold.dim if self.manifold.flat else None


@dataclass(frozen=True)
class WrappedGaussian:
    """Exponential-wrapped Gaussian: noise N(0, σ²·Id) on R^d; on flat manifolds dist² ~ σ²·χ²_d.

    Notes
    -----
    **Privacy.** Replace-one. The Gaussian mechanism of R^d with L2 sensitivity Δ; the scale is that
    of `gaussian_sigma`. Idealised numerics: a release adds `hardened_gaussian` instead.

    References
    ----------
    "Exponential-wrapped mechanisms …", Theorems 3.2 to 3.4.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    law: ClassVar[str] = "exp(p0, log(p0, c) + N(0, σ²·Id))"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs; `base` is the footpoint, the manifold's origin when left out."""
        noise = self.sigma * rng.standard_normal((check_size(size), self.manifold.dim))
        return wrap(center, base, noise, self.manifold)

    def expected_error(self) -> float | None:
        """Return E dist(output, c) = σ√2·Γ((d+1)/2)/Γ(d/2) on a flat manifold, else None."""
        return chi_mean(self.manifold.dim, self.sigma) if self.manifold.flat else None


def hardened_gaussian_draw(mechanism: Mechanism, statistic: Points, noise: Noise) -> HardenedDraw:
    """Return one output at the origin with Gaussian noise from `noise`.

    σ is raised by 1e-12 of its value, so that a certificate that is rounded up stays within the
    budget.
    """
    space, sigma = mechanism.manifold, mechanism.sigma * (1 + 1e-12)
    vector = space.log(space.origin, statistic)
    drawn = noise(vector, sigma, mechanism.sensitivity)
    return HardenedDraw(space.exp(space.origin, drawn.vector), sigma, drawn.rho)


def wrapped_laplace(budget: Budget, *, sensitivity: float, manifold: Manifold) -> WrappedLaplace:
    """Calibrate σ = Δ/ε, ε the largest pure budget that implies `budget`."""
    return WrappedLaplace(budget, sensitivity, manifold, laplace_sigma(budget, sensitivity))


def wrapped_gaussian(
    budget: Budget, *, sensitivity: float, manifold: Manifold, analytic: bool = True
) -> WrappedGaussian:
    """Calibrate the standard deviation σ per coordinate; see `gaussian_sigma`.

    The tangent Gaussian is the wrapped Gaussian of the log-Euclidean metric at the identity, under
    the name and with the two calibrations of its paper: `analytic`, or classical for ε < 1.
    """
    sigma = gaussian_sigma(budget, sensitivity, analytic=analytic)
    return WrappedGaussian(budget, sensitivity, manifold, sigma)


def gaussian_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score ⟨log_{p0} y, u⟩·Δ/σ²: the log ratio of the two normal laws."""
    manifold = mechanism.manifold
    base, left, right = opposite(manifold, mechanism.sensitivity / 2.0)
    axis = diagonal(manifold.dim) * mechanism.sensitivity / mechanism.sigma**2
    return Neighbours(left, right, base, lambda y: manifold.log(base, y) @ axis)


def laplace_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score (‖x − v'‖ − ‖x − v‖)/σ with x = log_{p0} y."""
    manifold, sigma = mechanism.manifold, mechanism.sigma
    base, left, right = opposite(manifold, mechanism.sensitivity / 2.0)
    v = manifold.log(base, left)

    def score(y: Points) -> FloatArray:
        x = manifold.log(base, y)
        return np.asarray(np.linalg.norm(x + v, axis=-1) - np.linalg.norm(x - v, axis=-1)) / sigma

    return Neighbours(left, right, base, score)


def _log_euclidean(manifold: Manifold) -> bool:
    """Return whether this is the paper's metric: flat, and lengths are those of log-eigenvalues."""
    return manifold.flat and covariances_of(manifold) is SPECTRAL


EWL = Family(
    name="ewl",
    price=laplace_cost,
    neighbours=laplace_neighbours,
    title="Exponential-wrapped Laplace",
    make=wrapped_laplace,
    definitions=LAPLACE_DEFINITIONS,
    proven=hadamard,
    note="float noise: for experiments",
    wrapped=True,
)
EWG = Family(
    name="ewg",
    price=gaussian_cost,
    neighbours=gaussian_neighbours,
    options=("analytic",),
    title="Exponential-wrapped Gaussian",
    make=wrapped_gaussian,
    definitions=GAUSSIAN_DEFINITIONS,
    proven=hadamard,
    note="a release draws its noise from an integer lattice",
    wrapped=True,
    hardened=hardened_gaussian_draw,
)
TANGENT_GAUSSIAN = Family(
    name="tangent-gaussian",
    price=gaussian_cost,
    neighbours=gaussian_neighbours,
    options=("analytic",),
    title="Tangent Gaussian",
    make=wrapped_gaussian,
    definitions=GAUSSIAN_DEFINITIONS,
    proven=_log_euclidean,
    note="the wrapped Gaussian of the log-Euclidean metric at the identity",
    wrapped=True,
    hardened=hardened_gaussian_draw,
)


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
    make=generalized_gaussian,
    definitions=("rao",),
    proven=hadamard,
    note="Rao DP bounds neither ε nor δ: for comparison only",
    wrapped=True,
)
