"""Two manifolds: a flat one on SPD(k) with bounds of its own, and a curved one without `area`."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from covdp.addons.papers.space_forms import Hyperbolic
from covdp.arrays import FloatArray
from covdp.geometry.covariances import SPECTRAL, Covariances, DescriptorSet, Facts
from covdp.geometry.linalg import sym_exp, sym_log, unvecd, vecd
from covdp.geometry.manifold import SpaceForm, check_size, check_vectors, superscript
from covdp.geometry.spd import Spd

DB = 10.0 / math.log(10.0)
"""Decibels of a factor e."""


@dataclass(frozen=True)
class DecibelCovariances:
    """What is known of covariance descriptors in decibels: every length is `DB` times longer."""

    log_share: float = DB

    def bounds(self, facts: Facts) -> tuple[float, float]:
        """Return r and D: dist = DB·‖log X − log Y‖_F, so DB times the log-Euclidean ones."""
        radius, diameter = SPECTRAL.bounds(facts)
        return DB * radius, DB * diameter

    def formulas(self, facts: Facts) -> tuple[str, str, str]:
        """Return the log-Euclidean formulas, times `DB`."""
        radius, diameter, symbols = SPECTRAL.formulas(facts)
        return f"(10/ln 10)·{radius}", f"(10/ln 10)·{diameter}", symbols

    def rounding(self, relative: float, largest: float) -> float:
        """Return DB times what logarithms err by."""
        return DB * SPECTRAL.rounding(relative, largest)

    def largest(self, radius: float, k: int) -> float:
        """Return 10^(r/10): DB·|ln λ| ≤ DB·‖log X‖_F ≤ r."""
        return SPECTRAL.largest(radius / DB, k)

    def descriptor_set(self, facts: Facts) -> DescriptorSet:
        """Return the set of spectra; scaling all coordinates alike keeps it convex."""
        region = SPECTRAL.descriptor_set(facts)
        return DescriptorSet(
            lambda u: DB * region.inside(u / DB), DB * region.slack, region.condition
        )

    def floor(self, facts: Facts) -> float:
        """Return the log-Euclidean floor, which is an eigenvalue."""
        return SPECTRAL.floor(facts)

    def scales(self, diagonal: FloatArray, others: float, logs: FloatArray) -> FloatArray:
        """Return the log-Euclidean scales, which are relative."""
        return SPECTRAL.scales(diagonal, others, logs)


@dataclass(frozen=True)
class Decibel(Spd):
    """SPD(k) with the log-Euclidean metric in decibels: φ(X) = vecd(10·log₁₀ X)."""

    name: ClassVar[str] = "spd-decibel"
    in_words: ClassVar[str] = "the decibel metric on symmetric positive definite matrices"
    metric: ClassVar[str] = "decibel"
    covariances: ClassVar[Covariances] = DecibelCovariances()
    flat: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return ‖φ(p) − φ(q)‖, ``(...)``."""
        return np.asarray(np.linalg.norm(self.log(p, q), axis=-1))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return φ(p) − φ(base), ``(..., d)``."""
        return DB * vecd(sym_log(p) - sym_log(base))

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return φ⁻¹(φ(base) + u), ``(..., k, k)``."""
        return sym_exp(sym_log(base) + unvecd(np.asarray(u) / DB))

    def stretch(self, largest: float) -> float:
        """Return ℓ/DB: a logarithm moves by s/DB, and exp is ℓ-Lipschitz for eigenvalues ≤ ℓ."""
        return largest / DB


@dataclass(frozen=True)
class Cylinder(SpaceForm):
    """H^{d−1} × R with the product metric, the real coordinate last: curvature −1 to 0.

    Its directions are not alike, so it has no `area`: mechanisms that need a law of distances
    refuse it, wrapped ones work.
    """

    name: ClassVar[str] = "cylinder"
    in_words: ClassVar[str] = "a cylinder"
    metric: ClassVar[str] = "product"
    hadamard: ClassVar[bool] = True
    curvature: ClassVar[tuple[float, float]] = (-1.0, 0.0)
    small: ClassVar[int] = 3
    injectivity_radius: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        check_size("dim", self.dim, 2)

    @property
    def base(self) -> Hyperbolic:
        """The factor H^{d−1}."""
        return Hyperbolic(self.dim - 1)

    @property
    def title(self) -> str:
        """``H^{d−1} × R``."""
        return f"H{superscript(self.dim - 1)} × R"

    def dist(self, p: FloatArray, q: FloatArray) -> FloatArray:
        """Return √(dist_H² + difference²), ``(...)``."""
        along = np.asarray(p)[..., -1] - np.asarray(q)[..., -1]
        return np.asarray(np.hypot(self.base.dist(p[..., :-1], q[..., :-1]), along))

    def log(self, base: FloatArray, p: FloatArray) -> FloatArray:
        """Return both logarithms, side by side, ``(..., d)``."""
        return _beside(self.base.log(base[..., :-1], p[..., :-1]), p[..., -1] - base[..., -1])

    def exp(self, base: FloatArray, u: FloatArray) -> FloatArray:
        """Return both ends, side by side, ``(..., d + 1)``."""
        return _beside(self.base.exp(base[..., :-1], u[..., :-1]), base[..., -1] + u[..., -1])

    def check(self, points: FloatArray) -> FloatArray:
        """Return `points` if the first part lies on the hyperboloid and the last is a number."""
        points = check_vectors(points, self.dim + 1, np.float64)
        return _beside(self.base.check(points[..., :-1]), points[..., -1])


def _beside(vectors: FloatArray, numbers: FloatArray) -> FloatArray:
    return np.concatenate([vectors, numbers[..., None]], axis=-1)
