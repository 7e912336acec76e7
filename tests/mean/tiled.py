"""Private means of classes whose labels are secret."""

from typing import Any

import numpy as np

from covdp.datasets import open_dataset
from covdp.descriptors import describe, domain
from covdp.geometry import MANIFOLDS, Point
from covdp.mean import (
    AdaptivePlan,
    Labels,
    Release,
    admit,
    draw,
    prepare,
)
from covdp.mechanisms.noise import FloatNoise
from covdp.privacy import GDP


def tiles(label: int, name: str, n: int) -> tuple[Point, dict[str, Any]]:
    """Return descriptors of a class of `tiles`, and where they live."""
    images = next(open_dataset("tiles").chunks(label=label))[:n]
    known = domain("oct5", height=images.shape[1], width=images.shape[2], manifold=name)
    return describe(images), {"domain": known, "manifold": MANIFOLDS[name](k=5)}


def means(points: Point, where: dict[str, Any], labels: Labels, mu: float, size: int) -> Release:
    """Return several private means."""
    records = admit(points, **where, labels=labels)
    noise = FloatNoise(np.random.default_rng(3))
    return draw(prepare(records, AdaptivePlan(), rng=None), GDP(mu), noise=noise, size=size)[0]
