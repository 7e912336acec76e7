"""Two neighbouring data sets on which a mechanism leaks most, and the score that tells them apart.

In: a calibrated mechanism. Out: `Neighbours`: the two inputs, exactly as far apart as the
mechanism's sensitivity allows, and its log-likelihood ratio as a score. The
pairs here serve several families; a family carries its own in its file. The audit draws from them.

Points lie around p0, a public point that is not the manifold's origin, along a direction u that is
not a coordinate axis, so that noise which is not spherical shows. Both statistics and p0 lie on one
geodesic: there log_{p0} keeps their distance Δ, elsewhere on a Hadamard manifold it shrinks it.
"""

import math

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.geometry import Manifold
from pipeline.mechanisms.family import Mechanism, Neighbours, Points

RECORDS = 2
"""Size n of the data sets of the K-norm gradient mechanism; one of the records is replaced."""
FAR = 0.5
"""Distance of p0 from the manifold's origin."""


def diagonal(dim: int) -> FloatArray:
    """Return u = (1, …, 1)/√d."""
    return np.full(dim, 1.0 / math.sqrt(dim))


def public_point(manifold: Manifold) -> Points:
    """Return p0, at the distance `FAR` from the origin along the first coordinate axis."""
    return manifold.exp(manifold.origin, FAR * np.eye(manifold.dim)[0])


def opposite(manifold: Manifold, reach: float) -> tuple[Points, Points, Points]:
    """Return p0 and the two points of its geodesic along ±u at the distance `reach`."""
    base, step = public_point(manifold), reach * diagonal(manifold.dim)
    return base, manifold.exp(base, step), manifold.exp(base, -step)


def wrapped_gaussian(mechanism: Mechanism) -> Neighbours:
    """Score ⟨log_{p0} y, u⟩·Δ/σ²: the log ratio of the two normal laws."""
    manifold = mechanism.manifold
    base, left, right = opposite(manifold, mechanism.sensitivity / 2.0)
    axis = diagonal(manifold.dim) * mechanism.sensitivity / mechanism.sigma**2
    return Neighbours(left, right, base, lambda y: manifold.log(base, y) @ axis)


def wrapped_laplace(mechanism: Mechanism) -> Neighbours:
    """Score (‖x − v'‖ − ‖x − v‖)/σ with x = log_{p0} y."""
    manifold, sigma = mechanism.manifold, mechanism.sigma
    base, left, right = opposite(manifold, mechanism.sensitivity / 2.0)
    v = manifold.log(base, left)

    def score(y: Points) -> FloatArray:
        x = manifold.log(base, y)
        return np.asarray(np.linalg.norm(x + v, axis=-1) - np.linalg.norm(x - v, axis=-1)) / sigma

    return Neighbours(left, right, base, score)
