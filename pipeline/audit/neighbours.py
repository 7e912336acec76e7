"""Two neighbouring data sets on which a mechanism leaks most, and the score that tells them apart.

In: a calibrated mechanism. Out: `Neighbours`: the two inputs, exactly as far apart as the
mechanism's sensitivity allows, and its log-likelihood ratio (or what rises with it) as a score.
Next on the path: ``cases.py``.

Points lie around p0, a public point that is not the manifold's origin, along a direction u that is
not a coordinate axis, so that noise which is not spherical shows. Both statistics and p0 lie on one
geodesic: there log_{p0} keeps their distance Δ, elsewhere on a Hadamard manifold it shrinks it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold, gradient_norm, unvecd, vecd
from pipeline.mechanisms import Mechanism
from pipeline.mechanisms.family import Points
from pipeline.mechanisms.kng import KNormGradient
from pipeline.mechanisms.wrapped import WrappedGeneralizedGaussian

RECORDS = 2
"""Size n of the data sets of the K-norm gradient mechanism; one of the records is replaced."""
FAR = 0.5
"""Distance of p0 from the manifold's origin."""


class Neighbours(NamedTuple):
    """The two inputs of a mechanism, its footpoint, and a score; larger means more like `left`."""

    left: Points
    right: Points
    base: Points | None
    score: Callable[[Points], FloatArray]


def diagonal(dim: int) -> FloatArray:
    """Return u = (1, …, 1)/√d."""
    return np.full(dim, 1.0 / math.sqrt(dim))


def public_point(manifold: Manifold) -> Points:
    """Return p0, at the distance `FAR` from the origin along the first coordinate axis."""
    return manifold.exp(manifold.origin, FAR * np.eye(manifold.dim)[0])


def _opposite(manifold: Manifold, reach: float) -> tuple[Points, Points, Points]:
    """Return p0 and the two points of its geodesic along ±u at the distance `reach`."""
    base, step = public_point(manifold), reach * diagonal(manifold.dim)
    return base, manifold.exp(base, step), manifold.exp(base, -step)


def wrapped_gaussian(mechanism: Mechanism) -> Neighbours:
    """Score ⟨log_{p0} y, u⟩: the log ratio of the two normal laws, but for a factor."""
    manifold = mechanism.manifold
    base, left, right = _opposite(manifold, mechanism.sensitivity / 2.0)
    return Neighbours(left, right, base, lambda y: manifold.log(base, y) @ diagonal(manifold.dim))


def wrapped_laplace(mechanism: Mechanism) -> Neighbours:
    """Score ‖x − v'‖ − ‖x − v‖ with x = log_{p0} y: σ times the log ratio."""
    manifold = mechanism.manifold
    base, left, right = _opposite(manifold, mechanism.sensitivity / 2.0)
    v = manifold.log(base, left)

    def score(y: Points) -> FloatArray:
        x = manifold.log(base, y)
        return np.asarray(np.linalg.norm(x + v, axis=-1) - np.linalg.norm(x - v, axis=-1))

    return Neighbours(left, right, base, score)


def generalized_gaussian(mechanism: Mechanism) -> Neighbours:
    """Score Σ |x_j − v'_j|^N − |x_j − v_j|^N: σ^N times the log ratio, N the degree."""
    manifold = mechanism.manifold
    degree = mechanism.degree if isinstance(mechanism, WrappedGeneralizedGaussian) else 2.0
    base, left, right = _opposite(manifold, mechanism.sensitivity / 2.0)
    v = manifold.log(base, left)

    def score(y: Points) -> FloatArray:
        x = manifold.log(base, y)
        return np.asarray((np.abs(x + v) ** degree - np.abs(x - v) ** degree).sum(axis=-1))

    return Neighbours(left, right, base, score)


def riemannian_laplace(mechanism: Mechanism) -> Neighbours:
    """Score dist(y, c') − dist(y, c): σ times the log ratio on a homogeneous manifold."""
    manifold = mechanism.manifold
    _, left, right = _opposite(manifold, mechanism.sensitivity / 2.0)
    return Neighbours(left, right, None, lambda y: manifold.dist(y, right) - manifold.dist(y, left))


