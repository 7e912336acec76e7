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
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold
from pipeline.geometry.covariances import SPECTRAL, covariances_of
from pipeline.mechanisms.capabilities import gaussian_price, hadamard, laplace_price
from pipeline.mechanisms.family import (
    GAUSSIAN_DEFINITIONS,
    LAPLACE_DEFINITIONS,
    Diagnostics,
    Draws,
    Family,
    HardenedDraw,
    Mechanism,
    Points,
    check_centers,
    check_size,
    chi_mean,
)
from pipeline.mechanisms.neighbours import wrapped_gaussian as wrapped_gaussian_neighbours
from pipeline.mechanisms.neighbours import wrapped_laplace as wrapped_laplace_neighbours
from pipeline.mechanisms.noise import Noise
from pipeline.mechanisms.radial import directions
from pipeline.privacy import (
    Budget,
    gaussian_sigma,
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
    """Calibrate σ = Δ/ε, ε the largest pure budget that implies `budget`.

    Raises
    ------
    PrivacyError
        On a manifold of positive curvature, or for a sensitivity that is not positive.
    """
    EWL.require(budget, manifold)
    return WrappedLaplace(budget, sensitivity, manifold, laplace_sigma(budget, sensitivity))


def wrapped_gaussian(
    budget: Budget, *, sensitivity: float, manifold: Manifold, analytic: bool = True
) -> WrappedGaussian:
    """Calibrate the standard deviation σ per coordinate; see `gaussian_sigma`.

    Raises
    ------
    PrivacyError
        For pure DP, on a manifold of positive curvature, or for a sensitivity not positive.
    """
    EWG.require(budget, manifold)
    sigma = gaussian_sigma(budget, sensitivity, analytic=analytic)
    return WrappedGaussian(budget, sensitivity, manifold, sigma)


def tangent_gaussian(
    budget: Budget, *, sensitivity: float, manifold: Manifold, analytic: bool = True
) -> WrappedGaussian:
    """Calibrate the tangent Gaussian: log-Euclidean metric, noise in the logarithms, footpoint Id.

    It is the wrapped Gaussian there, under the name and with the two calibrations of its paper
    (`analytic` or classical, the latter for ε < 1).

    Raises
    ------
    PrivacyError
        For pure DP, another metric, or the classical formula with ε ≥ 1.
    """
    TANGENT_GAUSSIAN.require(budget, manifold)
    sigma = gaussian_sigma(budget, sensitivity, analytic=analytic)
    return WrappedGaussian(budget, sensitivity, manifold, sigma)


def _log_euclidean(manifold: Manifold) -> bool:
    """Return whether this is the paper's metric: flat, and lengths are those of log-eigenvalues."""
    return manifold.flat and covariances_of(manifold) is SPECTRAL


EWL = Family(
    name="ewl",
    price=laplace_price,
    neighbours=wrapped_laplace_neighbours,
    title="Exponential-wrapped Laplace",
    calibrate=wrapped_laplace,
    definitions=LAPLACE_DEFINITIONS,
    proven=hadamard,
    note="float noise: for experiments",
    wrapped=True,
)
EWG = Family(
    name="ewg",
    price=gaussian_price,
    neighbours=wrapped_gaussian_neighbours,
    options=("analytic",),
    title="Exponential-wrapped Gaussian",
    calibrate=wrapped_gaussian,
    definitions=GAUSSIAN_DEFINITIONS,
    proven=hadamard,
    note="a release draws its noise from an integer lattice",
    wrapped=True,
    hardened=hardened_gaussian_draw,
)
TANGENT_GAUSSIAN = Family(
    name="tangent-gaussian",
    price=gaussian_price,
    neighbours=wrapped_gaussian_neighbours,
    options=("analytic",),
    title="Tangent Gaussian",
    calibrate=tangent_gaussian,
    definitions=GAUSSIAN_DEFINITIONS,
    proven=_log_euclidean,
    note="the wrapped Gaussian of the log-Euclidean metric at the identity",
    wrapped=True,
    hardened=hardened_gaussian_draw,
)
