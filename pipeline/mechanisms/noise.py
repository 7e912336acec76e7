"""Sources of Gaussian noise, and the one that survives the floating point: the only use of OpenDP.

    float_noise(rng)   NumPy's generator: repeatable, for experiments
    LATTICE            OpenDP's integer lattice and the system's entropy: for releases

Experiments draw from NumPy's generators, so that they can be repeated. A release must not: a double
that was added to a double betrays it in its last bits (Mironov 2012; Jin and others 2022; Haney and
others 2022). OpenDP rounds the vector to a lattice, adds an exact integer Gaussian made from the
operating system's entropy, and rounds once. Timing is out of scope.

**Its law.** The lattice has the step h = 2⁻¹⁰⁷⁴, of which all doubles are multiples, so the vector
stays as it is. A Gaussian on it is within h²/(24·σ²) in total variation of a real one that is
rounded to it: the midpoint rule errs by h²·φ''/24 on each step, Poisson's formula gives the sum.
Rounding keeps μ-GDP, so the noise keeps f(α) ≥ G_μ(α + τ) − τ with τ ≤ d·h²/(12·σ²) < 10⁻³⁰⁰ for
d coordinates and any σ of `SIGMA_RANGE`. What OpenDP certifies is zCDP, ρ = (Δ/σ)²/2.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from covdp.arrays import FloatArray
from covdp.errors import PrivacyError
from covdp.privacy import Budget

SIGMA_RANGE = (1e-100, 1e100)
"""Least and greatest σ that leave room, in doubles, for its square and for what is noised."""


class NoisyVector(NamedTuple):
    """A noised vector, and the ρ-zCDP that its source certifies; NaN if it certifies nothing.

    Attributes
    ----------
    vector : array, shape (d,)
        Vector with noise.
    rho : float
        Certified ρ of zCDP, or NaN.
    """

    vector: FloatArray
    rho: float


class Noise(Protocol):
    """A source of Gaussian noise: called, it returns `vector` + N(0, σ²·Id), shape (m,)."""

    @property
    def rng(self) -> np.random.Generator | None:
        """The generator that other laws are drawn from too; None where only Gaussians are safe."""

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Add noise of standard deviation σ per coordinate to a vector of sensitivity Δ."""


@runtime_checkable
class CollectiveNoise(Noise, Protocol):
    """A source that several curators call in step: each adds a share, and the total is opened."""

    def agree(self, parameters: Mapping[str, FloatArray]) -> Mapping[str, FloatArray]:
        """Return the public parameters of a step that all curators use, in place of one's own.

        Parameters
        ----------
        parameters : mapping of str to array
            Parameters as they were computed here; those of others may differ in last bits.
        """

    def budget_of_total(self, promise: Budget) -> Budget:
        """Return the budget that all noise of a total would keep, of which some may be known.

        Parameters
        ----------
        promise : Budget
            Budget that the noise which is not known keeps.
        """


