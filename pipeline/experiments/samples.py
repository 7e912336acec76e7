"""Samples of a class and their releases: what is repeated where released values are judged."""

from dataclasses import replace

import numpy as np

from pipeline.experiments.montecarlo import Setting
from pipeline.geometry import Manifold, Point, flat_chart
from pipeline.mean import AdaptivePlan, Plan, Release, admit, mean
from pipeline.mechanisms.noise import FloatNoise
from pipeline.privacy import Budget


def space_of(setting: Setting) -> Manifold:
    """Return where records are placed: the chart of a flat manifold, else the manifold."""
    return flat_chart(setting.manifold) if setting.manifold.flat else setting.manifold


def place(points: Point, setting: Setting) -> Point:
    """Return the points of a class as records, in `space_of`."""
    return admit(points, domain=setting.domain, manifold=setting.manifold).placed


def draw_sample(placed: Point, n: int, rng: np.random.Generator) -> Point:
    """Return n records, drawn with replacement."""
    return np.asarray(placed[rng.integers(len(placed), size=n)])


def draw_mixed(
    placed: Point, rare: Point | None, share: float, n: int, rng: np.random.Generator
) -> Point:
    """Return n records, drawn with replacement; each is of the rare ones with this probability."""
    drawn = draw_sample(placed, n, rng)
    if rare is not None:
        others = np.flatnonzero(rng.random(n) < share)
        drawn[others] = draw_sample(rare, len(others), rng)
    return drawn


def release(
    placed: Point, budget: Budget, plan: Plan, setting: Setting, rng: np.random.Generator
) -> Release:
    """Return a private mean of records that are placed already; adaptive with second moment."""
    if isinstance(plan, AdaptivePlan):
        plan = replace(plan, moment=True)
    return mean(
        placed,
        budget,
        domain=setting.domain,
        manifold=space_of(setting),
        plan=plan,
        noise=FloatNoise(rng),
    )
