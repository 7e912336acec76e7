"""Small manifolds, budgets and statistics on which every mechanism is tried."""

import math
from typing import Any

import numpy as np
from sample_manifolds import MEDIUM

from covdp.mechanisms import MECHANISMS, Mechanism
from covdp.mechanisms.base import Points
from covdp.privacy import GDP, RDP, ZCDP, ApproxDP, Budget, PureDP, RaoDP

SPACES = MEDIUM
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


def knobs(name: str, space: str) -> dict[str, Any]:
    """Return what a family needs besides budget, sensitivity and manifold."""
    curved = SPACES[space].curvature[1] > 0.0
    return {"radius": 0.3} if curved and "radius" in MECHANISMS[name].options else {}


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
    """Return a point near the origin, or the records that a family takes in its place."""
    rng, manifold = np.random.default_rng(seed), SPACES[space]
    records = MECHANISMS[name].statistic == "records"
    count = 6 if records else 1
    tangent = 0.1 * rng.standard_normal((count, manifold.dim)) / math.sqrt(manifold.dim)
    points = manifold.exp(manifold.origin, tangent)
    return points if records else points[0]
