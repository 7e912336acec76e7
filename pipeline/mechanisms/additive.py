"""Noise that is added in one tangent space and carried over by the exponential map.

    output = exp(p0, log(p0, c) + noise),   c the statistic, p0 the footpoint

**Exponential-wrapped mechanisms.** The footpoint is public, or already private. On a Hadamard
manifold log(p0, ·) is a contraction, ``‖log(p0, c) − log(p0, c')‖ ≤ dist(c, c') ≤ Δ``, so that the
noise masks a vector of R^d with L2 sensitivity Δ, and exp(p0, ·) is post-processing: whatever holds
for the noise in R^d holds for the output, for every footpoint that does not depend on the private
data. On a flat manifold the footpoint does not change the output at all.

References: "Exponential-wrapped mechanisms for differential privacy on Hadamard manifolds",
Theorems 3.1 to 3.4; Utpala, Vepakomma and Miolane, "Differentially private Fréchet mean on the
manifold of symmetric positive definite matrices" (tangent Gaussian, Theorem 4).

The laws of the noise come first: of R^m, whatever vector they are added to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from scipy import special

from covdp.arrays import FloatArray
from covdp.geometry import Manifold
from covdp.geometry.covariances import SPECTRAL, covariances_of
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
    hadamard,
    opposite,
)
from covdp.mechanisms.noise import Noise
from covdp.mechanisms.radial import directions
from covdp.mechanisms.wrapping import Norms, radial_norms
from covdp.privacy import (
    Budget,
    gaussian_cost,
    gaussian_sigma,
    laplace_cost,
    laplace_sigma,
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


class VectorNoise(Protocol):
    """A law of noise on R^m."""

    law: ClassVar[str]

    def scale(self, budget: Budget, sensitivity: float) -> float:
        """Return the scale σ that a budget asks for.

        Parameters
        ----------
        budget : Budget
            Budget of one release.
        sensitivity : float
            Replace-one sensitivity Δ > 0.
        """

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

    def mean_norm(self, sigma: float, dim: int, power: int = 1) -> float | None:
        """Return E‖x‖^p, None where it has no closed form.

        Parameters
        ----------
        sigma : float
            Scale σ > 0 of the noise.
        dim : int
            Dimension m of the noise.
        power : int
            Power p of the norm.
        """

    def normals(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return draws taken to N(0, Id).

        Parameters
        ----------
        x : array, shape (..., m)
            Draws of the noise.
        sigma : float
            Scale σ > 0 of the noise.
        """

    def log_density(self, x: FloatArray, sigma: float) -> FloatArray:
        """Return the logarithm of the density, up to a constant.

        Parameters
        ----------
        x : array, shape (..., m)
            Points.
        sigma : float
            Scale σ > 0 of the noise.
        """


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


def noise_neighbours(
    mechanism: Any,
    seen: Callable[[Points], FloatArray],
    left: Points,
    right: Points,
    base: Points | None = None,
) -> Neighbours:
    """Score ln f(x − v) − ln f(x − v') of points as vectors, f the density of the noise.

    Parameters
    ----------
    mechanism : object
        Calibrated mechanism of the family.
    seen : callable
        Map of points to vectors.
    left, right : array, shape (*point_shape)
        Neighbouring statistics.
    base : array, shape (*point_shape), optional
        Footpoint of both.

    Returns
    -------
    Neighbours
        The two statistics, and the score.
    """

    def score(y: Points) -> FloatArray:
        x = seen(y)
        logs = (mechanism.noise.log_density(x - seen(v), mechanism.sigma) for v in (left, right))
        return np.asarray(np.subtract(*logs))

    return Neighbours(left, right, base, score)


def wrapped_neighbours(mechanism: Mechanism) -> Neighbours:
    """Score vectors x = log_{p0} y, see `noise_neighbours`.

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
    return noise_neighbours(mechanism, partial(mechanism.manifold.log, base), left, right, base)


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
