"""The Fréchet mean of a release on a curved Hadamard manifold, in steps that cannot fail.

**Sensitivity.** The Fréchet mean x̄ is 1-Lipschitz for the Wasserstein-1 distance of the records'
empirical laws (Sturm 2003, Theorem 6.3). These laws know no order, so replacing one of n records
moves x̄ by at most D/n, wherever the file of the new record is sorted to: the places of all other
records may shift. An inductive mean, which walks through the records in an order, has no such
bound: shifted by one place, records of rank 1 move it by 18·D/n at n = 6,000.

**What is computed.** From a public centre on, x ← exp(x, t·g), g = (1/n) Σ log(x, x_i), −g the
gradient of F (``geometry/mean.py``), t = 2/(1 + L), L = (1/n) Σ h_i + κ‖g‖, −κ² the least curvature
and h_i = √(1 + κ²·dist(x, x_i)²). A step shrinks ‖g‖ by (L − 1)/(L + 1) or better, whatever the
records are (there). As dist(x, x̄) ≤ ‖g‖ ≤ D at each x, L is at most √(1 + 4κ²D²) + κD, a public
number, and ln(D/τ)·(L + 1)/2 steps always reach ‖g‖ ≤ τ, so that dist(x, x̄) ≤ τ. There is no
test that could fail: it ends at τ, or after as many steps. As descriptors are less curved than the
bound, t = 1 is taken as long as it shrinks ‖g‖ by as much; the first that does not is taken back,
and from then on t is 2/(1 + L).

**Numerics.** Each log(x, x_i)/(2D), of norm at most 1, and h_i over its bound are rounded to the
lattice of ``sums.py``, and whole numbers are added: x is the same to the last bit for any order and
any chunks. That rounding moves g by at most √d·D·2⁻⁴⁰, 5e-10 for the descriptors here; a computed
logarithm errs by less than 1e-10 where matrices, known by their factors, have condition numbers up
to 1e14, and on hyperbolic space up to 10 from the origin (measured, see the tests). `ROUNDING`
covers both. Errors of g that small leave it below 24·2·`ROUNDING` at the end (1/(1 − rate) is
(L + 1)/2), within `TOLERANCE`. An affine-invariant x is its factor C, x = C·Cᵀ, which holds the
digits that its array has lost, so that a released log(p, x) errs by no more.

References
----------
Sturm, "Probability measures on metric spaces of nonpositive curvature" (2003).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from pipeline.arrays import FloatArray
from pipeline.errors import DomainError
from pipeline.geometry import Manifold, Point
from pipeline.mean.sums import Clipping, Parts, Sized, clipped_mean, sizes

TOLERANCE = 1e-7
"""τ: the norm of the gradient at which steps end."""
ROUNDING = 1e-9
"""Bound on what rounding does to a gradient, and to log(p, mean), up to `CONDITION`."""
CONDITION = 1e11
"""Condition number of matrices above which both grow with its root."""
WORST = 1e15
"""Condition number above which doubles hold no such matrix."""


class Barycentre(NamedTuple):
    """The mean, what its computed logarithms are off by at most, and its factor if it has one."""

    point: Point
    rounding: float
    factor: FloatArray | None = None

    def seen_from(self, base: Point, manifold: Manifold) -> FloatArray:
        """Return log(base, mean), ``(d,)``."""
        if self.factor is None:
            return manifold.log(base, self.point)
        factored: Any = manifold
        return np.asarray(factored.factor_logs(base, self.factor))


def barycentre(
    parts: Parts[Point],
    n: int,
    manifold: Manifold,
    *,
    centre: Point,
    diameter: float,
    condition: float,
) -> Barycentre:
    """Return the Fréchet mean of n records, which moves by at most D/n with one of them.

    Parameters
    ----------
    parts : Parts
        The records, in a geodesically convex region.
    n : int
    manifold : Manifold
        A Hadamard manifold.
    centre : array
        A public point of the region, where the steps begin.
    diameter : float
        D, of the region.
    condition : float
        A public bound on the condition numbers of the records; 1 where they are no matrices.

    Raises
    ------
    DomainError
        When the manifold is no Hadamard manifold, or `condition` too large: public facts.
    """
    if not manifold.hadamard:
        raise DomainError(
            f"a mean that moves by D/n needs a Hadamard manifold, found {manifold.name}; use a "
            "mechanism made for positive curvature"
        )
    if condition > WORST:
        raise DomainError(
            f"matrices of condition {condition:.1e} do not fit doubles, which end at {WORST:.0e}; "
            "take a larger eta, or a flat manifold"
        )
    scale = math.sqrt(max(1.0, condition / CONDITION))
    on_factors: Any = manifold if hasattr(manifold, "factor_logs") else None
    if on_factors is not None:
        parts, centre = parts.map(on_factors.factors), on_factors.factors(centre)
    exp = manifold.exp if on_factors is None else on_factors.factor_exp
    pull, size, bound = gradient(parts, n, manifold, centre, diameter)
    whole = True
    for _ in range(most_steps(diameter, TOLERANCE * scale, manifold)):
        if size <= TOLERANCE * scale:
            break
        place = exp(centre, pull * (1.0 if whole else 2.0 / (1.0 + bound)))
        found = gradient(parts, n, manifold, place, diameter)
        if whole and found[1] > size * (bound - 1.0) / (bound + 1.0):
            whole = False
            continue
        centre, (pull, size, bound) = place, found
    rounding = (TOLERANCE + 2.0 * ROUNDING) * scale
    if on_factors is None:
        return Barycentre(centre, rounding)
    return Barycentre(centre @ centre.T, rounding, centre)


def most_steps(diameter: float, tolerance: float, manifold: Manifold) -> int:
    """Return how many steps always suffice: public."""
    bent = math.sqrt(-manifold.curvature[0]) * diameter
    largest = math.sqrt(1.0 + 4.0 * bent**2) + bent
    return 1 + math.ceil(math.log(max(diameter / tolerance, 1.0)) * (largest + 1.0) / 2.0)


def gradient(
    parts: Parts[Point], n: int, manifold: Manifold, at: Point, diameter: float
) -> tuple[FloatArray, float, float]:
    """Return g, ``(d,)``, ‖g‖ and L at a point, which is a factor where the records are factors."""
    own: Any = getattr(manifold, "logs_of_factors", manifold.log)
    bent, reach = -manifold.curvature[0], 2.0 * diameter
    largest = math.sqrt(1.0 + bent * reach**2)

    def scaled(part: Point) -> Sized:
        logs = own(at, part)
        hessians = np.sqrt(1.0 + bent * np.sum(logs**2, axis=-1, keepdims=True))
        vectors = np.concatenate([logs / reach, hessians / largest], axis=-1)
        return vectors, sizes(vectors, np.zeros(vectors.shape[1]), 0)

    whole = Clipping(np.zeros(manifold.dim + 1), np.ones(manifold.dim + 1), 0, 0.0, 0.0, 0.0, 2.0)
    *pull, hessian = clipped_mean((scaled(part) for part in parts), n, whole)
    found = np.array(pull) * reach
    size = float(np.linalg.norm(found))
    return found, size, float(hessian) * largest + math.sqrt(bent) * size
