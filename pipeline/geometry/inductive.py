"""The inductive mean: a mean whose sensitivity rests on no convergence.

From S_1 = x_1 on, each step goes part of the way to the next point, in an order that is public:

    S_t = the point 1/t of the way from S_{t−1} to x_t,        t = 2, …, T.

**Sensitivity.** On a Hadamard manifold the distance of two geodesics is convex, so with s = 1/t

    dist(S_t, S_t') ≤ (1 − s)·dist(S_{t−1}, S'_{t−1}) + s·dist(x_t, x_t').

So t·dist(S_t, S_t') grows by dist(x_t, x_t') a step. With T = passes·n, each point taken once a
pass, replacing one point moves S_T by at most passes·D/T = D/n: exactly, whatever the number of
passes, and however far S_T is from the Fréchet mean. Nothing is iterated until it is good enough,
so nothing fails or takes longer for some points than for others.

**Order.** Points in memory are taken in a fixed random order, another in each pass. Points that are
read in parts are taken as they come: the place so far is all that is kept of them, and how they are
cut into parts makes no difference, to the last bit.

**Accuracy.** On a flat manifold S_T is the mean. Elsewhere it tends to the Fréchet mean as the
passes grow (Holbrook, "No dice: a deterministic approach to the Cartan centroid", 2012; Lim and
Pálfia, "Deterministic walks with respect to the Cartan mean", 2014), and for random points as n
grows (Sturm, "Probability measures on metric spaces of nonpositive curvature", 2003).

**Numerics.** An error made in step t shrinks to its share t/T by the end. Affine-invariant steps
work on triangular factors, S = C·Cᵀ, so they lose digits to the root of the condition only, and S
is looked at through its factor, which holds the digits that the array of S has lost. Where a point
looks from is the same for all data sets: log(p, ·) is a contraction for the p that doubles make of
it, too. The bounds below are measured, with a factor of ten to spare, on matrices made to be hard:
eigenvalues 1e-9 or 1e-6 and 1e5, any eigenvectors, and on hyperbolic space up to 10 from the
origin (see the tests). The points are what their computed factors say they are.
"""

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import DomainError
from pipeline.geometry.manifold import Manifold, Point

STEPS = 2000
"""Fewest steps that are taken, in whole passes."""
STEP_ERROR = 1e-9
"""Bound on the distance between computed and exact place after one step, up to `CONDITION`."""
CONDITION = 1e11
"""Condition number of matrices above which that bound grows with its root."""
WORST = 1e15
"""Condition number above which doubles hold no such matrix."""
LOOK_ERROR = 1e-10
"""Bound on what a computed log(p, S_T) is off by, for any p."""


class InductiveMean(NamedTuple):
    """The mean, what its computed logarithms are off by at most, and its factor if it has one."""

    point: Point
    rounding: float
    factor: FloatArray | None = None

    def seen_from(self, base: Point, manifold: Manifold) -> FloatArray:
        """Return log(base, mean), ``(d,)``."""
        if self.factor is None:
            return manifold.log(base, self.point)
        factored: Any = manifold  # one that walks on factors sees from them, too
        return np.asarray(factored.factor_logs(base, self.factor))


def inductive_mean(points: Point, manifold: Manifold, *, condition: float) -> InductiveMean:
    """Return S_T, which moves by at most D/n when one of n points is replaced.

    `condition` is a public bound on the condition numbers of the points; 1 where they are no
    matrices.

    Raises
    ------
    DomainError
        When there is no point, the manifold is not a Hadamard manifold, or `condition` too large.
    """
    n, rng = len(points), np.random.default_rng(0)  # the order is public
    passes = (points[rng.permutation(n)] for _ in range(_passes(n)))
    return _walked(passes, n, manifold, condition)


def inductive_mean_of_parts(
    parts: Iterable[Point], n: int, manifold: Manifold, *, condition: float
) -> InductiveMean:
    """Return S_T of n points that are read in parts, as often as passes are needed.

    The parts are the same each time; all else is as in `inductive_mean`.
    """
    passes = (part for _ in range(_passes(n)) for part in parts)
    return _walked(passes, n, manifold, condition)


def one_pass(chunks: Iterable[Point], manifold: Manifold) -> tuple[Point, FloatArray | None]:
    """Return the end of one walk through `chunks` of points in their order, and its factor."""
    own: Any = getattr(manifold, "walk", None)
    if own is not None:
        place, factor = own(chunks)
        return place, factor
    points = chain.from_iterable(chunks)
    place = next(points)
    for t, point in enumerate(points, start=2):
        place = manifold.exp(place, manifold.log(place, point) / t)
    return place, None


def _passes(n: int) -> int:
    return math.ceil(STEPS / max(n, 1))


def _walked(passes: Iterable[Point], n: int, manifold: Manifold, condition: float) -> InductiveMean:
    if n < 1 or not manifold.hadamard:
        raise DomainError(
            f"an inductive mean needs points of a Hadamard manifold, found {n} on {manifold.name}"
        )
    if condition > WORST:
        raise DomainError(
            f"matrices of condition {condition:.1e} do not fit doubles, which end at {WORST:.0e}; "
            "take a larger eta, or a flat manifold"
        )
    step = STEP_ERROR * math.sqrt(max(1.0, condition / CONDITION))
    rounding = step * (_passes(n) * n + 1) / 2.0 + LOOK_ERROR
    point, factor = one_pass(passes, manifold)
    return InductiveMean(point, rounding, factor)
