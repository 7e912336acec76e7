"""The inductive mean: a mean whose sensitivity rests on no convergence.

From S_1 = x_1 on, each step goes part of the way to the next point, in an order that is public:

    S_t = the point 1/t of the way from S_{t−1} to x_t,        t = 2, …, T.

**Sensitivity.** On a Hadamard manifold the distance of two geodesics is convex, so with s = 1/t

    dist(S_t, S_t') ≤ (1 − s)·dist(S_{t−1}, S'_{t−1}) + s·dist(x_t, x_t').

So t·dist(S_t, S_t') grows by dist(x_t, x_t') a step. With T = passes·n, each point taken once a
pass, replacing one point moves S_T by at most passes·D/T = D/n: exactly, whatever the number of
passes, and however far S_T is from the Fréchet mean. Nothing is iterated until it is good enough,
so nothing fails or takes longer for some points than for others.

**Accuracy.** On a flat manifold S_T is the mean. Elsewhere it tends to the Fréchet mean as the
passes grow (Holbrook, "No dice: a deterministic approach to the Cartan centroid", 2012; Lim and
Pálfia, "Deterministic walks with respect to the Cartan mean", 2014), and for random points as n
grows (Sturm, "Probability measures on metric spaces of nonpositive curvature", 2003).

**Numerics.** An error made in step t shrinks to its share t/T by the end. Affine-invariant steps
work on factors S = C·Cᵀ, so they lose digits to the root of the condition only; the array of S
itself loses them to the condition. The bounds below are measured, with a factor to spare, where
both are worst: eigenvalues 1e-6 and 1e5, any eigenvectors (see the tests).
"""

import math
from typing import NamedTuple

import numpy as np

from pipeline.errors import DomainError
from pipeline.geometry.affine import AffineInvariant, walk
from pipeline.geometry.linalg import cholesky
from pipeline.geometry.manifold import Manifold, Point

STEPS = 2000
"""Fewest steps that are taken, in whole passes."""
STEP_ERROR = 1e-9
"""Bound on the distance between computed and exact place after one step."""
STORED_ERROR = 1e-4
"""Bound on what log(p, S_T) is off by, for any p, when computed from an array of doubles."""


class InductiveMean(NamedTuple):
    """The mean, and a bound on how far from the exact S_T it lies, or seems to when looked at."""

    point: Point
    rounding: float


def inductive_mean(points: Point, manifold: Manifold) -> InductiveMean:
    """Return S_T, which moves by at most D/n when one of n points is replaced.

    Parameters
    ----------
    points : (n, *point_shape) array
        Points of a Hadamard manifold.
    manifold : Manifold

    Raises
    ------
    DomainError
        When there is no point, or the manifold is not a Hadamard manifold.
    """
    n = len(points)
    if n < 1 or not manifold.hadamard:
        raise DomainError(
            f"an inductive mean needs points of a Hadamard manifold, found {n} on {manifold.name}"
        )
    rng = np.random.default_rng(0)  # the order is public
    order = np.concatenate([rng.permutation(n) for _ in range(math.ceil(STEPS / n))])
    rounding = STEP_ERROR * (len(order) + 1) / 2.0 + STORED_ERROR
    if isinstance(manifold, AffineInvariant):
        factor = walk(cholesky(points), order)
        return InductiveMean(factor @ factor.T, rounding)
    place = points[order[0]]
    for t, index in enumerate(order[1:], start=2):
        place = manifold.exp(place, manifold.log(place, points[index]) / t)
    return InductiveMean(place, rounding)
