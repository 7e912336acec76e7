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
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold
from pipeline.geometry.manifold import Embedded
from pipeline.mechanisms.base import (
    GAUSSIAN_DEFINITIONS,
    LAPLACE_DEFINITIONS,
    CalibratedMechanism,
    Diagnostics,
    Draws,
    Family,
    Mechanism,
    Neighbours,
    Points,
    check_centers,
    check_size,
    diagonal,
    embedded,
    opposite,
)
from pipeline.mechanisms.wrapped import GaussianNoise, LaplaceNoise, VectorNoise, with_noise
from pipeline.privacy import Budget, gaussian_cost, laplace_cost, laplace_sigma, split


@dataclass(frozen=True)
class EmbeddedMechanism(CalibratedMechanism):
    """Noise x on the embedded point c, which leaves the manifold; a matrix may become indefinite.

    The output is c + x. If `projected`, it is put back: it is (c + x)/‖c + x‖, the nearest point of
    the manifold.

    Notes
    -----
    **Privacy.** Replace-one. What holds of the noise in R^m holds of the output; the projection is
    post-processing. Δ is the L2 sensitivity of the embedded point. Of a point of the sphere it is
    at most the geodesic one. Of a matrix it is in Frobenius norm
    (`pipeline.mean.sensitivity.stretch`), not in the manifold's distance: 2r·e^r/n for
    log-Euclidean means of a ball. The 2(e^r − 1)/n that is printed for them belongs to the
    arithmetic mean. Idealised numerics.

    References
    ----------
    Utpala, Vepakomma and Miolane, "Differentially private Fréchet mean on the manifold of symmetric
    positive definite matrices", section 6.1, for Gaussian noise on matrices. Soto, Bharath,
    Reimherr and Slavković, "Shape and structure preserving differential privacy" (2022),
    section 4.1, for the projected one.
    """

    noise: VectorNoise
    projected: bool = False

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` points of the surrounding space or the manifold; `base` is not used."""
        space = cast(Embedded, self.manifold)
        noise = self.noise.draw(self.sigma, check_size(size), space.embedding_dim, rng)
        center = check_centers(center, self.manifold.point_shape, size)
        points = space.unembed(space.embed(center) + noise)
        if self.projected:
            nearest: Callable[[Points], Points] = self.manifold.nearest  # type: ignore[attr-defined]
            points = nearest(points)
        return Draws(points, Diagnostics())

    def expected_error(self) -> float | None:
        """Return E‖output − c‖ = E‖x‖ in the surrounding space; None if projected."""
        dim = cast(Embedded, self.manifold).embedding_dim
        return None if self.projected else self.noise.mean_norm(self.sigma, dim)


def _apart(mechanism: Mechanism) -> tuple[Points, Points, Callable[[Points], FloatArray]]:
    """Return two points Δ apart in the surrounding space, and the map into R^m."""
    manifold, gap = mechanism.manifold, mechanism.sensitivity
    space = cast(Embedded, manifold)
    if manifold.curvature[1] > 0.0:  # a chord of length Δ of a unit sphere
        _, left, right = opposite(manifold, math.asin(gap / 2.0))
        return left, right, space.embed
    middle = (1.0 + gap) * manifold.origin
    step = space.unembed(gap / 2.0 * diagonal(space.embedding_dim))
    return middle + step, middle - step, space.embed


def neighbours(mechanism: Mechanism) -> Neighbours:
    """Score ln f(x − c) − ln f(x − c') in the surrounding space, f the density of the noise."""
    left, right, embed = _apart(mechanism)
    noise, sigma = cast(EmbeddedMechanism, mechanism).noise, mechanism.sigma

    def score(y: Points) -> FloatArray:
        x = embed(y)
        return noise.log_density(x - embed(left), sigma) - noise.log_density(
            x - embed(right), sigma
        )

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
    in_words="Gaussian noise on the matrix as it is stored [@utpala2023]",
    title="Extrinsic Gaussian",
    make=partial(with_noise, EmbeddedMechanism, GaussianNoise),
    definitions=GAUSSIAN_DEFINITIONS,
    proven=_fills,
    price=gaussian_cost,
    neighbours=neighbours,
    options=("analytic",),
    note="its output need not be positive definite: for comparison only",
    moves="embedding",
    embedded=True,
)
EUCLIDEAN_LAPLACE = Family(
    name="euclidean-laplace",
    in_words="Laplace noise on the vector as it is stored [@soto2022]",
    title="Euclidean Laplace",
    make=partial(with_noise, EmbeddedMechanism, LaplaceNoise),
    definitions=LAPLACE_DEFINITIONS,
    proven=embedded,
    price=laplace_cost,
    neighbours=neighbours,
    note="its output leaves the manifold: for comparison only",
    moves="embedding",
    embedded=True,
)
PROJECTED_LAPLACE = replace(
    EUCLIDEAN_LAPLACE,
    name="projected-euclidean-laplace",
    in_words="Laplace noise on the vector as it is stored, put back onto the manifold [@soto2022]",
    title="Projected Euclidean Laplace",
    make=partial(with_noise, partial(EmbeddedMechanism, projected=True), LaplaceNoise),
    proven=_projects,
    neighbours=projected_neighbours,
    note="float noise: for comparison only",
)


@dataclass(frozen=True)
class LandmarkLaplace(CalibratedMechanism):
    """Noise of density ∝ exp(−|x|/σ) on C on each landmark; then all are centred, of norm 1.

    Notes
    -----
    **Privacy.** Replace-one. Δ bounds the move of every single landmark, |z_j − z_j'| ≤ Δ. Each of
    m landmarks costs its share of the budget (ε/m in pure DP, μ/√m in GDP), and the shares compose
    to the whole. Centring and scaling are post-processing. Idealised numerics.

    References
    ----------
    Soto, Bharath, Reimherr and Slavković (2022), section 4.3.
    """

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
    in_words="Laplace noise on each landmark by itself [@soto2022]",
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
