"""Noise that is added: in one tangent space and carried over, or to the point as it is stored.

**Exponential-wrapped mechanisms**: noise in one tangent space, carried over by the exponential map.

    output = exp(p0, log(p0, c) + noise),   c the statistic, p0 the footpoint

The footpoint is public, or already private. On a Hadamard manifold log(p0, ·) is a contraction,
``‖log(p0, c) − log(p0, c')‖ ≤ dist(c, c') ≤ Δ``, so that the noise masks a vector of R^d with L2
sensitivity Δ, and exp(p0, ·) is post-processing: whatever holds for the noise in R^d holds for the
output, for every footpoint that does not depend on the private data. On a flat manifold the
footpoint does not change the output at all.

References: "Exponential-wrapped mechanisms for differential privacy on Hadamard manifolds",
Theorems 3.1 to 3.4; Utpala, Vepakomma and Miolane, "Differentially private Fréchet mean on the
manifold of symmetric positive definite matrices" (tangent Gaussian, Theorem 4); Soto,
"Rao differential privacy", Theorem 4.12 (generalized Gaussian).

**Mechanisms of the surrounding vector space**: noise on the point itself, not in a tangent space.

The point is embedded in R^m (a symmetric matrix by vecd, a point of the sphere as it is), noise is
added there, and the output is left where it falls: it need not be positive definite, or of norm 1.
One of them moves it back to the sphere, which is post-processing. The papers compare with
these.

*Point-wise Laplace on landmarks*: every landmark gets its own noise and its share of the budget,
the baseline of "Shape and structure preserving differential privacy" for planar shapes. The
statistic is a preshape z ∈ C^m (centred, norm 1) in a fixed rotation; whether records were aligned
before it was computed is the caller's choice and shows in the sensitivity only.

The laws of the noise come first: of R^m, whatever vector they are added to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from scipy import special

from covdp.arrays import FloatArray
from covdp.geometry import Manifold
from covdp.geometry.covariances import SPECTRAL, covariances_of
from covdp.geometry.manifold import EmbeddedManifold
from covdp.mechanisms.base import (
    GAUSSIAN_DEFINITIONS,
    LAPLACE_DEFINITIONS,
    CalibratedMechanism,
    Diagnostics,
    Draws,
    Family,
    HardenedDraw,
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
from covdp.mechanisms.noise import Noise
from covdp.mechanisms.radial import directions
from covdp.mechanisms.wrapping import Norms, radial_norms
from covdp.privacy import (
    Budget,
    RaoDP,
    gaussian_cost,
    gaussian_sigma,
    generalized_gaussian_cost,
    generalized_gaussian_sigma,
    laplace_cost,
    laplace_sigma,
    split,
)


def normal_radius(shape: float, value: FloatArray, dim: int) -> FloatArray:
    """Return radii of standard normals in R^dim for values of a Gamma law of this shape.

    A value and its radius have the same probability below them.

    Parameters
    ----------
    shape : float
        Shape parameter of the Gamma law.
    value : array, shape (...)
        Values of the Gamma law.
    dim : int
        Dimension m of the noise.
    """
    low, high = special.gammainc(shape, value), special.gammaincc(shape, value)
    near, far = special.gammaincinv(dim / 2.0, low), special.gammainccinv(dim / 2.0, high)
    return np.asarray(np.sqrt(2.0 * np.where(low < 0.5, near, far)))


@dataclass(frozen=True)
class LaplaceNoise:
    """Noise of density ∝ exp(−‖x‖/σ) on R^m, so ‖x‖ ~ σ·Gamma(m, 1), in a uniform direction.

    Notes
    -----
    **Privacy.** Replace-one. ε-DP with ε = Δ/σ, Δ the L2 sensitivity of the vector v that it is
    added to: the log density ratio is |‖u − v‖ − ‖u − v'‖|/σ ≤ ‖v − v'‖/σ ≤ Δ/σ. Idealised
    numerics.

    References
    ----------
    "Exponential-wrapped mechanisms …", Theorem 3.1 and Algorithm 1.
    """

    law: ClassVar[str] = "density of x ∝ exp(−‖x‖/σ)"

    def scale(self, budget: Budget, sensitivity: float) -> float:
        """Return σ = Δ/ε, ε the largest pure budget that implies `budget`.

        Parameters
        ----------
        budget : Budget
            Budget of one release.
        sensitivity : float
            Replace-one L2 sensitivity Δ > 0.
        """
        return laplace_sigma(budget, sensitivity)

    def draw(self, sigma: float, size: int, dim: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` draws, shape (size, m).

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        size : int
            Number of independent draws.
        dim : int
            Dimension m of the noise.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        radius = sigma * rng.standard_gamma(dim, size)
        return np.asarray(radius[:, None] * directions(size, dim, rng))

    def mean_norm(self, sigma: float, dim: int, power: int = 1) -> float:
        """Return E‖x‖^p = σ^p·m(m + 1)···(m + p − 1), a moment of σ·Gamma(m).

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        dim : int
            Dimension m of the noise.
        power : int
            Power p of the norm.
        """
        return sigma**power * math.prod(dim + step for step in range(power))

    def norms(self, sigma: float, dim: int) -> Norms:
        """Return a quadrature for the law of ‖x‖: σ·Gamma(m, 1).

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        dim : int
            Dimension m of the noise.
        """
        wide = 9.0 * math.sqrt(dim)
        ends = max(1e-9, dim - wide), dim + wide + 30.0
        rho, weights = radial_norms(lambda x: (dim - 1) * np.log(x) - x, *ends)
        return sigma * rho, weights

    def normals(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return draws taken to N(0, Id), by the distribution function of ‖x‖.

        Parameters
        ----------
        x : array, shape (..., m)
            Draws of the noise.
        sigma : float
            Scale σ > 0 of the noise.
        """
        dim, radius = x.shape[-1], np.linalg.norm(x, axis=-1, keepdims=True) / sigma
        return np.asarray(x / (sigma * radius) * normal_radius(dim, radius, dim))

    def log_density(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return −‖x‖/σ.

        Parameters
        ----------
        x : array, shape (..., m)
            Points of the tangent space.
        sigma : float
            Scale σ > 0 of the noise.
        """
        return -np.asarray(np.linalg.norm(x, axis=-1)) / sigma


@dataclass(frozen=True)
class GaussianNoise:
    """Noise N(0, σ²·Id) on R^m, σ by the exact condition if `analytic`, else by the classical one.

    Attributes
    ----------
    analytic : bool
        True for the exact condition of (ε, δ)-DP, False for the classical one.

    Notes
    -----
    **Privacy.** Replace-one. The Gaussian mechanism of R^m with L2 sensitivity Δ; the scale is that
    of `gaussian_sigma`. Idealised numerics: a release adds `hardened_gaussian` instead.

    References
    ----------
    "Exponential-wrapped mechanisms …", Theorems 3.2 to 3.4.
    """

    analytic: bool = True
    law: ClassVar[str] = "x ~ N(0, σ²·Id)"

    def scale(self, budget: Budget, sensitivity: float) -> float:
        """Return the standard deviation σ per coordinate; `PrivacyError` for pure DP.

        Parameters
        ----------
        budget : Budget
            Budget of one release.
        sensitivity : float
            Replace-one L2 sensitivity Δ > 0.
        """
        return gaussian_sigma(budget, sensitivity, analytic=self.analytic)

    def draw(self, sigma: float, size: int, dim: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` draws, shape (size, m).

        Parameters
        ----------
        sigma : float
            Standard deviation σ > 0 of a coordinate.
        size : int
            Number of independent draws.
        dim : int
            Dimension m of the noise.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        return sigma * rng.standard_normal((size, dim))

    def mean_norm(self, sigma: float, dim: int, power: int = 1) -> float:
        """Return E‖x‖^p = (σ√2)^p·Γ((m+p)/2)/Γ(m/2), a moment of σ·χ_m: σ²m for p = 2.

        Parameters
        ----------
        sigma : float
            Standard deviation σ > 0 of a coordinate.
        dim : int
            Dimension m of the noise.
        power : int
            Power p of the norm.
        """
        ratio = math.exp(math.lgamma((dim + power) / 2) - math.lgamma(dim / 2))
        return (sigma * math.sqrt(2.0)) ** power * ratio

    def norms(self, sigma: float, dim: int) -> Norms:
        """Return a quadrature for the law of ‖x‖: σ times chi of m degrees of freedom.

        Parameters
        ----------
        sigma : float
            Standard deviation σ > 0 of a coordinate.
        dim : int
            Dimension m of the noise.
        """
        middle = math.sqrt(max(0.0, dim - 1.0))
        ends = max(1e-9, middle - 7.5), middle + 7.5
        rho, weights = radial_norms(lambda x: (dim - 1) * np.log(x) - x * x / 2.0, *ends)
        return sigma * rho, weights

    def normals(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return draws taken to N(0, Id).

        Parameters
        ----------
        x : array, shape (..., m)
            Draws of the noise.
        sigma : float
            Standard deviation σ > 0 of a coordinate.
        """
        return x / sigma

    def log_density(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return −‖x‖²/2σ².

        Parameters
        ----------
        x : array, shape (..., m)
            Points of the tangent space.
        sigma : float
            Standard deviation σ > 0 of a coordinate.
        """
        return -np.asarray((x * x).sum(axis=-1)) / (2.0 * sigma**2)


@dataclass(frozen=True)
class GeneralizedGaussianNoise:
    """Noise with independent coordinates of density ∝ exp(−|x/σ|^N), N ≥ 1 the degree.

    Attributes
    ----------
    degree : float
        Exponent N ≥ 1.

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
            Replace-one sensitivity Δ > 0 of one coordinate.
        """
        return generalized_gaussian_sigma(cast(RaoDP, budget), sensitivity, self.degree)

    def draw(self, sigma: float, size: int, dim: int, rng: np.random.Generator) -> FloatArray:
        """Return `size` draws: |x/σ|^N ~ Gamma(1/N) with a fair sign in each coordinate.

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        size : int
            Number of independent draws.
        dim : int
            Dimension m of the noise.
        rng : numpy.random.Generator
            Generator of the draws.
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
            Dimension m of the noise.
        power : int
            Power p of the norm.
        """
        return None

    def normals(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return draws taken to N(0, Id), each coordinate by its distribution function.

        Parameters
        ----------
        x : array, shape (..., m)
            Draws of the noise.
        sigma : float
            Scale σ > 0 of the noise.
        """
        power = (np.abs(x) / sigma) ** self.degree
        return np.sign(x) * normal_radius(1.0 / self.degree, power, 1)

    def log_density(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return −Σ |x_j/σ|^N.

        Parameters
        ----------
        x : array, shape (..., m)
            Points of the tangent space.
        sigma : float
            Scale σ > 0 of the noise.
        """
        return -np.asarray(((np.abs(x) / sigma) ** self.degree).sum(axis=-1))


VectorNoise: TypeAlias = LaplaceNoise | GaussianNoise | GeneralizedGaussianNoise
"""A law of noise on R^m."""


def wrap(center: Points, base: Points | None, noise: FloatArray, manifold: Manifold) -> Draws:
    """Return exp(p0, log(p0, c) + noise) for each row of `noise`, shape (size, d).

    Parameters
    ----------
    center : array, shape (*point_shape) or (size, *point_shape)
        Statistic c: one point, or one a row of `noise`.
    base : array, shape (*point_shape) or (size, *point_shape), or None
        Footpoint p0, public; the manifold's origin when left out.
    noise : array, shape (size, d)
        Noise, in coordinates at the footpoint.
    manifold : Manifold
        Manifold of the outputs.
    """
    size = len(noise)
    center = check_centers(center, manifold.point_shape, size)
    base = manifold.origin if base is None else check_centers(base, manifold.point_shape, size)
    return Draws(manifold.exp(base, manifold.log(base, center) + noise), Diagnostics())


@dataclass(frozen=True)
class WrappedMechanism(CalibratedMechanism):
    """Noise x in the tangent space at a footpoint: an output is exp(p0, log(p0, c) + x).

    Its privacy is that of the noise, as shown above.

    The tangent Gaussian is the wrapped Gaussian of the log-Euclidean metric at the identity, under
    the name and with the two calibrations of its paper: analytic, or classical for ε < 1.

    Attributes
    ----------
    noise : VectorNoise
        Noise in the tangent space.
    """

    noise: VectorNoise

    @property
    def law(self) -> str:
        """Law of an output."""
        return f"exp(p0, log(p0, c) + x), {self.noise.law}"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` outputs; `base` is the footpoint, the manifold's origin when left out.

        Parameters
        ----------
        center : array, shape (*point_shape) or (size, *point_shape)
            Statistic c: one point, or one a draw.
        base : array, shape (*point_shape) or (size, *point_shape), optional
            Footpoint p0, public; the manifold's origin when left out.
        size : int
            Number of independent draws.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        noise = self.noise.draw(self.sigma, check_size(size), self.manifold.dim, rng)
        return wrap(center, base, noise, self.manifold)

    def expected_error(self, power: int = 1) -> float | None:
        """Return E dist(output, c)^p = E‖x‖^p on a flat manifold, else None.

        Parameters
        ----------
        power : int
            Power p of the distance.
        """
        flat = self.manifold.flat
        return self.noise.mean_norm(self.sigma, self.manifold.dim, power) if flat else None


def with_noise(
    kind: Callable[..., Mechanism],
    noise: Callable[..., VectorNoise],
    budget: Budget,
    *,
    sensitivity: float,
    manifold: Manifold,
    **options: Any,
) -> Mechanism:
    """Return a mechanism of some kind whose noise has the scale that the budget asks for.

    `options` are those of the noise. Raises what its `scale` raises.

    Parameters
    ----------
    kind : callable
        Class of the mechanism.
    noise : callable
        Class of the noise, called with `options`.
    budget : Budget
        Budget of one release.
    sensitivity : float
        Replace-one sensitivity Δ > 0 of the statistic, in the manifold's distance.
    manifold : Manifold
        Manifold of the outputs.
    **options : object
        Options of the noise, such as its degree.
    """
    law = noise(**options)
    return kind(budget, sensitivity, manifold, law.scale(budget, sensitivity), law)


def hardened_gaussian_draw(mechanism: Mechanism, statistic: Points, noise: Noise) -> HardenedDraw:
    """Return one output at the origin with Gaussian noise from `noise`.

    σ is raised by 1e-12 of its value, so that a certificate that is rounded up stays within the
    budget.

    Parameters
    ----------
    mechanism : Mechanism
        Calibrated mechanism of the family.
    statistic : array, shape (*point_shape)
        Statistic to release, before noise.
    noise : Noise
        Source of the noise: `LATTICE` for releases.
    """
    space, sigma = mechanism.manifold, mechanism.sigma * (1 + 1e-12)
    vector = space.log(space.origin, statistic)
    drawn = noise(vector, sigma, mechanism.sensitivity)
    return HardenedDraw(space.exp(space.origin, drawn.vector), sigma, drawn.rho)


def _told_apart(
    mechanism: Any,
    seen: Callable[[Points], FloatArray],
    left: Points,
    right: Points,
    base: Points | None = None,
) -> Neighbours:
    """Score ln f(x − v) − ln f(x − v') of points as vectors, f the density of the noise."""

    def score(y: Points) -> FloatArray:
        x = seen(y)
        logs = (mechanism.noise.log_density(x - seen(v), mechanism.sigma) for v in (left, right))
        return np.asarray(np.subtract(*logs))

    return Neighbours(left, right, base, score)


def wrapped_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score vectors x = log_{p0} y, see `_told_apart`.

    Parameters
    ----------
    mechanism : Mechanism
        Calibrated mechanism of the family.

    Returns
    -------
    Neighbours
        Two neighbouring statistics, and the score.
    """
    base, left, right = opposite(mechanism.manifold, mechanism.sensitivity / 2.0)
    return _told_apart(mechanism, partial(mechanism.manifold.log, base), left, right, base)


def wrapped_residuals(mechanism: Any, points: Points, center: Points, base: Points) -> FloatArray:
    """Return the noise of outputs, log_{p0} y − log_{p0} c, taken to N(0, Id); (n, d).

    Parameters
    ----------
    mechanism : object
        Calibrated mechanism of the family.
    points : array, shape (n, *point_shape)
        Outputs of the mechanism.
    center : array, shape (*point_shape)
        Statistic c.
    base : array, shape (*point_shape)
        Footpoint p0.
    """
    seen = partial(mechanism.manifold.log, base)
    return cast(FloatArray, mechanism.noise.normals(seen(points) - seen(center), mechanism.sigma))


def embedded_residuals(mechanism: Any, points: Points, center: Points, base: Any) -> FloatArray:
    """Return the noise of outputs, y − c as vectors, taken to N(0, Id); `base` is not used.

    Parameters
    ----------
    mechanism : object
        Calibrated mechanism of the family.
    points : array, shape (n, *point_shape)
        Outputs of the mechanism.
    center : array, shape (*point_shape)
        Statistic c.
    base : object
        Not used.
    """
    seen = mechanism.manifold.embed
    return cast(FloatArray, mechanism.noise.normals(seen(points) - seen(center), mechanism.sigma))


def _log_euclidean(manifold: Manifold) -> bool:
    """Return whether this is the paper's metric: flat, and lengths are those of log-eigenvalues."""
    return manifold.flat and covariances_of(manifold) is SPECTRAL


EWL = Family(
    name="ewl",
    in_words="the exponential-wrapped Laplace mechanism [@expwrapped2026]",
    title="Exponential-wrapped Laplace",
    make=partial(with_noise, WrappedMechanism, LaplaceNoise),
    definitions=LAPLACE_DEFINITIONS,
    proven=hadamard,
    price=laplace_cost,
    neighbours=wrapped_neighbours,
    note="float noise: for experiments",
    wrapped=True,
    noise_norms=LaplaceNoise().norms,
    residuals=wrapped_residuals,
)
EWG = Family(
    name="ewg",
    in_words="the exponential-wrapped Gaussian mechanism [@expwrapped2026]",
    title="Exponential-wrapped Gaussian",
    make=partial(with_noise, WrappedMechanism, GaussianNoise),
    definitions=GAUSSIAN_DEFINITIONS,
    proven=hadamard,
    price=gaussian_cost,
    neighbours=wrapped_neighbours,
    options=("analytic",),
    note="a release draws its noise from an integer lattice",
    wrapped=True,
    noise_norms=GaussianNoise().norms,
    residuals=wrapped_residuals,
    hardened=hardened_gaussian_draw,
)
TANGENT_GAUSSIAN = replace(
    EWG,
    name="tangent-gaussian",
    in_words="the tangent Gaussian mechanism [@utpala2023]",
    title="Tangent Gaussian",
    proven=_log_euclidean,
    note="the wrapped Gaussian of the log-Euclidean metric at the identity",
)
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
        Noise in the surrounding space.
    projected : bool
        True if outputs are projected to the manifold.

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
        """Law of an output."""
        return f"{'(c + x)/‖c + x‖' if self.projected else 'c + x'}, {self.noise.law}"

    def sample(
        self, center: Points, *, base: Points | None = None, size: int, rng: np.random.Generator
    ) -> Draws:
        """Return `size` points of the surrounding space or the manifold; `base` is not used.

        Parameters
        ----------
        center : array, shape (*point_shape) or (size, *point_shape)
            Statistic c: one point, or one a draw.
        base : array, shape (*point_shape), optional
            Not used: there is no footpoint.
        size : int
            Number of independent draws.
        rng : numpy.random.Generator
            Generator of the draws.
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
            Power p of the distance.
        """
        dim = cast(EmbeddedManifold, self.manifold).embedding_dim
        return None if self.projected else self.noise.mean_norm(self.sigma, dim, power)


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
    """Score vectors of the surrounding space, see `_told_apart`.

    Parameters
    ----------
    mechanism : Mechanism
        Calibrated mechanism of the family.

    Returns
    -------
    Neighbours
        Two neighbouring statistics, and the score.
    """
    space = cast(EmbeddedManifold, mechanism.manifold)
    return _told_apart(mechanism, space.embed, *_apart(mechanism))


def projected_profile(dim: int, sigma: float) -> tuple[FloatArray, FloatArray]:
    """Return a grid of a = ⟨y, c⟩ and ln f(a) on it, f the density of the projected output y.

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
        Calibrated mechanism of the family.

    Returns
    -------
    Neighbours
        Two neighbouring statistics, and the score.
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
        """Return `size` preshapes, shape (size, m); `base` is not used.

        Parameters
        ----------
        center : array, shape (*point_shape) or (size, *point_shape)
            Statistic c: one point, or one a draw.
        base : array, shape (*point_shape), optional
            Not used: there is no footpoint.
        size : int
            Number of independent draws.
        rng : numpy.random.Generator
            Generator of the draws.
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
        Budget of one release.
    sensitivity : float
        Δ: the largest move of one landmark, in units of the preshape (norm 1).
    manifold : Manifold
        Manifold of the outputs.

    Returns
    -------
    LandmarkLaplace
        Calibrated mechanism.
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
        Calibrated mechanism of the family.

    Returns
    -------
    Neighbours
        Two neighbouring statistics, and the score.
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
