"""Small manifolds, budgets and statistics on which every mechanism is tried."""

import math
from typing import Any

import numpy as np

from pipeline.geometry import MANIFOLDS, Manifold
from pipeline.mechanisms import MECHANISMS
from pipeline.mechanisms.family import Mechanism, Points
from pipeline.privacy import GDP, RDP, ZCDP, ApproxDP, Budget, PureDP, RaoDP

SPACES: dict[str, Manifold] = {
    "spd-log-euclidean": MANIFOLDS["spd-log-euclidean"](k=3),
    "spd-log-cholesky": MANIFOLDS["spd-log-cholesky"](k=3),
    "spd-affine-invariant": MANIFOLDS["spd-affine-invariant"](k=3),
    "hyperbolic": MANIFOLDS["hyperbolic"](dim=3),
    "sphere": MANIFOLDS["sphere"](dim=2),
    "kendall": MANIFOLDS["kendall"](landmarks=5),
}
BUDGETS: dict[str, tuple[Budget, Budget]] = {
    "pure": (PureDP(0.5), PureDP(2.0)),
    "approx": (ApproxDP(0.5, 1e-6), ApproxDP(2.0, 1e-6)),
    "gdp": (GDP(0.5), GDP(2.0)),
    "rdp": (RDP(3.0, 0.5), RDP(3.0, 2.0)),
    "zcdp": (ZCDP(0.1), ZCDP(2.0)),
    "rao": (RaoDP(0.5), RaoDP(2.0)),
}
CASES = [
    (name, space)
    for name, family in MECHANISMS.items()
    for space in SPACES
    if space in family.manifolds
]
LEAVES = ("extrinsic-gaussian", "euclidean-laplace")  # their output may leave the manifold


def knobs(name: str, space: str) -> dict[str, Any]:
    """Return what a family needs besides budget, sensitivity and manifold."""
    return {"radius": 0.3} if name == "kng" and space in ("sphere", "kendall") else {}


def make(
    name: str, space: str, *, sensitivity: float = 0.05, budget: Budget | None = None
) -> Mechanism:
    """Calibrate the mechanism to `budget`, or to the larger of the first definition it knows."""
    family = MECHANISMS[name]
    chosen = BUDGETS[family.definitions[0]][1] if budget is None else budget
    return family.calibrate(
        chosen, sensitivity=sensitivity, manifold=SPACES[space], **knobs(name, space)
    )


def statistic(name: str, space: str, seed: int = 60) -> Points:
    """Return a point near the origin, or the records that kng takes in its place."""
    rng, manifold = np.random.default_rng(seed), SPACES[space]
    count = 6 if name == "kng" else 1
    tangent = 0.1 * rng.standard_normal((count, manifold.dim)) / math.sqrt(manifold.dim)
    points = manifold.exp(manifold.origin, tangent)
    return points if name == "kng" else points[0]
