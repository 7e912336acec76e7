"""Baselines that the papers compare with: noise on the point as it is stored, and of other laws.

**Mechanisms of the surrounding vector space**: noise on the point itself, not in a tangent space.

The point is embedded in R^m (a symmetric matrix by vecd, a point of the sphere as it is), noise is
added there, and the output is left where it falls: it need not be positive definite, or of norm 1.
One of them moves it back to the sphere, which is post-processing. The papers compare with
these.

*Point-wise Laplace on landmarks*: every landmark gets its own noise and its share of the budget,
the baseline of "Shape and structure preserving differential privacy" for planar shapes. The
statistic is a preshape z ∈ C^m (centred, norm 1) in a fixed rotation; whether records were aligned
before it was computed is the caller's choice and shows in the sensitivity only.

*Generalized Gaussian noise*, wrapped: Soto, "Rao differential privacy", Theorem 4.12.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from covdp.addons.papers.generalized_gaussian import (
    generalized_gaussian_cost,
    generalized_gaussian_sigma,
)
from covdp.arrays import FloatArray
from covdp.geometry import Manifold
from covdp.geometry.manifold import EmbeddedManifold
from covdp.mechanisms.additive import (
    GaussianNoise,
    LaplaceNoise,
    VectorNoise,
    WrappedMechanism,
    noise_neighbours,
    normal_radius,
    with_noise,
    wrapped_neighbours,
    wrapped_residuals,
)
from covdp.mechanisms.base import (
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
    hadamard,
    opposite,
)
from covdp.privacy import Budget, RaoDP, gaussian_cost, laplace_cost, laplace_sigma, split


@dataclass(frozen=True)
class GeneralizedGaussianNoise:
    """Noise with independent coordinates of density ∝ exp(−|x/σ|^N), N ≥ 1 the degree.

    Attributes
    ----------
    degree : float
        Degree N ≥ 1.

    Notes
    -----
    **Privacy.** Replace-one, θ-Rao DP only, which bounds neither ε nor δ. The m coordinates have
    equal Fisher information I = N·Γ(2 − 1/N)/(Γ(1 + 1/N)·σ²) and are independent, so the location
    family is flat in the Fisher-Rao metric and two centres are √I·‖v − v'‖ ≤ √I·Δ = θ apart: the
    one-dimensional formula holds with the L2 sensitivity. Idealised numerics.

    References
    ----------
    "Rao differential privacy", Theorem 4.12, with σ inside the power.
    """

    degree: float = 4.0
    law: ClassVar[str] = "independent coordinates of density ∝ exp(−|x_i/σ|^N)"

    def scale(self, budget: Budget, sensitivity: float) -> float:
        """Return σ = Δ·√(N·Γ(2 − 1/N)/Γ(1 + 1/N))/θ; `PrivacyError` for all but Rao DP.

        Parameters
        ----------
        budget : Budget
            Budget of one release.
        sensitivity : float
            Replace-one L2 sensitivity Δ > 0.
        """
        return generalized_gaussian_sigma(cast(RaoDP, budget), sensitivity, self.degree)

    def draw(self, sigma: float, size: int, dim: int, rng: np.random.Generator) -> FloatArray:
        """Return draws, shape (size, m): |x/σ|^N ~ Gamma(1/N) with a fair sign in each coordinate.

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        size : int
            Number of draws.
        dim : int
            Dimension m.
        rng : numpy.random.Generator
            Source of the random numbers.
        """
        magnitude = rng.standard_gamma(1.0 / self.degree, (size, dim)) ** (1.0 / self.degree)
        return np.asarray(sigma * (1.0 - 2.0 * rng.integers(0, 2, (size, dim))) * magnitude)

    def mean_norm(self, sigma: float, dim: int, power: int = 1) -> float | None:
        """Return None: the norm has no closed law, except for N = 2.

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        dim : int
            Dimension m.
        power : int
            Power p of the norm.
        """
        return None

    def normals(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return draws taken to N(0, Id), each coordinate by its distribution function.

        Parameters
        ----------
        x : array, shape (..., m)
            Draws.
        sigma : float
            Scale σ > 0 of the noise.
        """
        power = (np.abs(x) / sigma) ** self.degree
        return np.sign(x) * normal_radius(1.0 / self.degree, power, 1)

    def log_density(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return −Σ |x_j/σ|^N, shape (...).

        Parameters
        ----------
        x : array, shape (..., m)
            Points.
        sigma : float
            Scale σ > 0 of the noise.
        """
        return -np.asarray(((np.abs(x) / sigma) ** self.degree).sum(axis=-1))


GENERALIZED_GAUSSIAN = Family(
    name="generalized-gaussian",
    in_words="wrapped noise of independent generalized Gaussian coordinates [@soto2025]",
    title="Wrapped generalized Gaussian",
    make=partial(with_noise, WrappedMechanism, GeneralizedGaussianNoise),
    definitions=("rao",),
    proven=hadamard,
    price=generalized_gaussian_cost,
    neighbours=wrapped_neighbours,
    options=("degree",),
    note="Rao DP bounds neither ε nor δ: for comparison only",
    wrapped=True,
    residuals=wrapped_residuals,
)


@dataclass(frozen=True)
class EmbeddedMechanism(CalibratedMechanism):
    """Noise x on the embedded point c, which leaves the manifold; a matrix may become indefinite.

    The output is c + x. If `projected`, it is put back: it is (c + x)/‖c + x‖, the nearest point of
    the manifold.

    Attributes
    ----------
    noise : VectorNoise
        Law of the noise.
    projected : bool
        True if outputs are put back onto the manifold.

    Notes
    -----
    **Privacy.** Replace-one. What holds of the noise in R^m holds of the output; the projection is
    post-processing. Δ is the L2 sensitivity of the embedded point. Of a point of the sphere it is
    at most the geodesic one. Of a matrix it is in Frobenius norm
    (`covdp.mean.sensitivity.stretch`), not in the manifold's distance: 2r·e^r/n for
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

    @property
    def law(self) -> str:
        """Law of an output, in a formula."""
        return f"{'(c + x)/‖c + x‖' if self.projected else 'c + x'}, {self.noise.law}"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return draws of points of the surrounding space or the manifold.

        Parameters
        ----------
        center : array, shape (..., *point_shape)
            Statistic c, one or one a draw.
        base : array, optional
            Footpoint, unused.
        size : int
            Number of draws.
        rng : numpy.random.Generator
            Source of the random numbers.
        """
        space = cast(EmbeddedManifold, self.manifold)
        noise = self.noise.draw(self.sigma, check_size(size), space.embedding_dim, rng)
        center = check_centers(center, self.manifold.point_shape, size)
        points = space.unembed(space.embed(center) + noise)
        if self.projected:
            nearest: Callable[[Points], Points] = self.manifold.nearest  # type: ignore[attr-defined]
            points = nearest(points)
        return Draws(points, Diagnostics())

    def expected_error(self, power: int = 1) -> float | None:
        """Return E‖output − c‖^p = E‖x‖^p in the surrounding space; None if projected.

        Parameters
        ----------
        power : int
            Power p of the norm.
        """
        dim = cast(EmbeddedManifold, self.manifold).embedding_dim
        return None if self.projected else self.noise.mean_norm(self.sigma, dim, power)


def embedded_residuals(mechanism: Any, points: Points, center: Points, base: Any) -> FloatArray:
    """Return the noise of outputs, y − c as vectors, taken to N(0, Id).

    Parameters
    ----------
    mechanism : object
        Mechanism that drew the outputs.
    points : array, shape (r, *point_shape)
        Outputs y.
    center : array, shape (..., *point_shape)
        Statistic c.
    base : object
        Footpoint, unused.
    """
    seen = mechanism.manifold.embed
    return cast(FloatArray, mechanism.noise.normals(seen(points) - seen(center), mechanism.sigma))


def _apart(mechanism: Mechanism) -> tuple[Points, Points]:
    """Return two points Δ apart in the surrounding space."""
    manifold, gap = mechanism.manifold, mechanism.sensitivity
    space = cast(EmbeddedManifold, manifold)
    if manifold.curvature[1] > 0.0:  # a chord of length Δ of a unit sphere
        _, left, right = opposite(manifold, math.asin(gap / 2.0))
        return left, right
    middle = (1.0 + gap) * manifold.origin
    step = space.unembed(gap / 2.0 * diagonal(space.embedding_dim))
    return middle + step, middle - step


def embedded_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score vectors of the surrounding space, see `noise_neighbours`.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism whose privacy is tested.

    Returns
    -------
    Neighbours
        Two statistics Δ apart, and the score of an output.
    """
    space = cast(EmbeddedManifold, mechanism.manifold)
    return noise_neighbours(mechanism, space.embed, *_apart(mechanism))


def projected_profile(dim: int, sigma: float) -> tuple[FloatArray, FloatArray]:
    """Return a grid of a = ⟨y, c⟩, (1001,), and ln f(a) on it, f the density of the output y.

    For x of density ∝ exp(−‖x − c‖/σ) in R^{d+1}, y = x/‖x‖ has on S^d the density
    f(a) ∝ ∫ t^d·exp(−√(t² − 2ta + 1)/σ) dt: polar coordinates x = t·y, integrated over t.

    Parameters
    ----------
    dim : int
        Dimension d of the sphere.
    sigma : float
        Scale σ > 0 of the noise.
    """
    cosine = np.linspace(-1.0, 1.0, 1001)
    t = np.linspace(0.0, 1.0 + (dim + 40) * sigma, 2001)
    gap = np.sqrt((t - cosine[:, None]) ** 2 + 1.0 - cosine[:, None] ** 2)
    return cosine, np.log((t**dim * np.exp((1.0 - gap) / sigma)).sum(axis=-1))


def projected_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score ln f(⟨y, c⟩) − ln f(⟨y, c'⟩), f as in `projected_profile`: the log ratio.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism whose privacy is tested.

    Returns
    -------
    Neighbours
        Two statistics Δ apart, and the score of an output.
    """
    left, right = _apart(mechanism)
    cosine, log_f = projected_profile(mechanism.manifold.dim, mechanism.sigma)

    def score(y: Points) -> FloatArray:
        ratio: FloatArray = np.interp(y @ left, cosine, log_f) - np.interp(y @ right, cosine, log_f)
        return ratio

    return Neighbours(left, right, None, score)


def _fills(manifold: Manifold) -> bool:
    """Return whether the manifold is an open part of its vector space: of the same dimension."""
    return isinstance(manifold, EmbeddedManifold) and manifold.embedding_dim == manifold.dim


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
    neighbours=embedded_neighbours,
    options=("analytic",),
    note="its output need not be positive definite: for comparison only",
    moves="embedding",
    embedded=True,
    residuals=embedded_residuals,
)
EUCLIDEAN_LAPLACE = Family(
    name="euclidean-laplace",
    in_words="Laplace noise on the vector as it is stored [@soto2022]",
    title="Euclidean Laplace",
    make=partial(with_noise, EmbeddedMechanism, LaplaceNoise),
    definitions=LAPLACE_DEFINITIONS,
    proven=embedded,
    price=laplace_cost,
    neighbours=embedded_neighbours,
    note="its output leaves the manifold: for comparison only",
    moves="embedding",
    embedded=True,
    residuals=embedded_residuals,
)
PROJECTED_LAPLACE = replace(
    EUCLIDEAN_LAPLACE,
    name="projected-euclidean-laplace",
    in_words="Laplace noise on the vector as it is stored, put back onto the manifold [@soto2022]",
    title="Projected Euclidean Laplace",
    make=partial(with_noise, partial(EmbeddedMechanism, projected=True), LaplaceNoise),
    proven=_projects,
    neighbours=projected_neighbours,
    residuals=None,
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

    law: ClassVar[str] = "z_j + x_j, density of x_j ∝ exp(−|x_j|/σ) on C; centred, norm 1"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return draws of preshapes, shape (size, m).

        Parameters
        ----------
        center : array, shape (..., m)
            Statistic, one or one a draw.
        base : array, optional
            Footpoint, unused.
        size : int
            Number of draws.
        rng : numpy.random.Generator
            Source of the random numbers.
        """
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
    budget : Budget
        Budget of all landmarks together.
    sensitivity : float
        Δ: the largest move of one landmark, in units of the preshape (norm 1).
    manifold : Manifold
        Shapes of m landmarks.

    Returns
    -------
    LandmarkLaplace
        Mechanism with the noise of its budget.
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

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism whose privacy is tested.

    Returns
    -------
    Neighbours
        Two statistics whose landmarks are Δ apart, and the score of an output.
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