def k_norm_gradient(mechanism: Mechanism) -> Neighbours:
    """Score ‖grad F'(y)‖ − ‖grad F(y)‖: σ times the log ratio, but for a constant.

    The replaced record moves from one end of a diameter of the domain to the other, so that the
    gradients differ by (log_y x − log_y x')/n, of norm D/n on that diameter. The other record sits
    at one end: that makes the normalising constants differ too, unless the manifold is flat. On
    Hadamard manifolds D = n·Δ; on positive curvature the domain is the ball B_r(p0), and D = 2r.
    """
    manifold, reach = mechanism.manifold, RECORDS * mechanism.sensitivity / 2.0
    if isinstance(mechanism, KNormGradient) and math.isfinite(mechanism.radius):
        reach = mechanism.radius * (1.0 - 1e-9)  # within the ball, whatever the rounding
    base, end, other = _opposite(manifold, reach)
    rest = [end] * (RECORDS - 1)
    left, right = np.stack([*rest, end]), np.stack([*rest, other])

    def score(y: Points) -> FloatArray:
        return gradient_norm(right, manifold, y) - gradient_norm(left, manifold, y)

    return Neighbours(left, right, base, score)


def _embedded(mechanism: Mechanism) -> tuple[Points, Points, Callable[[Points], FloatArray]]:
    """Return two points Δ apart in the surrounding space, and the map into R^m."""
    manifold, apart = mechanism.manifold, mechanism.sensitivity
    if manifold.name == "sphere":  # a chord of length Δ
        _, left, right = _opposite(manifold, math.asin(apart / 2.0))
        return left, right, np.asarray
    middle = (1.0 + apart) * np.eye(manifold.point_shape[0])
    step = unvecd(apart / 2.0 * diagonal(manifold.dim))
    return middle + step, middle - step, vecd


def extrinsic_gaussian(mechanism: Mechanism) -> Neighbours:
    """Score ⟨x, c − c'⟩ in the surrounding space."""
    left, right, embed = _embedded(mechanism)
    axis = embed(left) - embed(right)
    return Neighbours(left, right, None, lambda y: embed(y) @ axis)


def euclidean_laplace(mechanism: Mechanism) -> Neighbours:
    """Score ‖x − c'‖ − ‖x − c‖ in the surrounding space: σ times the log ratio."""
    left, right, embed = _embedded(mechanism)
    a, b = embed(left), embed(right)

    def score(y: Points) -> FloatArray:
        x = embed(y)
        return np.asarray(np.linalg.norm(x - b, axis=-1) - np.linalg.norm(x - a, axis=-1))

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


def projected_laplace(mechanism: Mechanism) -> Neighbours:
    """Score ln f(⟨y, c⟩) − ln f(⟨y, c'⟩), f as in `projected_profile`: the log ratio."""
    left, right, _ = _embedded(mechanism)
    cosine, log_f = projected_profile(mechanism.manifold.dim, mechanism.sigma)

    def score(y: Points) -> FloatArray:
        ratio: FloatArray = np.interp(y @ left, cosine, log_f) - np.interp(y @ right, cosine, log_f)
        return ratio

    return Neighbours(left, right, None, score)


def landmark_laplace(mechanism: Mechanism) -> Neighbours:
    """Score Σ_j |y_j − c'_j| − |y_j − c_j|: σ times the log ratio before centring and scaling.

    The regular polygon is rotated, so that every landmark moves by Δ and neither centre nor size
    changes. Centring and scaling the output lose little while the noise is small against the shape.
    """
    polygon = mechanism.manifold.origin
    angle = math.asin(mechanism.sensitivity * math.sqrt(len(polygon)) / 2.0)
    left, right = np.exp(1j * angle) * polygon, np.exp(-1j * angle) * polygon

    def score(y: Points) -> FloatArray:
        return np.asarray((np.abs(y - right) - np.abs(y - left)).sum(axis=-1))

    return Neighbours(left, right, None, score)


NEIGHBOURS: dict[str, Callable[[Mechanism], Neighbours]] = {
    "ewl": wrapped_laplace,
    "ewg": wrapped_gaussian,
    "tangent-gaussian": wrapped_gaussian,
    "rl": riemannian_laplace,
    "kng": k_norm_gradient,
    "extrinsic-gaussian": extrinsic_gaussian,
    "euclidean-laplace": euclidean_laplace,
    "projected-euclidean-laplace": projected_laplace,
    "landmark-laplace": landmark_laplace,
    "generalized-gaussian": generalized_gaussian,
}
"""Name of a mechanism → its worst neighbours."""