@dataclass(frozen=True)
class FloatNoise:
    """Noise of NumPy's generator `rng`: repeatable, for experiments, not for release.

    Attributes
    ----------
    rng : numpy.random.Generator
        Generator of the draws.
    """

    rng: np.random.Generator

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Add noise in doubles, which certifies nothing; of vectors (r, m) to one after another."""
        return NoisyVector(vector + sigma * self.rng.standard_normal(vector.shape), math.nan)


@dataclass(frozen=True)
class LatticeNoise:
    """Noise of OpenDP's lattice and the system's entropy: for releases, never twice the same.

    Attributes
    ----------
    rng : None
        None: the entropy is the operating system's.
    """

    rng: None = None

    def __call__(self, vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
        """Add exact noise; see `hardened_gaussian`."""
        return hardened_gaussian(vector, sigma, sensitivity)


LATTICE = LatticeNoise()
"""The hardened source of noise."""

NOISES: dict[str, Callable[[], Noise]] = {
    "hardened": lambda: LATTICE,
    "float": lambda: FloatNoise(np.random.default_rng()),
}
"""Sources by the word that a release gives; floats from new entropy of the system each time."""


def hardened_gaussian(vector: FloatArray, sigma: float, sensitivity: float) -> NoisyVector:
    """Return `vector` + N(0, σ²·Id) on OpenDP's lattice, with the certified ρ = Δ²/(2σ²).

    There is no generator to pass: the entropy is the operating system's, and no two draws repeat.

    `sensitivity` is Δ, L2, replace-one, of `vector` as it was computed: the margin for numerics
    included. ρ is what OpenDP's privacy map gives for it.

    Parameters
    ----------
    vector : array, shape (d,)
        Statistic, finite.
    sigma : float
        Standard deviation σ of a coordinate, within `SIGMA_RANGE`.
    sensitivity : float
        Replace-one L2 sensitivity Δ > 0 of the vector as it was computed.

    Raises
    ------
    PrivacyError
        When σ is out of range, Δ not finite and positive, or the vector not finite or has no single
        axis.

    Notes
    -----
    **Privacy.** Replace-one. ρ-zCDP from OpenDP's own map, proven for the code that runs. As the
    lattice (2^−1074) is much finer than σ, it is also μ-GDP with μ = Δ/σ up to their ratio: that
    statement is idealised, ρ is not.
    """
    values = np.asarray(vector, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise PrivacyError(
            f"noise is added to a finite vector of shape (d,), found shape {values.shape}; "
            "pass the coordinates of one statistic"
        )
    check_scale(sigma)
    if not 0.0 < sensitivity < math.inf:
        raise PrivacyError(
            f"sensitivity must be finite and above 0, found {sensitivity:g}; calibrate it"
        )
    measurement = _measurement(len(values), float(sigma))
    noisy = np.asarray(measurement(values.tolist()), dtype=np.float64)
    return NoisyVector(noisy, _certified(len(values), float(sigma), float(sensitivity)))


def integer_gaussian(whole: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Return whole numbers plus a discrete Gaussian of parameter `scale`, by OpenDP, exactly.

    The entropy is the operating system's. Its probabilities are those of exp(−x²/(2·scale²)).

    Parameters
    ----------
    whole : array of int64, shape (d,)
        Numbers that stay far from the ends of 64 bits with the noise.
    scale : float
        Parameter s of the discrete Gaussian, whose variance is at most s².
    """
    drawn = _on_integers(len(whole), float(scale))(whole.tolist())
    return np.array(drawn, dtype=np.int64)


def check_scale(sigma: float) -> None:
    """Raise `PrivacyError` unless σ is in `SIGMA_RANGE`.

    Parameters
    ----------
    sigma : float
        Standard deviation of a coordinate.
    """
    if not SIGMA_RANGE[0] <= sigma <= SIGMA_RANGE[1]:
        raise PrivacyError(
            f"sigma must be between {SIGMA_RANGE[0]:g} and {SIGMA_RANGE[1]:g}, found {sigma:g}; "
            "ask for a budget of a usual size"
        )


@lru_cache(maxsize=64)
def _measurement(dim: int, sigma: float) -> Any:
    """Build OpenDP's Gaussian on R^dim, on its finest lattice: every double is a point of it."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T=float, nan=False), size=dim)
    return make_gaussian(domain, l2_distance(T=float), scale=sigma)


@lru_cache(maxsize=64)
def _on_integers(dim: int, scale: float) -> Any:
    """Build OpenDP's Gaussian on ℤ^dim."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"), size=dim)
    return make_gaussian(domain, l2_distance(T=float), scale=scale)


@lru_cache(maxsize=256)
def _certified(dim: int, sigma: float, sensitivity: float) -> float:
    """Return ρ by OpenDP's privacy map, which takes as long as some draws."""
    return float(_measurement(dim, sigma).map(sensitivity))
