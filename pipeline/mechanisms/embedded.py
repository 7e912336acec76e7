"""Mechanisms of the surrounding vector space: noise on the point itself, not in a tangent space.

The point is embedded in R^m (a symmetric matrix by vecd, a point of the sphere as it is), noise is
added there, and the output is left where it falls: it need not be positive definite, or of norm 1.
`ProjectedLaplace` moves it back to the sphere, which is post-processing. The papers compare with
these.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError
from pipeline.geometry import Manifold
from pipeline.geometry.manifold import Embedded
from pipeline.mechanisms.family import (
    GAUSSIAN_DEFINITIONS,
    LAPLACE_DEFINITIONS,
    SPD,
    Diagnostics,
    Draws,
    Family,
    Points,
    check_centers,
    check_size,
    chi_mean,
)
from pipeline.mechanisms.radial import directions
from pipeline.privacy import Budget, gaussian_sigma, laplace_sigma


def _embedding(manifold: Manifold) -> Embedded:
    """Return `manifold` if it lies in a vector space, else raise `PrivacyError`."""
    if not isinstance(manifold, Embedded):
        raise PrivacyError(
            f"{manifold.name} does not say how it lies in a vector space; use a mechanism of the "
            "tangent space, such as ewg"
        )
    return manifold


def _add(center: Points, noise: FloatArray, manifold: Manifold) -> Points:
    """Return the embedded statistic plus noise (size, m), as points are stored."""
    space = _embedding(manifold)
    center = check_centers(center, manifold.point_shape, len(noise))
    return space.unembed(space.embed(center) + noise)


def _radial_noise(dim: int, sigma: float, size: int, rng: np.random.Generator) -> FloatArray:
    """Return noise of density ∝ exp(−‖x‖/σ) on R^dim."""
    radius = sigma * rng.standard_gamma(dim, check_size(size))
    return radius[:, None] * directions(size, dim, rng)


@dataclass(frozen=True)
class ExtrinsicGaussian:
    """Gaussian noise N(0, σ²·Id) on vecd of the matrix; the output may be indefinite.

    Notes
    -----
    **Privacy.** Replace-one. The Gaussian mechanism of R^d; Δ is the sensitivity of the matrix in
    Frobenius norm (`sensitivity.extrinsic_sensitivity`), not in the manifold's distance. Idealised
    numerics.

    References
    ----------
    Utpala, Vepakomma and Miolane, "Differentially private Fréchet mean on the manifold of symmetric
    positive definite matrices", section 6.1.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    law: ClassVar[str] = "c + N(0, σ²·Id) in Frobenius norm"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` symmetric matrices; there is no footpoint, `base` is not used."""
        noise = self.sigma * rng.standard_normal((check_size(size), self.manifold.dim))
        return Draws(_add(center, noise, self.manifold), Diagnostics())

    def expected_error(self) -> float | None:
        """Return E‖output − c‖_F = σ√2·Γ((d+1)/2)/Γ(d/2), in Frobenius norm."""
        return chi_mean(self.manifold.dim, self.sigma)


@dataclass(frozen=True)
class EuclideanLaplace:
    """Noise of density ∝ exp(−‖x‖/σ) on the embedded point; the output leaves the manifold.

    Notes
    -----
    **Privacy.** Replace-one. ε-DP with ε = Δ/σ, Δ the L2 sensitivity of the embedded point.
    Idealised numerics.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    law: ClassVar[str] = "c + x, density of x ∝ exp(−‖x‖/σ)"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` points of the surrounding space; `base` is not used."""
        noise = _radial_noise(_embedding(self.manifold).embedding_dim, self.sigma, size, rng)
        return Draws(_add(center, noise, self.manifold), Diagnostics())

    def expected_error(self) -> float | None:
        """Return E‖output − c‖ = σm in the surrounding space R^m."""
        return self.sigma * _embedding(self.manifold).embedding_dim


@dataclass(frozen=True)
class ProjectedLaplace:
    """The Euclidean Laplace mechanism on the sphere, its output divided by its norm.

    Notes
    -----
    **Privacy.** As `EuclideanLaplace`: dividing by the norm is post-processing.

    References
    ----------
    Soto, Bharath, Reimherr and Slavković, "Shape and structure preserving differential privacy"
    (2022), section 4.1.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    law: ClassVar[str] = "(c + x)/‖c + x‖, density of x ∝ exp(−‖x‖/σ)"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` points of the sphere; `base` is not used."""
        noise = _radial_noise(_embedding(self.manifold).embedding_dim, self.sigma, size, rng)
        moved = _add(center, noise, self.manifold)
        return Draws(moved / np.linalg.norm(moved, axis=-1, keepdims=True), Diagnostics())

    def expected_error(self) -> float | None:
        """Return None: the projection has no closed law."""
        return None


def extrinsic_gaussian(
    budget: Budget, *, sensitivity: float, manifold: Manifold, analytic: bool = True
) -> ExtrinsicGaussian:
    """Calibrate the standard deviation σ per coordinate; Δ is in Frobenius norm.

    Raises
    ------
    PrivacyError
        For pure DP, or on a manifold that is not one of matrices.
    """
    EXTRINSIC_GAUSSIAN.require(budget, manifold)
    sigma = gaussian_sigma(budget, sensitivity, analytic=analytic)
    return ExtrinsicGaussian(budget, sensitivity, manifold, sigma)


def euclidean_laplace(
    budget: Budget, *, sensitivity: float, manifold: Manifold
) -> EuclideanLaplace:
    """Calibrate σ = Δ/ε; Δ is the L2 sensitivity of the embedded point."""
    EUCLIDEAN_LAPLACE.require(budget, manifold)
    return EuclideanLaplace(budget, sensitivity, manifold, laplace_sigma(budget, sensitivity))


def projected_laplace(
    budget: Budget, *, sensitivity: float, manifold: Manifold
) -> ProjectedLaplace:
    """Calibrate σ = Δ/ε; the L2 sensitivity Δ of the embedded point is at most the geodesic one."""
    PROJECTED_LAPLACE.require(budget, manifold)
    return ProjectedLaplace(budget, sensitivity, manifold, laplace_sigma(budget, sensitivity))


EXTRINSIC_GAUSSIAN = Family(
    name="extrinsic-gaussian",
    title="Extrinsic Gaussian",
    calibrate=extrinsic_gaussian,
    definitions=GAUSSIAN_DEFINITIONS,
    manifolds=SPD,
    pure=False,
    note="its output need not be positive definite: for comparison only",
    moves="embedding",
    embedded=True,
)
EUCLIDEAN_LAPLACE = Family(
    name="euclidean-laplace",
    title="Euclidean Laplace",
    calibrate=euclidean_laplace,
    definitions=LAPLACE_DEFINITIONS,
    manifolds=(*SPD, "sphere"),
    pure=True,
    note="its output leaves the manifold: for comparison only",
    moves="embedding",
    embedded=True,
)
PROJECTED_LAPLACE = Family(
    name="projected-euclidean-laplace",
    title="Projected Euclidean Laplace",
    calibrate=projected_laplace,
    definitions=LAPLACE_DEFINITIONS,
    manifolds=("sphere",),
    pure=True,
    note="float noise: for comparison only",
    moves="embedding",
    embedded=True,
)
