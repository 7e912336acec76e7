"""Mechanisms of the surrounding vector space: noise on the point itself, not in a tangent space.

The point is embedded in R^m (a symmetric matrix by vecd, a point of the sphere as it is), noise is
added there, and the output is left where it falls: it need not be positive definite, or of norm 1.
One of them moves it back to the sphere, which is post-processing. The papers compare with
these.

*Point-wise Laplace on landmarks*: every landmark gets its own noise and its share of the budget,
the baseline of "Shape and structure preserving differential privacy" for planar shapes. The
statistic is a preshape z ∈ C^m (centred, norm 1) in a fixed rotation; whether records were aligned
before it was computed is the caller's choice and shows in the sensitivity only.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import PrivacyError
from pipeline.geometry import Manifold
from pipeline.geometry.manifold import Embedded
from pipeline.mechanisms.base import (
    GAUSSIAN_DEFINITIONS,
    LAPLACE_DEFINITIONS,
    Diagnostics,
    Draws,
    Family,
    Mechanism,
    Neighbours,
    Points,
    check_centers,
    check_size,
    chi_mean,
    diagonal,
    embedded,
    opposite,
)
from pipeline.mechanisms.radial import directions
from pipeline.privacy import (
    Budget,
    gaussian_cost,
    gaussian_sigma,
    laplace_cost,
    laplace_sigma,
    split,
)


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


@dataclass(frozen=True)
class ExtrinsicGaussian:
    """Gaussian noise N(0, σ²·Id) on vecd of the matrix; the output may be indefinite.

    Notes
    -----
    **Privacy.** Replace-one. The Gaussian mechanism of R^d; Δ is the sensitivity of the matrix in
    Frobenius norm (`pipeline.mean.sensitivity.stretch`), not in the manifold's distance: 2r·e^r/n
    for log-Euclidean means of a ball. The 2(e^r − 1)/n that is printed for them belongs to the
    arithmetic mean. Idealised numerics.

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
    """Noise of density ∝ exp(−‖x‖/σ) on the embedded point, which leaves the manifold.

    If `projected`, it is put back: the output is the nearest point of the manifold.

    Notes
    -----
    **Privacy.** Replace-one. ε-DP with ε = Δ/σ, Δ the L2 sensitivity of the embedded point; the
    projection is post-processing. Idealised numerics.

    References
    ----------
    Soto, Bharath, Reimherr and Slavković, "Shape and structure preserving differential privacy"
    (2022), section 4.1, for the projected one.
    """

    budget: Budget
    sensitivity: float
    manifold: Manifold
    sigma: float
    projected: bool = False

    @property
    def law(self) -> str:
        """What an output is."""
        output = "(c + x)/‖c + x‖" if self.projected else "c + x"
        return f"{output}, density of x ∝ exp(−‖x‖/σ)"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` points of the surrounding space or the manifold; `base` is not used."""
        dim = _embedding(self.manifold).embedding_dim
        radius = self.sigma * rng.standard_gamma(dim, check_size(size))
        points = _add(center, radius[:, None] * directions(size, dim, rng), self.manifold)
        if self.projected:
            nearest: Callable[[Points], Points] = self.manifold.nearest  # type: ignore[attr-defined]
            points = nearest(points)
        return Draws(points, Diagnostics())

    def expected_error(self) -> float | None:
        """Return E‖output − c‖ = σm in the surrounding space R^m; None if projected."""
        return None if self.projected else self.sigma * _embedding(self.manifold).embedding_dim


def extrinsic_gaussian(
    budget: Budget, *, sensitivity: float, manifold: Manifold, analytic: bool = True
) -> ExtrinsicGaussian:
    """Calibrate the standard deviation σ per coordinate; Δ is in Frobenius norm.

    Raises
    ------
    PrivacyError
        For pure DP, or on a manifold that is no open part of a vector space.
    """
    sigma = gaussian_sigma(budget, sensitivity, analytic=analytic)
    return ExtrinsicGaussian(budget, sensitivity, manifold, sigma)


def euclidean_laplace(
    budget: Budget, *, sensitivity: float, manifold: Manifold
) -> EuclideanLaplace:
    """Calibrate σ = Δ/ε; Δ is the L2 sensitivity of the embedded point."""
    return EuclideanLaplace(budget, sensitivity, manifold, laplace_sigma(budget, sensitivity))


def projected_laplace(
    budget: Budget, *, sensitivity: float, manifold: Manifold
) -> EuclideanLaplace:
    """Calibrate σ = Δ/ε; the L2 sensitivity Δ of the embedded point is at most the geodesic one."""
    sigma = laplace_sigma(budget, sensitivity)
    return EuclideanLaplace(budget, sensitivity, manifold, sigma, projected=True)


def _apart(mechanism: Mechanism) -> tuple[Points, Points, Callable[[Points], FloatArray]]:
    """Return two points Δ apart in the surrounding space, and the map into R^m."""
    manifold, gap = mechanism.manifold, mechanism.sensitivity
    space = _embedding(manifold)
    if manifold.curvature[1] > 0.0:  # a chord of length Δ of a unit sphere
        _, left, right = opposite(manifold, math.asin(gap / 2.0))
        return left, right, space.embed
    middle = (1.0 + gap) * manifold.origin
    step = space.unembed(gap / 2.0 * diagonal(space.embedding_dim))
    return middle + step, middle - step, space.embed


def gaussian_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score ⟨x, c − c'⟩/σ² in the surrounding space."""
    left, right, embed = _apart(mechanism)
    axis = (embed(left) - embed(right)) / mechanism.sigma**2
    return Neighbours(left, right, None, lambda y: embed(y) @ axis)


def laplace_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score (‖x − c'‖ − ‖x − c‖)/σ in the surrounding space."""
    left, right, embed = _apart(mechanism)
    sigma = mechanism.sigma
    a, b = embed(left), embed(right)

    def score(y: Points) -> FloatArray:
        x = embed(y)
        return np.asarray(np.linalg.norm(x - b, axis=-1) - np.linalg.norm(x - a, axis=-1)) / sigma

    return Neighbours(left, right, None, score)


def projected_profile(dim: int, sigma: float) -> tuple[FloatArray, FloatArray]:
    """Return a grid of a = ⟨y, c⟩ and ln f(a) on it, f the density of the projected output y.

    For x of density ∝ exp(−‖x − c‖/σ) in R^{d+1}, y = x/‖x‖ has on S^d the density
    f(a) ∝ ∫ t^d·exp(−√(t² − 2ta + 1)/σ) dt: polar coordinates x = t·y, integrated over t.
    """
    cosine = np.linspace(-1.0, 1.0, 1001)
    t = np.linspace(0.0, 1.0 + (dim + 40) * sigma, 2001)
    gap = np.sqrt((t - cosine[:, None]) ** 2 + 1.0 - cosine[:, None] ** 2)
    return cosine, np.log((t**dim * np.exp((1.0 - gap) / sigma)).sum(axis=-1))


def projected_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score ln f(⟨y, c⟩) − ln f(⟨y, c'⟩), f as in `projected_profile`: the log ratio."""
    left, right, _ = _apart(mechanism)
    cosine, log_f = projected_profile(mechanism.manifold.dim, mechanism.sigma)

    def score(y: Points) -> FloatArray:
        ratio: FloatArray = np.interp(y @ left, cosine, log_f) - np.interp(y @ right, cosine, log_f)
        return ratio

    return Neighbours(left, right, None, score)


def _fills(manifold: Manifold) -> bool:
    """Return whether the manifold is an open part of its vector space: of the same dimension."""
    return isinstance(manifold, Embedded) and manifold.embedding_dim == manifold.dim


def _projects(manifold: Manifold) -> bool:
    """Return whether a vector has a nearest point of the manifold."""
    return hasattr(manifold, "nearest")


EXTRINSIC_GAUSSIAN = Family(
    name="extrinsic-gaussian",
    title="Extrinsic Gaussian",
    make=extrinsic_gaussian,
    definitions=GAUSSIAN_DEFINITIONS,
    proven=_fills,
    price=gaussian_cost,
    neighbours=gaussian_neighbours,
    options=("analytic",),
    note="its output need not be positive definite: for comparison only",
    moves="embedding",
    embedded=True,
)
EUCLIDEAN_LAPLACE = Family(
    name="euclidean-laplace",
    title="Euclidean Laplace",
    make=euclidean_laplace,
    definitions=LAPLACE_DEFINITIONS,
    proven=embedded,
    price=laplace_cost,
    neighbours=laplace_neighbours,
    note="its output leaves the manifold: for comparison only",
    moves="embedding",
    embedded=True,
)
PROJECTED_LAPLACE = Family(
    name="projected-euclidean-laplace",
    title="Projected Euclidean Laplace",
    make=projected_laplace,
    definitions=LAPLACE_DEFINITIONS,
    proven=_projects,
    price=laplace_cost,
    neighbours=projected_neighbours,
    note="float noise: for comparison only",
    moves="embedding",
    embedded=True,
)


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
    (landmarks,) = manifold.point_shape
    share = split(budget, [1.0 / landmarks] * landmarks)[0]
    return LandmarkLaplace(budget, sensitivity, manifold, laplace_sigma(share, sensitivity))


def _landmarks(manifold: Manifold) -> bool:
    """Return whether points are landmarks in the plane."""
    return hasattr(manifold, "landmarks")


def landmark_neighbours(mechanism: Mechanism) -> Neighbours:
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
    make=landmark_laplace,
    definitions=LAPLACE_DEFINITIONS,
    proven=_landmarks,
    price=laplace_cost,
    neighbours=landmark_neighbours,
    typical=0.02,
    note="ignores the shape: for comparison only",
    moves="embedding",
)
